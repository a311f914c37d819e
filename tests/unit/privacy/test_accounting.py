import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.special import ndtr, ndtri

from synthdp.errors import ParameterError
from synthdp.privacy import accounting
from synthdp.privacy.accounting import NoiseEvent

epsilons = st.floats(min_value=0.01, max_value=20)
deltas = st.floats(min_value=1e-12, max_value=0.1)
mus = st.floats(min_value=1e-3, max_value=8)


def gaussian_delta(mu, epsilon):
    """Balle and Wang's formula with 80 digits."""
    with mpmath.workdps(80):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(-epsilon / mu + mu / 2) - mpmath.exp(epsilon) * mpmath.ncdf(-epsilon / mu - mu / 2)


def test_golden_gaussian_scale_for_zcdp():
    assert 1 / math.sqrt(2 * accounting.zcdp_from_approx(1.0, 1e-6)) == pytest.approx(4.5309, abs=5e-5)


def test_golden_gaussian_scale_for_gaussian_dp():
    assert 1 / accounting.gdp_from_approx(1.0, 1e-6) == pytest.approx(4.2247, abs=5e-5)


@pytest.mark.parametrize(("epsilon", "gain"), [(0.1, 1.0581), (1.0, 1.0516), (10.0, 1.0412)])
def test_gaussian_dp_allows_less_noise_than_zcdp(epsilon, gain):
    rho = accounting.zcdp_from_approx(epsilon, 1e-9)
    mu = accounting.gdp_from_approx(epsilon, 1e-9)
    assert math.sqrt(mu**2 / 2 / rho) == pytest.approx(gain, abs=5e-5)


@given(rho=st.floats(min_value=1e-4, max_value=5), epsilon=epsilons)
def test_zcdp_delta_is_the_minimum_over_orders(rho, epsilon):
    alpha = 1 + np.geomspace(1e-4, 1e5, 20_000)
    exponent = (alpha - 1) * (alpha * rho - epsilon) - np.log(alpha - 1) + alpha * np.log1p(-1 / alpha)
    best = math.exp(min(0.0, exponent.min()))
    claimed = accounting.zcdp_to_delta(rho, epsilon)
    assert best * 0.99 <= claimed <= best * (1 + 1e-9) + 1e-300


@given(rho=st.floats(min_value=1e-3, max_value=5), epsilon=epsilons)
def test_zcdp_delta_covers_the_gaussian_that_has_it(rho, epsilon):
    assert accounting.zcdp_to_delta(rho, epsilon) >= gaussian_delta(math.sqrt(2 * rho), epsilon)


@given(mu=mus, epsilon=st.floats(min_value=0, max_value=30))
def test_gaussian_delta_is_never_too_small_and_tight(mu, epsilon):
    exact = gaussian_delta(mu, epsilon)
    claimed = accounting.gdp_to_delta(mu, epsilon)
    density = math.exp(-((epsilon / mu - mu / 2) ** 2) / 2)
    assert claimed >= min(1, exact)
    assert claimed <= exact * (1 + 1e-9) + 1e-10 * density + 1e-300


def test_gaussian_delta_far_out_is_not_zero():
    assert accounting.gdp_to_delta(1e-3, 20.0) > 0


@given(epsilon=epsilons, delta=deltas)
def test_what_may_be_spent_costs_no_more_than_the_promise(epsilon, delta):
    rho, mu = accounting.zcdp_from_approx(epsilon, delta), accounting.gdp_from_approx(epsilon, delta)
    assert accounting.zcdp_to_delta(rho, epsilon) <= delta
    assert accounting.zcdp_to_delta(rho * (1 + 1e-6), epsilon) > delta
    assert gaussian_delta(mu, epsilon) <= delta
    assert gaussian_delta(mu * (1 + 1e-6), epsilon) > delta


@given(mu=mus, delta=deltas)
def test_the_epsilon_of_a_loss_is_the_least(mu, delta):
    epsilon = accounting.gdp_to_epsilon(mu, delta)
    assert gaussian_delta(mu, epsilon) <= delta
    assert epsilon == 0 or gaussian_delta(mu, epsilon * (1 - 1e-6)) > delta
    rho = mu**2 / 2
    assert accounting.zcdp_to_delta(rho, accounting.zcdp_to_epsilon(rho, delta)) <= delta
    assert accounting.zcdp_to_epsilon(rho, delta) >= epsilon


def test_a_loss_beyond_every_epsilon_is_infinite():
    assert accounting.zcdp_to_epsilon(1e6, 1e-6) == math.inf
    assert accounting.gdp_to_epsilon(1e3, 1e-6) == math.inf


