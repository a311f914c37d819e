"""Text formats of a column's cells, if they are declared: private texts are read by them, and synthetic ones written.

A format is public.  Each text is read by itself, and a text that cannot be read is an out-of-domain value.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol
from zoneinfo import ZoneInfo

from synthdp.errors import SchemaError
from synthdp.schema.plain_values import EPOCH, MICROSECOND

LONGEST_FORMAT = 100
"""Most characters of a format.  A safety limit, because it becomes a regular expression."""

LAST_YEAR = 2068
"""The last year that two digits stand for, as in C and Python; the first is 99 years before.  A convention."""

_MICROS = {"H": 3_600_000_000, "M": 60_000_000, "S": 1_000_000, "f": 1}
"""Microseconds in one hour, minute, second and microsecond, by strptime code."""

_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
           "December")  # fmt: skip
"""English month names, which formats read and write whatever the system's language is."""
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
"""English weekday names, from Monday, which formats read and write whatever the system's language is."""
_SPACES = " \u00a0\u202f"
"""Spaces that may separate thousands: plain, non-breaking and narrow non-breaking."""


class CellFormat(Protocol):
    """How the cells of one column are read from and written to text."""

    @property
    def words(self) -> frozenset[str]:
        """Texts that are values of the column, even if the file lists them as missing values for other columns."""
        ...

    def read(self, text: str) -> Any:
        """Return the value of a text, or ``None`` if it cannot be read, which makes it an out-of-domain value.

        The value of a time is in microseconds, of a number a text that Python reads, of a truth value a boolean.
        """
        ...

    def write(self, value: Any) -> str:
        """Return a value as text: a number of microseconds, a Python number or a truth value."""
        ...


_NUMERIC = {
    "Y": r"\d{4}", "y": r"\d\d", "m": r"\d{1,2}", "d": r"\d{1,2}", "H": r"\d{1,2}", "I": r"\d{1,2}", "M": r"\d{1,2}",
    "S": r"\d{1,2}", "f": r"\d{1,6}", "j": r"\d{1,3}",
}  # fmt: skip
"""Regular expressions of the digits that each strptime code reads."""

_WIDTHS = {"Y": 4, "f": 6, "j": 3}
"""Numbers of digits that strptime codes write, as in strftime; 2 for codes that are not listed."""

_NAMES = {
    "B": _MONTHS, "b": tuple(name[:3] for name in _MONTHS), "A": _DAYS, "a": tuple(name[:3] for name in _DAYS),
    "p": ("AM", "PM"),
}  # fmt: skip
"""The English names that each strptime code reads and writes."""

_OFFSET = r"Z|[+-]\d\d:?\d\d"
"""A regular expression of a time zone's offset, such as +0100."""

_OF = {
    "moment": frozenset("YymdHIMSfjBbAapz"), "clock": frozenset("HIMSfp"), "length": frozenset("HMSf"),
}  # fmt: skip
"""The strptime codes that are allowed for moments, times of day and lengths of time: only what each of them has, such as
no day in a time of day.  Others, such as week numbers, are refused."""

_PART = re.compile(r"%(?P<plain>-?)(?P<code>[A-Za-z%])|(?P<text>[^%]+)")
"""A regular expression of one part of a format: a strptime code, or plain text."""


