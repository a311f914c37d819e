"""The Fourier coefficients of decision lists, as a statistic: one sparse vector per row, summed.

A list on at most k of m inputs has at most 2^k coefficients of degree at most t. Lists with equal outputs have equal
coefficients up to signs. This module looks up given coefficients and adds them, in whole numbers.
"""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from synthdp.arrays import LARGEST_WHOLE, BoolArray, Codes, Features, FloatArray, IntArray, Totals, frozen
from synthdp.checks import check_whole, whole
from synthdp.codec import file_form
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError
from synthdp.queries.linear import LinearFamily
from synthdp.queries.norms import LARGEST_CHANGE, Norms, RecordBounds, column_norms
from synthdp.queries.protocol import CHUNK_CELLS, check_overflow
from synthdp.works.polynomials.polynomials import level_sizes, ranks


@dataclass(frozen=True, slots=True, eq=False)
class CanonicalLists:
    """n decision lists without idle rules, each of ``length`` rules on different variables.

    Parameters
    ----------
    length
        (n,) numbers of rules that can decide.
    variables, signs
        (n, k) variable of each rule; and -1 where the rule asks for false, +1 for true. Entries beyond ``length`` are
        undefined.
    pattern
        (n,) outputs of the rules and the default answer as binary digits, the first rule the lowest.
    """

    length: IntArray
    variables: IntArray
    signs: IntArray
    pattern: IntArray


