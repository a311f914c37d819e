"""What an earlier version wrote is still read: releases of each kind, a session, and an older schema."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from mechanism_cases import SPARSE
from older_releases import SESSION, session_curator, told

import synthdp as sd
from synthdp.release_files import fingerprint
from synthdp.report import report_page
from synthdp.report.card import card_rows, privacy_card

OLDER = Path(__file__).parents[1] / "data"
SAVED = sorted(path for path in OLDER.glob("saved-*/*") if (path / "release.json").is_file())
SESSIONS = sorted(OLDER.glob(f"saved-*/{SESSION}"))


@pytest.fixture(scope="module")
def release() -> sd.Release:
    return sd.load(OLDER / "older.release")


def test_an_older_receipt_says_what_it_said(release: sd.Release) -> None:
    receipt = release.receipt
    assert receipt.total == sd.ApproxDP(1.0, 1e-6)
    assert (receipt.adjacency.unit, receipt.adjacency.rows) == ("person", 2)
    assert [item.step for item in receipt.items][:2] == ["number of rows", "one-way marginals"]
    assert receipt.assumptions == (
        "column names, their order and their types are public; the table has at least one row",
        "bounds and levels of all columns were declared and do not come from this table",
        "1 rules between columns were declared and hold for all rows",
    )
    assert "column 'extra' is not in the schema and was ignored" in receipt.notes
    assert all(line in " ".join(str(receipt).split()) for line in (*receipt.assumptions, *receipt.notes))


def test_an_older_schema_has_no_source(release: sd.Release) -> None:
    schema = sd.Schema.read(OLDER / "older.schema.json")
    assert release.output.schema == schema
    assert [column.source for column in schema.values()] == [None, None]
    assert schema.constraints == (sd.Forbidden({"age": (0, 3), "smoker": True}),)


def test_an_older_release_is_sampled_asked_and_shown(release: sd.Release) -> None:
    rows = release.sample(300, random_state=0)
    assert list(rows.columns) == ["age", "smoker"]
    assert not ((rows["age"] <= 3) & rows["smoker"]).any()
    assert len(release.answer(sd.count("age >= 5"))) == 1
    name = fingerprint(release)
    rows = card_rows(privacy_card(release, fingerprint=name))
    assert any("1 rules between columns" in line for _, lines in rows for line in lines)
    assert "older" in report_page(release, fingerprint=name, title="older")


def test_an_older_release_saved_again_is_the_same(release: sd.Release, tmp_path: Path) -> None:
    sd.save(release, tmp_path / "again.release")
    again = sd.load(tmp_path / "again.release")
    assert again.receipt == release.receipt
    assert fingerprint(again) == fingerprint(release)


def expected(path: Path) -> dict:
    return json.loads((path.parent / "expected.json").read_text(encoding="utf-8"))[path.name]


def test_there_is_a_release_of_each_kind() -> None:
    assert len(SAVED) > 35
    assert len(SESSIONS) >= 1


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("path", SAVED, ids=lambda path: f"{path.parent.name} {path.name}")
def test_a_release_of_an_earlier_version_says_what_it_said_and_is_saved_as_it_was(path: Path, tmp_path: Path) -> None:
    release = sd.load(path)
    assert told(release) == expected(path)
    release.save(tmp_path / "again")
    assert told(sd.load(tmp_path / "again")) == expected(path)


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.parent.name)
def test_a_session_of_an_earlier_version_goes_on(path: Path, tmp_path: Path) -> None:
    shutil.copytree(path, tmp_path / "session")
    session = sd.resume_session(tmp_path / "session", session_curator())
    assert (session.updates, list(session.columns)) == (expected(path)["updates"], expected(path)["columns"])
    assert session.ask(SPARSE[5]).count >= 0 or session.updates
    assert type(session.close().output).__name__ == "SparseModel"
