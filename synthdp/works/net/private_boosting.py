"""Boosting for queries (Dwork, Rothblum, Vadhan 2010), as far as it can be run: on the listed cells of a small domain.

Experimental and for comparison. Every round fits a table to a few drawn queries. The draw favours queries that earlier
tables answer badly. The answer to a query is the median over all rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from synthdp.answers.answers import MODEL, Answers as Answered, with_intervals
from synthdp.answers.questions import Count
from synthdp.arrays import Answers, IntArray, Totals
from synthdp.checks import check_share, check_whole, whole
from synthdp.codec import check_saved, file_form
from synthdp.curator import Curator
from synthdp.domain.domain import universe
from synthdp.errors import ParameterError
from synthdp.measurements import Measurements
from synthdp.mechanisms.cell_model import CellModel, check_listed
from synthdp.mechanisms.mechanism import HasPrivacyCost, left_out
from synthdp.mechanisms.preflight import salvaged
from synthdp.mechanisms.workload import WorkloadSpec, queries_of
from synthdp.privacy.loss import ZCDP, PrivacyLoss, Remaining, Spend
from synthdp.queries.distances import Score
from synthdp.queries.linear import FittingRows, Subset
from synthdp.queries.norms import (
    LARGEST_DENOMINATOR,
    LARGEST_EXPECTATION,
    Norms,
    RecordBounds,
    expectations,
)
from synthdp.queries.protocol import LinearQueries, check_overflow
from synthdp.randomness import RandomState, generator
from synthdp.release import Release
from synthdp.sampling.synthetic_model import DrawnFromModel, SyntheticModel
from synthdp.schema.schema import Schema
from synthdp.works.net.listed_cells import CellFit, fitting_total


@dataclass(frozen=True, slots=True, eq=False)
class BoostingScores(Score):
    """Scores -sum over rounds of clip(centre - |q(D) - e|, -h, h), one per query; high where tables answer badly.

    A round adds -h to the score where its table is accurate (error at most centre - h). It adds +h where the table is
    not (at least centre + h), and a linear value between. This is the attenuated reweighting of Dwork, Rothblum, Vadhan
    2010, section 4.2, in whole numbers. One record moves each of the t terms by at most the change of the query.

    Parameters
    ----------
    queries
        The k queries.
    expected
        (t, k) sums that each round's table predicts, in whole multiples of 1 / (``queries.denominator`` * ``resolution``).
    centre, halfwidth
        The error at which a round counts 0, and half the width of the linear part, in the same multiples. Both are
        clipped where no sum of rows comes near.
    resolution
        Factor by which expectations are finer than 1 / a query's denominator.
    """

    queries: LinearQueries
    expected: IntArray
    centre: int
    halfwidth: int
    resolution: int = 1

    def __post_init__(self) -> None:
        expected = expectations("expected", self.expected)
        if expected.ndim != 2 or expected.shape[1] != self.queries.k or not len(expected):
            raise ParameterError(f"expected must be a (rounds, {self.queries.k}) array of whole numbers")
        object.__setattr__(self, "expected", expected)
        object.__setattr__(self, "resolution", whole("resolution", self.resolution, least=1, most=LARGEST_DENOMINATOR))
        most = LARGEST_EXPECTATION // len(expected)  # the scores of all rounds add up within 64 bits
        object.__setattr__(self, "centre", min(whole("centre", self.centre), most))
        object.__setattr__(self, "halfwidth", min(whole("halfwidth", self.halfwidth, least=1), most))
        check_overflow(self)

    @property
    def denominator(self) -> int:
        """Return how many units of a score make an error of 1: the queries' denominator times the resolution."""
        return self.queries.denominator * self.resolution

    @property
    def bounds(self) -> RecordBounds:
        """Return the sensitivity of the scores, in multiples of 1 / `denominator`: for t rounds, t times a query's."""
        bounds, factor = self.queries.bounds, self.resolution * len(self.expected)
        one, swap = (Norms.within(self.k, norms.linf * factor) for norms in (bounds.one, bounds.swap))
        return RecordBounds(one, swap)

    def finish(self, sums: Totals) -> Totals:
        """Return each query's score, (k,), from its sum over all rows: high where earlier tables answer it badly.

        Scores are whole multiples of 1 / `denominator`.
        """
        errors = np.abs(self.queries.finish(sums) * self.resolution - self.expected)
        return np.asarray(-np.clip(self.centre - errors, -self.halfwidth, self.halfwidth).sum(axis=0), np.int64)


