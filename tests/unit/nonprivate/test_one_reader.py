"""A draft and a release read one file alike: what is missing to one is missing to the other."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from synthdp import Categorical, CsvFormat, CsvSource, Identifier, Integer, Schema, SyntheticRelease
from synthdp.domain.encoder import Labels, encode
from synthdp.domain.grid import grid_of
from synthdp.errors import FormatError, ParameterError
from synthdp.nonprivate.draft_schema import draft_schema
from synthdp.schema.csv_format import USUAL_MISSING
from synthdp.tables.resolve import source_of

POOLS = {
    "missing": [*USUAL_MISSING, "", " ", "\t", " NA ", "nAn", "n/A", "NONE"],
    "whole": ["0", "1", "2", "17", " 17", "17 ", "+5", "-0", "9" * 17, "９"],
    "real": ["1.5", "-2.", ".5", "1e3", "1e400", "inf", "-inf", "Infinity", "1_000", "0x1F", "1,5", "12%"],
    "dates": ["2020-01-05", "2020-01-05T12:30:00", "2020-01-05 01:00:00+02:00", "20200105", "9999-12-31", "0001-01-01"],
    "truth": ["True", "false", "TRUE", "yes", "no"],
    "words": ["a", "b", "some", "007", "größe", "=1+1", "a\nb", 'say "a"', "\u200b", "\x00", "٣", "x" * 70],
}
CELLS = st.lists(st.sampled_from(sorted(POOLS)), min_size=1, max_size=3, unique=True).flatmap(
    lambda names: st.lists(
        st.one_of(*(st.sampled_from(POOLS[name]) for name in names), st.text(max_size=3)), min_size=2, max_size=30
    )
)


def written(path: Path, cells: list[str]) -> CsvSource:
    """A file of two columns, so that no row is a blank line."""
    with path.open("w", encoding="utf-8", errors="surrogatepass", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([("x", "y"), *((cell, "-7") for cell in cells)])
    return CsvSource(path)


def accepted(document: dict) -> Schema:
    columns = [{**column, "reviewed": True} for column in document["columns"]]
    return Schema.from_json(json.dumps({**document, "columns": columns}))


def misfits_and_missing(source: CsvSource, schema: Schema, name: str) -> tuple[bool, bool]:
    """Whether a release finds a cell that does not fit the column, and one that is missing."""
    column = schema[name]
    (block,) = source_of(source, schema).blocks({name: column})
    raw = block[name]
    missing = raw.codes < 0 if isinstance(raw, Labels) else np.isnan(raw.values.astype(float))
    missing = missing if isinstance(raw, Labels) or raw.missing is None else missing | raw.missing
    units = encode(column, raw) if column.is_complete else np.zeros(0, np.int64)
    hidden = grid_of(column).other if column.is_complete else -1
    return bool(((units == hidden) & ~missing[: len(units)]).any()), bool(missing.any())


@given(CELLS)
@settings(max_examples=4 * settings.default.max_examples)
def test_a_table_fits_its_own_draft_and_may_miss_values_where_some_are_missing(tmp_path_factory, cells) -> None:
    source = written(
        tmp_path_factory.mktemp("one") / "t.csv", [cell.encode(errors="replace").decode() for cell in cells]
    )
    document = draft_schema(source)
    if document.get("left_out"):
        assert document["left_out"][0]["why"].startswith("it holds no value")
        return
    schema = accepted(document)
    column = schema["x"]
    strange, missing = misfits_and_missing(source, schema, "x")
    assert not strange
    assert isinstance(column, Identifier) or column.nullable == missing


@pytest.mark.landing
@pytest.mark.sampled("landing")
@pytest.mark.parametrize(
    "others", [["1", "2", "3"], ["1.5", "2.5", "3"], ["2020-01-05", "2020-01-06"], ["true", "false"]]
)
def test_a_usual_spelling_of_missing_changes_no_type(tmp_path, others) -> None:
    def drafted(cells: list[str]) -> dict:
        return {**draft_schema(written(tmp_path / "t.csv", cells), without=["y"])["columns"][0], "seen": None}

    whole = drafted(others * 3)
    holed = {text: drafted([*others * 3, text]) for text in USUAL_MISSING}
    assert all(column == {**whole, "nullable": True} for column in holed.values())


def test_what_may_be_a_level_stays_one_among_texts(tmp_path) -> None:
    schema = accepted(draft_schema(written(tmp_path / "t.csv", ["none", "some", "all", "NA"] * 10), without=["y"]))
    assert schema["x"] == Categorical(["all", "none", "some"], nullable=True)


def test_spellings_that_are_named_are_the_only_ones(tmp_path) -> None:
    source = written(tmp_path / "t.csv", ["none", "some", "NA"] * 10)
    schema = accepted(draft_schema(source, without=["y"], missing=["none"]))
    assert schema["x"] == Categorical(["NA", "some"], nullable=True)
    assert schema.csv.missing == ("none",)


def test_the_draft_says_the_same_of_missing_texts_whatever_the_table_holds(tmp_path) -> None:
    """So that they tell nothing of a row."""
    documents = [draft_schema(written(tmp_path / "t.csv", cells)) for cells in (["1", "2"], ["NA", "?"], ["a", "-"])]
    assert documents[0]["csv"] == documents[1]["csv"] == documents[2]["csv"]


def test_a_schema_keeps_how_its_file_is_read(tmp_path) -> None:
    schema = Schema({"x": Integer(0, 9)}, csv=CsvFormat(";", "latin-1", ["NA", "?"]))
    again = Schema.from_json(schema.to_json())
    assert again == schema
    assert again.csv.missing == ("NA", "?")
    assert again.replace({"x": Integer(0, 5)}).csv == schema.csv
    assert '"synthdp_schema": 1' in Schema({"x": Integer(0, 9)}).to_json()


@pytest.mark.parametrize(
    "given", [[], {"delimiter": ";;"}, {"missing": "NA"}, {"encoding": "no"}, {"quote": "'"}, {"missing": [1]}]
)
def test_a_schema_whose_csv_is_nonsense_is_refused(given) -> None:
    document = json.loads(Schema({"x": Integer(0, 9)}).to_json()) | {"csv": given, "synthdp_schema": 3}
    with pytest.raises(FormatError, match="'csv'"):
        Schema.from_json(json.dumps(document))


@pytest.mark.parametrize("settings", [{"missing": "NA"}, {"delimiter": ""}, {"encoding": "rot13"}, {"encoding": 7}])
def test_nonsense_is_no_csv_format(settings) -> None:
    with pytest.raises(ParameterError):
        CsvFormat(**settings)


def test_the_id_of_a_person_is_never_a_missing_one(tmp_path) -> None:
    """Somebody is called Null: were the name missing, each of that person's rows would be a unit of its own."""
    (tmp_path / "t.csv").write_text("who,x\n" + "Null,1\n" * 50, encoding="utf-8")
    schema = Schema({"x": Integer(0, 9)}, csv=CsvFormat(missing=USUAL_MISSING))
    source = source_of(CsvSource(tmp_path / "t.csv"), schema)
    (block,) = source.blocks(schema, extra=["who"])
    assert block["who"].levels == ["Null"]
    assert (block["who"].codes == 0).all()


def test_a_release_reads_as_the_schema_says_and_its_receipt_says_so_too(tmp_path) -> None:
    (tmp_path / "t.csv").write_text("x\n" + "?\n" * 3000, encoding="utf-8")
    schema = Schema({"x": Categorical(["a", "b"], nullable=True)}, csv=CsvFormat(missing=["?"]))
    release = SyntheticRelease(schema=schema).fit(CsvSource(tmp_path / "t.csv"))
    assert release.sample(100)["x"].isna().mean() > 0.9
    assert "these stand for a missing value, as was declared: '?'" in " ".join(str(release.receipt_).split())
