"""A self-test of the noise of an installation: drawn laws against their formulas."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from synthdp.arrays import IntArray
from synthdp.privacy import noise

DRAWS = 40_000
"""Draws of each check of a noise law. More would find smaller errors of a sampler, and take longer. A convention."""

FALSE_ALARM = 1e-9
"""Probability that correct noise fails a check.  So small that a failure means wrong noise, not chance."""

FEWEST = 10
"""Least expected number of draws of a histogram bin; rarer values are pooled in the end bins, as a chi-square test
needs."""


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of one check of the noise.

    Parameters
    ----------
    name, passed, detail
        Name of the check, whether it passed, and its numbers as text.
    """

    name: str
    passed: bool
    detail: str


def noise_selftest() -> list[Check]:
    """Draw from every noise law of this installation and test each histogram against the exact probabilities.

    A sampler may have the right mean and variance and be wrong value by value: OpenDP 0.14.0 drew a third of the
    residues modulo a whole scale 13 % too often.  Hence small whole scales, a fraction, and the whole histogram.
    """
    zeros = np.zeros(DRAWS, np.int64)
    drawn = [
        *((f"discrete Laplace, scale {s:g}", noise.discrete_laplace(zeros, scale=s), s, 1) for s in (1.5, 3.0, 10.0)),
        *((f"discrete Gaussian, sigma {s:g}", noise.discrete_gaussian(zeros, scale=s), s, 2) for s in (2.0, 5.0, 10.0)),
    ]
    return [_check(*one) for one in drawn]


def _check(name: str, drawn: IntArray, scale: float, power: int) -> Check:
    """Return the chi-square test of a histogram of draws against the law P(z) ∝ exp(-|z / scale|^power / power)."""
    reach = math.ceil(60 * scale)
    z = np.arange(-reach, reach + 1)
    expected = np.exp(-(np.abs(z / scale) ** power) / power)
    expected *= drawn.size / expected.sum()
    end = int(z[expected >= FEWEST].max()) + 1
    observed = np.bincount(np.clip(drawn, -end, end) + end, minlength=2 * end + 1)
    expected = np.bincount(np.clip(z, -end, end) + end, weights=expected)
    statistic = float(((observed - expected) ** 2 / expected).sum())
    limit = float(chi2.isf(FALSE_ALARM, observed.size - 1))
    return Check(name, statistic <= limit, f"chi-square {statistic:.0f}, at most {limit:.0f}")
