"""Iterative proportional fitting on a junction tree, with Hugin messages.

The fast part of `max_entropy`.  A sweep fits every table once, walking around the tree: each step changes one table's
potential and one node's belief; a message carries the change to the next node only.  Knows the dual problem, not where
its tables come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import BoolArray, Clique, FloatArray
from synthdp.distribution.junction_tree import SubTable
from synthdp.fit.graphical.dual import Dual, Potentials
from synthdp.fit.graphical.proportional_step import rake

_ROUNDS = 2  # over a node's tables at each visit, when there are several


@dataclass(frozen=True, slots=True, eq=False)
class _HeldTable:
    """One table, at the node that holds its potential."""

    clique: Clique
    target: FloatArray
    ridge: float
    possible: BoolArray
    inside: SubTable


class _Fit:
    """The beliefs of all nodes, in rows, while potentials change under them."""

    def __init__(self, dual: Dual, potentials: Potentials) -> None:
        self.tree, self.total, self.potentials = dual.tree, dual.total, potentials
        self.beliefs = [belief * dual.total for belief in dual.calibrated(potentials).beliefs]
        self.separators = [
            inside.margin(belief) for belief, inside in zip(self.beliefs, self.tree.in_node, strict=True)
        ]
        self.held: list[list[_HeldTable]] = [[] for _ in self.tree.nodes]
        for table, ridge, possible in zip(dual.tables, dual.ridges, dual.possible, strict=True):
            home, inside = self.tree.place(table.clique, merged=table.merged_cells)
            self.held[home].append(_HeldTable(table.clique, table.counts, ridge, possible, inside))
        for held in self.held:
            held.sort(key=lambda table: len(table.clique))

    def sweep(self, root: int) -> float:
        """Fit every table of one tree; return the largest ‖change of a table‖₁ / total."""
        moved = 0.0
        for action, i in self.tree.sweep(root):
            if action == "visit":
                moved = max(moved, self._visit(i))
            elif action == "down":
                self._pass(i, source=self.tree.parents[i], sink=i)
            else:
                self._pass(i, source=i, sink=self.tree.parents[i])
        return moved

    def _visit(self, i: int) -> float:
        held = self.held[i]
        rounds = _ROUNDS if len(held) > 1 else 1
        return max((self._step(i, table) for _ in range(rounds) for table in held), default=0.0)

    def _step(self, i: int, table: _HeldTable) -> float:
        """Take the exact step of one potential; the node's belief follows."""
        belief = self.beliefs[i]
        expected = table.inside.margin(belief)
        factor = rake(
            expected,
            self.potentials[table.clique],
            table.target,
            cells=table.possible,
            ridge=table.ridge,
            total=self.total,
        )
        belief *= table.inside.spread(factor)
        return float(np.abs(expected * factor - expected).sum()) / self.total

    def _pass(self, child: int, *, source: int, sink: int) -> None:
        """Bring the sink's margin on a separator to the source's."""
        upwards = source == child
        out = self.tree.in_node[child] if upwards else self.tree.in_parent[child]
        into = self.tree.in_parent[child] if upwards else self.tree.in_node[child]
        message = out.margin(self.beliefs[source])
        before = self.separators[child]
        ratio = np.divide(message, before, out=np.zeros_like(message), where=before > 0)
        self.beliefs[sink] *= into.spread(ratio)
        self.separators[child] = message


def fit_by_sweeps(
    dual: Dual, start: Mapping[Clique, FloatArray], *, max_sweeps: int, tolerance: float
) -> tuple[Potentials, int, bool]:
    """Sweep over every tree of the forest until no table moves by ``tolerance`` or more.

    Parameters
    ----------
    dual
        The problem.
    start
        A finite potential for every table.
    max_sweeps
        Limit for each tree; each is a problem of its own, since log Z is a sum over the trees.
    tolerance
        ‖change of a table‖₁ / total below which a table counts as settled.

    Returns
    -------
    The potentials, the most sweeps that a tree took, and whether every table settled.
    """
    fit = _Fit(dual, {clique: theta.copy() for clique, theta in start.items()})
    most, all_settled = 0, True
    for root in fit.tree.roots:
        settled = False
        for sweep in range(1, max_sweeps + 1):
            settled = fit.sweep(root) < tolerance or _alone(fit, root)
            most = max(most, sweep)
            if settled:
                break
        all_settled = all_settled and settled
    return fit.potentials, most, all_settled


def _alone(fit: _Fit, root: int) -> bool:
    """Whether a tree has one table at most, whose exact step is the optimum."""
    return not fit.tree.children[root] and len(fit.held[root]) <= 1
