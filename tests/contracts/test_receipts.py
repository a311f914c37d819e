"""R21, R32: every receipt, of a mechanism on a curator too, says what its promise rests on, and says nothing untrue.

Over every mechanism, both relations, with and without a privacy unit: whose rows are protected, what was declared and
from which source, what was drafted and accepted, what was discovered; and its items add up to no more than its promise.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mechanism_cases import CASES, Case

from synthdp import (
    AdaptiveMarginals,
    ApproxDP,
    Automatic,
    Categorical,
    Continuous,
    Curator,
    Derived,
    GaussianDP,
    Implies,
    Integer,
    L1Fit,
    LessEqual,
    PureDP,
    Receipt,
    Schema,
    SmoothSynthesis,
    StabilityHistogram,
    SyntheticRelease,
)
from synthdp.privacy import accounting
from synthdp.privacy.loss import ZCDP, components
from synthdp.schema.columns import Boolean, Column

pytestmark = pytest.mark.filterwarnings("ignore:the noise in each average:UserWarning")
BUDGET = ApproxDP(1.0, 1e-6)
UNIT = {"privacy_unit": "who", "max_rows_per_unit": 2}
WHOM: dict[str, dict[str, Any]] = {
    "add or remove a row": {"neighbors": "add_remove"},
    "replace a row": {"neighbors": "replace_one"},
    "add or remove a person": {"neighbors": "add_remove", **UNIT},
    "replace a person": {"neighbors": "replace_one", "privacy_unit": "who"},
}


def release_of(case: Case, *, schema: Schema | None = None, **settings: Any) -> Any:
    """Run a mechanism on a curator of its world's table, in which two rows each are of one person."""
    table = case.world.table.assign(who=np.arange(len(case.world.table)) // 2)
    curator = Curator(table, schema=schema or case.world.schema, budget=BUDGET, **settings)
    return case.run(case.build(), curator)


def sourced(schema: Schema, source: str | None) -> Schema:
    return schema.replace({name: replace(column, source=source) for name, column in schema.items()})


def assumed(receipt: Receipt) -> str:
    """The assumptions as printed: a reader sees no more."""
    text = " ".join(str(receipt).split())  # lines are wrapped
    assert all(" ".join(line.split()) in text for line in receipt.assumptions)
    return "\n".join(receipt.assumptions)


def everyone_in_turns() -> list[Any]:
    """Every mechanism for somebody; the others are ``slow``, as the curator writes these lines for all mechanisms."""
    turns = itertools.product(enumerate(CASES), enumerate(WHOM))
    return [pytest.param(name, whom, marks=[pytest.mark.slow] * ((i - j) % 4 != 0)) for (i, name), (j, whom) in turns]


@pytest.mark.sampled("landing")
@pytest.mark.parametrize(("name", "whom"), everyone_in_turns())
def test_every_receipt_says_what_is_public_and_what_a_unit_is(name: str, whom: str) -> None:
    said = assumed(release_of(CASES[name], **WHOM[whom]).receipt)
    assert "column names, their order and their types are public" in said
    assert "at least one row" in said
    by_person = "privacy_unit" in WHOM[whom]
    assert ("one id in column 'who', in one spelling" in said) is by_person
    assert ("a row without an id is a unit of its own" in said) is by_person
    assert ("a person with several rows is protected one row at a time" in said) is not by_person
    assert ("the number of" in said) is (WHOM[whom]["neighbors"] == "replace_one")
    assert "were declared and do not come from this table" in said


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_every_receipt_says_from_which_source_a_column_is_known(name: str) -> None:
    case = CASES[name]
    first, *rest = case.world.schema
    schema = sourced(case.world.schema, "codebook of 2025").replace(
        {first: replace(case.world.schema[first], source="the law")}
    )
    lines = release_of(case, schema=schema).receipt.assumptions
    assert any(first in line and "the law" in line and "do not come from this table" in line for line in lines)
    assert all(any(other in line and "codebook of 2025" in line for line in lines) for other in rest)


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("name", CASES)
def test_no_receipt_says_of_a_drafted_bound_that_it_does_not_come_from_the_table(name: str) -> None:
    schema = sourced(CASES[name].world.schema, "drafted from the table and accepted by A. Nonymous")
    said = assumed(release_of(CASES[name], schema=schema).receipt)
    assert "drafted from the table and accepted by A. Nonymous" in said
    assert "do not come from this table" not in said


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_the_items_stay_within_the_promise_whatever_was_asked_before(name: str) -> None:
    """A curator that has answered others, and a mechanism that takes a part of what is left: still one promise."""
    case = CASES[name]
    curator = Curator(case.world.table, schema=case.world.schema, budget=BUDGET)
    StabilityHistogram((case.world.schema.names[0],), spend=ApproxDP(0.5, 1e-7)).release(curator)
    receipt = case.run(case.build(spend=ApproxDP(0.4, 5e-7)), curator).receipt
    assert len(receipt.items) > 1
    assert worth(receipt) <= receipt.total.epsilon * (1 + 1e-6)


def worth(receipt: Receipt) -> float:
    """An epsilon for all items at the promise's delta, each currency by itself: not the planner's arithmetic."""
    sums = {type(loss): loss for loss in receipt.sums()}
    plain = [components(sums[kind]) for kind in (PureDP, ApproxDP) if kind in sums]
    left = receipt.total.delta - math.fsum(delta for _, delta in plain)
    curves = {GaussianDP: accounting.gdp_to_epsilon, ZCDP: accounting.zcdp_to_epsilon}
    others = [
        curve(getattr(sums[kind], field), left)
        for (kind, curve), field in zip(curves.items(), ("mu", "rho"), strict=True)
        if kind in sums
    ]
    return math.fsum(epsilon for epsilon, _ in plain) + math.fsum(others)


def test_what_the_items_add_up_to_is_printed() -> None:
    receipt = release_of(CASES["AdaptiveMarginals"]).receipt
    assert "together" in " ".join(str(receipt).split())
    assert all(str(loss) in " ".join(str(receipt).split()) for loss in receipt.sums())


# The façade adds notes to the receipt of the mechanism, and rebuilds nothing.

RULED = pd.DataFrame({"low": np.arange(700) % 50, "high": np.arange(700) % 50 + np.arange(700) % 7})
RULE = LessEqual("low", "high")
RULES = Schema({"low": Continuous(0, 60), "high": Continuous(0, 60)}, constraints=[RULE])


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("adaptive_marginals", "l1_fit", "smooth_synthesis")]


