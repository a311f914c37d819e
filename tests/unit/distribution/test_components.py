"""Independent groups of columns: what is refused, and what evidence and pickles keep."""

import pickle

import numpy as np
import pytest

from synthdp.distribution.components import Components, Product
from synthdp.distribution.explicit import Explicit
from synthdp.errors import ParameterError

PAIR = Explicit(shape=(2, 3), codes=np.array([[0, 0], [1, 2]]), weights=np.array([0.25, 0.75]))
ONE = Product(shape=(4,), margins=[np.array([0.5, 0.5, 0.0, 0.0])])
BOTH = Components(shape=(2, 4, 3), columns=((0, 2), (1,)), parts=(PAIR, ONE))


@pytest.mark.parametrize("columns", [((0, 2),), ((0, 2), (2,)), ((0, 1), (2,)), ((2, 0), (1,)), ((0, 2), (1,), ())])
def test_every_column_is_in_one_part_of_its_shape(columns):
    with pytest.raises(ParameterError):
        Components(shape=(2, 4, 3), columns=columns, parts=(PAIR, ONE))


def test_columns_of_different_parts_are_independent_and_those_of_one_are_not():
    table = BOTH.marginal((0, 1, 2)).reshape(2, 4, 3)
    np.testing.assert_allclose(table, np.einsum("ac,b->abc", PAIR.marginal((0, 1)).reshape(2, 3), ONE.margins[0]))
    codes = BOTH.sample(2000, np.random.default_rng(0))
    assert (codes[:, 2] == 2 * codes[:, 0]).all()
    assert abs(np.corrcoef(codes[:, 0], codes[:, 1])[0, 1]) < 0.2  # 9 standard deviations


def test_impossible_evidence_is_named_by_the_columns_of_the_whole():
    with pytest.raises(ParameterError, match=r"\b1\b"):
        BOTH.sample(
            5, np.random.default_rng(0), given={0: np.array([True, True]), 1: np.array([False, False, True, True])}
        )


def test_a_pickle_gives_the_same_rows():
    again = pickle.loads(pickle.dumps(BOTH))
    np.testing.assert_array_equal(again.sample(50, np.random.default_rng(3)), BOTH.sample(50, np.random.default_rng(3)))
