"""What a release's noise means in the words of statistics offices: how large a cell must be to be told from an empty one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from synthdp.privacy.receipt import Receipt
from synthdp.queries.marginals import Marginals
from synthdp.release import Release

FALSE_ALARM = 0.05
"""How often noise alone makes an empty cell look as if it held k people: the usual level of a test."""

ORDERS = {1: "single columns", 2: "pairs of columns", 3: "triples of columns"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSize:
    """The size of a cell below which it cannot be told from an empty one.

    Parameters
    ----------
    order
        Of how many columns the table with the least noise is.
    columns
        These columns.
    stddev
        Standard deviation of the noise of its cells, all measurements of the table together.
    k
        The size.
    """

    order: int
    columns: tuple[str, ...]
    stddev: float
    k: int


def cell_sizes(release: Release[Any]) -> tuple[CellSize, ...]:
    """Return for tables of one, two and more columns the k of the one that was measured with the least noise.

    An empty cell shows k or more with probability 5 % at most: k is that quantile of its noise, 1.645 σ for a Gaussian.
    Measurements of one table are combined by their precision, 1 / σ² = Σ 1 / σᵢ²; what a table of more columns tells of
    it has more noise and is left out.
    """
    precision: dict[tuple[str, ...], float] = {}
    multiple: dict[tuple[str, ...], float] = {}
    for one in release.measurements:
        if isinstance(one.queries, Marginals) and one.stddev > 0:
            for clique in one.queries.cliques:
                axes = [one.queries.domain.axes[j] for j in clique]
                columns = tuple(axis.name for axis in axes if axis.size > 1)  # one cell parts no rows
                if not columns:
                    continue
                precision[columns] = precision.get(columns, 0.0) + one.stddev**-2
                multiple[columns] = max(multiple.get(columns, 0.0), one.quantile(2 * FALSE_ALARM) / one.stddev)
    best: dict[int, tuple[str, ...]] = {}
    for columns, sharpness in precision.items():
        if sharpness > precision.get(best.get(len(columns), ()), 0.0):
            best[len(columns)] = columns
    return tuple(
        CellSize(
            order=order, columns=best[order], stddev=precision[best[order]] ** -0.5,
            k=math.ceil(multiple[best[order]] * precision[best[order]] ** -0.5),
        )
        for order in sorted(best)
    )  # fmt: skip


def office_words(release: Release[Any]) -> list[str]:
    """Return the answer to "what is epsilon in our terms?", with how its figure was found; each a sentence or two."""
    sizes, receipt = cell_sizes(release), release.receipt
    if not sizes:
        return ["No table of counts was measured: there is no size of a cell below which this release hides one."]
    who, least = who_counts(receipt), min(sizes, key=lambda size: size.k)
    found = (
        f"Counts were published with noise. In the table with the least noise, {' × '.join(least.columns)}, its standard "
        f"deviation is {least.stddev:.3g}; an empty cell then shows {least.k} or more with a probability of 5 % at most, so "
        f"that a cell with fewer {who} cannot be told from an empty one at the usual level."
    )
    picture = (
        "This is a picture, not the promise: nothing was suppressed, and what protects a person is the noise in every "
        f"answer; its worst case is {receipt.total}. Cells of the synthetic table may be smaller than k; they are made up."
    )
    lines = [f"It is about as if every cell below {least.k} {who} were suppressed.", found]
    lines += [
        f"{ORDERS.get(size.order, f'tables of {size.order} columns').capitalize()}: k = {size.k} (least noise: "
        f"{' × '.join(size.columns)}, standard deviation {size.stddev:.3g})."
        for size in sizes
    ]
    return [*lines, picture]


def who_counts(receipt: Receipt) -> str:
    """Return what a count is of: people, where each is one row."""
    return "people" if receipt.adjacency.rows == 1 and not receipt.adjacency.tables else "rows"
