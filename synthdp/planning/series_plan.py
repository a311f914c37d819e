"""Expected noise and accuracy of a series of releases, before any spend, from public numbers and a dry run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from synthdp.mechanisms.mechanism import TableMechanism
from synthdp.mechanisms.series_asked import stages_of
from synthdp.planning.dry_run import plan
from synthdp.planning.plan import Plan
from synthdp.privacy.accounting import gdp_to_epsilon
from synthdp.privacy.series_factor import prefix_covariance
from synthdp.schema.schema import Schema
from synthdp.tables.results import dataframe


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SeriesPlan:
    """Holds the expected noise of each period of a series, and the plan of its last table, before any spend.

    Parameters
    ----------
    periods
        A DataFrame with one row per period.  ``rows_so_far`` is the assumed number of rows so far.  ``noise_so_far``
        and ``noise_of_period`` are noise stddevs of counts of all rows so far, and of the period's rows.  Both are
        relative to the noise of one release with the whole budget.
    last
        The plan of a single release that has the noise of the series' last cumulative table.
    """

    periods: Any
    last: Plan

    def __str__(self) -> str:
        return f"{self.periods.to_string(index=False)}\n{self.last}"


def plan_series(
    schema: Schema,
    mechanism: TableMechanism,
    *,
    periods: int,
    at_most: int,
    mu: float,
    delta: float,
    again: bool,
    rows: int,
    neighbors: str,
) -> SeriesPlan:
    """Return the expected noise of each period of a series, and the plan of its last cumulative table.

    Parameters
    ----------
    schema, mechanism, periods, neighbors, delta
        Settings of the series.
    at_most
        Most periods in which one privacy unit has rows.
    mu
        The whole budget, as the mu of Gaussian DP.
    again
        Whether the marginals to measure are selected again at later stages.
    rows
        Assumed number of rows in each period.
    """
    spent = np.zeros((periods, periods))
    so_far, alone = np.zeros(periods), np.zeros(periods)
    for stage in stages_of(periods, again=again):
        factor = stage.factor(at_most)
        first = stage.mu(factor, spent, at_most, mu=mu)
        spent = spent + stage.costs(factor, periods, at_most) * first**2
        # the noise variance of one answer: its sensitivity over its mu; the first answer merges a unit's earlier periods
        unit = int(factor[0, 0]) ** 2 * min(at_most, stage.start + 1) ** 2 * (mu / first) ** 2
        prefix = prefix_covariance(factor) * unit
        for i, t in enumerate(range(stage.start, stage.last + 1)):
            so_far[t] = prefix[i, i]
            before = so_far[t - 1] if t else 0.0
            # a period's rows are a difference of two totals, whose noise is correlated within a stage only
            alone[t] = prefix[i, i] + before - (2 * prefix[i, i - 1] if i else 0.0)
    numbers = range(1, periods + 1)
    frame = dataframe({
        "period": list(numbers), "rows_so_far": [rows * t for t in numbers], "noise_so_far": np.sqrt(so_far).round(3),
        "noise_of_period": np.sqrt(alone).round(3),
    })  # fmt: skip
    same = gdp_to_epsilon(mu / float(np.sqrt(so_far[-1])), delta)
    last = plan(schema, rows=rows * periods, epsilon=same, delta=delta, neighbors=neighbors, mechanism=mechanism)
    return SeriesPlan(periods=frame, last=last)  # type: ignore[arg-type]  # one plan for one epsilon
