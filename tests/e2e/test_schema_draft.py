"""`synthdp schema draft`, as a user meets it."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import synthdp as sd
from synthdp import Categorical, Integer, Schema, load
from synthdp.cli.main import main
from synthdp.data import adult, adult_schema
from synthdp.errors import DraftWarning, SchemaError
from synthdp.tables.sources.csv import write_csv

ROWS = "age,city,joined\n" + "".join(f"{20 + i % 50},{'ab'[i % 2]},2021-03-{i % 28 + 1:02}\n" for i in range(100))
BOOK = "name,type,min,max,levels\nage,integer,0,120,\ncity,category,,,a|b\n"


def draft(*arguments: object):
    return CliRunner(catch_exceptions=False).invoke(main, ["schema", "draft", *map(str, arguments)])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(ROWS)
    Path("book.csv").write_text(BOOK)
    Path("j.json").write_text('{"properties": {"age": {"type": "integer", "minimum": 0, "maximum": 120}}}')
    return tmp_path


def test_a_draft_is_loud_refused_unread_and_good_once_reviewed(folder: Path) -> None:
    result = draft("t.csv", "--out", "schema.json")
    assert result.exit_code == 0, result.stderr
    assert "WARNING: this draft was READ OFF THE TABLE" in result.stderr
    with pytest.raises(SchemaError, match="draft"):
        Schema.read("schema.json")
    command = ["release", "t.csv", "--schema", "schema.json", "--out", "o.csv", "--ledger", "l.sqlite"]
    refused = CliRunner().invoke(main, command)
    assert refused.exit_code == 2
    assert "is a draft taken from the table" in refused.stderr
    assert {path.name for path in folder.iterdir()} == {"t.csv", "book.csv", "j.json", "schema.json"}
    text = Path("schema.json").read_text(encoding="utf-8").replace('"reviewed": false', '"reviewed": true')
    Path("schema.json").write_text(text, encoding="utf-8")
    released = CliRunner().invoke(main, command)
    assert released.exit_code == 0, released.stderr
    assert list(pd.read_csv("o.csv")) == ["age", "city", "joined"]


def test_a_draft_goes_to_standard_output_and_leaves_columns_out(folder: Path) -> None:
    result = draft("t.csv", "--without", "joined", "--without", "age")
    assert [column["name"] for column in json.loads(result.stdout)["columns"]] == ["city"]


def test_public_documents_are_reviewed_and_no_row_is_read(folder: Path) -> None:
    result = draft("--from-data-dictionary", "book.csv", "--out", "schema.json")
    assert "WARNING" not in result.stderr
    assert dict(Schema.read("schema.json")) == {"age": Integer(0, 120), "city": Categorical(["a", "b"])}
    result = draft("--from-json-schema", "j.json", "--out", "other.json")
    assert result.exit_code == 0
    assert dict(Schema.read("other.json")) == {"age": Integer(0, 120, nullable=True)}
    again = draft("--from-data-dictionary", "book.csv", "--without", "age")
    assert [column["name"] for column in json.loads(again.stdout)["columns"]] == ["city"]


@pytest.mark.landing
def test_the_draft_of_adult_is_close_to_the_schema_by_hand(folder: Path) -> None:
    write_csv(adult(), "adult.csv")
    columns = json.loads(draft("adult.csv").stdout)["columns"]
    by_hand = adult_schema()
    assert [column["name"] for column in columns] == list(by_hand)
    assert [column["type"] for column in columns] == [type(column).__name__.lower() for column in by_hand.values()]
    assert [column.get("nullable", False) for column in columns] == [column.nullable for column in by_hand.values()]
    gains = next(column for column in columns if column["name"] == "capital-gain")
    assert {0, 99999} <= set(gains["special"])


BAD = {
    "nothing": ([], "give exactly one of"),
    "two things": (["t.csv", "--from-json-schema", "j.json"], "give exactly one of"),
    "no such table": (["no.csv"], "no.csv"),
    "no such document": (["--from-json-schema", "no.json"], "no.json' cannot be read"),
    "a document in another encoding": (["--from-data-dictionary", "latin.csv"], "not UTF-8"),
    "a dictionary with broken quotes": (["--from-data-dictionary", "quotes.csv"], "a quote is not closed"),
    "a file that exists": (["t.csv", "--out", "book.csv"], "'book.csv' exists already"),
    "a folder that does not": (["t.csv", "--out", "no/s.json"], "cannot be written"),
    "a strange column": (["t.csv", "--without", "nobody"], "no column 'nobody'"),
    "a strange column of a document": (["--from-json-schema", "j.json", "--without", "x"], "names column 'x'"),
    "free text": (["notes.csv"], "'note': it holds free text"),
    "an empty table": (["empty.csv"], "no rows"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_sentence_and_writes_nothing(folder: Path, case: str) -> None:
    Path("latin.csv").write_bytes(b"name,type\n\xe9,bool\n")
    Path("quotes.csv").write_text('name,type\n"a"b,bool\n')
    Path("notes.csv").write_text("note\n" + "".join(f"the canary sang song {i} today\n" for i in range(30)))
    Path("empty.csv").write_text("a,b\n")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    arguments, words = BAD[case]
    result = draft(*arguments)
    assert result.exit_code == 2
    lines = [line for line in result.stderr.splitlines() if "WARNING" not in line]
    assert len(lines) == 1
    assert words in lines[0]
    assert "canary" not in result.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


ACCEPTED = "drafted from the table and accepted"


def test_bounds_that_were_only_accepted_are_called_that_wherever_the_release_is_shown(folder: Path) -> None:
    """From the draft to receipt, card, report, saved release; where a person names a codebook, that is said instead."""
    assert draft("t.csv", "--without", "joined", "--out", "schema.json").exit_code == 0
    document = json.loads(Path("schema.json").read_text(encoding="utf-8"))
    age, city = document["columns"]
    assert {age["source"], city["source"]} == {"drafted from the table"}
    age |= {"reviewed": True}
    city |= {"reviewed": True, "source": "codebook of 2025"}
    Path("schema.json").write_text(json.dumps(document), encoding="utf-8")
    command = ["release", "t.csv", "--schema", "schema.json", "--out", "o.csv", "--save", "o.release"]
    done = CliRunner().invoke(main, [*command, "--report", "o.html", "--receipt", "o.json"])
    assert done.exit_code == 0, done.output
    CliRunner().invoke(main, ["report", "o.release", "--out", "again.html"])
    texts = [
        " ".join(done.stdout.split()),
        json.dumps(json.loads(Path("o.json").read_text(encoding="utf-8"))["card"]),
        *(Path(name).read_text(encoding="utf-8") for name in ("o.html", "again.html")),
    ]
    assert all(f"bounds and levels of age were {ACCEPTED}" in text for text in texts)
    assert all(
        "city were declared and do not come from this table (source: codebook of 2025)" in text for text in texts
    )
    assert not any("age were declared" in text or "all columns were declared" in text for text in texts)
    assert all("source: drafted from the table" in text for text in texts[2:])
    assert [column.source for column in load("o.release").output.schema.values()] == [
        "drafted from the table",
        "codebook of 2025",
    ]


def test_what_stands_out_of_amounts_comes_out_of_a_draft_as_it_went_in():
    """Adult's gains: 99999 and other amounts that many have, nothing in the empty range between, and as many zeros."""
    real = adult()[["capital-gain", "sex", "income"]]
    with pytest.warns(DraftWarning):
        draft = sd.draft(real).accept_all()
    synthetic = sd.SyntheticRelease(schema=draft, epsilon=1.0).fit_transform(real)
    for amount in (0, 15024, 99999):
        share = (real["capital-gain"] == amount).mean()
        assert (synthetic["capital-gain"] == amount).mean() == pytest.approx(share, abs=0.006)
    assert (synthetic["capital-gain"] == 99999).any()
    assert not synthetic["capital-gain"].between(50_000, 99_998).any()


@pytest.mark.parametrize("exact", [1.0, 0.999])
def test_loans_in_hundreds_stay_in_hundreds(exact):
    """As all loans of a bank are, or all but a few."""
    rng = np.random.default_rng(2)
    loans = 100 * rng.integers(11, 900, 6000) + (rng.random(6000) > exact) * rng.integers(1, 100, 6000)
    with pytest.warns(DraftWarning):
        draft = sd.draft(pd.DataFrame({"loan": loans})).accept_all()
    synthetic = sd.SyntheticRelease(schema=draft, epsilon=1.0).fit_transform(pd.DataFrame({"loan": loans}))
    assert (synthetic["loan"] % 100 == 0).all()
