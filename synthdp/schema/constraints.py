"""Rules between columns that every released row obeys: public knowledge, made exact by construction."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from synthdp.errors import SchemaError
from synthdp.schema.column import Column, Steps, is_complete
from synthdp.schema.derived import Derived


@dataclass(frozen=True, slots=True)
class LessEqual:
    """Column ``left`` is never above column ``right``; rows where one is missing are free.

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

    left: str
    right: str


@dataclass(frozen=True, slots=True)
class Forbidden:
    """No row has all of these values together.

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

    values: Mapping[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", {name: _as_list(given) for name, given in self.values.items()})


@dataclass(frozen=True, slots=True)
class Implies:
    """Where the columns of ``when`` have these values, the columns of ``then`` have those.

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

    when: Mapping[str, Any]
    then: Mapping[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "when", {name: _as_list(given) for name, given in self.when.items()})
        object.__setattr__(self, "then", {name: _as_list(given) for name, given in self.then.items()})


@dataclass(frozen=True, slots=True)
class Iff:
    """The columns of one side have these values exactly where the columns of the other have those.

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

    left: Mapping[str, Any]
    right: Mapping[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "left", {name: _as_list(given) for name, given in self.left.items()})
        object.__setattr__(self, "right", {name: _as_list(given) for name, given in self.right.items()})


@dataclass(frozen=True, slots=True)
class Combinations:
    """Some columns have one of these combinations of values, and no other.

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

    columns: tuple[str, ...]
    combinations: Sequence[Sequence[Any]]

    def __post_init__(self) -> None:
        if isinstance(self.columns, str) or isinstance(self.combinations, (str, Mapping)):
            raise SchemaError("a Combinations rule needs a list of columns and a list of combinations of their values")
        object.__setattr__(self, "columns", tuple(self.columns))
        rows = [row if isinstance(row, (list, tuple)) else [row] for row in self.combinations]
        object.__setattr__(self, "combinations", tuple(tuple(_as_value(given) for given in row) for row in rows))


