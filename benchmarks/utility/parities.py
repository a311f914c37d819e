"""Conjunctions by parities (Thaler, Ullman, Vadhan 2012): rows needed, errors on Adult, speed, decision lists.

Epsilon = 1, delta = 1e-6, replaced rows (public n).  One JSON line per figure.

    python benchmarks/utility/parities.py [--tiny] [--part needed|adult|speed|lists|degrees|average] [--seeds 2]

needed  least n at which bias + z stddev <= .1, where z bounds all k-way conjunctions at once with probability .95
adult   36 bits of the Adult table: largest and mean error on 500 conjunctions of k literals, half of them true of a row
speed   seconds for all parities of order <= 4 of 64 columns over a million rows
lists   stddev of answers on decision lists of 4 rules, n = 100 000; bias and stddev for 12 and 16 rules
degrees least degree at which a polynomial is within .1 of r-of-16
average largest and root mean square error of the learners' approach on monotone conjunctions of 12 bits of Adult
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from scipy.special import ndtri

from synthdp import ApproxDP, AverageFamily, Boolean, Curator, PolynomialRelease, Schema, SymmetricFamily
from synthdp.data import adult, adult_schema
from synthdp.domain.encoder import encode
from synthdp.privacy.accounting import gdp_from_approx
from synthdp.privacy.neighbors import Adjacency, Neighbors
from synthdp.tables.dataframe import FrameSource
from synthdp.works.polynomials.binarized import Binarized, binarize
from synthdp.works.polynomials.decision_list_release import plan_at, plan_prefixes
from synthdp.works.polynomials.literal_queries import SymmetricQuery
from synthdp.works.polynomials.parities import odd_counts
from synthdp.works.polynomials.parity_release import MAX_PARITIES, ParityRelease
from synthdp.works.polynomials.polynomial_families import MAX_COEFFICIENTS, symmetric_degree
from synthdp.works.polynomials.polynomial_release import paper_rows
from synthdp.works.polynomials.polynomials import (
    chebyshev_conjunction,
    chebyshev_degree,
    least_worst_use,
    level_sizes,
    newton_coefficients,
    odd_overlaps,
    optimal_coefficients,
)

LOSS = ApproxDP(1.0, 1e-6)
SIGMA = 1 / gdp_from_approx(LOSS.epsilon, LOSS.delta)
"""Gaussian stddev per unit of L2 sensitivity."""
ERROR, BETA = 0.1, 0.05
PARTS = ["needed", "adult", "speed", "lists", "degrees", "average"]
COLUMNS = ["sex", "income", "race", "relationship", "marital-status", "workclass"]
THRESHOLDS = {"age": [25, 35, 45, 55], "hours-per-week": [35, 41], "education-num": [10]}


def needed(d: int, k: int) -> Iterator[dict[str, object]]:
    """Yield the rows that each method needs for the largest error ERROR over all k-way conjunctions."""
    z = -float(ndtri(BETA / 2 / (math.comb(d, k) * 2**k)))
    setting = {"part": "needed", "d": d, "k": k, "z": round(z, 2)}
    degree = chebyshev_degree(k, ERROR / 2)
    largest = float(np.abs(newton_coefficients(chebyshev_conjunction(k, degree))[: degree + 1]).max())
    terms = math.comb(d + degree, degree)
    bound = paper_rows(terms, largest, error=ERROR, epsilon=LOSS.epsilon, beta=BETA)
    yield {**setting, "method": "the paper's bound, 4 T C^2", "order": degree, "rows": f"{bound:.2g}"}
    monomials = min((_monomial_rows(d, k, t, z), t) for t in range(1, k + 1))
    yield {**setting, "method": "monomials, exact scale", "order": monomials[1], "rows": f"{monomials[0]:.2g}"}
    direct = math.sqrt(2 * math.comb(d, k)) * SIGMA * z / ERROR
    yield {**setting, "method": "direct Gaussian", "order": k, "rows": f"{direct:.2g}"}
    exact = _parity_stddev(d, k, k, n=1e30, z=z)[1] * z / ERROR
    yield {**setting, "method": "exact parities", "order": k, "rows": f"{exact:.2g}"}
    best = min((_least_rows(lambda n, t=t: _error(d, k, t, n, z)), t) for t in range(1, k + 1))
    yield {**setting, "method": "optimal polynomial", "order": best[1], "rows": f"{best[0]:.2g}"}


def _monomial_rows(d: int, k: int, order: int, z: float) -> float:
    """Rows for the conjunction of positive literals by Chebyshev's polynomial on Laplace-noised monomial counts."""
    values = chebyshev_conjunction(k, order)
    left = ERROR - float(np.abs(values - np.eye(k + 1)[k]).max())
    if left <= 0:
        return math.inf
    a = newton_coefficients(values)[: order + 1]
    variance = sum(math.comb(k, i) * a[i] ** 2 for i in range(1, order + 1))
    scale = (sum(level_sizes(d, order)) - 1) / LOSS.epsilon
    return z * math.sqrt(2 * variance) * scale / left


