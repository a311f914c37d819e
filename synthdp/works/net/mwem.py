"""MWEM (Hardt, Ligett, McSherry 2012): select the worst-answered part of a workload, measure it, and refit a table.

The table is a list of weights on all cells. The curator computes selection scores and measures parts; everything else
uses public numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from synthdp.arrays import Answers, IntArray, Totals
from synthdp.checks import check_share, check_whole, whole
from synthdp.curator import Curator
from synthdp.domain.domain import universe
from synthdp.errors import ParameterError
from synthdp.fit.out_of_domain import OutOfDomain
from synthdp.measurements import Measurements
from synthdp.mechanisms.cell_model import CellModel, check_listed
from synthdp.mechanisms.mechanism import HasPrivacyCost, left_out
from synthdp.mechanisms.preflight import salvaged
from synthdp.mechanisms.workload import WorkloadSpec, tables_of
from synthdp.privacy.loss import ZCDP, Remaining, Spend
from synthdp.queries.distances import MarginalDistances, Score
from synthdp.queries.linear import Subset
from synthdp.queries.marginals import Marginals
from synthdp.queries.norms import LARGEST_DENOMINATOR, RecordBounds, expectations
from synthdp.queries.protocol import LinearQueries, Statistic, check_overflow
from synthdp.randomness import RandomState
from synthdp.release import Release
from synthdp.schema.schema import Schema
from synthdp.works.net.listed_cells import CellFit, FittingTotal, fitting_total, total_of_all


@dataclass(frozen=True, slots=True, eq=False)
class QueryDistances(Score):
    """Distances |q(D) - e| of k linear queries from k expected sums, as scores for selecting the worst-answered query.

    By the triangle inequality one record moves each distance by no more than its query.

    Parameters
    ----------
    queries
        The k queries.
    expected
        (k,) expected sums as whole multiples of 1 / (``queries.denominator`` * ``resolution``).
    resolution
        Factor by which expectations are finer than 1 / a query's denominator.
    """

    queries: LinearQueries
    expected: IntArray
    resolution: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "resolution", whole("resolution", self.resolution, least=1, most=LARGEST_DENOMINATOR))
        object.__setattr__(self, "expected", expectations("expected", self.expected))
        if self.expected.shape != (self.queries.k,):
            raise ParameterError("expected must hold one whole number per query")
        check_overflow(self)

    @property
    def denominator(self) -> int:
        """Return how many units of a distance make 1 in a sum: the queries' denominator times the resolution."""
        return self.queries.denominator * self.resolution

    @property
    def bounds(self) -> RecordBounds:
        """Return the sensitivity of the distances: ``resolution`` times the queries', as |q - e| moves as q does."""
        return self.queries.bounds.times(self.resolution)

    def finish(self, sums: Totals) -> Totals:
        """Return each query's distance |q(D) - e| from its expected sum, (k,), in multiples of 1 / `denominator`."""
        return np.asarray(np.abs(self.queries.finish(sums) * self.resolution - self.expected), np.int64)


RESOLUTION = 2**10
"""Factor by which expected sums are rounded more finely than 1 / a query's denominator, for exact integer scores. More
rounds less, and leaves fewer of 64 bits for large sums. A numerical tolerance."""


@dataclass(frozen=True, slots=True)
class MWEM(HasPrivacyCost):
    """Fit a table in rounds: select the worst part of a workload, measure it, and refit by multiplicative weights.

    The parts of a `Marginals` are its whole tables, scored by L1 distance: one record moves one count of a table, so a
    table costs no more than one of its cells.  The parts of any other family are its queries, as in the paper. Rows
    with an out-of-domain value are then counted and left out, as in `NetMechanism`.

    Costs ``spend``, for the curator's neighbours; an (epsilon, delta) is spent as zCDP.

    Parameters
    ----------
    workload
        The queries that the released table should answer well, or marginals by the names of their columns; their cells
        must be few enough to list. Default: all pairs of columns.
    rounds
        T, the number of selected and measured parts.
    replay
        Evaluations of the L1 fit to all measurements so far, after each round; 0 for the paper's
        single multiplicative update with the newest measurement.
    average
        Release the average of all rounds' tables, as the paper proves its bound for, instead of the last.
    total_share
        Share of the spend for the number of rows, where it is private.
    spend
        Privacy loss that a release may cost.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> table = pd.DataFrame(np.random.default_rng(1).random((1000, 3)) < 0.3, columns=["a", "b", "c"])
    >>> schema = sd.Schema({name: sd.Boolean() for name in table})
    >>> curator = sd.Curator(table, schema=schema, budget=sd.ApproxDP(1.0, 1e-6))
    >>> release = sd.MWEM([("a", "b"), ("b", "c")], rounds=3).release(curator)
    >>> len(release.answer(sd.marginal("a", "b")))  # the numbers of rows with false, false; false, true; ...
    4
    """

    workload: LinearQueries | WorkloadSpec | None = None
    rounds: int = 20
    replay: int = 200
    average: bool = False
    total_share: float = 0.05
    spend: Spend = Remaining()

    def __post_init__(self) -> None:
        check_whole("rounds", self.rounds)
        check_whole("replay", self.replay, least=0)
        check_share("total_share", self.total_share)

    def output_schema(self, schema: Schema) -> Schema:
        """Return the schema of the workload's columns, which are the columns of the released table.

        Raises
        ------
        ParameterError
            If the workload's columns are not the schema's, or their cells are too many to list.
        """
        return check_listed(tables_of(self.workload, schema), schema)

    @salvaged()
    def release(self, curator: Curator, *, random_state: RandomState = None) -> Release[CellModel]:  # noqa: ARG002
        """Fit weights on all cells in ``rounds`` rounds and return them as a table with the number of rows.

        Costs ``spend``, for the curator's neighbours.
        """
        workload = tables_of(self.workload, curator.schema)
        output_schema = check_listed(workload, curator.schema)
        loss = curator.cost(self.spend)
        cells = universe(workload.domain)
        curator.check(workload, spend=loss)
        account = curator.open_account(loss, currency=ZCDP)
        parts = _Tables(workload) if isinstance(workload, Marginals) else _Queries(workload)
        total = parts.count(account, share=self.total_share)
        each = total.rest.split(2 * self.rounds)
        fit = CellFit(cells, total.fitting, replay=self.replay)
        measured: list[Measurements] = []
        tables = []
        for _ in range(self.rounds):
            scores = parts.scores(fit.expected(workload))
            part = parts.part(account.select(scores, spend=each, step="worst part"))
            measured.append(account.measure(part, spend=each, step="part"))
            *before, newest = parts.fitted(measured)
            fit.correct(before)
            fit.add(part, newest, measured[-1].stddev)
            tables.append(fit.weights)
        weights = np.mean(tables, axis=0) if self.average else tables[-1]
        model = CellModel.of(curator.schema, workload.domain, cells, weights, total=float(total.rows))
        notes = (*left_out(curator.schema, output_schema), *total.notes, *fit.notes, *model.model.notes)
        return Release(
            mechanism=type(self).__name__,
            output=model,
            loss=loss,
            receipt=curator.receipt(notes=notes),
            measurements=(*total.measurements, *measured),
        )


