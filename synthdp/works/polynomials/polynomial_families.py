"""Families of functions with polynomials of low degree, for the general algorithm (Thaler, Ullman, Vadhan 2012).

In a family F_Q each row x is a function f_x of the query, near a polynomial in the query. The rows' coefficients are
one statistic, and a query is answered by its monomials. Marginals, r-of-k and decision lists are such families, and so
is any table of functions. Public arithmetic only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from synthdp.arrays import Codes, Features, FloatArray, IntArray, Totals, frozen
from synthdp.checks import check_number, check_whole, whole
from synthdp.codec import file_form
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError
from synthdp.queries.linear import CellQueries, LinearFamily
from synthdp.queries.norms import Norms, RecordBounds
from synthdp.queries.protocol import LinearQueries, check_overflow
from synthdp.works.polynomials.binarized import Binarized, symmetric_query
from synthdp.works.polynomials.list_coefficients import ListStatistic
from synthdp.works.polynomials.literal_queries import SymmetricQuery
from synthdp.works.polynomials.parities import Parities, all_ones_counts
from synthdp.works.polynomials.polynomials import (
    best_coefficients,
    krawtchouk,
    level_sizes,
    optimal_coefficients,
    ranks,
    subsets_of,
)


@file_form("AverageConjunctions")
@dataclass(frozen=True, slots=True, eq=False)
class AverageConjunctions(LinearFamily):
    """Sums over rows of the coefficients of f_x on the p-biased characters of at most t bits.

    The function f_x(y) is 1 if row x has every bit of the query y, and 0 otherwise. With phi(y_j) = (y_j - p) / sqrt(p
    (1 - p)), a set S of zeros of a row with z zeros has the coefficient (1 - p)^(z - |S|) (-sqrt(p (1 - p)))^|S|; other
    sets have 0. The squares of all coefficients sum to (1 - p)^z.

    Parameters
    ----------
    bits
        The d bits.
    order
        t, the largest size of a set.
    chance
        p, the probability that a random query contains a bit; 0 < p < 1.
    denominator
        The whole number that stands for 1.
    """

    bits: Binarized
    order: int
    chance: float
    denominator: int = 2**16
    whole: IntArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_whole("order", self.order, most=self.bits.d)
        check_number("chance", self.chance, above=0, below=1)
        object.__setattr__(self, "denominator", whole("denominator", self.denominator, least=1, most=2**24))
        z, size = np.arange(self.bits.d + 1)[:, None], np.arange(self.order + 1)[None]
        value = (1 - self.chance) ** np.maximum(z - size, 0) * (-math.sqrt(self.chance * (1 - self.chance))) ** size
        rounded = np.rint(self.denominator * np.where(size <= z, value, 0.0)).astype(np.int64)
        object.__setattr__(self, "whole", frozen(rounded))
        check_overflow(self)

    @property
    def domain(self) -> Domain:
        """Return the columns that are read, and their cells."""
        return self.bits.domain

    @property
    def k(self) -> int:
        """Return the number of coefficients."""
        return sum(level_sizes(self.bits.d, self.order))

    @property
    def bounds(self) -> RecordBounds:
        """Return the sensitivity: exact maxima over the number of zeros for one row, and bounds for a replaced row.

        All coefficients of a set have one sign. So a difference of two rows' coefficients is no larger than the larger
        one, and its square no larger than the sum of both squares.
        """
        norms = [self._norms(zeros) for zeros in range(self.bits.d + 1)]
        l1, l2_squared = max(one.l1 for one in norms), max(one.l2_squared for one in norms)
        linf = max(one.linf for one in norms)
        single = Norms.within(self.k, linf, l1=l1, l2_squared=l2_squared)
        return RecordBounds(single, Norms.within(self.k, linf, l1=2 * l1, l2_squared=2 * l2_squared))

    def features(self, codes: Codes) -> Features:
        """Return each row's coefficients of f_x on the p-biased characters, (n, k), times `denominator` and rounded.

        The function f_x(y) says whether row x has every bit of the query y.
        """
        zero = ~self.bits.matrix(codes)
        zeros = zero.sum(axis=1)
        levels = [
            zero[:, subsets_of(self.bits.d, level)].all(axis=2) * self.whole[zeros, level][:, None]
            for level in range(self.order + 1)
        ]
        return np.concatenate(levels, axis=1).astype(np.int64)

    def sums(self, codes: Codes) -> Totals:
        """Return the sums of `features` over rows, (k,), by counts among the rows with each number of zeros.

        Rows with equally many zeros have equal coefficients on sets of zeros of one size.
        """
        columns = [~column for column in self.bits.columns(codes)]
        zeros = np.sum(columns, axis=0)
        total = np.zeros(self.k, np.int64)
        for z in np.unique(zeros).tolist():
            chosen = zeros == z
            counts = all_ones_counts([column[chosen] for column in columns], order=self.order)
            total += np.concatenate([count * self.whole[z, level] for level, count in enumerate(counts)])
        return total

    def missing(self, zeros: int) -> float:
        """Return E_y (f_x - p_x)^2, the mean squared error over random queries y of a row's polynomial p_x.

        The row x has ``zeros`` zeros.  The error is the sum of the squared coefficients that p_x leaves out.
        """
        p, high = self.chance, range(self.order + 1, zeros + 1)
        return float(sum(math.comb(zeros, i) * (1 - p) ** (2 * zeros - i) * p**i for i in high))

    def _norms(self, zeros: int) -> Norms:
        """Return the norms of the whole-number coefficients of a row with ``zeros`` zeros, to bound the sensitivity."""
        sizes = [math.comb(zeros, i) for i in range(self.order + 1)]
        value = [abs(int(one)) for one in self.whole[zeros]]
        return Norms(
            sum(size * v for size, v in zip(sizes, value, strict=True)),
            sum(size * v * v for size, v in zip(sizes, value, strict=True)),
            max(v for size, v in zip(sizes, value, strict=True) if size),
        )


MAX_INPUTS = 12
"""Most inputs of tabulated functions, whose 2^m values are listed and fitted by a linear program. A safety limit."""

MAX_COEFFICIENTS = 5_000_000
"""Most coefficients of one release. A safety limit of memory: 40 MB of 64-bit sums."""

Inputs: TypeAlias = Mapping[str, object]
"""An input as a mapping from each variable's name to true or false."""