def _parity_stddev(d: int, k: int, order: int, *, n: float, z: float) -> tuple[float, float]:
    """The bias of the best polynomial, and its stddev in rows at the best scales of the levels."""
    sizes, within = np.array(level_sizes(d, order), float), np.array(level_sizes(k, order), float)
    prices = z * SIGMA * np.sqrt(2 * sizes * within) / n
    prices[0] = 0.0
    b = optimal_coefficients((0.0,) * k + (1.0,), order, tuple(prices.tolist()))
    costs = np.maximum(b.values**2 * within, 1e-12)[1:]
    use = 4.0 * np.array(odd_overlaps(d, order, range(1, d + 1)), float)[:, 1:]
    return b.error, SIGMA * math.sqrt(float((costs / least_worst_use(costs, use)).sum()))


def _error(d: int, k: int, order: int, n: float, z: float) -> float:
    bias, stddev = _parity_stddev(d, k, order, n=n, z=z)
    return bias + z * stddev / n


def _least_rows(error: Callable[[float], float]) -> float:
    low, high = 10.0, 1e12
    if error(high) > ERROR:
        return math.inf
    while high / low > 1.005:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if error(middle) <= ERROR else (middle, high)
    return high


def adult_errors(*, rows: int, k: int, queries: int, seed: int, widest: int) -> Iterator[dict[str, object]]:
    """Yield the error of each method on conjunctions of k of the 36 bits."""
    rng = np.random.default_rng(seed)
    table = adult()
    table = table.iloc[np.sort(rng.choice(len(table), rows, replace=False))]
    schema = Schema({name: adult_schema()[name] for name in [*COLUMNS, *THRESHOLDS]})
    bits = binarize(schema, thresholds=THRESHOLDS)
    matrix = bit_matrix(bits, schema, table)
    asked, truth = conjunctions(bits, matrix, k=k, count=queries, rng=rng)
    setting = {"part": "adult", "rows": rows, "bits": bits.d, "k": k, "seed": seed}

    def report(method: str, order: int, answers: np.ndarray, seconds: float) -> dict[str, object]:
        gap = np.abs(answers - truth)
        return {
            **setting,
            "method": method,
            "order": order,
            "largest": round(float(gap.max()), 4),
            "mean": round(float(gap.mean()), 5),
            "seconds": round(seconds, 2),
        }

    stddev = SIGMA * math.sqrt(2 * math.comb(bits.d, k)) / rows
    yield report("direct Gaussian", k, np.clip(truth + rng.normal(0, stddev, len(truth)), 0, 1), 0.0)
    yield report("always 0", 0, np.zeros(len(truth)), 0.0)
    for order in range(1, min(k, widest) + 1):
        if sum(level_sizes(bits.d, order)) > MAX_PARITIES:
            continue
        begin = time.perf_counter()
        curator = Curator(table, schema=schema, budget=LOSS, neighbors="replace_one")
        release = ParityRelease(order, width=k, thresholds=THRESHOLDS).release(curator)
        seconds = time.perf_counter() - begin
        polynomial = np.array([float(release.output.answer(query)) for query in asked])
        yield report("exact parities" if order == k else "optimal polynomial", order, polynomial, seconds)
        if order <= 4:
            begin = time.perf_counter()
            fitted = np.array([float(release.output.answer(query, evaluator="max_entropy")) for query in asked])
            yield report("maximum entropy", order, fitted, time.perf_counter() - begin)
        if order <= 3:
            begin = time.perf_counter()
            synthetic = bit_matrix(bits, schema, release.sample(random_state=seed))
            sampled = np.array([holds(bits, synthetic, query).mean() for query in asked])
            yield report("synthetic table", order, sampled, time.perf_counter() - begin)


