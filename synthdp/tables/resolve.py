"""What a table of any kind stands for: a source of rows, and the schema that its columns' types suggest."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol, runtime_checkable

from synthdp.errors import SchemaError
from synthdp.schema.columns import Categorical, Column
from synthdp.schema.schema import Schema
from synthdp.tables.dataframe import FrameSource
from synthdp.tables.source import Source, TextSource


@runtime_checkable
class _Typed(Source, Protocol):
    """A source whose columns have types, from which a schema can be made without a look at values."""

    def kind(self, name: str) -> Column:
        """Return the column declaration that a column's type suggests, with bounds or levels left to be discovered."""
        ...

    def can_hold(self, label: Categorical, name: str) -> bool:
        """Return whether a column's type can hold the only level of ``label``, which is its label for other values.

        A schema made from types declares the label only if the answer is True, so that synthetic tables can hold the
        label.
        """
        ...


TYPE = "the column's type"
"""The source text of a column whose dtype alone declares it completely, such as a boolean."""


def source_of(table: object, schema: Schema | None = None) -> Source:
    """Return a source of rows for any table: a source unchanged, a Spark DataFrame left where it is, others in memory.

    A file of texts has missing values where the schema's ``csv`` says so.

    Raises
    ------
    DataError
        If ``table`` is neither a source nor a dataframe.
    """
    if isinstance(table, TextSource) and schema is not None and schema.csv is not None:
        return table.with_missing(schema.csv.missing)
    if isinstance(table, Source):
        return table
    if is_spark(table):
        from synthdp.tables.sources.spark import SparkSource

        return SparkSource(table)
    return FrameSource(table)


def is_spark(table: object) -> bool:
    """Return whether a table is a Spark DataFrame, which is too large to collect here."""
    return type(table).__module__.split(".")[0] == "pyspark" and hasattr(table, "mapInArrow")


def without_nulls(schema: Schema) -> Schema:
    """Return a schema in which no column may have missing values, for models that do not take any."""
    return schema.replace({name: replace(column, nullable=False) for name, column in schema.items() if column.nullable})


def infer_schema(source: Source, *, without: str | None = None) -> Schema:
    """Return a schema from a table's column names and types, with bounds and levels undeclared; no value is looked at.

    Parameters
    ----------
    source
        Source of a dataframe, or of another table whose columns have types, such as a database's.
    without
        A column to leave out.

    Raises
    ------
    SchemaError
        If the source has no types of its own, such as a CSV file.
    """
    if not isinstance(source, _Typed) or not getattr(source, "knows_types", True):
        raise SchemaError(
            "this table does not tell the types of its columns, as a CSV file does not: give its schema, which sd.draft "
            "drafts, or read it with pandas and give the dataframe"
        )
    return Schema({name: _sourced(_kind(source, name)) for name in source.names if name != without})


def _sourced(column: Column) -> Column:
    """Return a column with its dtype as the source that receipts name, if the dtype leaves nothing to declare."""
    return replace(column, source=TYPE) if column.is_complete else column


def _kind(source: _Typed, name: str) -> Column:
    """Return the incomplete declaration that a column's dtype suggests.

    The declaration has a category "other" only if the dtype can hold that text.
    """
    column = source.kind(name)
    if not isinstance(column, Categorical) or column.other is None:
        return column
    label = replace(column, levels=(column.other,))
    return column if source.can_hold(label, name) else replace(column, other=None)
