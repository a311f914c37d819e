"""Several threads ask one curator: together they never spend more than its budget."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
from no_noise import without_noise

from synthdp.curator import Curator
from synthdp.curator.ledger import Ledger
from synthdp.domain.domain import domain_of
from synthdp.errors import BudgetExceededError
from synthdp.privacy.loss import PureDP
from synthdp.queries.marginals import one_ways
from synthdp.schema.columns import Boolean, Integer
from synthdp.schema.schema import Schema

SCHEMA = Schema({"age": Integer(0, 9), "rich": Boolean()})
BUDGET, PART = PureDP(1.0), PureDP(0.25)


class SlowlyRead(list):
    """A list of spends that lets other threads run between the reading of what was spent and the next spend."""

    def __iter__(self):
        time.sleep(0.005)
        return super().__iter__()


def slow_curator(**settings: object) -> Curator:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.integers(0, 10, 100), "rich": rng.random(100) < 0.5})
    curator = Curator(table, schema=SCHEMA, budget=BUDGET, **settings)
    curator._account.spent = SlowlyRead()
    return curator


def outcomes(ask, times: int) -> list[str]:
    def one(number: int) -> str:
        try:
            ask(number)
        except BudgetExceededError:
            return "refused"
        return "answered"

    with ThreadPoolExecutor(times) as pool:
        return list(pool.map(one, range(times)))


def test_threads_that_measure_at_once_are_answered_until_the_budget_is_spent(tmp_path):
    curator, ledger = slow_curator(ledger=tmp_path / "l.sqlite"), Ledger(tmp_path / "l.sqlite")
    queries = one_ways(domain_of(SCHEMA))
    found = outcomes(lambda _: curator.measure(queries, spend=PART), 8)
    assert sorted(found) == ["answered"] * 4 + ["refused"] * 4
    assert curator.remaining is None
    assert [entry.state for entry in ledger.entries()] == ["committed"] * 4
    assert len(curator.receipt().items) == 4


def test_threads_that_open_accounts_share_the_budget_too():
    curator = slow_curator()
    assert sorted(outcomes(lambda _: curator.open_account(PART), 6)) == ["answered"] * 4 + ["refused"] * 2


def test_answers_to_threads_are_those_to_one_after_the_other(monkeypatch):
    without_noise(monkeypatch)
    curator = slow_curator()
    domains = [domain_of(SCHEMA, bins=bins) for bins in (2, 3, 5, 10)]

    def ask(number: int) -> list[int]:
        return curator.measure(one_ways(domains[number]), spend=PART).values.tolist()

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(ask, range(4)))
    again = slow_curator()
    assert found == [again.measure(one_ways(domain), spend=PART).values.tolist() for domain in domains]
