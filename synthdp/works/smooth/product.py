"""The product variant: one smooth density per column from its noisy moments, and pairs where the noise allows.

In a synthetic table of many columns the positions of the points matter more than the program that weighs them. Points
drawn from a product of fitted densities beat a uniform grid by 5 to 100 times (docs/mechanisms/smooth-queries.md).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq

from synthdp.arrays import FloatArray
from synthdp.curator import Curator
from synthdp.distribution.components import Product
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain, axis_of
from synthdp.domain.grid import grid_of
from synthdp.fit.explicit.moment_fits import chebyshev_moments, product_max_entropy
from synthdp.fit.explicit.registry import AUTO
from synthdp.fit.out_of_domain import averages_in_domain, out_of_domain_shares
from synthdp.measurements import Measurements
from synthdp.mechanisms.row_count import RowCount
from synthdp.privacy.budget import COUNT_SHARE
from synthdp.privacy.calibration import calibrate
from synthdp.privacy.loss import PrivacyLoss, Remaining, Spend
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.norms import Norms, RecordBounds
from synthdp.queries.trigonometric import Cosine, Indicator, TensorBasis, Term, out_of_domain_terms
from synthdp.randomness import Generator
from synthdp.schema.columns import Column
from synthdp.schema.schema import Schema
from synthdp.works.smooth.chebyshev import DENOMINATOR, AverageMoment, moments_swap
from synthdp.works.smooth.support import CELLS, Synthesised, fit_support, smooth_domain

NODES = 201
"""Cells of a column's density, at equal angles, if the column has more than `FEW_POINTS` grid points.  A numerical
tolerance: more cells would show no more than its few moments determine."""

FEW_POINTS = 512
"""Most grid points of a column whose density has a cell for each; with more points it has `NODES` cells.  A safety limit
of time."""

DEGREES = (2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Total degrees that a plan may choose as the largest of its moments.  A numerical tolerance: the steps between them save
trials."""

TOO_NOISY = 0.1
"""Noise stddev of an average (at most 1 in size) above which second moments are measured only as a mean over columns.  A
larger value measures each column's spread under more noise; a smaller one takes all columns to have one spread.  Tuned:
half and twice of it change errors of kernels of width 1 by 0 and +8.5 % (docs/benchmarks/constants.md)."""

FINE = 0.02
"""Pairs, and moments up to a degree, are measured if their noise is small enough.  The noise stddev of an average, at
most 1 in size, may be FINE * (2 / degree)^2.  Moments of a smooth density become smaller with their degree, so higher
ones need less noise.  A larger value measures finer moments under more noise.  Tuned: half and twice of it change
errors of kernels of width .3 by +4.4 and -26.4 % on two tables.  On two others they change by +71.0 and -15.7 %, and by
+9.2 and +9.9 % for width 3 (docs/benchmarks/constants.md)."""

MEANS_SHARE = 0.8
"""Share of the budget for the columns' means if second moments are measured as a mean over columns.  A larger value makes
means more accurate and the spread less.  Tuned: with .4 errors of kernels of width 1 change by -2.7 %, without a second
moment by +14.5 % (docs/benchmarks/constants.md)."""


LEAST_CELLS = 2**12
"""Least cells per column on which the private table is read, also for few rows.  Fewer round values more coarsely.  A
safety limit."""
MAX_MOMENTS = 5000
"""Most moments that a plan may measure.  A safety limit of time."""
CANDIDATES = 4000
"""Least number of support points that are drawn by default.  A safety limit of time: more points meet the moments better."""
CANDIDATES_PER_MOMENT = 10
"""Support points per moment.  Fewer leave the fit too little choice to meet all moments.  A safety limit of time."""
MOST_CANDIDATES = 20_000
"""Most support points that are drawn by default; ``candidates`` may ask for more.  A safety limit of time."""
_STEEPEST = 500.0
"""Largest absolute value of the second moment's multiplier that all columns' densities share; a root is searched within
it. A numerical tolerance."""


@dataclass(frozen=True, slots=True)
class MomentOrders:
    """A choice of moments: all products of at most ``order`` cosines with total degree at most ``degree``."""

    degree: int
    order: int


