"""How far k noisy answers may be off: α such that all errors stay within it with probability 1 − β.

Pure functions of numbers, on the scale of the query.  Each law has its paper's bound and the exact quantile of the
continuous law, from which the integer law differs by less than one lattice step.
"""

from __future__ import annotations

import math

from scipy.special import gammainccinv, ndtri

from synthdp.checks import check_integral, check_number, check_share
from synthdp.errors import ParameterError
from synthdp.privacy import accounting, composition


def laplace_bound(k: int, *, sensitivity: float, epsilon: float, beta: float, delta: float = 0.0) -> float:
    """Return α = Δ(k/ε)ln(k/β), or Δ√(8k ln(1/δ))/ε·ln(k/β) if δ > 0.

    Roth, lecture 5, Theorem 3.

    Parameters
    ----------
    k
        Number of queries, each answered with its own Laplace noise.
    sensitivity
        Δ of one query.
    epsilon, delta
        What all answers together cost.
    beta
        Probability that some answer is off by more than α.
    """
    _check(k, sensitivity=sensitivity, epsilon=epsilon, beta=beta)
    each = epsilon / k if delta == 0 else epsilon / math.sqrt(8 * k * math.log(1 / delta))
    return sensitivity / each * math.log(k / beta)


def laplace(k: int, *, sensitivity: float, epsilon: float, beta: float, delta: float = 0.0, rule: str = "pld") -> float:
    """Return the exact α of Laplace noise whose scale is the least that ``rule`` allows (basic if δ = 0).

    P(max |zᵢ| ≤ α) = (1 − e^(−α/b))^k.
    """
    _check(k, sensitivity=sensitivity, epsilon=epsilon, beta=beta)
    each = epsilon / k if delta == 0 else composition.split(epsilon, k, delta=delta, rule=rule)
    return -sensitivity / each * math.log(_one_tail(k, beta))


def gaussian_bound(k: int, *, sensitivity: float, epsilon: float, delta: float, beta: float) -> float:
    """Return α = σ√(2 ln(2k/β)) at the classical σ = Δ√k·√(2 ln(1.25/δ))/ε, proved for ε ≤ 1.

    Dwork, Roth 2014, Theorem A.1, and a union bound.
    """
    _check(k, sensitivity=sensitivity, epsilon=epsilon, beta=beta)
    if epsilon > 1:
        raise ParameterError(f"epsilon ({epsilon}) must be at most 1 for the classical bound")
    sigma = sensitivity * math.sqrt(2 * k * math.log(1.25 / delta)) / epsilon
    return sigma * math.sqrt(2 * math.log(2 * k / beta))


def gaussian(k: int, *, sensitivity: float, epsilon: float, delta: float, beta: float) -> float:
    """Return the exact α of Gaussian noise at the least σ: Δ√k/μ with μ = `accounting.gdp_from_approx`.

    P(max |zᵢ| ≤ α) = (2Φ(α/σ) − 1)^k.
    """
    _check(k, sensitivity=sensitivity, epsilon=epsilon, beta=beta)
    sigma = sensitivity * math.sqrt(k) / accounting.gdp_from_approx(epsilon, delta)
    return float(-sigma * ndtri(_one_tail(k, beta) / 2))


def linf_knorm_bound(k: int, *, sensitivity: float, epsilon: float, beta: float) -> float:
    """Return α = (Δ/ε)(k + √(2k ln(1/β)) + ln(1/β)), a tail bound of the gamma law.

    Boucheron, Lugosi, Massart 2013, section 2.4.
    """
    _check(k, sensitivity=sensitivity, epsilon=epsilon, beta=beta)
    tail = math.log(1 / beta)
    return sensitivity / epsilon * (k + math.sqrt(2 * k * tail) + tail)


def linf_knorm(k: int, *, sensitivity: float, epsilon: float, beta: float) -> float:
    """Return the exact α of the ℓ∞ K-norm mechanism: max |zᵢ| has the gamma law of shape k and scale Δ/ε.

    Hardt, Talwar 2010.
    """
    _check(k, sensitivity=sensitivity, epsilon=epsilon, beta=beta)
    return sensitivity / epsilon * float(gammainccinv(k, beta))


def _one_tail(k: int, beta: float) -> float:
    """Return p with (1 − p)^k = 1 − β."""
    return -math.expm1(math.log1p(-beta) / k)


def _check(k: int, *, sensitivity: float, epsilon: float, beta: float) -> None:
    check_integral("k", k)
    check_number("sensitivity", sensitivity, above=0)
    check_number("epsilon", epsilon, above=0)
    check_share("beta", beta)
