"""Dataframes in memory, of any library that narwhals knows, as sources of rows."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from os import PathLike
from typing import Any, Protocol, cast

import narwhals as nw
import numpy as np
import pandas as pd

from synthdp.domain.encoder import Labels, RawColumn
from synthdp.errors import DataError, FormatError
from synthdp.schema.columns import (
    Boolean,
    Categorical,
    Column,
    Continuous,
    Datetime,
    Decimal,
    Duration,
    Identifier,
    Integer,
    Time,
    Untyped,
)
from synthdp.schema.numbers import MOST_DECIMALS
from synthdp.tables.refusals import instead_of, reading

_MODULES = {
    "pandas": "pandas",
    "polars": "polars",
    "polars lazy": "polars",
    "pyarrow": "arrow",
    "duckdb": "duckdb_columns",
}
"""The module of `synthdp.tables.columns` that reads and builds each library's columns."""

_EXTRAS = {"polars": "polars", "polars lazy": "polars", "pyarrow": "arrow", "duckdb": "duckdb,arrow"}
"""The optional extras of synthdp that install each library."""


class Library(Protocol):
    """The functions of a module that reads and builds columns of one dataframe library."""

    def type_names(self, frame: Any, /) -> dict[str, str]:
        """Return each column's type as text, without values or categories, which may be private."""
        ...

    def default_type(self, column: Column, /) -> str:
        """Return the name of the type in which a column is stored by default."""
        ...

    def can_be_null(self, name: str, /) -> bool:
        """Return whether columns of this type name may hold missing values; schemas of other columns are not nullable."""
        ...

    def read(self, series: Any, column: Column, /) -> RawColumn:
        """Return a column as raw values (labels or numbers), read as declared.

        What does not fit becomes missing, or a label that is no level.
        """
        ...

    def array(self, column: Column, raw: RawColumn, name: str, /) -> Any:
        """Return raw values as a column of this library, of its type called ``name``.

        Raises
        ------
        FormatError
            If the library has no type of this name, or the type cannot hold the values.
        """
        ...

    def frame(self, arrays: Mapping[str, Any], /) -> Any:
        """Return a dataframe of columns made by `array`."""
        ...


def library_named(name: str) -> Library:
    """Return the module that reads and builds columns of a dataframe library.

    Raises
    ------
    FormatError
        If ``name`` is no supported library, or the library is not installed.
    """
    if name not in _MODULES:
        raise FormatError(f"library ({name!r}) must be one of {', '.join(_MODULES)}")
    with instead_of(
        ImportError, say=FormatError(f"{name} is not installed: pip install 'synthdp[{_EXTRAS.get(name, 'arrow')}]'")
    ):
        return cast("Library", importlib.import_module(f"synthdp.tables.columns.{_MODULES[name]}"))


_DECIMAL = re.compile(r"decimal\d*\((?:precision=)?\d+, ?(?:scale=)?(?P<scale>\d+)\)", re.IGNORECASE)
"""A regular expression of a decimal type's public name in any library, from which its number of decimals is read."""


