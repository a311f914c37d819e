"""How close the worst of all smooth queries comes to the bound for the whole class, at d = 1.

    python benchmarks/utility/smooth_class.py [--tiny] [--releases 20] [--out smooth_class.jsonl]

For each K a linear program finds the worst (K, 1)-smooth query of a release after its noise is known: the K-th derivative
is constant on cells of [-1, 1], so that all lower ones follow, and the answer's error is linear in it.  What it finds is
a query of the class, shrunk so that its derivatives are at most 1 between the cells' ends too.  Beside it: the bound of
`class_accuracy` and of `accuracy` (one query), β = .05, and how often the bound was exceeded.
Data sit on five atoms.  JSON lines go to --out, a Markdown table to standard output.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import linprog

from synthdp.curator.curator import Curator
from synthdp.mechanisms.smooth.answers import chebyshev_nodes
from synthdp.mechanisms.smooth.summary import SmoothSummary
from synthdp.mechanisms.smooth.theory import accuracy, improved_degrees, paper_accuracy, paper_degrees
from synthdp.mechanisms.smooth.whole_class import class_accuracy
from synthdp.privacy.loss import ApproxDP, PureDP
from synthdp.schema.columns import Continuous
from synthdp.schema.schema import Schema

ATOMS = np.array([-0.7, -0.35, 0.05, 0.45, 0.8])
BETA = 0.05
LOSSES = {"pure": PureDP(1.0), "Gaussian": ApproxDP(1.0, 1e-6)}


def splines(x: np.ndarray, order: int, cells: int, derivative: int = 0) -> np.ndarray:
    """Return a derivative at x of each piece of a query: its Taylor terms at -1, then its K-th derivative on each cell."""
    left = order - derivative
    y = (x + 1)[:, None]
    powers = np.arange(order)
    factors = np.array([math.perm(p, derivative) / math.factorial(p) for p in powers])
    taylor = np.where(powers >= derivative, factors * y ** np.maximum(powers - derivative, 0), 0.0)
    edges = np.linspace(-1, 1, cells + 1)
    ramps = np.maximum(x[:, None] - edges, 0) ** left / math.factorial(left)
    return np.hstack([taylor, ramps[:, :-1] - ramps[:, 1:]])


def worst_error(averages: np.ndarray, order: int, cells: int) -> float:
    """Return the largest error of a query of the class, found by two linear programs."""
    t = len(averages)
    nodes = max(2 * t, 4096)
    on_nodes = splines(chebyshev_nodes(nodes), order, cells)
    weights = np.array([averages @ row for row in coefficient_rows(t, nodes)])
    error = weights @ on_nodes - splines(ATOMS, order, cells).mean(axis=0)
    edges = np.linspace(-1, 1, cells + 1)
    lower = np.vstack([splines(edges, order, cells, k) for k in range(order)])
    limits = [(-1.0, 1.0)] * (order + cells)
    found = linprog(
        -error, A_ub=np.vstack([lower, -lower]), b_ub=np.ones(2 * len(lower)), bounds=limits, method="highs"
    )
    return -found.fun / (1 + 1 / cells)


def coefficient_rows(t: int, nodes: int) -> np.ndarray:
    """Return the map from values on the nodes to coefficients, transposed, (nodes, t)."""
    angles = (np.arange(nodes) + 0.5) * np.pi / nodes
    rows = np.cos(angles[:, None] * np.arange(t)) * (2 / nodes)
    rows[:, 0] /= 2
    return rows


def released(rows: int, t: int, order: int, loss: PureDP | ApproxDP) -> np.ndarray:
    frame = pd.DataFrame({"x": ATOMS[np.arange(rows) % 5]})
    curator = Curator(frame, schema=Schema({"x": Continuous(-1, 1)}), budget=loss, neighbors="replace_one")
    return SmoothSummary(smoothness=order, degrees=t).release(curator).output.averages


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--releases", type=int, default=20)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    cells, releases = (40, 2) if options.tiny else (200, options.releases)
    sizes = (1000, 4000) if options.tiny else (1000, 10_000, 100_000)
    head = (
        "noise, t | K | n | t | bound, class | bound, one query | worst found, mean (largest) | exceeded | n^(-K/(2+K))"
    )
    records, lines = [], [f"| {head} |", "|" + "---|" * 9]
    for name, loss in LOSSES.items():
        for rule in ("paper", "improved") if name == "pure" else ("improved",):
            for order in (1, 2, 3):
                for rows in sizes:
                    degrees = {
                        "paper": paper_degrees(rows, d=1, smoothness=order),
                        "improved": improved_degrees(rows, d=1, smoothness=order, pure=name == "pure"),
                    }
                    t = min(degrees[rule], 128)
                    settings = {"rows": rows, "d": 1, "smoothness": order, "loss": loss, "beta": BETA}
                    alpha, one = class_accuracy(t, nodes=4096, **settings), accuracy(t, **settings)
                    found = [worst_error(released(rows, t, order, loss), order, cells) for _ in range(releases)]
                    records.append({
                        "noise": name, "rule": rule, "K": order, "rows": rows, "t": t, "class_bound": alpha,
                        "one_query_bound": one, "worst_found": found, "beta": BETA,
                    })  # fmt: skip
                    lines.append(
                        f"| {name}, {rule} | {order} | {rows} | {t} | {alpha:.2g} | {one:.2g} | {np.mean(found):.2g} "
                        f"({max(found):.2g}) | {sum(f > alpha for f in found)} of {releases} | "
                        f"{paper_accuracy(rows, d=1, smoothness=order, epsilon=1):.2g} |"
                    )
    if options.out is not None:
        options.out.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
