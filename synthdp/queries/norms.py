"""How far one record moves a vector of whole numbers: exact bounds, in Python integers, that check themselves.

Every family of queries states its sensitivity in these.  Sums of squares of 64-bit numbers easily overflow 64 bits, and
a sensitivity that has wrapped around is wrong: a fixed number of bits is used only where the result is known to fit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from synthdp.arrays import LARGEST_WHOLE, AnyArray, IntArray, frozen
from synthdp.checks import whole
from synthdp.codec import file_form
from synthdp.errors import ParameterError, SensitivityError

LARGEST_DENOMINATOR = 2**61
"""Largest whole number that may stand for 1 in a statistic.  A safety limit of 64-bit sums; `check_overflow` has the limit
for large tables."""

LARGEST_CHANGE = 2**31
"""Largest difference allowed between two numbers of a listed table: squares of smaller ones fit in 64 bits.  A safety
limit.
"""

LARGEST_EXPECTATION = 2**60
"""Expected sums are clipped to ± this: no sum of rows comes near, and a difference from it fits in 64 bits.  A safety
limit.
"""

_HALF_WORD = 31
"""Bits of the low half of a square, which has at most 62: where a sum of squares may exceed 64 bits, the halves are
summed apart.  Derived."""


@file_form("Norms")
@dataclass(frozen=True, slots=True)
class Norms:
    """Upper bounds on the norms of a vector of whole numbers, as exact Python integers; noise is calibrated to them.

    Parameters
    ----------
    l1, l2_squared, linf
        Bounds on the sum of absolute values, the sum of squares, and the largest absolute value.

    Raises
    ------
    ParameterError
        If one is not a whole number of at least 0.
    SensitivityError
        If they contradict each other: linf <= l1 and linf^2 <= l2^2 <= l1 linf hold for every vector.
    """

    l1: int
    l2_squared: int
    linf: int

    def __post_init__(self) -> None:
        for name in ("l1", "l2_squared", "linf"):
            object.__setattr__(self, name, whole(name, getattr(self, name)))
        if not (self.linf <= self.l1 and self.linf**2 <= self.l2_squared <= self.l1 * self.linf):
            raise SensitivityError(
                f"l1 ({self.l1}), l2_squared ({self.l2_squared}) and linf ({self.linf}) cannot be norms of the same "
                "vector: linf <= l1 and linf**2 <= l2_squared <= l1 * linf must be true"
            )

    @classmethod
    def within(cls, k: int, linf: int, *, l1: int | None = None, l2_squared: int | None = None) -> Norms:
        """Return the tightest bounds for k numbers of at most ``linf`` each that follow from the given ones.

        l1 <= k linf, l1^2 <= k l2^2 (Cauchy, Schwarz), and l2^2 <= l1 linf.

        Parameters
        ----------
        k
            Length of the vector.
        linf
            Bound on each number.
        l1, l2_squared
            Bounds on the vector, where better ones are known than k times a number's.
        """
        k, linf = whole("k", k, least=1), whole("linf", linf)
        squares = min(k * linf**2, k * linf**2 if l2_squared is None else whole("l2_squared", l2_squared))
        total = min(k * linf, k * linf if l1 is None else whole("l1", l1), math.isqrt(k * squares))
        return cls(total, min(squares, total * linf), linf)

    def times(self, rows: int) -> Norms:
        """Return bounds on a sum of ``rows`` vectors within these bounds, or on a multiple of one vector."""
        rows = whole("rows", rows)
        return Norms(self.l1 * rows, self.l2_squared * rows * rows, self.linf * rows)

    def plus(self, other: Norms) -> Norms:
        """Return bounds on the concatenation of two vectors, one within each of the two bounds: of two statistics."""
        return Norms(self.l1 + other.l1, self.l2_squared + other.l2_squared, max(self.linf, other.linf))

    def either(self, other: Norms) -> Norms:
        """Return bounds that hold for a vector within either of the two bounds: the larger of each norm."""
        return Norms(max(self.l1, other.l1), max(self.l2_squared, other.l2_squared), max(self.linf, other.linf))

    @property
    def l2(self) -> float:
        """Upper bound on the Euclidean norm as a float, rounded up so that it is never too small."""
        return root_up(self.l2_squared)


@dataclass(frozen=True, slots=True)
class RecordBounds:
    """The sensitivity of a statistic: how far it moves between neighbouring tables.

    Parameters
    ----------
    one
        Norms of the change when one record is added or removed.
    swap
        Norms of the change when one record is replaced by any other: never more than twice ``one``.

    Raises
    ------
    SensitivityError
        If ``swap`` is more than that.
    """

    one: Norms
    swap: Norms

    def __post_init__(self) -> None:
        twice = self.one.times(2)
        if twice.either(self.swap) != twice:
            raise SensitivityError(
                "the norms in swap must be at most twice the norms in one: to replace a record is to remove one "
                "and add another"
            )

    @classmethod
    def of(cls, one: Norms, swap: Norms | None = None) -> RecordBounds:
        """Return bounds from ``one`` (adding a record) and ``swap`` (replacing a record), by default twice ``one``."""
        return cls(one, swap or one.times(2))

    def plus(self, other: RecordBounds) -> RecordBounds:
        """Return the bounds of two statistics asked together."""
        return RecordBounds(self.one.plus(other.one), self.swap.plus(other.swap))

    def times(self, factor: int) -> RecordBounds:
        """Return the bounds of a statistic multiplied by a whole number."""
        return RecordBounds(self.one.times(factor), self.swap.times(factor))


def column_norms(columns: AnyArray) -> Norms:
    """Return the largest l1, squared l2 and maximum norm among the m columns of a (k, m) matrix of whole numbers.

    The norms are exact.  Each column is what one row may change in k sums, so that these are the statistic's
    sensitivity.

    Raises
    ------
    SensitivityError
        If a number is 2^31 or more in size.
    """
    linf = largest(columns)
    if linf >= LARGEST_CHANGE:
        raise SensitivityError(
            f"one record can change an answer by {linf}, which must be below {LARGEST_CHANGE}: give a smaller "
            "denominator or resolution"
        )
    size = np.abs(columns.astype(np.int64, copy=False))
    squares = size * size
    if len(size) * linf**2 < LARGEST_WHOLE:
        return Norms(int(size.sum(axis=0).max()), int(squares.sum(axis=0).max()), linf)
    # sums of squares may exceed 64 bits: low and high halves of the squares are summed apart, and joined as a Python int
    low = (squares & (LARGEST_CHANGE - 1)).sum(axis=0)
    high = (squares >> _HALF_WORD).sum(axis=0) + (low >> _HALF_WORD)
    low &= LARGEST_CHANGE - 1
    top = high.max()
    return Norms(int(size.sum(axis=0).max()), (int(top) << _HALF_WORD) + int(low[high == top].max()), linf)


def largest(values: AnyArray) -> int:
    """Return the largest absolute value of some whole numbers, exactly: for the least 64-bit number too."""
    return max(int(values.max()), -int(values.min())) if values.size else 0


def root_up(square: int) -> float:
    """Return the smallest float whose exact square is at least ``square``: a square root that is never too small."""
    root = math.sqrt(square)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


def whole_numbers(name: str, values: object) -> IntArray:
    """Return whole numbers as a read-only int64 array, so that sums over them are exact.

    Raises
    ------
    ParameterError
        If they are not whole numbers, or too large for 64 bits.
    """
    return frozen(_checked(name, values).astype(np.int64))


def expectations(name: str, values: object, *, most: int = LARGEST_EXPECTATION) -> IntArray:
    """Return expected sums as a read-only int64 array, clipped to ±``most``, so that differences from sums fit 64 bits.

    Raises as `whole_numbers` does.
    """
    return frozen(np.clip(_checked(name, values).astype(np.int64, copy=False), -most, most))


def _checked(name: str, values: object) -> AnyArray:
    """Return integers as an array; raise ParameterError unless they are whole numbers of 64 bits."""
    array = np.asarray(values)
    if array.dtype.kind not in "iub" or (array.dtype == np.uint64 and largest(array) >= 2**63):
        raise ParameterError(f"{name} must be 64-bit whole numbers")
    return array
