"""What noise or chance explains is no relation (SECURITY R39), and what neither explains is one, with an interval."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import synthdp as sd
from synthdp.answers.relations import FALSE_LISTS, Evidence, Relations, ShownRelation, _connected, associations
from synthdp.pictures.column_views import drawn_indices
from synthdp.report.html_page import report_page
from synthdp.report.verdicts import ColumnVerdict, column_verdicts, in_lines

ROWS, EPSILONS = (500, 2000, 9000), (0.5, 1.0, 3.0)


def independent(seed: int, rows: int, columns: int = 14) -> tuple[pd.DataFrame, sd.Schema]:
    """Return a table of independent columns: uneven numbers, categories of uneven shares, amounts with a long tail."""
    rng = np.random.default_rng(seed)
    values, schema = {}, {}
    for j in range(columns):
        name = f"column {j}"
        if j % 3 == 0:
            values[name], schema[name] = rng.integers(0, 100, rows) ** 2 // 100, sd.Integer(0, 100)
        elif j % 3 == 1:
            levels = [f"level {i}" for i in range(3 + j)]
            values[name] = rng.choice(levels, rows, p=rng.dirichlet(np.full(len(levels), 0.6)))
            schema[name] = sd.Categorical(levels)
        else:
            values[name] = np.round(rng.lognormal(3, 1.2, rows).clip(0, 2000), 1)
            schema[name] = sd.Continuous(0, 2000)
    return pd.DataFrame(values), sd.Schema(schema)


def judged(table: pd.DataFrame, schema: sd.Schema, epsilon: float) -> tuple[Relations, list[ShownRelation], np.ndarray]:
    release = sd.SyntheticRelease(schema=schema, epsilon=epsilon).fit(table).release_
    names, matrix = associations(release.output, drawn_indices(release.output))
    found = Relations(release.output, release.measurements)
    return found, found.listed(names, matrix), matrix


@pytest.mark.landing
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_releases_of_independent_columns_list_no_relation() -> None:
    heard = [judged(*independent(seed, rows), 3.0) for seed, rows in enumerate((2000, 9000))]
    assert all(found.evidence for found, _, _ in heard)  # or nothing would be tested
    assert [listed for _, listed, _ in heard] == [[], []]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_none_of_100_releases_of_independent_columns_lists_a_relation() -> None:
    """At most one in a thousand may, by the bound; noise has no seed."""
    settings = itertools.islice(itertools.cycle(itertools.product(ROWS, EPSILONS)), 100)
    heard = [judged(*independent(seed, rows), epsilon) for seed, (rows, epsilon) in enumerate(settings)]
    assert sum(bool(found.evidence) for found, _, _ in heard) > 30
    assert max(float(matrix[np.triu_indices(14, 1)].max()) for _, _, matrix in heard) > 0.1  # the rows do show some
    assert [listed for _, listed, _ in heard if listed] == []


@pytest.mark.sampled
@pytest.mark.parametrize("weights", [np.ones(1), np.ones(40), 0.5 ** np.arange(12), np.array([9.0] + [0.1] * 90)])
def test_what_is_noise_stands_out_no_more_often_than_stated(weights: np.ndarray) -> None:
    """Weighted sums of squares of normal numbers, at a bound that is loosened so far that exceptions can be counted."""
    rng, tests = np.random.default_rng(1), FALSE_LISTS / 0.01
    sizes = rng.standard_normal((100_000, len(weights))) ** 2 @ weights
    mean, variance, largest = float(weights.sum()), float(2 * (weights**2).sum()), float(weights.max())
    out = [
        Evidence(
            size=size, mean=mean, variance=variance, largest=largest, weighted=size, error=1.0, shown=1.0
        ).stands_out(tests)  # type: ignore[arg-type]
        for size in np.sort(sizes)[-3000:].tolist()
    ]
    assert 0 < sum(out) <= 0.01 * len(sizes)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_columns_that_go_together_are_listed_with_an_interval_that_holds_the_real_association() -> None:
    rng, rows = np.random.default_rng(0), 6000
    a = rng.integers(0, 4, rows)
    b = np.where(rng.random(rows) < 0.7, a, rng.integers(0, 4, rows))  # Cramér's V is .7, about
    table = pd.DataFrame({"a": a, "b": b, "alone": rng.integers(0, 5, rows)})
    schema = sd.Schema({"a": sd.Integer(0, 3), "b": sd.Integer(0, 3), "alone": sd.Integer(0, 4)})
    _, listed, _ = judged(table, schema, 2.0)
    (one,) = listed
    assert set(one.columns) == {"a", "b"}
    assert one.measured
    assert one.low - 0.03 <= 0.7 <= one.high + 0.03
    assert one.low > 0.4
    assert one.high - one.low < 0.3


def test_a_relation_that_only_other_relations_make_is_said_to_be_implied() -> None:
    assert _connected(5, [(0, 1), (1, 2), (3, 4)]) == [0, 0, 0, 3, 3]
    assert "implied" in ShownRelation(columns=("a", "b"), association=0.3, measured=False).in_words()
    assert ShownRelation(columns=("a", "b"), association=0.3, low=0.2, high=0.4).in_words() == "0.30 (0.20 to 0.40)"


def test_whole_relations_with_narrow_intervals_are_good_enough_for_inference() -> None:
    def said(**settings: Any) -> str:
        return ShownRelation(columns=("a", "b"), association=0.3, **settings).for_inference

    assert said(low=0.26, high=0.34).startswith("yes")
    assert said(low=0.2, high=0.4) == said(low=0.0, high=0.1) == "yes, but its intervals are wide"
    assert said(measured=False).startswith("no")
    assert "linear" in said(low=0.26, high=1.0, partly=True)


@pytest.mark.landing
def test_verdicts_are_better_with_more_budget_and_in_words() -> None:
    table, schema = independent(3, 3000, columns=4)
    errors = []
    for epsilon in (0.1, 5.0):
        found, _, _ = judged(table, schema, epsilon)
        verdicts = column_verdicts(found.direct)
        assert [one.name for one in verdicts] == list(schema)
        errors.append(np.mean([one.error for one in verdicts]))
    assert errors[1] < errors[0] / 5
    lines = in_lines([replace(verdicts[0], name=f"x{i}", word="poor", error=0.3) for i in range(20)] + verdicts)
    assert "30 of 100 rows" in lines[0]
    assert "and 8 more" in lines[0]
    assert all(any(one.name in line for line in lines[1:]) for one in verdicts)
    assert ColumnVerdict(name="a", word="poor", error=0.3, lost=0.49).in_words() == (
        "about 30 of 100 rows would need another value to make its counts right; about 49 % of the "
        "values were outside what was declared"
    )
    assert "does not say" in ColumnVerdict(name="a", word="unknown", error=math.nan, lost=0.0).in_words()


@pytest.mark.landing
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_report_of_independent_columns_shows_no_pair() -> None:
    table, schema = independent(1, 9000)
    release = sd.SyntheticRelease(schema=schema, epsilon=3.0).fit(table).release_
    page = report_page(release, fingerprint="f")
    assert "No relation stands out of the noise" in page
    assert "No relation of two columns stands out of the noise" in page
    assert page.count("nothing beyond noise") == 12 * 11 / 2  # of the twelve columns that the map shows
