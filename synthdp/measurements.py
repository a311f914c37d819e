"""What the curator answers: noisy whole numbers, and how they were made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from synthdp.arrays import Answers, IntArray, frozen
from synthdp.queries.protocol import KeyStatistic, Statistic

UNLIKELY = 0.01
"""How often, at most, noise alone passes for something in a release: over all answers that are looked at together."""


class NoiseLaw(StrEnum):
    """Distribution of the noise on a vector of whole numbers."""

    LAPLACE = "discrete Laplace"
    GAUSSIAN = "discrete Gaussian"
    LINF = "discrete l-infinity K-norm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """The law of the noise on k whole numbers.

    Parameters
    ----------
    law
        Its distribution.
    scale
        Laplace b, Gaussian sigma, or K-norm Delta / epsilon, in whole numbers.
    k
        Length of the vector.
    """

    law: NoiseLaw
    scale: float
    k: int

    @property
    def stddev(self) -> float:
        """Standard deviation of one coordinate, in whole numbers."""
        match self.law:
            case NoiseLaw.LAPLACE:
                return 1 / (math.sqrt(2) * math.sinh(0.5 / self.scale)) if self.scale > 0.01 else 0.0
            case NoiseLaw.GAUSSIAN:
                return self.scale
            case NoiseLaw.LINF:
                return self.scale * math.sqrt((self.k + 1) * (self.k + 2) / 3)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measurements:
    """Noisy answers to one statistic.

    Parameters
    ----------
    queries
        What was asked.
    values
        (k,) noisy whole numbers: ``resolution`` times the statistic, plus noise.
    resolution
        Whole number by which the statistic was multiplied before the noise.
    noise
        Law of the noise on ``values``.
    """

    queries: Statistic | KeyStatistic
    values: IntArray
    resolution: int
    noise: Noise

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", frozen(np.array(self.values, np.int64)))

    def __repr__(self) -> str:
        return f"Measurements({type(self.queries).__name__}, k={len(self.values)}, stddev={self.stddev:.4g})"

    @property
    def answers(self) -> Answers:
        """(k,) unbiased answers: sums over rows (or the statistic's own unit)."""
        return np.asarray(self.values / float(self.resolution * self.queries.unit), np.float64)

    @property
    def stddev(self) -> float:
        """Standard deviation of each answer."""
        return self.noise.stddev / (self.resolution * self.queries.unit)


def beyond_noise(stddev: float, answers: int) -> float:
    """Return the count that noise alone exceeds in any of so many answers with probability `UNLIKELY` at most.

    One-sided, by the tail of Laplace noise and the union bound; the other laws of the same stddev have lighter tails.

    Parameters
    ----------
    stddev
        Standard deviation of the noise of each answer.
    answers
        How many are looked at together.
    """
    return stddev / math.sqrt(2) * math.log(answers / (2 * UNLIKELY))
