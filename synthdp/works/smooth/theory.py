"""Parameters and error bounds of smooth queries in advance: the papers' and the sharper bounds of this code.

Wang, Fan, Zhang, Wang, "Efficient algorithm for privately releasing smooth queries", NIPS 2013, and later slides. A
query is (K, B)-smooth if its derivatives up to order K are at most B on [-1, 1]^d. All functions are pure functions of
public numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import gammaincinv

from synthdp.arrays import FloatArray
from synthdp.checks import check_number, check_share, check_whole
from synthdp.errors import ParameterError
from synthdp.measurements import NoiseLaw
from synthdp.privacy import accounting
from synthdp.privacy.loss import ZCDP, ApproxDP, GaussianDP, PrivacyLoss, PureDP
from synthdp.privacy.neighbors import Neighbors, neighbors_named
from synthdp.works.smooth.chebyshev import (
    DENOMINATOR,
    MAX_TERMS,
    degree_scales,
    swap_by_degree,
    terms_by_degree,
)

NAMES = {law.name.casefold(): law for law in NoiseLaw}
"""Noise laws by their names in lower case, as settings give them."""


def law_named(law: object) -> NoiseLaw | None:
    """Return a noise law from a law, its name in lower case, or ``None`` for no choice.

    Raises
    ------
    ParameterError
        If there is no law of that name.
    """
    if law is None or isinstance(law, NoiseLaw):
        return law
    if not isinstance(law, str) or law not in NAMES:
        raise ParameterError(f"law ({law!r}) must be one of: {', '.join(NAMES)}")
    return NAMES[law]


def check_law(law: NoiseLaw | None, loss: PrivacyLoss) -> None:
    """Raise an error for a noise law that does not suit a mechanism's loss.

    Raises
    ------
    ParameterError
        If a pure epsilon is to pay for Gaussian noise, or another loss for other noise.
    """
    pure = isinstance(loss, PureDP) or (isinstance(loss, ApproxDP) and loss.delta == 0)
    if law is not None and (law is NoiseLaw.GAUSSIAN) == pure:
        suits = "laplace or linf" if pure else "gaussian"
        raise ParameterError(f"law ({law.name.casefold()}) cannot be used with a budget of {loss}: use {suits}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactParameters:
    """The parameters t, N, m and L of Algorithm 1 of the slides.

    Parameters
    ----------
    t
        Number of degrees per column.
    grid
        N, the number of points a_k = (2k + 1 - N) / N per column.
    rows
        m, the number of synthetic rows.
    lattice
        L: answers and features are rounded to multiples of 1 / L.
    """

    t: int
    grid: int
    rows: int
    lattice: int


def exact_parameters(rows: float, *, d: int, smoothness: int) -> ExactParameters:
    """Return t = n^(1/(2d+K)), N = n^(K/(2d+K)), m = n^(1+(K+1)/(2d+K)), L = n^((d+K)/(2d+K)), all rounded up.

    They are the parameters of Algorithm 1 of Wang's slides; t is at least 2.
    """
    _check(rows, d=d, smoothness=smoothness)
    base = 2 * d + smoothness
    return ExactParameters(
        t=max(2, _ceil(rows ** (1 / base))),
        grid=_ceil(rows ** (smoothness / base)),
        rows=_ceil(rows ** (1 + (smoothness + 1) / base)),
        lattice=_ceil(rows ** ((d + smoothness) / base)),
    )


def paper_degrees(rows: float, *, d: int, smoothness: int) -> int:
    """Return the paper's t = n^(1/(2d+K)), rounded up, at least 2.

    NIPS 2013, Algorithm 1.
    """
    return exact_parameters(rows, d=d, smoothness=smoothness).t


def improved_degrees(rows: float, *, d: int, smoothness: int, pure: bool) -> int:
    """Return t = n^(1/(d+K)) for pure privacy or n^(1/(d/2+K)) for Gaussian noise, rounded up, at least 2.

    This t balances truncation t^-K with noise t^d/n or t^(d/2)/n (docs/mechanisms).
    """
    _check(rows, d=d, smoothness=smoothness)
    return max(2, _ceil(rows ** (1 / ((d if pure else d / 2) + smoothness))))


def least_error_degrees(
    rows: float, *, d: int, smoothness: int, loss: PrivacyLoss, neighbors: Neighbors | str = Neighbors.REPLACE_ONE
) -> int:
    """Return the t >= 2 with the least `expected_error` for (K, 1)-smooth queries, within the limit `MAX_TERMS`."""
    _check(rows, d=d, smoothness=smoothness)
    best, least = 2, math.inf
    t = 2
    while t**d <= MAX_TERMS:
        noise = coefficient_stddev(t, rows=rows, d=d, loss=loss, neighbors=neighbors) * 2 ** (d / 2)
        error = best_approximation(t, smoothness=smoothness) * d + noise
        if error < least:
            best, least = t, error
        if noise > least:  # noise grows with t, so no later t is better
            break
        t += 1
    return best


def expected_error(
    t: int,
    *,
    rows: float,
    d: int,
    smoothness: int,
    loss: PrivacyLoss,
    neighbors: Neighbors | str = Neighbors.REPLACE_ONE,
    bound: float = 1.0,
) -> float:
    """Return d·E_t(K, B) + 2^(d/2)·B·stddev, the expected error of a worst (K, B)-smooth query at t degrees.

    The first term is the truncation of the best polynomial. The second is noise: a query of at most B in size has
    coefficients of norm at most 2^(d/2)·B (Parseval). The number of degrees is chosen to make it small.
    """
    truncation = best_approximation(t, smoothness=smoothness, bound=bound) * d
    noise = coefficient_stddev(t, rows=rows, d=d, loss=loss, neighbors=neighbors)
    return truncation + 2 ** (d / 2) * bound * noise


def coefficient_stddev(
    t: int,
    *,
    rows: float,
    d: int,
    loss: PrivacyLoss,
    neighbors: Neighbors | str = Neighbors.REPLACE_ONE,
    growth: float = 0.0,
) -> float:
    """Return the standard deviation of the noise on each released average, of t^d - 1 averages.

    A pure loss gives l-infinity K-norm noise, (Δ/ε)·sqrt((k+1)(k+2)/3). Other losses give Gaussian noise with the L2
    bound of `works.smooth.chebyshev`. With a ``growth`` above 0 the Gaussian value is for averages of degree 1; see
    `growing`. Pure losses ignore ``growth``.
    """
    swap = neighbors_named(neighbors) is Neighbors.REPLACE_ONE
    k = t**d - 1
    scales = 1 / growing(t, growth)
    l2 = math.sqrt(swap_by_degree(scales, d) if swap else float(terms_by_degree(t, d) @ scales**2))
    match loss:
        case PureDP(epsilon):
            sigma = (1 + swap) / epsilon * math.sqrt((k + 1) * (k + 2) / 3)
        case ApproxDP(epsilon, delta):
            if delta == 0:
                pure = PureDP(epsilon)
                return coefficient_stddev(t, rows=rows, d=d, loss=pure, neighbors=neighbors, growth=growth)
            sigma = l2 / _gaussian_mu(epsilon, delta)
        case ZCDP(rho):
            sigma = l2 / math.sqrt(2 * rho)
        case GaussianDP(mu):
            sigma = l2 / mu
    return sigma / rows


def growing(t: int, growth: float) -> FloatArray:
    """Return the noise stddev by the largest degree of an average, (t,), in multiples of the stddev at degree 1.

    The stddev is proportional to the degree to the power ``growth``, up to rounding; degree 0 counts as degree 1.
    """
    return DENOMINATOR / degree_scales(t, growth, denominator=DENOMINATOR)


def paper_accuracy(rows: float, *, d: int, smoothness: int, epsilon: float) -> float:
    """Return n^(-K/(2d+K))/ε, the rate of the papers' error theorems with their unstated constant taken as 1.

    The rate is from NIPS 2013 and from the slides' theorem for the synthetic database.
    """
    _check(rows, d=d, smoothness=smoothness)
    return float(rows ** (-smoothness / (2 * d + smoothness)) / epsilon)


def improved_accuracy(rows: float, *, d: int, smoothness: int, epsilon: float, pure: bool) -> float:
    """Return n^(-K/(d+K))/ε (pure) or n^(-K/(d/2+K))/ε (Gaussian), the error rates at `improved_degrees`."""
    _check(rows, d=d, smoothness=smoothness)
    return float(rows ** (-smoothness / ((d if pure else d / 2) + smoothness)) / epsilon)


def accuracy(
    t: int,
    *,
    rows: float,
    d: int,
    smoothness: int,
    loss: PrivacyLoss,
    beta: float,
    neighbors: Neighbors | str = Neighbors.REPLACE_ONE,
    bound: float = 1.0,
) -> float:
    """Return a proven α: one (K, B)-smooth query's answer is off by at most α with probability 1 - β.

    Truncation is bounded by `truncation_bound` at N = 2t. Noise is bounded by a sub-Gaussian tail given the K-norm's
    radius (pure), or by the Gaussian tail.

    Parameters
    ----------
    t
        Number of degrees per column.
    rows, d, smoothness, bound
        n, d, K, B.
    loss
        The cost of the release.
    beta
        Probability of a larger error.
    neighbors
        The neighbours of the loss.
    """
    check_share("beta", beta)
    truncation = truncation_bound(t, d=d, smoothness=smoothness, bound=bound, nodes=2 * t)
    norm = 2 ** (d / 2) * bound
    if isinstance(loss, ApproxDP) and loss.delta == 0:
        loss = PureDP(loss.epsilon)
    if isinstance(loss, PureDP):
        delta_inf = 2 if neighbors_named(neighbors) is Neighbors.REPLACE_ONE else 1
        radius = float(gammaincinv(t**d, 1 - beta / 2)) * delta_inf / loss.epsilon / rows
        return truncation + radius * norm * math.sqrt(2 / 3 * math.log(4 / beta))
    sigma = coefficient_stddev(t, rows=rows, d=d, loss=loss, neighbors=neighbors)
    return truncation + sigma * norm * math.sqrt(2 * math.log(2 / beta))


def best_approximation(t: int, *, smoothness: int, bound: float = 1.0) -> float:
    """Return Jackson's bound on the distance of a (K, B)-smooth f on [-1, 1] from polynomials of degree below t.

    The bound is the minimum over k <= min(K, t - 1) of (π/2)^k B / (t (t-1) ... (t-k+1)).

    Cheney, Introduction to Approximation Theory, chapter 4, Jackson's theorem V.
    """
    best = product = 1.0
    for k in range(1, min(smoothness, t - 1) + 1):
        product *= math.pi / 2 / (t - k + 1)
        best = min(best, product)
    return bound * best


def column_bias(measured: int, *, smoothness: int, bound: float = 1.0) -> float:
    """Return a bound on the bias of a (K, B)-smooth query of one column, answered by a distribution with exact moments.

    Two distributions on [-1, 1] that agree in T_1 ... T_p differ by at most twice the distance of f from polynomials of
    degree p.

    Parameters
    ----------
    measured
        p, how many moments agree.
    smoothness, bound
        K, the order of derivatives, and B, the bound on them.
    """
    check_whole("measured", measured)
    return 2 * best_approximation(measured + 1, smoothness=smoothness, bound=bound)


def truncation_bound(t: int, *, d: int, smoothness: int, bound: float, nodes: int) -> float:
    """Return a bound on sup |f - Pf|, for P the discrete Chebyshev projection to t degrees from N nodes per column.

    The bound is (1 + Λ)(1 + Λ + ... + Λ^(d-1)) E, one column at a time. Λ is the norm of P in one dimension, and E is
    the distance that `best_approximation` bounds.

    Raises
    ------
    ParameterError
        If N < t.
    """
    check_whole("nodes", nodes, least=t)
    norm = projection_norm(t, nodes)
    columns = sum(norm**j for j in range(d))
    return (1 + norm) * columns * best_approximation(t, smoothness=smoothness, bound=bound)


@lru_cache(maxsize=256)
def projection_norm(t: int, nodes: int) -> float:
    """Return an upper bound, within 3 %, on the maximum norm of the discrete Chebyshev projection (Lebesgue constant).

    The norm is the maximum over θ of (1/N) Σ_k |1 + 2 Σ_{0<m<t} cos mθ cos mθ_k|. Its maximum on a grid of step h is at
    least cos(th/2) times the true norm (Ehlich, Zeller 1964).
    """
    degrees = np.arange(1, t)
    at_nodes = np.cos(degrees[:, None] * ((np.arange(nodes) + 0.5) * np.pi / nodes))
    steps = 8 * t
    largest = 0.0
    for block in np.array_split(np.arange(steps + 1), max(1, steps * nodes // 2_000_000)):
        kernel = 1 + 2 * np.cos(block[:, None] * (np.pi / steps) * degrees) @ at_nodes
        largest = max(largest, float(np.abs(kernel).mean(axis=1).max()))
    return largest / math.cos(t * math.pi / steps / 2)


@lru_cache(maxsize=256)
def _gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the mu of Gaussian DP that implies (epsilon, delta), cached because each plan tries many degrees."""
    return accounting.gdp_from_approx(epsilon, delta)


def _ceil(x: float) -> int:
    """Return x rounded up, or the whole number itself where x is above it by floating-point error only."""
    return math.ceil(x * (1 - 1e-12))


def _check(rows: float, *, d: int, smoothness: int) -> None:
    """Raise ParameterError unless rows is at least 1, and d and smoothness whole numbers of at least 1."""
    check_number("rows", rows, least=1)
    check_whole("d", d)
    check_whole("smoothness", smoothness)
