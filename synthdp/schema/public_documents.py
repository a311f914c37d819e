"""Schema documents from a published description of a table: a JSON Schema, or a data dictionary.  No row is read.

If the publication states no bound or list of levels, it stays undeclared, with a comment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from synthdp.errors import FormatError, SchemaError
from synthdp.schema.csv_format import CsvFormat
from synthdp.schema.schema_json import VERSION, csv_document

Entry: TypeAlias = dict[str, Any]

LEVEL_SEPARATOR = "|"
"""The separator of a column's levels in one cell of a data dictionary."""

_WHOLE = re.compile(r"[+-]?(0|[1-9]\d{0,17})")
"""A regular expression of integers, of up to 18 digits, which 64 bits hold; with a leading zero, "007" is a code."""

_TYPE_NAMES = {
    "continuous": "continuous float number real double numeric decimal",
    "integer": "integer int whole long",
    "categorical": "categorical category factor string str text char enum nominal",
    "ordinal": "ordinal ordered",
    "boolean": "boolean bool logical flag",
    "datetime": "datetime date timestamp date-time",
    "duration": "duration timedelta interval",
    "identifier": "identifier id key uuid",
}
"""The words that data dictionaries use for each column type."""

_KINDS = {alias: kind for kind, aliases in _TYPE_NAMES.items() for alias in aliases.split()}
"""The column type that each word of a data dictionary means."""

_TRUTH = {
    "true": True,
    "yes": True,
    "1": True,
    "y": True,
    "false": False,
    "no": False,
    "0": False,
    "n": False,
    "": False,
}
"""The meaning of words in the ``nullable`` column of a data dictionary; an empty cell means no."""

_DICTIONARY_FIELDS = ("name", "type", "min", "max", "levels", "nullable", "description", "source")
"""The columns of a data dictionary that are read."""

JSON_SCHEMA, DATA_DICTIONARY = "a published JSON Schema", "a published data dictionary"
"""Texts that receipts show as the source of a column's declaration."""


def whole_number(text: str) -> int | None:
    """Return the integer that a text writes, or ``None``; texts with leading zeros are codes: "007" is not 7."""
    return int(text) if _WHOLE.fullmatch(text) else None


def document_of(entries: Sequence[Entry], *, comment: str, csv: CsvFormat | None = None) -> dict[str, Any]:
    """Return a schema document of some columns, with a comment at its top for people who review it."""
    written = {} if csv is None else {"csv": csv_document(csv)}
    return {"synthdp_schema": VERSION, "comment": comment, **written, "columns": list(entries)}


def from_json_schema(text: str, *, source: str) -> dict[str, Any]:
    """Return the schema document of a published JSON Schema that describes one row, or a list of rows.

    Parameters
    ----------
    text
        JSON: an object with ``properties``, or an array whose ``items`` are one.  Understood are ``integer`` and
        ``number`` with their limits, ``enum``, ``const``, ``boolean``, ``string`` with the format ``date``, ``date-time``
        or ``uuid``, ``null`` among types or alternatives, ``required``, and ``$ref`` within the document.
    source
        Name of the document in error messages.

    Raises
    ------
    FormatError
        If it is not such a document.
    SchemaError
        If a property is of a kind that no column has, such as an object.
    """
    try:
        document = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise FormatError(
            f"{source} is not valid JSON (line {getattr(error, 'lineno', '?')}): correct the file"
        ) from None
    row = _resolved(document, document, source)
    if row.get("type") == "array" or "items" in row:
        row = _resolved(row.get("items"), document, source)
    properties = row.get("properties")
    if not isinstance(properties, dict) or not properties:
        raise FormatError(
            f"{source} is not the JSON Schema of a table: it must have 'properties', an object with one entry per "
            "column"
        )
    required = row.get("required", [])
    if not isinstance(required, list):
        raise FormatError(f"'required' of {source} must be a list of column names")
    entries = []
    for name, rule in properties.items():
        entry = _of_property(name, rule, document, source)
        if name not in required:
            entry["nullable"] = True
        if entry["type"] == "identifier":
            entry.pop("nullable", None)
        entries.append(entry | {"source": JSON_SCHEMA})
    return document_of(entries, comment=f"From {source}, a public document.")


