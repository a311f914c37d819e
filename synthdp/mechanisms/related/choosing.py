"""The possible tables of persons, the choice among them by noisy scores, and their weights.

Scores are judged by post-processing of noisy answers; this module does not ask the curator.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from synthdp.arrays import FloatArray, IntArray
from synthdp.domain.histories import BINS, STATE, Layout, Order
from synthdp.mechanisms.adaptive.merging import MERGED
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.mechanisms.related.asked_tables import MORE_OF_STEPS
from synthdp.mechanisms.workload import Workload, workload_of
from synthdp.queries.person_tables import Grouping, Kind, PersonTable
from synthdp.schema.database import DatabaseSchema

MOST_STEPS = MERGED + MORE_OF_STEPS
"""Most groups of a categorical column whose table of value and next value is measured.  For more groups, only the number
of unchanged values is measured.  Derived: such a table of an ordered column has at least as many groups a side."""

Groupings = Mapping[tuple[int, str], Mapping[str, Grouping]]
"""By table and attribute, groupings by name: ``pairs`` and ``steps`` for columns, ``many`` and ``first`` for counts of
rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Attribute:
    """A quantity that the model draws for each row of a table: a column, or the number of the row's child rows.

    Parameters
    ----------
    table, name
        Table and name of the attribute.
    counts
        Position of the child table whose rows the attribute counts; -1 for a column.
    """

    table: int
    name: str
    counts: int


def attributes(layout: Layout) -> list[Attribute]:
    """Return all attributes that the model draws, table by table, in the order in which it draws them."""
    found = []
    for i, table in enumerate(layout.tables):
        counted = {layout.tables[child].count: child for child in layout.children(i)}
        found += [Attribute(i, name, counted.get(name, -1)) for name in table.axes]
    return found


def cells_of(layout: Layout, attribute: Attribute) -> Grouping:
    """Return the trivial grouping of an attribute, with every bin a group by itself, for one-way tables."""
    return Grouping("cells", list(range(layout.axis(attribute.table, attribute.name).size)))  # type: ignore[arg-type]


def one_way(layout: Layout, attribute: Attribute) -> PersonTable:
    """Return the query that counts persons by one attribute, and by group of periods if the attribute has few bins.

    Few are at most `BINS` levels, as many bins as an ordered column has.
    """
    table, axis = layout.tables[attribute.table], layout.axis(attribute.table, attribute.name)
    few = axis.grid.ordered or axis.size <= BINS
    by_period = table.groups > 1 and few and attribute.name != table.period and attribute.counts < 0
    return PersonTable(
        Kind.ONE, attribute.table, attribute.name, cells_of(layout, attribute), other="period" if by_period else ""
    )


def unusual(layout: Layout) -> list[PersonTable]:
    """Return the queries for unusual persons: with no root row or several, and with rows left out of a table."""
    found = [PersonTable(Kind.STATE, 0, STATE, cells_of(layout, Attribute(0, STATE, -1)))]
    for table in layout.tables[1:]:
        flag = Attribute(0, table.left_out, -1)
        found.append(PersonTable(Kind.ONE, 0, table.left_out, cells_of(layout, flag)))
    return found


def always(layout: Layout, groupings: Groupings) -> list[PersonTable]:
    """Return the tables measured without a score: each attribute against itself in another row of the same parent.

    The other row is the previous one if rows have an order, else any other.  For an attribute with many categories,
    only the number of equal values is counted.  The root, tables with one row of each parent and days between dates
    have no such table.
    """
    found = []
    for one in attributes(layout):
        table = layout.tables[one.table]
        if table.order is Order.ROOT or table.at_most == 1 or one.name in layout.days(one.table):
            continue
        known = groupings[one.table, one.name]
        fine = known.get("steps", known.get("many"))
        if fine is None:
            continue
        key = {"table": one.table, "attribute": one.name, "grouping": fine}
        many_levels = not layout.axis(one.table, one.name).grid.ordered and fine.size > MOST_STEPS
        if table.order is Order.NONE and many_levels:
            found.append(PersonTable(Kind.ALIKE, **key))  # type: ignore[arg-type]
        elif table.order is Order.NONE:
            found.append(PersonTable(Kind.SIBLING, **key, other=one.name, other_grouping=fine))  # type: ignore[arg-type]
        elif one.name == table.period:
            found.append(PersonTable(Kind.ENTRY, **key, other=one.name, other_grouping=fine))  # type: ignore[arg-type]
        elif many_levels:
            found.append(PersonTable(Kind.STAY, **key))  # type: ignore[arg-type]
        else:
            found.append(PersonTable(Kind.STEP, **key, other=one.name, other_grouping=fine))  # type: ignore[arg-type]
    return found