def product_synthesis(
    account: Curator, schema: Schema, count: RowCount, *, candidates: int | None, solver: str, rng: Generator
) -> Synthesised:
    """Return a product of the columns' densities; or weights on rows drawn from the product, if pairs were measured.

    Costs all that the account has left, in one measurement, or in two of 80 and 20 % if the noise is large.
    Out-of-domain rows are counted in the same measurement, or for 2 % of its cost.

    Parameters
    ----------
    account
        A curator whose whole budget belongs to the caller.
    schema
        The d ordered columns.
    count
        The number of rows n.
    candidates
        Number of support points to draw; ``None`` for a default.
    solver
        The program that finds their weights, if pairs were measured; ``"auto"`` is the L1 program.
    rng
        Randomness of the draws.
    """
    fine = smooth_domain(schema, schema.names, cells=_fine_cells(count.rows))
    coarse = Domain(tuple(_axis(*item) for item in schema.items()))
    moments = plan(count.rows, fine, account.cost(Remaining()), account.adjacency)
    unused = (
        () if solver == AUTO else (f"no pair of columns was measured, so that solver {solver!r} had nothing to fit",)
    )
    if moments is None:
        means = _from_means(account, fine, coarse, count)
        return replace(means, notes=(*means.notes, *unused))
    basis, measured = _measure(account, fine, moments, spend=Remaining(), step="Chebyshev moments")
    stddev = measured[0].stddev / count.rows
    averages = np.concatenate([one.answers for one in measured]) / count.rows
    misfits = out_of_domain_shares(fine, basis.terms, averages, measured[-1].stddev / count.rows)
    b, scale = averages_in_domain(basis, averages, misfits)
    on_cells = _first_terms(moment_basis(coarse, moments), basis.k)
    noise = stddev * scale[[basis.terms.index((Cosine(j, 1),)) for j in range(len(fine))]]
    product = Product(shape=coarse.shape, margins=_margins(on_cells, b, noise, degree=moments.degree))
    kept = basis.k if basis.most is None else basis.most  # what counts misfits comes last
    note = f"moments of total degree up to {moments.degree} over up to {moments.order} columns: {kept}"
    if moments.order == 1:
        notes = (note, *unused)
        return Synthesised(domain=coarse, distribution=product, measurements=measured, stddev=stddev, notes=notes)
    codes = product.sample(candidates or _enough(kept), rng)
    features, b, noise = on_cells.real_features(codes)[:, :kept], b[:kept], stddev * scale[:kept]
    weighted, how = fit_support(coarse, codes, features, b, stddev=noise, solver=solver, drawn=True)
    return Synthesised(domain=coarse, distribution=weighted, measurements=measured, stddev=stddev, notes=(note, how))


def plan(rows: float, domain: Domain, loss: PrivacyLoss, adjacency: Adjacency) -> MomentOrders | None:
    """Return the moments to measure, from public numbers: the highest degree whose noise is small enough.

    Small enough means an average's noise of at most `FINE` (2 / degree)^2.  Moments with pairs of columns are tried
    first, then moments of single columns.  If none is small enough, single columns are measured up to degree 2.  If the
    noise of these is above `TOO_NOISY`, return ``None``: only means and one mean second moment are measured.
    """
    extra = len(_indicators(domain))

    def noise(moments: MomentOrders) -> float:
        norms, k = _norms(len(domain), moments, extra=extra, swap=adjacency.rows_are_public)
        together = k + len(out_of_domain_terms(domain, order=moments.order))
        return min(_stddev(norms, loss, adjacency, k=together), _stddev(norms, _most(loss), adjacency, k=k)) / rows

    for order in (2, 1) if len(domain) > 1 else (1,):
        for degree in reversed(DEGREES):
            moments = MomentOrders(degree, order)
            few = _norms(len(domain), moments, extra=extra)[1] <= MAX_MOMENTS
            if few and noise(moments) <= FINE * (2 / degree) ** 2:
                return moments
    least = MomentOrders(2, 1)
    return least if noise(least) <= TOO_NOISY else None


