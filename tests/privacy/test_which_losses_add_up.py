"""Which losses a ledger may add: decided by brute force over all small tables, under every pair of relations."""

import itertools
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from no_noise import without_noise

from synthdp import Boolean, Curator, PureDP, Schema
from synthdp.domain.domain import domain_of
from synthdp.measurements import NoiseLaw
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.marginals import one_ways

SCHEMA = Schema({"x": Boolean()})
COLUMNS, KINDS = ["person", "house", "x"], [object, object, bool]
ROWS = list(itertools.product("ab", "cd", (False, True)))
TABLES = [table for n in range(4) for table in itertools.combinations_with_replacement(ROWS, n)]
Row = tuple[str, str, bool]
Table = tuple[Row, ...]


def without_one_row(table: Table) -> list[Table]:
    return [table[:i] + table[i + 1 :] for i in range(len(table))]


def without_one_unit(column: int) -> Callable[[Table], list[Table]]:
    """Return the tables from which all rows of one value are gone."""

    def smaller(table: Table) -> list[Table]:
        units = {row[column] for row in table}
        return [tuple(row for row in table if row[column] != unit) for unit in units]

    return smaller


def added_or_removed(smaller: Callable[[Table], list[Table]]) -> set[tuple[Table, Table]]:
    return {(table, less) for table in TABLES for less in smaller(table)}


def replaced(smaller: Callable[[Table], list[Table]]) -> set[tuple[Table, Table]]:
    """Return the tables that have what is left in common: one row, or all rows of one unit, is exchanged."""
    whole_by_rest: dict[Table, list[Table]] = {}
    for table in TABLES:
        for rest in smaller(table):
            whole_by_rest.setdefault(rest, []).append(table)
    return {pair for tables in whole_by_rest.values() for pair in itertools.product(tables, repeat=2)}


PERSON, HOUSE = without_one_unit(0), without_one_unit(1)
NEIGHBOURS = {
    Adjacency("add_remove"): added_or_removed(without_one_row),
    Adjacency("replace_one"): replaced(without_one_row),
    Adjacency("add_remove", "person", 1): added_or_removed(PERSON),
    Adjacency("add_remove", "person", 2): added_or_removed(PERSON),
    Adjacency("replace_one", "person", 1): replaced(PERSON),
    Adjacency("add_remove", "house", 1): added_or_removed(HOUSE),
    Adjacency("add_remove", "house", 3): added_or_removed(HOUSE),
}


@pytest.fixture(scope="module")
def answers() -> dict[Adjacency, dict[Table, np.ndarray]]:
    """The exact answer of every release, which claims a loss of 1, on every table, in scales of its Laplace noise."""
    with pytest.MonkeyPatch.context() as patch:
        without_noise(patch)
        return {adjacency: {table: answer(table, adjacency) for table in TABLES} for adjacency in NEIGHBOURS}


def answer(table: Table, adjacency: Adjacency) -> np.ndarray:
    columns = zip(*table, strict=True) if table else ((), (), ())
    frame = pd.DataFrame(
        {name: np.array(column, kind) for name, column, kind in zip(COLUMNS, columns, KINDS, strict=True)}
    )
    curator = Curator(
        frame, schema=SCHEMA, budget=PureDP(1.0), neighbors=adjacency.neighbors, privacy_unit=adjacency.unit,
        max_rows_per_unit=adjacency.rows,
    )  # fmt: skip
    found = curator.measure(one_ways(domain_of(SCHEMA)), law=NoiseLaw.LAPLACE)
    return found.values / found.noise.scale


@pytest.mark.parametrize(("counted", "asked"), list(itertools.product(NEIGHBOURS, repeat=2)), ids=str)
def test_losses_are_added_exactly_where_each_bounds_what_the_other_is_for(counted, asked, answers):
    """The loss between two tables is the distance of their exact answers in scales of the noise; 1 was claimed."""
    worst = []
    for release, adjacency in ((asked, counted), (counted, asked)):
        pairs = np.array([[answers[release][table] for table in pair] for pair in NEIGHBOURS[adjacency]])
        worst.append(np.abs(pairs[:, 0] - pairs[:, 1]).sum(axis=1).max())
    assert counted.adds_up_with(asked) is bool(max(worst) < 1 + 1e-9)
