"""The plan of a series of releases: when its tables are chosen, what is asked in every period, and how answers are decoded.

The planner of single releases, or a public table, chooses the statistics in a first period.  Its `Release` also leaves
a model with the bins of each column.  Statistics that are linear in the rows are asked again in every period, and
`Refit` makes each period's model from them.

The answers y = (y_1 ... y_t) of one statistic are F x plus noise.  Here x are its sums by period, and F is the plan's
matrix by which periods share noise.  So F^-1 y estimates x without bias, also where the entries of F were rounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from synthdp.arrays import FloatArray, IntArray
from synthdp.curator import Curator
from synthdp.domain.public_rows import PublicRows
from synthdp.measurements import Measurements, Noise, NoiseLaw, row_counts
from synthdp.mechanisms.mechanism import TableMechanism
from synthdp.mechanisms.series_refit import Refit
from synthdp.privacy.calibration import LEAST_SIGMA
from synthdp.privacy.loss import GaussianDP
from synthdp.privacy.neighbors import Adjacency
from synthdp.privacy.series_factor import cost_matrix, largest_first, optimal_factor, prefix_covariance
from synthdp.queries.distances import MarginalDistances, PairDistances
from synthdp.queries.linear import Total
from synthdp.queries.protocol import LinearQueries, Statistic
from synthdp.randomness import generator
from synthdp.release import Release
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.schema import Schema

if TYPE_CHECKING:
    from synthdp.curator import SeriesRoom

CHOSEN_AGAIN = 3
"""The period, counted from 1, in which the tables are chosen again, with more rows.  A later one has more rows to choose
by, and fewer periods left.  Tuned: choosing in the first period alone loses nearly all that sharing noise over periods
gains.  In a table of six periods the second and the sixth change the three-way error by +3.4 and +28.2 %
(docs/benchmarks/constants.md)."""

FEWEST = CHOSEN_AGAIN + 1
"""Series of fewer periods choose their tables only once.  Derived: at least one period follows the second choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One plan of questions in a series: its periods and its part of the budget.

    Parameters
    ----------
    start, last
        The first and the last period in which it asks, from 0.
    part
        Fraction of the budget of a unit whose rows lie in the first column.
    weight
        Number of times that a row counts when tables are chosen, to stand for the rows of the stage's last period.
    """

    start: int
    last: int
    part: float
    weight: int

    def factor(self, at_most: int) -> IntArray:
        """Return the matrix by which the stage's periods share noise, in multiples of 1 / `UNIT`; see `optimal_factor`.

        The matrix has a row and a column for each of the stage's periods. A person has rows in ``at_most`` periods at
        most.
        """
        columns = self.last - self.start + 1
        merged = self.start + 1
        first = self.part if self.start else 1.0
        return optimal_factor(columns, min(at_most, columns + merged - 1), first, merged)

    def costs(self, factor: IntArray, periods: int, at_most: int) -> FloatArray:
        """Return the stage's costs by pairs of the T ``periods``, (T, T), relative to its first answers' mu squared.

        A person with rows in a set of periods costs at most the sum over its pairs; see `cost_matrix`. ``factor`` is
        the stage's; a person has rows in ``at_most`` periods at most.
        """
        columns = [max(0, t - self.start) if t <= self.last else -1 for t in range(periods)]
        return cost_matrix(factor, columns, first_rows=min(at_most, self.start + 1))

    def mu(self, factor: IntArray, spent: FloatArray, at_most: int, *, mu: float) -> float:
        """Return how much the stage's first answers may cost (in Gaussian DP), given what earlier stages cost.

        It is the most that keeps all stages together within the budget for every person.  The first stage stays within
        its `part`, a fraction of mu^2, since squares of mu add up.

        Parameters
        ----------
        factor
            The matrix by which this stage's periods share noise.
        spent
            (T, T) costs of earlier stages by pairs of periods, as squares of mu.
        at_most
            Most periods in which a unit may have rows.
        mu
            The whole budget.
        """
        costs = self.costs(factor, len(spent), at_most)
        whole = mu * np.sqrt(self.part) if not self.start else mu
        return largest_first(spent, costs, at_most, mu=float(whole))


def stages_of(periods: int, *, again: bool) -> tuple[Stage, ...]:
    """Return the stages of a series: one, or two if tables are chosen ``again`` once there are more rows.

    Each stage gets the budget in proportion to its periods.  Series of fewer than `FEWEST` periods have one stage.
    """
    if not again or periods < FEWEST:
        return (Stage(start=0, last=periods - 1, part=1.0, weight=periods),)
    start = CHOSEN_AGAIN - 1
    part = start / periods
    later = Stage(start=start, last=periods - 1, part=1 - part, weight=max(1, round(periods / CHOSEN_AGAIN)))
    return Stage(start=0, last=start - 1, part=part, weight=1), later


LARGEST = 2.0**60
"""Decoded sums are scaled to whole numbers below 2^60, so that they fit 64 bits.  A safety limit."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Repeated:
    """A statistic that is asked in every period of a plan, and the scale of its noise, by which answers are decoded.

    Parameters
    ----------
    queries
        The statistic.
    multiplier
        The whole number by which its sums were multiplied before noise was added.
    sigma
        Standard deviation of the noise on each answer, in multiplied units.
    """

    queries: Statistic
    multiplier: int
    sigma: float

    def decoded(self, factor: IntArray, answers: Sequence[IntArray], weights: FloatArray) -> Measurements:
        """Return a weighted sum of a statistic over all periods so far, decoded from the noisy answers.

        Parameters
        ----------
        factor
            The plan's matrix by which periods share noise, (periods, periods).
        answers
            (k,) noisy answers of each period so far.
        weights
            (t,) weight of the rows of each of these periods: all 1 for the sum over all rows so far.
        """
        count = len(answers)
        decoder = weights @ np.linalg.inv(factor[:count, :count].astype(np.float64)) / self.multiplier
        sums = decoder @ np.array([np.asarray(one, np.float64) for one in answers])
        stddev = self.sigma * float(np.linalg.norm(decoder))
        return whole_answers(self.queries, sums, stddev)


