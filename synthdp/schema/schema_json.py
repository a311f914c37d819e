"""Schema columns and rules to and from plain JSON documents, with a version."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from synthdp.errors import FormatError, ParameterError, SchemaError
from synthdp.registered import COLUMN_TYPES as EXTENSIONS, extension
from synthdp.schema.columns import COLUMN_TYPES, DRAFTED, Column
from synthdp.schema.constraints import RULE_KINDS, Constraint
from synthdp.schema.csv_format import CsvFormat
from synthdp.schema.derived import Derived

if TYPE_CHECKING:
    from synthdp.schema.sibling_rules import SiblingRule

VERSION = 5
"""The newest version of schema files that can be read.  A schema is written in the oldest version that can express it.
"""

_SINCE = {
    "source": 2, "decimals": 3, "step": 3, "zone": 3, "date": 3, "decimal": 3, "time": 3, "pattern": 3, "csv": 3,
    "groups": 3, "format": 4, "words": 4, "weight": 4, "like": 5,
}  # fmt: skip
"""The first file version of each setting or column type that is not in version 1.  A schema is written in the oldest
version that can express it.  Rules state their own version."""
FOR_THE_REVIEW = frozenset({"comment", "seen", "instead"})
"""Keys by which a draft informs its reviewer (``instead`` holds another draft of the column); as private as the table.
"""

_NOTES = {"description", "reviewed", *FOR_THE_REVIEW}  # for people; "reviewed" marks what was drafted from a table
"""Keys of a column document that are for people and do not change the column."""


def to_document(
    columns: Mapping[str, Column], constraints: Sequence[Constraint], csv: CsvFormat | None = None
) -> dict[str, Any]:
    """Return a schema as a JSON document, in the oldest file version that can express it, for older readers."""
    entries = [column_document(name, column) for name, column in columns.items()]
    rules = [rule_document(constraint) for constraint in constraints]
    written = {} if csv is None else {"csv": csv_document(csv)}
    words = [word for entry in entries for word in (entry["type"], *entry)]
    version = max([*(_SINCE.get(word, 1) for word in (*words, *written)), *(rule.since for rule in constraints)])
    document: dict[str, Any] = {"synthdp_schema": version, **written, "columns": entries}
    if rules:
        document["constraints"] = rules
    return document


def parsed(text: str, *, source: str) -> Any:
    """Return the document of a JSON text.

    Raises
    ------
    FormatError
        If it is not JSON.
    """
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        line = getattr(error, "lineno", "?")
        raise FormatError(f"{source} is not valid JSON (line {line}): correct the file") from None


def csv_document(csv: CsvFormat) -> dict[str, Any]:
    """Return a CSV format as a JSON document, without settings at their default."""
    return {field.name: _plain(value) for field in fields(csv) if (value := getattr(csv, field.name)) != field.default}


def from_document(document: object, *, source: str) -> tuple[dict[str, Column], list[Constraint], CsvFormat | None]:
    """Return columns, rules and CSV format (or ``None``) from a schema's JSON document; refuse columns not yet reviewed.

    Raises
    ------
    FormatError
        If the document has another shape or version.
    SchemaError
        If a column is marked as not reviewed, named twice, or of an unknown type.
    """
    found = read_document(document, source=source)
    for entry in document["columns"] if isinstance(document, dict) else []:
        if entry.get("reviewed") is False:
            raise SchemaError(
                f"column {entry['name']!r} of {source} is a draft taken from the table: check it against public knowledge, "
                'then set "reviewed" to true, or go through the columns with `synthdp schema review`'
            )
    return found


def read_document(document: object, *, source: str) -> tuple[dict[str, Column], list[Constraint], CsvFormat | None]:
    """Return columns, rules and CSV format (or ``None``) from a schema's JSON document, perhaps a draft not reviewed."""
    if isinstance(document, dict) and "synthdp_database" in document:
        raise FormatError(
            f"{source} is a database schema, but the schema of one table is wanted here: give such a schema (a database "
            "schema is for DatabaseRelease, `synthdp plan` and `synthdp release`)"
        )
    if not isinstance(document, dict) or "synthdp_schema" not in document:
        raise FormatError(f"{source} is not a synthdp schema: its JSON must have the key 'synthdp_schema'")
    if document["synthdp_schema"] not in range(1, VERSION + 1):
        known = f"1 to {VERSION}"
        raise FormatError(
            f"{source} has schema version {document['synthdp_schema']!r}, but this synthdp reads {known} only: "
            "install a newer synthdp"
        )
    entries = document.get("columns")
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise FormatError(f"{source} must have 'columns', a list of JSON objects")
    columns: dict[str, Column] = {}
    for entry in entries:
        name = entry.get("name")
        if not isinstance(name, str):
            raise FormatError(f"every column of {source} must have a 'name' that is a text")
        if name in columns:
            raise SchemaError(f"{source} declares column {name!r} twice: remove one of the two")
        columns[name] = _read_column(name, entry, source=source)
    rules = document.get("constraints", [])
    if not isinstance(rules, list):
        raise FormatError(f"{source} must have 'constraints' that is a list of rules")
    return columns, [rule_of(rule, source=source) for rule in rules], _read_csv(document.get("csv"), source=source)