class _Queries:
    """A workload in parts of one query each: how rows are counted, and parts scored, measured and fitted."""

    def __init__(self, workload: LinearQueries) -> None:
        self._workload = workload

    def count(self, account: Curator, *, share: float) -> FittingTotal:
        """Return the number of rows, and of rows in domain, which alone the queries are about; see `fitting_total`.

        Costs what `fitting_total` does.
        """
        return fitting_total(account, self._workload.domain, share=share)

    def scores(self, expected: Answers) -> Statistic:
        """Return the statistic whose answers, (k,), are the distances of private answers from expected ones.

        The curator selects the query with a large distance under noise.
        """
        return QueryDistances(self._workload, _whole(self._workload, expected), RESOLUTION)

    def part(self, position: int) -> LinearQueries:
        """Return the query at a position, to be measured."""
        return Subset(self._workload, np.array([position]))

    def fitted(self, measured: Sequence[Measurements]) -> list[Answers]:
        """Return the answers of all parts measured so far as the fit takes them, one array per part."""
        return [one.answers for one in measured]


class _Tables:
    """A workload in parts of one table each, which costs no more than one of its cells.

    The tables count out-of-domain rows in cells of their own, which the fitted weights do not have.
    """

    def __init__(self, workload: Marginals) -> None:
        self._workload = workload
        releasable = tuple(axis.releasable for axis in workload.domain.axes)
        self._outside = OutOfDomain(releasable=releasable, rows=np.zeros(len(releasable)), total=0.0)

    def count(self, account: Curator, *, share: float) -> FittingTotal:
        """Return the number of rows, all taken to be in domain until a table is measured; see `total_of_all`.

        Costs what `total_of_all` does.
        """
        total = total_of_all(account, self._workload.domain, share=share)
        self._outside = replace(self._outside, total=float(total.fitting))
        return total

    def scores(self, expected: Answers) -> Statistic:
        """Return the statistic whose answers, (k,), are the L1 distances of private tables from expected ones.

        The curator selects the table with a large distance under noise.  The estimated out-of-domain rows are added to
        the expected counts, as the private tables count them.
        """
        tables = zip(self._workload.cliques, self._workload.split(expected), strict=True)
        counts = np.concatenate([self._outside.add(one, clique) for clique, one in tables])
        return MarginalDistances(self._workload, _whole(self._workload, counts), RESOLUTION)

    def part(self, position: int) -> LinearQueries:
        """Return the table at a position, to be measured."""
        return Marginals(self._workload.domain, (self._workload.cliques[position],))

    def fitted(self, measured: Sequence[Measurements]) -> list[Answers]:
        """Return the answers of all parts measured so far, with out-of-domain rows removed, one array per part.

        All tables together estimate how many rows are out of domain, so each new part changes the earlier answers too.
        """
        tables = [one.tables for one in measured]
        self._outside = OutOfDomain.estimated(
            itertools.chain(*tables), self._outside.releasable, total=self._outside.total
        )
        asked = [one.asked(Marginals) for one in measured]
        return [self._outside.answers(one, some) for one, some in zip(asked, tables, strict=True)]


def _whole(workload: LinearQueries, expected: Answers) -> IntArray:
    """Return expected answers, (k,), in the whole numbers of scores: multiples of 1 / (denominator * `RESOLUTION`)."""
    return np.asarray(np.rint(expected * workload.denominator * RESOLUTION), np.int64)


def mwem_bound(k: int, *, cells: int, rows: int, rounds: int, epsilon: float) -> float:
    """Return the paper's bound on the largest error, in rows: 2 n sqrt(ln|X| / T) + 10 T ln(k) / eps.

    The bound is for k counting queries, n rows, |X| cells, T rounds and a pure epsilon. It holds with probability at
    least 1 - 2T/k, for the average of all rounds' tables (Hardt, Ligett, McSherry 2012, Theorem 2.2).
    """
    if min(k, cells, rows, rounds) < 1 or not epsilon > 0:
        raise ParameterError("k, cells, rows and rounds must be at least 1, and epsilon must be above 0")
    return 2 * rows * math.sqrt(math.log(cells) / rounds) + 10 * rounds * math.log(k) / epsilon
