"""The curator of a series of releases: it holds the exact sums of earlier periods, and answers only with noise.

Each period's rows are read once and forgotten.  Until the last period, exact sums of the statistics are stored that are
asked in every period.  The answer in period t is a weighted sum of these over all periods so far, plus noise.  The cost
of all answers together to one unit is bounded for every set of periods in which it may have rows
(docs/proofs/series.md).

An answer is written to disk before it leaves.  So an interrupted period continues with the noise that was drawn for it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

import numpy as np

from synthdp.arrays import AnyArray, FloatArray, IntArray
from synthdp.checks import check_number, whole
from synthdp.curator.guarded_table import GuardedTable
from synthdp.curator.ledger import Ledger
from synthdp.curator.series_account import SeriesAccount, SeriesTerms
from synthdp.curator.series_rows import MODULUS, EncodedPeriod, PeriodRows, Units, encoded
from synthdp.curator.series_state import Journal, PrivateState, clipped, lattice
from synthdp.errors import BudgetExceededError, DataError, ParameterError, PrivacyError
from synthdp.measurements import Measurements, Noise, NoiseLaw
from synthdp.privacy import noise
from synthdp.privacy.calibration import Calibration
from synthdp.privacy.loss import ROUNDING, GaussianDP
from synthdp.privacy.neighbors import Adjacency
from synthdp.privacy.receipt import CuratorTerms
from synthdp.privacy.series_factor import UNIT, cost_matrix, worst_cost
from synthdp.queries.protocol import LinearQueries, Statistic
from synthdp.schema.schema import Schema

ROWS, PLAN, QUESTION, KEPT, ANSWERS = "rows-", "plan-", "question-", "kept-", "answers-"
"""Beginnings of the names of private records on disk, each followed by a period: fingerprint of its rows, plan, answered
questions, exact sums at a plan's start, and answers of a later period."""


