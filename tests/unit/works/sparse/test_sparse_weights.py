"""Sparse multiplicative weights: one cost, at most c updates, failure that says what to raise, sessions that go on."""

import json

import numpy as np
import pandas as pd
import pytest
from no_noise import recorded, replayed, without_noise
from private_door import private_table

from synthdp import ZCDP, ApproxDP, Curator, GaussianDP, Ledger, PureDP
from synthdp.errors import BudgetExceededError, DataError, FormatError, MechanismFailure, ParameterError, PrivacyError
from synthdp.privacy import noise
from synthdp.queries.supports import KeyList
from synthdp.tables.keys import overlap
from synthdp.works.sparse.sparse_table import Origin
from synthdp.works.sparse.sparse_weights import SparseWeights, resume_session

N = 1000
TABLE = pd.DataFrame({"person": [f"p{i}" for i in range(N)]})
LOSSES = [PureDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(0.02), GaussianDP(0.3)]
BOTH = ["add_remove", "replace_one"]


def study(first: int, last: int) -> KeyList:
    return overlap([f"p{i}" for i in range(first, last)], columns=["person"])


def opened(loss=LOSSES[1], neighbors="replace_one", table=TABLE, **settings):
    curator = Curator(table, budget=loss, neighbors=neighbors)
    return curator, SparseWeights(**{"sparsity": 400, "max_updates": 5, "slots": 10_000, **settings}).open(curator)


@pytest.mark.parametrize("neighbors", BOTH)
def test_settings_may_be_numbers_of_numpy_in_a_session_that_is_saved(tmp_path, neighbors):
    numbers = {"sparsity": 400, "max_updates": 5, "slots": 10_000, "queries": 100, "sweeps": 3}
    curator, session = opened(neighbors=neighbors, **{name: np.int64(value) for name, value in numbers.items()})
    session.save(tmp_path / "s")
    resumed = resume_session(tmp_path / "s", curator)
    assert resumed.settings.max_updates == session.settings.max_updates


def test_damaged_arrays_of_a_session_are_refused(tmp_path):
    curator, session = opened()
    session.save(tmp_path / "s")
    whole = (tmp_path / "s" / "session.npz").read_bytes()
    for place in range(0, len(whole), 31):
        (tmp_path / "s" / "session.npz").write_bytes(whole[:place])
        with pytest.raises(FormatError):
            resume_session(tmp_path / "s", curator)


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("neighbors", BOTH)
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_cost_is_fixed_when_a_session_opens_and_is_what_the_ledger_lost(loss, neighbors, tmp_path):
    spend = loss.fraction(0.5)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    curator = Curator(TABLE, budget=loss, neighbors=neighbors, ledger=ledger, dataset="people")
    mechanism = SparseWeights(sparsity=400, spend=spend)
    assert mechanism.loss == spend
    session = mechanism.open(curator)
    for first in range(0, 300, 10):
        session.ask(study(first, first + 200))
    release = session.close()
    assert release.loss == spend
    (entry,) = ledger.entries("people")
    assert entry.loss == spend
    with pytest.raises(BudgetExceededError):
        SparseWeights(spend=loss.fraction(0.51)).open(curator)


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("update", ["projection", "paper"])
@pytest.mark.parametrize("neighbors", BOTH)
def test_without_noise_checked_answers_are_within_alpha_and_measured_ones_exact(neighbors, update, monkeypatch):
    without_noise(monkeypatch)
    _, session = opened(neighbors=neighbors, max_updates=400, accuracy=0.05, update=update)
    rng = np.random.default_rng(0)
    for _ in range(60):
        members = rng.choice(4 * N, size=400, replace=False)
        answer = session.ask(overlap([f"p{i}" for i in members], columns=["person"]))
        allowed = {Origin.MEASURED: 1e-9, Origin.WEIGHTS: 0.05 * N}[answer.origin]
        assert abs(answer.count - (members < N).sum()) <= allowed
        assert answer.error is not None
    assert 0 < session.updates < 60


