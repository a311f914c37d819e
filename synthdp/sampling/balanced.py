"""Rows of a distribution whose tables of few columns are nearer to the distribution's than chance would make them.

A finite sample is a large part of the error of a good model.  More rows than wanted are drawn and halved, keeping of two
similar rows the one that the tables lack.  Where there is time, these are tables of groups and of what is inside them.
Knows no model: it takes anything that samples.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from synthdp.arrays import AnyArray, BoolArray, Clique, Codes, IntArray
from synthdp.distribution.protocol import Distribution, Evidence
from synthdp.randomness import Generator

FEWEST_AT_ONCE, MOST_AT_ONCE = 4, 64
"""This many pairs of rows are decided at once, on the same tables: half the cells of a mean table, within these bounds.
Tuned: tables of 4 cells (NLTCS) lose a third of the gain with 32 pairs at once; tables of 50 and more lose 2 % with 64."""

FEWEST_CELLS = 1000
"""Tables with more cells than this and than rows are left out: hardly a cell of theirs is met twice.
Tuned; not measured."""

CELLS_A_DECISION = 8
"""Nothing is halved where tables of pairs have more cells for each decision.  Tuned: at 13 halving takes 5 % off the error
of these tables for as long as the fit takes, at 2 it takes off a third."""

DECISIONS_A_CELL = 4
"""Tables of three columns are balanced where there are this many decisions for each of their cells.  Tuned; not measured."""

LOOKS = 1
"""How often the decisions of the last halving are looked at again; a second look takes 1 to 2 % off.  Tuned."""

WORK, WORK_OF_TRIPLES = 30_000_000, 2_000_000
"""Most table cells looked up: about .3 seconds; and most of tables of three columns, which the last halving alone looks up.
Beyond it rows are plain draws, whose error is small by then.  A safety limit of time."""

MOST_CELLS, REMEMBERED = 2**24 - 1, 5_000_000
"""Most cells of all tables, whose numbers 32-bit floats hold exactly; and most that are remembered, of rows and tables, to
look at decisions again: 80 MB.  A safety limit; derived: 2^24."""

NUMBERED = 150_000
"""Cells that are numbered at once: what a processor's cache holds.  Tuned; not measured."""

WORK_OF_ROW = 15
"""To draw and sort a row takes as long as this many lookups.  Tuned; not measured."""

MOST_HALVINGS, MOST_INSIDE = 3, 2
"""Times that rows are halved at most, and the last of them that look inside groups.  The error that a halving leaves counts
half as much, in squares, as the next one's.  Tuned; not measured."""

MOST_BALANCE = 16.0
"""Asked to, sampling may take this many times the work; beyond it nothing is gained.  A safety limit."""

WORK_INSIDE = 2_000_000
"""Most table cells inside groups that are looked up in one halving.  The last halvings, of the fewest rows, tell most.
A safety limit of time."""


class Inside(NamedTuple):
    """How rows are drawn inside their coarse bins, and the finer intervals that are balanced there.

    Parameters
    ----------
    draw
        Returns (n, d) cells for (n, d) codes, each of them inside its code's group.
    classes
        For each column which of few classes each cell is in; tables of these are balanced.
    several
        For each column whether some group holds cells of several classes.
    """

    draw: Callable[[Codes], Codes]
    classes: Sequence[IntArray]
    several: Sequence[bool]


def balanced_sample(
    distribution: Distribution, rows: int, rng: Generator, *, given: Evidence | None = None, balance: float = 1.0
) -> Codes:
    """Draw rows, up to eight times as many as wanted, and halve them; (rows, d) codes.

    Expectations are the distribution's: either row of a pair is as likely to go.

    Parameters
    ----------
    distribution
        To draw from.
    rows
        How many, >= 1.
    rng
        Source of randomness.
    given
        Evidence, as in `Distribution.sample`.
    balance
        How many times the usual work may be done, >= 0; 0 for plain draws.
    """
    shape, halvings = distribution.shape, _halvings(rows, distribution.shape, balance)
    codes = distribution.sample(rows * 2**halvings, rng, given=given)
    for left in reversed(range(halvings)):
        codes = halved(codes, shape, rng, left=left, balance=balance)
    return codes


