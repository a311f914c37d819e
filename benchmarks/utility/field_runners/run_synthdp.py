"""synthdp itself, by the same protocol and the same clock as its peers; and two yardsticks.

``synthdp`` releases by its flagship; ``independent`` spends the whole budget on one-way tables; ``bootstrap`` draws real
rows with replacement, which is not private: its error is that of a finite sample.  ``train.csv`` and ``synthetic.csv``
hold plain values, and the plan the schema.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pandas as pd
from protocol import Plan, serve

sys.path.insert(0, str(Path(__file__).parents[1]))

from field_tables import read_csv
from flagship import bootstrap, independent

from synthdp import Schema, SyntheticRelease


def flagship(table: pd.DataFrame, schema: Schema, epsilon: float, seed: int, delta: float) -> pd.DataFrame:
    """Release as a user does, and sample as many rows as it thinks there are."""
    release = SyntheticRelease(schema=schema, epsilon=epsilon, delta=delta, random_state=seed).fit(table)
    return release.sample(random_state=seed)


def release(plan: Plan, table: pd.DataFrame) -> pd.DataFrame:
    """One synthetic table."""
    schema, epsilon, seed = Schema.from_json(json.dumps(plan["schema"])), plan["epsilon"], plan["seed"]
    if plan["method"] == "synthdp":
        return flagship(table, schema, epsilon, seed, plan["delta"])
    return {"independent": independent, "bootstrap": bootstrap}[plan["method"]](table, schema, epsilon, seed)


def load(folder: Path, plan: Plan) -> pd.DataFrame:
    """The private rows."""
    return read_csv(folder / "train.csv", Schema.from_json(json.dumps(plan["schema"])))


def save(folder: Path, _plan: Plan, table: pd.DataFrame) -> None:
    """Write the synthetic rows."""
    table.to_csv(folder / "synthetic.csv", index=False)


if __name__ == "__main__":
    serve(release, packages=["synthdp", "opendp"], load=load, save=save)
