"""How files are read on the command line: delimiter, encoding, spellings of missing, Excel; and conditions to draw by."""

import contextlib
import itertools
import json
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

import synthdp as sd
from synthdp.cli.main import main
from synthdp.schema.columns import COLUMN_TYPES, Untyped, Weight

NAMES = ["größe", "stadt", "seit"]
ROWS = [(150 + i % 50, ["Köln", "Ulm", "Bern"][i % 3], f"2021-03-{i % 28 + 1:02}") for i in range(400)]


def run(*arguments: object, cwd: Path):
    with contextlib.chdir(cwd):
        return CliRunner(catch_exceptions=False).invoke(main, [*map(str, arguments)])


def write(path: Path, delimiter: str, encoding: str, missing: str) -> None:
    """A table of which every tenth size is missing."""
    cells = [[missing if i % 10 == 0 else str(size), city, since] for i, (size, city, since) in enumerate(ROWS)]
    text = "\n".join(delimiter.join(line) for line in [NAMES, *cells]) + "\n"
    path.write_bytes(text.encode(encoding))


def accept(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"reviewed": false', '"reviewed": true'), encoding="utf-8")


WRITTEN = list(itertools.product([",", ";", "\t", "|"], ["utf-8", "utf-8-sig", "cp1252", "utf-16"], ["", "NA", "?"]))


@pytest.mark.sampled("landing")
@pytest.mark.parametrize(("delimiter", "encoding", "missing"), WRITTEN)
def test_a_file_is_read_right_however_it_is_written(
    tmp_path: Path, delimiter: str, encoding: str, missing: str
) -> None:
    write(tmp_path / "t.csv", delimiter, encoding, missing)
    assert run("schema", "draft", "t.csv", "--out", "s.json", cwd=tmp_path).exit_code == 0
    accept(tmp_path / "s.json")
    schema = sd.Schema.read(tmp_path / "s.json")
    assert [type(column) for column in schema.values()] == [sd.Integer, sd.Categorical, sd.Datetime]
    assert [column.nullable for column in schema.values()] == [True, False, False]
    assert schema["stadt"].levels == ("Bern", "Köln", "Ulm")


@pytest.mark.parametrize(("delimiter", "encoding"), [(";", "cp1252"), ("\t", "utf-16")])
def test_draft_release_and_evaluation_go_one_way(tmp_path: Path, delimiter: str, encoding: str) -> None:
    write(tmp_path / "t.csv", delimiter, encoding, "NA")
    draft = run("schema", "draft", "t.csv", "--out", "s.json", cwd=tmp_path)
    assert repr(delimiter) in draft.stderr
    accept(tmp_path / "s.json")
    made = run("release", "t.csv", "--schema", "s.json", "--epsilon", 3, "--out", "o.csv", cwd=tmp_path)
    assert made.exit_code == 0, made.stderr
    out = pd.read_csv(tmp_path / "o.csv")
    assert list(out) == NAMES
    assert 0.05 < out["größe"].isna().mean() < 0.15
    told = run("nonprivate-evaluate", "t.csv", "o.csv", "--schema", "s.json", "--json", cwd=tmp_path)
    assert told.exit_code == 0, told.stderr
    assert json.loads(told.stdout)["scores"]["one_way"] < 0.2


def test_what_the_first_line_suggests_is_said_and_options_overrule_it(tmp_path: Path) -> None:
    write(tmp_path / "t.csv", ";", "utf-8", "-9")
    sd.Schema({"größe": sd.Integer(0, 300, nullable=True)}).write(tmp_path / "s.json")
    command = ("release", "t.csv", "--schema", "s.json", "--out", "o.csv")
    made = run(*command, "--missing", "-9", cwd=tmp_path)
    assert made.exit_code == 0, made.stderr
    assert "delimiter ';'" in made.stderr
    assert 0.02 < pd.read_csv(tmp_path / "o.csv")["größe"].isna().mean() < 0.2
    quiet = run(*command, "--delimiter", ";", cwd=tmp_path)
    assert "delimiter" not in quiet.stderr
    wrong = run(*command, "--delimiter", "tab", cwd=tmp_path)
    assert wrong.exit_code == 2
    assert "'größe'" in wrong.stderr


@pytest.mark.parametrize("poison", [b"\xff\xfe", b";;;;;;;;", b"\t\t\t", b'"', b"NA", b"\x00"])
def test_no_row_decides_how_a_release_reads(tmp_path: Path, poison: bytes) -> None:
    """What a command says on standard error is a function of the header and the options alone."""
    sd.Schema({"x": sd.Integer(0, 9, nullable=True, source="the form")}).write(tmp_path / "s.json")
    said = []
    for rows in (b"1,2\n" * 50, b"1,2\n" * 49 + poison + b",2\n"):
        (tmp_path / "t.csv").write_bytes(b"x,y\n" + rows)
        said.append(run("release", "t.csv", "--schema", "s.json", "--out", "o.csv", cwd=tmp_path).stderr)
    assert said[0] == said[1] == ""


BAD = {
    "two characters": (["--delimiter", ";;"], "delimiter must be one character"),
    "a quote": (["--delimiter", '"'], "delimiter must be one character"),
    "no encoding": (["--encoding", "klingon"], "encoding ('klingon')"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("command", ["draft", "release", "evaluate"])
def test_a_wrong_option_is_refused_before_anything_is_read(tmp_path: Path, case: str, command: str) -> None:
    options, words = BAD[case]
    commands = {
        "draft": ["schema", "draft", "no.csv"],
        "release": ["release", "no.csv", "--schema", "no.json", "--out", "o.csv"],
        "evaluate": ["nonprivate-evaluate", "no.csv", "no.csv", "--schema", "no.json"],
    }
    result = run(*commands[command], *options, cwd=tmp_path)
    assert result.exit_code == 2
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_file_that_says_how_it_is_read_takes_no_options(tmp_path: Path) -> None:
    pd.DataFrame({"x": [1, 2, 3]}).to_parquet(tmp_path / "t.parquet")
    pd.DataFrame({"x": [1, 2, 3]}).to_excel(tmp_path / "t.xlsx", index=False)
    for name, option in [("t.parquet", ["--missing", "NA"]), ("t.xlsx", ["--delimiter", ";"])]:
        result = run("schema", "draft", name, *option, cwd=tmp_path)
        assert result.exit_code == 2
        assert f"'{name}'" in result.stderr


def test_an_excel_file_is_read_like_a_csv(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {
            "age": [None if i % 9 == 0 else 20 + i % 60 for i in range(300)],
            "weight": [50.5 + i % 40 for i in range(300)],
            "city": [["Köln", "NA", "Bern"][i % 3] for i in range(300)],
            "member": [i % 2 == 0 for i in range(300)],
            "since": [pd.Timestamp("2021-03-01") + pd.Timedelta(days=i % 300) for i in range(300)],
        }
    )
    table.to_excel(tmp_path / "t.xlsx", index=False)
    table.to_csv(tmp_path / "t.csv", index=False)
    for name in ("t.xlsx", "t.csv"):
        assert run("schema", "draft", name, "--out", f"{name}.json", cwd=tmp_path).exit_code == 0
        accept(tmp_path / f"{name}.json")
    assert dict(sd.Schema.read(tmp_path / "t.xlsx.json")) == dict(sd.Schema.read(tmp_path / "t.csv.json"))
    made = run("release", "t.xlsx", "--schema", "t.xlsx.json", "--out", "o.csv", "--epsilon", 3, cwd=tmp_path)
    assert made.exit_code == 0, made.stderr
    out = pd.read_csv(tmp_path / "o.csv", parse_dates=["since"])
    assert list(out) == list(table)
    assert 0.2 < out["city"].isna().mean() < 0.5


def test_a_sheet_is_drafted_by_its_name(tmp_path: Path) -> None:
    with pd.ExcelWriter(tmp_path / "t.xlsx") as book:
        pd.DataFrame({"x": range(100)}).to_excel(book, sheet_name="2023", index=False)
        pd.DataFrame({"y": range(100)}).to_excel(book, sheet_name="2024", index=False)
    assert run("schema", "draft", "t.xlsx", "--sheet", "2024", "--out", "s.json", cwd=tmp_path).exit_code == 0
    assert [column["name"] for column in json.loads((tmp_path / "s.json").read_text())["columns"]] == ["y"]
    refused = run("schema", "draft", "t.xlsx", "--sheet", "2025", cwd=tmp_path)
    assert (refused.exit_code, len(refused.stderr.splitlines())) == (2, 1)
    assert "'2023', '2024'" in refused.stderr


def test_without_openpyxl_an_excel_file_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pd.DataFrame({"x": [1, 2, 3]}).to_excel(tmp_path / "t.xlsx", index=False)
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    result = run("schema", "draft", "t.xlsx", cwd=tmp_path)
    assert result.exit_code == 2
    assert result.stderr == "synthdp: an Excel file needs openpyxl: pip install 'synthdp[excel]'\n"


def test_what_is_no_excel_file_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "t.xlsx").write_text("canary")
    result = run("schema", "draft", "t.xlsx", cwd=tmp_path)
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert "canary" not in result.stderr


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("released")
    table = pd.DataFrame(
        {"age": [20 + i % 60 for i in range(900)], "in come": [["<=50K", ">50K"][i % 2] for i in range(900)]}
    )
    schema = sd.Schema({"age": sd.Integer(0, 99), "in come": sd.Categorical(["<=50K", ">50K"])})
    sd.SyntheticRelease(schema=schema, epsilon=3.0).fit(table).save(folder / "t.release")
    return folder


GIVEN = {
    "above": (["age > 30"], "age > 30"),
    "between": (["30 < age <= 40"], "30 < age <= 40"),
    "two of them": (["age > 30", "age < 50"], "30 < age < 50"),
    "or, in one column": (["age < 30 or age >= 70"], "age < 30 or age >= 70"),
    "not": (["not age > 30"], "age <= 30"),
    "in a list": (["age in (21, 22, 23)"], "21 <= age <= 23"),
    "two columns": (["age > 30 and `in come` == '>50K'"], "age > 30 and `in come` == '>50K'"),
    "a bare value": (["in come=>50K"], "`in come` == '>50K'"),
    "a bare number": (["age=33"], "age == 33"),
    "a bare value with blanks around": (["in come = >50K"], "`in come` == '>50K'"),
}


@pytest.mark.parametrize("case", GIVEN)
def test_rows_are_drawn_that_meet_a_condition(released: Path, case: str) -> None:
    conditions, query = GIVEN[case]
    options = [part for condition in conditions for part in ("--given", condition)]
    result = run("sample", "t.release", "--rows", 300, *options, "--out", "m.csv", cwd=released)
    assert result.exit_code == 0, result.stderr
    rows = pd.read_csv(released / "m.csv")
    assert len(rows) == len(rows.query(query)) == 300


TYPED = {
    "time": (sd.Time(), ["08:00:00", "21:30:15"]),
    "clock": (sd.Time(format="%I:%M %p", resolution="min"), ["08:00 AM", "09:30 PM"]),
    "moment": (sd.Datetime("2020-01-01", "2020-01-03"), ["2020-01-01 08:00:00", "2020-01-02 21:30:15"]),
    "written moment": (
        sd.Datetime("2020-01-01", "2020-01-03", format="%d/%m/%Y %H:%M"), ["01/01/2020 08:00", "02/01/2020 21:30"]
    ),
    "day": (sd.Date("2020-01-01", "2020-02-01"), ["2020-01-05", "2020-01-17"]),
    "written day": (sd.Date("2020-01-01", "2020-02-01", format="%d.%m.%Y"), ["05.01.2020", "17.01.2020"]),
    "length": (sd.Duration(0, 7200), ["0 days 00:10:00", "0 days 01:30:15"]),
    "written length": (sd.Duration(0, 120, resolution="min", format="%H:%M"), ["00:10", "01:30"]),
    "truth": (sd.Boolean(), ["True", "False"]),
    "category": (sd.Categorical(["it's", "a = b"]), ["it's", "a = b"]),
    "code": (sd.Categorical([1, 2]), ["1", "2"]),
    "grade": (sd.Ordinal([1.5, 2.5]), ["1.5", "2.5"]),
    "rest": (sd.Categorical(["a", "b"], other="other"), ["a", "other"]),
    "whole": (sd.Integer(0, 5), ["1", "4"]),
    "written whole": (sd.Integer(0, 5000, step=500, format="1,234"), ["1,500", "4,000"]),
    "number": (sd.Continuous(0, 5, decimals=1), ["1.5", "4.0"]),
    "written number": (sd.Continuous(0, 5000, step=0.5, format="1.234,50 €", words={"none": -1}), ["1.234,50 €", "none"]),
    "exact": (sd.Decimal(0, 5, decimals=1), ["1.5", "4.0"]),
}  # fmt: skip
"""A column of each type that a file of texts can hold, and cells as they are read and written."""


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("typed")
    table = pd.DataFrame({name: cells * 60 for name, (_, cells) in TYPED.items()})
    table.to_csv(folder / "t.csv", index=False)
    schema = sd.Schema({name: column for name, (column, _) in TYPED.items()})
    sd.SyntheticRelease(schema=schema, epsilon=5.0, random_state=0).fit(sd.CsvSource(folder / "t.csv")).save(
        folder / "t.release"
    )
    return folder


def test_each_type_that_carries_information_has_a_value_to_be_given() -> None:
    own = {kind for kind in COLUMN_TYPES.values() if kind.__module__.startswith("synthdp.")}
    assert {type(column) for column, _ in TYPED.values()} == own - {sd.Identifier, Untyped, Weight}


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("name", TYPED)
def test_a_cell_of_any_type_can_be_given_as_it_stands_in_a_file(typed: Path, name: str) -> None:
    for cell in TYPED[name][1]:
        result = run("sample", "t.release", "--rows", 20, "--given", f"{name}={cell}", "--out", "m.csv", cwd=typed)
        assert result.exit_code == 0, result.stderr
        assert set(pd.read_csv(typed / "m.csv", dtype=str, keep_default_na=False)[name]) == {cell}


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("time=25:00", "'25:00'"),
        ("day=2020-02-30", "'2020-02-30'"),
        ("day=2019-12-31", "no value of column 'day'"),
        ("written number=soon", "character"),
        ("length=soon", "character"),
        ("whole=soon", "'whole' holds numbers, not 'soon'"),
        ("category=Nord", "column 'category' has no level 'Nord'; it has: "),
        ("grade=North West", "column 'grade' has no level 'North West'; it has: 1.5, 2.5"),
        ("truth=maybe", "column 'truth' has no level 'maybe'; it has: true and false"),
    ],
)
def test_a_cell_that_the_column_cannot_hold_is_refused_in_one_sentence(typed: Path, condition: str, words: str) -> None:
    result = run("sample", "t.release", "--given", condition, "--out", "bad.csv", cwd=typed)
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert words in result.stderr


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("age > 30 or `in come` == '>50K'", "columns ('age', 'in come')"),
        ("age > 30 and age < 20", "no value of column 'age'"),
        ("age >", "character 6"),
        ("height > 3", "'height'"),
        ("`in come` > 'a'", "no order"),
    ],
)
def test_a_condition_that_cannot_be_met_is_one_sentence(released: Path, condition: str, words: str) -> None:
    result = run("sample", "t.release", "--given", condition, "--out", "bad.csv", cwd=released)
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert words in result.stderr
    assert not (released / "bad.csv").exists()


def test_a_data_set_without_a_ledger_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    result = run("release", "no.csv", "--schema", "no.json", "--out", "o.csv", "--dataset", "people", cwd=tmp_path)
    assert result.exit_code == 2
    assert "--ledger" in result.stderr
    assert list(tmp_path.iterdir()) == []
