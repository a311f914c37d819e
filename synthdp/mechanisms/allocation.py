"""How a program divides its budget: parts that are taken from an allocation, and the noise that a share of it buys.

Arithmetic on public numbers.  The curator's account is the filter that enforces the budget; this is the program's plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

from synthdp.curator import Curator
from synthdp.errors import InternalError
from synthdp.privacy.calibration import calibrate
from synthdp.privacy.loss import ROUNDING, ZCDP, GaussianDP, PrivacyLoss, PureDP
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.norms import Norms, RecordBounds

Additive: TypeAlias = PureDP | ZCDP | GaussianDP
"""Privacy losses that add up in one number even if questions depend on earlier answers, so that a budget can be
divided.
"""


@dataclass(frozen=True, slots=True)
class BudgetAllocation:
    """A part of a program's budget, from which smaller parts are taken.

    An allocation never changes: `take` returns the part and the rest as two new ones.  All shares are fractions of the
    whole budget, so a share means the same loss and the same noise whoever holds it.

    Parameters
    ----------
    whole
        The budget of the program.
    adjacency
        The neighbouring relation.
    share
        The fraction of the whole that this allocation holds, 0 <= share <= 1.

    Raises
    ------
    InternalError
        If the losses of the budget do not add up in one number, or the share is out of range.

    Examples
    --------
    >>> import synthdp as sd
    >>> from synthdp.privacy.neighbors import Adjacency
    >>> part, rest = BudgetAllocation(sd.PureDP(1.0), Adjacency()).take(0.25)
    >>> print(part.loss, rest.loss, sep="; ")
    ε = 0.25; ε = 0.75
    """

    whole: Additive
    adjacency: Adjacency
    share: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.whole, (PureDP, ZCDP, GaussianDP)):
            raise InternalError(f"a budget must add up in one number to be allocated; {self.whole} does not")
        if not 0 <= self.share <= 1:
            raise InternalError(f"an allocation's share ({self.share}) must be at least 0 and at most 1")

    @classmethod
    def of(cls, account: Curator) -> BudgetAllocation:
        """Return an allocation that holds the whole budget of an account."""
        return cls(account.budget, account.adjacency)  # type: ignore[arg-type]  # checked above

    @property
    def loss(self) -> PrivacyLoss:
        """The privacy loss that this allocation pays for; raises InternalError for an empty one."""
        if self.share == 0:
            raise InternalError("an empty allocation pays for nothing")
        return self.whole.fraction(self.share)

    def take(self, share: float) -> tuple[BudgetAllocation, BudgetAllocation]:
        """Return a part that holds ``share`` of the whole budget, and the rest of this allocation.

        Parameters
        ----------
        share
            Above 0, and at most what this allocation holds; an excess within rounding is cut off.

        Raises
        ------
        InternalError
            If the allocation holds less.
        """
        if not 0 < share <= self.share + ROUNDING:
            raise InternalError(f"a share of {share} was asked of an allocation that holds {self.share}")
        part = min(float(share), self.share)
        return replace(self, share=part), replace(self, share=self.share - part)

    @property
    def exponent(self) -> float:
        """The p with stddev proportional to share^-p, for dividing budget: 1/2 for Gaussian noise, 1 for Laplace."""
        return 1.0 if isinstance(self.whole, PureDP) else 0.5

    def stddev(self, bounds: RecordBounds, share: float, *, k: int) -> float:
        """Return the standard deviation of the noise in k numbers, before they are measured with a share of the budget.

        Plans choose shares by this noise.

        Parameters
        ----------
        bounds
            Sensitivity of the numbers, in whole numbers.
        share
            0 < share <= 1; nothing is taken.
        k
            Number of answers.

        Returns
        -------
        The standard deviation, in the whole numbers of ``bounds``.
        """
        one = bounds.swap if self.adjacency.rows_are_public else bounds.one
        plan = calibrate(one.times(self.adjacency.rows), self.whole.fraction(share), k=k)
        return plan.noise.stddev / plan.resolution

    def table_stddev(self, share: float) -> float:
        """Return the stddev of a cell's noise, in rows, in one marginal measured with a share of the whole budget.

        Plans compare it with the number of rows in a cell.
        """
        return _table_stddev(self, share)

    def shares_of_least_noise(self, share: float, weights: Sequence[float]) -> list[float]:
        """Divide a share of the whole budget among tables so that the sum of their weights times stddevs is least.

        Minimising sum a_c share_c^-p with a fixed sum of shares gives share_c proportional to a_c^(1 / (1 + p)): the
        2/3 power for Gaussian noise, the square root for Laplace noise.

        Parameters
        ----------
        share
            Share of the budget for all tables; nothing is taken from the allocation.
        weights
            One a table, > 0.

        Returns
        -------
        The share of each table; they add up to ``share``.
        """
        wanted = [float(weight ** (1 / (1 + self.exponent))) for weight in weights]
        each = share / sum(wanted)
        return [part * each for part in wanted]


_ONE_TABLE = RecordBounds(Norms(1, 1, 1), Norms(2, 2, 1))
"""Sensitivity of one marginal's cells: one record changes one cell by 1, a swap of two records changes two."""


@lru_cache(maxsize=2**12)
def _table_stddev(budget: BudgetAllocation, share: float) -> float:
    """Return the stddev of a cell's noise, in rows, in one marginal that costs ``share`` of the whole budget.

    The result is cached, since `BudgetAllocation.table_stddev` asks it for every pair of columns with one share.
    """
    return budget.stddev(_ONE_TABLE, share, k=2**20)
