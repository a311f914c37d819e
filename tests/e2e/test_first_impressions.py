"""What a user meets first: the order of the README, a receipt that adds up, drafts and processes that do not cry wolf."""

from __future__ import annotations

import contextlib
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import synthdp as sd
from synthdp.cli.main import main

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["docs/tutorial.md"])
def test_synthetic_rows_and_a_picture_come_before_the_receipt(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    rows, picture, receipt = text.index("age workclass"), text.index("!["), text.index("Privacy receipt")
    assert rows < picture < receipt


def test_the_parts_of_a_receipt_make_its_promise() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({f"c{j}": rng.random(3000) < 0.3 for j in range(5)})
    schema = sd.Schema({name: sd.Boolean() for name in table})
    lines = str(sd.SyntheticRelease(schema=schema, epsilon=1.0).fit(table).receipt_).splitlines()
    parts = [float(found[1]) for line in lines if (found := re.match(r"    \S.* μ = ([\d.]+)", line))]
    (whole,) = [float(found[1]) for line in lines if (found := re.match(r"  together .*μ = ([\d.]+)", line))]
    assert len(parts) >= 3
    assert math.sqrt(sum(part**2 for part in parts)) == pytest.approx(whole, rel=1e-3)
    assert sum("μ is the parameter of Gaussian DP" in line for line in lines) == 1


WRONG = {
    "there is no file": ("nothing.csv",),
    "the file is empty": ("empty.csv",),
    "there are no rows": ("header.csv",),
    "a schema is there already": ("table.csv", "--out", "header.csv"),
    "a column to leave out is not there": ("table.csv", "--without", "b"),
    "the folder is not there": ("table.csv", "--out", "no/such.json"),
}


@pytest.mark.parametrize("arguments", WRONG.values(), ids=WRONG)
def test_a_draft_that_did_not_come_about_says_why_and_warns_of_nothing(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    for name, text in {"empty.csv": "", "header.csv": "a\n", "table.csv": "a\n1\n2\n"}.items():
        (tmp_path / name).write_text(text)
    with contextlib.chdir(tmp_path):
        found = CliRunner(catch_exceptions=False).invoke(main, ("schema", "draft", *arguments))
    assert found.exit_code == 2
    (line,) = found.stderr.splitlines()
    assert "READ OFF" not in line


IN_A_PROCESS = """
import duckdb
import synthdp as sd
from synthdp.errors import DataError
rows = duckdb.connect().execute("select range % 7 as a, range % 2 = 0 as b from range(500)").df()
schema = sd.Schema({"a": sd.Integer(0, 6), "b": sd.Boolean()})
release = sd.SyntheticRelease(schema=schema).fit(duckdb.sql("select * from rows"))
print(len(release.sample(10).fetchall()))
try:
    sd.SyntheticRelease(schema=schema).fit(duckdb.sql("select a from rows"))
except DataError:
    print("refused")
"""


@pytest.mark.slow
def test_a_process_that_read_from_duckdb_ends_without_a_word() -> None:
    """Not even of objects that a library left to the end of the process."""
    pytest.importorskip("duckdb")
    found = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS], capture_output=True, text=True, check=True, timeout=300
    )
    assert (found.stdout.split(), found.stderr) == (["10", "refused"], "")
