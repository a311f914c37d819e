"""The curator: the only object that holds private rows; it charges first, reads second, and answers only with noise."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar, final

from synthdp.curator.guarded_table import GuardedTable
from synthdp.curator.ledger import DEFAULT_DATASET, Ledger
from synthdp.curator.private_table import PrivateTable, check_key_columns, check_question, private_table
from synthdp.errors import (
    NOTHING_SPENT,
    InternalError,
    LedgerError,
    ParameterError,
    PrivacyError,
    SalvageWarning,
    in_table,
    tell_of_budget,
)
from synthdp.measurements import Measurements, NoiseLaw
from synthdp.privacy import noise
from synthdp.privacy.budget import Account, EarlyEnds, check_loss
from synthdp.privacy.calibration import THRESHOLDS_SHARE, SelectionLaw, plan_selection
from synthdp.privacy.loss import ApproxDP, PrivacyLoss, Remaining, Spend, components
from synthdp.privacy.neighbors import Adjacency, Neighbors, neighbors_named
from synthdp.privacy.noise import noise_versions
from synthdp.privacy.receipt import CuratorTerms, Item, Receipt, assumptions
from synthdp.queries.protocol import Bounded, KeyStatistic, Statistic, noise_range, unit_of
from synthdp.schema.column import Column
from synthdp.schema.schema import Schema, schema_given

if TYPE_CHECKING:  # what only some tables and questions need is loaded by them
    from synthdp.curator.discovery import Discovered
    from synthdp.curator.sparse_vector import Continued, SparseVector
    from synthdp.domain.histories import Layout
    from synthdp.privacy.key_histogram import KeyCounts
    from synthdp.schema.database import DatabaseSchema

T = TypeVar("T")
"""The type of a noisy answer."""


@final
class Curator:
    """Holds one private table and one budget; answers only with noise.

    Costs the spends of its questions, for the neighbours given here, and never more than ``budget`` in all.  Several
    threads may ask one curator and its accounts: they are answered one after the other.  Another process may not: a
    forked process has a copy of the budget, and is refused.

    Parameters
    ----------
    table
        A dataframe (Spark's is read where it lies, others in memory), or a source of rows; with a `DatabaseSchema`, a
        dict of these by table name.
    schema
        The public declaration of the table; of several tables, a `DatabaseSchema`, whose root names the units.
        Also a reviewed draft, or a schema's document or path.  Without a schema, column names and types are taken as
        public; the rest must be discovered.
    budget
        The largest cost of all answers together.
    neighbors
        ``"add_remove"`` (the number of rows is private) or ``"replace_one"`` (it is public).
    privacy_unit, max_rows_per_unit
        The column whose values are the units to protect, and how many rows of each are used; default: every row is a
        unit.  Texts (all of a CSV file's) are one unit if they are written alike; numbers and moments, if they are
        equal.  The column need not be in the schema; if it is, as an `Identifier`.
    ledger, dataset
        A file that records every spend before the data is read, and the name of this data in it.

    Raises
    ------
    DataError
        If the table lacks a column; nothing is spent then.
    ParameterError
        If a setting is out of range.
    SchemaError
        If the privacy unit is declared as anything but an identifier.

    Examples
    --------
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> from synthdp.domain.domain import domain_of
    >>> from synthdp.queries.marginals import one_ways
    >>> schema = sd.Schema({"smoker": sd.Boolean()})
    >>> table = pd.DataFrame({"smoker": [True, False, False] * 100})
    >>> curator = sd.Curator(table, schema=schema, budget=sd.PureDP(1.0))
    >>> noisy = curator.measure(one_ways(domain_of(schema)), spend=sd.PureDP(0.5))
    >>> noisy.values.dtype, noisy.answers.shape  # whole numbers: false, true, and what is neither
    (dtype('int64'), (3,))
    >>> print(curator.remaining)
    ε = 0.5
    """

    __slots__ = ("_account", "_dataset", "_ends", "_ledger", "_vault")

    def __init__(
        self,
        table: object,
        *,
        schema: Any = None,
        budget: PrivacyLoss,
        neighbors: Neighbors | str = Neighbors.ADD_REMOVE,
        privacy_unit: str | None = None,
        max_rows_per_unit: int = 1,
        ledger: str | PathLike[str] | Ledger | None = None,
        dataset: str | None = None,
    ) -> None:
        if dataset is not None and ledger is None:
            raise ParameterError(f"dataset ({dataset!r}) is a name in a ledger: give the ledger too, or leave both out")
        self._account = Account(check_loss("budget", budget))
        self._ends: tuple[EarlyEnds, Ledger | None, int | None] | None = None
        if isinstance(table, GuardedTable):  # an account is a curator of what another one guards
            self._vault, self._ledger, self._dataset = table, None, DEFAULT_DATASET
            table.charged = table.charged or self._account
            return
        noise.check_opendp()
        if schema is not None and not isinstance(schema, Schema):
            from synthdp.schema.database import database_schema_given, is_database

            schema = database_schema_given(schema) if is_database(schema) else schema_given(schema)
        private, extra_columns = _guarded(table, schema, neighbors_named(neighbors), privacy_unit, max_rows_per_unit)
        if ledger is not None and not isinstance(ledger, Ledger):
            ledger = Ledger(ledger)
        self._ledger, self._dataset = ledger, DEFAULT_DATASET if dataset is None else dataset
        terms = CuratorTerms(
            total=self.budget,
            schema=private.schema if schema is None or isinstance(schema, Schema) else schema,
            ledger=None if ledger is None else ledger.path.name,  # a receipt is published: where the file lies is not
            dataset=None if ledger is None else self._dataset,
            place=None if ledger is None else ledger.path,
        )
        self._vault = GuardedTable(private, terms, extra_columns=extra_columns)
        self._vault.charged = self._account

    def __repr__(self) -> str:
        left = self._account.remaining
        return f"Curator({len(self.schema)} columns, budget {self.budget}, left {left or 'nothing'})"

    def __reduce__(self) -> str:
        raise PrivacyError(
            "a curator holds private rows and cannot be pickled or copied: make another Curator, or pass on its releases"
        )

    def __enter__(self) -> Curator:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):  # whoever interrupts a release may have seen more of it than an error says
            with suppress(LedgerError):
                self.give_back()
        if error is not None:
            tell_of_budget(error, self.became)
        try:
            self.close()
        except Exception as failed:  # noqa: BLE001 - what was answered is paid for
            with suppress(SalvageWarning):
                note = f"encoded rows in a folder for temporary files could not be removed ({type(failed).__name__})"
                warnings.warn(note, SalvageWarning, stacklevel=2)

    @property
    def schema(self) -> Schema:
        """The `Schema` by which queries are made: the declarations, completed by discovery."""
        return self._vault.schema

    @property
    def layout(self) -> Layout:
        """The layout that encodes all rows of one person as one record; queries about several tables are built from it.

        Columns whose bounds or levels are not discovered yet have placeholder values in it.

        Raises
        ------
        ParameterError
            If this is the curator of one table.
        """
        from synthdp.curator.private_database import PrivateDatabase

        with self._vault.turn() as table:
            if isinstance(table, PrivateDatabase) and table.layout is not None:
                return table.layout
        raise ParameterError("this curator was made for one table, not for several: make it with a DatabaseSchema")

    @property
    def adjacency(self) -> Adjacency:
        """The neighbouring relation that every loss of this curator is stated for."""
        return self._vault.adjacency

    @property
    def extra_columns(self) -> tuple[str, ...]:
        """Names of the columns that the table has beyond its schema, to note that a release leaves them out."""
        return self._vault.extra_columns

    @property
    def budget(self) -> PrivacyLoss:
        """The largest cost of all answers of this curator together."""
        return self._account.budget

    @property
    def remaining(self) -> PrivacyLoss | None:
        """Return the loss that is left to spend; ``None`` if nothing is left."""
        return self._account.remaining

    @property
    def rows(self) -> int:
        """The exact number of rows, which is public if all neighbours have the same number.

        Raises
        ------
        PrivacyError
            Under ``add_remove``, where the number of rows is private.
        """
        if not self.adjacency.rows_are_public:
            raise PrivacyError(
                "the number of rows is private with neighbors='add_remove': measure the number of rows, or use "
                "neighbors='replace_one'"
            )
        with self._vault.turn() as table:
            self._vault.rows = float(table.rows())
            return int(self._vault.rows)

    def cost(self, spend: Spend) -> PrivacyLoss:
        """Return the privacy loss of a spend, in the currency of this curator's budget, without spending it.

        For `Remaining` it is the loss that is left.  Mechanisms plan their noise with it before they measure.
        """
        return self._account.resolve(spend)

    def check(self, queries: Statistic | KeyStatistic, *, spend: Spend | None = None) -> None:
        """Raise an error if the queries do not fit this table, before anything is charged.

        A program calls it first, so that a bad query costs no budget.  Costs nothing.

        Parameters
        ----------
        queries
            The queries that will be asked.
        spend
            The largest loss of all queries, to check that noise exists for it; default: no check of noise.

        Raises
        ------
        DataError
            If a column of a record's key is missing.
        ParameterError
            If a column of the queries is declared otherwise than in the curator's schema, or no noise is small enough.
        PrivacyError
            In a forked process.
        SensitivityError
            If a sum may overflow 64-bit integers, or the claimed sensitivity is impossible.
        """
        with self._vault.turn() as table:
            check_question(table, queries)
        if spend is not None:
            self._vault.answering.plan(queries, self.cost(spend), adjacency=self.adjacency, law=None)

    def measure(
        self,
        queries: Statistic | KeyStatistic,
        *,
        spend: Spend = Remaining(),
        step: str = "queries",
        law: NoiseLaw | None = None,
    ) -> Measurements:
        """Return the noisy answers to queries: exact integer sums plus discrete Gaussian, Laplace or K-norm noise.

        Costs ``spend``, for this curator's neighbours; the ledger is charged before any row is read.

        Parameters
        ----------
        queries
            The statistic to answer, computed from rows' bins or from record keys.
        spend
            The largest loss; the noise is the least with at most this cost.
        step
            Name of the step on the receipt.
        law
            The noise distribution to use; default: the one with the least noise for the loss.

        Raises
        ------
        BudgetExceededError
            If less is left; nothing is read then.
        DataError, ParameterError, PrivacyError, SensitivityError
            As `check` raises them.
        """
        return self.measure_each([queries], spends=[spend], steps=[step], law=law)[0]

    def measure_each(
        self,
        queries: Sequence[Statistic | KeyStatistic],
        *,
        spends: Sequence[Spend],
        steps: Sequence[str],
        law: NoiseLaw | None = None,
    ) -> list[Measurements]:
        """Answer several statistics, each with its own exact integer noise, in one pass over the rows.

        Answers, noise and receipt are as after one `measure` for each; a database or a cluster is asked once.

        Costs all of ``spends``, for this curator's neighbours; the ledger is charged before any row is read.

        Parameters
        ----------
        queries
            The statistics to answer.  Sets of marginals over one domain take one pass over the rows; others take one
            each.
        spends
            The largest loss of each.
        steps
            Name of each step on the receipt.
        law
            The noise distribution to use; default: the one with the least noise for the loss.

        Raises
        ------
        BudgetExceededError
            If less is left than all cost; nothing is spent or read then.
        DataError, ParameterError, PrivacyError, SensitivityError
            As `check` raises them.
        """
        for one in queries:
            self.check(one)
        losses = [self.cost(spend) for spend in spends]
        answering = self._vault.answering
        plans = [
            answering.plan(one, loss, adjacency=self.adjacency, law=law)
            for one, loss in zip(queries, losses, strict=True)
        ]
        items = [
            _in_its_unit(plan.item(step, loss, denominator=one.denominator), one)
            for plan, step, loss, one in zip(plans, steps, losses, queries, strict=True)
        ]

        def answer(table: PrivateTable) -> list[Measurements]:
            each = zip(plans, queries, table.exact_each(queries), strict=True)
            found = [answering.measured(plan, one, exact) for plan, one, exact in each]
            self._vault.measured += found  # kept for a program that fails later
            return found

        return self._spend_each(items, answer)

    def histogram(
        self, columns: tuple[str, ...], *, spend: Spend = Remaining(), step: str = "frequent records"
    ) -> KeyCounts:
        """Return noisy counts of the record keys that occur often, without a list of possible keys (stability histogram).

        Costs ``spend``, an (epsilon, delta) or Gaussian DP with a delta above 0, for this curator's neighbours.

        Parameters
        ----------
        columns
            Columns whose values make up a record's key.
        spend
            The largest loss.  The noise is the least with at most this cost, and the threshold is the least for this
            noise.
        step
            Name of the step on the receipt.
        """
        self._vault.answering.allow_others()
        from synthdp.privacy.key_histogram import KeyCounts, plan_histogram

        with self._vault.turn() as table:
            check_key_columns(table, columns)
        loss = self.cost(spend)
        plan = plan_histogram(loss, adjacency=self.adjacency)
        counts = self._spend(plan.item(step, loss, answers=1), lambda table: plan.noised(table.key_counts(columns)))
        return KeyCounts(columns=columns, counts=counts, plan=plan)

    def watch(
        self,
        columns: tuple[str, ...],
        *,
        max_alarms: int,
        spend: Spend = Remaining(),
        alarm_share: float = 0.8,
        threshold: float | None = None,
        queries: int = 10_000,
        step: str = "watch",
    ) -> SparseVector:
        """Open a sparse vector session, which compares guesses of counts with the rows and answers wrong ones with noise.

        At most ``max_alarms`` guesses are answered; a good guess gets no answer and costs nothing more.

        Costs ``spend`` at once, for this curator's neighbours, however many queries are asked.

        Parameters
        ----------
        columns
            Columns whose values make up a record's key.
        max_alarms
            Number of guesses that may be found wrong, each with a noisy answer.
        spend
            The largest loss of the whole session.
        alarm_share
            Share of it for finding wrong guesses; the rest is for the answers.
        threshold
            Largest error of a guess without an answer, in rows; default: the least value that noise alone seldom
            exceeds.
        queries
            For that default: about how many queries will be asked.
        step
            Name of the step on the receipt.
        """
        self._vault.answering.allow_others()
        from synthdp.curator.sparse_vector import SparseVector
        from synthdp.privacy.above_threshold import plan_watch

        with self._vault.turn() as table:
            check_key_columns(table, columns)
        loss = self.cost(spend)
        plan = plan_watch(loss, max_alarms=max_alarms, alarm_share=alarm_share, rows=self.adjacency.rows)
        level = plan.level(threshold, queries=queries)
        return self._spend(plan.item(step, loss), lambda _: SparseVector(self._vault, columns, plan, level))

    def resume_watch(self, path: str | PathLike[str]) -> AbstractContextManager[Continued]:
        """Continue a saved sparse vector session over the same rows, once.

        Use it in a ``with`` statement, whose body checks the data saved with the session.  If the body raises, the
        folder is left unchanged.  When the body ends, the session answers again, and no other process can continue it.

        Costs nothing: the whole session was paid for when it was opened.

        Parameters
        ----------
        path
            The folder that `SparseVector.save` wrote.

        Raises
        ------
        DataError
            If the rows differ from the rows of the saved session.
        FormatError
            If the folder is not a saved session.
        PrivacyError
            If the session was continued already, or opened for other neighbours; or in a forked process.
        """
        self._vault.answering.allow_others()
        from synthdp.curator.sparse_vector import continued

        return continued(path, vault=self._vault)

    def select(
        self,
        scores: Statistic | KeyStatistic,
        *,
        spend: Spend = Remaining(),
        step: str = "selection",
        law: SelectionLaw | None = None,
    ) -> int:
        """Return the index of a candidate with a nearly maximal score, chosen under differential privacy.

        The mechanism is permute-and-flip, or the exponential mechanism under zCDP.  The scores may be any function of a
        statistic's sums, so a million candidates need no feature matrix.

        Costs ``spend``, a pure epsilon or a zCDP rho, for this curator's neighbours.  With the same noise the
        exponential mechanism, whose privacy loss has a bounded range, costs a quarter of the rho of permute-and-flip.

        Parameters
        ----------
        scores
            One score per candidate.
        spend
            The largest loss.
        step
            Name of the step on the receipt.
        law
            The mechanism to use; default: the one with the least noise.
        """
        self._vault.answering.allow_others()
        self.check(scores)
        loss = self.cost(spend)
        plan = plan_selection(self.adjacency.sensitivity(scores).linf, loss, law=law)
        item = _in_its_unit(plan.item(step, loss, denominator=scores.denominator), scores)
        return self._spend(item, lambda table: plan.chosen(table.exact(scores)))

    def discover(
        self, *, spend: Spend, takes: Callable[[Schema], bool] = lambda _: True, careful: bool = False
    ) -> Discovered:
        """Find undeclared bounds and levels of columns under noise, and complete the schema with them.

        A column without a significant finding is left out of the schema, unless no column would be left.  An (epsilon,
        delta) is spent as Gaussian DP, with a tenth of its delta for the thresholds of levels.

        Costs at most ``spend`` for this curator's neighbours; levels need a delta above 0.

        Parameters
        ----------
        spend
            The largest loss.
        takes
            Function that returns whether the mechanism can use a schema without some columns; if not, they stay.
        careful
            Whether to estimate the number of rows first.  Discovery stops there, with nothing found, if its noise would
            hide values that many rows have; see `Discovered.is_coarse`.

        Raises
        ------
        SchemaError
            If nothing is undeclared, or levels are and the spend has no delta; nothing is spent then.
        """
        self._vault.answering.allow_others()
        from synthdp.curator.discovery import check_discoverable, discover
        from synthdp.curator.discovery_forecast import forecast

        loss = self.cost(spend)
        with self._vault.turn() as table:
            check_discoverable(table.schema, loss)
            account = self
            if isinstance(loss, ApproxDP):
                account = self.open_account(loss, thresholds=THRESHOLDS_SHARE)
                loss = account.budget
            spend_inside = account._spend  # noqa: SLF001 - its own account
            if careful:
                rows = table.rows() if self.adjacency.rows_are_public else None
                expected, loss = forecast(table.schema, table.adjacency, loss, spend=spend_inside, rows=rows)
                self._vault.rows = expected.rows
                if expected.is_coarse:
                    return expected
            found = discover(table.schema, table.adjacency, loss, spend=spend_inside, takes=takes)
            table.schema, self._vault.rows = found.schema, found.rows
            return found

    def discover_tables(
        self, *, spend: Spend, takes: Callable[[str, Schema], bool] = lambda *_: True
    ) -> dict[str, Discovered]:
        """Find undeclared bounds and levels of several tables under noise, and complete their schemas with them.

        Each table with undeclared columns is treated as by `discover`, but only one row of each person is read.  One
        person may have rows in all tables, so the losses of the tables add up.  If the discovery of a table fails after
        something was spent, its columns are as if nothing was found, and a note says so.

        Costs at most ``spend`` for this curator's neighbours, divided over the tables by their undeclared columns.

        Parameters
        ----------
        spend
            The largest loss.
        takes
            Function that returns whether the mechanism can use a table's schema without some columns.

        Returns
        -------
        The findings, by name of each table with undeclared columns.

        Raises
        ------
        SchemaError
            As `discover` raises it.
        """
        self._vault.answering.allow_others()
        from synthdp.curator.discovery import check_discoverable, discover, divided, nothing_found
        from synthdp.curator.private_database import PrivateDatabase, without_open_columns

        loss = self.cost(spend)
        with self._vault.turn() as table:
            if not isinstance(table, PrivateDatabase) or table.declared is None:
                raise ParameterError(
                    "discover_tables() needs several tables with undeclared columns: for one table use discover()"
                )
            declared = table.declared
            opened = {name: one for name, one in declared.tables.items() if one.undeclared}
            for name, one in opened.items():
                with in_table(name):
                    check_discoverable(one, loss)
            account = self
            if isinstance(loss, ApproxDP):
                account = self.open_account(loss, thresholds=THRESHOLDS_SHARE)
                loss = account.budget
            found: dict[str, Discovered] = {}
            charges = account.charges
            for name, part in divided(opened, loss).items():
                takes_one = partial(takes, name)
                try:
                    ask = partial(account._of_table, name, table.open_table(name))  # noqa: SLF001 - its own account
                    found[name] = discover(opened[name], table.adjacency.of_one_row(), part, spend=ask, takes=takes_one)
                except Exception as error:
                    if account.charges == charges:  # nothing is spent yet
                        raise
                    why = (
                        f"SALVAGED: the discovery failed ({type(error).__name__}); columns are as if nothing was found"
                    )
                    found[name] = nothing_found(opened[name], why, takes_one)
            try:
                table.complete(declared.completed({name: one.schema for name, one in found.items()}))
            except Exception as error:  # noqa: BLE001 - what was answered is paid for
                why = f"SALVAGED: the discovery failed ({type(error).__name__}); columns are as if nothing was found"
                table.complete(without_open_columns(declared))
                found = {name: nothing_found(one, why, lambda _: False) for name, one in opened.items()}
            self._vault.rows = found[declared.root].rows if declared.root in found else 0.0
            return found

    def _of_table(self, name: str, private: PrivateTable, item: Item, answer: Callable[[PrivateTable], T]) -> T:
        """Charge a question about one of several tables and answer it; the receipt's line gets the table's name."""
        step = item.step.replace(": ", f": {name}.", 1)  # "discovered range: visits.cost"
        return self._spend(replace(item, step=step), lambda _: answer(private))

    def skip_discovery(self, why: str, *, takes: Callable[[Schema], bool] = lambda _: True) -> Discovered:
        """Complete the schema without reading rows: undeclared columns are left out or get placeholder values.

        It lets a release continue after a discovery failed.  Costs nothing.

        Parameters
        ----------
        why
            A sentence for the receipt on what stopped the discovery.
        takes
            Function that returns whether the mechanism can use a schema without some columns, as in `discover`.
        """
        from synthdp.curator.discovery import nothing_found

        with self._vault.turn() as table:
            found = nothing_found(table.schema, why, takes)
            table.schema = found.schema
            return found

    def know(self, columns: Mapping[str, Column]) -> None:
        """Replace column declarations by more specific ones that encode values identically.

        Later queries and synthetic tables then use what earlier answers showed, such as the rounding of values.  Costs
        nothing.

        Raises
        ------
        InternalError
            If a value would be coded otherwise.
        """
        with self._vault.turn() as table:
            for name, column in columns.items():
                if column.support() != table.schema[name].support():
                    raise InternalError(f"column {name!r} cannot be declared anew: its values would be coded otherwise")
            table.schema = table.schema.replace(columns)

    def open_account(
        self,
        spend: Spend = Remaining(),
        *,
        currency: type[PrivacyLoss] | None = None,
        thresholds: float = 0.0,
        ends: Sequence[float] = (),
    ) -> Curator:
        """Return a curator of the same rows with ``spend`` as its budget, in a currency for adaptive programs.

        A pure epsilon stays pure.  An (epsilon, delta) becomes Gaussian DP, whose parts may be chosen by earlier
        answers.

        Costs ``spend`` at once, for this curator's neighbours, however little of it is used; see `give_up`.

        Parameters
        ----------
        spend
            The largest loss of the account.
        currency
            For an (epsilon, delta): `ZCDP` for zero-concentrated accounting, `ApproxDP` to keep basic composition.
        thresholds
            For Gaussian DP: the share of delta that is set aside for thresholds on values that nobody listed, at least
            0, below 1.
        ends
            Shares of the account's budget after which it may be given up; a tenth of delta is set aside for them.
        """
        loss = self.cost(spend)
        early = EarlyEnds.of(loss, currency, thresholds=thresholds, shares=ends)
        with self._vault.turn():
            entry = self._charge(loss, what="account")
            if self._ends is None:
                self._vault.reserved.append((self._ledger, entry))
        account = Curator(self._vault, budget=early.budget)
        account._ends = (early, self._ledger, entry)
        return account

    def give_up(self) -> PrivacyLoss | None:
        """End this account early: forget the rows, and record and return its real cost, ``None`` if it is nothing.

        The cost is nothing if the account answered nothing; the ledger's entry is then returned.  The cost is less than
        was reserved on two conditions: spending stopped at one of the shares ``ends`` of `open_account`, and nothing
        was reserved for the data set since (docs/proofs/early-ends.md).  The budget in memory stays spent.

        Costs at most what was charged when the account was opened.

        Raises
        ------
        PrivacyError
            If this is no account inside another budget.
        """
        if self._ends is None:
            raise PrivacyError(
                "give_up() returns what is left of an account's budget to the curator that opened the account: "
                "call give_up() on the result of Curator.open_account()"
            )
        early, ledger, entry = self._ends
        with self._vault.turn():
            self._vault.close()
            if not self._account.spent:
                if ledger is not None and entry is not None:
                    ledger.give_back(entry)
                    self._vault.entries.remove(entry)
                    self._vault.reserved = [one for one in self._vault.reserved if one[1] is not entry]
                self._vault.given_up.append((early.whole, None))
                return None
            spent = sum(part[0] for part in self._account.spent) / components(self.budget)[0]
            cost = early.cost(spent)
            if ledger is not None and entry is not None:
                cost = ledger.commit(entry, cost) or cost
            self._vault.given_up.append((early.whole, cost))
        return cost

    @property
    def measured(self) -> tuple[Measurements, ...]:
        """All noisy answers to queries so far, in all accounts, so that they are not lost when a program fails later."""
        return tuple(self._vault.measured)

    @property
    def about_rows(self) -> float:
        """The approximate number of rows: the public number if it was read, else discovery's noisy count, else 0.

        A release that failed to measure draws about this many rows.
        """
        return self._vault.rows

    @property
    def charges(self) -> int:
        """The number of spends charged to this budget, so that a caller sees whether anything was charged."""
        return len(self._account.spent)

    @property
    def became(self) -> str:
        """A sentence on how much of the budget is spent, to add to the error of a release that failed."""
        vault = self._vault
        cost = vault.spent()
        if not vault.entries:
            return f"{cost} is spent, and no ledger records it" if vault.items else NOTHING_SPENT
        numbers = ", ".join(map(str, vault.entries))
        several = "entries" if len(vault.entries) > 1 else "entry"
        return f"{cost} is in the ledger as {several} {numbers}: `synthdp ledger {vault.terms.place}` shows it"

    def give_back(self) -> bool:
        """Return reserved losses to the ledger if no noisy answer was given for them; return whether there were any.

        The public then learns only that a program failed, and how; both depend on public facts alone
        (docs/proofs/early-ends.md).  The rows are forgotten, so that no answer will follow.  After a call that returned
        True, later calls return True too.

        Costs nothing: it ends a spend that was charged before.
        """
        with self._vault.turn():
            if not self._vault.reserved:
                return self._vault.given_back
            self._vault.close()
            self._vault.given_back = True
            for ledger, entry in self._vault.reserved:
                if ledger is not None and entry is not None:
                    ledger.give_back(entry)
                    self._vault.entries.remove(entry)
            self._vault.reserved.clear()
            return True

    def close(self) -> None:
        """Forget the rows: every later question raises `RoomClosedError`."""
        self._vault.close()

    def receipt(self, *, notes: tuple[str, ...] = ()) -> Receipt:
        """Return a receipt: every spend so far on these rows, in all accounts, with the assumptions of the guarantee.

        Its total is the budget of the curator that was given the rows.  All items together cost no more.

        Parameters
        ----------
        notes
            Lines of the mechanism about its output.
        """
        return Receipt(
            total=self._vault.terms.total,
            adjacency=self.adjacency,
            items=tuple(self._vault.items),
            assumptions=assumptions(self._vault.terms.schema, self._complete, self.adjacency),
            notes=notes,
            versions=noise_versions(),
            ledger=self._vault.terms.ledger,
            dataset=self._vault.terms.dataset,
            entries=tuple(self._vault.entries),
        )

    @property
    def _complete(self) -> Schema | DatabaseSchema:
        """The schema, of one table or of several, with all findings so far.

        The receipt compares it with the declared schema to list what was discovered.
        """
        if isinstance(self._vault.terms.schema, Schema):
            return self.schema
        return self.layout.schema

    def _charge(self, loss: PrivacyLoss, *, what: str) -> int | None:
        """Charge a loss to the budget in memory and to the ledger, before anything is read; return the ledger's entry.

        If the ledger refuses, the charge in memory is undone.  Without a ledger the entry is ``None``.
        """
        self._account.charge(loss)
        if self._ledger is None:
            return None
        try:
            entry = self._ledger.reserve(self._dataset, loss, what=what, adjacency=self.adjacency)
        except BaseException:
            self._account.refund(loss)
            raise
        self._vault.entries.append(int(entry))  # a receipt names it, and whoever reads that does not hold it
        return entry

    def _spend(self, item: Item, answer: Callable[[PrivateTable], T]) -> T:
        """Charge one receipt item, then compute its noisy answer and add the item to the receipt; see `_spend_each`."""
        return self._spend_each([item], answer)

    def _spend_each(self, items: Sequence[Item], answer: Callable[[PrivateTable], T]) -> T:
        """Charge all receipt items or none; only then compute their noisy answers and add the items to the receipt.

        If the computation fails, nothing is answered and all charges are undone.  After an interrupt, such as Ctrl-C,
        charges stay, because somebody may have seen the answer.
        """
        with self._vault.turn() as table:
            trial = Account(self.budget, [*self._account.spent])
            for item in items:
                trial.charge(item.loss)
            before = len(self._vault.items), len(self._vault.measured), len(self._vault.entries)
            charged: list[tuple[Item, int | None]] = []
            try:
                for item in items:
                    charged.append((item, self._charge(item.loss, what=item.step)))
                    self._vault.items.append(item)
                result = answer(table)
                self._settle(self._vault.entries[before[2] :])
            except Exception:
                self._forget_since(before, charged)
                raise
            return result

    def _settle(self, entries: Sequence[int]) -> None:
        """Mark the ledger entries of an answer as spent, and the entries of the accounts that pay for it."""
        if self._ledger is not None:
            for entry in entries:
                self._ledger.commit(entry)
        for ledger, number in self._vault.reserved:
            if ledger is not None and number is not None:
                ledger.commit(number)
        self._vault.reserved.clear()

    def _forget_since(self, before: tuple[int, int, int], charged: Sequence[tuple[Item, int | None]]) -> None:
        """Undo charges, receipt items and drawn answers of a question that failed: no answer left the curator.

        ``before`` holds the lengths of the lists of items, answers and entries before the question.  ``charged`` holds
        its items with their ledger entries.
        """
        items, measured, entries = before
        for item, entry in charged:
            self._account.refund(item.loss)
            if self._ledger is not None and entry is not None:
                self._ledger.give_back(entry)
        del self._vault.items[items:], self._vault.measured[measured:], self._vault.entries[entries:]


def _in_its_unit(item: Item, queries: Bounded) -> Item:
    """Return a receipt item with its noise in the unit that the answers count: rows, persons or another.

    The noise is drawn on scaled integers; their stddev would mean nothing to a reader.
    """
    return replace(item, noise=noise_range(queries, item.stddev), unit=unit_of(queries))


def _guarded(
    table: object, schema: Schema | DatabaseSchema | None, neighbors: Neighbors, unit: str | None, rows: int
) -> tuple[PrivateTable, tuple[str, ...]]:
    """Return the private rows of one or several tables, and the names of columns beyond the schema.

    Only names are read, and types if there is no schema.  Raise ParameterError if a privacy unit is given for several
    tables: their schema names it.
    """
    if schema is None or isinstance(schema, Schema):
        return private_table(table, schema, Adjacency(neighbors, unit, rows))
    from synthdp.curator.private_database import private_database

    if unit is not None or rows != 1:
        raise ParameterError(
            "with several tables, every row of the schema's root table is a privacy unit: leave privacy_unit "
            "and max_rows_per_unit out"
        )
    bounds = tuple((name, schema.slots(name)) for name in schema.names[1:])
    if not bounds:
        raise ParameterError("this schema has one table only: give a Schema, not a DatabaseSchema")
    return private_database(table, schema, Adjacency(neighbors, schema.unit, 1, bounds))
