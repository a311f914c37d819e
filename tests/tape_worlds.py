"""Tables for the tape, and the rows in which their neighbours differ, in every source that a user may give."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from mechanism_cases import outputs

import synthdp as sd
from synthdp.publishing import Places, receipt_text, write_results
from synthdp.tables.sources.csv import CsvSource
from synthdp.tables.sources.duckdb import DuckDBSource
from synthdp.tables.sources.excel import ExcelSource
from synthdp.tables.sources.parquet import ParquetSource
from synthdp.tables.sources.sql import SqlSource

CANARY = "canary-4711"
NAMES = ("who", "age", "pay", "city", "seen")
ARROW = pa.schema(
    {"who": pa.string(), "age": pa.int64(), "pay": pa.float64(), "city": pa.string(), "seen": pa.timestamp("us")}
)
Row = dict[str, Any]


def row(**values: Any) -> Row:
    return {"who": "z", "age": 5, "pay": 10.0, "city": "a", "seen": dt.datetime(2021, 5, 5), **values}  # noqa: DTZ001


def base(rows: int) -> list[Row]:
    """Two rows of each of some persons."""
    rng = np.random.default_rng(5)
    return [
        row(
            who=f"p{i // 2}",
            age=int(rng.integers(0, 10)),
            pay=float(rng.integers(0, 5000)) / 5,
            city=str(rng.choice(["a", "b", "c"])),
            seen=dt.datetime(2020, 1, 1) + dt.timedelta(days=int(rng.integers(0, 2000))),  # noqa: DTZ001
        )
        for i in range(rows)
    ]


BLANK: Row = dict.fromkeys(NAMES)
BASE = base(42)
KEPT = tuple(BASE[:-2])


@dataclass(frozen=True)
class Hostile:
    """How a neighbour differs: rows of one person, more or instead of the last, at the end or at the beginning."""

    rows: tuple[Row, ...]
    table: tuple[Row, ...] = KEPT
    first: bool = False

    def pair(self, relation: str, unit: str | None) -> tuple[list[Row], list[Row]]:
        """The table and its neighbour."""
        theirs = list(self.rows if unit is not None else self.rows[:1])
        kept = list(self.table)
        if relation == "add_remove":
            return kept, [*theirs, *kept] if self.first else [*kept, *theirs]
        last = BASE[-2:] if unit is not None else BASE[-1:]
        return [*kept, *last], [*theirs, *kept] if self.first else [*kept, *theirs]


TYPED: dict[str, Hostile] = {
    "another row": Hostile((row(),)),
    "at the bounds": Hostile((row(age=9, pay=1000.0, city="c"),)),
    "past the bounds": Hostile((row(age=10**12, pay=-1e300, seen=dt.datetime(2200, 1, 1)),)),  # noqa: DTZ001
    "all missing": Hostile((BLANK,)),
    "all missing but the person": Hostile(({**BLANK, "who": "z"},)),
    "infinite": Hostile((row(pay=float("inf")), row(pay=float("-inf")))),
    "a new category": Hostile((row(city=CANARY),)),
    "a new category, first": Hostile((row(city=CANARY, pay=0.25),), first=True),
    "an accent": Hostile((row(city="é", who="ü"),)),
    "an empty text": Hostile((row(city="", who=""),)),
    "a formula": Hostile((row(city="=1+1"),)),
    "a quote and a line break": Hostile((row(city='a"\n,b'),)),
    "a digit more": Hostile((row(pay=1.0001, age=7),)),
    "the last row again": Hostile((KEPT[-1] | {"who": "z"},)),
    "a thousand rows of a person": Hostile(tuple(row(pay=float(i % 9), age=i % 10) for i in range(1000))),
    "a row that makes a constant column vary": Hostile((row(age=6, city="b"),), tuple([row(who="p")] * 10)),
    "after blank rows": Hostile((row(),), (*KEPT, *[BLANK] * 20)),
    "the first of all": Hostile((row(),), ()),
}
"""Rows that every source can hold."""

UNTYPED: dict[str, Hostile] = {
    "texts where numbers are": Hostile((row(age=CANARY, pay="1e999"),)),
    "a fraction among whole numbers": Hostile((row(age=3.7, pay="0x10"),)),
    "a truth among numbers": Hostile((row(age=True, pay=False),)),
    "numbers as texts": Hostile((row(age="5", pay="10.0", seen="2021-05-05"),)),
    "words for missing": Hostile((row(age="NA", pay="nan", city="NULL"),)),
}
"""Rows that only a source without types can hold."""

OBJECTS: dict[str, Hostile] = {
    "objects nobody foresaw": Hostile((row(age=[1], city={"x": 1}, pay=Decimal("sNaN")),)),
    "half a character": Hostile((row(city="\ud800", who="\ud800"),)),
    "another time zone": Hostile((row(seen=pd.Timestamp("2021-05-05", tz="Asia/Tokyo")),)),
}
"""Rows that only Python's objects can be."""

