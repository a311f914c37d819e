"""Releases with a public table and without: error by epsilon, and public tables that are biased, shuffled or another year's.

    python benchmarks/utility/public.py [--table adult board years] [--public none same shuffled ...] [--epsilon .1 .3 1]
        [--seeds 3] [--rows N] [--data FOLDER] [--out public.jsonl] [--picture FILE.png]

``adult``: the bundled table; 10 % of its rows, drawn at random, are public and the others private.  ``board``: the published
split of Adult in ../shared/data/boards/adult_public (32 384 and 3 238 rows, in bins).  ``years``: persons of the American
Community Survey in ../shared/data/boards/places; the last year of the file is private, and public are as many rows as 10 %
of it of the first year.  ``--data`` names another folder of boards.

Public tables: ``none``; ``same``, the rows above; ``shuffled``, each of their columns by itself; ``biased``, private rows
that were chosen by one column (the lowest quarter of ages), taken as public to see what harm bias does; ``foreign`` (adult,
board), of other countries of birth.  One JSON line a run: mean total variation distance of all tables of two and of three
columns (at most 300) from the private table, and for ``alone`` that of the public rows as they are.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from json_lines import tell

import synthdp as sd
from synthdp.data import adult, adult_schema
from synthdp.nonprivate.measures import marginal_error

BOARDS = Path(__file__).parents[2] / "../shared/data/boards"
ALONE = "alone"
KINDS = ("none", "same", "shuffled", "biased", "foreign")
LEVELS = {
    "workclass", "education", "marital-status", "occupation", "relationship", "race", "sex", "native-country",
    "income>50K", "SEX", "RACE", "HISPAN", "MARST", "EMPSTAT",
}  # fmt: skip


class Split(NamedTuple):
    """A private table, a public one, what is public of both, and which columns bias and birth are told by."""

    private: pd.DataFrame
    public: pd.DataFrame
    schema: sd.Schema
    by: str
    birth: str | None


def split(name: str, boards: Path, rows: int | None) -> Split:
    """Return one of the splits; of at most so many rows in all."""
    if name == "adult":
        table, schema = adult(), adult_schema()
        order = np.random.default_rng(0).permutation(len(table))[:rows]
        cut = len(order) // 10
        public, private = (table.iloc[some].reset_index(drop=True) for some in (order[:cut], order[cut:]))
        return Split(private, public, schema, "age", "native-country")
    if name == "board":
        sizes = json.loads((boards / "adult_public/domain.json").read_text())
        private, public = (pd.read_csv(boards / f"adult_public/{one}.csv") for one in ("private", "public"))
        return Split(private[:rows], public[list(private)], _schema(sizes), "age", "native-country")
    people = pd.read_csv(boards / "places/places.csv.gz").drop(columns="PERWT")
    years = sorted(people.YEAR.unique())
    first, last = (people[year == people.YEAR].drop(columns="YEAR") for year in (years[0], years[-1]))
    private = last[:rows].reset_index(drop=True)
    public = first.sample(len(private) // 10, random_state=0).reset_index(drop=True)
    sizes = {one: int(people[one].max()) + 1 for one in private}
    return Split(private, public, _schema(sizes), "AGE", None)


def _schema(sizes: dict[str, int]) -> sd.Schema:
    return sd.Schema(
        {
            name: sd.Categorical(list(range(size))) if name in LEVELS else sd.Integer(0, size - 1)
            for name, size in sizes.items()
        }
    )


def public_of(kind: str, tables: Split) -> pd.DataFrame | None:
    """Return a public table of a kind."""
    public = tables.public
    if kind == "none":
        return None
    if kind in ("same", ALONE):
        return public
    if kind == "shuffled":
        rng = np.random.default_rng(1)
        return pd.DataFrame({name: public[name].to_numpy()[rng.permutation(len(public))] for name in public})
    chosen = tables.private[tables.private[tables.by] <= tables.private[tables.by].quantile(0.25)]
    if kind == "foreign":
        born = tables.private[str(tables.birth)]
        chosen = tables.private[born != born.mode()[0]]
    return chosen.sample(min(len(public), len(chosen)), random_state=0).reset_index(drop=True)


def errors(private: pd.DataFrame, synthetic: pd.DataFrame, schema: sd.Schema) -> dict[str, float]:
    """Return the mean distance of tables of two and of three columns."""
    return {name: marginal_error(private, synthetic, schema, order=k) for name, k in (("two_way", 2), ("three_way", 3))}


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--table", nargs="*", default=["adult"], choices=["adult", "board", "years"])
    parser.add_argument("--public", nargs="*", default=["none", "same", "shuffled", "biased"], choices=KINDS)
    parser.add_argument("--epsilon", nargs="*", type=float, default=[0.1, 0.3, 1.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--data", type=Path, default=BOARDS)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--picture", type=Path)
    told = parser.parse_args()
    records: list[dict[str, Any]] = []
    for name in told.table:
        tables = split(name, told.data, told.rows)
        sizes = {"table": name, "private": len(tables.private), "public": len(tables.public)}
        records.append(sizes | {"kind": ALONE} | errors(tables.private, tables.public, tables.schema))
        tell(records[-1], told.out)
        for epsilon, kind, seed in itertools.product(told.epsilon, told.public, range(told.seeds)):
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                release = sd.SyntheticRelease(
                    schema=tables.schema, epsilon=epsilon, public=public_of(kind, tables), random_state=seed
                )
                synthetic = release.fit_transform(tables.private)
            seconds = round(time.process_time() - start, 1)
            found = sizes | {"kind": kind, "epsilon": epsilon, "seed": seed, "seconds": seconds}
            records.append(found | errors(tables.private, synthetic, tables.schema))
            tell(records[-1], told.out)
    print(table_of(records))
    if told.picture is not None:
        draw(records, told.picture)


def means(records: list[dict[str, Any]]) -> dict[tuple[str, str], dict[float, float]]:
    """Return by table and kind the mean three-way error at each epsilon."""
    found: dict[tuple[str, str], dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in records:
        found[one["table"], one["kind"]][one.get("epsilon", 0.0)].append(one["three_way"])
    return {key: {epsilon: float(np.mean(some)) for epsilon, some in each.items()} for key, each in found.items()}


def table_of(records: list[dict[str, Any]]) -> str:
    """Return three-way errors as a Markdown table."""
    epsilons = sorted({one["epsilon"] for one in records if "epsilon" in one})
    lines = [
        f"| table | public | {' | '.join(f'ε = {one:g}' for one in epsilons)} |",
        "|---" * (2 + len(epsilons)) + "|",
    ]
    for (table, kind), of in means(records).items():
        cells = [f"{of.get(one, of.get(0.0, np.nan)):.4f}" for one in epsilons]
        lines.append(f"| {table} | {kind} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(records: list[dict[str, Any]], path: Path) -> None:
    """Draw error by epsilon, with a public table and without."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    by = means(records)
    tables = list(dict.fromkeys(table for table, _ in by))
    figure, axes = plt.subplots(1, len(tables), figsize=(4.2 * len(tables), 3.4), squeeze=False, layout="constrained")
    labels = {
        "none": "without",
        "same": "public table",
        "shuffled": "shuffled",
        "biased": "biased",
        "foreign": "foreign",
    }
    for axis, table in zip(axes[0], tables, strict=True):
        for kind, label in labels.items():
            if (table, kind) in by:
                points = sorted(by[table, kind].items())
                axis.plot(*zip(*points, strict=True), marker="o", label=label)
        axis.axhline(by[table, ALONE][0.0], color="grey", linestyle=":", label="the public rows as they are")
        axis.set(title=table, xscale="log", xlabel="ε", ylabel="three-way error", ylim=(0, None))
    axes[0][0].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
