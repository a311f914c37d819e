"""Rules between columns: no sampled row breaks one, whatever the grids, the cells and the other rules."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from rule_models import model_of

from synthdp.distribution.explicit import Explicit
from synthdp.domain.axis import Axis
from synthdp.domain.domain import axis_of
from synthdp.domain.rules import ColumnOrder, rules_of
from synthdp.errors import ParameterError, SchemaError
from synthdp.sampling import synthetic_model
from synthdp.sampling.structural_zeros import check_rules, structural_zeros
from synthdp.schema.columns import (
    Boolean,
    Categorical,
    Continuous,
    Datetime,
    Duration,
    Identifier,
    Integer,
    Ordinal,
)
from synthdp.schema.constraints import Forbidden, Implies, LessEqual
from synthdp.schema.schema import Schema

NUMBERS = Schema(
    {
        "low": Integer(0, 90, nullable=True, special=(-1, 70)),
        "high": Integer(10, 400, special=(12,)),
        "free": Boolean(),
    },
    constraints=[LessEqual("low", "high")],
)
REALS = Schema(
    {"low": Continuous(-3.0, 7.5), "high": Continuous(0.0, 20.0, nullable=True)},
    constraints=[LessEqual("low", "high")],
)
DATES = Schema(
    {
        "born": Datetime("1920-01-01", "2020-12-31", resolution="D"),
        "seen": Datetime("1990-01-01T00:00:00", "2025-06-01T12:00:00", nullable=True),
        "wait": Duration(0, 5000),
        "stay": Duration(dt.timedelta(0), dt.timedelta(hours=3)),
    },
    constraints=[LessEqual("born", "seen"), LessEqual("wait", "stay")],
)
EQUAL = Schema({"a": Continuous(0, 1), "b": Continuous(0, 1)}, constraints=[LessEqual("a", "b"), LessEqual("b", "a")])
CHAIN = Schema(
    {"a": Integer(0, 50), "b": Integer(-20, 30, nullable=True), "c": Integer(5, 300), "d": Integer(0, 60)},
    constraints=[LessEqual("a", "b"), LessEqual("b", "c"), LessEqual("a", "d"), LessEqual("d", "c")],
)
LABELS = Schema(
    {
        "sex": Categorical(["f", "m"], nullable=True),
        "pregnant": Boolean(nullable=True),
        "school": Ordinal(["none", "primary", "secondary", "higher"]),
        "job": Categorical(["pilot", "cook"], other="another"),
        "age": Integer(0, 99),
        "income": Continuous(0, 1e5, nullable=True),
    },
    constraints=[
        Forbidden({"sex": ["m", None], "pregnant": True}),
        Implies({"age": (0, 5)}, {"school": "none", "pregnant": [False, None]}),
        Implies({"age": (None, 15)}, {"income": [None, (0, 10)], "job": "another"}),
        Forbidden({"school": (None, "primary"), "job": "pilot"}),
        Implies({"job": "pilot"}, {"age": (21, 65)}),
        LessEqual("age", "age_at_death"),
    ][:5],
)


def _free(table: pd.DataFrame, name: str, *, special: float | None = None) -> pd.Series:
    return table[name].isna() | (table[name] == special if special is not None else False)


def _breaks_numbers(t: pd.DataFrame) -> pd.Series:
    return ~_free(t, "low", special=-1) & (t["low"] > t["high"])


def _breaks_reals(t: pd.DataFrame) -> pd.Series:
    return t["low"] > t["high"]


def _breaks_dates(t: pd.DataFrame) -> pd.Series:
    return (t["born"] > t["seen"]) | (t["wait"] > t["stay"])


def _breaks_equal(t: pd.DataFrame) -> pd.Series:
    return t["a"] != t["b"]


def _breaks_chain(t: pd.DataFrame) -> pd.Series:
    middle = t["b"].notna()
    return (middle & ((t["a"] > t["b"]) | (t["b"] > t["c"]))) | (t["a"] > t["d"]) | (t["d"] > t["c"])


def _breaks_labels(t: pd.DataFrame) -> pd.Series:
    pregnant = t["pregnant"].fillna(False).astype(bool)
    small = t["income"].isna() | t["income"].between(0, 10)
    low_school = t["school"].isin(["none", "primary"])
    pilot = t["job"] == "pilot"
    return (
        ((t["sex"] != "f") & pregnant)
        | ((t["age"] <= 5) & ((t["school"] != "none") | pregnant))
        | ((t["age"] <= 15) & (~small | (t["job"] != "another")))
        | (low_school & pilot)
        | (pilot & ~t["age"].between(21, 65))
    )


CASES = {
    "whole numbers with missing and special values": (NUMBERS, _breaks_numbers),
    "real numbers on different grids": (REALS, _breaks_reals),
    "moments and durations of different resolutions": (DATES, _breaks_dates),
    "two columns that must be equal": (EQUAL, _breaks_equal),
    "orders that share columns": (CHAIN, _breaks_chain),
    "levels, missing values and ranges": (LABELS, _breaks_labels),
}


@pytest.mark.sampled
@pytest.mark.parametrize("particles", [0, 3000])
@pytest.mark.parametrize("name", CASES)
def test_no_sampled_row_breaks_a_rule(name, particles):
    schema, breaks = CASES[name]
    table = model_of(schema, seed=1, particles=particles).sample(1500, random_state=1)
    assert len(table) == 1500
    assert not breaks(table).any()


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_no_row_of_a_million_breaks_a_rule(name):
    schema, breaks = CASES[name]
    assert not breaks(model_of(schema).sample(1_000_000, random_state=0)).any()


@pytest.mark.parametrize("name", CASES)
def test_without_rules_the_same_cells_hold_rows_that_break_them(name):
    schema, breaks = CASES[name]
    assert breaks(model_of(Schema(dict(schema))).sample(4000, random_state=0)).any()


def test_rules_hold_under_given_values_too():
    table = model_of(CHAIN).sample(3000, random_state=0, given={"a": (20, 23), "b": [25, 26]})
    assert set(table["a"]) <= {20, 21, 22, 23}
    assert set(table["b"]) == {25, 26}
    assert not _breaks_chain(table).any()


def test_given_values_that_leave_no_row_to_the_rules_are_refused_in_one_sentence(monkeypatch):
    monkeypatch.setattr(synthetic_model, "REPLACEMENTS", 5)
    with pytest.raises(ParameterError, match="given"):
        model_of(REALS, coarse=1).sample(10, random_state=0, given={"low": (6.0, 7.0), "high": (1.0, 2.0)})


@pytest.mark.landing
def test_rows_are_drawn_in_proportion_to_the_pairs_that_obey_within_cells():
    """One coarse cell for both columns: the law is uniform over the pairs a <= b."""
    schema = Schema({"a": Integer(0, 3), "b": Integer(0, 3)}, constraints=[LessEqual("a", "b")])
    model = model_of(schema, coarse=1, bins=1)
    table = model.sample(50_000, random_state=1)
    counts = table.value_counts().to_dict()
    assert set(counts) == {(a, b) for a in range(4) for b in range(a, 4)}
    assert max(abs(count - 5000) for count in counts.values()) < 7 * 70


@pytest.mark.landing
def test_a_cell_pair_is_possible_exactly_if_some_pair_of_values_obeys():
    for schema in (NUMBERS, REALS, DATES):
        for order in (rule for rule in rules_of(schema) if isinstance(rule, ColumnOrder)):
            axes = [axis_of(name, schema[name], bins=7) for name in order.names]
            values = [_values(schema[axis.name], axis) for axis in axes]
            expected = np.array([[_some_pair(low, high) for high in values[1]] for low in values[0]])
            released = np.outer(axes[0].releasable, axes[1].releasable)
            np.testing.assert_array_equal(order.possible(axes) & released, expected)


def _values(column, axis: Axis) -> list[np.ndarray]:
    from synthdp.domain.values import numbers_at

    numbers, regular = numbers_at(column, np.arange(axis.grid.releasable))
    cells = axis.cells_of(np.arange(axis.grid.releasable, dtype=np.uint32))
    return [np.where(regular[cells == cell], numbers[cells == cell].astype(float), np.nan) for cell in range(axis.size)]


def _some_pair(low: np.ndarray, high: np.ndarray) -> bool:
    return bool(len(low) and len(high) and (np.isnan(low).any() or np.isnan(high).any() or low.min() <= high.max()))


def test_structural_zeros_forbid_only_cells_in_which_no_row_obeys():
    schema = Schema({"age": Integer(0, 9), "child": Boolean()}, constraints=[Implies({"child": True}, {"age": (0, 4)})])
    from synthdp.domain.domain import Domain

    domain = Domain((axis_of("age", schema["age"], bins=5), axis_of("child", schema["child"])))
    allowed = structural_zeros(schema, domain)[(0, 1)].reshape(domain.shape)
    assert allowed[:5, 1].tolist() == [True, True, True, False, False]
    assert allowed[:, 0].all()


@pytest.mark.parametrize(
    "rules",
    [
        [Implies({"x": ["a", "b"]}, {"y": True}), Implies({"x": ["a", "b"]}, {"y": False})],
        [Forbidden({"x": ["a", "b"], "y": [True, False]})],
    ],
)
def test_rules_that_no_row_can_obey_are_refused(rules):
    schema = Schema({"x": Categorical(["a", "b"]), "y": Boolean()}, constraints=rules)
    with pytest.raises(SchemaError):
        check_rules(schema)


def test_orders_between_columns_whose_bounds_do_not_meet_are_refused():
    schema = Schema({"a": Integer(5, 9), "b": Integer(0, 4)}, constraints=[LessEqual("a", "b")])
    with pytest.raises(SchemaError):
        check_rules(schema)


@pytest.mark.parametrize("name", CASES)
def test_rules_that_some_row_obeys_are_accepted(name):
    check_rules(CASES[name][0])


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (Forbidden({"x": ("a", "b"), "n": 1}), "tuple.*'x'"),
        (Forbidden({"x": "c", "n": 1}), "'c'.*'x'"),
        (Forbidden({"x": None, "n": 1}), "None.*'x'"),
        (Forbidden({"x": "a", "n": "one"}), "'one'.*'n'"),
        (Forbidden({"x": "a", "n": []}), "'n'"),
        (Forbidden({"x": "a", "id": 1}), "'id'"),
    ],
)
def test_rules_about_values_that_a_column_cannot_hold_are_refused(rule, message):
    with pytest.raises(SchemaError, match=message):
        Schema({"x": Categorical(["a", "b"]), "n": Integer(0, 5), "id": Identifier()}, constraints=[rule])


@pytest.mark.parametrize("name", CASES)
def test_rules_survive_json(name):
    schema = CASES[name][0]
    assert Schema.from_json(schema.to_json()) == schema


def test_rules_that_contradict_each_other_within_a_cell_are_refused():
    low, high = (0.0, 0.47), (0.4700001, 1.0)
    rules = [Forbidden({"x": a, "y": b}) for a in (low, high) for b in (low, high)]
    columns = {"x": Continuous(0, 1), "y": Continuous(0, 1)}
    with pytest.raises(SchemaError):
        check_rules(Schema(columns, constraints=rules))
    check_rules(Schema(columns, constraints=rules[:3]))


@pytest.mark.slow
def test_a_model_whose_mass_breaks_the_rules_still_gives_rows_that_obey_them():
    low, high = (0.0, 0.47), (0.4700001, 1.0)
    columns = {"x": Continuous(0, 1), "y": Continuous(0, 1), "free": Boolean()}
    rules = [Forbidden({"x": low, "y": low}), Forbidden({"x": low, "y": high}), Forbidden({"x": high, "y": low})]
    schema = Schema(columns, constraints=rules)
    model = model_of(schema)
    stuck = np.zeros(model.domain.shape)
    stuck[0, 1, 0] = 1.0  # the second cell of y holds rows that each rule allows, and none that all do
    at_fault = replace(
        model, distribution=Explicit(shape=model.domain.shape, codes=np.argwhere(stuck > 0), weights=np.ones(1))
    )
    rows = at_fault.sample(30, random_state=0)
    assert len(rows) == 30
    assert (rows["x"] > 0.47).all()
    assert (rows["y"] > 0.47).all()
    assert not rows["free"].any()
