"""Empirical Bayes estimates are nearer to the truth than the counts, and are the counts where there is little noise."""

import numpy as np
import pytest

from synthdp.mechanisms.adaptive.smoothing import smoothed, thinned

CELLS = np.arange(32)
HUMP = 300 * np.exp(-0.5 * ((CELLS - 12) / 6) ** 2)
SPIKE = np.where(CELLS == 0, 9000.0, 40.0)
FEW_LEVELS = np.concatenate([[5000.0, 1500.0, 400.0, 90.0], np.zeros(36)])
MANY_LEVELS = np.linspace(800, 1200, 12)


def absolute_errors(estimate, truth, stddev):
    errors = []
    for seed in range(30):
        noisy = truth + np.random.default_rng(seed).normal(0, stddev, len(truth))
        errors.append([np.abs(noisy - truth).sum(), np.abs(estimate(noisy, stddev) - truth).sum()])
    return np.mean(errors, axis=0)


@pytest.mark.parametrize(
    ("estimate", "truth", "factor"),
    [(smoothed, HUMP, 0.65), (smoothed, SPIKE, 0.6), (thinned, FEW_LEVELS, 0.4)],
)
def test_the_estimate_is_much_nearer_to_the_truth(estimate, truth, factor):
    plain, better = absolute_errors(estimate, truth, 60.0)
    assert better < factor * plain


@pytest.mark.parametrize(("estimate", "truth"), [(thinned, MANY_LEVELS), (smoothed, np.tile([900.0, 100.0], 16))])
def test_no_harm_where_there_is_nothing_to_gain(estimate, truth):
    plain, better = absolute_errors(estimate, truth, 60.0)
    assert better < 1.05 * plain


@pytest.mark.parametrize("truth", [HUMP, SPIKE, 10 * MANY_LEVELS])
@pytest.mark.parametrize("estimate", [smoothed, thinned])
def test_counts_with_hardly_any_noise_stay_as_they_are(estimate, truth):
    np.testing.assert_allclose(estimate(truth, 1e-3), truth, atol=0.02)


@pytest.mark.parametrize("cells", [1, 2, 3, 4, 5, 31, 33, 250])
@pytest.mark.parametrize("estimate", [smoothed, thinned])
def test_any_counts_have_finite_estimates(estimate, cells):
    for counts in (np.zeros(cells), np.full(cells, -500.0), np.arange(cells) * 1e6, -np.arange(cells) * 1e3):
        found = estimate(counts, 20.0)
        assert found.shape == (cells,)
        assert np.isfinite(found).all()
