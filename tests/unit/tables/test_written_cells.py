"""Tables whose columns declare how their cells are written: read so, and written back so, by every library and file."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import synthdp as sd
from synthdp.domain.encoder import decode, encode
from synthdp.domain.grid import grid_of
from synthdp.errors import DataError
from synthdp.tables.format import TableFormat
from synthdp.tables.resolve import source_of
from synthdp.tables.sources.csv import write_csv

SCHEMA = sd.Schema(
    {
        "day": sd.Date("2000-01-01", "2030-01-01", format="%d.%m.%Y", nullable=True),
        "code": sd.Date("2000-01-01", "2030-01-01", format="%Y%m%d"),
        "month": sd.Date("2000-01-01", "2030-01-01", format="%b-%y"),
        "at": sd.Datetime("2019-01-01", "2020-01-01", resolution="min", format="%-m/%-d/%Y %-H:%M"),
        "time": sd.Time(format="%I:%M %p", resolution="min"),
        "clock": sd.Time(format="%H%M", resolution="min"),
        "took": sd.Duration(0, 500_000, format="%H:%M:%S"),
        "paid": sd.Continuous(-100, 2000, decimals=2, format="1.234,56 €", nullable=True),
        "part": sd.Continuous(0, 100, decimals=1, format="12,# %"),
        "people": sd.Integer(0, 10**5, format="1'234"),
        "level": sd.Continuous(0, 20, decimals=1, words={"<0.6": 0.3, "n.a.": -1}),
        "exact": sd.Decimal(0, 999, decimals=2, format="$1,234.56"),
        "yes": sd.Boolean(format="ja/nein"),
    }
)
ROWS = {
    "day": ["24.12.2019", None, "01.02.2003"],
    "code": [20191224, 20000101, 20030201],
    "month": ["Dec-19", "Jan-00", "Feb-03"],
    "at": ["12/24/2019 7:05", "1/1/2019 0:00", "2/1/2019 23:59"],
    "time": ["07:05 AM", "12:00 AM", "11:59 PM"],
    "clock": [705, 0, 2359],
    "took": ["26:00:01", "00:00:00", "100:59:59"],
    "paid": ["1.234,50 €", "-0,05 €", None],
    "part": ["12,5 %", "0 %", "100 %"],
    "people": ["1'234", "7", "12'345"],
    "level": ["<0.6", "n.a.", "7.5"],
    "exact": ["$999.00", "$0.10", "$12.34"],
    "yes": ["ja", "nein", "ja"],
}
ENCODED = {"day": 7297, "code": 7297, "at": 514505, "paid": 133450, "part": 125, "people": 1234}


def frame_of(library: str):
    pandas = pd.DataFrame(ROWS)
    return {
        "pandas": lambda: pandas,
        "polars": lambda: pl.DataFrame(ROWS),
        "pyarrow": lambda: pa.table(ROWS),
        "categories": lambda: pandas.astype({name: "category" for name in ROWS if name not in ("code", "clock")}),
        "objects": lambda: pandas.astype({name: object for name in ROWS if name not in ("code", "clock")}),
    }[library]()


def rows_of(frame) -> dict[str, list[object]]:
    if isinstance(frame, pd.DataFrame):
        return {name: [None if pd.isna(one) else one for one in frame[name]] for name in frame}
    return frame.to_dict(as_series=False) if isinstance(frame, pl.DataFrame) else frame.to_pydict()


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "categories", "objects"])
def test_cells_are_written_as_they_were_read(library: str) -> None:
    source = source_of(frame_of(library))
    (block,) = source.blocks(SCHEMA)
    codes = {name: encode(SCHEMA[name], block[name]) for name in SCHEMA}
    assert {name: int(codes[name][0]) for name in ENCODED} == ENCODED
    for name, column in SCHEMA.items():
        assert (codes[name] != grid_of(column).other).all(), name
    built = TableFormat.of(source, SCHEMA).build(
        SCHEMA, {name: decode(column, codes[name]) for name, column in SCHEMA.items()}
    )
    assert rows_of(built) == ROWS


def test_a_file_comes_back_as_it_was(tmp_path) -> None:
    path = tmp_path / "t.csv"
    write_csv(pd.DataFrame(ROWS), path)
    source = sd.CsvSource(path, missing=["n.a."])  # a word of a column is no missing value
    (block,) = source.blocks(SCHEMA)
    raw = {name: decode(column, encode(column, block[name])) for name, column in SCHEMA.items()}
    write_csv(TableFormat.of(source, SCHEMA).build(SCHEMA, raw), tmp_path / "again.csv")
    texts = {name: [*map(str, values)] if name == "code" else values for name, values in ROWS.items()}
    read = pd.read_csv(tmp_path / "again.csv", dtype=str, keep_default_na=False)
    assert read["clock"].tolist() == ["0705", "0000", "2359"]  # texts have their zeros
    assert read.drop(columns="clock").to_dict("list") == {
        name: [value or "" for value in values] for name, values in texts.items() if name != "clock"
    }


@pytest.mark.parametrize("cell", ["24/12/2019", "31.02.2019", "2019-12-24", "", object(), 7.5, b"24.12.2019", 10**30])
def test_a_cell_in_another_format_spoils_no_other(cell: object) -> None:
    column = sd.Date("2000-01-01", "2030-01-01", format="%d.%m.%Y")
    table = pd.DataFrame({"day": np.array(["24.12.2019", cell, "01.02.2003"], object)})
    (block,) = source_of(table).blocks({"day": column})
    assert encode(column, block["day"]).tolist() == [7297, grid_of(column).other, 1127]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (sd.Date("2000-01-01", "2030-01-01", format="%d.%m.%Y"), [20191224] * 3),
        (sd.Date("2000-01-01", "2030-01-01", format="%Y%m%d"), [True] * 3),
    ],
)
def test_a_type_that_cannot_hold_what_is_written_is_refused_before_the_spend(column, values, tmp_path) -> None:
    ledger = tmp_path / "l.sqlite"
    release = sd.SyntheticRelease(schema=sd.Schema({"x": column}), ledger=ledger)
    with pytest.raises(DataError, match="'x'"):
        release.fit(pd.DataFrame({"x": values}))
    assert not ledger.exists() or not sd.Ledger(ledger).entries()


def test_a_release_has_the_formats_of_its_table() -> None:
    rng = np.random.default_rng(3)
    days = pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 900, 2000), unit="D")
    paid = [f"{one:,.2f}".replace(",", " ").replace(".", ",") + " €" for one in rng.gamma(2.0, 900.0, 2000)]
    table = pd.DataFrame(
        {"day": days.strftime("%d.%m.%Y"), "paid": paid, "yes": rng.choice(["Ja", "Nein"], 2000, p=[0.8, 0.2])}
    )
    schema = sd.Schema(
        {
            "day": sd.Date("2010-01-01", "2020-01-01", format="%d.%m.%Y"),
            "paid": sd.Continuous(0, 20_000, decimals=2, format="1 234,56 €"),
            "yes": sd.Boolean(format="Ja/Nein"),
        }
    )
    release = sd.SyntheticRelease(schema=schema, epsilon=3.0, random_state=1)
    synthetic = release.fit_transform(table)
    assert synthetic.dtypes.equals(table.dtypes)
    read = pd.to_datetime(synthetic["day"], format="%d.%m.%Y")
    assert abs((read.mean() - days.mean()).days) < 60
    assert synthetic["paid"].str.fullmatch(r"\d{1,3}( \d{3})*,\d\d €").all()
    assert synthetic["yes"].value_counts(normalize=True)["Ja"] == pytest.approx(0.8, abs=0.05)
    assert float(release.answer(sd.mean("paid"))["estimate"].iloc[0]) == pytest.approx(1800, rel=0.3)
    assert all(one.share < 0.05 for one in release.misfits_.values())