@dataclass(frozen=True, slots=True)
class TimeFormat:
    """A text format of moments, times of day or lengths of time, such as ``%d.%m.%Y``; see `time_format`.

    Parameters
    ----------
    quantity
        ``"moment"``, ``"clock"`` or ``"length"``.
    parts
        Codes and the texts between them: the code or "", the text, and whether a number is written without leading
        zeros.
    last_year
        The last year that two digits stand for.
    zone
        The zone that moments are written in, if the pattern contains it.
    """

    quantity: str
    parts: tuple[tuple[str, str, bool], ...]
    last_year: int
    zone: str | None

    @property
    def words(self) -> frozenset[str]:
        """No texts: a pattern has no fixed words."""
        return frozenset()

    def read(self, text: str) -> int | None:
        """Return the microseconds that a text stands for, or ``None`` if it does not match the pattern.

        It is also ``None`` for days or hours that do not exist.  If a table of numbers dropped leading zeros, they are
        restored; a decimal ``.0``, which pandas adds to whole numbers beside missing values, is dropped.
        """
        bare, width = text.strip(), _width(self.parts)
        digits = bare.removesuffix(".0")
        if width is not None and digits.isascii() and digits.isdigit():  # 930 in a column of whole numbers is 0930
            bare = digits.zfill(width)
        found = _compiled(self.parts, self.quantity).fullmatch(bare)
        if found is None:
            return None
        try:
            return self._micros(found.groupdict())
        except (ValueError, OverflowError):  # no such day or hour
            return None

    def _micros(self, told: Mapping[str, str]) -> int | None:
        """Return the microseconds that the matched digits and names of each code, ``told``, stand for.

        Microseconds count from 1970 UTC or from midnight, or are a length.  Return ``None`` if an hour, minute or
        second is out of range.
        """
        numbers = {code: int(digits) for code, digits in told.items() if code in _NUMERIC}
        if "f" in told:
            numbers["f"] = int(told["f"].ljust(6, "0"))
        if "p" in told:
            if not 1 <= numbers["I"] <= 12:
                return None
            numbers["H"] = numbers["I"] % 12 + 12 * (told["p"].casefold() == "pm")
        inside = sum(numbers.get(code, 0) * each for code, each in _MICROS.items())
        if self.quantity == "length":
            return -inside if told["minus"] else inside
        if self.quantity == "clock" and inside == 24 * _MICROS["H"]:  # 24:00 is the midnight at the end of a day
            return 0
        if numbers.get("H", 0) > 23 or numbers.get("M", 0) > 59 or numbers.get("S", 0) > 59:
            return None
        if self.quantity == "clock":
            return inside
        return (self._day(told, numbers) - EPOCH) // MICROSECOND + inside - _offset(told.get("z"))

    def _day(self, told: Mapping[str, str], numbers: Mapping[str, int]) -> dt.datetime:
        """Return the day of matched parts, given as texts and as numbers by code; without a day or month it is the first.

        Raise ValueError for a day that does not exist; `read` then returns ``None``.
        """
        year = numbers["Y"] if "Y" in numbers else self.last_year - (self.last_year - numbers["y"]) % 100
        if "j" in numbers:
            day = dt.datetime(year, 1, 1) + dt.timedelta(days=numbers["j"] - 1)  # noqa: DTZ001 - see EPOCH
            if day.year != year:
                raise ValueError
            return day
        named = next((_place(told[code], _NAMES[code]) + 1 for code in "Bb" if code in told), 1)
        return dt.datetime(year, numbers.get("m", named), numbers.get("d", 1))  # noqa: DTZ001

    def write(self, value: Any) -> str:
        """Return a number of microseconds as text."""
        micros = int(value)
        if self.quantity == "moment":
            moment = EPOCH + dt.timedelta(microseconds=micros)
            if self.zone is not None:
                moment = moment.replace(tzinfo=dt.UTC).astimezone(ZoneInfo(self.zone))
            return "".join(text if not code else _written(code, moment, bare=bare) for code, text, bare in self.parts)
        sign, left, found = "-" * (micros < 0), abs(micros), []
        codes = {code for code, _, _ in self.parts}
        of: dict[str, int] = {}
        for code, each in _MICROS.items():
            if code in codes or (code == "H" and "I" in codes):
                of[code], left = divmod(left, each)
        for code, text, bare in self.parts:
            if code == "p":
                found.append("PM" if of["H"] >= 12 else "AM")
            elif code:
                number = (of["H"] + 11) % 12 + 1 if code == "I" else of[code]
                found.append(_digits(number, code, bare=bare))
            else:
                found.append(text)
        return sign + "".join(found)


