"""What the curator answers: noisy whole numbers, and how they were made."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
from scipy.special import gammaincc, gammainccinv, ndtr, ndtri

from synthdp.arrays import Answers, IntArray, frozen
from synthdp.codec import file_form
from synthdp.domain.domain import Domain
from synthdp.errors import InternalError
from synthdp.queries.contingency import NoisyTable, TellsNoisyTables
from synthdp.queries.linear import Total
from synthdp.queries.protocol import KeyStatistic, Statistic, TellsPersonTables, about_keys

if TYPE_CHECKING:
    from synthdp.queries.person_tables import NoisyPersonTable

AskedT = TypeVar("AskedT")

UNLIKELY = 0.01
"""Largest probability that any count of pure noise in a release passes for significant.  In a release with many
significant counts, `findings` bounds the fraction of false ones by this number instead.  A convention."""

SIGNIFICANT = 4.0
"""Number of noise stddevs by which one count, or one sum, must differ from its expectation so that the difference is not
taken for noise.  A tolerance: normal noise alone exceeds it, in either direction, once in 16 000 counts."""

MIDDLE = 0.5
"""P-value above which a count is taken for noise when the fraction of pure-noise counts is estimated.  Derived: noise
is as often below 0 as above."""

ONE_SIDED = 0.025
"""One-sided p-value that a significant count must not exceed.  Derived: its 95 % interval then excludes 0."""

LEAST_STDDEV = 1e-9
"""Least standard deviation, in integer steps, that Laplace noise is given: a tolerance, because programs divide by it.
"""


class NoiseDistribution(Protocol):
    """Standard deviation, quantiles and tails of one noise law; ``scale`` is that in `Noise`, ``k`` the vector's length."""

    def stddev(self, scale: float, k: int) -> float:
        """Return the standard deviation of one of ``k`` noise coordinates, in integer steps, for the law's ``scale``."""
        ...

    def quantile(self, miss: float, k: int) -> float:
        """Return the absolute value that one of ``k`` noise coordinates exceeds with probability ``miss``, in stddevs.

        The quantile is of the continuous law, which is near the discrete law.
        """
        ...

    def tail(self, scale: float, k: int, *, beta: float, count: int) -> float:
        """Return a bound in integer steps that any of ``count`` coordinates exceeds with probability at most ``beta``.

        ``count`` is at most ``k``, the length of a noise vector with this ``scale``.
        """
        ...


class _Laplace:
    """The discrete Laplace law: independent coordinates with P(z) ∝ exp(-|z| / scale)."""

    def stddev(self, scale: float, k: int) -> float:  # noqa: ARG002 - the same for every length
        """Return the standard deviation of one of the noise's k coordinates, in integer steps."""
        return max(1 / (math.sqrt(2) * math.sinh(0.5 / max(scale, 0.01))), LEAST_STDDEV)

    def quantile(self, miss: float, k: int) -> float:  # noqa: ARG002
        """Return the absolute value that one noise coordinate exceeds with probability ``miss``, in standard deviations."""
        return -math.log(miss) / math.sqrt(2)

    def tail(self, scale: float, k: int, *, beta: float, count: int) -> float:  # noqa: ARG002
        """Return a bound in integer steps that any of ``count`` coordinates exceeds with probability at most ``beta``.

        By P(|z| >= x) <= 2 exp(-x / scale) and the union bound.
        """
        return scale * math.log(2 * max(count, 1) / beta)


class _Gaussian:
    """The discrete Gaussian law: independent coordinates with P(z) ∝ exp(-z² / 2 scale²)."""

    def stddev(self, scale: float, k: int) -> float:  # noqa: ARG002
        """Return the standard deviation of one of the noise's k coordinates, in integer steps."""
        return scale

    def quantile(self, miss: float, k: int) -> float:  # noqa: ARG002
        """Return the absolute value that one noise coordinate exceeds with probability ``miss``, in standard deviations."""
        return float(-ndtri(miss / 2))

    def tail(self, scale: float, k: int, *, beta: float, count: int) -> float:  # noqa: ARG002
        """Return a bound in integer steps that any of ``count`` coordinates exceeds with probability at most ``beta``.

        By P(|z| >= x) <= 2 exp(-x² / 2 scale²) (subgaussian: Canonne, Kamath, Steinke 2020) and the union bound.
        """
        return scale * math.sqrt(2 * math.log(2 * max(count, 1) / beta))


