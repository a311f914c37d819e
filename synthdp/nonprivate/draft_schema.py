"""A first draft of a schema, read off a table: for a person to check against public knowledge, never to be used as it is.

Every column is marked as not reviewed, so that no schema can be made of the draft until somebody has looked at it.
"""

from __future__ import annotations

import datetime as dt
import gzip
import math
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from synthdp.domain.encoder import Labels, RawColumn
from synthdp.errors import DataError, FormatError, ParameterError
from synthdp.nonprivate.digits import few_values, outer, settings_of, spacing_of
from synthdp.nonprivate.draft_kinds import clock_settings, decimal_settings, kind_of_objects
from synthdp.schema.columns import (
    DRAFTED,
    RESOLUTIONS,
    Boolean,
    Categorical,
    Column,
    Continuous,
    Datetime,
    Decimal as ExactDecimal,
    Duration,
    Integer,
    Time,
)
from synthdp.schema.csv_format import DOUBTFUL_MISSING, USUAL_MISSING, CsvFormat, checked_missing, is_missing
from synthdp.schema.public_documents import Entry, document_of, whole_number
from synthdp.tables.columns.parse import declared
from synthdp.tables.refusals import instead_of
from synthdp.tables.source import Source, TextSource
from synthdp.tables.sources.csv_detect import OLDER, detected
from synthdp.tables.sources.files import is_csv

MOST_LEVELS = 100
"""Longest list of levels that a draft writes out."""

NEARLY_ALL = 0.95
"""Share of different values above which a column names its rows."""

FEW_ROWS = 20
"""Below, nothing is said about how often values repeat."""

_CODES = (-1, -9, -99, -999, -9999, 99, 999, 9999, 99_999)  # numbers that forms use for "unknown", "refused", "more"
_NAMES_ROWS = re.compile(
    r"(^|[_\W])(id|uid|uuid|guid|key|nr|no|number|code|ssn|mrn)($|[_\W])|[a-z](ID|Id)$", re.IGNORECASE
)
_LARGEST = 2**62

ABOUT = (
    "A DRAFT, read off the table itself: it is as private as the table, and nothing may be released with it yet. Go through "
    'the columns, put in what is known WITHOUT the table, say in "source" where it is known from (a codebook, a law), and '
    'set "reviewed" to true for each. Where "source" stays as it is, the receipt says that bounds or levels were drafted '
    "from the table and accepted."
)
OF_BOUNDS = (
    "The bounds were read off this table and rounded outwards. A table's least and largest value belong to somebody, so "
    "they are no public knowledge and no noise protects them. Put here what is known without the table: a law, a form's "
    "limits, a sensor's range. Values beyond are clipped. Or delete both, and they are discovered under part of the budget."
)
OF_LEVELS = (
    "The levels are those that occur in this table. That a rare one occurs at all can point at one person. Put here the "
    "published list of codes, in full. Or set levels to null, and frequent ones are discovered under part of the budget."
)
OF_MANY = (
    f"More than {MOST_LEVELS} different texts: frequent ones are discovered under part of the budget, the rest become "
    "'other'. A published list of levels, if there is one, is better."
)
OF_IDENTIFIERS = (
    "Nearly every row has a value of its own, so this names rows or persons. An identifier is never read: the release has "
    "fresh, meaningless labels. If it is the same for all rows of a person, name it as privacy_unit."
)
OF_DIFFERENT_NUMBERS = (
    " Nearly all values differ: if they name rows or persons, make the type identifier and delete the bounds."
)
OF_DIGITS = (
    " All numbers of this table are multiples of one step, or have so many decimals; synthetic ones will be the same. Keep "
    "that if it is how they are measured or written, else delete it."
)
OF_FEW = (
    "These few numbers are all that occur in this table: as levels in their order, no other number is released. A list that "
    "is known without the table is better. If any number may occur, make the type continuous, with lower and upper bounds."
)
OF_TRUTH = "Nothing to declare but whether a value can be missing."
OF_CODES = (
    " {codes} occurs often and far from the rest, like a code for a missing or extreme answer: as special it keeps a place "
    "of its own. Check it against the form."
)
OF_NOTHING = "No value at all in this table: say what it is, or leave the column out."


@runtime_checkable
class _Typed(Protocol):
    """A source that knows the types of its columns."""

    def kind(self, name: str) -> Column:
        """Return the kind of column that a type suggests."""
        ...


