"""Predicted against measured: `synthdp.plan` beside real releases of Adult and hmeq (not private; a benchmark).

    python benchmarks/utility/plans.py [--tiny]

One JSON line for each table and epsilon: three-way error and seconds, predicted and measured, and their ratios.
"""

from __future__ import annotations

import argparse
import json
import time

from flagship import HMEQ, adult_table, flagship, hmeq_table, split
from metrics import marginal_error

from synthdp.rehearsal import plan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="Adult at epsilon 1 only")
    options = parser.parse_args()
    tables = {"adult": adult_table} | ({"hmeq": hmeq_table} if HMEQ.exists() and not options.tiny else {})
    for name, load in tables.items():
        table, schema = load()
        train, _ = split(table, rows=None)
        for epsilon in (1.0,) if options.tiny else (0.1, 1.0, 10.0):
            expected = plan(schema, rows=len(train), epsilon=epsilon)
            started = time.perf_counter()
            synthetic = flagship(train, schema, epsilon, 0)
            seconds = time.perf_counter() - started
            error = marginal_error(train, synthetic, schema)
            print(json.dumps({
                "table": name, "epsilon": epsilon,
                "three_way": {"predicted": round(expected.errors[3], 4), "measured": round(error, 4),
                              "ratio": round(expected.errors[3] / error, 2)},
                "seconds": {"predicted": round(expected.seconds, 2), "measured": round(seconds, 2),
                            "ratio": round(expected.seconds / seconds, 2)},
            }), flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
