"""A column of 300 000 levels, declared and not: what comes out, and the memory that it takes."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import synthdp as sd

MANY = 300_000
PEAK = 1024
"""Most MiB of a process that releases 20 000 rows of such a column, its levels declared."""

PROGRAM = """
import json, resource
import numpy as np, pandas as pd, synthdp as sd
labels = [f"L{i:06d}" for i in range(300_000)]
level = (np.random.default_rng(0).zipf(1.5, 20_000) - 1) % 300_000
table = pd.DataFrame({"code": np.array(labels)[level], "flag": level % 2 == 0})
schema = sd.Schema({"code": sd.Categorical(labels), "flag": sd.Boolean()})
synthetic = sd.SyntheticRelease(schema=schema, epsilon=1.0, delta=1e-9, random_state=0).fit(table).sample(20_000)
frames = (table, synthetic)
shares = [float((frame["code"] == "L000000").mean()) for frame in frames]
flags = [float(frame.loc[frame["code"] == "L000000", "flag"].mean()) for frame in frames]
print(json.dumps([shares, flags, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


@pytest.mark.slow
def test_300_000_declared_levels_take_a_gibibyte_at_most_and_the_frequent_one_keeps_its_share_and_relation():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    shares, flags, peak = json.loads(done.stdout)
    assert shares[1] == pytest.approx(shares[0], abs=0.03)
    assert flags[1] == pytest.approx(flags[0], abs=0.1)
    assert peak < PEAK


@pytest.mark.landing
def test_of_levels_that_nobody_declared_only_frequent_ones_of_the_table_come_out():
    level = (np.random.default_rng(0).zipf(1.3, 20_000) - 1) % MANY
    table = pd.DataFrame({"code": [f"L{i:06d}" for i in level], "flag": level % 2 == 0})
    schema = sd.Schema({"code": sd.Categorical(), "flag": sd.Boolean()})
    synthetic = sd.SyntheticRelease(schema=schema, epsilon=1.0, delta=1e-9, random_state=0).fit(table).sample(5000)
    counts = table["code"].value_counts()
    assert set(synthetic["code"].dropna()) <= set(counts.index[counts >= 5])
    assert set(counts.index[:2]) <= set(synthetic["code"].dropna())
