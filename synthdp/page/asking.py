"""Conversions between the form fields of a column or rule and its part of a schema document.

Nothing is filled in from the values of the rows: an empty field stays undeclared.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from synthdp.errors import ParameterError, SchemaError
from synthdp.schema.column import Column, with_drafted
from synthdp.schema.public_documents import whole_number
from synthdp.schema.schema import Schema
from synthdp.schema.schema_json import VERSION, column_document

MEASURED = {
    "integer": "whole number", "continuous": "number", "decimal": "amount with decimals", "datetime": "date and time",
    "date": "date", "time": "time of day", "duration": "length of time, in seconds",
}  # fmt: skip
"""The page's names for the types of numbers and times."""

LABELLED = {"categorical": "categories", "ordinal": "categories with an order"}
"""The page's names for the types of categories."""

NUMBERS = ("integer", "continuous", "decimal", "duration")
"""Types whose limits a person types as numbers; the limits of the other measured types are times."""

TYPES = {**MEASURED, **LABELLED}
"""The page's names for all types that a person can choose."""

_DATE = re.compile(r"(\d{1,2})([./])(\d{1,2})\2(\d{4})(.*)")
"""A regular expression of a date in digits with the day or the month first: its parts and the rest of the text."""

_GROUPED = re.compile(r"[+-]?[1-9][0-9]{0,2}([,.' ])[0-9]{3}(?:\1[0-9]{3})*")
"""A whole number with its digits in groups of three, and the sign between the groups.  The sign is dropped where it
cannot be a decimal sign."""

_RANGE = re.compile(r"(.+?)\s*(?:\bto\b|\.\.|\u2013)\s*(.+)")
"""Two limits in one field, such as "0 to 120": a range of numbers, or of times."""

_LEVEL = re.compile(r'[^\S\n]*("(?:[^"\\\n]|\\.)*")[^\S\n]*(?=[|\n]|\Z)|([^|\n]*)')
"""One value of a list, up to a line break or |: in quotation marks, or without."""

_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""A character that ends a line, or that a form does not keep; a level with one needs quotation marks."""

SHORT = {
    "open": "not known", "name": "names a person", "row": "numbers the rows", "out": "leave out", "truth": "true or false",
}  # fmt: skip
"""Short texts for an answer without limits or a list, in the sheet of all columns; the key is the field ``how``."""

_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}")
"""A number such as 1.234, which is 1234 in some countries and a decimal number in others; the page refuses it."""

STEPS = {
    "D": "days", "h": "hours", "min": "minutes", "s": "seconds", "ms": "milliseconds", "us": "microseconds",
}  # fmt: skip
"""The page's names for resolutions."""

STEPPED = ("datetime", "time", "duration")
"""Types that have a resolution of their values."""

FIELDS = ("how", "type", "resolution", "lower", "upper", "decimals", "words", "levels", "complete", "source", "known")
"""Form fields of a column that the project stores, so that its form can be shown again as it was typed."""


