"""NOT private: the format in which a column's texts write numbers or times, found in the texts for a draft."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from synthdp.nonprivate.draft_numbers import SHARED
from synthdp.schema.columns import Column, Continuous, Datetime, Duration, Integer, Time
from synthdp.schema.formats import CellFormat, number_format, time_format, without_brackets

NEARLY_ALL = 0.98
"""Fraction of the rows that a format must read.  A few cells of every large table are written in another way.  Less
would turn texts into missing values; more gives up a format for a few cells.  A tolerance."""

FEW = 20
"""Different texts, at most, that stay levels even if a format reads them, such as "36 months" and "60 months".  More
would keep columns of numbers as levels.  A tolerance."""

FEWEST_DAYS = 5
"""Fewest different whole numbers that are taken as days such as 20180502.  Derived: of the numbers from
18000000 to 21010000 one in 27 is a day, so five are no accident."""

FEWEST_CLOCKS = 60
"""Fewest different whole numbers that are taken as times of day such as 1745.  Derived: multiples of 50 are times too, but
only 48 of them; of other numbers three in five end as a minute does, so sixty are no accident."""

MOST_WORDS = 5
"""Words among numbers, such as "none", that a draft lists with a number each, at most.  With more frequent words
than that, the column is drafted as texts.  A safety limit."""

TRIED, LOST = 200, 0.1
"""Rows, spread evenly over all, on which a format is tried first, and the fraction of them that it may fail to read. A
format that fails on more is not tried on all rows, and so costs little.  A format that reads `NEARLY_ALL` rows fails
here once in 10^9 columns.  A safety limit of time."""

_DAYS = (
    *(order.replace("/", sign) for sign in "./-" for order in ("%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y")),
    "%Y/%m/%d", "%Y.%m.%d", "%Y-%m-%d", "%d %b %Y", "%d-%b-%Y", "%d-%b-%y", "%d/%b/%Y", "%b %d, %Y", "%B %d, %Y", "%d %B %Y",
    "%b-%Y", "%b-%y", "%b %Y", "%B %Y", "%m/%Y",
)  # fmt: skip
"""Formats of days that a draft tries, the likeliest first."""

_CLOCKS = ("%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M:%S %p")
"""Formats of times of day that a draft tries: the usual ones."""

_MOMENTS = tuple(f"{day}{between}{clock}" for day in _DAYS for clock in _CLOCKS for between in (" ", "T", ", "))
"""Formats of days with times of day that a draft tries."""

_MONTH_FIRST = "%m/%d/"
"""Prefix of the formats that write the month before the day; they are taken where both orders read as many rows."""

_MONEY = (
    "€",
    "$",
    "£",
    "¥",
    "₹",
    "₩",
    "₽",
    "₺",
    "US$",
    "R$",
    "USD",
    "EUR",
    "GBP",
    "CHF",
    "Fr.",
    "kr",
    "kr.",
    "zł",
    "Kč",
    "Ft",
)
"""Currency signs that may stand before or after a number, in a column that a draft takes for numbers."""

_UNITS = ("%", "‰", "°", "°C", "°F", "kg", "g", "mg", "km", "m", "cm", "mm", "l", "ml", "GB", "MB", "kB")
"""Units that may stand after a number, in a column that a draft takes for numbers."""

_SIGNS = (("", "."), ("", ","), (".", ","), (",", "."), (" ", ","), (" ", "."), ("'", "."), ("'", ","))
"""Pairs (thousands separator, decimal point) that a draft tries."""

_NUMBER = re.compile(
    r"[-+\u2212]?\s*(?P<before>[^\d+\-\u2212<>\u2264\u2265]*?)\s*[-+\u2212]?"
    r"(?P<number>\d(?:[\d.,'\u2019 \u00a0\u202f]*\d)?)(?P<after>[^\d]*)"
)
"""A regular expression of a number in a text, with the texts before and after the number: a currency or a unit."""

_LIMIT = re.compile(r"(?P<side>[<>\u2264\u2265])=?\s*(?P<number>.*\d.*)")
"""A regular expression of a limit of detection: a number behind a sign such as "<"."""

_BLANKS = {
    "before": re.compile(r"[^\d\s+-][ \u00a0\u202f]+\d"), "after": re.compile(r"\d[ \u00a0\u202f]+[^\d\s]"),
}  # fmt: skip
"""Regular expressions of a blank before and after a number.  A format has the blank if most rows have it."""

_DIGIT = re.compile(r"\d")
"""A digit, which a time in any format has: a column where many texts have none holds no times."""

_CODE = re.compile(r"0\d")
"""The beginning of a code that is no number, such as 007; one such text keeps a column a column of texts."""


def kind_as_written(counts: Mapping[str, int]) -> Column | None:
    """Return the kind of column, with its format, if nearly all texts are times or numbers in one format.

    Return ``None`` for any other column.  The order of the texts changes nothing: they are put in the order of their
    checksums, which is as good as random.

    Parameters
    ----------
    counts
        Rows of each text; missing values are left out.

    """
    if not counts:
        return None
    shuffled = dict(sorted(counts.items(), key=lambda one: (_checksum(one[0]), one[0])))
    return _times(shuffled) or _numbers(shuffled)


def days_as_numbers(values: Iterable[Any]) -> Column | None:
    """Return the kind of a column of moments if all whole numbers are days such as 20180502, else ``None``.

    At least `FEWEST_DAYS` different numbers are needed.
    """
    different = list(values)
    if len(different) < FEWEST_DAYS or not all(type(one) is int and 18_000_000 < one < 21_010_000 for one in different):
        return None
    kind = Datetime(resolution="us", format="%Y%m%d")
    form = time_format("%Y%m%d", "moment")
    return kind if all(form.read(str(one)) is not None for one in different) else None


def times_as_numbers(counts: Mapping[Any, int]) -> Column | None:
    """Return the kind of a column of moments or times of day that are written as numbers: 20180502 or 1745; else ``None``.

    Numbers are whole, also where a missing value has made them 20180502.0.

    Parameters
    ----------
    counts
        Rows of each number; missing values are left out.
    """
    if not all(float(number).is_integer() for number in counts):
        return None
    rows = {int(number): count for number, count in counts.items()}
    return days_as_numbers(rows) or _clocks_as_numbers(rows)


def _clocks_as_numbers(rows: Mapping[int, int]) -> Column | None:
    """Return the kind of a column of times of day if nearly all numbers are times such as 5 and 1745; else ``None``.

    The numbers need half of the hours of a day, the minute 0 and one of the last five minutes.  Numbers of weeks or months
    lack these.
    """
    form = time_format("%H%M", "clock")
    fitting = [number for number in rows if 0 <= number <= 2400 and form.read(str(number)) is not None]
    minutes = {number % 100 for number in fitting}
    if len(fitting) < FEWEST_CLOCKS or 0 not in minutes or max(minutes) < 55:
        return None
    if len({number // 100 for number in fitting}) < 12:
        return None
    return Time(resolution="us", format="%H%M") if _nearly_all(rows, set(fitting).__contains__) else None


def _times(counts: Mapping[str, int]) -> Column | None:
    """Return the kind of column, with its format, if nearly all texts are moments, times of day or durations.

    Return ``None`` for any other column, at once if too many rows have no digit.  Texts that all are eight digits are
    days or nothing.  Of several formats that fit, the one that reads most rows counts.
    """
    if all(len(text.strip()) == 8 and text.strip().isdigit() for text in counts):
        return days_as_numbers(int(text) for text in counts)
    if not _nearly_all(counts, lambda text: _DIGIT.search(text) is not None):
        return None
    tried = _tried(counts)
    for kind, patterns in ((Datetime(resolution="us"), (*_DAYS, *_MOMENTS)), (Time(resolution="us"), _CLOCKS)):
        fitting = [pattern for pattern in patterns if _reads(time_format(pattern, kind.quantity), counts, tried)]
        if fitting:
            fitting.sort(key=lambda one: not one.startswith(_MONTH_FIRST))
            best = max(fitting, key=lambda one: _read_rows(time_format(one, kind.quantity), counts))
            return replace(kind, format=_as_bare(best, kind.quantity, counts))
    if _reads(time_format("%H:%M:%S", "length"), counts, tried):
        return Duration(resolution="us", format=_as_bare("%H:%M:%S", "length", counts))
    return None


def _as_bare(pattern: str, quantity: str, counts: Mapping[str, int]) -> str:
    """Return the variant of a time format, with or without leading zeros, that reproduces the most rows' texts.

    A release writes its texts so.
    """
    variants = [pattern, *(re.sub(f"%([{codes}])", r"%-\1", pattern) for codes in ("dm", "dmHI", "HI"))]
    return max(variants, key=lambda one: _given_back(time_format(one, quantity), counts))


def _numbers(counts: Mapping[str, int]) -> Column | None:
    """Return the kind of column, with its format, if nearly all texts are numbers of one format or frequent words.

    Return ``None`` for any other column, for few different numbers, and for codes such as 007.  Brackets around some
    numbers, but not around all, mean that these are negative.
    """
    signed = _with_minus(counts)
    bracketed = bool(signed.keys() - counts.keys())
    counts = signed
    found = {text: _NUMBER.fullmatch(text.strip()) for text in counts}
    around: dict[tuple[str, str], int] = {}
    for text, match in found.items():
        if match is not None:
            place = match["before"].strip(), match["after"].strip()
            around[place] = around.get(place, 0) + counts[text]
    if not around:
        return None
    before, after = max(around, key=around.__getitem__)
    if (before and before not in _MONEY) or (after and after not in (*_MONEY, *_UNITS)):
        return None
    numbers = {text: count for text, count in counts.items() if (match := found[text]) and match["number"]}
    words = {text: count for text, count in counts.items() if text not in numbers}
    if len(numbers) <= FEW or any(_CODE.match(_digits_of(text)) for text in numbers):
        return None
    forms = {
        signs: number_format(f"{before}{_number_example(*signs, grouped=True, digits=0)}{after}") for signs in _SIGNS
    }
    tried = _tried(numbers)
    fitting = [signs for signs, form in forms.items() if _reads(form, numbers, tried)]
    if not fitting:
        return None
    signs = _likelier(fitting, numbers)
    named = _named(words, forms[signs], numbers)
    rest = sum(count for text, count in words.items() if text.strip() not in dict(named))
    if rest > (1 - NEARLY_ALL) * sum(counts.values()):
        return None
    whole = not any(signs[1] in _digits_of(text) for text in numbers)
    kind: Column = Integer() if whole and all(float(one).is_integer() for _, one in named) else Continuous()
    plain = not before and not after and signs == ("", ".") and not bracketed
    example = None if plain else _example(before, after, signs, numbers)
    return replace(kind, format=f"({example})" if bracketed else example, words=named)


def _with_minus(counts: Mapping[str, int]) -> Mapping[str, int]:
    """Return the number of rows of each text, with a minus in place of brackets such as "(1,234)".

    Brackets stay if all numbers have brackets, or fewer than `SHARED` rows: then they do not mean "negative".
    """
    inside = {text: without_brackets(text.strip()) for text in counts if _DIGIT.search(text)}
    rows = sum(counts[text] for text, one in inside.items() if one is not None)
    if rows < SHARED or all(one is not None for one in inside.values()):
        return counts
    signed: dict[str, int] = {}
    for text, count in counts.items():
        bare = inside.get(text)
        key = text if bare is None else f"-{bare}"
        signed[key] = signed.get(key, 0) + count
    return signed


def _digits_of(text: str) -> str:
    """Return the digits and separators of a number in a text, "" if there is none, to see which sign divides what."""
    match = _NUMBER.fullmatch(text.strip())
    return match["number"] if match else ""


def _number_example(thousands: str, point: str, *, grouped: bool, digits: int | None) -> str:
    """Return 1234 and up to four decimals as a format writes them: "1,234.56".

    ``digits=None`` gives no decimal point, and ``digits=0`` a point and "#", for decimals that may be left out.
    """
    fraction = "" if digits is None else point + ("5678"[:digits] or "#")
    return f"1{thousands if grouped else ''}234{fraction}"


def _likelier(fitting: list[tuple[str, str]], numbers: Mapping[str, int]) -> tuple[str, str]:
    """Return the likeliest (thousands separator, decimal point) of the pairs that read nearly all numbers.

    Digits with a point and no separator are the likeliest.  A comma is taken as a thousands separator if all texts
    without it have at most three digits, and no text starts with "0,".  Otherwise the first pair counts.
    """
    if ("", ".") in fitting:
        return "", "."
    if ("", ",") in fitting and (",", ".") in fitting:
        texts = [_digits_of(text) for text in numbers]
        small = all(len(text) <= 3 for text in texts if "," not in text)
        return (",", ".") if small and not any(text.startswith("0,") for text in texts) else ("", ",")
    return fitting[0]


def _example(before: str, after: str, signs: tuple[str, str], numbers: Mapping[str, int]) -> str:
    """Return the example number that defines a format, with the separators and blanks of most rows.

    ``before`` and ``after`` are the texts on both sides of the number, such as "$" and "%".  ``signs`` are the
    thousands separator and the decimal point.  ``numbers`` holds the number of rows of each text.  The example has as
    many decimals as the text with the fewest, at most four.
    """
    thousands, point = signs
    if thousands in (" ", "'"):  # the one of its kind that most rows have
        alike = "'\u2019" if thousands == "'" else " \u00a0\u202f"
        often = {sign: sum(count for text, count in numbers.items() if sign in _digits_of(text)) for sign in alike}
        thousands = max(often, key=often.__getitem__)
    texts = [(_NUMBER.fullmatch(text.strip()), count) for text, count in numbers.items()]
    fractions = [
        len(match["number"].partition(point)[2]) if point in match["number"] else 0 for match, _ in texts if match
    ]
    grouped = any(thousands and thousands in match["number"] for match, _ in texts if match)
    rows = sum(numbers.values())
    spaced = {
        end: 2 * sum(count for match, count in texts if match and blank.search(match.group())) > rows
        for end, blank in _BLANKS.items()
    }
    digits = min(*fractions, 4) if max(fractions) else None
    number = _number_example(thousands, point, grouped=grouped, digits=digits)
    left = f"{before} " if before and spaced["before"] else before
    right = f" {after}" if after and spaced["after"] else after
    return f"{left}{number}{right}"


def _named(words: Mapping[str, int], form: CellFormat, numbers: Mapping[str, int]) -> tuple[tuple[str, float], ...]:
    """Return (word, number) for each frequent word among numbers; empty if there are more than `MOST_WORDS`.

    A column of numbers needs a number for each word.  The number is not in the column yet.  A text such as "<5" gets
    half the limit, and ">5" gets the limit.  Any other word gets a whole number below 0.
    """
    often = [text for text, count in words.items() if count >= SHARED]
    if len(often) > MOST_WORDS:
        return ()
    values = {float(read) for text in numbers if (read := form.read(text)) is not None}
    found: dict[str, float] = {}
    below = -1
    for text in sorted(often):
        match = _LIMIT.fullmatch(text.strip())
        read = None if match is None else form.read(match["number"])
        if match is not None and read is not None:
            limit = float(read) / (2 if match["side"] in "<\u2264" else 1)
            while limit in values or limit in found.values():
                limit = limit * 0.99 if match["side"] in "<\u2264" else limit * 1.01 + 1e-6
            found[text.strip()] = int(limit) if limit.is_integer() else round(limit, 9)
        else:
            while below in values or below in found.values():
                below -= 1
            found[text.strip()] = below
    return tuple(found.items())


def _checksum(text: str) -> int:
    """Return a checksum of a text, by which texts are shuffled in the same way on every run."""
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def _tried(counts: Mapping[str, int]) -> list[str]:
    """Return the texts of `TRIED` rows, at even distances among all rows in the order of ``counts``.

    A frequent text may occur several times.  The list is empty for at most `TRIED` different texts, since formats are
    then tried on all texts at once.
    """
    if len(counts) <= TRIED:
        return []
    texts, ends = list(counts), np.cumsum([*counts.values()])
    places = (np.arange(TRIED) + 0.5) * (float(ends[-1]) / TRIED)
    return [texts[i] for i in np.searchsorted(ends, places, side="right").tolist()]


def _reads(form: CellFormat, counts: Mapping[str, int], tried: Sequence[str]) -> bool:
    """Return whether a format reads the texts of nearly all rows; see `NEARLY_ALL`.

    ``counts`` are the numbers of rows with each text.  The format is first tried on ``tried``, the texts of `TRIED` rows:
    most formats fail there, which saves time.
    """
    lost = sum(form.read(text) is None for text in tried)
    return lost <= LOST * len(tried) and _nearly_all(counts, lambda text: form.read(text) is not None)


def _nearly_all(counts: Mapping[Any, int], fits: Callable[[Any], bool]) -> bool:
    """Return whether the cells of nearly all rows fit; the answer is known as soon as too many do not."""
    left = (1 - NEARLY_ALL) * sum(counts.values()) * (1 + 1e-9)
    for text, count in counts.items():
        if not fits(text):
            left -= count
            if left < 0:
                return False
    return True


def _read_rows(form: CellFormat, counts: Mapping[str, int]) -> int:
    """Return how many rows have a text that a format reads."""
    return sum(count for text, count in counts.items() if form.read(text) is not None)


def _given_back(form: CellFormat, counts: Mapping[str, int]) -> int:
    """Return how many rows have a text that a format reads and writes back unchanged, except for blanks around it.

    Of several formats that read a column, the draft takes the one that gives most texts back.
    """
    return sum(
        count
        for text, count in counts.items()
        if (value := form.read(text)) is not None and form.write(value) == text.strip()
    )
