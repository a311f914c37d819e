"""`sd.draft`: a schema read off a table, which a person reviews column by column before any release may use it.

A draft holds the document of a schema file, so that edits of the file and edits in Python are equivalent.
"""

from __future__ import annotations

import copy
import json
import math
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any, overload

from synthdp.errors import DraftWarning, ParameterError, SchemaError, in_table
from synthdp.files import write_private
from synthdp.nonprivate.draft_schema import draft_schema
from synthdp.schema.column import ALSO_DRAFTED, DRAFTED, Column, is_drafted, with_drafted
from synthdp.schema.constraints import Constraint
from synthdp.schema.database import DatabaseSchema, parts_of_document
from synthdp.schema.derived import Derived
from synthdp.schema.public_documents import document_of
from synthdp.schema.relation import Relation
from synthdp.schema.schema import Schema, schema_text
from synthdp.schema.schema_json import FOR_THE_REVIEW, column_document, parsed, read_document, rule_document, rule_of
from synthdp.tables.resolve import source_of
from synthdp.tables.source import Source
from synthdp.tables.sources.file_source import source_at

DECLARED = "declared at the review of a draft"
"""Text of ``source`` for bounds that a reviewer replaced without giving a source."""

READ_OFF = ("type", "nullable", "decimals", "step", "special", "resolution", "zone", "format", "words")
"""Settings that a draft reads off the rows besides bounds and levels; the receipt names them if they stay as drafted.
``type`` counts only where the table has no types of its own, as in a CSV file.  A convention."""

WARNING = (
    "the schema is READ OFF THE TABLE, without noise, so it is as private as the table: review each column before you "
    "release the table."
)
"""Text of the `DraftWarning` that `draft` always raises."""


@overload
def draft(
    table: Mapping[str, Any] | str | PathLike[str],
    *,
    relations: Sequence[Relation] | None = None,
    at_most: Mapping[str, int],
    order: Mapping[str, str] | None = None,
) -> DatabaseDraft: ...


@overload
def draft(table: Mapping[str, Any] | str | PathLike[str], *, relations: Sequence[Relation]) -> DatabaseDraft: ...


@overload
def draft(table: object, *, without: Collection[str] = (), missing: Collection[str] | None = None) -> Draft: ...


def draft(
    table: object,
    *,
    relations: Sequence[Relation] | None = None,
    at_most: Mapping[str, int] | None = None,
    order: Mapping[str, str] | None = None,
    without: Collection[str] = (),
    missing: Collection[str] | None = None,
) -> Draft | DatabaseDraft:
    """Return a schema read off a table, for review: NOT private, and every release refuses it until it is reviewed.

    Parameters
    ----------
    table
        A dataframe, a source of rows, or the path of a file.  Or several of these by the names of their tables, the path of
        a folder with a file for each table, or a `SqlDatabase`.
    relations
        Relations between several tables; required, because the bound on a person's rows is never read off the rows.
        A `SqlDatabase` takes its foreign keys, with ``at_most`` and ``order``.
    at_most, order
        For a `SqlDatabase`, by child table: most rows used of one parent row, and the column that orders them.
    without
        Columns to leave out.  Columns that no schema can describe, such as free text, are left out anyway and listed in
        ``left_out``.
    missing
        Texts of a CSV or Excel file that stand for a missing value; default: the usual ones.

    Returns
    -------
    A `Draft`, or a `DatabaseDraft` for several tables.

    Raises
    ------
    DataError
        If there is no row, or no column that can be described.
    ParameterError
        If several tables come without relations, or one table with them.

    Warns
    -----
    DraftWarning
        Always: a draft is read off the rows and is as private as they are.
    """
    if isinstance(table, (str, PathLike)) and Path(table).is_dir():
        table = _tables_in(Path(table))
    if at_most is not None or order is not None:
        if relations is not None or not hasattr(table, "relations"):
            raise ParameterError(
                "at_most and order apply to the foreign keys of a SqlDatabase only: give relations instead"
            )
        relations = table.relations(at_most or {}, order=order)
    several = isinstance(table, Mapping) and not isinstance(table, Source)
    if several != (relations is not None):
        raise ParameterError(
            "several tables need relations, and one table takes none: give both a dict of tables and relations, or neither"
        )
    warnings.warn(WARNING, DraftWarning, stacklevel=2)
    if not isinstance(table, Mapping) or relations is None:
        return _drafted(table, without=without, missing=missing)
    left = {*without, *(key for one in relations for key in one.keys)}
    tables: dict[str, Draft] = {}
    for name, rows in table.items():
        with in_table(name):
            source, without = f"table '{name}' of the draft", left & set(_names(rows))
            tables[name] = _drafted(rows, without=without, missing=missing, source=source)
    return DatabaseDraft(tables, relations)


