"""Columns of any kind as bits: the cells of a column that make each bit 1, and the bit of every literal.

A column of two levels is one bit. Other columns of labels have a bit per level, and an ordered column has a bit per
threshold. The statistics of `parities` and `monomials` use these bits; nothing here has noise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from synthdp.answers.questions import Marginal
from synthdp.arrays import AnyArray, BoolArray, Codes, FloatArray, IntArray, frozen
from synthdp.codec import file_form
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain, finest_axis
from synthdp.domain.encoder import Numbers, encode
from synthdp.domain.grid import bounds_of, grid_of, labels_of
from synthdp.errors import ParameterError
from synthdp.mechanisms.estimate import Estimate
from synthdp.schema.column import Column, Level
from synthdp.schema.schema import Schema
from synthdp.works.polynomials.literal_queries import SymmetricQuery

LiteralBit: TypeAlias = tuple[int, bool]
"""The position of a bit, and the value of the bit that makes the literal true."""

MAX_LEVELS = 256
"""Most levels of a column that gets a bit per level; one with more gets bits by thresholds only. A safety limit: the
number of parities grows with a power of the number of bits."""


@file_form("Bit")
@dataclass(frozen=True, slots=True, eq=False)
class Bit:
    """A yes-or-no property of one column.

    Parameters
    ----------
    name
        The bit's name, which literals can use as a column.
    column
        Position of the column in the domain.
    cells
        (size,) the cells of the column's axis where the bit is 1.
    """

    name: str
    column: int
    cells: BoolArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", frozen(np.array(self.cells, np.bool_)))


@file_form("Binarized")
@dataclass(frozen=True, slots=True, eq=False)
class Binarized:
    """d bits of each row, and the bit that each literal stands for.

    Parameters
    ----------
    domain
        The columns that are read.
    bits
        The bits, with different names.
    literals
        From a column and a value, or a bit's name and 0 or 1, to the bit's position and the value it must have.
    """

    domain: Domain
    bits: tuple[Bit, ...]
    literals: Mapping[tuple[str, Level | None], LiteralBit] = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bits", tuple(self.bits))
        object.__setattr__(self, "literals", dict(self.literals))
        if not self.bits or len(set(self.names)) < len(self.bits):
            raise ParameterError("bits must hold at least one binary column, all with different names")

    @property
    def d(self) -> int:
        """Return d, the number of bits."""
        return len(self.bits)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the bits, in order."""
        return tuple(bit.name for bit in self.bits)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return a line for the receipt that names columns whose out-of-domain values share an in-domain value's bits.

        Such values are counted as that in-domain value. Empty if there is no such column.
        """
        hidden = {j: axis.grid.hidden for j, axis in enumerate(self.domain.axes) if axis.grid.hidden is not None}
        joined = []
        for j, index in hidden.items():
            axis, own = self.domain.axes[j], np.array([self.bits[i].cells for i in self.of_column(j)])
            cell = int(axis.cells_of(np.array([index], np.uint32))[0])
            same = (own == own[:, [cell]]).all(axis=0) & axis.releasable
            joined += [axis.name] if same.any() else []
        if not joined:
            return ()
        return (
            f"values that do not fit the schema are not counted apart: they have the bits 0 of {', '.join(joined)}",
        )

    def columns(self, codes: Codes) -> list[BoolArray]:
        """Return the d bit columns, each (n,), of rows given by their cells."""
        return [bit.cells[codes[:, bit.column]] for bit in self.bits]

    def matrix(self, codes: Codes) -> BoolArray:
        """Return the bits of rows given by their cells, (n, d)."""
        return np.stack(self.columns(codes), axis=1)

    def of_column(self, column: int) -> IntArray:
        """Return the positions of one column's bits, (bits of the column,)."""
        return np.array([i for i, bit in enumerate(self.bits) if bit.column == column], np.int64)

    @property
    def flips(self) -> tuple[int, ...]:
        """Return the numbers of bits that can differ between two rows, except 0, in increasing order.

        The sensitivity for a replaced row is a maximum over them. Each column contributes a Hamming distance between
        two of its cells, independently of other columns.
        """
        reachable = {0}
        for column in range(len(self.domain)):
            apart = self._distances(column)
            reachable = {a + b for a, b in itertools.product(reachable, apart)}
        return tuple(sorted(reachable - {0}))

    def _distances(self, column: int) -> set[int]:
        """Return the numbers of bits in which two values of one column can differ, 0 among them.

        Their sums over columns are the numbers of bits that a replaced row can flip.
        """
        own = [bit.cells for bit in self.bits if bit.column == column]
        patterns = np.unique(np.array(own, np.int64), axis=1)
        weights = patterns.sum(axis=0)
        apart = weights[:, None] + weights[None, :] - 2 * patterns.T @ patterns
        return {int(distance) for distance in np.unique(apart)}

    def find(self, query: SymmetricQuery) -> tuple[IntArray, FloatArray]:
        """Return the positions of a query's bits, (k,), and the sign of each: +1 if the bit must be 1, else -1, (k,).

        So sign * (-1)^bit = (-1)^[the literal is true].

        Raises
        ------
        ParameterError
            If a literal is unknown, or two are about the same bit.
        """
        found = [self._literal(name, value) for name, value in query.literals]
        bits = np.array([bit for bit, _ in found], np.int64)
        if len(set(bits.tolist())) < len(bits):
            raise ParameterError("a query has two literals about the same binary column: remove one of the two")
        return bits, np.array([1.0 if wanted else -1.0 for _, wanted in found])

    def _literal(self, name: str, value: Level | None) -> LiteralBit:
        """Return the position of the bit of "column is value", and the value of the bit that makes this true.

        Raise ParameterError, with the possible values, if there is none.
        """
        try:
            return self.literals[name, value]
        except (KeyError, TypeError):  # a TypeError for a value that cannot be hashed, such as a list
            known = [str(level) for column, level in self.literals if column == name]
        if known:
            raise ParameterError(f"{name} ({value!r}) must be one of: {', '.join(known)}")
        raise ParameterError(f"there is no binary column {name!r}; there are: {', '.join(self.names)}")


