"""The two variants of Wang's slides that fit the weights of grid points to noisy averages of the basis.

`exact_synthesis` is Algorithm 1 to the letter: all averages, and all points of a grid.  Only the sensitivity differs:
replacing a row moves the t^d - 1 averages by more than the printed t^d / n in L1.  `practical_synthesis` takes random
points, and random averages of low degree.  Its noise corrects the slides: replacing a row changes R arbitrary averages
by up to 2R/n in L1, not R/n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import Answers, Codes, FloatArray
from synthdp.curator import Curator
from synthdp.distribution.explicit import Explicit
from synthdp.domain.domain import Domain
from synthdp.domain.grid import MAX_POINTS
from synthdp.errors import ParameterError
from synthdp.fit.explicit.column_generation import ColumnGeneration, GridProblem
from synthdp.fit.explicit.pricing import CoordinateAscent, Enumeration, Pricer, ProductBasis, uniform_codes
from synthdp.fit.explicit.problem import FitProblem
from synthdp.fit.explicit.registry import AUTO, BARE, fallback
from synthdp.fit.out_of_domain import MIN_IN_DOMAIN, averages_in_domain, out_of_domain_shares
from synthdp.measurements import NoiseLaw
from synthdp.mechanisms.row_count import RowCount
from synthdp.privacy.loss import Remaining
from synthdp.queries.trigonometric import Cosine, Indicator, TensorBasis, Term, out_of_domain_terms
from synthdp.randomness import Generator
from synthdp.schema.schema import Schema
from synthdp.works.smooth.chebyshev import DENOMINATOR, ChebyshevTensor, TensorWithMisfits, chebyshev_table
from synthdp.works.smooth.support import Synthesised, fit_note, fit_support, pointed_cells, smooth_domain
from synthdp.works.smooth.theory import exact_parameters

LISTED = 20_000_000
"""Most features (points times averages) that are held at once; beyond, column generation finds the points. A safety
limit of memory: 160 MB of 64-bit numbers."""

MAX_AVERAGES = 20_000
"""Most averages that a fit on the grid takes; degrees that are not set are lowered to stay below. A safety limit."""

ENOUGH = 0.25
"""L1 objective, as a multiple of what noise alone would give, at which column generation stops.  A numerical tolerance:
less fits noise, and takes more rounds."""

SPARE_POINTS = 5000
"""Random grid points that are weighed instead, if column generation fails after the averages were paid for.  A safety
limit of time and memory: more meet the averages better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The settings of Algorithm 1; ``None`` stands for the paper's power of n.

    Parameters
    ----------
    smoothness
        K, the order of the queries' derivatives.
    degrees, grid, lattice
        t degrees per column, N grid points per column, and L for rounding to multiples of 1 / L.
    """

    smoothness: int = 2
    degrees: int | None = None
    grid: int | None = None
    lattice: int | None = None

    def lowers(self, t: int, paper: int) -> bool:
        """Return whether t is below the paper's t although ``degrees`` was not set, which the receipt then states."""
        return self.degrees is None and t < paper

    def check(self, d: int) -> None:
        """Raise an error if ``degrees`` of d columns, or 2 if they are not set, give more than `MAX_AVERAGES` averages.

        Degrees that are not set are lowered later until they fit, so that only the least number, 2, must.

        Raises
        ------
        ParameterError
            If there are too many averages; the message says how many.
        """
        t = self.degrees or 2
        if t > most_degrees(d):
            raise ParameterError(
                f"variant 'exact' needs {t}^{d} averages, and at most {MAX_AVERAGES} are possible: name fewer "
                "columns, give fewer degrees, or use variant 'practical' or 'product'"
            )


def exact_synthesis(
    account: Curator,
    schema: Schema,
    count: RowCount,
    *,
    sizes: Sizes,
    solver: str,
    law: NoiseLaw | None,
    rng: Generator,
) -> Synthesised:
    """Return the distribution of Algorithm 1, fitted by the L1 program on all N^d grid points.

    Sizes t, N and L follow from n, K and d where they are not set. If t^d would exceed `MAX_AVERAGES`, t is lowered and
    a note says so. If points times averages exceed `LISTED`, column generation solves the same program without rounding
    the features to the lattice.

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
        K, and t, N and L where they are set.
    solver
        Name of the solver; ``"auto"`` stands for ``"sifting"``, the bare program of the slides.
    law
        Law of the noise; ``None`` for the least noise. The paper's law is Laplace.
    rng
        Randomness of column generation.
    """
    paper = exact_parameters(count.rows, d=len(schema), smoothness=sizes.smoothness)
    t = sizes.degrees or min(paper.t, most_degrees(len(schema)))
    grid, lattice = sizes.grid or min(paper.grid, MAX_POINTS), sizes.lattice or paper.lattice
    domain = smooth_domain(schema, schema.names, cells=grid)
    basis = ChebyshevTensor(domain, t)
    asked = TensorWithMisfits(basis)
    measured = account.measure(asked, spend=Remaining(), step="Chebyshev averages on the grid", law=law)
    stddev = measured.stddev / count.rows
    scale = _scales(asked, measured.answers / count.rows, stddev)
    b = on_lattice(measured.answers[: basis.k] / count.rows * scale, lattice)
    shape = pointed_cells(domain)
    if math.prod(shape) * basis.k <= LISTED:
        codes = all_points(shape)
        features = on_lattice(basis.real_features(codes), lattice)
        chosen = BARE if solver == AUTO else solver
        distribution, note = fit_support(domain, codes, features, b, stddev=stddev, solver=chosen, drawn=False)
    else:
        distribution, note = _generate(domain, basis, b, stddev=stddev, rng=rng)
    lowered = f" instead of {paper.t}, for which there would be too many averages" if sizes.lowers(t, paper.t) else ""
    fewer = (
        f" instead of {paper.grid}, finer than any column is read" if sizes.grid is None and grid < paper.grid else ""
    )
    told = f"Algorithm 1 for K = {sizes.smoothness} with t = {t}{lowered}, N = {grid}{fewer},"
    return Synthesised(
        domain=domain,
        distribution=distribution,
        measurements=(measured,),
        stddev=stddev,
        notes=(
            f"{told} L = {lattice}; it draws m = {paper.rows} rows",
            note,
        ),
    )


