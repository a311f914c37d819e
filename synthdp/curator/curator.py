"""The curator: the only object that holds private rows; it charges first, reads second, and answers only with noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from threading import RLock
from typing import Any, TypeVar, final

import numpy as np

from synthdp.arrays import IntArray
from synthdp.curator.discovery import Discovered, discover
from synthdp.curator.ledger import DEFAULT_DATASET, Ledger
from synthdp.curator.private_table import Room, check_columns, check_key_columns, check_unit
from synthdp.curator.sparse_vector import SparseVector, plan_watch
from synthdp.errors import ParameterError, PrivacyError
from synthdp.measurements import Measurements, NoiseLaw
from synthdp.privacy import accounting, noise
from synthdp.privacy.budget import Account, check_loss
from synthdp.privacy.calibration import Calibration, calibrate, gaussian_account
from synthdp.privacy.key_answers import KeyAnswers
from synthdp.privacy.key_histogram import KeyCounts, plan_histogram
from synthdp.privacy.loss import ZCDP, ApproxDP, PrivacyLoss, PureDP, Remaining, Spend
from synthdp.privacy.neighbors import Adjacency, Neighbors, neighbors_named
from synthdp.privacy.receipt import Item, Receipt
from synthdp.privacy.versions import noise_versions
from synthdp.queries.protocol import KeyStatistic, Statistic
from synthdp.queries.sparse.supports import UNIT
from synthdp.schema.schema import Schema
from synthdp.tables.infer import infer_schema
from synthdp.tables.sources.resolve import source_of

T = TypeVar("T")


@final
class Curator:
    """Hold one private table and one budget; answer only with noise.

    Costs nothing until it is asked; then what each question says, for the neighbours given here, never more than
    ``budget`` in all.  Several threads may ask one curator and its accounts: they are answered one after the other.

    Parameters
    ----------
    table
        A dataframe (Spark's is read where it lies, others in memory), or a source of rows.
    schema
        What is publicly known.  Without one, column names and types are taken as public; the rest must be discovered.
    budget
        The most that all answers together may cost.
    neighbors
        ``"add_remove"`` (the number of rows is private) or ``"replace_one"`` (it is public).
    privacy_unit, max_rows_per_unit
        The column whose values are the units to protect, and how many rows of each are used; default: every row is one.
        It need not be in the schema; if it is, as an `Identifier`.
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
    >>> from synthdp.domain.discretize import domain_of
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

    __slots__ = (
        "_account", "_dataset", "_entries", "_ledger", "_lock", "_room", "_unsettled", "extra_columns",
    )  # fmt: skip

    def __init__(
        self,
        table: object,
        *,
        schema: Schema | None = None,
        budget: PrivacyLoss,
        neighbors: Neighbors | str = Neighbors.ADD_REMOVE,
        privacy_unit: str | None = None,
        max_rows_per_unit: int = 1,
        ledger: str | PathLike[str] | Ledger | None = None,
        dataset: str | None = None,
    ) -> None:
        adjacency = Adjacency(neighbors_named(neighbors), privacy_unit, max_rows_per_unit)
        source = source_of(table)
        if schema is None:
            schema = infer_schema(source, without=privacy_unit)
        self.extra_columns = check_columns(source, schema)
        check_unit(source, schema, privacy_unit)
        if ledger is not None and not isinstance(ledger, Ledger):
            ledger = Ledger(ledger)
        self._account = Account(check_loss("budget", budget))
        self._ledger, self._dataset = ledger, dataset or DEFAULT_DATASET
        self._entries: list[int] = []
        self._room = Room(source, schema, adjacency)
        self._lock = RLock()
        self._unsettled: list[tuple[Ledger, int]] = []  # accounts reserved in a ledger, committed by their first answer

    def __repr__(self) -> str:
        left = self._account.remaining
        return f"Curator({len(self.schema)} columns, budget {self.budget}, left {left or 'nothing'})"

    def __reduce__(self) -> str:
        raise PrivacyError("a curator holds private rows and cannot be pickled or copied")

    def __enter__(self) -> Curator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def schema(self) -> Schema:
        """What is publicly known, including what was discovered.  Costs nothing: public."""
        return self._room.schema

    @property
    def adjacency(self) -> Adjacency:
        """Which tables are neighbours.  Costs nothing: public."""
        return self._room.adjacency

    @property
    def budget(self) -> PrivacyLoss:
        """The most that all answers may cost.  Costs nothing: public."""
        return self._account.budget

    @property
    def remaining(self) -> PrivacyLoss | None:
        """What is left, ``None`` if nothing.  Costs nothing: public."""
        return self._account.remaining

    @property
    def rows(self) -> int:
        """The number of rows, where neighbours share it.

        Costs nothing: public under ``replace_one``.

        Raises
        ------
        PrivacyError
            Under ``add_remove``, where the number of rows is private.
        """
        if not self.adjacency.rows_are_public:
            raise PrivacyError("the number of rows is private under add_remove: measure it, or use replace_one")
        with self._lock:
            return self._room.rows()

    def cost(self, spend: Spend) -> PrivacyLoss:
        """Return a spend in this curator's currency, without spending it.  Costs nothing: arithmetic."""
        return self._account.resolve(spend)

    def measure(
        self, queries: Statistic, *, spend: Spend = Remaining(), step: str = "queries", law: NoiseLaw | None = None
    ) -> Measurements:
        """Answer a statistic with exact integer noise.

        Costs ``spend``, for this curator's neighbours; the ledger is charged before any row is read.

        Parameters
        ----------
        queries
            What to ask.
        spend
            What it may cost; the noise is the least that costs no more.
        step
            What the receipt calls it.
        law
            A law of noise to insist on; default: the least noise for the loss.

        Raises
        ------
        BudgetExceededError
            If less is left; nothing is read then.
        SensitivityError
            If the statistic may overflow an integer sum.
        """
        values, plan = self._noisy(queries, spend=spend, step=step, law=law)
        return Measurements(queries=queries, values=values, resolution=plan.resolution, noise=plan.noise)

    def measure_keys(
        self, queries: KeyStatistic, *, spend: Spend = Remaining(), step: str = "queries", law: NoiseLaw | None = None
    ) -> KeyAnswers:
        """Answer a statistic of record keys with exact integer noise; parameters and errors as in `measure`.

        Costs ``spend``, for this curator's neighbours; the ledger is charged before any row is read.
        """
        check_key_columns(self._room, queries.columns)
        values, plan = self._noisy(queries, spend=spend, step=step, law=law)
        return KeyAnswers(values=values, unit=queries.unit, plan=plan)

    def histogram(
        self, columns: tuple[str, ...], *, spend: Spend = Remaining(), step: str = "frequent records"
    ) -> KeyCounts:
        """Count the records that occur often, from a universe that nobody has to list (the stability histogram).

        Costs ``spend``, an (epsilon, delta) with delta above 0, for this curator's neighbours.

        Parameters
        ----------
        columns
            Columns whose values make up a record's key.
        spend
            What it may cost; the noise and then the threshold are the least that cost no more.
        step
            What the receipt calls it.
        """
        check_key_columns(self._room, columns)
        loss = self.cost(spend)
        plan = plan_histogram(loss, adjacency=self.adjacency)
        item = Item(
            step=step,
            mechanism="thresholded discrete Laplace",
            answers=1,
            sensitivity=float(plan.sensitivity),
            stddev=plan.stddev,
            loss=loss,
        )
        counts = self._spend(
            item,
            lambda: noise.laplace_threshold(self._room.key_counts(columns), scale=plan.scale, threshold=plan.threshold),
        )
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
        """Open a watch over a stream of guesses at sparse queries: at most ``max_alarms`` answers (sparse vector).

        Costs ``spend`` at once, for this curator's neighbours, however many queries are asked.

        Parameters
        ----------
        columns
            Columns whose values make up a record's key.
        max_alarms
            c, how many guesses may be found wrong, each with a noisy answer.
        spend
            What the whole watch may cost.
        alarm_share
            Share of it for finding wrong guesses; the rest is for the answers.
        threshold
            How far off a guess may be, in rows; default: the least at which few alarms are false.
        queries
            For that default: about how many queries will be asked.
        step
            What the receipt calls it.
        """
        check_key_columns(self._room, columns)
        if threshold is not None and not abs(threshold) <= noise.LARGEST_VALUE / UNIT:
            raise ParameterError(f"threshold ({threshold}) must be a number of rows")
        loss = self.cost(spend)
        rows = self.adjacency.rows
        plan = plan_watch(loss, max_alarms=max_alarms, alarm_share=alarm_share, rows=rows)
        item = Item(
            step=step,
            mechanism=f"sparse vector with geometric noise; {plan.answer.noise.law}",
            answers=max_alarms,
            sensitivity=float(rows),
            stddev=plan.answer_stddev,
            loss=loss,
        )
        level = round((plan.threshold_for(queries) if threshold is None else threshold) * UNIT)
        return self._spend(item, lambda: SparseVector(self._room, columns, plan, level))

    def resume_watch(self, document: Mapping[str, Any]) -> SparseVector:
        """Continue a watch from its private document, over the same rows.

        Costs nothing more: the whole watch was paid for when it was opened.
        """
        return SparseVector.from_document(document, room=self._room)

    def select(self, scores: Statistic | KeyStatistic, *, spend: Spend = Remaining(), step: str = "selection") -> int:
        """Return the position of a large score: permute-and-flip, or the exponential mechanism under zCDP.

        The scores may be any function of a statistic's sums, so that a million candidates need no feature matrix.

        Costs ``spend``, a pure epsilon or a zCDP rho, for this curator's neighbours.  At the same noise the exponential
        mechanism, whose range is bounded, costs a quarter of the rho of permute-and-flip.

        Parameters
        ----------
        scores
            One score per candidate.
        spend
            What it may cost.
        step
            What the receipt calls it.
        """
        loss = self.cost(spend)
        linf = self.adjacency.sensitivity(scores).linf
        if isinstance(loss, ZCDP):
            choose, law = noise.exponential_mechanism, "exponential mechanism"
            scale = noise.exponential_mechanism_scale(linf, rho=loss.rho, monotonic=False)
            stddev = scale * np.pi / np.sqrt(6)  # of the Gumbel noise whose maximum has the same law
        else:
            choose, law = noise.noisy_max, "noisy max"
            scale = stddev = noise.noisy_max_scale(linf, epsilon=_pure_epsilon(loss), monotonic=False)
        item = Item(
            step=step,
            mechanism=law,
            answers=1,
            sensitivity=linf / scores.unit,
            stddev=float(stddev) / scores.unit,
            loss=loss,
        )
        return int(self._spend(item, lambda: choose(self._room.exact(scores), scale=scale)))

    def discover(self, *, spend: Spend) -> Discovered:
        """Find undeclared bounds and levels under noise, and complete the schema with them.

        Costs ``spend`` for this curator's neighbours; levels need a delta above 0.

        Raises
        ------
        SchemaError
            If nothing is undeclared, or levels are and the spend has no delta.
        """
        with self._lock:
            loss = self.cost(spend)
            found = discover(self._room, loss, spend=self._spend)
            self._room.schema = found.schema
            return found

    def open_account(self, spend: Spend = Remaining(), *, currency: type[PrivacyLoss] | None = None) -> Curator:
        """Return a curator of the same rows whose own budget lies inside ``spend``, in the currency of programs.

        A pure epsilon stays what it is; an (epsilon, delta) becomes Gaussian DP, whose parts may depend on earlier
        answers.

        Costs ``spend`` at once, for this curator's neighbours, however little of it is used.

        Parameters
        ----------
        spend
            What the account may cost.
        currency
            For an (epsilon, delta): `ZCDP` for zero-concentrated accounting, `ApproxDP` to keep basic composition.
        """
        loss = self.cost(spend)
        inner = _inside(loss, currency)
        with self._lock:
            entry = self._charge(loss, what="account")
            if entry is not None and self._ledger is not None:
                self._unsettled.append((self._ledger, entry))
        opened = object.__new__(Curator)
        opened._account, opened._entries = Account(inner), self._entries
        opened._ledger, opened._dataset = None, self._dataset
        opened._room, opened.extra_columns = self._room, self.extra_columns
        opened._unsettled, opened._lock = self._unsettled, self._lock
        return opened

    def close(self) -> None:
        """Forget the rows: every later question raises `RoomClosedError`.  Costs nothing: reads no row."""
        with self._lock:
            self._room.close()

    def receipt(
        self, *, total: PrivacyLoss | None = None, assumptions: tuple[str, ...] = (), notes: tuple[str, ...] = ()
    ) -> Receipt:
        """Return what was spent so far.

        Costs nothing: a record.

        Parameters
        ----------
        total
            The loss that the receipt promises; default: the whole budget.
        assumptions, notes
            More lines for a reader.
        """
        ledger = self._ledger
        return Receipt(
            total=total or self.budget,
            adjacency=self.adjacency,
            items=tuple(self._room.items),
            assumptions=assumptions,
            notes=notes,
            versions=noise_versions(),
            ledger=None if ledger is None else str(ledger.path),
            dataset=None if ledger is None else self._dataset,
            entries=tuple(self._entries),
        )

    def _charge(self, loss: PrivacyLoss, *, what: str) -> int | None:
        """Book a loss in the account and the ledger, before anything is read."""
        before = list(self._account.spent)
        self._account.charge(loss)
        if self._ledger is None:
            return None
        try:
            entry = self._ledger.reserve(self._dataset, loss, what=what)
        except BaseException:
            self._account.spent[:] = before
            raise
        self._entries.append(entry)
        return entry

    def _noisy(
        self, queries: Statistic | KeyStatistic, *, spend: Spend, step: str, law: NoiseLaw | None
    ) -> tuple[IntArray, Calibration]:
        """Return a statistic with noise, and the noise's plan."""
        loss = self.cost(spend)
        norms = self.adjacency.sensitivity(queries)
        plan = calibrate(norms, loss, k=queries.k, law=law)
        item = Item(
            step=step,
            mechanism=str(plan.noise.law),
            answers=queries.k,
            sensitivity=plan.sensitivity / queries.unit,
            stddev=plan.noise.stddev / (plan.resolution * queries.unit),
            loss=loss,
        )
        values = self._spend(
            item, lambda: _noised(self._room.exact(queries), plan.resolution, plan.noise.law, plan.noise.scale)
        )
        return values, plan

    def _spend(self, item: Item, answer: Callable[[], T]) -> T:
        """Charge a step, only then compute its noisy answer, and write it on the receipt; one step at a time."""
        with self._lock:
            entry = self._charge(item.loss, what=item.step)
            self._room.items.append(item)
            result = answer()
            if entry is not None and self._ledger is not None:
                self._ledger.commit(entry)
            while self._unsettled:
                ledger, number = self._unsettled.pop()
                ledger.commit(number)
            return result


def _inside(loss: PrivacyLoss, currency: type[PrivacyLoss] | None) -> PrivacyLoss:
    if not isinstance(loss, ApproxDP) or currency is ApproxDP:
        return loss
    if loss.delta == 0:
        return PureDP(loss.epsilon)
    return ZCDP(accounting.zcdp_from_approx(loss.epsilon, loss.delta)) if currency is ZCDP else gaussian_account(loss)


def _noised(exact: IntArray, resolution: int, law: NoiseLaw, scale: float) -> IntArray:
    most = noise.LARGEST_VALUE // resolution  # clipped before it is multiplied: a wrapped product has no sensitivity
    values = np.ascontiguousarray(np.clip(exact, -most, most) * resolution)
    match law:
        case NoiseLaw.LAPLACE:
            return noise.discrete_laplace(values, scale=scale)
        case NoiseLaw.GAUSSIAN:
            return noise.discrete_gaussian(values, scale=scale)
    return noise.linf_knorm(values, scale=scale)


def _pure_epsilon(loss: PrivacyLoss) -> float:
    match loss:
        case PureDP(epsilon):
            return epsilon
        case ApproxDP(epsilon, _):
            return epsilon
    raise ParameterError("a noisy maximum has no Gaussian-DP cost: select from an account in PureDP, ApproxDP or ZCDP")
