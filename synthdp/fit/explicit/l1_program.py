"""The L1 program over the columns of multiplicative weights: a few distributions, mixed by a linear program.

It minimises F(w) = sum r (|A w − b| − e)+ + pull · D(w, prior) over the simplex.  D is convex, so a mixture of columns
is at most as dear as the mixture of their prices: the linear program's value is never below F of its mixture, and its
multipliers say where the next column should be.  The program has a hundred columns and k answers, however many support
points there are.  A column is q ∝ p · exp(A'y / temperature) for a (k,) vector y, a multiplicative update of the prior
p.  The best column is the fit by multiplicative weights; the linear program may mix all columns.  See
docs/mechanisms/l1-fit.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import Bounds, minimize
from threadpoolctl import ThreadpoolController

from synthdp.arrays import FloatArray, IntArray, Weights
from synthdp.checks import check_number, check_one_of, check_whole
from synthdp.errors import SolverFailedError
from synthdp.fit.explicit.linear_program import SIMPLEX, minimise
from synthdp.fit.explicit.problem import FitProblem
from synthdp.fit.explicit.solver import FitResult, FitStatus

MEMORY = 20
"""Number of past steps that L-BFGS-B keeps; 20 is the middle of the range that its authors advise.  A numerical
tolerance.
"""


class _Spent(Exception):  # noqa: N818 -- a limit, not an error
    """Raised inside a descent when the limit on evaluations is reached."""


class Columns:
    """The columns of a problem so far; the prior is the first.

    Parameters
    ----------
    problem
        The fit problem.
    limit
        The most evaluations, each one product with A and one with A'.
    enough
        Gap at which a descent may end, > 0: the unit in which its objective is minimised.

    Attributes
    ----------
    evaluations, spent
        Number of evaluations so far, and whether the limit is reached.
    best, best_at, weights
        The least objective of a column, which column it is, and its (m,) weights.
    bound, y
        The largest proven lower bound on the objective, and the (k,) vector that proves it.
    """

    def __init__(self, problem: FitProblem, *, limit: int, enough: float) -> None:
        self._problem, self._limit, self._enough = problem, limit, enough
        self._transposed, self._r = problem.A.T, problem.row_weights
        self._insensitive = np.broadcast_to(problem.insensitive, problem.b.shape)
        self._start = problem.start
        self._logs = np.log(self._start, where=self._start > 0, out=np.full(problem.m, -np.inf))
        self._answers: list[FloatArray] = []
        self._entropies: list[float] = []
        self._made: list[tuple[FloatArray, float]] = []
        self.evaluations, self.best, self.best_at = 0, math.inf, 0
        self.weights, self.bound, self.y = self._start, 0.0, np.zeros(problem.k)  # y = 0 proves 0
        self._add(self._start, problem.A @ self._start, 0.0, made=(self.y, math.inf))

    def __len__(self) -> int:
        return len(self._made)

    @property
    def spent(self) -> bool:
        """Whether the limit on evaluations is reached."""
        return self.evaluations >= self._limit

    def answers(self, at: IntArray) -> FloatArray:
        """Return the (t, k) answers of the columns at positions ``at``, (t,), which a linear program mixes."""
        return np.stack([self._answers[t] for t in at])

    def entropies(self, at: IntArray) -> FloatArray:
        """Return the (t,) relative entropies to the prior of the columns at positions ``at``: the price of mixing."""
        return np.array([self._entropies[t] for t in at])

    def mixture(self, at: IntArray, shares: FloatArray) -> Weights:
        """Return the (m,) weights, of sum 1, that mix the columns at positions ``at``, (t,), with ``shares``, (t,).

        The columns' weights are recomputed, since only their vectors y are stored.
        """
        weights = np.zeros(self._problem.m)
        for t, share in zip(at, shares, strict=True):
            y, temperature = self._made[t]
            made = self._start if math.isinf(temperature) else self._tilted(self._transposed @ y, temperature)[0]
            weights += share * made
        return np.asarray(weights / weights.sum())

    def descend(self, y: FloatArray, *, temperature: float, steps: int) -> FloatArray:
        """Take steps of L-BFGS-B on the smooth dual at a temperature; each step adds columns; return the last y.

        The dual is y'b − e'|y| − temperature · log sum p exp(A'y / temperature), to be maximised over |y| <= r. A holds
        the queries' values at the support points, b the noisy answers, and p the prior. Deviations up to e cost
        nothing, and r is the price of others. The program's variables are the positive and the negative parts of y, so
        that |y| is their sum. The descent ends where the slope proves a gap of ``enough``, for |y| <= 1. Where the
        limit on evaluations comes first, the y of the best bound is returned.
        """
        k = self._problem.k

        def negative(parts: FloatArray) -> tuple[float, FloatArray]:
            y = parts[:k] - parts[k:]
            if self.spent:
                raise _Spent
            answers, log_total = self.add(y, temperature=temperature)
            missed = answers - self._problem.b
            value = (
                temperature * log_total
                - float(y @ self._problem.b)
                + float(self._insensitive @ (parts[:k] + parts[k:]))
            )
            slope = np.concatenate([self._insensitive + missed, self._insensitive - missed])
            return value / self._enough, slope / self._enough

        try:
            found = minimize(
                negative,
                np.concatenate([np.maximum(y, 0.0), np.maximum(-y, 0.0)]),
                jac=True,
                method="L-BFGS-B",
                bounds=Bounds(0.0, np.tile(self._r, 2)),
                options={"maxiter": steps, "maxfun": 2 * steps, "maxcor": MEMORY, "gtol": 1 / (2 * k)},
            )
        except _Spent:
            return self.y
        return np.asarray(found.x[:k] - found.x[k:])

    def add(self, y: FloatArray, *, temperature: float) -> tuple[FloatArray, float]:
        """Add the column q ∝ p · exp(A'y / temperature), the prior p tilted by a (k,) vector y: one evaluation.

        Return its (k,) answers A q, and log sum p exp(A'y / temperature), which the smooth dual contains.
        """
        self.evaluations += 1
        scores = self._transposed @ y
        weights, log_total = self._tilted(scores, temperature)
        answers = self._problem.A @ weights
        entropy = max(float(scores @ weights) / temperature - log_total, 0.0)
        self._add(weights, answers, entropy, made=(y, temperature))
        bound = self._problem.bound_from(y, scores)
        if bound > self.bound:
            self.bound, self.y = bound, y
        return answers, log_total

    def _tilted(self, scores: FloatArray, temperature: float) -> tuple[Weights, float]:
        """Return the prior times exp(scores / temperature), normalised, (m,), and the logarithm of its sum before.

        A multiplicative update has this form; the logarithm enters the bound on the objective.
        """
        exponents = self._logs + scores / temperature
        largest = float(exponents.max())
        weights = np.exp(exponents - largest)
        total = float(weights.sum())
        return weights / total, largest + math.log(total)

    def _add(self, weights: Weights, answers: FloatArray, entropy: float, *, made: tuple[FloatArray, float]) -> None:
        """Store a column's answers, entropy and origin (y, temperature), and update the best column.

        Only the best column's weights are kept; the origin gives back the weights of any other.
        """
        self._answers.append(answers)
        self._entropies.append(entropy)
        self._made.append(made)
        pull = self._problem.pull
        objective = self._problem.misfit_of(answers) + (pull * entropy if entropy else 0.0)
        if objective < self.best:
            self.best, self.best_at, self.weights = objective, len(self._made) - 1, weights


MULTIPLES = (30.0, 10.0, 3.0)
"""Temperatures of the descent's path from the prior towards the fit, as multiples of the final temperature.  A numerical
tolerance: other paths end at the same optimum, later or sooner (docs/mechanisms/l1-fit.md)."""

PATH_SHARE, ROUND_SHARE, ROUNDS = 1 / 20, 1 / 5, 5
"""Descent steps as fractions of all evaluations: PATH_SHARE at each temperature of the path, ROUND_SHARE before each
linear program (15 and 60 of 300); and ROUNDS, the most programs.  Safety limits of time: a program ends earlier at `GAP`
(docs/mechanisms/l1-fit.md)."""

MIN_EVALUATIONS, MAX_EVALUATIONS, MAX_PRODUCTS = 60, 300, 2e10
"""Fewest and most evaluations of the objective; between, as many as make MAX_PRODUCTS multiplications, about ten
seconds.  A safety limit of time.
"""

MAX_PIVOTS = 1000
"""Most steps of the simplex in one linear program.  Safety limit: a program of 100 columns takes about 500."""

MIN_COLUMNS, MAX_COLUMNS, MAX_ENTRIES = 20, 100, 2e6
"""Fewest and most latest columns (distributions) that a program mixes; between, as many as have MAX_ENTRIES answers
together.  A safety limit of memory.
"""

MAX_ANSWERS = 100_000
"""With more answers than this no linear program is solved: its columns alone would take seconds.  A safety limit of
time.
"""

GAP, LARGE_GAP = 0.05, 0.25
"""Gaps between objective and proven bound, as multiples of the noise level: at most GAP ends a fit, above LARGE_GAP a
warning says so.  Numerical tolerances: the optimum is no nearer to the truth than the noise (docs/mechanisms/l1-fit.md).
"""

ROUNDING = 1e-6
"""Gap between objective and proven bound that counts as none if answers have no noise.  The unit is the number of queries
times the largest feature.  A tolerance: HiGHS and L-BFGS-B round as much.
"""

LEAST_MIXED = 0.5
"""Least sum of a linear program's multipliers at which they are used as the shares of a mixture.  At the optimum it is
1; less means that HiGHS stopped far from it, and the program counts as failed.  A tolerance.
"""

MAX_TOLD = 80
"""Most characters of an error's message that are quoted in a reason.  A safety limit, so that receipts stay short."""


class Mixture(NamedTuple):
    """What one program found: (m,) weights, multipliers y (k,), pivots, and whether it was stopped before its end."""

    weights: Weights
    y: FloatArray
    pivots: int
    stopped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class L1Program:
    """Fit weights by multiplicative updates of the prior, mixed by linear programs.

    The weights are the better of the best mixture and of the best single update.  Nothing looks at a clock: evaluations,
    programs and pivots are counted, so that the same problem has the same weights on a loaded machine.

    Parameters
    ----------
    name
        ``"lp"``, or ``"mw"`` for the updates alone, without any program.
    evaluations
        The most evaluations; ``None`` for what the size of the problem allows.
    gap
        Gap at which the fit is done, in multiples of the noise level.
    """

    name: Literal["lp", "mw"] = "lp"
    evaluations: int | None = None
    gap: float = GAP

    def __post_init__(self) -> None:
        check_one_of("name", self.name, ("lp", "mw"))
        if self.evaluations is not None:
            check_whole("evaluations", self.evaluations)
        check_number("gap", self.gap, least=0)

    def solve(self, problem: FitProblem) -> FitResult:
        """Return (m,) weights near the prior that explain the answers, with their objective and a proven bound on it.

        If a linear program fails, the best weights found by other steps are returned.
        """
        with _libraries().limit(limits=1):  # another number of threads adds in another order
            return self._solve(problem)

    def _solve(self, problem: FitProblem) -> FitResult:
        """Do the work of `solve`: alternate descent steps with linear programs that mix the visited columns.

        Stops when the gap is within the noise or a limit is reached.
        """
        limit = self.evaluations or int(np.clip(MAX_PRODUCTS / problem.nonzeros, MIN_EVALUATIONS, MAX_EVALUATIONS))
        rounding = ROUNDING * problem.k * problem.magnitude
        enough = max(self.gap * problem.noise_level, rounding)
        temperature = problem.pull or enough / math.log(max(problem.m, 2))
        columns = Columns(problem, limit=limit, enough=enough)
        y, mixed, objective_lp, pivots, failure, overcome = columns.y, None, math.inf, 0, "", ""
        stages = [(multiple * temperature, PATH_SHARE) for multiple in MULTIPLES] + [
            (temperature, ROUND_SHARE)
        ] * ROUNDS
        if self.name == "lp" and problem.k > MAX_ANSWERS:
            failure = f"is not solved for more than {MAX_ANSWERS} answers"
        for at, share in stages if math.isfinite(problem.pull) else ():
            y = columns.descend(y, temperature=at, steps=math.ceil(share * limit))
            if share == PATH_SHARE:
                continue
            y = columns.y
            if self.name == "lp" and not failure:
                try:
                    found = mixture_of(problem, columns)
                    pivots += found.pivots
                    reached = problem.objective(found.weights)
                    if reached < objective_lp:
                        mixed, objective_lp = found.weights, reached
                    overcome = overcome or failure
                    failure = f"stopped after {found.pivots} pivots" if found.stopped else ""
                    y = np.clip((columns.y + found.y) / 2, -problem.row_weights, problem.row_weights)
                except Exception as error:  # noqa: BLE001 -- whatever it is: the answers are paid for
                    failure = "failed " + told(error)
            if columns.spent or min(columns.best, objective_lp) - columns.bound <= enough:
                break
        objective = min(columns.best, objective_lp)
        bound = columns.bound if math.isfinite(problem.pull) else objective
        gap = objective - bound
        by_program = mixed is not None and objective_lp < columns.best
        status = FitStatus.WITHIN_NOISE if gap <= enough else FitStatus.LIMIT
        if failure:
            status = FitStatus.FAILED
        elif math.isinf(problem.pull):
            status = FitStatus.PRIOR
        elif gap <= rounding:
            status = FitStatus.OPTIMAL
        return FitResult(
            weights=mixed if mixed is not None and by_program else columns.weights / columns.weights.sum(),
            status=status,
            objective=objective,
            bound=bound,
            solver="lp" if by_program else "mw",
            objective_lp=objective_lp,
            objective_mw=columns.best,
            evaluations=columns.evaluations,
            pivots=pivots,
            reason=_reason(failure, columns.best, objective_lp) if failure else _earlier_failure(overcome),
        )


@cache
def _libraries() -> ThreadpoolController:
    """Return a controller of the threads of NumPy's numerical libraries, by which a fit runs in one thread.

    With another number of threads sums would be rounded otherwise.  The controller is cached, since finding the
    libraries takes as long as a small program.
    """
    return ThreadpoolController()


def mixture_of(problem: FitProblem, columns: Columns) -> Mixture:
    """Return the mixture of the prior, the best column and the latest ones that fits best, by one linear program.

    A column is a distribution over the support points, from one multiplicative update of the prior.

    The program is posed on its dual: y as two parts between 0 and r, and z, with a row per column t,

        minimise e'(y⁺ + y⁻) + z  subject to  (a_t − b)'(y⁺ − y⁻) − z <= pull · D_t

    where a_t are the answers of the column and D_t is its relative entropy.  The multipliers of the rows are the mixture.
    A part whose answer no column misses by more than e, on its side, is 0 at the optimum and left out: it costs e and
    spares at most that.  All is divided by the largest miss |a_t − b|.

    Raises
    ------
    SolverFailedError
        If HiGHS ends without multipliers that are a mixture.
    """
    latest = int(np.clip(MAX_ENTRIES / problem.k, MIN_COLUMNS, MAX_COLUMNS))
    at = np.unique([0, columns.best_at, *range(max(len(columns) - latest, 0), len(columns))])
    missed, k = columns.answers(at) - problem.b, problem.k
    scale = float(np.abs(missed).max()) or 1.0
    free = np.broadcast_to(problem.insensitive, (k,))
    low, high = np.flatnonzero(missed.min(axis=0) < -free), np.flatnonzero(missed.max(axis=0) > free)
    both = np.concatenate([low, high])
    found = minimise(
        np.append(free[both] / scale, 1.0),
        rows=np.hstack([missed[:, low] / scale, -missed[:, high] / scale, np.full((len(at), 1), -1.0)]),
        limits=problem.pull / scale * columns.entropies(at),
        lower=np.append(np.zeros(len(both)), -np.inf),
        upper=np.append(problem.row_weights[both], np.inf),
        options={**SIMPLEX, "simplex_iteration_limit": MAX_PIVOTS},
    )
    if found is None:
        raise SolverFailedError(
            "the solver HiGHS found no solution, although there is one: try solver='mw'", status="infeasible"
        )
    shares, y = np.maximum(found.duals, 0.0), np.zeros(k)
    y[low] += found.x[: len(low)]
    y[high] -= found.x[len(low) : -1]
    if not (np.isfinite(shares).all() and np.isfinite(y).all() and shares.sum() >= LEAST_MIXED):
        stopped = "" if found.finished else f"stopped after {found.iterations} pivots and "
        raise SolverFailedError(f"the solver HiGHS {stopped}returned no weights: try solver='mw'", status="no weights")
    carried = shares > 0
    weights = columns.mixture(at[carried], shares[carried] / shares.sum())
    return Mixture(weights, y, found.iterations, not found.finished)


def told(error: Exception) -> str:
    """Return an error's type and the start of its message, in brackets, for a receipt's sentence on a failed fit.

    This reveals nothing, as solvers see public numbers only.
    """
    first = next(iter(str(error).splitlines()), "")[:MAX_TOLD].rstrip(".")
    return f"({type(error).__name__}{f': {first}' if first else ''})"


def _earlier_failure(failure: str) -> str:
    """Return the receipt's sentence on a linear program that failed before another linear program ended well.

    ``failure`` says how the program failed.  Without a failure both ``failure`` and the sentence are empty.
    """
    return f"A linear program {failure}; the weights are those after a later one, which ended well." if failure else ""


def _reason(failure: str, objective_mw: float, objective_lp: float) -> str:
    """Return the receipt's sentence on how a linear program failed, which weights are released, and both objectives."""
    by_program = objective_lp < objective_mw
    least, most = sorted((objective_lp, objective_mw))
    against = f" against {most:.4g}" if math.isfinite(most) else ""
    whose = "the best of its weights are released" if by_program else "solver 'mw' made the fit instead"
    return f"The linear program {failure}; {whose}, with an objective of {least:.4g}{against}."
