import numpy as np
import pytest
from hypothesis import given, strategies as st
from joint_tables import all_rows

from synthdp.distribution.explicit import Explicit
from synthdp.errors import ParameterError
from synthdp.queries.contingency import contingency


@st.composite
def weighted_rows(draw):
    shape = (2, 3, 2)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    chosen = rng.permutation(all_rows(shape))[: draw(st.integers(1, 12))]
    return Explicit(shape=shape, codes=chosen, weights=rng.random(len(chosen)) ** 3 + 1e-6)


@given(weighted_rows(), st.integers(0, 5000))
def test_each_point_is_drawn_within_one_of_its_expectation(distribution, rows):
    sampled = distribution.sample(rows, np.random.default_rng(0))
    expected = rows * distribution.marginal((0, 1, 2))
    counts = contingency(sampled, distribution.shape, (0, 1, 2))
    assert np.abs(counts - expected).max() < 1 + 1e-6
    assert np.abs(np.cumsum(counts) - np.cumsum(expected)).max() < 1 + 1e-6


def test_weights_are_normalised_once():
    """A loaded release is then the saved one to the last bit, and has its fingerprint."""
    for seed in range(40):
        weights = np.random.default_rng(seed).random(1000)
        once = Explicit(shape=(2,), codes=np.zeros((1000, 1), np.uint8), weights=weights)
        twice = Explicit(shape=(2,), codes=once.codes, weights=once.weights)
        assert (twice.weights == once.weights).all()


def test_a_point_listed_twice_has_the_sum_of_its_weights():
    distribution = Explicit(shape=(2,), codes=np.array([[0], [1], [0]]), weights=np.array([1.0, 2.0, 5.0]))
    np.testing.assert_allclose(distribution.marginal((0,)), [0.75, 0.25])


def test_a_point_of_weight_zero_is_never_drawn():
    distribution = Explicit(shape=(3,), codes=np.array([[0], [1], [2]]), weights=np.array([0.0, 1.0, 0.0]))
    assert (distribution.sample(1000, np.random.default_rng(0)) == 1).all()


def test_rows_of_more_columns_than_a_key_holds_are_sorted_lexicographically():
    """The prefix counts are controlled only if the order is lexicographic over all keys."""
    shape = (16,) * 40
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 16, (500, 40))
    codes[:, :20] = codes[:, :20] // 15
    distribution = Explicit(shape=shape, codes=codes, weights=rng.random(500))
    sampled = distribution.sample(700, rng)
    for prefix in ((0,), (0, 1), (0, 1, 2)):
        error = contingency(sampled, shape, prefix) - 700 * distribution.marginal(prefix)
        assert np.abs(error).max() < 1 + 1e-6


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"codes": np.zeros((2, 3), int)}, "codes.*integers"),
        ({"codes": np.zeros((2, 2))}, "codes.*integers"),
        ({"codes": np.array([[0, 0], [0, 3]])}, r"codes.*\(2, 3\)"),
        ({"codes": np.array([[0, 0], [-1, 0]])}, r"codes.*\(2, 3\)"),
        ({"weights": np.ones(3)}, "weights.*2"),
        ({"weights": np.array([1.0, -0.1])}, "weights"),
        ({"weights": np.array([1.0, np.inf])}, "weights"),
        ({"weights": np.zeros(2)}, "weights.*sum"),
    ],
)
def test_a_support_that_makes_no_sense_is_refused(settings, message):
    valid = {"shape": (2, 3), "codes": np.array([[0, 0], [1, 2]]), "weights": np.ones(2)}
    with pytest.raises(ParameterError, match=message):
        Explicit(**(valid | settings))
