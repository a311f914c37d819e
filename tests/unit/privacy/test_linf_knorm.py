import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from synthdp.errors import ParameterError
from synthdp.privacy import linf_knorm


def unlimited(_):
    raise AssertionError("no bit was expected to be drawn")


def exp(x: Fraction) -> Decimal:
    """e^x to 300 digits."""
    return (Decimal(x.numerator) / Decimal(x.denominator)).exp()


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_the_mixture_of_cubes_is_the_law(dimension, scale):
    halfwidths = np.arange(400)
    cubes = (2.0 * halfwidths + 1) ** dimension * np.exp(-halfwidths / scale)
    mixture = cubes / cubes.sum()
    by_radius = [(mixture / (2.0 * halfwidths + 1) ** dimension)[r:].sum() for r in range(6)]
    np.testing.assert_allclose(by_radius / by_radius[0], np.exp(-np.arange(6) / scale), rtol=1e-12)


def test_the_privacy_ratio_on_neighbours_is_bounded_and_attained():
    scale, sensitivity = 2.0, 3
    outputs = np.array(list(itertools.product(range(-12, 13), repeat=2)))

    def log_probability(center):
        return -np.abs(outputs - center).max(axis=1) / scale

    worst = max(
        np.abs(log_probability((0, 0)) - log_probability(shift)).max()
        for shift in itertools.product(range(-sensitivity, sensitivity + 1), repeat=2)
    )
    assert worst == pytest.approx(sensitivity / scale, rel=1e-12)


@given(
    x=st.fractions(min_value=0, max_value=60, max_denominator=10**9),
    precision=st.sampled_from([64, 128, 640]),
)
@settings(deadline=None)
def test_exp_bounds_enclose_tightly(x, precision):
    low, high = linf_knorm._exp_bounds(x, precision)
    with localcontext(prec=300):
        exact = exp(x) * 2**precision
        assert low <= exact <= high
    assert high - low <= (high >> precision) * 2000 + 2000


@given(
    dimension=st.integers(1, 60),
    scale=st.fractions(min_value=Fraction(1, 50), max_value=500, max_denominator=1000),
)
@settings(max_examples=60, deadline=None)
def test_the_staircase_lies_above_the_weights(dimension, scale):
    envelope = linf_knorm._envelope(dimension, scale)

    def log_weight(k):
        return dimension * math.log(2 * k + 1) - k / float(scale)

    top = log_weight(envelope.mode)
    for distance in range(8 * envelope.step):
        allowed = top - distance // envelope.step * math.log(2) + 1e-9
        assert log_weight(envelope.mode + distance) <= allowed
        assert log_weight(max(0, envelope.mode - 1 - distance)) <= allowed or envelope.mode - 1 - distance < 0


@given(
    dimension=st.integers(1, 60),
    scale=st.fractions(min_value=Fraction(1, 50), max_value=500, max_denominator=1000),
)
@settings(max_examples=60, deadline=None)
def test_at_least_a_sixth_of_the_proposals_is_accepted(dimension, scale):
    envelope = linf_knorm._envelope(dimension, scale)
    k = np.arange(envelope.mode + 60 * envelope.step)
    log_weight = dimension * np.log(2 * k + 1) - k / float(scale)
    accepted = np.exp(log_weight - log_weight.max()).sum() / (4 * envelope.step)
    assert 1 / 6 < accepted <= 1


@given(
    at=st.integers(0, 40),
    word=st.integers(0, 2**64 - 1),
    nudge=st.sampled_from([None, -1, 0, 1]),
)
@settings(deadline=None)
def test_the_coin_compares_the_revealed_digits_with_the_exact_chance(at, word, nudge):
    dimension, scale, mode = 3, Fraction(5, 2), 7
    chance = linf_knorm._Chance.of(dimension, scale, at=at, mode=mode, doublings=0)
    with localcontext(prec=300):
        exact = Decimal(2 * at + 1) ** 3 / Decimal(2 * mode + 1) ** 3 * exp(Fraction(mode - at) / scale)
        first = word if nudge is None else max(0, min(2**64 - 1, int(exact * 2**64) + nudge))
        words = [first, 2**63, 12345]  # the first word decides, or falls on the border and the second does
        uniform = sum(Decimal(w) / Decimal(2) ** (64 * (i + 1)) for i, w in enumerate(words))
        expected = uniform < exact
    assert chance.flip(iter_bits(words)) == expected


def iter_bits(words):
    source = iter(words)
    return lambda _: next(source)


def test_uniform_integers_are_uniform_over_all_bit_strings():
    for bound in (1, 2, 3, 5, 8):
        length = (bound - 1).bit_length()
        accepted = [linf_knorm._below(bound, iter_bits([value, 0])) for value in range(2**length)]
        kept = [value for raw, value in enumerate(accepted) if raw < bound]
        assert kept == list(range(bound))


def test_a_certain_outcome_needs_no_bit():
    assert linf_knorm._below(1, unlimited) == 0


@pytest.mark.parametrize(("dimension", "scale"), [(1, 40.0), (4, 3.0), (30, 1.0)])
def test_the_variance_formula_is_the_exact_one_less_a_twelfth(dimension, scale):
    k = np.arange(20_000 if scale > 10 else 4000)
    log_weight = dimension * np.log(2 * k + 1) - k / scale
    weights = np.exp(log_weight - log_weight.max())
    exact = (weights * ((2.0 * k + 1) ** 2 - 1) / 12).sum() / weights.sum()
    assert exact == pytest.approx(linf_knorm.stddev(dimension, scale=scale) ** 2 - 1 / 12, rel=1e-4)


@pytest.mark.parametrize(("dimension", "scale"), [(0, Fraction(1)), (-1, Fraction(1))])
def test_a_vector_needs_a_coordinate(dimension, scale):
    with pytest.raises(ParameterError, match="dimension"):
        linf_knorm.draw(dimension, scale=scale, bits=unlimited)


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1), Fraction(1, 2000)])
def test_a_scale_too_small_is_refused(scale):
    with pytest.raises(ParameterError, match="scale"):
        linf_knorm.draw(2, scale=scale, bits=unlimited)
