"""Accounts inside accounts: what they cost together, and what they answer and refuse."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from no_noise import without_noise

from synthdp import ZCDP, ApproxDP, Curator, GaussianDP, Ledger, PureDP, Schema
from synthdp.domain.domain import domain_of
from synthdp.errors import SensitivityError
from synthdp.privacy.loss import components
from synthdp.queries.linear import CellQueries
from synthdp.queries.marginals import one_ways
from synthdp.queries.norms import Norms, RecordBounds
from synthdp.schema.columns import Integer


def long_statistic(domain, k):
    return SimpleNamespace(
        domain=domain,
        k=k,
        denominator=1,
        bounds=RecordBounds.of(Norms(1, 1, 1)),
        sums=lambda codes: np.zeros(k, np.int64),
        finish=lambda sums: sums,
    )


@pytest.mark.landing
@pytest.mark.sampled
@pytest.mark.parametrize("nested", [0, 2])
@pytest.mark.parametrize("budget", [GaussianDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(1.0), PureDP(1.0)], ids=str)
def test_an_account_answers_as_many_numbers_as_it_can_pay_however_deep_it_is(monkeypatch, budget, nested):
    """The guarantee depends on what is spent, not on how many numbers are noised or in which account."""
    without_noise(monkeypatch)
    schema = Schema({"n": Integer(0, 9)})
    asked = Curator(pd.DataFrame({"n": range(10)}), schema=schema, budget=budget)
    for _ in range(nested):
        asked = asked.open_account()
    many = long_statistic(domain_of(schema), 10**7 + 1)
    values = asked.measure(many).values
    assert values.shape == (many.k,)


@pytest.mark.parametrize("budget", [GaussianDP(0.7), ApproxDP(1.0, 1e-9), ApproxDP(30.0, 1e-15)], ids=str)
@pytest.mark.parametrize("nested", [0, 1, 3])
def test_all_gaussian_noise_of_a_tree_of_accounts_costs_no_more_than_its_root(budget, nested):
    """Theorem 3 of the Gaussian filter, from what came out: sums of Delta^2 / (sigma^2 - 4), in exact numbers."""
    schema = Schema({"n": Integer(0, 9)})
    tables = one_ways(domain_of(schema))
    root = Curator(pd.DataFrame({"n": range(10)}), schema=schema, budget=budget).open_account()
    measured = []
    account = root
    for _ in range(nested):
        measured.append(account.measure(tables, spend=account.remaining.fraction(0.3)))
        account = account.open_account(account.remaining.fraction(0.7))
        measured.append(account.measure(tables, spend=account.remaining.fraction(0.5)))
    measured.append(account.measure(tables))
    spent = sum(Fraction(part.resolution) ** 2 / (Fraction(part.noise.scale) ** 2 - 4) for part in measured)
    assert spent <= Fraction(root.budget.mu) ** 2


@pytest.mark.parametrize("budget", [GaussianDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(1.0), PureDP(1.0)], ids=str)
@pytest.mark.parametrize("ask", ["measure", "select"])
def test_what_cannot_be_summed_is_refused_before_it_is_paid_for(budget, ask):
    schema = Schema({"n": Integer(0, 9)})
    curator = Curator(pd.DataFrame({"n": range(10)}), schema=schema, budget=budget)
    wide = long_statistic(domain_of(schema), 3)
    wide.bounds = RecordBounds.of(Norms.within(3, 2**40))
    with pytest.raises(SensitivityError, match="denominator"):
        getattr(curator, ask)(wide, spend=budget.fraction(0.5))
    assert curator.remaining == budget
    assert curator.receipt().items == ()


@pytest.mark.parametrize("budget", [GaussianDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(1.0), PureDP(1.0)], ids=str)
def test_a_statistic_that_no_replaced_row_can_move_is_answered_in_every_currency(budget):
    schema = Schema({"n": Integer(0, 9)})
    domain = domain_of(schema)
    curator = Curator(pd.DataFrame({"n": range(10)}), schema=schema, budget=budget, neighbors="replace_one")
    constant = CellQueries(domain, np.ones((1, domain.cells), np.int64))
    assert constant.bounds.swap == Norms(0, 0, 0)
    assert curator.measure(constant).values.shape == (1,)


def test_an_account_is_committed_by_its_first_answer(tmp_path):
    schema = Schema({"n": Integer(0, 3)})
    path = tmp_path / "l.sqlite"
    curator = Curator(pd.DataFrame({"n": [1, 2]}), schema=schema, budget=PureDP(1.0), ledger=path)
    account = curator.open_account(PureDP(0.4))
    assert [(entry.what, entry.state) for entry in Ledger(path).entries()] == [("account", "reserved")]
    account.measure(one_ways(domain_of(schema)), spend=PureDP(0.1))
    assert [(entry.what, entry.state) for entry in Ledger(path).entries()] == [("account", "committed")]
    assert curator.receipt().entries == (1,)


@pytest.mark.parametrize(
    ("spend", "currency", "inner"),
    [
        (ApproxDP(0.5, 0.0), None, PureDP(0.5)),
        (ApproxDP(0.5, 1e-7), ApproxDP, ApproxDP(0.5, 1e-7)),
        (PureDP(0.5), ZCDP, ApproxDP(0.5, 0.0)),
    ],
)
def test_an_account_keeps_a_currency_that_needs_no_conversion(spend, currency, inner):
    schema = Schema({"n": Integer(0, 3)})
    curator = Curator(pd.DataFrame({"n": [1, 2]}), schema=schema, budget=ApproxDP(1.0, 1e-6))
    assert components(curator.open_account(spend, currency=currency).budget) == components(inner)
