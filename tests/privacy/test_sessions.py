"""R29: a session gives no more answers than were paid for: to several threads, when it is saved, when it is continued."""

from __future__ import annotations

import errno
import gc
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pandas as pd
import pytest
from forks import raced
from interrupts import Striker
from no_noise import without_noise
from small_worlds import binary_table, binary_world, skewed_codes

from synthdp import (
    Curator,
    Ledger,
    MedianMechanism,
    PrivateMultiplicativeWeights,
    PureDP,
    SparseWeights,
    resume_session,
)
from synthdp.curator import sparse_vector
from synthdp.errors import FormatError, LedgerError, PrivacyError, SynthDPError
from synthdp.privacy import noise
from synthdp.privacy.budget import Account
from synthdp.queries.linear import CellQueries
from synthdp.queries.supports import KeyList
from synthdp.works.sparse.sparse_table import Origin

KEYS = pd.DataFrame({"p": [f"i{k}" for k in range(50)]})
SCHEMA, DOMAIN = binary_world(3)
CELLS = binary_table(SCHEMA, skewed_codes(3, 500))
QUERIES = CellQueries(DOMAIN, np.random.default_rng(0).integers(0, 2, (40, 8)))


def first(count: int) -> KeyList:
    return KeyList.of(("p",), [f"i{k}" for k in range(count)])


def curator() -> Curator:
    return Curator(KEYS, budget=PureDP(1.0), neighbors="replace_one")


def opened(updates: int = 3) -> Any:
    return SparseWeights(max_updates=updates, accuracy=0.01, slots=500).open(curator())


def slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """No noise, drawn so slowly that other threads come in between."""
    without_noise(monkeypatch)
    monkeypatch.setattr(noise, "geometric", lambda *, scale: time.sleep(0.005) or 0)


def at_once(ask: Callable[[int], Any], times: int = 8) -> list[Any]:
    """What each of several threads that ask at the same time was answered, or how it was refused."""
    all_there = Barrier(times)

    def one(number: int) -> Any:
        all_there.wait()
        try:
            return ask(number)
        except PrivacyError:
            return "refused"

    with ThreadPoolExecutor(times) as pool:
        return list(pool.map(one, range(times)))


# Threads


@pytest.mark.parametrize("left", [1, 3])
def test_threads_that_ask_a_watch_at_once_get_no_more_answers_than_were_paid_for(monkeypatch, left):
    slowly(monkeypatch)
    watch = curator().watch(("p",), max_alarms=left, threshold=5.0)
    found = at_once(lambda k: watch.ask(first(k + 20).support(), guess=0.0))
    assert found.count("refused") == 8 - left
    assert watch.alarms == left


def test_threads_that_ask_a_session_at_once_get_no_more_noisy_answers_than_were_paid_for(monkeypatch):
    slowly(monkeypatch)
    session = opened(updates=1)
    origins = [answer.origin for answer in at_once(lambda k: session.ask(first(k + 20)))]
    assert origins.count(Origin.MEASURED) == session.updates == 1
    assert origins.count(Origin.UNCHECKED) == 7


@pytest.mark.parametrize("mechanism", [PrivateMultiplicativeWeights, MedianMechanism])
def test_threads_that_ask_an_online_session_at_once_get_no_more_noisy_answers_than_were_paid_for(
    monkeypatch, mechanism
):
    slowly(monkeypatch)
    asked = Curator(CELLS, schema=SCHEMA, budget=PureDP(1.0), neighbors="replace_one")
    session = mechanism(DOMAIN, threshold=5.0, max_updates=2).open(asked)
    answers = [answer for answers in at_once(lambda _: session.ask(QUERIES)) for answer in answers]
    assert sum(answer.learned for answer in answers) == session.watch.alarms == 2
    assert session.asked == len(answers) == 8 * QUERIES.k


def test_what_threads_learn_together_is_what_one_learns_alone(monkeypatch):
    slowly(monkeypatch)
    together, alone = opened(updates=8), opened(updates=8)
    at_once(lambda k: together.ask(first(5 * k + 5)))
    order = sorted(together.measured, key=lambda one: len(one.place))
    for k in range(8):
        alone.ask(first(5 * k + 5))
    assert together.updates == len(together.measured)
    assert len(together.table.place) == len({*together.table.place.values()}) == len(alone.table.place)
    assert len(order) <= 8


