"""Customers, policies and claims of an insurer with known laws: three tables, 168 000 rows, judged from outside.

    python benchmarks/utility/insurer.py [--epsilon 1 5] [--seeds 3] [--customers 50000] [--named] [--shared ../shared]
        [--out lines.jsonl] [--releases FOLDER]

The tables are not part of this repository: the program looks for ``lab/insurer`` in the folder ``--shared``, and says so and
ends where it is missing.  A line has:

* ``masses``: over every value that more than 2 % of the rows of a table have, the largest and the mean error of its share;
* ``own``, ``parent``, ``children``, ``before``: over pairs of columns of one row, of a row above and one below, of a row and
  the number of its rows in a table below, and of a row and the one before it, the mean error of the two-way table (half the
  sum of absolute differences of shares), divided by that of columns that are drawn independently of each other, with real
  margins and as many rows; ``pairs`` is the mean over all pairs of the four kinds, divided so, ``related`` that over pairs
  whose independent columns are wrong by half as much again as chance would make them, and ``again`` what another draw of the
  same laws has; ``related by kind`` is ``related`` of each kind;
* ``drivers``, ``slope``: how much of the effect of young drivers on motor claims, and of the slope of claims a policy by
  bonus class, is in the synthetic tables (1 is all);
* ``delay``: days until a claim is reported, real and synthetic; ``rho``: Spearman's of income and insured sum;
* ``rows``: by table, the synthetic rows against ``answer(count())``, in standard errors of the answer;
* processor seconds of the release and of the sample, and the largest memory of the process.
"""

from __future__ import annotations

import argparse
import importlib
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from json_lines import tell

import synthdp as sd

SHARED = Path(__file__).resolve().parents[3] / "shared"
Tables = dict[str, pd.DataFrame]
ABOVE = {"policies": ("customers", "customer_id"), "claims": ("policies", "policy_id")}
KEYS = {"customer_id", "policy_id", "claim_id"}
ORDER = {"policies": "start", "claims": "date"}
YOUNG_DRIVERS = ("customers.born", "policies.type", "claims.rows")
CELLS = 12
"""Cells of a number: of equal shares of the real rows."""


def columns(table: pd.DataFrame) -> list[str]:
    """Columns that say something."""
    return [name for name in table if name not in KEYS]


def cells(real: pd.Series, values: pd.Series) -> np.ndarray:
    """The cell of each value, by the real column's levels or quantiles."""
    if real.dtype == object or str(real.dtype) in ("category", "str", "string"):
        levels = sorted(real.astype(str).unique())
        return pd.Categorical(values.astype(str), categories=levels).codes.astype(np.int64) % (len(levels) + 1)
    numbers, own = numbers_of(values), numbers_of(real)
    edges = np.unique(np.quantile(own, np.arange(1, CELLS) / CELLS))
    return np.searchsorted(edges, numbers, side="left")


def numbers_of(values: pd.Series) -> np.ndarray:
    """Values as numbers, days as days."""
    if str(values.dtype).startswith("datetime"):
        return values.to_numpy().astype("datetime64[D]").astype(np.float64)
    return values.to_numpy(np.float64)


def ranked(tables: Tables) -> Tables:
    """The tables with rows in order below their parent rows."""
    found = dict(tables)
    for name in (one for one in ABOVE if one in tables):
        key = ABOVE[name][1]
        found[name] = tables[name].sort_values([key, ORDER[name]], kind="stable").reset_index(drop=True)
    return found


def pairs(real: Tables, made: Tables) -> Iterator[tuple[str, float, float, float]]:
    """Yield the kind of each pair of columns, the error of its two-way table, that of independent columns, and chance."""
    for name, table in real.items():
        mine = columns(table)
        coded = [{one: cells(table[one], some[name][one]) for one in mine} for some in (real, made)]
        for i, a in enumerate(mine):
            for b in mine[i + 1 :]:
                yield "own", *errors(*[(some[a], some[b]) for some in coded])
        for child in (one for one, (above, _) in ABOVE.items() if above == name and one in real):
            key = ABOVE[child][1]
            many = [
                some[name][key].map(some[child][key].value_counts()).fillna(0).to_numpy(int) for some in (real, made)
            ]
            for a in mine:
                yield "children", *errors(*[(some[a], count) for some, count in zip(coded, many, strict=True)])
            below = columns(real[child])
            rows = [some[name].reset_index().set_index(key)["index"] for some in (real, made)]
            at = [one.reindex(some[child][key]).to_numpy() for one, some in zip(rows, (real, made), strict=True)]
            for b in below:
                second = [cells(real[child][b], some[child][b]) for some in (real, made)]
                for a in mine:
                    yield "parent", *errors(*[(coded[k][a][at[k]], second[k]) for k in range(2)])
        if name in ABOVE:
            key = ABOVE[name][1]
            later = [
                np.flatnonzero(some[name][key].to_numpy()[1:] == some[name][key].to_numpy()[:-1])
                for some in (real, made)
            ]
            for a in mine:
                for b in mine:
                    yield "before", *errors(*[(coded[k][a][later[k]], coded[k][b][later[k] + 1]) for k in range(2)])


