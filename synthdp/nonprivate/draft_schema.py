"""A first draft of a schema, read off a table: a person must check it against public knowledge before it is used.

Every column is marked as not reviewed, and `Draft.finish` refuses the schema until a person has reviewed each column.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from synthdp.arrays import IntArray
from synthdp.errors import DataError, ParameterError, SchemaError
from synthdp.nonprivate.draft_formats import times_as_numbers
from synthdp.nonprivate.draft_numbers import (
    SHARED,
    exact_lattice,
    few_values,
    heaps_of,
    lattice_of,
    moment_bounds,
    number_bounds,
    odd_share,
    outwards,
    settings_of,
    without_far_values,
)
from synthdp.nonprivate.draft_reading import (
    MOST_LEVELS,
    Seen,
    clock_settings,
    csv_of,
    decimal_settings,
    order_of,
    read_table,
)
from synthdp.nonprivate.draft_rules import proposed_rules
from synthdp.schema.columns import (
    DRAFTED,
    RESOLUTIONS,
    Boolean,
    Column,
    Continuous,
    Datetime,
    Decimal as ExactDecimal,
    Duration,
    Integer,
    Ordinal,
    Time,
)
from synthdp.schema.public_documents import Entry, document_of
from synthdp.schema.schema import Schema
from synthdp.schema.schema_json import read_document
from synthdp.tables.format import TableFormat
from synthdp.tables.source import Source, TextSource

_CODES = (-1, -9, -99, -999, -9999, 99, 999, 9999, 99_999)  # numbers that forms use for "unknown", "refused", "more"
"""Numbers by which forms encode "unknown", "refused" or "more"; a draft lists them as special if they are frequent.  A
convention."""

_NAMES_ROWS = re.compile(
    r"(^|[_\W])(id|uid|uuid|guid|key|nr|no|number|code|ssn|mrn)($|[_\W])|[a-z](ID|Id)$", re.IGNORECASE
)
"""A regular expression of column names that suggest an identifier of rows or persons."""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
"""A regular expression of a UUID; a draft takes a column of UUIDs for an identifier."""

_UUIDS = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}"
"""Pattern of the labels that stand for UUIDs, because a database's column of UUIDs takes no other text."""

_NAMES_CODES = re.compile(
    r"(^|[_\W])(zip|zip_?code|post_?code|postal|plz|cap|fips|insee|naics|noga|nace|sic|isco|icd|atc|code|codes|cd)($|[_\W])"
    r"|[a-z](Code|Cd|Zip)$",
    re.IGNORECASE,
)
"""A regular expression of column names that suggest codes, such as postcodes, whose sums and means have no meaning."""

_OTHERS = ("other", "other values", *(f"other values {number}" for number in range(2, 1000)))
"""Labels for all other values, in order; a draft takes the first that is no level."""

FEWEST_PERSONS, MOST_ROWS_EACH = 50, 50
"""Fewest different values, and most rows for each on average, of a column that may name persons.  Fewer values or more
rows would take categories for persons; stricter limits overlook persons.  Tolerances."""

_UNNAMED = re.compile(r"Unnamed: \d+")  # as pandas calls a column without a name
"""Name that pandas gives a column without a name, such as an index; if its values all differ, a draft leaves it out."""

_NO_ROWS = "the table has no rows, so no schema can be drafted: give a table with rows"
"""The text of an error for a table without rows."""

ABOUT = (
    "A DRAFT, read off the table itself: it is as private as the table, and nothing may be released with it yet. Go through "
    'the columns, put in what is known WITHOUT the table, say in "source" where it is known from (a codebook, a law), and '
    'set "reviewed" to true for each. Where "source" stays as it is, the receipt says that bounds or levels were drafted '
    "from the table and accepted. Where only the bounds or levels are known, name at its end the settings that stay as they "
    'were drafted: "a law; drafted from the table: nullable, step".'
)
"""The comment at the top of a drafted schema file."""

