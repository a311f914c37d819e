"""What the curator can be asked: integer statistics of a table, with exact bounds on what one record changes.

A statistic is computed in two steps, so that rows may live in chunks or on other machines.  ``sums`` is additive over
rows; ``finish`` computes the answers from the sums over all rows.  For linear queries ``finish`` is the identity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from synthdp.arrays import LARGEST_WHOLE, Codes, Features, FloatArray, IntArray, Totals
from synthdp.domain.domain import Domain
from synthdp.errors import SensitivityError
from synthdp.queries.norms import Norms as Norms, RecordBounds as RecordBounds  # noqa: PLC0414 - also here

if TYPE_CHECKING:
    from scipy.sparse import csr_array
    from typing_extensions import TypeIs

    from synthdp.queries.person_tables import NoisyPersonTable

CHUNK_CELLS = 4_000_000
"""Most feature values (rows times queries) in memory at once while rows are summed.  A safety limit of memory."""

LARGEST_TABLE = 2**34
"""Most rows of a table for which every sum is guaranteed to fit 63 bits.  More would allow smaller features only.  A
safety limit."""

MOST_ANSWERS = 2**31
"""Most answers that noise is added to at once: 16 GiB as 8-byte numbers.  A safety limit of memory."""


@runtime_checkable
class Bounded(Protocol):
    """k whole numbers computed from a table; replacing or adding one record changes them by a bounded amount."""

    @property
    def k(self) -> int:
        """Number of answers."""
        ...

    @property
    def denominator(self) -> int:
        """The whole number that stands for 1 in an answer, so that fractions are computed as whole numbers."""
        ...

    @property
    def bounds(self) -> RecordBounds:
        """The sensitivity: exact bounds on the change between neighbouring tables, in whole numbers."""
        ...


@runtime_checkable
class KeyStatistic(Bounded, Protocol):
    """k whole numbers computed from the number of occurrences of each record key, for universes too large to list."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns whose values make up the key of a record."""
        ...

    def key_totals(self, counts: Mapping[str, int]) -> Totals:
        """Return the (k,) answers from the count of each key that occurs."""
        ...


@runtime_checkable
class Statistic(Bounded, Protocol):
    """k whole numbers computed from the bins that a table's rows lie in; what the curator can be asked."""

    @property
    def domain(self) -> Domain:
        """The columns that are read, and the bins of each."""
        ...

    def sums(self, codes: Codes) -> Totals:
        """Return the sums over some rows, given as (n, d) bin codes; their length is the statistic's own.

        The sums add up over all rows, so that rows may come in chunks.
        """
        ...

    def finish(self, sums: Totals) -> Totals:
        """Return the (k,) answers from the sums over all rows."""
        ...


@runtime_checkable
class AddingStatistic(Statistic, Protocol):
    """A statistic of perhaps millions of sums; several threads add to one shared array in place."""

    @property
    def cells_added(self) -> int:
        """Length of the array of sums that `add_sums` adds to."""
        ...

    def add_sums(self, totals: Totals, codes: Codes, *, adding: AbstractContextManager[object]) -> None:
        """Add the sums over some rows to ``totals`` in place, holding the lock ``adding`` while it changes."""
        ...


@runtime_checkable
class LinearQueries(Statistic, Protocol):
    """k linear queries q(D) = sum of phi(row) over the rows of D, where phi maps a row's bins to k whole numbers."""

    def features(self, codes: Codes) -> Features:
        """Return phi of each row, what it adds to each query: (n, k) whole numbers from (n, d) bin codes."""
        ...


@runtime_checkable
class SparseFeatures(Protocol):
    """Linear queries to which a row adds something in a few answers only, such as counts of cells."""

    def sparse_features(self, codes: Codes) -> csr_array:
        """Return the same numbers as `LinearQueries.features`, (n, k), as a sparse matrix."""
        ...


@runtime_checkable
class CellCounting(Protocol):
    """A statistic some of whose answers count the rows in one bin of a column, such as the out-of-domain bin."""

    @property
    def domain(self) -> Domain:
        """The columns that are read, and the bins of each."""
        ...

    def place_of(self, column: int, cell: int) -> int | None:
        """Return the position of the answer that counts the rows in bin ``cell`` of a column; ``None`` if there is none.

        Such a count shows how many rows are out of domain.
        """
        ...


@runtime_checkable
class Scaled(Protocol):
    """A statistic whose tables are each multiplied by a whole number of their own.

    All answers get the same noise, so a table with a larger factor has less noise in rows.
    """

    @property
    def ones(self) -> Sequence[int] | IntArray:
        """(tables,) the factor of each table, at least 1: what one row (or person) adds to a count of that table."""
        ...


@runtime_checkable
class InUnit(Protocol):
    """A statistic whose answers count something other than rows, which receipts must name."""

    @property
    def unit(self) -> str:
        """What an answer counts, as a plural noun for receipts."""
        ...


@runtime_checkable
class TellsPersonTables(Protocol):
    """Queries whose answers are tables of persons."""

    def noisy_person_tables(self, answers: FloatArray, stddev: float) -> list[NoisyPersonTable]:
        """Return (k,) noisy answers as tables in persons, for a fit; ``stddev`` is the noise stddev of an answer."""
        ...


def about_keys(statistic: Statistic | KeyStatistic) -> TypeIs[KeyStatistic]:
    """Return whether a statistic is about record keys.

    Only its type is looked at, since properties may be costly to compute.
    """
    return hasattr(type(statistic), "key_totals")


def unit_of(queries: Bounded) -> str:
    """Return what an answer counts: "rows", unless the statistic names another unit."""
    queries = getattr(queries, "family", queries)
    return queries.unit if isinstance(queries, InUnit) else "rows"


def noise_range(queries: Bounded, stddev: float) -> tuple[float, float]:
    """Return the smallest and largest standard deviation of any answer's noise, in the unit of `unit_of`, such as rows.

    The two differ for a `Scaled` statistic only.

    Parameters
    ----------
    queries
        The queries that were answered.
    stddev
        Standard deviation of the noise on each number, after division by the denominator.
    """
    family = getattr(queries, "family", queries)
    if not isinstance(family, Scaled):
        return stddev, stddev
    in_whole_numbers = stddev * queries.denominator
    return in_whole_numbers / max(family.ones), in_whole_numbers / min(family.ones)


def real_answers(queries: Bounded, values: Totals | IntArray) -> np.ndarray:
    """Return whole-number answers as real numbers, (k,): divided by the denominator."""
    return np.asarray(values / float(queries.denominator), np.float64)


def check_overflow(queries: Bounded) -> None:
    """Raise an error if a sum over `LARGEST_TABLE` rows might exceed 63 bits, or there are too many answers to hold.

    Raises
    ------
    SensitivityError
        If either holds; the message says what to lower.
    """
    most = queries.bounds.one.linf
    if most * LARGEST_TABLE >= LARGEST_WHOLE:
        raise SensitivityError(
            f"one record can change an answer by {most}, which is too much for sums in 64 bits: give a smaller "
            "denominator or resolution"
        )
    if queries.k > MOST_ANSWERS:
        raise SensitivityError(
            f"the queries have {queries.k} answers together, more than the limit of {MOST_ANSWERS}: use fewer or "
            "smaller marginals"
        )