def _measure(
    account: Curator, domain: Domain, moments: MomentOrders, *, spend: Spend, step: str
) -> tuple[TensorBasis, tuple[Measurements, ...]]:
    """Measure moments and out-of-domain rows, together if that has less noise than two measurements.

    The second of two measurements takes `COUNT_SHARE` of the spend.  Costs ``spend``, for the curator's neighbours.

    Returns
    -------
    basis
        The terms that were measured.
    measurements
        One or two measurements; their answers, one after the other, belong to the terms.
    """
    together, loss = moment_basis(domain, moments), account.cost(spend)
    alone = replace(_first_terms(together, together.most or together.k), most=None)
    norms = together.bounds.swap if account.adjacency.rows_are_public else together.bounds.one
    free = _stddev(norms, loss, account.adjacency, k=together.k)
    if together.k == alone.k or free <= _stddev(norms, _most(loss), account.adjacency, k=alone.k):
        return together, (account.measure(together, spend=spend, step=step),)
    single = out_of_domain_terms(domain, order=1)  # they come first among the terms of misfits
    first = account.measure(alone, spend=_most(loss), step=step)
    second = account.measure(
        TensorBasis(domain, single, denominator=DENOMINATOR),
        spend=spend if isinstance(spend, Remaining) else loss.fraction(COUNT_SHARE),
        step="values that do not fit",
    )
    return _first_terms(together, alone.k + len(single)), (first, second)


def _first_terms(basis: TensorBasis, k: int) -> TensorBasis:
    """Return the first k terms of a basis, without the terms of out-of-domain rows, which come last."""
    return replace(basis, terms=basis.terms[:k])


def _most(loss: PrivacyLoss) -> PrivacyLoss:
    """Return the part of a loss for moments, if a separate count of out-of-domain rows takes `COUNT_SHARE` of it."""
    return loss.fraction(1 - COUNT_SHARE)


def _stddev(norms: Norms, loss: PrivacyLoss, adjacency: Adjacency, *, k: int) -> float:
    """Return the noise stddev of one of k sums over rows, in rows, by which a plan chooses what to measure."""
    drawn = calibrate(norms.times(adjacency.rows), loss, k=k)
    return drawn.noise.stddev / (drawn.resolution * DENOMINATOR)


