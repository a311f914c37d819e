"""Days between two dates as attributes: what they are, that a person moves them as stated, and that they come out again."""

import itertools
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from small_databases import codes_of, tables_of

import synthdp as sd
from synthdp.curator import Curator
from synthdp.domain.axis import Axis
from synthdp.domain.differences import differences_of
from synthdp.domain.histories import Layout
from synthdp.domain.history_rules import barriers_of
from synthdp.mechanisms.related.related_tables import RelatedTables
from synthdp.privacy.loss import loss_of
from synthdp.queries.person_tables import Kind, PersonTables

DAYS = ["2020-01-01", "2020-01-02", "2020-01-03"]


def schema(*, order: str | None = None, nullable: bool = False) -> sd.DatabaseSchema:
    """Persons with a day, and rows with two, of which the last is not before the first, nor that before the person's."""
    return sd.DatabaseSchema(
        {
            "persons": sd.Schema({"since": sd.Date(DAYS[0], DAYS[2])}),
            "rows": sd.Schema(
                {"last": sd.Date(DAYS[1], DAYS[2], nullable=nullable), "first": sd.Date(DAYS[0], DAYS[1])}
            ),
        },
        [sd.Relation("persons", "rows", key="id", at_most=2, order=order)],
        [sd.LessEqual("rows.first", "rows.last"), sd.LessEqual("persons.since", "rows.first")],
    )


def every_person() -> Iterator[tuple[str | None, tuple[tuple[str | None, str], ...]]]:
    kinds = list(itertools.product([*DAYS, None], DAYS))
    for many in range(3):
        for mine in itertools.combinations_with_replacement(kinds, many):
            for since in (None, DAYS[0], DAYS[2]):
                yield since, mine


def frames() -> dict[str, pd.DataFrame]:
    persons, rows = [], []
    for i, (since, mine) in enumerate(every_person()):
        persons += [] if since is None else [(i, since)]
        rows += [(i, last, first) for last, first in mine]
    made = {
        "persons": pd.DataFrame(persons, columns=["id", "since"]),
        "rows": pd.DataFrame(rows, columns=["id", "last", "first"]),
    }
    for name, days in (("persons", ["since"]), ("rows", ["last", "first"])):
        made[name] = made[name].assign(**{day: pd.to_datetime(made[name][day]) for day in days})
    return made