ROWS = {**TYPED, **UNTYPED, **OBJECTS}


# Sources


def _frame(rows: list[Row]) -> pd.DataFrame:
    table = pd.DataFrame(index=range(len(rows)), columns=list(NAMES), dtype=object)
    for name in NAMES:
        cells = np.empty(len(rows), object)
        for i, one in enumerate(rows):
            cells[i] = one[name]
        table[name] = pd.Series(cells, dtype=object)
    return table


def _arrow(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=ARROW)


def typed_frame(rows: list[Row]) -> pd.DataFrame:
    return (
        _arrow(rows).to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get).astype({"city": object, "who": object})
    )


def _texts(rows: list[Row]) -> pd.DataFrame:
    return _frame(rows)


def _csv(rows: list[Row], folder: Path) -> CsvSource:
    _texts(rows).to_csv(folder / "t.csv", index=False)
    return CsvSource(folder / "t.csv")


def _excel(rows: list[Row], folder: Path) -> ExcelSource:
    import openpyxl

    book = openpyxl.Workbook()
    for cells in [list(NAMES), *([one[name] for name in NAMES] for one in rows)]:
        book.active.append([str(cell) if isinstance(cell, float) and not np.isfinite(cell) else cell for cell in cells])
    book.save(folder / "t.xlsx")
    return ExcelSource(folder / "t.xlsx")


def _parquet(rows: list[Row], folder: Path) -> ParquetSource:
    pq.write_table(_arrow(rows), folder / "t.parquet", row_group_size=16)
    return ParquetSource(folder / "t.parquet")


def _duckdb(rows: list[Row], **settings: Any) -> DuckDBSource:
    return DuckDBSource(duckdb.connect().from_arrow(_arrow(rows)), **settings)


def _sqlite(rows: list[Row], folder: Path) -> SqlSource:
    (folder / "t.sqlite").unlink(missing_ok=True)
    with closing(sqlite3.connect(folder / "t.sqlite")) as connection:
        connection.execute("CREATE TABLE t (who TEXT, age INTEGER, pay REAL, city TEXT, seen TIMESTAMP)")
        cells = [[str(one[name]) if name == "seen" and one[name] else one[name] for name in NAMES] for one in rows]
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", cells)
        connection.commit()
    return SqlSource(f"sqlite:///{folder}/t.sqlite", table="t")


def _sql(rows: list[Row], push: str) -> SqlSource:
    connection = duckdb.connect()
    connection.from_arrow(_arrow(rows)).create("t")
    return SqlSource(connection, table="t", push=push)


SOURCES: dict[str, Callable[[list[Row], Path], Any]] = {
    "pandas objects": lambda rows, _: _frame(rows),
    "pandas": lambda rows, _: typed_frame(rows),
    "polars": lambda rows, _: pl.DataFrame(pl.from_arrow(_arrow(rows))),
    "polars lazy": lambda rows, _: pl.DataFrame(pl.from_arrow(_arrow(rows))).lazy(),
    "pyarrow": lambda rows, _: _arrow(rows),
    "csv": _csv,
    "excel": _excel,
    "parquet": _parquet,
    "duckdb": lambda rows, _: _duckdb(rows),
    "duckdb, pushed": lambda rows, _: _duckdb(rows, push_down=True),
    "sqlite": _sqlite,
    "sql, rows": lambda rows, _: _sql(rows, "rows"),
    "sql, codes": lambda rows, _: _sql(rows, "codes"),
    "sql, counts": lambda rows, _: _sql(rows, "counts"),
}