def _is_listable(value: object) -> bool:
    """Say whether a schema can say anything of a value: it lists no level of another type, and no infinite bound."""
    return isinstance(value, (str, bool, int)) or (isinstance(value, float) and math.isfinite(value))


@dataclass(slots=True, eq=False, repr=False)
class _Seen:
    """How often each value of one column occurs."""

    counts: Counter[Any] = field(default_factory=Counter)
    rows: int = 0
    missing: int = 0

    def add(self, raw: RawColumn) -> None:
        values, codes = _coded(raw)
        self.rows += len(codes)
        self.missing += int(np.count_nonzero(codes < 0))
        for value, count in zip(values, np.bincount(codes[codes >= 0], minlength=len(values)).tolist(), strict=True):
            if count and _is_listable(value):
                self.counts[value] += count

    @property
    def present(self) -> int:
        return self.counts.total()

    @property
    def names_rows(self) -> bool:
        return self.present >= FEW_ROWS and len(self.counts) >= NEARLY_ALL * self.present

    def without(self, texts: Iterable[str]) -> _Seen:
        """Return the same values, some texts missing."""
        gone = {text: self.counts[text] for text in texts}
        return _Seen(self.counts - Counter(gone), self.rows, self.missing + sum(gone.values()))

    def read_as(self, column: Column) -> _Seen:
        """Return the same values, read as another kind of column."""
        values, again = list(self.counts), _Seen(rows=self.rows, missing=self.missing)
        found, codes = _coded(declared(Labels(values, np.arange(len(values))), column))
        for value, code in zip(values, codes.tolist(), strict=True):
            if code >= 0:
                again.counts[found[code]] += self.counts[value]
        return again


def draft_schema(
    source: Source, *, without: Collection[str] = (), missing: Collection[str] | None = None
) -> dict[str, Any]:
    """Return the document of a schema for a table, with bounds and levels read off it and marked as not reviewed.

    NOT private: whoever runs it must be allowed to see the table, and nobody else may see the draft.

    Parameters
    ----------
    source
        The table.  Types are taken from it where it has some; of a CSV file they are guessed from all of its texts.
    without
        Columns to leave out.
    missing
        Texts of a CSV file that stand for a missing value, as the schema will say; default: `USUAL_MISSING`.

    Raises
    ------
    DataError
        If a column holds free text, or there is no row or no column to describe.
    ParameterError
        If a column to leave out is not there.
    """
    strange = [name for name in without if name not in source.names]
    if strange:
        raise ParameterError(f"the table has no column {strange[0]!r} to leave out")
    names = [name for name in source.names if name not in without]
    if not names:
        raise DataError("no column is left to describe")
    csv = _csv_of(source, missing)
    seen, kinds = _read(source, names, csv, sure=missing is not None)
    if not seen[names[0]].rows:
        raise DataError("the table has no rows: there is nothing to draft from")
    texts = [name for name in names if _is_free_text(seen[name])]
    if texts:
        raise DataError(
            f"column {texts[0]!r} holds free text, which is not synthesised: leave it out "
            f"({' '.join(f'--without {name!r}' for name in texts)}), or code it into categories first"
        )
    return document_of([_entry(name, kinds[name], seen[name]) for name in names], comment=ABOUT, csv=csv)


def known_encoding(path: str | PathLike[str], known: CsvFormat) -> CsvFormat:
    """Return how a file is read, with the encoding in which ALL of it is text, if its first line would suggest another.

    NOT private: an encoding is no secret, but it is found by reading all rows.
    """
    file = Path(path)
    if known.encoding is not None or not is_csv(file) or not file.is_file():
        return known
    found = detected(file, known)
    with instead_of(OSError, EOFError, zlib.error, say=FormatError(f"CSV file '{path}' cannot be read")):
        return known if _is_text_in(file, found.encoding or "utf-8") else replace(known, encoding=OLDER)


def _is_text_in(file: Path, encoding: str) -> bool:
    opener = gzip.open if file.name.endswith(".gz") else open
    try:
        with opener(file, "rt", encoding=encoding) as text:
            while text.read(1 << 20):
                pass
    except UnicodeError:
        return False
    return True


def _csv_of(source: Source, missing: Collection[str] | None) -> CsvFormat | None:
    """Return how a file of texts is to be read, here and by a release; ``None`` of a table that has types."""
    if not isinstance(source, TextSource):
        return None
    spelled = source.csv.missing or USUAL_MISSING if missing is None else checked_missing(missing)
    return replace(source.csv, missing=tuple(text for text in spelled if text))


