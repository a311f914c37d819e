"""Columns of public results as a pandas DataFrame; no private row passes here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd


class AnswerTable(pd.DataFrame):
    """A DataFrame of released answers; with a single answer it converts to a float."""

    def __float__(self) -> float:
        if len(self) != 1:
            raise TypeError(f"float() needs a result of exactly one answer, not of {len(self)} answers")
        return float(self["estimate"].iloc[0])


def answer_table(columns: Mapping[str, Any]) -> AnswerTable:
    """Return columns of released answers as an `AnswerTable`."""
    return AnswerTable(dataframe(columns))


def dataframe(columns: Mapping[str, Any]) -> pd.DataFrame:
    """Return a DataFrame of columns of equal length; ``None`` stays ``None``, which pandas would turn into NaN."""
    return pd.DataFrame({name: _column(values) for name, values in columns.items()})


def _column(values: Any) -> Any:
    """Return values for a DataFrame column, as objects if ``None`` is among them, which pandas would turn into NaN."""
    return pd.Series(values, dtype=object) if isinstance(values, list) and None in values else values
