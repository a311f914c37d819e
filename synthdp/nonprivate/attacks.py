"""NON-PRIVATE attacks on a synthetic table: how often each succeeds against some people's rows.

Each is made once against rows that the synthetic table was made of (members), and once against as many rows that it was not
made of (the control group).  What succeeds equally often against both is what the table tells of everybody.
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
from synthdp.domain.encoder import Labels
from synthdp.errors import DataError
from synthdp.nonprivate.evaluate import as_pandas
from synthdp.randomness import Generator
from synthdp.schema.columns import Categorical
from synthdp.schema.schema import Schema
from synthdp.tables.source import Source
from synthdp.tables.sources.dataframe import frame_of

WHO = ("train", "synthetic", "holdout")
"""The three tables of an attack, by name."""

BINS = 32
"""Cells of a column of numbers where whole distributions are compared; its quantiles in the synthetic table part them.
Tuned; not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of one of the three tables.

    Parameters
    ----------
    exact
        (n, d) codes of the values; rows with equal codes have equal values, in all three tables.
    coarse
        (n, d) the same, numbers in at most 32 cells.
    values
        (n, d) numbers as they are, NaN where missing; of labels their codes.
    """

    exact: IntArray
    coarse: IntArray
    values: FloatArray

    def __len__(self) -> int:
        return len(self.exact)

    def part(self, rows: IntArray) -> Table:
        """Return some of the rows."""
        return Table(exact=self.exact[rows], coarse=self.coarse[rows], values=self.values[rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The three tables, and what their columns are.

    Parameters
    ----------
    names
        Columns that all three have.
    numeric
        Of each, whether it holds numbers.
    sizes, coarse_sizes
        How many codes each has.
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
    """Read a training, a synthetic and a held-out table, in this order.

    Raises
    ------
    DataError
        If one cannot be read or has no rows, or they have no column in common.
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
    """Return a table as pandas has it, read by the schema if there is one."""
    if schema is not None:
        return as_pandas(table, schema, who)
    if not isinstance(table, Source):
        return frame_of(table).to_pandas()
    columns = {name: Categorical() for name in table.names}
    blocks = [{name: _labels(block[name]) for name in columns} for block in table.blocks(columns)]
    return pd.concat([pd.DataFrame(block) for block in blocks], ignore_index=True)


def _labels(raw: Any) -> Any:
    """Return raw values as an array of values, None or nan where missing."""
    if isinstance(raw, Labels):
        levels = np.empty(len(raw.levels) + 1, object)
        levels[:-1] = raw.levels
        return levels[raw.codes]
    return np.where(False if raw.missing is None else raw.missing, np.nan, raw.values)


def _cells(values: FloatArray, like: FloatArray) -> IntArray:
    """Return in which of at most 32 cells each value lies, parted by the quantiles of some; one more for missing values."""
    there = like[~np.isnan(like)]
    shares = np.linspace(0, 1, BINS + 1)[1:-1]
    cuts = np.unique(np.quantile(there, shares, method="nearest")) if len(there) else np.zeros(0)
    return np.where(np.isnan(values), len(cuts) + 1, np.searchsorted(cuts, values, "right")).astype(np.int64)


def _ticks(times: AnyArray) -> pd.Series[Any]:
    """Return times as numbers, nan where missing."""
    return pd.Series(np.where(np.isnat(times), np.nan, times.astype(np.int64).astype(np.float64)))


def _numbers_or_texts(columns: Sequence[pd.Series[Any]]) -> tuple[bool, pd.Series[Any]]:
    """Return whether a column of three tables holds numbers, and its values in all three, one after the other."""
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
"""Persons attacked by linkage and by nearest rows (derived: 2.58 sqrt(.5 / 2000), half of a 99 % interval, is 4 points)."""

NEAREST = 10
"""Synthetic rows that an attacker takes for one person's, on each side of a linkage (anonymeter's usual number)."""

GUESSES, CONDITIONS = 4_000, (3, 8)
"""Guesses tried to single somebody out, and how many conditions each has; most are of no use, as they fit many rows."""

TREES, LEAF, DEEP = 50, 5, 16
"""The attacker's random forest: trees, fewest rows of a leaf, and levels; Adult takes some seconds."""

GAIN, TOLERANCE = 0.3, 0.05
"""When RAPID counts a prediction as a disclosure: normalised gain of a label, relative error of a number (its authors')."""

FEW_NUMBERS = 20
"""A target of numbers with at most this many different values is taken as labels."""

TRIPLES = 100
"""Triples of columns, drawn at random, of the membership attack, beside all pairs."""

BLOCK, OTHERS = 64, 4_096
"""Rows whose distances are held at once: they stay in the processor's cache."""


def copied(rows: Table, synthetic: Table) -> IntArray:
    """Say of each row whether the whole row comes in the synthetic table, value by value."""
    here, there = _grouped(rows, synthetic, [*range(rows.exact.shape[1])])
    return np.asarray(np.isin(here, there), np.int64)


def replicated_uniques(rows: Table, synthetic: Table, keys: list[int]) -> IntArray:
    """Say of each row whether its keys are unique among the rows and unique in the synthetic table (RepU)."""
    here, there = _grouped(rows, synthetic, keys)
    groups = int(max(here.max(), there.max())) + 1
    once = (np.bincount(here, minlength=groups) == 1) & (np.bincount(there, minlength=groups) == 1)
    return np.asarray(once[here], np.int64)


