"""NON-PRIVATE attacks on a synthetic table: each attack returns its success for every attacked row.

Each attack runs twice: against training rows (members), and against holdout rows (the control group).  The synthetic
table was not made of holdout rows.  A success rate that is equal in both groups discloses nothing about members in
particular.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata
from threadpoolctl import threadpool_limits

from synthdp.arrays import AnyArray, FloatArray, IntArray
from synthdp.errors import DataError
from synthdp.nonprivate.evaluate import array_of, as_pandas
from synthdp.randomness import Generator
from synthdp.schema.columns import Categorical
from synthdp.schema.schema import Schema
from synthdp.tables.dataframe import frame_of
from synthdp.tables.source import Source

WHO = ("train", "synthetic", "holdout")
"""The three tables of an attack by name, in the order of `joint_tables`; a convention."""

BINS = 32
"""Coarse cells of a column of numbers, at most; quantiles of the synthetic column bound them.  The membership attack
counts rows in these cells.  More cells tell more about a row, but most are then empty.  A convention: as many as `bins`
of a release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of one of the three tables.

    Parameters
    ----------
    exact
        (n, d) codes of the values; rows with equal codes have equal values, in all three tables.
    coarse
        (n, d) codes with numbers binned into at most `BINS` cells.
    values
        (n, d) numbers, NaN where missing; labels are given by their codes.
    """

    exact: IntArray
    coarse: IntArray
    values: FloatArray

    def __len__(self) -> int:
        return len(self.exact)

    def part(self, rows: IntArray) -> Table:
        """Return a table of the given row numbers, in their order."""
        return Table(exact=self.exact[rows], coarse=self.coarse[rows], values=self.values[rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The three tables of an attack, with common codes for their shared columns.

    Parameters
    ----------
    names
        Names of the columns in all three tables.
    numeric
        Whether each column holds numbers.
    sizes, coarse_sizes
        Number of exact and of coarse codes of each column.
    train, synthetic, holdout
        The rows.
    """

    names: tuple[str, ...]
    numeric: tuple[bool, ...]
    sizes: tuple[int, ...]
    coarse_sizes: tuple[int, ...]
    train: Table
    synthetic: Table
    holdout: Table


def joint_tables(tables: Sequence[Any], schema: Schema | None) -> Tables:
    """Return a training, a synthetic and a held-out table, in this order, with common codes for shared columns.

    Codes are numbered over all three tables together, so that equal codes mean equal values.  The schema's identifiers
    are left out.

    Raises
    ------
    DataError
        If a table cannot be read or has no rows, or the three tables have no column in common.
    """
    frames = [_frame(table, schema, who) for table, who in zip(tables, WHO, strict=True)]
    names = [name for name in frames[1].columns if all(name in frame.columns for frame in frames)]
    if schema is not None:
        names = [name for name in names if not schema[name].names_rows]
    if not names:
        raise DataError(
            "the train, synthetic and holdout tables have no column in common: give tables with the same columns"
        )
    for frame, who in zip(frames, WHO, strict=True):
        if not len(frame):
            raise DataError(f"the {who} table has no rows: give a table with rows")
    ends = np.cumsum([len(frame) for frame in frames])[:-1]
    exact, coarse, values, numeric = [], [], [], []
    for name in names:
        number, column = _numbers_or_texts([frame[name] for frame in frames])
        codes, different = pd.factorize(column, use_na_sentinel=False)
        numeric.append(number)
        exact.append(codes.astype(np.int64))
        if number:
            inner = np.asarray(column, np.float64)
            coarse.append(_cells(inner, inner[ends[0] : ends[1]]) if len(different) > BINS else exact[-1])
            values.append(inner)
        else:
            coarse.append(exact[-1])
            values.append(codes.astype(np.float64))
    whole = Table(exact=np.column_stack(exact), coarse=np.column_stack(coarse), values=np.column_stack(values))
    parts = [whole.part(rows) for rows in np.split(np.arange(len(whole)), ends)]
    return Tables(
        names=tuple(names), numeric=tuple(numeric), train=parts[0], synthetic=parts[1], holdout=parts[2],
        sizes=tuple((whole.exact.max(axis=0) + 1).tolist()), coarse_sizes=tuple((whole.coarse.max(axis=0) + 1).tolist()),
    )  # fmt: skip


