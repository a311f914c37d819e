"""The fitting problem of all solvers: noisy averages, and the features of support points whose weights are fitted.

Every solver minimises the same objective, so that objectives and bounds of different solvers compare.  The answers are
public; no row is read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from synthdp.arrays import Answers, FloatArray, Weights, frozen
from synthdp.checks import check_number
from synthdp.errors import ParameterError

FeatureMatrix: TypeAlias = "FloatArray | sp.csc_array"
"""(k, m) features of m support points under k queries, dense or sparse by columns."""

_LAPLACE_MEAN_ABS = math.sqrt(0.5)
"""Mean absolute value of Laplace noise over its standard deviation, sqrt(1/2). Derived.  Gaussian noise has .798.  A
fit stops at the noise level made of the smaller one, so that it never stops early.
"""


INSENSITIVE = 0.75
"""Deviation from an answer that costs nothing, in stddevs of its noise, which includes the sampling error of points that
are drawn.  Tuned (docs/mechanisms/l1-fit.md): half and twice of it change the three-way error of two tables by +3.4 and
-.4 % (docs/benchmarks/constants.md)."""


def row_weights(stddev: FloatArray) -> FloatArray:
    """Return the weight of each query in the L1 objective.

    Parameters
    ----------
    stddev
        (k,) standard deviations of the noise, >= 0.

    Returns
    -------
    FloatArray
        (k,) weights min(stddev) / stddev, at most 1, over the noisy queries.  An exact query (stddev 0) has weight 1 +
        the sum of all noisy weights.  This is an exact penalty: no gain on noisy queries outweighs missing an exact
        answer that features in [-1, 1] could meet.  All weights are 1 if all queries are exact.
    """
    noisy = stddev > 0
    if not noisy.any():
        return np.ones_like(stddev)
    weights = np.zeros_like(stddev)
    weights[noisy] = stddev[noisy].min() / stddev[noisy]
    weights[~noisy] = 1.0 + weights.sum()
    return weights


def expected_noise(stddev: FloatArray) -> float:
    """Return the expected weighted L1 distance of the true answers from the noisy ones, for Laplace noise.

    It is the sum of weight · E|noise|, without ``insensitive`` and ``pull``.  A fit that is much nearer fits noise.
    """
    return _LAPLACE_MEAN_ABS * float(row_weights(stddev) @ stddev)


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


def pull_of(A: FeatureMatrix, stddev: FloatArray) -> float:
    """Return the price of relative entropy to the prior at which noise supports every change of a weight.

    At the optimum the weight of a point is its prior times exp(A'θ), up to a common factor, with |θ| <= r / pull.  Here
    r are the weights of the queries in the L1 objective (`row_weights`).  An average is known between its noise and 1,
    so noise never supports a factor beyond 1 / noise.  So the price solves max r |A| / pull = log(1 / noise).

    Parameters
    ----------
    A
        (k, m) features of the support points.
    stddev
        (k,) noise in the averages; the largest counts.

    Returns
    -------
    0 without noise, and infinite if the noise is as large as the table.
    """
    noise = float(stddev.max())
    if noise == 0:
        return 0.0
    if noise >= 1:
        return math.inf
    features: Any = A
    sizes = abs(features).max(axis=1)
    largest = sizes if isinstance(sizes, np.ndarray) else sizes.toarray().ravel()
    return float((row_weights(stddev) * largest).max()) / math.log(1 / noise)


def relative_entropy(weights: Weights, prior: Weights) -> float:
    """Return the sum of w log(w / prior), both (m,) with sum 1; infinite for a weight on a point without a prior."""
    carried = weights > 0
    with np.errstate(divide="ignore"):
        logs = np.log(weights[carried]) - np.log(prior[carried])
    return max(float(weights[carried] @ logs), 0.0)


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
        (m,) non-negative weights that the result stays near; uniform if absent.  Normalised here.
    insensitive
        (k,) or scalar deviation of an average from its answer that costs nothing.
    pull
        Price of the relative entropy to the prior, >= 0; infinite to stay at the prior.

    Raises
    ------
    ParameterError
        If shapes disagree, a value is not finite, or the prior has no mass.  Also if a standard deviation, a prior
        weight, an insensitivity or the pull is negative.
    """

    A: FeatureMatrix
    b: Answers
    stddev: FloatArray
    prior: Weights | None = None
    insensitive: FloatArray | float = 0.0
    pull: float = 0.0

    @classmethod
    def of_noisy(
        cls,
        A: FeatureMatrix,
        b: Answers,
        stddev: FloatArray,
        *,
        prior: Weights | None = None,
        drawn: int = 0,
        pull: float | None = None,
    ) -> FitProblem:
        """Return the problem with ``insensitive`` and ``pull`` derived from the noise.

        Parameters
        ----------
        A
            (k, m) features of the support points.
        b, stddev
            (k,) noisy answers as averages over rows, and the stddev of their noise.
        prior
            (m,) weights that the result stays near; default: uniform.
        drawn
            Number of drawn rows that the points are, whose averages have a sampling error; 0 for listed points.
        pull
            The price of relative entropy; default: `pull_of`.
        """
        insensitive = INSENSITIVE * stddev
        if drawn:
            start = np.full(A.shape[1], 1.0 / A.shape[1]) if prior is None else prior / prior.sum()
            spread = np.maximum((A * A) @ start - (A @ start) ** 2, 0.0)
            insensitive = INSENSITIVE * np.sqrt(stddev**2 + spread / drawn)
        chosen = pull_of(A, stddev) if pull is None else pull
        return cls(A=A, b=b, stddev=stddev, prior=prior, insensitive=insensitive, pull=chosen)

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
            object.__setattr__(self, "prior", checked_prior(self.prior, m=features.shape[1]))

    @property
    def k(self) -> int:
        """Return the number of queries."""
        return int(self.A.shape[0])

    @property
    def m(self) -> int:
        """Return the number of support points."""
        return int(self.A.shape[1])

    @property
    def nonzeros(self) -> int:
        """Return the number of stored features: the multiplications of one product with ``A``."""
        return int(self.A.size if isinstance(self.A, np.ndarray) else self.A.nnz)

    @property
    def row_weights(self) -> FloatArray:
        """Return the (k,) weights r of the L1 objective: deviations from noisier answers cost less."""
        return row_weights(self.stddev)

    @property
    def start(self) -> Weights:
        """Return the prior as (m,) weights of sum 1, where a fit begins; uniform if none was given."""
        return np.full(self.m, 1.0 / self.m) if self.prior is None else self.prior

    @property
    def noise_level(self) -> float:
        """The expected sum of weight · |noise| over the answers, for Laplace noise; solvers may leave gaps far below it."""
        return expected_noise(self.stddev)

    @property
    def magnitude(self) -> float:
        """Return max |A|, the scale of the features; 1 if A is all zero."""
        entries = self.A if isinstance(self.A, np.ndarray) else self.A.data
        largest = float(np.abs(entries).max(initial=0.0))
        return largest if largest > 0 else 1.0

    @property
    def plain(self) -> bool:
        """Whether every deviation from an answer costs (``insensitive`` is 0) and the prior does not (``pull`` is 0).

        The solver `Sifting` can solve no other problem.
        """
        return self.pull == 0 and not np.any(self.insensitive)

    def misfit_of(self, averages: FloatArray) -> float:
        """Return the deviation of (k,) averages from the answers b: the sum of r · max(|averages − b| − insensitive, 0).

        r are the `row_weights`; deviations up to ``insensitive`` cost nothing.
        """
        return float(self.row_weights @ np.maximum(np.abs(averages - self.b) - self.insensitive, 0.0))

    def misfit(self, weights: Weights) -> float:
        """Return the deviation `misfit_of` for the averages of (m,) weights."""
        return self.misfit_of(self.A @ weights)

    def objective(self, weights: Weights) -> float:
        """Return the common objective: `misfit`, plus ``pull`` times the relative entropy to the prior.

        An infinite pull leaves `misfit` alone, since weights at the prior have no relative entropy.
        """
        if not 0 < self.pull < math.inf:
            return self.misfit(weights)
        return self.misfit(weights) + self.pull * relative_entropy(weights, self.start)

    def bound_from(self, y: FloatArray, scores: FloatArray) -> float:
        """Return a lower bound on every objective from a (k,) vector ``y`` with |y| <= r and its scores A'y.

        For every w on the simplex, with e the insensitivity and D the relative entropy to the prior p, the sum of
        r max(|A w − b| − e, 0) is at least y'(b − A w) − e'|y|, and pull · D(w) − y'A w is at least
        −pull · log sum p exp(A'y / pull) (Donsker and Varadhan); −max A'y without a pull.
        """
        if self.pull == 0:
            gained = -float(scores.max())
        elif math.isinf(self.pull):
            gained = -float(scores @ self.start)
        else:
            gained = -self.pull * log_total(scores / self.pull, self.start)
        return float(y @ self.b - np.abs(y) @ np.broadcast_to(self.insensitive, self.b.shape)) + gained

    def dual_bound(self, y: FloatArray) -> float:
        """Return the lower bound on every objective that a (k,) vector ``y`` proves, after it is clipped to |y| <= r.

        Any vector proves a bound, whatever its source.
        """
        feasible = np.clip(y, -self.row_weights, self.row_weights)
        return self.bound_from(feasible, self.A.T @ feasible)


def log_total(exponents: FloatArray, prior: Weights) -> float:
    """Return log sum of prior · exp(exponents) without overflow, (m,) each; the prior has mass.

    The lower bound of a fit with a pull needs it.
    """
    carried = prior > 0
    largest = float(exponents[carried].max())
    return largest + math.log(float(prior[carried] @ np.exp(exponents[carried] - largest)))


def _checked_features(A: FeatureMatrix) -> FeatureMatrix:
    """Return a finite matrix of floats, dense or sparse; raise ParameterError for any other."""
    if sp.issparse(A):
        sparse = sp.csc_array(A, dtype=np.float64)
        _check_matrix(sparse.shape, finite=bool(np.isfinite(sparse.data).all()))
        return sparse
    dense = np.asarray(A, dtype=np.float64).view()
    _check_matrix(dense.shape, finite=bool(np.isfinite(dense).all()))
    return frozen(dense)


def _check_matrix(shape: tuple[int, ...], *, finite: bool) -> None:
    """Raise ParameterError unless a matrix is finite, with a query and a support point."""
    if len(shape) != 2 or 0 in shape:
        raise ParameterError(f"A must be a matrix of at least one query and one support point, not of shape {shape}")
    if not finite:
        raise ParameterError("A must be finite")


def checked_prior(prior: Weights, *, m: int, of: str = "support point") -> Weights:
    """Return a prior that sums to 1; raise ParameterError unless it is finite, not negative and not all zero.

    ``of`` names in messages what has the ``m`` weights.
    """
    weights = np.array(prior, dtype=np.float64)
    if weights.shape != (m,):
        raise ParameterError(f"prior must have one weight per {of} ({m}), not shape {weights.shape}")
    if not np.isfinite(weights).all() or (weights < 0).any() or weights.sum() <= 0:
        raise ParameterError("prior must be finite, non-negative and not all zero")
    return frozen(weights / weights.sum())


def _checked_insensitive(insensitive: FloatArray | float, *, k: int) -> FloatArray:
    """Return the cost-free deviations as (k,); raise ParameterError unless they are finite and not negative."""
    if np.shape(insensitive) not in {(), (k,)}:
        raise ParameterError(f"insensitive must have one value per answer ({k}), not shape {np.shape(insensitive)}")
    widths = np.array(np.broadcast_to(np.asarray(insensitive, dtype=np.float64), (k,)))
    if not np.isfinite(widths).all() or (widths < 0).any():
        raise ParameterError("insensitive must be finite and non-negative")
    return frozen(widths)
