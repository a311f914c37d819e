"""The simplest releases: noise on every query of a workload, as much as its sensitivity needs and no more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from synthdp.answers.answers import MEASURED, Answers as Answered, with_intervals
from synthdp.answers.noisy_sums import NoisySums, answered
from synthdp.answers.questions import Marginal, Question
from synthdp.arrays import Answers, FloatArray, IntArray
from synthdp.checks import check_one_of, check_share
from synthdp.codec import check_saved, file_form
from synthdp.curator import Curator
from synthdp.errors import ParameterError
from synthdp.measurements import Measurements, NoiseLaw
from synthdp.mechanisms.mechanism import HasPrivacyCost
from synthdp.mechanisms.workload import WorkloadSpec, asked_of_names, check_domain, queries_of
from synthdp.privacy.loss import ApproxDP, PrivacyLoss, PureDP, Remaining, Spend
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.linear import Stack
from synthdp.queries.marginals import Marginals, counted_apart
from synthdp.queries.protocol import LinearQueries
from synthdp.randomness import RandomState
from synthdp.release import Release
from synthdp.schema.schema import Schema

AIMS = ("mean", "max")
"""Values of ``aim``: minimize the mean squared error of all answers, or the largest one."""


@file_form("DirectAnswers")
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DirectAnswers:
    """Noisy sums of all queries of a workload.

    Parameters
    ----------
    queries
        The workload.
    measurements
        The answers of its parts, one after the other.
    """

    queries: LinearQueries
    measurements: tuple[Measurements, ...]

    def __repr__(self) -> str:
        return f"DirectAnswers({self.queries.k} queries)"

    @property
    def values(self) -> Answers:
        """(k,) noisy, unbiased sums over rows, one a query."""
        return np.concatenate([part.answers for part in self.measurements])

    @property
    def stddev(self) -> FloatArray:
        """(k,) standard deviation of the noise in each sum."""
        return np.concatenate([np.full(len(part.values), part.stddev) for part in self.measurements])

    def interval(self, confidence: float = 0.95) -> tuple[Answers, Answers]:
        """Return the lower and upper ends, (k,) each, of one interval per query.

        Each holds its true sum with probability ``confidence``.
        """
        check_share("confidence", confidence)
        width = np.concatenate([np.full(len(part.values), part.quantile(1 - confidence)) for part in self.measurements])
        return self.values - width, self.values + width

    def answered(self, question: Any, measurements: Sequence[Measurements] = ()) -> Answered:  # noqa: ARG002
        """Answer a question as every release does, from a table that was measured; see `Release.answer`.

        The workload itself, or the positions of some of its queries, may be asked too.
        """
        question = asked_of_names(question)
        if isinstance(question, Question):
            schema = Schema({axis.name: axis.column for axis in self.queries.domain.axes})
            return answered(NoisySums(schema, self._tables, self._row_count), question)
        estimate = self.answer(question)
        at = np.arange(self.queries.k) if question is self.queries else np.atleast_1d(question)
        return with_intervals({"query": at.tolist()}, estimate, self.stddev[at], [MEASURED] * len(estimate))

    @property
    def _tables(self) -> tuple[Measurements, ...]:
        """The noisy answers, each with the part of the workload that it answers, as the question engine takes them."""
        parts = (self.queries,) if len(self.measurements) == 1 else parts_of(self.queries)
        return tuple(replace(one, queries=part) for one, part in zip(self.measurements, parts, strict=True))

    @property
    def _row_count(self) -> tuple[float, float]:
        """The number of rows inside the domain and its standard deviation, from the table whose total has the least noise.

        Questions about fractions and means divide by it.  ParameterError is raised where no table was measured.
        """
        tables = [
            (float(table.counts.sum()), table.stddev * math.sqrt(table.counts.size))
            for part in self._tables
            for table in part.tables
            if not table.alone
        ]
        if not tables:
            raise ParameterError(
                "this release measured no marginal, so it cannot count rows: ask only the queries of its workload"
            )
        return min(tables, key=lambda one: one[1])

    def answer(self, query: LinearQueries | Marginal | int | IntArray) -> Answers:
        """Return the noisy sums, (k,), of the workload itself, one of its marginals, or the queries at some positions.

        Raises
        ------
        ParameterError
            If the query is not in the workload.
        """
        if isinstance(query, Marginal):
            return self._table(query)
        if query is self.queries:
            return self.values
        positions = np.atleast_1d(np.asarray(query))
        if positions.dtype.kind not in "iu" or not ((positions >= 0) & (positions < self.queries.k)).all():
            raise ParameterError(
                "queries must be the released workload itself, its marginals, or positions from 0 to "
                f"{self.queries.k - 1}"
            )
        return np.asarray(self.values[positions], np.float64)

    def _table(self, asked: Marginal) -> Answers:
        """Return a marginal's noisy counts, (cells,); raise ParameterError unless it was answered as it is asked."""
        if isinstance(self.queries, Marginals):
            named = [tuple(self.queries.domain.names[j] for j in clique) for clique in self.queries.cliques]
            if asked.columns in named and not asked.bins:
                return np.asarray(self.queries.split(self.values)[named.index(asked.columns)], np.float64)
        raise ParameterError(
            "a marginal must be one of the released workload, with its columns in the same order and without bins"
        )


