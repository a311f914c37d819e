"""Running times of the smooth summary as powers of n, t and the degrees, against the exponents of NIPS 2013, theorem 3.1.

    python benchmarks/utility/smooth_times.py [--tiny] [--out smooth_times.jsonl]

Theorem 3.1: the summary in time O(n^((3d+K)/(2d+K))), which is n times the t^d averages at t = n^(1/(2d+K)); an answer in
time O(n^((d+2+2d/K)/(2d+K))) up to logarithms.  Measured, in processor seconds of one thread:

- release, in n at a fixed t (1 expected), in t^d at a fixed n (1), and in n at the paper's t ((3d+K)/(2d+K)).  Noise for
  t^d averages and the reading of n rows are in it, so that small tables show smaller slopes;
- answer, in n at the paper's t, on N = 2t nodes a column (d/(2d+K), up to a logarithm, because a cosine transform of
  (2t)^d values does it, where the paper sums a series), K = 1, 2d and 8.

Slopes are of log seconds against log n, least squares.
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
from synthdp.schema.columns import Continuous
from synthdp.schema.schema import Schema
from synthdp.works.smooth.kernels import GaussianKernels
from synthdp.works.smooth.smooth_answers import TrigonometricSummary
from synthdp.works.smooth.summary import SmoothSummary
from synthdp.works.smooth.theory import paper_degrees


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """Return the least processor time of some runs, each repeated until it takes a fiftieth of a second."""
    times = []
    for _ in range(repeats):
        begin, runs = time.process_time(), 0
        while time.process_time() - begin < 0.02:
            work()
            runs += 1
        times.append((time.process_time() - begin) / runs)
    return min(times)


def release_seconds(rows: int, d: int, t: int) -> float:
    frame = pd.DataFrame(np.random.default_rng(0).uniform(-1, 1, (rows, d)), columns=[f"x{j}" for j in range(d)])
    schema = Schema({name: Continuous(-1, 1) for name in frame})

    def work() -> object:
        curator = Curator(frame, schema=schema, budget=PureDP(1.0), neighbors="replace_one")
        return SmoothSummary(degrees=t).release(curator)

    return seconds(work)


def summary_of(d: int, t: int) -> TrigonometricSummary:
    averages = np.zeros((t,) * d)
    averages.flat[0] = 1
    return TrigonometricSummary(names=tuple(f"x{j}" for j in range(d)), averages=averages, stddev=0.1, rows=1e4)


def kernel_seconds(d: int, t: int, count: int) -> float:
    queries = GaussianKernels.random(count, d=d, sigma=2.0, rng=np.random.default_rng(0))
    summary = summary_of(d, t)
    return seconds(lambda: summary.answer(queries), repeats=3)


def answer_seconds(d: int, t: int) -> float:
    summary = summary_of(d, t)
    return seconds(lambda: summary.answer(lambda x: np.exp(-(x**2).sum(axis=1)), nodes=2 * t))


def slope(sizes: list[float], times: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    records: list[dict[str, object]] = []
    extra: list[str] = []
    lines = ["| d | K | what | against | measured slope | theorem | seconds at the ends |", "|" + "---|" * 7]

    def add(
        d: int, order: object, what: str, against: str, sizes: list[float], times: list[float], theory: float
    ) -> None:
        records.append({"d": d, "K": order, "what": what, "against": against, "sizes": sizes, "seconds": times})
        ends = f"{times[0]:.2g}, {times[-1]:.2g}"
        lines.append(f"| {d} | {order} | {what} | {against} | {slope(sizes, times):.2f} | {theory:.2f} | {ends} |")

    many = [2000, 4000] if options.tiny else [10_000, 100_000, 1_000_000]
    for d, t in ((1, 64), (2, 8), (3, 4)):
        add(d, "", "release", "n", many, [release_seconds(n, d, t) for n in many], 1.0)
        wide = [t, 2 * t] if options.tiny else [t, round(1.6 * t), round(2.5 * t), 4 * t]
        sizes = [float(w**d) for w in wide]
        add(d, "", "release", "t^d", sizes, [release_seconds(many[-1] // 8, d, w) for w in wide], 1.0)
    for d in (1, 2, 3):
        for order in (1, 2 * d, 8):
            ts = [paper_degrees(n, d=d, smoothness=order) for n in many]
            times = [release_seconds(n, d, t) for n, t in zip(many, ts, strict=True)]
            exponent = (3 * d + order) / (2 * d + order)
            add(d, order, "release, paper's t", "n", many, times, exponent)
            larger = [1e4, 1e5] if options.tiny else [1e8, 1e10, 1e12, 1e14]
            ts = [paper_degrees(n, d=d, smoothness=order) for n in larger]
            kept = [(n, t) for n, t in zip(larger, ts, strict=True) if (2 * t) ** d <= 2**22]
            times = [answer_seconds(d, t) for _, t in kept]
            theory = (d + 2 + 2 * d / order) / (2 * d + order)
            add(d, order, f"answer (transform: {d / (2 * d + order):.2f})", "n", [n for n, _ in kept], times, theory)
    for d, t in ((1, 22), (2, 12), (3, 6)):
        times = [answer_seconds(d, t), kernel_seconds(d, t, 100 if options.tiny else 10_000)]
        records.append({"d": d, "t": t, "answer_seconds": times[0], "kernels_seconds": times[1]})
        extra.append(f"d = {d}, t = {t}: one answer {1000 * times[0]:.2f} ms, 10^4 sums of kernels {times[1]:.2f} s")
    if options.out is not None:
        options.out.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    print("\n".join([*lines, "", *extra]))


if __name__ == "__main__":
    main()
