"""R8, R3, R11 for several tables: with the noise frozen, databases that differ in one person give the same release.

Whatever differed would be a path from private rows to the output that noise does not cover.
"""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hostile_values import VALUES
from small_databases import SCHEMAS, Person, every_person, frames
from tape import Run, compared
from tape_worlds import everything_of

import synthdp as sd
from synthdp.errors import DiscoveryWarning
from synthdp.schema.columns import Untyped

pytestmark = pytest.mark.usefixtures("few_sweeps")

OTHERS = list(every_person(rows=2, leaves=True))[:60]
PERSONS = {
    "a person without rows": Person((True,), ()),
    "a person with more rows than are used": Person((True,), ((0, "a"), (2, "b")) * 500, ((0, True),) * 300),
    "rows of nobody": Person((), ((1, "a"), (1, "a"))),
    "a person who is there twice": Person((True, False), ((0, "b"),)),
}
QUICK = {
    ("a person without rows", "no order"),
    ("a person with more rows than are used", "child of a child"),
    ("rows of nobody", "pattern"),
}
CASES = [
    pytest.param(case, name, marks=[pytest.mark.slow] * ((case, name) not in QUICK))
    for case, name in itertools.product(PERSONS, SCHEMAS)
]


def neighbours(case: str, relation: str) -> list[Person]:
    """Return `OTHERS` with one more person, or with another in place of the first, who has the first one's key.

    All others keep their keys: a key has a say in which rows of its person are used.
    """
    return [PERSONS[case], *OTHERS[1:]] if relation == "replace_one" else [*OTHERS, PERSONS[case]]


def everything(tables: dict[str, pd.DataFrame], name: str, relation: str) -> Run:
    """Return the run that releases a database and keeps all that leaves."""

    def run(place: Path) -> dict[str, object]:
        made = sd.DatabaseRelease(schema=SCHEMAS[name], epsilon=1.0, neighbors=relation, random_state=0).fit(tables)
        made.report(place / "report.html")
        return everything_of(made, place, pages=False)

    return run


@pytest.mark.sampled
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize(("case", "name"), CASES)
def test_databases_that_differ_in_one_person_give_the_same_trace_and_the_same_output(case, name, relation, tmp_path):
    first, second = (
        everything(frames(persons, SCHEMAS[name]), name, relation) for persons in (OTHERS, neighbours(case, relation))
    )
    found = compared(first, second, tmp_path)
    assert found.faults == ()
    assert found.outcome == ""
    assert found.questions >= 2  # noise may say that there is hardly anybody


DAYS = sd.DatabaseSchema(
    {
        "persons": sd.Schema({"since": sd.Date("2020-01-01", "2020-03-01")}),
        "rows": sd.Schema(
            {
                "first": sd.Date("2020-01-01", "2020-03-01"), "last": sd.Date("2020-01-01", "2020-03-01", nullable=True),
                "v": sd.Categorical(["a", "b"]),
            }
        ),
    },
    [sd.Relation("persons", "rows", key="id", at_most=3, order="first")],
    [sd.LessEqual("rows.first", "rows.last"), sd.LessEqual("persons.since", "rows.first")],
)  # fmt: skip
"""Days between two dates are attributes of these rows; with much budget, tables of three attributes are measured, too."""

HOSTILE_DAYS = {
    "a day before the first": [("2020-02-01", "2020-01-01", "a")],
    "no last day": [("2020-02-01", None, "b"), (None, "2020-02-01", "b")],
    "days beyond all bounds": [("1900-01-01", "2200-01-01", "a")] * 500,
}


