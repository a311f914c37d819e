"""Rules of a database, compiled for drawing persons' rows: which cells may not follow which, and which rows break a rule.

`Barrier` is a rule between a row and a row above it.  `Among` holds the rules between the rows of one parent row.

`DaysToHeaps` is about days between two dates, where many rows share one second date, as contracts cut at the last day of
the books do.  A model draws the first date, then the days between, then the second date, which the two nearly determine.
The days of a cut contract depend on its first date only: drawn from a law of days alone, too few of them reach the day of
the cut.  So the law of days is learned from rows that end elsewhere.  Rows that end on such a single day are added to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from synthdp.arrays import AnyArray, BoolArray, FloatArray, GridIndices, IntArray
from synthdp.domain.axis import Axis
from synthdp.domain.differences import Difference
from synthdp.domain.grid import grid_of
from synthdp.domain.histories import Layout, Order
from synthdp.domain.rules import Rule, rules_of
from synthdp.domain.values import mask_of_values
from synthdp.schema.rules_across import AmongRows, Condition
from synthdp.schema.sibling_rules import NeverFalls, RowsPerParent, SiblingRule, UniquePerParent


@dataclass(frozen=True, slots=True, eq=False)
class Barrier:
    """The cells of an attribute that a row may not have, given a cell that was drawn before.

    Parameters
    ----------
    table, attribute
        Position of the table, and name of the attribute, that is drawn.
    above, other
        Position of the table, and name of the attribute, that was drawn before: of a row above, or of the row itself.
    possible
        (cells of the other, cells of the attribute) whether some row with both cells satisfies the rule.
    days
        Name of the attribute of days between the two, if it was drawn before too, else "".  The first axis of
        ``possible`` then has one entry for each cell of the other and cell of the days.
    """

    table: int
    attribute: str
    above: int
    other: str
    possible: BoolArray
    days: str = ""


@lru_cache(maxsize=4)
def barriers_of(layout: Layout) -> tuple[Barrier, ...]:
    """Return the rules between two columns as restrictions on the column drawn later, given the column drawn before.

    Rows are drawn under these restrictions.  Restrictions by differences of days come last.
    """
    found = [_barrier(layout, one) for one in layout.schema.conditions]
    return (*found, *(one for between in layout.differences.values() for one in _of_days(layout, between)))


@lru_cache(maxsize=4)
def open_cells(layout: Layout) -> dict[tuple[int, str], BoolArray]:
    """Return by table and column a (cells,) mask of the cells that may be drawn under the rules within a row.

    Each rule must allow the cell with some open cell of the rule's other column (arc consistency).  So no drawn value
    leaves a later column without a value.  Only columns with rules within a row are listed.
    """
    inside = [one for one in layout.schema.conditions if one.above[0] == one.below[0]]
    found = {
        place: np.ones(axis_at(layout, place).size, np.bool_) for one in inside for place in (one.above, one.below)
    }
    pairs = [(one.above, one.below, _possible(layout, one)) for one in inside]
    for _ in range(len(found) + 1):  # what is closed closes others
        for above, below, possible in pairs:
            found[above] = found[above] & (possible & found[below]).any(axis=1)
            found[below] = found[below] & (possible & found[above][:, None]).any(axis=0)
    return {(layout.position(table), column): cells for (table, column), cells in found.items()}


def axis_at(layout: Layout, place: tuple[str, str]) -> Axis:
    """Return the axis of the column at (table, column), which may be the column that orders the table's rows."""
    table, column = layout.position(place[0]), place[1]
    periods = layout.tables[table].periods
    if column == layout.tables[table].period and periods is not None:
        return periods
    return layout.axis(table, column)


def broken(condition: Condition, above: GridIndices, below: GridIndices) -> BoolArray:
    """Return an (n,) mask of rows that break a rule, from the grid points, (n,), of its columns ``above`` and ``below``."""
    indices: Mapping[str, GridIndices] = dict(zip(condition.names, (above, below), strict=True))
    return np.asarray(np.logical_or.reduce([rule.broken(indices) for rule in rules_of(condition.both)]))