class FrameSource:
    """A source of the rows of one dataframe in memory.

    Parameters
    ----------
    table
        A dataframe of pandas, polars or pyarrow, or a lazy one (polars, DuckDB, ...), which is collected here.

    Raises
    ------
    DataError
        If it is not a dataframe, or has column names that are not texts or not different.
    """

    def __init__(self, table: object) -> None:
        self._frame = frame_of(table)
        self._declared = _types_of(nw.from_native(table))
        self.library = _library_name(table, self._frame)
        self._native = self._frame.to_native()
        if self.library == "pandas" and not isinstance(self._native, pd.DataFrame):
            self._native = self._frame.to_pandas()  # modin and its like
        types = table if self.library == "duckdb" else self._native
        self.dtypes: Mapping[str, str] = library_named(self.library).type_names(types)

    def __repr__(self) -> str:
        return f"FrameSource({self.library}, {len(self.names)} columns)"

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(self._frame.columns)

    @property
    def rows(self) -> int:
        """The number of rows, which is private under add-or-remove neighbours."""
        return len(self._frame)

    @property
    def is_empty(self) -> bool:
        """Whether there is no row at all."""
        return self.rows == 0

    @property
    def arrow_types(self) -> Mapping[str, str]:
        """Each column's Arrow type as text; none for pandas, whose types need not have one."""
        if self.library == "pandas":
            return {}
        with instead_of(ImportError, say=DataError("Arrow types need pyarrow: pip install 'synthdp[arrow]'")):
            from synthdp.tables.columns.arrow import type_names
        if not self.library.startswith("polars"):
            return type_names(self._native)
        found: dict[str, str] = {}
        for name in self.names:
            with suppress(Exception):  # a type of polars' own, such as Int128, that this Arrow does not know
                found |= type_names(self._native.select(name).head(0).to_arrow())
        return found

    def kind(self, name: str) -> Column:
        """Return an incomplete column declaration that a column's dtype suggests, with bounds or levels to be discovered.

        The function looks at the dtype only, never at a value.
        """
        nullable = library_named(self.library).can_be_null(self.dtypes[name])
        if self.dtypes[name] == "object":  # whose values narwhals would look at
            return Untyped(nullable=nullable, other="other")
        return _kind_named(self.dtypes[name]) or _kind_of(self._frame.collect_schema()[name], nullable=nullable)

    def order(self, name: str) -> tuple[Any, ...]:
        """Return the levels that a column's dtype lists in order, none for other dtypes; for drafts only.

        The levels may be private, because some libraries make a dtype of the values that occur.
        """
        dtype = self._declared[name]
        return tuple(dtype.categories) if isinstance(dtype, nw.Enum) else ()

    def can_hold(self, label: Categorical, name: str) -> bool:
        """Return whether a column's dtype can hold a label for other values, the only level of ``label``.

        A schema made from dtypes declares the label only if the answer is True.  No value of the frame is read.
        """
        with suppress(FormatError):
            levels = Labels([*(label.levels or ())], np.zeros(1, np.int64))
            library_named(self.library).array(label, levels, self.dtypes[name])
            return True
        return False

    def blocks(self, columns: Mapping[str, Column], *, extra: Sequence[str] = ()) -> Iterator[dict[str, RawColumn]]:
        """Yield the whole frame as one block: raw values (labels or numbers) by column."""
        kinds: dict[str, Column] = {name: Identifier() for name in extra} | dict(columns)
        yield {name: self._read(name, column) for name, column in kinds.items()}

    def _read(self, name: str, column: Column) -> RawColumn:
        """Return one column as raw values (labels or numbers), read as declared."""
        with reading(name):
            return library_named(self.library).read(self._native[name], column)


def frame_of(table: object) -> nw.DataFrame[Any]:
    """Return a dataframe of any library as a narwhals DataFrame, collected if it is lazy.

    Raises
    ------
    DataError
        If ``table`` is not a dataframe, or its column names are not texts or not different.
    """
    if isinstance(table, pd.DataFrame):
        _check_names(list(table.columns))
    elif type(table).__module__.split(".")[0] == "pyarrow" and hasattr(table, "column_names"):
        _check_names(list(table.column_names))
    hint = ": give CsvSource(path) or ParquetSource(path)" if isinstance(table, (str, PathLike)) else ""
    with instead_of(
        TypeError,
        say=DataError(
            f"the table must be a dataframe of pandas, polars, pyarrow or DuckDB, not of type {type(table).__name__}{hint}"
        ),
    ):
        frame = nw.from_native(table)  # type: ignore[call-overload]
    if isinstance(frame, nw.LazyFrame):
        frame = _collected(frame)
    if not isinstance(frame, nw.DataFrame):
        raise DataError(
            f"the table must be a dataframe of pandas, polars, pyarrow or DuckDB, not of type {type(table).__name__}"
        )
    return frame


