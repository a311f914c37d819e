"""`ReleaseSeries`: releases over time under one promise.  A façade; the noise is the room's, the arithmetic the mechanism's."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from synthdp.answers.over_time import OverTime
from synthdp.answers.questions import Count, Question, Sum, count
from synthdp.arrays import GridIndices, IntArray
from synthdp.checks import check_number, whole
from synthdp.curator.curator import Ledger, SeriesRoom, SeriesTerms
from synthdp.errors import DataError, ParameterError, SchemaError
from synthdp.estimators.refusals import EPSILONS
from synthdp.estimators.series_folder import SeriesFolder
from synthdp.measurements import Measurements
from synthdp.mechanisms.named import mechanism_named
from synthdp.mechanisms.series.asked import (
    KEPT,
    PUBLIC,
    AskedPlan,
    ask,
    choose,
    chosen_by_public,
    correlation_of,
    differences,
)
from synthdp.mechanisms.series.histories import model_of_rows, rows_of_period
from synthdp.mechanisms.series.refit import Refit
from synthdp.mechanisms.series.schedule import stages_of
from synthdp.pictures.over_time import picture_over_time
from synthdp.pictures.picture import Picture
from synthdp.planning import Plan, plan
from synthdp.privacy.accounting import gdp_to_epsilon
from synthdp.privacy.assumptions import assumptions
from synthdp.privacy.loss import ApproxDP, GaussianDP
from synthdp.privacy.neighbors import Adjacency, neighbors_named
from synthdp.privacy.receipt import Item, Receipt
from synthdp.privacy.series_factor import prefix_covariance
from synthdp.privacy.versions import noise_versions
from synthdp.randomness import RandomState, generator
from synthdp.release import Release
from synthdp.report.series import series_page
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.schema import Schema, schema_given
from synthdp.tables.format import TableFormat
from synthdp.tables.results import dataframe
from synthdp.tables.sources.resolve import source_of
from synthdp.tables.write import library_for, write_blocks

NORMAL = 1.959964
"""Derived: the 97.5 % point of the normal law."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SeriesPlan:
    """What a series will be like, before any spend.

    Parameters
    ----------
    periods
        A DataFrame with one row a period: about how many rows there are so far, and how many times the noise is that of one
        release of all these rows at the whole budget: of a count of all rows so far, and of one of the period's rows.
    last
        The plan of a single release that is as noisy as the table of all periods.
    """

    periods: Any
    last: Plan

    def __str__(self) -> str:
        return f"{self.periods.to_string(index=False)}\n{self.last}"


