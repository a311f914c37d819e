"""A picture of an insurer's three tables, real beside synthetic: what the releases keep, and what they lose.

    python benchmarks/utility/insurer_pictures.py [--epsilon 1 5] [--customers 50000] [--shared ../shared] [--out FILE.png]

One release for each epsilon.  The tables are not part of this repository, see ``insurer.py``.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from insurer import SHARED, Tables
from matplotlib import pyplot as plt

import synthdp as sd

PICTURE = Path(__file__).parents[2] / "docs" / "benchmarks" / "images" / "insurer.png"
MARKS = ("o", "s", "^")


def by_class(values: pd.Series, edges: np.ndarray) -> np.ndarray:
    """The share of values in each class, between the edges."""
    return np.histogram(values, edges)[0] / max(1, len(values))


def views(tables: Tables) -> dict[str, tuple[list[str], np.ndarray]]:
    """What the picture shows of some tables: by title, the names of the classes and a number for each."""
    customers, policies, claims = (tables[name] for name in ("customers", "policies", "claims"))
    with_all = policies.merge(customers[["customer_id", "born"]], on="customer_id")
    with_all["claims"] = with_all["policy_id"].map(claims["policy_id"].value_counts()).fillna(0)
    motor, local = with_all[with_all["type"] == "motor"], with_all[with_all["type"] != "travel"]
    delay = (claims["reported"] - claims["date"]).dt.days
    amount = np.array([0, 100, 1_000, 3_000, 10_000, 30_000, 100_000, np.inf])
    length = (policies["end"] - policies["start"]).dt.days
    ages = np.array([0, 28, 38, 48, 58, 68, 120])
    return {
        "days until a claim is reported": (
            ["0-4", "5-9", "10-14", "15-19", "20-29", "30-49", "50+"],
            by_class(delay, np.array([0, 5, 10, 15, 20, 30, 50, 1e9])),
        ),
        "amount of a claim": (["< 100", "1k", "3k", "10k", "30k", "100k", "more"], by_class(claims["amount"], amount)),
        "claims of a policy": (
            ["0", "1", "2", "3", "4+"],
            by_class(with_all["claims"], np.array([0, 1, 2, 3, 4, 1e9])),
        ),
        "days that a policy runs": (
            ["< 60", "1 year", "2 years", "3 years", "4 years", "longer"],
            by_class(length, np.array([-1e9, 60, 366, 731, 1096, 1461, 1e9])),
        ),
        "claims a policy, by bonus class (not travel)": (
            [str(one) for one in range(10)],
            local.groupby("bonus")["claims"].mean().reindex(range(10)).to_numpy(np.float64),
        ),
        "claims a motor policy, by age in 2018": (
            ["< 28", "28-37", "38-47", "48-57", "58-67", "68+"],
            motor.groupby(np.digitize(2018 - motor["born"], ages[1:-1]))["claims"].mean().to_numpy(np.float64),
        ),
    }


def main() -> None:
    """Release, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 5.0])
    parser.add_argument("--customers", type=int, default=50_000)
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--out", type=Path, default=PICTURE)
    options = parser.parse_args()
    folder = options.shared / "lab" / "insurer"
    if not folder.exists():
        sys.exit(f"skipped: '{folder}' is not there; give --shared the folder that has it")
    sys.path.insert(0, str(folder))
    real = importlib.import_module("tables").make(options.customers)
    schema = importlib.import_module("schema").schema()
    shown = {"real": views(real)}
    for epsilon in options.epsilon:
        release = sd.DatabaseRelease(schema=schema, epsilon=epsilon, random_state=0).fit(real)
        shown[f"synthetic, ε = {epsilon:g}"] = views(release.sample())
    mpl.rcParams.update(
        {"font.size": 8, "axes.spines.top": False, "axes.spines.right": False, "font.family": "DejaVu Sans"}
    )
    figure, grid = plt.subplots(2, 3, figsize=(11, 5.6), layout="constrained")
    for axes, title in zip(grid.flat, shown["real"], strict=True):
        names, heights = shown["real"][title]
        place = np.arange(len(names))
        axes.bar(place, heights, color="#c8c8c8", label="real")
        for k, (label, view) in enumerate(list(shown.items())[1:]):
            at = place + 0.16 * (k - (len(shown) - 2) / 2)
            axes.plot(
                at, view[title][1], MARKS[k], color=("#d55e00", "#0072b2", "#009e73")[k], label=label, markersize=5
            )
        axes.set_xticks(place, names)
        axes.set_title(title, fontsize=9)
        axes.set_ylim(bottom=0)
    grid.flat[0].legend(frameon=False)
    figure.savefig(options.out, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main()
