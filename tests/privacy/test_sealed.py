"""R28: no public name leads from what users and mechanisms get to rows, to hidden noise, or to a noisy threshold."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from attribute_walk import walk
from mechanism_cases import BUDGET, CANARY, CASES, DOMAIN, KEYS, SPARSE, WORKLOAD
from private_door import hidden_state, private_table
from sklearn.dummy import DummyClassifier

from synthdp import (
    ApproxDP,
    Curator,
    MedianMechanism,
    PrivateMultiplicativeWeights,
    PureDP,
    SparseWeights,
    SyntheticRelease,
    TrainOnSynthetic,
    load,
)
from synthdp.curator.guarded_table import GuardedTable
from synthdp.curator.private_table import PrivateTable
from synthdp.curator.spill import SpillBuffer
from synthdp.privacy import noise
from synthdp.tables.source import Source

LEVEL = 987_654_321_123
"""Every draw of one-sided noise: a number that occurs nowhere else."""

CASE_OF = {
    case: next(name for name, row in CASES[case].world.strange.items() if CANARY in row.values()) for case in CASES
}
"""The strange row that holds the canary, in the world of each mechanism."""


def breaches(*things: object) -> list[str]:
    """Ways to rows, to hidden noise or to a value that only one private row has."""
    return [way for way, found in walk(*things) if _is_private(found)]


def _is_private(found: object) -> bool:
    if isinstance(found, (PrivateTable, SpillBuffer, GuardedTable, Source)):
        return True
    if isinstance(found, (int, float, np.ndarray)):
        return bool(np.isin(np.asarray(found, object), [LEVEL, LEVEL / 1024]).any())
    return CANARY in str(found) if isinstance(found, (str, bytes, pd.DataFrame, pd.Series, pd.Index)) else False


def curator_of(case: str, budget: object = BUDGET, neighbors: str = "add_remove") -> Curator:
    world = CASES[case].world
    return Curator(
        world.neighbours(CASE_OF[case], neighbors)[1], schema=world.schema, budget=budget, neighbors=neighbors
    )


@pytest.mark.parametrize(
    "hidden",
    [
        private_table,
        lambda curator: {"a": [(private_table(curator).source,)]},
        lambda curator: private_table(curator).exact,
        lambda _: SimpleNamespace(level=LEVEL),
        lambda _: np.array([1, LEVEL]),
        lambda _: SimpleNamespace(city=f"the {CANARY}"),
    ],
)
def test_the_walk_finds_what_is_planted(hidden):
    assert breaches(SimpleNamespace(found=[hidden(curator_of("SparseWeights"))]))


@pytest.mark.sampled("landing")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("name", CASES)
def test_no_row_can_be_reached_from_a_curator_an_account_or_a_release(name, neighbors):
    curator = curator_of(name, neighbors=neighbors)
    account = curator.open_account(ApproxDP(0.1, 1e-8))
    release = CASES[name].run(CASES[name].build(), curator)
    things = curator, account, release, release.receipt, release.measurements, release.output
    assert len(list(walk(*things))) > 30
    assert breaches(*things) == []


SESSIONS = {
    "SparseWeights": (lambda: SparseWeights(max_updates=3), SPARSE[:3]),
    "PrivateMultiplicativeWeights": (lambda: PrivateMultiplicativeWeights(DOMAIN, max_updates=3), [WORKLOAD]),
    "MedianMechanism": (lambda: MedianMechanism(DOMAIN, size=3, max_updates=3), [WORKLOAD]),
}


@pytest.mark.parametrize("name", SESSIONS)
def test_no_row_and_no_hidden_noise_can_be_reached_from_a_session(name, monkeypatch):
    monkeypatch.setattr(noise, "geometric", lambda *, scale: LEVEL)
    build, questions = SESSIONS[name]
    session = build().open(curator_of(name, PureDP(1.0)))
    for question in questions:
        session.ask(question)
        assert breaches(session) == []
    assert hidden_state(session.watch).level == LEVEL
    assert not {"room", "level", "vault", "to_document"} & set(dir(session.watch))


def test_neither_can_they_from_a_session_that_is_being_continued(monkeypatch, tmp_path):
    monkeypatch.setattr(noise, "geometric", lambda *, scale: LEVEL)
    session = SparseWeights(max_updates=3).open(curator_of("SparseWeights", PureDP(1.0)))
    session.ask(SPARSE[0])
    session.save(tmp_path / "s")
    again = curator_of("SparseWeights", PureDP(1.0))
    with again.resume_watch(tmp_path / "s") as saved:
        assert hidden_state(saved.watch).level == LEVEL
        assert breaches(saved) == []
    assert breaches(session, saved, again) == []


@pytest.mark.filterwarnings("ignore")
def test_no_row_can_be_reached_from_an_estimator_or_a_saved_release(tmp_path):
    table = KEYS.neighbours(CASE_OF["SparseWeights"], "add_remove")[1]
    model = SyntheticRelease(schema=KEYS.schema, ledger=tmp_path / "l.sqlite").fit(table)
    model.save(tmp_path / "r")
    trained = TrainOnSynthetic(DummyClassifier(), SyntheticRelease(schema=KEYS.schema)).fit(
        table[["city"]], table["job"]
    )
    assert breaches(model, trained, load(tmp_path / "r")) == []


@pytest.mark.parametrize("thing", ["curator", "watch"])
def test_nothing_of_a_budget_or_a_watch_can_be_set(thing):
    """A plan that could be replaced would be one with less noise."""
    curator = curator_of("SparseWeights")
    guarded = {"curator": curator, "watch": curator.watch(("city",), max_alarms=2)}[thing]
    names = [name for name in dir(guarded) if not name.startswith("_")]
    assert len(names) > 8
    for name in names:
        with pytest.raises(AttributeError):
            setattr(guarded, name, None)