def errors(real: tuple[np.ndarray, np.ndarray], made: tuple[np.ndarray, np.ndarray]) -> tuple[float, float, float]:
    """The error of a two-way table, that of one of independent columns with real margins, and what chance makes of it."""
    wide = 1 + max(int(one[1].max(initial=0)) for one in (real, made))
    size = wide * (1 + max(int(one[0].max(initial=0)) for one in (real, made)))
    share, other = (np.bincount(a * wide + b, minlength=size) / max(1, len(a)) for a, b in (real, made))
    rng = np.random.default_rng(0)
    drawn = rng.permutation(real[0]) * wide + rng.permutation(real[1])
    alone = np.bincount(drawn, minlength=size) / max(1, len(drawn))
    chance = 0.5 * np.sqrt(4 * alone / np.pi / max(1, len(drawn))).sum()
    return 0.5 * float(np.abs(share - other).sum()), 0.5 * float(np.abs(share - alone).sum()), float(chance)


def masses(real: Tables, made: Tables) -> list[float]:
    """Errors of the shares of values that more than 2 % of rows have."""
    found = []
    for name, table in real.items():
        for column in columns(table):
            share = table[column].value_counts(normalize=True)
            other = made[name][column].value_counts(normalize=True)
            found += [abs(float(other.get(value, 0.0)) - one) for value, one in share.items() if one > 0.02]
    return found


def effects(tables: Tables) -> dict[str, float]:
    """What the laws of the tables show: young drivers, bonus classes, delays, income and insured sum."""
    policies = tables["policies"].merge(tables["customers"], on="customer_id")
    policies["claims"] = policies["policy_id"].map(tables["claims"]["policy_id"].value_counts()).fillna(0)
    motor = policies[policies["type"] == "motor"]
    young = (2018 - motor["born"]) < 28
    some = policies[policies["type"] != "travel"]
    claims = tables["claims"]
    return {
        "drivers": float(motor.loc[young, "claims"].mean() / motor.loc[~young, "claims"].mean()),
        "slope": float(np.polyfit(some["bonus"], some["claims"], 1)[0]),
        "delay": float((claims["reported"] - claims["date"]).dt.days.mean()),
        "rho": float(policies["income"].corr(policies["insured_sum"], method="spearman")),
        "length": float((policies["end"] - policies["start"]).dt.days.mean()),
    }


def judged(real: Tables, made: Tables, release: sd.DatabaseRelease) -> dict[str, Any]:
    """Everything that is said of synthetic tables."""
    real, made = ranked(real), ranked(made)
    found: dict[str, Any] = by_kind(real, made)
    mass = masses(real, made)
    found["masses"] = [round(max(mass), 4), round(float(np.mean(mass)), 4)]
    then, now = effects(real), effects(made)
    found["drivers"] = round((now["drivers"] - 1) / (then["drivers"] - 1), 2)
    found["slope"] = round(now["slope"] / then["slope"], 2)
    for name in ("delay", "length", "rho"):
        found[name] = [round(then[name], 2), round(now[name], 2)]
    found["rows"] = {name: round(off, 1) for name, off in rows_off(made, release).items()}
    return found


def by_kind(real: Tables, made: Tables) -> dict[str, Any]:
    """The errors of pairs in units of independent columns: by kind, over all pairs, and the same over related ones."""
    every = list(pairs(real, made))
    strong = [one for one in every if one[2] > 1.5 * one[3]]
    kinds = list(dict.fromkeys(one[0] for one in every))
    found: dict[str, Any] = {kind: ratio([one for one in every if one[0] == kind]) for kind in kinds}
    found |= {"pairs": ratio(every), "related": ratio(strong)}
    return found | {"related by kind": {kind: ratio([one for one in strong if one[0] == kind]) for kind in kinds}}


def ratio(some: list[tuple[str, float, float, float]]) -> float:
    """The mean error over that of independent columns."""
    return round(sum(one[1] for one in some) / sum(one[2] for one in some), 3)


def rows_off(made: Tables, release: sd.DatabaseRelease) -> dict[str, float]:
    """By table how far its rows are from the answer, in standard errors."""
    found = {}
    for name in made:
        answer = release.answer(sd.count(), of=name).iloc[0]
        found[name] = float((len(made[name]) - answer["estimate"]) / answer["standard_error"])
    return found


def main() -> None:
    """Release, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 5.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--customers", type=int, default=50_000)
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--named", action="store_true", help="a workload names what young drivers' claims depend on")
    parser.add_argument("--releases", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    folder = options.shared / "lab" / "insurer"
    if not folder.exists():
        sys.exit(f"skipped: '{folder}' is not there; give --shared the folder that has it")
    sys.path.insert(0, str(folder))
    laws = importlib.import_module("tables")
    real = laws.make(options.customers)
    again = by_kind(ranked(real), ranked(laws.make(options.customers, seed=1)))
    tell({"customers": options.customers, "again": again}, options.out)
    schema = importlib.import_module("schema").schema()
    for epsilon in options.epsilon:
        for seed in range(options.seeds):
            started = time.process_time()
            workload = [YOUNG_DRIVERS] if options.named else None
            release = sd.DatabaseRelease(schema=schema, epsilon=epsilon, workload=workload, random_state=seed).fit(real)
            fitted = time.process_time()
            if options.releases is not None:
                release.save(options.releases / f"insurer-{epsilon:g}-{seed}")
            made = release.sample()
            sampled = time.process_time()
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            line: dict[str, Any] = {"customers": options.customers, "epsilon": epsilon, "seed": seed}
            line |= {"named": YOUNG_DRIVERS} if options.named else {}
            line |= {"seconds": round(fitted - started, 1), "seconds_to_sample": round(sampled - fitted, 2)}
            tell(line | {"memory_mb": memory} | judged(real, made, release), options.out)


if __name__ == "__main__":
    main()
