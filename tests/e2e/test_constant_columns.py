"""A column of one number is declared, released, saved, asked about and compared like any other."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import synthdp as sd

ROWS = 300
COLUMNS = {
    "whole": sd.Integer(3, 3),
    "missing": sd.Integer(-7, -7, nullable=True),
    "refused": sd.Decimal(2.5, 2.5, decimals=1, special=[-1]),
    "other": sd.Integer(0, 9),
}
SCHEMA = sd.Schema(COLUMNS)
pytestmark = pytest.mark.filterwarnings("ignore:epsilon", "ignore:SmoothSynthesis leaves out")


def table() -> pd.DataFrame:
    row = np.arange(ROWS)
    return pd.DataFrame(
        {
            "whole": 3,
            "missing": np.where(row % 3 == 0, np.nan, -7.0),
            "refused": np.where(row % 4 == 0, -1.0, 2.5),
            "other": row % 10,
        }
    )


@pytest.mark.parametrize("mechanism", ["auto", "smooth_synthesis", "l1_fit"])
def test_constants_come_out_and_are_asked_about(mechanism: str) -> None:
    options: Any = {"support": 100} if mechanism == "l1_fit" else None
    release = sd.SyntheticRelease(
        schema=SCHEMA, epsilon=20.0, delta=1e-6, mechanism=mechanism, mechanism_options=options
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = release.fit_transform(table())
        assert set(found["whole"]) == {3}
        assert set(found["missing"].dropna()) == {-7}
        assert set(found["refused"]) == {-1.0, 2.5}
        assert found["missing"].isna().mean() == pytest.approx(1 / 3, abs=0.1)
        for question in (sd.mean("whole"), sd.quantile("whole", 0.5), sd.mean("refused", where="refused > 0")):
            estimate = release.answer(question)["estimate"][0]
            assert min(abs(estimate - 3), abs(estimate - 2.5)) < 1e-9
        assert release.answer(sd.variance("whole"))["estimate"][0] == 0
        assert release.answer(sd.smooth(lambda x: x[:, 0] ** 2, columns=["whole"]))["estimate"][0] == 0


@pytest.mark.landing
def test_constants_are_saved_compared_and_read_from_a_database(tmp_path: Path) -> None:
    assert sd.Schema.from_json(SCHEMA.to_json()) == SCHEMA
    table().to_parquet(tmp_path / "rows.parquet")
    with duckdb.connect(str(tmp_path / "rows.duckdb")) as connection:
        connection.execute(f"CREATE TABLE rows AS SELECT * FROM '{tmp_path / 'rows.parquet'}'")
    for push in ("rows", "codes", "counts"):
        source = sd.SqlSource(f"duckdb:///{tmp_path / 'rows.duckdb'}", table="rows", push=push)
        schema = sd.Schema({name: COLUMNS[name] for name in ("whole", "missing", "other")})
        release = sd.SyntheticRelease(schema=schema, epsilon=20.0, delta=1e-6).fit(source)
        release.release_.save(tmp_path / push)
        assert set(sd.load(tmp_path / push).sample(50)["whole"]) == {3}
    release.report(tmp_path / "report.html")
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        sd.compare(table(), release.sample(ROWS), schema)
