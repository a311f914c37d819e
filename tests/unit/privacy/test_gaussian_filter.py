"""The bridge from integer noise to Gaussian DP: the distance bound, and exact adaptive plans on a small lattice."""

import itertools
import math

import mpmath
import numpy as np
import pytest

from synthdp.errors import ParameterError
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


def discrete_gaussian(sigma, shift, reach):
    z = np.arange(-reach, reach + 1)
    everything = np.arange(-40 * reach, 40 * reach + 1)
    return np.exp(-((z - shift) ** 2) / (2 * sigma**2)) / np.exp(-(everything**2) / (2 * sigma**2)).sum()


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.0])
@pytest.mark.parametrize(("sigma", "shift"), [(2.0, 1), (5.0, 4), (20.0, 11)])
def test_one_discrete_gaussian_is_within_the_bound(sigma, shift, epsilon):
    reach = int(14 * sigma)
    p, q = discrete_gaussian(sigma, shift, reach), discrete_gaussian(sigma, 0, reach)
    mu = shift / math.sqrt(sigma**2 - 1 / 12)
    lattice = accounting.gaussian_filter_delta(epsilon, coordinates=1, min_lattice_sigma=sigma)
    assert hockey_stick(p, q, epsilon) <= accounting.gdp_to_delta(mu, epsilon) + lattice


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.0])
def test_a_plan_that_adapts_is_within_the_filter(epsilon):
    """The first answer decides which noise, and how many coordinates, spend the rest of the budget."""
    first, reach = 8.0, 120
    spent = (3 / first) ** 2
    plans = {  # answer's sign -> shifts and scales of the later steps, each of total 0.25
        True: [(2, 4.0)],
        False: [(4, 16.0), (7, 16.0 * 7 / math.sqrt(48))],
    }
    laws = {}
    for table in (1, 0):
        answer = discrete_gaussian(first, 3 * table, reach)
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
    mu = math.sqrt((spent + 0.25) / (1 - 1 / (12 * 4.0**2)))
    lattice = accounting.gaussian_filter_delta(epsilon, coordinates=3, min_lattice_sigma=4.0)
    found = hockey_stick(laws[1], laws[0], epsilon)
    assert found <= accounting.gdp_to_delta(mu, epsilon) + lattice
    assert found >= accounting.gdp_to_delta(mu, epsilon) * 0.9


def test_the_budget_leaves_room_for_the_lattice():
    settings = {"coordinates": 100_000, "min_lattice_sigma": 25 * 1024.0}
    mu = accounting.gaussian_filter_budget(1.0, 1e-9, **settings)
    lattice = accounting.gaussian_filter_delta(1.0, **settings)
    assert lattice < 1e-14
    true_mu = mu / math.sqrt(1 - 1 / (12 * settings["min_lattice_sigma"] ** 2))
    assert accounting.gdp_to_delta(true_mu, 1.0) + lattice <= 1e-9
    assert mu == pytest.approx(accounting.gdp_from_approx(1.0, 1e-9), rel=1e-5)


def test_a_coarse_lattice_is_refused_with_the_size_that_is_needed():
    with pytest.raises(ParameterError, match=r"min_lattice_sigma \(16384.0\) must be at least about (\d+)") as error:
        accounting.gaussian_filter_budget(10.0, 1e-9, coordinates=10**7, min_lattice_sigma=2.0**14)
    needed = float(str(error.value).split("about ")[1].split(" ")[0])
    assert accounting.gaussian_filter_budget(10.0, 1e-9, coordinates=10**7, min_lattice_sigma=needed) > 0
