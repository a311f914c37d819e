"""The different values of each column of a table, and the kind of column, for a draft.

Values are read as a release reads them, but without noise.  NOT private: the result is as private as the table.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal as PythonDecimal
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd

from synthdp.arrays import LARGEST_WHOLE
from synthdp.domain.encoder import Labels, RawColumn, labels_of_numbers
from synthdp.nonprivate.draft_formats import days_as_numbers, kind_as_written
from synthdp.nonprivate.draft_numbers import SHARED, outer
from synthdp.schema.columns import (
    RESOLUTIONS,
    Boolean,
    Categorical,
    Column,
    Continuous,
    Datetime,
    Decimal,
    Duration,
    Integer,
    Ordinal,
    Time,
    Untyped,
)
from synthdp.schema.csv_format import DOUBTFUL_MISSING, USUAL_MISSING, CsvFormat, checked_missing, is_missing
from synthdp.schema.numbers import MOST_DECIMALS
from synthdp.schema.public_documents import whole_number
from synthdp.tables.parse import declared
from synthdp.tables.source import Source, TextSource

_DAY = re.compile(r"\s*\d{4}-\d\d-\d\d")
"""A day in ISO 8601, with which all texts of a column of moments without another format begin."""

_KINDS: dict[type, Column] = {
    dt.date: Datetime(resolution="D"),
    dt.datetime: Datetime(resolution="us"),
    pd.Timestamp: Datetime(resolution="us"),
    dt.timedelta: Duration(resolution="us"),
    pd.Timedelta: Duration(resolution="us"),
    dt.time: Time(resolution="us"),
}
"""Column kind for a column of Python objects, by the objects' type."""


def kind_of_objects(source: Source, name: str, kind: Column) -> Column:
    """Return the kind of a column of objects if all are dates, times, durations or numbers; else ``kind``.

    A column of text type becomes moments if all its texts are moments.  Texts in a column of any objects stay texts,
    unless they have a format: the release would write Python moments there.  A column whose type binds no value, as of
    objects or of SQLite, becomes numbers if all its values are numbers.
    """
    unbound = isinstance(source, _Unbound) and source.is_untyped(name)
    if not unbound and (not isinstance(kind, Categorical) or kind.levels is not None):
        return kind
    levels: Counter[Any] = Counter()
    for block in source.blocks({name: Categorical() if unbound else kind}):
        raw = block[name]
        if unbound or isinstance(raw, Labels):
            values, codes = _distinct(raw)
            rows = np.bincount(codes[codes >= 0], minlength=len(values)).tolist()
            levels.update({level: count for level, count in zip(values, rows, strict=True) if count})
    types = {type(level) for level in levels}
    huge = types <= {int, float} and any(2**62 <= abs(level) < math.inf for level in levels)
    if (unbound or isinstance(kind, Untyped)) and types and types <= {int, float} and not huge:
        return Integer() if types == {int} else Continuous()
    if unbound and not isinstance(kind, Categorical):
        if types != {str}:
            return kind
        kind = Categorical()
    if types == {str}:
        written = kind_as_written(levels)
        if written is not None and written.cells is not None and (isinstance(kind, Untyped) or not is_usual(written)):
            return written
        if isinstance(kind, Untyped):
            return kind
        return kind_of_moments(levels) if all(map(_DAY.match, levels)) and all(map(is_moment, levels)) else kind
    if PythonDecimal in types and types <= {PythonDecimal, int, float}:
        exact = [level for level in levels if isinstance(level, PythonDecimal) and level.is_finite()]
        decimals = max((max(0, -int(level.as_tuple().exponent)) for level in exact), default=0)
        return Decimal(decimals=decimals) if decimals <= MOST_DECIMALS and float not in types else Continuous()
    kinds = {_KINDS.get(one) for one in types}
    if kinds == {_KINDS[dt.date], _KINDS[dt.datetime]}:  # a day among moments is its midnight
        return _KINDS[dt.datetime]
    return kinds.pop() or kind if len(kinds) == 1 else kind