def test_after_a_session_was_saved_no_thread_is_answered_and_all_answers_are_in_the_folder(monkeypatch, tmp_path):
    slowly(monkeypatch)
    session = opened(updates=20)

    def act(number: int) -> Any:
        return session.save(tmp_path / "s") if number == 4 else session.ask(first(5 * number + 5)).origin

    found = at_once(act, 12)
    saved = resume_session(tmp_path / "s", curator())
    assert found.count(None) == 1
    assert saved.updates == session.updates == found.count(Origin.MEASURED)
    assert len(saved.measured) == saved.updates


# The same thread: a handler of a signal, or a query's own code, asks while a question is being answered.


class Again:
    """Asks once more, the first time that it is told to."""

    def __init__(self, ask: Callable[[], object]) -> None:
        self.ask, self.times = ask, 0

    def __call__(self) -> None:
        self.times += 1
        if self.times == 1:
            usable(self.ask)


@pytest.mark.parametrize("left", [1, 2])
def test_a_watch_that_is_asked_while_it_is_asked_gives_no_more_answers_than_were_paid_for(monkeypatch, left):
    without_noise(monkeypatch)
    watch = curator().watch(("p",), max_alarms=left, threshold=5.0)
    found: list[object] = []

    def ask() -> None:
        found.append(watch.ask(first(20).support(), guess=0.0))

    again = Again(ask)
    monkeypatch.setattr(noise, "geometric", lambda *, scale: again() or 0)
    for _ in range(5):
        usable(ask)
    assert again.times > 1
    assert len(found) == watch.alarms == left


def test_a_session_that_is_asked_while_it_is_saved_is_asked_or_saved(monkeypatch, tmp_path):
    without_noise(monkeypatch)
    session = opened()
    again = Again(lambda: session.ask(first(20)))
    fingerprint = sparse_vector.rows_fingerprint
    monkeypatch.setattr(sparse_vector, "rows_fingerprint", lambda *of: again() or fingerprint(*of))
    assert usable(lambda: session.save(tmp_path / "s")) == 0
    assert session.updates == 1
    session.save(tmp_path / "t")
    assert resume_session(tmp_path / "t", curator()).updates == 1


@pytest.mark.parametrize("name", ["session.json.part", "session.npz", "session.json"])
def test_a_folder_in_which_somebody_else_writes_is_left_alone(name, tmp_path):
    """As two that save to one folder at once: the second is refused, and the first one's file is whole."""
    (tmp_path / name).write_bytes(b"somebody else's")
    session = opened()
    with pytest.raises(FormatError, match="session"):
        session.save(tmp_path)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [(name, b"somebody else's")]
    session.ask(first(20))


def test_a_budget_that_is_charged_while_it_is_charged_is_not_exceeded():
    budget = Account(PureDP(1.0))
    again = Again(lambda: budget.charge(PureDP(0.6)))

    class Interrupted(list):
        def __iter__(self) -> Any:
            again()
            return super().__iter__()

    budget.spent = Interrupted()
    charged = [usable(lambda: budget.charge(PureDP(0.6))) for _ in range(3)]
    assert again.times > 1
    assert sum(part for part, _ in budget.spent) == 0.6
    assert sum(charged) <= 1


def test_what_a_ledger_refuses_gives_back_its_own_spend_and_no_other(monkeypatch, tmp_path):
    asked = Curator(KEYS, budget=PureDP(1.0), ledger=tmp_path / "l.sqlite")
    again = Again(lambda: asked.open_account(PureDP(0.25)))
    reserve = Ledger.reserve

    def full(*of: Any, **how: Any) -> int:
        first_of_all = again.times == 0
        again()
        return refused() if first_of_all else reserve(*of, **how)

    monkeypatch.setattr(Ledger, "reserve", full)
    assert usable(lambda: asked.open_account(PureDP(0.5))) == 0
    assert again.times == 2
    assert asked.remaining == PureDP(0.75)


def refused() -> int:
    raise LedgerError("the disk is full")


# Interrupts


