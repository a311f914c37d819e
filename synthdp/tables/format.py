"""The outer form of a table: library, column types and their order, so that a synthetic table looks like the real one.

Types and names are public; nothing here holds a value of a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, cast

import numpy as np

from synthdp.domain.derive import derive
from synthdp.domain.encoder import Labels, Numbers, RawColumn, decode
from synthdp.domain.grid import bounds_of, grid_of
from synthdp.errors import DataError, FormatError
from synthdp.schema.column import Column, Fresh, Interval
from synthdp.schema.columns import Continuous
from synthdp.schema.schema import Schema
from synthdp.tables.dataframe import FrameSource, library_named
from synthdp.tables.plain import without_misfits
from synthdp.tables.refusals import instead_of
from synthdp.tables.source import ArrowTyped, Source

LARGEST_REAL = 1e300
"""Largest absolute bound of a column of sums or survey weights while these get their output type, so that they are
rounded and never clipped.  A safety limit: near the largest float, 1.8e308."""


PROBED_KEYS = (1, 2, 2**31 - 2, 2**31 - 1)
"""Keys by which a type is tested: a type for synthetic keys must keep all four different.  The first two fail for
booleans, the last two for integers of less than 32 bits and floats of 32 bits.  A convention."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFormat:
    """The library, column types and column order of a private table, so that released tables look like it.

    Parameters
    ----------
    library
        ``"pandas"``, ``"polars"``, ``"polars lazy"``, ``"pyarrow"`` or ``"duckdb"``.
    dtypes
        The public name of each column's type, in the order of the columns.  Categories are not part of it: they are the
        levels of the schema.
    arrow
        The public name of the Arrow type of each column of a source that knows them: what Parquet and Arrow files of
        synthetic rows have.
    """

    library: str
    dtypes: tuple[tuple[str, str], ...]
    arrow: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, source: Source, schema: Schema) -> TableFormat:
        """Return the format of a source's table for a schema's columns; for files, pandas with default types.

        Only names and types are read.  If a dataframe's type cannot distinguish the declared values, the default type
        takes its place.

        Raises
        ------
        DataError
            If a column's type cannot hold the declared values; the check comes before any spend.
        """
        arrow = tuple((name, one) for name, one in arrow_types(source).items() if name in schema.outputs)
        if not isinstance(source, FrameSource):
            order = [name for name in source.names if name in schema.outputs]
            order += [name for name in schema.derived if name not in order]
            suits = library_named("pandas").default_type
            dtypes = tuple((name, suits(schema.outputs[name].example())) for name in order)
            return cls(library="pandas", dtypes=dtypes, arrow=arrow)
        types = {name: source.dtypes[name] for name in source.names if name in schema.outputs}
        suits = library_named(source.library).default_type
        added = {name: suits(schema.outputs[name]) for name in schema.derived if name not in types}
        for name in set(schema.derived) & set(types):
            if not _holds_all(source.library, schema.outputs[name], types[name]):
                types[name] = suits(schema.outputs[name])
        for name, dtype in types.items():
            if not _tells_apart(source.library, schema.outputs[name], dtype):
                types[name] = suits(schema.outputs[name])
        form = cls(library=source.library, dtypes=(*types.items(), *added.items()), arrow=arrow)
        for name, dtype in form.dtypes:
            declared = schema.outputs[name]
            why = why_not(form.library, declared.example(), dtype)
            if why is None:
                continue
            if name in types and not declared.is_complete and type(declared) is type(source.kind(name)):
                raise DataError(  # nothing was declared, or no more than the type itself says
                    f"column {name!r} is of type {dtype}, which a release cannot write: convert the column to text, numbers "
                    "or times (in pandas to text by .astype(str)), or drop it"
                )
            raise DataError(
                f"column {name!r} is of type {dtype}, which does not suit its declaration, "
                f"{type(declared.example()).__name__} ({why}): convert the column, declare another type, or drop it"
            )
        return form

    @classmethod
    def default(cls, schema: Schema, *, library: str = "pandas") -> TableFormat:
        """Return a format of a library with its default types for a schema's columns."""
        suits = library_named(library).default_type
        return cls(library=library, dtypes=tuple((name, suits(column)) for name, column in schema.outputs.items()))

    def for_files(self, schema: Schema, *, library: str) -> TableFormat:
        """Return the format of files of released rows, with the private table's Arrow types where these hold the values.

        Dictionaries of numbers become numbers, because their values would differ between blocks.  In pandas frames days
        are Python dates, so that they are written without an hour.
        """
        form = TableFormat.default(schema, library=library).in_order([name for name, _ in self.dtypes])
        if library != "pyarrow":
            days = {name for name, column in schema.outputs.items() if column.stored_as == "day"}
            return replace(
                form, dtypes=tuple((name, "object" if name in days else dtype) for name, dtype in form.dtypes)
            )
        columns = schema.outputs
        known = {name: one.removesuffix(" not null") for name, one in self.arrow if name in columns}
        fit = {
            name: one
            for name, one in known.items()
            if (columns[name].labelled or not one.startswith("dictionary<"))
            and why_not("pyarrow", columns[name], one) is None
            and _tells_apart("pyarrow", columns[name], one)
            and (name in schema or _holds_all("pyarrow", columns[name], one))
        }
        return replace(form, dtypes=tuple((name, fit.get(name, dtype)) for name, dtype in form.dtypes))

    def in_order(self, names: Sequence[str]) -> TableFormat:
        """Return the format with the columns ``names`` alone, in the order of ``names``."""
        dtypes = dict(self.dtypes)
        return replace(self, dtypes=tuple((name, dtypes[name]) for name in names))

    def without_impossible_nulls(self, schema: Schema) -> Schema:
        """Return a schema without missing values in columns whose types cannot hold any, so that none is released."""
        can_be_null = library_named(self.library).can_be_null
        named = [(name, dtype) for name, dtype in self.dtypes if name in schema]
        full = {name for name, dtype in named if schema[name].nullable and not can_be_null(dtype)}
        return schema.replace({name: replace(schema[name], nullable=False) for name in full}) if full else schema

    def suited(self, schema: Schema) -> TableFormat:
        """Return the format for a completed schema, in which types that cannot hold a column are replaced by defaults.

        The function never refuses a type, because what was discovered has been paid for.
        """
        suits = library_named(self.library).default_type
        columns = schema.outputs
        types = {name: dtype for name, dtype in self.dtypes if name in columns}
        types |= {name: suits(column) for name, column in columns.items() if name not in types}
        held = {name: why_not(self.library, columns[name], dtype) is None for name, dtype in types.items()}
        return replace(
            self, dtypes=tuple((name, types[name] if held[name] else suits(columns[name])) for name in types)
        )

    def build(self, schema: Schema, columns: Mapping[str, RawColumn]) -> Any:
        """Return a table in this format from raw columns (labels or numbers); derived columns are computed here.

        A pandas column of numpy whole numbers or booleans cannot hold a missing value.  With a missing value, the
        column's type becomes the nullable type of the same size.

        Raises
        ------
        FormatError
            If the library is not installed, or knows no such type, or the type cannot hold the column.
        """
        library, types = library_named(self.library), dict(self.dtypes)
        arrays: dict[str, Any] = {}
        exact: dict[str, RawColumn] = {}
        shown: dict[str, RawColumn] = {}
        looked_up = {rule.of for rule in schema.derived.values()}
        computed_from = {name for rule in schema.derived.values() if rule.expression for name in rule.sources}
        for name in [*(name for name in types if name not in schema.derived), *schema.derived]:
            rule, column = schema.derived.get(name), schema.outputs[name]
            if rule is None:
                raw = without_misfits(columns[name])
                if column.class_values() and isinstance(
                    raw, Numbers
                ):  # they add up to what their bounds say nothing of
                    column = _without_bounds(column)
                    raw = _keeping_sums(raw) if self._is_whole(name) else raw
            else:
                raw, column = derive(schema, rule, shown if rule.expression else exact), _without_bounds(column)
            with instead_of(FormatError, say=partial(_not_makeable, name, types[name])):
                arrays[name] = library.array(column, raw, types[name])
            if name in looked_up:
                exact[name] = raw
            if name in computed_from:
                shown[name] = _as_shown(library.frame({name: arrays[name]}), name, column)
        made = library.frame({name: arrays[name] for name in types})
        return made.lazy() if self.library == "polars lazy" else made  # lazy, as the private table was

    def _is_whole(self, name: str) -> bool:
        """Return whether the type of a numeric column holds integers only, so that survey weights must be rounded."""
        dtype, free = dict(self.dtypes)[name], Continuous(0, LARGEST_REAL)
        built = library_named(self.library)
        shown = _as_shown(built.frame({"x": built.array(free, Numbers(np.array([1.25])), dtype)}), "x", free)
        return isinstance(shown, Numbers) and float(shown.values[0]) == round(float(shown.values[0]))

    def to_document(self) -> dict[str, Any]:
        """Return the format as a JSON document, to be saved with a release."""
        plain: dict[str, Any] = {"library": self.library, "dtypes": [list(pair) for pair in self.dtypes]}
        return plain | ({"arrow": [list(pair) for pair in self.arrow]} if self.arrow else {})

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> TableFormat:
        """Return the format that a JSON document, saved with a release, describes.

        Raises
        ------
        FormatError
            If the document lacks a part, or a part has a wrong form.
        """
        unlike = FormatError(
            "the file is damaged, so load another copy: the format of its table must name a library and its column types"
        )
        with instead_of(KeyError, TypeError, ValueError, AttributeError, say=unlike):
            dtypes = tuple((str(name), str(dtype)) for name, dtype in document["dtypes"])
            arrow = tuple((str(name), str(one)) for name, one in document.get("arrow", ()))
            return cls(library=str(document["library"]), dtypes=dtypes, arrow=arrow)


