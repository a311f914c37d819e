"""Sparse queries (Blum, Roth 2011): largest error of every mechanism of the project on overlaps and conjunctions.

Epsilon = 1, delta = 1e-6, replaced rows (public n).  One JSON line per setting, mechanism and repetition.

    python benchmarks/utility/sparse.py [--tiny] [--setting overlaps] [--repeat 3]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from synthdp.curator import Curator
from synthdp.privacy.accounting import gdp_from_approx
from synthdp.privacy.loss import ApproxDP
from synthdp.queries.supports import DENOMINATOR, SparseQuery, sparse_conjunction
from synthdp.schema.columns import Boolean
from synthdp.schema.schema import Schema
from synthdp.tables.dataframe import FrameSource
from synthdp.tables.keys import count_keys, overlap
from synthdp.works.sparse.key_counts import SparseCounts
from synthdp.works.sparse.projection import SparseProjection
from synthdp.works.sparse.sparse_mwem import SparseMWEM
from synthdp.works.sparse.sparse_weights import SparseWeights
from synthdp.works.sparse.stability_histogram import StabilityHistogram

LOSS = ApproxDP(1.0, 1e-6)


@dataclass(frozen=True)
class Setting:
    """A table, its sparse queries and the settings that suit them."""

    name: str
    table: pd.DataFrame
    schema: Schema | None
    queries: Sequence[SparseQuery]
    updates: int
    rounds: int
    slots: int


def overlaps(*, n: int = 20_000, k: int = 5_000, members: int = 2_100, seed: int = 0) -> Setting:
    """Patients of one hospital (all different), and the participant lists of studies that recruit in ten regions.

    A study takes nine tenths of its participants from one region.  Between none and nearly all of a region's people
    are patients.
    """
    rng = np.random.default_rng(seed)
    regions = [np.array([f"person-{r}-{i:06d}" for i in range(3 * members)]) for r in range(10)]
    share = (np.arange(10) / 9) ** 2
    share *= n / (3 * members * share.sum())
    patients = [str(p) for people, s in zip(regions, share, strict=True) for p in people[: round(s * len(people))]]
    patients += [f"elsewhere-{i}" for i in range(n - len(patients))]
    everyone = np.concatenate(regions)
    queries = []
    for _ in range(k):
        home = regions[rng.integers(10)]
        size = int(rng.integers(members // 4, members + 1))
        listed = np.concatenate(
            [rng.choice(home, size=9 * size // 10, replace=False), rng.choice(everyone, size=size // 10, replace=False)]
        )
        queries.append(overlap(listed.tolist(), columns=["person"]))
    table = pd.DataFrame({"person": rng.permutation(patients[:n])})
    return Setting("overlaps", table, None, queries, updates=32, rounds=60, slots=100_000)


def conjunctions(*, n: int = 20_000, k: int = 3_000, d: int = 50, free: int = 8, seed: int = 0) -> Setting:
    """Rows scattered around twenty prototypes, and conjunctions of d - 8 literals of a prototype."""
    rng = np.random.default_rng(seed)
    prototypes = rng.integers(0, 2, size=(20, d))
    popularity = 1 / np.arange(1, 21) ** 0.8
    popularity /= popularity.sum()
    flip = np.where(np.arange(d) < 12, 0.15, 0.01)  # the first twelve questions have no settled answer
    kind = rng.choice(20, size=n, p=popularity)
    rows = prototypes[kind] ^ (rng.random((n, d)) < flip)
    names = [f"q{j:02d}" for j in range(d)]
    schema = Schema({name: Boolean() for name in names})
    queries = []
    for _ in range(k):
        prototype = prototypes[rng.choice(20, p=popularity)]
        open_ = rng.choice(d, size=free, replace=False, p=np.where(np.arange(d) < 12, 8.0, 1.0) / (96 + d - 12))
        fixed = np.setdiff1d(np.arange(d), open_)
        queries.append(sparse_conjunction(schema, {names[j]: bool(prototype[j]) for j in fixed}))
    table = pd.DataFrame(rows.astype(bool), columns=names)
    updates = 24 if n <= 20_000 else 150  # less noise pays for more of them
    return Setting(f"conjunctions n={n}", table, schema, queries, updates=updates, rounds=40, slots=100_000)


def run(setting: Setting, *, repeat: int) -> Iterator[dict[str, object]]:
    """Answer all queries by every mechanism and compare with the truth."""
    counts = SparseCounts.of(setting.queries)
    truth = _truth(setting, counts)
    n, k = len(setting.table), len(setting.queries)
    for name, answers in _mechanisms(setting, counts).items():
        for _ in range(repeat):
            curator = Curator(setting.table, schema=setting.schema, budget=LOSS, neighbors="replace_one")
            start = time.perf_counter()
            got = answers(curator)
            seconds = time.perf_counter() - start
            error = np.abs(got - truth) / n
            yield {
                "setting": setting.name,
                "n": n,
                "k": k,
                "mechanism": name,
                "largest_answer": float(truth.max() / n),
                "max_error": round(float(error.max()), 4),
                "mean_error": round(float(error.mean()), 5),
                "seconds": round(seconds, 2),
                "ms_per_query": round(1e3 * seconds / k, 3),
            }


def _truth(setting: Setting, counts: SparseCounts) -> np.ndarray:
    """Return the exact answers, which only a benchmark knows."""
    rows = counts_of_table(setting.table)
    return counts.key_totals(rows) / DENOMINATOR


def counts_of_table(table: pd.DataFrame) -> dict[str, int]:
    """Return how often each record occurs."""
    block = next(iter(FrameSource(table).blocks({}, extra=tuple(table.columns))))
    return count_keys([block[name] for name in table.columns])


def _mechanisms(setting: Setting, counts: SparseCounts) -> dict[str, Callable[[Curator], np.ndarray]]:
    queries = setting.queries
    sparsity = max(query.sparsity for query in queries)
    dimension = min(100_000, 5 * len(setting.table))

    def weights(curator: Curator) -> np.ndarray:
        session = SparseWeights(
            sparsity=sparsity, max_updates=setting.updates, queries=len(queries), slots=setting.slots
        ).open(curator)
        return np.array([session.ask(query).count for query in queries])

    def once(mechanism: object) -> Callable[[Curator], np.ndarray]:
        def answers(curator: Curator) -> np.ndarray:
            release = mechanism.release(curator)  # type: ignore[attr-defined]
            return np.array([release.output.answer(query).count for query in queries])

        return answers

    def direct(_: Curator) -> np.ndarray:
        """Gaussian noise for sensitivity sqrt(k), which forgets that a record is in few supports."""
        mu = gdp_from_approx(LOSS.epsilon, LOSS.delta) / np.sqrt(len(queries))
        rng = np.random.default_rng()
        return _truth(setting, counts) + rng.normal(size=len(queries)) / mu

    def exact(curator: Curator) -> np.ndarray:
        return curator.measure(counts).answers

    return {
        "sparse multiplicative weights": weights,
        "projection (count sketch, peeled)": once(SparseProjection(dimension)),
        "projection (count sketch)": once(SparseProjection(dimension, peel=0.0)),
        "stability histogram": once(StabilityHistogram()),
        "sparse MWEM": once(SparseMWEM(queries, rounds=setting.rounds)),
        "direct Gaussian (sensitivity sqrt k)": direct,
        "direct, exact sensitivity, Gaussian": exact,
    }


def main() -> None:
    """Run the settings and print JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--setting", default="")
    parser.add_argument("--repeat", type=int, default=1)
    options = parser.parse_args()
    makers: dict[str, Callable[[], Setting]] = (
        {"overlaps": lambda: overlaps(n=2_000, k=100, members=200), "conjunctions": lambda: conjunctions(n=2_000, k=50)}
        if options.tiny
        else {
            "overlaps": overlaps,
            "conjunctions": conjunctions,
            "conjunctions-large": lambda: conjunctions(n=200_000),
        }
    )
    for name, make in makers.items():
        if name.startswith(options.setting):
            for line in run(make(), repeat=options.repeat):
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
