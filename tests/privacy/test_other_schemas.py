"""R33: a question that does not belong to the curator's own schema is refused before it is charged and before it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
import strategies as my
from hypothesis import given, strategies as st
from mechanism_cases import CASES
from strictness import warnings_kept

from synthdp import (
    ApproxDP,
    Boolean,
    Categorical,
    Curator,
    Integer,
    Ledger,
    MedianMechanism,
    Ordinal,
    PrivateMultiplicativeWeights,
    Schema,
    SparseProjection,
    SparseWeights,
    StabilityHistogram,
)
from synthdp.curator.private_table import PrivateTable
from synthdp.domain.domain import Domain, axis_of, domain_of, finest_axis, releasable_domain
from synthdp.errors import DataError, ParameterError, SensitivityError
from synthdp.queries.linear import Subset, Total
from synthdp.queries.marginals import one_ways
from synthdp.queries.norms import Norms, RecordBounds
from synthdp.works.sparse.key_counts import KeyTotal

SECRET = 7777
SCHEMA = Schema({"n": Integer(0, 9_999), "c": Categorical(["a", "b"]), "b": Boolean()})
TABLE = pd.DataFrame({"n": [1, 2, SECRET], "c": ["a", "b", "b"], "b": [True, False, True]})
BUDGET, PART = ApproxDP(1.0, 1e-6), ApproxDP(0.1, 0.0)

OTHERS = {
    "narrower bounds": {"n": Integer(0, 9)},
    "wider bounds": {"n": Integer(0, 99_999)},
    "moved bounds": {"n": Integer(1, 10_000)},
    "another kind": {"n": Boolean()},
    "a missing value more": {"n": Integer(0, 9_999, nullable=True)},
    "a special value more": {"n": Integer(0, 9_999, special=(-1,))},
    "a level less": {"c": Categorical(["a"])},
    "levels in another order": {"c": Categorical(["b", "a"])},
    "levels that are ordered": {"c": Ordinal(["a", "b"])},
    "a label for others": {"c": Categorical(["a", "b"], other="z")},
    "a column more": {"zzz": Boolean()},
}
"""Columns that are declared otherwise, and the rest as it is."""


def domain_with(other: str) -> Domain:
    changed = OTHERS[other]
    return domain_of(Schema({name: {**SCHEMA, **changed}[name] for name in (*changed, "b")}), bins=10_000)


def first_of(queries: Any) -> Any:
    return Subset(queries, np.array([0]))


QUESTIONS: dict[str, Callable[[Curator, Domain], Any]] = {
    "measure": lambda curator, domain: curator.measure(one_ways(domain), spend=PART),
    "measure a total": lambda curator, domain: curator.measure(Total(domain), spend=PART),
    "select": lambda curator, domain: curator.select(one_ways(domain), spend=PART),
}


def curator_watch(curator: Curator) -> Any:
    return curator.watch(("n",), max_alarms=2, spend=PART)


def curator_of(table: pd.DataFrame, **settings: Any) -> Curator:
    return Curator(table, schema=SCHEMA, budget=BUDGET, neighbors="replace_one", **settings)


def said(ask: Callable[[], Any]) -> str:
    """The refusal as text, with all that it remembers."""
    with warnings_kept() as caught, pytest.raises(ParameterError) as refused:
        ask()
    return f"{refused.value} {refused.value.__context__} {[str(one.message) for one in caught]}"


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_about_columns_declared_otherwise_costs_nothing_reads_nothing_and_tells_nothing(
    question, other, tmp_path, monkeypatch
):
    ledger = Ledger(tmp_path / "l.sqlite")
    curator = curator_of(TABLE, ledger=ledger)
    account = curator.open_account(ApproxDP(0.5, 1e-7))
    charged = len(ledger.entries())
    left = curator.remaining, account.remaining
    monkeypatch.setattr(PrivateTable, "exact", None)
    for asked in (curator, account):
        text = said(lambda asked=asked: QUESTIONS[question](asked, domain_with(other)))
        assert f"column {next(iter(OTHERS[other]))!r}" in text
        assert str(SECRET) not in text
    assert (curator.remaining, account.remaining) == left
    assert len(ledger.entries()) == charged
    assert curator.receipt().items == ()


@pytest.mark.parametrize("other", OTHERS)
def test_a_watch_is_not_asked_about_columns_declared_otherwise(other, monkeypatch):
    watch = curator_watch(curator_of(TABLE))
    monkeypatch.setattr(PrivateTable, "exact", None)
    text = said(lambda: watch.ask(first_of(one_ways(domain_with(other))), guess=0.0))
    assert str(SECRET) not in text
    assert watch.alarms == 0


@pytest.mark.parametrize("mechanism", [PrivateMultiplicativeWeights, MedianMechanism])
@pytest.mark.parametrize(
    "columns", [{"n": Integer(5, 6)}, {"n": Ordinal([1, 2])}, {"c": Categorical(["b", "a"])}], ids=str
)
def test_a_session_is_not_asked_about_cells_of_another_schema(mechanism, columns):
    (name,) = columns
    own = releasable_domain(Domain((axis_of(name, SCHEMA[name], bins=2),)))
    other = releasable_domain(Domain((axis_of(name, columns[name], bins=2),)))
    session = mechanism(own).open(curator_of(TABLE))
    assert other.shape == own.shape
    assert str(SECRET) not in said(lambda: session.ask(one_ways(other)))
    assert session.ask(one_ways(own))


DISCOVERED = Schema({"n": Integer(), "c": Categorical(["a", "b"]), "b": Boolean()})


def test_an_undeclared_column_is_measured_when_it_was_discovered_and_only_as_it_was():
    curator = Curator(TABLE, schema=DISCOVERED, budget=BUDGET)
    domain = domain_of(SCHEMA)
    with pytest.raises(ParameterError, match="'n'"):
        curator.measure(one_ways(domain), spend=PART)
    found = curator.discover(spend=PART).schema
    assert len(curator.measure(one_ways(domain_of(found)), spend=PART).values)
    with pytest.raises(ParameterError, match="'n'"):
        curator.measure(one_ways(domain), spend=PART)


@given(my.schemas(my.measured_columns, most=3), st.data())
def test_every_domain_of_the_same_declarations_is_measured(schema, data):
    """Coarse or fine, of some columns, in any order, of a schema that was written and read again."""
    chosen = data.draw(st.permutations(schema.names))[: data.draw(st.integers(1, len(schema)))]
    again = Schema.from_json(schema.to_json())
    axes = [axis_of(name, again[name], bins=data.draw(st.integers(1, 4))) for name in chosen]
    curator = Curator(pd.DataFrame({name: [None] for name in schema}), schema=schema, budget=BUDGET)
    values = curator.measure(one_ways(Domain(tuple(axes)))).values
    assert len(values) == sum(axis.size for axis in axes)


@pytest.mark.parametrize("name", SCHEMA)
def test_the_finest_axis_of_a_column_is_measured(name):
    domain = Domain((finest_axis(name, SCHEMA[name]),))
    assert len(curator_of(TABLE).measure(one_ways(domain)).values) == domain.cells


WORKED = {
    name: case
    for name, case in CASES.items()
    if name in (
        "LaplaceAnswers", "GaussianAnswers", "FourierMarginals", "NetMechanism", "MWEM", "PrivateBoosting",
        "PrivateMultiplicativeWeights", "MedianMechanism", "SparseMWEM",
    )
}  # fmt: skip
"""The mechanisms that are given a domain, or columns of record keys."""

ELSEWHERE = Schema({**{f"b{j}": Boolean(nullable=True) for j in range(3)}})


@pytest.mark.parametrize("name", WORKED)
def test_a_mechanism_for_other_columns_is_refused_before_it_opens_an_account(name, tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite")
    table = pd.DataFrame({f"b{j}": [True, False, None] for j in range(3)})
    curator = Curator(table, schema=ELSEWHERE, budget=BUDGET, ledger=ledger)
    with pytest.raises((ParameterError, DataError)):
        WORKED[name].run(WORKED[name].build(), curator)
    assert curator.remaining == BUDGET
    assert ledger.entries() == []


SPARSE = {
    "SparseWeights": lambda curator: SparseWeights(columns=("zzz",)).open(curator),
    "SparseProjection": lambda curator: SparseProjection(64, columns=("zzz",)).release(curator),
    "StabilityHistogram": lambda curator: StabilityHistogram(columns=("zzz",)).release(curator),
}


@pytest.mark.parametrize("name", SPARSE)
def test_a_mechanism_for_a_column_that_is_missing_is_refused_before_it_opens_an_account(name):
    curator = curator_of(TABLE)
    with pytest.raises(DataError, match="zzz"):
        SPARSE[name](curator)
    assert curator.remaining == BUDGET


# What else can be refused is refused before it is charged.


HUGE = RecordBounds.of(Norms(2**40, 2**80, 2**40))


@dataclass(frozen=True)
class Huge:
    """One number to which a record may add 2^40."""

    domain: Domain
    k: int = 1
    unit: int = 1
    bounds: RecordBounds = HUGE

    def sums(self, codes: Any) -> np.ndarray:
        return np.zeros(1, np.int64)

    def finish(self, sums: np.ndarray) -> np.ndarray:
        return sums


ASKED: dict[str, tuple[type[Exception], Callable[[Curator], Any]]] = {
    "measure a sum that may overflow": (
        SensitivityError, lambda curator: curator.measure(Huge(domain_of(SCHEMA)), spend=PART),
    ),
    "select by a sum that may overflow": (
        SensitivityError, lambda curator: curator.select(Huge(domain_of(SCHEMA)), spend=PART),
    ),
    "measure keys of a column that is missing": (
        DataError, lambda curator: curator.measure(KeyTotal(("zzz",)), spend=PART),
    ),
    "select by keys of a column that is missing": (
        DataError, lambda curator: curator.select(KeyTotal(("zzz",)), spend=PART),
    ),
    "count keys of a column that is missing": (
        DataError, lambda curator: curator.histogram(("zzz",), spend=ApproxDP(0.1, 1e-8)),
    ),
    "watch a column that is missing": (
        DataError, lambda curator: curator.watch(("zzz",), max_alarms=1, spend=PART),
    ),
}  # fmt: skip


@pytest.mark.parametrize("question", ASKED)
def test_a_question_that_cannot_be_answered_costs_nothing(question):
    error, ask = ASKED[question]
    curator = curator_of(TABLE)
    with pytest.raises(error):
        ask(curator)
    assert curator.remaining == BUDGET
    assert curator.receipt().items == ()


@pytest.mark.parametrize("guess", [np.nan, np.inf, -np.inf, 1e308])
def test_a_watch_takes_no_guess_that_is_no_number_of_rows(guess):
    watch = curator_watch(curator_of(TABLE))
    with pytest.raises(ParameterError, match="guess"):
        watch.ask(first_of(one_ways(domain_of(SCHEMA))), guess=guess)
