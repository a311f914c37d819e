"""NON-PRIVATE comparison of a synthetic table with the real one: for those who hold the real rows, never for publication.

Everything here reads real rows without noise.  Nothing here can enter a release: results are numbers and a stamped page,
and no other module of the package imports this one but the façade's name table and the command line.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from synthdp.arrays import AnyArray, FloatArray, IntArray
from synthdp.errors import DataError
from synthdp.randomness import generator
from synthdp.schema.columns import RESOLUTIONS, Column, Continuous, Datetime, Duration, Identifier, Integer
from synthdp.schema.schema import Schema

WARNING = "NON-PRIVATE: contains the real data's statistics; not for publication"
BINS, TABLES, KERNEL_QUERIES, CENTRES = 32, 300, 10_000, 10
SMOOTH, SHARP = (2.0, 4.0, 6.0, 8.0, 10.0), (0.5, 1.0)
MOST_LEVELS = 255
"""Levels that boosting takes as levels; a column with more is taken as a number."""

PROPENSITY_ROWS = 20_000
NEIGHBOURS = 1_000
"""Rows compared with all others in distances to the closest record."""


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
        """Write a page with a red banner.

        Raises
        ------
        DataError
            If the file cannot be written.
        """
        try:
            Path(path).write_text(_page(self), encoding="utf-8")
        except OSError as error:
            raise DataError(f"'{path}' cannot be written: {error.strerror}") from None


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


def nonprivate_evaluate(
    real: Any, synthetic: Any, schema: Schema, *, target: str | None = None, held_out: Any = None
) -> NonprivateEvaluation:
    """Compare a synthetic table with the real one.  Not private: the result is stamped and must not be published.

    Parameters
    ----------
    real, synthetic
        Dataframes with the schema's columns.
    schema
        The columns.
    target
        A column to predict, for machine-learning efficacy.
    held_out
        Real rows to test predictions on; default: a fifth of ``real``.

    Raises
    ------
    DataError
        If a table lacks a column or has no rows.

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
    tables = [_as_pandas(table, schema, who) for table, who in ((real, "real"), (synthetic, "synthetic"))]
    a, b = tables
    schema = Schema({name: column for name, column in schema.items() if not isinstance(column, Identifier)})
    names = list(schema)
    (codes, sizes), (other, _) = binned(a, schema), binned(b, schema)
    pairs = [(i, j, _distance(codes, other, (i, j), sizes)) for i, j in itertools.combinations(range(len(names)), 2)]
    ones = {name: _distance(codes, other, (j,), sizes) for j, name in enumerate(names)}
    scores = {"one_way": float(np.mean(list(ones.values())))}
    for order, name in ((2, "two_way"), (3, "three_way")):
        if len(names) >= order:
            scores[name] = marginal_error(a, b, schema, order=order)
    if numeric(schema):
        scores["ks"] = kolmogorov(a, b, schema)
        scores["smooth"] = kernel_error(a, b, schema, widths=SMOOTH)
        scores["sharp"] = kernel_error(a, b, schema, widths=SHARP)
    if len(numeric(schema)) > 1:
        scores["correlation"] = correlation_error(a, b, schema)
    scores["pmse_ratio"] = propensity_ratio(a, b, schema)
    if target is not None:
        train, test = _halves(a) if held_out is None else (a, _as_pandas(held_out, schema, "held-out"))
        scores["auc"] = boosting_auc(b, test, schema, target)
        scores["auc_real"] = boosting_auc(train, test, schema, target)
    worst = sorted(pairs, key=lambda pair: -pair[2])[:10]
    return NonprivateEvaluation(
        scores=scores,
        worst_pairs=[(names[i], names[j], value) for i, j, value in worst],
        columns=ones,
        no_privacy_evidence=closest_records(a, b, schema),
    )


def binned(table: pd.DataFrame, schema: Schema) -> tuple[IntArray, list[int]]:
    """Codes (n, d) of the 32-bin form, and the number of codes of each column.

    At most 32 equal cells of each column of numbers or moments, levels as they are, a cell for missing values.
    """
    columns, sizes = [], []
    for name, column in schema.items():
        values = table[name]
        if isinstance(column, (Integer, Continuous, Datetime, Duration)):
            x, lower, upper = _numbers(values, column)
            whole = isinstance(column, Integer)
            bins = min(BINS, int(upper - lower + 1)) if whole else BINS
            width = (upper - lower + whole) / bins
            code = np.clip(np.floor((np.nan_to_num(x, nan=lower) - lower) / width), 0, bins - 1)
            columns.append(np.where(np.isnan(x), bins, code).astype(np.int64))
            sizes.append(bins + 1)
        else:
            levels = list(getattr(column, "levels", None) or (False, True))
            code = pd.Categorical(values, categories=levels).codes.astype(np.int64)
            columns.append(np.where(code < 0, len(levels), code))
            sizes.append(len(levels) + 1)
    return np.column_stack(columns), sizes


