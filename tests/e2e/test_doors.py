"""The list of bad inputs through every door a table can come in by: one sentence, nothing spent, no value shown."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
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
from synthdp.errors import (
    BudgetExceededError,
    DataError,
    FormatError,
    LedgerError,
    ParameterError,
    SchemaError,
    SolverUnavailableError,
    SynthDPError,
)
from synthdp.tables.sources.csv import CsvSource
from synthdp.tables.sources.parquet import ParquetSource

CANARY = "canary-4711"
COLUMNS = {"x0": sd.Integer(0, 99), "x1": sd.Categorical(["a", "b"], nullable=True), "x2": sd.Continuous(0, 1)}
SCHEMA = sd.Schema(COLUMNS)
REQUIRED = sd.Schema({**COLUMNS, "x3": sd.Boolean()})
"""The names that columns of an array have."""

Door = Callable[[pd.DataFrame, Path], Any]


def to_csv(table: pd.DataFrame, folder: Path) -> CsvSource:
    table.to_csv(folder / "t.csv", index=False)
    return CsvSource(folder / "t.csv")


def to_parquet(table: pd.DataFrame, folder: Path) -> ParquetSource:
    pq.write_table(pa.Table.from_pandas(table, preserve_index=False), folder / "t.parquet")
    return ParquetSource(folder / "t.parquet")


def to_relation(table: pd.DataFrame, _: Path) -> Any:
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    return duckdb.connect().from_arrow(arrow)


DOORS: dict[str, Door] = {
    "pandas": lambda table, _: table,
    "pandas arrow": lambda table, _: table.convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda table, _: pl.from_pandas(table),
    "polars lazy": lambda table, _: pl.from_pandas(table).lazy(),
    "pyarrow": lambda table, _: pa.Table.from_pandas(table, preserve_index=False),
    "duckdb": to_relation,
    "numpy": lambda table, _: table.to_numpy(dtype=object),
    "csv": to_csv,
    "parquet": to_parquet,
}
NAMED = [door for door in DOORS if door != "numpy"]


def rows(count: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {"x0": rng.integers(0, 99, count), "x1": rng.choice(["a", CANARY], count), "x2": rng.random(count)}
    )


def refused(table: Any, folder: Path, error: type[Exception], **settings: Any) -> str:
    """Check that a release is refused before anything is spent, and return the sentence."""
    ledger = folder / "l.sqlite"
    with pytest.raises(error) as caught:
        sd.SyntheticRelease(**{"schema": SCHEMA, "ledger": ledger, **settings}).fit(table)
    assert not ledger.exists() or sd.Ledger(ledger).entries() == []
    text = str(caught.value)
    assert "\n" not in text
    assert CANARY not in text
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return text


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> Door:
    return DOORS[request.param]


def test_a_missing_column_is_named(door: Door, tmp_path: Path) -> None:
    assert (
        "column 'x3' is missing from the table: add it, or leave it out of the schema, which has: x0, x1, x2, x3"
        in refused(door(rows(), tmp_path), tmp_path, DataError, schema=REQUIRED)
    )


@pytest.mark.sampled("landing")
def test_an_extra_column_is_ignored_with_a_note(door: Door, tmp_path: Path) -> None:
    table = rows().assign(x3=CANARY)
    release = sd.SyntheticRelease(schema=SCHEMA).fit(door(table, tmp_path))
    assert "column 'x3' is not in the schema and was ignored" in str(release.receipt_)
    assert release.schema_.names == ("x0", "x1", "x2")


def test_an_empty_table_is_refused(door: Door, tmp_path: Path) -> None:
    said = refused(door(rows()[:0], tmp_path), tmp_path, ValueError)
    assert "no rows" in said or "0 sample(s)" in said


@pytest.mark.sampled
@pytest.mark.parametrize("table", [rows(1), rows().assign(x0=None, x1=None, x2=None)], ids=["one row", "only nulls"])
def test_one_row_and_only_missing_values_are_released_like_any_table(
    door: Door, table: pd.DataFrame, tmp_path: Path
) -> None:
    """Refusing them would tell them from their neighbours."""
    typed = table.astype({"x0": "Int64", "x1": "string", "x2": "Float64"})
    release = sd.SyntheticRelease(schema=SCHEMA).fit(door(typed, tmp_path))
    assert release.release_.sample(20) is not None


@pytest.mark.sampled
def test_unforeseen_values_are_never_shown(door: Door, tmp_path: Path) -> None:
    release = sd.SyntheticRelease(schema=SCHEMA, random_state=0).fit(door(rows(2000), tmp_path))
    assert CANARY not in str(release.sample(500)) + str(release.receipt_) + repr(release.release_)


SETTINGS = [
    ({"epsilon": 0}, ParameterError, "epsilon (0) must be"),
    ({"epsilon": -1.0}, ParameterError, "epsilon (-1.0) must be"),
    ({"epsilon": float("nan")}, ParameterError, "epsilon (nan) must be"),
    ({"delta": 1.0}, ParameterError, "delta (1.0) must be"),
    ({"delta": -0.1}, ParameterError, "delta (-0.1) must be"),
    ({"solver": "mosek"}, SolverUnavailableError, "solver 'mosek' is not available: use one of"),
    ({"privacy_unit": "nobody"}, ParameterError, "privacy_unit ('nobody') must be a column"),
    ({"target": "nobody"}, SynthDPError, "'nobody'"),
]


@pytest.mark.sampled
@pytest.mark.parametrize(("settings", "error", "words"), SETTINGS)
def test_bad_settings_are_refused(
    door: Door, settings: dict[str, Any], error: type[Exception], words: str, tmp_path: Path
) -> None:
    assert words in refused(door(rows(), tmp_path), tmp_path, error, **settings)


@pytest.mark.sampled("landing")
def test_a_huge_epsilon_warns_and_goes_on(door: Door, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="epsilon"):
        sd.SyntheticRelease(schema=SCHEMA, epsilon=9).fit(door(rows(), tmp_path))


def test_an_exhausted_ledger_refuses(door: Door, tmp_path: Path) -> None:
    sd.Ledger(tmp_path / "l.sqlite").set_cap("default", sd.ApproxDP(0.5, 1e-6))
    said = refused(door(rows(), tmp_path), tmp_path, BudgetExceededError)
    assert "asked to spend ε = 1" in said
    assert "only ε = 0.5 of 0.5 is left in ledger" in said


def test_a_file_that_is_no_ledger_is_refused(door: Door, tmp_path: Path) -> None:
    (tmp_path / "no.sqlite").write_text("not a data base, but long enough to be taken for one" * 40)
    said = refused(door(rows(), tmp_path), tmp_path, LedgerError, ledger=tmp_path / "no.sqlite")
    assert "no.sqlite" in said


def test_a_locked_ledger_is_refused(tmp_path: Path) -> None:
    sd.Ledger(tmp_path / "l.sqlite").set_cap("default", sd.ApproxDP(5, 1e-6))
    with closing(sqlite3.connect(tmp_path / "l.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LedgerError, match=r"l\.sqlite'.*locked"):
            sd.SyntheticRelease(schema=SCHEMA, ledger=sd.Ledger(tmp_path / "l.sqlite", seconds=0.1)).fit(rows())
    assert sd.Ledger(tmp_path / "l.sqlite").entries() == []


TWICE = {
    "pandas": lambda folder: pd.concat([rows(), rows()[["x0"]]], axis=1),
    "pyarrow": lambda folder: pa.table([[1], [2], ["a"], [0.5]], names=["x0", "x0", "x1", "x2"]),
}


@pytest.mark.sampled
@pytest.mark.parametrize("door", TWICE)
def test_a_name_that_occurs_twice_is_refused(door: str, tmp_path: Path) -> None:
    assert "column 'x0' occurs more than once" in refused(TWICE[door](tmp_path), tmp_path, DataError)


def test_files_with_a_name_that_occurs_twice_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"x0,x0,x1,x2\n1,1,{CANARY},0.5\n")
    with pytest.raises(DataError, match=r"\b1\b.*\b2\b"):
        CsvSource(tmp_path / "t.csv")
    pq.write_table(TWICE["pyarrow"](tmp_path), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"t\.parquet"):
        ParquetSource(tmp_path / "t.parquet")


@pytest.mark.sampled
@pytest.mark.parametrize("source", [CsvSource, ParquetSource])
@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00" * 9], ids=["not there", "damaged"])
def test_files_that_cannot_be_read_are_refused(source: type, content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / f"t.{'csv' if source is CsvSource else 'parquet'}"
    existing = {} if content is None else {path: content}
    for where, what in existing.items():
        where.write_bytes(what)
    with pytest.raises((DataError, FormatError), match=path.name):
        source(path)


def test_a_ragged_file_is_released_as_if_its_odd_row_were_not_there(tmp_path: Path) -> None:
    """A row of too few fields, refused, would tell that somebody's row is there (R27)."""
    (tmp_path / "t.csv").write_text(f"x0,x1,x2\n1,a,0.5\n1,{CANARY}\n")
    release = sd.SyntheticRelease(schema=SCHEMA, random_state=0).fit(CsvSource(tmp_path / "t.csv"))
    assert CANARY not in str(release.sample(50)) + str(release.receipt_)


