"""R3, R8 for every mechanism and source: with the noise frozen, neighbours ask alike and get the same output.

A run on one table is recorded; on its neighbour the same noisy answers are handed out again.  Whatever differs then,
in how noise is asked for or in any field of the release, is a path from private rows that noise does not cover.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mechanism_cases import CANARY, CASES, Case, outputs
from no_noise import recorded, replayed, with_repeatable_noise
from planner_worlds import PLANNED, RELATIONS as RELATIONS_AND_UNITS, heard
from tape import Run, compared

from synthdp import (
    AdaptiveMarginals,
    ApproxDP,
    Boolean,
    Categorical,
    Continuous,
    Curator,
    L1Fit,
    Schema,
    SmoothSummary,
    StabilityHistogram,
)
from synthdp.release import save
from synthdp.tables.sources import csv, duckdb, parquet

RELATIONS = ["add_remove", "replace_one"]
NEIGHBOURS = [
    pytest.param(
        name, relation, strange, id=f"{name}-{relation}-{strange}", marks=[pytest.mark.slow] * ((i + j + k) % 2)
    )
    for i, (name, case) in enumerate(CASES.items())
    for j, relation in enumerate(RELATIONS)
    for k, strange in enumerate(case.world.strange)
]
"""Every strange row of every mechanism, with relations in turns; the others are ``slow``."""


def twice(first_run, second_run) -> tuple[list, list]:
    """Run one table, then its neighbour with the same noisy answers; return what was asked and what came out."""
    with pytest.MonkeyPatch.context() as patch:
        first = recorded(patch)
        expected = first_run()
    with pytest.MonkeyPatch.context() as patch:
        second = replayed(patch, first)
        found = second_run()
    return [first.draws, expected], [second.draws, found]


def everything(case: Case, table: pd.DataFrame, relation: str) -> Run:
    """Return the run that releases a table and keeps all that leaves."""

    def run(place: Path) -> dict[str, str]:
        release, warned = case.release(table, relation)
        save(release, place / "release")
        return {"release": outputs(release), "warned": str(warned), "receipt": str(release.receipt)}

    return run


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "relation", "strange"), NEIGHBOURS)
def test_neighbours_give_the_same_trace_and_the_same_release(name, relation, strange, tmp_path):
    """On the tape: every question moves by no more than was stated, and whatever leaves is equal to the last byte."""
    case = CASES[name]
    small, large = case.world.neighbours(strange, relation)
    found = compared(everything(case, small, relation), everything(case, large, relation), tmp_path)
    assert found.faults == ()
    assert found.outcome == ""
    assert found.questions >= 1


@pytest.mark.sampled
@pytest.mark.parametrize("relation", RELATIONS_AND_UNITS)
@pytest.mark.parametrize("name", PLANNED)
def test_what_the_planner_asks_follows_from_earlier_answers_alone(name, relation, monkeypatch):
    """Not only how noise is drawn, but every question to the last bit: groups, scores, expectations, tables, weights.

    In worlds in which each kind of measurement is made, of neighbours in one row and in all rows of a unit.
    """
    with_repeatable_noise(monkeypatch)
    world = PLANNED[name]

    def run(table: pd.DataFrame) -> tuple[list, str]:
        questions, release = heard(lambda: world.release(table, relation))
        asked = [(one.step, outputs(one.measured.queries), outputs(one.measured)) for one in questions]
        return asked, outputs(release.release_)

    small, large = world.neighbours("another row", relation)
    (first_draws, (first, expected)), (second_draws, (second, found)) = twice(lambda: run(small), lambda: run(large))
    for step in world.steps:
        assert any(one[0].startswith(step) for one in first)
    assert second == first
    assert second_draws == first_draws
    assert found == expected


@pytest.mark.parametrize("name", ["LaplaceAnswers", "NetMechanism", "StabilityHistogram", "SparseProjection"])
def test_an_empty_table_and_one_row_give_the_same_trace(name):
    case = CASES[name]
    table = case.world.table.astype(object)
    expected, found = twice(
        lambda: outputs(case.release(table.iloc[:0])), lambda: outputs(case.release(table.iloc[:1]))
    )
    assert found == expected


def as_frame(table: pd.DataFrame, path: Path) -> object:
    return table.astype({"x": float, "city": object})


def as_csv(table: pd.DataFrame, path: Path) -> object:
    from synthdp.tables.sources.csv import CsvSource

    table.to_csv(path.with_suffix(".csv"), index=False)
    return CsvSource(path.with_suffix(".csv"))


def as_parquet(table: pd.DataFrame, path: Path) -> object:
    from synthdp.tables.sources.parquet import ParquetSource

    as_frame(table, path).to_parquet(path.with_suffix(".parquet"), index=False)
    return ParquetSource(path.with_suffix(".parquet"))


def as_duckdb(table: pd.DataFrame, path: Path) -> object:
    import duckdb

    as_frame(table, path).to_parquet(path.with_suffix(".parquet"), index=False)
    return duckdb.connect().read_parquet(str(path.with_suffix(".parquet")))


def as_polars(table: pd.DataFrame, path: Path) -> object:
    import polars as pl

    as_frame(table, path).to_parquet(path.with_suffix(".parquet"), index=False)
    return pl.read_parquet(path.with_suffix(".parquet"))


SOURCES = {"frame": as_frame, "csv": as_csv, "parquet": as_parquet, "duckdb": as_duckdb, "polars": as_polars}
MIXED = Schema({"x": Continuous(-1, 1, nullable=True), "city": Categorical(["a", "b"], nullable=True)})
MIXED_TABLE = pd.DataFrame({"x": np.linspace(-1.5, 1, 40), "city": list("aabb") * 10})
MIXED_ROWS = {
    "another row": {"x": 0.5, "city": "a"},
    "a new category, past a bound": {"x": 1e300, "city": CANARY},
    "missing": {"x": float("nan"), "city": None},
    "infinite": {"x": float("-inf"), "city": ""},
    "a formula": {"x": 0.0, "city": "=1+1"},
    "a quote and a line break": {"x": 0.0, "city": 'a"\n,b'},
}
ASKED = {
    "AdaptiveMarginals": AdaptiveMarginals(),
    "L1Fit": L1Fit(support=50),
    "L1Fit mixed": L1Fit(basis="mixed", degree=2, support=50),
    "StabilityHistogram": StabilityHistogram(("city",)),
    "SmoothSummary": SmoothSummary(degrees=3, columns=("x",)),
}


IN_TURNS = [
    pytest.param(
        source,
        strange,
        mechanism,
        marks=[pytest.mark.slow] * (i % 2 != j % 2 or (i // 2 + j // 2 + i) % len(ASKED) != k),
    )
    for (i, source), (j, strange), (k, mechanism) in itertools.product(*map(enumerate, (SOURCES, MIXED_ROWS, ASKED)))
]
"""Every strange row in every other source, with mechanisms in turns; the others are ``slow``."""


@pytest.mark.sampled
@pytest.mark.parametrize(("source", "strange", "mechanism"), IN_TURNS)
def test_every_source_gives_the_same_trace_and_the_same_release_on_neighbours(source, strange, mechanism, tmp_path):
    larger = pd.concat([MIXED_TABLE, pd.DataFrame([MIXED_ROWS[strange]])], ignore_index=True)

    def run(table: pd.DataFrame, name: str) -> str:
        rows = SOURCES[source](table, tmp_path / name)
        curator = Curator(rows, schema=MIXED, budget=ApproxDP(1.0, 1e-6))
        return outputs(ASKED[mechanism].release(curator, random_state=0))

    expected, found = twice(lambda: run(MIXED_TABLE, "small"), lambda: run(larger, "large"))
    assert len(expected[0]) >= 2
    assert found == expected


BLOCKWISE = [
    pytest.param(source, mechanism, marks=[pytest.mark.slow] * ((i + j) % 3 != 0))
    for (i, source), (j, mechanism) in itertools.product(enumerate(["csv", "parquet", "duckdb"]), enumerate(ASKED))
]
"""Every mechanism, with sources in turns; the others are ``slow``."""


@pytest.mark.sampled("landing")
@pytest.mark.parametrize(("source", "mechanism"), BLOCKWISE)
def test_a_row_beyond_the_end_of_a_block_gives_the_same_trace(source, mechanism, tmp_path, monkeypatch):
    """A number of rows that crosses the border of a block: one table is read in one piece, its neighbour in two."""
    for module in (csv, parquet, duckdb):
        monkeypatch.setattr(module, "BLOCK_ROWS", len(MIXED_TABLE))
    larger = pd.concat([MIXED_TABLE, pd.DataFrame([MIXED_ROWS["another row"]])], ignore_index=True)

    def run(table: pd.DataFrame, name: str) -> str:
        rows = SOURCES[source](table, tmp_path / name)
        curator = Curator(rows, schema=MIXED, budget=ApproxDP(1.0, 1e-6))
        return outputs(ASKED[mechanism].release(curator, random_state=0))

    expected, found = twice(lambda: run(MIXED_TABLE, "small"), lambda: run(larger, "large"))
    assert found == expected


def test_a_release_that_knows_the_exact_number_of_rows_is_noticed():
    """The tests above can fail: one field that depends on the rows is enough."""
    small, large = CASES["LaplaceAnswers"].world.neighbours("another row", "add_remove")

    def leaky(table: pd.DataFrame) -> str:
        release, _ = CASES["LaplaceAnswers"].release(table)
        return outputs(replace(release, mechanism=f"{release.mechanism} of {len(table)} rows"))

    expected, found = twice(lambda: leaky(small), lambda: leaky(large))
    assert found[0] == expected[0]
    assert found[1] != expected[1]


def test_outputs_see_every_bit_of_an_array():
    """The comparison itself can fail."""
    first, second = np.zeros(3), np.array([0.0, 0.0, 5e-324])
    assert outputs(first) != outputs(second)
    assert outputs({"a": [first]}) == outputs({"a": [np.zeros(3)]})


@pytest.mark.parametrize("row", [[True, True, False, True], [None, "x", False, 7]], ids=["another row", "misfits"])
def test_interactions_are_asked_alike_of_neighbours(row):
    """Few cells and much budget: all main effects and interactions at once, in weights that no row decides."""
    schema = Schema({f"b{j}": Boolean() for j in range(4)})
    table = pd.DataFrame(
        [[bool(i >> j & 1) for j in range(4)] for i in range(16)] * 4, columns=list(schema), dtype=object
    )
    larger = pd.concat([table, pd.DataFrame([row], columns=list(schema), dtype=object)], ignore_index=True)

    def run(rows: pd.DataFrame) -> str:
        release = AdaptiveMarginals().release(Curator(rows, schema=schema, budget=ApproxDP(50.0, 1e-6)), random_state=0)
        assert any("interactions" in item.step for item in release.receipt.items)
        return outputs(release)

    expected, found = twice(lambda: run(table), lambda: run(larger))
    assert found == expected
