"""The accuracy bounds of Blum and Roth (2011) as they state them, and the sharper ones of this implementation, as functions.

A name that begins with ``paper_`` stands for a statement of theirs; where it is loose or misprinted, the function without
that beginning says what holds.
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
    """Return B(alpha) = 4 (ln(s) + 1) / alpha^2, the paper's bound on the updates of sparse multiplicative weights."""
    _check_alpha(alpha)
    return 4 * (math.log(slots) + 1) / alpha**2


def update_bound(slots: int, *, alpha: float) -> float:
    """Return 4 ln(s) / alpha^2: the paper's step makes at most this number of updates on guesses off by alpha.

    While a slot is untouched, the data are a distribution on the slots: what nobody asked about lies on untouched ones.
    Its relative entropy to the weights is at most ln(s) at first, never below 0, and every update by exp(+-alpha/2)
    lowers it by alpha^2 / 4 or more.  With s of `smallest_slots` a slot is left after these updates of m records each.
    """
    _check_alpha(alpha)
    return 4 * math.log(slots) / alpha**2


def hoeffding_update_bound(slots: int, *, alpha: float) -> float:
    """Return (32 / 15) ln(s) / alpha^2, which bounds the same updates.

    By Hoeffding's lemma a step by eta = alpha / 2 lowers the entropy by eta alpha - eta^2 / 8 = 15 alpha^2 / 32 or more.
    """
    _check_alpha(alpha)
    return 32 / 15 * math.log(slots) / alpha**2


def projection_update_bound(slots: int, *, alpha: float) -> float:
    """Return ln(s) / (2 alpha^2): updates by I-projection to exact answers, when guesses are off by alpha or more.

    One projection from mean p to a lowers the entropy by KL(a || p) >= 2 (a - p)^2 (Pythagoras, Pinsker).
    """
    _check_alpha(alpha)
    return math.log(slots) / (2 * alpha**2)


def smallest_slots(sparsity: int, *, alpha: float) -> int:
    """Return the least s with s / (ln s + 1) >= 4 m / alpha^2: then s >= m B(alpha), and slots outlast the updates.

    Blum, Roth 2011, Algorithm 1, with `paper_update_bound`.
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

    The fixed point of alpha = 3000 sqrt(B(alpha)) ln(4/delta) ln(k/beta) / (epsilon n), `paper_update_bound` for B (Gupta,
    Roth, Ullman 2012, theorem on online query release, which the paper applies).  Above 1 until n is some millions.
    """
    noise = 3000 * math.log(4 / delta) * math.log(queries / beta) / (epsilon * rows)

    def claimed(alpha: float) -> float:
        slots = smallest_slots(sparsity, alpha=min(alpha, 1.0))
        return noise * 2 * math.sqrt(math.log(slots) + 1) / alpha

    low, high = 1e-9, 1e9
    for _ in range(200):  # claimed falls, alpha rises
        middle = math.sqrt(low * high)
        low, high = (middle, high) if middle < claimed(middle) else (low, middle)
    return high


def paper_rows(*, alpha: float, sparsity: int, queries: int, epsilon: float, delta: float, beta: float = 0.05) -> float:
    """Return how many rows make sparse multiplicative weights (alpha, beta)-accurate on k queries (corollary 3.11).

    n = 6000 sqrt(ln(s) + 1) ln(4/delta) ln(k/beta) / (epsilon alpha^2), `paper_alpha` solved for the rows.
    """
    factor = math.sqrt(math.log(smallest_slots(sparsity, alpha=alpha)) + 1)
    return 6000 * factor * math.log(4 / delta) * math.log(queries / beta) / (epsilon * alpha**2)


def projection_error_bound(
    *, dimension: int, sparsity: int, squared_counts: float, queries: int, beta: float = 0.05
) -> float:
    """Return how far k answers of a noiseless projection may be off, in rows.

    e (p - 1) sqrt(2 m |D|^2 / T) with p = 2 ceil(ln(k/beta) / 2), for dense signs of `needed_independence`: the error is
    a Rademacher chaos of order 2 with variance at most 2 m |D|^2 / T, and hypercontractivity bounds its p-th moment
    (docs/proofs/sparse-projection.md).

    Parameters
    ----------
    dimension
        T.
    sparsity
        m >= |q|^2.
    squared_counts
        |D|^2, the sum of squared counts of the records: n where all differ, at most n^2.
    queries
        k.
    beta
        Probability that some answer is off by more.
    """
    order = _moment(queries, beta)
    return math.e * (order - 1) * math.sqrt(2 * sparsity * squared_counts / dimension)


def needed_independence(queries: int, *, beta: float = 0.05) -> int:
    """Return r = 2 p with p = 2 ceil(ln(k/beta) / 2): p-th moments of products of two signs need 2p-wise independence."""
    return 2 * _moment(queries, beta)


def theorem_dimension(*, rows: int, sparsity: int, queries: int, alpha: float, beta: float = 0.05) -> int:
    """Return a T at which a dense projection of any n rows is off by at most alpha n, by `projection_error_bound`."""
    _check_alpha(alpha)
    at_one = projection_error_bound(
        dimension=1, sparsity=sparsity, squared_counts=float(rows) ** 2, queries=queries, beta=beta
    )
    return math.ceil((at_one / (alpha * rows)) ** 2)


def inner_product_bound(distortion: float, *, squared_query: float, squared_counts: float) -> float:
    """Return (c / 2)(|q|^2 + |D|^2): how far <A q, A D> is from <q, D> (corollary 4.7).

    Where A keeps |q + D|^2 and |q - D|^2 up to a factor 1 +- c: four times the inner product is their difference.
    """
    return distortion / 2 * (squared_query + squared_counts)