@lru_cache(maxsize=256)
def time_format(pattern: str, quantity: str, *, last_year: int = LAST_YEAR, zone: str | None = None) -> TimeFormat:
    """Return the text format that a strptime-like pattern of times describes.

    Parameters
    ----------
    pattern
        The codes of ``strptime``: ``%Y %y %m %d %j %B %b %A %a`` for days (names are English); ``%H %I %p %M %S %f``
        for times of day; ``%z`` for the offset of a zone.  Other characters stand for themselves.  A ``-``, as in
        ``%-d``, writes a number without leading zeros; in texts that are read, these zeros may always be missing.
    quantity
        ``"moment"``, ``"clock"`` or ``"length"``; the hours of a length may be more than 23.
    last_year
        The last year that ``%y`` stands for.
    zone
        The zone that moments are written in if the pattern has ``%z``; ``None`` for UTC.

    Raises
    ------
    SchemaError
        If it is no such pattern, or its texts do not determine a value.

    Examples
    --------
    >>> time_format("%d.%m.%Y", "moment").write(0)
    '01.01.1970'
    >>> time_format("%H:%M", "clock").read("08:30") // 60_000_000
    510
    """
    if not isinstance(pattern, str) or not 1 <= len(pattern) <= LONGEST_FORMAT or not pattern.isprintable():
        raise SchemaError("format must be a pattern such as '%d.%m.%Y'")
    parts: list[tuple[str, str, bool]] = []
    at = 0
    while at < len(pattern):
        part = _PART.match(pattern, at)
        known = part is not None and (part["text"] or part["code"] == "%" or part["code"] in _OF[quantity])
        if part is None or not known:
            allowed = " ".join(f"%{code}" for code in sorted(_OF[quantity]))
            raise SchemaError(f"format ({pattern!r}) may contain only {allowed} and plain characters")
        at = part.end()
        plain = part["text"] or ("%" if part["code"] == "%" else "")
        parts.append(("", plain, False) if plain else (part["code"], "", bool(part["plain"])))
    codes = [code for code, _, _ in parts if code]
    wrong = _what_is_wrong(codes, quantity)
    if wrong:
        raise SchemaError(f"format ({pattern!r}) {wrong}")
    return TimeFormat(quantity, tuple(parts), last_year, zone if "z" in codes else None)


def _what_is_wrong(codes: list[str], quantity: str) -> str:
    """Return what is wrong with the codes of a time format, as the end of a sentence; "" if nothing is."""
    if len(set(codes)) < len(codes):
        return "must name each part once"
    if ("p" in codes) != ("I" in codes) or ("I" in codes and "H" in codes):
        return "must have %I and %p together, or %H"
    if quantity == "moment":
        if ("Y" in codes) == ("y" in codes):
            return "must have either %Y or %y for the year"
        if "d" in codes and not {"m", "b", "B"} & set(codes):
            return "must have the month of a day: %m, %b or %B"
        return "must have %j or a month and a day" if "j" in codes and {"d", "m", "b", "B"} & set(codes) else ""
    if quantity == "clock" and not {"H", "I"} & set(codes):
        return "must have the hour: %H, or %I and %p"
    return "" if codes else "must have %H, %M or %S"


@lru_cache(maxsize=256)
def _compiled(parts: tuple[tuple[str, str, bool], ...], quantity: str) -> re.Pattern[str]:
    """Return the regular expression that reads a time format; of adjacent numbers each must have all digits."""
    found = ["(?P<minus>-)?"] if quantity == "length" else []
    first = next(code for code, _, _ in parts if code)
    for i, (code, text, _) in enumerate(parts):
        beside = any(0 <= j < len(parts) and parts[j][0] in _NUMERIC for j in (i - 1, i + 1))
        if not code:
            found.append(r"\s+".join(map(re.escape, re.split(r"\s+", text))))
        elif code == "z":
            found.append(f"(?P<z>{_OFFSET})")
        elif code in _NAMES:
            found.append(f"(?P<{code}>{'|'.join(_NAMES[code])})")
        elif quantity == "length" and code == first:
            found.append(f"(?P<{code}>\\d{{1,9}})")
        else:
            width = _WIDTHS.get(code, 2)
            found.append(f"(?P<{code}>{f'[0-9]{{{width}}}' if beside else _NUMERIC[code]})")
    return re.compile("".join(found), re.IGNORECASE | re.ASCII)