def _tables_in(folder: Path) -> dict[str, Path]:
    """Return the files of a folder by table name; the table name is the file name up to its first dot."""
    found: dict[str, Path] = {}
    for path in sorted(one for one in folder.iterdir() if one.is_file() and not one.name.startswith(".")):
        name = path.name.partition(".")[0]
        if name in found:
            raise ParameterError(f"'{folder}' has two files of table {name!r}: move one of them to another folder")
        found[name] = path
    if not found:
        raise ParameterError(f"'{folder}' has no files: give a folder with one file per table")
    return found


def _names(table: object) -> tuple[str, ...]:
    """Return a table's column names, by which a column to be left out is looked for in each of several tables."""
    return tuple(_opened(table).names)


def _opened(table: object) -> Source:
    """Return a table or the file at a path as a source of rows."""
    return source_at(table) if isinstance(table, (str, PathLike)) else source_of(table)


def _drafted(
    table: object, *, without: Collection[str], missing: Collection[str] | None, source: str = "the draft"
) -> Draft:
    """Return the draft of a table, or of the file at a path, that a person then reviews; it reads private rows."""
    return Draft(draft_schema(_opened(table), without=without, missing=missing), source=source)


class Draft:
    """A schema drafted from a table by `sd.draft`; every release refuses it until each column has been reviewed.

    The draft is as private as the table.  A review changes the draft in place, and accepting a column deletes the
    draft's notes about its values.  Once all columns are reviewed, `finish` returns the schema.

    Parameters
    ----------
    document
        The content of a schema file.
    source
        Name of the draft in error messages.

    Examples
    --------
    >>> import warnings
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> table = pd.DataFrame({"age": [*range(17, 77)] * 2, "city": ["Oslo", "Bergen", "Oslo"] * 40})
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # it reads the table, and says so
    ...     draft = sd.draft(table)
    >>> draft.unreviewed
    ('age', 'city')
    >>> draft.review("age", lower=0, upper=120, source="common knowledge")
    age: Integer(lower=0, upper=120, nullable=False, special=()); reviewed
    >>> draft.review("city").accept()
    city: Categorical(levels=('Bergen', 'Oslo'), nullable=False, other=None); reviewed
    >>> list(draft.finish())
    ['age', 'city']
    """

    __slots__ = ("_document", "_where", "schema")

    schema: Schema
    """The current schema, reviewed or not; `finish` returns it once every column is reviewed."""

    def __init__(self, document: dict[str, Any], *, source: str = "the draft") -> None:
        self._where = source
        self._take(copy.deepcopy(document))

    def _take(self, document: dict[str, Any]) -> None:
        """Set the draft's document and schema; an invalid document raises SchemaError and changes nothing."""
        columns, constraints, csv = read_document(document, source=self._where)
        self.schema = Schema(columns, constraints=constraints, csv=csv)
        self._document = document

    @property
    def unreviewed(self) -> tuple[str, ...]:
        """Names of the columns that nobody has reviewed yet."""
        return tuple(entry["name"] for entry in self._document["columns"] if entry.get("reviewed") is False)

    @property
    def left_out(self) -> dict[str, str]:
        """Reasons for the columns that the draft has left out, by column name."""
        return {one["name"]: one["why"] for one in self._document.get("left_out", [])}

    @property
    def proposed(self) -> tuple[Constraint, ...]:
        """Undeclared rules that nearly all rows obey; `declare` a rule only if it holds by public knowledge."""
        return tuple(rule_of(one, source=self._where) for one in self._document.get("proposed", []))

    def why(self, rule: Constraint) -> str:
        """Return a sentence that says how many rows obey a proposed rule."""
        return str(self._document["proposed"][self.proposed.index(rule)]["comment"])

    def declare(self, rule: Constraint) -> Draft:
        """Declare a rule, proposed or not, in place, so that every synthetic row obeys it; return the draft.

        Raises
        ------
        SchemaError
            If the rule does not fit the columns or the rules declared before; the draft then stays unchanged.
        """
        self._take(self._without_proposal(rule) | {"constraints": [*self._rules, rule_document(rule)]})
        return self

    def dismiss(self, rule: Constraint) -> Draft:
        """Remove a proposed rule, in place; return the draft."""
        self._take(self._without_proposal(rule))
        return self

    @property
    def _rules(self) -> list[dict[str, Any]]:
        """The documents of the declared rules, as a new list, to which `declare` adds one."""
        return list(self._document.get("constraints", []))

    def _without_proposal(self, rule: Constraint) -> dict[str, Any]:
        """Return the draft's document without a proposed rule, because a person has accepted or refused it."""
        known = self._document.get("proposed", [])
        left = [one for one, other in zip(known, self.proposed, strict=True) if other != rule]
        rest = {key: value for key, value in self._document.items() if key != "proposed"}
        return rest | ({"proposed": left} if left else {})

    def review(self, name: str, column: Column | None = None, /, **settings: Any) -> ColumnReview:
        """Return the review of one column; with settings, change them in place and accept the column.

        Parameters
        ----------
        name
            Column name.
        column
            Declaration that replaces the drafted one.
        settings
            Settings of the column to change, such as ``lower``, ``upper``, ``levels``, ``nullable`` or ``source``.

        Raises
        ------
        SchemaError
            If the draft has no such column, the column has no such setting, or settings contradict each other.
        """
        found = ColumnReview(self, self._checked(name))
        return found.set(column, **settings) if column is not None or settings else found

    def accept_all(self, *, by: str | None = None) -> Draft:
        """Accept all unreviewed columns as drafted, in place; return the draft.

        The receipt will record that they were accepted as drafted.
        """
        for name in self.unreviewed:
            ColumnReview(self, name).accept(by=by)
        return self

    def drop(self, name: str) -> Draft:
        """Leave a column out, in place, together with all rules that name it; return the draft."""
        self._checked(name)
        rest = [entry for entry in self._document["columns"] if entry["name"] != name]
        if not rest:
            raise SchemaError(
                f"column {name!r} is the last column and cannot be dropped: a schema needs at least one column"
            )
        of_others = {
            key: [
                one
                for one, rule in zip(self._document.get(key, []), rules, strict=True)
                if name not in _columns_of(rule)
            ]
            for key, rules in (("constraints", self.schema.constraints), ("proposed", self.proposed))
        }
        kept = {key: value for key, value in self._document.items() if key not in of_others}
        self._take(kept | {"columns": rest} | {key: rules for key, rules in of_others.items() if rules})
        return self

    def finish(self) -> Schema:
        """Return the reviewed schema, which a release accepts.

        Raises
        ------
        SchemaError
            If a column has not been reviewed.
        """
        if self.unreviewed:
            raise SchemaError(
                f"column {self.unreviewed[0]!r} of {self._where} was taken from the table and is not "
                "reviewed: check it against public "
                f"knowledge, then accept or change it, by draft.review({self.unreviewed[0]!r}) or `synthdp schema review`"
            )
        return self.schema

    def to_json(self) -> str:
        """Return the draft as JSON text, with notes about the values of unreviewed columns.

        The text is as private as the table.
        """
        return json.dumps(self._document, indent=2, ensure_ascii=False) + "\n"

    def write(self, path: str | PathLike[str]) -> None:
        """Write the draft to a JSON file, which only its owner may read."""
        write_private(Path(path), self.to_json())

    @classmethod
    def from_json(cls, text: str, *, source: str = "the draft") -> Draft:
        """Read a draft, reviewed in part or not at all, from JSON text."""
        return cls(parsed(text, source=source), source=source)

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Draft:
        """Read a draft, reviewed in part or not at all, from a JSON file."""
        return cls.from_json(schema_text(path), source=f"schema file '{path}'")

    def __getitem__(self, name: str) -> Column:
        return self.schema.outputs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.schema.outputs)

    def __len__(self) -> int:
        return len(self.schema.outputs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Draft) and self._document == other._document

    __hash__ = None  # type: ignore[assignment]  # it changes in place

    def __repr__(self) -> str:
        lines = [f"{name!r}: {self[name]!r},{self._mark(name)}" for name in self]
        out = [f"# left out: {name!r}, {why}" for name, why in self.left_out.items()]
        out += [f"# a rule to declare or not: {rule.in_words()}; {self.why(rule)}" for rule in self.proposed]
        return "\n    ".join(["Draft({", *lines, *out]) + "\n})"

    def _repr_html_(self) -> str:
        """Return the current schema as an HTML table for a notebook."""
        return self.schema._repr_html_()

    def _mark(self, name: str) -> str:
        """Return the comment "not reviewed" for an unreviewed column in a listing, "" for any other."""
        return "  # not reviewed" if name in self.unreviewed else ""

    def _checked(self, name: str) -> str:
        """Return a column's name; raise SchemaError if the draft has no such column."""
        if name not in self.schema.outputs:
            raise SchemaError(f"{self._where} has no column {name!r}; it has: {', '.join(self)}")
        return name

    def _entry(self, name: str) -> dict[str, Any]:
        """Return the part of the document that describes a column."""
        return next(entry for entry in self._document["columns"] if entry["name"] == name)

    def _replace(self, name: str, entry: dict[str, Any]) -> None:
        """Replace the part of the document that describes a column; an invalid one raises SchemaError."""
        columns = [entry if one["name"] == name else one for one in self._document["columns"]]
        self._take(self._document | {"columns": columns})


