"""Boosting for queries (Dwork, Rothblum, Vadhan 2010), to the extent that it runs: on the listed cells of a small domain.

Experimental and for comparison: every round fits a table to a few drawn queries; drawing favours queries that the
tables so far answer badly; the median over rounds answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
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
from synthdp.mechanisms.preflight import salvaged
from synthdp.mechanisms.protocol import HasPrivacyCost, left_out
from synthdp.mechanisms.workload import WorkloadSpec, queries_of
from synthdp.privacy.loss import ZCDP, PrivacyLoss, Remaining, Spend
from synthdp.queries.composed import FittingRows, Subset
from synthdp.queries.distances import Score
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
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.schema import Schema
from synthdp.tables.source import RowSink
from synthdp.works.net.listed_cells import CellFit, fitting_total


@dataclass(frozen=True, slots=True, eq=False)
class BoostingScores(Score):
    """The score -sum over rounds of clip(centre - |q(D) - e|, -h, h) of every query.

    A round counts +h where its table is accurate (error at most centre - h), -h where it is not (at least centre + h),
    and falls linearly between: the attenuated reweighting of Dwork, Rothblum, Vadhan 2010, section 4.2, in whole
    numbers.  One record moves each of the t terms by at most what it moves the query.

    Parameters
    ----------
    queries
        The k queries.
    expected
        (t, k) sums that each round's table predicts, in whole multiples of 1 / (``queries.denominator`` * ``resolution``).
    centre, halfwidth
        In the same multiples; clipped, as expectations are, where no sum of rows is near.
    resolution
        How much finer than a query's denominator the expectations are.
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
        """The whole number that stands for 1 in a query's sum."""
        return self.queries.denominator * self.resolution

    @property
    def bounds(self) -> RecordBounds:
        """Every term moves by no more than the query."""
        bounds, factor = self.queries.bounds, self.resolution * len(self.expected)
        one, swap = (Norms.within(self.k, norms.linf * factor) for norms in (bounds.one, bounds.swap))
        return RecordBounds(one, swap)

    def finish(self, sums: Totals) -> Totals:
        """Return the scores, (k,)."""
        errors = np.abs(self.queries.finish(sums) * self.resolution - self.expected)
        return np.asarray(-np.clip(self.centre - errors, -self.halfwidth, self.halfwidth).sum(axis=0), np.int64)


RESOLUTION = 2**10
"""Expected sums are rounded to this fraction of 1 / a query's denominator before errors are taken.
A numerical tolerance."""


@file_form("BoostedTables")
@dataclass(frozen=True, kw_only=True, eq=False)
class BoostedTables:
    """The tables of all rounds; a query's answer is the median of theirs.

    Parameters
    ----------
    tables
        One per round.
    """

    tables: tuple[CellModel, ...]

    def __repr__(self) -> str:
        return f"BoostedTables({len(self.tables)} rounds)"

    @property
    def model(self) -> SyntheticModel:
        """What draws rows: the mean of the rounds' tables."""
        return self._mean.model

    @cached_property
    def _mean(self) -> CellModel:
        """Return the mean of the tables of all rounds."""
        first = self.tables[0]
        weights = np.mean([table.support.weights for table in self.tables], axis=0)
        return CellModel.of(first.model.schema, first.domain, first.support.codes, weights, total=first.total)

    def sample(self, rows: int | None = None, **options: Any) -> Any:
        """Draw rows from the mean of the tables; see `SyntheticModel.sample`."""
        return self._mean.sample(rows, **options)

    def sample_to(self, path: str | PathLike[str] | RowSink, **options: Any) -> None:
        """Draw rows of the mean of the tables into a file; see `SyntheticModel.sample_to`."""
        self._mean.sample_to(path, **options)

    def answered(self, question: Any, measurements: Sequence[Measurements] = ()) -> Answered:
        """Answer a question by the median of the tables' answers; see `Release.answer`.

        How far it is off is not known: the tables were fitted to few queries each.
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

    The first round draws uniformly, the others through `Curator.select` with the score `BoostingScores`: the exponential
    mechanism under zCDP, which is the paper's reweighted draw; permute-and-flip under a pure epsilon.

    Costs ``spend``, for the curator's neighbours; an (epsilon, delta) is spent as zCDP.  Rows with values that do not fit
    the schema are counted and left out, as in `NetMechanism`.

    Parameters
    ----------
    queries
        The queries, or marginals by the names of their columns, whose cells must be few enough to list; ``None`` for all
        pairs of columns.
    rounds
        T, odd so that the median is one of the answers.
    drawn
        How many queries are drawn, with replacement, and measured in each round.
    accuracy
        lambda: errors, as averages, up to this count as good, twice as much as bad.
    draw_share
        Share of the spend for drawing; the rest is for measuring.
    total_share
        Share of the spend for the number of rows, where it is private.
    replay
        Evaluations of the L1 fit each time.
    spend
        What it may cost.
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
        """Return the columns of the queries.

        Raises
        ------
        ParameterError
            If they are not the schema's, or their cells are too many to list.
        """
        return check_listed(queries_of(self.queries, schema), schema)

    @salvaged()
    def release(self, curator: Curator, *, random_state: RandomState = None) -> Release[BoostedTables]:
        """Fit the tables.

        Costs ``spend``, for the curator's neighbours.  ``random_state`` draws the first round's queries.
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
        """Return (drawn,) queries that the curator selects among the worst answered ones, each for a spend of its own."""
        good = self.accuracy * rows * queries.denominator * RESOLUTION
        halfwidth = max(1, round(good / 2))
        scores = BoostingScores(FittingRows(queries), np.array(expected), round(1.5 * good), halfwidth, RESOLUTION)
        return np.array([account.select(scores, spend=spend, step="draw") for _ in range(self.drawn)], np.int64)


def boosting_rounds(k: int, *, margin: float) -> int:
    """Return how many rounds make the median accurate on all k queries.

    If under each round's weights, proportional to exp(-margin * sum of earlier a), the average of a is at least
    ``margin``, where a is 1 for a good answer and -1 for a bad one, then after T > 2 ln(k) / margin^2 rounds every query
    has a good answer in more than half of them: the weights sum to at most k exp(-T margin^2 / 2) < 1, and a query whose
    a sum to 0 or less would weigh 1 (Dwork, Rothblum, Vadhan 2010, Theorem 4.1's argument).
    """
    if k < 1 or not 0 < margin <= 1:
        raise ParameterError("k must be at least 1, and margin must be above 0 and at most 1")
    return math.floor(2 * math.log(k) / margin**2) + 1


def boosting_bound(*, accuracy: float) -> float:
    """Return the error of averages that no answer exceeds once `boosting_rounds` rounds went well: twice ``accuracy``.

    That a round goes well, its table good on most of the weight, depends on noise far below ``accuracy`` and on enough
    drawn queries; the paper proves it for n in the order of sqrt(ln|X|) ln(k)^(3/2) / (accuracy^2 epsilon).
    """
    return 2 * accuracy