def _frame(table: Any, schema: Schema | None, who: str) -> pd.DataFrame:
    """Return a table as a pandas frame of values; a schema, if given, decides how values are read.

    A file without a schema is read as labels, so that nothing in it is missed.
    """
    if schema is not None:
        return as_pandas(table, schema, who)
    if not isinstance(table, Source):
        return frame_of(table).to_pandas()
    columns = {name: Categorical() for name in table.names}
    blocks = [
        {name: array_of(column, block[name]) for name, column in columns.items()} for block in table.blocks(columns)
    ]
    return pd.concat([pd.DataFrame(block) for block in blocks], ignore_index=True)


def _cells(values: FloatArray, like: FloatArray) -> IntArray:
    """Return each value's coarse cell, (rows,) from 0, in which the membership attack counts rows.

    Up to 31 quantiles of ``like`` bound the cells.  NaN has its own cell.
    """
    there = like[~np.isnan(like)]
    shares = np.linspace(0, 1, BINS + 1)[1:-1]
    cuts = np.unique(np.quantile(there, shares, method="nearest")) if len(there) else np.zeros(0)
    return np.where(np.isnan(values), len(cuts) + 1, np.searchsorted(cuts, values, "right")).astype(np.int64)


def _ticks(times: AnyArray) -> pd.Series[Any]:
    """Return times as a series of floats in the array's time unit, NaN where missing: attacks compare numbers."""
    return pd.Series(np.where(np.isnat(times), np.nan, times.astype(np.int64).astype(np.float64)))


def _numbers_or_texts(columns: Sequence[pd.Series[Any]]) -> tuple[bool, pd.Series[Any]]:
    """Return whether a column of three tables holds numbers, and its values in all three tables, concatenated.

    Times become microseconds.  Texts that all are numbers become numbers: one of the tables may come from a CSV file.
    """
    parts = []
    for column in columns:
        if pd.api.types.is_datetime64_any_dtype(column):
            moments = pd.to_datetime(column, utc=True).dt.tz_localize(None).to_numpy().astype("datetime64[us]")
            parts.append(_ticks(moments))
        elif pd.api.types.is_timedelta64_dtype(column):
            parts.append(_ticks(column.to_numpy().astype("timedelta64[us]")))
        elif pd.api.types.is_bool_dtype(column) or not pd.api.types.is_numeric_dtype(column):
            parts.append(pd.Series(column.astype(object).where(column.notna(), None)))
        else:
            parts.append(pd.Series(column.to_numpy(dtype=np.float64, na_value=np.nan)))
    whole = pd.concat([part.reset_index(drop=True) for part in parts], ignore_index=True)
    if whole.dtype != object:
        return True, whole
    there = whole.notna()
    texts = whole[there].astype(str)
    numbers = pd.to_numeric(texts, errors="coerce")
    if len(numbers) and numbers.notna().all():
        found = pd.Series(np.nan, index=whole.index)
        found[there] = numbers.astype(np.float64)
        return True, found
    whole[there] = texts
    return False, whole


ATTACKS = 2_000
"""Rows of each group that linkage and nearest-row attacks use, at most.  Derived: 2.58 sqrt(.5 / 2000), half of a 99 %
interval of a difference, is 4 points."""

NEAREST = 10
"""Nearest synthetic rows that a linkage attacker looks up by the keys, and again by the other columns.  A convention:
anonymeter's usual number."""

GUESSES, CONDITIONS = 4_000, (3, 8)
"""Guesses that try to single somebody out, and the fewest and most conditions of a guess.  Most guesses fit many
synthetic rows and are dropped.  Safety limits of time."""

TREES, LEAF, DEEP = 50, 5, 16
"""Size of the attacker's random forest: trees, fewest rows of a leaf, and depth.  Safety limits of time: Adult takes
some seconds."""

GAIN, TOLERANCE = 0.3, 0.05
"""Smallest normalised gain of a label and largest relative error of a number at which RAPID counts a disclosure.  A
convention: the values of RAPID's authors."""

FEW_NUMBERS = 20
"""Different values of a numeric target, at most, for which the attacks treat the numbers as labels.  A guess of a label
must be exact, and a guess of a number may be off by `TOLERANCE`.  Not measured."""

TRIPLES = 100
"""Random triples of columns that the membership attack counts, at most; all pairs are counted too.  A safety limit of
time."""

BLOCK, OTHERS = 64, 4_096
"""Attacked rows and synthetic rows whose distances are computed at once.  Safety limits of memory: they fit the
processor's cache."""


