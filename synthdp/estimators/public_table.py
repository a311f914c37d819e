"""Public knowledge of a release, read before any spend: a table of unprotected rows, and exact totals."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from synthdp.arrays import IntArray
from synthdp.checks import check_number
from synthdp.domain.encoder import Labels, encode, together
from synthdp.domain.grid import grid_of, labels_of
from synthdp.domain.public_rows import PublicRows, PublicTotals
from synthdp.errors import DataError, ParameterError
from synthdp.mechanisms.public_knowledge import PublicKnowledge
from synthdp.schema.schema import Schema
from synthdp.tables.resolve import source_of
from synthdp.tables.sources.file_source import source_at

DIGITS = 6
"""Decimals to which two totals of rows must agree.  A numerical tolerance."""

UNNAMED = "a table without a name"
"""Name of a public table without a file name, in receipts."""

WHOLE = 1.0
"""Largest and default weight of a public row, in private rows: a public row counts as at most one private row.  A
convention: a larger weight would prefer the public table to the private rows."""


def check_public(public: Any, weight: Any, private: Any = None) -> None:
    """Raise ParameterError if the settings of a public table make no sense; no row is read.

    Raises
    ------
    ParameterError
        If the weight is outside (0, 1] or set without a table, or if the table is the private one.
    """
    check_number("public_weight", weight, above=0, most=WHOLE)
    if public is None and weight != WHOLE:
        raise ParameterError("public_weight needs a public table: give public too, or leave public_weight out")
    if public is not None and public is private:
        raise ParameterError(
            "public is the private table itself: its rows would be released as they are; leave public out"
        )


def read_public(public: Any, schema: Schema, *, weight: float = WHOLE) -> PublicRows:
    """Return the rows of a public table, in the columns that it shares with a schema.

    Parameters
    ----------
    public
        A dataframe, a source, or the path of a file.
    schema
        Schema of the private table; columns may be open.
    weight
        Largest weight of a public row, relative to a private row, 0 < weight <= 1.

    Raises
    ------
    DataError
        If ``public`` is no table, has no rows, or shares no column with the schema.
    """
    source = source_of(source_at(public) if isinstance(public, (str, PathLike)) else public, schema)
    shared = {name: column for name, column in schema.items() if name in source.names and not column.names_rows}
    if not shared:
        raise DataError(
            f"the public table has no column of the schema: give a table with at least one of: {', '.join(schema)}"
        )
    blocks = list(source.blocks(shared))
    columns = {name: together([block[name] for block in blocks]) for name in shared if blocks}
    rows = next(iter(columns.values())).rows if columns else 0
    if not rows:
        raise DataError("the public table has no rows: give a table with rows, or leave public out")
    place = getattr(source, "path", None)
    name = UNNAMED if place is None else Path(place).name
    return PublicRows(name=name, columns=columns, rows=rows, weight=float(weight))


def public_knowledge(public: Any, totals: Any, schema: Schema, *, weight: float = WHOLE) -> PublicKnowledge:
    """Return a public table and public totals as one object for mechanisms.

    Raise the errors of `read_public` and `read_totals`.
    """
    rows = None if public is None else read_public(public, schema, weight=weight)
    return PublicKnowledge(rows=rows, totals=() if totals is None else read_totals(totals, schema))


def read_totals(totals: Any, schema: Schema) -> tuple[PublicTotals, ...]:
    """Return exact public numbers of rows, one object per set of columns, after checks.

    Parameters
    ----------
    totals
        A mapping from columns, a name or a tuple of names, to numbers of rows: a Series or a mapping, by values of the
        column or tuples of values.
    schema
        Schema of the private table; it declares the categories of the columns.

    Raises
    ------
    ParameterError
        If a column is not in the schema, or a value is no category of its column.  If a number is negative or not
        finite, or two totals contradict each other.
    """
    if not isinstance(totals, Mapping):
        raise ParameterError(
            'public_totals must be a dict from columns to numbers of rows, such as {"region": {"north": 60, "south": 45}}'
        )
    found = tuple(_totals(key, given, schema) for key, given in totals.items())
    if len({frozenset(one.names) for one in found}) < len(found):
        raise ParameterError("public_totals names the same columns twice: give their totals once")
    for one, other in itertools.combinations(found, 2):
        shared = [name for name in one.names if name in other.names]
        if _margin(one, shared) != _margin(other, shared):
            which = f"by {', '.join(shared)} " if shared else ""
            raise ParameterError(
                f"public_totals of {_listed(one.names)} and of {_listed(other.names)} contradict: their "
                f"numbers of rows {which}differ, so correct one of the two"
            )
    return found


def _totals(key: Any, given: Any, schema: Schema) -> PublicTotals:
    """Return the public totals of one set of columns.

    Raise ParameterError if the totals are malformed, or name other values than declared categories.
    """
    names = (key,) if isinstance(key, str) else tuple(key)
    for name in names:
        if name not in schema:
            raise ParameterError(
                f"public_totals names column {name!r}, which the schema does not have; the schema has: "
                f"{', '.join(schema)}"
            )
        if not schema[name].labelled or not schema[name].is_complete:
            raise ParameterError(
                f"public_totals names column {name!r}, whose levels must be declared, because each total is of one "
                "level"
            )
    if not names or len(set(names)) < len(names):
        raise ParameterError("each key of public_totals must name one or more different columns")
    if not isinstance(given, Mapping) and not hasattr(given, "items"):
        raise ParameterError(
            f"public_totals of {_listed(names)} must be a dict or Series from values to numbers of rows"
        )
    items = [(value if isinstance(value, tuple) else (value,), count) for value, count in given.items()]
    if not items or any(len(value) != len(names) for value, _ in items):
        raise ParameterError(
            f"public_totals of {_listed(names)} must have at least one entry, and in each entry one value per column"
        )
    counts = np.array([float(count) for _, count in items])
    if not np.isfinite(counts).all() or (counts < 0).any() or not counts.sum() > 0:
        raise ParameterError(f"public_totals of {_listed(names)} must be finite, at least 0 and not all 0")
    points = np.column_stack([_points(name, [value[i] for value, _ in items], schema) for i, name in enumerate(names)])
    if len(np.unique(points, axis=0)) < len(points):
        raise ParameterError(f"public_totals of {_listed(names)} has a combination of values twice: give it only once")
    return PublicTotals(names=names, points=points, counts=counts)


def _listed(names: Sequence[str]) -> str:
    """Return names of columns as text."""
    return ", ".join(map(repr, names))


def _points(name: str, values: Sequence[Any], schema: Schema) -> IntArray:
    """Return the grid points of categories, (values,).

    Raise ParameterError if a value is no releasable category of the column.
    """
    column = schema[name]
    levels: list[Any] = [value.item() if isinstance(value, np.generic) else value for value in values]
    indices = encode(column, Labels(levels, np.arange(len(levels)))).astype(np.int64)
    missing = [level is None or level != level for level in levels]
    grid = grid_of(column)
    for level, index, null in zip(levels, indices, missing, strict=True):
        if (null and grid.null is None) or (not null and level not in labels_of(column)):
            raise ParameterError(
                f"public_totals gives {level!r} for column {name!r}, which has no such level: remove the entry, or "
                "declare the level"
            )
        if index >= grid.releasable:
            raise ParameterError(
                f"public_totals gives {level!r} for column {name!r}, and no synthetic row may have this value: "
                "remove the entry"
            )
    return indices


def _margin(one: PublicTotals, names: Sequence[str]) -> dict[tuple[int, ...], float]:
    """Return the number of rows of each combination of some columns' values, where it is above 0.

    The key is a tuple of grid points.  Two totals with shared columns must agree on these counts.
    """
    found: dict[tuple[int, ...], float] = {}
    places = [one.names.index(name) for name in names]
    for point, count in zip(one.points[:, places].tolist(), one.counts.tolist(), strict=True):
        found[tuple(point)] = found.get(tuple(point), 0.0) + count
    return {point: round(count, DIGITS) for point, count in found.items() if count > 0}
