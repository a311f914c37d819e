"""Random projections of the vector of all record counts to T numbers, computed by hash functions without a matrix.

Each projection is a `KeyStatistic`: the private table sums it over its records. The public side projects a query by the
same hash functions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from synthdp.arrays import AnyArray, FloatArray, IntArray, Totals, frozen
from synthdp.checks import whole
from synthdp.codec import file_form
from synthdp.errors import ParameterError
from synthdp.queries.linear import Counting
from synthdp.queries.norms import Norms, RecordBounds
from synthdp.queries.protocol import KeyStatistic
from synthdp.queries.supports import Support
from synthdp.randomness import Generator

MERSENNE = 2**61 - 1
"""Size of the default field, chosen because shifts reduce products of two elements. Derived: the Mersenne prime
2^61 - 1."""

_LOW = np.uint64(2**32 - 1)
"""Mask of the lower half of a 64-bit word: products are computed from halves, to stay in 64 bits. Derived: 2^32 - 1."""
_PRIME = np.uint64(MERSENNE)
"""The default field's size as an unsigned 64-bit number, for numpy's arithmetic."""


@file_form("PolynomialHash")
@dataclass(frozen=True, slots=True, eq=False)
class PolynomialHash:
    """g random polynomials of degree r - 1 over the field of a prime p: r-wise independent hash functions.

    A polynomial's values at any r different points are independent and uniform on {0..p-1} (Wegman, Carter 1981): r
    coefficients and r values determine each other. "Degree r" would be one coefficient too many.

    Parameters
    ----------
    coefficients
        (g, r) elements of the field, highest power first: g functions.
    prime
        p: `MERSENNE`, or a small prime (p < 2**31) for checks by enumeration.
    """

    coefficients: AnyArray
    prime: int = MERSENNE

    def __post_init__(self) -> None:
        coefficients = np.array(self.coefficients, np.uint64)
        if coefficients.ndim != 2 or coefficients.size == 0 or int(coefficients.max()) >= self.prime:
            raise ParameterError(f"coefficients must be a (g, r) array of whole numbers below prime ({self.prime})")
        if self.prime != MERSENNE and not 2 <= self.prime < 2**31:
            raise ParameterError(f"prime ({self.prime}) must be 2**61 - 1, or below 2**31")
        object.__setattr__(self, "coefficients", frozen(coefficients))

    @classmethod
    def draw(cls, functions: int, *, independence: int, rng: Generator) -> PolynomialHash:
        """Draw random polynomials over the default field as public hashes, with ``independence`` coefficients each."""
        return cls(rng.integers(0, MERSENNE, size=(functions, independence), dtype=np.uint64))

    @property
    def independence(self) -> int:
        """Return r, the number of coefficients: values at any r different points are independent."""
        return int(self.coefficients.shape[1])

    def values(self, points: AnyArray) -> AnyArray:
        """Return the value of every function at every point: (N,) -> (N, g), by Horner's rule."""
        x = points.astype(np.uint64)[:, None]
        value = np.broadcast_to(self.coefficients[:, 0], (len(x), len(self.coefficients))).astype(np.uint64)
        for coefficient in self.coefficients.T[1:]:
            value = self._sum(self._product(value, x), coefficient)
        return value

    def _product(self, a: AnyArray, b: AnyArray) -> AnyArray:
        """Return elementwise products in the field, by which polynomials are evaluated."""
        product = _mersenne_product(a, b) if self.prime == MERSENNE else (a * b) % np.uint64(self.prime)
        return np.asarray(product, np.uint64)

    def _sum(self, a: AnyArray, b: AnyArray) -> AnyArray:
        """Return elementwise sums in the field, by which polynomials are evaluated."""
        total = a + b
        return np.asarray(np.where(total >= self.prime, total - np.uint64(self.prime), total), np.uint64)


def fingerprints(keys: Sequence[str], *, salt: bytes) -> AnyArray:
    """Return an element of the default field for every key, (N,) uint64, from a salted BLAKE2b hash.

    The polynomials need numbers, and keys have any length. Two of N keys share an element with probability about N^2 /
    2^62 over the salt.
    """
    made = [hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8, key=salt).digest() for key in keys]
    words = np.frombuffer(b"".join(made), "<u8")
    return np.asarray(words % _PRIME, np.uint64)