def from_data_dictionary(rows: Sequence[Sequence[str]], *, source: str) -> dict[str, Any]:
    """Return the schema document of a published data dictionary: a table with a line for every column.

    Parameters
    ----------
    rows
        Texts of its cells.  The first line holds ``name``, ``type`` and any of ``min``, ``max``, ``levels`` (separated by
        ``|``, or a JSON list), ``nullable``, ``description``, ``source``; other columns are left out.
    source
        Name of the document in error messages.

    Raises
    ------
    FormatError
        If it has no such header, or a line of another length.
    SchemaError
        If a column has an unknown type, or settings that do not fit it.
    """
    header = [cell.strip().casefold() for cell in rows[0]] if rows else []
    missing = [field for field in ("name", "type") if field not in header]
    if missing:
        raise FormatError(f"the header of {source} must hold name and type, and may hold min, max, levels, nullable")
    entries = []
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(header):
            raise FormatError(f"line {number} of {source} must have as many cells as its header")
        cells = {field: cell.strip() for field, cell in zip(header, row, strict=True) if field in _DICTIONARY_FIELDS}
        if not cells["name"]:
            raise FormatError(f"line {number} of {source} has no name: write the column's name in its cell 'name'")
        entries.append(_of_line(cells, source))
    if not entries:
        raise FormatError(f"{source} describes no column: add a line for each column below the header")
    return document_of(entries, comment=f"From {source}, a public document.")


