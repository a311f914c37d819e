"""What the curator can be asked: integer statistics of a table, with exact bounds on what one record changes.

A statistic is computed in two steps, so that rows may live in chunks or on other machines: ``sums`` is additive over
rows, ``finish`` is a function of the sums.  For linear queries ``finish`` is the identity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

import numpy as np

from synthdp.arrays import LARGEST_WHOLE, Codes, Features, IntArray, Totals
from synthdp.domain.domain import Domain
from synthdp.errors import SensitivityError
from synthdp.queries.norms import Norms as Norms, RecordBounds as RecordBounds  # noqa: PLC0414 - also here

CHUNK_CELLS = 4_000_000
"""Most feature values held at once while summing rows.  A safety limit."""

LARGEST_TABLE = 2**34
"""Rows for which no sum leaves 63 bits.  A safety limit."""

MOST_ANSWERS = 2**31
"""Most numbers that are noised at once: 16 GiB of them.  A safety limit."""


@runtime_checkable
class Bounded(Protocol):
    """k whole numbers computed from a table, which move by a bounded amount between neighbours."""

    @property
    def k(self) -> int:
        """Number of answers."""
        ...

    @property
    def denominator(self) -> int:
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
class AddingStatistic(Statistic, Protocol):
    """A statistic of perhaps millions of sums, which are added in place: several threads share one array of them."""

    @property
    def cells_added(self) -> int:
        """Number of the sums."""
        ...

    def add_sums(self, totals: Totals, codes: Codes, *, adding: AbstractContextManager[object]) -> None:
        """Add what ``sums`` returns to ``totals``, holding ``adding`` while they change."""
        ...


@runtime_checkable
class LinearQueries(Statistic, Protocol):
    """k linear queries given by one record map phi: cell -> Z^k; q(D) is the sum of phi over the rows of D."""

    def features(self, codes: Codes) -> Features:
        """Return phi of every row: (n, d) -> (n, k)."""
        ...


@runtime_checkable
class CellCounting(Protocol):
    """A statistic some of whose answers count the rows in one cell of one column."""

    @property
    def domain(self) -> Domain:
        """Which columns are read, and in which cells."""
        ...

    def place_of(self, column: int, cell: int) -> int | None:
        """Return which answer counts the rows in a cell of a column; ``None`` if none does."""
        ...


@runtime_checkable
class Scaled(Protocol):
    """A statistic whose tables each count rows (or persons) by a whole number of their own."""

    @property
    def ones(self) -> Sequence[int] | IntArray:
        """For each table the whole number, at least 1, that stands for one row."""
        ...


@runtime_checkable
class InUnit(Protocol):
    """A statistic whose answers count something else than rows."""

    @property
    def unit(self) -> str:
        """Return what an answer counts, as a plural noun for receipts."""
        ...


def unit_of(queries: Bounded) -> str:
    """Return what an answer counts: "rows", unless the statistic names another unit."""
    queries = getattr(queries, "family", queries)
    return queries.unit if isinstance(queries, InUnit) else "rows"


def noise_range(queries: Bounded, stddev: float) -> tuple[float, float]:
    """Return the least and the largest standard deviation of an answer's noise, in the unit of `unit_of`.

    Parameters
    ----------
    queries
        What was asked.
    stddev
        Of the noise on each number, in multiples of the denominator.
    """
    family = getattr(queries, "family", queries)
    if not isinstance(family, Scaled):
        return stddev, stddev
    in_whole_numbers = stddev * queries.denominator
    return in_whole_numbers / max(family.ones), in_whole_numbers / min(family.ones)


def real_answers(queries: Bounded, values: Totals | IntArray) -> np.ndarray:
    """Return whole-number answers as real ones: divided by the denominator."""
    return np.asarray(values / float(queries.denominator), np.float64)


def check_overflow(queries: Bounded) -> None:
    """Refuse a statistic whose sum over `LARGEST_TABLE` rows might leave 63 bits, or that is too long to be held.

    Raises
    ------
    SensitivityError
        With what to lower.
    """
    most = queries.bounds.one.linf
    if most * LARGEST_TABLE >= LARGEST_WHOLE:
        raise SensitivityError(
            f"a record can add {most} to an integer sum, which may then exceed 64 bits: lower the resolution"
        )
    if queries.k > MOST_ANSWERS:
        raise SensitivityError(
            f"a query has {queries.k} answers, more than {MOST_ANSWERS}: use fewer or smaller marginals"
        )
