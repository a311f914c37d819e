"""A schema: all that is publicly known about a table before anybody looks at it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, overload, runtime_checkable

from synthdp.errors import FormatError, ParameterError, SchemaError
from synthdp.markup import render
from synthdp.schema.columns import Column, check_column
from synthdp.schema.constraints import RULE_KINDS, Constraint
from synthdp.schema.csv_format import CsvFormat
from synthdp.schema.derived import Derived, completed
from synthdp.schema.schema_json import from_document, parsed, to_document


class Schema(Mapping[str, Column]):
    """The columns of a table in order, with their public bounds or levels, and the rules between them.

    As a mapping it holds the columns that are modelled, which a curator reads.  A column that a `Derived` rule computes
    is not among them, but in ``outputs``, with all columns that come out.

    Parameters
    ----------
    columns
        Column names and what each may hold.
    constraints
        Rules between columns that every released row obeys exactly.
    csv
        How a CSV file writes the table, above all which texts are missing values; default: commas, UTF-8, and none but
        the empty text.

    Raises
    ------
    SchemaError
        If there is no column, a name is not text, or a column or a rule contradicts itself.

    Examples
    --------
    >>> from synthdp import Categorical, Integer, Schema
    >>> schema = Schema({"age": Integer(17, 90), "income": Categorical(["<=50K", ">50K"])})
    >>> list(schema)
    ['age', 'income']
    """

    __slots__ = ("_columns", "_declared", "constraints", "csv", "derived", "outputs")

    constraints: tuple[Constraint, ...]
    """All rules, in order."""

    derived: Mapping[str, Derived]
    """The rule of each derived column, by name, in an order in which they can be computed."""

    outputs: Mapping[str, Column]
    """All columns of a released table in order: modelled ones, and derived ones with computed bounds or levels."""

    def __init__(
        self,
        columns: Mapping[str, Column],
        *,
        constraints: Sequence[Constraint] = (),
        csv: CsvFormat | None = None,
    ) -> None:
        if not isinstance(columns, Mapping):
            raise SchemaError(f"columns must be a dict of columns by name, not of type {type(columns).__name__}")
        if not columns:
            raise SchemaError("a schema needs at least one column")
        if not isinstance(constraints, (list, tuple)):
            raise SchemaError("constraints must be a list of rules, such as LessEqual")
        if csv is not None and not isinstance(csv, CsvFormat):
            raise SchemaError("csv must be a CsvFormat object")
        for name, column in columns.items():
            if not isinstance(name, str):
                raise SchemaError(f"column names must be texts, not {type(name).__name__}")
            check_column(name, column)
        self._declared = dict(columns)
        self.constraints = tuple(constraints)
        self.csv = csv
        self.derived = {c.column: c for c in self.constraints if isinstance(c, Derived)}
        self._columns = {name: column for name, column in columns.items() if name not in self.derived}
        known = dict(self._columns)
        for constraint in self.constraints:
            if not isinstance(constraint, Constraint):
                kinds = ", ".join(sorted(kind.__name__ for kind in RULE_KINDS.values()))
                raise SchemaError(f"each of constraints must be one of {kinds}, not {type(constraint).__name__}")
            if isinstance(constraint, Derived):
                known[constraint.column] = completed(constraint, self._declared, known)
                check_column(constraint.column, known[constraint.column])
            else:
                constraint.check(self._columns)
        if not self._columns:
            raise SchemaError("all columns of the schema are derived: declare at least one column that is not")
        self.outputs = {name: known[name] for name in columns}

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Schema)
            and list(self._declared.items()) == list(other._declared.items())
            and self.constraints == other.constraints
            and self.csv == other.csv
        )

    def __hash__(self) -> int:
        return hash((tuple(self._declared), len(self.constraints)))

    def __repr__(self) -> str:
        inside = ",\n    ".join(f"{name!r}: {column!r}" for name, column in self._declared.items())
        rules = f", constraints={list(self.constraints)!r}" if self.constraints else ""
        written = f", csv={self.csv!r}" if self.csv is not None else ""
        return f"Schema({{\n    {inside},\n}}{rules}{written})"

    def _repr_html_(self) -> str:
        """Return the schema as an HTML table for a notebook."""
        columns = [(name, type(column).__name__, _settings(column)) for name, column in self._declared.items()]
        return render("schema.html", columns=columns, rules=list(map(repr, self.constraints)))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the modelled columns in order."""
        return tuple(self._columns)

    @property
    def undeclared(self) -> tuple[str, ...]:
        """Names of the columns whose bounds or levels are not declared, and must be discovered under noise."""
        return tuple(name for name, column in self.items() if not column.is_complete)

    def replace(self, columns: Mapping[str, Column]) -> Schema:
        """Return a schema with some columns declared anew, in their old order; new columns come last."""
        return Schema({**self._declared, **columns}, constraints=self.constraints, csv=self.csv)

    def extended(self, columns: Mapping[str, Column]) -> Schema:
        """Return a schema with more columns at its end."""
        return self.replace(columns)

    def part(self, names: Iterable[str]) -> Schema:
        """Return a schema of some modelled columns, with the rules about these alone and the columns derived from them."""
        kept, rules = set(names) & set(self), []
        for constraint in self.constraints:
            if set(constraint.names) <= kept:
                rules.append(constraint)
                kept |= {constraint.column} if isinstance(constraint, Derived) else set()
        columns = {name: c for name, c in self._declared.items() if name in kept}
        return Schema(columns, constraints=rules, csv=self.csv)

    def reading(self, csv: CsvFormat | None) -> Schema:
        """Return the schema for a file with another CSV format."""
        return Schema(self._declared, constraints=self.constraints, csv=csv)

    def to_json(self) -> str:
        """Return the schema as JSON text with a version."""
        document = to_document(self._declared, self.constraints, self.csv)
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str, *, source: str = "the schema") -> Schema:
        """Read a schema from JSON text.

        Parameters
        ----------
        text
            A text that `to_json` returned, perhaps edited.
        source
            Name of the document in error messages.

        Raises
        ------
        FormatError
            If the text is not a schema of a known version.
        SchemaError
            If a column contradicts itself, or is marked as not reviewed.
        """
        columns, constraints, csv = from_document(parsed(text, source=source), source=source)
        return cls(columns, constraints=constraints, csv=csv)

    def write(self, path: str | PathLike[str]) -> None:
        """Write the schema to a JSON file."""
        Path(path).write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Schema:
        """Read a schema from a JSON file.

        Raises
        ------
        FormatError
            If the file cannot be read or is not a schema.
        SchemaError
            If a column contradicts itself, or is marked as not reviewed.
        """
        return cls.from_json(schema_text(path), source=f"schema file '{path}'")

    @overload
    @staticmethod
    def known() -> tuple[str, ...]: ...

    @overload
    @staticmethod
    def known(name: str, /, **settings: Any) -> Column: ...

    @staticmethod
    def known(name: str | None = None, /, **settings: Any) -> Column | tuple[str, ...]:
        """Return a column that is common knowledge, such as a month, an age or a country, to be declared as it is.

        That is public knowledge, which is read off no table and costs no budget.  The column carries its source, which
        the receipt prints.  Values that do not fit are treated as in any declared column.  In a schema file, ``"known":
        "month"`` stands for the type and the settings.

        Parameters
        ----------
        name
            Name of the column; without one, all names are returned.
        settings
            Settings to change, such as ``nullable``.

        Raises
        ------
        SchemaError
            If there is no such column, or it has no such setting.

        Examples
        --------
        >>> from synthdp import Schema
        >>> Schema.known("month", nullable=True)
        Integer(lower=1, upper=12, nullable=True, special=())
        >>> Schema({"age": Schema.known("age"), "lives_in": Schema.known("country")})["age"].source
        "known column 'age': years of age; the longest life on record had 122"
        >>> Schema.known()[:3]
        ('age', 'adult_age', 'hours_per_week')
        """
        from synthdp.schema.known_columns import KNOWN, known_column

        return tuple(KNOWN) if name is None else known_column(name, **settings)

    @staticmethod
    def draft(table: object, *, without: Collection[str] = (), missing: Collection[str] | None = None) -> Any:
        """Call `sd.draft` for a table; deprecated, because a schema is public and `draft` reads private rows.

        Warns
        -----
        DeprecationWarning
            Always.
        """
        return drafted_by_old_name("Schema.draft", table, without=without, missing=missing)


