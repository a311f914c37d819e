"""Raking: rows drawn from the junction tree are reweighted to tables of cliques that lie off the tree.

Last step of a fit, after `max_entropy`; makes an `Explicit`.  Knows no private row.  `raked_exactly` fits rows
to tables that are known exactly, by iterative proportional fitting.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from synthdp.arrays import AnyArray, BoolArray, Clique, Codes, FloatArray, IntArray
from synthdp.checks import check_number, check_whole
from synthdp.distribution.distribution import Distribution
from synthdp.distribution.explicit import Explicit
from synthdp.distribution.markov_random_field import Graphical
from synthdp.fit.consistency import centred
from synthdp.fit.max_entropy import MaxEntropy
from synthdp.fit.moment_matching import MomentMatching, NoisyProducts
from synthdp.fit.proportional_step import exchanges, rake
from synthdp.queries.contingency import NoisyTable, Shape, cell_index, check_tables, table_shape, table_size
from synthdp.randomness import Generator

PARTICLES_EACH, FEWEST_PARTICLES = 10, 25_000
"""Weighted rows drawn per row of the private table, and the number that small tables get, both up to `Particles.size`.
With fewer in all, the cells of a small table would have no rows to weigh.  PARTICLES_EACH is a tolerance: a cell's
sampling variance is 1 / PARTICLES_EACH = a tenth of what the table's own rows have as a sample.  FEWEST_PARTICLES is a
safety limit.  Half and twice of the first change the three-way error of five tables by +.1 and -.1 %; of the second by
-.1 and +.1 % (docs/benchmarks/constants.md)."""

MOST_SWEEPS = 24
"""Most sweeps when few weighted rows make each one cheap, as tables and products of the same columns converge slowly.
A safety limit of time.
"""

STEPS = 2
"""Steps towards the mean products in each sweep; raking to tables in between undoes a little of them.  More come nearer
to the products in each sweep, which then takes longer.  A numerical tolerance: half and twice of it change the three-way
error of five tables by 0 and 0 % (docs/benchmarks/constants.md)."""


BLOCK_CELLS = 4096
"""Tables are raked in one block if all their columns together have at most this many cells: far fewer than rows, and they
fit a cache.  A safety limit of time: on Adult (benchmarks/speed/guard.py) 1000 to 16 000 cells take about as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Particles:
    """Settings of the weighted rows, called particles.

    Parameters
    ----------
    size
        Most rows drawn from the tree, >= 1; fewer for a small table.
    sweeps
        Passes over all tables with ``size`` rows, >= 1; with fewer rows more, up to `MOST_SWEEPS`, for the same time.
    ridges
        The settings whose ridges the tables had in the tree's fit.

    Raises
    ------
    ParameterError
        If a setting is outside its range.
    """

    size: int = 200_000
    sweeps: int = 6
    ridges: MaxEntropy = field(default_factory=MaxEntropy)

    def __post_init__(self) -> None:
        check_whole("size", self.size)
        check_whole("sweeps", self.sweeps)

    def fit(
        self,
        model: Graphical,
        tables: Iterable[NoisyTable],
        *,
        total: float,
        rng: Generator,
        products: Sequence[NoisyProducts] = (),
    ) -> Explicit:
        """Rake the weights of rows drawn from ``model`` to all ``tables``.

        Raking updates a table as the tree's fit does, with weighted rows in place of beliefs. A table whose clique has
        a potential in ``model`` goes on from it; the off-tree cliques start at 0. In each sweep the products and the
        off-tree cliques come first and the one-ways last, so that the one-ways are the most exact.

        Parameters
        ----------
        model
            The fitted tree; its structural zeros stay, since no row has them.
        tables
            Consistent tables, of the tree and of the off-tree cliques.
        total
            Number of rows, as in the tree's fit (raised to its ``total_floor``).
        rng
            Source of the rows.
        products
            Noisy mean products that the rows are matched to, a question each.

        Raises
        ------
        ParameterError
            If a table does not fit the model's shape, or ``total`` is not finite.
        """
        check_number("total", total)
        total = max(total, self.ridges.total_floor)
        ordered = sorted(tables, key=lambda table: _turn(table, model))
        check_tables(ordered, model.shape)
        size = min(self.size, max(FEWEST_PARTICLES, math.ceil(PARTICLES_EACH * total)))
        sweeps = max(self.sweeps, min(MOST_SWEEPS, self.sweeps * self.size // size))
        codes = model.sample(size, rng)
        blocks = [
            _Block.of(codes, model, [ordered[i] for i in places], self.ridges)
            for places in blocks_of(ordered, [_turn(table, model) for table in ordered], model.shape)
        ]
        ordered = [table for block in blocks for table in block.known]
        raked = [table for block in blocks for table in block.tables]
        weights = np.full(size, total / size)
        filled = [some for block in blocks for some in block.some()]
        shared = exchanges(ordered, [table.ridge for table in raked], filled, model.shape)
        potentials = [table.potential for table in raked]
        matching = MomentMatching.of(products, codes, weights) if products else None
        coefficients = np.zeros(0) if matching is None else matching.start
        for _ in range(sweeps):
            if matching is not None:
                weights, coefficients = _matched(matching, weights, coefficients, total)
            for block in blocks:
                weights = block.rake(weights, total=total)
            for exchange in shared:
                exchange.make(potentials)
        return Explicit(shape=model.shape, codes=codes, weights=weights)


def _matched(
    matching: MomentMatching, weights: FloatArray, coefficients: FloatArray, total: float
) -> tuple[FloatArray, FloatArray]:
    """Take `STEPS` steps of moment matching, which bring the rows' mean products nearer to the noisy ones.

    Return the rows' new weights, (m,) of sum ``total``, and the products' coefficients, (k,).
    """
    for _ in range(STEPS):
        factor, coefficients = matching.step(weights, coefficients)
        weights = weights * factor
        weights *= total / weights.sum()
    return weights, coefficients


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RakedTable:
    """A table that weighted rows are raked to.

    Parameters
    ----------
    cells
        (m,) the cell of each row.
    counts
        (cells,) the counts to approach, in rows.
    potential
        (cells,) the log-potential of the table, which every step changes in place.
    ridge
        Ridge of the potential, in rows.
    alone
        The sizes of the table's axes, if only its interaction is to be approached, and its margins stay as they are;
        else ``None``.
    """

    cells: AnyArray
    counts: FloatArray
    potential: FloatArray
    ridge: float
    alone: Shape | None = None

    def target(self, expected: FloatArray) -> FloatArray:
        """Return the counts to approach, (cells,) in rows.

        An interaction alone is added to the margins of ``expected``, (cells,), the counts under the weights now.
        """
        if self.alone is None:
            return self.counts
        return self.counts + expected - centred(expected.reshape(self.alone)).ravel()


def rake_rows(weights: FloatArray, tables: Sequence[RakedTable], *, total: float) -> FloatArray:
    """Take the exact step of each table in turn, and return the new weights of the rows, (m,).

    Parameters
    ----------
    weights
        (m,) with sum ``total``.
    tables
        Tables in the order in which they are raked; cells without a row are left alone.
    total
        Number of rows.
    """
    for table in tables:
        expected = np.asarray(np.bincount(table.cells, weights, minlength=table.potential.size), np.float64)
        factor = rake(
            expected, table.potential, table.target(expected), cells=expected > 0, ridge=table.ridge, total=total
        )
        weights = weights * factor[table.cells]
    return weights


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Block:
    """Tables that are raked together over the cells of their joint columns instead of over rows, which saves time.

    Parameters
    ----------
    known
        The tables.
    tables
        The same, over the cells of the block in place of rows.
    cells
        (m,) the cell of the block that each row lies in.
    size
        Number of cells of the block.
    """

    known: list[NoisyTable]
    tables: list[RakedTable]
    cells: AnyArray
    size: int

    @classmethod
    def of(cls, codes: Codes, model: Graphical, known: list[NoisyTable], ridges: MaxEntropy) -> _Block:
        """Return tables as one block of cells, which stand for the rows, (m, d) codes, while its tables are raked."""
        columns = tuple(sorted({a for table in known for a in table.clique}))
        tables = [
            RakedTable(
                cells=_inside(columns, model.shape, table),
                counts=table.counts,
                potential=_potential(model, table),
                ridge=ridges.ridge_of(table),
                alone=table.shape(model.shape) if table.alone else None,
            )
            for table in known
        ]
        return cls(
            known=known,
            tables=tables,
            cells=cell_index(codes, model.shape, columns),
            size=table_size(model.shape, columns),
        )

    def rake(self, weights: FloatArray, *, total: float) -> FloatArray:
        """Return the rows' weights, (m,) of sum ``total``, after raking them to each table of the block in turn."""
        before = np.asarray(np.bincount(self.cells, weights, minlength=self.size), np.float64)
        after = rake_rows(before, self.tables, total=total)
        factor = np.divide(after, before, out=np.ones(self.size), where=before > 0)
        return weights * factor[self.cells]  # not `take`, which needs thrice the time where cells are narrow

    def some(self) -> list[BoolArray]:
        """Return, for each table, which of its cells hold a row, (cells,); others cannot be filled by weights."""
        rows = np.bincount(self.cells, minlength=self.size)
        return [np.bincount(table.cells, rows, table.potential.size) > 0 for table in self.tables]


def _turn(table: NoisyTable, model: Graphical) -> tuple[bool, bool]:
    """Return the sort key of a table's turn: tables outside of the tree first, and one-ways last.

    The tables that are raked last are met most exactly.
    """
    return table.clique in model.potentials, len(table.clique) == 1


def blocks_of(tables: Sequence[NoisyTable], turns: Sequence[object], shape: Shape) -> list[list[int]]:
    """Group tables of the same turn into blocks of at most `BLOCK_CELLS` cells; returns positions of tables by block.

    A sweep then passes over the cells of a block instead of over all rows.  A single larger table is a block of its
    own.

    Parameters
    ----------
    tables
        Ordered by their turn.
    turns
        Turn of each table; tables of different turns are in different blocks.
    shape
        Number of codes of each column.
    """
    blocks: list[list[int]] = []
    columns: list[set[int]] = []
    for i, table in enumerate(tables):
        sizes = [
            (table_size(shape, columns[b].union(table.clique)), b)
            for b, block in enumerate(blocks)
            if turns[block[0]] == turns[i]
        ]
        size, b = min(sizes, default=(BLOCK_CELLS + 1, 0))
        if size > BLOCK_CELLS:
            b = len(blocks)
            blocks.append([])
            columns.append(set())
        blocks[b].append(i)
        columns[b].update(table.clique)
    return blocks


def _inside(columns: Clique, shape: Shape, table: NoisyTable) -> AnyArray:
    """Return, for each cell of a block's joint table, (block's cells,), the cell of one of the block's tables.

    The table's codes may be merged.  So the block's cells can be raked to the table as rows would be.
    """
    numbers = np.arange(table_size(shape, table.clique)).reshape(
        [shape[a] if a in table.clique else 1 for a in columns]
    )
    whole, merged = np.broadcast_to(numbers, table_shape(shape, columns)).ravel(), table.merged_cells
    return whole if merged is None else merged[whole]


def _potential(model: Graphical, table: NoisyTable) -> FloatArray:
    """Return a table's log-potential in the model, (cells,), from which raking goes on.

    The potential is 0 where the model has no potential or the cell is impossible.
    """
    known = model.potentials.get(table.clique)
    if known is None:
        return np.zeros(table.counts.size)
    finite, merged = np.where(np.isfinite(known), known, 0.0), table.merged_cells
    if merged is None:
        return finite
    potential = np.zeros(table.counts.size)
    possible = np.isfinite(known)
    potential[merged[possible]] = finite[possible]  # one value in all of a group's cells
    return potential


ROWS, MOST_ROWS = 100_000, 300_000
"""Fewest and most rows drawn from a model before they are raked to totals; between, twice the number of the table's
rows.  More keep the relations of the model better.  Safety limits of time and memory."""

SWEEPS, SETTLED = 500, 1e-9
"""Most rounds of raking, and the largest error of a total, as a fraction of all rows, at which it ends.  Numerical
tolerances.
"""

LARGE, FEW_SWEEPS = 2_000, 12
"""If the totals have more than LARGE cells, only FEW_SWEEPS rounds are made.  A safety limit of time; sampled rows are
moved to the totals exactly later.
"""

SPARE = 1e-3
"""Fraction of all weight given to rows that are made up where a total has rows and the model has none.  A numerical
tolerance: raking to one table of totals gives the same weights for any fraction, and to several nearly so."""


def raked_exactly(
    model: Distribution,
    totals: Sequence[tuple[Clique, FloatArray]],
    *,
    zeros: Mapping[Clique, BoolArray],
    rng: Generator,
    rows: float = ROWS,
) -> Explicit:
    """Return weighted rows of a model, as fractions of all rows, that have public totals, by iterative proportional fitting.

    Where totals have rows and the model has none, rows of the model are given the values that are missing, unless a
    rule forbids it.  Totals that rules forbid are missed, and totals of very many cells are met only nearly; see
    `LARGE`.

    Parameters
    ----------
    model
        The distribution to stay close to, in relative entropy.
    totals
        For some cliques the (cells,) rows, which agree with each other; all sums are the same.  Only their proportions
        matter, since the weights of rows sum to 1.
    zeros
        For some cliques, which combinations may occur.
    rng
        Random generator for rows of the model, if the model is not a list of weighted rows already.
    rows
        About how many rows the table has.
    """
    shape = model.shape
    if isinstance(model, Explicit):
        codes, weights = np.asarray(model.codes), np.asarray(model.weights)
    else:
        size = int(min(max(ROWS, 2 * rows), MOST_ROWS))
        codes = np.asarray(model.sample(size, rng))
        weights = np.full(size, 1 / size)
    for clique, counts in totals:
        there = np.bincount(cell_index(codes, shape, clique), weights, minlength=len(counts)) > 0
        empty = np.flatnonzero((counts > 0) & ~there)
        if len(empty):
            each = -(-len(codes) // (10 * len(empty)))
            made = codes[rng.choice(len(codes), size=each * len(empty), p=weights)].astype(np.int64)
            values = np.unravel_index(np.repeat(empty, each), [shape[j] for j in clique])
            for j, value in zip(clique, values, strict=True):
                made[:, j] = value
            allowed = np.ones(len(made), np.bool_)
            for rule, mask in zeros.items():
                allowed &= mask[cell_index(made, shape, rule)]
            made = made[allowed]
            weights = np.concatenate([weights * (1 - SPARE), np.full(len(made), SPARE / max(len(made), 1))])
            codes = np.vstack([codes, made.astype(codes.dtype)])
    cells: list[IntArray] = [np.asarray(cell_index(codes, shape, clique), np.int64) for clique, _ in totals]
    sweeps = SWEEPS if sum(len(counts) for _, counts in totals) <= LARGE else FEW_SWEEPS
    for _ in range(sweeps):
        moved = 0.0
        for (_, counts), cell in zip(totals, cells, strict=True):
            wanted = counts / counts.sum()
            now = np.bincount(cell, weights, minlength=len(counts))
            moved = max(moved, float(np.abs(wanted - now).max()))
            weights = weights * np.divide(wanted, now, out=np.zeros(len(now)), where=now > 0)[cell]
        if moved < SETTLED:
            break
    return Explicit(shape=shape, codes=codes, weights=weights)