def copied(rows: Table, synthetic: Table) -> IntArray:
    """Return 1 for each row that equals a synthetic row in every column, else 0, (rows,)."""
    here, there = _grouped(rows, synthetic, [*range(rows.exact.shape[1])])
    return np.asarray(np.isin(here, there), np.int64)


def replicated_uniques(rows: Table, synthetic: Table, keys: list[int]) -> IntArray:
    """Return 1 for each row whose keys are unique in both tables (RepU), else 0, (rows,)."""
    here, there = _grouped(rows, synthetic, keys)
    groups = int(max(here.max(), there.max())) + 1
    once = (np.bincount(here, minlength=groups) == 1) & (np.bincount(there, minlength=groups) == 1)
    return np.asarray(once[here], np.int64)


def disclosive(rows: Table, synthetic: Table, keys: list[int], target: int) -> IntArray:
    """Return 1 for each row whose keys disclose its target (DiSCO), else 0, (rows,).

    Keys disclose if all synthetic rows with these keys have one target value, and the row has this value too.
    """
    here, there = _grouped(rows, synthetic, keys)
    groups = int(max(here.max(), there.max())) + 1
    low, high = np.full(groups, np.iinfo(np.int64).max), np.full(groups, -1, np.int64)
    told = synthetic.exact[:, target]
    np.minimum.at(low, there, told)
    np.maximum.at(high, there, told)
    return np.asarray((low[here] == high[here]) & (low[here] == rows.exact[:, target]), np.int64)


def predicted(rows: list[Table], tables: Tables, keys: list[int], target: int, rng: Generator) -> list[IntArray]:
    """Return 1 for each row whose target a model discloses, else 0, one (rows,) array for each table (RAPID).

    The attack is by Templ et al. (2026).  The model is a random forest of the target on the keys, fitted to the
    synthetic table.  `GAIN` and `TOLERANCE` define a disclosure of a label and of a number.
    """
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    synthetic = tables.synthetic
    x = [np.nan_to_num(table.values[:, keys], nan=-1.0) for table in (synthetic, *rows)]
    settings = {"n_estimators": TREES, "min_samples_leaf": LEAF, "max_depth": DEEP, "max_samples": 0.5}
    settings["random_state"] = int(rng.integers(2**31))
    if tables.numeric[target] and tables.sizes[target] > FEW_NUMBERS:
        y = synthetic.values[:, target]
        there = ~np.isnan(y)
        if not there.any():
            return [np.zeros(len(table), np.int64) for table in rows]
        with threadpool_limits(1):
            model = RandomForestRegressor(**settings).fit(x[0][there], y[there])
            guesses = [model.predict(part) for part in x[1:]]
        return [_near(guess, table.values[:, target]) for guess, table in zip(guesses, rows, strict=True)]
    classes, label = np.unique(synthetic.exact[:, target], return_inverse=True)
    usual = np.zeros(tables.sizes[target])
    usual[classes] = np.bincount(label) / len(label)
    place = np.full(tables.sizes[target], -1)
    place[classes] = np.arange(len(classes))
    with threadpool_limits(1):
        model = RandomForestClassifier(**settings).fit(x[0], label)
        chances = [model.predict_proba(part) for part in x[1:]]
    found = []
    for chance, table in zip(chances, rows, strict=True):
        truth = table.exact[:, target]
        known = place[truth] >= 0
        p = np.where(known, chance[np.arange(len(truth)), place[truth]], 0.0)
        found.append((p - usual[truth] > GAIN * (1 - usual[truth])).astype(np.int64))
    return found


def singled_out(rows: list[Table], tables: Tables, rng: Generator) -> list[IntArray]:
    """Return for each table whether each guess fits exactly one of its rows, (guesses,) of 0 and 1.

    A guess is a conjunction of conditions on random columns, taken from a synthetic row.  Guesses that fit several
    synthetic rows are left out.
    """
    synthetic, columns = tables.synthetic, len(tables.names)
    middle = [_median(synthetic.values[:, j]) for j in range(columns)]
    found: list[list[bool]] = [[] for _ in rows]
    fewest, most = (min(many, columns) for many in CONDITIONS)
    for _ in range(GUESSES):
        row = int(rng.integers(len(synthetic)))
        chosen = rng.choice(columns, int(rng.integers(fewest, most + 1)), replace=False)
        conditions = [(int(j), synthetic.values[row, j], int(synthetic.exact[row, j])) for j in chosen]
        if _fitting(synthetic, conditions, tables.numeric, middle) == 1:
            for one, table in zip(found, rows, strict=True):
                one.append(_fitting(table, conditions, tables.numeric, middle) == 1)
    return [np.array(one, np.int64) for one in found]