class DatabaseDraft:
    """Drafts of several related tables; every release refuses them until each column of each has been reviewed.

    Parameters
    ----------
    tables
        The drafts by table name.
    relations
        As for `DatabaseSchema`; they are declared, not drafted.
    """

    __slots__ = ("relations", "tables")

    tables: dict[str, Draft]
    relations: tuple[Relation, ...]

    def __init__(self, tables: Mapping[str, Draft], relations: Sequence[Relation]) -> None:
        self.tables, self.relations = dict(tables), tuple(relations)
        self._schema()  # relations that name no table are refused at once

    @property
    def unreviewed(self) -> dict[str, tuple[str, ...]]:
        """Names of the unreviewed columns by table; a fully reviewed table is left out."""
        return {name: one.unreviewed for name, one in self.tables.items() if one.unreviewed}

    def review(self, table: str, name: str, column: Column | None = None, /, **settings: Any) -> ColumnReview:
        """Return the review of one column of a table; see `Draft.review`."""
        if table not in self.tables:
            raise SchemaError(f"the draft has no table {table!r}; it has: {', '.join(self.tables)}")
        with in_table(table):
            return self.tables[table].review(name, column, **settings)

    def accept_all(self, *, by: str | None = None) -> DatabaseDraft:
        """Accept all unreviewed columns of all tables as drafted, in place; return the draft.

        The receipt will record that they were accepted as drafted.
        """
        for one in self.tables.values():
            one.accept_all(by=by)
        return self

    def finish(self) -> DatabaseSchema:
        """Return the reviewed database schema, which a release accepts.

        Raises
        ------
        SchemaError
            If a column has not been reviewed.
        """
        for name, columns in self.unreviewed.items():
            raise SchemaError(
                f"column {columns[0]!r} of table {name!r} was taken from the table and is not reviewed: check it against "
                f"public knowledge, then accept or change it, by draft.review({name!r}, {columns[0]!r})"
            )
        return self._schema()

    def to_json(self) -> str:
        """Return the drafts as JSON text in the form of a database schema, with notes about values that are not reviewed.

        The text is as private as the tables.
        """
        document = json.loads(self._schema().to_json())
        document["tables"] = {name: json.loads(one.to_json()) for name, one in self.tables.items()}
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"

    def write(self, path: str | PathLike[str]) -> None:
        """Write the drafts to a JSON file, which only its owner may read."""
        write_private(Path(path), self.to_json())

    @classmethod
    def from_json(cls, text: str, *, source: str = "the draft") -> DatabaseDraft:
        """Read drafts of several tables, reviewed in part or not at all, from JSON text."""
        tables, relations, _ = parts_of_document(text, source=source)
        found = {}
        for name, one in tables.items():
            with in_table(name):
                found[name] = Draft.from_json(json.dumps(one), source=f"table '{name}' of {source}")
        return cls(found, relations)

    @classmethod
    def read(cls, path: str | PathLike[str]) -> DatabaseDraft:
        """Read drafts of several tables, reviewed in part or not at all, from a JSON file."""
        return cls.from_json(schema_text(path), source=f"schema file '{path}'")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DatabaseDraft) and (self.tables, self.relations) == (other.tables, other.relations)

    __hash__ = None  # type: ignore[assignment]  # it changes in place

    def __repr__(self) -> str:
        parts = [f"{name!r}: {one!r}," for name, one in self.tables.items()]
        return "\n".join(["DatabaseDraft({", *parts, "}, [", *(f"    {one!r}," for one in self.relations), "])"])

    def _repr_html_(self) -> str:
        """Return the current schemas of all tables as HTML for a notebook."""
        return "".join(f"<h4>{escape(name)}</h4>{one._repr_html_()}" for name, one in self.tables.items())

    def _schema(self) -> DatabaseSchema:
        """Return the database schema of all drafts as they are, reviewed or not."""
        return DatabaseSchema({name: one.schema for name, one in self.tables.items()}, self.relations)


