"""The source of rows that a table, whatever it is, stands for."""

from __future__ import annotations

from synthdp.schema.schema import Schema
from synthdp.tables.source import Source, TextSource
from synthdp.tables.sources.dataframe import FrameSource


def source_of(table: object, schema: Schema | None = None) -> Source:
    """Return a source unchanged, and a dataframe as a source: Spark's where it lies, any other in memory.

    A file of texts has missing values where the schema's ``csv`` says so.

    Raises
    ------
    DataError
        If it is none of these.
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
    """Say whether a table is a Spark DataFrame, which must not be collected."""
    return type(table).__module__.split(".")[0] == "pyspark" and hasattr(table, "mapInArrow")
