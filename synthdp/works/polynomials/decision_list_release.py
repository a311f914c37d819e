"""Releases tables whose rows are decision lists: the fraction of lists that say yes on an input, by Thaler et al. (2012).

Each list is replaced by the closest polynomial of low degree, from one linear program per pattern of outputs.  The
coefficients are summed, and noise is added once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from synthdp.answers.answers import Answers as Answered
from synthdp.answers.questions import Count
from synthdp.arrays import FloatArray, frozen
from synthdp.checks import check_whole
from synthdp.codec import file_form
from synthdp.curator import Curator
from synthdp.domain.domain import domain_of
from synthdp.errors import ParameterError
from synthdp.measurements import Measurements
from synthdp.mechanisms.estimate import Estimate
from synthdp.mechanisms.mechanism import HasPrivacyCost
from synthdp.privacy.budget import COUNT_SHARE
from synthdp.privacy.calibration import calibrate
from synthdp.privacy.loss import PrivacyLoss, Remaining, Spend
from synthdp.privacy.neighbors import Adjacency
from synthdp.randomness import RandomState
from synthdp.release import Release
from synthdp.works.polynomials.decision_lists import decision_list_schema, variables_of
from synthdp.works.polynomials.list_coefficients import (
    MAX_RULES,
    ListCoefficients,
    ListStatistic,
    PrefixCoefficients,
    list_values,
    subset_parities,
)
from synthdp.works.polynomials.polynomials import (
    best_coefficients,
    least_worst_use,
    level_sizes,
    optimal_coefficients,
    subsets_of,
)

PREFIX_SCALE = 2**12
"""Largest factor by which long lists' coefficients are multiplied before they are rounded to whole numbers; each degree
has its own factor.  A smaller value rounds more coarsely; with a larger one, squares of the sums may not fit in 64 bits.
A numerical tolerance."""

FINEST_SCALE = 2**20
"""Largest factor by which short lists' coefficients are multiplied before they are rounded to whole numbers; each degree
has its own factor.  A smaller value rounds coefficients and factors more coarsely.  A numerical tolerance."""


class PatternTable(NamedTuple):
    """The polynomials' coefficients for all lists of r rules of the form "if variable: output"."""

    values: FloatArray
    """(2^(r+1), 2^r) coefficients by pattern of outputs and set of rules."""
    error: float
    """Largest distance of a polynomial from its list, over all patterns and inputs."""


