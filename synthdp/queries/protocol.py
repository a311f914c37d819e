"""What the curator can be asked: integer statistics of a table, with exact bounds on what one record changes.

A statistic is computed in two steps, so that rows may live in chunks or on other machines: ``sums`` is additive over
rows, ``finish`` is a function of the sums.  For linear queries ``finish`` is the identity.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from synthdp.arrays import Codes, Features, IntArray, Totals
from synthdp.domain.domain import Domain
from synthdp.errors import SensitivityError

CHUNK_CELLS = 4_000_000
"""Most feature values held at once while summing rows."""


@dataclass(frozen=True, slots=True)
class Norms:
    """Upper bounds on an integer vector, kept as integers so that they are exact.

    Parameters
    ----------
    l1, l2_squared, linf
        Bounds on the sum of absolute values, the sum of squares, and the largest absolute value.
    """

    l1: int
    l2_squared: int
    linf: int

    def times(self, rows: int) -> Norms:
        """Return bounds on a sum of ``rows`` such vectors."""
        return Norms(self.l1 * rows, self.l2_squared * rows * rows, self.linf * rows)

    def plus(self, other: Norms) -> Norms:
        """Return bounds on two such vectors, one after the other."""
        return Norms(self.l1 + other.l1, self.l2_squared + other.l2_squared, max(self.linf, other.linf))

    @property
    def l2(self) -> float:
        """Upper bound on the Euclidean norm, rounded up."""
        root = math.isqrt(self.l2_squared)
        return float(root) if root * root == self.l2_squared else math.nextafter(math.sqrt(self.l2_squared), math.inf)


@dataclass(frozen=True, slots=True)
class RecordBounds:
    """How far a statistic moves between neighbouring tables.

    Parameters
    ----------
    one
        When one record is added or removed.
    swap
        When one record is replaced by any other.
    """

    one: Norms
    swap: Norms

    @classmethod
    def of(cls, one: Norms, swap: Norms | None = None) -> RecordBounds:
        """Return bounds whose ``swap`` is, unless a better one is given, twice ``one``."""
        return cls(one, swap or one.times(2))

    def plus(self, other: RecordBounds) -> RecordBounds:
        """Return the bounds of two statistics asked together."""
        return RecordBounds(self.one.plus(other.one), self.swap.plus(other.swap))


@runtime_checkable
class Bounded(Protocol):
    """k whole numbers computed from a table, which move by a bounded amount between neighbours."""

    @property
    def k(self) -> int:
        """Number of answers."""
        ...

    @property
    def unit(self) -> int:
        """The whole number that stands for 1."""
        ...

    @property
    def bounds(self) -> RecordBounds:
        """Exact bounds on the change between neighbours, in whole numbers."""
        ...


@runtime_checkable
class KeyStatistic(Bounded, Protocol):
    """k whole numbers computed from how often each record key occurs: for universes too large to list."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns whose values make up the key of a record."""
        ...

    def key_totals(self, counts: Mapping[str, int]) -> Totals:
        """Return the (k,) answers from the count of each key that occurs."""
        ...


@runtime_checkable
class Statistic(Bounded, Protocol):
    """k whole numbers computed from the cells of a table's rows."""

    @property
    def domain(self) -> Domain:
        """Which columns are read, and in which cells."""
        ...

    def sums(self, codes: Codes) -> Totals:
        """Return partial sums over some rows, which add up over all rows; ``codes`` is (n, d)."""
        ...

    def finish(self, sums: Totals) -> Totals:
        """Return the (k,) answers from the sums over all rows."""
        ...


@runtime_checkable
class LinearQueries(Statistic, Protocol):
    """k linear queries given by one record map phi: cell -> Z^k; q(D) is the sum of phi over the rows of D."""

    def features(self, codes: Codes) -> Features:
        """Return phi of every row: (n, d) -> (n, k)."""
        ...


def sum_features(queries: LinearQueries, codes: Codes) -> Totals:
    """Return the exact integer sum of features over rows, in chunks of bounded memory."""
    rows = max(1, CHUNK_CELLS // max(1, queries.k))
    total = np.zeros(queries.k, np.int64)
    for start in range(0, len(codes), rows):
        total += queries.features(codes[start : start + rows]).sum(axis=0, dtype=np.int64)
    return total


def real_answers(queries: Bounded, values: Totals | IntArray) -> np.ndarray:
    """Return whole-number answers as real ones: divided by the unit."""
    return np.asarray(values / queries.unit, np.float64)


def check_overflow(queries: Bounded, *, rows: int = 2**34) -> None:
    """Refuse a statistic whose sum over ``rows`` rows might leave 63 bits.

    Raises
    ------
    SensitivityError
        With what to lower.
    """
    if queries.bounds.one.linf * rows >= 2**62:
        raise SensitivityError(f"a record may add {queries.bounds.one.linf} to an integer sum: lower the resolution")