def _read(
    source: Source, names: Sequence[str], csv: CsvFormat | None, *, sure: bool
) -> tuple[dict[str, _Seen], dict[str, Column]]:
    """Return what occurs in each column, and of which kind the column is."""
    kinds = (
        {name: kind_of_objects(source, name, source.kind(name)) for name in names} if isinstance(source, _Typed) else {}
    )
    seen = {name: _Seen() for name in names}
    for block in source.blocks(kinds, extra=names):
        for name in names:
            seen[name].add(block[name])
    if kinds:
        return seen, kinds
    spelled = () if csv is None else csv.missing
    read = {name: _texts_read(seen[name], spelled, frozenset() if sure else DOUBTFUL_MISSING) for name in names}
    return {name: one for name, (one, _) in read.items()}, {name: kind for name, (_, kind) in read.items()}


def _texts_read(seen: _Seen, missing: Collection[str], doubtful: Collection[str]) -> tuple[_Seen, Column]:
    """Return texts as what all of them can be read as, and as what that is; those that are missing do not count.

    A text that is only perhaps missing is a level where the others are texts, too, and all are listed: a release reads
    the texts of declared levels as these levels.
    """
    gone = {text for text in seen.counts if isinstance(text, str) and is_missing(text, missing)}
    kind = _kind_of_texts([text for text in seen.counts if text not in gone])
    if isinstance(kind, Categorical) and len(seen.counts) > len(gone):
        levels = seen.without(text for text in gone if text.strip() not in doubtful)
        return (levels if len(levels.counts) <= MOST_LEVELS else seen.without(gone)), kind
    return seen.without(gone).read_as(kind), kind


def _coded(raw: RawColumn) -> tuple[list[Any], np.ndarray]:
    if isinstance(raw, Labels):
        return raw.levels, raw.codes
    missing = np.zeros(len(raw.values), np.bool_) if raw.missing is None else raw.missing
    missing = missing | np.isnan(raw.values)
    values, codes = np.unique(np.where(missing, 0, raw.values), return_inverse=True)
    return values.tolist(), np.where(missing, -1, codes)


def _kind_of_texts(texts: Iterable[Any]) -> Column:
    """Return what all texts can be read as."""
    words = [str(text).strip() for text in texts]
    if not words:
        return Categorical()
    if all(word.casefold() in {"true", "false"} for word in words):
        return Boolean()
    if all(whole_number(word) is not None for word in words):
        return Integer()
    if all(map(_is_number, words)):
        whole = all(float(word).is_integer() and abs(float(word)) < _LARGEST for word in words)
        return Integer() if whole else Continuous()  # as 5.0 is written where values are missing
    if all(map(_is_moment, words)):
        return Datetime(resolution="us", zone="UTC" if all(word.endswith(("Z", "+00:00")) for word in words) else None)
    return Categorical()


def _is_number(word: str) -> bool:
    if re.fullmatch(r"[+-]?0\d.*", word):  # 007 is a code
        return False
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


def _is_moment(word: str) -> bool:
    try:
        dt.datetime.fromisoformat(word)
    except ValueError:
        return False
    return True


def _is_free_text(seen: _Seen) -> bool:
    """Say whether values are long texts that hardly repeat."""
    texts = [value for value in seen.counts if isinstance(value, str)]
    if not texts or len(texts) < seen.present / 2:
        return False
    words = sum(len(text.split()) for text in texts) / len(texts)
    return words >= 4 or (words >= 2 and sum(map(len, texts)) / len(texts) > 40)


def _entry(name: str, kind: Column, seen: _Seen) -> Entry:
    """Return the draft of one column."""
    entry: Entry = {"name": name, **_settings(name, kind, seen)}
    comment = entry.pop("comment")
    if entry["type"] != "identifier" and seen.missing:
        entry["nullable"] = True
    return entry | {"source": DRAFTED, "reviewed": False, "comment": comment}


