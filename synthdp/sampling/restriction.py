"""A model without some grid points of its columns: their probability goes to the others, column by column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from synthdp.arrays import BoolArray
from synthdp.distribution.components import Components, Product
from synthdp.distribution.distribution import Distribution
from synthdp.distribution.explicit import Explicit
from synthdp.distribution.markov_random_field import Graphical
from synthdp.errors import ParameterError
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.rules_across import Place

if TYPE_CHECKING:
    from synthdp.sampling.database_model import DatabaseModel


def without_points(model: SyntheticModel, points: Iterable[tuple[str, int]]) -> SyntheticModel:
    """Return the model with probability 0 for some grid points of its columns.

    Their probability goes to the rest of the column.

    Where a whole coarse bin is left out, the distribution is conditioned on the other bins.  If no other bin is
    possible, the distribution stays as it is.  Callers use the result to draw rows without, for example, missing
    values.

    Parameters
    ----------
    model
        The model.
    points
        Pairs of a column and a grid point.  Grid points without a fine bin of their own are ignored.
    """
    chosen: dict[str, list[int]] = {}
    for name, index in points:
        chosen.setdefault(name, []).append(index)
    for name, some in chosen.items():
        model = _without(model, name, some)
    return model


def without_places(model: DatabaseModel, points: Iterable[tuple[Place, int]]) -> DatabaseModel:
    """Return the model of several tables with probability 0 for some grid points of its columns.

    A row has the other cells of the column with the odds that it had.  A column without other cells stays as it is.
    Callers use the result to draw rows without, for example, missing values.

    Parameters
    ----------
    model
        The model.
    points
        Pairs of a table and column, and a grid point.  Grid points without a cell of their own are ignored.
    """
    left_out: dict[tuple[int, str], list[int]] = {}
    for (table, column), index in points:
        key = model.layout.position(table), column
        cell = model.layout.axis(*key).cell_of_alone(index)
        if cell is not None:
            left_out.setdefault(key, []).append(cell)
    return replace(model, histories=model.histories.without(left_out)) if left_out else model


def _without(model: SyntheticModel, name: str, indices: Sequence[int]) -> SyntheticModel:
    """Return the model without some grid points of one column.

    Each of these grid points should have a fine bin of its own.  Other fine bins of the same coarse bin take over the
    weight.  If these have no weight, grid points are equally likely.  Coarse bins with no fine bin left get probability
    0 in the distribution.  The distribution stays if no other coarse bin is possible.
    """
    (j,) = model.domain.index(name)
    refinement = model.refinements[j]
    left_out = np.zeros(refinement.fine.size, np.bool_)
    left_out[[cell for index in indices if (cell := refinement.fine.cell_of_alone(index)) is not None]] = True
    beside = refinement.fine.releasable & ~left_out
    shared = np.bincount(refinement.coarse_cell, weights=beside) > 0
    empty = np.bincount(refinement.coarse_cell, weights=left_out) > 0
    weights = np.where(left_out, 0.0, refinement.weights)
    weightless = np.bincount(refinement.coarse_cell, weights=weights) <= 0
    by_width = beside & (weightless & shared & empty)[refinement.coarse_cell]
    weights = np.where(by_width, refinement.fine.width, weights)
    refinements, distribution = list(model.refinements), model.distribution
    refinements[j] = replace(refinement, weights=weights)
    if (empty & ~shared).any():
        distribution = _restricted(distribution, j, shared | ~empty)
    return replace(model, refinements=tuple(refinements), distribution=distribution)


def _restricted(distribution: Distribution, j: int, kept: BoolArray) -> Distribution:
    """Return the distribution given that column j lies in one of the coarse bins of a mask, (bins,).

    Return the distribution unchanged if these bins have probability 0, since no conditional distribution exists
    then.
    """
    match distribution:
        case Explicit():
            weights = distribution.weights * kept[distribution.codes[:, j]]
            return replace(distribution, weights=weights) if weights.any() else distribution
        case Product():
            margin = distribution.margins[j] * kept
            margins = [*distribution.margins[:j], margin, *distribution.margins[j + 1 :]]
            return replace(distribution, margins=margins) if margin.any() else distribution
        case Components():
            p, i = distribution.part_of(j)
            return distribution.with_part(p, _restricted(distribution.parts[p], i, kept))
        case Graphical():
            try:
                return distribution.condition({j: kept})
            except ParameterError:  # nothing else is possible
                return distribution
    return distribution
