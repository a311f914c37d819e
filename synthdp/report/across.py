"""Significant relations between columns of several tables, from a release's noisy person marginals alone."""

from __future__ import annotations

import math

import numpy as np

from synthdp.answers.related.known import noisy_person_tables
from synthdp.arrays import FloatArray
from synthdp.domain.histories import STATE
from synthdp.queries.person_tables import Kind, PersonTable
from synthdp.release import Release
from synthdp.report.relations import centred, deviation
from synthdp.sampling.database_model import DatabaseModel

Key = tuple[str, str, str, str]
"""Table and column of the parent row or of the other row, then table and column of the row."""

SAME = (Kind.STEP, Kind.BEFORE, Kind.SIBLING, Kind.ENTRY)
"""Kinds of person marginals that count pairs of rows of one table, in which relations between these rows are looked
for."""


def clear_pairs(release: Release[DatabaseModel]) -> frozenset[Key]:
    """Return the pairs of columns with a significant relation, beyond noise and chance, as (table, column) twice.

    The first is the parent row's column, or the other row's; the second the row's.  The page shows only these pairs.
    Each person counts at most once in each marginal.  So chance among persons is at most as large as among that number
    of independent rows.
    """
    measured = [one[1:] for one in noisy_person_tables(release.measurements)]
    names = release.output.layout.schema.names
    rows = {(one.table, one.attribute): counts.sum(axis=0) for one, counts, _ in measured if one.kind is Kind.ONE}
    found = set()
    for one, counts, stddev in measured:
        if one.attribute == STATE:
            continue
        child = names[one.table]
        if one.kind in (Kind.STAY, Kind.ALIKE):
            if _more_alike(counts.ravel(), rows.get((one.table, one.attribute)), stddev):
                found.add((child, one.attribute, child, one.attribute))
        elif (one.kind is Kind.PARENT or one.kind in SAME) and _stands_out(one, counts, stddev, len(measured)):
            above = names[one.above] if one.kind is Kind.PARENT else child
            found.add((above, one.other, child, one.attribute))
    return frozenset(found)


def _stands_out(one: PersonTable, counts: FloatArray, stddev: float, tests: int) -> bool:
    """Return whether a marginal of two columns differs significantly from independence.

    The significance is corrected for ``tests`` simultaneous tests.  A marginal with one bin or without rows does not.
    ``stddev`` is the noise of one count.
    """
    if min(counts.shape) < 2:
        return False
    counts = (counts + counts.T) / 2 if one.symmetric else counts  # of two rows in no order
    margins = [np.maximum(counts.sum(axis=axis), 0.0) for axis in (1, 0)]
    if min(float(margin.sum()) for margin in margins) <= 0:
        return False
    p, q = (margin / margin.sum() for margin in margins)
    total = max(float(counts.sum()), 1.0)
    return deviation(centred(counts), stddev**2, (p, q), (math.inf, math.inf), np.outer(p, q), total).stands_out(tests)


SURE = 5.0
"""Standard deviations by which the count of equal values must exceed chance to be significant.  It is high because many
columns are tested.  Less would report chance; more overlooks columns that repeat a little.  A tolerance."""


def _more_alike(same: FloatArray, rows: FloatArray | None, stddev: float) -> bool:
    """Return whether two rows have the same value significantly more often than two rows drawn at random.

    Without the counts of single rows, any significant count of equal values is enough.  ``same`` and ``rows`` (bins,)
    count pairs of equal values and single rows; ``stddev`` is the noise of one count.
    """
    if rows is None or len(rows) != len(same):
        return float(same.sum()) > SURE * stddev * math.sqrt(len(same))
    total = max(float(rows.sum()), 1.0)
    shares = np.maximum(rows, 0.0) / max(float(np.maximum(rows, 0.0).sum()), 1e-300)
    return float(same.sum()) - total * float(shares @ shares) > SURE * math.sqrt(len(same) * stddev**2 + total)
