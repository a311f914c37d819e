"""Which tables of persons are worth their noise, by noisy scores; and how much each matters: post-processing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from synthdp.arrays import FloatArray, IntArray
from synthdp.domain.histories import Layout
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.mechanisms.workload import Workload
from synthdp.queries.person_tables import Kind, PersonTable
from synthdp.schema.database import DatabaseSchema

WORTH = 0.5
"""What measuring a table gains is its noisy distance from the model, less this fraction of its noise: the stddev of a
cell, summed over cells.  More measures fewer tables with less noise each, less measures weaker relations too.  Tuned;
not measured.
"""

MEAN_ABS = math.sqrt(2 / math.pi)
"""The mean of |Z| for a standard normal Z, √(2 / π): turns a standard deviation into a mean absolute error.  Derived.
"""

CLEARLY = 2.0
"""A relation is measured again with more budget if its squared distance from the model exceeds what noise explains by
this many standard deviations.  A larger one spends on fewer, stronger relations.  A convention.
"""

LOST = 0.2
"""Where a table's noise exceeds its gain, measuring it is assumed to lose at most this fraction of the gain, since
noisy tables are shrunk.  More measures fewer such tables.  Tuned with `WORTH`.
"""


FAMILY, UNRELATED = 4, 0.25
"""From FAMILY tables on that share an axis, the UNRELATED quantile of their gains estimates how wrong that axis alone
is.  The quantile is low because in panels most tables show a relation, so that the median would be one.  Tuned: insurer
and STAR.
"""


def beyond_shared(gains: FloatArray, tables: Sequence[PersonTable], counts: Mapping[int, str]) -> FloatArray:
    """Return the gains of tables without the part that all tables sharing an axis have, which none of them can repair.

    Say the model does not know that short policies have few claims.  Then all tables of a policy's length and an
    attribute of its claims are off by as much.  Only the table of its length and its number of claims repairs them.
    Some pairs are always unrelated, so that a low quantile of such tables is about that part; the table that repairs it
    gains it.

    Parameters
    ----------
    gains
        (tables,) noisy distances from the model so far, in persons, beyond chance.
    tables
        The tables that were scored.
    counts
        By position of a table the attribute of its parent that says how many rows there are.
    """
    found = gains.copy()
    families: dict[tuple[Kind, int, int, str], list[int]] = {}
    for i, one in enumerate(tables):
        if one.kind is not Kind.ROW:  # whose axes are one-way tables, both
            families.setdefault((one.kind, one.table, one.above, one.other), []).append(i)
    for (kind, table, above, other), family in families.items():
        if len(family) < FAMILY:
            continue
        shared = max(0.0, float(np.quantile(gains[family], UNRELATED)))
        found[family] -= shared
        if kind is Kind.PARENT:
            for i, one in enumerate(tables):
                of_count = counts.get(table) in (one.attribute, one.other)
                if one.kind is Kind.ROW and one.table == above and of_count and other in (one.attribute, one.other):
                    found[i] += shared
    return found


def related(noisy: FloatArray, expected: FloatArray, stddev: float) -> bool:
    """Return whether a noisy table differs from what is expected by more than its noise explains (sum of squares).

    Only such a table is worth measuring again with more budget; see `CLEARLY`.

    Parameters
    ----------
    noisy, expected
        Counts, of one shape.
    stddev
        Standard deviation of the noise in each cell.
    """
    off = float(((noisy - expected) ** 2).sum()) / max(stddev, 1e-300) ** 2
    return off > noisy.size + CLEARLY * math.sqrt(2 * noisy.size)


def worth_measuring(
    gains: FloatArray, sizes: FloatArray, weights: FloatArray, budget: BudgetAllocation
) -> tuple[IntArray, IntArray]:
    """Return positions of the tables that gain most if they share the budget, and of all in the order tried.

    More tables mean more noise in each, so that their number grows with epsilon and with the number of persons.

    Parameters
    ----------
    gains
        (tables,) noisy distance from the model so far, in persons, beyond chance.
    sizes, weights
        (tables,) numbers of cells, and how much each matters.
    budget
        The largest cost of the tables.
    """
    order = np.argsort(-weights * gains / np.sqrt(sizes), kind="stable")
    once = budget.table_stddev(budget.share)
    best, picked = -math.inf, order[:0]
    for j in range(1, len(order) + 1):
        some = order[:j]
        shares = sizes[some] ** (2 / 3)
        stddev = once * (shares / shares.sum()) ** -budget.exponent
        each = np.maximum(gains[some] - WORTH * sizes[some] * stddev, -LOST * np.maximum(gains[some], 0))
        gained = float(weights[some] @ each)
        if gained > best:
            best, picked = gained, some
    return picked, order


def weights_of(layout: Layout, tables: Sequence[PersonTable], wished: Workload) -> FloatArray:
    """Return the workload's weight of each table, (tables,): how much its attributes together matter to the user."""
    places = {name: i for i, name in enumerate(names_wished(layout.schema))}
    of_days = {(place[0], one.name): place[1] for place, one in layout.differences.items()}

    def place(table: int, attribute: str) -> int:
        name = layout.schema.names[table]
        attribute = of_days.get((name, attribute), attribute)  # days that lead to a column are as wanted as it
        return places[f"{attribute[1:]}.rows" if attribute.startswith("#") else f"{name}.{attribute}"]

    def members(one: PersonTable) -> set[int]:
        others = {
            place(part.above if part.kind is Kind.PARENT else part.table, part.other) for part in one.parts or (one,)
        }
        return {place(one.table, one.attribute)} | others

    return np.array([wished.weight(tuple(sorted(members(one)))) for one in tables])


def names_wished(schema: DatabaseSchema) -> list[str]:
    """Return the names that a workload of a database may contain.

    ``table.column``, of columns that do not name rows, and ``child.rows`` (number of child rows).
    """
    columns = [
        f"{table}.{name}" for table in schema.names for name, one in schema.tables[table].items() if not one.names_rows
    ]
    return [*columns, *(f"{one.child}.rows" for one in schema.relations)]
