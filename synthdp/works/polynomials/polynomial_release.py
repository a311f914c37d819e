"""The general algorithm of Thaler, Ullman, Vadhan (2012, theorem 9): one noisy polynomial for a family of queries.

The coefficients of the rows' polynomials are summed, and noise is added once, by the exact sensitivity of the whole
vector. Every query is then an inner product.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from synthdp.answers.answers import Answers as Answered
from synthdp.answers.questions import Count, Question
from synthdp.checks import check_share
from synthdp.codec import check_saved, file_form
from synthdp.curator import Curator
from synthdp.errors import ParameterError
from synthdp.measurements import Measurements, NoiseLaw
from synthdp.mechanisms.estimate import Estimate
from synthdp.mechanisms.mechanism import HasPrivacyCost
from synthdp.mechanisms.row_count import row_total
from synthdp.privacy.loss import ApproxDP, Remaining, Spend
from synthdp.queries.linear import Total
from synthdp.randomness import RandomState
from synthdp.release import Release
from synthdp.works.polynomials.polynomial_families import MAX_COEFFICIENTS, PolynomialFamily


@file_form("PolynomialSummary")
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PolynomialSummary:
    """Noisy sums over rows of the coefficients of a family's polynomials, which answer any query of the family.

    Parameters
    ----------
    family
        The polynomial family.
    measured
        Noisy answers to the family's statistic.
    rows
        Number of rows, public or estimated.
    rows_stddev
        Standard deviation of that number; 0 where it is public.
    """

    family: PolynomialFamily
    measured: Measurements
    rows: float
    rows_stddev: float

    def __repr__(self) -> str:
        return f"PolynomialSummary({len(self.measured.values)} coefficients of a {type(self.family).__name__})"

    def answered(self, question: Any, measurements: Sequence[Measurements] = ()) -> Answered:  # noqa: ARG002
        """Answer the family's queries, or the number of rows, in the form of every release; see `Release.answer`."""
        if isinstance(question, Count) and question.where is None and not question.by:
            return Estimate(estimate=self.rows, stderr=self.rows_stddev, range=(0.0, math.inf)).answers()
        if isinstance(question, Question):
            raise ParameterError(
                f"a release of a {type(self.family).__name__} answers only queries of this family, and sd.count() "
                "without a condition: for other questions, release a synthetic table"
            )
        found = self.answer(question)
        several = len(np.atleast_1d(found.estimate)) > 1
        labels = {"query": list(range(len(np.atleast_1d(found.estimate))))} if several else {}
        return found.answers(labels)

    def answer(self, query: Any) -> Estimate:
        """Return the average over rows of their functions at a query, or at each of a list of queries.

        The truncation bound is the family's error of each query, if the family says that it is proven.

        Raises
        ------
        ParameterError
            If a query is not one of the family's.
        """
        several = isinstance(query, Sequence) and not isinstance(query, str)
        asked = list(query) if several else [query]
        if not asked:
            raise ParameterError("queries must hold at least one query")
        monomials = np.array([self.family.monomials(one) for one in asked])
        values = monomials @ self.measured.answers / self.rows
        noise = self.measured.stddev * np.linalg.norm(monomials, axis=1)
        stderr = np.hypot(noise, values * self.rows_stddev) / self.rows
        answers = self.family.constant + values
        errors = np.array([self.family.error_of(one) for one in asked])
        truncation = errors if several else float(errors[0])
        ends = np.array([self.family.range_of(one) for one in asked])
        return Estimate(
            estimate=answers if several else float(answers[0]),
            stderr=stderr if several else float(stderr[0]),
            truncation=truncation,
            truncation_bound=truncation if self.family.proven else None,
            offset=self.family.constant,
            rows_error=self.rows_stddev / self.rows,
            range=(float(ends[:, 0].min()), float(ends[:, 1].max())),
        )


