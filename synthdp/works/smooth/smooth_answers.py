"""Answers from a trigonometric summary: a query's Chebyshev coefficients multiplied with the noisy averages.

NIPS 2013, Algorithm 2. Post-processing of public numbers, without access to curator or rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from scipy.fft import dctn, idctn

from synthdp.answers.answers import Answers as Answered
from synthdp.answers.questions import Count, Mean, Question, Smooth, Sum, Variance
from synthdp.arrays import FloatArray, frozen
from synthdp.checks import check_number, whole
from synthdp.codec import ADDED, file_form
from synthdp.domain.grid import bounds_of, grid_of
from synthdp.errors import ParameterError
from synthdp.measurements import Measurements
from synthdp.mechanisms.estimate import Estimate
from synthdp.schema.schema import Schema
from synthdp.works.smooth.chebyshev import chebyshev_table
from synthdp.works.smooth.kernels import GaussianKernels, SeparableQueries, kernel_truncation
from synthdp.works.smooth.theory import growing, truncation_bound

Query: TypeAlias = Callable[[FloatArray], FloatArray]
"""A smooth query as a function from (m, d) points of [-1, 1]^d to (m,) values."""

MAX_NODES = 2**25
"""Most nodes at which a query is evaluated, over all columns. A safety limit of memory: 256 MiB of 64-bit numbers."""

_LEAST_NODES = 4096
"""Default number of nodes over all columns, before the minimum of twice the degrees per column.  A numerical tolerance:
more evaluate a query that is less smooth more exactly, and take more time."""
_SEPARABLE_NODES = 128
"""Least default number of nodes per column for separable queries, which need no product of nodes.  A numerical tolerance:
more evaluate sharper queries more exactly, and take more time."""
_POINTS_AT_ONCE = 2**18
"""Most points at which a query is evaluated in one call. A safety limit of memory."""
_NUMBERS_AT_ONCE = 2**22
"""Most numbers of one block of separable queries. A safety limit of memory."""


@file_form("TrigonometricSummary")
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrigonometricSummary:
    """Noisy averages of T_{m1}(x_1) ... T_{md}(x_d) over the rows of a table, from which smooth queries are answered.

    A missing or special value in a column counts as spread over (-1, 1) by the arcsine law.

    Parameters
    ----------
    names
        The d columns, each scaled so that its declared bounds are -1 and 1.
    averages
        (t, ..., t) noisy averages; the one of degree 0 is exactly 1.
    stddev
        Standard deviation of the noise of each other average; of averages of degree 1 if ``growth`` is above 0.
    rows, rows_stddev
        The number of rows, by which sums were divided, and the standard deviation of its noise.
    smoothness
        K of the queries that the summary was planned for.
    cells
        Cells per column on which the table was read.
    schema
        The columns' declarations, for means in their own units.
    growth
        Power of an average's largest degree that its noise stddev is proportional to; 0 for equal noise.

    Raises
    ------
    ParameterError
        If the averages do not fit the names.
    """

    names: tuple[str, ...]
    averages: FloatArray
    stddev: float
    rows: float
    rows_stddev: float = 0.0
    smoothness: int = 2
    cells: int = 2**15
    schema: Schema | None = field(default=None, metadata=ADDED)
    growth: float = field(default=0.0, metadata=ADDED)

    def __post_init__(self) -> None:
        averages = np.array(self.averages, np.float64)
        if averages.shape != (averages.shape[:1] * len(self.names)) or not averages.size or averages.flat[0] != 1:
            raise ParameterError(
                "averages must have one axis per name in names, all of the same length, and must begin with the value 1"
            )
        object.__setattr__(self, "averages", frozen(averages))

    def __repr__(self) -> str:
        return f"TrigonometricSummary({self.d} columns, {self.degrees} degrees, stddev={self.stddev:.3g})"

    @property
    def d(self) -> int:
        """Return the number of columns."""
        return self.averages.ndim

    @property
    def degrees(self) -> int:
        """Return t, the number of degrees per column."""
        return int(self.averages.shape[0])

    def answer(
        self,
        query: Query | SeparableQueries | Smooth,
        *,
        degrees: int | str | None = None,
        nodes: int | None = None,
        bound: float | None = None,
    ) -> Estimate:
        """Return the average of a smooth query over the rows, with its error bar.

        The answer to a function of points is clipped to the range of the function's values at the nodes.

        Parameters
        ----------
        query
            A function of (m, d) points of [-1, 1]^d with (m,) values, or the result of `synthdp.smooth` for a function
            of some columns. Or separable queries such as `GaussianKernels`, which need one-dimensional transforms only.
        degrees
            Number of degrees to use, at most the summary's. ``"auto"`` takes the number with the least truncation plus
            noise for this query.
        nodes
            N, points per column at which the query is evaluated, at least twice the degrees; default: that or more.
        bound
            B, a bound on the queries' derivatives up to order K, if known; it gives ``truncation_bound``. Gaussian
            kernels need none, since their derivatives have closed forms.

        Raises
        ------
        ParameterError
            If the query is of another kind, does not return (m,) finite values, or a setting is out of range.
        """
        t = self._checked_degrees(degrees)
        if bound is not None:
            check_number("bound", bound, least=0)
        if isinstance(query, SeparableQueries):
            if degrees == "auto":
                raise ParameterError("degrees must be a number, not 'auto', for separable queries")
            count = max(4 * t, _SEPARABLE_NODES) if nodes is None else nodes
            return self._separable(query, t=t, nodes=self._checked_nodes(count, t, columns=1), bound=bound)
        count = self._checked_nodes(nodes, t, columns=self.d)
        values = on_nodes(self._function(query), d=self.d, nodes=count)
        coefficients = chebyshev_coefficients(values, t)
        if degrees == "auto":
            t = min(_sizes(t), key=lambda s: self._expected(coefficients, values, s))
        kept = coefficients[(slice(t),) * self.d]
        return Estimate(
            estimate=float((kept * self.averages[(slice(t),) * self.d]).sum()),
            stderr=self._stderr(kept),
            truncation=_gap(kept, values),
            truncation_bound=None if bound is None else self._proven(t, nodes=count, bound=bound),
            offset=float(kept[(0,) * self.d]),
            rows_error=self.rows_stddev / self.rows,
            range=(float(values.min()), float(values.max())),
        )

    def answered(
        self,
        question: Any,
        measurements: Sequence[Measurements] = (),  # noqa: ARG002
        **options: Any,
    ) -> Answered:
        """Answer a question in the form of every release; see `Release.answer`, and `answer` for the options.

        Questions are functions of points, `synthdp.smooth`, and `synthdp.count` of all rows. `synthdp.mean`,
        `synthdp.sum` and `synthdp.variance` over all rows are answered for number columns without missing values.
        """
        if isinstance(question, Smooth | SeparableQueries) or not isinstance(question, Question):
            found = self.answer(question, **options)
            several = np.ndim(found.estimate) > 0
            return found.answers({"query": list(range(len(np.atleast_1d(found.estimate))))} if several else {})
        whole = getattr(question, "where", None) is None and not getattr(question, "by", ())
        if getattr(question, "weight", None) is None and whole:
            if isinstance(question, Count):
                return Estimate(estimate=self.rows, stderr=self.rows_stddev, range=(0.0, math.inf)).answers()
            if isinstance(question, Mean | Sum | Variance):
                return self._moment(question).answers()
        raise ParameterError(
            "a summary of smooth queries answers sd.smooth, and sd.count, sd.mean, sd.sum and sd.variance of all "
            "rows only: for other questions, release a synthetic table"
        )

    def _moment(self, question: Mean | Sum | Variance) -> Estimate:
        """Return the mean or the sum of a column from its degree-1 average, or its variance from a quadratic query.

        ``truncation`` covers the width of the cells on which values were read.
        """
        place, lower, upper = self._numbers(question.column)
        half = (upper - lower) / 2
        first = self.averages[tuple(int(j == place) for j in range(self.d))] if self.degrees > 1 else 0.0
        t = self.rows_stddev / self.rows
        read = half / self.cells  # a value is read as that of its cell
        if isinstance(question, Mean):
            return Estimate(
                estimate=lower + half * (1 + first), stderr=half * math.hypot(self.stddev, first * t), truncation=read,
                offset=lower + half, rows_error=t, range=(lower, upper),
            )  # fmt: skip
        if isinstance(question, Sum):
            return Estimate(
                estimate=self.rows * (lower + half * (1 + first)), truncation=self.rows * read,
                stderr=math.hypot(self.rows * half * self.stddev, (lower + half) * self.rows_stddev),
            )  # fmt: skip
        around = self.answer(lambda points: half**2 * (points[:, place] - first) ** 2)
        return replace(around, range=(0.0, half**2), truncation=float(around.truncation) + 2 * half * read)

    def _numbers(self, name: str) -> tuple[int, float, float]:
        """Return a column's position and bounds; raise ParameterError if the summary has no mean of it."""
        if name not in self.names:
            raise ParameterError(f"column {name!r} must be a column of this summary: {', '.join(self.names)}")
        column = None if self.schema is None else self.schema[name]
        if column is None:
            raise ParameterError(
                "this summary was saved by an older version, without the bounds of its columns: query it with "
                "sd.smooth instead"
            )
        if column.quantity != "number" or grid_of(column).releasable > grid_of(column).regular:
            raise ParameterError(
                f"column {name!r} has no mean in this summary: name a numeric column that is not nullable and has "
                "no special values"
            )
        lower, upper = bounds_of(column)
        return self.names.index(name), float(lower), float(upper)

    def _function(self, query: object) -> Query:
        """Return a query as a function of points with all columns of the summary.

        Raise ParameterError if the query is no function, or about columns without averages.
        """
        if isinstance(query, Smooth):
            names, function = query.columns or self.names, query.function
            missing = [name for name in names if name not in self.names]
            if missing:
                raise ParameterError(f"column {missing[0]!r} must be a column of this summary: {', '.join(self.names)}")
            places = [self.names.index(name) for name in names]
            return lambda points: function(points[:, places])
        if not callable(query):
            raise ParameterError(
                f"a summary of smooth queries answers functions of points in [-1, 1]^{self.d} and GaussianKernels "
                f"only, not a {type(query).__name__}: for other queries, release a synthetic table"
            )
        return query

    def _expected(self, coefficients: FloatArray, values: FloatArray, t: int) -> float:
        """Return the expected error of an answer with t degrees, truncation plus noise, which ``"auto"`` minimises."""
        kept = coefficients[(slice(t),) * self.d]
        return _gap(kept, values) + self._stderr(kept)

    def _proven(self, t: int, *, nodes: int, bound: float) -> float:
        """Return a proven bound on the error of an answer with t degrees, without noise: truncation plus rounding.

        Rounding comes from rows that are read as the middles of their cells, 1 / cells from their values at most.

        Parameters
        ----------
        t
            Degrees used per column.
        nodes
            Points per column at which the query is evaluated for its coefficients.
        bound
            Bound on the query's derivatives up to order K.
        """
        rounding = self.d * bound / self.cells
        return truncation_bound(t, d=self.d, smoothness=self.smoothness, bound=bound, nodes=nodes) + rounding

    def _stderr(self, kept: FloatArray) -> float:
        """Return the standard error of an answer from its coefficients: noise of averages, and of the number of rows.

        The number of rows enters by the delta method.
        """
        corner = (0,) * self.d
        largest = np.indices(kept.shape).max(axis=0)
        squares = (kept * growing(len(kept), self.growth)[largest]) ** 2
        noisy = float(squares.sum() - squares[corner])
        moved = float((kept * self.averages[tuple(slice(n) for n in kept.shape)]).sum() - kept[corner])
        return math.sqrt(max(noisy, 0.0) * self.stddev**2 + (moved * self.rows_stddev / self.rows) ** 2)

    def _separable(self, queries: SeparableQueries, *, t: int, nodes: int, bound: float | None) -> Estimate:
        """Return the answers to queries that are products of functions of one column, in blocks of bounded memory.

        ``t``, ``nodes`` and ``bound`` are parameters of `_proven`.  Without ``bound`` only Gaussian kernels have a
        proven error.
        """
        if queries.d != self.d:
            raise ParameterError(f"queries must be about {self.d} columns, those of the summary, not {queries.d}")
        terms = queries.weights.shape[1]
        widest = max(nodes, t ** max(1, self.d - 1), terms)
        step = max(1, _NUMBERS_AT_ONCE // (terms * widest))
        blocks = [slice(i, min(i + step, queries.k)) for i in range(0, queries.k, step)]
        parts = [self._separable_block(queries, block, t=t, nodes=nodes) for block in blocks]
        estimate, stderr, truncation, constant = (np.concatenate(part) for part in zip(*parts, strict=True))
        return Estimate(
            estimate=frozen(estimate),
            stderr=frozen(stderr),
            truncation=frozen(truncation),
            truncation_bound=self._proven_separable(queries, t=t, nodes=nodes, bound=bound),
            offset=frozen(constant),
            rows_error=self.rows_stddev / self.rows,
        )

    def _proven_separable(
        self, queries: SeparableQueries, *, t: int, nodes: int, bound: float | None
    ) -> FloatArray | None:
        """Return proven bounds on the errors of separable queries' answers without noise, (k,): truncation and rounding.

        The answers use ``t`` degrees of each column, from ``nodes`` points of each.  ``bound`` is on the queries'
        derivatives up to order K.  Return ``None`` if the queries are no Gaussian kernels and no ``bound`` is given.
        """
        if isinstance(queries, GaussianKernels):
            known = kernel_truncation(queries, t, nodes=nodes, cells=self.cells)
            return frozen(known if bound is None else np.minimum(known, self._proven(t, nodes=nodes, bound=bound)))
        return None if bound is None else frozen(np.full(queries.k, self._proven(t, nodes=nodes, bound=bound)))

    def _separable_block(
        self, queries: SeparableQueries, block: slice, *, t: int, nodes: int
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return estimates, standard errors, truncations and constant terms of one block of queries, (block,) each.

        A constant term has no noise, as the average of degree 0 is exactly 1. A truncation is sum_j |weight_j| (prod_i
        (p_i + e_i) - prod_i p_i). Here p_i is the largest value on the nodes of column i's truncated factor, and e_i its
        largest distance from the factor.
        """
        x = chebyshev_nodes(nodes)
        table = chebyshev_table(x, t)
        weights = queries.weights[block]
        count, terms = weights.shape
        contracted = np.broadcast_to(self.averages[(slice(t),) * self.d].reshape(1, -1), (count * terms, t**self.d))
        factors = []
        constant = np.ones((count, terms))
        top, kept_top = np.ones((count, terms)), np.ones((count, terms))
        for column in range(self.d):
            values = queries.factors(column, x, block)
            coefficients = values @ table * (2 / nodes)
            coefficients[..., 0] /= 2
            reshaped = contracted.reshape(len(contracted), t, -1)
            flat = coefficients.reshape(count * terms, t)
            contracted = np.matmul(flat[:, None, :], reshaped)[:, 0, :]
            factors.append(coefficients)
            constant *= coefficients[..., 0]
            kept = coefficients @ table.T
            size = np.abs(kept).max(axis=2)
            kept_top *= size
            top *= size + np.abs(values - kept).max(axis=2)
        estimate = (contracted.reshape(count, terms) * weights).sum(axis=1)
        mean = (constant * weights).sum(axis=1)
        norm = self._noisy_norm(factors, weights) - mean**2
        moved = (estimate - mean) * (self.rows_stddev / self.rows)
        stderr = np.sqrt(np.maximum(norm, 0.0) * self.stddev**2 + moved**2)
        return estimate, stderr, (np.abs(weights) * (top - kept_top)).sum(axis=1), mean

    def _noisy_norm(self, factors: Sequence[FloatArray], weights: FloatArray) -> FloatArray:
        """Return the squared norm of each query's coefficients, (queries,), each coefficient times its noise's growth.

        The norm gives the noise of the answers.  A query is a weighted sum of products (terms) of one factor a column.
        Growth by the largest degree is a mixture of boxes of degrees, and in each box the sum factorises over columns.

        Parameters
        ----------
        factors
            For each column, the (queries, terms, t) coefficients of the factors at degrees 0 to t - 1.
        weights
            (queries, terms) weights of the products.
        """
        t = factors[0].shape[2]
        grown = growing(t, self.growth) ** 2
        norm = np.zeros(len(weights))
        for size in range(1, t + 1):
            share = grown[size - 1] - grown[size] if size < t else grown[-1]
            if share:
                gram = math.prod(c[:, :, :size] @ c[:, :, :size].transpose(0, 2, 1) for c in factors)
                norm += share * np.einsum("qi,qij,qj->q", weights, gram, weights)
        return norm

    def _checked_degrees(self, degrees: int | str | None) -> int:
        """Return the number of degrees to use, all for ``None`` and "auto"; ParameterError if the summary has fewer."""
        if degrees is None or degrees == "auto":
            return self.degrees
        if isinstance(degrees, str) or not 1 <= whole("degrees", degrees) <= self.degrees:
            raise ParameterError(f"degrees ({degrees!r}) must be 'auto' or a whole number from 1 to {self.degrees}")
        return degrees

    def _checked_nodes(self, nodes: int | None, t: int, *, columns: int) -> int:
        """Return the number of nodes per column; raise ParameterError for too few, or too many over all columns."""
        count = max(2 * t, round(_LEAST_NODES ** (1 / columns))) if nodes is None else whole("nodes", nodes)
        if count < 2 * t:
            raise ParameterError(f"nodes ({count}) must be at least {2 * t}, twice the number of degrees")
        if count**columns > MAX_NODES:
            fewer = "degrees" if nodes is None else "nodes"
            raise ParameterError(
                f"nodes ({count}) over {columns} columns give more than {MAX_NODES} points: "
                f"give fewer {fewer}, or SeparableQueries"
            )
        return count


def chebyshev_nodes(nodes: int) -> FloatArray:
    """Return the N Gauss-Chebyshev nodes cos((k + 1/2) π / N) at which queries are evaluated, (N,), descending."""
    return np.asarray(np.cos((np.arange(nodes) + 0.5) * np.pi / nodes))


def on_nodes(query: Query, *, d: int, nodes: int) -> FloatArray:
    """Return the values of a query on the product of Gauss-Chebyshev nodes, (N, ..., N).

    Raises
    ------
    ParameterError
        If the query does not return finite values of shape (m,).
    """
    axis, shape = chebyshev_nodes(nodes), (nodes,) * d
    values = np.empty(nodes**d)
    for start in range(0, values.size, _POINTS_AT_ONCE):
        flat = np.arange(start, min(start + _POINTS_AT_ONCE, values.size))
        points = np.stack([axis[index] for index in np.unravel_index(flat, shape)], axis=1)
        found = np.asarray(query(points), np.float64)
        if found.shape != (flat.size,) or not np.isfinite(found).all():
            raise ParameterError(
                f"the query must return an (m,) array of finite numbers for an (m, {d}) array of points in [-1, 1]^{d}"
            )
        values[flat] = found
    return values.reshape(shape)


def chebyshev_coefficients(values: FloatArray, t: int) -> FloatArray:
    """Return the coefficients of degree below t of a function given on Gauss-Chebyshev nodes, (t, ..., t).

    The coefficients are a type-II cosine transform divided by N^d, with the coefficients of degree 0 halved in every
    column.
    """
    transformed = np.asarray(dctn(values, type=2))
    kept = transformed[(slice(t),) * values.ndim] / values.size
    for axis in range(values.ndim):
        kept[(slice(None),) * axis + (0,)] /= 2
    return kept


def _gap(kept: FloatArray, values: FloatArray) -> float:
    """Return the largest distance on the nodes between a function and its truncated series, an answer's truncation.

    ``values`` are the function's values on the nodes, and ``kept`` the coefficients that the series keeps, see
    `chebyshev_coefficients`.
    """
    padded = np.zeros(values.shape)
    padded[tuple(slice(n) for n in kept.shape)] = kept
    for axis in range(values.ndim):
        padded[(slice(None),) * axis + (0,)] *= 2
    return float(np.abs(idctn(padded * values.size, type=2) - values).max())


def _sizes(t: int) -> list[int]:
    """Return the numbers of degrees that ``"auto"`` tries, descending: steps of a tenth above 32, all below.

    Not all are tried, because each takes a transform of the query's values.
    """
    sizes = [t]
    while sizes[-1] > 1:
        sizes.append(min(sizes[-1] - 1, max(32, math.ceil(sizes[-1] * 0.9))) if sizes[-1] > 32 else sizes[-1] - 1)
    return sizes
