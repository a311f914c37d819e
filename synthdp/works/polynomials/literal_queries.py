"""Queries about a few literals of a row: conjunctions, r-of-k, any symmetric function, and submodular functions.

A literal is a column and the value that it should have. `binarized` finds the bits of literals; a mechanism answers the
queries.  Submodular functions have diminishing returns: weighted sums of concave functions of the number of true literals
in a block, such as coverage ("does the row have any of these?") and caps ("how many of these, at most three").  A
mechanism that releases parities answers them, block by block.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from synthdp.checks import check_whole
from synthdp.errors import ParameterError
from synthdp.mechanisms.estimate import Estimate
from synthdp.schema.columns import Level
from synthdp.works.polynomials.polynomials import NOISE_WEIGHT, optimal_coefficients

if TYPE_CHECKING:
    from synthdp.works.polynomials.parity_summary import ParitySummary


Literals: TypeAlias = Mapping[str, Level | None]
"""Literals as a mapping from a column's name to the value that makes its literal true."""

MAX_LITERALS = 1000
"""Most literals of one query. A safety limit of time: a linear program over the numbers of true literals answers it."""


@dataclass(frozen=True, slots=True)
class SymmetricQuery:
    """The average over rows of a function of the number of true literals.

    Parameters
    ----------
    literals
        (column, value) pairs of k different columns; a literal is true where the column has the value.
    values
        (k + 1,) finite values of the function when 0, 1, ..., k literals are true.
    """

    literals: tuple[tuple[str, Level | None], ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "literals", tuple((str(name), value) for name, value in self.literals))
        object.__setattr__(self, "values", tuple(float(value) for value in self.values))
        names = [name for name, _ in self.literals]
        if not 1 <= self.k <= MAX_LITERALS or len(set(names)) < self.k:
            raise ParameterError(f"literals ({self.k}) must name 1 to {MAX_LITERALS} different columns")
        if len(self.values) != self.k + 1 or not all(math.isfinite(value) for value in self.values):
            raise ParameterError(
                f"values must be {self.k + 1} finite numbers, one for each number of true literals from 0 to {self.k}"
            )

    @property
    def k(self) -> int:
        """Return the number of literals."""
        return len(self.literals)


def conjunction(literals: Literals) -> SymmetricQuery:
    """Return the query for the fraction of rows where every literal is true.

    >>> conjunction({"smoker": 1, "male": 0}).values
    (0.0, 0.0, 1.0)
    """
    return r_of_k(literals, r=len(literals))


def disjunction(literals: Literals) -> SymmetricQuery:
    """Return the query for the fraction of rows where at least one literal is true.

    Examples
    --------
    >>> import synthdp as sd
    >>> sd.disjunction({"smoker": 1, "diabetic": 1}).values  # by how many of the two are true
    (0.0, 1.0, 1.0)
    """
    return r_of_k(literals, r=1)


def r_of_k(literals: Literals, *, r: int) -> SymmetricQuery:
    """Return the query for the fraction of rows where at least ``r`` literals are true.

    Raises
    ------
    ParameterError
        If ``r`` is not a whole number from 0 to the number of literals.

    Examples
    --------
    >>> import synthdp as sd
    >>> sd.r_of_k({"a": 1, "b": 1, "c": 0}, r=2).values
    (0.0, 0.0, 1.0, 1.0)
    """
    _check_count(r, literals)
    return symmetric(literals, lambda true: float(true >= r))


def exactly_r(literals: Literals, *, r: int) -> SymmetricQuery:
    """Return the query for the fraction of rows where exactly ``r`` literals are true.

    Raises
    ------
    ParameterError
        If ``r`` is not a whole number from 0 to the number of literals.

    Examples
    --------
    >>> import synthdp as sd
    >>> sd.exactly_r({"a": 1, "b": 1, "c": 0}, r=2).values
    (0.0, 0.0, 1.0, 0.0)
    """
    _check_count(r, literals)
    return symmetric(literals, lambda true: float(true == r))


def symmetric(literals: Literals, function: Callable[[int], float] | Sequence[float]) -> SymmetricQuery:
    """Return the query for the average of a function of the number of true literals.

    The function is a callable, or a list of its k + 1 values.
    """
    values = [function(true) for true in range(len(literals) + 1)] if callable(function) else list(function)
    return SymmetricQuery(tuple(literals.items()), tuple(values))


def _check_count(r: int, literals: Literals) -> None:
    """Raise ParameterError unless r is a whole number from 0 to the number of literals."""
    check_whole("r", r, least=0, most=len(literals))


_SLACK = 1e-12
"""Rounding error, as a fraction of the largest step, by which values may fail to be concave. A numerical tolerance."""


