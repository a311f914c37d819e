"""Algorithm 1 of Wang's slides to the letter: all averages of the basis, fitted on all points of a grid.

Only the sensitivity differs: replacing a row moves the t^d - 1 averages by more than the printed t^d / n in L1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import Answers, Codes, FloatArray
from synthdp.curator import Curator
from synthdp.distribution.explicit import Explicit
from synthdp.domain.domain import Domain
from synthdp.domain.grid import MAX_POINTS
from synthdp.errors import ParameterError
from synthdp.fit.averages import out_of_domain_shares
from synthdp.fit.explicit.column_generation import ColumnGeneration, GridProblem
from synthdp.fit.explicit.pricing import CoordinateAscent, Enumeration, Pricer, uniform_codes
from synthdp.fit.explicit.problem import FitProblem
from synthdp.fit.explicit.product_basis import ProductBasis
from synthdp.fit.explicit.registry import AUTO, BARE, fallback
from synthdp.fit.out_of_domain import MIN_IN_DOMAIN
from synthdp.measurements import NoiseLaw
from synthdp.mechanisms.row_count import RowCount
from synthdp.privacy.loss import Remaining
from synthdp.queries.trigonometric import Indicator
from synthdp.randomness import Generator
from synthdp.schema.schema import Schema
from synthdp.works.smooth.chebyshev import ChebyshevTensor, TensorWithMisfits, chebyshev_table
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
        """Raise an error if t degrees of d columns give too many averages.

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