def whole_answers(queries: Statistic, sums: FloatArray, stddev: float) -> Measurements:
    """Return noisy sums as measurements, rounded to whole multiples of a unit far finer than their noise.

    Releases and fits take measurements, whose values are whole numbers.

    Parameters
    ----------
    queries
        The statistic.
    sums
        (k,) noisy sums, as real numbers in the unit of the statistic's whole numbers.
    stddev
        Standard deviation of their noise, in these units.
    """
    most = LARGEST / max(float(np.abs(sums).max(initial=1.0)), 1.0)
    resolution = 2 ** max(0, min(math.ceil(math.log2(LEAST_SIGMA / stddev)), math.floor(math.log2(most))))
    law = Noise(law=NoiseLaw.GAUSSIAN, scale=stddev * resolution, k=queries.k)
    return Measurements(
        queries=queries, values=np.rint(sums * resolution).astype(np.int64), resolution=resolution, noise=law
    )


def of_fewer_rows(measured: Measurements, times: float) -> Measurements:
    """Rescale measured distances from independence to another number of rows, as the same fraction of the rows.

    Distances are asked in one period only.  Answers of any other kind are returned unchanged.

    Parameters
    ----------
    measured
        Noisy distances.
    times
        The number of rows at the measurement over the present number of rows.
    """
    asked = measured.queries
    if not isinstance(asked, MarginalDistances | PairDistances):
        return measured
    return replace(measured, queries=replace(asked, denominator=max(1, round(asked.denominator * times))))