NESTED = {
    "pandas": lambda: pd.DataFrame({"x0": pd.Series([[1], [2]], dtype=pd.ArrowDtype(pa.list_(pa.int64())))}),
    "polars": lambda: pl.DataFrame({"x0": [[1], [2]]}),
    "pyarrow": lambda: pa.table({"x0": [[1], [2]]}),
    "duckdb": lambda: duckdb.sql("SELECT [1, 2] AS x0"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("door", NESTED)
def test_a_column_that_cannot_hold_what_is_declared_is_named(door: str, tmp_path: Path) -> None:
    said = refused(NESTED[door](), tmp_path, DataError, schema=sd.Schema({"x0": sd.Integer(0, 9)}))
    assert "column 'x0' is of type" in said
    assert "does not suit its declaration, Integer" in said


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"x0": sd.Integer(5, 2)}, "column 'x0': lower (5) must be below upper (2)"),
        ({"x0": sd.Continuous(0, float("inf"))}, "must be finite"),
        ({"x0": sd.Categorical([])}, "column 'x0': levels must not be empty"),
        ({"x0": sd.Categorical(["a", "a"])}, "levels must differ"),
        ({"x0": sd.Categorical(["a", None])}, "not missing values or lists"),
    ],
)
def test_a_schema_that_contradicts_itself_is_refused_before_there_is_a_table(columns: Any, words: str) -> None:
    with pytest.raises(SchemaError) as caught:
        sd.Schema(columns)
    assert words in str(caught.value)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "thing",
    [5, None, {"x0": [1]}, [CANARY, CANARY], np.array([CANARY]), pd.Series([CANARY]), np.zeros((1, 1, 1))],
    ids=lambda thing: type(thing).__name__,
)
def test_what_is_no_table_is_refused(thing: Any, tmp_path: Path) -> None:
    said = refused(thing, tmp_path, DataError)
    assert "X must be a table with rows and columns" in said
    assert "Reshape your data" in said


