"""An answer to a sparse query, with how far it may be off; and the number of rows that fractions are taken of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from synthdp.checks import check_share
from synthdp.curator.curator import Curator
from synthdp.privacy.loss import ApproxDP, PrivacyLoss, PureDP
from synthdp.queries.sparse.key_counts import KeyTotal

CONFIDENCE = 0.95
"""Of every error bound that is not a standard error."""


class Origin(StrEnum):
    """Where an answer comes from."""

    MEASURED = "measured with noise"
    WEIGHTS = "public weights, checked against the table"
    UNCHECKED = "public weights, not checked: all updates are used up"
    RELEASED = "computed from a release"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseAnswer:
    """How many rows a sparse query counts.

    Parameters
    ----------
    count
        Estimated number of rows (or sum of the query's values over rows).
    total
        Number of all rows, public or estimated.
    stddev
        Standard error in rows where the answer's error is noise, else ``None``.
    error
        Bound on the error in rows that holds with probability 0.95, or ``None`` where there is none.
    origin
        Where it comes from.
    """

    count: float
    total: float
    stddev: float | None
    error: float | None
    origin: Origin

    @property
    def fraction(self) -> float:
        """The answer over the number of rows: the paper's Q(D)."""
        return self.count / self.total


def rows_of(
    curator: Curator, columns: tuple[str, ...], loss: PrivacyLoss, *, share: float
) -> tuple[float, PrivacyLoss]:
    """Return the number of rows, at least 1, and what is left of a loss.

    Costs nothing under ``replace_one``, and ``share`` of the loss under ``add_remove``.

    Parameters
    ----------
    curator
        Whom to ask.
    columns
        Any columns of the table.
    loss
        The whole loss of a program.
    share
        0 < share < 1.
    """
    check_share("total_share", share)
    if curator.adjacency.rows_are_public:
        return float(max(1, curator.rows)), loss
    if isinstance(loss, ApproxDP):  # Laplace noise: all of delta is left for the rest
        spend: PrivacyLoss = PureDP(loss.epsilon * share)
        rest: PrivacyLoss = ApproxDP(loss.epsilon * (1 - share), loss.delta)
    else:
        spend, rest = loss.fraction(share), loss.fraction(1 - share)
    measured = curator.measure(KeyTotal(columns), spend=spend, step="number of rows")
    return max(1.0, float(measured.answers[0])), rest
