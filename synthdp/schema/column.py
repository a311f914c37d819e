"""What every column type must implement, and the register of the types.

The rest of the package uses only these methods, so that a new type is one class with `register` above it.  Only code
that proposes types (drafts and discovery) names the classes.
"""

from __future__ import annotations

import decimal
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self, TypeAlias, TypeVar

import numpy as np

from synthdp.errors import SchemaError
from synthdp.schema.formats import CellFormat

Level: TypeAlias = str | int | float | bool
Quantity: TypeAlias = Literal["number", "moment", "length", "clock", "label", "truth", "name"]

DRAFTED = "drafted from the table"
"""The beginning of a column's source if its bounds or levels were read from the private rows; a reviewer may add a
name.  By it the receipt warns that these settings may reveal private rows."""

ALSO_DRAFTED = f"; {DRAFTED}: "
"""Text in a column's source, before the names of settings that were read from private rows although bounds or levels
were not."""

DISCOVERED = "discovered under noise"
"""A column's source if a release found its bounds or levels under noise, and paid for them."""

LONGEST_SOURCE = 200
"""Most characters of a column's source, which the receipt prints in one line: where the declaration is known from.  A
safety limit."""

ROUNDING = Fraction(1, 10**6)
"""Largest distance, in steps, of a number from the value of a column that it is taken for: ``0.1 * 3`` for 0.3.  Derived:
sums and products of numbers of up to 9 digits are nearer; a number that is meant to lie between two steps is not."""


@dataclass(frozen=True, slots=True)
class Levels:
    """The possible values of a column that has a list of categories.

    Parameters
    ----------
    levels
        The levels in their order.
    other
        The level that stands for every value that is not listed; ``None`` if no level does.
    """

    levels: tuple[Level, ...]
    other: str | None = None


@dataclass(frozen=True, slots=True)
class Steps:
    """The possible values of a column of evenly spaced values ``offset + k * size``, ``first <= k <= last``.

    If ``denominator`` is given, all values are divided by it.

    Parameters
    ----------
    first, last
        The numbers of the first and the last value.
    size, offset
        Whole numbers: 1 and 0 for integers, the microseconds of the resolution and 0 for times.
    denominator
        A whole number that all values are divided by; with ``None`` they are whole numbers.
    special
        Further values with a meaning of their own.
    rounds_down
        Whether a value between two steps belongs to the lower one; otherwise to the nearer one.
    clock
        For times, the numbers of steps in round lengths of time, from a day down: round times are multiples of these.
    """

    first: int
    last: int
    size: int = 1
    offset: int = 0
    denominator: int | None = None
    special: tuple[float, ...] = ()
    rounds_down: bool = False
    clock: tuple[int, ...] = ()

    def value(self, step: Any) -> Any:
        """Return ``offset + step * size`` for a step number or an array of them, divided by the denominator, if any.

        The value is an integer without a denominator, else a float.
        """
        whole = self.offset + step * self.size
        return whole if self.denominator is None else whole / self.denominator

    def held(self, number: float) -> int | float | None:
        """Return the value that a finite number equals up to rounding errors; ``None`` if no value is so near.

        So a number computed by a user, such as ``0.1 * 3``, is recognised as 0.3.
        """
        if number in self.special:
            return number
        step = self._place(number)
        near = round(step)
        if not self.value(self.first) <= number <= self.value(self.last) or abs(step - near) > ROUNDING:
            return None
        found: int | float = self.value(near)
        return found

    def any_between(self, low: float | None, high: float | None) -> bool:
        """Return whether a regular value lies between two finite numbers, both included, to refuse empty ranges in rules.

        ``None`` stands for no limit on that side.
        """
        first = self.first if low is None else max(self.first, math.ceil(self._place(low)))
        last = self.last if high is None else min(self.last, math.floor(self._place(high)))
        return first <= last

    def _place(self, number: float) -> Fraction:
        """Return the step number of a number, exactly: a whole number for a value, a fraction between two values."""
        exact = Fraction(repr(number)) if isinstance(number, float) else Fraction(number)  # 0.1 is 1/10
        return (exact * (self.denominator or 1) - self.offset) / self.size


