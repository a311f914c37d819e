"""Bins of numbers go by size where the range is wide, and none lies far beyond what noise does not explain."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import synthdp as sd
from synthdp.domain.domain import axis_of
from synthdp.mechanisms.column_histograms import OneWayTree
from synthdp.mechanisms.column_sizes import far_beyond
from synthdp.mechanisms.column_tree import first_trees
from synthdp.schema.columns import DISCOVERED

TREE = OneWayTree()
STDDEV = 10.0


@pytest.mark.parametrize(
    "column",
    [
        sd.Integer(0, 99_999), sd.Integer(-(10**9), 10**9), sd.Continuous(0, 1e10, decimals=2), sd.Continuous(0, 1e6),
        sd.Continuous(3, 1e6, decimals=1), sd.Duration(0, 10**6), sd.Integer(0, 2**62, special=[-9], nullable=True),
    ],
    ids=str,
)  # fmt: skip
def test_the_first_bins_are_the_equal_ones_cut_by_size(column):
    axis, plain = TREE.first_axis("x", column), axis_of("x", column)
    assert set(plain.starts.tolist()) <= set(axis.starts.tolist())
    assert plain.size < axis.size <= plain.size + 300
    values = sd.Schema({"x": column})["x"]
    assert axis.grid == plain.grid
    zero = -float(values.lower) / (float(values.upper) - float(values.lower)) * axis.grid.steps
    first = axis.grid.first_steps(axis.starts[axis.starts < axis.grid.regular]).astype(np.float64)
    sizes = np.abs(first - zero)
    far = (sizes > 64) & (sizes < axis.grid.steps / 32)
    assert (np.diff(np.sort(sizes[far])) <= 0.5 * np.sort(sizes[far])[1:] + 2).all()


@pytest.mark.parametrize(
    "column",
    [
        sd.Integer(0, 60), sd.Integer(0, 900), sd.Categorical(list("abc")), sd.Boolean(),
        sd.Datetime("2000-01-01", "2030-01-01"),
        sd.Integer(0, 10**9, source=DISCOVERED), sd.Integer(10**6, 2 * 10**6),
    ],
    ids=str,
)  # fmt: skip
def test_other_columns_have_the_bins_they_had(column):
    axis = TREE.first_axis("x", column)
    bins = axis.grid.regular if axis.grid.regular <= 2 * TREE.first_bins(column) else TREE.first_bins(column)
    assert (axis.starts == axis_of("x", column, bins=bins).starts).all()


def beyond(column, filled, *, elsewhere=0, total_stddev=0.0):
    axis = TREE.first_axis("x", column)
    counts = np.zeros(axis.size)
    for value, rows in filled.items():
        step = (value - column.lower) / (float(column.upper) - column.lower) * axis.grid.steps
        counts[axis.cells_of(axis.grid.points_of(np.array([int(step)], np.uint64)).astype(np.uint32))[0]] += rows
    gone = far_beyond(axis, counts, STDDEV, sum(filled.values()) + elsewhere, total_stddev=total_stddev)
    edges = axis.grid.first_steps(np.minimum(axis.starts, axis.grid.regular)).astype(np.float64) / axis.grid.steps
    return gone, column.lower + edges * (float(column.upper) - column.lower)


def test_bins_far_beyond_the_filled_ones_are_empty_and_those_within_reach_are_not():
    column = sd.Continuous(0, 1e8, decimals=2)
    gone, lower_edges = beyond(column, {50.0: 900, 200.0: 400, 1e7: 20})  # the last is what noise may be
    assert gone[lower_edges > 2000].sum() == (lower_edges > 2000).sum() - 1  # but for misfits, at the end
    assert not gone[lower_edges < 900].any()


def test_a_tail_that_noise_hides_bin_by_bin_is_seen_together():
    column = sd.Integer(0, 32_000)
    gone, _ = beyond(column, {500: 4000, **{1000 * k + 500: 25 for k in range(1, 32)}})
    assert not gone.any()


def test_nothing_is_empty_where_many_rows_are_missing_within_reach():
    """Noise hides each window of bins far out, but the number of rows is known, and most are not within reach."""
    column = sd.Integer(0, 10**8)
    assert beyond(column, {50: 4000})[0].any()
    assert not beyond(column, {50: 4000}, elsewhere=4000)[0].any()


def test_rows_are_not_missing_where_the_number_of_rows_is_as_uncertain():
    """Else rows of noise would stay far out, each worth thousands of others in a mean."""
    column = sd.Integer(0, 10**8)
    assert not beyond(column, {50: 4000}, elsewhere=200)[0].any()
    assert beyond(column, {50: 4000}, elsewhere=200, total_stddev=80.0)[0].any()
    assert not beyond(column, {50: 4000}, elsewhere=4000, total_stddev=80.0)[0].any()


def test_nothing_is_empty_where_nothing_is_clear_and_in_columns_without_sizes():
    gone, _ = beyond(sd.Integer(0, 10**8), {50: 20, 10**7: 20})
    assert not gone.any()
    axis = TREE.first_axis("x", sd.Datetime("1900-01-01", "2100-01-01"))
    assert not far_beyond(axis, np.eye(1, axis.size, 3)[0] * 1e6, STDDEV, 1e6).any()


@given(st.integers(0, 2**32), st.sampled_from([1e4, 1e7, 1e10]))
def test_all_rows_stay_where_bins_are_left_out(seed, upper):
    column = sd.Continuous(-upper / 3, upper, decimals=2)
    axis = TREE.first_axis("x", column)
    counts = np.random.default_rng(seed).normal(0, STDDEV, axis.size)
    counts[
        int(axis.cells_of(axis.grid.points_of(np.array([axis.grid.steps // 4], np.uint64)).astype(np.uint32))[0])
    ] += 3000
    tree = first_trees([axis], [counts], STDDEV, total=3000.0)[0]
    assert tree.rows.sum() + tree.rest.sum() + tree.misfits == pytest.approx(3000)
