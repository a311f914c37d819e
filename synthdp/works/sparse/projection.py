"""SparseProject (Blum, Roth 2011, section 4): one noisy random projection of the table answers every sparse query.

The projection is a public hash function, drawn before any row is read. A query is projected when it is asked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri

from synthdp.answers.answers import Answers as Answered
from synthdp.arrays import FloatArray
from synthdp.checks import check_number, check_one_of, check_share, whole
from synthdp.codec import ADDED, file_form
from synthdp.curator import Curator
from synthdp.measurements import Measurements
from synthdp.mechanisms.mechanism import HasPrivacyCost
from synthdp.mechanisms.row_count import row_total
from synthdp.privacy.calibration import calibrate
from synthdp.privacy.key_histogram import KeyCounts
from synthdp.privacy.loss import ApproxDP, PrivacyLoss, PureDP, Remaining, Spend
from synthdp.queries.supports import SparseQuery, Support
from synthdp.randomness import RandomState, generator
from synthdp.release import Release
from synthdp.schema.schema import Schema
from synthdp.works.sparse.bounds import needed_independence, theorem_dimension
from synthdp.works.sparse.key_counts import KeyTotal
from synthdp.works.sparse.sketches import CountSketch, SignProjection, Sketch, check_dimension
from synthdp.works.sparse.sparse_questions import answered
from synthdp.works.sparse.sparse_table import CONFIDENCE, Origin, SparseAnswer, check_query

KINDS: dict[str, type[CountSketch | SignProjection]] = {"count_sketch": CountSketch, "signs": SignProjection}
"""The classes of projections by the name that ``projection`` takes."""


@dataclass(frozen=True, slots=True)
class SparseProjection(HasPrivacyCost):
    """Release T noisy numbers, a random projection of the table, from which any sparse query can be answered.

    Costs ``spend``, pure or not, for the curator's neighbours.

    Parameters
    ----------
    dimension
        T.  The error of an m-sparse query from the projection itself is about sqrt(m sum_x D(x)^2 / T) rows.
    projection
        ``"count_sketch"``: each record has one sign in one coordinate, which is fast. ``"signs"``: each record has a
        sign in every coordinate, as in the paper.
    independence
        r of the r-wise independent hash functions; at least 4, so that the variance is bounded.
    columns
        Columns whose values make up a record; default: all of the curator's schema.
    peel
        Share of epsilon for counting frequent records by a stability histogram first, since these dominate the error;
        it also takes half of delta. 0 for none. Without a delta no record is counted this way.
    total_share
        Share of the loss for the number of rows, where it is private.
    spend
        Privacy loss that a release may cost.

    Raises
    ------
    ParameterError
        If a setting is out of range; a dimension too large to store is refused with its size.

    Examples
    --------
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> schema = sd.Schema({"city": sd.Categorical(["Oslo", "Rome"]), "member": sd.Boolean()})
    >>> table = pd.DataFrame({"city": ["Oslo"] * 1500 + ["Rome"] * 500, "member": [True, False] * 1000})
    >>> curator = sd.Curator(table, schema=schema, budget=sd.ApproxDP(1.0, 1e-6))
    >>> query = sd.sparse_conjunction(schema, {"city": "Oslo"})
    >>> release = sd.SparseProjection(dimension=500).release(curator)
    >>> bool(abs(release.answer(query)["estimate"][0] - 1500) < 500)
    True
    """

    dimension: int = 100_000
    projection: Literal["count_sketch", "signs"] = "count_sketch"
    independence: int = 8
    columns: tuple[str, ...] | None = None
    peel: float = 0.2
    total_share: float = 0.02
    spend: Spend = Remaining()

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimension", check_dimension(self.dimension))
        check_one_of("projection", self.projection, KINDS)
        object.__setattr__(self, "independence", whole("independence", self.independence, least=4))
        check_number("peel", self.peel, least=0, below=1)
        check_share("total_share", self.total_share)

    @classmethod
    def of_theorem(
        cls, *, rows: int, sparsity: int, queries: int, alpha: float, beta: float = 0.05, spend: Spend = Remaining()
    ) -> SparseProjection:
        """Return the mechanism with sign projection at a proven size: before noise, answers are off by at most alpha n.

        The bound holds for all ``queries`` with probability 1 - beta. A release costs ``spend``.

        Raises
        ------
        ParameterError
            With the dimension, if it cannot be stored.
        """
        dimension = theorem_dimension(rows=rows, sparsity=sparsity, queries=queries, alpha=alpha, beta=beta)
        independence = needed_independence(queries, beta=beta)
        return cls(dimension, projection="signs", independence=independence, peel=0.0, spend=spend)

    def release(self, curator: Curator, *, random_state: RandomState = None) -> Release[ProjectedRecords]:
        """Project the table and return the noisy projection with its public hash functions.

        Costs ``spend``, for the curator's neighbours; ``random_state`` draws the public hash functions only.
        """
        columns = self.columns or curator.schema.names
        rng = generator(random_state)
        loss = curator.cost(self.spend)
        curator.check(KeyTotal(columns))
        account = curator.open_account(loss, currency=ApproxDP)
        counted, rest = row_total(account, KeyTotal(columns), share=self.total_share)
        total = counted.rows
        frequent, rest = self._peeled(account, columns, rest)
        without = frozenset(frequent.counts) if frequent else frozenset[str]()
        sketch = KINDS[self.projection].draw(
            columns, self.dimension, independence=self.independence, rng=rng, without=without
        )
        noisy = account.measure(sketch, spend=_quietest(sketch, rest, account), step="projection")
        output = ProjectedRecords(
            sketch=sketch, values=noisy.answers, stddev=noisy.stddev, frequent=frequent, total=total,
            schema=curator.schema.part(columns), total_stddev=counted.stddev,
        )  # fmt: skip
        return Release(mechanism=type(self).__name__, output=output, loss=loss, receipt=curator.receipt())

    def _peeled(
        self, account: Curator, columns: tuple[str, ...], loss: PrivacyLoss
    ) -> tuple[KeyCounts | None, PrivacyLoss]:
        """Return noisy counts of frequent records, and the loss that is left for the projection.

        The projection leaves these records out, since its error grows with the sum of squared counts. Without ``peel``
        or a delta, return ``None`` and the whole loss. Costs the share ``peel`` of epsilon and half of delta.
        """
        if not (self.peel and isinstance(loss, ApproxDP) and loss.delta > 0):
            return None, loss
        frequent = account.histogram(columns, spend=ApproxDP(loss.epsilon * self.peel, loss.delta / 2))
        return frequent, ApproxDP(loss.epsilon * (1 - self.peel), loss.delta / 2)


def _quietest(sketch: Sketch, loss: PrivacyLoss, account: Curator) -> PrivacyLoss:
    """Return the loss, or its pure part without the delta, whichever gives less noise.

    One sign in one coordinate has the same l1 and l2 sensitivity, so Laplace noise is a third of Gaussian noise there.
    """
    if not isinstance(loss, ApproxDP):
        return loss
    norms = account.adjacency.sensitivity(sketch)
    plans = {part: calibrate(norms, part, k=sketch.k) for part in (PureDP(loss.epsilon), loss)}
    return min(plans, key=lambda part: plans[part].noise.stddev / plans[part].resolution)


@file_form("ProjectedRecords")
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProjectedRecords:
    """A noisy projection of a table, with the public hash functions that made it, and counts of frequent records.

    Parameters
    ----------
    sketch
        The projection, with its hash functions.
    values
        (T,) noisy projected counts.
    stddev
        Standard deviation of the noise on each projected count.
    frequent
        Noisy counts of frequent records, which the projection leaves out; ``None`` if none were counted.
    total
        Number of rows, public or estimated.
    schema, total_stddev
        The columns, and the standard deviation of the number of rows; ``None`` in files of older versions.
    """

    sketch: Sketch
    values: FloatArray
    stddev: float
    frequent: KeyCounts | None
    total: float
    schema: Schema | None = field(default=None, metadata=ADDED)
    total_stddev: float | None = field(default=None, metadata=ADDED)

    def __repr__(self) -> str:
        return f"ProjectedRecords({self.sketch.dimension} numbers, about {self.total:.0f} rows)"

    @property
    def squared_counts(self) -> float:
        """Return an estimate of the sum of squared counts of the projected records.

        The projection's own error depends on this sum. The sum of squared projected counts, over one record's squared
        norm, has this mean plus the noise's part. The estimate is at least the number of projected rows, since no count
        is below 1, and at most the square of all rows.
        """
        counted = 0 if self.frequent is None else sum(self.frequent.counts.values())
        norm = self.sketch.bounds.one.l2_squared
        noisy = float((self.values**2).sum()) - self.stddev**2 * len(self.values)
        return min(max(noisy / norm, self.total - counted, 0.0), self.total**2)

    def answered(self, question: Any, measurements: Sequence[Measurements] = ()) -> Answered:  # noqa: ARG002
        """Answer a sparse query, a list of sparse queries, a count or a marginal; see `Release.answer`."""
        return answered(
            question,
            self.answer,
            schema=self.schema,
            columns=self.sketch.columns,
            total=(self.total, self.total_stddev),
        )

    def answer(self, query: SparseQuery) -> SparseAnswer:
        """Answer a sparse query: counts of frequent records, plus an estimate from the projection for all others.

        ``stddev`` covers the noise alone. ``error`` bounds noise and projection error together at confidence 0.95, from
        their variances under a normal law.
        """
        check_query(query, self.sketch.columns)
        support = query.support()
        frequent, light, noise = self._split(support)
        count, squared = self.sketch.estimate(light, self.values) if len(light.keys) else (0.0, 0.0)
        variance = noise + squared * self.stddev**2
        projection = 2 * float((light.weights**2).sum()) * self.squared_counts / self.sketch.dimension
        error = float(-ndtri((1 - CONFIDENCE) / 2)) * math.sqrt(variance + projection)
        return SparseAnswer(
            count=frequent + count, total=self.total, stddev=math.sqrt(variance), error=error, origin=Origin.RELEASED
        )

    def _split(self, support: Support) -> tuple[float, Support, float]:
        """Return the query's count on frequent records, the query on other records, and the variance of that count.

        Counts of frequent records have less noise than the projection, which leaves these records out.
        """
        if self.frequent is None:
            return 0.0, support, 0.0
        counts = np.array([self.frequent.counts.get(key, 0) for key in support.keys], np.float64)
        light = np.array([key not in self.frequent.counts for key in support.keys], np.bool_)
        weights = support.weights
        rest = Support(
            keys=[key for key, keep in zip(support.keys, light, strict=True) if keep], values=support.values[light]
        )
        return float(counts @ weights), rest, float((weights[~light] ** 2).sum()) * self.frequent.plan.stddev**2
