"""Tables of pairs of columns that were measured as products of cosines and indicators.  Post-processing of noisy answers.

A junction tree is fitted to tables, so that every pair becomes one by a fit of its own over its few cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sparse

from synthdp.arrays import Clique, Codes, FloatArray
from synthdp.domain.domain import Domain
from synthdp.fit.explicit.l1_program import L1Program
from synthdp.fit.explicit.problem import FitProblem
from synthdp.fit.out_of_domain import OutOfDomain, averages_in_domain
from synthdp.measurements import Measurements
from synthdp.mechanisms.cell_model import design
from synthdp.queries.contingency import NoisyTable
from synthdp.queries.marginals import Marginals
from synthdp.queries.protocol import LinearQueries
from synthdp.queries.trigonometric import TensorBasis, Term, factor_values

CHUNK = 5000
"""Support points whose features are a dense matrix in memory at once.  A safety limit: 200 MB for 5000 products."""

DENSE = 0.2
"""Fraction of nonzero features above which a dense matrix is used instead of a sparse one.  A safety limit of time: a
sparse product takes about five times as long for each stored feature, and 1 / 5 = DENSE."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoisyAverages:
    """All noisy averages that the L1 fit aims at, with rows outside of the domain removed.

    Parameters
    ----------
    counts
        The counts of cells among the queries.
    products
        The products of cosines among the queries.
    averages, stddev
        (k,) noisy averages of all queries, the counts first, as fractions of the rows; and the stddevs of their noise.
    tables
        The consistent tables among them.
    """

    counts: Marginals
    products: tuple[TensorBasis, ...]
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
        """Return consistent one-ways and pairs together with products of cosines, all as noisy averages per row.

        The averages are scaled as if all rows were in domain, since the L1 fit's weighted rows have no out-of-domain
        value.

        Parameters
        ----------
        domain
            The coarse bins of each column.
        ones
            Noisy one-way tables, in rows.
        answers
            Noisy answers about pairs: cell counts, and sums of products of cosines.
        misfits
            (d,) estimated out-of-domain rows of each column.
        total
            Number of rows.
        """
        raw = list(ones)
        products = []
        for one in answers:
            raw += one.tables
            if isinstance(one.queries, TensorBasis):
                averages, scale = averages_in_domain(one.queries, one.answers / total, misfits / total)
                products.append((one.queries, averages, one.stddev / total * scale))
        releasable = tuple(axis.releasable for axis in domain.axes)
        tables = OutOfDomain(releasable=releasable, rows=misfits, total=total).consistent(raw)
        counts = np.concatenate([table.counts for table in tables]) / total
        stddev = np.repeat([table.stddev / total for table in tables], [table.counts.size for table in tables])
        return cls(
            counts=Marginals(domain, tuple(table.clique for table in tables)),
            products=tuple(one[0] for one in products),
            averages=np.concatenate([counts, *(one[1] for one in products)]),
            stddev=np.concatenate([stddev, *(one[2] for one in products)]),
            tables=tables,
        )

    def features(self, codes: Codes) -> Any:
        """Return the (k, m) values of all queries on (m, d) support points, to which weights are fitted.

        The matrix is sparse if at most the fraction `DENSE` of it is nonzero, else dense.
        """
        parts = [codes[start : start + CHUNK] for start in range(0, len(codes), CHUNK)]
        families: tuple[LinearQueries, ...] = (self.counts, *self.products)
        blocks = [sparse.hstack([sparse.csc_array(design(queries, part)) for part in parts]) for queries in families]
        features = sparse.csc_array(sparse.vstack(blocks) if len(blocks) > 1 else blocks[0])
        return features if features.nnz <= DENSE * features.shape[0] * features.shape[1] else features.toarray()


EVALUATIONS = 150
"""Evaluations of the objective when one pair's table is fitted.  A numerical tolerance: 60 and 200 give ten columns of
Adult the same three-way error (.185 and .186); fits to answers with less noise need more evaluations."""


PULLING = 0.99
"""An answer counts as active in the fit if its deviation is at least this fraction of the free (insensitive) band.  A
tolerance.
"""


