"""The L1-fitting linear program over a product grid, without listing the grid.

Column generation on the weights, which is row generation on the dual: a pricer names grid points that the dual
violates, a warm-started dual simplex takes them in.
"""

from __future__ import annotations

import math
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from synthdp.arrays import Answers, Codes, FloatArray, IntArray, Weights, frozen
from synthdp.checks import check_number, check_share, check_whole
from synthdp.errors import ParameterError, SolverFailedError
from synthdp.fit.explicit.linear_program import FEASIBILITY
from synthdp.fit.explicit.pricing import CoordinateAscent, Priced, Pricer, ProductBasis, exceeds, uniform_codes
from synthdp.fit.explicit.problem import checked_answers, expected_noise, row_weights
from synthdp.fit.explicit.sifting import L1Dual, weights_from
from synthdp.fit.explicit.solver import FitResult, FitStatus
from synthdp.randomness import Generator, generator

if TYPE_CHECKING:
    import highspy


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GridProblem:
    """Weights on a product grid whose averages of ``basis`` come close to the noisy averages ``b``.

    Parameters
    ----------
    basis
        k queries on the grid.
    b
        (k,) noisy answers as averages over rows.
    stddev
        (k,) or scalar standard deviation of the noise; 0 marks an exact answer.
    """

    basis: ProductBasis
    b: Answers
    stddev: FloatArray

    def __post_init__(self) -> None:
        b, stddev = checked_answers(self.b, self.stddev)
        if b.size != self.basis.k:
            raise ParameterError(f"b must have one answer per query ({self.basis.k}), not {b.size}")
        object.__setattr__(self, "b", b)
        object.__setattr__(self, "stddev", stddev)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GridFit:
    """The grid points that carry weight, (m, d) codes, and the fit on them."""

    support: Codes
    fit: FitResult

    def __post_init__(self) -> None:
        frozen(self.support)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnGeneration:
    """Minimise the sum of r · |A w − b| over all distributions on a product grid.

    The result is certified (``FitStatus.OPTIMAL``) where the pricer proves its bound, and says ``HEURISTIC`` where the
    pricer only found nothing better.  A lower objective can be a worse release, because it fits noise: set
    ``noise_multiple`` to stop once the objective is that multiple of what noise alone would give.

    Parameters
    ----------
    pricer
        `Enumeration` for small grids, which proves its bound, or `CoordinateAscent`.
    points_per_round
        The most points to add at once.
    max_rounds
        Limit on rounds.
    pivots
        Limit on steps of the simplex, over all rounds.
    tolerance
        Gap, relative to max(objective, k · largest feature), up to which the answer counts as optimal.
    noise_multiple
        Multiple of the expected noise at which the fit stops; 0 to go on to the optimum.
    initial_points
        Uniform grid points to start from where the caller gives no start.
    """

    name: ClassVar[str] = "column_generation"

    pricer: Pricer = field(default_factory=CoordinateAscent)
    points_per_round: int = 32
    max_rounds: int = 1000
    pivots: int = 50_000
    tolerance: float = 1e-8
    noise_multiple: float = 0.0
    initial_points: int = 64

    def __post_init__(self) -> None:
        for name in ("points_per_round", "max_rounds", "pivots", "initial_points"):
            check_whole(name, getattr(self, name))
        check_share("tolerance", self.tolerance)
        check_number("noise_multiple", self.noise_multiple, least=0, infinite=True)

    def solve(self, problem: GridProblem, *, start: Codes | None = None, rng: Generator | None = None) -> GridFit:
        """Return the grid points that carry weight, (m, d) codes, and weights of the least L1 misfit that is found.

        Points are added as the pricer finds that they help, so that the grid is never listed.

        Parameters
        ----------
        problem
            The fit problem.
        start
            (c, d) codes of points to begin with, such as candidates from a product fit.
        rng
            Randomness of the search; the same generator state gives the same result.  A fixed one if absent.

        Raises
        ------
        SolverFailedError
            If the simplex ends without a usable basis.
        """
        rng = generator(0) if rng is None else rng
        master = _Master(problem)
        new = np.unique(self._start(problem, start, rng=rng), axis=0)
        scale, enough = master.scale, self.noise_multiple * expected_noise(problem.stddev)
        bound, rounds, status = 0.0, 0, FitStatus.INACCURATE  # y = 0 proves 0
        while new.size:
            master.add(new)
            master.solve(self.pivots - master.iterations)
            rounds += 1
            allowed = self.tolerance * max(master.objective, problem.basis.k * scale)
            if master.objective - bound <= allowed:
                status = FitStatus.OPTIMAL
                break
            if master.objective <= enough:
                status = FitStatus.NOISE_LEVEL
                break
            if not master.finished or master.iterations >= self.pivots or rounds >= self.max_rounds:
                status = FitStatus.LIMIT
                break
            threshold = master.z + FEASIBILITY * scale
            priced = self.pricer.price(
                problem.basis,
                master.y,
                incumbents=master.support[master.weights > 0],
                threshold=threshold,
                count=self.points_per_round,
                rng=rng,
            )
            bound = max(bound, float(master.y @ problem.b) - priced.bound)
            if master.objective - bound <= allowed:
                status = FitStatus.OPTIMAL
                break
            new = _helpful(priced, threshold=threshold, known=master.points)
            status = FitStatus.HEURISTIC if math.isinf(priced.bound) else FitStatus.INACCURATE
        carry = master.weights > 0
        fit = FitResult(
            weights=master.weights[carry],
            status=status,
            objective=master.objective,
            bound=bound,
            solver=self.name,
            objective_lp=master.objective,
            pivots=master.iterations,
        )
        return GridFit(support=master.support[carry], fit=fit)

    def _start(self, problem: GridProblem, start: Codes | None, *, rng: Generator) -> IntArray:
        """Return the (c, d) codes of the first grid points: the caller's, checked, or uniformly drawn ones.

        ParameterError is raised for codes outside of the grid.
        """
        shape = problem.basis.shape
        if start is None:
            return uniform_codes(shape, self.initial_points, rng=rng)
        codes = np.asarray(start, dtype=np.int64)
        if codes.ndim != 2 or codes.shape[0] == 0 or codes.shape[1] != len(shape):
            raise ParameterError(f"start must have shape (points, {len(shape)}), not {codes.shape}")
        if (codes < 0).any() or (codes >= np.array(shape)).any():
            raise ParameterError(
                "start must hold grid indices, each at least 0 and below the number of grid points of its column"
            )
        return codes