def two_point_delta(loss_range, top, epsilon):
    """Hockey stick of the pair whose losses are top and top - loss_range."""
    rare = (1 - math.exp(top - loss_range)) / (math.exp(top) - math.exp(top - loss_range))
    pair = ((rare * math.exp(top), rare), (1 - rare * math.exp(top), 1 - rare))
    return sum(max(0.0, p - math.exp(epsilon) * q) for p, q in pair)


@given(loss_range=st.floats(min_value=0.01, max_value=8), share=st.floats(min_value=0.01, max_value=0.99))
def test_every_bounded_range_pair_is_within_its_gaussian(loss_range, share):
    mu = accounting.gdp_from_bounded_range(loss_range)
    for epsilon in np.linspace(0, loss_range, 15):
        assert two_point_delta(loss_range, share * loss_range, epsilon) <= gaussian_delta(mu, epsilon) + 1e-15


@given(loss_range=st.floats(min_value=0.05, max_value=8))
def test_no_smaller_gaussian_covers_the_bounded_range(loss_range):
    mu = accounting.gdp_from_bounded_range(loss_range)
    vertex = 1 / (1 + math.exp(loss_range / 2))  # both errors of the symmetric pair's best test
    assert ndtr(-ndtri(vertex) - mu) == pytest.approx(vertex, rel=1e-9)
    assert ndtr(-ndtri(vertex) - mu * 0.999) > vertex


def test_a_pure_loss_is_a_bounded_range_of_twice_its_size():
    assert accounting.gdp_from_pure(0.7) == accounting.gdp_from_bounded_range(1.4)


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def shifted_laplace(scale, *shifts, reach=80):
    """Laws of the unshifted and the shifted vector on a grid, flat."""
    z = np.arange(-reach, reach + 1)
    axis = lambda a: np.exp(-np.abs(z - a) / scale) / np.exp(-np.abs(np.arange(-999, 1000)) / scale).sum()  # noqa: E731
    base, moved = axis(0), axis(shifts[0])
    for a in shifts[1:]:
        base, moved = np.multiply.outer(base, axis(0)), np.multiply.outer(moved, axis(a))
    return base.ravel(), moved.ravel()


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.5, 0.9])
def test_one_coordinate_is_the_worst_place_for_an_l1_shift(epsilon):
    worst = hockey_stick(*shifted_laplace(3.0, 3), epsilon)
    assert hockey_stick(*shifted_laplace(3.0, 1, 2), epsilon) <= worst + 1e-12
    assert hockey_stick(*shifted_laplace(3.0, -1, 1, 1, reach=40), epsilon) <= worst + 1e-9


def test_pld_of_one_laplace_vector_covers_its_exact_hockey_stick():
    delta = 1e-2
    epsilon = accounting.pld_epsilon([NoiseEvent(kind="laplace", scale=3.0, sensitivity=3)], delta)
    laws = shifted_laplace(3.0, 3)
    assert hockey_stick(*laws, epsilon) <= delta
    assert hockey_stick(*laws, epsilon - 2e-4) > delta


def test_pld_golden_mixture():
    events = [
        NoiseEvent(kind="gaussian", scale=30.0, sensitivity=1, count=200),
        NoiseEvent(kind="laplace", scale=20.0, sensitivity=1, count=100),
    ]
    assert accounting.pld_epsilon(events, 1e-9) == pytest.approx(4.06, abs=0.005)


def test_pld_of_a_fine_gaussian_is_the_gaussian_dp_one():
    event = NoiseEvent(kind="gaussian", scale=1024 * 5.0, sensitivity=2 * 1024**2, count=3, coordinates=50)
    exact = accounting.gdp_to_epsilon(math.sqrt(6) / 5, 1e-6)
    assert exact <= accounting.pld_epsilon([event], 1e-6) <= exact * 1.001


def test_pld_of_shifts_of_one_agrees_with_the_normal_bound():
    by_table = NoiseEvent(kind="gaussian", scale=60.0, sensitivity=9, coordinates=9, shifts_of_one=True)
    by_bound = NoiseEvent(kind="gaussian", scale=60.0, sensitivity=9, coordinates=9)
    first, second = (accounting.pld_epsilon([event], 1e-6) for event in (by_table, by_bound))
    assert first == pytest.approx(second, rel=2e-3)


def test_pld_is_infinite_when_the_lattice_uses_up_delta():
    event = NoiseEvent(kind="gaussian", scale=2.0, sensitivity=4, coordinates=100)
    assert accounting.pld_epsilon([event], 1e-6) == math.inf


def test_more_noise_never_costs_more():
    def cost(scale):
        return accounting.pld_epsilon([NoiseEvent(kind="gaussian", scale=scale, sensitivity=1, count=10)], 1e-6)

    costs = [cost(scale) for scale in (4.0, 8.0, 16.0, 32.0)]
    assert costs == sorted(costs, reverse=True)


