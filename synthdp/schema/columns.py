"""What a column may hold: the public knowledge about one column, as frozen data.

A column is only declared here; `synthdp.domain.grid` says which finite set of grid points its values become.  Bounds or
levels left out (``None``) are unknown: they must be discovered under part of the privacy budget before a grid exists.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from synthdp.arrays import LARGEST_WHOLE
from synthdp.errors import SchemaError
from synthdp.figures import in_figures
from synthdp.schema.column import (
    COLUMN_TYPES,
    DISCOVERED,
    DRAFTED,
    LONGEST_SOURCE,
    Column,
    Fresh,
    Interval,
    Known,
    Level,
    Levels,
    Quantity,
    Steps,
    check_column,
    is_complete,
    is_drafted,
    register,
)
from synthdp.schema.patterns import alphabets_of
from synthdp.schema.spacing import POWERS_OF_TEN, check_spacing, evenly_spaced, outer_multiples, spacing
from synthdp.schema.times import RESOLUTIONS, Date, Datetime, Duration, Time, check_pair, whole_bounds

__all__ = [
    "COLUMN_TYPES", "DISCOVERED", "DRAFTED", "LONGEST_SOURCE", "RESOLUTIONS", "Boolean", "Categorical", "Column",
    "Continuous", "Date", "Datetime", "Decimal", "Duration", "Identifier", "Integer", "Level", "Ordinal", "Time", "Untyped",
    "check_column", "is_complete", "is_drafted", "register",
]  # fmt: skip


@register
@dataclass(frozen=True, slots=True, repr=False)
class Continuous(Known):
    """A real number with lower <= x <= upper; values beyond are clipped.

    Parameters
    ----------
    lower, upper
        Public bounds, lower < upper; ``None`` if they must be discovered.
    nullable
        Whether a missing value is a value of its own.
    special
        Numbers with a meaning of their own, inside the bounds or not (-1 = "refused"): kept as point masses.
    decimals
        How many digits values have after the point, if that is known; synthetic values have as many.
    step
        What values are multiples of, counted from ``lower``, if that is known; in place of ``decimals``.

    Examples
    --------
    >>> from synthdp import Continuous
    >>> Continuous(0, 250, nullable=True, special=[-1]).special  # -1: "would not say"
    (-1,)
    >>> price, shoe_size = Continuous(0, 500, decimals=2), Continuous(0.5, 14, step=0.5)
    """

    quantity: ClassVar[Quantity] = "number"
    lower: float | None = None
    upper: float | None = None
    nullable: bool = False
    special: tuple[float, ...] = ()
    decimals: int | None = field(default=None, kw_only=True)
    step: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _store_numbers(self)

    @property
    def is_complete(self) -> bool:
        """Whether the bounds are declared."""
        return self.lower is not None and self.upper is not None

    def support(self) -> Interval | Steps:
        """Return the interval between the bounds, or the numbers in it that have the digits."""
        lower, upper = self.lower or 0, self.upper or 0
        if self.decimals is None and self.step is None:
            return Interval(float(lower), float(upper), self.special)
        return evenly_spaced(lower, upper, spacing(self.decimals, self.step), special=self.special)

    def check(self, where: str) -> None:
        """Check the bounds and the digits."""
        _check_numbers(self, where)
        check_spacing(self.lower, self.upper, self.decimals, self.step, where)

    def example(self) -> Self:
        """Return the column with some bounds."""
        return self if self.is_complete else replace(self, lower=0, upper=1 if self.step is None else self.step)

    def with_bounds(self, lower: float, upper: float) -> Continuous:
        """Return the column with these bounds, or with the next ones that have the digits."""
        if self.decimals is not None or self.step is not None:
            lower, upper = outer_multiples(lower, upper, spacing(self.decimals, self.step))
        return replace(self, lower=lower, upper=upper)

    def spacings(self) -> tuple[Fraction, ...]:
        """Return the powers of ten."""
        return POWERS_OF_TEN if self.decimals is None and self.step is None else ()

    def with_spacing(self, spacing: Fraction) -> Continuous:
        """Return the column with decimals, or with a step of ten or more."""
        if spacing > 1:
            return replace(self, step=int(spacing))
        return replace(self, decimals=len(str(spacing.denominator)) - 1)

    def in_words(self) -> str:
        """Return the bounds."""
        return "number" + _range_in_words(self.lower, self.upper)


@register
@dataclass(frozen=True, slots=True, repr=False)
class Decimal(Continuous):
    """A decimal number with lower <= x <= upper, as databases and ``decimal.Decimal`` hold it; values beyond are clipped.

    Parameters
    ----------
    lower, upper, nullable, special
        As for `Continuous`.
    decimals
        How many digits values have after the point.

    Examples
    --------
    >>> from synthdp import Decimal
    >>> Decimal(0, "99999.99").upper
    99999.99
    """

    decimals: int | None = field(default=2, kw_only=True)

    def check(self, where: str) -> None:
        """Check the bounds and that there are digits."""
        Continuous.check(self, where)
        if self.decimals is None:
            raise SchemaError(f"decimals must be given {where}")

    def as_object(self, value: Any) -> object:
        """Return a number as ``decimal.Decimal``."""
        return decimal.Decimal(repr(float(value))).quantize(decimal.Decimal(1).scaleb(-(self.decimals or 0)))

    @property
    def stored_as(self) -> str:
        """What suits the values in a table."""
        return "decimal"


@register
@dataclass(frozen=True, slots=True, repr=False)
class Integer(Known):
    """A whole number with lower <= x <= upper; values beyond are clipped.

    Parameters
    ----------
    lower, upper, nullable, special
        As for `Continuous`.
    step
        What values are multiples of, counted from ``lower``, if that is known.
    """

    quantity: ClassVar[Quantity] = "number"
    whole: ClassVar[bool] = True
    lower: int | None = None
    upper: int | None = None
    nullable: bool = False
    special: tuple[int, ...] = ()
    step: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _store_numbers(self)

    @property
    def is_complete(self) -> bool:
        """Whether the bounds are declared."""
        return self.lower is not None and self.upper is not None

    def support(self) -> Steps:
        """Return the whole numbers between the bounds."""
        lower, upper = int(self.lower or 0), int(self.upper or 0)
        if self.step is None:
            return Steps(lower, upper, special=self.special)
        return Steps(0, (upper - lower) // self.step, size=self.step, offset=lower, special=self.special)

    def check(self, where: str) -> None:
        """Check the bounds and the step."""
        _check_numbers(self, where)
        if self.step is not None and (isinstance(self.step, bool) or not isinstance(self.step, int)):
            raise SchemaError(f"the step of an Integer must be a whole number {where}")
        check_spacing(self.lower, self.upper, None, self.step, where)

    def example(self) -> Self:
        """Return the column with some bounds."""
        return self if self.is_complete else replace(self, lower=0, upper=self.step or 1)

    def with_bounds(self, lower: float, upper: float) -> Integer:
        """Return the column with whole bounds around these."""
        step = self.step or 1
        first, last = whole_bounds(lower / step, upper / step, -(LARGEST_WHOLE // step), LARGEST_WHOLE // step)
        low, high = first * step, last * step
        return replace(self, lower=low, upper=high)

    def spacings(self) -> tuple[Fraction, ...]:
        """Return the powers of ten from 1."""
        return tuple(power for power in POWERS_OF_TEN if power >= 1) if self.step is None else ()

    def with_spacing(self, spacing: Fraction) -> Integer:
        """Return the column with a step, but none of 1."""
        return replace(self, step=int(spacing) if spacing > 1 else None)

    def in_words(self) -> str:
        """Return the bounds."""
        return "whole number" + _range_in_words(self.lower, self.upper)


@register
@dataclass(frozen=True, slots=True)
class Categorical(Known):
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

    quantity: ClassVar[Quantity] = "label"
    ordered: ClassVar[bool] = False
    holds: ClassVar[str] = "levels"
    levels: Sequence[Level] | None = None
    nullable: bool = False
    other: str | None = None

    def __post_init__(self) -> None:
        if self.levels is not None:
            object.__setattr__(self, "levels", _as_tuple("levels", self.levels))

    @property
    def is_complete(self) -> bool:
        """Whether the levels are declared."""
        return self.levels is not None

    def support(self) -> Levels:
        """Return the levels, the label for others last unless it is one of them."""
        levels = tuple(self.levels or ())
        return Levels(levels if self.other is None or self.other in levels else (*levels, self.other), self.other)

    def check(self, where: str) -> None:
        """Check the levels and the label for others."""
        if self.levels is not None:
            _check_levels(self.levels, where)
        if self.other is not None and not isinstance(self.other, str):
            raise SchemaError(f"other must be a text label {where}")
        if self.other in {str(level) for level in self.levels or () if not isinstance(level, str)}:
            raise SchemaError(f"other must not be the text of a level that is no text {where}")

    def example(self) -> Self:
        """Return the column with a level that a type of texts, of numbers or of booleans can hold.

        A type of anything else, such as moments, could hold none of the levels that may be discovered.
        """
        return self if self.is_complete else replace(self, levels=(0,))

    def may_hold(self, value: object) -> bool:
        """Say whether a value is a level."""
        return value in (self.levels or ()) or value == self.other

    def in_words(self) -> str:
        """Return what the column is."""
        return "category"


@dataclass(frozen=True, slots=True)
class Untyped(Categorical):
    """A column of Python objects that nobody declared: what its values are is discovered before what they may be.

    No schema file holds it: once discovered, it is a column of another type.
    """


@register
@dataclass(frozen=True, slots=True)
class Ordinal(Known):
    """One of a list of levels in their order.

    Parameters
    ----------
    levels
        The public list of values, lowest first.
    nullable
        Whether a missing value is a value of its own.
    """

    quantity: ClassVar[Quantity] = "label"
    holds: ClassVar[str] = "levels"
    levels: Sequence[Level]
    nullable: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", _as_tuple("levels", self.levels))

    @property
    def is_complete(self) -> bool:
        """True: the levels must be declared."""
        return True

    def support(self) -> Levels:
        """Return the levels."""
        return Levels(tuple(self.levels))

    def check(self, where: str) -> None:
        """Check the levels."""
        _check_levels(self.levels, where)

    def example(self) -> Self:
        """Return the column itself."""
        return self

    def may_hold(self, value: object) -> bool:
        """Say whether a value is a level."""
        return value in self.levels

    def in_words(self) -> str:
        """Return what the column is."""
        return "ordered category"


@register
@dataclass(frozen=True, slots=True)
class Boolean(Known):
    """True or false.

    Parameters
    ----------
    nullable
        Whether a missing value is a value of its own.
    """

    quantity: ClassVar[Quantity] = "truth"
    ordered: ClassVar[bool] = False
    holds: ClassVar[str] = "truth values"
    nullable: bool = False

    @property
    def is_complete(self) -> bool:
        """True: there is nothing to declare."""
        return True

    def support(self) -> Levels:
        """Return false and true."""
        return Levels((False, True))

    def check(self, where: str) -> None:
        """Check nothing: there are no settings."""

    def example(self) -> Self:
        """Return the column itself."""
        return self

    def may_hold(self, value: object) -> bool:
        """Say whether a value is false or true."""
        return isinstance(value, bool)

    def in_words(self) -> str:
        """Return what the column is."""
        return "true or false"


@register
@dataclass(frozen=True, slots=True)
class Identifier(Known):
    r"""A value that names a row or a person: never read for the output, released as fresh, meaningless labels.

    Parameters
    ----------
    prefix
        Text before the running number of a synthetic label; with ``None`` the labels are whole numbers.
    pattern
        The format of the labels instead, as a small part of regular expressions: plain characters, ``\d`` for a digit,
        ``[A-Z]`` or ``[0-9a-f]``, ``{n}`` to repeat what stands before it, and a backslash before a sign that is meant
        as it is.  Labels differ in all rows of a table, in a fixed order that looks random.

    Examples
    --------
    >>> from synthdp import Identifier
    >>> Identifier(pattern=r"[A-Z]{2}-\d{6}").pattern
    '[A-Z]{2}-\\d{6}'
    """

    quantity: ClassVar[Quantity] = "name"
    ordered: ClassVar[bool] = False
    holds: ClassVar[str] = "meaningless labels"
    prefix: str | None = None
    nullable: bool = False
    pattern: str | None = None

    def __post_init__(self) -> None:
        if self.nullable:
            raise SchemaError("an Identifier is never missing in the output: leave nullable out")

    @property
    def is_complete(self) -> bool:
        """True: there is nothing to declare."""
        return True

    def support(self) -> Fresh:
        """Return how new labels look."""
        return Fresh(self.prefix, self.pattern)

    def check(self, where: str) -> None:
        """Check the prefix or the pattern."""
        if self.prefix is not None and not isinstance(self.prefix, str):
            raise SchemaError(f"prefix must be a text {where}")
        if self.pattern is not None and self.prefix is not None:
            raise SchemaError(f"prefix and pattern must not both be given {where}")
        if self.pattern is not None:
            alphabets_of(self.pattern)

    def example(self) -> Self:
        """Return the column itself."""
        return self

    def in_words(self) -> str:
        """Return what the column is."""
        return "identifier"


def _range_in_words(lower: float | None, upper: float | None) -> str:
    return "" if lower is None or upper is None else f", {in_figures(lower, digits=6)} to {in_figures(upper, digits=6)}"


def _check_numbers(column: Continuous | Integer, where: str) -> None:
    lower, upper = column.lower, column.upper
    check_pair(lower, upper, where)
    for bound in (lower, upper, *column.special):
        if bound is None:
            continue
        if isinstance(bound, bool) or not isinstance(bound, (int, float, np.integer, np.floating)):
            raise SchemaError(f"bounds and special values must be numbers {where}")
        if not _is_finite(bound):
            raise SchemaError(f"bounds and special values must be finite {where}")
        if column.whole and bound != int(bound):
            raise SchemaError(f"bounds and special values of an Integer must be whole numbers {where}")
    if column.whole and any(b is not None and abs(b) > LARGEST_WHOLE for b in (lower, upper, *column.special)):
        raise SchemaError(f"bounds and special values of an Integer must lie within ±2**62 {where}")
    if lower is not None and upper is not None and not lower < upper:
        raise SchemaError(f"lower ({lower}) must be below upper ({upper}) {where}")
    if lower is not None and upper is not None and not math.isfinite(float(upper) - float(lower)):
        raise SchemaError(f"upper - lower must be a finite number {where}")
    if len(set(column.special)) < len(column.special):
        raise SchemaError(f"special values must differ from each other {where}")


def _check_levels(levels: Sequence[Level], where: str) -> None:
    if not levels:
        raise SchemaError(f"levels must not be empty {where}")
    if not all(isinstance(level, (str, int, float, bool, np.integer, np.floating, np.bool_)) for level in levels):
        raise SchemaError(f"levels must be texts, numbers or booleans, not missing values or lists {where}")
    if any(isinstance(level, float) and not math.isfinite(level) for level in levels):
        raise SchemaError(f"levels must be finite; declare missing values by nullable=True {where}")
    if len({str(level) for level in levels}) < len(levels) or len(set(levels)) < len(levels):
        raise SchemaError(f"levels must differ from each other, also when written as text {where}")


def _store_numbers(column: Continuous | Integer) -> None:
    """Keep special values as a tuple, and all numbers as Python's own."""
    object.__setattr__(column, "special", _as_tuple("special", column.special))
    for bound in ("lower", "upper", "step"):
        value = getattr(column, bound)
        if isinstance(value, np.generic):
            object.__setattr__(column, bound, value.item())
        elif isinstance(value, decimal.Decimal) or (isinstance(value, str) and isinstance(column, Decimal)):
            object.__setattr__(column, bound, _float(value))


def _float(value: Any) -> Any:
    try:
        return float(value)
    except ValueError:
        return value


def _as_tuple(name: str, values: object) -> tuple[Any, ...]:
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise SchemaError(f"{name} must be a list of values, not {type(values).__name__}")
    return tuple(value.item() if isinstance(value, np.generic) else value for value in values)


def _is_finite(number: Any) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number that no float can hold
        return False