@dataclass(frozen=True, slots=True)
class Interval:
    """The possible values of a column that holds any real number of an interval.

    Parameters
    ----------
    lower, upper
        Ends of the interval, both among the values.
    special
        Further values with a meaning of their own.
    """

    lower: float
    upper: float
    special: tuple[float, ...] = ()

    def held(self, number: float) -> int | float | None:
        """Return the number itself, as all numbers within the bounds are values; ``None`` beyond, unless it is special."""
        return number if self.lower <= number <= self.upper or number in self.special else None

    def any_between(self, low: float | None, high: float | None) -> bool:
        """Return whether a regular value lies between two numbers, both included; ``None`` stands for no limit."""
        first = self.lower if low is None else max(self.lower, low)
        return first <= (self.upper if high is None else min(self.upper, high))


@dataclass(frozen=True, slots=True)
class Fresh:
    """The possible values of an identifier: they are never read, and every released row gets a new one.

    Parameters
    ----------
    prefix
        Text before a running number; with ``None`` the number alone.
    pattern
        The format of the values instead; see `synthdp.schema.labels`.
    """

    prefix: str | None = None
    pattern: str | None = None


Support: TypeAlias = Levels | Steps | Interval | Fresh


class Column(ABC):
    """The public declaration of one column: a frozen dataclass of settings, with the methods below.

    Attributes
    ----------
    quantity
        The kind of a value, which decides how columns of a table are read and built.  ``"number"``; ``"moment"``, in
        microseconds since 1970 UTC; ``"length"`` of time, in microseconds; ``"clock"``, a time of day in microseconds
        since midnight; ``"label"``; ``"truth"``, the labels false and true; ``"name"``, of a row or a person, which is
        not read.
    ordered
        Whether values have an order.
    whole
        Whether the numbers are whole.
    holds
        Words for the values, for messages.
    nullable
        Whether a missing value is a separate value.
    source
        Source of the bounds or levels.
    """

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    quantity: ClassVar[Quantity]
    ordered: ClassVar[bool] = True
    whole: ClassVar[bool] = False
    holds: ClassVar[str] = "numbers"
    nullable: bool
    source: str | None

    @property
    @abstractmethod
    def is_complete(self) -> bool:
        """Whether the bounds or levels are declared; if not, they must be discovered under noise."""

    @abstractmethod
    def support(self) -> Support:
        """Return the possible values of a complete column, from which its grid of values is made."""

    @abstractmethod
    def check(self, where: str) -> None:
        """Raise SchemaError if the settings contradict each other; ``where`` ("column 'age'") begins the message."""

    @abstractmethod
    def example(self) -> Self:
        """Return this column with arbitrary bounds or levels in place of undeclared ones.

        Before discovery it tells which type of the output, such as a pandas dtype, suits the column.
        """

    @abstractmethod
    def in_words(self) -> str:
        """Return a phrase for the column's type and bounds, for receipts and lists of columns."""

    def starts_of_groups(self) -> tuple[tuple[int, ...], ...]:
        """Return the grid indices of groups' first levels, a tuple for each step of a hierarchy, the coarsest first.

        The result is () without a hierarchy.  The binning merges levels by these groups.
        """
        return ()

    def class_ends(self) -> tuple[float, ...]:
        """Return the increasing edges, (k + 1,), of the k fixed bins in which a survey weight is always counted.

        The result is () for every other column, whose bins are chosen freely.
        """
        return ()

    def class_values(self) -> tuple[float, ...]:
        """Return the one number, (k,), that stands for all values of each fixed bin: a survey weight's noisy mean.

        The result is () if values stand for themselves.
        """
        return ()

    def class_errors(self) -> tuple[float, ...]:
        """Return the standard error, (k,), of each noisy mean in `class_values`; () if there are none."""
        return ()

    def may_hold(self, value: object) -> bool:
        """Return whether a rule may name a value, as JSON writes it, for this column.

        In this base class it may name any finite number, even beyond the bounds, if the column holds numbers or times.
        """
        return self.measured and is_finite_number(value)

    def number_of(self, value: Any) -> int | float:
        """Return the number by which the package stores a value that a user names, such as microseconds for a date.

        Raises
        ------
        TypeError, ValueError, OverflowError
            If the value has no such number.
        """
        return number(value)

    def number_named(self, value: Any) -> int | float:
        """Return the number of a value that a user names, which may be written as the cells of the column are.

        Raises
        ------
        TypeError, ValueError, OverflowError
            If the value has no such number.
        """
        read = self._cell(value)
        if read is None:
            return self.number_of(value)
        return read if self.temporal else number(float(read))

    def level_named(self, value: Any) -> Any:
        """Return the level of a value that a user names, which may be written as the cells of the column are."""
        read = self._cell(value)
        return value if read is None else read

    def _cell(self, value: Any) -> Any:
        """Return what the column's format reads in a value; ``None`` without a format, or if it reads nothing.

        It reads texts, and whole numbers in a column of times, such as 20240131.
        """
        kinds = (str, int, np.integer) if self.temporal else (str,)
        if self.cells is None or not isinstance(value, kinds) or isinstance(value, bool):
            return None
        return self.cells.read(str(value))

    def with_bounds(self, lower: float, upper: float) -> Column:
        """Raise SchemaError, because most column types take no bounds from discovery.

        A type that takes bounds overrides the method. It returns the column with bounds at or just outside the two
        numbers, which completes the column in discovery.
        """
        raise SchemaError(
            f"a column of type {type(self).__name__} takes no bounds: remove the bounds {lower} and {upper}"
        )

    def as_object(self, value: Any) -> object:
        """Return a stored number as what a column of Python objects holds, such as a datetime; itself here."""
        return value

    def estimate(self, value: float) -> object:
        """Return a number that need not be a possible value, such as a mean, in the units that users see."""
        return float(value)

    @property
    def stored_as(self) -> str:
        """The data type for the values in an output table: real, whole, decimal, day, moment, length or clock."""
        return "whole" if self.whole else "real"

    def spacings(self) -> tuple[Fraction, ...]:
        """Return the spacings, the widest first, that discovery tests where none is declared; () if it tests none."""
        return ()

    def with_spacing(self, spacing: Fraction) -> Column:
        """Raise SchemaError, because most column types take no spacing from discovery.

        A type that takes a spacing overrides the method. It returns the column with one of `spacings` declared, after
        discovery has found it.
        """
        raise SchemaError(
            f"a column of type {type(self).__name__} takes no decimals and no step: remove the spacing {spacing}"
        )

    def shown(self, value: Any) -> object:
        """Return a stored number as users know it, for messages and reports: an int or float here, a text for times."""
        return int(value) if self.whole else float(value)

    @property
    def cells(self) -> CellFormat | None:
        """The text format of the column's cells in files; ``None`` for the usual one."""
        return None

    @property
    def labelled(self) -> bool:
        """Whether values are categories (truth values included) rather than numbers or times."""
        return self.quantity in ("label", "truth")

    @property
    def real(self) -> bool:
        """Whether values are numbers that need not be whole."""
        return self.quantity == "number" and not self.whole

    @property
    def temporal(self) -> bool:
        """Whether values are times, which are stored as microseconds."""
        return self.quantity in ("moment", "length", "clock")

    @property
    def measured(self) -> bool:
        """Whether values are numbers or times between two bounds, so that they can be compared and averaged."""
        return self.quantity == "number" or self.temporal

    @property
    def names_rows(self) -> bool:
        """Whether values identify rows or persons; such a column is never read."""
        return self.quantity == "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known(Column):
    """The setting that all column types share: where the declaration is known from.

    Parameters
    ----------
    source
        Where the bounds or levels are known from, in a few words: a codebook, a law, common knowledge.  The receipt
        prints it.  It does not change what the column may hold: columns that differ only in it are equal.
    """

    source: str | None = field(default=None, compare=False, repr=False)

    def __repr__(self) -> str:
        shown = [f for f in fields(self) if f.repr and not (f.kw_only and getattr(self, f.name) == f.default)]
        return f"{type(self).__name__}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in shown)})"