def binarize(
    schema: Schema,
    *,
    columns: Sequence[str] | None = None,
    thresholds: Mapping[str, Sequence[float]] | None = None,
) -> Binarized:
    """Return the bits of a schema's columns.

    A column of two levels (Boolean, Integer(0, 1), any two labels) that cannot be missing is one bit of its own name.
    The bit is 1 at the second level; an out-of-domain value counts as 0.

    Any other column of labels has a bit ``column=level`` per level and, if it may be missing, a bit for missing values.
    All bits of an out-of-domain value are 0. A column with thresholds has a bit ``column>=threshold`` per threshold;
    all bits of a missing value are 0.

    Parameters
    ----------
    schema
        The schema, with all columns declared.
    columns
        Names of the columns to use; default: all columns with 2 to 256 levels.  Columns with thresholds are added.
    thresholds
        Cuts of ordered columns, by column name.

    Raises
    ------
    ParameterError
        If a chosen column has neither levels nor thresholds, or no column is left.
    """
    cuts = dict(thresholds or {})
    chosen = list(columns) if columns is not None else [name for name in schema if _levels(schema[name])]
    chosen += [name for name in cuts if name not in chosen]
    for name in chosen:
        if name not in schema:
            raise ParameterError(f"there is no column {name!r}; the schema has: {', '.join(schema)}")
    if not chosen:
        raise ParameterError("no column has two or more levels: give thresholds for numeric columns")
    axes: list[Axis] = []
    bits: list[Bit] = []
    literals: _Known = {}
    for name in chosen:
        column = schema[name]
        if name in cuts:
            axis, own, known = _by_thresholds(name, column, cuts[name])
        else:
            axis, own, known = _by_levels(name, column)
        literals |= {key: (bit + len(bits), wanted) for key, (bit, wanted) in known.items()}
        bits += [Bit(label, len(axes), cells) for label, cells in own]
        axes.append(axis)
    return Binarized(Domain(tuple(axes)), tuple(bits), literals)


