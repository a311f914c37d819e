"""The online mechanisms over all cells: private multiplicative weights, and the median mechanism.

Private multiplicative weights (Hardt, Rothblum 2010) answer queries from weights on the whole universe.  The median
mechanism (Roth, Roughgarden 2010) is run as far as it can be: on all small tables of an enumerable domain.  It is
experimental and for teaching: its state is the list of all multisets of some size that no answer has ruled out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import Codes, FloatArray
from synthdp.checks import check_share, check_whole
from synthdp.curator import Curator
from synthdp.domain.domain import Domain, check_size, universe_size
from synthdp.errors import ParameterError
from synthdp.mechanisms.cell_model import CellModel
from synthdp.mechanisms.mechanism import HasPrivacyCost
from synthdp.mechanisms.preflight import salvaged
from synthdp.mechanisms.workload import WorkloadSpec, domain_named
from synthdp.privacy.loss import Remaining, Spend
from synthdp.queries.protocol import LinearQueries
from synthdp.randomness import RandomState
from synthdp.release import Release
from synthdp.schema.schema import Schema
from synthdp.works.net.listed_cells import CellFit
from synthdp.works.net.net import check_candidates, multiset_count, multisets
from synthdp.works.net.online import (
    OnlineBound,
    OnlineSession,
    check_guesses,
    listed_columns,
    online_bound,
    open_session,
    released,
)


@dataclass(frozen=True, slots=True)
class PrivateMultiplicativeWeights(HasPrivacyCost):
    """Answers linear queries as they arrive, from weights on all cells that are updated after every wrong guess.

    Costs ``spend`` when a session is opened, for the curator's neighbours, however many queries are asked.

    Parameters
    ----------
    domain
        Columns and cells, or the columns by name, or ``None`` for all columns; all cells are listed.
    max_updates
        c, number of wrong guesses that can be found.
    threshold
        Largest error of a guess without a noisy answer, in rows; default: the least value that noise alone seldom
        exceeds.
    queries
        Approximate number of queries that will be asked; sets the default threshold.
    replay
        Evaluations of the L1 fit to all noisy answers, after each noisy answer; 0 for the paper's single update.
    total_share
        Share of the spend for the number of rows, if it is private.
    alarm_share
        Share of the rest of the spend for finding wrong guesses.
    spend
        Privacy loss that a session may cost.
    workload
        The marginals that `release` asks for, by the names of their columns; default: all pairs of the domain's.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> table = pd.DataFrame(np.random.default_rng(1).random((1000, 3)) < 0.3, columns=["a", "b", "c"])
    >>> schema = sd.Schema({name: sd.Boolean() for name in table})
    >>> curator = sd.Curator(table, schema=schema, budget=sd.ApproxDP(1.0, 1e-6))
    >>> session = sd.PrivateMultiplicativeWeights(max_updates=3).open(curator)
    >>> len(session.ask([("a", "b"), ("b", "c")]))  # the four cells of each of two tables
    8
    """

    domain: Domain | WorkloadSpec | None = None
    max_updates: int = 80
    threshold: float | None = None
    queries: int = 1000
    replay: int = 200
    total_share: float = 0.05
    alarm_share: float = 0.8
    spend: Spend = Remaining()
    workload: WorkloadSpec | None = None

    def __post_init__(self) -> None:
        check_share("total_share", self.total_share)
        check_share("alarm_share", self.alarm_share)
        check_guesses(self.threshold, self.queries)
        check_updates(self.max_updates)
        check_whole("replay", self.replay, least=0)
        if isinstance(self.domain, Domain):
            check_size(self.domain)

    def output_schema(self, schema: Schema) -> Schema:
        """Return the schema of the domain's columns, which are the columns of the released table.

        Raises
        ------
        ParameterError
            If the columns are not the schema's, or their cells are too many to list.
        """
        return listed_columns(self.domain, schema)

    @salvaged()
    def release(self, curator: Curator, *, random_state: RandomState = None) -> Release[CellModel]:  # noqa: ARG002
        """Open a session, ask it the workload, and return its final weights as a release.

        Costs ``spend``, for the curator's neighbours.
        """
        return released(curator, domain=self.domain, workload=self.workload, open_=self.open)

    def open(self, curator: Curator) -> OnlineSession:
        """Open a session and return it.

        Costs ``spend``, for the curator's neighbours; asking costs nothing more.
        """
        return open_session(
            self,
            curator,
            domain=domain_named(self.domain, curator.schema),
            updates=self.max_updates,
            construction=lambda cells, rows: MultiplicativeWeightsConstruction(cells, rows, replay=self.replay),
        )


class MultiplicativeWeightsConstruction:
    """A hypothesis as weights on all cells, multiplied or refitted at every update; see `IterativeConstruction`.

    Parameters
    ----------
    cells
        (m, d) codes of all cells of the domain.
    rows
        Number of rows.
    replay
        Evaluations of the L1 fit after each answer; 0 for the paper's single update, which `update_bound` is for.
    """

    def __init__(self, cells: Codes, rows: int, *, replay: int = 0) -> None:
        self._cells, self._fit = cells, CellFit(cells, rows, replay=replay)

    def guess(self, query: LinearQueries) -> float:
        """Return the query's sum over rows that the weights predict."""
        return float(self._fit.expected(query)[0])

    def check(self, query: LinearQueries) -> None:
        """Accept any query: the weights cover all cells."""

    def update(self, query: LinearQueries, answer: float, *, stddev: float) -> None:
        """Multiply the weights by exp(q(x) (answer - guess) / 2n); with ``replay``, refit them to all answers so far."""
        self._fit.add(query, np.array([answer]), stddev)

    def update_bound(self, alpha: float) -> float:
        """Return B(alpha) = (128 / 31) ln|X| / alpha^2, the most updates on wrong guesses; see `update_limit`."""
        return update_limit(len(self._cells), alpha=alpha)

    def weights(self) -> FloatArray:
        """Return the weight of each cell, (cells,), with sum 1: the hypothesis after all updates so far."""
        return self._fit.weights