@pytest.mark.sampled
@pytest.mark.parametrize("path", [CANARY, Path(CANARY)], ids=["text", "path"])
def test_a_path_is_refused_and_told_what_to_give(path: Any, tmp_path: Path) -> None:
    said = refused(path, tmp_path, DataError)
    assert "give CsvSource(path), ParquetSource(path) or a dataframe" in said


def test_rows_of_different_lengths_are_refused(tmp_path: Path) -> None:
    assert "rows of X have different lengths" in refused([[1, CANARY], [2]], tmp_path, DataError)


@pytest.mark.sampled
@pytest.mark.parametrize("model", [sd.TrigonometricFeatures(), sd.DomainDiscretizer()])
def test_a_text_where_a_plain_transformer_needs_numbers_is_refused_without_showing_it(model: Any) -> None:
    with pytest.raises(DataError, match=r"\bX\b") as caught:
        model.fit(np.array([[1.0, CANARY], [2.0, "3"]], dtype=object), [0, 1])
    assert CANARY not in str(caught.value)
    assert caught.value.__context__ is None


COMPLEX = [[4711 + 1j, 2], [3, 4]]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("model", "table"),
    [
        (sd.SyntheticRelease(), np.array(COMPLEX)),
        (sd.TrainOnSynthetic(), np.array(COMPLEX)),
        (sd.TrigonometricFeatures(), np.array(COMPLEX)),
        (sd.TrigonometricFeatures(), pd.DataFrame(COMPLEX)),
        (sd.DomainDiscretizer(), np.array(COMPLEX)),
        (sd.DomainDiscretizer(), pd.DataFrame(COMPLEX)),
    ],
)
def test_complex_numbers_are_refused_for_their_type_and_not_shown(model: Any, table: Any) -> None:
    with pytest.raises(DataError, match="Complex") as caught:
        model.fit(table, [0, 1])
    assert "4711" not in str(caught.value)
    assert caught.value.__context__ is None
