"""Noisy tables, and averages of smooth functions, without out-of-domain values, which are counted in cells of their own.

A row with an out-of-domain value in one column keeps its other columns.  Each margin is therefore taken from all rows that
are in domain in its own columns, and scaled to the number of all rows: rows out of domain count as if they were spread like
the others.  Post-processing of noisy answers; knows no row and no model.

An out-of-domain value has no point, so every cosine of its column is 0.  The indicator of its cell can therefore be
measured beside averages of smooth functions, without more sensitivity than the cosines have.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from synthdp.arrays import BoolArray, Clique, FloatArray, IntArray
from synthdp.domain.domain import Domain
from synthdp.fit.consistency import GLSEffects, gls_effects, make_consistent, make_merged_consistent
from synthdp.measurements import Measurements, beyond_noise
from synthdp.queries.contingency import NoisyTable, table_shape, table_size
from synthdp.queries.marginals import Marginals

if TYPE_CHECKING:
    from synthdp.queries.trigonometric import TensorBasis, Term

MIN_IN_DOMAIN = 0.02
"""Smallest fraction of rows that is assumed to be in domain.  A safety limit: counts in domain are divided by this
fraction, so noise is scaled up at most 50 times.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OutOfDomain:
    """The rows out of domain in each of d columns, and the removal of them from measured tables.

    Out-of-domain values are assumed to occur independently in each column.

    Parameters
    ----------
    releasable
        Per column, which of its cells hold values in domain, (cells,).
    rows
        (d,) estimated rows that are out of domain, 0 for none.
    total
        Number of all rows.
    """

    releasable: tuple[BoolArray, ...]
    rows: FloatArray
    total: float

    @classmethod
    def estimated(
        cls, tables: Iterable[NoisyTable], releasable: Sequence[BoolArray], *, total: float = 0.0
    ) -> OutOfDomain:
        """Estimate from noisy tables how many rows are out of domain in each column; 0 where noise explains them.

        Parameters
        ----------
        tables
            Independent noisy tables over all cells.
        releasable
            Per column, which of its cells are in domain, (cells,).
        total
            Number of all rows.
        """
        shape = [len(cells) for cells in releasable]
        found, precision = np.zeros(len(releasable)), np.zeros(len(releasable))
        for table in (one for one in tables if not one.alone):
            counts = table.counts.reshape(table_shape(shape, table.clique))
            for axis, j in enumerate(table.clique):
                outside = np.flatnonzero(~releasable[j])
                if len(outside):
                    inside = counts.take(outside, axis=axis)
                    weight = 1 / (inside.size * table.stddev**2)
                    found[j] += weight * inside.sum()
                    precision[j] += weight
        known = precision > 0
        rows = np.divide(found, precision, out=np.zeros(len(releasable)), where=known)
        stddev = np.where(known, 1 / np.sqrt(np.where(known, precision, 1.0)), math.inf)
        bounds = np.array([beyond_noise(one, max(1, int(known.sum()))) for one in stddev])
        return cls(releasable=tuple(releasable), rows=np.where(known & (rows > bounds), rows, 0.0), total=total)

    @property
    def sizes(self) -> list[int]:
        """Per column, how many of its cells are in domain: the shape of tables that hold no others."""
        return [int(cells.sum()) for cells in self.releasable]

    def remove(self, table: NoisyTable) -> NoisyTable:
        """Return an estimate of a table over all cells if all rows were in domain; 0 in cells out of domain.

        The effect of each set of columns is taken from the rows that are in domain in these columns, scaled up to all
        rows.  An interaction without its marginal is scaled up as if being out of domain were independent of its
        columns.  The stddev of the noise is multiplied by the largest of these factors.
        """
        releasable = self.releasable
        if table.alone:
            fit = math.prod(
                1 - min(float(self.rows[j]) / max(self.total, 1.0), 1 - MIN_IN_DOMAIN) for j in table.clique
            )
            return replace(table, counts=table.counts / fit, stddev=table.stddev / fit)
        inside = np.ix_(*(releasable[j] for j in table.clique))
        shape = table_shape([len(cells) for cells in releasable], table.clique)
        if all(releasable[j].all() for j in table.clique):
            return table
        counts = table.counts.reshape(shape)
        found = np.zeros(shape)
        if not any(self.rows[j] > 0 for j in table.clique):
            found[inside] = counts[inside]
            return NoisyTable(clique=table.clique, counts=found.ravel(), stddev=table.stddev)
        sizes = [int(releasable[j].sum()) for j in table.clique]
        cells = math.prod(sizes)
        whole = np.full(sizes, self.total / cells)
        largest = 1.0
        for size in range(1, len(shape) + 1):
            for part in itertools.combinations(range(len(shape)), size):
                columns = tuple(table.clique[axis] for axis in part)
                scale = self.total / self.rows_in_domain(table, columns)
                largest = max(largest, scale)
                margin = counts.sum(axis=tuple(axis for axis in range(len(shape)) if axis not in part))
                effect = margin[np.ix_(*(releasable[table.clique[axis]] for axis in part))] * scale
                for axis in range(effect.ndim):
                    effect = effect - effect.mean(axis=axis, keepdims=True)
                spread = math.prod(sizes[axis] for axis in part) / cells
                whole += effect.reshape([sizes[axis] if axis in part else 1 for axis in range(len(shape))]) * spread
        found[inside] = whole
        return NoisyTable(clique=table.clique, counts=found.ravel(), stddev=table.stddev * largest)

    def inside(self, table: NoisyTable) -> NoisyTable:
        """Return the table as it would be if all rows were in domain, see `remove`, with only the cells in domain."""
        return in_domain_cells(self.remove(table), self.releasable)

    def pooled(self, tables: Sequence[NoisyTable]) -> GLSEffects:
        """Return main effects and interactions pooled over tables, over the cells in domain alone.

        Both are in rows and scaled as if all rows were in domain, as a model for release has no others.
        """
        return gls_effects([self.inside(table) for table in tables], self.sizes, total=self.total)

    def consistent(self, tables: Sequence[NoisyTable]) -> tuple[NoisyTable, ...]:
        """Return the tables scaled as if all rows were in domain, and made to agree as `make_consistent` does.

        The tables are over all cells, with 0 in those out of domain.
        """
        agreed = make_consistent([self.inside(table) for table in tables], self.sizes, total=self.total)
        return tuple(all_cells(table, self.releasable) for table in agreed)

    def answers(self, queries: Marginals, tables: Sequence[NoisyTable]) -> FloatArray:
        """Return the answers to marginals, (k,), rescaled to what they would be if all rows were in domain.

        Parameters
        ----------
        queries
            The marginals, over this domain.
        tables
            Their answers as tables, `Marginals.noisy_tables`.
        """
        found = [self.remove(table) for table in tables]
        shapes = [[queries.domain.shape[j] for j in table.clique] for table in found]
        counts = [
            table.counts.reshape(shape).transpose(np.argsort(np.argsort(clique, kind="stable"), kind="stable")).ravel()
            for table, shape, clique in zip(found, shapes, queries.cliques, strict=True)
        ]
        return np.concatenate(counts)

    def add(self, table: FloatArray, clique: Clique) -> FloatArray:
        """Put the estimated out-of-domain rows back into a model's table, (cells,), to compare it with measured ones.

        All of a column's go to its first out-of-domain cell, spread over the other columns like all rows.
        """
        shape = [len(self.releasable[j]) for j in clique]
        counts = table.reshape(shape)
        for axis, j in enumerate(clique):
            outside = np.flatnonzero(~self.releasable[j])
            if not len(outside) or self.rows[j] <= 0:
                continue
            share = min(float(self.rows[j]) / max(self.total, 1.0), 1.0)
            struck = counts.sum(axis=axis, keepdims=True) * share
            counts = counts * (1 - share)
            place = [slice(None)] * len(shape)
            place[axis] = slice(int(outside[0]), int(outside[0]) + 1)
            counts[tuple(place)] += struck
        return np.asarray(counts.ravel(), np.float64)

    def rows_in_domain(self, table: NoisyTable, columns: Clique) -> float:
        """Return the number of rows in domain in some columns of a table, by inclusion and exclusion.

        So only the few noisy out-of-domain cells are added up.  The number is kept within what the columns' own numbers
        allow, and at least `MIN_IN_DOMAIN` of the total, as margins are divided by it.
        """
        counts = table.counts.reshape(table_shape([len(cells) for cells in self.releasable], table.clique))
        struck = [j for j in columns if self.rows[j] > 0]
        rows = self.total - sum(float(self.rows[j]) for j in struck)
        least = max(rows, MIN_IN_DOMAIN * self.total, 1.0)
        for size in range(2, len(struck) + 1):
            for some in itertools.combinations(struck, size):
                inside = counts
                for j in some:
                    inside = inside.take(np.flatnonzero(~self.releasable[j]), axis=table.clique.index(j))
                rows += (-1) ** size * float(inside.sum())
        most = self.total - max((float(self.rows[j]) for j in struck), default=0.0)
        return max(min(rows, most), least)


