"""The pricing problem of one- and two-column queries as a mixed-integer program for HiGHS."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import highspy
import numpy as np
import scipy.sparse as sp

from synthdp.arrays import FloatArray, IntArray
from synthdp.errors import ParameterError, SolverFailedError
from synthdp.fit.explicit.product_basis import ProductBasis


class _Scores(NamedTuple):
    """The score of a grid point as a constant plus (N_j,) tables of columns plus (N_j, N_l) tables of pairs j < l."""

    constant: float
    single: tuple[FloatArray, ...]
    pairs: dict[tuple[int, int], FloatArray]


def maximise(basis: ProductBasis, y: FloatArray, *, seconds: float) -> tuple[IntArray, float]:
    """Return the (d,) codes of the best grid point found and an upper bound on the score of every grid point.

    The program: binaries z_j(a) with sum 1 per column; for each pair p(a, b) >= 0 with margins z_j and z_l.  At binary
    z the pair table is forced to z_j(a) z_l(b), so the program is exact.

    Raises
    ------
    ParameterError
        If a query has more than two columns.
    SolverFailedError
        If HiGHS finds no point within ``seconds``.
    """
    scores = _collect(basis, y)
    sizes = np.array(basis.shape)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    rewards = np.concatenate([*scores.single, *(table.ravel() for table in scores.pairs.values())])
    matrix, right = _constraints(sizes, starts, list(scores.pairs), variables=rewards.size)
    solver = _program(rewards, matrix, right, binaries=int(starts[-1]), seconds=seconds)
    solver.run()
    solution = np.array(solver.getSolution().col_value)
    info = solver.getInfo()
    if solution.size != rewards.size or info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        status = solver.modelStatusToString(solver.getModelStatus())
        raise SolverFailedError(
            f"the pricing program found no point in {seconds} s ({status}): give it more seconds", status=status
        )
    codes = [int(solution[start:stop].argmax()) for start, stop in itertools.pairwise(starts)]
    return np.array(codes, dtype=np.int64), scores.constant - float(info.mip_dual_bound)


def _collect(basis: ProductBasis, y: FloatArray) -> _Scores:
    """Return the score function: terms of one column summed into its table, terms of two columns into the pair's.

    Raise ParameterError for terms of more columns.
    """
    constant = 0.0
    single = [np.zeros(size) for size in basis.shape]
    pairs: dict[tuple[int, int], FloatArray] = {}
    for weight, term in zip(y, basis.terms, strict=True):
        match list(term):
            case []:
                constant += float(weight)
            case [j]:
                single[j] += weight * term[j]
            case [j, l]:
                table = weight * np.outer(term[j], term[l])
                pairs[j, l] = pairs.get((j, l), 0.0) + table
            case columns:
                raise ParameterError(f"terms must have at most two columns for exact pricing, not {len(columns)}")
    return _Scores(constant=constant, single=tuple(single), pairs=pairs)


def _constraints(
    sizes: IntArray, starts: IntArray, pairs: list[tuple[int, int]], *, variables: int
) -> tuple[sp.csc_array, FloatArray]:
    """Return the equality constraints, as a matrix and its right-hand sides.

    One grid point is chosen per column, and both margins of each pair's table are these choices.  ``starts`` is the
    first variable of each column, and of the pairs' tables.
    """
    blocks = [_row_block(np.ones((1, size)), start, variables) for size, start in zip(sizes, starts[:-1], strict=True)]
    right = [np.ones(sizes.size)]
    offset = int(starts[-1])
    for j, l in pairs:
        over_rows = sp.coo_array(sp.kron(sp.eye_array(sizes[j]), np.ones((1, sizes[l]))))
        over_columns = sp.coo_array(sp.kron(np.ones((1, sizes[j])), sp.eye_array(sizes[l])))
        for margin, column in ((over_rows, j), (over_columns, l)):
            chosen = _row_block(np.eye(sizes[column]), starts[column], variables)
            blocks.append(_row_block(margin, offset, variables) - chosen)
            right.append(np.zeros(sizes[column]))
        offset += int(sizes[j] * sizes[l])
    return sp.csc_array(sp.vstack(blocks)), np.concatenate(right)


def _row_block(block: sp.coo_array[np.float64] | FloatArray, start: int, variables: int) -> sp.csr_array:
    """Return a block of constraints as sparse rows over all variables, the block's first column at ``start``."""
    entries = sp.coo_array(block)
    return sp.csr_array((entries.data, (entries.row, entries.col + start)), shape=(entries.shape[0], variables))


def _program(
    rewards: FloatArray, matrix: sp.csc_array, right: FloatArray, *, binaries: int, seconds: float
) -> highspy.Highs:
    """Return the HiGHS program that maximises rewards'x where ``matrix`` x = ``right`` and 0 <= x <= 1.

    The first ``binaries`` variables are 0 or 1.  It stops after ``seconds``.
    """
    model = highspy.HighsModel()
    lp = model.lp_
    lp.num_col_, lp.num_row_ = rewards.size, right.size
    lp.col_cost_ = -rewards
    lp.col_lower_, lp.col_upper_ = np.zeros(rewards.size), np.ones(rewards.size)
    lp.row_lower_, lp.row_upper_ = right, right
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = matrix.indptr, matrix.indices, matrix.data
    kinds = [highspy.HighsVarType.kInteger] * binaries
    lp.integrality_ = kinds + [highspy.HighsVarType.kContinuous] * (rewards.size - binaries)
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("time_limit", seconds)
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.setOptionValue("mip_abs_gap", 1e-9)
    solver.passModel(model)
    return solver
