"""Sheets of Excel: each row is read by itself, whatever stands above, below or beside it."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import openpyxl
import pytest

import synthdp as sd
from synthdp.errors import DataError, FormatError, ParameterError
from synthdp.tables.sources.file_source import source_at

SCHEMA = sd.Schema({"n": sd.Integer(0, 9, nullable=True), "t": sd.Categorical(["a", "b"], nullable=True)})


def sheet(folder: Path, *rows: list[Any]) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path := folder / "t.xlsx")
    return path


def texts(source: sd.ExcelSource) -> list[tuple[Any, ...]]:
    (block,) = source.blocks({}, extra=source.names)
    columns = [[None if code < 0 else raw.levels[code] for code in raw.codes] for raw in block.values()]
    return [*zip(*columns, strict=True)]


@pytest.mark.parametrize("last", [["9", "b"], [None, "b"]])
def test_a_last_row_brings_no_blank_row_back(tmp_path: Path, last: list[Any]) -> None:
    rows = [["n", "t"], [1, "a"], *[[None, None]] * 500]
    assert texts(sd.ExcelSource(sheet(tmp_path, *rows))) == [("1", "a")]
    assert texts(sd.ExcelSource(sheet(tmp_path, *rows, last))) == [("1", "a"), tuple(last)]


@pytest.mark.parametrize("stray", [[1, "a", None, "a note"], [None, None, None, "a note"], [None] * 9 + [7]])
def test_a_cell_beside_the_table_is_no_part_of_it(tmp_path: Path, stray: list[Any]) -> None:
    """Were it, one row could make columns without a name, and a row of a blank line."""
    source = sd.ExcelSource(sheet(tmp_path, ["n", "t"], [2, "b"], stray))
    assert (source.names, source.unnamed) == (("n", "t"), ())
    assert texts(source) == [("2", "b"), *[("1", "a")] * (stray[0] is not None)]


def test_a_column_without_a_name_inside_the_table_is_passed_over(tmp_path: Path) -> None:
    source = sd.ExcelSource(sheet(tmp_path, ["n", None, "t", None], [1, "x", "a", "y"], [None, "x", None, None]))
    assert (source.names, source.unnamed) == (("n", "t"), (2,))
    assert texts(source) == [("1", "a"), (None, None)]


def test_cells_are_their_texts(tmp_path: Path) -> None:
    cells = [1, 2.0, 2.5, True, "NA", "007", dt.datetime(2020, 1, 2, 3), dt.time(4), "#DIV/0!"]  # noqa: DTZ001
    path = sheet(tmp_path, [f"c{i}" for i in range(len(cells))], cells)
    said = ("1", "2", "2.5", "True", "NA", "007", "2020-01-02T03:00:00", "04:00:00", None)
    assert texts(sd.ExcelSource(path)) == [said]


def test_a_sheet_whose_first_line_is_blank_is_refused(tmp_path: Path) -> None:
    for rows in ([], [[None, None], ["n", "t"], [1, "a"]]):
        with pytest.raises(DataError):
            sd.ExcelSource(sheet(tmp_path, *rows))


def test_a_file_that_is_gone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError):
        sd.ExcelSource(tmp_path / "none.xlsx")


def book(folder: Path) -> Path:
    """Write a file of two sheets that are two tables."""
    made = openpyxl.Workbook()
    for name, rows in (("2023", [["n"], [1]]), ("2024", [["t"], ["a"], [None], ["b"]])):
        made.create_sheet(name)
        for row in rows:
            made[name].append(row)
    del made["Sheet"]
    made.save(path := folder / "years.xlsx")
    return path


def test_a_sheet_is_read_by_its_name_and_the_first_without(tmp_path: Path) -> None:
    path = book(tmp_path)
    assert sd.ExcelSource(path).sheets == ("2023", "2024")
    assert texts(sd.ExcelSource(path)) == texts(sd.ExcelSource(path, sheet="2023")) == [("1",)]
    assert texts(sd.ExcelSource(path, sheet="2024")) == [("a",), ("b",)]


@pytest.mark.parametrize("name", ["2025", "", "Sheet"])
def test_a_sheet_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path, name: str) -> None:
    with pytest.raises(ParameterError, match=r"'2023'.*'2024'"):
        sd.ExcelSource(book(tmp_path), sheet=name)


def test_a_sheet_of_a_file_without_sheets_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("n\n1\n")
    with pytest.raises(ParameterError, match="sheet"):
        source_at(tmp_path / "t.csv", sheet="2024")
