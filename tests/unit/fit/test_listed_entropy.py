"""Maximum entropy over listed cells: exact effects come out exactly, noise is not fitted, impossible cells stay empty."""

import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st

from synthdp.errors import ParameterError
from synthdp.fit.consistency import gls_effects, make_consistent
from synthdp.fit.listed_entropy import ListedEntropy, likeliest_spread
from synthdp.fit.max_entropy import MaxEntropy
from synthdp.queries.contingency import NoisyTable

SHAPE = (3, 2, 4, 2)
CELLS = int(np.prod(SHAPE))
TOTAL = 10_000.0


def margin(joint, clique):
    return joint.reshape(SHAPE).sum(axis=tuple(j for j in range(len(SHAPE)) if j not in clique)).ravel()


def measured(joint, order, stddev, rng):
    """Noisy tables of all cliques of an order: pooled, they say everything up to it."""
    exact = {clique: margin(joint, clique) for clique in itertools.combinations(range(len(SHAPE)), order)}
    tables = [
        NoisyTable(clique=clique, counts=counts + stddev * rng.normal(size=counts.size), stddev=stddev)
        for clique, counts in exact.items()
    ]
    return gls_effects(tables, SHAPE, total=TOTAL)


def any_joint(rng, order):
    """A table whose logarithm has interactions of this order and below."""
    log = np.zeros(SHAPE)
    for clique in itertools.combinations(range(len(SHAPE)), order):
        log += rng.normal(0, 0.6, [SHAPE[j] if j in clique else 1 for j in range(len(SHAPE))])
    joint = np.exp(log.ravel())
    return TOTAL * joint / joint.sum()


@given(seed=st.integers(0, 2**32 - 1), order=st.integers(2, 4))
def test_with_little_noise_every_measured_table_is_the_fitted_one(seed, order):
    rng = np.random.default_rng(seed)
    joint = any_joint(rng, order)
    fitted = TOTAL * ListedEntropy(steps=2000, tolerance=1e-9).fit(measured(joint, order, 0.01, rng))
    assert fitted == pytest.approx(joint, abs=1.0)  # of 10 000 rows: no table says more than its potentials do


def test_without_interactions_columns_are_independent():
    rng = np.random.default_rng(0)
    joint = any_joint(rng, 1)
    fitted = TOTAL * ListedEntropy().fit(measured(joint, 1, 0.01, rng))
    assert fitted == pytest.approx(joint, abs=1.0)


def test_pure_noise_in_interactions_is_not_fitted():
    """Independent columns, tables of three with noise: the fit stays as near as one without interactions."""
    rng = np.random.default_rng(1)
    joint = any_joint(rng, 1)
    noisy = measured(joint, 3, 60.0, rng)
    raw = np.abs(noisy.table((0, 1, 2)) - margin(joint, (0, 1, 2))).sum()
    fitted = TOTAL * ListedEntropy().fit(noisy)
    assert np.abs(margin(fitted, (0, 1, 2)) - margin(joint, (0, 1, 2))).sum() < 0.6 * raw


@pytest.mark.landing
def test_skewed_columns_do_not_make_the_fit_worse_than_the_noisy_tables():
    """Many combinations never occur and levels are rare: noise is told by its own metric, not by that of the margins."""
    shape, pairs = (14, 9, 4), list(itertools.combinations(range(3), 2))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        joint = np.where(rng.random(shape) < 0.8, 0.0, rng.exponential(size=shape))
        joint *= np.multiply.outer(np.multiply.outer(0.5 ** np.arange(14), 0.5 ** np.arange(9)), np.ones(4))
        joint *= 30_000 / joint.sum()
        noisy = gls_effects(
            [NoisyTable(clique=(0, 1, 2), counts=joint.ravel() + 2 * rng.normal(size=joint.size), stddev=2.0)],
            shape, total=30_000.0,
        )  # fmt: skip
        fitted = (30_000 * ListedEntropy().fit(noisy)).reshape(shape)
        raw = noisy.table((0, 1, 2)).reshape(shape)
        assert np.abs(fitted - joint).sum() < 0.5 * np.abs(raw - joint).sum()
        for pair in pairs:
            other = (set(range(3)) - set(pair)).pop()
            error = np.abs((fitted - joint).sum(axis=other)).sum()
            assert error < 0.9 * np.abs((raw - joint).sum(axis=other)).sum()


