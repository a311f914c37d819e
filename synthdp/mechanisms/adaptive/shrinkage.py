"""How far a noisy table is trusted against what the model expects of it.  Post-processing of noisy answers."""

from __future__ import annotations

import numpy as np

from synthdp.arrays import FloatArray

RIDGES = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Ridges that are tried for a table, in multiples of its noise: the larger, the less the fit trusts the table.  A grid:
its steps of about two are a tolerance.
"""


def best_ridge(counts: FloatArray, expected: FloatArray, stddev: float) -> float:
    """Return the ridge of a table, in multiples of its noise, with the least estimated risk.

    A ridge of v lets the fit move a cell of expected count m by m / (m + v) of the way from m to the noisy count.  The
    squared error of such a linear rule has the unbiased estimate sum (1 - s)^2 (y - m)^2 + 2 s sigma^2 (Stein 1981);
    each cell is weighed by 1 / (m + sigma), which makes squares comparable to absolute errors.

    Parameters
    ----------
    counts
        (cells,) noisy counts y.
    expected
        (cells,) counts m under the model before this table, >= 0.
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