@pytest.mark.sampled
@pytest.mark.parametrize("order", [None, "first"])
@pytest.mark.parametrize("nullable", [False, True])
def test_a_person_moves_tables_of_days_between_by_no_more_than_their_bounds(
    order: str | None, *, nullable: bool
) -> None:
    layout = Layout(schema(order=order, nullable=nullable))
    names = {one.name for one in layout.differences.values()}
    tables = [
        one for one in tables_of(layout) if names & {one.attribute, one.other, *(part.other for part in one.parts)}
    ]
    assert {Kind.ONE, Kind.ROW, Kind.PARENT, Kind.TRIPLE} <= {one.kind for one in tables}
    queries = PersonTables(layout, tuple(tables), tuple(1 + i % 3 for i in range(len(tables))))
    different = np.unique(codes_of(frames(), layout), axis=0)
    added = np.array([queries.sums(record[None]) for record in different])
    one, swap = queries.bounds.one, queries.bounds.swap
    assert added.sum(axis=1).max() <= one.l1
    assert (added**2).sum(axis=1).max() <= one.l2_squared
    for other in added[:: max(1, len(added) // 15)]:
        moved = added - other
        assert np.abs(moved).sum(axis=1).max() <= swap.l1
        assert (moved**2).sum(axis=1).max() <= swap.l2_squared


def test_days_between_are_those_of_the_rows() -> None:
    """Of a single row, whatever it holds: the days, that a value is missing, or that they do not fit."""
    layout = Layout(schema(nullable=True))
    between = layout.differences["rows", "first"]
    grid = layout.axis(1, between.name).grid
    for last, first in itertools.product([*DAYS, None], DAYS):
        inside = max(pd.Timestamp(last), pd.Timestamp(DAYS[1])) if last else None  # as values beyond bounds count
        days = None if inside is None else inside - min(pd.Timestamp(first), pd.Timestamp(DAYS[1]))
        tables = {
            "persons": pd.DataFrame({"id": [1], "since": pd.to_datetime([DAYS[0]])}),
            "rows": pd.DataFrame({"id": [1], "last": pd.to_datetime([last]), "first": pd.to_datetime([first])}),
        }
        wanted = grid.null if days is None else days.days if days.days >= 0 else grid.other
        (record,) = codes_of(tables, layout)
        cell = layout.axis(1, between.name).cells_of(np.array([wanted], np.uint32))[0]
        assert record[layout.place[1][between.name][0]] == cell, (last, first)


def test_one_difference_a_column_and_none_of_a_column_that_orders_rows() -> None:
    def found(order: str | None) -> list[tuple[str, str]]:
        return [(".".join(one.second), one.name) for one in differences_of(schema(order=order)).values()]

    assert found(None) == [("rows.first", "#last - first")]  # of the day that is declared first the other follows
    assert found("first") == [("rows.last", "#last - first")]  # what orders rows is drawn before all others
    assert found("last") == [("rows.first", "#last - first")]


@pytest.mark.parametrize("order", [None, "first"])
def test_cells_that_no_days_lead_to_are_closed(order: str | None) -> None:
    """Against every pair of days, over cells of one grid point and of several."""
    given = schema(order=order)
    layout = Layout(given)
    for between in layout.differences.values():
        place = between.second
        column = given.tables[place[0]][place[1]]
        coarse = layout.with_cells({place: Axis(place[1], column, np.array([0, 2]), np.array([0, 1]))})
        for one in (layout, coarse):
            barrier = next(b for b in barriers_of(one) if b.days == between.name)
            axes = [one.axis(one.position(between.first[0]), between.first[1]) if between.first[1] != order else None]
            first = axes[0] or one.tables[one.position(between.first[0])].periods
            days, second = one.axis(1, between.name), one.axis(1, place[1])
            assert first is not None
            possible = np.zeros((first.size, days.size, second.size))
            for a in range(first.grid.regular):
                for d in range(days.grid.regular):
                    b = int(between.second_day(np.array(a), np.array(d)))
                    if 0 <= b < second.grid.regular:
                        cells = [
                            int(axis.cells_of(np.array([x], np.uint32))[0])
                            for axis, x in ((first, a), (days, d), (second, b))
                        ]
                        possible[tuple(cells)] += 1
            table = barrier.possible.reshape(possible.shape)
            regular = np.ix_(*(np.arange(axis.regular) for axis in (first, days, second)))
            assert (table[regular] == (possible[regular] > 0)).all()


@pytest.mark.landing
def test_lengths_and_the_last_day_come_out_as_they_went_in() -> None:
    """Half of all rows run for exactly 100 days, and those that would end later end on the last day."""
    rng = np.random.default_rng(0)
    start = rng.integers(0, 365, 6000)
    length = np.where(rng.random(6000) < 0.5, 100, rng.integers(0, 300, 6000))
    end = np.minimum(start + length, 364)
    day = np.datetime64("2020-01-01", "s")
    rows = pd.DataFrame({"id": np.arange(6000) // 2, "start": day, "end": day})
    rows["start"] += pd.to_timedelta(start, "D")
    rows["end"] += pd.to_timedelta(end, "D")
    dates = sd.Date("2020-01-01", "2020-12-30")
    given = sd.DatabaseSchema(
        {"persons": sd.Schema({"flag": sd.Boolean()}), "rows": sd.Schema({"start": dates, "end": dates})},
        [sd.Relation("persons", "rows", key="id", at_most=2, order="start")],
        [sd.LessEqual("rows.start", "rows.end")],
    )
    persons = pd.DataFrame({"id": np.arange(3000), "flag": True})
    tables = {"persons": persons, "rows": rows}
    with Curator(tables, schema=given, budget=loss_of(5.0, 1e-9)) as curator:
        release = RelatedTables(sweeps=(4, 12), particles=1500).release(curator, random_state=0)
    made = release.sample(random_state=1)["rows"]
    days = (made["end"] - made["start"]).dt.days
    assert (days >= 0).all()
    assert abs((days == 100).mean() - (end - start == 100).mean()) < 0.1
    assert abs((made["end"] == pd.Timestamp("2020-12-30")).mean() - (end == 364).mean()) < 0.06
