"""How many rows have one grid point of a column, and which share of its values does not fit the schema, by noisy answers.

Post-processing: everything here was measured, and paid for, by the mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from synthdp.domain.domain import Domain
from synthdp.domain.grid import grid_of
from synthdp.measurements import Measurements, NoiseLaw, beyond_noise, by_noise_alone, findings, row_counts
from synthdp.queries.contingency import NoisyTable
from synthdp.queries.protocol import CellCounting
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.columns import DISCOVERED
from synthdp.schema.schema import Schema

SURELY = 1.645
"""Standard deviations that a normal variable exceeds with probability 5 %: for a one-sided bound.  Derived."""

MOST_NAMED = 10
"""Most columns named in one sentence of a receipt.  A safety limit."""


class MisfitShare(NamedTuple):
    """The noisy share of a column's values that did not fit the schema, from 0 to 1.

    Numbers beyond the bounds are no misfits: they are clipped.
    """

    share: float
    stddev: float
    """Standard error of the share."""


class PointCount(NamedTuple):
    """A noisy number of rows at one grid point, which may be negative, with its standard deviation."""

    rows: float
    stddev: float
    normal: bool = False
    """Whether the noise is Gaussian."""

    @property
    def chance(self) -> float:
        """The probability that noise alone gives a count at least this large."""
        return by_noise_alone(self.rows, self.stddev, normal=self.normal)


def misfit_shares(model: SyntheticModel, measurements: Sequence[Measurements]) -> dict[str, MisfitShare | None]:
    """Return, for each column, the share of its values outside of the domain; ``None`` where no answer tells it.

    It is exactly 0 for a column that takes every value, as one with a label for others does.
    """
    total, noise = _total(model, measurements)
    counted = [_Counted.of_answers(one) for one in measurements]
    shares: dict[str, MisfitShare | None] = {}
    for name, column in model.schema.items():
        hidden = grid_of(column).hidden
        found = PointCount(0.0, 0.0) if hidden is None else _pooled(counted, name, hidden)
        if found is None:
            shares[name] = None
            continue
        share = min(max(found.rows / total, 0.0), 1.0)
        shares[name] = MisfitShare(share, math.hypot(found.stddev, share * noise) / total)
    return shares


def misfit_columns(shares: Mapping[str, MisfitShare | None]) -> dict[str, MisfitShare]:
    """Return the columns whose share of values outside of the domain exceeds what noise explains."""
    known = {name: share for name, share in shares.items() if share is not None}
    return {name: one for name, one in known.items() if one.share > beyond_noise(one.stddev, len(known))}


def point_count(measurements: Sequence[Measurements], name: str, index: int) -> PointCount | None:
    """Return how many rows have one grid point of a column, from all answers that count it alone.

    ``None`` if none does.
    """
    return _pooled([_Counted.of_answers(one) for one in measurements], name, index)


def _pooled(counted: Sequence[_Counted], name: str, index: int) -> PointCount | None:
    """Return the count of one grid point of a column, averaged over all answers that count it alone.

    ``None`` if none does.
    """
    found = [count for one in counted for count in one.counts_of(name, index)]
    if not found:
        return None
    precision = sum(count.stddev**-2 for count in found)
    rows = sum(count.rows * count.stddev**-2 for count in found) / precision
    return PointCount(rows, precision**-0.5, all(count.normal for count in found))


def unproven_points(model: SyntheticModel, measurements: Sequence[Measurements]) -> dict[tuple[str, int], PointCount]:
    """Return the grid points whose noisy counts noise alone explains, so that no synthetic row should have them.

    They are the missing value of a column that may have some, and the label for others where it was discovered, not
    declared.  A column that a rule names is left alone, as is a grid point that no answer counts.  Each count is judged
    by the law of its own noise, all of them together by `findings`.
    """
    named = {name for rule in model.schema.constraints for name in rule.names}
    asked = []
    for name, column in model.schema.items():
        grid = grid_of(column)
        if name not in named and not column.names_rows:
            asked += [(name, grid.null)] if grid.null is not None else []
            asked += [(name, grid.other)] if column.source == DISCOVERED and grid.other < grid.regular else []
    counted = [_Counted.of_answers(one) for one in measurements] if asked else []
    counts = {(name, index): _pooled(counted, name, index) for name, index in asked}
    known = {place: count for place, count in counts.items() if count is not None}
    ordered = sorted(known, key=lambda place: known[place].chance)
    return {place: known[place] for place in ordered[findings([count.chance for count in known.values()]) :]}


def unproven_notes(unproven: Mapping[tuple[str, int], PointCount], schema: Schema) -> tuple[str, ...]:
    """Return the receipt's sentence on missing values hidden by noise.

    It names their columns and how many rows at most may have one.
    """
    hidden = {name: count for (name, index), count in unproven.items() if index == grid_of(schema[name]).null}
    if not hidden:
        return ()
    most = max(max(count.rows, 0.0) + SURELY * count.stddev for count in hidden.values())
    named = ", ".join(repr(name) for name in list(hidden)[:MOST_NAMED])
    more = f" and {len(hidden) - MOST_NAMED} more" if len(hidden) > MOST_NAMED else ""
    said = f"no synthetic value is missing in column {named}{more}, because noise explains the number of missing values"
    return (f"{said}: up to about {most:,.0f} rows may have one",)


class _Counted(NamedTuple):
    """What one measurement tells of single columns, looked up once for all columns.

    Parameters
    ----------
    measured
        Its answers.
    cells
        What was asked, if it counts cells of single columns.
    domain
        Whose cells it looks at; ``None`` for questions about keys.
    tables
        For each column those of its noisy tables that tell of the column.
    """

    measured: Measurements
    cells: CellCounting | None
    domain: Domain | None
    tables: Mapping[int, Sequence[NoisyTable]]

    @classmethod
    def of_answers(cls, measured: Measurements) -> _Counted:
        """Sort the noisy tables of one measurement by the columns that they count."""
        tables: dict[int, list[NoisyTable]] = {}
        for table in measured.tables:
            if not table.alone:
                for column in table.clique:
                    tables.setdefault(column, []).append(table)
        queries = measured.queries
        return cls(measured, queries if isinstance(queries, CellCounting) else None, measured.domain, tables)

    def counts_of(self, name: str, index: int) -> Iterator[PointCount]:
        """Yield every noisy count of one grid point of a column, where a cell holds it alone."""
        measured, domain = self.measured, self.domain
        if domain is None or name not in domain.names:
            return
        (column,) = domain.index(name)
        cell = domain.axes[column].cell_of_alone(index)
        if cell is None:
            return
        stddev, normal = max(measured.stddev, 1e-9), measured.noise.law is NoiseLaw.GAUSSIAN
        if self.cells is not None:
            place = self.cells.place_of(column, cell)
            if place is not None:
                yield PointCount(float(measured.answers[place]), stddev, normal)
        for table in self.tables.get(column, ()):
            inside = table.counts.reshape(table.shape(domain.shape)).take(cell, axis=table.clique.index(column))
            yield PointCount(float(inside.sum()), stddev * math.sqrt(inside.size), normal)


def _total(model: SyntheticModel, measurements: Sequence[Measurements]) -> tuple[float, float]:
    """Return the number of rows and its standard deviation, for shares."""
    return max(model.total, 1.0), min((stddev for _, stddev in row_counts(measurements)), default=0.0)
