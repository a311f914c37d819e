"""From a distribution over cells to rows of a table: the last step, free of cost and repeatable by seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from synthdp.arrays import BoolArray, Codes, FloatArray, Units
from synthdp.distribution.protocol import Distribution
from synthdp.distribution.systematic import draw_systematically
from synthdp.domain.domain import Domain
from synthdp.domain.encoder import Labels, Numbers, decode, encode
from synthdp.domain.grid import grid_of, has_labels
from synthdp.domain.refinement import Refinement
from synthdp.errors import ParameterError
from synthdp.randomness import Generator, RandomState, generator
from synthdp.schema.columns import Column, Datetime, Identifier
from synthdp.schema.schema import Schema
from synthdp.tables.format import TableFormat


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
    ) -> Any:  # noqa: ANN401 - a frame of the format's library
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

    def sample_units(
        self, rows: int, rng: Generator, *, given: Mapping[str, Any] | None = None
    ) -> dict[str, Units]:
        """Draw rows as units of each column."""
        if isinstance(rows, bool) or not isinstance(rows, (int, np.integer)) or rows < 1:
            raise ParameterError(f"rows ({rows!r}) must be a whole number of at least 1")
        allowed = {name: allowed_units(name, self.schema, value) for name, value in (given or {}).items()}
        evidence = {}
        for name in allowed:
            j = self.domain.index(name)[0]
            evidence[j] = self._coarse_share(j, allowed[name])
        codes = self.distribution.sample(int(rows), rng, given=evidence or None)
        return {
            axis.name: self._refine(j, codes, rng, allowed.get(axis.name)) for j, axis in enumerate(self.domain.axes)
        }

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

    def _refine(self, j: int, codes: Codes, rng: Generator, allowed: BoolArray | None) -> Units:
        refinement = self.refinements[j]
        table = refinement.table(None if allowed is None else self._fine_share(j, allowed))
        fine = draw_systematically(table, codes[:, j].astype(np.int64), rng)
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


def allowed_units(name: str, schema: Schema, value: object) -> BoolArray:
    """Return which units of a column a condition allows, (size,).

    Parameters
    ----------
    name
        The column.
    schema
        The columns' declarations.
    value
        One value, a list of values, or ``(lower, upper)``; ``None`` stands for missing.

    Raises
    ------
    ParameterError
        If the column is unknown or cannot hold such a value.
    """
    if name not in schema:
        raise ParameterError(f"there is no column {name!r}; the schema has: {', '.join(schema)}")
    column = schema[name]
    grid = grid_of(column)
    if isinstance(column, Identifier):
        raise ParameterError(f"column {name!r} is an identifier: its labels carry no information to condition on")
    allowed = np.zeros(grid.size, np.bool_)
    if isinstance(value, tuple) and len(value) == 2 and not has_labels(column):
        first, last = (_unit_of(column, bound) for bound in value)
        allowed[min(first, last) : max(first, last) + 1] = True
        return allowed
    for one in value if isinstance(value, (list, tuple, set, frozenset, range)) else [value]:
        unit = grid.null if one is None else _unit_of(column, one)
        if unit is None or unit == grid.hidden:
            raise ParameterError(f"column {name!r} cannot hold the value {one!r}")
        allowed[unit] = True
    return allowed


def _unit_of(column: Column, value: object) -> int:
    if has_labels(column):
        return int(encode(column, Labels([value], np.zeros(1, np.int64)))[0])
    if isinstance(column, Datetime):
        micros = np.array([value], "datetime64[us]").astype(np.int64)
        return int(encode(column, Numbers(micros))[0])
    return int(encode(column, Numbers(np.array([value], np.float64)))[0])  # type: ignore[arg-type]