def test_pld_refuses_tiny_deltas_and_empty_plans():
    with pytest.raises(ParameterError, match="delta"):
        accounting.pld_epsilon([NoiseEvent(kind="laplace", scale=1.0, sensitivity=1)], 1e-12)
    with pytest.raises(ParameterError, match="events"):
        accounting.pld_epsilon([], 1e-6)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"kind": "cauchy"}, "kind"),
        ({"scale": 0.0}, "scale"),
        ({"sensitivity": 0}, "sensitivity"),
        ({"count": 1.5}, "count"),
        ({"coordinates": 0}, "coordinates"),
        ({"kind": "gaussian", "scale": 0.5, "sensitivity": 4}, "scale"),
    ],
)
def test_an_event_outside_its_range_is_refused(changed, message):
    with pytest.raises(ParameterError, match=message):
        NoiseEvent(**{"kind": "laplace", "scale": 1.0, "sensitivity": 1, **changed})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: accounting.zcdp_to_delta(-1.0, 1.0), "rho"),
        (lambda: accounting.zcdp_to_epsilon(1.0, 1.0), "delta"),
        (lambda: accounting.zcdp_from_approx(0.0, 1e-6), "epsilon"),
        (lambda: accounting.gdp_to_delta(0.0, 1.0), "mu"),
        (lambda: accounting.gdp_to_epsilon(1.0, 0.0), "delta"),
        (lambda: accounting.gdp_from_approx(math.nan, 1e-6), "epsilon"),
        (lambda: accounting.rounded_gaussian_gap(0.9), "sigma"),
        (lambda: accounting.gdp_from_discrete_gaussian(1.0, sigma=3.9), "sigma"),
        (lambda: accounting.gdp_from_discrete_gaussian(0.0, sigma=9.0), "sensitivity"),
        (lambda: accounting.discrete_gaussian_sigma(1.0, mu=0.0), "mu"),
        (lambda: accounting.discrete_gaussian_sigma(0.0, mu=1.0), "sensitivity"),
        (lambda: accounting.zcdp_to_delta(0.0, 1.0), "rho"),
        (lambda: accounting.zcdp_to_delta(1.0, -0.1), "epsilon"),
        (lambda: accounting.zcdp_to_epsilon(0.0, 1e-6), "rho"),
        (lambda: accounting.zcdp_from_approx(1.0, 0.0), "delta"),
        (lambda: accounting.gdp_to_delta(1.0, -0.1), "epsilon"),
        (lambda: accounting.gdp_to_epsilon(0.0, 1e-6), "mu"),
        (lambda: accounting.gdp_from_approx(1.0, 1.0), "delta"),
        (lambda: accounting.gdp_from_approx(-0.1, 1e-6), "epsilon"),
        (lambda: accounting.gdp_from_bounded_range(0.0), "loss_range"),
        (lambda: accounting.gdp_from_bounded_range(1401.0), "epsilon"),
        (lambda: accounting.gdp_from_discrete_gaussian(1.0, sigma=2.0**53 + 2), "sigma"),
        (lambda: accounting.pld_epsilon([NoiseEvent(kind="laplace", scale=1.0, sensitivity=1)], 1.0), "delta"),
    ],
)
def test_numbers_outside_their_range_are_refused(call, message):
    with pytest.raises(ParameterError, match=message):
        call()


def test_a_delta_that_the_lattice_nearly_uses_up_buys_no_epsilon():
    event = NoiseEvent(kind="gaussian", scale=40.0, sensitivity=4)
    used = 2 * accounting.rounded_gaussian_gap(40.0)
    assert accounting.pld_epsilon([event], used + 1e-13) == math.inf
    assert accounting.pld_epsilon([event], used + 0.9e-11) == math.inf
    assert accounting.pld_epsilon([event], 2 * used) < 1.0


def test_a_delta_is_a_probability_also_where_every_order_fails():
    assert accounting.zcdp_to_delta(1e6, 0.0) == 1.0
    assert accounting.zcdp_to_delta(1e6, 1.0) == 1.0


def test_a_gaussian_vector_beyond_the_table_costs_as_the_normal_law_less_a_twelfth():
    event = NoiseEvent(kind="gaussian", scale=60.0, sensitivity=4, count=3, coordinates=1)
    mu = math.sqrt(3 * 4 / (60.0**2 - 1 / 12))
    gap = 3 * accounting.rounded_gaussian_gap(60.0)
    found = accounting.pld_epsilon([event], 1e-3)
    assert found == pytest.approx(accounting.gdp_to_epsilon(mu, 1e-3 - (1 + math.exp(found)) * gap), rel=1e-5)
