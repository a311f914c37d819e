"""Every rule names tests that exist; and the rules that no other test holds: R17, R19's second look, R21."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mechanism_cases import CASES

from synthdp import Boolean, Categorical, Integer, Schema, SyntheticRelease
from synthdp.privacy import accounting
from synthdp.privacy.loss import ZCDP, ApproxDP, GaussianDP, PureDP, components
from synthdp.privacy.receipt import Item

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "audit" / "requirements.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[^`]*)::([a-z0-9_]*)`", PAGE)))
RULES = [f"R{i}" for i in (*range(1, 22), 23, *range(25, 39), 40, 41, 43)]


def test_a_rule_names_a_test_that_exists():
    assert [name for file, name in NAMED if f"def {name}(" not in (ROOT / file).read_text(encoding="utf-8")] == []


def test_every_rule_has_a_row_and_a_test():
    rows = dict(re.findall(r"^\| (R\d+) \| (.*)$", PAGE, re.MULTILINE))
    assert list(rows) == RULES
    assert all("::test_" in row for row in rows.values())


def test_the_promise_names_its_side_channels():
    """R17."""
    page = (ROOT / "docs" / "explanation" / "privacy-promise.md").read_text(encoding="utf-8")
    channels = page.partition("## Side channels")[2]
    for word in ("Time", "memory", "disk", "swap", "traceback", "garbage"):
        assert word in channels


def spent(items: list[Item], delta: float) -> float:
    """An epsilon for all steps together, from sensitivity and noise where the law is normal, else from their losses.

    Not the planner's arithmetic: each currency is turned into an epsilon by itself, and these are added.
    """
    pure = [item for item in items if isinstance(item.loss, (PureDP, ApproxDP))]
    normal = [item for item in items if isinstance(item.loss, GaussianDP)]
    concentrated = [item for item in items if isinstance(item.loss, ZCDP)]
    left = delta - sum(components(item.loss)[1] for item in pure)
    mu = math.sqrt(sum((item.sensitivity / item.stddev) ** 2 for item in normal))
    rho = sum(components(item.loss)[0] for item in concentrated)
    return (
        sum(components(item.loss)[0] for item in pure)
        + (accounting.gdp_to_epsilon(mu, left) if normal else 0.0)
        + (accounting.zcdp_to_epsilon(rho, left) if concentrated else 0.0)
    )


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("name", CASES)
def test_the_items_of_a_receipt_cost_no_more_than_it_promises(name):
    """R19: the sum of the receipt, again and independently of the planner."""
    release, _ = CASES[name].release(CASES[name].world.table)
    total = release.receipt.total
    assert spent(list(release.receipt.items), total.delta) <= total.epsilon * (1 + 1e-6)


def test_the_second_look_sees_a_step_too_much():
    release, _ = CASES["AdaptiveMarginals"].release(CASES["AdaptiveMarginals"].world.table)
    total, items = release.receipt.total, list(release.receipt.items)
    assert spent(items, total.delta) > 0.8 * total.epsilon
    assert spent([*items, *items], total.delta) > total.epsilon


SCHEMA = Schema({"n": Integer(0, 9), "b": Boolean(), "c": Categorical(["x", "y"])})
TABLE = pd.DataFrame(
    {"n": np.arange(300) % 10, "b": np.arange(300) % 3 == 0, "c": np.where(np.arange(300) % 2, "x", "y")}
)
PUBLIC = (
    "column names, their order and their types are public; the table has at least one row",
    "each row is a unit of its own: a person with several rows is protected one row at a time",
)
DECLARED = "bounds and levels of all columns were declared and do not come from this table"


def assumed(**options) -> tuple[str, ...]:
    return SyntheticRelease(epsilon=2.0, delta=1e-6, **options).fit(TABLE).receipt_.assumptions


def test_what_was_declared_stands_in_the_receipt():
    """R21."""
    assert assumed(schema=SCHEMA) == (*PUBLIC, DECLARED)
    assert DECLARED not in assumed()
    part = assumed(schema=Schema({"n": Integer(0, 9), "b": Boolean(), "c": Categorical()}))
    assert part[:2] == PUBLIC
    assert part[2:] == (
        "bounds and levels of n, b were declared and do not come from this table",
        "bounds and levels of c were not declared: they were discovered under noise",
    )
    assert any("number of rows" in line for line in assumed(schema=SCHEMA, neighbors="replace_one"))
