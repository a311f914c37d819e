"""On the command line, what goes in comes out: the types of a Parquet or Arrow file, the zone of a CSV file's times."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import synthdp as sd
from synthdp.cli.main import main
from synthdp.nonprivate.draft_schema import draft_schema
from synthdp.tables.sources.csv import CsvSource

ROWS = 400
MOMENTS = [dt.datetime(2020, 5, 1, tzinfo=dt.UTC) + dt.timedelta(minutes=17 * i) for i in range(ROWS)]
TYPES = {
    "price": (pa.decimal128(8, 2), [Decimal(i % 97) / 4 for i in range(ROWS)], sd.Decimal(0, 25)),
    "real price": (pa.decimal128(8, 2), [Decimal(i % 97) / 4 for i in range(ROWS)], sd.Continuous(0, 25)),
    "city": (
        pa.dictionary(pa.int8(), pa.string()),
        ["Oslo", "Bergen"] * (ROWS // 2),
        sd.Categorical(["Oslo", "Bergen"]),
    ),
    "age": (pa.int16(), [i % 90 for i in range(ROWS)], sd.Integer(0, 89)),
    "share": (pa.float32(), np.linspace(0, 1, ROWS), sd.Continuous(0, 1)),
    "seen": (pa.timestamp("ms", "America/Port-au-Prince"), MOMENTS, sd.Datetime("2020-05-01", "2020-06-01")),
    "local": (
        pa.timestamp("us"),
        [one.replace(tzinfo=None) for one in MOMENTS],
        sd.Datetime("2020-05-01", "2020-06-01"),
    ),
    "at": (pa.time32("ms"), [one.time() for one in MOMENTS], sd.Time()),
    "day": (pa.date32(), [one.date() for one in MOMENTS], sd.Date("2020-05-01", "2020-06-01")),
    "stay": (pa.duration("ms"), [dt.timedelta(seconds=i % 50) for i in range(ROWS)], sd.Duration(0, 60)),
    "big text": (pa.large_string(), ["a", "b"] * (ROWS // 2), sd.Ordinal(["a", "b"])),
}
TABLE = pa.table({name: pa.array(values).cast(kind) for name, (kind, values, _) in TYPES.items()})
SCHEMA = sd.Schema({name: column for name, (_, _, column) in TYPES.items()})


def run(*arguments: str, cwd: Path) -> None:
    with contextlib.chdir(cwd):
        result = CliRunner(catch_exceptions=False).invoke(main, [*arguments])
    assert result.exit_code == 0, result.stderr


@pytest.mark.sampled
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_file_comes_out_with_the_types_that_it_went_in_with(tmp_path: Path, ending: str) -> None:
    {"parquet": pq.write_table, "arrow": pyarrow.feather.write_feather}[ending](TABLE, tmp_path / f"t.{ending}")
    SCHEMA.write(tmp_path / "s.json")
    files = ["--schema", "s.json", "--out", "out.parquet", "--save", "r"]
    run("release", f"t.{ending}", *files, "--epsilon", "1", cwd=tmp_path)
    run("sample", "r", "--out", "again.parquet", "--rows", "50", cwd=tmp_path)
    pq.write_table(TABLE, tmp_path / "real.parquet")
    real, *made = (pq.read_table(tmp_path / f"{name}.parquet").schema for name in ("real", "out", "again"))
    assert [dict(zip(one.names, one.types, strict=True)) for one in made] == [
        dict(zip(real.names, real.types, strict=True))
    ] * 2


@pytest.mark.parametrize(
    ("table", "kinds"),
    [
        (TABLE, dict(zip(TABLE.column_names, TABLE.schema.types, strict=True))),
        (
            pl.DataFrame(
                {"age": pl.Series([1, 2] * 200, dtype=pl.Int8), "at": pl.Series([dt.time(1), dt.time(2)] * 200)}
            ),
            {"age": pa.int8(), "at": pa.time64("ns")},
        ),
    ],
    ids=["pyarrow", "polars"],
)
def test_rows_of_a_typed_frame_are_written_with_its_types(
    tmp_path: Path, table: object, kinds: dict[str, pa.DataType]
) -> None:
    schema = sd.Schema({name: SCHEMA[name] for name in kinds})
    release = sd.SyntheticRelease(schema=schema, epsilon=1.0).fit(table)
    release.release_.sample_to(tmp_path / "out.parquet", rows=30)
    release.save(tmp_path / "r")
    sd.load(tmp_path / "r").sample_to(tmp_path / "again.parquet", rows=30)
    for made in ("out", "again"):
        found = pq.read_schema(tmp_path / f"{made}.parquet")
        assert {field.name: field.type for field in found} == kinds


def test_a_file_of_several_blocks_has_one_type_throughout(tmp_path: Path) -> None:
    numbers = pa.table({"n": pa.array([5, 7] * 200).dictionary_encode(), "age": TABLE["age"]})
    schema = sd.Schema({"n": sd.Integer(0, 9), "age": SCHEMA["age"]})
    release = sd.SyntheticRelease(schema=schema, epsilon=1.0).fit(numbers)
    release.release_.sample_to(tmp_path / "out.arrow", rows=90, block_rows=20)
    with pa.OSFile(str(tmp_path / "out.arrow")) as file:
        assert pa.ipc.open_file(file).read_all().num_rows == 90


@pytest.mark.parametrize(("written", "zone"), [("Z", "UTC"), ("", None)])
def test_times_of_a_csv_file_keep_their_zone(tmp_path: Path, written: str, zone: str | None) -> None:
    texts = [f"{one.replace(tzinfo=None).isoformat()}{written}" for one in MOMENTS]
    (tmp_path / "t.csv").write_text("\n".join(["at", *texts]) + "\n", encoding="utf-8")
    document = draft_schema(CsvSource(tmp_path / "t.csv"))
    columns = [{**column, "reviewed": True} for column in document["columns"]]
    assert columns[0].get("zone") == zone
    (tmp_path / "s.json").write_text(json.dumps({**document, "columns": columns}), encoding="utf-8")
    run("release", "t.csv", "--schema", "s.json", "--out", "out.csv", "--epsilon", "1", cwd=tmp_path)
    lines = (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()[1:]
    offsets = {dt.datetime.fromisoformat(line).utcoffset() for line in lines}
    assert offsets == {dt.datetime.fromisoformat(texts[0]).utcoffset()}
    assert {line.endswith("Z") for line in lines} == {written == "Z"}
