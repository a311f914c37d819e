"""The fitting problem: noisy averages on one side, the features of support points on the other.

Every solver minimises the same measure, so that objectives and gaps of different solvers compare.
This module knows nothing of tables, queries or privacy: the answers are already public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp

from synthdp.arrays import Answers, FloatArray, Weights, frozen
from synthdp.checks import check_number
from synthdp.errors import ParameterError
from synthdp.fit.explicit.relative_entropy import least_pulled, relative_entropy

FeatureMatrix: TypeAlias = "FloatArray | sp.csc_array"
"""(k, m) features of m support points under k queries, dense or sparse by columns."""

_LAPLACE_MEAN_OVER_STDDEV = math.sqrt(0.5)
"""E|noise| / stddev of Laplace noise; Gaussian noise has 0.798, so a stop at this level is early for neither."""


class ProblemSize(NamedTuple):
    """What a cost model looks at: ``k`` queries, ``m`` support points, ``nonzeros`` of the feature matrix.

    ``plain`` is whether every miss costs and nothing pulls towards the prior.
    """

    k: int
    m: int
    nonzeros: int
    plain: bool = True


def row_weights(stddev: FloatArray) -> FloatArray:
    """Return the weight of each query in the L1 objective.

    Parameters
    ----------
    stddev
        (k,) standard deviations of the noise, >= 0.

    Returns
    -------
    FloatArray
        (k,) weights min(stddev) / stddev, at most 1, over the noisy queries.  An exact query (stddev 0) weighs
        1 + the sum of all noisy weights: an exact penalty, so that no gain on noisy queries pays for missing an
        exact one that [-1, 1]-valued features could meet.  All exact: all ones.
    """
    noisy = stddev > 0
    if not noisy.any():
        return np.ones_like(stddev)
    weights = np.zeros_like(stddev)
    weights[noisy] = stddev[noisy].min() / stddev[noisy]
    weights[~noisy] = 1.0 + weights.sum()
    return weights


def expected_noise(stddev: FloatArray) -> float:
    """Return the L1 objective that the noise alone gives the truth: the sum of weight · E|noise|."""
    return _LAPLACE_MEAN_OVER_STDDEV * float(row_weights(stddev) @ stddev)


def checked_answers(b: Answers, stddev: FloatArray | float) -> tuple[Answers, FloatArray]:
    """Return read-only copies of ``b`` and of ``stddev`` in the shape of ``b``.

    Raises
    ------
    ParameterError
        If there is no query, a value is not finite, or a standard deviation is negative.
    """
    answers = np.array(b, dtype=np.float64)
    if answers.ndim != 1 or answers.size == 0:
        raise ParameterError(f"b must be a vector of at least one answer, not of shape {answers.shape}")
    if np.shape(stddev) not in {(), answers.shape}:
        raise ParameterError(f"stddev must have the shape of b {answers.shape}, not {np.shape(stddev)}")
    spread = np.array(np.broadcast_to(np.asarray(stddev, dtype=np.float64), answers.shape))
    if not np.isfinite(answers).all():
        raise ParameterError("b must be finite")
    if not (np.isfinite(spread).all() and (spread >= 0).all()):
        raise ParameterError("stddev must be finite and non-negative")
    return frozen(answers), frozen(spread)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FitProblem:
    """Weights w on m support points whose averages ``A w`` come close to the noisy averages ``b``.

    Parameters
    ----------
    A
        (k, m) features: query i at support point j.  Dense arrays are kept without a copy; sparse ones by columns.
    b
        (k,) noisy answers as averages over rows.
    stddev
        (k,) or scalar standard deviation of the noise in ``b``; 0 marks an exact answer.
    prior
        (m,) non-negative weights to stay near where the answers do not decide; uniform if absent.  Normalised here.
    insensitive
        (k,) or scalar: how far an average may miss its answer at no cost.
    pull
        Price of the relative entropy to the prior (`relative_entropy`), >= 0; infinite to stay at the prior.

    Raises
    ------
    ParameterError
        If shapes disagree, a value is not finite, a standard deviation, a prior weight, an insensitivity or the pull
        is negative, or the prior has no mass.
    """

    A: FeatureMatrix
    b: Answers
    stddev: FloatArray
    prior: Weights | None = None
    insensitive: FloatArray | float = 0.0
    pull: float = 0.0

    def __post_init__(self) -> None:
        b, stddev = checked_answers(self.b, self.stddev)
        features = _checked_features(self.A)
        if features.shape[0] != b.size:
            raise ParameterError(f"A must have one row per answer ({b.size}), not {features.shape[0]}")
        object.__setattr__(self, "A", features)
        object.__setattr__(self, "b", b)
        object.__setattr__(self, "stddev", stddev)
        check_number("pull", self.pull, least=0, infinite=True)
        object.__setattr__(self, "insensitive", _checked_insensitive(self.insensitive, k=b.size))
        if self.prior is not None:
            object.__setattr__(self, "prior", _checked_prior(self.prior, m=features.shape[1]))

    @property
    def k(self) -> int:
        """Return the number of queries."""
        return int(self.A.shape[0])

    @property
    def m(self) -> int:
        """Return the number of support points."""
        return int(self.A.shape[1])

    @property
    def size(self) -> ProblemSize:
        """Return what a cost model looks at."""
        nonzeros = self.A.size if isinstance(self.A, np.ndarray) else self.A.nnz
        return ProblemSize(k=self.k, m=self.m, nonzeros=int(nonzeros), plain=self.plain)

    @property
    def row_weights(self) -> FloatArray:
        """Return the (k,) weights r of the L1 objective; see `row_weights`."""
        return row_weights(self.stddev)

    @property
    def start(self) -> Weights:
        """Return the prior on the simplex, uniform if none was given."""
        return np.full(self.m, 1.0 / self.m) if self.prior is None else self.prior

    @property
    def noise_level(self) -> float:
        """Return the misfit that pure noise would give the truth: fitting below it is fitting noise.

        Laplace noise of standard deviation s exceeds e by s / sqrt(2) · exp(−sqrt(2) e / s) on average.
        """
        noisy = self.stddev > 0
        spread = np.where(noisy, self.stddev, 1.0)
        beyond = np.exp(-np.asarray(self.insensitive) / (_LAPLACE_MEAN_OVER_STDDEV * spread))
        return _LAPLACE_MEAN_OVER_STDDEV * float(self.row_weights @ (self.stddev * beyond))

    @property
    def magnitude(self) -> float:
        """Return max |A|, the scale of the features; 1 where A is all zero."""
        entries = self.A if isinstance(self.A, np.ndarray) else self.A.data
        largest = float(np.abs(entries).max(initial=0.0))
        return largest if largest > 0 else 1.0

    @property
    def plain(self) -> bool:
        """Whether every miss costs and nothing pulls towards the prior."""
        return self.pull == 0 and not np.any(self.insensitive)

    def misfit(self, weights: Weights) -> float:
        """Return the sum over queries of r · max(|A w − b| − insensitive, 0)."""
        beyond = np.maximum(np.abs(self.A @ weights - self.b) - self.insensitive, 0.0)
        return float(self.row_weights @ beyond)

    def objective(self, weights: Weights) -> float:
        """Return the common measure: the misfit and ``pull`` times the relative entropy to the prior.

        An infinite pull leaves the misfit alone, for weights at the prior have no relative entropy.
        """
        if not 0 < self.pull < math.inf:
            return self.misfit(weights)
        return self.misfit(weights) + self.pull * relative_entropy(weights, self.start)

    def dual_bound(self, y: FloatArray) -> float:
        """Return a lower bound on every objective from any (k,) vector ``y``.

        ``y`` is clipped to |y| <= r; then for every w on the simplex, with e the insensitivity and D the relative
        entropy, sum r max(|A w − b| − e, 0) + pull · D(w) >= y'b − e'|y| + min over v of (pull · D(v) − y'A v).
        """
        feasible = np.clip(y, -self.row_weights, self.row_weights)
        gained = least_pulled(self.A.T @ feasible, self.start, self.pull)
        return float(feasible @ self.b - np.abs(feasible) @ np.broadcast_to(self.insensitive, self.b.shape) + gained)


def _checked_features(A: FeatureMatrix) -> FeatureMatrix:
    if sp.issparse(A):
        sparse = sp.csc_array(A, dtype=np.float64)
        _check_matrix(sparse.shape, finite=bool(np.isfinite(sparse.data).all()))
        return sparse
    dense = np.asarray(A, dtype=np.float64).view()
    _check_matrix(dense.shape, finite=bool(np.isfinite(dense).all()))
    return frozen(dense)


def _check_matrix(shape: tuple[int, ...], *, finite: bool) -> None:
    if len(shape) != 2 or 0 in shape:
        raise ParameterError(f"A must be a matrix of at least one query and one support point, not of shape {shape}")
    if not finite:
        raise ParameterError("A must be finite")


def _checked_prior(prior: Weights, *, m: int) -> Weights:
    weights = np.array(prior, dtype=np.float64)
    if weights.shape != (m,):
        raise ParameterError(f"prior must have one weight per support point ({m}), not shape {weights.shape}")
    if not np.isfinite(weights).all() or (weights < 0).any() or weights.sum() <= 0:
        raise ParameterError("prior must be finite, non-negative and not all zero")
    return frozen(weights / weights.sum())


def _checked_insensitive(insensitive: FloatArray | float, *, k: int) -> FloatArray:
    if np.shape(insensitive) not in {(), (k,)}:
        raise ParameterError(f"insensitive must have one value per answer ({k}), not shape {np.shape(insensitive)}")
    widths = np.array(np.broadcast_to(np.asarray(insensitive, dtype=np.float64), (k,)))
    if not np.isfinite(widths).all() or (widths < 0).any():
        raise ParameterError("insensitive must be finite and non-negative")
    return frozen(widths)
