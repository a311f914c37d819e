"""Statistics of Chebyshev polynomials over ordered columns: the full tensor of products, and averages over columns.

The smooth-query mechanisms measure them.  Features are computed row by row from the positions of cells, so axes may be
fine.  The proofs of the swap bounds (changes if one record is replaced) are in
``docs/proofs/chebyshev-sensitivity.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from synthdp.arrays import Codes, Features, FloatArray, IntArray, frozen
from synthdp.checks import check_number, whole
from synthdp.codec import ADDED, DocumentSource, Store, file_form
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError
from synthdp.queries.linear import LinearFamily
from synthdp.queries.norms import LARGEST_DENOMINATOR, Norms, RecordBounds
from synthdp.queries.protocol import check_overflow

_ROUNDING = 1 + 1e-9
"""Factor above 1 that covers the rounding of floating-point bounds and features.  A numerical tolerance."""

_FEW_DEGREES = 32
"""Number of degrees up to which the grids on which kernels are maximised are fine; for more degrees they are coarser.  A
safety limit of time."""
_STEPS_OF_FEW, _STEPS_OF_MANY = 1024, 64
"""Points per degree, for up to `_FEW_DEGREES` and for more degrees, of the grids on [0, π] on which kernels are maximised.
More points find a maximum more closely and take more time.  A numerical tolerance."""

_AT_ONCE = 2**20
"""Most points of a grid on [0, π], on which kernels are maximised, in memory at once.  A safety limit of memory."""


def tensor_swap(t: int, d: int, *, denominator: int, scales: IntArray | None = None) -> Norms:
    """Return bounds on the change of the rounded tensor features if a record is replaced (swap sensitivity).

    Bounds are in whole multiples of 1 / ``denominator``.

    Parameters
    ----------
    t, d
        Numbers of degrees and of columns.
    denominator
        Factor by which terms are multiplied before they are rounded to whole numbers.
    scales
        (t,) factor of a term by its largest degree, instead of ``denominator``; see `degree_scales`.  ``None`` if all
        terms have the factor ``denominator``.
    """
    sizes = (np.full(t, denominator) if scales is None else scales) / denominator
    l1, l2_squared = swap_by_degree(sizes, d, tensor_swap_l1, power=1), swap_by_degree(sizes, d)
    return rounded_swap(l1, l2_squared, k=t**d - 1, denominator=denominator)


def degree_scales(t: int, growth: float, *, denominator: int) -> IntArray:
    """Return the factor that makes a term a whole number, by its largest degree q = 0 ... t - 1, (t,).

    The factor is denominator / max(q, 1)^growth, rounded, and at least `LEAST_SCALE`, or the denominator if that is
    less.  All sums get equal noise, so the noise of an average grows as q^growth.
    """
    falling = np.rint(denominator * np.maximum(np.arange(t), 1.0) ** -growth)
    return np.maximum(falling, min(LEAST_SCALE, denominator)).astype(np.int64)


def terms_by_degree(t: int, d: int) -> FloatArray:
    """Return how many of the t^d - 1 terms have each largest degree, (t,), to add norms up; none has degree 0."""
    boxes = np.arange(t + 1, dtype=np.float64) ** d
    return np.append(0.0, np.diff(boxes)[1:])


def moments_swap(p: int, d: int, *, denominator: int) -> Norms:
    """Return the swap sensitivity of moments: bounds on the change of rounded T_1 ... T_p of each of d columns.

    The L1 bound before rounding is (p + 1 + κ) d.  The squared L2 bound is d times the largest squared change of one
    column.  Both are exact up to the grids of `least_kernel` and `largest_square`; for p = 2 they are 25/8 d and 5.1446
    d.  The bounds also hold with one more indicator per cell without a point, where all T are 0 (docs/proofs).
    """
    l1, l2_squared = tensor_swap_l1(p + 1, 1) * d, tensor_swap_l2_squared(p + 1, 1) * d
    return rounded_swap(l1, l2_squared, k=p * d, denominator=denominator)


def rounded_swap(l1: float, l2_squared: float, *, k: int, denominator: int) -> Norms:
    """Return the norms of a swap in whole multiples of 1 / ``denominator``, from bounds on real L1 and squared L2.

    Rounding changes each of k differences by at most 1.
    """
    return Norms.within(
        k,
        2 * denominator,
        l1=math.ceil((l1 * denominator + k) * _ROUNDING),
        l2_squared=math.ceil((math.sqrt(l2_squared) * denominator + math.sqrt(k)) ** 2 * _ROUNDING),
    )


def tensor_swap_l1(t: int, d: int) -> float:
    """Return the largest L1 change of the real tensor features when a record is replaced: t^(d-1) (t + κ_t).

    The features are products of d columns' Chebyshev polynomials of t degrees, 0 to t - 1.  The value is too large by at
    most 1e-4 t^d, from the grid of `least_kernel`.  The paper prints t^d, which is right only at t = 2, where κ is 0.
    """
    return float(t ** (d - 1) * (t + least_kernel(t)))


def tensor_swap_l2_squared(t: int, d: int) -> float:
    """Return a bound on the squared Euclidean change of the real tensor features when a record is replaced.

    The features are products of d columns' Chebyshev polynomials of t degrees, 0 to t - 1.  The bound is t^(d-1) times
    one column's bound, and at least 2 t^d if d > 1.  If t is even or d is 1 it is exact, up to the grid of
    `largest_square`.  Otherwise it is too large by less than a factor 1 / (1 - t^-d).
    """
    one = largest_square(t)
    return one if d == 1 else float(t ** (d - 1) * max(2.0 * t, one))


def swap_by_degree(
    scales: FloatArray, d: int, bound_of: Callable[[int, int], float] = tensor_swap_l2_squared, *, power: int = 2
) -> float:
    """Return a bound on the squared L2 change of degree-scaled tensor features if a record is replaced.

    With ``power`` 1 and `tensor_swap_l1` it is a bound on the L1 change.  Each feature is multiplied by a factor that
    decreases with its largest degree.  So the features are a mixture of unscaled tensors with more and more degrees,
    and the bounds of these add up.  A tensor of many degrees takes the bound of one with a few more degrees
    (docs/proofs/smooth-class.md).

    Parameters
    ----------
    scales
        (t,) factor by largest degree, not increasing from degree 1 on.
    d
        Number of columns.
    bound_of, power
        The bound of an unscaled tensor by t and d, and the power of the factors in it: 2 for squares.
    """
    t = len(scales)
    falls = scales**power - np.append(scales[1:] ** power, 0.0)
    return sum(
        float(fall) * bound_of(size if size == t else _coarse(size), d)
        for size, fall in zip(range(2, t + 1), falls[1:], strict=True)
        if fall > 0
    )


def _coarse(t: int) -> int:
    """Return t, rounded up from 64 on to a number with six leading bits, so that few bounds need computing.

    A bound for more degrees also holds for fewer.
    """
    unit: int = 2 ** max(0, t.bit_length() - 6)
    return -(-t // unit) * unit


@lru_cache(maxsize=1024)
def least_kernel(t: int) -> float:
    """Return κ_t, an upper bound on the largest value of -D(u), too large by at most 1e-4 t.

    D(u) = 1 + cos u + ... + cos (t-1)u is the Dirichlet kernel; the L1 swap bound of the tensor needs κ_t.  Between the
    points of a grid of step h, D is at most h^2/8 max|D''| below its least value on the grid.
    """
    most = _most_on_grid(lambda u: -dirichlet(u, t), t)
    return max(0.0, most + _step(t) ** 2 / 8 * _curvature(t))


@lru_cache(maxsize=1024)
def largest_square(t: int) -> float:
    """Return an upper bound, too large by at most 4e-4 t, on max over x, y of sum_{m<t} (T_m(x) - T_m(y))^2.

    It is the squared L2 change of one column's features when a record is replaced.

    The maximum is attained at x = 1, where it is the maximum over w of (3t - 4 D(w) + D(2w)) / 2.
    """
    most = _most_on_grid(lambda w: (3 * t - 4 * dirichlet(w, t) + dirichlet(2 * w, t)) / 2, t)
    return min(4.0 * (t - 1), most + _step(t) ** 2 / 2 * _curvature(t))


def dirichlet(u: FloatArray, t: int) -> FloatArray:
    """Return the Dirichlet kernel D(u) = 1 + cos u + ... + cos (t-1)u, in the shape of ``u``.

    It is the sum of products of cosines in which the swap bounds are written.  Near u = 0 it is t.
    """
    half = np.sin(u / 2)
    flat = np.abs(half) < 1e-9
    values = 0.5 + np.sin((t - 0.5) * u) / (2 * np.where(flat, 1.0, half))
    return np.where(flat, float(t), values)


def _most_on_grid(function: Callable[[FloatArray], FloatArray], t: int) -> float:
    """Return a function's largest value on the grid of [0, π] for t degrees, from which swap bounds follow.

    Half a period suffices, as the functions are even and 2π-periodic.
    """
    count = round(math.pi / _step(t))
    starts = range(0, count + 1, _AT_ONCE)
    grids = (np.arange(a, min(a + _AT_ONCE, count + 1), dtype=np.float64) * (math.pi / count) for a in starts)
    return max(float(function(np.asarray(grid, np.float64)).max()) for grid in grids)


def _step(t: int) -> float:
    """Return the step of the grid on [0, π] for kernel maxima: π / (1024 t) for t <= 32 degrees, else π / (64 t)."""
    return math.pi / (t * (_STEPS_OF_FEW if t <= _FEW_DEGREES else _STEPS_OF_MANY))


def _curvature(t: int) -> float:
    """Return max|D''| = 1 + 4 + ... + (t-1)^2 of the Dirichlet kernel D, which bounds D between points of a grid."""
    return (t - 1) * t * (2 * t - 1) / 6


LEAST_SCALE = 2**10
"""Least factor by which a term is multiplied before it is rounded to a whole number.  Rounding changes an average by at
most 2^-11, which matters only for terms with much noise.  A numerical tolerance."""

DENOMINATOR = 2**24
"""Factor by which terms are multiplied before they are rounded to whole numbers, so that noise is exact.  Rounding changes
an average by at most 2^-25.  A numerical tolerance."""

MAX_TERMS = 10**6
"""Most terms of a tensor of averages.  A safety limit of time and memory."""


@file_form("ChebyshevTensor")
@dataclass(frozen=True, slots=True, eq=False)
class ChebyshevTensor(LinearFamily):
    """Sums over rows of T_{m1}(x_1) ... T_{md}(x_d) for all degrees m below t, without the constant: t^d - 1 sums.

    A cell without a point (missing, special, other) has T_0 = 1 and all other T_m = 0.  These are the Chebyshev
    averages of the arcsine distribution on (-1, 1), so such a value counts as if drawn from it.

    Parameters
    ----------
    domain
        The axes, all ordered.
    t
        Number of degrees 0 ... t - 1 per column, t >= 2.
    denominator
        The whole number that stands for 1.
    points
        Position of each cell of each axis on [-1, 1]; default: the middles of equal cells.  Points outside count as the
        nearer end, so no choice of points changes the sensitivity.
    growth
        The noise of a term's average grows as its largest degree to this power; 0 for equal noise.  Each term is
        multiplied by its own whole number (`degree_scales`).
    """

    domain: Domain
    t: int
    denominator: int = DENOMINATOR
    points: tuple[FloatArray, ...] | None = field(default=None, repr=False)
    growth: float = field(default=0.0, metadata=ADDED)
    _points: tuple[FloatArray, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "t", whole("t", self.t, least=2))
        object.__setattr__(
            self, "denominator", whole("denominator", self.denominator, least=1, most=LARGEST_DENOMINATOR)
        )
        if self.t ** len(self.domain) > MAX_TERMS:
            raise ParameterError(
                f"t ({self.t}) over {len(self.domain)} columns gives {self.t ** len(self.domain)} terms, and at "
                f"most {MAX_TERMS} are possible: name fewer columns, or use SmoothSynthesis"
            )
        for axis in self.domain.axes:
            if not axis.grid.ordered:
                raise ParameterError(f"column {axis.name!r} has no order, which cosines need: use ordered columns only")
        check_number("growth", self.growth, least=0)
        points = tuple(axis.points for axis in self.domain.axes) if self.points is None else self.points
        if [p.shape for p in points] != [(axis.size,) for axis in self.domain.axes]:
            raise ParameterError("points must hold one array per column, with one number per cell")
        object.__setattr__(self, "_points", tuple(frozen(p) for p in points))
        check_overflow(self)

    @property
    def k(self) -> int:
        """Return the number of terms, t^d - 1."""
        return int(self.t ** len(self.domain)) - 1

    @property
    def bounds(self) -> RecordBounds:
        """Return the sensitivity: one record adds at most `ones` to the sums; for a replaced record see `tensor_swap`."""
        scales, d = self.by_degree, len(self.domain)
        numbers = [int(number) for number in terms_by_degree(self.t, d)]
        one = Norms(
            sum(number * int(scale) for number, scale in zip(numbers, scales, strict=True)),
            sum(number * int(scale) ** 2 for number, scale in zip(numbers, scales, strict=True)),
            self.denominator,
        )
        return RecordBounds(one, tensor_swap(self.t, d, denominator=self.denominator, scales=scales))

    @property
    def by_degree(self) -> IntArray:
        """Return the factor of a term before it is rounded, by its largest degree, (t,); smaller factors mean more noise."""
        return degree_scales(self.t, self.growth, denominator=self.denominator)

    @property
    def ones(self) -> IntArray:
        """Return the factor by which each term is multiplied before it is rounded to a whole number, (k,)."""
        ones: IntArray = self.by_degree[np.indices((self.t,) * len(self.domain)).max(axis=0).ravel()[1:]]
        return ones

    def real_features(self, codes: Codes) -> FloatArray:
        """Return the unrounded terms of each row, (n, k) numbers in [-1, 1], in C order of the degrees.

        Weights are fitted with these terms.  Private rows are summed by the rounded `features`, because exact noise
        needs whole numbers.
        """
        product = np.ones((len(codes), 1))
        for j, points in enumerate(self._points):
            factor = chebyshev_table(points[codes[:, j]], self.t)
            product = (product[:, :, None] * factor[:, None, :]).reshape(len(codes), product.shape[1] * self.t)
        return product[:, 1:]

    def features(self, codes: Codes) -> Features:
        """Return the terms of each row, (n, k), each times its factor in `ones` and rounded to a whole number."""
        return np.rint(self.real_features(codes) * self.ones).astype(np.int64)


@file_form("chebyshev")
@dataclass(frozen=True, slots=True, eq=False)
class TensorWithMisfits(LinearFamily):
    """A Chebyshev tensor, followed by one count per column of the rows whose value is out of domain.

    A mechanism corrects averages by these counts.  If a record is counted for a column, all terms of that column are 0,
    so one record adds no more than without counts.

    Parameters
    ----------
    tensor
        The tensor, to which counts are appended.
    """

    tensor: ChebyshevTensor

    @property
    def domain(self) -> Domain:
        """Return the tensor's axes."""
        return self.tensor.domain

    @property
    def cells(self) -> dict[int, int]:
        """Return the (first) out-of-domain cell of each column that has one, by the column's position.

        The rows in each of these cells are counted, in this order, after the tensor's terms.
        """
        found = {j: np.flatnonzero(~axis.releasable) for j, axis in enumerate(self.domain.axes)}
        return {j: int(cells[0]) for j, cells in found.items() if len(cells)}

    def to_saved(self, store: Store) -> dict[str, Any]:
        """Return the statistic as a document for a file.

        The whole tensor is written only if its noise grows with the degree or its points are given; else its domain, t
        and denominator are enough.
        """
        if self.tensor.growth or self.tensor.points is not None:
            return {"tensor": store.write(self.tensor)}
        return {"domain": store.write(self.domain), "t": self.tensor.t, "unit": self.tensor.denominator}

    @classmethod
    def of_saved(cls, document: Mapping[str, Any], source: DocumentSource) -> TensorWithMisfits:
        """Return the statistic from a document that `to_saved` of this or an earlier version wrote."""
        if "tensor" in document:
            return cls(source.read(document["tensor"], ChebyshevTensor))
        t, unit = (source.read(document[name], int) for name in ("t", "unit"))
        return cls(ChebyshevTensor(source.read(document["domain"], Domain), t, unit))

    def place_of(self, column: int, cell: int) -> int | None:
        """Return the position of the answer that counts a column's out-of-domain cell, ``None`` for any other cell.

        See `CellCounting`.
        """
        return self.tensor.k + list(self.cells).index(column) if self.cells.get(column) == cell else None

    @property
    def k(self) -> int:
        """Return the number of terms plus the number of counts."""
        return self.tensor.k + len(self.cells)

    @property
    def denominator(self) -> int:
        """Return the largest factor by which terms are multiplied before they are rounded; counts have it too."""
        return self.tensor.denominator

    @property
    def bounds(self) -> RecordBounds:
        """Return the tensor's sensitivity, with a slightly larger L1 norm of a replaced record where t^d is small.

        A record that is out of domain in m columns has t^(d-m) - 1 terms, and m counts that are not 0.  Any other
        record has all t^d - 1 terms.  Their squared distance is at most t^d + t^(d-m) + m + 2 t^(d-m-1) κ, below the
        tensor's bound.  Here κ is the bound of `least_kernel`.
        """
        t, d, denominator = self.tensor.t, len(self.domain), self.denominator
        bounds = self.tensor.bounds
        most = max((t**d - 1 + t ** (d - m) - 1 + m for m in range(1, len(self.cells) + 1)), default=0)
        l1 = max(bounds.swap.l1, (most * denominator) + self.tensor.k)
        l1 = min(l1, 2 * bounds.one.l1)
        return RecordBounds(bounds.one, Norms(l1, bounds.swap.l2_squared, bounds.swap.linf))

    def features(self, codes: Codes) -> Features:
        """Return each row's terms, each times its factor and rounded, then its counts, (n, k).

        There is a count for each column of `cells`: `denominator` if the row is in that cell, else 0.
        """
        counts = [(codes[:, j] == cell).astype(np.int64) * self.denominator for j, cell in self.cells.items()]
        return np.column_stack([self.tensor.features(codes), *counts])