def test_at_most_c_updates_are_made_and_then_answers_are_public_and_say_so(monkeypatch):
    without_noise(monkeypatch)
    _, session = opened(max_updates=2, accuracy=0.01)
    origins = [session.ask(study(100 * i, 100 * i + 100)).origin for i in range(4)]
    assert origins == [Origin.MEASURED, Origin.MEASURED, Origin.UNCHECKED, Origin.UNCHECKED]
    answer = session.ask(study(0, 100))
    assert (answer.error, answer.stddev, session.error, session.updates) == (None, None, None, 2)
    assert answer.count == pytest.approx(100, rel=1e-6)


def test_failure_says_to_raise_slots_and_asks_nothing_of_the_table(monkeypatch):
    without_noise(monkeypatch)
    _, session = opened(slots=250, accuracy=0.01)
    assert session.ask(study(0, 200)).origin is Origin.MEASURED
    reads = private_table(session.watch).reads
    with pytest.raises(MechanismFailure, match="slots"):
        session.ask(study(200, 400))
    assert private_table(session.watch).reads == reads
    assert session.ask(study(0, 200)).origin is Origin.WEIGHTS


def test_queries_that_do_not_fit_are_refused():
    _, session = opened()
    with pytest.raises(ParameterError, match=r"sparsity.*400"):
        session.ask(study(0, 401))
    with pytest.raises(ParameterError, match=r"person.*other"):
        session.ask(KeyList.of(("other",), ["a"]))
    session.close()
    with pytest.raises(PrivacyError, match="closed"):
        session.ask(study(0, 10))


@pytest.mark.parametrize(
    "setting",
    [{"sparsity": 0}, {"max_updates": 1.5}, {"slots": -1}, {"accuracy": 1.0}, {"update": "other"}, {"alarm_share": 0.0},
     {"total_share": 1.0}],
    ids=lambda setting: next(iter(setting)),
)  # fmt: skip
def test_settings_out_of_range_are_refused(setting):
    with pytest.raises(ParameterError, match=next(iter(setting))):
        SparseWeights(**setting)


STREAM = [study(70 * i % 900, 70 * i % 900 + 150 + i) for i in range(24)]


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("update", ["projection", "paper"])
def test_a_resumed_session_answers_as_if_it_had_never_been_saved(update, loss, tmp_path, monkeypatch):
    for name in ("discrete_laplace", "discrete_gaussian"):
        monkeypatch.setattr(noise, name, lambda values, *, scale: values + round(scale / 7))
    monkeypatch.setattr(noise, "geometric", lambda *, scale: round(scale / 9))
    settings = {"loss": loss, "update": update, "max_updates": 6, "accuracy": 0.04}
    _, straight = opened(**settings)
    curator, session = opened(**settings)
    expected = [straight.ask(query) for query in STREAM]
    found = [session.ask(query) for query in STREAM[:9]]
    session.save(tmp_path / "session")
    again = Curator(TABLE.sample(frac=1.0, random_state=1), budget=PureDP(1e-9), neighbors="replace_one")
    resumed = resume_session(tmp_path / "session", again)
    found += [resumed.ask(query) for query in STREAM[9:]]
    assert found == expected
    assert 0 < resumed.updates == straight.updates
    assert again.remaining == PureDP(1e-9)
    assert (resumed.loss, resumed.receipt) == (loss, straight.receipt)
    assert resumed.close().output.weights == straight.close().output.weights
    assert curator.remaining is None


@pytest.mark.parametrize("update", ["projection", "paper"])
def test_a_session_saved_before_its_first_slot_answers_and_learns(update, tmp_path, monkeypatch):
    without_noise(monkeypatch)
    curator, session = opened(accuracy=0.01, update=update)
    assert session.table.place == {}
    session.save(tmp_path / "s")
    resumed = resume_session(tmp_path / "s", curator)
    assert resumed.ask(study(0, 300)).count == 300
    assert len(resumed.table.place) == 300
    assert resumed.close().output.answer(study(2 * N, 2 * N + 10)).count >= 0


