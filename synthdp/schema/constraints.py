"""The kinds of rules between columns: public knowledge, made exact in every released row.

A new kind of rule is one subclass of `Constraint`, here or in a module of its own that `schema.py` imports;
docs/contributing/add-a-rule.md walks through one.  `synthdp.domain.rules` compiles rules
to grid indices.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import Field, dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from synthdp.errors import InternalError, SchemaError
from synthdp.schema.column import Column, Interval, Levels, Steps
from synthdp.schema.plain_values import plain

__all__ = ["RULE_KINDS", "CalendarDate", "Combinations", "Constraint", "Forbidden", "Iff", "Implies", "LessEqual"]

SHORTER_MONTHS = (4, 6, 9, 11)
"""Numbers of the months with 30 days; with February, these decide which days a date rule excludes."""

LONGEST_SHOWN = 80
"""Most characters of a value in a message.  More fill the line; fewer cut texts that people write.  A convention."""


class Constraint(ABC):
    """One rule between columns that every released row obeys, such as "born is at most died"."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    kind: ClassVar[str]
    """The rule's name in a schema file."""

    since: ClassVar[int] = 3
    """The first version of schema files that can hold the rule."""

    def means(self) -> Sequence[Constraint]:
        """Return equivalent rules of simpler kinds, so that only few kinds need an implementation.

        `LessEqual`, `Forbidden`, `Implies`, `Combinations` and `CalendarDate` are simple: `domain.rules` implements
        them.  They keep this method, which raises InternalError.
        """
        raise InternalError(f"no rows are checked against rules of type {type(self).__name__}")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the modelled columns in the rule."""
        return tuple(dict.fromkeys(name for rule in self.means() for name in rule.names))

    def check(self, columns: Mapping[str, Column]) -> None:
        """Raise SchemaError unless the rule's columns are modelled and can hold the values that it names.

        Raises
        ------
        SchemaError
            If it names an unknown column, or one whose bounds or levels are open (what is discovered might contradict
            the rule).  Also if it names a value that a column cannot hold, or columns that cannot be compared.
        """
        for rule in self.means():
            rule.check(columns)

    def named(self, columns: Mapping[str, Column]) -> Sequence[tuple[str, Sequence[Any]]]:
        """Return the values that the rule names, by column; the binning keeps bins of their own for them."""
        return [pair for rule in self.means() for pair in rule.named(columns)]

    @abstractmethod
    def in_words(self) -> str:
        """Return the rule as a phrase for a receipt or a report."""


RULE_KINDS: dict[str, type[Constraint]] = {}
"""All kinds of rules by their names in schema files."""

C = TypeVar("C", bound=type[Constraint])
"""The class of a rule, which a decorator returns unchanged."""


def register(kind: C) -> C:
    """Let schema files hold rules of a class; a class decorator, above the dataclass's."""
    RULE_KINDS[kind.kind] = kind
    return kind


