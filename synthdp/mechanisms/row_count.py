"""The number of rows, public or estimated under a stated share of the budget."""

from __future__ import annotations

from typing import NamedTuple

from synthdp.curator.curator import Curator
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError
from synthdp.measurements import Measurements
from synthdp.privacy.loss import ApproxDP, PrivacyLoss, PureDP
from synthdp.queries.total import Total


class RowTotal(NamedTuple):
    """The number of rows and what is left for the rest of a program.

    Costs nothing: a record.
    """

    rows: int
    """At least 1; exact where it is public."""
    rest: PrivacyLoss
    measurements: tuple[Measurements, ...]


def row_total(account: Curator, domain: Domain, *, share: float) -> RowTotal:
    """Return the number of rows: for free where neighbours share it, else measured.

    Costs nothing under ``replace_one``, and ``share`` of all that the account has left under ``add_remove``.

    Parameters
    ----------
    account
        A curator whose whole budget belongs to the caller.
    domain
        Any domain of the table.
    share
        0 < share < 1.
    """
    whole = account.remaining
    if whole is None:
        raise ParameterError("the account must have something left")
    if account.adjacency.rows_are_public:
        return RowTotal(max(1, account.rows), whole, ())
    spend: PrivacyLoss = whole.fraction(share)
    if isinstance(whole, ApproxDP):  # Laplace noise: all of delta is left for the rest
        spend = PureDP(whole.epsilon * share)
    measured = account.measure(Total(domain), spend=spend, step="number of rows")
    rest = account.remaining
    if rest is None:
        raise ParameterError("share must leave something of the budget")
    return RowTotal(max(1, round(float(measured.answers[0]))), rest, (measured,))


def check_share(name: str, share: float) -> None:
    """Refuse a share that is no proper fraction.  Costs nothing: a check."""
    if not 0 < share < 1:
        raise ParameterError(f"{name} ({share}) must be above 0 and below 1")
