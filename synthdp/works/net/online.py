"""Answer queries as they come: a public hypothesis guesses each answer, and noisy answers replace wrong guesses.

The session serves every iterative database construction on listed cells (Gupta, Roth, Ullman 2012):
both mechanisms of `online_mechanisms`, and constructions that a user gives to `InteractiveMechanism`.
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
from synthdp.mechanisms.mechanism import HasPrivacyCost, left_out, part_of
from synthdp.mechanisms.workload import WorkloadSpec, domain_named, marginals_on
from synthdp.privacy.above_threshold import AboveThresholdPlan, plan_watch
from synthdp.privacy.loss import ApproxDP, PrivacyLoss, PureDP, Remaining, Spend
from synthdp.queries.linear import FittingRows, Subset, Total
from synthdp.queries.marginals import Marginals, all_cliques
from synthdp.queries.protocol import LinearQueries
from synthdp.queries.supports import DENOMINATOR
from synthdp.release import Release
from synthdp.schema.schema import Schema
from synthdp.works.net.listed_cells import FittingTotal, fitting_total

if TYPE_CHECKING:
    from synthdp.curator import SparseVector


class CellConstruction(IterativeConstruction[LinearQueries], Protocol):
    """A public hypothesis about a table as weights on listed cells, which a session improves and can release."""

    def weights(self) -> FloatArray:
        """Return the weight of each cell, (m,), not negative and not all 0."""
        ...


class OnlineMechanism(Protocol):
    """The settings that every mechanism with an online session has, whatever its construction.

    `PrivateMultiplicativeWeights` documents them. Costs ``spend`` when a session is opened, for the curator's
    neighbours.
    """

    @property
    def threshold(self) -> float | None:
        """Return how far off a guess may be, in rows, before a noisy answer replaces it; ``None`` for a default."""
        ...

    @property
    def queries(self) -> int:
        """Return about how many queries will be asked; the default threshold depends on it."""
        ...

    @property
    def total_share(self) -> float:
        """Return the share of the spend that estimates the number of rows."""
        ...

    @property
    def alarm_share(self) -> float:
        """Return the share of the rest of the budget that finds wrong guesses."""
        ...

    @property
    def spend(self) -> Spend:
        """Return the privacy loss that a session may cost."""
        ...


@dataclass(frozen=True, slots=True)
class OnlineAnswer:
    """The answer to one query of a session.

    Parameters
    ----------
    value
        The sum over rows. Rows with out-of-domain values are assumed to be distributed like the others.
    learned
        Whether the guess was found wrong, so that ``value`` is a noisy answer.
    checked
        Whether the guess was compared with the table. After the last above-threshold answer no guess is.
    """

    value: float
    learned: bool
    checked: bool

    def __float__(self) -> float:
        return self.value


@dataclass(slots=True, repr=False)
class OnlineSession:
    """An open sparse-vector session and the hypothesis that its answers improve; the mechanism's ``open`` makes it.

    Its cost was charged when it was opened, however many queries are asked. Several threads may ask it, in the process
    that opened it; their queries are answered one after the other.

    Parameters
    ----------
    mechanism
        Name of the mechanism.
    curator
        The curator whose receipt the release carries.
    loss
        The session's cost.
    domain
        The columns and cells that queries are about.
    total
        Number of rows, public or estimated, and of in-domain rows.
    watch
        The sparse vector that finds wrong guesses, among in-domain rows.
    construction
        The public hypothesis about the in-domain rows.
    cells
        (m, d) the cells of the hypothesis.
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
        """Return whether all above-threshold answers are used up: answers are then unchecked guesses."""
        return self.watch.exhausted

    def ask(self, queries: LinearQueries | WorkloadSpec) -> list[OnlineAnswer]:
        """Answer the queries of a family in order; or the cells of marginals, given by the names of their columns.

        Costs nothing more: opening the session paid for all queries.

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
        """Return a release of the present hypothesis as weights on cells. Costs nothing more."""
        with self.watch.turn():
            weights = np.asarray(self.construction.weights(), np.float64)
        model = CellModel.of(
            self.curator.schema, self.domain, self.cells, weights / weights.sum(), total=float(self.total.rows)
        )
        receipt = self.curator.receipt(notes=(*self.total.notes, *model.model.notes))
        measured = self.total.measurements
        return Release(mechanism=self.mechanism, output=model, loss=self.loss, receipt=receipt, measurements=measured)

    def _ask(self, query: LinearQueries) -> OnlineAnswer:
        """Return the answer to one query, scaled up to all rows: the guess, or a noisy answer to a wrong guess."""
        self.asked += 1
        step, each = interact(self.construction, self.watch, query, asked=FittingRows(query)), self.total.each
        value = step.guess if step.found is None else step.found.count
        return OnlineAnswer(value * each, learned=step.found is not None, checked=step.checked)


def listed_columns(domain: Domain | WorkloadSpec | None, schema: Schema) -> Schema:
    """Return the schema of a session's columns; raise an error if their cells cannot be listed.

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
    """Open a session, ask it all cells of a workload in order, and return its final weights as a release.

    So an online mechanism runs like a mechanism that releases a table. Costs what opening the session costs, for the
    curator's neighbours.

    Parameters
    ----------
    curator
        The curator that holds the table.
    domain
        The session's columns.
    workload
        Marginals by the names of their columns; default: all pairs of the domain's.
    open_
        The function that opens the session.
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
    """Raise ParameterError unless the threshold is a number or ``None``, and ``queries`` a positive whole number."""
    if threshold is not None:
        check_number("threshold", threshold)
    check_whole("queries", queries)


def guarded_threshold(plan: AboveThresholdPlan, gap: float, *, queries: int, beta: float) -> float:
    """Return a threshold, in rows, at which guesses off by less than ``gap`` raise an alarm with probability <= beta.

    So updates are spent on wrong guesses only; beta is for all ``queries`` guesses together. A guess raises an alarm if
    |q - guess| + noise >= threshold + the level's noise, which is never negative. With probability 1 - beta no query's
    noise exceeds b ln(queries / beta), with b the noise's scale.
    """
    return gap + plan.query_scale * math.log(queries / beta) / DENOMINATOR


class OnlineBound(NamedTuple):
    """A proven error bound of a session, and the settings that achieve it."""

    error: float
    """The error in rows; all answers are within it with probability 1 - beta."""
    max_updates: int
    threshold: float
    """The threshold in rows."""


def open_session(
    mechanism: OnlineMechanism,
    curator: Curator,
    *,
    domain: Domain,
    updates: int,
    construction: Callable[[Codes, int], CellConstruction],
    alpha: float | None = None,
) -> OnlineSession:
    """Count the rows, open a sparse vector, and return a session whose hypothesis has seen no answer yet.

    Costs the mechanism's ``spend``, for the curator's neighbours; asking costs nothing more.

    Parameters
    ----------
    mechanism
        The mechanism's settings.
    curator
        The curator that holds the table.
    domain
        The columns and cells that queries are about.
    updates
        Largest number of wrong guesses that the session can find.
    construction
        From the cells, (m, d), and the number of in-domain rows to the first hypothesis.
    alpha
        Largest error of a guess, as a fraction of the in-domain rows, where the mechanism has no ``threshold``.
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
    """Return the least proven error, in rows, of a session on all queries, with the settings that achieve it.

    The bound is for a pure epsilon and replaced rows, and holds with probability 1 - beta.  It may be infinite.  For
    each g on a grid of 200 values, at most ``alarms(g)`` guesses are off by g rows or more.  A session with that many
    above-threshold answers (at most ``queries``) is never exhausted.  A query without a noisy answer then has an error
    of at most the threshold plus the threshold's own noise.  Noisy answers have the error of their own noise.  The
    error is the larger of both, and the least over all g is returned.  A value of g counts only if noisy answers lie
    within g / 2, as ``alarms`` assumes.  ``alarm_share`` is the share of epsilon for finding wrong guesses; the rest is
    for noisy answers.
    """
    if not (epsilon > 0 and 0 < beta < 1 and queries >= 1 and rows >= 1):
        raise ParameterError(
            "epsilon must be above 0, beta must lie between 0 and 1, and queries and rows must be at least 1"
        )
    best = OnlineBound(math.inf, queries, math.inf)
    # three events may fail, with probability beta / 3 each: an alarm at a close guess, a large noise of an answer, silence
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
"""Most updates that `InteractiveMechanism` derives from ``alpha``; a session pays for each of them. With more, the
noise of each answer would exceed any useful threshold. A safety limit."""


