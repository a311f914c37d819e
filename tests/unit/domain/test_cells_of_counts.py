"""Cells of numbers in several tables: equal ones, and growing ones where whole numbers are counted from 0."""

from __future__ import annotations

import numpy as np
import pytest

import synthdp as sd
from synthdp.domain.domain import axis_of
from synthdp.domain.histories import BINS, axis_of_column, growing_starts


@pytest.mark.parametrize("points", [25, 26, 40, 81, 1000, 2**20])
def test_growing_cells_are_as_many_as_asked_none_of_them_empty(points: int) -> None:
    starts = growing_starts(points, BINS)
    assert len(starts) == BINS
    assert starts[0] == 0
    assert (np.diff(starts) > 0).all()
    assert starts[-1] < points


@pytest.mark.parametrize("points", [81, 1000, 2**20])
def test_small_counts_are_alone_and_large_ones_together(points: int) -> None:
    lengths = np.diff(growing_starts(points, BINS), append=points)
    assert lengths[0] == 1
    assert lengths[-1] > points / BINS


@pytest.mark.parametrize(
    "column",
    [sd.Integer(0, 10), sd.Integer(1900, 2020), sd.Continuous(0, 500), sd.Boolean(), sd.Categorical(["a", "b"])],
)
def test_what_is_no_long_count_has_equal_cells(column: sd.schema.column.Column) -> None:
    assert np.array_equal(axis_of_column("x", column).starts, axis_of("x", column, bins=BINS).starts)


def test_missing_and_special_values_keep_cells_of_their_own() -> None:
    axis = axis_of_column("x", sd.Integer(0, 200, nullable=True))
    equal = axis_of("x", sd.Integer(0, 200, nullable=True), bins=BINS)
    assert axis.size == equal.size
    assert np.array_equal(axis.starts[BINS:], equal.starts[BINS:])
