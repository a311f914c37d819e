"""Axes: drawing grid points inside cells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.errors import InternalError
from synthdp.randomness import generator
from synthdp.schema.columns import Categorical, Integer


@st.composite
def axes(draw):
    upper = draw(st.integers(1, 60))
    column = Integer(0, upper, nullable=draw(st.booleans()))
    size = Axis("x", column, np.array([0]), np.array([0])).grid.size
    starts = np.array(sorted({0, *draw(st.sets(st.integers(1, size - 1), max_size=12))}))
    cells = np.array(draw(st.lists(st.integers(0, 3), min_size=len(starts), max_size=len(starts))))
    return Axis("x", column, starts, np.unique(cells, return_inverse=True)[1])


@given(axes(), st.integers(0, 1000))
def test_a_drawn_grid_point_lies_in_its_cell_and_may_be_released(axis, seed):
    cells = np.repeat(np.flatnonzero(axis.releasable), 20)
    indices = axis.indices_in(cells, generator(seed))
    np.testing.assert_array_equal(axis.cells_of(indices), cells)
    assert (indices < axis.grid.releasable).all()


@pytest.mark.parametrize("cells", [[0, 1, 2], [0, 1, 0], [1, 0, 1]])
def test_grid_points_are_uniform_within_a_cell(cells):
    axis = Axis("x", Integer(0, 29), np.array([0, 4, 20]), np.array(cells))
    indices = axis.indices_in(np.repeat(np.arange(axis.size), 30_000), generator(0))
    for cell in range(axis.size):
        possible = np.flatnonzero(axis.cells_of(np.arange(30, dtype=np.uint8)) == cell)
        observed = np.bincount(indices, minlength=31)[possible]
        assert stats.chisquare(observed).pvalue > 1e-9


def test_the_cell_of_unforeseen_values_is_never_drawn():
    axis = Axis("x", Categorical(["a", "b"]), np.arange(3), np.arange(3))
    with pytest.raises(InternalError, match="'x'"):
        axis.indices_in(np.array([0, 2]), generator(0))


def test_codes_take_the_narrowest_type_of_the_largest_axis_and_are_column_major():
    columns = {"a": Integer(0, 9), "b": Integer(0, 400)}
    domain = Domain(tuple(Axis(n, c, np.arange(c.upper + 1), np.arange(c.upper + 1)) for n, c in columns.items()))
    indices = {"a": np.array([1, 2], np.uint8), "b": np.array([300, 7], np.uint16)}
    codes = domain.codes(indices)
    assert codes.dtype == np.uint16
    assert codes.flags.f_contiguous
    assert codes.tolist() == [[1, 300], [2, 7]]


@pytest.mark.parametrize("cells", [[0, 2, 2], [0, 1, 3], [1, 1, 2], [-1, 0, 1], [0, 1, 10**12]])
def test_cells_that_are_not_numbered_from_0_without_gaps_are_refused(cells: list[int]) -> None:
    with pytest.raises(InternalError, match="axis"):
        Axis("x", Integer(0, 9), np.array([0, 3, 6]), np.array(cells))