OF_BOUNDS = (
    "The bounds were read off this table and rounded outwards. A table's least and largest value belong to somebody, so "
    "they are not public knowledge and no noise protects them. Put here what is known without the table: a law, a form's "
    "limits, a sensor's range. Values beyond are clipped. Or delete both, and they are discovered under part of the budget."
)
"""The comment on bounds that were read off the table."""

OF_LEVELS = (
    "The levels are those that occur in this table. That a rare one occurs at all can point at one person. Put here the "
    "published list of codes, in full. Or set levels to null, and frequent ones are discovered under part of the budget."
)
"""The comment on levels that were read off the table."""

OF_RARE = (
    f" {{rare}} more, which fewer than {SHARED} rows have each, are not written here: without a published list they become "
    "'other', or are discovered."
)
"""Addition to the comment on levels where a draft leaves out rare levels."""

OF_ORDER = " Their order is that of the column's type."
"""Addition to the comment on levels that the column's type lists in order."""

OF_RARE_ORDERED = (
    f" {{rare}} more, which fewer than {SHARED} rows have each, are not written here: without a published list they are "
    "counted, but not released."
)
"""Addition to the comment on levels in order where a draft leaves out rare levels."""

OF_MANY_CODES = (
    f"More than {MOST_LEVELS} different codes, most of them rare: frequent ones are discovered under part of the budget, "
    "and a row with another gets one of these. A published list of codes, if there is one, is better."
)
"""The comment on codes that a draft does not list, because there are more than `MOST_LEVELS` and most are rare."""

OF_MANY = (
    f"More than {MOST_LEVELS} different texts, most of them rare: frequent ones are discovered under part of the budget, "
    "the rest become 'other'. A published list of levels, if there is one, is better."
)
"""The comment on a column of more different texts than a draft lists."""

OF_LABELS = (
    " ARE THESE CODES OR NUMBERS? Its name is that of postcodes or codes, so the draft takes each number as a label of its "
    "own: no other number comes out, and there is no mean. If they count or measure something, take the other draft."
)
"""Addition to the comment on whole numbers that are drafted as labels."""

OF_RARE_CODES = (
    " ARE THESE CODES OR NUMBERS? Its name is that of postcodes or codes, but most are rare, so the draft takes them as "
    "numbers: others between them will come out. The other draft takes them as labels, of which only frequent ones are "
    "discovered; a published list of codes is better than both."
)
"""Addition to the comment on possible codes that are drafted as numbers, because most codes are rare."""

OF_IDENTIFIERS = (
    "Nearly every row has a value of its own, so this names rows or persons. An identifier is never read: the release has "
    "fresh, meaningless labels. If it is the same for all rows of a person, name it as privacy_unit."
)
"""The comment on a column that is drafted as an identifier, because nearly all values differ."""

OF_DIFFERENT_NUMBERS = (
    " Nearly all values differ: if they name rows or persons, make the type identifier and delete the bounds."
)
"""Addition to the comment on whole numbers that nearly all differ."""

OF_DIGITS = (
    " Nearly all numbers of this table have so many decimals, or lie so many steps above the lower bound; all synthetic "
    "ones will. Keep that if it is how they are measured or written, else delete it."
)
"""Addition to the comment on numbers that have few decimals or lie on a lattice."""

OF_ROUNDED = (
    " In {share} of the rows a number has more digits or lies between these steps, and is rounded to these. If such "
    "numbers were measured, and are not what a computation left, put in the decimals or the step that they need."
)
"""Addition to the comment on numbers where a few rows have more decimals than all others, or lie between the steps."""

OF_FEW = (
    "These few numbers are all that occur in this table: as levels in their order, no other number is released. A list that "
    "is known without the table is better. If any number may occur, make the type continuous, with lower and upper bounds."
)
"""The comment on numbers that are drafted as levels, because they take few values."""