@runtime_checkable
class Reviewable(Protocol):
    """A drafted schema that a person must review before use, of one table or of several: what `sd.draft` returns."""

    def finish(self) -> Any:
        """Return the schema, or raise `SchemaError` where a column has not been reviewed."""


@runtime_checkable
class DraftedSchema(Reviewable, Protocol):
    """A drafted schema of one table that shows its unreviewed columns, as a plan needs them."""

    @property
    def schema(self) -> Schema:
        """The schema as drafted so far."""

    @property
    def unreviewed(self) -> tuple[str, ...]:
        """Names of the columns that nobody has reviewed yet."""


def finished(given: Any) -> Any:
    """Return the schema of a reviewed draft, and anything else unchanged, so that callers accept both.

    Raises
    ------
    SchemaError
        If a column of the draft has not been reviewed.
    """
    return given.finish() if isinstance(given, Reviewable) else given


def drafted_by_old_name(name: str, table: object, **settings: Any) -> Any:
    """Return `sd.draft` of a table for a deprecated name of it, with a DeprecationWarning."""
    warnings.warn(f"{name} is deprecated: call sd.draft instead", DeprecationWarning, stacklevel=3)
    return import_module("synthdp").draft(table, **settings)


def schema_text(path: str | PathLike[str]) -> str:
    """Return the text of a schema file.

    Raises
    ------
    FormatError
        If it cannot be read.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise FormatError(f"schema file '{path}' is not UTF-8 text: save it in UTF-8") from None
    except OSError as error:
        raise FormatError(
            f"schema file '{path}' cannot be read ({error.strerror}): give the path of a readable file"
        ) from None


def schema_given(given: Any) -> Schema:
    """Return the schema that a user gave as an object, a mapping of columns by name, a JSON document or a path.

    Raises
    ------
    ParameterError
        If it is none of these.
    SchemaError
        If a column contradicts itself, or has not been reviewed.
    FormatError
        If it is a document or a file that is not a schema.
    """
    given = finished(given)
    if isinstance(given, Schema):
        return given
    if isinstance(given, (str, PathLike)):
        return Schema.read(given)
    if isinstance(given, Mapping) and "synthdp_schema" in given:
        return Schema.from_json(json.dumps(given))
    if isinstance(given, Mapping):
        return Schema(given)
    several = " of one table; several tables are for DatabaseRelease" if hasattr(given, "relations") else ""
    raise ParameterError(f"schema must be a Schema, a dict of columns by name, or the path of a schema file{several}")


def _settings(column: Column) -> str:
    """Return a column's settings that differ from the defaults, as constructor arguments in text, for display."""
    chosen = [(field.name, getattr(column, field.name)) for field in fields(column) if field.repr]
    defaults = {field.name: field.default for field in fields(column)}
    return ", ".join(f"{name}={value!r}" for name, value in chosen if value != defaults[name])
