"""The number of rows: public where neighbours share it, else estimated under a stated part of the budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from synthdp.curator import Curator
from synthdp.domain.domain import domain_of
from synthdp.errors import ParameterError
from synthdp.measurements import Measurements
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.privacy.loss import ApproxDP, PrivacyLoss, PureDP
from synthdp.queries.linear import Total
from synthdp.queries.protocol import KeyStatistic


@dataclass(frozen=True, slots=True, eq=False)
class RowCount:
    """The number of rows where it is public or was estimated, with its error.

    Parameters
    ----------
    rows
        The exact public number, or an estimate; at least 1.
    stddev
        Standard deviation of the estimate; 0 where the number is public.
    measurements
        The noisy answers behind the number.
    """

    rows: float
    stddev: float
    measurements: tuple[Measurements, ...]


def count_rows(account: Curator, *, spend: PrivacyLoss, queries: Total | KeyStatistic | None = None) -> RowCount:
    """Return the number of rows: the exact one if it is public (``replace_one``), else a noisy measurement.

    Costs ``spend`` under ``add_remove``, and nothing under ``replace_one``.

    Parameters
    ----------
    account
        The curator that answers.
    spend
        The largest loss of the estimate.
    queries
        The statistic that counts the rows, by the cells of any domain or by record keys; default: one bin a column.
    """
    if account.adjacency.rows_are_public:
        return RowCount(float(max(1, account.rows)), 0.0, ())
    queries = queries or Total(domain_of(account.schema, bins=1))
    found = account.measure(queries, spend=spend, step="number of rows")
    return RowCount(max(1.0, float(found.answers[0])), found.stddev, (found,))


def count_rows_from(account: Curator, budget: BudgetAllocation, *, share: float) -> tuple[RowCount, BudgetAllocation]:
    """Return the number of rows, and the rest of a program's allocation after paying for it.

    Costs ``share`` of the whole budget under ``add_remove``, and nothing under ``replace_one``.
    """
    part, rest = budget.take(share)
    count = count_rows(account, spend=part.loss)
    return count, budget if account.adjacency.rows_are_public else rest


class RowTotal(NamedTuple):
    """The number of rows and what is left for the rest of a program."""

    found: RowCount
    rest: PrivacyLoss

    @property
    def rows(self) -> int:
        """Return the number of rows, at least 1: exact where it is public, else the noisy estimate."""
        return round(self.found.rows)

    @property
    def measurements(self) -> tuple[Measurements, ...]:
        """Return the noisy answers that the number of rows was estimated from."""
        return self.found.measurements


def row_total(account: Curator, queries: Total | KeyStatistic, *, share: float) -> RowTotal:
    """Return the number of rows, and what the account has left for other steps.

    Costs ``share`` of all that the account has left under ``add_remove``, and nothing under ``replace_one``.  Of an
    (epsilon, delta) it takes epsilon only, since Laplace noise needs no delta.  ParameterError is raised if nothing
    would be left.

    Parameters
    ----------
    account
        A curator whose whole budget belongs to the caller.
    queries
        The statistic that counts the rows.
    share
        0 < share < 1.
    """
    count = count_rows(account, spend=part_left(account, share=share), queries=queries)
    rest = account.remaining
    if rest is None:
        raise ParameterError("share must be below 1: part of the budget must be left for other steps")
    return RowTotal(count, rest)


def part_left(account: Curator, *, share: float) -> PrivacyLoss:
    """Return a share of what an account has left, as a loss to be spent on counts.

    Of an (epsilon, delta) it takes epsilon only, since Laplace noise needs no delta.  ParameterError is raised if
    nothing is left.
    """
    whole = account.remaining
    if whole is None:
        raise ParameterError("nothing is left of the budget of this curator or account: open it with a larger budget")
    return PureDP(whole.epsilon * share) if isinstance(whole, ApproxDP) else whole.fraction(share)
