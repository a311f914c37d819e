"""No command writes over what it reads: above all not over the private table, of which there may be no other copy."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import synthdp as sd
from synthdp.cli.main import main

RELEASE = ("release", "table.csv", "--schema", "schema.json", "--epsilon", "1", "--mechanism", "mwem")
EVALUATE = ("nonprivate-evaluate", "table.csv", "other.csv", "--schema", "schema.json")
LEDGER = ("--ledger", "ledger.sqlite", "--dataset", "d")
OVER = {
    "the table": (*RELEASE, "--out", "table.csv"),
    "the table, by another path": (*RELEASE, "--out", "folder/../table.csv"),
    "the table, through a link": (*RELEASE, "--out", "link.csv"),
    "the table, with a receipt": (*RELEASE, "--out", "s.csv", "--receipt", "table.csv"),
    "the schema, with a report": (*RELEASE, "--out", "s.csv", "--report", "schema.json"),
    "the ledger, with a receipt": (*RELEASE, *LEDGER, "--out", "s.csv", "--receipt", "ledger.sqlite"),
    "the synthetic table, with its report": (*RELEASE, "--out", "s.csv", "--report", "s.csv"),
    "the receipt, with the release": (*RELEASE, "--out", "s.csv", "--receipt", "r.txt", "--save", "r.txt"),
    "the real table, with a comparison": (*EVALUATE, "--out", "table.csv"),
    "the synthetic table, with a comparison": (*EVALUATE, "--out", "other.csv"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    for name in ("table.csv", "other.csv"):
        pd.DataFrame({"a": rng.random(200) < 0.4, "b": rng.random(200) < 0.6}).to_csv(tmp_path / name, index=False)
    sd.Schema({"a": sd.Boolean(), "b": sd.Boolean()}).write(tmp_path / "schema.json")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.csv").symlink_to(tmp_path / "table.csv")
    sd.Ledger(tmp_path / "ledger.sqlite").declare("d")
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("arguments", OVER.values(), ids=OVER)
def test_what_would_write_over_a_file_of_the_same_command_is_refused_before_anything_is_spent(
    folder: Path, arguments: tuple[str, ...]
) -> None:
    before = contents(folder)
    with contextlib.chdir(folder):
        result = CliRunner(catch_exceptions=False).invoke(main, arguments)
    assert result.exit_code == 2
    assert "by this command" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert contents(folder) == before


def test_files_of_their_own_are_written(folder: Path) -> None:
    with contextlib.chdir(folder):
        made = CliRunner(catch_exceptions=False).invoke(
            main,
            (*RELEASE, *LEDGER, "--out", "s.csv", "--receipt", "r.txt", "--report", "r.html", "--save", "s.release"),
        )
    assert made.exit_code == 0, made.stderr
    assert {"s.csv", "r.txt", "r.html", "s.release"} <= {path.name for path in folder.iterdir()}


def test_columns_that_a_release_left_out_are_not_compared_and_named(folder: Path) -> None:
    pd.read_csv(folder / "other.csv")[["b"]].to_csv(folder / "other.csv", index=False)
    with contextlib.chdir(folder):
        found = CliRunner(catch_exceptions=False).invoke(main, EVALUATE)
        targeted = CliRunner(catch_exceptions=False).invoke(main, (*EVALUATE, "--target", "a"))
    assert found.exit_code == 0
    assert "column 'a' is not in the synthetic table" in found.stderr
    assert "NON-PRIVATE" in found.stdout
    assert targeted.exit_code == 2


@pytest.mark.parametrize("receipt", ["r.txt", "r.json", "r.html"])
def test_what_is_published_names_no_folder_of_the_machine_it_was_made_on(folder: Path, receipt: str) -> None:
    made = folder / "made"
    places = {"--out": made / "s.csv", "--receipt": made / receipt, "--report": made / "r2.html", "--save": made / "r"}
    told = {"--schema": folder / "schema.json", "--ledger": folder / "ledger.sqlite", "--dataset": "d", **places}
    options = [str(word) for pair in told.items() for word in pair]
    done = CliRunner(catch_exceptions=False).invoke(main, ["release", str(folder / "table.csv"), "--json", *options])
    assert done.exit_code == 0, done.stderr
    files = [path for path in made.rglob("*") if path.is_file()]
    assert {"s.csv", receipt, "r2.html", "release.json"} <= {path.name for path in files}
    assert "ledger.sqlite" in (made / receipt).read_text()
    for path in files:
        assert str(folder.parent).encode() not in path.read_bytes(), path