_Named: TypeAlias = list[tuple[str, AnyArray]]
"""Bits as pairs of a name and the cells, (cells,), where the bit is 1."""
_Known: TypeAlias = dict[tuple[str, Level | None], LiteralBit]
"""From a column's name and a value to the bit of that literal."""


def _levels(column: Column) -> tuple[Level, ...]:
    """Return the levels of a column that has 2 to `MAX_LEVELS` levels, else an empty tuple; bits are made of them.

    An identifier column has none; a whole-number column from 0 to 1 has 0 and 1.
    """
    if column.names_rows:
        return ()
    if column.labelled:
        levels = labels_of(column)
        return levels if 2 <= len(levels) <= MAX_LEVELS else ()
    if column.whole and bounds_of(column) == (0, 1) and not grid_of(column).special:
        return (0, 1)
    return ()


def _by_levels(name: str, column: Column) -> tuple[Axis, _Named, _Known]:
    """Return a column's axis, its bits by level and the literals of these bits.

    A column of two levels that cannot be missing has one bit.
    """
    levels, axis, grid = _levels(column), finest_axis(name, column), grid_of(column)
    if not levels:
        raise ParameterError(
            f"column {name!r} has no declared levels, or not 2 to {MAX_LEVELS} of them: give thresholds for this "
            "column, or leave it out"
        )
    cells = np.arange(grid.size)
    if len(levels) == 2 and grid.null is None:
        known: _Known = {(name, 0): (0, False), (name, 1): (0, True)}
        return axis, [(name, cells == 1)], known | {(name, levels[0]): (0, False), (name, levels[1]): (0, True)}
    named: _Named = [(f"{name}={level}", cells == i) for i, level in enumerate(levels)]
    known = {(name, level): (i, True) for i, level in enumerate(levels)}
    if grid.null is not None:
        known[name, None] = (len(named), True)
        named.append((f"{name} is missing", cells == grid.null))
    return axis, named, known | _bit_literals(named)


def _by_thresholds(name: str, column: Column, thresholds: Sequence[float]) -> tuple[Axis, _Named, _Known]:
    """Return a column's axis, its bits by threshold and the literals of these bits.

    The axis has a cell between neighbouring thresholds, then a cell for each special, missing or out-of-domain value.
    """
    grid = grid_of(column)
    if column.quantity != "number":
        raise ParameterError(
            f"thresholds are for columns of numbers only, and column {name!r} is none: remove its thresholds"
        )
    cuts = np.array(sorted(set(thresholds)), np.float64)
    if not cuts.size:
        raise ParameterError(f"thresholds of column {name!r} must hold at least one number")
    lower, upper = bounds_of(column)
    inside = (cuts > lower) & (cuts <= upper)
    indices = encode(column, Numbers(cuts)).astype(np.int64)
    if not inside.all() or (indices >= grid.regular).any() or len({0, *indices.tolist()}) <= len(cuts):
        raise ParameterError(
            f"thresholds of column {name!r} must lie above its lower bound and within its upper bound, and must not "
            "be too close together"
        )
    starts = np.concatenate([[0], indices, np.arange(grid.regular, grid.size)])
    axis = Axis(name, column, starts, np.arange(len(starts)))
    special = np.array(grid.special, np.float64)
    named: _Named = []
    for i, cut in enumerate(cuts):
        regular = np.arange(len(cuts) + 1) > i
        rest = np.zeros(grid.size - grid.regular - len(special), np.bool_)
        named.append((f"{name}>={_cut_text(cut)}", np.concatenate([regular, special >= cut, rest])))
    return axis, named, _bit_literals(named)