class ColumnReview:
    """The review of one column of a draft, which accepts, changes or drops the column in the draft."""

    __slots__ = ("_draft", "name")

    def __init__(self, draft: Draft, name: str) -> None:
        self._draft = draft
        self.name = name

    @property
    def column(self) -> Column:
        """Return the column's current declaration."""
        return self._draft[self.name]

    @property
    def seen(self) -> str:
        """What the draft notes about the column's values in the table; the empty text once it is reviewed."""
        return str(self._draft._entry(self.name).get("seen", ""))  # noqa: SLF001 - two halves of one thing

    @property
    def comment(self) -> str:
        """What the draft advises the reviewer of the column; the empty text once it is reviewed."""
        return str(self._draft._entry(self.name).get("comment", ""))  # noqa: SLF001

    @property
    def instead(self) -> Column | None:
        """The draft's alternative declaration, such as numbers where the draft has codes; ``None`` if it has none."""
        entry = self._draft._entry(self.name).get("instead")  # noqa: SLF001
        return (
            None if entry is None else read_document(document_of([entry], comment=""), source="the draft")[0][self.name]
        )

    def take_instead(self, *, by: str | None = None) -> ColumnReview:
        """Replace the column by the draft's alternative declaration and accept it, in place; return the review.

        Raises
        ------
        SchemaError
            If the draft has no alternative declaration.
        """
        entry = self._draft._entry(self.name).get("instead")  # noqa: SLF001
        if entry is None:
            raise SchemaError(
                f"the draft proposes no other declaration of column {self.name!r}: accept the proposed declaration, or "
                "change its settings"
            )
        self._draft._replace(self.name, entry | {"reviewed": False})
        return self.accept(by=by)

    @property
    def is_reviewed(self) -> bool:
        """Return whether the column has been accepted or changed."""
        return self.name not in self._draft.unreviewed

    def accept(self, *, by: str | None = None) -> ColumnReview:
        """Accept the column as it is declared, in place; return the review.

        The receipt will record that drafted bounds or levels were accepted.

        Parameters
        ----------
        by
            Name of the person who accepts the column, for the receipt.
        """
        entry = self._draft._entry(self.name)  # noqa: SLF001
        accepted = {key: value for key, value in entry.items() if key not in FOR_THE_REVIEW} | {"reviewed": True}
        if by is not None and is_drafted(self.column):
            accepted["source"] = f"{DRAFTED} and accepted by {by}"
        self._draft._replace(self.name, accepted)
        return self

    def set(self, column: Column | None = None, /, **settings: Any) -> ColumnReview:
        """Change the column and accept it, in place; return the review.

        If both bounds are new, their source becomes `DECLARED`, unless a source is given.  The receipt lists all other
        drafted settings that did not change, for example ``nullable``.  A single new bound moves outwards to the next
        step from the other bound, if the column has a drafted step.

        Parameters
        ----------
        column
            Declaration that replaces the drafted one.
        settings
            Settings of the column to change.

        Raises
        ------
        SchemaError
            If the column has no such setting, or settings contradict each other; the draft then stays unchanged.
        """
        old = self.column
        unknown = sorted(set(settings) - {field.name for field in fields(column or old)})
        if unknown:
            kind = type(column or old).__name__
            raise SchemaError(
                f"column {self.name!r} is of type {kind}, which has no setting {unknown[0]!r}: leave this setting out"
            )
        new = replace(column or old, **(settings if column else _on_the_steps(old, settings)))
        if column is None and "source" not in settings and _has_new_bounds(old, new):
            new = replace(new, source=DECLARED)
        source = new.source or DECLARED
        if column is None and not is_drafted(new):
            source = with_drafted(source.partition(ALSO_DRAFTED)[0], self._still_drafted(settings))
        self._draft._replace(self.name, column_document(self.name, new) | {"reviewed": True, "source": source})
        return self

    def _still_drafted(self, settings: Collection[str]) -> list[str]:
        """Return the names of the settings that were read off the rows and that the review does not replace."""
        old = self._draft._entry(self.name)  # noqa: SLF001
        _, also, names = str(old.get("source", "")).partition(ALSO_DRAFTED)
        if also:
            return [name for name in names.split(", ") if name not in settings]
        if not is_drafted(self.column):
            return []
        read = {"nullable", *old} - ({"type"} if self._draft.schema.csv is None else set())
        return [name for name in READ_OFF if name in read and name not in settings]

    def drop(self) -> None:
        """Leave the column out of the draft, in place."""
        self._draft.drop(self.name)

    def __repr__(self) -> str:
        if self.is_reviewed:
            return f"{self.name}: {self.column!r}; reviewed"
        seen = f"; {self.seen}" if self.seen else ""
        return f"{self.name}: {self.column!r}; not reviewed{seen}"


