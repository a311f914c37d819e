import inspect
import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import synthdp as sd
from synthdp.errors import InternalError, ParameterError, PrivacyError
from synthdp.privacy import calibration, composition, linf_knorm, noise
from synthdp.privacy.accounting import NoiseEvent

VECTOR_NOISE = [noise.discrete_laplace, noise.discrete_gaussian, noise.linf_knorm]
SELECTION = [noise.noisy_max, noise.exponential_mechanism]
DRAWS = [*VECTOR_NOISE, *SELECTION, noise.laplace_threshold]

targets = st.floats(min_value=1e-6, max_value=1e3)
sensitivities = st.integers(min_value=1, max_value=10**6)


@pytest.mark.parametrize("draw", VECTOR_NOISE)
def test_noise_keeps_shape_and_stays_int64(draw):
    values = np.arange(7, dtype=np.int64)
    noised = draw(values, scale=3.0)
    assert noised.dtype == np.int64
    assert noised.shape == values.shape
    assert values.tolist() == list(range(7))


@pytest.mark.parametrize("draw", VECTOR_NOISE)
def test_an_empty_vector_stays_empty(draw):
    assert draw(np.zeros(0, dtype=np.int64), scale=1.0).size == 0


@pytest.mark.parametrize("draw", VECTOR_NOISE)
def test_values_beyond_the_float_integers_are_clipped(draw):
    noised = draw(np.array([2**62, -(2**63), 5], dtype=np.int64), scale=1.0)
    np.testing.assert_allclose(noised, [2**53, -(2**53), 5], atol=1000, rtol=0)


def test_noise_beyond_int64_saturates():
    noised = noise.linf_knorm(np.zeros(2000, dtype=np.int64), scale=2.0**53)
    assert noised.dtype == np.int64
    assert noised.max() > 2**62


@pytest.mark.parametrize("draw", [*VECTOR_NOISE, *SELECTION])
@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 2.0**54])
def test_a_scale_outside_its_range_is_refused(draw, scale):
    with pytest.raises(ParameterError, match="scale"):
        draw(np.zeros(2, dtype=np.int64), scale=scale)


@pytest.mark.parametrize("draw", [*VECTOR_NOISE, *SELECTION])
@pytest.mark.parametrize("values", [np.zeros(2), np.zeros(2, dtype=np.int32), np.zeros((2, 2), dtype=np.int64)])
def test_only_vectors_of_int64_are_noised(draw, values):
    with pytest.raises(InternalError, match="int64"):
        draw(values, scale=1.0)


def test_a_gaussian_scale_with_infinite_loss_is_refused():
    with pytest.raises(ParameterError, match=r"scale.*infinite"):
        noise.discrete_gaussian(np.zeros(1, dtype=np.int64), scale=1e-300)


@pytest.mark.parametrize("draw", SELECTION)
def test_choosing_from_no_candidate_is_refused(draw):
    with pytest.raises(ParameterError, match="scores"):
        draw(np.zeros(0, dtype=np.int64), scale=1.0)


@pytest.mark.parametrize("draw", DRAWS)
def test_no_draw_takes_a_seed(draw):
    assert not {"seed", "rng", "random_state", "generator"} & set(inspect.signature(draw).parameters)


def test_costs_are_the_closed_forms():
    assert noise.laplace_epsilon(1, scale=2.0) == 0.5
    assert noise.gaussian_rho(1, scale=2.0) == 0.125
    assert noise.gaussian_rho(4, scale=2.0) == 0.5
    assert noise.noisy_max_epsilon(1, scale=4.0, monotonic=True) == 0.25
    assert noise.noisy_max_epsilon(1, scale=4.0, monotonic=False) == 0.5
    assert noise.exponential_mechanism_rho(1, scale=4.0, monotonic=True) == 0.25**2 / 8
    assert noise.exponential_mechanism_rho(1, scale=4.0, monotonic=False) == 0.5**2 / 8
    assert noise.linf_knorm_epsilon(3, scale=4.0) == 0.75


