"""What the curator answers: noisy whole numbers, and how they were made."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
from scipy.special import gammaincc, gammainccinv, ndtr, ndtri

from synthdp.arrays import Answers, IntArray, frozen
from synthdp.codec import file_form
from synthdp.domain.domain import Domain
from synthdp.queries.contingency import NoisyTable, TellsNoisyTables
from synthdp.queries.linear import Total
from synthdp.queries.protocol import KeyStatistic, Statistic, about_keys

UNLIKELY = 0.01
"""Chance that noise alone passes for a finding anywhere in a release that holds none; where much is there, the share of
findings that is noise, on average (`findings`).  A convention."""

MIDDLE = 0.5
"""Chance above which a count is taken for noise when the part of noise is estimated.  Derived: noise is as often below 0
as above, so that half of its counts have such a chance."""

ONE_SIDED = 0.025
"""Derived: how often noise alone lies above an interval of 95 %.  A count whose own interval holds 0 is no finding."""

LEAST_STDDEV = 1e-9
"""Standard deviation, in whole numbers, that is stated where that of Laplace noise is smaller: a tolerance, for programs
divide by it."""


class NoiseDistribution(Protocol):
    """The arithmetic of one law of noise; ``scale`` is `Noise`'s, ``k`` the length of the vector."""

    def stddev(self, scale: float, k: int) -> float:
        """Return the standard deviation of one coordinate."""
        ...

    def quantile(self, miss: float, k: int) -> float:
        """Return what the size of one coordinate exceeds with probability ``miss``, in standard deviations.

        That of the continuous law, which the discrete one is near.
        """
        ...

    def tail(self, scale: float, k: int, *, beta: float, count: int) -> float:
        """Return a bound that ``count`` coordinates exceed together with probability at most ``beta``."""
        ...


class _Laplace:
    """P(z) ∝ exp(-|z| / scale), each coordinate by itself."""

    def stddev(self, scale: float, k: int) -> float:  # noqa: ARG002 - the same for every length
        """Return the stddev of one of k noisy numbers."""
        return max(1 / (math.sqrt(2) * math.sinh(0.5 / max(scale, 0.01))), LEAST_STDDEV)

    def quantile(self, miss: float, k: int) -> float:  # noqa: ARG002
        """Return how many stddevs one noise exceeds with chance ``miss``, on either side."""
        return -math.log(miss) / math.sqrt(2)

    def tail(self, scale: float, k: int, *, beta: float, count: int) -> float:  # noqa: ARG002
        """P(|z| >= x) <= 2 exp(-x / scale)."""
        return scale * math.log(2 * max(count, 1) / beta)


class _Gaussian:
    """P(z) ∝ exp(-z² / 2 scale²), each coordinate by itself."""

    def stddev(self, scale: float, k: int) -> float:  # noqa: ARG002
        """Return the stddev of one of k noisy numbers."""
        return scale

    def quantile(self, miss: float, k: int) -> float:  # noqa: ARG002
        """Return how many stddevs one noise exceeds with chance ``miss``, on either side."""
        return float(-ndtri(miss / 2))

    def tail(self, scale: float, k: int, *, beta: float, count: int) -> float:  # noqa: ARG002
        """P(|z| >= x) <= 2 exp(-x² / 2 scale²): it is subgaussian (Canonne, Kamath, Steinke 2020)."""
        return scale * math.sqrt(2 * math.log(2 * max(count, 1) / beta))


class _Linf:
    """P(z) ∝ exp(-max|z| / scale): a point of a cube whose half-width has a Gamma(k + 1) law."""

    def stddev(self, scale: float, k: int) -> float:
        """Return the stddev of one of k noisy numbers."""
        return scale * math.sqrt((k + 1) * (k + 2) / 3)

    def quantile(self, miss: float, k: int) -> float:
        """P(|z| > x) = Q(k + 1, x) - x Q(k, x) / k, Q the upper regularised gamma function, in multiples of the scale."""
        from scipy.optimize import brentq  # takes a tenth of a second, which most releases need not

        farthest = float(gammainccinv(k + 1, miss))
        width = brentq(lambda x: float(gammaincc(k + 1, x) - x * gammaincc(k, x) / k) - miss, 0.0, farthest)
        return float(width) / self.stddev(1.0, k)

    def tail(self, scale: float, k: int, *, beta: float, count: int) -> float:  # noqa: ARG002 - all lie in the cube
        """All lie in the cube, whose half-width is within one of the continuous law's."""
        return scale * float(gammainccinv(k + 1, beta)) + 1.0


