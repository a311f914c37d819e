"""Rules between columns that every released row obeys: public knowledge, made exact by construction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from synthdp.errors import SchemaError
from synthdp.schema.columns import Boolean, Categorical, Column, Continuous, Datetime, Duration, Integer, Ordinal


@dataclass(frozen=True, slots=True)
class LessEqual:
    """Column ``left`` is never above column ``right``; rows where one is missing are free.

    Parameters
    ----------
    left, right
        Names of two columns of the same ordered kind.
    """

    left: str
    right: str


@dataclass(frozen=True, slots=True)
class Forbidden:
    """No row has all of these values together.

    Parameters
    ----------
    values
        For two or more columns, the value or list of values; ``None`` stands for missing.
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
        Column names and the value or list of values; ``None`` stands for missing.
    """

    when: Mapping[str, Any]
    then: Mapping[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "when", {name: _as_list(given) for name, given in self.when.items()})
        object.__setattr__(self, "then", {name: _as_list(given) for name, given in self.then.items()})


Constraint: TypeAlias = LessEqual | Forbidden | Implies


def check_constraint(constraint: object, columns: Mapping[str, Column]) -> None:
    """Check a rule against the columns it names.

    Raises
    ------
    SchemaError
        If it names an unknown column, an undeclared level or value out of bounds, or columns that cannot be compared.
    """
    match constraint:
        case LessEqual(left, right):
            _known((left, right), columns)
            if left == right or type(columns[left]) is not type(columns[right]):
                raise SchemaError(f"columns {left!r} and {right!r} of a rule must be two columns of the same kind")
            if not isinstance(columns[left], (Integer, Continuous, Datetime, Duration)):
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
    return list(given) if isinstance(given, (list, tuple, set, frozenset)) else [given]


def _known(names: tuple[str, ...], columns: Mapping[str, Column]) -> None:
    for name in names:
        if name not in columns:
            raise SchemaError(f"a rule names column {name!r}; the schema has: {', '.join(columns)}")


def _check_values(values: Mapping[str, list[Any]], columns: Mapping[str, Column]) -> None:
    _known(tuple(values), columns)
    for name, wanted in values.items():
        column = columns[name]
        for value in wanted:
            if value is None:
                allowed = column.nullable
            elif isinstance(column, (Categorical, Ordinal)):
                other = getattr(column, "other", None)
                allowed = column.levels is None or value in column.levels or value == other
            elif isinstance(column, Boolean):
                allowed = isinstance(value, bool)
            else:
                raise SchemaError(f"a rule lists values of column {name!r}, which has no levels")
            if not allowed:
                raise SchemaError(f"a rule names the value {value!r}, which column {name!r} cannot hold")
