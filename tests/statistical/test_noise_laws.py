"""The integer laws against their exact probabilities: the right scale passes, one 30 % off fails, at p = 1e-9."""

import math
from itertools import permutations

import numpy as np
import pytest
from scipy.stats import chisquare

from synthdp.privacy import noise

DRAWS = 20_000
P = 1e-9


def law(weight, reach=400):
    """Probabilities of -reach..reach."""
    z = np.arange(-reach, reach + 1)
    w = np.array([weight(int(abs(k))) for k in z])
    return z, w / w.sum()


def p_value(sample, z, probabilities):
    """Chi-square over the integers that are expected at least ten times, the rest lumped into two tails."""
    common = probabilities * sample.size >= 10
    low, high = z[common].min(), z[common].max()
    clipped = np.clip(sample, low - 1, high + 1)
    observed = np.array([(clipped == k).sum() for k in range(low - 1, high + 2)], dtype=float)
    expected = np.concatenate(([probabilities[z < low].sum()], probabilities[common], [probabilities[z > high].sum()]))
    return chisquare(observed, expected / expected.sum() * observed.sum()).pvalue


LAWS = {
    "laplace": (noise.discrete_laplace, lambda scale: lambda k: math.exp(-k / scale)),
    "gaussian": (noise.discrete_gaussian, lambda scale: lambda k: math.exp(-k * k / (2 * scale**2))),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("scale", [0.8, 1.5, 2.0, 3.0, 5.0, 12.5])
def test_noise_follows_its_exact_law_and_no_other_scale(name, scale):
    draw, weight = LAWS[name]
    sample = draw(np.full(DRAWS, 17, dtype=np.int64), scale=scale) - 17
    assert p_value(sample, *law(weight(scale))) > P
    assert p_value(sample, *law(weight(scale * 1.3))) < P
    assert p_value(sample, *law(weight(scale / 1.3))) < P


@pytest.mark.landing
@pytest.mark.parametrize("name", LAWS)
def test_coordinates_are_uncorrelated(name):
    draw, _ = LAWS[name]
    sample = draw(np.zeros(DRAWS, dtype=np.int64), scale=5.0).astype(float)
    assert abs(np.corrcoef(sample[:-1], sample[1:])[0, 1]) < 6.5 / math.sqrt(DRAWS)


def permute_and_flip(scores, scale):
    """Exact law, over all orders."""
    coin = [math.exp((s - max(scores)) / scale) for s in scores]
    orders = list(permutations(range(len(scores))))
    chosen = np.zeros(len(scores))
    for order in orders:
        left = 1.0
        for i in order:
            chosen[i] += left * coin[i] / len(orders)
            left *= 1 - coin[i]
    return chosen


def softmax(scores, scale):
    weights = np.exp((np.array(scores) - max(scores)) / scale)
    return weights / weights.sum()


@pytest.mark.landing
@pytest.mark.parametrize(
    ("draw", "exact", "other"),
    [
        (noise.noisy_max, permute_and_flip, softmax),
        (noise.exponential_mechanism, softmax, permute_and_flip),
    ],
)
def test_selection_among_three_follows_its_exact_law(draw, exact, other):
    scores = [0, 3, 6]
    draws = 5_500  # a wrong law passes with a chance below 1e-7
    observed = np.bincount([draw(np.array(scores, dtype=np.int64), scale=2.0) for _ in range(draws)], minlength=3)
    assert chisquare(observed, exact(scores, 2.0) * draws).pvalue > P
    assert chisquare(observed, exact(scores, 2.0 * 1.3) * draws).pvalue < P
    assert chisquare(observed, other(scores, 2.0) * draws).pvalue < P


@pytest.mark.parametrize("exact", [permute_and_flip, softmax])
def test_selection_ratio_on_neighbours_is_within_its_epsilon(exact):
    scale, epsilon = 2.0, noise.noisy_max_epsilon(1, scale=2.0, monotonic=False)
    for change in np.ndindex(3, 3, 3):
        ratio = exact([3, 5, 6], scale) / exact(list(np.array([2, 4, 5]) + change), scale)
        assert np.abs(np.log(ratio)).max() <= epsilon + 1e-12


def test_a_key_at_the_threshold_is_kept_as_often_as_the_law_says():
    count, threshold, scale = 30, 33, 4.0
    keys = {str(i): count for i in range(DRAWS)}
    kept = len(noise.laplace_threshold(keys, scale=scale, threshold=threshold))

    def chance(b):
        return math.exp(-(threshold - count) / b) / (1 + math.exp(-1 / b))

    def z_score(b):
        return abs(kept - DRAWS * chance(b)) / math.sqrt(DRAWS * chance(b) * (1 - chance(b)))

    _, delta = noise.laplace_threshold_cost(1, count, count, scale=scale, threshold=threshold)
    assert delta == pytest.approx(chance(scale), rel=1e-9)
    assert z_score(scale) < 6.1  # two-sided p = 1e-9
    assert z_score(scale * 1.3) > 6.1
