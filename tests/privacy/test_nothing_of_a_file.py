"""R36: what was read off a file lies in no saved release and no schema, unless a person took it and the receipt says so.

Files that differ in one row give the same draft of how they are read, and the same saved schema once a person has said what
is known about the columns.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import synthdp as sd
from synthdp.errors import DraftWarning
from synthdp.nonprivate.draft import Draft
from synthdp.page.work import run
from synthdp.tables.sources.file_source import source_at

pytestmark = pytest.mark.filterwarnings("ignore::synthdp.errors.DraftWarning")

LAST = {
    "ASCII": b"3,Ulm,2021-01-01\n",
    "an accent in UTF-8": "3,Köln,2021-01-01\n".encode(),
    "an accent in cp1252": "3,Köln,2021-01-01\n".encode("cp1252"),
    "a byte of no encoding": b"3,K\x81ln,2021-01-01\n",
    "a mark": b"\xef\xbb\xbf3,Ulm,2021-01-01\n",
    "a NUL": b"3,U\x00m,2021-01-01\n",
    "other delimiters": b"3;Ulm;2021-01-01\t|\n",
    "another line end": b"3,Ulm,2021-01-01\r",
    "no line end": b"3,Ulm,2021-01-01",
    "a quote": b'3,"Ulm,2021-01-01\n',
    "a comma in a number": b'"3,5",Ulm,2021-01-01\n',
    "a digit more": b"3.125,Ulm,2021-01-01\n",
    "an hour": b"3,Ulm,2021-01-01 12:34:56.789\n",
    "a zone": b"3,Ulm,2021-01-01T00:00:00Z\n",
    "nothing": b",,\n",
    "a spelling of missing": b"-,none,?\n",
    "a far number": b"1e300,Ulm,9999-12-31\n",
}


def written(folder: Path, last: bytes, *, end: bytes = b"\n") -> Path:
    folder.mkdir(exist_ok=True)
    lines = (b"n,city,day\n" + b"1,Ulm,2021-01-01\n2,Bern,2021-01-02\n" * 60).replace(b"\n", end)
    (folder / "t.csv").write_bytes(lines + (last.replace(b"\n", end) if end != b"\n" else last))
    return folder / "t.csv"


def known(draft: Draft) -> sd.Schema:
    """What a person makes of a draft who knows everything about the columns."""
    for name, column in {
        "n": sd.Integer(0, 9, nullable=True, source="the form"),
        "city": sd.Categorical(["Ulm", "Bern", "Köln"], nullable=True, source="the form"),
        "day": sd.Date("2021-01-01", "2021-12-31", nullable=True, source="the form"),
    }.items():
        draft.review(name, column)
    return draft.finish()


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize("last", LAST.values(), ids=LAST)
def test_no_row_decides_how_a_draft_says_that_a_file_is_read(tmp_path: Path, last: bytes, end: bytes) -> None:
    plain, other = written(tmp_path / "a", b"", end=end), written(tmp_path / "b", last, end=end)
    with pytest.warns(DraftWarning):
        assert sd.draft(plain).schema.csv == sd.draft(other).schema.csv


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("name", ["an accent in cp1252", "an accent in UTF-8", "nothing", "an hour"])
def test_saved_releases_of_neighbours_hold_the_same_schema_format_and_assumptions(tmp_path: Path, name: str) -> None:
    found = []
    for folder, last in (("a", b""), ("b", LAST[name])):
        path = written(tmp_path / folder, last)
        schema = known(sd.draft(path))
        release = sd.SyntheticRelease(schema=schema, epsilon=1.0).fit(source_at(path, csv=schema.csv))
        release.save(tmp_path / folder / "release")
        saved = json.loads((tmp_path / folder / "release" / "release.json").read_text(encoding="utf-8"))
        found.append((saved["schema"], saved["format"], saved["receipt"]["assumptions"]))
    assert found[0] == found[1]
    assert "drafted" not in json.dumps(found[0])


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("last", LAST.values(), ids=LAST)
def test_no_row_decides_how_the_page_reads_a_file(tmp_path: Path, last: bytes) -> None:
    found = [
        run({"job": "read", "path": str(written(tmp_path / folder, row))}, lambda _: None)["result"]
        for folder, row in (("a", b""), ("b", last))
    ]
    assert found[0]["csv"] == found[1]["csv"]
    assert [one["name"] for one in found[0]["columns"]] == [one["name"] for one in found[1]["columns"]]


def test_bytes_of_an_older_encoding_are_read_field_by_field(tmp_path: Path) -> None:
    path = written(tmp_path, "3,Köln,\n4,K\u2026,\n".encode() + "3,Köln,\n4,K\u2026,\n".encode("cp1252"))
    column = sd.Categorical(["Köln", "K\u2026", "Ulm", "Bern"])
    (block,) = sd.CsvSource(path).blocks({"city": column}, extra=("city", "n"))
    read = [block["city"].levels[code] for code in block["city"].codes]
    assert read[-4:] == ["Köln", "K\u2026"] * 2
    (named,) = sd.CsvSource(path).blocks({}, extra=("city",))
    assert len(set(named["city"].codes[-4:].tolist())) == 4  # as the names of persons, different bytes are different
    (strict,) = sd.CsvSource(path, encoding="utf-8").blocks({"city": column})
    assert [strict["city"].levels[code] in column.levels for code in strict["city"].codes[-4:]] == [
        True,
        True,
        False,
        False,
    ]
