"""Values that do not fit the schema, in the averages of smooth functions: counted by an indicator, and taken out.

A misfit has no point: every cosine of its column is 0 for it, so the indicator of its cell can be asked beside them at
the sensitivity of the cosines alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from synthdp.arrays import FloatArray
from synthdp.domain.domain import Domain
from synthdp.measurements import beyond_noise
from synthdp.queries.trigonometric import Indicator, Term


def misfit_cells(domain: Domain) -> tuple[Indicator | None, ...]:
    """Return for each column the indicator of its misfits, ``None`` where all values fit."""
    found: list[Indicator | None] = []
    for j, axis in enumerate(domain.axes):
        cells = np.flatnonzero(~axis.releasable)
        found.append(Indicator(j, int(cells[0])) if len(cells) else None)
    return tuple(found)


def misfit_terms(domain: Domain, *, order: int) -> tuple[Term, ...]:
    """Return indicators of the misfits of each column and, for ``order`` 2, of each two columns at once."""
    cells = [cell for cell in misfit_cells(domain) if cell is not None]
    singles: list[Term] = [(cell,) for cell in cells]
    pairs: list[Term] = [(a, b) for i, a in enumerate(cells) for b in cells[i + 1 :]] if order > 1 else []
    return (*singles, *pairs)


def clear_shares(domain: Domain, terms: Sequence[Term], averages: FloatArray, stddev: float) -> FloatArray:
    """Return the share of misfits in each column, (d,), from the averages of its terms; 0 where noise explains it."""
    shares = np.zeros(len(domain))
    known = {term: float(average) for term, average in zip(terms, averages, strict=True)}
    asked = [cell for cell in misfit_cells(domain) if cell is not None and (cell,) in known]
    bound = beyond_noise(stddev, max(1, len(asked)))
    for cell in asked:
        share = known[(cell,)]
        shares[cell.column] = min(share, 1.0) if share > bound else 0.0
    return shares
