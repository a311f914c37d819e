"""Noisy averages of one-ways, pairs and products as they would be without misfits, and their features at support points.

Post-processing of noisy answers: tables are made to agree, and one-ways join the pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sparse

from synthdp.arrays import Codes, FloatArray
from synthdp.distribution.contingency import NoisyTable
from synthdp.domain.domain import Domain
from synthdp.fit.misfits import averages_without_misfits, make_fitting, noisy_tables
from synthdp.measurements import Measurements
from synthdp.mechanisms.design import design
from synthdp.queries.marginals import Marginals
from synthdp.queries.protocol import LinearQueries
from synthdp.queries.trigonometric import TensorBasis


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoisyAverages:
    """All noisy averages of a table without misfits.

    Parameters
    ----------
    families
        The queries.
    averages, stddev
        (k,) of all families, one after the other, and their noise.
    tables
        The consistent tables among them.
    """

    families: tuple[LinearQueries, ...]
    averages: FloatArray
    stddev: FloatArray
    tables: tuple[NoisyTable, ...]

    @classmethod
    def of(
        cls,
        domain: Domain,
        ones: Sequence[NoisyTable],
        answers: Sequence[Measurements],
        misfits: FloatArray,
        *,
        total: float,
    ) -> NoisyAverages:
        """Return one-ways and pairs, made to agree, and products of cosines."""
        raw = list(ones)
        products = []
        for one in answers:
            if isinstance(one.queries, Marginals):
                raw += noisy_tables(one.queries, one.answers, one.stddev)
            elif isinstance(one.queries, TensorBasis):
                averages, scale = averages_without_misfits(one.queries, one.answers / total, misfits / total)
                products.append((one.queries, averages, one.stddev / total * scale))
        tables = make_fitting(raw, [axis.releasable for axis in domain.axes], misfits, total=total)
        counts = np.concatenate([table.counts for table in tables]) / total
        stddev = np.repeat([table.stddev / total for table in tables], [table.counts.size for table in tables])
        return cls(
            families=(Marginals(domain, tuple(table.clique for table in tables)), *(one[0] for one in products)),
            averages=np.concatenate([counts, *(one[1] for one in products)]),
            stddev=np.concatenate([stddev, *(one[2] for one in products)]),
            tables=tables,
        )

    def features(self, codes: Codes) -> Any:
        """Return the (k, m) features of (m, d) support points, sparse where all are tables."""
        blocks: list[Any] = [design(queries, codes) for queries in self.families]
        if len(blocks) == 1:
            return sparse.csc_array(blocks[0])
        return np.vstack([sparse.csc_array(block).toarray() for block in blocks])
