"""Several tables with rows that nobody would expect: values like any others; or what is public is refused in a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import synthdp as sd
from synthdp.cli.main import main
from synthdp.errors import DataError
from synthdp.mechanisms.related.related_tables import RelatedTables

SECRET = "canary-4711"

SCHEMA = sd.DatabaseSchema(
    {
        "people": sd.Schema({"sex": sd.Categorical(["f", "m"])}),
        "visits": sd.Schema({"year": sd.Integer(2010, 2014), "cost": sd.Continuous(0, 100, nullable=True)}),
        "kids": sd.Schema({"age": sd.Integer(0, 17)}),
    },
    [
        sd.Relation("people", "visits", key="pid", at_most=3, order="year", unique=True),
        sd.Relation("people", "kids", key="pid", at_most=2),
    ],
)


class Hostile:
    """An object that says its secret wherever it is compared, hashed, written or made a number."""

    def _say(self, *_: object) -> Any:
        raise ValueError(SECRET)

    __eq__ = __hash__ = __str__ = __repr__ = __float__ = __int__ = __bool__ = __lt__ = _say  # type: ignore[assignment]


def plain() -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(0)
    of = np.repeat(np.arange(40), rng.integers(0, 4, 40))
    return {
        "people": pd.DataFrame({"pid": range(40), "sex": rng.choice(["f", "m"], 40)}),
        "visits": pd.DataFrame({"pid": of, "year": 2010 + np.arange(len(of)) % 5, "cost": 100 * rng.random(len(of))}),
        "kids": pd.DataFrame({"pid": rng.integers(0, 40, 40), "age": rng.integers(0, 18, 40)}),
    }


def begins_with(values: list[Any], column: pd.Series) -> pd.Series:
    """A column of objects whose first values are others."""
    return pd.Series([*values, *column.tolist()[len(values) :]], index=column.index, dtype=object)


TABLES = plain()
VISITS = TABLES["visits"]
MANY = pd.DataFrame({"pid": 3, "year": 2012, "cost": 1.0}, index=range(10_000))
BAD: dict[str, dict[str, pd.DataFrame]] = {
    "duplicated keys": {"people": pd.concat([TABLES["people"]] * 2)},
    "orphans": {"visits": VISITS.assign(pid=VISITS["pid"] + 10**6)},
    "a person of 10 000 records": {"visits": pd.concat([VISITS, MANY])},
    "records of equal period": {"visits": VISITS.assign(year=2012)},
    "null keys": {
        name: one.assign(pid=begins_with([None, np.nan, pd.NA, pd.NaT], one["pid"])) for name, one in TABLES.items()
    },
    "no key at all": {name: one.assign(pid=pd.Series([None] * len(one), dtype=object)) for name, one in TABLES.items()},
    "keys of mixed types": {"visits": VISITS.assign(pid=begins_with(["1", 2.0, b"3", (4,), 10**40], VISITS["pid"]))},
    "hostile keys": {"visits": VISITS.assign(pid=begins_with([Hostile()] * 3, VISITS["pid"]))},
    "keys of broken text": {"visits": VISITS.assign(pid=begins_with(["\ud800", "\x00", ""], VISITS["pid"]))},
    "an empty child table": {"visits": VISITS.iloc[:0]},
    "a parent without children": {"visits": VISITS.iloc[:0], "kids": TABLES["kids"].iloc[:0]},
    "periods outside the levels": {"visits": VISITS.assign(year=1800)},
    "periods that are none": {"visits": VISITS.assign(year=begins_with([Hostile(), SECRET, None], VISITS["year"]))},
    "hostile values": {"visits": VISITS.assign(cost=begins_with([Hostile(), SECRET, np.inf], VISITS["cost"]))},
    "one person": {name: one[one["pid"] == 1] for name, one in TABLES.items()},
}


@pytest.mark.sampled
@pytest.mark.parametrize("case", BAD)
def test_rows_that_nobody_expects_are_values_like_any_others(case: str) -> None:
    curator = sd.Curator({**TABLES, **BAD[case]}, schema=SCHEMA, budget=sd.ApproxDP(2.0, 1e-9))
    release = RelatedTables(particles=50, sweeps=(1, 1)).release(curator, random_state=0)
    made = release.sample(30, random_state=1)
    assert len(made["people"]) == 30
    assert made["people"]["pid"].is_unique
    assert all(made[child]["pid"].isin(made["people"]["pid"]).all() for child in ("visits", "kids"))
    assert not made["visits"].duplicated(["pid", "year"]).any()
    assert made["visits"].groupby("pid").size().max() <= 3 or made["visits"].empty
    assert SECRET not in str(release.receipt)


UNFIT: dict[str, tuple[dict[str, Any], str]] = {
    "no key column": ({"visits": VISITS.drop(columns="pid")}, "'pid'"),
    "keys of other types": ({"visits": VISITS.assign(pid=VISITS["pid"].astype("string"))}, "'pid'.*'people'.*'visits'"),
    "a column twice": ({"visits": pd.concat([VISITS, VISITS[["cost"]]], axis=1)}, "'visits'.*'cost'"),
    "no table": ({"visits": [1, 2]}, "'visits'.*dataframe"),
    "columns of tuples": ({"kids": pd.concat({"a": TABLES["kids"]}, axis=1)}, "'kids'.*texts"),
    "dates as keys": ({"kids": TABLES["kids"].assign(pid=pd.Timestamp("2020-01-01"))}, "'kids'.*'pid'"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_what_is_public_and_does_not_fit_is_refused_in_a_sentence_that_names_the_table(case: str) -> None:
    change, said = UNFIT[case]
    with pytest.raises(DataError, match=said) as caught:
        sd.DatabaseRelease(schema=SCHEMA).fit({**TABLES, **change})
    assert "\n" not in str(caught.value)
    assert caught.value.__context__ is None or caught.value.__suppress_context__


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int8", "bool", "float32"])
def test_synthetic_keys_are_unique_and_join_though_the_real_ones_were_bytes(dtype: str) -> None:
    tables = {name: one.assign(pid=one["pid"].astype(dtype)) for name, one in TABLES.items()}
    made = sd.DatabaseRelease(schema=SCHEMA, random_state=0).fit(tables).sample(400)
    assert made["people"]["pid"].is_unique
    assert made["visits"]["pid"].isin(made["people"]["pid"]).all()


FILES: dict[str, tuple[bytes, int]] = {
    "a header alone": (b"pid,year,cost\n", 0),
    "keys written otherwise": (b"pid,year,cost\n01,2010,3\n 1 ,2011,4\n1.0,2012,5\n", 0),
    "null keys": (b"pid,year,cost\n,2010,3\nNA,2011,4\n", 0),
    "ragged rows": (b"pid,year,cost\n1,2010\n2,2011,3,4,5\n", 0),
    "an open quote": (b'pid,year,cost\n"1,2010,3\n', 0),
    "other bytes": (b"pid,year,cost\n\xff\x00,2010,3\n", 0),
    "periods that are none": (f"pid,year,cost\n1,{SECRET},3\n1,,4\n1,9999999999999999999999,5\n".encode(), 0),
    "nothing": (b"", 2),
    "no key column": (b"year,cost\n2010,3\n", 2),
    "a column twice": (b"pid,year,cost,cost\n1,2010,3,4\n", 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", FILES)
def test_the_command_line_takes_any_rows_and_refuses_in_one_line_what_is_public(case: str, tmp_path: Path) -> None:
    text, code = FILES[case]
    (tmp_path / "db").mkdir()
    SCHEMA.write(tmp_path / "db.json")
    for name, table in TABLES.items():
        table.to_csv(tmp_path / "db" / f"{name}.csv", index=False)
    (tmp_path / "db" / "visits.csv").write_bytes(text)
    told = ["release", str(tmp_path / "db"), "--schema", str(tmp_path / "db.json"), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(main, told)
    assert done.exit_code == code
    said = [line for line in done.stderr.splitlines() if not line.startswith("synthdp: warning: ")]  # of few persons
    assert len(said) == (code == 2)
    assert SECRET not in done.output
    assert (tmp_path / "out").exists() == (code == 0)
