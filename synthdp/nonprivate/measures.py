"""NON-PRIVATE measures of how near a synthetic table is to the real one, for `synthdp.nonprivate.evaluate` alone.

Each takes frames of real and synthetic rows and returns numbers without noise.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.linalg import LinAlgWarning
from threadpoolctl import threadpool_limits

from synthdp.arrays import AnyArray, FloatArray, IntArray
from synthdp.domain.grid import bounds_of, labels_of
from synthdp.randomness import generator
from synthdp.schema.column import Column
from synthdp.schema.schema import Schema

BINS, TABLES, KERNEL_QUERIES, CENTRES = 32, 300, 10_000, 10
"""Bins of a numeric column, marginals of each order, kernel queries, and kernel centres of a query.  Safety limits of
time."""

SMOOTH, SHARP = (2.0, 4.0, 6.0, 8.0, 10.0), (0.5, 1.0)
"""Standard deviations of the Gaussian kernels of smooth and of sharper queries, on columns scaled to [-1, 1].  Wide
kernels see the rough shape of a table, narrow kernels its details.  A convention."""

MOST_LEVELS = 255
"""Largest number of levels that the boosting library, scikit-learn, accepts in a categorical column.  A column with
more levels is taken as numeric, by its codes.  Derived: the limit of scikit-learn."""

PROPENSITY_ROWS = 20_000
"""Random rows of each table on which the propensity model is trained, at most.  A safety limit of time."""

FEW_SLOPES = 200
"""Slopes of the propensity model up to which Newton's method is used.  A safety limit of time: the optimum is the same,
and with more slopes a quasi-Newton method takes less time."""

KERNEL_ROWS = 50_000
"""Random rows of each table that kernel queries use, at most: sampling errors stay below about 0.01.  A safety limit of
time."""

KERNEL_BLOCK = 512
"""Points and centres whose kernels are computed at once: they fit the processor's cache.  A safety limit of memory."""

NEIGHBOURS, NEIGHBOUR_BLOCK, OTHERS_BLOCK = 1_000, 64, 2_048
"""Random rows whose closest record is searched among all others, and rows of either side that are compared at once.
Safety limits of time and memory: a block fits the processor's cache."""


def binned(table: pd.DataFrame, schema: Schema) -> tuple[IntArray, list[int]]:
    """Return codes of all columns, numbers in at most 32 equal bins, (n, d), and each column's number of codes.

    Levels keep their own codes.  Missing values have the last code of each column.
    """
    columns, sizes = [], []
    for name, column in schema.items():
        values = table[name]
        if column.measured:
            x, lower, upper = _numbers(values, column)
            whole = column.whole
            bins = min(BINS, int(upper - lower + 1)) if whole else BINS
            width = ((upper - lower + whole) or 1) / bins
            code = np.clip(np.floor((np.nan_to_num(x, nan=lower) - lower) / width), 0, bins - 1)
            columns.append(np.where(np.isnan(x), bins, code).astype(np.int64))
            sizes.append(bins + 1)
        else:
            code, levels = _codes(values, column), len(labels_of(column))
            columns.append(np.where(code < 0, levels, code))
            sizes.append(levels + 1)
    return np.column_stack(columns), sizes


def marginal_error(real: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema, *, order: int = 3) -> float:
    """Return the mean total variation distance over at most 300 random marginals of ``order`` columns, 0 to 1.

    The choice of marginals is seeded, so that it never changes.
    """
    (a, sizes), (b, _) = binned(real, schema), binned(synthetic, schema)
    cliques = list(itertools.combinations(range(len(sizes)), order))
    chosen = generator(0).permutation(len(cliques))[:TABLES]
    return float(np.mean([distance(a, b, cliques[i], sizes) for i in chosen]))


