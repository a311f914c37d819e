"""The stages of the adaptive plan, one by one: each spends what it says, and leaves the state that it was given alone."""

from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest

from synthdp import AdaptiveMarginals, Continuous, Curator, GaussianDP, Integer, PureDP, Schema
from synthdp.distribution.explicit import Explicit
from synthdp.fit.listed_entropy import ListedEntropy
from synthdp.fit.max_entropy import MaxEntropy
from synthdp.fit.raking import Particles
from synthdp.mechanisms.adaptive.fitting import consistent_tables, fit_distribution, fit_tree
from synthdp.mechanisms.adaptive.knowledge import Knowledge
from synthdp.mechanisms.adaptive.measuring import measure_one_ways_again, measure_tables
from synthdp.mechanisms.adaptive.screening import screen_against_independence, screen_against_model
from synthdp.mechanisms.adaptive.second_moments import measure_second_moments
from synthdp.mechanisms.adaptive.selection import Batch, Planner
from synthdp.mechanisms.adaptive.shares import MOST_SCREEN, SCREEN, screening_part
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.mechanisms.column_histograms import OneWayTree
from synthdp.mechanisms.workload import Workload
from synthdp.privacy.loss import components

ROWS = 6000
SCHEMA = Schema({"a": Integer(0, 9), "b": Integer(0, 9), "x": Continuous(-4, 4), "y": Continuous(-4, 4)})
BUDGETS = [PureDP(3.0), GaussianDP(1.5)]
ALL = Workload()


def table() -> pd.DataFrame:
    rng = np.random.default_rng(11)
    a, x = rng.integers(0, 10, ROWS), np.clip(rng.normal(size=ROWS), -4, 4)
    follows = rng.random(ROWS) < 0.6
    return pd.DataFrame(
        {"a": a, "b": np.where(follows, a, rng.integers(0, 10, ROWS)), "x": x, "y": np.where(follows, x, -x / 2)}
    )


@pytest.fixture(params=BUDGETS, ids=str)
def account(request):
    return Curator(table(), schema=SCHEMA, budget=request.param)


@pytest.fixture
def known(account):
    whole = BudgetAllocation.of(account)
    columns, left, answers = OneWayTree().measure(account, whole, share=0.2, most=0.3, total=float(ROWS))
    return Knowledge.of_columns(SCHEMA, columns, target=600.0, rows=None, left=left, measured=answers)


def one_batch(known, account):
    candidates, after = screen_against_independence(known, account, ALL, share=0.05)
    batch = Planner().choose_next_tables(candidates, after.left, share=0.2, base=[], shape=after.domain.shape)
    return measure_tables(after, account, batch)


def second_batch(known, account):
    first = one_batch(known, account)
    sample = fit_tree(first, consistent_tables(first), MaxEntropy()).sample(5000, np.random.default_rng(0))
    model = Explicit(shape=first.domain.shape, codes=sample, weights=np.ones(len(sample)))
    return screen_against_model(first, account, ALL, share=0.1, model=model)[1]


STAGES = {
    "second moments": lambda known, account: measure_second_moments(known, account, ALL),
    "screening": lambda known, account: screen_against_independence(known, account, ALL, share=0.05)[1],
    "a batch": one_batch,
    "screening against the model": second_batch,
    "one-ways again": measure_one_ways_again,
}


@pytest.mark.sampled
@pytest.mark.parametrize("stage", STAGES)
def test_what_a_stage_leaves_is_what_the_account_has_left(stage, known, account):
    after = STAGES[stage](known, account)
    assert after.left.share < known.left.share
    left = 0.0 if account.remaining is None else components(account.remaining)[0]
    whole = components(account.budget)[0]
    assert left == pytest.approx(whole * after.left.share, abs=1e-9 * whole)


@pytest.mark.sampled
@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_leaves_the_state_that_it_was_given_alone(stage, known, account):
    names = [field.name for field in fields(Knowledge)]
    before = {name: getattr(known, name) for name in names}
    ridges, zeros = dict(known.ridges), dict(known.zeros)
    STAGES[stage](known, account)
    assert all(getattr(known, name) is before[name] for name in names)
    assert (dict(known.ridges), dict(known.zeros)) == (ridges, zeros)


@pytest.mark.sampled("landing")
@pytest.mark.parametrize(("most", "levels"), [(0.2, 1), (0.25, 2)])
def test_the_levels_of_the_one_ways_stay_within_their_limit(most, levels, known, account):
    """At .25 two columns' second level just fits: sums of shares are compared up to rounding.

    With Gaussian noise half of the first histogram's share goes to a last one.
    """
    tree = OneWayTree(heavy=1.0, deep=2**known.left.exponent)  # half the first level's share a column, for either noise
    _, left, answers = tree.measure(account, known.left, share=0.2, most=most, total=float(ROWS))
    assert known.left.share - left.share == pytest.approx(most)
    assert len(answers) == levels + (known.left.exponent == 0.5)


