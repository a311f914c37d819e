"""Files that are cut short, change or vanish, and full disks: one clear error, nothing left behind.

The ledger shows a spend before a row is read: what is found when a table is opened costs nothing; what is found while
it is read, before the first answer, is given back.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from no_noise import without_noise

from synthdp import ApproxDP, Boolean, Categorical, Curator, Integer, Ledger, Schema, SyntheticRelease
from synthdp.cli.main import main
from synthdp.curator import private_table as room_module, spill as store_module
from synthdp.domain.domain import domain_of
from synthdp.errors import NOTHING_SPENT, DataError, FormatError, LedgerError, SynthDPError, budget_told
from synthdp.queries.marginals import one_ways
from synthdp.release import load
from synthdp.tables.sources import file_source
from synthdp.tables.sources.csv import CsvSource
from synthdp.tables.sources.duckdb import DuckDBSource
from synthdp.tables.sources.parquet import ParquetSource

CANARY = "canary-4711"
SCHEMA = Schema({"age": Integer(0, 99), "city": Categorical(["a", "b"], nullable=True), "rich": Boolean()})
BUDGET = ApproxDP(1, 1e-6)


def table_of(rows: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    cities = np.array(["a", "b", CANARY, None], object)[rng.integers(0, 4, rows)]
    return pd.DataFrame({"age": rng.integers(0, 99, rows), "city": cities, "rich": rng.random(rows) < 0.5})


def of_other_types(rows: int = 30) -> pd.DataFrame:
    return table_of(rows).assign(age=CANARY)


@dataclass(frozen=True)
class Door:
    """One way in: how a table is written, how it is opened, and how a file of it comes to change half-way."""

    write: Callable[[Path], list[Path]]
    open: Callable[[Path], Any]
    change: Callable[[Path], object]


def write_csv(folder: Path) -> list[Path]:
    table_of().to_csv(folder / "t.csv", index=False)
    return [folder / "t.csv"]


def write_gzip(folder: Path) -> list[Path]:
    table_of().to_csv(folder / "t.csv.gz", index=False)
    return [folder / "t.csv.gz"]


def write_parts(folder: Path) -> list[Path]:
    for i in range(3):
        table_of().iloc[i::3].to_parquet(folder / f"part-{i}.parquet", index=False, row_group_size=20)
    return sorted(folder.glob("part-*.parquet"))


def write_arrow(folder: Path) -> list[Path]:
    table_of().to_feather(folder / "t.arrow", compression="uncompressed", chunksize=50)
    return [folder / "t.arrow"]


def write_database(folder: Path) -> list[Path]:
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        connection.register("rows", table_of(300_000))  # more than is read when a database is opened
        connection.execute("CREATE TABLE people AS SELECT *, random() AS x FROM rows")
    return [folder / "t.duckdb"]


def longer_row(file: Path) -> None:
    with file.open("a", encoding="utf-8") as csv:
        csv.write(f"1,{CANARY},True,{CANARY}\n")


def longer_row_in_gzip(file: Path) -> None:
    with gzip.open(file, "at", encoding="utf-8") as csv:
        csv.write(f"1,{CANARY},True,{CANARY}\n")


def no_database(file: Path) -> None:
    file.write_bytes(b"no database" * 1000)


DOORS = {
    "csv": Door(write_csv, lambda folder: CsvSource(folder / "t.csv"), longer_row),
    "gzip": Door(write_gzip, lambda folder: CsvSource(folder / "t.csv.gz"), longer_row_in_gzip),
    "folder": Door(write_parts, ParquetSource, lambda file: of_other_types().to_parquet(file, index=False)),
    "pattern": Door(
        write_parts,
        lambda folder: ParquetSource(folder / "part-*.parquet"),
        lambda file: of_other_types().drop(columns="rich").to_parquet(file, index=False),
    ),
    "arrow": Door(
        write_arrow, lambda folder: ParquetSource(folder / "t.arrow"), lambda file: of_other_types().to_feather(file)
    ),
    "database": Door(write_database, lambda folder: DuckDBSource(folder / "t.duckdb", name="people"), no_database),
    "parquet through duckdb": Door(
        write_parts,
        lambda folder: DuckDBSource(duckdb.read_parquet(str(folder / "part-*.parquet")), push_down=True),
        lambda file: of_other_types().to_parquet(file, index=False),
    ),
}


def truncate(door: Door, file: Path) -> None:
    content = file.read_bytes()
    half = content.find(b"\n", len(content) // 2) + 2  # of a CSV file: within a row, since whole rows cannot be missed
    file.write_bytes(content[:half])


def vanish(door: Door, file: Path) -> None:
    file.unlink()


def change(door: Door, file: Path) -> None:
    door.change(file)


FAULTS = {"truncated": truncate, "vanished": vanish, "changed": change}
BROKEN_ROWS = {("csv", "truncated"), ("csv", "changed"), ("gzip", "changed")}
"""A row of another length is a value like any other: refusing it would tell of that row (R27)."""

NO_FAULT = {
    *BROKEN_ROWS,
    ("arrow", "changed"),  # a single file of other types is another table
    ("folder", "vanished"), ("pattern", "vanished"),  # one file less is a smaller one
    *(("parquet through duckdb", fault) for fault in FAULTS),  # the relation is the user's, and so is its error
}  # fmt: skip
OPENED = [(door, fault) for door in DOORS for fault in FAULTS if (door, fault) not in NO_FAULT]
UNSEEN = {
    ("database", "vanished"), ("database", "changed"),  # DuckDB holds the database open
    ("parquet through duckdb", "vanished"),  # and looks its pattern up anew
}  # fmt: skip
READ = [(door, fault) for door in DOORS for fault in FAULTS if (door, fault) not in UNSEEN | BROKEN_ROWS]


def ask(source: Any, ledger: Ledger) -> None:
    with Curator(source, schema=SCHEMA, budget=BUDGET, ledger=ledger, dataset="people") as curator:
        curator.measure(one_ways(domain_of(SCHEMA, bins=4)), spend=BUDGET)


def assert_clear(error: SynthDPError) -> None:
    assert isinstance(error, (DataError, FormatError))
    assert "\n" not in str(error)
    assert CANARY not in str(error)
    assert error.__cause__ is None


@pytest.fixture
def disk(tmp_path, monkeypatch) -> Path:
    """The folder of temporary files, in which every encoded row is kept."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(store_module, "MEMORY_BYTES", 0)
    monkeypatch.setattr(room_module, "MEMORY_BYTES", 0)
    return tmp_path / "temporary"


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.mark.sampled
@pytest.mark.parametrize(("door", "fault"), OPENED)
def test_a_fault_that_is_found_when_a_table_is_opened_costs_nothing(door, fault, folder, tmp_path):
    entry, ledger = DOORS[door], Ledger(tmp_path / "l.sqlite")
    FAULTS[fault](entry, entry.write(folder)[-1])
    with pytest.raises(SynthDPError) as caught:
        ask(entry.open(folder), ledger)
    assert_clear(caught.value)
    assert ledger.entries() == []


