"""The outer form of a table: library, column types and their order, so that a synthetic table looks like the real one.

Types and names are public; nothing here holds a value of a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from synthdp.domain.encoder import RawColumn, decode
from synthdp.domain.grid import grid_of
from synthdp.errors import DataError, FormatError
from synthdp.schema.column import Column
from synthdp.schema.schema import Schema
from synthdp.tables.columns.library import library_named
from synthdp.tables.columns.plain import without_misfits
from synthdp.tables.refusals import instead_of
from synthdp.tables.source import ArrowTyped, Source
from synthdp.tables.sources.dataframe import FrameSource


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFormat:
    """The library and the column types of a table.

    Parameters
    ----------
    library
        ``"pandas"``, ``"polars"``, ``"polars lazy"``, ``"pyarrow"`` or ``"duckdb"``.
    dtypes
        The public name of each column's type, in the order of the columns.  Categories are no part of it: they are the
        levels of the schema.
    arrow
        The public name of the Arrow type of each column of a source that knows them: what Parquet and Arrow files of
        synthetic rows have.
    """

    library: str
    dtypes: tuple[tuple[str, str], ...]
    arrow: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, source: Source, schema: Schema) -> TableFormat:
        """Return the form of a table, for the columns of a schema; of a file, pandas with suitable types.

        Looks at names and types only.

        Raises
        ------
        DataError
            If a column's type cannot hold what the schema declares for it, so that nothing is spent in vain.
        """
        arrow = tuple((name, one) for name, one in arrow_types(source).items() if name in schema)
        if not isinstance(source, FrameSource):
            order = [name for name in source.names if name in schema]
            default = dict(cls.default(Schema({name: column.example() for name, column in schema.items()})).dtypes)
            return cls(library="pandas", dtypes=tuple((name, default[name]) for name in order), arrow=arrow)
        form = cls(
            library=source.library,
            dtypes=tuple((name, source.dtypes[name]) for name in source.names if name in schema),
            arrow=arrow,
        )
        for name, dtype in form.dtypes:
            column = schema[name].example()
            why = why_not(form.library, column, dtype)
            if why is not None:
                raise DataError(
                    f"column {name!r} of type {dtype} cannot be released as declared, {type(column).__name__}: {why}; "
                    "declare another kind, convert the column, or drop it"
                )
        return form

    @classmethod
    def default(cls, schema: Schema, *, library: str = "pandas") -> TableFormat:
        """Return a library with the types that suit a schema."""
        suits = library_named(library).default_type
        return cls(library=library, dtypes=tuple((name, suits(column)) for name, column in schema.items()))

    def for_files(self, schema: Schema, *, library: str) -> TableFormat:
        """Return the format of files whose frames are of a library: Arrow's own types, where those are known and fit.

        Dictionaries of numbers become numbers: their values would differ from block to block.
        """
        form = TableFormat.default(schema, library=library).in_order([name for name, _ in self.dtypes])
        if library != "pyarrow":
            return form
        known = {name: one.removesuffix(" not null") for name, one in self.arrow if name in schema}
        fit = {
            name: one
            for name, one in known.items()
            if (schema[name].labelled or not one.startswith("dictionary<"))
            and why_not("pyarrow", schema[name], one) is None
        }
        return replace(form, dtypes=tuple((name, fit.get(name, dtype)) for name, dtype in form.dtypes))

    def in_order(self, names: Sequence[str]) -> TableFormat:
        """Return the same format with the columns in another order."""
        dtypes = dict(self.dtypes)
        return replace(self, dtypes=tuple((name, dtypes[name]) for name in names))

    def without_impossible_nulls(self, schema: Schema) -> Schema:
        """Return a schema in which columns whose types cannot hold a missing value are not nullable."""
        can_be_null = library_named(self.library).can_be_null
        full = {name for name, dtype in self.dtypes if schema[name].nullable and not can_be_null(dtype)}
        return schema.replace({name: replace(schema[name], nullable=False) for name in full}) if full else schema

    def suited(self, schema: Schema) -> TableFormat:
        """Return the format of a complete schema's columns in this order, each of the type that suits it if its own cannot.

        Never refuses: what was discovered must come out.
        """
        suits = library_named(self.library).default_type
        types = {name: dtype for name, dtype in self.dtypes if name in schema}
        types |= {name: suits(column) for name, column in schema.items() if name not in types}
        held = {name: why_not(self.library, schema[name], dtype) is None for name, dtype in types.items()}
        return replace(self, dtypes=tuple((name, types[name] if held[name] else suits(schema[name])) for name in types))

    def build(self, schema: Schema, columns: Mapping[str, RawColumn]) -> Any:
        """Return a table in this format from raw columns of the schema.

        A missing value in a pandas column of numpy whole numbers or booleans, which cannot hold one, makes that
        column's type the nullable one of the same size.

        Raises
        ------
        FormatError
            If the library is not installed, or knows no such type, or the type cannot hold the column.
        """
        library = library_named(self.library)
        arrays = {}
        for name, dtype in self.dtypes:
            with instead_of(FormatError, say=partial(_not_makeable, name, dtype)):
                arrays[name] = library.array(schema[name], without_misfits(columns[name]), dtype)
        return library.frame(arrays)

    def to_document(self) -> dict[str, Any]:
        """Return the format as a JSON document."""
        plain: dict[str, Any] = {"library": self.library, "dtypes": [list(pair) for pair in self.dtypes]}
        return plain | ({"arrow": [list(pair) for pair in self.arrow]} if self.arrow else {})

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> TableFormat:
        """Read a format from its JSON document.

        Raises
        ------
        FormatError
            If it has another shape.
        """
        unlike = FormatError("a table format must name a library and its column types")
        with instead_of(KeyError, TypeError, ValueError, AttributeError, say=unlike):
            dtypes = tuple((str(name), str(dtype)) for name, dtype in document["dtypes"])
            arrow = tuple((str(name), str(one)) for name, one in document.get("arrow", ()))
            return cls(library=str(document["library"]), dtypes=dtypes, arrow=arrow)


def _not_makeable(name: str, dtype: str, error: BaseException) -> FormatError:
    return FormatError(f"column {name!r} cannot be made of type {dtype}: {error}")


def arrow_types(source: Source) -> Mapping[str, str]:
    """Return the Arrow types of a source that knows them; none where pyarrow is not there to tell."""
    try:
        return source.arrow_types if isinstance(source, ArrowTyped) else {}
    except DataError:
        return {}


def why_not(library: str, column: Column, dtype: str) -> str | None:
    """Return why a type cannot hold what a column may release, or ``None`` if it can."""
    try:
        library_named(library).array(column, _sample(column), dtype)
    except FormatError as error:
        return str(error)
    return None


def _sample(column: Column) -> RawColumn:
    """Return a few values that a released column may have, from its declaration alone."""
    grid = grid_of(column)
    units = [0, grid.regular - 1, *range(grid.regular, grid.regular + len(grid.special))]
    return decode(column, np.array(units, np.uint64))
