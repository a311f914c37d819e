"""The benchmarks of public boards: their declarations hold on the real tables, and their programs run.

NIST's data and SDNist are not part of the repository: tests that need them skip where they are not.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from synthdp import Boolean, Curator, GaussianDP, Schema
from synthdp.domain.domain import domain_of
from synthdp.domain.encoder import encode
from synthdp.domain.rules import rules_of
from synthdp.queries.linear import Total
from synthdp.tables.dataframe import FrameSource

ROOT = Path(__file__).parents[2]
UTILITY = ROOT / "benchmarks" / "utility"
NIST = ROOT / "../shared/data/boards/nist"
JUDGE = os.environ.get("SYNTHDP_SDNIST", "")
SETS = ["demographic", "family", "industry", "simple", "simple, places"]

with_data = pytest.mark.skipif(not NIST.exists(), reason="NIST's excerpts are not in ../shared/data/boards/nist")
with_judge = pytest.mark.skipif(
    not JUDGE, reason="SYNTHDP_SDNIST does not name the python of an environment with sdnist"
)

ECHO = """
import json, sys
for path in sys.argv[2:]:
    print(json.dumps({"lines": open(path).read().split()}))
"""


def run(script: str, *options: str) -> list[dict]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(UTILITY / script), *options]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


@with_data
@pytest.mark.parametrize("name", SETS)
def test_no_real_row_breaks_what_is_declared_of_nists_columns(load, name):
    nist = load("nist")
    schema = nist.schema_of(name, json.loads((NIST / "data_dictionary.json").read_text(encoding="utf-8")))
    table = nist.table_of(NIST, nist.SETS[name])
    raw = next(FrameSource(table).blocks(schema))
    indices = {column: encode(schema[column], raw[column]) for column in schema}
    assert all(axis.releasable[axis.cells_of(indices[axis.name])].all() for axis in domain_of(schema).axes)
    assert not any(rule.broken(indices).any() for rule in rules_of(schema))


def test_a_missing_value_reaches_the_judge_as_the_letter_n_and_whole_numbers_without_a_point(
    load, tmp_path, monkeypatch
):
    nist = load("nist")
    monkeypatch.setattr(nist, "JUDGE", tmp_path / "echo.py")
    nist.JUDGE.write_text(ECHO)
    table = pd.DataFrame({"AGEP": [3.0, 40.0], "MSP": [None, "1"], "PINCP": [np.nan, -50.0]})
    other = pd.DataFrame({"AGEP": [7], "MSP": ["6"], "PINCP": [12]})
    found = nist.judged([table, other], judge=sys.executable, folder=tmp_path)
    assert [one["lines"] for one in found] == [["AGEP,MSP,PINCP", "3,N,N", "40,1,-50"], ["AGEP,MSP,PINCP", "7,6,12"]]


def test_questions_are_exact_inside_and_noisy_outside(load):
    without = load("without_noise")
    schema = Schema({"a": Boolean()})
    table = pd.DataFrame({"a": [True] * 30})

    def counts(step: str) -> set[int]:
        curator = Curator(table, schema=schema, budget=GaussianDP(0.1))
        total = Total(domain_of(schema))
        return {int(curator.measure(total, spend=GaussianDP(0.01), step=step).answers[0]) for _ in range(30)}

    with without.without_noise(("number",)):
        assert counts("number of rows") == {30}
        assert len(counts("another")) > 1
    assert len(counts("number of rows")) > 1


@pytest.mark.slow
@with_data
@with_judge
def test_sdnist_judges_a_release_and_the_real_rows(tmp_path):
    options = ["--judge", JUDGE, "--data", str(NIST), "--set", "industry", "--seeds", "1"]
    found = {one["method"]: one for one in run("nist.py", *options, "--method", "synthdp", "--method", "real")}
    assert 850 < found["synthdp"]["score"] < found["real"]["score"] < 1000
    assert found["synthdp"]["dropped"] == []


@pytest.mark.slow
@pytest.mark.parametrize(("script", "least"), [("characters.py", 4), ("sweep.py", 4)])
def test_a_tiny_run_prints_a_record_a_line(script, least):
    records = run(script, "--tiny")
    assert len(records) >= least
    assert all(0 <= record.get("accuracy", record.get("three_way")) <= 1 for record in records)