class ReleaseSeries:
    """Release a synthetic table every period, all under one promise.

    Each period's rows are read once, by `add`.  The answers of all periods share their noise, so that the table of all rows
    so far is much nearer to one release of them all than tables of split budgets are.

    Costs ``epsilon`` and ``delta`` for the whole series, booked in the ledger before the first row is read.

    Parameters
    ----------
    schema
        What is publicly known, complete: nothing is discovered.  Left out, that of the series at ``path``.
    epsilon, delta
        The privacy loss of the whole series; delta above 0.
    periods
        How many there will be.
    period
        What a period is called, for tables and pictures.
    path
        The folder of the series: one that exists is gone on with, with the settings that it was started with.
    neighbors
        As in `SyntheticRelease`; ``"replace_one"`` is within a period, and the number of rows of each period is public.
    privacy_unit, max_rows_per_unit, max_periods_per_unit
        The column that names whom to protect, how many rows of each are used in a period, and in how many periods.  Rows of
        a unit in later periods are left out.
    workload, target, bins
        As in `SyntheticRelease`.
    choose_again
        Whether the tables are chosen again in the third period, for which `add` needs the earlier rows once more.
    public
        A public table like the private ones, such as an earlier year: it chooses the tables, and no budget is spent on it.
    rows_per_period
        With ``public``, about how many private rows a period has; default: as many as ``public``.
    ledger, dataset
        As in `SyntheticRelease`.
    key
        A secret of 16 bytes or more that the private files are encrypted with; it is needed again for every period.
    random_state
        Seed of the sampling; it never reaches noise.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> schema = sd.Schema({"ward": sd.Categorical(["icu", "other"]), "night": sd.Boolean()})
    >>> month = pd.DataFrame({"ward": ["icu", "other", "other"] * 500, "night": [True, False] * 750})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     series = sd.ReleaseSeries(schema=schema, epsilon=1.0, periods=3, path=f"{folder}/beds.series")
    ...     first, second = series.add(month), series.add(month)
    ...     answer = series.answer(sd.count("ward == 'icu'"), by="period")
    >>> len(answer), bool((answer["upper"] > answer["estimate"]).all())
    (2, True)
    """

    def __init__(
        self,
        *,
        schema: Schema | Mapping[str, Any] | str | PathLike[str] | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-9,
        periods: int = 12,
        period: str = "period",
        path: str | PathLike[str] | None = None,
        neighbors: str = "add_remove",
        privacy_unit: str | None = None,
        max_rows_per_unit: int = 1,
        max_periods_per_unit: int | None = None,
        workload: Any = None,
        target: str | None = None,
        bins: int = 32,
        choose_again: bool = True,
        public: Any = None,
        rows_per_period: int | None = None,
        ledger: str | PathLike[str] | Ledger | None = None,
        dataset: str | None = None,
        key: bytes | None = None,
        random_state: RandomState = None,
    ) -> None:
        if path is None:
            raise ParameterError("path must name the folder of the series: its state has to outlive this process")
        if dataset is not None and ledger is None:
            raise ParameterError(f"dataset ({dataset!r}) is a name in a ledger: give the ledger too, or leave both out")
        if key is not None and (not isinstance(key, bytes) or len(key) < 16):
            raise ParameterError("key must be 16 bytes or more")
        self._folder = SeriesFolder(path)
        known = self._folder.settings()
        if known is None:
            if schema is None:
                raise ParameterError("schema must be given to start a series")
            known = _settings(
                schema, epsilon=epsilon, delta=delta, periods=periods, period=period, neighbors=neighbors,
                privacy_unit=privacy_unit, rows=max_rows_per_unit, most_periods=max_periods_per_unit,
                choose_again=choose_again and public is None, workload=workload, target=target, bins=bins,
            ) | {
                "ledger": None if ledger is None else (ledger if isinstance(ledger, Ledger) else Ledger(ledger)).path.name,
                "dataset": None if ledger is None else ("default" if dataset is None else dataset),
            }  # fmt: skip
            self._new = True
        else:
            self._new = False
            _check_same(known, schema, epsilon=epsilon, delta=delta, periods=periods)
        self._settings = known
        self.schema = Schema.from_json(json.dumps(known["schema"]), source="the series")
        self.epsilon, self.delta = float(known["epsilon"]), float(known["delta"])
        self.periods, self.period = int(known["periods"]), str(known["period"])
        adjacency = Adjacency(neighbors_named(known["neighbors"]), known["privacy_unit"], known["max_rows_per_unit"])
        self._terms = SeriesTerms(
            loss=ApproxDP(self.epsilon, self.delta), adjacency=adjacency, periods=self.periods,
            most_periods=int(known["max_periods_per_unit"]),
        )  # fmt: skip
        if ledger is not None and not isinstance(ledger, Ledger):
            ledger = Ledger(ledger)
        self._ledger, self._dataset, self._key = ledger, "default" if dataset is None else dataset, key
        self._public, self._rows_per_period = public, rows_per_period
        self.random_state = random_state
        self._mechanism = mechanism_named(
            "adaptive_marginals", workload=_wished(known["workload"]), target=known["target"], bins=known["bins"],
            solver="auto",
        )  # fmt: skip
        self._mechanism.output_schema(self.schema)
        if self.added == self.periods:  # the last period was added by a process that ended before it deleted them
            self._room().forget()

    def __repr__(self) -> str:
        return f"ReleaseSeries({self.added} of {self.periods} periods, {self._terms.loss})"

    @property
    def added(self) -> int:
        """How many periods were added."""
        return self._folder.done

    def start(self) -> ReleaseSeries:
        """Make the folder and book the whole series in the ledger; `add` does so if nobody did.

        Costs ``epsilon`` and ``delta``, for the neighbours of the series, once.
        """
        if self._new:
            self._folder.begin(self._settings)
            self._new = False
        if not self.added or self._folder.private.is_dir():
            self._room().start()
        return self

    def add(self, table: Any, *, history: Any = None) -> Release[SyntheticModel]:
        """Add the rows of the next period, and return what is released about them.

        Costs nothing beyond what the series cost when it was started.

        Parameters
        ----------
        table
            The new rows: a dataframe or any source.
        history
            All earlier rows, unchanged, in the period in which tables are chosen again: the list of the earlier periods'
            tables in order, or, without a ``privacy_unit``, one table of all.  Other periods do not need them.

        Raises
        ------
        DataError
            If all periods were added, the earlier rows are not those of before, or the period was begun with other rows.
        """
        period = self.added
        if period >= self.periods:
            raise DataError(f"all {self.periods} periods were added: a new promise needs a new series")
        self.start()
        room = self._room()
        earlier = None if history is None else (list(history) if isinstance(history, list | tuple) else [history])
        source = source_of(table, self.schema)
        with room.adding(period, source, earlier=earlier if period else None):
            plan, answers = self._asked(room, period, with_history=bool(earlier))
            rows = room.rows if self._terms.adjacency.rows_are_public else None
            entry = room.entry
        self._publish(plan, period, answers, rows=rows, entry=entry, format=TableFormat.of(source, self.schema))
        if period + 1 == self.periods:
            room.forget()
        return self.release_(period)

    def release_(self, period: int) -> Release[SyntheticModel]:
        """Return what was released about the rows of one period, counted from 0; it never changes."""
        return self._folder.release(self._checked(period))

    def rows_(self, period: int) -> Any:
        """Return the synthetic rows that were published for a period, counted from 0; they never change.

        Rows of later periods are drawn so that all published rows together follow the model of all rows.
        """
        rows = self._folder.rows(self._checked(period))
        return self._folder.release(period).model.table_of(rows, generator(period))

    def write_rows(self, period: int, path: str | PathLike[str]) -> None:
        """Write the rows that were published for a period to a file, csv or parquet by ending; see `rows_`."""
        rows, model = self._folder.rows(self._checked(period)), self._folder.release(period).model
        form = model.format.for_files(model.schema, library=library_for(path))
        write_blocks(path, iter([model.table_of(rows, generator(period), format=form)]))

    @property
    def cumulative_(self) -> Release[SyntheticModel]:
        """What is released about all rows so far: a new model every period, nearer to them than the published rows."""
        return self._folder.cumulative(self._checked(self.added - 1))

    @property
    def receipt_(self) -> Receipt:
        """The account of the whole series."""
        return self.cumulative_.receipt

    def plan(self, rows_per_period: int = 1000) -> SeriesPlan:
        """Say how noisy the tables of all periods will be, before any spend; reads no row.

        Parameters
        ----------
        rows_per_period
            About how many rows a period has, an assumption of yours.
        """
        each = whole("rows_per_period", rows_per_period, least=1)
        stages, spent = (
            stages_of(self.periods, again=bool(self._settings["choose_again"])),
            np.zeros((self.periods,) * 2),
        )
        most, mu = self._terms.most_periods, self._terms.mu
        factors = [stage.factor(most) for stage in stages]
        so_far, alone = np.zeros(self.periods), np.zeros(self.periods)
        for stage, factor in zip(stages, factors, strict=True):
            first = stage.mu(factor, spent, most, mu=mu)
            spent = spent + stage.costs(factor, self.periods, most) * first**2
            unit = int(factor[0, 0]) ** 2 * min(most, stage.start + 1) ** 2 * (mu / first) ** 2
            prefix = prefix_covariance(factor) * unit
            for i, t in enumerate(range(stage.start, stage.last + 1)):
                so_far[t] = prefix[i, i]
                before = so_far[t - 1] if t else 0.0
                alone[t] = prefix[i, i] + before - (2 * prefix[i, i - 1] if i else 0.0)
        frame = dataframe({
            "period": list(range(1, self.periods + 1)), "rows_so_far": [each * t for t in range(1, self.periods + 1)],
            "noise_so_far": np.sqrt(so_far).round(3), "noise_of_period": np.sqrt(alone).round(3),
        })  # fmt: skip
        same = gdp_to_epsilon(mu / float(np.sqrt(so_far[-1])), self.delta)
        last = plan(
            self.schema, rows=each * self.periods, epsilon=same, delta=self.delta, neighbors=self._settings["neighbors"],
            mechanism=self._mechanism,
        )  # fmt: skip
        return SeriesPlan(periods=frame, last=last)  # type: ignore[arg-type]

    def answer(self, question: Question, *, by: str | None = None, cumulative: bool = False) -> Any:
        """Answer a question about all rows so far, or about every period, with error bars.

        Parameters
        ----------
        question
            As for a release.  By period it is a count or a sum without groups.
        by
            ``"period"`` for one row a period, with the interval of each and a band that holds for all at once.
        cumulative
            By period: whether each row is about all rows up to the period; any question of one number then.
        """
        if by is None:
            return self.cumulative_.answer(question)
        if by not in ("period", self.period):
            raise ParameterError(f"by ({by!r}) must be 'period'")
        found = self.over_time(question, cumulative=cumulative)
        least = 0.0 if isinstance(question, Count) else -np.inf
        return found.to_frame(least=least)

    def difference(self, question: Question, first: int, second: int, *, cumulative: bool = False) -> Any:
        """Return how much larger the answer of one period is than that of another, with its error bar.

        Parameters
        ----------
        question, cumulative
            As in `answer`.
        first, second
            Periods, counted from 0: the second less the first.
        """
        found = self.over_time(question, cumulative=cumulative)
        return _one(found.difference(self._checked(first), self._checked(second)))

    def trend(self, question: Question, *, cumulative: bool = False) -> Any:
        """Return by how much the answer changes from one period to the next, by generalised least squares.

        Parameters
        ----------
        question, cumulative
            As in `answer`.
        """
        return _one(self.over_time(question, cumulative=cumulative).trend())

    def over_time(self, question: Question, *, cumulative: bool = False) -> OverTime:
        """Return the estimates of all periods, and the covariance of their errors.

        Where an answer comes from the model, the errors of different periods are taken to be correlated as their noise is.

        Raises
        ------
        ParameterError
            If the question has several numbers, or is no count or sum and not cumulative.
        """
        if not cumulative and not isinstance(question, Count | Sum):
            raise ParameterError("by single periods only counts and sums are answered: pass cumulative=True")
        if getattr(question, "by", ()):
            raise ParameterError("by must be left out of a question that is asked for every period")
        done = self._checked(self.added - 1) + 1
        answers = [self._folder.cumulative(t).answer(question) for t in range(done)]
        if any(len(one) != 1 for one in answers):
            raise ParameterError("a question for every period must have one number")
        errors = np.array([float(one["standard_error"].iloc[0]) for one in answers])
        correlation = correlation_of([self._folder.plan(start) for start in self._folder.starts()], done)
        names = tuple(f"{self.period} {t + 1}" for t in range(done))
        found = OverTime(
            names, np.array([float(one["estimate"].iloc[0]) for one in answers]),
            correlation * np.outer(errors, errors),
        )  # fmt: skip
        return found if cumulative else found.of_single_periods()

    def report(self, path: str | PathLike[str], *, title: str | None = None, counts: Sequence[Question] = ()) -> None:
        """Write a page about the series: the rows over time, and other counts with their bands; publishable.

        Parameters
        ----------
        path
            An HTML file.
        title
            Of the page.
        counts
            Counts that are drawn beside the number of rows.
        """
        wanted = [("number of rows", count()), *((f"question {i + 1}", one) for i, one in enumerate(counts))]
        page = series_page(
            [(name, self.over_time(one)) for name, one in wanted], receipt=self.receipt_,
            title=title or f"A series of {self.added} of {self.periods} releases",
        )  # fmt: skip
        try:
            Path(path).write_text(page, encoding="utf-8")
        except OSError as error:
            raise DataError(f"'{path}' cannot be written: {error.strerror}") from None

    def plot(self, question: Question, *, cumulative: bool = False) -> Picture:
        """Return a picture of the answer over time with its bands; ``save`` writes it; publishable.

        Parameters
        ----------
        question, cumulative
            As in `answer`.
        """
        return picture_over_time(self.over_time(question, cumulative=cumulative), "by period")

    def _room(self) -> SeriesRoom:
        return SeriesRoom(
            self._folder.private, schema=self.schema, terms=self._terms, ledger=self._ledger, dataset=self._dataset,
            key=self._key,
        )  # fmt: skip

    def _checked(self, period: int) -> int:
        if self.added < 1:
            raise DataError("the series has no period yet: add one")
        return whole("period", period, least=0, most=self.added - 1)

    def _asked(self, room: SeriesRoom, period: int, *, with_history: bool) -> tuple[AskedPlan, list[IntArray]]:
        """Return the plan that a period belongs to, and its noisy answers; a new plan if one is due."""
        stages = {stage.start: stage for stage in stages_of(self.periods, again=bool(self._settings["choose_again"]))}
        before = [start for start in self._folder.starts() if start < period]
        if period not in stages:
            current = self._folder.plan(before[-1])
            return current, room.answers(current.queries)
        stage, most = stages[period], self._terms.most_periods
        factor = stage.factor(most)
        mu = stage.mu(factor, room.costs(before=period), most, mu=self._terms.mu)
        if period == 0 and self._public is not None:
            release, places, parts = chosen_by_public(
                self._public, self.schema, self._mechanism, mu=mu, adjacency=self._terms.adjacency,
                rows=self._times_public(),
            )  # fmt: skip
            return ask(room, release, places, parts, stage, factor=factor, mu=mu, note=PUBLIC)
        if period == 0 or with_history:
            return choose(room, self._mechanism, stage, factor=factor, mu=mu)
        earlier = self._folder.plan(before[-1])
        told = [self._folder.answers(t) for t in range(earlier.start, period)]
        parts = [
            (one.multiplier * self._terms.adjacency.sensitivity(one.queries).l2 / one.sigma) ** 2
            for one in earlier.statistics
        ]
        known = replace(earlier.release, measurements=earlier.prefix(told))
        return ask(room, known, earlier.places, parts, stage, factor=factor, mu=mu, note=KEPT)

    def _times_public(self) -> float:
        """Return about how many times as many rows as the public table the whole series will have."""
        if self._rows_per_period is None:
            return float(self.periods)
        return self.periods * whole("rows_per_period", self._rows_per_period, least=1) / max(1, len(self._public))

    def _publish(
        self, plan: AskedPlan, period: int, answers: list[IntArray], *, rows: int | None, entry: int | None,
        format: TableFormat,  # noqa: A002 - the word users know
    ) -> None:  # fmt: skip
        """Fit what the answers say, draw the period's rows, and write both, whole or not at all."""
        rng = generator(self.random_state)
        told = [*(self._folder.answers(t) for t in range(plan.start, period)), answers]
        before = {} if not period else _joined([self._folder.rows(t) for t in range(period)])
        known = None if rows is None else rows + (0 if not before else len(next(iter(before.values()))))
        measured = plan.prefix(told, rows=known)
        model = plan.release.output
        if period > plan.start:
            start = model if known is None else replace(model, total=float(known))
            model = Refit()(start, measured, rng)
        model = replace(model, format=format.suited(model.schema))
        published = rows_of_period(model, before, rng)
        receipt = self._receipt(plan, period, sum(len(one) for one in answers), entry)
        cumulative: Release[SyntheticModel] = replace(
            plan.release, mechanism="release series, all rows so far", output=model, loss=self._terms.loss,
            receipt=receipt.noted(*model.notes), measurements=measured,
        )  # fmt: skip
        release = replace(
            cumulative, mechanism="release series, rows of one period", output=model_of_rows(model, published),
            measurements=self._about_period(plan, period, told),
        )  # fmt: skip
        if period == plan.start:
            self._folder.write_plan(plan)
        self._folder.write_period(period, answers=answers, release=release, cumulative=cumulative, rows=published)

    def _about_period(self, plan: AskedPlan, period: int, told: list[list[IntArray]]) -> tuple[Measurements, ...]:
        """Return what the answers say about the rows of one period alone."""
        if period > plan.start or period == 0:
            return plan.measured(told, np.eye(len(told))[-1])
        return differences(plan.prefix(told), self._folder.cumulative(period - 1).measurements)

    def _receipt(self, plan: AskedPlan, period: int, answers: int, entry: int | None) -> Receipt:
        terms = self._terms
        item = Item(
            step=f"a series of {terms.periods} periods, {period + 1} of them so far", mechanism="discrete Gaussian",
            answers=answers * (period + 1), sensitivity=1.0, stddev=_noise_of_rows(plan), loss=GaussianDP(terms.mu),
        )  # fmt: skip
        said = [f"a period's rows come in that period; {terms.periods} periods in all, no more"]
        if terms.adjacency.unit is not None:
            said.append(
                f"rows of a value of {terms.adjacency.unit!r} are used in its first {terms.most_periods} periods"
                if terms.most_periods < terms.periods
                else f"a value of {terms.adjacency.unit!r} may have rows in every period"
            )
        return Receipt(
            total=terms.loss, adjacency=terms.adjacency, items=(item,),
            assumptions=(*assumptions(self.schema, self.schema, terms.adjacency), *said), notes=(plan.note,),
            versions=noise_versions(), ledger=self._settings["ledger"], dataset=self._settings["dataset"],
            entries=() if entry is None else (entry,),
        )  # fmt: skip


