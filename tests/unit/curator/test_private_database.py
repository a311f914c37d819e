"""Several private tables as one record a person: what is joined, what is left out, and that nobody decides for another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from small_databases import SCHEMAS, Person, codes_of, every_person, frames

import synthdp as sd
from synthdp.curator import private_database as module
from synthdp.curator.contribution import joined
from synthdp.domain.encoder import Labels
from synthdp.domain.histories import NO_PARENT_ROW, REPEATED_ROW, STATE, Layout
from synthdp.privacy.neighbors import Adjacency
from synthdp.tables.plain import written
from synthdp.tables.sources.file_source import source_at

LAYOUTS = {name: Layout(schema) for name, schema in SCHEMAS.items()}
EVERYBODY = list(every_person(rows=3, leaves=True))


@pytest.fixture(scope="module", autouse=True)
def _all_persons_are_joined_at_once() -> Iterator[None]:
    """In one part and not in 64, where most persons would be alone and could not be mistaken for each other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BUCKETS", 1)
        yield


def records(persons: list[Person], name: str, *, shuffled: int = 0) -> list[tuple[int, ...]]:
    found = codes_of(frames(persons, SCHEMAS[name], shuffled=shuffled), LAYOUTS[name])
    return sorted(map(tuple, found.tolist()))


def column(name: str, codes: np.ndarray, table: str, attribute: str) -> np.ndarray:
    layout = LAYOUTS[name]
    return codes[:, layout.place[layout.position(table)][attribute]]


@settings(max_examples=8, deadline=None)
@given(st.lists(st.sampled_from(EVERYBODY), min_size=1, max_size=6), st.integers(0, 9), st.sampled_from([*SCHEMAS]))
def test_removing_a_person_removes_one_record_and_changes_no_other(persons: list[Person], seed: int, name: str) -> None:
    kept = [*persons[:-1], Person((), ())]
    before, after = records(persons, name, shuffled=seed), records(kept, name, shuffled=seed + 1)
    there = bool(persons[-1].root or persons[-1].rows)
    assert len(before) == len(after) + there
    assert not set(after) - set(before)


def test_the_order_of_rows_and_where_blocks_end_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    persons = EVERYBODY[::3]
    expected = records(persons, "child of a child")
    assert records(persons, "child of a child", shuffled=5) == expected
    monkeypatch.setattr(module, "BUCKETS", 3)
    monkeypatch.setattr(module, "MEMORY_BYTES", 1)  # all goes to disk
    assert records(persons, "child of a child", shuffled=2) == expected


def test_a_person_with_many_rows_has_those_it_may_have() -> None:
    tables = frames(
        [Person((True,), ((0, "a"), (1, "b"), (2, "a")) * 3000), Person((True,), ((0, "b"),))], SCHEMAS["sequence"]
    )
    codes = codes_of(tables, LAYOUTS["sequence"])
    assert sorted(column("sequence", codes, "persons", "#rows")[:, 0]) == [1, 3]
    assert sorted(column("sequence", codes, "persons", "#left out of rows")[:, 0]) == [0, 1]


@pytest.mark.parametrize("number", range(6))
def test_rows_that_are_not_used_decide_nothing_on_the_rows_that_are(number: int) -> None:
    """A row's rank depends on the person, on the row, and on how many equal rows came before it."""
    rows = [(t, v) for t in range(3) for v in "ab"]
    rows = rows[number:] + rows[:number]
    used = used_rows(rows)
    assert len(used) == 3
    for left_out in set(rows) - set(used):
        assert used_rows([row for row in rows if row != left_out]) == used


