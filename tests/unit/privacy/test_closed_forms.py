"""Every closed form against the same formula with 50 digits: never on the wrong side, and near on the right one."""

from __future__ import annotations

import math

import mpmath
import pytest
from hypothesis import assume, given, strategies as st
from mpmath import mpf

from synthdp.errors import ParameterError
from synthdp.privacy import accounting, calibration
from synthdp.privacy.accounting import NoiseEvent
from synthdp.privacy.calibration import gaussian_account
from synthdp.privacy.loss import ApproxDP, GaussianDP

NEAR = 3e-11
rhos = st.floats(min_value=1e-4, max_value=10)
mus = st.floats(min_value=1e-2, max_value=8)
epsilons = st.floats(min_value=0.0, max_value=20)


@pytest.fixture(autouse=True)
def _fifty_digits():
    with mpmath.workdps(50):
        yield


def never_less(claimed, exact, *, near=NEAR, floor=0.0):
    assert exact <= claimed <= exact * (1 + near) + floor


def gap(sigma):
    tau = mpmath.sqrt(mpf(sigma) ** 2 - mpf(1) / 12)
    smooth = (mpmath.sqrt(24) / tau**4 + mpmath.sqrt(30) / tau**5) / 720
    return (smooth + mpf("2.001") * mpmath.exp(-2 * mpmath.pi**2 * mpf(sigma) ** 2)) / 2


def gaussian_delta(mu, epsilon):
    mu, epsilon = mpf(mu), mpf(epsilon)
    return mpmath.ncdf(-epsilon / mu + mu / 2) - mpmath.exp(epsilon) * mpmath.ncdf(-epsilon / mu - mu / 2)


def concentrated_delta(rho, epsilon):
    """The minimum over orders, by bisection of the derivative."""
    rho, epsilon = mpf(rho), mpf(epsilon)
    low, high = mpf(10) ** -60, (epsilon + 2) / rho + 2
    for _ in range(400):
        x = mpmath.sqrt(low * high)
        low, high = (low, x) if (2 * x + 1) * rho - epsilon - mpmath.log1p(1 / x) >= 0 else (x, high)
    return mpmath.exp(x * ((1 + x) * rho - epsilon) - mpmath.log(x) - (1 + x) * mpmath.log1p(1 / x))


# The lattice of the Gaussian


@pytest.mark.parametrize("sigma", [1.0, 1.25, 2.0, 7.0, 300.0])
def test_the_distance_of_the_rounded_normal_law_is_its_formula_rounded_up(sigma):
    never_less(accounting.rounded_gaussian_gap(sigma), gap(sigma))


@given(sensitivity=st.floats(1e-3, 1e9), sigma=st.floats(4, 2**53))
def test_the_loss_of_integer_gaussian_noise_is_its_formula_rounded_up(sensitivity, sigma):
    """Lemma 1 with v = 4, its factor for the wiggle of the lattice included."""
    with mpmath.workdps(80):
        tau = mpmath.sqrt(mpf(sigma) ** 2 - 4)
        wiggle = mpf("2.001") * mpmath.exp(-8 * mpmath.pi**2)
        ratio = mpmath.log((1 + wiggle) / (1 - wiggle))
        exact = mpf(sensitivity) / tau * (1 + mpf("5.02") * ratio * tau)
        never_less(accounting.gdp_from_discrete_gaussian(sensitivity, sigma=sigma), exact)


@given(sensitivity=st.floats(1e-3, 1e9), mu=mus)
def test_the_noise_of_a_gaussian_loss_costs_no_more_and_hardly_less(sensitivity, mu):
    sigma = accounting.discrete_gaussian_sigma(sensitivity, mu=mu)
    assert accounting.gdp_from_discrete_gaussian(sensitivity, sigma=sigma) <= mu
    assert sigma == 4 or accounting.gdp_from_discrete_gaussian(sensitivity, sigma=sigma) >= mu * (1 - 1e-9)


@pytest.mark.parametrize("loss", [ApproxDP(1.0, 1e-9), ApproxDP(40.0, 1e-6), ApproxDP(0.1, 1e-30)])
def test_an_account_is_the_largest_gaussian_budget_and_never_worse_than_zcdp(loss):
    account = gaussian_account(loss)
    assert account == GaussianDP(accounting.gdp_from_approx(loss.epsilon, loss.delta))
    assert account.mu**2 / 2 >= accounting.zcdp_from_approx(loss.epsilon, loss.delta)
    with mpmath.workdps(50):
        assert gaussian_delta(account.mu, loss.epsilon) <= loss.delta


# Conversions


