"""Whether a discovery is worth its cost: the number of rows, estimated first, beside the noise that is to come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from synthdp.arrays import FloatArray
from synthdp.curator.discovery import (
    LATER_SHARE,
    POWERS_SHARE,
    Discovered,
    PaidRead,
    check_discoverable,
    divided,
    histogram_plan,
    noisy_histogram,
    parts_of,
    plan_levels,
)
from synthdp.curator.noisy_ranges import CLEAR, POWER_BINS, NoisyCounts
from synthdp.domain.encoder import RawColumn
from synthdp.errors import in_table
from synthdp.privacy.budget import COUNT_SHARE
from synthdp.privacy.loss import GaussianDP, PrivacyLoss
from synthdp.privacy.neighbors import Adjacency
from synthdp.schema.columns import Categorical, Untyped
from synthdp.schema.schema import Schema


def forecast(
    schema: Schema, adjacency: Adjacency, loss: PrivacyLoss, *, spend: PaidRead[Any], rows: int | None
) -> tuple[Discovered, PrivacyLoss]:
    """Forecast what the noise of a discovery will hide; return the forecast and the loss left for the discovery.

    With the forecast a caller avoids a discovery that would find next to nothing; see `expected`.

    Costs `COUNT_SHARE` of ``loss`` for the table's neighbours, to count the rows; nothing of it if ``rows`` is given.

    Parameters
    ----------
    schema, adjacency, loss, spend
        As of `discover`.
    rows
        The number of rows if it is public (equal in all neighbours); ``None`` if it must be counted under noise.

    Raises
    ------
    SchemaError
        As `check_discoverable` does; nothing is spent then.
    """
    check_discoverable(schema, loss)
    rest, count = loss, float(rows or 0)
    if rows is None:
        part = (GaussianDP(loss.mu) if isinstance(loss, GaussianDP) else loss).fraction(COUNT_SHARE)
        rest = loss.fraction(1 - COUNT_SHARE)
        rest = (
            replace(rest, delta=loss.delta) if isinstance(rest, GaussianDP) and isinstance(loss, GaussianDP) else rest
        )
        name = schema.undeclared[0]
        found = noisy_histogram(adjacency, name, _one_bin, 1, part, spend, step="discovered number of rows")
        count = max(0.0, float(found.rows[0]))
    return expected(schema, adjacency, rest, rows=count), rest


def expected(schema: Schema, adjacency: Adjacency, loss: PrivacyLoss, *, rows: float) -> Discovered:
    """Return a forecast of a discovery as a `Discovered` without findings; no data is read.

    Its field ``least`` holds the number of rows that a value needs to be significant under the noise to come.  The number
    is a mean over undeclared columns.  `Discovered.is_coarse` compares ``least`` with ``rows``, the assumed number of rows.
    """
    least = [_least(schema, name, part, loss, adjacency) for name, part in parts_of(schema, loss).items()]
    return Discovered(schema, (), rows=rows, least=float(np.mean(least)))


def of_tables(
    tables: Mapping[str, Schema], adjacency: Adjacency, loss: PrivacyLoss, *, rows: Mapping[str, float]
) -> dict[str, Discovered]:
    """Return the forecast of a discovery, see `expected`, for each of several tables.

    A caller sees before spending whether the budget is large enough.  The loss is divided over the tables as in
    `Curator.discover_tables`.

    Raises
    ------
    SchemaError
        As `check_discoverable` does.
    """
    for name, one in tables.items():
        with in_table(name):
            check_discoverable(one, loss)
    return {
        name: expected(tables[name], adjacency.of_one_row(), part, rows=rows[name])
        for name, part in divided(tables, loss).items()
    }


def _least(schema: Schema, name: str, part: PrivacyLoss, loss: PrivacyLoss, adjacency: Adjacency) -> float:
    """Return how many rows a label, or a power of two, of one column needs to be significant in its discovery.

    ``part`` is the column's part of ``loss``, the loss for all columns.
    """
    column = schema[name]
    if isinstance(column, Categorical):
        part = part.fraction(1 - LATER_SHARE) if isinstance(column, Untyped) else part
        _, levels = plan_levels(schema, part, loss, adjacency)
        return levels.threshold / levels.resolution
    plan = histogram_plan(adjacency, part.fraction(POWERS_SHARE), POWER_BINS)
    noise = NoisyCounts(rows=np.zeros(POWER_BINS), stddev=plan.noise.stddev / plan.resolution, law=plan.noise.law)
    return noise.above(CLEAR / POWER_BINS)


def _one_bin(raw: RawColumn) -> FloatArray:
    """Return bin 0 for every raw value, (n,), so that a histogram of one bin counts all rows."""
    return np.zeros(raw.rows)
