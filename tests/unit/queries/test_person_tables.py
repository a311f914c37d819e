"""Weighted tables of persons: one person moves them by what is stated, found by listing every small person."""

import itertools

import numpy as np
import pytest
from small_databases import SCHEMAS, Person, codes_of, every_person, frames, tables_of

import synthdp as sd
from synthdp import ZCDP
from synthdp.domain.axis import Axis
from synthdp.domain.histories import Layout
from synthdp.privacy.calibration import calibrate
from synthdp.privacy.neighbors import Adjacency, Neighbors
from synthdp.queries.person_tables import Grouping, Kind, PersonDistances, PersonTable, PersonTables
from synthdp.queries.persons import Persons, whole_of, whole_of_table


@pytest.fixture(scope="module", params=SCHEMAS)
def world(request: pytest.FixtureRequest) -> tuple[Layout, PersonTables, np.ndarray]:
    """What every person that can be listed adds to every table, each by itself."""
    schema = SCHEMAS[request.param]
    layout = Layout(schema)
    persons = list(every_person(rows=3 if len(schema.tables) == 2 else 2, leaves="leaves" in schema.tables))
    codes = codes_of(frames(persons, schema), layout)
    tables = tables_of(layout)
    queries = PersonTables(layout, tuple(tables), tuple(1 + i % 3 for i in range(len(tables))))
    different = np.unique(codes, axis=0)
    return layout, queries, np.array([queries.sums(record[None]) for record in different])


def parts(queries: PersonTables, vector: np.ndarray) -> list[np.ndarray]:
    return np.split(vector, queries.offsets[1:-1], axis=-1)


def test_a_person_moves_every_table_by_no_more_than_its_norms(world: tuple[Layout, PersonTables, np.ndarray]) -> None:
    layout, queries, added = world
    for table, times, part in zip(queries.tables, queries.multipliers, parts(queries, added), strict=True):
        norms = table.norms(layout).times(times)
        assert (part >= 0).all()
        assert part.sum(axis=1).max() <= norms.l1
        assert (part**2).sum(axis=1).max() <= norms.l2_squared
        assert part.max() <= norms.linf


def test_some_person_moves_every_table_by_all_that_its_whole_allows(
    world: tuple[Layout, PersonTables, np.ndarray],
) -> None:
    layout, queries, added = world
    for table, times, part in zip(queries.tables, queries.multipliers, parts(queries, added), strict=True):
        assert part.max() == whole_of_table(layout, table.table) * times, table.name


def test_a_person_moves_all_tables_together_by_no_more_than_their_bounds(
    world: tuple[Layout, PersonTables, np.ndarray],
) -> None:
    _, queries, added = world
    one = queries.bounds.one
    assert added.sum(axis=1).max() <= one.l1
    assert (added**2).sum(axis=1).max() <= one.l2_squared
    assert added.max() <= one.linf


def test_replacing_a_person_moves_all_tables_by_no_more_than_the_bounds_of_a_swap(
    world: tuple[Layout, PersonTables, np.ndarray],
) -> None:
    _, queries, added = world
    swap = queries.bounds.swap
    for one in added:
        moved = added - one
        assert np.abs(moved).sum(axis=1).max() <= swap.l1
        assert (moved**2).sum(axis=1).max() <= swap.l2_squared
        assert np.abs(moved).max() <= swap.linf


def test_a_person_moves_every_distance_by_no_more_than_its_bounds(
    world: tuple[Layout, PersonTables, np.ndarray],
) -> None:
    _, queries, added = world
    rng = np.random.default_rng(7)
    expected = rng.integers(0, 50, queries.k)
    distances = PersonDistances(queries, expected)
    others = added[rng.integers(len(added), size=4)].sum(axis=0)
    before = distances.finish(others)
    after = np.array([distances.finish(others + one) for one in added])
    one, swap = distances.bounds.one, distances.bounds.swap
    assert np.abs(after - before).sum(axis=1).max() <= one.l1
    assert ((after - before) ** 2).sum(axis=1).max() <= one.l2_squared
    pairs = after[None, ::7] - after[:, None]
    assert (pairs**2).sum(axis=2).max() <= swap.l2_squared
    assert np.abs(pairs).max() <= swap.linf


