"""What every distribution over coded rows can do: marginals, and samples under evidence.

Stands between `fit`, which makes distributions, and everything that draws rows or answers from them.  Also
the type of evidence, and its check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from synthdp.arrays import BoolArray, Codes, Table
from synthdp.distribution.clique_tables import Clique, Shape
from synthdp.errors import ParameterError
from synthdp.randomness import Generator

Evidence: TypeAlias = Mapping[int, BoolArray]
"""For some columns j, a (k_j,) mask of the codes that remain possible."""


@runtime_checkable
class Distribution(Protocol):
    """A probability distribution over rows of d codes."""

    @property
    def shape(self) -> Shape:
        """The number of codes of each of the d columns."""
        ...

    def marginal(self, clique: Clique) -> Table:
        """Return the (cells,) probabilities of the table of ``clique``, flat in C order; (1,) for no columns.

        Raises
        ------
        ParameterError
            If ``clique`` is not strictly increasing or lies outside the columns, or its table cannot be
            computed.
        """
        ...

    def sample(self, rows: int, rng: Generator, *, given: Evidence | None = None) -> Codes:
        """Draw rows; systematic rather than independent draws, so that counts stay near their expectations.

        Each row has the distribution's law, and the rows are exchangeable: their order carries nothing.

        Parameters
        ----------
        rows
            Number of rows, >= 0.
        rng
            Source of randomness.
        given
            Evidence that every row must satisfy; the law is then the exact conditional one.

        Returns
        -------
        (rows, d) codes, Fortran order, smallest unsigned type for all columns.

        Raises
        ------
        ParameterError
            If ``rows`` is negative, the evidence does not fit the columns, or it has probability 0.
        """
        ...


def check_evidence(given: Evidence | None, shape: Sequence[int]) -> dict[int, BoolArray]:
    """Return the evidence as boolean masks (nothing for ``None``), or raise ParameterError."""
    masks: dict[int, BoolArray] = {}
    for column, mask in (given or {}).items():
        if not 0 <= column < len(shape):
            raise ParameterError(f"given: column ({column}) must lie within the {len(shape)} columns")
        masks[column] = np.asarray(mask)
        if masks[column].dtype != np.bool_ or masks[column].shape != (shape[column],):
            raise ParameterError(f"given: mask of column {column} must hold {shape[column]} booleans")
    return masks


def check_rows(rows: int) -> None:
    """Raise ParameterError if ``rows`` is negative."""
    if rows < 0:
        raise ParameterError(f"rows ({rows}) must be at least 0")


def impossible(given: Evidence) -> ParameterError:
    """Return the error for evidence of probability 0; it names columns, never codes."""
    columns = ", ".join(str(column) for column in sorted(given))
    return ParameterError(f"given (columns {columns}) must have positive probability; it contradicts the distribution")


def codes_dtype(shape: Sequence[int]) -> np.dtype[np.unsignedinteger]:
    """Return the smallest unsigned type that holds every column's codes."""
    return np.min_scalar_type(max(shape, default=1) - 1)
