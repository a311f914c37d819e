"""Columns of public results as a pandas DataFrame; no private row passes here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd


class AnswerTable(pd.DataFrame):
    """A DataFrame of answers; one answer alone is a number, too."""

    def __float__(self) -> float:
        if len(self) != 1:
            raise TypeError(f"float() needs exactly one answer, not {len(self)} answers")
        return float(self["estimate"].iloc[0])


def answer_table(columns: Mapping[str, Any]) -> AnswerTable:
    """Return the table of answers, as `dataframe` makes it."""
    return AnswerTable(dataframe(columns))


def dataframe(columns: Mapping[str, Any]) -> pd.DataFrame:
    """Return a table of columns of one length; their names differ, as keys do."""
    return pd.DataFrame({name: _column(values) for name, values in columns.items()})


def _column(values: Any) -> Any:
    """Return values as a pandas column; objects if one of them is None, which stays None."""
    return pd.Series(values, dtype=object) if isinstance(values, list) and None in values else values