FILES = (
    "curator/saved_watch.py", "curator/sparse_vector.py", "curator/guarded_table.py",
    "sparse/sparse_weights.py", "sparse/sparse_weights.py",
)  # fmt: skip
FAULTS = {
    "a line is interrupted": (lambda striker: striker.lines(*FILES), KeyboardInterrupt),
    "a call is interrupted": (lambda striker: striker.calls(after=False), KeyboardInterrupt),
    "a call is made and then interrupted": (lambda striker: striker.calls(after=True), KeyboardInterrupt),
    "a call fails": (lambda striker: striker.calls(after=False), lambda: OSError(errno.ENOSPC, "full")),
    "a call is made and then fails": (lambda striker: striker.calls(after=True), lambda: OSError(errno.EIO, "broken")),
}


LINES = "a line is interrupted"
EVERY = [(fault, 3 if fault == LINES else 1) for fault in FAULTS] + [pytest.param(LINES, 1, marks=pytest.mark.slow)]
"""Every call of the system, and every third line: every line is struck in the slow suite."""


def usable(ask: Callable[[], object]) -> int:
    """1 if a session answers, else 0."""
    try:
        ask()
    except SynthDPError:
        return 0
    return 1


def struck(program: Callable[[], Any], fault: str, at: int) -> tuple[int, Any]:
    """Run a program with a fault at a step; return how many steps it came to, and its result if it came to its end."""
    place, error = FAULTS[fault]
    striker = Striker(at, error())
    try:
        with place(striker):
            return striker.steps, program()
    except (KeyboardInterrupt, OSError, SynthDPError):
        return striker.steps, None


def steps(program: Callable[[], Any], fault: str) -> int:
    striker = Striker(0, KeyboardInterrupt())
    with FAULTS[fault][0](striker):
        program()
    return striker.steps


@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # a file whose opening was interrupted nobody can close
@pytest.mark.parametrize(("fault", "every"), EVERY)
def test_whatever_strikes_while_a_session_is_saved_it_or_its_folder_can_be_asked_and_never_both(
    fault, every, tmp_path, monkeypatch
):
    without_noise(monkeypatch)
    whole = steps(lambda: opened().save(tmp_path / "whole"), fault)
    assert whole > 8
    left = []
    for at in range(1, whole + 1, every):
        session, folder = opened(), tmp_path / str(at)
        session.ask(first(20))
        struck(lambda session=session, folder=folder: session.save(folder), fault, at)
        original = usable(lambda session=session: session.ask(first(20)))
        left.append((original, usable(lambda folder=folder: resume_session(folder, curator()))))
    gc.collect()
    assert set(left) == {(1, 0), (0, 1)}


@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(("fault", "every"), EVERY)
def test_whatever_strikes_while_a_session_is_continued_no_two_can_be_asked(fault, every, tmp_path, monkeypatch):
    without_noise(monkeypatch)
    opened().save(tmp_path / "whole")
    whole = steps(lambda: resume_session(tmp_path / "whole", curator()), fault)
    assert whole > 3
    left = []
    for at in range(1, whole + 1, every):
        folder = tmp_path / str(at)
        opened().save(folder)
        _, session = struck(lambda folder=folder: resume_session(folder, curator()), fault, at)
        goes_on = usable(lambda session=session: asked(session))
        left.append((goes_on, usable(lambda folder=folder: resume_session(folder, curator()))))
    gc.collect()
    assert (1, 1) not in left


def asked(session: Any) -> None:
    if session is None:
        raise PrivacyError("it was not continued")
    session.ask(first(20))


def test_an_interrupt_while_a_table_is_compared_leaves_the_folder_as_it_was(tmp_path, monkeypatch):
    opened().save(tmp_path / "s")
    with monkeypatch.context() as patch:
        patch.setattr(sparse_vector, "rows_fingerprint", interrupted)
        with pytest.raises(KeyboardInterrupt):
            resume_session(tmp_path / "s", curator())
    assert resume_session(tmp_path / "s", curator()).updates == 0


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_session_that_could_not_be_saved_leaves_nothing_behind_and_can_be_saved_elsewhere(tmp_path):
    session = opened()
    (tmp_path / "file").write_text("")
    with pytest.raises(FormatError, match="file/s'"):
        session.save(tmp_path / "file" / "s")
    opened().save(tmp_path / "taken")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(FormatError, match="taken'"):
        session.save(tmp_path / "taken")
    assert sorted(tmp_path.rglob("*")) == before
    session.save(tmp_path / "free")
    assert resume_session(tmp_path / "free", curator()).updates == 0