def _columns_of(rule: Constraint) -> set[str]:
    """Return the names of the columns in a rule, including the column that it derives."""
    return {*rule.names, *([rule.column] if isinstance(rule, Derived) else [])}


def _on_the_steps(old: Column, settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with a single new bound moved outwards to a whole number of steps from the other bound.

    Without a step, or if both bounds or the step change, the settings stay.  A schema refuses bounds that are no whole
    number of steps apart.
    """
    step: Any = getattr(old, "step", None)
    kept: dict[str, Any] = {end: getattr(old, end, None) for end in ("lower", "upper")}
    moved = [end for end, bound in kept.items() if end in settings and settings[end] != bound]
    if step is None or {"step", "decimals"} & set(settings) or len(moved) != 1 or None in kept.values():
        return settings
    (end,) = moved
    if not isinstance(settings[end], int | float) or not math.isfinite(settings[end]):
        return settings
    anchor = Fraction(kept["upper" if end == "lower" else "lower"])
    distance = (Fraction(settings[end]) - anchor) / Fraction(str(step))
    value = anchor + (math.floor(distance) if end == "lower" else math.ceil(distance)) * Fraction(str(step))
    return settings | {end: int(value) if value.denominator == 1 else float(value)}


def _has_new_bounds(old: Column, new: Column) -> bool:
    """Return whether a review replaced both bounds of a column of numbers or times, whose drafted source then ends."""
    return new.measured and all(
        getattr(new, end) is not None and getattr(new, end) != getattr(old, end, None) for end in ("lower", "upper")
    )
