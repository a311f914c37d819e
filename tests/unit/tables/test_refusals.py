"""R9: an error of a library that met cells becomes one sentence, and nothing of it is left: not even in its context."""

from __future__ import annotations

import gzip
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import synthdp as sd
from synthdp.errors import DataError, InternalError, SynthDPError
from synthdp.tables.columns import arrow
from synthdp.tables.dataframe import FrameSource
from synthdp.tables.refusals import instead_of, reading
from synthdp.tables.sources.csv import CsvSource
from synthdp.tables.sources.duckdb import DuckDBSource
from synthdp.tables.sources.parquet import ParquetSource

CANARY = "canary-4711"
COLUMNS = {"x": sd.Integer(0, 9)}


def everything(error: BaseException) -> str:
    """All that an error collector can find in an error, and in those that it hangs on."""
    waiting, met, found = [error], [], []
    while waiting:
        one = waiting.pop()
        met.append(one)
        found += [repr(one), *map(str, one.args), *getattr(one, "__notes__", ()), *traceback.format_exception(one)]
        waiting += [other for other in (one.__cause__, one.__context__) if other is not None and other not in met]
    return "\n".join(found)


def locals_of(error: BaseException) -> Iterator[Any]:
    """What the frames of `synthdp.tables.refusals` hold, through which the error went."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        yield from frame.f_locals.values() if frame.f_code.co_filename.endswith("synthdp/tables/refusals.py") else ()


def failing(_: Path) -> Any:
    return pl.LazyFrame({"x": [CANARY]}).select(pl.col("x").cast(pl.Int64))


def panicking(_: Path) -> Any:
    """A panic of Rust is no Exception."""
    return pl.LazyFrame({"x": [CANARY]}).select(pl.col("x").map_batches(lambda _: 1 // 0, return_dtype=pl.Int64))


def relation(_: Path) -> Any:
    return duckdb.sql(f"SELECT CAST('{CANARY}' || range AS INTEGER) AS x FROM range(3)")


def partitions(folder: Path, content: pd.DataFrame) -> Path:
    for year in ("2020", "2021"):
        place = folder / f"year={year}" / f"name={CANARY}"
        place.mkdir(parents=True)
        content.to_parquet(place / "a.parquet")
    return folder


def cut_short(folder: Path) -> Any:
    path = partitions(folder, pd.DataFrame({"x": [1]})) / "year=2020" / f"name={CANARY}" / "a.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    return ParquetSource(folder)


def of_other_types(folder: Path) -> Any:
    partitions(folder, pd.DataFrame({"x": [1]}))
    pd.DataFrame({"x": ["a"]}).to_parquet(folder / "year=2021" / f"name={CANARY}" / "b.parquet")
    return ParquetSource(folder)


def of_other_partitions(folder: Path) -> Any:
    partitions(folder, pd.DataFrame({"x": [1]}))
    pd.DataFrame({"x": [1]}).to_parquet(folder / "b.parquet")
    return ParquetSource(folder)


def gone(folder: Path) -> Any:
    source = ParquetSource(partitions(folder, pd.DataFrame({"x": [1]})))
    (folder / "year=2021" / f"name={CANARY}" / "a.parquet").unlink()
    return source


def twice_named(folder: Path) -> Any:
    partitions(folder, pd.DataFrame({"x": [1], "name": ["a"]}))
    return ParquetSource(folder)


def not_there(folder: Path) -> Any:
    return ParquetSource(folder / f"name={CANARY}")


def damaged_pages(folder: Path) -> Any:
    pq.write_table(pa.table({"x": [CANARY] * 5000}), folder / "t.parquet", use_dictionary=False, compression="gzip")
    content = bytearray((folder / "t.parquet").read_bytes())
    content[30:60] = bytes(30)
    (folder / "t.parquet").write_bytes(content)
    return ParquetSource(folder / "t.parquet")


def damaged_csv(folder: Path) -> Any:
    (folder / "t.csv.gz").write_bytes(gzip.compress(f"x\n{CANARY}\n".encode() * 999)[:-12])
    return CsvSource(folder / "t.csv.gz")


def csv_header(folder: Path) -> Any:
    (folder / "t.csv").write_bytes(CANARY.encode() + b"\xff\n1\n")
    return CsvSource(folder / "t.csv")


DOORS: dict[str, Callable[[Path], Any]] = {
    "a failing cast in polars": lambda folder: FrameSource(failing(folder)),
    "a panic in polars": lambda folder: FrameSource(panicking(folder)),
    "a failing cast in a relation": lambda folder: FrameSource(relation(folder)),
    "a failing cast in DuckDB": lambda folder: DuckDBSource(relation(folder)),
    "a failing cast that DuckDB counts": lambda folder: DuckDBSource(relation(folder), push_down=True),
    "a file cut short": cut_short,
    "files of other types": of_other_types,
    "files of other partitions": of_other_partitions,
    "a file that is gone": gone,
    "a partition that is a column": twice_named,
    "a folder that is not there": not_there,
    "damaged pages": damaged_pages,
    "a damaged CSV file": damaged_csv,
    "a header in another encoding": csv_header,
}


def read(source: Any) -> None:
    schema = sd.Schema({"x": sd.Integer(0, 9)})
    sd.Curator(source, schema=schema, budget=sd.PureDP(1.0)).measure(sd_queries(schema), spend=sd.PureDP(1.0))


def sd_queries(schema: sd.Schema) -> Any:
    from synthdp.domain.domain import domain_of
    from synthdp.queries.marginals import one_ways

    return one_ways(domain_of(schema))


@pytest.mark.parametrize("door", DOORS)
def test_nothing_of_a_librarys_error_clings_to_ours(door: str, tmp_path: Path) -> None:
    with pytest.raises(SynthDPError) as caught:
        read(DOORS[door](tmp_path))
    assert "\n" not in str(caught.value)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    assert CANARY not in everything(caught.value)
    assert CANARY not in repr(list(locals_of(caught.value)))


def test_an_error_takes_anothers_place_and_keeps_nothing_of_it_even_while_a_third_is_handled() -> None:
    try:
        raise KeyError(CANARY)
    except KeyError:
        with pytest.raises(DataError) as caught, instead_of(ValueError, say=DataError("no number")):
            int(CANARY)
    assert str(caught.value) == "no number"
    assert CANARY not in everything(caught.value)
    assert not any(isinstance(one, BaseException) and one is not caught.value for one in locals_of(caught.value))


def test_errors_of_other_kinds_and_those_that_say_nothing_pass_as_they_are() -> None:
    for kind in (KeyError, OSError):
        with pytest.raises(kind), instead_of(ValueError, OSError, say=lambda _: None):
            raise kind


def test_should_a_value_ever_stop_a_column_nothing_tells_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(*_: object) -> Any:
        raise ZeroDivisionError(CANARY)

    monkeypatch.setattr(arrow, "_flags", stumble)
    with pytest.raises(InternalError, match="'x'") as caught:
        next(iter(FrameSource(pa.table({"x": [True]})).blocks(COLUMNS)))
    assert CANARY not in everything(caught.value)


def test_what_is_refused_by_us_and_a_want_of_memory_pass_through_reading() -> None:
    for error in (DataError("ours"), MemoryError()):
        with pytest.raises(type(error)), reading("x"):
            raise error


def test_polars_text_that_is_no_text_is_read(tmp_path: Path) -> None:
    """Polars takes Arrow's bytes for text unseen, and panics when it shows them."""
    offsets = np.array([0, 40, 41], np.int64)
    raw = pa.Array.from_buffers(pa.large_string(), 2, [None, pa.py_buffer(offsets), pa.py_buffer(b"\xff" * 40 + b"a")])
    table = pl.DataFrame({"x": pl.Series(pl.from_arrow(raw))})
    (block,) = FrameSource(table).blocks({"x": sd.Categorical(["a"])})
    assert "a" in block["x"].levels
