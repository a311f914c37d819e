"""Lazy frames of polars: columns as in `polars_columns`, and a lazy frame at the end."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from synthdp.tables.columns.polars import array, can_be_null, default_type, read, type_names

__all__ = ["array", "can_be_null", "default_type", "frame", "read", "type_names"]


def frame(arrays: Mapping[str, pl.Series]) -> pl.LazyFrame:
    """Return a LazyFrame of the series from `array`, because the private table was lazy too."""
    return pl.LazyFrame(dict(arrays))
