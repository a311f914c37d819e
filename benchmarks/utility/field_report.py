"""Tables, plots and sentences from the results of the field benchmark; nothing in them is written by hand.

    python benchmarks/utility/field_report.py            # rewrite the marked blocks of README and page, and the plots
    python benchmarks/utility/field_report.py --check    # say whether the blocks are what the results give

Blocks stand between <!-- field:start --> and <!-- field:end -->.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "field.jsonl"
README, PAGE = ROOT / "README.md", ROOT / "docs" / "benchmarks" / "field.md"
PLOTS = PAGE.parent / "images"
OURS, FLOOR = "synthdp", "bootstrap (not private)"
MEASURES = {
    "three_way": "error of counts over 3 columns",
    "two_way": "error of counts over 2 columns",
    "ks": "error of single numbers",
    "smooth": "error of smooth averages",
    "sharp": "error of sharp averages",
    "correlation": "correlation error",
    "auc": "AUC",
    "cpu_seconds": "CPU s",
    "peak_mb": "peak MB",
}
SHORT = ("three_way", "ks", "smooth", "auc", "cpu_seconds", "peak_mb")
LARGER_IS_BETTER = {"auc"}
README_WORDS = (
    "Each figure is a mean over the runs. Smaller is better, except for AUC. The first error is the mean total variation "
    "distance between synthetic and real rows, over sets of three columns. The second error is the mean Kolmogorov-Smirnov "
    "distance of the numeric columns. The third error is the largest error among 10 000 averages, each of a smooth function "
    "of the rows. AUC is the area under the ROC curve of a model that was trained on the synthetic rows and tested on real "
    'rows. In the rows "with our correction", we corrected two faults of a package that these methods use.'
)
"""What the head of README's table means.  A text."""
MEANING = {
    "three_way": "three-way marginals",
    "two_way": "two-way marginals",
    "ks": "single numeric columns (KS)",
    "smooth": "smooth queries",
    "sharp": "sharper queries",
    "correlation": "correlations",
    "auc": "the AUC of a trained model",
    "cpu_seconds": "processor seconds",
    "peak_mb": "peak megabytes",
}
STYLES = {  # Okabe and Ito's colours, and a marker of its own for each
    "synthdp": ("#000000", "o"),
    "independent columns": ("#999999", "s"),
    FLOOR: ("#999999", "_"),
    "opendp MST": ("#56B4E9", "2"),
    "opendp MST, repaired": ("#0072B2", "^"),
    "opendp AIM of pairs, repaired": ("#0072B2", "v"),
    "opendp AIM, repaired": ("#0072B2", "p"),
    "dpmm MST": ("#D55E00", "D"),
    "dpmm PrivBayes": ("#E69F00", "P"),
    "dpmm AIM": ("#D55E00", "X"),
    "smartnoise MST": ("#CC79A7", "1"),
    "smartnoise MST, repaired": ("#009E73", "<"),
    "smartnoise AIM, repaired": ("#009E73", ">"),
}
Runs = list[dict[str, Any]]


def grouped(records: Runs) -> dict[tuple[str, float], dict[str, Runs]]:
    """Runs by table and epsilon, then by method in the order of `STYLES`."""
    found: dict[tuple[str, float], dict[str, Runs]] = defaultdict(lambda: defaultdict(list))
    for record in sorted(records, key=lambda r: (r["table"], r["epsilon"], _place(r["method"]), r["seed"])):
        found[record["table"], record["epsilon"]][record["method"]].append(record)
    return found


def means(runs: Runs) -> dict[str, float]:
    """Mean of every measure over the runs that gave a table."""
    done = [run for run in runs if run["status"] == "done"]
    return {m: float(np.mean([run[m] for run in done])) for m in MEASURES if done and all(m in run for run in done)}


def table(methods: dict[str, Runs], measures: Sequence[str]) -> list[str]:
    """A Markdown table; the best private value of each column in bold, failures as they happened."""
    scores = {method: means(runs) for method, runs in methods.items()}
    shown = [m for m in measures if any(m in found for found in scores.values())]
    best = {
        m: _best(m, [found[m] for method, found in scores.items() if method != FLOOR and m in found]) for m in shown
    }
    lines = [
        "| method | runs | " + " | ".join(MEASURES[m] for m in shown) + " |",
        "|---|---" + "|---:" * len(shown) + "|",
    ]
    for method, runs in methods.items():
        found, ended = scores[method], failures(runs)
        if not found:
            lines.append(f"| {_shown(method)} | {len(runs)} | " + " | ".join([ended, *[""] * (len(shown) - 1)]) + " |")
            continue
        cells = [_bold(_number(found[m]), method != FLOOR and found[m] == best[m]) if m in found else "" for m in shown]
        done = sum(run["status"] == "done" for run in runs)
        lines.append(f"| {_shown(method)} | {done}{f' ({ended})' if ended else ''} | " + " | ".join(cells) + " |")
    return lines


