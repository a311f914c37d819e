"""The full tensor of Chebyshev polynomials over ordered axes.

What the smooth-query mechanisms ask.  Features come from the cells' points row by row, so axes may be fine.  The proofs
of the swap bounds are in ``docs/proofs/chebyshev-sensitivity.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from synthdp.arrays import Codes, Features, FloatArray, frozen
from synthdp.checks import whole
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError
from synthdp.queries.linear import LinearFamily
from synthdp.queries.norms import LARGEST_DENOMINATOR, Norms, RecordBounds
from synthdp.queries.protocol import check_overflow
from synthdp.works.smooth.sensitivity import tensor_swap

DENOMINATOR = 2**24
"""The whole number that stands for 1: rounding moves an average by at most 2^-25."""

MAX_TERMS = 10**6
"""Most terms of a tensor."""


@dataclass(frozen=True, slots=True, eq=False)
class ChebyshevTensor(LinearFamily):
    """Sums over rows of T_{m1}(x_1) ... T_{md}(x_d) for all degrees m below t, without the constant: t^d - 1 sums.

    A cell without a point (missing, special, other) has T_0 = 1 and T_m = 0 beyond, as if the value were spread over
    (-1, 1) by the arcsine law, whose Chebyshev averages these are.

    Parameters
    ----------
    domain
        The axes, all ordered.
    t
        Number of degrees 0 ... t - 1 per column, t >= 2.
    denominator
        The whole number that stands for 1.
    points
        Where the cells of each axis lie on [-1, 1]; default: the middles of equal cells.  What lies beyond counts as an
        end, so that no choice of points moves the sensitivity.
    """

    domain: Domain
    t: int
    denominator: int = DENOMINATOR
    points: tuple[FloatArray, ...] | None = field(default=None, repr=False)
    _points: tuple[FloatArray, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "t", whole("t", self.t, least=2))
        object.__setattr__(
            self, "denominator", whole("denominator", self.denominator, least=1, most=LARGEST_DENOMINATOR)
        )
        if self.t ** len(self.domain) > MAX_TERMS:
            raise ParameterError(
                f"t ({self.t}) over {len(self.domain)} columns gives {self.t ** len(self.domain)} terms; "
                f"at most {MAX_TERMS} are possible: ask fewer columns, or use SmoothSynthesis"
            )
        for axis in self.domain.axes:
            if not axis.grid.ordered:
                raise ParameterError(f"column {axis.name!r} has no order, so it has no cosine basis")
        points = tuple(axis.points for axis in self.domain.axes) if self.points is None else self.points
        if [p.shape for p in points] != [(axis.size,) for axis in self.domain.axes]:
            raise ParameterError("points must be one for each cell of each axis")
        object.__setattr__(self, "_points", tuple(frozen(p) for p in points))
        check_overflow(self)

    @property
    def k(self) -> int:
        """Number of terms, t^d - 1."""
        return int(self.t ** len(self.domain)) - 1

    @property
    def bounds(self) -> RecordBounds:
        """One record adds at most ``denominator`` to every sum (x = 1 does); for a swap see `tensor_swap`."""
        swap = tensor_swap(self.t, len(self.domain), denominator=self.denominator)
        return RecordBounds(Norms.within(self.k, self.denominator), swap)

    def real_features(self, codes: Codes) -> FloatArray:
        """Return the unrounded terms, (n, k), in C order of the degrees."""
        product = np.ones((len(codes), 1))
        for j, points in enumerate(self._points):
            factor = chebyshev_table(points[codes[:, j]], self.t)
            product = (product[:, :, None] * factor[:, None, :]).reshape(len(codes), product.shape[1] * self.t)
        return product[:, 1:]

    def features(self, codes: Codes) -> Features:
        """Return the terms rounded to whole multiples of 1 / ``denominator``, (n, k)."""
        return np.rint(self.real_features(codes) * self.denominator).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class TensorWithMisfits(LinearFamily):
    """A Chebyshev tensor, and then for each column how many rows lie in its cell of values that do not fit the schema.

    In place of a misfit's count all terms of its column are 0, so that a record adds no more than without these counts.

    Parameters
    ----------
    tensor
        The tensor.
    """

    tensor: ChebyshevTensor

    @property
    def domain(self) -> Domain:
        """The tensor's axes."""
        return self.tensor.domain

    @property
    def cells(self) -> dict[int, int]:
        """The cell of misfits of each column that has one."""
        found = {j: np.flatnonzero(~axis.releasable) for j, axis in enumerate(self.domain.axes)}
        return {j: int(cells[0]) for j, cells in found.items() if len(cells)}

    def settings(self) -> dict[str, int]:
        """Return all of it but its domain, for a file."""
        return {"t": self.tensor.t, "unit": self.tensor.denominator}

    @classmethod
    def of_settings(cls, domain: Domain, settings: Mapping[str, Any]) -> TensorWithMisfits:
        """Return the one that `settings` described."""
        return cls(ChebyshevTensor(domain, int(settings["t"]), int(settings["unit"])))

    def place_of(self, column: int, cell: int) -> int | None:
        """Return which answer counts the rows in one cell of one column; ``None`` if none does."""
        return self.tensor.k + list(self.cells).index(column) if self.cells.get(column) == cell else None

    @property
    def k(self) -> int:
        """Number of terms and of counts."""
        return self.tensor.k + len(self.cells)

    @property
    def denominator(self) -> int:
        """The tensor's denominator."""
        return self.tensor.denominator

    @property
    def bounds(self) -> RecordBounds:
        """Those of the tensor; a replaced record moves the sum of all by a little more where t^d is small.

        A misfit in m columns has t^(d-m) - 1 terms and m counts that are not 0, and any other record all t^d - 1 terms;
        their squared distance is at most t^d + t^(d-m) + m + 2 t^(d-m-1) kappa, below the tensor's bound.
        """
        t, d, denominator = self.tensor.t, len(self.domain), self.denominator
        bounds = self.tensor.bounds
        most = max((t**d - 1 + t ** (d - m) - 1 + m for m in range(1, len(self.cells) + 1)), default=0)
        l1 = max(bounds.swap.l1, (most * denominator) + self.tensor.k)
        l1 = min(l1, 2 * bounds.one.l1)
        return RecordBounds(bounds.one, Norms(l1, bounds.swap.l2_squared, bounds.swap.linf))

    def features(self, codes: Codes) -> Features:
        """Return the rounded terms, and 1 where a row is a misfit, (n, k)."""
        counts = [(codes[:, j] == cell).astype(np.int64) * self.denominator for j, cell in self.cells.items()]
        return np.column_stack([self.tensor.features(codes), *counts])


