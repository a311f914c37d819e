"""What a column may hold: the public knowledge about one column, as frozen data.

A column is only declared here; `synthdp.domain.grid` says which finite set of units its values become.  Bounds or
levels left out (``None``) are unknown: they must be discovered under part of the privacy budget before a grid exists.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from synthdp.errors import SchemaError

Level: TypeAlias = str | int | float | bool
Moment: TypeAlias = str | dt.datetime | dt.date | np.datetime64

RESOLUTIONS = {"D": 86_400_000_000, "h": 3_600_000_000, "min": 60_000_000, "s": 1_000_000, "ms": 1_000, "us": 1}
"""Microseconds of each resolution that a Datetime or Duration may have."""

DRAFTED = "drafted from the table"
"""How the source of a column begins whose bounds or levels were read off the rows; who accepts it may add a name."""

DISCOVERED = "discovered under noise"
"""The source of a column whose bounds or levels a release found and paid for."""

LONGEST_SOURCE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What every column says beside what it may hold.

    Parameters
    ----------
    source
        Where the bounds or levels are known from, in a few words: a codebook, a law, common knowledge.  The receipt
        prints it; it is no part of what the column may hold, and two columns that differ in it alone are equal.
    """

    source: str | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Continuous(_Known):
    """A real number with lower <= x <= upper; values beyond are clipped.

    Parameters
    ----------
    lower, upper
        Public bounds, lower < upper; ``None`` if they must be discovered.
    nullable
        Whether a missing value is a value of its own.
    special
        Numbers with a meaning of their own, inside the bounds or not (-1 = "refused"): kept as point masses.

    Examples
    --------
    >>> from synthdp import Continuous
    >>> Continuous(0, 250, nullable=True, special=[-1]).special  # -1: "would not say"
    (-1,)
    """

    lower: float | None = None
    upper: float | None = None
    nullable: bool = False
    special: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        _store_numbers(self)


@dataclass(frozen=True, slots=True)
class Integer(_Known):
    """A whole number with lower <= x <= upper; values beyond are clipped.  Parameters as in `Continuous`."""

    lower: int | None = None
    upper: int | None = None
    nullable: bool = False
    special: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _store_numbers(self)


@dataclass(frozen=True, slots=True)
class Categorical(_Known):
    """One of a list of levels without order.

    Parameters
    ----------
    levels
        The public list of values; ``None`` if it must be discovered.
    nullable
        Whether a missing value is a value of its own.
    other
        A label for every value outside ``levels``, itself part of the output.  Without one, such values are counted
        in a cell that is never released.

    Examples
    --------
    >>> from synthdp import Categorical
    >>> Categorical(["Oslo", "Bergen"], other="elsewhere").levels
    ('Oslo', 'Bergen')
    """

    levels: Sequence[Level] | None = None
    nullable: bool = False
    other: str | None = None

    def __post_init__(self) -> None:
        if self.levels is not None:
            object.__setattr__(self, "levels", _as_tuple("levels", self.levels))


@dataclass(frozen=True, slots=True)
class Ordinal(_Known):
    """One of a list of levels in their order.

    Parameters
    ----------
    levels
        The public list of values, lowest first.
    nullable
        Whether a missing value is a value of its own.
    """

    levels: Sequence[Level]
    nullable: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", _as_tuple("levels", self.levels))


@dataclass(frozen=True, slots=True)
class Boolean(_Known):
    """True or false.

    Parameters
    ----------
    nullable
        Whether a missing value is a value of its own.
    """

    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Datetime(_Known):
    """A moment with lower <= t <= upper, in whole steps of a resolution; zone-aware tables are compared in UTC.

    Parameters
    ----------
    lower, upper
        Public bounds: ISO 8601 text, ``date``, ``datetime`` or ``datetime64``; without a zone they are UTC.
    nullable
        Whether a missing value is a value of its own.
    resolution
        One of ``"D"``, ``"h"``, ``"min"``, ``"s"``, ``"ms"``, ``"us"``; values are rounded down to it.

    Examples
    --------
    >>> from synthdp import Datetime
    >>> Datetime("2026-01-01", "2026-01-31", resolution="D").steps  # days since 1970
    (20454, 20484)
    """

    lower: Moment | None = None
    upper: Moment | None = None
    nullable: bool = False
    resolution: str = "s"

    def __post_init__(self) -> None:
        for bound in ("lower", "upper"):
            moment = getattr(self, bound)
            if moment is not None:
                object.__setattr__(self, bound, str(_moment(moment)))

    @property
    def steps(self) -> tuple[int, int]:
        """First and last step since 1970-01-01 UTC, in units of the resolution."""
        step = RESOLUTIONS[self.resolution]
        lower, upper = (int(_moment(b).astype(np.int64)) for b in (self.lower, self.upper) if b is not None)
        return lower // step, upper // step