@runtime_checkable
class PolynomialFamily(Protocol):
    """Functions f_x of a query, one for each row x, and a polynomial near each function."""

    @property
    def statistic(self) -> LinearQueries:
        """Return the statistic that sums the coefficients of the rows' polynomials."""
        ...

    @property
    def constant(self) -> float:
        """Return the public constant that is added to every polynomial, without cost."""
        ...

    @property
    def error(self) -> float:
        """Return gamma, the largest distance of a polynomial from its function; see `proven`."""
        ...

    def error_of(self, query: Any) -> float:
        """Return gamma for one query: the largest distance, over rows, of their polynomials from their functions at it."""
        ...

    @property
    def proven(self) -> bool:
        """Return whether ``error_of`` is a bound; otherwise it is a root mean square over queries."""
        ...

    def range_of(self, query: Any) -> tuple[float, float]:
        """Return the least and the largest value that a row's function can have at a query."""
        ...

    def monomials(self, query: Any) -> FloatArray:
        """Return the value of every monomial at a query, (k,): the factors of the rows' summed coefficients.

        Raises
        ------
        ParameterError
            If the query is not one of the family.
        """
        ...


class _Family:
    """Defaults of most families: no constant, and one ``error`` that bounds every query."""

    __slots__ = ()

    @property
    def constant(self) -> float:
        """Return 0: the polynomials approximate the functions themselves."""
        return 0.0

    @property
    def proven(self) -> bool:
        """Return true: ``error_of`` is a bound for every row and query."""
        return True

    def error_of(self: PolynomialFamily, query: Any) -> float:  # noqa: ARG002 - most families have one error
        """Return the family's error, which bounds every query."""
        return self.error

    def range_of(self, query: Any) -> tuple[float, float]:  # noqa: ARG002
        """Return 0 and 1: the functions are yes-no functions, or fractions."""
        return 0.0, 1.0


