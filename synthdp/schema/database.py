"""A database schema: several tables, and how their rows belong to persons.

Knows schemas and relations, no row.  Everything that a release of several tables cannot do is refused here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from synthdp.errors import DataError, FormatError, SchemaError, in_table
from synthdp.schema.columns import Identifier
from synthdp.schema.constraints import RULE_KINDS, Constraint
from synthdp.schema.derived import Derived
from synthdp.schema.relation import Relation
from synthdp.schema.rules_across import AmongRows, Computed, Condition, RuleBook, checked_rules, computed_places
from synthdp.schema.schema import Reviewable, Schema, drafted_by_old_name, finished, schema_given, schema_text
from synthdp.schema.schema_json import parsed, rule_document, rule_of
from synthdp.schema.sibling_rules import SIBLING_KINDS, SiblingRule

VERSION = 1
"""The version of database schema files that is written and read.  A convention."""

MOST_PLACES = 20_000
"""Most values in one person's record, over all tables: the record has columns for every row that a person may have. A
safety limit on memory."""

_NAME = re.compile(r"[A-Za-z0-9_-]+")
"""A regular expression of table names, which become parts of file names."""

_SETTINGS = ("parent", "child", "key", "at_most", "order", "unique")
"""The settings of a relation in a schema file."""


class DatabaseSchema:
    """Tables, and the relations by which every row belongs to a row of one table: the persons.

    The table that is nobody's child is the root.  A row of it is a person, and its key names the unit of privacy: all rows
    of all tables with one value of that key.

    Parameters
    ----------
    tables
        Schemas by table name; files have the same names.  Keys need not be columns of the schemas; where they are, as an
        `Identifier`, whose labels the synthetic keys have.
    relations
        One for every table but the root.
    rules
        Rules that every synthetic row obeys, of columns named as ``table.column``: a condition on two columns, of one
        table or of a table and a table above it (`LessEqual`, `Forbidden`, `Implies`, `Iff`, `Combinations`); columns
        that are not modelled but computed (`Derived`); and rules between the rows of one parent row (`UniquePerParent`,
        `RowsPerParent`, `NeverFalls`).  Rules of the tables' own schemas are kept, too.

    Raises
    ------
    SchemaError
        In one sentence, if the tables are no tree under one root, or a relation asks for what is not supported.

    Examples
    --------
    >>> import synthdp as sd
    >>> persons = sd.Schema({"sex": sd.Categorical(["f", "m"]), "born": sd.Integer(1900, 2020)})
    >>> visits = sd.Schema({"year": sd.Integer(2015, 2019), "cost": sd.Continuous(0, 500)})
    >>> related = sd.Relation(parent="persons", child="visits", key="person_id", at_most=12, order="year")
    >>> schema = sd.DatabaseSchema(tables={"persons": persons, "visits": visits}, relations=[related])
    >>> schema.root, schema.key, schema.names
    ('persons', 'person_id', ('persons', 'visits'))
    >>> with_age = sd.Schema({**schema.tables["visits"], "age": sd.Integer()})
    >>> schema = sd.DatabaseSchema(
    ...     tables={"persons": persons, "visits": with_age},
    ...     relations=[related],
    ...     rules=[sd.LessEqual("persons.born", "visits.year"), sd.Derived("visits.age", "visits.year - persons.born")],
    ... )
    >>> [rule.in_words() for rule in schema.rules]
    ['persons.born is at most visits.year', 'visits.age is visits.year - persons.born']
    """

    __slots__ = ("_declared", "among", "computed", "conditions", "key", "names", "relations", "root", "rules", "tables")

    tables: Mapping[str, Schema]
    """The schema of every table, in the order in which they were given, without the columns that rules across compute."""

    relations: tuple[Relation, ...]
    """All relations, in the order in which they were given."""

    root: str
    """The name of the table whose rows are the persons."""

    key: str | tuple[str, ...] | None
    """The name of the column, in every table, that identifies the person, or several; ``None`` with one table only."""

    names: tuple[str, ...]
    """Names of the tables, parents before their children."""

    rules: tuple[Constraint | SiblingRule, ...]
    """The rules of the database, as declared."""

    conditions: tuple[Condition, ...]
    """The rules that compare two columns, of one table or of two, including those in the tables' own schemas."""

    among: tuple[AmongRows, ...]
    """The rules between the rows that belong to one parent row."""

    computed: tuple[Computed, ...]
    """The columns that are computed from columns of other tables, and so not modelled."""

    def __init__(
        self,
        tables: Mapping[str, Any],
        relations: Sequence[Relation] = (),
        rules: Sequence[Constraint | SiblingRule] = (),
    ) -> None:
        if not isinstance(tables, Mapping) or not tables:
            raise SchemaError("tables must be a dict of at least one schema by table name")
        if not isinstance(relations, (list, tuple)) or not all(isinstance(one, Relation) for one in relations):
            raise SchemaError("relations must be a list of Relation objects")
        for name in tables:
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise SchemaError(
                    f"table name {name!r} must be made of letters, digits, '_' and '-', because it becomes a file name"
                )
        if not isinstance(rules, (list, tuple)):
            raise SchemaError("rules must be a list of rule objects, such as LessEqual")
        self._declared: dict[str, Schema] = {}
        for name, given in tables.items():
            with in_table(name):
                self._declared[name] = given if isinstance(given, Schema) else schema_given(given)
        self.rules = tuple(rules)
        across = computed_places(self.rules, self._declared)
        self.tables = {name: _without(one, across.get(name, ()), table=name) for name, one in self._declared.items()}
        self.relations = tuple(relations)
        self.root = _root(self.tables, self.relations)
        self.names = _downwards(self.root, self.tables, self.relations)
        self.key = next((one.key for one in self.relations if one.parent == self.root), None)
        self._check_keys()
        for relation in self.relations:
            _check_order(relation, self.tables[relation.child])
        if self.relations:
            self._check_tables()
        book = RuleBook((), (), ())
        if self.relations or self.rules:  # a table that is alone keeps its rules itself
            book = checked_rules(self.rules, self._declared, self.tables, self.relation_to)
        self.conditions, self.among, self.computed = book.conditions, book.among, book.computed

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, DatabaseSchema)
            and list(self._declared.items()) == list(other._declared.items())
            and self.relations == other.relations
            and self.rules == other.rules
        )

    def __hash__(self) -> int:
        return hash((tuple(self.tables), self.relations))

    def __repr__(self) -> str:
        inside = "".join(f"\n  {name}: {', '.join(schema.outputs)}" for name, schema in self._declared.items())
        related = "".join(f"\n  {one!r}" for one in (*self.relations, *self.rules))
        return f"DatabaseSchema({inside}{related}\n)"

    @property
    def undeclared(self) -> tuple[tuple[str, str], ...]:
        """Pairs (table, column) of the columns whose bounds or levels are not declared."""
        return tuple((name, column) for name, schema in self.tables.items() for column in schema.undeclared)

    def check_open(self) -> None:
        """Raise SchemaError if a column that orders the rows of a relation has no declared bounds or levels.

        Discovery cannot supply them, because the number of periods decides which queries are made.

        Raises
        ------
        SchemaError
            If such a column orders rows: how many periods there are decides what can be asked.
        """
        ordered = {(one.child, one.order) for one in self.relations}
        for name, column in self.undeclared:
            if (name, column) in ordered:
                raise SchemaError(f"column {column!r} of table {name!r} orders the rows: declare its bounds or levels")

    def children(self, table: str) -> tuple[Relation, ...]:
        """Return the relations in which a table is the parent."""
        return tuple(one for one in self.relations if one.parent == table)

    def relation_to(self, table: str) -> Relation | None:
        """Return the relation in which a table is the child; ``None`` for the root."""
        return next((one for one in self.relations if one.child == table), None)

    @property
    def unit(self) -> str:
        """What identifies a person: the name of the key column, or several names in quotation marks; "" for one table."""
        keys = self.person_keys
        return " and ".join(f"'{name}'" for name in keys) if len(keys) > 1 else "".join(keys)

    @property
    def person_keys(self) -> tuple[str, ...]:
        """The columns, in every table, that together identify the person; none with one table only."""
        return next((one.keys for one in self.relations if one.parent == self.root), ())

    def joins_of(self, table: str) -> tuple[tuple[str, ...], ...]:
        """Return the keys of a table, each as its columns: the person's first, then the keys that lead to other tables."""
        related = [one.keys for one in self.relations if table in (one.parent, one.child)]
        return tuple(dict.fromkeys([self.person_keys, *related])) if related else ()

    def keys_of(self, table: str) -> tuple[str, ...]:
        """Return the key columns that a table must have, the person's first."""
        return tuple(dict.fromkeys(name for key in self.joins_of(table) for name in key))

    def slots(self, table: str) -> int:
        """Return the largest number of rows of a table that one person may have, over all parents."""
        relation = self.relation_to(table)
        return 1 if relation is None else relation.at_most * self.slots(relation.parent)

    def computed_in(self, table: str) -> dict[str, Computed]:
        """Return the rules by which columns of a table are computed from other tables' columns, by column name."""
        return {one.place[1]: one for one in self.computed if one.place[0] == table}

    @property
    def below(self) -> dict[str, tuple[str, str]]:
        """The (table, column) of each column in the tables below the root, by "table.column", as conditions name it.

        Identifiers are left out, and so are names that a column of the root itself has.
        """
        own = self.tables[self.root].outputs
        return {
            name: (table, column)
            for table in self.names[1:]
            for column, kind in self.tables[table].items()
            if not kind.names_rows and (name := f"{table}.{column}") not in own
        }

    def with_columns_below(self) -> Schema:
        """Return the root table's schema, extended by the columns of tables below as "table.column".

        Conditions on such columns are checked against it.
        """
        more = {name: self.tables[table][column] for name, (table, column) in self.below.items()}
        return self.tables[self.root].extended(more) if more else self.tables[self.root]

    def with_columns(self, tables: Mapping[str, Schema]) -> DatabaseSchema:
        """Return the schema with some columns declared anew; relations and rules stay."""
        declared = {name: self._declared[name].replace(dict(one)) for name, one in tables.items()}
        return DatabaseSchema({**self._declared, **declared}, self.relations, self.rules)

    def completed(self, tables: Mapping[str, Schema]) -> DatabaseSchema:
        """Return the schema with other columns in some tables: exactly the columns of the given schemas.

        Discovery enters the bounds and levels that it found, and drops columns in which it found nothing.
        """
        declared = dict(self._declared)
        for name, one in tables.items():
            gone = {*self.tables[name]} - {*one}
            declared[name] = declared[name].part([column for column in declared[name] if column not in gone])
            declared[name] = declared[name].replace(dict(one))
        return DatabaseSchema(declared, self.relations, self.rules)

    @property
    def obeyed(self) -> tuple[str, ...]:
        """All rules in words, including those in the tables' own schemas, for the receipt."""
        own = [
            f"{name}: {rule.in_words()}"
            for name, schema in self.tables.items() for rule in schema.constraints if not isinstance(rule, Derived)
        ]  # fmt: skip
        return (*(rule.in_words() for rule in self.rules), *(own if self.relations else ()))

    def to_json(self) -> str:
        """Return the schema as JSON text with a version."""
        document = {
            "synthdp_database": VERSION,
            "tables": {name: json.loads(schema.to_json()) for name, schema in self._declared.items()},
            "relations": [_relation_document(one) for one in self.relations],
        }
        if self.rules:
            document["rules"] = [rule_document(one) for one in self.rules]
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str, *, source: str = "the database schema") -> DatabaseSchema:
        """Read a database schema from JSON text.

        Raises
        ------
        FormatError
            If the text is not a database schema of a known version.
        SchemaError
            If it contradicts itself, or a column is marked as not reviewed.
        """
        tables, relations, rules = parts_of_document(text, source=source)
        schemas: dict[str, Schema] = {}
        for name, one in tables.items():
            with in_table(name):
                schemas[name] = Schema.from_json(json.dumps(one), source=f"table '{name}' of {source}")
        return cls(
            schemas, relations, [rule_of(one, source=source, kinds={**RULE_KINDS, **SIBLING_KINDS}) for one in rules]
        )

    def write(self, path: str | PathLike[str]) -> None:
        """Write the schema to a JSON file."""
        Path(path).write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def read(cls, path: str | PathLike[str]) -> DatabaseSchema:
        """Read a database schema from a JSON file.

        Raises
        ------
        FormatError
            If the file cannot be read or is not a database schema.
        SchemaError
            If it contradicts itself, or a column is marked as not reviewed.
        """
        return cls.from_json(schema_text(path), source=f"schema file '{path}'")

    @staticmethod
    def draft(tables: Mapping[str, Any], relations: Sequence[Relation]) -> Any:
        """Call `sd.draft` for several tables; deprecated, because a schema is public and `draft` reads private rows.

        Warns
        -----
        DeprecationWarning
            Always.
        """
        return drafted_by_old_name("DatabaseSchema.draft", tables, relations=relations)

    def _check_keys(self) -> None:
        """Raise SchemaError unless tables below the root have the person's key, and deeper ones their parent's key."""
        for relation in self.relations:
            if relation.parent == self.root and relation.key != self.key:
                raise SchemaError(
                    f"the tables below {self.root!r} are joined by {self.key!r} and by {relation.key!r}: use one "
                    "key, with the same names in all these tables"
                )
            if relation.parent != self.root:
                self._check_row_key(relation)
            if relation.order in self.keys_of(relation.child):
                raise SchemaError(
                    f"{relation.where} has order={relation.order!r}, a column of a key, and keys of synthetic rows are "
                    f"new: copy the column in table {relation.child!r} under a second name, declare it, and name it "
                    "as order"
                )
        for name, key in [(table, key) for table in self.tables for key in self.keys_of(table)]:
            column = self.tables[name].outputs.get(key)
            if column is not None and not isinstance(column, Identifier):
                raise SchemaError(
                    f"column {key!r} of table {name!r} is a key, of which synthetic rows get new values: leave it out "
                    "of the schema, and copy what it says, such as a year, in the table under a second name"
                )

    def _check_row_key(self, relation: Relation) -> None:
        """Raise SchemaError unless the key of a relation below the root identifies a single row of the parent table.

        The key needs a column besides the keys of the person and of the table above the parent: all of a person's rows
        in the parent table, or all below one row further above, share these keys.
        """
        if set(relation.keys) <= set(self.person_keys):
            raise SchemaError(
                f"{relation.where} has key={relation.key!r}, which identifies a person: set key to the column that "
                f"identifies a row of {relation.parent!r}"
            )
        above = self.relation_to(relation.parent)
        if above is not None and set(relation.keys) <= {*self.person_keys, *above.keys}:
            raise SchemaError(
                f"{relation.where} has a key that identifies a row of {above.parent!r}, {relation.key!r}: add the column "
                f"that identifies a row of {relation.parent!r}"
            )

    def _check_tables(self) -> None:
        """Raise SchemaError for column names that begin with "#", as names in the model do, or too large records."""
        for name, schema in self.tables.items():
            for column in schema:
                if column.startswith("#"):
                    raise SchemaError(f"column {column!r} of table {name!r} must not begin with '#': rename it")
        places = sum(self.slots(name) * (len(schema) + 1) for name, schema in self.tables.items())
        if places > MOST_PLACES:
            raise SchemaError(
                f"the schema allows one person {places} values over all tables, but at most {MOST_PLACES} are "
                "supported: lower at_most of a relation or leave columns out"
            )