def _norms(d: int, moments: MomentOrders, *, extra: int, swap: bool = False) -> tuple[Norms, int]:
    """Return the sensitivity and the number of rounded moments, without counts of out-of-domain rows, to plan noise.

    The sensitivity is to a replaced row with ``swap``, else to an added row.  The number includes ``extra`` indicators
    of special and missing values.
    """
    p = moments.degree
    k = d * p + extra + (moments.order - 1) * (d * (d - 1) // 2) * (p * (p - 1) // 2)
    bounds = RecordBounds.of(Norms(k * DENOMINATOR, k * DENOMINATOR**2, DENOMINATOR), _swap(d, moments))
    return (bounds.swap if swap else bounds.one), k


def _swap(d: int, moments: MomentOrders) -> Norms | None:
    """Return the norms of a replaced row for moments of single columns, below the general bound; ``None`` for pairs."""
    return moments_swap(moments.degree, d, denominator=DENOMINATOR) if moments.order == 1 else None


def moment_basis(domain: Domain, moments: MomentOrders) -> TensorBasis:
    """Return the moments to measure, then counts of out-of-domain rows, which don't raise the sensitivity.

    Moments are cosines of single columns, indicators of special and missing values, and products of two cosines.
    """
    terms: list[Term] = [(Cosine(j, m),) for j in range(len(domain)) for m in range(1, moments.degree + 1)]
    terms += [(indicator,) for indicator in _indicators(domain)]
    if moments.order == 2:
        degrees = range(1, moments.degree)
        terms += [
            (Cosine(i, a), Cosine(j, b))
            for i, j in itertools.combinations(range(len(domain)), 2)
            for a, b in itertools.product(degrees, degrees)
            if a + b <= moments.degree
        ]
    most = len(terms)  # a misfit excludes the cosines of its column, of which there are no fewer than its indicators
    terms += out_of_domain_terms(domain, order=moments.order)
    return TensorBasis(domain, tuple(terms), denominator=DENOMINATOR, swap=_swap(len(domain), moments), most=most)


def _indicators(domain: Domain) -> list[Indicator]:
    """Return indicators of the cells with special and missing values, whose rows are counted.

    These cells are releasable and have no point, so moments do not measure them.
    """
    indicators = []
    for j, axis in enumerate(domain.axes):
        grid, size = axis.grid, axis.size
        first = size - (grid.size - grid.regular)
        indicators += [Indicator(j, first + i) for i in range(grid.releasable - grid.regular)]
    return indicators


def _axis(name: str, column: Column) -> Axis:
    """Return the axis of a column's density: one cell per grid point if there are few, else cells at equal angles."""
    grid = grid_of(column)
    if grid.regular <= FEW_POINTS:
        return axis_of(name, column, bins=FEW_POINTS)
    edges = (1 - np.cos(np.arange(NODES) * np.pi / NODES)) / 2
    inside = grid.points_of(np.floor(edges * grid.steps).astype(np.int64))
    starts = np.unique(np.concatenate([inside, np.arange(grid.regular, grid.size)]))
    return Axis(name, column, starts, np.arange(len(starts)))


def _fine_cells(rows: float) -> int:
    """Return the number of cells per column on which the private table is read; rounding to their points is below the noise.

    The number of cells is about the number of rows, from `LEAST_CELLS` to `CELLS`.
    """
    return min(CELLS, max(LEAST_CELLS, 1 << math.ceil(math.log2(rows))))


def _enough(moments: int) -> int:
    """Return the default number of support points for a number of moments.

    The default is `CANDIDATES_PER_MOMENT` times the number of moments, from `CANDIDATES` to `MOST_CANDIDATES`.
    """
    return min(MOST_CANDIDATES, max(CANDIDATES, CANDIDATES_PER_MOMENT * moments))


def _margins(basis: TensorBasis, b: FloatArray, stddev: FloatArray, *, degree: int) -> tuple[FloatArray, ...]:
    """Return each column's probabilities of its cells, (cells,) a column, from noisy averages ``b`` of ``basis``.

    Cells with a point on [-1, 1] share the max-ent density of the column's moments up to ``degree``.  A releasable cell
    without a point, such as the one of missing values, has its noisy fraction of the rows.

    The product of the margins is the fitted distribution, or the one that support points are drawn from.
    """
    domain, value = basis.domain, dict(zip(basis.terms, b.tolist(), strict=True))
    raw = np.array([[value[Cosine(j, m),] for m in range(1, degree + 1)] for j in range(len(domain))])
    pointless = _pointless_shares(basis, b)
    regular = np.array([[1 - sum(shares.values())] for shares in pointless])
    densities = _densities(domain, raw / regular, stddev[:, None] / regular)
    return _with_pointless(domain, densities, pointless)


def _pointless_shares(basis: TensorBasis, b: FloatArray) -> list[dict[int, float]]:
    """Return per column the fraction of rows in each of its cells without a point, by cell; at most 0.99 in all.

    Such a cell holds a special or missing value; the density has the rest of the rows.
    """
    shares: list[dict[int, float]] = [{} for _ in basis.domain.axes]
    releasable = [axis.releasable for axis in basis.domain.axes]
    for term, answer in zip(basis.terms, b.tolist(), strict=True):
        if isinstance(term[0], Indicator) and releasable[term[0].column][term[0].cell]:
            shares[term[0].column][term[0].cell] = min(max(answer, 0.0), 1.0)
    for found in shares:
        total = sum(found.values())
        for cell in found:
            found[cell] *= min(1.0, 0.99 / total) if total > 0 else 1.0
    return shares


def _with_pointless(
    domain: Domain, densities: list[FloatArray], pointless: list[dict[int, float]]
) -> tuple[FloatArray, ...]:
    """Return each column's probabilities of its cells, (cells,) a column, from densities of the cells with a point.

    Cells without a point, such as missing values, have the fractions of rows in ``pointless``, by cell; the densities
    share the rest.
    """
    margins = []
    for axis, density, shares in zip(domain.axes, densities, pointless, strict=True):
        margin = np.zeros(axis.size)
        margin[: density.size] = density * (1 - sum(shares.values()))
        for cell, share in shares.items():
            margin[cell] = share
        margins.append(margin)
    return tuple(margins)


def _densities(domain: Domain, moments: FloatArray, stddev: FloatArray, *, tilt: float = 0.0) -> list[FloatArray]:
    """Return the max-ent probabilities of each column's points, (points,) each; equal points are fitted together.

    ``tilt`` is the multiplier of the second moment that all columns share.
    """
    groups: dict[bytes, list[int]] = {}
    points = [axis.points[~np.isnan(axis.points)] for axis in domain.axes]
    widths = [axis.width[~np.isnan(axis.points)] for axis in domain.axes]
    for j, nodes in enumerate(points):
        groups.setdefault(nodes.tobytes() + widths[j].tobytes(), []).append(j)
    densities: list[FloatArray] = [np.empty(0)] * len(domain)
    for columns in groups.values():
        nodes = points[columns[0]]
        exponent = tilt * chebyshev_moments(nodes, 2)[1]
        prior = widths[columns[0]] * np.exp(exponent - exponent.max())
        fitted = product_max_entropy(moments[columns], stddev[columns], nodes=nodes, prior=prior)
        for j, density in zip(columns, fitted, strict=True):
            densities[j] = density
    return densities


def _from_means(account: Curator, fine: Domain, coarse: Domain, count: RowCount) -> Synthesised:
    """Measure the means and one mean second moment, and return densities that share one multiplier.

    Costs all that the account has left: `MEANS_SHARE` for the means, the rest for the second moment.
    """
    share = account.cost(Remaining()).fraction(MEANS_SHARE)
    basis, means_of = _measure(account, fine, MomentOrders(1, 1), spend=share, step="means")
    second = account.measure(AverageMoment(fine), spend=Remaining(), step="average second moment")
    averages, stddev = np.concatenate([one.answers for one in means_of]) / count.rows, means_of[0].stddev / count.rows
    misfits = out_of_domain_shares(fine, basis.terms, averages, means_of[-1].stddev / count.rows)
    b, scale = averages_in_domain(basis, averages, misfits)
    pointless = _pointless_shares(_first_terms(moment_basis(coarse, MomentOrders(1, 1)), basis.k), b)
    regular = np.array([[1 - sum(shares.values())] for shares in pointless])
    means, noise = b[: len(coarse), None] / regular, stddev * scale[: len(coarse), None] / regular
    tilted = _tilted(coarse, means, noise, regular[:, 0] * (1 - misfits), second, rows=count.rows)
    return Synthesised(
        domain=coarse,
        distribution=Product(shape=coarse.shape, margins=_with_pointless(coarse, tilted, pointless)),
        measurements=(*means_of, second),
        stddev=stddev,
        notes=("means of single columns and one second moment, averaged over the columns: more would be too noisy",),
    )


def _tilted(
    domain: Domain, means: FloatArray, stddev: FloatArray, regular: FloatArray, second: Measurements, *, rows: float
) -> list[FloatArray]:
    """Return the columns' densities, (points,) each, at the shared multiplier that meets the mean second moment.

    The derivative of the dual increases in the multiplier, so a root search finds it, within bounds and up to 1e-6.
    The more noise the moment has, the nearer the multiplier is to 0.
    """
    target, noise = float(second.answers[0]) / rows, second.stddev / rows
    d = len(domain)
    T2 = [chebyshev_moments(axis.points[~np.isnan(axis.points)], 2)[1] for axis in domain.axes]

    def slope(tilt: float) -> float:
        densities = _densities(domain, means, stddev, tilt=tilt)
        met = sum(share * float(w @ T) for share, w, T in zip(regular, densities, T2, strict=True)) / d
        return float(met - target + noise**2 * d * tilt)

    # both moments lie in [-1, 1], so beyond 2 / (noise^2 d) the noise term outweighs their difference: the root is nearer
    steepest = min(_STEEPEST, 2 / (noise**2 * d) + 1) if noise > 0 else _STEEPEST
    if slope(-steepest) >= 0:
        return _densities(domain, means, stddev, tilt=-steepest)
    if slope(steepest) <= 0:
        return _densities(domain, means, stddev, tilt=steepest)
    return _densities(domain, means, stddev, tilt=float(brentq(slope, -steepest, steepest, xtol=1e-6)))