def tables_of_days(extra: list[tuple[str | None, str | None, str]]) -> dict[str, pd.DataFrame]:
    """Some persons, each with two rows, and one more person with other rows."""
    rng = np.random.default_rng(0)
    day = np.datetime64("2020-01-01", "s")
    first = day + rng.integers(0, 30, 80).astype("timedelta64[D]")
    last = first + rng.choice([0, 7, 20], 80).astype("timedelta64[D]")
    rows = pd.DataFrame({"id": np.arange(80) // 2, "first": first, "last": last, "v": rng.choice(["a", "b"], 80)})
    ids = range(40 + bool(extra))
    more = pd.DataFrame(extra, columns=["first", "last", "v"]).assign(id=40)
    more = more.assign(**{name: pd.to_datetime(more[name]).astype("datetime64[s]") for name in ("first", "last")})
    both = pd.concat([rows, more[["id", "first", "last", "v"]]], ignore_index=True) if extra else rows
    return {"persons": pd.DataFrame({"id": ids, "since": np.full(len(ids), day)}), "rows": both}


@pytest.mark.sampled
@pytest.mark.parametrize("case", HOSTILE_DAYS)
def test_days_between_two_dates_of_one_person_tell_nothing_beside_the_noise(case, tmp_path):
    def released(tables: dict[str, pd.DataFrame]) -> Run:
        def run(place: Path) -> dict[str, object]:
            made = sd.DatabaseRelease(schema=DAYS, epsilon=5.0, random_state=0).fit(tables)
            return everything_of(made, place, pages=False)

        return run

    found = compared(released(tables_of_days([])), released(tables_of_days(HOSTILE_DAYS[case])), tmp_path)
    assert found.faults == ()
    assert found.outcome == ""
    assert found.questions >= 4


OPEN = sd.DatabaseSchema(
    {"persons": sd.Schema({"p": sd.Boolean()}), "rows": sd.Schema({"t": sd.Integer(), "v": sd.Categorical()})},
    [sd.Relation("persons", "rows", key="id", at_most=3)],
)


@pytest.mark.sampled
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("case", PERSONS)
def test_what_is_discovered_of_several_tables_tells_nothing_of_one_person_beside_the_noise(case, relation, tmp_path):
    """With the noise frozen, questions, findings, receipt, warnings and files are the same with another person."""

    def released(persons: list[Person]) -> Run:
        tables = frames(persons, OPEN)

        def run(place: Path) -> dict[str, object]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DiscoveryWarning)  # hardly any row is found among so few
                made = sd.DatabaseRelease(schema=OPEN, epsilon=4.0, neighbors=relation, random_state=0).fit(tables)
            return everything_of(made, place, pages=False)

        return run

    found = compared(released(OTHERS), released(neighbours(case, relation)), tmp_path)
    assert found.faults == ()
    assert found.outcome == ""
    assert found.questions >= 3


HOSTILE = list(VALUES)
BY_THREES = [tuple(HOSTILE[i : i + 3]) for i in range(0, len(HOSTILE), 3)]
BOTH_OPEN = sd.DatabaseSchema(
    {
        "persons": sd.Schema({"p": sd.Boolean()}),
        "rows": sd.Schema({"t": sd.Integer(nullable=True), "v": Untyped(nullable=True, other="other")}),
    },
    [sd.Relation("persons", "rows", key="id", at_most=3)],
)


@pytest.mark.sampled
@pytest.mark.parametrize("names", BY_THREES)
def test_values_that_nobody_expects_in_open_columns_tell_nothing_beside_the_noise(names, tmp_path):
    """A person whose rows hold three of them, in numbers and in what has no type, before all other rows."""

    def released(*values: object) -> Run:
        tables = {name: one.astype(object) for name, one in frames(OTHERS, BOTH_OPEN).items()}
        mine = pd.DataFrame({"id": "new", "row": "new", "t": pd.Series([*values], dtype=object)}, dtype=object)
        mine["v"] = mine["t"]
        tables["rows"] = pd.concat([mine, tables["rows"]], ignore_index=True)

        def run(place: Path) -> dict[str, object]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DiscoveryWarning)
                made = sd.DatabaseRelease(schema=BOTH_OPEN, epsilon=4.0, random_state=0).fit(tables)
            return everything_of(made, place, pages=False)

        return run

    found = compared(released(), released(*(VALUES[name] for name in names)), tmp_path)
    assert found.faults == ()
    assert found.outcome == ""
    assert found.questions >= 3
