"""DuckDB as a source of rows: a relation, or a table of a database file; marginals are counted inside DuckDB.

The cell of a value is written as SQL whose comparisons are exact: the ends of cells are found by asking the encoder, so
that DuckDB's counts are the very integers that the encoder gives.  Where that cannot be promised, rows come in blocks.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from synthdp.arrays import AnyArray, Clique, Totals
from synthdp.domain.axis import Axis
from synthdp.domain.encoder import Numbers, RawColumn, encode
from synthdp.domain.grid import grid_of, labels_of
from synthdp.errors import DataError
from synthdp.queries.marginals import counted_tables, margin_of
from synthdp.queries.protocol import Statistic
from synthdp.schema.columns import Categorical, Column, Identifier
from synthdp.schema.schema import Schema
from synthdp.tables.columns.arrow import read_all, type_names
from synthdp.tables.dataframe import FrameSource
from synthdp.tables.refusals import instead_of
from synthdp.tables.source import BLOCK_ROWS, Bound
from synthdp.tables.sql.catalogue import identities
from synthdp.tables.sql.counting import binary_search
from synthdp.tables.sql.links import DuckDBLink

SETS_A_QUERY = 40
"""Marginals that one SQL query counts in one pass over the rows.  A safety limit of memory: more take fewer passes."""

MOST_LEVELS = 256
"""Most levels of a column that is translated to SQL, where each is a comparison; with more, rows are counted here.  A
safety limit."""

_WHOLE = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"})
"""DuckDB's integer types whose values fit in 64 signed bits, so that SQL bins them exactly, as BIGINT."""

_REAL = frozenset({"FLOAT", "DOUBLE"})
"""DuckDB's floating-point types, which SQL bins exactly, as DOUBLE."""

_FIRST_WHOLE, _LAST_WHOLE = -(2**63), 2**63 - 1
"""The smallest and the largest 64-bit integer, between which the first value of each bin is searched."""


MOST_RUNS = 1024
"""Most intervals of grid points in a column's binning that is translated to SQL; with more, DuckDB would take minutes,
and rows are counted here.  A safety limit."""