def _cut_text(cut: float) -> str:
    """Return a threshold as text: with six digits if these are exact, else with all, so that no two cuts have one name."""
    short = f"{cut:g}"
    return short if float(short) == cut else repr(float(cut)).removesuffix(".0")


def _bit_literals(named: _Named) -> _Known:
    """Return the literals that use bits' own names as columns, with 0 or 1 as value and positions in ``named``."""
    return {(label, value): (i, bool(value)) for i, (label, _) in enumerate(named) for value in (0, 1)}


MOST_CELLS = 100_000
"""Most cells of one marginal, whose cells are answered one by one. A safety limit of time."""


def symmetric_query(query: object) -> SymmetricQuery:
    """Return the query itself if it is symmetric; raise an error otherwise.

    Raises
    ------
    ParameterError
        If it is another query; the message says which queries the release answers.
    """
    if not isinstance(query, SymmetricQuery):
        raise ParameterError(
            "this release answers queries made by conjunction, disjunction, r_of_k, exactly_r and symmetric only, "
            f"not a {type(query).__name__}"
        )
    return query


def marginal_estimate(
    asked: Marginal, bits: Binarized, *, rows: float, answer: Callable[[SymmetricQuery], Estimate]
) -> Estimate:
    """Return the counts of a marginal's cells, (cells,) in C order, each with its standard error and bias in rows.

    A cell is answered as a conjunction of one literal for each column.

    Parameters
    ----------
    asked
        Columns of labels or truth values.
    bits
        The released bits.
    rows
        Number of rows, public or estimated.
    answer
        The function that answers a conjunction as a fraction of the rows.

    Raises
    ------
    ParameterError
        If a column was not released, or has thresholds only.
    """
    if asked.bins:
        raise ParameterError("the cells of a marginal of this release are fixed: leave bins out")
    levels = [_levels_of(bits, name) for name in asked.columns]
    if math.prod(map(len, levels)) > MOST_CELLS:
        raise ParameterError(f"a marginal of this release must have at most {MOST_CELLS} cells: name fewer columns")
    values = (0.0,) * len(levels) + (1.0,)
    cells = [
        answer(SymmetricQuery(tuple(zip(asked.columns, cell, strict=True)), values))
        for cell in itertools.product(*levels)
    ]
    proven = [float(cell.truncation_bound) for cell in cells if cell.truncation_bound is not None]
    return Estimate(
        estimate=rows * np.array([float(cell.estimate) for cell in cells]),
        stderr=rows * np.array([float(cell.stderr) for cell in cells]),
        truncation=rows * np.array([float(cell.truncation) for cell in cells]),
        truncation_bound=rows * np.array(proven) if len(proven) == len(cells) else None,
        range=(0.0, math.inf),
    )


def marginal_labels(asked: Marginal, bits: Binarized) -> dict[str, list[Level | None]]:
    """Return the values of each column in the cells of `marginal_estimate`, in their order; ``None`` is a missing value."""
    cells = itertools.product(*(_levels_of(bits, name) for name in asked.columns))
    return {name: list(values) for name, values in zip(asked.columns, zip(*cells, strict=True), strict=True)}


def _levels_of(bits: Binarized, name: str) -> list[Level | None]:
    """Return the values of a column that have a literal, one for each cell of a marginal; ``None`` is a missing value.

    Raise ParameterError if the column was released by thresholds only, or not at all.
    """
    found: dict[LiteralBit, Level | None] = {}
    for (column, level), literal in bits.literals.items():
        if column == name and column in bits.domain.names:
            found[literal] = level
    if not found:
        made = [one for one in bits.domain.names if one.startswith((f"{name}>=", f"{name}="))]
        raise ParameterError(
            f"column {name!r} was released as binary columns only: name one of these in the marginal instead: "
            f"{', '.join(made) or _named(bits)}"
        )
    return list(found.values())


def _named(bits: Binarized) -> str:
    """Return the names of the columns that have bits as a text, for error messages."""
    known = {column for column, _ in bits.literals}
    return ", ".join(name for name in bits.domain.names if name in known) or "no column"