OF_ONE = (
    "This number is the only one that occurs in this table, and no other is released. If others may occur, put in what is "
    "known of their bounds without the table."
)
"""The comment on a column with a single different number."""

OF_MANY_DIGITS = (
    " The numbers of this table have so many digits that they are taken as real numbers; synthetic ones will have as many "
    "decimals as said. If fewer are known to be right, say so."
)
"""Addition to the comment on numbers with very many digits."""

OF_HEAPS = (
    " The special numbers occur much more often than their neighbours; listed here, they will in the synthetic table. A "
    "number that many rows share points at nobody, but delete those that public knowledge does not explain. Between the "
    "bounds they are numbers like others: averages count them, and rules between columns bind them."
)
"""Addition to the comment on numbers where frequent numbers are drafted as special."""

OF_PERSONS = (
    " WHO IS A PERSON HERE? Values repeat, in about {rows:.1f} rows each, as those of persons, patients or customers do. If "
    "this column names whom the table is about, leave it out of the schema and name it as privacy_unit, with "
    "max_rows_per_unit: otherwise each row is protected by itself, and a person with many rows less."
)
"""Addition to the comment on a column that may name the person of a row."""

OF_SPELLINGS = " Levels that differ only in blanks or capital letters are different levels here: {levels}."
"""Addition to the comment on levels that differ only in blanks or capital letters."""

OF_FAR = (
    " A few values lie far beyond these bounds, and come out at them: most of a range with room for all would be empty, and "
    "noise in its empty part moves averages further than a few values do. Put wider bounds here if the far values matter."
)
"""Addition to the comment on bounds that leave out a few far values."""

OF_FORMAT = (
    " Cells are written as {format} shows: they are read so, and written back so. A cell that is written in another way "
    "does not fit."
)
"""Addition to the comment on a column whose cells have a format."""

OF_WORDS = (
    " The words stand for the numbers beside them, which are special values and are written as the words; averages count "
    "those between the bounds."
)
"""Addition to the comment on numbers with words among them."""
OF_TWO_WAYS = " No day of this table is above the 12th: check whether the month or the day comes first."
"""Addition to the comment on days whose day and month could be exchanged."""
OF_TRUTH = "Nothing to declare but whether a value can be missing."
"""The comment on a column of booleans."""
OF_CODES = (
    " {codes} occurs often and far from the rest, like a code for a missing or extreme answer: as special it keeps a place "
    "of its own. Beyond the bounds it is no number: averages leave it out, and no rule that compares columns binds it. "
    "Check it against the form."
)
"""Addition to the comment on numbers with codes for missing or extreme answers, see `_CODES`."""


