"""Days between two dates, where many rows share one second date, as contracts cut at the last day of the books do.

A model draws the first date, then the days between, then the second date, which the two nearly determine.  The days of a
cut contract depend on its first date only: drawn from a law of days alone, too few of them reach the day of the cut.  So
the law of days is that of rows that end elsewhere.  Rows that end on such a single day are added to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import BoolArray, FloatArray, IntArray
from synthdp.domain.histories import Layout
from synthdp.domain.history_rules import Barrier

Key = tuple[int, str]
"""Position of a table, and an attribute."""

LEAST = 1e-300
"""Smallest probability, up to a common factor, of rows that end elsewhere than on a single day.  Below it, no ratio to
it is formed, so that none overflows.  A numerical tolerance."""


@dataclass(frozen=True, slots=True, eq=False)
class DaysToHeaps:
    """Second days of a rule that have a cell of their own, and the numbers of days that lead to each day.

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
        """Table and attribute of the days between the first and the second day, which are drawn before the second."""
        return self.barrier.table, self.barrier.days

    @property
    def second(self) -> Key:
        """Table and attribute of the second day, which the first and the days between lead to."""
        return self.barrier.table, self.barrier.attribute

    def logarithms(self, likely: FloatArray, first: IntArray, group: IntArray, related: FloatArray) -> FloatArray:
        """Return terms for the days' log-probabilities, (rows, cells of the days), for rows on single days.

        A term is the logarithm of a ratio, by cell of the days.  The ratio is the probability of all second days to the
        probability of second days other than single days.  The term is 0 where only single days are possible.

        Parameters
        ----------
        likely
            (rows, cells of the second day) probability of each second day, whatever the days between.
        first, group
            (rows,) cell of the first day, and group of periods.
        related
            (groups of periods, cells of the days, cells of the second day) factor on the joint probability, relative to
            independence.
        """
        found = np.zeros((len(first), self.possible.shape[1]))
        place = first * len(related) + group
        for here in np.unique(place):
            mine = np.flatnonzero(place == here)
            times = self.possible[here // len(related)] * related[here % len(related)]
            there, elsewhere = (likely[mine] @ (times * some).T for some in (self.single, ~self.single))
            found[mine] = np.where(elsewhere > LEAST, np.log1p(there / np.maximum(elsewhere, LEAST)), 0.0)
        return found


def days_to_heaps(layout: Layout, barriers: Iterable[Barrier]) -> Mapping[Key, DaysToHeaps]:
    """Return, by table and days between, the second days that are cells of their own; other cells hold several days.

    Many rows may end on a single day, and days between that lead there must then be drawn more often.
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
