"""`synthdp schema review` and the way from any table to a release, as a user meets them in a terminal."""

import contextlib
import json
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

import synthdp as sd
from synthdp.cli.main import main
from synthdp.nonprivate.draft import Draft


def run(*arguments: object, cwd: Path, answers: str = ""):
    with contextlib.chdir(cwd):
        return CliRunner(catch_exceptions=False).invoke(main, [*map(str, arguments)], input=answers)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    frame = pd.DataFrame(
        {
            "age": [20 + i % 60 for i in range(400)],
            "city": [["Oslo", "Bergen", "NA"][i % 3] for i in range(400)],
            "grade": [i % 4 + 1 for i in range(400)],
            "note": [f"a long story about person {i} and the rest" for i in range(400)],
            "since": [f"2021-03-{i % 28 + 1:02}" for i in range(400)],
        }
    )
    frame.to_csv(tmp_path / "t.csv")  # with the index, which has no name
    return tmp_path


def draft(folder: Path) -> Draft:
    return Draft.read(folder / "s.json")


def test_three_commands_and_a_review_take_any_table_to_a_release(folder: Path) -> None:
    drafted = run("schema", "draft", "t.csv", "--out", "s.json", cwd=folder)
    assert drafted.exit_code == 0, drafted.stderr
    assert "left out: note" in drafted.stderr
    assert "left out: column 1" in drafted.stderr
    planned = run("plan", "s.json", "--rows", 400, cwd=folder)
    assert planned.exit_code == 0, planned.stderr
    assert "as drafted" in planned.stdout
    refused = run("release", "t.csv", "--schema", "s.json", "--out", "o.csv", cwd=folder)
    assert refused.exit_code == 2
    assert "schema review" in refused.stderr
    assert run("schema", "review", "s.json", "--accept-all", "--by", "me", cwd=folder).exit_code == 0
    made = run("release", "t.csv", "--schema", "s.json", "--out", "o.csv", cwd=folder)
    assert made.exit_code == 0, made.stderr
    assert "accepted by me" in made.stdout
    assert list(pd.read_csv(folder / "o.csv")) == ["age", "city", "grade", "since"]
    assert "assumed" not in run("plan", "s.json", "--rows", 400, cwd=folder).stdout


def test_a_review_goes_column_by_column(folder: Path) -> None:
    run("schema", "draft", "t.csv", "--out", "s.json", cwd=folder)
    answers = "c\n0\n120\ncommon knowledge\n" + "c\nOslo|Bergen|Tromsø\n\n" + "d\n" + "nonsense\na\n"
    done = run("schema", "review", "s.json", cwd=folder, answers=answers)
    assert done.exit_code == 0, done.stderr
    assert "1 of 4  age: integer" in done.stdout
    assert "400 rows" in done.stdout
    assert "all columns are reviewed" in done.stdout
    schema = sd.Schema.read(folder / "s.json")
    assert dict(schema) == {
        "age": sd.Integer(0, 120),
        "city": sd.Categorical(["Oslo", "Bergen", "Tromsø"], nullable=True),
        "since": sd.Datetime("2021-03-01", "2021-03-28", resolution="D"),
    }
    assert [column.source for column in schema.values()] == [
        "common knowledge; drafted from the table: type, nullable", *["drafted from the table"] * 2,
    ]  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("answers", "reviewed"), [("", 0), ("a\n", 1), ("a\na\nq\n", 2), ("a\nc\n5\n", 1), ("s\na\nq\n", 1)]
)
def test_an_interrupted_review_keeps_what_was_answered_and_goes_on(folder: Path, answers: str, reviewed: int) -> None:
    """The end of the input is as good as a quit; a half-made change is none."""
    run("schema", "draft", "t.csv", "--out", "s.json", cwd=folder)
    first = run("schema", "review", "s.json", cwd=folder, answers=answers)
    assert first.exit_code == 0
    left = draft(folder).unreviewed
    assert len(left) == 4 - reviewed
    assert f"{len(left)} of 4 columns are not reviewed yet" in first.stdout
    again = run("schema", "review", "s.json", cwd=folder, answers="a\n" * len(left))
    assert f"1 of {len(left)}  {left[0]}" in again.stdout
    assert draft(folder).unreviewed == ()


