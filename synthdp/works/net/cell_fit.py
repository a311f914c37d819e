"""Weights on listed cells, refitted to every new noisy answer: the state of MWEM, private multiplicative weights, boosting.

Post-processing of noisy answers; knows no curator.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from synthdp.arrays import Answers, Codes, Weights
from synthdp.fit.explicit.multiplicative_weights import MultiplicativeWeights
from synthdp.fit.explicit.problem import FitProblem
from synthdp.mechanisms.cell_model import weighted_averages
from synthdp.mechanisms.design import design
from synthdp.queries.marginals import Marginals
from synthdp.queries.protocol import LinearQueries

LEAST_WEIGHT = 1e-300
"""Weights are multiplied as if no less than this, so that a cell that one wild answer emptied can come back."""


class CellFit:
    """Weights that start uniform and are only ever multiplied.

    Parameters
    ----------
    cells
        (m, d) codes.
    rows
        Number of rows, public or estimated.
    replay
        Steps of entropic mirror descent on all answers so far after each new one; 0 for a single multiplicative update
        with the newest.
    """

    def __init__(self, cells: Codes, rows: int, *, replay: int) -> None:
        self._cells, self._rows, self._replay = cells, rows, replay
        self._features: list[sp.csr_array] = []
        self._answers: list[Answers] = []
        self._stddev: list[float] = []
        self.weights: Weights = np.full(len(cells), 1 / len(cells))

    def expected(self, queries: LinearQueries) -> Answers:
        """Return the (k,) sums over rows that the weights predict."""
        if not isinstance(queries, Marginals):
            return self._rows * weighted_averages(queries, self._cells, self.weights)
        tables = queries.cells(self._cells)
        counts = [
            np.bincount(table - first, weights=self.weights, minlength=size)
            for table, first, size in zip(tables.T, queries.offsets, queries.sizes, strict=False)
        ]
        return np.asarray(self._rows * np.concatenate(counts), np.float64)

    def add(self, queries: LinearQueries, answers: Answers, stddev: float) -> None:
        """Refit to noisy sums of some queries, and to all before them."""
        self._features.append(sp.csr_array(design(queries, self._cells)))
        self._answers.append(answers)
        self._stddev.append(stddev)
        self.weights = self._refitted() if self._replay else self._updated()

    def correct(self, answers: Sequence[Answers]) -> None:
        """Take the answers so far for these, in the order in which they were added."""
        self._answers = list(answers)

    def _updated(self) -> Weights:
        """Return w exp(q(x) (a - q(w)) / 2n) for the newest queries q and answers a (Hardt, Ligett, McSherry 2012)."""
        features = self._features[-1]
        missing = self._answers[-1] - self._rows * (features @ self.weights)
        exponent = features.T @ missing / (2 * self._rows)
        logs = np.log(np.maximum(self.weights, LEAST_WEIGHT)) + exponent
        weights = np.exp(logs - logs.max())
        return np.asarray(weights / weights.sum(), np.float64)

    def _refitted(self) -> Weights:
        sizes = [len(answers) for answers in self._answers]
        problem = FitProblem(
            A=sp.csc_array(sp.vstack(self._features)),
            b=np.concatenate(self._answers) / self._rows,
            stddev=np.repeat(self._stddev, sizes) / self._rows,
            prior=self.weights,
        )
        return MultiplicativeWeights(max_iterations=self._replay).solve(problem).weights
