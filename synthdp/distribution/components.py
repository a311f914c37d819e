"""Independent groups of columns: the product of one distribution for each group.

Made by the fit of wide tables, where most columns have nothing to do with each other.  Knows no measurement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from synthdp.arrays import Clique, Codes, Table
from synthdp.distribution.contingency import Shape, check_clique, check_shape
from synthdp.distribution.protocol import (
    Distribution,
    Evidence,
    ImpossibleEvidenceError,
    check_evidence,
    check_rows,
    codes_dtype,
    impossible,
)
from synthdp.errors import ParameterError
from synthdp.randomness import Generator


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Components:
    """The product of distributions over disjoint sets of columns; a `Distribution`.

    Parameters
    ----------
    shape
        Number of codes of each of the d columns.
    columns
        For each part its columns, strictly increasing; together every column, once.
    parts
        The distribution of each, over its columns in that order.

    Raises
    ------
    ParameterError
        If a column is in no part or in two, or a part's shape is not that of its columns.
    """

    shape: Shape
    columns: Sequence[Clique]
    parts: Sequence[Distribution]

    def __post_init__(self) -> None:
        shape = check_shape(self.shape)
        columns = tuple(tuple(int(j) for j in clique) for clique in self.columns)
        if sorted(j for clique in columns for j in clique) != list(range(len(shape))):
            raise ParameterError(f"columns must hold each of {len(shape)} columns in one part")
        if len(columns) != len(self.parts):
            raise ParameterError(f"parts ({len(self.parts)}) must be as many as sets of columns ({len(columns)})")
        for clique, part in zip(columns, self.parts, strict=True):
            check_clique(clique, shape)
            if tuple(part.shape) != tuple(shape[j] for j in clique):
                raise ParameterError("a part must have the shape of its columns")
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "parts", tuple(self.parts))

    def marginal(self, clique: Clique) -> Table:
        """Multiply the marginals of the parts; see `Distribution.marginal`."""
        check_clique(clique, self.shape)
        wanted, order, table = set(clique), [], np.ones(1)
        for columns, part in zip(self.columns, self.parts, strict=True):
            inside = [i for i, j in enumerate(columns) if j in wanted]
            if inside:
                table = np.multiply.outer(table, part.marginal(tuple(inside))).ravel()
                order += [columns[i] for i in inside]
        shaped = table.reshape([self.shape[j] for j in order])
        return np.ascontiguousarray(shaped.transpose(np.argsort(order, kind="stable"))).ravel()

    def sample(self, rows: int, rng: Generator, *, given: Evidence | None = None, independent: bool = False) -> Codes:
        """Draw the rows of every part; their order carries nothing, so that parts are independent."""
        check_rows(rows)
        check_evidence(given, self.shape)
        codes = np.empty((rows, len(self.shape)), codes_dtype(self.shape), order="F")
        for columns, part in zip(self.columns, self.parts, strict=True):
            inside = {i: (given or {})[j] for i, j in enumerate(columns) if j in (given or {})}
            try:
                drawn = part.sample(rows, rng, given=inside or None, independent=independent)
            except ImpossibleEvidenceError:
                raise impossible({columns[i]: weights for i, weights in inside.items()}) from None
            for i, j in enumerate(columns):
                codes[:, j] = drawn[:, i]
        return codes

    def part_of(self, column: int) -> tuple[int, int]:
        """Return which part has a column, and its place in it."""
        return next((p, columns.index(column)) for p, columns in enumerate(self.columns) if column in columns)

    def with_part(self, p: int, part: Distribution) -> Components:
        """Return the same with another distribution for one part."""
        return replace(self, parts=(*self.parts[:p], part, *self.parts[p + 1 :]))
