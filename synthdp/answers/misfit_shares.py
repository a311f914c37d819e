"""Noisy numbers of rows at one grid point of a column, and noisy fractions of out-of-domain values.

They decide which warnings users get, and whether synthetic rows may be missing or have the label for others.  All of it
is post-processing of noisy answers.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from synthdp.domain.domain import Domain
from synthdp.domain.grid import grid_of
from synthdp.measurements import Measurements, NoiseLaw, beyond_noise, by_noise_alone, findings, row_counts
from synthdp.queries.contingency import NoisyTable
from synthdp.queries.protocol import CellCounting
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.columns import DISCOVERED, Column
from synthdp.schema.derived import Derived
from synthdp.schema.schema import Schema

SURELY = 1.645
"""z-value of a one-sided 95 % bound: a normal variable exceeds it with probability 5 %.  Derived: normal quantile at .95.
"""

MOST_NAMED = 10
"""Most columns named in one sentence of a receipt; the others are counted. A convention: longer sentences are not read.
"""

MOST_ROWS = "rows may have one"
"""The end of a receipt's note on missing values: "up to about 12 rows may have one", where one is a missing value."""

Point = TypeVar("Point", bound=Hashable)
"""Type by which a caller of `by_noise` names a grid point of a column."""


class MisfitShare(NamedTuple):
    """Holds the noisy fraction of a column's values that are out of domain, from 0 to 1.

    Numbers beyond the bounds are not counted, because they are clipped into the domain.
    """

    share: float
    stddev: float
    """Standard error of the fraction."""


class PointCount(NamedTuple):
    """Holds a noisy number of rows at one grid point, which may be negative, and the stddev of its noise."""

    rows: float
    stddev: float
    normal: bool = False
    """Whether the noise is Gaussian."""

    @property
    def chance(self) -> float:
        """Return the probability that noise alone gives a count at least this large, if no row is there (a p-value)."""
        return by_noise_alone(self.rows, self.stddev, normal=self.normal)


def misfit_shares(model: SyntheticModel, measurements: Sequence[Measurements]) -> dict[str, MisfitShare | None]:
    """Return by column the noisy fraction of out-of-domain values and its standard error, to warn users.

    Synthetic rows leave such values out.  The fraction is ``None`` for a column without a noisy count of these values.
    It is exactly 0 for a column whose domain includes every value, such as a column with a label for others.
    """
    total, noise = _total(model, measurements)
    counted = [_Counted.of_answers(one) for one in measurements]
    shares: dict[str, MisfitShare | None] = {}
    for name, column in model.schema.items():
        hidden = grid_of(column).hidden
        found = PointCount(0.0, 0.0) if hidden is None else _counts(counted, name, hidden)
        if found is None:
            shares[name] = None
            continue
        share = min(max(found.rows / total, 0.0), 1.0)
        shares[name] = MisfitShare(share, math.hypot(found.stddev, share * noise) / total)
    return shares


def misfit_columns(shares: Mapping[str, MisfitShare | None]) -> dict[str, MisfitShare]:
    """Return the columns whose fraction of out-of-domain values is larger than noise explains, for notes and warnings."""
    known = {name: share for name, share in shares.items() if share is not None}
    return {name: one for name, one in known.items() if one.share > beyond_noise(one.stddev, len(known))}


def pooled(found: Iterable[PointCount]) -> PointCount | None:
    """Return the weighted mean of several noisy counts of one grid point; weights are 1 / variance.

    Return ``None`` without a count.
    """
    counts = list(found)
    if not counts:
        return None
    precision = sum(count.stddev**-2 for count in counts)
    rows = sum(count.rows * count.stddev**-2 for count in counts) / precision
    return PointCount(rows, precision**-0.5, all(count.normal for count in counts))


def special_points(schema: Schema) -> list[tuple[str, int]]:
    """Return (column, grid point) pairs that synthetic rows have only if their noisy counts are significant.

    The points are the missing value of each column, and the label for others of a discovered column.  Columns that a
    rule names are left out; a column from which a rule only computes another one is not.
    """
    named = {name for rule in schema.constraints if not isinstance(rule, Derived) for name in rule.names}
    found = []
    for name, column in schema.items():
        grid = grid_of(column)
        if name not in named and not column.names_rows:
            found += [(name, grid.null)] if grid.null is not None else []
            found += [(name, grid.other)] if column.source == DISCOVERED and grid.other < grid.regular else []
    return found