def _types_of(frame: nw.DataFrame[Any] | nw.LazyFrame[Any]) -> nw.Schema:
    """Return the type of each column; raise DataError, with the column's name, if narwhals does not know a type."""
    with suppress(ValueError, TypeError):  # such as a decimal of negative scale
        return frame.collect_schema()
    for name in frame.columns:
        unknown = DataError(
            f"column {name!r} is of a type that cannot be read, such as a decimal of negative scale: convert it to another "
            "type of number or to text, or drop it"
        )
        with instead_of(ValueError, TypeError, say=unknown):
            frame.select(name).collect_schema()
    return frame.collect_schema()


def _check_names(names: list[object]) -> None:
    """Raise DataError unless all column names are texts and different."""
    if not all(isinstance(name, str) for name in names):
        raise DataError(
            "column names must be texts: rename the columns, for example by [str(name) for name in table.columns]"
        )
    repeated = sorted({str(name) for name in names if names.count(name) > 1})
    if repeated:
        raise DataError(f"column {repeated[0]!r} occurs more than once: rename or drop the other columns of this name")


def _collected(frame: nw.LazyFrame[Any]) -> nw.DataFrame[Any]:
    """Return a lazy frame in memory; raise DataError, which quotes no value, if its engine fails."""

    def say(error: BaseException) -> DataError | None:
        if isinstance(error, (KeyboardInterrupt, SystemExit, MemoryError)):
            return None
        if isinstance(error, ImportError):
            return DataError("a lazy table needs pyarrow to be collected: pip install 'synthdp[arrow]'")
        return DataError("the lazy table could not be collected: collect it first to see why")

    with instead_of(BaseException, say=say):  # any engine may fail, Rust's by a panic, and may quote a value
        return frame.collect()


def _library_name(table: object, frame: nw.DataFrame[Any]) -> str:
    """Return the name by which `library_named` knows a dataframe's library."""
    module = type(table).__module__.split(".")[0].lstrip("_")
    if module == "duckdb":
        return "duckdb"
    if frame.implementation.is_polars():
        return "polars lazy" if type(table).__name__ == "LazyFrame" else "polars"
    return "pandas" if frame.implementation.is_pandas_like() else "pyarrow"


def _kind_named(name: str) -> Column | None:
    """Return the incomplete column declaration that a type's name suggests, for types that narwhals does not know.

    Times of any zone and decimals have a declaration; ``None`` is for any other type.
    """
    inner = name.removeprefix("category[")
    if inner.startswith("datetime64["):
        return Datetime(nullable=True)
    if inner.startswith(("date32[", "date64[")):
        return Datetime(nullable=True, resolution="D")
    if inner == "INTERVAL":
        return Duration(nullable=True)
    if inner.startswith(("time32[", "time64[")) or inner in ("Time", "TIME", "TIME_NS"):
        return Time(nullable=True)
    found = _DECIMAL.match(inner)
    if found and int(found["scale"]) <= MOST_DECIMALS:
        return Decimal(nullable=True, decimals=int(found["scale"]))
    return None


def _kind_of(dtype: Any, *, nullable: bool) -> Column:
    """Return the incomplete column declaration that a narwhals dtype suggests.

    Types other than numbers, truth values and times give a categorical column with "other".
    """
    if dtype.is_integer():
        return Integer(nullable=nullable)
    if dtype.is_numeric():
        return Continuous(nullable=True)
    if dtype == nw.Boolean:
        return Boolean(nullable=nullable)
    if dtype == nw.Date:
        return Datetime(nullable=True, resolution="D")
    if dtype == nw.Datetime:
        return Datetime(nullable=True)
    if dtype == nw.Duration:
        return Duration(nullable=True)
    return Categorical(nullable=True, other="other")
