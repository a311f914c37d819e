"""Columns of numbers: real, decimal and whole ones, and how far apart their values lie."""

from __future__ import annotations

import decimal
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from synthdp.arrays import LARGEST_WHOLE
from synthdp.errors import SchemaError
from synthdp.figures import in_figures
from synthdp.schema.column import Interval, Known, Quantity, Steps, register, values_as_tuple
from synthdp.schema.formats import NumberFormat, checked, number_format, words_as_pairs
from synthdp.schema.times import check_pair, whole_bounds

MOST_DECIMALS = 15
"""Most decimals of a number.  Derived: a 64-bit float holds 15 significant digits."""

LIKE = ("lognormal", "normal", "exponential", "uniform", "increasing", "decreasing", "smooth")
"""Shapes of a distribution that may be declared for a numeric column, to smooth its noisy histogram."""

POWERS_OF_TEN = tuple(Fraction(10) ** power for power in range(3, -7, -1))
"""Roundings of numbers that discovery looks for where none is declared: thousands to millionths.  A convention."""

LARGEST_EXACT = 2**53
"""Largest integer up to which floats hold all integers, so that the quotient of two is the nearest float.  Derived: a
float has 53 significant bits."""


def spacing(decimals: int | None, step: float | None) -> Fraction:
    """Return the distance of adjacent values of a column as an exact fraction: its step, else 10^-decimals, else 1."""
    return Fraction(1, 10 ** (decimals or 0)) if step is None else _exact(step)


def evenly_spaced(lower: float, upper: float, distance: Fraction, *, special: tuple[float, ...]) -> Steps:
    """Return the values from ``lower`` to at most ``upper`` at equal ``distance`` as `Steps`, in exact integers.

    The last one is below ``upper`` if the distance does not divide the interval.  ``special`` values come on top.
    """
    first = _exact(lower)
    denominator = math.lcm(first.denominator, distance.denominator)
    last = math.floor((_exact(upper) - first) / distance)
    size, offset = int(distance * denominator), int(first * denominator)
    return Steps(0, last, size=size, offset=offset, denominator=denominator, special=special)


def outer_multiples(lower: float, upper: float, distance: Fraction) -> tuple[float, float]:
    """Return the multiples of ``distance`` at or just outside an interval, as bounds; they differ and are exact floats.

    Discovery needs them: noisy bounds lie on no multiple, and equal bounds would leave no interval.
    """
    most = LARGEST_EXACT // distance.numerator
    low = min(max(math.floor(Fraction(lower) / distance), -most), most - 1)
    high = max(min(math.ceil(Fraction(upper) / distance), most), low + 1)
    return float(low * distance), float(high * distance)


def check_spacing(
    lower: float | None, upper: float | None, decimals: int | None, step: float | None, where: str
) -> None:
    """Raise SchemaError if decimals or step are invalid, or the bounds are not among the values they allow."""
    if decimals is not None and step is not None:
        raise SchemaError(f"{where}: decimals and step are both given: keep one of the two")
    if decimals is not None and (
        isinstance(decimals, bool) or not isinstance(decimals, int) or not 0 <= decimals <= MOST_DECIMALS
    ):
        raise SchemaError(f"{where}: decimals ({decimals!r}) must be a whole number from 0 to {MOST_DECIMALS}")
    if step is not None and (isinstance(step, bool) or not isinstance(step, (int, float)) or not 0 < step < math.inf):
        raise SchemaError(f"{where}: step ({step!r}) must be a number above 0")
    if lower is None or upper is None or (decimals is None and step is None):
        return
    distance = spacing(decimals, step)
    for end, bound in (("lower", lower), ("upper", upper)):
        if decimals is not None and (_exact(bound) / distance).denominator > 1:
            raise SchemaError(f"{where}: {end} ({bound}) must have at most {decimals} decimals")
    if ((_exact(upper) - _exact(lower)) / distance).denominator > 1:
        raise SchemaError(f"{where}: upper minus lower must be a multiple of step ({step})")
    if isinstance(step, int) and isinstance(lower, int) and isinstance(upper, int):
        return
    steps = evenly_spaced(lower, upper, distance, special=())
    if max(abs(steps.offset), abs(steps.offset + steps.last * steps.size), steps.denominator or 1) > LARGEST_EXACT:
        raise SchemaError(
            f"{where}: the bounds have too many digits for the given decimals or step: give fewer decimals, a "
            "larger step or narrower bounds"
        )