@pytest.mark.parametrize("neighbors", Neighbors)
def test_tables_in_which_all_persons_are_alike_can_be_asked(neighbors: Neighbors) -> None:
    layout = Layout(SCHEMAS["sequence"])
    alike = Grouping("alike", np.zeros(layout.axis(0, "p").size, np.int64))
    queries = PersonTables(layout, (PersonTable(Kind.ONE, 0, "p", alike),) * 4, (3, 3, 3, 3))
    norms = Adjacency(neighbors, "id").sensitivity(queries)
    assert norms.linf == 3
    assert norms.l1 <= 12
    assert calibrate(norms, ZCDP(0.1), k=queries.k).noise.stddev > 0


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("name", SCHEMAS)
def test_the_tables_of_a_database_are_the_sums_over_its_persons(name: str) -> None:
    schema = SCHEMAS[name]
    layout = Layout(schema)
    persons = list(itertools.islice(every_person(rows=2, leaves="leaves" in schema.tables), 0, None, 3))
    tables = tables_of(layout)
    queries = PersonTables(layout, tuple(tables), (1,) * len(tables))
    codes = codes_of(frames(persons, schema), layout)
    together = queries.sums(codes)
    alone = np.array([queries.sums(record[None]) for record in codes])
    assert len(codes) >= len([one for one in persons if one.root])
    assert (together == alone.sum(axis=0)).all()
    assert (queries.sums(codes[::-1]) == together).all()


def test_every_kind_of_table_is_among_those_that_are_tried() -> None:
    found = {table.kind for schema in SCHEMAS.values() for table in tables_of(Layout(schema))}
    assert found == set(Kind)


@pytest.mark.parametrize("at_most", [1, 2, 4, 5, 12, 15, 40, 500])
def test_the_shares_of_any_number_of_rows_add_up_to_at_most_one(at_most: int) -> None:
    one = whole_of(at_most)
    shares = np.array([many * (one // many) for many in range(1, at_most + 1)])
    assert shares.max() == one
    assert shares.min() > 0.85 * one


@pytest.mark.parametrize("name", ["sequence", "no order", "two children"])
def test_tables_over_divided_and_joined_cells_move_by_no_more_than_their_norms(name: str) -> None:
    """What is measured of split cells and of classes of round numbers, of every small person; swaps too."""
    schema = SCHEMAS[name]
    number = sd.Integer(0, 2)
    cells = [
        Axis("t", number, np.array([0, 1]), np.array([0, 1])),
        Axis("t", number, np.arange(4), np.array([0, 1, 0, 2])),
    ]
    persons = list(every_person(rows=3 if len(schema.tables) == 2 else 2, leaves="leaves" in schema.tables))
    for axis in cells:
        layout = Layout(schema).with_cells({("rows", "t"): axis})
        codes = np.unique(codes_of(frames(persons, schema), layout), axis=0)
        table = PersonTable(Kind.ONE, 1, "t", Grouping("cells", np.arange(axis.size)))
        queries = PersonTables(layout, (table,), (3,))
        added = np.array([queries.sums(record[None]) for record in codes])
        one, swap = queries.bounds.one, queries.bounds.swap
        moved = np.concatenate([added - other for other in added])
        for norms, vectors in ((one, added), (swap, moved)):
            assert np.abs(vectors).sum(axis=1).max() <= norms.l1
            assert (vectors**2).sum(axis=1).max() <= norms.l2_squared
        assert added.max() == one.linf == whole_of_table(layout, 1) * 3
        rows = sum(len(person.rows) for person in persons if person.root)
        assert rows > 0


def test_the_rows_of_a_person_share_one_whichever_rows_they_belong_to() -> None:
    layout = Layout(SCHEMAS["child of a child"])
    person = Person((True,), ((0, "a"), (1, "b")), ((0, False), (0, True), (1, True)))
    persons = Persons.of_records(layout, codes_of(frames([person], SCHEMAS["child of a child"]), layout))
    assert (persons.shares(2) * 3 == persons.whole(2)).all()
    assert len(persons.tables[2]) == 3
