"""Conversions between privacy losses, pure functions of numbers: the only module that calls dp-accounting.

Every result is rounded to the safe side: a loss that is *claimed* is never too small, a loss that may be *spent* is
never too large.  The proofs are in ``docs/proofs/gaussian-filter.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from scipy.special import erfcx, ndtr, ndtri

from synthdp.checks import check_integral, check_number, check_one_of, check_share
from synthdp.errors import ParameterError


def last_holding(holds: Callable[[float], bool], *, inside: float, outside: float, relative: float = 0.0) -> float:
    """Return, by bisection, the value nearest to ``outside`` where a monotone condition, true at ``inside``, still holds.

    Conversions between losses use it, because its answer errs to the safe side.

    Parameters
    ----------
    holds
        True from ``inside`` up to some border, false from there to ``outside``.  The value that is returned was
        tested (or is ``inside``), so that the answer errs to the side where the condition holds.
    inside, outside
        Ends of the interval, in either order.
    relative
        Relative width at which the search stops; 0 stops at neighbouring floats.
    """
    while abs(outside - inside) > relative * abs(inside):
        middle = inside + (outside - inside) / 2
        if middle in (inside, outside):
            break
        if holds(middle):
            inside = middle
        else:
            outside = middle
    return inside


SMALLEST_PLD_DELTA = 1e-10
"""Least delta for privacy loss distributions.  Below it, the rounding error of the fast Fourier transform in dp-accounting
is not small against delta.  A safety limit."""

LARGEST_PLD_SIGMA = 2000.0
"""Largest sigma, in lattice steps, whose discrete Gaussian is tabulated exactly.  Above it the normal distribution stands
in, and its total variation distance is charged.  A safety limit of time."""

_SLACK = 1e-11
"""Relative error added to results on the safe side; it covers the rounding of exp, erfcx and sums in double precision.
A numerical tolerance: a few thousand roundings of 1e-16 stay far below."""

_BLUR = 4.0  # variance that a continuous Gaussian gives up to become a discrete one
"""Variance that sigma^2 loses, in squared lattice steps, in the price of integer noise: N_Z(0, s^2) costs no more than
normal noise of variance s^2 - 4.  Derived: the v of Lemma 1 in docs/proofs/gaussian-filter.md."""
_LARGEST_EPSILON = 700.0  # e^ε stays a float
"""Largest epsilon that is computed: e^epsilon overflows a float just above.  A safety limit."""
_TOO_MUCH = 3000.0  # a ρ or μ that costs δ = 1 at every such ε
"""Upper end of bisections for a rho or mu: above the rho or mu of any (epsilon, delta) up to `_LARGEST_EPSILON`.  A safety
limit."""


def zcdp_to_delta(rho: float, epsilon: float) -> float:
    """Return δ such that ρ-zCDP implies (ε, δ)-DP.

    Notes
    -----
    Canonne, Kamath, Steinke 2020, Proposition 12: the minimum over α > 1 of exp((α−1)(αρ−ε))·(1−1/α)^α/(α−1).  The
    bound holds for any α, so the minimum need not be exact.
    """
    check_number("rho", rho, above=0)
    _check_epsilon(epsilon)

    def rising(excess: float) -> bool:  # over α = 1 + excess, which is exact however near to 1
        return (2 * excess + 1) * rho - epsilon - math.log1p(1 / excess) >= 0

    excess = last_holding(rising, inside=(epsilon + 1) / rho, outside=0.0)
    alpha = 1 + excess
    terms = (excess * (alpha * rho), -excess * epsilon, -math.log(excess), -alpha * math.log1p(1 / excess))
    rounding = 1e-15 * sum(map(abs, terms))  # of each term, and of exp: the last term alone is below −1
    return min(1.0, math.exp(min(math.fsum(terms) + rounding, 0.0)) + math.ulp(0.0))


def zcdp_to_epsilon(rho: float, delta: float) -> float:
    """Return the least ε such that ρ-zCDP implies (ε, δ)-DP, by `zcdp_to_delta`; infinite if it is above 700."""
    check_number("rho", rho, above=0)
    check_share("delta", delta)
    return _least_epsilon(lambda epsilon: zcdp_to_delta(rho, epsilon) <= delta)


def zcdp_from_approx(epsilon: float, delta: float) -> float:
    """Return the largest ρ such that ρ-zCDP implies (ε, δ)-DP, by `zcdp_to_delta`: the budget inside a promised (ε, δ)."""
    check_number("epsilon", epsilon, above=0)
    check_share("delta", delta)
    return last_holding(lambda rho: zcdp_to_delta(rho, epsilon) <= delta, inside=1e-300, outside=_TOO_MUCH)


def gdp_to_delta(mu: float, epsilon: float) -> float:
    """Return δ such that μ-Gaussian DP is (ε, δ)-DP, exact up to an upward rounding of about 1e-11.

    Notes
    -----
    δ = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2) (Balle, Wang 2018, Theorem 8; Dong, Roth, Su 2022, Corollary 2.13).
    With y = ε/μ − μ/2 and Mills' ratio m(y) = Φ(−y)/φ(y) it is φ(y)·(m(y) − m(y + μ)): nothing overflows.
    """
    check_number("mu", mu, above=0)
    _check_epsilon(epsilon)
    return _gdp_to_delta(mu, epsilon)


def _gdp_to_delta(mu: float, epsilon: float) -> float:
    """Return δ such that μ-Gaussian DP is (ε, δ)-DP, as `gdp_to_delta`, without a check of the arguments.

    Bisections call it many times.
    """
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    density = math.exp(-near * near / 2) / math.sqrt(2 * math.pi)
    first = density * _mills(near) if near > 0 else float(ndtr(-near))
    second = density * _mills(far)
    return min(1.0, first * (1 + _SLACK) - second * (1 - _SLACK) + math.ulp(0.0))


def gdp_to_epsilon(mu: float, delta: float) -> float:
    """Return the least ε such that μ-Gaussian DP implies (ε, δ)-DP; infinite if it is above 700."""
    check_number("mu", mu, above=0)
    check_share("delta", delta)
    return _least_epsilon(lambda epsilon: gdp_to_delta(mu, epsilon) <= delta)


def gdp_from_approx(epsilon: float, delta: float) -> float:
    """Return the largest μ such that μ-Gaussian DP implies (ε, δ)-DP: the budget inside a promised (ε, δ)."""
    _check_epsilon(epsilon)
    check_share("delta", delta)
    return _gdp_from_approx(epsilon, delta)


@lru_cache(maxsize=256)  # of what a promise says, which is public; a release asks for the same some twenty times
def _gdp_from_approx(epsilon: float, delta: float) -> float:
    # At μ = δ it holds: there δ(ε) ≤ δ(0) = 2Φ(μ/2) − 1 < μ/2.
    """Return the largest μ such that μ-Gaussian DP implies (ε, δ)-DP, as `gdp_from_approx`, without a check of arguments.

    Results are cached, because programs ask for the same values often.
    """
    return last_holding(lambda mu: _gdp_to_delta(mu, epsilon) <= delta, inside=delta, outside=_TOO_MUCH)


def gdp_from_pure(epsilon: float) -> float:
    """Return μ such that every ε-DP mechanism is μ-Gaussian DP: 2Φ⁻¹(1/(1+e^−ε)), about 1.253ε."""
    return gdp_from_bounded_range(2 * epsilon)


def gdp_from_bounded_range(loss_range: float) -> float:
    """Return μ such that a mechanism whose privacy losses lie in an interval of this length is μ-Gaussian DP.

    The result is 2Φ⁻¹(1/(1+e^(−range/2))), about 0.627·range, rounded up.  The exponential mechanism at ``scale`` has
    range 2Δ∞/scale, or Δ∞/scale for monotonic scores.
    """
    check_number("loss_range", loss_range, above=0)
    _check_epsilon(loss_range / 2)
    return float(-2 * ndtri(1 / (1 + math.exp(loss_range / 2)))) * (1 + _SLACK) + 1e-14


def gdp_from_discrete_gaussian(sensitivity: float, *, sigma: float) -> float:
    """Return μ such that integer vectors with noise N_Z(0, σ²) in each coordinate are μ-Gaussian DP, exactly.

    Parameters
    ----------
    sensitivity
        L2 sensitivity, in lattice steps.
    sigma
        σ in lattice steps, 4 ≤ σ ≤ 2⁵³.

    Notes
    -----
    Lemma 1 of ``docs/proofs/gaussian-filter.md`` with v = 4: Δ/√(σ² − 4), times a factor 1 + 10⁻¹⁷ that the upward
    rounding covers.
    """
    check_number("sensitivity", sensitivity, above=0)
    check_number("sigma", sigma, least=4, most=2.0**53)
    return sensitivity / math.sqrt(sigma * sigma - _BLUR) * (1 + _SLACK)


def discrete_gaussian_sigma(sensitivity: float, *, mu: float) -> float:
    """Return the least σ, to a relative 1e-11, at which `gdp_from_discrete_gaussian` is at most μ, to calibrate noise.

    σ and the L2 sensitivity are in lattice steps.  σ is never below 4, the least for which that function is defined.
    """
    check_number("sensitivity", sensitivity, above=0)
    check_number("mu", mu, above=0)
    return max(4.0, math.hypot(sensitivity / mu * (1 + 2 * _SLACK), math.sqrt(_BLUR)))


def rounded_gaussian_gap(sigma: float) -> float:
    """Return a bound on the total variation between N_Z(0, σ²) and the rounded normal law of variance σ² − 1/12.

    `pld_epsilon` adds it to δ where it composes the normal law in place of the discrete one.

    Parameters
    ----------
    sigma
        Scale of the discrete Gaussian in lattice steps, σ ≥ 1.

    Notes
    -----
    Lemma 5 of ``docs/proofs/gaussian-filter.md``: with τ² = σ² − 1/12,
    ½·[(√24/τ⁴ + √30/τ⁵)/720 + 2.001·e^(−2π²σ²)], about 0.0034/σ⁴.
    """
    check_number("sigma", sigma, least=1, infinite=True)
    tau = math.sqrt(sigma * sigma - 1 / 12)
    smooth = (math.sqrt(24) / tau**4 + math.sqrt(30) / tau**5) / 720
    return (smooth + 2.001 * math.exp(-2 * math.pi**2 * sigma * sigma)) / 2 * (1 + _SLACK)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseEvent:
    """One kind of noise in a plan that is fixed before data is read, as input of `pld_epsilon`; queries may be adaptive.

    Parameters
    ----------
    kind
        ``"laplace"`` or ``"gaussian"``, discrete, independent in each coordinate.
    scale
        b or σ, in lattice steps.
    sensitivity
        In lattice steps: the L1 sensitivity of a Laplace vector, the *square* of the L2 one of a Gaussian vector.
    count
        Number of such vectors that are released.
    coordinates
        Length of the vector; matters for a Gaussian only.
    shifts_of_one
        Whether one row changes every coordinate by at most 1 (counts).
    """

    kind: Literal["laplace", "gaussian"]
    scale: float
    sensitivity: int
    count: int = 1
    coordinates: int = 1
    shifts_of_one: bool = False

    def __post_init__(self) -> None:
        check_one_of("kind", self.kind, ("laplace", "gaussian"))
        check_number("scale", self.scale, above=0)
        for name in ("sensitivity", "count", "coordinates"):
            check_integral(name, getattr(self, name))
        if self.kind == "gaussian" and not self.tabulated and self.scale < 1:
            raise ParameterError(
                f"scale ({self.scale}) must be at least 1: multiply scale and sensitivity by the same whole number"
            )

    @property
    def tabulated(self) -> bool:
        """Whether the exact discrete distribution is composed; else the normal one is, and its distance is added to δ."""
        single = self.sensitivity == 1 or self.shifts_of_one
        return self.kind == "laplace" or (single and self.scale <= LARGEST_PLD_SIGMA)


def pld_epsilon(events: Sequence[NoiseEvent], delta: float) -> float:
    """Return the least ε such that all events together are (ε, δ)-DP, by composing privacy loss distributions.

    This ε is tighter than composition theorems.  Infinite if no ε suffices.

    Raises
    ------
    ParameterError
        If ``delta`` is below 1e-10, or there is no event.

    Notes
    -----
    Pessimistic estimates of dp-accounting.  Which pair of laws dominates a vector: section 5 of
    ``docs/proofs/gaussian-filter.md``.
    """
    check_share("delta", delta)
    if delta < SMALLEST_PLD_DELTA:
        raise ParameterError(f"delta ({delta}) must be at least {SMALLEST_PLD_DELTA} for privacy loss distributions")
    if not events:
        raise ParameterError("events must hold at least one event")
    composed = _composed(events)
    gap = sum(e.count * e.coordinates * rounded_gaussian_gap(e.scale) for e in events if not e.tabulated)
    epsilon = 0.0
    while True:
        left = delta - (1 + math.exp(min(epsilon, _LARGEST_EPSILON))) * gap
        if left < SMALLEST_PLD_DELTA / 10:
            return math.inf
        found = float(composed.get_epsilon_for_delta(left))
        if found <= epsilon:
            return epsilon
        epsilon = found * (1 + 1e-9) if gap > 0 else found


def _composed(events: Sequence[NoiseEvent]) -> Any:
    """Return the privacy loss distribution (of dp-accounting) of all events together.

    Normal laws stand for events that are not tabulated; `pld_epsilon` adds their distance to δ.
    """
    from dp_accounting.pld import privacy_loss_distribution as pld

    parts: list[Any] = []
    normal = 0.0  # sum of squared distances of the events that are charged as normal laws
    for event in events:
        if event.kind == "laplace":
            part = pld.from_discrete_laplace_mechanism(1 / event.scale, event.sensitivity, use_connect_dots=True)
            parts.append(part.self_compose(event.count))
        elif event.tabulated:
            part = pld.from_discrete_gaussian_mechanism(event.scale, 1, use_connect_dots=True)
            parts.append(part.self_compose(event.count * event.sensitivity))
        else:
            normal += event.count * event.sensitivity / (event.scale**2 - 1 / 12)
    if normal > 0:
        parts.append(pld.from_gaussian_mechanism(1 / math.sqrt(normal), 1))
    composed = parts[0]
    for part in parts[1:]:
        composed = composed.compose(part)
    return composed


def _mills(y: float) -> float:
    """Return Mills' ratio (1 - Φ(y)) / φ(y), computed so that large y lose no precision."""
    return math.sqrt(math.pi / 2) * float(erfcx(y / math.sqrt(2)))


def _least_epsilon(holds: Callable[[float], bool]) -> float:
    """Return the least ε for which the monotone condition ``holds``; infinite if it fails up to `_LARGEST_EPSILON`."""
    if not holds(_LARGEST_EPSILON):
        return math.inf
    return 0.0 if holds(0.0) else last_holding(holds, inside=_LARGEST_EPSILON, outside=0.0)


def _check_epsilon(epsilon: float) -> None:
    """Raise ParameterError unless ε is a number from 0 to `_LARGEST_EPSILON`."""
    check_number("epsilon", epsilon, least=0, most=_LARGEST_EPSILON)