def in_domain_cells(table: NoisyTable, releasable: Sequence[BoolArray]) -> NoisyTable:
    """Return a table with only the cells in domain in all of its columns, as a model for release has no others."""
    shape = table_shape([len(cells) for cells in releasable], table.clique)
    inside = table.counts.reshape(shape)[np.ix_(*(releasable[j] for j in table.clique))]
    return replace(table, counts=inside.ravel())


def all_cells(table: NoisyTable, releasable: Sequence[BoolArray]) -> NoisyTable:
    """Return a table over all cells from a table over the cells in domain; cells out of domain get 0, as fits need."""
    shape = [len(cells) for cells in releasable]
    found = np.zeros(table_size(shape, table.clique))
    mask = np.ones(1, np.bool_)
    for j in table.clique:
        mask = np.logical_and.outer(mask, releasable[j]).ravel()
    found[mask] = table.counts
    return NoisyTable(clique=table.clique, counts=found, stddev=table.stddev)


def merged_tables(measurements: Iterable[Measurements], domain: Domain) -> list[NoisyTable]:
    """Return the measured tables of several columns whose codes are merged cells of ``domain``, columns sorted.

    Of some tables only the interaction was measured.  Their margins are 0 here; other tables have these margins in any
    fit.

    Parameters
    ----------
    measurements
        Noisy answers of a release, of whatever kind.
    domain
        The domain whose cells were merged.
    """
    found = []
    for measured in measurements:
        own = measured.domain
        if own is None or own is domain or own.names != domain.names:
            continue
        for table in measured.tables:
            groups = [own.axes[j].groups_of(domain.axes[j]) for j in table.clique]
            merged = tuple(of for of in groups if of is not None)
            if len(table.clique) > 1 and len(merged) == len(groups):
                # The interaction of a pair takes the margins of the one-ways: a table, as those of all codes become.
                found.append(replace(table, groups=merged, alone=table.alone and len(table.clique) > 2))
    return pooled_repeats(found)