@lru_cache(maxsize=64)
def pattern_table(r: int, order: int) -> PatternTable:
    """Return the best polynomials of degree ``order`` for list(y) - 1/2 of r rules, one per pattern of outputs.

    The result is (2^(r+1), 2^r) coefficients by pattern and set of rules, with the largest error of all.  A linear
    program minimises the largest error over the 2^r inputs; at order >= r the polynomials are exact.  A pattern's
    complement has the negative polynomial.
    """
    targets = list_values(r) - 0.5
    masks, parities = subset_parities(r, min(order, r))
    values = np.zeros(targets.shape)
    last = len(targets) - 1
    for pattern in range(len(targets) // 2):
        if order >= r:
            b = targets[pattern] @ parities / 2**r
        else:
            b = best_coefficients(parities.astype(np.float64), targets[pattern]).values
        values[pattern, masks] = b
        values[last - pattern] = -values[pattern]
    errors = np.abs(values[:, masks] @ parities.T - targets)
    return PatternTable(frozen(values), float(errors.max()))


class PrefixTable(NamedTuple):
    """Polynomials for "none of the first i rules applies", i = 1, ..., k, which combine to a long list's polynomial."""

    values: FloatArray
    """(k, t + 1) coefficients by prefix and degree."""
    error: float
    """Bound on the distance of a list's polynomial from the list: the sum of the prefixes' errors."""


@lru_cache(maxsize=64)
def prefix_table(length: int, order: int) -> PrefixTable:
    """Return the best polynomials of degree ``order`` for "none of the first i rules applies", i = 1, ..., ``length``.

    They are (``length``, ``order`` + 1) coefficients by prefix and degree, with the sum of their errors.  They are
    exact for prefixes of at most ``order`` rules, and combine to the polynomials of long lists. An output changes at
    most once after each rule, so a list is off by at most the sum of all errors.
    """
    found = [
        optimal_coefficients((1.0,) + (0.0,) * i, min(order, i), (0.0,) * (min(order, i) + 1))
        for i in range(1, length + 1)
    ]
    values = np.array([np.pad(one.values, (0, order + 1 - len(one.values))) for one in found])
    return PrefixTable(frozen(values), float(sum(one.error for one in found)))


class ListPlan(NamedTuple):
    """The statistic that a release measures, the bound on its bias, and the noise stddev of an answer in rows."""

    statistic: ListStatistic
    error: float
    stddev: float


def plan_at(variables: Sequence[str], length: int, order: int, adjacency: Adjacency, loss: PrivacyLoss) -> ListPlan:
    """Return the plan with the least noise at one degree, for short lists, among four choices of factors by degree.

    Coefficients of high degree are many but small, so they take a small share of the sensitivity.  One choice has equal
    factors; each other suits one noise distribution.  For Gaussian noise `least_worst_use` divides the L2 sensitivity
    best, given the largest squares of each degree.  For pure losses factors are cube roots (Laplace noise), or make the
    largest coefficients equal (K-norm noise).

    Parameters
    ----------
    variables, length
        Names of the inputs, and the most rules of a list.
    order
        Degree of the polynomials.
    adjacency, loss
        The neighbouring relation and the cost.
    """
    patterns = [pattern_table(r, order) for r in range(length + 1)]
    values, errors = [pattern.values for pattern in patterns], [pattern.error for pattern in patterns]
    stacked = _stacked(values)
    count = np.array(level_sizes(len(variables), order), np.float64)
    candidates = (
        np.ones(order + 1),
        np.sqrt(least_worst_use(count, _by_order(np.square(stacked), order))),
        np.cbrt(count / _by_order(np.abs(stacked), order).max(axis=0)),
        1 / np.array([np.abs(stacked[:, _sizes(length) == i]).max() for i in range(order + 1)]),
    )
    domain = domain_of(decision_list_schema(variables, length=length))
    error = max(errors[: len(variables) + 1])

    def plan(weights: FloatArray) -> ListPlan:
        scales = np.maximum(1, np.rint(FINEST_SCALE * weights / weights.max())).astype(int)
        squares = _by_order(np.square(stacked), order) @ scales.astype(np.float64) ** 2
        row_scale = 0 if adjacency.rows_are_public else max(1, round(math.sqrt(COUNT_SHARE * squares.max())))
        statistic = ListCoefficients(domain, len(variables), order, tuple(scales.tolist()), tuple(values), row_scale)
        noise = calibrate(adjacency.sensitivity(statistic), loss, k=statistic.k)
        return ListPlan(
            statistic, error, noise.noise.stddev / noise.resolution * math.sqrt(float((count / scales**2.0).sum()))
        )

    return min((plan(weights) for weights in candidates), key=lambda plan: plan.stddev)


def plan_prefixes(
    variables: Sequence[str], length: int, order: int, adjacency: Adjacency, loss: PrivacyLoss
) -> ListPlan:
    """Return the plan with the least noise at one degree, for long lists, from polynomials for their prefixes.

    The factors of all degrees are equal, or suit the degrees' largest squares, whichever has less noise.

    Parameters
    ----------
    variables, length
        Names of the inputs, and the most rules of a list.
    order
        Degree of the polynomials.
    adjacency, loss
        The neighbouring relation and the cost.
    """
    table = prefix_table(length, order)
    count = np.array(level_sizes(len(variables), order), np.float64)
    domain = domain_of(decision_list_schema(variables, length=length))

    def statistic(weights: FloatArray, row_scale: int) -> PrefixCoefficients:
        scales = 2 * np.maximum(1, np.rint(PREFIX_SCALE * weights / weights.max() / 2)).astype(int)
        return PrefixCoefficients(domain, len(variables), order, tuple(scales.tolist()), table.values, row_scale)

    def plan(weights: FloatArray) -> ListPlan:
        alone = statistic(weights, 0)
        share = math.sqrt(COUNT_SHARE * alone.bounds.one.l2_squared)
        chosen = alone if adjacency.rows_are_public else statistic(weights, max(1, round(share)))
        noise = calibrate(adjacency.sensitivity(chosen), loss, k=chosen.k)
        spread = math.sqrt(float((count / np.array(chosen.scales, np.float64) ** 2).sum()))
        return ListPlan(chosen, table.error, noise.noise.stddev / noise.resolution * spread)

    # outputs that alternate change after every rule, so this pattern has the largest coefficients
    alternating = np.array([sum(1 << j for j in range(0, length + 1, 2))])
    constant, last = statistic(np.ones(order + 1), 0).of_patterns(alternating, length)
    sets = np.array([[math.comb(j, size - 1) for j in range(length)] for size in range(1, order + 1)])
    use = np.append(constant.astype(np.float64) ** 2, (last[0, 1:].astype(np.float64) ** 2 * sets).sum(axis=1))
    use = np.maximum(use, use.max() * 1e-6)  # above 0, as `least_worst_use` divides by it
    candidates = np.ones(order + 1), np.sqrt(least_worst_use(count, use[None, :]))
    return min((plan(weights) for weights in candidates), key=lambda plan: plan.stddev)


def _stacked(values: Sequence[FloatArray]) -> FloatArray:
    """Return the coefficients of all patterns of all lengths, (patterns, 2^k), 0 for rules that a list does not have.

    Factors are chosen for the worst of all patterns.
    """
    width = values[-1].shape[1]
    return np.vstack([np.pad(one, ((0, 0), (0, width - one.shape[1]))) for one in values])


def _by_order(coefficients: FloatArray, order: int) -> FloatArray:
    """Return the sum of the given numbers of each degree, (patterns, order + 1), from one number per set of rules.

    Given squared coefficients it returns squared L2 norms, and given absolute values L1 norms.  A plan multiplies all
    coefficients of a degree by one factor, so the norms of degrees suffice to choose factors.
    """
    sizes = _sizes(int(math.log2(coefficients.shape[1])))
    return np.stack([coefficients[:, sizes == i].sum(axis=1) for i in range(order + 1)], axis=1)


def _sizes(length: int) -> FloatArray:
    """Return the number of 1s in each pattern of ``length`` bits, (2^length,), as floats: the degree of its set."""
    return np.bitwise_count(np.arange(2**length)).astype(np.float64)


SHORT = 8
"""Most rules of a list whose 2^(k + 1) output patterns each get a polynomial, by a linear program with 2^k inputs. A
safety limit of time."""

MAX_COEFFICIENTS = 5_000_000
"""Most coefficients of one release: 40 MB of 64-bit sums.  A safety limit of memory."""

Input: TypeAlias = Mapping[str, object]
"""An input as a mapping from each variable's name to true or false."""


@file_form("DecisionListSummary")
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DecisionListSummary:
    """Noisy coefficients of the sum of all lists' polynomials, which answer any input.

    Parameters
    ----------
    variables
        Names of the inputs.
    measured
        Noisy answers to `ListCoefficients` or `PrefixCoefficients`.
    error
        Largest distance of a list's polynomial from the list.
    public_rows
        The number of rows where it is public, else ``None``.
    """

    variables: tuple[str, ...]
    measured: Measurements
    error: float
    public_rows: int | None = None

    def __repr__(self) -> str:
        return f"DecisionListSummary({len(self.measured.values)} coefficients of {len(self.variables)} variables)"

    @property
    def statistic(self) -> ListStatistic:
        """Return the measured statistic."""
        return self.measured.asked(ListStatistic)  # type: ignore[type-abstract]

    @property
    def rows(self) -> float:
        """Return the number of rows, public or estimated; at least 1."""
        if self.public_rows is not None:
            return max(1.0, float(self.public_rows))
        return max(1.0, float(self.measured.answers[-1]) / self.statistic.row_scale)

    @property
    def scales(self) -> FloatArray:
        """Return the factor by which each coefficient was multiplied before the noise, (coefficients,)."""
        return np.repeat(np.array(self.statistic.scales, np.float64), self.statistic.sizes)

    def answered(self, question: Any, measurements: Sequence[Measurements] = ()) -> Answered:  # noqa: ARG002
        """Answer inputs, or the number of lists, in the form of every release; see `Release.answer`."""
        if isinstance(question, Count) and question.where is None and not question.by:
            noise = 0.0 if self.public_rows is not None else self.measured.stddev / self.statistic.row_scale
            return Estimate(estimate=self.rows, stderr=noise, range=(0.0, math.inf)).answers()
        several = [question] if isinstance(question, Mapping) else question
        found = self.answer(question)
        labels = {name: [bool(one[name]) for one in several] for name in self.variables}
        return found.answers(labels)

    def answer(self, inputs: Input | Sequence[Input]) -> Estimate:
        """Return the fraction of the lists that say yes on an input, or on each of several inputs.

        Parameters
        ----------
        inputs
            A mapping from every variable to true or false, or a list of such mappings.

        Raises
        ------
        ParameterError
            If a variable is missing, or the question is of another kind: a table of lists has no marginals.
        """
        several = [inputs] if isinstance(inputs, Mapping) else inputs
        if not (isinstance(several, (list, tuple)) and several and all(isinstance(one, Mapping) for one in several)):
            raise ParameterError(
                "a release of decision lists answers inputs only: give a mapping with a value for every variable, "
                f"or a list of such mappings, not {type(inputs).__name__}"
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
        """Return the parities of an input, (k,), up to the statistic's degree; a true variable counts -1.

        They are the factors of the noisy coefficients, in the same order. Raise ParameterError if a variable is
        missing.
        """
        missing = [name for name in self.variables if name not in one]
        if missing:
            raise ParameterError(f"the input has no value for variable {missing[0]!r}: give a value for every variable")
        signs = np.array([-1.0 if one[name] else 1.0 for name in self.variables])
        levels = [signs[subsets_of(len(signs), size)].prod(axis=1) for size in range(self.statistic.order + 1)]
        return np.concatenate(levels)


@dataclass(frozen=True, slots=True)
class DecisionListRelease(HasPrivacyCost):
    """Release a table of decision lists as noisy coefficients, which answer how many lists say yes on any input.

    Lists of up to 8 rules are approximated by the best polynomials of the degree. Longer lists are approximated through
    the polynomials of their prefixes, of degree about sqrt(k) log(k) (Klivans, Servedio 2006; Thaler, Ullman, Vadhan
    2012).

    Costs ``spend``, for the curator's neighbours. The curator's schema comes from `decision_list_schema`.

    Parameters
    ----------
    length
        k, the most rules of a list, up to 16.
    order
        t, the degree of the polynomials; default: the degree with the least bias plus two stddevs of noise.
    rows
        A public guess of the number of rows, used in that choice only; default: the number itself where it is public,
        else 10 000.
    spend
        Privacy loss that a release may cost.

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
        """Measure the sums of coefficients and return them as a summary.

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
        """Return the plan (statistic, bias and stddev) whose degree and factors have the least bias plus two stddevs.

        Raises
        ------
        ParameterError
            If there are too many coefficients.
        """
        n, m = rows or self.rows or 10_000, len(variables)
        orders = range(1, min(self.length, m) + 1) if self.order is None else [min(self.order, m)]
        feasible = [order for order in orders if sum(level_sizes(m, order)) <= MAX_COEFFICIENTS]
        if not feasible:
            raise ParameterError(
                f"{m} variables need more than {MAX_COEFFICIENTS} coefficients: give a smaller order, or fewer "
                "variables"
            )
        make = plan_at if self.length <= SHORT else plan_prefixes
        plans = [make(variables, self.length, order, adjacency, loss) for order in feasible]
        return min(plans, key=lambda plan: plan.error + 2 * plan.stddev / n)
