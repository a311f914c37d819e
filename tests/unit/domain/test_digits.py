"""Synthetic numbers have the digits that real ones are declared to have, and every value that can occur does."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import strategies as my
from hypothesis import given, strategies as st

import synthdp as sd
from synthdp.domain.encoder import Numbers, decode, encode
from synthdp.domain.grid import bounds_of, grid_of
from synthdp.errors import SchemaError
from synthdp.schema.column import Steps


def values_of(column, indices, seed=1):
    return decode(column, indices, rng=np.random.default_rng(seed)).values


@given(my.decimal_numbers(), st.data())
def test_values_have_the_declared_decimals_and_are_the_nearest_floats(column, data):
    indices = data.draw(my.indices(column))
    raw = decode(column, indices, rng=np.random.default_rng(0))
    regular = raw.values[indices < grid_of(column).regular]
    assert all(Decimal(repr(value)) == round(Decimal(repr(value)), column.decimals) for value in regular.tolist())
    assert (np.round(regular, column.decimals) == regular).all()


@given(my.multiples(), st.data())
def test_values_are_whole_multiples_of_the_step_above_the_lower_bound(column, data):
    indices = data.draw(my.indices(column))
    values = values_of(column, indices)[indices < grid_of(column).regular]
    above = [
        (Fraction(str(value)) - Fraction(str(column.lower))) / Fraction(str(column.step)) for value in values.tolist()
    ]
    assert all(one.denominator == 1 and one >= 0 for one in above)


@given(st.one_of(my.decimal_numbers(), my.multiples(), my.integers(), my.datetimes(), my.durations()), st.data())
def test_a_value_drawn_from_a_grid_point_lies_in_the_grid_point_and_within_the_bounds(column, data):
    grid = grid_of(column)
    indices = data.draw(my.indices(column).map(lambda indices: indices[indices < grid.regular]))
    values = values_of(column, indices)
    special = np.isin(values, grid.special)
    assert (encode(column, Numbers(values))[~special] == indices[~special]).all()
    assert ((bounds_of(column)[0] <= values) & (values <= bounds_of(column)[1])).all()


@pytest.mark.parametrize(
    "column",
    [
        sd.Integer(0, 4 * 32**4 - 1),
        sd.Integer(5, 40 * 32**4 - 1, step=10),
        sd.Continuous(0, 41943.03, decimals=2),
        sd.Datetime("2000-01-01", "2000-02-18T13:05:03", resolution="s"),
    ],
    ids=str,
)
def test_values_inside_a_grid_point_are_spread_over_all_that_can_occur(column):
    grid, steps = grid_of(column), column.support()
    assert isinstance(steps, Steps)
    point = grid.regular - 3
    drawn = values_of(column, np.full(4000, point))
    first, after = (int(grid.first_steps(np.array([one]))[0]) for one in (point, point + 1))
    possible = {steps.value(steps.first + k) for k in range(first, after)}
    assert len(possible) == grid.width
    assert grid.width > 1
    assert set(drawn.tolist()) == possible
    counts = np.unique(drawn, return_counts=True)[1]
    assert counts.min() > 4000 / grid.width - 6 * np.sqrt(4000 / grid.width)


def test_a_special_value_is_not_drawn_from_the_grid_point_around_it():
    column = sd.Integer(0, 10**7, special=[9_000_002, 9_000_004])
    point = int(encode(column, Numbers(np.array([9_000_003])))[0])
    assert not np.isin(values_of(column, np.full(3000, point)), [9_000_002, 9_000_004]).any()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: sd.Continuous(0, 1, decimals=2, step=0.5), "decimals.*step"),
        (lambda: sd.Continuous(0, 1, decimals=-1), "decimals"),
        (lambda: sd.Continuous(0, 1, decimals=16), "decimals"),
        (lambda: sd.Continuous(0, 1, decimals=True), "decimals"),
        (lambda: sd.Continuous(0, 0.125, decimals=2), "upper"),
        (lambda: sd.Continuous(0, 1, step=0), "step"),
        (lambda: sd.Continuous(0, 1, step=float("nan")), "step"),
        (lambda: sd.Continuous(0, 1, step=0.3), "multiple"),
        (lambda: sd.Continuous(0, 1e15, decimals=6), "digits"),
        (lambda: sd.Integer(0, 10, step=2.5), "step"),
        (lambda: sd.Integer(0, 10, step=3), "multiple"),
        (lambda: sd.Integer(0, 10, step="2"), "step"),
    ],
)
def test_digits_that_contradict_the_bounds_are_refused(make, says):
    with pytest.raises(SchemaError, match=says):
        sd.Schema({"x": make()})


@given(st.one_of(my.decimal_numbers(), my.multiples()))
def test_digits_are_read_back_from_json_of_the_version_that_knows_them(column):
    schema = sd.Schema({"x": column})
    assert sd.Schema.from_json(schema.to_json()) == schema
    assert json.loads(schema.to_json())["synthdp_schema"] == 3


def test_a_schema_without_digits_is_written_as_before():
    schema = sd.Schema({"x": sd.Continuous(0, 1), "y": sd.Integer(0, 9)})
    assert json.loads(schema.to_json())["synthdp_schema"] == 1
    assert "decimals" not in schema.to_json() + repr(schema)


@pytest.mark.landing
def test_a_released_table_has_the_digits_of_the_real_one():
    rng = np.random.default_rng(0)
    real = pd.DataFrame({
        "price": np.round(rng.uniform(0, 500, 4000), 2),
        "size": rng.integers(1, 28, 4000) / 2,
        "loan": 100 * rng.integers(0, 400, 4000),
        "weight": rng.integers(0, 10_000_000, 4000),
        "count": np.where(rng.random(4000) < 0.1, np.nan, rng.integers(0, 9, 4000)),
        "when": pd.Timestamp("1990-01-01") + pd.to_timedelta(rng.integers(0, 10**9, 4000), "s"),
    })  # fmt: skip
    schema = sd.Schema({
        "price": sd.Continuous(0, 500, decimals=2), "size": sd.Continuous(0.5, 14, step=0.5),
        "loan": sd.Integer(0, 40_000, step=100), "weight": sd.Integer(0, 10_000_000),
        "count": sd.Integer(0, 8, nullable=True), "when": sd.Datetime("1990-01-01", dt.datetime(2022, 1, 1)),  # noqa: DTZ001
    })  # fmt: skip
    synthetic = sd.SyntheticRelease(schema=schema, epsilon=3.0, random_state=1).fit_transform(real)
    assert (synthetic.dtypes == real.dtypes).all()
    assert (synthetic["price"].round(2) == synthetic["price"]).all()
    assert (synthetic["size"] * 2 % 1 == 0).all()
    assert (synthetic["loan"] % 100 == 0).all()
    assert 0.05 < (synthetic["weight"] % 10 == 0).mean() < 0.15
    assert (synthetic["count"].dropna() % 1 == 0).all()
    assert (synthetic["when"].dt.second != 0).mean() > 0.9


@pytest.mark.slow
def test_rows_of_rules_and_conditions_keep_them_though_values_are_spread():
    rng = np.random.default_rng(0)
    low = rng.integers(0, 10_000_000, 3000)
    real = pd.DataFrame({"low": low, "high": low + rng.integers(0, 3, 3000), "free": rng.integers(0, 10_000_000, 3000)})
    schema = sd.Schema({name: sd.Integer(0, 10_000_002) for name in real}, constraints=[sd.LessEqual("low", "high")])
    release = sd.SyntheticRelease(schema=schema, epsilon=3.0, random_state=1).fit(real)
    rows = release.sample(3000, random_state=2)
    assert (rows["low"] <= rows["high"]).all()
    assert (rows["free"] % 10 != 0).any()
    assert (
        release.sample(500, random_state=3, given={"free": (1_000_003, 3_000_001)})["free"]
        .between(1_000_003, 3_000_001)
        .all()
    )
    pd.testing.assert_frame_equal(rows, release.sample(3000, random_state=2))
