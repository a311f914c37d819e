"""The ridge of a noisy table: how far a fit trusts its counts against the model.  Post-processing of noisy answers."""

from __future__ import annotations

import numpy as np

from synthdp.arrays import FloatArray

RIDGES = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Ridges that are tried for a table, in multiples of its noise; the larger, the less the fit trusts the table.  A grid:
its steps of about two are a tolerance."""


def best_ridge(counts: FloatArray, expected: FloatArray, stddev: float) -> float:
    """Return the ridge of a table, in multiples of its noise, with the least estimated risk.

    A ridge of v moves a cell from its expected count m towards the noisy count y.  The fraction of the way is s = m /
    (m + v).  The squared error of this linear rule has an unbiased estimate: sum (1 - s)^2 (y - m)^2 + 2 s sigma^2
    (Stein 1981).  Each cell is weighted by 1 / (m + sigma), which makes squares comparable to absolute errors.

    Parameters
    ----------
    counts
        (cells,) noisy counts y, in rows.
    expected
        (cells,) counts m under the model before this table was measured, in rows, >= 0.
    stddev
        Standard deviation sigma of the noise of a cell, in rows.
    """
    weight = 1 / (expected + stddev)
    squared = (counts - expected) ** 2
    risks = []
    for ridge in RIDGES:
        trust = expected / (expected + ridge * stddev)
        risks.append(float((weight * ((1 - trust) ** 2 * squared + 2 * trust * stddev**2)).sum()))
    return RIDGES[int(np.argmin(risks))]