def _exact(number: float) -> Fraction:
    """Return a number as the fraction that its decimal text shows, so that steps are exact: 0.1 is 1/10."""
    return Fraction(repr(number))


@register
@dataclass(frozen=True, slots=True, repr=False)
class Continuous(Known):
    """A column of real numbers between two bounds; values beyond are clipped.

    Parameters
    ----------
    lower, upper
        Public bounds, lower < upper, or lower = upper with ``decimals`` or a ``step``, for a column of one number;
        ``None`` if they must be discovered.
    nullable
        Whether a missing value is a value of its own.
    special
        Numbers with a meaning of their own, inside the bounds or not (-1 = "refused"): kept as point masses.
    decimals
        Number of digits after the point, if that is known; synthetic values have as many.
    step
        Distance of neighbouring values, counted from ``lower``, if that is known; in place of ``decimals``.
    format
        How numbers of a column of texts are written, by an example: ``"1.234,56 €"``, ``"$1,234"``, ``"12.5 %"``; see
        `synthdp.schema.formats.number_format`.  They are read so and written so, with as many digits after the point as the
        example has, or more.  A percent sign is a sign as any other: bounds of ``"12.5 %"`` are 0 and 100.
    words
        Texts among the numbers with the number that each stands for, which becomes a special value:
        ``{"<0.6": 0.3}`` of a detection limit.
    like
        What is publicly known of the shape: a law whose parameters are not known, ``"lognormal"``, ``"normal"``,
        ``"exponential"`` or ``"uniform"``; or ``"increasing"``, ``"decreasing"`` or ``"smooth"``.  Noisy counts are drawn
        towards it to the extent that they bear it out; it forbids nothing.

    Examples
    --------
    >>> from synthdp import Continuous
    >>> Continuous(0, 250, nullable=True, special=[-1]).special  # -1: "would not say"
    (-1,)
    >>> price, shoe_size = Continuous(0, 500, decimals=2), Continuous(0.5, 14, step=0.5)
    >>> Continuous(0, 1e6, decimals=2, format="1.234,56 €").cells.write(1234.5)
    '1.234,50 €'
    """

    quantity: ClassVar[Quantity] = "number"
    lower: float | None = None
    upper: float | None = None
    nullable: bool = False
    special: tuple[float, ...] = ()
    decimals: int | None = field(default=None, kw_only=True)
    step: float | None = field(default=None, kw_only=True)
    format: str | None = field(default=None, kw_only=True)
    words: Mapping[str, float] | tuple[tuple[str, float], ...] = field(default=(), kw_only=True)
    like: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _store_numbers(self)

    @property
    def is_complete(self) -> bool:
        """Whether the bounds are declared; if not, they must be discovered under noise."""
        return self.lower is not None and self.upper is not None

    @property
    def is_even(self) -> bool:
        """Whether decimals or a step are declared, so that the values are evenly spaced."""
        return self.decimals is not None or self.step is not None

    @property
    def cells(self) -> NumberFormat | None:
        """The declared text format of the cells; ``None`` for plain numbers."""
        return _cells(self)

    def support(self) -> Interval | Steps:
        """Return the possible values: an interval, or evenly spaced numbers if decimals or a step are declared."""
        lower, upper = self.lower or 0, self.upper or 0
        if not self.is_even:
            return Interval(float(lower), float(upper), self.special)
        return evenly_spaced(lower, upper, spacing(self.decimals, self.step), special=self.special)

    def check(self, where: str) -> None:
        """Raise SchemaError unless bounds, special values, decimals and step are consistent.

        Bounds must differ as floats, unless they are equal and the values evenly spaced: an interval needs a width, and
        a column of one number does not.
        """
        _check_numbers(self, where)
        one = self.lower is not None and self.upper is not None and float(self.lower) == float(self.upper)
        if one and (self.lower != self.upper or not self.is_even):
            raise SchemaError(
                f"{where}: lower ({self.lower}) and upper ({self.upper}) must be different floating-point numbers"
            )
        check_spacing(self.lower, self.upper, self.decimals, self.step, where)

    def example(self) -> Self:
        """Return the column with arbitrary bounds if none are declared, to find the output type that suits it."""
        return self if self.is_complete else replace(self, lower=0, upper=1 if self.step is None else self.step)

    def with_bounds(self, lower: float, upper: float) -> Continuous:
        """Return the column with these bounds, moved outwards to the next values that its decimals or step allow."""
        if self.is_even:
            lower, upper = outer_multiples(lower, upper, spacing(self.decimals, self.step))
        return replace(self, lower=lower, upper=upper)

    def spacings(self) -> tuple[Fraction, ...]:
        """Return the powers of ten that discovery tests as the numbers' rounding; none if the rounding is declared."""
        return () if self.is_even else POWERS_OF_TEN

    def with_spacing(self, spacing: Fraction) -> Continuous:
        """Return the column with a discovered rounding: as decimals, or as a step of ten or more."""
        if spacing > 1:
            return replace(self, step=int(spacing))
        return replace(self, decimals=len(str(spacing.denominator)) - 1)

    def in_words(self) -> str:
        """Return a phrase for the column's type and bounds, for receipts and lists of columns."""
        return "number" + _range_in_words(self.lower, self.upper)


