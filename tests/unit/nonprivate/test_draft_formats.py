"""How cells are written, read off a table for a draft, in several languages; nothing that few rows have is named."""

import warnings

import numpy as np
import pandas as pd
import pytest
from english_dates import english_dates

import synthdp as sd
from synthdp.errors import DraftWarning
from synthdp.nonprivate.draft import Draft
from synthdp.nonprivate.draft_formats import kind_as_written


def days(form: str, n: int = 400) -> list[str]:
    with english_dates():
        return [day.strftime(form) for day in pd.date_range("2015-01-03 07:05", periods=n, freq="29h")]


def german(values: np.ndarray) -> list[str]:
    return [f"{one:,.2f}".translate(str.maketrans(",.", ".,")) for one in values]


AMOUNTS = np.linspace(3.25, 54_321.75, 400)
CELLS = {
    "german day": (days("%d.%m.%Y"), "%d.%m.%Y"),
    "american day": (days("%m/%d/%y"), "%m/%d/%y"),
    "no zeros": (
        [
            f"{one.month}/{one.day}/{one.year} {one.hour}:{one.minute:02}"
            for one in pd.date_range("2015", periods=400, freq="29h")
        ],
        "%-m/%-d/%Y %-H:%M",
    ),
    "slashed": (days("%Y/%m/%d"), "%Y/%m/%d"),
    "compact": (days("%Y%m%d"), "%Y%m%d"),
    "month": (days("%b-%Y"), "%b-%Y"),
    "minutes": (days("%Y-%m-%d %H:%M"), "%Y-%m-%d %H:%M"),
    "clock": (days("%H:%M:%S"), "%H:%M:%S"),
    "noon": (days("%I:%M %p"), "%I:%M %p"),
    "length": ([f"{i // 7}:{i % 60:02}:00" for i in range(400)], "%-H:%M:%S"),
    "german amount": ([f"{one} €" for one in german(AMOUNTS)], "1.234,56 €"),
    "german number": (german(AMOUNTS), "1.234,56"),
    "american amount": ([f"${one:,.2f}" for one in AMOUNTS], "$1,234.56"),
    "percent": ([f"{i / 4:.2f}%" for i in range(400)], "1234.56%"),
    "thousands": ([f"{i * 37:,}" for i in range(400)], "1,234"),
    "french": ([f"{i * 37:,}".replace(",", "\u202f") for i in range(400)], "1\u202f234"),
    "comma": ([f"{i / 8:g}".replace(".", ",") for i in range(400)], "1234,#"),
    "small commas": ([f"0,{i:03}" for i in range(400)], "1234,567"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", CELLS)
def test_a_format_is_found_and_gives_the_cells_back(name: str) -> None:
    cells, form = CELLS[name]
    kind = kind_as_written(dict.fromkeys(cells, 1))
    assert kind is not None
    assert kind.format == form
    for cell in cells:
        value = kind.cells.read(cell)
        assert kind.cells.write(float(value) if kind.quantity == "number" else value) == cell


@pytest.mark.parametrize(
    "cells",
    [
        [f"A{i}" for i in range(400)],
        [f"0{i:04}" for i in range(400)],
        [f"{i} months" for i in range(400)],
        ["ja", "nein"],
        [f"{i}-{i + 5}" for i in range(400)],
        [f"192.168.{i}.1" for i in range(400)],
        [f"v{i}.0" for i in range(400)],
        [f"36 kg {i}" for i in range(400)],
        ["12.03.2020", *(f"note {i}" for i in range(400))],
        [f"{i}:{i}:{i}:{i}" for i in range(60)],
    ],
)
def test_codes_and_words_are_left_as_they_are(cells: list[str]) -> None:
    assert kind_as_written(dict.fromkeys(cells, 1)) is None


def drafted(table: object) -> Draft:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DraftWarning)
        return sd.draft(table)


def test_words_among_numbers_are_named_where_many_rows_have_them() -> None:
    numbers = [f"{1 + i / 10:.1f}" for i in range(300)]
    table = pd.DataFrame({"x": numbers + ["<0.6"] * 40 + ["not done"] * 20 + [">999"] * 2})
    column = drafted(table)["x"]
    assert column.words == (("<0.6", 0.3), ("not done", -1))
    assert ">999" not in drafted(table).to_json()
    assert (column.lower, column.upper, column.decimals) == (0.0, 32.0, 1)
    assert set(column.special) == {0.3, -1}


def test_whole_numbers_that_are_days_are_days(tmp_path) -> None:
    table = pd.DataFrame({"day": [int(one) for one in days("%Y%m%d")], "n": range(18_000_000, 18_000_400)})
    table.to_csv(tmp_path / "t.csv", index=False)
    for source in (table, sd.CsvSource(tmp_path / "t.csv")):
        draft = drafted(source)
        assert (draft["day"].format, draft["day"].resolution) == ("%Y%m%d", "D")
        assert not hasattr(draft["n"], "resolution")


def test_a_draft_says_so_where_day_and_month_may_be_one_or_the_other() -> None:
    early = [f"{1 + i % 12:02}/{1 + i // 12 % 12:02}/20{10 + i % 9}" for i in range(400)]
    table = pd.DataFrame({"unclear": early, "clear": days("%m/%d/%Y")})
    columns = {one["name"]: one for one in drafted(table)._document["columns"]}
    assert "month or the day comes first" in columns["unclear"]["comment"]
    assert "month or the day comes first" not in columns["clear"]["comment"]


def test_a_format_that_was_read_off_the_table_is_named_when_only_bounds_are_new() -> None:
    draft = drafted(pd.DataFrame({"paid": CELLS["german amount"][0]}))
    draft.review("paid", lower=0, upper=100_000, source="the tariff")
    schema = draft.finish()
    assert schema["paid"].format == "1.234,56 €"
    assert "format" in schema["paid"].source.partition("drafted from the table: ")[2].split(", ")


def test_a_german_file_is_drafted_reviewed_and_released_as_it_was(tmp_path) -> None:
    table = pd.DataFrame(
        {"Tag": days("%d.%m.%Y"), "Betrag": [f"{one} €" for one in german(AMOUNTS)], "bezahlt": ["ja", "nein"] * 200}
    )
    table.to_csv(tmp_path / "t.csv", index=False, sep=";")
    source = sd.CsvSource(tmp_path / "t.csv", delimiter=";")
    schema = drafted(source).accept_all().finish()
    synthetic = sd.SyntheticRelease(schema=schema, epsilon=3.0).fit_transform(source)
    assert synthetic["Tag"].str.fullmatch(r"\d\d\.\d\d\.20\d\d").all()
    assert synthetic["Betrag"].str.fullmatch(r"(\d{1,3})(\.\d{3})*,\d\d €").all()
    assert set(synthetic["bezahlt"]) == {"ja", "nein"}


def test_a_draft_asks_who_a_person_is_where_ids_repeat_and_names_levels_that_are_spelt_alike() -> None:
    rng = np.random.default_rng(6)
    table = pd.DataFrame(
        {
            "subject_id": np.repeat(np.arange(1000, 1300), 3),
            "row_id": np.arange(900),
            "visit": np.tile([1, 2, 3], 300),
            "city": rng.choice(["Oslo", "Oslo ", "oslo", "Bergen"], 900),
        }
    )
    comments = {one["name"]: one["comment"] for one in drafted(table)._document["columns"]}
    assert "privacy_unit, with" in comments["subject_id"]
    assert "3.0 rows each" in comments["subject_id"]
    assert not any("WHO IS A PERSON" in comments[name] for name in ("row_id", "visit", "city"))
    assert "'Oslo' and 'Oslo ' and 'oslo'" in comments["city"]
    assert "Bergen" not in comments["city"]
