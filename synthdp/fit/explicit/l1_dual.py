"""The dual of the L1-fitting linear program over some support points, in the variables that HiGHS gets.

`Sifting` and `ColumnGeneration` both solve it, one with a listed support and one with a support that it generates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from synthdp.arrays import Answers, FloatArray, Weights
from synthdp.fit.explicit.linear_program import SIMPLEX
from synthdp.fit.explicit.problem import FeatureMatrix


class DualPoint(NamedTuple):
    """Values of the dual's variables: y (k,) with |y| <= r, and z."""

    y: FloatArray
    z: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class L1Dual:
    """Minimise z − b'y subject to A_g'y <= z at the support points g, and |y| <= r.

    HiGHS gets the variables x = (u, z / scale) with u = y / r, so that the features are at most 1.

    Parameters
    ----------
    b
        (k,) noisy answers.
    r
        (k,) weights of the queries in the objective.
    scale
        The largest |feature|, > 0.
    """

    b: Answers
    r: FloatArray
    scale: float

    @property
    def costs(self) -> FloatArray:
        """The (k + 1,) coefficients of the objective (z − b'y) / scale in HiGHS's variables x = (y / r, z / scale)."""
        return np.append(-self.r * self.b / self.scale, 1.0)

    @property
    def upper(self) -> FloatArray:
        """The (k + 1,) upper bounds of x = (y / r, z / scale): 1, since |y| <= r, and infinity for z.

        The lower bounds are their negatives.
        """
        return np.append(np.ones(self.b.size), np.inf)

    def rows(self, features: FeatureMatrix) -> FeatureMatrix:
        """Return the (c, k + 1) rows of the constraints A'y <= z at c points with (k, c) features; sparse if those are.

        Each row times HiGHS's variables x = (y / r, z / scale) is at most 0.
        """
        row_scale = self.r / self.scale
        if isinstance(features, np.ndarray):
            return np.column_stack([(features * row_scale[:, None]).T, -np.ones(features.shape[1])])
        scaled = sp.csc_array(features.T @ sp.diags_array(row_scale))
        bound = sp.csc_array(-np.ones((scaled.shape[0], 1)))
        return sp.csc_array(sp.hstack([scaled, bound]))

    def point(self, x: FloatArray) -> DualPoint:
        """Return the dual variables, y (k,) and z, from HiGHS's solution x = (y / r, z / scale), (k + 1,).

        HiGHS solves for scaled variables, because its tolerances are absolute.
        """
        return DualPoint(y=self.r * np.clip(x[:-1], -1.0, 1.0), z=float(x[-1]) * self.scale)

    def options(self, pivots: int | None = None) -> dict[str, object]:
        """Return HiGHS's options: the dual simplex without presolve, with a limit on its steps if ``pivots`` is given.

        Its multipliers, which become the points' weights, are never negative, even if HiGHS stops at the limit.
        """
        limit = {} if pivots is None else {"simplex_iteration_limit": pivots}
        return {**SIMPLEX, **limit}


def weights_from(multipliers: FloatArray, *, points: int) -> Weights | None:
    """Return the multipliers of the points' constraints as the points' weights, (points,), of sum 1.

    None if HiGHS stopped before it had any, or if they sum to less than a half: at the optimum the sum is 1.
    """
    positive = np.maximum(multipliers, 0.0)
    total = positive.sum()
    if positive.size != points or not 0.5 <= total < np.inf:
        return None
    return np.asarray(positive / total, np.float64)
