"""How far tables of sampled rows scatter around their model, with and without intervals inside groups that are balanced.

    python benchmarks/utility/sampling_scatter.py [--tables adult wages fair made] [--epsilon 0.3 1] [--samples 30]

Each line is one release, sampled often in both ways: the variance of the shares in tables of two columns, cut into 16
and 48 parts of equal shares, and of three columns in 8 parts, summed over cells, as a multiple of what rows drawn
independently of each other have; and the processor seconds of a sample.  ``inside`` balances the intervals whatever the
rows, ``outside`` never, ``default`` as the library does.  ``alike`` is the share of pairs of rows in the same groups,
by which the library decides (`synthdp.sampling.balanced.LEAST_ALIKE`).
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from typing import Any

import numpy as np
import pandas as pd

import synthdp as sd
from synthdp.sampling import balanced

WAYS = {"default": balanced.LEAST_ALIKE, "inside": 0.0, "outside": 2.0}
"""Values of `LEAST_ALIKE` by what they do."""

MOST_TRIPLES = 60
"""Tables of three columns that are looked at, drawn at random; a limit of time."""


def wages(rows: int = 1472) -> tuple[pd.DataFrame, sd.Schema]:
    """Four columns made by a law: a wage by education, experience and sex."""
    rng = np.random.default_rng(0)
    education, experience, sex = rng.integers(1, 6, rows), rng.integers(0, 48, rows), rng.random(rows) < 0.4
    logs = 1.8 + 0.1 * education + 0.02 * experience - 0.0002 * experience**2 - 0.1 * sex
    wage = np.clip(np.round(np.exp(logs + 0.3 * rng.normal(size=rows)), 2), 0, 100)
    table = pd.DataFrame({"wage": wage, "educ": education, "exper": experience, "sex": np.where(sex, "f", "m")})
    columns: dict[str, Any] = {"wage": sd.Continuous(0, 100), "educ": sd.Integer(1, 5), "exper": sd.Integer(0, 47)}
    return table, sd.Schema(columns | {"sex": sd.Categorical(["f", "m"])})


def adult(rows: int = 3000) -> tuple[pd.DataFrame, sd.Schema]:
    """The first rows of Adult."""
    from synthdp import data

    return data.adult().head(rows), data.adult_schema()


def fair() -> tuple[pd.DataFrame, sd.Schema]:
    """Fair's survey of 6 366 married women, of statsmodels: nine columns of few values."""
    import statsmodels.api

    table = statsmodels.api.datasets.fair.load_pandas().data
    return table, sd.Schema({name: sd.Continuous(float(table[name].min()), float(table[name].max())) for name in table})


def made(rows: int = 30_000) -> tuple[pd.DataFrame, sd.Schema]:
    """Eight columns in two groups that hang together: four numbers, four labels."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(2, rows))
    number = {f"n{j}": np.clip(np.rint(50 + 15 * (hidden[j % 2] + rng.normal(size=rows))), 0, 100) for j in range(4)}
    label = {f"c{j}": np.clip(np.rint(1.5 + hidden[j % 2] + rng.normal(size=rows)), 0, 3) for j in range(4)}
    table = pd.DataFrame({name: one.astype(int) for name, one in number.items()})
    table = table.assign(**{name: np.array(list("abcd"))[one.astype(int)] for name, one in label.items()})
    return table, sd.Schema({n: sd.Integer(0, 100) for n in number} | {c: sd.Categorical(list("abcd")) for c in label})


TABLES = {"adult": adult, "wages": wages, "fair": fair, "made": made}


def parts_of(samples: list[pd.DataFrame], parts: int) -> list[np.ndarray]:
    """Return the part of each value, (rows, columns) a sample: of equal shares over all samples, labels as they are."""
    together = pd.concat(samples, ignore_index=True)
    codes = []
    for name in together:
        values = together[name]
        if pd.api.types.is_numeric_dtype(values.dtype):
            ends = np.unique(np.quantile(values.astype(float), np.arange(1, parts) / parts))
            codes.append(np.searchsorted(ends, values.astype(float), side="right"))
        else:
            codes.append(pd.factorize(values.astype(object))[0] + 1)  # 0 where missing
    return list(np.split(np.column_stack(codes), len(samples)))


def scatter(samples: list[pd.DataFrame], ways: int, parts: int) -> float:
    """Return the variance of all cells of tables of ``ways`` columns, as a multiple of independent rows' variance."""
    codes = parts_of(samples, parts)
    sizes = np.max([one.max(axis=0) for one in codes], axis=0) + 1
    cliques = list(itertools.combinations(range(len(sizes)), ways))
    if len(cliques) > MOST_TRIPLES and ways > 2:
        cliques = [cliques[i] for i in np.random.default_rng(0).choice(len(cliques), MOST_TRIPLES, replace=False)]
    found = independent = 0.0
    for clique in cliques:
        shape = tuple(sizes[[*clique]])
        cells = [np.ravel_multi_index(tuple(one[:, [*clique]].T), shape) for one in codes]
        counts = np.array([np.bincount(one, minlength=int(np.prod(shape))) for one in cells])
        share = counts.mean(axis=0) / len(codes[0])
        found += float(counts.var(axis=0, ddof=1).sum())
        independent += float(len(codes[0]) * (share * (1 - share)).sum())
    return found / independent


def main() -> None:
    """Print one JSON line for each release and way of sampling."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=[*TABLES])
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.3, 1.0])
    parser.add_argument("--samples", type=int, default=30)
    options = parser.parse_args()
    for name, epsilon in itertools.product(options.tables, options.epsilon):
        table, schema = TABLES[name]()
        release = sd.SyntheticRelease(schema=schema, epsilon=epsilon).fit(table)
        model = release.release_.output
        pairs = balanced._similar(  # noqa: SLF001
            model.distribution.sample(2 * len(table), np.random.default_rng(0)),
            model.distribution.shape,
            np.argsort(model.distribution.shape, kind="stable"),
        )
        for way, least in WAYS.items():
            balanced.LEAST_ALIKE = least
            samples, seconds = [], []
            for seed in range(options.samples):
                start = time.process_time()
                samples.append(release.sample(len(table), random_state=seed))
                seconds.append(time.process_time() - start)
            line = {
                "benchmark": "sampling scatter", "table": name, "rows": len(table), "epsilon": epsilon, "way": way,
                "alike": round(pairs.equal / len(pairs.first), 2), "two in 16": round(scatter(samples, 2, 16), 3),
                "two in 48": round(scatter(samples, 2, 48), 3), "three in 8": round(scatter(samples, 3, 8), 3),
                "seconds": round(float(np.median(seconds)), 3),
            }  # fmt: skip
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
