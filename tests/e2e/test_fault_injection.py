"""R37: whatever fails after the charge, a run ends in a table with a note, or the ledger's entry is returned.

Faults are raised at call boundaries (tests/fault_injection.py): a few stratified ones of each case here, and all
functions of all cases, first and last calls, in the slow form.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from fault_injection import KINDS, Boundary, Run, kinds, run, stratified
from no_noise import with_repeatable_noise
from sklearn.tree import DecisionTreeClassifier

import synthdp as sd
from synthdp.cli.main import main
from synthdp.errors import NOTHING_SPENT, budget_told
from synthdp.mechanisms.mechanism import TableMechanism
from synthdp.tables.sources.sql import SqlSource

TOLD = re.compile(rf"\b(?:SALVAGED|{'|'.join(kind.__name__ for kind in KINDS)})\b")
"""What failed, as notes, warnings and errors name it: a setting that a fault keeps from being read is a SchemaError."""

SALVAGED = "a table with a note"
"""What is left where a stage fails after the spend."""

NEVER = ("nothing", "a table")
"""What no fault may leave: nothing, or a table that does not say that something failed."""

OF_A_VALUE = ("synthdp.tables.plain:_written", "synthdp.tables.plain:_number")
"""What a hostile key's own code may make fail: its row is a person's like any other, and nothing tells of it."""

ROWS = 60
LOSS = sd.ApproxDP(20.0, 1e-6)
SCHEMA = sd.Schema({"a": sd.Boolean(), "b": sd.Integer(0, 3)})
NUMBERS = sd.Schema({"b": sd.Integer(0, 3), "c": sd.Continuous(0, 1)})
PERSONS = sd.DatabaseSchema(
    tables={"persons": sd.Schema({"a": sd.Boolean()}), "visits": sd.Schema({"year": sd.Integer(2018, 2019)})},
    relations=[sd.Relation("persons", "visits", key="id", at_most=2, order="year", unique=True)],
)

OPEN = sd.DatabaseSchema(
    tables={"persons": sd.Schema({"a": sd.Categorical()}), "visits": sd.Schema({"year": sd.Integer()})},
    relations=[sd.Relation("persons", "visits", key="id", at_most=2)],
)


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    b = rng.integers(0, 4, ROWS)
    return pd.DataFrame({"a": b + rng.integers(0, 2, ROWS) > 2, "b": b})


def numbers() -> pd.DataFrame:
    return table()[["b"]].assign(c=np.linspace(0, 1, ROWS))


def tables() -> dict[str, pd.DataFrame]:
    visits = pd.DataFrame({"id": np.repeat(range(40), 2), "year": [2018, 2019] * 40})
    return {"persons": pd.DataFrame({"id": range(40), "a": [True, False] * 20}), "visits": visits}


@dataclass
class Case:
    """A way to spend: what is run, and where to look for what is left."""

    start: Callable[[Path, str, dict[str, Any]], Any]
    left: dict[str, Any] = field(default_factory=dict)
    ledgers: Any = field(default_factory=itertools.count)

    def job(self, folder: Path) -> Callable[[], Any]:
        def work() -> Any:
            self.left.clear()
            place = folder / str(next(self.ledgers))
            place.mkdir()
            self.left["ledger"] = str(place / "l.sqlite")
            return self.start(place, self.left["ledger"], self.left)

        return work

    def outcome(self, found: Run) -> str:
        """Say what is left of a run in which a fault was raised, and check that it can be used."""
        ledger = sd.Ledger(self.left["ledger"])
        states = {entry.state for entry in ledger.entries()}
        release = getattr(self.left.get("estimator"), "release_", None)
        if found.error is None:
            assert all(len(one) > 0 for one in made_of(found.result))
            made = release or self.left.get("release")
            notes = self.left.get("said", "") if made is None else " ".join(made.receipt.notes)
            return "a table with a note" if found.salvaged or TOLD.search(notes) else "a table"
        if states == {"returned"}:
            assert states
            assert budget_told(found.error) == NOTHING_SPENT
            return "an entry returned"
        if release is not None:
            assert all(len(one) > 0 for one in made_of(release.sample(5)))
            assert "release_" in (budget_told(found.error) or "")
            return "a release that is kept"
        if "release" in self.left:  # its maker returned it
            assert len(self.left["release"].sample(5)) == 5
            return "a release that is kept"
        saved = re.search(r"saved in '([^']+)'", budget_told(found.error) or "")
        if saved is not None:
            assert all(len(one) > 0 for one in made_of(sd.load(saved[1]).sample(5)))
            return "a release that is saved"
        return "nothing"


def made_of(result: Any) -> list[Any]:
    return [*result.values()] if isinstance(result, dict) else [result]


def estimator(read: Callable[[Path], Any] = lambda _: table(), **settings: Any) -> Case:
    """A `SyntheticRelease` of a table that is read from a source."""

    def start(place: Path, ledger: str, left: dict[str, Any]) -> Any:
        source = read(place)
        given = {"schema": SCHEMA, "epsilon": LOSS.epsilon, "delta": LOSS.delta} | settings
        left["estimator"] = sd.SyntheticRelease(**given, ledger=ledger, random_state=0)
        return left["estimator"].fit_transform(source)

    return Case(start)


def mechanism(made: TableMechanism, schema: sd.Schema = SCHEMA, *, neighbors: str = "add_remove") -> Case:
    """A mechanism on a curator."""

    def start(_: Path, ledger: str, left: dict[str, Any]) -> Any:
        known = numbers() if schema is NUMBERS else table()
        curator = sd.Curator(known, schema=schema, budget=LOSS, ledger=ledger, neighbors=neighbors)
        with curator:
            left["release"] = made.release(curator, random_state=0)
        return left["release"].sample(20, random_state=0)

    return Case(start)


def database(read: Callable[[], Any] = tables, schema: sd.DatabaseSchema = PERSONS) -> Case:
    def start(_: Path, ledger: str, left: dict[str, Any]) -> Any:
        left["estimator"] = sd.DatabaseRelease(schema=schema, epsilon=20.0, ledger=ledger, random_state=0)
        return left["estimator"].fit_transform(read())

    return Case(start)


def trained() -> Case:
    def start(_: Path, ledger: str, left: dict[str, Any]) -> Any:
        release = sd.SyntheticRelease(schema=SCHEMA, epsilon=20.0, ledger=ledger, random_state=0)
        left["estimator"] = Kept(sd.TrainOnSynthetic(DecisionTreeClassifier(max_depth=2), release))
        known = table()
        left["estimator"].fit(known[["b"]], known["a"])
        return known

    return Case(start)


class Kept:
    """`TrainOnSynthetic`, with its release where the others have theirs."""

    def __init__(self, model: sd.TrainOnSynthetic) -> None:
        self.model = model

    @property
    def release_(self) -> Any:
        return self.model.release_.release_

    def fit(self, X: Any, y: Any) -> Any:
        return self.model.fit(X, y)


def command(schema: Any, write: Callable[[Path], Path], *options: str) -> Case:
    def start(place: Path, ledger: str, left: dict[str, Any]) -> Any:
        (place / "schema.json").write_text("", encoding="utf-8")
        schema.write(place / "schema.json")
        told = [
            str(write(place)),
            "--schema",
            str(place / "schema.json"),
            "--ledger",
            ledger,
            "--epsilon",
            "20",
            "--seed",
            "0",
        ]
        out = place / ("out" if isinstance(schema, sd.DatabaseSchema) else "out.csv")
        result = CliRunner().invoke(main, ["release", *told, "--out", str(out), *options])
        left["said"] = result.output + result.stderr
        if result.exit_code == 0 or out.exists():
            return pd.read_csv(out if out.is_file() else out / "persons.csv")
        error = RuntimeError(result.stderr)
        note = re.search(r"\(((nothing|ε).*)\)$", result.stderr.strip().splitlines()[-1])
        error.add_note("budget: " + (note[1] if note else ""))
        raise error

    return Case(start)


def csv_of(place: Path) -> Path:
    table().to_csv(place / "t.csv", index=False)
    return place / "t.csv"


def folder_of(place: Path) -> Path:
    (place / "db").mkdir()
    for name, one in tables().items():
        one.to_csv(place / "db" / f"{name}.csv", index=False)
    return place / "db"


def parquet_of(place: Path) -> Any:
    table().to_parquet(place / "t.parquet")
    return sd.ParquetSource(place / "t.parquet")


def counts_of(place: Path) -> Any:
    with duckdb.connect(str(place / "t.duckdb")) as db:
        db.register("shown", table())
        db.execute("CREATE TABLE people AS SELECT * FROM shown")
    return SqlSource(f"duckdb:///{place / 't.duckdb'}", table="people", push="counts")


CASES: dict[str, Callable[[], Case]] = {
    "estimator": estimator,
    "estimator, nothing declared": lambda: estimator(schema=None, epsilon=60.0),
    "estimator, replace one": lambda: estimator(neighbors="replace_one"),
    "estimator, a unit": lambda: estimator(lambda _: table().assign(who=np.arange(ROWS) // 2), privacy_unit="who"),
    "estimator, CSV": lambda: estimator(lambda place: sd.CsvSource(csv_of(place))),
    "estimator, Parquet": lambda: estimator(parquet_of),
    "estimator, counts of a database": lambda: estimator(counts_of),
    "estimator, smooth": lambda: estimator(lambda _: numbers(), schema=NUMBERS, mechanism="smooth_synthesis"),
    "estimator, L1": lambda: estimator(mechanism="l1_fit"),
    "estimator, MWEM": lambda: estimator(mechanism="mwem", mechanism_options={"rounds": 2}),
    "estimator, Fourier": lambda: estimator(mechanism="fourier_marginals"),
    "adaptive marginals on a curator": lambda: mechanism(sd.AdaptiveMarginals()),
    "automatic on a curator": lambda: mechanism(sd.Automatic(), NUMBERS, neighbors="replace_one"),
    "L1 on a curator": lambda: mechanism(sd.L1Fit(basis="mixed")),
    "MWEM on a curator, replace one": lambda: mechanism(sd.MWEM(rounds=2), neighbors="replace_one"),
    "Fourier on a curator": lambda: mechanism(sd.FourierMarginals()),
    "smooth, practical, on a curator": lambda: mechanism(sd.SmoothSynthesis(variant="practical"), NUMBERS),
    "database": database,
    "database, nothing declared": lambda: database(schema=OPEN),
    "a model trained": trained,
    "command line": lambda: command(SCHEMA, csv_of),
    "command line, all files": lambda: command(SCHEMA, csv_of, "--receipt", "r.json", "--report", "r.html"),
    "command line, database": lambda: command(PERSONS, folder_of),
}


def outcomes(case: Case, folder: Path, points: int, monkeypatch: pytest.MonkeyPatch) -> dict[Boundary, str]:
    """Return what was left after a fault at each of some boundaries."""
    with_repeatable_noise(monkeypatch)
    whole = run(case.job(folder))
    assert whole.error is None
    assert len(made_of(whole.result)[0]) > 0
    found: dict[Boundary, str] = {}
    for boundary, kind in zip(stratified(whole.passed, points), kinds(), strict=False):
        with_repeatable_noise(monkeypatch)
        faulty = run(case.job(folder), boundary, kind)
        if faulty.fired:
            found[boundary] = case.outcome(faulty)
    return found


@pytest.mark.landing
@pytest.mark.parametrize("name", ["estimator"])
def test_a_fault_after_the_charge_ends_in_a_table_or_in_a_returned_entry(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = outcomes(CASES[name](), tmp_path, 40, monkeypatch)
    assert len(found) >= 30
    assert set(found.values()) >= {"a table with a note", "an entry returned"}
    assert [boundary for boundary, what in found.items() if what in NEVER] == []


@pytest.mark.sampled("landing")
@pytest.mark.parametrize(
    ("name", "boundary", "left"),
    [
        ("estimator, MWEM", ("synthdp.mechanisms.preflight:first_that_works", 1), "a release that is kept"),
        ("estimator, MWEM", ("synthdp.release:Release.salvaged", 1), "a release that is kept"),
        ("estimator, nothing declared", ("synthdp.mechanisms.preflight:release_of", 1), "an entry returned"),
        ("estimator, nothing declared", ("synthdp.mechanisms.preflight:release_of", 2), "a table with a note"),
        ("database, nothing declared", ("synthdp.mechanisms.preflight:discovery_part", 1), "an entry returned"),
        ("database, nothing declared", ("synthdp.curator.private_database:PrivateDatabase.complete", 1), SALVAGED),
        ("database, nothing declared", ("synthdp.domain.histories:Layout.__post_init__", 1), SALVAGED),
        ("database", ("synthdp.mechanisms.preflight:first_that_works", 3), "a release that is kept"),
        ("database", ("synthdp.curator.curator:Curator.__exit__", 1), "a release that is kept"),
        ("command line", ("synthdp.curator.curator:Curator.__exit__", 1), "a release that is saved"),
        ("command line, database", ("synthdp.curator.curator:Curator.__exit__", 1), "a release that is saved"),
        ("command line", ("synthdp.publishing:without_source", 1), "a table with a note"),
        ("command line, database", ("synthdp.cli.database_commands:_tell", 1), "a table with a note"),
    ],
)
def test_a_paid_release_is_kept_before_anything_else_is_done(name, boundary, left, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with_repeatable_noise(monkeypatch)
    case = CASES[name]()
    faulty = run(case.job(tmp_path), boundary)
    assert faulty.fired
    assert case.outcome(faulty) == left


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_fault_at_any_function_ends_in_a_table_or_in_a_returned_entry(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = outcomes(CASES[name](), tmp_path, 1000, monkeypatch)
    print(name, len(found), dict(Counter(found.values())))  # noqa: T201 - the table of the report
    unsaid = [boundary for boundary, what in found.items() if what in NEVER]
    assert [boundary for boundary in unsaid if boundary[0] not in OF_A_VALUE] == []
