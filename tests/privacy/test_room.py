"""The curator: it charges first, reads second, answers only with noise, and forgets."""

import copy
import os
import pickle
import signal
import sqlite3
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from forks import forked, raced
from private_door import private_table

from synthdp import (
    ZCDP,
    ApproxDP,
    Categorical,
    Continuous,
    Curator,
    GaussianDP,
    Integer,
    Ledger,
    PureDP,
    Schema,
)
from synthdp.domain.domain import domain_of
from synthdp.errors import (
    BudgetExceededError,
    DataError,
    LedgerError,
    ParameterError,
    PrivacyError,
    RoomClosedError,
)
from synthdp.measurements import NoiseLaw
from synthdp.privacy import noise
from synthdp.queries.marginals import one_ways
from synthdp.queries.supports import KeyList
from synthdp.works.sparse.key_counts import KeyTotal

SCHEMA = Schema({"age": Integer(0, 9), "city": Categorical(["a", "b"])})
TABLE = pd.DataFrame({"age": [1, 2, 2, 9, 5], "city": ["a", "b", "b", "a", "a"]})
CANARY = "canary-4711"


@pytest.fixture
def curator() -> Curator:
    return Curator(TABLE, schema=SCHEMA, budget=PureDP(1.0))


class Reads:
    """A source that counts how often it is read."""

    def __init__(self, table: pd.DataFrame) -> None:
        from synthdp.tables.dataframe import FrameSource

        self.inner, self.count = FrameSource(table), 0

    @property
    def names(self) -> tuple[str, ...]:
        return self.inner.names

    def blocks(self, columns, *, extra=()):
        self.count += 1
        yield from self.inner.blocks(columns, extra=extra)


@pytest.mark.slow
def test_answers_are_unbiased_and_say_their_error() -> None:
    queries = one_ways(domain_of(SCHEMA))
    truth = [0, 1, 2, 0, 0, 1, 0, 0, 0, 1, 0, 3, 2, 0]
    found = np.array([Curator(TABLE, schema=SCHEMA, budget=PureDP(4.0)).measure(queries).answers for _ in range(400)])
    stddev = Curator(TABLE, schema=SCHEMA, budget=PureDP(4.0)).measure(queries).stddev
    assert np.abs(found.mean(axis=0) - truth).max() < 6 * stddev / 20
    assert 0.8 < found.std(axis=0).mean() / stddev < 1.2


@pytest.mark.parametrize("budget", [PureDP(0.5), ZCDP(0.1), ApproxDP(1.0, 1e-6), GaussianDP(0.3)])
def test_a_spend_takes_exactly_what_it_says_and_no_more_is_given(budget) -> None:
    curator = Curator(TABLE, schema=SCHEMA, budget=budget)
    curator.measure(one_ways(domain_of(SCHEMA)), spend=budget.fraction(0.25))
    assert curator.remaining == pytest.approx(budget.fraction(0.75)) or str(curator.remaining) == str(
        budget.fraction(0.75)
    )
    with pytest.raises(BudgetExceededError):
        curator.measure(one_ways(domain_of(SCHEMA)), spend=budget.fraction(0.8))
    curator.measure(one_ways(domain_of(SCHEMA)))
    assert curator.remaining is None
    with pytest.raises(BudgetExceededError):
        curator.measure(one_ways(domain_of(SCHEMA)))


def test_many_equal_parts_of_a_budget_are_the_whole_budget() -> None:
    curator = Curator(TABLE, schema=SCHEMA, budget=PureDP(1.0))
    for _ in range(10):
        curator.measure(one_ways(domain_of(SCHEMA)), spend=PureDP(0.1))
    assert curator.remaining is None


def test_a_refused_question_reads_nothing_and_spends_nothing() -> None:
    source = Reads(TABLE)
    curator = Curator(source, schema=SCHEMA, budget=PureDP(1.0))
    with pytest.raises(BudgetExceededError):
        curator.measure(one_ways(domain_of(SCHEMA)), spend=PureDP(2.0))
    with pytest.raises(ParameterError):
        curator.measure(one_ways(domain_of(SCHEMA)), law=NoiseLaw.GAUSSIAN)
    assert source.count == 0
    assert curator.remaining == PureDP(1.0)


