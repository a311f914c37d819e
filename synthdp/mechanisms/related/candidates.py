"""Which tables of persons there are to measure: always, and if a noisy score says that they pay."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from synthdp.domain.histories import STATE, Layout, Order
from synthdp.mechanisms.related.choosing import MEAN_ABS
from synthdp.queries.person_tables import Grouping, Kind, PersonTable

MOST_STEPS = 8
"""Most groups of a categorical column whose table of value and next value is measured.  For more groups it is only
measured how often a value stays from row to row.  A limit of noise, as the table has the square of this many cells.
"""

MANY_LEVELS = 20
"""A categorical column with more cells than this is not counted by period, since noise would drown its cells."""

FEW_THREES = 8
"""Number of three-attribute tables among which the remaining budget is assumed to be divided when it is judged whether
any is worth its noise.  More would consider such tables for more persons only.  A convention.
"""

MOST_THREES, MOST_OF_ONE = 80, 12
"""Most tables of three attributes that are scored in all (MOST_THREES), and for one attribute (MOST_OF_ONE). Limits of
noise: each table makes all scores noisier, and one attribute with many strong pairs would crowd out the others.
"""

THREES_WORTH = 0.05
"""A table of three attributes is considered only if its mean absolute noise, summed over cells, is at most this
fraction of all persons.  A larger one considers them for fewer persons, where noise makes some of what they show.
Tuned; not measured.
"""

Groupings = Mapping[tuple[int, str], Mapping[str, Grouping]]
"""By table and attribute, groupings by name; ``pairs`` and ``steps`` of columns, ``many`` and ``first`` of counts."""


@dataclass(frozen=True, slots=True, eq=False)
class Attribute:
    """A quantity that the model draws for each row of a table: a column, or the number of the row's child rows.

    Parameters
    ----------
    table, name
        Table and name of the attribute.
    counts
        The child table whose count it is; -1 of columns.
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
    """Return the trivial grouping of an attribute, with every cell a group of its own, as one-way tables count."""
    return Grouping("cells", list(range(layout.axis(attribute.table, attribute.name).size)))  # type: ignore[arg-type]


def one_way(layout: Layout, attribute: Attribute) -> PersonTable:
    """Return the query that counts persons by one attribute, and by group of periods where it has few cells."""
    table, axis = layout.tables[attribute.table], layout.axis(attribute.table, attribute.name)
    few = axis.grid.ordered or axis.size <= MANY_LEVELS
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

    The other row is the previous one where rows have an order, else any other.  For an attribute with many categories
    it is only counted whether both values are equal.  The root, tables with one row of each parent and days between
    dates have no such table.
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
    """Return the tables of two attributes that `always` leaves out, to be scored.

    Of one row, of a row and an ancestor, of a row and the one before or another sibling.  Also of an attribute and what
    it was in all rows before.  Attributes with one group are left out.
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


def triples(
    layout: Layout,
    groupings: Groupings,
    pairs: Sequence[PersonTable],
    gains: Sequence[float],
    *,
    persons: float,
    noise: float,
) -> list[PersonTable]:
    """Return the tables of three attributes that may pay: an attribute and two others that are each related to it.

    The list is empty where noise would hide them all.  Those whose weaker pair gains most come first.

    Parameters
    ----------
    layout, groupings
        The record of a person, and groups of its cells: groups for three attributes are few.
    pairs, gains
        The tables of two attributes that were chosen, and how many persons each gains.
    persons
        Number of persons.
    noise
        Noise stddev of a cell of a table, in persons.
    """
    found: list[tuple[float, PersonTable]] = []
    some = [(a, gain) for a, gain in zip(pairs, gains, strict=True) if a.kind in (Kind.ROW, Kind.PARENT, Kind.STEP)]
    for (a, first), (b, second) in combinations(some, 2):
        same = (a.table, a.attribute) == (b.table, b.attribute)
        if not same or (a.kind, a.above, a.other) == (b.kind, b.above, b.other):
            continue
        three = PersonTable.of_three(_coarse(groupings, a), _coarse(groupings, b))
        if MEAN_ABS * noise * math.prod(three.sizes(layout)) <= THREES_WORTH * persons:
            found.append((min(first, second), three))
    kept: list[PersonTable] = []
    of_one: Counter[tuple[int, str]] = Counter()
    for _, three in sorted(found, key=lambda one: -one[0]):
        of_one[three.table, three.attribute] += 1
        if of_one[three.table, three.attribute] <= MOST_OF_ONE:
            kept.append(three)
    return kept[:MOST_THREES]


def _coarse(groupings: Groupings, one: PersonTable) -> PersonTable:
    """Return a two-attribute table with its attributes over the coarser groups that three-attribute tables use."""
    own = groupings[one.table, one.attribute]
    other = groupings[one.above if one.kind is Kind.PARENT else one.table, one.other]
    return replace(
        one, grouping=own.get("threes", one.grouping), other_grouping=other.get("threes", one.other_grouping)
    )


def _given(groupings: Mapping[str, Grouping]) -> Iterator[Grouping]:
    """Yield the groupings of an attribute for its role as the given one (condition) in a table.

    A column has one, a count of rows two (how many, first period); groupings of one group are left out.
    """
    for name in ("pairs", "many", "first"):
        if name in groupings and groupings[name].size > 1:
            yield groupings[name]


def _of_one_table(
    layout: Layout, a: Attribute, b: Attribute, every: list[Attribute], key: dict[str, object]
) -> list[PersonTable]:
    """Return the tables to score for two attributes of the same table.

    They are of one row, of a row and the previous one, or of two unordered sibling rows.
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
