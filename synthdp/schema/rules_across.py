"""Rules of a database: which may be declared, and which are refused.  They depend on schemas alone.

A rule names columns as ``table.column``.  There are rules on two columns, of one table or of a table and one above it.
There are columns computed from others, and rules between the rows of one parent row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from synthdp.errors import SchemaError
from synthdp.schema.column import Column
from synthdp.schema.columns import Identifier
from synthdp.schema.constraints import Constraint
from synthdp.schema.derived import Derived
from synthdp.schema.relation import Relation
from synthdp.schema.schema import Schema
from synthdp.schema.sibling_rules import SiblingRule

Place = tuple[str, str]
"""A table's name and a column's name."""

_DOTTED = re.compile(r"`[^`]*`|[A-Za-z_]\w*\.[A-Za-z_]\w*")
"""A regular expression of a name in backticks, or of "table.column"."""


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """A checked rule between two columns, of one row or of a row and a row of a table above.

    Parameters
    ----------
    rule
        The rule, as declared.
    above, below
        The column nearer to the root, and the other; of one table the one that is declared first.
    names
        The names of both columns in the schema ``both``, that of ``above`` first.
    both
        A schema of the two columns and the rule.
    """

    rule: Constraint
    above: Place
    below: Place
    names: tuple[str, str]
    both: Schema

    def name(self, place: Place) -> str:
        """Return the name that a column has in ``both``, the rule's schema: columns of two tables may share a plain name."""
        return self.names[place == self.below]


@dataclass(frozen=True, slots=True, eq=False)
class AmongRows:
    """A checked rule between the rows of one parent row, with the column it is about.

    Parameters
    ----------
    rule
        The rule, as declared.
    place
        The column.
    column
        The column's declaration.
    """

    rule: SiblingRule
    place: Place
    column: Column


@dataclass(frozen=True, slots=True, eq=False)
class Computed:
    """A checked rule by which a column is computed from columns of its own table and of tables above.

    Parameters
    ----------
    rule
        The rule, as declared.
    place
        Table and column of the result.
    sources
        The columns that it is computed from.
    all
        A schema of the sources and of the column, by their dotted names, and the rule.
    """

    rule: Derived
    place: Place
    sources: tuple[Place, ...]
    all: Schema

    @property
    def column(self) -> Column:
        """The computed column, with open bounds or levels filled in."""
        return self.all.outputs[dotted(self.place)]


def dotted(place: Place) -> str:
    """Return a column's name in rules, "table.column"."""
    return f"{place[0]}.{place[1]}"


def computed_places(rules: Sequence[object], tables: Mapping[str, Schema]) -> dict[str, list[str]]:
    """Return the columns that rules across tables compute, by table; they are not modelled."""
    found: dict[str, list[str]] = {}
    for rule in rules:
        if isinstance(rule, Derived):
            table, column = _place(rule.column, tables)
            if column in found.get(table, []):
                raise SchemaError(f"column {rule.column!r} is derived twice: keep one of the two")
            found.setdefault(table, []).append(column)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class RuleBook:
    """All checked rules of a database schema, by their kind.

    Parameters
    ----------
    conditions
        Rules on two columns.
    among
        Rules between the rows of one parent row.
    computed
        Columns that are computed across tables.
    """

    conditions: tuple[Condition, ...]
    among: tuple[AmongRows, ...]
    computed: tuple[Computed, ...]


def checked_rules(
    rules: Sequence[Constraint | SiblingRule],
    tables: Mapping[str, Schema],
    modelled: Mapping[str, Schema],
    relation_to: Callable[[str], Relation | None],
) -> RuleBook:
    """Return the rules of a database and of its tables, checked against the schemas.

    Parameters
    ----------
    rules
        The rules, as declared.
    tables, modelled
        Schemas by name: with all columns, and without columns that rules across tables compute.
    relation_to
        Returns the relation in which a table is the child.

    Raises
    ------
    SchemaError
        In one sentence, if a rule cannot be kept.
    """
    conditions = [
        _condition(rule, part, [(name, column) for column in names], names, modelled, relation_to)
        for name, schema in modelled.items()
        for rule in schema.constraints
        if not isinstance(rule, Derived)
        for part, names in _parts(rule)
    ]
    among, computed = [], []
    for rule in rules:
        if isinstance(rule, SiblingRule):
            among.append(_among(rule, tables, modelled, relation_to))
        elif isinstance(rule, Derived):
            computed.append(_computed(rule, tables, modelled, lambda table: above_of(table, relation_to)))
        elif isinstance(rule, Constraint):
            conditions += [
                _condition(rule, part, [_place(name, tables) for name in names], names, modelled, relation_to)
                for part, names in _parts(rule)
            ]
        else:
            raise SchemaError(f"rules must hold rule objects such as LessEqual or Forbidden, not {type(rule).__name__}")
    return RuleBook(tuple(conditions), tuple(among), tuple(computed))


def above_of(table: str, relation_to: Callable[[str], Relation | None]) -> set[str]:
    """Return the names of all tables above a table, up to the root: those whose columns its rules may name."""
    found: set[str] = set()
    while (relation := relation_to(table)) is not None:
        table = relation.parent
        found.add(table)
    return found


