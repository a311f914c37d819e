"""A distribution on listed rows: support points with weights.

Made by fits over an explicit support (`fit.raking`, linear programs, multiplicative weights).  Knows no measurement.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from synthdp.arrays import Clique, Codes, Table, Weights, frozen
from synthdp.codec import file_form
from synthdp.distribution.distribution import (
    Evidence,
    check_evidence,
    check_rows,
    codes_dtype,
    impossible,
    multinomial_counts,
    systematic_counts,
)
from synthdp.errors import ParameterError
from synthdp.queries.contingency import Shape, check_clique, check_shape, contingency, normalised
from synthdp.randomness import Generator


@file_form("Explicit", short="explicit")
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Explicit:
    """Weighted support points; a `Distribution`.

    Parameters
    ----------
    shape
        Number of codes of each of the d columns.
    codes
        (m, d) support points; a point may be listed more than once.
    weights
        (m,) non-negative weights with a positive sum; they are normalised.

    Raises
    ------
    ParameterError
        If a length is wrong, a code lies outside its column, or the weights are negative, not finite, or
        all 0.
    """

    shape: Shape
    codes: Codes
    weights: Weights

    def __post_init__(self) -> None:
        shape = check_shape(self.shape)
        codes = np.asarray(self.codes)
        weights = np.array(self.weights, dtype=np.float64)
        if codes.ndim != 2 or codes.shape[1] != len(shape) or codes.dtype.kind not in "iu":
            raise ParameterError(f"codes must be a (m, {len(shape)}) array of integers")
        if any(((codes[:, j] < 0) | (codes[:, j] >= k)).any() for j, k in enumerate(shape)):
            raise ParameterError(f"codes must lie within the shape ({shape})")
        if weights.shape != (len(codes),) or not np.isfinite(weights).all() or (weights < 0).any():
            raise ParameterError(f"weights must hold {len(codes)} non-negative finite numbers")
        if not weights.any():
            raise ParameterError("weights must have a positive sum")
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "codes", frozen(codes.astype(codes_dtype(shape), order="F")))
        object.__setattr__(self, "weights", frozen(normalised(weights)))

    def marginal(self, clique: Clique) -> Table:
        """Return the summed weight in every cell of ``clique``; see `Distribution.marginal`."""
        check_clique(clique, self.shape)
        return contingency(self.codes, self.shape, clique, self.weights)

    def sample(self, rows: int, rng: Generator, *, given: Evidence | None = None, independent: bool = False) -> Codes:
        """Repeat the support points by controlled rounding, and shuffle; see `Distribution.sample`.

        The points are taken in lexicographic order.  So the count of each listed point differs from its expectation by
        less than one.  So does the count of each set of neighbouring points (as all that share their first codes).
        """
        check_rows(rows)
        weights = self.weights.copy()
        for column, likelihood in check_evidence(given, self.shape).items():
            weights *= likelihood[self.codes[:, column]]
        points = np.flatnonzero(weights)
        if not points.size:
            raise impossible(given or {})
        points = points[np.lexsort(self.codes[points].T[::-1])]  # first column first; one or two bytes by their digits
        rounding = multinomial_counts if independent else systematic_counts
        counts = rounding(weights[points][None, :], np.array([rows]), rng)[0]
        drawn = np.repeat(points, counts)
        rng.shuffle(drawn)
        sampled = np.empty((rows, len(self.shape)), self.codes.dtype, order="F")
        for j in range(len(self.shape)):
            sampled[:, j] = self.codes[:, j].take(drawn)
        return sampled
