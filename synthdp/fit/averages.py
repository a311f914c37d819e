"""Corrects averages of smooth functions for out-of-domain values, which are counted by indicators.

An out-of-domain value has no point, so every cosine of its column is 0.  The indicator of its cell can therefore be
measured too, without more sensitivity than the cosines have.  Post-processing; no row is read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from synthdp.arrays import BoolArray, Clique, FloatArray
from synthdp.domain.domain import Domain
from synthdp.fit.out_of_domain import MIN_IN_DOMAIN
from synthdp.measurements import beyond_noise
from synthdp.queries.trigonometric import Factor, Indicator, TensorBasis, Term


def out_of_domain_indicators(domain: Domain) -> tuple[Indicator | None, ...]:
    """Return, for each column, the indicator function of its (first) out-of-domain cell; ``None`` where it has none.

    The averages of these functions tell which fraction of the rows is out of domain.
    """
    found: list[Indicator | None] = []
    for j, axis in enumerate(domain.axes):
        cells = np.flatnonzero(~axis.releasable)
        found.append(Indicator(j, int(cells[0])) if len(cells) else None)
    return tuple(found)


def out_of_domain_terms(domain: Domain, *, order: int) -> tuple[Term, ...]:
    """Return the indicators of out-of-domain values, to be asked beside smooth functions so that such rows are known.

    Each column has one; with ``order`` 2 each two columns also have the product of theirs.
    """
    cells = [cell for cell in out_of_domain_indicators(domain) if cell is not None]
    singles: list[Term] = [(cell,) for cell in cells]
    pairs: list[Term] = [(a, b) for i, a in enumerate(cells) for b in cells[i + 1 :]] if order > 1 else []
    return (*singles, *pairs)


def out_of_domain_shares(domain: Domain, terms: Sequence[Term], averages: FloatArray, stddev: float) -> FloatArray:
    """Return the fraction of rows out of domain in each column, (d,), from noisy averages of their indicators.

    A fraction is set to 0 where noise alone may explain it.
    """
    shares = np.zeros(len(domain))
    known = {term: float(average) for term, average in zip(terms, averages, strict=True)}
    asked = [cell for cell in out_of_domain_indicators(domain) if cell is not None and (cell,) in known]
    bound = beyond_noise(stddev, max(1, len(asked)))
    for cell in asked:
        share = known[(cell,)]
        shares[cell.column] = min(share, 1.0) if share > bound else 0.0
    return shares


def averages_in_domain(basis: TensorBasis, averages: FloatArray, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return noisy averages of products, rescaled to what they would be if all rows were in domain.

    Parameters
    ----------
    basis
        The products of functions of columns.  A product with the indicator of an out-of-domain cell gets the average 0.
    averages
        (k,) their noisy averages over all rows.
    shares
        (d,) fractions of the rows that are out of domain in each column, 0 for none.

    Returns
    -------
    The averages, and how many times as large the noise in each is, (k,) each.
    """
    releasable = [axis.releasable for axis in basis.domain.axes]
    together = {
        tuple(sorted(factor.column for factor in term)): float(average)
        for term, average in zip(basis.terms, averages, strict=True)
        if len(term) == 2 and all(_is_outside(factor, releasable) for factor in term)
    }
    scale = np.ones(basis.k)
    found = np.array(averages, np.float64)
    for i, term in enumerate(basis.terms):
        struck = tuple(sorted(factor.column for factor in term if shares[factor.column] > 0))
        if any(_is_outside(factor, releasable) for factor in term):
            found[i] = 0.0
        elif struck:
            scale[i] = 1 / _share_in_domain(struck, shares, together)
    return found * scale, scale


def _is_outside(factor: Factor, releasable: Sequence[BoolArray]) -> bool:
    """Return whether a factor is the indicator of an out-of-domain cell, whose average is 0 if all rows are in domain.

    ``releasable`` tells which cells of each column are in domain, (cells,) each.
    """
    return isinstance(factor, Indicator) and not releasable[factor.column][factor.cell]


def _share_in_domain(struck: Clique, shares: FloatArray, together: Mapping[Clique, float]) -> float:
    """Return the fraction of rows that are in domain in the one or two columns ``struck``.

    The fraction out of domain in both is ``together`` where it was measured, else as for independent columns.  The
    result is kept within what the two fractions allow, and at least `MIN_IN_DOMAIN`, as averages are divided by it.
    """
    outside = [float(shares[j]) for j in struck]
    independent = math.prod(1 - share for share in outside)
    if len(struck) != 2:
        return max(independent, MIN_IN_DOMAIN)
    common = together.get(struck, math.prod(outside))
    return max(min(1 - sum(outside) + common, 1 - max(outside)), 1 - sum(outside), MIN_IN_DOMAIN)
