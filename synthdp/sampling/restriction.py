"""A model without some units of its columns: their probability goes to the others, column by column."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from synthdp.arrays import BoolArray
from synthdp.distribution.explicit import Explicit
from synthdp.distribution.markov_random_field import Graphical
from synthdp.distribution.product import Product
from synthdp.distribution.protocol import Distribution
from synthdp.domain.refinement import Refinement
from synthdp.errors import ParameterError
from synthdp.sampling.synthetic_model import SyntheticModel


def without_units(model: SyntheticModel, units: Iterable[tuple[str, int]]) -> SyntheticModel:
    """Return the model in which some units have probability 0, as far as others of their columns have some.

    Parameters
    ----------
    model
        The model.
    units
        Columns, each with a unit that has a cell of its own, such as the missing value.
    """
    for name, unit in units:
        model = _without(model, name, unit)
    return model


def _without(model: SyntheticModel, name: str, unit: int) -> SyntheticModel:
    (j,) = model.domain.index(name)
    refinement = model.refinements[j]
    cell = refinement.fine.cell_of_alone(unit)
    if cell is None:
        return model
    coarse = refinement.coarse_cell[cell]
    beside = (refinement.coarse_cell == coarse) & refinement.fine.releasable
    beside[cell] = False
    if beside.any():
        return replace(model, refinements=_replaced(model.refinements, j, _lighter(refinement, cell, beside)))
    kept = np.ones(model.domain.shape[j], np.bool_)
    kept[coarse] = False
    return replace(model, distribution=_restricted(model.distribution, j, kept))


def _lighter(refinement: Refinement, cell: int, beside: BoolArray) -> Refinement:
    """Return the refinement in which a leaf has weight 0; leaves beside it that all have none share by their width."""
    weights = np.array(refinement.weights)
    weights[cell] = 0.0
    if not weights[beside].any():
        weights[beside] = refinement.fine.width[beside]
    return replace(refinement, weights=weights)


def _replaced(refinements: tuple[Refinement, ...], j: int, one: Refinement) -> tuple[Refinement, ...]:
    return (*refinements[:j], one, *refinements[j + 1 :])


def _restricted(distribution: Distribution, j: int, kept: BoolArray) -> Distribution:
    """Return the distribution given that a column lies in some cells; as it is where it never does."""
    match distribution:
        case Explicit():
            weights = distribution.weights * kept[distribution.codes[:, j]]
            return replace(distribution, weights=weights) if weights.any() else distribution
        case Product():
            margin = distribution.margins[j] * kept
            margins = [*distribution.margins[:j], margin, *distribution.margins[j + 1 :]]
            return replace(distribution, margins=margins) if margin.any() else distribution
        case Graphical():
            try:
                return distribution.condition({j: kept})
            except ParameterError:  # nothing else is possible
                return distribution
    return distribution