@file_form("TabulatedFamily")
@dataclass(frozen=True, slots=True, eq=False)
class TabulatedFamily(_Family):
    """Any functions of m yes-no inputs, one for each cell of a small domain.

    A linear program finds the best polynomial of degree t on the 2^m inputs for each function.

    Parameters
    ----------
    domain
        The cells, in C order.
    variables
        Names of the m inputs.
    functions
        (cells, 2^m) values in [0, 1]; bit j of an input's number is variable j.
    order
        t, the degree of the polynomials.
    denominator
        The whole number that stands for 1 in a coefficient.

    Examples
    --------
    >>> import numpy as np
    >>> import synthdp as sd
    >>> domain = sd.domain_of(sd.Schema({"color": sd.Categorical(["red", "blue"])}))
    >>> both, any_of_them, misfit = [0, 0, 0, 1], [0, 1, 1, 1], [0, 0, 0, 0]
    >>> functions = np.array([both, any_of_them, misfit])  # red says "both inputs", blue "one of them"
    >>> sd.TabulatedFamily(domain, ("left", "right"), functions, order=1).error
    0.25
    """

    domain: Domain
    variables: tuple[str, ...]
    functions: FloatArray
    order: int
    denominator: int = 2**16
    statistic: CellQueries = field(init=False, repr=False)
    error: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "variables", tuple(self.variables))
        m = len(self.variables)
        check_whole("number of variables", m, most=MAX_INPUTS)
        check_whole("order", self.order, most=m)
        check_number("denominator", self.denominator, least=1, most=2**24)
        functions = np.array(self.functions, np.float64)
        if functions.shape != (self.domain.cells, 2**m):
            raise ParameterError(
                f"functions must be an array of shape ({self.domain.cells}, {2**m}), one row per cell and one "
                "column per assignment of variables"
            )
        if not ((functions >= 0) & (functions <= 1)).all():
            raise ParameterError("functions must have values from 0 to 1")
        object.__setattr__(self, "functions", frozen(functions))
        parities = _all_parities(m, self.order)
        different, cells = np.unique(functions, axis=0, return_inverse=True)
        if self.order == m:
            best = different @ parities / 2**m
        else:
            best = np.array([best_coefficients(parities, one).values for one in different])
        whole = np.rint(best * self.denominator).astype(np.int64)
        off = np.abs(whole / self.denominator @ parities.T - different).max()
        object.__setattr__(self, "statistic", CellQueries(self.domain, whole[cells.ravel()].T, self.denominator))
        object.__setattr__(self, "error", float(off))

    def monomials(self, query: Inputs) -> FloatArray:
        """Return the parities of at most t inputs at a query, (k,), a true input as -1: the coefficients' factors."""
        return input_parities(query, self.variables, self.order)


@file_form("SymmetricFamily")
@dataclass(frozen=True, slots=True, eq=False)
class SymmetricFamily(_Family):
    """Conjunctions, disjunctions, r-of-k and all symmetric functions of at most ``width`` literals, by parities.

    Parameters
    ----------
    bits
        The d bits of a row.
    order
        t, the largest number of bits in a parity.
    width
        Most literals of a query.
    """

    bits: Binarized
    order: int
    width: int
    statistic: Parities = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_whole("width", self.width, least=1, most=self.bits.d)
        object.__setattr__(self, "statistic", Parities(self.bits, (1,) * (self.order + 1)))

    @property
    def error(self) -> float:
        """Return the largest error, over r, of the best polynomials for r-of-k queries with ``width`` literals.

        Other symmetric queries, such as `exactly_r`, can have a larger error; see `error_of`.
        """
        values = [(0.0,) * r + (1.0,) * (self.width + 1 - r) for r in range(1, self.width + 1)]
        return max(self._polynomial(one)[1] for one in values)

    def error_of(self, query: SymmetricQuery) -> float:
        """Return the error of the query's own best polynomial, over all truth values of its literals."""
        return self._polynomial(symmetric_query(query).values)[1]

    def range_of(self, query: SymmetricQuery) -> tuple[float, float]:
        """Return the least and the largest value of the query's function of the number of true literals."""
        values = symmetric_query(query).values
        return min(values), max(values)

    def monomials(self, query: SymmetricQuery) -> FloatArray:
        """Return the coefficients of the query's best polynomial on the parities, (k,), most of them 0.

        The answer is their inner product with the noisy sums of the parities, over the number of rows.
        """
        query = symmetric_query(query)
        if query.k > self.width:
            raise ParameterError(
                f"the query has {query.k} literals, and this release answers queries of at most {self.width}: give "
                "fewer literals"
            )
        bits, signs = self.bits.find(query)
        levels = [np.zeros(size) for size in level_sizes(self.bits.d, self.order)]
        for level, b in enumerate(self._polynomial(query.values)[0][: query.k + 1]):
            chosen = subsets_of(query.k, level)
            levels[level][ranks(np.sort(bits[chosen], axis=1), self.bits.d)] = b * signs[chosen].prod(axis=1)
        return np.concatenate(levels)

    def _polynomial(self, values: tuple[float, ...]) -> tuple[FloatArray, float]:
        """Return the Fourier coefficients by degree of the best approximation of a symmetric function, and its error.

        There are at most t + 1 coefficients; the error is the largest over the numbers of true literals.
        """
        order = min(self.order, len(values) - 1)
        found = optimal_coefficients(values, order, (0.0,) * (order + 1))
        return found.values, found.error


