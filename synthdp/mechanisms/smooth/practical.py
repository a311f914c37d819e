"""The practical variant of Wang's slides: random grid points weighted to meet random low-degree averages.

With noise for the right sensitivity: replacing a row moves R arbitrary averages by up to 2R/n in L1, not R/n.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from synthdp.curator.curator import Curator
from synthdp.domain.domain import Domain
from synthdp.fit.explicit.pricing import uniform_codes
from synthdp.fit.misfits import averages_without_misfits
from synthdp.measurements import NoiseLaw
from synthdp.mechanisms.row_count import RowCount
from synthdp.mechanisms.smooth.domain import smooth_domain
from synthdp.mechanisms.smooth.misfits import clear_shares, misfit_terms
from synthdp.mechanisms.smooth.support import Synthesised, fit_support, pointed_cells
from synthdp.privacy.loss import Remaining
from synthdp.queries.smooth.chebyshev import DENOMINATOR
from synthdp.queries.smooth.trigonometric import Cosine, TensorBasis, Term
from synthdp.randomness import Generator
from synthdp.schema.schema import Schema

ORDER = 2
"""Most columns of a random function."""

DEGREE = 2
"""Largest degree in each of its columns."""


def practical_synthesis(
    account: Curator,
    schema: Schema,
    count: RowCount,
    *,
    functions: int,
    candidates: int,
    grid: int,
    solver: str,
    law: NoiseLaw | None,
    rng: Generator,
) -> Synthesised:
    """Return weights on C uniform grid points that meet R noisy averages of random low-degree functions.

    Costs all that the account has left, in one measurement.

    Parameters
    ----------
    account
        Whom to ask.
    schema
        The d ordered columns.
    count
        The number of rows n.
    functions, candidates, grid
        R, C and N.
    solver
        ``"auto"`` stands for the L1 program.
    law
        Law of the noise; the paper's is Laplace.
    rng
        Randomness of functions and candidates.
    """
    domain = smooth_domain(schema, schema.names, cells=grid)
    random = random_terms(len(domain), functions, rng=rng)
    basis = random_averages(domain, random)
    measured = account.measure(basis, spend=Remaining(), step="random low-degree averages", law=law)
    averages, stddev = measured.answers / count.rows, measured.stddev / count.rows
    b, scale = averages_without_misfits(basis, averages, clear_shares(domain, basis.terms, averages, stddev))
    codes = uniform_codes(pointed_cells(domain), candidates, rng=rng)
    features, b, noise = basis.real_features(codes)[:, : len(random)], b[: len(random)], stddev * scale[: len(random)]
    chosen = "lp" if solver == "auto" else solver
    distribution, note = fit_support(domain, codes, features, b, stddev=noise, solver=chosen)
    return Synthesised(domain=domain, distribution=distribution, measurements=(measured,), stddev=stddev, notes=(note,))


def random_averages(domain: Domain, random: tuple[Term, ...]) -> TensorBasis:
    """Return averages to measure, then indicators of misfits, as many as make the sensitivity no larger."""
    counted = _countable(random, misfit_terms(domain, order=1))
    return TensorBasis(domain, (*random, *counted), denominator=DENOMINATOR, most=len(random))


def _countable(random: Sequence[Term], misfits: Sequence[Term]) -> list[Term]:
    """Return the indicators of misfits that come at no cost: each excludes a term of its column, no two the same one.

    A misfit in some columns then has at least as many terms that are 0 as indicators that are 1.
    """
    free, found = set(range(len(random))), []
    for misfit in misfits:
        own = [i for i in sorted(free) if any(factor.column == misfit[0].column for factor in random[i])]
        if own:
            free.remove(min(own, key=lambda i: len(random[i])))
            found.append(misfit)
    return found


def random_terms(d: int, count: int, *, rng: Generator) -> tuple[Term, ...]:
    """Return up to ``count`` different products of one or two cosines of degree 1 or 2, drawn uniformly."""
    degrees = range(1, DEGREE + 1)
    singles = [(Cosine(j, m),) for j in range(d) for m in degrees]
    pairs = d * (d - 1) // 2 * DEGREE**2
    chosen = rng.permutation(len(singles) + pairs)[:count]
    columns = list(itertools.combinations(range(d), ORDER))
    terms: list[Term] = []
    for index in np.sort(chosen).tolist():
        if index < len(singles):
            terms.append(singles[index])
            continue
        pair, degree = divmod(index - len(singles), DEGREE**2)
        (i, j), (a, b) = columns[pair], divmod(degree, DEGREE)
        terms.append((Cosine(i, a + 1), Cosine(j, b + 1)))
    return tuple(terms)
