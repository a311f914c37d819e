"""Limited independence, checked exactly: every r-tuple of values is equally frequent over a whole small family."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, strategies as st

from synthdp.errors import ParameterError
from synthdp.queries.supports import Support
from synthdp.randomness import generator
from synthdp.works.sparse.sketches import MERSENNE, CountSketch, PolynomialHash, SignProjection, fingerprints

ELEMENTS = st.integers(0, MERSENNE - 1)


@pytest.mark.parametrize(("prime", "r"), [(5, 2), (5, 3), (7, 2), (3, 3)])
def test_a_polynomial_of_degree_r_minus_1_is_exactly_r_wise_independent_and_no_more(prime, r):
    family = PolynomialHash(np.array(list(itertools.product(range(prime), repeat=r))), prime)
    assert family.independence == r
    values = family.values(np.arange(prime))  # (points, functions)
    for points in itertools.combinations(range(prime), r):
        joint = Counter(map(tuple, values[list(points)].T.tolist()))
        assert len(joint) == prime**r
        assert set(joint.values()) == {1}
    more = Counter(map(tuple, values[: r + 1].T.tolist()))
    assert len(more) == min(prime**r, prime ** len(values[: r + 1]))


@given(ELEMENTS, st.lists(ELEMENTS, min_size=1, max_size=5))
def test_the_large_field_agrees_with_whole_numbers(point, coefficients):
    found = PolynomialHash(np.array([coefficients], np.uint64)).values(np.array([point], np.uint64))
    expected = 0
    for coefficient in coefficients:
        expected = (expected * point + coefficient) % MERSENNE
    assert int(found[0, 0]) == expected


@given(st.sampled_from([0, 1, MERSENNE - 1, MERSENNE - 2, 2**32, 2**60]), st.sampled_from([0, 1, MERSENNE - 1, 2**60]))
def test_the_ends_of_the_field_do_not_overflow(a, b):
    value = PolynomialHash(np.array([[a, b, MERSENNE - 1]], np.uint64)).values(np.array([a], np.uint64))[0, 0]
    assert int(value) == ((a * a + b) * a + MERSENNE - 1) % MERSENNE


# A reference over GF(2^4), whose values have exactly fair bits, where a prime field is off by 1/p.


def times(a: int, b: int) -> int:
    product = 0
    for bit in range(4):
        product ^= (a << bit) * ((b >> bit) & 1)
    for bit in range(6, 3, -1):
        product ^= (0b10011 << (bit - 4)) * ((product >> bit) & 1)
    return product


def binary_field_value(coefficients, point: int) -> int:
    value = 0
    for coefficient in coefficients:
        value = times(value, point) ^ coefficient
    return value


@pytest.mark.parametrize("r", [2, 3])
def test_signs_over_a_binary_field_are_exactly_fair_and_over_a_prime_field_fair_up_to_1_over_p(r):
    points = (1, 6, 11)[:r]
    binary = Counter(
        tuple(binary_field_value(c, x) & 1 for x in points) for c in itertools.product(range(16), repeat=r)
    )
    assert set(binary.values()) == {16**r // 2**r}
    prime = 13
    family = PolynomialHash(np.array(list(itertools.product(range(prime), repeat=r))), prime)
    signs = 1 - 2 * (family.values(np.array(points)).astype(np.int64) & 1)
    assert abs(signs.prod(axis=0).mean()) == pytest.approx(prime**-r)  # p odd: one value more is even, at each point


@pytest.mark.parametrize("coefficients", [np.zeros((0, 2)), np.array([1, 2]), np.array([[5]])])
def test_coefficients_outside_the_field_are_refused(coefficients):
    with pytest.raises(ParameterError, match="coefficients"):
        PolynomialHash(coefficients, 5)


def test_a_prime_whose_products_overflow_is_refused():
    with pytest.raises(ParameterError, match="prime"):
        PolynomialHash(np.array([[1]]), 2**40 + 15)


def test_fingerprints_depend_on_the_salt_and_lie_in_the_field():
    keys = [f"k{i}" for i in range(1000)] + ["x" * 10_000, "\ud800"]
    found = fingerprints(keys, salt=b"1")
    assert len(np.unique(found)) == len(keys)
    assert int(found.max()) < MERSENNE
    assert not np.array_equal(found, fingerprints(keys, salt=b"2"))


@pytest.mark.landing
@pytest.mark.sampled
@pytest.mark.parametrize("kind", [CountSketch, SignProjection])
def test_projections_answer_without_bias_and_with_the_stated_variance(kind):
    rng = generator(3)
    counts = {f"k{i}": 1 + i % 3 for i in range(200)}
    support = Support(keys=[f"k{i}" for i in range(150, 250)], values=np.full(100, 1024))
    t, truth = 128, sum(counts.get(key, 0) for key in support.keys)
    found = []
    for _ in range(400):
        sketch = kind.draw(("p",), t, independence=4, rng=rng, without=frozenset())
        found.append(sketch.estimate(support, sketch.key_totals(counts).astype(float))[0])
    bound = np.sqrt(2 * 100 * sum(c * c for c in counts.values()) / t)
    assert abs(np.mean(found) - truth) < 6.2 * bound / 20
    assert 0.3 * bound < np.std(found) < bound * 1.25


@pytest.mark.parametrize("kind", [CountSketch, SignProjection])
def test_an_estimate_is_linear_in_the_noise_with_the_stated_norm(kind):
    sketch = kind.draw(("p",), 61, independence=4, rng=generator(5), without=frozenset())
    support = Support(keys=[f"k{i}" for i in range(30)], values=np.arange(30) * 30)
    rows = np.array([sketch.estimate(support, denominator)[0] for denominator in np.eye(61)])
    assert sketch.estimate(support, np.zeros(61))[1] == pytest.approx(float(rows @ rows))


def test_left_out_keys_are_not_projected():
    sketch = CountSketch.draw(("p",), 8, independence=4, rng=generator(6), without=frozenset({"a"}))
    assert not sketch.key_totals({"a": 5}).any()
    assert np.abs(sketch.key_totals({"a": 5, "b": 2})).sum() == 2
