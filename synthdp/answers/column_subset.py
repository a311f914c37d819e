"""The columns of a wide release that a question needs: its own columns, and columns with measured relations to them.

The error of an answer about few columns hardly depends on other columns.  No private row is used.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from synthdp.answers.direct import GLSEstimates, ScreenedDistances
from synthdp.answers.leaves import FineBinCounts
from synthdp.arrays import Clique, Codes, FloatArray, Table
from synthdp.distribution.components import Components
from synthdp.distribution.distribution import Distribution, Evidence
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.fit.moment_matching import NoisyProducts
from synthdp.queries.contingency import NoisyTable, Shape
from synthdp.randomness import Generator


@dataclass(frozen=True, eq=False)
class ColumnSubset(GLSEstimates):
    """GLS estimates (generalised least squares over noisy tables) for some columns of a wide release.

    A bootstrap of these columns is then fast.  Methods number the columns within the subset, 0 to k - 1.

    Parameters
    ----------
    whole
        The GLS estimates of the whole release.
    columns
        Positions of the subset's columns in the release, increasing.
    """

    whole: GLSEstimates
    columns: Clique

    @classmethod
    def of(cls, whole: GLSEstimates, columns: Iterable[int]) -> ColumnSubset:
        """Return the estimates and the model of some columns of a release.

        ``columns`` are positions in the release, in any order; the subset has them in increasing order.
        """
        chosen, model = tuple(sorted(columns)), whole.model
        few = replace(
            model,
            domain=Domain(tuple(model.domain.axes[j] for j in chosen)),
            refinements=tuple(model.refinements[j] for j in chosen),
            distribution=of_columns(model.distribution, chosen),
        )
        return cls(few, (), whole, chosen)

    def place(self, column: int) -> int:
        """Return the position within the subset of a column, given by its position in the release."""
        return self.columns.index(column)

    @cached_property
    def tables(self) -> list[NoisyTable]:
        """Return the measured tables whose columns are all in the subset, with columns numbered within it."""
        return self._inside(self.whole.tables)

    @cached_property
    def merged(self) -> list[NoisyTable]:
        """Return the measured tables over merged bins (several bins of a column taken as one) of the subset's columns.

        Columns are numbered within the subset.
        """
        return self._inside(self.whole.merged)

    @cached_property
    def measured_alone(self) -> list[NoisyTable]:
        """Return the measured interactions of the subset's columns whose marginals were not measured.

        Columns are numbered within the subset.
        """
        return self._inside(self.whole.measured_alone)

    @cached_property
    def total(self) -> tuple[float, float]:
        """Return the number of rows and its standard error, as in the whole release."""
        return self.whole.total

    @cached_property
    def products(self) -> tuple[NoisyProducts, ...]:
        """Return (): products of rank scores are measured for tables of few columns only; subsets come from wide ones."""
        return ()

    @cached_property
    def misfits(self) -> FloatArray:
        """Return (columns,) the estimated number of rows whose value is out of domain, for each of the subset's columns."""
        return self.whole.misfits[list(self.columns)]

    @cached_property
    def screened(self) -> ScreenedDistances | None:
        """Return the noisy distances from independence (L1, as a fraction of the rows) of the subset's scored pairs.

        Pairs are numbered within the subset; the typical distance of unmeasured pairs stays the whole release's.  Return
        ``None`` if the release scored no pairs.
        """
        found, inside = self.whole.screened, set(self.columns)
        if found is None:
            return None
        distances = {self._placed(pair): one for pair, one in found.distances.items() if inside.issuperset(pair)}
        return ScreenedDistances(distances, found.typical)

    @property
    def tells_relations(self) -> bool:
        """Whether any noisy answer of the whole release, not only of the subset, is about more than one column.

        If no answer is, error bars must allow for any relation of the columns, since the release knows of none.
        """
        return self.whole.tells_relations

    def first_level(self, column: int) -> tuple[Axis, FloatArray, float] | None:
        """Return the first histogram of a column, given by its position within the subset: its axis, counts and stddev.

        The counts and the stddev of their noise are in rows.  Return ``None`` if the release measured no histogram of
        the column.
        """
        return self.whole.first_level(self.columns[column])

    def leaves(self, column: int) -> FineBinCounts | None:
        """Return the noisy counts of a column's fine bins, in rows, given the column's position within the subset.

        They are the least-squares counts of the whole release, which use tables beyond the subset too.  Return ``None``
        if no measured table has the column.
        """
        return self.whole.leaves(self.columns[column])

    def _inside(self, tables: Iterable[NoisyTable]) -> list[NoisyTable]:
        """Return the tables whose columns are all in the subset, with columns numbered within it."""
        return [
            replace(table, clique=self._placed(table.clique))
            for table in tables
            if set(table.clique) <= set(self.columns)
        ]

    def _placed(self, clique: Clique) -> Clique:
        """Return the positions within the subset of a clique that is given by positions in the release."""
        return tuple(self.columns.index(j) for j in clique)


