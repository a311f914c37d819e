"""How often the 95 % intervals of answers over joins hold the truth, over releases of a panel (not private; a benchmark).

    python benchmarks/utility/joins.py --seeds 3 [--epsilon 1 5] [--panel star] [--shared ../shared] [--releases FOLDER]
        [--questions 40] [--out joins.jsonl]

Questions are drawn once, with a seed: counts of records under conditions on the person's and on the record's columns, means
of a record's numbers by record and by person, shares of persons by how many records they have or what these are in the
mean, sums a person, groups, quantiles, correlations.  One JSON line for each kind of question, epsilon and basis: the part
of intervals that hold the truth, the root mean square of errors in standard errors, and the median of half a width over
1.96 times the root mean square error of its question over the releases.

With ``--releases`` releases are kept in a folder, and read from it where it has them.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from json_lines import tell
from star import panel_options

import synthdp as sd

LEAST = 30
"""Rows that a condition must leave for a mean to be asked."""


class Asked(NamedTuple):
    """A question and the truth."""

    kind: str
    question: Any
    of: str | None
    truth: Any


def condition(
    table: pd.DataFrame, schema: dict[str, Any], name: str, rng: np.random.Generator
) -> tuple[str, pd.Series]:
    """Return a condition on one column, and where it holds."""
    values = table[name].dropna()
    if isinstance(schema[name], (sd.Integer, sd.Continuous)):
        least = round(float(values.quantile(rng.choice([0.2, 0.4, 0.6, 0.8]))), 3)
        return f"{name} >= {least}", table[name] >= least
    level = rng.choice(values.unique())
    shown = int(level) if isinstance(level, (bool, np.bool_)) else repr(str(level))
    return f"{name} == {shown}", table[name] == level


def questions(persons: pd.DataFrame, records: pd.DataFrame, schema: sd.DatabaseSchema, *, many: int) -> Iterator[Asked]:
    """Yield questions about a panel, with their true answers."""
    rng, key, order = np.random.default_rng(0), schema.key, schema.relations[0].order
    above, below = dict(schema.tables["persons"]), dict(schema.tables["records"])
    joined = records.merge(persons, on=key)
    every, numeric = (
        above | below,
        [n for n, c in below.items() if n != order and isinstance(c, (sd.Integer, sd.Continuous))],
    )
    size = joined.groupby(key).size().reindex(persons[key], fill_value=0).to_numpy()
    yield Asked("persons", sd.count(), None, len(persons))
    yield Asked("rows a person", sd.mean("records.rows"), None, size.mean())
    yield Asked("rows", sd.sum("records.rows"), None, size.sum())
    for least in range(1, schema.relations[0].at_most + 1):
        yield Asked("share by rows", sd.share(f"records.rows >= {least}"), None, (size >= least).mean())
    for i in range(many):
        one, mask = condition(joined, every, str(rng.choice(list(above))), rng)
        two, other = condition(joined, every, str(rng.choice(list(below))), rng)
        both = f"{one} and {two}"
        yield Asked("count, two columns", sd.count(both), None, (mask & other).sum())
        yield Asked("persons with such a row", sd.count(both), "persons", joined[mask & other][key].nunique())
        three, third = condition(joined, every, order, rng)
        yield Asked("count, three columns", sd.count(f"{both} and {three}"), None, (mask & other & third).sum())
        some = mask & third
        if numeric and some.sum() >= LEAST:
            name = numeric[i % len(numeric)]
            where = f"{one} and {three}"
            yield Asked("mean of some", sd.mean(name, where=where), None, joined[name][some].mean())
            values = joined[name][some].dropna()
            exact = np.quantile(values, [0.1, 0.5, 0.9], method="inverted_cdf")
            yield Asked("quantile of some", sd.quantile(name, [0.1, 0.5, 0.9], where=where), None, exact)
            yield Asked("sum of some", sd.sum(name, where=where), None, joined[name][some].sum())
            yield Asked("share of some", sd.share(two, where=where), None, other[some].mean())
            yield from _of_persons(persons, joined, name, one, mask, key)
    for name in numeric:
        yield Asked("mean", sd.mean(name), None, joined[name].mean())
        groups = joined.groupby(order)[name].mean()
        levels = getattr(schema.tables["records"][order], "levels", None)
        if levels is not None:
            yield Asked("mean by period", sd.mean(name, by=order), None, groups.reindex(levels).to_numpy())
    for a, b in itertools.pairwise(numeric):
        yield Asked("correlation", sd.correlation(a, b), None, joined[[a, b]].dropna().corr().iloc[0, 1])


def _of_persons(
    persons: pd.DataFrame, joined: pd.DataFrame, name: str, where: str, mask: pd.Series, key: str
) -> Iterator[Asked]:
    """Yield questions about what persons have in the mean, in sum, and at most."""
    known = joined[mask & joined[name].notna()].groupby(key)[name]
    means = known.mean()
    yield Asked("mean of means", sd.mean(f"records.{name}.mean", where=where), None, means.mean())
    least = round(float(means.quantile(0.7)), 3)
    yield Asked("mean of maxima", sd.mean(f"records.{name}.max", where=where), None, known.max().mean())
    some = persons[persons[key].isin(joined[mask][key])]
    sums = known.sum().reindex(some[key], fill_value=0)
    without = f"{where} and records.rows >= 1"
    yield Asked("sum a person", sd.mean(f"records.{name}.sum", where=without), None, sums.mean())
    holds = (means >= least).sum() / len(some)
    yield Asked("share by means", sd.share(f"records.{name}.mean >= {least}", where=without), None, holds)


def held(release: Any, asked: Asked) -> Iterator[tuple[str, str, float, float, float, float]]:
    """Yield kind, basis, estimate, ends and truth of each answer to a question."""
    found = release.answer(asked.question, of=asked.of)
    truths = np.atleast_1d(np.asarray(asked.truth, np.float64))
    rows = found.iloc[: len(truths)]  # of groups, not the one of missing values
    for row, truth in zip(rows.itertuples(), truths, strict=True):
        yield asked.kind, row.basis, float(row.estimate), float(row.lower), float(row.upper), float(truth)


def summarised(lines: dict[tuple[str, str], list[np.ndarray]]) -> Iterator[dict[str, Any]]:
    """Yield what became of the intervals of each kind of question; per question an array of (releases, 4)."""
    for (kind, basis), parts in lines.items():
        inside, scaled, widths = [], [], []
        for part in parts:
            estimate, lower, upper, truth = part.T
            half = np.maximum(upper - lower, 1e-12) / 2
            inside += list((lower <= truth) & (truth <= upper))
            scaled += list((estimate - truth) / half * 1.96)
            widths.append(np.median(half) / max(1.96 * float(np.sqrt(np.mean((estimate - truth) ** 2))), 1e-12))
        yield {
            "kind": kind, "basis": basis, "answers": len(inside), "held": round(float(np.mean(inside)), 3),
            "error_in_bars": round(float(np.sqrt(np.mean(np.square(scaled)))), 2),
            "width": round(float(np.median(widths)), 2),
        }  # fmt: skip


def released(folder: Path | None, name: str, fit: Callable[[], Any]) -> Any:
    """Return a release from a folder, made and put there if it is not."""
    if folder is not None and (folder / name).exists():
        return sd.load(folder / name)
    made = fit()
    if folder is not None:
        made.save(folder / name)
    return made.release_


def main() -> None:
    """Release, ask, print."""
    options, panel = panel_options(__doc__, ("--questions", {"type": int, "default": 40}))
    real, schema = panel.tables, panel.schema
    every = list(questions(real["persons"], real["records"], schema, many=options.questions))
    for epsilon in options.epsilon:
        found: dict[int, list[Any]] = defaultdict(list)
        for seed in range(options.seeds):
            release = released(
                options.releases, f"{options.panel}-{epsilon:g}-{seed}",
                lambda: sd.DatabaseRelease(schema=schema, epsilon=epsilon, random_state=seed).fit(real),  # noqa: B023
            )  # fmt: skip
            for number, asked in enumerate(every):
                found[number].append(list(held(release, asked)))
        lines: dict[tuple[str, str], list[np.ndarray]] = defaultdict(list)
        for answers in found.values():
            for i, (kind, basis, *_) in enumerate(answers[0]):
                lines[kind, basis].append(np.array([one[i][2:] for one in answers]))
        for line in summarised(lines):
            tell({"panel": options.panel, "epsilon": epsilon, "seeds": options.seeds} | line, options.out)


if __name__ == "__main__":
    main()
