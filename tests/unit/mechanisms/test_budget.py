"""A budget allocation: parts are taken, never made; every share means the same loss whoever holds it."""

import math

import pytest
from hypothesis import given, strategies as st

from synthdp.errors import InternalError
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.privacy.budget import Account
from synthdp.privacy.loss import ROUNDING, ZCDP, ApproxDP, GaussianDP, PureDP, combined, components
from synthdp.privacy.neighbors import Adjacency, Neighbors
from synthdp.queries.norms import Norms, RecordBounds

BUDGETS = [PureDP(0.7), ZCDP(0.3), GaussianDP(0.4)]
LAPLACE, GAUSSIAN = (BudgetAllocation(budget, Adjacency()) for budget in (PureDP(1.0), GaussianDP(0.5)))

budgets = st.sampled_from(BUDGETS)
fractions = st.lists(st.floats(0.01, 1.0), min_size=1, max_size=30)
"""Sizes of parts, up to a common factor."""


def parts_of(sizes, *, whole=1.0):
    """Shares in these proportions that add up to ``whole``."""
    return [whole * size / sum(sizes) for size in sizes]


def taken(allocation, shares):
    """Take parts one after the other; return them and what is left."""
    parts = []
    for share in shares:
        part, allocation = allocation.take(share)
        parts.append(part)
    return parts, allocation


@given(budgets, fractions, st.floats(0.1, 1.0))
def test_parts_and_rest_add_up_to_the_whole_and_no_part_exceeds_it(budget, sizes, whole):
    parts, rest = taken(BudgetAllocation(budget, Adjacency()), parts_of(sizes, whole=whole))
    assert all(0 < part.share <= 1 for part in parts)
    assert rest.share >= 0
    assert math.fsum([*(part.share for part in parts), rest.share]) == pytest.approx(1, abs=ROUNDING)


@given(budgets, fractions)
def test_the_losses_of_all_parts_fit_an_account_of_the_budget(budget, sizes):
    """What the arithmetic says is left, the curator's filter agrees to."""
    parts, _ = taken(BudgetAllocation(budget, Adjacency()), parts_of(sizes))
    account = Account(budget)
    for part in parts:
        account.charge(part.loss)
    assert account.remaining is None
    whole = components(combined([part.loss for part in parts]))[0]
    assert whole == pytest.approx(components(budget)[0], rel=len(parts) * ROUNDING)


@given(fractions, st.floats(0.1, 1.0), st.randoms(use_true_random=False))
def test_the_order_in_which_parts_are_taken_does_not_matter(sizes, whole, random):
    shares = parts_of(sizes, whole=whole)
    order = list(range(len(shares)))
    random.shuffle(order)
    parts, rest = taken(GAUSSIAN, shares)
    others, left = taken(GAUSSIAN, [shares[i] for i in order])
    assert [part.share for part in others] == pytest.approx([parts[i].share for i in order], abs=ROUNDING)
    assert left.share == pytest.approx(rest.share, abs=ROUNDING)


@given(fractions, st.floats(1.001, 5.0))
def test_more_than_is_left_is_refused(sizes, excess):
    *most, last = parts_of(sizes)
    _, rest = taken(GAUSSIAN, most)
    with pytest.raises(InternalError):
        rest.take(last * excess)


@pytest.mark.parametrize("share", [0.0, -0.1, math.nan, math.inf])
def test_a_part_is_a_positive_share(share):
    with pytest.raises(InternalError):
        GAUSSIAN.take(share)


def test_taking_changes_neither_the_allocation_nor_its_parts():
    part, rest = GAUSSIAN.take(0.25)
    inner, outer = rest.take(0.5)
    assert (GAUSSIAN.share, part.share, rest.share, inner.share, outer.share) == (1.0, 0.25, 0.75, 0.5, 0.25)
    with pytest.raises(AttributeError):
        part.share = 1.0


def test_an_empty_allocation_pays_for_nothing():
    _, empty = GAUSSIAN.take(1.0)
    assert empty.share == 0
    with pytest.raises(InternalError):
        _ = empty.loss
    with pytest.raises(InternalError):
        empty.take(1e-9)


@pytest.mark.parametrize("settings", [(ApproxDP(1.0, 1e-6), 1.0), (PureDP(1.0), 1.1), (PureDP(1.0), -0.1)])
def test_a_budget_that_does_not_add_up_or_a_wrong_share_is_refused(settings):
    budget, share = settings
    with pytest.raises(InternalError):
        BudgetAllocation(budget, Adjacency(), share)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@given(st.floats(0.001, 0.2))
def test_a_share_buys_the_same_noise_whoever_holds_it(budget, share):
    whole = BudgetAllocation(budget, Adjacency())
    part, rest = whole.take(0.25)
    assert part.table_stddev(share) == rest.table_stddev(share) == whole.table_stddev(share)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@given(st.floats(0.01, 0.2))
def test_noise_falls_with_the_share_as_the_exponent_says(budget, share):
    whole = BudgetAllocation(budget, Adjacency())
    ratio = whole.table_stddev(share) / whole.table_stddev(4 * share)
    assert ratio == pytest.approx(4**whole.exponent, rel=0.02)


def test_noise_is_that_of_the_neighbours():
    add_remove, replace_one = (
        BudgetAllocation(PureDP(1.0), Adjacency(relation)) for relation in (Neighbors.ADD_REMOVE, Neighbors.REPLACE_ONE)
    )
    several = BudgetAllocation(PureDP(1.0), Adjacency(Neighbors.ADD_REMOVE, "person", 3))
    one = add_remove.table_stddev(0.1)
    assert replace_one.table_stddev(0.1) == pytest.approx(2 * one, rel=0.01)
    assert several.table_stddev(0.1) == pytest.approx(3 * one, rel=0.01)
    bounds = RecordBounds.of(Norms(5, 25, 5))
    assert add_remove.stddev(bounds, 0.1, k=1) == pytest.approx(5 * one, rel=0.01)


@pytest.mark.parametrize("budget", [LAPLACE, GAUSSIAN], ids=["laplace", "gaussian"])
@given(weights=st.lists(st.floats(0.1, 50.0), min_size=2, max_size=6), size=st.floats(0.05, 0.9))
def test_no_other_division_has_less_weighted_noise(budget, weights, size):
    shares = budget.shares_of_least_noise(size, weights)
    assert math.fsum(shares) == pytest.approx(size)

    def noise(division):
        return sum(weight * share**-budget.exponent for weight, share in zip(weights, division, strict=True))

    moved = 0.1 * min(shares)
    other = [shares[0] + moved, shares[1] - moved, *shares[2:]]
    mirrored = [shares[0] - moved, shares[1] + moved, *shares[2:]]
    assert noise(shares) <= min(noise(other), noise(mirrored))
