"""How the error of the smooth summary falls with the number of rows, at d = 1, K = 2.

    python benchmarks/utility/smooth_slope.py [--tiny] [--seeds 9] [--out smooth_slope.jsonl]

Two slopes of log error against log n for each rule that sets the number of degrees:

- *bound*: sup |f - Pf| + stddev of the noise of f, at n = 1e4 ... 1e8, for the worst of the queries; no data is used.
- *measured*: the largest error over the queries of a released summary, root mean square over the releases, at n = 1e3
  ... 10^5.5, on data that sit on a few atoms, where a query's truncation cannot average out (the papers' bounds are for
  the worst data).

Queries: f(x) = |x - c|^2.5 / 3.75 for c in [-1, 1], twice and not thrice differentiable, |f''| <= 1.5, and with --kinks
f(x) = (x - c)|x - c| / 2, whose second derivative jumps: the extreme of the class, whose truncation falls as t^-2 exactly.
JSON lines go to --out, a Markdown table to standard output.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from synthdp.curator import Curator
from synthdp.privacy.loss import ApproxDP, PureDP
from synthdp.schema.columns import Continuous
from synthdp.schema.schema import Schema
from synthdp.works.smooth.chebyshev import chebyshev_table
from synthdp.works.smooth.smooth_answers import chebyshev_coefficients, chebyshev_nodes
from synthdp.works.smooth.summary import SmoothSummary
from synthdp.works.smooth.theory import coefficient_stddev, improved_degrees, paper_degrees

NODES = 4096
CENTRES = np.linspace(-0.95, 0.95, 39)
RULES = {
    "paper, pure": ("paper", PureDP(1.0)),
    "improved, pure": ("improved", PureDP(1.0)),
    "improved, Gaussian": ("improved", ApproxDP(1.0, 1e-6)),
}
Family = Callable[[np.ndarray, float], np.ndarray]


def powers(x: np.ndarray, centre: float) -> np.ndarray:
    return np.abs(x - centre) ** 2.5 / 3.75


def kinks(x: np.ndarray, centre: float) -> np.ndarray:
    return (x - centre) * np.abs(x - centre) / 2


def degrees(rule: str, rows: float, *, pure: bool) -> int:
    if rule == "paper":
        return paper_degrees(rows, d=1, smoothness=2)
    return improved_degrees(rows, d=1, smoothness=2, pure=pure)


def bound(rule: str, loss: PureDP | ApproxDP, rows: float, family: Family) -> float:
    """Largest sup |f - Pf| + stddev over the queries."""
    t = degrees(rule, rows, pure=isinstance(loss, PureDP))
    x = chebyshev_nodes(NODES)
    table, noise = chebyshev_table(x, t), coefficient_stddev(t, rows=rows, d=1, loss=loss)
    worst = 0.0
    for centre in CENTRES:
        values = family(x, centre)
        kept = chebyshev_coefficients(values, t)
        worst = max(worst, np.abs(table @ kept - values).max() + noise * float(np.linalg.norm(kept[1:])))
    return worst


def measured(rule: str, loss: PureDP | ApproxDP, rows: int, family: Family) -> float:
    """Largest error over the queries of one release."""
    atoms = np.array([-0.7, -0.35, 0.05, 0.45, 0.8])
    data = atoms[np.arange(rows) % 5]
    frame, schema = pd.DataFrame({"x": data}), Schema({"x": Continuous(-1, 1)})
    curator = Curator(frame, schema=schema, budget=loss, neighbors="replace_one")
    released = SmoothSummary(smoothness=2, degrees=rule).release(curator)
    worst = 0.0
    for centre in np.concatenate([CENTRES, atoms]):
        answer = released.output.answer(lambda p, c=centre: family(p[:, 0], c))
        worst = max(worst, abs(float(answer) - float(family(data[:5], centre).mean())))
    return worst


def rms(errors: list[float]) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def slope(rows: list[float], errors: list[float]) -> float:
    return float(np.polyfit(np.log(rows), np.log(errors), 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--kinks", action="store_true", help="queries whose second derivative jumps")
    parser.add_argument("--seeds", type=int, default=9, help="releases per point")
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    family = kinks if options.kinks else powers
    sizes = [1000, 4000] if options.tiny else [1000, 3162, 10_000, 31_623, 100_000, 316_228]
    repeats = 1 if options.tiny else options.seeds
    theory = list(10.0 ** np.arange(4, 8.01, 0.5))
    records, lines = [], ["| degrees | bound, 1e4…1e8 | measured | t at n = 1e4, 1e6 |", "|---|---|---|---|"]
    for name, (rule, loss) in RULES.items():
        bounds = [bound(rule, loss, n, family) for n in theory]
        errors = [rms([measured(rule, loss, n, family) for _ in range(repeats)]) for n in sizes]
        facts = {"family": "(x-c)|x-c|" if options.kinks else "|x-c|^2.5", "rule": name}
        records += [{**facts, "rows": n, "bound": e} for n, e in zip(theory, bounds, strict=True)]
        records += [{**facts, "rows": n, "measured": e} for n, e in zip(sizes, errors, strict=True)]
        ts = [degrees(rule, n, pure=isinstance(loss, PureDP)) for n in (1e4, 1e6)]
        lines.append(f"| {name} | {slope(theory, bounds):.2f} | {slope(sizes, errors):.2f} | {ts[0]}, {ts[1]} |")
    if options.out is not None:
        options.out.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
