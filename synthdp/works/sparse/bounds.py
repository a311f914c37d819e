"""The accuracy bounds of Blum and Roth (2011) as the paper states them, and sharper bounds of this implementation.

Functions named ``paper_...`` return the paper's statements. Where such a statement is loose or misprinted, the function
without that prefix returns a bound that holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from synthdp.checks import check_number
from synthdp.errors import MechanismFailure
from synthdp.queries.supports import Support
from synthdp.works.sparse.sparse_table import SparseTable, WeightTarget, replay, touched


def paper_update_bound(slots: int, *, alpha: float) -> float:
    """Return B(alpha) = 4 (ln(s) + 1) / alpha^2, the paper's bound on updates on guesses off by ``alpha``.

    A session of sparse multiplicative weights with s slots pays for this many updates; ``alpha`` is a fraction of the
    rows.
    """
    _check_alpha(alpha)
    return 4 * (math.log(slots) + 1) / alpha**2


def update_bound(slots: int, *, alpha: float) -> float:
    """Return 4 ln(s) / alpha^2, a bound on the updates that the paper's step makes on guesses off by alpha.

    While a slot is untouched, the data are a distribution on the slots: records without a slot of their own lie on
    untouched slots. Its relative entropy to the weights is at most ln(s) at first and never below 0. Every update by
    exp(+-alpha/2) lowers the entropy by alpha^2 / 4 or more. With s of `smallest_slots` a slot is left after these
    updates of m records each.
    """
    _check_alpha(alpha)
    return 4 * math.log(slots) / alpha**2


def hoeffding_update_bound(slots: int, *, alpha: float) -> float:
    """Return (32 / 15) ln(s) / alpha^2, a sharper bound on the updates of `update_bound`.

    By Hoeffding's lemma a step by eta = alpha / 2 lowers the entropy by eta alpha - eta^2 / 8 = 15 alpha^2 / 32 or
    more.
    """
    _check_alpha(alpha)
    return 32 / 15 * math.log(slots) / alpha**2


def projection_update_bound(slots: int, *, alpha: float) -> float:
    """Return ln(s) / (2 alpha^2), a bound on updates by I-projection to exact answers, on guesses off by alpha or more.

    One projection from mean p to a lowers the entropy by KL(a || p) >= 2 (a - p)^2 (Pythagoras, Pinsker).
    """
    _check_alpha(alpha)
    return math.log(slots) / (2 * alpha**2)


def smallest_slots(sparsity: int, *, alpha: float) -> int:
    """Return the least s with s / (ln s + 1) >= 4 m / alpha^2: then s >= m B(alpha), and slots outlast the updates.

    Here s is the number of slots, and m the most keys of a query; an update may give each key a slot. Blum, Roth 2011,
    Algorithm 1, with `paper_update_bound`.
    """
    _check_alpha(alpha)
    needed = 4 * sparsity / alpha**2
    low, high = 1, 2
    while high / (math.log(high) + 1) < needed:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle / (math.log(middle) + 1) < needed else (low, middle)
    return high


def paper_alpha(*, rows: int, sparsity: int, queries: int, epsilon: float, delta: float, beta: float = 0.05) -> float:
    """Return the error that the paper proves for sparse multiplicative weights, as a fraction of the rows.

    The error solves alpha = 3000 sqrt(B(alpha)) ln(4/delta) ln(k/beta) / (epsilon n), with `paper_update_bound` as B.
    The paper applies the theorem on online query release of Gupta, Roth, Ullman 2012. The error is above 1 until n is
    some millions.
    """
    noise = 3000 * math.log(4 / delta) * math.log(queries / beta) / (epsilon * rows)

    def claimed(alpha: float) -> float:
        slots = smallest_slots(sparsity, alpha=min(alpha, 1.0))  # above 1 the paper states no number of slots
        return noise * 2 * math.sqrt(math.log(slots) + 1) / alpha

    low, high = 1e-9, 1e9
    for _ in range(200):  # claimed falls, alpha rises; far more halvings than doubles tell apart
        middle = math.sqrt(low * high)
        low, high = (middle, high) if middle < claimed(middle) else (low, middle)
    return high


def paper_rows(*, alpha: float, sparsity: int, queries: int, epsilon: float, delta: float, beta: float = 0.05) -> float:
    """Return how many rows the paper needs for an error of ``alpha``, as a fraction, on k queries (corollary 3.11).

    The error holds with probability 1 - beta. n = 6000 sqrt(ln(s) + 1) ln(4/delta) ln(k/beta) / (epsilon alpha^2),
    which is `paper_alpha` solved for the rows.
    """
    factor = math.sqrt(math.log(smallest_slots(sparsity, alpha=alpha)) + 1)
    return 6000 * factor * math.log(4 / delta) * math.log(queries / beta) / (epsilon * alpha**2)


def projection_error_bound(
    *, dimension: int, sparsity: int, squared_counts: float, queries: int, beta: float = 0.05
) -> float:
    """Return how far k answers of a noiseless projection may be off, in rows, with probability 1 - beta.

    The bound is e (p - 1) sqrt(2 m |D|^2 / T) with p = 2 ceil(ln(k/beta) / 2), for dense signs of
    `needed_independence`. The error is a Rademacher chaos of order 2 with variance at most 2 m |D|^2 / T.
    Hypercontractivity bounds its p-th moment (docs/proofs/sparse-projection.md).

    Parameters
    ----------
    dimension
        T, the number of projected coordinates.
    sparsity
        m, a bound on |q|^2: the most keys of a query.
    squared_counts
        |D|^2, the sum of squared counts of the records: n where all differ, at most n^2.
    queries
        k, the number of queries.
    beta
        Probability that some answer is off by more.
    """
    order = _moment(queries, beta)
    return math.e * (order - 1) * math.sqrt(2 * sparsity * squared_counts / dimension)


def needed_independence(queries: int, *, beta: float = 0.05) -> int:
    """Return r of the r-wise independent signs that `projection_error_bound` needs: 2 p.

    The p-th moments, p = 2 ceil(ln(k/beta) / 2), of products of two signs need 2p-wise independence.
    """
    return 2 * _moment(queries, beta)


def theorem_dimension(*, rows: int, sparsity: int, queries: int, alpha: float, beta: float = 0.05) -> int:
    """Return a dimension T at which dense signs on any n rows are off by at most alpha n.

    The bound is `projection_error_bound`; it holds for all queries with probability 1 - beta.
    """
    _check_alpha(alpha)
    at_one = projection_error_bound(
        dimension=1, sparsity=sparsity, squared_counts=float(rows) ** 2, queries=queries, beta=beta
    )
    return math.ceil((at_one / (alpha * rows)) ** 2)


def inner_product_bound(distortion: float, *, squared_query: float, squared_counts: float) -> float:
    """Return (c / 2)(|q|^2 + |D|^2), a bound on the error of <A q, A D> as an estimate of <q, D> (corollary 4.7).

    The projection A must keep |q + D|^2 and |q - D|^2 up to a factor 1 +- c, c = ``distortion``: their difference is
    four times the inner product.  ``squared_query`` and ``squared_counts`` are |q|^2 and |D|^2.
    """
    return distortion / 2 * (squared_query + squared_counts)


def lemma_dimension(*, rows: int, sparsity: int, queries: int, error: float = 1.0, beta: float = 0.05) -> int:
    """Return T = 4 64^2 ln(k/beta) / c^2, at which the projection alone is off by at most ``error`` rows.

    This is the Johnson-Lindenstrauss lemma with limited independence. At its distortion c = 2 error / (m + n^2),
    `inner_product_bound` is ``error`` for |q|^2 <= m and |D|^2 <= n^2. T is of the order of 1e21 for one row of error
    and n = 2e4.
    """
    c = 2 * error / (sparsity + float(rows) ** 2)
    return math.ceil(4 * 64**2 * math.log(queries / beta) / c**2)


def paper_dimension(*, rows: int, sparsity: int, queries: int, beta: float = 0.05) -> int:
    """Return SparseProject's T as the paper prints it: 4 64^2 ln(k/beta) (m + n^2)^2 / (2 sqrt(m)).

    The paper's own distortion 2 sqrt(m) / (m + n^2) needs only `sqrt_error_dimension`, which is smaller by a factor 2
    sqrt(m).
    """
    return math.ceil(
        4 * 64**2 * math.log(queries / beta) * (sparsity + float(rows) ** 2) ** 2 / (2 * math.sqrt(sparsity))
    )


def sqrt_error_dimension(*, rows: int, sparsity: int, queries: int, beta: float = 0.05) -> int:
    """Return the T that SparseProject's own distortion needs: 4 64^2 ln(k/beta) (m + n^2)^2 / (4 m).

    At this dimension the projection alone is off by at most sqrt(m) rows.
    """
    return lemma_dimension(rows=rows, sparsity=sparsity, queries=queries, error=math.sqrt(sparsity), beta=beta)


def projection_alpha(
    *, rows: int, sparsity: int, queries: int, epsilon: float, delta: float, beta: float = 0.05
) -> float:
    """Return SparseProject's error as a fraction of the rows, with probability 1 - 2 beta (theorem 4.9).

    The error is (sqrt(m) / n) (1 + 8 sqrt(ln(1/delta) ln(2k/beta)) / epsilon), for a row more or fewer. The projection
    contributes sqrt(m) rows at `sqrt_error_dimension`. Noise of scale b = sqrt(8 ln(1/delta)) / epsilon lies on each of
    T numbers, and one row moves each by 1 / sqrt(T).

    An answer sums the noise with weights A q. Sums of Laplace noise exceed b |A q| sqrt(8 ln(2k/beta)) with probability
    at most beta / k: E exp(tz) <= exp(2 b^2 t^2) for b^2 t^2 <= 1/2. The formula takes |A q|^2 as m, and leaves out a
    factor 1 + 2 sqrt(m) / (m + n^2).
    """
    noise = 8 * math.sqrt(math.log(1 / delta) * math.log(2 * queries / beta)) / epsilon
    return math.sqrt(sparsity) * (1 + noise) / rows


def projection_rows(
    *, alpha: float, sparsity: int, queries: int, epsilon: float, delta: float, beta: float = 0.05
) -> float:
    """Return how many rows bring SparseProject's error, as a fraction of the rows, down to ``alpha`` (corollary 4.12).

    The error is that small with probability 1 - 2 ``beta``, as in `projection_alpha`, which is solved for n.  The
    number is not rounded to a whole one.
    """
    one = projection_alpha(rows=1, sparsity=sparsity, queries=queries, epsilon=epsilon, delta=delta, beta=beta)
    return one / alpha


def _moment(queries: int, beta: float) -> int:
    """Return the even moment p = 2 ceil(ln(k/beta) / 2), at least 2, that bounds the largest of k errors."""
    return 2 * max(1, math.ceil(math.log(queries / beta) / 2))


def _check_alpha(alpha: float) -> None:
    """Raise ParameterError unless alpha is above 0 and at most 1."""
    check_number("alpha", alpha, above=0, most=1)


Update = Literal["projection", "paper"]
"""The update rules of sparse multiplicative weights: I-projection, or the paper's step."""


