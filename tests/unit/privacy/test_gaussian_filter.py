"""Integer noise as Gaussian DP: the exact law against its bound, and exact adaptive plans on a small lattice."""

import itertools
import math

import mpmath
import numpy as np
import pytest

from synthdp.privacy import accounting


def exact_gap(sigma):
    """Total variation of N_Z(0, sigma^2) and the rounded normal law of variance sigma^2 - 1/12, with 60 digits."""
    with mpmath.workdps(60):
        sigma = mpmath.mpf(sigma)
        tau = mpmath.sqrt(sigma**2 - mpmath.mpf(1) / 12)
        last = int(14 * sigma) + 3
        weights = [mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * sigma**2)) for k in range(last)]
        total = weights[0] + 2 * sum(weights[1:])
        inside = [mpmath.erf((k + mpmath.mpf(1) / 2) / (tau * mpmath.sqrt(2))) for k in range(last)]
        rounded = [inside[0], *((b - a) / 2 for a, b in itertools.pairwise(inside))]
        gaps = [abs(w / total - q) for w, q in zip(weights, rounded, strict=True)]
        return (gaps[0] + 2 * sum(gaps[1:])) / 2


@pytest.mark.parametrize("sigma", [1.0, 1.5, 2.0, 5.0, 25.0])
def test_the_gap_bounds_the_exact_distance(sigma):
    exact = exact_gap(sigma)
    assert exact <= accounting.rounded_gaussian_gap(sigma) <= 16 * exact


def test_the_gap_falls_with_sigma():
    gaps = [accounting.rounded_gaussian_gap(sigma) for sigma in np.geomspace(1, 1e7, 200)]
    assert gaps == sorted(gaps, reverse=True)


def normal_score(tail):
    """The z at which the normal law has this upper tail, at most 1/2: Newton's method on its logarithm."""
    z = mpmath.sqrt(max(mpmath.mpf(0), -2 * mpmath.log(2 * tail)))
    for _ in range(100):
        now = mpmath.erfc(z / mpmath.sqrt(2)) / 2
        step = mpmath.log(now / tail) * now / mpmath.npdf(z)
        z += step
        if abs(step) < mpmath.mpf(10) ** -40:
            return z
    raise AssertionError("Newton's method did not end")


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("sigma", "reach"), [(4.0, 130), (5.0, 200), (8.0, 400), pytest.param(21.5, 900, marks=pytest.mark.slow)]
)
def test_integer_gaussian_noise_is_gaussian_dp_exactly(sigma, reach):
    """No threshold tells N_Z(0, sigma^2) from its shift by 1 better than the bound allows, however far in the tail.

    Likelihood ratios are monotone, so the best tests are thresholds, and Gaussian DP with mu says that the normal scores
    of the tails on both sides differ by at most mu.
    """
    with mpmath.workdps(60):
        weights = [mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * mpmath.mpf(sigma) ** 2)) for k in range(2 * reach)]
        total = weights[0] + 2 * sum(weights[1:])
        tails = list(itertools.accumulate(reversed(weights)))[::-1][1 : reach + 1]
        scores = [
            normal_score(tail / total) for tail in tails
        ]  # of P(z >= 1), P(z >= 2), ...; P(z >= 0) mirrors the first
        steps = [b - a for a, b in itertools.pairwise([-scores[0], *scores])]
        claimed = accounting.gdp_from_discrete_gaussian(1.0, sigma=sigma)
        assert max(steps) <= claimed
        assert max(steps) >= 1 / mpmath.mpf(sigma)
        assert claimed * sigma <= 1 / math.sqrt(1 - 4 / sigma**2) * (1 + 1e-10)


def discrete_gaussian(sigma, shift, reach):
    z = np.arange(-reach, reach + 1)
    everything = np.arange(-40 * reach, 40 * reach + 1)
    return np.exp(-((z - shift) ** 2) / (2 * sigma**2)) / np.exp(-(everything**2) / (2 * sigma**2)).sum()


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.0])
@pytest.mark.parametrize(("sigma", "shift"), [(4.0, 1), (5.0, 4), (20.0, 11)])
def test_one_discrete_gaussian_is_within_the_bound(sigma, shift, epsilon):
    reach = int(14 * sigma)
    p, q = discrete_gaussian(sigma, shift, reach), discrete_gaussian(sigma, 0, reach)
    mu = accounting.gdp_from_discrete_gaussian(shift, sigma=sigma)
    assert hockey_stick(p, q, epsilon) <= accounting.gdp_to_delta(mu, epsilon)


@pytest.mark.landing
@pytest.mark.sampled("landing")
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.0])
def test_a_plan_that_adapts_is_within_the_filter(epsilon):
    """The first answer decides which noise, and how many coordinates, spend the rest of the budget."""
    first, reach = 16.0, 110
    plans = {  # answer's sign -> shifts and scales of the later steps, each of total 0.25
        True: [(4, 8.0)],
        False: [(4, 16.0), (7, 16.0 * 7 / math.sqrt(48))],
    }
    laws = {}
    for table in (1, 0):
        answer = discrete_gaussian(first, 6 * table, reach)
        z = np.arange(-reach, reach + 1)
        parts = []
        for sign, steps in plans.items():
            later = np.ones(1)
            for shift, sigma in steps:
                later = np.multiply.outer(later, discrete_gaussian(sigma, shift * table, reach)).ravel()
            parts.append(np.multiply.outer(answer[(z > 1) == sign], later).ravel())
        laws[table] = np.concatenate(parts)
    for steps in plans.values():
        assert sum((shift / sigma) ** 2 for shift, sigma in steps) == pytest.approx(0.25)
    spent = [
        sum(accounting.gdp_from_discrete_gaussian(shift, sigma=sigma) ** 2 for shift, sigma in [(6, first), *steps])
        for steps in plans.values()
    ]
    mu = math.sqrt(max(spent))
    found = hockey_stick(laws[1], laws[0], epsilon)
    assert found <= accounting.gdp_to_delta(mu, epsilon)
    assert found >= accounting.gdp_to_delta(mu, epsilon) * 0.7
