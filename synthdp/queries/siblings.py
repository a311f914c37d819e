"""Pairs of rows of one parent row where rows have no order: members of a household, claims of a person.

All pairs of a person count as one together: of its k pairs, each counts 1 / k.  Of many rows only the
first few, by the hash that numbers them, make pairs: they are as good as any others, and a weight stays a whole number.
"""

from __future__ import annotations

import math

import numpy as np

from synthdp.arrays import FloatArray, IntArray
from synthdp.queries.persons import Persons, Rows

MOST_SIBLINGS = 8
"""Most rows of a parent that form pairs; a row is related to at most one less earlier rows.  A safety limit of time."""


def pairs_of(rows: Rows) -> tuple[IntArray, IntArray]:
    """Return the positions of the earlier and the later row of each pair of sibling rows, (pairs,) each.

    Of each parent only the first `MOST_SIBLINGS` rows form pairs.
    """
    inside = rows.rank < MOST_SIBLINGS
    later = [np.flatnonzero(inside & (rows.rank >= back)) for back in range(1, MOST_SIBLINGS)]
    earlier = [some - back for back, some in enumerate(later, start=1)]
    return np.concatenate(earlier), np.concatenate(later)


def pair_shares(persons: Persons, table: int, *, ordered: bool) -> IntArray:
    """Return, for each row, the weight of each pair in which it is the later one, (rows,); 0 where it forms none.

    Weights are whole numbers: all pairs of one person share `Persons.whole`, so that a person counts as one.

    Parameters
    ----------
    persons, table
        Whose rows.
    ordered
        Whether each pair counts twice, once in either order, with half of the weight.
    """
    rows = persons.tables[table]
    inside = (rows.rank >= 1) & (rows.rank < MOST_SIBLINGS)
    return persons.divided(table, np.where(inside, rows.rank * (2 if ordered else 1), 0))


def symmetric(upper: FloatArray) -> FloatArray:
    """Make a table of unordered pairs symmetric: half of each count above the diagonal goes below it.

    Only the cells on and above the diagonal are measured.
    """
    kept = np.triu(upper)
    return np.asarray((kept + kept.T) / 2, np.float64)


def symmetric_stddev(stddev: float, groups: int) -> float:
    """Return the root mean square of the noise in a symmetric table's cells, from the noise of its upper half.

    ``groups`` is the number of its rows.
    """
    return stddev * math.sqrt((1 + (groups - 1) / 4) / groups)