def test_a_noisy_count_of_rows_does_not_outweigh_the_histograms(account):
    whole = BudgetAllocation.of(account)
    columns, _, _ = OneWayTree(levels=1).measure(account, whole, share=0.2, most=0.3, total=1.0, stddev=1e9)
    assert [column.weights.sum() for column in columns] == pytest.approx([ROWS] * 4, rel=0.1)


def test_an_exact_count_of_rows_is_kept(account):
    whole = BudgetAllocation.of(account)
    columns, _, _ = OneWayTree(levels=1).measure(account, whole, share=0.2, most=0.3, total=5000.0)
    assert [column.weights.sum() + column.misfits for column in columns] == pytest.approx([5000.0] * 4)


def test_a_column_is_fitted_as_it_was_estimated_not_as_it_was_counted(known, account):
    """Sums of many noisy bins would be taken for relations."""
    first = replace(known.columns[2], counts=known.columns[2].counts + 50.0)
    other = replace(known, columns=(*known.columns[:2], first, known.columns[3]))
    fitted = {t.clique: t.counts for t in consistent_tables(other)}
    expected = np.bincount(known.refinements[2].coarse_cell, weights=known.columns[2].weights)
    np.testing.assert_allclose(fitted[2,], expected * other.total / expected.sum())


def test_errors_of_margins_are_those_of_their_bins_and_no_larger_than_the_rows(known):
    for column, refinement, variance, rows in zip(
        known.columns, known.refinements, known.margin_variances, known.margins, strict=True
    ):
        assert (variance <= np.maximum(rows, 1.0) ** 2).all()
        assert (variance <= column.first.size * column.stddev**2 + 1e-9).all()
        filled = np.bincount(refinement.coarse_cell, minlength=len(rows)) > 0
        assert (variance[filled] > 0).all()


def test_where_scores_would_be_noise_alone_single_columns_get_everything():
    curator = Curator(table()[:300], schema=SCHEMA, budget=GaussianDP(0.02))
    receipt = " ".join(str(AdaptiveMarginals().release(curator, random_state=0).receipt).split())
    assert "one-way marginals, again" in receipt
    assert "screening" not in receipt
    assert "several columns" not in receipt
    assert curator.remaining is None


def test_a_repeated_clique_stays_once_in_the_tree_and_keeps_both_tables(known, account):
    candidates, after = screen_against_independence(known, account, ALL, share=0.05)
    (one,) = [one for one in candidates if one.clique == (0, 1)]
    for _ in range(2):
        after = measure_tables(after, account, Batch({one: 0.05}, frozenset({(0, 1)})))
    assert after.tree == ((0, 1),)
    assert [t.clique for t in after.tables] == [(0, 1), (0, 1)]


def test_nothing_that_matters_costs_nothing(known, account):
    none = Workload(weights=(((0,), 1.0),))
    candidates, after = screen_against_independence(known, account, none, share=0.05)
    assert candidates == []
    assert after is known
    model = Explicit(shape=known.domain.shape, codes=np.zeros((9, 4), int), weights=np.ones(9))
    assert screen_against_model(known, account, Workload(weights=()), share=0.05, model=model)[0] == []


def test_the_fit_repeats_what_was_measured(known, account):
    after = one_batch(known, account)
    fitted = fit_distribution(
        after,
        settings=MaxEntropy(),
        particles=Particles(size=20_000),
        listed=ListedEntropy(),
        rng=np.random.default_rng(0),
    )
    for column, margin in enumerate(after.margins):
        np.testing.assert_allclose(fitted.marginal((column,)), margin / margin.sum(), atol=0.02)


def test_loud_scores_cost_more_up_to_where_they_say_nothing():
    curator = Curator(table(), schema=SCHEMA, budget=GaussianDP(1.0))
    whole = BudgetAllocation.of(curator)
    rows = (1e6, 700.0, 350.0, 60.0, 1.0)
    parts = [screening_part(whole, share=0.5, pairs=50, total=total) for total in rows]
    assert parts[0] == SCREEN
    assert parts[:3] == sorted(parts[:3])
    assert max(parts) == MOST_SCREEN
    assert parts[3:] == [0.0, 0.0]
    assert screening_part(whole, share=0.5, pairs=1, total=1.0) == SCREEN


def test_the_receipt_says_what_was_measured_of_several_columns_and_how_noisy_it_is(known, account):
    assert "no relation" in known.relations
    after = one_batch(known, account)
    measured = {one.clique for one in after.tables}
    assert f"{len(measured)} pair" in after.relations
    noise = min(one.stddev for one in after.tables)
    assert f"{noise:,.3g}" in after.relations


def test_a_release_of_one_way_marginals_alone_says_so():
    curator = Curator(table()[:300], schema=SCHEMA, budget=GaussianDP(0.02))
    notes = AdaptiveMarginals().release(curator, random_state=0).receipt.notes
    assert any("no relation between columns was measured" in note for note in notes)