@dataclass(slots=True, kw_only=True)
class SparseConstruction:
    """A public hypothesis as weights on the records that updates have touched; see `IterativeConstruction`.

    Parameters
    ----------
    table
        The weights and the untouched slots.
    total
        Number of rows.
    alpha
        alpha of the paper's step exp(+-alpha / 2), from 0 to 1.
    update_rule
        ``"projection"`` onto all noisy answers, or ``"paper"`` for the paper's multiplicative step.
    sweeps
        For the projection: the number of passes over all noisy answers.
    measured
        The noisy answers so far.
    """

    table: SparseTable
    total: float
    alpha: float
    update_rule: Update = "projection"
    sweeps: int = 10
    measured: list[WeightTarget] = field(default_factory=list)

    def guess(self, query: Support) -> float:
        """Return the query's sum over rows that the weights predict; a new record has an untouched slot's weight."""
        return self.table.expectation(query) * self.total

    def check(self, query: Support) -> None:
        """Raise an error for a query that needs more slots than are left.

        Raises
        ------
        MechanismFailure
            If slots run out: the paper's FAILURE.
        """
        if int((self.table.places(query) < 0).sum()) > self.table.untouched:
            raise MechanismFailure(
                f"the query has more new keys than are left of the {self.table.slots} slots: open a new session "
                "with more slots"
            )

    def update(self, query: Support, answer: float, *, stddev: float) -> None:  # noqa: ARG002
        """Give the query's records slots, and move the weights by a noisy answer, in rows.

        The move is the paper's multiplicative step, or a projection onto all noisy answers in turn.
        """
        guess = self.guess(query) / self.total
        latest = touched(self.table, query, target=answer / self.total)
        self.measured.append(latest)
        if self.update_rule == "projection":
            replay(self.table, self.measured, sweeps=self.sweeps, rows=self.total)
        else:
            sign = 1.0 if latest.target > guess else -1.0
            self.table.tilt(latest.place, latest.values, by=sign * self.alpha / 2)

    def update_bound(self, alpha: float) -> float:
        """Return B(alpha), the most updates on guesses off by alpha: the paper's bound for its step.

        For projections the bound assumes one projection an update, onto exact answers; see `projection_update_bound`.
        """
        if self.update_rule == "projection":
            return projection_update_bound(self.table.slots, alpha=alpha)
        return paper_update_bound(self.table.slots, alpha=alpha)