def linked(rows: Table, tables: Tables, keys: list[int], others: list[int]) -> IntArray:
    """Return 1 for each row whose keys and other columns lead to a common synthetic row, else 0, (rows,).

    The `NEAREST` synthetic rows are looked up by the keys alone and by the other columns alone.
    """
    sides = [_nearest(rows, tables, columns, NEAREST) for columns in (keys, others)]
    return np.array([bool(set(a) & set(b)) for a, b in zip(*sides, strict=True)], np.int64)


def inferred(rows: Table, tables: Tables, keys: list[int], target: int) -> IntArray:
    """Return 1 for each row whose target equals the target of the synthetic row with the nearest keys, else 0, (rows,).

    Many-valued numbers count as equal within `TOLERANCE`.
    """
    nearest = _nearest(rows, tables, keys, 1)[:, 0]
    if tables.numeric[target] and tables.sizes[target] > FEW_NUMBERS:
        return _near(tables.synthetic.values[nearest, target], rows.values[:, target])
    return np.asarray(tables.synthetic.exact[nearest, target] == rows.exact[:, target], np.int64)


def membership_scores(rows: list[Table], reference: Table, tables: Tables, rng: Generator) -> list[FloatArray]:
    """Return a membership score for each row of each table, (rows,) nats; a higher score suggests a member.

    The attacker knows other people of the same population (the reference) and counts rows in cells.  The cells belong
    to all pairs of columns, some triples, and the whole row.  A cell with expected count λ and synthetic count s adds s
    log(1 + 1/λ) - 1.  That is the log-likelihood ratio of one row more in a Poisson count.
    """
    columns = len(tables.names)
    cliques = [*itertools.combinations(range(columns), 2)]
    if columns > 2:
        drawn = {tuple(sorted(rng.choice(columns, 3, replace=False).tolist())) for _ in range(TRIPLES)}
        cliques += sorted(drawn)
    scores = [np.zeros(len(table)) for table in rows]
    everything = [tables.synthetic, reference, *rows]
    for clique in [*cliques, None]:
        if clique is None:
            cells = _groups([table.exact for table in everything])
        else:
            shape = [tables.coarse_sizes[j] for j in clique]
            cells = [np.ravel_multi_index(tuple(table.coarse[:, list(clique)].T), shape) for table in everything]
            if np.prod(shape, dtype=float) > 4 * sum(map(len, cells)):
                cells = _groups([one[:, None] for one in cells])
        size = max(int(one.max()) for one in cells) + 1
        held, expected = (np.bincount(one, minlength=size).astype(np.float64) for one in cells[:2])
        expected = (expected + 0.5) * len(tables.synthetic) / len(reference)
        evidence = held * np.log1p(1 / expected) - 1
        for score, one in zip(scores, cells[2:], strict=True):
            score += evidence[one]
    return scores


def auc_with_error(members: FloatArray, control: FloatArray) -> tuple[float, float]:
    """Return the area under the curve of a score, and its standard error (DeLong 1988); members should score higher.

    A group of a single row gives an error of 0.5.
    """
    m, n = len(members), len(control)
    ranks = rankdata(np.concatenate([members, control]))
    of_members = (ranks[:m] - rankdata(members)) / n
    of_control = 1 - (ranks[m:] - rankdata(control)) / m
    error = np.sqrt(np.var(of_members, ddof=1) / m + np.var(of_control, ddof=1) / n) if min(m, n) > 1 else 0.5
    return float(of_members.mean()), float(error)


def closest_distance(rows: Table, tables: Tables) -> float:
    """Return the median over rows of Gower's distance to the closest synthetic row, 0 to 1.

    The distance is no evidence about privacy, in either direction; boards ask for it.
    """
    return float(np.median(_distances(rows, tables, [*range(len(tables.names))], 1)[1]))


def _nearest(rows: Table, tables: Tables, columns: list[int], k: int) -> IntArray:
    """Return the positions of the ``k`` synthetic rows nearest to each row by ``columns``, (rows, k), nearest first.

    Nearest by Gower's distance; k is at most the number of synthetic rows.
    """
    return _distances(rows, tables, columns, k)[0]


