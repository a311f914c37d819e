"""Unbiased answers from the noisy tables alone, without the model, by generalised least squares.

A question that is a linear function of measured tables is linear in the noise, whose distribution is public.  So its
standard error is exact, or of first order if out-of-domain rows are redistributed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from synthdp.answers.leaves import (
    FineBinCounts,
    Histogram,
    InDomainFineBins,
    NoisyRows,
    effective_counts,
    gls_fine_bins,
    intraclass_correlation,
    number_of_rows,
)
from synthdp.arrays import BoolArray, Clique, FloatArray
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.fit.consistency import GLSEffects
from synthdp.fit.moment_matching import NoisyProducts
from synthdp.fit.out_of_domain import MIN_IN_DOMAIN, OutOfDomain, merged_tables
from synthdp.measurements import Measurements, row_counts
from synthdp.queries.contingency import LEAST_STDDEV, NoisyTable, subsets_of, table_shape, table_size
from synthdp.queries.distances import MarginalDistances, PairDistances
from synthdp.queries.products import Products, TellsTables
from synthdp.sampling.synthetic_model import SyntheticModel

PUBLIC_STDDEV = 1e-3
"""Stddev, in rows, assigned to a public number of rows where a positive stddev is needed.  It is also the largest
stddev that counts as no noise.  A numerical tolerance."""

EXACT = 1e-4
"""Smallest stddev of a public number of rows, as a fraction of the least noisy histogram's stddev, so that matrix
inverses are accurate.  A numerical tolerance."""

_AT_ONCE = 2**22
"""Most entries, answers times cells, of a weight matrix in memory at once: 32 MB.  More take more memory, fewer are
slower.  A safety limit."""


class LinearEstimates(NamedTuple):
    """Holds answers that are linear in the noise, and their standard errors, (q,) each."""

    estimate: FloatArray
    stddev: FloatArray


@dataclass(frozen=True, eq=False)
class GLSEstimates:
    """Estimates from the noisy tables of a release, without its model, by generalised least squares.

    Parameters
    ----------
    model
        The model, whose bins the tables are over.
    measurements
        All noisy answers of the release.
    """

    model: SyntheticModel
    measurements: tuple[Measurements, ...]

    @cached_property
    def tables(self) -> list[NoisyTable]:
        """Return the measured tables over the model's coarse bins; tables of interactions alone are not included."""
        return [table for table in self._facts if not table.alone]

    @cached_property
    def measured_alone(self) -> list[NoisyTable]:
        """Return the main effects and interactions over coarse bins that were measured without their tables."""
        return [table for table in self._facts if table.alone]

    @cached_property
    def _facts(self) -> list[NoisyTable]:
        """Return all noisy tables and interactions over the model's coarse bins, for `tables` and `measured_alone`."""
        domain = self.model.domain
        return [table for measured in self.measurements if measured.domain is domain for table in measured.tables]

    @cached_property
    def total(self) -> tuple[float, float]:
        """Return the number of rows and the stddev of its error, averaged by precision over all tables and row counts.

        Without a row count, it is the model's number of rows.
        """
        return number_of_rows(self._row_counts) or (self.model.total, self._noise_of_total)

    @cached_property
    def _row_counts(self) -> list[NoisyRows]:
        """Return the noisy numbers of rows: row counts and sums of tables.  Without a row count the list is empty."""
        found = [NoisyRows(frozenset(), rows, stddev**2) for rows, stddev in row_counts(self.measurements)]
        for measured in self.measurements if found else ():
            names = () if measured.domain is None else measured.domain.names
            whole = (table for table in measured.tables if not table.alone)
            found += [
                NoisyRows(
                    frozenset(names[j] for j in table.clique),
                    float(table.counts.sum()),
                    table.counts.size * table.stddev**2,
                )
                for table in whole
            ]
        return found

    @property
    def _noise_of_total(self) -> float:
        """Return the standard error of the number of rows, if it was measured with other statistics.

        The error is `PUBLIC_STDDEV` if the number of rows is public.
        """
        for measured in self.measurements:
            if isinstance(measured.queries, TellsTables) and not measured.tables:
                sums = measured.queries.sums_of((), measured.answers, measured.stddev, rows=(self.model.total, 0.0))
                if sums is not None:
                    return max(math.sqrt(float(sums.variance)), PUBLIC_STDDEV)
        return PUBLIC_STDDEV

    @cached_property
    def products(self) -> tuple[NoisyProducts, ...]:
        """Return the noisy mean products of columns' rank scores over the model's coarse bins, one entry a measurement.

        Bootstrap replicates are fitted to them if the model was.
        """
        found, domain, rows = [], self.model.domain, max(self.total[0], 1.0)
        for measured in self.measurements:
            queries = measured.queries
            if not isinstance(queries, Products):
                continue
            if not set(queries.domain.names) <= set(domain.names):
                continue
            columns = domain.index(*queries.domain.names)
            if queries.domain.shape == tuple(domain.shape[j] for j in columns):
                means, stddev = measured.answers / rows, measured.stddev / rows
                found.append(NoisyProducts(queries=queries, columns=columns, means=means, stddev=stddev))
        return tuple(found)

    @property
    def total_is_public(self) -> bool:
        """Return whether the number of rows has no noise, so that counts are made to add up to it."""
        return self.total[1] <= PUBLIC_STDDEV

    @cached_property
    def kept(self) -> list[BoolArray]:
        """Return per column a mask of the coarse bins that may be released; the others hold out-of-domain values."""
        return [axis.releasable for axis in self.model.domain.axes]

    @cached_property
    def misfits(self) -> FloatArray:
        """Return per column the estimated number of rows with an out-of-domain value, (d,).

        The number is 0 if out-of-domain values were not counted.
        """
        found = OutOfDomain.estimated(self.tables, self.kept).rows
        for j, kept in enumerate(self.kept):
            leaves = None if kept.all() else self._all_leaves(j)
            if leaves is not None:
                found[j] = max(0.0, leaves.counts[~self.model.refinements[j].fine.releasable].sum())
        return found

    @cached_property
    def out_of_domain(self) -> OutOfDomain:
        """Return the numbers of out-of-domain rows as an object that takes such rows out of measured tables."""
        return OutOfDomain(releasable=tuple(self.kept), rows=self.misfits, total=self.total[0])

    @cached_property
    def fitting(self) -> list[NoisyTable]:
        """Return the measured tables as they would be if all rows were in domain, as fits take them.

        Cells that may not be released are 0; see `OutOfDomain.remove`.
        """
        return [self.out_of_domain.remove(table) for table in self.tables]

    @cached_property
    def fitting_effects(self) -> list[NoisyTable]:
        """Return the effects that were measured without their tables, scaled up as if all rows were in domain.

        The fit has no out-of-domain rows, and an interaction alone leaves such rows out; see `OutOfDomain.remove`.
        """
        return [self.out_of_domain.remove(table) for table in self.measured_alone]

    @cached_property
    def effects(self) -> GLSEffects:
        """Return all measured main effects and interactions over releasable bins, combined by least squares.

        A main effect that no table contains is computed from the column's histograms.
        """
        main = {(j,): self._main_effect(j, leaves) for j, leaves in self._histograms_alone.items()}
        return replace(
            self._pooled,
            effects={**self._pooled.effects, **{part: effect.counts for part, effect in main.items()}},
            precisions={**self._pooled.precisions, **{part: effect.stddev**-2 for part, effect in main.items()}},
        )

    @cached_property
    def _pooled(self) -> GLSEffects:
        """Return each effect over releasable bins, by least squares from all tables and interactions; see `effects`."""
        return self.out_of_domain.pooled([*self.tables, *self.measured_alone])

    @cached_property
    def _histograms_alone(self) -> dict[int, FineBinCounts]:
        """Return the fine-bin counts of columns whose interactions were measured, but no table over the coarse bins.

        Their main effects come from these counts.
        """
        columns = {j for effect in self.measured_alone for j in effect.clique} - {
            j for part in self._pooled.precisions if len(part) == 1 for j in part
        }
        found = {j: self.leaves(j) for j in sorted(columns)}
        return {j: leaves for j, leaves in found.items() if leaves is not None}

    def _main_effect(self, column: int, leaves: FineBinCounts) -> NoisyTable:
        """Return a column's main effect, its releasable coarse bins' rows minus their mean, from its fine-bin counts.

        All bins have one typical stddev, because effects are combined with one precision each.
        """
        cells = self._cells_of_leaves(column, np.eye(int(self.kept[column].sum())))
        counts = cells @ leaves.counts
        spread = leaves.variances(cells - cells.mean(axis=0)).sum()
        stddev = max(math.sqrt(spread / max(len(counts) - 1, 1)), PUBLIC_STDDEV)
        return NoisyTable(clique=(column,), counts=counts - counts.mean(), stddev=stddev, alone=True)

    def _cells_of_leaves(self, column: int, weights: FloatArray) -> FloatArray:
        """Return weights of a column's fine bins, (q, fine bins), from weights of releasable coarse bins, (q, bins).

        Estimates and errors of fine bins then give estimates and errors of coarse bins.  Fine bins of other coarse bins
        have weight 0.
        """
        kept, cell = self.kept[column], self.model.refinements[column].coarse_cell
        place = np.maximum(np.cumsum(kept) - 1, 0)[cell]
        return np.asarray(weights[:, place] * kept[cell])

    @cached_property
    def merged(self) -> list[NoisyTable]:
        """Return the measured tables of two or more columns whose bins are merged coarse bins of the model.

        Bootstrap replicates are fitted to them as well.
        """
        return merged_tables(self.measurements, self.model.domain)

    @cached_property
    def screened(self) -> ScreenedDistances | None:
        """Return the distances of column pairs from independence, as fractions of the rows, from noisy scores.

        Error bars assume unmeasured relations of this strength.  Return ``None`` if no pairs were scored.
        """
        measured = np.zeros((len(self.model.domain),) * 2, np.bool_)
        for a, b in (clique for clique in self._had if len(clique) == 2):
            measured[a, b] = measured[b, a] = True
        return screened(self.measurements, self.model.domain, measured, max(self.total[0], 1.0))

    @cached_property
    def tells_relations(self) -> bool:
        """Return whether any noisy answer is about more than one column.

        If none is, noisy answers hold nothing on how columns are related, whatever the model assumes.
        """
        for measured in self.measurements:
            if measured.row_count is not None or measured.domain is None:
                continue
            if not measured.tables or any(len(table.clique) > 1 for table in measured.tables):
                return True
        return False

    def place(self, column: int) -> int:
        """Return the position in `model` of a column of the release; here it is the same, unlike in `ColumnSubset`."""
        return column

    def has(self, clique: Clique) -> bool:
        """Return whether the table of these columns was measured, inside a larger table or by all of its effects.

        Noisy counts then answer questions about these columns, without the model.
        """
        return tuple(sorted(clique)) in self._had

    @cached_property
    def _had(self) -> frozenset[Clique]:
        """Return the cliques whose tables the measurements determine: each of their effects was measured."""
        known = self.effects.precisions
        return frozenset(clique for clique in known if all(part in known for part in subsets_of(clique)))

    def first_level(self, column: int) -> tuple[Axis, FloatArray, float] | None:
        """Return the first histogram of a column: its axis, noisy counts and their stddev, a mean over its bins.

        Later histograms of the same bins, or of parts of them, are averaged in, by precision.  The model's one-way
        counts are taken to have this noise.  Return ``None`` without a histogram.
        """
        histograms = self._histograms(column)
        if not histograms:
            return None
        axis = histograms[0][0]
        counts, precision = np.zeros(axis.size), np.zeros(axis.size)
        for finer, more, stddev in histograms:
            groups = axis.groups_of(finer)
            if groups is not None:
                weight = 1 / (np.bincount(groups, minlength=axis.size) * max(stddev, LEAST_STDDEV) ** 2)
                counts += weight * np.bincount(groups, weights=more, minlength=axis.size)
                precision += weight
        counts /= precision
        return axis, counts, float(np.average(1 / precision, weights=np.maximum(counts, 1e-300))) ** 0.5

    def leaves(self, column: int) -> FineBinCounts | None:
        """Return the counts of a column's fine bins by least squares over all tables with the column.

        Return ``None`` if no table has the column.

        Rows counted as out of domain are spread over the other fine bins in proportion.  The counts are then ratios,
        with a first-order covariance.
        """
        if column not in self._leaves:
            self._leaves[column] = self._least_squares(column)
        return self._leaves[column]

    @cached_property
    def _leaves(self) -> dict[int, FineBinCounts | None]:
        """Return the cache of `leaves`: by column, the estimated counts of its fine bins, or ``None`` without any."""
        return {}

    def cell_errors(self, column: int) -> FloatArray | None:
        """Return the standard errors of the counts of a column's releasable coarse bins, (bins,), in rows.

        Reports sum them to the error of the column.  Return ``None`` without a histogram.
        """
        leaves = self.leaves(column)
        if leaves is None:
            return None
        cells = self._cells_of_leaves(column, np.eye(int(self.kept[column].sum())))
        return np.asarray(np.sqrt(np.maximum(leaves.variances(cells), 0.0)))

    def spread(self, column: int) -> FloatArray:
        """Return the effective rows of each fine bin, (fine bins,): the factor of a sum's variance inside the bin.

        A sum over the rows of a bin varies with their positions inside the bin.  Its variance is proportional to the
        rows if positions are independent, and larger if rows cluster at few values; see `effective_counts`.
        """
        leaves = self.leaves(column)
        if column not in self._spread and leaves is not None:
            self._spread[column] = effective_counts(leaves.counts, self.uneven(column))
        return self._spread[column]

    def uneven(self, column: int) -> float:
        """Return the intraclass correlation of rows inside a column's fine bins, 0 to 1, estimated once.

        The correlation says by how much rows cluster at few values, which widens intervals of questions that cut a fine
        bin.
        """
        if column not in self._uneven:
            leaves = self.leaves(column)
            fine = self.model.refinements[column].fine
            self._uneven[column] = 0.0 if leaves is None else intraclass_correlation(leaves, fine)
        return self._uneven[column]

    @cached_property
    def _uneven(self) -> dict[int, float]:
        """Return the cache of `uneven`: by column, the correlation of rows inside a fine bin."""
        return {}

    @cached_property
    def _spread(self) -> dict[int, FloatArray]:
        """Return the cache of `spread`: by column, the (fine bins,) effective rows."""
        return {}

    def variance_error(self, column: int) -> float:
        """Return the relative standard error of a column's variance due to noise in its counts, at most 1.

        The error matters for heavy tails, where few rows far out make most of the variance, and noise may hide them.
        """
        if column not in self._variance_errors:
            self._variance_errors[column] = self._variance_error(column)
        return self._variance_errors[column]

    @cached_property
    def _variance_errors(self) -> dict[int, float]:
        """Return the cache of `variance_error`: by column, the relative standard error of its variance."""
        return {}

    def _variance_error(self, column: int) -> float:
        """Return the relative standard error of a column's variance, at most 1; for `variance_error`.

        The error is 0 if the column was not measured, or its values are not numbers or all equal.
        """
        leaves, refinement = self.leaves(column), self.model.refinements[column]
        places = refinement.fine.points
        if leaves is None or np.isnan(places).all():
            return 0.0
        there = ~np.isnan(places)
        table = refinement.table()
        inside = table / np.maximum(table.sum(axis=1, keepdims=True), 1e-300)
        rows = np.where(there, self.model.distribution.marginal((column,)) @ inside, 0.0) * self.total[0]
        count = max(float(rows.sum()), 1.0)
        centred = np.where(there, places - rows[there] @ places[there] / count, 0.0) ** 2
        variance = float(rows @ centred) / count
        if variance <= 0:
            return 0.0
        error = math.sqrt(float(leaves.variances((centred - there * variance)[None, :])[0])) / count
        return min(error / variance, 1.0)

    def _least_squares(self, column: int) -> FineBinCounts | None:
        """Return a column's fine-bin counts, with out-of-domain rows spread over the bins in domain.

        Return None if the column was not measured.
        """
        leaves = self._all_leaves(column)
        if leaves is None or self.kept[column].all():
            return leaves
        fits = self.model.refinements[column].fine.releasable
        return InDomainFineBins.of(leaves, fits, least=max(MIN_IN_DOMAIN * self.total[0], 1.0))

    def _all_leaves(self, column: int) -> FineBinCounts | None:
        """Return the counts of all fine bins of a column, with out-of-domain bins; None if it was not measured.

        Least squares also takes the number of rows from tables without the column (`_rows_without`), so that a fraction
        of all rows has a precise denominator.
        """
        refinement = self.model.refinements[column]
        size = refinement.fine.size
        histograms = self._histograms(column)
        if not histograms:
            return None
        starts = refinement.fine.first_points.astype(np.uint32)
        parts, counted = [], self._rows_without(column)
        if counted is not None:
            exact = max(counted[1], EXACT * min(noise for _, _, noise in histograms))
            parts.append(Histogram(np.zeros(size, np.int64), np.array([counted[0]]), exact))
        for axis, counts, noise in histograms:
            parts.append(Histogram(axis.cells_of(starts).astype(np.int64), counts, noise))
        for table in self.tables:
            if column in table.clique:
                shape = table_shape(self.model.domain.shape, table.clique)
                others = tuple(i for i, j in enumerate(table.clique) if j != column)
                margin = table.counts.reshape(shape).sum(axis=others)
                noise = table.stddev * math.sqrt(table.counts.size / len(margin))
                parts.append(Histogram(refinement.coarse_cell, margin, noise))
        return gls_fine_bins(parts)

    def _rows_without(self, column: int) -> tuple[float, float] | None:
        """Return the number of rows by all tables and counts without a column, and the stddev of its error.

        The noise of this number is independent of the noise of the column's histograms.  A public number of rows is
        returned as it is, and ``None`` if everything that was measured has the column.
        """
        if self.total_is_public:
            return self.total
        return number_of_rows(self._row_counts, without=self.model.domain.names[column])

    def linear(self, clique: Clique, weights: FloatArray) -> LinearEstimates:
        """Return linear functions of the table of a clique, with exact standard errors.

        Parameters
        ----------
        clique
            Columns for which `has` is true.
        weights
            (q, cells) weight of a row in each cell.

        Returns
        -------
        The estimates weights @ table and their stddevs, (q,) each.  For each non-empty part A of the
        clique, W_A is the margin of the weights on A.  s_A is the number of cells of A's table divided by the clique's,
        and p_A is the precision of the effect of A.  The variance is the sum over A of s_A^2 |centred W_A|^2 / p_A,
        plus the variance of the total.  Effects of different A and the total have independent noise (`GLSEffects`).  A
        main effect from histograms alone has the variance of s_A (centred W_A) over their fine bins; its noise is
        almost independent of the total's.
        """
        inside = np.ones(1, np.bool_)
        for j in clique:
            inside = np.logical_and.outer(inside, self.kept[j]).ravel()
        weights = weights[:, inside]
        shape, cells = table_shape(self.effects.shape, clique), int(inside.sum())
        estimate = weights @ self.effects.table(clique)
        variance = np.zeros(len(weights))
        step = max(1, _AT_ONCE // cells)
        for begin in range(0, len(weights), step):
            block = weights[begin : begin + step].reshape(-1, *shape)
            variance[begin : begin + step] = self._variance(clique, block, cells)
        return LinearEstimates(estimate, np.sqrt(variance))

    def _variance(self, clique: Clique, block: FloatArray, cells: int) -> FloatArray:
        """Return the variances, (q,), of weighted sums over a clique's cells, by the formula in `linear`.

        ``block`` holds the weights, (q, *shape).
        """
        sizes = self.effects.shape
        variance = (block.reshape(len(block), -1).sum(axis=1) / cells * self.total[1]) ** 2
        for part in subsets_of(clique):
            margin = block.sum(axis=tuple(i + 1 for i, j in enumerate(clique) if j not in part))
            for axis in range(1, margin.ndim):
                margin = margin - margin.mean(axis=axis, keepdims=True)
            spread = table_size(sizes, part) / cells
            if len(part) == 1 and part[0] in self._histograms_alone:
                on_leaves = self._cells_of_leaves(part[0], spread * margin.reshape(len(block), -1))
                variance += self._histograms_alone[part[0]].variances(on_leaves)
                continue
            variance += spread**2 * (margin.reshape(len(block), -1) ** 2).sum(axis=1) / self.effects.precisions[part]
        return np.asarray(variance)

    def _histograms(self, column: int) -> list[tuple[Axis, FloatArray, float]]:
        """Return the one-column histograms of a column: axis, noisy counts and stddev of each; empty without any.

        The counts of the column's fine bins are estimated from them.
        """
        return self._histograms_by_name.get(self.model.domain.names[column], [])

    @cached_property
    def _histograms_by_name(self) -> dict[str, list[tuple[Axis, FloatArray, float]]]:
        """Return the histograms of each column, by name, for the counts of its fine bins.

        Left out are histograms that cut fine bins, and histograms of a single bin, which only count the rows that fit.
        """
        fine = {refinement.fine.name: refinement.fine for refinement in self.model.refinements}
        found: dict[str, list[tuple[Axis, FloatArray, float]]] = defaultdict(list)
        for measured in self.measurements:
            if measured.domain is None or measured.domain is self.model.domain:
                continue
            for table in measured.tables:
                if len(table.clique) == 1 and not table.alone:
                    axis = measured.domain.axes[table.clique[0]]
                    if axis.releasable.sum() < min(2, axis.grid.releasable):  # it only says how many rows fit
                        continue
                    if axis.groups_of(fine[axis.name]) is None:  # it cuts leaves, and says how round numbers are in all
                        continue
                    found[axis.name].append((axis, table.counts, table.stddev))
        return dict(found)


@dataclass(frozen=True, slots=True)
class ScreenedDistances:
    """Holds the L1 distances of column pairs from independence, as fractions of the rows, from noisy scores.

    Parameters
    ----------
    distances
        Distance by pair; empty for wide tables, whose pairs have one mean only.
    typical
        Mean distance of the scored pairs that were not measured, for wide tables.
    """

    distances: dict[Clique, float]
    typical: float = 0.0


def screened(
    measurements: Sequence[Measurements], domain: Domain, measured: BoolArray, rows: float
) -> ScreenedDistances | None:
    """Return the distances of column pairs from independence, as fractions of the rows, from a release's noisy scores.

    Of a wide table's scores only the typical distance of unmeasured pairs is returned.  Return None if the release
    scored no pairs.

    Chance and noise are subtracted from the scores.

    Parameters
    ----------
    measurements
        The noisy answers of the release.
    domain
        The domain of its model.
    measured
        (d, d) symmetric mask of the pairs with a noisy table.
    rows
        Number of rows, at least 1.
    """
    for found in measurements:
        asked = found.queries
        if isinstance(asked, MarginalDistances) and asked.domain is domain:
            offsets = asked.queries.offsets[:-1]
            expected = np.add.reduceat(np.sqrt(2 / math.pi * asked.expected / asked.denominator), offsets)
            distances = np.sqrt(np.maximum(_shrunk(found.answers, found.stddev) ** 2 - expected**2, 0.0))
            return ScreenedDistances(dict(zip(asked.queries.cliques, (distances / rows).tolist(), strict=True)))
        if isinstance(asked, PairDistances):
            columns, (left, right) = np.array(domain.index(*asked.domain.names)), asked.pairs
            missed = ~measured[columns[left], columns[right]]
            return ScreenedDistances({}, _typical(asked, found.answers, missed) / rows if missed.any() else 0.0)
    return None


def _typical(asked: PairDistances, answers: FloatArray, missed: BoolArray) -> float:
    """Return the mean distance from independence, in rows and beyond chance, of scored but unmeasured pairs.

    Unmeasured pairs of a wide table are taken to be as far from independence as this.
    """
    left, right = (columns[missed] for columns in asked.pairs)
    total = float(asked.margins[0].sum())
    roots = np.array([np.sqrt(margin / total).sum() for margin in asked.margins])
    chance = math.sqrt(2 / math.pi * total / asked.denominator) * roots[left] * roots[right]
    return math.sqrt(max(float(answers[missed].mean()) ** 2 - float(chance.mean()) ** 2, 0.0))


def _shrunk(scores: FloatArray, stddev: float) -> FloatArray:
    """Return noisy scores, (k,), shrunk towards their mean, by the part of noise in their variance (James, Stein 1961).

    A high score is high partly by noise, and would make error bars too wide.
    """
    mean = float(scores.mean())
    signal = max(0.0, float(scores.var()) - stddev**2)
    return mean + (scores - mean) * (signal / (signal + stddev**2))