@dataclass(frozen=True, slots=True)
class Duration(_Known):
    """A length of time with lower <= t <= upper, in whole steps of a resolution.

    Parameters
    ----------
    lower, upper
        Public bounds as ``timedelta`` or a number of steps of ``resolution``.
    nullable
        Whether a missing value is a value of its own.
    resolution
        As for `Datetime`.

    Examples
    --------
    >>> import datetime as dt
    >>> from synthdp import Duration
    >>> Duration(0, dt.timedelta(days=2), resolution="h").upper
    48
    """

    lower: dt.timedelta | int | None = None
    upper: dt.timedelta | int | None = None
    nullable: bool = False
    resolution: str = "s"

    def __post_init__(self) -> None:
        for bound in ("lower", "upper"):
            length = getattr(self, bound)
            if isinstance(length, np.generic):
                length = length.item()
            if isinstance(length, dt.timedelta) and _is_resolution(self.resolution):
                length //= dt.timedelta(microseconds=RESOLUTIONS[self.resolution])
            object.__setattr__(self, bound, length)

    @property
    def steps(self) -> tuple[int, int]:
        """First and last step, in units of the resolution."""
        if not isinstance(self.lower, int) or not isinstance(self.upper, int):
            raise SchemaError("a Duration without bounds has no steps")
        return self.lower, self.upper


@dataclass(frozen=True, slots=True)
class Identifier(_Known):
    """A value that names a row or a person: never read for the output, released as fresh, meaningless labels.

    Parameters
    ----------
    prefix
        Text before the running number of a synthetic label; with ``None`` the labels are whole numbers.
    """

    prefix: str | None = None
    nullable: bool = False

    def __post_init__(self) -> None:
        if self.nullable:
            raise SchemaError("an Identifier is never missing in the output: leave nullable out")


Column: TypeAlias = Continuous | Integer | Categorical | Ordinal | Boolean | Datetime | Duration | Identifier
COLUMN_TYPES: tuple[type[Column], ...] = (
    Continuous, Integer, Categorical, Ordinal, Boolean, Datetime, Duration, Identifier,
)  # fmt: skip


def is_complete(column: Column) -> bool:
    """Say whether the column's bounds or levels are all declared."""
    match column:
        case Continuous() | Integer() | Datetime() | Duration():
            return column.lower is not None and column.upper is not None
        case Categorical():
            return column.levels is not None
        case _:
            return True


def is_drafted(column: Column) -> bool:
    """Say whether the column's bounds or levels were read off the rows and merely accepted."""
    return column.source is not None and column.source.strip().casefold().startswith(DRAFTED)


def check_column(name: str, column: object) -> None:
    """Check one declared column.

    Raises
    ------
    SchemaError
        With one sentence that names the column and the rule it breaks.
    """
    where = f"for column {name!r}"
    match column:
        case Continuous() | Integer():
            _check_numbers(column, where)
        case Datetime() | Duration():
            if not _is_resolution(column.resolution):
                raise SchemaError(f"resolution ({column.resolution!r}) must be one of {', '.join(RESOLUTIONS)} {where}")
            _check_pair(column.lower, column.upper, where)
            if isinstance(column, Duration):
                _check_lengths(column, where)
            if is_complete(column) and not column.steps[0] < column.steps[1]:
                raise SchemaError(f"lower ({column.lower}) must be below upper ({column.upper}) {where}")
        case Categorical() | Ordinal():
            labels = column.levels or ()
            if column.levels is not None:
                _check_levels(column.levels, where)
            if isinstance(column, Categorical) and column.other is not None and not isinstance(column.other, str):
                raise SchemaError(f"other must be a text label {where}")
            if isinstance(column, Categorical) and column.other in {str(x) for x in labels if not isinstance(x, str)}:
                raise SchemaError(f"other must not be the text of a level that is no text {where}")
        case Identifier():
            if column.prefix is not None and not isinstance(column.prefix, str):
                raise SchemaError(f"prefix must be a text {where}")
        case Boolean():
            pass
        case _:
            known = ", ".join(kind.__name__ for kind in COLUMN_TYPES)
            hint = " (did you mean to call it?)" if isinstance(column, type) else ""
            raise SchemaError(f"a column must be one of {known}{hint} {where}")
    if not isinstance(column.nullable, bool):
        raise SchemaError(f"nullable must be True or False {where}")
    if column.source is not None and not _is_short_text(column.source):
        raise SchemaError(f"source must be a text of one line, of at most {LONGEST_SOURCE} characters {where}")


