"""Answer queries as they come: guess from public knowledge, and pay only where the guess is found wrong.

The session of every iterative database construction on listed cells: `private_multiplicative_weights`, `median_mechanism`
and guesses that a user gives to `InteractiveMechanism` (Gupta, Roth, Ullman 2012).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from synthdp.arrays import Codes, FloatArray
from synthdp.checks import check_number, check_share, check_whole
from synthdp.curator import Curator
from synthdp.domain.domain import Domain, check_size, universe
from synthdp.errors import ParameterError
from synthdp.mechanisms.cell_model import CellModel
from synthdp.mechanisms.iterative import IterativeConstruction, interact
from synthdp.mechanisms.protocol import HasPrivacyCost, left_out, part_of
from synthdp.mechanisms.workload import WorkloadSpec, domain_named, marginals_on
from synthdp.privacy.above_threshold import AboveThresholdPlan, plan_watch
from synthdp.privacy.loss import ApproxDP, PrivacyLoss, PureDP, Remaining, Spend
from synthdp.queries.composed import FittingRows, Subset
from synthdp.queries.linear import Total
from synthdp.queries.marginals import Marginals, all_cliques
from synthdp.queries.protocol import LinearQueries
from synthdp.queries.supports import DENOMINATOR
from synthdp.release import Release
from synthdp.schema.schema import Schema
from synthdp.works.net.listed_cells import FittingTotal, fitting_total

if TYPE_CHECKING:
    from synthdp.curator import SparseVector


class CellConstruction(IterativeConstruction[LinearQueries], Protocol):
    """A hypothesis about a table of listed cells, which can be released as weights on them."""

    def weights(self) -> FloatArray:
        """Return the weight of each cell, (m,), not negative and not all 0."""
        ...


class OnlineMechanism(Protocol):
    """The settings that a mechanism with such a session has, whatever it knows; see `PrivateMultiplicativeWeights`.

    Costs ``spend`` when it is opened, for the curator's neighbours.
    """

    @property
    def threshold(self) -> float | None:
        """How far off a guess may be, in rows."""
        ...

    @property
    def queries(self) -> int:
        """About how many queries will be asked."""
        ...

    @property
    def total_share(self) -> float:
        """Share of the spend for the number of rows."""
        ...

    @property
    def alarm_share(self) -> float:
        """Return the share of the rest of the budget that finds wrong guesses."""
        ...

    @property
    def spend(self) -> Spend:
        """What a session may cost."""
        ...


@dataclass(frozen=True, slots=True)
class OnlineAnswer:
    """The answer to one query of a session.

    Parameters
    ----------
    value
        The sum over rows; where values do not fit the schema, as if they were spread like values that fit.
    learned
        Whether the guess was found wrong, so that this is a noisy answer.
    checked
        Whether the guess was compared with the table at all: after the last above-threshold answer it no longer is.
    """

    value: float
    learned: bool
    checked: bool

    def __float__(self) -> float:
        return self.value


@dataclass(slots=True, repr=False)
class OnlineSession:
    """An open watch and what was learned in it; made by the mechanism's ``open``.

    Costs what was charged when it was opened, however many queries are asked.  Several threads may ask it, in
    the process that opened it: they are answered one after the other.

    Parameters
    ----------
    mechanism
        Name of the mechanism.
    curator
        Whose receipt the release carries.
    loss
        What the session cost.
    domain
        The columns that queries are about.
    total
        Number of rows, public or estimated, and how many of them fit the schema.
    watch
        What finds wrong guesses among the rows that fit.
    construction
        What is known of them.
    cells
        (m, d) the cells that it knows.
    """

    mechanism: str
    curator: Curator
    loss: PrivacyLoss
    domain: Domain
    total: FittingTotal
    watch: SparseVector
    construction: CellConstruction
    cells: Codes
    asked: int = field(default=0)

    def __repr__(self) -> str:
        return f"OnlineSession({self.mechanism}, {self.asked} queries, {self.watch.alarms} alarms)"

    @property
    def exhausted(self) -> bool:
        """Whether all above-threshold answers were given: answers are then guesses."""
        return self.watch.exhausted

    def ask(self, queries: LinearQueries | WorkloadSpec) -> list[OnlineAnswer]:
        """Answer the queries of a family, or the cells of marginals by the names of their columns, one after the other.

        Paid for when the session was opened.

        Raises
        ------
        ParameterError
            If a query is about other columns, or takes values outside [0, 1].
        PrivacyError
            In a forked process.
        """
        if not isinstance(queries, LinearQueries):
            queries = marginals_on(queries, part_of(self.curator.schema, self.domain.names), self.domain)
        if queries.domain.names != self.domain.names or queries.domain.shape != self.domain.shape:
            raise ParameterError("queries must have the same columns and cells as the session")
        with self.watch.turn():
            return [self._ask(Subset(queries, np.array([i]))) for i in range(queries.k)]

    def close(self) -> Release[CellModel]:
        """Return a release of what is known now. Paid for when the session was opened."""
        with self.watch.turn():
            weights = np.asarray(self.construction.weights(), np.float64)
        model = CellModel.of(
            self.curator.schema, self.domain, self.cells, weights / weights.sum(), total=float(self.total.rows)
        )
        receipt = self.curator.receipt(notes=(*self.total.notes, *model.model.notes))
        measured = self.total.measurements
        return Release(mechanism=self.mechanism, output=model, loss=self.loss, receipt=receipt, measurements=measured)

    def _ask(self, query: LinearQueries) -> OnlineAnswer:
        """Return the answer to one query: the construction's guess, or a measurement where the guess is far off."""
        self.asked += 1
        step, each = interact(self.construction, self.watch, query, asked=FittingRows(query)), self.total.each
        value = step.guess if step.found is None else step.found.count
        return OnlineAnswer(value * each, learned=step.found is not None, checked=step.checked)


