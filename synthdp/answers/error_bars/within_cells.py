"""How relations between columns may go on within the cells of a model, where it takes columns as independent.

What a cell is told by: other columns predict a column by its cells, and where the prediction is above what rows of a cell
have on average, so may be the place within the cell.  Rows are those of the model; reads nothing private.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from synthdp.arrays import BoolArray, Codes, FloatArray, IntArray
from synthdp.domain.axis import Axis
from synthdp.domain.grid import has_labels
from synthdp.sampling.synthetic_model import SyntheticModel

PREDICTORS = 8
"""Columns that predict another: those that explain most of its variance each by itself."""

RIDGE = 1e-3
"""Of the coefficients of predictions, as a part of the variance that they explain."""


def tilts(model: SyntheticModel, leaves: Codes) -> FloatArray:
    """Return how much more often rows may occur, as the model says, were its relations to go on within each column's cells.

    A column x of numbers is predicted by the mean of x in the cells of each of a few other columns, by least squares.  With
    p the prediction, s^2 the variance of x - p and bars for means over the rows of one cell of x, the law of x given p, were
    it normal, would be changed within the cell by the factor exp((x - x_bar) (p - p_bar) / s^2): here by 1 + that exponent,
    which is at least -1 and at most 1.

    Parameters
    ----------
    model
        Whose columns the rows are in.
    leaves
        (m, d) leaves of rows drawn from it.

    Returns
    -------
    (m, k) for each of k columns of numbers with more leaves than cells; float32.
    """
    cells = np.stack([r.coarse_cell[leaves[:, j]] for j, r in enumerate(model.refinements)])
    sizes = model.domain.shape
    ordered = [j for j, r in enumerate(model.refinements) if not has_labels(r.fine.column)]
    found = []
    for j in ordered:
        values, inside = _normal_scores(model.refinements[j].fine, leaves[:, j])
        x, there = values[leaves[:, j]], inside[leaves[:, j]]
        x = x - x[there].mean() if there.any() else x
        own = _means(cells[j], sizes[j], x)
        gap = np.where(there, x - own[cells[j]], 0.0)
        if not (gap @ gap > 1e-9 * (x @ x)):
            continue
        means = [np.zeros(0) if i == j else _means(cells[i][there], sizes[i], x[there]) for i in range(len(sizes))]
        explained = [0.0 if i == j else float((m[cells[i]] ** 2).mean()) for i, m in enumerate(means)]
        chosen = np.argsort(-np.array(explained), kind="stable")[: min(PREDICTORS, len(sizes) - 1)]
        if not len(chosen):
            continue
        features = np.stack([means[i][cells[i]] for i in chosen])
        gram = features @ features.T
        ridge = RIDGE * (float(np.trace(gram)) + 1e-300) * np.eye(len(gram))
        weights = np.linalg.solve(gram + ridge, features @ np.where(there, x, 0.0))
        prediction = weights @ features
        rest = float(((x - prediction)[there] ** 2).mean())
        beyond = prediction - _means(cells[j], sizes[j], prediction)[cells[j]]
        found.append(np.clip(gap * beyond / max(rest, 1e-300), -1.0, 1.0))
    return np.stack(found, axis=1).astype(np.float32) if found else np.zeros((len(leaves), 0), np.float32)


def _normal_scores(axis: Axis, leaves: Codes) -> tuple[FloatArray, BoolArray]:
    """Return the normal score of each leaf by its rank among those of some rows, and which leaves hold numbers."""
    there = ~np.isnan(axis.points)
    order = np.argsort(np.where(there, axis.points, np.inf), kind="stable")[: int(there.sum())]
    counts = np.bincount(leaves, minlength=axis.size)[order] + 0.0
    below = np.cumsum(counts) - counts / 2
    scores = np.zeros(axis.size)
    scores[order] = ndtri(np.clip(below / max(float(counts.sum()), 1.0), 0.5 / len(leaves), 1 - 0.5 / len(leaves)))
    return scores, there


def _means(cells: IntArray, size: int, values: FloatArray) -> FloatArray:
    """Return the mean of values in each cell; 0 where there are none."""
    counts = np.bincount(cells, minlength=size)
    return np.bincount(cells, values, size) / np.maximum(counts, 1)