def test_the_ledger_is_charged_before_the_data_is_read(tmp_path: Path) -> None:
    class Watching(Reads):
        def blocks(self, columns, *, extra=()):
            entries = Ledger(tmp_path / "l.sqlite").entries()
            assert [(e.state, e.loss) for e in entries] == [("reserved", PureDP(0.4))]
            return super().blocks(columns, extra=extra)

    curator = Curator(Watching(TABLE), schema=SCHEMA, budget=PureDP(1.0), ledger=tmp_path / "l.sqlite", dataset="t")
    curator.measure(one_ways(domain_of(SCHEMA)), spend=PureDP(0.4), step="ages")
    assert [(e.dataset, e.state, e.what) for e in Ledger(tmp_path / "l.sqlite").entries()] == [
        ("t", "committed", "ages")
    ]


def test_a_crash_while_reading_costs_nothing_for_nothing_was_answered(tmp_path: Path) -> None:
    class Broken(Reads):
        def blocks(self, columns, *, extra=()):
            raise OSError("the disk went away")

    curator = Curator(Broken(TABLE), schema=SCHEMA, budget=PureDP(1.0), ledger=tmp_path / "l.sqlite")
    with pytest.raises(OSError, match="disk"):
        curator.measure(one_ways(domain_of(SCHEMA)))
    assert curator.remaining == PureDP(1.0)
    assert [e.state for e in Ledger(tmp_path / "l.sqlite").entries()] == ["returned"]


def test_a_capped_ledger_refuses_and_the_curator_keeps_its_budget(tmp_path: Path) -> None:
    Ledger(tmp_path / "l.sqlite").set_cap("t", ApproxDP(1.5, 1e-6))
    first = Curator(TABLE, schema=SCHEMA, budget=ApproxDP(1.0, 1e-7), ledger=tmp_path / "l.sqlite", dataset="t")
    first.measure(one_ways(domain_of(SCHEMA)))
    second = Curator(TABLE, schema=SCHEMA, budget=ApproxDP(1.0, 1e-7), ledger=tmp_path / "l.sqlite", dataset="t")
    with pytest.raises(BudgetExceededError, match=r"0\.5.*1\.5.*ledger"):
        second.measure(one_ways(domain_of(SCHEMA)))
    assert second.remaining == ApproxDP(1.0, 1e-7)
    other = Curator(TABLE, schema=SCHEMA, budget=ApproxDP(1.0, 1e-7), ledger=tmp_path / "l.sqlite", dataset="other")
    other.measure(one_ways(domain_of(SCHEMA)))


