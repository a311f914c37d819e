"""What the theory promises: the papers' parameters, and bounds that hold where they can be checked."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import scipy.optimize

from synthdp.curator import Curator
from synthdp.errors import ParameterError
from synthdp.privacy.loss import ZCDP, ApproxDP, GaussianDP, PureDP
from synthdp.schema.columns import Continuous
from synthdp.schema.schema import Schema
from synthdp.works.smooth.chebyshev import chebyshev_table
from synthdp.works.smooth.smooth_answers import chebyshev_coefficients, chebyshev_nodes
from synthdp.works.smooth.summary import SmoothSummary
from synthdp.works.smooth.theory import (
    accuracy,
    best_approximation,
    coefficient_stddev,
    column_bias,
    exact_parameters,
    expected_error,
    improved_accuracy,
    improved_degrees,
    least_error_degrees,
    paper_accuracy,
    paper_degrees,
    projection_norm,
    truncation_bound,
)


def test_the_parameters_of_algorithm_1_are_the_rounded_up_powers():
    found = exact_parameters(10_000, d=2, smoothness=2)
    assert (found.t, found.grid, found.rows, found.lattice) == (5, 22, 1_000_000, 465)


def test_whole_powers_are_not_rounded_up():
    assert exact_parameters(10_000, d=1, smoothness=2).t == 10
    assert exact_parameters(10_000, d=1, smoothness=2).grid == 100


def test_the_rules_for_the_degrees():
    assert paper_degrees(10_000, d=1, smoothness=2) == 10
    assert improved_degrees(1_000_000, d=1, smoothness=2, pure=True) == 100
    assert improved_degrees(100_000, d=1, smoothness=2, pure=False) == 100
    assert paper_degrees(3, d=9, smoothness=1) == 2


def test_the_rates_are_the_powers_of_the_theorems():
    assert paper_accuracy(10_000, d=1, smoothness=2, epsilon=0.5) == pytest.approx(0.02)
    assert improved_accuracy(1_000_000, d=1, smoothness=2, epsilon=1, pure=True) == pytest.approx(1e-4)
    assert improved_accuracy(100_000, d=1, smoothness=2, epsilon=1, pure=False) == pytest.approx(1e-4)


@pytest.mark.parametrize("loss", [PureDP(1.0), ApproxDP(1.0, 1e-6)])
def test_no_other_number_of_degrees_has_a_smaller_expected_error(loss):
    best = least_error_degrees(50_000, d=2, smoothness=2, loss=loss)
    errors = {t: expected_error(t, rows=50_000, d=2, smoothness=2, loss=loss) for t in range(2, 80)}
    assert best == min(errors, key=errors.__getitem__)


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("loss", [PureDP(1.0), ApproxDP(1.0, 1e-6), ApproxDP(1.0, 0.0), ZCDP(0.1), GaussianDP(0.3)])
def test_the_predicted_noise_is_the_noise_that_is_drawn(loss, neighbors):
    frame = pd.DataFrame({"x": np.linspace(-1, 1, 500), "y": 0.5})
    schema = Schema({"x": Continuous(-1, 1), "y": Continuous(-1, 1)})
    curator = Curator(frame, schema=schema, budget=loss, neighbors=neighbors)
    released = SmoothSummary(degrees=5, total_share=1e-6).release(curator)
    drawn = released.measurements[-1].stddev / 500
    assert coefficient_stddev(5, rows=500, d=2, loss=loss, neighbors=neighbors) == pytest.approx(drawn, rel=0.01)


@pytest.mark.parametrize(("t", "nodes"), [(2, 4), (5, 10), (12, 24), (12, 500), (7, 7)])
def test_no_function_grows_by_more_than_the_projection_norm(t, nodes):
    """The worst function has values ±1 on the nodes; its signs follow the kernel at some point."""
    x = chebyshev_nodes(4000)
    kernel = chebyshev_table(x, t) @ np.array([chebyshev_coefficients(row, t) for row in np.eye(nodes)]).T
    grown = np.abs(kernel).sum(axis=1).max()
    assert grown <= projection_norm(t, nodes) <= 1.04 * grown


@pytest.mark.parametrize(("t", "d"), [(3, 1), (8, 1), (30, 1), (4, 2), (9, 2)])
@pytest.mark.parametrize("frequency", [1.0, 3.0])
def test_the_truncation_bound_covers_a_wave(t, d, frequency):
    """cos(f·Σx) has derivatives up to order 2 of at most max(1, f²)."""
    nodes = 2 * t
    axis = chebyshev_nodes(nodes)
    values = np.cos(frequency * sum(np.meshgrid(*[axis] * d, indexing="ij")) + 0.3)
    kept = chebyshev_coefficients(values, t)
    fine = np.linspace(-1, 1, 301)
    table = chebyshev_table(fine, t)
    for _ in range(d):
        kept = np.moveaxis(np.tensordot(table, kept, axes=(1, d - 1)), 0, 0)
    real = np.cos(frequency * sum(np.meshgrid(*[fine] * d, indexing="ij")) + 0.3)
    gap = np.abs(kept - real).max()
    assert gap <= truncation_bound(t, d=d, smoothness=2, bound=max(1.0, frequency**2), nodes=nodes)


def test_the_best_approximation_never_beats_the_lower_orders():
    assert best_approximation(1, smoothness=3) == 1.0
    assert best_approximation(10, smoothness=2) == pytest.approx((math.pi / 2) ** 2 / 90)
    assert best_approximation(2, smoothness=5) == pytest.approx(math.pi / 4)


@pytest.mark.landing
@pytest.mark.parametrize("loss", [PureDP(1.0), ZCDP(0.5)])
def test_a_smooth_query_is_within_alpha_of_the_truth(loss):
    """β = 1e-6, so twenty releases stay inside it."""
    data = np.random.default_rng(0).uniform(-1, 1, 2000)
    curator_of = lambda: Curator(  # noqa: E731 - a fresh budget each time
        pd.DataFrame({"x": data}), schema=Schema({"x": Continuous(-1, 1)}), budget=loss, neighbors="replace_one"
    )
    alpha = accuracy(6, rows=2000, d=1, smoothness=2, loss=loss, beta=1e-6)
    answers = [
        float(SmoothSummary(degrees=6).release(curator_of()).output.answer(lambda p: np.sin(p[:, 0])))
        for _ in range(20)
    ]
    assert np.abs(np.array(answers) - np.sin(data).mean()).max() <= alpha


def test_alpha_falls_with_rows_and_rises_with_confidence():
    pure, no_delta = (
        accuracy(2, rows=10, d=1, smoothness=4, loss=loss, beta=1e-4) for loss in (PureDP(1), ApproxDP(1, 0.0))
    )
    assert no_delta == pure
    at = lambda rows, beta: accuracy(8, rows=rows, d=1, smoothness=2, loss=PureDP(1), beta=beta)  # noqa: E731
    assert at(10_000, 0.05) < at(1000, 0.05) < at(1000, 0.001)


def test_settings_out_of_range_are_refused():
    with pytest.raises(ParameterError, match="rows"):
        paper_degrees(0, d=1, smoothness=2)
    with pytest.raises(ParameterError, match=r"\bd\b"):
        paper_degrees(10, d=0, smoothness=2)
    with pytest.raises(ParameterError, match="smoothness"):
        paper_degrees(10, d=1, smoothness=0)
    with pytest.raises(ParameterError, match="nodes"):
        truncation_bound(4, d=1, smoothness=2, bound=1.0, nodes=3)
    with pytest.raises(ParameterError, match="beta"):
        accuracy(4, rows=10, d=1, smoothness=2, loss=PureDP(1), beta=2)


@pytest.mark.parametrize("measured", [1, 2, 4])
@pytest.mark.parametrize("smoothness", [1, 2, 3])
def test_laws_with_the_same_moments_differ_by_no_more_than_the_bias_of_a_column(measured, smoothness):
    """The worst two laws for a function, by a linear program over 201 points."""
    x = np.cos(np.linspace(0, np.pi, 201))
    moments = chebyshev_table(x, measured + 1)
    for f in (np.sin(x), np.cos(x), np.abs(x) if smoothness == 1 else np.sign(x) * x**2 / 2 if smoothness == 2 else x):
        equal = np.hstack([moments.T, -moments.T])
        both = np.vstack([equal, np.repeat([[1.0, 0.0]], len(x), axis=1)])
        found = scipy.optimize.linprog(np.concatenate([-f, f]), A_eq=both, b_eq=np.append(np.zeros(measured + 1), 1.0))
        assert -found.fun <= column_bias(measured, smoothness=smoothness) + 1e-9


def test_no_averages_of_single_columns_bound_the_bias_of_a_product():
    """Two equal coins have the columns of two independent ones."""
    equal, alone = np.array([[1, 1], [-1, -1]] * 2), np.array(list(itertools.product([1, -1], repeat=2)))
    for column in (0, 1):
        np.testing.assert_array_equal(np.sort(equal[:, column]), np.sort(alone[:, column]))
    assert equal.prod(axis=1).mean() - alone.prod(axis=1).mean() == 1
