"""Rows are moved to given tables exactly, few of them, and to no forbidden cell."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from synthdp.errors import ParameterError
from synthdp.queries.contingency import contingency
from synthdp.sampling.exact_tables import ExactTable, exact_counts, in_order, moved_to_tables

SHAPE = (5, 3, 4, 6)


def rows_and_tables(seed: int, cliques: list[tuple[int, ...]], rows: int = 400) -> tuple[np.ndarray, list[ExactTable]]:
    rng = np.random.default_rng(seed)
    drawn, other = (np.column_stack([rng.integers(0, k, rows) ** 2 % k for k in SHAPE]) for _ in range(2))
    other = np.where(rng.random(other.shape) < 0.8, drawn, other)[rng.permutation(rows)]
    tables = [ExactTable(clique=c, counts=contingency(other, SHAPE, c).astype(np.int64)) for c in cliques]
    return drawn, in_order(tables)


CASES = [
    [(0,)],
    [(0, 1), (0, 2), (0, 3), (0,)],
    [(0, 1), (1, 2), (2, 3)],
    [(0, 1, 2), (0, 1, 3), (0, 1)],
    [(1,), (2,), (3,)],
]


@pytest.mark.parametrize("cliques", CASES)
@given(seed=st.integers(0, 10_000))
def test_tables_that_come_from_rows_are_reached_exactly(cliques: list[tuple[int, ...]], seed: int) -> None:
    drawn, tables = rows_and_tables(seed, cliques)
    found = moved_to_tables(drawn, SHAPE, tables, np.random.default_rng(seed))
    for table in tables:
        np.testing.assert_array_equal(contingency(found, SHAPE, table.clique), table.counts)


def test_only_as_many_rows_move_as_must_and_no_other_column() -> None:
    drawn, tables = rows_and_tables(1, [(0, 3)])
    found = moved_to_tables(drawn, SHAPE, tables, np.random.default_rng(0))
    gap = np.abs(contingency(drawn, SHAPE, (0, 3)) - tables[0].counts).sum() / 2
    assert (found != drawn).any(axis=1).sum() == gap
    np.testing.assert_array_equal(found[:, [1, 2]], drawn[:, [1, 2]])


def test_rows_that_have_their_tables_stay() -> None:
    drawn, _ = rows_and_tables(2, [(0,)])
    tables = [ExactTable(clique=(0, 2), counts=contingency(drawn, SHAPE, (0, 2)).astype(np.int64))]
    np.testing.assert_array_equal(moved_to_tables(drawn, SHAPE, tables, np.random.default_rng(0)), drawn)


def test_no_row_is_moved_to_a_forbidden_cell() -> None:
    drawn, tables = rows_and_tables(3, [(0, 3)])
    mask = np.ones((SHAPE[1], SHAPE[3]), np.bool_)
    mask[0, 1:] = False
    before = ~mask[drawn[:, 1], drawn[:, 3]]
    found = moved_to_tables(drawn, SHAPE, tables, np.random.default_rng(0), allowed={(1, 3): mask.ravel()})
    moved = (found != drawn).any(axis=1)
    assert moved.any()
    assert mask[found[moved, 1], found[moved, 3]].all()
    assert (found[before & ~moved] == drawn[before & ~moved]).all()


def test_rows_move_where_their_other_values_go_with_the_new_one() -> None:
    rng = np.random.default_rng(4)
    a = rng.integers(0, 2, 20_000)
    drawn = np.column_stack([rng.integers(0, 5, 20_000), a, np.where(rng.random(20_000) < 0.9, a, 1 - a)])
    counts = contingency(drawn, (5, 2, 2), (0, 2)).reshape(5, 2)
    wanted = np.column_stack([counts[:, 0] + 400, counts[:, 1] - 400]).astype(np.int64)
    found = moved_to_tables(drawn, (5, 2, 2), [ExactTable(clique=(0, 2), counts=wanted.ravel())], rng)
    agree = [(rows[:, 1] == rows[:, 2]).mean() for rows in (drawn, found)]
    assert agree[1] > agree[0] - 0.05  # at random it falls by .08


@given(st.lists(st.floats(0, 50), min_size=1, max_size=9).filter(lambda x: sum(x) > 0.01), st.integers(0, 500))
def test_whole_counts_have_the_sum_and_are_near(estimates: list[float], rows: int) -> None:
    values = np.array(estimates)
    found = exact_counts(values, rows)
    assert found.sum() == rows
    assert (found >= 0).all()
    assert np.abs(found - values * rows / values.sum()).max() < 1 + 1e-6


def test_wrong_tables_are_refused() -> None:
    with pytest.raises(ParameterError, match="counts"):
        ExactTable(clique=(0,), counts=np.array([1, -1]))


def test_values_that_rows_exchange_leave_the_other_columns_together() -> None:
    rng = np.random.default_rng(5)
    a = rng.integers(0, 4, 6000)
    drawn = np.column_stack([rng.integers(0, 3, 6000), rng.integers(0, 2, 6000), a, (a + (rng.random(6000) < 0.2)) % 4])
    other = drawn[rng.integers(0, 6000, 6000)]
    cliques = [(0,), (0, 1), (0, 1, 2), (0, 1, 3)]
    shape = (3, 2, 4, 4)
    tables = [ExactTable(clique=c, counts=contingency(other, shape, c).astype(np.int64)) for c in cliques]
    found = moved_to_tables(drawn, shape, tables, np.random.default_rng(0))
    for table in tables:
        np.testing.assert_array_equal(contingency(found, shape, table.clique), table.counts)
    pairs = [contingency(rows, shape, (2, 3)) / 6000 for rows in (drawn, found, other)]
    sampling = np.abs(pairs[0] - pairs[2]).sum()
    assert np.abs(pairs[1] - pairs[2]).sum() < 1.4 * sampling
