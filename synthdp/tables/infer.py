"""A schema from column names and types alone, with all bounds and levels left open."""

from __future__ import annotations

from dataclasses import replace

from synthdp.errors import SchemaError
from synthdp.schema.columns import Categorical, Column, is_complete
from synthdp.schema.schema import Schema
from synthdp.tables.format import why_not
from synthdp.tables.source import Source
from synthdp.tables.sources.dataframe import FrameSource

TYPE = "the column's type"
"""The source of a column whose type leaves nothing open."""


def without_nulls(schema: Schema) -> Schema:
    """Return a schema in which no value may be missing."""
    return schema.replace({name: replace(column, nullable=False) for name, column in schema.items() if column.nullable})


def infer_schema(source: Source, *, without: str | None = None) -> Schema:
    """Return a schema whose names and kinds come from a dataframe's columns and types; no value is looked at.

    Parameters
    ----------
    source
        A dataframe's source.
    without
        A column to leave out.

    Raises
    ------
    SchemaError
        If the source has no types of its own, such as a CSV file.
    """
    if not isinstance(source, FrameSource):
        raise SchemaError("a schema must be given for a table that is not a dataframe")
    return Schema({name: _sourced(_kind(source, name)) for name in source.names if name != without})


def _sourced(column: Column) -> Column:
    return replace(column, source=TYPE) if is_complete(column) else column


def _kind(source: FrameSource, name: str) -> Column:
    """Return the kind that a column's type suggests; a label for other values only where the type can hold a text."""
    column = source.kind(name)
    if not isinstance(column, Categorical) or column.other is None:
        return column
    label = replace(column, levels=(column.other,))
    return column if why_not(source.library, label, source.dtypes[name]) is None else replace(column, other=None)
