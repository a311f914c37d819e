"""R40: every question of every source and every façade moves by no more than was stated, and nothing else tells of a row.

The tape is `tape`; the tables, sources and hostile rows are in `tape_worlds`.  Mechanisms on a curator, interactive ones
among them, are on it in `test_mechanism_traces`, several tables in `test_database_traces`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from facade_worlds import MECHANISMS, WITH_PUBLIC, World
from tape import Comparison, Run, compared
from tape_worlds import (
    PROMISES,
    ROWS,
    SCHEMAS,
    SOURCES,
    TYPED,
    UNTYPED,
    Row,
    everything_of,
    rows_for,
    schemas_for,
)

import synthdp as sd
from synthdp.cli.main import main
from synthdp.domain.domain import domain_of
from synthdp.errors import SynthDPError
from synthdp.queries.marginals import Marginals, all_cliques
from synthdp.tables.resolve import infer_schema, source_of

NO_ROWS = "the first of all"
"""A table of one row beside one of none: an estimator refuses the latter, as its receipt assumes; a curator answers."""

Case = tuple[str, str, str, str]
"""A source, how a neighbour differs, the promise, and what is declared."""


def pairs_of(source: str) -> list[Case]:
    return [(source, *rest) for rest in itertools.product(rows_for(source), PROMISES, schemas_for(source))]


def in_turns(source: str) -> list[Case]:
    """A ninth of the hostile rows of a source, another of the next, with promises and schemas in turns."""
    at, promises, schemas = list(SOURCES).index(source), list(PROMISES), schemas_for(source)
    return [
        (source, name, promises[(at + i) % len(promises)], schemas[(at + i // 3) % len(schemas)])
        for i, name in enumerate(rows_for(source))
        if (i + at) % 9 == 0
    ]


def on_tape(
    case: Case, run: Callable[[Any, Case, Path], Mapping[str, Any]], folder: Path, *, turned: bool
) -> Comparison:
    """Compare the two tables of a case, in either order: what a row brings may also be what it takes away."""
    source, name, promise, _ = case
    settings = PROMISES[promise]
    given = folder / "given"
    given.mkdir(exist_ok=True)

    def of(rows: list[Row]) -> Run:
        return lambda place: run(SOURCES[source](rows, given), case, place)

    tables = ROWS[name].pair(settings.get("neighbors", "add_remove"), settings.get("privacy_unit"))
    first, second = reversed(tables) if turned else tables
    return compared(of(first), of(second), folder)


def check(
    cases: list[Case], run: Callable[[Any, Case, Path], Mapping[str, Any]], folder: Path, *, refused: float = 0.0
) -> None:
    """Compare the tables of all cases; at most a share of them may be refused, on both sides alike."""
    found = {case: on_tape(case, run, folder, turned=i % 2 == 1) for i, case in enumerate(cases)}
    assert {case: one.faults for case, one in found.items() if one.faults} == {}
    outcomes = {case: one.outcome for case, one in found.items() if one.outcome}
    assert len(outcomes) <= refused * len(cases), outcomes
    assert max(one.largest for one in found.values()) > 0
    assert all(one.questions > 0 for one in found.values() if not one.outcome)


def every_question(table: Any, case: Case, _: Path) -> dict[str, Any]:
    """Ask a curator whatever it answers, of what was declared and what it discovers."""
    _, _, promise, declared = case
    source = source_of(table)
    schema = SCHEMAS[declared] or infer_schema(source, without=PROMISES[promise].get("privacy_unit"))
    curator = sd.Curator(source, schema=schema, budget=sd.ApproxDP(100.0, 1e-6), **PROMISES[promise])
    with curator:
        if schema.undeclared:
            found = curator.discover(spend=sd.ApproxDP(60.0, 1e-7))
            schema = found.schema
        numbers = [name for name in schema.outputs if name != "who"]
        domain = domain_of(sd.Schema({name: schema[name] for name in numbers}), bins=4)
        told: list[Any] = []
        for each in (sd.PureDP(1.0), sd.ApproxDP(1.0, 1e-7)):
            tables = curator.measure(Marginals(domain, all_cliques(domain, min(2, len(domain)))), spend=each)
            told.append(tables.values.tolist())
        told.append(curator.select(Marginals(domain, ((0,),)), spend=sd.PureDP(1.0)))
        told += ask_keys(curator)
        return {"schema": schema.to_json(), "told": told, "receipt": str(curator.receipt())}


def ask_keys(curator: sd.Curator) -> Iterator[Any]:
    """Ask for frequent records and watch a guess; a database that counts by itself answers neither."""
    try:
        yield curator.histogram(("city",), spend=sd.ApproxDP(1.0, 1e-7)).counts
        watch = curator.watch(("city",), max_alarms=2, threshold=3.0, spend=sd.ApproxDP(1.0, 1e-7))
        for guess in (0.0, 10.0, 20.0):
            if not watch.exhausted:
                yield watch.ask(sd.KeyList.of(("city",), ["a", "b"]).support(), guess=guess)
    except SynthDPError as refusal:
        yield str(refusal)


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("source", SOURCES)
def test_every_question_moves_by_no_more_than_was_stated(source, tmp_path):
    check(in_turns(source), every_question, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("promise", PROMISES)
@pytest.mark.parametrize("source", SOURCES)
def test_every_question_of_every_pair_moves_by_no_more_than_was_stated(source, promise, tmp_path):
    check([case for case in pairs_of(source) if case[2] == promise], every_question, tmp_path)


# The façade

DECLARED_ONLY = ("mwem", "MWEM", "fourier_marginals", "FourierMarginals", "NetMechanism")
"""Mechanisms that are refused where something is open: their currency discovers no levels, or too many cells come out."""


def of_mechanism(name: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the settings of a mechanism, and columns of which it can make a table in little time."""
    few = {"NetMechanism": ("city",), "fourier_marginals": ("age", "city"), "FourierMarginals": ("age", "city")}
    if name in WITH_PUBLIC:
        return WITH_PUBLIC[name], ("age", "pay", "city")
    return MECHANISMS[name](World(None, None)), few.get(name, ("age", "pay", "city"))