def _mersenne_product(a: AnyArray, b: AnyArray) -> AnyArray:
    """Return a * b mod 2^61 - 1 of elements below the prime, in 64-bit words.

    With a = a1 2^32 + a0 (a1 < 2^29) and b alike: a b = a1 b1 2^64 + (a1 b0 + a0 b1) 2^32 + a0 b0, and 2^61 = 1.
    """
    a1, a0, b1, b0 = a >> np.uint64(32), a & _LOW, b >> np.uint64(32), b & _LOW
    middle = a1 * b0 + a0 * b1  # below 2^62
    high = (a1 * b1) << np.uint64(3)  # 2^64 = 8; below 2^61
    # middle 2^32 = (middle >> 29) 2^61 + (middle mod 2^29) 2^32
    shifted = (middle >> np.uint64(29)) + ((middle & np.uint64(2**29 - 1)) << np.uint64(32))
    low = a0 * b0
    total = high + shifted + (low & _PRIME) + (low >> np.uint64(61))  # below 2^63
    total = (total & _PRIME) + (total >> np.uint64(61))
    return np.asarray(np.where(total >= _PRIME, total - _PRIME, total), np.uint64)


BITS = 60
"""Signs taken from one hash value. Derived: each of the low 60 bits of a uniform element of {0..2^61-2} is fair up to
2^-61."""

MAX_DIMENSION = 2**24
"""Most numbers of a projection: noise for them takes about a minute. A safety limit."""

_CHUNK = 2**22
"""Most signs held in memory at once. A safety limit of memory."""


@runtime_checkable
class Sketch(KeyStatistic, Protocol):
    """A random projection u = A D of the counts D of all records, and of queries by the same A."""

    @property
    def dimension(self) -> int:
        """Return T, the number of projected coordinates."""
        ...

    def estimate(self, support: Support, values: FloatArray) -> tuple[float, float]:
        """Return <A q, u> for a sparse query q, and |A q|^2, the factor from the noise's variance to the answer's.

        ``values`` are the (T,) projected counts u, noisy or exact, as `key_totals` scales them.
        """
        ...


@file_form("CountSketch")
@dataclass(frozen=True, slots=True, eq=False)
class CountSketch(Counting):
    """A projection with one random sign in one random coordinate for every record (Charikar, Chen, Farach-Colton 2002).

    Estimates are unbiased. With 4-wise independence the error of a query q has variance at most |q|^2 |D|^2 / T, as for
    dense signs.

    Parameters
    ----------
    columns
        Columns whose values make up the key.
    dimension
        T, the number of coordinates.
    places, signs
        The hash function of the records' coordinates, and the hash function of their signs.
    salt
        The salt of the keys' fingerprints.
    without
        Keys that are left out because they are counted separately.
    """

    columns: tuple[str, ...]
    dimension: int
    places: PolynomialHash
    signs: PolynomialHash
    salt: bytes
    without: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def draw(
        cls, columns: tuple[str, ...], dimension: int, *, independence: int, rng: Generator, without: frozenset[str]
    ) -> CountSketch:
        """Draw a random sketch: two hash functions and a salt, all public."""
        places, signs = (PolynomialHash.draw(1, independence=independence, rng=rng) for _ in range(2))
        return cls(columns, check_dimension(dimension), places, signs, rng.bytes(32), without)

    @property
    def k(self) -> int:
        """Return T, the number of coordinates."""
        return self.dimension

    @property
    def bounds(self) -> RecordBounds:
        """Return the norms of one record, which moves one coordinate by 1.

        A replaced record moves two coordinates by 1 each. If both records share a coordinate with opposite signs, it
        moves by 2.
        """
        return RecordBounds.of(Norms(1, 1, 1))

    def key_totals(self, counts: Mapping[str, int]) -> Totals:
        """Return the projected counts, (T,), from the count of each key."""
        keys = [key for key in counts if key not in self.without]
        place, sign = self._columns_of(keys)
        totals = np.zeros(self.dimension, np.int64)
        np.add.at(totals, place, sign * np.array([counts[key] for key in keys], np.int64))
        return totals

    def estimate(self, support: Support, values: FloatArray) -> tuple[float, float]:
        """Return the estimated sum of a query, and the factor from the noise's variance to the answer's.

        The sum takes the signed numbers at the coordinates of the query's keys. Keys that share a coordinate add up
        before squaring.
        """
        place, sign = self._columns_of(support.keys)
        places, meeting = np.unique(place, return_inverse=True)
        projected = np.bincount(meeting, weights=sign * support.weights)
        return float(projected @ values[places]), float(projected @ projected)

    def _columns_of(self, keys: Sequence[str]) -> tuple[IntArray, IntArray]:
        """Return each key's coordinate, (N,) from 0 to T - 1, and its sign, (N,) of +1 and -1, by public hashes."""
        points = fingerprints(keys, salt=self.salt)
        place = self.places.values(points)[:, 0].astype(np.float64) * (self.dimension / MERSENNE)
        sign = 1 - 2 * (self.signs.values(points)[:, 0] & np.uint64(1)).astype(np.int64)
        return np.minimum(place.astype(np.int64), self.dimension - 1), sign  # rounding can make the largest places T


