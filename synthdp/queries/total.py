"""The number of rows, as a statistic: private under add-or-remove, constant under replace-one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from synthdp.arrays import Codes, Features, Totals
from synthdp.codec import file_form
from synthdp.domain.domain import Domain
from synthdp.queries.linear import LinearFamily
from synthdp.queries.norms import Norms, RecordBounds


@file_form("Total", short="total")
@dataclass(frozen=True, slots=True, eq=False)
class Total(LinearFamily):
    """The number of rows.

    Parameters
    ----------
    domain
        Any domain of the table; its cells are not looked at.
    """

    domain: Domain

    @property
    def k(self) -> int:
        """One answer."""
        return 1

    @property
    def bounds(self) -> RecordBounds:
        """One row more or less; none when a row is replaced (stated as 1, since noise needs a positive scale)."""
        return RecordBounds(Norms(1, 1, 1), Norms(1, 1, 1))

    def features(self, codes: Codes) -> Features:
        """Return 1 for every row, (n, 1)."""
        return np.ones((len(codes), 1), np.int64)

    def sums(self, codes: Codes) -> Totals:
        """Return the number of rows."""
        return np.array([len(codes)], np.int64)