@dataclass(frozen=True, slots=True)
class LaplaceAnswers(HasPrivacyCost):
    """Answer every query with Laplace noise (Dwork, McSherry, Nissim, Smith 2006).

    A value that does not fit the schema is counted in no cell of its column, unless the queries' domain has one for it.

    Costs ``spend``, for the curator's neighbours.  A pure epsilon pays for noise on the L1 norm of the workload; an
    (epsilon, delta) for that or for k-fold composition, whichever is less noise.

    Parameters
    ----------
    queries
        The workload: queries, or marginals by the names of their columns; ``None`` for all pairs of columns.
    aim
        ``"max"``: the same noise on every query, which is least for the worst one.  ``"mean"``: budget is divided
        among the tables of a `Marginals` (or the parts of a `Stack`) to make the mean squared error least.  Laplace
        noise under an (epsilon, delta) is the same on every query for both.
    spend
        The largest loss.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> table = pd.DataFrame(np.random.default_rng(1).random((1000, 3)) < 0.3, columns=["a", "b", "c"])
    >>> schema = sd.Schema({name: sd.Boolean() for name in table})
    >>> curator = sd.Curator(table, schema=schema, budget=sd.ApproxDP(1.0, 1e-6))
    >>> answers = sd.LaplaceAnswers([("a", "b"), ("b", "c")], spend=sd.PureDP(0.5)).release(curator).output
    >>> answers.values.shape, answers.stddev.shape  # the four cells of each of two tables
    ((8,), (8,))
    >>> answers.answer(sd.marginal("b", "c")).shape
    (4,)
    """

    queries: LinearQueries | WorkloadSpec | None = None
    aim: str = "mean"
    spend: Spend = Remaining()

    def __post_init__(self) -> None:
        _check_aim(self.aim)

    def release(
        self,
        curator: Curator,
        *,
        random_state: RandomState = None,  # noqa: ARG002
    ) -> Release[DirectAnswers]:
        """Measure all queries with Laplace noise and return the noisy sums.

        Costs ``spend``, for the curator's neighbours.
        """
        queries, loss = _asked(self.queries, curator), curator.cost(self.spend)
        curator.check(queries)
        account = curator.open_account(loss, currency=ApproxDP)
        return _measured(self, queries, curator, account, loss, law=NoiseLaw.LAPLACE)


