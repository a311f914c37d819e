"""Interactions: what tables of some columns say beyond tables of fewer columns, for less sensitivity than a table's."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from synthdp.arrays import AnyArray, BoolArray, Clique, Codes, Features, FloatArray, IntArray, Totals
from synthdp.checks import whole
from synthdp.codec import file_form
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError
from synthdp.queries.contingency import LEAST_STDDEV, NoisyTable, checked_cliques, ordered, table_shape
from synthdp.queries.linear import LinearFamily
from synthdp.queries.marginals import Marginals
from synthdp.queries.norms import Norms, RecordBounds
from synthdp.queries.protocol import check_overflow


@file_form("interactions")
@dataclass(frozen=True, slots=True, eq=False)
class Interactions(LinearFamily):
    """The table of each clique, centred along every axis, in whole numbers.

    A record x adds w_A times the product over j in A of (n_j [x_j = i_j] - 1) to cell i of clique A. Here w_A is the
    weight of A, and n_j is the number of cells of column j that a released row may have.  Divided by the weight and by
    all n_j, the sums are the residual of the table after all tables of fewer columns (Xiao et al. 2023,
    ResidualPlanner).  A record that is out of domain in a column of A adds nothing to A.

    One record moves the interaction of A, so divided, by a vector whose squared length is the product of 1 - 1 / n_j: a
    quarter for two binary columns, where their table moves by 1.

    Parameters
    ----------
    domain
        The axes.
    cliques
        Different positions of the columns of each interaction.
    weights
        For each, the whole number by which it is multiplied: noise in it is divided by as much.

    Raises
    ------
    ParameterError
        If a clique is empty, repeats a column or leaves the domain.  Also if a weight is not a whole number of at least
        1.
    SensitivityError
        If a sum might overflow.
    """

    domain: Domain
    cliques: tuple[Clique, ...]
    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "cliques", checked_cliques(self.cliques, len(self.domain)))
        object.__setattr__(self, "weights", tuple(whole("weights", weight, least=1) for weight in self.weights))
        if not self.cliques or len(self.weights) != len(self.cliques):
            raise ParameterError("cliques must hold at least one clique, and weights must hold one weight per clique")
        check_overflow(self)

    @property
    def kept(self) -> list[BoolArray]:
        """Per column, (cells,): which of its cells a released row may have; interactions are over these."""
        return [axis.releasable for axis in self.domain.axes]

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The sizes of the axes of each interaction: how many cells of each of its columns a released row may have."""
        sizes = [int(kept.sum()) for kept in self.kept]
        return tuple(tuple(sizes[j] for j in clique) for clique in self.cliques)

    @property
    def k(self) -> int:
        """Number of cells in all."""
        return sum(math.prod(shape) for shape in self.shapes)

    @property
    def scales(self) -> tuple[int, ...]:
        """For each interaction, its weight times its number of cells: answers divided by this factor are in rows."""
        return tuple(w * math.prod(shape) for w, shape in zip(self.weights, self.shapes, strict=True))

    @property
    def ones(self) -> tuple[int, ...]:
        """For each interaction, the whole number that stands for one row: equal to `scales`; receipts state noise by it."""
        return self.scales

    @property
    def bounds(self) -> RecordBounds:
        """The sensitivity: every record that fits moves an interaction equally far.

        A swap is bounded by the worst pair of records.
        """
        parts = list(zip(self.shapes, self.weights, strict=True))
        return RecordBounds(
            _together([(norms_of_one(tuple(sorted(shape))), weight) for shape, weight in parts]),
            _together([(norms_of_swap(tuple(sorted(shape))), weight) for shape, weight in parts]),
        )

    def features(self, codes: Codes) -> Features:
        """Return what each row adds to each cell of the centred, weighted tables, (n, k), in whole numbers."""
        return np.hstack(
            [
                self._centred(np.asarray(table, np.int64), clique, weight)
                for table, clique, weight in zip(self._indicators(codes), self.cliques, self.weights, strict=True)
            ]
        )

    @property
    def counted(self) -> Marginals:
        """The tables of the same cliques, from whose counts the answers follow; see `counted_tables`."""
        return Marginals(self.domain, self.cliques)

    def sums(self, codes: Codes) -> Totals:
        """Return all cells of the centred, weighted tables of some rows, (k,): counted first, then centred, exactly."""
        return self.of_tables(self.counted.sums(codes))

    def of_tables(self, counts: Totals) -> Totals:
        """Return the answers of `sums`, (k,), from the counts of rows in the tables that `counted` asks for."""
        tables = self.counted.split(counts)
        parts = [
            self._centred(table[None, :], clique, weight)[0]
            for table, clique, weight in zip(tables, self.cliques, self.weights, strict=True)
        ]
        return np.concatenate(parts)

    def split(self, answers: FloatArray) -> list[FloatArray]:
        """Cut a (k,) vector of all answers into a flat table per interaction, in rows, over the releasable cells."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])
        return [part / scale for part, scale in zip(np.split(answers, ends[:-1]), self.scales, strict=True)]

    def noisy_tables(self, answers: FloatArray, stddev: float) -> list[NoisyTable]:
        """Return (k,) noisy answers as one `NoisyTable` per clique, in rows, that holds the interaction without margins."""
        found, kept = [], [np.flatnonzero(cells) for cells in self.kept]
        for clique, values, shape, scale in zip(
            self.cliques, self.split(answers), self.shapes, self.scales, strict=True
        ):
            columns = tuple(sorted(clique))
            counts = np.zeros(table_shape(self.domain.shape, columns))
            inside = np.ix_(*(kept[j] for j in columns))
            counts[inside] = ordered(clique, values, shape).reshape(counts[inside].shape)
            noise = max(stddev / scale, LEAST_STDDEV)
            found.append(NoisyTable(clique=columns, counts=counts.ravel(), stddev=noise, alone=True))
        return found

    def _indicators(self, codes: Codes) -> list[IntArray]:
        """Return, for each clique, the (rows, cells) indicator of each row's cell."""
        tables = []
        for clique in self.cliques:
            table = np.zeros((len(codes), math.prod(self.domain.shape[j] for j in clique)), np.int64)
            np.put_along_axis(table, self.domain.ravel(codes, clique)[:, None].astype(np.int64), 1, axis=1)
            tables.append(table)
        return tables

    def _centred(self, tables: AnyArray, clique: Clique, weight: int) -> IntArray:
        """Return flat tables, (m, all cells), centred along every axis and multiplied by the weight, (m, releasable cells).

        Only whole numbers are used, so that the result is exact.
        """
        kept = self.kept
        inside = tables.reshape(-1, *(self.domain.shape[j] for j in clique))[
            np.ix_(np.arange(len(tables)), *(np.flatnonzero(kept[j]) for j in clique))
        ]
        for axis in range(1, inside.ndim):
            inside = inside * inside.shape[axis] - inside.sum(axis=axis, keepdims=True)
        return np.asarray(weight * inside.reshape(len(tables), math.prod(inside.shape[1:])), np.int64)