def _without_bounds(column: Column) -> Column:
    """Return a column of real numbers with practically no bounds; columns whose values are no interval stay unchanged.

    Derived sums and survey weights are then rounded to their type, but never clipped.
    """
    if not isinstance(column.support(), Interval):
        return column
    form = getattr(column, "format", None) if column.quantity == "number" else None
    return Continuous(-LARGEST_REAL, LARGEST_REAL, nullable=column.nullable, format=form)


def _keeping_sums(raw: Numbers) -> Numbers:
    """Return numbers rounded to integers so that the sum of the first n is the exact sum, rounded, for every n.

    Survey weights must still add up to the population.
    """
    sums = np.rint(np.cumsum(np.where(raw.gone, 0.0, raw.values)))
    return replace(raw, values=np.where(raw.gone, raw.values, np.diff(sums, prepend=0.0)))


def _holds_all(library: str, column: Column, dtype: str) -> bool:
    """Return whether a type holds the smallest and the largest number of a column without clipping.

    A derived column gets a wider type if the answer is False.  The answer is True for columns of no numbers, and for
    types that `why_not` refuses.
    """
    if column.quantity != "number" or why_not(library, column, dtype) is not None:
        return True
    ends = np.array(bounds_of(column))
    built = library_named(library)
    array = built.array(_without_bounds(column), Numbers(ends), dtype)
    held = _as_shown(built.frame({"x": array}), "x", column)
    within = 0.0 if column.whole else 0.5 + 1e-3 * np.abs(ends)
    return isinstance(held, Numbers) and bool((np.abs(held.values - ends) <= within).all())


