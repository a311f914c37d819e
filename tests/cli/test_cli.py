"""The command line, as a user meets it: the main job, and every bad input in one line that costs nothing."""

import contextlib
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pandas as pd
import pytest
from click.testing import CliRunner

from synthdp import ApproxDP, Categorical, Continuous, Integer, Ledger, Schema
from synthdp.cli.main import main
from synthdp.data import adult, adult_schema

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data"
CANARY = "canary-4711"
SCHEMA = Schema({"age": Integer(0, 99), "city": Categorical(["a", "b"], nullable=True), "x": Continuous(0, 1)})
ROWS = "age,city,x\n31,a,0.5\n42,b,0.25\n53,,0.75\n64,a,1e12\n"


@dataclass
class Result:
    returncode: int
    stdout: str
    stderr: str


def synthdp(*arguments: str | Path, cwd: Path) -> Result:
    """Run the command line in this process: a traceback would end the test."""
    with contextlib.chdir(cwd), pytest.MonkeyPatch.context() as patch:
        patch.setattr(warnings, "showwarning", warnings.showwarning)
        result = CliRunner(catch_exceptions=False).invoke(main, [str(argument) for argument in arguments])
    return Result(result.exit_code, result.stdout, result.stderr)


def synthdp_process(*arguments: str | Path, cwd: Path) -> Result:
    """Run the command line as a process of its own."""
    command = [sys.executable, "-m", "synthdp.cli.main", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, env=environment)
    return Result(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "table.csv").write_text(ROWS, encoding="utf-8")
    SCHEMA.write(tmp_path / "schema.json")
    return tmp_path


def release(folder: Path, *more: str | Path, table: str = "table.csv", schema: str = "schema.json"):
    return synthdp("release", table, "--schema", schema, "--out", "out.csv", "--ledger", "l.sqlite", *more, cwd=folder)


def assert_refused(result: Result, folder: Path, *words: str) -> None:
    assert result.returncode == 2, result.stderr
    lines = [line for line in result.stderr.splitlines() if "warning" not in line and " is read with " not in line]
    assert len(lines) == 1, result.stderr
    for word in words:
        assert word in lines[0]
    assert "Traceback" not in result.stderr
    assert CANARY not in result.stderr
    kept = {"table.csv", "schema.json", "l.sqlite"}
    assert {path.name for path in folder.iterdir()} <= kept
    assert not (folder / "l.sqlite").exists() or Ledger(folder / "l.sqlite").entries() == []


