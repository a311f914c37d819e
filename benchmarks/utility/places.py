"""Places within places: tables of (place, year, column), all other pairs, and sums at each step of the hierarchy.

    python benchmarks/utility/places.py [--ways none workload places both] [--epsilon 1] [--seeds 3] [--data FOLDER]
        [--out places.jsonl]

The American Community Survey by 181 places of two states and 7 years in ../shared/data/boards/places (170 254 rows): the
mean total variation distance of the (place, year, column) tables, of the pairs of other columns, of (place, column), and
by how many rows a sample is off the counts that add up at every step (``off``).  ``none``: a release
as it is, its places without states.  ``workload``: told the (place, year, column) tables.  ``places``: ``places="PUMA"``.
``both``.  A bootstrap is written first.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from json_lines import tell

import synthdp as sd
from synthdp.queries.contingency import contingency

DATA = Path(__file__).parents[2] / "../shared/data/boards/places"
PLACE, YEAR = "PUMA", "YEAR"
FIRST_STATE = 88
"""Places of the first state; codes are in the order of the state and the place."""
LEVELS = {"SEX", "RACE", "HISPAN", "MARST", "EMPSTAT", YEAR}


def schema_of(table: pd.DataFrame, *, steps: bool) -> sd.Schema:
    """Return the schema, perhaps with the two states as a step above the places."""
    largest = {name: int(table[name].max()) for name in table}
    states = ["first"] * FIRST_STATE + ["second"] * (largest[PLACE] + 1 - FIRST_STATE)
    columns = {
        name: sd.Categorical(list(range(most + 1)), groups=[states] if name == PLACE and steps else ())
        if name in LEVELS or name == PLACE
        else sd.Integer(0, most)
        for name, most in largest.items()
    }
    return sd.Schema(columns)


def distance(real: pd.DataFrame, synthetic: pd.DataFrame, columns: list[str]) -> float:
    """Return the total variation distance of a table."""
    shares = (one.value_counts(columns, normalize=True) for one in (real, synthetic))
    first, second = shares
    return 0.5 * float(first.sub(second, fill_value=0).abs().sum())


def errors(real: pd.DataFrame, synthetic: pd.DataFrame) -> dict[str, float]:
    """Return mean distances."""
    others = [name for name in real if name not in (PLACE, YEAR)]
    tables = {
        "place_year_column": [[PLACE, YEAR, name] for name in others],
        "other_pairs": [list(pair) for pair in itertools.combinations(others, 2)],
        "place_column": [[PLACE, name] for name in others],
    }
    return {
        name: round(float(np.mean([distance(real, synthetic, one) for one in some])), 5)
        for name, some in tables.items()
    }


def off(release: sd.SyntheticRelease) -> int:
    """Return by how many rows a new sample is off the release's exact tables at most, over all of their cells."""
    model = release.release_.model
    codes = model.domain.codes(model.sample_indices(model.rows, np.random.default_rng(1)))
    tables = [(one.counts, contingency(codes, model.domain.shape, one.clique)) for one in model.exact]
    return int(max(np.abs(found - wanted).max() for wanted, found in tables))


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    ways = ("none", "workload", "places", "both")
    parser.add_argument("--ways", nargs="*", default=list(ways), choices=ways)
    parser.add_argument("--epsilon", nargs="*", type=float, default=[1.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--out", type=Path)
    told = parser.parse_args()
    table = pd.read_csv(told.data / "places.csv.gz").drop(columns="PERWT")
    columns = [name for name in table if name not in (PLACE, YEAR)]
    tell({"way": "bootstrap"} | errors(table, table.sample(len(table), replace=True, random_state=0)), told.out)
    for epsilon, way, seed in itertools.product(told.epsilon, told.ways, range(told.seeds)):
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            release = sd.SyntheticRelease(
                schema=schema_of(table, steps=way in ("places", "both")), epsilon=epsilon, random_state=seed,
                workload=[(PLACE, YEAR, name) for name in columns] if way in ("workload", "both") else None,
                places=PLACE if way in ("places", "both") else None,
            ).fit(table)  # fmt: skip
            synthetic = release.sample()
        found = {"way": way, "epsilon": epsilon, "seed": seed, "seconds": round(time.process_time() - start, 1)}
        found |= errors(table, synthetic)
        if way in ("places", "both"):
            found["off"] = off(release)
        tell(json.loads(json.dumps(found)), told.out)


if __name__ == "__main__":
    main()
