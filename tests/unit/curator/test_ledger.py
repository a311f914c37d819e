"""What a ledger adds up, and what it says aloud: neighbours, names, caps, and files that are none."""

import itertools
import json
import sqlite3
import warnings
from contextlib import closing
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from forks import raced

from synthdp import ZCDP, ApproxDP, Boolean, Curator, GaussianDP, Ledger, PureDP, Schema, SyntheticRelease
from synthdp.domain.domain import domain_of
from synthdp.errors import BudgetExceededError, LedgerError, LedgerWarning, ParameterError
from synthdp.privacy.neighbors import Adjacency, Neighbors
from synthdp.queries.marginals import one_ways

SCHEMA = Schema({"x": Boolean()})
TABLE = pd.DataFrame({"x": [True, False], "person": ["a", "b"], "house": ["c", "c"]})
ADD, REPLACE = Neighbors.ADD_REMOVE, Neighbors.REPLACE_ONE
RELATIONS = [
    Adjacency(ADD),
    Adjacency(REPLACE),
    Adjacency(ADD, "person"),
    Adjacency(ADD, "house"),
    Adjacency(REPLACE, "person"),
]
PAIRS = list(itertools.permutations(RELATIONS, 2))


def ask(relation: Adjacency, ledger: Path, *, dataset: str = "t", table: object = TABLE) -> None:
    """Ask a curator one question under a relation, charged to a ledger."""
    curator = Curator(
        table, schema=SCHEMA, budget=PureDP(0.5), neighbors=relation.neighbors, privacy_unit=relation.unit,
        max_rows_per_unit=relation.rows, ledger=ledger, dataset=dataset,
    )  # fmt: skip
    curator.measure(one_ways(domain_of(SCHEMA)))


def spends(ledger: Path) -> list[tuple[str, object, str]]:
    return [(entry.dataset, entry.loss, entry.state) for entry in Ledger(ledger).entries()]


class Unreadable:
    """A source whose rows must not be read."""

    names = tuple(TABLE.columns)

    def blocks(self, columns, *, extra=()):
        pytest.fail("a row was read")


# One relation for one data set


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=str)
def test_an_adversary_who_mixes_relations_is_refused_before_anything_is_spent_or_read(first, second, tmp_path):
    ask(first, tmp_path / "l.sqlite")
    with pytest.raises(LedgerError, match="neighbours"):
        ask(second, tmp_path / "l.sqlite", table=Unreadable())
    assert spends(tmp_path / "l.sqlite") == [("t", PureDP(0.5), "committed")]


@pytest.mark.parametrize(("capped", "second"), PAIRS, ids=str)
def test_a_cap_covers_no_spend_of_another_relation(capped, second, tmp_path):
    book = Ledger(tmp_path / "l.sqlite")
    book.set_cap("t", PureDP(9.0), neighbors=capped.neighbors, privacy_unit=capped.unit)
    with pytest.raises(LedgerError, match="neighbours"):
        ask(second, tmp_path / "l.sqlite", table=Unreadable())
    assert (book.entries(), book.left("t")) == ([], PureDP(9.0))


@pytest.mark.parametrize("relation", RELATIONS, ids=str)
def test_spends_of_one_relation_add_up_and_are_recorded_with_it(relation, tmp_path):
    book = Ledger(tmp_path / "l.sqlite")
    book.set_cap("t", PureDP(1.25), neighbors=relation.neighbors, privacy_unit=relation.unit)
    ask(relation, tmp_path / "l.sqlite")
    ask(relation, tmp_path / "l.sqlite")
    with pytest.raises(BudgetExceededError, match=r"0\.25.*1\.25"):
        ask(relation, tmp_path / "l.sqlite")
    assert book.left("t") == PureDP(0.25)
    assert book.adjacency("t") == relation
    assert [entry.adjacency for entry in book.entries("t")] == [relation, relation]


def test_how_many_rows_of_a_unit_are_used_may_differ(tmp_path):
    book = Ledger(tmp_path / "l.sqlite")
    book.set_cap("t", PureDP(1.0), privacy_unit="person")
    ask(Adjacency(ADD, "person", 5), tmp_path / "l.sqlite")
    ask(Adjacency(ADD, "person", 1), tmp_path / "l.sqlite")
    with pytest.raises(BudgetExceededError):
        ask(Adjacency(ADD, "person", 2), tmp_path / "l.sqlite")
    assert [entry.adjacency.rows for entry in book.entries()] == [5, 1]


