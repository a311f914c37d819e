"""Tables of three attributes of persons: which are scored, over which groups, and what they say of a pair.

Post-processing of noisy answers; this module does not ask the curator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations

from synthdp.arrays import MEAN_ABS, FloatArray
from synthdp.domain.histories import Layout
from synthdp.fit.history_scaling import Key, Target
from synthdp.mechanisms.adaptive.energies import TYPICAL
from synthdp.mechanisms.adaptive.merging import MERGED
from synthdp.mechanisms.related.asked_tables import merged_by_relation
from synthdp.mechanisms.related.choosing import Groupings, attributes, over, weights_of
from synthdp.mechanisms.workload import Workload
from synthdp.queries.person_tables import Grouping, Kind, PersonTable

FEW_THREES = 8
"""Number of three-attribute tables among which the remaining budget is assumed to be divided when their noise is compared
with their gain.  With a larger value, only releases of more persons have such tables.  A convention."""

MOST_THREES = 80
"""Most tables of three attributes that are scored.  A safety limit of time and of the noise of scores.  Half and twice of it
change the error of pairs of a row's columns of 6 127 persons by -7.2 +- 6.4 and 0 %."""

SCORED = (Kind.ROW, Kind.PARENT, Kind.STEP)
"""Kinds of tables of two attributes that are combined to tables of three.  A convention: in tables of other kinds, a
cell counts equal values or pairs of unordered rows."""


def triples(
    layout: Layout,
    groupings: Groupings,
    pairs: Sequence[PersonTable],
    gains: Sequence[float],
    wished: Workload,
    *,
    persons: float,
    noise: Callable[[int], float],
) -> list[PersonTable]:
    """Return the tables of three attributes that are scored: an attribute and two others, by its pair with each.

    The tables whose weaker pair gains most come first.  Tables that no wished set contains are left out first, and then
    tables that noise would hide: their mean absolute noise, summed over cells, exceeds a typical relation of three.

    Parameters
    ----------
    layout, groupings
        The record of a person, and groups of its bins; groups for three attributes are few.
    pairs, gains
        The tables of two attributes that were chosen or that a workload names, and the gain of each in persons.
    wished
        The weights of relations that a user describes.
    persons
        Number of persons.
    noise
        Function of a number of tables: the noise stddev of a cell, in persons, if they share their budget.
    """
    found: list[tuple[float, PersonTable]] = []
    some = [i for i, a in enumerate(pairs) if a.kind in SCORED]
    for i, j in combinations(some, 2):
        a, b = pairs[i], pairs[j]
        same = (a.table, a.attribute) == (b.table, b.attribute)
        if not same or (a.kind, a.above, a.other) == (b.kind, b.above, b.other):
            continue
        three = PersonTable.of_three(*(over(groupings, pair, "threes") for pair in (a, b)))
        found.append((min(gains[i], gains[j]), three))
    weights = weights_of(layout, [three for _, three in found], wished)
    found = [one for one, weight in zip(found, weights, strict=True) if weight > 0]
    most = TYPICAL[3] * persons / (MEAN_ABS * noise(min(len(found), FEW_THREES))) if found else 0.0
    ordered = (three for _, three in sorted(found, key=lambda one: -one[0]))
    return [three for three in ordered if math.prod(three.sizes(layout)) <= most][:MOST_THREES]


def regrouped(three: PersonTable, pairs: Sequence[PersonTable], fitted: Sequence[Target]) -> PersonTable:
    """Return a triple over the groups of numbers that differ most in the measured tables of two of its attributes.

    Parameters
    ----------
    three
        The table, over groups of about equal size.
    pairs, fitted
        The measured tables of two attributes, and what the model is fitted to for each.
    """
    members = {(three.table, three.attribute), *(_other(part) for part in three.parts)}

    def merged(key: Key, grouping: Grouping) -> Grouping:
        """Return the groups of one attribute; attributes without ranks or without a measured pair keep theirs."""
        found: list[tuple[Grouping, FloatArray]] = []
        for pair, target in zip(pairs, fitted, strict=True):
            own, other = (pair.table, pair.attribute), _other(pair)
            if {own, other} <= members and key == own:
                found.append((pair.grouping, target.counts.T))
            elif {own, other} <= members and key == other and pair.other_grouping is not None:
                found.append((pair.other_grouping, target.counts))
        finest = max((one for one, _ in found), key=lambda one: one.size, default=grouping)
        if not found or not finest.ranked.any():
            return grouping
        return merged_by_relation(finest, [counts for one, counts in found if one is finest], MERGED)

    own = merged((three.table, three.attribute), three.grouping)
    parts = [
        replace(part, grouping=own, other_grouping=merged(_other(part), part.other_grouping))
        for part in three.parts if part.other_grouping is not None
    ]  # fmt: skip
    return PersonTable.of_three(parts[0], parts[1])


def pair_of_others(
    layout: Layout, triple: PersonTable, counts: FloatArray, stddev: float
) -> tuple[PersonTable, FloatArray, float] | None:
    """Return the table of a measured triple's two other attributes, which is a margin of it, at no cost.

    The law of the triple's attribute, given the two others, cannot correct the relation of these two in the model; this
    table can.  ``None`` if neither of the two is an attribute of the row, or one is of the row before: the table of the
    two would count other rows.

    Parameters
    ----------
    layout
        The record of a person.
    triple, counts, stddev
        The table, its noisy counts, and the standard deviation of their noise.
    """
    later, earlier = triple.parts
    place = {(one.table, one.name): i for i, one in enumerate(attributes(layout))}
    margin = counts.reshape(later.sizes(layout)[0], earlier.sizes(layout)[0], -1).sum(axis=2).T
    if place[_other(later)] < place[_other(earlier)]:
        later, earlier, margin = earlier, later, margin.T
    if later.kind is not Kind.ROW or earlier.kind is Kind.STEP or later.other_grouping is None:
        return None
    pair = replace(earlier, attribute=later.other, grouping=later.other_grouping)
    return pair, margin, stddev * math.sqrt(triple.grouping.size)


def _other(pair: PersonTable) -> Key:
    """Return the given attribute of a table of two attributes, on its first axis, as (position of its table, name)."""
    return (pair.above if pair.kind is Kind.PARENT else pair.table), pair.other
