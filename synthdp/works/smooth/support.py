"""Domains of smooth queries, ordered columns on fine axes, and the fit of weights on support points.

Post-processing of public numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import Answers, Codes, FloatArray
from synthdp.distribution.distribution import Distribution
from synthdp.distribution.explicit import Explicit
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain, axis_of
from synthdp.errors import ParameterError
from synthdp.fit.explicit.problem import FitProblem
from synthdp.fit.explicit.registry import solved
from synthdp.fit.explicit.solver import FitResult
from synthdp.measurements import Measurements
from synthdp.schema.column import Interval, Steps
from synthdp.schema.schema import Schema

CELLS = 2**15
"""Default cells per column on which the private table is read; a value is off by at most 2^-15 of [-1, 1]. A numerical
tolerance."""


def ordered_columns(schema: Schema, columns: Sequence[str] | None) -> tuple[str, ...]:
    """Return the columns of smooth queries: the given names, or all columns that have an order.

    Raises
    ------
    ParameterError
        If there is no column, a name does not exist, or a column has no order.
    """
    named = (columns,) if isinstance(columns, str) else columns
    ordered = tuple(name for name, column in schema.items() if column.ordered)
    chosen = ordered if named is None else tuple(dict.fromkeys(named))
    wrong = [name for name in chosen if name not in ordered]
    if wrong:
        raise ParameterError(
            f"column {wrong[0]!r} must be one of the ordered columns of the schema: {', '.join(ordered)}"
        )
    if not chosen:
        raise ParameterError("smooth queries need a numeric or ordinal column, and the schema has none: declare one")
    return chosen


def smooth_domain(schema: Schema, columns: tuple[str, ...], *, cells: int = CELLS) -> Domain:
    """Return the domain of some ordered columns, with at most ``cells`` equal cells each."""
    return Domain(tuple(axis_of(name, schema[name], bins=cells) for name in columns))


def scaled_points(axis: Axis) -> FloatArray:
    """Return each cell's position on [-1, 1], (cells,), with declared bounds at -1 and 1.

    The position is NaN for a cell without a point, such as missing values.

    An axis' own points are the middles (2k + 1 - R) / R of equal cells, for R whole numbers or levels. Levels keep
    these points; whole numbers are moved so that the bounds lie at the ends.
    """
    support, grid = axis.column.support(), axis.grid
    if not isinstance(support, Steps):
        return axis.points
    values = ((axis.points + 1) * grid.regular - 1) / 2 * grid.width + (grid.width - 1) / 2
    if grid.runs:  # grid points have different numbers of steps, so the axis counts single steps
        values = ((axis.points + 1) * grid.steps - 1) / 2
    steps = support.last - support.first
    return np.clip(2 * values / steps - 1, -1.0, 1.0) if steps else 0.0 * values  # one number lies at 0; NaN stays NaN


def cells_read(domain: Domain, cells: int) -> int:
    """Return the largest c, at most ``cells``, so that every value is read within 1 / c of its point on [-1, 1].

    The result is below ``cells`` where cells do not divide the grid, or a column has few grid points. Error bounds of
    answers use it.
    """
    return int(min((cells, *(_fineness(axis) for axis in domain.axes))))


def _fineness(axis: Axis) -> float:
    """Return the inverse of a value's largest distance on [-1, 1] from its cell's point, rounded down.

    Return infinity if every value is its cell's point. Bounds of answers count this distance as an error.
    """
    starts = axis.starts[axis.starts < axis.grid.regular]
    longest = int(np.diff(starts, append=axis.grid.regular).max())  # grid points of the widest cell
    # s steps in one cell: a value is at most (s - 1) / 2 steps from the middle, and a step is 2 / (last - first)
    match axis.column.support():
        case Steps(first, last):
            most = int(np.diff(axis.grid.first_steps(np.append(starts, axis.grid.regular))).max())
            together = (most if axis.grid.runs else longest * axis.grid.width) - 1
            return (last - first) // together if together else math.inf
        case Interval():
            return axis.grid.regular // longest
    return axis.grid.regular // (longest - 1) if longest > 1 else math.inf


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Synthesised:
    """A distribution with its noisy answers and notes, which every variant of smooth synthesis returns.

    Parameters
    ----------
    domain, distribution
        The cells, and the distribution over them.
    measurements
        The noisy answers that the distribution was fitted to.
    stddev
        Standard deviation of the noise in the fitted averages.
    notes
        Lines for the receipt.
    """

    domain: Domain
    distribution: Distribution
    measurements: tuple[Measurements, ...]
    stddev: float
    notes: tuple[str, ...] = ()


def fit_support(
    domain: Domain,
    codes: Codes,
    features: FloatArray,
    b: Answers,
    *,
    stddev: float | FloatArray,
    solver: str,
    drawn: bool,
) -> tuple[Explicit, str]:
    """Return weights on support points whose averages meet the noisy ones, and a line for the receipt on the fit.

    Parameters
    ----------
    domain, codes
        (m, d) support points.
    features
        (m, k) their features.
    b, stddev
        (k,) noisy averages and their noise.
    solver
        Name of the solver.
    drawn
        Whether the points are a random sample of a fitted distribution, so that the fit must allow for sampling error.
    """
    A, noise = np.ascontiguousarray(features.T), np.array(np.broadcast_to(stddev, b.shape))
    fit = solved(FitProblem.of_noisy(A, b, noise, drawn=len(codes) if drawn else 0), solver)
    return Explicit(shape=domain.shape, codes=codes, weights=fit.weights), fit_note(fit, support=len(codes))


def fit_note(fit: FitResult, *, support: int) -> str:
    """Return a line for the receipt: the number of support points and how the fit ended."""
    return f"fit on {support} support points {fit}"


def pointed_cells(domain: Domain) -> tuple[int, ...]:
    """Return the number of cells with a point, per axis; these cells come first on their axis.

    Weights are put on these cells only, so no missing or out-of-domain value is released.
    """
    return tuple(int((~np.isnan(axis.points)).sum()) for axis in domain.axes)