def _read_csv(given: object, *, source: str) -> CsvFormat | None:
    """Return the CSV format in a schema's document, ``None`` without one; raise FormatError for unknown settings."""
    if given is None:
        return None
    known = {field.name for field in fields(CsvFormat)}
    if not isinstance(given, dict) or not set(given) - _NOTES <= known:
        raise FormatError(
            f"the 'csv' of {source} must be a JSON object with no other settings than {', '.join(sorted(known))}"
        )
    try:
        return CsvFormat(**{key: value for key, value in given.items() if key not in _NOTES})
    except ParameterError as error:
        raise FormatError(f"the 'csv' of {source}: {error}") from None


def column_document(name: str, column: Column) -> dict[str, Any]:
    """Return a column as a JSON document: name, type, and settings that differ from the defaults."""
    entry: dict[str, Any] = {"name": name, "type": _type_of(column)}
    for field in sorted(fields(column), key=lambda field: field.name == "source"):  # what it may hold first
        value = getattr(column, field.name)
        if value != field.default:
            entry[field.name] = _plain(value)
    return entry


def _type_of(column: Column) -> str:
    """Return a column type's name in schema files; derived classes have the name of their registered base class."""
    kinds = {kind: name for name, kind in COLUMN_TYPES.items()}
    return next((kinds[kind] for kind in type(column).__mro__ if kind in kinds), type(column).__name__.lower())


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: tuples as lists, NumPy scalars as Python's."""
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return value.item() if isinstance(value, np.generic) else value


def _kind_named(name: str) -> type[Column] | None:
    """Return the column type of a name, of this package or registered by another one; ``None`` if there is none."""
    if name not in COLUMN_TYPES:
        kind = extension(EXTENSIONS, name)
        if kind is not None:
            COLUMN_TYPES[name] = kind
    return COLUMN_TYPES.get(name)


def _read_column(name: str, entry: dict[str, Any], *, source: str) -> Column:
    """Return the column of one column document; raise SchemaError for unknown or missing settings."""
    if "known" in entry:
        entry = _spelt_out(name, entry, source=source)
    kind = _kind_named(str(entry.get("type")).lower())
    if kind is None:
        raise SchemaError(f"column {name!r} of {source} must have one of these types: {', '.join(COLUMN_TYPES)}")
    known = {field.name: field for field in fields(kind)}
    if "reviewed" in entry and entry.get("source") is None:  # only drafts have it: an older one does not say so
        entry = {**entry, "source": DRAFTED}
    given = {key: value for key, value in entry.items() if key not in {"name", "type", *_NOTES}}
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise SchemaError(
            f"column {name!r} of {source} has an unknown setting {unknown[0]!r}: remove it or correct its name"
        )
    missing = [f for f in known.values() if f.default is MISSING and f.name not in given]
    if missing:
        raise SchemaError(f"column {name!r} of {source} needs {missing[0].name!r}: add this setting")
    if not isinstance(given.get("nullable", False), bool):
        raise SchemaError(f"nullable must be true or false for column {name!r} of {source}")
    for key in ("levels", "special", "groups", "means", "errors"):
        if key in given and not (isinstance(given[key], list) or (given[key] is None and key == "levels")):
            raise SchemaError(f"{key} must be a list for column {name!r} of {source}")
    try:
        return kind(**given)
    except (TypeError, ValueError, OverflowError) as error:
        detail = str(error) if isinstance(error, SchemaError) else "a setting has the wrong type"
        raise SchemaError(f"column {name!r} of {source}: {detail}") from None


def _spelt_out(name: str, entry: dict[str, Any], *, source: str) -> dict[str, Any]:
    """Return a column document in which the key "known" is replaced by the type and settings of the known column it names.

    Other settings of ``entry`` come before the known column's.  ``name`` and ``source`` are the
    names of the column and of its file, for errors.
    """
    try:
        from synthdp.schema.known_columns import known_column

        column = known_column(entry["known"])
    except SchemaError as error:
        raise SchemaError(f"column {name!r} of {source}: {error}") from None
    if entry.get("type", _type_of(column)) != _type_of(column):
        raise SchemaError(
            f"column {name!r} of {source} is a known column of type {_type_of(column)!r}: remove its setting 'type'"
        )
    return column_document(name, column) | {key: value for key, value in entry.items() if key != "known"}


def rule_document(constraint: Constraint | SiblingRule) -> dict[str, Any]:
    """Return a rule as a JSON document; for a derived column only the settings in use, its lookup as pairs."""
    entry: dict[str, Any] = {
        "rule": constraint.kind,
        **{f.name: getattr(constraint, f.name) for f in fields(constraint)},
    }
    if isinstance(constraint, Derived):
        entry = {name: value for name, value in entry.items() if value is not None}
        entry |= {"values": [list(pair) for pair in constraint.values.items()]} if constraint.values is not None else {}
    return entry


def rule_of(rule: object, *, source: str, kinds: Mapping[str, type[Any]] = RULE_KINDS) -> Any:
    """Return the rule that a JSON document describes; raise SchemaError unless it is of one of ``kinds``."""
    kind = kinds.get(str(rule.get("rule"))) if isinstance(rule, dict) else None
    if kind is None or not isinstance(rule, dict):
        raise SchemaError(f"each rule of {source} must be a JSON object whose 'rule' is one of {', '.join(kinds)}")
    try:
        return kind(**{key: value for key, value in rule.items() if key not in {"rule", *_NOTES}})
    except (TypeError, AttributeError):
        raise SchemaError(
            f"a {rule['rule']} rule of {source} has a missing, unknown or wrong setting: its settings are "
            f"{', '.join(field.name for field in fields(kind))}"
        ) from None
