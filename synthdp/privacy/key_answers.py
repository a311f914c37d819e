"""Noisy answers to a question about record keys."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from synthdp.arrays import Answers, IntArray, frozen
from synthdp.privacy.calibration import Calibration


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyAnswers:
    """Noisy totals of a `KeyStatistic`, and how they were made.

    Parameters
    ----------
    values
        (k,) noisy whole numbers.
    unit
        The whole number that stands for 1 in the statistic.
    plan
        The noise on them.
    """

    values: IntArray
    unit: int
    plan: Calibration

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", frozen(np.array(self.values, np.int64)))

    @property
    def answers(self) -> Answers:
        """(k,) unbiased totals, in rows."""
        return np.asarray(self.values / float(self.plan.resolution * self.unit), np.float64)

    @property
    def stddev(self) -> float:
        """Standard deviation of each total, in rows."""
        return self.plan.noise.stddev / (self.plan.resolution * self.unit)
