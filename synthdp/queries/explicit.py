"""Any linear queries over a domain that is small enough to list: one value per cell."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from synthdp.arrays import Codes, Features, IntArray, Totals, frozen
from synthdp.checks import whole
from synthdp.codec import file_form
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError
from synthdp.queries.linear import LinearFamily
from synthdp.queries.norms import LARGEST_DENOMINATOR, Norms, RecordBounds, column_norms
from synthdp.queries.protocol import check_overflow

EXACT_PAIRS = 1024
"""Up to so many cells, the change by a replaced record is the maximum over all pairs; above, a bound by ranges."""


@file_form("CellQueries")
@dataclass(frozen=True, slots=True, eq=False)
class CellQueries(LinearFamily):
    """Sums over rows of a table of values, one row per query and one column per cell.

    Parameters
    ----------
    domain
        The axes; cells are counted in C order.
    values
        (k, cells) whole multiples of 1 / ``denominator``.
    denominator
        The whole number that stands for 1.
    """

    domain: Domain
    values: IntArray
    denominator: int = 1
    _bounds: RecordBounds = field(init=False, repr=False)

    def __post_init__(self) -> None:
        values = np.asarray(self.values)
        if values.dtype.kind not in "iub":
            raise ParameterError("values must be whole multiples of 1 / denominator")
        if values.ndim != 2 or not len(values) or values.shape[1] != self.domain.cells:
            raise ParameterError(f"values must be a matrix with a column for each of the {self.domain.cells} cells")
        object.__setattr__(
            self, "denominator", whole("denominator", self.denominator, least=1, most=LARGEST_DENOMINATOR)
        )
        one = column_norms(values)
        object.__setattr__(self, "values", frozen(values.astype(np.int64)))
        object.__setattr__(self, "_bounds", RecordBounds(one, _swap(self.values, one)))
        check_overflow(self)

    @property
    def k(self) -> int:
        """Number of queries."""
        return len(self.values)

    @property
    def bounds(self) -> RecordBounds:
        """The largest norms of a column, and of the difference of two columns."""
        return self._bounds

    def features(self, codes: Codes) -> Features:
        """Return the values of each row's cell, (n, k)."""
        return np.ascontiguousarray(self.values[:, self._flat(codes)].T)

    def sums(self, codes: Codes) -> Totals:
        """Return the exact sums, (k,), from the histogram of the cells."""
        return np.asarray(self.values @ np.bincount(self._flat(codes), minlength=self.domain.cells), np.int64)

    def _flat(self, codes: Codes) -> IntArray:
        return self.domain.ravel(codes, range(len(self.domain)))


def _swap(values: IntArray, one: Norms) -> Norms:
    k, cells = values.shape
    if cells <= EXACT_PAIRS:
        changes = (column_norms(values[:, cell:] - values[:, cell : cell + 1]) for cell in range(cells))
        return reduce(Norms.either, changes)
    spread = [int(change) for change in values.max(axis=1) - values.min(axis=1)]
    l1, l2_squared = sum(spread), sum(change**2 for change in spread)
    return Norms.within(k, max(spread), l1=min(2 * one.l1, l1), l2_squared=min(4 * one.l2_squared, l2_squared))
