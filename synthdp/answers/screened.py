"""What the screening of a release says of how far from independent its columns are.

Reads noisy distances; sees no row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import BoolArray, Clique, FloatArray
from synthdp.domain.domain import Domain
from synthdp.measurements import Measurements
from synthdp.queries.distances import MarginalDistances, PairDistances


@dataclass(frozen=True, slots=True)
class Screened:
    """L1 distances from independent columns, as parts of the rows.

    Parameters
    ----------
    distances
        By pair, where a table has so few columns that each was found by itself.
    typical
        Of a pair that was not measured, where it has many.
    """

    distances: dict[Clique, float]
    typical: float = 0.0


def screened(measurements: Sequence[Measurements], domain: Domain, measured: BoolArray, rows: float) -> Screened | None:
    """Return what the screening of a release says, None if it had none.

    Parameters
    ----------
    measurements
        Of the release.
    domain
        Of its model.
    measured
        (d, d) which pairs have a noisy table, symmetric.
    rows
        Number of rows, at least 1.
    """
    for found in measurements:
        asked = found.queries
        if isinstance(asked, MarginalDistances) and asked.domain is domain:
            offsets = asked.queries.offsets[:-1]
            expected = np.add.reduceat(np.sqrt(2 / math.pi * asked.expected / asked.denominator), offsets)
            distances = np.sqrt(np.maximum(_shrunk(found.answers, found.stddev) ** 2 - expected**2, 0.0))
            return Screened(dict(zip(asked.queries.cliques, (distances / rows).tolist(), strict=True)))
        if isinstance(asked, PairDistances):
            columns, (left, right) = np.array(domain.index(*asked.domain.names)), asked.pairs
            missed = ~measured[columns[left], columns[right]]
            return Screened({}, _typical(asked, found.answers, missed) / rows if missed.any() else 0.0)
    return None


def _typical(asked: PairDistances, answers: FloatArray, missed: BoolArray) -> float:
    """Return the distance, in rows, that the screening of many pairs leaves those that were not measured, in the mean."""
    left, right = (columns[missed] for columns in asked.pairs)
    total = float(asked.margins[0].sum())
    roots = np.array([np.sqrt(margin / total).sum() for margin in asked.margins])
    chance = math.sqrt(2 / math.pi * total / asked.denominator) * roots[left] * roots[right]
    return math.sqrt(max(float(answers[missed].mean()) ** 2 - float(chance.mean()) ** 2, 0.0))


def _shrunk(scores: FloatArray, stddev: float) -> FloatArray:
    """Draw noisy scores towards their mean, by as much as their spread is noise (James and Stein 1961)."""
    mean = float(scores.mean())
    signal = max(0.0, float(scores.var()) - stddev**2)
    return mean + (scores - mean) * (signal / (signal + stddev**2))
