"""How cells are written, read off a table for a draft, in several languages; nothing that few rows have is named."""

import random
import warnings
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from english_dates import english_dates
from hypothesis import example, given, settings, strategies as st

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
    "account": ([f"(${-one:,.2f})" if one < 0 else f"${one:,.2f}" for one in AMOUNTS - 9000], "($1,234.56)"),
    "account of thousands": ([f"({-i})" if i < 0 else f"{i}" for i in range(-150, 250)], "(1234)"),
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


@pytest.mark.sampled("landing")
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
        [f"({i})" for i in range(400)],
    ],
)
def test_codes_and_words_are_left_as_they_are(cells: list[str]) -> None:
    assert kind_as_written(dict.fromkeys(cells, 1)) is None


SEVERAL = {
    "days and a word": [f"{d:02}/{m:02}/2019" for m in range(1, 13) for d in range(1, 29)] * 5 + ["unknown"] * 3,
    "grouped thousands and versions": [f"2.{i}.1" for i in range(6)] + [f"1'{i:03}" for i in range(330)],
    "two currencies": [f"{i},50 €" for i in range(150)] + [f"{i},50 kr" for i in range(150)],
    "two kinds of blanks": [f"{i}\u202f{i + 100}" for i in range(1, 200)]
    + [f"{i}\xa0{i + 500}" for i in range(1, 200)],
    "numbers, and a few in brackets": [f"{i * i}" for i in range(400)] + ["(7)", "(8)"],
    "days, a few of another form": days("%d.%m.%Y") + days("%Y-%m-%d", 7),
    "clocks, and a frequent word": days("%H:%M:%S") * 3 + ["midday"] * 20,
    "words and days": [f"note {i}" for i in range(300)] + days("%d.%m.%Y"),
    "levels that are equally frequent": [f"level {i}" for i in range(40)] * 12,
    "numbers that are equally frequent": [f"{i * i}.5" for i in range(30)] * 50 + [f"{i}" for i in range(900)],
}
"""Texts of columns that are not all alike."""


@pytest.mark.sampled("landing")
@pytest.mark.parametrize(
    ("case", "form"),
    [
        ("days and a word", "%d/%m/%Y"),
        ("grouped thousands and versions", "1'234.#"),
        ("days, a few of another form", "%d.%m.%Y"),
        ("clocks, and a frequent word", "%H:%M:%S"),
        ("words and days", None),
        ("numbers, and a few in brackets", None),
    ],
)
def test_a_format_is_found_wherever_the_rows_that_it_does_not_read_stand(case: str, form: str | None) -> None:
    counts = Counter(SEVERAL[case])
    for order in (list(counts), list(counts)[::-1], sorted(counts), sorted(counts, key=counts.__getitem__)):
        kind = kind_as_written({text: counts[text] for text in order})
        assert (None if kind is None else kind.format) == form


@pytest.mark.landing
@given(st.sampled_from([*SEVERAL]), st.integers(0, 2**32 - 1))
@example("days and a word", 1)
def test_the_order_of_the_texts_does_not_change_their_format(case: str, seed: int) -> None:
    counts = Counter(SEVERAL[case])
    shuffled = random.Random(seed).sample(list(counts), len(counts))
    assert kind_as_written({text: counts[text] for text in shuffled}) == kind_as_written(counts)


@pytest.mark.landing
@settings(max_examples=8)
@given(st.lists(st.sampled_from([*SEVERAL]), min_size=1, max_size=3, unique=True), st.integers(0, 2**32 - 1))
@example(["levels that are equally frequent", "numbers that are equally frequent", "two currencies"], 0)
def test_the_order_of_the_rows_does_not_change_a_draft(cases: list[str], seed: int) -> None:
    table = pd.DataFrame({case: pd.Series(SEVERAL[case], dtype=object) for case in cases})
    shuffled = table.sample(frac=1, random_state=seed, ignore_index=True)
    assert drafted(shuffled).to_json() == drafted(table).to_json()


def test_the_order_of_the_rows_of_a_file_does_not_change_its_draft(tmp_path) -> None:
    rows = SEVERAL["days and a word"]
    for name, lines in (("last", rows), ("first", rows[::-1])):
        (tmp_path / f"{name}.csv").write_text("\n".join(["day", *lines, ""]))
    last, first = (drafted(sd.CsvSource(tmp_path / f"{name}.csv")) for name in ("last", "first"))
    assert first.to_json() == last.to_json()
    assert (first["day"].format, first["day"].resolution) == ("%d/%m/%Y", "D")


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


def test_whole_numbers_that_are_times_of_day_are_times(tmp_path) -> None:
    """Of 11:59 and 12:00 a draft of numbers made 1172 and 1190."""
    minutes = np.arange(1440).repeat(3)
    table = pd.DataFrame({"departs": minutes // 60 * 100 + minutes % 60})
    table.loc[:5, "departs"] = 2400  # the midnight at the end of a day
    table["number"] = np.arange(len(table)) % 2400
    table["half hours"] = minutes // 30 * 50
    table["week"] = minutes % 24 * 100 + 1 + minutes % 52
    table.to_csv(tmp_path / "t.csv", index=False)
    for source in (table, sd.CsvSource(tmp_path / "t.csv")):
        draft = drafted(source)
        assert (draft["departs"].format, draft["departs"].resolution) == ("%H%M", "min")
        assert "fit no column" not in str(draft._document["columns"][0]["seen"])
        assert not any(hasattr(draft[name], "resolution") for name in ("number", "half hours", "week"))
    synthetic = sd.SyntheticRelease(schema={"departs": draft["departs"]}, epsilon=5.0).fit_transform(table[["departs"]])
    assert synthetic["departs"].mod(100).max() < 60


def test_missing_values_beside_days_and_times_that_are_numbers_change_nothing(tmp_path) -> None:
    """They make 1745 a 1745.0, in a dataframe and in a file of texts."""
    minutes = np.arange(1440)
    table = pd.DataFrame({"at": minutes // 60 * 100 + minutes % 60, "day": 20240101 + minutes % 28, "n": 1.0})
    table.loc[::7, ["at", "day"]] = np.nan
    table.to_csv(tmp_path / "t.csv", index=False)
    for source in (table, sd.CsvSource(tmp_path / "t.csv")):
        schema = drafted(source).accept_all()
        assert [schema[name].format for name in ("at", "day")] == ["%H%M", "%Y%m%d"]
        synthetic = sd.SyntheticRelease(schema=schema, epsilon=5.0).fit_transform(source)
        assert synthetic["day"].isna().mean() == pytest.approx(1 / 7, abs=0.05)
        assert synthetic["at"].isna().mean() == pytest.approx(1 / 7, abs=0.05)


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
