"""Products of scores are the products, and far rows are brought to the norm without turning."""

import itertools

import numpy as np
import pytest

from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError, SensitivityError
from synthdp.queries.products import ClippedProducts, PairProducts
from synthdp.schema.columns import Categorical

LEVELS = Categorical(["a", "b", "c"])
AXES = tuple(Axis(f"c{j}", LEVELS, np.arange(3), np.arange(3)) for j in range(4))
DOMAIN = Domain(AXES)
SCORES = tuple(np.array(score) for score in ([-64, 0, 90], [10, 20, -300], [5, -7, 0], [1, 100, -64]))
CELLS = np.array(list(itertools.product(range(3), repeat=4)))


def plain(codes):
    z = np.column_stack([score[codes[:, j]] for j, score in enumerate(SCORES)])
    return np.array([[row[a] * row[b] for a, b in itertools.combinations(range(4), 2)] for row in z])


def test_rows_within_the_norm_are_products_of_scores():
    queries = ClippedProducts(DOMAIN, SCORES, 64, 10**6)
    assert (queries.features(CELLS) == plain(CELLS)).all()
    assert queries.denominator == 64**2


def test_far_rows_are_scaled_to_the_norm():
    exact, clipped = plain(CELLS), ClippedProducts(DOMAIN, SCORES, 64, 5000).features(CELLS)
    norms = np.linalg.norm(exact, axis=1)
    far = norms > 5000
    assert far.any()
    assert not far.all()
    assert (clipped[~far] == exact[~far]).all()
    scale = 5000 / norms[far]
    assert np.abs(clipped[far] - exact[far] * scale[:, None]).max() <= 1.001
    assert (np.linalg.norm(clipped, axis=1) <= 5000).all()


def test_products_of_chosen_pairs_are_clipped_each_by_itself():
    every = list(itertools.combinations(range(4), 2))
    chosen = ((1, 3), (0, 2), (0, 1))
    exact = plain(CELLS)[:, [every.index(pair) for pair in chosen]]
    for most in (1, 700, 10**6):
        queries = PairProducts(DOMAIN, SCORES, chosen, 64, most)
        assert (queries.features(CELLS) == np.clip(exact, -most, most)).all()
        assert queries.bounds.one.l2_squared == 3 * most**2
    assert queries.denominator == 64**2


@pytest.mark.parametrize("chosen", [(), ((0, 1), (0, 1)), ((1, 0),), ((1, 1),), ((0, 4),), ((-1, 2),)])
def test_what_is_no_pair_of_columns_is_refused(chosen):
    with pytest.raises(ParameterError, match="chosen"):
        PairProducts(DOMAIN, SCORES, chosen, 64, 9)


@pytest.mark.parametrize(("scores", "norm"), [(SCORES[:3], 9), ((*SCORES[:3], np.arange(2)), 9), (SCORES, 0)])
def test_scores_that_do_not_fit_are_refused(scores, norm):
    with pytest.raises(ParameterError, match="must"):
        ClippedProducts(DOMAIN, scores, 64, norm)
    with pytest.raises(ParameterError, match="must"):
        PairProducts(DOMAIN, scores, ((0, 1),), 64, norm)


def test_scores_that_might_overflow_are_refused():
    with pytest.raises(SensitivityError, match="scores"):
        ClippedProducts(DOMAIN, (*SCORES[:3], np.array([0, 1, 2**16])), 64, 9)
    with pytest.raises(SensitivityError, match="scores"):
        PairProducts(DOMAIN, (*SCORES[:3], np.array([0, 1, 2**16])), ((0, 1),), 64, 9)
