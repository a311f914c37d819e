"""Derived columns from a private table to a synthetic one, its answers and files, on public tables, in every library."""

from __future__ import annotations

import decimal
from functools import partial

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from exact_csv import exact_csv

import synthdp as sd
from synthdp.data import adult, adult_schema
from synthdp.errors import DataError, ParameterError

CODES = dict(adult()[["education", "education-num"]].drop_duplicates().itertuples(index=False, name=None))


def _adult(*rules: object, **columns: sd.Schema) -> sd.Schema:
    return sd.Schema({**adult_schema(), **columns}, constraints=rules)


@pytest.fixture(scope="module")
def release() -> sd.SyntheticRelease:
    """A release in which one column is looked up from another, whatever the real one holds."""
    rule = sd.Derived("education-num", of="education", values=CODES)
    return sd.SyntheticRelease(schema=_adult(rule), epsilon=1.0).fit(adult().head(1500).assign(**{"education-num": -1}))


@pytest.mark.slow
def test_levels_and_numbers_of_education_agree_in_every_row_of_adult(release, tmp_path):
    real = adult()
    synthetic = release.sample()
    assert list(synthetic) == list(real)
    assert (synthetic["education"].map(CODES) == synthetic["education-num"]).all()
    assert synthetic["education-num"].dtype == real["education-num"].dtype
    release.release_.sample_to(tmp_path / "adult.csv", rows=9000, block_rows=4000)
    written = pd.read_csv(tmp_path / "adult.csv", keep_default_na=False)
    assert (written["education"].map(CODES) == written["education-num"]).all()


@pytest.mark.slow
def test_a_condition_and_a_table_of_a_label_are_those_of_its_code(release):
    rows = release.sample(300, given={"education-num": (13, 16), "sex": "Female"})
    assert (rows["education-num"] >= 13).all()
    assert set(rows["education"]) <= {"Bachelors", "Masters", "Prof-school", "Doctorate"}
    by_label, by_code = (
        release.answer(sd.count(where))
        for where in (
            "`education-num` >= 13 and age > 40",
            "education in ('Bachelors', 'Masters', 'Prof-school', 'Doctorate') and age > 40",
        )
    )
    pd.testing.assert_frame_equal(by_label, by_code)
    table = release.answer(sd.marginal("education-num", bins={"education-num": [1, 9, 17]}))
    low = release.answer(sd.count("`education-num` < 9"))
    assert table["estimate"][0] == pytest.approx(low["estimate"][0])
    assert table["standard_error"][0] == pytest.approx(low["standard_error"][0])


def test_groups_of_a_label_are_those_of_its_code(release):
    """A column that is looked up divides answers as the column that it is looked up from, rows and error bars alike."""
    for ask in (sd.count, partial(sd.mean, "age"), partial(sd.share, "age >= 40")):
        by_label, by_code = (release.answer(ask(by=name)) for name in ("education", "education-num"))
        by_label = by_label.assign(code=by_label["education"].map(CODES)).set_index("code").sort_index()
        by_code = by_code.set_index("education-num").sort_index()
        assert list(by_label.index) == list(by_code.index)
        for figure in ("estimate", "standard_error"):
            np.testing.assert_allclose(by_label[figure], by_code[figure], rtol=1e-9)


def test_days_since_a_contact_are_missing_exactly_where_there_was_none():
    """As in tables of bank marketing: pdays = -1 exactly where previous = 0."""
    rng = np.random.default_rng(8)
    previous = rng.poisson(0.4, 3000)
    contacts = rng.integers(1, 5, 3000)
    real = pd.DataFrame(
        {
            "previous": previous,
            "pdays": np.where(previous > 0, rng.integers(1, 871, 3000), -1),
            "campaign": contacts,
            "contacts": previous + contacts,
        }
    )
    columns = {
        "previous": sd.Integer(0, 50), "pdays": sd.Integer(-1, 871), "campaign": sd.Integer(1, 60), "contacts": sd.Integer()
    }  # fmt: skip
    rules = [sd.Iff({"pdays": -1}, {"previous": 0}), sd.Derived("contacts", "previous + campaign")]
    alone = sd.SyntheticRelease(schema=sd.Schema(columns, constraints=rules[1:])).fit_transform(real)
    assert ((alone["pdays"] == -1) != (alone["previous"] == 0)).any()
    synthetic = sd.SyntheticRelease(schema=sd.Schema(columns, constraints=rules)).fit_transform(real)
    assert ((synthetic["pdays"] == -1) == (synthetic["previous"] == 0)).all()
    assert (synthetic["contacts"] == synthetic["previous"] + synthetic["campaign"]).all()
    assert abs((synthetic["pdays"] == -1).mean() - (real["pdays"] == -1).mean()) < 0.1