@pytest.mark.parametrize("mechanism", ["auto", *SLOW])
def test_a_receipt_says_that_rules_hold_and_they_do(mechanism: str) -> None:
    few = {"smooth_synthesis": {"candidates": 300}, "l1_fit": {"support": 300}}.get(mechanism)
    release = SyntheticRelease(
        schema=RULES, mechanism=mechanism, mechanism_options=few, epsilon=0.5, delta=1e-6, n_rows=700, random_state=0
    )
    made = release.fit_transform(RULED.astype(float))
    assert "no synthetic row breaks a declared rule" in " ".join(str(release.receipt_).split())
    assert not (made["low"] > made["high"]).any()
    assert "hold for all rows" not in " ".join(str(release.receipt_).split())
    assert any("low is at most high" in line and "declared" in line for line in release.receipt_.assumptions)


NUMBERS = pd.DataFrame({"x": np.linspace(-1, 1, 60), "y": np.linspace(1, -1, 60), "more": 0})
SMALL = Schema({"x": Continuous(-1, 1), "y": Continuous(-1, 1)})
INSIDE: dict[str, Callable[[], Any]] = {
    "adaptive": AdaptiveMarginals,
    "smooth": lambda: SmoothSynthesis(variant="product", candidates=100),
    "automatic": Automatic,
    "l1": lambda: L1Fit(support=50),
}


@pytest.mark.parametrize("mechanism", INSIDE)
def test_the_facades_receipt_holds_all_that_the_mechanisms_receipt_holds(mechanism: str, tmp_path: Any) -> None:
    setting = {"neighbors": "replace_one", "dataset": "d"}  # so that the choice of a mechanism rests on no noise
    curator = Curator(NUMBERS, schema=SMALL, budget=BUDGET, ledger=tmp_path / "a.sqlite", **setting)
    alone = INSIDE[mechanism]().release(curator).receipt
    facade = SyntheticRelease(
        schema=SMALL, mechanism=INSIDE[mechanism](), epsilon=1.0, delta=1e-6, ledger=tmp_path / "b.sqlite", **setting
    )
    receipt = facade.fit(NUMBERS).receipt_
    assert receipt.assumptions == alone.assumptions
    assert receipt.total == alone.total == BUDGET
    assert set(map(about, alone.notes)) <= set(map(about, receipt.notes))
    assert "column 'more' is not in the schema and was ignored" in receipt.notes
    assert (receipt.dataset, receipt.entries) == (alone.dataset, alone.entries) == ("d", (1,))


