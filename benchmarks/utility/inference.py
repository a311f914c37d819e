"""How often 95 % intervals of regression coefficients hold the population's, over repeated releases (a benchmark).

    python benchmarks/utility/inference.py [--design binary adult] [--epsilon .1 .3 1 3] [--runs 1000] [--seed 0] [--m 20]
        [--out inference.jsonl]
    python benchmarks/utility/inference.py --picture docs/images/inference-coverage.svg [--out inference.jsonl]

``binary`` is the design of NAPSU-MQ (Räisä et al. 2023): 2 000 rows of three binary columns, a logistic regression of the
third on the other two, true coefficients 1 and 0.  ``adult`` draws 10 000 rows of six columns of Adult with replacement, so
that the whole table is the population, and regresses income on the other five.  Three ways to intervals from one release:

naive        one synthetic table, taken for real rows
private      m tables and the rule for what the private rows have (`sd.combine`)
population   m tables and the rule for the population (`Release.analyse`)

One JSON line for each design, epsilon, way and coefficient: the part of intervals that hold the truth with its standard
error, and the median half-width over 1.96 times the spread of the estimate over the runs ("oracle": what would be written if
the release could be made again and again) and over that of the real rows ("real").
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit, ndtri

import synthdp as sd
from synthdp.data import adult, adult_schema

STEPS, LONGEST_STEP, SMALL_STEP, RIDGE = 30, 2.0, 1e-9, 1e-6
"""Newton's method: steps, the most that a coefficient moves in one, what ends it, and a penalty that keeps separated groups
finite."""

ROWS = {"binary": 2000, "adult": 10_000}
COLUMNS = ("age", "education-num", "hours-per-week", "sex", "marital-status", "income")


class Found(NamedTuple):
    """One interval and the estimate of the real rows."""

    estimate: float
    reach: float
    truth: float
    real: float
    real_reach: float


class Design(NamedTuple):
    """A population, its schema and a regression of its last column."""

    schema: sd.Schema
    draw: Callable[[np.random.Generator], pd.DataFrame]
    features: Callable[[pd.DataFrame], Rows]
    names: tuple[str, ...]
    truth: np.ndarray


class Rows(NamedTuple):
    """The rows of a regression: (n, p) features with ones first, (n,) outcomes, and how many rows each one stands for."""

    x: np.ndarray
    y: np.ndarray
    times: np.ndarray


def logistic(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients and their squared standard errors, without the intercept, which is the first column of x."""
    x, y, times = rows
    beta = np.zeros(x.shape[1])
    for _ in range(STEPS):
        p = expit(x @ beta)
        information = (x.T * (times * p * (1 - p))) @ x + RIDGE * np.eye(len(beta))
        step = np.linalg.solve(information, x.T @ (times * (y - p)) - RIDGE * beta)
        beta += np.clip(step, -LONGEST_STEP, LONGEST_STEP)
        if np.abs(step).max() < SMALL_STEP:
            break
    return beta[1:], np.diag(np.linalg.inv(information))[1:]


def with_ones(*columns: Any) -> np.ndarray:
    return np.column_stack([np.ones(len(columns[0])), *(np.asarray(column, float) for column in columns)])


def binary() -> Design:
    """Return three binary columns with coefficients 1 and 0."""

    def draw(rng: np.random.Generator) -> pd.DataFrame:
        a, b = rng.random((2, ROWS["binary"])) < 0.5
        return pd.DataFrame({"a": a, "b": b, "y": rng.random(len(a)) < expit(-0.5 + 1.0 * a + 0.0 * b)})

    cells = np.arange(8)

    def features(table: pd.DataFrame) -> Rows:
        a, b, y = (table[name].to_numpy(np.int64) for name in "aby")
        return Rows(with_ones(cells & 1, cells >> 1 & 1), cells >> 2, np.bincount(a + 2 * b + 4 * y, minlength=8))

    return Design(sd.Schema({name: sd.Boolean() for name in "aby"}), draw, features, ("a", "b"), np.array([1.0, 0.0]))


