"""Regularised maximum entropy on a junction tree: from consistent noisy tables to a `Graphical`.

Multiplicative weights over the whole exponential universe, held implicitly.  Follows `consistency`;
`raking` may follow.  Knows no private row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from synthdp.arrays import BoolArray, Clique, FloatArray, IntArray
from synthdp.checks import check_number, check_whole
from synthdp.distribution.junction_tree import JunctionTree, SubTable, junction_tree
from synthdp.distribution.markov_random_field import CalibratedTree, Graphical, calibrate_tree
from synthdp.errors import ParameterError
from synthdp.fit.proportional_step import Exchange, exchanges, rake
from synthdp.queries.contingency import (
    NoisyTable,
    Shape,
    check_clique,
    check_shape,
    check_tables,
    project_to_simplex,
    table_size,
)

Potentials = dict[Clique, FloatArray]


MODEL_SWEEPS = 8
"""Most passes over all tables when a junction tree is fitted only to draw rows from it, for scores or for a further
fit.  A tolerance: an exact fit would change neither the scores nor the further fit visibly."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dual:
    """The problem that a maximum-entropy fit minimises over log-potentials θ on a junction tree.

    F(θ) = total·log Z(θ) + ½Σ_c v_c‖θ_c‖² − Σ_c θ_c·y_c, over the possible cells of every table.

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
        """Return potentials as message passing takes them: over all codes, merged ones spread out; -inf if impossible.

        Rules on columns without a table get a potential of 0 and -inf.
        """
        merged = dict(potentials)
        for table in self.tables:
            cells = table.merged_cells
            if cells is not None:
                merged[table.clique] = potentials[table.clique][cells]
        for clique, zeros in self.zeros.items():
            merged[clique] = merged[clique] + zeros if clique in merged else zeros
        return merged

    def calibrated(self, potentials: Mapping[Clique, FloatArray]) -> CalibratedTree:
        """Compute all nodes' probabilities under finite ``potentials`` and the structural zeros, by message passing.

        The gradient of the dual is made of them.
        """
        return calibrate_tree(self.tree, self.masked(potentials))

    def value_and_gradient(self, potentials: Mapping[Clique, FloatArray]) -> tuple[float, list[FloatArray]]:
        """Return the dual objective F and its gradient in each table's potential θ, (cells,) each, for L-BFGS.

        The gradient is total·μ + vθ − y, in rows, with μ the model's probabilities and y the noisy counts; 0 in
        impossible cells.
        """
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
        """Return the largest ‖gradient‖₁ of any table as a fraction of the total; 0 at the optimum.

        The value is reported as the quality of the fit.
        """
        return max((float(np.abs(g).sum()) for g in gradients), default=0.0) / self.total


def clique_marginal(
    tree: JunctionTree, beliefs: Sequence[FloatArray], clique: Clique, *, merged: IntArray | None = None
) -> FloatArray:
    """Return a clique's probabilities, (cells,), summed from the table of a node that contains it, ``beliefs``.

    The probabilities are compared with a measured table, perhaps over ``merged`` codes.
    """
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

    from scipy.optimize import minimize  # takes a tenth of a second, which most releases need not

    base = dual.value_and_gradient(potentials)[0]
    start = np.concatenate([potentials[c][p] for c, p in zip(cliques, dual.possible, strict=True)]) * scale
    found = minimize(
        evaluate, start, jac=True, method="L-BFGS-B", options={"maxiter": steps, "ftol": 1e-12, "gtol": 1e-9}
    )
    return unpacked(found.x) if found.fun <= 0 else dict(potentials)


@dataclass(frozen=True, slots=True, eq=False)
class _HeldTable:
    """A table that the fit matches, kept with the tree node that holds its potential."""

    clique: Clique
    target: FloatArray
    ridge: float
    possible: BoolArray
    inside: SubTable


class _Fit:
    """The state of iterative proportional fitting: the nodes' expected counts in rows, and the potentials."""

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
        self.every = [self.potentials[table.clique] for table in dual.tables]
        self.exchanges: dict[int, list[Exchange]] = {root: [] for root in self.tree.roots}
        root_of = list(self.tree.parents)
        for i, parent in enumerate(self.tree.parents):
            root_of[i] = i if parent < 0 else root_of[parent]
        for exchange in exchanges(dual.tables, dual.ridges, dual.possible, self.tree.shape):
            home, _ = self.tree.place(dual.tables[exchange.outer].clique)
            self.exchanges[root_of[home]].append(exchange)

    def sweep(self, root: int) -> float:
        """Fit every table of the tree of ``root`` once, then shift potential between nested tables.

        Return the largest ‖change of a table‖₁ / total, by which sweeps are stopped.
        """
        moved = 0.0
        for action, i in self.tree.sweep(root):
            if action == "visit":
                moved = max(moved, *(self._step(i, table) for table in self.held[i]), 0.0)
            elif action == "down":
                self._pass(i, source=self.tree.parents[i], sink=i)
            else:
                self._pass(i, source=i, sink=self.tree.parents[i])
        for exchange in self.exchanges[root]:
            exchange.make(self.every)
        return moved

    def _step(self, i: int, table: _HeldTable) -> float:
        """Fit one table's potential exactly at node ``i``, update the node, and return how far the table moved.

        The result is the sum of absolute changes of its counts, as a fraction of all rows.
        """
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
        """Pass the margin on the separator of ``child`` and its parent from one of them to the other.

        ``sink`` is rescaled to the margin of ``source``, so that both agree again.
        """
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
    """Return whether a tree has at most one table; one exact step is then the optimum."""
    return not fit.tree.children[root] and len(fit.held[root]) <= 1