@register
@dataclass(frozen=True, slots=True)
class LessEqual(Constraint):
    """A rule: column ``left`` is never above column ``right``; rows with a missing value in either are exempt.

    Rows with a special value beyond its column's bounds are exempt too, since it is a code.  Special values between the
    bounds are numbers like others.

    Parameters
    ----------
    left, right
        Names of two columns of the same ordered kind.

    Examples
    --------
    >>> from synthdp import Integer, LessEqual, Schema
    >>> columns = {"born": Integer(1900, 2026), "died": Integer(1900, 2026, nullable=True)}
    >>> Schema(columns, constraints=[LessEqual("born", "died")]).constraints
    (LessEqual(left='born', right='died'),)
    """

    kind: ClassVar[str] = "less_equal"
    since: ClassVar[int] = 1

    left: str
    right: str

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the two columns."""
        return self.left, self.right

    def check(self, columns: Mapping[str, Column]) -> None:
        """Raise SchemaError unless the two columns are declared and hold comparable values."""
        _known(self.names, columns)
        if self.left == self.right or type(columns[self.left]) is not type(columns[self.right]):
            raise SchemaError(
                f"columns {self.left!r} and {self.right!r} of a {type(self).__name__} rule must be two different "
                "columns of the same type"
            )
        if not columns[self.left].measured:
            raise SchemaError(
                f"column {self.left!r} of a {type(self).__name__} rule must hold numbers, times or durations"
            )

    def named(self, columns: Mapping[str, Column]) -> Sequence[tuple[str, Sequence[Any]]]:  # noqa: ARG002
        """Return no values: the rule compares columns, so the binning needs no bins of their own."""
        return ()

    def in_words(self) -> str:
        """Return the rule as a phrase for the receipt."""
        return f"{self.left} is at most {self.right}"


@register
@dataclass(frozen=True, slots=True)
class Forbidden(Constraint):
    """A rule: no row has all of these values together.

    Parameters
    ----------
    values
        For two or more columns, the value or list of values; ``None`` stands for missing, and for ordered columns
        ``(lower, upper)`` for a range, both ends included.

    Examples
    --------
    >>> from synthdp import Forbidden
    >>> Forbidden({"age": (0, 15), "status": ["married", "widowed"]}).values
    {'age': [(0, 15)], 'status': ['married', 'widowed']}
    """

    kind: ClassVar[str] = "forbidden"
    since: ClassVar[int] = 1

    values: Mapping[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", _by_column("a Forbidden", self.values))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns in the rule."""
        return tuple(self.values)

    def check(self, columns: Mapping[str, Column]) -> None:
        """Raise SchemaError unless there are two or more columns that can hold the values."""
        _check_values(self.values, columns)
        if len(self.values) < 2:
            raise SchemaError("values of a Forbidden rule must name two or more columns")

    def named(self, columns: Mapping[str, Column]) -> Sequence[tuple[str, Sequence[Any]]]:  # noqa: ARG002
        """Return the forbidden values by column; the binning keeps bins of their own for them."""
        return list(self.values.items())

    def in_words(self) -> str:
        """Return the rule as a phrase for the receipt."""
        return f"never {_conditions(self.values)}"


