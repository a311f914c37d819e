"""An answer with its error bar, as summaries give it.  Public numbers only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from synthdp.arrays import FloatArray
from synthdp.checks import check_share


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
    """

    estimate: float | FloatArray
    stderr: float | FloatArray
    truncation: float | FloatArray = 0.0
    truncation_bound: float | FloatArray | None = None

    def __float__(self) -> float:
        return float(self.estimate)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> FloatArray:
        return np.array(self.estimate, dtype=dtype, copy=copy)  # type: ignore[call-overload,no-any-return]

    def interval(self, level: float = 0.95) -> tuple[float | FloatArray, float | FloatArray]:
        """Return the ends of an interval: the normal quantile of the noise, plus the truncation on both sides.

        The noise of an answer is a sum over many coordinates and close to normal.

        Raises
        ------
        ParameterError
            If ``level`` is not between 0 and 1.
        """
        check_share("level", level)
        bias = self.truncation if self.truncation_bound is None else self.truncation_bound
        half = float(ndtri(0.5 + level / 2)) * self.stderr + bias
        return self.estimate - half, self.estimate + half
