"""Parquet and Arrow files: the same integers as a dataframe, and one clear error for each fault."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from synthdp.curator import Curator
from synthdp.curator.ledger import Ledger
from synthdp.curator.private_table import PrivateTable
from synthdp.domain.domain import domain_of
from synthdp.errors import DataError
from synthdp.privacy.loss import ZCDP
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.marginals import Marginals, all_cliques
from synthdp.schema.columns import Boolean, Categorical, Continuous, Datetime, Integer
from synthdp.schema.schema import Schema
from synthdp.tables.dataframe import FrameSource
from synthdp.tables.sources import parquet
from synthdp.tables.sources.file_source import source_at
from synthdp.tables.sources.parquet import ParquetSource

SCHEMA = Schema(
    {
        "age": Integer(0, 90),
        "city": Categorical(["Oslo", "Rome"], nullable=True),
        "height": Continuous(0, 2, nullable=True),
        "member": Boolean(),
        "born": Datetime("2000-01-01", "2020-01-01", nullable=True),
        "year": Categorical(["2024", "2025", "2026"]),
    }
)

EVERY_ROW = Adjacency()


def table_of(rows: int = 500, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    height = rng.normal(1.5, 0.4, rows)
    height[::11] = np.nan
    born = pd.Series(np.datetime64("1999-06-01", "us") + rng.integers(0, 8000, rows).astype("timedelta64[D]"))
    return pd.DataFrame(
        {
            "age": rng.integers(-5, 110, rows),
            "city": np.array(["Oslo", "Rome", None, "Paris"], object)[rng.integers(0, 4, rows)],
            "height": height,
            "member": rng.random(rows) < 0.3,
            "born": born.where(rng.random(rows) < 0.9),
            "year": rng.choice(["2024", "2025", "2026"], rows),
            "person": rng.integers(0, 60, rows),
        }
    )


def sums_of(source, adjacency=EVERY_ROW) -> np.ndarray:
    domain = domain_of(SCHEMA, bins=5)
    return PrivateTable(source, SCHEMA, adjacency).exact(Marginals(domain, all_cliques(domain, 2)))


def write_file(table: pd.DataFrame, folder) -> object:
    table.to_parquet(folder / "t.parquet", row_group_size=37)
    return folder / "t.parquet"


def write_folder(table: pd.DataFrame, folder) -> object:
    for i in range(5):
        table.iloc[i::5].to_parquet(folder / f"part-{i}.parquet")
    (folder / "_SUCCESS").write_text("")
    return folder


def write_glob(table: pd.DataFrame, folder) -> object:
    write_folder(table, folder)
    return str(folder / "part-*.parquet")


def write_partitions(table: pd.DataFrame, folder) -> object:
    for year, part in table.groupby("year"):
        (folder / f"year={year}").mkdir()
        part.drop(columns="year").to_parquet(folder / f"year={year}" / "a.parquet", index=False)
    return folder


def write_feather(table: pd.DataFrame, folder) -> object:
    table.to_feather(folder / "t.feather", compression="zstd", chunksize=100)
    return folder / "t.feather"


def write_stream(table: pd.DataFrame, folder) -> object:
    arrow = pa.Table.from_pandas(table)
    with gzip.open(folder / "t.arrows.gz", "wb") as file, pa.ipc.new_stream(file, arrow.schema) as writer:
        writer.write_table(arrow, max_chunksize=90)
    return folder / "t.arrows.gz"


WRITERS = [write_file, write_folder, write_glob, write_partitions, write_feather, write_stream]


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("adjacency", [EVERY_ROW, Adjacency(unit="person", rows=3)])
@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("block_rows", [64, 131_072])
def test_files_give_the_integers_of_the_dataframe(write, adjacency, block_rows, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "BLOCK_ROWS", block_rows)
    expected = sums_of(FrameSource(table_of()), adjacency)
    np.testing.assert_array_equal(sums_of(ParquetSource(write(table_of(), tmp_path)), adjacency), expected)


def test_no_block_is_larger_than_the_public_constant(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "BLOCK_ROWS", 50)
    source = ParquetSource(write_file(table_of(), tmp_path))
    lengths = [len(block["age"].values) for block in source.blocks({"age": SCHEMA["age"]})]
    assert max(lengths) <= 50
    assert sum(lengths) == 500


def test_a_table_without_rows_has_one_empty_block(tmp_path):
    source = ParquetSource(write_file(table_of().head(0), tmp_path))
    assert [len(block["age"].values) for block in source.blocks({"age": SCHEMA["age"]}, extra=("person",))] == [0]


def test_the_missing_partition_is_a_missing_value(tmp_path):
    (tmp_path / "year=__HIVE_DEFAULT_PARTITION__").mkdir()
    table_of().drop(columns="year").to_parquet(tmp_path / "year=__HIVE_DEFAULT_PARTITION__" / "a.parquet")
    block = next(iter(ParquetSource(tmp_path).blocks({"year": SCHEMA["year"]})))
    assert (block["year"].codes == -1).all()


def test_a_truncated_file_is_one_clear_error(tmp_path):
    path = write_file(table_of(), tmp_path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"t\.parquet'"):
        ParquetSource(path)


def test_a_file_damaged_in_the_middle_is_one_clear_error_and_quotes_nothing(tmp_path):
    path = write_file(table_of(), tmp_path)
    content = bytearray(path.read_bytes())
    content[4:3000] = bytes(2996)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"t\.parquet'"):
        sums_of(ParquetSource(path))


def test_a_file_that_vanishes_is_one_clear_error(tmp_path):
    source = ParquetSource(write_folder(table_of(), tmp_path))
    (tmp_path / "part-3.parquet").unlink()
    with pytest.raises(DataError, match=r"part-3\.parquet"):
        sums_of(source)


@pytest.mark.parametrize(
    "change", [lambda t: t.drop(columns="age"), lambda t: t.astype({"age": float}), lambda t: t[t.columns[::-1]]]
)
def test_files_of_different_columns_or_types_are_refused_before_any_row_is_read(change, tmp_path):
    write_folder(table_of(), tmp_path)
    change(table_of()).to_parquet(tmp_path / "part-9.parquet")
    with pytest.raises(DataError, match=r"part-9\.parquet.*part-0\.parquet"):
        ParquetSource(tmp_path)


def test_a_file_that_changes_after_the_source_was_made_is_refused(tmp_path):
    source = ParquetSource(write_folder(table_of(), tmp_path))
    table_of().astype({"age": float}).to_parquet(tmp_path / "part-2.parquet")
    with pytest.raises(DataError, match=r"part-2\.parquet"):
        sums_of(source)


def test_folders_of_different_partitions_are_refused(tmp_path):
    write_partitions(table_of(), tmp_path)
    table_of().drop(columns="year").to_parquet(tmp_path / "b.parquet", index=False)
    with pytest.raises(DataError, match=r"a\.parquet.*b\.parquet"):
        ParquetSource(tmp_path)


@pytest.mark.parametrize("path", ["nothing-*.parquet", "."])
def test_nothing_found_is_an_error(path, tmp_path):
    with pytest.raises(DataError):
        ParquetSource(tmp_path / path)


def test_other_endings_are_refused(tmp_path):
    (tmp_path / "t.txt").write_text("x")
    with pytest.raises(DataError, match=r"t\.txt"):
        ParquetSource(tmp_path / "t.txt")


def test_columns_of_one_name_are_refused(tmp_path):
    pq.write_table(pa.table([[1], [2]], names=["a", "a"]), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"t\.parquet"):
        ParquetSource(tmp_path / "t.parquet")


@pytest.mark.parametrize("write", WRITERS)
def test_a_path_by_its_name_opens_files_folders_and_patterns(write, tmp_path):
    source = source_at(write(table_of(), tmp_path))
    assert isinstance(source, ParquetSource)
    assert {"age", "city", "year"} <= set(source.names)


def test_nothing_is_spent_on_files_that_cannot_be_opened_and_all_on_a_read_that_fails(tmp_path):
    path = write_file(table_of(), tmp_path)
    queries = Marginals(domain_of(SCHEMA, bins=5), ((0,),))
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_cap("people", ZCDP(1.0))
    with pytest.raises(DataError):
        Curator(
            ParquetSource(tmp_path / "other.parquet"), schema=SCHEMA, budget=ZCDP(0.5), ledger=ledger, dataset="people"
        )
    assert ledger.entries("people") == []
    curator = Curator(ParquetSource(path), schema=SCHEMA, budget=ZCDP(0.5), ledger=ledger, dataset="people")
    assert ledger.entries("people") == []
    path.unlink()
    with pytest.raises(DataError, match=r"t\.parquet"):
        curator.measure(queries)
    assert [entry.loss for entry in ledger.entries("people")] == [ZCDP(0.5)]