def check_updates(max_updates: int) -> None:
    """Raise ParameterError unless the number of updates is a whole number of at least 1."""
    check_whole("max_updates", max_updates)


def update_limit(cells: int, *, alpha: float) -> int:
    """Return a bound on the number of the paper's updates on averages that are off by ``alpha`` or more.

    Let the average be off by d >= alpha, and let z be the answer's noise, with |z| <= d / 2. The step is (d + z) / 2.
    By Hoeffding's lemma the relative entropy of the truth falls by at least (d + z) d / 2 - (d + z)^2 / 32 >= 31 d^2 /
    128. It is at most ln|X| at the start, so c <= (128 / 31) ln|X| / alpha^2 (the argument of Hardt, Rothblum 2010).
    """
    if cells < 1 or not 0 < alpha <= 1:
        raise ParameterError("cells must be at least 1, and alpha must be above 0 and at most 1")
    return math.ceil(128 / 31 * math.log(cells) / alpha**2)


def pmw_bound(queries: int, *, cells: int, rows: int, epsilon: float, beta: float) -> OnlineBound:
    """Return the error in rows that all answers stay within with probability 1 - beta, and the settings for it.

    The bound is `online_bound` with `update_limit`, for a pure epsilon, replaced rows and the paper's update
    (``replay`` = 0). It grows as n (ln|X| ln(k) / (n epsilon))^(1/3), with the constants of the sparse vector used
    here.
    """
    return online_bound(
        lambda gap: update_limit(cells, alpha=min(1.0, gap / rows)),
        queries=queries,
        rows=rows,
        epsilon=epsilon,
        beta=beta,
    )


@dataclass(frozen=True, slots=True)
class MedianMechanism(HasPrivacyCost):
    """Answers each query with the median over all small tables that are consistent so far; wrong guesses rule out half.

    Costs ``spend`` when a session is opened, for the curator's neighbours, however many queries are asked.

    Parameters
    ----------
    domain
        A few cells, or the columns that make them by name, or ``None`` for all columns.
    size
        m, rows of the small tables; at most `MAX_CANDIDATES` such tables (multisets of cells) are listed.
    max_updates
        c, number of wrong guesses that can be found; default: log2 of the number of multisets, after which one is left.
    threshold
        Largest error of a guess without a noisy answer, in rows; default: the least value that noise alone seldom
        exceeds.
    queries
        Approximate number of queries that will be asked; sets the default threshold.
    total_share
        Share of the spend for the number of rows, if it is private.
    alarm_share
        Share of the rest of the spend for finding wrong guesses.
    spend
        Privacy loss that a session may cost.
    workload
        The marginals that `release` asks for, by the names of their columns; default: all pairs of the domain's.
    """

    domain: Domain | WorkloadSpec | None = None
    size: int = 8
    max_updates: int | None = None
    threshold: float | None = None
    queries: int = 1000
    total_share: float = 0.05
    alarm_share: float = 0.8
    spend: Spend = Remaining()
    workload: WorkloadSpec | None = None

    def __post_init__(self) -> None:
        check_whole("size", self.size)
        check_share("total_share", self.total_share)
        check_share("alarm_share", self.alarm_share)
        check_guesses(self.threshold, self.queries)
        if self.max_updates is not None:
            check_updates(self.max_updates)
        if isinstance(self.domain, Domain):
            check_candidates(universe_size(self.domain), self.size)

    def output_schema(self, schema: Schema) -> Schema:
        """Return the schema of the domain's columns, which are the columns of the released table.

        Raises
        ------
        ParameterError
            If the columns are not the schema's, or their cells or the small tables are too many to list.
        """
        check_candidates(universe_size(domain_named(self.domain, schema)), self.size)
        return listed_columns(self.domain, schema)

    @salvaged()
    def release(self, curator: Curator, *, random_state: RandomState = None) -> Release[CellModel]:  # noqa: ARG002
        """Open a session, ask it the workload, and return its final weights as a release.

        Costs ``spend``, for the curator's neighbours.
        """
        return released(curator, domain=self.domain, workload=self.workload, open_=self.open)

    def open(self, curator: Curator) -> OnlineSession:
        """Open a session and return it.

        Costs ``spend``, for the curator's neighbours; asking costs nothing more.
        """
        domain = domain_named(self.domain, curator.schema)
        check_candidates(universe_size(domain), self.size)
        return open_session(
            self,
            curator,
            domain=domain,
            updates=self.max_updates or halvings(universe_size(domain), self.size),
            construction=lambda cells, rows: MedianConstruction(cells, rows, size=self.size, queries=self.queries),
        )