@register
@dataclass(frozen=True, slots=True)
class Implies(Constraint):
    """A rule: where the columns of ``when`` have these values, the columns of ``then`` have those.

    Parameters
    ----------
    when, then
        Column names and the value, list of values or range, as in `Forbidden`.

    Examples
    --------
    >>> from synthdp import Implies
    >>> Implies(when={"ward": "children"}, then={"age": (0, 17)}).then
    {'age': [(0, 17)]}
    """

    kind: ClassVar[str] = "implies"
    since: ClassVar[int] = 1

    when: Mapping[str, Any]
    then: Mapping[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "when", _by_column("an Implies", self.when))
        object.__setattr__(self, "then", _by_column("an Implies", self.then))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns of both sides."""
        return (*self.when, *self.then)

    def check(self, columns: Mapping[str, Column]) -> None:
        """Raise SchemaError unless both sides name different columns that can hold the values."""
        _check_sides("an Implies", self.when, self.then, columns)

    def named(self, columns: Mapping[str, Column]) -> Sequence[tuple[str, Sequence[Any]]]:  # noqa: ARG002
        """Return the values of both sides by column; the binning keeps bins of their own for them."""
        return [*self.when.items(), *self.then.items()]

    def in_words(self) -> str:
        """Return the rule as a phrase for the receipt."""
        return f"where {_conditions(self.when)}: {_conditions(self.then)}"


@register
@dataclass(frozen=True, slots=True)
class Iff(Constraint):
    """A rule: the columns of ``left`` have these values exactly where the columns of ``right`` have those.

    Parameters
    ----------
    left, right
        Column names and the value, list of values or range, as in `Forbidden`.

    Examples
    --------
    >>> from synthdp import Iff
    >>> Iff({"pdays": -1}, {"previous": 0}).right  # never contacted before: no days since, no contacts
    {'previous': [0]}
    """

    kind: ClassVar[str] = "iff"

    left: Mapping[str, Any]
    right: Mapping[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "left", _by_column("an Iff", self.left))
        object.__setattr__(self, "right", _by_column("an Iff", self.right))

    def means(self) -> Sequence[Constraint]:
        """Return two `Implies` rules, one for each direction."""
        return Implies(self.left, self.right), Implies(self.right, self.left)

    def check(self, columns: Mapping[str, Column]) -> None:
        """Raise SchemaError unless both sides name different columns that can hold the values."""
        _check_sides("an Iff", self.left, self.right, columns)

    def in_words(self) -> str:
        """Return the rule as a phrase for the receipt."""
        return f"{_conditions(self.left)} exactly where {_conditions(self.right)}"


@register
@dataclass(frozen=True, slots=True)
class Combinations(Constraint):
    """A rule: some columns together have one of the listed combinations of values, and no other.

    Parameters
    ----------
    columns
        Names of two or more columns.
    combinations
        For each combination one value, list of values or range a column, as in `Forbidden`.  What is not listed does not
        occur: list ``None`` for a missing value.

    Examples
    --------
    >>> from synthdp import Combinations
    >>> Combinations(("city", "country"), [("Paris", "FR"), ("Paris", "US"), ("Rome", "IT")]).columns
    ('city', 'country')
    """

    kind: ClassVar[str] = "combinations"

    columns: tuple[str, ...]
    combinations: Sequence[Sequence[Any]]

    def __post_init__(self) -> None:
        listed = isinstance(self.columns, Iterable) and isinstance(self.combinations, Iterable)
        if not listed or isinstance(self.columns, str) or isinstance(self.combinations, (str, Mapping)):
            raise SchemaError("a Combinations rule needs a list of columns and a list of combinations of their values")
        object.__setattr__(self, "columns", tuple(self.columns))
        rows = [row if isinstance(row, (list, tuple)) else [row] for row in self.combinations]
        object.__setattr__(self, "combinations", tuple(tuple(_as_value(given) for given in row) for row in rows))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns in the rule."""
        return self.columns

    def check(self, columns: Mapping[str, Column]) -> None:
        """Raise SchemaError unless the columns are declared and can hold the listed values."""
        names = ", ".join(map(str, self.columns))
        _known(self.columns, columns)
        if len(self.columns) < 2 or len(set(self.columns)) < len(self.columns):
            raise SchemaError("a Combinations rule needs two or more different columns")
        if not self.combinations:
            raise SchemaError(f"a Combinations rule of columns {names} must list at least one combination")
        if any(len(row) != len(self.columns) for row in self.combinations):
            raise SchemaError(
                f"each combination of a Combinations rule must have one value for each of the columns {names}"
            )
        for name, given in zip(self.columns, zip(*self.combinations, strict=True), strict=True):
            _check_values({name: [value for one in given for value in _as_list(one)]}, columns)

    def named(self, columns: Mapping[str, Column]) -> Sequence[tuple[str, Sequence[Any]]]:  # noqa: ARG002
        """Return the listed values by column, each once; the binning keeps bins of their own for them."""
        by_column = zip(self.columns, zip(*self.combinations, strict=True), strict=True)
        every = [(name, [one for some in given for one in _as_list(some)]) for name, given in by_column]
        return [(name, list({repr(value): value for value in given}.values())) for name, given in every]

    def in_words(self) -> str:
        """Return the rule as a phrase for the receipt."""
        return f"{' and '.join(self.columns)} are one of {len(self.combinations)} declared combinations"