class DuckDBSource:
    """A source of the rows of a DuckDB relation, or of a table in a database file.

    Parameters
    ----------
    table
        A relation, as ``duckdb.sql("from adult")`` gives it, which must give the same rows whenever it is asked; or the
        path of a database file, which is opened for reading only.
    name
        The table's name, if ``table`` is a file of several.
    push_down
        Count marginals inside DuckDB at every question, so that no row comes here; otherwise rows are encoded once and
        kept, on disk if they are many, which is faster when many questions are asked.

    Raises
    ------
    DataError
        If there is no such file or table.
    """

    def __init__(self, table: Any, *, name: str | None = None, push_down: bool = False) -> None:
        self._connection: Any = None
        self._relation = table
        if isinstance(table, (str, PathLike)):
            self._connection, self._relation = _opened(table, name)
        if not isinstance(self._relation, duckdb.DuckDBPyRelation):
            raise DataError(
                f"the table must be a DuckDB relation, or the path of a DuckDB file, not {type(table).__name__}"
            )
        self._push_down = push_down

    def __repr__(self) -> str:
        return f"DuckDBSource({len(self.names)} columns)"

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(self._relation.columns)

    @property
    def arrow_types(self) -> Mapping[str, str]:
        """Each column's Arrow type as text."""
        with _asking():
            return type_names(self._relation.limit(0).to_arrow_table())

    @property
    def address(self) -> None:
        """``None``: `identities` gives texts for the tables of a file instead."""

    def identities(self) -> tuple[str, ...]:
        """Return texts by which DuckDB identifies the stored tables of the rows; () for a relation.

        A relation does not tell its tables.  Two sources with a text in common have a table in common, which synthetic
        rows must not replace.
        """
        if self._connection is None:
            return ()
        with _asking():
            return identities(DuckDBLink(self._connection), _quoted(self._relation.alias), "")

    def kind(self, name: str) -> Column:
        """Return an incomplete column declaration that a column's type suggests; see `FrameSource.kind`."""
        return self._typed(name).kind(name)

    def can_hold(self, label: Categorical, name: str) -> bool:
        """Return whether a column's type can hold a label for other values, the only level of ``label``.

        A schema made from types declares the label only if the answer is True; see `FrameSource.can_hold`.
        """
        return self._typed(name).can_hold(label, name)

    def _typed(self, name: str) -> FrameSource:
        """Return an empty table of one column, of the column's Arrow type, from which a declaration is suggested."""
        with _asking():
            return FrameSource(self._relation.project(_quoted(name)).limit(0).to_arrow_table())

    @property
    def is_empty(self) -> bool:
        """Whether there is no row at all."""
        with _asking():
            return len(self._relation.limit(1).fetchall()) == 0

    def blocks(self, columns: Mapping[str, Column], *, extra: Sequence[str] = ()) -> Iterator[dict[str, RawColumn]]:
        """Yield all rows in blocks, each a dict of raw values (labels or numbers) by column; see `Source.blocks`."""
        kinds: dict[str, Column] = {name: Identifier() for name in extra} | dict(columns)
        empty = True
        with _asking():
            reader = self._relation.project(", ".join(map(_quoted, kinds))).to_arrow_reader(BLOCK_ROWS)
            for batch in reader:
                empty = False
                yield read_all(batch.columns, kinds)
        if empty:
            yield read_all(reader.schema.empty_table().columns, kinds)

    def sums(
        self, statistic: Statistic, schema: Schema, *, unit: str | None = None, bound: Bound | None = None
    ) -> Totals | None:
        """Return exact marginals, flattened and concatenated, (cells of all marginals,), counted inside DuckDB.

        ``None`` for other statistics, types that SQL cannot bin exactly, or with a privacy unit; rows are then fetched.
        """
        marginals = counted_tables(statistic)
        if not self._push_down or marginals is None or unit is not None or bound is not None:
            return None
        used = sorted({j for clique in marginals.cliques for j in clique})
        cells = {j: self._cell(marginals.domain.axes[j], schema) for j in used}
        known = {j: sql for j, sql in cells.items() if sql is not None}
        if len(known) < len(cells):
            return None
        wanted = sorted({tuple(sorted(clique)) for clique in marginals.cliques})
        tables: dict[Clique, AnyArray] = {}
        with _asking():
            for start in range(0, len(wanted), SETS_A_QUERY):
                tables |= self._count(wanted[start : start + SETS_A_QUERY], known, marginals.domain.shape)
        return np.concatenate([margin_of(tables[tuple(sorted(c))], tuple(sorted(c)), c) for c in marginals.cliques])

    def forget(self) -> None:
        """Do nothing: DuckDB holds the rows, and this source keeps none."""

    def _count(self, sets: Sequence[Clique], cells: Mapping[int, str], shape: Sequence[int]) -> dict[Clique, AnyArray]:
        """Return exact marginals, in rows, by columns: an array (bins of each column), from one pass over the rows.

        ``sets`` are the marginals' columns, ``cells`` the SQL of each column's bin, ``shape`` the numbers of bins.
        """
        used = sorted({j for columns in sets for j in columns})
        inner = self._relation.project(", ".join(f"{cells[j]} AS c{j}" for j in used))
        groups = ", ".join(f"({', '.join(f'c{j}' for j in columns)})" for columns in sets)
        which = " || ".join(f"GROUPING(c{j})" for j in used)
        cell = ", ".join(f"coalesce(c{j}, 0) AS c{j}" for j in used)
        coded = f"coded_{uuid.uuid4().hex}"  # no name that the relation itself may ask for
        question = f"SELECT {which} AS which, {cell}, count(*) AS n FROM {coded} GROUP BY GROUPING SETS ({groups})"  # noqa: S608
        found = inner.query(coded, question)
        answer = found.fetchnumpy()
        tables = {}
        texts = np.asarray(answer["which"]).astype(str)
        for columns in sets:
            mine = texts == "".join("0" if j in columns else "1" for j in used)
            table = np.zeros([shape[j] for j in columns], np.int64)
            table[tuple(np.asarray(answer[f"c{j}"])[mine].astype(np.int64) for j in columns)] = answer["n"][mine]
            tables[columns] = table
        return tables

    def _cell(self, axis: Axis, schema: Schema) -> str | None:
        """Return SQL for the bin of a row's value in a column, or ``None`` if it could differ from the encoder's bin."""
        kind = str(self._relation.types[self.names.index(axis.name)])
        column, value = schema[axis.name], _quoted(axis.name)
        if column != axis.column or len(axis.starts) > MOST_RUNS:
            return None
        match column.quantity:
            case "number" if kind in _REAL:
                return _number_cell(axis, f"CAST({value} AS DOUBLE)", real=True)
            case "number" if kind in _WHOLE:
                return _number_cell(axis, f"CAST({value} AS BIGINT)", real=False)
            case "moment" if kind == "DATE":
                return _number_cell(axis, _moment_of_date(value), real=False)
            case "moment" if kind == "TIMESTAMP":
                return _number_cell(axis, value, real=False)
            case "truth" if kind == "BOOLEAN":
                return _level_cell(axis, value, {False: "false", True: "true"})
            case "label" if kind == "VARCHAR":
                levels = labels_of(column)
                if len(levels) > MOST_LEVELS or not all(isinstance(level, str) for level in levels):
                    return None
                return _level_cell(axis, value, {level: "'" + str(level).replace("'", "''") + "'" for level in levels})
        return None


def _moment_of_date(value: str) -> str:
    """Return SQL for the first moment of a date, clipped to the years 1 to 9999 that a column may declare."""
    return (
        f"CASE WHEN {value} < DATE '0001-01-01' THEN TIMESTAMP '0001-01-01' "
        f"WHEN {value} > DATE '9999-12-31' THEN TIMESTAMP '9999-12-31 23:59:59.999999' ELSE CAST({value} AS TIMESTAMP) END"
    )