def census() -> Design:
    """Return six columns of Adult; numbers in units of ten, so that coefficients are of one size."""
    whole = adult()[list(COLUMNS)]

    def draw(rng: np.random.Generator) -> pd.DataFrame:
        return whole.iloc[rng.integers(len(whole), size=ROWS["adult"])].reset_index(drop=True)

    def features(table: pd.DataFrame) -> Rows:
        married = table["marital-status"] == "Married-civ-spouse"
        x = with_ones(
            table["age"] / 10 - 4, table["education-num"] / 10 - 1, table["hours-per-week"] / 10 - 4, table["sex"] == "Male",
            married,
        )  # fmt: skip
        return Rows(x, (table["income"] == ">50K").to_numpy(float), np.ones(len(x)))

    schema = adult_schema().part(COLUMNS)
    names = ("age / 10", "education / 10", "hours / 10", "male", "married")
    return Design(schema, draw, features, names, logistic(features(whole))[0])


def intervals(design: Design, release: Any, m: int, seed: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return estimates and half-widths of each way."""

    def fit(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        return logistic(design.features(table))

    one, variances = fit(release.sample(random_state=seed))
    found = {"naive": (one, float(ndtri(0.975)) * np.sqrt(variances))}
    heard: list[tuple[np.ndarray, np.ndarray]] = []

    def noted(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        heard.append(fit(table))
        return heard[-1]

    combined = release.analyse(noted, m, random_state=seed)
    found["population"] = (combined.estimate, combined.reach)
    of_rows = sd.combine([values for values, _ in heard], [squared for _, squared in heard])
    found["private"] = (of_rows["estimate"].to_numpy(), (of_rows["upper"] - of_rows["estimate"]).to_numpy())
    return found


def run(design: Design, epsilon: float, runs: int, *, m: int, seed: int) -> dict[tuple[str, str], list[Found]]:
    """Return what each way found in every run, by way and coefficient."""
    found = defaultdict(list)
    for number in range(runs):
        rng = np.random.default_rng([seed, number])
        table = design.draw(rng)
        real, variances = logistic(design.features(table))
        release = sd.SyntheticRelease(schema=design.schema, epsilon=epsilon, delta=1e-9).fit(table).release_
        for way, (estimates, reach) in intervals(design, release, m, number).items():
            truth = real if way == "private" else design.truth
            for j, name in enumerate(design.names):
                real_reach = float(ndtri(0.975)) * math.sqrt(variances[j])
                found[way, name].append(Found(estimates[j], reach[j], truth[j], real[j], real_reach))
    return found


def line(found: list[Found]) -> dict[str, float]:
    """Return coverage and widths of one way and coefficient."""
    estimate, reach, truth, _, real_reach = (np.array(values) for values in zip(*found, strict=True))
    held = float(np.mean(np.abs(estimate - truth) <= reach))
    spread = float(ndtri(0.975)) * max(float((estimate - truth).std()), 1e-12)
    return {
        "coverage": held, "standard_error": math.sqrt(max(held * (1 - held), 1 / len(found)) / len(found)),
        "bias": float((estimate - truth).mean()), "oracle": float(np.median(reach)) / spread,
        "real": float(np.median(reach / real_reach)),
    }  # fmt: skip


def together(lines: list[dict[str, Any]]) -> dict[tuple[str, float, str, str], dict[str, float]]:
    """Return the means of lines of one design, epsilon, way and coefficient, each by its runs, and all their runs."""
    groups: dict[tuple[str, float, str, str], list[dict[str, Any]]] = defaultdict(list)
    for one in lines:
        groups[one["design"], one["epsilon"], one["way"], one["coefficient"]].append(one)
    return {
        key: {
            name: float(np.average([one[name] for one in some], weights=[one["runs"] for one in some]))
            for name in ("coverage", "bias", "oracle", "real", "cpu_seconds_a_run")
        } | {"runs": sum(one["runs"] for one in some)}
        for key, some in groups.items()
    }  # fmt: skip


def picture(lines: list[dict[str, Any]], path: Path) -> None:
    """Draw the coverage of the binary design by epsilon."""
    found = together(lines)
    epsilons = sorted({key[1] for key in found if key[0] == "binary"})
    wide, tall, left, top, colours = 520, 260, 60, 20, {"naive": "#b35900", "population": "#0072b2"}
    words = {"naive": "one synthetic table", "population": "analyse"}

    def y(share: float) -> float:
        return top + (1 - share) * tall / 0.8

    label = "Part of 95 % intervals that hold the true coefficient, by epsilon"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {tall + 70}" font-family="sans-serif"'
    drawn = [
        f'{head} role="img" aria-label="{label}">',
        f'<rect width="{wide}" height="{tall + 70}" fill="#ffffff"/>',
    ]
    for share in (0.2, 0.4, 0.6, 0.8, 0.95):
        ink = "#1b1f24" if share == 0.95 else "#d0d7de"
        dash = "4" if share == 0.95 else "0"
        drawn.append(f'<path d="M{left} {y(share):g}H{wide - 20}" stroke="{ink}" stroke-dasharray="{dash}"/>')
        drawn.append(f'<text x="{left - 8}" y="{y(share) + 4:g}" font-size="12" text-anchor="end">{share:g}</text>')
    step = (wide - left - 60) / max(1, len(epsilons) - 1)
    for i, epsilon in enumerate(epsilons):
        x = left + 20 + i * step
        drawn.append(f'<text x="{x:g}" y="{tall + 36}" font-size="12" text-anchor="middle">ε = {epsilon:g}</text>')
        for shift, coefficient in ((-5, "a"), (5, "b")):
            for way, colour in colours.items():
                one = found.get(("binary", epsilon, way, coefficient))
                if one is not None:
                    at = y(max(0.2, one["coverage"]))
                    drawn.append(f'<circle cx="{x + shift:g}" cy="{at:g}" r="5" fill="{colour}"/>')
    for i, (way, colour) in enumerate(colours.items()):
        drawn.append(f'<circle cx="{left + 20 + 180 * i}" cy="{tall + 58}" r="5" fill="{colour}"/>')
        drawn.append(f'<text x="{left + 30 + 180 * i}" y="{tall + 62}" font-size="12">{words[way]}</text>')
    path.write_text("\n".join([*drawn, "</svg>\n"]), encoding="utf-8")


def main() -> None:
    """Run all designs and write a JSON line for each coefficient."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--design", nargs="+", choices=sorted(ROWS), default=["binary", "adult"])
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.1, 0.3, 1.0, 3.0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--m", type=int, default=20)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--picture", type=Path)
    asked = parser.parse_args()
    if asked.picture:
        results = asked.out or Path(__file__).parents[1] / "results/inference.jsonl"
        picture([json.loads(text) for text in results.read_text().splitlines()], asked.picture)
        return
    for name in asked.design:
        design = {"binary": binary, "adult": census}[name]()
        for epsilon in asked.epsilon:
            begun = time.process_time()
            found = run(design, epsilon, asked.runs, m=asked.m, seed=asked.seed)
            seconds = (time.process_time() - begun) / asked.runs
            for (way, coefficient), some in found.items():
                text = json.dumps({
                    "design": name, "epsilon": epsilon, "runs": asked.runs, "m": asked.m, "way": way,
                    "coefficient": coefficient, **{k: round(v, 4) for k, v in line(some).items()},
                    "cpu_seconds_a_run": round(seconds, 2),
                })  # fmt: skip
                print(text, flush=True)
                if asked.out:
                    with asked.out.open("a", encoding="utf-8") as file:
                        file.write(text + "\n")


if __name__ == "__main__":
    main()
