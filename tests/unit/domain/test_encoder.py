"""Encoding: total, clipped, the inverse of decoding, and one value at a time."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
import strategies as my
from hypothesis import assume, example, given, strategies as st

from synthdp.domain.domain import axis_of
from synthdp.domain.encoder import Labels, Numbers, decode, encode, shortest_decimals
from synthdp.domain.grid import MAX_POINTS, NEAR, bounds_of, edges_of, grid_of, labels_of
from synthdp.errors import SchemaError
from synthdp.schema.column import Steps
from synthdp.schema.columns import (
    RESOLUTIONS,
    Boolean,
    Categorical,
    Continuous,
    Datetime,
    Duration,
    Identifier,
    Integer,
    Ordinal,
    check_column,
)

any_floats = st.floats(allow_nan=False, allow_infinity=False)


def shadowed(column, indices):
    """GridIndices of one value that is declared special: no value is encoded to them."""
    grid = grid_of(column)
    raw = decode(column, indices)
    regular = np.minimum(indices, grid.regular - 1)
    single = grid.first_steps(regular + 1) - grid.first_steps(regular) == isinstance(column.support(), Steps)
    return single & (indices < grid.regular) & np.isin(getattr(raw, "values", indices), grid.special)


@given(st.data(), my.measured_columns)
def test_encoding_the_value_of_a_grid_point_gives_the_grid_point(data, column):
    indices = data.draw(my.indices(column))
    hit = ~shadowed(column, indices)
    assert (encode(column, decode(column, indices))[hit] == indices[hit]).all()


@given(st.data(), my.continuous(numbers=any_floats))
@example(data=None, column=Continuous(0, 5e-324))
@example(data=None, column=Continuous(0, 1e-320))
@example(data=None, column=Continuous(-8e307, 8e307))
@example(data=None, column=Continuous(1e300, 1.0000001e300))
@example(data=None, column=Continuous(1.0, 1.0000000000000002))
def test_bounds_of_any_size_have_a_grid(data, column):
    assume(math.isfinite(column.upper - column.lower))
    check_column("x", column)
    grid = grid_of(column)
    indices = np.array([0, grid.regular // 2, grid.regular - 1])
    raw = decode(column, indices)
    assert (encode(column, raw) == indices).all()
    inside = (column.lower <= raw.values) & (raw.values <= column.upper)
    assert (inside | np.isin(raw.values, column.special)).all()


def test_bounds_too_far_apart_are_refused():
    with pytest.raises(SchemaError, match="'x'"):
        check_column("x", Continuous(-1e308, 1e308))


@given(my.columns, my.raw_columns)
@example(my.ExactDecimal(0, 1, decimals=4), Numbers(np.array([1e308])))
def test_encoding_is_total(column, raw):
    with np.errstate(all="raise"):
        indices = encode(column, raw)
    rows = len(raw.codes) if isinstance(raw, Labels) else len(raw.values)
    assert indices.shape == (rows,)
    assert indices.dtype.kind == "u"
    assert (indices < grid_of(column).size).all()


@given(my.columns, my.raw_columns, my.raw_columns)
def test_a_value_is_encoded_the_same_beside_any_other_values(column, raw, more):
    assume(type(raw) is type(more))
    assert (encode(column, joined(raw, more))[: rows_of(raw)] == encode(column, raw)).all()


def rows_of(raw):
    return len(raw.codes) if isinstance(raw, Labels) else len(raw.values)


def joined(raw, more):
    if isinstance(raw, Labels):
        codes = np.where(more.codes < 0, -1, more.codes + len(raw.levels))
        return Labels([*raw.levels, *more.levels], np.concatenate([raw.codes, codes]))
    gone = [np.zeros(rows_of(one), np.bool_) if one.missing is None else one.missing for one in (raw, more)]
    return Numbers(np.concatenate([raw.values, more.values]), np.concatenate(gone))


# A whole number in a float column is the same number once a missing value made the column float.
@given(my.measured_columns, st.lists(st.integers(-(2**53), 2**53), min_size=1))
def test_whole_numbers_and_floats_are_encoded_alike(column, row):
    whole, real = Numbers(np.array(row, np.int64)), Numbers(np.array(row, np.float64))
    assert (encode(column, whole) == encode(column, real)).all()


@given(st.one_of(my.continuous(), my.integers()), st.lists(st.one_of(st.integers(), st.floats()), min_size=1))
def test_objects_and_floats_are_encoded_alike(column, row):
    assume(all(abs(number) < 2**53 or isinstance(number, float) for number in row))
    labels = Labels(row, np.arange(len(row)))
    assert (encode(column, labels) == encode(column, Numbers(np.array(row, np.float64)))).all()


@given(st.one_of(my.continuous(), my.integers(), my.datetimes(), my.durations()), st.integers(1, 40))
@example(my.Integer(0, 2**20, special=(0,)), 1)
def test_decoding_stays_in_the_cell(column, bins):
    axis = axis_of("x", column, bins=bins)
    indices = np.unique(np.concatenate([axis.starts, np.maximum(axis.starts, 1) - 1]))
    indices = indices[(indices < axis.grid.releasable)]
    indices = indices[~shadowed(column, indices)]
    assert (axis.cells_of(encode(column, decode(column, indices))) == axis.cells_of(indices.astype(np.uint32))).all()


@given(my.continuous(), any_floats)
def test_numbers_beyond_the_bounds_are_clipped(column, x):
    assume(x not in column.special)
    clipped = min(max(x, column.lower), column.upper)
    assume(clipped not in column.special)
    assert encode(column, Numbers(np.array([x]))) == encode(column, Numbers(np.array([clipped])))


@pytest.mark.parametrize("column", [Continuous(0, 10), Integer(0, 10)])
def test_infinities_are_clipped_and_nan_is_missing(column):
    raw = Numbers(np.array([-np.inf, np.inf, np.nan]))
    grid = grid_of(column)
    assert encode(column, raw).tolist() == [0, grid.regular - 1, grid.other]
    assert encode(type(column)(0, 10, nullable=True), raw)[2] == grid.regular


@given(my.continuous(), st.data())
def test_a_regular_grid_point_holds_the_numbers_between_its_edges(column, data):
    column = Continuous(column.lower, column.upper)
    grid = grid_of(column)
    index = data.draw(st.integers(0, grid.regular - 1))
    low, high = edges_of(column.support(), np.array([index, index + 1]))
    x = data.draw(st.floats(low, high, exclude_max=bool(low < high)))
    assume(low <= x < high)
    assert encode(column, Numbers(np.array([x]))) == index


@given(st.one_of(my.continuous(), my.integers(), my.datetimes(), my.durations()))
def test_the_bounds_themselves_are_released(column):
    assume(not set(getattr(column, "special", ())) & {column.lower, column.upper})
    grid = grid_of(column)
    values = decode(column, np.array([0, grid.regular - 1])).values
    first, last = (column.lower, column.upper) if not hasattr(column, "steps") else column.steps
    step = 1 if not hasattr(column, "steps") else RESOLUTIONS[column.resolution]
    assert values[0] == first * step
    assert values[1] == last * step


@given(my.measured_columns, st.data())
def test_decoded_values_are_in_the_schema(column, data):
    raw = decode(column, data.draw(my.indices(column)))
    assert allowed(column, raw).all()


def allowed(column, raw):
    if column.labelled:
        known = set(labels_of(column))
        return np.array([code < 0 or raw.levels[code] in known for code in raw.codes])
    lower, upper = bounds_of(column)
    inside = (lower <= raw.values) & (raw.values <= upper)
    special = np.isin(raw.values, getattr(column, "special", ()))
    gone = np.zeros(len(raw.values), np.bool_) if raw.missing is None else raw.missing
    return inside | special | gone


@given(my.columns, st.data())
def test_a_grid_point_is_decoded_the_same_beside_any_other_grid_points(column, data):
    assume(not isinstance(column, Identifier))
    indices = data.draw(my.indices(column))
    alone = [one(decode(column, indices[i : i + 1]), 0) for i in range(len(indices))]
    together = decode(column, indices)
    assert [one(together, i) for i in range(len(indices))] == alone


def one(raw, i):
    if isinstance(raw, Labels):
        return None if raw.codes[i] < 0 else raw.levels[raw.codes[i]]
    return None if raw.missing is not None and raw.missing[i] else raw.values[i].item()


@pytest.mark.parametrize("column", [
    Integer(-5, 20, nullable=True, special=(99,)), Continuous(0, 1, nullable=True), Categorical(list("abc"), nullable=True),
])  # fmt: skip
def test_many_rows_have_the_values_that_their_grid_points_have_one_by_one(column):
    points = grid_of(column).size
    some = np.unique(np.linspace(0, points - 1, 64).astype(np.int64))
    indices = np.concatenate([some, np.zeros(points, np.int64)])
    many, each = decode(column, indices), [decode(column, some[i : i + 1]) for i in range(len(some))]
    assert [one(many, i) for i in range(len(each))] == [one(alone, 0) for alone in each]
    full = decode(column, np.zeros(2 * points, np.int64))
    assert isinstance(full, Labels) or full.missing is None


def test_decoded_whole_numbers_are_whole_numbers():
    assert decode(Integer(-5, 2**40), np.array([0, 7])).values.dtype == np.int64


@pytest.mark.parametrize("step", [0, 1, 2**43])
def test_the_widest_integers_do_not_overflow(step):
    column = Integer(-(2**62), 2**62)
    values = np.array([-(2**62), -(2**62) + step, 0, 2**62 - step, 2**62])
    grid = grid_of(column)
    indices = encode(column, Numbers(values)).astype(np.int64)
    first, after = (grid.first_steps(indices + end).tolist() for end in (0, 1))
    assert all(one <= int(value) + 2**62 < end for one, value, end in zip(first, values, after, strict=True))
    some = np.union1d(np.arange(0, grid.regular, 41), np.arange(grid.regular // 2 - 99, grid.regular // 2 + 99))
    assert (np.diff(decode(column, some).values) > 0).all()


@pytest.mark.parametrize(
    ("low", "high", "shortest"),
    [(0.12, 0.19, 0.12), (0.123, 0.187, 0.13), (99.5, 100.2, 100.0), (-0.3, 0.2, 0.0), (1234.56, 1234.58, 1234.56),
     (8e9, 2e10, 1e10), (3e-9, 8e-9, 3e-9), (1.0000001, 1.0000002, 1.0000001), (-7.5, -6.5, -7.0)],
)  # fmt: skip
def test_shortest_decimals(low, high, shortest):
    assert shortest_decimals(np.array([low]), np.array([high])).tolist() == [shortest]


@given(any_floats, any_floats)
def test_a_shortest_decimal_lies_in_its_interval(one, two):
    low, high = sorted([one, two])
    assume(low < high and math.isfinite(high - low))
    (value,) = shortest_decimals(np.array([low]), np.array([high]))
    assert low <= value < high


@given(st.integers(-(10**6), 10**6), st.integers(1, 10**6), st.integers(0, 9))
def test_no_decimal_with_fewer_digits_lies_in_the_interval(low, width, digits):
    low, high = low / 10**digits, (low + width) / 10**digits
    assume(low < high)
    (value,) = shortest_decimals(np.array([low]), np.array([high]))
    places = max(0, -Decimal(repr(float(value))).normalize().as_tuple().exponent)
    step = Decimal(10) ** (1 - places)
    nearest = (Decimal(low) / step).to_integral_value("ROUND_CEILING") * step
    assert places == 0 or not low <= float(nearest) < high


def test_identifiers_are_fresh_and_different():
    raw = decode(Identifier("p"), np.zeros(3, np.int64))
    assert [raw.levels[code] for code in raw.codes] == ["p1", "p2", "p3"]
    assert decode(Identifier(), np.zeros(3, np.int64)).values.tolist() == [1, 2, 3]


def test_identifiers_are_never_read():
    assert encode(Identifier(), Labels(["canary"], np.array([0, -1]))).tolist() == [0, 0]


def test_unforeseen_labels_go_to_other():
    column = Categorical(["a", "b"], nullable=True)
    grid = grid_of(column)
    raw = Labels(["b", "canary", ["list"], 1, math.nan, None], np.arange(-1, 6))
    assert encode(column, raw).tolist() == [2, 1, grid.other, grid.other, grid.other, 2, 2]
    assert grid.hidden == grid.other


def test_a_label_for_other_is_released():
    column = Categorical(["a"], other="rest")
    indices = encode(column, Labels(["a", "canary", "rest"], np.arange(3)))
    raw = decode(column, indices)
    assert [raw.levels[code] for code in raw.codes] == ["a", "rest", "rest"]
    assert grid_of(column).hidden is None


def test_missing_in_a_required_column_goes_to_other():
    for column in (Integer(0, 3), Ordinal(["a"]), Boolean(), Datetime("2020-01-01", "2020-01-02"), Duration(0, 5)):
        assert encode(column, Labels([None, "?"], np.array([-1, 0]))).tolist()[0] == grid_of(column).other


def test_labels_of_equal_numbers_are_the_same_level():
    column = Categorical([0, 1])
    assert encode(column, Labels([True, 1.0, np.int8(1), Decimal(1)], np.arange(4))).tolist() == [1] * 4


def test_no_grid_has_too_many_grid_points():
    for column in (Continuous(0, 1), Integer(0, 2**62), Datetime("0001-01-01", "9999-12-31", resolution="us")):
        assert grid_of(column).regular <= MAX_POINTS + NEAR * len(grid_of(column).runs)
        assert len(grid_of(column).runs) <= 2 * 62


def test_undeclared_columns_have_no_grid():
    with pytest.raises(SchemaError, match="Integer"):
        grid_of(Integer())
