"""The discrete ℓ∞ K-norm law P(z) ∝ exp(−max|zᵢ|/scale) on integer vectors, and its exact sampler.

Pure functions of public settings and of a source of uniform bits, which `synthdp.privacy.noise` supplies; no
float takes part in a draw.  The proofs are in ``docs/proofs/linf-knorm.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from synthdp.checks import check_whole
from synthdp.errors import ParameterError

Bits: TypeAlias = Callable[[int], int]
"""``bits(n)`` is uniform on ``range(2**n)`` and independent of every other call."""

SMALLEST_SCALE = Fraction(1, 1024)
"""Least scale.  Below it (ε above 1024 for sensitivity 1) there is no privacy to speak of, and exponents would grow
large.  A safety limit of time."""

_WORD = 64
"""Random bits that are drawn at once when a probability is compared with a uniform number.  Fewer would more often need
a second round, more would draw bits in vain; the law stays exact with any.  A convention."""


def draw(dimension: int, *, scale: Fraction, bits: Bits) -> list[int]:
    """Draw one integer vector z, (dimension,), with P(z) ∝ exp(−max|zᵢ|/scale).

    Added to integers it costs ε = Δ∞/scale.

    Parameters
    ----------
    dimension
        R ≥ 1.
    scale
        Δ∞/ε ≥ 2⁻¹⁰, exact.
    bits
        Source of uniform bits.

    Notes
    -----
    exp(−r/scale) = (1 − e^(−1/scale)) Σ_{k ≥ r} e^(−k/scale), so the law is a mixture of uniform laws on the
    cubes {−k..k}^R, with weight proportional to (2k+1)^R e^(−k/scale).
    """
    check_whole("dimension", dimension)
    if scale < SMALLEST_SCALE:
        raise ParameterError(f"scale ({float(scale)}) must be at least {float(SMALLEST_SCALE)}")
    halfwidth = _draw_halfwidth(_envelope(dimension, scale), bits)
    return [_below(2 * halfwidth + 1, bits) - halfwidth for _ in range(dimension)]


def stddev(dimension: int, *, scale: float) -> float:
    """Return the standard deviation of one coordinate of the K-norm noise: scale·√((R+1)(R+2)/3), as for the continuous law.

    Notes
    -----
    The discrete law's variance is smaller by 1/12, up to a relative (2π·scale)^−(R+1).
    """
    return scale * math.sqrt((dimension + 1) * (dimension + 2) / 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Envelope:
    """A proposal law for rejection sampling: a staircase above the weights w(k) = (2k+1)^R e^(−k/scale) of halfwidths k.

    On the i-th step w(k) ≤ w(mode)·2^(−i).  Steps are ``step`` integers long and run from the mode to both sides.
    """

    dimension: int
    scale: Fraction
    mode: int
    step: int


@lru_cache(maxsize=128)
def _envelope(dimension: int, scale: Fraction) -> _Envelope:
    """Return the staircase by which halfwidths of cubes are drawn: the mode of their weights, the width of its steps.

    Their weights are w(k) = (2k+1)^R e^(−k/scale), with R = ``dimension``.  Each step is half as high as the one
    before.  Comparisons are exact, so that no float error biases a draw.
    """
    mode = max(0, math.floor(dimension * scale - Fraction(1, 2)))  # not above the real maximiser, up to which w rises
    while _compare(dimension, scale, high=mode + 1, low=mode) > 0:
        mode += 1
    step = max(1, math.isqrt(math.floor(dimension * scale**2)))
    while not _halved(dimension, scale, mode=mode, step=step):
        step += (step + 7) // 8
    return _Envelope(dimension=dimension, scale=scale, mode=mode, step=step)


def _halved(dimension: int, scale: Fraction, *, mode: int, step: int) -> bool:
    """Return whether w(mode ± step) ≤ w(mode)/2 for w(k) = (2k+1)^R e^(−k/scale), as the staircase needs.

    ``dimension`` is R; w is 0 below 0.
    """
    right = _Chance.of(dimension, scale, at=mode + step, mode=mode, doublings=1)
    left = _Chance.of(dimension, scale, at=mode - step, mode=mode, doublings=1) if step <= mode else None
    return right.compared_with_one() < 0 and (left is None or left.compared_with_one() < 0)


def _compare(dimension: int, scale: Fraction, *, high: int, low: int) -> int:
    """Return the sign of w(high) − w(low), exactly, for w(k) = (2k+1)^R e^(−k/scale); it finds the mode of w."""
    return _Chance.of(dimension, scale, at=high, mode=low, doublings=0).compared_with_one()


def _draw_halfwidth(envelope: _Envelope, bits: Bits) -> int:
    """Draw the halfwidth k of a cube with probability ∝ (2k+1)^R e^(−k/scale), by exact rejection from a staircase."""
    while True:
        doublings = 0
        while bits(1):
            doublings += 1
        distance = doublings * envelope.step + _below(envelope.step, bits)
        k = envelope.mode + distance if bits(1) else envelope.mode - 1 - distance
        if k < 0:
            continue
        chance = _Chance.of(envelope.dimension, envelope.scale, at=k, mode=envelope.mode, doublings=doublings)
        if chance.flip(bits):
            return k


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chance:
    """The acceptance probability 2^i·w(k)/w(mode) = (numerator/denominator)·e^(−exponent), held exactly."""

    numerator: int
    denominator: int
    exponent: Fraction

    @classmethod
    def of(cls, dimension: int, scale: Fraction, *, at: int, mode: int, doublings: int) -> _Chance:
        """Return the acceptance probability 2^i·w(at)/w(mode) of the halfwidth ``at`` on step i = ``doublings``.

        The weights are w(k) = (2k+1)^R e^(−k/scale), with R = ``dimension``.
        """
        return cls(
            numerator=(2 * at + 1) ** dimension << doublings,
            denominator=(2 * mode + 1) ** dimension,
            exponent=(at - mode) / scale,
        )

    def flip(self, bits: Bits) -> bool:
        """Return True with exactly this probability: compare it with a uniform real that is revealed bit by bit."""
        revealed, length = 0, 0
        while True:
            revealed, length = revealed << _WORD | bits(_WORD), length + _WORD
            low, high = self._bounds(length + _WORD)
            # The uniform real lies in [revealed, revealed + 1]·2^−length; low and high carry _WORD more bits.
            if (revealed + 1) << _WORD <= low:
                return True
            if revealed << _WORD >= high:
                return False

    def compared_with_one(self) -> int:
        """Return the sign of this number minus 1, exactly; the exponent must not be 0, so that the number is irrational."""
        precision = 2 * _WORD
        while True:
            low, high = self._bounds(precision)
            if low > 1 << precision:
                return 1
            if high < 1 << precision:
                return -1
            precision *= 2

    def _bounds(self, precision: int) -> tuple[int, int]:
        """Return integers below and above this number times 2^precision, so that comparisons with it are exact."""
        low, high = _exp_bounds(abs(self.exponent), precision)
        if self.exponent > 0:
            scaled = self.numerator << 2 * precision
            return scaled // (self.denominator * high), -(-scaled // (self.denominator * low))
        return self.numerator * low // self.denominator, -(-self.numerator * high // self.denominator)


def _exp_bounds(x: Fraction, precision: int) -> tuple[int, int]:
    """Return integers below and above e^x·2^precision for x ≥ 0, by Taylor sums rounded down and up.

    A term x^j/j! of at most 1/2 has j ≥ 2x, since (j/2)^j/j! ≥ 1/2.  From there terms at least halve, so all that
    follow sum to at most the last one.
    """
    above, below = x.numerator, x.denominator
    low = high = term_low = term_high = 1 << precision
    index = 0
    while term_high > 1:
        index += 1
        term_low = term_low * above // (below * index)
        term_high = -(-term_high * above // (below * index))
        low, high = low + term_low, high + term_high
    return low, high + term_high


def _below(bound: int, bits: Bits) -> int:
    """Return a uniform integer of ``range(bound)``, by rejection of random bits, so that no value is favoured."""
    length = (bound - 1).bit_length()
    while (value := bits(length) if length else 0) >= bound:
        pass
    return value