@pytest.mark.style  # the first command of the README
def test_the_demo_runs_the_whole_job(tmp_path: Path) -> None:
    result = synthdp_process("demo", "--out", "demo", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    page = tmp_path / "demo" / "report.html"
    assert result.stdout.splitlines()[0] == f"a report to open: {page.resolve().as_uri()}"
    assert "Privacy card" in page.read_text(encoding="utf-8")
    assert "NON-PRIVATE" in result.stdout
    assert "ε = 1" in (tmp_path / "demo" / "receipt.txt").read_text(encoding="utf-8")
    synthetic = pd.read_csv(tmp_path / "demo" / "synthetic.csv", keep_default_na=False, na_values=[""])
    assert list(synthetic.columns) == list(adult_schema())
    assert abs(len(synthetic) - 32561) < 600
    share = (synthetic["income"] == ">50K").mean()
    assert abs(share - (adult()["income"] == ">50K").mean()) < 0.03
    assert result.stderr == ""  # no progress bar in a pipe


def test_release_then_sample_then_the_ledger(folder: Path) -> None:
    made = release(folder, "--save", "t.release", "--receipt", "r.json", "--dataset", "people", "--json")
    assert made.returncode == 0, made.stderr
    told = json.loads(made.stdout)
    assert told["receipt"]["total"] == {"kind": "ApproxDP", "epsilon": 1.0, "delta": 1e-09}
    assert json.loads((folder / "r.json").read_text())["ledger"] == "l.sqlite"
    table = pd.read_csv(folder / "out.csv")
    assert list(table.columns) == ["age", "city", "x"]
    assert table["x"].between(0, 1).all()
    more = synthdp(
        "sample", "t.release", "--rows", "50", "--given", "city=a", "--seed", "1", "--out", "m.csv", cwd=folder
    )
    assert more.returncode == 0, more.stderr
    assert set(pd.read_csv(folder / "m.csv")["city"]) == {"a"}
    book = synthdp("ledger", "l.sqlite", "--json", cwd=folder)
    assert [e["loss"]["epsilon"] for e in json.loads(book.stdout)["people"]["spends"]] == [1.0]


@pytest.mark.slow
def test_doctor_finds_solvers_and_sound_noise(tmp_path: Path) -> None:
    result = synthdp("doctor", "--json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert {"lp", "mw"} <= set(told["solvers"])
    assert f"HiGHS {told['versions']['highspy']}" in told["solver_in_use"]["lp"]
    assert set(told["solvers"]) <= set(told["solver_in_use"])
    assert all(check["passed"] for check in [*told["noise"], *told["security"]])


@pytest.mark.parametrize(
    ("name", "schema", "lower", "upper"),
    [
        ("hmeq.csv", "hmeq", 0, 400_000),
        pytest.param("parkinsons_raw.csv", "parkinsons", 0, 400_000, marks=pytest.mark.slow),
    ],
)
def test_public_tables_with_hand_written_schemas(
    tmp_path: Path, name: str, schema: str, lower: int, upper: int
) -> None:
    if not (SHARED / name).is_file():
        pytest.skip(f"{name} is not part of the project; it lies in ../shared/data where the project is developed")
    path = ROOT / "examples" / "schemas" / f"{schema}.schema.json"
    result = synthdp("release", SHARED / name, "--schema", path, "--out", "out.csv", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    real, synthetic = pd.read_csv(SHARED / name), pd.read_csv(tmp_path / "out.csv")
    assert list(synthetic.columns) == list(Schema.read(path))
    assert abs(len(synthetic) - len(real)) < 0.1 * len(real)
    numeric = synthetic.select_dtypes("number")
    assert ((numeric.min() >= -10) & (numeric.max() <= 900_000)).all()


def table(text: str):
    return lambda folder: (folder / "table.csv").write_text(text, encoding="utf-8")


def schema(text: str):
    return lambda folder: (folder / "schema.json").write_text(text, encoding="utf-8")


def column(**settings: object) -> str:
    columns = [
        {"name": "age", "type": "integer", **settings},
        {"name": "x", "type": "continuous", "lower": 0, "upper": 1},
    ]
    return json.dumps({"synthdp_schema": 1, "columns": columns})


BAD_FILES = {
    "missing column": (table("age,x\n1,0.5\n"), ["column 'city' is missing"]),
    "duplicate names": (table(f"age,age,city,x\n1,1,{CANARY},0.5\n"), ["columns 1 and 2", "the same name"]),
    "empty file": (table(""), ["table.csv"]),
    "no rows": (table("age,city,x\n"), ["no rows"]),
    "another name in another encoding": (
        lambda f: (f / "table.csv").write_bytes(b"age,c\xeft\xe9,x\n1,a,0.5\n"),
        ["column 'city' is missing"],
    ),
    "no such table": (lambda f: (f / "table.csv").unlink(), ["table.csv"]),
    "no such schema": (lambda f: (f / "schema.json").unlink(), ["schema.json"]),
    "schema not JSON": (schema("{"), ["schema.json", "not valid JSON"]),
    "schema of another kind": (schema("[]"), ["schema.json", "not a synthdp schema"]),
    "lower above upper": (schema(column(lower=5, upper=2)), ["lower (5) must be below upper (2)", "'age'"]),
    "unknown setting": (schema(column(lower=0, upper=9, bins=3)), ["'age'", "'bins'"]),
    "unreviewed": (schema(column(lower=0, upper=9, reviewed=False)), ["'age'", "draft"]),
    "bound not finite": (schema(column(lower=0, upper=float("inf"))), ["finite", "'age'"]),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_get_one_sentence_and_cost_nothing(folder: Path, case: str) -> None:
    spoil, words = BAD_FILES[case]
    spoil(folder)
    assert_refused(release(folder), folder, *words)


BAD_OPTIONS = {
    "epsilon zero": (["--epsilon", "0"], ["epsilon (0.0)"]),
    "epsilon negative": (["--epsilon", "-1"], ["epsilon (-1.0)"]),
    "epsilon NaN": (["--epsilon", "nan"], ["epsilon (nan)"]),
    "epsilon infinite": (["--epsilon", "inf"], ["epsilon (inf)"]),
    "delta one": (["--delta", "1"], ["delta (1.0)"]),
    "delta negative": (["--delta", "-0.1"], ["delta (-0.1)"]),
    "neighbours": (["--neighbors", "twins"], ["neighbors ('twins')", "add_remove"]),
    "solver": (["--solver", "mosek"], ["solver 'mosek' is not available", "lp"]),
    "mechanism": (["--mechanism", "magic"], ["mechanism ('magic')", "adaptive_marginals"]),
    "target": (["--target", "nobody"], ["'nobody'"]),
    "rows": (["--rows", "0"], ["n_rows (0)"]),
    "unit": (["--privacy-unit", "nobody"], ["privacy_unit ('nobody')"]),
    "rows per unit": (["--privacy-unit", "city", "--max-rows-per-unit", "0"], ["max_rows_per_unit (0)"]),
    "domain budget": (["--domain-budget", "2"], ["domain_budget (2.0)"]),
    "wrong encoding": (["--encoding", "utf-16"], ["table.csv", "UTF-16"]),
    "output folder": (["--out", "no/such/out.csv"], ["no/such/out.csv", "cannot be written"]),
    "output ending": (["--out", "out.xlsx"], ["out.xlsx", ".csv or .parquet"]),
}


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_bad_options_get_one_sentence_and_cost_nothing(folder: Path, case: str) -> None:
    options, words = BAD_OPTIONS[case]
    assert_refused(release(folder, *options), folder, *words)


@pytest.mark.slow
def test_a_refusal_is_one_line_and_exit_code_2_as_a_process(folder: Path) -> None:
    command = ["release", "table.csv", "--schema", "schema.json", "--out", "out.csv", "--epsilon", "nan"]
    result = synthdp_process(*command, cwd=folder)
    assert_refused(result, folder, "epsilon (nan) must be a finite number above 0")


def test_an_exhausted_ledger_refuses_and_nothing_is_written(folder: Path) -> None:
    Ledger(folder / "l.sqlite").set_cap("default", ApproxDP(0.5, 1e-6))
    assert_refused(release(folder), folder, "only ε = 0.5 of 0.5 is left", "l.sqlite")


def test_a_large_epsilon_warns_and_goes_on(folder: Path) -> None:
    result = release(folder, "--epsilon", "8")
    assert result.returncode == 0, result.stderr
    assert "synthdp: warning: epsilon (8.0) is above 5" in result.stderr


def test_columns_beyond_the_schema_are_ignored_with_a_note(folder: Path) -> None:
    table(f"age,city,x,secret\n31,a,0.5,{CANARY}\n")(folder)
    result = release(folder)
    assert result.returncode == 0, result.stderr
    assert "'secret' is not in the schema and was ignored" in result.stdout
    assert CANARY not in result.stdout + (folder / "out.csv").read_text()


@pytest.mark.parametrize("text", ["age,city,x\n31,a,0.5\n", "age,city,x\n" + ",,\n" * 50])
def test_one_row_and_only_missing_values_are_released_like_any_table(folder: Path, text: str) -> None:
    """Refusing them would tell them from their neighbours."""
    table(text)(folder)
    result = release(folder)
    assert result.returncode == 0, result.stderr
    made = pd.read_csv(folder / "out.csv")
    assert made["age"].between(0, 99).all()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: (folder / "t.release" / "arrays.npz").write_bytes(b"PK"),
        lambda folder: (folder / "t.release" / "release.json").write_text("{"),
        lambda folder: (folder / "t.release" / "release.json").write_text('{"synthdp_release": 99}'),
        lambda folder: (folder / "t.release" / "release.json").unlink(),
    ],
)
def test_a_damaged_release_is_refused_in_one_sentence(folder: Path, spoil) -> None:
    assert release(folder, "--save", "t.release").returncode == 0
    spoil(folder)
    result = synthdp("sample", "t.release", "--out", "m.csv", cwd=folder)
    assert result.returncode == 2
    assert "t.release" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not (folder / "m.csv").exists()


@pytest.mark.style
def test_the_command_line_is_also_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "synthdp", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("synthdp")


def every_help(command: click.Command, *names: str) -> Iterator[str]:
    yield CliRunner().invoke(main, [*names, "--help"]).stdout
    for name, inner in getattr(command, "commands", {}).items():
        yield from every_help(inner, *names, name)


def test_examples_in_help_texts_keep_their_lines() -> None:
    texts = list(every_help(main))
    assert len(texts) > 8
    assert not any("\\b" in text or "\b" in text for text in texts)
    examples = [line for text in texts for line in text.splitlines() if line.startswith("    synthdp ")]
    assert len(examples) >= 8
