"""R29: a budget belongs to the process that made it; a forked copy of it is refused before anything is read or charged."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from small_worlds import binary_table, binary_world, skewed_codes

from synthdp import (
    ApproxDP,
    Categorical,
    Curator,
    DatabaseSchema,
    Ledger,
    PrivateMultiplicativeWeights,
    Relation,
    Schema,
    SparseWeights,
    resume_session,
)
from synthdp.errors import PrivacyError
from synthdp.queries.marginals import one_ways
from synthdp.queries.supports import KeyList
from synthdp.tables.dataframe import FrameSource

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

SCHEMA, DOMAIN = binary_world(2)
TABLE = binary_table(SCHEMA, skewed_codes(2, 200))
NAME = TABLE.columns[0]
BUDGET, PART = ApproxDP(1.0, 1e-6), ApproxDP(0.1, 1e-8)
QUERIES, KEY = one_ways(DOMAIN), KeyList.of((NAME,), ["a"])
UNDECLARED = Schema({NAME: Categorical()})
OPEN_DATABASE = DatabaseSchema(
    {"persons": UNDECLARED, "rows": UNDECLARED}, [Relation("persons", "rows", key="id", at_most=1)]
)


class Reads(FrameSource):
    """A table that counts how often it is read."""

    def __init__(self, table: pd.DataFrame) -> None:
        super().__init__(table)
        self.count = 0

    def blocks(self, *arguments: Any, **options: Any) -> Any:
        self.count += 1
        return super().blocks(*arguments, **options)


def in_a_fork(ask: Callable[[], Any]) -> str:
    """Say what a forked child was told when it asked: its error's type and message, or what it was answered."""
    reader, writer = os.pipe()
    child = forked()
    if child == 0:
        said = "died"
        try:
            said = f"answered {ask()}"
        except BaseException as error:  # noqa: BLE001 - a child must not go on as a second test run
            said = f"{type(error).__name__}: {error}"
        finally:
            os.write(writer, said.encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        said = file.read().decode()
    os.waitpid(child, 0)
    return said


class World:
    """A curator with a ledger, an account, a watch and sessions, all made before the fork."""

    def __init__(self, folder: Any) -> None:
        self.source, self.folder = Reads(TABLE), folder
        self.ledger = Ledger(folder / "l.sqlite")
        self.curator = Curator(self.source, schema=SCHEMA, budget=BUDGET, ledger=self.ledger, neighbors="replace_one")
        self.account = self.curator.open_account(PART)
        self.watch = self.curator.watch((NAME,), max_alarms=9, spend=PART)
        self.sparse = SparseWeights(max_updates=3, columns=(NAME,), spend=PART).open(self.curator)
        self.spent = SparseWeights(max_updates=1, columns=(NAME,), spend=PART, accuracy=1e-9).open(self.curator)
        while not self.spent.watch.exhausted:
            self.spent.ask(KEY)
        self.online = PrivateMultiplicativeWeights(DOMAIN, max_updates=3, spend=PART).open(self.curator)
        saved = SparseWeights(max_updates=1, columns=(NAME,), spend=PART).open(self.curator)
        saved.save(folder / "s")
        self.undeclared = Curator(TABLE[[NAME]].astype(str), schema=UNDECLARED, budget=BUDGET)
        keyed = TABLE[[NAME]].astype(str).assign(id=range(len(TABLE)))
        self.database = Curator({"persons": keyed, "rows": keyed}, schema=OPEN_DATABASE, budget=BUDGET)

    def record(self) -> tuple[Any, ...]:
        """What was read, spent and written."""
        files = sorted(str(path) for path in self.folder.rglob("*"))
        return self.source.count, [(entry.what, entry.state) for entry in self.ledger.entries()], files


def through(curator: Curator, path: Any) -> None:
    with curator.resume_watch(path):
        pass


ASKED: dict[str, Callable[[World], Any]] = {
    "Curator.check": lambda w: w.curator.check(QUERIES),
    "Curator.measure": lambda w: w.curator.measure(QUERIES, spend=PART),
    "Curator.measure_each": lambda w: w.curator.measure_each([QUERIES], spends=[PART], steps=["one"]),
    "Curator.histogram": lambda w: w.curator.histogram((NAME,), spend=PART),
    "Curator.select": lambda w: w.account.select(QUERIES),
    "Curator.watch": lambda w: w.curator.watch((NAME,), max_alarms=1, spend=PART),
    "Curator.open_account": lambda w: w.curator.open_account(PART),
    "Curator.discover": lambda w: w.undeclared.discover(spend=PART),
    "Curator.discover_tables": lambda w: w.database.discover_tables(spend=PART),
    "Curator.skip_discovery": lambda w: w.undeclared.skip_discovery("why"),
    "Curator.give_up": lambda w: w.account.give_up(),
    "Curator.give_back": lambda w: w.curator.give_back(),
    "Curator.know": lambda w: w.curator.know({}),
    "Curator.rows": lambda w: w.curator.rows,
    "Curator.resume_watch": lambda w: through(w.curator, w.folder / "s"),
    "SparseVector.ask": lambda w: w.watch.ask(KEY.support(), guess=0.0),
    "SparseVector.turn": lambda w: w.watch.turn().__enter__(),
    "SparseVector.save": lambda w: w.watch.save(w.folder / "t", {}, b""),
    "SparseVector.close": lambda w: w.watch.close(),
    "SparseSession.ask": lambda w: w.sparse.ask(KEY),
    "SparseSession.save": lambda w: w.sparse.save(w.folder / "t"),
    "SparseSession.close": lambda w: w.sparse.close(),
    "OnlineSession.ask": lambda w: w.online.ask(QUERIES),
    "OnlineSession.close": lambda w: w.online.close(),
}
MORE: dict[str, Callable[[World], Any]] = {
    "an account": lambda w: w.account.measure(QUERIES),
    "an account of an account": lambda w: w.account.open_account().measure(QUERIES),
    "inside another account": lambda w: w.account.open_account(),
    "a mechanism": lambda w: SparseWeights(max_updates=3, spend=PART).open(w.curator),
    "a session whose updates are used up": lambda w: w.spent.ask(KEY),
    "a saved session": lambda w: resume_session(w.folder / "s", w.curator),
    "a fork of a fork": lambda w: in_a_fork(lambda: w.curator.measure(QUERIES, spend=PART)),
}
PUBLIC = {
    "Curator": {
        "about_rows", "adjacency", "became", "budget", "charges", "close", "cost", "extra_columns", "layout", "measured",
        "receipt", "remaining", "schema",
    },
    "SparseVector": {"alarms", "columns", "continued", "exhausted", "plan", "silence_bound", "threshold", "threshold_rows"},
    "SparseSession": {
        "alpha", "columns", "construction", "error", "loss", "measured", "receipt", "schema", "settings", "table", "total",
        "total_stddev", "updates", "watch",
    },
    "OnlineSession": {
        "asked", "cells", "construction", "curator", "domain", "exhausted", "loss", "mechanism", "total", "watch",
    },
}  # fmt: skip
"""What is no question: it reads no row, charges nothing, and gives no answer that was not given before."""


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


@pytest.mark.sampled
@pytest.mark.parametrize("question", [*ASKED, *MORE])
def test_a_forked_child_is_refused_before_anything_is_read_charged_or_written(question, world):
    before = world.record()
    said = in_a_fork(lambda: (ASKED | MORE)[question](world))
    assert "PrivacyError" in said
    assert "only in the process that made the curator" in said
    assert world.record() == before
    assert measured(world).startswith("answered")


def test_there_is_no_question_that_this_page_does_not_ask(world):
    asked = {kind: {name.partition(".")[2] for name in ASKED if name.startswith(f"{kind}.")} for kind in PUBLIC}
    for thing in (world.curator, world.watch, world.sparse, world.online):
        kind = type(thing).__name__
        assert {name for name in dir(thing) if not name.startswith("_")} == asked[kind] | PUBLIC[kind]


def test_what_is_public_can_be_read_in_a_fork_and_closing_there_closes_nothing(world):
    said = in_a_fork(lambda: (len(world.curator.schema), world.curator.remaining, world.sparse, world.curator.close()))
    assert said.startswith("answered (2, ApproxDP(")
    assert len(world.curator.measure(QUERIES, spend=PART).values) == QUERIES.k


def both_told(ask: Callable[[], Any]) -> list[str]:
    """What the first process and the copy were told by a question in whose middle the process forks."""
    reader, writer = os.pipe()
    first = os.getpid()
    try:
        ask()
        told = "answered"
    except BaseException as error:  # noqa: BLE001 - a child must not go on as a second test run
        told = type(error).__name__
    if os.getpid() != first:
        os.write(writer, told.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        return [told, file.read().decode()]


class Forking(Reads):
    """A source that forks when it is read for the first time."""

    def blocks(self, *arguments: Any, **options: Any) -> Any:
        if self.count == 0:
            forked()
        return super().blocks(*arguments, **options)


def forked() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks in a process with threads
        return os.fork()


def test_a_fork_in_the_middle_of_a_question_answers_it_once():
    curator = Curator(Forking(TABLE), schema=SCHEMA, budget=BUDGET)
    assert both_told(lambda: curator.measure(QUERIES, spend=PART)) == ["answered", "PrivacyError"]
    watch = Curator(Forking(TABLE), schema=SCHEMA, budget=BUDGET).watch((NAME,), max_alarms=9)
    assert both_told(lambda: watch.ask(KEY.support(), guess=0.0)) == ["answered", "PrivacyError"]


def test_a_lock_that_was_held_when_the_process_forked_stops_no_child(world):
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with world.watch.turn():
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    said = in_a_fork(lambda: world.curator.measure(QUERIES, spend=PART))
    done.set()
    thread.join()
    assert said.startswith("PrivacyError")


def measured(world: World) -> str:
    try:
        return f"answered {world.curator.measure(QUERIES, spend=PART)}"
    except PrivacyError as error:
        return f"PrivacyError: {error}"


WORLDS: list[World] = []
"""What the children of a pool find in their copy of this module."""


def test_workers_of_a_pool_that_forks_are_refused(world, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "WORLDS", [world])
    before = world.record()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            said = pool.starmap(measured_in_a_worker, [()] * 4)
    assert all("only in the process" in one for one in said)
    assert world.record() == before


def measured_in_a_worker() -> str:
    return measured(WORLDS[0])


@pytest.mark.parametrize("thing", ["curator", "account", "watch", "sparse", "online"])
def test_workers_that_are_sent_a_budget_are_not(thing, world):
    """joblib and pools that spawn send their work as pickles."""
    with pytest.raises(PrivacyError):
        pickle.dumps(getattr(world, thing))


def test_a_curator_that_is_made_in_a_child_answers_there():
    said = in_a_fork(lambda: len(Curator(TABLE, schema=SCHEMA, budget=BUDGET).measure(QUERIES).values))
    assert said == f"answered {QUERIES.k}"