@pytest.mark.sampled
@pytest.mark.parametrize(("door", "fault"), READ)
def test_a_fault_that_is_found_while_reading_gives_the_spend_back_for_no_answer_was_given(
    door, fault, folder, disk, tmp_path
):
    entry, ledger = DOORS[door], Ledger(tmp_path / "l.sqlite")
    ledger.set_cap("people", BUDGET)
    written = entry.write(folder)
    source = entry.open(folder)
    FAULTS[fault](entry, written[-1])
    with pytest.raises(SynthDPError) as caught:
        ask(source, ledger)
    assert_clear(caught.value)
    assert [(spend.loss, spend.state) for spend in ledger.entries("people")] == [(BUDGET, "returned")]
    assert budget_told(caught.value) == NOTHING_SPENT
    assert ledger.left("people") == BUDGET
    assert list(disk.iterdir()) == []


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("door", DOORS)
def test_a_sound_table_is_read_and_its_spend_committed(door, folder, disk, tmp_path):
    entry, ledger = DOORS[door], Ledger(tmp_path / "l.sqlite")
    entry.write(folder)
    ask(entry.open(folder), ledger)
    assert [(spend.loss, spend.state) for spend in ledger.entries("people")] == [(BUDGET, "committed")]
    assert list(disk.iterdir()) == []


def command(folder: Path, table: Path, *more: str) -> Any:
    SCHEMA.write(folder.parent / "schema.json")
    arguments = ["release", table, "--schema", folder.parent / "schema.json", "--ledger", folder.parent / "l.sqlite"]
    arguments += ["--out", folder.parent / "out.parquet", "--save", folder.parent / "t.release"]
    arguments += ["--receipt", folder.parent / "r.json", *more]
    return CliRunner(catch_exceptions=False).invoke(main, [str(argument) for argument in arguments])


COMMANDS = {"csv": "t.csv", "gzip": "t.csv.gz", "folder": "", "pattern": "part-*.parquet", "arrow": "t.arrow",
            "database": "t.duckdb"}  # fmt: skip


SEVERAL = ("csv", "gzip", "folder", "pattern")
"""Doors whose fault lies behind the first row, which is looked for before anything is spent."""


def assert_refused(result: Any, folder: Path, kept: str = "schema.json") -> None:
    assert result.exit_code == 2
    assert len([line for line in result.stderr.splitlines() if "warning" not in line]) == 1
    assert "Traceback" not in result.stderr
    assert CANARY not in result.output
    assert {path.name for path in folder.parent.iterdir()} <= {"data", "schema.json", "l.sqlite", kept}