def draft_schema(
    source: Source, *, without: Collection[str] = (), missing: Collection[str] | None = None
) -> dict[str, Any]:
    """Return the document of a schema for a table: bounds and levels are read off the table and marked as not reviewed.

    NOT private: the person who runs it must be allowed to see the table, and nobody else may see the draft.

    Parameters
    ----------
    source
        The table.  Its own types are used; the types of a CSV file's columns are guessed from all texts.
    without
        Columns to leave out.  Columns that no schema can describe are left out too, and listed under ``left_out``.
    missing
        Texts of a CSV file that stand for a missing value, as the schema will list them; default: `USUAL_MISSING`.


    Raises
    ------
    DataError
        If there is no row, or no column that can be described.
    ParameterError
        If a column to leave out is not there.
    """
    strange = [name for name in without if name not in source.names]
    if strange:
        raise ParameterError(
            f"the table has no column {strange[0]!r} to leave out: give the name of a column of the table"
        )
    names = [name for name in source.names if name not in without]
    if not source.names:
        raise DataError("the table has no columns, so no schema can be drafted: give a table with columns")
    if not names:
        raise DataError(
            "all columns of the table are left out or are keys, so that none remains to describe: leave out fewer columns, "
            "give the table a column that is no key, or leave the table out"
        )
    if getattr(source, "is_empty", False):
        raise DataError(_NO_ROWS)
    csv = csv_of(source, missing)
    seen, kinds = read_table(source, names, csv, sure=missing is not None)
    if seen and not any(one.rows for one in seen.values()):
        raise DataError(_NO_ROWS)
    unnamed = source.unnamed if isinstance(source, TextSource) else ()
    left_out = {f"column {place}": "it has no name" for place in unnamed}
    entries: list[Entry] = []
    for name in names:
        why = _why_left_out(name, seen.get(name))
        if not why:
            entry = _entry(name, kinds[name], seen[name])
            why = _why_not_released(entry, source)
        if why:
            left_out[name] = why
        else:
            entries.append(entry)
    if not entries:
        by_reason: dict[str, list[str]] = {}
        for name, why in left_out.items():
            by_reason.setdefault(why, []).append(repr(name))
        reasons = "; ".join(f"{', '.join(some)}: {why}" for why, some in by_reason.items())
        raise DataError(f"no column can be described: {reasons}")
    document = document_of(entries, comment=ABOUT, csv=csv)
    columns, _, _ = read_document(document, source="the draft")
    if rules := proposed_rules(source, columns):
        document |= {"proposed": rules}
    return document | ({"left_out": [{"name": n, "why": why} for n, why in left_out.items()]} if left_out else {})


def _why_left_out(name: str, seen: Seen | None) -> str:
    """Return the reason to leave a column out of the draft; the empty text if a schema can describe it."""
    if seen is None:
        return "its type cannot be read"
    if not seen.present and not seen.strange:
        return "it holds no value: declare it by hand if other tables of this kind have values"
    if seen.strange > seen.present:
        return "it holds lists, objects or the like, of which no column can be made"
    if _is_free_text(seen):
        return "it holds free text, which is not synthesised: code it into categories first"
    if _UNNAMED.fullmatch(name) and seen.names_rows:
        return "it is an index without a name"
    return ""


def _why_not_released(entry: Entry, source: Source) -> str:
    """Return the reason why no release can have a drafted column; the empty text if one can.

    Either a schema refuses the entry, or the table's type of the column cannot hold its values.
    """
    try:
        columns, _, _ = read_document(document_of([entry], comment=ABOUT), source="the draft")
        schema = Schema(columns)
    except SchemaError:
        return "no bounds or levels can be declared for its values"
    try:
        TableFormat.of(source, schema)
    except DataError:
        return "its type holds nothing that a release can write: convert the column"
    return ""


def _is_free_text(seen: Seen) -> bool:
    """Return whether most values are long texts that hardly repeat; no categorical column can describe them.

    Texts count as long with four words on average, or with two words and more than 40 letters.
    """
    texts = [value for value in seen.counts if isinstance(value, str)]
    if not texts or len(texts) < seen.present / 2:
        return False
    words = sum(len(text.split()) for text in texts) / len(texts)
    return words >= 4 or (words >= 2 and sum(map(len, texts)) / len(texts) > 40)


def _entry(name: str, kind: Column, seen: Seen) -> Entry:
    """Return the draft of one column as its part of the schema document, with notes for the reviewer."""
    numbers = isinstance(kind, (Integer, Continuous)) and not isinstance(kind, ExactDecimal) and kind.cells is None
    if numbers and (times := times_as_numbers(seen.counts)) is not None:
        kind, seen = times, seen.read_as(times)
    seen = seen.alike()
    entry: Entry = {"name": name, **_settings(name, kind, seen)}
    comment = entry.pop("comment") + _about_format(kind, seen) + _about_persons(name, seen) + _about_spellings(entry)
    if entry["type"] != "identifier" and seen.missing:
        entry["nullable"] = True
    if "instead" in entry:
        other = {"name": name, **entry["instead"], **({"nullable": True} if seen.missing else {}), "source": DRAFTED}
        entry["instead"] = {key: value for key, value in other.items() if key != "comment"}
    return entry | {"source": DRAFTED, "reviewed": False, "seen": _said(kind, seen), "comment": comment}