def _barrier(layout: Layout, condition: Condition) -> Barrier:
    """Return a rule between two columns as a restriction of the column drawn later, given the column drawn before."""
    above, below = layout.position(condition.above[0]), layout.position(condition.below[0])
    possible = _possible(layout, condition)
    table = layout.tables[below]
    if above == below:  # periods are drawn before the columns of their row
        first, second = condition.above[1], condition.below[1]
        if second == table.period:
            return Barrier(below, first, above, second, possible.T)
        return Barrier(below, second, above, first, possible)
    if table.order is not Order.PATTERN or condition.below[1] != table.period:
        return Barrier(below, condition.below[1], above, condition.above[1], possible)
    # Periods are drawn with the row above them, as a pattern: each of its periods must be possible.
    periods = layout.periods_of_pattern(below)
    inside = np.where(periods < 0, possible.shape[1], periods)
    padded = np.column_stack([possible, np.ones(len(possible), np.bool_)])
    of_pattern = np.asarray(padded[:, inside].all(axis=2), np.bool_)[:, : layout.axis(table.parent, table.count).size]
    if table.parent == above:  # counts are drawn before columns
        return Barrier(above, condition.above[1], above, table.count, of_pattern.T)
    return Barrier(table.parent, table.count, above, condition.above[1], of_pattern)


def _of_days(layout: Layout, between: Difference) -> Iterator[Barrier]:
    """Yield the restrictions of a difference of days: of the days given the first day, of the second day given both.

    The restrictions keep the second day of a drawn row within the bounds of its column.
    """
    (above, other), (table, attribute) = between.first, between.second
    axes = [axis_at(layout, (above, other)), layout.axis(layout.position(table), between.name)]
    axes.append(axis_at(layout, between.second))
    least, most = zip(*(ends_of_points(axis) for axis in axes), strict=True)
    first, days = (np.arange(axis.size) for axis in axes[:2])
    low, high = between.second_day(least[0][:, None], least[1]), between.second_day(most[0][:, None], most[1])
    if between.sign < 0:
        low, high = between.second_day(least[0][:, None], most[1]), between.second_day(most[0][:, None], least[1])
    inside = (low[:, :, None] <= most[2]) & (high[:, :, None] >= least[2])
    regular = (first < axes[0].regular)[:, None] & (days < axes[1].regular)
    open_ = np.where(regular[:, :, None], inside & (np.arange(axes[2].size) < axes[2].regular), True)
    here, up = layout.position(table), layout.position(above)
    yield Barrier(here, between.name, up, other, np.asarray(open_.any(axis=2), np.bool_))
    yield Barrier(here, attribute, up, other, open_.reshape(-1, axes[2].size), between.name)


def ends_of_points(axis: Axis) -> tuple[IntArray, IntArray]:
    """Return the first and the last regular grid point of each cell, (cells,) each; (0, -1) for a cell without one.

    For date columns the ends bound how many days two cells are apart.
    """
    first, last = np.full(axis.size, axis.grid.size), np.full(axis.size, -1)
    runs = np.flatnonzero(axis.starts < axis.grid.regular)
    stops = np.minimum(np.append(axis.starts[1:], axis.grid.size)[runs], axis.grid.regular)
    np.minimum.at(first, axis.cells[runs], axis.starts[runs])
    np.maximum.at(last, axis.cells[runs], stops - 1)
    return np.where(last < 0, 0, first), last


def _possible(layout: Layout, condition: Condition) -> BoolArray:
    """Return which pairs of cells, (cells above, cells below), can hold a pair of rows that satisfies a rule."""
    axes = {condition.name(place): axis_at(layout, place) for place in (condition.above, condition.below)}
    found = np.ones([axis.size for axis in axes.values()], np.bool_)
    for rule in rules_of(condition.both):
        found &= _oriented(rule, axes)
    return found


def _oriented(rule: Rule, axes: Mapping[str, Axis]) -> BoolArray:
    """Return which pairs of cells a rule allows, as a matrix whose axes have the order of ``axes``.

    A rule may name the two columns in the other order, so the matrix is transposed if needed.
    """
    possible = rule.possible([axes[name] for name in rule.names])
    return possible if list(rule.names) == list(axes) else possible.T