def _parts(rule: Constraint) -> list[tuple[Constraint, tuple[str, str]]]:
    """Return equivalent rules of two columns each, with the columns' names; raise SchemaError if there are none.

    Only rules of two columns can be enforced while a person's rows are drawn one after the other.
    """
    if not all(isinstance(name, str) for name in rule.names) or len(set(rule.names)) < 2:
        raise SchemaError(
            f"a {rule.kind} rule between tables must name two columns by texts, as 'persons.born' and 'visits.year'"
        )
    names = tuple(dict.fromkeys(rule.names))
    if len(names) == 2:
        return [(rule, (names[0], names[1]))]
    if type(rule).means is Constraint.means:
        raise SchemaError(
            "a rule between tables must compare two columns, of one table or of a table and its parent (or the "
            f"parent's parent, and so on), unlike the {rule.kind} rule of {', '.join(names)}"
        )
    return [part for simpler in rule.means() for part in _parts(simpler)]


def _condition(
    rule: Constraint,
    part: Constraint,
    places: Sequence[Place],
    names: tuple[str, str],
    modelled: Mapping[str, Schema],
    relation_to: Callable[[str], Relation | None],
) -> Condition:
    """Return one two-column rule as a `Condition`, with the column that is drawn first as ``above``.

    The other column is drawn under the rule.  SchemaError is raised if neither table is above the other.  A rule may
    mean several simpler ones: ``part`` is one of these, or the rule itself, on the columns at two ``places``.
    """
    first, second = places
    both = Schema(
        {name: _modelled(place, modelled) for name, place in zip(names, places, strict=True)}, constraints=[part]
    )
    if first[0] == second[0]:
        order = list(modelled[first[0]])
        swapped = order.index(first[1]) > order.index(second[1])
    elif first[0] in above_of(second[0], relation_to):
        swapped = False
    elif second[0] in above_of(first[0], relation_to):
        swapped = True
    else:
        raise SchemaError(
            f"a rule compares {names[0]!r} with {names[1]!r}, but neither table is an ancestor of the other: "
            "compare columns of one table, or of a table and its parent"
        )
    if swapped:
        first, second, names = second, first, (names[1], names[0])
    return Condition(rule, first, second, names, both)


def _among(
    rule: SiblingRule,
    tables: Mapping[str, Schema],
    modelled: Mapping[str, Schema],
    relation_to: Callable[[str], Relation | None],
) -> AmongRows:
    """Return a checked rule between the rows of one parent row, with its column; SchemaError if it cannot be kept."""
    place = _place(rule.column, tables)
    column, relation = _modelled(place, modelled), relation_to(place[0])
    if not column.is_complete:
        raise SchemaError(f"a rule names column {rule.column!r}, which has no declared bounds or levels: declare them")
    if relation is None:
        raise SchemaError(
            f"a {type(rule).__name__} rule limits the rows of one parent row, but {rule.column!r} is a column "
            "of the table of persons, which has no parent: name a column of another table"
        )
    if place[1] == relation.order:
        raise SchemaError(
            f"a {type(rule).__name__} rule names {rule.column!r}, which is the order of {relation.where}: set "
            "unique=True in this relation instead of the rule"
        )
    rule.check(column, relation)
    return AmongRows(rule, place, column)


def _computed(
    rule: Derived, tables: Mapping[str, Schema], modelled: Mapping[str, Schema], above: Callable[[str], set[str]]
) -> Computed:
    """Return a checked rule by which a column is computed from columns of its own table and of tables above."""
    table, name = _place(rule.column, tables)
    quoted = replace(rule, expression=_quoted(rule.expression)) if isinstance(rule.expression, str) else rule
    sources = tuple(_place(one, tables) for one in quoted.sources)
    for source in sources:
        if source[0] != table and source[0] not in above(table):
            raise SchemaError(
                f"column {rule.column!r} is derived from {dotted(source)!r}, but a column can be derived only from "
                "its own table and the parents of this table: name other columns"
            )
    column = tables[table].outputs[name]
    if rule.expression is not None and not column.whole:
        raise SchemaError(
            f"column {rule.column!r} is derived from another table as a real number, which is not supported: "
            "declare it as a whole number, computed from whole numbers"
        )
    columns = {dotted(source): _modelled(source, modelled) for source in sources}
    every = Schema({**columns, rule.column: column}, constraints=[quoted])
    return Computed(rule, (table, name), sources, every)


def _quoted(expression: str) -> str:
    """Return an expression with dotted names in backticks, in which expressions accept any name."""
    return _DOTTED.sub(lambda found: found[0] if found[0].startswith("`") else f"`{found[0]}`", expression)


def _place(name: object, tables: Mapping[str, Schema]) -> Place:
    """Return the table and column of "table.column"; raise SchemaError if there is none."""
    table, _, column = str(name).partition(".")
    if not column or table not in tables:
        raise SchemaError(
            f"a rule between tables names {name!r}: write it as 'table.column'; the tables are: {', '.join(tables)}"
        )
    if column not in tables[table].outputs:
        raise SchemaError(
            f"a rule names column {column!r}, which table {table!r} does not have: {', '.join(tables[table].outputs)}"
        )
    return table, column


def _modelled(place: Place, modelled: Mapping[str, Schema]) -> Column:
    """Return a column's declaration; raise SchemaError if it is derived or an identifier, which rules cannot use."""
    table, name = place
    column = modelled[table].get(name)
    if column is None or isinstance(column, Identifier):
        raise SchemaError(
            f"a rule between tables names {dotted(place)!r}, which is derived or an identifier: name another column"
        )
    return column
