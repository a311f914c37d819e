"""The L1 fit against maximum entropy of the same measurements: three-way error and CPU seconds.

Every release is fitted five ways: by the program over columns, by multiplicative weights alone, by the bare program
(``sifting``), by maximum entropy of all its tables (of the tree of wide tables), and by independent columns.  Adult chose
the constants of the fit; hmeq, wdbc and the generated tables did not.  ``--releases`` times whole releases of wide tables
in every basis, beside the flagship; ``--sweep`` changes one constant at a time.  Prints one JSON line per table and epsilon.

    python benchmarks/utility/l1_fit.py [--tables generated,adult,...] [--epsilon 1] [--seeds 3] [--data FOLDER]
    python benchmarks/utility/l1_fit.py --releases
    python benchmarks/utility/l1_fit.py --sweep --tables hmeq,wdbc,generated --data FOLDER
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from field_tables import declared
from metrics import marginal_error

import synthdp as sd
from synthdp.data import adult, adult_schema
from synthdp.distribution.distribution import Distribution
from synthdp.fit.explicit import l1_program, problem as fit_problem
from synthdp.fit.explicit.l1_program import L1Program
from synthdp.fit.explicit.problem import FitProblem
from synthdp.fit.explicit.sifting import Sifting
from synthdp.fit.explicit.solver import FitResult
from synthdp.fit.max_entropy import MaxEntropy
from synthdp.mechanisms import l1_fit
from synthdp.mechanisms.l1_fit import tree_of_pairs
from synthdp.randomness import generator

WIDE = [name for name in adult_schema() if name not in ("fnlwgt", "education-num")]
ADULT = {
    "adult: sex, race, income": ["sex", "race", "income"],
    "adult: sex, income, relationship, workclass": ["sex", "income", "relationship", "workclass"],
    "adult: age, income, sex": ["age", "income", "sex"],
    "adult: 13 columns": WIDE,
}
FIVE = ["age", "education-num", "hours-per-week", "sex", "income"]
SETTINGS: dict[str, tuple[Any, str, tuple[Any, ...]]] = {
    "insensitive": (fit_problem, "INSENSITIVE", (0.25, 0.5, 0.75, 1.0)),
    "insensitive, drawn": (fit_problem, "INSENSITIVE_DRAWN", (0.5, 0.75, 1.0, 1.25)),
    "path": (l1_program, "MULTIPLES", ((), (10.0,), (30.0, 10.0, 3.0), (100.0, 30.0, 10.0, 3.0))),
    "steps before a program": (l1_program, "ROUND_SHARE", (0.1, 0.2, 0.4)),
    "columns": (l1_program, "MAX_COLUMNS", (25, 50, 100, 200)),
    "gap": (l1_program, "GAP", (0.01, 0.05, 0.2)),
    "memory": (l1_program, "MEMORY", (10, 20, 40)),
}
"""The constants of the fit: where each is, and what it is changed to."""


def generated(seed: int, sizes: tuple[int, ...], rows: int, *, classes: int = 6) -> pd.DataFrame:
    """Return a table of labels that are independent within hidden classes."""
    rng = generator(seed)
    hidden = rng.choice(classes, rows, p=rng.dirichlet(np.ones(classes)))
    columns = {}
    for j, size in enumerate(sizes):
        shares = rng.dirichlet(np.ones(size), classes).cumsum(axis=1)
        codes = np.minimum((rng.random(rows)[:, None] > shares[hidden]).sum(axis=1), size - 1)
        columns[f"c{j}"] = np.array([f"v{i}" for i in range(size)])[codes]
    return pd.DataFrame(columns)


def tables(folder: Path) -> dict[str, tuple[pd.DataFrame, sd.Schema]]:
    """Return all tables by name; those of the folder only where it has them."""
    found = {
        f"generated {seed}": (table, declared(table))
        for seed, sizes, rows in ((1, (2, 2, 6, 7), 20_000), (2, (2, 5, 2), 10_000), (3, (4, 4, 4, 4), 5_000))
        for table in [generated(seed, sizes, rows)]
    }
    schema = adult_schema()
    found |= {n: (adult()[names], sd.Schema({c: schema[c] for c in names})) for n, names in ADULT.items()}
    for name, file, columns in (
        ("hmeq: BAD, REASON, JOB, DELINQ", "hmeq.csv", ["BAD", "REASON", "JOB", "DELINQ"]),
        ("nltcs: 8 of 16 columns", "boards/nltcs.csv", None),
        ("wdbc: 4 columns", "wdbc.csv", [0, 2, 3, 6]),
    ):
        if (folder / file).exists():
            table = pd.read_csv(folder / file)
            names = table.columns[:8] if columns is None else columns
            table = table[[table.columns[one] if isinstance(one, int) else one for one in names]]
            found[name] = (table, declared(table))
    return found


class Fits:
    """Takes the place of the solver within one release, and fits its problem in every way."""

    def __init__(self, *, bare: bool) -> None:
        self.bare = bare
        self.found: dict[str, tuple[Any, float]] = {}
        self.gain = self.noise = 0.0
        self.noisy: Any = None

    def solve(self, problem: FitProblem, _: str) -> FitResult:
        ways: dict[str, Any] = {"lp": L1Program(gap=l1_program.GAP), "mw": L1Program(name="mw")}
        if self.bare:
            ways["bare lp"] = Sifting()
        for name, solver in ways.items():
            one = replace(problem, pull=0.0, insensitive=0.0) if name == "bare lp" else problem
            begin = time.process_time()
            fit = solver.solve(one)
            self.found[name] = (fit, time.process_time() - begin)
        self.gain = self.found["mw"][0].objective - self.found["lp"][0].objective
        self.noise = problem.noise_level
        return self.found["lp"][0]


def measure(table: pd.DataFrame, schema: sd.Schema, *, epsilon: float, seed: int) -> dict[str, tuple[float, float]]:
    """Return the three-way error and the CPU seconds of every way to fit one release; of ``release``, without its fit."""
    fits, noisy_of = Fits(bare=len(schema) < 10), l1_fit.NoisyAverages.of
    solved, l1_fit.solved = l1_fit.solved, fits.solve
    kept: list[Any] = []

    def keep(*arguments: Any, **settings: Any) -> Any:
        kept.append((noisy_of(*arguments, **settings), settings["total"], arguments[0]))
        return kept[0][0]

    l1_fit.NoisyAverages.of = keep  # type: ignore[method-assign]
    try:
        curator = sd.Curator(table, schema=schema, budget=sd.ApproxDP(epsilon, 1e-9))
        begin = time.process_time()
        model = sd.L1Fit().release(curator, random_state=seed).output
        whole = time.process_time() - begin
    finally:
        l1_fit.solved, l1_fit.NoisyAverages.of = solved, noisy_of  # type: ignore[method-assign]
    noisy, total, domain = kept[0]

    def error(distribution: Distribution) -> float:
        synthetic = replace(model, distribution=distribution).sample(len(table), random_state=seed)
        return marginal_error(table, synthetic, schema, order=3)

    result = {
        way: (error(replace(model.distribution, weights=fit.weights)), seconds)
        for way, (fit, seconds) in fits.found.items()
    }
    begin = time.process_time()
    if len(schema) < 10:
        best = MaxEntropy().fit(noisy.tables, domain.shape, total=total).model
    else:
        best = tree_of_pairs(noisy.tables, domain, {}, total=total)
    result["maximum entropy"] = (error(best), time.process_time() - begin)
    ones = [one for one in noisy.tables if len(one.clique) == 1]
    result["independent"] = (error(MaxEntropy().fit(ones, domain.shape, total=total).model), 0.0)
    result["release"] = (0.0, whole - sum(seconds for _, seconds in fits.found.values()))
    result["gain over mw / noise"] = (fits.gain / fits.noise, 0.0)
    return result


def releases(seeds: int, chosen: str) -> None:
    """Print three-way errors and CPU seconds of whole releases of Adult in every basis, and of the flagship."""
    schema = adult_schema()
    cases: list[tuple[str, list[str], Any]] = [("five", FIVE, {"basis": "trigonometric", "degree": 6})]
    every = ("trigonometric", "mixed", "marginals")
    for name, names, bases in (("ten", WIDE[:10], every), ("fifteen", list(schema.names), ("marginals",))):
        cases += [(name, names, {"basis": basis}) for basis in bases]
        cases += [(name, names, None)]
    for name, names, options in cases:
        if not name.startswith(tuple(chosen.split(","))):
            continue
        part, table = schema.part(names), adult()[names]
        runs = []
        for seed in range(seeds):
            curator = sd.Curator(table, schema=part, budget=sd.ApproxDP(1.0, 1e-9))
            mechanism = sd.AdaptiveMarginals() if options is None else sd.L1Fit(**options)
            begin = time.process_time()
            model = mechanism.release(curator, random_state=seed).output
            seconds = time.process_time() - begin
            runs.append((marginal_error(table, model.sample(len(table), random_state=seed), part, order=3), seconds))
        error, seconds = np.mean(runs, axis=0)
        way = "adaptive marginals" if options is None else options["basis"]
        line = {"benchmark": "l1_fit releases", "columns": name, "way": way, "seeds": seeds}
        print(json.dumps(line | {"three_way": round(error, 4), "seconds": round(seconds, 2)}), flush=True)


def sweep(found: dict[str, tuple[pd.DataFrame, sd.Schema]], seeds: int) -> None:
    """Print the mean three-way error over tables for each value of each constant, in multiples of the best."""
    for what, (module, name, values) in SETTINGS.items():
        whole = getattr(module, name)
        errors, seconds = [], []
        for value in values:
            setattr(module, name, value)
            runs = [
                measure(table, schema, epsilon=epsilon, seed=seed)["lp"]
                for table, schema in found.values() for epsilon in (0.3, 3.0) for seed in range(seeds)
            ]  # fmt: skip
            errors.append(float(np.exp(np.mean(np.log([run[0] for run in runs])))))
            seconds.append(float(np.sum([run[1] for run in runs])))
        setattr(module, name, whole)
        line: dict[str, Any] = {"benchmark": "l1_fit sweep", "constant": what, "tables": list(found), "seeds": seeds}
        line |= {
            "values": values,
            "three_way": [round(x, 4) for x in errors],
            "seconds": [round(x, 2) for x in seconds],
        }
        print(json.dumps(line), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default="", help="beginnings of names, with commas between them; all if empty")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 1.0, 10.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=Path("data"), help="where hmeq.csv and boards/nltcs.csv are")
    parser.add_argument("--releases", action="store_true")
    parser.add_argument("--sweep", action="store_true")
    arguments = parser.parse_args()
    sd.L1Fit(solver="lp").release(  # imports are nobody's time
        sd.Curator(generated(0, (2, 2), 100), schema=declared(generated(0, (2, 2), 100)), budget=sd.ApproxDP(1, 1e-6))
    )
    if arguments.releases:
        releases(arguments.seeds, arguments.tables)
        return
    found = {n: one for n, one in tables(arguments.data).items() if n.startswith(tuple(arguments.tables.split(",")))}
    if arguments.sweep:
        sweep(found, arguments.seeds)
        return
    for name, (table, schema) in found.items():
        for epsilon in arguments.epsilon:
            runs = [measure(table, schema, epsilon=epsilon, seed=seed) for seed in range(arguments.seeds)]
            line: dict[str, Any] = {"benchmark": "l1_fit", "table": name, "tuned_on": name.startswith("adult")}
            line |= {"epsilon": epsilon, "seeds": arguments.seeds}
            for index, what in enumerate(("three_way", "seconds")):
                line[what] = {way: round(float(np.mean([run[way][index] for run in runs])), 4) for way in runs[0]}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
