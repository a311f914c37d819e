"""What a program costs that may be given up half-way: the excess over every promise, summed over all courses of events."""

import numpy as np
import pytest
from scipy.stats import norm

from synthdp.privacy.accounting import gdp_from_approx, gdp_to_delta, gdp_to_epsilon
from synthdp.privacy.budget import EARLY_SHARE, EarlyEnds
from synthdp.privacy.calibration import account_inside, gaussian_account
from synthdp.privacy.loss import ZCDP, ApproxDP, GaussianDP, PureDP

WHOLE = ApproxDP(1.0, 1e-3)
SHARES = (0.1, 0.5)
GRID = np.linspace(-12, 12, 1201)


def ends_of(whole=WHOLE, shares=SHARES, **options):
    budget = account_inside(whole, options.get("currency"), ends=EARLY_SHARE)
    return EarlyEnds(whole=whole, budget=budget, shares=shares, delta=EARLY_SHARE * getattr(whole, "delta", 0.0))


def excess(mu, epsilon, kept):
    """Return the sum of (p - e^epsilon q)+ over the outcomes z of N(mu, 1) and N(0, 1) that are kept."""
    width = GRID[1] - GRID[0]
    fine = (GRID[:, None] + np.linspace(-width / 2, width / 2, 21)[None, :-1]).ravel()
    more = np.maximum(norm.pdf(fine - mu) - np.exp(epsilon) * norm.pdf(fine), 0)
    return float((more * kept(fine)).sum() * width / 20)


def worst_excess(budget, losses):
    """Return the most that an adversary gets who may stop after either share, or go on, whichever shows most.

    At the end of each share the transcript is a sum z; the outcomes that are given up are those with the largest excess
    there, all of them, and those that go on are again all: more than any program can have, as it must choose.
    """
    mus = [budget.mu * share**0.5 for share in (*SHARES, 1.0)]
    return sum(excess(mu, loss.epsilon, lambda z: z > -np.inf) for mu, loss in zip(mus, losses, strict=True))


def test_all_courses_of_events_together_exceed_their_promises_by_no_more_than_delta():
    ends = ends_of()
    losses = [ends.cost(share) for share in (*SHARES, 1.0)]
    assert worst_excess(ends.budget, losses) <= WHOLE.delta * (1 + 1e-6)
    assert worst_excess(ends.budget, losses) > WHOLE.delta * 0.9


def test_without_a_part_of_delta_set_aside_the_courses_of_events_would_exceed_it():
    budget = gaussian_account(WHOLE)
    losses = [ApproxDP(gdp_to_epsilon(budget.mu * s**0.5, WHOLE.delta), WHOLE.delta) for s in (*SHARES, 1.0)]
    assert worst_excess(budget, losses) > 2 * WHOLE.delta


@pytest.mark.parametrize("cut", np.linspace(-2.0, 4.0, 13))
def test_a_program_that_gives_up_and_is_then_attacked_with_the_rest_keeps_the_promise_of_both(cut):
    """What was given back is spent on the strongest pure mechanism: the law of the transcript, on the grid, exactly."""
    ends = ends_of(shares=(0.5,))
    kept = ends.cost(0.5)
    left = WHOLE.epsilon - kept.epsilon
    mu = ends.budget.mu * 0.5**0.5
    truth = np.exp(left) / (1 + np.exp(left))
    width = GRID[1] - GRID[0]
    one, other = norm.pdf(GRID - mu) * width, norm.pdf(GRID) * width
    stopped = cut < GRID
    more = np.maximum(one * truth - np.exp(WHOLE.epsilon) * other * (1 - truth), 0)[stopped].sum()
    more += np.maximum(one * (1 - truth) - np.exp(WHOLE.epsilon) * other * truth, 0)[stopped].sum()
    z, y = GRID[~stopped], GRID[:, None]
    p = norm.pdf(z - mu) * norm.pdf(y - mu) * width**2
    q = norm.pdf(z) * norm.pdf(y) * width**2
    more += np.maximum(p - np.exp(WHOLE.epsilon) * q, 0).sum()
    assert more <= WHOLE.delta * (1 + 1e-3)


def test_what_is_given_up_costs_less_the_earlier_and_all_of_delta_stays_spent():
    ends = ends_of()
    costs = [ends.cost(spent) for spent in (0.0, 0.1, 0.3, 0.5)]
    assert [cost.delta for cost in costs] == [WHOLE.delta] * 4
    assert costs[0].epsilon == costs[1].epsilon < costs[2].epsilon == costs[3].epsilon < WHOLE.epsilon
    assert gdp_to_delta(ends.budget.mu * 0.5**0.5, costs[3].epsilon) <= ends.delta / 2


@pytest.mark.parametrize("spent", [0.1001, 0.5001, 1.0])
def test_a_share_that_was_not_named_before_is_the_next_larger_one_or_all(spent):
    ends = ends_of()
    assert ends.cost(spent) == {0.1001: ends.cost(0.5), 0.5001: WHOLE, 1.0: WHOLE}[spent]


def test_a_pure_loss_and_basic_composition_give_back_their_shares():
    assert ends_of(PureDP(2.0)).cost(0.05) == PureDP(0.2)
    assert ends_of(currency=ApproxDP).cost(0.3) == ApproxDP(0.5, WHOLE.delta)


@pytest.mark.parametrize("whole", [ZCDP(1.0), GaussianDP(1.0)])
def test_where_no_delta_can_be_set_aside_nothing_is_given_back(whole):
    assert ends_of(whole).cost(0.05) == whole


def test_an_account_without_ends_gives_nothing_back():
    budget = gaussian_account(WHOLE)
    assert EarlyEnds(whole=WHOLE, budget=budget).cost(0.0) == WHOLE
    assert EarlyEnds(whole=WHOLE, budget=budget, shares=SHARES).cost(0.0) == WHOLE


def test_what_is_set_aside_for_ends_buys_no_noise():
    both = gaussian_account(WHOLE, thresholds=0.1, ends=0.1)
    assert both.mu == gdp_from_approx(1.0, WHOLE.delta - 0.1 * WHOLE.delta - 0.1 * WHOLE.delta)
    assert both.delta == 0.1 * WHOLE.delta
