"""Privacy losses as values: how well two neighbouring tables can be distinguished.

An epsilon alone is `PureDP`; with a delta it is `ApproxDP`.  `ZCDP` and `GaussianDP` are the currencies of programs
that ask many questions with Gaussian noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from synthdp.checks import check_number
from synthdp.errors import ParameterError

ROUNDING = 1e-12
"""Relative tolerance when losses are added and compared with a budget: guarantees hold up to this rounding."""


LARGE_EPSILON = 5.0
"""Epsilon above which the guarantee is weak and the user is warned.  At 5 an attacker's guess from 50:50 odds may be
right with a probability of .993.  A convention.
"""


def best_odds(epsilon: float, delta: float = 0.0) -> float:
    """Return an attacker's largest probability of a right guess whether a unit is in the table, from 50:50 prior odds.

    The probability is e^epsilon / (1 + e^epsilon) + delta, at most 1; receipts show it because it needs no definition.
    """
    return min(1.0, 1 / (1 + math.exp(-epsilon)) + delta)


def _positive(name: str, value: float) -> float:
    """Return a positive number as a float; raise ParameterError for any other."""
    check_number(name, value, above=0)
    return float(value)


@dataclass(frozen=True, slots=True)
class PureDP:
    """epsilon-differential privacy (Dwork, McSherry, Nissim, Smith 2006).

    Parameters
    ----------
    epsilon
        Bound on the log-ratio of the probabilities of any event; > 0.

    Examples
    --------
    >>> import synthdp as sd
    >>> print(sd.PureDP(1.0).fraction(0.25))
    ε = 0.25
    """

    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _positive("epsilon", self.epsilon))

    def __str__(self) -> str:
        return f"ε = {self.epsilon:.6g}"

    def fraction(self, share: float) -> PureDP:
        """Return the loss of a share of this budget, 0 < share <= 1; shares that sum to 1 compose to the whole."""
        return PureDP(self.epsilon * _share(share))

    def split(self, k: int) -> PureDP:
        """Return the loss of each of k equal parts that compose to the whole."""
        return self.fraction(1 / k)


@dataclass(frozen=True, slots=True)
class ApproxDP:
    """(epsilon, delta)-differential privacy.

    Parameters
    ----------
    epsilon
        As in `PureDP`.
    delta
        Slack in probability, 0 <= delta < 1; far below 1 / rows to mean anything.

    Examples
    --------
    >>> import synthdp as sd
    >>> print(sd.ApproxDP(1.0, 1e-6))
    ε = 1, δ = 1e-06
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _positive("epsilon", self.epsilon))
        delta = self.delta
        check_number("delta", delta, least=0, below=1)
        object.__setattr__(self, "delta", float(delta))

    def __str__(self) -> str:
        return f"ε = {self.epsilon:.6g}, δ = {self.delta:.3g}"

    def fraction(self, share: float) -> ApproxDP:
        """Return the loss of a share of this budget, 0 < share <= 1, by basic composition of epsilon and of delta."""
        return ApproxDP(self.epsilon * _share(share), self.delta * _share(share))

    def split(self, k: int) -> ApproxDP:
        """Return the loss of each of k equal parts that compose to the whole, by basic composition."""
        return self.fraction(1 / k)


@dataclass(frozen=True, slots=True)
class ZCDP:
    """rho-zero-concentrated differential privacy (Bun, Steinke 2016).

    Parameters
    ----------
    rho
        Renyi divergence per order; > 0.  Gaussian noise of stddev sigma costs Delta^2 / (2 sigma^2).

    Examples
    --------
    >>> import synthdp as sd
    >>> print(sd.ZCDP(0.5))
    ρ = 0.5
    """

    rho: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", _positive("rho", self.rho))

    def __str__(self) -> str:
        return f"ρ = {self.rho:.6g}"

    def fraction(self, share: float) -> ZCDP:
        """Return the loss of a share of this budget, 0 < share <= 1; rho adds up under composition."""
        return ZCDP(self.rho * _share(share))

    def split(self, k: int) -> ZCDP:
        """Return the loss of each of k equal parts that compose to the whole."""
        return self.fraction(1 / k)


@dataclass(frozen=True, slots=True)
class GaussianDP:
    """mu-Gaussian differential privacy (Dong, Roth, Su 2022): as hard as telling N(0, 1) from N(mu, 1).

    Parameters
    ----------
    mu
        Distance of the two normal laws; > 0.  mu^2 adds up, also when questions depend on earlier answers
        (Smith, Thakurta 2022).
    delta
        Probability that a threshold lets pass what only one of two neighbours holds, 0 <= delta < 1; it adds up too
        (docs/proofs/thresholded-gaussian.md).

    Examples
    --------
    >>> import synthdp as sd
    >>> print(sd.GaussianDP(0.5))
    μ = 0.5
    """

    mu: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", _positive("mu", self.mu))
        check_number("delta", self.delta, least=0, below=1)
        object.__setattr__(self, "delta", float(self.delta))

    def __str__(self) -> str:
        return f"μ = {self.mu:.6g}" + (f", δ = {self.delta:.3g}" if self.delta > 0 else "")

    def fraction(self, share: float) -> GaussianDP:
        """Return the loss of a share of this budget, 0 < share <= 1, as a share of mu^2 and of delta, which add up."""
        return GaussianDP(self.mu * math.sqrt(_share(share)), self.delta * _share(share))

    def split(self, k: int) -> GaussianDP:
        """Return the loss of each of k equal parts that compose to the whole: mu / sqrt(k) and delta / k."""
        return self.fraction(1 / k)