def balanced_inside(
    distribution: Distribution,
    rows: int,
    rng: Generator,
    inside: Inside,
    *,
    given: Evidence | None = None,
    balance: float = 1.0,
) -> tuple[Codes, Codes | None]:
    """Draw rows as `balanced_sample` does; the last halvings look inside groups, too.

    Parameters
    ----------
    distribution, rows, rng, given, balance
        As above.
    inside
        What is inside the groups.

    Returns
    -------
    (rows, d) codes and (rows, d) cells; ``None`` in place of the cells where no halving has the time to look at them.
    """
    shape = distribution.shape
    halvings = _halvings(rows, shape, balance)
    last = min(halvings, _halvings_inside(rows, len(shape), balance)) if any(inside.several) else 0
    codes = distribution.sample(rows * 2**halvings, rng, given=given)
    for left in reversed(range(last, halvings)):
        codes = halved(codes, shape, rng, left=left, balance=balance)
    if last == 0:
        return codes, None
    cells = inside.draw(codes)
    for left in reversed(range(last)):
        kept = _kept_inside(codes, cells, shape, inside, rng, left=left, balance=balance)
        codes, cells = codes[kept], cells[kept]
    return codes, cells


def _halvings(rows: int, shape: Sequence[int], balance: float) -> int:
    """Return how often rows are halved in all."""
    if rows == 1 or len(shape) < 2 or balance == 0:
        return 0
    if sum(_cells_of_pairs(shape, rows)) > CELLS_A_DECISION * rows * max(balance, 1.0):
        return 0
    work = rows * (math.comb(len(shape), 2) + WORK_OF_ROW)
    return min(MOST_HALVINGS + (balance > 1), int(math.log2(1 + balance * WORK / work)))


def _halvings_inside(rows: int, columns: int, balance: float) -> int:
    """Return how many halvings may look inside groups: one that leaves m rows decides m times, between two in each table."""
    work = 2 * math.comb(columns, 2) * rows
    return sum(work * 2**number <= balance * WORK_INSIDE for number in range(MOST_INSIDE + (balance > 1)))


def _cells_of_pairs(shape: Sequence[int], decisions: int) -> list[int]:
    """Return the cells of each table of two columns with at most ``decisions`` cells: larger ones are not balanced.

    Their sum says whether halving pays, see `CELLS_A_DECISION`.
    """
    sizes = (a * b for a, b in itertools.combinations(shape, 2))
    return [size for size in sizes if size <= max(decisions, FEWEST_CELLS)]


def halved(codes: Codes, shape: Sequence[int], rng: Generator, *, left: int = 0, balance: float = 1.0) -> Codes:
    """Return half of the rows, (m, d) codes of (2m, d), such that tables of two columns stay near half of what they were.

    Of two equal rows it does not matter which goes.  The other pairs are decided some at a time, in random order: the
    row goes whose cells have kept more than their half so far (vector balancing by the greedy rule).  Then decisions are
    looked at again, and turned where that lessens the squares of what cells have kept too much or too little.  Both rules
    are symmetric under exchanging all decisions, and ties are coins, so that every row stays with probability 1/2, exactly.

    Parameters
    ----------
    codes
        (2 m, d) codes with d >= 2.
    shape
        Number of codes of each column.
    rng
        Source of randomness.
    left
        How many halvings follow.  What this one leaves is divided by 2 in each, so it may be coarser.
    balance
        How many times the usual work may be done, > 0.

    Returns
    -------
    (m, d) codes in random order.
    """
    first, second = _similar(codes, shape, np.argsort(shape, kind="stable"))
    differ = rng.permutation(np.flatnonzero((codes[first] != codes[second]).any(axis=1)))
    tables = _numbering(shape, _balanced_tables(shape, len(differ), left=left, balance=balance))
    return codes[_kept(codes, first, second, differ, tables, rng, left=left, balance=balance)]


