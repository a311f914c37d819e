"""Independence: the distribution of one-way marginals, and the product of one distribution for each group of columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from synthdp.arrays import Clique, Codes, FloatArray, Table, frozen
from synthdp.codec import file_form
from synthdp.distribution.distribution import (
    Distribution,
    Evidence,
    ImpossibleEvidenceError,
    check_evidence,
    check_rows,
    codes_dtype,
    draw_within_groups,
    impossible,
)
from synthdp.errors import ParameterError
from synthdp.queries.contingency import Shape, check_clique, check_shape, normalised
from synthdp.randomness import Generator


@file_form("product")
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Product:
    """The product of one distribution a column; a `Distribution`.

    Parameters
    ----------
    shape
        Number of codes of each of the d columns.
    margins
        d arrays (k_j,) of non-negative weights with a positive sum; they are normalised.

    Raises
    ------
    ParameterError
        If a margin has another length, a negative or infinite weight, or sum 0.
    """

    shape: Shape
    margins: Sequence[FloatArray]

    def __post_init__(self) -> None:
        shape = check_shape(self.shape)
        if len(self.margins) != len(shape):
            raise ParameterError(
                f"margins must hold one array for each of {len(shape)} columns, not {len(self.margins)}"
            )
        margins = tuple(_normalised(j, k, self.margins[j]) for j, k in enumerate(shape))
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "margins", margins)

    def marginal(self, clique: Clique) -> Table:
        """Return the table of ``clique`` as the outer product of its columns' margins; see `Distribution.marginal`."""
        check_clique(clique, self.shape)
        table = np.ones(1)
        for j in clique:
            table = np.multiply.outer(table, self.margins[j]).ravel()
        return table

    def sample(self, rows: int, rng: Generator, *, given: Evidence | None = None, independent: bool = False) -> Codes:
        """Draw each column on its own, with counts near their expectations, in random order.

        See `Distribution.sample`.
        """
        check_rows(rows)
        likelihoods = check_evidence(given, self.shape)
        codes = np.empty((rows, len(self.shape)), codes_dtype(self.shape), order="F")
        everyone = np.zeros(rows, np.uint8)
        for j, margin in enumerate(self.margins):
            weights = margin * likelihoods[j] if j in likelihoods else margin
            if not weights.any():
                raise impossible({j: likelihoods[j]})
            codes[:, j] = draw_within_groups(weights[None, :], everyone, rng, independent=independent)
        return codes


def _normalised(column: int, size: int, margin: FloatArray) -> FloatArray:
    """Return a (cells,) margin that sums to 1.

    Raise ParameterError unless it is finite, not negative and not all zero.
    """
    weights = np.array(margin, dtype=np.float64)
    valid = weights.shape == (size,) and bool(np.isfinite(weights).all()) and bool((weights >= 0).all())
    if not valid or not weights.any():
        raise ParameterError(
            f"margin of column {column} must hold {size} non-negative finite weights with a positive sum"
        )
    return frozen(normalised(weights))


@file_form("components")
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
        If a column is in no part or in two, or a part's shape differs from its columns'.
    """

    shape: Shape
    columns: Sequence[Clique]
    parts: Sequence[Distribution]

    def __post_init__(self) -> None:
        shape = check_shape(self.shape)
        columns = tuple(tuple(int(j) for j in clique) for clique in self.columns)
        if sorted(j for clique in columns for j in clique) != list(range(len(shape))):
            raise ParameterError(f"columns must name each of the {len(shape)} columns exactly once")
        if len(columns) != len(self.parts):
            raise ParameterError(
                f"parts must hold one part for each of the {len(columns)} groups of columns, not {len(self.parts)}"
            )
        for clique, part in zip(columns, self.parts, strict=True):
            check_clique(clique, shape)
            if tuple(part.shape) != tuple(shape[j] for j in clique):
                raise ParameterError(
                    f"each part must have the shape of its columns: the part of columns {clique} does not"
                )
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "parts", tuple(self.parts))

    def marginal(self, clique: Clique) -> Table:
        """Return the product of the parts' marginals; see `Distribution.marginal`."""
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
        """Draw rows from every part and put them side by side in random order; see `Distribution.sample`."""
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
        """Return the position of the part that has a column, and the column's position within the part."""
        return next((p, columns.index(column)) for p, columns in enumerate(self.columns) if column in columns)

    def with_part(self, p: int, part: Distribution) -> Components:
        """Return the distribution with part number ``p`` replaced, such as a part conditioned on evidence."""
        return replace(self, parts=(*self.parts[:p], part, *self.parts[p + 1 :]))
