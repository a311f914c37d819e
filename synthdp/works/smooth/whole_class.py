"""Error bounds for all smooth queries at once: with probability 1 - β no query of the class exceeds the bound.

NIPS 2013, definition 2.2 and theorem 3.1. All functions are pure functions of public numbers; the proof is in
docs/proofs/smooth-class.md.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import gammaincinv

from synthdp.arrays import FloatArray
from synthdp.checks import check_share
from synthdp.privacy.loss import ApproxDP, PrivacyLoss, PureDP
from synthdp.privacy.neighbors import Neighbors, neighbors_named
from synthdp.works.smooth.chebyshev import MAX_TERMS
from synthdp.works.smooth.theory import best_approximation, coefficient_stddev, growing, truncation_bound

NEARLY = 0.05
"""Fraction by which an error may exceed the least error if that saves degrees. A tolerance: bounds hold to a few
percent only."""

MAX_ORDER = 8
"""Largest order of derivatives that bounds use: beyond, constants grow faster than the bounds fall.  A safety limit of
time."""


def class_accuracy(
    t: int,
    *,
    rows: float,
    d: int,
    smoothness: int,
    loss: PrivacyLoss,
    beta: float,
    neighbors: Neighbors | str = Neighbors.REPLACE_ONE,
    bound: float = 1.0,
    nodes: int | None = None,
    cells: int = 2**15,
    growth: float = 0.0,
) -> float:
    """Return a proven α: with probability 1 - β all (K, B)-smooth queries' answers are off by at most α at once.

    The bound adds truncation, the cells on which the table is read, and the noise of the worst query. Bounded
    derivatives confine a query's coefficients to an ellipsoid, on which the noise is at most sqrt(sum_m z_m^2 / w_m^2).
    Where 2K > d that sum does not grow with t.

    Gaussian noise can grow as the degree to the K/2. The sum then grows as t^(d-K), or not at all where K > d, which is
    optimal (Ding, He, Zhu, arXiv 2602.01607).

    Parameters
    ----------
    t, rows, d, smoothness, loss, neighbors, bound
        As in `accuracy`, which is about one query; ``rows`` is public.
    beta
        Probability that some query's error is larger.
    nodes
        N, the points per column at which a query is evaluated; default: 2t.
    cells
        Cells per column on which the table is read.
    growth
        Power of the degree that the noise grows with: K / 2 for ``weighting="degree"``, 0 for ``"equal"``.
    """
    check_share("beta", beta)
    count = 2 * t if nodes is None else nodes
    truncation = truncation_bound(t, d=d, smoothness=smoothness, bound=bound, nodes=count)
    noise = class_noise(
        t, rows=rows, d=d, smoothness=smoothness, loss=loss, beta=beta, neighbors=neighbors, nodes=count, growth=growth
    )
    return truncation + d * bound / cells + bound * noise


def class_noise(
    t: int,
    *,
    rows: float,
    d: int,
    smoothness: int,
    loss: PrivacyLoss,
    beta: float,
    neighbors: Neighbors | str = Neighbors.REPLACE_ONE,
    nodes: int,
    growth: float = 0.0,
) -> float:
    """Return a bound on the noise of all (K, 1)-smooth queries at once, as averages over rows, with probability 1 - β.

    Coefficients of such a query lie in an ellipsoid, as its derivatives are bounded.  So no query has more noise than
    a weighted norm of the averages' noise.  The tail of this norm is bounded for each order; the least bound is taken.

    Parameters
    ----------
    t, d, smoothness
        Degrees per column, number of columns, and K.
    rows, loss, neighbors
        The public number of rows, and the cost of the release for these neighbours.
    beta
        Probability that some query has more noise.
    nodes
        Points per column at which a query is evaluated.
    growth
        Power of the degree that the noise grows with.
    """
    pure = isinstance(loss, PureDP) or (isinstance(loss, ApproxDP) and loss.delta == 0)
    if pure and isinstance(loss, PureDP | ApproxDP):
        moved = 2 if neighbors_named(neighbors) is Neighbors.REPLACE_ONE else 1
        scale = float(gammaincinv(t**d, 1 - beta / 2)) * moved / loss.epsilon / rows
    else:
        scale = coefficient_stddev(t, rows=rows, d=d, loss=loss, neighbors=neighbors, growth=growth)
    sums = (_sums(t, d, order, nodes, growth) for order in range(min(smoothness, MAX_ORDER) + 1))
    return scale * min(math.sqrt(_uniform(*s, beta / 2) if pure else _gaussian(*s, beta)) for s in sums)


def class_degrees(
    rows: float,
    *,
    d: int,
    smoothness: int,
    loss: PrivacyLoss,
    neighbors: Neighbors | str = Neighbors.REPLACE_ONE,
    growth: float,
) -> int:
    """Return t, the number of degrees 0 to t - 1 of each column, for which the worst query has nearly the least error.

    The error is truncation plus expected noise.  Numbers that grow by a tenth each are tried, up to `MAX_TERMS`
    coefficients, t^d; the least t within `NEARLY` of the least error is taken, as more degrees gain nothing.  A replaced
    row is taken to move averages √2 times as much as an added row, which is close enough for this choice.
    """
    further = math.sqrt(2) if neighbors_named(neighbors) is Neighbors.REPLACE_ONE else 1.0
    errors: dict[int, float] = {}
    t, least = 2, math.inf
    while t**d <= MAX_TERMS:
        sums = (_sums(t, d, order, 2 * t, growth)[0] for order in range(min(smoothness, MAX_ORDER) + 1))
        stddev = coefficient_stddev(t, rows=rows, d=d, loss=loss, neighbors=Neighbors.ADD_REMOVE, growth=growth)
        noise = further * stddev * math.sqrt(min(sums))
        truncation = d * best_approximation(t, smoothness=smoothness)
        errors[t] = truncation + noise
        least = min(least, errors[t])
        if noise > least or truncation < NEARLY * noise:
            break
        t = max(t + 1, round(1.1 * t))
    return next(t for t, error in errors.items() if error <= (1 + NEARLY) * least)


def _uniform(first: float, second: float, largest: float, beta: float) -> float:  # noqa: ARG001 - as `_gaussian`
    """Return a bound on sum a u^2 for independent u uniform in [-1, 1], with probability 1 - ``beta`` (Hoeffding).

    ``first`` is the sum of the weights a, ``second`` the sum of their squares; ``largest`` is not used. The result bounds
    the noise of the worst query under a pure loss.
    """
    return min(first, first / 3 + math.sqrt(math.log(1 / beta) * second / 2))


def _gaussian(first: float, second: float, largest: float, beta: float) -> float:
    """Return a bound on sum a z^2 for independent standard normal z, with probability 1 - ``beta``.

    ``first`` is the sum of the weights a, ``second`` the sum of their squares, ``largest`` their maximum (Laurent,
    Massart 2000, lemma 1). Discrete Gaussians are sub-Gaussian, so the bound covers them too. The result bounds
    the noise of the worst query.
    """
    x = math.log(1 / beta)
    return first + 2 * math.sqrt(second * x) + 2 * largest * x


@lru_cache(maxsize=512)
def _sums(t: int, d: int, order: int, nodes: int, growth: float) -> tuple[float, float, float]:
    """Return the sum, the sum of squares and the maximum of g_m^2 / w_m^2 over all degrees but the constant.

    These fractions are the weights of squared noises whose sum bounds the worst query's noise. g_m is the growth of the
    noise of degree m, see `growing`.  A query's coefficients lie in an ellipsoid with axes 1 / w_m, see `ellipsoid`,
    which has the other parameters.
    """
    grown = growing(t, growth)[np.indices((t,) * d).max(axis=0)] ** 2
    inverse = grown.ravel()[1:] / ellipsoid(t, d=d, order=order, nodes=nodes).ravel()[1:]
    return float(inverse.sum()), float((inverse**2).sum()), float(inverse.max())


def ellipsoid(t: int, *, d: int, order: int, nodes: int) -> FloatArray:
    """Return w_m^2, (t, ..., t): every (K, 1)-smooth query has sum w_m^2 c_m^2 <= 1, for each order up to K.

    Here c_m are its coefficients, and the noise of the worst query follows from this ellipsoid.

    With λ(m) = (2N/π) sin(πm/2N) and b from `chain_bound`, w_m^2 = 2^-(degrees of m that are not 0) sum_j λ(m_j)^(2
    order) / (d b^2). For order 0 it is the power of 2 alone (Parseval).
    """
    degrees = np.indices((t,) * d)
    halved = 0.5 ** (degrees > 0).sum(axis=0)
    if order == 0:
        return np.asarray(halved)
    rates = (2 * nodes / math.pi * np.sin(math.pi * degrees / (2 * nodes))) ** (2 * order)
    return np.asarray(halved * rates.sum(axis=0) / (d * chain_bound(order) ** 2))


@lru_cache(maxsize=MAX_ORDER + 1)
def chain_bound(order: int) -> float:
    """Return a bound, within 0.1 %, on an order's derivative of f(cos θ).

    Derivatives of f up to that order are at most 1. The chain rule gives sum_i f^(i)(cos θ) p_i(θ). With the best
    signs, sum |p_i| is a trigonometric polynomial of degree ``order``. Its maximum on a grid of step h is at least
    cos(order h / 2) times the true maximum.
    """
    steps = 64 * max(order, 1)
    angles = np.arange(2 * steps) * (math.pi / steps)
    frequencies = np.arange(-order, order + 1)
    terms = [np.where(frequencies == 0, 1.0 + 0j, 0)]  # coefficients of e^(i m θ), one array for each p_i
    for _ in range(order):
        slopes = [1j * frequencies * p for p in terms] + [np.zeros_like(terms[0])]
        chained = [np.zeros_like(terms[0])] + [_times_minus_sine(p) for p in terms]
        terms = [a + b for a, b in zip(slopes, chained, strict=True)]
    waves = np.exp(1j * angles[:, None] * frequencies)
    most = float(sum(np.abs((waves @ p).real) for p in terms).max())
    return most / math.cos(order * math.pi / steps / 2)


def _times_minus_sine(p: FloatArray) -> FloatArray:
    """Return the Fourier coefficients of -sin θ · p, from the coefficients of p; -sin θ = (i/2)(e^(iθ) - e^(-iθ)).

    The chain rule for f(cos θ) multiplies by -sin θ.
    """
    up, down = np.concatenate([[0], p[:-1]]), np.concatenate([p[1:], [0]])
    return np.asarray(0.5j * (up - down))
