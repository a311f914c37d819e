"""Screening: its sensitivity by brute force, and what shrinking makes of pure noise."""

import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st

from synthdp.domain.domain import domain_of
from synthdp.mechanisms.adaptive.energies import explained_by_chance
from synthdp.mechanisms.adaptive.measuring import DENOMINATOR
from synthdp.mechanisms.adaptive.screening import variance_of_product
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


def test_independence_explains_a_table_by_chance_and_by_noise_in_its_margins():
    """What is said of both is what simulated tables have."""
    rng = np.random.default_rng(0)
    margins = [np.array([500.0, 300.0, 200.0]), np.array([700.0, 250.0, 50.0])]
    variances = [np.full(3, 100.0), np.full(3, 400.0)]
    expected = np.outer(*margins).ravel() / 1000
    variance = variance_of_product((0, 1), margins, variances, total=1000.0)
    noisy = [m + rng.normal(size=(4000, 3)) * np.sqrt(v) for m, v in zip(margins, variances, strict=True)]
    products = np.einsum("ri,rj->rij", *noisy).reshape(4000, 9) / 1000
    assert products.var(axis=0) == pytest.approx(variance, rel=0.1)
    distances = np.abs(rng.poisson(expected, (4000, 9)) - products).sum(axis=1)
    assert explained_by_chance(expected, margins=variance) == pytest.approx(distances.mean(), rel=0.05)
