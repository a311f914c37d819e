"""A self-test of the noise of an installation: drawn laws against their formulas."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import IntArray
from synthdp.privacy import noise

DRAWS = 4000
SIGMAS = 6.0
"""How far a mean or a variance may be off, in its own standard deviations, before the test fails."""


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of one check.

    Costs nothing: no data is involved.

    Parameters
    ----------
    name, passed, detail
        What was checked, whether it holds, and the numbers.
    """

    name: str
    passed: bool
    detail: str


def noise_selftest() -> list[Check]:
    """Draw from every additive law and compare mean and variance with the formulas.

    Costs nothing: no data is involved.
    """
    zeros = np.zeros(DRAWS, np.int64)
    laplace = 1 / (2 * math.sinh(0.05) ** 2)
    return [
        _check("discrete Laplace, scale 10", noise.discrete_laplace(zeros, scale=10.0), laplace, kurtosis=6.0),
        _check("discrete Gaussian, sigma 10", noise.discrete_gaussian(zeros, scale=10.0), 100.0, kurtosis=3.0),
    ]


def _check(name: str, drawn: IntArray, variance: float, *, kurtosis: float) -> Check:
    mean, spread = float(drawn.mean()), float((drawn.astype(np.float64) ** 2).mean())
    off_mean = abs(mean) / math.sqrt(variance / DRAWS)
    off_spread = abs(spread - variance) / (variance * math.sqrt((kurtosis - 1) / DRAWS))
    detail = f"mean {mean:+.3f} (0), variance {spread:.1f} ({variance:.1f})"
    return Check(name, off_mean < SIGMAS and off_spread < SIGMAS, detail)