def _noise_of_rows(plan: AskedPlan) -> float:
    """Return the noise of the first answer, in rows: that of their number where it is private."""
    one = plan.statistics[0]
    return one.decoded(plan.factor, [np.zeros(one.queries.k, np.int64)], np.ones(1)).stddev


def _joined(parts: Sequence[Mapping[str, GridIndices]]) -> dict[str, GridIndices]:
    return {name: np.concatenate([one[name] for one in parts]) for name in parts[0]}


def _one(found: tuple[float, float]) -> Any:
    estimate, error = found
    return dataframe({
        "estimate": [estimate], "standard_error": [error], "lower": [estimate - NORMAL * error],
        "upper": [estimate + NORMAL * error],
    })  # fmt: skip


def _settings(schema: Any, **given: Any) -> dict[str, Any]:
    """Return the settings of a new series as a document, checked."""
    declared = schema_given(schema)
    if declared.undeclared:
        raise SchemaError(
            f"column {declared.undeclared[0]!r} must have declared bounds or levels: a series discovers none"
        )
    check_number("epsilon", given["epsilon"], least=EPSILONS[0], most=EPSILONS[1])
    check_number("delta", given["delta"], above=0, below=1)
    neighbors_named(given["neighbors"])
    periods = whole("periods", given["periods"], least=1)
    most = given["most_periods"]
    if most is None:
        most = 1 if given["privacy_unit"] is None else periods
    workload = given["workload"]
    return {
        "schema": json.loads(declared.to_json()), "epsilon": float(given["epsilon"]), "delta": float(given["delta"]),
        "periods": periods, "period": str(given["period"]), "neighbors": str(given["neighbors"]),
        "privacy_unit": given["privacy_unit"], "max_rows_per_unit": whole("max_rows_per_unit", given["rows"], least=1),
        "max_periods_per_unit": whole("max_periods_per_unit", most, least=1, most=periods),
        "choose_again": bool(given["choose_again"]), "target": given["target"], "bins": whole("bins", given["bins"], least=2),
        "workload": None if workload is None else [sorted(one) for one in workload],
    }  # fmt: skip


def _wished(workload: Any) -> Any:
    return None if workload is None else [tuple(one) for one in workload]


def _check_same(known: Mapping[str, Any], schema: Any, **given: Any) -> None:
    """Refuse settings that differ from those of the series in the folder, where they were given."""
    if schema is None:
        return
    declared = json.loads(schema_given(schema).to_json())
    if declared != known["schema"]:
        raise ParameterError("schema must be that of the series in the folder: give another path for another series")
    for name, value in given.items():
        if value != known[name]:
            raise ParameterError(f"{name} ({value!r}) must be that of the series in the folder ({known[name]!r})")
