"""Formats of cells: what is written is read back, what is read is what Python's own reader says, and nothing raises."""

import datetime as dt
import json

import pytest
from english_dates import english_dates
from hypothesis import given, strategies as st

import synthdp as sd
from synthdp.errors import SchemaError
from synthdp.schema.columns import Column
from synthdp.schema.formats import number_format, time_format, truth_format, words_as_pairs

DAYS = ("%d.%m.%Y", "%m/%d/%y", "%Y%m%d", "%d %b %Y", "%B %d, %Y", "%a %d-%m-%Y", "%Y-%j", "%d%m%Y")
CLOCKS = ("%H:%M", "%I:%M %p", "%H%M%S", "%H:%M:%S.%f")
EXAMPLES = (
    "($1,234.56)",
    "(1234)",
    "1.234,56 €",
    "1,234.56",
    "$1,234",
    "1 234,5",
    "1\u202f234,#",
    "1'234.50",
    "1234,5",
    "1234",
    "12.5 %",
    "1.234",
    "US$ 1,234.5",
    "1234,#",
    "0,567",
    "1234,567",
)

moments = st.datetimes(dt.datetime(1969, 1, 1), dt.datetime(2068, 12, 31, 23, 59, 59))  # noqa: DTZ001
texts = st.one_of(st.text(), st.from_regex(r"[-+]?[\d.,' %€]{0,12}", fullmatch=True), st.from_regex(r"[\d./: -]{0,12}"))


def micros_of(moment: dt.datetime) -> int:
    return (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)  # noqa: DTZ001


@given(st.sampled_from(DAYS), st.sampled_from(("", *CLOCKS)), st.sampled_from(" T"), moments)
def test_a_moment_is_written_and_read_as_python_does(day: str, clock: str, between: str, moment: dt.datetime) -> None:
    pattern = day + (between + clock if clock else "")
    form = time_format(pattern, "moment")
    written = form.write(micros_of(moment))
    with english_dates():
        assert written == moment.strftime(pattern)
        assert form.read(written) == micros_of(dt.datetime.strptime(written, pattern))  # noqa: DTZ007
    assert form.write(form.read(written)) == written
    bare = time_format(pattern.replace("%d", "%-d").replace("%m", "%-m"), "moment")
    if "%d%m" not in pattern and "%m%d" not in pattern:
        assert bare.read(bare.write(micros_of(moment))) == form.read(written)


@given(st.integers(0, 86_399_999_999), st.sampled_from(CLOCKS))
def test_a_time_of_day_comes_back(micros: int, pattern: str) -> None:
    form = time_format(pattern, "clock")
    assert form.write(form.read(form.write(micros))) == form.write(micros)
    assert 0 <= micros - form.read(form.write(micros)) < 60_000_000


@given(st.integers(-(10**12), 10**12))
def test_a_length_may_have_any_number_of_hours(seconds: int) -> None:
    form = time_format("%H:%M:%S", "length")
    assert form.read(form.write(seconds * 10**6)) == seconds * 10**6


@given(st.sampled_from(EXAMPLES), st.integers(-(10**12), 10**12), st.integers(0, 6))
def test_a_number_comes_back_with_all_its_digits(example: str, whole: int, decimals: int) -> None:
    value = whole / 10**decimals if decimals else whole
    form = number_format(example)
    assert float(form.read(form.write(value))) == value
    assert form.write(float(form.read(form.write(value)))) == form.write(float(value))


@given(st.sampled_from(EXAMPLES), st.sampled_from(DAYS), texts)
def test_no_text_raises_and_what_is_read_has_a_number(example: str, day: str, text: str) -> None:
    read = number_format(example).read(text)
    assert read is None or float(read) is not None
    assert isinstance(time_format(day, "moment").read(text), int | None)
    assert isinstance(time_format("%H:%M:%S", "length").read(text), int | None)
    assert truth_format("ja/nein").read(text) in (True, False, None)


@pytest.mark.parametrize(
    ("example", "text", "number"),
    [
        ("1.234,56 €", "1.234,56 €", 1234.56),
        ("1.234,56 €", "-1234,5", -1234.5),
        ("1.234,56 €", "€ 7", None),
        ("1.234,56 €", "1.5", None),
        ("$1,234", "-$5,000", -5000),
        ("$1,234", "$-5,000", -5000),
        ("$1,234", "12,34", None),
        ("1 234,5", "12\u00a0345,6", 12345.6),
        ("12 %", "7%", 7),
        ("12 %", "7 %", 7),
        ("12 %", "7 $", None),
        ("1.234", "2.500", 2500),
        ("1234,5", "\u22123,5", -3.5),
        ("1234,5", "1e-05", 1e-05),
        ("1234,5", "", None),
        ("1234,5", "--3", None),
        ("($1,234.5)", "($5,000.5)", -5000.5),
        ("($1,234.5)", "$5,000.5", 5000.5),
        ("($1,234.5)", "-$5", -5),
        ("($1,234.5)", "(-$5)", None),
        ("($1,234.5)", "(($5))", None),
        ("($1,234.5)", "($5", None),
        ("($1,234.5)", "()", None),
        ("$1,234.5", "($5)", None),
    ],
)
def test_what_an_example_reads(example: str, text: str, number: float | None) -> None:
    read = number_format(example).read(text)
    assert (None if read is None else float(read)) == number