class ListStatistic(LinearFamily):
    """Sums over rows of the Fourier coefficients of decision lists; a base class.

    Subclasses supply the coefficients of a list and the sensitivity.
    """

    __slots__ = ()

    domain: Domain
    m: int
    order: int
    scales: tuple[int, ...]
    row_scale: int

    @property
    def length(self) -> int:
        """Return k, the most rules of a list."""
        return len(self.domain) - 1

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the number of coefficients of each degree, (t + 1,)."""
        return level_sizes(self.m, self.order)

    @property
    def k(self) -> int:
        """Return the number of coefficients, plus 1 if the number of rows is measured."""
        return sum(self.sizes) + (self.row_scale > 0)

    @property
    @abstractmethod
    def bounds(self) -> RecordBounds:
        """Return the sensitivity, an exact maximum over the output patterns of lists on at most m variables.

        A replaced row changes at most twice as much as an added row.
        """

    def features(self, codes: Codes) -> Features:
        """Return the Fourier coefficients of each row's decision list, (n, k), in whole numbers.

        Each is multiplied by the scale of its degree and rounded.  Where the number of rows is measured too, the constant
        ``row_scale`` comes last.
        """
        return np.array([self.sums(codes[i : i + 1]) for i in range(len(codes))], np.int64).reshape(-1, self.k)

    def sums(self, codes: Codes) -> Totals:
        """Return the sums of `features` over rows, (k,), with one pass per set of rules, as most features are 0."""
        total = np.zeros(sum(self.sizes), np.int64)
        rows = max(1, CHUNK_CELLS // ((self.length + 1) * (self.order + 1)))
        for start in range(0, len(codes), rows):
            self._add(canonical(codes[start : start + rows], self.m), total)
        return np.append(total, len(codes) * self.row_scale) if self.row_scale else total

    def _add(self, lists: CanonicalLists, total: Totals) -> None:
        """Add the coefficients of some lists to ``total``, (coefficients,), in place, set of rules by set of rules."""
        offsets = np.concatenate([[0], np.cumsum(self.sizes)])
        for r in range(self.length + 1):
            chosen = np.flatnonzero(lists.length == r)
            coefficient = self._coefficients(lists.pattern[chosen], r)
            for size in range(min(r, self.order) + 1):
                for subset in itertools.combinations(range(r), size):
                    value = coefficient(subset) * lists.signs[chosen[:, None], subset].prod(axis=1)
                    place = ranks(np.sort(lists.variables[chosen[:, None], subset], axis=1), self.m)
                    np.add.at(total, offsets[size] + place, value)

    @abstractmethod
    def _coefficients(self, pattern: IntArray, r: int) -> Callable[[tuple[int, ...]], IntArray]:
        """Return a function from a set of rules to the Fourier coefficient of that set in each list, (n,).

        Rules are numbered from 0, and a set is a tuple of numbers.  Coefficients are whole numbers, at the scale of the
        set's size, for rules that ask for true; the caller applies signs.  All n lists have r rules.  ``pattern``,
        (n,), holds their outputs as binary digits, as in `CanonicalLists`.
        """


@file_form("ListCoefficients")
@dataclass(frozen=True, slots=True, eq=False)
class ListCoefficients(ListStatistic):
    """Sums over rows of the Fourier coefficients of c(y) = list(y) - 1/2, and the number of rows; for short lists.

    Each pattern of outputs has coefficients of its own.

    Parameters
    ----------
    domain
        The rule columns in order, each with the cells of `possible_rules` first; then the default answer (cell 1 is
        yes).
    m
        Number of variables.
    order
        t, the largest degree of a coefficient.
    scales
        (t + 1,) the whole number that stands for 1 in coefficients of each degree.
    tables
        For r = 0, ..., k rules a (2^(r+1), 2^r) array. Per output pattern (as in `CanonicalLists`) it has the
        coefficient of each set of rules (bit j: rule j), for rules that ask for true; 0 on sets of more than t. Times
        ``scales`` and rounded, the arrays are ``whole``.
    row_scale
        The whole number that stands for 1 in the number of rows; 0 leaves it out.
    """

    domain: Domain
    m: int
    order: int
    scales: tuple[int, ...]
    tables: tuple[FloatArray, ...]
    row_scale: int
    whole: tuple[IntArray, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        scales = tuple(whole("scales", scale, least=1, most=LARGEST_CHANGE) for scale in self.scales)
        object.__setattr__(self, "scales", scales)
        object.__setattr__(self, "row_scale", whole("row_scale", self.row_scale))
        if len(scales) != self.order + 1:
            raise ParameterError(f"scales must be {self.order + 1} whole numbers of at least 1")
        if any(table.shape != (2 ** (r + 1), 2**r) for r, table in enumerate(self.tables)):
            raise ParameterError(
                "each of tables must have one row of coefficients per pattern of outputs, so that array r has "
                "shape (2**(r + 1), 2**r)"
            )
        if len(self.tables) != self.length + 1 or self.domain.shape[0] < 4 * self.m:
            raise ParameterError(
                f"tables must hold {self.length + 1} arrays, and the first column of the domain must have at least "
                f"{4 * self.m} cells"
            )
        scale = np.append(self.scales, np.zeros(self.length, np.int64))
        sizes = np.bitwise_count(np.arange(2**self.length)).astype(np.int64)
        rounded = [np.rint(table * scale[sizes[: table.shape[1]]]) for table in self.tables]
        object.__setattr__(self, "whole", tuple(frozen(table.astype(np.int64)) for table in rounded))
        check_overflow(self)

    @property
    def bounds(self) -> RecordBounds:
        """Return the sensitivity: the largest norms of a list's coefficients, and twice these for a replaced row.

        Signs aside, the coefficients depend on the outputs of the list's r rules and on its default answer alone.  So
        a maximum over all 2^(r+1) patterns of these outputs, for each r, covers every list.
        """
        largest = reduce(Norms.either, (column_norms(table.T) for table in self.whole[: self.m + 1]))
        rows = Norms.within(1, self.row_scale)
        return RecordBounds(largest.plus(rows), largest.times(2))

    def _coefficients(self, pattern: IntArray, r: int) -> Callable[[tuple[int, ...]], IntArray]:
        """Return a function from a set of rules to the coefficient of that set in each list, (n,).

        The coefficients are looked up in ``whole``.  All n lists have r rules; ``pattern``, (n,), holds their outputs,
        as in `CanonicalLists`.
        """
        return lambda subset: self.whole[r][pattern, sum(1 << j for j in subset)]


def canonical(codes: Codes, m: int) -> CanonicalLists:
    """Return lists without idle rules, from the cells of their rules and default answers, (n, k + 1).

    A rule never applies if an earlier rule asks its variable for an equal value; it is dropped. A rule that asks for
    the opposite value always applies; its output becomes the default answer. A cell that is no rule never applies. A
    missing default answer is "no".
    """
    n, k = codes.shape[0], codes.shape[1] - 1
    rule = codes[:, :k].astype(np.int64)
    known = rule < 4 * m
    variable, value, output = rule // 4, rule // 2 % 2, rule % 2
    word = (codes[:, k] == 1).astype(np.int64)
    kept, open_ = np.zeros((n, k), np.bool_), np.ones(n, np.bool_)
    for j in range(k):
        same = kept[:, :j] & (variable[:, :j] == variable[:, j : j + 1])
        opposite = (same & (value[:, :j] != value[:, j : j + 1])).any(axis=1)
        ends = open_ & known[:, j] & opposite
        word = np.where(ends, output[:, j], word)
        open_ = open_ & ~ends
        kept[:, j] = open_ & known[:, j] & ~same.any(axis=1)
    return _compact(kept, variable, value, output, word)


def _compact(kept: BoolArray, variable: IntArray, value: IntArray, output: IntArray, word: IntArray) -> CanonicalLists:
    """Return the lists with their non-idle rules moved to the front, in order, and their lengths.

    Lists of one length then share their polynomials.  ``kept``, (n, k), masks the non-idle rules; ``variable``,
    ``value`` and ``output`` describe each rule.  ``word``, (n,), is the default answer: the bit after the last rule's
    output.
    """
    front = np.argsort(~kept, axis=1, kind="stable")
    length = kept.sum(axis=1).astype(np.int64)
    outputs = np.take_along_axis(np.where(kept, output, 0), front, axis=1)
    pattern = (outputs << np.arange(kept.shape[1])).sum(axis=1) + (word << length)
    return CanonicalLists(
        length,
        np.take_along_axis(variable, front, axis=1),
        2 * np.take_along_axis(value, front, axis=1) - 1,
        np.asarray(pattern, np.int64),
    )


def list_values(r: int) -> IntArray:
    """Return the answers of all lists of r rules "if variable: output", (2^(r+1) patterns, 2^r inputs) of 0 and 1.

    They are the functions that `pattern_table` approximates. The pattern's bit j is rule j's output, bit r the default
    answer.

    Bit j of an input is variable j, which rule j tests.
    """
    inputs = np.arange(2**r)
    answers = np.empty((2 ** (r + 1), 2**r), np.int64)
    for pattern in range(2 ** (r + 1)):
        answer = np.full(2**r, pattern >> r & 1)
        for j in reversed(range(r)):
            answer = np.where(inputs >> j & 1 == 1, pattern >> j & 1, answer)
        answers[pattern] = answer
    return answers


def subset_parities(r: int, order: int) -> tuple[IntArray, IntArray]:
    """Return the sets of at most ``order`` of r variables as masks, (p,), and their parities of +-1, (2^r inputs, p).

    They are the monomials of the polynomials that `pattern_table` fits.
    """
    masks = np.array([mask for mask in range(2**r) if mask.bit_count() <= order], np.int64)
    odd = np.bitwise_count(np.arange(2**r)[:, None] & masks) & 1
    return masks, 1 - 2 * odd.astype(np.int64)


MAX_RULES = 16
"""Most rules of a list. A safety limit: the sensitivity is a maximum over 2^k patterns of outputs."""

_PATTERNS = 2**12
"""Output patterns whose norms are computed at once for the sensitivity. A safety limit of memory."""


@file_form("PrefixCoefficients")
@dataclass(frozen=True, slots=True, eq=False)
class PrefixCoefficients(ListStatistic):
    """Sums over rows of the Fourier coefficients of c(y) = list(y) - 1/2, and the number of rows; for long lists.

    A list's coefficients are combined from polynomials for "none of the first i rules applies".

    Parameters
    ----------
    domain, m, order, row_scale
        The rule columns, their number of variables, the largest degree, and the whole number for one row; see
        `ListCoefficients`.
    scales
        (t + 1,) the whole number that stands for 1 in coefficients of each degree; the first is even, as half of it
        stands for the 1/2 that is subtracted from a list.
    prefixes
        (k, t + 1) for i = 1, ..., k the coefficient of each degree in the polynomial for "none of i rules applies".
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
            raise ParameterError(
                f"scales must be {self.order + 1} whole numbers of at least 1, of which the first is even"
            )
        if self.prefixes.shape != (self.length, self.order + 1) or self.domain.shape[0] < 4 * self.m:
            raise ParameterError(
                f"prefixes must have shape ({self.length}, {self.order + 1}), and the first column of the domain "
                f"must have at least {4 * self.m} cells"
            )
        rounded = np.rint(self.prefixes * np.array(self.scales))
        largest = int(np.abs(rounded).sum(axis=0).max()) + self.scales[0]
        if largest**2 * 2**self.length >= LARGEST_WHOLE:
            raise ParameterError("scales must be smaller, so that the squares of the coefficients fit in 64 bits")
        object.__setattr__(self, "whole", frozen(rounded.astype(np.int64)))
        object.__setattr__(self, "_bounds", self._exact_bounds())
        check_overflow(self)

    @property
    def bounds(self) -> RecordBounds:
        """Return the sensitivity: the largest norms of a list's coefficients, over all outputs of its rules."""
        return self._bounds

    def of_patterns(self, pattern: IntArray, r: int) -> tuple[IntArray, IntArray]:
        """Return the coefficients of lists of r rules of the form "if variable: output".

        The coefficient of a set of rules depends on the set's size and last rule only.

        Parameters
        ----------
        pattern
            (n,) outputs, as in `CanonicalLists`.
        r
            Number of rules.

        Returns
        -------
        constant
            (n,) the coefficient of the empty set.
        last
            (n, t + 1, r) coefficients by size and last rule of a set.
        """
        outputs = pattern[:, None] >> np.arange(r + 1) & 1
        changes = np.diff(outputs, axis=1)
        parts = changes[:, None, :] * self.whole[:r].T[None]
        last = np.cumsum(parts[:, :, ::-1], axis=2)[:, :, ::-1]
        return (2 * outputs[:, 0] - 1) * (self.scales[0] // 2) + parts[:, 0].sum(axis=1), last

    def _coefficients(self, pattern: IntArray, r: int) -> Callable[[tuple[int, ...]], IntArray]:
        """Return a function from a set of rules to the coefficient of that set in each list, (n,).

        The coefficients are computed by `of_patterns`.  All n lists have r rules; ``pattern``, (n,), holds their
        outputs, as in `CanonicalLists`.
        """
        constant, last = self.of_patterns(pattern, r)
        return lambda subset: last[:, len(subset), subset[-1]] if subset else constant

    def _exact_bounds(self) -> RecordBounds:
        """Return the sensitivity: the largest norms of a list's coefficients over all patterns, twice for a swap."""
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