def bit_matrix(bits: Binarized, schema: Schema, table: pd.DataFrame) -> np.ndarray:
    raw = next(iter(FrameSource(table).blocks(schema, extra=())))
    return bits.matrix(bits.domain.codes({name: encode(schema[name], raw[name]) for name in bits.domain.names}))


def holds(bits: Binarized, matrix: np.ndarray, query: SymmetricQuery) -> np.ndarray:
    chosen, signs = bits.find(query)
    return (matrix[:, chosen] == (signs > 0)).all(axis=1)


def conjunctions(
    bits: Binarized, matrix: np.ndarray, *, k: int, count: int, rng: np.random.Generator
) -> tuple[list[SymmetricQuery], np.ndarray]:
    """Conjunctions on random bits: with the values of a random row, and every other one with random values."""
    asked, truth = [], []
    for i in range(count):
        chosen = rng.choice(bits.d, k, replace=False)
        values = matrix[rng.integers(len(matrix)), chosen] if i % 2 == 0 else rng.random(k) < 0.5
        literals = tuple((bits.names[j], int(value)) for j, value in zip(chosen, values, strict=True))
        asked.append(SymmetricQuery(literals, (0.0,) * k + (1.0,)))
        truth.append(holds(bits, matrix, asked[-1]).mean())
    return asked, np.array(truth)


def speed(*, rows: int, d: int, order: int) -> dict[str, object]:
    rng = np.random.default_rng(0)
    columns = [rng.random(rows) < rng.random() for _ in range(d)]
    begin = time.perf_counter()
    counts = odd_counts(columns, order=order)
    seconds = time.perf_counter() - begin
    parities = sum(len(level) for level in counts)
    return {"part": "speed", "rows": rows, "d": d, "order": order, "parities": parities, "seconds": round(seconds, 2)}


def lists(*, m: int, n: int) -> Iterator[dict[str, object]]:
    setting = {"part": "lists", "m": m, "rules": 4, "rows": n}
    yield {**setting, "method": "all 2^m answers", "stddev": f"{SIGMA * 2 ** (m / 2) / n:.2g}"}
    variables = [f"v{j}" for j in range(m)]
    for order in range(1, 5):
        plan = plan_at(variables, 4, order, Adjacency(Neighbors.REPLACE_ONE), LOSS)
        line = {
            "method": "coefficients",
            "order": order,
            "bias": round(plan.error, 4),
            "stddev": f"{plan.stddev / n:.2g}",
        }
        yield {**setting, **line}


def long_lists(*, m: int, length: int, n: int) -> Iterator[dict[str, object]]:
    variables = [f"v{j}" for j in range(m)]
    for order in range(2, length + 1, 2):
        if sum(level_sizes(m, order)) > MAX_COEFFICIENTS:
            break
        plan = plan_prefixes(variables, length, order, Adjacency(Neighbors.REPLACE_ONE), LOSS)
        stddev = f"{plan.stddev / n:.2g}"
        yield {
            "part": "lists", "m": m, "rules": length, "rows": n, "method": "prefixes", "order": order,
            "bias": round(plan.error, 4), "stddev": stddev,
        }  # fmt: skip


