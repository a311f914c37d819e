"""How round numbers are: a public partition of a column's grid points by the widest power of ten that has a multiple there.

It depends on the declaration alone, and a value is as round as its grid point: whoever codes values, here or in a database,
counts the same.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from synthdp.arrays import AnyArray, IntArray
from synthdp.domain.axis import Axis
from synthdp.domain.encoder import Numbers, decode, encode
from synthdp.domain.grid import Grid, bounds_of, grid_of
from synthdp.schema.column import Steps
from synthdp.schema.columns import Column
from synthdp.schema.spacing import LARGEST_EXACT

FEWEST, MOST = 8, 1 << 12
"""Multiples that a power of ten has within the bounds, if it is asked for: a few are values, not a habit of rounding; very
many would be very many runs of an axis, which databases look values up in."""

POWERS = range(15, -16, -1)
"""Exponents of the powers of ten."""


def axis_of_roundness(name: str, column: Column) -> Axis | None:
    """Return an axis with a cell for each class of round numbers, one for those that are not round, and one for the rest.

    The classes come first, the widest power of ten before all others; after the numbers come special and missing values and
    "other", together.  ``None`` for columns without numbers, whose numbers are all alike, or that have several steps to a
    grid point, of which each would be as round as the roundest.

    Parameters
    ----------
    name, column
        The column and its declaration.
    """
    return _axis(name, column) if column.quantity == "number" and grid_of(column).width == 1 else None


@lru_cache(maxsize=256)
def _axis(name: str, column: Column) -> Axis | None:
    grid = grid_of(column)
    spacings = [Fraction(10) ** power for power in POWERS]
    cells = np.full(grid.size, len(spacings))
    cells[grid.regular :] = len(spacings) + 1
    for i in range(len(spacings) - 1, -1, -1):  # the widest last
        cells[_multiples(column, grid, spacings[i])] = i
    if (cells[: grid.regular] == cells[0]).all():
        return None
    starts = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(np.diff(cells)) + 1])
    return Axis(name, column, starts, np.unique(cells[starts], return_inverse=True)[1])


def _multiples(column: Column, grid: Grid, spacing: Fraction) -> IntArray:
    """Return the grid points that hold the multiples of a spacing; none if these are too few, too many or inexact."""
    lower, upper = (Fraction(repr(bound)) for bound in bounds_of(column))  # as written: 0.3 is a multiple of 0.1
    first, last = math.ceil(lower / spacing), math.floor(upper / spacing)
    if not FEWEST <= last - first + 1 <= MOST or max(abs(first), abs(last)) * spacing.numerator > LARGEST_EXACT:
        return np.zeros(0, np.int64)
    values: AnyArray = np.arange(first, last + 1) * spacing.numerator / spacing.denominator
    points = encode(column, Numbers(values))
    held = points < grid.regular  # others are special
    if isinstance(column.support(), Steps):
        found = decode(column, points)
        held &= found.values == values if isinstance(found, Numbers) else False
    return points[held].astype(np.int64)
