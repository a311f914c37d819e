"""The L1 program through CVXPY against one plain HiGHS call on the same problem.

Both are given the same features, noisy answers and row weights.  Plain HiGHS gets the form that is fastest for it: the
dual over all support points at once, dual simplex, no presolve, no CVXPY.  Runs are taken in pairs, one after the
other in one process; the ratio is the median over the pairs.  Prints one JSON line per problem.

    python benchmarks/speed/l1_lp.py [--tiny | --large] [--pairs 5]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import NamedTuple

import highspy
import numpy as np
import scipy.sparse as sp

from synthdp.fit.explicit.l1_highs import L1Highs
from synthdp.fit.explicit.problem import FitProblem


class Shape(NamedTuple):
    queries: int
    points: int
    stddev: float


TINY = (Shape(12, 300, 0.02),)
STANDARD = (Shape(100, 10_000, 0.02), Shape(100, 10_000, 0.2), Shape(300, 10_000, 0.02))
LARGE = (Shape(100, 50_000, 0.02), Shape(100, 50_000, 0.2))


def trigonometric_problem(shape: Shape, *, columns: int = 20, grid: int = 32, seed: int = 0) -> FitProblem:
    """Return noisy averages of random two-column cosines, to be met on uniform random grid points."""
    rng = np.random.default_rng(seed)
    points = (2 * rng.integers(grid, size=(shape.points, columns)) + 1 - grid) / grid
    rows = np.clip(rng.normal(0.2, 0.4, size=(2000, columns)), -1, 1)
    pairs = [rng.choice(columns, 2, replace=False) for _ in range(shape.queries)]
    degrees = [(rng.integers(0, 4), rng.integers(1, 5)) for _ in range(shape.queries)]

    def features(values: np.ndarray) -> np.ndarray:
        angles = np.arccos(values)
        return np.stack(
            [np.cos(s * angles[:, i]) * np.cos(t * angles[:, j]) for (i, j), (s, t) in zip(pairs, degrees, strict=True)]
        )

    noise = rng.laplace(scale=shape.stddev / np.sqrt(2), size=shape.queries)
    return FitProblem(A=features(points), b=features(rows).mean(axis=1) + noise, stddev=shape.stddev)


def plain_highs(problem: FitProblem) -> tuple[float, float]:
    """Return the optimum and the wall time, the building of HiGHS's own model included."""
    begin = time.perf_counter()
    k, m, r = problem.k, problem.m, problem.row_weights
    matrix = sp.csc_matrix(np.column_stack([problem.A.T, -np.ones(m)]))
    model = highspy.HighsModel()
    lp = model.lp_
    lp.num_col_, lp.num_row_ = k + 1, m
    lp.col_cost_ = np.append(-problem.b, 1.0)
    lp.col_lower_, lp.col_upper_ = np.append(-r, -np.inf), np.append(r, np.inf)
    lp.row_lower_, lp.row_upper_ = np.full(m, -np.inf), np.zeros(m)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = matrix.indptr, matrix.indices, matrix.data
    solver = highspy.Highs()
    for option, value in (("output_flag", False), ("presolve", "off"), ("solver", "simplex"), ("simplex_strategy", 1)):
        solver.setOptionValue(option, value)
    solver.passModel(model)
    solver.run()
    weights = -np.array(solver.getSolution().row_dual)
    if not np.isclose(weights.sum(), 1.0):
        raise RuntimeError("plain HiGHS did not finish")
    return -float(solver.getInfo().objective_function_value), time.perf_counter() - begin


def measure(shape: Shape, *, pairs: int) -> dict[str, object]:
    problem = trigonometric_problem(shape)
    L1Highs().solve(trigonometric_problem(TINY[0]))  # imports and warm-up are nobody's time
    ours, plain, ratios, result, optimum = [], [], [], None, np.nan
    for _ in range(pairs):
        optimum, seconds = plain_highs(problem)
        begin = time.perf_counter()
        result = L1Highs().solve(problem)
        plain.append(seconds)
        ours.append(time.perf_counter() - begin)
        ratios.append(ours[-1] / seconds)
    if result is None or abs(result.objective - optimum) > 1e-6:
        raise RuntimeError(f"the optima differ at {shape}")
    return {
        "benchmark": "l1_lp",
        **shape._asdict(),
        "pairs": pairs,
        "plain_highs_seconds": round(statistics.median(plain), 4),
        "l1_highs_seconds": round(statistics.median(ours), 4),
        "ratio": round(statistics.median(ratios), 3),
        "objective": result.objective,
        "difference": abs(result.objective - optimum),
        "gap": result.gap,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--tiny", action="store_true", help="one small problem, one pair")
    size.add_argument("--large", action="store_true", help="also 50 000 support points")
    parser.add_argument("--pairs", type=int, default=5)
    arguments = parser.parse_args()
    shapes = TINY if arguments.tiny else STANDARD + (LARGE if arguments.large else ())
    for shape in shapes:
        print(json.dumps(measure(shape, pairs=1 if arguments.tiny else arguments.pairs)), flush=True)


if __name__ == "__main__":
    main()
