"""Independent columns: the distribution of one-way marginals alone.

The baseline that no release may fall below.  Knows nothing of how its margins came about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import Clique, Codes, FloatArray, Table, frozen
from synthdp.codec import file_form
from synthdp.distribution.contingency import Shape, check_clique, check_shape, normalised
from synthdp.distribution.protocol import Evidence, check_evidence, check_rows, codes_dtype, impossible
from synthdp.distribution.systematic import draw_within_groups
from synthdp.errors import ParameterError
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
            raise ParameterError(f"margins ({len(self.margins)}) must be one for each of {len(shape)} columns")
        margins = tuple(_normalised(j, k, self.margins[j]) for j, k in enumerate(shape))
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "margins", margins)

    def marginal(self, clique: Clique) -> Table:
        """Return the outer product of the columns' margins; see `Distribution.marginal`."""
        check_clique(clique, self.shape)
        table = np.ones(1)
        for j in clique:
            table = np.multiply.outer(table, self.margins[j]).ravel()
        return table

    def sample(self, rows: int, rng: Generator, *, given: Evidence | None = None, independent: bool = False) -> Codes:
        """Draw each column systematically and shuffle it; see `Distribution.sample`."""
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
    weights = np.array(margin, dtype=np.float64)
    valid = weights.shape == (size,) and bool(np.isfinite(weights).all()) and bool((weights >= 0).all())
    if not valid or not weights.any():
        raise ParameterError(
            f"margin of column {column} must hold {size} non-negative finite weights with a positive sum"
        )
    return frozen(normalised(weights))
