"""What k queries cost together, by each rule of the literature, and how much of a budget each of k may have.

Pure functions of numbers.  Every rule holds for adaptively chosen queries, since each query's own cost is fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import MappingProxyType

import numpy as np
from scipy.special import gammaln

from synthdp.checks import check_integral, check_number, check_one_of, check_share
from synthdp.privacy import accounting
from synthdp.privacy.accounting import last_holding

LATTICE_STEPS = 1024
"""Lattice steps for a sensitivity of 1 in `pld`: so fine that the discrete Laplace law equals the continuous one to
1e-6.  A numerical tolerance."""

_SLACK = 1e-11
"""Relative error added to computed bounds, so that rounding never makes a loss too small.  A numerical tolerance."""


def basic(epsilon: float, k: int, *, delta: float = 0.0) -> float:  # noqa: ARG001 - the rules' common signature
    """Return the ε of k mechanisms that are each ε-DP: kε, without any δ.

    Dwork, McSherry, Nissim, Smith 2006.
    """
    _check(epsilon, k)
    return k * epsilon


def lecture(epsilon: float, k: int, *, delta: float) -> float:
    """Return ε√(8k ln(1/δ)), the total ε by the short form of advanced composition, or infinity where it is not proved.

    Notes
    -----
    Roth, lecture 5; Dwork, Roth 2014, Corollary 3.21, there for a total ε ≤ 1.  It follows from `drv` exactly where
    `drv` is no larger.
    """
    proved = drv(epsilon, k, delta=delta)
    short = epsilon * math.sqrt(8 * k * _log_inverse(delta))
    return short if proved <= short else math.inf


def drv(epsilon: float, k: int, *, delta: float) -> float:
    """Return the total ε of k mechanisms that are each ε-DP, by advanced composition: ε√(2k ln(1/δ)) + kε(e^ε − 1)."""
    _check(epsilon, k)
    return epsilon * math.sqrt(2 * k * _log_inverse(delta)) + k * epsilon * math.expm1(epsilon)


def optimal(epsilon: float, k: int, *, delta: float) -> float:
    """Return the least ε that holds for every choice of k mechanisms that are each ε-DP.

    Notes
    -----
    Kairouz, Oh, Viswanath 2015, Theorem 3.3: the worst case is k-fold randomised response, whose loss is
    (k − 2i)ε with i binomial.
    """
    _check(epsilon, k)
    _log_inverse(delta)
    flips = np.arange(k + 1)
    losses = (k - 2 * flips) * epsilon
    stay, flip = -math.log1p(math.exp(-epsilon)), -math.log1p(math.exp(epsilon))
    log_choices = gammaln(k + 1) - gammaln(flips + 1) - gammaln(k - flips + 1)
    chances = np.exp(log_choices + (k - flips) * stay + flips * flip)

    def holds(total: float) -> bool:
        above = losses > total
        return float(np.sum(chances[above] * -np.expm1(total - losses[above]))) * (1 + _SLACK * k) <= delta

    return 0.0 if holds(0.0) else last_holding(holds, inside=k * epsilon, outside=0.0)


def zcdp(epsilon: float, k: int, *, delta: float) -> float:
    """Return the ε of k mechanisms that are each ε-DP, through ρ = kε²/2.

    Bun, Steinke 2016, Proposition 1.4; conversion as in `accounting.zcdp_to_epsilon`.
    """
    _check(epsilon, k)
    return accounting.zcdp_to_epsilon(k * epsilon**2 / 2, delta)


def rdp(epsilon: float, k: int, *, delta: float) -> float:
    """Return the ε of k queries with Laplace noise (the continuous law) that cost ε each, by Rényi orders.

    Notes
    -----
    Mironov 2017, Proposition 6; conversion of Canonne, Kamath, Steinke 2020, valid at every order α > 1.
    """
    _check(epsilon, k)
    log_delta = -_log_inverse(delta)

    def total(log_excess: float) -> float:
        excess = math.exp(log_excess)
        alpha = 1 + excess
        up = math.log(alpha / (2 * alpha - 1)) + excess * epsilon
        down = math.log(excess / (2 * alpha - 1)) - alpha * epsilon
        renyi = float(np.logaddexp(up, down)) / excess
        return k * renyi - (log_delta + math.log(alpha)) / excess + math.log1p(-1 / alpha)

    from scipy.optimize import minimize_scalar  # takes a tenth of a second, which most releases need not

    found = minimize_scalar(total, bounds=(math.log(1e-3), math.log(1e7)), method="bounded")
    return max(0.0, float(found.fun)) * (1 + _SLACK)


def pld(epsilon: float, k: int, *, delta: float) -> float:
    """Return the ε of k queries with discrete Laplace noise that cost ε each, by their privacy loss distribution.

    A sensitivity of 1 is 1024 lattice steps; for other lattices use `accounting.pld_epsilon`.
    """
    _check(epsilon, k)
    event = accounting.NoiseEvent(kind="laplace", scale=LATTICE_STEPS / epsilon, sensitivity=LATTICE_STEPS, count=k)
    return min(basic(epsilon, k), accounting.pld_epsilon([event], delta))


RULES: MappingProxyType[str, Callable[..., float]] = MappingProxyType(
    {"basic": basic, "lecture": lecture, "drv": drv, "optimal": optimal, "zcdp": zcdp, "rdp": rdp, "pld": pld}
)
"""The composition rules by name, each a function of (ε, k, delta=δ) that returns the total ε.  `rdp` and `pld` hold for
Laplace noise, the others for any pure mechanism."""


def split(epsilon: float, k: int, *, delta: float, rule: str = "optimal") -> float:
    """Return the largest ε₀ such that k mechanisms of ε₀ each cost at most (ε, δ) together.

    Parameters
    ----------
    epsilon, delta
        The whole.
    k
        Number of equal parts.
    rule
        A name in `RULES`.  The default holds for any pure mechanisms and no smaller bound does.

    Raises
    ------
    ParameterError
        If the rule is unknown or a number is out of range.

    Examples
    --------
    >>> round(split(1.0, 100, delta=1e-6), 4)
    0.024
    """
    _check(epsilon, k)
    check_one_of("rule", rule, RULES)
    total = RULES[rule]
    inside = epsilon / k * (1 - 1e-12)
    if rule in ("lecture", "drv", "zcdp"):
        inside /= 1e4 * math.sqrt(_log_inverse(delta))  # these rules may cost more than basic composition
    return last_holding(
        lambda each: total(each, k, delta=delta) <= epsilon, inside=inside, outside=2 * epsilon, relative=1e-6
    )


def _check(epsilon: float, k: int) -> None:
    """Raise ParameterError unless ε is positive and k a whole number."""
    check_number("epsilon", epsilon, above=0)
    check_integral("k", k)


def _log_inverse(delta: float) -> float:
    """Return ln(1/δ); raise ParameterError unless 0 < δ < 1."""
    check_share("delta", delta)
    return -math.log(delta)