def about(note: str) -> str:
    """A note without what noise decides."""
    if note.startswith(("no relation between columns was measured", "relations that were measured")):
        return "which relations were measured"
    told = re.split(r" fit over | The weights are ", note)[
        0
    ]  # noise decides over which rows, and whose weights are better
    return re.sub(r"\d[\d.,]*(e[-+]?\d+)?|inf\b", "", told)


def test_the_notes_of_what_automatic_chooses_are_kept() -> None:
    curator = Curator(NUMBERS, schema=SMALL, budget=ApproxDP(0.5, 1e-6), neighbors="replace_one")
    release = Automatic().release(curator)
    assert "SmoothSynthesis" in release.mechanism
    assert release.receipt.notes


def test_an_accounts_receipt_is_its_curators(tmp_path: Any) -> None:
    curator = Curator(NUMBERS, schema=SMALL, budget=BUDGET, ledger=tmp_path / "l.sqlite", dataset="d")
    inner = curator.open_account(ApproxDP(0.5, 5e-7)).open_account()
    assert inner.receipt(notes=("x",)) == curator.receipt(notes=("x",))
    assert inner.receipt().total == BUDGET
    assert inner.receipt().entries == (1,)


# What was left open

MIXED = pd.DataFrame({"n": np.arange(900) % 40, "c": np.where(np.arange(900) % 3, "x", "y"), "b": True})
OPEN: dict[str, Column] = {"n": Integer(), "c": Categorical(), "b": Boolean(source="the form")}


def lines_about(name: str, receipt: Receipt) -> list[str]:
    return [line for line in receipt.assumptions if f" {name} " in line.replace(",", " ")]


def test_what_was_discovered_is_said_and_is_no_longer_called_unknown() -> None:
    curator = Curator(MIXED, schema=Schema(OPEN), budget=ApproxDP(4.0, 1e-6))
    before = curator.receipt()
    assert all("not known" in line for name in "nc" for line in lines_about(name, before))
    curator.discover(spend=ApproxDP(1.0, 1e-7))
    release = AdaptiveMarginals().release(curator)
    for name in "nc":
        (line,) = lines_about(name, release.receipt)
        assert "not declared" in line
        assert "discovered under noise" in line
    (line,) = lines_about("b", release.receipt)
    assert "the form" in line
    assert release.receipt.total == ApproxDP(4.0, 1e-6)
    assert {column.source for column in curator.schema.values()} == {"discovered under noise", "the form"}


def test_a_schema_that_an_earlier_release_discovered_is_called_that() -> None:
    found = SyntheticRelease(schema=Schema(OPEN), epsilon=4.0, delta=1e-6).fit(MIXED).schema_
    said = assumed(SyntheticRelease(schema=found).fit(MIXED).receipt_)
    assert "n, c were discovered under noise by an earlier release" in said
    assert "bounds and levels of b were declared" in said


def test_nothing_declared_is_called_nothing_declared() -> None:
    receipt = SyntheticRelease(epsilon=4.0, delta=1e-6).fit(MIXED).receipt_
    assert "n, c were not declared" in assumed(receipt)
    (line,) = lines_about("b", receipt)
    assert "type" in line


def test_one_source_for_all_columns_is_one_line() -> None:
    schema = sourced(Schema({"low": Continuous(0, 60), "high": Continuous(0, 60)}), "codebook")
    lines = SyntheticRelease(schema=schema).fit(RULED.astype(float)).receipt_.assumptions
    assert [line for line in lines if "codebook" in line] == [
        "bounds and levels of all columns were declared and do not come from this table (source: codebook)"
    ]


@pytest.mark.landing
def test_rules_about_columns_that_are_left_out_are_named_on_the_receipt() -> None:
    columns = {"x": Continuous(-1, 1), "y": Continuous(-1, 1), "z": Boolean(), "total": Continuous()}
    rules = [LessEqual("x", "y"), Implies({"z": True}, {"x": (0, 1)}), Derived("total", "x + y")]
    table = NUMBERS.assign(z=True)
    curator = Curator(table, schema=Schema(columns, constraints=rules), budget=BUDGET)
    release = SmoothSynthesis(candidates=100).release(curator, random_state=0)
    assert "3 rules between columns were declared" in assumed(release.receipt)
    assert "columns left out of the synthetic table: z" in release.receipt.notes
    assert "rules about columns that are left out: where z is True: x is from 0 to 1" in release.receipt.notes
    assert "no synthetic row breaks a declared rule" in release.receipt.notes
    assert set(release.sample(10)) == {"x", "y", "total"}