def _scales(asked: TensorWithMisfits, averages: Answers, stddev: float) -> FloatArray:
    """Return the factor from each average to its value without out-of-domain rows, (t^d - 1,).

    Out-of-domain values are taken as independent across columns. The released rows are all in domain, so the fit needs
    averages over in-domain rows.
    """
    d, t = len(asked.domain), asked.tensor.t
    terms = [(Indicator(j, cell),) for j, cell in asked.cells.items()]
    misfits = out_of_domain_shares(asked.domain, terms, averages[asked.tensor.k :], stddev)
    degrees = np.indices((t,) * d).reshape(d, -1)[:, 1:]
    fits = np.where(degrees > 0, 1 - misfits[:, None], 1.0).prod(axis=0)
    return np.asarray(1 / np.maximum(fits, MIN_IN_DOMAIN))


def most_degrees(d: int) -> int:
    """Return the largest t with t^d at most `MAX_AVERAGES`, at least 1."""
    t = 1
    while (t + 1) ** d <= MAX_AVERAGES:
        t += 1
    return t


def on_lattice(values: FloatArray, lattice: int) -> FloatArray:
    """Return values rounded to multiples of 1 / L, in their shape, as Algorithm 1 rounds averages and features."""
    return np.asarray(np.rint(values * lattice) / lattice)


def all_points(shape: tuple[int, ...]) -> Codes:
    """Return the codes of all points of a grid, (N^d, d), as support of the fitted distribution."""
    return np.indices(shape).reshape(len(shape), -1).T


def grid_basis(domain: Domain, t: int) -> ProductBasis:
    """Return the Chebyshev tensor as a product basis on the grid of a domain's points, for column generation.

    Degrees are below ``t`` in each of d columns: t^d - 1 terms in C order of the degrees, without the constant.
    """
    axes = [axis.points[~np.isnan(axis.points)] for axis in domain.axes]
    tables = [chebyshev_table(points, t).T for points in axes]
    degrees = np.indices((t,) * len(axes)).reshape(len(axes), -1).T[1:]
    terms = [{j: tables[j][m] for j, m in enumerate(term) if m} for term in degrees.tolist()]
    return ProductBasis(axes=tuple(axes), terms=tuple(terms))


def _generate(
    domain: Domain, basis: ChebyshevTensor, b: Answers, *, stddev: float, rng: Generator
) -> tuple[Explicit, str]:
    """Return grid points with weights that meet the averages ``b``, by column generation, and a line for the receipt.

    If column generation fails, `SPARE_POINTS` random points are weighed instead, since the averages are already paid
    for.
    """
    grid = grid_basis(domain, basis.t)
    enumerable = math.prod(grid.shape) <= Enumeration().max_points and grid.d <= 3
    pricer: Pricer = Enumeration() if enumerable else CoordinateAscent()
    solver = ColumnGeneration(pricer=pricer, noise_multiple=ENOUGH)
    try:
        found = solver.solve(GridProblem(basis=grid, b=b, stddev=np.array(stddev)), rng=rng)
    except Exception as error:  # noqa: BLE001 -- whatever it is: the answers are paid for
        codes = np.unique(uniform_codes(grid.shape, SPARE_POINTS, rng=rng), axis=0)
        noise = np.full(b.shape, stddev)
        fit = fallback(FitProblem.of_noisy(basis.real_features(codes).T, b, noise), solver.name, error)
        return Explicit(shape=domain.shape, codes=codes, weights=fit.weights), fit_note(fit, support=len(codes))
    distribution = Explicit(shape=domain.shape, codes=found.support, weights=found.fit.weights)
    return distribution, fit_note(found.fit, support=len(found.support))


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

    Each is matched with a different random function of its column.  Take a record that is out of domain in some
    columns.  It then has at least as many functions of value 0 as it has indicators of 1.
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
    """Draw ``count`` different products of cosines, uniformly among the `count_terms` products.

    A product has at most ``order`` of the d columns, each with one of the degrees 1 to ``degrees`` - 1.
    """
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