COLUMN_TYPES: dict[str, type[Column]] = {}
"""All column types by the names that schema files use, such as "integer"."""

ColumnT = TypeVar("ColumnT", bound=type[Column])


def register(kind: ColumnT) -> ColumnT:
    """Make a class a column type, known in schema files by its lower-case name; a class decorator."""
    COLUMN_TYPES[kind.__name__.lower()] = kind
    return kind


def is_drafted(column: Column) -> bool:
    """Return whether the column's bounds or levels were read from the private rows; the receipt then warns."""
    return column.source is not None and column.source.strip().casefold().startswith(DRAFTED)


def with_drafted(source: str, settings: Iterable[str]) -> str:
    """Return a column's source text, and after it the names of ``settings`` that were read from private rows.

    The receipt then warns of these settings, even if bounds or levels are known from elsewhere.
    """
    named = ", ".join(settings)
    return f"{source}{ALSO_DRAFTED}{named}" if named else source


def check_column(name: str, column: object) -> None:
    """Raise SchemaError, which names the column, unless a declared column is of a column type and consistent.

    Raises
    ------
    SchemaError
        If it is not; one sentence names the column and the rule it breaks.
    """
    where = f"column {name!r}"
    if not isinstance(column, Column):
        known = ", ".join(kind.__name__ for kind in COLUMN_TYPES.values())
        hint = ", such as Integer(0, 120)" if isinstance(column, type) else ""
        raise SchemaError(f"{where}: the type must be one of {known}{hint}")
    for setting in ("format", "pattern", "prefix"):
        given = getattr(column, setting, None)
        if given is not None and not isinstance(given, str):
            raise SchemaError(f"{where}: {setting} must be a text, not {type(given).__name__}")
    column.check(where)
    if not isinstance(column.nullable, bool):
        raise SchemaError(f"{where}: nullable must be True or False")
    if column.source is not None and not _is_short_text(column.source):
        raise SchemaError(f"{where}: source must be one line of text, of at most {LONGEST_SOURCE} characters")


