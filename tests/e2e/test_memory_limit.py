"""A file larger than the memory that the process may have."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

LIMIT = 700 * 2**20
COLUMNS, PIECES, PIECE = 12, 18, 500_000
COUNT = """
import resource, sys
resource.setrlimit(resource.RLIMIT_DATA, (int(sys.argv[2]), int(sys.argv[2])))
from synthdp.domain.domain import domain_of
from synthdp.privacy.neighbors import Adjacency
from synthdp.curator.private_table import PrivateTable
from synthdp.queries.marginals import Marginals, all_cliques
from synthdp.schema.columns import Continuous
from synthdp.schema.schema import Schema
from synthdp.tables.sources.parquet import ParquetSource
source = ParquetSource(sys.argv[1])
schema = Schema({name: Continuous(0, 1) for name in source.names})
domain = domain_of(schema, bins=10)
room = PrivateTable(source, schema, Adjacency())
for _ in range(2):
    print(room.exact(Marginals(domain, all_cliques(domain, 2))).sum())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits the data of a process as Linux does")
def test_a_table_larger_than_memory_is_counted_whole(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "t.parquet"
    schema = pa.schema([(f"x{j}", pa.float64()) for j in range(COLUMNS)])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for _ in range(PIECES):
            table = pa.table({name: rng.random(PIECE) for name in schema.names}, schema=schema)
            writer.write_table(table, row_group_size=100_000)
    assert path.stat().st_size > LIMIT
    found = subprocess.run(
        [sys.executable, "-c", COUNT, str(path), str(LIMIT)], capture_output=True, text=True, check=False
    )
    path.unlink()
    pairs = COLUMNS * (COLUMNS - 1) // 2
    assert found.stdout.split() == [str(pairs * PIECES * PIECE)] * 2, found.stderr[-2000:]
