"""Rules between the rows of one parent row, compiled for histories: which cells the next row may have, and which rows go."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from synthdp.arrays import AnyArray, BoolArray, GridIndices, IntArray
from synthdp.domain.axis import Axis
from synthdp.domain.grid import grid_of
from synthdp.domain.grid_rules_across import axis_at
from synthdp.domain.histories import Layout
from synthdp.domain.values import mask_of_values
from synthdp.schema.rules_across import AmongRows
from synthdp.schema.sibling_rules import NeverFalls, RowsPerParent, SiblingRule, UniquePerParent


@dataclass(slots=True, eq=False)
class Among:
    """The state of rules between sibling rows while rows are drawn, one for each parent row at a time.

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
        """Return, for each rule, which cells the next row of some parent rows may have, (rows, cells).

        Parameters
        ----------
        parent
            (rows,) the parent rows, each once.
        left
            (rows,) how many rows of each are still to come, the next one among them.
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
        """Record the cells that the newest rows of some parent rows got, since they restrict the next ones."""
        if not self.rules:
            return
        if len(self._used):
            self._used[parent, cells] += 1
        for i, named in self._named.items():
            self._many[i][parent] += named[cells]
        self._last[parent] = np.where(cells < self._regular, cells, self._last[parent])

    @property
    def _regular(self) -> int:
        """The number of cells of regular values, which come first; rules of uniqueness and order bind only these."""
        return self._axis.regular if self.rules else 0


def cells_named(one: AmongRows, axis: Axis) -> BoolArray:
    """Return which cells of an axis hold a value that a rule counts, (cells,); none for rules that do not count."""
    if not isinstance(one.rule, RowsPerParent):
        return np.zeros(axis.size, np.bool_)
    return np.asarray(
        np.bincount(axis.cells_of(np.flatnonzero(_named(one)).astype(np.uint32)), minlength=axis.size) > 0
    )


def kept_among(one: AmongRows, points: GridIndices, numbers: AnyArray, parent: IntArray, kept: BoolArray) -> BoolArray:
    """Return which rows remain, (n,), after rows are dropped until none of one parent breaks a rule between siblings.

    Of equal values the first row stays; a number that falls goes, as do counted rows beyond the most.  Where a parent
    row has too few counted rows, all its rows go.

    Parameters
    ----------
    one
        The rule.
    points
        (n,) grid points of its column.
    numbers
        (n,) what is compared where it must not fall.
    parent
        (n,) the parent row of each; one parent row's are together and in order.
    kept
        (n,) which rows are left.
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
    """Return which grid points a row-counting rule names, (grid points,); empty for other rules."""
    return (
        mask_of_values(one.column, list(one.rule.values)) if isinstance(one.rule, RowsPerParent) else np.zeros(0, bool)
    )


def _never_fall(numbers: AnyArray, parent: IntArray) -> BoolArray:
    """Return which rows, (n,), are not below an earlier row of the same parent."""
    places = np.unique(numbers, return_inverse=True)[1].reshape(-1)
    highest = np.maximum.accumulate(places + parent * (int(places.max(initial=0)) + 1))  # parents increase
    return np.asarray(places + parent * (int(places.max(initial=0)) + 1) >= highest)
