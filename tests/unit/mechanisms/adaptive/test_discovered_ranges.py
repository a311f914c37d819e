"""One-way trees of columns whose range was discovered: it is wide rather than narrow, and its ends line up with nothing."""

from dataclasses import replace

import numpy as np
import pytest

from synthdp.domain.discretize import axis_of
from synthdp.mechanisms.adaptive.column_tree import ColumnTree
from synthdp.mechanisms.adaptive.one_ways import OneWayTree
from synthdp.schema.columns import DISCOVERED, Integer

DECLARED = Integer(0, 31)
FOUND = replace(DECLARED, source=DISCOVERED)


def weights(column, filled, *, stddev=10.0):
    axis = axis_of("x", column, bins=32)
    counts = np.zeros(axis.size)
    for bin_, rows in filled.items():
        counts[bin_] = rows
    return ColumnTree.of(axis, counts, stddev, total=counts.sum(), columns=1).rows


def test_the_ends_of_a_discovered_range_that_noise_explains_hold_no_rows():
    rows = weights(FOUND, {0: 20, 1: 15, 5: 500, 12: 400, 30: 24})
    assert rows[:5].tolist() == [0] * 5
    assert rows[13:].tolist() == [0] * 19
    assert rows[5:13].sum() == pytest.approx(959)


@pytest.mark.parametrize("tail", [{16: 26}, {14: 20, 15: 20}, {12: 14, 13: 14, 14: 14, 15: 14, 16: 14, 17: 14}])
def test_a_tail_that_is_more_than_noise_alone_or_together_is_kept(tail):
    rows = weights(FOUND, {5: 500, 6: 400} | tail)
    assert rows[list(tail)].sum() > 0


def test_a_declared_range_keeps_its_ends():
    filled = {0: 20, 5: 500, 12: 400, 30: 24}
    assert weights(DECLARED, filled)[[0, 30]].sum() > 0
    assert weights(FOUND, {}).sum() == weights(DECLARED, {}).sum()


def test_bins_of_a_discovered_range_are_split_twice_as_readily():
    tree = OneWayTree(heavy=6.0)
    assert (tree.least_heavy(DECLARED), tree.least_heavy(FOUND)) == (6.0, 3.0)


def test_a_discovered_range_is_told_apart_more_finely_than_a_declared_one():
    tree = OneWayTree(bins=4)
    wide = {source: Integer(0, 9999, source=source) for source in (None, DISCOVERED)}
    assert [tree.first_axis("x", column).releasable.sum() for column in wide.values()] == [4, 16]
