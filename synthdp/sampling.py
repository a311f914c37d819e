"""From a distribution over cells to rows of a table: the last step, free of cost and repeatable by seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from synthdp.arrays import BoolArray, Codes, FloatArray, IntArray, Units
from synthdp.distribution.protocol import Distribution
from synthdp.distribution.systematic import draw_within_groups
from synthdp.domain.domain import Domain
from synthdp.domain.encoder import decode
from synthdp.domain.grid import grid_of
from synthdp.domain.refinement import Refinement
from synthdp.domain.values import numbers_of_units, units_of_values
from synthdp.errors import ParameterError
from synthdp.randomness import Generator, RandomState, generator
from synthdp.schema.columns import Column
from synthdp.schema.constraints import LessEqual
from synthdp.schema.schema import Schema
from synthdp.tables.format import TableFormat

REDRAWS = 20
"""How often rows that break an order between two columns are drawn anew before they are set to a common value."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SyntheticModel:
    """A distribution over the cells of a domain that can be sampled as a table.

    Parameters
    ----------
    schema
        The columns.
    domain
        Coarse axes, one per column.
    distribution
        Over the cells of ``domain``.
    refinements
        How each coarse cell is divided.
    total
        Estimated number of rows of the private table (or the exact one, where it is public).
    format
        The outer form of the tables.
    """

    schema: Schema
    domain: Domain
    distribution: Distribution
    refinements: tuple[Refinement, ...]
    total: float
    format: TableFormat

    def __repr__(self) -> str:
        return f"SyntheticModel({len(self.domain)} columns, about {self.rows} rows)"

    @property
    def rows(self) -> int:
        """Default number of rows: the estimated total, at least 1."""
        return max(1, round(self.total))

    def sample(
        self,
        rows: int | None = None,
        *,
        random_state: RandomState = None,
        given: Mapping[str, Any] | None = None,
        format: TableFormat | None = None,  # noqa: A002 - the word users know
    ) -> Any:
        """Draw rows, by systematic sampling: counts differ from their expectation by less than independent draws' would.

        Parameters
        ----------
        rows
            How many; default: the estimated number of private rows.
        random_state
            Seed of the sampling.  It never reaches noise.
        given
            Values that the rows must have, by column: one value, a list of values, or ``(lower, upper)`` for an ordered
            column, both inclusive.
        format
            Another outer form.

        Raises
        ------
        ParameterError
            If ``rows`` is below 1, or ``given`` names no column or a combination of probability 0.
        """
        units = self.sample_units(self.rows if rows is None else rows, generator(random_state), given=given)
        raw = {name: decode(column, units[name]) for name, column in self.schema.items()}
        return (format or self.format).build(self.schema, raw)

    def sample_units(self, rows: int, rng: Generator, *, given: Mapping[str, Any] | None = None) -> dict[str, Units]:
        """Draw rows as units of each column."""
        if isinstance(rows, bool) or not isinstance(rows, (int, np.integer)) or rows < 1:
            raise ParameterError(f"rows ({rows!r}) must be a whole number of at least 1")
        allowed = {name: self._allowed(name, value) for name, value in (given or {}).items()}
        evidence = {
            self.domain.index(name)[0]: self._coarse_share(self.domain.index(name)[0], allowed[name])
            for name in allowed
        }
        codes = self.distribution.sample(int(rows), rng, given=evidence or None)
        units = {
            axis.name: self.refine(j, codes, j, rng, allowed.get(axis.name)) for j, axis in enumerate(self.domain.axes)
        }
        for rule in self.schema.constraints:
            if isinstance(rule, LessEqual):
                keep_order(self, units, rule, rng)
        return units

    def _allowed(self, name: str, value: object) -> BoolArray:
        if name not in self.schema:
            raise ParameterError(f"there is no column {name!r}; the schema has: {', '.join(self.schema)}")
        return units_of_values(self.schema[name], value, name=name)

    def _fine_share(self, j: int, allowed: BoolArray) -> FloatArray:
        """Share of each fine cell's units that are allowed."""
        fine = self.refinements[j].fine
        cells = np.repeat(fine.cells, np.diff(np.append(fine.starts, fine.grid.size)))[: fine.grid.visible]
        count = np.bincount(cells, weights=allowed[: fine.grid.visible], minlength=fine.size)
        return np.divide(count, fine.width, out=np.zeros(fine.size), where=fine.width > 0)

    def _coarse_share(self, j: int, allowed: BoolArray) -> FloatArray:
        """Share of each coarse cell's mass that is allowed."""
        refinement = self.refinements[j]
        share = self._fine_share(j, allowed)
        whole = np.bincount(refinement.coarse_cell, weights=refinement.weights)
        part = np.bincount(refinement.coarse_cell, weights=refinement.weights * share)
        return np.divide(part, whole, out=np.zeros(len(whole)), where=whole > 0)

    def refine(self, j: int, codes: Codes, at: int, rng: Generator, allowed: BoolArray | None = None) -> Units:
        """Draw units of column ``j`` for rows whose coarse cells stand in column ``at`` of ``codes``."""
        refinement = self.refinements[j]
        table = refinement.table(None if allowed is None else self._fine_share(j, allowed))
        fine = draw_within_groups(table, codes[:, at], rng)
        units = refinement.fine.units_in(fine, rng)
        return units if allowed is None else _redraw(units, refinement, fine, allowed, rng)


