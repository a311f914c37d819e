"""What `synthdp plan --sql` prints is what runs, and it reads nothing."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from synthdp import Boolean, Categorical, Continuous, Datetime, Integer, Schema
from synthdp.cli.main import main
from synthdp.tables.sql.planned import planned_sql

SCHEMA = Schema(
    {
        "age": Integer(0, 90),
        "city": Categorical(["Oslo", "L'Aquila"]),
        "height": Continuous(0, 2),
        "member": Boolean(),
        "born": Datetime("2000-01-01", "2020-01-01"),
    }
)


def printed(schema: Schema, folder: Path, *words: str) -> tuple[int, str]:
    schema.write(folder / "schema.json")
    ran = CliRunner().invoke(main, ["plan", str(folder / "schema.json"), *words])
    return ran.exit_code, ran.output


def statements_of(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if not line.startswith("--")]
    return [one for one in "\n".join(lines).split(";\n") if one.strip()]


def test_the_statements_run_as_they_are_printed(tmp_path: Path) -> None:
    code, text = printed(SCHEMA, tmp_path, "--sql", "duckdb")
    assert code == 0
    with duckdb.connect() as database:
        database.execute(
            "CREATE TABLE your_table (age BIGINT, city VARCHAR, height DOUBLE, member BOOLEAN, born TIMESTAMP)"
        )
        database.execute("INSERT INTO your_table VALUES (30, 'Oslo', 1.5, true, '2010-01-01')")
        answers = [database.execute(statement).fetchall() for statement in statements_of(text)]
    rows, codes, _, counts = answers
    assert rows[0][:4] == (30, "Oslo", 1.5, True)
    assert codes[0][:2] == (30, 0)
    assert {row[2] for row in counts} == {1}


@pytest.mark.parametrize("most", [1, 2])
def test_so_many_rows_of_each_person_are_kept_by_the_statement_that_is_printed(most: int, tmp_path: Path) -> None:
    words = ["--sql", "duckdb", "--privacy-unit", "who", "--max-rows-per-unit", str(most)]
    code, text = printed(Schema({"age": Integer(0, 90)}), tmp_path, *words)
    assert code == 0
    with duckdb.connect() as database:
        database.execute("CREATE TABLE your_table AS SELECT 'p' || i % 5 AS who, i AS age FROM range(20) t(i)")
        answers = [database.execute(statement).fetchall() for statement in statements_of(text)]
    assert sum(n for _, _, n in answers[-1]) == 5 * most


def test_a_column_that_no_database_encodes_is_named(tmp_path: Path) -> None:
    code, text = printed(Schema({"age": Integer(0, 9), "odd": Categorical(["a", 1])}), tmp_path, "--sql", "postgres")
    assert code == 0
    assert "push='counts' is refused: column 'odd'" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--sql", "nosuch"], "must be"),
        (["--sql", "duckdb", "--privacy-unit", "who", "--max-rows-per-unit", "0"], "max_rows_per_unit"),
        (["--rows", "100", "--privacy-unit", "who"], "works with --sql only"),
        ([], "Missing option '--rows'"),
    ],
)
def test_what_is_asked_wrongly_is_one_line(words: list[str], said: str, tmp_path: Path) -> None:
    code, text = printed(SCHEMA, tmp_path, *words)
    assert code == 2
    assert said in text


@pytest.mark.parametrize("dialect", ["mysql", "snowflake", "bigquery", "tsql", "databricks", "trino"])
def test_statements_of_other_databases_are_of_their_dialect_as_another_parser_reads_it(dialect: str) -> None:
    sqlglot = pytest.importorskip("sqlglot", reason="sqlglot is not installed")
    names = ["plain", "two words", "a`b", 'c"d', "e]f", "100 %s"]
    text = planned_sql(Schema({name: Integer(0, 9) for name in names}), dialect, table="shop.visits", unit="who")
    said, _, statement = text.partition("\n")
    assert ("never run" in said) == (dialect != "mysql")
    read = sqlglot.parse_one(statement, dialect=dialect)
    assert [one.this.name for one in read.expressions] == [*names, "who"]
    assert [one.alias for one in read.expressions] == [f"c{i}" for i in range(len(names) + 1)]
    table = read.find(sqlglot.exp.Table)
    assert (table.db, table.name) == ("shop", "visits")
