"""Every size of the smooth synthesis can be set by name, in Python and on the command line, and stands on the receipt."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import synthdp as sd
from synthdp.cli.main import main

SCHEMA = sd.Schema({"x": sd.Continuous(-1, 1), "y": sd.Continuous(-1, 1)})
SETTINGS = {
    "exact": (
        {"variant": "exact", "smoothness": 3, "degrees": 4, "grid": 9, "lattice": 70, "law": "laplace"},
        ["K = 3 with t = 4, N = 9, L = 70", "it draws m = ", "objective", "gap", "discrete Laplace"],
    ),
    "practical": (
        {"variant": "practical", "functions": 11, "candidates": 250, "grid": 12, "degrees": 4, "order": 2},
        ["R = 11 random functions of up to 2 columns and t = 4 degrees", "C = 250 candidates, N = 12", "objective"],
    ),
}


def table(rows: int = 300) -> pd.DataFrame:
    return pd.DataFrame(np.random.default_rng(0).uniform(-1, 1, (rows, 2)), columns=["x", "y"])


@pytest.mark.parametrize("variant", list(SETTINGS))
def test_every_size_is_an_option_of_the_estimator(variant):
    options, told = SETTINGS[variant]
    made = sd.SyntheticRelease(
        schema=SCHEMA,
        mechanism="smooth_synthesis",
        mechanism_options=options,
        epsilon=1,
        delta=0,
        neighbors="replace_one",
    ).fit(table())
    receipt = " ".join(str(made.receipt_).split())
    assert [part for part in told if part not in receipt] == []
    assert made.sample(20).shape == (20, 2)


@pytest.mark.parametrize("variant", list(SETTINGS))
def test_every_size_is_an_option_on_the_command_line(variant, tmp_path):
    options, told = SETTINGS[variant]
    table().to_csv(tmp_path / "table.csv", index=False)
    (tmp_path / "schema.json").write_text(SCHEMA.to_json(), encoding="utf-8")
    given = [f"--option={name}={value}" for name, value in options.items()]
    places = [str(tmp_path / "table.csv"), "--schema", str(tmp_path / "schema.json")]
    written = ["--out", str(tmp_path / "out.csv"), "--receipt", str(tmp_path / "receipt.json")]
    loss = ["--epsilon", "1", "--delta", "0", "--neighbors", "replace_one"]
    ran = CliRunner().invoke(main, ["release", *places, *written, *loss, "--mechanism=smooth_synthesis", *given])
    assert ran.exit_code == 0, ran.output
    receipt = json.dumps(json.loads((tmp_path / "receipt.json").read_text(encoding="utf-8")))
    assert [part for part in told if part not in receipt] == []
    assert len(pd.read_csv(tmp_path / "out.csv")) == 300