@pytest.mark.sampled
@pytest.mark.parametrize(("door", "fault"), [pair for pair in OPENED if pair[0] in COMMANDS])
def test_the_command_line_refuses_such_a_table_in_one_line_for_nothing(door, fault, folder):
    FAULTS[fault](DOORS[door], DOORS[door].write(folder)[-1])
    assert_refused(command(folder, folder / COMMANDS[door]), folder)
    assert not (folder.parent / "l.sqlite").exists()


@pytest.mark.parametrize(("door", "fault"), [pair for pair in READ if pair[0] in SEVERAL])
def test_the_command_line_leaves_nothing_when_reading_fails_and_the_spend_is_given_back(
    door, fault, folder, monkeypatch
):
    written = DOORS[door].write(folder)
    source = file_source.source_at(folder / COMMANDS[door])
    monkeypatch.setattr(file_source, "source_at", lambda path, **_: source)
    FAULTS[fault](DOORS[door], written[-1])
    assert_refused(command(folder, folder / COMMANDS[door]), folder)
    assert [spend.state for spend in Ledger(folder.parent / "l.sqlite").entries()] == ["returned"]


@contextlib.contextmanager
def full_disk(bytes_left: int) -> Iterator[None]:
    """Let no file of this process grow beyond so many bytes, as on a full disk."""
    resource = pytest.importorskip("resource", reason="limits the size of files as Unix does")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_left, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="open files cannot be removed or cut on Windows")


def test_a_disk_that_is_full_while_encoded_rows_are_kept_is_one_clear_error_and_frees_what_it_took(disk, tmp_path):
    ledger = Ledger(tmp_path / "l.sqlite")
    with full_disk(100_000), pytest.raises(DataError, match="TMPDIR") as caught:
        ask(table_of(200_000), ledger)
    assert_clear(caught.value)
    assert [spend.state for spend in ledger.entries()] == ["returned"]
    assert list(disk.iterdir()) == []


def test_a_ledger_that_cannot_be_written_means_that_nothing_is_read(tmp_path, monkeypatch):
    reads: list[object] = []
    monkeypatch.setattr(room_module.PrivateTable, "exact", lambda self, statistic: reads.append(statistic))
    with full_disk(0), pytest.raises(LedgerError):
        ask(table_of(), Ledger(tmp_path / "l.sqlite"))
    assert reads == []


@pytest.mark.parametrize("name", ["out.parquet", "out.arrow", "out.csv", "out.csv.gz"])
def test_a_disk_that_is_full_while_rows_are_written_leaves_the_old_file(name, tmp_path):
    model = SyntheticRelease(schema=SCHEMA, random_state=0).fit(table_of()).release_.output
    (tmp_path / name).write_text("old")
    with full_disk(4_000), pytest.raises(FormatError, match=r"out\.[a-z.]+'") as caught:
        model.sample_to(tmp_path / name, rows=50_000, block_rows=10_000, random_state=0)
    assert_clear(caught.value)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "old")]


def test_the_command_line_on_a_full_disk_leaves_no_half_file_and_the_release_that_was_paid_for(folder):
    write_parts(folder)
    with full_disk(150_000):  # the release takes half, with the weighted rows of its model, and the table twice as much
        result = command(folder, folder, "--rows", "250000")
    assert_refused(result, folder, kept="t.release")
    assert len(load(folder.parent / "t.release").sample(10)) == 10
    assert "out.parquet' cannot be written" in result.stderr
    assert [spend.state for spend in Ledger(folder.parent / "l.sqlite").entries()] == ["committed"]


def test_the_command_line_releases_a_folder_of_parquet_and_bounds_what_each_person_adds(folder, monkeypatch):
    without_noise(monkeypatch)
    table = table_of().assign(person=np.arange(400) // 8)
    for i in range(3):
        table.iloc[i::3].to_parquet(folder / f"part-{i}.parquet", index=False)
    result = command(folder, folder, "--privacy-unit", "person", "--max-rows-per-unit", "2")
    assert result.exit_code == 0, result.stderr
    made = pd.read_parquet(folder.parent / "out.parquet")
    assert list(made.columns) == list(SCHEMA)
    assert len(made) == 50 * 2
    assert json.loads((folder.parent / "r.json").read_text())["max_rows_per_unit"] == 2


def test_progress_tells_stages_and_nothing_of_the_number_of_rows(folder):
    told = []
    for rows in (20, 400):
        table_of(rows).to_parquet(folder / "t.parquet", index=False)
        told.append([])
        SyntheticRelease(schema=SCHEMA, on_progress=told[-1].append).fit(ParquetSource(folder))
    assert told[0] == told[1]
    assert len(told[0]) > 2