CHOSEN, CHANGED, KEPT, PUBLIC = (
    "the tables were chosen in the first period",
    "the tables were chosen again with all rows so far",
    "no earlier rows were given as history: the tables that the first periods chose are still asked",
    "a public table chose the tables",
)
"""Notes for a receipt on how the tables of a period were chosen."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AskedPlan:
    """One plan of a series: its statistics, how periods share their noise, and the periods in which they are asked.

    Parameters
    ----------
    start, last
        The first and the last period in which the plan asks.
    factor
        The matrix by which its periods share noise, (periods, periods).
    release
        The release of its first period: the bins of each column and the measurements.
    statistics
        The statistics that are asked in every period.
    places
        Positions of these statistics among the release's measurements.
    note
        A sentence for a receipt on who chose the tables.
    """

    start: int
    last: int
    factor: IntArray
    release: Release[SyntheticModel]
    statistics: tuple[Repeated, ...]
    places: tuple[int, ...]
    note: str

    @property
    def queries(self) -> list[Statistic]:
        """The statistics that the plan asks in every period."""
        return [one.queries for one in self.statistics]

    def measured(self, answers: Sequence[Sequence[IntArray]], weights: FloatArray) -> tuple[Measurements, ...]:
        """Return a weighted sum over periods of each statistic, decoded from noisy answers; one result per statistic.

        Parameters
        ----------
        answers
            Noisy answers of all statistics in each period since the plan's start.
        weights
            (t,) weight of the rows of each period since the start; the first period's answers cover all earlier rows
            too.
        """
        return tuple(
            one.decoded(self.factor, [told[i] for told in answers], weights) for i, one in enumerate(self.statistics)
        )

    def prefix(self, answers: Sequence[Sequence[IntArray]], *, rows: int | None = None) -> tuple[Measurements, ...]:
        """Return the measurements of all rows so far, in the order of the plan's release.

        Distances from independence are asked once; they are assumed to be the same fraction of the rows later.

        Parameters
        ----------
        answers
            Noisy answers of all statistics in each period since the plan's start.
        rows
            The number of all rows so far if it is public, else ``None``.
        """
        found = dict(zip(self.places, self.measured(answers, np.ones(len(answers))), strict=True))
        before, now = self.release.output.total, _rows(found.values(), rows)
        measurements = enumerate(self.release.measurements)
        return tuple(found.get(i, of_fewer_rows(one, before / now)) for i, one in measurements)


def choose(
    room: SeriesRoom, mechanism: TableMechanism, stage: Stage, *, factor: IntArray, mu: float
) -> tuple[AskedPlan, list[IntArray]]:
    """Let the mechanism choose tables on all rows so far, and repeat these statistics from now on.

    ``factor`` is the matrix by which periods share noise.  ``mu`` is the cost of the first period's answers in Gaussian
    DP.  Costs at most ``mu`` times the factor's own cost, for the neighbouring relation of the room's terms.

    Returns
    -------
    The plan, and the noisy answers of its first period.
    """
    with room.open_plan(factor, last=stage.last, mu=mu, weight=stage.weight) as account:
        release = mechanism.release(account, random_state=room.seed)
        places = room.keep(release.measurements)
    lattices = room.lattices()
    statistics = tuple(
        Repeated(queries=release.measurements[i].queries, multiplier=multiplier, sigma=sigma)  # type: ignore[arg-type]
        for i, (multiplier, sigma) in zip(places, lattices, strict=True)
    )
    answers = [release.measurements[i].values for i in places]
    known = {
        i: one.decoded(factor, [told], np.ones(1)) for i, one, told in zip(places, statistics, answers, strict=True)
    }
    measured = tuple(
        known.get(i, of_fewer_rows(one, stage.weight)) for i, one in enumerate(release.measurements)
    )  # fmt: skip
    model = replace(release.model, total=max(1.0, release.model.total / stage.weight))
    plan = AskedPlan(
        start=stage.start, last=stage.last, factor=factor, statistics=statistics, places=places,
        release=replace(release, output=model, measurements=measured), note=CHANGED if stage.start else CHOSEN,
    )  # fmt: skip
    return plan, answers


def ask(
    room: SeriesRoom, before: Release[SyntheticModel], places: Sequence[int], parts: Sequence[float], stage: Stage,
    *, factor: IntArray, mu: float, note: str, public: PublicRows | None = None,
) -> tuple[AskedPlan, list[IntArray]]:  # fmt: skip
    """Start a plan of statistics that are already known: from the plan before, or chosen on a public table.

    Costs at most ``mu`` times the factor's own cost, for the neighbouring relation of the room's terms.

    Parameters
    ----------
    room
        The curator of the series, which answers.
    before
        A release whose measurements name the statistics.
    places
        Positions of the measurements that are asked.
    parts
        Fraction of the squared privacy cost of each.
    stage, factor, mu
        The periods, the matrix by which they share noise, and the cost of the first period's answers in Gaussian DP.
    note
        A sentence for a receipt on who chose the tables.
    public
        Rows of a public table, weighted in the fit by how well the answers agree with them; or ``None``.

    Returns
    -------
    The plan, and the noisy answers of its first period.
    """
    queries: list[Statistic] = [before.measurements[i].queries for i in places]  # type: ignore[misc]
    answers, lattices = room.ask(factor, queries, parts, last=stage.last, mu=mu)
    statistics = tuple(
        Repeated(queries=one, multiplier=multiplier, sigma=sigma)
        for one, (multiplier, sigma) in zip(queries, lattices, strict=True)
    )
    plan = AskedPlan(
        start=stage.start, last=stage.last, factor=factor, release=before, statistics=statistics, places=tuple(places),
        note=note,
    )  # fmt: skip
    rows = room.rows if room.terms.adjacency.rows_are_public else None
    measured = plan.prefix([answers], rows=rows)
    model = before.output if rows is None else replace(before.output, total=float(rows))
    model = Refit(public=public)(model, measured, generator(room.seed))
    return replace(plan, release=replace(before, output=model, measurements=measured)), answers


def chosen_by_public(
    public: Any, schema: Schema, mechanism: TableMechanism, *, mu: float, rows: float | None, adjacency: Adjacency
) -> tuple[Release[SyntheticModel], tuple[int, ...], list[float]]:
    """Let the mechanism choose tables on a public table, with the relative noise of a series that has more rows.

    Costs nothing: no private row is read.

    Parameters
    ----------
    public
        The table.
    schema, mechanism
        Schema and mechanism of the series.
    mu
        The largest cost of the first answers of the series, as the mu of Gaussian DP.
    rows
        The expected number of rows of the series, divided by the public table's; ``None`` counts as 1.
    adjacency
        The neighbouring relation of the series.

    Returns
    -------
    The release of the public table, the positions of its measurements that are linear in the rows, and the squared
    privacy cost of each.
    """
    budget = GaussianDP(mu * (1.0 if rows is None else rows))
    with Curator(public, schema=schema, budget=budget, neighbors=adjacency.neighbors) as curator:
        release = mechanism.release(curator, random_state=0)
    places = tuple(i for i, one in enumerate(release.measurements) if isinstance(one.queries, LinearQueries))
    parts = [cost_part(release.measurements[i], adjacency) for i in places]
    return release, places, parts


def cost_part(measured: Measurements, adjacency: Adjacency) -> float:
    """Return the squared privacy cost of a measurement, (sensitivity / noise)^2, up to a common factor.

    The budgets of later periods are divided in these proportions.
    """
    moves = adjacency.sensitivity(measured.queries).l2 * measured.resolution
    return (moves / measured.noise.scale) ** 2


def rows_between(later: Sequence[Measurements], earlier: Sequence[Measurements]) -> tuple[Measurements, ...]:
    """Return the number of rows that arrived between two plans as a measurement: the difference of their row counts.

    The tables of the two plans differ, so no other difference can be computed.  Return () where row counts are public.

    Parameters
    ----------
    later, earlier
        The measurements of all rows by each plan.
    """
    now, before = (next((one for one in some if one.row_count is not None), None) for some in (later, earlier))
    if now is None or before is None:
        return ()
    rows, stddev = now.answers - before.answers, math.hypot(now.stddev, before.stddev)
    return (whole_answers(now.asked(Total), rows, stddev),)


def correlation_of(plans: Sequence[AskedPlan], periods: int) -> FloatArray:
    """Return the (periods, periods) correlation of the noise of running totals, the sums over all rows up to each period.

    The error bar of a change between two periods needs it.  Totals of different plans have independent noise: 0.
    """
    found = np.eye(periods)
    for plan in plans:
        covariance = prefix_covariance(plan.factor)
        errors = np.sqrt(np.diag(covariance))
        inside = slice(plan.start, min(plan.last + 1, periods))
        count = inside.stop - inside.start
        if count > 0:
            found[inside, inside] = (covariance / np.outer(errors, errors))[:count, :count]
    return found


def _rows(measured: Any, rows: int | None) -> float:
    """Return the number of all rows so far, at least 1: the public one, else the measured one.

    The caller divides by it, and noise may make it negative.  It is 1 if no row count was measured.
    """
    if rows is not None:
        return max(1.0, float(rows))
    return max(1.0, next((count for count, _ in row_counts(measured)), 1.0))
