"""Public totals: how many rows each value of some columns has, known from elsewhere and exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from synthdp.arrays import FloatArray, IntArray
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PublicTotals:
    """The exact number of rows of every combination of values of some columns.

    Parameters
    ----------
    names
        The columns.
    points
        (k, columns) grid index of each value; combinations that are not listed have no row.
    counts
        (k,) their rows, >= 0.
    """

    names: tuple[str, ...]
    points: IntArray
    counts: FloatArray

    @property
    def rows(self) -> float:
        """The number of all rows: the sum of the totals."""
        return float(self.counts.sum())

    def on(self, axis: Axis) -> FloatArray:
        """Return the public number of rows in each cell of an axis, (cells,); for totals of that one column only."""
        cells = axis.cells_of(self.points[:, 0].astype(np.uint32)).astype(np.int64)
        return np.asarray(np.bincount(cells, self.counts, minlength=axis.size), np.float64)

    def table(self, domain: Domain) -> tuple[tuple[int, ...], FloatArray]:
        """Return the columns' positions in a domain, sorted, and the rows in each cell of their table, (cells,)."""
        places = domain.index(*self.names)
        order = np.argsort(places, kind="stable")
        clique = tuple(places[i] for i in order)
        shape = tuple(domain.shape[j] for j in clique)
        cells = [domain.axes[places[i]].cells_of(self.points[:, i].astype(np.uint32)).astype(np.int64) for i in order]
        flat = np.ravel_multi_index(cells, shape)
        return clique, np.asarray(np.bincount(flat, self.counts, minlength=int(np.prod(shape))), np.float64)

    def note(self) -> str:
        """Return the receipt's sentence on the totals."""
        return (
            f"public totals of {' × '.join(self.names)}: {self.rows:g} rows in {len(self.counts)} cells, kept exactly; they "
            "were declared public, and nothing protects them"
        )