@pytest.mark.parametrize("settings", [{"neighbors": "replace_one"}, {"privacy_unit": "person"}])
def test_the_estimator_cannot_mix_relations_either(settings, tmp_path):
    SyntheticRelease(schema=SCHEMA, ledger=tmp_path / "l.sqlite", dataset="t").fit(TABLE)
    with pytest.raises(LedgerError, match="neighbours"):
        SyntheticRelease(schema=SCHEMA, ledger=tmp_path / "l.sqlite", dataset="t", **settings).fit(TABLE)
    assert spends(tmp_path / "l.sqlite") == [("t", ApproxDP(1.0, 1e-9), "committed")]


def test_two_data_sets_of_one_ledger_may_have_two_relations(tmp_path):
    book = Ledger(tmp_path / "l.sqlite")
    for dataset, relation in zip("abcde", RELATIONS, strict=True):
        book.set_cap(dataset, PureDP(0.5), neighbors=relation.neighbors, privacy_unit=relation.unit)
        ask(relation, tmp_path / "l.sqlite", dataset=dataset)
    assert [book.left(dataset) for dataset in "abcde"] == [None] * 5


def test_a_cap_without_a_relation_is_for_one_row_or_for_what_the_data_set_is_counted_for(tmp_path):
    book = Ledger(tmp_path / "l.sqlite")
    book.set_cap("rows", PureDP(1.0))
    ask(RELATIONS[2], tmp_path / "l.sqlite", dataset="persons")
    book.set_cap("persons", PureDP(1.0))
    assert [book.adjacency(name) for name in ("rows", "persons", "nobody")] == [RELATIONS[0], RELATIONS[2], None]


def test_a_cap_moves_to_another_relation_until_something_is_spent(tmp_path):
    book = Ledger(tmp_path / "l.sqlite")
    book.set_cap("t", PureDP(1.0))
    book.set_cap("t", PureDP(2.0), privacy_unit="person")
    ask(RELATIONS[2], tmp_path / "l.sqlite")
    with pytest.raises(LedgerError, match="'person'"):
        book.set_cap("t", PureDP(9.0), neighbors="add_remove")
    with pytest.raises(LedgerError, match="'person'"):
        book.declare("t", neighbors="replace_one", privacy_unit="person")
    assert (book.cap("t"), book.adjacency("t")) == (PureDP(2.0), RELATIONS[2])


@pytest.mark.parametrize("cap", [ZCDP(1.0), GaussianDP(1.0), PureDP(1.0)])
def test_a_cap_in_which_earlier_spends_cannot_be_stated_is_refused(cap, tmp_path):
    book = Ledger(tmp_path / "l.sqlite")
    book.reserve("t", ApproxDP(0.5, 1e-9), what="x")
    with pytest.raises(LedgerError, match=f"'t'.*{type(cap).__name__}"):
        book.set_cap("t", cap)
    assert book.cap("t") is None


@pytest.mark.parametrize("cap", [ZCDP(1.0), GaussianDP(1.0), PureDP(1.0)])
def test_a_spend_that_cannot_be_stated_in_the_caps_currency_is_refused(cap, tmp_path):
    book = Ledger(tmp_path / "l.sqlite")
    book.set_cap("t", cap)
    with pytest.raises(LedgerError, match=r"'t'.*0\.5"):
        book.reserve("t", ApproxDP(0.5, 1e-9), what="x")
    assert (book.entries(), book.left("t")) == ([], cap)


# A name that is mistyped, unknown or without a cap


@pytest.mark.parametrize("typo", ["patient", "Patients", "PATIENTS", "pateints", "patients ", "patients_2"])
def test_a_mistyped_data_set_is_said_aloud_with_the_name_that_was_meant(typo, tmp_path):
    Ledger(tmp_path / "l.sqlite").set_cap("patients", PureDP(0.5))
    with pytest.warns(LedgerWarning, match=f"'{typo}'.*new.*set_cap.*'patients'"):
        ask(RELATIONS[0], tmp_path / "l.sqlite", dataset=typo)
    with pytest.warns(LedgerWarning, match=f"'{typo}'.*set_cap.*'patients'"):
        ask(RELATIONS[0], tmp_path / "l.sqlite", dataset=typo)


def test_a_forgotten_name_is_said_aloud_with_the_names_that_have_a_cap(tmp_path):
    Ledger(tmp_path / "l.sqlite").set_cap("patients", ApproxDP(1.0, 1e-6))
    with pytest.warns(LedgerWarning, match="'default'.*new.*'patients'"):
        SyntheticRelease(schema=SCHEMA, ledger=tmp_path / "l.sqlite").fit(TABLE)


def test_the_warning_of_a_spend_without_a_cap_names_the_line_that_spends(tmp_path):
    with pytest.warns(LedgerWarning) as said:
        Ledger(tmp_path / "l.sqlite").reserve("patients", PureDP(0.5), what="x")
    assert said[0].filename == __file__