class NoiseLaw(StrEnum):
    """Distribution of the noise on a vector of whole numbers, by the name that receipts and files give it."""

    LAPLACE = "discrete Laplace"
    GAUSSIAN = "discrete Gaussian"
    LINF = "discrete l-infinity K-norm"

    @property
    def distribution(self) -> NoiseDistribution:
        """Its arithmetic; what draws from it is `synthdp.privacy.calibration.Calibration.noised`."""
        return _DISTRIBUTIONS[self]


_DISTRIBUTIONS: dict[NoiseLaw, NoiseDistribution] = {
    NoiseLaw.LAPLACE: _Laplace(),
    NoiseLaw.GAUSSIAN: _Gaussian(),
    NoiseLaw.LINF: _Linf(),
}
"""The distribution of each law of noise."""


@file_form("Noise")
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
        return self.law.distribution.stddev(self.scale, self.k)

    def tail(self, beta: float, *, count: int) -> float:
        """Return a bound that ``count`` coordinates exceed together with probability at most ``beta``."""
        return self.law.distribution.tail(self.scale, self.k, beta=beta, count=count)


@file_form("Measurements")
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
        """(k,) unbiased answers: sums over rows (or of the statistic's own values)."""
        return np.asarray(self.values / float(self.resolution * self.queries.denominator), np.float64)

    @property
    def stddev(self) -> float:
        """Standard deviation of each answer."""
        return self.noise.stddev / (self.resolution * self.queries.denominator)

    @property
    def domain(self) -> Domain | None:
        """The cells that the queries look at; ``None`` for queries about keys."""
        return None if about_keys(self.queries) else self.queries.domain

    @property
    def tables(self) -> list[NoisyTable]:
        """The answers as noisy tables over the cells of the queries' domain; none where other things were asked."""
        if not isinstance(self.queries, TellsNoisyTables):
            return []
        return self.queries.noisy_tables(self.answers, self.stddev)

    def quantile(self, miss: float) -> float:
        """Return what the error of each answer exceeds with probability ``miss``."""
        return self.stddev * self.noise.law.distribution.quantile(miss, self.noise.k)


def row_counts(measurements: Iterable[Measurements]) -> list[tuple[float, float]]:
    """Return each noisy number of rows that was asked for, with its standard deviation."""
    return [(float(one.answers[0]), one.stddev) for one in measurements if isinstance(one.queries, Total)]


def by_noise_alone(rows: float, stddev: float, *, normal: bool) -> float:
    """Return the probability that noise alone is at least a count, one-sided.

    Parameters
    ----------
    rows
        The noisy count.
    stddev
        Standard deviation of its noise.
    normal
        Whether that is Gaussian; otherwise the tail is Laplace noise's, the heaviest of the laws.
    """
    if normal:
        return float(ndtr(-rows / stddev))
    return 0.5 * math.exp(-math.sqrt(2) * rows / stddev) if rows > 0 else 1.0


def findings(chances: Sequence[float]) -> int:
    """Return how many of the least likely counts are findings and not noise.

    By the step-up procedure of Benjamini and Hochberg (1995) for as many counts as seem to be noise: those likelier than
    `MIDDLE` and one more, over the part of noise that is (Storey, Taylor and Siegmund 2004, theorem 3), all at most.  Where
    nothing is there, anything is found with probability `UNLIKELY`, at most 1.2 times that for the "at most"; where much
    is, so large a part of what is found is noise, on average.  What noise reaches likelier than `ONE_SIDED` is never one.

    Parameters
    ----------
    chances
        For each count, how likely noise alone is to reach it; independent ones.
    """
    ordered = sorted(chances)
    noise = min((1 + sum(one > MIDDLE for one in ordered)) / (1 - MIDDLE), len(ordered))
    limits = (min(UNLIKELY * rank / noise, ONE_SIDED) for rank in range(1, len(ordered) + 1))
    return max(
        (rank for rank, (one, most) in enumerate(zip(ordered, limits, strict=True), 1) if one <= most), default=0
    )


def beyond_noise(stddev: float, answers: int) -> float:
    """Return the count that noise alone exceeds in any of a number of answers with probability `UNLIKELY` at most.

    One-sided, by the tail of Laplace noise and the union bound; the other laws of the same stddev have lighter tails.

    Parameters
    ----------
    stddev
        Standard deviation of the noise of each answer.
    answers
        How many are looked at together.
    """
    return stddev / math.sqrt(2) * math.log(answers / (2 * UNLIKELY))
