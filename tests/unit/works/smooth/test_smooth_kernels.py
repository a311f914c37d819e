"""Gaussian kernels among the smooth queries: their derivatives, their truncation and the degrees that suit them."""

from __future__ import annotations

import itertools
import math
from functools import reduce

import numpy as np
import pandas as pd
import pytest
from numpy.polynomial import hermite_e

from synthdp.curator import Curator
from synthdp.errors import ParameterError
from synthdp.privacy.loss import ApproxDP, PureDP
from synthdp.schema.columns import Continuous
from synthdp.schema.schema import Schema
from synthdp.works.smooth.chebyshev import chebyshev_table
from synthdp.works.smooth.kernels import (
    MAX_ORDER,
    GaussianKernels,
    derivative_peak,
    kernel_bound,
    kernel_degrees,
    kernel_error,
    kernel_gap,
    kernel_norm,
    kernel_smoothness,
)
from synthdp.works.smooth.smooth_answers import TrigonometricSummary, chebyshev_coefficients, chebyshev_nodes
from synthdp.works.smooth.summary import SmoothSummary
from synthdp.works.smooth.theory import improved_degrees, least_error_degrees, paper_degrees, truncation_bound

LOSSES = [PureDP(1.0), ApproxDP(1.0, 1e-6)]


def derivatives(u: np.ndarray, order: int) -> np.ndarray:
    """|He_k(u)| exp(-u^2/2) for k = 0 ... order, (order + 1, len(u))."""
    return np.array([np.abs(hermite_e.hermeval(u, [0] * k + [1])) for k in range(order + 1)]) * np.exp(-(u**2) / 2)


@pytest.mark.sampled
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("sigma", [0.5, 1.0, 1.7])
@pytest.mark.parametrize("order", [1, 2, 4, 7])
def test_the_bound_is_the_largest_partial_derivative_in_any_number_of_columns(order, sigma, d):
    peaks = derivatives(np.linspace(-8, 8, 16_001), order).max(axis=1)
    orders = [k for k in itertools.product(range(order + 1), repeat=d) if sum(k) <= order]
    largest = max(float(np.prod(peaks[list(k)])) * sigma ** -sum(k) for k in orders)
    assert largest <= kernel_bound(order, sigma=sigma) <= largest * (1 + 1e-6)


@pytest.mark.parametrize("sigma", [0.71, 1.0, 1.3, 2.0, 3.1, 5.0])
def test_up_to_twice_the_squared_width_all_derivatives_are_at_most_one(sigma):
    order = kernel_smoothness(sigma)
    assert order == math.floor(2 * sigma**2)
    assert kernel_bound(order, sigma=sigma) == 1


def test_no_order_breaks_the_rule_that_twice_the_squared_width_is_smooth_enough():
    assert all(derivative_peak(k) <= (k / 2) ** (k / 2) for k in range(1, MAX_ORDER + 1))


def test_of_even_order_the_largest_derivative_is_the_double_factorial():
    for k in range(2, 40, 2):
        assert derivative_peak(k) == pytest.approx(math.prod(range(k - 1, 0, -2)))


def worst_gap(t: int, nodes: int, sigma: float) -> float:
    """Largest gap between a kernel and its truncated series, over 31 centres."""
    fine, table = np.linspace(-1, 1, 201), chebyshev_table(np.linspace(-1, 1, 201), t)
    worst = 0.0
    for centre in np.linspace(-1, 1, 31):
        kept = chebyshev_coefficients(np.exp(-((chebyshev_nodes(nodes) - centre) ** 2) / (2 * sigma**2)), t)
        worst = max(worst, float(np.abs(table @ kept - np.exp(-((fine - centre) ** 2) / (2 * sigma**2))).max()))
    return worst


@pytest.mark.parametrize("sigma", [0.2, 0.6, 1.0, 4.0])
@pytest.mark.parametrize("t", [2, 3, 6, 11])
def test_no_kernel_is_truncated_by_more_than_the_bound_nor_by_much_less(t, sigma):
    for nodes in (t, t + 1, 2 * t):
        gap = worst_gap(t, nodes, sigma)
        assert gap <= kernel_gap(t, nodes=nodes, sigma=sigma) <= 20 * gap + 1e-15


def test_the_bound_is_far_below_that_of_the_class():
    known, of_class = kernel_gap(10, nodes=20, sigma=1), truncation_bound(10, d=1, smoothness=2, bound=1, nodes=20)
    assert known < of_class / 1000


