"""The ledger on the command line: whose losses are counted, what is left, and what is said about a name."""

import contextlib
import json
import warnings
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from old_ledger import write_old_ledger

from synthdp import ApproxDP, Boolean, Ledger, Schema
from synthdp.cli.main import main


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "table.csv").write_text("x,person\ntrue,a\nfalse,b\ntrue,b\n", encoding="utf-8")
    Schema({"x": Boolean()}).write(tmp_path / "schema.json")
    return tmp_path


def synthdp(folder: Path, line: str) -> Result:
    with contextlib.chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.setattr(warnings, "showwarning", warnings.showwarning)
        return CliRunner(catch_exceptions=False).invoke(main, line.split())


def release(folder: Path, more: str) -> Result:
    return synthdp(folder, f"release table.csv --schema schema.json --out out.csv {more}")


def test_a_ledger_shows_neighbours_cap_spends_and_what_is_left(folder):
    assert synthdp(folder, "ledger l.sqlite --dataset people --cap 2 --cap-delta 1e-6").exit_code == 0
    assert release(folder, "--epsilon 0.5 --ledger l.sqlite --dataset people").exit_code == 0
    shown = synthdp(folder, "ledger l.sqlite")
    assert [line.split("  ")[0:2] for line in shown.stdout.splitlines()[:1]] == [["people: 1 spend"]]
    told = dict(line.strip().split("  ", 1) for line in shown.stdout.splitlines()[1:4])
    assert {name: text.strip() for name, text in told.items()} == {
        "neighbours": "add or remove one row",
        "cap": "ε = 2, δ = 1e-06",
        "left": "ε = 1.5, δ = 9.99e-07",
    }
    assert "committed  ε = 0.5, δ = 1e-09" in shown.stdout.splitlines()[4]


def test_a_cap_for_persons_covers_persons_and_refuses_rows(folder):
    done = synthdp(folder, "ledger l.sqlite --dataset people --cap 2 --cap-delta 1e-6 --privacy-unit person")
    assert "add or remove all rows of one value of 'person'" in done.stdout
    refused = release(folder, "--ledger l.sqlite --dataset people")
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert "do not add up" in refused.stderr
    assert not (folder / "out.csv").exists()
    made = release(folder, "--ledger l.sqlite --dataset people --privacy-unit person --max-rows-per-unit 3")
    assert made.exit_code == 0, made.stderr
    (told,) = json.loads(synthdp(folder, "ledger l.sqlite --json").stdout).values()
    assert (told["neighbors"], told["privacy_unit"]) == ("add_remove", "person")
    assert told["left"] == {"kind": "ApproxDP", "epsilon": 1.0, "delta": pytest.approx(9.99e-7)}
    assert [(spend["state"], spend["max_rows_per_unit"]) for spend in told["spends"]] == [("committed", 3)]


def test_a_mistyped_data_set_is_said_on_standard_error_and_still_released(folder):
    Ledger(folder / "l.sqlite").set_cap("people", ApproxDP(2.0, 1e-6))
    made = release(folder, "--ledger l.sqlite --dataset poeple")
    assert made.exit_code == 0
    (line,) = made.stderr.splitlines()
    assert line.startswith("synthdp: warning: ")
    assert "'poeple' is new" in line
    assert "'people'" in line


@pytest.mark.parametrize("dataset", ["people", ""])
def test_a_data_set_without_a_ledger_is_refused_before_anything_is_read(dataset, folder):
    (folder / "table.csv").unlink()
    (folder / "schema.json").unlink()
    refused = synthdp(folder, "release table.csv --schema schema.json --out out.csv --dataset=" + dataset)
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert "--ledger" in refused.stderr


def test_an_old_ledger_is_shown_and_then_counts_once_it_is_declared(folder):
    write_old_ledger(folder / "l.sqlite")
    shown = synthdp(folder, "ledger l.sqlite")
    assert shown.exit_code == 0
    assert shown.stdout.count("older version") == 3
    assert "reserved   ε = 0.25  histogram" in shown.stdout
    refused = release(folder, "--ledger l.sqlite --dataset patients")
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
    assert "synthdp ledger 'l.sqlite' --dataset 'patients' --neighbors add_remove" in refused.stderr
    assert synthdp(folder, "ledger l.sqlite --dataset patients --neighbors add_remove").exit_code == 0
    assert release(folder, "--ledger l.sqlite --dataset patients --epsilon 1.25").exit_code == 0
    assert "left        nothing" in synthdp(folder, "ledger l.sqlite --dataset patients").stdout


def test_spends_that_the_caps_currency_cannot_state_do_not_hide_the_others(folder):
    """An old ledger may hold a cap that says nothing about earlier spends."""
    write_old_ledger(folder / "l.sqlite")
    book = Ledger(folder / "l.sqlite")
    book.declare("visits")
    with contextlib.closing(__import__("sqlite3").connect(folder / "l.sqlite", isolation_level=None)) as db:
        db.execute('UPDATE datasets SET cap = \'{"kind": "PureDP", "epsilon": 1.0}\' WHERE name = \'visits\'')
    shown = synthdp(folder, "ledger l.sqlite")
    assert (shown.exit_code, shown.stdout.count("cannot be converted")) == (0, 1)
    told = json.loads(synthdp(folder, "ledger l.sqlite --json").stdout)
    assert "cannot be converted" in told["visits"]["left"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ledger l.sqlite --dataset poeple", "no data set 'poeple'; did you mean 'people'"),
        ("ledger l.sqlite --dataset x", "no data set 'x'; did you mean 'people'"),
        ("ledger l.sqlite --dataset poeple --neighbors add_remove", "did you mean 'people'"),
        ("ledger l.sqlite --cap 1", "--cap needs --dataset"),
        ("ledger l.sqlite --neighbors add_remove", "--neighbors needs --dataset"),
        ("ledger l.sqlite --privacy-unit p", "--privacy-unit needs --dataset"),
        ("ledger l.sqlite --dataset people --cap-delta 1e-6", "--cap-delta needs --cap"),
        ("ledger l.sqlite --dataset people --neighbors both", "neighbors ('both') must be"),
        ("ledger l.sqlite --dataset people --cap nan", "epsilon (nan) must be"),
        ("ledger l.sqlite --dataset= --cap 1", "dataset ('') must be a name"),
        ("ledger none.sqlite", "there is no ledger 'none.sqlite'"),
        ("ledger none.sqlite --dataset people --neighbors add_remove", "there is no ledger 'none.sqlite'"),
        ("ledger schema.json", "is not a synthdp ledger"),
    ],
)
def test_a_wrong_question_is_refused_in_one_line_and_changes_nothing(line, words, folder):
    Ledger(folder / "l.sqlite").set_cap("people", ApproxDP(2.0, 1e-6))
    before = (folder / "l.sqlite").read_bytes()
    refused = synthdp(folder, line)
    assert (refused.exit_code, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert words in refused.stderr
    assert (folder / "l.sqlite").read_bytes() == before
    assert not (folder / "none.sqlite").exists()