def _without(schema: Schema, columns: Sequence[str], *, table: str) -> Schema:
    """Return a table's schema without the columns that rules across tables compute, since these are not modelled.

    SchemaError is raised if another column is derived from one of them.
    """
    if not columns:
        return schema
    left = schema.part([name for name in schema if name not in columns])
    lost = [name for name in schema.outputs if name not in left.outputs and name not in columns]
    if lost:
        raise SchemaError(
            f"column {lost[0]!r} of table {table!r} is derived from a column that is itself derived from another "
            "table: derive it from columns that are not derived"
        )
    return left


def _root(tables: Mapping[str, Schema], relations: Sequence[Relation]) -> str:
    """Return the name of the one table without a parent; raise SchemaError unless the tables form one tree."""
    children: set[str] = set()
    for relation in relations:
        for name in (relation.parent, relation.child):
            if name not in tables:
                raise SchemaError(f"{relation.where} names table {name!r}, which is not in tables: {', '.join(tables)}")
        if relation.child in children:
            raise SchemaError(
                f"table {relation.child!r} has two parents, but may have only one: keep the relation that leads to "
                "the table of persons, and remove the other"
            )
        children.add(relation.child)
    roots = [name for name in tables if name not in children]
    if not roots:
        raise SchemaError(
            "the relations form a cycle: remove a relation, so that the table of persons is the child of none"
        )
    if len(roots) > 1:
        raise SchemaError(
            f"neither table {roots[0]!r} nor table {roots[1]!r} is the child of a relation: relate every table to "
            "one table of persons, and leave out public tables, such as lists of codes"
        )
    return roots[0]