def listed_columns(domain: Domain | WorkloadSpec | None, schema: Schema) -> Schema:
    """Return the columns of a session's cells, or refuse cells that cannot be listed.

    Raises
    ------
    ParameterError
        If the columns are not the schema's, or their cells are too many.
    """
    cells = domain_named(domain, schema)
    check_size(cells)
    return part_of(schema, cells.names)


def released(
    curator: Curator,
    *,
    domain: Domain | WorkloadSpec | None,
    workload: WorkloadSpec | None,
    open_: Callable[[Curator], OnlineSession],
) -> Release[CellModel]:
    """Ask all cells of a workload of one session, and return what it knows in the end.

    Costs what opening the session costs, for the curator's neighbours.

    Parameters
    ----------
    curator
        Whom to ask.
    domain
        The session's columns.
    workload
        Marginals by the names of their columns; default: all pairs of the domain's.
    open_
        Opens the session.
    """
    cells = domain_named(domain, curator.schema)
    output = listed_columns(cells, curator.schema)
    whole = Marginals(cells, all_cliques(cells, min(2, len(cells))))
    queries = whole if workload is None else marginals_on(workload, output, cells)
    session = open_(curator)
    session.ask(queries)
    made = session.close()
    return replace(made, receipt=made.receipt.noted(*left_out(curator.schema, output)))


def check_guesses(threshold: float | None, queries: int) -> None:
    """Refuse a threshold or a number of queries that is none."""
    if threshold is not None:
        check_number("threshold", threshold)
    check_whole("queries", queries)


def guarded_threshold(plan: AboveThresholdPlan, gap: float, *, queries: int, beta: float) -> float:
    """Return the threshold, in rows, above which no guess is taken by noise alone.

    An above-threshold answer needs |q - guess| + noise >= threshold + the level's noise, which is never negative;
    with probability 1 - beta none of the queries' noises exceeds b ln(queries / beta), and then |q - guess| >= ``gap``.
    """
    return gap + plan.query_scale * math.log(queries / beta) / DENOMINATOR


class OnlineBound(NamedTuple):
    """An error that a session keeps, and the settings that it holds for."""

    error: float
    """In rows; all answers are within it with probability 1 - beta."""
    max_updates: int
    threshold: float
    """In rows."""


def open_session(
    mechanism: OnlineMechanism,
    curator: Curator,
    *,
    domain: Domain,
    updates: int,
    construction: Callable[[Codes, int], CellConstruction],
    alpha: float | None = None,
) -> OnlineSession:
    """Count the rows, open a watch and return a session that knows nothing yet of the table but their number.

    Costs the mechanism's ``spend``, for the curator's neighbours; asking costs nothing more.

    Parameters
    ----------
    mechanism
        The settings.
    curator
        Whom to ask.
    domain
        The columns that queries are about.
    updates
        How many wrong guesses can be found.
    construction
        Makes what is known of a table with a number of rows in these cells.
    alpha
        How far off a guess may be, as a fraction of the rows, where the mechanism has no ``threshold``.
    """
    cells = universe(domain)
    loss = curator.cost(mechanism.spend)
    curator.check(Total(domain))
    part_of(curator.schema, domain.names)  # refuses rules that contradict each other
    account = curator.open_account(loss, currency=ApproxDP)
    total = fitting_total(account, domain, share=mechanism.total_share)
    watch = account.watch(
        domain.names,
        max_alarms=updates,
        spend=total.rest,
        alarm_share=mechanism.alarm_share,
        threshold=mechanism.threshold if alpha is None else alpha * total.fitting,
        queries=mechanism.queries,
    )
    return OnlineSession(
        mechanism=type(mechanism).__name__,
        curator=curator,
        loss=loss,
        domain=domain,
        total=total,
        watch=watch,
        construction=construction(cells, total.fitting),
        cells=cells,
    )


