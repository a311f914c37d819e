"""The practical variant of Wang's slides: random grid points weighted to meet random low-degree averages.

The noise corrects the slides: replacing a row changes R arbitrary averages by up to 2R/n in L1, not R/n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthdp.curator import Curator
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError
from synthdp.fit.averages import averages_in_domain, out_of_domain_shares, out_of_domain_terms
from synthdp.fit.explicit.pricing import uniform_codes
from synthdp.measurements import NoiseLaw
from synthdp.mechanisms.row_count import RowCount
from synthdp.privacy.loss import Remaining
from synthdp.queries.trigonometric import Cosine, TensorBasis, Term
from synthdp.randomness import Generator
from synthdp.schema.schema import Schema
from synthdp.works.smooth.chebyshev import DENOMINATOR
from synthdp.works.smooth.support import Synthesised, fit_support, pointed_cells, smooth_domain

CANDIDATES, GRID = 10_000, 64
"""Defaults of C, the number of random grid points, and of N, the grid points per column.  More of either meet the
averages better.  Safety limits of time."""

FUNCTIONS = 100
"""Default of R, the number of random functions, if there are as many.  A convention: the slides' choice."""


MAX_FEATURES = 100_000_000
"""Most values of functions at candidates: 0.8 GB of floats.  A safety limit of memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Practical:
    """The settings of the practical variant.

    Parameters
    ----------
    functions
        R, the number of random functions; ``None`` for 100, or for all if there are fewer.
    candidates, grid
        C, the number of random grid points, and N, the grid points per column.
    order
        Most columns of a function.
    degrees
        t: a function has degrees 1 to t - 1 in each of its columns.
    """

    functions: int | None = None
    candidates: int = CANDIDATES
    grid: int = GRID
    order: int = 2
    degrees: int = 3

    def functions_of(self, d: int) -> int:
        """Return R, the number of random functions, for d columns.

        Raises
        ------
        ParameterError
            If R is above the number of functions, or candidates times functions do not fit in memory.
        """
        there = count_terms(d, order=self.order, degrees=self.degrees)
        asked = min(FUNCTIONS, there) if self.functions is None else self.functions
        if asked * self.candidates > MAX_FEATURES:
            raise ParameterError(
                f"candidates ({self.candidates}) times functions ({asked}) must be at most {MAX_FEATURES}: lower "
                "candidates or functions"
            )
        if asked > there:
            raise ParameterError(
                f"functions ({self.functions}) must be at most {there}, the number of functions of {d} columns with "
                f"degrees={self.degrees} and order={self.order}"
            )
        return asked

    def told(self, d: int) -> str:
        """Return a line for the receipt with R, t, C and N."""
        asked, there = self.functions_of(d), count_terms(d, order=self.order, degrees=self.degrees)
        whole = ", all there are," if asked == there else ""
        return (
            f"practical variant with R = {asked} random functions{whole} of up to {min(self.order, d)} columns and "
            f"t = {self.degrees} degrees, C = {self.candidates} candidates, N = {self.grid} points per column"
        )


def practical_synthesis(
    account: Curator,
    schema: Schema,
    count: RowCount,
    *,
    sizes: Practical,
    solver: str,
    law: NoiseLaw | None,
    rng: Generator,
) -> Synthesised:
    """Return weights on C uniform grid points that meet R noisy averages of random low-degree functions.

    Costs all that the account has left, in one measurement.

    Parameters
    ----------
    account
        A curator whose whole budget belongs to the caller.
    schema
        The d ordered columns.
    count
        The number of rows n.
    sizes
        R, C, N, and the order and degrees of the functions.
    solver
        Name of the solver; ``"auto"`` stands for the L1 program.
    law
        Law of the noise; ``None`` for the least noise. The paper's law is Laplace.
    rng
        Randomness of functions and candidates.
    """
    domain = smooth_domain(schema, schema.names, cells=sizes.grid)
    asked = sizes.functions_of(len(domain))
    random = random_terms(len(domain), asked, order=sizes.order, degrees=sizes.degrees, rng=rng)
    basis = random_averages(domain, random)
    measured = account.measure(basis, spend=Remaining(), step="random low-degree averages", law=law)
    averages, stddev = measured.answers / count.rows, measured.stddev / count.rows
    b, scale = averages_in_domain(basis, averages, out_of_domain_shares(domain, basis.terms, averages, stddev))
    codes = uniform_codes(pointed_cells(domain), sizes.candidates, rng=rng)
    features, b, noise = basis.real_features(codes)[:, : len(random)], b[: len(random)], stddev * scale[: len(random)]
    distribution, note = fit_support(domain, codes, features, b, stddev=noise, solver=solver, drawn=False)
    return Synthesised(
        domain=domain,
        distribution=distribution,
        measurements=(measured,),
        stddev=stddev,
        notes=(sizes.told(len(domain)), note),
    )


def random_averages(domain: Domain, random: tuple[Term, ...]) -> TensorBasis:
    """Return the statistic of the random averages, and of out-of-domain counts that do not raise the sensitivity."""
    counted = _countable(random, out_of_domain_terms(domain, order=1))
    return TensorBasis(domain, (*random, *counted), denominator=DENOMINATOR, most=len(random))


def _countable(random: Sequence[Term], misfits: Sequence[Term]) -> list[Term]:
    """Return the indicators of out-of-domain values that can be counted without raising the sensitivity.

    Each is matched with a different random function of its column.  A record that is out of domain in some columns then
    loses at least as many function values, which are 0, as it has indicators of 1.
    """
    free, found = set(range(len(random))), []
    for misfit in misfits:
        own = [i for i in sorted(free) if any(factor.column == misfit[0].column for factor in random[i])]
        if own:
            free.remove(min(own, key=lambda i: len(random[i])))
            found.append(misfit)
    return found


def count_terms(d: int, *, order: int, degrees: int) -> int:
    """Return the number of products of cosines on 1 to ``order`` of d columns, of degrees 1 to ``degrees`` - 1.

    The random functions are drawn from these, so there cannot be more.
    """
    return sum(math.comb(d, size) * (degrees - 1) ** size for size in range(1, min(order, d) + 1))


def random_terms(d: int, count: int, *, order: int, degrees: int, rng: Generator) -> tuple[Term, ...]:
    """Draw ``count`` different products of cosines, uniformly among the `count_terms` products."""
    chosen = rng.choice(count_terms(d, order=order, degrees=degrees), count, replace=False, shuffle=False)
    return tuple(_term(index, d, degrees=degrees) for index in np.sort(chosen).tolist())


def _term(index: int, d: int, *, degrees: int) -> Term:
    """Return the product of cosines with a given number: fewer columns first, then by columns, then by degrees.

    So products are drawn without a list of all.
    """
    size, each = 1, degrees - 1
    while index >= math.comb(d, size) * each**size:
        index -= math.comb(d, size) * each**size
        size += 1
    rank, digits = divmod(index, each**size)
    factors: list[Cosine] = []
    column = 0
    for left in range(size - 1, -1, -1):
        while rank >= (here := math.comb(d - column - 1, left)):
            rank -= here
            column += 1
        digit, digits = divmod(digits, each**left)
        factors.append(Cosine(column, digit + 1))
        column += 1
    return tuple(factors)