SUMS = sd.Schema(
    {
        "a": sd.Continuous(0, 0.1),
        "b": sd.Continuous(0, 0.2),
        "c": sd.Continuous(),
        "i": sd.Integer(0, 100),
        "j": sd.Integer(),
    },
    constraints=[sd.Derived("c", "a + b"), sd.Derived("j", "2 * i")],
)


def _rows(kind: str, small: str) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    parts = pd.DataFrame({"a": rng.uniform(0, 0.1, 500), "b": rng.uniform(0, 0.2, 500)}).astype(kind)
    whole = pd.DataFrame({"i": rng.integers(0, 101, 500), "j": np.zeros(500)}).astype(small)
    return parts.assign(c=parts["a"] + parts["b"], i=whole["i"], j=whole["j"])


def _money(rows: pd.DataFrame) -> pa.Table:
    cents = {name: [decimal.Decimal(round(value * 100)) / 100 for value in rows[name]] for name in "abc"}
    columns = {name: pa.array(values, pa.decimal128(6, 2)) for name, values in cents.items()}
    return pa.table({**columns, "i": pa.array(rows["i"]), "j": pa.array(rows["j"])})


TABLES = {
    "pandas, floats of 64 bits": lambda: _rows("float64", "int64"),
    "pandas, floats of 32 bits and integers of 8": lambda: _rows("float32", "int8"),
    "pandas on Arrow": lambda: _rows("float[pyarrow]", "int8[pyarrow]"),
    "pandas with nulls": lambda: _rows("Float32", "Int8"),
    "polars": lambda: pl.from_pandas(_rows("float32", "int8")),
    "polars lazy": lambda: pl.from_pandas(_rows("float32", "int8")).lazy(),
    "Arrow": lambda: pa.Table.from_pandas(_rows("float32", "int8")),
    "decimals": lambda: _money(_rows("float64", "int64")),
    "duckdb": lambda: duckdb.from_arrow(_money(_rows("float64", "int16"))),
}


IN_DUCKDB = {pl.LazyFrame: lambda table: table.collect(), pd.DataFrame: pa.Table.from_pandas}
"""DuckDB adds columns in their own types; it reads the others as they are."""


@pytest.mark.sampled
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_sums_are_exact_in_the_arithmetic_of_the_columns_that_come_out(table):
    """Also where the type of the derived column cannot hold all sums: then it has a larger one."""
    real = table()
    synthetic = sd.SyntheticRelease(schema=SUMS, epsilon=5.0, random_state=0).fit(real).sample(2000)
    assert type(synthetic) is type(real)
    frame = IN_DUCKDB.get(type(synthetic), lambda table: table)(synthetic)  # noqa: F841 - the query names it
    found = duckdb.sql("SELECT count(*), max(j) > 127 FROM frame WHERE a + b = c AND 2::BIGINT * i = j").fetchall()
    assert found == [(2000, True)]


def test_a_table_needs_no_column_that_is_derived():
    real = _rows("float64", "int64")[["i", "b", "a"]]
    synthetic = sd.SyntheticRelease(schema=SUMS).fit_transform(real)
    assert list(synthetic) == ["i", "b", "a", "c", "j"]
    assert (synthetic["c"] == synthetic["a"] + synthetic["b"]).all()


def test_a_derived_column_may_hold_anything_in_the_private_table():
    real = _rows("float64", "int64")
    odd = real.assign(j=np.iinfo(np.int64).max, c=np.nan)
    synthetic = sd.SyntheticRelease(schema=SUMS, random_state=0).fit_transform(odd)
    assert (synthetic["j"] == 2 * synthetic["i"]).all()
    assert (synthetic["c"] == synthetic["a"] + synthetic["b"]).all()


def test_a_column_that_is_derived_is_not_said_to_be_ignored():
    receipt = sd.SyntheticRelease(schema=SUMS).fit(_rows("float64", "int64")).receipt_
    assert "ignored" not in " ".join(receipt.notes)


def test_a_type_that_cannot_hold_a_derived_column_is_refused_before_anything_is_read(tmp_path):
    real = _rows("float64", "int64").assign(j=pd.Timestamp("2026-01-01"))
    release = sd.SyntheticRelease(schema=SUMS, ledger=tmp_path / "ledger", dataset="t")
    with pytest.raises(DataError, match="'j'"):
        release.fit(real)
    assert not (tmp_path / "ledger").exists()


def test_real_rows_are_brought_to_the_schema_with_what_is_derived():
    release = sd.SyntheticRelease(schema=SUMS).fit(_rows("float64", "int64"))
    brought = release.transform(
        pd.DataFrame({"a": [0.05, 7.0], "b": [0.1, 0.1], "c": [9.0, 9.0], "i": [3, 300], "j": [1, 1]})
    )
    assert brought["c"].tolist() == [0.05 + 0.1, 0.1 + 0.1]
    assert brought["j"].tolist() == [6, 200]