class _Master:
    """The linear program's dual over the grid points so far, kept open in HiGHS to restart from its last basis."""

    def __init__(self, problem: GridProblem) -> None:
        self._problem = problem
        self.scale = _largest_feature(problem.basis)
        self._dual = L1Dual(b=problem.b, r=row_weights(problem.stddev), scale=self.scale)
        self._solver = _empty_program(self._dual)
        self.support: IntArray = np.empty((0, problem.basis.d), dtype=np.int64)
        self._features: FloatArray = np.empty((problem.basis.k, 0))
        self.points: set[tuple[int, ...]] = set()
        self.weights: Weights = np.empty(0)
        self.y: FloatArray = np.zeros(problem.basis.k)
        self.z = 0.0
        self.objective = math.inf
        self.finished = False
        self.iterations = 0

    def add(self, codes: IntArray) -> None:
        """Add grid points, (c, d) codes, to the program: one dual constraint each."""
        features = self._problem.basis.features(codes)
        rows = np.asarray(self._dual.rows(features))
        count, width = rows.shape
        self._solver.addRows(
            count,
            np.full(count, -np.inf),
            np.zeros(count),
            rows.size,
            np.arange(0, rows.size, width, dtype=np.int32),
            np.tile(np.arange(width, dtype=np.int32), count),
            rows.ravel(),
        )
        self.support = np.concatenate([self.support, codes])
        self._features = np.concatenate([self._features, features], axis=1)
        self.points.update(tuple(code) for code in codes.tolist())

    def solve(self, pivots: int) -> None:
        """Solve the dual over the grid points so far, from the last basis, in at most ``pivots`` steps.

        Store the points' weights, the dual vector and the objective.  If HiGHS stops before it has weights, the last
        round's stay.
        """
        import highspy

        self._solver.setOptionValue("simplex_iteration_limit", max(pivots, 1))
        self._solver.run()
        status = self._solver.getModelStatus()
        solution = self._solver.getSolution()
        weights = weights_from(-np.array(solution.row_dual), points=self.support.shape[0])
        if weights is None and self.weights.size:  # stopped early: the weights of the last round stay
            self.weights = np.append(self.weights, np.zeros(self.support.shape[0] - self.weights.size))
            self.finished = False
            return
        if weights is None:
            sentence = f"HiGHS ended with status {self._solver.modelStatusToString(status)}."
            raise SolverFailedError(
                f"column generation ended without usable weights ({sentence}): try solver='mw'", status=sentence
            )
        self.finished = status == highspy.HighsModelStatus.kOptimal
        self.iterations += max(int(self._solver.getInfo().simplex_iteration_count), 0)
        self.y, self.z = self._dual.point(np.array(solution.col_value))
        self.weights = weights
        self.objective = float(self._dual.r @ np.abs(self._features @ self.weights - self._problem.b))


def _empty_program(dual: L1Dual) -> highspy.Highs:
    """Return a HiGHS program with the dual's variables, bounds and costs, but no constraints yet.

    `_Master.add` adds one constraint per grid point.
    """
    import highspy

    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    for name, value in dual.options().items():
        solver.setOptionValue(name, value)
    solver.addVars(dual.costs.size, -dual.upper, dual.upper)
    solver.changeColsCost(dual.costs.size, np.arange(dual.costs.size, dtype=np.int32), dual.costs)
    return solver


def _largest_feature(basis: ProductBasis) -> float:
    """Return the largest |feature| over the grid, 1 if all are zero: the scale of the dual's variables."""
    largest = max(math.prod(float(np.abs(table).max()) for table in term.values()) for term in basis.terms)
    return largest if largest > 0 else 1.0


def _helpful(priced: Priced, *, threshold: float, known: AbstractSet[tuple[int, ...]]) -> IntArray:
    """Return the codes, (c, d), of priced points that the program lacks and whose constraint the dual violates.

    A constraint is violated if the point's score exceeds ``threshold``; ``known`` holds the points in the program.
    """
    above = priced.codes[exceeds(priced.scores, threshold)].astype(np.int64)
    new = [code for code in above.tolist() if tuple(code) not in known]
    return np.array(new, dtype=np.int64).reshape(-1, priced.codes.shape[1])