@dataclass(frozen=True, slots=True)
class CalendarDate:
    """Three whole numbers are a day of the calendar: no 31 April, and 29 February in leap years only.

    Rows where a number that decides it is missing or a special value are free.

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

    year: str | None
    month: str
    day: str


Constraint: TypeAlias = LessEqual | Forbidden | Implies | Iff | Combinations | CalendarDate | Derived


def columns_of(constraint: Constraint) -> tuple[str, ...]:
    """Return the names of the modelled columns that a rule is about."""
    match constraint:
        case LessEqual(left, right):
            return left, right
        case Forbidden(values):
            return tuple(values)
        case Implies(first, second) | Iff(first, second):
            return (*first, *second)
        case Combinations(columns, _):
            return columns
        case CalendarDate(year, month, day):
            return (month, day) if year is None else (year, month, day)
        case Derived():
            return constraint.sources


def check_constraint(constraint: object, columns: Mapping[str, Column]) -> None:
    """Check a rule against the columns it names; `derived.completed` checks a derived column.

    Raises
    ------
    SchemaError
        If it names an unknown column, one whose bounds or levels are open (what is discovered might contradict the rule),
        a value that a column cannot hold, or columns that cannot be compared.
    """
    match constraint:
        case LessEqual(left, right):
            _known((left, right), columns)
            if left == right or type(columns[left]) is not type(columns[right]):
                raise SchemaError(f"columns {left!r} and {right!r} of a rule must be two columns of the same kind")
            if not columns[left].measured:
                raise SchemaError(f"column {left!r} of a rule must be a number, a datetime or a duration")
        case Forbidden(values):
            _check_values(values, columns)
            if len(values) < 2:
                raise SchemaError("a Forbidden rule needs two or more columns")
        case Implies(first, second) | Iff(first, second):
            _check_values(first, columns)
            _check_values(second, columns)
            if not first or not second or set(first) & set(second):
                kind = "an Implies" if isinstance(constraint, Implies) else "an Iff"
                raise SchemaError(f"{kind} rule needs different columns on its two sides")
        case Combinations():
            _check_combinations(constraint, columns)
        case CalendarDate():
            _check_calendar(constraint, columns)
        case _:
            raise SchemaError(
                "a constraint must be LessEqual, Forbidden, Implies, Iff, Combinations, CalendarDate or Derived"
            )


def in_words(constraint: Constraint) -> str:
    """Return what a rule says, for a receipt or a report."""
    match constraint:
        case LessEqual(left, right):
            return f"{left} is at most {right}"
        case Forbidden(values):
            return f"never {_conditions(values)}"
        case Implies(when, then):
            return f"where {_conditions(when)}: {_conditions(then)}"
        case Iff(left, right):
            return f"{_conditions(left)} exactly where {_conditions(right)}"
        case Combinations(columns, combinations):
            return f"{' and '.join(columns)} are one of {len(combinations)} declared combinations"
        case CalendarDate():
            return f"{', '.join(columns_of(constraint))} are a day of the calendar"
        case Derived(column, expression, of, _):
            return f"{column} is looked up by {of}" if expression is None else f"{column} is {expression}"


def _conditions(values: Mapping[str, Any]) -> str:
    return " and ".join(f"{name} is {' or '.join(map(_value_in_words, given))}" for name, given in values.items())


def _value_in_words(value: Any) -> str:
    if isinstance(value, tuple):
        return f"from {value[0]} to {value[1]}"
    return "missing" if value is None else str(value)


def _check_combinations(rule: Combinations, columns: Mapping[str, Column]) -> None:
    _known(rule.columns, columns)
    if len(rule.columns) < 2 or len(set(rule.columns)) < len(rule.columns):
        raise SchemaError("a Combinations rule needs two or more different columns")
    if not rule.combinations:
        raise SchemaError(f"a Combinations rule of columns {', '.join(rule.columns)} must list a combination")
    if any(len(row) != len(rule.columns) for row in rule.combinations):
        raise SchemaError(f"each combination of a rule must have a value for each of {', '.join(rule.columns)}")
    for name, given in zip(rule.columns, zip(*rule.combinations, strict=True), strict=True):
        _check_values({name: [value for one in given for value in _as_list(one)]}, columns)


def _check_calendar(rule: CalendarDate, columns: Mapping[str, Column]) -> None:
    names = columns_of(rule)
    _known(names, columns)
    limits = {rule.month: (1, 12), rule.day: (1, 31)} | ({} if rule.year is None else {rule.year: (1, 9999)})
    if len(set(names)) < len(names):
        raise SchemaError("a CalendarDate rule needs different columns for year, month and day")
    for name, (first, last) in limits.items():
        if columns[name].whole:
            match columns[name].support():
                case Steps() as steps if first <= steps.value(steps.first) <= steps.value(steps.last) <= last:
                    continue
        raise SchemaError(f"column {name!r} of a CalendarDate rule must be an Integer from {first} to {last}, or less")


def _as_value(given: object) -> object:
    """Return one value as it is, and anything else as `_as_list` has it."""
    values = _as_list(given)
    return values[0] if len(values) == 1 and not isinstance(values[0], tuple) else values


def _as_list(given: object) -> list[Any]:
    """Return the values as a list in which a pair (a tuple, or a list within a list as JSON has it) is a range."""
    if isinstance(given, (list, set, frozenset)):
        return [
            tuple(_plain(end) for end in value) if isinstance(value, (tuple, list)) else _plain(value)
            for value in given
        ]
    return [tuple(_plain(end) for end in given)] if isinstance(given, tuple) else [_plain(given)]


def _plain(value: object) -> object:
    """Return a value as JSON can hold it."""
    if isinstance(value, (dt.date, dt.datetime)):
        return value.isoformat()
    return value.item() if isinstance(value, np.generic) and not isinstance(value, np.datetime64) else value


def _known(names: tuple[str, ...], columns: Mapping[str, Column]) -> None:
    for name in names:
        if not isinstance(name, str) or name not in columns:
            raise SchemaError(f"a rule names column {name!r}; the schema has: {', '.join(columns)}")
        if not is_complete(columns[name]):
            raise SchemaError(f"a rule names column {name!r}, whose bounds or levels must then be declared")


def _check_values(values: Mapping[str, list[Any]], columns: Mapping[str, Column]) -> None:
    _known(tuple(values), columns)
    for name, wanted in values.items():
        column = columns[name]
        if column.names_rows:
            raise SchemaError(f"a rule names column {name!r}, an identifier, whose labels carry no information")
        if not wanted:
            raise SchemaError(f"a rule lists no value of column {name!r}")
        for value in wanted:
            ends = _ends(name, column, value) if isinstance(value, tuple) else [value]
            if not all(_may_hold(column, end) for end in ends):
                raise SchemaError(f"a rule names the value {value!r}, which column {name!r} cannot hold")


def _ends(name: str, column: Column, value: tuple[Any, ...]) -> list[Any]:
    if not column.ordered or len(value) != 2:
        raise SchemaError(f"a rule gives a range of column {name!r}: that takes an ordered column and two ends")
    return [end for end in value if end is not None]


def _may_hold(column: Column, value: object) -> bool:
    return column.nullable if value is None else column.may_hold(value)
