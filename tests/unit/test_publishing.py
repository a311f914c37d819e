"""One job from rows to published files: every stage is told, and what was paid for is kept."""

from __future__ import annotations

import pandas as pd
import pytest
from click.testing import CliRunner

import synthdp as sd
from synthdp.cli.main import main
from synthdp.errors import DataError, ParameterError
from synthdp.publishing import Places, publish, without_source, write_results

TABLE = pd.DataFrame({"member": [True, False] * 200, "age": [*range(40)] * 10})
SCHEMA = sd.Schema({"member": sd.Boolean(), "age": sd.Integer(0, 99)})


def settings(**more: object) -> sd.SyntheticRelease:
    return sd.SyntheticRelease(**{"schema": SCHEMA, "epsilon": 1.0, **more})


def test_every_stage_is_told_from_the_reading_to_the_report(tmp_path):
    told: list[str] = []
    asked = settings(schema={"member": sd.Boolean(), "age": sd.Integer()}, on_progress=lambda p: told.append(p.stage))
    publish(TABLE, asked, Places.within(tmp_path / "out"), on_progress=lambda p: told.append(p.stage))
    assert told[:2] == ["reading", "discovery"]
    assert told[-4:] == ["drawing rows", "columns", "accuracy", "pairs of columns"]
    assert "fit" in told


def test_a_plan_tells_its_dry_runs():
    told: list[tuple[int, int]] = []
    settings(on_progress=lambda p: told.append((p.done, p.total))).plan(rows=300, epsilon=[0.5, 1.0])
    assert told == [(0, 2), (1, 2)]


def test_a_report_that_cannot_be_written_leaves_the_release_from_which_it_is_written_later(tmp_path, monkeypatch):
    places, book = Places.within(tmp_path / "out"), sd.Ledger(tmp_path / "l.sqlite")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("synthdp.publishing.write_report", full)
        with pytest.raises(DataError, match=r"report\.html"):
            publish(TABLE, settings(ledger=book.path), places)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["release"]
    rows = write_results(sd.load(places.release), places)
    assert len(pd.read_csv(places.table)) == rows
    assert len(book.entries()) == 1


def test_what_is_refused_leaves_nothing_behind_and_spends_nothing(tmp_path):
    book = sd.Ledger(tmp_path / "l.sqlite")
    with pytest.raises(DataError):
        publish(TABLE.drop(columns="age"), settings(ledger=book.path), Places.within(tmp_path / "out"))
    assert (book.entries(), (tmp_path / "out").exists()) == ([], False)


def test_places_that_cannot_be_meant_are_refused(tmp_path):
    with pytest.raises(ParameterError):
        Places(table=tmp_path / "t.csv").check(inputs=[tmp_path / "t.csv"])
    with pytest.raises(ParameterError):
        Places(table=tmp_path / "t.txt").check(inputs=[])


def test_columns_without_a_source_are_named_and_the_command_line_says_so(tmp_path, monkeypatch):
    schema = sd.Schema(
        {
            "member": sd.Boolean(),
            "age": sd.Integer(0, 99),
            "born": sd.Integer(1900, 2030, source="a law"),
            "open": sd.Integer(),
            "id": sd.Identifier(),
        }
    )
    assert without_source(schema) == ("age",)
    monkeypatch.chdir(tmp_path)
    TABLE.to_csv("t.csv", index=False)
    SCHEMA.write("s.json")
    told = CliRunner().invoke(main, ["release", "t.csv", "--schema", "s.json", "--out", "o.csv"])
    assert (told.exit_code, "where it knows" in told.stderr, "age" in told.stderr) == (0, True, True)