def by_noise(counts: Mapping[Point, PointCount | None]) -> dict[Point, PointCount]:
    """Return the counts that noise alone explains; synthetic rows should not have their grid points.

    Each count is tested by its own noise distribution; `findings` corrects for the number of tests.  Grid points
    without a count are left out.
    """
    known = {point: count for point, count in counts.items() if count is not None}
    ordered = sorted(known, key=lambda point: known[point].chance)
    return {point: known[point] for point in ordered[findings([count.chance for count in known.values()]) :]}


def unproven_points(model: SyntheticModel, measurements: Sequence[Measurements]) -> dict[tuple[str, int], PointCount]:
    """Return the `special_points` of one table whose noisy counts noise alone explains, each with its count."""
    asked = special_points(model.schema)
    counted = [_Counted.of_answers(one) for one in measurements] if asked else []
    return by_noise({point: _counts(counted, *point) for point in asked})


def unproven_notes(
    unproven: Mapping[tuple[str, int], PointCount], columns: Mapping[str, Column], *, most: str = MOST_ROWS
) -> tuple[str, ...]:
    """Return the receipt's note on missing values whose number noise explains, so that synthetic rows have none; else ().

    The note names the columns, and one upper bound for the missing values of each.

    Parameters
    ----------
    unproven
        The counts that noise explains, by column and grid point.
    columns
        The declarations of these columns.
    most
        Words for the upper bound, behind its number.
    """
    hidden = {name: count for (name, index), count in unproven.items() if index == grid_of(columns[name]).null}
    if not hidden:
        return ()
    bound = max(max(count.rows, 0.0) + SURELY * count.stddev for count in hidden.values())
    named = ", ".join(repr(name) for name in list(hidden)[:MOST_NAMED])
    more = f" and {len(hidden) - MOST_NAMED} more" if len(hidden) > MOST_NAMED else ""
    said = f"no synthetic value is missing in column {named}{more}, because noise explains the number of missing values"
    return (f"{said}: up to about {bound:,.0f} {most}",)


def _counts(counted: Sequence[_Counted], name: str, index: int) -> PointCount | None:
    """Return the pooled count of one grid point of a column; ``None`` if no answer counts this grid point alone.

    Several measurements may count the point. Their counts are averaged by inverse variance.
    """
    return pooled(count for one in counted for count in one.counts_of(name, index))


class _Counted(NamedTuple):
    """Holds one measurement with its noisy tables by column, so that counts of single grid points are quickly found.

    Parameters
    ----------
    measured
        The noisy answers.
    cells
        The queries, if they count cells of single columns, else ``None``.
    domain
        The domain of the queries; ``None`` for queries about keys.
    tables
        By column, the noisy tables that contain the column.
    """

    measured: Measurements
    cells: CellCounting | None
    domain: Domain | None
    tables: Mapping[int, Sequence[NoisyTable]]

    @classmethod
    def of_answers(cls, measured: Measurements) -> _Counted:
        """Return one measurement with its noisy tables by column.

        Interactions measured without their marginals are left out: their entries count no rows.
        """
        tables: dict[int, list[NoisyTable]] = {}
        for table in measured.tables:
            if not table.alone:
                for column in table.clique:
                    tables.setdefault(column, []).append(table)
        queries = measured.queries
        return cls(measured, queries if isinstance(queries, CellCounting) else None, measured.domain, tables)

    def counts_of(self, name: str, index: int) -> Iterator[PointCount]:
        """Yield the noisy counts of one grid point of a column; none if its bin holds other grid points too.

        An answer may count the bin itself; else the cells of a table that lie in the bin are added up.  The caller
        pools the counts.
        """
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
    """Return the denominator of the fractions: the number of rows, at least 1, and the least stddev of a noisy row count.

    The stddev is 0 if the number of rows is public.
    """
    return max(model.total, 1.0), min((stddev for _, stddev in row_counts(measurements)), default=0.0)
