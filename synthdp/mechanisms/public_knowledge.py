"""The public knowledge that the adaptive plan uses: rows of another table, and exact totals.

The plan uses both through this module only.  Without public knowledge every method returns its input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from synthdp.distribution.junction_tree import TreePlanner
from synthdp.distribution.protocol import Distribution
from synthdp.domain.public_rows import PublicRows, PublicTotals
from synthdp.fit.raking import raked_exactly
from synthdp.mechanisms.adaptive.column_tree import OneWay
from synthdp.mechanisms.adaptive.knowledge import Knowledge
from synthdp.mechanisms.public_prior import PUBLIC_GROUPS, fit_with_public, with_public_columns
from synthdp.queries.contingency import NoisyTable
from synthdp.randomness import Generator
from synthdp.sampling.exact_tables import ExactTable
from synthdp.schema.schema import Schema

EXACT = 0.01
"""Standard deviation, in rows, assumed for exact public totals where a positive number is needed.  Totals that are this
close to whole numbers count as whole.  A numerical tolerance.
"""

TREE_CELLS = 1e5
"""Most cells that the junction tree may have with public totals of several columns; others are fitted outside of it.  A
safety limit.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PublicKnowledge:
    """Public rows and public totals, as the adaptive mechanism uses them.

    See `synthdp.mechanisms.adaptive.knowledge.Public`.

    Parameters
    ----------
    rows
        Rows of a public table.
    totals
        Exact numbers of rows.
    """

    rows: PublicRows | None = None
    totals: tuple[PublicTotals, ...] = ()

    def notes(self, schema: Schema) -> tuple[str, ...]:
        """Return the receipt's sentences on which public data was used."""
        return (*([] if self.rows is None else [self.rows.note(schema)]), *(one.note() for one in self.totals))

    def columns(self, columns: tuple[OneWay, ...], *, total: float) -> tuple[OneWay, ...]:
        """Return the estimates of single columns, improved by public rows and set to public totals."""
        if self.rows is not None:
            columns = with_public_columns(columns, self.rows, total=total)
        exact = {one.names[0]: one for one in self.totals if len(one.names) == 1}
        return tuple(
            _exactly(column, exact[column.axis.name]) if column.axis.name in exact else column for column in columns
        )

    def rows_per_group(self, target: float, *, total: float) -> float:
        """Return how many rows a group of values should hold: fewer with public rows, which tell of more groups."""
        return target if self.rows is None else min(target, total / PUBLIC_GROUPS)

    def pinned(self, columns: Sequence[OneWay]) -> list[frozenset[int]]:
        """Return, for each column, the leaves that public totals name.

        They must stay groups, so that rows can have the totals.
        """
        found: list[frozenset[int]] = []
        for column in columns:
            points = [
                one.points[:, one.names.index(column.axis.name)] for one in self.totals if column.axis.name in one.names
            ]
            leaves = column.axis.cells_of(np.concatenate(points).astype(np.uint32)) if points else np.zeros(0, np.int64)
            found.append(frozenset(int(leaf) for leaf in leaves))
        return found

    def added_to(self, known: Knowledge) -> Knowledge:
        """Return the knowledge with the exact number of rows and exact tables of several columns from public totals."""
        if not self.totals:
            return known
        known = replace(known, total=max(1.0, self.totals[0].rows))
        planner = TreePlanner(known.domain.shape)
        for one in self.totals:
            clique, counts = one.table(known.domain)
            if len(clique) > 1:
                fits = planner.cells([*known.zeros, *known.tree, clique]) <= TREE_CELLS
                known = known.with_table(NoisyTable(clique=clique, counts=counts, stddev=EXACT), ridge=1.0)
                known = known.with_cliques(tree={clique: 0.0} if fits else {}, off_tree={} if fits else {clique: 0.0})
        return known

    def fitted(self, known: Knowledge, *, alone: Callable[[], Distribution], rng: Generator) -> Distribution:
        """Return the model of all noisy answers, fitted together with public rows if there are any.

        It is then raked so that it has the public totals exactly.

        Parameters
        ----------
        known
            The noisy answers and estimates, with the totals.
        alone
            Fits the noisy answers without public rows.
        rng
            Source of rows.
        """
        found = alone() if self.rows is None else fit_with_public(known, self.rows, alone=alone, rng=rng)
        if not self.totals:
            return found
        tables = [one.table(known.domain) for one in self.totals]
        return raked_exactly(found, tables, zeros=known.zeros, rng=rng, rows=known.total)

    def exact(self, known: Knowledge) -> tuple[ExactTable, ...]:
        """Return the whole-number public totals as tables that synthetic rows must reproduce exactly.

        Public totals that no rows could have, such as fractions, are left out.
        """
        tables = [one.table(known.domain) for one in self.totals]
        return tuple(
            ExactTable(clique=clique, counts=np.rint(counts).astype(np.int64))
            for clique, counts in tables
            if (np.abs(counts - np.rint(counts)) < EXACT).all()
        )


def _exactly(column: OneWay, totals: PublicTotals) -> OneWay:
    """Return a column whose estimated rows, by leaf and by first bin, are the exact public totals, without misfits."""
    return replace(
        column, weights=totals.on(column.axis), counts=totals.on(column.first), stddev=EXACT, misfits=0.0
    )  # fmt: skip
