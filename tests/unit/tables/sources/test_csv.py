"""CSV in and out: text until the schema speaks, exact round trips, and no refusal that a row decides (R25, R27)."""

from __future__ import annotations

import csv
import gzip
import io
import logging

import numpy as np
import pandas as pd
import pytest
import strategies as my
from hypothesis import given, strategies as st

from synthdp.curator.contribution import Bounding
from synthdp.domain.encoder import Labels, decode, encode
from synthdp.errors import DataError, FormatError, ParameterError
from synthdp.schema.columns import (
    Boolean,
    Categorical,
    Continuous,
    Datetime,
    Duration,
    Integer,
    Ordinal,
)
from synthdp.tables.format import TableFormat
from synthdp.tables.sources import csv as csv_module
from synthdp.tables.sources.csv import CsvSource, write_csv


def source(tmp_path, text, **options):
    path = tmp_path / "table.csv"
    path.write_text(text, encoding="utf-8", newline="")
    return CsvSource(path, **options)


def values(source, name, column):
    """The encoded and decoded values of a column, in all blocks."""
    found = []
    for block in source.blocks({name: column}):
        raw = decode(column, encode(column, block[name]))
        gone = np.zeros(len(block[name].codes if isinstance(block[name], Labels) else block[name].values), bool)
        cells = (
            [raw.levels[c] if c >= 0 else None for c in raw.codes] if isinstance(raw, Labels) else raw.values.tolist()
        )
        gone = np.zeros(len(cells), bool) if getattr(raw, "missing", None) is None else raw.missing
        found += [None if missing else cell for cell, missing in zip(cells, gone, strict=True)]
    return found


READ = {
    "whole": ("5\n 7 \n12.0\n1e1\n\"\"\nx\n", Integer(0, 20, nullable=True), [5, 7, 12, 10, None, None]),
    "clipped": ("-5\n99999999999999999999\n", Integer(0, 20), [0, 20]),
    "exact": ("9007199254740993\n", Integer(9007199254740990, 9007199254741000), [9007199254740993]),
    "special": ("-1\n999\n3\n", Integer(0, 9, special=(-1, 999)), [-1, 999, 3]),
    "real": ("0.5\n1e-3\ninf\n-inf\nNaN\n", Continuous(0, 1, nullable=True), [0.5, 0.001, 1, 0, None]),
    "boolean": ("True\nfalse\nYES\nn\n1\n0\n?\n", Boolean(nullable=True), [True, False, True, False, True, False, None]),
    "number levels": ("1\n2.0\n03\n", Categorical([1, 2, 3]), [1, 2, 3]),
    "truth levels": ("True\nFALSE\n", Categorical([True, False]), [True, False]),
    "ordinal": ("low\nhigh\n", Ordinal(["low", "high"]), ["low", "high"]),
    "other": ("a\ncanary\n", Categorical(["a"], other="rest"), ["a", "rest"]),
    "declared level wins": ("NA\n?\n", Categorical(["NA"], nullable=True), ["NA", None]),
    "date": ("2020-01-05\n2020-01-05T12:30:00\n2020-01-05 01:00:00+02:00\n2020-01-05Z\n05/01/2020\n",
             Datetime("2020-01-01", "2020-01-09", nullable=True, resolution="h"),
             [hour * 3_600_000_000 for hour in (438384, 438396, 438383)] + [None, None]),
    "length": ("0:00:05\n1 days 00:00:01\n\"-1 day, 23:59:58\"\n0 days 00:00:07.9\nP0DT0H1M2S\n-PT2S\nlong\n",
               Duration(-10, 100_000, nullable=True),
               [5_000_000, 86_401_000_000, -2_000_000, 7_000_000, 62_000_000, -2_000_000, None]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "column", "expected"), READ.values(), ids=READ)
def test_fields_are_read_as_declared(tmp_path, text, column, expected):
    assert values(source(tmp_path, "x\n" + text, missing=["?", "NA"]), "x", column) == expected


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=5), max_size=8), my.measured_columns)
def test_any_text_can_be_read_as_any_column(tmp_path_factory, fields, column):
    path = tmp_path_factory.mktemp("any") / "t.csv"
    write_csv(pd.DataFrame({"x": pd.Series(fields, dtype=object)}), path)
    assert len(values(CsvSource(path), "x", column)) == len(fields)


def test_a_field_changes_how_no_other_is_read(tmp_path):
    """R25: one cell must not change an inferred type."""
    column = Integer(0, 2**60, nullable=True)
    plain = values(source(tmp_path, "x\n1152921504606846975\n7\n"), "x", column)
    for poison in ("1.5", "text", '""', "2020-01-01", "True", "1e400"):
        assert values(source(tmp_path, f"x\n1152921504606846975\n7\n{poison}\n"), "x", column)[:2] == plain