def test_every_spend_without_a_cap_is_said_aloud_and_none_with_one(tmp_path):
    book = Ledger(tmp_path / "l.sqlite")
    with pytest.warns(LedgerWarning, match=r"'t'.*new.*set_cap"):
        book.reserve("t", PureDP(0.5), what="x")
    with pytest.warns(LedgerWarning, match=r"'t'.*set_cap"):
        book.reserve("t", PureDP(0.5), what="x")
    book.set_cap("t", PureDP(2.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        book.reserve("t", PureDP(0.5), what="x")


def test_a_user_who_makes_warnings_errors_spends_nothing_without_a_cap(tmp_path):
    Ledger(tmp_path / "l.sqlite").set_cap("patients", PureDP(0.5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(LedgerWarning):
            ask(RELATIONS[0], tmp_path / "l.sqlite", dataset="patient", table=Unreadable())
    assert Ledger(tmp_path / "l.sqlite").datasets() == ["patients"]
    assert spends(tmp_path / "l.sqlite") == []


@pytest.mark.parametrize("name", ["", None, 5, "\udcff"])
def test_a_name_that_is_no_text_is_refused_by_every_door(name, tmp_path):
    book = Ledger(tmp_path / "l.sqlite")
    doors = [
        lambda: book.reserve(name, PureDP(1.0), what="x"),
        lambda: book.set_cap(name, PureDP(1.0)),
        lambda: book.declare(name),
        lambda: book.cap(name),
        lambda: book.left(name),
        lambda: book.adjacency(name),
    ]
    for door in doors:
        with pytest.raises(ParameterError, match="dataset"):
            door()
    assert not (tmp_path / "l.sqlite").exists()


@pytest.mark.parametrize("name", ["", "\udcff"])
def test_an_empty_name_is_no_name_for_a_curator(name, tmp_path):
    with pytest.raises(ParameterError, match="dataset"):
        ask(RELATIONS[0], tmp_path / "l.sqlite", dataset=name, table=Unreadable())


@pytest.mark.parametrize("dataset", ["patients", ""])
def test_a_data_set_without_a_ledger_is_refused_before_anything_is_read(dataset):
    with pytest.raises(ParameterError, match=r"dataset.*ledger"):
        Curator(Unreadable(), schema=SCHEMA, budget=PureDP(1.0), dataset=dataset)
    with pytest.raises(ParameterError, match=r"dataset.*ledger"):
        SyntheticRelease(schema=SCHEMA, dataset=dataset).fit(TABLE)


def test_names_and_units_may_be_any_text(tmp_path):
    book = Ledger(tmp_path / "l.sqlite")
    odd = "naïve 名前 'quoted' \"twice\" ; DROP TABLE spends --\n\0"
    book.set_cap(odd, PureDP(1.0), privacy_unit="\udcff' 名")
    number = book.reserve(odd, PureDP(0.25), what=odd, adjacency=Adjacency(ADD, "\udcff' 名"))
    book.commit(number)
    assert [(entry.dataset, entry.what, entry.state) for entry in book.entries(odd)] == [(odd, odd, "committed")]
    assert (book.datasets(), book.left(odd)) == ([odd], PureDP(0.75))
    with pytest.raises(ParameterError, match="what"):
        book.reserve(odd, PureDP(0.25), what="\udcff")


@pytest.mark.parametrize("loss", [1.0, None, "ε = 1"])
def test_what_is_no_loss_is_refused(loss, tmp_path):
    book = Ledger(tmp_path / "l.sqlite")
    with pytest.raises(ParameterError, match="loss"):
        book.reserve("t", loss, what="x")
    with pytest.raises(ParameterError, match="cap"):
        book.set_cap("t", loss)
    assert not (tmp_path / "l.sqlite").exists()


# A file that is missing, replaced, damaged or somebody else's


def test_a_ledger_is_a_file_whatever_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Ledger(":memory:").reserve("t", PureDP(0.5), what="x")
    Ledger("file:a.sqlite?mode=memory").reserve("t", PureDP(0.5), what="x")
    assert len(Ledger(":memory:").entries()) == len(Ledger("file:a.sqlite?mode=memory").entries()) == 1


def test_a_ledger_stays_where_it_was_when_the_folder_changes(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    book = Ledger("l.sqlite")
    number = book.reserve("t", PureDP(0.5), what="x")
    monkeypatch.chdir(tmp_path / "elsewhere")
    book.commit(number)
    assert [entry.state for entry in book.entries()] == ["committed"]
    assert not Path("l.sqlite").exists()


def test_looking_into_a_ledger_that_is_not_there_makes_none(tmp_path):
    book = Ledger(tmp_path / "l.sqlite")
    found = (book.entries(), book.datasets(), book.cap("t"), book.left("t"), book.adjacency("t"))
    assert found == ([], [], None, None, None)
    assert not (tmp_path / "l.sqlite").exists()


def test_a_spend_whose_file_was_removed_is_not_committed_in_silence(tmp_path):
    book = Ledger(tmp_path / "l.sqlite")
    number = book.reserve("t", PureDP(0.5), what="x")
    (tmp_path / "l.sqlite").unlink()
    with pytest.raises(LedgerError, match=r"l\.sqlite'.*\b1\b"):
        book.commit(number)


def test_an_empty_file_becomes_a_ledger(tmp_path):
    (tmp_path / "l.sqlite").touch()
    book = Ledger(tmp_path / "l.sqlite")
    assert book.entries() == []
    book.reserve("t", PureDP(0.5), what="x")
    assert len(book.entries()) == 1


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE bookmarks (url TEXT)"],
        ["CREATE TABLE meta (version INTEGER)", "CREATE TABLE bookmarks (url TEXT)"],
        ["CREATE TABLE meta (key TEXT)", "CREATE TABLE spends (money REAL)"],
        ["CREATE TABLE meta (version INTEGER)", "CREATE TABLE spends (money REAL)"],
        ["CREATE TABLE meta (version INTEGER)", "CREATE TABLE spends (money REAL)", "INSERT INTO meta VALUES (1)"],
        ["CREATE TABLE meta (version INTEGER)", "CREATE TABLE spends (money REAL)", "INSERT INTO meta VALUES (2)"],
    ],
)
def test_a_database_of_another_program_is_refused_and_left_as_it_is(statements, tmp_path):
    path = tmp_path / "theirs.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        [db.execute(statement) for statement in statements]
    before = path.read_bytes()
    doors = [
        lambda: Ledger(path).reserve("t", PureDP(1.0), what="x"),
        lambda: Ledger(path).set_cap("t", PureDP(1.0)),
        lambda: Ledger(path).entries(),
        lambda: Ledger(path).left("t"),
    ]
    for door in doors:
        with pytest.raises(LedgerError, match=r"theirs\.sqlite"):
            door()
    assert path.read_bytes() == before


@pytest.mark.parametrize("column", ["loss", "adjacency"])
@pytest.mark.parametrize("text", ["", "5", "[]", "{}", '{"kind": "PureDP"}', '{"kind": "PureDP", "epsilon": -1}'])
def test_a_damaged_entry_is_never_read_as_no_spend(column, text, tmp_path):
    book = Ledger(tmp_path / "l.sqlite")
    book.set_cap("t", PureDP(1.0))
    book.reserve("t", PureDP(0.5), what="x")
    with closing(sqlite3.connect(tmp_path / "l.sqlite", isolation_level=None)) as db:
        db.execute(f"UPDATE spends SET {column} = ?", (text,))
        db.execute(
            "UPDATE datasets SET adjacency = coalesce((SELECT ? WHERE ? = 'adjacency'), adjacency)", (text, column)
        )
    with pytest.raises(LedgerError, match="damaged"):
        book.entries()
    with pytest.raises(LedgerError, match="damaged"):
        book.reserve("t", PureDP(0.25), what="y")


def test_the_file_says_for_whom_every_loss_is(tmp_path):
    """Whoever reads the file without synthdp must not add up what does not add up."""
    ask(Adjacency(ADD, "person", 3), tmp_path / "l.sqlite")
    with closing(sqlite3.connect(tmp_path / "l.sqlite")) as db:
        ((text,),) = db.execute("SELECT adjacency FROM spends").fetchall()
    assert json.loads(text) == {"neighbors": "add_remove", "privacy_unit": "person", "max_rows_per_unit": 3}


def test_processes_that_race_with_two_relations_leave_one(tmp_path):
    def spend(name):
        try:
            Ledger(tmp_path / "l.sqlite").reserve("t", PureDP(1.0), what="race", adjacency=Adjacency(name))
            return "won"
        except LedgerError:
            return "lost"

    names = ["add_remove", "replace_one"] * 3
    outcomes = list(zip(names, raced([partial(spend, name) for name in names]), strict=True))
    winner = Ledger(tmp_path / "l.sqlite").adjacency("t").neighbors.value
    assert sorted(outcomes) == sorted((name, "won" if name == winner else "lost") for name in names)
    assert len(Ledger(tmp_path / "l.sqlite").entries()) == 3