def summary(d: int, t: int, rows: np.ndarray, cells: int = 2**15) -> TrigonometricSummary:
    """The summary of a table without noise."""
    features = np.ones((len(rows), 1))
    for column in rows.T:
        features = np.einsum("np,nq->npq", features, chebyshev_table(column, t)).reshape(len(rows), -1)
    averages = features.mean(axis=0).reshape((t,) * d)
    names = tuple(f"x{j}" for j in range(d))
    return TrigonometricSummary(names=names, averages=averages, stddev=0.0, rows=len(rows), cells=cells)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0])
def test_the_bias_of_an_answer_is_within_its_truncation_bound(d, sigma):
    rng = np.random.default_rng(d)
    rows = rng.beta(0.5, 0.5, (40, d)) * 2 - 1
    queries = GaussianKernels.random(60, d=d, sigma=sigma, rng=rng, terms=3)
    for t in (2, 4, 7):
        answer = summary(d, t, rows).answer(queries)
        assert answer.truncation_bound.shape == (60,)
        assert (np.abs(answer.estimate - queries.averages(rows)) <= answer.truncation_bound + 1e-12).all()
        low, high = answer.interval()
        np.testing.assert_allclose(high - low, 2 * answer.truncation_bound)


def test_signed_weights_add_up_by_size_and_coarse_cells_are_covered():
    queries = GaussianKernels(centers=np.zeros((1, 2, 1)), weights=np.array([[2.0, -3.0]]), sigma=1.0)
    fine = summary(1, 5, np.zeros((1, 1))).answer(queries).truncation_bound[0]
    coarse = summary(1, 5, np.zeros((1, 1)), cells=10).answer(queries).truncation_bound[0]
    assert fine >= 5 * kernel_gap(5, nodes=128, sigma=1.0)
    assert coarse - fine == pytest.approx(5 * math.exp(-0.5) / 10, rel=1e-3)


def test_a_bound_of_the_class_holds_for_any_separable_query():
    rows = np.linspace(-1, 1, 30)[:, None]
    kernels = GaussianKernels.at(np.zeros((2, 1)), sigma=3.0)

    class Other:
        k, d, weights, factors = kernels.k, kernels.d, kernels.weights, staticmethod(kernels.factors)

    released = summary(1, 3, rows)
    assert released.answer(Other()).truncation_bound is None
    told = released.answer(Other(), bound=1.0).truncation_bound
    expected = truncation_bound(3, d=1, smoothness=2, bound=1.0, nodes=128) + 2**-15
    np.testing.assert_allclose(told, expected)
    assert (released.answer(kernels, bound=1e-9).truncation_bound <= 1e-6).all()


@pytest.mark.landing
@pytest.mark.sampled("landing")
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0])
def test_no_rule_for_the_degrees_suits_kernels_better(sigma, d, loss):
    def error(t: int) -> float:
        return kernel_error(t, rows=20_000, d=d, sigma=sigma, loss=loss)

    best = error(kernel_degrees(20_000, d=d, sigma=sigma, loss=loss))
    for order in (2, 4, 8):
        assert best <= error(paper_degrees(20_000, d=d, smoothness=order))
        assert best <= error(improved_degrees(20_000, d=d, smoothness=order, pure=isinstance(loss, PureDP)))
        assert best <= error(least_error_degrees(20_000, d=d, smoothness=order, loss=loss))


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.0])
def test_no_kernel_has_coefficients_of_a_larger_norm(d, sigma):
    nodes = chebyshev_nodes(80)
    norms = []
    for centre in np.linspace(-1, 1, 21):
        one = np.exp(-((nodes - centre) ** 2) / (2 * sigma**2))
        values = reduce(np.multiply.outer, [one] * d)
        kept = chebyshev_coefficients(values, 40)
        kept[(0,) * d] = 0
        norms.append(np.linalg.norm(kept))
    assert 0.97 * kernel_norm(sigma=sigma, d=d) <= max(norms) <= kernel_norm(sigma=sigma, d=d) * (1 + 1e-9)


def test_a_summary_planned_for_kernels_takes_their_degrees_and_order():
    table = pd.DataFrame({"x": np.linspace(-1, 1, 5000)})
    curator = Curator(table, schema=Schema({"x": Continuous(-1, 1)}), budget=PureDP(1.0), neighbors="replace_one")
    released = SmoothSummary(sigma=2.0).release(curator).output
    assert released.degrees == kernel_degrees(5000, d=1, sigma=2.0, loss=PureDP(1.0))
    assert released.smoothness == 8


def test_settings_out_of_range_are_refused():
    with pytest.raises(ParameterError, match="sigma"):
        kernel_smoothness(0)
    with pytest.raises(ParameterError, match="sigma"):
        SmoothSummary(sigma=-1)
    with pytest.raises(ParameterError, match="smoothness"):
        kernel_bound(61, sigma=1)
