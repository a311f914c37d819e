"""The choice of a mechanism for a table, by public knowledge and, where it matters, a noisy number of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from synthdp.curator import Curator
from synthdp.mechanisms.adaptive.adaptive_marginals import AdaptiveMarginals
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.mechanisms.column_histograms import OneWayTree
from synthdp.mechanisms.mechanism import HasPrivacyCost, Mechanism
from synthdp.mechanisms.preflight import salvaged
from synthdp.mechanisms.public_hooks import NothingPublic, Public
from synthdp.mechanisms.row_count import count_rows
from synthdp.mechanisms.workload import Workload, WorkloadSpec
from synthdp.privacy.budget import COUNT_SHARE
from synthdp.privacy.calibration import gaussian_account
from synthdp.privacy.loss import ApproxDP, GaussianDP, PrivacyLoss, PureDP, Remaining, Spend
from synthdp.privacy.neighbors import Adjacency
from synthdp.progress import ProgressCallback, silent
from synthdp.randomness import RandomState, generator
from synthdp.registered import found_at, mechanisms
from synthdp.release import Release
from synthdp.sampling.structural_zeros import rules_between
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.schema import Schema

SMOOTH_SIGNAL = 50.0
"""Least number of rows, in stddevs of the noise in a cell of a one-way marginal, at which histograms are chosen.  With
fewer rows, smooth synthesis (moments) is chosen.  A larger value chooses moments for larger tables, too.  Measured on
three tables of numbers (docs/decisions/2026-11-21-automatic-choice.md).
"""


@dataclass(frozen=True, slots=True)
class Automatic(HasPrivacyCost):
    """Adaptive marginals, or smooth synthesis for tables of numbers that are small for their budget.

    Costs ``spend``, fixed before any row is read, for the curator's neighbours.

    Parameters
    ----------
    workload, target, one_ways, places, public, on_progress
        As for `AdaptiveMarginals`.
    spend
        The whole cost.
    """

    gaussian: ClassVar[bool] = True
    keeps_classes: ClassVar[bool] = True
    workload: Workload | Mapping[Any, float] | WorkloadSpec | None = None
    target: str | None = None
    spend: Spend = Remaining()
    one_ways: OneWayTree = field(default_factory=OneWayTree)
    places: str | None = None
    public: Public = field(default_factory=NothingPublic)
    on_progress: ProgressCallback = silent

    def output_schema(self, schema: Schema) -> Schema:
        """Return the schema unchanged, as all columns are released.

        Raise the errors that `AdaptiveMarginals` raises.
        """
        return self._adaptive(self.spend).output_schema(schema)

    def prepare(self, curator: Curator) -> None:
        """Raise an error, before anything is spent, unless each mechanism that may be chosen can handle the table.

        Costs nothing.
        """
        self._adaptive(self.spend).prepare(curator)
        if may_be_smooth(curator.schema):
            self._smooth(self.spend).prepare(curator)

    @salvaged(prepares=False)
    def release(self, curator: Curator, *, random_state: RandomState = None) -> Release[SyntheticModel]:
        """Choose a mechanism, run it on the curator, and return a model to sample.

        Costs ``spend``, for the curator's neighbours.
        """
        loss = curator.cost(self.spend)
        rng = generator(random_state)
        adaptive = self._adaptive(loss)
        alone = isinstance(self.public, NothingPublic) and self.places is None  # smooth synthesis takes neither
        if not (alone and may_be_smooth(curator.schema) and isinstance(loss, (PureDP, ApproxDP, GaussianDP))):
            return adaptive.release(curator, random_state=rng)  # which prepares
        # What may be refused is refused before the number of rows is paid for.
        adaptive.output_schema(curator.schema)
        if not curator.charges:
            self.prepare(curator)
        account = curator.open_account(loss, currency=type(loss))
        count = count_rows(account, spend=loss.fraction(COUNT_SHARE))
        left: Spend = Remaining() if count.measurements else loss
        smooth = count.rows < SMOOTH_SIGNAL * one_way_noise(account.schema, loss, account.adjacency)
        chosen: Mechanism[SyntheticModel] = replace(adaptive, spend=left)
        if smooth:
            chosen = self._smooth(left)
        release = chosen.release(account, random_state=rng)
        return replace(release, loss=loss)  # the number of rows was paid for too

    def _smooth(self, spend: Spend) -> Any:
        """Return smooth synthesis, the mechanism for numeric tables that are small for their budget."""
        return found_at(mechanisms()["smooth_synthesis"].place)(spend=spend)

    def _adaptive(self, spend: Spend) -> AdaptiveMarginals:
        """Return `AdaptiveMarginals` with these settings, the mechanism for all tables that `_smooth` is not for."""
        return AdaptiveMarginals(
            self.workload, target=self.target, spend=spend, one_ways=self.one_ways, places=self.places, public=self.public,
            on_progress=self.on_progress,
        )  # fmt: skip


def may_be_smooth(schema: Schema) -> bool:
    """Return whether smooth synthesis can make this table: two or more columns, only numbers, no survey weight, no rules.

    Only then does `Automatic` choose, by a noisy number of rows that costs budget.
    """
    numbers = all(column.quantity == "number" and not column.class_ends() for column in schema.values())
    return numbers and len(schema) > 1 and not rules_between(schema)


def one_way_noise(schema: Schema, loss: PrivacyLoss, adjacency: Adjacency) -> float:
    """Return the stddev of a cell's noise, in rows, if the whole budget went to one histogram per column.

    The choice compares the number of rows with it: below `SMOOTH_SIGNAL` times it a table of numbers is small for its
    budget.
    """
    budget = gaussian_account(loss) if isinstance(loss, ApproxDP) and loss.delta > 0 else loss
    budget = PureDP(budget.epsilon) if isinstance(budget, ApproxDP) else budget
    return BudgetAllocation(budget, adjacency).table_stddev(1 / len(schema))