def degrees(*, k: int) -> Iterator[dict[str, object]]:
    for r in (r for r in (1, 2, 4, 8) if r <= k):
        values = (0.0,) * r + (1.0,) * (k + 1 - r)
        yield {"part": "degrees", "k": k, "r": r, "error": ERROR, "degree": symmetric_degree(values, error=ERROR)}


def average(*, rows: int, d: int, width: float, seed: int) -> Iterator[dict[str, object]]:
    """All monotone conjunctions of 2 to 4 of the d most frequent bits, weighted as the learner draws them."""
    rng = np.random.default_rng(seed)
    table = adult()
    table = table.iloc[np.sort(rng.choice(len(table), rows, replace=False))]
    schema = Schema({name: adult_schema()[name] for name in [*COLUMNS, *THRESHOLDS]})
    every = binarize(schema, thresholds=THRESHOLDS)
    matrix = bit_matrix(every, schema, table)[:, :d]
    named = pd.DataFrame(matrix, columns=[f"b{j}" for j in range(d)])
    yes_no = Schema({name: Boolean() for name in named})
    bits = binarize(yes_no)
    chosen = [one for size in (2, 3, 4) for one in itertools.combinations(named, size)]
    truth = np.array([named[list(one)].all(axis=1).mean() for one in chosen])
    chance = np.array([(width / d) ** len(one) * (1 - width / d) ** (d - len(one)) for one in chosen])
    asked = [SymmetricQuery(tuple((name, 1) for name in one), (0.0,) * len(one) + (1.0,)) for one in chosen]
    for order in (1, 2, 3, 4):
        for family in (AverageFamily(bits, order, width), SymmetricFamily(bits, order, 4)):
            curator = Curator(
                named, schema=Schema({name: Boolean() for name in named}), budget=LOSS, neighbors="replace_one"
            )
            release = PolynomialRelease(family).release(curator)
            gap = np.abs(np.asarray(release.output.answer(asked).estimate) - truth)
            yield {
                "part": "average", "rows": rows, "bits": d, "method": type(family).__name__, "order": order,
                "largest": round(float(gap.max()), 4),
                "rms": round(float(np.sqrt((chance * gap**2).sum() / chance.sum())), 5),
                "stated": round(family.error, 4),
            }  # fmt: skip


def lines(part: str, *, tiny: bool, seeds: int) -> Iterator[dict[str, object]]:
    if part == "needed":
        for d, k in [(8, 3)] if tiny else [(20, 4), (32, 6), (64, 8)]:
            yield from needed(d, k)
    if part == "adult":
        for rows in [500] if tiny else [2000, 20_000]:
            for k in [3] if tiny else [4, 6, 8]:
                for seed in range(seeds):
                    count, widest = (6, 2) if tiny else (500, 5)
                    yield from adult_errors(rows=rows, k=k, queries=count, seed=seed, widest=widest)
    if part == "speed":
        yield speed(rows=2000, d=16, order=3) if tiny else speed(rows=1_000_000, d=64, order=4)
    if part == "lists":
        for m in [6] if tiny else [16, 24]:
            yield from lists(m=m, n=100_000)
        for length in [5] if tiny else [12, 16]:
            yield from long_lists(m=length, length=length, n=1_000_000)
    if part == "degrees":
        yield from degrees(k=4 if tiny else 16)
    if part == "average":
        yield from average(rows=500 if tiny else 20_000, d=6 if tiny else 12, width=3.0, seed=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="small settings: does it run?")
    parser.add_argument("--part", choices=PARTS, default=None)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    for part in [options.part] if options.part else PARTS:
        for line in lines(part, tiny=options.tiny, seeds=options.seeds):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
