"""Which relations would be seen: the chance that scores tell pairs of columns of some association from unrelated ones.

Post-processing of noisy answers, by the law that the planner chooses with.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from synthdp.answers.direct import GLSEstimates
from synthdp.arrays import FloatArray
from synthdp.measurements import Measurements
from synthdp.mechanisms.adaptive.energies import MEAN_ABS, explained_by_chance, seen, variance_of_margin
from synthdp.mechanisms.adaptive.screening import variance_of_product
from synthdp.queries.distances import MarginalDistances
from synthdp.sampling.synthetic_model import SyntheticModel

ASSOCIATIONS = (0.05, 0.1, 0.2, 0.4)
"""Values of Cramér's V for which a plan gives the chance to be seen.  A convention: from weak to strong."""


def power_of(model: SyntheticModel, measurements: Sequence[Measurements]) -> dict[float, float]:
    """Return for some values of Cramér's V how likely a pair of columns that has it is told from unrelated ones, at least.

    That is the mean over all pairs of columns that were scored, each where no other pair is related: a planner that has seen
    many relations believes in more of them.  A relation is taken to move each cell in proportion to its
    count, as the planner takes it.  Empty where pairs were not scored against independent columns: with very many columns,
    where all interactions are measured, and where scores would be noise alone, so that no relation is measured.

    Parameters
    ----------
    model
        Of adaptive marginals.
    measurements
        Its noisy answers.
    """
    said = GLSEstimates(model, tuple(measurements))
    for scores in measurements:
        asked = scores.queries
        if isinstance(asked, MarginalDistances) and asked.queries.domain is model.domain:
            break
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
        chances = seen(distances, np.array(chance), scores.stddev, total=total, columns=len(model.domain))
        found[association] = float(chances.mean())
    return found


def _variance(said: GLSEstimates, column: int, rows: FloatArray) -> FloatArray:
    """Return the variance of the error of a column's estimated groups, (groups,)."""
    refinement, first = said.model.refinements[column], said.first_level(column)
    if first is None:
        return np.zeros(len(rows))
    axis, _, stddev = first
    starts = np.zeros(refinement.fine.size, np.int64)
    starts[refinement.fine.cells[::-1]] = refinement.fine.starts[::-1]
    bins = axis.cells_of(starts.astype(np.uint32)).astype(np.int64)
    return variance_of_margin(refinement.coarse_cell, bins, stddev, rows)
