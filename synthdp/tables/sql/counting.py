"""Tables counted in a database: rows are coded once into a temporary table, and every question is one statement over it.

Columns are packed as `synthdp.queries.marginals` packs them: a GROUP BY over two packs counts all pairs of columns between
them, and the tables are summed out of it here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthdp.arrays import AnyArray, Clique, Codes, Totals
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.queries.linear import Total
from synthdp.queries.marginals import MOST_CELLS, margin_of, pack
from synthdp.queries.products import ClippedProducts, PairProducts, Products
from synthdp.queries.protocol import Statistic
from synthdp.tables.sql.encoding import WORDS

MOST_SUMS = 500
"""Most sums that one SQL statement returns as columns; PostgreSQL allows 1664 columns.  A safety limit."""


MOST_RUNS = 256
"""Most intervals of grid indices, in a column's binning, that SQL searches by nested comparisons; with more, SQL
looks single points up in lists.  A safety limit."""


@dataclass(frozen=True, slots=True)
class CountingQuery:
    """One SQL statement that counts several marginals, and how to read them from its answer.

    Parameters
    ----------
    sql
        It gives rows of three whole numbers: which group, which cell, how many rows.
    groups
        The columns of each group, in the order of its axes.
    """

    sql: str
    groups: tuple[Clique, ...]

    def tables(self, answer: AnyArray, domain: Domain, cliques: Sequence[Clique]) -> Totals:
        """Return the marginals of some cliques, flattened and concatenated, (k,), from the statement's answer, (m, 3).

        The answer's rows are group, cell and count, for cells that are not empty.  Cliques are sums over their group's
        table.
        """
        counted: list[AnyArray] = []
        for number, group in enumerate(self.groups):
            mine = answer[answer[:, 0] == number]
            table = np.zeros(math.prod(domain.shape[j] for j in group), np.int64)
            table[mine[:, 1]] = mine[:, 2]
            counted.append(table.reshape([domain.shape[j] for j in group]))
        places = [next(g for g, group in enumerate(self.groups) if set(clique) <= set(group)) for clique in cliques]
        pairs = zip(places, cliques, strict=True)
        return np.concatenate([margin_of(counted[g], self.groups[g], clique) for g, clique in pairs])


def counting_query(domain: Domain, cliques: Sequence[Clique], coded: str, names: Sequence[str]) -> CountingQuery:
    """Return one SQL statement that counts the marginals of some cliques in one pass over the encoded rows.

    Parameters
    ----------
    domain
        The cells of each column.
    cliques
        The tables.
    coded
        The table of grid indices.
    names
        The name of each column's grid index in it.
    """
    groups = _groups(domain.shape, cliques)
    used = sorted({j for group in groups for j in group})
    cells = ", ".join(f"{cell_sql(domain.axes[j], names[j])} AS c{j}" for j in used)
    counts = []
    for number, group in enumerate(groups):
        cell = _flat([f"c{j}" for j in group], [domain.shape[j] for j in group])
        counts.append(f"SELECT {number} AS which, {cell} AS cell, count(*) AS n FROM coded_cells GROUP BY {cell}")  # noqa: S608
    sql = f"WITH coded_cells AS MATERIALIZED (SELECT {cells} FROM {coded}) {' UNION ALL '.join(counts)}"  # noqa: S608
    return CountingQuery(sql, tuple(groups))


def listing_query(domain: Domain, coded: str, names: Sequence[str]) -> str:
    """Return SQL for every combination of bins that occurs, with its number of rows.

    Statistics other than marginals are computed in Python from its result, which is smaller than the rows.  ``coded``
    is the table of the rows' grid indices, ``names`` are its columns.
    """
    cells = [cell_sql(axis, names[j]) for j, axis in enumerate(domain.axes)]
    named = ", ".join(f"{cell} AS c{j}" for j, cell in enumerate(cells))
    every = ", ".join(f"c{j}" for j in range(len(cells)))
    return f"SELECT {every}, count(*) AS n FROM (SELECT {named} FROM {coded}) listed GROUP BY {every}"  # noqa: S608


def summing_queries(statistic: Statistic, coded: str, names: Sequence[str], dialect: str) -> list[tuple[str, int]]:
    """Return SQL statements that compute a statistic's sums over rows, each with its number of sums.

    A statement returns one row of at most `MOST_SUMS` sums, in order.  The statistics that have such statements are the
    number of rows and clipped products of two columns' scores; the list is empty for any other statistic.  Scores,
    their products and squares are whole numbers of 64 bits.

    Parameters
    ----------
    statistic
        What is summed.
    coded, names
        The table of grid indices, and the name of each column's grid index in it.
    dialect
        ``"postgres"`` or ``"duckdb"``.
    """
    match statistic:
        case Total():
            sums, rows = ["count(*) AS n"], coded
        case PairProducts(most=most):
            pairs, rows = _scored_pairs(statistic, coded, names)
            sums = _summed([f"least(greatest(s{a} * s{b}, -{most}), {most})" for a, b in pairs])
        case ClippedProducts():
            pairs, rows = _scored_pairs(statistic, coded, names)
            used = sorted({j for pair in pairs for j in pair})
            rows = _with_factor(statistic, rows, [f"s{j}" for j in used], dialect)
            real = WORDS[dialect].real
            sums = _summed([f"CAST(trunc(CAST(s{a} * s{b} AS {real}) * f) AS bigint)" for a, b in pairs])
        case _:
            return []
    parts = [sums[i : i + MOST_SUMS] for i in range(0, len(sums), MOST_SUMS)]
    return [(f"SELECT {', '.join(part)} FROM {rows}", len(part)) for part in parts]  # noqa: S608 - names of our own


def _summed(values: Sequence[str]) -> list[str]:
    """Return SQL for the sum over rows of each value, 0 without rows."""
    return [f"CAST(coalesce(sum({one}), 0) AS bigint) AS n{i}" for i, one in enumerate(values)]


def _scored_pairs(products: Products, coded: str, names: Sequence[str]) -> tuple[list[tuple[int, int]], str]:
    """Return the columns of each product, and SQL for rows of the scores of these columns, called s0, s1 and so on."""
    left, right = products.pairs
    pairs = list(zip(left.tolist(), right.tolist(), strict=True))
    scores = []
    for j in sorted({j for pair in pairs for j in pair}):
        axis = products.domain.axes[j]
        score = binary_search(names[j], axis.starts.tolist()[1:], products.scores[j][axis.cells].tolist())
        scores.append(f"CAST({score} AS bigint) AS s{j}")
    return pairs, f"(SELECT {', '.join(scores)} FROM {coded}) scored"  # noqa: S608


def _with_factor(products: ClippedProducts, rows: str, columns: Sequence[str], dialect: str) -> str:
    """Return SQL for rows of scores with the factor f that scales each row's products down to the clipping norm.

    The factor, its product and its rounding towards 0 are the floating-point operations of `ClippedProducts.features`,
    in the same order; the squared norm is a whole number.
    """
    squares = " + ".join(f"{s} * {s}" for s in columns)
    fourths = " + ".join(f"{s} * {s} * {s} * {s}" for s in columns)
    every, real = ", ".join(columns), WORDS[dialect].real
    squared = f"(({squares}) * ({squares}) - ({fourths})) {WORDS[dialect].divide} 2 AS q"
    factor = (
        f"CASE WHEN q > {products.norm**2} THEN CAST('{products.clipped_to!r}' AS {real}) / sqrt(CAST(q AS {real})) "
        "ELSE 1 END AS f"
    )
    return f"(SELECT {every}, {factor} FROM (SELECT {every}, {squared} FROM {rows}) squared) clipped"  # noqa: S608


def repeated(answer: AnyArray) -> Codes:
    """Return rows of bin codes, (rows, d), from distinct combinations with their counts, (m, d + 1).

    Statistics that need rows can then use the answer of `listing_query`.
    """
    return np.asfortranarray(np.repeat(answer[:, :-1], answer[:, -1], axis=0))


def cell_sql(axis: Axis, index: str) -> str:
    """Return SQL for the bin of a grid index: the index itself if bins are single points, else a binary search.

    In a binning of very many intervals, such as round numbers, single grid points are listed instead, which databases
    look up by hash.
    """
    starts, cells = axis.starts.tolist(), axis.cells.tolist()
    if cells == starts:
        return index
    if len(starts) <= MOST_RUNS:
        return binary_search(index, starts[1:], cells)
    single = np.diff(axis.starts, append=axis.grid.size) == 1
    listed = [axis.starts[single & (axis.cells == cell)].tolist() for cell in range(axis.size)]
    whens = "".join(
        f"WHEN {index} IN ({', '.join(map(str, one))}) THEN {cell} " for cell, one in enumerate(listed) if one
    )
    left = np.flatnonzero(~single)
    if not len(left):
        return f"CASE {whens}END"
    first = left[np.diff(axis.cells[left], prepend=-1) != 0]  # what is not listed, neighbours of one cell together
    rest = binary_search(index, axis.starts[first].tolist()[1:], axis.cells[first].tolist())
    return f"CASE {whens}ELSE {rest} END"


def binary_search(value: str, ends: Sequence[int | str], cells: Sequence[int]) -> str:
    """Return SQL that finds the bin of a value, or of a grid index, among the bins' sorted ends."""
    if not ends:
        return str(cells[0])
    middle = len(ends) // 2
    low, high = (
        binary_search(value, ends[:middle], cells[: middle + 1]),
        binary_search(value, ends[middle + 1 :], cells[middle + 1 :]),
    )
    return f"CASE WHEN {value} < {ends[middle]} THEN {low} ELSE {high} END"


