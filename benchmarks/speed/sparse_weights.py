"""Time of one query to sparse multiplicative weights and to a projection: 1e5 slots, universes of 1e6 and of 2^200.

Prints one JSON line per universe and support size; times are processor time, medians.

    python benchmarks/speed/sparse_weights.py [--tiny]
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import pandas as pd

from synthdp.curator import Curator
from synthdp.privacy.loss import ApproxDP
from synthdp.tables.keys import overlap
from synthdp.works.sparse.projection import SparseProjection
from synthdp.works.sparse.sparse_weights import SparseWeights


def main() -> None:
    """Ask each session many queries and print median times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true")
    tiny = parser.parse_args().tiny
    rows, asked = (500, 20) if tiny else (20_000, 200)
    rng = np.random.default_rng(0)
    for bits in (20, 200):
        people = sorted({"".join(map(str, row)) for row in rng.integers(0, 2, size=(5 * rows, bits))})
        rng.shuffle(people)
        curator = Curator(pd.DataFrame({"person": people[:rows]}), budget=ApproxDP(2.0, 1e-6), neighbors="replace_one")
        for members in (256,) if tiny else (256, 2000):
            queries = [
                overlap(rng.choice(people, size=members, replace=False), columns=["person"]) for _ in range(asked)
            ]
            session = SparseWeights(sparsity=members, max_updates=30, slots=100_000, spend=ApproxDP(0.5, 1e-7)).open(
                curator
            )
            release = SparseProjection(1000 if tiny else 100_000, spend=ApproxDP(0.25, 1e-7)).release(
                curator, random_state=0
            )
            session.table.touch(overlap(people[:100_000], columns=["person"]).support())  # as full as it gets
            session.ask(queries[0])  # the room counts its records once
            print(json.dumps({
                "universe": f"2^{bits}", "rows": rows, "support": members, "touched": len(session.table.place),
                "weights_ms": _median_ms(session.ask, queries), "projection_ms": _median_ms(release.answer, queries),
            }), flush=True)  # fmt: skip


def _median_ms(ask: object, queries: list) -> float:
    times = []
    for query in queries:
        start = time.process_time()
        ask(query)  # type: ignore[operator]
        times.append(time.process_time() - start)
    return round(1e3 * float(np.median(times)), 3)


if __name__ == "__main__":
    main()