@given(rho=rhos, epsilon=epsilons)
def test_the_delta_of_zcdp_is_its_minimum_rounded_up(rho, epsilon):
    with mpmath.workdps(50):
        never_less(
            accounting.zcdp_to_delta(rho, epsilon), min(concentrated_delta(rho, epsilon), 1), near=1e-10, floor=1e-300
        )


@given(mu=mus, epsilon=epsilons)
def test_the_delta_of_gaussian_dp_is_its_formula_rounded_up(mu, epsilon):
    with mpmath.workdps(50):
        claimed, exact = accounting.gdp_to_delta(mu, epsilon), gaussian_delta(mu, epsilon)
        slack = NEAR * mpmath.ncdf(-mpf(epsilon) / mu + mpf(mu) / 2)
    assert exact <= claimed <= exact + slack + 1e-300 or exact > 1 - 1e-10


@given(loss_range=st.floats(min_value=1e-3, max_value=60))
def test_the_gaussian_of_a_bounded_range_is_its_formula_rounded_up(loss_range):
    with mpmath.workdps(50):
        vertex = 1 / (1 + mpmath.exp(mpf(loss_range) / 2))
        exact = 2 * mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * vertex)
        never_less(accounting.gdp_from_bounded_range(loss_range), exact, floor=2e-14)


@given(rho=rhos, epsilon=st.floats(0.05, 20))
def test_zcdp_converts_back_to_no_less(rho, epsilon):
    delta = accounting.zcdp_to_delta(rho, epsilon)
    assume(delta < 0.5)
    assert accounting.zcdp_from_approx(epsilon, delta) >= rho * (1 - 1e-12)
    assert accounting.zcdp_to_epsilon(rho, delta) <= epsilon * (1 + 1e-12)


@given(mu=mus, epsilon=st.floats(0.05, 20))
def test_gaussian_dp_converts_back_to_no_less(mu, epsilon):
    delta = accounting.gdp_to_delta(mu, epsilon)
    assume(delta < 0.5)
    assert accounting.gdp_from_approx(epsilon, delta) >= mu * (1 - 1e-9)
    assert accounting.gdp_to_epsilon(mu, delta) <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.3, 0.9])
def test_at_no_epsilon_a_gaussian_may_be_as_far_off_as_delta(delta):
    found = 2 * mpmath.ncdf(mpf(accounting.gdp_from_approx(0.0, delta)) / 2) - 1
    assert delta - NEAR <= found <= delta


@pytest.mark.parametrize("delta", [1e-30, 1e-14])
def test_a_delta_below_all_rounding_is_paid_all_the_same(delta):
    assert gaussian_delta(accounting.gdp_from_approx(0.0, delta), 0) <= delta
    assert accounting.gdp_from_approx(0.0, delta) >= delta


def test_a_large_delta_needs_no_epsilon():
    assert accounting.gdp_to_epsilon(0.1, 0.5) == 0.0
    assert accounting.zcdp_to_epsilon(0.001, 0.5) == 0.0


@pytest.mark.parametrize("epsilon", [300.0, 600.0, 699.0])
def test_an_epsilon_up_to_700_is_found(epsilon):
    delta = accounting.gdp_to_delta(30.0, epsilon)
    assert accounting.gdp_to_epsilon(30.0, delta) == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        lambda at: accounting.zcdp_to_delta(1.0, at),
        lambda at: accounting.gdp_to_delta(30.0, at),
        lambda at: accounting.gdp_from_approx(at, 1e-6),
        lambda at: accounting.gdp_from_bounded_range(2 * at),
        accounting.gdp_from_pure,
    ],
)
def test_an_epsilon_is_taken_up_to_700_and_no_further(call):
    assert math.isfinite(call(700.0))
    with pytest.raises(ParameterError, match="epsilon"):
        call(700.5)


# Privacy loss distributions


def laplace(scale, sensitivity=1, **more):
    return NoiseEvent(kind="laplace", scale=scale, sensitivity=sensitivity, **more)


def gaussian(scale, sensitivity=1, **more):
    return NoiseEvent(kind="gaussian", scale=scale, sensitivity=sensitivity, **more)


@pytest.mark.parametrize(
    ("event", "tabulated"),
    [
        (laplace(1e6, 7), True),
        (gaussian(2000.0), True),
        (gaussian(2000.5), False),
        (gaussian(60.0, 2), False),
        (gaussian(60.0, 9, coordinates=9, shifts_of_one=True), True),
        (gaussian(2000.5, 9, coordinates=9, shifts_of_one=True), False),
    ],
)
def test_the_exact_law_is_tabulated_for_single_steps_of_a_small_scale(event, tabulated):
    assert event.tabulated is tabulated


