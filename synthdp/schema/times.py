"""Columns of times: moments and lengths of time, in whole steps of a resolution."""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Self, TypeAlias
from zoneinfo import ZoneInfo

import numpy as np

from synthdp.arrays import LARGEST_WHOLE
from synthdp.errors import SchemaError
from synthdp.schema.column import Known, Quantity, Steps, is_finite_number, number, register
from synthdp.schema.formats import LAST_YEAR, TimeFormat, checked, time_format
from synthdp.schema.plain_values import EPOCH, length_of_text

Moment: TypeAlias = str | dt.datetime | dt.date | np.datetime64

RESOLUTIONS = {"D": 86_400_000_000, "h": 3_600_000_000, "min": 60_000_000, "s": 1_000_000, "ms": 1_000, "us": 1}
"""Microseconds in each resolution that a column of times may have, by its name in schemas, the coarsest first."""

CALENDAR = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""First and last microsecond, counted from 1970, that Python's datetimes can hold: moments are clipped to them."""


@register
@dataclass(frozen=True, slots=True, repr=False)
class Datetime(Known):
    """A column of moments between two bounds, at a resolution; zone-aware tables are compared in UTC.

    Parameters
    ----------
    lower, upper
        Public bounds: ISO 8601 text, ``date``, ``datetime`` or ``datetime64``; without a zone they are UTC.
    nullable
        Whether a missing value is a value of its own.
    resolution
        One of ``"D"``, ``"h"``, ``"min"``, ``"s"``, ``"ms"``, ``"us"``; values are rounded down to it.
    zone
        The zone that values from a file without types are written in, such as ``"UTC"``; with ``None`` they have none.
    format
        How moments of a column of texts, or of whole numbers such as 20260131, are written: ``"%d.%m.%Y %H:%M"``, with the
        codes of ``strptime``; see `synthdp.schema.formats.time_format`.  They are read so and written so.  ``%y`` is the
        last such year up to the upper bound; a ``zone`` needs ``%z``.

    Examples
    --------
    >>> from synthdp import Datetime
    >>> Datetime("2026-01-01", "2026-01-31", resolution="D").steps  # days since 1970
    (20454, 20484)
    """

    quantity: ClassVar[Quantity] = "moment"
    holds: ClassVar[str] = "points in time, written as '2026-01-31T12:00'"
    lower: Moment | None = None
    upper: Moment | None = None
    nullable: bool = False
    resolution: str = "s"
    zone: str | None = field(default=None, kw_only=True)
    format: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for bound in ("lower", "upper"):
            moment = getattr(self, bound)
            if moment is not None:
                object.__setattr__(self, bound, str(moment_of(moment)))

    @property
    def is_complete(self) -> bool:
        """Whether the bounds are declared; if not, they must be discovered under noise."""
        return self.lower is not None and self.upper is not None

    @property
    def cells(self) -> TimeFormat | None:
        """The declared text format of the cells; ``None`` for ISO 8601."""
        if self.format is None:
            return None
        last = LAST_YEAR if self.upper is None else int(str(self.upper)[:4])
        return time_format(self.format, "moment", last_year=last, zone=self.zone)

    @property
    def steps(self) -> tuple[int, int]:
        """The bounds as numbers of resolution steps since 1970-01-01 UTC."""
        step = RESOLUTIONS[self.resolution]
        lower, upper = (int(moment_of(b).astype(np.int64)) for b in (self.lower, self.upper) if b is not None)
        return lower // step, upper // step

    def support(self) -> Steps:
        """Return the possible values: all resolution steps between the bounds."""
        first, last = self.steps
        return _time_steps(first, last, self.resolution)

    def check(self, where: str) -> None:
        """Raise SchemaError unless resolution, bounds, zone and format are consistent."""
        _check_times(self, where)
        if self.zone is not None and not (isinstance(self.zone, str) and re.fullmatch(r"[\w+:/-]+", self.zone)):
            raise SchemaError(f"{where}: zone ({self.zone!r}) must be the name of a time zone, such as 'Europe/Oslo'")
        checked(lambda: self.cells, where)
        if self.format is not None and self.zone is not None and not _is_written(self.zone, self.format):
            raise SchemaError(f"{where}: zone is given, so format ({self.format!r}) must contain %z")

    def example(self) -> Self:
        """Return the column with arbitrary bounds if none are declared, to find the output type that suits it."""
        return self if self.is_complete else replace(self, lower="2000-01-01", upper="2001-01-01")

    def may_hold(self, value: object) -> bool:
        """Return whether a rule may name a value for this column: any text; `number_of` refuses a text that is no moment."""
        return isinstance(value, str)

    def number_of(self, value: Any) -> int:
        """Return the number by which a text or moment is stored: microseconds since 1970 UTC."""
        if isinstance(value, str):
            value = dt.datetime.fromisoformat(value)
        if not isinstance(value, (dt.date, np.datetime64)):
            raise TypeError(type(value).__name__)
        if isinstance(value, dt.datetime) and value.tzinfo is not None:
            value = value.astimezone(dt.UTC).replace(tzinfo=None)
        return int(np.datetime64(value, "us").astype(np.int64))

    def with_bounds(self, lower: float, upper: float) -> Datetime:
        """Return the column with bounds at or just outside these microseconds, in whole resolution steps."""
        step = RESOLUTIONS[self.resolution]
        low, high = whole_bounds(lower / step, upper / step, -(-CALENDAR[0] // step), CALENDAR[1] // step)
        return replace(self, lower=np.datetime64(low * step, "us"), upper=np.datetime64(high * step, "us"))

    def spacings(self) -> tuple[Fraction, ...]:
        """Return the resolutions, in microseconds, that discovery tests, from a day down to the declared one."""
        return tuple(Fraction(each) for each in RESOLUTIONS.values() if each >= RESOLUTIONS[self.resolution])

    def with_spacing(self, spacing: Fraction) -> Datetime:
        """Return the column with a discovered, coarser resolution."""
        return replace(self, resolution=next(name for name, each in RESOLUTIONS.items() if each == spacing))

    def as_object(self, value: Any) -> dt.datetime | dt.date:
        """Return stored microseconds as a Python datetime, or as a date if the resolution is a day."""
        moment = EPOCH + dt.timedelta(microseconds=int(value))
        return moment.date() if self.resolution == "D" else moment

    def estimate(self, value: float) -> np.datetime64:
        """Return microseconds, such as a mean, as a moment; NaN (unknown error) or 2^62 and more give NaT."""
        return np.datetime64(round(value) if abs(value) < LARGEST_WHOLE else "NaT", "us")

    @property
    def stored_as(self) -> str:
        """The data type for the values in an output table: day or moment."""
        return "day" if self.resolution == "D" else "moment"

    def shown(self, value: Any) -> str:
        """Return stored microseconds as text at the resolution, for messages and reports."""
        return str(np.datetime64(int(value), "us").astype(f"datetime64[{_numpy_code(self.resolution)}]")).replace(
            "T", " "
        )

    def in_words(self) -> str:
        """Return a phrase for the column's type and the days of its declared bounds, for receipts and lists of columns."""
        return "moment" if self.lower is None else f"moment, {str(self.lower)[:10]} to {str(self.upper)[:10]}"


@register
@dataclass(frozen=True, slots=True, repr=False)
class Date(Datetime):
    """A column of days between two bounds.

    Parameters
    ----------
    lower, upper
        Public bounds: ISO 8601 text, ``date``, ``datetime`` or ``datetime64``.
    nullable
        Whether a missing value is a value of its own.
    format
        As for `Datetime`: ``"%d.%m.%Y"``, ``"%m/%d/%y"``, ``"%Y%m%d"``.  Of ``"%b-%Y"`` the first of the month is read.

    Examples
    --------
    >>> from synthdp import Date
    >>> Date("2000-01-01", "2030-01-01").steps  # days since 1970
    (10957, 21915)
    """

    holds: ClassVar[str] = "days, written as '2026-01-31'"
    resolution: str = field(default="D", init=False, repr=False)
    zone: str | None = field(default=None, init=False, repr=False)

    def spacings(self) -> tuple[Fraction, ...]:
        """Return no spacings to discover, because the resolution is fixed to days."""
        return ()

    def in_words(self) -> str:
        """Return a phrase for the column's type and bounds, for receipts and lists of columns."""
        return "day" if self.lower is None else f"day, {str(self.lower)[:10]} to {str(self.upper)[:10]}"


@register
@dataclass(frozen=True, slots=True, repr=False)
class Time(Known):
    """A column of times of day between two bounds, at a resolution.

    Parameters
    ----------
    lower, upper
        Public bounds: ISO 8601 text or ``time``; default: the whole day.
    nullable
        Whether a missing value is a value of its own.
    resolution
        One of ``"h"``, ``"min"``, ``"s"``, ``"ms"``, ``"us"``; values are rounded down to it.
    format
        How times of a column of texts are written, such as ``"%H:%M"`` or ``"%I:%M %p"``; as for `Datetime`.

    Examples
    --------
    >>> from synthdp import Time
    >>> Time("08:00", "17:30", resolution="min").steps  # minutes since midnight
    (480, 1050)
    """

    quantity: ClassVar[Quantity] = "clock"
    holds: ClassVar[str] = "times of day, written as '23:59'"
    lower: dt.time | str = "00:00:00"
    upper: dt.time | str = "23:59:59.999999"
    nullable: bool = False
    resolution: str = "s"
    format: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for bound in ("lower", "upper"):
            time = getattr(self, bound)
            object.__setattr__(self, bound, time.isoformat() if isinstance(time, dt.time) else time)

    @property
    def is_complete(self) -> bool:
        """True, because a day has natural bounds."""
        return True

    @property
    def cells(self) -> TimeFormat | None:
        """The declared text format of the cells; ``None`` for ISO 8601."""
        return None if self.format is None else time_format(self.format, "clock")

    @property
    def steps(self) -> tuple[int, int]:
        """The bounds as numbers of resolution steps since midnight."""
        step = RESOLUTIONS[self.resolution]
        return self.number_of(self.lower) // step, self.number_of(self.upper) // step

    def support(self) -> Steps:
        """Return the possible values: all resolution steps between the bounds."""
        first, last = self.steps
        return _time_steps(first, last, self.resolution)

    def check(self, where: str) -> None:
        """Raise SchemaError unless resolution, bounds and format are consistent."""
        if not _is_resolution(self.resolution) or self.resolution == "D":
            known = ", ".join(name for name in RESOLUTIONS if name != "D")
            raise SchemaError(f"{where}: resolution ({self.resolution!r}) must be one of {known}")
        checked(lambda: self.cells, where)
        for bound in (self.lower, self.upper):
            try:
                self.number_of(bound)
            except (TypeError, ValueError):
                refusal = SchemaError(f"{where}: {bound!r} is not a time of day in ISO 8601, such as 23:59")
            else:
                continue
            raise refusal
        _check_rise(self.number_of(self.lower), self.number_of(self.upper), column=self, where=where)

    def example(self) -> Self:
        """Return the column itself, because it is always complete."""
        return self

    def may_hold(self, value: object) -> bool:
        """Return whether a rule may name a value for this column: the text of a time of day."""
        try:
            return isinstance(value, str) and self.number_of(value) >= 0
        except ValueError:
            return False

    def number_of(self, value: Any) -> int:
        """Return the number by which a text or time is stored: microseconds since midnight; a zone is ignored."""
        time = dt.time.fromisoformat(value) if isinstance(value, str) else value
        if not isinstance(time, dt.time):
            raise TypeError(type(value).__name__)
        return ((time.hour * 60 + time.minute) * 60 + time.second) * 1_000_000 + time.microsecond

    def as_object(self, value: Any) -> dt.time:
        """Return stored microseconds as a Python time."""
        return (EPOCH + dt.timedelta(microseconds=int(value))).time()

    def estimate(self, value: float) -> dt.time | None:
        """Return microseconds, such as a mean, as a time of day, clipped to it; NaN (unknown error) gives ``None``."""
        return None if math.isnan(value) else self.as_object(min(max(round(value), 0), RESOLUTIONS["D"] - 1))

    @property
    def stored_as(self) -> str:
        """The data type for the values in an output table: always "clock", a time of day."""
        return "clock"

    def shown(self, value: Any) -> str:
        """Return stored microseconds as text, for messages and reports."""
        return self.as_object(value).isoformat()

    def in_words(self) -> str:
        """Return a phrase for the column's type and bounds, for receipts and lists of columns."""
        return f"time of day, {self.lower} to {self.upper}"


@register
@dataclass(frozen=True, slots=True, repr=False)
class Duration(Known):
    """A column of durations between two bounds, at a resolution.

    Parameters
    ----------
    lower, upper
        Public bounds as ``timedelta`` or a number of steps of ``resolution``.
    nullable
        Whether a missing value is a value of its own.
    resolution
        As for `Datetime`.
    format
        How lengths of a column of texts are written, such as ``"%H:%M:%S"``, with any number of hours; as for `Datetime`.

    Examples
    --------
    >>> import datetime as dt
    >>> from synthdp import Duration
    >>> Duration(0, dt.timedelta(days=2), resolution="h").upper
    48
    """

    quantity: ClassVar[Quantity] = "length"
    holds: ClassVar[str] = "lengths of time, in steps of its resolution"
    lower: dt.timedelta | int | None = None
    upper: dt.timedelta | int | None = None
    nullable: bool = False
    resolution: str = "s"
    format: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for bound in ("lower", "upper"):
            length = getattr(self, bound)
            if isinstance(length, np.generic):
                length = length.item()
            if isinstance(length, dt.timedelta) and _is_resolution(self.resolution):
                length //= dt.timedelta(microseconds=RESOLUTIONS[self.resolution])
            object.__setattr__(self, bound, length)

    @property
    def is_complete(self) -> bool:
        """Whether the bounds are declared; if not, they must be discovered under noise."""
        return self.lower is not None and self.upper is not None

    @property
    def cells(self) -> TimeFormat | None:
        """The declared text format of the cells; ``None`` for the usual one."""
        return None if self.format is None else time_format(self.format, "length")

    @property
    def steps(self) -> tuple[int, int]:
        """The bounds as numbers of resolution steps."""
        if not isinstance(self.lower, int) or not isinstance(self.upper, int):
            raise SchemaError("declare the bounds of this Duration: its values cannot be listed without bounds")
        return self.lower, self.upper

    def support(self) -> Steps:
        """Return the possible values: all resolution steps between the bounds."""
        first, last = self.steps
        return _time_steps(first, last, self.resolution)

    def check(self, where: str) -> None:
        """Raise SchemaError unless resolution, bounds and format are consistent."""
        for bound in (self.lower, self.upper):
            if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int)):
                raise SchemaError(
                    f"{where}: bounds of a Duration must be timedeltas or whole numbers, in multiples of its resolution"
                )
        checked(lambda: self.cells, where)
        _check_times(self, where)

    def example(self) -> Self:
        """Return the column with arbitrary bounds if none are declared, to find the output type that suits it."""
        return self if self.is_complete else replace(self, lower=0, upper=1)

    def may_hold(self, value: object) -> bool:
        """Return whether a rule may name a value for this column: a number of steps, a timedelta or the text of one."""
        if isinstance(value, str):
            return length_of_text(value) is not None
        return isinstance(value, dt.timedelta) or is_finite_number(value)

    def number_of(self, value: Any) -> int | float:
        """Return the microseconds by which a timedelta, a text such as "1:30:00" or a number of steps is stored."""
        if isinstance(value, str) and (found := length_of_text(value)) is not None:
            return found
        if isinstance(value, (dt.timedelta, np.timedelta64)):
            return int(np.timedelta64(value, "us").astype(np.int64))
        return number(value) * RESOLUTIONS[self.resolution]

    def with_bounds(self, lower: float, upper: float) -> Duration:
        """Return the column with bounds at or just outside these microseconds, in whole resolution steps."""
        step = RESOLUTIONS[self.resolution]
        low, high = whole_bounds(lower / step, upper / step, -(LARGEST_WHOLE // step), LARGEST_WHOLE // step)
        return replace(self, lower=low, upper=high)

    def spacings(self) -> tuple[Fraction, ...]:
        """Return the resolutions, in microseconds, that discovery tests, from a day down to the declared one."""
        return tuple(Fraction(each) for each in RESOLUTIONS.values() if each >= RESOLUTIONS[self.resolution])

    def with_spacing(self, spacing: Fraction) -> Duration:
        """Return the column with a discovered, coarser resolution."""
        return replace(self, resolution=next(name for name, each in RESOLUTIONS.items() if each == spacing))

    def as_object(self, value: Any) -> dt.timedelta:
        """Return stored microseconds as a Python timedelta."""
        return dt.timedelta(microseconds=int(value))

    def estimate(self, value: float) -> np.timedelta64:
        """Return microseconds, such as a mean, as a NumPy timedelta; NaN (unknown error) or 2^62 and more give NaT."""
        return np.timedelta64(round(value) if abs(value) < LARGEST_WHOLE else "NaT", "us")

    @property
    def stored_as(self) -> str:
        """The data type for the values in an output table: always "length", a length of time."""
        return "length"

    def shown(self, value: Any) -> str:
        """Return stored microseconds as text at the resolution, for messages and reports."""
        return str(np.timedelta64(int(value), "us").astype(f"timedelta64[{_numpy_code(self.resolution)}]"))

    def in_words(self) -> str:
        """Return a phrase for the column's type, for receipts and lists of columns."""
        return "length of time"


def whole_bounds(lower: float, upper: float, first: int, last: int) -> tuple[int, int]:
    """Return two different integers at or just outside an interval, clipped to ``first`` and ``last``, as bounds.

    The integers differ, since equal bounds would leave a discovered column no interval.
    """
    low = min(max(math.floor(lower), first), last - 1)
    return low, max(min(math.ceil(upper), last), low + 1)


def check_pair(lower: object, upper: object, where: str) -> None:
    """Raise SchemaError if one bound is given without the other, because then neither could be used."""
    if (lower is None) != (upper is None):
        raise SchemaError(f"{where}: lower and upper must be given together")


def _check_times(column: Datetime | Duration, where: str) -> None:
    """Raise SchemaError unless the resolution is known and the bounds, if given, rise and fit in 62 bits of microseconds."""
    if not _is_resolution(column.resolution):
        raise SchemaError(f"{where}: resolution ({column.resolution!r}) must be one of {', '.join(RESOLUTIONS)}")
    check_pair(column.lower, column.upper, where)
    if not column.is_complete:
        return
    if max(map(abs, column.steps)) * RESOLUTIONS[column.resolution] > LARGEST_WHOLE:
        raise SchemaError(f"{where}: bounds of a {type(column).__name__} must lie within ±2**62 microseconds")
    _check_rise(column.lower, column.upper, column=column, where=where)


def _check_rise(lower: Any, upper: Any, *, column: Datetime | Duration | Time, where: str) -> None:
    """Raise SchemaError unless the lower bound is below the upper one, also when both are rounded to the resolution.

    Both bounds are rounded down.
    """
    if not lower < upper:
        raise SchemaError(f"{where}: lower ({column.lower}) must be below upper ({column.upper})")
    if column.steps[0] == column.steps[1]:
        raise SchemaError(
            f"{where}: lower ({column.lower}) and upper ({column.upper}) are the same time at resolution "
            f"{column.resolution!r}: give a finer resolution, or bounds further apart"
        )


def _is_written(zone: str, pattern: str) -> bool:
    """Return whether a time zone is known and the pattern shows its offset, so that moments of it are read back."""
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        return False
    return time_format(pattern, "moment", zone=zone).zone is not None


def _time_steps(first: int, last: int, resolution: str) -> Steps:
    """Return the grid of times between two resolution steps, with the lengths of time that make round times."""
    step = RESOLUTIONS[resolution]
    clock = [1_000_000 * seconds for seconds in (86_400, 43_200, 21_600, 3_600, 1_800, 900, 600, 300, 60, 30, 10, 5)]
    lengths = [length // step for length in (*clock, *(10**power for power in range(6, -1, -1))) if length % step == 0]
    return Steps(first, last, step, rounds_down=True, clock=tuple(lengths))


def _numpy_code(resolution: str) -> str:
    """Return NumPy's code of a resolution, which differs for minutes only: "m" instead of "min"."""
    return {"min": "m"}.get(resolution, resolution)


def _is_resolution(resolution: object) -> bool:
    """Return whether a value is the name of a resolution."""
    return isinstance(resolution, str) and resolution in RESOLUTIONS


def moment_of(moment: Any) -> np.datetime64:
    """Return a bound of a Datetime as a NumPy moment in UTC, in microseconds; raise SchemaError if it is none."""
    if isinstance(moment, str):
        try:
            moment = dt.datetime.fromisoformat(moment)
        except ValueError:
            raise SchemaError(f"{moment!r} is not a date or time in ISO 8601, such as 2026-01-31T12:00") from None
    if not isinstance(moment, (dt.date, np.datetime64)) or moment != moment:  # NaT is not a moment
        raise SchemaError(
            "bounds of a Datetime must be dates, datetimes or texts in ISO 8601, such as 2026-01-31T12:00"
        )
    if isinstance(moment, dt.datetime) and moment.tzinfo is not None:
        moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
    if not np.datetime64("0001") <= np.datetime64(moment, "Y") <= np.datetime64("9999"):
        raise SchemaError("bounds of a Datetime must lie in the years 1 to 9999")
    return np.datetime64(moment, "us")
