"""The finest public grid of one column: a finite number of units that depends on the declaration alone.

Units are numbered: the regular ones first (values in order, or levels as declared), then one per special value, then
the missing value if the column is nullable, then "other" for whatever the schema does not foresee.  "Other" is counted
but never released, unless the column declares a label for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from synthdp.errors import SchemaError
from synthdp.schema.columns import (
    Boolean,
    Categorical,
    Column,
    Continuous,
    Datetime,
    Duration,
    Identifier,
    Integer,
    Level,
    Ordinal,
    is_complete,
)

MAX_UNITS = 32**4
"""Most regular units of a column: four levels of 32 parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The units of one column.

    Parameters
    ----------
    regular
        Number of regular units, numbered from 0.
    width
        Whole steps per unit for whole-numbered columns, else 1.
    ordered
        Whether neighbouring regular units are alike.
    special
        Numbers with a unit of their own, numbered from ``regular``.
    null
        Unit of the missing value, if the column is nullable.
    other
        Unit of values that the schema does not foresee.
    size
        Number of units in all.
    """

    regular: int
    width: int = 1
    ordered: bool = True
    special: tuple[float, ...] = ()
    null: int | None
    other: int
    size: int

    @property
    def hidden(self) -> int | None:
        """The unit that is never released: "other", always the last one, unless it has a declared label."""
        return self.other if self.other == self.size - 1 and self.other >= self.regular else None

    @property
    def visible(self) -> int:
        """Number of units that a released row may have; they come first."""
        return self.size if self.hidden is None else self.size - 1


def grid_of(column: Column) -> Grid:
    """Return the grid of a declared column.

    Raises
    ------
    SchemaError
        If its bounds or levels are not declared.
    """
    if not is_complete(column):
        raise SchemaError("bounds or levels must be declared or discovered before values can be coded")
    match column:
        case Continuous():
            return _layout(_continuous_units(column), special=column.special, nullable=column.nullable)
        case Integer(lower, upper):
            return _steps(_int(upper) - _int(lower) + 1, special=column.special, nullable=column.nullable)
        case Datetime() | Duration():
            first, last = column.steps
            return _steps(last - first + 1, special=(), nullable=column.nullable)
        case Boolean():
            return _layout(2, ordered=False, nullable=column.nullable)
        case Identifier():
            return Grid(regular=1, ordered=False, null=None, other=0, size=1)
        case Ordinal(levels):
            return _layout(len(levels), nullable=column.nullable)
        case Categorical():
            levels = labels_of(column)
            if column.other is None:
                return _layout(len(levels), ordered=False, nullable=column.nullable)
            size = len(levels) + column.nullable
            return Grid(
                regular=len(levels),
                ordered=False,
                null=len(levels) if column.nullable else None,
                other=levels.index(column.other),
                size=size,
            )


def labels_of(column: Column) -> tuple[Level, ...]:
    """Return the levels of a column that has some, in unit order; the label for "other" comes last."""
    match column:
        case Categorical():
            levels = tuple(column.levels or ())
            return levels if column.other is None or column.other in levels else (*levels, column.other)
        case Ordinal():
            return tuple(column.levels)
        case Boolean():
            return (False, True)
        case _:
            raise SchemaError("only Categorical, Ordinal and Boolean columns have levels")


def has_labels(column: Column) -> bool:
    """Say whether the column's units are levels rather than intervals of numbers."""
    return isinstance(column, (Categorical, Ordinal, Boolean))


def has_order(column: Column) -> bool:
    """Say whether the column's regular units have an order, as numbers, moments and ordered levels do."""
    return not isinstance(column, (Categorical, Boolean, Identifier))


def edges_of(column: Column, units: np.ndarray) -> np.ndarray:
    """Lower ends of regular units of a Continuous column: unit u holds edge(u) <= x < edge(u + 1)."""
    if not isinstance(column, Continuous) or column.lower is None or column.upper is None:
        raise SchemaError("only a Continuous column with bounds has edges")
    return column.lower + (column.upper - column.lower) * (units / _continuous_units(column))


def _layout(
    regular: int, *, nullable: bool, special: tuple[float, ...] = (), width: int = 1, ordered: bool = True
) -> Grid:
    after = regular + len(special)
    return Grid(
        regular=regular,
        width=width,
        ordered=ordered,
        special=special,
        null=after if nullable else None,
        other=after + nullable,
        size=after + nullable + 1,
    )


def _steps(steps: int, *, special: tuple[float, ...], nullable: bool) -> Grid:
    width = -(-steps // MAX_UNITS)
    return _layout(-(-steps // width), width=width, special=special, nullable=nullable)


def _continuous_units(column: Continuous) -> int:
    lower, upper = float(column.lower or 0.0), float(column.upper or 0.0)
    spacing = math.ulp(max(abs(lower), abs(upper)))
    return int(max(1, min(MAX_UNITS, (upper - lower) / (4 * spacing))))


def _int(bound: int | None) -> int:
    return int(bound or 0)
