"""Wide tables of known structure: agreement within a block, processor seconds and memory.

    python benchmarks/utility/wide.py [--tiny] [--seeds 3] [--out results.jsonl] [--case blocks:1000:100000 ...]
    python benchmarks/utility/wide.py --bars [--out results.jsonl]
    python benchmarks/utility/wide.py --levels [--rows 100000] [--out results.jsonl]

Four generators, all columns of four levels, in blocks of ten:

    blocks  every column repeats its block's unseen value with probability .7 and is drawn afresh otherwise
    chains  every column repeats the one before it so, the first of a block none
    weak    as blocks, with probability .4
    none    nothing has to do with anything

``error`` is the distance of the mean agreement (two columns of a block have equal values) from the real rows',
``pair_error`` the mean distance of each pair's, ``other_error`` that of pairs of different blocks, ``independent`` what
independent columns have.  ``edges`` counts measured relations: of two columns of a block, and of others.  Seconds are the
processor's, of the release and of as many synthetic rows; ``table_mib`` is the peak memory before them, ``peak_mib`` after.
``--levels`` releases a column of 300 000 levels beside a flag and an age: declared, with a hierarchy (``grouped``) and not
declared; levels of Zipf's law, and tracts of counties of states (``places``).  epsilon 1, delta 1e-9.
``--bars`` counts how often 95 % intervals of tables of two and three columns hold the real counts, and how wide they are.
Every case runs in a process of its own.  One JSON line a run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from json_lines import tell

import synthdp as sd
from synthdp import AdaptiveMarginals, ApproxDP, Categorical, Curator, Schema

ONE_CORE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
BLOCK, LEVELS = 10, ("a", "b", "c", "d")
BUDGET = ApproxDP(1.0, 1e-9)
CASES = (
    "blocks:300:100000", "blocks:1000:100000", "chains:300:100000", "weak:300:100000", "none:300:100000"
)  # fmt: skip
TINY = ("blocks:140:2000", "none:140:2000")
BARS = ("bars-blocks:150:20000", "bars-chains:150:20000", "bars-weak:150:100000", "bars-blocks:300:100000")
MANY = 300_000
OTHERS = 2000
"""Pairs of different blocks that are looked at."""


def simulated(kind: str, columns: int, rows: int, *, seed: int) -> np.ndarray:
    """Return the levels of a table, (rows, columns)."""
    rng = np.random.default_rng(seed)
    codes = np.empty((rows, columns), np.uint8, order="F")
    follow = {"blocks": 0.7, "chains": 0.7, "weak": 0.4, "none": 0.0}[kind]
    before = np.zeros(rows, np.uint8)
    for j in range(columns):
        fresh = rng.integers(0, len(LEVELS), rows, dtype=np.uint8)
        if j % BLOCK == 0:
            before = rng.integers(0, len(LEVELS), rows, dtype=np.uint8)
        codes[:, j] = np.where(rng.random(rows, dtype=np.float32) < follow, before, fresh)
        if kind == "chains":
            before = codes[:, j]
    return codes


def agreements(codes: np.ndarray, pairs: list[tuple[int, int]]) -> np.ndarray:
    return np.array([(codes[:, a] == codes[:, b]).mean() for a, b in pairs])


def run_case(kind: str, columns: int, rows: int, seed: int) -> dict[str, object]:
    codes = simulated(kind, columns, rows, seed=seed)
    names = [f"c{j:04d}" for j in range(columns)]
    table = pd.DataFrame(
        {name: pd.Categorical.from_codes(codes[:, j], list(LEVELS)) for j, name in enumerate(names)}, copy=False
    )
    schema = Schema({name: Categorical(list(LEVELS)) for name in names})
    before, start = peak_mebibytes(), time.process_time()
    with Curator(table, schema=schema, budget=BUDGET) as curator:
        release = AdaptiveMarginals().release(curator, random_state=seed)
    released = time.process_time()
    synthetic = release.output.sample(rows, random_state=seed)
    sampled = time.process_time()
    peak = peak_mebibytes()
    found = np.column_stack([pd.Categorical(synthetic[name], list(LEVELS)).codes for name in names])
    inside = [p for b in range(0, columns, BLOCK) for p in itertools.combinations(range(b, min(b + BLOCK, columns)), 2)]
    rng = np.random.default_rng(seed)
    drawn = np.sort(rng.integers(0, columns, (OTHERS, 2)), axis=1)
    others = [(int(a), int(b)) for a, b in drawn if a // BLOCK != b // BLOCK]
    real, made = agreements(codes, inside), agreements(found, inside)
    real_others, made_others = agreements(codes, others), agreements(found, others)
    pairs = [c for m in release.measurements for c in getattr(m.queries, "cliques", ()) if len(c) == 2]
    return {
        "case": kind, "columns": columns, "rows": rows, "seed": seed, "real": real.mean(), "agreement": made.mean(),
        "independent": 1 / len(LEVELS), "error": abs(made.mean() - real.mean()), "pair_error": np.abs(made - real).mean(),
        "other_error": np.abs(made_others - real_others).mean(),
        "edges": [sum(a // BLOCK == b // BLOCK for a, b in pairs), sum(a // BLOCK != b // BLOCK for a, b in pairs)],
        "seconds": round(released - start, 1), "sampling_seconds": round(sampled - released, 1),
        "table_mib": round(before), "peak_mib": round(peak),
    }  # fmt: skip


def run_bars(kind: str, columns: int, rows: int, seed: int) -> dict[str, object]:
    """Say of 40 pairs of a block, 40 of different blocks and 15 triples of a block how often bars hold, and their width."""
    codes = simulated(kind, columns, rows, seed=seed)
    names = [f"c{j:04d}" for j in range(columns)]
    table = pd.DataFrame({name: pd.Categorical.from_codes(codes[:, j], list(LEVELS)) for j, name in enumerate(names)})
    schema = Schema({name: Categorical(list(LEVELS)) for name in names})
    release = sd.SyntheticRelease(schema=schema, epsilon=1.0, delta=1e-9, random_state=seed).fit(table)
    rng = np.random.default_rng(seed + 100)
    block = [[b + i for i in rng.permutation(BLOCK)[:3]] for b in rng.integers(0, columns // BLOCK, 40) * BLOCK]
    drawn = np.sort(rng.integers(0, columns, (200, 2)), axis=1).tolist()
    asked = {
        "pairs": [three[:2] for three in block], "others": [p for p in drawn if p[0] // BLOCK != p[1] // BLOCK][:40],
        "triples": block[:15],
    }  # fmt: skip
    record: dict[str, object] = {"case": f"bars {kind}", "columns": columns, "rows": rows, "seed": seed}
    for part, sets in asked.items():
        answers = [release.answer(sd.marginal(*(names[j] for j in some))) for some in sets]
        real = [table.groupby([names[j] for j in some], observed=False).size() for some in sets]
        truth = np.concatenate([
            counts.reindex(pd.MultiIndex.from_frame(answer[list(counts.index.names)])).to_numpy()
            for counts, answer in zip(real, answers, strict=True)
        ])  # fmt: skip
        found = pd.concat(answers)[["estimate", "lower", "upper"]].to_numpy()
        error = float(np.sqrt(((found[:, 0] - truth) ** 2).mean()))
        inside = (found[:, 1] <= truth) & (truth <= found[:, 2])
        width = float((found[:, 2] - found[:, 1]).mean()) / 2 / 1.96 / error
        record[part] = {"cells": len(truth), "inside": float(inside.mean()), "width": width, "rmse": error}
    return record


def run_levels(kind: str, declared: str, rows: int, seed: int) -> dict[str, object]:
    """Release a column of very many levels, a flag that follows it and an age.

    ``levels`` follow Zipf's law, whatever their place in the list; the hierarchy declared for them is that of a thousand
    equal groups.  ``places`` are 50 states of 60 counties of 100 tracts: few states have most rows, and few counties of
    each, and the flag follows the county.
    """
    rng = np.random.default_rng(seed)
    if kind == "levels":
        labels, parts = [f"L{i:06d}" for i in range(MANY)], (3, 5)
        level = (rng.zipf(1.3, rows) - 1) % MANY
        flag, many = level % 3 == 0, level < 5
    else:
        labels, parts = [f"{i // 6000:02d}{i // 100 % 60:02d}{i % 100:02d}" for i in range(MANY)], (2, 4)
        weight = np.arange(1, 51) ** -1.5
        state, county = rng.choice(50, rows, p=weight / weight.sum()), (rng.zipf(1.6, rows) - 1) % 60
        level = (state * 60 + county) * 100 + (rng.zipf(1.3, rows) - 1) % 100
        flag, many = county % 2 == 0, state < 1
    table = pd.DataFrame({
        "code": np.array(labels)[level], "flag": flag ^ (rng.random(rows) < 0.1),
        "age": np.clip(rng.normal(40, 12, rows) + many * 20, 0, 99).astype(int),
    })  # fmt: skip
    before, start = peak_mebibytes(), time.process_time()
    groups = [[label[:k] for label in labels] for k in parts] if declared == "grouped" else []
    column = Categorical() if declared == "open" else Categorical(labels, groups=groups)
    schema = Schema({"code": column, "flag": sd.Boolean(), "age": sd.Integer(0, 99)})
    release = sd.SyntheticRelease(schema=schema, epsilon=1.0, delta=1e-9, random_state=seed).fit(table)
    synthetic = release.sample(rows)
    seconds, peak = time.process_time() - start, peak_mebibytes()
    synthetic["code"] = synthetic["code"].astype(str)
    real, made = (frame["code"].value_counts(normalize=True) for frame in (table, synthetic))
    top = real.index[:20]
    return {
        "case": kind, "declared": declared, "rows": rows, "seed": seed,
        "levels_in_rows": len(real), "levels_released": len(made),
        "share_of_20": real[top].sum(), "released_share_of_20": made.reindex(top).fillna(0.0).sum(),
        "tvd": [distance(table, synthetic, k) for k in (*parts, 9)],
        "flag_error": [flag_error(table, synthetic, k) for k in (*parts, 9)],
        "seconds": round(seconds, 1), "table_mib": round(before), "peak_mib": round(peak),
    }  # fmt: skip


def distance(table: pd.DataFrame, synthetic: pd.DataFrame, characters: int) -> float:
    """Return the total variation distance of so many first characters of the code."""
    shares = [frame["code"].str[:characters].value_counts(normalize=True) for frame in (table, synthetic)]
    return float(shares[0].sub(shares[1], fill_value=0.0).abs().sum() / 2)


def flag_error(table: pd.DataFrame, synthetic: pd.DataFrame, characters: int) -> float:
    """Return the mean error of the flag's share among the rows of the 30 largest groups; of 1 where one has no rows."""
    shares = [frame.groupby(frame["code"].str[:characters])["flag"].mean() for frame in (table, synthetic)]
    largest = table["code"].str[:characters].value_counts().index[:30]
    return float((shares[0].reindex(largest) - shares[1].reindex(largest)).abs().fillna(1.0).mean())


def peak_mebibytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", nargs="+", default=[])
    parser.add_argument("--levels", action="store_true")
    parser.add_argument("--bars", action="store_true")
    parser.add_argument("--rows", type=int, default=100_000, help="of --levels")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.one:
        kind, *rest = given.one.split(":")
        if kind.startswith("bars-"):
            tell(run_bars(kind.removeprefix("bars-"), *map(int, rest)), None)
        elif kind in ("levels", "places"):
            tell(run_levels(kind, rest[0], int(rest[1]), int(rest[2])), None)
        else:
            tell(run_case(kind, *map(int, rest)), None)
        return
    ways = itertools.product(("levels", "places"), ("declared", "grouped", "open"))
    many = [f"{kind}:{declared}:{given.rows}" for kind, declared in ways]
    cases = list(BARS) if given.bars else many if given.levels else given.case or list(TINY if given.tiny else CASES)
    for case, seed in itertools.product(cases, range(given.seeds)):
        line = subprocess.run(
            [sys.executable, __file__, "--one", f"{case}:{seed}"],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, **ONE_CORE},
        ).stdout
        tell(json.loads(line), given.out)


if __name__ == "__main__":
    main()
