"""Time the numerical core of the flagship: planning, consistency, fitting, sampling, particles.

    python benchmarks/speed/junction_tree.py [--tiny]

JSON lines on standard output: one per stage and size, wall seconds of one run on one thread (set OMP_NUM_THREADS=1).
The tables are counts of rows with random dependence between neighbouring columns, plus Gaussian noise: they stand in
for noisy answers, and no guarantee is claimed for them.
"""

import argparse
import itertools
import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from synthdp.distribution.junction_tree import TreePlanner
from synthdp.fit.consistency import make_consistent
from synthdp.fit.max_entropy import MaxEntropy
from synthdp.fit.raking import Particles
from synthdp.queries.contingency import NoisyTable, contingency
from synthdp.randomness import generator

NOISE = 30.0


def timed(stage: str, work: Callable[[], Any], **facts: object) -> Any:
    start = time.perf_counter()
    result = work()
    seconds = round(time.perf_counter() - start, 4)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    line = {"benchmark": "junction_tree", "stage": stage, **facts, "seconds": seconds, "peak_mb": peak}
    sys.stdout.write(json.dumps(line) + "\n")
    return result


def table_of(rows: int, columns: int, rng: np.random.Generator) -> tuple[np.ndarray, tuple[int, ...]]:
    """Rows in which each column copies a noisy earlier one; 2 to 16 codes a column."""
    shape = tuple(int(k) for k in rng.integers(2, 17, columns))
    codes = np.empty((rows, columns), np.uint8, order="F")
    for j, k in enumerate(shape):
        parent = int(rng.integers(max(0, j - 6), j)) if j else 0
        source = codes[:, parent].astype(np.int64) if j else rng.integers(0, k, rows)
        codes[:, j] = np.where(rng.random(rows) < 0.6, source % k, rng.integers(0, k, rows))
    return codes, shape


def plan(planner: TreePlanner, pairs: list[tuple[int, int]], limit: int) -> list[tuple[int, int]]:
    """Take pairs in the given order while the tree stays within ``limit`` cells."""
    chosen: list[tuple[int, int]] = []
    for pair in pairs:
        if planner.cells([*chosen, pair]) <= limit:
            chosen.append(pair)
    return chosen


def run(rows: int, columns: int, limit: int, particles: int) -> None:
    rng = generator(0)
    codes, shape = table_of(min(rows, 200_000), columns, rng)
    facts = {"rows": rows, "columns": columns}
    near = [(a, b) for a, b in itertools.combinations(range(columns), 2) if b - a <= 6]
    pairs = [near[i] for i in rng.permutation(len(near))[: 3 * columns]]
    planner = TreePlanner(shape)
    chosen = timed("plan", lambda: plan(planner, pairs, limit), **facts, trees=len(pairs))
    cliques = [*((j,) for j in range(columns)), *chosen]
    scale = rows / len(codes)
    noisy = []
    for clique in cliques:
        counts = scale * contingency(codes, shape, clique)
        noisy.append(NoisyTable(clique=clique, counts=counts + NOISE * rng.normal(size=counts.size), stddev=NOISE))
    tables = timed("consistency", lambda: make_consistent(noisy, shape, total=float(rows)), **facts, tables=len(noisy))
    facts["cells"] = planner.cells(cliques)
    for name, solver in (("fit", MaxEntropy()), ("fit_polished", MaxEntropy(polish_steps=40))):
        fitted = timed(name, lambda solver=solver: solver.fit(tables, shape, total=float(rows)), **facts)
    model = fitted.model
    timed("sample", lambda: model.sample(rows, rng), **facts)
    mask = {0: np.arange(shape[0]) == 0}
    timed("sample_given", lambda: model.sample(rows // 10, rng, given=mask), **facts)
    extras = [(0, columns // 2), (1, columns - 1)]
    targets = [NoisyTable(clique=c, counts=scale * contingency(codes, shape, c), stddev=NOISE) for c in extras]
    raked = timed(
        "particles",
        lambda: Particles(size=particles).fit(model, [*tables, *targets], total=float(rows), rng=rng),
        **facts,
    )
    timed("sample_particles", lambda: raked.sample(rows, rng), **facts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="a few seconds, for the test suite")
    if parser.parse_args().tiny:
        run(2_000, 6, 2_000, 1_000)
        return
    for rows, columns in ((100_000, 14), (1_000_000, 14), (1_000_000, 100)):
        run(rows, columns, 100_000, 200_000)


if __name__ == "__main__":
    main()