def number(value: Any) -> int | float:
    """Return a number (also a NumPy scalar or a decimal) as a Python number; raise TypeError for anything else.

    A boolean counts as anything else, although Python takes it for an int.
    """
    if isinstance(value, decimal.Decimal):
        return float(value)
    plain = value.item() if hasattr(value, "dtype") and getattr(value, "ndim", 1) == 0 else value
    if isinstance(plain, bool) or not isinstance(plain, (int, float)):
        raise TypeError(type(value).__name__)
    return plain


def is_finite_number(value: object) -> bool:
    """Return whether a value is a number that a float can hold, and no boolean."""
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def _is_short_text(text: object) -> bool:
    """Return whether a column's source is a printable text of 1 to `LONGEST_SOURCE` characters.

    What a draft appended does not count.  A receipt shows it in one line.
    """
    return (
        isinstance(text, str)
        and bool(text.strip())
        and text.isprintable()
        and len(text.partition(ALSO_DRAFTED)[0]) <= LONGEST_SOURCE
    )


def values_as_tuple(name: str, values: object) -> tuple[Any, ...]:
    """Return a user's list of values as a tuple of Python values; raise SchemaError if it is not a list."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise SchemaError(f"{name} must be a list of values, not {type(values).__name__}")
    return tuple(value.item() if isinstance(value, np.generic) else value for value in values)
