"""NON-PRIVATE comparison of a synthetic table with the real one, for people who may see the real rows; not to publish.

Everything here reads real rows without noise.  Nothing here can enter a release: results are numbers and a stamped page,
and no other module of the package imports this one but the façade's name table and the command line.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from synthdp.arrays import AnyArray
from synthdp.domain.encoder import Labels, RawColumn, conform
from synthdp.errors import DataError, ParameterError, SchemaError
from synthdp.files import write_private
from synthdp.markup import render
from synthdp.nonprivate.measures import (
    SHARP,
    SMOOTH,
    binned,
    boosting_auc,
    closest_records,
    correlation_error,
    distance,
    kernel_error,
    kolmogorov,
    marginal_error,
    numeric,
    propensity_ratio,
)
from synthdp.progress import Progress, ProgressCallback, silent
from synthdp.randomness import generator
from synthdp.schema.column import Column
from synthdp.schema.database import DatabaseSchema
from synthdp.schema.schema import Schema
from synthdp.tables.refusals import instead_of
from synthdp.tables.sources.resolve import source_of

WARNING = "NON-PRIVATE: contains the real data's statistics; not for publication"
"""What an evaluation says to whoever shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NonprivateEvaluation:
    """How near a synthetic table is to the real one.  Not private: not for publication.

    Parameters
    ----------
    scores
        Measures by name; smaller is better but where their meaning says otherwise.
    worst_pairs
        The pairs of columns whose tables differ most, with their distance.
    columns
        Distance of each column's own table.
    no_privacy_evidence
        Distances between rows: they say nothing about privacy, in either direction.
    warning
        The stamp.
    """

    scores: dict[str, float]
    worst_pairs: list[tuple[str, str, float]]
    columns: dict[str, float]
    no_privacy_evidence: dict[str, float]
    warning: str = field(default=WARNING)

    def __str__(self) -> str:
        lines = [self.warning, ""]
        lines += [f"  {MEANING.get(name, name):<76}{value:>8.4f}" for name, value in self.scores.items()]
        lines += ["", "  worst pairs (total variation distance)"]
        lines += [f"    {f'{a} × {b}':<60}{value:>8.4f}" for a, b, value in self.worst_pairs]
        lines += ["", "  distances between rows: no evidence about privacy, in either direction"]
        lines += [f"    {MEANING.get(name, name):<74}{value:>8.4f}" for name, value in self.no_privacy_evidence.items()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the measures as a table for a notebook, stamped."""
        scores = [(MEANING.get(name, name), value) for name, value in self.scores.items()]
        return render("evaluation.html", warning=self.warning, scores=scores)

    def to_document(self) -> dict[str, Any]:
        """Return the evaluation as a JSON document, stamped."""
        return {
            "warning": self.warning,
            "nonprivate": True,
            "scores": self.scores,
            "worst_pairs": [list(pair) for pair in self.worst_pairs],
            "columns": self.columns,
            "no_privacy_evidence": self.no_privacy_evidence,
        }

    def write(self, path: str | PathLike[str]) -> None:
        """Write a page with a red banner, which only its owner may read.

        Raises
        ------
        DataError
            If the file cannot be written.
        """
        with instead_of(OSError, say=lambda error: DataError(f"'{path}' cannot be written: {_why(error)}")):
            write_private(Path(path), _page(self))


def _why(error: BaseException) -> object:
    """Return what the system says of an error, or None."""
    return getattr(error, "strerror", None)


MEANING = {
    "one_way": "mean total variation distance of single columns",
    "two_way": "mean total variation distance of pairs of columns",
    "three_way": "mean total variation distance of triples of columns",
    "ks": "mean Kolmogorov-Smirnov distance of numeric columns",
    "correlation": "mean absolute difference of correlations of numeric columns",
    "smooth": "worst error of smooth queries (Gaussian kernels of width 2 to 10)",
    "sharp": "worst error of sharper queries (Gaussian kernels of width 0.5 and 1)",
    "pmse_ratio": "propensity: pMSE over its expectation for two samples of one law (1 is ideal)",
    "auc": "AUC on real rows of boosting trained on synthetic rows (larger is better)",
    "auc_real": "the same trained on real rows",
    "closest_synthetic": "median distance of a synthetic row to the closest real one",
    "closest_real": "median distance of a real row to the closest other real one",
    "copies": "share of synthetic rows that equal a real one",
}
"""What each score is, for the page."""


def _of_tables(
    real: Any,
    synthetic: Any,
    schema: DatabaseSchema,
    *,
    target: str | None,
    held_out: Any,
    on_progress: ProgressCallback,
) -> dict[str, NonprivateEvaluation]:
    """Compare several tables one by one."""
    for who, tables in (("real", real), ("synthetic", synthetic), ("held-out", held_out)):
        lacking = [
            n for n in schema.tables if tables is not None and (not isinstance(tables, Mapping) or n not in tables)
        ]
        if lacking:
            raise DataError(f"table {lacking[0]!r} is missing from the {who} tables: add it to the dict of tables")
    table, _, column = (target or "").partition(".")
    if target is not None and column not in schema.tables.get(table, {}):
        raise ParameterError(f"target ({target!r}) must be written as table.column and name a column of the schema")
    return {
        name: nonprivate_evaluate(
            real[name], synthetic[name], one, target=column if name == table else None,
            held_out=None if held_out is None else held_out[name], on_progress=on_progress,
        )
        for name, one in schema.tables.items()
        if any(not kind.names_rows for kind in one.values())
    }  # fmt: skip


def nonprivate_evaluate(
    real: Any,
    synthetic: Any,
    schema: Any,
    *,
    target: str | None = None,
    held_out: Any = None,
    on_progress: ProgressCallback = silent,
) -> Any:
    """Compare a synthetic table with the real one.  Not private: the result is stamped and must not be published.

    Parameters
    ----------
    real, synthetic
        Dataframes, or sources of rows, with the schema's columns; values are compared as the schema holds them, clipped
        and with unforeseen levels as missing or "other".  Or several tables by name, with a `DatabaseSchema`: each is
        compared by itself; what rows have to do with those above them is not measured.
    schema
        The columns: a `Schema`, or of several tables a `DatabaseSchema`.
    target
        A column to predict, for machine-learning efficacy; of several tables ``table.column``.
    held_out
        Real rows to test predictions on; default: a fifth of ``real``.
    on_progress
        Called with each stage as it begins.

    Returns
    -------
    A `NonprivateEvaluation`; of several tables a dict of them by name.

    Raises
    ------
    DataError
        If a table lacks a column or has no rows.
    SchemaError
        If bounds or levels of a column are open.
    ParameterError
        If ``target`` is no column.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> table = pd.DataFrame({"age": np.arange(1000) % 80})
    >>> found = sd.nonprivate_evaluate(table, table, sd.Schema({"age": sd.Integer(0, 100)}))
    >>> "NON-PRIVATE" in str(found)
    True
    """
    if isinstance(schema, DatabaseSchema):
        return _of_tables(real, synthetic, schema, target=target, held_out=held_out, on_progress=on_progress)
    if schema.undeclared:
        raise SchemaError(
            f"column {schema.undeclared[0]!r} has no declared bounds or levels to compare by: give the schema of the "
            "release, in which they were discovered"
        )
    tables = [as_pandas(table, schema, who) for table, who in ((real, "real"), (synthetic, "synthetic"))]
    a, b = tables
    schema = Schema({name: column for name, column in schema.items() if not column.names_rows})
    names = list(schema)
    (codes, sizes), (other, _) = binned(a, schema), binned(b, schema)
    pairs = [(i, j, distance(codes, other, (i, j), sizes)) for i, j in itertools.combinations(range(len(names)), 2)]
    ones = {name: distance(codes, other, (j,), sizes) for j, name in enumerate(names)}
    measures: dict[str, Callable[[], float]] = {"one_way": lambda: float(np.mean(list(ones.values())))}
    for order, name in ((2, "two_way"), (3, "three_way")):
        if len(names) >= order:
            measures[name] = partial(marginal_error, a, b, schema, order=order)
    if numeric(schema):
        measures["ks"] = partial(kolmogorov, a, b, schema)
        measures["smooth"] = partial(kernel_error, a, b, schema, widths=SMOOTH)
        measures["sharp"] = partial(kernel_error, a, b, schema, widths=SHARP)
    if len(numeric(schema)) > 1:
        measures["correlation"] = partial(correlation_error, a, b, schema)
    measures["pmse_ratio"] = partial(propensity_ratio, a, b, schema)
    if target is not None:
        train, test = _halves(a) if held_out is None else (a, as_pandas(held_out, schema, "held-out"))
        measures["auc"] = partial(boosting_auc, b, test, schema, target)
        measures["auc_real"] = partial(boosting_auc, train, test, schema, target)
    scores = {}
    with threadpool_limits(1):  # each step is small: several threads would mostly wait for each other
        for done, (name, measure) in enumerate(measures.items()):
            on_progress(Progress(stage=MEANING[name].partition(" (")[0], done=done, total=len(measures) + 1))
            scores[name] = measure()
        on_progress(Progress(stage="distances between rows", done=len(measures), total=len(measures) + 1))
        between = closest_records(a, b, schema)
    worst = sorted(pairs, key=lambda pair: -pair[2])[:10]
    return NonprivateEvaluation(
        scores=scores,
        worst_pairs=[(names[i], names[j], value) for i, j, value in worst],
        columns=ones,
        no_privacy_evidence=between,
    )


def as_pandas(table: Any, schema: Schema, who: str) -> pd.DataFrame:
    """Return the columns of a schema as numbers, moments and levels, each as its declaration holds it."""
    with instead_of(DataError, say=lambda error: DataError(str(error).replace("the table", f"the {who} table", 1))):
        source = source_of(table, schema)
    missing = [name for name in schema if name not in source.names]
    if missing:  # the table's own names are not quoted: in a file without a header they are its first row
        raise DataError(
            f"column {missing[0]!r} is missing from the {who} table: add it; the schema has: {', '.join(schema)}"
        )
    blocks = [
        pd.DataFrame({name: _values(column, conform(column, block[name])) for name, column in schema.items()})
        for block in source.blocks(schema)
    ]
    frame = pd.concat(blocks, ignore_index=True)
    if not len(frame):
        raise DataError(f"the {who} table has no rows: give a table with rows")
    return frame


def _values(column: Column, raw: RawColumn) -> AnyArray:
    """Return raw values as pandas has them: levels, times, or numbers."""
    if isinstance(raw, Labels):
        levels = np.empty(len(raw.levels) + 1, object)
        levels[:-1] = raw.levels
        return levels[raw.codes]
    gone = np.zeros(len(raw.values), np.bool_) if raw.missing is None else raw.missing
    if column.temporal:
        values = raw.values.astype("datetime64[us]" if column.quantity == "moment" else "timedelta64[us]")
        return np.where(gone, np.array("NaT", values.dtype), values)
    return np.where(gone, np.nan, raw.values)


def _halves(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return four fifths of a table's rows and the other fifth, at random."""
    order = generator(0).permutation(len(table))
    cut = max(1, len(table) // 5)
    return table.iloc[order[cut:]], table.iloc[order[:cut]]


def _page(evaluation: NonprivateEvaluation) -> str:
    """Return the page of an evaluation."""
    between = [(MEANING.get(name, name), value) for name, value in evaluation.no_privacy_evidence.items()]
    tables = [
        ("Scores", [(MEANING.get(name, name), value) for name, value in evaluation.scores.items()]),
        ("Worst pairs of columns, total variation distance", [(f"{a} × {b}", v) for a, b, v in evaluation.worst_pairs]),
        ("Columns, total variation distance", list(evaluation.columns.items())),
        ("Distances between rows: no evidence about privacy, in either direction", between),
    ]
    return render("comparison.html", title="NON-PRIVATE evaluation", warning=evaluation.warning, tables=tables)