def rows_for(source: str) -> dict[str, Hostile]:
    """What neighbours in a source may differ in."""
    if source == "pandas objects":
        return ROWS
    return TYPED | UNTYPED if source in ("csv", "excel") else TYPED


# What is declared, and what is released

AGE, PAY = sd.Integer(0, 9), sd.Continuous(0, 1000, nullable=True)
CITY = sd.Categorical(["a", "b", "c"], nullable=True)
SEEN = sd.Datetime("2020-01-01", "2026-01-01", resolution="D", nullable=True)
DECLARED = sd.Schema({"age": AGE, "pay": PAY, "city": CITY, "seen": SEEN})
OPEN = {
    "age": sd.Integer(nullable=True),
    "pay": sd.Continuous(nullable=True),
    "city": sd.Categorical(nullable=True),
    "seen": sd.Datetime(nullable=True),
}
SCHEMAS: dict[str, sd.Schema | None] = {
    "all declared": DECLARED,
    "partly declared": sd.Schema({**OPEN, "pay": PAY, "seen": SEEN}),
    "types declared": sd.Schema(OPEN),
    "nothing declared": None,
}
PROMISES: dict[str, dict[str, Any]] = {
    "a row more": {},
    "a row instead": {"neighbors": "replace_one"},
    "a person of one row more": {"privacy_unit": "who"},
    "a person of one row instead": {"privacy_unit": "who", "neighbors": "replace_one"},
    "a person of three rows more": {"privacy_unit": "who", "max_rows_per_unit": 3},
}
FRAMES = ("pandas objects", "pandas", "polars", "polars lazy", "pyarrow")


def schemas_for(source: str) -> list[str]:
    """What may be left open of a source: types are taken from dataframes only, and in a database nothing is discovered."""
    if source == "sql, counts":
        return ["all declared"]
    return [name for name in SCHEMAS if name != ("types declared" if source in FRAMES else "nothing declared")]


def everything_of(made: Any, folder: Path, *, pages: bool) -> dict[str, Any]:
    """Save and write whatever a fitted estimator has to give; with ``pages``, its report, card and table, too."""
    made.save(folder / "release")
    if pages:
        places = Places(
            table=folder / "synthetic.csv", report=folder / "report.html", receipt=folder / "receipt.json",
            card=folder / "card.html",
        )  # fmt: skip
        write_results(made.release_, places, random_state=0)
    seen = {
        "receipt": made.receipt_,
        "card": receipt_text(made.release_, ".html"),
        "notebook": made.release_._repr_html_(),
    }
    texts = {name: str(one) for name, one in seen.items()}
    return {**table_of(made.sample(20)), **texts, "all": outputs(made.release_), "pickle": pickle.dumps(made)}


def table_of(sample: Any) -> dict[str, Any]:
    """Return a table as texts: its kind, types, index and values."""
    if isinstance(sample, Mapping):
        return {f"{name} {part}": text for name, table in sample.items() for part, text in table_of(table).items()}
    kind = type(sample).__name__
    if isinstance(sample, pl.LazyFrame):
        sample = sample.collect()
    if isinstance(sample, pd.DataFrame):
        return {"kind": kind, "types": str(list(sample.dtypes.items())), "rows": repr(sample.to_dict("split"))}
    return {
        "kind": kind,
        "types": str(sample.schema),
        "rows": repr((sample.rows if isinstance(sample, pl.DataFrame) else sample.to_pylist)()),
    }


def document(folder: Path) -> Any:
    """The document of a saved release."""
    return json.loads((folder / "release.json").read_text(encoding="utf-8"))
