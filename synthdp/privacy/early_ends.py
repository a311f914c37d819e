"""What a program costs that may be given up half-way, after what noise told it (docs/proofs/early-ends.md)."""

from __future__ import annotations

from dataclasses import dataclass

from synthdp.privacy.accounting import gdp_to_epsilon
from synthdp.privacy.loss import ROUNDING, ApproxDP, GaussianDP, PrivacyLoss, PureDP

EARLY_SHARE = 0.1
"""Share of a promised delta that is set aside for all early ends of a program together; the rest buys Gaussian noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyEnds:
    """Where an account may be given up, fixed before any row is read.

    Parameters
    ----------
    whole
        The loss that was reserved for the account.
    budget
        Of the account, which lies inside it.
    shares
        Of the budget: an account that was given up has spent at most one of these.
    delta
        Of ``whole``, set aside for all of them.
    """

    whole: PrivacyLoss
    budget: PrivacyLoss
    shares: tuple[float, ...] = ()
    delta: float = 0.0

    def cost(self, spent: float) -> PrivacyLoss:
        """Return what an account that spent at most a share of its budget, and never spends again, has cost.

        Only epsilon is less than was reserved: all of delta stays spent.

        Parameters
        ----------
        spent
            The share, 0 <= spent <= 1.
        """
        share = min((share for share in self.shares if spent <= share * (1 + ROUNDING)), default=None)
        match self.whole, self.budget:
            case _ if share is None:
                return self.whole
            case PureDP(epsilon), PureDP():
                return PureDP(epsilon * share)
            case ApproxDP(epsilon, delta), ApproxDP():
                return ApproxDP(epsilon * share, delta)
            case ApproxDP(epsilon, delta), GaussianDP() if self.delta > 0:
                less = gdp_to_epsilon(self.budget.fraction(share).mu, self.delta / len(self.shares))
                return ApproxDP(min(epsilon, less), delta)
        return self.whole