RESOLUTION = 2**10
"""Factor by which expected sums are rounded more finely than 1 / a query's denominator, for exact integer scores. More
rounds less, and leaves fewer of 64 bits for large scores. A numerical tolerance."""


@file_form("BoostedTables")
@dataclass(frozen=True, kw_only=True, eq=False)
class BoostedTables(DrawnFromModel):
    """The tables of all rounds; the answer to a query is the median of the tables' answers.

    Parameters
    ----------
    tables
        The tables, one per round.
    """

    tables: tuple[CellModel, ...]

    def __repr__(self) -> str:
        return f"BoostedTables({len(self.tables)} rounds)"

    @property
    def model(self) -> SyntheticModel:
        """Return the model that rows are drawn from: the mean of all rounds' tables."""
        return self._mean.model

    @cached_property
    def _mean(self) -> CellModel:
        """Return one table whose weights are the mean over all rounds, from which rows are drawn."""
        first = self.tables[0]
        weights = np.mean([table.support.weights for table in self.tables], axis=0)
        return CellModel.of(first.model.schema, first.domain, first.support.codes, weights, total=first.total)

    def answered(self, question: Any, measurements: Sequence[Measurements] = ()) -> Answered:
        """Answer a question by the median of the tables' answers; see `Release.answer`.

        Standard errors are NaN, because each table was fitted to few queries and its error on others is unknown. A
        count of all rows comes from the first table alone, with its interval.
        """
        found = [table.answered(question) for table in self.tables]
        estimate = np.median([one.estimate for one in found], axis=0)
        if isinstance(question, Count) and not question.by and question.where is None:
            return self.tables[0].answered(question, measurements)
        return with_intervals(found[0].labels, estimate, np.full(len(estimate), np.nan), [MODEL] * len(estimate))

    def answer(self, queries: LinearQueries | WorkloadSpec) -> Answers:
        """Return the (k,) medians of the tables' sums; parameters as in `CellModel.averages`."""
        return np.asarray(np.median([table.answer(queries) for table in self.tables], axis=0), np.float64)


