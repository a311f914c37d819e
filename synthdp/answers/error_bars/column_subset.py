"""The part of a wide release that a question needs: its columns, and columns with measured relations to them.

The error of an answer about few columns hardly depends on columns without such relations.  No private row is used.
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
from synthdp.distribution.protocol import Distribution, Evidence
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.fit.moment_matching import NoisyProducts
from synthdp.queries.contingency import NoisyTable, Shape
from synthdp.randomness import Generator


@dataclass(frozen=True, eq=False)
class ColumnSubset(GLSEstimates):
    """GLS estimates for some columns of a wide release, so that a bootstrap of these columns is fast.

    Methods number the columns within the subset, 0 to k - 1.

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
        """Return the estimates and the model of some columns of a release, so that their bootstrap is fast.

        ``columns`` are positions in the release; they are sorted.
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
        """Return the position in the subset of a column of the release."""
        return self.columns.index(column)

    @cached_property
    def tables(self) -> list[NoisyTable]:
        """Return the measured tables whose columns are all in the subset."""
        return self._inside(self.whole.tables)

    @cached_property
    def merged(self) -> list[NoisyTable]:
        """Return the measured tables over merged bins whose columns are all in the subset."""
        return self._inside(self.whole.merged)

    @cached_property
    def measured_alone(self) -> list[NoisyTable]:
        """Return the effects of the subset's columns that were measured without their tables."""
        return self._inside(self.whole.measured_alone)

    @cached_property
    def total(self) -> tuple[float, float]:
        """Return the number of rows and its standard error, as in the whole release."""
        return self.whole.total

    @cached_property
    def products(self) -> tuple[NoisyProducts, ...]:
        """Return no products, because products of scores are measured only in tables of few columns."""
        return ()

    @cached_property
    def misfits(self) -> FloatArray:
        """Return the estimated out-of-domain rows of each of the subset's columns, (columns,)."""
        return self.whole.misfits[list(self.columns)]

    @cached_property
    def screened(self) -> ScreenedDistances | None:
        """Return the distances of the subset's pairs from independence, from noisy scores.

        Return ``None`` if no pairs were scored.
        """
        found, inside = self.whole.screened, set(self.columns)
        if found is None:
            return None
        distances = {self._placed(pair): one for pair, one in found.distances.items() if inside.issuperset(pair)}
        return ScreenedDistances(distances, found.typical)

    @property
    def tells_relations(self) -> bool:
        """Whether any noisy answer of the whole release is about more than one column."""
        return self.whole.tells_relations

    def first_level(self, column: int) -> tuple[Axis, FloatArray, float] | None:
        """Return the axis, noisy counts and stddev of the first histogram of a column, numbered within the subset.

        See `GLSEstimates.first_level`.
        """
        return self.whole.first_level(self.columns[column])

    def leaves(self, column: int) -> FineBinCounts | None:
        """Return the counts of the fine bins of a column, numbered within the subset; see `GLSEstimates.leaves`."""
        return self.whole.leaves(self.columns[column])

    def _inside(self, tables: Iterable[NoisyTable]) -> list[NoisyTable]:
        """Return the tables whose columns are all in the subset, with columns renumbered."""
        return [
            replace(table, clique=self._placed(table.clique))
            for table in tables
            if set(table.clique) <= set(self.columns)
        ]

    def _placed(self, clique: Clique) -> Clique:
        """Return the positions in the subset of a clique of the release, by which the subset's tables are numbered."""
        return tuple(self.columns.index(j) for j in clique)


def nearest_columns(direct: GLSEstimates, asked: Iterable[int], most: int) -> Clique:
    """Return the columns of a question and the columns with measured relations to them, at most ``most``, sorted.

    Columns are added in the order of their distance in the graph of measured tables.
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

    Of a product of independent components, only the components with such columns are used.
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
        """Return the marginal of some of these columns, numbered among them; see `Distribution.marginal`."""
        return self.whole.marginal(tuple(self.columns[j] for j in clique))

    def sample(self, rows: int, rng: Generator, *, given: Evidence | None = None, independent: bool = False) -> Codes:
        """Return rows drawn from the larger distribution, with these columns only; see `Distribution.sample`."""
        evidence = {self.columns[j]: weights for j, weights in (given or {}).items()}
        drawn = self.whole.sample(rows, rng, given=evidence, independent=independent)
        return np.asfortranarray(drawn[:, list(self.columns)])
