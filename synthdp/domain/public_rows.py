"""Public data, read as a schema says: rows of another table, and exact totals.  Nothing in them is protected or private."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from synthdp.arrays import FloatArray, IntArray
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.domain.encoder import RawColumn, encode
from synthdp.schema.columns import Column
from synthdp.schema.schema import Schema

UNKNOWN = -1
"""The code of a public value that is absent, or that no released row may have.  Derived: below all codes."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PublicRows:
    """The columns that a public table shares with a schema.

    Parameters
    ----------
    name
        Name of the table on a receipt.
    columns
        The raw values of each shared column.
    rows
        Number of rows.
    weight
        The most that the table counts for, in parts of its rows, 0 < weight <= 1.
    kept
        Cache of the last computation from the rows, by a digest of all its inputs.
    """

    name: str
    columns: Mapping[str, RawColumn]
    rows: int
    weight: float = 1.0
    kept: dict[bytes, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"PublicRows({self.name!r}, {self.rows} rows, {len(self.columns)} columns)"

    @property
    def effective(self) -> float:
        """The most rows as which the public table counts in an estimate: ``weight`` times its rows, at least 1."""
        return max(1.0, self.weight * self.rows)

    def codes(self, domain: Domain) -> IntArray:
        """Return the cell of every value, (rows, d); `UNKNOWN` where the table lacks it or it cannot be released."""
        found = np.full((self.rows, len(domain)), UNKNOWN, np.int64, order="F")
        for j, axis in enumerate(domain.axes):
            if axis.name in self.columns:
                cells = axis.cells_of(encode(axis.column, self.columns[axis.name])).astype(np.int64)
                found[:, j] = np.where(axis.releasable[cells], cells, UNKNOWN)
        return found

    def counts(self, axis: Axis) -> IntArray | None:
        """Return the number of public rows in each cell of an axis, (cells,); ``None`` if the table lacks the column.

        Estimates of the private column are improved by these counts.
        """
        if axis.name not in self.columns:
            return None
        return np.bincount(axis.cells_of(encode(axis.column, self.columns[axis.name])), minlength=axis.size)

    def digest(self, schema: Schema) -> str:
        """Return the SHA-256 of the shared columns as encoded by a schema, so that a receipt identifies the table."""
        found = hashlib.sha256()
        for name in sorted(self.columns):
            column: Column = schema[name]
            found.update(
                name.encode() + b"\0" + np.ascontiguousarray(encode(column, self.columns[name]), "<u8").tobytes()
            )
        return found.hexdigest()

    def note(self, schema: Schema) -> str:
        """Return the receipt's sentence on the public table."""
        shared = "all columns" if set(self.columns) == set(schema) else ", ".join(self.columns)
        bound = "" if self.weight == 1 else f", counted for at most {self.weight:g} of its rows"
        return (
            f"public: {self.name}, {self.rows} rows of {shared}{bound}, sha256 {self.digest(schema)[:16]}; it was "
            "declared public, nothing protects its rows, and the promise is for the private table alone"
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PublicTotals:
    """The exact number of rows of every combination of values of some columns.

    Parameters
    ----------
    names
        The columns.
    points
        (k, columns) grid index of each value; combinations that are not listed have no row.
    counts
        (k,) their rows, >= 0.
    """

    names: tuple[str, ...]
    points: IntArray
    counts: FloatArray

    @property
    def rows(self) -> float:
        """The number of all rows: the sum of the totals."""
        return float(self.counts.sum())

    def on(self, axis: Axis) -> FloatArray:
        """Return the public number of rows in each cell of an axis, (cells,); for totals of that one column only."""
        cells = axis.cells_of(self.points[:, 0].astype(np.uint32)).astype(np.int64)
        return np.asarray(np.bincount(cells, self.counts, minlength=axis.size), np.float64)

    def table(self, domain: Domain) -> tuple[tuple[int, ...], FloatArray]:
        """Return the columns' positions in a domain, sorted, and the rows in each cell of their table, (cells,).

        A fit and the sampled rows are made to agree with this table.
        """
        places = domain.index(*self.names)
        order = np.argsort(places, kind="stable")
        clique = tuple(places[i] for i in order)
        shape = tuple(domain.shape[j] for j in clique)
        cells = [domain.axes[places[i]].cells_of(self.points[:, i].astype(np.uint32)).astype(np.int64) for i in order]
        flat = np.ravel_multi_index(cells, shape)
        return clique, np.asarray(np.bincount(flat, self.counts, minlength=int(np.prod(shape))), np.float64)

    def note(self) -> str:
        """Return the receipt's sentence on the totals."""
        return (
            f"public totals of {' × '.join(self.names)}: {self.rows:g} rows in {len(self.counts)} cells, kept exactly; they "
            "were declared public, and nothing protects them"
        )