@dataclass(frozen=True, slots=True)
class InteractiveMechanism(HasPrivacyCost):
    """Answer linear queries as they come, from a hypothesis of the user's own that learns from every wrong guess.

    Privacy does not depend on the user's construction, since the construction sees noisy answers only (Gupta, Roth,
    Ullman 2012; Blum, Roth 2011, section 3). The construction decides how many updates are needed, and so the accuracy.

    Costs ``spend`` when a session is opened, for the curator's neighbours, however many queries are asked.

    Parameters
    ----------
    construction
        A function of the cells, (m, d), and a number of rows. It returns an `IterativeConstruction` with ``weights()``
        on these cells.
    domain
        Columns and cells, or the columns by name, or ``None`` for all columns; all cells are listed.
    alpha
        Largest error of a guess, as a fraction of the rows. It sets ``max_updates`` to B(alpha), unless that is given.
    max_updates
        c, how many wrong guesses can be found.
    queries
        About how many queries will be asked; sets the default threshold where ``alpha`` is not given.
    total_share
        Share of the spend for the number of rows, where it is private.
    alarm_share
        Share of the rest of the spend for finding wrong guesses.
    spend
        Privacy loss that a session may cost.

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
        """Return ``None``: ``alpha`` sets the threshold as a fraction of the rows, once their number is estimated.

        Without ``alpha`` it is the default threshold for ``queries``.
        """
        return None

    def open(self, curator: Curator) -> OnlineSession:
        """Open a session and return it.

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
        """Return B(alpha), the most updates of a fresh construction on wrong guesses, at least 1; needs ``alpha``.

        The construction is made for one row, since B(alpha) does not depend on the number of rows. Raise ParameterError
        for more than `MOST_UPDATES`.
        """
        bound = self.construction(universe(domain), 1).update_bound(
            self.alpha or 1.0
        )  # `open` calls it with alpha only
        if not bound <= MOST_UPDATES:
            raise ParameterError(
                f"alpha ({self.alpha}) needs {bound} updates, and at most {MOST_UPDATES} are supported: give a "
                "larger alpha, or max_updates"
            )
        return max(1, math.floor(bound))