@lru_cache(maxsize=256)
def _width(parts: tuple[tuple[str, str, bool], ...]) -> int | None:
    """Return the total number of digits of a pattern that has digits only, else ``None``.

    If a table has read such texts as integers without leading zeros, the number of digits restores the zeros.
    """
    if any(code not in _NUMERIC for code, _, _ in parts):
        return None
    return sum(_WIDTHS.get(code, 2) for code, _, _ in parts)


def _written(code: str, moment: dt.datetime, *, bare: bool) -> str:
    """Return the text of one strptime code for a moment; ``bare`` omits leading zeros."""
    if code in "BbAap":
        place = {"B": moment.month - 1, "b": moment.month - 1, "p": int(moment.hour >= 12)}.get(code, moment.weekday())
        return _NAMES[code][place]
    if code == "z":
        return moment.strftime("%z") or "+0000"
    number = {
        "Y": moment.year, "y": moment.year % 100, "m": moment.month, "d": moment.day, "H": moment.hour,
        "I": (moment.hour + 11) % 12 + 1, "M": moment.minute, "S": moment.second, "f": moment.microsecond,
        "j": moment.timetuple().tm_yday,
    }[code]  # fmt: skip
    return _digits(number, code, bare=bare)


def _digits(number: int, code: str, *, bare: bool) -> str:
    """Return a number as text, with leading zeros to the code's width unless ``bare``."""
    return str(number) if bare else str(number).zfill(_WIDTHS.get(code, 2))


def _place(text: str, names: tuple[str, ...]) -> int:
    """Return the index of a name, such as a month's, in ``names``, ignoring case."""
    return [name.casefold() for name in names].index(text.casefold())


def _offset(text: str | None) -> int:
    """Return the offset of a time zone in microseconds, positive east of UTC; 0 without one.

    The offset is subtracted from a moment, because moments are stored in UTC.
    """
    if text is None or text in "Zz":
        return 0
    minutes = int(text[1:3]) * 60 + int(text[-2:])
    return (-1 if text[0] == "-" else 1) * minutes * _MICROS["M"]


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """A text format of numbers, such as ``1.234,56 €``; see `number_format`.

    Parameters
    ----------
    before, after
        Texts before and after a number, with adjacent blanks; "" for none.
    thousands, point
        Separator of thousands, "" for none, and the decimal point.
    digits
        Least number of decimals that are written.
    named
        Pairs of a text and the number that it stands for.
    bracketed
        Whether negative numbers are written in brackets instead of with a minus, as in accounts.
    """

    before: str = ""
    after: str = ""
    thousands: str = ""
    point: str = "."
    digits: int = 0
    named: tuple[tuple[str, float], ...] = ()
    bracketed: bool = False

    @property
    def words(self) -> frozenset[str]:
        """Texts that stand for numbers, such as "<0.6"."""
        return frozenset(text for text, _ in self.named)

    def read(self, text: str) -> str | None:
        """Return the number in a text as Python writes it, or ``None`` if it cannot be read.

        A text in `named` gives its number.
        """
        bare = text.strip()
        for word, number in self.named:
            if bare == word:
                return repr(number)
        negative = without_brackets(bare) if self.bracketed else None
        found = _number_pattern(self).fullmatch(bare if negative is None else negative)
        if found is None or not (found["whole"] or found["part"]) or (found["first"] and found["second"]):
            return None
        whole = re.sub(r"\D", "", found["whole"] or "0")
        part, sign = f".{found['part']}" if found["part"] else "", found["first"] or found["second"]
        minus = negative is not None or sign in ("-", chr(0x2212))
        return f"{'-' * minus}{whole}{part}{found['exponent'] or ''}"

    def write(self, value: Any) -> str:
        """Return a number as text in this format, with at least ``digits`` decimals.

        A number in `named` gives its text.
        """
        for word, number in self.named:
            if value == number:
                return word
        whole, _, part = format(abs(decimal.Decimal(str(value))), "f").partition(".")
        if self == NumberFormat(named=self.named):
            return str(value)
        part = (part.rstrip("0") if not set(part) - {"0"} else part).ljust(self.digits, "0")
        grouped = f"{int(whole):,}".replace(",", self.thousands)
        written = f"{self.before}{grouped}{self.point if part else ''}{part}{self.after}"
        return written if value >= 0 else f"({written})" if self.bracketed else f"-{written}"


