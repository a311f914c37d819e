"""Statistical power of the selection of column pairs: the chance that an associated pair is detected.

The computation uses noisy answers only, with the noise distribution that the adaptive mechanism selects by.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from synthdp.answers.direct import GLSEstimates
from synthdp.arrays import MEAN_ABS, FloatArray
from synthdp.measurements import Measurements
from synthdp.mechanisms.adaptive.energies import (
    MISSTATED,
    ScoreLikelihoods,
    explained_by_chance,
    posterior_of,
    variance_of_margin,
)
from synthdp.mechanisms.adaptive.screening import variance_of_product
from synthdp.queries.distances import MarginalDistances
from synthdp.sampling.synthetic_model import SyntheticModel

ASSOCIATIONS = (0.05, 0.1, 0.2, 0.4)
"""Values of Cramér's V for which a plan states the chance of detection.  A convention: from weak to strong."""


def power_of(model: SyntheticModel, measurements: Sequence[Measurements]) -> dict[float, float]:
    """Return by value of Cramér's V a lower bound on the chance that a pair of columns with this value is detected.

    The chance is the mean over all scored pairs, as if no other pair were related; more related pairs raise the chance.
    An association is taken to change each cell in proportion to its count, as the adaptive mechanism takes it.

    The result is empty if pairs were not scored against independence.  This happens with very many columns, if all
    interactions are measured, or if scores would be noise alone.

    Parameters
    ----------
    model
        The model that adaptive marginals fitted.
    measurements
        The noisy answers that the model was fitted to.
    """
    said = GLSEstimates(model, tuple(measurements))
    for scores in measurements:
        asked = scores.queries
        if isinstance(asked, MarginalDistances) and asked.queries.domain is model.domain:
            break  # the first scores over the model's own bins are of all pairs against independence
    else:
        return {}
    expected = [table / asked.denominator for table in asked.queries.split(asked.expected)]
    total = float(np.mean([table.sum() for table in expected]))
    margins = dict[int, FloatArray]()
    for clique, table in zip(asked.queries.cliques, expected, strict=True):
        square = table.reshape([model.domain.shape[j] for j in clique])
        margins |= {clique[0]: square.sum(axis=1), clique[1]: square.sum(axis=0)}
    variances = {j: _variance(said, j, rows) for j, rows in margins.items()}
    chance = []
    for clique, table in zip(asked.queries.cliques, expected, strict=True):
        a, b = clique
        ours = variance_of_product((0, 1), [margins[a], margins[b]], [variances[a], variances[b]], total=total)
        chance.append(explained_by_chance(table, margins=ours))
    free = np.array([min(model.domain.shape[j] for j in clique) - 1 for clique in asked.queries.cliques])
    found = {}
    for association in ASSOCIATIONS:
        distances = association * np.sqrt(np.maximum(free, 0)) * MEAN_ABS * total
        chances = seen(distances, np.array(chance), scores.stddev, total=total)
        found[association] = float(chances.mean())
    return found


def seen(distances: FloatArray, explained: FloatArray, stddev: float, *, total: float) -> FloatArray:
    """Return the chance, (k,), that a noisy score shows a relation of a given size, if no other columns are related.

    Before a release, a plan estimates with this function which relations the release will find.  The chance is a lower
    bound, since further relations make each relation likelier.

    Parameters
    ----------
    distances
        (k,) L1 distance by which each candidate's relation moves its table, in rows.
    explained
        (k,) mean L1 distances, in rows, that chance and noise in margins alone would make.
    stddev
        Standard deviation of the noise of a score, in rows.
    total
        Number of rows of the table; each candidate is a pair of columns.

    Returns
    -------
    (k,) chances.
    """
    noise, chance = stddev / total, explained / total
    posterior = posterior_of(ScoreLikelihoods.by(chance, chance, noise), 2)
    spread = np.hypot(noise, MISSTATED * chance)
    found: FloatArray = np.zeros(len(distances))
    quantiles = ndtri((np.arange(20) + 0.5) / 20)  # twenty equally likely values of standard normal noise
    for quantile in quantiles:
        likely = np.hypot(distances / total, chance) + quantile * spread
        found += ScoreLikelihoods.by(likely, chance, noise).none(posterior) <= 0.5  # likelier than no relation
    return found / len(quantiles)


def _variance(said: GLSEstimates, column: int, rows: FloatArray) -> FloatArray:
    """Return the error variance of the estimated counts ``rows`` of a column's coarse bins, (groups,), in rows squared.

    A score compares pairs with products of these estimates, whose errors make it larger by chance.  The variance is 0
    if no table of the column alone was measured.
    """
    refinement, first = said.model.refinements[column], said.first_level(column)
    if first is None:
        return np.zeros(len(rows))
    axis, _, stddev = first
    bins = axis.cells_of(refinement.fine.first_points.astype(np.uint32)).astype(np.int64)
    return variance_of_margin(refinement.coarse_cell, bins, stddev, rows)
