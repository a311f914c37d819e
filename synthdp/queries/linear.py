"""Linear families of queries: what they share, so that each states its record map and its norms, and families of others.

`Total` is the number of rows, and `CellQueries` lists the value of each cell.  Made of others are several families one
after the other, some queries of one, and one on in-domain rows only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from synthdp.arrays import BoolArray, Codes, Features, IntArray, Totals, frozen
from synthdp.checks import whole
from synthdp.codec import file_form
from synthdp.domain.domain import Domain, domain_with_misfits
from synthdp.errors import ParameterError
from synthdp.queries.norms import LARGEST_DENOMINATOR, Norms, RecordBounds, column_norms
from synthdp.queries.protocol import CHUNK_CELLS, LinearQueries, check_overflow


class Counting:
    """Base of statistics whose answers are counts of rows, unless they set another ``denominator``."""

    __slots__ = ()

    @property
    def denominator(self) -> int:
        """The whole number that stands for 1 in an answer: 1, as rows are whole."""
        return 1


class LinearFamily(Counting):
    """A family of linear queries that gives ``domain``, ``k``, ``bounds`` and ``features``.

    The family gives a ``denominator`` too where its features are fractions, and ``sums`` where there is a faster way
    than by ``features``.
    """

    __slots__ = ()

    def sums(self: LinearQueries, codes: Codes) -> Totals:
        """Return the exact integer sums of `features` over some rows, (k,)."""
        return sum_features(self, codes)

    def finish(self, sums: Totals) -> Totals:
        """Return the sums unchanged, as they are the answers of linear queries."""
        return sums


def sum_features(queries: LinearQueries, codes: Codes) -> Totals:
    """Return the exact integer sums of features over rows, (k,), in chunks of bounded memory."""
    rows = max(1, CHUNK_CELLS // max(1, queries.k))
    total = np.zeros(queries.k, np.int64)
    for start in range(0, len(codes), rows):
        total += queries.features(codes[start : start + rows]).sum(axis=0, dtype=np.int64)
    return total


@file_form("Total", short="total")
@dataclass(frozen=True, slots=True, eq=False)
class Total(LinearFamily):
    """The number of rows.

    Parameters
    ----------
    domain
        Any domain of the table; its cells are not looked at.
    """

    domain: Domain

    @property
    def k(self) -> int:
        """Return 1: the number of answers."""
        return 1

    @property
    def bounds(self) -> RecordBounds:
        """The sensitivity: 1 row; also for replacing a row, which changes nothing, as noise needs a positive scale."""
        return RecordBounds(Norms(1, 1, 1), Norms(1, 1, 1))

    def features(self, codes: Codes) -> Features:
        """Return 1 for every row, (n, 1)."""
        return np.ones((len(codes), 1), np.int64)

    def sums(self, codes: Codes) -> Totals:
        """Return the number of rows, (1,)."""
        return np.array([len(codes)], np.int64)


EXACT_PAIRS = 1024
"""Up to this many cells, the sensitivity to replacing a record is computed exactly over all pairs of cells; above, it
is bounded by ranges.  A safety limit of time.
"""


@file_form("CellQueries")
@dataclass(frozen=True, slots=True, eq=False)
class CellQueries(LinearFamily):
    """Sums over rows of a table of values, one row per query and one column per cell.

    Parameters
    ----------
    domain
        The axes; cells are counted in C order.
    values
        (k, cells) whole multiples of 1 / ``denominator``.
    denominator
        The whole number that stands for 1.
    """

    domain: Domain
    values: IntArray
    denominator: int = 1
    _bounds: RecordBounds = field(init=False, repr=False)

    def __post_init__(self) -> None:
        values = np.asarray(self.values)
        if values.dtype.kind not in "iub":
            raise ParameterError("values must be whole numbers, in units of 1 / denominator")
        if values.ndim != 2 or not len(values) or values.shape[1] != self.domain.cells:
            raise ParameterError(f"values must be a matrix with a column for each of the {self.domain.cells} cells")
        object.__setattr__(
            self, "denominator", whole("denominator", self.denominator, least=1, most=LARGEST_DENOMINATOR)
        )
        one = column_norms(values)
        object.__setattr__(self, "values", frozen(values.astype(np.int64)))
        object.__setattr__(self, "_bounds", RecordBounds(one, _swap(self.values, one)))
        check_overflow(self)

    @property
    def k(self) -> int:
        """Number of queries."""
        return len(self.values)

    @property
    def bounds(self) -> RecordBounds:
        """The sensitivity: the largest norms of a column of ``values``, and of the difference of two columns."""
        return self._bounds

    def features(self, codes: Codes) -> Features:
        """Return the values of each row's cell, (n, k)."""
        return np.ascontiguousarray(self.values[:, self._flat(codes)].T)

    def sums(self, codes: Codes) -> Totals:
        """Return the exact sums, (k,), from the histogram of the cells."""
        return np.asarray(self.values @ np.bincount(self._flat(codes), minlength=self.domain.cells), np.int64)

    def _flat(self, codes: Codes) -> IntArray:
        """Return the flat cell of each row in the whole domain, (rows,), by which the row's values are looked up."""
        return self.domain.ravel(codes, range(len(self.domain)))


def _swap(values: IntArray, one: Norms) -> Norms:
    """Return bounds of the norms of how k sums change if one row is replaced, from the (k, cells) feature values."""
    k, cells = values.shape
    if cells <= EXACT_PAIRS:
        changes = (column_norms(values[:, cell:] - values[:, cell : cell + 1]) for cell in range(cells))
        return reduce(Norms.either, changes)
    spread = [int(change) for change in values.max(axis=1) - values.min(axis=1)]
    l1, l2_squared = sum(spread), sum(change**2 for change in spread)
    return Norms.within(k, max(spread), l1=min(2 * one.l1, l1), l2_squared=min(4 * one.l2_squared, l2_squared))


