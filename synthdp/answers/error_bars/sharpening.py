"""How much stronger than in the model a measured relation is: noise that a fit takes for rows lies between the columns.

Compares a fitted table with the noisy one that it was fitted to.  Where one column nearly follows from another, most cells
of their table are empty; the fit puts a few rows into each, since noise cannot be told from them one by one.  All together
it can: what the noisy table has in the direction of the fitted one is known well.  Reads nothing private.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from synthdp.arrays import FloatArray

EXPONENTS = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0)
"""Powers, beside the first, of a table relative to independence that are tried."""

SWEEPS = 6
"""Times that a table is raked to its margins."""

SLIGHT = 0.005
"""Sharpening, as a part of the distance from independence, that is left alone."""


@dataclass(frozen=True, slots=True, eq=False)
class Sharpening:
    """Tables of two columns whose relation is stronger than in the model, and how well noisy counts go with each.

    Parameters
    ----------
    changes
        (k, cells of the first column, of the second) relative changes of the model's cells; the first is none.
    lacking
        (k,) what the noisy table has more of each table's distance from independence, in standard deviations; falling.
    """

    changes: FloatArray
    lacking: FloatArray

    @classmethod
    def of(cls, fitted: FloatArray, noisy: FloatArray, stddev: float) -> Sharpening | None:
        """Return those of a fitted table and the noisy one; None where the relation is no stronger in the noisy one.

        With A the table of independent columns and t the model's relative to it, the tables are A t^(1 + e), raked to
        their margins.  Of a table T, lacking is <noisy - T, T - A> / (stddev |T - A|).
        """
        rows, columns = fitted.sum(axis=1), fitted.sum(axis=0)
        alone = np.outer(rows, columns) / max(float(fitted.sum()), 1e-300)
        ratio = np.divide(fitted, alone, out=np.zeros(fitted.shape), where=alone > 0)
        changes, lacking = [], []
        for exponent in EXPONENTS:
            table = fitted * ratio**exponent
            for _ in range(SWEEPS if exponent else 0):
                table *= _parts(rows, table.sum(axis=1))[:, None]
                table *= _parts(columns, table.sum(axis=0))
            apart = table - alone
            size = float(np.sqrt((apart**2).sum()))
            if size == 0:
                return None
            lacking.append(float(((noisy - table) * apart).sum()) / (stddev * size))
            changes.append(np.divide(table, fitted, out=np.ones(fitted.shape), where=fitted > 0) - 1)
            if not changes[1:] and (lacking[0] < -2 or lacking[0] * stddev < SLIGHT * size):
                return None
        return cls(np.stack(changes), np.minimum.accumulate(lacking))

    def change(self, deviation: float) -> FloatArray:
        """Return the relative change of the model's cells by the table that lacks so many standard deviations."""
        at = float(np.interp(-deviation, -self.lacking, np.arange(len(self.lacking))))
        low = min(int(at), len(self.lacking) - 2)
        return np.asarray(self.changes[low] + (at - low) * (self.changes[low + 1] - self.changes[low]))


def _parts(wanted: FloatArray, found: FloatArray) -> FloatArray:
    return np.divide(wanted, found, out=np.zeros(wanted.shape), where=found > 0)