def _said(kind: Column, seen: Seen) -> str:
    """Return a sentence about a column's rows and most frequent values, for the reviewer."""
    holes = f", {seen.missing:,} missing" if seen.missing else ""
    strange = f", {seen.strange:,} that fit no column" if seen.strange else ""
    said = f"{seen.rows:,} rows{holes}{strange}; {len(seen.counts):,} different"
    if not seen.present:
        return said
    common = ", ".join(f"{_shown(kind, value)} ({seen.counts[value]:,})" for value in seen.shared[:3])
    return f"{said}; most often {common}" if common else said


def _shown(kind: Column, value: Any) -> str:
    """Return a value as the reviewer reads it; times are written as times."""
    return str(kind.shown(value)) if kind.temporal else str(value)


def _settings(name: str, kind: Column, seen: Seen) -> Entry:
    """Return the settings of a drafted column: type, bounds or levels, and a comment.

    The first case that fits counts, so a case of few columns (identifiers, codes, few values) comes before the general
    case of its type.
    """
    match kind:
        case Boolean():
            return {"type": "boolean", "comment": OF_TRUTH}
        case Integer() if len(seen.shared) == len(seen.counts) <= 2 and set(seen.counts) <= {0, 1, 2}:
            return {"type": "categorical", "levels": sorted(seen.counts), "comment": OF_LEVELS}
        case Integer() if kind.cells is None and seen.names_rows and (_NAMES_ROWS.search(name) or _is_dense(seen)):
            return {"type": "identifier", "comment": OF_IDENTIFIERS}
        case ExactDecimal():
            return decimal_settings(_numbers(name, kind, seen), kind.decimals or 0)
        case Time():
            return clock_settings(seen.counts) | _written(kind) | {"comment": OF_BOUNDS}
        case Integer() | Continuous() if kind.cells is None and _are_codes(name, seen):
            return _codes(seen, _numbers(name, kind, seen))
        case Continuous() if len(seen.counts) > 1 and kind.cells is None and (levels := few_values(seen.counts)):
            return {"type": "ordinal", "levels": levels, "comment": OF_FEW}
        case Integer() | Continuous():
            return _numbers(name, kind, seen)
        case Datetime():
            return _moments(seen) | ({} if kind.zone is None else {"zone": kind.zone}) | _written(kind)
        case Duration():
            return _lengths(seen) | _written(kind)
        case _ if seen.names_rows:
            uuids = all(isinstance(value, str) and _UUID.fullmatch(value) for value in seen.counts)
            labels = {"pattern": _UUIDS} if uuids else {"prefix": f"{name}-"}
            return {"type": "identifier", **labels, "comment": OF_IDENTIFIERS}
        case _ if not seen.is_listable:
            return {"type": "categorical", "levels": None, "other": "other", "comment": OF_MANY}
        case _:
            return _levels(seen, kind.levels or () if isinstance(kind, Ordinal) else ())


def _levels(seen: Seen, order: Sequence[Any] = ()) -> Entry:
    """Return the settings of a column of levels; rare levels become "other" if most rows have a frequent level.

    Otherwise, or if not all levels are texts, ``levels`` is None: a release then discovers frequent levels.  Levels of
    a type with an ``order`` keep the order, and rare levels are left out.
    """
    levels = sorted(seen.shared, key=order.index if order else order_of)
    rare = len(seen.counts) - len(levels)
    if order and 2 * sum(seen.counts[level] for level in levels) >= seen.present:
        comment = OF_LEVELS + OF_ORDER + (OF_RARE_ORDERED.format(rare=rare) if rare else "")
        return {"type": "ordinal", "levels": levels, "comment": comment}
    if not rare:
        return {"type": "categorical", "levels": levels, "comment": OF_LEVELS}
    texts = all(isinstance(level, str) for level in seen.counts)
    other = {"other": next(name for name in _OTHERS if name not in levels)} if texts else {}
    comment = OF_LEVELS + OF_RARE.format(rare=rare)
    if not texts or 2 * sum(seen.counts[level] for level in levels) < seen.present:
        return {"type": "categorical", "levels": None, **other, "comment": comment}
    return {"type": "categorical", "levels": levels, **other, "comment": comment}


