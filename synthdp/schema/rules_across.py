"""Rules between columns of different tables: what may be declared, and what is refused.  Knows schemas, no row.

A rule names columns as ``table.column``.  Its kinds are those of one table: a condition on two columns, of which one is in
a table above the other's, and columns that are computed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from synthdp.errors import SchemaError
from synthdp.schema.column import Column
from synthdp.schema.columns import Identifier
from synthdp.schema.constraint import Constraint
from synthdp.schema.derived import Derived
from synthdp.schema.schema import Schema

Place = tuple[str, str]
"""A table and a column."""

_DOTTED = re.compile(r"`[^`]*`|[A-Za-z_]\w*\.[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """A rule between a column of a table and one of a table above.

    Parameters
    ----------
    rule
        As declared.
    above, below
        The column nearer to the root, and the other.
    both
        A schema of the two columns, by their dotted names, and the rule.
    """

    rule: Constraint
    above: Place
    below: Place
    both: Schema


@dataclass(frozen=True, slots=True, eq=False)
class Computed:
    """A column that is computed from columns of its own table and of tables above.

    Parameters
    ----------
    rule
        As declared.
    place
        Where it comes out.
    sources
        What it is computed from.
    all
        A schema of the sources and of the column, by their dotted names, and the rule.
    """

    rule: Derived
    place: Place
    sources: tuple[Place, ...]
    all: Schema

    @property
    def column(self) -> Column:
        """The column, with the bounds or levels that were left open."""
        return self.all.outputs[dotted(self.place)]


def dotted(place: Place) -> str:
    """Return how rules call a column."""
    return f"{place[0]}.{place[1]}"


def computed_places(rules: Sequence[Constraint], tables: Mapping[str, Schema]) -> dict[str, list[str]]:
    """Return by table the columns that rules across tables compute, which are not modelled."""
    found: dict[str, list[str]] = {}
    for rule in rules:
        if isinstance(rule, Derived):
            table, column = _place(rule.column, tables)
            if column in found.get(table, []):
                raise SchemaError(f"column {rule.column!r} is derived twice")
            found.setdefault(table, []).append(column)
    return found


def checked_rules(
    rules: Sequence[Constraint],
    tables: Mapping[str, Schema],
    modelled: Mapping[str, Schema],
    above: Callable[[str], set[str]],
) -> tuple[list[Condition], list[Computed]]:
    """Return the rules, checked, conditions first.

    Parameters
    ----------
    rules
        As declared.
    tables, modelled
        Schemas by name: with all columns, and without those that rules across tables compute.
    above
        Returns the names of the tables above one.

    Raises
    ------
    SchemaError
        In one sentence, if a rule cannot be kept.
    """
    conditions, computed = [], []
    for rule in rules:
        if not isinstance(rule, Constraint):
            raise SchemaError(f"a rule between tables must be a rule as schemas have them, not {type(rule).__name__}")
        if isinstance(rule, Derived):
            computed.append(_computed(rule, tables, modelled, above))
        else:
            conditions.append(_condition(rule, tables, modelled, above))
    return conditions, computed


def _condition(
    rule: Constraint, tables: Mapping[str, Schema], modelled: Mapping[str, Schema], above: Callable[[str], set[str]]
) -> Condition:
    names = tuple(dict.fromkeys(rule.names))
    places = [_place(name, tables) for name in names]
    if len(places) != 2:
        raise SchemaError(
            f"a rule between tables must be about two columns ({rule.in_words()}): one of a table, one of a table above it"
        )
    first, second = places
    if first[0] == second[0]:
        raise SchemaError(
            f"a rule between tables names two columns of {first[0]!r} ({rule.in_words()}), which is not supported: one must "
            "be of a table above the other's"
        )
    if first[0] in above(second[0]):
        upper, lower = first, second
    elif second[0] in above(first[0]):
        upper, lower = second, first
    else:
        raise SchemaError(
            f"a rule names {names[0]!r} and {names[1]!r}, of which neither table is above the other: rows of one cannot be "
            "told apart by rows of the other"
        )
    both = Schema({dotted(place): _modelled(place, modelled) for place in places}, constraints=[rule])
    return Condition(rule, upper, lower, both)


def _computed(
    rule: Derived, tables: Mapping[str, Schema], modelled: Mapping[str, Schema], above: Callable[[str], set[str]]
) -> Computed:
    table, name = _place(rule.column, tables)
    quoted = replace(rule, expression=_quoted(rule.expression)) if isinstance(rule.expression, str) else rule
    sources = tuple(_place(one, tables) for one in quoted.sources)
    for source in sources:
        if source[0] != table and source[0] not in above(table):
            raise SchemaError(
                f"column {rule.column!r} is derived from {dotted(source)!r}, whose table is not above it: a row has one row "
                "above it in each table, and any number below"
            )
    column = tables[table].outputs[name]
    if rule.expression is not None and not column.whole:
        raise SchemaError(
            f"column {rule.column!r} is derived across tables as a real number, which is not supported: declare it as a "
            "whole number, computed from whole numbers"
        )
    columns = {dotted(source): _modelled(source, modelled) for source in sources}
    every = Schema({**columns, rule.column: column}, constraints=[quoted])
    return Computed(rule, (table, name), sources, every)


def _quoted(expression: str) -> str:
    """Put dotted names in backticks, where expressions take any name."""
    return _DOTTED.sub(lambda found: found[0] if found[0].startswith("`") else f"`{found[0]}`", expression)


def _place(name: object, tables: Mapping[str, Schema]) -> Place:
    table, _, column = str(name).partition(".")
    if not column or table not in tables:
        raise SchemaError(
            f"a rule between tables names {name!r}: write it as 'table.column'; the tables are: {', '.join(tables)}"
        )
    if column not in tables[table].outputs:
        raise SchemaError(
            f"a rule names column {column!r} of table {table!r}, which has: {', '.join(tables[table].outputs)}"
        )
    return table, column


def _modelled(place: Place, modelled: Mapping[str, Schema]) -> Column:
    table, name = place
    column = modelled[table].get(name)
    if column is None or isinstance(column, Identifier):
        raise SchemaError(
            f"a rule between tables names {dotted(place)!r}, which is derived or an identifier: name modelled columns"
        )
    return column
