"""The room of a panel: what all its answers together cost a person, by enumeration; and that it tells nothing twice."""

import itertools

import numpy as np
import pandas as pd
import pytest

from synthdp import Boolean, Categorical, Continuous, Integer, Ledger, Schema
from synthdp.curator.panel_room import PanelRoom
from synthdp.curator.series_account import SeriesTerms
from synthdp.domain.panel_states import PanelStates
from synthdp.errors import BudgetExceededError, DataError, FormatError, ParameterError, PrivacyError, SchemaError
from synthdp.privacy import noise
from synthdp.privacy.loss import ApproxDP
from synthdp.privacy.neighbors import Adjacency, Neighbors

SCHEMA = Schema({"a": Boolean()})
OTHERS = {"x": (1, 0, 0, 1), "y": (0, None, 1, 1)}
"""What two persons did in four periods; None is no row."""


def terms_of(periods=4, window=2, **settings):
    adjacency = Adjacency(Neighbors.ADD_REMOVE, "who", 1)
    return SeriesTerms(
        loss=ApproxDP(1.0, 1e-9), adjacency=adjacency, periods=periods, most_periods=periods, window=window, **settings
    )


def room_of(folder, terms, **settings):
    return PanelRoom(folder / "private", schema=SCHEMA, terms=terms, **settings)


def table(persons, period):
    """The rows of a period; a person may have several states in it."""
    rows = []
    for who, states in persons.items():
        one = states[period]
        rows += [(who, bool(state)) for state in (one if isinstance(one, tuple) else (one,)) if state is not None]
    return pd.DataFrame(rows, columns=["who", "a"]).astype({"a": bool})


@pytest.fixture
def noiseless(monkeypatch):
    monkeypatch.setattr(noise, "discrete_gaussian", lambda values, *, scale: np.array(values, np.int64))
    monkeypatch.setattr("os.fsync", lambda handle: None)


def told(folder, persons, terms):
    room = room_of(folder, terms)
    found = [room.add(t, table(persons, t)) for t in range(terms.periods)]
    return room, [one for one in found if one is not None]


@pytest.mark.sampled
@pytest.mark.usefixtures("noiseless")
@pytest.mark.parametrize(
    ("window", "each"),
    [(1, 13), (2, 9), (3, 13), *(pytest.param(window, 1, marks=pytest.mark.slow) for window in (1, 2, 3, 4))],
)
def test_no_person_costs_more_than_the_promise_whatever_it_does(window, each, tmp_path):
    """Histories of four periods of three kinds: absent, one state, the other; and several rows in a period."""
    terms = terms_of(window=window)
    room, base = told(tmp_path / "base", OTHERS, terms)
    choices = [(None, 0, 1)] * 4
    several = [((0, 1), 0, (1, 1, 1), 1), ((0, 0), (1, 0), None, (0, 1))]
    worst, least = 0.0, np.inf
    some = [*itertools.product(*choices)][::each]
    for number, history in enumerate([*some, *several]):
        _, found = told(tmp_path / str(number), OTHERS | {"z": history}, terms)
        moved = [one.astype(float) - two for one, two in zip(base, found, strict=True)]
        cost = sum(float(one @ one) for one in moved) / (room.plan.noise.scale**2 - 4)
        worst = max(worst, cost)
        if history[0] is not None:
            least = min(least, cost)
        else:
            assert cost == 0  # who comes later is not of the panel
    assert worst <= terms.mu**2 * (1 + 1e-9)
    assert least >= terms.mu**2 * (1 - 1e-6)


@pytest.mark.usefixtures("noiseless")
def test_the_counts_are_those_of_sequences_of_states(tmp_path):
    terms = terms_of()
    room, found = told(tmp_path, OTHERS, terms)
    counts = np.array(found) / room.plan.resolution
    states = room.states
    wanted = np.zeros_like(counts)
    for one in OTHERS.values():
        numbered = [states.absent if state is None else state for state in one]
        for t in range(3):
            wanted[t, states.pattern_of(np.array([numbered[t : t + 2]]))[0]] += 1
    assert (counts == wanted).all()


def test_the_same_period_is_told_the_same_and_other_rows_are_refused(tmp_path):
    terms = terms_of()
    persons = OTHERS | {"z": (1, 1, 1, 1)}
    room_of(tmp_path, terms).add(0, table(persons, 0))
    first = room_of(tmp_path, terms).add(1, table(persons, 1))
    again = room_of(tmp_path, terms).add(1, table(persons, 1).iloc[::-1])
    assert first.tolist() == again.tolist()
    with pytest.raises(DataError, match="interrupted"):
        room_of(tmp_path, terms).add(1, table(OTHERS, 1))
    with pytest.raises(DataError, match="later"):
        room_of(tmp_path, terms).add(0, table(OTHERS, 0))


def test_periods_come_in_order_and_are_as_many_as_agreed(tmp_path):
    room = room_of(tmp_path, terms_of())
    with pytest.raises(FormatError):
        room.add(1, table(OTHERS, 1))
    for t in range(4):
        room.add(t, table(OTHERS, t))
    with pytest.raises(DataError, match=r"\b4\b"):
        room.add(4, table(OTHERS, 3))


def test_what_no_window_needs_any_more_is_deleted(tmp_path):
    told(tmp_path, OTHERS, terms_of())
    kept = sorted(path.name for path in (tmp_path / "private").glob("states-*"))
    assert kept == ["states-0003.private"]
    room_of(tmp_path, terms_of()).forget()
    assert not (tmp_path / "private").exists()


def test_the_ledger_is_charged_once_and_terms_cannot_change(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_cap("panel", terms_of().loss, neighbors="add_remove", privacy_unit="who")
    for _ in range(2):
        room_of(tmp_path, terms_of(), ledger=ledger, dataset="panel").start()
    assert [entry.loss for entry in ledger.entries("panel")] == [terms_of().loss]
    with pytest.raises(PrivacyError):
        room_of(tmp_path, terms_of(window=3)).start()
    with pytest.raises(BudgetExceededError):
        room_of(tmp_path / "other", terms_of(), ledger=ledger, dataset="panel").start()


def test_a_panel_needs_persons_and_few_sequences():
    one = Adjacency(Neighbors.ADD_REMOVE, None, 1)
    with pytest.raises(ParameterError):
        SeriesTerms(loss=ApproxDP(1.0, 1e-9), adjacency=one, periods=4, window=2)
    with pytest.raises(ParameterError, match="window"):
        terms_of(window=5)
    with pytest.raises(ParameterError, match="sequences"):
        PanelStates(Schema({"n": Integer(0, 99)}), 3, 100)
    with pytest.raises(SchemaError):
        PanelStates(Schema({"n": Continuous()}), 2, 4)


def test_states_are_cells_of_all_columns_and_absence():
    states = PanelStates(Schema({"a": Categorical(["x", "y", "z"]), "n": Integer(0, 9)}), 2, 5)
    assert states.count == 3 * 5 + 1
    rng = np.random.default_rng(0)
    every = np.arange(states.count - 1)
    assert states.of_rows(states.rows_of(every, rng)).tolist() == every.tolist()
    assert states.pattern_of(states.sequences()).tolist() == list(range(states.patterns))
