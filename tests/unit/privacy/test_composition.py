import itertools
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from synthdp.errors import ParameterError
from synthdp.privacy import composition

# Scale b of Laplace noise (sensitivity 1) at which k queries cost (1, 1e-6) together: MECHANISMS.md section 0.
SCALES = {
    10: {"basic": (10, 0), "lecture": (33, 0), "drv": (17.2, 1), "zcdp": (14.3, 1), "rdp": (9.99, 2), "pld": (9.99, 2)},
    100: {
        "basic": (100, 0),
        "lecture": (105, 0),
        "drv": (54, 0),
        "zcdp": (45.3, 1),
        "rdp": (44.3, 1),
        "pld": (41.5, 1),
    },
    1000: {
        "basic": (1000, 0),
        "lecture": (332, 0),
        "drv": (172, 0),
        "zcdp": (143, 0),
        "rdp": (143, 0),
        "pld": (133.2, 1),
    },
}


@pytest.mark.sampled("landing")
@pytest.mark.parametrize(
    ("k", "rule", "scale", "digits"),
    [
        pytest.param(k, rule, *row[rule], marks=[pytest.mark.slow] * (rule == "pld" and k > 10))  # which takes seconds
        for k, row in SCALES.items()
        for rule in row
    ],
)
def test_the_table_of_composition_rules(k, rule, scale, digits):
    each = composition.split(1.0, k, delta=1e-6, rule=rule)
    assert round(1 / each, digits) == scale


@pytest.mark.slow
@pytest.mark.parametrize("rule", composition.RULES)
@pytest.mark.parametrize(("epsilon", "k"), [(0.5, 1), (1.0, 7), (4.0, 30)])
def test_a_split_is_the_largest_that_fits(rule, epsilon, k):
    total = composition.RULES[rule]
    each = composition.split(epsilon, k, delta=1e-7, rule=rule)
    assert total(each, k, delta=1e-7) <= epsilon * (1 + 1e-11)
    assert total(each * (1 + 1e-4), k, delta=1e-7) > epsilon


def randomised_response(epsilon, k):
    """Laws of k answers under both tables, one entry an outcome."""
    true, false = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))
    outcomes = list(itertools.product((0, 1), repeat=k))
    return tuple(
        np.array([math.prod(true if bit == table else false for bit in outcome) for outcome in outcomes])
        for table in (1, 0)
    )


@given(
    epsilon=st.floats(min_value=0.05, max_value=2),
    k=st.integers(1, 8),
    delta=st.floats(min_value=1e-6, max_value=0.2),
)
def test_optimal_composition_is_the_hockey_stick_of_randomised_response(epsilon, k, delta):
    p, q = randomised_response(epsilon, k)
    total = composition.optimal(epsilon, k, delta=delta)

    def hockey_stick(at):
        return np.maximum(p - math.exp(at) * q, 0).sum()

    assert hockey_stick(total) <= delta * (1 + 1e-9) + 1e-15
    assert total == 0 or hockey_stick(total - 1e-6) > delta * (1 - 1e-9)


@given(
    epsilon=st.floats(min_value=0.001, max_value=1),
    k=st.integers(1, 500),
    delta=st.floats(min_value=1e-9, max_value=1e-3),
)
def test_no_rule_for_pure_mechanisms_beats_the_optimal_one(epsilon, k, delta):
    best = composition.optimal(epsilon, k, delta=delta) * (1 - 1e-9)
    assert best <= composition.basic(epsilon, k)
    assert best <= composition.drv(epsilon, k, delta=delta)
    assert best <= composition.lecture(epsilon, k, delta=delta)
    assert best <= composition.zcdp(epsilon, k, delta=delta)


@pytest.mark.parametrize(("epsilon", "k"), [(0.02, 100), (0.1, 10), (0.5, 3)])
def test_knowing_the_noise_is_laplace_helps(epsilon, k):
    pld = composition.pld(epsilon, k, delta=1e-6)
    assert pld <= composition.optimal(epsilon, k, delta=1e-6) * (1 + 1e-3)
    assert pld <= composition.rdp(epsilon, k, delta=1e-6) * (1 + 1e-3)


@pytest.mark.parametrize(
    ("epsilon", "k", "delta"), [(0.02, 100, 1e-6), (1.0, 7, 1e-9), (3.0, 20, 1e-2), (6.0, 40, 0.1), (1e-3, 1, 1e-6)]
)
def test_the_rule_of_renyi_orders_is_the_least_over_all_orders(epsilon, k, delta):
    """Brute force over orders from just above 1 to 10^7; also where the best order is below 2."""
    excess = np.geomspace(1e-3, 1e7, 20_001)
    alpha = 1 + excess
    up = np.log(alpha / (2 * alpha - 1)) + excess * epsilon
    down = np.log(excess / (2 * alpha - 1)) - alpha * epsilon
    renyi = np.logaddexp(up, down) / excess
    totals = k * renyi - (math.log(delta) + np.log(alpha)) / excess + np.log1p(-1 / alpha)
    assert composition.rdp(epsilon, k, delta=delta) == pytest.approx(max(0.0, totals.min()), rel=1e-5, abs=1e-5)


def test_the_lectures_formula_is_infinite_where_it_is_not_proved():
    assert composition.lecture(1.0, 10, delta=1e-6) == math.inf
    assert composition.lecture(0.01, 10, delta=1e-6) == pytest.approx(0.01 * math.sqrt(80 * math.log(1e6)))


def test_an_unknown_rule_is_refused():
    with pytest.raises(ParameterError, match="rule"):
        composition.split(1.0, 10, delta=1e-6, rule="magic")


@pytest.mark.parametrize("rule", composition.RULES)
def test_every_rule_needs_a_positive_epsilon_and_a_number_of_queries(rule):
    for epsilon in (-1.0, 0.0, math.inf, math.nan):
        with pytest.raises(ParameterError, match="epsilon"):
            composition.RULES[rule](epsilon, 3, delta=1e-6)
        with pytest.raises(ParameterError, match="epsilon"):
            composition.split(epsilon, 3, delta=1e-6, rule=rule)
    for k in (0, -1, 1.5):
        with pytest.raises(ParameterError, match=r"\bk\b"):
            composition.RULES[rule](0.5, k, delta=1e-6)


@pytest.mark.parametrize("rule", [rule for rule in composition.RULES if rule != "basic"])
def test_every_rule_but_basic_composition_needs_a_delta(rule):
    for delta in (0.0, 1.0, -1e-9, math.nan):
        with pytest.raises(ParameterError, match="delta"):
            composition.RULES[rule](0.5, 3, delta=delta)