def without_brackets(text: str) -> str | None:
    """Return the text inside the brackets of a text such as "(1,234)"; ``None`` without brackets or with a sign inside.

    Accounts write negative numbers in this way.
    """
    inside = text[1:-1] if text.startswith("(") and text.endswith(")") else ""
    return inside.strip() if inside and not re.search(r"[-+\u2212()]", inside) else None


_EXAMPLE = re.compile(r"(?P<before>[^\d+\-]*)(?P<number>\d(?:[\d.,'\u2019 \u00a0\u202f]*[\d#])?)(?P<after>[^\d]*)")
"""A regular expression that splits an example of a written number into text before, number and text after."""


@lru_cache(maxsize=256)
def number_format(example: str | None, named: tuple[tuple[str, float], ...] = ()) -> NumberFormat:
    """Return the text format of numbers that an example shows, such as 1234.5 or another positive number.

    Texts before and after the number, and separators of thousands, may be missing in texts that are read.

    Parameters
    ----------
    example
        A written number such as ``"1.234,56 €"``, ``"$1,234"``, ``"1 234,5"`` or ``"12.5 %"``; ``None`` for plain
        digits.  A single comma or point with one to three digits before it and three after it separates thousands:
        ``"1.234"`` is 1234.  Numbers are written with at least as many decimals as the example has; a ``#`` is an
        optional one: ``"1234,#"``.  An example in brackets, ``"($1,234)"``, writes negative numbers in brackets, and
        other numbers without brackets.
    named
        Pairs of a text and the number that it stands for.

    Raises
    ------
    SchemaError
        If it shows no number, or cannot be understood.

    Examples
    --------
    >>> number_format("1.234,56 €").read("-7.000,5 €"), number_format("1.234,56 €").write(1e6)
    ('-7000.5', '1.000.000,00 €')
    """
    if example is None:
        return NumberFormat(named=named)
    inside = without_brackets(example.strip()) if isinstance(example, str) else None
    shown = example if inside is None else inside
    found = _EXAMPLE.fullmatch(shown) if isinstance(shown, str) and len(shown) <= LONGEST_FORMAT else None
    if found is None or not example.translate(dict.fromkeys(map(ord, _SPACES), " ")).isprintable():
        raise SchemaError(f"format ({example!r}) must show how a number is written, such as '1.234,56 €'")
    number = found["number"]
    signs = re.findall(r"[^\d#]", number)
    parts = re.split(r"[^\d#]", number)
    last_is_point = signs and (
        (signs[-1] in ".," and signs.count(signs[-1]) == 1)
        and (len(set(signs)) > 1 or len(parts[-1]) != 3 or len(parts[0]) > 3 or parts[0] == "0")
    )
    between = signs[:-1] if last_is_point else signs
    groups = parts[:-1] if last_is_point else parts
    in_groups = not between or (1 <= len(groups[0]) <= 3 and all(len(group) == 3 for group in groups[1:]))
    if len(set(between)) > 1 or not in_groups or any("#" in group for group in groups):
        raise SchemaError(
            f"format ({example!r}) must show a number with three digits between thousands, such as '1.234,56'"
        )
    thousands = between[0] if between else ""
    point = signs[-1] if last_is_point else "," if thousands == "." else "."
    digits = len(parts[-1].rstrip("#")) if last_is_point else 0
    return NumberFormat(found["before"], found["after"], thousands, point, digits, named, inside is not None)


