"""The part of a wide release that a question needs: its columns, and those whose relations with them were measured.

An error bar of few columns owes next to nothing to columns far away.  Reads public structure and noisy answers only.
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
from synthdp.fit.graphical.moment_matching import NoisyProducts
from synthdp.queries.contingency import NoisyTable, Shape
from synthdp.randomness import Generator


@dataclass(frozen=True, eq=False)
class ColumnSubset(GLSEstimates):
    """What the noisy tables of a wide release say of some of its columns, so that a bootstrap of these is fast.

    Columns are numbered among these.

    Parameters
    ----------
    whole
        The release.
    columns
        Positions of the columns in it, increasing.
    """

    whole: GLSEstimates
    columns: Clique

    @classmethod
    def of(cls, whole: GLSEstimates, columns: Iterable[int]) -> ColumnSubset:
        """Return the part of a release about some columns, with the model's distribution of these."""
        chosen, model = tuple(sorted(columns)), whole.model
        few = replace(
            model,
            domain=Domain(tuple(model.domain.axes[j] for j in chosen)),
            refinements=tuple(model.refinements[j] for j in chosen),
            distribution=of_columns(model.distribution, chosen),
        )
        return cls(few, (), whole, chosen)

    def place(self, column: int) -> int:
        """Return the position of a column of the release among these."""
        return self.columns.index(column)

    @cached_property
    def tables(self) -> list[NoisyTable]:
        """Return the measured tables whose columns are all among these."""
        return self._inside(self.whole.tables)

    @cached_property
    def merged(self) -> list[NoisyTable]:
        """Return the measured tables over merged cells whose columns are all among these."""
        return self._inside(self.whole.merged)

    @cached_property
    def measured_alone(self) -> list[NoisyTable]:
        """Return the effects of these columns that were measured by themselves."""
        return self._inside(self.whole.measured_alone)

    @cached_property
    def total(self) -> tuple[float, float]:
        """The number of rows and its standard error, as in the whole release."""
        return self.whole.total

    @cached_property
    def products(self) -> tuple[NoisyProducts, ...]:
        """Empty: products of scores are only measured in tables of few columns."""
        return ()

    @cached_property
    def misfits(self) -> FloatArray:
        """(columns,) estimated rows outside of the domain of each of these columns."""
        return self.whole.misfits[list(self.columns)]

    @cached_property
    def screened(self) -> ScreenedDistances | None:
        """What the noisy scores say of relations among these columns; ``None`` if there were none."""
        found, inside = self.whole.screened, set(self.columns)
        if found is None:
            return None
        distances = {self._placed(pair): one for pair, one in found.distances.items() if inside.issuperset(pair)}
        return ScreenedDistances(distances, found.typical)

    def first_level(self, column: int) -> tuple[Axis, FloatArray, float] | None:
        """Return the first histogram of a column; see `GLSEstimates.first_level`."""
        return self.whole.first_level(self.columns[column])

    def leaves(self, column: int) -> FineBinCounts | None:
        """Return the counts of a column's leaves; see `GLSEstimates.leaves`."""
        return self.whole.leaves(self.columns[column])

    def _inside(self, tables: Iterable[NoisyTable]) -> list[NoisyTable]:
        """Return the tables that are about these columns only, with columns renumbered."""
        return [
            replace(table, clique=self._placed(table.clique))
            for table in tables
            if set(table.clique) <= set(self.columns)
        ]

    def _placed(self, clique: Clique) -> Clique:
        """Return a clique's positions among these columns."""
        return tuple(self.columns.index(j) for j in clique)


def nearest_columns(direct: GLSEstimates, asked: Iterable[int], most: int) -> Clique:
    """Return the columns asked about and, up to ``most`` in all, those that measured tables relate to them.

    The nearest come first; the result is sorted.
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
    """Return the joint distribution of some columns; of a product of independent groups only the needed ones."""
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
    """Some columns of a distribution; a `Distribution`.

    Parameters
    ----------
    whole
        Of more columns.
    columns
        Positions of the columns, increasing.
    """

    whole: Distribution
    columns: Clique

    @property
    def shape(self) -> Shape:
        """Number of codes of each column."""
        return tuple(self.whole.shape[j] for j in self.columns)

    def marginal(self, clique: Clique) -> Table:
        """Return a marginal of the whole distribution; see `Distribution.marginal`."""
        return self.whole.marginal(tuple(self.columns[j] for j in clique))

    def sample(self, rows: int, rng: Generator, *, given: Evidence | None = None, independent: bool = False) -> Codes:
        """Draw rows of the whole and keep these columns; see `Distribution.sample`."""
        evidence = {self.columns[j]: weights for j, weights in (given or {}).items()}
        drawn = self.whole.sample(rows, rng, given=evidence, independent=independent)
        return np.asfortranarray(drawn[:, list(self.columns)])