@register
@dataclass(frozen=True, slots=True)
class CalendarDate(Constraint):
    """A rule: three integer columns form a day of the calendar: no 31 April, and 29 February in leap years only.

    A row is exempt if a number that decides whether its date exists is missing, or is a special value beyond the bounds.

    Parameters
    ----------
    year
        Name of the column of years, or ``None`` if there is none: then 29 February may be.
    month, day
        Names of columns declared from 1 to 12 and from 1 to 31, or less.

    Examples
    --------
    >>> from synthdp import CalendarDate, Integer, Schema
    >>> columns = {"year": Integer(1990, 2030), "month": Integer(1, 12), "day": Integer(1, 31)}
    >>> Schema(columns, constraints=[CalendarDate("year", "month", "day")]).constraints[0].day
    'day'
    """

    kind: ClassVar[str] = "calendar_date"

    year: str | None
    month: str
    day: str

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the two or three columns in the rule."""
        return (self.month, self.day) if self.year is None else (self.year, self.month, self.day)

    def check(self, columns: Mapping[str, Column]) -> None:
        """Raise SchemaError unless the columns are integers with the bounds of years, months and days."""
        _known(self.names, columns)
        limits = {self.month: (1, 12), self.day: (1, 31)} | ({} if self.year is None else {self.year: (1, 9999)})
        if len(set(self.names)) < len(self.names):
            raise SchemaError("a CalendarDate rule needs different columns for year, month and day")
        for name, (first, last) in limits.items():
            if columns[name].whole and all(first <= bound <= last for bound in _ends_of(columns[name])):
                continue
            raise SchemaError(
                f"column {name!r} of a CalendarDate rule must be an Integer with lower of at least {first} and "
                f"upper of at most {last}"
            )

    def named(self, columns: Mapping[str, Column]) -> Sequence[tuple[str, Sequence[Any]]]:
        """Return the months shorter than 31 days and the days 29 to 31; the binning keeps bins of their own for them."""
        special = {self.month: (2, *SHORTER_MONTHS), self.day: (29, 30, 31)}
        return [(name, _within(columns[name], numbers)) for name, numbers in special.items()]

    def in_words(self) -> str:
        """Return the rule as a phrase for the receipt."""
        return f"{', '.join(self.names)} are a day of the calendar"


def _conditions(values: Mapping[str, Any]) -> str:
    """Return values by column as a phrase: "a is 1 or 2 and b is from 3 to 5"."""
    return " and ".join(f"{name} is {' or '.join(map(_value_in_words, given))}" for name, given in values.items())


def _value_in_words(value: Any) -> str:
    """Return one value of a rule as a phrase; a pair is a range, ``None`` a missing value."""
    if isinstance(value, tuple):
        return f"from {value[0]} to {value[1]}"
    return "missing" if value is None else str(value)


def _as_value(given: object) -> object:
    """Return one column's part of a combination: a single value bare, a range or several values as a list.

    So a combination reads as a user wrote it, and is written to JSON so.
    """
    values = _as_list(given)
    return values[0] if len(values) == 1 and not isinstance(values[0], tuple) else values


def _by_column(kind: str, given: object) -> dict[str, list[Any]]:
    """Return a rule's values by column, each as a list; raise SchemaError if they are no dict, such as a condition."""
    if not isinstance(given, Mapping):
        raise SchemaError(
            f"{kind} rule needs a dict of values by column, such as {{'age': (0, 15), 'status': 'married'}}, not "
            f"{type(given).__name__}"
        )
    return {name: _as_list(values) for name, values in given.items()}


def _as_list(given: object) -> list[Any]:
    """Return what a rule gives for one column, a value, a list or a range, as a list: the form in which rules keep it.

    A range is a tuple in the list.  It is given as a tuple, or as a list within a list, as in JSON.
    """
    if isinstance(given, (np.ndarray, range)) or hasattr(given, "to_list"):  # also columns of pandas and polars
        given = list(np.atleast_1d(given) if isinstance(given, np.ndarray) else given)  # type: ignore[call-overload]
    if isinstance(given, (list, set, frozenset)):
        return [_range(value) if isinstance(value, (tuple, list)) else plain(value) for value in given]
    return [_range(given) if isinstance(given, tuple) else plain(given)]


def _range(ends: Sequence[object]) -> tuple[Any, ...]:
    """Return a range with ends as JSON can hold them: infinite ones are ``None``, no end.

    Raise SchemaError if an end is another mark of missing values: it is hardly meant to be no end.
    """
    kept = [plain(end) for end in ends]
    if any(new is None and end is not None for new, end in zip(kept, ends, strict=True)):
        raise SchemaError("a range in a rule has an end that is missing or not a number: write None for no end")
    for place, infinity in zip(range(len(kept)), (-math.inf, math.inf), strict=False):
        if isinstance(kept[place], float) and kept[place] == infinity:
            kept[place] = None
    return tuple(kept)


def _check_sides(kind: str, left: Mapping[str, Any], right: Mapping[str, Any], columns: Mapping[str, Column]) -> None:
    """Raise SchemaError unless two sides of a rule name different columns and values that these can hold."""
    _check_values(left, columns)
    _check_values(right, columns)
    if not left or not right or set(left) & set(right):
        raise SchemaError(f"{kind} rule needs at least one column on each side, and no column on both sides")


def _ends_of(column: Column) -> tuple[float, float]:
    """Return the first and last value of a column with evenly spaced values; infinite ends for other columns.

    A rule about the calendar names only days and months within them.
    """
    match column.support():
        case Steps(first, last) as steps:
            return steps.value(first), steps.value(last)
    return -math.inf, math.inf


def _within(column: Column, numbers: Sequence[int]) -> list[int]:
    """Return the numbers that lie between a column's bounds, both included.

    So a rule about the calendar names only days and months that the column can hold.
    """
    first, last = _ends_of(column)
    return [one for one in numbers if first <= one <= last]