def test_pure_spends_count_in_a_ledger_capped_in_zcdp(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.sqlite")
    ledger.set_cap("t", ZCDP(0.5))
    ledger.reserve("t", PureDP(0.6), what="x")
    with pytest.raises(BudgetExceededError, match=r"0\.32.*0\.5"):
        ledger.reserve("t", ZCDP(0.4), what="y")
    with pytest.raises(LedgerError, match="ZCDP"):
        ledger.reserve("t", ApproxDP(0.1, 1e-9), what="z")


def test_eight_processes_race_for_a_cap_of_three(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    Ledger(path).set_cap("t", PureDP(3.0))

    def spend() -> str:
        try:
            Ledger(path).reserve("t", PureDP(1.0), what="race")
            return "won"
        except BudgetExceededError:
            return "lost"

    assert sorted(raced([spend] * 8)) == ["lost"] * 5 + ["won"] * 3
    assert len(Ledger(path).entries("t")) == 3


def test_a_process_killed_between_reserve_and_commit_has_spent(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"

    def spend() -> int:
        Ledger(path).reserve("t", PureDP(1.0), what="killed")
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    assert forked(spend).ended() == (-signal.SIGKILL, "")
    assert [(e.what, e.state) for e in Ledger(path).entries()] == [("killed", "reserved")]
    Ledger(path).set_cap("t", PureDP(1.5))
    with pytest.raises(BudgetExceededError):
        Ledger(path).reserve("t", PureDP(1.0), what="again")


def test_a_locked_ledger_and_a_file_that_is_none_are_refused_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    Ledger(path).set_cap("t", PureDP(1.0))
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    started = time.monotonic()
    with pytest.raises(LedgerError, match="locked"):
        Ledger(path, seconds=0.2).reserve("t", PureDP(1.0), what="x")
    assert time.monotonic() - started < 10
    holder.close()
    (tmp_path / "text.sqlite").write_text("not a database, but long enough to look at" * 50)
    with pytest.raises(LedgerError, match=r"text\.sqlite"):
        Ledger(tmp_path / "text.sqlite").reserve("t", PureDP(1.0), what="x")
    with pytest.raises(LedgerError, match=r"folder\.sqlite"):
        Ledger(tmp_path / "no" / "folder.sqlite").reserve("t", PureDP(1.0), what="x")


def test_a_closed_curator_reads_no_more(curator: Curator) -> None:
    account = curator.open_account(PureDP(0.5))
    curator.close()
    with pytest.raises(RoomClosedError):
        curator.measure(one_ways(domain_of(SCHEMA)))
    with pytest.raises(RoomClosedError):
        account.measure(one_ways(domain_of(SCHEMA)))


def test_a_curator_can_be_neither_pickled_nor_copied(curator: Curator) -> None:
    with pytest.raises(PrivacyError):
        pickle.dumps(curator)
    with pytest.raises(PrivacyError):
        copy.deepcopy(curator)


def test_no_value_of_a_row_reaches_a_repr_or_an_error() -> None:
    table = pd.DataFrame({"age": [CANARY, 3, None, 4, 5], "city": [CANARY, "b", None, 7, [1]]}, dtype=object)
    curator = Curator(table, schema=SCHEMA, budget=PureDP(1.0))
    measured = curator.measure(one_ways(domain_of(SCHEMA)))
    assert repr(curator).endswith("left nothing)")
    shown = [repr(curator), repr(measured), str(curator.receipt()), repr(private_table(curator))]
    with pytest.raises(BudgetExceededError) as caught:
        curator.measure(one_ways(domain_of(SCHEMA)))
    assert not any(CANARY in text for text in [*shown, str(caught.value)])


def test_the_number_of_rows_is_private_under_add_remove_only(curator: Curator) -> None:
    with pytest.raises(PrivacyError, match="neighbors"):
        _ = curator.rows
    public = Curator(TABLE, schema=SCHEMA, budget=PureDP(1.0), neighbors="replace_one")
    assert public.rows == 5


def test_replacing_a_row_costs_twice_the_noise_of_adding_one() -> None:
    queries = one_ways(domain_of(SCHEMA))
    scales = [
        Curator(TABLE, schema=SCHEMA, budget=PureDP(1.0), neighbors=relation).measure(queries).noise.scale
        for relation in ("add_remove", "replace_one")
    ]
    assert scales == [2.0, 4.0]


def test_a_missing_column_is_named_and_nothing_is_spent(tmp_path: Path) -> None:
    with pytest.raises(
        DataError,
        match="'city'",
    ):
        Curator(TABLE[["age"]], schema=SCHEMA, budget=PureDP(1.0), ledger=tmp_path / "l.sqlite")
    assert not (tmp_path / "l.sqlite").exists()


def test_an_account_lies_inside_its_approximate_budget() -> None:
    curator = Curator(TABLE, schema=SCHEMA, budget=ApproxDP(1.0, 1e-9))
    account = curator.open_account()
    assert isinstance(account.budget, GaussianDP)
    assert curator.remaining is None
    measured = account.measure(one_ways(domain_of(SCHEMA)))
    # mu = Delta / sigma on the lattice, Delta^2 = 2 tables
    mu = np.sqrt(2) * measured.resolution / measured.noise.scale
    assert mu <= account.budget.mu * (1 + 1e-12)
    concentrated = Curator(TABLE, schema=SCHEMA, budget=ApproxDP(1.0, 1e-9)).open_account(currency=ZCDP)
    assert isinstance(concentrated.budget, ZCDP)


def test_selection_follows_the_scores_and_costs_what_it_says() -> None:
    curator = Curator(TABLE, schema=SCHEMA, budget=PureDP(1000.0))
    chosen = {curator.select(one_ways(domain_of(SCHEMA)), spend=PureDP(100.0)) for _ in range(5)}
    assert chosen == {11}  # three rows of city a: the largest count
    assert curator.remaining == PureDP(500.0)


def test_noise_is_drawn_once_for_a_spend(monkeypatch: pytest.MonkeyPatch, curator: Curator) -> None:
    calls = []
    original = noise.discrete_laplace
    monkeypatch.setattr(noise, "discrete_laplace", lambda v, *, scale: calls.append(scale) or original(v, scale=scale))
    curator.measure(one_ways(domain_of(SCHEMA)))
    assert calls == [2.0]


def test_many_queries_of_bounded_entries_take_the_k_norm_noise() -> None:
    from synthdp.queries.trigonometric import TensorBasis, tensor_terms

    schema = Schema({"x": Continuous(-1, 1), "y": Continuous(-1, 1)})
    table = pd.DataFrame({"x": [0.1, 0.2], "y": [0.3, -0.4]})
    basis = TensorBasis(domain_of(schema), tensor_terms([0, 1], 4))
    measured = Curator(table, schema=schema, budget=PureDP(1.0)).measure(basis)
    assert measured.noise.law is NoiseLaw.LINF
    assert measured.stddev == pytest.approx(np.sqrt(16 * 17 / 3), rel=1e-6)
    forced = Curator(table, schema=schema, budget=PureDP(1.0)).measure(basis, law=NoiseLaw.LAPLACE)
    assert forced.stddev > 1.2 * measured.stddev


ASKED = {
    "measure": lambda curator, queries: curator.measure(queries, spend=PureDP(0.4), step="it"),
    "select": lambda curator, queries: curator.select(queries, spend=PureDP(0.4), step="it"),
    "measure keys": lambda curator, _: curator.measure(KeyTotal(("city",)), spend=PureDP(0.4), step="it"),
    "watch": lambda curator, _: curator.watch(("city",), max_alarms=1, spend=PureDP(0.4), step="it").ask(
        KeyList.of(("city",), ["a"]).support(), guess=0.0
    ),
}


@pytest.mark.parametrize("question", ASKED)
def test_every_question_is_charged_before_the_data_is_read(question, tmp_path: Path) -> None:
    seen = []

    class Watching(Reads):
        def blocks(self, columns, *, extra=()):
            seen.append([(entry.what, entry.loss) for entry in Ledger(tmp_path / "l.sqlite").entries()])
            return super().blocks(columns, extra=extra)

    curator = Curator(Watching(TABLE), schema=SCHEMA, budget=PureDP(1.0), ledger=tmp_path / "l.sqlite")
    ASKED[question](curator, one_ways(domain_of(SCHEMA)))
    assert seen
    assert all(entries == [("it", PureDP(0.4))] for entries in seen)
    assert [entry.state for entry in Ledger(tmp_path / "l.sqlite").entries()] == ["committed"]


APPROXIMATE = {
    "histogram": (lambda curator: curator.histogram(("city",), spend=ApproxDP(0.4, 1e-7)), "frequent records"),
    "account": (
        lambda curator: curator.open_account(ApproxDP(0.4, 1e-7)).measure(one_ways(domain_of(SCHEMA))),
        "account",
    ),
}


@pytest.mark.parametrize("question", APPROXIMATE)
def test_every_question_with_a_delta_is_charged_before_the_data_is_read(question, tmp_path: Path) -> None:
    seen = []

    class Watching(Reads):
        def blocks(self, columns, *, extra=()):
            seen.append([(entry.what, entry.loss) for entry in Ledger(tmp_path / "l.sqlite").entries()])
            return super().blocks(columns, extra=extra)

    ask, step = APPROXIMATE[question]
    ask(Curator(Watching(TABLE), schema=SCHEMA, budget=ApproxDP(1.0, 1e-6), ledger=tmp_path / "l.sqlite"))
    assert seen
    assert all(entries == [(step, ApproxDP(0.4, 1e-7))] for entries in seen)


def test_discovery_is_charged_before_each_look_at_the_data(tmp_path: Path) -> None:
    seen = []

    class Watching(Reads):
        def blocks(self, columns, *, extra=()):
            seen.append(len(Ledger(tmp_path / "l.sqlite").entries()))
            return super().blocks(columns, extra=extra)

    schema = Schema({"age": Integer(), "city": Categorical()})
    table = pd.concat([TABLE] * 500, ignore_index=True)
    curator = Curator(Watching(table), schema=schema, budget=ApproxDP(1.0, 1e-6), ledger=tmp_path / "l.sqlite")
    curator.discover(spend=ApproxDP(1.0, 1e-6))
    assert set(seen) == {1}  # all of it was charged before the first look
    (entry,) = Ledger(tmp_path / "l.sqlite").entries()
    assert (entry.state, entry.loss) == ("committed", ApproxDP(1.0, 1e-6))
    assert len(seen) == len(curator.receipt().items) >= 3


def test_discovery_from_a_pure_budget_charges_each_look_before_it(tmp_path: Path) -> None:
    seen = []

    class Watching(Reads):
        def blocks(self, columns, *, extra=()):
            seen.append(len(Ledger(tmp_path / "l.sqlite").entries()))
            return super().blocks(columns, extra=extra)

    table = pd.concat([TABLE] * 500, ignore_index=True)
    curator = Curator(
        Watching(table), schema=Schema({"age": Integer()}), budget=PureDP(1.0), ledger=tmp_path / "l.sqlite"
    )
    curator.discover(spend=PureDP(1.0))
    assert seen == [*range(1, len(curator.receipt().items) + 1)]
    assert {entry.state for entry in Ledger(tmp_path / "l.sqlite").entries()} == {"committed"}