class MaxEntropyStatus(Enum):
    """How a fit ended; each value is a sentence."""

    SETTLED = "Every table moved by less than the tolerance in the last sweep."
    MAX_SWEEPS = "The largest number of sweeps was made before every table had settled."
    POLISHED = "The sweeps were followed by quasi-Newton steps on the whole dual."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MaxEntropyFit:
    """A fitted distribution and how good it is.

    Parameters
    ----------
    model
        The distribution.
    status
        The way in which the fit ended.
    objective
        The dual objective total·log Z(θ) + ½Σ v‖θ‖² − Σ θ·y, in nats times rows; lower is better.
    residual
        Largest over the tables of ‖total·μ + vθ − y‖₁ / total, the gradient of the objective; 0 at the
        optimum.
    sweeps
        The most sweeps of iterative proportional fitting that a tree of the forest took.
    total
        The number of rows that was used.
    """

    model: Graphical
    status: MaxEntropyStatus
    objective: float
    residual: float
    sweeps: int
    total: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxEntropy:
    """Settings of the regularised maximum entropy fit.

    Minimises total·log Z(θ) + ½Σ v_c‖θ_c‖² − Σ θ_c·y_c with v_c a multiple of the noise scale of table c:
    the dual of maximising entropy less Σ ‖total·μ_c − y_c‖² / 2v_c.  The fitted table is the target less v
    times its potential, so a ridge lets noise of its size be explained by nothing.

    Parameters
    ----------
    ridge_one_way, ridge
        v in multiples of ``stddev``, for one-way and for other tables; > 0.
    max_sweeps
        Most sweeps of iterative proportional fitting over each tree, >= 1.
    tolerance
        A sweep that changes no table by this fraction of the rows (in L1) is the last; >= 0.
    polish_steps
        Quasi-Newton steps on all potentials after the sweeps; 0 for none.
    total_floor
        Smallest number of rows to fit, > 0.  An estimated total can be 0 or negative when there are few
        rows; the model is then fitted as if there were this many, and the ridge holds it near uniform.

    Raises
    ------
    ParameterError
        If a setting is outside its range.
    """

    ridge_one_way: float = 0.05
    ridge: float = 1.0
    max_sweeps: int = 12
    tolerance: float = 1e-3
    polish_steps: int = 0
    total_floor: float = 1.0

    def __post_init__(self) -> None:
        for name in ("ridge_one_way", "ridge", "total_floor"):
            check_number(name, getattr(self, name), above=0)
        check_whole("max_sweeps", self.max_sweeps)
        check_number("tolerance", self.tolerance, least=0, infinite=True)
        check_whole("polish_steps", self.polish_steps, least=0)

    def ridge_of(self, table: NoisyTable) -> float:
        """Return the ridge v of a table's potential, in rows: a multiple of its noise, which a fit need not follow."""
        return (self.ridge_one_way if len(table.clique) == 1 else self.ridge) * table.stddev

    def fit(
        self,
        tables: Iterable[NoisyTable],
        shape: Sequence[int],
        *,
        total: float,
        allowed: Mapping[Clique, BoolArray] | None = None,
    ) -> MaxEntropyFit:
        """Return the regularised maximum-entropy distribution of the tables, with how well it was fitted.

        Parameters
        ----------
        tables
            Noisy tables that agree on the total and on shared margins (`consistency.make_consistent`), one
            a clique, perhaps of merged codes.  The junction tree is made of their cliques; columns without a table
            come out uniform and independent.
        shape
            Number of codes of each column.
        total
            Estimated number of rows; raised to ``total_floor``.
        allowed
            Structural zeros: for some cliques a (cells,) mask, False where the combination cannot occur.
            The model gives such cells probability 0, exactly.  These cliques join the tree.

        Raises
        ------
        ParameterError
            If a table or mask does not fit ``shape``, a clique has two tables, or ``total`` is not finite.  Also if
            ``allowed`` leaves no combination possible.
        """
        check_number("total", total)
        dual = self._dual(list(tables), check_shape(shape), max(total, self.total_floor), allowed or {})
        start = {table.clique: _start(table, dual.total) for table in dual.tables}
        potentials, sweeps, settled = fit_by_sweeps(dual, start, max_sweeps=self.max_sweeps, tolerance=self.tolerance)
        status = MaxEntropyStatus.SETTLED if settled else MaxEntropyStatus.MAX_SWEEPS
        if self.polish_steps and dual.tables:
            potentials, status = polish(dual, potentials, steps=self.polish_steps), MaxEntropyStatus.POLISHED
        objective, gradients = dual.value_and_gradient(potentials)
        return MaxEntropyFit(
            model=Graphical.calibrated(dual.tree, dual.masked(potentials)),
            status=status,
            objective=objective,
            residual=dual.residual(gradients),
            sweeps=sweeps,
            total=dual.total,
        )

    def _dual(self, tables: list[NoisyTable], shape: Shape, total: float, allowed: Mapping[Clique, BoolArray]) -> Dual:
        """Build the junction tree and the problem; raise ParameterError if tables or masks do not fit."""
        check_tables(tables, shape)
        cliques = [table.clique for table in tables]
        if len(set(cliques)) < len(cliques):
            raise ParameterError("tables must hold every clique once: average repeated tables with make_consistent")
        zeros = {clique: _log_mask(clique, mask, shape) for clique, mask in allowed.items()}
        tree = junction_tree(shape, [*cliques, *zeros])
        uniform = calibrate_tree(tree, zeros)
        if uniform.log_partition == -np.inf:
            raise ParameterError("allowed must allow at least one combination of codes")
        return Dual(
            tree=tree,
            tables=tables,
            ridges=[self.ridge_of(table) for table in tables],
            total=total,
            zeros=zeros,
            possible=[
                clique_marginal(tree, uniform.beliefs, table.clique, merged=table.merged_cells) > 0 for table in tables
            ],
        )


def _start(table: NoisyTable, total: float) -> FloatArray:
    """Return a table's first potential, (cells,): the log of a one-way's estimated shares, 0 for any other table.

    A tenth of the noise is added to each count first, so that no logarithm is infinite.
    """
    if len(table.clique) != 1:
        return np.zeros(table.counts.size)
    positive = project_to_simplex(table.counts, total) + 0.1 * table.stddev
    start: FloatArray = np.log(positive / positive.sum())
    return start


def _log_mask(clique: Clique, mask: BoolArray, shape: Shape) -> FloatArray:
    """Return the logarithm of a mask, (cells,): 0 where a cell is possible, -inf elsewhere.

    A mask of another length or type raises ParameterError.
    """
    check_clique(clique, shape)
    cells = table_size(shape, clique)
    mask = np.asarray(mask)
    if mask.dtype != np.bool_ or mask.shape != (cells,):
        raise ParameterError(f"allowed: mask of clique {clique} must hold {cells} booleans")
    return np.where(mask, 0.0, -np.inf)
