"""A budget and what is left of it; what a program costs that may be given up half-way (docs/proofs/early-ends.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from synthdp.errors import BudgetExceededError, ParameterError
from synthdp.privacy.accounting import gdp_to_epsilon
from synthdp.privacy.calibration import account_inside
from synthdp.privacy.loss import (
    ROUNDING,
    ZCDP,
    ApproxDP,
    GaussianDP,
    PrivacyLoss,
    PureDP,
    Remaining,
    Spend,
    components,
    in_currency,
)


@dataclass(slots=True)
class Account:
    """One privacy budget and the losses already spent of it, in the kind of loss of the budget.

    The total is fixed beforehand, so spends may simply be added, even if later ones depend on earlier answers: by basic
    composition for `PureDP` and `ApproxDP`, by the zCDP filter (Feldman, Zrnic 2021) and the Gaussian filter (Smith,
    Thakurta 2022) for the others.

    Parameters
    ----------
    budget
        The whole.
    spent
        The numbers of each spend, in the budget's currency.
    """

    budget: PrivacyLoss
    spent: list[tuple[float, float]] = field(default_factory=list)

    @property
    def remaining(self) -> PrivacyLoss | None:
        """Return the loss that is left, or ``None`` if nothing is."""
        main, delta = components(self.budget)
        left = main - sum(part[0] for part in self.spent)
        left_delta = max(0.0, delta - sum(part[1] for part in self.spent))
        return None if left <= ROUNDING * main else self._loss(left, left_delta)

    @property
    def total(self) -> PrivacyLoss | None:
        """Return the loss that is spent, or ``None`` if nothing is."""
        main, delta = (math.fsum(part[i] for part in self.spent) for i in range(2))
        return self._loss(main, delta) if main > 0 else None

    def _loss(self, main: float, delta: float) -> PrivacyLoss:
        """Return the loss of the budget's kind from its `components`: ``main`` is epsilon, rho or mu^2.

        A delta of Gaussian DP within rounding of 0 is 0, since a sum of parts may miss 0 by a rounding error.
        """
        match self.budget:
            case PureDP():
                return PureDP(main)
            case ApproxDP():
                return ApproxDP(main, delta)
            case ZCDP():
                return ZCDP(main)
        return GaussianDP(main**0.5, delta if delta > ROUNDING * components(self.budget)[1] else 0.0)

    def resolve(self, spend: Spend) -> PrivacyLoss:
        """Return a spend as a loss of the budget's kind, such as zCDP; `Remaining` becomes all that is left.

        Raises
        ------
        BudgetExceededError
            If nothing is left.
        ParameterError
            If the spend cannot be stated in the budget's currency.
        """
        if isinstance(spend, Remaining):
            left = self.remaining
            if left is None:
                raise BudgetExceededError(
                    f"nothing is left of the budget of {self.budget}: start again with a larger budget"
                )
            return left
        return in_currency(spend, type(self.budget))

    def charge(self, spend: PrivacyLoss) -> None:
        """Take a loss from the budget, or raise BudgetExceededError and take nothing.

        The loss is recorded before it is compared with the budget.  So code that runs in between, such as a signal's
        handler, already sees it.

        Costs ``spend``, booked before any row is read.

        Raises
        ------
        BudgetExceededError
            If less is left.
        """
        cost = components(in_currency(spend, type(self.budget)))
        whole = components(self.budget)
        self.spent.append(cost)
        for i in range(2):
            if sum(part[i] for part in self.spent) > whole[i] * (1 + ROUNDING):
                self.spent.remove(cost)
                left = self.remaining
                raise BudgetExceededError(
                    f"asked to spend {spend}, but {'only ' + str(left) if left else 'nothing'} is left of {self.budget}: "
                    "ask for less, or start with a larger budget"
                )

    def refund(self, spend: PrivacyLoss) -> None:
        """Undo a charge for which no answer was given, because the ledger refused it or the computation failed."""
        self.spent.remove(components(in_currency(spend, type(self.budget))))


def check_loss(name: str, loss: object) -> PrivacyLoss:
    """Return ``loss`` if it is a privacy loss; raise ParameterError that names the parameter otherwise.

    Raises
    ------
    ParameterError
        Naming the parameter.
    """
    if not isinstance(loss, (PureDP, ApproxDP, ZCDP, GaussianDP)):
        raise ParameterError(f"{name} must be a PureDP, ApproxDP, ZCDP or GaussianDP, not {type(loss).__name__}")
    return loss


EARLY_SHARE = 0.1
"""Share of a promised delta for proving smaller losses of programs that stop early; the rest buys Gaussian noise.
Stopping early needs its own conversion from Gaussian DP to (epsilon, delta).  More lets a stop cost less, but leaves
more noise to a program that goes on.  A convention: it adds .3 to .7 % to that noise, from the conversion of epsilon .1 to
8 and delta 1e-9 to 1e-6.
"""

COUNT_SHARE = 0.02
"""Share of a budget for one count that other steps need: the number of rows, of a table or before a discovery, rows that
are out of domain, the mean weights of classes.  More makes the count more accurate.  A tolerance: all other answers have
1 % more Gaussian noise, which grows with 1 / sqrt(1 - COUNT_SHARE), and 2 % more Laplace noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyEnds:
    """The shares of an account's budget after which it may stop and pay less, fixed before any row is read.

    The shares are fixed beforehand because a stop that depends on answers needs a proof for each stop.

    Parameters
    ----------
    whole
        The loss that was reserved for the account.
    budget
        The budget that the account lies inside.
    shares
        Shares of the budget: an account that was given up has spent at most one of these.
    delta
        Part of the delta of ``whole`` that is set aside for all of them.
    """

    whole: PrivacyLoss
    budget: PrivacyLoss
    shares: tuple[float, ...] = ()
    delta: float = 0.0

    @classmethod
    def of(
        cls, whole: PrivacyLoss, currency: type[PrivacyLoss] | None, *, thresholds: float, shares: Sequence[float]
    ) -> EarlyEnds:
        """Return the budget and stopping shares of an account inside a loss.

        Parameters
        ----------
        whole
            The reserved loss.
        currency, thresholds
            Kind of the account's budget, and share of delta for thresholds; see
            `synthdp.privacy.calibration.account_inside`.
        shares
            Shares of the account's budget after which it may stop; a tenth of delta is set aside for them, if there are
            any.
        """
        aside = EARLY_SHARE * (len(shares) > 0)
        budget = account_inside(whole, currency, thresholds=thresholds, ends=aside)
        return cls(whole=whole, budget=budget, shares=tuple(shares), delta=aside * components(whole)[1])

    def cost(self, spent: float) -> PrivacyLoss:
        """Return the loss of an account that stops for good after the share ``spent`` of its budget.

        It is the loss of the least of ``shares`` that covers ``spent``.  Where none does, or there is no proof for the
        kind of loss, it is the whole.  Only epsilon is less than was reserved: all of delta stays spent.

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
