"""Pairs of rows of one parent row where rows have no order: members of a household, claims of a person.

All pairs of a person count as one together: of its k pairs, each counts 1 / k.  Of many rows only the
first few, by the hash that numbers them, make pairs: they are as good as any others, and a weight stays a whole number.
"""

from __future__ import annotations

import math

import numpy as np

from synthdp.arrays import FloatArray, IntArray
from synthdp.queries.related.persons import Persons, Rows

MOST_SIBLINGS = 8
"""Rows of a parent row that make pairs, and how many earlier rows less one a row is drawn by.  A safety limit."""


def pairs_of(rows: Rows) -> tuple[IntArray, IntArray]:
    """Return the earlier and the later row of each pair, as positions."""
    inside = rows.rank < MOST_SIBLINGS
    later = [np.flatnonzero(inside & (rows.rank >= back)) for back in range(1, MOST_SIBLINGS)]
    earlier = [some - back for back, some in enumerate(later, start=1)]
    return np.concatenate(earlier), np.concatenate(later)


def pair_shares(persons: Persons, table: int, *, ordered: bool) -> IntArray:
    """Return for each row the weight of a pair that it is the later row of; 0 where it makes none.

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
    """Return the table of pairs in either order, of one whose cells below the diagonal say nothing."""
    kept = np.triu(upper)
    return np.asarray((kept + kept.T) / 2, np.float64)


def symmetric_stddev(stddev: float, groups: int) -> float:
    """Return the root mean square of the noise in the cells of a symmetric table, from its upper half's."""
    return stddev * math.sqrt((1 + (groups - 1) / 4) / groups)
