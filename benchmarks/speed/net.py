"""Time of one release of the net mechanism: 8 cells, multisets of 20 (888 030 candidates), 7 tables of 26 cells.

python benchmarks/speed/net.py [--tiny]
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import pandas as pd

from synthdp.curator import Curator
from synthdp.domain.domain import domain_of, releasable_domain
from synthdp.privacy.loss import PureDP
from synthdp.queries.linear import CellQueries
from synthdp.queries.marginals import Marginals, all_cliques
from synthdp.schema.columns import Boolean
from synthdp.schema.schema import Schema
from synthdp.works.net.net import NetMechanism, multiset_count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true")
    size = 4 if parser.parse_args().tiny else 20
    rng = np.random.default_rng(0)
    table = pd.DataFrame({name: rng.random(3000) < share for name, share in (("a", 0.3), ("b", 0.6), ("c", 0.5))})
    schema = Schema({name: Boolean() for name in table.columns})
    domain = releasable_domain(domain_of(schema))
    marginals = Marginals(domain, tuple(clique for order in (1, 2, 3) for clique in all_cliques(domain, order)))
    families = {"marginals": marginals, "1000 random": CellQueries(domain, rng.integers(0, 2, (1000, 8)))}
    NetMechanism(marginals, size=2).release(Curator(table, schema=schema, budget=PureDP(1.0)))  # imports
    for name, queries in families.items():
        for neighbors in ("replace_one", "add_remove"):
            begin, cpu = time.perf_counter(), time.process_time()
            curator = Curator(table, schema=schema, budget=PureDP(1.0), neighbors=neighbors)
            NetMechanism(queries, size=size).release(curator)
            seconds = round(time.perf_counter() - begin, 2)
            line = {"queries": name, "neighbors": neighbors, "candidates": multiset_count(8, size), "seconds": seconds}
            print(json.dumps(line | {"cpu_seconds": round(time.process_time() - cpu, 2)}), flush=True)


if __name__ == "__main__":
    main()
