"""When the tables of a series are chosen, and for what part of its budget.  Arithmetic on public numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from synthdp.arrays import FloatArray, IntArray
from synthdp.privacy.series_factor import cost_matrix, largest_first, optimal_factor

FIRST_PART = 0.3
"""Fraction of the budget for the periods before the tables are chosen again.  More makes these better, and all later ones
worse.  Tuned: .3 and .7 are best for Adult in 12 months.  Half and twice of it change the three-way error of a table in
six periods, from the third on, by -7.4 and +9.1 % (docs/benchmarks/constants.md)."""

CHOSEN_AGAIN = 3
"""The period, counted from 1, in which the tables are chosen again, with more rows.  A later one has more rows to choose
by, and fewer periods left.  Tuned: choosing in the first period alone loses nearly all that sharing noise over periods
gains.  In a table of six periods the second and the sixth change the three-way error by +3.4 and +28.2 %
(docs/benchmarks/constants.md)."""

FEWEST = CHOSEN_AGAIN + 1
"""Series of fewer periods choose their tables only once.  Derived: at least one period follows the second choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One plan of questions in a series: its periods and its part of the budget.

    Parameters
    ----------
    start, last
        The first and the last period in which it asks, from 0.
    part
        Fraction of the budget of a unit whose rows lie in the first column.
    weight
        Number of times that a row counts when tables are chosen, to stand for the rows of the stage's last period.
    """

    start: int
    last: int
    part: float
    weight: int

    def factor(self, at_most: int) -> IntArray:
        """Return the matrix by which the stage's periods share noise, in multiples of 1 / `UNIT`; see `optimal_factor`.

        It has a row and a column for each of the stage's periods. A person has rows in ``at_most`` periods at most.
        """
        columns = self.last - self.start + 1
        merged = self.start + 1
        first = self.part if self.start else 1.0
        return optimal_factor(columns, min(at_most, columns + merged - 1), first, merged)

    def costs(self, factor: IntArray, periods: int, at_most: int) -> FloatArray:
        """Return the stage's costs by pairs of the T ``periods``, (T, T), relative to its first answers' mu squared.

        A person with rows in a set of periods costs at most the sum over its pairs; see `cost_matrix`. ``factor`` is
        the stage's; a person has rows in ``at_most`` periods at most.
        """
        columns = [max(0, t - self.start) if t <= self.last else -1 for t in range(periods)]
        return cost_matrix(factor, columns, first_rows=min(at_most, self.start + 1))

    def mu(self, factor: IntArray, spent: FloatArray, at_most: int, *, mu: float) -> float:
        """Return how much the stage's first answers may cost (in Gaussian DP), given what earlier stages cost.

        It is the most that keeps all stages together within the budget for every person.  The first stage stays within
        its `part`, a fraction of mu^2, since squares of mu add up.

        Parameters
        ----------
        factor
            The matrix by which this stage's periods share noise.
        spent
            (T, T) costs of earlier stages by pairs of periods, as squares of mu.
        at_most
            Most periods in which a unit may have rows.
        mu
            The whole budget.
        """
        costs = self.costs(factor, len(spent), at_most)
        whole = mu * np.sqrt(self.part) if not self.start else mu
        return largest_first(spent, costs, at_most, mu=float(whole))


def stages_of(periods: int, *, again: bool) -> tuple[Stage, ...]:
    """Return the stages of a series: one, or two if tables are chosen ``again`` once there are more rows.

    Series of fewer than `FEWEST` periods have one.
    """
    if not again or periods < FEWEST:
        return (Stage(start=0, last=periods - 1, part=1.0, weight=periods),)
    start = CHOSEN_AGAIN - 1
    later = Stage(start=start, last=periods - 1, part=1 - FIRST_PART, weight=max(1, round(periods / CHOSEN_AGAIN)))
    return Stage(start=0, last=start - 1, part=FIRST_PART, weight=1), later