@file_form("ListFamily")
@dataclass(frozen=True, slots=True, eq=False)
class ListFamily(_Family):
    """Decision lists as rows, and inputs as queries: the fraction of lists that say yes.

    Parameters
    ----------
    variables
        Names of the inputs.
    statistic
        The coefficients, as `DecisionListRelease` plans them, without the number of rows.
    error
        Bound on the distance of a list's polynomial from the list.
    """

    variables: tuple[str, ...]
    statistic: ListStatistic
    error: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "variables", tuple(self.variables))
        if self.statistic.row_scale or self.statistic.m != len(self.variables):
            raise ParameterError(
                f"statistic must have m={len(self.variables)}, the number of variables, and row_scale=0"
            )

    @property
    def constant(self) -> float:
        """Return 1/2, because the polynomials approximate list(y) - 1/2."""
        return 0.5

    def monomials(self, query: Inputs) -> FloatArray:
        """Return the parities of an input, (k,), each divided by the scale of its coefficient."""
        scales = np.repeat(np.array(self.statistic.scales, np.float64), self.statistic.sizes)
        return input_parities(query, self.variables, self.statistic.order) / scales


@file_form("AverageFamily")
@dataclass(frozen=True, slots=True, eq=False)
class AverageFamily(_Family):
    """Monotone conjunctions "all bits of S are 1", accurate on average over S; the learners' approach, as a baseline.

    Parameters
    ----------
    bits
        The d bits of a row.
    order
        t, the largest size of a set.
    width
        The average number of bits of a query. A random query contains each bit with probability width / d,
        independently.
    """

    bits: Binarized
    order: int
    width: float
    statistic: AverageConjunctions = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_number("width", self.width, above=0, below=self.bits.d)
        object.__setattr__(self, "statistic", AverageConjunctions(self.bits, self.order, self.width / self.bits.d))

    @property
    def error(self) -> float:
        """Return the largest root mean square error over queries, of any row's polynomial."""
        return max(math.sqrt(self.statistic.missing(zeros)) for zeros in range(self.bits.d + 1))

    @property
    def proven(self) -> bool:
        """Return false: the error of a single query may exceed the root mean square."""
        return False

    def monomials(self, query: SymmetricQuery) -> FloatArray:
        """Return the p-biased characters at the query's set of bits that must be 1, (k,): the coefficients' factors."""
        query = symmetric_query(query)
        bits, signs = self.bits.find(query)
        if query.values != (0.0,) * query.k + (1.0,) or (signs < 0).any():
            raise ParameterError("this release answers conjunctions only, in which every literal has the value 1")
        chance = self.statistic.chance
        inside = np.isin(np.arange(self.bits.d), bits)
        phi = np.where(inside, 1.0 - chance, -chance) / math.sqrt(chance * (1 - chance))
        return _products(phi, self.order)


def input_parities(query: Inputs, variables: Sequence[str], order: int) -> FloatArray:
    """Return all parities of at most ``order`` inputs, (k,), by size and then in lexicographic order.

    A true input counts -1, and the first parity, of no input, is 1. They are the factors of the coefficients of the
    rows' polynomials, in the same order.

    Raises
    ------
    ParameterError
        If the query is no mapping, or a variable is missing.
    """
    if not isinstance(query, Mapping):
        raise ParameterError(
            "this release answers inputs only: give a mapping with a value for every variable, not "
            f"{type(query).__name__}"
        )
    missing = [name for name in variables if name not in query]
    if missing:
        raise ParameterError(f"the input has no value for variable {missing[0]!r}: give a value for every variable")
    return _products(np.array([-1.0 if query[name] else 1.0 for name in variables]), order)


def _products(values: FloatArray, order: int) -> FloatArray:
    """Return the products over all sets of at most ``order`` of d numbers, (k,), by size, then in lexicographic order.

    Parities are such products of signs; the first product is 1.
    """
    levels = [values[subsets_of(len(values), size)].prod(axis=1) for size in range(order + 1)]
    return np.concatenate(levels)


def _all_parities(m: int, order: int) -> FloatArray:
    """Return the parities of at most ``order`` of m variables on all 2^m inputs, (2^m, k), to fit polynomials there."""
    signs = 1.0 - 2.0 * ((np.arange(2**m)[:, None] >> np.arange(m)) & 1)
    return np.array([_products(one, order) for one in signs])


def symmetric_degree(values: tuple[float, ...], *, error: float) -> int:
    """Return the least degree at which some polynomial is within ``error`` of a symmetric function of k bits.

    Parameters
    ----------
    values
        (k + 1,) the function by the number of true bits.
    error
        gamma, the largest error of the polynomial, above 0.
    """
    check_number("error", error, above=0)
    k = len(values) - 1
    degrees = range(k)
    # the linear program meets an error up to its own rounding only
    found = (d for d in degrees if np.abs(_best(values, d) - values).max() <= error + 1e-9)
    return next(found, k)


def _best(values: tuple[float, ...], degree: int) -> FloatArray:
    """Return the values of the best approximation of a symmetric function by a polynomial of this degree, (k + 1,).

    Values are by the number of true bits.
    """
    found = optimal_coefficients(values, degree, (0.0,) * (degree + 1)).values
    return np.asarray(krawtchouk(len(values) - 1, degree) @ found, np.float64)