def nearest_columns(direct: GLSEstimates, asked: Iterable[int], most: int) -> Clique:
    """Return the columns of a question and the columns with measured relations to them, at most ``most``, sorted.

    In the graph of measured tables two columns are adjacent if a table has both.  Columns are added in the order of
    their distance in this graph.
    """
    beside: dict[int, set[int]] = defaultdict(set)
    for clique in (table.clique for table in (*direct.tables, *direct.merged, *direct.measured_alone)):
        for j in clique:
            beside[j].update(clique)
    found = dict.fromkeys(asked)
    ring: Sequence[int] = list(found)
    while ring and len(found) < most:
        ring = sorted({i for j in ring for i in beside[j]} - found.keys())[: most - len(found)]
        found |= dict.fromkeys(ring)
    return tuple(sorted(found))


def of_columns(distribution: Distribution, columns: Sequence[int]) -> Distribution:
    """Return the joint distribution of some columns.

    If the distribution is a product of independent components, the result leaves out components without such columns.
    """
    if not isinstance(distribution, Components):
        return MarginalDistribution(distribution, tuple(columns))
    found, parts = [], []
    for of_group, part in zip(distribution.columns, distribution.parts, strict=True):
        inside = [i for i, j in enumerate(of_group) if j in columns]
        if inside:
            found.append(tuple(columns.index(of_group[i]) for i in inside))
            parts.append(MarginalDistribution(part, tuple(inside)))
    return Components(shape=tuple(distribution.shape[j] for j in columns), columns=found, parts=parts)


@dataclass(frozen=True, slots=True)
class MarginalDistribution:
    """The distribution of some columns of a larger distribution; it implements `Distribution`.

    Parameters
    ----------
    whole
        The distribution of all columns.
    columns
        Positions of the columns, increasing.
    """

    whole: Distribution
    columns: Clique

    @property
    def shape(self) -> Shape:
        """Return the number of codes of each column."""
        return tuple(self.whole.shape[j] for j in self.columns)

    def marginal(self, clique: Clique) -> Table:
        """Return the marginal of some of these columns, given by their numbers among them, as a table of probabilities."""
        return self.whole.marginal(tuple(self.columns[j] for j in clique))

    def sample(self, rows: int, rng: Generator, *, given: Evidence | None = None, independent: bool = False) -> Codes:
        """Return (rows, columns) codes of this distribution's columns, in rows drawn from the larger distribution.

        Parameters
        ----------
        rows
            Number of rows to draw.
        rng
            Source of the draws.
        given
            Evidence by a column's position in ``columns``, not by its position in the larger distribution.
        independent
            Whether rows are drawn independently rather than systematically.
        """
        evidence = {self.columns[j]: weights for j, weights in (given or {}).items()}
        drawn = self.whole.sample(rows, rng, given=evidence, independent=independent)
        return np.asfortranarray(drawn[:, list(self.columns)])