def test_no_change_costs_nothing():
    assert noise.laplace_epsilon(0, scale=2.0) == 0
    assert noise.gaussian_rho(0, scale=2.0) == 0
    assert noise.linf_knorm_epsilon(0, scale=2.0) == 0


@given(sensitivity=sensitivities, scale=st.floats(min_value=1e-3, max_value=1e6))
def test_costs_are_never_rounded_down(sensitivity, scale):
    exact = Fraction(sensitivity) / Fraction(scale)
    assert Fraction(noise.laplace_epsilon(sensitivity, scale=scale)) >= exact
    assert Fraction(noise.linf_knorm_epsilon(sensitivity, scale=scale)) >= exact
    assert Fraction(noise.gaussian_rho(sensitivity, scale=scale)) >= sensitivity / (2 * Fraction(scale) ** 2)


INVERSES = [
    (lambda s, t: noise.laplace_scale(s, epsilon=t), lambda s, b: noise.laplace_epsilon(s, scale=b)),
    (lambda s, t: noise.gaussian_scale(s, rho=t), lambda s, b: noise.gaussian_rho(s, scale=b)),
    (lambda s, t: noise.linf_knorm_scale(s, epsilon=t), lambda s, b: noise.linf_knorm_epsilon(s, scale=b)),
    (
        lambda s, t: noise.noisy_max_scale(s, epsilon=t, monotonic=False),
        lambda s, b: noise.noisy_max_epsilon(s, scale=b, monotonic=False),
    ),
    (
        lambda s, t: noise.exponential_mechanism_scale(s, rho=t, monotonic=True),
        lambda s, b: noise.exponential_mechanism_rho(s, scale=b, monotonic=True),
    ),
]


@pytest.mark.parametrize(("scale_for", "cost_of"), INVERSES)
@given(sensitivity=sensitivities, target=targets)
def test_the_inverse_is_the_least_scale_within_the_target(scale_for, cost_of, sensitivity, target):
    scale = scale_for(sensitivity, target)
    assert cost_of(sensitivity, scale) <= target
    assert cost_of(sensitivity, math.nextafter(scale, 0.0)) > target


@pytest.mark.parametrize("target", [0.0, -1.0, math.nan, math.inf])
def test_a_target_must_be_positive_and_finite(target):
    with pytest.raises(ParameterError, match="epsilon"):
        noise.laplace_scale(1, epsilon=target)
    with pytest.raises(ParameterError, match="rho"):
        noise.gaussian_scale(1, rho=target)


@pytest.mark.parametrize("rho", [0.01, 0.5, 1.5, 7.0])
@pytest.mark.parametrize("l2_squared", [1, 3, 2**40])
def test_the_scale_of_gaussian_noise_is_the_least_that_keeps_its_rho(l2_squared, rho):
    scale = noise.gaussian_scale(l2_squared, rho=rho)
    assert noise.gaussian_rho(l2_squared, scale=scale) <= rho
    assert noise.gaussian_rho(l2_squared, scale=scale * (1 - 1e-12)) > rho


def test_a_sensitivity_that_is_too_large_is_refused_with_the_least_that_is():
    assert noise.laplace_epsilon(2**63 - 1, scale=2.0**53) == pytest.approx(1024)
    with pytest.raises(ParameterError, match="l1_sensitivity"):
        noise.laplace_epsilon(2**63, scale=2.0**53)
    assert math.isfinite(noise.gaussian_rho(2**126 - 1, scale=2.0**53))
    with pytest.raises(ParameterError, match="l2_squared"):
        noise.gaussian_rho(2**126, scale=2.0**53)


@pytest.mark.parametrize("sensitivity", [0, -1, 1.5, 2**63])
def test_a_scale_needs_a_positive_integer_sensitivity(sensitivity):
    with pytest.raises(ParameterError, match="l1_sensitivity"):
        noise.laplace_scale(sensitivity, epsilon=1.0)
    with pytest.raises(ParameterError, match="linf_sensitivity"):
        noise.linf_knorm_scale(sensitivity, epsilon=1.0)
    with pytest.raises(ParameterError, match="linf_sensitivity"):
        noise.noisy_max_scale(sensitivity, epsilon=1.0, monotonic=True)
    with pytest.raises(ParameterError, match="linf_sensitivity"):
        noise.exponential_mechanism_scale(sensitivity, rho=1.0, monotonic=True)