@dataclass(frozen=True, slots=True)
class GaussianAnswers(HasPrivacyCost):
    """Answer every query with Gaussian noise of the least sigma, found from the exact privacy curve of the Gaussian.

    Costs ``spend``, an (epsilon, delta), zCDP or Gaussian DP, for the curator's neighbours.  Parameters as in
    `LaplaceAnswers`; the calibration is Balle and Wang's (2018).
    """

    queries: LinearQueries | WorkloadSpec | None = None
    aim: str = "mean"
    spend: Spend = Remaining()

    def __post_init__(self) -> None:
        _check_aim(self.aim)

    def release(
        self,
        curator: Curator,
        *,
        random_state: RandomState = None,  # noqa: ARG002
    ) -> Release[DirectAnswers]:
        """Measure all queries with Gaussian noise and return the noisy sums.

        Costs ``spend``, for the curator's neighbours.

        Raises
        ------
        ParameterError
            If the spend is a pure epsilon, which no Gaussian noise has.
        """
        queries, loss = _asked(self.queries, curator), curator.cost(self.spend)
        if isinstance(loss, PureDP) or (isinstance(loss, ApproxDP) and loss.delta == 0):
            raise ParameterError("Gaussian noise has no pure epsilon: give a delta, or use LaplaceAnswers")
        curator.check(queries)
        return _measured(self, queries, curator, curator.open_account(loss), loss, law=NoiseLaw.GAUSSIAN)


def parts_of(queries: LinearQueries) -> tuple[LinearQueries, ...]:
    """Split a workload into the parts that may have different noise.

    The parts are the tables of `Marginals` and the parts of a `Stack`; other queries stay whole.
    """
    match queries:
        case Marginals():
            return tuple(Marginals(queries.domain, (clique,)) for clique in queries.cliques)
        case Stack():
            return tuple(part for whole in queries.parts for part in parts_of(whole))
    return (queries,)


def best_shares(parts: tuple[LinearQueries, ...], adjacency: Adjacency, *, law: NoiseLaw) -> FloatArray:
    """Return the fraction of a budget for each part of a workload, (parts,), that minimizes the sum of all variances.

    Part i has k_i queries and sensitivity s_i.  With Laplace noise its variances sum to 2 k_i s_i^2 / eps_i^2, least
    for eps_i proportional to (k_i s_i^2)^(1/3); with Gaussian noise to k_i s_i^2 / mu_i^2, least for mu_i^2
    proportional to sqrt(k_i) s_i.
    """
    k = np.array([part.k for part in parts], np.float64)
    norms = [adjacency.sensitivity(part) for part in parts]
    denominators = np.array([part.denominator for part in parts], np.float64)
    if law is NoiseLaw.LAPLACE:
        weights = np.cbrt(k * (np.array([norm.l1 for norm in norms]) / denominators) ** 2)
    else:
        weights = np.sqrt(k) * np.array([norm.l2 for norm in norms]) / denominators
    return np.asarray(weights / weights.sum(), np.float64)


def _measured(
    mechanism: LaplaceAnswers | GaussianAnswers,
    queries: LinearQueries,
    curator: Curator,
    account: Curator,
    loss: PrivacyLoss,
    *,
    law: NoiseLaw,
) -> Release[DirectAnswers]:
    """Measure a workload with the mechanism's aim and return the release; shared by both mechanisms.

    For the aim "mean", the budget is divided over the parts of the workload.  An (epsilon, delta) that pays for Laplace
    noise is not divided: the noise is calibrated over all queries at once.
    """
    parts = parts_of(queries)
    if mechanism.aim == "max" or len(parts) == 1 or (isinstance(account.budget, ApproxDP) and account.budget.delta > 0):
        measurements = [account.measure(counted_apart(queries), law=law, step="workload")]
    else:
        shares = best_shares(parts, account.adjacency, law=law)
        spends = [account.budget.fraction(float(share)) for share in shares]
        measurements = account.measure_each(
            [counted_apart(part) for part in parts], spends=spends, steps=["workload"] * len(parts), law=law
        )
    return Release(
        mechanism=type(mechanism).__name__,
        output=DirectAnswers(queries=queries, measurements=tuple(measurements)),
        loss=loss,
        receipt=curator.receipt(),
        measurements=tuple(measurements),
    )


def _asked(wish: LinearQueries | WorkloadSpec | None, curator: Curator) -> LinearQueries:
    """Return the queries that the user gave or named, and raise errors that would come too late after spending."""
    queries = queries_of(wish, curator.schema)
    check_domain(queries, curator.schema)
    check_saved(queries)
    return queries


def _check_aim(aim: str) -> None:
    """Raise ParameterError unless an aim is one of `AIMS`."""
    check_one_of("aim", aim, AIMS)
