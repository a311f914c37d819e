"""Whatever a rule may name survives a schema file; what a column cannot hold is refused when the schema is made."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import itertools
import json
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import synthdp as sd
from synthdp.domain.values import mask_of_values
from synthdp.errors import SchemaError
from synthdp.schema.column import COLUMN_TYPES, Column


class Ward(str, enum.Enum):  # noqa: UP042 - the form in which a text of it is not its level
    """A level as a program may name it."""

    FIRST = "a"


COLUMNS: dict[str, Column] = {
    "categorical": sd.Categorical(["a", "2026-01-31", 3, True], nullable=True, other="rest"),
    "ordinal": sd.Ordinal(["a", "b", "c"]),
    "boolean": sd.Boolean(nullable=True),
    "integer": sd.Integer(0, 90, special=(-1,)),
    "integer in steps": sd.Integer(0, 90, step=3, nullable=True),
    "continuous": sd.Continuous(0, 90, special=(-1.0,), nullable=True),
    "continuous in steps": sd.Continuous(0, 90, step=0.1),
    "decimal": sd.Decimal(0, 90),
    "datetime": sd.Datetime("2026-01-01", "2026-12-31", resolution="h", nullable=True),
    "date": sd.Date("2026-01-01", "2026-12-31"),
    "time": sd.Time(),
    "duration": sd.Duration(0, dt.timedelta(days=3), nullable=True),
    "identifier": sd.Identifier(),
    "weight": sd.Weight(1, 90),
}
VALUES: dict[str, list[Any]] = {
    "missing": [None, float("nan"), np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), np.timedelta64("NaT", "s")],
    "truth": [True, np.True_],
    "label": ["a", np.str_("a"), Ward.FIRST, b"a", "rest"],
    "number": [3, 3.0, -1, np.int8(3), np.uint64(3), np.float32(3), np.float64(3), np.longdouble(3), 3 + 0j],
    "other number": [decimal.Decimal("3.00"), 2.5, 0.1 * 3, 1000, 10**30, 10**400, float("inf"), np.float64("-inf")],
    "moment": [
        dt.date(2026, 1, 31), dt.datetime(2026, 1, 31),  # noqa: DTZ001
        dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC),
        np.datetime64("2026-01-31"), np.datetime64("2026-02"), np.datetime64("2026-01-31T12:00", "ns"),
        np.datetime64(5, "D"), np.datetime64("300000-01-01"), pd.Timestamp("2026-01-31"), "2026-01-31",
        pd.Timestamp("2026-01-31T12:00", tz="Europe/Oslo"), pd.Period("2026-01"), "2026-01-31T12:30",
    ],
    "clock": [dt.time(8, 30), "08:30", dt.time(8, 30, 0, 5)],
    "length": [
        dt.timedelta(hours=30), -dt.timedelta(hours=1), np.timedelta64(90, "m"), np.timedelta64(2, "s"),
        np.timedelta64(7 * 10**9, "ns"), np.timedelta64(1, "M"), np.timedelta64(10**15, "D"), np.timedelta64(3),
        pd.Timedelta("1 day 02:00:00"), "PT2S", "1 day, 2:00:00", dt.timedelta(milliseconds=5),
    ],
    "other": ["x", np.array([1, 2]), np.array(3), range(1, 3), pd.Series([1, 2]), pl.Series([1, 2]), {"a": 1}, object()],
}  # fmt: skip
SINGLE = [value for values in VALUES.values() for value in values]


def as_given(value: Any) -> list[Any]:
    """Return the forms in which a rule may name a value: alone, in lists and sets, and as an end of a range."""
    found = [value, [value], [value, value], (value, value), (value, None), [[None, value]]]
    try:
        return [*found, {value}]
    except (TypeError, ValueError):  # it has no hash
        return found


def made_with(column: Column, given: Any) -> sd.Schema | None:
    """Return a schema with rules that name the value, ``None`` if it is refused in one sentence."""
    columns = {"x": column, "y": sd.Integer(0, 9)}
    try:
        rules = [
            sd.Forbidden({"x": given, "y": 0}),
            sd.Implies({"x": given}, {"y": (0, 3)}),
            sd.Iff({"y": 4}, {"x": given}),
            sd.Combinations(["x", "y"], [(given, 1)]),
        ]
        return sd.Schema(columns, constraints=rules)
    except SchemaError as refused:
        if "\n" in str(refused) or len(str(refused)) > 300:
            pytest.fail(f"no short sentence: {refused}")
        return None


def test_all_column_types_are_here() -> None:
    assert {type(column) for column in COLUMNS.values()} == set(COLUMN_TYPES.values())


@pytest.mark.filterwarnings("ignore::BytesWarning")
@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_a_value_that_a_schema_accepts_survives_its_file(column: Column) -> None:
    kept = 0
    for given in itertools.chain.from_iterable(map(as_given, SINGLE)):
        schema = made_with(column, given)
        if schema is not None:
            kept += 1
            text = schema.to_json()
            json.loads(text, parse_constant=pytest.fail)  # neither NaN nor Infinity, which are no JSON
            again = sd.Schema.from_json(text)
            assert again == schema, given
            assert [rule.in_words() for rule in again.constraints] == [rule.in_words() for rule in schema.constraints]
    assert (kept == 0) == (column.names_rows)


NAMED = {
    "a date of Python": ("date", dt.date(2026, 1, 31), "2026-01-31"),
    "a moment of NumPy": ("datetime", np.datetime64("2026-01-31T12:00", "ns"), "2026-01-31T12:00:00"),
    "a month of NumPy": ("date", np.datetime64("2026-02"), "2026-02-01"),
    "a moment of pandas": ("date", pd.Timestamp("2026-01-31"), "2026-01-31T00:00:00"),
    "a time of day": ("time", dt.time(8, 30), "08:30:00"),
    "a length of Python": ("duration", dt.timedelta(hours=30), "1 day, 6:00:00"),
    "a length of NumPy": ("duration", np.timedelta64(90, "m"), "1:30:00"),
    "a length of pandas": ("duration", pd.Timedelta("00:00:02"), "0:00:02"),
    "a length in steps": ("duration", 2, 2),
    "a decimal": ("decimal", decimal.Decimal("2.50"), 2.5),
    "a number of NumPy": ("integer", np.uint8(7), 7),
    "missing in pandas": ("continuous", pd.NA, None),
    "missing in a float": ("integer in steps", float("nan"), None),
}  # fmt: skip


@pytest.mark.parametrize(("column", "value", "kept"), NAMED.values(), ids=NAMED)
def test_a_value_is_kept_in_the_form_of_the_file_and_means_the_same(column: str, value: Any, kept: Any) -> None:
    schema = made_with(COLUMNS[column], value)
    assert schema is not None
    rule = schema.constraints[0]
    assert isinstance(rule, sd.Forbidden)
    assert rule.values["x"] == [kept]
    meant = mask_of_values(COLUMNS[column], kept)
    assert meant.sum() == 1
    if value is not pd.NA:
        np.testing.assert_array_equal(meant, mask_of_values(COLUMNS[column], value))


def test_an_infinite_end_of_a_range_is_no_end() -> None:
    assert sd.Forbidden({"x": (-np.inf, 5), "y": (3.0, np.inf)}).values == {"x": [(None, 5)], "y": [(3.0, None)]}
    with pytest.raises(SchemaError, match="None for no end"):
        sd.Forbidden({"x": (float("nan"), 5)})


def test_levels_that_a_rule_between_rows_counts_may_be_an_array() -> None:
    assert sd.RowsPerParent("members.role", np.array(["head", "wife"]), at_most=1).values == ["head", "wife"]


def test_a_release_whose_rule_names_a_moment_of_numpy_is_saved(tmp_path: Any) -> None:
    table = pd.DataFrame({"day": pd.date_range("2026-01-01", periods=300), "b": [1, 2, 3] * 100})
    rule = sd.Forbidden({"day": np.datetime64("2026-02-01"), "b": (0, 1)})
    schema = sd.Schema({"day": sd.Date("2026-01-01", "2026-12-31"), "b": sd.Integer(0, 9)}, constraints=[rule])
    sd.SyntheticRelease(schema=schema, epsilon=5.0).fit(table).save(tmp_path / "release")
    assert sd.load(tmp_path / "release").output.schema == schema
