"""What a column may hold: the public knowledge about one column, as frozen data.  All column types, by name.

The types are classes of `schema.numbers`, `schema.labels` and `schema.times`; what they must answer is in `schema.column`.
A column is only declared here; `synthdp.domain.grid` says which finite set of grid points its values become.  Bounds or
levels left out (``None``) are unknown: they must be discovered under part of the privacy budget before a grid exists.
"""

from __future__ import annotations

from synthdp.schema.column import (
    ALSO_DRAFTED,
    COLUMN_TYPES,
    DISCOVERED,
    DRAFTED,
    LONGEST_SOURCE,
    Column,
    Level,
    check_column,
    is_drafted,
    register,
    with_drafted,
)
from synthdp.schema.labels import Boolean, Categorical, Identifier, Ordinal, Untyped
from synthdp.schema.numbers import Continuous, Decimal, Integer
from synthdp.schema.times import RESOLUTIONS, Date, Datetime, Duration, Time
from synthdp.schema.weights import Weight

__all__ = [
    "ALSO_DRAFTED", "COLUMN_TYPES", "DISCOVERED", "DRAFTED", "LONGEST_SOURCE", "RESOLUTIONS", "Boolean",
    "Categorical", "Column", "Continuous", "Date", "Datetime", "Decimal", "Duration", "Identifier", "Integer",
    "Level", "Ordinal", "Time", "Untyped", "Weight", "check_column", "is_drafted", "register",
    "with_drafted",
]  # fmt: skip
