"""An answer with its error bar, as summaries give it.  Public numbers only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import ndtri

from synthdp.answers.answers import LEVEL, MEASURED, Answers
from synthdp.arrays import FloatArray, frozen
from synthdp.checks import check_share

BRACKET = "bracket"
"""Value of `Answers.basis` for an answer known only to lie between two ends: the estimate is their middle, and it has
no standard error.
"""


def bracketed(ends: tuple[float, float]) -> Answers:
    """Return one answer, (1,), known only to lie between two ends: their middle, with a standard error of NaN.

    The interval is from end to end, and the basis is `BRACKET`.
    """
    return Answers(
        estimate=np.array([sum(ends) / 2]), stddev=np.array([np.nan]), lower=np.array([ends[0]]),
        upper=np.array([ends[1]]), basis=[BRACKET],
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimate:
    """One or more answers, each with what is known of its error.

    Parameters
    ----------
    estimate
        The answer, a number, or (k,) answers.
    stderr
        Standard deviation of its noise, in the same shape.
    truncation
        Largest gap seen between the query and what is asked in its place; a bias that no noise explains.
    truncation_bound
        A proven bound on that gap, where the query's smoothness was given.
    offset
        The part of the answer that is not divided by the number of rows.
    rows_error
        Relative standard deviation of the number of rows, if the answer without ``offset`` was divided by it; ``stderr``
        includes it.
    range
        The least and the largest value that the truth can have for any rows: answers and intervals are clipped to it.

    Attributes
    ----------
    raw
        The answer as it came, perhaps beyond the range.
    """

    estimate: float | FloatArray
    stderr: float | FloatArray
    truncation: float | FloatArray = 0.0
    truncation_bound: float | FloatArray | None = None
    offset: float | FloatArray = 0.0
    rows_error: float = 0.0
    range: tuple[float, float] = (-math.inf, math.inf)
    raw: float | FloatArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        clipped = np.clip(self.estimate, *self.range)
        object.__setattr__(self, "raw", self.estimate)
        object.__setattr__(self, "estimate", float(clipped) if np.ndim(clipped) == 0 else frozen(np.asarray(clipped)))

    def __float__(self) -> float:
        return float(self.estimate)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> FloatArray:
        return np.array(self.estimate, dtype=dtype, copy=copy)  # type: ignore[call-overload,no-any-return]

    def answers(self, labels: Mapping[str, list[Any]] | None = None) -> Answers:
        """Return the estimates in the common form of all releases, `Answers`, with intervals and any bias.

        Parameters
        ----------
        labels
            Labels of each answer, by name.
        """
        estimate, ends = np.atleast_1d(self.estimate), self.interval(LEVEL)
        bias = np.broadcast_to(np.asarray(self._bias, np.float64), estimate.shape)
        return Answers(
            labels=dict(labels or {}), estimate=estimate, stddev=np.atleast_1d(self.stderr),
            lower=np.atleast_1d(ends[0]), upper=np.atleast_1d(ends[1]), basis=[MEASURED] * len(estimate),
            bias=bias if bias.any() else None,
        )  # fmt: skip

    @property
    def _bias(self) -> float | FloatArray:
        """The proven bound on the truncation error if there is one, else its estimate; intervals are wider by it."""
        return self.truncation if self.truncation_bound is None else self.truncation_bound

    def interval(self, level: float = 0.95) -> tuple[float | FloatArray, float | FloatArray]:
        """Return the ends of a confidence interval: normal noise plus the truncation error on both sides.

        The noise of an answer is a sum over many coordinates and close to normal.  If the answer A is divided by a
        noisy number of rows N, the ends are Fieller's (1954): all r for which A - r N is within its own noise.  These
        are all numbers if N may be 0.

        Notes
        -----
        With v = A / N, a and t the standard deviations of A and N over N, and z the quantile, (v - r)^2 <= z^2 (a^2 +
        r^2 t^2) for r between (v -+ z sqrt(a^2 (1 - z^2 t^2) + v^2 t^2)) / (1 - z^2 t^2), where z t < 1.  The noise of
        N is one number's, perhaps Laplace: t is scaled so that z t is the larger one of its quantile and the normal
        one.

        Raises
        ------
        ParameterError
            If ``level`` is not between 0 and 1.
        """
        check_share("level", level)
        z, t = float(ndtri(0.5 + level / 2)), self.rows_error
        t *= max(1.0, math.log(1 / (1 - level)) / math.sqrt(2) / z)
        left = 1 - (z * t) ** 2
        if left <= 0:  # the number of rows may be 0 for all that is known
            middle, half = 0.0 * np.asarray(self.raw), np.asarray(math.inf)
        else:
            v = np.asarray(self.raw) - self.offset
            alone = np.maximum(np.asarray(self.stderr) ** 2 - (v * self.rows_error) ** 2, 0.0)
            middle = np.asarray(self.offset + v / left)
            half = z * np.sqrt(alone * left + (v * t) ** 2) / left
        ends = [np.clip(middle + sign * (half + self._bias), *self.range) for sign in (-1.0, 1.0)]
        if np.ndim(self.estimate) == 0:
            return float(ends[0]), float(ends[1])
        return ends[0], ends[1]