def _level_cell(axis: Axis, value: str, literals: Mapping[Any, str]) -> str:
    """Return SQL for the bin of a value among a column's levels.

    Missing values of a nullable column have their own bin.  Values that are no level, and missing values of any other
    column, are in the bin "other" or "out of domain".  ``literals`` has the SQL of each level, in the column's order.
    """
    grid = axis.grid
    null, other = _cell_of(axis, grid.other if grid.null is None else grid.null), _cell_of(axis, grid.other)
    whens = " ".join(f"WHEN {literal} THEN {_cell_of(axis, index)}" for index, literal in enumerate(literals.values()))
    return f"CASE WHEN {value} IS NULL THEN {null} ELSE CASE {value} {whens} ELSE {other} END END"


def _number_cell(axis: Axis, value: str, *, real: bool) -> str:
    """Return SQL for the bin of a number or moment, by comparisons with the first value of each interval of the binning."""
    column, grid = axis.column, axis.grid
    runs = axis.starts < grid.regular
    first = _first_values(column, axis.starts[runs][1:], real=real)
    moment = column.quantity == "moment"
    literals = [
        f"make_timestamp({x})" if moment else f"CAST('{x!r}' AS {'DOUBLE' if real else 'BIGINT'})" for x in first
    ]
    null = _cell_of(axis, grid.other if grid.null is None else grid.null)
    regular = binary_search(value, literals, axis.cells[runs].tolist())
    for i, special in enumerate(grid.special):
        exact = column.whole and not real
        equal = f"{value} = " + (
            f"CAST({int(special)} AS BIGINT)" if exact else f"CAST('{float(special)!r}' AS DOUBLE)"
        )
        regular = f"CASE WHEN {equal} THEN {_cell_of(axis, grid.regular + i)} ELSE {regular} END"
    missing = f"{value} IS NULL OR isnan({value})" if real else f"{value} IS NULL"
    return f"CASE WHEN {missing} THEN {null} ELSE {regular} END"


def _first_values(column: Column, indices: AnyArray, *, real: bool) -> list[Any]:
    """Return for each of some grid indices the smallest value whose grid index is at least as large, by bisection.

    The encoder itself is evaluated, so that comparisons in SQL with these values give the encoder's bins.  ``real``
    tells floats from integers.
    """
    plain = replace(column, special=()) if grid_of(column).special else column
    low = np.full(len(indices), _key(-math.inf) if real else _FIRST_WHOLE, object)
    high = np.full(len(indices), _key(math.inf) if real else _LAST_WHOLE, object)
    while len(indices) and (low < high).any():
        middle = (low + high) // 2
        values = np.array([_real(int(m)) for m in middle]) if real else middle.astype(np.int64)
        reached = encode(plain, Numbers(values)) >= indices
        high, low = np.where(reached, middle, high), np.where(reached, low, middle + 1)
    return [_real(int(key)) if real else int(key) for key in low]


def _key(value: float) -> int:
    """Return an integer for a float such that integers have the order of floats, so that floats can be bisected."""
    bits = int(np.float64(value).view(np.int64))
    return bits if bits >= 0 else -(bits & (2**63 - 1))


def _real(key: int) -> float:
    """Return the float of an integer key: the inverse of `_key`, by which a bisection over integers finds floats."""
    return float(np.int64(abs(key)).view(np.float64)) * (1.0 if key >= 0 else -1.0)


def _cell_of(axis: Axis, index: int) -> int:
    """Return the bin of a grid index: levels, special values and missing values have constant bins in the SQL."""
    return int(axis.cells[np.searchsorted(axis.starts, index, side="right") - 1])


def _opened(path: str | PathLike[str], name: str | None) -> tuple[Any, Any]:
    """Return a connection to a DuckDB file, for reading, and a table; raise DataError if the file has no such table."""
    if not Path(path).is_file():
        raise DataError(f"there is no file '{path}': correct the path")
    with _asking():
        connection = duckdb.connect(str(path), read_only=True)
        tables = [row[0] for row in connection.execute("SELECT table_name FROM information_schema.tables").fetchall()]
        if name is None and len(tables) == 1:
            name = str(tables[0])
        if name is None or name not in tables:
            raise DataError(f"name ({name!r}) must be one of the tables in '{path}': {', '.join(sorted(tables))}")
        return connection, connection.table(_quoted(name))


def _quoted(name: str) -> str:
    """Return a name in double quotes, as SQL needs."""
    return '"' + name.replace('"', '""') + '"'


def _asking() -> AbstractContextManager[None]:
    """Return a context manager that turns DuckDB's errors, which may quote values, into one sentence."""
    return instead_of(
        duckdb.Error,
        pa.ArrowException,
        say=DataError("DuckDB could not read the table: run the query in DuckDB itself to see why"),
    )
