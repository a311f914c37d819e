"""How many rows have one grid point of a column, and which share of its values does not fit the schema, by noisy answers.

Post-processing: everything here was measured, and paid for, by the mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from synthdp.domain.grid import grid_of
from synthdp.measurements import Measurements, NoiseLaw, beyond_noise, by_noise_alone, findings, row_counts
from synthdp.queries.protocol import CellCounting
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.columns import DISCOVERED
from synthdp.schema.schema import Schema

SURELY = 1.645
"""Derived: standard deviations that a normal variable exceeds with probability 5 %."""

MOST_NAMED = 10
"""A safety limit: this many columns are named in one sentence."""


class MisfitShare(NamedTuple):
    """The noisy share of a column's values that did not fit the schema, from 0 to 1.

    Numbers beyond the bounds are no misfits: they are clipped.
    """

    share: float
    stddev: float
    """Standard error of the share."""


class PointCount(NamedTuple):
    """A noisy number of rows, which may be negative."""

    rows: float
    stddev: float
    normal: bool = False
    """Whether the noise is Gaussian."""

    @property
    def chance(self) -> float:
        """How likely noise alone is to be so large."""
        return by_noise_alone(self.rows, self.stddev, normal=self.normal)


def misfit_shares(model: SyntheticModel, measurements: Sequence[Measurements]) -> dict[str, MisfitShare | None]:
    """Return for each column the share of its values that did not fit; ``None`` where no answer says it.

    It is exactly 0 for a column that takes every value, as one with a label for others does.
    """
    total, noise = _total(model, measurements)
    shares: dict[str, MisfitShare | None] = {}
    for name, column in model.schema.items():
        hidden = grid_of(column).hidden
        found = PointCount(0.0, 0.0) if hidden is None else point_count(measurements, name, hidden)
        if found is None:
            shares[name] = None
            continue
        share = min(max(found.rows / total, 0.0), 1.0)
        shares[name] = MisfitShare(share, math.hypot(found.stddev, share * noise) / total)
    return shares


def misfit_columns(shares: Mapping[str, MisfitShare | None]) -> dict[str, MisfitShare]:
    """Return the columns whose misfits noise does not explain."""
    known = {name: share for name, share in shares.items() if share is not None}
    return {name: one for name, one in known.items() if one.share > beyond_noise(one.stddev, len(known))}


def point_count(measurements: Sequence[Measurements], name: str, index: int) -> PointCount | None:
    """Return how many rows have one grid point of a column, by all answers that count it alone; ``None`` if none does."""
    found = [count for measured in measurements for count in _counts(measured, name, index)]
    if not found:
        return None
    precision = sum(count.stddev**-2 for count in found)
    rows = sum(count.rows * count.stddev**-2 for count in found) / precision
    return PointCount(rows, precision**-0.5, all(count.normal for count in found))


def unproven_points(model: SyntheticModel, measurements: Sequence[Measurements]) -> dict[tuple[str, int], PointCount]:
    """Return the grid points, by their columns, that may well be empty and whose noisy counts noise alone explains.

    They are the missing value of a column that may have some, and the label for others where it was discovered, not
    declared.  A column that a rule names is left alone, as is a grid point that no answer counts.  Each count is judged by
    the law of its own noise, all of them together by `findings`.
    """
    named = {name for rule in model.schema.constraints for name in rule.names}
    asked = []
    for name, column in model.schema.items():
        grid = grid_of(column)
        if name not in named and not column.names_rows:
            asked += [(name, grid.null)] if grid.null is not None else []
            asked += [(name, grid.other)] if column.source == DISCOVERED and grid.other < grid.regular else []
    counts = {(name, index): point_count(measurements, name, index) for name, index in asked}
    known = {place: count for place, count in counts.items() if count is not None}
    ordered = sorted(known, key=lambda place: known[place].chance)
    return {place: known[place] for place in ordered[findings([count.chance for count in known.values()]) :]}


def unproven_notes(unproven: Mapping[tuple[str, int], PointCount], schema: Schema) -> tuple[str, ...]:
    """Return what a receipt says of missing values that noise hides: in which columns, and how many rows may have one."""
    hidden = {name: count for (name, index), count in unproven.items() if index == grid_of(schema[name]).null}
    if not hidden:
        return ()
    most = max(max(count.rows, 0.0) + SURELY * count.stddev for count in hidden.values())
    named = ", ".join(repr(name) for name in list(hidden)[:MOST_NAMED])
    more = f" and {len(hidden) - MOST_NAMED} more" if len(hidden) > MOST_NAMED else ""
    said = f"no missing values come out where noise explains their number: column {named}{more}"
    return (f"{said}; there may be up to about {most:,.0f} rows with one in such a column",)


def _counts(measured: Measurements, name: str, index: int) -> Iterator[PointCount]:
    """Yield the noisy counts of one grid point of a column that a measurement holds."""
    queries, domain = measured.queries, measured.domain
    if domain is None or name not in domain.names:
        return
    (column,) = domain.index(name)
    cell = domain.axes[column].cell_of_alone(index)
    if cell is None:
        return
    stddev, normal = max(measured.stddev, 1e-9), measured.noise.law is NoiseLaw.GAUSSIAN
    if isinstance(queries, CellCounting):
        place = queries.place_of(column, cell)
        if place is not None:
            yield PointCount(float(measured.answers[place]), stddev, normal)
    for table in measured.tables:
        if column in table.clique and not table.alone:
            inside = table.counts.reshape(table.shape(domain.shape)).take(cell, axis=table.clique.index(column))
            yield PointCount(float(inside.sum()), stddev * math.sqrt(inside.size), normal)


def _total(model: SyntheticModel, measurements: Sequence[Measurements]) -> tuple[float, float]:
    """Return the number of rows and the noise in it."""
    return max(model.total, 1.0), min((stddev for _, stddev in row_counts(measurements)), default=0.0)