def is_usual(kind: Column) -> bool:
    """Return whether a column has the format in which an untyped table writes moments anyway, "2019-05-31 12:00:00".

    The day alone is usual too.  A column of another format, or of none, is not.
    """
    return getattr(kind, "format", None) in ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S")


def is_moment(text: str) -> bool:
    """Return whether a text is a date or a moment in ISO 8601; a draft declares columns of such texts as moments."""
    try:
        dt.datetime.fromisoformat(text.strip())
    except ValueError:
        return False
    return True


def kind_of_moments(texts: Collection[str]) -> Column:
    """Return the kind of a column of ISO 8601 texts: moments in UTC if all texts end in "Z" or "+00:00".

    Without such endings the moments have no zone.
    """
    universal = all(text.strip().endswith(("Z", "+00:00")) for text in texts)
    return Datetime(resolution="us", zone="UTC" if universal else None)


def decimal_settings(numbers: dict[str, Any], decimals: int) -> dict[str, Any]:
    """Return the settings of a column of decimals from its settings as numbers.

    Bounds move outwards to a number of these decimals, and ``step`` is left out.
    """
    lower, upper = outer(numbers["lower"], numbers["upper"], Fraction(1, 10**decimals))
    kept = {name: value for name, value in numbers.items() if name != "step"}
    return kept | {"type": "decimal", "lower": lower, "upper": upper, "decimals": decimals}