@register
@dataclass(frozen=True, slots=True, repr=False)
class Decimal(Continuous):
    """A column of decimal numbers between two bounds, as databases and ``decimal.Decimal`` hold them.

    Values beyond the bounds are clipped.

    Parameters
    ----------
    lower, upper, nullable, special, format, words, like
        As for `Continuous`.
    decimals
        Number of digits after the point.

    Examples
    --------
    >>> from synthdp import Decimal
    >>> Decimal(0, "99999.99").upper
    99999.99
    """

    decimals: int | None = field(default=2, kw_only=True)

    def check(self, where: str) -> None:
        """Raise SchemaError unless the settings are consistent and decimals are declared."""
        Continuous.check(self, where)
        if self.decimals is None:
            raise SchemaError(f"{where}: decimals must be given")

    def as_object(self, value: Any) -> object:
        """Return a stored number as ``decimal.Decimal`` with the declared decimals."""
        return decimal.Decimal(repr(float(value))).quantize(decimal.Decimal(1).scaleb(-(self.decimals or 0)))

    @property
    def stored_as(self) -> str:
        """The data type for the values in an output table: always "decimal", an exact decimal number."""
        return "decimal"


@register
@dataclass(frozen=True, slots=True, repr=False)
class Integer(Known):
    """A column of integers between two bounds; values beyond are clipped.

    Parameters
    ----------
    lower, upper
        As for `Continuous`, and lower = upper for a column of one number.
    nullable, special, format, words, like
        As for `Continuous`.
    step
        Distance of neighbouring values, counted from ``lower``, if that is known.
    """

    quantity: ClassVar[Quantity] = "number"
    whole: ClassVar[bool] = True
    lower: int | None = None
    upper: int | None = None
    nullable: bool = False
    special: tuple[int, ...] = ()
    step: int | None = field(default=None, kw_only=True)
    format: str | None = field(default=None, kw_only=True)
    words: Mapping[str, float] | tuple[tuple[str, float], ...] = field(default=(), kw_only=True)
    like: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _store_numbers(self)

    @property
    def is_complete(self) -> bool:
        """Whether the bounds are declared; if not, they must be discovered under noise."""
        return self.lower is not None and self.upper is not None

    @property
    def is_even(self) -> bool:
        """Whether a step is declared, so that only its multiples (from the lower bound) are values."""
        return self.step is not None

    @property
    def cells(self) -> NumberFormat | None:
        """The declared text format of the cells; ``None`` for plain numbers."""
        return _cells(self)

    def support(self) -> Steps:
        """Return the possible values: the integers between the bounds, or those at the declared step."""
        lower, upper = int(self.lower or 0), int(self.upper or 0)
        if self.step is None:
            return Steps(lower, upper, special=self.special)
        return Steps(0, (upper - lower) // self.step, size=self.step, offset=lower, special=self.special)

    def check(self, where: str) -> None:
        """Raise SchemaError unless bounds, special values and step are consistent."""
        _check_numbers(self, where)
        if self.step is not None and (isinstance(self.step, bool) or not isinstance(self.step, int)):
            raise SchemaError(f"{where}: the step of an Integer must be a whole number")
        check_spacing(self.lower, self.upper, None, self.step, where)

    def example(self) -> Self:
        """Return the column with arbitrary bounds if none are declared, to find the output type that suits it."""
        return self if self.is_complete else replace(self, lower=0, upper=self.step or 1)

    def with_bounds(self, lower: float, upper: float) -> Integer:
        """Return the column with integer bounds at or just outside these, on multiples of its step."""
        step = self.step or 1
        first, last = whole_bounds(lower / step, upper / step, -(LARGEST_WHOLE // step), LARGEST_WHOLE // step)
        low, high = first * step, last * step
        return replace(self, lower=low, upper=high)

    def spacings(self) -> tuple[Fraction, ...]:
        """Return the powers of ten from 1 that discovery tests as the numbers' rounding; none if a step is declared."""
        return () if self.is_even else tuple(power for power in POWERS_OF_TEN if power >= 1)

    def with_spacing(self, spacing: Fraction) -> Integer:
        """Return the column with a discovered rounding as its step; 1 needs no step."""
        return replace(self, step=int(spacing) if spacing > 1 else None)

    def in_words(self) -> str:
        """Return a phrase for the column's type and bounds, for receipts and lists of columns."""
        return "whole number" + _range_in_words(self.lower, self.upper)


def _range_in_words(lower: float | None, upper: float | None) -> str:
    """Return bounds as the end of a phrase, ", 0 to 120", or "" if they are not declared."""
    return "" if lower is None or upper is None else f", {in_figures(lower, digits=6)} to {in_figures(upper, digits=6)}"


def _cells(column: Continuous | Integer) -> NumberFormat | None:
    """Return a numeric column's declared text format, or ``None`` for plain numbers."""
    if column.format is None and not column.words:
        return None
    return number_format(column.format, words_as_pairs(column.words))


def _check_numbers(column: Continuous | Integer, where: str) -> None:
    """Raise SchemaError unless format, shape, bounds and special values fit: finite, in order, whole for an Integer."""
    checked(lambda: _cells(column), where)
    lower, upper = column.lower, column.upper
    if column.like is not None and column.like not in LIKE:
        raise SchemaError(f"{where}: like ({column.like!r}) must be one of {', '.join(LIKE)}")
    check_pair(lower, upper, where)
    for bound in (lower, upper, *column.special):
        if bound is None:
            continue
        if isinstance(bound, bool) or not isinstance(bound, (int, float, np.integer, np.floating)):
            raise SchemaError(f"{where}: bounds and special values must be numbers")
        if not _is_finite(bound):
            raise SchemaError(f"{where}: bounds and special values must be finite")
        if column.whole and bound != int(bound):
            raise SchemaError(f"{where}: bounds and special values of an Integer must be whole numbers")
    if column.whole and any(b is not None and abs(b) > LARGEST_WHOLE for b in (lower, upper, *column.special)):
        raise SchemaError(f"{where}: bounds and special values of an Integer must lie within ±2**62")
    one = lower == upper and (column.whole or column.is_even)
    if lower is not None and upper is not None and not (lower < upper or one):
        raise SchemaError(f"{where}: lower ({lower}) must be below upper ({upper})")
    if lower is not None and upper is not None and not math.isfinite(float(upper) - float(lower)):
        raise SchemaError(f"{where}: upper minus lower must be a finite number")
    if len(set(column.special)) < len(column.special):
        raise SchemaError(f"{where}: special values must differ from each other")


def _store_numbers(column: Continuous | Integer) -> None:
    """Replace settings of a new column by plain Python values, and add the numbers of ``words`` to its special values.

    NumPy's numbers would not fit into a schema file, and a word has its number on the grid only as a special value.
    """
    words = words_as_pairs(column.words)
    special = values_as_tuple("special", column.special)
    object.__setattr__(column, "words", words)
    object.__setattr__(column, "special", (*special, *(number for _, number in words if number not in special)))
    for bound in ("lower", "upper", "step"):
        value = getattr(column, bound)
        if isinstance(value, np.generic):
            object.__setattr__(column, bound, value.item())
        elif isinstance(value, decimal.Decimal) or (isinstance(value, str) and isinstance(column, Decimal)):
            object.__setattr__(column, bound, _float(value))


def _float(value: Any) -> Any:
    """Return a value as a float, or unchanged if it is no number, which a later check refuses."""
    try:
        return float(value)
    except ValueError:
        return value


def _is_finite(number: Any) -> bool:
    """Return whether a number is finite as a float."""
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number that no float can hold
        return False
