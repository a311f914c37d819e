"""The accuracy bounds of Blum and Roth (2011), and the practical ones of this implementation, as functions."""

from __future__ import annotations

import math

from synthdp.checks import check_number


def update_bound(slots: int, *, alpha: float) -> float:
    """Return B = 4 ln(s) / alpha^2: the paper's step makes at most so many updates on guesses off by alpha.

    The relative entropy of the data to the weights is at most ln(s) at first, and every update by exp(+-alpha/2)
    lowers it by alpha^2 / 4 or more (Blum, Roth 2011, section 3).
    """
    _check_alpha(alpha)
    return 4 * math.log(slots) / alpha**2


def projection_update_bound(slots: int, *, alpha: float) -> float:
    """Return ln(s) / (2 alpha^2): updates by I-projection to exact answers, when guesses are off by alpha or more.

    One projection from mean p to a lowers the entropy by KL(a || p) >= 2 (a - p)^2 (Pythagoras, Pinsker).
    """
    _check_alpha(alpha)
    return math.log(slots) / (2 * alpha**2)


def smallest_slots(sparsity: int, *, alpha: float) -> int:
    """Return the least s with s / (ln s + 1) >= 4 m / alpha^2: then slots outlast the updates.

    Blum, Roth 2011, Algorithm 1.
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

    The fixed point of alpha = 3000 sqrt(B) ln(4/delta) ln(k/beta) / (epsilon n) with B = 4 ln(s) / alpha^2 (Gupta,
    Roth, Ullman 2012, Theorem on online query release, which the paper applies).  Above 1 until n is some millions.
    """
    noise = 3000 * math.log(4 / delta) * math.log(queries / beta) / (epsilon * rows)

    def claimed(alpha: float) -> float:
        slots = smallest_slots(sparsity, alpha=min(alpha, 1.0))
        return noise * 2 * math.sqrt(math.log(slots)) / alpha

    low, high = 1e-9, 1e9
    for _ in range(200):  # claimed falls, alpha rises
        middle = math.sqrt(low * high)
        low, high = (middle, high) if middle < claimed(middle) else (low, middle)
    return high


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


def lemma_dimension(*, rows: int, sparsity: int, queries: int, error: float = 1.0, beta: float = 0.05) -> int:
    """Return T = 4 64^2 ln(k/beta) / c^2 of the Johnson-Lindenstrauss lemma with limited independence.

    The lemma keeps squared norms up to a factor 1 +- c, hence inner products up to (c/2)(|q|^2 + |D|^2); with
    |q|^2 <= m and |D|^2 <= n^2 an error of so many rows needs c = 2 error / (m + n^2).  Of the order of 1e21 for n = 2e4.
    """
    c = 2 * error / (sparsity + float(rows) ** 2)
    return math.ceil(4 * 64**2 * math.log(queries / beta) / c**2)


def _moment(queries: int, beta: float) -> int:
    return 2 * max(1, math.ceil(math.log(queries / beta) / 2))


def _check_alpha(alpha: float) -> None:
    check_number("alpha", alpha, above=0, most=1)