PrivacyLoss: TypeAlias = PureDP | ApproxDP | ZCDP | GaussianDP
"""Any kind of privacy loss, as a budget or as the cost of one answer."""


@dataclass(frozen=True, slots=True)
class Remaining:
    """A placeholder spend for all that is left of a budget: the default cost of a mechanism."""

    def __str__(self) -> str:
        return "all that the curator has left"


Spend: TypeAlias = PrivacyLoss | Remaining
"""What a caller may say that a question may cost: a loss, or all that is left of the budget."""


def loss_of(epsilon: float, delta: float = 0.0) -> PureDP | ApproxDP:
    """Return the privacy loss of a user's epsilon and delta: `PureDP` for delta = 0, else `ApproxDP`."""
    approx = ApproxDP(epsilon, delta)
    return approx if approx.delta > 0 else PureDP(approx.epsilon)


def components(loss: PrivacyLoss) -> tuple[float, float]:
    """Return the two numbers of a loss that add up under composition: epsilon, rho or mu^2, and delta or 0."""
    match loss:
        case PureDP(epsilon):
            return epsilon, 0.0
        case ApproxDP(epsilon, delta):
            return epsilon, delta
        case ZCDP(rho):
            return rho, 0.0
    return loss.mu * loss.mu, loss.delta


def combined(losses: Sequence[PrivacyLoss]) -> PrivacyLoss:
    """Return the total of one or more losses of one kind under composition.

    Raises
    ------
    ParameterError
        If they are of different currencies.
    """
    kinds = {type(loss) for loss in losses}
    if len(kinds) != 1:
        raise ParameterError(
            "losses must all be of the same kind: all PureDP, all ApproxDP, all ZCDP or all GaussianDP"
        )
    main = sum(components(loss)[0] for loss in losses)
    match losses[0]:
        case PureDP():
            return PureDP(main)
        case ApproxDP():
            return ApproxDP(main, sum(components(loss)[1] for loss in losses))
        case ZCDP():
            return ZCDP(main)
    return GaussianDP(math.sqrt(main), sum(components(loss)[1] for loss in losses))


def in_currency(loss: PrivacyLoss, currency: type[PrivacyLoss]) -> PrivacyLoss:
    """Return a loss converted to another kind of loss, an upper bound, where a standard rule exists.

    The rules are pure to approximate (delta 0) and back, and pure to zCDP (epsilon^2 / 2; Bun, Steinke 2016,
    Proposition 1.4).

    Raises
    ------
    ParameterError
        If the loss cannot be stated in that currency.
    """
    if isinstance(loss, currency):
        return loss
    if isinstance(loss, ApproxDP) and loss.delta == 0:
        loss = PureDP(loss.epsilon)
        if currency is PureDP:
            return loss
    if isinstance(loss, PureDP) and currency is ApproxDP:
        return ApproxDP(loss.epsilon, 0.0)
    if isinstance(loss, PureDP) and currency is ZCDP:
        return ZCDP(loss.epsilon**2 / 2)
    raise ParameterError(
        f"a loss of {loss} cannot be charged to a budget in {currency.__name__}: give the loss as {currency.__name__}"
    )


def to_document(loss: PrivacyLoss) -> dict[str, Any]:
    """Return the loss as a JSON document, to be saved with a receipt or in a ledger."""
    match loss:
        case PureDP(epsilon):
            return {"kind": "PureDP", "epsilon": epsilon}
        case ApproxDP(epsilon, delta):
            return {"kind": "ApproxDP", "epsilon": epsilon, "delta": delta}
        case ZCDP(rho):
            return {"kind": "ZCDP", "rho": rho}
    return {"kind": "GaussianDP", "mu": loss.mu} | ({"delta": loss.delta} if loss.delta > 0 else {})


def from_document(document: dict[str, Any]) -> PrivacyLoss:
    """Return the privacy loss that a JSON document describes; raise ParameterError for an unknown kind."""
    kinds: dict[str, type[PrivacyLoss]] = {kind.__name__: kind for kind in (PureDP, ApproxDP, ZCDP, GaussianDP)}
    fields = {key: value for key, value in document.items() if key != "kind"}
    try:
        return kinds[document["kind"]](**fields)
    except (KeyError, TypeError):
        raise ParameterError("the file is damaged, so load another copy: a privacy loss in it cannot be read") from None


def _share(share: float) -> float:
    """Return a share of a budget as a float of at most 1; raise ParameterError unless it is above 0 and at most 1."""
    if not 0 < share <= 1 + ROUNDING:
        raise ParameterError(f"the share of a budget ({share!r}) must be above 0 and at most 1")
    return min(float(share), 1.0)
