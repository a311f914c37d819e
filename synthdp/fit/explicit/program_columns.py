"""Multiplicative updates of a prior: whole distributions over the support points, each with its answers and its price.

A column is q ∝ p · exp(A'y / temperature) for a (k,) vector y.  The best column is the fit by multiplicative weights; a
linear program may mix all of them (`l1_program`).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import Bounds, minimize

from synthdp.arrays import FloatArray, IntArray, Weights
from synthdp.fit.explicit.problem import FitProblem

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
        What to fit.
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

        The dual is y'b − e'|y| − temperature · log sum p exp(A'y / temperature), to be maximised over |y| <= r.  Its
        variables are the positive and the negative parts of y, so that |y| is their sum.  It ends where the slope proves
        a gap of ``enough``, for |y| <= 1.  Where the limit on evaluations comes first, the y of the best bound is returned.
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
        """Return the prior times exp(scores / temperature), normalised, (m,), and the logarithm of its sum before."""
        exponents = self._logs + scores / temperature
        largest = float(exponents.max())
        weights = np.exp(exponents - largest)
        total = float(weights.sum())
        return weights / total, largest + math.log(total)

    def _add(self, weights: Weights, answers: FloatArray, entropy: float, *, made: tuple[FloatArray, float]) -> None:
        """Store a column's answers, entropy and origin (y, temperature), and update the best column."""
        self._answers.append(answers)
        self._entropies.append(entropy)
        self._made.append(made)
        pull = self._problem.pull
        objective = self._problem.misfit_of(answers) + (pull * entropy if entropy else 0.0)
        if objective < self.best:
            self.best, self.best_at, self.weights = objective, len(self._made) - 1, weights