def _check_numbers(column: Continuous | Integer, where: str) -> None:
    lower, upper = column.lower, column.upper
    _check_pair(lower, upper, where)
    for bound in (lower, upper, *column.special):
        if bound is None:
            continue
        if isinstance(bound, bool) or not isinstance(bound, (int, float, np.integer, np.floating)):
            raise SchemaError(f"bounds and special values must be numbers {where}")
        if not _is_finite(bound):
            raise SchemaError(f"bounds and special values must be finite {where}")
        if isinstance(column, Integer) and bound != int(bound):
            raise SchemaError(f"bounds and special values of an Integer must be whole numbers {where}")
    if isinstance(column, Integer) and any(b is not None and abs(b) > 2**62 for b in (lower, upper, *column.special)):
        raise SchemaError(f"bounds and special values of an Integer must lie within ±2**62 {where}")
    if lower is not None and upper is not None and not lower < upper:
        raise SchemaError(f"lower ({lower}) must be below upper ({upper}) {where}")
    if lower is not None and upper is not None and not math.isfinite(float(upper) - float(lower)):
        raise SchemaError(f"upper - lower must be a finite number {where}")
    if len(set(column.special)) < len(column.special):
        raise SchemaError(f"special values must differ from each other {where}")


def _check_pair(lower: object, upper: object, where: str) -> None:
    if (lower is None) != (upper is None):
        raise SchemaError(f"lower and upper must be given together {where}")


def _check_levels(levels: Sequence[Level], where: str) -> None:
    if not levels:
        raise SchemaError(f"levels must not be empty {where}")
    if not all(isinstance(level, (str, int, float, bool, np.integer, np.floating, np.bool_)) for level in levels):
        raise SchemaError(f"levels must be texts, numbers or booleans, not missing values or lists {where}")
    if any(isinstance(level, float) and not math.isfinite(level) for level in levels):
        raise SchemaError(f"levels must be finite; declare missing values by nullable=True {where}")
    if len({str(level) for level in levels}) < len(levels) or len(set(levels)) < len(levels):
        raise SchemaError(f"levels must differ from each other, also when written as text {where}")


def _check_lengths(column: Duration, where: str) -> None:
    for bound in (column.lower, column.upper):
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int)):
            raise SchemaError(f"bounds of a Duration must be timedeltas or whole numbers of steps {where}")
        if bound is not None and abs(bound) * RESOLUTIONS[column.resolution] > 2**62:
            raise SchemaError(f"bounds of a Duration must lie within ±2**62 microseconds {where}")


def _store_numbers(column: Continuous | Integer) -> None:
    """Keep special values as a tuple, and all numbers as Python's own."""
    object.__setattr__(column, "special", _as_tuple("special", column.special))
    for bound in ("lower", "upper"):
        if isinstance(value := getattr(column, bound), np.generic):
            object.__setattr__(column, bound, value.item())


def _as_tuple(name: str, values: object) -> tuple[Any, ...]:
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise SchemaError(f"{name} must be a list of values, not {type(values).__name__}")
    return tuple(value.item() if isinstance(value, np.generic) else value for value in values)


def _is_short_text(text: object) -> bool:
    return isinstance(text, str) and bool(text.strip()) and text.isprintable() and len(text) <= LONGEST_SOURCE


def _is_resolution(resolution: object) -> bool:
    return isinstance(resolution, str) and resolution in RESOLUTIONS


def _is_finite(number: Any) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number that no float can hold
        return False


def _moment(moment: Any) -> np.datetime64:
    if isinstance(moment, str):
        try:
            moment = dt.datetime.fromisoformat(moment)
        except ValueError:
            raise SchemaError(f"{moment!r} is not a date or time in ISO 8601, such as 2026-01-31T12:00") from None
    if not isinstance(moment, (dt.date, np.datetime64)) or moment != moment:  # NaT is no moment
        raise SchemaError("bounds of a Datetime must be dates, datetimes or ISO 8601 texts")
    if isinstance(moment, dt.datetime) and moment.tzinfo is not None:
        moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
    if not np.datetime64("0001") <= np.datetime64(moment, "Y") <= np.datetime64("9999"):
        raise SchemaError("bounds of a Datetime must lie in the years 1 to 9999")
    return np.datetime64(moment, "us")