def test_every_answer_is_on_disk_before_the_next_question(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("schema", "draft", "t.csv", "--out", "s.json", cwd=folder)
    found: list[int] = []

    def asked(question: str) -> str:
        found.append(len(draft(folder).unreviewed))
        return "a"

    monkeypatch.setattr("synthdp.cli.review._asked", asked)
    run("schema", "review", "s.json", cwd=folder)
    assert found == [4, 3, 2, 1]
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_a_change_that_contradicts_itself_is_asked_again(folder: Path) -> None:
    run("schema", "draft", "t.csv", "--out", "s.json", cwd=folder)
    done = run("schema", "review", "s.json", cwd=folder, answers="c\n90\n20\n\nc\nten\n\n\nc\n0\n99\n\nq\n")
    assert "must be below" in done.stdout
    assert draft(folder)["age"] == sd.Integer(0, 99)


def test_comments_descriptions_and_rules_survive_a_review(folder: Path) -> None:
    run("schema", "draft", "t.csv", "--out", "s.json", cwd=folder)
    document = json.loads((folder / "s.json").read_text(encoding="utf-8"))
    document["columns"][0]["description"] = "in years"
    document["constraints"] = [{"rule": "less_equal", "left": "grade", "right": "age"}]
    (folder / "s.json").write_text(json.dumps(document), encoding="utf-8")
    done = run("schema", "review", "s.json", "--accept-all", cwd=folder)
    assert done.exit_code == 0, done.stderr
    again = json.loads((folder / "s.json").read_text(encoding="utf-8"))
    assert again["columns"][0]["description"] == "in years"
    assert again["constraints"] == document["constraints"]
    assert again["csv"] == document["csv"]
    assert "seen" not in again["columns"][0]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"synthdp_schema": 3}'])
def test_what_is_no_draft_is_refused_in_one_sentence(folder: Path, text: str) -> None:
    (folder / "s.json").write_text(text)
    result = run("schema", "review", "s.json", cwd=folder)
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert (folder / "s.json").read_text() == text


@pytest.mark.parametrize("command", ["no.csv", "empty.csv", "no.parquet", "no.xlsx", "broken.csv.gz"])
def test_a_draft_of_nothing_warns_of_nothing(folder: Path, command: str) -> None:
    """The warning is about rows that were read."""
    (folder / "empty.csv").write_text("a,b\n")
    (folder / "broken.csv.gz").write_text("a,b\n")
    result = run("schema", "draft", command, cwd=folder)
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert "WARNING" not in result.stderr


def test_all_that_was_drafted_is_shown_and_can_be_changed(folder: Path) -> None:
    table = pd.DataFrame(
        {
            "paid": [f"{i * i * 7 % 50_021 / 100:.2f} €".replace(".", ",") for i in range(400)],
            "found": ["<0.6"] * 60 + [f"{1 + i / 10:.1f}" for i in range(340)],
            "day": [f"{1 + i % 28:02}.{1 + i % 12:02}.2021" for i in range(400)],
        }
    )
    table.to_csv(folder / "t.csv", index=False, sep=";")
    run("schema", "draft", "t.csv", "--out", "s.json", cwd=folder)
    answers = (
        "?\no\ndecimals=none\n\no\nwords=<0.6: 0.1 | none seen: -1\nspecial=none\nnullable=yes\n\no\nstep=3\n\na\n"
    )
    done = run("schema", "review", "s.json", cwd=folder, answers=answers)
    assert done.exit_code == 0, done.stderr
    assert "settings: decimals 2, format 1234,56 €" in done.stdout
    assert "settings: special 0.3, decimals 1, words <0.6: 0.3" in done.stdout
    assert "resolution D, format %d.%m.%Y" in done.stdout
    assert "leave the column out of the release" in done.stdout
    assert done.stdout.count("no noise protects them") == 2  # once by itself, once asked for
    assert "has no setting 'step'" in done.stdout
    schema = sd.Schema.read(folder / "s.json")
    assert (schema["paid"].decimals, schema["paid"].format) == (None, "1234,56 €")
    assert (schema["found"].special, schema["found"].nullable) == ((0.1, -1), True)


def test_a_review_offers_what_everybody_knows_of_a_column_by_its_name(folder: Path) -> None:
    pd.DataFrame({"birth_month": [2, 3, 11] * 40, "state": ["TX", "NH", "TX"] * 40, "x": range(120)}).to_csv(
        folder / "t.csv", index=False
    )
    run("schema", "draft", "t.csv", "--out", "s.json", cwd=folder)
    done = run("schema", "review", "s.json", cwd=folder, answers="k\n\n" + "k\n\n" + "k\n\nk\nage\n")
    assert done.exit_code == 0, done.stderr
    assert "month" in done.stdout
    schema = sd.Schema.read(folder / "s.json")
    assert dict(schema) == {
        "birth_month": sd.Schema.known("month"),
        "state": sd.Schema.known("us_state"),
        "x": sd.Schema.known("age"),
    }
    assert [column.source for column in schema.values()] == [
        sd.Schema.known(name).source for name in ("month", "us_state", "age")
    ]


def test_known_columns_are_listed_and_printed_as_a_schema_file_has_them(folder: Path) -> None:
    listed = run("schema", "known", cwd=folder)
    assert [line.split()[0] for line in listed.stdout.splitlines()] == list(sd.Schema.known())
    printed = json.loads(run("schema", "known", "month", "country", cwd=folder).stdout)
    document = json.dumps({"synthdp_schema": 3, "columns": printed})
    assert dict(sd.Schema.from_json(document)) == {name: sd.Schema.known(name) for name in ("month", "country")}
    assert run("schema", "known", "mont", cwd=folder).exit_code == 2