def failures(runs: Runs) -> str:
    """How runs without a table ended."""
    ended = sorted({f"{run['status']}: {run['message']}" for run in runs if run["status"] != "done"})
    return "; ".join(ended).replace("|", "/")


def better_peers(methods: dict[str, Runs]) -> list[str]:
    """A sentence for every measure in which a private peer is better than synthdp."""
    ours, sentences = means(methods.get(OURS, [])), []
    for measure, value in ours.items():
        sign = -1 if measure in LARGER_IS_BETTER else 1
        peers = {
            m: means(runs)[measure] for m, runs in methods.items() if m not in (OURS, FLOOR) and measure in means(runs)
        }
        ahead = {m: theirs for m, theirs in peers.items() if sign * theirs < sign * value}
        if ahead:
            named = ", ".join(f"{_shown(method)} ({_number(theirs)})" for method, theirs in ahead.items())
            sentences.append(f"In {MEANING[measure]}, synthdp ({_number(value)}) does worse than {named}.")
    return sentences


def made_on(records: Runs) -> str:
    """When and on what: days and machines of the runs, and versions of the packages."""
    days = sorted({record["date"] for record in records})
    machines = sorted({record["machine"] for record in records})
    versions = sorted({" ".join(next(iter(record["versions"].items()))) for record in records if "versions" in record})
    period = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    ran_on, packages = "; ".join(machines), ", ".join(versions)
    return f"The measurements date from {period} and used one core of: {ran_on}. The packages were {packages}."


def readme_block(records: Runs) -> str:
    """What README shows: the bundled table at epsilon 1."""
    methods = grouped(records)["adult", 1.0]
    rows = next(iter(methods.values()))[0]["rows"]
    made = f"The table was made with {_number(rows)} training rows of Adult, at ε = 1 and δ = 1e-9."
    lines = [f"{made} {README_WORDS}", "", *table(methods, SHORT), ""]
    lines += better_peers(methods) or ["No peer is ahead of synthdp in any of these measures."]
    lines += ["", made_on([run for runs in methods.values() for run in runs])]
    page = "[docs/benchmarks/field.md](docs/benchmarks/field.md)"
    lines += [f"The page {page} says what is measured and how fair the comparison is."]
    return "\n".join(lines)


def page_block(records: Runs) -> str:
    """What the page shows: every table at every epsilon."""
    lines = []
    for (name, epsilon), methods in grouped(records).items():
        lines += [f"### {name}, ε = {epsilon:g}", "", *table(methods, list(MEASURES)), ""]
        lines += [" ".join(better_peers(methods)) or "No peer is ahead of synthdp in any measure here.", ""]
    return "\n".join([*lines, made_on(records)])


def with_block(text: str, block: str) -> str:
    """A page with its block replaced."""
    pattern = re.compile(r"(<!-- field:start -->\n).*?(<!-- field:end -->)", re.DOTALL)
    if not pattern.search(text):
        raise ValueError("the page has no marks <!-- field:start --> and <!-- field:end -->")
    return pattern.sub(lambda marks: f"{marks[1]}{block}\n{marks[2]}", text)


def draw(records: Runs, folder: Path) -> None:
    """Error against epsilon and error against processor seconds, for each table."""
    import matplotlib as mpl

    mpl.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    for name in sorted({record["table"] for record in records}):
        of_table = {epsilon: methods for (n, epsilon), methods in grouped(records).items() if n == name}
        _draw_epsilon(of_table, name, folder / f"field-{name}-epsilon.png")
        for epsilon, methods in of_table.items():
            _draw_seconds(methods, f"{name}, ε = {epsilon:g}", folder / f"field-{name}-seconds-{epsilon:g}.png")