def test_threshold_cost_of_one_key_is_the_tail_of_the_noise():
    epsilon, delta = noise.laplace_threshold_cost(1, 1, 1, scale=2.0, threshold=40)
    q = math.exp(-0.5)
    assert epsilon == 0.5
    assert delta == pytest.approx(q**39 / (1 + q), rel=1e-9)  # P(1 + noise ≥ 40), equality included


@pytest.mark.parametrize(("l0", "l1", "linf"), [(1, 1, 1), (3, 3, 1), (2, 4, 2), (1, 5, 5)])
@pytest.mark.parametrize("scale", [0.5, 2.0, 20.0])
def test_threshold_cost_covers_every_new_key_that_reaches_the_threshold(l0, l1, linf, scale):
    threshold = linf + 20
    q = math.exp(-1 / scale)
    kept = q ** (threshold - linf) / (1 + q)
    _, delta = noise.laplace_threshold_cost(l0, l1, linf, scale=scale, threshold=threshold)
    exact = -math.expm1(l0 * math.log1p(-kept))
    assert exact * (1 - 1e-9) <= delta <= exact * (1 + 1e-6) + 1e-15


def test_the_threshold_next_to_one_rows_reach_has_a_cost():
    assert noise.laplace_threshold_cost(1, 1, 1, scale=2.0, threshold=2)[1] > 0.2


def test_the_threshold_for_a_promise_is_the_least():
    scale, threshold = noise.laplace_threshold_for(3, 3, 1, epsilon=0.7, delta=1e-8)
    epsilon, delta = noise.laplace_threshold_cost(3, 3, 1, scale=scale, threshold=threshold)
    assert epsilon <= 0.7
    assert delta <= 1e-8
    assert noise.laplace_threshold_cost(3, 3, 1, scale=scale, threshold=threshold - 1)[1] > 1e-8


def test_a_delta_no_threshold_certifies_is_refused():
    with pytest.raises(ParameterError, match="delta"):
        noise.laplace_threshold_for(1, 1, 1, epsilon=1.0, delta=1e-30)


def test_a_threshold_within_one_rows_reach_is_refused():
    with pytest.raises(ParameterError, match="threshold"):
        noise.laplace_threshold_cost(1, 3, 3, scale=1.0, threshold=3)


def test_thresholded_keys_come_back_unharmed_and_sorted():
    counts = {"zebra": 10**6, "a\0b": 10**6, "a": 10**6, "\ud800": 10**6, "": 10**6}
    kept = noise.laplace_threshold(counts, scale=1.0, threshold=1000)
    assert list(kept) == sorted(counts)
    np.testing.assert_allclose(list(kept.values()), 10**6, atol=1000)


def test_rare_keys_are_left_out():
    assert noise.laplace_threshold({"rare": 1, "none": 0, "less": -5}, scale=1.0, threshold=1000) == {}


@pytest.mark.parametrize("select", [noise.laplace_threshold, noise.gaussian_threshold])
def test_a_count_beyond_the_float_integers_is_clipped(select):
    kept = select({"most": 2**70, "least": -(2**70)}, scale=1.0, threshold=1000)
    assert list(kept) == ["most"]
    assert abs(kept["most"] - 2**53) < 1000


def test_a_zero_count_is_absence():
    assert noise.laplace_threshold(dict.fromkeys(map(str, range(2000)), 0), scale=100.0, threshold=1) == {}


