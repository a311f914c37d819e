"""Products of the scores of every two columns, clipped row by row: the second moments of many columns for little noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import Codes, Features, FloatArray, IntArray
from synthdp.checks import whole
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError, SensitivityError
from synthdp.queries.linear import LinearFamily
from synthdp.queries.norms import Norms, RecordBounds, largest, whole_numbers
from synthdp.queries.protocol import check_overflow

LARGEST_NUMBER = 2**30
"""Most that a resolution or a norm may be, so that their squares are exact."""

_BELOW = 1 - 1e-9
"""Less than rounding in floating point can add to a clipped row."""


@dataclass(frozen=True, slots=True, eq=False)
class ClippedProducts(LinearFamily):
    """For every two columns the sum over rows of the product of their scores.

    A row whose products have a Euclidean norm above ``norm`` is scaled down to it, so that a record changes all answers
    together by at most ``norm``, however far its scores reach (Mironov et al. 2016 clip gradients so).  The scale is a
    function of the row alone: the queries stay linear.

    Parameters
    ----------
    domain
        Of d >= 2 axes.
    scores
        For each axis the (size,) whole-number scores of its cells, in multiples of ``resolution``.
    resolution
        The whole number that stands for a score of 1.
    norm
        Largest norm of a row's products, in multiples of ``resolution`` squared.

    Raises
    ------
    ParameterError
        If the scores do not fit the domain, or a number is not positive.
    SensitivityError
        If the scores are so large that products of theirs might overflow.
    """

    domain: Domain
    scores: tuple[IntArray, ...]
    resolution: int
    norm: int

    def __post_init__(self) -> None:
        for name in ("resolution", "norm"):
            object.__setattr__(self, name, whole(name, getattr(self, name), least=1, most=LARGEST_NUMBER))
        if len(self.domain) < 2 or [len(score) for score in self.scores] != list(self.domain.shape):
            raise ParameterError("scores must have one whole number for each cell of two or more axes")
        object.__setattr__(self, "scores", tuple(whole_numbers("scores", score) for score in self.scores))
        if sum(largest(score) ** 2 for score in self.scores) >= 2**31:
            raise SensitivityError("scores are too large for exact sums: lower the resolution")
        check_overflow(self)

    @property
    def pairs(self) -> tuple[IntArray, IntArray]:
        """The two columns of each product, in order."""
        left, right = np.triu_indices(len(self.domain), 1)
        return left, right

    @property
    def k(self) -> int:
        """Number of products."""
        return math.comb(len(self.domain), 2)

    @property
    def denominator(self) -> int:
        """The whole number that stands for a product of 1."""
        return self.resolution**2

    @property
    def bounds(self) -> RecordBounds:
        """A record adds a vector of at most the clipping norm."""
        return RecordBounds.of(Norms.within(self.k, self.norm, l2_squared=self.norm**2))

    def features(self, codes: Codes) -> Features:
        """Return each row's clipped products as whole numbers, rounded towards 0; (n, k)."""
        scores = self.scores_of(codes)
        left, right = self.pairs
        return np.trunc(scores[:, left] * scores[:, right] * self.clipping(scores)[:, None]).astype(np.int64)

    def scores_of(self, codes: Codes) -> IntArray:
        """Return the scores of each row; (n, d)."""
        return np.column_stack([score[codes[:, j]] for j, score in enumerate(self.scores)])

    def clipping(self, scores: IntArray) -> FloatArray:
        """Return the factor that brings each row's products to at most ``norm``; (n,)."""
        squares = scores**2
        squared = (squares.sum(axis=1) ** 2 - (squares**2).sum(axis=1)) // 2  # whole numbers: exact
        factor = np.ones(len(scores))
        far = squared > self.norm**2
        factor[far] = self.clipped_to / np.sqrt(squared[far])
        return factor

    @property
    def clipped_to(self) -> float:
        """The norm that long rows are scaled to: rounding may add to it and stay within ``norm``."""
        return self.norm * _BELOW
