"""Fitting problems whose optimum and dual solution are known by hand or by construction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from synthdp.fit.explicit.problem import FitProblem


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownProblem:
    """A problem, the L1 objective at its optimum, and a dual vector that proves it (gap 0)."""

    name: str
    problem: FitProblem
    optimum: float
    dual: np.ndarray


def _known(name, A, b, stddev, *, optimum, dual) -> KnownProblem:
    problem = FitProblem(A=A, b=np.array(b), stddev=np.array(stddev))
    return KnownProblem(name=name, problem=problem, optimum=optimum, dual=np.array(dual, dtype=float))


def constructed(k: int, m: int, *, seed: int) -> KnownProblem:
    """Build a degenerate-free problem backwards from its optimal weights and dual.

    Half of the queries are missed by a chosen residual (their dual sits at the bound), the others are met (their dual
    lies strictly inside).  The first row of A is then shifted so that the chosen support is tight, all else slack.
    """
    rng = np.random.default_rng(seed)
    stddev = rng.uniform(0.02, 0.1, k)
    r = stddev.min() / stddev
    support = rng.choice(m, size=k // 2 + 1, replace=False)
    weights = np.zeros(m)
    weights[support] = rng.dirichlet(np.ones(support.size))
    missed = np.arange(k) < k // 2
    signs = rng.choice([-1.0, 1.0], k)
    y = r * signs * np.where(missed, 1.0, rng.uniform(0.1, 0.9, k))
    A = rng.uniform(-1, 1, (k, m))
    slack = rng.uniform(0.05, 0.5, m)
    slack[support] = 0.0
    A[0] += (-slack - A.T @ y) / y[0]
    residuals = np.where(missed, signs * rng.uniform(0.05, 0.3, k), 0.0)
    b = A @ weights + residuals
    return _known(f"constructed {k}x{m}", A, b, stddev, optimum=float(r @ np.abs(residuals)), dual=y)


def pulled(k: int, m: int, *, seed: int, sparse: bool = False) -> KnownProblem:
    """Build a problem with a pull and insensitive answers backwards from its dual.

    The optimal weights are prior · exp(A'y / pull).  A third of the answers are missed by more than is free (their dual
    sits at the bound), a third by just what is free (strictly inside), and a third by less (their dual is 0).
    """
    rng = np.random.default_rng(seed)
    stddev, pull = rng.uniform(0.02, 0.1, k), 0.1 * k**0.5
    A = rng.integers(0, 2, (k, m)) * (rng.random((k, m)) < 0.3) * 1.0 if sparse else rng.uniform(-1, 1, (k, m))
    third, signs, free = np.arange(k) % 3, rng.choice([-1.0, 1.0], k), 0.75 * stddev
    y = stddev.min() / stddev * signs * np.select([third == 0, third == 1], [1.0, rng.uniform(0.1, 0.9, k)], 0.0)
    prior = rng.dirichlet(np.ones(m))
    weights = prior * np.exp(A.T @ y / pull)
    weights /= weights.sum()
    extra = rng.uniform(0.01, 0.1, k) * (third == 0)
    b = A @ weights + signs * np.select([third == 0, third == 1], [free + extra, free], 0.5 * free)
    problem = FitProblem(
        A=sp.csc_array(A) if sparse else A, b=b, stddev=stddev, prior=prior, insensitive=free, pull=pull
    )
    optimum = float(stddev.min() / stddev @ extra + pull * weights @ np.log(weights / prior))
    return KnownProblem(name=f"pulled {k}x{m}{' sparse' if sparse else ''}", problem=problem, optimum=optimum, dual=y)


PULLED_PROBLEMS = (
    pulled(1, 2, seed=1),
    pulled(3, 40, seed=2),
    pulled(12, 300, seed=3),
    pulled(60, 1000, seed=4),
    pulled(90, 2000, seed=5, sparse=True),
)

KNOWN_PROBLEMS = (
    _known("a distribution on the corners", np.eye(3), [0.2, 0.3, 0.5], [0.01] * 3, optimum=0.0, dual=[0, 0, 0]),
    _known("one answer beyond its range", [[0.0, 1.0]], [2.0], [0.1], optimum=1.0, dual=[1]),
    _known("two answers that exclude each other", np.eye(2), [1.0, 1.0], [0.1, 0.1], optimum=1.0, dual=[1, 1]),
    _known("the surer of two answers wins", np.eye(2), [1.0, 1.0], [0.2, 0.1], optimum=0.5, dual=[0.5, 1]),
    _known(
        "an exact answer against a noisy one",
        [[1.0, 0.0], [1.0, 0.0]],
        [0.3, 0.7],
        [0.0, 0.1],
        optimum=0.4,
        dual=[-1, 1],
    ),
    _known("duplicate points", [[1.0, 1.0, 0.0, 0.0]], [0.5], [0.05], optimum=0.0, dual=[0]),
    _known("a single point", [[0.3], [0.6]], [0.5, 0.5], [0.1, 0.1], optimum=0.3, dual=[1, -1]),
    _known("a query that is zero", [[0.0, 0.0], [0.0, 1.0]], [0.25, 0.5], [0.02, 0.02], optimum=0.25, dual=[1, 0]),
    _known("only zeros", np.zeros((2, 3)), [0.25, -0.5], [0.02, 0.02], optimum=0.75, dual=[1, -1]),
    _known("an answer far outside", [[-1.0, 1.0]], [1e6], [0.1], optimum=999_999.0, dual=[1]),
    _known(
        "sparse indicators",
        sp.csr_array(np.array([[1.0, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0]])),
        [0.5, 0.5, -0.1],
        [0.05] * 3,
        optimum=0.1,
        dual=[0, 0, -1],
    ),
    constructed(4, 50, seed=1),
    constructed(12, 300, seed=2),
    constructed(30, 200, seed=3),
    constructed(40, 2000, seed=4),
)