def _downwards(root: str, tables: Mapping[str, Schema], relations: Sequence[Relation]) -> tuple[str, ...]:
    """Return the table names, parents before their children: the order in which a person's rows are drawn.

    SchemaError is raised for a table that no chain of relations joins to the root.
    """
    found = [root]
    for name in found:
        found += [one.child for one in relations if one.parent == name]
    lost = [name for name in tables if name not in found]
    if lost:
        raise SchemaError(
            f"the relations of table {lost[0]!r} form a cycle: change them so that every chain of parents ends at "
            f"{root!r}"
        )
    return tuple(found)


def _check_order(relation: Relation, schema: Schema) -> None:
    """Raise SchemaError unless a relation has no order, or is ordered by a column of its child that is no identifier."""
    if relation.order is None:
        return
    column = schema.get(relation.order)
    if column is None:
        raise SchemaError(
            f"{relation.where} has order={relation.order!r}, which must be a declared column of "
            f"{relation.child!r} that is not derived"
        )
    if column.names_rows:
        raise SchemaError(
            f"{relation.where} has order={relation.order!r}, an Identifier, whose values are never read: name "
            "another column as order"
        )


def parts_of_document(text: str, *, source: str) -> tuple[dict[str, Any], list[Relation], list[Any]]:
    """Return the documents of tables by name, the relations and the documents of rules of a database schema's JSON text.

    Raises
    ------
    FormatError
        If the text is not a database schema of a known version.
    """
    document = parsed(text, source=source)
    if not isinstance(document, dict) or "synthdp_database" not in document:
        raise FormatError(f"{source} is not a database schema: its JSON must have the key 'synthdp_database'")
    if document["synthdp_database"] != VERSION:
        raise FormatError(
            f"{source} has database version {document['synthdp_database']!r}, but this synthdp reads version "
            f"{VERSION} only: install a newer synthdp"
        )
    tables, relations, rules = document.get("tables"), document.get("relations", []), document.get("rules", [])
    if not isinstance(tables, dict) or not isinstance(relations, list) or not isinstance(rules, list):
        raise FormatError(
            f"{source} must have 'tables', an object of schemas by name, and the lists 'relations' and 'rules'"
        )
    return tables, [_relation_of(one, source=source) for one in relations], rules


