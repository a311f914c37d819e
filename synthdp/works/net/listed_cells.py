"""Weights on all listed cells of a small domain, refitted to every new noisy answer; and the number of in-domain rows.

A row with an out-of-domain value lies in no listed cell. The mechanisms leave such rows out, and a receipt note states
their fraction.
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
from synthdp.fit.explicit.l1_program import L1Program
from synthdp.fit.explicit.problem import FitProblem
from synthdp.fit.out_of_domain import MIN_IN_DOMAIN
from synthdp.measurements import Measurements, beyond_noise
from synthdp.mechanisms.cell_model import design, weighted_averages
from synthdp.mechanisms.row_count import RowCount, part_left, row_total
from synthdp.privacy.budget import COUNT_SHARE
from synthdp.privacy.loss import PrivacyLoss
from synthdp.queries.linear import FittingRows, Total
from synthdp.queries.norms import Norms
from synthdp.queries.protocol import LinearQueries
from synthdp.queries.trigonometric import TensorBasis, out_of_domain_terms


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FittingTotal:
    """The number of all rows and of in-domain rows, and the budget that is left for the rest of a program.

    Parameters
    ----------
    found
        The number of all rows.
    fitting
        The number of rows that are in domain in all columns, at least 1; the number of all rows where noise explains
        the difference.
    rest
        The privacy loss that is left for the rest of the program.
    measurements
        The noisy counts behind these numbers.
    """

    found: RowCount
    fitting: int
    rest: PrivacyLoss
    measurements: tuple[Measurements, ...]

    @property
    def rows(self) -> int:
        """Return the number of all rows, at least 1: exact where it is public, else an estimate."""
        return round(self.found.rows)

    @property
    def each(self) -> float:
        """Return rows / in-domain rows, the factor from sums over in-domain rows to answers about the whole table."""
        return self.rows / self.fitting

    @property
    def notes(self) -> tuple[str, ...]:
        """Return a line for the receipt with the fraction of rows that are left out; empty if none are."""
        if self.fitting == self.rows:
            return ()
        share = 1 - self.fitting / self.rows
        return (
            f"about {share:.0%} of the rows have a value that does not fit the schema, and are left out as a whole",
        )


def fitting_total(account: Curator, domain: Domain, *, share: float) -> FittingTotal:
    """Return the number of rows, the number of in-domain rows, and the budget that is left.

    Listed cells hold in-domain rows only, so weights are fitted to sums over these and answers scaled up. Costs
    ``share`` of all that the account has left under ``add_remove``, as `row_total` does. Then it costs `COUNT_SHARE`
    of the rest where a column can be out of domain.

    Parameters
    ----------
    account
        A curator whose whole budget belongs to the caller.
    domain
        The domain of the listed cells.
    share
        0 < share < 1.
    """
    total = total_of_all(account, domain, share=share)
    apart = domain_with_misfits(domain)
    terms = out_of_domain_terms(apart, order=1)
    if not terms:
        return total
    # one part for each column's count of values, and one for the rows: each count then has about as much noise
    each = part_left(account, share=COUNT_SHARE / (len(terms) + 1))
    whole = part_left(account, share=COUNT_SHARE * len(terms) / (len(terms) + 1))
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
    """Return the number of rows with all of them counted as in domain; no budget is spent on out-of-domain rows.

    MWEM uses it for marginals, whose tables count out-of-domain rows in cells of their own. Costs ``share`` of all that
    the account has left under ``add_remove``, as `row_total` does.
    """
    total = row_total(account, Total(domain), share=share)
    return FittingTotal(found=total.found, fitting=total.rows, rest=total.rest, measurements=total.measurements)


def _fitting(total: RowCount, misfits: Measurements, fits: Measurements) -> int:
    """Return the number of in-domain rows from noisy counts, or of all rows where noise explains the difference.

    The number is clipped to at least `MIN_IN_DOMAIN` of all rows. A clear count of out-of-domain values limits it from
    above.
    """
    rows = total.rows
    clear = (misfits.answers > beyond_noise(misfits.stddev, len(misfits.answers))).any()
    missing = rows - float(fits.answers[0])
    if not clear and missing <= beyond_noise((fits.stddev**2 + total.stddev**2) ** 0.5, 1):
        return round(rows)
    most = rows - max(float(misfits.answers.max()), 0.0) if clear else rows
    least = max(MIN_IN_DOMAIN * rows, 1.0)
    return round(max(min(float(fits.answers[0]), most), least))


LEAST_WEIGHT = 1e-300
"""Smallest weight that enters a multiplicative update, so that a cell can recover after one bad answer set it to 0. A
numerical tolerance."""


class CellFit:
    """Weights on all cells, with sum 1, refitted or multiplied after every new noisy answer; they start uniform.

    Parameters
    ----------
    cells
        (m, d) codes of all cells of the domain.
    rows
        Number of rows, public or estimated.
    replay
        Evaluations of the L1 fit to all answers so far, after each new answer; 0 for a single multiplicative update with
        the newest answer.
    """

    def __init__(self, cells: Codes, rows: int, *, replay: int) -> None:
        self._cells, self._rows, self._replay = cells, rows, replay
        self._features: list[sp.csr_array] = []
        self._answers: list[Answers] = []
        self._stddev: list[float] = []
        self.weights: Weights = np.full(len(cells), 1 / len(cells))
        self.notes: tuple[str, ...] = ()
        """A line for the receipt on the last fit whose linear program failed; empty if none failed."""

    def expected(self, queries: LinearQueries) -> Answers:
        """Return the (k,) sums over rows that the weights predict."""
        return self._rows * weighted_averages(queries, self._cells, self.weights)

    def add(self, queries: LinearQueries, answers: Answers, stddev: float) -> None:
        """Add noisy sums of some queries, and refit the weights to all answers so far.

        Without ``replay``, the newest answers alone update the weights. Changes ``weights``.
        """
        self._features.append(sp.csr_array(design(queries, self._cells)))
        self._answers.append(answers)
        self._stddev.append(stddev)
        self.weights = self._refitted() if self._replay else self._updated()

    def correct(self, answers: Sequence[Answers]) -> None:
        """Replace all earlier answers, one array per `add` in order, by corrected ones; the next refit uses them.

        MWEM does so, as each new part tells more about how many rows are out of domain.
        """
        self._answers = list(answers)

    def _updated(self) -> Weights:
        """Return weights w exp(q(x) (a - q(w)) / 2n), (cells,) of sum 1, for the newest queries q and answers a.

        It is the multiplicative update of Hardt, Ligett and McSherry (2012).
        """
        features = self._features[-1]
        missing = self._answers[-1] - self._rows * (features @ self.weights)
        exponent = features.T @ missing / (2 * self._rows)
        logs = np.log(np.maximum(self.weights, LEAST_WEIGHT)) + exponent
        weights = np.exp(logs - logs.max())
        return np.asarray(weights / weights.sum(), np.float64)

    def _refitted(self) -> Weights:
        """Return weights, (cells,), fitted to all answers so far by the L1 program, so that none is forgotten.

        A linear program that fails leaves a line for the receipt.
        """
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