@final
class SeriesRoom:
    """Reads the private rows of a series of periods, keeps exact sums of earlier periods, and answers only with noise.

    All answers together cost at most the loss of the terms, for neighbouring series.  Neighbouring series differ in the
    rows of one unit, in at most as many periods as the terms allow.

    Parameters
    ----------
    folder
        Folder of its private files.
    schema
        Schema by which rows are encoded.
    terms
        The agreed terms; they cannot change after the first period.
    ledger, dataset
        Ledger that records the whole series as one spend, and the name of the data set in it.
    key
        A secret that the private files are encrypted with.
    """

    __slots__ = ("_account", "_period", "_schema", "_secret", "_state", "_stores", "terms")

    def __init__(
        self,
        folder: Path,
        *,
        schema: Schema,
        terms: SeriesTerms,
        ledger: Ledger | None = None,
        dataset: str = "default",
        key: bytes | None = None,
    ) -> None:
        noise.check_opendp()
        self.terms, self._schema = terms, schema
        self._state = PrivateState(folder, key=key)
        self._account = SeriesAccount(self._state, schema, terms, ledger=ledger, dataset=dataset)
        self._secret = b""
        self._stores: tuple[EncodedPeriod, ...] = ()
        self._period = -1

    def __repr__(self) -> str:
        return f"SeriesRoom({self.terms.periods} periods, {self.terms.loss})"

    def __reduce__(self) -> str:
        raise PrivacyError(
            "an open series holds private sums and cannot be pickled or copied: open its folder with ReleaseSeries(path=...)"
        )

    @contextmanager
    def adding(
        self, period: int, table: object, *, taken_back: object = None, earlier: Sequence[object] | None = None
    ) -> Iterator[None]:
        """Lend the rows of one period (and earlier ones if given) to the ``with`` body; forget them at its end.

        Costs the loss of the terms in the first period, booked in the ledger before any row is read, and nothing later.

        Parameters
        ----------
        period
            Number of the period from 0; all earlier ones must have been added.
        table
            Rows of the period.
        taken_back
            Rows of earlier periods that were wrong: they count -1, and are bounded together with the new rows.
        earlier
            The tables of all earlier periods in order; for a period in which rows were taken back a pair of tables.
            Without a privacy unit the rows may be divided into tables in any way.

        Raises
        ------
        DataError
            If the period was begun with other rows, the earlier rows were changed, or another process adds one.
        """
        with self._state.locked():
            self._open()
            self._account.charge()
            try:
                self._read(period, (table, taken_back), earlier)
                yield
            finally:
                for store in self._stores:
                    store.close()
                self._stores, self._period = (), -1

    @property
    def entry(self) -> int | None:
        """The number of the series' entry in the ledger; ``None`` without a ledger."""
        return self._account.entry

    @property
    def seed(self) -> int:
        """A stored public random seed of this period, so that an interrupted program asks the same questions again."""
        return int(self._state.read(f"{ROWS}{self._period:04}")["seed"])

    @property
    def rows(self) -> int:
        """The exact number of the period's rows, which is public where all neighbours have the same number.

        Raises
        ------
        PrivacyError
            Under ``add_remove``, where the number of rows is private.
        """
        if not self.terms.adjacency.rows_are_public:
            raise PrivacyError(
                "the number of rows is private with neighbors='add_remove': measure the number of rows, or use "
                "neighbors='replace_one'"
            )
        return sum(len(block[0]) for block in self._stores[-1].rows.blocks())

    def open_plan(self, factor: IntArray, *, last: int, mu: float, weight: int = 1) -> Any:
        """Return a curator of all rows so far, for a program that chooses which statistics are asked from now on.

        Statistics that are sums over rows, and that `keep` stores, are asked again in every period up to ``last``.
        Other statistics are asked once, with less noise for the same share of the budget.

        Costs at most ``mu`` times the cost of ``factor``, for the neighbouring relation of the terms.  The cost is
        checked against the rest of the budget first.

        Parameters
        ----------
        factor
            Lower triangular whole numbers, (periods of the plan, periods of the plan).  Row t holds the weights of the
            periods in the answer of the plan's t-th period; the first column is for all rows up to the plan's first
            period.
        last
            Number of the last period, from 0, in which the plan's statistics are asked.
        mu
            The largest cost of the first period's answers together, as the mu of Gaussian DP.
        weight
            Number of times that each row counts, for a program that plans for a larger table.

        Raises
        ------
        BudgetExceededError
            If the plan costs more than is left of the budget.
        PrivacyError
            If earlier rows were not given.
        """
        start = self._period
        if len(self._stores) < 1 or (start > 0 and len(self._stores) < 2):
            raise PrivacyError(
                "a new plan must read the rows of all periods so far: pass the tables of the earlier periods as history"
            )
        self._book(factor, start=start, last=last, mu=mu, weight=weight, chosen=True)
        rows = PeriodRows.of(self._stores, self._schema, self._merged(start), weight=weight)
        terms = CuratorTerms(total=self.terms.loss, schema=self._schema, ledger=None, dataset=None)
        answering = Journal(self._state, self._secret, f"{QUESTION}{start:04}-", factor=factor, weight=weight)
        from synthdp.curator.curator import Curator

        return Curator(GuardedTable(rows, terms, extra_columns=(), answering=answering), budget=GaussianDP(mu))

    def keep(self, measurements: Sequence[Measurements]) -> tuple[int, ...]:
        """Store the exact sums of the statistics that later periods ask again, so that earlier rows are not read again.

        Later periods ask all measured statistics again that are sums over rows.

        Returns
        -------
        The positions of these statistics among ``measurements``.
        """
        start, plan = self._period, self._plan(self._period)
        questions = {one["noisy"].tobytes(): one for one in map(self._state.read, self._questions(start))}
        found: list[tuple[int, dict[str, AnyArray]]] = []
        for i, measured in enumerate(measurements):
            asked = questions.get(np.ascontiguousarray(measured.values).tobytes())
            if asked is not None and bool(asked["linear"]):
                found.append((i, asked))
        record: dict[str, AnyArray] = {"count": np.array(len(found))}
        for i, (_, asked) in enumerate(found):
            weight, first = int(plan["weight"]), int(plan["factor"][0, 0])
            record[f"sums{i}"] = asked["exact"] // weight
            record[f"multiplier{i}"] = np.array(int(asked["resolution"]) * weight // first)
            record[f"sigma{i}"] = asked["sigma"]
            record[f"moves{i}"] = asked["moves"]
        self._state.write(f"{KEPT}{start:04}", record)
        return tuple(i for i, _ in found)

    def ask(
        self, factor: IntArray, queries: Sequence[Statistic], parts: Sequence[float], *, last: int, mu: float
    ) -> tuple[list[IntArray], list[tuple[int, float]]]:
        """Measure given statistics in this period, and plan them for all later periods up to ``last``.

        In the first period they may be any sums over rows.  In later periods they must be the statistics of the plan
        before.  The exact sums of these over earlier rows are stored, so earlier rows are not read.

        Costs at most ``mu`` times the cost of ``factor``, for the neighbouring relation of the terms.  The cost is
        checked against the rest of the budget first.

        Parameters
        ----------
        factor
            Lower triangular whole numbers, (periods of the plan, periods of the plan): row t weights the periods in the
            answer of the plan's t-th period.
        last
            Number of the last period in which the statistics are asked.
        mu
            The largest cost of the plan's first answers together, as the mu of Gaussian DP.
        queries
            The statistics; each must be a sum over rows.
        parts
            Fraction of the squared privacy cost of each.

        Returns
        -------
        For each statistic its (k,) noisy whole numbers of this period: sums times ``factor[0, 0]`` times a multiplier.
        Then for each statistic the multiplier and the stddev of the noise on these whole numbers.

        Raises
        ------
        BudgetExceededError
            If the plan costs more than is left of the budget.
        PrivacyError
            If the statistics differ from the plan before.
        """
        start, name, first = self._period, f"{KEPT}{self._period:04}", int(factor[0, 0])
        before = self._plan(start - 1) if start else None
        if before is not None:
            self._check_planned(queries, self._kept(before), before)
        elif not all(isinstance(one, LinearQueries) for one in queries):
            raise PrivacyError("the queries of a series must be LinearQueries, which are sums over rows")
        if len(parts) != len(queries):
            raise ParameterError("parts must hold one number per element of queries")
        for part in parts:
            check_number("parts", part, above=0)
        self._book(factor, start=start, last=last, mu=mu, weight=1, chosen=False)
        if not self._state.has(name):
            record: dict[str, AnyArray] = {"count": np.array(len(queries))}
            earlier = [] if before is None else [self._sums_of(before, t) for t in range(int(before["start"]), start)]
            for i, (one, sums) in enumerate(zip(queries, self._exact(queries), strict=True)):
                sums = sums + sum(told[i] for told in earlier)
                norms = self._merged(start).sensitivity(one)
                plan = lattice(norms, mu * math.sqrt(parts[i] / sum(parts)), one.k, first)
                record[f"sums{i}"], record[f"sigma{i}"] = sums, np.array(plan.noise.scale)
                record[f"multiplier{i}"] = np.array(plan.resolution // first)
                record[f"moves{i}"] = np.array(plan.resolution * norms.l2)
                record[f"noisy{i}"] = plan.noised(clipped(sums, factor, plan.resolution // first))
            self._state.write(name, record)
        record = self._state.read(name)
        count = range(int(record["count"]))
        lattices = [(int(record[f"multiplier{i}"]), float(record[f"sigma{i}"])) for i in count]
        return [record[f"noisy{i}"] for i in count], lattices

    def answers(self, queries: Sequence[Statistic]) -> list[IntArray]:
        """Return noisy whole numbers, (k,) each, for the plan's stored statistics, in a period after the plan's first.

        An answer is a weighted sum over the periods so far, times a multiplier, plus noise.  The weights are this period's
        row of the plan's ``factor``; `lattices` returns the multiplier.

        Costs nothing more, because the plan was charged for all its periods.

        Raises
        ------
        PrivacyError
            If a statistic's sensitivity is above the planned one.
        """
        name = f"{ANSWERS}{self._period:04}"
        if not self._state.has(name):
            plan = self._plan(self._period)
            start = int(plan["start"])
            if self._period == start:
                raise PrivacyError(
                    "the answers of the first period of a plan were returned when the plan was made: use them, and call "
                    "answers() from the next period on"
                )
            kept = self._kept(plan)
            row = plan["factor"][self._period - start]
            record: dict[str, AnyArray] = {}
            self._check_planned(queries, kept, plan)
            reach = sum(
                sorted([*[abs(int(row[0]))] * (start + 1), *map(abs, map(int, row[1:]))])[-self.terms.most_periods :]
            )
            earlier = [self._sums_of(plan, t) for t in range(start, self._period)]
            for i, (one, exact) in enumerate(zip(queries, self._exact(queries), strict=True)):
                record[f"sums{i}"] = exact
                multiplier = int(kept["multiplier"][i])
                columns = [*(told[i] for told in earlier), exact]
                total = row[: len(columns)] @ np.array([clipped(sums, plan["factor"], multiplier) for sums in columns])
                law = Noise(law=NoiseLaw.GAUSSIAN, scale=float(kept["sigma"][i]), k=one.k)
                moves = reach * self.terms.adjacency.sensitivity(one).l2
                record[f"noisy{i}"] = Calibration(law, multiplier, moves).noised(total)
            self._state.write(name, record)
        record = self._state.read(name)
        return [record[f"noisy{i}"] for i in range(len(queries))]

    def costs(self, *, before: int) -> FloatArray:
        """Return the (periods, periods) matrix K of costs, in mu squared, of all plans begun before a period.

        A unit with rows in the set P of periods costs at most the sum of K over P x P.  The worst P bounds the loss.
        """
        total = np.zeros((self.terms.periods,) * 2)
        for name in self._state.names(PLAN):
            plan = self._state.read(name)
            if int(plan["start"]) < before:
                total += self._cost(plan)
        return total

    def start(self) -> None:
        """Make the private files and record the series' loss in the ledger, unless that was done.

        Costs the loss of the terms, for their neighbouring relation, booked before any row is read.
        """
        with self._state.locked():
            self._open()
            self._account.charge()

    def lattices(self) -> list[tuple[int, float]]:
        """Return (multiplier, noise stddev) for each statistic that `keep` stored.

        An answer is the multiplier times the weighted sums, plus noise of this stddev.  Estimates in rows need both
        numbers.
        """
        record = self._state.read(f"{KEPT}{self._period:04}")
        return [(int(record[f"multiplier{i}"]), float(record[f"sigma{i}"])) for i in range(int(record["count"]))]

    def forget(self) -> None:
        """Delete all private files after the last period, because nothing needs them any more."""
        self._state.forget()

    def _open(self) -> None:
        """Write the terms at the first call, refuse other terms later, and load the secret key for hashing units."""
        self._secret = self._account.open()

    def _read(self, period: int, tables: tuple[object, object], earlier: Sequence[object] | None) -> None:
        """Read and encode a period's rows, and earlier periods' if given; raise DataError if earlier rows were changed.

        A fingerprint of the rows goes to disk, so that an interrupted period must be added with equal rows.
        """
        if tables[1] is not None:
            self._check_taken_back(period)
        before = [self._state.read(f"{ROWS}{t:04}") for t in range(period)]
        stores: list[EncodedPeriod] = []
        if earlier is not None:
            by_period = self.terms.adjacency.unit is not None
            if by_period and len(earlier) != period:
                raise DataError(f"history must be the {period} tables of the earlier periods, in order")
            for t, one in enumerate(earlier):
                pair = one if isinstance(one, tuple) and len(one) == 2 and by_period else (one, None)
                stores.append(self._encoded(pair, before[:t])[0])
            found = [one.mark for one in stores]
            known = [int.from_bytes(record["fingerprint"].tobytes()) for record in before]
            if found != known if by_period else (sum(found) - sum(known)) % MODULUS:
                raise DataError("the rows of history must be those of the earlier periods, unchanged")
        store, units = self._encoded(tables, before)
        stores.append(store)
        mark = np.frombuffer(store.mark.to_bytes(32), np.uint8)
        name = f"{ROWS}{period:04}"
        begun = self._state.has(f"{ANSWERS}{period:04}") or self._state.has(f"{KEPT}{period:04}")
        begun = begun or bool(self._questions(period))
        if begun and not np.array_equal(self._state.read(name)["fingerprint"], mark):
            raise DataError(
                "an interrupted attempt to add this period had other rows: add the rows of that attempt again"
            )
        if not begun:
            seed = np.array(int.from_bytes(os.urandom(4)))
            self._state.write(name, {"fingerprint": mark, "seed": seed, "units": units})
        self._stores, self._period = tuple(stores), period

    def _check_taken_back(self, period: int) -> None:
        """Raise ParameterError for corrections of earlier rows unless the terms allow a unit rows in two periods.

        A corrected unit has rows in two periods: in the corrected one and in this one.  Raise DataError in the first
        period, which has no earlier rows.
        """
        if self.terms.adjacency.unit is None or self.terms.most_periods < 2:
            raise ParameterError(
                "corrections need a privacy_unit with max_periods_per_unit of 2 or more, because a row and its "
                "correction count in two periods of one unit"
            )
        if period < 1:
            raise DataError("corrections concern earlier periods, and this is the first period: leave corrections out")

    def _encoded(
        self, tables: tuple[object, object], before: Sequence[dict[str, AnyArray]]
    ) -> tuple[EncodedPeriod, AnyArray]:
        """Return a period's encoded rows and the (n, 2) hashes of its units, without exhausted units.

        A unit is exhausted if it had rows in as many earlier periods as the terms allow.  Units are not tracked if the
        terms allow rows in every period.  ``before`` are the records of all earlier periods, with the hashes of their
        units.
        """
        adjacency, most, (table, taken_back) = self.terms.adjacency, self.terms.most_periods, tables
        units = None
        if adjacency.unit is not None and most < self.terms.periods:
            had = np.concatenate([np.zeros((0, 2), np.uint64), *(record["units"] for record in before)])
            distinct, times = np.unique(had, axis=0, return_counts=True)
            units = Units(adjacency.unit, self._secret, distinct[times >= most])
        found = encoded(table, self._schema, adjacency, units, secret=self._secret, taken_back=taken_back)
        return found, np.zeros((0, 2), np.uint64) if units is None else units.seen

    def _book(self, factor: IntArray, *, start: int, last: int, mu: float, weight: int, chosen: bool) -> None:
        """Write a plan to disk before its first question, if the rest of the budget covers it; refuse to change it later.

        The plan is for the periods ``start`` to ``last``; ``factor``, ``mu`` and ``weight`` are as in `open_plan`.
        ``chosen`` is whether a program chooses the statistics, by `open_plan`, or the caller gave them, by `ask`.
        """
        terms = self.terms
        check_number("mu", mu, above=0)
        factor, weight = np.asarray(factor), whole("weight", weight, least=1)
        size = last - start + 1
        if factor.dtype != np.int64 or factor.shape != (size, size) or not 0 <= start <= last < terms.periods:
            raise ParameterError(f"factor must be a ({size}, {size}) matrix of 64-bit whole numbers")
        if np.triu(factor, 1).any() or (np.diag(factor) <= 0).any() or np.abs(factor).max() > 2 * UNIT:
            raise ParameterError(
                f"factor must be lower triangular, with a positive diagonal and entries of at most {2 * UNIT}"
            )
        plan = {
            "factor": factor, "start": np.array(start), "last": np.array(last), "mu": np.array(float(mu)),
            "weight": np.array(weight), "chosen": np.array(chosen),
        }  # fmt: skip
        name = f"{PLAN}{start:04}"
        if self._state.has(name):
            known = self._state.read(name)
            if any(not np.array_equal(known[part], plan[part]) for part in plan):
                raise PrivacyError(
                    "an interrupted attempt to add this period used another plan: add the period with the settings of "
                    "that attempt"
                )
            return
        costs = self.costs(before=start) + self._cost(plan)
        if worst_cost(costs, terms.most_periods) > terms.mu**2 * (1 + ROUNDING):
            raise BudgetExceededError(
                f"a plan of mu = {mu:.6g} is above what earlier plans left of the budget of {terms.loss}: take a smaller mu"
            )
        self._state.write(name, plan)

    def _cost(self, plan: dict[str, AnyArray]) -> FloatArray:
        """Return the (periods, periods) matrix of one plan's costs in mu squared; see `costs`."""
        start, last = int(plan["start"]), int(plan["last"])
        columns = [max(0, t - start) if t <= last else -1 for t in range(self.terms.periods)]
        rows = min(self.terms.most_periods, start + 1)
        return cost_matrix(plan["factor"], columns, first_rows=rows) * float(plan["mu"]) ** 2

    def _merged(self, start: int) -> Adjacency:
        """Return the neighbouring relation of the table of all rows so far, in which a unit has rows of several periods.

        Its limit on a unit's rows is one period's limit times the number of periods up to ``start`` in which the unit
        may have rows.  Without a privacy unit it is one period's relation.
        """
        one = self.terms.adjacency
        times = min(self.terms.most_periods, start + 1)
        return one if one.unit is None else Adjacency(one.neighbors, one.unit, one.rows * times)

    def _plan(self, period: int) -> dict[str, AnyArray]:
        """Return the plan that covers a period, which is the last one begun by then; raise PrivacyError if there is none.

        Its arrays are ``factor``, ``start`` and ``last`` (periods), ``mu``, ``weight`` and ``chosen``.
        """
        for name in reversed(self._state.names(PLAN)):
            plan = self._state.read(name)
            if int(plan["start"]) <= period:
                if period > int(plan["last"]):
                    raise PrivacyError("no plan covers this period: make a new plan with ask()")
                return plan
        raise PrivacyError("the series has no plan before its first period: add the first period")

    def _kept(self, plan: dict[str, AnyArray]) -> dict[str, list[Any]]:
        """Return what is stored of a plan's repeated statistics for later answers, one list entry for each statistic.

        Keys: "sums" (exact), "multiplier" of the weighted sums, "sigma" of the noise, and "moves": the L2 sensitivity of
        the multiplied sums.
        """
        record = self._state.read(f"{KEPT}{int(plan['start']):04}")
        count = range(int(record["count"]))
        return {part: [record[f"{part}{i}"] for i in count] for part in ("sums", "multiplier", "sigma", "moves")}

    def _sums_of(self, plan: dict[str, AnyArray], period: int) -> list[IntArray]:
        """Return the stored exact sums of each statistic, (k,), for one column of a plan's factor.

        For the plan's start they are over all rows up to it, for another period over its rows alone.  Answers of later
        periods are weighted sums of them.
        """
        start = int(plan["start"])
        name = f"{KEPT}{start:04}" if period == start else f"{ANSWERS}{period:04}"
        sums = self._state.read(name, starting="sums")
        return [np.asarray(sums[f"sums{i}"], np.int64) for i in range(len(sums))]

    def _exact(self, queries: Sequence[Statistic]) -> list[IntArray]:
        """Return the exact integer sums of statistics over this period's rows, (k,) each; they need noise or stay stored.

        Rows that were taken back count -1.
        """
        rows = PeriodRows.of(self._stores[-1:], self._schema, self.terms.adjacency)
        return [np.asarray(one, np.int64) for one in rows.exact_each(list(queries))]

    def _check_planned(
        self, queries: Sequence[Statistic], kept: dict[str, list[Any]], plan: dict[str, AnyArray]
    ) -> None:
        """Raise PrivacyError unless the statistics are sums over rows whose sensitivity is within the plan's.

        The noise of all the plan's periods was set for the planned sensitivity.
        """
        if len(queries) != len(kept["sums"]):
            raise PrivacyError("queries must be the queries that the plan of the series was made for")
        first = int(plan["factor"][0, 0])
        for one, sums, multiplier, moves in zip(queries, kept["sums"], kept["multiplier"], kept["moves"], strict=True):
            norms = self._merged(int(plan["start"])).sensitivity(one)
            if not isinstance(one, LinearQueries) or one.k != len(sums):
                raise PrivacyError("queries must be the queries that the plan of the series was made for")
            if int(multiplier) * first * norms.l2 > float(moves) * (1 + ROUNDING):
                raise PrivacyError(
                    "a query has a larger sensitivity than the plan of the series allows: ask the queries that the plan was "
                    "made for"
                )

    def _questions(self, period: int) -> list[str]:
        """Return the names of the private records of a period's answered questions, one each.

        The records show that the period was begun, and hold the exact sums that `keep` stores.
        """
        return self._state.names(f"{QUESTION}{period:04}-")