@dataclass(slots=True, eq=False)
class Among:
    """The state of the rules between sibling rows while rows are drawn, one row of each parent row at a time.

    Parameters
    ----------
    layout
        The record of a person.
    table, attribute
        Position of the table, and name of the attribute, that is drawn.
    parents
        Number of parent rows.

    Attributes
    ----------
    rules
        The rules about the attribute.
    """

    layout: Layout
    table: int
    attribute: str
    parents: int
    rules: tuple[SiblingRule, ...] = field(init=False)
    _axis: Axis = field(init=False)
    _used: IntArray = field(init=False)
    _named: dict[int, BoolArray] = field(init=False)
    _many: dict[int, IntArray] = field(init=False)
    _last: IntArray = field(init=False)

    def __post_init__(self) -> None:
        place = self.layout.schema.names[self.table], self.attribute
        mine = [one for one in self.layout.schema.among if one.place == place]
        self.rules = tuple(one.rule for one in mine)
        if not mine:
            return
        self._axis = axis_at(self.layout, place)
        unique = any(isinstance(rule, UniquePerParent) for rule in self.rules)
        self._used = np.zeros((self.parents if unique else 0, self._axis.size), np.int64)
        self._last = np.full(self.parents, -1)
        self._named = {i: cells_named(one, self._axis) for i, one in enumerate(mine)}
        self._many = {i: np.zeros(self.parents, np.int64) for i in self._named}

    def allowed(self, parent: IntArray, left: IntArray) -> list[BoolArray]:
        """Return for each rule which cells the next row of some parent rows may have, (rows, cells).

        Parameters
        ----------
        parent
            (rows,) the parent rows, each once.
        left
            (rows,) number of rows of each that are still to be drawn, including the next.
        """
        found = []
        cells, regular = np.arange(self._axis.size) if self.rules else np.arange(0), self._regular
        for i, rule in enumerate(self.rules):
            match rule:
                case UniquePerParent():
                    found.append((self._used[parent] < self._axis.width) | (cells >= regular))
                case NeverFalls():
                    found.append((cells >= self._last[parent, None]) | (cells >= regular))
                case RowsPerParent(_, _, at_least, at_most):
                    named, many = self._named[i], self._many[i][parent, None]
                    room = np.ones_like(many, np.bool_) if at_most is None else many < at_most
                    free = at_least - many < left[:, None]
                    found.append((named & room) | (~named & free))
        return found

    def drawn(self, parent: IntArray, cells: IntArray) -> None:
        """Record the cells of the rows drawn last, one for each of some parent rows, because they restrict the next rows."""
        if not self.rules:
            return
        if len(self._used):
            self._used[parent, cells] += 1
        for i, named in self._named.items():
            self._many[i][parent] += named[cells]
        self._last[parent] = np.where(cells < self._regular, cells, self._last[parent])

    @property
    def _regular(self) -> int:
        """The number of cells of regular values, which come first; rules on uniqueness and order bind only these."""
        return self._axis.regular if self.rules else 0


def cells_named(one: AmongRows, axis: Axis) -> BoolArray:
    """Return which cells of an axis hold a value that a rule counts, (cells,); none for a rule that counts no values."""
    if not isinstance(one.rule, RowsPerParent):
        return np.zeros(axis.size, np.bool_)
    return np.asarray(
        np.bincount(axis.cells_of(np.flatnonzero(_named(one)).astype(np.uint32)), minlength=axis.size) > 0
    )


def kept_among(one: AmongRows, points: GridIndices, numbers: AnyArray, parent: IntArray, kept: BoolArray) -> BoolArray:
    """Return which rows remain, (n,), after rows are dropped until no parent's rows break a rule between siblings.

    Of equal values the first row stays.  A row whose number is below an earlier one's is dropped.  Of counted values as
    many rows stay as the rule allows.  If a parent has fewer counted rows than the rule requires, all its rows are
    dropped.

    Parameters
    ----------
    one
        The rule.
    points
        (n,) grid points of its column.
    numbers
        (n,) the numbers that must not fall.
    parent
        (n,) the parent row of each; the rows of one parent are together and in order.
    kept
        (n,) the rows that remain so far.
    """
    rows = np.flatnonzero(kept)
    points, numbers, parent = points[rows], numbers[rows], parent[rows]
    bound = points < grid_of(one.column).regular
    stays = np.ones(len(rows), np.bool_)
    match one.rule:
        case UniquePerParent():
            inside = np.flatnonzero(bound)
            order = inside[np.lexsort([inside, points[inside], parent[inside]])]
            again = (np.diff(parent[order]) == 0) & (np.diff(points[order].astype(np.int64)) == 0)
            stays[order[1:][again]] = False
        case NeverFalls():
            inside = np.flatnonzero(bound)
            stays[inside] = _never_fall(numbers[inside], parent[inside])
        case RowsPerParent(_, _, at_least, at_most):
            named = _named(one)[points]
            some = np.flatnonzero(named)
            anew = np.flatnonzero(np.diff(parent[some], prepend=-1))
            before = np.arange(len(some)) - np.repeat(anew, np.diff(np.append(anew, len(some))))
            stays[some] = before < (len(some) + 1 if at_most is None else at_most)
            many = np.bincount(parent[some], minlength=int(parent.max(initial=-1)) + 1)
            stays &= many[parent] >= at_least
    found = kept.copy()
    found[rows] = stays
    return found