def online_bound(
    alarms: Callable[[float], int], *, queries: int, rows: int, epsilon: float, beta: float, alarm_share: float = 0.8
) -> OnlineBound:
    """Return the least error that a session of a pure epsilon keeps on all queries with probability 1 - beta.

    For replaced rows.  If at most ``alarms(g)`` guesses can be off by g rows or more, or all k of them, a watch of so
    many above-threshold answers is never exhausted: silent answers are then off by at most the threshold plus the
    level's noise, and noisy ones by their own.  The error is minimised over g on a grid of 200 values, those where the
    noisy answers lie within g / 2, as the count of above-threshold answers may suppose.
    """
    if not (epsilon > 0 and 0 < beta < 1 and queries >= 1 and rows >= 1):
        raise ParameterError(
            "epsilon must be above 0, beta must lie between 0 and 1, and queries and rows must be at least 1"
        )
    best = OnlineBound(math.inf, queries, math.inf)
    for gap in np.geomspace(1e-3, 1.0, 200) * rows:
        count = min(alarms(float(gap)), queries)
        plan = plan_watch(PureDP(epsilon), max_alarms=count, alarm_share=alarm_share)
        noisy = plan.answer.noise.scale * math.log(3 * count / beta) / (plan.answer.resolution * DENOMINATOR)
        threshold = guarded_threshold(plan, float(gap), queries=queries, beta=beta / 3)
        error = max(noisy, plan.silence_bound(threshold, beta=beta / 3))
        if noisy <= gap / 2 and error < best.error:
            best = OnlineBound(error, count, threshold)
    return best


MOST_UPDATES = 1_000_000
"""Most updates that a session is opened for.  A safety limit."""


@dataclass(frozen=True, slots=True)
class InteractiveMechanism(HasPrivacyCost):
    """Answer linear queries as they come, from a hypothesis of the user's own that learns from every wrong guess.

    Gupta, Roth, Ullman 2012; Blum, Roth 2011, section 3.  Privacy does not depend on the construction, which sees noisy
    answers alone; only how many updates it needs, and so the accuracy, does.

    Costs ``spend`` when it is opened, for the curator's neighbours, however many queries are asked.

    Parameters
    ----------
    construction
        From the cells, (m, d), and a number of rows to an `IterativeConstruction` whose ``weights()`` are on these cells.
    domain
        Columns and cells, or the columns by name, or ``None`` for all columns; all cells are listed.
    alpha
        How far off a guess may be, as a fraction of the rows; the number of updates is then B(alpha), unless given.
    max_updates
        c, how many wrong guesses can be found.
    queries, total_share, alarm_share
        As in `PrivateMultiplicativeWeights`.
    spend
        What a session may cost.

    Raises
    ------
    ParameterError
        If neither ``alpha`` nor ``max_updates`` is given, or the construction promises no number of updates.
    """

    construction: Callable[[Codes, int], CellConstruction]
    domain: Domain | WorkloadSpec | None = None
    alpha: float | None = None
    max_updates: int | None = None
    queries: int = 1000
    total_share: float = 0.05
    alarm_share: float = 0.8
    spend: Spend = Remaining()

    def __post_init__(self) -> None:
        check_share("total_share", self.total_share)
        check_share("alarm_share", self.alarm_share)
        check_guesses(None, self.queries)
        if self.alpha is None and self.max_updates is None:
            raise ParameterError("alpha and max_updates are both missing: give one of the two")
        if self.alpha is not None:
            check_number("alpha", self.alpha, above=0, most=1)
        if self.max_updates is not None:
            check_whole("max_updates", self.max_updates)
        if isinstance(self.domain, Domain):
            check_size(self.domain)

    @property
    def threshold(self) -> float | None:
        """Of the watch: ``alpha`` of the rows, whose number is not known yet."""
        return None

    def open(self, curator: Curator) -> OnlineSession:
        """Open a session.

        Costs ``spend``, for the curator's neighbours; asking costs nothing more.
        """
        domain = domain_named(self.domain, curator.schema)
        return open_session(
            self,
            curator,
            domain=domain,
            updates=self.max_updates or self._bound(domain),
            construction=self.construction,
            alpha=self.alpha,
        )

    def _bound(self, domain: Domain) -> int:
        """Return B(alpha) of a construction that knows nothing yet, which does not depend on the number of rows."""
        bound = self.construction(universe(domain), 1).update_bound(self.alpha or 1.0)
        if not bound <= MOST_UPDATES:
            raise ParameterError(
                f"alpha ({self.alpha}) needs {bound} updates, and at most {MOST_UPDATES} are supported: give a "
                "larger alpha, or max_updates"
            )
        return max(1, math.floor(bound))
