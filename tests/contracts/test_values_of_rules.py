"""Whatever a rule may name survives a schema file; what a column cannot hold is refused when the schema is made."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import synthdp as sd
from synthdp.domain.encoder import decode
from synthdp.domain.grid import grid_of
from synthdp.domain.rules import rules_of
from synthdp.domain.values import grid_numbers, mask_of_values
from synthdp.errors import SchemaError
from synthdp.schema.column import COLUMN_TYPES, Column
from synthdp.schema.plain_values import plain
from synthdp.tables.dataframe import FrameSource
from synthdp.tables.format import TableFormat


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
    "missing": [None, float("nan"), np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT", "s"), np.timedelta64("NaT", "s")],
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
        np.timedelta64(7 * 10**9, "ns"), np.timedelta64(1, "M"), np.timedelta64(10**15, "D"),
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


@pytest.mark.sampled("landing")
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
            assert len(rules_of(again)) >= len(again.constraints)  # no release refuses them
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
    with pytest.raises(SchemaError, match="None"):
        sd.Forbidden({"x": (float("nan"), 5)})


def test_levels_that_a_rule_between_rows_counts_may_be_an_array() -> None:
    assert sd.RowsPerParent("members.role", np.array(["head", "wife"]), at_most=1).values == ["head", "wife"]


def test_a_release_whose_rule_names_a_moment_of_numpy_is_saved(tmp_path: Any) -> None:
    table = pd.DataFrame({"day": pd.date_range("2026-01-01", periods=300), "b": [1, 2, 3] * 100})
    rule = sd.Forbidden({"day": np.datetime64("2026-02-01"), "b": (0, 1)})
    schema = sd.Schema({"day": sd.Date("2026-01-01", "2026-12-31"), "b": sd.Integer(0, 9)}, constraints=[rule])
    sd.SyntheticRelease(schema=schema, epsilon=5.0).fit(table).save(tmp_path / "release")
    assert sd.load(tmp_path / "release").output.schema == schema


HOURS = [dt.timedelta(minutes=30 * i) for i in range(-1, 8)]
NUMBERS = [-2, -1, 0, 0.1 * 3, 0.25, 0.3, 0.35, 1, 1.0, 2.5, 3, 4, 4.00001, 8.7, 9, 9.05, 9.5, 10, 500, -(2**63), 1e300]
SMALL: dict[str, tuple[Column, list[Any]]] = {
    "whole": (sd.Integer(0, 9), NUMBERS),
    "whole in steps": (sd.Integer(1, 10, step=3, special=(-1, 8)), NUMBERS),
    "real in steps": (sd.Continuous(0, 9, step=0.1), NUMBERS),
    "real in steps from the lower bound": (sd.Continuous(-0.25, 9.5, step=0.25), NUMBERS),
    "decimals": (sd.Continuous(0, 9, decimals=1, special=(0.25, 500)), NUMBERS),
    "decimal": (sd.Decimal(0, 9), NUMBERS),
    "days": (sd.Date("2026-01-01", "2026-01-03"), [dt.datetime(2026, 1, 1) + 10 * one for one in HOURS]),  # noqa: DTZ001
    "hours": (
        sd.Datetime("2026-01-01", "2026-01-01T02:15", resolution="h"),
        [dt.datetime(2026, 1, 1) + one for one in HOURS],  # noqa: DTZ001
    ),
    "hours of a day": (sd.Time("01:00", "03:30", resolution="h"), [dt.time(i // 2, 30 * (i % 2)) for i in range(9)]),
    "lengths": (sd.Duration(0, 2, resolution="h"), [*HOURS, 1, 1.5, 2, 3]),
}


def stored(column: Column, value: Any) -> float:
    """Return a value as a number, those that arithmetic rounded as what they are meant to be."""
    number = column.number_of(value)
    return round(number, 9) if abs(number) < 1000 else number


@pytest.mark.parametrize(("column", "values"), SMALL.values(), ids=SMALL)
def test_a_rule_names_values_of_its_column_and_no_others(column: Column, values: list[Any]) -> None:
    grid = grid_of(column)
    numbers, _ = grid_numbers(column)
    held = [stored(column, one) if column.quantity == "number" else one for one in numbers[: grid.releasable].tolist()]
    for value in values:
        meant = [place for place, one in enumerate(held) if one == stored(column, value)]
        schema = made_with(column, value)
        assert (schema is not None) == bool(meant), value
        if schema is not None:
            assert np.flatnonzero(mask_of_values(column, plain(value))).tolist() == meant


@pytest.mark.sampled("landing")
@pytest.mark.parametrize(("column", "values"), SMALL.values(), ids=SMALL)
def test_a_range_in_a_rule_is_one_of_values_of_its_column(column: Column, values: list[Any]) -> None:
    grid = grid_of(column)
    numbers, bound = grid_numbers(column)
    for low, high in itertools.product([None, *values], repeat=2):
        first = -np.inf if low is None else column.number_of(low)
        last = np.inf if high is None else column.number_of(high)
        meant = np.flatnonzero((numbers >= first) & (numbers <= last) & bound)
        schema = made_with(column, (low, high))
        assert (schema is not None) == bool((meant < grid.regular).any()), (low, high)
        if schema is not None:
            named = mask_of_values(column, (plain(low), plain(high)))
            np.testing.assert_array_equal(np.flatnonzero(named), meant, err_msg=str((low, high)))


REFUSED = {
    "a fraction": (sd.Integer(0, 9), 2.5, r"2\.5.*'x'"),
    "beyond the bounds": (sd.Integer(0, 9), 500, "500.*'x'"),
    "off the step": (sd.Integer(0, 9, step=3), 4, r"4.*'x'.*3"),
    "too many decimals": (
        sd.Decimal(0, 9),
        2.125,
        r"2\.125.*'x'.*decimals",
    ),
    "infinity": (sd.Continuous(0, 9), float("inf"), "inf.*'x'"),
    "no moment": (sd.Date("2026-01-01", "2026-12-31"), "soon", "'soon'.*'x'"),
    "noon of a day": (sd.Date("2026-01-01", "2026-12-31"), "2026-01-02T12:00", "'2026-01-02T12:00'.*'x'"),
    "a range without a value": (sd.Integer(0, 9), (2.2, 2.8), r"2\.2, 2\.8.*'x'"),
    "a range beyond the bounds": (sd.Continuous(0, 9), (10, 20), r"10, 20.*'x'"),
    "ends that are exchanged": (sd.Integer(0, 9), (5, 2), r"'x'.*\b5\b.*\b2\b"),
    "levels that are exchanged": (sd.Ordinal(["a", "b"]), ("b", "a"), r"'x'.*'b'.*'a'"),
}


@pytest.mark.parametrize(("column", "given", "message"), REFUSED.values(), ids=REFUSED)
def test_what_a_column_cannot_hold_is_refused_when_the_schema_is_made(column: Column, given: Any, message: str) -> None:
    for rule in (sd.Forbidden({"x": [given], "y": 0}), sd.Combinations(["y", "x"], [(0, 0), (1, [given])])):
        columns = {"x": column, "y": sd.Integer(0, 9)}
        with pytest.raises(SchemaError, match=message if isinstance(rule, sd.Forbidden) else "'x'"):
            sd.Schema(columns, constraints=[rule])


def test_rules_across_tables_are_refused_likewise() -> None:
    tables = {"people": sd.Schema({"age": sd.Integer(0, 99)}), "visits": sd.Schema({"cost": sd.Decimal(0, 9)})}
    relation = sd.Relation("people", "visits", key="id", at_most=3)
    rule = sd.Forbidden({"people.age": (0, 17), "visits.cost": 2.125})
    with pytest.raises(SchemaError, match=r"2.*'visits\.cost'"):
        sd.DatabaseSchema(tables, relations=[relation], rules=[rule])


WIDE: dict[str, tuple[Column, Any, Any]] = {
    "integer": (sd.Integer(0, 10**7), 5_000_000, 5_000_001),
    "range": (sd.Integer(0, 10**7), (5_000_001, 5_000_030), (5_000_001, 5_000_003)),
    "decimal": (sd.Decimal(0, 10**9, decimals=2), 3_141_600, decimal.Decimal("3141592.65")),
    "moment": (sd.Datetime("2000-01-01", "2026-01-01"), "2010-01-01", "2010-01-01T12:34:56"),
    "length": (sd.Duration(0, 10**9), 99_999_900, 99_999_901),
}
"""Columns of more values than grid points: a value that is the roundest of its grid point, and one that is not."""


@pytest.mark.parametrize(("column", "told", "hidden"), WIDE.values(), ids=WIDE)
def test_a_rule_of_a_column_of_very_many_values_holds_to_the_letter_or_is_refused_before_the_spend(
    column: Column, told: Any, hidden: Any, tmp_path: Path
) -> None:
    ledger = tmp_path / "l.sqlite"
    held, y = sd.Schema({"x": column}), np.arange(2000) % 4 > 0
    points = np.where(y, np.flatnonzero(mask_of_values(column, told))[0], np.arange(2000) * 500).astype(np.uint32)
    rows = TableFormat.default(held).build(held, {"x": decode(column, points)}).assign(id=range(2000), y=y.astype(int))
    parents = pd.DataFrame({"id": range(2000), "z": y})

    def of_one(value: Any) -> pd.DataFrame:
        release = sd.SyntheticRelease(schema=ruled(value), epsilon=5.0, ledger=ledger, dataset="d", random_state=0)
        return release.fit_transform(rows[["x", "y"]])

    def of_several(value: Any) -> pd.DataFrame:
        tables = {"p": sd.Schema({"z": sd.Boolean()}), "c": ruled(value)}
        schema = sd.DatabaseSchema(tables, [sd.Relation("p", "c", key="id", at_most=2)])
        release = sd.DatabaseRelease(schema=schema, epsilon=5.0, ledger=ledger, dataset="e", random_state=0)
        return release.fit_transform({"p": parents, "c": rows})["c"]

    def ruled(value: Any) -> sd.Schema:
        return sd.Schema({"x": column, "y": sd.Integer(0, 1)}, constraints=[sd.Implies({"y": 1}, {"x": value})])

    for release in (of_one, of_several):
        with pytest.raises(SchemaError, match="'x'"):
            release(hidden)
    assert not ledger.exists()
    least, most = told if isinstance(told, tuple) else (told, told)
    for release in (of_one, of_several):
        (found,) = FrameSource(release(told)[["x", "y"]]).blocks({"x": column, "y": sd.Integer(0, 1)})
        values = found["x"].values[found["y"].values == 1]
        assert len(values)
        assert ((values >= column.number_of(least)) & (values <= column.number_of(most))).all()
