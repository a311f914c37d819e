"""The ending of a file's name says how the file is read, in any case of letters."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest

import synthdp as sd
from synthdp.domain.encoder import Numbers
from synthdp.errors import DataError, ParameterError
from synthdp.tables.sources.file_source import is_csv, source_at

TABLE = pd.DataFrame({"age": [31, 42, 31], "city": ["Oslo", "Bergen", "Oslo"]})


def written(path: Path) -> None:
    """Write `TABLE` in the format of the path's ending, whatever its case."""
    table, ending = pa.Table.from_pandas(TABLE, preserve_index=False), path.name.lower().partition(".")[2]
    if ending in ("csv", "csv.gz"):
        text = TABLE.to_csv(index=False).encode()
        path.write_bytes(gzip.compress(text) if ending == "csv.gz" else text)
    elif ending == "tsv":
        path.write_text(TABLE.to_csv(index=False, sep="\t"))
    elif ending in ("parquet", "pq"):
        pq.write_table(table, path)
    elif ending in ("arrow", "feather"):
        with ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    elif ending.startswith("arrows"):
        with pa.output_stream(path) as file, ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)
    else:
        TABLE.to_excel(path, index=False, engine="openpyxl")


ENDINGS = [
    "csv", "csv.gz", "tsv", "parquet", "pq", "arrow", "feather", "arrows", "arrows.gz", "arrows.zst", "arrows.bz2",
    "arrows.lz4", "xlsx",
]  # fmt: skip


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("case", [str.lower, str.upper, str.title])
def test_a_file_is_read_by_its_ending_in_any_case(ending: str, case: object, tmp_path: Path) -> None:
    if ending == "xlsx":
        pytest.importorskip("openpyxl")
    path = tmp_path / f"T.{case(ending)}"  # type: ignore[operator]
    plain = tmp_path / f"plain.{ending}"
    written(plain)
    path.write_bytes(plain.read_bytes())
    source = source_at(path)
    assert tuple(source.names) == ("age", "city")
    assert is_csv(path) == is_csv(plain)
    (block,) = source.blocks({}, extra=("age",))
    ages = block["age"]
    values = ages.values if isinstance(ages, Numbers) else np.array(ages.levels)[ages.codes]
    assert [float(value) for value in values] == [31.0, 42.0, 31.0]


def test_a_folder_of_files_is_read_in_any_case(tmp_path: Path) -> None:
    for name in ("a.parquet", "B.PARQUET"):
        pq.write_table(pa.Table.from_pandas(TABLE, preserve_index=False), tmp_path / name)
    blocks = list(source_at(tmp_path).blocks({}, extra=("age",)))
    assert sum(len(one["age"].values if isinstance(one["age"], Numbers) else one["age"].codes) for one in blocks) == 6


@pytest.mark.parametrize("other", ["t.csv", "t.CSV.GZ", "t.tsv", "t.duckdb", "t.xlsx", "t.xlsm"])
def test_a_folder_is_refused_if_a_table_in_it_would_be_passed_over(other: str, tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pandas(TABLE, preserve_index=False), tmp_path / "a.parquet")
    (tmp_path / other).touch()
    with pytest.raises(DataError, match=f"'{other}'"):
        source_at(tmp_path)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "t.arrow"])
def test_a_file_that_was_read_is_not_replaced_by_synthetic_rows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    written(path)
    private = path.read_bytes()
    (tmp_path / f"link-{name}").symlink_to(path)
    monkeypatch.chdir(tmp_path)
    schema = sd.Schema({"age": sd.Integer(0, 90), "city": sd.Categorical(["Oslo", "Bergen"])})
    one = sd.SyntheticRelease(schema=schema, epsilon=5.0).fit(source_at(path))
    for way in (name, path, Path(f"link-{name}")):
        with pytest.raises(ParameterError, match="private"):
            one.sample_to(way, rows=5)
    assert path.read_bytes() == private
    one.sample_to(f"other-{name}", rows=5)
    assert Path(f"other-{name}").exists()
