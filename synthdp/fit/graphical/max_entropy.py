"""Regularised maximum entropy on a junction tree: from consistent noisy tables to a `Graphical`.

Multiplicative weights over the whole exponential universe, held implicitly.  Follows `consistency`;
`raking` may follow.  Knows no private row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from synthdp.arrays import BoolArray, Clique, FloatArray
from synthdp.checks import check_number, check_whole
from synthdp.distribution.contingency import (
    NoisyTable,
    Shape,
    check_clique,
    check_shape,
    check_tables,
    project_to_simplex,
    table_size,
)
from synthdp.distribution.junction_tree import junction_tree
from synthdp.distribution.markov_random_field import Graphical, calibrate_tree
from synthdp.errors import ParameterError
from synthdp.fit.graphical.dual import Dual, clique_marginal, polish
from synthdp.fit.graphical.ipf import fit_by_sweeps


class MaxEntropyStatus(Enum):
    """How a fit ended, as a sentence."""

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
        How the fit ended.
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
    max_sweeps: int = 20
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
        """Return the ridge v of a table's potential, in rows."""
        return (self.ridge_one_way if len(table.clique) == 1 else self.ridge) * table.stddev

    def fit(
        self,
        tables: Iterable[NoisyTable],
        shape: Sequence[int],
        *,
        total: float,
        allowed: Mapping[Clique, BoolArray] | None = None,
    ) -> MaxEntropyFit:
        """Fit the tables.

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
            If a table or mask does not fit ``shape``, a clique has two tables, ``total`` is not finite, or
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
        check_tables(tables, shape)
        cliques = [table.clique for table in tables]
        if len(set(cliques)) < len(cliques):
            raise ParameterError("tables must hold one table a clique; make_consistent averages repeats")
        zeros = {clique: _log_mask(clique, mask, shape) for clique, mask in allowed.items()}
        tree = junction_tree(shape, [*cliques, *zeros])
        uniform = calibrate_tree(tree, zeros)
        if uniform.log_partition == -np.inf:
            raise ParameterError("allowed must leave at least one combination of codes possible")
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
    """Start a one-way at the logarithm of its projection on the simplex, any other potential at 0."""
    if len(table.clique) != 1:
        return np.zeros(table.counts.size)
    positive = project_to_simplex(table.counts, total) + 0.1 * table.stddev
    start: FloatArray = np.log(positive / positive.sum())
    return start


def _log_mask(clique: Clique, mask: BoolArray, shape: Shape) -> FloatArray:
    check_clique(clique, shape)
    cells = table_size(shape, clique)
    mask = np.asarray(mask)
    if mask.dtype != np.bool_ or mask.shape != (cells,):
        raise ParameterError(f"allowed: mask of clique {clique} must hold {cells} booleans")
    return np.where(mask, 0.0, -np.inf)