def test_a_file_is_read_in_blocks_of_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_module, "BLOCK_ROWS", 1000)
    monkeypatch.setattr(csv_module, "_BATCH_ROWS", 64)
    rows = [f"{i},{i % 7}" for i in range(2500)]
    table = source(tmp_path, "n,d\n" + "\n".join(rows) + "\n")
    schema = {"n": Integer(0, 9999), "d": Categorical([*map(str, range(7))])}
    blocks = list(table.blocks(schema, extra=["d"]))
    assert [len(block["n"].values) for block in blocks] == [1000, 1000, 500]
    assert np.concatenate([block["n"].values for block in blocks]).tolist() == list(range(2500))
    assert values(table, "d", schema["d"]) == [str(i % 7) for i in range(2500)]


@pytest.mark.parametrize("rows", [0, 1000, 2000])
def test_the_last_block_is_never_empty_but_the_first_may_be(tmp_path, monkeypatch, rows):
    monkeypatch.setattr(csv_module, "BLOCK_ROWS", 1000)
    table = source(tmp_path, "n\n" + "1\n" * rows)
    assert table.is_empty == (rows == 0)
    assert [len(block["n"].values) for block in table.blocks({"n": Integer(0, 5)})] == ([1000] * (rows // 1000) or [0])


def test_a_column_without_a_name_is_passed_over(tmp_path):
    """Such as the index that pandas writes along."""
    table = source(tmp_path, ",n,  ,d\n0,1,x,2\n1,3,y,4\n")
    assert table.names == ("n", "d")
    assert table.unnamed == (1, 3)
    assert values(table, "n", Integer(0, 5)) == [1, 3]
    assert values(table, "d", Integer(0, 5)) == [2, 4]


def test_a_file_may_be_read_again(tmp_path):
    table = source(tmp_path, "n\n1\n2\n")
    assert values(table, "n", Integer(0, 5)) == values(table, "n", Integer(0, 5)) == [1, 2]


@pytest.mark.parametrize(
    "text", ["n\n1\n\n2\n", "n\r\n1\r\n2\r\n", "n\n1\n2", "\ufeffn\n1\n2\n", "n\r1\r2\r", 'n\n"1"\n2\n']
)
def test_line_ends_blank_lines_and_marks_do_not_matter(tmp_path, text):
    table = source(tmp_path, text)
    assert table.names == ("n",)
    assert values(table, "n", Integer(0, 5)) == [1, 2]


def test_quotes_delimiters_and_line_ends_within_fields(tmp_path):
    column = Categorical(['say "a"', "b;c", "d\ne"])
    table = source(tmp_path, 'x;y\n"say ""a""";1\n"b;c";2\n"d\ne";3\n', delimiter=";")
    assert values(table, "x", column) == list(column.levels)


def test_other_encodings_and_compressed_files(tmp_path):
    (tmp_path / "l.csv").write_bytes("größe\n1\n".encode("latin-1"))
    assert CsvSource(tmp_path / "l.csv", encoding="latin-1").names == ("größe",)
    write_csv(pd.DataFrame({"n": [1, 2]}), tmp_path / "t.csv.gz")
    assert gzip.decompress((tmp_path / "t.csv.gz").read_bytes()) == b"n\n1\n2\n"
    assert values(CsvSource(tmp_path / "t.csv.gz"), "n", Integer(0, 5)) == [1, 2]


BROKEN = {
    "empty": (b"", DataError, "CSV file '{}' is empty: write the column names in the first line, and the rows below"),
    "unnamed": (b",,\n1,2,3\n", DataError,
                "the header of CSV file '{}' names no column: write the column names in the first line"),
    "same name": (b"a,b,a\n1,2,3\n", DataError,
                  "columns 1 and 3 of CSV file '{}' have the same name: rename one of the two"),
    "latin": ("canáry\na\n".encode("latin-1"), FormatError,
              "the header of CSV file '{}' is not UTF-8 text: name its encoding, for example encoding='latin-1'"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "kind", "message"), BROKEN.values(), ids=BROKEN)
def test_a_file_without_a_header_is_refused_when_the_source_is_made(tmp_path, caplog, content, kind, message):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with caplog.at_level(logging.DEBUG), pytest.raises(kind) as refused:
        CsvSource(path)
    assert str(refused.value) == message.format(path)
    assert "canary" not in caplog.text
    assert refused.value.__context__ is None


# R27: what a row holds decides no refusal, and changes how no other row is read.

ODD_ROWS = {
    "long": (b"1,b,3,4\n", (1, "b")),
    "short": (b"1\n", (1, None)),
    "no text of the encoding": (b"1,\xff\xfe\n", (1, "else")),
    "half a character": (b"1,\xe2\x82\n", (1, "else")),
    "a NUL": (b"1,\x00\n", (1, "else")),
    "a quote that is not closed": (b'1,"b\n', (1, "b")),
    "text after a quote": (b'1,"b"c\n', (1, "else")),
    "a quote within a text": (b'1,b"c\n', (1, "else")),
    "nothing but a quote": (b'"\n', (None, None)),
    "quotes everywhere": (b'""",""""x,"\n', (None, None)),
}
GOOD_ROWS = st.lists(
    st.tuples(st.integers(0, 9), st.text(st.characters(codec="utf-8"), min_size=1, max_size=4)).filter(
        lambda row: row[1][0] not in ",\r\n"  # a quote before it closes one that was never closed
    ),
    max_size=6,
)
TWO = {"n": Integer(0, 9, nullable=True), "c": Categorical(["b"], nullable=True, other="else")}


def written(rows):
    """The bytes of rows, each as a careful writer writes it."""
    lines = []
    for row in rows:
        text = io.StringIO()
        csv.writer(text, lineterminator="\r\n").writerow(row)  # which quotes both line ends
        lines.append(text.getvalue().encode())
    return lines


def read_rows(path, lines):
    path.write_bytes(b"n,c\n" + b"".join(lines))
    table = CsvSource(path)
    return list(zip(values(table, "n", TWO["n"]), values(table, "c", TWO["c"]), strict=True))


@pytest.mark.parametrize(("line", "row"), ODD_ROWS.values(), ids=ODD_ROWS)
@given(rows=GOOD_ROWS, place=st.integers(0, 6))
def test_an_odd_row_is_one_row_and_changes_no_other(tmp_path_factory, line, row, rows, place):
    path = tmp_path_factory.mktemp("odd") / "t.csv"
    lines = written(rows)
    place = min(place, len(lines))
    good = read_rows(path, lines)
    assert read_rows(path, [*lines[:place], line, *lines[place:]]) == [*good[:place], row, *good[place:]]


@given(
    st.binary(max_size=80) | st.lists(st.sampled_from([b'"', b",", b"\n", b"\r", b"a", b"\xff", b"\x00"])).map(b"".join)
)
def test_any_bytes_after_a_header_are_rows(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("any") / "t.csv"
    path.write_bytes(b"n,c\n" + content)
    (block,) = CsvSource(path).blocks(TWO, extra=("c",))
    assert len(block["n"].values) == len(block["c"].codes)


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-16", "utf-32-le", "shift_jis", "cp1252", "ascii", "gb18030", "euc-jp"]
)
@given(content=st.binary(min_size=1, max_size=20))
def test_no_bytes_are_refused_in_any_encoding(tmp_path_factory, encoding, content):
    path = tmp_path_factory.mktemp("any") / "t.csv"
    path.write_bytes("n,c\n5,b\n".encode(encoding) + content)
    assert values(CsvSource(path, encoding=encoding), "n", TWO["n"])[0] == 5


@given(st.lists(st.binary(min_size=1, max_size=4).filter(lambda raw: not set(raw) & set(b'",\r\n')), unique=True))
def test_fields_of_different_bytes_are_different_persons(tmp_path_factory, fields):
    path = tmp_path_factory.mktemp("who") / "t.csv"
    path.write_bytes(b"who,n\n" + b"".join(field + b",1\n" for field in fields))
    (block,) = CsvSource(path).blocks({}, extra=("who",))
    assert len({tuple(digest) for digest in Bounding(1).digests(block["who"]).tolist()}) == len(fields)


def test_texts_that_name_persons_are_compared_as_they_are_written(tmp_path):
    (block,) = source(tmp_path, "who\n7\n7.0\n07\n 7\n7\n").blocks({}, extra=("who",))
    assert len({tuple(digest) for digest in Bounding(1).digests(block["who"]).tolist()}) == 4


def test_a_quote_that_is_never_closed_takes_bounded_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("synthdp.tables.sources.csv_fields.MOST_LINES", 50)
    assert len(read_rows(tmp_path / "t.csv", [b'1,"b\n', *[b"2,b\n"] * 400])) == 401


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(FormatError, match=r"none\.csv"):
        CsvSource(tmp_path / "none.csv")
    with pytest.raises(FormatError):
        CsvSource(tmp_path)
    (tmp_path / "t.csv.gz").write_bytes(b"no gzip")
    with pytest.raises(FormatError, match=r"t\.csv\.gz'.*gzip"):
        CsvSource(tmp_path / "t.csv.gz")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"n\n" + b"1\n" * 9999)[:-12])
    with pytest.raises(FormatError, match=r"t\.csv\.gz'.*compressed"):
        CsvSource(tmp_path / "t.csv.gz")


