"""Derived columns: what may be declared, and that what is computed stays within what is said of it."""

from __future__ import annotations

import decimal

import numpy as np
import pytest
from hypothesis import given, strategies as st

from synthdp import (
    Boolean,
    CalendarDate,
    Categorical,
    Combinations,
    Continuous,
    Datetime,
    Decimal,
    Derived,
    Identifier,
    Iff,
    Integer,
    LessEqual,
    Schema,
)
from synthdp.domain.derive import derive
from synthdp.domain.encoder import Labels, decode, encode
from synthdp.errors import SchemaError
from synthdp.schema.column import Steps
from synthdp.schema.csv_format import CsvFormat
from synthdp.schema.derived import compute

COLUMNS = {
    "a": Integer(0, 9),
    "b": Integer(-3, 4, nullable=True),
    "x": Continuous(0, 1),
    "code": Categorical(["u", "v"], other="w"),
    "open": Integer(),
    "id": Identifier(),
    "flag": Boolean(),
    "seen": Datetime("2025-01-01", "2026-01-01"),
    "whole": Integer(),
    "real": Continuous(),
    "label": Categorical(),
    "small": Integer(0, 5),
    "month": Integer(0, 12),
    "fives": Integer(0, 10, step=5),
    "halves": Continuous(0.25, 10.25, step=0.5),
    "cents": Decimal(0, 10),
    "tens": Continuous(0, 10, decimals=0),
    "open fives": Integer(step=5),
    "open cents": Continuous(decimals=2),
    "day": Integer(1, 31),
}
REFUSED = {
    "a column that is not declared": Derived("nothing", "a"),
    "neither form": Derived("whole"),
    "both forms": Derived("whole", "a", of="a", values={}),
    "no values": Derived("label", of="code"),
    "a source that is not there": Derived("whole", "a + nothing"),
    "itself": Derived("whole", "whole + 1"),
    "an open source": Derived("whole", "open + 1"),
    "an identifier": Derived("whole", "id + 1"),
    "no column": Derived("whole", "1 + 1"),
    "a whole number of a real one": Derived("whole", "a + x"),
    "a fraction in a whole number": Derived("whole", "a + 0.5"),
    "a whole number that is divided": Derived("whole", "a / 2"),
    "division by what may be 0": Derived("real", "x / a"),
    "a missing value in a column that has none": Derived("whole", "a + b"),
    "beyond the declared bounds": Derived("small", "a"),
    "more than 62 bits on the way": Derived("whole", "a * 1000000000000000000 - a * 1000000000000000000"),
    "infinity": Derived("real", "x * 1e200 * 1e200"),
    "a number too large": Derived("real", "x * 1" + 400 * "0"),
    "a function": Derived("whole", "abs(a)"),
    "a power": Derived("whole", "a ** 9999999"),
    "an attribute": Derived("whole", "a.real"),
    "a comparison": Derived("whole", "a > 2"),
    "no expression": Derived("whole", "a +"),
    "nested too deeply": Derived("whole", "-" * 900 + "a"),
    "text": Derived("whole", "a + 'b'"),
    "no text": Derived("whole", 5),
    "a moment that is computed": Derived("seen", "a"),
    "a sum of levels": Derived("whole", "code + 1"),
    "a sum of truth values": Derived("whole", "flag + 1"),
    "a value without a label": Derived("label", of="code", values={"u": "U", "v": "V"}),
    "a label for no value": Derived("label", of="code", values={"u": "U", "v": "V", "w": "W", "z": "Z"}),
    "a label beyond the bounds": Derived("small", of="code", values={"u": 1, "v": 2, "w": 6}),
    "a label that is no whole number": Derived("small", of="code", values={"u": 1, "v": 2, "w": 2.5}),
    "a label that is off the step": Derived("fives", of="code", values={"u": 0, "v": 5, "w": 3}),
    "a label that is off the step from the lower bound": Derived(
        "halves", of="code", values={"u": 0.25, "v": 0.75, "w": 1}
    ),
    "a label that has more decimals": Derived("cents", of="code", values={"u": 1, "v": 2.5, "w": 0.125}),
    "a label that has decimals": Derived("tens", of="code", values={"u": 1, "v": 2.5, "w": 3}),
    "a label that is off the step of open bounds": Derived("open fives", of="code", values={"u": 0, "v": 12, "w": 25}),
    "a label that has more decimals than open bounds": Derived(
        "open cents", of="code", values={"u": 0, "v": 1.5, "w": 1.255}
    ),
    "an infinite label": Derived("real", of="code", values={"u": 0, "v": 1, "w": float("inf")}),
    "an infinite label of open bounds": Derived("whole", of="code", values={"u": 0, "v": 1, "w": float("inf")}),
    "a label that is no number": Derived("open cents", of="code", values={"u": 0, "v": 1, "w": float("nan")}),
    "a label that no float can hold": Derived("whole", of="code", values={"u": 0, "v": 1, "w": 10**400}),
    "a moment of nanoseconds for a level": Derived(
        "label", of="code", values={"u": 0, "v": 1, "w": np.datetime64("2026-01-01", "ns")}
    ),
    "a text for a number": Derived("whole", of="code", values={"u": 1, "v": 2, "w": "3"}),
    "a missing label in a column that has none": Derived("label", of="code", values={"u": "U", "v": "V", "w": None}),
    "a list for a label": Derived("label", of="code", values={"u": ["U"], "v": "V", "w": "W"}),
    "a moment that is looked up": Derived("seen", of="code", values={"u": 1, "v": 2, "w": 3}),
    "a real number that is a code": Derived("label", of="x", values={0.5: "half"}),
    "no table": lambda: Derived("label", of="code", values=[1, 2]),
    "a value twice": lambda: Derived("label", of="code", values=[["u", 1], ["u", 2]]),
    "a list for a value": lambda: Derived("label", of="code", values=[[["u"], 1]]),
    "a combination of one column": Combinations(("a",), [(1,)]),
    "a column twice": Combinations(("a", "a"), [(1, 1)]),
    "no combination": Combinations(("a", "code"), []),
    "a combination that is too short": Combinations(("a", "code"), [(1,)]),
    "a combination of what cannot be": Combinations(("a", "code"), [(1, "z")]),
    "a name for columns": lambda: Combinations("ab", [(1, 1)]),
    "an equivalence of one side": Iff({"a": 1}, {}),
    "an equivalence of a column with itself": Iff({"a": 1}, {"a": 2}),
    "months from 0": CalendarDate(None, "month", "day"),
    "the same column for month and day": CalendarDate(None, "day", "day"),
    "a rule about a derived column": [Derived("whole", "a + 1"), LessEqual("a", "whole")],
    "what is derived later": [
        Derived("label", of="whole", values=dict.fromkeys(range(19), "x")),
        Derived("whole", "2 * a"),
    ],
    "a column derived twice": [Derived("whole", "a"), Derived("whole", "2 * a")],
}