def marginal_error(real: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema, *, order: int = 3) -> float:
    """Average total variation distance over the first 300 of the marginals of an order, in a seeded order."""
    (a, sizes), (b, _) = binned(real, schema), binned(synthetic, schema)
    cliques = list(itertools.combinations(range(len(sizes)), order))
    chosen = generator(0).permutation(len(cliques))[:TABLES]
    return float(np.mean([_distance(a, b, cliques[i], sizes) for i in chosen]))


def kolmogorov(real: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema) -> float:
    """Mean Kolmogorov-Smirnov distance over the numeric columns, missing values left out."""
    distances = []
    for name in numeric(schema):
        a, b = (np.sort(t[name].to_numpy(dtype=float, na_value=np.nan)) for t in (real, synthetic))
        a, b = a[~np.isnan(a)], b[~np.isnan(b)]
        if not len(a) or not len(b):
            distances.append(1.0)
            continue
        at = np.concatenate([a, b])
        gap = np.searchsorted(a, at, "right") / len(a) - np.searchsorted(b, at, "right") / len(b)
        distances.append(float(np.abs(gap).max()))
    return float(np.mean(distances))


def kernel_error(real: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema, *, widths: Sequence[float]) -> float:
    """Worst error over Gaussian-kernel queries on the numeric columns scaled to [-1, 1], 10 000 over all widths.

    f(x) = sum over 10 centres of a_j exp(-|x - c_j|^2 / 2 s^2), centres uniform in the cube, weights uniform with sum 1.
    """
    a, b = points(real, schema), points(synthetic, schema)
    rng = generator(1)
    worst = 0.0
    for width in widths:
        for _ in range(KERNEL_QUERIES // CENTRES // len(widths)):
            # weights change nothing in the kernels, so each draw of centres serves ten sets of weights
            centres = rng.uniform(-1, 1, (CENTRES, a.shape[1]))
            weights = rng.uniform(0, 1, (CENTRES, CENTRES))
            weights /= weights.sum(axis=1, keepdims=True)
            gap = _kernels(a, centres, width) - _kernels(b, centres, width)
            worst = max(worst, float(np.abs(weights @ gap).max()))
    return worst


def correlation_error(real: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema) -> float:
    """Mean absolute difference of the pairwise correlations of the numeric columns."""
    names = numeric(schema)
    a, b = (t[names].astype(float).corr().fillna(0.0).to_numpy() for t in (real, synthetic))
    upper = np.triu_indices(len(names), 1)
    return float(np.abs(a[upper] - b[upper]).mean())


def boosting_auc(train: pd.DataFrame, test: pd.DataFrame, schema: Schema, target: str) -> float:
    """AUC on real held-out rows of gradient boosting trained on ``train``; .5 where it cannot be trained.

    With more than two classes: the mean over classes of one against the rest.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    names = [name for name in schema if name != target]
    x, y = _encoded(train, schema, names), train[target].astype(str).to_numpy()
    if len(set(y)) < 2:
        return 0.5
    categorical = [1 < _levels(schema[name]) <= MOST_LEVELS for name in names]
    model = HistGradientBoostingClassifier(random_state=0, categorical_features=categorical).fit(x, y)
    truth = test[target].astype(str).to_numpy()
    scores = model.predict_proba(_encoded(test, schema, names))
    if len(model.classes_) == 2:
        return float(roc_auc_score(truth == model.classes_[1], scores[:, 1]))
    present = [i for i, level in enumerate(model.classes_) if 0 < (truth == level).sum() < len(truth)]
    return float(np.mean([roc_auc_score(truth == model.classes_[i], scores[:, i]) for i in present] or [0.5]))


def propensity_ratio(real: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema) -> float:
    """Return the mean squared error of propensities over what two tables of one law would give (Snoke et al. 2018).

    A logistic regression on standardised numbers and indicators of the levels tells real from synthetic rows; under one
    law its pMSE has expectation k (1 - c) c / N for k slopes and a share c of synthetic rows, when both tables are fresh
    samples (Snoke's (1 - c)^2 c is for rows drawn from a model fitted to the real table at hand).
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    rng = generator(0)
    some = [t[list(schema)].iloc[rng.permutation(len(t))[:PROPENSITY_ROWS]] for t in (real, synthetic)]
    x = _indicators(pd.concat(some, ignore_index=True), schema)
    label = np.repeat([0, 1], [len(t) for t in some])
    share = float(label.mean())
    if not x.shape[1]:
        return 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # redundant indicators have no single best weight
        scores = LogisticRegression(C=1e4, max_iter=300).fit(x, label).predict_proba(x)[:, 1]
    expected = np.linalg.matrix_rank(x.T @ x) * (1 - share) * share / len(label)
    return float(np.mean((scores - share) ** 2) / max(expected, 1e-300))


def closest_records(real: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema) -> dict[str, float]:
    """Return distances between rows.  They are no evidence about privacy, in either direction."""
    a, b = (_unit_rows(table, schema) for table in (real, synthetic))
    rng = generator(0)
    some_a, some_b = (rng.permutation(len(t))[:NEIGHBOURS] for t in (a, b))
    keys = {row.tobytes() for row in a}
    return {
        "closest_synthetic": float(np.median(_closest(b[some_b], a))),
        "closest_real": float(np.median(_closest(a[some_a], a, itself=some_a))),
        "copies": float(np.mean([row.tobytes() in keys for row in b])),
    }


def numeric(schema: Schema) -> list[str]:
    """Names of the columns of numbers."""
    return [name for name, column in schema.items() if isinstance(column, (Integer, Continuous))]


def points(table: pd.DataFrame, schema: Schema) -> FloatArray:
    """Numeric columns scaled to [-1, 1] by the schema's bounds; missing values in the middle."""
    columns = []
    for name in numeric(schema):
        x, lower, upper = _numbers(table[name], schema[name])
        columns.append(np.nan_to_num((2 * x - lower - upper) / (upper - lower), nan=0.0))
    return np.column_stack(columns)


def _as_pandas(table: Any, schema: Schema, who: str) -> pd.DataFrame:
    frame = table if isinstance(table, pd.DataFrame) else None
    for way in ("to_pandas", "df", "collect"):
        if frame is None and hasattr(table, way):
            made = getattr(table, way)()
            frame = made if isinstance(made, pd.DataFrame) else made.to_pandas()
    if frame is None:
        raise DataError(f"the {who} table must be a dataframe, not {type(table).__name__}")
    missing = [name for name in schema if name not in frame.columns]
    if missing:
        raise DataError(f"column {missing[0]!r} is missing from the {who} table")
    if not len(frame):
        raise DataError(f"the {who} table has no rows")
    return frame


def _numbers(values: pd.Series, column: Any) -> tuple[FloatArray, float, float]:
    """Return a column's values and bounds as floats; NaN where missing."""
    if isinstance(column, Datetime):
        moments = pd.to_datetime(values, utc=True, errors="coerce").dt.tz_localize(None)
        return _steps(moments.to_numpy().astype("datetime64[us]"), column)
    if isinstance(column, Duration):
        return _steps(pd.to_timedelta(values).to_numpy().astype("timedelta64[us]"), column)
    return values.to_numpy(dtype=float, na_value=np.nan), float(column.lower), float(column.upper)


def _steps(ticks: AnyArray, column: Datetime | Duration) -> tuple[FloatArray, float, float]:
    whole = ticks.astype(np.int64).astype(np.float64) / RESOLUTIONS[column.resolution]
    return np.where(np.isnat(ticks), np.nan, whole), float(column.steps[0]), float(column.steps[1])


def _kernels(x: FloatArray, centres: FloatArray, width: float) -> FloatArray:
    squared = (x**2).sum(1)[:, None] - 2 * x @ centres.T + (centres**2).sum(1)
    return np.asarray(np.exp(-np.maximum(squared, 0) / (2 * width**2)).mean(axis=0))


def _distance(a: IntArray, b: IntArray, clique: tuple[int, ...], sizes: Sequence[int]) -> float:
    shape = [sizes[j] for j in clique]
    cells = int(np.prod(shape))
    p, q = (np.bincount(np.ravel_multi_index(c[:, clique].T, shape), minlength=cells) / len(c) for c in (a, b))
    return float(0.5 * np.abs(p - q).sum())


def _encoded(table: pd.DataFrame, schema: Schema, names: Sequence[str]) -> FloatArray:
    columns: list[FloatArray] = []
    for name in names:
        if isinstance(schema[name], (Integer, Continuous, Datetime, Duration)):
            columns.append(np.asarray(_numbers(table[name], schema[name])[0], np.float64))
        else:
            levels = list(getattr(schema[name], "levels", None) or (False, True))
            code = pd.Categorical(table[name], categories=levels).codes
            columns.append(np.where(code < 0, np.nan, code).astype(np.float64))
    return np.column_stack(columns)


def _levels(column: Column) -> int:
    """Return the number of levels of a column, 0 for numbers and moments."""
    if isinstance(column, (Integer, Continuous, Datetime, Duration)):
        return 0
    return len(getattr(column, "levels", None) or (False, True))


def _indicators(table: pd.DataFrame, schema: Schema) -> FloatArray:
    """Return standardised numbers, and indicators of levels and missing values that some but not all rows have."""
    columns = []
    for name, column in schema.items():
        if isinstance(column, (Integer, Continuous, Datetime, Duration)):
            x, lower, upper = _numbers(table[name], column)
            columns += [np.nan_to_num((x - lower) / (upper - lower), nan=0.5), np.isnan(x).astype(float)]
        else:
            levels = list(getattr(column, "levels", None) or (False, True))
            code = pd.Categorical(table[name], categories=levels).codes
            columns += [(code == level).astype(float) for level in range(-1, len(levels) - 1)]
    kept = [x - x.mean() for x in columns if x.std() > 0]
    return np.column_stack([x / x.std() for x in kept]) if kept else np.zeros((len(table), 0))


def _unit_rows(table: pd.DataFrame, schema: Schema) -> FloatArray:
    """Return rows whose coordinates differ by at most 1: numbers over their range, levels by number."""
    columns = []
    for name, column in schema.items():
        if isinstance(column, (Integer, Continuous, Datetime, Duration)):
            x, lower, upper = _numbers(table[name], column)
            columns.append(np.nan_to_num((x - lower) / (upper - lower), nan=-1.0))
        else:
            levels = list(getattr(column, "levels", None) or (False, True))
            codes = pd.Categorical(table[name], categories=levels).codes
            columns.append(np.asarray(10.0 * (1 + codes.astype(np.float64)), np.float64))
    return np.ascontiguousarray(np.column_stack(columns))


def _closest(rows: FloatArray, others: FloatArray, itself: IntArray | None = None) -> FloatArray:
    """Return each row's mean distance per column to the closest other row (Gower's); levels count 0 or 1."""
    found = np.empty(len(rows))
    for i, row in enumerate(rows):
        gap = np.minimum(np.abs(others - row), 1.0).mean(axis=1)
        if itself is not None:
            gap[itself[i]] = np.inf
        found[i] = gap.min()
    return found


def _halves(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    order = generator(0).permutation(len(table))
    cut = max(1, len(table) // 5)
    return table.iloc[order[cut:]], table.iloc[order[:cut]]


def _page(evaluation: NonprivateEvaluation) -> str:
    def rows(pairs: Sequence[tuple[str, float]]) -> str:
        return "".join(f'<tr><th scope="row">{escape(name)}</th><td>{value:.4f}</td></tr>' for name, value in pairs)

    def table(title: str, pairs: Sequence[tuple[str, float]]) -> str:
        return f"<h2>{escape(title)}</h2><table><tbody>{rows(pairs)}</tbody></table>"

    named = [(MEANING.get(name, name), value) for name, value in evaluation.scores.items()]
    between = [(MEANING.get(name, name), value) for name, value in evaluation.no_privacy_evidence.items()]
    worst = [(f"{a} × {b}", value) for a, b, value in evaluation.worst_pairs]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        "<title>NON-PRIVATE evaluation</title><style>:root{color-scheme:light dark}"
        "body{font:16px/1.5 system-ui,sans-serif;max-width:56rem;margin:0 auto;padding:0 1rem 3rem}"
        ".banner{background:#b00020;color:#fff;font-weight:700;padding:14px 18px;position:sticky;top:0;margin:0 -1rem 1rem}"
        "table{border-collapse:collapse;width:100%}th{text-align:left;font-weight:400}td{text-align:right}"
        "th,td{padding:4px 0;border-bottom:1px solid #8886}@media print{.banner{border:4px solid #b00020;color:#b00020;"
        f'background:none}}}}</style></head><body><p class="banner" role="alert">{escape(evaluation.warning)}</p>'
        "<h1>Synthetic rows against the real ones</h1>"
        + table("Scores", named)
        + table("Worst pairs of columns, total variation distance", worst)
        + table("Columns, total variation distance", list(evaluation.columns.items()))
        + table("Distances between rows: no evidence about privacy, in either direction", between)
        + f'<p class="banner">{escape(evaluation.warning)}</p></body></html>\n'
    )
