"""The stability histogram: noisy counts of the records that occur often, from a universe of any size.

It is the right default for conjunctions of nearly all columns, whose answers depend on few frequent records.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from synthdp.answers.answers import Answers as Answered
from synthdp.checks import check_share
from synthdp.codec import ADDED, file_form
from synthdp.curator import Curator
from synthdp.measurements import Measurements
from synthdp.mechanisms.mechanism import HasPrivacyCost
from synthdp.mechanisms.row_count import row_total
from synthdp.privacy.key_histogram import KeyCounts, plan_histogram
from synthdp.privacy.loss import ApproxDP, Remaining, Spend
from synthdp.queries.supports import SparseQuery, values_of
from synthdp.randomness import RandomState
from synthdp.release import Release
from synthdp.schema.schema import Schema
from synthdp.works.sparse.key_counts import KeyTotal
from synthdp.works.sparse.sparse_questions import answered
from synthdp.works.sparse.sparse_table import CONFIDENCE, Origin, SparseAnswer, check_query


@dataclass(frozen=True, slots=True)
class StabilityHistogram(HasPrivacyCost):
    """Release every record whose noisy count reaches a threshold, with that count.

    For an added or removed row, Laplace noise has scale 1/epsilon and the threshold is about 1 + ln(1/2 delta)/epsilon.
    For a replaced row the scale is 2/epsilon and the threshold about 1 + 2 ln(1/delta)/epsilon (Korolova, Kenthapadi,
    Mishra, Ntoulas 2009; Bun, Nissim, Stemmer 2016).

    Costs ``spend``, an (epsilon, delta) with delta above 0, for the curator's neighbours.

    Parameters
    ----------
    columns
        Columns whose values make up a record; default: all of the curator's schema.
    total_share
        Share of the loss for the number of rows, where it is private.
    spend
        Privacy loss that a release may cost.

    Examples
    --------
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> schema = sd.Schema({"city": sd.Categorical(["Oslo", "Rome"]), "member": sd.Boolean()})
    >>> table = pd.DataFrame({"city": ["Oslo"] * 1500 + ["Rome"] * 500, "member": [True, False] * 1000})
    >>> curator = sd.Curator(table, schema=schema, budget=sd.ApproxDP(1.0, 1e-6))
    >>> query = sd.sparse_conjunction(schema, {"city": "Oslo"})
    >>> release = sd.StabilityHistogram().release(curator)
    >>> bool(abs(release.answer(query)["estimate"][0] - 1500) < 200)
    True
    """

    columns: tuple[str, ...] | None = None
    total_share: float = 0.02
    spend: Spend = Remaining()

    def __post_init__(self) -> None:
        check_share("total_share", self.total_share)

    def release(
        self,
        curator: Curator,
        *,
        random_state: RandomState = None,  # noqa: ARG002 - nothing is sampled
    ) -> Release[FrequentRecords]:
        """Count all records with noise, and return the counts that reach the threshold.

        Costs ``spend``, for the curator's neighbours.
        """
        columns = self.columns or curator.schema.names
        loss = curator.cost(self.spend)
        plan_histogram(loss, adjacency=curator.adjacency)  # refuses a loss without delta before anything is spent
        curator.check(KeyTotal(columns))
        account = curator.open_account(loss, currency=ApproxDP)
        counted, rest = row_total(account, KeyTotal(columns), share=self.total_share)
        total = counted.rows
        histogram = account.histogram(columns, spend=rest)
        return Release(
            mechanism=type(self).__name__,
            output=FrequentRecords(
                histogram=histogram, total=total, schema=curator.schema.part(columns), total_stddev=counted.stddev
            ),
            loss=loss,
            receipt=curator.receipt(),
        )


@file_form("FrequentRecords")
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrequentRecords:
    """Noisy counts of the records that occur often enough to be released.

    Parameters
    ----------
    histogram
        The noisy counts by key.
    total
        Number of rows, public or estimated.
    schema, total_stddev
        The columns, and the standard deviation of the number of rows; ``None`` in files of older versions.
    """

    histogram: KeyCounts
    total: float
    schema: Schema | None = field(default=None, metadata=ADDED)
    total_stddev: float | None = field(default=None, metadata=ADDED)

    def __repr__(self) -> str:
        return f"FrequentRecords({len(self.histogram.counts)} of about {self.total:.0f} rows)"

    @property
    def records(self) -> Mapping[tuple[str | None, ...], int]:
        """Return each released count by the texts of the record's values, ``None`` for a missing value."""
        return {values_of(key): count for key, count in self.histogram.counts.items()}

    def answered(self, question: Any, measurements: Sequence[Measurements] = ()) -> Answered:  # noqa: ARG002
        """Answer a sparse query, a list of sparse queries, a count or a marginal; see `Release.answer`."""
        return answered(
            question,
            self.answer,
            schema=self.schema,
            columns=self.histogram.columns,
            total=(self.total, self.total_stddev),
        )

    def answer(self, query: SparseQuery) -> SparseAnswer:
        """Answer a sparse query by the released counts; a record without a released count counts 0.

        ``stddev`` is the noise of the released counts. ``error`` also bounds the rows of hidden records: each has fewer
        rows than the threshold plus noise.
        """
        check_query(query, self.histogram.columns)
        support, plan = query.support(), self.histogram.plan
        counts = np.array([self.histogram.counts.get(key, 0) for key in support.keys], np.float64)
        weights = support.weights
        stddev = plan.stddev * math.sqrt(float((weights[counts > 0] ** 2).sum()))
        each = plan.scale * math.log(max(1, len(weights)) / (1 - CONFIDENCE))
        hidden = (plan.threshold + each) * float(weights[counts == 0].sum())
        error = each * float(weights[counts > 0].sum()) + min(hidden, self.total)
        return SparseAnswer(
            count=float(counts @ weights), total=self.total, stddev=stddev, error=error, origin=Origin.RELEASED
        )
