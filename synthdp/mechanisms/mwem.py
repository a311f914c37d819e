"""MWEM (Hardt, Ligett, McSherry 2012): ask for the worst answered part of a workload, measure it, and refit a table.

Works on listed cells.  What the curator sees is the selection scores and the measured parts; the rest is public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from synthdp.arrays import Answers, Codes, IntArray, Weights
from synthdp.domain.universe import universe
from synthdp.errors import ParameterError
from synthdp.fit.multiplicative_weights import MultiplicativeWeights
from synthdp.fit.problem import FitProblem
from synthdp.measurements import Measurements
from synthdp.mechanisms.cell_model import CellModel
from synthdp.mechanisms.protocol import Release
from synthdp.mechanisms.row_total import RowTotal, check_share, row_total
from synthdp.privacy.curator import Curator
from synthdp.privacy.loss import ZCDP, Remaining, Spend
from synthdp.queries.distances import MarginalDistances
from synthdp.queries.marginals import Marginals
from synthdp.queries.protocol import LinearQueries
from synthdp.queries.query_distances import QueryDistances
from synthdp.queries.subset import Subset
from synthdp.randomness import RandomState

RESOLUTION = 2**10
"""Expected sums are rounded to this fraction of a query's unit before distances are taken."""


@dataclass(frozen=True, slots=True)
class MWEM:
    """Fit a table in rounds: select the worst part of a workload, measure it, and refit by multiplicative weights.

    The parts of a `Marginals` are its whole tables, scored by L1 distance: one record moves one count of a table, so a
    table costs no more than one of its cells.  The parts of any other family are its queries, as in the paper.

    Costs ``spend``, for the curator's neighbours; an (epsilon, delta) is spent as zCDP.

    Parameters
    ----------
    workload
        What the released table should answer well, over a domain whose cells can be listed.
    rounds
        T.
    replay
        Steps of entropic mirror descent on all measurements so far after each round; 0 for the paper's single
        multiplicative update with the newest measurement.
    average
        Release the average of all rounds' tables, as the paper proves its bound for, instead of the last.
    total_share
        Share of the spend for the number of rows, where it is private.
    spend
        What it may cost.
    """

    workload: LinearQueries
    rounds: int = 20
    replay: int = 200
    average: bool = False
    total_share: float = 0.05
    spend: Spend = Remaining()

    def __post_init__(self) -> None:
        if isinstance(self.rounds, bool) or not isinstance(self.rounds, int) or self.rounds < 1:
            raise ParameterError(f"rounds ({self.rounds!r}) must be a whole number of at least 1")
        if self.replay < 0:
            raise ParameterError(f"replay ({self.replay}) must be at least 0")
        check_share("total_share", self.total_share)

    @property
    def loss(self) -> Spend:
        """What a release costs.  Costs nothing: public."""
        return self.spend

    def release(self, curator: Curator, *, random_state: RandomState = None) -> Release[CellModel]:  # noqa: ARG002
        """Fit a table in rounds.

        Costs ``spend``, for the curator's neighbours.
        """
        loss = curator.cost(self.spend)
        cells = universe(self.workload.domain)
        account = curator.open_account(loss, currency=ZCDP)
        total = row_total(account, self.workload.domain, share=self.total_share)
        each = total.rest.split(2 * self.rounds)
        fit = _Fit(cells, total, replay=self.replay)
        tables = []
        for _ in range(self.rounds):
            expected = fit.expected(self.workload)
            worst = account.select(_distances(self.workload, expected), spend=each, step="worst part")
            fit.add(account.measure(_part(self.workload, worst), spend=each, step="part"))
            tables.append(fit.weights)
        weights = np.mean(tables, axis=0) if self.average else tables[-1]
        model = CellModel.of(curator.schema, self.workload.domain, cells, weights, total=float(total.rows))
        return Release(
            mechanism=type(self).__name__,
            output=model,
            loss=loss,
            receipt=curator.receipt(),
            measurements=(*total.measurements, *fit.measured),
        )


class _Fit:
    """Weights on the cells, and the measurements they explain."""

    def __init__(self, cells: Codes, total: RowTotal, *, replay: int) -> None:
        self._cells, self._rows, self._replay = cells, total.rows, replay
        self._features: list[sp.csr_array] = []
        self.measured: list[Measurements] = []
        self.weights: Weights = np.full(len(cells), 1 / len(cells))

    def expected(self, workload: LinearQueries) -> Answers:
        """Return the (k,) sums that the weights predict, in units of the workload."""
        if not isinstance(workload, Marginals):
            return self._rows * (self.weights @ workload.features(self._cells))
        tables = workload.cells(self._cells)
        counts = [
            np.bincount(table - first, weights=self.weights, minlength=size)
            for table, first, size in zip(tables.T, workload.offsets, workload.sizes, strict=False)
        ]
        return np.asarray(self._rows * np.concatenate(counts), np.float64)

    def add(self, measured: Measurements) -> None:
        """Refit to a new measurement and all before it."""
        queries = measured.queries
        if not isinstance(queries, (Marginals, Subset)):
            raise ParameterError("a measurement must be of one part of the workload")
        self.measured.append(measured)
        self._features.append(sp.csr_array((queries.features(self._cells) / queries.unit).T))
        if self._replay == 0:
            self.weights = self._updated(self._features[-1], measured)
        else:
            self.weights = self._refitted()

    def _updated(self, features: sp.csr_array, measured: Measurements) -> Weights:
        """Return the paper's update: w exp(q(x) (m - q(w)) / 2n), for each query of the measured part."""
        missing = measured.answers - self._rows * (features @ self.weights)
        exponent = features.T @ missing / (2 * self._rows)
        weights = self.weights * np.exp(exponent - exponent.max())
        return np.asarray(weights / weights.sum(), np.float64)

    def _refitted(self) -> Weights:
        answers = np.concatenate([part.answers for part in self.measured]) / self._rows
        stddev = np.concatenate([np.full(len(part.values), part.stddev) for part in self.measured]) / self._rows
        features = sp.csc_array(sp.vstack(self._features))
        problem = FitProblem(A=features, b=answers, stddev=stddev, prior=self.weights)
        return MultiplicativeWeights(max_iterations=self._replay).solve(problem).weights


def _distances(workload: LinearQueries, expected: Answers) -> MarginalDistances | QueryDistances:
    whole: IntArray = np.rint(expected * RESOLUTION).astype(np.int64)
    if isinstance(workload, Marginals):
        return MarginalDistances(workload, whole, RESOLUTION)
    return QueryDistances(workload, whole, RESOLUTION)


def _part(workload: LinearQueries, position: int) -> LinearQueries:
    if isinstance(workload, Marginals):
        return Marginals(workload.domain, (workload.cliques[position],))
    return Subset(workload, np.array([position]))


def mwem_bound(k: int, *, cells: int, rows: int, rounds: int, epsilon: float) -> float:
    """Return the paper's bound on the largest error, in rows: 2 n sqrt(ln|X| / T) + 10 T ln(k) / eps.

    For k counting queries, a pure epsilon and n rows.  It holds with probability at least 1 - 2T/k, for the average of
    all rounds' tables (Hardt, Ligett, McSherry 2012, Theorem 2.2).

    Costs nothing: arithmetic.
    """
    if min(k, cells, rows, rounds) < 1 or not epsilon > 0:
        raise ParameterError("k, cells, rows and rounds must be at least 1, and epsilon above 0")
    return 2 * rows * math.sqrt(math.log(cells) / rounds) + 10 * rounds * math.log(k) / epsilon
