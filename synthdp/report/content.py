"""The numbers of a report: distributions with intervals, associations, the error expected of marginals.

All from a release; post-processing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from synthdp.answers.answer import Asker
from synthdp.answers.bootstrap import Bootstrap
from synthdp.answers.direct import Direct
from synthdp.answers.misfit_shares import MisfitShare, misfit_shares
from synthdp.answers.questions import marginal, quantile
from synthdp.arrays import Clique, Codes, FloatArray
from synthdp.distribution.contingency import cell_index, contingency, table_size
from synthdp.distribution.systematic import systematic_counts
from synthdp.domain.grid import bounds_of, grid_of, has_labels
from synthdp.measurements import Measurements
from synthdp.randomness import Generator, generator
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.column import Column

BINS = 32
SHOWN_LEVELS = 16
ROWS = 50_000
REPLICATES = 4
CLIQUES = 60
MOST_TABLE = 200_000
FEWEST_POINTS, MOST_POINTS = 20_000, 100_000
"""Of the pool in which the error of whole tables is found: two for each row, so that rare combinations have some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnView:
    """What the report shows of one column: shares of rows in per cent, with 95 % intervals.

    Parameters
    ----------
    name, kind
        The column, and its type in words with the source of its bounds or levels.
    labels, shares, lower, upper
        One entry a level or cell.
    ordered
        Whether neighbouring cells are alike: a histogram.
    missing
        Share of missing values and its interval, if the column may have some.
    misfits
        Share of values that did not fit the schema, and its standard error, if it was measured.
    summary
        One sentence: the median, or how many levels are left out.
    """

    name: str
    kind: str
    labels: list[str]
    shares: list[float]
    lower: list[float]
    upper: list[float]
    ordered: bool
    missing: tuple[float, float, float] | None
    misfits: tuple[float, float] | None
    summary: str

    @property
    def numbers(self) -> list[tuple[str, float, float, float]]:
        """Label, share, and both ends of its interval, one entry a level or bin."""
        return list(zip(self.labels, self.shares, self.lower, self.upper, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorView:
    """The error expected of the marginals of one order.

    Parameters
    ----------
    order
        Number of columns.
    distance
        Mean total variation distance between the release's tables and the real ones, by chance and noise.
    like_rows
        So many rows drawn at random from the real table would be as far off.
    tables
        How many tables the mean is over.
    """

    order: int
    distance: float
    like_rows: int
    tables: int


def column_views(model: SyntheticModel, measurements: tuple[Measurements, ...]) -> list[ColumnView]:
    """Return a view of every column but identifiers."""
    asker = Asker(model, measurements)
    total = max(asker.direct.total[0], 1.0)
    misfits = misfit_shares(model, measurements)
    shown = [(name, column) for name, column in model.schema.items() if not column.names_rows]
    return [_column(asker, name, column, total, misfits[name]) for name, column in shown]


def associations(model: SyntheticModel, *, random_state: int = 0) -> tuple[list[str], FloatArray]:
    """Return the columns and how closely each two are associated in the release: Cramér's V with Bergsma's correction."""
    codes = model.distribution.sample(ROWS, generator(random_state))
    kept = [j for j, name in enumerate(model.schema) if not model.schema[name].names_rows]
    matrix = np.eye(len(kept))
    for a, b in itertools.combinations(range(len(kept)), 2):
        matrix[a, b] = matrix[b, a] = cramers_v(codes, model.domain.shape, kept[a], kept[b])
    return [model.domain.names[j] for j in kept], matrix


def cramers_v(codes: Codes, shape: tuple[int, ...], a: int, b: int) -> float:
    """Return the association of two columns of codes, from 0 to 1; corrected for chance (Bergsma 2013)."""
    table = contingency(codes, shape, (min(a, b), max(a, b))).reshape(shape[min(a, b)], shape[max(a, b)])
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    rows, columns = table.shape
    n = float(table.sum())
    if min(rows, columns) < 2:
        return 0.0
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / n
    phi = max(0.0, float(((table - expected) ** 2 / expected).sum()) / n - (rows - 1) * (columns - 1) / (n - 1))
    smaller = min(rows - (rows - 1) ** 2 / (n - 1), columns - (columns - 1) ** 2 / (n - 1)) - 1
    return min(1.0, math.sqrt(phi / smaller))


def expected_errors(
    model: SyntheticModel, measurements: tuple[Measurements, ...], *, random_state: int = 0
) -> list[ErrorView]:
    """Return the error expected of marginals of one, two and three columns, by the bootstrap."""
    direct = Direct(model, measurements)
    if direct.leaves(0) is None:
        return []
    rows = model.rows
    points = min(max(2 * rows, FEWEST_POINTS), MOST_POINTS)
    found = Bootstrap(direct, random_state, size=REPLICATES, points=points).replicates
    order = np.lexsort(found.codes.T[::-1])
    codes, rng = found.codes[order], generator(random_state)
    pairs = [
        (real[order] / real.sum(), systematic_counts(fitted[None, order], np.array([rows]), rng)[0] / rows)
        for real, fitted in zip(found.rows.T[1:], found.fitted.T[1:], strict=True)
        if real.sum() > 0  # of a table of a few rows the noise may leave none
    ]
    if not pairs:
        return []
    views = []
    for size in range(1, min(3, len(model.domain)) + 1):
        cliques = _some_cliques(model.domain.shape, size, rng)
        distances = [_distance(codes, pairs, model.domain.shape, clique) for clique in cliques]
        if distances:
            distance, spread = np.mean(distances, axis=0).tolist()
            like_rows = round((spread / max(2 * distance, 1e-9)) ** 2)
            views.append(ErrorView(order=size, distance=distance, like_rows=like_rows, tables=len(cliques)))
    return views


def _some_cliques(shape: tuple[int, ...], order: int, rng: Generator) -> list[Clique]:
    cliques = [c for c in itertools.combinations(range(len(shape)), order) if table_size(shape, c) <= MOST_TABLE]
    chosen = rng.permutation(len(cliques))[:CLIQUES]
    return [cliques[i] for i in chosen]


def _distance(
    codes: Codes, pairs: Sequence[tuple[FloatArray, FloatArray]], shape: tuple[int, ...], clique: Clique
) -> tuple[float, float]:
    """Return for pairs of weights of points, real and released, the mean distance of their tables of a clique.

    Also the mean sum of sqrt(2 p (1 - p) / pi): sqrt(k) times the L1 error of a random sample of k rows.
    """
    cells, size = cell_index(codes, shape, clique), table_size(shape, clique)
    distance = spread = 0.0
    for real, released in pairs:
        p, q = (np.bincount(cells, weights, minlength=size) for weights in (real, released))
        distance += 0.5 * float(np.abs(p - q).sum())
        spread += float(np.sqrt(2 / math.pi * np.maximum(p * (1 - p), 0.0)).sum())
    return distance / len(pairs), spread / len(pairs)


def _column(asker: Asker, name: str, column: Column, total: float, misfits: MisfitShare | None) -> ColumnView:
    ordered = not has_labels(column)
    answers = asker.ask(marginal(name, bins={name: _bins(column)}) if ordered else marginal(name))
    labels = answers.labels[name]
    scaled = [np.asarray(part, np.float64) * 100 / total for part in (answers.estimate, answers.lower, answers.upper)]
    rows = list(zip(labels, *(part.tolist() for part in scaled), strict=True))
    missing = next(((v, low, high) for label, v, low, high in rows if label is None), None)
    rows = [row for row in rows if row[0] is not None]
    summary = _median(asker, name, column) if ordered else f"{len(rows)} levels"
    if not ordered and len(rows) > SHOWN_LEVELS:
        rows = sorted(rows, key=lambda row: -row[1])
        left_out = sum(row[1] for row in rows[SHOWN_LEVELS:])
        summary = f"the {SHOWN_LEVELS} most frequent of {len(rows)} levels; the others hold {max(left_out, 0):.1f} %"
        rows = rows[:SHOWN_LEVELS]
    source = "" if column.source is None else f"; source: {column.source}"
    return ColumnView(
        name=name, kind=column.in_words() + source, labels=[str(row[0]) for row in rows], shares=[row[1] for row in rows],
        lower=[row[2] for row in rows], upper=[row[3] for row in rows], ordered=ordered, missing=missing,
        misfits=None if misfits is None else (misfits.share * 100, misfits.stddev * 100), summary=summary,
    )  # fmt: skip


def _bins(column: Column) -> Any:
    """Return about `BINS` cells: of whole numbers, all of one width but the last."""
    if not column.whole or grid_of(column).width > 1:
        return BINS
    lower, upper = (int(bound) for bound in bounds_of(column))
    width = -(-(upper - lower + 1) // BINS)
    return [*range(lower, upper, width), upper + 1] if width > 1 else [*range(lower, upper + 2)]


def _median(asker: Asker, name: str, column: Column) -> str:
    answers = asker.ask(quantile(name, 0.5))
    shown = [_written(column, part[0]) for part in (answers.estimate, answers.lower, answers.upper)]
    interval = f" (95 % interval {shown[1]} to {shown[2]})" if answers.stddev[0] == answers.stddev[0] else ""  # not NaN
    return f"median {shown[0]}{interval}"


def _written(column: Column, value: Any) -> str:
    if not column.temporal:
        return f"{value:,.6g}"
    if column.quantity == "clock":
        return str(value)[:8]
    return str(value.astype("datetime64[s]" if column.quantity == "moment" else "timedelta64[s]")).replace("T", " ")
