"""The states that a person of a panel may be in: every combination of cells of the columns, and absent.

Public arithmetic; sees no row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from synthdp.arrays import AnyArray, BoolArray, GridIndices, IntArray, frozen
from synthdp.domain.domain import Domain, domain_of
from synthdp.domain.refinement import Refinement
from synthdp.errors import ParameterError, SchemaError
from synthdp.randomness import Generator
from synthdp.schema.columns import Identifier
from synthdp.schema.schema import Schema

MOST_PATTERNS = 2**18
"""Most sequences of states that are counted in every period, one count each.  A safety limit of memory."""


@dataclass(frozen=True, slots=True, eq=False)
class PanelStates:
    """The states a person can be in during one period, numbered from 0; the last one is absence.

    Parameters
    ----------
    schema
        Columns of the rows; a value that does not fit its column counts as no row.
    window
        Number of consecutive periods that are counted together.
    bins
        Most cells of a column of numbers.

    Raises
    ------
    SchemaError
        If the schema leaves something open, or has rules or identifiers.
    ParameterError
        If there are too many sequences of states.
    """

    schema: Schema
    window: int
    bins: int
    domain: Domain = field(init=False)
    cells: IntArray = field(init=False)

    def __post_init__(self) -> None:
        if self.schema.undeclared:
            raise SchemaError(
                f"column {self.schema.undeclared[0]!r} must have declared bounds or levels, because a panel "
                "discovers none"
            )
        if self.schema.constraints or any(isinstance(one, Identifier) for one in self.schema.values()):
            raise SchemaError(
                "a panel takes neither rules between columns nor identifiers: leave them out of the schema"
            )
        object.__setattr__(self, "domain", domain_of(self.schema, bins=self.bins))
        possible = np.ones(1, np.bool_)
        for axis in self.domain.axes:
            possible = np.logical_and.outer(possible, axis.releasable).ravel()
        object.__setattr__(self, "cells", frozen(np.flatnonzero(possible).astype(np.int64)))
        if self.count**self.window > MOST_PATTERNS:
            raise ParameterError(
                f"a panel counts {self.count**self.window:,} sequences ({self.count} cells over {self.window} "
                f"periods), more than {MOST_PATTERNS:,}: use fewer columns, a shorter window or fewer bins"
            )

    @property
    def count(self) -> int:
        """How many states there are, absence among them."""
        return len(self.cells) + 1

    @property
    def absent(self) -> int:
        """The state of a person without a row."""
        return len(self.cells)

    @property
    def patterns(self) -> int:
        """The number of possible sequences of states in one window."""
        return int(self.count**self.window)

    def of_rows(self, indices: Mapping[str, GridIndices]) -> IntArray:
        """Return the state of every row, (n,), from grid indices by column; `absent` if a value does not fit."""
        place = np.full(int(np.prod(self.domain.shape)), self.absent, np.int64)
        place[self.cells] = np.arange(len(self.cells))
        return np.asarray(place[self.domain.ravel(self.domain.codes(indices), range(len(self.domain)))])

    def rows_of(self, states: IntArray, rng: Generator) -> dict[str, GridIndices]:
        """Draw a row for each state, as grid indices by column, (n,), uniformly within cells; no state is `absent`."""
        codes = np.unravel_index(self.cells[states], self.domain.shape)
        return {
            axis.name: Refinement.trivial(axis).indices_in(code, rng)
            for axis, code in zip(self.domain.axes, codes, strict=True)
        }

    def where(self, allowed: Mapping[str, AnyArray]) -> BoolArray:
        """Return which states have only allowed grid points, (states,); absence is never allowed.

        Raises
        ------
        ParameterError
            If a cell has points that are allowed and others that are not.
        """
        codes = np.unravel_index(self.cells, self.domain.shape)
        found = np.ones(len(self.cells), np.bool_)
        for axis, code in zip(self.domain.axes, codes, strict=True):
            if axis.name not in allowed:
                continue
            points = np.arange(axis.grid.releasable, dtype=np.uint32)
            inside = np.bincount(axis.cells_of(points), allowed[axis.name][: len(points)], minlength=axis.size)
            if ((inside > 0) & (inside < axis.width)).any():
                raise ParameterError(
                    f"the condition on {axis.name!r} holds for only a part of one bin of the panel: put its limits "
                    "between bins, or start a panel with more bins for this column"
                )
            found &= inside[code] > 0
        return np.append(found, False)

    def pattern_of(self, sequence: AnyArray) -> IntArray:
        """Return the pattern number, (n,), of sequences of states, (n, window) from the earliest to the latest."""
        powers = self.count ** np.arange(self.window - 1, -1, -1)
        return np.asarray(sequence.astype(np.int64) @ powers)

    def sequences(self) -> IntArray:
        """Return the sequence of states of every pattern number, (patterns, window); the inverse of `pattern_of`."""
        return np.stack(np.unravel_index(np.arange(self.patterns), (self.count,) * self.window), axis=1)
