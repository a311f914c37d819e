"""Broken builds of a series of releases: what its periods cost together, and what is told after a crash."""

from __future__ import annotations

from broken_builds.mutation import Mutation

_NEIGHBOURS = (
    "tests/unit/curator/test_series_room.py::"
    "test_no_neighbouring_series_are_told_apart_beyond_the_promise_and_some_are_as_far"
)
_UNITS = "tests/unit/curator/test_series_room.py::test_a_unit_in_several_periods_costs_no_more_than_the_promise"
_PANEL = "tests/unit/curator/test_panel_room.py"
_CORRECTIONS = "tests/unit/curator/test_series_corrections.py"
_CRASH = "tests/privacy/test_series_crashes.py::test_a_killed_process_neither_loses_a_period_nor_answers_twice"

MUTATIONS = (
    Mutation(
        "the columns of a series' factor have no norm",
        "R19",
        "cost_matrix",
        "factor.T @ factor",
        "factor[:1].T @ factor[:1]",
        (_NEIGHBOURS,),
    ),
    Mutation(
        "a unit in several periods of a series pays for one",
        "R11",
        "worst_cost",
        "size = min(at_most, periods)",
        "size = 1",
        (_UNITS,),
    ),
    Mutation(
        "a period of a series is counted twice",
        "R5",
        "SeriesRoom.answers",
        "[*(told[i] for told in earlier), exact]",
        "[*(told[i] for told in earlier), 2 * exact]",
        (_NEIGHBOURS,),
    ),
    Mutation(
        "a later plan of a series forgets what earlier ones cost",
        "R19",
        "SeriesRoom.costs",
        "int(plan['start']) < before",
        "int(plan['start']) < 0",
        ("tests/unit/curator/test_series_room.py::test_plans_that_count_earlier_rows_again_keep_the_promise",),
    ),
    Mutation(
        "noise of an interrupted period of a series is drawn again",
        "R8",
        "Journal.noised",
        "self._state.has(name)",
        "self._state.has('')",
        (_CRASH,),
    ),
    Mutation(
        "noise of a later period of a series is drawn again",
        "R8",
        "SeriesRoom.answers",
        "not self._state.has(name)",
        "True",
        ("tests/unit/curator/test_series_room.py::test_a_later_period_is_told_the_same_when_it_is_asked_again",),
    ),
    Mutation(
        "units of a series may have rows in one period more",
        "R11",
        "SeriesRoom._encoded",
        "times >= most",
        "times > most",
        ("tests/unit/curator/test_series_room.py::test_units_have_rows_in_as_many_periods_as_they_may_and_no_more",),
    ),
    Mutation(
        "a series takes any rows as its history",
        "R8",
        "SeriesRoom._read",
        "found != known if by_period else (sum(found) - sum(known)) % MODULUS",
        "False",
        ("tests/unit/curator/test_series_room.py::test_a_new_plan_needs_the_earlier_rows_unchanged",),
    ),
    Mutation(
        "a row that a series takes back counts twice",
        "R5",
        "PeriodRows.exact",
        "found - back.exact(statistic)",
        "found - 2 * back.exact(statistic)",
        (f"{_CORRECTIONS}::test_a_row_and_its_correction_cost_no_more_than_the_promise",),
    ),
    Mutation(
        "corrections of a series need no bound on a unit's periods",
        "R11",
        "SeriesRoom._check_taken_back",
        "self.terms.adjacency.unit is None or self.terms.most_periods < 2",
        "False",
        (f"{_CORRECTIONS}::test_corrections_need_a_unit_with_several_periods_and_an_earlier_period",),
    ),
    Mutation(
        "every period of a panel is told at the whole budget",
        "R19",
        "PanelRoom.__init__",
        "math.sqrt(terms.periods - terms.window + 1)",
        "1",
        (f"{_PANEL}::test_no_person_costs_more_than_the_promise_whatever_it_does",),
    ),
    Mutation(
        "a panel tells more periods than were paid for",
        "R19",
        "PanelRoom.add",
        "not 0 <= period < self.terms.periods",
        "False",
        (f"{_PANEL}::test_periods_come_in_order_and_are_as_many_as_agreed",),
    ),
    Mutation(
        "an interrupted period of a panel takes other rows",
        "R8",
        "PanelRoom.add",
        "not np.array_equal(self._state.read(told)['mark'], mark)",
        "False",
        (f"{_PANEL}::test_the_same_period_is_told_the_same_and_other_rows_are_refused",),
    ),
)
