"""`privacy_unit` (R11): what all rows of one person can do to a release, through every door."""

import itertools
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from click.testing import CliRunner
from no_noise import without_noise

from synthdp import ApproxDP, Categorical, Curator, Identifier, Integer, Ledger, Schema, SyntheticRelease
from synthdp.cli.main import main
from synthdp.errors import ParameterError, SchemaError
from synthdp.tables.sources.csv import CsvSource
from synthdp.tables.sources.duckdb import DuckDBSource
from synthdp.tables.sources.parquet import ParquetSource

CANARY = "canary-4711"
SCHEMA = Schema({"age": Integer(0, 90), "city": Categorical(["a", "b"])})
COLUMNS = len(SCHEMA)


def visits(rows: int = 2000) -> pd.DataFrame:
    """About three rows of each person."""
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "person": [f"p{i}" for i in rng.integers(0, rows // 3, rows)],
            "age": rng.integers(0, 90, rows),
            "city": rng.choice(["a", "b"], rows),
        }
    )


def with_a_regular(table: pd.DataFrame, rows: int = 10_000) -> pd.DataFrame:
    """The same table and one person with very many rows, mixed among the others'."""
    rng = np.random.default_rng(6)
    regular = pd.DataFrame({"person": CANARY, "age": rng.integers(0, 90, rows), "city": "b"})
    return pd.concat([table, regular]).sample(frac=1, random_state=0, ignore_index=True)


def as_csv(table: pd.DataFrame, folder: Path):
    table.to_csv(folder / "t.csv", index=False)
    return CsvSource(folder / "t.csv")


def as_parquet(table: pd.DataFrame, folder: Path):
    table.to_parquet(folder / "t.parquet")
    return ParquetSource(folder / "t.parquet")


def as_database(table: pd.DataFrame, folder: Path):
    (folder / "t.duckdb").unlink(missing_ok=True)
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        connection.register("frame", table)
        connection.execute("CREATE TABLE visits AS FROM frame")
    return DuckDBSource(folder / "t.duckdb", name="visits", push_down=True)


DOORS = {
    "pandas": lambda table, folder: table,
    "polars": lambda table, folder: pl.from_pandas(table),
    "csv": as_csv,
    "parquet": as_parquet,
    "duckdb": as_database,
}


