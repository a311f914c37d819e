"""Distances of all pairs of columns by one matrix product: what they are, and how far a record moves them."""

import itertools
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, strategies as st
from query_cases import of_sizes

from synthdp.errors import ParameterError
from synthdp.queries.distances import MarginalDistances, PairDistances, add_pair_counts, indicators, pair_tables
from synthdp.queries.marginals import Marginals, all_cliques

UNIT = 4
TINY = of_sizes(2, 3, 2)
MARGINS = (np.array([3, 6]), np.array([4, 4, 1]), np.array([0, 9]))


def distances(codes, queries):
    return queries.finish(queries.sums(np.asarray(codes, np.uint8).reshape(len(codes), len(queries.domain))))


def any_margins(rng, sizes):
    total = int(rng.integers(1, 5000))
    return tuple(rng.multinomial(total, rng.dirichlet(np.ones(size))).astype(np.int64) for size in sizes)


@given(
    seed=st.integers(0, 2**32 - 1), sizes=st.lists(st.integers(2, 5), min_size=2, max_size=6), rows=st.integers(0, 40)
)
def test_they_are_the_distances_of_the_pairs_tables_counted_one_by_one(seed, sizes, rows):
    rng = np.random.default_rng(seed)
    domain, margins = of_sizes(*sizes), any_margins(rng, sizes)
    codes = np.column_stack([rng.integers(0, size, rows) for size in sizes]).astype(np.uint8).reshape(rows, len(sizes))
    tables = Marginals(domain, all_cliques(domain, 2))
    total = float(margins[0].sum())
    expected = np.concatenate([
        np.rint(np.outer(margins[a], margins[b] / total)).ravel() for a, b in all_cliques(domain, 2)
    ]).astype(np.int64)  # fmt: skip
    one_by_one = MarginalDistances(tables, expected, UNIT)
    together = PairDistances(domain, margins, UNIT)
    np.testing.assert_array_equal(distances(codes, together), one_by_one.finish(one_by_one.sums(codes)))


@given(seed=st.integers(0, 2**32 - 1), sizes=st.lists(st.integers(2, 4), min_size=2, max_size=5))
def test_the_counts_are_those_of_every_two_cells(seed, sizes):
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, size, 200) for size in sizes])
    counts = np.zeros(indicators(sizes) ** 2, np.int64)
    for part in np.array_split(codes, 3):
        add_pair_counts(counts, part, sizes, adding=nullcontext())
    for a, (tables, starts) in enumerate(pair_tables(counts, sizes)):
        for b, table in enumerate(np.split(tables, starts[1:], axis=1), start=a + 1):
            one = np.zeros((sizes[a], sizes[b]), np.int64)
            np.add.at(one, (codes[:, a], codes[:, b]), 1)
            np.testing.assert_array_equal(table, one)


RECORDS = np.array(list(itertools.product(*map(range, TINY.shape))), np.uint8)
TABLES = [np.array(rows, np.uint8).reshape(-1, 3) for size in range(3) for rows in
          itertools.combinations_with_replacement(RECORDS.tolist(), size)]  # fmt: skip


def largest(changes):
    changes = np.abs(np.asarray(changes))
    return changes.sum(axis=-1).max(), (changes**2).sum(axis=-1).max(), changes.max()


def test_one_record_added_moves_them_by_their_bounds_and_no_more_in_all_tiny_tables():
    queries = PairDistances(TINY, MARGINS, UNIT)
    steps = [
        distances(np.vstack([table, record]), queries) - distances(table, queries)
        for table in TABLES
        for record in RECORDS
    ]
    assert largest(steps) == (queries.bounds.one.l1, queries.bounds.one.l2_squared, queries.bounds.one.linf)


def test_one_record_replaced_moves_them_by_their_bounds_and_no_more_in_all_tiny_tables():
    sparse = (np.array([0, 0, 36]),) * 3  # far from what a row adds, so that both of its cells count
    queries = PairDistances(of_sizes(3, 3, 3), sparse, UNIT)
    records = np.array(list(itertools.product(range(3), repeat=3)), np.uint8)
    base = [np.zeros((0, 3), np.uint8), np.array([[0, 0, 0]] * 3), np.array([[1, 1, 1], [0, 0, 0], [0, 0, 0]])]
    found = [[distances(np.vstack([rows, record]), queries) for record in records] for rows in base]
    changes = [np.array(one)[:, None] - np.array(one)[None] for one in found]
    swap = queries.bounds.swap
    bounds = (swap.l1, swap.l2_squared, swap.linf)
    assert all((np.array(largest(change)) <= bounds).all() for change in changes)
    assert max(largest(change)[2] for change in changes) == swap.linf == 2 * UNIT


def test_counts_beyond_single_precision_are_exact():
    """2^24 + 1 rows alike: the least number of ones whose sum single precision cannot hold."""
    counts = np.zeros(indicators((2, 2)) ** 2, np.int64)
    rows = 2**24 + 1
    add_pair_counts(counts, np.broadcast_to(np.ones((1, 2), np.uint8), (rows, 2)), (2, 2), adding=nullcontext())
    ((tables, _),) = pair_tables(counts, (2, 2))
    assert tables.tolist() == [[0, 0], [0, rows]]


@pytest.mark.parametrize(
    ("sizes", "margins"),
    [
        ((2,), ([1, 1],)),
        ((2, 1), ([1, 1], [2])),
        ((2, 2), ([1, 1], [1, 1, 0])),
        ((2, 2), ([1, 1], [1, 2])),
        ((2, 2), ([0, 0], [0, 0])),
        ((2, 2), ([3, -1], [1, 1])),
        ((2, 2), ([2**61, 0], [2**61, 0])),
    ],
)
def test_margins_that_are_none_are_refused(sizes, margins):
    with pytest.raises(ParameterError):
        PairDistances(of_sizes(*sizes), tuple(np.array(margin) for margin in margins), UNIT)