def disclosive(rows: Table, synthetic: Table, keys: list[int], target: int) -> IntArray:
    """Say of each row whether all synthetic rows with its keys have one target, and it is the row's own (DiSCO)."""
    here, there = _grouped(rows, synthetic, keys)
    groups = int(max(here.max(), there.max())) + 1
    low, high = np.full(groups, np.iinfo(np.int64).max), np.full(groups, -1, np.int64)
    told = synthetic.exact[:, target]
    np.minimum.at(low, there, told)
    np.maximum.at(high, there, told)
    return np.asarray((low[here] == high[here]) & (low[here] == rows.exact[:, target]), np.int64)


def predicted(rows: list[Table], tables: Tables, keys: list[int], target: int, rng: Generator) -> list[IntArray]:
    """Say of each row whether a model of the synthetic table gives its target away (RAPID, Templ et al. 2026)."""
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
    """Say of each predicate that fits one synthetic row whether it fits exactly one of the rows of a table."""
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
    """Say of each row whether its keys and its other columns, looked up apart, lead to one synthetic row."""
    sides = [_nearest(rows, tables, columns, NEAREST) for columns in (keys, others)]
    return np.array([bool(set(a) & set(b)) for a, b in zip(*sides, strict=True)], np.int64)


def inferred(rows: Table, tables: Tables, keys: list[int], target: int) -> IntArray:
    """Say of each row whether the synthetic row that is nearest by its keys has its target."""
    nearest = _nearest(rows, tables, keys, 1)[:, 0]
    if tables.numeric[target] and tables.sizes[target] > FEW_NUMBERS:
        return _near(tables.synthetic.values[nearest, target], rows.values[:, target])
    return np.asarray(tables.synthetic.exact[nearest, target] == rows.exact[:, target], np.int64)


def membership_scores(rows: list[Table], reference: Table, tables: Tables, rng: Generator) -> list[FloatArray]:
    """Score each row by how much more often its values come in the synthetic table than in a reference without it.

    The attacker knows other people of the same population (the reference).  For each pair of columns, some triples and the
    whole row, a cell that is expected to hold λ rows and holds s of them speaks for a member by s log(1 + 1/λ) - 1, the
    log-likelihood ratio of one row more in a Poisson count.
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
    """Return the area under the curve of a score that tells members from others, and its standard error (DeLong 1988)."""
    m, n = len(members), len(control)
    ranks = rankdata(np.concatenate([members, control]))
    of_members = (ranks[:m] - rankdata(members)) / n
    of_control = 1 - (ranks[m:] - rankdata(control)) / m
    error = np.sqrt(np.var(of_members, ddof=1) / m + np.var(of_control, ddof=1) / n) if min(m, n) > 1 else 0.5
    return float(of_members.mean()), float(error)


def closest_distance(rows: Table, tables: Tables) -> float:
    """Return the median distance of a row to the closest synthetic one: no evidence about privacy, in either direction."""
    return float(np.median(_distances(rows, tables, [*range(len(tables.names))], 1)[1]))


def _nearest(rows: Table, tables: Tables, columns: list[int], k: int) -> IntArray:
    """Return the k nearest rows of a table for each row, by number."""
    return _distances(rows, tables, columns, k)[0]


def _distances(rows: Table, tables: Tables, columns: list[int], k: int) -> tuple[IntArray, FloatArray]:
    """Return the k synthetic rows nearest to each row, and the distance of the nearest: Gower's, the mean over columns."""
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
    """Return columns whose values differ by at most 1: numbers over the range of the synthetic ones, labels 0 or 1."""
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
    """Return how many rows meet all conditions: a number at least as far out as the value, or the label itself."""
    kept = np.arange(len(table))
    for j, value, code in conditions:
        if numeric[j] and not np.isnan(value):
            values = table.values[kept, j]
            kept = kept[values >= value] if value > middle[j] else kept[values <= value]
        else:
            kept = kept[table.exact[kept, j] == code]
    return len(kept)


def _near(guesses: FloatArray, truth: FloatArray) -> IntArray:
    """Say which guesses of numbers are off by at most 5 %, relative to the mean of both; none is near a missing value."""
    with np.errstate(invalid="ignore"):
        error = 2 * np.abs(truth - guesses) / (np.abs(truth) + np.abs(guesses) + 2 * 0.01)
        return np.asarray(error <= TOLERANCE, np.int64)


def _median(values: FloatArray) -> float:
    """Return the median of the values that are there, 0 if none is."""
    there = values[~np.isnan(values)]
    return float(np.median(there)) if len(there) else 0.0


def _grouped(rows: Table, synthetic: Table, keys: list[int]) -> list[IntArray]:
    """Return for both tables the number of each row's combination of keys."""
    return _groups([rows.exact[:, keys], synthetic.exact[:, keys]])


def _groups(parts: list[IntArray]) -> list[IntArray]:
    """Return a number for each row of several code tables, equal where the rows are."""
    whole = np.concatenate(parts)
    group = whole[:, 0]
    for j in range(1, whole.shape[1]):
        _, group = np.unique(group * (whole[:, j].max() + 1) + whole[:, j], return_inverse=True)
    _, group = np.unique(group, return_inverse=True)
    return np.split(group, np.cumsum([len(part) for part in parts])[:-1])
