"""One period of a series: the model of all rows so far, and the rows that are published for the period.  Post-processing.

Published rows stay: a new period's rows are drawn so that, with the rows that are published already, all follow the model.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from synthdp.arrays import Clique, Codes, FloatArray, GridIndices, IntArray
from synthdp.domain.domain import Domain
from synthdp.domain.public_rows import PublicRows
from synthdp.measurements import Measurements
from synthdp.mechanisms.series_asked import AskedPlan, rows_between
from synthdp.mechanisms.series_refit import Refit
from synthdp.queries.contingency import contingency
from synthdp.randomness import Generator
from synthdp.sampling.synthetic_model import SyntheticModel


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Period:
    """What is published for one period: a model and answers for all rows so far, and for the period's own rows.

    Parameters
    ----------
    model, measured
        The model of all rows so far, and the answers that it was fitted to.
    rows
        (n,) grid indices by column: the period's synthetic rows, which stay.
    own_model, own_measured
        Model and answers of the period's rows alone.
    """

    model: SyntheticModel
    measured: tuple[Measurements, ...]
    rows: Mapping[str, GridIndices]
    own_model: SyntheticModel
    own_measured: tuple[Measurements, ...]


def period_of(
    plan: AskedPlan,
    period: int,
    told: Sequence[Sequence[IntArray]],
    *,
    published: Sequence[Mapping[str, GridIndices]],
    before: Sequence[Measurements],
    rows: int | None,
    rng: Generator,
    public: PublicRows | None = None,
) -> Period:
    """Make what is published for a period: refit the model to all answers so far and draw the period's rows.

    Parameters
    ----------
    plan
        The plan of questions that the period belongs to.
    period
        Number of the period, from 0.
    told
        The noisy answers of each period since the plan's start.
    published
        The rows of all earlier periods.
    before
        The measurements of all rows up to the period before.
    rows
        The number of the period's rows where it is public.
    rng
        Randomness of the drawn rows.
    public
        Rows of a public table that the answers are weighed against, or None.
    """
    earlier = {name: np.concatenate([one[name] for one in published]) for name in published[0]} if published else {}
    known = None if rows is None else rows + sum(len(next(iter(one.values()))) for one in published)
    measured = plan.prefix(told, rows=known)
    model = plan.release.output
    if period > plan.start:
        model = Refit(public=public)(model if known is None else replace(model, total=float(known)), measured, rng)
    found = rows_of_period(model, earlier, rng)
    first_of_later_plan = period == plan.start and period > 0
    own = rows_between(measured, before) if first_of_later_plan else plan.measured(told, np.eye(len(told))[-1])
    return Period(model=model, measured=measured, rows=found, own_model=model_of_rows(model, found), own_measured=own)


POOL = 40_000, 200_000
"""Fewest and most rows of the pool that is drawn from the model, and from which a period's rows are chosen by weight.
The pool has twice as many rows as the period within these limits.  Fewer would leave a small period little choice; the
most is a safety limit of time.
"""

SWEEPS = 12
"""Passes over all tables when a pool's weights are raked; later ones change little.  A numerical tolerance."""

LONGEST_STEP, DAMPING = 5.0, 0.5
"""When weights are raked, the factor of a table on a weight is limited to LONGEST_STEP, then raised to the power DAMPING:
at most 2.2.  Full steps would swing, since the tables contradict each other slightly.  Safety limits.
"""

MOST_COLUMNS = 40
"""Tables with more columns than this are raked only to pairs of neighbouring columns and to single columns.  A safety
limit of time.
"""


def rows_of_period(
    model: SyntheticModel, published: Mapping[str, GridIndices], rng: Generator
) -> dict[str, GridIndices]:
    """Draw the rows of a new period such that with the published rows, which stay, all rows follow the model.

    Returns (rows,) grid indices by column; (0,) if as many rows are published as the model has.

    Parameters
    ----------
    model
        Model of all rows so far.
    published
        The rows of earlier periods: (n,) grid indices of each column.
    rng
        Source of the rows.
    """
    names = model.domain.names
    before = len(published[names[0]]) if published else 0
    rows = model.rows - before
    if rows < 1:
        return {name: np.zeros(0, np.uint32) for name in names}
    if not before:
        return model.sample_indices(rows, rng)
    pool = model.distribution.sample(int(np.clip(2 * rows, *POOL)), rng, independent=True)
    weights = _raked(model.domain, pool, published, float(model.rows), rows)
    return model.with_rows(pool, weights).sample_indices(rows, rng)


def model_of_rows(model: SyntheticModel, rows: Mapping[str, GridIndices]) -> SyntheticModel:
    """Return a model that holds exactly a period's synthetic rows, over another model's groups.

    Questions about the period alone are answered from it.  The other model is returned, with a total of 1, if there are
    no rows.

    Parameters
    ----------
    model
        Model of all rows so far.
    rows
        (n,) grid indices of each column.
    """
    codes = model.domain.codes(dict(rows))
    if not len(codes):
        return replace(model, total=1.0)
    refinements = []
    for name, refinement in zip(model.domain.names, model.refinements, strict=True):
        cells = refinement.fine.cells_of(rows[name])
        weights = np.bincount(cells, minlength=refinement.fine.size).astype(np.float64)
        refinements.append(replace(refinement, weights=weights))
    drawn = model.with_rows(codes, np.ones(len(codes)))
    return replace(drawn, refinements=tuple(refinements), total=float(len(codes)))


def _raked(domain: Domain, codes: Codes, published: Mapping[str, GridIndices], total: float, rows: int) -> FloatArray:
    """Return weights of the pool's rows, (pool,), of sum ``rows``, by which a period's rows are drawn from them.

    The weights are raked to the model's tables (the pool's, scaled to ``total`` rows) minus the tables of the published
    rows.
    """
    earlier = domain.codes(dict(published))
    size, shape = len(codes), domain.shape
    tables: list[tuple[IntArray, FloatArray]] = []
    for clique in _cliques(len(shape)):
        wanted = contingency(codes, shape, clique) * (total / size) - contingency(earlier, shape, clique)
        wanted = np.maximum(wanted, 0.0)
        cells = np.ravel_multi_index(tuple(codes[:, j].astype(np.int64) for j in clique), [shape[j] for j in clique])
        tables.append((np.asarray(cells, np.int64), wanted * (rows / max(float(wanted.sum()), 1e-9))))
    weights = np.full(size, rows / size)
    for _ in range(SWEEPS):
        for cells, wanted in tables:
            have = np.bincount(cells, weights, minlength=len(wanted))
            ratio = np.where(have > 0, (wanted + 0.5) / (have + 0.5), 1.0)
            weights *= (np.clip(ratio, 1 / LONGEST_STEP, LONGEST_STEP) ** DAMPING)[cells]
        weights *= rows / weights.sum()
    return weights


def _cliques(columns: int) -> list[Clique]:
    """Return the column pairs that rows are raked to: all pairs, or neighbours and single columns if there are many.

    A single column is raked to itself.
    """
    if columns == 1:
        return [(0,)]
    if columns > MOST_COLUMNS:
        return [(j, j + 1) for j in range(columns - 1)] + [(j,) for j in range(columns)]
    return list(itertools.combinations(range(columns), 2))
