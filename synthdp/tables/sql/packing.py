"""Grid indices packed into whole numbers of 64 bits where the rows are, and unpacked here: a tenth of the bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from synthdp.arrays import AnyArray, GridIndices, narrow
from synthdp.domain.grid import grid_of
from synthdp.schema.schema import Schema
from synthdp.tables.sql.encoding import Stages

MOST_PACKED = 2**62
"""Combinations of grid indices that one whole number holds."""


def packs_of(schema: Schema, names: Sequence[str]) -> list[list[str]]:
    """Divide columns into as few packs as hold them, in order.

    Parameters
    ----------
    schema
        Their declarations.
    names
        The columns.
    """
    packs: list[list[str]] = []
    room = 0
    for name in names:
        size = grid_of(schema[name]).size
        if room < size:
            packs.append([])
            room = MOST_PACKED
        packs[-1].append(name)
        room //= size
    return packs


def packed_sql(schema: Schema, stages: Mapping[str, Stages], pack: Sequence[str]) -> str:
    """Return the whole number of a pack, as SQL over what each column's stages computed."""
    flat = f"CAST({stages[pack[0]].index} AS bigint)"
    for name in pack[1:]:
        flat = f"({flat} * {grid_of(schema[name]).size} + {stages[name].index})"
    return flat


def unpacked(packed: AnyArray, schema: Schema, pack: Sequence[str]) -> dict[str, GridIndices]:
    """Return the grid indices of a pack's columns, by name.

    Parameters
    ----------
    packed
        (n,) whole numbers.
    schema
        The declarations.
    pack
        The columns.
    """
    found = {}
    for name in pack[:0:-1]:
        size = grid_of(schema[name]).size
        rest = packed // size
        found[name] = narrow(packed - rest * size, size)
        packed = rest
    return found | {pack[0]: narrow(packed, grid_of(schema[pack[0]]).size)}