def candidates(layout: Layout, groupings: Groupings) -> list[PersonTable]:
    """Return the tables of two attributes that are scored: all but the tables of `always`.

    The two attributes are of one row; of a row and a row above it; or of a row and the row before or another sibling.
    Another kind pairs an attribute with a summary of its own values in all rows before.  Attributes with one group are
    left out.
    """
    every = attributes(layout)
    found: list[PersonTable] = []
    for b in every:
        coarse = groupings[b.table, b.name].get("pairs", groupings[b.table, b.name].get("many"))
        if coarse is None or coarse.size == 1:
            continue
        table = layout.tables[b.table]
        key = {"table": b.table, "attribute": b.name, "grouping": coarse}
        for a in every:
            for grouping in _given(groupings[a.table, a.name]):
                other = {"other": a.name, "other_grouping": grouping}
                if a.table == b.table:
                    found += _of_one_table(layout, a, b, every, key | other)
                elif a.table in layout.ancestors(b.table):
                    found.append(PersonTable(Kind.PARENT, **key, **other, above=a.table))  # type: ignore[arg-type]
        if table.order not in (Order.ROOT, Order.NONE) and table.at_most > 2:
            found.append(PersonTable(Kind.BEFORE, **key, other=b.name, other_grouping=coarse))  # type: ignore[arg-type]
    return found


def _given(groupings: Mapping[str, Grouping]) -> Iterator[Grouping]:
    """Yield the groupings of an attribute as the conditioning attribute of a table.

    A column has one; a number of rows has two: by the number, and by the first period.  Groupings of one group are left
    out.
    """
    for name in ("pairs", "many", "first"):
        if name in groupings and groupings[name].size > 1:
            yield groupings[name]


def _of_one_table(
    layout: Layout, a: Attribute, b: Attribute, every: list[Attribute], key: dict[str, object]
) -> list[PersonTable]:
    """Return the tables to score for two attributes of the same table.

    Tables pair two attributes of one row, of a row and the previous one, or of two unordered sibling rows.
    """
    table = layout.tables[b.table]
    found = []
    if every.index(a) < every.index(b):
        found.append(PersonTable(Kind.ROW, **key))  # type: ignore[arg-type]
    if table.order is Order.NONE:  # of two rows neither is the first: one table for both directions
        if table.at_most > 1 and every.index(a) < every.index(b):
            found.append(PersonTable(Kind.SIBLING, **key))  # type: ignore[arg-type]
        return found
    if a.name != b.name and table.order is not Order.ROOT and table.at_most > 1:
        found.append(PersonTable(Kind.STEP, **key))  # type: ignore[arg-type]
    return found


def over(groupings: Groupings, one: PersonTable, name: str) -> PersonTable:
    """Return a table of two attributes over other groups of both, by name; attributes without such groups keep theirs."""
    above = one.above if one.kind is Kind.PARENT else one.table
    own = groupings[one.table, one.attribute].get(name, one.grouping)
    other = groupings[above, one.other].get(name, one.other_grouping)
    return (
        one if own is one.grouping and other is one.other_grouping else replace(one, grouping=own, other_grouping=other)
    )


WORTH = 0.5
"""The gain of a table is its noisy distance from the model, less this fraction of its noise: the sum of all cells'
stddevs.  A larger value measures fewer tables with less noise each; a smaller one also measures weaker relations.
Tuned: half and twice of it change the error of pairs of a row's columns of two panels by -1.4 and +2.9 %
(docs/benchmarks/constants.md).
"""


CLEARLY = 2.0
"""A relation is measured again with more budget if its squared distance from the model is large.  The squared distance
must be this many standard deviations above the mean of noise alone.  A larger value spends on fewer, stronger
relations.  A convention.
"""

UNRELATED = 0.25
"""Quantile of the gains of tables that share an axis which estimates the error of that axis alone.  Fewer than 1 /
UNRELATED tables have no such quantile.  The quantile is low because in panels most tables show a relation, so their
median would be one.  Tuned on insurer and STAR: half and twice of it change the error of pairs of a row's columns of
nlswork and randhie by +2.1 and -.5 % (docs/benchmarks/constants.md)."""