def _groups(shape: Sequence[int], cliques: Sequence[Clique]) -> list[Clique]:
    """Return sets of columns to count together; every clique's marginal can be summed from the table of one of them.

    Counting few large tables takes fewer passes over the rows than many small ones.
    """
    groups: dict[Clique, None] = {}
    for ways in sorted({len(clique) for clique in cliques}):
        members = [clique for clique in cliques if len(clique) == ways]
        packs = pack(
            sorted({j for clique in members for j in clique}), shape, math.floor(MOST_CELLS ** (1 / ways) + 1e-9)
        )
        pack_of = {j: p for p, columns in enumerate(packs) for j in columns}
        inside: dict[tuple[int, ...], list[Clique]] = {}
        for clique in members:
            inside.setdefault(tuple(sorted({pack_of[j] for j in clique})), []).append(clique)
        for together, some in inside.items():
            columns = tuple(j for p in together for j in packs[p])
            alone = len(some) == 1 or math.prod(shape[j] for j in columns) > MOST_CELLS
            groups |= dict.fromkeys(some if alone else [columns])
    return list(groups)


def _flat(cells: Sequence[str], sizes: Sequence[int]) -> str:
    """Return SQL for the flat index of a cell, in C order, from its bins in each column.

    ``sizes`` are the numbers of bins.
    """
    flat = f"CAST({cells[0]} AS bigint)"
    for cell, size in zip(cells[1:], sizes[1:], strict=True):
        flat = f"({flat} * {size} + {cell})"
    return flat
