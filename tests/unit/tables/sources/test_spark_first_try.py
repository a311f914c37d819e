"""Spark as a user meets it: no setting by hand, few jobs, and one sentence where the executors lack something."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install 'synthdp[spark]'; it needs Java 17")

pytestmark = pytest.mark.slow

SESSION = """
import sys, warnings
from pathlib import Path
from pyspark.sql import SparkSession
import numpy as np, pandas as pd
import synthdp as sd
warnings.simplefilter("ignore")
folder = Path(sys.argv[1])
spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
         .config("spark.sql.warehouse.dir", str(folder / "warehouse")).getOrCreate())
rng = np.random.default_rng(0)
walk = np.cumsum(rng.normal(size=(3000, 8)), axis=1)
frame = pd.DataFrame({f"x{j}": np.digitize(walk[:, j], [-2, 0, 2]) for j in range(8)})
frame["who"] = rng.integers(0, 700, 3000)
schema = sd.Schema({f"x{j}": sd.Integer(0, 3) for j in range(8)})
"""

FIRST_TRY = (
    SESSION
    + """
spark.createDataFrame(frame).repartition(3).write.saveAsTable("visits")

def jobs():
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(None))

source, before = sd.SparkSource("visits"), jobs()
release = sd.SyntheticRelease(schema=schema, epsilon=3.0, random_state=0).fit(source)
asked = jobs() - before
assert sum(len(getattr(m.queries, "cliques", ())) for m in release.release_.measurements) > 10  # tables
assert asked <= 11, asked  # ten questions, and one to encode

from synthdp.queries.marginals import Marginals, all_cliques
domain = sd.domain_of(schema)
pairs = Marginals(domain, all_cliques(domain, 2))
sums = []
for table in (spark.table("visits"), frame):
    for unit in (None, "who"):
        from synthdp.curator.private_table import PrivateTable
        from synthdp.privacy.neighbors import Adjacency
        from synthdp.tables.resolve import source_of
        held = PrivateTable(source_of(table), schema, Adjacency(unit=unit, rows=1))
        sums.append(held.exact(pairs).tolist())
assert sums[:2] == sums[2:]

from synthdp.tables.sources.spark import sample_on_spark
synthetic = sample_on_spark(spark, release.release_.output, 5000, partitions=4, random_state=0)
synthetic.write.parquet(str(folder / "synthetic"))
synthetic.write.saveAsTable("synthetic")
assert spark.table("synthetic").count() == 5000
assert spark.sparkContext.pythonExec == "python3"  # the user's session is as it was
try:
    sd.SparkSource("nothing")
except sd.errors.DataError as error:
    print(error)
print("all is well")
"""
)

LACKING = (
    SESSION
    + """
ledger = sd.Ledger(folder / "ledger.sqlite")
try:
    sd.SyntheticRelease(schema=schema, ledger=ledger.path, dataset="d").fit(spark.createDataFrame(frame.head(10)))
except sd.errors.DataError as error:
    print("said:", error)
assert not ledger.entries()
"""
)


def ran(script: str, folder: Path, **environment: str) -> str:
    """What a program of its own prints, in which nothing of these tests is set."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    kept["PYTHONPATH"] = str(Path(__file__).parents[4])
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)], env=kept | environment, cwd=folder, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.landing
def test_a_table_by_its_name_is_released_and_written_without_a_setting_by_hand(tmp_path: Path) -> None:
    said = ran(FIRST_TRY, tmp_path)
    assert "Spark's catalogue has no table 'nothing'" in said
    assert "all is well" in said
    assert len(list((tmp_path / "synthetic").glob("part-*.parquet"))) == 4


@pytest.mark.parametrize(
    ("python", "sentence"),
    [
        ("/nowhere/python", "the executors find no Python"),
        pytest.param("bare", "is missing in the executors' Python", marks=pytest.mark.landing),
    ],
)
def test_what_the_executors_lack_is_said_before_anything_is_spent(python: str, sentence: str, tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -s "$@"\n')  # without what is installed
    bare.chmod(0o755)
    named = {"bare": str(bare)}.get(python, python)
    assert sentence in ran(LACKING, tmp_path, PYSPARK_PYTHON=named)
