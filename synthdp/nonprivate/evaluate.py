"""NON-PRIVATE comparison of a synthetic table with the real one, for people who may see the real rows; not to publish.

Everything here reads real rows without noise.  No result can enter a release: results are numbers and a stamped page.
Only `synthdp.nonprivate`, the façade's name table, the command line and the page's child process import this module.
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
from synthdp.schema.database import DatabaseSchema, database_schema_given, is_database
from synthdp.schema.schema import Schema, schema_given
from synthdp.tables.refusals import instead_of
from synthdp.tables.resolve import source_of

WARNING = "NON-PRIVATE: contains the real data's statistics; not for publication"
"""Stamp on every evaluation and comparison."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NonprivateEvaluation:
    """Scores of how near a synthetic table is to the real one.  Not private: not for publication.

    Parameters
    ----------
    scores
        Scores by name, see `MEANING`; smaller is better, except for the AUC and the pMSE ratio.
    worst_pairs
        The ten pairs of columns with the largest total variation distance, and the distance.
    columns
        Total variation distance of each column.
    no_privacy_evidence
        Distances between rows: no evidence about privacy, in either direction.
    warning
        Stamp on every form of the evaluation.
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
        """Return the scores as an HTML table for a notebook, stamped."""
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
        """Write an HTML page with a red banner; only the file's owner may read it.

        Raises
        ------
        DataError
            If the file cannot be written.
        """
        with instead_of(
            OSError, say=lambda error: DataError(f"'{path}' cannot be written ({_why(error)}): give another path")
        ):
            write_private(Path(path), _page(self))


def _why(error: BaseException) -> object:
    """Return the operating system's text of an error, or None, for the message on a file that cannot be written."""
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
"""Meaning of each score by name, for the page and the text."""


def _of_tables(
    real: Any,
    synthetic: Any,
    schema: DatabaseSchema,
    *,
    target: str | None,
    held_out: Any,
    on_progress: ProgressCallback,
) -> dict[str, NonprivateEvaluation]:
    """Return the evaluation of each table by name; tables of identifiers only are left out."""
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
    """Return scores of how near a synthetic table is to the real one.  Not private: do not publish the stamped result.

    Parameters
    ----------
    real, synthetic
        Dataframes or sources of rows, with the schema's columns.  Values are clipped to bounds, and undeclared levels
        count as missing or "other".  Or dicts of several tables by name, with a `DatabaseSchema`: each table is
        compared by itself, without its relations.
    schema
        A `Schema`, or a `DatabaseSchema` for several tables; or a reviewed draft, or a schema's document or path.
    target
        A column to predict, for machine-learning efficacy; ``table.column`` for several tables.
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
        If ``target`` is no column of the schema, or an identifier.

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
    if is_database(schema):
        many = database_schema_given(schema)
        return _of_tables(real, synthetic, many, target=target, held_out=held_out, on_progress=on_progress)
    schema = schema_given(schema)
    if schema.undeclared:
        raise SchemaError(
            f"column {schema.undeclared[0]!r} has no declared bounds or levels to compare by: give the schema of the "
            "release, in which they were discovered"
        )
    tables = [as_pandas(table, schema, who) for table, who in ((real, "real"), (synthetic, "synthetic"))]
    a, b = tables
    schema = Schema({name: column for name, column in schema.items() if not column.names_rows})
    if target is not None and target not in schema:
        raise ParameterError(f"target ({target!r}) must be a column of the schema; it has: {', '.join(schema)}")
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
        train, test = _train_and_test(a) if held_out is None else (a, as_pandas(held_out, schema, "held-out"))
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
    """Return a table as a frame of a schema's columns, with values clipped and relabelled by the schema.

    So tables are compared on the values that a release can hold.  ``who`` is a word that names the table in
    errors, such as "synthetic".
    """
    with instead_of(DataError, say=lambda error: DataError(str(error).replace("the table", f"the {who} table", 1))):
        source = source_of(table, schema)
    missing = [name for name in schema if name not in source.names]
    if missing:  # the table's own names are not quoted: in a file without a header they are its first row
        raise DataError(
            f"column {missing[0]!r} is missing from the {who} table: add it; the schema has: {', '.join(schema)}"
        )
    blocks = [
        pd.DataFrame({name: array_of(column, conform(column, block[name])) for name, column in schema.items()})
        for block in source.blocks(schema)
    ]
    frame = pd.concat(blocks, ignore_index=True)
    if not len(frame):
        raise DataError(f"the {who} table has no rows: give a table with rows")
    return frame


def array_of(column: Column, raw: RawColumn) -> AnyArray:
    """Return raw values as an array for pandas, (rows,): levels, times or numbers; None, NaT or NaN where missing."""
    if isinstance(raw, Labels):
        levels = np.empty(len(raw.levels) + 1, object)
        levels[:-1] = raw.levels
        return levels[raw.codes]
    if column.temporal:
        values = raw.values.astype("datetime64[us]" if column.quantity == "moment" else "timedelta64[us]")
        return np.where(raw.gone, np.array("NaT", values.dtype), values)
    return np.where(raw.gone, np.nan, raw.values)


def _train_and_test(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a seeded random four fifths of a table's rows, to train on, and the other fifth, to test on.

    A seed makes equal evaluations equal.  The fifth has at least one row.
    """
    order = generator(0).permutation(len(table))
    cut = max(1, len(table) // 5)
    return table.iloc[order[cut:]], table.iloc[order[:cut]]


def _page(evaluation: NonprivateEvaluation) -> str:
    """Return the HTML page of an evaluation, with a warning that it is not private, as it compares with real rows."""
    between = [(MEANING.get(name, name), value) for name, value in evaluation.no_privacy_evidence.items()]
    tables = [
        ("Scores", [(MEANING.get(name, name), value) for name, value in evaluation.scores.items()]),
        ("Worst pairs of columns, total variation distance", [(f"{a} × {b}", v) for a, b, v in evaluation.worst_pairs]),
        ("Columns, total variation distance", list(evaluation.columns.items())),
        ("Distances between rows: no evidence about privacy, in either direction", between),
    ]
    return render("comparison.html", title="NON-PRIVATE evaluation", warning=evaluation.warning, tables=tables)
