"""Listed cells: how many rows fit in all columns and so lie in one, and weights refitted to every new noisy answer.

A row with a value that does not fit lies in no listed cell.  The mechanisms leave it out, and say how many rows that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from synthdp.arrays import Answers, Codes, Weights
from synthdp.curator import Curator
from synthdp.domain.domain import Domain, domain_with_misfits
from synthdp.errors import ParameterError
from synthdp.fit.averages import out_of_domain_terms
from synthdp.fit.explicit.l1_program import L1Program
from synthdp.fit.explicit.problem import FitProblem
from synthdp.fit.out_of_domain import MIN_IN_DOMAIN
from synthdp.measurements import Measurements, beyond_noise
from synthdp.mechanisms.cell_model import design, weighted_averages
from synthdp.mechanisms.row_count import RowCount, part_left, row_total
from synthdp.privacy.loss import PrivacyLoss
from synthdp.queries.composed import FittingRows
from synthdp.queries.linear import Total
from synthdp.queries.marginals import Marginals
from synthdp.queries.norms import Norms
from synthdp.queries.protocol import LinearQueries
from synthdp.queries.trigonometric import TensorBasis

MISFIT_SHARE = 0.05
"""Share of what the number of rows leaves, for counting misfits.  Tuned; not measured."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FittingTotal:
    """The number of rows, how many of them fit, and what is left for the rest of a program.

    Parameters
    ----------
    found
        The number of all rows.
    fitting
        The number of rows that fit in all columns, at least 1; of all rows where noise explains the difference.
    rest
        What the account has left.
    measurements
        What was measured for it.
    """

    found: RowCount
    fitting: int
    rest: PrivacyLoss
    measurements: tuple[Measurements, ...]

    @property
    def rows(self) -> int:
        """At least 1; exact where it is public."""
        return round(self.found.rows)

    @property
    def each(self) -> float:
        """Return how many rows of the table one in-domain row stands for."""
        return self.rows / self.fitting

    @property
    def notes(self) -> tuple[str, ...]:
        """A line for the receipt, if there are rows that do not fit."""
        if self.fitting == self.rows:
            return ()
        share = 1 - self.fitting / self.rows
        return (
            f"about {share:.0%} of the rows have a value that does not fit the schema, and are left out as a whole",
        )


def fitting_total(account: Curator, domain: Domain, *, share: float) -> FittingTotal:
    """Return the number of rows, how many of them fit, and what the account has left.

    Costs ``share`` of all that the account has left under ``add_remove``, as `row_total` does, and then `MISFIT_SHARE` of
    the rest where a column has values that may not fit.

    Parameters
    ----------
    account
        A curator whose whole budget belongs to the caller.
    domain
        Of the cells that are listed.
    share
        0 < share < 1.
    """
    total = total_of_all(account, domain, share=share)
    apart = domain_with_misfits(domain)
    terms = out_of_domain_terms(apart, order=1)
    if not terms:
        return total
    each = part_left(account, share=MISFIT_SHARE / (len(terms) + 1))
    whole = part_left(account, share=MISFIT_SHARE * len(terms) / (len(terms) + 1))
    indicators = TensorBasis(apart, terms, 1, swap=Norms(len(terms), len(terms), 1))
    misfits = account.measure(indicators, spend=whole, step="values that do not fit")
    fits = account.measure(FittingRows(Total(domain)), spend=each, step="rows that fit")
    rest = account.remaining
    if rest is None:
        raise ParameterError(
            "the budget share of out-of-domain values must be below 1, because other steps need a part of the budget"
        )
    measurements = (*total.measurements, misfits, fits)
    return FittingTotal(
        found=total.found, fitting=_fitting(total.found, misfits, fits), rest=rest, measurements=measurements
    )


def total_of_all(account: Curator, domain: Domain, *, share: float) -> FittingTotal:
    """Return the number of rows as if all of them fit, for tables that count misfits in cells of their own.

    Costs ``share`` of all that the account has left under ``add_remove``, as `row_total` does.
    """
    total = row_total(account, Total(domain), share=share)
    return FittingTotal(found=total.found, fitting=total.rows, rest=total.rest, measurements=total.measurements)


def _fitting(total: RowCount, misfits: Measurements, fits: Measurements) -> int:
    """Return the rows that fit, or all rows where noise explains both counts of misfits."""
    rows = total.rows
    clear = (misfits.answers > beyond_noise(misfits.stddev, len(misfits.answers))).any()
    missing = rows - float(fits.answers[0])
    if not clear and missing <= beyond_noise((fits.stddev**2 + total.stddev**2) ** 0.5, 1):
        return round(rows)
    most = rows - max(float(misfits.answers.max()), 0.0) if clear else rows
    least = max(MIN_IN_DOMAIN * rows, 1.0)
    return round(max(min(float(fits.answers[0]), most), least))


LEAST_WEIGHT = 1e-300
"""Weights are multiplied as if no less than this, so that a cell that one wild answer emptied can come back.
A numerical tolerance."""


class CellFit:
    """Weights that start uniform and are only ever multiplied.

    Parameters
    ----------
    cells
        (m, d) codes.
    rows
        Number of rows, public or estimated.
    replay
        Evaluations of the L1 fit to all answers so far, after each new one; 0 for a single
        multiplicative update with the newest.
    """

    def __init__(self, cells: Codes, rows: int, *, replay: int) -> None:
        self._cells, self._rows, self._replay = cells, rows, replay
        self._features: list[sp.csr_array] = []
        self._answers: list[Answers] = []
        self._stddev: list[float] = []
        self.weights: Weights = np.full(len(cells), 1 / len(cells))
        self.notes: tuple[str, ...] = ()
        """What the receipt is to say of the last fit that did not end well; none if all did."""

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
        """Take in noisy sums of some queries: refit to all so far or, without replay, update by these alone.

        Changes ``weights``.
        """
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
        """Return weights fitted anew to all measured answers, by the L1 program."""
        sizes = [len(answers) for answers in self._answers]
        problem = FitProblem.of_noisy(
            sp.csc_array(sp.vstack(self._features)),
            np.concatenate(self._answers) / self._rows,
            np.repeat(self._stddev, sizes) / self._rows,
        )
        found = L1Program(evaluations=self._replay).solve(problem)
        if found.reason:
            self.notes = (f"the fit after answer {len(sizes)}: {found.reason}",)
        return found.weights