@dataclass(frozen=True, slots=True)
class PrivateBoosting(HasPrivacyCost):
    """Fit a table to a few drawn queries in each round, and answer with the median of all tables.

    The first round draws uniformly. Later rounds draw through `Curator.select` with the score `BoostingScores`. That is
    the exponential mechanism under zCDP, the paper's reweighted draw; under a pure epsilon it is permute-and-flip.

    Costs ``spend``, for the curator's neighbours; an (epsilon, delta) is spent as zCDP. Rows with out-of-domain values
    are counted and left out, as in `NetMechanism`.

    Parameters
    ----------
    queries
        The queries, or marginals by the names of their columns, whose cells must be few enough to list; ``None`` for all
        pairs of columns.
    rounds
        T, odd so that the median is one of the answers.
    drawn
        Number of queries that are drawn, with replacement, and measured in each round.
    accuracy
        lambda, an error of averages, as a fraction of the rows: up to lambda counts as good, 2 lambda and more as bad.
    draw_share
        Share of the spend for drawing; the rest is for measuring.
    total_share
        Share of the spend for the number of rows, where it is private.
    replay
        Evaluations of the L1 fit in each round.
    spend
        Privacy loss that a release may cost.
    """

    queries: LinearQueries | WorkloadSpec | None = None
    rounds: int = 5
    drawn: int = 32
    accuracy: float = 0.02
    draw_share: float = 0.5
    total_share: float = 0.05
    replay: int = 200
    spend: Spend = Remaining()

    def __post_init__(self) -> None:
        if whole("rounds", self.rounds, least=3) % 2 == 0:
            raise ParameterError(f"rounds ({self.rounds!r}) must be an odd whole number of at least 3")
        check_whole("drawn", self.drawn)
        check_whole("replay", self.replay)
        for name, share in (("accuracy", self.accuracy), ("draw_share", self.draw_share)):
            check_share(name, share)
        check_share("total_share", self.total_share)

    def output_schema(self, schema: Schema) -> Schema:
        """Return the schema of the queries' columns, which are the columns of the released tables.

        Raises
        ------
        ParameterError
            If the queries' columns are not the schema's, or their cells are too many to list.
        """
        return check_listed(queries_of(self.queries, schema), schema)

    @salvaged()
    def release(self, curator: Curator, *, random_state: RandomState = None) -> Release[BoostedTables]:
        """Fit one table per round, each to newly drawn queries, and return all tables.

        Costs ``spend``, for the curator's neighbours. ``random_state`` draws the first round's queries.
        """
        queries = queries_of(self.queries, curator.schema)
        check_saved(queries)
        output_schema = check_listed(queries, curator.schema)
        rng = generator(random_state)
        loss = curator.cost(self.spend)
        domain, cells = queries.domain, universe(queries.domain)
        curator.check(queries)
        account = curator.open_account(loss, currency=ZCDP)
        total = fitting_total(account, domain, share=self.total_share)
        draw = total.rest.fraction(self.draw_share).split((self.rounds - 1) * self.drawn)
        measure = total.rest.fraction(1 - self.draw_share).split(self.rounds)
        positions = rng.integers(queries.k, size=self.drawn)
        expected: list[IntArray] = []
        tables: list[CellModel] = []
        measured: list[Measurements] = []
        notes: tuple[str, ...] = (*left_out(curator.schema, output_schema), *total.notes)
        for _ in range(self.rounds):
            if expected:
                positions = self._drawn(queries, account, expected, total.fitting, draw)
            chosen = Subset(queries, np.unique(positions))
            measured.append(account.measure(FittingRows(chosen), spend=measure, step="drawn queries"))
            fit = CellFit(cells, total.fitting, replay=self.replay)
            fit.add(chosen, measured[-1].answers, measured[-1].stddev)
            notes = (*notes, *fit.notes)
            tables.append(CellModel.of(curator.schema, domain, cells, fit.weights, total=float(total.rows)))
            scale = queries.denominator * RESOLUTION
            expected.append(np.rint(fit.expected(queries) * scale).astype(np.int64))
        return Release(
            mechanism=type(self).__name__,
            output=BoostedTables(tables=tuple(tables)),
            loss=loss,
            receipt=curator.receipt(notes=notes),
            measurements=(*total.measurements, *measured),
        )

    def _drawn(
        self, queries: LinearQueries, account: Curator, expected: list[IntArray], rows: int, spend: PrivacyLoss
    ) -> IntArray:
        """Return (drawn,) positions of queries, each selected by the curator among the worst-answered ones.

        ``expected`` holds each earlier round's (k,) predicted sums, see `BoostingScores`, and ``rows`` is the number of
        rows. The next round's table is fitted to these queries. Costs ``spend`` for each draw.
        """
        good = (
            self.accuracy * rows * queries.denominator * RESOLUTION
        )  # scores rise from this error to twice this error
        halfwidth = max(1, round(good / 2))
        scores = BoostingScores(FittingRows(queries), np.array(expected), round(1.5 * good), halfwidth, RESOLUTION)
        return np.array([account.select(scores, spend=spend, step="draw") for _ in range(self.drawn)], np.int64)


def boosting_rounds(k: int, *, margin: float) -> int:
    """Return how many rounds make the median accurate on all k queries: the least T above 2 ln(k) / margin^2.

    Let a be 1 for a good answer and -1 for a bad answer. A round weighs queries by exp(-margin * sum of earlier a), and
    the average of a under these weights must be at least ``margin``. After T rounds the weights sum to at most k exp(-T
    margin^2 / 2) < 1. A query whose a sum to 0 or less would weigh 1, so each query has a good answer in most rounds.
    This is the argument of Dwork, Rothblum, Vadhan 2010, Theorem 4.1.
    """
    if k < 1 or not 0 < margin <= 1:
        raise ParameterError("k must be at least 1, and margin must be above 0 and at most 1")
    return math.floor(2 * math.log(k) / margin**2) + 1


def boosting_bound(*, accuracy: float) -> float:
    """Return the largest error of averages once all `boosting_rounds` rounds went well: twice ``accuracy``.

    A round goes well if its table is good on most of the weight. That needs noise far below ``accuracy`` and enough
    drawn queries; the paper proves it for n in the order of sqrt(ln|X|) ln(k)^(3/2) / (accuracy^2 epsilon).
    """
    return 2 * accuracy
