"""Screening: its sensitivity by brute force, and what shrinking makes of pure noise."""

import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st

from synthdp.domain.domain import domain_of
from synthdp.mechanisms.adaptive.screening import DENOMINATOR, shrunk
from synthdp.queries.distances import MarginalDistances
from synthdp.queries.marginals import Marginals
from synthdp.schema.columns import Categorical
from synthdp.schema.schema import Schema

DOMAIN = domain_of(Schema({name: Categorical(["u", "v", "w"]) for name in "abc"}))
SHAPE = DOMAIN.shape
PAIRS = ((0, 1), (0, 2), (1, 2))
RECORDS = [np.array([cell]) for cell in itertools.product(*map(range, SHAPE))]


@given(seed=st.integers(0, 2**32 - 1), rows=st.integers(0, 12))
def test_one_record_moves_each_distance_by_at_most_one_row_and_a_swap_by_two(seed, rows):
    rng = np.random.default_rng(seed)
    queries = Marginals(DOMAIN, PAIRS)
    expected = rng.integers(0, 4 * DENOMINATOR, queries.k)
    distances = MarginalDistances(queries, expected, DENOMINATOR)
    table = np.column_stack([rng.integers(0, k, rows) for k in SHAPE]).reshape(rows, len(SHAPE))
    base = distances.finish(distances.sums(table))
    moved = [distances.finish(distances.sums(np.concatenate([table, record]))) for record in RECORDS]
    moved = np.array(moved)
    one, swap = distances.bounds.one, distances.bounds.swap
    steps, changes = moved - base, (moved[:, None] - moved).reshape(-1, distances.k)
    for change, bound in ((steps, one), (changes, swap)):
        assert np.abs(change).max() <= bound.linf
        assert np.abs(change).sum(axis=1).max() <= bound.l1
        assert (change**2).sum(axis=1).max() <= bound.l2_squared


def test_the_bound_of_one_row_is_reached():
    queries = Marginals(DOMAIN, PAIRS)
    distances = MarginalDistances(queries, np.zeros(queries.k, np.int64), DENOMINATOR)
    empty = np.zeros((0, 3), np.int64)
    step = distances.finish(distances.sums(RECORDS[0])) - distances.finish(distances.sums(empty))
    assert (step == DENOMINATOR).all()


def test_scores_that_are_noise_become_their_mean_and_clear_ones_stay():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=400)
    assert np.abs(shrunk(10 + noise, 1.5) - (10 + noise).mean()).max() < 1e-9
    clear = 100 * noise
    assert shrunk(clear, 1.0) == pytest.approx(clear, rel=1e-2, abs=1)
    assert shrunk(np.array([7.0]), 3.0) == pytest.approx([7.0])
