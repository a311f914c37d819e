import math

import pytest
from hypothesis import given, strategies as st
from scipy.special import gammaincc, ndtr

from synthdp.errors import ParameterError
from synthdp.privacy import accounting, calibration, composition

numbers = {
    "k": st.integers(1, 2000),
    "sensitivity": st.floats(min_value=1e-3, max_value=10),
    "epsilon": st.floats(min_value=0.01, max_value=1),
    "beta": st.floats(min_value=1e-6, max_value=0.5),
}


@given(**numbers)
def test_laplace_quantile_leaves_exactly_beta(k, sensitivity, epsilon, beta):
    alpha = calibration.laplace(k, sensitivity=sensitivity, epsilon=epsilon, beta=beta)
    tail = math.exp(-alpha / (k * sensitivity / epsilon))
    assert -math.expm1(k * math.log1p(-tail)) == pytest.approx(beta, rel=1e-6)


@given(**numbers)
def test_gaussian_quantile_leaves_exactly_beta(k, sensitivity, epsilon, beta):
    alpha = calibration.gaussian(k, sensitivity=sensitivity, epsilon=epsilon, delta=1e-6, beta=beta)
    sigma = sensitivity * math.sqrt(k) / accounting.gdp_from_approx(epsilon, 1e-6)
    assert -math.expm1(k * math.log1p(-2 * ndtr(-alpha / sigma))) == pytest.approx(beta, rel=1e-6)


@given(**numbers)
def test_knorm_quantile_leaves_exactly_beta(k, sensitivity, epsilon, beta):
    alpha = calibration.linf_knorm(k, sensitivity=sensitivity, epsilon=epsilon, beta=beta)
    assert gammaincc(k, alpha * epsilon / sensitivity) == pytest.approx(beta, rel=1e-6)


@given(**numbers)
def test_the_papers_bounds_are_above_the_quantiles(k, sensitivity, epsilon, beta):
    shared = {"sensitivity": sensitivity, "epsilon": epsilon, "beta": beta}
    slack = 1 + 1e-9
    assert calibration.laplace(k, **shared) <= calibration.laplace_bound(k, **shared) * slack
    assert calibration.gaussian(k, **shared, delta=1e-6) <= calibration.gaussian_bound(k, **shared, delta=1e-6) * slack


def test_the_lectures_theorem_in_numbers():
    shared = {"sensitivity": 2.0, "epsilon": 0.5, "beta": 0.1}
    assert calibration.laplace_bound(40, **shared) == pytest.approx(2 * 40 / 0.5 * math.log(400))
    approximate = 2 * math.sqrt(8 * 40 * math.log(1e6)) / 0.5 * math.log(400)
    assert calibration.laplace_bound(40, **shared, delta=1e-6) == pytest.approx(approximate)


def test_a_delta_helps_laplace_by_the_composition_rule():
    pure = calibration.laplace(200, sensitivity=1.0, epsilon=1.0, beta=0.05)
    approximate = calibration.laplace(200, sensitivity=1.0, epsilon=1.0, beta=0.05, delta=1e-6, rule="zcdp")
    assert approximate / pure == pytest.approx(1 / composition.split(1.0, 200, delta=1e-6, rule="zcdp") / 200)


def test_the_classical_gaussian_bound_stops_at_epsilon_one():
    with pytest.raises(ParameterError, match="epsilon"):
        calibration.gaussian_bound(3, sensitivity=1.0, epsilon=1.5, delta=1e-6, beta=0.1)


@pytest.mark.parametrize(
    ("changed", "message"),
    [({"k": 0}, "k"), ({"sensitivity": 0.0}, "sensitivity"), ({"epsilon": -1.0}, "epsilon"), ({"beta": 1.0}, "beta")],
)
def test_numbers_outside_their_range_are_refused(changed, message):
    with pytest.raises(ParameterError, match=message):
        calibration.laplace(**{"k": 3, "sensitivity": 1.0, "epsilon": 1.0, "beta": 0.1, **changed})