def _draw_epsilon(of_table: dict[float, dict[str, Runs]], name: str, path: Path) -> None:
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 4.8))
    for method, (colour, marker) in STYLES.items():
        found = [
            (e, means(methods[method])["three_way"])
            for e, methods in of_table.items()
            if means(methods.get(method, []))
        ]
        if found:
            line = "--" if method == FLOOR else "-"
            axes.plot(*zip(*found, strict=True), line, color=colour, marker=marker, label=method)
    _finish(axes, f"{name}: three-way error against ε")
    axes.set_xlabel("ε (δ = 1e-9)")
    axes.set_xticks(list(of_table), [f"{epsilon:g}" for epsilon in of_table])
    axes.tick_params(axis="x", which="minor", bottom=False)
    axes.legend(fontsize=8, frameon=False, bbox_to_anchor=(1.01, 1), loc="upper left")
    figure.savefig(path, dpi=130, bbox_inches="tight")
    plt.close(figure)


def _draw_seconds(methods: dict[str, Runs], title: str, path: Path) -> None:
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 4.8))
    points: list[tuple[float, float, str]] = []
    for method, runs in methods.items():
        colour, marker = STYLES[method]
        found = means(runs)
        if not found:
            continue
        if method == FLOOR:
            axes.axhline(found["three_way"], color=colour, linestyle="--", label=f"{method}: error of a finite sample")
            continue
        axes.plot(
            found["cpu_seconds"],
            found["three_way"],
            marker,
            color=colour,
            markersize=9,
            markeredgewidth=2,
            linestyle="",
            label=method,
        )
        points.append((found["three_way"], found["cpu_seconds"], method))
    placed: list[tuple[float, float]] = []
    last = max((seconds for _, seconds, _ in points), default=1.0)
    # A name stands beside its point: to the left where another point, or the edge, is near.
    for error, seconds, method in sorted(points):
        near = [1 for e, t in placed if error < 1.09 * e and max(seconds / t, t / seconds) < 5]
        place, side = ((-10, -3), "right") if len(near) % 2 or seconds > last / 3 else ((10, -3), "left")
        axes.annotate(method, (seconds, error), xytext=place, ha=side, textcoords="offset points", fontsize=7.5)
        placed.append((error, seconds))
    times = [seconds for _, seconds, _ in points]
    late = [method for method, runs in methods.items() if any(run["status"] == "timed out" for run in runs)]
    for method in late:
        limit = next(run["limit"] for run in methods[method] if run["status"] == "timed out")
        axes.axvline(limit, color=STYLES[method][0], linestyle=":", label=f"{method}: no table in {limit:g} s")
    _finish(axes, f"{title}: three-way error against processor seconds")
    axes.set_xlim(min(times, default=1.0) / 2, 8 * max(times, default=1.0))
    axes.set_xlabel("processor seconds of release and sampling, one core")
    axes.legend(fontsize=8, frameon=False, bbox_to_anchor=(1.01, 1), loc="upper left")
    figure.savefig(path, dpi=130, bbox_inches="tight")
    plt.close(figure)


def _finish(axes: Any, title: str) -> None:
    from matplotlib.ticker import ScalarFormatter

    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylabel("mean total variation distance\nof three-way marginals (lower is better)")
    axes.set_title(title, fontsize=11)
    axes.grid(visible=True, which="both", alpha=0.25)
    axes.yaxis.set_major_formatter(ScalarFormatter())
    axes.yaxis.set_minor_formatter(ScalarFormatter())
    axes.tick_params(which="both", labelsize=8)


def _place(method: str) -> int:
    return list(STYLES).index(method) if method in STYLES else len(STYLES)


def _best(measure: str, values: Sequence[float]) -> float:
    return (max if measure in LARGER_IS_BETTER else min)(values, default=float("nan"))


def _number(value: float) -> str:
    return f"{value:,.0f}".replace(",", " ") if value >= 100 else f"{value:.3g}"


def _shown(method: str) -> str:
    """Return a method's name as tables show it: what was mended is the sampler that the method depends on."""
    return method.replace(", repaired", ", with our correction")


def _bold(text: str, yes: bool) -> str:
    return f"**{text}**" if yes else text


def main(arguments: Sequence[str] | None = None) -> None:
    """Rewrite or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    records = [json.loads(line) for line in options.results.read_text(encoding="utf-8").splitlines()]
    old = {page: page.read_text(encoding="utf-8") for page in (README, PAGE)}
    new = {README: with_block(old[README], readme_block(records)), PAGE: with_block(old[PAGE], page_block(records))}
    if options.check:
        differ = [str(page.relative_to(ROOT)) for page in old if old[page] != new[page]]
        if differ:
            sys.exit(f"not what {options.results.name} gives: {', '.join(differ)}; run field_report.py")
        return
    for page, text in new.items():
        page.write_text(text, encoding="utf-8")
    draw(records, PLOTS)


if __name__ == "__main__":
    main()
