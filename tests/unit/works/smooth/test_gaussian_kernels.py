"""Gaussian-kernel workloads against the formula, written out."""

from __future__ import annotations

import numpy as np
import pytest

from synthdp.errors import ParameterError
from synthdp.works.smooth import kernels as module
from synthdp.works.smooth.kernels import GaussianKernels, SeparableQueries


def kernels() -> GaussianKernels:
    return GaussianKernels.random(7, d=3, sigma=0.8, rng=np.random.default_rng(1), terms=4)


KERNELS = kernels()
POINTS = np.random.default_rng(2).uniform(-1, 1, (11, 3))


def by_hand(kernels: GaussianKernels, points: np.ndarray) -> np.ndarray:
    found = np.zeros((len(points), kernels.k))
    for i, x in enumerate(points):
        for q in range(kernels.k):
            for a, c in zip(kernels.weights[q], kernels.centers[q], strict=True):
                found[i, q] += a * np.exp(-((x - c) ** 2).sum() / (2 * kernels.sigma**2))
    return found


def test_values_are_weighted_sums_of_kernels():
    np.testing.assert_allclose(KERNELS.values(POINTS), by_hand(KERNELS, POINTS), rtol=1e-12)


def test_averages_are_means_of_values_in_blocks_of_any_size(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 60)
    weights = np.random.default_rng(3).dirichlet(np.ones(11))
    np.testing.assert_allclose(KERNELS.averages(POINTS), by_hand(KERNELS, POINTS).mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(KERNELS.averages(POINTS, weights), weights @ by_hand(KERNELS, POINTS), rtol=1e-12)


def test_factors_multiply_to_the_kernels():
    assert isinstance(KERNELS, SeparableQueries)
    product = np.prod([KERNELS.factors(j, POINTS[:, j], slice(0, 7)) for j in range(3)], axis=0)
    found = (product * KERNELS.weights[:, :, None]).sum(axis=1).T
    np.testing.assert_allclose(found, by_hand(KERNELS, POINTS), rtol=1e-12)


def test_the_random_workload_has_weights_of_sum_one_and_centres_in_the_cube():
    np.testing.assert_allclose(KERNELS.weights.sum(axis=1), 1.0)
    assert np.abs(KERNELS.centers).max() <= 1
    assert (KERNELS.k, KERNELS.d) == (7, 3)


def test_kernels_at_points_have_height_one_there():
    kernels = GaussianKernels.at(POINTS, sigma=2.0).with_sigma(0.1)
    np.testing.assert_allclose(np.diag(kernels.values(POINTS)), 1.0)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ParameterError, match=r"centers.*shape"):
        GaussianKernels(centers=np.zeros((2, 3)), weights=np.zeros(2), sigma=1.0)
    with pytest.raises(ParameterError, match="sigma"):
        GaussianKernels(centers=np.zeros((1, 1, 2)), weights=np.ones((1, 1)), sigma=0)
    with pytest.raises(ParameterError, match=r"centers.*finite"):
        GaussianKernels(centers=np.full((1, 1, 2), np.nan), weights=np.ones((1, 1)), sigma=1)
    with pytest.raises(ParameterError, match="points"):
        KERNELS.values(np.zeros((2, 2)))
