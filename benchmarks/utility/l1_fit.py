"""The L1 fit against maximum entropy of the same measurements: three-way error and CPU seconds.

Every release is fitted five ways: by the bare program (``pull`` 0), by the program with a pull, by multiplicative
weights, by maximum entropy of all its tables (of the tree of 13 columns), and by independent columns.  The generated
tables chose the constants of the fit; the others did not.  Prints one JSON line per table and epsilon.

    python benchmarks/utility/l1_fit.py [--tables generated,adult,...] [--epsilon 1] [--seeds 3] [--data FOLDER]
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
from synthdp.fit.explicit.l1_highs import L1Highs
from synthdp.fit.explicit.multiplicative_weights import MultiplicativeWeights

import synthdp as sd
from synthdp.data import adult, adult_schema
from synthdp.distribution.protocol import Distribution
from synthdp.fit.explicit.problem import FitProblem
from synthdp.fit.explicit.solver import FitResult
from synthdp.fit.graphical.max_entropy import MaxEntropy
from synthdp.mechanisms import l1_fit
from synthdp.mechanisms.l1_candidates import tree_of_pairs
from synthdp.randomness import generator

WIDE = [name for name in adult_schema() if name not in ("fnlwgt", "education-num")]
ADULT = {
    "adult: sex, race, income": ["sex", "race", "income"],
    "adult: sex, income, relationship, workclass": ["sex", "income", "relationship", "workclass"],
    "adult: age, income, sex": ["age", "income", "sex"],
    "adult: 13 columns": WIDE,
}


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
    ):
        if (folder / file).exists():
            table = pd.read_csv(folder / file)
            table = table[columns] if columns else table.iloc[:, :8]
            found[name] = (table, declared(table))
    return found


class Fits:
    """Takes the place of the solver within one release, and fits its problem in every way."""

    def __init__(self, *, bare: bool) -> None:
        self.bare = bare
        self.found: dict[str, tuple[Any, float]] = {}
        self.noisy: Any = None

    def solve(self, problem: FitProblem, _: str) -> FitResult:
        ways = {"lp": (L1Highs(), problem), "mw": (MultiplicativeWeights(), problem)}
        if self.bare:
            ways["bare lp"] = (L1Highs(), replace(problem, pull=0.0, insensitive=0.0))
        for name, (solver, one) in ways.items():
            begin = time.process_time()
            fit = solver.solve(one)
            self.found[name] = (fit, time.process_time() - begin)
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
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default="", help="beginnings of names, with commas between them; all if empty")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 1.0, 10.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=Path("data"), help="where hmeq.csv and boards/nltcs.csv are")
    arguments = parser.parse_args()
    sd.L1Fit(solver="lp").release(  # imports are nobody's time
        sd.Curator(generated(0, (2, 2), 100), schema=declared(generated(0, (2, 2), 100)), budget=sd.ApproxDP(1, 1e-6))
    )
    for name, (table, schema) in tables(arguments.data).items():
        if not name.startswith(tuple(arguments.tables.split(","))):
            continue
        for epsilon in arguments.epsilon:
            runs = [measure(table, schema, epsilon=epsilon, seed=seed) for seed in range(arguments.seeds)]
            line: dict[str, Any] = {"benchmark": "l1_fit", "table": name, "tuned_on": name.startswith("generated")}
            line |= {"epsilon": epsilon, "seeds": arguments.seeds}
            for index, what in enumerate(("three_way", "seconds")):
                line[what] = {way: round(float(np.mean([run[way][index] for run in runs])), 4) for way in runs[0]}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