def _distances(rows: Table, tables: Tables, columns: list[int], k: int) -> tuple[IntArray, FloatArray]:
    """Return the positions of each row's ``k`` nearest synthetic rows, (rows, k), and the nearest's distance, (rows,).

    The distance is Gower's: the mean over columns of differences that are at most 1.
    """
    wanted, others = (_scaled(table, tables, columns) for table in (rows, tables.synthetic))
    k = min(k, len(tables.synthetic))
    found, least = np.empty((len(rows), k), np.int64), np.empty(len(rows))
    for begin in range(0, len(rows), BLOCK):
        some = slice(begin, begin + BLOCK)
        gaps = np.empty((len(rows.exact[some]), len(tables.synthetic)), np.float32)
        for at in range(0, len(tables.synthetic), OTHERS):
            near = slice(at, at + OTHERS)
            sums = np.zeros((len(gaps), len(tables.synthetic.exact[near])), np.float32)
            for mine, theirs in zip(wanted, others, strict=True):
                gap = np.abs(theirs[near] - mine[some, None])
                sums += np.minimum(gap, 1, out=gap)
            gaps[:, near] = sums
        least[some] = gaps.min(axis=1)
        every = np.arange(len(gaps))
        for place in range(k):  # the first of equally near rows, on every processor
            nearest = gaps.argmin(axis=1)
            found[some, place] = nearest
            gaps[every, nearest] = np.inf
    return found, least / len(columns)


def _scaled(table: Table, tables: Tables, columns: list[int]) -> list[AnyArray]:
    """Return columns for Gower's distance, one float32 array, (rows,), each.

    Numbers are divided by the range of the synthetic column; missing numbers lie far from all others.  A constant or
    empty column divides by 1.  Codes of labels stay, so that different labels differ by at least 1.
    """
    scaled = []
    for j in columns:
        values = table.values[:, j]
        if tables.numeric[j]:
            like = tables.synthetic.values[:, j]
            there = like[~np.isnan(like)]
            width = float(there.max() - there.min()) if len(there) else 0.0
            values = np.nan_to_num(values / (width or 1.0), nan=1e9)
        scaled.append(np.ascontiguousarray(values, np.float32))
    return scaled


def _fitting(
    table: Table, conditions: list[tuple[int, float, int]], numeric: tuple[bool, ...], middle: list[float]
) -> int:
    """Return how many rows meet all conditions: a guess singles somebody out if exactly one row does.

    A condition on a number is met at or beyond the value, away from the column's median.  A condition on a label, or on
    a missing number, is met by an equal value.
    """
    kept = np.arange(len(table))
    for j, value, code in conditions:
        if numeric[j] and not np.isnan(value):
            values = table.values[kept, j]
            kept = kept[values >= value] if value > middle[j] else kept[values <= value]
        else:
            kept = kept[table.exact[kept, j] == code]
    return len(kept)


def _near(guesses: FloatArray, truth: FloatArray) -> IntArray:
    """Return 1 for each guess of a number that is off by at most 5 %, else 0, (guesses,).

    The error is relative to the mean size of guess and truth, plus 0.01 so that numbers near 0 can be met.  A guess of
    a missing value gives 0.
    """
    with np.errstate(invalid="ignore"):
        error = 2 * np.abs(truth - guesses) / (np.abs(truth) + np.abs(guesses) + 2 * 0.01)
        return np.asarray(error <= TOLERANCE, np.int64)


def _median(values: FloatArray) -> float:
    """Return the median of the values without NaN, 0 if all are NaN.

    A condition of a guess is met by numbers at or beyond a value, on the side away from this median.
    """
    there = values[~np.isnan(values)]
    return float(np.median(there)) if len(there) else 0.0


def _grouped(rows: Table, synthetic: Table, keys: list[int]) -> list[IntArray]:
    """Return two arrays, (rows,) and (synthetic rows,): a number for each row's combination of key values.

    Rows with equal numbers have equal keys, by which an attacker looks rows up.
    """
    return _groups([rows.exact[:, keys], synthetic.exact[:, keys]])


def _groups(parts: list[IntArray]) -> list[IntArray]:
    """Return a group number for each row of several code tables, (rows,) each; equal rows have equal numbers."""
    whole = np.concatenate(parts)
    group = whole[:, 0]
    for j in range(1, whole.shape[1]):
        _, group = np.unique(group * (whole[:, j].max() + 1) + whole[:, j], return_inverse=True)
    _, group = np.unique(group, return_inverse=True)
    return np.split(group, np.cumsum([len(part) for part in parts])[:-1])