class MedianConstruction:
    """A hypothesis as a list of all multisets of some size that no answer has ruled out; see `IterativeConstruction`.

    Parameters
    ----------
    cells
        (m, d) codes of all cells of the domain.
    rows
        Number n of rows, which answers are scaled to.
    size
        Rows of a multiset.
    queries
        k, how many queries some multiset must answer well; `update_bound` is for this number.
    """

    def __init__(self, cells: Codes, rows: int, *, size: int, queries: int) -> None:
        self._cells, self._rows, self._size, self._queries = cells, rows, size, queries
        self._candidates = multisets(len(cells), size)

    def guess(self, query: LinearQueries) -> float:
        """Return the median of the multisets' answers, each scaled to n rows."""
        return float(np.median(self._sums(query)))

    def check(self, query: LinearQueries) -> None:
        """Accept any query: the list of multisets has room for every one."""

    def update(self, query: LinearQueries, answer: float, *, stddev: float) -> None:  # noqa: ARG002
        """Keep the candidates on the answer's side of the median: at most half of them, as the update bound assumes.

        If there are none on that side, those nearest to the answer are kept, which may be most of them.
        """
        sums = self._sums(query)
        middle = np.median(sums)
        kept = sums > middle if answer > middle else sums < middle
        if not kept.any():  # the answer lies beyond all of them: keep the nearest
            kept = np.abs(sums - answer) == np.abs(sums - answer).min()
        self._candidates = self._candidates[kept]

    def update_bound(self, alpha: float) -> float:
        """Return B(alpha), the most updates on guesses off by more than ``alpha``, a fraction of the rows.

        The bound is `halvings` where some multiset surely is within alpha on all queries, else infinity.
        """
        near = alpha > net_distance(self._queries, size=self._size)
        return halvings(len(self._cells), self._size) if near else math.inf

    def weights(self) -> FloatArray:
        """Return the weight of each cell, (cells,): its mean count in the multisets that no answer has ruled out."""
        return np.asarray(self._candidates.mean(axis=0), np.float64)

    def _sums(self, query: LinearQueries) -> np.ndarray:
        """Return a query's sum on every candidate table, (candidates,), scaled to n rows; their median is the guess."""
        values = query.features(self._cells)[:, 0] * (self._rows / query.denominator)
        return np.asarray(self._candidates @ values / self._candidates[0].sum(), np.float64)


def halvings(cells: int, size: int) -> int:
    """Return the ceiling of log2 of the number of multisets, at least 1: the halvings until one is left."""
    return max(1, (multiset_count(cells, size) - 1).bit_length())


def net_distance(queries: int, *, size: int) -> float:
    """Return sqrt(ln(2k) / (2m)), the distance of the net: some multiset of m rows answers k averages within it.

    The queries have values in [0, 1].
    """
    return math.sqrt(math.log(2 * queries) / (2 * size))


def median_bound(queries: int, *, cells: int, size: int, rows: int, epsilon: float, beta: float) -> OnlineBound:
    """Return the error in rows that all answers stay within with probability 1 - beta, and the settings for it.

    The bound is for a pure epsilon, replaced rows (n of them) and k queries with values in [0, 1]; m is ``size``. Some
    multiset is within a = n sqrt(ln(2k) / (2m)) of the truth on all queries. An update on a guess that is off by more
    than a never rules that multiset out, if its answer is on the right side. Such an update halves the others, so there
    are at most `halvings` of them.
    """
    distance = rows * net_distance(queries, size=size)
    count = halvings(cells, size)
    return online_bound(
        lambda gap: count if gap > distance else queries,
        queries=queries,
        rows=rows,
        epsilon=epsilon,
        beta=beta,
    )
