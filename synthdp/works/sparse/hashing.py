"""Hash functions of limited independence: polynomials over a prime field, applied to fingerprints of record keys.

They are public and drawn before any row is read; a few coefficients stand for a matrix with a column per record of any
universe.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import AnyArray, frozen
from synthdp.errors import ParameterError
from synthdp.randomness import Generator

MERSENNE = 2**61 - 1
"""The default field: products of two of its elements are reduced by shifts."""

_LOW = np.uint64(2**32 - 1)
_PRIME = np.uint64(MERSENNE)


@dataclass(frozen=True, slots=True, eq=False)
class PolynomialHash:
    """Several random polynomials of degree r - 1 over the field of a prime p: r-wise independent hash functions.

    The values of one polynomial at any r different points are independent and uniform on {0..p-1} (Wegman, Carter
    1981): r coefficients and r values determine each other.  "Degree r" would be one coefficient too many.

    Parameters
    ----------
    coefficients
        (g, r) elements of the field, highest power first: g functions.
    prime
        p; `MERSENNE`, or a small one (p < 2**31) for checks by enumeration.
    """

    coefficients: AnyArray
    prime: int = MERSENNE

    def __post_init__(self) -> None:
        coefficients = np.array(self.coefficients, np.uint64)
        if coefficients.ndim != 2 or coefficients.size == 0 or int(coefficients.max()) >= self.prime:
            raise ParameterError("coefficients must be a (g, r) array of elements of the field")
        if self.prime != MERSENNE and not 2 <= self.prime < 2**31:
            raise ParameterError(f"prime ({self.prime}) must be 2**61 - 1, or below 2**31")
        object.__setattr__(self, "coefficients", frozen(coefficients))

    @classmethod
    def draw(cls, functions: int, *, independence: int, rng: Generator) -> PolynomialHash:
        """Return random functions over the default field."""
        return cls(rng.integers(0, MERSENNE, size=(functions, independence), dtype=np.uint64))

    @property
    def independence(self) -> int:
        """r: values at any r different points are independent."""
        return int(self.coefficients.shape[1])

    def values(self, points: AnyArray) -> AnyArray:
        """Return the value of every function at every point: (N,) -> (N, g), by Horner's rule."""
        x = points.astype(np.uint64)[:, None]
        value = np.broadcast_to(self.coefficients[:, 0], (len(x), len(self.coefficients))).astype(np.uint64)
        for coefficient in self.coefficients.T[1:]:
            value = self._sum(self._product(value, x), coefficient)
        return value

    def _product(self, a: AnyArray, b: AnyArray) -> AnyArray:
        product = _mersenne_product(a, b) if self.prime == MERSENNE else (a * b) % np.uint64(self.prime)
        return np.asarray(product, np.uint64)

    def _sum(self, a: AnyArray, b: AnyArray) -> AnyArray:
        total = a + b
        return np.asarray(np.where(total >= self.prime, total - np.uint64(self.prime), total), np.uint64)


def fingerprints(keys: Sequence[str], *, salt: bytes) -> AnyArray:
    """Return an element of the default field for every key: (N,) uint64, from a salted BLAKE2b hash.

    Keys of any length become points.  Two of N keys share one with probability about N^2 / 2^62 over the salt.
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