@lru_cache(maxsize=256)
def _number_pattern(form: NumberFormat) -> re.Pattern[str]:
    """Return the regular expression that reads numbers in a format, with groups for signs and digits."""
    between = (
        f"[{_SPACES}]"
        if form.thousands in _SPACES
        else "['\u2019]"
        if form.thousands in "'\u2019"
        else re.escape(form.thousands)
    )
    whole = rf"\d{{1,3}}(?:{between}\d{{3}})+|\d+" if form.thousands else r"\d+"
    before, after = (rf"(?:{re.escape(text.strip())})?\s*" for text in (form.before, form.after))
    return re.compile(
        rf"(?P<first>[-+\u2212])?\s*{before}(?P<second>[-+\u2212])?\s*(?P<whole>{whole})?"
        rf"(?:{re.escape(form.point)}(?P<part>\d*))?(?P<exponent>[eE][-+]?\d{{1,4}})?\s*{after}",
        re.ASCII,
    )


@dataclass(frozen=True, slots=True)
class TruthFormat:
    """A text format of truth values: one word for true and one for false; see `truth_format`."""

    true: str
    false: str

    @property
    def words(self) -> frozenset[str]:
        """The two words, which are never read as missing values."""
        return frozenset((self.true, self.false))

    def read(self, text: str) -> bool | None:
        """Return the truth value of a word, ignoring case; ``None`` for other texts."""
        word = text.strip().casefold()
        return True if word == self.true.casefold() else False if word == self.false.casefold() else None

    def write(self, value: Any) -> str:
        """Return the word for a truth value."""
        return self.true if value else self.false


@lru_cache(maxsize=256)
def truth_format(words: str) -> TruthFormat:
    """Return the text format of truth values from two words, the one for true first: ``"ja/nein"``.

    Raises
    ------
    SchemaError
        If these are not two different words.
    """
    parts = [word.strip() for word in words.split("/")] if isinstance(words, str) else []
    if len(parts) != 2 or not all(parts) or parts[0].casefold() == parts[1].casefold() or len(words) > LONGEST_FORMAT:
        raise SchemaError(f"format ({words!r}) must be two different words, the one for true first, such as 'yes/no'")
    return TruthFormat(*parts)


def checked(make: Callable[[], CellFormat | None], where: str) -> None:
    """Raise SchemaError, with the column's name in front, if a cell format cannot be made from its settings."""
    try:
        make()
    except SchemaError as error:
        raise SchemaError(f"{where}: {error}") from None


def words_as_pairs(words: object) -> tuple[tuple[str, float], ...]:
    """Return pairs of a text and the number that it stands for, from a mapping or a list of pairs.

    Raises
    ------
    SchemaError
        If it is neither.
    """
    unlike = SchemaError("words must be texts with the numbers that they stand for, such as {'<0.6': 0.3}")
    if isinstance(words, (str, bytes)):
        raise unlike
    try:
        pairs = tuple((text, number) for text, number in (words.items() if isinstance(words, Mapping) else words))  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise unlike from None
    texts = [text for text, _ in pairs]
    fine = all(isinstance(text, str) and text.strip() == text != "" and text.isprintable() for text in texts)
    numbers = all(isinstance(number, (int, float)) and not isinstance(number, bool) for _, number in pairs)
    if not fine or not numbers or len(set(texts)) < len(texts) or len({number for _, number in pairs}) < len(pairs):
        raise unlike
    return pairs
