"""A caller's key in the ledger: what is started twice under one key is paid for once."""

import contextlib
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pytest

import synthdp as sd
from synthdp import ApproxDP, Ledger, PureDP
from synthdp.errors import LedgerError, ParameterError

VERSION_2 = """
CREATE TABLE meta (version INTEGER NOT NULL);
CREATE TABLE datasets (name TEXT PRIMARY KEY, adjacency TEXT, cap TEXT);
CREATE TABLE spends (
    id INTEGER PRIMARY KEY, dataset TEXT NOT NULL, loss TEXT NOT NULL, what TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'committed')), moment TEXT NOT NULL, adjacency TEXT);
INSERT INTO "meta" VALUES(2);
INSERT INTO "datasets" VALUES('patients','{"neighbors": "add_remove", "privacy_unit": null, "max_rows_per_unit": 1}',NULL);
INSERT INTO "spends" VALUES(1,'patients','{"kind": "PureDP", "epsilon": 0.5}','account','committed',
    '2026-11-21T00:00:00+00:00','{"neighbors": "add_remove", "privacy_unit": null, "max_rows_per_unit": 1}');
"""
pytestmark = pytest.mark.filterwarnings("ignore::synthdp.errors.LedgerWarning")


def spent(book: Ledger) -> list[tuple]:
    return [(entry.what, entry.loss, entry.state, entry.key) for entry in book.entries()]


def test_a_second_spend_under_a_key_is_refused_and_nothing_is_written(tmp_path):
    path = tmp_path / "l.sqlite"
    Ledger(path, key="plan-1").reserve("patients", PureDP(0.5), what="account")
    with pytest.raises(LedgerError, match="'plan-1'"):
        Ledger(path, key="plan-1").reserve("visits", PureDP(0.25), what="account")
    assert spent(Ledger(path)) == [("account", PureDP(0.5), "reserved", "plan-1")]
    assert Ledger(path).datasets() == ["patients"]


def test_spends_without_a_key_or_under_other_keys_are_free_to_follow(tmp_path):
    path = tmp_path / "l.sqlite"
    for key in ("plan-1", "plan-2", None, None):
        Ledger(path, key=key).reserve("patients", PureDP(0.5), what="account")
    assert [entry.key for entry in Ledger(path).entries()] == ["plan-1", "plan-2", None, None]


def test_of_eight_that_spend_under_one_key_at_once_one_does(tmp_path):
    path = tmp_path / "l.sqlite"

    def spend(_: int) -> bool:
        with contextlib.suppress(LedgerError):
            Ledger(path, key="plan").reserve("patients", PureDP(0.5), what="account")
            return True
        return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(spend, range(8))) == 1
    assert len(Ledger(path).entries()) == 1


def test_the_file_itself_holds_one_spend_a_key(tmp_path):
    path = tmp_path / "l.sqlite"
    Ledger(path, key="plan").reserve("patients", PureDP(0.5), what="account")
    with contextlib.closing(sqlite3.connect(path)) as db, pytest.raises(sqlite3.IntegrityError):
        db.execute("INSERT INTO spends SELECT 2, dataset, loss, what, state, moment, adjacency, key FROM spends")


def test_a_note_says_what_a_spend_was_for_and_entries_are_found_by_their_key(tmp_path):
    path = tmp_path / "l.sqlite"
    Ledger(path).reserve("patients", PureDP(1.0), what="account")
    Ledger(path, key="plan", note="the yearly table").reserve("patients", PureDP(0.5), what="account")
    (found,) = Ledger(path).entries(key="plan")
    assert (found.what, found.number) == ("the yearly table", 2)
    assert Ledger(path).entries(key="other") == []


@pytest.mark.parametrize("settings", [{"key": ""}, {"key": 3}, {"note": ""}, {"key": "\ud800"}])
def test_a_key_or_a_note_that_is_no_text_is_refused(tmp_path, settings):
    with pytest.raises(ParameterError):
        Ledger(tmp_path / "l.sqlite", **settings)


def test_a_ledger_of_version_2_keeps_its_spends_and_takes_keys(tmp_path):
    path = tmp_path / "l.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(VERSION_2)
    assert spent(Ledger(path)) == [("account", PureDP(0.5), "committed", None)]
    Ledger(path, key="plan").reserve("patients", PureDP(0.25), what="account")
    assert spent(Ledger(path))[1:] == [("account", PureDP(0.25), "reserved", "plan")]


def test_a_release_spends_once_under_the_key_of_its_ledger(tmp_path):
    table, schema = pd.DataFrame({"member": [True, False] * 200}), {"member": sd.Boolean()}
    book = Ledger(tmp_path / "l.sqlite", key="plan", note="a table of members")

    def release() -> sd.SyntheticRelease:
        return sd.SyntheticRelease(schema=schema, epsilon=1.0, ledger=book, dataset="members").fit(table)

    release()
    with pytest.raises(LedgerError):
        release()
    assert spent(Ledger(book.path)) == [("a table of members", ApproxDP(1.0, 1e-9), "committed", "plan")]
