"""The net mechanism of Blum, Ligett and Roth on smooth queries: the baseline of NIPS 2013, on a domain small enough.

    python benchmarks/utility/smooth_blr.py [--tiny] [--releases 20] [--out smooth_blr.jsonl]

One column of eight values, K = 2, epsilon = 1, replace_one: 80 queries of the class (kinks (x - c)|x - c| / 2, whose
second derivative jumps, and waves).  The net mechanism chooses among all 245 157 tables of 16 rows; its rate on K-smooth
queries is n^(-K/(d+3K)), n^(-2/7) here, until the 16 rows are the limit.  Beside it: the noisy summary, Algorithm 1
of the slides, and the product variant.  Largest error over the queries, median (and largest) over releases.
JSON lines go to --out, a Markdown table to standard output.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from synthdp.curator import Curator
from synthdp.privacy.loss import PureDP
from synthdp.queries.linear import CellQueries
from synthdp.schema.columns import Integer
from synthdp.schema.schema import Schema
from synthdp.works.net.net import NetMechanism
from synthdp.works.smooth.summary import SmoothSummary
from synthdp.works.smooth.support import smooth_domain
from synthdp.works.smooth.synthesis import SmoothSynthesis
from synthdp.works.smooth.theory import exact_parameters

VALUES = 8
SCHEMA = Schema({"x": Integer(0, VALUES - 1)})
DOMAIN = smooth_domain(SCHEMA, ("x",), cells=VALUES)
POINTS = DOMAIN.axes[0].points[:VALUES]
UNIT = 2**10
Query = Callable[[np.ndarray], np.ndarray]


def queries() -> list[Query]:
    kinks = [lambda x, c=c: (x - c) * np.abs(x - c) / 4 for c in np.linspace(-1, 1, 40)]
    waves = [lambda x, a=a, p=p: np.sin(a * x + p) for a in np.linspace(0.2, 1, 5) for p in np.linspace(0, 3, 8)]
    return [*kinks, *waves]


def cell_queries(asked: list[Query]) -> CellQueries:
    """The queries as whole numbers per cell; a cell of unforeseen values counts 0."""
    values = np.zeros((len(asked), DOMAIN.cells))
    values[:, :VALUES] = [query(POINTS) for query in asked]
    return CellQueries(DOMAIN, np.rint(values * UNIT).astype(np.int64), denominator=UNIT)


def errors(method: str, rows: int, asked: list[Query], size: int, seed: int) -> tuple[float, float]:
    """Return the largest error of one release, and its processor seconds."""
    drawn = np.random.default_rng(seed).choice(VALUES, rows, p=np.arange(1, VALUES + 1) / (VALUES * (VALUES + 1) / 2))
    truth = np.array([query(POINTS[drawn]).mean() for query in asked])
    curator = Curator(pd.DataFrame({"x": drawn}), schema=SCHEMA, budget=PureDP(1.0), neighbors="replace_one")
    begin = time.process_time()
    if method == "summary":
        released = SmoothSummary(smoothness=2).release(curator)
        # its points are the declared bounds at -1 and 1, those of the cells at -7/8 and 7/8
        found = np.array([float(released.output.answer(lambda p, f=query: f(POINTS[-1] * p[:, 0]))) for query in asked])
    else:
        made = {
            "net": NetMechanism(cell_queries(asked), size=size),
            "exact": SmoothSynthesis(variant="exact", smoothness=2),
            "product": SmoothSynthesis(),
        }[method].release(curator)
        sample = made.sample(100_000, random_state=0)["x"].to_numpy()
        found = np.array([query(POINTS[sample]).mean() for query in asked])
    return float(np.abs(found - truth).max()), time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--releases", type=int, default=20)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    asked, size = queries(), 6 if options.tiny else 16
    sizes = (100,) if options.tiny else (100, 300, 1000, 3000, 10_000)
    methods = ("net", "exact", "product", "summary")
    records = []
    for rows in sizes:
        for method in methods:
            for seed in range(1 if options.tiny else options.releases):
                error, seconds = errors(method, rows, asked, size, seed)
                records.append({"rows": rows, "method": method, "seed": seed, "error": error, "seconds": seconds})
    if options.out is not None:
        options.out.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    frame = pd.DataFrame(records)
    errors_of = frame.groupby(["method", "rows"])["error"]
    typical, worst = errors_of.median(), errors_of.max()
    spent = frame.groupby("method")["seconds"].median()
    print("| n = | " + " | ".join(map(str, sizes)) + " | slope | seconds |\n" + "|---" * (len(sizes) + 3) + "|")
    for method in methods:
        slope = f"{np.polyfit(np.log(sizes), np.log(typical[method]), 1)[0]:.2f}" if len(sizes) > 1 else ""
        cells = [f"{e:.4f} ({m:.3f})" for e, m in zip(typical[method], worst[method], strict=True)]
        print(f"| {method} | {' | '.join(cells)} | {slope} | {spent[method]:.2g} |")
    print(f"\nAlgorithm 1 at n = {sizes[-1]}: {exact_parameters(sizes[-1], d=1, smoothness=2)}")


if __name__ == "__main__":
    main()
