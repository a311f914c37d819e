"""Rules between columns that every released row obeys: public knowledge, made exact by construction."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from synthdp.errors import SchemaError
from synthdp.schema.column import Column, is_complete


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


Constraint: TypeAlias = LessEqual | Forbidden | Implies


def columns_of(constraint: Constraint) -> tuple[str, ...]:
    """Return the names of the columns that a rule is about."""
    match constraint:
        case LessEqual(left, right):
            return left, right
        case Forbidden(values):
            return tuple(values)
        case Implies(when, then):
            return (*when, *then)


def check_constraint(constraint: object, columns: Mapping[str, Column]) -> None:
    """Check a rule against the columns it names.

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
        case Implies(when, then):
            _check_values(when, columns)
            _check_values(then, columns)
            if not when or not then or set(when) & set(then):
                raise SchemaError("an Implies rule needs different columns on its two sides")
        case _:
            raise SchemaError("a constraint must be LessEqual, Forbidden or Implies")


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