def _are_codes(name: str, seen: Seen) -> bool:
    """Return whether numbers are probably codes: the column's name suggests it, and all are whole and at least 0.

    Codes are drafted as levels, because their order and distances have no meaning.
    """
    return _NAMES_CODES.search(name) is not None and all(code >= 0 and code == int(code) for code in seen.counts)


def _codes(seen: Seen, numbers: Entry) -> Entry:
    """Return the draft of codes as labels, with numbers as the alternative; exchanged if most rows have a rare code."""
    many: Entry = {"type": "categorical", "levels": None, "comment": OF_MANY_CODES}
    labels = _levels(seen) if seen.is_listable else many
    if 2 * sum(seen.counts[code] for code in seen.shared) < seen.present:
        return numbers | {"comment": numbers["comment"] + OF_RARE_CODES, "instead": labels}
    return labels | {"comment": labels["comment"] + OF_LABELS, "instead": numbers}


def _is_dense(seen: Seen) -> bool:
    """Return whether whole numbers fill at least half of their range, as serial numbers of rows do."""
    return bool(max(seen.counts) - min(seen.counts) < 2 * len(seen.counts))


def _about_persons(name: str, seen: Seen) -> str:
    """Return the comment that asks whether a column names persons, who then should be the privacy unit; "" if hardly.

    Without a unit each row is protected by itself, and a person with many rows less.  The comment is "" if the
    column's name is not like an identifier's, or its values are few, hardly repeat, or repeat in very many rows.
    """
    different = len(seen.counts)
    repeats = different >= FEWEST_PERSONS and not seen.names_rows and seen.present <= MOST_ROWS_EACH * different
    return OF_PERSONS.format(rows=seen.present / different) if repeats and _NAMES_ROWS.search(name) else ""


def _about_spellings(entry: Entry) -> str:
    """Return the comment on levels that differ only in blanks or capital letters; "" without such levels."""
    alike: dict[str, list[str]] = {}
    for level in entry.get("levels") or ():
        if isinstance(level, str):
            alike.setdefault(" ".join(level.casefold().split()), []).append(level)
    pairs = [" and ".join(map(repr, levels)) for levels in alike.values() if len(levels) > 1]
    return OF_SPELLINGS.format(levels="; ".join(pairs)) if pairs else ""


def _written(kind: Column) -> Entry:
    """Return the settings ``format`` and ``words`` of a column, in which its cells are written; empty without them."""
    found = {name: getattr(kind, name, None) for name in ("format", "words")}
    return {name: dict(value) if name == "words" else value for name, value in found.items() if value}


def _about_format(kind: Column, seen: Seen) -> str:
    """Return the comment on the format of a column's cells and on its words; "" without either.

    The comment asks too whether day and month are exchanged, where all days could be months.
    """
    pattern = getattr(kind, "format", None)
    said = "" if pattern is None else OF_FORMAT.format(format=pattern)
    if getattr(kind, "words", ()):
        said += OF_WORDS
    if (
        pattern is not None
        and kind.quantity == "moment"
        and "d" in (codes := set(re.findall(r"%-?(\w)", pattern)))
        and "m" in codes
    ):
        days = np.array(list(seen.counts), np.int64) // RESOLUTIONS["D"]
        dates = days.astype("datetime64[D]")
        if (
            (dates - dates.astype("datetime64[M]").astype("datetime64[D]")).astype(int) < 12
        ).all() and "%Y%m%d" not in pattern:
            said += OF_TWO_WAYS
    return said