def beyond_shared(gains: FloatArray, tables: Sequence[PersonTable], counts: Mapping[int, str]) -> FloatArray:
    """Return the gains of tables without the part that all tables with one axis share, and that most of them cannot repair.

    For example, the model does not know that short policies have few claims.  Then all tables of a policy's length and
    an attribute of its claims have the same error.  Only the table of its length and its number of claims repairs it.
    Some pairs are always unrelated, so a low quantile of the gains of such tables estimates the shared part.  The
    shared part is subtracted from each, and added to the table that repairs it.

    Parameters
    ----------
    gains
        (tables,) noisy distances from the model so far, in persons, minus the mean that noise gives.
    tables
        The tables that were scored.
    counts
        By position of a table, the attribute of its parent that holds the number of rows.
    """
    found = gains.copy()
    families: dict[tuple[Kind, int, int, str], list[int]] = {}
    for i, one in enumerate(tables):
        if one.kind is not Kind.ROW:  # whose axes are one-way tables, both
            families.setdefault((one.kind, one.table, one.above, one.other), []).append(i)
    for (kind, table, above, other), family in families.items():
        if len(family) * UNRELATED < 1:
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
    """Return whether a noisy table differs from the expected one by more than its noise explains (sum of squares).

    Only such a table is worth measuring again with more budget; see `CLEARLY`.

    Parameters
    ----------
    noisy, expected
        Noisy and expected counts, of one shape.
    stddev
        Standard deviation of the noise in each cell.
    """
    off = float(((noisy - expected) ** 2).sum()) / max(stddev, 1e-300) ** 2
    return off > noisy.size + CLEARLY * math.sqrt(2 * noisy.size)


def worth_measuring(
    gains: FloatArray, sizes: FloatArray, weights: FloatArray, budget: BudgetAllocation
) -> tuple[IntArray, IntArray]:
    """Return the positions of the tables to measure, (chosen,), and of all tables, (tables,), the most promising first.

    The first tables are chosen, as many as have the largest summed gain, less noise, if they share the budget.  More
    tables mean more noise in each, so their number grows with epsilon and with the number of persons.  The caller takes
    the first table of all if none is chosen.

    Parameters
    ----------
    gains
        (tables,) noisy distances from the model so far, in persons, minus the mean that noise gives.
    sizes, weights
        (tables,) numbers of cells, and weights in the workload.
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
        gained = float(weights[some] @ (gains[some] - WORTH * sizes[some] * stddev))
        if gained > best:
            best, picked = gained, some
    return picked, order


def groups_that_pay(gains: FloatArray, sizes: FloatArray, weights: FloatArray, budget: BudgetAllocation) -> IntArray:
    """Return which of several divisions into groups gains most for each relation, less its noise, (relations,).

    Finer groups show more of a strong relation, and have more noise.  The noise is that of a table which takes the place
    of one of those chosen over the first groups.

    Parameters
    ----------
    gains, sizes
        (divisions, relations) noisy distances from the model so far, in persons, minus the mean that noise gives; and
        numbers of cells.
    weights
        (relations,) weights in the workload.
    budget
        The largest cost of the tables.
    """
    picked, _ = worth_measuring(gains[0], sizes[0], weights, budget)
    parts = sizes ** (2 / 3) / (sizes[0, picked] ** (2 / 3)).sum()
    stddev = budget.table_stddev(budget.share) * parts**-budget.exponent
    return np.asarray(np.argmax(gains - WORTH * sizes * stddev, axis=0))


def weights_of(layout: Layout, tables: Sequence[PersonTable], wished: Workload) -> FloatArray:
    """Return the workload's weight of each table, (tables,), which multiplies its gain."""
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
    """Return the names that a workload of a database may contain: ``table.column`` and ``child.rows``.

    Identifiers are left out, since they have no relations; ``child.rows`` is a number of child rows.
    """
    columns = [
        f"{table}.{name}" for table in schema.names for name, one in schema.tables[table].items() if not one.names_rows
    ]
    return [*columns, *(f"{one.child}.rows" for one in schema.relations)]


def relations_wished(schema: DatabaseSchema, workload: Any, target: str | None) -> Workload:
    """Return the weights of relations that a user describes by ``table.column`` and ``child.rows``; see `workload_of`.

    Raises
    ------
    ParameterError
        If a name is none of these.
    """
    return workload_of(workload, names_wished(schema), target=target)
