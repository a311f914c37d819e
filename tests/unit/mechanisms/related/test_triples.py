"""Tables of three attributes of persons: what their pairs already say of them, and what they say of a pair."""

from __future__ import annotations

import numpy as np
import pytest
from small_databases import SCHEMAS, codes_of, every_person, frames, tables_of

from synthdp.domain.histories import Layout
from synthdp.mechanisms.related.triples import pair_of_others
from synthdp.queries.person_tables import Kind
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