def _tells_apart(library: str, column: Column, dtype: str) -> bool:
    """Return whether a type keeps many different keys different; a byte or a boolean would not.

    The answer is True for columns that are no keys, and for types that `why_not` refuses.
    """
    if not column.names_rows or why_not(library, column, dtype) is not None:
        return True
    built = library_named(library)
    support = column.support()
    numbered = isinstance(support, Fresh) and support.prefix is None and support.pattern is None
    keys = built.array(column, Numbers(np.array(PROBED_KEYS)), dtype) if numbered else None
    shown = None if keys is None else _as_shown(built.frame({"x": keys}), "x", column)
    return shown is None or len(np.unique(shown.codes if isinstance(shown, Labels) else shown.values)) == len(
        PROBED_KEYS
    )


def _as_shown(table: Any, name: str, column: Column) -> RawColumn:
    """Return a column of a built table as raw values, so that numbers computed from it match the shown ones."""
    return next(iter(FrameSource(table).blocks({name: column})))[name]


def _not_makeable(name: str, dtype: str, error: BaseException) -> FormatError:
    """Return the error for a column that a type cannot hold, with the column's name."""
    return FormatError(
        f"column {name!r} cannot be written with the type that it has in the given table ({error}): convert the column in "
        f"the given table (now of type {dtype}), or change its declaration"
    )


def arrow_types(source: Source) -> Mapping[str, str]:
    """Return the Arrow type of each column of a source as text; none if the source or pyarrow cannot say."""
    if not hasattr(type(source), "arrow_types"):  # of the source itself, it would be asked twice, and a database too
        return {}
    try:
        return cast("ArrowTyped", source).arrow_types
    except DataError:
        return {}


@lru_cache(maxsize=1 << 10)  # a loop of releases asks the same of the same columns
def why_not(library: str, column: Column, dtype: str) -> str | None:
    """Return why a type cannot hold a column's possible values, as an error text; ``None`` if it can.

    Types are so checked before any spend.
    """
    try:
        library_named(library).array(column, _sample(column), dtype)
    except FormatError as error:
        return str(error)
    return None


def _sample(column: Column) -> RawColumn:
    """Return a few possible values of a released column, from its declaration alone, to test a type with."""
    grid = grid_of(column)
    indices = [0, grid.regular - 1, *range(grid.regular, grid.regular + len(grid.special))]
    return decode(column, np.array(indices, np.uint64))
