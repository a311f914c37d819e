"""What a program costs that may be given up half-way, after what noise told it (docs/proofs/early-ends.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from synthdp.privacy.accounting import gdp_to_epsilon
from synthdp.privacy.calibration import account_inside
from synthdp.privacy.loss import ROUNDING, ApproxDP, GaussianDP, PrivacyLoss, PureDP, components

EARLY_SHARE = 0.1
"""Share of a promised delta that is set aside for all early ends of a program together; the rest buys Gaussian noise."""

COUNT_SHARE = 0.03
"""Share of a discovery that the number of rows costs, where it is private: after it, the discovery may be given up."""


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

    @classmethod
    def of(
        cls, whole: PrivacyLoss, currency: type[PrivacyLoss] | None, *, thresholds: float, shares: Sequence[float]
    ) -> EarlyEnds:
        """Return an account inside a loss that may be given up after some shares of its budget.

        Parameters
        ----------
        whole
            What is reserved.
        currency, thresholds
            Of the account; see `synthdp.privacy.calibration.account_inside`.
        shares
            As above; a tenth of delta is set aside for them, if there are any.
        """
        aside = EARLY_SHARE * (len(shares) > 0)
        budget = account_inside(whole, currency, thresholds=thresholds, ends=aside)
        return cls(whole=whole, budget=budget, shares=tuple(shares), delta=aside * components(whole)[1])

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
