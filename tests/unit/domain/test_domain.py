"""Grids, axes, domains and refinements: public partitions of grid points, checked one grid point at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
import strategies as my
from hypothesis import given, strategies as st

from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain, axis_of, domain_of, finest_axis
from synthdp.domain.grid import MAX_POINTS, NEAR, edges_of, grid_of, labels_of
from synthdp.domain.refinement import Refinement
from synthdp.errors import InternalError, ParameterError, SchemaError
from synthdp.randomness import generator
from synthdp.schema.columns import Boolean, Categorical, Continuous, Identifier, Integer, Ordinal
from synthdp.schema.schema import Schema


def cell_by_cell(axis):
    """The cell of every grid point, found one grid point at a time."""
    return [int(axis.cells[np.flatnonzero(axis.starts <= index)[-1]]) for index in range(axis.grid.size)]


@given(my.columns)
def test_grid_points_are_numbered_regular_special_missing_other(column):
    grid = grid_of(column)
    assert 1 <= grid.regular <= MAX_POINTS + NEAR * len(grid.runs)
    special = list(range(grid.regular, grid.regular + len(grid.special)))
    null = [] if grid.null is None else [grid.null]
    hidden = [] if grid.hidden is None else [grid.hidden]
    assert [*special, *null, *hidden] == list(range(grid.regular, grid.size))
    assert grid.releasable == grid.size - len(hidden)
    assert 0 <= grid.other < grid.size
    assert (grid.null is not None) == column.nullable


@given(my.columns)
def test_a_grid_depends_on_the_declaration_alone(column):
    assert grid_of(column) == grid_of(Schema.from_json(Schema({"x": column}).to_json())["x"])


@given(st.one_of(my.categoricals, my.ordinals, my.booleans))
def test_labels_are_the_regular_grid_points(column):
    assert column.labelled
    assert len(labels_of(column)) == grid_of(column).regular


def test_a_column_without_labels_is_asked_for_none():
    with pytest.raises(SchemaError, match="Integer"):
        labels_of(Integer(0, 1))


def test_an_identifier_is_one_grid_point():
    grid = grid_of(Identifier())
    assert (grid.regular, grid.size, grid.releasable, grid.hidden) == (1, 1, 1, None)


@given(my.axes())
def test_every_grid_point_has_the_cell_of_its_run(axis):
    every = np.arange(axis.grid.size)
    assert axis.cells_of(every.astype(np.uint32)).tolist() == cell_by_cell(axis)
    assert [int(axis.cells_of(every[index : index + 1])[0]) for index in every] == cell_by_cell(axis)


@given(my.axes())
def test_widths_count_the_grid_points_that_may_be_released(axis):
    counted = np.bincount(cell_by_cell(axis)[: axis.grid.releasable], minlength=axis.size)
    assert axis.width.tolist() == counted.tolist()
    assert axis.releasable.tolist() == (counted > 0).tolist()


@given(my.axes())
def test_a_point_is_the_middle_of_a_cells_regular_grid_points(axis):
    grid, cells = axis.grid, np.array(cell_by_cell(axis))
    middles = (2 * np.arange(grid.regular) + 1) / grid.regular - 1
    ordered = np.array([middles[cells[: grid.regular] == c].mean() if grid.ordered else np.nan for c in present(axis)])
    assert axis.points[present(axis)] == pytest.approx(ordered, nan_ok=True)
    assert np.isnan(np.delete(axis.points, present(axis))).all()


def present(axis):
    """Cells that hold a regular grid point."""
    return sorted(set(cell_by_cell(axis)[: axis.grid.regular]))


@given(
    my.columns.filter(lambda column: not column.class_ends()), st.integers(1, 40)
)  # weights have classes of their own
def test_a_standard_axis_has_equal_cells_and_one_for_all_else(column, bins):
    axis, grid = axis_of("x", column, bins=bins), grid_of(column)
    regular = min(bins, grid.regular) if grid.ordered else grid.regular
    assert axis.size == regular + grid.size - grid.regular
    sizes = np.diff(grid.first_steps(np.append(axis.starts[:regular], grid.regular)).astype(np.float64))
    assert sizes.max() - sizes.min() <= max(2 * grid.width - (grid.width == 1), 4 * np.spacing(float(grid.steps)))
    assert axis.cells.tolist() == list(range(axis.size))
    points = axis.points[:regular]
    assert (np.diff(points) > 0).all() == (grid.ordered or regular == 1)
    assert not (np.abs(points) > 1).any()


def test_a_finest_axis_has_a_cell_for_every_grid_point():
    axis = finest_axis("x", Integer(0, 3, nullable=True))
    assert axis.starts.tolist() == axis.cells.tolist() == list(range(6))


def test_bins_must_be_one_or_more():
    with pytest.raises(ParameterError, match="bins"):
        axis_of("x", Integer(0, 3), bins=0)


@pytest.mark.parametrize(
    ("starts", "cells"),
    [([], []), ([1], [0]), ([0, 0], [0, 1]), ([0, 9], [0, 1]), ([0, 1], [0]), ([0, 1], [0, 2]), ([0, 1], [-1, 0])],
)
def test_an_impossible_partition_is_a_bug(starts, cells):
    with pytest.raises(InternalError, match="axis"):
        Axis("x", Boolean(), np.array(starts, int), np.array(cells, int))


def test_axes_are_read_only_and_show_no_value():
    axis = axis_of("x", Categorical(["canary"]))
    with pytest.raises(ValueError, match="read-only"):
        axis.starts[0] = 1
    assert repr(axis) == "Axis('x', Categorical, 2 cells)"


@given(my.domains(), st.data())
def test_codes_and_grid_points_are_inverse_up_to_the_cell(domain, data):
    released = [np.flatnonzero(axis.releasable) for axis in domain.axes]
    rows = data.draw(st.integers(0, 5))
    drawn = [[data.draw(st.sampled_from(cells.tolist())) for cells in released] for _ in range(rows)]
    codes = np.array(drawn, np.int64).reshape(-1, len(domain))
    indices = {axis.name: axis.indices_in(codes[:, j], generator(0)) for j, axis in enumerate(domain.axes)}
    again = domain.codes(indices)
    assert again.tolist() == codes.tolist()
    assert again.flags.f_contiguous


@given(my.domains(), st.data())
def test_ravelling_numbers_the_cells_in_c_order(domain, data):
    codes = data.draw(my.codes(domain))
    columns = data.draw(st.permutations(range(len(domain))))
    flat = np.ravel_multi_index(tuple(codes[:, j] for j in columns), [domain.shape[j] for j in columns])
    assert domain.ravel(codes, columns).tolist() == flat.tolist()
    assert domain.ravel(codes, ()).tolist() == [0] * len(codes)


@given(my.domains(), st.data())
def test_points_are_those_of_the_axes(domain, data):
    codes = data.draw(my.codes(domain))
    points = np.array([[axis.points[c] for axis, c in zip(domain.axes, row, strict=True)] for row in codes])
    assert np.array_equal(domain.points(codes), points.reshape(len(codes), len(domain)), equal_nan=True)


@given(my.schemas())
def test_a_domain_has_an_axis_per_column_and_counts_exactly(schema):
    domain = domain_of(schema, bins=7)
    assert domain.names == schema.names
    assert domain.cells == math.prod(domain.shape)
    assert domain.index(*schema) == tuple(range(len(schema)))
    assert domain.project(reversed(schema.names)).names == tuple(reversed(schema.names))


def test_a_domain_of_many_columns_counts_its_cells_exactly():
    domain = Domain(tuple(axis_of(f"c{j}", Integer(0, 98)) for j in range(40)))
    assert domain.cells == 33**40


def test_a_domain_needs_axes_of_different_names():
    with pytest.raises(ParameterError, match="axes"):
        Domain(())
    with pytest.raises(ParameterError, match="axes"):
        Domain((axis_of("x", Boolean()), axis_of("x", Boolean())))
    with pytest.raises(ParameterError, match="'y'"):
        Domain((axis_of("x", Boolean()),)).index("y")


@st.composite
def refinements(draw):
    fine = draw(my.axes())
    coarse = draw(st.lists(st.integers(0, 2), min_size=fine.size, max_size=fine.size))
    weights = draw(st.lists(st.floats(-1, 5), min_size=fine.size, max_size=fine.size))
    return Refinement(fine, np.unique(coarse, return_inverse=True)[1], np.array(weights))


@given(refinements())
def test_a_refinement_never_gives_weight_to_what_is_not_released(refinement):
    assert not refinement.weights[~refinement.fine.releasable].any()
    assert (refinement.weights >= 0).all()


@given(refinements())
def test_a_coarse_axis_merges_the_fine_cells(refinement):
    fine, coarse = refinement.fine, refinement.coarse()
    indices = np.arange(fine.grid.size)
    assert (coarse.cells_of(indices) == refinement.coarse_cell[fine.cells_of(indices)]).all()


@given(refinements())
def test_a_table_of_shares_has_every_fine_cell_in_its_coarse_one(refinement):
    table = refinement.table()
    assert (table.sum(axis=0) == refinement.weights).all()
    rows = table.nonzero()[0]
    assert (rows == refinement.coarse_cell[table.nonzero()[1]]).all()
    released = np.bincount(refinement.coarse_cell, weights=refinement.fine.width) > 0
    assert ((table.sum(axis=1) > 0) == released).all()


def test_a_coarse_cell_of_which_nothing_is_known_is_spread_over_its_grid_points():
    fine = axis_of("x", Integer(0, 5), bins=4)
    refinement = Refinement(fine, np.array([0, 0, 1, 1, 1]), np.array([3.0, 1.0, 0, 0, 9]))
    assert refinement.weights.tolist() == [3, 1, *fine.width[2:4], 0]
    assert Refinement.trivial(fine).table().tolist() == np.diag(fine.width.astype(float)).tolist()


def test_a_refinement_needs_a_weight_for_every_fine_cell():
    fine = axis_of("x", Ordinal(["a", "b"]))
    with pytest.raises(InternalError, match="refinement"):
        Refinement(fine, np.zeros(2, int), np.ones(3))


@given(st.integers(0, 31), st.integers(1, 100))
def test_cell_edges_are_closed_below_and_open_above(cell, span):
    column = Continuous(0, span)
    axis = axis_of("x", column)
    low, high = edges_of(column.support(), np.append(axis.starts[:32], axis.grid.regular))[[cell, cell + 1]]
    from synthdp.domain.encoder import Numbers, encode

    inside = np.array([low, np.nextafter(high, 0)])
    assert axis.cells_of(encode(column, Numbers(inside))).tolist() == [cell, cell]