@dataclass(frozen=True, slots=True, eq=False)
class AverageMoment(LinearFamily):
    """The sum over rows of the mean over columns of T_degree(x_j): one number for all columns together.

    Parameters
    ----------
    domain
        The axes, all ordered; a cell without a point counts 0.
    degree
        At least 1.
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
            raise ParameterError("an average moment needs ordered columns")
        check_overflow(self)

    @property
    def k(self) -> int:
        """One answer."""
        return 1

    @property
    def bounds(self) -> RecordBounds:
        """The mean of values in [-1, 1] lies in [-1, 1]."""
        return RecordBounds.of(Norms.within(1, self.denominator))

    def features(self, codes: Codes) -> Features:
        """Return the rounded means, (n, 1)."""
        mean = np.zeros(len(codes))
        for j, axis in enumerate(self.domain.axes):
            mean += chebyshev_table(axis.points[codes[:, j]], self.degree + 1)[:, self.degree]
        return np.rint(mean * (self.denominator / len(self.domain))).astype(np.int64)[:, None]


def chebyshev_table(x: FloatArray, t: int) -> FloatArray:
    """Return T_0 ... T_{t-1} at ``x``, (n, t); where x is NaN, 1 and then 0."""
    missing = np.isnan(x)
    angles = np.arccos(np.clip(np.where(missing, 0.0, x), -1.0, 1.0))
    table: FloatArray = np.cos(angles[:, None] * np.arange(t))
    table[missing, 1:] = 0.0
    return table