@file_form("Stack")
@dataclass(frozen=True, slots=True, eq=False)
class Stack(LinearFamily):
    """The answers of several families, one after the other.

    Parameters
    ----------
    parts
        Families over the same domain; all are brought to the largest denominator, which must be a multiple of each.
    """

    parts: tuple[LinearQueries, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        if not self.parts or any(part.domain is not self.parts[0].domain for part in self.parts):
            raise ParameterError("parts must hold at least one set of queries, and all parts must have the same domain")
        if any(self.denominator % part.denominator for part in self.parts):
            raise ParameterError("the denominator of each of parts must divide the largest of these denominators")
        check_overflow(self)

    @property
    def domain(self) -> Domain:
        """The common axes."""
        return self.parts[0].domain

    @property
    def k(self) -> int:
        """Number of queries in all."""
        return sum(part.k for part in self.parts)

    @property
    def denominator(self) -> int:
        """The whole number that stands for 1 in an answer, for exact sums: the largest of the parts' denominators."""
        return max(part.denominator for part in self.parts)

    @property
    def bounds(self) -> RecordBounds:
        """The sensitivity: the parts' bounds added, each scaled to the common denominator."""
        scaled = (part.bounds.times(self.denominator // part.denominator) for part in self.parts)
        return reduce(RecordBounds.plus, scaled)

    def features(self, codes: Codes) -> Features:
        """Return the parts' features of each row side by side, (n, k), scaled to the common denominator."""
        return np.hstack([part.features(codes) * (self.denominator // part.denominator) for part in self.parts])

    def sums(self, codes: Codes) -> Totals:
        """Return the parts' sums over some rows, one after the other, (k,), scaled to the common denominator."""
        return np.concatenate(
            [part.finish(part.sums(codes)) * (self.denominator // part.denominator) for part in self.parts]
        )


@file_form("Subset")
@dataclass(frozen=True, slots=True, eq=False)
class Subset(LinearFamily):
    """The queries of a family at some positions.

    Parameters
    ----------
    family
        All queries.
    positions
        (k,) positions of the chosen queries in ``family``.
    """

    family: LinearQueries
    positions: IntArray

    def __post_init__(self) -> None:
        positions = np.atleast_1d(self.positions)
        known = positions.size and positions.dtype.kind in "iu"
        if not known or positions.min() < 0 or positions.max() >= self.family.k:
            raise ParameterError(f"positions must be one or more whole numbers from 0 to {self.family.k - 1}")
        object.__setattr__(self, "positions", frozen(positions.astype(np.int64)))

    @property
    def domain(self) -> Domain:
        """The family's axes."""
        return self.family.domain

    @property
    def k(self) -> int:
        """Number of chosen queries."""
        return len(self.positions)

    @property
    def denominator(self) -> int:
        """The family's denominator."""
        return self.family.denominator

    @property
    def bounds(self) -> RecordBounds:
        """The sensitivity: the family's bounds, or tighter bounds from the largest change of each of the k queries."""
        return RecordBounds(self._at_most(self.family.bounds.one), self._at_most(self.family.bounds.swap))

    def features(self, codes: Codes) -> Features:
        """Return the features of each row under the chosen queries, (n, k)."""
        return self.family.features(codes)[:, self.positions]

    def sums(self, codes: Codes) -> Totals:
        """Return the sums of the chosen queries over some rows, (k,)."""
        return self.family.finish(self.family.sums(codes))[self.positions]

    def _at_most(self, norms: Norms) -> Norms:
        """Return bounds on how far a record moves the chosen queries, from the bounds ``norms`` for all queries.

        A query may be chosen several times, which multiplies its change.
        """
        repeats = int(np.unique(self.positions, return_counts=True)[1].max())
        return Norms.within(self.k, norms.linf, l1=norms.l1 * repeats, l2_squared=norms.l2_squared * repeats)


@file_form("FittingRows")
@dataclass(frozen=True, slots=True, eq=False)
class FittingRows(LinearFamily):
    """The queries of a family, of the rows alone whose values all fit the schema.

    Parameters
    ----------
    family
        The queries.  Cells of the family's axes keep their numbers; where an axis joins misfits with other values, misfits
        get a cell of their own.

    Attributes
    ----------
    domain
        The family's axes with misfits apart.
    """

    family: LinearQueries
    domain: Domain = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "domain", domain_with_misfits(self.family.domain))

    @property
    def k(self) -> int:
        """Number of queries."""
        return self.family.k

    @property
    def denominator(self) -> int:
        """The family's denominator."""
        return self.family.denominator

    @property
    def bounds(self) -> RecordBounds:
        """The sensitivity: the family's bounds; replacing a row by one that does not fit is like removing it."""
        bounds = self.family.bounds
        return RecordBounds(bounds.one, bounds.swap.either(bounds.one))

    def features(self, codes: Codes) -> Features:
        """Return the family's features, (n, k), and 0 where a row does not fit."""
        fits = self._fits(codes)
        found = np.zeros((len(codes), self.k), np.int64)
        found[fits] = self.family.features(codes[fits])
        return found

    def sums(self, codes: Codes) -> Totals:
        """Return the family's sums, (k,), over the given rows whose values all fit the schema."""
        return self.family.finish(self.family.sums(codes[self._fits(codes)]))

    def _fits(self, codes: Codes) -> BoolArray:
        """Return a (rows,) mask of rows that are in domain in every column."""
        fits = np.ones(len(codes), np.bool_)
        for j, axis in enumerate(self.domain.axes):
            fits &= axis.releasable[codes[:, j]]
        return fits
