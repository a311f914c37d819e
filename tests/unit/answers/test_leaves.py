"""Least squares for leaves, against the dense system of equations on tiny columns."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse

from synthdp.answers.leaves import FineBinEstimates, Histogram, InDomainFineBins, gls_fine_bins
from synthdp.answers.one_column import quantile_intervals
from synthdp.domain.axis import Axis
from synthdp.schema.columns import Integer


def dense(histograms: list[Histogram]) -> tuple[np.ndarray, np.ndarray]:
    """Solve the normal equations of all histograms at once."""
    size = len(histograms[0].cell)
    information, score = np.zeros((size, size)), np.zeros(size)
    for cell, counts, stddev in histograms:
        design = (cell[None, :] == np.arange(len(counts))[:, None]).astype(float)
        information += design.T @ design / stddev**2
        score += design.T @ counts / stddev**2
    covariance = np.linalg.inv(information)
    return covariance @ score, covariance


@st.composite
def histograms_of_one_column(draw: st.DrawFn) -> list[Histogram]:
    """Any partitions of up to twelve leaves, and enough that tell all of them apart; some twice, with other noise."""
    size = draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    partitions = [rng.integers(draw(st.integers(1, size)), size=size) for _ in range(draw(st.integers(0, 4)))]
    split = rng.random(size) < draw(st.sampled_from([0.0, 0.5, 1.0]))
    partitions += [np.where(split, np.arange(size), size), np.where(split, size, np.arange(size))]
    partitions += partitions[: draw(st.integers(0, 2))]
    return [Histogram(cell, rng.normal(50, 30, size + 1), rng.uniform(1, 20)) for cell in partitions]


@given(histograms_of_one_column())
def test_leaves_are_those_of_least_squares(histograms: list[Histogram]) -> None:
    counts, covariance = dense(histograms)
    leaves = gls_fine_bins(histograms)
    assert leaves.counts == pytest.approx(counts, abs=1e-6)
    assert leaves.variance == pytest.approx(np.diag(covariance), rel=1e-7)
    weights = np.random.default_rng(0).normal(size=(5, len(counts)))
    wanted = np.einsum("ij,jk,ik->i", weights, covariance, weights)
    assert leaves.variances(weights) == pytest.approx(wanted, rel=1e-6, abs=1e-9)
    assert leaves.variances(sparse.csr_array(weights)) == pytest.approx(wanted, rel=1e-6, abs=1e-9)


def test_many_leaves_need_few_equations() -> None:
    """Twenty thousand leaves in three levels: a dense system would hold 3 GB."""
    fine = np.arange(20_000)
    levels = [np.minimum(fine, 5000), np.where(fine < 5000, 15_000, fine - 5000), fine // 500]
    leaves = gls_fine_bins([Histogram(cell, np.ones(cell.max() + 1), 10.0) for cell in levels])
    assert len(leaves.sums_covariance) <= 41
    assert (leaves.variance <= 100).all()


@given(histograms_of_one_column(), st.integers(0, 2**32))
def test_misfits_are_spread_with_the_covariance_of_the_first_order(histograms: list[Histogram], seed: int) -> None:
    counts, covariance = dense(histograms)
    rng = np.random.default_rng(seed)
    fits = np.append(True, rng.random(len(counts) - 1) < 0.8)
    fitting = max(counts[fits].sum(), 1.0)
    ratio = counts[~fits].sum() / fitting
    slope = np.diag(np.where(fits, 1 + ratio, 0.0))
    slope += np.outer(np.where(fits, counts, 0.0) / fitting, np.where(fits, -ratio, 1.0))
    wanted = slope @ covariance @ slope.T
    spread = InDomainFineBins.of(gls_fine_bins(histograms), fits, least=1.0)
    assert spread.counts == pytest.approx(np.where(fits, counts * (1 + ratio), 0.0), rel=1e-5, abs=1e-5)
    scale = np.abs(wanted).max()
    assert spread.variance == pytest.approx(np.diag(wanted), rel=1e-5, abs=1e-6 * scale)
    weights = rng.normal(size=(3, len(counts)))
    exact = np.einsum("ij,jk,ik->i", weights, wanted, weights)
    assert spread.variances(weights) == pytest.approx(exact, rel=1e-5, abs=1e-5 * scale)
    assert spread.variances(sparse.csr_array(weights)) == pytest.approx(exact, rel=1e-5, abs=1e-5 * scale)
    assert spread.covariances(weights[0]) == pytest.approx(wanted @ weights[0], rel=1e-5, abs=1e-5 * scale)


def test_a_special_value_among_numbers_divides_their_leaf_and_quantiles_lie_in_their_intervals() -> None:
    column = Integer(0, 99, special=[24])
    axis = Axis("x", column, np.array([0, 20, 30, 100, 101]), np.arange(5))
    counts = np.array([20.0, 40.0, 40.0, 30.0, 0.0])
    leaves = FineBinEstimates(counts, np.arange(5), np.zeros(5), np.diag(np.full(5, 9.0)))
    shares = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.65, 0.9])
    found, low, high = quantile_intervals(leaves, axis, shares, np.arange(101) >= 0, spread=counts)
    often = 7 * np.where(np.arange(30) < 20, 1, 4)
    rows = [*np.repeat(np.arange(30), often), *[24] * 210, *np.repeat(np.arange(30, 100), 4)]
    wanted = np.quantile(rows, shares, method="inverted_cdf")
    assert np.abs(found - wanted).max() <= 1
    assert (low <= found).all()
    assert (found <= high).all()