@pytest.mark.parametrize(
    "ask",
    [
        lambda release: release.sample(5, given={"c": 0.1}),
        lambda release: release.answer(sd.marginal("c")),
        lambda release: release.answer(sd.count("c > 0.1")),
        lambda release: release.answer(sd.mean("c")),
        lambda release: release.answer(sd.mean("a", where="j > 3")),
        lambda release: release.answer(sd.quantile("j")),
        lambda release: release.answer(sd.smooth(lambda x: x[:, 0], columns=["c"])),
    ],
)
def test_questions_about_what_is_computed_are_refused_with_the_expression(ask):
    release = sd.SyntheticRelease(schema=SUMS).fit(_rows("float64", "int64"))
    with pytest.raises(ParameterError, match=r"a\s\+\sb|2\s\*\si"):
        ask(release)


def test_a_plan_and_a_pipeline_take_schemas_with_derived_columns():
    assert sd.SyntheticRelease(schema=SUMS).plan(rows=2000).seconds > 0
    rows, labels = sd.SyntheticRelease(schema=SUMS).fit_resample(_rows("float64", "int64").drop(columns="j"),
                                                                _rows("float64", "int64")["j"])  # fmt: skip
    assert (labels == 2 * rows["i"]).all()


READ = {
    "parquet": (duckdb.read_parquet, "a + b = c"),
    "arrow": (lambda path: duckdb.from_arrow(pa.ipc.open_file(path).read_all()), "a + b = c"),
    "csv": (duckdb.read_csv, "a::DECIMAL(6, 2) + b::DECIMAL(6, 2) = c::DECIMAL(6, 2)"),
}


@pytest.mark.parametrize("ending", READ)
def test_sums_are_exact_in_files_whose_types_are_those_of_the_real_one(ending, tmp_path):
    columns = {**SUMS.outputs, "a": sd.Continuous(0, 0.1, decimals=2), "b": sd.Continuous(0, 0.2, decimals=2)}
    schema = sd.Schema({**columns, "c": sd.Continuous(decimals=2)}, constraints=SUMS.constraints)
    release = sd.SyntheticRelease(schema=schema, random_state=0).fit(_money(_rows("float64", "int8"))).release_
    path = str(tmp_path / f"rows.{ending}")
    release.sample_to(path, rows=3000, block_rows=1000)
    read, exact = READ[ending]
    table = read(path)
    found = table.filter(f"{exact} AND 2::BIGINT * i = j").aggregate("count(*), max(j) > 127").fetchall()
    assert found == [(3000, True)]


def test_a_sum_that_declares_decimals_is_rounded_to_them():
    columns = {
        "a": sd.Continuous(0, 9, decimals=2),
        "b": sd.Continuous(0, 9, decimals=2),
        "c": sd.Continuous(decimals=2),
    }
    rng = np.random.default_rng(6)
    real = pd.DataFrame({name: rng.integers(0, 901, 800) / 100 for name in "ab"})
    schema = sd.Schema(columns, constraints=[sd.Derived("c", "a + b")])
    made = sd.SyntheticRelease(schema=schema, epsilon=3.0).fit_transform(real)
    written = made.astype(str)
    assert [decimal.Decimal(c) for c in written["c"]] == [
        decimal.Decimal(a) + decimal.Decimal(b) for a, b in zip(written["a"], written["b"], strict=True)
    ]
    assert schema.outputs["c"].upper == 18


def test_the_command_line_releases_and_samples_what_is_derived(tmp_path):
    from click.testing import CliRunner

    from synthdp.cli.main import main

    _rows("float64", "int64")[["a", "b", "i"]].to_csv(tmp_path / "real.csv", index=False)
    label = sd.Derived("size", of="i", values={i: "small" if i < 50 else "large" for i in range(101)})
    schema = sd.Schema({**SUMS, **SUMS.outputs, "size": sd.Categorical()}, constraints=[*SUMS.constraints, label])
    schema.write(tmp_path / "schema.json")
    where = [str(tmp_path / name) for name in ("real.csv", "schema.json", "made.csv", "saved", "more.csv")]
    release = ["release", where[0], "--schema", where[1], "--out", where[2], "--save", where[3]]
    made = CliRunner().invoke(main, release)
    assert made.exit_code == 0, made.output
    more = CliRunner().invoke(main, ["sample", where[3], "--rows", "300", "--given", "size=large", "--out", where[4]])
    assert more.exit_code == 0, more.output
    for path in (where[2], where[4]):
        table = exact_csv(path)
        assert (table["c"] == table["a"] + table["b"]).all()
        assert (table["j"] == 2 * table["i"]).all()
        assert ((table["size"] == "large") == (table["i"] >= 50)).all()
    assert set(pd.read_csv(where[4])["size"]) == {"large"}
