"""`Answers`: numbers with error bars in the form that users see.  Other modules compute the numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtri, ndtri_exp, stdtrit

from synthdp.arrays import LARGEST_WHOLE, FloatArray
from synthdp.domain.grid import labels_of
from synthdp.schema.column import Column
from synthdp.tables.results import answer_table

MEASURED, MODEL = "measured", "model"
"""Values of an answer's basis: computed from measured tables alone, or from the model."""

UNKNOWN = "model; its error is not known"
"""Basis shown in place of `MODEL` if the standard error is NaN, because the release stores no suitable noisy answer."""

LEVEL = 0.95
"""Coverage of an answer's interval.  95 % is usual; a higher coverage would widen every interval.  A convention."""

NORMAL = float(ndtri(0.5 + LEVEL / 2))
"""Half width of an interval in standard errors, for exact standard errors.  Derived: the normal quantile of `LEVEL`."""

STUDENT = float(stdtrit(6, 0.5 + LEVEL / 2))
"""Half width of an interval in standard errors, for bootstrap standard errors: 2.4.

Derived: Student's t with six degrees of freedom, because a standard error rests on few replicates and on rough
strengths of unmeasured relations."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answers:
    """Holds the numbers of an answer with their error bars.

    Parameters
    ----------
    labels
        By name, the label of each number.
    estimate
        (q,) the numbers.
    stddev
        (q,) stddevs of their errors; NaN if the release stores no noisy tables.
    lower, upper
        (q,) ends of 95 % intervals.
    basis
        (q,) ``"measured"``: computed without bias from noisy tables; the interval covers their noise exactly.
        ``"model"``: computed from the fitted model; the interval covers noise, shrinkage, sampling and unmeasured
        relations of a strength that the release's screening allows (`Misspecification`).
    bias
        (q,) bound on the error from other causes than noise, included in the intervals; ``None`` for none.
    """

    labels: dict[str, list[Any]] = field(default_factory=dict)
    estimate: Any
    stddev: Any
    lower: Any
    upper: Any
    basis: list[str]
    bias: Any = None

    def to_frame(self) -> Any:
        """Return a DataFrame: labels, estimate, standard_error, lower, upper, basis, and bias if there is one."""
        bias = {} if self.bias is None else {"bias": self.bias}
        return answer_table({
            **self.labels,
            "estimate": self.estimate,
            "standard_error": self.stddev,
            "lower": self.lower,
            "upper": self.upper,
            "basis": [UNKNOWN if self._unknown(i) else one for i, one in enumerate(self.basis)],
            **bias,
        })  # fmt: skip

    def _unknown(self, i: int) -> bool:
        """Return whether answer ``i`` is computed from the model and has no known error; it is shown as `UNKNOWN`."""
        error, estimate = self.stddev[i], self.estimate[i]
        return bool(error != error and estimate is not None and estimate == estimate and self.basis[i] == MODEL)


def with_intervals(
    labels: dict[str, list[Any]],
    estimate: FloatArray,
    stddev: FloatArray,
    basis: list[str],
    *,
    lowest: float = -math.inf,
    highest: float = math.inf,
    column: Column | None = None,
    bias: FloatArray | None = None,
) -> Answers:
    """Return answers from estimates and standard errors, with 95 % intervals clipped to ``lowest`` and ``highest``.

    Intervals use the normal distribution for measured answers, Student's t for others.  A bias widens them on both
    sides.  If noise has put an estimate beyond a limit, the interval reaches farther inside; see `_reach`.
    """
    stddev = np.where(np.isnan(estimate), np.nan, stddev)  # of no rows nothing is known
    from_noise = np.array([one == MEASURED for one in basis])
    quantile = np.where(from_noise, NORMAL, STUDENT)
    half = quantile * stddev if bias is None else quantile * stddev + bias
    reach = (_reach(highest - estimate, half), _reach(estimate - lowest, half))
    ends = [np.clip(estimate + sign * far, lowest, highest) for sign, far in zip((-1, 1), reach, strict=True)]
    shown = np.clip(estimate, lowest, highest)
    if column is not None and column.temporal:
        return Answers(
            labels=labels, estimate=format_values(column, shown), stddev=show_errors(column, stddev),
            lower=format_values(column, ends[0]), upper=format_values(column, ends[1]), basis=basis,
        )  # fmt: skip
    return Answers(labels=labels, estimate=shown, stddev=stddev, lower=ends[0], upper=ends[1], basis=basis, bias=bias)


def _reach(inside: FloatArray, half: FloatArray) -> FloatArray:
    """Return the distance from each estimate to its interval's end on the side away from a limit of the truth, (q,).

    A noisy count of -30 would otherwise have an interval of [0, 0], since truths lie above the limit 0.  So the normal
    distribution around the estimate is cut off at the limit, and the end leaves 2.5 % of the rest beyond it.  The
    distance is at least ``half``, and nearly equal to it unless the estimate is near the limit or beyond it.

    Parameters
    ----------
    inside
        (q,) distance of the estimate from the limit; negative beyond it, infinite if there is no limit.
    half
        (q,) half the width of the interval without limits.
    """
    noisy = half > 0
    stddev = np.where(noisy, half / NORMAL, 1.0)
    left = math.log((1 - LEVEL) / 2) + log_ndtr(inside / stddev)
    return np.asarray(np.where(noisy, np.maximum(half, -stddev * ndtri_exp(left)), half), np.float64)


def format_values(column: Column, values: FloatArray) -> Any:
    """Return numbers in the form of a column's values: levels of an ordered column, times, or numbers as they are.

    Numbers of an ordered column are positions among its levels; they are rounded, and NaN becomes None.
    """
    if column.labelled and column.ordered:
        levels = labels_of(column)
        return [None if np.isnan(value) else levels[int(np.clip(round(value), 0, len(levels) - 1))] for value in values]
    if column.temporal:
        return np.array([column.estimate(value) for value in values])
    return values


def show_errors(column: Column, values: FloatArray) -> Any:
    """Return standard errors in the unit of a column: durations, as numpy timedelta64, for times; else numbers.

    Errors that are not finite, or too long for 64 bits, become NaT.
    """
    if not column.temporal:
        return values
    return np.array(
        [round(value) if abs(value) < LARGEST_WHOLE else np.timedelta64("NaT", "us") for value in values],
        "timedelta64[us]",
    )
