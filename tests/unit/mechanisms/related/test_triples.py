"""Tables of three attributes of persons: what their pairs already say of them, and what they say of a pair."""

from __future__ import annotations

import numpy as np
import pytest
from small_databases import SCHEMAS, codes_of, every_person, frames, tables_of

import synthdp as sd
from synthdp.domain.histories import Layout
from synthdp.fit.history_scaling import Target
from synthdp.mechanisms.related.asked_tables import merged_by_relation
from synthdp.mechanisms.related.choosing import relations_wished
from synthdp.mechanisms.related.triples import pair_of_others, regrouped, triples
from synthdp.queries.person_tables import Grouping, Kind, PersonTable
from synthdp.queries.persons import Persons

LAYOUT = Layout(SCHEMAS["child of a child"])
PERSONS = Persons.of_records(LAYOUT, codes_of(frames(list(every_person(rows=2, leaves=True)), LAYOUT.schema), LAYOUT))
EVERY = tables_of(LAYOUT)
PAIRS = [one for one in EVERY if one.kind in (Kind.ROW, Kind.PARENT, Kind.STEP)]
TRIPLES = [one for one in EVERY if one.kind is Kind.TRIPLE]


def test_the_margin_of_a_triple_is_the_table_of_its_two_other_attributes():
    found = 0
    for triple in TRIPLES:
        pair = pair_of_others(LAYOUT, triple, triple.tabulate(PERSONS), 2.0)
        if pair is not None:
            found += 1
            assert pair[1] == pytest.approx(pair[0].tabulate(PERSONS))
            assert pair[2] == 2.0 * np.sqrt(triple.grouping.size)
    assert found >= 3
    assert all(pair_of_others(LAYOUT, one, one.tabulate(PERSONS), 1.0) is None for one in TRIPLES
               if one.weighs_as is Kind.STEP)  # fmt: skip


def test_neighbours_that_are_alike_share_a_group_also_if_one_was_merged_before():
    shares = np.array([0.10, 0.12, 0.13, 0.13, 0.5, 0.52, 0.9, 0.9])
    fine = Grouping("fine", np.arange(8), np.arange(8)[None])
    merged = merged_by_relation(fine, [1000 * np.column_stack([shares, 1 - shares])], 3)
    assert merged.groups.tolist() == [[0, 0, 0, 0, 1, 1, 2, 2]]


def wide_rows() -> sd.DatabaseSchema:
    """Return a schema of persons' rows with 13 columns."""
    columns = {f"x{i}": sd.Boolean() for i in range(13)}
    relations = [sd.Relation("persons", "rows", key="id", at_most=3)]
    return sd.DatabaseSchema({"persons": sd.Schema({"p": sd.Boolean()}), "rows": sd.Schema(columns)}, relations)


def of_row(attribute: str, other: str, groups: Grouping) -> PersonTable:
    """Return the table of two attributes of the same row."""
    return PersonTable(Kind.ROW, 1, attribute, groups, other=other, other_grouping=groups)


def test_an_attribute_of_which_no_pair_was_measured_keeps_groups_of_equal_size():
    fine, equal = (Grouping(str(many), np.arange(12) * many // 12, np.arange(12)[None]) for many in (12, 6))
    three = PersonTable.of_three(of_row("x2", "x0", equal), of_row("x2", "x1", equal))
    assert regrouped(three, [], []).grouping is equal
    other = [of_row("x2", "x7", fine), of_row("x8", "x0", fine)]  # each with an attribute that the three lack
    assert regrouped(three, other, [Target(np.ones((12, 12)), 1.0)] * 2).grouping is equal


def test_groups_of_three_attributes_are_merged_from_the_finest_that_were_measured():
    coarse, fine = (Grouping(str(many), np.arange(12) * many // 12, np.arange(12)[None]) for many in (6, 12))
    three = PersonTable.of_three(of_row("x2", "x0", coarse), of_row("x2", "x1", coarse))
    shares = np.repeat([0.1, 0.2, 0.4, 0.6, 0.8, 0.9], [1, 3, 1, 3, 1, 3])[:, None]
    counts = 1000 * np.hstack([shares, 1 - shares])
    pairs = [of_row("x2", "x0", fine), of_row("x2", "x1", coarse)]
    fitted = [Target(np.repeat(counts.T, 6, axis=0) / 6, 1.0), Target(np.ones((6, 6)), 1.0)]
    found = regrouped(three, pairs, fitted).grouping.groups[0]
    assert np.flatnonzero(np.diff(found)).tolist() == [0, 3, 4, 7, 8]


def test_three_attributes_that_a_user_names_are_scored_beside_many_strong_pairs_of_others():
    """Ten strong pairs of one attribute make 45 tables of three, and each of them lies in no set that the user names."""
    schema, two = wide_rows(), Grouping("two", np.array([0, 1, 1]))
    pairs = [of_row("x12", f"x{i}", two) for i in range(12)]
    groupings = {(1, f"x{i}"): {"threes": two} for i in range(13)}
    wished = relations_wished(schema, [("rows.x10", "rows.x11", "rows.x12")], None)
    gains = [9.0] * 10 + [0.0] * 2
    found = triples(Layout(schema), groupings, pairs, gains, wished, persons=1000.0, noise=lambda _: 1.0)
    assert [[part.other for part in one.parts] for one in found] == [["x10", "x11"]]
