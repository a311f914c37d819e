"""Sparse multiplicative weights as an iterative database construction (Blum, Roth 2011, section 3): public arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from synthdp.errors import MechanismFailure
from synthdp.queries.supports import Support
from synthdp.works.sparse.bounds import paper_update_bound, projection_update_bound
from synthdp.works.sparse.model import WeightTarget, replay, touched
from synthdp.works.sparse.sparse_table import SparseTable

Update = Literal["projection", "paper"]


@dataclass(slots=True, kw_only=True)
class SparseConstruction:
    """Weights on the records that were asked about; see `IterativeConstruction`.

    Parameters
    ----------
    table
        The weights and the slots that are left.
    total
        Number of rows.
    alpha
        Of the paper's step exp(+-alpha / 2).
    update_rule
        As ``update`` of `SparseWeights`.
    sweeps
        For the projection: how many times round all noisy answers.
    measured
        The noisy answers so far.
    """

    table: SparseTable
    total: float
    alpha: float
    update_rule: Update = "projection"
    sweeps: int = 10
    measured: list[WeightTarget] = field(default_factory=list)

    def guess(self, query: Support) -> float:
        """Return the sum that the weights expect; a record that nobody asked about has the weight of an untouched slot."""
        return self.table.expectation(query) * self.total

    def check(self, query: Support) -> None:
        """Refuse a query for which there are not enough slots.

        Raises
        ------
        MechanismFailure
            The paper's FAILURE.
        """
        if int((self.table.places(query) < 0).sum()) > self.table.untouched:
            raise MechanismFailure(
                f"the query needs more new slots than are left of {self.table.slots}: raise slots when opening a session"
            )

    def update(self, query: Support, answer: float, *, stddev: float) -> None:  # noqa: ARG002
        """Give the query's records slots, and move the weights: by the paper's step, or onto all noisy answers in turn."""
        guess = self.guess(query) / self.total
        latest = touched(self.table, query, target=answer / self.total)
        self.measured.append(latest)
        if self.update_rule == "projection":
            replay(self.table, self.measured, sweeps=self.sweeps, rows=self.total)
        else:
            sign = 1.0 if latest.target > guess else -1.0
            self.table.tilt(latest.place, latest.values, by=sign * self.alpha / 2)

    def update_bound(self, alpha: float) -> float:
        """Return B(alpha): the paper's for its step; for projections that of one projection an update, on exact answers."""
        if self.update_rule == "projection":
            return projection_update_bound(self.table.slots, alpha=alpha)
        return paper_update_bound(self.table.slots, alpha=alpha)