def _redraw(units: Units, refinement: Refinement, fine: Codes, allowed: BoolArray, rng: Generator) -> Units:
    """Draw anew, among the allowed units of their cell, the units that are not allowed."""
    if allowed[units].all():
        return units
    good = np.flatnonzero(allowed)
    cell = refinement.fine.cells_of(good.astype(units.dtype))
    order = np.argsort(cell, kind="stable")
    first = np.searchsorted(cell[order], np.arange(refinement.fine.size))
    count = np.bincount(cell, minlength=refinement.fine.size)
    place = first[fine] + np.floor(rng.random(len(fine)) * count[fine]).astype(np.int64)
    return np.where(allowed[units], units, good[order][np.minimum(place, len(good) - 1)]).astype(units.dtype)


def keep_order(model: SyntheticModel, units: dict[str, Units], rule: LessEqual, rng: Generator) -> None:
    """Make every row obey ``left <= right``, in place: rows whose cells overlap may have drawn them in the wrong order.

    Both values are drawn anew within their cells, a bounded number of times; what is left is set to a common value.
    """
    left, right = model.schema[rule.left], model.schema[rule.right]
    a, b = model.domain.index(rule.left, rule.right)
    for _ in range(REDRAWS):
        wrong = _disordered(left, units[rule.left], right, units[rule.right])
        if not len(wrong):
            return
        for j, name in ((a, rule.left), (b, rule.right)):
            cells = model.refinements[j].fine.cells_of(units[name][wrong])
            codes = model.refinements[j].coarse_cell[cells].reshape(-1, 1)
            units[name][wrong] = model.refine(j, codes, 0, rng)
    wrong = _disordered(left, units[rule.left], right, units[rule.right])
    high = numbers_of_units(right, units[rule.right][wrong].astype(np.int64))
    units[rule.left][wrong] = _largest_up_to(left, high).astype(units[rule.left].dtype)
    wrong = _disordered(left, units[rule.left], right, units[rule.right])
    low = numbers_of_units(left, units[rule.left][wrong].astype(np.int64))
    units[rule.right][wrong] = _smallest_from(right, low).astype(units[rule.right].dtype)


def _disordered(left: Column, a: Units, right: Column, b: Units) -> IntArray:
    return np.flatnonzero(numbers_of_units(left, a.astype(np.int64)) > numbers_of_units(right, b.astype(np.int64)))


def _largest_up_to(column: Column, bound: FloatArray) -> IntArray:
    """Return the largest regular unit whose number is at most each bound, or unit 0."""
    values = numbers_of_units(column, np.arange(grid_of(column).regular))
    return np.maximum(np.searchsorted(values, bound, side="right") - 1, 0)


def _smallest_from(column: Column, bound: FloatArray) -> IntArray:
    """Return the smallest regular unit whose number is at least each bound, or the last one."""
    values = numbers_of_units(column, np.arange(grid_of(column).regular))
    return np.minimum(np.searchsorted(values, bound, side="left"), len(values) - 1)