@dataclass(frozen=True, slots=True)
class PolynomialRelease(HasPrivacyCost):
    """Release the noisy sum of all rows' polynomials, which answers any query of the family.

    Costs ``spend``, for the curator's neighbours.

    Parameters
    ----------
    family
        A `TabulatedFamily`, `SymmetricFamily`, `ListFamily`, `AverageFamily`, or one of the user's own.
    law
        A law of noise to insist on: the paper's is `NoiseLaw.LAPLACE`; default: the least for the loss.
    total_share
        Share of the spend for the number of rows, where it is private.
    spend
        Privacy loss that a release may cost.

    Raises
    ------
    ParameterError
        If the family has too many coefficients.
    """

    family: PolynomialFamily
    law: NoiseLaw | None = None
    total_share: float = 0.05
    spend: Spend = Remaining()

    def __post_init__(self) -> None:
        check_share("total_share", self.total_share)
        if not isinstance(self.family, PolynomialFamily):
            raise ParameterError(
                f"family must be a polynomial family, such as TabulatedFamily, not {type(self.family).__name__}"
            )
        if self.family.statistic.k > MAX_COEFFICIENTS:
            raise ParameterError(f"family has more than {MAX_COEFFICIENTS} coefficients: give it a smaller order")

    def release(self, curator: Curator, *, random_state: RandomState = None) -> Release[PolynomialSummary]:  # noqa: ARG002
        """Measure the sums of coefficients and return them as a summary with the number of rows.

        Costs ``spend``, for the curator's neighbours.
        """
        loss, statistic = curator.cost(self.spend), self.family.statistic
        check_saved((self.family, statistic))
        curator.check(statistic)
        account = curator.open_account(loss, currency=ApproxDP)
        total = row_total(account, Total(statistic.domain), share=self.total_share)
        measured = account.measure(statistic, spend=total.rest, step="coefficients", law=self.law)
        return Release(
            mechanism=type(self).__name__,
            output=PolynomialSummary(
                family=self.family, measured=measured, rows=float(total.rows), rows_stddev=total.found.stddev
            ),
            loss=loss,
            receipt=curator.receipt(),
            measurements=(*total.measurements, measured),
        )


def provable_rows(
    terms: int, largest: float, *, error: float, bias: float, epsilon: float, beta: float = 0.05
) -> float:
    """Return the rows at which every answer is within ``error``: 2 T C^2 ln(C/beta) / (epsilon (alpha - gamma)).

    There are C coefficients of at most T in size each. So a replaced row moves their vector by at most 2 T C in L1.
    Laplace noise of scale 2 T C / epsilon exceeds its scale times ln(C / beta) nowhere with probability 1 - beta. An
    answer adds up all C.

    Parameters
    ----------
    terms
        C, the number of coefficients: C(m + t, t) or fewer.
    largest
        T, the largest size of a coefficient.
    error, bias
        alpha, the largest error of an average, and gamma, its part that is bias.
    epsilon
        A pure epsilon.
    beta
        Probability that some answer is off by more.

    Raises
    ------
    ParameterError
        If the bias leaves nothing of the error.
    """
    if not (0 <= bias < error and epsilon > 0 and 0 < beta < 1 and terms >= 1 and largest > 0):
        raise ParameterError(
            "bias must be at least 0 and below error, epsilon above 0, beta between 0 and 1, terms at least 1, and "
            "largest above 0"
        )
    return 2 * largest * terms**2 * math.log(terms / beta) / (epsilon * (error - bias))


def paper_rows(terms: int, largest: float, *, error: float, epsilon: float, beta: float = 0.05) -> float:
    """Return the paper's number of rows, 4 T C^2 ln(C/beta) / (epsilon alpha), for a bias of half of the error.

    The number is `provable_rows` at gamma = alpha / 2. The noise that the paper prints, 2 T / (epsilon n) on each
    coefficient, leaves out a factor C and is not private (docs/proofs/parities.md).
    """
    return provable_rows(terms, largest, error=error, bias=error / 2, epsilon=epsilon, beta=beta)