@file_form("SignProjection")
@dataclass(frozen=True, slots=True, eq=False)
class SignProjection(Counting):
    """A projection with a random sign in every coordinate for every record: Blum and Roth's, times sqrt(T).

    Each hash value gives the signs of `BITS` coordinates. Projected counts are whole numbers; `estimate` divides by T.

    Parameters
    ----------
    columns
        Columns whose values make up the key.
    dimension
        T, the number of coordinates.
    signs
        One hash function for every `BITS` coordinates.
    salt
        The salt of the keys' fingerprints.
    without
        Keys that are left out because they are counted separately.
    """

    columns: tuple[str, ...]
    dimension: int
    signs: PolynomialHash
    salt: bytes
    without: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def draw(
        cls, columns: tuple[str, ...], dimension: int, *, independence: int, rng: Generator, without: frozenset[str]
    ) -> SignProjection:
        """Draw a random projection: one hash function per `BITS` coordinates and a salt, all public."""
        functions = -(-check_dimension(dimension) // BITS)
        signs = PolynomialHash.draw(functions, independence=independence, rng=rng)
        return cls(columns, dimension, signs, rng.bytes(32), without)

    @property
    def k(self) -> int:
        """Return T, the number of coordinates."""
        return self.dimension

    @property
    def bounds(self) -> RecordBounds:
        """Return the norms of one record, which moves every coordinate by 1; a replaced one moves each by up to 2."""
        return RecordBounds.of(Norms.within(self.dimension, 1))

    def key_totals(self, counts: Mapping[str, int]) -> Totals:
        """Return the projected counts times sqrt(T), (T,) whole numbers, from the count of each key."""
        keys = [key for key in counts if key not in self.without]
        totals = np.zeros(self.dimension, np.int64)
        step = max(1, _CHUNK // self.dimension)
        for start in range(0, len(keys), step):
            some = keys[start : start + step]
            summed = np.array([counts[key] for key in some], np.float64) @ self._signs_of(some)
            totals += summed.astype(np.int64)  # exact: whole numbers far below 2^53
        return totals

    def estimate(self, support: Support, values: FloatArray) -> tuple[float, float]:
        """Return the estimated sum of a query, and the factor from the noise's variance to the answer's.

        The sum is the inner product of query and ``values`` over T, since each projection is 1/sqrt(T) of the
        whole-numbered one.
        """
        projected = self._projected(support) / self.dimension
        return float(projected @ values), float(projected @ projected)

    def _projected(self, support: Support) -> FloatArray:
        """Return the projection of a query, (T,), as a sum of signs without the factor 1/sqrt(T)."""
        projected = np.zeros(self.dimension)
        step = max(1, _CHUNK // self.dimension)
        for start in range(0, len(support.keys), step):
            signs = self._signs_of(support.keys[start : start + step])
            projected += support.weights[start : start + step] @ signs
        return projected

    def _signs_of(self, keys: Sequence[str]) -> AnyArray:
        """Return the signs of some keys, (N, T) of +1 and -1, one byte each, from the public hash functions."""
        words = np.ascontiguousarray(self.signs.values(fingerprints(keys, salt=self.salt)).astype("<u8"))
        bits = np.unpackbits(words.view(np.uint8).reshape(len(keys), -1, 8), axis=2, bitorder="little")[:, :, :BITS]
        return frozen(1 - 2 * bits.reshape(len(keys), -1)[:, : self.dimension].astype(np.int8))


def check_dimension(dimension: int) -> int:
    """Return the dimension as a whole number; raise an error if a projection of that size cannot be stored.

    Raises
    ------
    ParameterError
        With the size of the projection in GiB.
    """
    dimension = whole("dimension", dimension, least=1)
    if dimension > MAX_DIMENSION:
        raise ParameterError(
            f"dimension ({dimension:.3g}, which takes {8 * dimension / 2**30:.3g} GiB) must be at most "
            f"{MAX_DIMENSION}: give a smaller dimension, such as 100000"
        )
    return dimension