class _Linf:
    """The ℓ∞ K-norm law P(z) ∝ exp(-max|z| / scale): a uniform point of a cube whose half-width has a Gamma(k + 1) law."""

    def stddev(self, scale: float, k: int) -> float:
        """Return the standard deviation of one of the noise's k coordinates, in integer steps."""
        return scale * math.sqrt((k + 1) * (k + 2) / 3)

    def quantile(self, miss: float, k: int) -> float:
        """Return the absolute value that one noise coordinate exceeds with probability ``miss``, in standard deviations.

        P(|z| > x) = Q(k + 1, x) - x Q(k, x) / k, with Q the upper regularised gamma function and x in multiples of the
        scale.
        """
        from scipy.optimize import brentq  # takes a tenth of a second, which most releases need not

        farthest = float(gammainccinv(k + 1, miss))
        width = brentq(lambda x: float(gammaincc(k + 1, x) - x * gammaincc(k, x) / k) - miss, 0.0, farthest)
        return float(width) / self.stddev(1.0, k)

    def tail(self, scale: float, k: int, *, beta: float, count: int) -> float:  # noqa: ARG002 - all lie in the cube
        """Return a bound in integer steps that any of the ``k`` coordinates exceeds with probability at most ``beta``.

        All coordinates lie in a cube, whose half-width is at most one integer step above the continuous law's.
        """
        return scale * float(gammainccinv(k + 1, beta)) + 1.0


class NoiseLaw(StrEnum):
    """The noise laws, by the names that receipts and files give them."""

    LAPLACE = "discrete Laplace"
    GAUSSIAN = "discrete Gaussian"
    LINF = "discrete l-infinity K-norm"

    @property
    def distribution(self) -> NoiseDistribution:
        """The law's standard deviation, quantiles and tails.

        Drawing is in `synthdp.privacy.calibration.Calibration.noised`.
        """
        return _DISTRIBUTIONS[self]


_DISTRIBUTIONS: dict[NoiseLaw, NoiseDistribution] = {
    NoiseLaw.LAPLACE: _Laplace(),
    NoiseLaw.GAUSSIAN: _Gaussian(),
    NoiseLaw.LINF: _Linf(),
}
"""The arithmetic of each noise law."""


