"""What tables exchange changes no probability, costs the ridges least, and brings a fit nearer in fewer sweeps."""

import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st

from synthdp.fit.consistency import make_consistent
from synthdp.fit.max_entropy import MaxEntropy, fit_by_sweeps
from synthdp.fit.proportional_step import exchanges
from synthdp.queries.contingency import NoisyTable

SHAPE = (3, 4, 2)
CLIQUES = ((0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2))
RIDGES = [0.3, 0.2, 0.5, 1.0, 2.0, 1.5]


def whole(potentials, tables):
    """The sum of all potentials in every combination of codes."""
    total = np.zeros(SHAPE)
    for table, theta in zip(tables, potentials, strict=True):
        cells = theta if table.groups is None else theta[table.merged_cells]
        total = total + cells.reshape([size if a in table.clique else 1 for a, size in enumerate(SHAPE)])
    return total


def cost(potentials, tables):
    """The part of the dual that an exchange changes: ridges and targets."""
    each = zip(potentials, tables, RIDGES, strict=True)
    return sum(0.5 * ridge * theta @ theta - theta @ table.counts for theta, table, ridge in each)


def tables_of(rng, cliques=CLIQUES, groups=None):
    joint = 100 * rng.random(SHAPE)
    found = []
    for clique in cliques:
        counts = joint.sum(axis=tuple(a for a in range(3) if a not in clique)).ravel()
        merged = None if groups is None or len(clique) == 1 else tuple(groups[a] for a in clique)
        if merged is not None:
            counts = np.bincount(
                NoisyTable(clique=clique, counts=counts, stddev=1.0, groups=merged).merged_cells, counts
            )
        found.append(
            NoisyTable(clique=clique, counts=counts + rng.normal(0, 1, counts.size), stddev=1.0, groups=merged)
        )
    return found


@given(seed=st.integers(0, 2**32 - 1), merged=st.booleans())
def test_an_exchange_changes_no_probability_and_is_the_least_costly(seed, merged):
    rng = np.random.default_rng(seed)
    groups = [np.array([0, 1, 1]), np.array([0, 0, 1, 1]), np.array([0, 1])] if merged else None
    tables = tables_of(rng, groups=groups)
    potentials = [rng.normal(size=table.counts.size) for table in tables]
    before = whole(potentials, tables)
    found = exchanges(tables, RIDGES, [np.ones(t.counts.size, np.bool_) for t in tables], SHAPE)
    assert {(e.inner, e.outer) for e in found} >= {(0, 3), (1, 3), (1, 4), (2, 4), (0, 5), (1, 5), (2, 5)}
    assert merged or {(e.inner, e.outer) for e in found} >= {(3, 5), (4, 5)}
    for exchange in found:
        lower = cost(potentials, tables)
        exchange.make(potentials)
        np.testing.assert_allclose(whole(potentials, tables), before, atol=1e-9)
        least = cost(potentials, tables)
        assert least <= lower + 1e-9 * abs(lower)
        again = [theta.copy() for theta in potentials]
        exchange.make(again)
        np.testing.assert_allclose(np.concatenate(again), np.concatenate(potentials), atol=1e-9)  # it was the least
        for step in (1e-3, -1e-3):
            moved = [theta.copy() for theta in potentials]
            moved[exchange.inner][exchange.inner_cells[exchange.inner_groups == exchange.inner_groups[0]]] += step
            moved[exchange.outer][exchange.outer_cells[exchange.outer_groups == exchange.inner_groups[0]]] -= step
            np.testing.assert_allclose(whole(moved, tables), before, atol=1e-9)
            assert cost(moved, tables) > least


def test_cells_without_a_potential_take_part_in_nothing():
    rng = np.random.default_rng(3)
    tables = tables_of(rng, cliques=((0,), (0, 1)))
    possible = [np.array([True, True, False]), np.array([True, False, True, True] * 2 + [False] * 4)]
    potentials = [np.where(p, rng.normal(size=p.size), 0.0) for p in possible]
    before = potentials[1].reshape(3, 4) + potentials[0][:, None]
    (exchange,) = exchanges(tables, [0.3, 1.0], possible, SHAPE)
    exchange.make(potentials)
    after = potentials[1].reshape(3, 4) + potentials[0][:, None]
    shown = possible[1].reshape(3, 4)
    np.testing.assert_allclose(after[shown], before[shown], atol=1e-12)
    assert all((theta[~p] == 0).all() for theta, p in zip(potentials, possible, strict=True))


def test_an_interaction_alone_has_nothing_to_give():
    one, alone = tables_of(np.random.default_rng(0), cliques=((0,), (0, 1)))
    alone = NoisyTable(clique=(0, 1), counts=alone.counts, stddev=1.0, groups=(np.arange(3), np.arange(4)), alone=True)
    assert exchanges([one, alone], [1.0, 1.0], [np.ones(3, np.bool_), np.ones(12, np.bool_)], SHAPE) == []


@pytest.mark.parametrize("seed", range(3))
def test_single_columns_come_out_right_after_few_sweeps(seed):
    """Without the exchange they are ten times as far off after as many sweeps, and settle after hundreds."""
    rng = np.random.default_rng(seed)
    shape = (6, 5, 7, 4)
    joint = 20_000 * rng.dirichlet(np.full(int(np.prod(shape)), 0.3)).reshape(shape)
    tables = []
    for clique in [*((a,) for a in range(4)), *itertools.combinations(range(4), 2)]:
        counts = joint.sum(axis=tuple(a for a in range(4) if a not in clique)).ravel()
        tables.append(NoisyTable(clique=clique, counts=counts + rng.normal(0, 30, counts.size), stddev=30.0))
    settings = MaxEntropy()
    dual = settings._dual(list(make_consistent(tables, shape, total=20_000.0)), shape, 20_000.0, {})
    start = {table.clique: np.zeros(table.counts.size) for table in dual.tables}
    potentials, _, _ = fit_by_sweeps(dual, start, max_sweeps=12, tolerance=0.0)
    _, gradients = dual.value_and_gradient(potentials)
    off = [np.abs(g).sum() / dual.total for g, t in zip(gradients, dual.tables, strict=True) if len(t.clique) == 1]
    assert max(off) < 1e-3
