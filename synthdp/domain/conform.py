"""Real values brought to what a column declares, one by one: clipped and checked, never rounded to a grid."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from synthdp.domain.encoder import Numbers, RawColumn, decode, encode
from synthdp.domain.grid import bounds_of, grid_of
from synthdp.schema.column import Column, is_complete


def conform(column: Column, raw: RawColumn) -> RawColumn:
    """Return values that the column may hold: numbers clipped, unforeseen labels made missing or "other".

    Identifiers, and columns without declared bounds or levels, are left unchanged.
    """
    if column.names_rows or not is_complete(column):
        return raw
    if column.quantity != "number" or not isinstance(raw, Numbers):
        return decode(column, encode(column, raw))
    grid, (lower, upper) = grid_of(column), bounds_of(column)
    clipped = np.clip(raw.values, lower, upper)
    for special in grid.special:
        clipped = np.where(raw.values == special, raw.values, clipped)
    if column.whole and clipped.dtype.kind == "f":
        clipped = np.rint(clipped)
    whole = raw.values.dtype.kind == "i"
    return replace(raw, values=clipped.astype(np.int64) if whole else clipped.astype(np.float64))
