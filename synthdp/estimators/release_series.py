"""`ReleaseSeries`: releases over time under one privacy guarantee.

The curator side adds noise, the mechanism computes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from synthdp.answers.over_time import OverTime
from synthdp.answers.questions import Count, Question, Sum, count
from synthdp.arrays import IntArray
from synthdp.checks import whole
from synthdp.curator import Ledger, open_series
from synthdp.errors import DataError, ParameterError
from synthdp.estimators.public_table import read_public
from synthdp.estimators.series_folder import SeriesFolder, check_same, ledger_of, new_settings
from synthdp.files import writing
from synthdp.mechanisms.named import table_mechanism_named
from synthdp.mechanisms.series_asked import (
    KEPT,
    PUBLIC,
    AskedPlan,
    ask,
    choose,
    chosen_by_public,
    correlation_of,
    cost_part,
    stages_of,
)
from synthdp.mechanisms.series_periods import period_of
from synthdp.privacy.loss import ApproxDP, GaussianDP
from synthdp.privacy.neighbors import Adjacency, neighbors_named
from synthdp.privacy.noise import noise_versions
from synthdp.privacy.receipt import Item, Receipt, assumptions
from synthdp.randomness import RandomState, generator
from synthdp.release import Release
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.schema import Schema
from synthdp.tables.format import TableFormat
from synthdp.tables.resolve import source_of
from synthdp.tables.results import dataframe
from synthdp.tables.sources.file_source import source_at
from synthdp.tables.sources.write import library_for, write_blocks

if TYPE_CHECKING:
    from synthdp.curator import SeriesRoom
    from synthdp.pictures.picture import Picture
    from synthdp.planning.series_plan import SeriesPlan

NORMAL = 1.959964
"""z-value of a two-sided 95 % interval.  Derived: the 97.5 % point of the normal distribution."""


class ReleaseSeries:
    """Release a synthetic table every period, all under one privacy guarantee.

    Method `add` reads each period's rows once.  The noise of all periods is correlated.  So the table of all rows so
    far is much more accurate than with a budget split over periods.

    Costs ``epsilon`` and ``delta`` for the whole series, booked in the ledger before the first row is read.

    Parameters
    ----------
    schema
        A complete schema, because a series discovers nothing.  Default: the schema of the series at ``path``.
    epsilon, delta
        The privacy loss of the whole series; delta above 0.
    periods
        Total number of periods.
    period
        Name of a period, such as "month", for tables and pictures.
    path
        The folder of the series.  An existing series is continued with the settings that it was started with.
    neighbors
        As in `SyntheticRelease`.  With ``"replace_one"``, a row is replaced within its period, and the number of rows
        of each period is public.
    privacy_unit, max_rows_per_unit, max_periods_per_unit
        The column that names the persons to protect, the most rows per person and period, and the most periods per
        person.  Rows of a person in later periods are left out.
    workload, target, bins
        As in `SyntheticRelease`.
    choose_again
        Whether the marginals to measure are selected again in the third period; `add` then needs the earlier rows
        again.
    public
        A public table like the private ones, such as an earlier year; its rows are not protected.  It selects the
        marginals to measure without spend, and is the prior of the models.  Pass the table again if another process
        continues the series.
    rows_per_period
        Assumed number of private rows per period, with ``public``; default: the number of rows of ``public``.
    ledger, dataset
        As in `SyntheticRelease`.
    key
        A secret of 16 bytes or more that encrypts the private files; every period needs the same key.
    random_state
        Seed of the sampling; privacy noise never uses it.

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
            raise ParameterError("path must name a folder for the series: its state is kept there between periods")
        ledger = ledger_of(ledger, dataset=dataset, key=key)
        self._folder = SeriesFolder(path)
        known = self._folder.settings()
        self._new = known is None
        if known is None:
            known = new_settings(
                schema, epsilon=epsilon, delta=delta, periods=periods, period=period, neighbors=neighbors,
                privacy_unit=privacy_unit, max_rows_per_unit=max_rows_per_unit, max_periods_per_unit=max_periods_per_unit,
                choose_again=choose_again and public is None, workload=workload, target=target, bins=bins, ledger=ledger,
                dataset=dataset,
            )  # fmt: skip
        else:
            check_same(known, schema, epsilon=epsilon, delta=delta, periods=periods)
        self._settings = known
        self.schema = Schema.from_json(json.dumps(known["schema"]), source="the series")
        self.epsilon, self.delta = float(known["epsilon"]), float(known["delta"])
        self.periods, self.period = int(known["periods"]), str(known["period"])
        self._ledger, self._dataset, self._key = ledger, "default" if dataset is None else dataset, key
        self._public = source_at(public) if isinstance(public, (str, PathLike)) else public
        self._rows_per_period = rows_per_period
        self._public_rows = None if public is None else read_public(public, self.schema)
        self._terms = self._room().terms
        self.random_state = random_state
        wished = None if known["workload"] is None else [tuple(one) for one in known["workload"]]
        self._mechanism = table_mechanism_named(
            "adaptive_marginals", workload=wished, target=known["target"], bins=known["bins"],
            solver="auto",
        )  # fmt: skip
        self._mechanism.output_schema(self.schema)
        if self.added == self.periods:  # the last period was added by a process that ended before it deleted them
            self._room().forget()

    def __repr__(self) -> str:
        return f"ReleaseSeries({self.added} of {self.periods} periods, {self._terms.loss})"

    @property
    def added(self) -> int:
        """Return the number of periods added so far."""
        return self._folder.done

    def start(self) -> ReleaseSeries:
        """Create the folder and book the whole series in the ledger; `add` calls this method if needed.

        Costs ``epsilon`` and ``delta``, for the neighbours of the series, once.
        """
        if self._new:
            self._folder.begin(self._settings)
            self._new = False
        if not self.added or self._folder.private.is_dir():
            self._room().start()
        return self

    def add(self, table: Any, *, corrections: Any = None, history: Any = None) -> Release[SyntheticModel]:
        """Add the rows of the next period, and return the release about these rows.

        Costs nothing beyond the cost of the series.

        Parameters
        ----------
        table
            The new rows: a dataframe or any source.
        corrections
            Wrong rows of earlier periods, as they were added; they count -1 from now on.  The corrected rows are added
            as new rows.  Corrections need a ``privacy_unit`` with ``max_periods_per_unit`` of 2 or more, and count
            among the person's rows and periods.  Published rows do not change.
        history
            All earlier rows, unchanged, for the period in which marginals are selected again.  Give the list of the
            earlier periods' tables in order; without a ``privacy_unit``, one table of all is allowed.  For a period
            with corrections, give the pair ``(table, corrections)``.  Other periods need no history.

        Raises
        ------
        DataError
            If all periods were added, the earlier rows were changed, or the period was begun with other rows.  Also if
            the table has no rows and there are no corrections, or if rows are corrected in the first period.
        ParameterError
            If corrections have no ``privacy_unit`` with several periods.
        """
        period = self.added
        if period >= self.periods:
            raise DataError(f"all {self.periods} periods of this series were added: start a new series for more")
        source = source_of(table, self.schema)
        if corrections is None and getattr(source, "is_empty", False):
            raise DataError("the table has no rows, so there is nothing to release: add the period once it has rows")
        self.start()
        room = self._room()
        earlier = None if history is None else (list(history) if isinstance(history, list | tuple) else [history])
        with room.adding(period, source, taken_back=corrections, earlier=earlier if period else None):
            plan, answers = self._asked(room, period, with_history=bool(earlier))
            rows = room.rows if self._terms.adjacency.rows_are_public else None
            entry = room.entry
        self._publish(plan, period, answers, rows=rows, entry=entry, format=TableFormat.of(source, self.schema))
        if period + 1 == self.periods:
            room.forget()
        return self.release_(period)

    def release_(self, period: int) -> Release[SyntheticModel]:
        """Return the release about the rows of one period, counted from 0; a published release never changes."""
        return self._folder.release(self._checked(period))

    def rows_(self, period: int) -> Any:
        """Return the synthetic rows that were published for a period, counted from 0; published rows never change.

        Rows of later periods are drawn so that all published rows together follow the model of all rows.
        """
        return self._table(self._checked(period))

    def write_rows(self, period: int, path: str | PathLike[str]) -> None:
        """Write the published rows of a period to a file; its ending gives the format, CSV or Parquet."""
        write_blocks(path, iter([self._table(self._checked(period), library=library_for(path))]))

    @property
    def cumulative_(self) -> Release[SyntheticModel]:
        """Return the release about all rows so far.

        Each period fits a new model, which is more accurate than the published rows.
        """
        return self._folder.cumulative(self._checked(self.added - 1))

    @property
    def receipt_(self) -> Receipt:
        """Return the receipt of the whole series: its privacy guarantee, noise and assumptions."""
        return self.cumulative_.receipt

    def plan(self, rows_per_period: int = 1000) -> SeriesPlan:
        """Return the expected noise of all periods, before any spend; no private row is read.

        Parameters
        ----------
        rows_per_period
            Your estimate of the number of rows per period.
        """
        from synthdp.planning.series_plan import plan_series

        return plan_series(
            self.schema, self._mechanism, periods=self.periods, at_most=self._terms.most_periods, mu=self._terms.mu,
            delta=self.delta, again=bool(self._settings["choose_again"]), neighbors=self._settings["neighbors"],
            rows=whole("rows_per_period", rows_per_period, least=1),
        )  # fmt: skip

    def answer(self, question: Question, *, by: str | None = None, cumulative: bool = False) -> Any:
        """Return the answer to a question about all rows so far, or about every period, with error bars; costs nothing.

        Parameters
        ----------
        question
            A question, as for a release.  By period, the question must be a count or a sum without groups.
        by
            ``"period"`` for one row per period, each with an interval and a simultaneous band over all periods.
        cumulative
            Whether each period's answer is about all rows up to the period; then any question with one number is
            allowed.
        """
        if by is None:
            return self.cumulative_.answer(question)
        if by not in ("period", self.period):
            raise ParameterError(f"by ({by!r}) must be 'period'")
        found = self.over_time(question, cumulative=cumulative)
        least = 0.0 if isinstance(question, Count) else -np.inf
        return found.to_frame(least=least)

    def difference(self, question: Question, first: int, second: int, *, cumulative: bool = False) -> Any:
        """Return the answer of the second period minus the answer of the first period, with its error bar.

        The result is a dataframe of one row: ``estimate``, ``standard_error``, ``lower`` and ``upper``.

        Parameters
        ----------
        question, cumulative
            As in `answer`.
        first, second
            The two periods, counted from 0.
        """
        found = self.over_time(question, cumulative=cumulative)
        return _one(found.difference(self._checked(first), self._checked(second)))

    def trend(self, question: Question, *, cumulative: bool = False) -> Any:
        """Return the mean change of the answer per period, by generalised least squares, as errors are correlated.

        The result is a dataframe of one row: ``estimate``, ``standard_error`` and the 95 % interval, ``lower`` and
        ``upper``.  ParameterError is raised before the second period.

        Parameters
        ----------
        question, cumulative
            As in `answer`.
        """
        return _one(self.over_time(question, cumulative=cumulative).trend())

    def over_time(self, question: Question, *, cumulative: bool = False) -> OverTime:
        """Return the estimates of all periods and the covariance of their errors.

        For answers from the model, errors of different periods are taken to be correlated as the noise is.

        Raises
        ------
        ParameterError
            If the answer has several numbers, or the question is no count or sum although ``cumulative`` is False.
        """
        if not cumulative and not isinstance(question, Count | Sum):
            raise ParameterError(
                "only counts and sums can be answered for single periods: pass cumulative=True for another question"
            )
        if getattr(question, "by", ()):
            raise ParameterError("a question that is asked for every period cannot have by: leave by out")
        done = self._checked(self.added - 1) + 1
        answers = [self._folder.cumulative(t).answer(question) for t in range(done)]
        if any(len(one) != 1 for one in answers):
            raise ParameterError(
                "a question that is asked for every period must have one number as its answer: ask for a single number"
            )
        errors = np.array([float(one["standard_error"].iloc[0]) for one in answers])
        correlation = correlation_of([self._folder.plan(start) for start in self._folder.starts()], done)
        names = tuple(f"{self.period} {t + 1}" for t in range(done))
        found = OverTime(
            names, np.array([float(one["estimate"].iloc[0]) for one in answers]),
            correlation * np.outer(errors, errors),
        )  # fmt: skip
        return found if cumulative else found.of_single_periods()

    def report(self, path: str | PathLike[str], *, title: str | None = None, counts: Sequence[Question] = ()) -> None:
        """Write an HTML page about the series: the number of rows and other counts over time, with bands.

        The page can be published.

        Parameters
        ----------
        path
            Path of the HTML file.
        title
            Title of the page.
        counts
            Counts that are drawn in addition to the number of rows.
        """
        from synthdp.report.html_page import series_page

        wanted = [("number of rows", count()), *((f"question {i + 1}", one) for i, one in enumerate(counts))]
        page = series_page(
            [(name, self.over_time(one)) for name, one in wanted], receipt=self.receipt_,
            title=title or f"A series of {self.added} of {self.periods} releases",
        )  # fmt: skip
        with writing(path):
            Path(path).write_text(page, encoding="utf-8")

    def plot(self, question: Question | None = None, *, cumulative: bool = False) -> Picture:
        """Return a picture of the answer over time with its bands, which can be published; ``save`` writes it.

        Parameters
        ----------
        question, cumulative
            As in `answer`; default: the number of rows.
        """
        title = "number of rows by period" if question is None else "by period"
        from synthdp.pictures.line_charts import picture_over_time

        return picture_over_time(self.over_time(question or count(), cumulative=cumulative), title)

    def _room(self) -> SeriesRoom:
        """Return the curator side of this series, which reads rows and adds noise."""
        known = self._settings
        return open_series(
            self._folder.private, schema=self.schema, loss=ApproxDP(self.epsilon, self.delta), periods=self.periods,
            adjacency=Adjacency(neighbors_named(known["neighbors"]), known["privacy_unit"], known["max_rows_per_unit"]),
            most_periods=int(known["max_periods_per_unit"]), ledger=self._ledger, dataset=self._dataset, key=self._key,
        )  # fmt: skip

    def _table(self, period: int, *, library: str | None = None) -> Any:
        """Return a period's published rows as a table; labels of identifiers continue from period to period."""
        model, rows = self._folder.release(period).model, self._folder.rows(period)
        before = sum(len(next(iter(self._folder.rows(t).values()))) for t in range(period))
        form = model.format if library is None else model.format.for_files(model.schema, library=library)
        return model.table_of(rows, generator(period), first=before, format=form)

    def _checked(self, period: int) -> int:
        """Return a period's number, counted from 0, unchanged; raise an error if the period was not added."""
        if self.added < 1:
            raise DataError("the series has no period yet: add one")
        return whole("period", period, least=0, most=self.added - 1)

    def _asked(self, room: SeriesRoom, period: int, *, with_history: bool) -> tuple[AskedPlan, list[IntArray]]:
        """Return the plan of queries that a period belongs to, and the period's noisy answers, an array a statistic.

        A series consists of stages, each with one plan, which the first period of the stage makes.  This period selects
        marginals anew if ``with_history``, since selection reads the earlier rows; otherwise the earlier selection
        stays.  Period 0 selects by the public table if there is one, else anew.
        """
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
            return ask(room, release, places, parts, stage, factor=factor, mu=mu, note=PUBLIC, public=self._public_rows)
        if period == 0 or with_history:
            return choose(room, self._mechanism, stage, factor=factor, mu=mu)
        earlier = self._folder.plan(before[-1])
        told = [self._folder.answers(t) for t in range(earlier.start, period)]
        known = replace(earlier.release, measurements=earlier.prefix(told))
        parts = [cost_part(known.measurements[i], self._terms.adjacency) for i in earlier.places]
        return ask(room, known, earlier.places, parts, stage, factor=factor, mu=mu, note=KEPT)

    def _times_public(self) -> float:
        """Return the expected number of rows of the whole series, as a multiple of the public table's rows.

        The multiple tells which of the public table's relations will stand out of the noise.  Without
        ``rows_per_period`` each period is taken to be as large as the public table.
        """
        if self._rows_per_period is None:
            return float(self.periods)
        return (
            self.periods
            * whole("rows_per_period", self._rows_per_period, least=1)
            / max(1, self._public_rows.rows if self._public_rows else 1)
        )

    def _publish(
        self, plan: AskedPlan, period: int, answers: list[IntArray], *, rows: int | None, entry: int | None,
        format: TableFormat,  # noqa: A002 - the word users know
    ) -> None:  # fmt: skip
        """Fit the models, draw the period's rows and write them; the period's folder appears complete or not at all.

        ``rows`` is the period's number of rows if it is public, ``entry`` the number of the series' ledger entry.
        """
        found = period_of(
            plan, period, [*(self._folder.answers(t) for t in range(plan.start, period)), answers],
            published=[self._folder.rows(t) for t in range(period)], rows=rows,
            before=self._folder.cumulative(period - 1).measurements if period else (), rng=generator(self.random_state),
            public=self._public_rows,
        )  # fmt: skip
        form = format.suited(found.model.schema)
        receipt = self._receipt(plan, period, sum(len(one) for one in answers), entry)
        cumulative: Release[SyntheticModel] = replace(
            plan.release, mechanism="release series, all rows so far", output=replace(found.model, format=form),
            loss=self._terms.loss, receipt=receipt.noted(*found.model.notes), measurements=found.measured,
        )  # fmt: skip
        release = replace(
            cumulative, mechanism="release series, rows of one period", output=replace(found.own_model, format=form),
            measurements=found.own_measured,
        )  # fmt: skip
        if period == plan.start:
            self._folder.write_plan(plan)
        self._folder.write_period(period, answers=answers, release=release, cumulative=cumulative, rows=found.rows)

    def _receipt(self, plan: AskedPlan, period: int, answers: int, entry: int | None) -> Receipt:
        """Return the receipt of the series up to a period; ``answers`` is the number of noisy answers of one period."""
        terms = self._terms
        stddev = _noise_of_rows(plan)
        item = Item(
            step=f"a series of {terms.periods} periods, {period + 1} of them so far", mechanism="discrete Gaussian",
            answers=answers * (period + 1), sensitivity=1.0, stddev=stddev, loss=GaussianDP(terms.mu),
            noise=(stddev, stddev), unit="rows",
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
            assumptions=(*assumptions(self.schema, self.schema, terms.adjacency), *said),
            notes=(plan.note, *([] if self._public_rows is None else [self._public_rows.note(self.schema)])),
            versions=noise_versions(), ledger=self._settings["ledger"], dataset=self._settings["dataset"],
            entries=() if entry is None else (entry,),
        )  # fmt: skip


def _noise_of_rows(plan: AskedPlan) -> float:
    """Return the noise stddev, in rows, of the plan's first statistic, for the receipt.

    The first statistic is the number of rows, if the number of rows is private.
    """
    one = plan.statistics[0]
    return one.decoded(plan.factor, [np.zeros(one.queries.k, np.int64)], np.ones(1)).stddev


def _one(found: tuple[float, float]) -> Any:
    """Return an estimate and its standard error as a table of one row, with a 95 % interval."""
    estimate, error = found
    return dataframe({
        "estimate": [estimate], "standard_error": [error], "lower": [estimate - NORMAL * error],
        "upper": [estimate + NORMAL * error],
    })  # fmt: skip
