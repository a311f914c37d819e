"""How good a synthetic table is: the same measures for every method, on real rows (not private; for benchmarks only).

All marginals are taken in the 32-bin form of a table: at most 32 equal cells of each numeric column, levels as they are,
a cell for missing values.
"""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd

from synthdp import Continuous, Integer, Schema

BINS, TRIPLES, KERNEL_QUERIES, CENTRES = 32, 300, 10_000, 10


def binned(table: pd.DataFrame, schema: Schema) -> tuple[np.ndarray, list[int]]:
    """Codes (n, d) of the 32-bin form, and the number of codes of each column."""
    columns, sizes = [], []
    for name, column in schema.items():
        values = table[name]
        if isinstance(column, (Integer, Continuous)):
            x = values.to_numpy(dtype=float, na_value=np.nan)
            whole = isinstance(column, Integer)
            bins = min(BINS, int(column.upper - column.lower + 1)) if whole else BINS
            width = (column.upper - column.lower + whole) / bins
            code = np.clip(np.floor((np.nan_to_num(x, nan=column.lower) - column.lower) / width), 0, bins - 1)
            columns.append(np.where(np.isnan(x), bins, code).astype(np.int64))
            sizes.append(bins + 1)
        else:
            levels = list(getattr(column, "levels", (False, True)))
            code = pd.Categorical(values, categories=levels).codes.astype(np.int64)
            columns.append(np.where(code < 0, len(levels), code))
            sizes.append(len(levels) + 1)
    return np.column_stack(columns), sizes


def marginal_error(real: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema, *, order: int = 3) -> float:
    """Average total variation distance over the first 300 of the marginals of an order, in a seeded order."""
    (a, sizes), (b, _) = binned(real, schema), binned(synthetic, schema)
    cliques = list(itertools.combinations(range(len(sizes)), order))
    chosen = np.random.default_rng(0).permutation(len(cliques))[:TRIPLES]
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


def kernel_error(real: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema, *, widths: tuple[float, ...]) -> float:
    """Worst error over Gaussian-kernel queries on the numeric columns scaled to [-1, 1], 10 000 over all widths.

    f(x) = sum over 10 centres of a_j exp(-|x - c_j|^2 / 2 s^2), centres uniform in the cube, weights uniform with sum 1.
    """
    a, b = points(real, schema), points(synthetic, schema)
    rng = np.random.default_rng(1)
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
    """AUC on real held-out rows of gradient boosting trained on ``train``; .5 where it cannot be trained."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    names = [name for name in schema if name != target]
    x, y = _encoded(train, schema, names), train[target].astype(str).to_numpy()
    if len(set(y)) < 2:
        return 0.5
    categorical = [name not in numeric(schema) for name in names]
    model = HistGradientBoostingClassifier(random_state=0, categorical_features=categorical).fit(x, y)
    truth = test[target].astype(str).to_numpy()
    return float(roc_auc_score(truth == model.classes_[1], model.predict_proba(_encoded(test, schema, names))[:, 1]))


def evaluate(
    train: pd.DataFrame, test: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema, target: str | None
) -> dict[str, float]:
    """All measures of one synthetic table."""
    scores = {
        "two_way": marginal_error(train, synthetic, schema, order=2),
        "three_way": marginal_error(train, synthetic, schema, order=3),
    }
    if len(numeric(schema)) > 1:
        scores |= {
            "ks": kolmogorov(train, synthetic, schema),
            "smooth": kernel_error(train, synthetic, schema, widths=(2.0, 4.0, 6.0, 8.0, 10.0)),
            "sharp": kernel_error(train, synthetic, schema, widths=(0.5, 1.0)),
            "correlation": correlation_error(train, synthetic, schema),
        }
    if target is not None:
        scores["auc"] = boosting_auc(synthetic, test, schema, target)
    return scores


def numeric(schema: Schema) -> list[str]:
    """Names of the columns of numbers."""
    return [name for name, column in schema.items() if isinstance(column, (Integer, Continuous))]


def points(table: pd.DataFrame, schema: Schema) -> np.ndarray:
    """Numeric columns scaled to [-1, 1] by the schema's bounds; missing values in the middle."""
    columns = []
    for name in numeric(schema):
        lower, upper = schema[name].lower, schema[name].upper
        x = table[name].to_numpy(dtype=float, na_value=np.nan)
        columns.append(np.nan_to_num((2 * x - lower - upper) / (upper - lower), nan=0.0))
    return np.column_stack(columns)


def _kernels(x: np.ndarray, centres: np.ndarray, width: float) -> np.ndarray:
    x, centres = x.astype(np.float32), centres.astype(np.float32)  # errors of 1e-6, in half the time
    squared = (x**2).sum(1)[:, None] - 2 * x @ centres.T + (centres**2).sum(1)
    return np.exp(-np.maximum(squared, 0) / (2 * width**2)).mean(axis=0, dtype=np.float64)


def _distance(a: np.ndarray, b: np.ndarray, clique: tuple[int, ...], sizes: list[int]) -> float:
    shape = [sizes[j] for j in clique]
    cells = int(np.prod(shape))
    p, q = (np.bincount(np.ravel_multi_index(c[:, clique].T, shape), minlength=cells) / len(c) for c in (a, b))
    return float(0.5 * np.abs(p - q).sum())


def _encoded(table: pd.DataFrame, schema: Schema, names: list[str]) -> np.ndarray:
    columns = []
    for name in names:
        if name in numeric(schema):
            columns.append(table[name].to_numpy(dtype=float, na_value=np.nan))
        else:
            code = pd.Categorical(table[name], categories=list(getattr(schema[name], "levels", (False, True)))).codes
            columns.append(np.where(code < 0, np.nan, code))
    return np.column_stack(columns)