def _relation_document(relation: Relation) -> dict[str, Any]:
    """Return a relation as a JSON document, without settings that are None or False."""
    document = {name: getattr(relation, name) for name in _SETTINGS}
    return {name: value for name, value in document.items() if value not in (None, False)}


def _relation_of(document: object, *, source: str) -> Relation:
    """Return the relation that a JSON document describes; raise FormatError for missing or unknown settings."""
    if not isinstance(document, dict) or not {"parent", "child", "key", "at_most"} <= set(document):
        raise FormatError(f"every relation of {source} must have parent, child, key and at_most")
    unknown = [name for name in document if name not in _SETTINGS]
    if unknown:
        raise FormatError(
            f"a relation of {source} has an unknown setting {unknown[0]!r}: remove it or correct its name"
        )
    return Relation(**document)


def is_database(given: object) -> bool:
    """Return whether a schema that a user gave is one of several tables, without a check of its content.

    It may be an object, a draft, a JSON document or a path; return False for a file that cannot be read.
    """
    if isinstance(given, (str, PathLike)):
        try:
            given = json.loads(Path(given).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return False  # whoever reads it as a schema says what is wrong
    if isinstance(given, Reviewable):
        return hasattr(given, "relations")
    return isinstance(given, DatabaseSchema) or (isinstance(given, Mapping) and "synthdp_database" in given)


def check_table_names(schema: DatabaseSchema, tables: object) -> None:
    """Raise DataError unless the tables are a dict with the names of the schema's tables."""
    if not isinstance(tables, Mapping):
        raise DataError(f"the tables must be a dict of tables by name, not {type(tables).__name__}")
    missing = [name for name in schema.tables if name not in tables]
    if missing:
        raise DataError(
            f"table {missing[0]!r} is missing: add it to the tables; the schema has: {', '.join(schema.tables)}"
        )
    if set(tables) - set(schema.tables):
        raise DataError(
            f"the tables include one that the schema does not have: leave this table out; the schema has: "
            f"{', '.join(schema.tables)}"
        )


def database_schema_given(given: object) -> DatabaseSchema:
    """Return the database schema that a user gave as an object, a reviewed draft, a JSON document or a path.

    Raises
    ------
    SchemaError, FormatError
        If it contradicts itself, has not been reviewed, or is none of these.
    """
    given = finished(given)
    if isinstance(given, DatabaseSchema):
        return given
    if isinstance(given, (str, PathLike)):
        return DatabaseSchema.read(given)
    if isinstance(given, Mapping) and "synthdp_database" in given:
        return DatabaseSchema.from_json(json.dumps(given))
    raise SchemaError(
        "schema must be a DatabaseSchema or the path of a database schema file"
        f"{'; a Schema of one table is for SyntheticRelease' if isinstance(given, Schema) else ''}"
    )