@file_form("AverageMoment")
@dataclass(frozen=True, slots=True, eq=False)
class AverageMoment(LinearFamily):
    """The sum over rows of the mean over columns of T_degree(x_j): one number for all columns together.

    This number is measured if the noise is too large for a moment of each column.

    Parameters
    ----------
    domain
        The axes, all ordered; a cell without a point counts 0.
    degree
        Degree of the Chebyshev polynomial, at least 1.
    denominator
        The whole number that stands for 1.
    """

    domain: Domain
    degree: int = 2
    denominator: int = DENOMINATOR

    def __post_init__(self) -> None:
        object.__setattr__(self, "degree", whole("degree", self.degree, least=1))
        object.__setattr__(
            self, "denominator", whole("denominator", self.denominator, least=1, most=LARGEST_DENOMINATOR)
        )
        if not all(axis.grid.ordered for axis in self.domain.axes):
            raise ParameterError("domain must have ordered columns only, because averages need an order")
        check_overflow(self)

    @property
    def k(self) -> int:
        """Return the number of answers, 1."""
        return 1

    @property
    def bounds(self) -> RecordBounds:
        """Return the sensitivity: a mean of values in [-1, 1] lies there too, so a record adds at most `denominator`."""
        return RecordBounds.of(Norms.within(1, self.denominator))

    def features(self, codes: Codes) -> Features:
        """Return each row's mean over the columns of T_degree(x_j), times `denominator` and rounded, (n, 1)."""
        mean = np.zeros(len(codes))
        for j, axis in enumerate(self.domain.axes):
            mean += chebyshev_table(axis.points[codes[:, j]], self.degree + 1)[:, self.degree]
        return np.rint(mean * (self.denominator / len(self.domain))).astype(np.int64)[:, None]


def chebyshev_table(x: FloatArray, t: int) -> FloatArray:
    """Return T_0 ... T_{t-1} at points ``x``, (n, t); at a NaN, T_0 is 1 and the others are 0.

    A missing value then adds nothing to any term with its column.
    """
    missing = np.isnan(x)
    angles = np.arccos(np.clip(np.where(missing, 0.0, x), -1.0, 1.0))
    table: FloatArray = np.cos(angles[:, None] * np.arange(t))
    table[missing, 1:] = 0.0
    return table
