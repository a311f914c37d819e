"""A program's view of its budget: which part buys which noise.  Post-processing of public numbers."""

from __future__ import annotations

from dataclasses import dataclass

from synthdp.errors import ParameterError
from synthdp.privacy.calibration import calibrate
from synthdp.privacy.loss import ZCDP, GaussianDP, PrivacyLoss, PureDP
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.protocol import Norms, RecordBounds


@dataclass(frozen=True, slots=True)
class Purse:
    """A budget whose parts add up, and the noise that each part buys.

    Costs nothing: arithmetic.

    Parameters
    ----------
    budget
        In a currency that adds up in one number: `PureDP`, `ZCDP` or `GaussianDP`.
    adjacency
        The neighbours.
    """

    budget: PureDP | ZCDP | GaussianDP
    adjacency: Adjacency

    def __post_init__(self) -> None:
        if not isinstance(self.budget, (PureDP, ZCDP, GaussianDP)):
            raise ParameterError(f"a program needs an account in one currency, not {self.budget}")

    @property
    def exponent(self) -> float:
        """The p in: stddev is proportional to share^-p; 1/2 for Gaussian noise, 1 for Laplace noise.

        Costs nothing: arithmetic.
        """
        return 1.0 if isinstance(self.budget, PureDP) else 0.5

    def part(self, share: float) -> PrivacyLoss:
        """Return a share of the budget as a loss.  Costs nothing: arithmetic."""
        return self.budget.fraction(share)

    def table_stddev(self, share: float) -> float:
        """Return the noise in a cell of one marginal that is measured with a share.  Costs nothing: arithmetic."""
        return self.stddev(RecordBounds(Norms(1, 1, 1), Norms(2, 2, 1)), share, k=2**20)

    def scores_stddev(self, share: float, k: int) -> float:
        """Return the noise in each of k scores of sensitivity 1 measured with a share.  Costs nothing: arithmetic."""
        return self.stddev(RecordBounds.of(Norms(k, k, 1)), share, k=k)

    def stddev(self, bounds: RecordBounds, share: float, *, k: int) -> float:
        """Return the noise in each of k numbers, in units of the statistic.  Costs nothing: arithmetic."""
        one = bounds.swap if self.adjacency.rows_are_public else bounds.one
        plan = calibrate(one.times(self.adjacency.rows), self.part(share), k=k)
        return plan.noise.stddev / plan.resolution

    def share_for(self, weight: float) -> float:
        """Return the unnormalised best share of a table whose error is weight times its stddev.

        Minimising sum a_c share_c^-p with a fixed sum of shares gives share_c proportional to a_c^(1 / (1 + p)): the
        2/3 power for Gaussian noise, the square root for Laplace noise.

        Costs nothing: arithmetic.
        """
        return float(weight ** (1 / (1 + self.exponent)))