# Races


def test_no_session_is_saved_where_one_was_ever_saved(tmp_path):
    """One that was read there might be taken for the next."""
    opened().save(tmp_path / "s")
    session = resume_session(tmp_path / "s", curator())
    with pytest.raises(FormatError, match="s'"):
        session.save(tmp_path / "s")
    assert session.ask(first(20)) is not None


def test_a_folder_that_was_exchanged_while_it_was_read_is_not_continued(tmp_path):
    opened().save(tmp_path / "s")
    opened(updates=5).save(tmp_path / "other")

    def exchange(_: object) -> None:
        shutil.rmtree(tmp_path / "s")
        (tmp_path / "other").rename(tmp_path / "s")

    with pytest.raises(PrivacyError, match="continued"):
        while_it_is_read(tmp_path / "s", exchange)


def while_it_is_read(folder: Path, act: Callable[[Any], None]) -> None:
    with curator().resume_watch(folder) as saved:
        act(saved)


def test_a_continued_session_that_is_put_back_is_refused_beside_the_mark_of_its_continuation(tmp_path):
    opened().save(tmp_path / "s")
    text = (tmp_path / "s" / "session.json").read_bytes()
    resume_session(tmp_path / "s", curator())
    (tmp_path / "s" / "session.json").write_bytes(text)
    with pytest.raises(PrivacyError, match="continued"):
        resume_session(tmp_path / "s", curator())


def test_a_watch_answers_only_when_its_folder_was_taken(tmp_path):
    opened().save(tmp_path / "s")
    read = []

    def ask(saved: Any) -> None:
        read.append(saved.watch)
        saved.watch.ask(first(20).support(), guess=0.0)

    with pytest.raises(PrivacyError, match="resume_session"):
        while_it_is_read(tmp_path / "s", ask)
    with pytest.raises(PrivacyError, match="resume_session"):
        read[0].ask(first(20).support(), guess=0.0)
    while_it_is_read(tmp_path / "s", lambda saved: read.append(saved.watch))
    read[1].ask(first(20).support(), guess=0.0)


@pytest.mark.parametrize("moment", range(4))
def test_who_looks_while_another_continues_is_told_so(tmp_path, monkeypatch, moment):
    """Whichever of its files the slower of two processes was about to look at."""
    opened().save(tmp_path / "s")
    looks = {"left": moment}

    def looking(name: str) -> Callable[..., Any]:
        real = getattr(Path, name)

        def look(path: Path, *args: Any, **named: Any) -> Any:
            if path.parent == tmp_path / "s":
                looks["left"] -= 1
                if looks["left"] == -1:
                    other = curator()
                    resume_session(tmp_path / "s", other)
            return real(path, *args, **named)

        return look

    for name in ("exists", "read_bytes", "rename"):
        monkeypatch.setattr(Path, name, looking(name))
    with pytest.raises(PrivacyError, match="continued"):
        resume_session(tmp_path / "s", curator())


def test_of_threads_that_continue_one_folder_exactly_one_does(tmp_path):
    opened().save(tmp_path / "s")
    curators = [curator() for _ in range(8)]
    found = at_once(lambda k: resume_session(tmp_path / "s", curators[k]))
    assert found.count("refused") == 7


def continued(folder: Path) -> str:
    """Say whether a process could continue a folder's session."""
    table = pd.DataFrame({"p": [f"i{k}" for k in range(50)]})
    curator = Curator(table, budget=PureDP(1.0), neighbors="replace_one")
    try:
        resume_session(folder, curator)
        return "won"
    except PrivacyError:
        return "lost"


def test_of_processes_that_continue_one_folder_exactly_one_does(tmp_path):
    opened().save(tmp_path / "s")
    assert sorted(raced([partial(continued, tmp_path / "s")] * 4)) == ["lost"] * 3 + ["won"]