@file_form("Noise")
@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """The noise on a vector of k integers: its law and scale.

    Parameters
    ----------
    law
        Distribution of the noise.
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
        """The standard deviation of one of the k noise coordinates, in integer steps."""
        return self.law.distribution.stddev(self.scale, self.k)

    def tail(self, beta: float, *, count: int) -> float:
        """Return a bound, in integer steps, that any of ``count`` coordinates exceeds with probability at most ``beta``."""
        return self.law.distribution.tail(self.scale, self.k, beta=beta, count=count)


@file_form("Measurements")
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measurements:
    """The noisy answers to one statistic, with all that is needed to estimate from them: query, scale and noise.

    Parameters
    ----------
    queries
        The queries that were answered.
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
        """Unbiased noisy answers to the statistic in its own unit, (k,): the whole numbers over their scale.

        The scale is ``resolution`` times the denominator of the queries: this integer stands for an answer of 1.  Most
        answers are sums over rows.
        """
        return np.asarray(self.values / float(self.resolution * self.queries.denominator), np.float64)

    @property
    def stddev(self) -> float:
        """The noise standard deviation of each answer, in the unit of `answers`."""
        return self.noise.stddev / (self.resolution * self.queries.denominator)

    @property
    def domain(self) -> Domain | None:
        """The binned columns that the queries are about; ``None`` for queries about record keys."""
        return None if about_keys(self.queries) else self.queries.domain

    @property
    def tables(self) -> list[NoisyTable]:
        """The answers as noisy marginals over binned columns; none for queries of another kind."""
        if not isinstance(self.queries, TellsNoisyTables):
            return []
        return self.queries.noisy_tables(self.answers, self.stddev)

    @property
    def person_tables(self) -> list[NoisyPersonTable]:
        """The answers as noisy tables of persons; none for queries of another kind."""
        if not isinstance(self.queries, TellsPersonTables):
            return []
        return self.queries.noisy_person_tables(self.answers, self.stddev)

    @property
    def row_count(self) -> tuple[float, float] | None:
        """The noisy number of rows with its noise stddev, in rows; ``None`` for measurements of other queries."""
        return (float(self.answers[0]), self.stddev) if isinstance(self.queries, Total) else None

    def asked(self, kind: type[AskedT]) -> AskedT:
        """Return the queries, whose class the caller knows, so that types can be checked.

        Raises
        ------
        InternalError
            If the queries are of another class.
        """
        if not isinstance(self.queries, kind):
            raise InternalError(f"the measurements must be answers to {kind.__name__}")
        return self.queries

    def quantile(self, miss: float) -> float:
        """Return the absolute error that each answer exceeds with probability ``miss``, in the unit of `answers`."""
        return self.stddev * self.noise.law.distribution.quantile(miss, self.noise.k)


def row_counts(measurements: Iterable[Measurements]) -> list[tuple[float, float]]:
    """Return each noisy total number of rows among the measurements, in rows, with its noise standard deviation.

    The number of rows of a release is estimated from them.
    """
    return [one.row_count for one in measurements if one.row_count is not None]


def by_noise_alone(rows: float, stddev: float, *, normal: bool) -> float:
    """Return the one-sided p-value of a noisy count: the probability that noise alone is at least so large.

    Parameters
    ----------
    rows
        The noisy count.
    stddev
        Standard deviation of its noise.
    normal
        Whether the noise is Gaussian; otherwise the tail is Laplace noise's, the heaviest of the laws.  A count of 0 or
        less then gives 1, an upper bound: such a count is no evidence of rows.
    """
    if normal:
        return float(ndtr(-rows / stddev))
    return 0.5 * math.exp(-math.sqrt(2) * rows / stddev) if rows > 0 else 1.0


def findings(chances: Sequence[float]) -> int:
    """Return how many of the smallest p-values are significant, at the false discovery rate `UNLIKELY`.

    The method is the step-up procedure of Benjamini and Hochberg (1995).  The number of true nulls is estimated from
    the p-values above `MIDDLE` (Storey, Taylor and Siegmund 2004, theorem 3).  If nothing is there, anything is found
    with probability `UNLIKELY`, or at most 1.2 times that, because the estimate is capped.  A p-value above `ONE_SIDED`
    is never significant.

    Parameters
    ----------
    chances
        For each count the p-value: the probability that noise alone reaches the count.  The counts are independent.
    """
    ordered = sorted(chances)
    noise = min((1 + sum(one > MIDDLE for one in ordered)) / (1 - MIDDLE), len(ordered))
    limits = (min(UNLIKELY * rank / noise, ONE_SIDED) for rank in range(1, len(ordered) + 1))
    return max(
        (rank for rank, (one, most) in enumerate(zip(ordered, limits, strict=True), 1) if one <= most), default=0
    )


def beyond_noise(stddev: float, answers: int) -> float:
    """Return the count that noise alone exceeds in any of ``answers`` answers with probability `UNLIKELY` at most.

    The limit is one-sided, by the tail of Laplace noise and the union bound; the other laws of equal stddev have
    lighter tails.

    Parameters
    ----------
    stddev
        Standard deviation of the noise of each answer.
    answers
        Number of answers that are tested together.
    """
    return stddev / math.sqrt(2) * math.log(answers / (2 * UNLIKELY))