def test_opendp_is_imported_on_first_use_only():
    code = (
        "import sys, synthdp.privacy.noise, synthdp.privacy.accounting\n"
        "print(sorted({'opendp', 'dp_accounting'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize("threshold", [0, -3, 1.5, 2**53 + 2])
def test_a_threshold_that_is_no_count_is_refused(threshold):
    with pytest.raises(ParameterError, match="threshold"):
        noise.laplace_threshold({"a": 1}, scale=1.0, threshold=threshold)


@pytest.fixture
def opendp(monkeypatch):
    """Pretend that a version of OpenDP is installed."""
    noise._opendp.cache_clear()
    yield lambda version: monkeypatch.setattr(noise, "version_of", lambda name: version)
    noise._opendp.cache_clear()


@pytest.mark.parametrize("version", ["0.13.0", "0.14.0", "0.14.1", "not installed"])
def test_an_opendp_whose_noise_has_a_wrong_law_is_refused_before_anything_is_spent(opendp, version, tmp_path):
    opendp(version)
    table, schema = pd.DataFrame({"x": [1, 2]}), sd.Schema({"x": sd.Integer(0, 9)})
    with pytest.raises(PrivacyError, match=r"opendp>=0\.14\.2"):
        sd.SyntheticRelease(schema=schema, ledger=tmp_path / "l.sqlite", dataset="t").fit(table)
    assert sd.Ledger(tmp_path / "l.sqlite").entries("t") == []


@pytest.mark.parametrize("version", ["0.14.2", "0.15.0", "0.16.0", "1.0"])
def test_an_opendp_whose_noise_has_the_right_law_is_used(opendp, version):
    opendp(version)
    assert noise.discrete_laplace(np.zeros(3, np.int64), scale=1.0).shape == (3,)


@pytest.mark.parametrize("value", [2**53, 2**53 + 1, 2**62, -(2**53), -(2**53) - 1, -(2**63), 3])
def test_k_norm_noise_is_added_to_the_nearest_number_that_a_float_holds(monkeypatch, value):
    monkeypatch.setattr(linf_knorm, "draw", lambda dimension, *, scale, bits: [0] * dimension)
    clipped = max(-(2**53), min(value, 2**53))
    assert noise.linf_knorm(np.array([value, 0], np.int64), scale=1.0).tolist() == [clipped, 0]


@pytest.mark.parametrize("kind", [int, float, np.int64, np.float64])
def test_whole_numbers_of_any_type_are_taken(kind):
    cost = noise.laplace_threshold_cost(2, 1000, 500, scale=9.0, threshold=900)
    assert noise.laplace_threshold_cost(kind(2), kind(1000), kind(500), scale=9.0, threshold=kind(900)) == cost
    assert noise.laplace_epsilon(kind(700), scale=2.0) == 350.0
    assert noise.gaussian_scale(kind(700), rho=1.0) == noise.gaussian_scale(700, rho=1.0)
    assert noise.laplace_threshold({"a": kind(10**6)}, scale=1.0, threshold=kind(1000)).keys() == {"a"}
    assert NoiseEvent(kind="laplace", scale=1.0, sensitivity=kind(700), count=kind(300)).tabulated
    assert composition.basic(0.5, kind(300)) == 150.0
    assert calibration.linf_knorm(kind(300), sensitivity=1.0, epsilon=1.0, beta=0.1) > 300


def test_one_sided_noise_is_the_first_draw_that_is_not_negative(monkeypatch):
    batches = [[-1, -2, -3], [-5, 4, 0], [9]]
    monkeypatch.setattr(noise, "discrete_laplace", lambda values, *, scale: np.array(batches.pop(0)))
    assert noise.geometric(scale=1.0) == 4
    assert batches == [[9]]


@pytest.mark.parametrize("drawn", [2**63 - 1, 2**63, 2**70, -(2**63), -(2**63) - 1, 5])
def test_a_number_beyond_64_bits_is_the_nearest_that_fits(monkeypatch, drawn):
    monkeypatch.setattr(linf_knorm, "draw", lambda dimension, *, scale, bits: [drawn] * dimension)
    kept = max(-(2**63), min(drawn, 2**63 - 1))
    assert noise.linf_knorm(np.zeros(2, np.int64), scale=1.0).tolist() == [kept, kept]
