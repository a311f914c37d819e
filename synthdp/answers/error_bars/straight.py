"""How far correlations may be from a model's where a pair was not measured: relations that go straight.

A random relation has any shape, and few of them change a correlation as much as one that goes up with both columns all the
way, out to their rare values.  Real relations often do.  Reads public axes, noisy distances and the model.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from synthdp.answers.error_bars.bootstrap import Bootstrap
from synthdp.answers.error_bars.random_functions import leaf_mass
from synthdp.arrays import FloatArray
from synthdp.sampling.synthetic_model import SyntheticModel

STRAIGHT = 0.3
"""Standard deviation of what a relation that was not measured changes a correlation by, over the most that it can.

Chosen on Males and DoctorAUS (docs/benchmarks/answers.md)."""


def straight_errors(bootstrap: Bootstrap, columns: Sequence[int]) -> FloatArray:
    """Return standard deviations of the correlations of columns of numbers, (k, k); 0 for pairs that were measured.

    A table that differs from the model's by rho z w times the product of its margins, with z and w the standardised values
    of two columns, has a correlation that differs by rho and an L1 distance of rho E|z| E|w|.  Of the distance that the
    screening leaves a pair, the correlation may thus be off by as much as the distance over E|z| E|w|, and by 1.
    """
    direct, found = bootstrap.direct, np.zeros((len(columns), len(columns)))
    places = [direct.place(column) for column in columns]
    sizes = [mean_size(direct.model, j) for j in places]
    for x, y in itertools.combinations(range(len(columns)), 2):
        if places[x] != places[y] and not direct.has((places[x], places[y])):
            most = bootstrap.misfit.strengths[places[x], places[y]] / max(sizes[x] * sizes[y], 1e-12)
            found[x, y] = found[y, x] = STRAIGHT * min(1.0, most)
    return found


def mean_size(model: SyntheticModel, column: int) -> float:
    """Return the mean absolute value of a column's standardised numbers: at most 1, less where few rows are far out."""
    points = model.refinements[column].fine.points
    mass = np.where(np.isnan(points), 0.0, leaf_mass(model, column))
    mass = mass / max(float(mass.sum()), 1e-300)
    values = np.nan_to_num(points)
    values = values - mass @ values
    return float(mass @ np.abs(values)) / max(float(np.sqrt(mass @ values**2)), 1e-300)
