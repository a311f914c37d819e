"""Numbers of very many values have finer grid points nearer to 0; all laws of a grid hold, and older files are read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

import synthdp as sd
from synthdp.domain.axis import Axis
from synthdp.domain.domain import axis_of
from synthdp.domain.encoder import Numbers, decode, encode
from synthdp.domain.grid import MAX_POINTS, NEAR, grid_of, points_of_today

WIDE = [
    sd.Integer(0, MAX_POINTS),
    sd.Integer(0, 10**8, special=[-1], nullable=True),
    sd.Integer(-(10**7), 3 * 10**9),
    sd.Integer(10**9, 10**10),
    sd.Integer(-(10**10), -5),
    sd.Integer(-(2**62), 2**62),
    sd.Continuous(0, 1e8, decimals=2),
    sd.Continuous(-1e9, 1e11, decimals=2),
    sd.Continuous(0, 1e13, step=0.5),
]


@pytest.mark.sampled
@pytest.mark.parametrize("column", WIDE, ids=str)
def test_grid_points_are_all_steps_once_none_wider_than_of_an_even_grid(column):
    grid = grid_of(column)
    first = grid.first_steps(np.arange(grid.regular + 1))
    width = np.diff(first)
    assert (int(first[0]), int(first[-1])) == (0, grid.steps)
    assert width.min() >= 1
    assert width.max() <= -(-grid.steps // MAX_POINTS)
    assert (grid.points_of(first[:-1]) == np.arange(grid.regular)).all()
    assert (grid.points_of(first[1:] - np.uint64(1)) == np.arange(grid.regular)).all()


@pytest.mark.parametrize("column", WIDE, ids=str)
def test_numbers_near_0_are_exact_and_others_within_a_part_of_their_size(column):
    low, high = float(column.lower), float(column.upper)
    step = 1.0 if column.whole else {None: column.step or 0.5}.get(column.decimals, 0.01)
    sizes = np.array([1, 7, 1000, NEAR - 1, 10 * NEAR, 10**7, 10**9, 10**11], np.float64) * step
    values = np.concatenate([sizes, -sizes])
    values = values[(values >= low) & (values <= high)]
    back = decode(column, encode(column, Numbers(values))).values
    assert (np.abs(back - values) <= np.maximum(np.abs(values) * 2 / NEAR, 0.0)).all()
    near = np.abs(values) < NEAR * step
    assert (back[near] == values[near]).all()


@given(st.sampled_from(WIDE), st.integers(2, 40), st.integers(0, 2**32))
@example(sd.Integer(0, MAX_POINTS), 32, 0)
def test_points_of_an_axis_are_where_values_lie(column, bins, seed):
    axis = axis_of("x", column, bins=bins)
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, bins, 20)
    values = decode(column, axis.indices_in(codes, rng)).values.astype(np.float64)
    place = 2 * (values - column.lower) / (float(column.upper) - column.lower) - 1
    assert (np.abs(place - axis.points[codes]) <= 1 / bins + 1e-5).all()


@pytest.mark.parametrize("column", WIDE, ids=str)
def test_grid_points_of_yesterday_become_those_that_hold_their_first_steps(column):
    grid = grid_of(column)
    width = -(-grid.steps // MAX_POINTS)
    before = -(-grid.steps // width)
    rest = grid.size - grid.regular
    old = np.unique(np.concatenate([np.linspace(0, before - 1, 500).astype(np.int64), before + np.arange(rest)]))
    new = points_of_today(column, old)
    assert (np.diff(new) > 0).all()
    assert new[-1] == grid.size - 1
    steps = [int(one) * width for one in old[:-rest]]
    first, after = (grid.first_steps(new[:-rest] + end).tolist() for end in (0, 1))
    assert all(one <= step < end for one, step, end in zip(first, steps, after, strict=True))


def test_an_axis_is_read_as_it_was_written_today_or_yesterday():
    column = sd.Integer(0, 10**8, nullable=True)
    grid, axis = grid_of(column), axis_of("x", column)
    again = Axis.of_file("x", column, axis.starts, axis.cells, axis.points_in_file["points"])
    assert (again.starts == axis.starts).all()
    before = -(-grid.steps // grid.width)
    starts = np.concatenate([-(-np.arange(32) * before // 32), before + np.arange(2)])
    older = Axis.of_file("x", column, starts, axis.cells, None)
    assert (np.abs(older.points[:32] - axis.points[:32]) < 1e-5).all()
    assert (older.starts[32:] == axis.starts[32:]).all()
    narrow = axis_of("x", sd.Integer(0, 99))
    assert narrow.points_in_file == {}
    assert (Axis.of_file("x", narrow.column, narrow.starts, narrow.cells, None).starts == narrow.starts).all()
