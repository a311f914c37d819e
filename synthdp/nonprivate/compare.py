"""NON-PRIVATE pictures that compare a synthetic table with the real table, for people who may see the real rows.

The pictures are never for publication.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from synthdp.arrays import FloatArray
from synthdp.domain.encoder import Labels, Numbers, RawColumn, conform
from synthdp.errors import DataError, ParameterError
from synthdp.nonprivate.evaluate import WARNING
from synthdp.pictures.axes import column_panel
from synthdp.pictures.picture import Picture, bars, histogram
from synthdp.pictures.view import Bar, ColumnView, axis_between, marks_between, zoomed
from synthdp.schema.column import Column
from synthdp.schema.database import database_schema_given
from synthdp.schema.schema import Schema, schema_given
from synthdp.tables.resolve import infer_schema, source_of
from synthdp.tables.source import Source

SHOWN_LEVELS = 8
"""Levels that a picture shows, at most; the key has the number of further levels.  A safety limit of space."""

TIME_BINS = 32
"""Bars of a histogram of times.  More would show noise as spikes; fewer hide seasons.  A convention."""

QUANTILES = (0.005, 0.025, 0.05, 0.1, 0.9, 0.95, 0.975, 0.995)
"""Quantiles at which a histogram of numbers may end.  Far values would leave nearly all others in one bar.  A
convention."""

KEY = "share of rows; bars: synthetic, line: real"
"""Text of the key of a histogram of numbers or times."""

KEY_OF_LEVELS = "share of rows; blue, with its number: synthetic; grey: real"
"""Text of the key of a bar chart of levels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NonprivateComparison:
    """A real and a synthetic table that `compare` returns to plot them together.

    Not private: the pictures are not for publication.

    Parameters
    ----------
    real, synthetic
        The two tables, as sources of rows.
    columns
        Schema by which both tables are read.
    warning
        Stamp on every picture.
    """

    real: Source = field(repr=False)
    synthetic: Source = field(repr=False)
    columns: Schema = field(repr=False)
    warning: str = field(default=WARNING)

    def plot(self, column: str) -> Picture:
        """Return a picture of one column in both tables, stamped as non-private.

        A notebook shows the picture, and its ``save`` writes it.

        Raises
        ------
        DataError
            If a table lacks the column or has no rows.
        ParameterError
            If the column is an identifier.
        """
        if column not in self.columns:
            raise DataError(f"there is no column {column!r} to compare; there are: {', '.join(self.columns)}")
        kind = self.columns[column]
        if kind.names_rows:
            raise ParameterError(
                f"column {column!r} is an identifier, whose labels carry no information: name another column"
            )
        blocks = [
            _read(table, column, kind, who) for table, who in ((self.real, "real"), (self.synthetic, "synthetic"))
        ]
        view = _levels(column, *blocks) if isinstance(blocks[0][0], Labels) else _numbers(column, kind, *blocks)
        title, name = f"{column}: synthetic beside real", f"synthdp-nonprivate-{zlib.crc32(column.encode()):08x}"
        if view.ordered:
            chart = histogram(view.bars, view.ticks, title=title, name=name, logarithmic=view.is_logarithmic)
        else:
            chart = bars(view.bars, title=title, name=name)
        return Picture(title=title, chart=chart, note=view.summary, stamp=self.warning, panels=(column_panel(view),))


def compare(real: Any, synthetic: Any, schema: Any = None) -> Any:
    """Return a comparison of a real with a synthetic table, to plot.

    Not private: pictures are stamped; do not publish them.

    Parameters
    ----------
    real, synthetic
        Dataframes or sources of rows.  Or dicts of several tables by name: each table is compared by itself.
    schema
        Schema by which values are clipped and relabelled first, as a release does; default: values stay as they are.

    Returns
    -------
    A `NonprivateComparison`; of several tables a dict of them by name.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> table = pd.DataFrame({"age": np.arange(1000) % 80})
    >>> sd.compare(table, table).plot("age")
    NON-PRIVATE: contains the real data's statistics; not for publication: picture of age: synthetic beside real
    """
    if isinstance(real, Mapping) and isinstance(synthetic, Mapping):
        known = None if schema is None else database_schema_given(schema)
        names = list(real) if known is None else list(known.tables)
        lacking = [name for name in names if name not in real or name not in synthetic]
        if lacking:
            raise DataError(
                f"table {lacking[0]!r} is missing from the real or the synthetic tables: give the same tables in both"
            )
        return {n: _compared(real[n], synthetic[n], None if known is None else known.tables[n]) for n in names}
    return _compared(real, synthetic, schema)