SHRUNK = 0.5
"""Noise of a fitted cell as a fraction of its linearised standard deviation, which ignores that the fit also shrinks.
Measured: .50 to .52 are the medians over all pairs of ten and of fifteen columns of Adult.
"""


def tables_of_products(noisy: NoisyAverages, domain: Domain, *, total: float) -> tuple[NoisyTable, ...]:
    """Return a noisy table of each pair that was measured as products, so that a junction tree can be fitted to pairs.

    Parameters
    ----------
    noisy
        Consistent one-ways, and the averages of products.
    domain
        The axes.
    total
        Number of rows.
    """
    margins = {table.clique[0]: table for table in noisy.tables if len(table.clique) == 1}
    found, start = [], noisy.counts.k
    for family in noisy.products:
        at = slice(start, start + family.k)
        by_columns: dict[Clique, list[int]] = {}
        for i, term in enumerate(family.terms):
            by_columns.setdefault(tuple(sorted(factor.column for factor in term)), []).append(i)
        for pair in by_columns:
            if len(pair) == 2:
                rows = np.array([i for own in (pair, *((j,) for j in pair)) for i in by_columns.get(own, [])])
                averages, stddev = noisy.averages[at][rows], noisy.stddev[at][rows]
                terms = [family.terms[i] for i in rows]
                found.append(_table(pair, terms, averages, stddev, margins, domain, total=total))
        start += family.k
    return tuple(found)


def _table(
    pair: Clique,
    terms: Sequence[Term],
    averages: FloatArray,
    stddev: FloatArray,
    margins: Mapping[int, NoisyTable],
    domain: Domain,
    *,
    total: float,
) -> NoisyTable:
    """Fit the cells of one pair to the averages of its products and to both of its margins.

    Return them as a noisy table, in rows, to which a junction tree can be fitted.
    """
    sizes = [domain.shape[j] for j in pair]
    ones = [margins[j] for j in pair]
    shares = [np.maximum(one.counts, 0.0) / max(float(np.maximum(one.counts, 0.0).sum()), 1e-9) for one in ones]
    rows = [np.outer(*(_values(domain, term, j) for j in pair)).ravel() for term in terms]
    beside = [np.kron(np.eye(sizes[0]), np.ones(sizes[1])), np.kron(np.ones(sizes[0]), np.eye(sizes[1]))]
    problem = FitProblem.of_noisy(
        np.vstack([*rows, *beside]),
        np.concatenate([averages, *(one.counts / total for one in ones)]),
        np.concatenate([stddev, *(np.full(len(one.counts), one.stddev / total) for one in ones)]),
        prior=np.outer(*shares).ravel(),
    )
    weights = L1Program(name="mw", evaluations=EVALUATIONS).solve(problem).weights
    return NoisyTable(clique=pair, counts=total * weights, stddev=SHRUNK * total * _stddev(problem, weights))


def _values(domain: Domain, term: Term, column: int) -> FloatArray:
    """Return a term's factor on one column for each of its codes, (codes,); 1 where the term has no such factor.

    Their products over two columns are the features by which a pair's cells are fitted.
    """
    own = [factor for factor in term if factor.column == column]
    return factor_values(domain, own[0]) if own else np.ones(domain.shape[column])


def _stddev(problem: FitProblem, weights: FloatArray) -> float:
    """Return the mean stddev of a fitted weight, a fraction of the rows, from a linear approximation of the fit.

    It is the noise of the pair's fitted table.  Answers met within the fit's insensitive band do not change the
    weights.  Let A be the features of the other answers, less their means, and W the weights.  A change of these
    averages by db changes the weights by W A'(A W A')⁻¹ db.  Directions that the averages do not determine are limited
    by their noise.
    """
    averages = problem.A @ weights
    pulling = np.abs(averages - problem.b) >= PULLING * np.asarray(problem.insensitive)
    A, stddev = np.asarray(problem.A)[pulling] - averages[pulling, None], problem.stddev[pulling]
    scaled = A * weights
    moved = scaled.T @ np.linalg.pinv(scaled @ A.T + np.diag(stddev**2), hermitian=True)
    return max(float(np.sqrt(moved**2 @ stddev**2).mean()), float(problem.stddev.min()) / len(weights))