def used_rows(rows: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """The rows of one person that are used, in the order of their places."""
    codes = codes_of(frames([Person((True,), tuple(rows))], SCHEMAS["no order"]), LAYOUTS["no order"])
    periods, values = (column("no order", codes, "rows", attribute)[0].tolist() for attribute in "tv")
    return [(t, "ab"[v]) for t, v in zip(periods, values, strict=True)]


@pytest.mark.parametrize("error", [KeyboardInterrupt, sd.errors.DataError])
def test_what_stops_the_joining_of_persons_is_told(error: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise error("stopped")

    monkeypatch.setattr(module, "records_of", stop)
    with pytest.raises(error, match="stopped"):
        codes_of(frames([Person((True,), ((0, "a"),))], SCHEMAS["sequence"]), LAYOUTS["sequence"])


def test_a_row_that_no_person_has_makes_a_person_without_a_root_row() -> None:
    tables = frames([Person((), ((0, "a"),)), Person((True, False), ()), Person((True,), ())], SCHEMAS["sequence"])
    codes = codes_of(tables, LAYOUTS["sequence"])
    assert sorted(column("sequence", codes, "persons", STATE)[:, 0]) == [0, NO_PARENT_ROW, REPEATED_ROW]


def test_rows_without_a_key_are_persons_of_their_own() -> None:
    tables = frames([Person((True,), ((0, "a"), (1, "a")))] * 2, SCHEMAS["sequence"])
    tables = {name: table.assign(id=None) for name, table in tables.items()}
    states = column("sequence", codes_of(tables, LAYOUTS["sequence"]), "persons", STATE)[:, 0]
    assert sorted(states) == [0, 0, *[NO_PARENT_ROW] * 4]


def test_of_two_rows_of_one_period_one_is_used() -> None:
    codes = codes_of(frames([Person((True,), ((1, "a"), (1, "b"), (2, "a")))], SCHEMAS["pattern"]), LAYOUTS["pattern"])
    assert column("pattern", codes, "persons", "#rows").tolist() == [[0b110]]


@pytest.mark.parametrize("number", [-1, -9, None])
def test_a_row_whose_period_is_special_or_missing_is_not_used(number: int | None) -> None:
    rows = sd.Schema({"t": sd.Integer(0, 2, special=(-1, -9), nullable=True), "v": sd.Categorical(["a", "b"])})
    relation = sd.Relation("persons", "rows", key="id", at_most=3, order="t", unique=True)
    schema = sd.DatabaseSchema({"persons": SCHEMAS["sequence"].tables["persons"], "rows": rows}, [relation])
    tables = frames([Person((True,), ((0, "a"), (1, "b")))], SCHEMAS["sequence"])
    tables["rows"]["t"] = tables["rows"]["t"].astype("Int64").replace(1, pd.NA if number is None else number)
    layout = Layout(schema)
    codes = codes_of(tables, layout)
    assert codes[:, layout.place[layout.position("persons")]["#rows"]].tolist() == [[1]]


def test_rows_come_in_the_order_of_their_period() -> None:
    codes = codes_of(frames([Person((True,), ((2, "a"), (0, "b")))], SCHEMAS["sequence"]), LAYOUTS["sequence"])
    assert column("sequence", codes, "rows", "t")[0, :2].tolist() == [0, 2]
    assert column("sequence", codes, "rows", "v")[0, :2].tolist() == [1, 0]


def test_a_leaf_belongs_to_the_row_of_its_own_person_that_it_names() -> None:
    person = Person((True,), ((0, "a"), (2, "b")), ((1, True), (1, True), (0, False)))
    tables = frames([person, person], SCHEMAS["child of a child"])
    tables["leaves"]["row"] = tables["leaves"]["row"].str.replace("n1r", "n0r")  # names a row of another person
    codes = codes_of(tables, LAYOUTS["child of a child"])
    name = "child of a child"
    assert sorted(map(tuple, column(name, codes, "rows", "#leaves"))) == [(0, 0), (1, 2)]
    assert sorted(column(name, codes, "persons", "#left out of leaves")[:, 0]) == [0, 1]


def test_each_leaf_has_a_place_of_its_own_under_its_row() -> None:
    """Two rows in the order of their periods, and two places under each; the last code is for a place without a leaf."""
    person = Person((True,), ((2, "a"), (0, "b")), ((0, True), (0, False), (1, True)))
    codes = codes_of(frames([person], SCHEMAS["child of a child"]), LAYOUTS["child of a child"])
    leaves = column("child of a child", codes, "leaves", "w")[0].tolist()
    empty = max(leaves)
    assert leaves[:2] == [1, empty]
    assert sorted(leaves[2:]) == [0, 1] < [empty]


NO_CHOICE = [
    one
    for one in EVERYBODY
    if len(one.root) < 2 and len({t for t, _ in one.rows}) == len(one.rows) < 3 and len(set(one.leaves)) < 2
]
"""Persons of whom all rows are used, in one order: otherwise a hash of the keys decides."""


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(NO_CHOICE), min_size=1, max_size=8), st.integers(0, 9))
def test_keys_of_several_columns_join_as_one_column_does(persons: list[Person], seed: int) -> None:
    expected = records(persons, "child of a child", shuffled=seed)
    assert records(persons, "keys of several columns", shuffled=seed) == expected


