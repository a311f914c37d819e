"""Mechanisms that list whole rows: values that do not fit the schema are in none of their rows, and that is said.

Through every door: columns by name, a domain that joins misfits to a level, one that has a cell for them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from no_noise import without_noise

import synthdp as sd
from synthdp.domain.domain import Domain, releasable_domain
from synthdp.queries.marginals import one_ways

ROWS = 4000
PROPORTIONS = {"a": 0.5, "b": 0.3, "c": 0.2}
SCHEMA = sd.Schema({"level": sd.Categorical(list(PROPORTIONS)), "flag": sd.Boolean()})
DOMAINS = {"joined": releasable_domain(sd.domain_of(SCHEMA)), "apart": sd.domain_of(SCHEMA)}


def whole_and_struck() -> tuple[pd.DataFrame, pd.DataFrame]:
    """A table, and the same table where three of ten levels are typing errors."""
    rng = np.random.default_rng(8)
    whole = pd.DataFrame({"level": rng.choice(list("abc"), ROWS, p=list(PROPORTIONS.values())).astype(object)})
    whole["flag"] = rng.random(ROWS) < np.where(whole["level"] == "a", 0.8, 0.3)
    return whole, whole.assign(level=whole["level"].where(rng.random(ROWS) >= 0.3, "typing error"))


WHOLE, STRUCK = whole_and_struck()
FITS = STRUCK["level"] != "typing error"
COUNTS = STRUCK["level"][FITS].value_counts()[list(PROPORTIONS)]


def pairs(domain: Domain) -> sd.Marginals:
    return sd.Marginals(domain, ((0, 1),))


def asked(session: Any, domain: Domain) -> sd.Release[Any]:
    for _ in range(3):
        session.ask(pairs(domain))
    return session.close()


DOORS: dict[str, Callable[[sd.Curator], sd.Release[Any]]] = {
    "boosting by names": lambda curator: sd.PrivateBoosting([("level", "flag")], rounds=3).release(curator),
    **{
        f"{name}, {door}": make(domain)
        for door, domain in DOMAINS.items()
        for name, make in {
            "boosting": lambda d: lambda c: sd.PrivateBoosting(pairs(d), rounds=3, drawn=64).release(c),
            "weights": lambda d: lambda c: asked(sd.PrivateMultiplicativeWeights(d, threshold=20).open(c), d),
            "median": lambda d: lambda c: asked(sd.MedianMechanism(d, size=12, threshold=250).open(c), d),
        }.items()
    },
}
TOLERANCES = {name: 0.1 if "median" in name else 0.02 for name in DOORS}
every = pytest.mark.parametrize("name", DOORS)
neighbors = pytest.mark.parametrize("relation", ["add_remove", "replace_one"])


def curator(table: pd.DataFrame, relation: str) -> sd.Curator:
    return sd.Curator(table, schema=SCHEMA, budget=sd.ApproxDP(500.0, 1e-9), neighbors=relation)


@cache
def struck(name: str, relation: str) -> sd.Release[Any]:
    """A release of the table with misfits, for all tests that only read it."""
    return DOORS[name](curator(STRUCK, relation))


def levels(release: sd.Release[Any]) -> np.ndarray:
    """The shares of the levels among all rows, by the release's own answers."""
    answers = release.output.answer(sd.Marginals(DOMAINS["joined"], ((0,),)))
    assert answers.sum() == pytest.approx(ROWS, rel=0.02)
    return np.asarray(answers / answers.sum())


@pytest.mark.sampled
@every
@neighbors
def test_levels_are_in_the_proportions_of_the_rows_that_fit(name: str, relation: str) -> None:
    np.testing.assert_allclose(levels(struck(name, relation)), COUNTS / FITS.sum(), atol=TOLERANCES[name])


@pytest.mark.sampled
@every
@neighbors
def test_the_receipt_says_how_many_rows_did_not_fit(name: str, relation: str) -> None:
    notes = struck(name, relation).receipt.notes
    assert sum(f"{1 - FITS.mean():.0%}" in note and "fit" in note for note in notes) == 1


@pytest.mark.sampled
@every
@neighbors
def test_of_a_table_that_fits_nothing_is_said(name: str, relation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without_noise(monkeypatch)  # which passes for misfits in one release of a hundred
    assert not any("fit" in note for note in DOORS[name](curator(WHOLE, relation)).receipt.notes)


@pytest.mark.parametrize("name", [name for name in DOORS if "boosting" not in name])
def test_the_share_of_each_column_is_told(name: str) -> None:
    found = struck(name, "add_remove").misfits
    assert found["level"].share == pytest.approx(1 - FITS.mean(), abs=0.01)
    assert found["flag"].share == pytest.approx(0.0, abs=0.01)


@pytest.mark.sampled("landing")
@neighbors
@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
def test_a_session_answers_as_its_table_does(domain: Domain, relation: str) -> None:
    session = sd.PrivateMultiplicativeWeights(domain, threshold=20).open(curator(STRUCK, relation))
    queries = one_ways(domain)
    answers = np.array([float(answer) for answer in [*session.ask(queries), *session.ask(queries)]][queries.k :])
    release = session.close()
    np.testing.assert_allclose(answers, release.output.answer(queries), atol=100)
    sample = release.sample(ROWS, random_state=0)
    np.testing.assert_allclose(answers[:3], sample["level"].value_counts()[list(PROPORTIONS)], atol=100)


@pytest.mark.parametrize("make", [sd.LaplaceAnswers, sd.GaussianAnswers])
@pytest.mark.parametrize("aim", ["mean", "max"])
@pytest.mark.parametrize("budget", [sd.ApproxDP(500.0, 1e-9), sd.ZCDP(5000.0)], ids=["approximate", "zcdp"])
@neighbors
def test_direct_answers_count_a_misfit_in_no_level_and_its_row_in_other_tables(
    make: Any, aim: str, budget: Any, relation: str
) -> None:
    budget = sd.PureDP(500.0) if make is sd.LaplaceAnswers else budget
    for queries in (["level", "flag"], sd.Marginals(DOMAINS["joined"], ((0,), (1,)))):
        held = sd.Curator(STRUCK, schema=SCHEMA, budget=budget, neighbors=relation)
        answers = make(queries, aim=aim).release(held).output
        flags = STRUCK["flag"].value_counts()
        np.testing.assert_allclose(answers.values, [*COUNTS, flags[False], flags[True]], atol=3)


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["boosting by names", "weights, joined", "median, apart"])
@pytest.mark.parametrize("table", [STRUCK.assign(level="typing error"), STRUCK.iloc[:0]], ids=["no row fits", "no row"])
@neighbors
def test_a_table_of_which_no_row_fits_still_comes_out(name: str, table: pd.DataFrame, relation: str) -> None:
    release = DOORS[name](curator(table, relation))
    answers = release.output.answer(sd.Marginals(DOMAINS["joined"], ((0,),)))
    assert np.isfinite(answers).all()
