"""One period of a series: the model of all rows so far, and the rows that are published for the period.  Post-processing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from synthdp.arrays import GridIndices, IntArray
from synthdp.domain.public_rows import PublicRows
from synthdp.measurements import Measurements
from synthdp.mechanisms.series.asked import AskedPlan, rows_between
from synthdp.mechanisms.series.period_histories import model_of_rows, rows_of_period
from synthdp.mechanisms.series.refit import Refit
from synthdp.randomness import Generator
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.tables.format import TableFormat


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Period:
    """What is published for one period: a model and answers for all rows so far, and for the period's own rows.

    Parameters
    ----------
    model, measured
        Of all rows so far: the fitted model, and the answers that it was fitted to.
    rows
        (n,) grid indices by column: the period's synthetic rows, which stay.
    own_model, own_measured
        Of the period's rows alone.
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
    format: TableFormat,  # noqa: A002 - the word users know
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
    format
        The form of the released tables: column order and types.
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
    model = replace(model, format=format.suited(model.schema))
    found = rows_of_period(model, earlier, rng)
    first_of_later_plan = period == plan.start and period > 0
    own = rows_between(measured, before) if first_of_later_plan else plan.measured(told, np.eye(len(told))[-1])
    return Period(model=model, measured=measured, rows=found, own_model=model_of_rows(model, found), own_measured=own)