def _named(one: AmongRows) -> BoolArray:
    """Return which grid points a row-counting rule names, (grid points,); none for other rules."""
    return (
        mask_of_values(one.column, list(one.rule.values)) if isinstance(one.rule, RowsPerParent) else np.zeros(0, bool)
    )


def _never_fall(numbers: AnyArray, parent: IntArray) -> BoolArray:
    """Return which rows, (n,), have a number that is not below an earlier one of the same parent."""
    places = np.unique(numbers, return_inverse=True)[1].reshape(-1)
    highest = np.maximum.accumulate(places + parent * (int(places.max(initial=0)) + 1))  # parents increase
    return np.asarray(places + parent * (int(places.max(initial=0)) + 1) >= highest)


Key = tuple[int, str]
"""Position of a table, and an attribute."""

LEAST = 1e-300
"""Smallest probability, up to a common factor, by which `DaysToHeaps.logarithms` divides, so that no ratio overflows.  A
numerical tolerance."""


@dataclass(frozen=True, slots=True, eq=False)
class DaysToHeaps:
    """Second days of a rule that have a cell of their own (heaps, as many rows may end there), and the days between.

    Parameters
    ----------
    barrier
        The rule that restricts second days, given the first day and the days between.
    single
        (cells of the second day,) whether the cell is a single day.
    possible
        (cells of the first day, cells of the days, cells of the second day) whether the rule allows the combination.
    """

    barrier: Barrier
    single: BoolArray
    possible: BoolArray

    @property
    def days(self) -> Key:
        """Table and attribute of the number of days between first and second day, which is drawn before the second day."""
        return self.barrier.table, self.barrier.days

    @property
    def second(self) -> Key:
        """Table and attribute of the second day, which the first day and the number of days between determine."""
        return self.barrier.table, self.barrier.attribute

    def logarithms(self, likely: FloatArray, first: IntArray, group: IntArray, related: FloatArray) -> FloatArray:
        """Return terms to add to the log-probabilities of the number of days between, (cells of the days, rows).

        With them, numbers of days that lead to a heap are drawn more often.  A term is log(a / b): a is the probability
        of all second days, b of second days in cells of several days.  The term is 0 where b is 0.

        Parameters
        ----------
        likely
            (cells of the second day, rows) probability of each second day, whatever the days between.
        first, group
            (rows,) cell of the first day, and group of periods.
        related
            (groups of periods, cells of the days, cells of the second day) factor on the joint probability, relative to
            independence.
        """
        found = np.zeros((self.possible.shape[1], len(first)))
        place = first * len(related) + group
        order = np.argsort(place, kind="stable")
        for mine in np.split(order, np.flatnonzero(np.diff(place[order])) + 1):
            times = self.possible[first[mine[0]]] * related[group[mine[0]]]
            there, elsewhere = ((times * some) @ likely[:, mine] for some in (self.single, ~self.single))
            found[:, mine] = np.where(elsewhere > LEAST, np.log1p(there / np.maximum(elsewhere, LEAST)), 0.0)
        return found


def days_to_heaps(layout: Layout, barriers: Iterable[Barrier]) -> Mapping[Key, DaysToHeaps]:
    """Return a `DaysToHeaps`, by table and attribute of the days between, for each rule with heaps.

    A heap is a second day that is a cell of its own, among cells of several days.  Many rows may end on a heap, so
    numbers of days that lead there must be drawn more often.
    """
    found = {}
    for barrier in barriers:
        if not barrier.days:
            continue
        axis = layout.axis(barrier.table, barrier.attribute)
        regular = np.arange(axis.size) < axis.regular
        single = regular & (axis.width == 1)
        if single.any() and (single < regular).any():
            size = layout.axis(barrier.table, barrier.days).size
            possible = barrier.possible.reshape(-1, size, axis.size)
            found[barrier.table, barrier.days] = DaysToHeaps(barrier, single, possible)
    return found