@pytest.mark.parametrize(
    ("options", "message"),
    [({"encoding": "klingon"}, "encoding ('klingon') must be the name of a text encoding, such as 'latin-1'"),
     ({"encoding": "base64"}, "encoding ('base64') must be the name of a text encoding, such as 'latin-1'"),
     ({"missing": "NA"}, "missing must be a list of texts, not one text"),
     ({"delimiter": ";;"}, "delimiter must be one character, and neither a quote nor a line end"),
     ({"delimiter": '"'}, "delimiter must be one character, and neither a quote nor a line end")],
)  # fmt: skip
def test_bad_settings_are_refused(tmp_path, options, message):
    with pytest.raises(ParameterError) as refused:
        source(tmp_path, "a\n1\n", **options)
    assert str(refused.value) == message


def test_a_repr_shows_no_value(tmp_path):
    assert "canary" not in repr(source(tmp_path, "a\ncanary\n"))


# Round trips.


@given(
    st.data(), my.schemas(my.measured_columns, most=3).filter(lambda schema: all(map(str.strip, schema))), st.booleans()
)
def test_writing_and_reading_by_the_schema_gives_the_same_units(tmp_path_factory, data, schema, escaped):
    path = tmp_path_factory.mktemp("trip") / "t.csv"
    rows = data.draw(st.integers(0, 5))
    drawn = {name: data.draw(my.indices(column))[:rows] for name, column in schema.items()}
    least = min(map(len, drawn.values()))
    raw = {name: decode(schema[name], units[:least]) for name, units in drawn.items()}
    table = TableFormat.default(schema).build(schema, raw)
    write_csv(table, path, escape_formulas=escaped)
    (block,) = CsvSource(path, escaped_formulas=escaped).blocks(schema)
    for name, column in schema.items():
        assert (encode(column, block[name]) == encode(column, raw[name])).all()


