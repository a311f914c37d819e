"""The number of rows: exact and free where it is public, else noisy, at least 1, and for exactly its price."""

import numpy as np
import pandas as pd
import pytest
from no_noise import without_noise

from synthdp import ZCDP, ApproxDP, Boolean, Curator, GaussianDP, Integer, PureDP, Schema
from synthdp.domain.domain import domain_of
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.mechanisms.row_count import count_rows, count_rows_from, row_total
from synthdp.privacy.loss import components
from synthdp.queries.linear import Total
from synthdp.works.sparse.key_counts import KeyTotal

SCHEMA = Schema({"a": Integer(0, 9), "b": Boolean()})
BUDGETS = [PureDP(1.0), ZCDP(0.5), GaussianDP(0.7)]


def curator(rows, *, budget, neighbors="add_remove"):
    table = pd.DataFrame({"a": np.arange(rows) % 10, "b": np.arange(rows) % 2 == 0})
    return Curator(table, schema=SCHEMA, budget=budget, neighbors=neighbors)


@pytest.mark.parametrize("rows", [0, 1, 37])
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_a_public_number_is_exact_and_free(rows, budget):
    account = curator(rows, budget=budget, neighbors="replace_one")
    whole = BudgetAllocation.of(account)
    count, left = count_rows_from(account, whole, share=0.2)
    total = row_total(account, Total(domain_of(SCHEMA)), share=0.2)
    assert (count.rows, count.stddev, count.measurements) == (max(1, rows), 0.0, ())
    assert (total.rows, total.measurements) == (max(1, rows), ())
    assert left == whole
    assert account.remaining == budget


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_a_private_number_costs_its_share_and_no_more(budget):
    account = curator(37, budget=budget)
    count, left = count_rows_from(account, BudgetAllocation.of(account), share=0.2)
    assert [item.loss for item in account.receipt().items] == [budget.fraction(0.2)]
    assert components(account.remaining)[0] == pytest.approx(components(left.loss)[0])
    assert count.stddev == count.measurements[0].stddev > 0


@pytest.mark.parametrize("budget", [*BUDGETS, ApproxDP(1.0, 1e-6)], ids=str)
def test_all_counters_agree_without_noise(monkeypatch, budget):
    without_noise(monkeypatch)
    account = curator(37, budget=budget)
    assert count_rows(account, spend=budget.fraction(0.1)).rows == 37
    assert row_total(account, Total(domain_of(SCHEMA)), share=0.1).rows == 37
    assert row_total(account, KeyTotal(("b",)), share=0.1).rows == 37


def test_an_empty_table_counts_as_one_row(monkeypatch):
    without_noise(monkeypatch)
    account = curator(0, budget=PureDP(1.0))
    assert count_rows(account, spend=PureDP(0.1)).rows == 1
    assert row_total(account, Total(domain_of(SCHEMA)), share=0.1).rows == 1
    assert row_total(account, KeyTotal(("b",)), share=0.1).rows == 1


def test_the_number_of_rows_leaves_all_of_delta():
    account = curator(37, budget=ApproxDP(1.0, 1e-6))
    assert row_total(account, Total(domain_of(SCHEMA)), share=0.1).rest == ApproxDP(0.9, 1e-6)
