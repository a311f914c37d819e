"""How close the worst of all smooth queries comes to the bound for the whole class, at d = 1 and 2.

    python benchmarks/utility/smooth_class.py [--tiny] [--releases 20] [--out smooth_class.jsonl]

For each K a linear program finds the worst (K, 1)-smooth query of a release after its noise is known, among splines of
degree K in each column on equal cells of [-1, 1]^d.  A partial derivative of such a spline is a spline of the differences
of its coefficients, so that differences of at most 1 (over the width of a cell, at every order up to K) make a query of
the class; and the answer's error is linear in the coefficients.  Beside it: the bound of `class_accuracy` and of
`accuracy` (one query), beta = .05, and how often the bound was exceeded.  "by degree" is the noise of Ding, He and Zhu,
whose variance grows with the degree; of one query it has no bound of its own.
Data sit on five atoms.  JSON lines go to --out, a Markdown table to standard output.
"""

from __future__ import annotations

import argparse
import itertools
import json
from functools import reduce
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.interpolate import BSpline
from scipy.optimize import linprog

from synthdp.curator import Curator
from synthdp.privacy.loss import ApproxDP, PureDP
from synthdp.schema.columns import Continuous
from synthdp.schema.schema import Schema
from synthdp.works.smooth.smooth_answers import chebyshev_nodes
from synthdp.works.smooth.summary import SmoothSummary
from synthdp.works.smooth.theory import accuracy, improved_degrees, paper_degrees
from synthdp.works.smooth.whole_class import class_accuracy, class_degrees

ATOMS = np.array([[-0.7, 0.1], [-0.35, 0.75], [0.05, -0.6], [0.45, -0.25], [0.8, 0.5]])
MESH = {1: (200, 4096, 128), 2: (24, 256, 64)}
"""d: cells of the query's splines a column, nodes a column, most degrees a column."""
BETA = 0.05
LOSSES = {"pure": PureDP(1.0), "Gaussian": ApproxDP(1.0, 1e-6)}


def basis(x: np.ndarray, order: int, cells: int) -> np.ndarray:
    """Return the values at x of the B-splines of degree K on equal cells of [-1, 1], (points, cells + K)."""
    knots = -1 + 2 / cells * np.arange(-order, cells + order + 1)
    return BSpline.design_matrix(np.clip(x, -1, 1 - 1e-12), knots, order).toarray()


def derivatives(d: int, order: int, cells: int) -> sparse.csr_array:
    """Return the map from a spline's coefficients to those of all its partial derivatives of total order at most K."""
    count = cells + order

    def differences(times: int) -> sparse.csr_array:
        matrix = sparse.eye_array(count, format="csr")
        for _ in range(times):
            matrix = (matrix[1:] - matrix[:-1]) * (cells / 2)
        return matrix

    orders = [m for m in itertools.product(range(order + 1), repeat=d) if sum(m) <= order]
    return sparse.vstack([reduce(sparse.kron, [differences(k) for k in m]) for m in orders], format="csr")


def worst_error(averages: np.ndarray, order: int, cells: int, nodes: int) -> float:
    """Return the largest error of a query of the class that is a spline; both signs are in the class."""
    d, t = averages.ndim, len(averages)
    on_nodes = coefficient_rows(t, nodes).T @ basis(chebyshev_nodes(nodes), order, cells)
    answer = averages
    for _ in range(d):
        answer = np.tensordot(answer, on_nodes, axes=([0], [0]))
    at_atoms = [basis(ATOMS[:, column], order, cells) for column in range(d)]
    truth = reduce(lambda one, other: (one[:, :, None] * other[:, None]).reshape(len(ATOMS), -1), at_atoms).mean(axis=0)
    error = answer.ravel() - truth
    bounded = derivatives(d, order, cells)
    limits = np.ones(2 * bounded.shape[0])
    found = linprog(-error, A_ub=sparse.vstack([bounded, -bounded]), b_ub=limits, bounds=(None, None), method="highs")
    return -found.fun


def coefficient_rows(t: int, nodes: int) -> np.ndarray:
    """Return the map from values on the nodes to coefficients, transposed, (nodes, t)."""
    angles = (np.arange(nodes) + 0.5) * np.pi / nodes
    rows = np.cos(angles[:, None] * np.arange(t)) * (2 / nodes)
    rows[:, 0] /= 2
    return rows


def released(rows: int, d: int, t: int, order: int, loss: PureDP | ApproxDP, weighting: str) -> np.ndarray:
    frame = pd.DataFrame(ATOMS[np.arange(rows) % 5, :d], columns=[f"x{j}" for j in range(d)])
    schema = Schema({name: Continuous(-1, 1) for name in frame})
    curator = Curator(frame, schema=schema, budget=loss, neighbors="replace_one")
    return SmoothSummary(smoothness=order, degrees=t, weighting=weighting).release(curator).output.averages


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--releases", type=int, default=20)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    releases = 2 if options.tiny else options.releases
    sizes = (1000, 4000) if options.tiny else (1000, 10_000, 100_000)
    head = "noise, t | d | K | n | t | bound, class | bound, one query | worst found, mean (largest) | exceeded"
    records, lines = [], [f"| {head} |", "|" + "---|" * 9]
    rules = [("pure", "paper"), ("pure", "improved"), ("Gaussian", "improved"), ("Gaussian", "by degree")]
    for d, orders in ((1, (1, 2, 3)), (2, (1, 2))):
        cells, nodes, most = (8, 32, 8) if options.tiny else MESH[d]
        for (name, rule), order, rows in itertools.product(rules, orders, sizes):
            loss = LOSSES[name]
            weighting, growth = ("degree", order / 2) if rule == "by degree" else ("equal", 0.0)
            law = {"rows": rows, "d": d, "smoothness": order, "loss": loss}
            if rule == "by degree":
                t = class_degrees(growth=growth, **law)
            elif rule == "paper":
                t = paper_degrees(rows, d=d, smoothness=order)
            else:
                t = improved_degrees(rows, d=d, smoothness=order, pure=name == "pure")
            t = min(t, most)
            alpha = class_accuracy(t, nodes=nodes, beta=BETA, growth=growth, **law)
            one = accuracy(t, beta=BETA, **law) if weighting == "equal" else None
            found = [
                worst_error(released(rows, d, t, order, loss, weighting), order, cells, nodes) for _ in range(releases)
            ]
            records.append({
                "noise": name, "rule": rule, "d": d, "K": order, "rows": rows, "t": t, "class_bound": alpha,
                "one_query_bound": one, "worst_found": found, "beta": BETA,
            })  # fmt: skip
            alone = "none" if one is None else f"{one:.2g}"
            lines.append(
                f"| {name}, {rule} | {d} | {order} | {rows} | {t} | {alpha:.2g} | {alone} | {np.mean(found):.2g} "
                f"({max(found):.2g}) | {sum(f > alpha for f in found)} of {releases} |"
            )
    if options.out is not None:
        options.out.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
