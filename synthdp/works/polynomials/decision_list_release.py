"""Rows are decision lists, queries are inputs: how many lists say yes, by Thaler, Ullman, Vadhan (2012).

Each list is replaced by the polynomial of low degree closest to it, one linear program per pattern of outputs; their
coefficients are summed and noised once.  Asks the curator and never sees a row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from synthdp.answers.answers import Answers as Answered
from synthdp.answers.questions import Count
from synthdp.arrays import FloatArray
from synthdp.checks import check_whole
from synthdp.codec import file_form
from synthdp.curator.curator import Curator
from synthdp.errors import InternalError, ParameterError
from synthdp.measurements import Measurements
from synthdp.mechanisms.estimate import Estimate
from synthdp.mechanisms.protocol import Spender
from synthdp.privacy.loss import PrivacyLoss, Remaining, Spend
from synthdp.privacy.neighbors import Adjacency
from synthdp.randomness import RandomState
from synthdp.release import Release
from synthdp.works.polynomials.decision_list_plan import ListPlan, plan_at, plan_prefixes
from synthdp.works.polynomials.decision_lists import variables_of
from synthdp.works.polynomials.krawtchouk import level_sizes, subsets_of
from synthdp.works.polynomials.list_coefficients import ListStatistic
from synthdp.works.polynomials.prefix_coefficients import MAX_RULES

SHORT = 8
"""Up to so many rules each of 2^(k + 1) patterns has a polynomial of its own, by a linear program with 2^k inputs."""

MAX_COEFFICIENTS = 5_000_000
"""Most coefficients of one release."""

Input: TypeAlias = Mapping[str, object]


@file_form("DecisionListSummary")
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DecisionListSummary:
    """Noisy coefficients of the sum of all lists.

    Parameters
    ----------
    variables
        The inputs.
    measured
        Noisy answers to `ListCoefficients`.
    error
        Largest distance of a list's polynomial from the list.
    public_rows
        The number of rows, where neighbours share it.
    """

    variables: tuple[str, ...]
    measured: Measurements
    error: float
    public_rows: int | None = None

    def __repr__(self) -> str:
        return f"DecisionListSummary({len(self.measured.values)} coefficients of {len(self.variables)} variables)"

    @property
    def statistic(self) -> ListStatistic:
        """What was asked."""
        queries = self.measured.queries
        if not isinstance(queries, ListStatistic):
            raise InternalError("a decision-list summary needs coefficients of lists")
        return queries

    @property
    def rows(self) -> float:
        """Number of rows, public or estimated; at least 1."""
        if self.public_rows is not None:
            return max(1.0, float(self.public_rows))
        return max(1.0, float(self.measured.answers[-1]) / self.statistic.row_scale)

    @property
    def scales(self) -> FloatArray:
        """(k,) the scale of each coefficient."""
        return np.repeat(np.array(self.statistic.scales, np.float64), self.statistic.sizes)

    def answered(self, question: Any, measurements: Sequence[Measurements] = ()) -> Answered:  # noqa: ARG002
        """Answer inputs, or how many lists there are, as every release does; see `Release.answer`."""
        if isinstance(question, Count) and question.where is None and not question.by:
            noise = 0.0 if self.public_rows is not None else self.measured.stddev / self.statistic.row_scale
            return Estimate(estimate=self.rows, stderr=noise, range=(0.0, math.inf)).answers()
        several = [question] if isinstance(question, Mapping) else question
        found = self.answer(question)
        labels = {name: [bool(one[name]) for one in several] for name in self.variables}
        return found.answers(labels)

    def answer(self, inputs: Input | Sequence[Input]) -> Estimate:
        """Return the fraction of the lists that say yes on an input, or on each of several.

        Parameters
        ----------
        inputs
            Variable -> true or false, for every variable; or a list of such.

        Raises
        ------
        ParameterError
            If a variable is missing, or it is another question: a table of lists has no marginals.
        """
        several = [inputs] if isinstance(inputs, Mapping) else inputs
        if not (isinstance(several, (list, tuple)) and several and all(isinstance(one, Mapping) for one in several)):
            raise ParameterError(
                f"a release of decision lists answers inputs: a value for every variable, or a list of such, "
                f"not {type(inputs).__name__}"
            )
        scales = self.scales
        coefficients = self.measured.answers[: len(scales)] / scales
        values = np.array([coefficients @ self._parities(one) for one in several]) / self.rows
        spread = self.measured.stddev * float(np.linalg.norm(1 / scales)) / self.rows
        unknown = 0.0
        if self.public_rows is None:
            unknown = self.measured.stddev / self.statistic.row_scale / self.rows
        answers, stderr = 0.5 + values, np.hypot(spread, values * unknown)
        one = isinstance(inputs, Mapping)
        return Estimate(
            estimate=float(answers[0]) if one else answers,
            stderr=float(stderr[0]) if one else stderr,
            truncation=self.error,
            truncation_bound=self.error,
            offset=0.5,
            rows_error=unknown,
            range=(0.0, 1.0),
        )

    def _parities(self, one: Input) -> FloatArray:
        missing = [name for name in self.variables if name not in one]
        if missing:
            raise ParameterError(f"an input must have a value for every variable; {missing[0]!r} is missing")
        signs = np.array([-1.0 if one[name] else 1.0 for name in self.variables])
        levels = [signs[subsets_of(len(signs), size)].prod(axis=1) for size in range(self.statistic.order + 1)]
        return np.concatenate(levels)


@dataclass(frozen=True, slots=True)
class DecisionListRelease(Spender):
    """Release a table of decision lists as noisy coefficients; ask how many say yes on any input.

    Lists of up to 8 rules are approximated as well as any polynomial of the degree can; longer ones by the polynomials of
    their prefixes (Klivans, Servedio 2006; Thaler, Ullman, Vadhan 2012), of degree about sqrt(k) log(k).

    Costs ``spend``, for the curator's neighbours.  The curator's schema is that of `decision_list_schema`.

    Parameters
    ----------
    length
        k: the most rules of a list, up to 16.
    order
        t: degree of the polynomials; default: the one with the least bias plus two stddevs of noise.
    rows
        A public guess of the number of rows, used in that choice only; default: the number itself where it is public,
        else 10 000.
    spend
        What it may cost.

    Raises
    ------
    ParameterError
        If a setting is outside its range.
    """

    length: int
    order: int | None = None
    rows: int | None = None
    spend: Spend = Remaining()

    def __post_init__(self) -> None:
        check_whole("length", self.length, most=MAX_RULES)
        if self.order is not None:
            check_whole("order", self.order, most=self.length)
        if self.rows is not None:
            check_whole("rows", self.rows)

    def release(self, curator: Curator, *, random_state: RandomState = None) -> Release[DecisionListSummary]:  # noqa: ARG002
        """Measure the coefficients.

        Costs ``spend``, for the curator's neighbours.

        Raises
        ------
        ParameterError
            If the table does not hold decision lists, or there are too many coefficients.
        """
        loss = curator.cost(self.spend)
        variables = variables_of(curator.schema, length=self.length)
        known = curator.rows if curator.adjacency.rows_are_public else None
        plan = self.plan(variables, curator.adjacency, loss, rows=known)
        measured = curator.measure(plan.statistic, spend=loss, step="coefficients of decision lists")
        return Release(
            mechanism="DecisionListRelease",
            output=DecisionListSummary(variables=variables, measured=measured, error=plan.error, public_rows=known),
            loss=loss,
            receipt=curator.receipt(),
            measurements=(measured,),
        )

    def plan(
        self, variables: Sequence[str], adjacency: Adjacency, loss: PrivacyLoss, *, rows: int | None = None
    ) -> ListPlan:
        """Return what is measured: the degree and the scales with the least bias plus two stddevs of noise.

        Raises
        ------
        ParameterError
            If there are too many coefficients.
        """
        n, m = rows or self.rows or 10_000, len(variables)
        orders = range(1, min(self.length, m) + 1) if self.order is None else [min(self.order, m)]
        feasible = [order for order in orders if sum(level_sizes(m, order)) <= MAX_COEFFICIENTS]
        if not feasible:
            raise ParameterError(f"{m} variables have more than {MAX_COEFFICIENTS} coefficients: lower order")
        make = plan_at if self.length <= SHORT else plan_prefixes
        plans = [make(variables, self.length, order, adjacency, loss) for order in feasible]
        return min(plans, key=lambda plan: plan.error + 2 * plan.stddev / n)
