"""The dual problem of regularised maximum entropy: objective, exact gradient, quasi-Newton polish.

Used by `max_entropy`, which starts it near the optimum.  Knows tables and potentials only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from synthdp.arrays import BoolArray, Clique, FloatArray, IntArray
from synthdp.distribution.contingency import NoisyTable
from synthdp.distribution.junction_tree import JunctionTree
from synthdp.distribution.markov_random_field import CalibratedTree, calibrate_tree

Potentials = dict[Clique, FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dual:
    """F(θ) = total·log Z(θ) + ½Σ_c v_c‖θ_c‖² − Σ_c θ_c·y_c, over the possible cells of every table.

    Parameters
    ----------
    tree
        A tree whose nodes hold every clique.
    tables
        The consistent noisy tables y, one a clique.
    ridges
        v_c of each table, in rows.
    total
        Number of rows, > 0.
    zeros
        (cells,) logarithms of masks on some cliques: 0, or -inf where a combination is impossible.
    possible
        (cells,) for each table, whether the zeros leave the cell any mass.  The others have no potential.
    """

    tree: JunctionTree
    tables: Sequence[NoisyTable]
    ridges: Sequence[float]
    total: float
    zeros: Mapping[Clique, FloatArray]
    possible: Sequence[BoolArray]

    def masked(self, potentials: Mapping[Clique, FloatArray]) -> Potentials:
        """Return the potentials of whole tables, with the structural zeros in them."""
        merged = dict(potentials)
        for table in self.tables:
            cells = table.merged_cells
            if cells is not None:
                merged[table.clique] = potentials[table.clique][cells]
        for clique, zeros in self.zeros.items():
            merged[clique] = merged[clique] + zeros if clique in merged else zeros
        return merged

    def calibrated(self, potentials: Mapping[Clique, FloatArray]) -> CalibratedTree:
        """Pass messages over ``potentials`` (finite) and the structural zeros."""
        return calibrate_tree(self.tree, self.masked(potentials))

    def value_and_gradient(self, potentials: Mapping[Clique, FloatArray]) -> tuple[float, list[FloatArray]]:
        """Return F and, for each table, total·μ + vθ − y (0 in impossible cells)."""
        calibration = self.calibrated(potentials)
        value = self.total * calibration.log_partition
        gradients: list[FloatArray] = []
        for table, ridge, possible in zip(self.tables, self.ridges, self.possible, strict=True):
            theta = potentials[table.clique]
            pull = ridge * theta - table.counts
            value += float(theta @ (0.5 * ridge * theta - table.counts))
            expected = self.total * clique_marginal(
                self.tree, calibration.beliefs, table.clique, merged=table.merged_cells
            )
            gradients.append(np.where(possible, expected + pull, 0.0))
        return value, gradients

    def residual(self, gradients: Sequence[FloatArray]) -> float:
        """Return the largest ‖gradient‖₁ of a table, in multiples of the total."""
        return max((float(np.abs(g).sum()) for g in gradients), default=0.0) / self.total


def clique_marginal(
    tree: JunctionTree, beliefs: Sequence[FloatArray], clique: Clique, *, merged: IntArray | None = None
) -> FloatArray:
    """Sum a clique's home belief to its flat table, perhaps of merged codes."""
    home, inside = tree.place(clique, merged=merged)
    return inside.margin(beliefs[home])


def polish(dual: Dual, potentials: Mapping[Clique, FloatArray], *, steps: int) -> Potentials:
    """Improve potentials by at most ``steps`` steps of L-BFGS on all of them at once.

    The variables are scaled by the square root of the curvature that independent Poisson cells would have,
    max(y, v) + v. The result is never worse than the start.
    """
    cliques = [table.clique for table in dual.tables]
    scales = [
        np.sqrt(np.maximum(table.counts, ridge) + ridge) for table, ridge in zip(dual.tables, dual.ridges, strict=True)
    ]
    scale = np.concatenate([s[p] for s, p in zip(scales, dual.possible, strict=True)])
    ends = np.cumsum([int(possible.sum()) for possible in dual.possible])[:-1]

    def unpacked(x: FloatArray) -> Potentials:
        parts = np.split(x / scale, ends)
        result: Potentials = {}
        for clique, part, possible in zip(cliques, parts, dual.possible, strict=True):
            result[clique] = np.zeros(possible.size)
            result[clique][possible] = part
        return result

    def evaluate(x: FloatArray) -> tuple[float, FloatArray]:
        value, gradients = dual.value_and_gradient(unpacked(x))
        packed = np.concatenate([g[p] for g, p in zip(gradients, dual.possible, strict=True)]) / scale
        return (value - base) / dual.total, packed / dual.total

    base = dual.value_and_gradient(potentials)[0]
    start = np.concatenate([potentials[c][p] for c, p in zip(cliques, dual.possible, strict=True)]) * scale
    found = minimize(
        evaluate, start, jac=True, method="L-BFGS-B", options={"maxiter": steps, "ftol": 1e-12, "gtol": 1e-9}
    )
    return unpacked(found.x) if found.fun <= 0 else dict(potentials)
