"""Symmetric queries, such as marginals and r-of-k, by noisy parities of few bits (Thaler, Ullman, Vadhan 2012).

A practical form of the paper's algorithm: the mechanism measures all parities of at most t bits once. The polynomial
that answers a query is chosen afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from synthdp.arrays import FloatArray
from synthdp.checks import check_one_of, whole
from synthdp.curator import Curator
from synthdp.errors import ParameterError
from synthdp.measurements import NoiseLaw
from synthdp.mechanisms.mechanism import HasPrivacyCost, check_declared, left_out, part_of
from synthdp.privacy.calibration import calibrate
from synthdp.privacy.loss import ApproxDP, PrivacyLoss, PureDP, Remaining, Spend
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.norms import Norms
from synthdp.randomness import RandomState
from synthdp.release import Release
from synthdp.schema.schema import Schema
from synthdp.works.polynomials.binarized import Binarized, binarize
from synthdp.works.polynomials.parities import Parities
from synthdp.works.polynomials.parity_summary import ParitySummary
from synthdp.works.polynomials.polynomials import least_worst_use, level_sizes, odd_overlaps, optimal_coefficients

MAX_PARITIES = 5_000_000
"""Most parities of one release. A safety limit of memory: 40 MB of 64-bit sums."""

FINEST_SCALE = 2**12
"""Scale of the degree with the largest weight: weights are rounded to 1 in 4096 of the largest weight. A numerical
tolerance."""

_ONE = 2**20
"""Whole number that stands for an L2 sensitivity of 1 where a plan's noise is computed, as calibration takes whole
numbers. A larger number is rounded less. A numerical tolerance."""
_LEAST_USE = 0.05
"""Least weight of a degree, as a fraction of the weight that the most expensive degree gets.  Without it a degree that
the planned query hardly needs would have too much noise for other queries.  The noise of the planned query grows by at
most this fraction per degree, so that more favours other queries.  Tuned: half and twice of it change the errors of
conjunctions of two to four columns by +.3 and -.4 % (docs/benchmarks/constants.md)."""


class LevelPlan(NamedTuple):
    """The scale of each parity degree, (t + 1,), and the noise law; ``None`` stands for the least noisy law."""

    scales: tuple[int, ...]
    law: NoiseLaw | None


@dataclass(frozen=True, slots=True)
class ParityRelease(HasPrivacyCost):
    """Release noisy sums of all parities of at most ``order`` bits, which answer any symmetric query on their columns.

    Costs ``spend``, for the curator's neighbours. The number of rows is measured along with the parities where it is
    private.

    Parameters
    ----------
    order
        t: most bits in a parity.  Queries on up to t literals are unbiased; wider ones have a stated bias.
    weights
        ``"optimal"`` divides the noise among the parities' degrees for conjunctions of ``width`` literals,
        ``"uniform"`` equally.
    width
        Number of literals to plan for; default: ``order``.
    columns, thresholds
        The columns that are used, and cuts of ordered columns: see `synthdp.works.polynomials.binarized.binarize`.
    rows
        A public guess of the number of rows, used in planning only; default: the number itself where it is public, else
        10 000.
    spend
        Privacy loss that a release may cost.

    Raises
    ------
    ParameterError
        If a setting is outside its range.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> table = pd.DataFrame(np.random.default_rng(1).random((1000, 3)) < 0.3, columns=["a", "b", "c"])
    >>> schema = sd.Schema({name: sd.Boolean() for name in table})
    >>> curator = sd.Curator(table, schema=schema, budget=sd.ApproxDP(1.0, 1e-6))
    >>> release = sd.ParityRelease(order=2).release(curator)
    >>> answer = release.answer(sd.conjunction({"a": 1, "b": 1}))
    >>> bool(abs(float(answer) - 0.09) < 0.1)
    True
    """

    order: int
    weights: str = "optimal"
    width: int | None = None
    columns: Sequence[str] | None = None
    thresholds: Mapping[str, Sequence[float]] | None = None
    rows: int | None = None
    spend: Spend = Remaining()

    def __post_init__(self) -> None:
        for name in ("order", "width", "rows"):
            value = getattr(self, name)
            if value is not None or name == "order":
                object.__setattr__(self, name, whole(name, value, least=1))
        check_one_of("weights", self.weights, ("optimal", "uniform"))

    def output_schema(self, schema: Schema) -> Schema:
        """Return the schema of the columns that have bits.

        Raises
        ------
        ParameterError
            If a column is undeclared, there are fewer bits than ``order``, or too many parities.
        """
        check_declared(schema, why="its bits are made of them")
        bits = binarize(schema, columns=self.columns, thresholds=self.thresholds)
        self._check_size(bits)
        return part_of(schema, bits.domain.names)

    def release(self, curator: Curator, *, random_state: RandomState = None) -> Release[ParitySummary]:  # noqa: ARG002
        """Measure the parities in one step and return them as a summary.

        Costs ``spend``, for the curator's neighbours.

        Raises
        ------
        ParameterError
            If there are fewer bits than ``order``, or too many parities.
        """
        loss = curator.cost(self.spend)
        bits = binarize(curator.schema, columns=self.columns, thresholds=self.thresholds)
        known = curator.rows if curator.adjacency.rows_are_public else None
        plan = self.plan(bits, curator.adjacency, loss, rows=known)
        measured = curator.measure(Parities(bits, plan.scales), spend=loss, step="parities", law=plan.law)
        return Release(
            mechanism="ParityRelease",
            output=ParitySummary(schema=curator.schema, measured=measured, public_rows=known),
            loss=loss,
            receipt=curator.receipt(notes=(*left_out(curator.schema, self.output_schema(curator.schema)), *bits.notes)),
            measurements=(measured,),
        )

    def plan(self, bits: Binarized, adjacency: Adjacency, loss: PrivacyLoss, *, rows: int | None = None) -> LevelPlan:
        """Return the scale of each parity degree, and the noise law, of least noise for the planned conjunction.

        A planned conjunction has ``width`` literals.  With uniform weights, all degrees have scale 1 without a search.

        Parameters
        ----------
        bits, adjacency, loss
            The bits, the neighbours and the cost of the measurement.
        rows
            The number of rows, if it is public; else the search assumes the mechanism's ``rows``, or 10 000.
        """
        self._check_size(bits)
        uniform = LevelPlan((0 if adjacency.rows_are_public else 1, *[1] * self.order), None)
        if self.weights == "uniform":
            return uniform
        planner = _Planner(bits, adjacency, loss, self.order, self.width or self.order, rows or self.rows or 10_000)
        return planner.best(uniform)

    def _check_size(self, bits: Binarized) -> None:
        """Raise ParameterError unless the order is at most the number of bits and there are few enough parities."""
        if self.order > bits.d:
            raise ParameterError(f"order ({self.order}) must be at most {bits.d}, the number of binary columns")
        count = sum(level_sizes(bits.d, self.order))
        if count > MAX_PARITIES:
            raise ParameterError(
                f"order ({self.order}) needs {count} parities, and at most {MAX_PARITIES} are allowed: give a "
                "smaller order, or fewer columns"
            )


@dataclass(frozen=True, slots=True)
class _Planner:
    """The search for scales of the parity degrees at which a conjunction of ``width`` literals has the least noise.

    Degree 0, the number of rows, is a degree like any other.
    """

    bits: Binarized
    adjacency: Adjacency
    loss: PrivacyLoss
    order: int
    width: int
    rows: int

    def best(self, uniform: LevelPlan) -> LevelPlan:
        """Return the plan with the least noise for the planned conjunction.

        A loss with delta takes the optimal weights for Gaussian noise. A pure loss takes the uniform plan or Laplace
        noise with cube-root weights.
        """
        if not self._pure:
            return self._of_weights(np.sqrt(least_worst_use(self._costs(), self._squared_use())), None)
        sizes = np.array(self._sizes, np.float64)
        shared = self._of_weights(np.cbrt(self._costs() / sizes), NoiseLaw.LAPLACE)
        return min((uniform, shared), key=self._stddev)

    @property
    def _pure(self) -> bool:
        """Return whether the loss has no delta, so that noise is Laplace or K-norm noise instead of Gaussian noise."""
        return isinstance(self.loss, PureDP) or (isinstance(self.loss, ApproxDP) and self.loss.delta == 0)

    @property
    def _first(self) -> int:
        """Return the lowest degree that is measured: 0, the number of rows, if that is private, else 1."""
        return 1 if self.adjacency.rows_are_public else 0

    @property
    def _sizes(self) -> tuple[int, ...]:
        """Return the number of parities of each degree that is measured."""
        return level_sizes(self.bits.d, self.order)[self._first :]

    def _within(self) -> FloatArray:
        """Return the number of parities of each degree in the planned conjunction, (order + 1,), whose noise adds up."""
        return np.array([float(math.comb(self.width, i)) for i in range(self.order + 1)])

    def _costs(self) -> FloatArray:
        """Return the variance of the planned answer per variance of one parity, (degrees,), for each measured degree.

        Degrees that the conjunction hardly uses get the floor that `_LEAST_USE` sets.  If noise is above any signal,
        all degrees are taken to count alike.
        """
        b = optimal_coefficients((0.0,) * self.width + (1.0,), self.order, self._prices()).values
        if not b[self._first :].any():  # the noise is above any signal, so that a constant would be the best answer
            b = np.ones_like(b)
        costs, sizes = (b * b * self._within())[self._first :], np.array(self._sizes, np.float64)
        return np.asarray(np.maximum(costs, _LEAST_USE**2 * (costs * sizes).max() / sizes), np.float64)

    def _prices(self) -> tuple[float, ...]:
        """Return the price of a coefficient of 1 at each degree, (order + 1,): twice the noise stddev that it adds.

        The unit is the answer's, a fraction of the rows.  At L2 sensitivity 1 the least stddev is sum_i |b_i| sqrt(C(k,
        i) C(d, i)) under add-or-remove, and about sqrt(2) times that under replace-one.  It is linear in |b|. K-norm
        noise, for a pure loss, is equal on every parity.  Low degrees with much noise are then left out of the planned
        polynomial. The number of rows is free.
        """
        sizes = level_sizes(self.bits.d, self.order)
        within, all_sizes = self._within(), np.array(sizes, np.float64)
        swap = self.adjacency.rows_are_public
        if self._pure:
            change = 2 if swap else 1
            noise = calibrate(Norms(change * sum(sizes), change**2 * sum(sizes), change), self.loss, k=sum(sizes))
            prices = noise.noise.stddev * np.sqrt(within)
        else:
            noise = calibrate(Norms(_ONE, _ONE**2, _ONE), self.loss, k=sum(sizes))
            one = noise.noise.stddev / noise.resolution / _ONE
            prices = one * math.sqrt(2 if swap else 1) * np.sqrt(within * all_sizes)
        prices[0] = 0.0
        return tuple(float(price) for price in 2 * self.adjacency.rows * prices / self.rows)

    def _squared_use(self) -> FloatArray:
        """Return the squared L2 sensitivity per squared weight of each degree, (r, degrees).

        There is a row per number of flipped bits under replace-one, and one row under add-or-remove.  Optimal weights
        keep each row's sum within a limit.
        """
        if self.adjacency.rows_are_public:
            changed = odd_overlaps(self.bits.d, self.order, self.bits.flips)
            return 4.0 * np.array(changed, np.float64)[:, 1:]
        return np.array([self._sizes], np.float64)

    def _of_weights(self, weights: FloatArray, law: NoiseLaw | None) -> LevelPlan:
        """Return a plan with whole-number scales of at least 1 in proportion to weights: sums must stay whole."""
        scales = np.maximum(1, np.rint(FINEST_SCALE * weights / weights.max())).astype(int)
        return LevelPlan((0,) * self._first + tuple(scales.tolist()), law)

    def _stddev(self, plan: LevelPlan) -> float:
        """Return the noise stddev of the planned conjunction, up to a factor that is equal for all plans."""
        parities = Parities(self.bits, plan.scales)
        noise = calibrate(self.adjacency.sensitivity(parities), self.loss, k=parities.k, law=plan.law).noise
        scales = np.array(plan.scales[self._first :], np.float64)
        return noise.stddev * math.sqrt(float((self._costs() / scales**2).sum()))