def _known(names: tuple[str, ...], columns: Mapping[str, Column]) -> None:
    """Raise SchemaError unless all names are schema columns with declared bounds or levels.

    What is discovered later might contradict a rule.  A rule is checked when the schema is made.
    """
    for name in names:
        if not isinstance(name, str) or name not in columns:
            raise SchemaError(f"a rule names column {name!r}; the schema has: {', '.join(columns)}")
        if not columns[name].is_complete:
            raise SchemaError(f"a rule names column {name!r}, which has no declared bounds or levels: declare them")


def _check_values(values: Mapping[str, list[Any]], columns: Mapping[str, Column]) -> None:
    """Raise SchemaError unless a rule names columns of the schema, with values or ranges that each column can hold.

    A range may go beyond the bounds of its column, and begin or end between two of its values.
    """
    _known(tuple(values), columns)
    for name, wanted in values.items():
        column = columns[name]
        if column.names_rows:
            raise SchemaError(
                f"a rule names column {name!r}, an identifier, which rules cannot use: name another column"
            )
        if not wanted:
            raise SchemaError(f"a rule lists no value for column {name!r}: list at least one")
        for value in wanted:
            if isinstance(value, tuple):
                _check_range(name, column, value)
            elif not can_hold(column, value):
                raise _cannot_hold(name, column, value)


def _check_range(name: str, column: Column, value: tuple[Any, ...]) -> None:
    """Raise SchemaError unless a tuple is a range of an ordered column, with values of the column in it."""
    if not column.ordered or len(value) != 2:
        raise SchemaError(
            f"a rule has a tuple for column {name!r}, which means a range: write (lower, upper) for an ordered "
            "column, or list single values instead"
        )
    for end in value:
        if end is not None and _stored(column, end) is None:
            raise _cannot_hold(name, column, end)
    low, high = (None if end is None else _stored(column, end) for end in value)
    if low is not None and high is not None and low > high:
        raise SchemaError(
            f"a rule has a range for column {name!r} whose lower end ({shown(value[0])}) is above its upper end "
            f"({shown(value[1])}): exchange them, or give a list for single values"
        )
    match column.support():
        case (Interval() | Steps()) as support if not support.any_between(low, high):
            raise SchemaError(
                f"a rule has the range {shown(value)}, in which column {name!r} has no value{declared_as(column)}: change "
                "the range, or list single values instead"
            )


def _cannot_hold(name: str, column: Column, value: object) -> SchemaError:
    """Return the error of a value that a rule names, and that its column cannot hold."""
    return SchemaError(
        f"a rule names the value {shown(value)}, which column {name!r} cannot hold{declared_as(column)}: remove the value "
        "from the rule, or declare it in the column"
    )


def can_hold(column: Column, value: object) -> bool:
    """Return whether a value is one of a complete column's: a level, or a number or time between its bounds, on its step.

    ``None``, missing, is one of a nullable column.  A schema file must be able to hold the value, too.
    """
    if value is None:
        return column.nullable
    stored = _stored(column, value)
    match column.support():
        case (Interval() | Steps()) as support:
            return stored is not None and support.held(stored) is not None
    return stored is not None


def _stored(column: Column, value: object) -> int | float | None:
    """Return the number by which a column stores a value of its kind, or the place of a level; ``None`` for others.

    The number may lie beyond the column's bounds or off its step.
    """
    try:
        if not isinstance(value, (str, int, float)) or not column.may_hold(value):
            return None
        match column.support():
            case Levels(levels):
                return levels.index(value)
        return column.number_of(value)
    except (TypeError, ValueError, OverflowError):  # a value that cannot be compared, or a text that cannot be read
        return None


def declared_as(column: Column) -> str:
    """Return how a column of numbers or times is declared, " (whole number, 0 to 9, step 3)", or "" for one of levels."""
    if column.labelled:
        return ""
    settings = {name: getattr(column, name, None) for name in ("step", "decimals", "resolution")}
    parts = [column.in_words(), *(f"{name} {value}" for name, value in settings.items() if value is not None)]
    return f" ({', '.join(parts)})"


def shown(value: object) -> str:
    """Return a value of a rule in one short line, for a message."""
    line = " ".join(repr(value).split())
    return line if len(line) <= LONGEST_SHOWN else f"{line[:LONGEST_SHOWN]}..."