def _kept_inside(
    codes: Codes, cells: Codes, shape: Sequence[int], inside: Inside, rng: Generator, *, left: int, balance: float
) -> IntArray:
    """Return the places of the half of rows that stays, by tables of groups and by pairs of classes inside them."""
    d = len(shape)
    of_cells = [classes[cells[:, j]] for j, classes in enumerate(inside.classes)]
    both = np.column_stack([*of_cells, codes]).astype(np.int32)
    sizes = [*(int(classes.max()) + 1 for classes in inside.classes), *shape]
    groups_first = np.array([*(d + np.argsort(shape, kind="stable")), *np.argsort(sizes[:d], kind="stable")])
    first, second = _similar(both, sizes, groups_first)
    differ = rng.permutation(np.flatnonzero((both[first] != both[second]).any(axis=1)))
    fine = (pair for pair in itertools.combinations(range(d), 2) if any(inside.several[j] for j in pair))
    most = max(len(differ), FEWEST_CELLS)
    cliques = [
        *(tuple(d + j for j in clique) for clique in _balanced_tables(shape, len(differ), left=left, balance=balance)),
        *((a, b) for a, b in fine if sizes[a] * sizes[b] <= most),
    ]
    return _kept(both, first, second, differ, _numbering(sizes, cliques), rng, left=left, balance=balance)


def _similar(codes: Codes, shape: Sequence[int], order: IntArray) -> tuple[IntArray, IntArray]:
    """Pair equal rows; of those left the ones equal but in the last column in this order, then but in the last two, ..."""
    columns = [codes[:, j] for j in order]
    left = _sorted(columns, [int(shape[j]) for j in order])
    alike = np.zeros(len(left) - 1, np.int16)  # columns that neighbours share
    same = np.ones(len(left) - 1, np.bool_)
    for column in columns:
        ordered = column[left]
        same &= ordered[1:] == ordered[:-1]
        alike += same
    pairs = []
    for least in range(len(columns), -1, -1):
        begins = np.concatenate([[0], 1 + np.flatnonzero(alike < least), [len(left)]])
        place = np.arange(len(left)) - begins[:-1].repeat(begins[1:] - begins[:-1])
        at = np.flatnonzero((alike >= least) & (place[:-1] % 2 == 0))
        pairs.append((left[at], left[at + 1]))
        alone = np.ones(len(left), np.bool_)
        alone[at] = alone[at + 1] = False
        others = np.flatnonzero(alone)
        if not len(others):
            break
        left, alike = left[others], np.minimum.reduceat(alike[: others[-1]], others[:-1])
    first, second = zip(*pairs, strict=True)
    return np.concatenate(first), np.concatenate(second)


def _sorted(columns: Sequence[AnyArray], sizes: Sequence[int]) -> IntArray:
    """Return the places of rows in the order of these columns, equal rows as they came."""
    rows = len(columns[0])
    if math.prod(sizes) * rows >= 2**63:
        return np.lexsort(columns[::-1])
    numbers = np.zeros(rows, np.int64)
    for column, size in zip(columns, sizes, strict=True):
        numbers *= size
        numbers += column
    numbers *= rows
    numbers += np.arange(rows)  # so that no two are equal and any way of sorting gives one order
    numbers.sort()
    return np.asarray(numbers % rows, np.int64)


def _kept(
    codes: Codes, first: IntArray, second: IntArray, differ: IntArray, tables: _Tables, rng: Generator, *,
    left: int, balance: float,
) -> IntArray:  # fmt: skip
    """Return the places of the rows that stay, in random order; only the pairs at ``differ`` need a decision."""
    looks = 0 if left else max(LOOKS, round(LOOKS * balance))
    at_once = tables.at_once * 2**left
    keep_second = differ[
        _decide(codes[first[differ]], codes[second[differ]], tables, rng, at_once=at_once, looks=looks)
    ]
    first[keep_second] = second[keep_second]
    return first[rng.permutation(len(first))]


def _decide(first: Codes, second: Codes, tables: _Tables, rng: Generator, *, at_once: int, looks: int) -> BoolArray:
    """Return for each pair of rows whether the second one stays."""
    surplus = np.zeros(tables.cells, np.int32)
    kept = np.where(
        rng.random(len(first)) < 0.5, np.int32(1), np.int32(-1)
    )  # 1 is the first row; coins decide ties only
    again: list[tuple[AnyArray, _Cells]] = []
    remembered = 0
    for at, cells in _blocks_of_cells(first, second, tables, at_once):
        some = kept[at : at + len(cells.counts)]
        some[some * _excess(surplus, cells) > 0] *= -1
        _add(surplus, cells, some.repeat(cells.counts))
        if looks and remembered + len(cells.first) <= REMEMBERED:
            remembered += len(cells.first)
            again.append((some, cells))
    for some, cells in again * looks:
        turned = some * _excess(surplus, cells) > 2 * cells.counts
        if turned.any():
            some[turned] *= -1
            of_turned = turned.repeat(cells.counts)
            few = _Cells(cells.first[of_turned], cells.second[of_turned], cells.begins, cells.counts[turned])
            _add(surplus, few, 2 * some[turned].repeat(few.counts))
    return kept < 0


