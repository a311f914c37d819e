"""Whether the keys of two tables can be equal at all, by the types of their columns."""

from __future__ import annotations

from collections.abc import Mapping

from synthdp.errors import DataError
from synthdp.schema.columns import Column, Untyped
from synthdp.schema.database import DatabaseSchema
from synthdp.tables.source import Source


def check_key_types(schema: DatabaseSchema, sources: Mapping[str, Source]) -> None:
    """Refuse keys of which one column holds numbers and another texts: no row would belong to any other.

    Looks at types only.

    Raises
    ------
    DataError
        Naming the tables and the key.
    """
    for relation in schema.relations:
        for key in schema.keys_of(relation.child):
            if key not in schema.keys_of(relation.parent):
                continue
            above, below = (_kind(sources[name], key) for name in (relation.parent, relation.child))
            if above is not None and below is not None and above != below:
                raise DataError(
                    f"key {key!r} is of type {above} in table {relation.parent!r} and of type {below} in "
                    f"{relation.child!r}: no rows would join; convert one of them"
                )


def _kind(source: Source, name: str) -> str | None:
    """Return what a column's type holds; ``None`` if it may hold anything."""
    kind_of = getattr(source, "kind", None)
    kind: Column | None = None if kind_of is None else kind_of(name)
    if kind is None or isinstance(kind, Untyped):
        return None
    return kind.quantity