def _settings(name: str, kind: Column, seen: _Seen) -> Entry:
    if not seen.present:
        return {"type": "categorical", "levels": None, "comment": OF_NOTHING}
    match kind:
        case Boolean():
            return {"type": "boolean", "comment": OF_TRUTH}
        case Integer() if len(seen.counts) <= 2 and set(seen.counts) <= {0, 1, 2}:
            return {"type": "categorical", "levels": sorted(seen.counts), "comment": OF_LEVELS}
        case Integer() if seen.names_rows and (_NAMES_ROWS.search(name) or _is_dense(seen)):
            return {"type": "identifier", "comment": OF_IDENTIFIERS}
        case ExactDecimal():
            return decimal_settings(_numbers(seen, whole=False), kind.decimals or 0)
        case Time():
            return clock_settings(seen.counts) | {"comment": OF_BOUNDS}
        case Continuous() if levels := few_values(seen.counts):
            return {"type": "ordinal", "levels": levels, "comment": OF_FEW}
        case Integer() | Continuous():
            return _numbers(seen, whole=isinstance(kind, Integer))
        case Datetime():
            return _moments(seen) | ({} if kind.zone is None else {"zone": kind.zone})
        case Duration():
            lower, upper = _outwards(min(seen.counts) // 10**6, -(-max(seen.counts) // 10**6), whole=True)
            return {"type": "duration", "lower": lower, "upper": upper, "comment": OF_BOUNDS}
        case _ if seen.names_rows:
            return {"type": "identifier", "prefix": f"{name}-", "comment": OF_IDENTIFIERS}
        case _ if len(seen.counts) > MOST_LEVELS:
            return {"type": "categorical", "levels": None, "other": "other", "comment": OF_MANY}
        case _:
            return {"type": "categorical", "levels": sorted(seen.counts, key=_order), "comment": OF_LEVELS}


def _is_dense(seen: _Seen) -> bool:
    return bool(max(seen.counts) - min(seen.counts) < 2 * len(seen.counts))


def _order(level: Any) -> tuple[bool, Any]:
    return (True, str(level)) if isinstance(level, str) else (False, level)


def _numbers(seen: _Seen, *, whole: bool) -> Entry:
    codes = [code for code in _CODES if _stands_apart(code, seen)]
    rest = [value for value in seen.counts if value not in codes]
    spacing = spacing_of(rest)
    whole = whole or (spacing is not None and spacing.denominator == 1)
    lower, upper = _outwards(min(rest), max(rest), whole=whole)
    comment = OF_BOUNDS
    if spacing is not None:
        lower, upper = outer(lower, upper, spacing)
    entry: Entry = {"type": "integer" if whole else "continuous", "lower": lower, "upper": upper}
    if spacing is not None and (digits := settings_of(spacing)):
        entry |= digits
        comment += OF_DIGITS
    if codes:
        entry["special"] = codes
        comment += OF_CODES.format(codes=" and ".join(map(str, codes)))
    if whole and seen.names_rows:
        comment += OF_DIFFERENT_NUMBERS
    return entry | {"comment": comment}


def _stands_apart(code: int, seen: _Seen) -> bool:
    """Say whether a number that forms use as a code occurs often, as an extreme, and far from other values."""
    if seen.counts.get(code, 0) < max(2, seen.present / 1000) or len(seen.counts) < 4:
        return False
    rest = [value for value in seen.counts if value not in _CODES]
    if not rest:
        return False
    return bool(min(rest) >= 0) if code < 0 else bool(code > 1.5 * max(rest))


def _outwards(low: float, high: float, *, whole: bool) -> tuple[Any, Any]:
    """Return bounds beyond two values, rounded to the first digit of their distance."""
    width = high - low if high > low else max(abs(high), 1)
    if not math.isfinite(width):
        return low, high
    step = Decimal(10) ** math.floor(math.log10(width))
    step = max(step, Decimal(1)) if whole else step
    lower = math.floor(Decimal(low) / step) * step
    upper = math.ceil(Decimal(high) / step) * step
    upper = upper + step if upper == lower else upper
    if whole:
        return max(int(lower), -_LARGEST), min(int(upper), _LARGEST)
    return float(lower), float(upper)


def _moments(seen: _Seen) -> Entry:
    micros = np.array(list(seen.counts), np.int64)
    years = micros.astype("datetime64[us]").astype("datetime64[Y]")
    lower, after = years.min(), years.max() + np.timedelta64(1, "Y")
    resolution = next(unit for unit, each in RESOLUTIONS.items() if not (micros % each).any())
    return {
        "type": "datetime",
        "lower": f"{lower}-01-01",
        "upper": f"{after}-01-01" if after <= np.datetime64("9999") else "9999-12-31T23:59:59.999999",
        "resolution": resolution,
        "comment": OF_BOUNDS,
    }
