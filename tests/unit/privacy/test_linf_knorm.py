import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from synthdp.errors import ParameterError
from synthdp.privacy import linf_knorm
from synthdp.privacy.linf_knorm import SMALLEST_SCALE


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


@pytest.mark.parametrize("dimension", [1, 2])
def test_a_scale_is_taken_down_to_the_smallest(dimension):
    coins = [0, 1, 0]  # no doubling, to the right, accepted
    assert linf_knorm.draw(dimension, scale=SMALLEST_SCALE, bits=lambda _: coins.pop(0)) == [0] * dimension
    assert Fraction(1, 1024) == SMALLEST_SCALE
    with pytest.raises(ParameterError, match="scale"):
        linf_knorm.draw(dimension, scale=SMALLEST_SCALE - Fraction(1, 10**9), bits=lambda _: 0)


@given(x=st.fractions(0, 8, max_denominator=64), precision=st.integers(1, 12))
def test_bounds_of_an_exponential_hold_at_few_digits_too(x, precision):
    low, high = linf_knorm._exp_bounds(x, precision)
    with localcontext(prec=60):
        exact = (Decimal(x.numerator) / Decimal(x.denominator)).exp() * 2**precision
    assert low <= exact <= high


@given(
    dimension=st.integers(1, 4),
    scale=st.fractions(Fraction(1, 4), 9, max_denominator=16),
    at=st.integers(0, 30),
    mode=st.integers(0, 30),
    doublings=st.integers(0, 3),
)
def test_a_chance_is_the_weight_at_one_place_over_that_at_another(dimension, scale, at, mode, doublings):
    chance = linf_knorm._Chance.of(dimension, scale, at=at, mode=mode, doublings=doublings)
    assert (
        Fraction(chance.numerator, chance.denominator) == Fraction(2 * at + 1, 2 * mode + 1) ** dimension * 2**doublings
    )
    assert chance.exponent == Fraction(at - mode) / scale


@given(at=st.integers(0, 30), mode=st.integers(0, 30), precision=st.integers(1, 80))
def test_whole_numbers_around_a_chance_are_on_both_sides_of_it(at, mode, precision):
    chance = linf_knorm._Chance.of(2, Fraction(5, 2), at=at, mode=mode, doublings=1)
    low, high = chance._bounds(precision)
    with localcontext(prec=80):
        exact = (
            Decimal(chance.numerator)
            / Decimal(chance.denominator)
            * (Decimal(2 * (mode - at)) / 5).exp()
            * Decimal(2) ** precision
        )
    assert low <= exact <= high
    assert high - low <= 40 + high // 4


@given(
    dimension=st.integers(1, 5),
    at=st.integers(0, 20),
    mode=st.integers(0, 20),
    scale=st.fractions(1, 9, max_denominator=8),
)
def test_a_chance_is_compared_with_one_by_its_sign(dimension, at, mode, scale):
    assume(at != mode)
    chance = linf_knorm._Chance.of(dimension, scale, at=at, mode=mode, doublings=0)
    log = dimension * math.log((2 * at + 1) / (2 * mode + 1)) - float((at - mode) / scale)
    assert chance.compared_with_one() == math.copysign(1, log)


@pytest.mark.parametrize(
    ("dimension", "scale"), [(1, Fraction(1, 2)), (1, Fraction(7)), (3, Fraction(10, 3)), (40, Fraction(9, 4))]
)
def test_the_mode_is_where_the_weights_are_largest_and_a_step_halves_them(dimension, scale):
    envelope = linf_knorm._envelope(dimension, scale)
    k = np.arange(0, 40 * dimension + 200)
    weights = dimension * np.log(2 * k + 1) - k / float(scale)
    assert envelope.mode == np.argmax(weights)
    half = weights[envelope.mode] - np.log(2)
    assert weights[envelope.mode + envelope.step] <= half
    assert envelope.step > envelope.mode or weights[envelope.mode - envelope.step] <= half
    assert envelope.step <= 2.5 * np.sqrt(dimension) * float(scale) + 2


@pytest.mark.parametrize(("words", "kept"), [([5, 6, 3], 3), ([4], 4), ([7, 0], 0)])
def test_what_is_beyond_a_bound_is_drawn_again(words, kept):
    waiting = list(words)
    assert linf_knorm._below(5, lambda length: [waiting.pop(0), length != 3][length != 3]) == kept
    assert not waiting
