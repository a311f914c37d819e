"""The Fourier coefficients of long decision lists, from polynomials for their prefixes (Klivans, Servedio 2006).

A list is o_1 + sum_i (o_{i+1} - o_i) N_i, where o_i is the i-th output (the last word comes after the last rule) and N_i
says that none of the first i rules applies: a conjunction, which a polynomial of degree about sqrt(i) approximates.  So a
list of k rules needs k polynomials instead of one for each of 2^k patterns of outputs, and no table of 2^k inputs.  The
polynomials come from outside; here they are added up, in whole numbers.  Knows no noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from synthdp.arrays import LARGEST_WHOLE, FloatArray, IntArray, frozen
from synthdp.checks import check_whole, whole
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError
from synthdp.queries.norms import Norms, RecordBounds
from synthdp.queries.protocol import check_overflow
from synthdp.works.polynomials.list_coefficients import ListStatistic

MAX_RULES = 16
"""Most rules of a list: the sensitivity is the maximum over its 2^k patterns of outputs."""

_PATTERNS = 2**12


@dataclass(frozen=True, slots=True, eq=False)
class PrefixCoefficients(ListStatistic):
    """Sums over rows of the coefficients of c(y) = (list(y) - 1/2), and the number of rows.

    Parameters
    ----------
    domain, m, order, row_scale
        As in `ListCoefficients`.
    scales
        (t + 1,) the whole number that stands for 1 in coefficients of each order; the first is even.
    prefixes
        (k, t + 1) for i = 1, ..., k the coefficient of each order of the polynomial for "none of i rules applies".
    """

    domain: Domain
    m: int
    order: int
    scales: tuple[int, ...]
    prefixes: FloatArray
    row_scale: int
    whole: IntArray = field(init=False, repr=False)
    _bounds: RecordBounds = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scales", tuple(whole("scales", scale, least=1) for scale in self.scales))
        object.__setattr__(self, "row_scale", whole("row_scale", self.row_scale))
        check_whole("the number of rules", self.length, most=MAX_RULES)
        if len(self.scales) != self.order + 1 or self.scales[0] % 2:
            raise ParameterError(f"scales must be {self.order + 1} whole numbers of at least 1, and the first even")
        if self.prefixes.shape != (self.length, self.order + 1) or self.domain.shape[0] < 4 * self.m:
            raise ParameterError("the polynomials must be one for each prefix of the lists")
        rounded = np.rint(self.prefixes * np.array(self.scales))
        largest = int(np.abs(rounded).sum(axis=0).max()) + self.scales[0]
        if largest**2 * 2**self.length >= LARGEST_WHOLE:
            raise ParameterError("scales must be smaller: the squares of the coefficients would not fit in 64 bits")
        object.__setattr__(self, "whole", frozen(rounded.astype(np.int64)))
        object.__setattr__(self, "_bounds", self._exact_bounds())
        check_overflow(self)

    @property
    def bounds(self) -> RecordBounds:
        """The largest of all patterns, found once."""
        return self._bounds

    def of_patterns(self, pattern: IntArray, r: int) -> tuple[IntArray, IntArray]:
        """Return the coefficients of lists of r rules that ask for true.

        Of a set of rules it depends on the size of the set and on its last rule alone.

        Parameters
        ----------
        pattern
            (n,) outputs, as in `CanonicalLists`.
        r
            Number of rules.

        Returns
        -------
        constant
            (n,) the coefficient of no rule.
        last
            (n, t + 1, r) by order and last rule.
        """
        outputs = pattern[:, None] >> np.arange(r + 1) & 1
        changes = np.diff(outputs, axis=1)
        parts = changes[:, None, :] * self.whole[:r].T[None]
        last = np.cumsum(parts[:, :, ::-1], axis=2)[:, :, ::-1]
        return (2 * outputs[:, 0] - 1) * (self.scales[0] // 2) + parts[:, 0].sum(axis=1), last

    def _coefficients(self, pattern: IntArray, r: int) -> Callable[[tuple[int, ...]], IntArray]:
        constant, last = self.of_patterns(pattern, r)
        return lambda subset: last[:, len(subset), subset[-1]] if subset else constant

    def _exact_bounds(self) -> RecordBounds:
        one = Norms(0, 0, 0)
        for r in range(min(self.length, self.m) + 1):
            sets = np.array(
                [[math.comb(j, size - 1) if size else 0 for j in range(r)] for size in range(self.order + 1)]
            )
            for start in range(0, 2**r, _PATTERNS):  # a pattern's complement has the negative coefficients
                constant, last = self.of_patterns(np.arange(start, min(start + _PATTERNS, 2**r)), r)
                size, fixed = np.abs(last), np.abs(constant)
                reached = size * (sets > 0) if r else size
                l1 = int(((size * sets).sum(axis=(1, 2)) + fixed).max())
                l2_squared = int(((size**2 * sets).sum(axis=(1, 2)) + fixed**2).max())
                one = one.either(Norms(l1, l2_squared, max(int(reached.max(initial=0)), int(fixed.max()))))
        return RecordBounds(one.plus(Norms.within(1, self.row_scale)), one.times(2))
