"""A kind of rule is one class: defined here, it is read from a file, checked, obeyed and said like any other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from rule_models import dated_schemas, small_schemas

import synthdp as sd
from synthdp.errors import InternalError, SchemaError
from synthdp.schema.constraints import RULE_KINDS, Constraint, register


@dataclass(frozen=True, slots=True)
class Ascending(Constraint):
    """A new kind: each of some columns is at most the next."""

    kind: ClassVar[str] = "ascending"

    columns: Sequence[str]

    def means(self) -> Sequence[Constraint]:
        return [sd.LessEqual(a, b) for a, b in zip(self.columns, self.columns[1:], strict=False)]

    def in_words(self) -> str:
        return f"{', '.join(self.columns)} ascend"


@dataclass(frozen=True, slots=True)
class Empty(Constraint):
    """A kind that says neither what it means nor how rows are checked."""

    kind: ClassVar[str] = "empty"

    names: ClassVar[tuple[str, ...]] = ("a",)  # type: ignore[assignment]

    def check(self, columns: object) -> None: ...

    def in_words(self) -> str:
        return "?"


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    before = dict(RULE_KINDS)
    register(Ascending)
    yield
    RULE_KINDS.clear()
    RULE_KINDS.update(before)


COLUMNS = {"a": sd.Integer(0, 9), "b": sd.Integer(0, 9), "c": sd.Integer(0, 9)}


def test_a_new_kind_is_read_from_a_file_obeyed_and_said() -> None:
    schema = sd.Schema(COLUMNS, constraints=[Ascending(["a", "b", "c"])])
    schema = sd.Schema.from_json(schema.to_json())
    table = pd.DataFrame(np.random.default_rng(0).integers(0, 10, (2000, 3)), columns=["a", "b", "c"])
    release = sd.SyntheticRelease(schema=schema, epsilon=1.0, random_state=0).fit(table)
    rows = release.sample(3000)
    assert ((rows["a"] <= rows["b"]) & (rows["b"] <= rows["c"])).all()
    assert any("a, b, c ascend" in line for line in release.receipt_.assumptions)


def test_a_new_kind_is_checked_by_what_it_means() -> None:
    with pytest.raises(SchemaError, match="'nobody'"):
        sd.Schema(COLUMNS, constraints=[Ascending(["a", "b", "nobody"])])


def test_a_kind_whose_rows_nobody_checks_is_an_error_before_anything_is_spent() -> None:
    table = pd.DataFrame({"a": range(10), "b": 1, "c": 2})
    curator = sd.Curator(table, schema=sd.Schema(COLUMNS, constraints=[Empty()]), budget=sd.PureDP(1.0))
    with pytest.raises(InternalError, match="Empty"):
        sd.AdaptiveMarginals().release(curator, random_state=0)
    assert curator.remaining == curator.budget


@given(small_schemas() | dated_schemas())
def test_every_kind_answers_the_questions_of_a_rule(schema: sd.Schema) -> None:
    assert sd.Schema.from_json(schema.to_json()) == schema
    for rule in schema.constraints:
        assert RULE_KINDS[rule.kind] is type(rule)
        assert set(rule.names) <= set(schema)
        assert {name for name, _ in rule.named(schema)} <= set(rule.names)
        assert all(name in rule.in_words() for name in rule.names)
