"""What is agreed before any row of a series is read."""

from __future__ import annotations

from dataclasses import dataclass

from synthdp.checks import check_number, whole
from synthdp.errors import ParameterError
from synthdp.privacy.calibration import gaussian_account
from synthdp.privacy.loss import ApproxDP
from synthdp.privacy.neighbors import Adjacency


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesTerms:
    """The terms of a series of releases, fixed at its first period: whole loss, neighbours, numbers of periods.

    Parameters
    ----------
    loss
        The cost of the whole series.
    adjacency
        Whose rows of one period are protected, and how many are used.
    periods
        How many periods there are.
    most_periods
        In how many of them a unit's rows are used.
    window, bins
        Of a panel: how many periods in a row are counted together, and into how many cells a column of numbers falls.
    """

    loss: ApproxDP
    adjacency: Adjacency
    periods: int
    most_periods: int = 1
    window: int | None = None
    bins: int = 4

    def __post_init__(self) -> None:
        whole("periods", self.periods, least=1)
        whole("max_periods_per_unit", self.most_periods, least=1, most=self.periods)
        check_number("delta", self.loss.delta, above=0)
        if self.most_periods > 1 and self.adjacency.unit is None:
            raise ParameterError(
                "max_periods_per_unit above 1 needs a privacy_unit: give privacy_unit, the name of a column"
            )
        if self.most_periods > 1 and self.adjacency.rows_are_public:
            raise ParameterError("with max_periods_per_unit above 1, neighbors must be 'add_remove'")

        if self.window is not None:
            whole("window", self.window, least=1, most=self.periods)
            if self.adjacency.unit is None or self.adjacency.rows_are_public or self.adjacency.rows != 1:
                raise ParameterError(
                    "a panel needs a privacy_unit with one row in each period, and neighbors='add_remove'"
                )
            whole("max_periods_per_unit", self.most_periods, least=self.periods)

    @property
    def mu(self) -> float:
        """The whole loss as the mu of Gaussian DP, in which the costs of adaptive periods add up as squares."""
        return gaussian_account(self.loss).mu
