"""What rules mean, told by values alone: every row of a tiny schema is tried, and every group of cells."""

from __future__ import annotations

import calendar
import contextlib

import numpy as np
import pytest
from hypothesis import given, strategies as st
from rule_models import dated_schemas, model_of, small_schemas

from synthdp.domain.axis import Axis
from synthdp.domain.encoder import Labels, decode
from synthdp.domain.grid import grid_of
from synthdp.domain.rules import rules_of
from synthdp.errors import SchemaError
from synthdp.sampling.structural_zeros import check_rules
from synthdp.schema.constraints import CalendarDate, Combinations, Forbidden, Iff, Implies, LessEqual


def _values(column):
    """The values that a released row may have, ``None`` for a missing one, in the order of their grid points."""
    raw = decode(column, np.arange(grid_of(column).releasable, dtype=np.uint32))
    codes = raw.codes if isinstance(raw, Labels) else np.arange(len(raw.values))
    missing = codes < 0 if isinstance(raw, Labels) or raw.missing is None else raw.missing
    values = raw.levels if isinstance(raw, Labels) else raw.values.tolist()
    return [None if gone else values[code] for code, gone in zip(codes, missing, strict=True)]


def _is(schema, row, name, given_):
    """Whether a value is the given one, in the given list, or in the given range of values that are no codes."""
    value = row[name]
    listed = given_ if isinstance(given_, list) else [given_]

    def counts():
        return value is not None and not _is_code(schema[name], value)

    return any(counts() and one[0] <= value <= one[1] if isinstance(one, tuple) else value == one for one in listed)


def _is_code(column, value):
    """Whether a value is a special one beyond the bounds; those between them are numbers that stand out."""
    return value in getattr(column, "special", ()) and not column.lower <= value <= column.upper


def _are(schema, row, values):
    return all(_is(schema, row, name, given_) for name, given_ in values.items())


def _number(schema, row, name):
    """A number that rules of order and of dates bind, or None."""
    value = None if name is None else row[name]
    return None if value is None or _is_code(schema[name], value) else value


def _obeys(schema, rule, row):
    match rule:
        case LessEqual(left, right):
            a, b = (_number(schema, row, name) for name in (left, right))
            return a is None or b is None or a <= b
        case Forbidden(values):
            return not _are(schema, row, values)
        case Implies(when, then):
            return not _are(schema, row, when) or _are(schema, row, then)
        case Iff(left, right):
            return _are(schema, row, left) == _are(schema, row, right)
        case Combinations(names, combinations):
            return any(_are(schema, row, dict(zip(names, one, strict=True))) for one in combinations)
        case CalendarDate(year, month, day):
            y, m, d = (_number(schema, row, name) for name in (year, month, day))
            return m is None or d is None or d <= calendar.monthrange(2000 if y is None else y, m)[1]
    raise AssertionError(rule)


def _all_rows(schema):
    indices = [np.arange(grid_of(column).releasable) for column in schema.values()]
    grid = {name: part.ravel() for name, part in zip(schema, np.meshgrid(*indices, indexing="ij"), strict=True)}
    values = {name: _values(column) for name, column in schema.items()}
    rows = [
        {name: values[name][u] for name, u in zip(schema, row, strict=True)}
        for row in np.column_stack([*grid.values()])
    ]
    return grid, rows


@given(small_schemas() | dated_schemas())
def test_a_row_breaks_a_rule_exactly_if_its_values_do(schema):
    grid, rows = _all_rows(schema)
    obeying = np.array([all(_obeys(schema, rule, row) for rule in schema.constraints) for row in rows])
    broken = np.logical_or.reduce([rule.broken(grid) for rule in rules_of(schema)] or [~obeying & False])
    np.testing.assert_array_equal(broken, ~obeying)
    refused = contextlib.nullcontext() if obeying.any() else pytest.raises(SchemaError, match="contradict")
    with refused:
        check_rules(schema)


@given(small_schemas() | dated_schemas(), st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_cells_are_possible_exactly_if_some_row_in_them_obeys(schema, seed, most):
    """A structural zero never forbids a row that obeys, and misses none, whichever grid points cells hold."""
    rng = np.random.default_rng(seed)
    for rule in rules_of(schema):
        axes = [_random_axis(name, schema[name], most, rng) for name in rule.names]
        indices = np.meshgrid(*(np.arange(axis.grid.releasable) for axis in axes), indexing="ij")
        flat = {axis.name: part.ravel() for axis, part in zip(axes, indices, strict=True)}
        obeying = ~rule.broken(flat)
        expected = np.zeros([axis.size for axis in axes], bool)
        expected[tuple(axis.cells_of(flat[axis.name][obeying].astype(np.uint32)) for axis in axes)] = True
        held = np.ones(expected.shape, bool)
        for j, axis in enumerate(axes):
            cells = axis.cells_of(np.arange(axis.grid.releasable, dtype=np.uint32))
            held &= np.isin(np.arange(axis.size), cells).reshape([-1 if i == j else 1 for i in range(len(axes))])
        possible = rule.possible(axes) & held
        np.testing.assert_array_equal(possible, expected)


def _random_axis(name, column, most, rng):
    size = grid_of(column).size
    cells = np.unique(rng.integers(0, most, size), return_inverse=True)[1]
    return Axis(name, column, np.arange(size), cells)


@pytest.mark.landing
@given(small_schemas() | dated_schemas(), st.integers(0, 100))
def test_no_row_of_a_model_breaks_a_rule_told_by_its_values(schema, seed):
    rows = []
    with contextlib.suppress(SchemaError):
        check_rules(schema)
        table = model_of(schema, coarse=2, seed=seed).sample(60, random_state=seed)
        rows = table.astype(object).where(table.notna(), None).to_dict("records")
    assert all(_obeys(schema, rule, row) for row in rows for rule in schema.constraints)
