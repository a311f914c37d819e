"""An answer to a sparse query, with how far it may be off."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

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