def released(mechanism: str, *, pages: bool) -> Callable[[Any, Case, Path], dict[str, Any]]:
    """Return what releases a table and keeps all that leaves."""
    settings, columns = of_mechanism(mechanism)

    def run(table: Any, case: Case, place: Path) -> dict[str, Any]:
        _, _, promise, declared = case
        told: list[str] = []
        schema = SCHEMAS[declared] and sd.Schema({name: SCHEMAS[declared][name] for name in columns})
        made = sd.SyntheticRelease(
            schema=schema, epsilon=2.0 if declared == "all declared" else 60.0, delta=1e-6, random_state=0,
            ledger=place / "l.sqlite", dataset="d", on_progress=lambda step: told.append(str(step)),
            **PROMISES[promise], **settings,
        )  # fmt: skip
        try:
            made.fit(table)
        finally:
            spent = [(one.state, one.loss) for one in sd.Ledger(place / "l.sqlite").entries("d")]
            for part in place.glob("l.sqlite*"):
                part.unlink()  # it holds the time, and stays at home
        made.set_params(on_progress=None, ledger=None)
        return {**everything_of(made, place, pages=pages), "spent": str(spent), "progress": told}

    return run


def facade_cases() -> list[tuple[str, Case]]:
    """Each mechanism once, and with it sources, hostile rows, promises and schemas in turns."""
    sources, promises, made = list(SOURCES), list(PROMISES), []
    for i, mechanism in enumerate(MECHANISMS):
        source = sources[(i + 2) % len(sources)]  # so that a mechanism meets "sql, counts" that it can be asked by
        names, schemas = (
            [one for one in rows_for(source) if one != NO_ROWS],
            schemas_for(source)[: 1 + (mechanism not in DECLARED_ONLY)],
        )
        promise = "a row more" if source == "sql, counts" else promises[i % 5]  # exchanged rows are refused there
        made.append((mechanism, (source, names[7 * i % len(names)], promise, schemas[i % len(schemas)])))
    return made


@pytest.mark.sampled("landing")
@pytest.mark.parametrize(("mechanism", "case"), facade_cases())
def test_all_that_leaves_a_release_is_equal_on_neighbours(mechanism, case, tmp_path):
    check([case], released(mechanism, pages=mechanism in ("auto", "l1_fit", "mwem")), tmp_path)


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("name", WITH_PUBLIC)
def test_all_that_leaves_a_release_with_public_knowledge_is_equal_on_neighbours(name, tmp_path):
    source = next(iter(SOURCES))
    row = [one for one in rows_for(source) if one != NO_ROWS][list(WITH_PUBLIC).index(name)]
    check([(source, row, next(iter(PROMISES)), "all declared")], released(name, pages=False), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_all_that_leaves_any_release_is_equal_on_neighbours(mechanism, tmp_path):
    """Every two of source, hostile row, promise and schema meet under some mechanism, each of them under every one."""
    at = list(MECHANISMS).index(mechanism)
    cases = [case for source in SOURCES for i, case in enumerate(pairs_of(source)) if i % 17 == at]
    cases = [case for i, case in enumerate(cases) if (i + at) % 4 == 0 and case[1] != NO_ROWS]
    check(
        cases, released(mechanism, pages=True), tmp_path, refused=0.8
    )  # what a mechanism does not take it refuses alike


# The command line


def commanded(rows: list[Row], folder: Path) -> Run:
    """Return the run of a command on a file, whose exit status and every word count."""

    def run(place: Path) -> dict[str, Any]:
        SOURCES["csv"](rows, folder)
        (folder / "schema.json").write_text(SCHEMAS["partly declared"].to_json(), encoding="utf-8")
        wanted = {"--out": "s.csv", "--save": "r", "--report": "r.html", "--receipt": "r.json"}
        places = [part for option, name in wanted.items() for part in (option, str(place / name))]
        done = CliRunner().invoke(
            main,
            [
                "release",
                str(folder / "t.csv"),
                "--schema",
                str(folder / "schema.json"),
                "--epsilon",
                "9",
                "--seed",
                "0",
                *places,
            ],
        )
        return {"status": done.exit_code, "said": done.output, "error": repr(done.exception)}

    return run


COMMANDED = ("an accent", "texts where numbers are")


@pytest.mark.sampled("landing")
@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=[pytest.mark.slow] * (one not in COMMANDED)) for one in TYPED | UNTYPED if one != NO_ROWS],
)
def test_a_command_says_and_writes_the_same_on_neighbours(name, tmp_path):
    first, second = (commanded(rows, tmp_path) for rows in ROWS[name].pair("add_remove", None))
    found = compared(first, second, tmp_path)
    assert found.faults == ()
    assert found.questions > 3
