"""A polars table in, a polars table out: missing values, dates, codes such as -1, identifiers, unicode names."""

import datetime as dt

import numpy as np
import polars as pl

import synthdp as sd

SCHEMA = sd.Schema(
    {
        "Patient": sd.Identifier("P-"),  # fresh labels, never a real one
        "größe_cm": sd.Continuous(40, 220, nullable=True),
        "Zigaretten": sd.Integer(0, 60, special=[-1]),  # -1: "no answer", a place of its own
        "raucht": sd.Boolean(nullable=True),
        "Station": sd.Categorical(["Innere", "Chirurgie", "Geburtshilfe"]),
        "Aufnahme": sd.Datetime("2024-01-01", "2026-01-01", resolution="D"),
        "Dauer": sd.Duration(dt.timedelta(0), dt.timedelta(days=60), nullable=True, resolution="h"),
    }
)


def hospital(rows: int = 6000) -> pl.DataFrame:
    """Visits that never happened: no two columns are independent."""
    rng = np.random.default_rng(11)
    smokes = rng.random(rows) < 0.3
    station = rng.choice(["Innere", "Chirurgie", "Geburtshilfe"], rows, p=[0.5, 0.35, 0.15])
    hours = rng.gamma(2, 30, rows) * np.where(station == "Innere", 2, 1)
    table = pl.DataFrame(
        {
            "Patient": [f"patient {i}" for i in rng.permutation(rows)],
            "größe_cm": np.where(station == "Geburtshilfe", rng.normal(52, 3, rows), rng.normal(172, 9, rows)),
            "Zigaretten": np.where(rng.random(rows) < 0.1, -1, np.where(smokes, rng.poisson(12, rows), 0)),
            "raucht": smokes,
            "Station": pl.Series(station, dtype=pl.Enum(["Innere", "Chirurgie", "Geburtshilfe"])),
            "Aufnahme": [dt.date(2024, 1, 1) + dt.timedelta(days=int(day)) for day in rng.integers(0, 730, rows)],
            "Dauer": [dt.timedelta(hours=int(hour)) for hour in hours],
        }
    )
    unknown = pl.Series(rng.random(rows) < 0.15)
    return table.with_columns(pl.when(~unknown).then(pl.col("größe_cm", "raucht", "Dauer")))


def main() -> None:
    real = hospital()
    synthetic = sd.SyntheticRelease(schema=SCHEMA, epsilon=1.0, random_state=0).fit_transform(real)
    assert synthetic.schema == real.schema  # names, order and types, to the time unit and the Enum's levels
    print(synthetic.head())
    missing = {"real (NON-PRIVATE)": real.null_count(), "synthetic": synthetic.null_count()}
    print("Missing values:", {words: counts.row(0, named=True)["raucht"] for words, counts in missing.items()})
    for words, table in (("real (NON-PRIVATE)", real), ("synthetic", synthetic)):
        print(words, table.group_by("Station").agg(pl.len(), pl.mean("größe_cm"), pl.mean("Dauer")).sort("Station"))


if __name__ == "__main__":
    main()
