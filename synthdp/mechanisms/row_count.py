"""The number of rows: public where neighbours share it, else estimated under a stated part of the budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from synthdp.arrays import FloatArray
from synthdp.curator.curator import Curator
from synthdp.domain.domain import Domain, domain_of
from synthdp.errors import ParameterError
from synthdp.measurements import Measurements, beyond_noise
from synthdp.mechanisms.budget import BudgetAllocation
from synthdp.privacy.loss import ApproxDP, PrivacyLoss, PureDP
from synthdp.queries.linear import Total
from synthdp.queries.protocol import KeyStatistic
from synthdp.queries.trigonometric import Indicator, Term


@dataclass(frozen=True, slots=True, eq=False)
class RowCount:
    """How many rows there are, as far as the public may know.

    Parameters
    ----------
    rows
        The exact public number, or an estimate; at least 1.
    stddev
        Of the estimate; 0 where the number is public.
    measurements
        What was measured for it.
    """

    rows: float
    stddev: float
    measurements: tuple[Measurements, ...]


def count_rows(account: Curator, *, spend: PrivacyLoss, queries: Total | KeyStatistic | None = None) -> RowCount:
    """Return the number of rows: exact if it is public, else measured.

    Costs ``spend`` under ``add_remove``, and nothing under ``replace_one``.

    Parameters
    ----------
    account
        Whom to ask.
    spend
        What the estimate may cost.
    queries
        What counts the rows: by the cells of any domain, or by record keys; default: one bin a column.
    """
    if account.adjacency.rows_are_public:
        return RowCount(float(max(1, account.rows)), 0.0, ())
    queries = queries or Total(domain_of(account.schema, bins=1))
    found = account.measure(queries, spend=spend, step="number of rows")
    return RowCount(max(1.0, float(found.answers[0])), found.stddev, (found,))


def count_rows_from(account: Curator, budget: BudgetAllocation, *, share: float) -> tuple[RowCount, BudgetAllocation]:
    """Return the number of rows, and what it leaves of a program's allocation.

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
        """At least 1; exact where it is public."""
        return round(self.found.rows)

    @property
    def measurements(self) -> tuple[Measurements, ...]:
        """What was measured for it."""
        return self.found.measurements


def row_total(account: Curator, queries: Total | KeyStatistic, *, share: float) -> RowTotal:
    """Return the number of rows, and what the account has left.

    Costs ``share`` of all that the account has left under ``add_remove``, and nothing under ``replace_one``.  Of an
    (epsilon, delta) it takes epsilon only, since Laplace noise needs no delta.

    Parameters
    ----------
    account
        A curator whose whole budget belongs to the caller.
    queries
        What counts the rows.
    share
        0 < share < 1.
    """
    count = count_rows(account, spend=part_left(account, share=share), queries=queries)
    rest = account.remaining
    if rest is None:
        raise ParameterError("share must leave something of the budget")
    return RowTotal(count, rest)


def part_left(account: Curator, *, share: float) -> PrivacyLoss:
    """Return a share of what an account has left, to be spent on counts.

    Of an (epsilon, delta) it takes epsilon only, since Laplace noise needs no delta.
    """
    whole = account.remaining
    if whole is None:
        raise ParameterError("the account must have something left")
    return PureDP(whole.epsilon * share) if isinstance(whole, ApproxDP) else whole.fraction(share)


def misfit_cells(domain: Domain) -> tuple[Indicator | None, ...]:
    """Return for each column the indicator of its misfits, ``None`` where all values fit."""
    found: list[Indicator | None] = []
    for j, axis in enumerate(domain.axes):
        cells = np.flatnonzero(~axis.releasable)
        found.append(Indicator(j, int(cells[0])) if len(cells) else None)
    return tuple(found)


def misfit_terms(domain: Domain, *, order: int) -> tuple[Term, ...]:
    """Return indicators of the misfits of each column and, for ``order`` 2, of each two columns at once."""
    cells = [cell for cell in misfit_cells(domain) if cell is not None]
    singles: list[Term] = [(cell,) for cell in cells]
    pairs: list[Term] = [(a, b) for i, a in enumerate(cells) for b in cells[i + 1 :]] if order > 1 else []
    return (*singles, *pairs)


def clear_shares(domain: Domain, terms: Sequence[Term], averages: FloatArray, stddev: float) -> FloatArray:
    """Return the share of misfits in each column, (d,), from the averages of its terms; 0 where noise explains it."""
    shares = np.zeros(len(domain))
    known = {term: float(average) for term, average in zip(terms, averages, strict=True)}
    asked = [cell for cell in misfit_cells(domain) if cell is not None and (cell,) in known]
    bound = beyond_noise(stddev, max(1, len(asked)))
    for cell in asked:
        share = known[(cell,)]
        shares[cell.column] = min(share, 1.0) if share > bound else 0.0
    return shares
