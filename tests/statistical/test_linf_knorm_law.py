"""The K-norm sampler against its exact law: joint on small dimensions, by its radius on large ones."""

import math

import numpy as np
import pytest
from scipy.stats import chisquare

from synthdp.privacy import noise
from synthdp.privacy.linf_knorm import stddev

P = 1e-9


def cell_probabilities(dimension, scale, reach):
    """Law on the cube {-reach..reach}^R in C order, and the mass outside as a last entry."""
    norms = np.max(np.abs(np.indices((2 * reach + 1,) * dimension) - reach), axis=0).ravel()
    weights = np.exp(-norms / scale)
    total = sum(shell_weight(dimension, scale, r) for r in range(2000))
    return np.append(weights, total - weights.sum()) / total


def shell_weight(dimension, scale, r):
    points = 1 if r == 0 else (2 * r + 1) ** dimension - (2 * r - 1) ** dimension
    return math.exp(math.log(points) - r / scale)


def cells(sample, reach):
    dimension = sample.shape[1]
    inside = np.abs(sample).max(axis=1) <= reach
    index = np.ravel_multi_index((sample[inside] + reach).T, (2 * reach + 1,) * dimension)
    return np.append(np.bincount(index, minlength=(2 * reach + 1) ** dimension), (~inside).sum())


@pytest.mark.landing
@pytest.mark.sampled
@pytest.mark.parametrize(("dimension", "scale", "reach"), [(1, 2.5, 8), (2, 0.6, 3), (2, 1.7, 5), (3, 0.4, 2)])
def test_the_joint_law_is_exact_and_no_other_scale_fits(dimension, scale, reach):
    draws = 3_500  # another scale passes with a chance below 1e-7
    zeros = np.zeros(dimension, dtype=np.int64)
    observed = cells(np.array([noise.linf_knorm(zeros, scale=scale) for _ in range(draws)]), reach)
    assert chisquare(observed, cell_probabilities(dimension, scale, reach) * draws).pvalue > P
    assert chisquare(observed, cell_probabilities(dimension, scale * 1.3, reach) * draws).pvalue < P
    assert chisquare(observed, cell_probabilities(dimension, scale / 1.3, reach) * draws).pvalue < P


@pytest.mark.landing
@pytest.mark.sampled
@pytest.mark.parametrize(("dimension", "scale"), [(40, 1.0), (40, 0.15), (200, 37.5)])
def test_the_radius_in_high_dimension_follows_its_law(dimension, scale):
    draws = 1500
    zeros = np.zeros(dimension, dtype=np.int64)
    radius = np.array([np.abs(noise.linf_knorm(zeros, scale=scale)).max() for _ in range(draws)])

    def p_value(candidate):
        weights = log_shells(dimension, candidate, int(dimension * scale * 3 + 60))
        cumulative = np.cumsum(weights) / weights.sum()
        bins = np.searchsorted(cumulative, np.linspace(0.05, 0.95, 10))
        edges = np.unique(np.concatenate(([-1], bins, [len(weights) - 1])))
        expected = np.diff(np.concatenate(([0.0], cumulative))[edges + 1]) * draws
        observed = np.histogram(np.clip(radius, 0, len(weights) - 1), bins=edges + 0.5)[0]
        return chisquare(observed, expected).pvalue

    assert p_value(scale) > P
    assert p_value(scale * 1.3) < P
    assert p_value(scale / 1.3) < P


def log_shells(dimension, scale, largest):
    r = np.arange(largest + 1)
    log_ball = dimension * np.log(2 * r + 1.0)
    log_inner = np.concatenate(([-np.inf], dimension * np.log(2 * r[1:] - 1.0)))
    log_weight = log_ball + np.log1p(-np.exp(log_inner - log_ball)) - r / scale
    return np.exp(log_weight - log_weight.max())


@pytest.mark.landing
@pytest.mark.parametrize(("dimension", "scale"), [(5, 20.0), (300, 512.0)])
def test_the_standard_deviation_is_the_formulas(dimension, scale):
    draws = 400
    zeros = np.zeros(dimension, dtype=np.int64)
    sample = np.array([noise.linf_knorm(zeros, scale=scale) for _ in range(draws)], dtype=float)
    assert np.sqrt((sample**2).mean()) == pytest.approx(stddev(dimension, scale=scale), rel=0.2)
    assert abs(sample.mean()) < 7 * stddev(dimension, scale=scale) / math.sqrt(draws * dimension)