def _numbers(name: str, kind: Column, seen: Seen) -> Entry:
    """Return the settings of a column of numbers: type, bounds, step or decimals, special numbers and comment."""
    named = {number for _, number in getattr(kind, "words", ())}
    codes = [code for code in _CODES if code not in named and _stands_apart(code, seen)]
    rest = {value: count for value, count in seen.counts.items() if value not in codes and value not in named}
    ends = min(rest), max(rest)
    low, high = without_far_values(rest)
    found = lattice_of(rest)
    lattice = found or exact_lattice(max(abs(low), abs(high)))
    on_whole = lattice is not None and lattice.spacing.denominator == 1 and lattice.offset.denominator == 1
    whole = kind.whole or (on_whole and all(float(number).is_integer() for number in named))
    lower, upper = number_bounds(name, low, high, whole=whole, lattice=lattice)
    comment = OF_BOUNDS if (low, high) == ends else OF_BOUNDS + OF_FAR
    if found is not None and len(rest) == 1 and rest[low] >= SHARED:
        lower, upper, comment = (*[int(low) if whole else float(low)] * 2, OF_ONE)
    entry: Entry = {"type": "integer" if whole else "continuous", "lower": lower, "upper": upper}
    if lattice is not None and (digits := settings_of(lattice)):
        entry |= digits
        comment += OF_DIGITS if found else OF_MANY_DIGITS
    if found is not None and (odd := odd_share(rest, found)):
        comment += OF_ROUNDED.format(share=f"{max(odd, 0.0001):.2%}".replace("%", " %"))
    heaps = heaps_of(rest, math.inf if lattice is None else (upper - lower) / float(lattice.spacing))
    if codes or heaps:
        entry["special"] = sorted({*codes, *heaps})
    entry |= _written(kind)
    if codes:
        comment += OF_CODES.format(codes=" and ".join(map(str, codes)))
    if heaps:
        comment += OF_HEAPS
    if whole and seen.names_rows:
        comment += OF_DIFFERENT_NUMBERS
    return entry | {"comment": comment}


def _stands_apart(code: int, seen: Seen) -> bool:
    """Return whether a number of `_CODES` is frequent, and far below or above all values outside `_CODES`.

    A negative code is far below if all values outside are at least 0.  A positive code is far above if it exceeds 1.5
    times the largest.  The answer is False for fewer than four different numbers, or for codes alone.
    """
    if seen.counts.get(code, 0) < max(SHARED, seen.present / 1000) or len(seen.counts) < 4:
        return False
    rest = [value for value in seen.counts if value not in _CODES]
    if not rest:
        return False
    return bool(min(rest) >= 0) if code < 0 else bool(code > 1.5 * max(rest))


def _moments(seen: Seen) -> Entry:
    """Return the settings of a column of moments: bounds, resolution and comment."""
    micros = np.array(list(seen.counts), np.int64)
    resolution, each = _resolution(micros)
    lower, upper = moment_bounds(int(micros.min()), int(micros.max()), step=each)
    return {"type": "datetime", "lower": lower, "upper": upper, "resolution": resolution, "comment": OF_BOUNDS}


def _lengths(seen: Seen) -> Entry:
    """Return the settings of a column of lengths of time: bounds in units of the resolution, resolution and comment."""
    micros = np.array(list(seen.counts), np.int64)
    resolution, each = _resolution(micros)
    lower, upper = outwards(int(micros.min()) // each, int(micros.max()) // each, whole=True)
    return {"type": "duration", "lower": lower, "upper": upper, "resolution": resolution, "comment": OF_BOUNDS}


def _resolution(micros: IntArray) -> tuple[str, int]:
    """Return the longest resolution that divides all values, and its microseconds; a draft declares it."""
    return next((name, each) for name, each in RESOLUTIONS.items() if not (micros % each).any())