def clock_settings(micros: Collection[int]) -> dict[str, Any]:
    """Return the settings of a column of times of day: whole hours around the values as bounds, and the resolution."""
    ticks = np.array(list(micros), np.int64)
    resolution = next(name for name, each in RESOLUTIONS.items() if name != "D" and not (ticks % each).any())
    first, last = int(ticks.min() // RESOLUTIONS["h"]), int(ticks.max() // RESOLUTIONS["h"])
    upper = dt.time(last, 59, 59, 999_999) if resolution != "h" or first == last else dt.time(last)
    return {"type": "time", "lower": f"{first:02}:00:00", "upper": upper.isoformat(), "resolution": resolution}


MOST_LEVELS = 100
"""Levels of any column that a draft lists, at most; longer lists need frequent levels.  A safety limit of length."""

LONGEST_LIST, REPEATS = 500, 10
"""Longest list of levels that a draft writes, such as countries.  A list of more than `MOST_LEVELS` levels is written
only if a level has at least REPEATS rows on average.  Levels of other columns are left to discovery.  Safety limits."""

NEARLY_ALL = 0.95
"""Fraction of different values among a column's values from which the column counts as an identifier of rows.  Less
would leave out columns with many values; more keeps identifiers as levels.  A tolerance."""

FEW_ROWS = round(1 / (1 - NEARLY_ALL))
"""Rows below which a column never counts as an identifier, because few values rarely repeat.  Derived: from this many
rows on, `NEARLY_ALL` allows a value that repeats, so the column says more than that all its values differ."""


@runtime_checkable
class _Typed(Protocol):
    """A source that can return the kind of a column from the table's own types."""

    def kind(self, name: str) -> Column:
        """Return the kind of column that the table's type suggests."""
        ...


@runtime_checkable
class _Listed(Protocol):
    """A source that can return the levels that a column's type lists in order."""

    def order(self, name: str) -> tuple[Any, ...]:
        """Return the levels in order; none if the type lists none."""
        ...


def order_of(level: Any) -> tuple[bool, Any]:
    """Return a sort key for levels of mixed types: numbers first, then texts."""
    return (True, str(level)) if isinstance(level, str) else (False, level)


@runtime_checkable
class _Unbound(Protocol):
    """A source whose columns may hold values of any type, whatever type was declared."""

    def is_untyped(self, name: str) -> bool:
        """Return whether the values alone tell a column's type."""
        ...


def _is_listable(value: object) -> bool:
    """Return whether a schema can hold a value: a text, a bool, an int or a finite float; others count as strange."""
    return isinstance(value, (str, bool, int)) or (isinstance(value, float) and math.isfinite(value))


@dataclass(slots=True, eq=False, repr=False)
class Seen:
    """How often each value of one column occurs, for the draft of this column.

    ``rows`` counts all rows, and ``missing`` the rows without a value.
    """

    counts: Counter[Any] = field(default_factory=Counter)
    rows: int = 0
    missing: int = 0

    def add(self, raw: RawColumn) -> None:
        """Add the values of some more rows to the counts."""
        values, codes = _distinct(raw)
        self.rows += len(codes)
        self.missing += int(np.count_nonzero(codes < 0))
        for value, count in zip(values, np.bincount(codes[codes >= 0], minlength=len(values)).tolist(), strict=True):
            if count and _is_listable(value):
                self.counts[value] += count

    @property
    def present(self) -> int:
        """Number of rows with a value that a schema can hold."""
        return self.counts.total()

    @property
    def strange(self) -> int:
        """Number of rows with a value that no schema can hold, such as a list."""
        return self.rows - self.missing - self.present

    @property
    def names_rows(self) -> bool:
        """Whether nearly every row has its own value, as an identifier has."""
        return self.present >= FEW_ROWS and len(self.counts) >= NEARLY_ALL * self.present

    @property
    def shared(self) -> list[Any]:
        """Values that at least `SHARED` rows have, which a draft may name; the most frequent first."""
        return self.frequent(SHARED)

    def frequent(self, least: float) -> list[Any]:
        """Return the values that at least ``least`` rows have, the most frequent first.

        Equally frequent values are sorted, so that the order of the rows changes nothing.
        """
        found = [value for value, count in self.counts.items() if count >= least]
        return sorted(found, key=lambda value: (-self.counts[value], *order_of(value)))

    @property
    def is_listable(self) -> bool:
        """Whether the different values are few enough for a list of levels."""
        different = len(self.counts)
        return different <= MOST_LEVELS or (different <= LONGEST_LIST and self.present >= REPEATS * different)

    def alike(self) -> Seen:
        """Return these counts with texts that are written as numbers among the values counted as these numbers.

        A column of objects may hold 1 and "1", as files that are read in parts have.  A level that is a number reads both.
        """
        number = {str(value): value for value in self.counts if not isinstance(value, str)}
        merged: Counter[Any] = Counter()
        for value, count in self.counts.items():
            merged[number.get(value, value) if isinstance(value, str) else value] += count
        return Seen(merged, self.rows, self.missing)

    def without(self, texts: Iterable[str]) -> Seen:
        """Return these counts with some texts counted as missing."""
        gone = {text: self.counts[text] for text in texts}
        return Seen(self.counts - Counter(gone), self.rows, self.missing + sum(gone.values()))

    def read_as(self, column: Column) -> Seen:
        """Return these counts with each value read as another kind of column; unreadable values count as `strange`."""
        values, again = list(self.counts), Seen(rows=self.rows, missing=self.missing)
        found, codes = _distinct(declared(Labels(values, np.arange(len(values))), column))
        for value, code in zip(values, codes.tolist(), strict=True):
            if code >= 0:
                again.counts[found[code]] += self.counts[value]
        return again


def read_table(
    source: Source, names: Sequence[str], csv: CsvFormat | None, *, sure: bool
) -> tuple[dict[str, Seen], dict[str, Column]]:
    """Return the counts of values and the kind of each column, by name; columns that cannot be read are left out.

    Parameters
    ----------
    source, names
        The table and its columns.
    csv
        Format of a file of texts; ``None`` for a table that has types.
    sure
        Whether every text that ``csv`` lists as missing is missing in every column.
    """
    if not isinstance(source, TextSource):
        kinds = _kinds(source, names)
        return _all_seen(source, [name for name in names if not kinds or name in kinds], kinds), kinds
    seen = _all_seen(source, names, dict.fromkeys(names, Categorical()))
    spelled = () if csv is None else csv.missing
    read = {name: _texts_read(one, spelled, frozenset() if sure else DOUBTFUL_MISSING) for name, one in seen.items()}
    return {name: one for name, (one, _) in read.items()}, {name: kind for name, (_, kind) in read.items()}


def _kinds(source: Source, names: Sequence[str]) -> dict[str, Column]:
    """Return the kind of each column from the source's types, by name; an empty dict for a source without types."""
    kinds: dict[str, Column] = {}
    if not isinstance(source, _Typed):
        return kinds
    for name in names:
        with suppress(Exception):  # whatever one type does, the other columns are drafted
            kind = kind_of_objects(source, name, source.kind(name))
            order = source.order(name) if kind == source.kind(name) and isinstance(source, _Listed) else ()
            kinds[name] = Ordinal(order) if len(order) > 1 and isinstance(kind, Categorical) else kind
    return kinds


def _all_seen(source: Source, names: Sequence[str], kinds: dict[str, Column]) -> dict[str, Seen]:
    """Return the counts of values by column.

    If reading all columns together fails, each is read alone, and failures are left out.
    """
    with suppress(Exception):
        return _seen(source, names, kinds)
    found: dict[str, Seen] = {}
    for name in names:
        with suppress(Exception):
            found |= _seen(source, [name], {name: kinds[name]} if name in kinds else {})
    return found


def _seen(source: Source, names: Sequence[str], kinds: dict[str, Column]) -> dict[str, Seen]:
    """Return the counts of values by column; columns without a kind are read as the source reads them."""
    seen = {name: Seen() for name in names}
    for block in source.blocks({name: kinds[name] for name in names if name in kinds}, extra=names):
        for name in names:
            seen[name].add(block[name])
    return seen


def _texts_read(seen: Seen, missing: Collection[str], doubtful: Collection[str]) -> tuple[Seen, Column]:
    """Return the counts of a column's texts, read as the first kind that fits all present texts, and that kind.

    A doubtful missing text, such as "none", becomes a level if the column has few levels and the text is frequent.  A
    release reads the texts of declared levels as these levels.
    """
    gone = {text for text in seen.counts if isinstance(text, str) and is_missing(text, missing)}
    kind = _kind_of_texts({str(text): count for text, count in seen.counts.items() if text not in gone})
    if isinstance(kind, Categorical) and len(seen.counts) > len(gone):
        levels = seen.without(text for text in gone if text.strip() not in doubtful or seen.counts[text] < SHARED)
        return (levels if levels.is_listable else seen.without(gone)), kind
    return seen.without(gone).read_as(kind), kind


def _distinct(raw: RawColumn) -> tuple[list[Any], np.ndarray]:
    """Return the different values of a raw column, and the position of each row's value, (rows,), -1 if missing.

    NaN counts as missing.
    """
    if isinstance(raw, Labels):
        return raw.levels, raw.codes
    labels = labels_of_numbers(raw)
    return labels.levels, labels.codes


def _kind_of_texts(counts: Mapping[str, int]) -> Column:
    """Return the first kind of column that reads all texts, or nearly all in one format; categorical otherwise."""
    words = [text.strip() for text in counts]
    if not words:
        return Categorical()
    if all(word.casefold() in {"true", "false"} for word in words):
        return Boolean()
    if all(whole_number(word) is not None for word in words):
        return days_as_numbers(map(int, words)) or Integer()
    if all(map(_is_number, words)):
        whole = all(float(word).is_integer() and abs(float(word)) < LARGEST_WHOLE for word in words)
        return Integer() if whole else Continuous()  # as 5.0 is written where values are missing
    written = kind_as_written(counts)
    if all(map(is_moment, words)) and (written is None or written.quantity != "moment" or is_usual(written)):
        return kind_of_moments(words)
    return written or Categorical()


def _is_number(word: str) -> bool:
    """Return whether a text is a finite number; a code such as 007 is none."""
    if re.fullmatch(r"[+-]?0\d.*", word):  # 007 is a code
        return False
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


def csv_of(source: Source, missing: Collection[str] | None) -> CsvFormat | None:
    """Return the format by which a draft and a release read a file of texts; ``None`` for a table that has types.

    The format's texts for missing values are ``missing``; for ``None``, the source's texts or else `USUAL_MISSING`.
    """
    if not isinstance(source, TextSource):
        return None
    spelled = source.csv.missing or USUAL_MISSING if missing is None else checked_missing(missing)
    return replace(source.csv, missing=tuple(text for text in spelled if text))