def pooled_repeats(tables: Iterable[NoisyTable]) -> list[NoisyTable]:
    """Return tables of merged codes; repeated tables, of the same columns and groups, are averaged by precision to one.

    A fit then has one target for each table.
    """
    found: dict[tuple[Clique, tuple[bytes, ...]], NoisyTable] = {}
    for table in tables:
        key = table.clique, tuple(np.asarray(groups, np.int64).tobytes() for groups in table.groups or ())
        before = found.get(key)
        if before is None:
            found[key] = table
            continue
        precisions = before.stddev**-2, table.stddev**-2
        counts = (before.counts * precisions[0] + table.counts * precisions[1]) / sum(precisions)
        found[key] = replace(table, counts=counts, stddev=sum(precisions) ** -0.5)
    return list(found.values())


def merged_in_domain(merged: Iterable[NoisyTable], out_of_domain: OutOfDomain) -> list[NoisyTable]:
    """Return tables of merged codes, scaled as if all rows were in domain, over the groups in domain alone.

    Parameters
    ----------
    merged
        No group holds both codes that are in domain and others.
    out_of_domain
        Estimated out-of-domain rows of the columns, over all codes.
    """
    found = []
    for table in merged:
        groups = dict(zip(table.clique, table.groups or (), strict=True))
        releasable = out_of_domain.releasable
        remain = tuple(_remaining(groups[j], cells) if j in groups else cells for j, cells in enumerate(releasable))
        inside = replace(out_of_domain, releasable=remain).inside(replace(table, groups=None))
        renumbered = tuple((np.cumsum(remain[j]) - 1)[of[releasable[j]]] for j, of in groups.items())
        found.append(replace(inside, groups=renumbered))
    return found


