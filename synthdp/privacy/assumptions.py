"""What a promise rests on, in sentences for a receipt: whom neighbours protect, and what was known before the rows.

The curator puts them on every receipt; nothing here reads a row or a noisy answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from synthdp.privacy.neighbors import Adjacency
from synthdp.schema.columns import ALSO_DRAFTED, DISCOVERED, DRAFTED, Column, is_drafted
from synthdp.schema.schema import Schema

if TYPE_CHECKING:
    from synthdp.schema.database import DatabaseSchema
    from synthdp.schema.relation import Relation

PUBLIC = "column names, their order and their types are public; the table has at least one row"
AT_RISK = ": they may tell of single rows, which no noise protects from that"
ONE_ROW = "each row is a unit of its own: a person with several rows is protected one row at a time"


def assumptions(declared: Schema | DatabaseSchema, complete: Schema, adjacency: Adjacency) -> tuple[str, ...]:
    """Return what a promise rests on.

    Parameters
    ----------
    declared
        What was known before any row was read.
    complete
        The same, with what was discovered since.
    adjacency
        The neighbours of the promise.
    """
    if not isinstance(declared, Schema):
        return (*_persons(declared, adjacency), *(line for name in declared.names for line in _table(declared, name)))
    return (PUBLIC, *_units(adjacency), *_declared(declared), *_open(declared, complete), *_rules(declared))


def _units(adjacency: Adjacency) -> list[str]:
    if adjacency.unit is None:
        return [ONE_ROW, *["the number of rows is public"] * adjacency.rows_are_public]
    who = f"a person has one id in column {adjacency.unit!r}, in one spelling; a row without an id is a unit of its own"
    return [who, *["the number of units is public"] * adjacency.rows_are_public]


def _persons(schema: DatabaseSchema, adjacency: Adjacency) -> list[str]:
    lines = [
        "names, order and types of tables and columns are public",
        f"a person has one {schema.key!r}, in one spelling in all tables; a row without one is a person of its own",
        "rows of other persons that tell of a person are not that person's: nothing protects what they say",
        *map(_related, schema.relations),
    ]
    return lines + ["the number of persons, by their keys in all tables, is public"] * adjacency.rows_are_public


def _related(relation: Relation) -> str:
    each = f"each row of {relation.parent!r} has at most {relation.at_most} rows of {relation.child!r} that are used"
    by = "" if relation.order is None else f", ordered by {relation.order!r}" + ", one each" * relation.unique
    return f"{each}{by}: declared, not taken from these tables"


def _table(schema: DatabaseSchema, name: str) -> list[str]:
    one = schema.tables[name]
    return [f"table {name!r}: {line}" for line in (*_declared(one), *_rules(one))]


def _declared(schema: Schema) -> list[str]:
    """Return a line for each source of knowledge, and the columns whose bounds or levels are known from it."""
    read = [name for name, column in schema.items() if not column.names_rows]
    known: dict[str | None, list[str]] = {}
    for name in read:
        if name not in schema.undeclared:
            known.setdefault(schema[name].source, []).append(name)
    lines = [
        _known_from(schema[names[0]], "all columns" if names == read else ", ".join(names)) for names in known.values()
    ]
    return lines + _also_drafted(schema, read) + _missing(schema)


def _also_drafted(schema: Schema, read: list[str]) -> list[str]:
    """Return a line for each list of settings that were read off the rows beside bounds or levels that were not."""
    known: dict[str, list[str]] = {}
    for name in read:
        source = str(schema[name].source)
        settings = source.partition(ALSO_DRAFTED)[2]
        if name in schema.undeclared and is_drafted(schema[name]):
            settings = "all settings"
        if settings:
            known.setdefault(settings, []).append(name)
    return [
        f"{settings} of {', '.join(names)} were {DRAFTED} and accepted{AT_RISK}" for settings, names in known.items()
    ]


def _known_from(column: Column, names: str) -> str:
    which = f"bounds and levels of {names}"
    if is_drafted(column):
        accepted = "" if "accepted" in str(column.source) else " and accepted"
        return f"{which} were {column.source}{accepted}{AT_RISK}"
    if column.source == DISCOVERED:
        return f"{which} were {DISCOVERED} by an earlier release: what it cost is not counted here"
    source = "" if column.source is None else f" (source: {column.source.partition(ALSO_DRAFTED)[0]})"
    return f"{which} were declared and do not come from this table{source}"


def _missing(schema: Schema) -> list[str]:
    texts = () if schema.csv is None else schema.csv.missing
    said = ", ".join(map(repr, texts))
    return [f"in a file of texts, these stand for a missing value, as was declared: {said}"] if texts else []


def _open(declared: Schema, complete: Schema) -> list[str]:
    found = [name for name in declared.undeclared if name not in complete.undeclared]
    lines = [f"bounds and levels of {', '.join(found)} were not declared: they were {DISCOVERED}"] if found else []
    if complete.undeclared:
        lines.append(f"bounds and levels of {', '.join(complete.undeclared)} are not known, and nothing rests on them")
    return lines


def _rules(schema: Schema) -> list[str]:
    rules = len(schema.constraints)
    which = "a rule between columns was" if rules == 1 else f"{rules} rules between columns were"
    said = "; ".join(rule.in_words() for rule in schema.constraints)
    return [f"{which} declared, not taken from this table: {said}"] if rules else []
