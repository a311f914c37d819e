"""Persons with their rows as one table: a column for each value of each row, for models that take features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals as nw
import pandas as pd

from synthdp.errors import ParameterError
from synthdp.schema.database import DatabaseSchema, database_schema_given


def with_history(tables: Mapping[str, Any], schema: Any) -> pd.DataFrame:
    """Return one row for each person: the root table's columns, and the columns of each child row, in order.

    Models that take feature vectors can then be trained on it.  The result is a pandas DataFrame, NOT private if the
    tables are not.  Columns are named ``table[1].column``, ``table[2].column``, ...; columns of a row that a person
    does not have are missing.  ``table.rows`` is the number of rows.  The key is the index.  Without a key of persons,
    the root table is returned unchanged.

    Parameters
    ----------
    tables
        The tables by name, real or synthetic.
    schema
        The tables' `DatabaseSchema`, a reviewed draft, or a schema's path.  Rows beyond ``at_most`` are left out.

    Raises
    ------
    ParameterError
        If the schema has a child of a child, which has no place in one table.
    """
    schema = database_schema_given(schema)
    if any(relation.parent != schema.root for relation in schema.relations):
        raise ParameterError(
            "histories are for schemas in which every table is a child of the table of persons: use the separate "
            "tables instead"
        )
    wide = _pandas(tables[schema.root])
    if not schema.person_keys:
        return wide
    wide = wide.set_index([*schema.person_keys])
    parts: list[pd.DataFrame] = [wide]
    for relation in schema.relations:
        child = _pandas(tables[relation.child])
        if relation.order is not None:
            place = {level: i for i, level in enumerate(_levels(schema, relation.child, relation.order))}
            by = child[relation.order].map(place) if place else child[relation.order]
            child = child.iloc[by.argsort(kind="stable")]
        child = child.assign(**{"#": child.groupby([*relation.keys]).cumcount() + 1})
        child = child[child["#"] <= relation.at_most]
        many = child.groupby([*relation.keys]).size().reindex(wide.index, fill_value=0)
        parts.append(pd.DataFrame({f"{relation.child}.rows": many}))
        for rank in range(1, relation.at_most + 1):
            one = child[child["#"] == rank].drop(columns="#").set_index([*relation.keys])
            parts.append(one.reindex(wide.index).add_prefix(f"{relation.child}[{rank}]."))
    return pd.concat(parts, axis=1)


def _levels(schema: DatabaseSchema, table: str, column: str) -> list[Any]:
    """Return a column's levels, by which its labels get their order; none for numbers."""
    kind = schema.tables[table][column]
    return list(getattr(kind, "levels", None) or [])


def _pandas(table: Any) -> pd.DataFrame:
    """Return a dataframe of any library as a pandas DataFrame with a fresh index."""
    found: pd.DataFrame = nw.from_native(table).lazy().collect().to_pandas()
    return found.reset_index(drop=True)
