"""Counts of all pairs of cells of any two columns at once, by one symmetric matrix product: exact, fast for many columns.

What `scores.pair_distances` sums rows with.  Knows codes and sizes, no domain, no noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager

import numpy as np
from scipy.linalg.blas import ssyrk

from synthdp.arrays import AnyArray, Codes, IntArray, Totals

MOST_ENTRIES = 2**25
"""Most indicators that are multiplied at once: 128 MiB in single precision."""

MOST_ROWS = 2**14
"""Most rows that are multiplied at once: sums of so many ones are exact in single precision (below 2^24)."""


def indicators(shape: Sequence[int]) -> int:
    """Return the number of indicators of columns of these sizes: the constant one, and all cells of each but its first."""
    return 1 + sum(size - 1 for size in shape)


def add_pair_counts(
    totals: Totals, codes: Codes, shape: Sequence[int], *, adding: AbstractContextManager[object]
) -> None:
    """Add how many rows have each two of the indicators to the upper triangle of a matrix of counts.

    The indicators are the constant one, then for each column in turn one for every cell but the first: all counts of pairs
    of cells follow from theirs, see `pair_tables`.

    Parameters
    ----------
    totals
        (k * k,) counts so far, k the number of `indicators`.
    codes
        (n, d) cell codes.
    shape
        Numbers of cells of the d columns.
    adding
        Held while counts are added: a lock where several threads add to the same ones.
    """
    size = indicators(shape)
    counts = totals.reshape(size, size)
    step = max(1, min(MOST_ROWS, MOST_ENTRIES // size))
    for start in range(0, len(codes), step):
        some = codes[start : start + step]
        ones = np.empty((size, len(some)), np.float32)
        ones[0] = 1
        place = 1
        for j, cells in enumerate(shape):
            column = np.ascontiguousarray(some[:, j])
            for cell in range(1, cells):
                ones[place] = column == cell
                place += 1
        product = ssyrk(1.0, ones.T, trans=1, lower=1).T.astype(np.int32)
        with adding:
            np.add(counts, product, out=counts)


def pair_tables(totals: Totals, shape: Sequence[int]) -> Iterator[tuple[Totals, IntArray]]:
    """Yield for each column but the last its tables with all later columns, side by side.

    Parameters
    ----------
    totals
        (k * k,) what `add_pair_counts` counted.
    shape
        Numbers of cells of the d columns, at least 2 each.

    Yields
    ------
    The counts, (cells of the column, all cells of all later columns); and where each later column begins.
    """
    size = indicators(shape)
    counts = totals.reshape(size, size)
    ends = np.cumsum([1, *(cells - 1 for cells in shape)])
    margins = [_with_first(counts[0, ends[j] : ends[j + 1]], counts[0, 0]) for j in range(len(shape))]
    for j in range(len(shape) - 1):
        block = counts[ends[j] : ends[j + 1], ends[j + 1] :]
        block = np.vstack([counts[0, ends[j + 1] :] - block.sum(axis=0), block])
        inner = ends[j + 1 : -1] - ends[j + 1]
        first = margins[j][:, None] - np.add.reduceat(block, inner, axis=1)
        yield np.insert(block, inner, first, axis=1), inner + np.arange(len(inner))


def _with_first(counts: AnyArray, total: int) -> AnyArray:
    return np.concatenate([[total - counts.sum()], counts])
