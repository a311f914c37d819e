"""Broken builds of ledgers and of sessions that answer again and again."""

from __future__ import annotations

from broken_builds.mutation import Mutation

MUTATIONS = (
    Mutation(
        "the sparse vector answers above the threshold for ever",
        "R8",
        "SparseVector.ask",
        "before.alarms + 1",
        "before.alarms",
        ("tests/unit/curator/test_sparse_vector.py::test_no_more_alarms_are_raised_than_were_paid_for",),
    ),
    Mutation(
        "a cap is not looked at",
        "R13",
        "Ledger._check",
        "spent + asked[i]",
        "spent",
        ("tests/privacy/test_room.py::test_eight_processes_race_for_a_cap_of_three",),
    ),
    Mutation(
        "a spend counts only when it is committed",
        "R13",
        "Ledger._spent",
        "\"SELECT loss FROM spends WHERE dataset = ? AND state != 'returned'\"",
        "\"SELECT loss FROM spends WHERE state = 'committed' AND dataset = ?\"",
        ("tests/privacy/test_room.py::test_a_process_killed_between_reserve_and_commit_has_spent",),
    ),
    Mutation(
        "a mistyped data set is not said aloud",
        "R30",
        "Ledger.reserve",
        "self._warn_uncapped(db, dataset, new=found is None)",
        "None",
        ("tests/unit/curator/test_ledger.py::test_a_mistyped_data_set_is_said_aloud_with_the_name_that_was_meant",),
    ),
    Mutation(
        "threads that ask one watch are answered at the same time",
        "R29",
        "GuardedTable.turn",
        """
with self._lock:
    yield self._table
    self._check_process()
""",
        """
if True:
    yield self._table
    self._check_process()
""",
        (
            "tests/privacy/test_sessions.py::test_threads_that_ask_a_watch_at_once_get_no_more_answers_than_were_paid_for",
        ),
    ),
    Mutation(
        "a forked child spends its copy of a budget",
        "R29",
        "GuardedTable.turn",
        """
self._check_process()
with self._lock:
    yield self._table
    self._check_process()
""",
        """
with self._lock:
    yield self._table
    self._check_process()
""",
        ("tests/privacy/test_processes.py::test_a_forked_child_is_refused_before_anything_is_read_charged_or_written",),
    ),
    Mutation(
        "a fork in mid-question is answered twice",
        "R29",
        "GuardedTable.turn",
        """
self._check_process()
with self._lock:
    yield self._table
    self._check_process()
""",
        """
self._check_process()
with self._lock:
    yield self._table
""",
        ("tests/privacy/test_processes.py::test_a_fork_in_the_middle_of_a_question_answers_it_once",),
    ),
    Mutation(
        "a saved session may be continued for ever",
        "R29",
        "SparseVector.continued",
        "saved.claim()",
        "None",
        ("tests/privacy/test_sessions.py::test_whatever_strikes_while_a_session_is_continued_no_two_can_be_asked",),
    ),
    Mutation(
        "a watch that is asked while it is asked answers once more",
        "R29",
        "SparseVector._exchange",
        "self._state is not before",
        "False",
        (
            "tests/privacy/test_sessions.py::test_a_watch_that_is_asked_while_it_is_asked_gives_no_more_answers_than_were_paid_for",
        ),
    ),
    Mutation(
        "a watch shows the state that hides its level",
        "R28",
        "SparseVector.alarms",
        "self._state.alarms",
        "self._state",
        ("tests/privacy/test_sealed.py::test_no_row_and_no_hidden_noise_can_be_reached_from_a_session",),
    ),
    Mutation(
        "the hidden level is handed to a mechanism",
        "R28",
        "sparse_vector.continued",
        "document.pop('watch', None)",
        "document.get('watch')",
        ("tests/privacy/test_sealed.py::test_neither_can_they_from_a_session_that_is_being_continued",),
    ),
    Mutation(
        "a watch is asked about other columns",
        "R33",
        "cell_total",
        "check_question(table, query)",
        "None",
        ("tests/privacy/test_other_schemas.py::test_a_watch_is_not_asked_about_columns_declared_otherwise",),
    ),
    Mutation(
        "a session saved before its first slot has none",
        "R34",
        "learned",
        "0.0",
        "[]",
        (
            "tests/unit/works/sparse/test_sparse_weights.py::test_a_session_saved_before_its_first_slot_answers_and_learns",
        ),
    ),
    Mutation(
        "a ledger's commit is not synced to the folder",
        "R30",
        "LedgerFile.writing",
        "'PRAGMA synchronous = EXTRA'",
        "'PRAGMA synchronous = FULL'",
        ("tests/unit/curator/test_ledger_file.py::test_every_commit_syncs_the_file_and_its_folder",),
    ),
    Mutation(
        "an old ledger's spends are taken for those of rows",
        "R30",
        "Ledger._check_known",
        "counted is None",
        "False",
        (
            "tests/unit/curator/test_ledger_file.py::test_nothing_is_added_to_old_spends_before_someone_says_whose_they_are",
        ),
    ),
    Mutation(
        "a ledger takes a key twice",
        "R13",
        "Ledger._check_unspent",
        "row is not None",
        "False",
        ("tests/unit/curator/test_ledger_key.py::test_a_second_spend_under_a_key_is_refused_and_nothing_is_written",),
    ),
    Mutation(
        "a ledger's file takes a key twice",
        "R13",
        "ledger_file._bring_up_to_date",
        "db.execute(statement)",
        "db.execute(statement.replace('UNIQUE ', ''))",
        ("tests/unit/curator/test_ledger_key.py::test_the_file_itself_holds_one_spend_a_key",),
    ),
    Mutation(
        "each end of a program before all is spent may use all of delta",
        "R6, R8",
        "EarlyEnds.cost",
        "self.delta / len(self.shares)",
        "self.delta",
        (
            "tests/unit/privacy/test_early_ends.py::test_all_courses_of_events_together_exceed_their_promises_by_no_more_than_delta",
        ),
    ),
    Mutation(
        "what is set aside for early ends buys noise as well",
        "R6, R8",
        "gaussian_account",
        "loss.delta - aside - loss.delta * ends",
        "loss.delta - aside",
        (
            "tests/unit/privacy/test_early_ends.py::test_all_courses_of_events_together_exceed_their_promises_by_no_more_than_delta",
        ),
    ),
    Mutation(
        "a program that was given up costs the least that was named",
        "R8",
        "EarlyEnds.cost",
        "spent <= share * (1 + ROUNDING)",
        "share",
        ("tests/unit/privacy/test_early_ends.py",),
    ),
    Mutation(
        "an entry of the ledger may be raised",
        "R13",
        "Ledger._lower",
        "any((spent > most * (1 + ROUNDING) for spent, most in both))",
        "False",
        ("tests/unit/curator/test_give_up.py::test_an_entry_is_never_raised",),
    ),
    Mutation(
        "whoever knows the number of an entry may lower it",
        "R13",
        "Ledger._check_held",
        "row is None or held is not number or row[1] != text",
        "row is None",
        ("tests/unit/curator/test_give_up.py::test_only_who_holds_an_entry_may_lower_or_return_it",),
    ),
    Mutation(
        "an account that was asked in turns with a later one is lowered",
        "R13",
        "Ledger._lower",
        "db.execute('SELECT 1 FROM spends WHERE dataset = ? AND id > ? LIMIT 1', (dataset, int(number))).fetchone()",
        "None",
        ("tests/unit/curator/test_give_up.py::test_what_others_reserved_meanwhile_keeps_an_entry_whole",),
    ),
)
