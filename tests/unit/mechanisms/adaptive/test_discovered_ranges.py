"""One-way trees of columns whose range was discovered: it is wide rather than narrow, and its ends line up with nothing."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from synthdp.domain.domain import axis_of
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.mechanisms.column_groups import coarsen
from synthdp.mechanisms.column_histograms import OneWayTree
from synthdp.mechanisms.column_tree import OneWay, first_trees
from synthdp.privacy.loss import GaussianDP
from synthdp.privacy.neighbors import Adjacency
from synthdp.schema.columns import DISCOVERED, Integer
from synthdp.schema.weights import Weight

DECLARED = Integer(0, 31)
FOUND = replace(DECLARED, source=DISCOVERED)


def weights(column, filled, *, stddev=10.0):
    axis = axis_of("x", column, bins=32)
    counts = np.zeros(axis.size)
    for bin_, rows in filled.items():
        counts[bin_] = rows
    return first_trees([axis], [counts], stddev, total=counts.sum())[0].rows


def test_the_ends_of_a_discovered_range_that_noise_explains_hold_no_rows():
    rows = weights(FOUND, {0: 20, 1: 15, 5: 500, 12: 400, 30: 24})
    assert rows[:5].tolist() == [0] * 5
    assert rows[13:].tolist() == [0] * 19
    assert rows[5:13].sum() == pytest.approx(959)


@pytest.mark.parametrize("tail", [{16: 26}, {14: 20, 15: 20}, {12: 14, 13: 14, 14: 14, 15: 14, 16: 14, 17: 14}])
def test_a_tail_that_is_more_than_noise_alone_or_together_is_kept(tail):
    rows = weights(FOUND, {5: 500, 6: 400} | tail)
    assert rows[list(tail)].sum() > 0


def test_the_next_of_a_falling_tail_is_kept_while_it_is_above_the_noise():
    falling = weights(FOUND, {5: 500, 6: 100, 7: 26, 8: 12, 9: 4})
    assert np.flatnonzero(falling).max() == 8
    assert np.flatnonzero(weights(FOUND, {26: 500, 25: 100, 24: 26, 23: 12, 22: 4})).min() == 23


def test_a_declared_range_keeps_its_ends():
    filled = {0: 20, 5: 500, 12: 400, 30: 24}
    assert weights(DECLARED, filled)[[0, 30]].sum() > 0
    assert weights(FOUND, {}).sum() == weights(DECLARED, {}).sum()


def test_classes_of_a_weight_end_where_its_rows_do():
    rows = weights(Weight(1, 2000), {8: 500, 9: 400, 13: 24, 15: 18})
    assert rows[10:].tolist() == [0] * 6
    assert rows[8:10].sum() == pytest.approx(942)


def test_bins_of_a_discovered_range_are_split_twice_as_readily():
    tree = OneWayTree(heavy=6.0)
    assert (tree.least_heavy(DECLARED), tree.least_heavy(FOUND)) == (6.0, 3.0)


def test_a_discovered_range_is_told_apart_more_finely_than_a_declared_one():
    tree = OneWayTree(bins=4)
    wide = {source: Integer(1_000_000, 1_009_999, source=source) for source in (None, DISCOVERED)}  # of one size
    assert [tree.first_axis("x", column).releasable.sum() for column in wide.values()] == [4, 16]


def suited(rows, **settings):
    budget = BudgetAllocation(GaussianDP(1.0), Adjacency())
    return OneWayTree(**settings).suited(budget, share=0.1, columns=10, total=rows)


def first_bins(tree):
    wide = Integer(0, 99_999, source=DISCOVERED)
    return int(tree.first_axis("x", wide).releasable.sum())


def test_a_discovered_range_has_finer_first_bins_only_where_an_average_one_would_not_be_split():
    """Whether it would be is asked of the tree: counts that are all alike, at the noise of its deeper level."""
    for rows in (100, 1_000, 2_000, 3_000, 10_000, 100_000):
        tree = suited(float(rows))
        noise = BudgetAllocation(GaussianDP(1.0), Adjacency()).table_stddev(0.01 / tree.deep**2)
        axis = axis_of("x", Integer(0, 32 * 32 - 1, source=DISCOVERED), bins=32)
        flat = first_trees([axis], [np.where(axis.releasable, rows / 32, 0)], 1e-3, total=rows)[0]
        split = flat.heavy(noise * tree.least_heavy(FOUND)).any()
        assert first_bins(tree) == {True: 32, False: 128}[bool(split)]
    assert {first_bins(suited(100.0)), first_bins(suited(1e6))} == {32, 128}


def test_a_tree_of_one_level_keeps_its_finer_bins_however_many_rows_there_are():
    assert first_bins(suited(1e9, levels=1)) == 128


def test_a_declared_range_has_as_many_first_bins_whatever_the_noise():
    declared = Integer(1_000_000, 1_099_999)
    assert {int(suited(rows).first_axis("x", declared).releasable.sum()) for rows in (10.0, 1e6)} == {32}


def grouped(column, leaves, target):
    """The groups of the leaves of one bin of the first histogram."""
    axis = axis_of("x", column, bins=32)
    first = axis_of("x", column, bins=1)
    weights = np.zeros(axis.size)
    weights[: len(leaves)] = leaves
    counts = np.zeros(first.size)
    counts[0] = weights.sum()
    return coarsen(OneWay(axis, weights, first, counts, 1.0), target).coarse_cell[: len(leaves)].tolist()


def test_several_heaps_in_one_bin_of_a_discovered_range_get_groups_of_their_own():
    leaves = [0, 400, 0, 0, 300, 0, 200, 0]
    assert grouped(FOUND, leaves, 100.0) == [0, 0, 1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("leaves", [[100] * 8, [0, 80, 0, 60, 0, 50, 0, 0], [0, 900, 0, 30, 0, 30, 0, 0]], ids=str)
def test_what_is_even_or_small_beside_a_group_is_not_divided(leaves):
    assert set(grouped(FOUND, leaves, 300.0)) == {0}


@given(st.lists(st.integers(0, 500), min_size=2, max_size=32))
def test_groups_of_a_discovered_range_are_runs_of_its_leaves(leaves):
    groups = grouped(FOUND, leaves, 100.0)
    assert groups[0] == 0
    assert set(np.diff(groups).tolist()) <= {0, 1}
    assert len({*groups}) <= 1 + sum(leaves) / 100.0
