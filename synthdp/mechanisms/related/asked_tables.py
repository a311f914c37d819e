"""Tables of persons as they are asked of the curator: groups of cells of two attributes, and the noise of each table.

Groups of an attribute's cells come from its noisy one-way table, by post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from synthdp.arrays import MEAN_ABS, BoolArray, FloatArray, IntArray
from synthdp.curator import Curator
from synthdp.domain.axis import Axis
from synthdp.domain.histories import Layout
from synthdp.measurements import Measurements
from synthdp.mechanisms.adaptive.merging import MERGED
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.mechanisms.column_rounding import BEYOND
from synthdp.queries.person_tables import RANKS, Grouping, PersonTable, PersonTables
from synthdp.queries.persons import whole_of_table

COUNT_ENDS = (1, 2, 3, 5, 8, 13)
"""Upper ends of the groups into which a person's number of rows is merged for tables: 1, 2, 3, up to 5, and so on. No
row, and more than the last, are groups too.  Small numbers are separate because most persons have few rows; more groups
would divide persons more thinly.  A grid, of Fibonacci's numbers: its steps are a tolerance.
"""

Fineness = Literal["threes", "pairs", "fine", "steps"]
"""The use of groups: tables of three attributes, of two, of two that are strongly related, or of a value and the next.
Each use has its own number of groups."""
MOST = 12
"""Most groups of an ordered column in tables of two attributes; `MERGED` is the least number.  More groups show finer
relations, but a table of a x b groups has a b cells, each with the same noise.  Tuned: without this limit the largest
errors of point masses grow; half and twice of it change no release of two more panels (docs/benchmarks/constants.md).
"""

MORE_OF_STEPS = 2
"""In a table of a value and the next row's value, an ordered column has this many more groups than in tables of two
attributes.  More groups follow a value from row to row more closely, with more noise in the table.  Tuned: half and twice
of it change the error of pairs of a row's columns of two panels by -.3 and -.4 % (docs/benchmarks/constants.md).
"""

PAIR_NOISE = 0.0047
"""Largest mean absolute noise of a table of two attributes, summed over cells, as a fraction of all persons. It is
computed as if one table had the budget of all.  Tables have the finest groups within this limit.  A larger value allows
finer groups with noisier tables.  Tuned: twice of it changes the error of pairs of a row's columns by -3 % and the
largest error of a point mass from .007 to .014 on three tables at epsilon 5, and that error for 6 127 persons by -10 %
at epsilon 10 (docs/benchmarks/constants.md)."""


def fineness(persons: float, noise: float) -> dict[Fineness, int]:
    """Return the number of groups of an ordered column in each kind of table: more for more persons and less noise.

    A table of G groups a side has G^2 cells, each with a mean absolute noise of E|Z| stddevs.

    Parameters
    ----------
    persons
        Number of persons.
    noise
        Noise stddev of a cell of a table of two attributes that gets the whole budget of such tables, in persons.
    """
    fits = math.sqrt(PAIR_NOISE * persons / max(MEAN_ABS * noise, 1e-9))
    pairs = int(np.clip(math.floor(fits), MERGED, MOST))
    return {"threes": MERGED, "pairs": pairs, "fine": min(2 * pairs, MOST), "steps": pairs + MORE_OF_STEPS}


def grouping_of(axis: Axis, counts: FloatArray, stddev: float, *, groups: int, name: str) -> Grouping:
    """Merge a column's bins into groups for larger tables, by its noisy one-way table.

    Rare levels share a group.  Numbers are grouped by rank within their period, so that growth over time drops out.
    One table of a value and the next then serves all periods.  If most persons are in one bin, all periods have the
    same groups, so that the bin is a group by itself in each.

    Parameters
    ----------
    axis
        The bins.
    counts
        (1 or groups of periods, bins) estimated persons, at least 0.
    stddev
        Standard deviation of the noise in each bin.
    groups
        Most groups of regular values of an ordered column.
    name
        Name that distinguishes the grouping from others of the attribute.
    """
    regular = axis.regular
    if not axis.grid.ordered:
        return Grouping(name, _levels(counts.sum(axis=0), stddev * np.sqrt(len(counts)), axis))
    inside = counts[:, :regular]
    total = inside.sum(axis=0)
    heavy = total > total.sum() / 2
    if heavy.any():
        inside = total[None]
    found = np.vstack([_by_rank(row, groups, heavy) for row in inside])
    found = np.unique(found, return_inverse=True)[1].reshape(found.shape)
    beyond = found.max() + 1 + np.arange(axis.size - regular)
    full = np.column_stack([found, np.tile(beyond, (len(found), 1))])
    return Grouping(name, full, _ranks(counts, regular))


def merged_by_relation(grouping: Grouping, tables: Sequence[FloatArray], groups: int) -> Grouping:
    """Merge the neighbouring groups of numbers that are most alike in some tables, until ``groups`` of them are left.

    Tables of three attributes have few groups.  Groups of equal size would mix the few persons who differ from all
    others with persons who do not.  The two neighbours whose rows' shares have the least squared distance, weighted as
    in Ward's method (Ward 1963), are merged first.

    Parameters
    ----------
    grouping
        The groups; groups of special and missing values stay.
    tables
        (groups, other groups) estimated persons, with these groups on the first axis of each.
    groups
        Most groups of numbers that are left.
    """
    label = np.arange(grouping.size)
    order = np.flatnonzero(grouping.ranked).tolist()
    counts = [np.maximum(table, 0.0) for table in tables]
    while len(order) > groups:
        losses = np.zeros(len(order) - 1)
        for table in counts:
            rows = table[order].sum(axis=1) + 1e-9
            distance = (np.diff(table[order] / rows[:, None], axis=0) ** 2).sum(axis=1)
            losses += distance * rows[1:] * rows[:-1] / (rows[1:] + rows[:-1])
        at = int(np.argmin(losses))
        kept, gone = order[at], order.pop(at + 1)
        label[label == gone] = kept  # with all that were merged into it before
        for table in counts:
            table[kept] += table[gone]
    found = np.unique(label, return_inverse=True)[1]
    return Grouping(f"{grouping.name}, merged", found[grouping.groups], grouping.ranks)


def count_groupings(layout: Layout, table: int) -> dict[str, Grouping]:
    """Return groupings of a parent row's number of child rows, for tables of several attributes, by name.

    ``many`` merges numbers of rows into a few groups, up to `COUNT_ENDS`, so that each holds enough persons.  ``first``
    groups by the period of the first row alone, whatever the number; it exists only if rows lie in periods and the first
    period differs between parents.
    """
    many = layout.rows_of_count(table)
    found = {"many": Grouping("many", np.searchsorted([0.5, *(end + 0.5 for end in COUNT_ENDS)], many))}
    if len(many) > layout.tables[table].at_most + 2:
        first = layout.periods_of_pattern(table)[:, 0]
        found["first"] = Grouping("first", np.append(first, -1)[: len(many)] + 1)
    return {name: Grouping(name, np.unique(one.groups[0], return_inverse=True)[1]) for name, one in found.items()}


def in_order(grouping: Grouping) -> int:
    """Return how many groups of a grouping have an order, by which noisy tables are smoothed; these groups come first.

    All groups of numbers of child rows have an order.  Of an attribute, the groups of its numbers have one.
    """
    return grouping.size if grouping.name == "many" else int(grouping.ranked.sum())


def _levels(counts: FloatArray, stddev: float, axis: Axis) -> IntArray:
    """Return the group of each level, (bins,): each frequent level alone, all rare ones together in the last group.

    Levels that are never released count as rare.  A single rare level is not merged.
    """
    rare = (counts < BEYOND * stddev) | ~axis.releasable
    if rare.sum() <= 1:
        return np.arange(len(counts))
    return np.where(rare, np.count_nonzero(~rare), np.cumsum(~rare) - 1)


def _by_rank(counts: FloatArray, groups: int, heavy: BoolArray) -> IntArray:
    """Return the group of each bin, (bins,): runs of neighbours with about equal numbers of persons; heavy bins alone.

    Group numbers increase from the first bin on, with gaps.
    """
    rest = np.where(heavy, 0, counts)
    parts = max(1, groups - int(heavy.sum()))
    middle = np.cumsum(rest) - rest / 2
    part = np.clip(np.floor(middle / max(float(rest.sum()), 1e-9) * parts), 0, parts - 1).astype(np.int64)
    apart = np.cumsum(heavy) * 2 * (groups + 1) - heavy * (groups + 1)
    return np.asarray(apart + part * ~heavy)


def _ranks(counts: FloatArray, regular: int) -> IntArray:
    """Return the mid-rank (0 to RANKS - 1) of each regular bin in its period, -1 for other bins, (periods, bins).

    A rank is the fraction of the persons in ``counts`` below the middle of the bin, times RANKS.  Tables of a value and
    the rows before average these ranks over the rows.
    """
    inside = counts[:, :regular]
    middle = (np.cumsum(inside, axis=1) - inside / 2) / np.maximum(inside.sum(axis=1, keepdims=True), 1e-9)
    ranks = np.clip(np.rint(middle * RANKS), 0, RANKS - 1).astype(np.int64)
    return np.column_stack([ranks, np.full((len(counts), counts.shape[1] - regular), -1)])


UNIT, FINER = 2**20, 8
"""Exact noise is added to whole numbers, so one person counts as a large whole number, and the rounding of a row's weight
is negligible.  In the table with the least noise this whole number is about UNIT, but at least FINER times the sum of a
person's row weights.  A numerical tolerance.
"""

Counted = list[tuple[FloatArray, float]]
"""Noisy tables, in persons, and the standard deviation of the noise in the cells of each."""


def measure(
    account: Curator,
    layout: Layout,
    tables: Sequence[PersonTable],
    shares: Sequence[float],
    budget: BudgetAllocation,
    *,
    step: str,
) -> tuple[Measurements, Counted, BudgetAllocation]:
    """Measure noisy tables of persons, each with its own share of the budget, in one question.

    Costs the sum of ``shares`` of the whole budget, or what is left if that is less, for the curator's neighbours.

    Parameters
    ----------
    account
        The curator that answers.
    layout
        The record of a person that the tables are about.
    tables, shares
        The tables to count, and the share of the whole budget of each.
    budget
        The rest of the budget.
    step
        Name of the step on the receipt.

    Returns
    -------
    The noisy answers, each table in persons with the stddev of a cell's noise, and what is left of the budget.
    """
    part, left = budget.take(min(sum(shares), budget.share))
    queries = person_tables(layout, tables, shares)
    found = account.measure(queries, spend=part.loss, step=step)
    stddevs = found.stddev * queries.denominator / queries.ones
    return found, [(noisy, float(s)) for noisy, s in zip(queries.split(found.answers), stddevs, strict=True)], left


def person_tables(layout: Layout, tables: Sequence[PersonTable], shares: Sequence[float]) -> PersonTables:
    """Return the query of several tables, scaled so that equal noise on it has variances in proportion to 1 / share."""
    largest = max(shares)
    unit = max(UNIT, FINER * max(whole_of_table(layout, table.table) for table in tables))
    multipliers = [
        max(1, round(unit * math.sqrt(share / largest) / whole_of_table(layout, table.table)))
        for table, share in zip(tables, shares, strict=True)
    ]
    return PersonTables(layout, tuple(tables), tuple(multipliers))
