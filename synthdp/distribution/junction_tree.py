"""Junction trees: from cliques that share columns to a forest of larger cliques on which sums are exact.

The module handles columns and table sizes only, and how a table sits inside a larger one.  `markov_random_field` puts
probabilities on the nodes.  A planner asks `TreePlanner` how many cells a tree would have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Literal, TypeAlias

import numpy as np

from synthdp.arrays import Clique, FloatArray, IntArray
from synthdp.errors import ParameterError
from synthdp.queries.contingency import Shape, check_clique, check_shape, table_shape, table_size

Step: TypeAlias = tuple[Literal["visit", "down", "up"], int]
"""One step of a sweep over a tree: visit a node, or pass the message between a node and its parent."""

_Component: TypeAlias = tuple[tuple[int, int], ...]
"""A connected set of columns in increasing order, each with the bit mask of its neighbours."""


@dataclass(frozen=True, slots=True)
class SubTable:
    """How the table of some columns sits inside the table of a node that holds them.

    Parameters
    ----------
    axes
        Axes of the node's table to sum away.
    shape
        Shape that broadcasts against the node's table: 1 on those axes.
    merged
        (cells of the columns' table,) the cell of a table over merged codes that each of them lies in; ``None`` if no
        codes are merged.
    """

    axes: tuple[int, ...]
    shape: Shape
    merged: IntArray | None = None

    @classmethod
    def of(
        cls, shape: Sequence[int], node: Clique, columns: Iterable[int], *, merged: IntArray | None = None
    ) -> SubTable:
        """Return how the table of ``columns`` sits inside the table of ``node``, a larger set of columns.

        ``merged`` is the field of this name.
        """
        kept = set(columns)
        return cls(
            tuple(axis for axis, a in enumerate(node) if a not in kept),
            tuple(shape[a] if a in kept else 1 for a in node),
            merged,
        )

    def margin(self, table: FloatArray) -> FloatArray:
        """Return the flat sub-table, (cells,), summed from a node's table (shaped like the node).

        One axis is summed at a time, the first axis first: numpy's sum over several axes takes ten times as long if the
        last axis is short.
        """
        for axis in self.axes:
            table = np.add.reduce(table, axis=axis, keepdims=True)
        flat = table.reshape(-1)
        return flat if self.merged is None else np.bincount(self.merged, weights=flat).astype(np.float64, copy=False)

    def spread(self, flat: FloatArray) -> FloatArray:
        """Return the flat sub-table in a shape that broadcasts against the node's table.

        Cells that share a merged cell get its value.
        """
        return (flat if self.merged is None else flat[self.merged]).reshape(self.shape)


@dataclass(frozen=True)
class JunctionTree:
    """A forest of cliques (nodes) with the running intersection property, parents before children.

    The nodes with a given column are connected.  So a node shares with all earlier nodes only the columns that it
    shares with its parent: its separator.  Unconnected columns lie in different trees of the forest.

    Parameters
    ----------
    shape
        Number of codes of each of the d columns.
    nodes
        Maximal cliques that together hold every column; a node stands after its parent.
    parents
        The parent of each node; -1 for the root of each tree.
    """

    shape: Shape
    nodes: tuple[Clique, ...]
    parents: tuple[int, ...]
    _homes: dict[Clique, int | None] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def separators(self) -> tuple[Clique, ...]:
        """The columns that each node shares with its parent; () for a root."""
        return tuple(
            tuple(a for a in node if parent >= 0 and a in self.nodes[parent])
            for node, parent in zip(self.nodes, self.parents, strict=True)
        )

    @cached_property
    def in_node(self) -> tuple[SubTable, ...]:
        """For each node, how its separator's table sits inside the node's table."""
        return tuple(SubTable.of(self.shape, n, s) for n, s in zip(self.nodes, self.separators, strict=True))

    @cached_property
    def in_parent(self) -> tuple[SubTable, ...]:
        """For each node, how its separator's table sits inside its parent's table (for a root: its own)."""
        return tuple(
            SubTable.of(self.shape, self.nodes[p if p >= 0 else i], s)
            for i, (p, s) in enumerate(zip(self.parents, self.separators, strict=True))
        )

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """For each node, the positions of its children."""
        found: list[list[int]] = [[] for _ in self.nodes]
        for i, parent in enumerate(self.parents):
            if parent >= 0:
                found[parent].append(i)
        return tuple(tuple(group) for group in found)

    @property
    def roots(self) -> tuple[int, ...]:
        """The position of the root of each tree of the forest."""
        return tuple(i for i, parent in enumerate(self.parents) if parent < 0)

    @property
    def cells(self) -> int:
        """The total number of cells of all nodes' tables: the memory that the tree needs."""
        return sum(table_size(self.shape, node) for node in self.nodes)

    def node_shape(self, i: int) -> Shape:
        """Return the shape of the table of node ``i``."""
        return table_shape(self.shape, self.nodes[i])

    def home(self, clique: Clique) -> int | None:
        """Return the position of the smallest node that contains ``clique``, or None if none does."""
        if clique not in self._homes:
            columns = set(clique)
            holders = [i for i, node in enumerate(self.nodes) if columns.issubset(node)]
            smallest = min(holders, key=lambda i: table_size(self.shape, self.nodes[i]), default=None)
            self._homes[clique] = smallest
        return self._homes[clique]

    def place(self, clique: Clique, *, merged: IntArray | None = None) -> tuple[int, SubTable]:
        """Return the smallest node that contains ``clique``, and how the clique's table sits inside the node's.

        Parameters
        ----------
        clique
            Columns, increasing.
        merged
            (cells of the clique's table,) the cell of a table over merged codes that each of them lies in; ``None`` if
            no codes are merged.

        Raises
        ------
        ParameterError
            If no node holds the clique.
        """
        home = self.home(clique)
        if home is None:
            raise ParameterError(
                f"clique {clique} must lie inside one node of the tree: use a tree that has such a node"
            )
        return home, SubTable.of(self.shape, self.nodes[home], clique, merged=merged)

    def sweep(self, root: int) -> Iterator[Step]:
        """Yield the steps of a depth-first walk around one tree, for fits that change one node at a time.

        ``("visit", i)`` comes before and after the children of node i.  ``("down", j)``, the message to child j, comes
        before the visit of j; ``("up", j)``, the message to its parent, after its descendants'.
        """
        stack: list[Step | tuple[Literal["enter"], int]] = [("enter", root)]
        while stack:
            step = stack.pop()
            if step[0] != "enter":
                yield step
                continue
            i = step[1]
            yield ("visit", i)
            if self.children[i]:
                stack.append(("visit", i))
            for j in reversed(self.children[i]):
                stack += [("up", j), ("enter", j), ("down", j)]


class TreePlanner:
    """Computes the number of cells of the junction tree of a set of cliques, cheaply and many times.

    The elimination of every connected component of columns is cached, so that one more clique costs the elimination of
    the component that it joins.  `tree_of` builds the tree whose cells were counted.

    Parameters
    ----------
    shape
        Number of codes of each column.

    Examples
    --------
    >>> planner = TreePlanner((2, 3, 4))
    >>> planner.cells([(0, 1)])
    10
    >>> planner.cells([(0, 1), (1, 2)])
    18
    >>> planner.tree_of([(0, 1), (1, 2), (0, 2)]).nodes
    ((0, 1, 2),)
    """

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape = check_shape(shape)
        self._known: dict[_Component, tuple[tuple[int, ...], int]] = {}
        self._masks: dict[Clique, int] = {}

    def cells(self, cliques: Iterable[Clique]) -> int:
        """Return the number of cells of the junction tree that covers ``cliques`` and every column."""
        return sum(self._eliminated(part)[1] for part in self._components(cliques))

    def tree_of(self, cliques: Iterable[Clique]) -> JunctionTree:
        """Build the junction tree that covers ``cliques`` and every column."""
        nodes: list[Clique] = []
        parents: list[int] = []
        for part in self._components(cliques):
            masks = self._eliminated(part)[0]
            first = len(nodes)
            order, parent = _maximum_spanning_tree(masks, self._root(masks))
            nodes += [_columns(masks[i]) for i in order]
            parents += [first + p if p >= 0 else -1 for p in parent]
        return JunctionTree(self.shape, tuple(nodes), tuple(parents))

    def _components(self, cliques: Iterable[Clique]) -> Iterator[_Component]:
        """Yield the connected components of columns joined by cliques, ordered by first column.

        Each is given as its columns with their neighbours.
        """
        neighbours = [0] * len(self.shape)
        for clique in cliques:
            mask = self._masks.get(clique)
            if mask is None:
                check_clique(clique, self.shape)
                mask = self._masks[clique] = sum(1 << a for a in clique)
            for a in clique:
                neighbours[a] |= mask
        left = (1 << len(neighbours)) - 1
        while left:
            reached = frontier = left & -left
            while frontier:
                near = 0
                for a in _columns(frontier):
                    near |= neighbours[a]
                frontier = near & ~reached
                reached |= frontier
            left &= ~reached
            yield tuple((a, neighbours[a] & ~(1 << a)) for a in _columns(reached))

    def _eliminated(self, part: _Component) -> tuple[tuple[int, ...], int]:
        """Return a component's maximal cliques after triangulation, as bit masks, and their number of cells; cached."""
        if part not in self._known:
            self._known[part] = _eliminate(self.shape, part)
        return self._known[part]

    def _root(self, masks: Sequence[int]) -> int:
        """Return the position of the largest node, which becomes the root: sampling balances a root's whole table."""
        return max(range(len(masks)), key=lambda i: (table_size(self.shape, _columns(masks[i])), -i))


def junction_tree(shape: Sequence[int], cliques: Iterable[Clique]) -> JunctionTree:
    """Build a junction tree that covers ``cliques`` and every column; see `TreePlanner.tree_of`."""
    return TreePlanner(shape).tree_of(cliques)


def tree_cells(shape: Sequence[int], cliques: Iterable[Clique]) -> int:
    """Return the number of cells of ``junction_tree(shape, cliques)`` without building it."""
    return TreePlanner(shape).cells(cliques)


@lru_cache(maxsize=2**14)
def _columns(mask: int) -> Clique:
    """Return the columns whose bits are set in a mask, in increasing order; masks represent sets of columns."""
    columns = []
    while mask:
        lowest = mask & -mask
        columns.append(lowest.bit_length() - 1)
        mask ^= lowest
    return tuple(columns)


def _eliminate(shape: Shape, part: _Component) -> tuple[tuple[int, ...], int]:
    """Return the maximal cliques of one component after triangulation, as bit masks, and their number of cells.

    Greedy elimination: the next column is the one whose neighbourhood has the smallest table.  Of equal ones, it is the
    one that joins the fewest new pairs, then the first.  Sizes are exact integers, because rounded logarithms would
    make ties depend on the platform.
    """
    neighbours = dict(part)
    sizes = {a: shape[a] * table_size(shape, _columns(near)) for a, near in part}

    def new_pairs(a: int) -> int:
        near = neighbours[a]
        return sum((near & ~neighbours[b] & ~(1 << b)).bit_count() for b in _columns(near))

    def fewest(ties: Sequence[int]) -> int:
        joined = len(ties) * [0]
        for place, a in enumerate(ties):
            joined[place] = new_pairs(a)
            if joined[place] == 0:  # no other joins fewer
                return a
        return ties[joined.index(min(joined))]

    maximal: list[int] = []
    having: dict[int, list[int]] = {a: [] for a in sizes}  # of each column the maximal cliques that it is in
    cells = 0
    while sizes:
        smallest = min(sizes.values())
        ties = [a for a, size in sizes.items() if size == smallest]
        column = ties[0] if len(ties) == 1 else fewest(ties)
        near, bit = neighbours.pop(column), 1 << column
        clique = near | bit
        if all(clique & ~other for other in having[column]):
            maximal.append(clique)
            cells += smallest
            for b in _columns(clique):
                having[b].append(clique)
        del sizes[column]
        for b in _columns(near):
            joined = near & ~neighbours[b] & ~(1 << b)
            neighbours[b] = (neighbours[b] | joined) & ~bit
            sizes[b] //= shape[column]
            for a in _columns(joined):
                sizes[b] *= shape[a]
    return tuple(maximal), cells


def _maximum_spanning_tree(masks: Sequence[int], root: int) -> tuple[list[int], list[int]]:
    """Return the nodes in an order with parents first, and for each position in it the position of its parent.

    A node is a clique, and its bits in ``masks`` are the clique's columns.  Nodes are joined by the largest separators
    (Prim's algorithm).  For the maximal cliques of a triangulated graph such a tree has the running intersection
    property (Jensen and Jensen 1994, theorem 1).
    """
    order, parents = [root], [-1]
    best = {j: ((masks[root] & masks[j]).bit_count(), 0) for j in range(len(masks)) if j != root}
    while best:
        j = max(best, key=lambda j: (best[j][0], -j))
        parents.append(best.pop(j)[1])
        order.append(j)
        for other, (shared, _) in best.items():
            common = (masks[j] & masks[other]).bit_count()
            if common > shared:
                best[other] = (common, len(order) - 1)
    return order, parents