@pytest.mark.sampled("landing")
@pytest.mark.parametrize(
    ("door", "mechanism", "most"),
    [
        pytest.param(door, mechanism, most, marks=[pytest.mark.slow] * ((i + j + k) % 2))
        for (i, door), (j, mechanism), (k, most) in itertools.product(
            enumerate(DOORS), enumerate(["adaptive_marginals", "l1_fit"]), enumerate([1, 3])
        )
    ],
)
def test_removing_ten_thousand_rows_of_one_person_moves_exact_sums_by_at_most_k_rows(
    door: str, mechanism: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_noise(monkeypatch)
    monkeypatch.setattr("synthdp.tables.sources.csv.BLOCK_ROWS", 1500)
    monkeypatch.setattr("synthdp.tables.sources.parquet.BLOCK_ROWS", 1500)
    sums = []
    for table in (visits(), with_a_regular(visits())):
        release = SyntheticRelease(
            schema=SCHEMA, mechanism=mechanism, privacy_unit="person", max_rows_per_unit=most
        ).fit(DOORS[door](table, tmp_path))  # fmt: skip
        sums.append([measured.answers for measured in release.release_.measurements[:2]])
    (rows, ways), (rows_with, ways_with) = sums
    assert 0 < abs(rows_with - rows).sum() <= most
    assert 0 < abs(ways_with - ways).sum() <= most * COLUMNS
    persons = visits()["person"].value_counts()
    assert rows[0] == persons.clip(upper=most).sum()


def test_without_a_unit_the_same_rows_move_the_sums_by_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    without_noise(monkeypatch)
    fits = [SyntheticRelease(schema=SCHEMA).fit(table) for table in (visits(), with_a_regular(visits()))]
    rows, rows_with = (fit.release_.measurements[0].answers for fit in fits)
    assert rows_with - rows == 10_000


@pytest.mark.parametrize("most", [1, 4])
def test_more_rows_of_each_cost_more_noise_for_the_same_promise(most: int) -> None:
    receipt = SyntheticRelease(schema=SCHEMA, privacy_unit="person", max_rows_per_unit=most).fit(visits()).receipt_
    assert receipt.total == ApproxDP(1.0, 1e-9)
    assert receipt.items[0].sensitivity == most
    assert f"all rows of one value of 'person' (at most {most} used)" in str(receipt)


def test_a_level_that_one_person_repeats_is_not_discovered() -> None:
    table = with_a_regular(visits(6000))
    table.loc[table["person"] == CANARY, "city"] = CANARY
    release = SyntheticRelease(epsilon=3, delta=1e-6, privacy_unit="person").fit(table)
    assert release.schema_.names == ("age", "city")
    assert {"a", "b"} <= set(release.schema_["city"].levels)
    assert CANARY not in str(release.schema_) + release.sample(3000).to_csv()


def test_a_unit_outside_the_schema_is_not_released_and_the_receipt_says_so() -> None:
    release = SyntheticRelease(schema=SCHEMA, privacy_unit="person")
    made = release.fit_transform(visits())
    assert list(made.columns) == ["age", "city"]
    receipt = " ".join(str(release.receipt_).split())
    assert "'person' names the privacy units; it is not in the schema and is not released" in receipt
    assert "was ignored" not in receipt


def test_a_unit_in_the_schema_is_released_as_fresh_labels() -> None:
    schema = Schema({"person": Identifier("someone-"), **SCHEMA})
    release = SyntheticRelease(schema=schema, privacy_unit="person", max_rows_per_unit=2)
    made = release.fit_transform(visits())
    assert made["person"].is_unique
    assert made["person"].str.startswith("someone-").all()
    assert set(made["person"]).isdisjoint(visits()["person"])


@pytest.mark.parametrize("column", [Categorical(["p1", "p2"]), Categorical(), Integer(0, 9)])
def test_a_unit_declared_as_anything_else_is_refused_and_nothing_is_spent(column: object, tmp_path: Path) -> None:
    schema = Schema({"person": column, **SCHEMA})
    release = SyntheticRelease(schema=schema, privacy_unit="person", ledger=tmp_path / "l.sqlite")
    with pytest.raises(SchemaError, match="privacy_unit"):
        release.fit(visits())
    assert not (tmp_path / "l.sqlite").exists()
    with pytest.raises(SchemaError, match="Identifier"):
        Curator(visits(), schema=schema, budget=ApproxDP(1, 1e-9), privacy_unit="person")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"privacy_unit": "nobody"}, "privacy_unit.*'nobody'"),
        ({"max_rows_per_unit": 2}, "max_rows_per_unit.*privacy_unit"),
        ({"privacy_unit": "person", "max_rows_per_unit": 0}, "max_rows_per_unit"),
        ({"privacy_unit": "person", "max_rows_per_unit": 1.5}, "max_rows_per_unit"),
        ({"privacy_unit": "person", "max_rows_per_unit": 2, "neighbors": "replace_one"}, "'add_remove'"),
    ],
)
def test_units_that_make_no_sense_are_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        SyntheticRelease(schema=SCHEMA, **settings).fit(visits())


def test_the_command_line_protects_units_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_noise(monkeypatch)
    monkeypatch.chdir(tmp_path)
    with_a_regular(visits()).to_csv("t.csv", index=False)
    SCHEMA.write("s.json")
    command = [
        "release",
        "t.csv",
        "--schema",
        "s.json",
        "--out",
        "o.csv",
        "--ledger",
        "l.sqlite",
        "--dataset",
        "visits",
    ]
    result = CliRunner(catch_exceptions=False).invoke(
        main, [*command, "--privacy-unit", "person", "--max-rows-per-unit", "2"]
    )
    assert result.exit_code == 0, result.stderr
    assert "at most 2 used" in result.stdout
    assert CANARY not in result.stdout + Path("o.csv").read_text(encoding="utf-8")
    kept = with_a_regular(visits())["person"].value_counts().clip(upper=2).sum()
    assert len(pd.read_csv("o.csv")) == kept
    assert [str(entry.loss) for entry in Ledger("l.sqlite").entries("visits")] == [str(ApproxDP(1, 1e-9))]