def test_floats_are_written_with_the_fewest_digits(tmp_path):
    write_csv(pd.DataFrame({"x": [0.1, 1e-300, 1 / 3, 2.0, np.nan]}), tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == 'x\n0.1\n1e-300\n0.3333333333333333\n2.0\n""\n'


def test_missing_values_of_all_kinds_are_empty_fields(tmp_path):
    table = pd.DataFrame({
        "i": pd.array([1, None], dtype="Int64"), "f": [0.5, np.nan], "o": ["a", None],
        "t": pd.to_datetime(["2020-01-01", None]), "b": pd.array([True, None], dtype="boolean"),
    })  # fmt: skip
    write_csv(table, tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == "i,f,o,t,b\n1,0.5,a,2020-01-01 00:00:00,True\n,,,,\n"


FORMULAS = ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "'=x", "''@x", "'plain", "plain", "a=b", ""]


def test_formulas_are_escaped_on_request_and_only_texts(tmp_path):
    write_csv(pd.DataFrame({"=n": [-1], "x": ["=1+1"]}), tmp_path / "t.csv", escape_formulas=True)
    assert (tmp_path / "t.csv").read_text() == "'=n,x\n-1,'=1+1\n"
    write_csv(pd.DataFrame({"=n": [-1], "x": ["=1+1"]}), tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == "=n,x\n-1,=1+1\n"


def test_escaping_is_undone_by_reading(tmp_path):
    write_csv(pd.DataFrame({"@x": FORMULAS}), tmp_path / "t.csv", escape_formulas=True)
    table = CsvSource(tmp_path / "t.csv", escaped_formulas=True)
    assert table.names == ("@x",)
    assert values(table, "@x", Categorical(FORMULAS)) == FORMULAS


def test_no_text_starts_as_a_formula_once_escaped(tmp_path):
    write_csv(pd.DataFrame({"x": FORMULAS}), tmp_path / "t.csv", escape_formulas=True)
    texts = values(
        CsvSource(tmp_path / "t.csv"), "x", Categorical([f"'{text}" for text in FORMULAS[:8]] + FORMULAS[8:])
    )
    assert not any(text.startswith(("=", "+", "-", "@", "\t", "\r")) for text in texts)


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    (tmp_path / "t.csv").write_text("before")
    with pytest.raises(FormatError, match=r"t\.csv'.*UTF-8"):
        write_csv(pd.DataFrame({"x": pd.Series(["a", "\ud800"], dtype=object)}), tmp_path / "t.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]
    assert (tmp_path / "t.csv").read_text() == "before"


def test_a_file_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(FormatError, match=r"none/t\.csv"):
        write_csv(pd.DataFrame({"x": [1]}), tmp_path / "none" / "t.csv")
    with pytest.raises(FormatError):
        write_csv(pd.DataFrame({"x": [1]}), tmp_path)


def test_only_dataframes_are_written(tmp_path):
    with pytest.raises(DataError, match=r"\blist\b"):
        write_csv([1, 2], tmp_path / "t.csv")