@pytest.mark.parametrize(
    "example", ["", "€", "1,23,456", "1.2.3", "-5", "1.234,56.7", "12.34.567", "x" * 101, 7, "1,234 5"]
)
def test_an_example_that_shows_nothing_is_refused(example: object) -> None:
    with pytest.raises(SchemaError, match="format"):
        sd.Schema({"x": sd.Continuous(0, 1, format=example)})


@pytest.mark.parametrize(
    "column",
    [
        sd.Date("2000-01-01", "2001-01-01", format="%d.%m"),
        sd.Date("2000-01-01", "2001-01-01", format="%d.%Y"),
        sd.Date("2000-01-01", "2001-01-01", format="%Y-%m-%d %Y"),
        sd.Datetime("2000-01-01", "2001-01-01", format="%Y %q"),
        sd.Datetime("2000-01-01", "2001-01-01", format="%d.%m.%Y %I:%M"),
        sd.Time(format="%M:%S"),
        sd.Duration(0, 9, format="%Y"),
        sd.Datetime("2000-01-01", "2001-01-01", format="%d.%m.%Y %H:%M", zone="Europe/Oslo"),
        sd.Boolean(format="ja"),
        sd.Boolean(format="x/X"),
        sd.Date("2000-01-01", "2001-01-01", format=""),
        sd.Date("2000-01-01", "2001-01-01", format=3),
    ],
)
def test_a_format_that_does_not_tell_enough_is_refused_in_one_sentence(column: Column) -> None:
    with pytest.raises(SchemaError, match="'x'"):
        sd.Schema({"x": column})


def test_two_digits_of_a_year_are_the_last_such_year_up_to_the_upper_bound() -> None:
    born = sd.Date("1900-01-01", "1999-12-31", format="%d.%m.%y").cells
    assert born.write(born.read("24.12.45")) == "24.12.45"
    assert born.read("24.12.45") == micros_of(dt.datetime(1945, 12, 24))  # noqa: DTZ001
    assert sd.Date(format="%d.%m.%y").cells.read("24.12.45") == micros_of(dt.datetime(2045, 12, 24))  # noqa: DTZ001


def test_a_month_alone_is_its_first_day() -> None:
    form = time_format("%b-%Y", "moment")
    assert form.read("dec-2014") == micros_of(dt.datetime(2014, 12, 1))  # noqa: DTZ001
    assert form.write(micros_of(dt.datetime(2014, 12, 24))) == "Dec-2014"  # noqa: DTZ001


def test_a_zone_is_written_where_the_pattern_tells_it() -> None:
    column = sd.Datetime("2020-01-01", "2021-01-01", zone="Europe/Oslo", format="%d.%m.%Y %H:%M %z")
    sd.Schema({"x": column})
    noon = micros_of(dt.datetime(2020, 7, 1, 12))  # noqa: DTZ001
    assert column.cells.write(noon) == "01.07.2020 14:00 +0200"
    assert column.cells.read("01.07.2020 14:00 +0200") == noon == column.cells.read("01.07.2020 12:00 Z")


def test_words_are_special_values() -> None:
    column = sd.Continuous(0, 20, special=[-1], decimals=1, words={"<0.6": 0.3, "refused": -1})
    assert column.special == (-1, 0.3)
    assert (column.cells.read(" <0.6 "), column.cells.write(0.3), column.cells.write(-1)) == ("0.3", "<0.6", "refused")
    assert (column.cells.read("7.5"), column.cells.write(7.5), column.cells.read("never")) == ("7.5", "7.5", None)


@pytest.mark.parametrize(
    "words", ["<1", {"a": "b"}, {"": 1}, {" a": 1}, {"a": 1, "b": 1}, {"a": True}, [("a",)], 7, [("a", 1), ("a", 2)]]
)
def test_other_words_are_refused(words: object) -> None:
    with pytest.raises(SchemaError, match="words"):
        words_as_pairs(words)


def test_formats_are_part_of_a_schema_file() -> None:
    schema = sd.Schema(
        {
            "day": sd.Date("2000-01-01", "2030-01-01", format="%d.%m.%Y"),
            "paid": sd.Continuous(0, 1e6, decimals=2, format="1.234,56 €"),
            "rooms": sd.Integer(0, 20, words={"10 or more": 10}),
            "at": sd.Time(format="%H:%M"),
            "for": sd.Duration(0, 99, format="%M:%S"),
            "yes": sd.Boolean(format="oui/non"),
        }
    )
    again = sd.Schema.from_json(schema.to_json())
    assert again == schema
    assert [column.cells for column in again.values()] == [column.cells for column in schema.values()]
    assert json.loads(schema.to_json())["synthdp_schema"] == 4
    assert json.loads(sd.Schema({"x": sd.Integer(0, 3)}).to_json())["synthdp_schema"] == 1
    entry = {"name": "x", "type": "integer", "lower": 0, "upper": 9, "words": {"many": 10}}
    file = json.dumps({"synthdp_schema": 4, "columns": [entry]})
    assert sd.Schema.from_json(file)["x"].special == (10,)