def _together(parts: Sequence[tuple[Norms, int]]) -> Norms:
    """Return the norms of several vectors, each multiplied by its weight, side by side: of all interactions."""
    return Norms(
        sum(norms.l1 * weight for norms, weight in parts),
        sum(norms.l2_squared * weight**2 for norms, weight in parts),
        max(norms.linf * weight for norms, weight in parts),
    )


@cache
def norms_of_one(shape: tuple[int, ...]) -> Norms:
    """Return the exact norms of what one record x adds to an interaction of weight 1: its sensitivity.

    The record adds the product over columns j of (n_j [x_j = i_j] - 1) to each cell i; ``shape`` has the n_j.
    """
    return Norms(
        math.prod(2 * (n - 1) for n in shape), math.prod(n * (n - 1) for n in shape), math.prod(n - 1 for n in shape)
    )


@cache
def norms_of_swap(shape: tuple[int, ...]) -> Norms:
    """Return the exact largest norms of the change of an interaction when one record replaces another.

    An out-of-domain record adds nothing, so a swap with it changes less.  Two records agree in some columns and differ
    in others.  Along an axis of n cells the records' factors are (n - 1, n - 1) in one cell where they agree.  Where they
    differ, the factors are (n - 1, -1) and (-1, n - 1) in one cell each.  All other factors are (-1, -1).  All cells with
    equal factors are counted together.
    """
    worst = Norms(0, 0, 0)
    for differ in itertools.product((False, True), repeat=len(shape)):
        if any(apart and n < 2 for apart, n in zip(differ, shape, strict=True)):
            continue
        l1 = l2_squared = linf = 0
        for factors in itertools.product(*(_factors(n, apart) for n, apart in zip(shape, differ, strict=True))):
            cells = math.prod(often for _, _, often in factors)
            change = abs(math.prod(a for a, _, _ in factors) - math.prod(b for _, b, _ in factors))
            l1 += cells * change
            l2_squared += cells * change**2
            linf = max(linf, change if cells else 0)
        worst = worst.either(Norms(l1, l2_squared, linf))
    return worst


def _factors(n: int, apart: bool) -> tuple[tuple[int, int, int], ...]:
    """Return the pairs of factors of two records along an axis of n cells, and how many cells have each pair.

    ``apart`` is whether the records differ along the axis.
    """
    if apart:
        return (n - 1, -1, 1), (-1, n - 1, 1), (-1, -1, n - 2)
    return (n - 1, n - 1, 1), (-1, -1, n - 1)
