"""A distribution held implicitly by a junction tree: log-potentials on cliques, exact marginals, sampled rows.

Made by `fit.max_entropy`; the calibration here is also that fit's objective.  Knows no measurement and no
noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from synthdp.arrays import Clique, Codes, FloatArray, Table, frozen
from synthdp.codec import DocumentSource, Store, file_form
from synthdp.distribution.distribution import (
    Evidence,
    check_evidence,
    check_rows,
    codes_dtype,
    draw_within_groups,
    impossible,
)
from synthdp.distribution.junction_tree import JunctionTree, SubTable
from synthdp.errors import InternalError, ParameterError
from synthdp.queries.contingency import Shape, cell_index, check_clique, table_size
from synthdp.randomness import Generator

_SAFE_MASS = 1e-250
"""If a separator cell has less mass than this, logarithms are shifted cell by cell instead of once a node.  A numerical
tolerance: above it at most 1e-58 of the mass is lost to underflow.
"""
MAX_CELLS = 10_000_000
"""Largest table that `Graphical.marginal` makes while computing a clique that no node contains.  A safety limit of
memory.
"""


class CalibratedTree(NamedTuple):
    """The result of message passing: P(node), P(node given its separator), and log Z.

    The tables are shaped like their nodes.  If log Z is -inf, the tables mean nothing.
    """

    beliefs: tuple[FloatArray, ...]
    conditionals: tuple[FloatArray, ...]
    log_partition: float


@file_form("graphical")
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Graphical:
    """An exponential family p(x) = exp(sum of potentials at x) / Z, calibrated; a `Distribution`.

    Make one by `Graphical.calibrated`.

    Parameters
    ----------
    tree
        Every clique of ``potentials`` lies in one of its nodes.
    potentials
        For each clique a (cells,) array of log-potentials; -inf makes a combination impossible.
    beliefs
        The probability table of each node, shaped by its columns.
    conditionals
        The same given the node's separator.
    log_partition
        log Z.
    """

    tree: JunctionTree
    potentials: Mapping[Clique, FloatArray]
    beliefs: tuple[FloatArray, ...]
    conditionals: tuple[FloatArray, ...]
    log_partition: float

    @classmethod
    def calibrated(cls, tree: JunctionTree, potentials: Mapping[Clique, FloatArray]) -> Graphical:
        """Normalise ``potentials`` by message passing.

        Parameters
        ----------
        tree
            A tree whose nodes hold every clique of ``potentials``.
        potentials
            (cells,) log-potentials of each clique, < inf.

        Raises
        ------
        ParameterError
            If a clique lies in no node, a length is wrong, a value is NaN or +inf, or no combination is
            possible.
        """
        copies = {clique: np.array(theta, dtype=np.float64) for clique, theta in potentials.items()}
        for clique, theta in copies.items():
            _check_potential(tree, clique, theta)
        result = calibrate_tree(tree, copies)
        if result.log_partition == -np.inf:
            raise ParameterError(
                "the potentials, or the rules of the schema, exclude every row: change the potentials, or remove a rule"
            )
        return cls(
            tree=tree,
            potentials=MappingProxyType({clique: frozen(theta) for clique, theta in copies.items()}),
            beliefs=tuple(frozen(belief) for belief in result.beliefs),
            conditionals=tuple(frozen(table) for table in result.conditionals),
            log_partition=result.log_partition,
        )

    def to_saved(self, store: Store) -> dict[str, Any]:
        """Return the tree and the potentials, from which a file can restore the distribution."""
        return {
            "shape": store.write(self.tree.shape),
            "nodes": store.write(self.tree.nodes),
            "parents": store.write(self.tree.parents),
            "potentials": store.write(self.potentials),
        }

    @classmethod
    def of_saved(cls, document: Mapping[str, Any], source: DocumentSource) -> Graphical:
        """Restore a distribution from a file by calibrating its potentials again."""
        shape, parents = (source.read(document[name], tuple[int, ...]) for name in ("shape", "parents"))
        tree = JunctionTree(shape, source.read(document["nodes"], tuple[Clique, ...]), parents)
        return cls.calibrated(tree, source.read(document["potentials"], Mapping[Clique, FloatArray]))

    def __reduce__(self) -> tuple[Any, ...]:
        return Graphical.calibrated, (self.tree, dict(self.potentials))

    @property
    def shape(self) -> Shape:
        """The number of codes of each column."""
        return self.tree.shape

    def marginal(self, clique: Clique, *, max_cells: int = MAX_CELLS) -> Table:
        """Return the probabilities of the table of ``clique``; see `Distribution.marginal`.

        A clique inside a node is a sum; any other is computed exactly by eliminating the columns of the
        nodes between.

        Parameters
        ----------
        clique
            Strictly increasing columns.
        max_cells
            Largest table to make on the way.

        Raises
        ------
        ParameterError
            Also if a table on the way would be larger than ``max_cells``.
        """
        check_clique(clique, self.shape)
        if self.tree.home(clique) is None:
            return _eliminated_marginal(self, clique, max_cells)
        home, inside = self.tree.place(clique)
        return inside.margin(self.beliefs[home])

    def condition(self, given: Evidence) -> Graphical:
        """Return the distribution given evidence on columns, exactly.

        The probability of the evidence is exp of the result's ``log_partition`` minus this distribution's.

        Raises
        ------
        ParameterError
            If the evidence does not fit the columns or has probability 0.
        """
        potentials = dict(self.potentials)
        for column, likelihood in check_evidence(given, self.shape).items():
            before = potentials.get((column,), np.zeros(self.shape[column]))
            with np.errstate(divide="ignore"):
                potentials[(column,)] = before + np.log(likelihood)
        try:
            return Graphical.calibrated(self.tree, potentials)
        except ParameterError:
            raise impossible(given) from None

    def sample(self, rows: int, rng: Generator, *, given: Evidence | None = None, independent: bool = False) -> Codes:
        """Draw rows from the roots outwards, systematically in each separator cell; see `Distribution.sample`.

        Take the rows that share a separator cell.  Among them the count of each combination of a node's other columns
        differs from its conditional expectation by less than one.  Evidence enters the potentials: nothing is rejected.
        """
        check_rows(rows)
        if given:
            return self.condition(given).sample(rows, rng, independent=independent)
        codes = np.empty((rows, len(self.shape)), codes_dtype(self.shape), order="F")
        for node, separator, table in zip(self.tree.nodes, self.tree.separators, self.conditionals, strict=True):
            new = tuple(a for a in node if a not in separator)
            axes = [node.index(a) for a in separator + new]
            by_group = table.transpose(axes).reshape(table_size(self.shape, separator), -1)
            group = cell_index(codes, self.shape, separator)
            drawn = draw_within_groups(by_group, group, rng, independent=independent)
            cells = np.arange(by_group.shape[1])
            for a, values in zip(new, np.unravel_index(cells, [self.shape[a] for a in new]), strict=True):
                codes[:, a] = values.astype(codes.dtype)[drawn]
        return codes


def calibrate_tree(tree: JunctionTree, potentials: Mapping[Clique, FloatArray]) -> CalibratedTree:
    """Compute all nodes' probabilities from log-potentials by passing messages to the roots and back.

    The upward pass adds logarithms, shifted by one number a node, or a separator cell where that would underflow;
    distributing multiplies conditionals by margins, so that nothing is divided by a small number (Lauritzen and
    Spiegelhalter 1988).
    """
    logs = _node_logarithms(tree, potentials)
    conditionals: list[FloatArray] = [np.empty(0)] * len(logs)
    log_partition = 0.0
    for i in range(len(logs) - 1, -1, -1):
        conditionals[i], message = _conditional(logs[i], tree.in_node[i])
        parent = tree.parents[i]
        if parent < 0:
            log_partition += float(message.item())
        else:
            logs[parent] += tree.in_parent[i].spread(message)
    beliefs: list[FloatArray] = []
    for i, conditional in enumerate(conditionals):
        parent = tree.parents[i]
        if parent < 0:
            beliefs.append(conditional)
        else:
            margin = tree.in_parent[i].margin(beliefs[parent])
            beliefs.append(conditional * tree.in_node[i].spread(margin))
    return CalibratedTree(tuple(beliefs), tuple(conditionals), log_partition)


def _check_potential(tree: JunctionTree, clique: Clique, theta: FloatArray) -> None:
    """Raise ParameterError unless a (cells,) potential fits its clique and is finite or -inf."""
    check_clique(clique, tree.shape)
    tree.place(clique)
    cells = table_size(tree.shape, clique)
    if theta.shape != (cells,):
        raise ParameterError(f"potential of clique {clique} (shape {theta.shape}) must have shape ({cells},)")
    if np.isnan(theta).any() or (theta == np.inf).any():
        raise ParameterError(f"potential of clique {clique} must be finite or -inf in every cell")


def _node_logarithms(tree: JunctionTree, potentials: Mapping[Clique, FloatArray]) -> list[FloatArray]:
    """Return for each node the sum of the log-potentials of the cliques it holds, shaped like the node."""
    logs = [np.zeros(tree.node_shape(i)) for i in range(len(tree.nodes))]
    for clique, theta in potentials.items():
        home, inside = tree.place(clique)
        logs[home] += inside.spread(theta)
    return logs


def _conditional(log: FloatArray, separator: SubTable) -> tuple[FloatArray, FloatArray]:
    """Normalise exp(``log``) within every separator cell; return it, shaped as given.

    Also return the log of the divisors, flat: the upward message.  A separator cell without mass stays 0, with -inf.
    """
    shift = np.full(1, log.max())
    if shift[0] > -np.inf:
        table = np.exp(log - shift[0])
        mass = separator.margin(table)
    if shift[0] == -np.inf or mass.min() < _SAFE_MASS:
        shift = log.max(axis=separator.axes).ravel()
        shift = np.where(np.isfinite(shift), shift, 0.0)
        table = np.exp(log - separator.spread(shift))
        mass = separator.margin(table)
    with np.errstate(divide="ignore"):
        message: FloatArray = np.log(mass) + shift
    table *= separator.spread(np.divide(1.0, mass, out=np.zeros_like(mass), where=mass > 0))
    return table, message


def _eliminated_marginal(model: Graphical, clique: Clique, max_cells: int) -> Table:
    """Return the probabilities of a clique that no node contains, (cells,), by eliminating columns within each tree.

    No table on the way may have more than ``max_cells`` cells.
    """
    tree, queried = model.tree, set(clique)
    _check_cells(tree.shape, queried, clique, max_cells)
    below = [queried.intersection(node) for node in tree.nodes]
    for i in range(len(tree.nodes) - 1, -1, -1):
        if tree.parents[i] >= 0:
            below[tree.parents[i]] |= below[i]
    columns: list[int] = []
    product = np.ones(1)
    ends = [*tree.roots[1:], len(tree.nodes)]
    for root, end in zip(tree.roots, ends, strict=True):
        if below[root]:
            top = _lowest(tree, below, root)
            part_columns, part = _eliminate_upwards(model, queried, below, range(top, end), max_cells)
            columns += part_columns
            product = np.multiply.outer(product, part.ravel()).ravel()
    table = product.reshape([tree.shape[a] for a in columns])
    return np.ascontiguousarray(table.transpose(np.argsort(columns, kind="stable"))).ravel()


def _lowest(tree: JunctionTree, below: Sequence[set[int]], root: int) -> int:
    """Return the lowest node whose subtree holds all queried columns of its tree, where elimination can end.

    ``below`` holds the queried columns in each node's subtree, and ``root`` is the root of the tree.
    """
    top = root
    while True:
        lower = [j for j in tree.children[top] if below[j] == below[root]]
        if not lower:
            return top
        top = lower[0]


def _eliminate_upwards(
    model: Graphical, queried: set[int], below: Sequence[set[int]], nodes: range, max_cells: int
) -> tuple[list[int], FloatArray]:
    """Sum the nodes of a subtree into its top node, ``nodes[0]``, keeping the queried columns.

    Return columns and table.

    A node whose subtree holds no queried column beyond its separator sums to one and is skipped.
    """
    tree, top = model.tree, nodes[0]
    messages: dict[int, list[tuple[list[int], FloatArray, int]]] = {i: [] for i in nodes}
    for i in reversed(nodes):
        separator = tree.separators[i]
        if i != top and below[i] <= set(separator):
            continue
        columns, table = list(tree.nodes[i]), model.conditionals[i] if i != top else model.beliefs[i]
        kept = queried.union(separator if i != top else ())
        waiting = messages.pop(i)
        for number, (incoming, message, _) in enumerate(waiting):
            needed = kept.union(*(tree.separators[c] for _, _, c in waiting[number:]))
            columns, table = _summed(columns, table, needed)
            columns, table = _joined(tree.shape, columns, table, incoming, message, tuple(queried), max_cells)
        columns, table = _summed(columns, table, kept)
        if i == top:
            return columns, table
        messages[tree.parents[i]].append((columns, table, i))
    raise InternalError("elimination did not reach its top")


def _summed(columns: list[int], table: FloatArray, kept: set[int]) -> tuple[list[int], FloatArray]:
    """Return the columns of a table that are kept, and the table summed over the others."""
    axes = tuple(axis for axis, a in enumerate(columns) if a not in kept)
    return [a for a in columns if a in kept], table.sum(axis=axes)


def _joined(
    shape: Shape,
    columns: list[int],
    table: FloatArray,
    incoming: list[int],
    message: FloatArray,
    clique: Clique,
    max_cells: int,
) -> tuple[list[int], FloatArray]:
    """Return the columns of a table and a message together, and the product of both over these columns.

    ``columns`` are the axes of ``table``, ``incoming`` the axes of ``message``; ``clique`` is named if the product has more
    than ``max_cells`` cells.
    """
    union = columns + [a for a in incoming if a not in columns]
    _check_cells(shape, union, tuple(sorted(clique)), max_cells)
    order = sorted(range(len(incoming)), key=lambda axis: union.index(incoming[axis]))
    spread = message.transpose(order).reshape([shape[a] if a in incoming else 1 for a in union])
    joined: FloatArray = table.reshape(table.shape + (1,) * (len(union) - len(columns))) * spread
    return union, joined


def _check_cells(shape: Shape, columns: Sequence[int] | set[int], clique: Clique, max_cells: int) -> None:
    """Raise ParameterError if a table of some columns would have more than ``max_cells`` cells."""
    cells = table_size(shape, columns)
    if cells > max_cells:
        raise ParameterError(
            f"clique ({clique}) needs a table of {cells} cells, more than max_cells ({max_cells}): raise "
            "max_cells, or sample rows and count them"
        )