def consistent_merged(
    tables: Sequence[NoisyTable], merged: Sequence[NoisyTable], out_of_domain: OutOfDomain
) -> tuple[NoisyTable, ...]:
    """Return tables of merged codes that agree with the tables of all codes, scaled as if all rows were in domain.

    Parameters
    ----------
    tables
        Noisy tables of all codes, the one-ways among them.
    merged
        Noisy tables of merged codes; no group holds both codes that are in domain and others.
    out_of_domain
        Estimated out-of-domain rows of the columns, over all codes.

    Returns
    -------
    Tables of all groups, with a 0 in groups that are not in domain.
    """
    if not merged:
        return ()
    pooled = out_of_domain.pooled(tables)
    agreed = make_merged_consistent(merged_in_domain(merged, out_of_domain), pooled)
    found = []
    for table, whole in zip(agreed, merged, strict=True):
        inside = np.ones(1, np.bool_)
        for j, of in zip(whole.clique, whole.groups or (), strict=True):
            inside = np.logical_and.outer(inside, _remaining(of, out_of_domain.releasable[j])).ravel()
        counts = np.zeros(whole.counts.size)
        counts[inside] = table.counts
        found.append(replace(whole, counts=counts, stddev=table.stddev))
    return tuple(found)


def _remaining(groups: IntArray, kept: BoolArray) -> BoolArray:
    """Return which groups of merged codes, (groups,), contain a kept code; ``groups`` has the group of each code.

    Tables in domain have only such groups.
    """
    return np.bincount(groups, weights=kept) > 0


def out_of_domain_shares(domain: Domain, terms: Sequence[Term], averages: FloatArray, stddev: float) -> FloatArray:
    """Return the fraction of rows out of domain in each column, (d,), from noisy averages of their indicators.

    A fraction is set to 0 where noise alone may explain it.
    """
    shares = np.zeros(len(domain))
    known = {term: float(average) for term, average in zip(terms, averages, strict=True)}
    asked = {term[0].column: share for term, share in known.items() if len(term) == 1 and term[0].is_outside(domain)}
    bound = beyond_noise(stddev, max(1, len(asked)))
    for column, share in asked.items():
        shares[column] = min(share, 1.0) if share > bound else 0.0
    return shares


def averages_in_domain(basis: TensorBasis, averages: FloatArray, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return noisy averages of products, rescaled to what they would be if all rows were in domain.

    Parameters
    ----------
    basis
        The products of functions of columns.  A product with the indicator of an out-of-domain cell gets the average 0.
    averages
        (k,) their noisy averages over all rows.
    shares
        (d,) fractions of the rows that are out of domain in each column, 0 for none.

    Returns
    -------
    The averages, and how many times as large the noise in each is, (k,) each.
    """
    together = {
        tuple(sorted(factor.column for factor in term)): float(average)
        for term, average in zip(basis.terms, averages, strict=True)
        if len(term) == 2 and all(factor.is_outside(basis.domain) for factor in term)
    }
    scale = np.ones(basis.k)
    found = np.array(averages, np.float64)
    for i, term in enumerate(basis.terms):
        struck = tuple(sorted(factor.column for factor in term if shares[factor.column] > 0))
        if any(factor.is_outside(basis.domain) for factor in term):
            found[i] = 0.0
        elif struck:
            scale[i] = 1 / _share_in_domain(struck, shares, together)
    return found * scale, scale


def _share_in_domain(struck: Clique, shares: FloatArray, together: Mapping[Clique, float]) -> float:
    """Return the fraction of rows that are in domain in the one or two columns ``struck``.

    The fraction out of domain in both is ``together`` where it was measured, else as for independent columns.  The
    result is kept within what the two fractions allow, and at least `MIN_IN_DOMAIN`, as averages are divided by it.
    """
    outside = [float(shares[j]) for j in struck]
    independent = math.prod(1 - share for share in outside)
    if len(struck) != 2:
        return max(independent, MIN_IN_DOMAIN)
    common = together.get(struck, math.prod(outside))
    return max(min(1 - sum(outside) + common, 1 - max(outside)), 1 - sum(outside), MIN_IN_DOMAIN)
