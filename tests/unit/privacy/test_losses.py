"""Privacy losses as numbers: parts add up to wholes, currencies convert where a rule exists, documents read back."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from synthdp import ZCDP, ApproxDP, GaussianDP, PureDP
from synthdp.errors import BudgetExceededError, ParameterError
from synthdp.privacy.budget import Account
from synthdp.privacy.loss import (
    Remaining,
    combined,
    components,
    from_document,
    in_currency,
    loss_of,
    to_document,
)

LOSSES = [PureDP(0.7), ApproxDP(0.7, 1e-6), ZCDP(0.3), GaussianDP(0.4)]
NUMBERS = {
    PureDP(0.7): (0.7, 0.0),
    ApproxDP(0.7, 1e-6): (0.7, 1e-6),
    ZCDP(0.3): (0.3, 0.0),
    GaussianDP(0.4): (pytest.approx(0.16), 0.0),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_the_numbers_that_add_up_are_those_of_composition(loss):
    assert components(loss) == NUMBERS[loss]


@pytest.mark.parametrize("loss", LOSSES)
@given(k=st.integers(1, 50))
def test_k_equal_parts_add_up_to_the_whole(loss, k):
    assert components(combined([loss.split(k)] * k)) == pytest.approx(components(loss))
    assert type(combined([loss.split(k)] * k)) is type(loss)


@pytest.mark.parametrize("loss", LOSSES)
@given(share=st.floats(0.01, 0.99))
def test_two_shares_add_up_to_the_whole(loss, share):
    whole = combined([loss.fraction(share), loss.fraction(1 - share)])
    assert components(whole) == pytest.approx(components(loss))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("share", [0.0, -0.1, 1.001, math.nan])
def test_a_share_outside_the_whole_is_refused(loss, share):
    with pytest.raises(ParameterError, match="share"):
        loss.fraction(share)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_share_of_all_up_to_rounding_is_all(loss):
    assert loss.fraction(1 + 1e-13) == loss


def test_losses_of_different_currencies_do_not_add_up():
    with pytest.raises(ParameterError, match="PureDP"):
        combined([PureDP(1.0), ZCDP(1.0)])


@pytest.mark.parametrize(
    ("loss", "currency", "expected"),
    [
        (PureDP(0.5), PureDP, PureDP(0.5)),
        (PureDP(0.5), ApproxDP, ApproxDP(0.5, 0.0)),
        (PureDP(0.5), ZCDP, ZCDP(0.125)),
        (ApproxDP(0.5, 0.0), PureDP, PureDP(0.5)),
        (ApproxDP(0.5, 0.0), ZCDP, ZCDP(0.125)),
        (ApproxDP(0.5, 1e-9), ApproxDP, ApproxDP(0.5, 1e-9)),
    ],
)
def test_a_loss_is_stated_in_another_currency_where_a_rule_exists(loss, currency, expected):
    assert in_currency(loss, currency) == expected


@pytest.mark.parametrize(
    ("loss", "currency"),
    [
        (ApproxDP(0.5, 1e-9), PureDP),
        (ApproxDP(0.5, 1e-9), ZCDP),
        (ZCDP(0.5), PureDP),
        (ZCDP(0.5), ApproxDP),
        (GaussianDP(0.5), ZCDP),
        (PureDP(0.5), GaussianDP),
        (ApproxDP(0.5, 0.0), GaussianDP),
    ],
)
def test_a_loss_without_a_rule_cannot_be_paid_in_that_currency(loss, currency):
    with pytest.raises(ParameterError, match=currency.__name__):
        in_currency(loss, currency)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_reads_back_from_its_document(loss):
    assert from_document(to_document(loss)) == loss


@pytest.mark.parametrize(
    "document", [{}, {"kind": "FreeDP"}, {"kind": "PureDP"}, {"kind": "PureDP", "epsilon": 1.0, "delta": 0.1}]
)
def test_a_document_of_no_loss_is_refused(document):
    with pytest.raises(ParameterError, match="loss"):
        from_document(document)


@pytest.mark.parametrize("value", [0, -1.0, math.inf, math.nan, True, "1", None])
@pytest.mark.parametrize("kind", [PureDP, ZCDP, GaussianDP, lambda value: ApproxDP(value, 1e-9)])
def test_a_loss_is_a_positive_finite_number(kind, value):
    with pytest.raises(ParameterError):
        kind(value)


@pytest.mark.parametrize("delta", [-1e-9, 1, 1.5, math.nan, True, "0", None])
def test_delta_is_a_probability_below_one(delta):
    with pytest.raises(ParameterError, match="delta"):
        ApproxDP(1.0, delta)


def test_whole_numbers_are_kept_as_floats():
    assert (PureDP(1).epsilon, ApproxDP(1, 0).delta) == (1.0, 0.0)
    assert isinstance(PureDP(1).epsilon, float)
    assert isinstance(ApproxDP(1, 0).delta, float)


def test_a_loss_without_delta_is_pure():
    assert loss_of(1.0) == PureDP(1.0)
    assert loss_of(1.0, 1e-9) == ApproxDP(1.0, 1e-9)


def test_losses_say_their_numbers():
    assert [str(loss) for loss in LOSSES] == ["ε = 0.7", "ε = 0.7, δ = 1e-06", "ρ = 0.3", "μ = 0.4"]


@pytest.mark.parametrize("budget", LOSSES)
@given(shares=st.lists(st.floats(0.01, 1.0), min_size=1, max_size=12))
def test_an_account_never_gives_more_than_its_budget(budget, shares):
    account = Account(budget)
    for share in shares:
        try:
            account.charge(budget.fraction(share))
        except BudgetExceededError:
            left = account.remaining
            assert left is None or components(budget.fraction(share))[0] > components(left)[0] * (1 - 1e-9)
    whole = components(budget)
    spent = [sum(part[i] for part in account.spent) for i in range(2)]
    assert all(spent[i] <= whole[i] * (1 + 1e-11) for i in range(2))


def test_delta_alone_can_be_used_up():
    account = Account(ApproxDP(1.0, 1e-6))
    account.charge(ApproxDP(0.1, 1e-6))
    assert account.remaining == ApproxDP(0.9, 0.0)
    with pytest.raises(BudgetExceededError, match=r"0\.1.*0\.9"):
        account.charge(ApproxDP(0.1, 1e-7))
    account.charge(PureDP(0.9))
    assert account.remaining is None


def test_what_remains_of_a_gaussian_account_adds_up_in_squares():
    account = Account(GaussianDP(0.5))
    account.charge(GaussianDP(0.3))
    assert components(account.resolve(Remaining())) == (pytest.approx(0.16), 0.0)