def _rules(rule):
    made = rule() if callable(rule) else rule
    return made if isinstance(made, list) else [made]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("a source that is not there", "'nothing'"),
        ("itself", "'whole'.*itself"),
        ("what is derived later", "'label'.*'whole'"),
    ],
)
def test_why_a_source_cannot_be_used_is_said(rule, words):
    with pytest.raises(SchemaError, match=words):
        Schema(COLUMNS, constraints=_rules(REFUSED[rule]))


@pytest.mark.parametrize("rule", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_derived_is_refused_in_one_sentence_when_it_is_declared(rule):
    with pytest.raises(SchemaError) as refused:
        Schema(COLUMNS, constraints=_rules(rule))
    assert 20 < len(str(refused.value)) < 400
    assert "\n" not in str(refused.value)
    assert refused.value.__context__ is None or refused.value.__suppress_context__


LOOKED_UP = {
    "a step": (Integer(0, 10, step=5, nullable=True), [0, 5.0, 10, None]),
    "a step from the lower bound": (Continuous(0.25, 10.25, step=0.5), [0.25, 0.75, 10.25]),
    "decimals and a special value off them": (Continuous(0, 10, decimals=1, special=[2.55]), [0.3, 2.55, 10]),
    "sums and products that are rounded": (Continuous(0, 10, decimals=1), [0.1 * 3, 0.1 + 0.7, 7 * 1.1]),
    "decimal numbers": (Decimal(0, 10), [decimal.Decimal("0.29"), decimal.Decimal("9.99"), decimal.Decimal(1)]),
    "open bounds": (Integer(step=5), [-15, 0, 40]),
    "open decimals": (Continuous(decimals=2), [-1.25, 0.29, 3]),
    "an interval": (Continuous(0, 1), [0, 1 / 3, 1]),
}


@pytest.mark.parametrize(("column", "values"), LOOKED_UP.values(), ids=LOOKED_UP)
def test_what_is_looked_up_is_a_value_of_its_column_and_the_listed_one(column, values):
    levels = list(map(str, range(len(values))))
    columns = {"key": Categorical(levels), "found": column}
    rule = Derived("found", of="key", values=dict(zip(levels, values, strict=True)))
    schema = Schema(columns, constraints=[rule])
    schema = Schema.from_json(schema.to_json())
    found = derive(schema, schema.derived["found"], {"key": Labels(levels, np.arange(len(values)))})
    listed = np.array([np.nan if value is None else float(value) for value in values])
    missing = np.isnan(listed)
    assert np.array_equal(missing, np.zeros(len(values), bool) if found.missing is None else found.missing)
    np.testing.assert_allclose(found.values[~missing], listed[~missing], rtol=1e-12)
    said = schema.outputs["found"]
    if isinstance(said.support(), Steps):
        again = decode(said, encode(said, found))
        np.testing.assert_array_equal(again.values[~missing], found.values[~missing])


def test_the_value_that_a_looked_up_column_cannot_hold_is_named_with_what_it_can():
    rule = Derived("fives", of="code", values={"u": 0, "v": 5, "w": 3})
    with pytest.raises(SchemaError, match=r"'fives'.*\b3\b"):
        Schema(COLUMNS, constraints=[rule])


def test_nothing_but_derived_columns_is_no_schema():
    with pytest.raises(SchemaError):
        Schema({"a": Integer(0, 1)}, constraints=[Derived("a", "a")])


def test_names_that_are_no_plain_words_stand_in_backticks():
    columns = {"hours-per-week": Integer(0, 99), "_0": Integer(0, 9), "a b": Integer(), "class": Integer(1, 2)}
    rule = Derived("a b", "`hours-per-week` * 52 + _0 - `class`")
    assert Schema(columns, constraints=[rule]).outputs["a b"] == Integer(-2, 99 * 52 + 8)
    assert set(rule.sources) == {"hours-per-week", "_0", "class"}


def test_a_part_of_a_schema_keeps_the_rules_about_its_columns_and_what_is_derived_from_them():
    columns = {
        "a": Integer(0, 9),
        "b": Integer(0, 4),
        "c": Integer(0, 4),
        "s": Integer(),
        "t": Integer(),
        "u": Integer(),
    }
    rules = [
        Derived("s", "a + b"),
        Derived("t", "s * 2"),
        Derived("u", "t + c"),
        LessEqual("a", "b"),
        LessEqual("b", "c"),
    ]
    part = Schema(columns, constraints=rules).part(["b", "a"])
    assert list(part) == ["a", "b"]
    assert list(part.outputs) == ["a", "b", "s", "t"]
    assert part.constraints == (rules[0], rules[1], rules[3])


numbers = st.integers(-20, 20).map(str)
names = st.sampled_from(["a", "b", "`c d`"])
expressions = st.recursive(
    numbers | names, lambda part: st.tuples(part, st.sampled_from("+-*"), part).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
    max_leaves=6,
)  # fmt: skip


@given(expressions, st.integers(0, 10**6))
def test_whole_numbers_are_computed_exactly_and_lie_within_the_bounds_that_are_said(expression, seed):
    rng = np.random.default_rng(seed)
    columns = {"a": Integer(-5, 7), "b": Integer(0, 3, special=(-9,)), "c d": Integer(100, 200), "t": Integer()}
    rule = Derived("t", f"{expression} + a - a")
    said = Schema(columns, constraints=[rule]).outputs["t"]
    values = {"a": rng.integers(-5, 8, 20), "b": rng.choice([-9, 0, 1, 2, 3], 20), "c d": rng.integers(100, 201, 20)}
    found = compute(rule, {name: values[name] for name in rule.sources}, said)
    written = expression.replace("`c d`", "c_d")
    rows = [dict(zip(["a", "b", "c_d"], map(int, row), strict=True)) for row in zip(*values.values(), strict=True)]
    assert found.tolist() == [eval(written, {}, row) for row in rows]
    assert said.lower <= found.min() <= found.max() <= said.upper


@given(st.floats(-1e6, 1e6), st.floats(0.1, 1e6), st.floats(-1e6, 1e6))
def test_real_numbers_are_computed_as_floats_are(x, y, z):
    columns = {"x": Continuous(-1e6, 1e6), "y": Continuous(0.1, 1e6), "z": Continuous(-1e6, 1e6), "t": Continuous()}
    rule = Derived("t", "x / y - 1.21 * z + 3")
    said = Schema(columns, constraints=[rule]).outputs["t"]
    found = compute(rule, {"x": np.array([x]), "y": np.array([y]), "z": np.array([z])}, said)[0]
    assert found == x / y - 1.21 * z + 3
    assert said.lower <= found <= said.upper


def test_whatever_returns_the_same_schema_keeps_what_is_derived():
    columns = {"a": Integer(0, 9), "t": Integer(), "u": Categorical()}
    rules = [Derived("t", "2 * a"), Derived("u", of="a", values={i: str(i) for i in range(10)})]
    schema = Schema(columns, constraints=rules)
    for same in (
        schema.replace({}), schema.extended({}), schema.part(schema), schema.reading(None), schema.reading(CsvFormat()),
        Schema.from_json(schema.to_json()),
    ):  # fmt: skip
        assert dict(same.outputs) == dict(schema.outputs)
        assert same.constraints == schema.constraints
        assert same.undeclared == ()
