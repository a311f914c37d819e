"""Which tables of persons are worth their noise, by noisy scores; and how much each matters: post-processing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from synthdp.arrays import FloatArray, IntArray
from synthdp.domain.histories import Layout
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.mechanisms.workload import Workload
from synthdp.queries.related.person_tables import Kind, PersonTable
from synthdp.schema.database import DatabaseSchema

WORTH = 0.5
"""Part of the mean absolute noise of a table by which its score must exceed the model's misfit to be worth measuring.
Tuned; not measured."""

MEAN_ABS = math.sqrt(2 / math.pi)
"""E|Z| of a standard normal.  Derived."""

CLEARLY = 2.0
"""Standard deviations of a squared distance from which on a relation is measured again with more budget."""

LOST = 0.2
"""Part of a table's gain that is lost at most where noise is larger than it (tuned with `WORTH`)."""


FAMILY, UNRELATED = 4, 0.25
"""Tables that share an axis from which on they say how wrong that axis alone is, and the quantile of them that says it: of
panels where most scores go with each other, the median would be a relation (tuned: insurer and STAR)."""


def beyond_shared(gains: FloatArray, tables: Sequence[PersonTable], counts: Mapping[int, str]) -> FloatArray:
    """Return gains without what tables that share an axis all gain, which none of them can mend.

    If the model does not know that short policies have few claims, all tables of a policy's length and an attribute of its
    claims are off by as much, and only the table of its length and its number of claims mends them.  Some pairs are always
    unrelated, so that a low quantile of such tables is about that part; the table that mends it gains it.

    Parameters
    ----------
    gains
        (tables,) noisy distances from the model so far, in persons, beyond chance.
    tables
        What they are of.
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
    """Return whether a noisy table is off from what is expected by more than noise makes it, in its squared distance.

    Parameters
    ----------
    noisy, expected
        Counts, of one shape.
    stddev
        Of the noise in each cell.
    """
    off = float(((noisy - expected) ** 2).sum()) / max(stddev, 1e-300) ** 2
    return off > noisy.size + CLEARLY * math.sqrt(2 * noisy.size)


def worth_measuring(
    gains: FloatArray, sizes: FloatArray, weights: FloatArray, budget: BudgetAllocation
) -> tuple[IntArray, IntArray]:
    """Return the tables that gain most together when they share the whole budget, and all in the order they were tried.

    As many as pay: more tables mean more noise in each, so that their number grows with epsilon and with the persons.

    Parameters
    ----------
    gains
        (tables,) noisy distance from the model so far, in persons, beyond chance.
    sizes, weights
        (tables,) numbers of cells, and how much each matters.
    budget
        What the tables may cost.
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
    """Return how much each table matters, (tables,)."""
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
    """Return what a user may name of a database: ``table.column``, and ``child.rows``."""
    columns = [
        f"{table}.{name}" for table in schema.names for name, one in schema.tables[table].items() if not one.names_rows
    ]
    return [*columns, *(f"{one.child}.rows" for one in schema.relations)]