def lemma_dimension(*, rows: int, sparsity: int, queries: int, error: float = 1.0, beta: float = 0.05) -> int:
    """Return T = 4 64^2 ln(k/beta) / c^2 at which the projection alone is off by at most ``error`` rows.

    The Johnson-Lindenstrauss lemma with limited independence, at the distortion c = 2 error / (m + n^2) at which
    `inner_product_bound` is ``error``, for |q|^2 <= m and |D|^2 <= n^2.  Of the order of 1e21 for one row and n = 2e4.
    """
    c = 2 * error / (sparsity + float(rows) ** 2)
    return math.ceil(4 * 64**2 * math.log(queries / beta) / c**2)


def paper_dimension(*, rows: int, sparsity: int, queries: int, beta: float = 0.05) -> int:
    """Return SparseProject's T as it is printed: 4 64^2 ln(k/beta) (m + n^2)^2 / (2 sqrt(m)).

    Larger than what its own distortion 2 sqrt(m) / (m + n^2) asks for, `sqrt_error_dimension`, by a factor 2 sqrt(m).
    """
    return math.ceil(
        4 * 64**2 * math.log(queries / beta) * (sparsity + float(rows) ** 2) ** 2 / (2 * math.sqrt(sparsity))
    )


def sqrt_error_dimension(*, rows: int, sparsity: int, queries: int, beta: float = 0.05) -> int:
    """Return 4 64^2 ln(k/beta) (m + n^2)^2 / (4 m): the T of SparseProject's own distortion, off by sqrt(m) rows."""
    return lemma_dimension(rows=rows, sparsity=sparsity, queries=queries, error=math.sqrt(sparsity), beta=beta)


def projection_alpha(
    *, rows: int, sparsity: int, queries: int, epsilon: float, delta: float, beta: float = 0.05
) -> float:
    """Return how far SparseProject's answers are off, as a fraction of the rows, with probability 1 - 2 beta (theorem 4.9).

    (sqrt(m) / n) (1 + 8 sqrt(ln(1/delta) ln(2k/beta)) / epsilon), with both constants: sqrt(m) rows of the projection at
    `sqrt_error_dimension`; and noise of scale b = sqrt(8 ln(1/delta)) / epsilon on each of T numbers that one row moves
    by 1 / sqrt(T), and an answer gathers a sum of it with weights A q.  Sums of Laplace noise exceed
    b |A q| sqrt(8 ln(2k/beta)) with probability at most beta / k, since E exp(tz) <= exp(2 b^2 t^2) for b^2 t^2 <= 1/2; that
    |A q|^2 is m up to a factor 1 + 2 sqrt(m) / (m + n^2) is left out.  For a row more or fewer.
    """
    noise = 8 * math.sqrt(math.log(1 / delta) * math.log(2 * queries / beta)) / epsilon
    return math.sqrt(sparsity) * (1 + noise) / rows


def projection_rows(
    *, alpha: float, sparsity: int, queries: int, epsilon: float, delta: float, beta: float = 0.05
) -> float:
    """Return how many rows make SparseProject accurate up to ``alpha`` (corollary 4.12): `projection_alpha` solved for n."""
    one = projection_alpha(rows=1, sparsity=sparsity, queries=queries, epsilon=epsilon, delta=delta, beta=beta)
    return one / alpha


def _moment(queries: int, beta: float) -> int:
    """Return the even moment of the bound of the largest of a number of errors."""
    return 2 * max(1, math.ceil(math.log(queries / beta) / 2))


def _check_alpha(alpha: float) -> None:
    """Raise ParameterError unless alpha is above 0 and at most 1."""
    check_number("alpha", alpha, above=0, most=1)


Update = Literal["projection", "paper"]


@dataclass(slots=True, kw_only=True)
class SparseConstruction:
    """Weights on the records that were asked about; see `IterativeConstruction`.

    Parameters
    ----------
    table
        The weights and the slots that are left.
    total
        Number of rows.
    alpha
        Of the paper's step exp(+-alpha / 2).
    update_rule
        As ``update`` of `SparseWeights`.
    sweeps
        For the projection: how many times round all noisy answers.
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
        """Return the sum that the weights expect; a record that nobody asked about has the weight of an untouched slot."""
        return self.table.expectation(query) * self.total

    def check(self, query: Support) -> None:
        """Refuse a query for which there are not enough slots.

        Raises
        ------
        MechanismFailure
            The paper's FAILURE.
        """
        if int((self.table.places(query) < 0).sum()) > self.table.untouched:
            raise MechanismFailure(
                f"the query has more new keys than are left of the {self.table.slots} slots: open a new session "
                "with more slots"
            )

    def update(self, query: Support, answer: float, *, stddev: float) -> None:  # noqa: ARG002
        """Give the query's records slots, and move the weights: by the paper's step, or onto all noisy answers in turn."""
        guess = self.guess(query) / self.total
        latest = touched(self.table, query, target=answer / self.total)
        self.measured.append(latest)
        if self.update_rule == "projection":
            replay(self.table, self.measured, sweeps=self.sweeps, rows=self.total)
        else:
            sign = 1.0 if latest.target > guess else -1.0
            self.table.tilt(latest.place, latest.values, by=sign * self.alpha / 2)

    def update_bound(self, alpha: float) -> float:
        """Return B(alpha): the paper's for its step; for projections one projection's an update, on exact answers."""
        if self.update_rule == "projection":
            return projection_update_bound(self.table.slots, alpha=alpha)
        return paper_update_bound(self.table.slots, alpha=alpha)
