"""The hooks by which a mechanism uses public data, and the hooks of a release without public data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from synthdp.distribution.distribution import Distribution
from synthdp.mechanisms.adaptive.knowledge import Knowledge
from synthdp.mechanisms.column_tree import OneWay
from synthdp.randomness import Generator
from synthdp.sampling.exact_tables import ExactTable
from synthdp.schema.schema import Schema


class Public(Protocol):
    """Hooks by which the mechanism uses public data (a public table, exact totals).

    Each method is called at one stage.  All are post-processing and cost nothing.
    """

    def notes(self, schema: Schema, /) -> tuple[str, ...]:
        """Return the receipt's sentences on the public data that was used."""
        ...

    def columns(self, columns: tuple[OneWay, ...], /, *, total: float) -> tuple[OneWay, ...]:
        """Return the estimates of single columns, improved by public data on these columns."""
        ...

    def rows_per_group(self, target: float, /, *, total: float) -> float:
        """Return how many rows a coarse bin should hold.

        Without public data, noise allows ``target`` rows; public data may allow fewer, and so finer bins.
        """
        ...

    def pinned(self, columns: Sequence[OneWay], /) -> list[frozenset[int]]:
        """Return, for each column, the fine bins that public totals name, which must not be merged with others."""
        ...

    def added_to(self, known: Knowledge, /) -> Knowledge:
        """Return the state with public tables of several columns added, and with the number of rows in these tables."""
        ...

    def fitted(self, known: Knowledge, /, *, alone: Callable[[], Distribution], rng: Generator) -> Distribution:
        """Return the model of all noisy answers and public data; calling ``alone`` fits the noisy answers alone."""
        ...

    def exact(self, known: Knowledge, /) -> tuple[ExactTable, ...]:
        """Return the public tables that synthetic rows must reproduce exactly."""
        ...


@dataclass(frozen=True, slots=True)
class NothingPublic:
    """Hooks for a release without public data: each returns its argument, or nothing."""

    def notes(self, _schema: Schema, /) -> tuple[str, ...]:
        """Return no notes, as there is no public data."""
        return ()

    def columns(self, columns: tuple[OneWay, ...], /, *, total: float) -> tuple[OneWay, ...]:  # noqa: ARG002
        """Return the columns unchanged, as there is no public data."""
        return columns

    def rows_per_group(self, target: float, /, *, total: float) -> float:  # noqa: ARG002
        """Return the target unchanged, as there is no public data."""
        return target

    def pinned(self, columns: Sequence[OneWay], /) -> list[frozenset[int]]:
        """Return no bins, as no public total names a value."""
        return [frozenset() for _ in columns]

    def added_to(self, known: Knowledge, /) -> Knowledge:
        """Return the state unchanged, as there is no public data."""
        return known

    def fitted(self, _known: Knowledge, /, *, alone: Callable[[], Distribution], rng: Generator) -> Distribution:  # noqa: ARG002
        """Return the model of the noisy answers alone, as there is no public data."""
        return alone()

    def exact(self, _known: Knowledge, /) -> tuple[ExactTable, ...]:
        """Return no tables, as there is no public data that rows must reproduce."""
        return ()
