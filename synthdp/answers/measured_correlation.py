"""The correlation of two columns whose table was measured: a weighted sum of noisy counts, with an exact error.

A fit makes strong relations weaker where the noise in a cell is about as large as the rows there, because it takes a part
of them for noise.  The sum over all cells has much less noise than each, and is not weakened.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from synthdp.answers.answers import NORMAL
from synthdp.answers.direct import GLSEstimates
from synthdp.answers.grouping import QuestionBinning
from synthdp.arrays import FloatArray


def measured_correlation(
    direct: GLSEstimates, groupings: Sequence[QuestionBinning], law: FloatArray
) -> tuple[float, float] | None:
    """Return the correlation of two columns from noisy counts alone, and its standard error.

    The noisy covariance is divided by the standard deviations between coarse bins under the model, which single columns
    tell with little noise: for normal variables the relation inside bins is as strong as between them.  The error includes
    the noise, the error of the standard deviations, and a relation inside bins that is uniform from none to twice as strong.

    Parameters
    ----------
    direct
        The noisy tables.
    groupings
        Of both columns, in the order of the model: one group, with powers of values.
    law
        The model's probabilities of their coarse bins, flat.

    Returns
    -------
    ``None`` if the table of both columns was not measured, or if one of them does not vary.
    """
    clique = tuple(grouping.column for grouping in groupings)
    if not direct.has(clique):
        return None
    shares = [grouping.cell_share for grouping in groupings]
    table = law.reshape([len(share) for share in shares])
    here = float(shares[0][:, 0] @ table @ shares[1][:, 0])
    if here <= 0:
        return None
    centred, spreads, between = [], [], 1.0
    for share, margin in zip(shares, (table @ shares[1][:, 0], shares[0][:, 0] @ table), strict=True):
        rows, sums, squares = share.T
        mean = float(sums @ margin) / here
        variance = float(squares @ margin) / here - mean**2
        values = sums - mean * rows
        if variance <= 0:
            return None
        of_bins = np.divide(values**2, rows, out=np.zeros(len(rows)), where=rows > 0)
        centred.append(values)
        spreads.append(math.sqrt(variance))
        between *= float(of_bins @ margin) / here / variance
    covariance, noise = (float(found[0]) for found in direct.linear(clique, np.outer(*centred).reshape(1, -1)))
    scale = direct.total[0] * here * spreads[0] * spreads[1] * math.sqrt(between)
    estimate = covariance / scale
    inside = abs(estimate) * (1 - math.sqrt(between)) / math.sqrt(3)  # the stddev of that uniform law
    of_spreads = abs(estimate) * math.hypot(*(direct.variance_error(column) for column in clique)) / 2
    return estimate, math.hypot(noise / scale, inside, of_spreads)


def combined(estimate: FloatArray, stddev: FloatArray, counted: float, noise: float) -> tuple[FloatArray, FloatArray]:
    """Return correlations and their standard errors, (q,) each, from the model's answers and the noisy counts'.

    The estimate is the mean of both, weighted by precision.  Both rest on the same noise, so its standard error is the
    smaller one.  What the noisy counts contradict beyond their noise is an error of the model, too.  It moves the
    estimate only if their 95 % interval does not hold the model's answer: else noise alone would move weak relations.

    Parameters
    ----------
    estimate, stddev
        (q,) answers of the model and their standard errors.
    counted, noise
        The correlation by the noisy counts, and its standard error.
    """
    contradicted = np.maximum((counted - estimate) ** 2 - noise**2, 0.0)
    clearly = np.where(np.abs(counted - estimate) > NORMAL * noise, contradicted, 0.0)
    weight = (stddev**2 + clearly) / np.maximum(stddev**2 + clearly + noise**2, 1e-300)
    return estimate + weight * (counted - estimate), np.minimum(np.hypot(stddev, np.sqrt(contradicted)), noise)