def answer_of(name: str, typed: Mapping[str, str], ticked: Sequence[str], guess: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer about one column: its schema "entry" (None if left out) and the stored form fields, "typed".

    Parameters
    ----------
    name
        The column's name.
    typed
        Fields of the column's form.
    ticked
        Levels that a person selected among the private values.
    guess
        Type, resolution and zone that the rows suggest.

    Raises
    ------
    SchemaError
        In one sentence for the page, if a field is missing or impossible.
    """
    kept = {name: typed[name] for name in FIELDS if name in typed}
    entry: dict[str, Any] | None
    match typed.get("how"):
        case "limits":
            entry = _limits(name, typed, guess)
        case "list":
            entry = _list(name, typed, ticked)
            kept["levels"] = "\n".join(_lines(entry["levels"]))
        case "truth":
            entry = {"name": name, "type": "boolean", "source": "true or false"}
        case "known":
            entry = column_document(name, Schema.known(typed.get("known", "")))
        case "open":
            entry = _open(name, typed, guess)
        case "name" | "row":
            return {"entry": {"name": name, "type": "identifier"}, "typed": kept}
        case "out":
            return {"entry": None, "typed": kept}
        case _:
            raise SchemaError("Choose what is known about the column without this table.")
    entry |= {} if typed.get("complete") else {"nullable": True}  # a tick says that every row has a value
    column_of(entry)
    return {"entry": entry, "typed": kept}


def _limits(name: str, typed: Mapping[str, str], guess: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema entry of a column with limits; SchemaError explains a missing or wrong field."""
    kind = typed.get("type", "")
    if kind not in MEASURED:
        raise SchemaError(
            "Limits need a type that is a number or a time: choose such a type, or list the values instead."
        )
    entry: dict[str, Any] = {"name": name, "type": kind}
    for end, said in (("lower", "lowest"), ("upper", "highest")):
        text = typed.get(end, "").strip()
        if not text:
            raise SchemaError(f"The {said} value that can occur is missing: write it in the field.")
        entry[end] = number_of(text, whole=kind == "integer") if kind in NUMBERS else date_of(text)
    if decimals := typed.get("decimals", "").strip():
        if kind not in ("continuous", "decimal"):
            raise SchemaError(
                f"A {MEASURED[kind]} has no digits after the point: choose another type, or empty 'Digits after "
                "the point'."
            )
        entry["decimals"] = number_of(decimals)
        if entry["decimals"] == 0:  # as people call whole numbers
            del entry["decimals"]
            entry["type"] = "integer"
    if typed.get("words", "").strip():
        entry["words"] = _words(typed["words"])
    return _in_steps(entry | _source(typed), typed, guess if kind == "datetime" else {})


def _words(text: str) -> dict[str, int | float]:
    """Return the typed texts among numbers, such as "<0.6: 0.3", each with the number that it counts as."""
    found = {}
    for part in filter(None, (one.strip() for one in text.split("|"))):
        word, colon, number = part.rpartition(":")
        if not colon or not word.strip():
            raise SchemaError(
                f"Write each text with the number that it counts as, such as <0.6: 0.3, in place of {part}."
            )
        found[word.strip()] = number_of(number)
    return found


def _list(name: str, typed: Mapping[str, str], ticked: Sequence[str]) -> dict[str, Any]:
    """Return the schema entry of a column with a list of values; an empty list raises SchemaError.

    Values are whole numbers if all of them are written so, else texts: the values of one column have one type.
    """
    found = dict(_levels(typed.get("levels", "")))
    found |= {level: False for level in ticked if level not in found}
    if not found:
        raise SchemaError("The list is empty: write one value a line, or put | between them.")
    numbers = [None if is_text else whole_number(level) for level, is_text in found.items()]
    kind = typed["type"] if typed.get("type") in LABELLED else "categorical"
    return {"name": name, "type": kind, "levels": [*found] if None in numbers else numbers} | _source(typed)


def _levels(text: str) -> list[tuple[str, bool]]:
    """Return the values of a typed list, each with whether it was in quotation marks, and so is a text and no number.

    Empty values are left out.  Quotation marks around a value that needs none belong to the value.  `_lines` is the
    inverse.
    """
    text, at, found = "\n".join(text.splitlines()), 0, []
    while at <= len(text) and (part := _LEVEL.match(text, at)) is not None:
        level = None if part[1] is None else _unquoted(part[1])
        found.append((part[0].strip(), False) if level is None else (level, True))
        at = part.end() + 1
    return [one for one in found if any(one)]


def _unquoted(text: str) -> str | None:
    """Return the value in quotation marks, or None if it is written without them."""
    try:
        level = str(json.loads(text, strict=False))
    except ValueError:
        return None
    return level if _needs_quotes(level) or whole_number(level) is not None else None


def _needs_quotes(level: str) -> bool:
    """Return whether a value would be read as another one, or as several, without quotation marks."""
    return (
        not level
        or "|" in level
        or level != level.strip()
        or bool(_BREAKS.search(level))
        or level[0] == level[-1] == '"'
    )


def _lines(levels: Sequence[Any]) -> list[str]:
    """Return the values of a list as a person types them, each in a line; what would be read otherwise is quoted.

    Texts of digits alone are quoted too, since they would be read as numbers.
    """
    digits = all(isinstance(level, str) and whole_number(level) is not None for level in levels)
    return [
        json.dumps(level, ensure_ascii=not level.isprintable())
        if isinstance(level, str) and (digits or _needs_quotes(level))
        else str(level)
        for level in levels
    ]


def _open(name: str, typed: Mapping[str, str], guess: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema entry of a column without limits or list, which a release discovers under noise."""
    kind = typed.get("type", "")
    if kind in MEASURED:
        entry = {"name": name, "type": kind, "source": "not known"}
        return _in_steps(entry, typed, guess if guess.get("type") == kind else {})
    return {"name": name, "type": "categorical", "levels": None, "other": "other"}


def _in_steps(entry: dict[str, Any], typed: Mapping[str, str], guess: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry with the typed resolution of times, or else with the resolution and the zone of the rows.

    Settings that come from the rows are named in the source, and so on the receipt.
    """
    steps = {"resolution": typed["resolution"]} if typed.get("resolution") and entry["type"] in STEPPED else {}
    read = {key: guess[key] for key in ("resolution", "zone") if key in guess and key not in steps}
    return entry | steps | read | {"source": with_drafted(entry["source"], read)}


def _source(typed: Mapping[str, str]) -> dict[str, str]:
    """Return the typed source of a declaration as a setting; raise SchemaError if nothing was typed."""
    text = " ".join(typed.get("source", "").split())
    if not text:
        raise SchemaError(
            "Say from where you know these values, other than from this table: a codebook, a law, a form. One line "
            "is enough."
        )
    return {"source": text}


def column_of(entry: Mapping[str, Any]) -> Column:
    """Return the column that a part of a schema document declares.

    Raises
    ------
    SchemaError
        If its settings contradict each other.
    """
    document = {"synthdp_schema": VERSION, "columns": [entry]}
    return Schema.from_json(json.dumps(document), source="your answers")[entry["name"]]


def date_of(text: str) -> str:
    """Return a typed date in ISO 8601, whether day or month comes first; any other text stays unchanged.

    Raises
    ------
    SchemaError
        If the date can be read in two ways.
    """
    found = _DATE.fullmatch(text)
    if found is None:
        return text
    first, mark, second, year, rest = found.groups()
    day, month = (first, second) if mark == "." or int(first) > 12 else (second, first)
    if mark == "/" and max(int(first), int(second)) <= 12 and first != second:
        raise SchemaError(
            f"{text} can be read in two ways: write the year first, such as {year}-{first:0>2}-{second:0>2}."
        )
    return f"{year}-{month:0>2}-{day:0>2}{rest}"


def in_short(answer: Mapping[str, Any] | None) -> str:
    """Return the short text of an answer in the sheet of all columns; "" without an answer.

    `from_short` is the inverse.  A | after a single value says that it is a list.
    """
    if answer is None:
        return ""
    typed = answer["typed"]
    match typed.get("how"):
        case "limits":
            return f"{typed['lower']} to {typed['upper']}"
        case "list":
            lines = typed["levels"].splitlines()
            return " | ".join(lines) if len(lines) > 1 else f"{lines[0]} |"
        case "known":
            return f"known: {typed['known']}"
        case how:
            return SHORT.get(str(how), "")


def from_short(text: str, saved: Mapping[str, str]) -> dict[str, str]:
    """Return a column's form fields, changed as a short text of the sheet of all columns demands.

    Parameters
    ----------
    text
        Typed text: limits ("0 to 120"), values with | between them or after a single one, "known: " with a name, or one of
        `SHORT`.
    saved
        Stored form fields of the column.

    Raises
    ------
    SchemaError
        If the text has no such form.
    """
    said, bare = {words: how for how, words in SHORT.items()}, " ".join(text.split())
    if bare.casefold() in said:
        return {**saved, "how": said[bare.casefold()]}
    if "|" in bare:
        return {**saved, "how": "list", "levels": text}
    if bare.startswith("known:"):
        return {**saved, "how": "known", "known": bare.removeprefix("known:").strip()}
    if (ends := _RANGE.fullmatch(bare)) is None:
        raise SchemaError(
            "Write limits such as 0 to 120, values such as yes | no, or one of: "
            f"{', '.join(f'*{one}*' for one in SHORT.values())}."
        )
    return {**saved, "how": "limits", "lower": ends[1], "upper": ends[2]}


def number_of(text: str, *, whole: bool = False) -> int | float:
    """Return the number in a typed text, with a decimal point or comma, or with grouped thousands.

    A single group after a comma or a point may be decimals.  The group counts as thousands if decimals are impossible
    (``whole``), or if it is three zeros after a comma.  Nobody writes such decimals.

    Raises
    ------
    SchemaError
        If the text is no finite number, or can be read in two ways.
    """
    bare = text.strip().replace("\u2212", "-").replace("\u202f", " ").replace("\xa0", " ")
    if (grouped := _GROUPED.fullmatch(bare)) is not None and (
        whole or bare.count(grouped[1]) > 1 or grouped[1] in "' " or bare.endswith(",000")
    ):
        bare = bare.replace(grouped[1], "")
    bare = bare.replace(" ", "").replace(",", ".")
    if _THOUSANDS.fullmatch(bare):
        raise SchemaError(
            f"{text.strip()} can be read in two ways: write {bare.replace('.', '')}, or {bare}0 if the "
            "sign is a decimal point."
        )
    if (found_whole := whole_number(bare)) is not None:
        return found_whole
    try:
        found = float(bare)
    except ValueError:
        found = math.nan
    if not math.isfinite(found) or "_" in bare:
        raise SchemaError("Write a number in plain digits, such as 1500 or 0.5.")
    return found


def from_document(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer that a public document gives about a column: its schema "entry", and its form fields, "typed".

    Where the document does not say so, values may be missing.

    Raises
    ------
    SchemaError
        If its settings contradict each other.
    """
    kept = {key: value for key, value in entry.items() if key not in ("comment", "description")}
    kept |= {"nullable": True} if "nullable" not in kept and kept["type"] != "identifier" else {}
    column = column_of(kept)
    typed = {key: str(kept[key]) for key in FIELDS if key not in ("levels", "words") and kept.get(key) is not None}
    if kept.get("words"):
        typed["words"] = " | ".join(f"{word}: {number}" for word, number in kept["words"].items())
    typed["complete"] = "" if kept.get("nullable", True) else "yes"
    if column.names_rows or column.quantity == "truth":
        typed["how"] = "name" if column.names_rows else "truth"
    elif not column.is_complete:
        typed["how"] = "open"
    elif column.labelled:
        typed |= {"how": "list", "levels": "\n".join(_lines(kept["levels"]))}
    else:
        ends = {
            end: str(getattr(column, end)) for end in ("lower", "upper")
        }  # a time of day has both without saying so
        typed = {**ends, **typed, "how": "limits"}
    return {"entry": kept, "typed": typed}


def in_words(answer: Mapping[str, Any]) -> str:
    """Return an answer in a few words, for the list of columns."""
    if answer["entry"] is None:
        return "left out"
    column = column_of(answer["entry"])
    if column.names_rows:
        return "names a row or a person: fresh labels come out"
    if not column.is_complete:
        return "not known: to be discovered, at a price"
    levels = getattr(column, "levels", None) or ()
    return f"{len(levels)} values, from {levels[0]} to {levels[-1]}" if levels else column.in_words()


def rule_of(kind: str, names: Sequence[str], texts: Sequence[str], schema: Schema) -> dict[str, Any]:
    """Return the document of a rule between two columns, from the fields of its form.

    Parameters
    ----------
    kind
        ``less_equal``, ``implies`` or ``forbidden``.
    names, texts
        The two columns, and the typed values of each.
    schema
        Schema of the table.

    Raises
    ------
    SchemaError
        If both columns are equal, or a field has no values.
    """
    first, second = names
    if first == second:
        raise SchemaError("Choose two different columns.")
    if kind == "less_equal":
        return {"rule": kind, "left": first, "right": second}
    values = [_values(schema.outputs[name], text) for name, text in zip(names, texts, strict=True)]
    if kind == "implies":
        return {"rule": kind, "when": {first: values[0]}, "then": {second: values[1]}}
    if kind == "forbidden":
        return {"rule": kind, "values": {first: values[0], second: values[1]}}
    raise ParameterError("Choose a kind of rule.")


def _values(column: Column, text: str) -> list[Any]:
    """Return the values that a person typed for a rule, as the schema holds them.

    Levels stand with | between them, and "missing" becomes None. A range such as "0 to 17" becomes a list of its two
    ends.
    """
    named: dict[str, Any] = {"missing": None}
    named |= {"true": True, "True": True, "false": False, "False": False} if column.quantity == "truth" else {}
    named |= {str(level): level for level in getattr(column, "levels", None) or ()}
    found: list[Any] = []
    for part in filter(None, (one.strip() for one in text.split("|"))):
        low, to, high = part.partition(" to ")
        if part in named:
            found.append(named[part])
        else:
            found.append([_end(column, low), _end(column, high)] if to else _end(column, part))
    if not found:
        raise SchemaError("Write the values of both columns: several with | between them, or a range such as 0 to 17.")
    return found


def _end(column: Column, text: str) -> Any:
    """Return a typed limit as a number for a column of numbers, else as a text."""
    return number_of(text) if column.quantity == "number" else text.strip()