def _compared(real: Any, synthetic: Any, schema: Any) -> NonprivateComparison:
    """Return the comparison of two tables; without a schema, the real table's types give the columns."""
    columns = None if schema is None else schema_given(schema)
    sources = [source_of(table, columns) for table in (real, synthetic)]
    if columns is None:
        columns = infer_schema(sources[0])
    return NonprivateComparison(real=sources[0], synthetic=sources[1], columns=columns)


def _read(table: Source, name: str, column: Column, who: str) -> list[RawColumn]:
    """Return one column's raw values in blocks; raise DataError if the table lacks the column or rows."""
    if name not in table.names:
        raise DataError(f"column {name!r} is missing from the {who} table: add it, or name another column")
    blocks = [conform(column, block[name]) for block in table.blocks({name: column})]
    if not any(raw.rows for raw in blocks):
        raise DataError(f"the {who} table has no rows: give a table with rows")
    return blocks


def _levels(name: str, real: Sequence[RawColumn], synthetic: Sequence[RawColumn]) -> ColumnView:
    """Return a bar chart of a column of levels: the percentages in both tables, the most frequent level first.

    A table without any value gives one bar, "missing".
    """
    ours, theirs = (_shares_of_levels(blocks) for blocks in (synthetic, real))
    levels = sorted({*ours, *theirs}, key=lambda level: -ours.get(level, 0.0) - theirs.get(level, 0.0))
    shown = tuple(Bar(level, ours.get(level, 0.0), beside=theirs.get(level, 0.0)) for level in levels[:SHOWN_LEVELS])
    more = f"; {len(levels) - SHOWN_LEVELS} more" if len(levels) > SHOWN_LEVELS else ""
    return ColumnView(
        name=name, bars=shown or (Bar("missing", 0.0, beside=0.0),), ordered=False, summary=KEY_OF_LEVELS + more
    )


def _shares_of_levels(blocks: Sequence[RawColumn]) -> dict[str, float]:
    """Return each level's percentage of all rows; missing values, if any, count as the level "missing"."""
    counts: dict[str, float] = {}
    rows = 0
    for raw in blocks:
        if isinstance(raw, Labels):
            rows += raw.rows
            names = ["missing", *map(str, raw.levels)]
            found = np.bincount(raw.codes + 1, minlength=len(names))
            for k in np.flatnonzero(found).tolist():
                counts[names[k]] = counts.get(names[k], 0.0) + float(found[k])
    return {level: 100 * count / rows for level, count in counts.items()}


def _numbers(name: str, column: Column, real: Sequence[RawColumn], synthetic: Sequence[RawColumn]) -> ColumnView:
    """Return the histogram of a column of numbers or times: percentages of both tables over common bars."""
    tables = [_values(blocks) for blocks in (synthetic, real)]
    there = [values[~np.isnan(values)] for values in tables]
    both = np.concatenate(there)
    if not len(both):
        return ColumnView(name=name, bars=(Bar("missing", 100.0, beside=100.0),), ordered=False, summary=KEY_OF_LEVELS)
    lower, upper = float(both.min()), float(both.max())
    if column.temporal:
        ends = np.linspace(lower, upper + 1, TIME_BINS + 1)
        marks = [(TIME_BINS * place, text) for place, text in marks_between(int(lower), int(upper), column.quantity)]
    else:
        low, high = zoomed(lower, upper, dict(zip(QUANTILES, np.quantile(both, QUANTILES).tolist(), strict=True)))
        axis = axis_between(low, high, spacing=1.0 if column.whole else 0.0)
        ends, marks = np.array(axis.ends), list(axis.marks())
    shares = [np.histogram(part, ends)[0] * 100 / len(whole) for part, whole in zip(there, tables, strict=True)]
    missing = [100 * float(np.isnan(values).mean()) for values in tables]
    told = f"; missing: {missing[0]:.1f} %, in the real table {missing[1]:.1f} %" if max(missing) > 0 else ""
    labels = [f"from {end:.6g}" for end in ends[:-1]]
    pairs = zip(labels, *(part.tolist() for part in shares), strict=True)
    return ColumnView(
        name=name, ordered=True, ticks=tuple(marks), summary=KEY + told,
        bars=tuple(Bar(label, ours, beside=theirs) for label, ours, theirs in pairs),
    )  # fmt: skip


def _values(blocks: Sequence[RawColumn]) -> FloatArray:
    """Return all values of a column's blocks of numbers as floats, (rows,), NaN where missing, for its bars."""
    parts = [np.where(raw.gone, np.nan, raw.values.astype(np.float64)) for raw in blocks if isinstance(raw, Numbers)]
    return np.concatenate(parts)