class _Tables(NamedTuple):
    """Numbers for the cells of some tables: the sum of factors times codes, and where the table begins.

    Parameters
    ----------
    factors
        (d + 1, t), of each column in each table, 0 for columns that are not in it; last the number of the first cell.
    cells
        How many cells there are in all, at most `MOST_CELLS`.
    """

    factors: AnyArray
    cells: int

    @property
    def at_once(self) -> int:
        """How many pairs of rows are decided on the same tables."""
        of_mean: int = self.cells // (2 * max(self.factors.shape[1], 1))
        return min(max(of_mean, FEWEST_AT_ONCE), MOST_AT_ONCE)


class _Cells(NamedTuple):
    """Cells of tables that hold but one row of a pair.

    Parameters
    ----------
    first, second
        The first rows' cells, pair after pair, and the second rows'.
    begins
        Where each pair's begin; then the last ones' end.
    counts
        How many each pair has, of either row.
    """

    first: IntArray
    second: IntArray
    begins: IntArray
    counts: IntArray


def _blocks_of_cells(first: Codes, second: Codes, tables: _Tables, at_once: int) -> Iterator[tuple[int, _Cells]]:
    """Give the cells of some pairs at once, and which pair is the first; numbered in larger blocks, by one product."""
    many = at_once * max(1, NUMBERED // (at_once * max(tables.factors.shape[1], 1)))
    ones = np.ones((min(many, len(first)), 1), np.float32)
    for start in range(0, len(first), many):
        some = slice(start, start + many)
        a, b = (np.hstack([rows[some], ones[: len(rows[some])]]) @ tables.factors for rows in (first, second))
        differ = a != b
        of_first, of_second = (numbers[differ].astype(np.int64) for numbers in (a, b))
        counts = differ.sum(axis=1)
        ends = np.concatenate([[0], counts.cumsum()])
        for at in range(0, len(counts), at_once):
            begins = ends[at : at + at_once + 1]
            here = slice(begins[0], begins[-1])
            yield start + at, _Cells(of_first[here], of_second[here], begins - begins[0], counts[at : at + at_once])


def _excess(surplus: AnyArray, cells: _Cells) -> IntArray:
    """Return how much more the first row's cells have kept than the second's, of each pair."""
    sums = np.zeros(len(cells.first) + 1, np.int64)
    np.cumsum(surplus.take(cells.first) - surplus.take(cells.second), out=sums[1:])
    at = sums.take(cells.begins)
    return np.asarray(at[1:] - at[:-1], np.int64)


def _add(surplus: AnyArray, cells: _Cells, change: AnyArray) -> None:
    """Add a change to the first cells' surplus and take it from the second cells', in place."""
    np.add.at(surplus, cells.first, change)  # fast for vectors alone, all of one type
    np.subtract.at(surplus, cells.second, change)


def _balanced_tables(shape: Sequence[int], decisions: int, *, left: int, balance: float) -> list[Clique]:
    """Return the tables of two and three columns that this number of decisions can balance."""
    most = {2: max(decisions, FEWEST_CELLS)}
    work = math.comb(len(shape), 3) * decisions * 4**left
    if work <= balance * WORK_OF_TRIPLES and (left == 0 or balance > 1):
        most[3] = decisions // DECISIONS_A_CELL
    return [
        clique
        for ways, cells in most.items()
        for clique in itertools.combinations(range(len(shape)), ways)
        if math.prod(shape[j] for j in clique) <= cells
    ]


def _numbering(shape: Sequence[int], cliques: Sequence[Clique]) -> _Tables:
    """Return numbers for the cells of tables, the first that have at most `MOST_CELLS` together."""
    ends = list(itertools.accumulate((math.prod(shape[j] for j in clique) for clique in cliques), initial=0))
    few = cliques[: bisect.bisect_right(ends, MOST_CELLS) - 1]
    factors = np.zeros((len(shape) + 1, len(few)), np.float32)
    for i, clique in enumerate(few):
        factor = 1
        for j in reversed(clique):
            factors[j, i] = factor
            factor *= shape[j]
    factors[-1] = ends[: len(few)]
    return _Tables(factors, ends[len(few)])
