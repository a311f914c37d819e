"""Several questions at once: the same answers, noise and receipt as one after the other, and one pass over the rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from no_noise import with_repeatable_noise

import synthdp as sd
from synthdp import Categorical, Continuous, Curator, Integer, PureDP, Schema
from synthdp.curator.private_table import PrivateTable
from synthdp.domain.domain import domain_of
from synthdp.errors import BudgetExceededError
from synthdp.queries.linear import Total
from synthdp.queries.marginals import Marginals, all_cliques
from synthdp.queries.protocol import Statistic

SCHEMA = Schema({"age": Integer(0, 99), "city": Categorical(["a", "b"], nullable=True), "size": Continuous(0, 1)})


def table(rows: int = 500) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    size = rng.random(rows)
    city = np.where(size + rng.normal(0, 0.1, rows) < 0.5, "a", "b")
    return pd.DataFrame({"age": (size * 90).astype(int), "city": city, "size": size})


def questions(kind: str) -> list[Statistic]:
    domain = domain_of(SCHEMA, bins=4)
    tables = [Marginals(domain, (clique,)) for clique in all_cliques(domain, 2)]
    others: dict[str, list[Statistic]] = {
        "tables": [],
        "others": [Total(domain)],
        "other cells": [Total(domain_of(SCHEMA))],
    }
    return [*tables, *others[kind]]


SPENDS = [PureDP(0.1), PureDP(0.3), PureDP(0.05), PureDP(0.2)]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What the rows were asked, question by question."""
    seen: list[str] = []
    exact = PrivateTable.exact

    def recorded(self: PrivateTable, statistic: Any) -> Any:
        seen.append(type(statistic).__name__)
        return exact(self, statistic)

    monkeypatch.setattr(PrivateTable, "exact", recorded)
    return seen


@pytest.mark.parametrize("kind", ["tables", "others", "other cells"])
def test_the_answers_and_the_receipt_are_those_of_one_question_after_the_other(kind: str) -> None:
    queries = questions(kind)
    spends, steps = SPENDS[: len(queries)], [f"step {i}" for i in range(len(queries))]
    found = []
    for at_once in (True, False):
        with pytest.MonkeyPatch.context() as patch, Curator(table(), schema=SCHEMA, budget=PureDP(1.0)) as curator:
            with_repeatable_noise(patch)
            parts = zip(queries, spends, steps, strict=True)
            answers = (
                curator.measure_each(queries, spends=spends, steps=steps)
                if at_once
                else [curator.measure(one, spend=spend, step=step) for one, spend, step in parts]
            )
            found.append(
                ([one.values.tolist() for one in answers], [one.stddev for one in answers], str(curator.receipt()))
            )
    assert found[0] == found[1]


def test_tables_of_one_domain_are_one_pass_over_the_rows(asked: list[str]) -> None:
    with Curator(table(), schema=SCHEMA, budget=PureDP(1.0)) as curator:
        curator.measure_each(questions("tables"), spends=SPENDS[:3], steps=["a", "b", "c"])
    assert asked == ["Marginals"]


def test_questions_that_cost_more_than_is_left_are_refused_and_nothing_is_spent(
    tmp_path: Path, asked: list[str]
) -> None:
    ledger = sd.Ledger(tmp_path / "ledger.sqlite")
    with Curator(table(), schema=SCHEMA, budget=PureDP(0.5), ledger=ledger, dataset="d") as curator:
        with pytest.raises(BudgetExceededError):
            curator.measure_each(questions("tables"), spends=[PureDP(0.2)] * 3, steps=["a", "b", "c"])
        assert curator.remaining == PureDP(0.5)
        assert not curator.receipt().items
    assert not ledger.entries()
    assert not asked


def test_a_release_asks_few_questions_however_many_tables_it_measures(asked: list[str]) -> None:
    """On a cluster or in a database each is a job or a scan."""
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.normal(size=(2000, 9)), axis=1)
    frame = pd.DataFrame({f"x{j}": np.digitize(walk[:, j], [-2, 0, 2]) for j in range(9)})
    schema = Schema({name: Integer(0, 3) for name in frame})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = sd.SyntheticRelease(schema=schema, epsilon=3.0, random_state=0).fit(frame)
    assert len(asked) <= 10
    assert len(release.release_.measurements) > len(asked)
