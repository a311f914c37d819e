"""The matrix of a fit: what each support point answers to each query.  Public: cells and queries, no rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sparse

from synthdp.arrays import Codes
from synthdp.queries.marginals import Marginals
from synthdp.queries.protocol import LinearQueries


def design(queries: LinearQueries, codes: Codes) -> Any:
    """Return the (k, m) real answers of (m, d) support points, sparse for marginals, which are 0 in nearly all cells."""
    if not isinstance(queries, Marginals):
        return queries.features(codes).T / queries.denominator
    cells = queries.cells(codes)
    column = np.repeat(np.arange(len(codes)), cells.shape[1])
    return sparse.csr_array((np.ones(cells.size), (cells.ravel(), column)), shape=(queries.k, len(codes)))
