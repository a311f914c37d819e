"""Broken builds of the page for data stewards: who is let in, and what it reads."""

from __future__ import annotations

from broken_builds.mutation import Mutation

MUTATIONS = (
    Mutation(
        "the page answers under any host name",
        "R28",
        "Guard._refused",
        "headers.getlist('host') != [f'127.0.0.1:{self.port}']",
        "False",
        ("tests/unit/page/test_guard.py::test_a_foreign_host_name_is_refused_although_the_cookie_is_right",),
    ),
    Mutation(
        "the link of the start opens the page twice",
        "R28",
        "Guard._open",
        "self._link = None",
        "",
        ("tests/unit/page/test_guard.py::test_a_used_link_and_a_guessed_one_are_refused",),
    ),
    Mutation(
        "a form needs no origin",
        "R28",
        "Guard._refused",
        "any(origin != self.origin for origin in origins) or (scope['method'] == 'POST' and not origins)",
        "any(origin != self.origin for origin in origins)",
        ("tests/unit/page/test_guard.py::test_a_forged_post_is_refused_and_does_nothing",),
    ),
    Mutation(
        "any token opens a form",
        "R28",
        "Guard._post",
        "len(offered) != 1 or not hmac.compare_digest(offered[0].encode(), self.form.encode())",
        "len(offered) != 1",
        ("tests/unit/page/test_guard.py::test_a_form_that_this_run_did_not_write_is_refused",),
    ),
    Mutation(
        "any cookie opens the page",
        "R28",
        "Guard._refused",
        "any((hmac.compare_digest(crumb.encode(), own.encode()) for crumb in crumbs))",
        "bool(crumbs)",
        ("tests/unit/page/test_guard.py::test_without_the_cookie_of_this_run_nothing_is_shown",),
    ),
    Mutation(
        "the page reads what a link in its folder points at",
        "R28",
        "Project.listed",
        "path.is_file() and path.resolve().parent == self.folder and not path.name.startswith('.')",
        "path.is_file() and not path.name.startswith('.')",
        ("tests/unit/page/test_screens.py::test_no_file_outside_the_folder_can_be_named",),
    ),
    Mutation(
        "a release of other answers than were planned",
        "R34",
        "outcome._release_key",
        "key is None or site.project.plan is None or site.ledger.entries(key=key)",
        "key is None or site.ledger.entries(key=key)",
        ("tests/unit/page/test_screens.py::test_a_changed_answer_makes_the_plan_stale_and_the_button_dead",),
    ),
    Mutation(
        "a release under a plan that was begun anew",
        "R34",
        "outcome.make_plan",
        "project.state.update(promise=told, key=None)",
        "project.state.update(promise=told)",
        ("tests/unit/page/test_screens.py::test_planning_again_makes_the_button_dead_until_a_promise_is_taken",),
    ),
    Mutation(
        "answers that could not be saved are kept all the same",
        "R34",
        "Project.changing",
        "self.tables, self.current = before",
        "pass",
        ("tests/unit/page/test_screens.py::test_a_full_disk_is_said_and_the_earlier_answers_stay",),
    ),
    Mutation(
        "a form whose sender hung up halfway is answered",
        "R34",
        "Guard._post",
        "message['type'] != 'http.request'",
        "False",
        ("tests/unit/page/test_guard.py::test_half_a_form_does_nothing",),
    ),
    Mutation(
        "two servers write the answers of one folder",
        "R29",
        "serve._held",
        "lock.execute('BEGIN EXCLUSIVE')",
        "lock.execute('BEGIN')",
        ("tests/unit/page/test_serve.py::test_a_folder_has_one_server_at_a_time",),
    ),
)