WRITTEN: dict[str, Callable[[int], object]] = {
    "number": int,
    "text": str,
    "text with a fraction": lambda number: f"{number}.00",
    "decimal": lambda number: Decimal(f"{number}.0"),
    "float": float,
}


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from(NO_CHOICE), min_size=1, max_size=6), *[st.sampled_from([*WRITTEN])] * 3,
    st.sampled_from(["keys of several columns", "child of a child"]),
)  # fmt: skip
def test_keys_that_are_whole_numbers_join_however_they_are_written(
    persons: list[Person], above: str, middle: str, below: str, name: str
) -> None:
    """As a file of texts beside typed tables has them: 5, "5" and "5.00" are one key."""
    expected = records(persons, name)
    tables = frames(persons, SCHEMAS[name])
    for table, how in zip(("persons", "rows", "leaves"), (above, middle, below), strict=True):
        numbers = tables[table]["id"].str[1:].astype(int) if len(tables[table]) else tables[table]["number"]
        key = "id" if name == "child of a child" else "number"
        source = numbers if key == "id" else tables[table]["number"]
        tables[table][key] = pd.Series([WRITTEN[how](number) for number in source], dtype=object)
    assert sorted(map(tuple, codes_of(tables, LAYOUTS[name]).tolist())) == expected


@pytest.mark.parametrize(("one", "other"), [("05", 5), ("5.5", 5), ("5 ", 5), ("+5", 5), ("5e0", 5), ("٥", 5)])
def test_a_text_that_is_not_how_a_number_is_written_is_another_key(one: str, other: int) -> None:
    found = joined([Labels([one, other], np.arange(2))])
    assert isinstance(found, Labels)
    assert len({str(written(level)) for level in found.levels}) == 2


def test_a_row_that_lacks_a_part_of_its_key_has_no_key() -> None:
    persons = EVERYBODY[-40:]
    tables = frames(persons, SCHEMAS["keys of several columns"])
    layout = LAYOUTS["keys of several columns"]
    whole = codes_of(tables, layout)
    tables["leaves"]["place"] = None
    assert len(codes_of(tables, layout)) == len(whole)  # leaves that name no row are still their person's
    tables["persons"]["number"] = None
    alone = codes_of(tables, layout)
    assert len(alone) == len(whole) + len(tables["persons"])  # each is a person of its own


@pytest.mark.parametrize(
    "hostile",
    [
        {"t": [10**30, -5, None]},
        {"t": ["x", object(), float("nan")]},
        {"v": [b"\xff", "\udc80", ["a"]]},
        {"id": [float("nan"), object(), 10**30]},
    ],
)
def test_no_value_is_an_error_and_each_row_is_read(hostile: dict[str, list[object]]) -> None:
    rows = pd.DataFrame({"id": ["n0"] * 3, "row": ["r"] * 3, "t": [0, 1, 2], "v": ["a"] * 3}).astype(object)
    tables = {"persons": pd.DataFrame({"id": ["n0"], "p": [True]}), "rows": rows.assign(**hostile)}
    for name in ("pattern", "sequence", "no order"):
        codes = codes_of(tables, LAYOUTS[name])
        assert column(name, codes, "persons", STATE).min() == 0