def test_an_event_is_one_vector_of_one_coordinate_unless_said_otherwise():
    event = laplace(1.0)
    assert (event.count, event.coordinates, event.shifts_of_one) == (1, 1, False)
    assert gaussian(0.5).scale == 0.5
    assert gaussian(1.0, 4).scale == 1.0


@pytest.mark.parametrize("changed", [{"sensitivity": 1.5}, {"count": 0}, {"coordinates": 2.5}, {"count": -1}])
def test_an_event_counts_in_whole_numbers(changed):
    with pytest.raises(ParameterError, match=next(iter(changed))):
        NoiseEvent(**{"kind": "laplace", "scale": 1.0, "sensitivity": 1, **changed})


@pytest.mark.parametrize(("sensitivity", "count"), [(1, 1), (3, 1), (2, 5)])
def test_laplace_vectors_cost_their_sum_where_delta_is_small(sensitivity, count):
    found = accounting.pld_epsilon([laplace(8.0, sensitivity, count=count)], 1e-10)
    assert found == pytest.approx(sensitivity * count / 8, rel=0.02)
    assert found <= sensitivity * count / 8 * (1 + 1e-3)


def test_several_vectors_of_normal_noise_add_up_in_squares():
    events = [gaussian(3000.0, 40_000, count=2), gaussian(5000.0, 90_000), gaussian(4000.0, 10_000, count=3)]
    squares = 2 * 40_000 / 3000**2 + 90_000 / 5000**2 + 3 * 10_000 / 4000**2
    exact = accounting.gdp_to_epsilon(math.sqrt(squares), 1e-5)
    assert exact <= accounting.pld_epsilon(events, 1e-5) <= exact * 1.002


def test_a_table_and_a_normal_law_compose():
    found = accounting.pld_epsilon([gaussian(40.0, count=30), gaussian(5000.0, 250_000, count=3)], 1e-5)
    exact = accounting.gdp_to_epsilon(math.sqrt(30 / 40**2 + 3 * 250_000 / 5000**2), 1e-5)
    assert found == pytest.approx(exact, rel=3e-3)


def test_the_distance_of_every_coordinate_is_paid_from_delta():
    event = gaussian(30.0, 4, count=5, coordinates=7)
    lattice = 5 * 7 * accounting.rounded_gaussian_gap(30.0)
    found = accounting.pld_epsilon([event], 1e-6)
    paid = accounting.gdp_to_epsilon(math.sqrt(5 * 4 / (900 - 1 / 12)), 1e-6 - (1 + math.exp(found)) * lattice)
    assert found == pytest.approx(paid, rel=1e-4)
    assert found > accounting.gdp_to_epsilon(math.sqrt(5 * 4 / (900 - 1 / 12)), 1e-6)


def test_the_least_delta_of_a_table_is_taken():
    assert accounting.pld_epsilon([laplace(4.0)], accounting.SMALLEST_PLD_DELTA) == pytest.approx(0.25, rel=1e-2)


# Accuracy


def test_the_bounds_of_the_papers_in_numbers():
    shared = {"sensitivity": 3.0, "epsilon": 0.7, "beta": 0.02}
    k, beta = 37, mpf("0.02")
    sigma = 3 * mpmath.sqrt(k) * mpmath.sqrt(2 * mpmath.log(mpf("1.25") / mpf("1e-5"))) / mpf("0.7")
    assert calibration.gaussian_bound(k, **shared, delta=1e-5) == pytest.approx(
        float(sigma * mpmath.sqrt(2 * mpmath.log(2 * k / beta)))
    )
    assert calibration.laplace_bound(k, **shared) == pytest.approx(float(3 * k / mpf("0.7") * mpmath.log(k / beta)))
    assert calibration.laplace_bound(k, **shared, delta=1e-5) == pytest.approx(
        float(3 * mpmath.sqrt(8 * k * mpmath.log(mpf(10) ** 5)) / mpf("0.7") * mpmath.log(k / beta))
    )


def test_the_classical_bound_holds_up_to_an_epsilon_of_one():
    assert calibration.gaussian_bound(3, sensitivity=1.0, epsilon=1.0, delta=1e-6, beta=0.1) > 0


@pytest.mark.parametrize(
    "changed",
    [{"k": 1.5}, {"k": 0}, {"k": -1}, {"beta": 0.0}, {"beta": 1.0}, {"epsilon": math.inf}, {"sensitivity": math.nan}],
)
@pytest.mark.parametrize("rule", [calibration.laplace, calibration.laplace_bound, calibration.linf_knorm])
def test_an_accuracy_outside_its_range_is_refused(rule, changed):
    with pytest.raises(ParameterError):
        rule(**{"k": 3, "sensitivity": 1.0, "epsilon": 1.0, "beta": 0.1, **changed})