def kolmogorov(real: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema) -> float:
    """Return the mean Kolmogorov-Smirnov distance over the columns of numbers, 0 to 1; missing values are left out.

    A column without values in one of the tables counts 1.
    """
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
    """Return the largest absolute difference of both tables' answers to Gaussian-kernel queries, 0 to 1.

    Queries are about the numeric columns scaled to [-1, 1].  There are 10 000 seeded queries over all ``widths`` s:
    f(x) = sum over 10 centres of a_j exp(-|x - c_j|^2 / 2 s^2), averaged over rows.  Centres are uniform in the cube;
    weights are uniform, scaled to sum 1.  A table of more than `KERNEL_ROWS` rows is represented by a seeded sample of
    them.
    """
    a, b = (_some_rows(points(table, schema)) for table in (real, synthetic))
    rng = generator(1)
    worst = 0.0
    for width in widths:
        # weights change nothing in the kernels, so each draw of centres serves ten sets of weights
        draws = [
            (rng.uniform(-1, 1, (CENTRES, a.shape[1])), rng.uniform(0, 1, (CENTRES, CENTRES)))
            for _ in range(KERNEL_QUERIES // CENTRES // len(widths))
        ]
        centres = np.concatenate([centre for centre, _ in draws])
        weights = np.array([weight / weight.sum(axis=1, keepdims=True) for _, weight in draws])
        gap = (_kernels(a, centres, width) - _kernels(b, centres, width)).reshape(len(draws), CENTRES, 1)
        worst = max(worst, float(np.abs(weights @ gap).max()))
    return worst


def correlation_error(real: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema) -> float:
    """Return the mean absolute difference of the pairwise correlations of the numeric columns, 0 to 2.

    An undefined correlation, of a constant column, counts 0.
    """
    names = numeric(schema)
    a, b = (t[names].astype(float).corr().fillna(0.0).to_numpy() for t in (real, synthetic))
    upper = np.triu_indices(len(names), 1)
    return float(np.abs(a[upper] - b[upper]).mean())


def boosting_auc(train: pd.DataFrame, test: pd.DataFrame, schema: Schema, target: str) -> float:
    """Return the AUC on the rows ``test`` of gradient boosting trained on ``train``.

    With more than two classes, the AUC is the mean over classes of one class against all others.  The AUC is .5 if
    ``train`` has a single class, or if ``test`` has rows of one class only or none of a learned class.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    names = [name for name in schema if name != target]
    x, y = _encoded(train, schema, names), train[target].astype(str).to_numpy()
    if len(set(y)) < 2:
        return 0.5
    categorical = [1 < _levels(schema[name]) <= MOST_LEVELS for name in names]
    model = HistGradientBoostingClassifier(random_state=0, categorical_features=categorical)
    truth = test[target].astype(str).to_numpy()
    with threadpool_limits(1):  # not earlier: it limits the libraries that are loaded
        scores = model.fit(x, y).predict_proba(_encoded(test, schema, names))
    present = [i for i, level in enumerate(model.classes_) if 0 < (truth == level).sum() < len(truth)]
    return float(np.mean([roc_auc_score(truth == model.classes_[i], scores[:, i]) for i in present] or [0.5]))


def propensity_ratio(real: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema) -> float:
    """Return the pMSE over its expectation for two samples of one law (Snoke et al. 2018); 1 is ideal.

    The pMSE is the mean squared error of propensities.  A logistic regression on standardised numbers and level
    indicators separates real from synthetic rows.  Let k be the number of slopes and c the fraction of synthetic rows
    among N.  Two fresh samples of one law have an expected pMSE of k (1 - c) c / N.  (Snoke's (1 - c)^2 c is for rows
    drawn from a model fitted to the real table at hand.)
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
        warnings.simplefilter("ignore", LinAlgWarning)  # a quasi-Newton method is then taken
        solver = "newton-cholesky" if x.shape[1] <= FEW_SLOPES else "lbfgs"
        scores = LogisticRegression(C=1e4, max_iter=300, solver=solver).fit(x, label).predict_proba(x)[:, 1]
    expected = np.linalg.matrix_rank(x.T @ x) * (1 - share) * share / len(label)
    return float(np.mean((scores - share) ** 2) / max(expected, 1e-300))


def closest_records(real: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema) -> dict[str, float]:
    """Return distances between rows by name, which are no evidence about privacy, in either direction.

    "closest_synthetic" is the median Gower distance of synthetic rows to the closest real row.  "closest_real" is the
    median distance of real rows to the closest other real row.  "copies" is the fraction of synthetic rows that equal a
    real row.
    """
    a, b = (_scaled_rows(table, schema) for table in (real, synthetic))
    rng = generator(0)
    some_a, some_b = (rng.permutation(len(t))[:NEIGHBOURS] for t in (a, b))
    keys = {row.tobytes() for row in a}
    return {
        "closest_synthetic": float(np.median(_closest(b[some_b], a))),
        "closest_real": float(np.median(_closest(a[some_a], a, itself=some_a))),
        "copies": float(np.mean([row.tobytes() in keys for row in b])),
    }


def numeric(schema: Schema) -> list[str]:
    """Return the names of the columns of numbers; times are not among them."""
    return [name for name, column in schema.items() if column.quantity == "number"]


def points(table: pd.DataFrame, schema: Schema) -> FloatArray:
    """Return the numeric columns scaled to [-1, 1] by the schema's bounds, (n, columns); missing values become 0.

    Kernel queries are evaluated at these points.
    """
    columns = []
    for name in numeric(schema):
        x, lower, upper = _numbers(table[name], schema[name])
        columns.append(np.nan_to_num((2 * x - lower - upper) / ((upper - lower) or 1), nan=0.0))
    return np.column_stack(columns)


def _numbers(values: pd.Series, column: Any) -> tuple[FloatArray, float, float]:
    """Return a column's values as floats, (rows,), NaN where missing, and its lower and upper bound.

    Times become microseconds.
    """
    if column.quantity == "moment":
        moments = pd.to_datetime(values, utc=True, errors="coerce").dt.tz_localize(None)
        return _steps(moments.to_numpy().astype("datetime64[us]"), column)
    if column.temporal:
        return _steps(pd.to_timedelta(values).to_numpy().astype("timedelta64[us]"), column)
    return values.to_numpy(dtype=float, na_value=np.nan), *bounds_of(column)


def _steps(ticks: AnyArray, column: Column) -> tuple[FloatArray, float, float]:
    """Return times as floats in microseconds, (rows,), NaN where missing, and the column's lower and upper bound."""
    return np.where(np.isnat(ticks), np.nan, ticks.astype(np.int64).astype(np.float64)), *bounds_of(column)


def _some_rows(x: FloatArray) -> FloatArray:
    """Return at most `KERNEL_ROWS` rows of an array (n, columns), a seeded random choice, so that kernels take seconds."""
    return x if len(x) <= KERNEL_ROWS else x[generator(2).choice(len(x), KERNEL_ROWS, replace=False)]


def _kernels(x: FloatArray, centres: FloatArray, width: float) -> FloatArray:
    """Return the mean over points of the Gaussian kernel around each centre, (centres,), to about six digits.

    Matrix products in 32 bits save time.
    """
    ones = np.ones((len(x), 1))
    points = np.hstack([x, (x**2).sum(axis=1, keepdims=True), ones]).astype(np.float32)
    by_centre = np.vstack([centres.T, np.full((1, len(centres)), -0.5), -0.5 * (centres**2).sum(axis=1)]) / width**2
    factors, sums = by_centre.astype(np.float32), np.zeros(len(centres))
    for begin in range(0, len(x), KERNEL_BLOCK):
        for at in range(0, len(centres), KERNEL_BLOCK):
            exponents = points[begin : begin + KERNEL_BLOCK] @ factors[:, at : at + KERNEL_BLOCK]
            np.exp(np.minimum(exponents, 0, out=exponents), out=exponents)
            sums[at : at + KERNEL_BLOCK] += exponents.sum(axis=0)
    return sums / len(x)


def distance(a: IntArray, b: IntArray, clique: tuple[int, ...], sizes: Sequence[int]) -> float:
    """Return the total variation distance, 0 to 1, of two tables' marginals of some columns of codes."""
    shape = [sizes[j] for j in clique]
    cells = int(np.prod(shape))
    p, q = (np.bincount(np.ravel_multi_index(c[:, clique].T, shape), minlength=cells) / len(c) for c in (a, b))
    return float(0.5 * np.abs(p - q).sum())


def _encoded(table: pd.DataFrame, schema: Schema, names: Sequence[str]) -> FloatArray:
    """Return the features of boosting, (rows, columns): numbers, and codes of levels; NaN where missing."""
    columns: list[FloatArray] = []
    for name in names:
        if schema[name].measured:
            columns.append(np.asarray(_numbers(table[name], schema[name])[0], np.float64))
        else:
            code = _codes(table[name], schema[name])
            columns.append(np.where(code < 0, np.nan, code).astype(np.float64))
    return np.column_stack(columns)


def _levels(column: Column) -> int:
    """Return the number of levels of a column, 0 for numbers and moments, which are no categories to boosting."""
    if column.measured:
        return 0
    return len(labels_of(column))


def _codes(values: pd.Series[Any], column: Column) -> IntArray:
    """Return the position of each value among a column's levels, (rows,); -1 for missing and other values."""
    position = {level: i for i, level in enumerate(labels_of(column))}
    codes, different = pd.factorize(values)
    return np.array([*(position.get(value, -1) for value in different), -1], np.int64)[codes]


def _indicators(table: pd.DataFrame, schema: Schema) -> FloatArray:
    """Return the regressors of the propensity model, (rows, regressors), standardised.

    Regressors are numbers with missing values in the middle, and indicators of missing values and of levels.  One level
    is left out, since the others tell it.  Constant regressors are left out, so that there may be none.
    """
    columns = []
    for name, column in schema.items():
        if column.measured:
            x, lower, upper = _numbers(table[name], column)
            columns += [np.nan_to_num((x - lower) / ((upper - lower) or 1), nan=0.5), np.isnan(x).astype(float)]
        else:
            code = _codes(table[name], column)
            columns += [(code == level).astype(float) for level in range(-1, len(labels_of(column)) - 1)]
    kept = [x - x.mean() for x in columns if x.std() > 0]
    return np.column_stack([x / x.std() for x in kept]) if kept else np.zeros((len(table), 0))


def _scaled_rows(table: pd.DataFrame, schema: Schema) -> FloatArray:
    """Return rows for Gower's distance, (rows, columns).

    Numbers become fractions of their range, and missing numbers -1.  Levels become multiples of 10, so that different
    levels differ by more than 1.
    """
    columns = []
    for name, column in schema.items():
        if column.measured:
            x, lower, upper = _numbers(table[name], column)
            columns.append(np.nan_to_num((x - lower) / ((upper - lower) or 1), nan=-1.0))
        else:
            columns.append(np.asarray(10.0 * (1 + _codes(table[name], column).astype(np.float64)), np.float64))
    return np.ascontiguousarray(np.column_stack(columns))


def _closest(rows: FloatArray, others: FloatArray, itself: IntArray | None = None) -> FloatArray:
    """Return each row's Gower distance to the closest other row, (rows,) from 0 to 1.

    Gower's distance is the mean over columns of differences that are at most 1.  ``itself`` gives the position of each
    row among ``others``; this other row is left out.
    """
    found = np.full(len(rows), np.inf, np.float32)
    columns, wanted = (np.ascontiguousarray(part.T, np.float32) for part in (others, rows))
    for begin in range(0, len(rows), NEIGHBOUR_BLOCK):
        some = slice(begin, begin + NEIGHBOUR_BLOCK)
        own = None if itself is None else itself[some]
        for at in range(0, len(others), OTHERS_BLOCK):
            near = slice(at, at + OTHERS_BLOCK)
            gaps = np.zeros((len(found[some]), len(others[near])), np.float32)
            for column, values in zip(columns, wanted, strict=True):
                gap = np.abs(column[near] - values[some, None])
                gaps += np.minimum(gap, 1, out=gap)
            if own is not None:
                inside = np.flatnonzero((own >= at) & (own < at + OTHERS_BLOCK))
                gaps[inside, own[inside] - at] = np.inf
            np.minimum(found[some], gaps.min(axis=1), out=found[some])
    return np.asarray(found / rows.shape[1], np.float64)