def test_a_fit_to_pairs_agrees_with_the_fit_on_the_junction_tree():
    rng = np.random.default_rng(2)
    joint = any_joint(rng, 2)
    tables = [
        NoisyTable(clique=clique, counts=margin(joint, clique), stddev=0.01)
        for clique in itertools.combinations(range(len(SHAPE)), 2)
    ]
    consistent = make_consistent(tables, SHAPE, total=TOTAL)
    tree = MaxEntropy(max_sweeps=300, tolerance=1e-9).fit(consistent, SHAPE, total=TOTAL).model
    listed = ListedEntropy(steps=2000, tolerance=1e-9).fit(gls_effects(tables, SHAPE, total=TOTAL))
    for clique in itertools.combinations(range(len(SHAPE)), 3):
        assert margin(listed, clique) == pytest.approx(tree.marginal(clique), abs=1e-4)


def test_impossible_cells_have_probability_0():
    rng = np.random.default_rng(3)
    possible = rng.random(CELLS) < 0.7
    weights = ListedEntropy().fit(measured(any_joint(rng, 2), 2, 20.0, rng), possible=possible)
    assert not weights[~possible].any()
    assert weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("total", [-5.0, 0.0, 1.0])
def test_few_rows_and_much_noise_still_give_a_distribution(total):
    rng = np.random.default_rng(4)
    tables = [NoisyTable(clique=(a, b), counts=rng.normal(0, 500, SHAPE[a] * SHAPE[b]), stddev=500.0)
              for a, b in itertools.combinations(range(4), 2)]  # fmt: skip
    weights = ListedEntropy().fit(gls_effects(tables, SHAPE, total=total))
    assert np.isfinite(weights).all()
    assert weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("spread", [0.1, 1.0])
def test_the_spread_that_made_the_gaps_is_found(spread):
    rng = np.random.default_rng(5)
    response, stddev = rng.uniform(500, 1000, 400), rng.uniform(20, 60, 400)
    gap = response * spread * rng.normal(size=400) + stddev * rng.normal(size=400)
    assert likeliest_spread(gap, response, stddev) == pytest.approx(spread, rel=0.25)


def test_an_effect_measured_alone_counts_as_that_of_a_table():
    """A table's noise falls into independent effects: all of them measured alone say what the table does."""
    rng = np.random.default_rng(6)
    table = NoisyTable(clique=(0, 2), counts=rng.normal(100, 30, 12), stddev=30.0)
    whole = gls_effects([table], SHAPE, total=TOTAL)
    alone = [
        NoisyTable(clique=clique, counts=effect.ravel(), stddev=whole.precisions[clique] ** -0.5, alone=True)
        for clique, effect in whole.effects.items()
    ]
    again = gls_effects(alone, SHAPE, total=TOTAL)
    assert again.table((0, 2)) == pytest.approx(whole.table((0, 2)))
    assert again.stddev((0, 2)) == pytest.approx(whole.stddev((0, 2)))
    twice = gls_effects([table, *alone], SHAPE, total=TOTAL)
    assert twice.stddev((0, 2)) == pytest.approx(whole.stddev((0, 2)) / np.sqrt(2))
    cliques = [one.clique for one in make_consistent(alone, SHAPE, total=TOTAL)]
    assert cliques == [(0,), (2,), (0, 2)]


def test_too_many_cells_and_none_that_is_possible_are_refused():
    effects = measured(any_joint(np.random.default_rng(7), 1), 1, 1.0, np.random.default_rng(7))
    with pytest.raises(ParameterError, match=r"\b10\b"):
        ListedEntropy(max_cells=10).fit(effects)
    with pytest.raises(ParameterError, match="possible"):
        ListedEntropy().fit(effects, possible=np.zeros(CELLS, np.bool_))