def _resolved(rule: object, document: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return a part of a JSON Schema with references within the document followed; raise FormatError for others."""
    for _ in range(32):
        if not isinstance(rule, dict):
            raise FormatError(
                f"{source} is not a JSON Schema of a table: each entry of 'properties' must be a JSON object"
            )
        if "$ref" not in rule:
            return rule
        path = str(rule["$ref"])
        if not path.startswith("#/"):
            raise FormatError(f"{source} refers to another document ({path}): copy that definition into {source}")
        target: Any = document
        for part in path[2:].split("/"):
            target = target.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(target, dict) else None
        rule = target
    raise FormatError(f"{source} has a '$ref' that leads back to itself: remove the circular reference")


def _of_property(name: str, rule: object, document: Mapping[str, Any], source: str) -> Entry:
    """Return the column document for one property of a JSON Schema."""
    where = f"column {name!r} of {source}"
    rule = _resolved(rule, document, source)
    nullable = bool(rule.get("nullable", False))
    alternatives = rule.get("anyOf") or rule.get("oneOf")
    if isinstance(alternatives, list):
        kept = [_resolved(one, document, source) for one in alternatives]
        real = [one for one in kept if one.get("type") != "null"]
        if len(real) != 1:
            raise SchemaError(f"{where} may have several types: keep one type in {source}")
        nullable, rule = nullable or len(real) < len(kept), {**rule, **real[0]}
    kinds = rule.get("type")
    kinds = list(kinds) if isinstance(kinds, list) else [] if kinds is None else [kinds]
    nullable = nullable or "null" in kinds
    kinds = [kind for kind in kinds if kind != "null"]
    levels = [rule["const"]] if "const" in rule else rule.get("enum")
    if levels is not None:
        if not isinstance(levels, list):
            raise FormatError(f"the enum of {where} must be a list")
        nullable = nullable or None in levels
        entry = _of_levels([level for level in levels if level is not None])
    elif len(kinds) != 1:
        raise SchemaError(f"{where} must have exactly one type, integer, number, boolean or string, or an enum")
    else:
        entry = _of_type(kinds[0], rule, where)
    if isinstance(rule.get("description"), str):
        entry["description"] = rule["description"]
    return {"name": name, **entry} | ({"nullable": True} if nullable else {})


def _of_levels(levels: list[Any]) -> Entry:
    """Return the column document of a column with these levels; true and false make a boolean column."""
    if set(map(type, levels)) == {bool} and len(levels) == 2:
        return {"type": "boolean"}
    return {"type": "categorical", "levels": levels}


def _of_type(kind: object, rule: Mapping[str, Any], where: str) -> Entry:
    """Return the column document for a type of JSON Schema; raise SchemaError for arrays and objects."""
    match kind:
        case "integer":
            beyond = 1
        case "number":
            beyond = 0
        case "boolean":
            return {"type": "boolean"}
        case "string":
            return _of_text(rule)
        case _:
            raise SchemaError(
                f"{where} is of type {kind!r}, which cannot be a column of a table: remove it, or split it into "
                "simple columns"
            )
    lower, upper = (
        _limit(rule, "minimum", "exclusiveMinimum", beyond),
        _limit(rule, "maximum", "exclusiveMaximum", -beyond),
    )
    return {"type": "integer" if beyond else "continuous", **_bounds(lower, upper)}


def _limit(rule: Mapping[str, Any], name: str, exclusive: str, beyond: int) -> Any:
    """Return an inclusive end of a range, from the keys ``name`` and ``exclusive`` of a JSON Schema's ``rule``.

    An exclusive limit is moved by ``beyond``: 1 or -1 for integers, 0 for real numbers.  Old documents mark it by true
    instead of a number.  ``None`` stands for a missing limit.
    """
    limit, open_end = rule.get(name), rule.get(exclusive)
    if open_end is None or open_end is False:
        return limit
    limit = limit if open_end is True else open_end
    return limit + beyond if isinstance(limit, (int, float)) else limit


def _of_text(rule: Mapping[str, Any]) -> Entry:
    """Return the column document of a text property by its format: dates, identifiers, or labels to be discovered."""
    format_ = rule.get("format")
    if format_ in ("date", "date-time"):
        bounds = _bounds(rule.get("formatMinimum"), rule.get("formatMaximum"))
        return {"type": "datetime", **bounds} | ({"resolution": "D"} if format_ == "date" else {})
    if format_ == "uuid":
        return {"type": "identifier", "prefix": ""}
    return {
        "type": "categorical",
        "levels": None,
        "other": "other",
        "comment": "The document lists no levels: frequent ones are discovered under part of the budget, the rest "
        "become 'other'. Free text belongs in no release: leave such a column out.",
    }


def _bounds(lower: Any, upper: Any) -> Entry:
    """Return bounds as settings of a column document, or a comment that says which one is missing."""
    if lower is not None and upper is not None:
        return {"lower": lower, "upper": upper}
    given = "" if lower is None and upper is None else f" but {'lower' if lower is not None else 'upper'}"
    number = lower if lower is not None else upper
    said = f" {number}" if number is not None else ""
    return {
        "comment": f"The document gives no bounds{given}{said}: both must be known, or else they are discovered under part "
        "of the budget."
    }


def _of_line(cells: Mapping[str, str], source: str) -> Entry:
    """Return the column document of one line of a data dictionary, given its cells by name."""
    name, where = cells["name"], f"column {cells['name']!r} of {source}"
    kind = _KINDS.get(cells["type"].casefold())
    if kind is None:
        raise SchemaError(f"{where} must have one of these types: {', '.join(_TYPE_NAMES)}")
    entry: Entry = {"name": name, "type": kind}
    low, high, levels = cells.get("min", ""), cells.get("max", ""), cells.get("levels", "")
    if levels and kind not in ("categorical", "ordinal"):
        raise SchemaError(f"{where} is of type {kind}, which has no levels: leave its levels empty")
    if (low or high) and kind not in ("continuous", "integer", "datetime", "duration"):
        raise SchemaError(f"{where} is of type {kind}, which has no bounds: leave its min and max empty")
    if kind in ("continuous", "integer", "datetime", "duration"):
        read = _number if kind != "datetime" else _as_it_is
        entry |= _bounds(*(None if not end else read(end, where) for end in (low, high)))
    if kind == "datetime" and cells["type"].casefold() == "date":
        entry["resolution"] = "D"
    if kind == "ordinal" and not levels:
        raise SchemaError(f"{where} needs levels, lowest first, separated by {LEVEL_SEPARATOR}")
    if kind in ("categorical", "ordinal"):
        entry |= {"levels": _levels(levels, where)} if levels else _of_text({})
    nullable = _TRUTH.get(cells.get("nullable", "").casefold())
    if nullable is None:
        raise SchemaError(f"nullable must be yes or no for {where}")
    if cells.get("nullable") and kind != "identifier":
        entry["nullable"] = nullable
    entry["source"] = cells.get("source") or DATA_DICTIONARY
    return entry | ({"description": cells["description"]} if cells.get("description") else {})


def _as_it_is(text: str, where: str) -> str:  # noqa: ARG001 - one of two readers
    """Return a text unchanged: bounds of dates need no conversion."""
    return text


def _number(text: str, where: str) -> float:
    """Return a bound in a data dictionary as an int or a float; raise SchemaError if it is no number."""
    whole = whole_number(text)
    try:
        return whole if whole is not None else float(text)
    except ValueError:
        raise SchemaError(f"min and max must be numbers for {where}") from None


def _levels(text: str, where: str) -> list[Any]:
    """Return the levels in one cell of a data dictionary, as integers if all are.

    The cell holds texts between separators, or a JSON list, which comes back as it is.
    """
    if text.startswith("["):
        try:
            levels = json.loads(text)
        except json.JSONDecodeError:
            raise SchemaError(
                f"levels must be separated by {LEVEL_SEPARATOR}, or be a JSON list, for {where}"
            ) from None
        return list(levels)
    texts = [level.strip() for level in text.split(LEVEL_SEPARATOR)]
    numbers = [whole_number(level) for level in texts]
    return texts if None in numbers else numbers
