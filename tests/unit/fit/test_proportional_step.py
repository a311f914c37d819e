import numpy as np
import pytest
from hypothesis import given, strategies as st

from synthdp.fit.proportional_step import RIDGES, common_ridge, proportional_step, rake
from synthdp.queries.contingency import NoisyTable


@given(
    st.integers(1, 40),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1e-3, 0.1, 1.0, 30.0, 1e3]),
    st.sampled_from([1.0, 100.0, 1e6]),
    st.sampled_from([0.0, 1.0, 10.0, 1e4]),
)
def test_the_step_solves_its_equation_in_every_cell_and_keeps_the_total(cells, seed, ridge, total, noise):
    rng = np.random.default_rng(seed)
    expected = total * rng.dirichlet(np.full(cells, 0.3))
    target = total * rng.dirichlet(np.full(cells, 0.3)) + noise * rng.normal(size=cells)
    theta = rng.normal(size=cells)
    step = proportional_step(expected, theta, target, ridge=ridge, total=total)
    logits = np.log(np.maximum(expected, 1e-300)) + step.change
    moved = np.exp(logits - logits.max())
    moved *= total / moved.sum()
    size = total + ridge * np.abs(theta + step.change).max() + np.abs(target).max()
    assert np.abs(moved + ridge * (theta + step.change) - target).max() < 1e-8 * size
    np.testing.assert_allclose((expected * step.factor)[expected > 1e-200], moved[expected > 1e-200], atol=1e-8 * total)


def test_a_table_on_target_does_not_move():
    expected = np.array([5.0, 3.0, 2.0])
    step = proportional_step(expected, np.zeros(3), expected, ridge=0.7, total=10.0)
    np.testing.assert_allclose(step.change, 0, atol=1e-9)
    np.testing.assert_allclose(step.factor, 1, atol=1e-9)


def test_a_strong_ridge_holds_the_potential_at_zero():
    step = proportional_step(np.full(4, 2.5), np.zeros(4), np.array([4.0, 2, 2, 2]), ridge=1e9, total=10.0)
    assert np.abs(step.change).max() < 1e-8


def test_a_weak_ridge_scales_the_table_to_its_target():
    expected, target = np.array([1.0, 2.0, 7.0]), np.array([5.0, 4.0, 1.0])
    step = proportional_step(expected, np.zeros(3), target, ridge=1e-9, total=10.0)
    np.testing.assert_allclose(expected * step.factor, target, rtol=1e-6)


def test_only_the_given_cells_are_raked():
    expected, theta, target = np.array([5.0, 0.0, 5.0]), np.zeros(3), np.array([2.0, 90.0, 8.0])
    factor = rake(expected, theta, target, cells=expected > 0, ridge=1e-9, total=10.0)
    np.testing.assert_allclose(expected * factor, [2, 0, 8], atol=1e-6)
    assert (theta[1], factor[1]) == (0.0, 1.0)
    assert theta[2] - theta[0] == pytest.approx(np.log(4))


@pytest.mark.parametrize("shape", [(2, 2, 2), (2, 3)])
def test_interactions_are_trusted_as_far_as_many_tables_together_show_any(shape):
    """Without an interaction the ridge is the largest, and the stronger interactions are, the smaller it is."""
    rng, stddev = np.random.default_rng(0), 20.0
    margins = np.multiply.outer(np.linspace(0.4, 0.6, shape[0]), np.ones(shape[1:]))
    sign = np.ones(())
    for n in shape:
        sign = np.multiply.outer(sign, np.where(np.arange(n) == 0, 1.0, -1.0))
    found = []
    for strength in (0.0, 0.5, 3.0):
        tables = [
            NoisyTable(
                clique=tuple(range(len(shape))),
                counts=(1000 * margins + strength * 50 * sign + rng.normal(0, stddev, shape)).ravel(),
                stddev=stddev,
            )
            for _ in range(300)
        ]
        found.append(common_ridge(tables, shape))
    assert found[0] == RIDGES[-1]
    assert found[0] > found[1] > found[2]