def test_an_empty_child_table_and_a_parent_without_children_are_tables_like_others() -> None:
    codes = codes_of(frames([Person((True,), ())], SCHEMAS["two children"]), LAYOUTS["two children"])
    assert column("two children", codes, "persons", "#rows").tolist() == [[0]]


def test_files_have_the_records_of_their_dataframes(tmp_path: Path) -> None:
    schema, layout = SCHEMAS["child of a child"], LAYOUTS["child of a child"]
    tables = frames(EVERYBODY[::5], schema)
    for name, table in tables.items():
        table.astype({name: bool for name in ("p", "w") if name in table}).to_parquet(tmp_path / f"{name}.parquet")
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    expected = sorted(map(tuple, codes_of(tables, layout).tolist()))
    for ending in ("parquet", "csv"):
        sources = {name: source_at(tmp_path / f"{name}.{ending}") for name in tables}
        assert sorted(map(tuple, codes_of(sources, layout).tolist())) == expected


def test_a_curator_of_persons_answers_for_persons_and_says_whom_it_protects() -> None:
    schema = SCHEMAS["two children"]
    curator = sd.Curator(frames(EVERYBODY[:40], schema), schema=schema, budget=sd.PureDP(1.0), neighbors="replace_one")
    assert curator.rows == len({i for i, one in enumerate(EVERYBODY[:40]) if one.root or one.rows})
    assert str(curator.adjacency) == (
        "replace all rows of one value of 'id' in all tables (rows: at most 2 used, leaves: at most 1 used)"
    )
    assert any("has at most 2 rows of 'rows'" in line for line in curator.receipt().assumptions)


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"persons": pd.DataFrame({"id": [1], "p": [True]})}, "'rows'"),
        ({"persons": pd.DataFrame({"p": [True]}), "rows": pd.DataFrame({"id": [1], "t": [1], "v": ["a"]})}, "'id'"),
        ({"persons": pd.DataFrame({"id": [1], "p": [True]}), "rows": pd.DataFrame({"id": [1], "v": ["a"]})}, "'t'"),
        (pd.DataFrame({"id": [1]}), "dict"),
    ],
)
def test_tables_that_are_not_those_of_the_schema_are_refused(tables: object, said: str) -> None:
    with pytest.raises(sd.errors.DataError, match=said):
        sd.Curator(tables, schema=SCHEMAS["pattern"], budget=sd.PureDP(1.0))


@pytest.mark.parametrize("name", ["keys of several columns", "child of a child"])
def test_record_keys_of_persons_are_counted_by_the_persons_that_are_joined(name: str) -> None:
    """One person in many root rows, in all spellings of its key: one row of it counts, as one record is it."""
    schema = SCHEMAS[name]
    tables = frames([Person((True,), ((0, "a"),))], schema)
    spellings = [4, "4", "4.0", "4.00", Decimal(4), 4.0]
    for table in tables:
        tables[table] = tables[table].iloc[:0]
    root = {key: ["s"] * len(spellings) for key in ("id", "area")} | {"number": spellings, "p": [True] * len(spellings)}
    root |= {schema.person_keys[-1]: spellings}
    tables["persons"] = pd.DataFrame(root, dtype=object)
    private, _ = module.private_database(tables, schema, Adjacency(unit=schema.unit))
    assert sum(private.key_counts(("p",)).values()) == 1 == len(codes_of(tables, LAYOUTS[name]))


@pytest.mark.parametrize("units", [("s", "ms"), ("us", "ns"), ("s", "ns")])
def test_one_moment_is_one_key_in_any_resolution(units: tuple[str, str]) -> None:
    moments = [np.datetime64("2020-02-03T04:05:06", unit) for unit in units]
    stamps = [pd.Timestamp(moments[0]), pd.Timestamp(moments[0]).to_pydatetime()]
    assert len({written(value) for value in (*moments, *stamps)}) == 1
