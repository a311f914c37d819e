"""Pairs of rows without an order: what they weigh, and that they do not know in which order rows came."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from small_databases import codes_of

import synthdp as sd
from synthdp.domain.histories import Layout
from synthdp.mechanisms.related.choosing import Attribute, cells_of
from synthdp.queries.person_tables import Grouping, Kind, PersonTable, PersonTables
from synthdp.queries.persons import (
    MOST_SIBLINGS,
    Persons,
    pair_shares,
    pairs_of,
    symmetric,
    symmetric_stddev,
    whole_of_table,
)

LEVELS = {"role": ["head", "other"], "town": ["a", "b", "c"]}


def database(at_most: int, *, deep: bool = False) -> sd.DatabaseSchema:
    """Households with members; below a table of streets if they are to be deep."""
    members = sd.Schema({name: sd.Categorical(levels) for name, levels in LEVELS.items()})
    homes = sd.Schema({"own": sd.Boolean()})
    if not deep:
        relation = sd.Relation("homes", "members", key="home", at_most=at_most)
        return sd.DatabaseSchema({"homes": homes, "members": members}, [relation])
    return sd.DatabaseSchema(
        {"streets": sd.Schema({"long": sd.Boolean()}), "homes": homes, "members": members},
        [sd.Relation("streets", "homes", key="street", at_most=2),
         sd.Relation("homes", "members", key="home", at_most=at_most)],
    )  # fmt: skip


def tables_of(members: list[list[tuple[str, str]]]) -> dict[str, pd.DataFrame]:
    """The tables of some households."""
    rows = [(i, *one) for i, some in enumerate(members) for one in some]
    return {
        "homes": pd.DataFrame({"home": range(len(members)), "own": True}),
        "members": pd.DataFrame(rows, columns=["home", "role", "town"]),
    }


def pair_tables(layout: Layout) -> list[PersonTable]:
    """Both symmetric tables, the one of two attributes, and whether values are alike."""
    i = len(layout.tables) - 1
    role, town = (cells_of(layout, Attribute(i, name, -1)) for name in ("role", "town"))

    def table(attribute: str, grouping: Grouping, other: str, other_grouping: Grouping) -> PersonTable:
        return PersonTable(Kind.SIBLING, i, attribute, grouping, other=other, other_grouping=other_grouping)

    return [
        table("role", role, "role", role),
        table("town", town, "town", town),
        table("town", town, "role", role),
        PersonTable(Kind.ALIKE, i, "town", town),
    ]


member = st.tuples(st.sampled_from(LEVELS["role"]), st.sampled_from(LEVELS["town"]))
households = st.lists(st.lists(member, max_size=5), min_size=1, max_size=4)


@settings(max_examples=12, deadline=None)
@given(households, st.randoms(use_true_random=False))
def test_the_order_of_a_persons_rows_in_the_input_changes_no_exact_answer(members: list, rng: object) -> None:
    layout = Layout(database(4))
    queries = PersonTables(layout, tuple(pair_tables(layout)), (1, 2, 1, 3))
    tables = tables_of(members)
    shuffled = {name: one.sample(frac=1, random_state=rng.randint(0, 2**31)) for name, one in tables.items()}  # type: ignore[attr-defined]
    assert (queries.sums(codes_of(tables, layout)) == queries.sums(codes_of(shuffled, layout))).all()


@settings(max_examples=12, deadline=None)
@given(households)
def test_a_table_of_siblings_is_the_mean_over_the_pairs_of_each_household(members: list) -> None:
    layout = Layout(database(5))
    persons = Persons.of_records(layout, codes_of(tables_of(members), layout).astype(np.int64))
    roles, towns = (
        {level: k for k, level in enumerate(layout.axis(1, name).column.levels)} for name in ("role", "town")
    )
    expected = [np.zeros(table.sizes(layout)) for table in pair_tables(layout)]
    for some in members:
        pairs = list(itertools.permutations(some, 2))
        for (role, town), (other_role, other_town) in pairs:
            expected[0][tuple(sorted((roles[role], roles[other_role])))] += 1 / len(pairs)
            expected[1][tuple(sorted((towns[town], towns[other_town])))] += 1 / len(pairs)
            expected[2][roles[role], towns[other_town]] += 1 / len(pairs)
            expected[3][towns[town], 0] += (town == other_town) / len(pairs)
    for table, one in zip(pair_tables(layout), expected, strict=True):
        assert np.allclose(table.tabulate(persons), one, atol=1e-9), table.name


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("at_most", [2, 3, 5, 8, 9, 12, 40, 500])
def test_the_pairs_of_any_number_of_rows_weigh_at_most_one_person_and_nearly_as_much(at_most: int, deep: bool) -> None:
    layout = Layout(database(at_most, deep=deep))
    last = len(layout.tables) - 1
    one = whole_of_table(layout, last)
    for many in {2, min(at_most, 3), min(at_most, 7), at_most}:
        codes = np.zeros((1, len(layout.domain.axes)), np.int64)
        for i, table in enumerate(layout.tables[1:], start=1):
            rows = many if i == last else table.at_most
            codes[0, layout.place[table.parent][table.count]] = rows
        persons = Persons.of_records(layout, codes)
        earlier, later = pairs_of(persons.tables[last])
        same_parent = persons.tables[last].parent[earlier] == persons.tables[last].parent[later]
        used = min(many, MOST_SIBLINGS)
        assert same_parent.all()
        assert len(later) == math.comb(used, 2) * len(set(persons.tables[last].parent))
        for ordered, times in ((False, 1), (True, 2)):
            weight = int(pair_shares(persons, last, ordered=ordered)[later].sum()) * times
            assert 0.8 * one < weight <= one


@pytest.mark.parametrize("most", [2, 8])
def test_no_household_moves_tables_of_siblings_by_more_than_their_norms(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all households of at most four, added, removed or exchanged for another; where some rows make no pairs too."""
    monkeypatch.setattr("synthdp.queries.persons.MOST_SIBLINGS", most)
    layout = Layout(database(4))
    kinds = list(itertools.product(LEVELS["role"], LEVELS["town"][:2]))
    every = [list(one) for many in range(5) for one in itertools.combinations_with_replacement(kinds, many)]
    queries = PersonTables(layout, tuple(pair_tables(layout)), (1, 2, 1, 3))
    added = np.array([queries.sums(record[None]) for record in codes_of(tables_of(every), layout)])
    start = queries.offsets
    for i, (table, times) in enumerate(zip(queries.tables, queries.multipliers, strict=True)):
        norms, part = table.norms(layout).times(times), added[:, start[i] : start[i + 1]]
        assert part.min() >= 0
        assert part.sum(axis=1).max() == part.max() == norms.l1 == norms.linf == whole_of_table(layout, 1) * times
    one, swap = queries.bounds.one, queries.bounds.swap
    moved = np.concatenate([added - other for other in added])
    for norms, vectors in ((one, added), (swap, moved)):
        assert np.abs(vectors).sum(axis=1).max() <= norms.l1
        assert (vectors**2).sum(axis=1).max() <= norms.l2_squared
        assert np.abs(vectors).max() <= norms.linf


@given(st.lists(st.floats(-10, 10), min_size=9, max_size=9))
def test_a_symmetric_table_has_the_sum_of_its_upper_half(cells: list[float]) -> None:
    upper = np.array(cells).reshape(3, 3)
    full = symmetric(upper)
    assert (full == full.T).all()
    assert math.isclose(full.sum(), np.triu(upper).sum(), abs_tol=1e-9)


def test_noise_in_a_symmetric_table_is_as_large_as_is_said() -> None:
    noise = np.random.default_rng(0).standard_normal((4000, 6, 6))
    found = np.sqrt(np.mean([symmetric(one) ** 2 for one in noise]))
    assert math.isclose(found, symmetric_stddev(1.0, 6), rel_tol=0.02)
