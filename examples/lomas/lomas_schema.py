"""The metadata of a data set of lomas as a schema of synthdp: both are public knowledge about a private table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def schema_of(metadata: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the document of a schema with these columns.

    Raises
    ------
    ValueError
        If the metadata say too little of a column: a text without its categories.
    """
    return {"synthdp_schema": 1, "columns": [column(name, metadata["columns"][name]) for name in names]}


def column(name: str, said: Mapping[str, Any]) -> dict[str, Any]:
    """One column of the document; its source is the metadata, which the platform's administrator answers for."""
    known: dict[str, Any] = {"name": name, "nullable": bool(said.get("nullable")), "source": "metadata of lomas"}
    if "categories" in said:
        return known | {"type": "categorical", "levels": list(said["categories"])}
    kind = str(said["type"])
    if kind == "boolean":
        return known | {"type": "boolean"}
    bounds = {"lower": said.get("lower"), "upper": said.get("upper")}
    if kind == "datetime":
        return known | {"type": "datetime"} | {side: bound.isoformat() for side, bound in bounds.items()}
    if kind in ("int", "float"):
        return known | {"type": "integer" if kind == "int" else "continuous"} | bounds
    raise ValueError(
        f"column '{name}' is text without categories: name them in its metadata, or leave it out of select_cols"
    )


def unit_of(metadata: Mapping[str, Any]) -> tuple[str | None, int]:
    """Return the column that names a person, if one is marked, and the rows that a person may have.

    Raises
    ------
    ValueError
        If a person may have several rows and no column says whose they are.
    """
    private = [name for name, said in metadata["columns"].items() if said.get("private_id")]
    at_most = 1 if metadata.get("row_privacy") else int(metadata["max_ids"])
    if not private and at_most > 1:
        raise ValueError(
            f"a person may have {at_most} rows, and no column of the metadata is the private_id that names the person"
        )
    return (private[0] if private and not metadata.get("row_privacy") else None), at_most
