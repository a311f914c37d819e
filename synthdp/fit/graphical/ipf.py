"""Iterative proportional fitting along Euler tours of a junction tree, with Hugin messages.

The fast part of `max_entropy`: each step changes one table's potential and one node's belief; a message
carries the change to the next node only.  Knows the dual problem, not where its tables come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import BoolArray, FloatArray
from synthdp.distribution.contingency import Clique
from synthdp.distribution.junction_tree import JunctionTree, SubTable
from synthdp.fit.graphical.dual import Dual, Potentials
from synthdp.fit.graphical.proportional_step import rake

_SWEEPS = 2  # rounds over a node's tables at each visit, when there are several


@dataclass(frozen=True, slots=True, eq=False)
class _Resident:
    """One table at the node that holds its potential."""

    clique: Clique
    target: FloatArray
    ridge: float
    possible: BoolArray
    inside: SubTable


class _Walk:
    """The beliefs of all nodes, in rows, while potentials change under them."""

    def __init__(self, dual: Dual, potentials: Potentials) -> None:
        self.tree, self.total, self.potentials = dual.tree, dual.total, potentials
        self.beliefs = [belief * dual.total for belief in dual.calibrated(potentials).beliefs]
        self.separators = [
            inside.margin(belief) for belief, inside in zip(self.beliefs, self.tree.in_node, strict=True)
        ]
        self.residents: list[list[_Resident]] = [[] for _ in self.tree.nodes]
        for table, ridge, possible in zip(dual.tables, dual.ridges, dual.possible, strict=True):
            home, inside = self.tree.place(table.clique)
            self.residents[home].append(_Resident(table.clique, table.counts, ridge, possible, inside))
        for residents in self.residents:
            residents.sort(key=lambda resident: len(resident.clique))

    def tour(self, root: int) -> float:
        """Fit every table of one tree; return the largest ‖change of the table‖₁ / total of the tour."""
        moved = 0.0
        for action, i in self.tree.tour(root):
            if action == "visit":
                moved = max(moved, self._visit(i))
            elif action == "down":
                self._pass(i, source=self.tree.parents[i], sink=i)
            else:
                self._pass(i, source=i, sink=self.tree.parents[i])
        return moved

    def _visit(self, i: int) -> float:
        residents = self.residents[i]
        sweeps = _SWEEPS if len(residents) > 1 else 1
        return max((self._fit(i, r) for _ in range(sweeps) for r in residents), default=0.0)

    def _fit(self, i: int, resident: _Resident) -> float:
        """Take the exact step of one potential; the node's belief follows."""
        belief = self.beliefs[i]
        expected = resident.inside.margin(belief)
        factor = rake(
            expected,
            self.potentials[resident.clique],
            resident.target,
            cells=resident.possible,
            ridge=resident.ridge,
            total=self.total,
        )
        belief *= resident.inside.spread(factor)
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


def tour_until_still(
    dual: Dual, start: Mapping[Clique, FloatArray], *, max_tours: int, tolerance: float
) -> tuple[Potentials, int, bool]:
    """Tour every tree of the forest until no table moves by ``tolerance`` or more, or ``max_tours`` are spent.

    Parameters
    ----------
    dual
        The problem.
    start
        A finite potential for every table.
    max_tours
        Limit for each tree; each is a problem of its own, since log Z is a sum over the trees.
    tolerance
        ‖change of a table‖₁ / total that counts as still.

    Returns
    -------
    The potentials, the most tours that a tree took, and whether all came to rest.
    """
    walk = _Walk(dual, {clique: theta.copy() for clique, theta in start.items()})
    most, all_still = 0, True
    for root in walk.tree.roots:
        still = False
        for tour in range(1, max_tours + 1):
            still = walk.tour(root) < tolerance or _alone(walk, root)
            most = max(most, tour)
            if still:
                break
        all_still = all_still and still
    return walk.potentials, most, all_still


def _alone(walk: _Walk, root: int) -> bool:
    """Whether a tree has one table at most, whose exact step is the optimum."""
    tree: JunctionTree = walk.tree
    return not tree.children[root] and len(walk.residents[root]) <= 1
