"""The last histogram of a column: bins of about equal rows, averaged with the first histogram."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from no_noise import without_noise

import synthdp as sd
from synthdp.domain.grid import grid_of
from synthdp.mechanisms.column_histograms import OneWayTree
from synthdp.mechanisms.column_tree import OneWay, even_axis, first_trees, pooled_each

COLUMN = sd.Schema({"x": sd.Integer(0, 1023, nullable=True)})["x"]
POINTS = grid_of(COLUMN).size
NAME = "one-way marginals, bins of about equal rows"


def split_column(rows):
    """Return a column whose first histogram was counted without noise, and whose heavy bins were split once."""
    axis = OneWayTree(bins=4).first_axis("x", COLUMN)
    points = np.arange(axis.grid.size)
    counts = np.bincount(axis.cells[np.searchsorted(axis.starts, points, side="right") - 1], rows, axis.size)
    (tree,) = first_trees([axis], [counts], 1e-9, total=rows.sum())
    heavy = tree.heavy(100.0)
    parts = tree.parts(heavy, fan=8)
    counts = np.bincount(parts.cells[np.searchsorted(parts.starts, points, side="right") - 1], rows, parts.size)
    return tree.grown(heavy, counts, 1e-9, fan=8).one_way() if heavy.any() else tree.one_way()


@given(st.integers(0, 10**6), st.integers(20, 2000))
def test_only_bins_of_many_rows_are_cut_and_only_between_fine_bins(seed, most):
    rng = np.random.default_rng(seed)
    rows = rng.multinomial(5000, rng.dirichlet(np.full(POINTS, 0.05))).astype(float)
    one = split_column(rows)
    axis = even_axis(one, most)
    assert set(one.first.starts.tolist()) <= set(axis.starts.tolist()) <= set(one.axis.starts.tolist())
    held = np.bincount(np.searchsorted(axis.starts, one.axis.starts, side="right") - 1, one.weights)
    whole = np.bincount(one.first_bin, one.weights, one.first.size)
    parts = np.bincount(np.searchsorted(one.first.starts, axis.starts, side="right") - 1, minlength=one.first.size)
    assert (parts <= np.maximum(1, whole // most)).all()
    heaviest = np.array([one.weights[one.first_bin == cell].max() for cell in range(one.first.size)])
    of = np.searchsorted(one.first.starts, axis.starts, side="right") - 1
    assert (held <= (2 * most + heaviest[of]) + 1e-6).all()


@given(st.integers(0, 10**6), st.sampled_from([0.5, 1.0, 3.0]))
def test_both_histograms_are_averaged_by_least_squares(seed, ratio):
    rng = np.random.default_rng(seed)
    one = split_column(rng.multinomial(5000, rng.dirichlet(np.full(POINTS, 0.05))).astype(float))
    axis = even_axis(one, 200.0)
    inside = np.searchsorted(one.first.starts, axis.starts, side="right") - 1
    first, last = one.counts + rng.normal(0, 20, one.first.size), rng.uniform(0, 400, axis.size)
    noisy = OneWay(one.axis, one.weights, one.first, first, 20.0 * ratio)
    (pooled,) = pooled_each([noisy], [axis], [last], 20.0, total=float(last.sum()), total_stddev=0.0)
    sums = np.eye(one.first.size)[inside].T
    design, answers = np.vstack([sums / ratio, np.eye(axis.size)]), np.concatenate([first / ratio, last])
    expected = sums @ np.linalg.lstsq(design, answers, rcond=None)[0]
    np.testing.assert_allclose(pooled.counts, expected, rtol=1e-8, atol=1e-6)


def last_histogram(monkeypatch, upper, budget):
    """Return the counts of the last histogram of 20 000 evenly spread numbers from 0 to 100."""
    without_noise(monkeypatch)
    table = pd.DataFrame({"x": np.linspace(0, 99.99, 20_000), "y": [0, 1] * 10_000})
    schema = sd.Schema({"x": sd.Continuous(0, upper), "y": sd.Integer(0, 1)})
    release = sd.AdaptiveMarginals().release(sd.Curator(table, schema=schema, budget=budget), random_state=0)
    steps = [item.step for item in release.receipt.items]
    return release.measurements[steps.index(NAME)].answers if NAME in steps else None


@pytest.mark.parametrize("upper", [100.0, 1e5, 1e6])
def test_however_wide_the_bounds_are_many_bins_share_the_rows(upper, monkeypatch):
    counts = last_histogram(monkeypatch, upper, sd.ApproxDP(1.0, 1e-9))
    filled = np.sort(counts)[:-3]  # without the two values of y and the largest bin
    assert (filled > 0).sum() >= 20
    assert filled.max() <= 20_000 / 10


def test_laplace_noise_has_no_last_histogram(monkeypatch):
    assert last_histogram(monkeypatch, 1e5, sd.PureDP(1.0)) is None


@given(st.integers(0, 10**6))
def test_fine_bins_at_a_border_are_cut_alike_whatever_the_last_digits_of_their_rows(seed):
    """Fine bins of equal rows lie at borders exactly; other processors add them up to other last digits."""
    one = split_column(np.full(POINTS, 3.0))
    noise = 1 + 1e-14 * np.random.default_rng(seed).standard_normal(one.axis.size)
    other = replace(one, weights=one.weights * noise)
    for parts in (2, 3, 4, 7):
        most = float(one.weights[one.first_bin == 1].sum()) / parts
        axis = even_axis(one, most)
        assert axis.size > one.first.size
        assert axis.starts.tolist() == even_axis(other, most).starts.tolist()
