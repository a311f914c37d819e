"""R40 for survey weights: of every source, whatever a row weighs, no question moves by more than was stated."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from tape import compared
from tape_worlds import DECLARED, PROMISES, ROWS, SOURCES, everything_of, rows_for

import synthdp as sd

BOUNDS = (0.5, 1000.0)
COLUMNS = ("age", "city")


def run(table: Any, promise: str, place: Path) -> dict[str, Any]:
    """Release a table in which pay is the weight, and keep all that leaves."""
    made = sd.SyntheticRelease(
        schema=DECLARED.part(COLUMNS), weight="pay", weight_bounds=BOUNDS, epsilon=2.0, delta=1e-6, random_state=0,
        ledger=place / "l.sqlite", dataset="d", **PROMISES[promise],
    )  # fmt: skip
    try:
        made.fit(table)
    finally:
        spent = [(one.state, one.loss) for one in sd.Ledger(place / "l.sqlite").entries("d")]
        for part in place.glob("l.sqlite*"):
            part.unlink()  # it holds the time, and stays at home
    made.set_params(ledger=None)
    answer = made.answer(sd.share("age > 4", weight="pay"))
    return {**everything_of(made, place, pages=False), "spent": str(spent), "answers": str(answer)}


def names_for(source: str) -> list[str]:
    """Hostile rows of a source: a table without rows is refused, and a blank row at the end of a sheet is none."""
    blank = ("all missing",) if source == "excel" else ()
    return [name for name in rows_for(source) if name not in ("the first of all", *blank)]


def in_turns() -> list[tuple[str, str, str]]:
    """Each source once, with hostile rows and promises in turns; the slow suite has every pair."""
    found = []
    for at, source in enumerate(SOURCES):
        names = names_for(source)
        pushed = source == "sql, counts"  # exchanged rows are refused there
        found.append((source, names[7 * at % len(names)], "a row more" if pushed else [*PROMISES][at % len(PROMISES)]))
    return found


def check(cases: list[tuple[str, str, str]], folder: Path) -> None:
    found = {}
    for i, (source, name, promise) in enumerate(cases):
        settings = PROMISES[promise]
        tables = ROWS[name].pair(settings.get("neighbors", "add_remove"), settings.get("privacy_unit"))
        first, second = reversed(tables) if i % 2 else tables
        given = folder / "given"
        given.mkdir(exist_ok=True)
        found[source, name, promise] = compared(
            lambda place, rows=first: run(SOURCES[source](rows, given), promise, place),  # noqa: B023 - called at once
            lambda place, rows=second: run(SOURCES[source](rows, given), promise, place),  # noqa: B023
            folder,
        )
    assert {case: one.faults for case, one in found.items() if one.faults} == {}
    assert {case: one.outcome for case, one in found.items() if one.outcome} == {}
    assert max(one.largest for one in found.values()) > 0
    assert all(one.questions > 2 for one in found.values())


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("cases", [in_turns()[i::8] for i in range(8)])
def test_all_that_leaves_a_release_with_weights_is_equal_on_neighbours(cases, tmp_path):
    check(cases, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("promise", PROMISES)
@pytest.mark.parametrize("source", [source for source in SOURCES if source != "sql, counts"])
def test_all_that_leaves_every_pair_is_equal(source, promise, tmp_path):
    names = names_for(source)
    check(list(itertools.product([source], names, [promise])), tmp_path)
