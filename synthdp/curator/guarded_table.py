"""One private table, shared by a curator and all its accounts; one process asks it one question at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

from synthdp.arrays import IntArray
from synthdp.curator.ledger import Ledger
from synthdp.curator.private_table import PrivateTable
from synthdp.errors import PrivacyError
from synthdp.measurements import Measurements, NoiseLaw
from synthdp.privacy.budget import Account
from synthdp.privacy.calibration import Calibration, calibrate
from synthdp.privacy.loss import PrivacyLoss, components
from synthdp.privacy.neighbors import Adjacency
from synthdp.privacy.receipt import CuratorTerms, Item
from synthdp.queries.protocol import KeyStatistic, Statistic
from synthdp.schema.schema import Schema

_forks = [0]
"""Number of forks between the first process and this one, in a list, so that a function can change it."""


def _forked() -> None:
    """Count forks in the child process, so that a copy of a budget is recognised even if process numbers repeat."""
    _forks[0] += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class Answering:
    """How noise is added to answers: the least noise for the loss, drawn anew for each question.

    A series of releases overrides it (`Journal`), because its noise is shared by several periods.
    """

    __slots__ = ()

    def plan(
        self, queries: Statistic | KeyStatistic, loss: PrivacyLoss, *, adjacency: Adjacency, law: NoiseLaw | None
    ) -> Calibration:
        """Return the noise for a query: the least for which its answer costs at most ``loss``; of ``law``, if given."""
        return calibrate(adjacency.sensitivity(queries), loss, k=queries.k, law=law)

    def noised(self, plan: Calibration, exact: IntArray) -> IntArray:
        """Return exact integer sums, (k,), multiplied by the plan's ``resolution``, with fresh noise of its law."""
        return plan.noised(exact)

    def allow_others(self) -> None:
        """Do nothing: a curator also answers selections, histograms of keys and watches.

        A series of releases overrides it to refuse them, because their noise cannot be shared by periods.
        """

    def measured(self, plan: Calibration, queries: Statistic | KeyStatistic, exact: IntArray) -> Measurements:
        """Return noisy answers as `Measurements` (query, integer values, scale, noise law), which may leave the curator."""
        return Measurements(
            queries=queries, values=self.noised(plan, exact), resolution=plan.resolution, noise=plan.noise
        )


class GuardedTable:
    """A private table that is reached only through a lock (`turn`), with the record of all spends on it.

    Parameters
    ----------
    table
        The rows.
    terms
        The terms that were fixed before any row was read.
    extra_columns
        Names of the columns that the table has beyond its schema.
    answering
        The part that plans and adds noise.

    Attributes
    ----------
    items
        The spends with their purposes, in order.
    entries
        Numbers of the entries in the ledger.
    reserved
        Accounts of the curator's own budget under which nothing was answered yet, each with its ledger and entry, if
        there is one; the first answer from any of them commits all.
    measured
        Every noisy answer to a statistic so far, from which a simpler release is made if a program fails.
    given_back
        Whether all reserved losses were returned: no question will be answered any more.
    rows
        Approximate number of rows: the public number, or a noisy one of discovery; 0 if neither was read.
    given_up
        For each account that was given up, the charged cost and the real cost, ``None`` for no cost.
    charged
        The budget of the first curator of the table, with all that was charged to it.
    """

    __slots__ = (
        "_lock", "_process", "_table", "answering", "charged", "entries", "extra_columns", "given_back", "given_up", "items",
        "measured", "reserved", "rows", "terms",
    )  # fmt: skip

    def __init__(
        self,
        table: PrivateTable,
        terms: CuratorTerms,
        *,
        extra_columns: tuple[str, ...],
        answering: Answering | None = None,
    ) -> None:
        self._table, self.terms, self.extra_columns = table, terms, extra_columns
        self.answering = answering or Answering()
        self._process, self._lock = _this_process(), RLock()
        self.items: list[Item] = []
        self.entries: list[int] = []
        self.reserved: list[tuple[Ledger | None, int | None]] = []
        self.measured: list[Measurements] = []
        self.rows = 0.0
        self.given_back = False
        self.given_up: list[tuple[PrivacyLoss, PrivacyLoss | None]] = []
        self.charged: Account | None = None

    def spent(self) -> PrivacyLoss | None:
        """Return the loss of all charges, with the real costs of accounts given up; ``None`` without a charge."""
        if self.charged is None:
            return None
        parts = [*self.charged.spent]
        for charged, real in self.given_up:
            if components(charged) in parts:  # not that of an account inside another one
                parts.remove(components(charged))
                parts += [] if real is None else [components(real)]
        return Account(self.charged.budget, parts).total

    @property
    def schema(self) -> Schema:
        """The schema of the table, with what discovery added."""
        return self._table.schema

    @property
    def adjacency(self) -> Adjacency:
        """The neighbouring relation that losses on this table are stated for."""
        return self._table.adjacency

    @contextmanager
    def turn(self) -> Iterator[PrivateTable]:
        """Wait until no other thread asks, and lend the private table for one question.

        A forked process has a copy of every budget in memory: nothing may be charged or read there.

        Raises
        ------
        PrivacyError
            In any other process than the one in which the table was guarded.
        """
        self._check_process()  # first: the lock may be held for ever by a thread that the fork left behind
        with self._lock:
            yield self._table
            self._check_process()  # what was asked may have forked, and then there are two answers for one spend

    def close(self) -> None:
        """Forget the rows; in a forked process do nothing, because the rows belong to the parent process."""
        if _this_process() == self._process:
            with self._lock:
                self._table.close()

    def _check_process(self) -> None:
        """Raise PrivacyError in any process but the one that made the curator: a forked budget could be spent twice."""
        if _this_process() != self._process:
            raise PrivacyError(
                "a curator, its accounts and its sessions work only in the process that made the curator, so that no "
                "copy spends the budget twice: make the curator after forking, with a ledger"
            )


def _this_process() -> tuple[int, int]:
    """Return the number of this process and its count of forks, which identify it even if the system reuses numbers."""
    return os.getpid(), _forks[0]
