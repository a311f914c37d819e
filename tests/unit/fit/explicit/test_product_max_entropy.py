"""Product maximum entropy: its optimality conditions, its limits in the noise, and hopeless moments."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from synthdp.errors import ParameterError
from synthdp.fit.explicit.moment_fits import chebyshev_grid, chebyshev_moments, product_max_entropy

GRID = chebyshev_grid()


def moments_of(weights: np.ndarray, p: int) -> np.ndarray:
    return weights @ chebyshev_moments(GRID.nodes, p).T


def test_the_grid_integrates_the_uniform_law():
    assert (np.diff(GRID.nodes) > 0).all()
    assert GRID.weights.sum() == pytest.approx(1.0)
    powers = [GRID.weights @ GRID.nodes**power for power in (1, 2, 4)]
    np.testing.assert_allclose(powers, [0, 1 / 3, 1 / 5], atol=1e-4)


def test_moments_are_chebyshev_polynomials():
    x = np.linspace(-1, 1, 7)
    np.testing.assert_allclose(chebyshev_moments(x, 3), [x, 2 * x**2 - 1, 4 * x**3 - 3 * x], atol=1e-12)


@given(seed=st.integers(0, 2**32), p=st.integers(1, 6), stddev=st.floats(0.005, 1.0))
def test_the_density_satisfies_the_optimality_conditions_of_the_regularised_problem(seed, p, stddev):
    """At the optimum w ∝ prior · exp(y'T) with y = (moments − E_w[T]) / stddev²: moments are those of rows, with noise."""
    rng = np.random.default_rng(seed)
    rows = rng.beta(*rng.uniform(0.5, 5, (2, 1, 4)), size=(50, 4)) * 2 - 1
    b = np.array([chebyshev_moments(column, p).mean(axis=1) for column in rows.T]) + stddev * rng.normal(size=(4, p))
    weights = product_max_entropy(b, stddev)
    y = (b - moments_of(weights, p)) / stddev**2
    tilted = np.log(GRID.weights) + y @ chebyshev_moments(GRID.nodes, p)
    tilted = np.exp(tilted - tilted.max(axis=1, keepdims=True))
    np.testing.assert_allclose(weights, tilted / tilted.sum(axis=1, keepdims=True), atol=1e-5)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)


def test_moments_of_a_smooth_density_are_met_as_the_noise_vanishes():
    density = np.exp(1.3 * GRID.nodes - 2.0 * GRID.nodes**2) * GRID.weights
    density /= density.sum()
    found = product_max_entropy(moments_of(density[None, :], 2), 0.0)
    np.testing.assert_allclose(found[0], density, atol=1e-6)


def test_noise_far_above_the_signal_leaves_the_prior():
    prior = np.linspace(1, 2, 201)
    found = product_max_entropy(np.array([[0.3, -0.2]]), 1e4, prior=prior)
    np.testing.assert_allclose(found[0], prior / prior.sum(), rtol=1e-6)


def test_each_column_is_fitted_on_its_own():
    b = np.random.default_rng(0).uniform(-0.8, 0.8, (5, 2))
    stddev = np.linspace(0.01, 0.1, 10).reshape(5, 2)
    together = product_max_entropy(b, stddev)
    alone = [product_max_entropy(b[j : j + 1], stddev[j : j + 1])[0] for j in range(5)]
    np.testing.assert_allclose(together, alone, atol=1e-8)


@pytest.mark.parametrize("moments", [[[1.0, 1.0]], [[50.0, -50.0]], [[0.0, -1.0]], [[-1e6, 0.0]], [[0.9, -0.9]]])
def test_moments_that_no_density_has_still_give_a_density(moments):
    weights = product_max_entropy(np.array(moments), 0.0)
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1.0)


def test_a_mean_beyond_the_range_ends_at_its_edge():
    weights = product_max_entropy(np.array([[3.0]]), 0.001)
    assert moments_of(weights, 1)[0, 0] > 0.999


@pytest.mark.landing
def test_many_noisy_moments_with_tiny_noise_still_give_densities():
    b = np.random.default_rng(1).normal(size=(5, 12))
    weights = product_max_entropy(b, 0.001)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    assert np.isfinite(weights).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"moments": np.zeros(2)}, r"moments.*\(2,\)"),
        ({"moments": np.zeros((2, 0))}, r"moments.*\(2, 0\)"),
        ({"moments": np.array([[np.nan]])}, "moments.*finite"),
        ({"stddev": -1.0}, "stddev.*finite"),
        ({"stddev": np.ones(3)}, "stddev.*moments"),
        ({"nodes": 1}, "nodes"),
        ({"prior": np.ones(3)}, "prior.*201"),
        ({"prior": np.zeros(201)}, "prior.*finite"),
    ],
)
def test_malformed_input_is_refused(arguments, message):
    full = {"moments": np.zeros((1, 2)), "stddev": 0.1, **arguments}
    with pytest.raises(ParameterError, match=message):
        product_max_entropy(full.pop("moments"), full.pop("stddev"), **full)


def test_given_points_replace_the_chebyshev_nodes():
    points = np.array([-0.5, 0.5])
    found = product_max_entropy(np.array([[0.25]]), 0.0, nodes=points)
    np.testing.assert_allclose(found, [[0.25, 0.75]], atol=1e-6)


def test_points_outside_the_interval_are_refused():
    with pytest.raises(ParameterError, match="nodes"):
        product_max_entropy(np.array([[0.25]]), 0.0, nodes=np.array([-1.5, 0.5]))