@dataclass(frozen=True, slots=True)
class SubmodularQuery:
    """The average over rows of sum_u weights[u] g_u(number of true literals of block u), every g_u concave.

    As a function of the set of true literals it is submodular. Concave functions of a set's size are submodular, and so
    are their sums with non-negative weights (Lovász 1983).

    Parameters
    ----------
    blocks
        Symmetric queries with concave values.  A column has the same wanted value in all of them.
    weights
        A number for each block, >= 0.

    Raises
    ------
    ParameterError
        If a block's values are not concave, a weight is negative, or two blocks want different values of a column.
    """

    blocks: tuple[SymmetricQuery, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", tuple(self.blocks))
        object.__setattr__(self, "weights", tuple(float(weight) for weight in self.weights))
        if not self.blocks or len(self.weights) != len(self.blocks):
            raise ParameterError(
                f"weights must hold one number for each of the {len(self.blocks)} sets, not {len(self.weights)} numbers"
            )
        if not all(math.isfinite(weight) and weight >= 0 for weight in self.weights):
            raise ParameterError("weights must be finite numbers of at least 0")
        wanted: dict[str, Level | None] = {}
        for block in self.blocks:
            _check_concave(block.values)
            for name, value in block.literals:
                if wanted.setdefault(name, value) != value:
                    raise ParameterError(f"column {name!r} must have the same value in all of sets")

    @property
    def width(self) -> int:
        """Return the number of literals of the largest block: the ``width`` that a `ParityRelease` should plan for."""
        return max(block.k for block in self.blocks)


def coverage(sets: Sequence[Literals], weights: Sequence[float] | None = None) -> SubmodularQuery:
    """Return the query for the average weight of the sets with at least one true literal.

    Parameters
    ----------
    sets
        The literals of each set.
    weights
        A number for each set, >= 0; default: equal, with sum 1.

    Examples
    --------
    >>> import synthdp as sd
    >>> sd.coverage([{"smoker": 1, "diabetic": 1}, {"smoker": 1, "male": 0}]).weights
    (0.5, 0.5)
    """
    return concave_sum(sets, lambda true: float(true >= 1), weights)


def capped(literals: Literals, *, cap: int) -> SubmodularQuery:
    """Return the query for the average of min(number of true literals, cap) / cap.

    Raises
    ------
    ParameterError
        If ``cap`` is not a whole number from 1 to the number of literals.

    Examples
    --------
    >>> import synthdp as sd
    >>> sd.capped({"a": 1, "b": 1, "c": 1}, cap=2).blocks[0].values
    (0.0, 0.5, 1.0, 1.0)
    """
    check_whole("cap", cap, most=len(literals))
    return concave_sum([literals], lambda true: min(true, cap) / cap)


def concave_sum(
    sets: Sequence[Literals], function: Callable[[int], float], weights: Sequence[float] | None = None
) -> SubmodularQuery:
    """Return the query for the average of a weighted sum of one concave function of each set's number of true literals.

    Parameters
    ----------
    sets
        The literals of each set.
    function
        From the number of true literals to a value.
    weights
        A number for each set, >= 0; default: equal, with sum 1.

    Examples
    --------
    >>> import math
    >>> import synthdp as sd
    >>> sd.concave_sum([{"a": 1, "b": 1}], math.sqrt).blocks[0].values
    (0.0, 1.0, 1.4142135623730951)
    """
    shares = [1 / max(len(sets), 1)] * len(sets) if weights is None else weights
    return SubmodularQuery(tuple(symmetric(literals, function) for literals in sets), tuple(shares))


def _check_concave(values: Sequence[float]) -> None:
    """Raise ParameterError unless each step between values is at most the step before, up to rounding."""
    steps = [b - a for a, b in pairwise(values)]
    if any(after > before + _SLACK * max(map(abs, steps)) for before, after in pairwise(steps)):
        raise ParameterError(
            "function must be concave: each further true literal of a set must add no more than the one before"
        )


def submodular_average(summary: ParitySummary, query: SubmodularQuery) -> Estimate:
    """Return a submodular query's average over rows, with its standard error and a proven bound on its bias.

    The bias of a sum is at most the weighted sum of its blocks' biases. A parity that several blocks use has one noise,
    so its coefficients are added before they are squared.
    """
    coefficients: defaultdict[tuple[int, ...], float] = defaultdict(float)
    constant = value = bias = low = high = 0.0
    spread: dict[tuple[int, ...], float] = {}
    for block, weight in zip(query.blocks, query.weights, strict=True):
        order = min(summary.order, block.k)
        moments = summary.moments(block, order=order)
        bits, signs = summary.bits.find(block)
        sizes = np.array([math.comb(block.k, i) for i in range(order + 1)], np.float64)
        prices = NOISE_WEIGHT * summary.stddevs[: order + 1] * np.sqrt(sizes) / summary.rows
        prices[0] = 0.0
        b = optimal_coefficients(block.values, order, tuple(prices.tolist()))
        constant += weight * float(b.values[0])
        bias += weight * b.error
        low, high = low + weight * min(block.values), high + weight * max(block.values)
        for places, moment, stddev in zip(moments.sets[1:], moments.values[1:], moments.stddev[1:], strict=True):
            size = weight * float(b.values[len(places)])
            value += size * float(moment) / summary.rows
            parity = tuple(sorted(int(bits[place]) for place in places))
            coefficients[parity] += size * float(np.prod(signs[list(places)]))
            spread[parity] = float(stddev) / summary.rows
    variance = sum((size * spread[parity]) ** 2 for parity, size in coefficients.items())
    variance += (value * float(summary.stddevs[0]) / summary.rows) ** 2
    return Estimate(
        estimate=constant + value,
        stderr=math.sqrt(variance),
        truncation=bias,
        truncation_bound=bias,
        offset=constant,
        rows_error=float(summary.stddevs[0]) / summary.rows,
        range=(low, high),
    )


@lru_cache(maxsize=1024)
def submodular_error(k: int, order: int) -> float:
    """Return the largest bias, at parities of at most ``order`` bits, over a class of submodular queries.

    The class contains sums, with total weight at most 1, of functions g of at most k literals.  Each g is concave and
    non-decreasing, from 0 to at most 1. Such a g is a mixture of 0 and the caps min(s, c) / c, c = 1 ... k. The
    distance from the polynomials of a degree is convex, so the worst g is a cap; on fewer literals it is no worse.
    """
    check_whole("k", k)
    check_whole("order", order)
    free = (0.0,) * (order + 1)
    caps = (tuple(min(true, cap) / cap for true in range(k + 1)) for cap in range(1, k + 1))
    return max(optimal_coefficients(values, order, free).error for values in caps)