@pytest.mark.parametrize("asked", [0, 3])
def test_a_session_goes_on_once_and_where_it_was_opened(asked, tmp_path, monkeypatch):
    without_noise(monkeypatch)
    _, session = opened(accuracy=0.01)
    for query in STREAM[:asked]:
        session.ask(query)
    assert (session.updates > 0) == (asked > 0)
    session.save(tmp_path / "s")
    with pytest.raises(PrivacyError, match="saved"):
        session.ask(STREAM[1])
    with pytest.raises(PrivacyError, match="saved"):
        session.save(tmp_path / "t")
    with pytest.raises(DataError, match="session"):
        resume_session(tmp_path / "s", Curator(TABLE.iloc[1:], budget=PureDP(1.0), neighbors="replace_one"))
    with pytest.raises(PrivacyError, match="neighbors"):
        resume_session(tmp_path / "s", Curator(TABLE, budget=PureDP(1.0)))
    curator = Curator(TABLE, budget=PureDP(1.0), neighbors="replace_one")
    assert resume_session(tmp_path / "s", curator).updates == session.updates
    with pytest.raises(PrivacyError, match="continued"):
        resume_session(tmp_path / "s", curator)


def test_a_saved_session_says_that_it_is_private_and_only_its_owner_reads_it(tmp_path):
    _, session = opened()
    session.save(tmp_path / "s")
    for file in (tmp_path / "s").iterdir():
        assert file.stat().st_mode & 0o077 == 0
    assert json.loads((tmp_path / "s" / "session.json").read_text())["warning"].startswith("PRIVATE")
    _, other = opened()
    with pytest.raises(FormatError, match="s'"):
        other.save(tmp_path / "s")


@pytest.mark.parametrize("damage", ["{}", "not json", '{"format": "synthdp private session", "version": 99}'])
def test_damaged_sessions_are_refused_and_stay_where_they_are(damage, tmp_path):
    curator, session = opened()
    session.save(tmp_path / "s")
    (tmp_path / "s" / "session.json").write_text(damage)
    with pytest.raises(FormatError):
        resume_session(tmp_path / "s", curator)
    with pytest.raises(FormatError):
        resume_session(tmp_path / "nowhere", curator)
    assert (tmp_path / "s" / "session.json").exists()


@pytest.mark.parametrize("neighbors", BOTH)
def test_neighbours_with_the_same_noisy_answers_ask_for_noise_alike(neighbors, monkeypatch):
    other = {"add_remove": TABLE.iloc[1:], "replace_one": pd.concat([TABLE.iloc[1:], TABLE.iloc[:1] + "!"])}[neighbors]

    def run(table):
        _, session = opened(neighbors=neighbors, table=table, accuracy=0.9)  # silent on both
        return [session.ask(query).count for query in STREAM]

    with pytest.MonkeyPatch.context() as patch:
        first = recorded(patch)
        expected = run(TABLE)
    second = replayed(monkeypatch, first)
    assert run(other) == expected
    assert second.draws == first.draws


def test_a_released_session_answers_any_query_and_names_no_row(monkeypatch):
    without_noise(monkeypatch)
    _, session = opened(accuracy=0.01)
    session.ask(study(0, 300))
    release = session.close()
    assert release.output.answer(study(0, 300)).count == pytest.approx(300, rel=1e-6)
    assert release.output.answer(study(0, 150)).fraction == pytest.approx(0.15, rel=1e-6)
    assert set(release.output.weights) == {f"p{i}" for i in range(300)}
    assert repr(session) == "SparseSession(1 of 5 updates, SparseTable(300 of 10000 slots touched))"


def test_the_time_of_a_query_does_not_depend_on_the_universe():
    """Keys of 2^20 and of 2^200 records take the same steps: the same slots and the same answers."""
    counts = []
    for bits in (20, 200):
        names = [format(i, f"0{bits}b") for i in range(N)]
        curator = Curator(pd.DataFrame({"person": names}), budget=PureDP(1e6), neighbors="replace_one")
        session = SparseWeights(sparsity=100, slots=10_000, accuracy=0.01).open(curator)
        session.ask(overlap(names[:100], columns=["person"]))
        counts.append((session.table.slots, len(session.table.place)))
    assert counts[0] == counts[1] == (10_000, 100)
