"""What the noisy answers of all periods so far say: prefix sums and sums of single periods, with their noise.

Answers y_1 ... y_t of one statistic are F x plus noise, so x is estimated by F^-1 y: exactly, whatever rounding made F.
Post-processing of noisy answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from synthdp.arrays import FloatArray, IntArray
from synthdp.measurements import Measurements, Noise, NoiseLaw
from synthdp.privacy.calibration import LEAST_SIGMA
from synthdp.queries.distances import MarginalDistances, PairDistances
from synthdp.queries.protocol import Statistic

LARGEST = 2.0**60
"""Decoded sums are scaled to whole numbers below this.  A safety limit, so that they fit 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Repeated:
    """A statistic that is asked in every period of a plan, and how its noise was added, so that answers can be decoded.

    Parameters
    ----------
    queries
        The statistic.
    multiplier
        By which the weighted sums were multiplied before the noise.
    sigma
        Scale of the noise on each answer.
    """

    queries: Statistic
    multiplier: int
    sigma: float

    def decoded(self, factor: IntArray, answers: Sequence[IntArray], weights: FloatArray) -> Measurements:
        """Return a weighted sum of a statistic over all periods so far, decoded from the noisy answers.

        Parameters
        ----------
        factor
            Of the plan.
        answers
            (k,) noisy answers of each period so far.
        weights
            (t,) how often the rows of each of these periods count: all 1 for the sum over all rows so far.
        """
        count = len(answers)
        decoder = weights @ np.linalg.inv(factor[:count, :count].astype(np.float64)) / self.multiplier
        sums = decoder @ np.array([np.asarray(one, np.float64) for one in answers])
        stddev = self.sigma * float(np.linalg.norm(decoder))
        return whole_answers(self.queries, sums, stddev)


def whole_answers(queries: Statistic, sums: FloatArray, stddev: float) -> Measurements:
    """Return noisy sums as measurements, rounded to whole multiples of a unit far finer than their noise.

    Releases and fits take measurements, whose values are whole numbers.

    Parameters
    ----------
    queries
        The statistic.
    sums
        (k,) noisy sums, in its whole numbers.
    stddev
        Standard deviation of their noise.
    """
    most = LARGEST / max(float(np.abs(sums).max(initial=1.0)), 1.0)
    resolution = 2 ** max(0, min(math.ceil(math.log2(LEAST_SIGMA / stddev)), math.floor(math.log2(most))))
    law = Noise(law=NoiseLaw.GAUSSIAN, scale=stddev * resolution, k=queries.k)
    return Measurements(
        queries=queries, values=np.rint(sums * resolution).astype(np.int64), resolution=resolution, noise=law
    )


def of_fewer_rows(measured: Measurements, times: float) -> Measurements:
    """Rescale measured distances from independence to a table of fewer rows, as the same fraction of its rows.

    They are asked only once.  Answers of any other kind are returned unchanged.

    Parameters
    ----------
    measured
        Noisy distances.
    times
        How many times as many rows it had.
    """
    asked = measured.queries
    if not isinstance(asked, MarginalDistances | PairDistances):
        return measured
    return replace(measured, queries=replace(asked, denominator=max(1, round(asked.denominator * times))))
