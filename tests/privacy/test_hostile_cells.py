"""R27, R9: whatever a cell holds, the outcome is that of the table without its row, and nothing shows what it held.

Each container of `hostile_cells` is asked everything that reads rows, with and without one row more whose cells are
hostile.  Both must be answered, or refused in the same words; ask for the same noise; warn of the same.  The exact sums
may differ by that one row.  The value may be found in nothing printed, logged, raised or chained.
"""

from __future__ import annotations

import logging
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, TypeAlias

import numpy as np
import pytest
from hostile_cells import COLUMNS, CONTAINERS, SCHEMA, Container, one_database
from hostile_values import TELLTALES
from no_noise import Trace, recorded, replayed
from strictness import warnings_kept

from synthdp import ApproxDP, Categorical, Continuous, Curator, Datetime, Duration, Integer, PureDP, Schema
from synthdp.domain.domain import domain_of
from synthdp.privacy import noise
from synthdp.queries.marginals import Marginals, one_ways
from synthdp.tables.format import TableFormat
from synthdp.tables.resolve import source_of
from synthdp.tables.source import SummingSource

QUERIES = one_ways(domain_of(SCHEMA, bins=4))
ENDS = np.cumsum([axis.size for axis in QUERIES.domain.axes])[:-1]
LOSS = ApproxDP(1.0, 1e-6)
OPEN = Schema({
    "integer": Integer(nullable=True), "continuous": Continuous(nullable=True), "datetime": Datetime(nullable=True),
    "duration": Duration(nullable=True), "categorical": Categorical(nullable=True), "other": Categorical(other="else"),
})  # fmt: skip


@dataclass
class Seen:
    """What comes of asking a table: how each question ended, the noise it took, and what was warned of."""

    ended: dict[str, str] = field(default_factory=dict)
    draws: list[Any] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    said: str = ""
    answers: dict[str, Any] = field(default_factory=dict)


def asked(table: Any, earlier: Trace | None, questions: Questions) -> tuple[Seen, Trace]:
    """Ask for types and some of what reads rows; what is discovered has the noise of an earlier time, if any."""
    seen = Seen()
    with warnings_kept() as caught, np.errstate(all="raise"):  # as some users set it
        source = cache(lambda: source_of(table))
        for name, column in COLUMNS.items():
            _end(seen, f"type of {name}", lambda name=name, column=column: _format(source(), name, column))
        with pytest.MonkeyPatch.context() as patch:
            trace = recorded(patch, exact=True)
            patch.setattr(noise, "laplace_threshold", lambda counts, **_: dict(counts))
            for question, ask in questions.items():
                _end(seen, question, lambda ask=ask: ask(table))
            seen.draws += trace.draws
        with pytest.MonkeyPatch.context() as patch:
            trace = recorded(patch) if earlier is None else replayed(patch, earlier)
            _end(seen, "discover", lambda: repr(_curator(table, schema=OPEN).discover(spend=LOSS).schema))
            seen.draws += trace.draws
    seen.warned = sorted(str(warning.message) for warning in caught)
    return seen, trace


def _end(seen: Seen, question: str, ask: Callable[[], Any]) -> None:
    try:
        seen.answers[question] = ask()
        seen.ended[question] = "answered"
    except BaseException as error:  # noqa: BLE001 - whatever is raised is what the test is about
        seen.ended[question] = f"{type(error).__name__}: {error}"
        seen.said += "".join(map(str, chained(error)))


def chained(error: BaseException) -> Iterator[object]:
    """All that an error collector can find in an error: its text, its causes' and contexts', and their notes."""
    waiting, met = [error], set()
    while waiting:
        one = waiting.pop()
        if id(one) not in met:
            met.add(id(one))
            yield from (repr(one), *one.args, *getattr(one, "__notes__", ()), *traceback.format_exception(one))
            waiting += [other for other in (one.__cause__, one.__context__) if other is not None]


def _curator(table: Any, **settings: Any) -> Curator:
    return Curator(table, **{"schema": SCHEMA, "budget": LOSS, **settings})


def _sums(table: Any) -> np.ndarray:
    """The columns' tables; one by one where the source sums itself: it may know how to sum only some of them."""
    one_by_one = [Marginals(QUERIES.domain, ((j,),)) for j in range(len(COLUMNS))]
    asked_for = one_by_one if isinstance(source_of(table), SummingSource) else [QUERIES]
    curator = _curator(table)
    return np.concatenate([curator.measure(one, spend=PureDP(1 / len(asked_for))).answers for one in asked_for])


def _format(source: Any, name: str, column: Any) -> str:
    return repr(TableFormat.of(source, Schema({name: column})).to_document())


Questions: TypeAlias = dict[str, Callable[[Any], Any]]
QUESTIONS: Questions = {
    "sums": _sums,
    "sums of units": lambda table: (
        _curator(table, privacy_unit="identifier").measure(QUERIES, spend=PureDP(1.0)).answers
    ),
    "keys": lambda table: Counter(_curator(table).histogram(("categorical", "datetime"), spend=LOSS).counts),
}


def faults(container: Container, questions: Questions, *, one_by_one: bool = False) -> dict[str, str]:
    """What the hostile values that a container holds change and must not: all in one table, or one after the other."""
    held = container.held()
    base, earlier = asked(container.holding(), None, questions)
    if not one_by_one:
        together = faults_of(base, asked(container.holding(*held.values()), earlier, questions)[0], rows=len(held))
        return {"together": together} | faults(container, questions, one_by_one=True) if together else {}
    each = {name: asked(container.holding(value), earlier, questions)[0] for name, value in held.items()}
    found = {name: faults_of(base, seen, rows=1) for name, seen in each.items()}
    return {name: fault for name, fault in found.items() if fault}


def faults_of(base: Seen, seen: Seen, *, rows: int) -> str:
    """What differs between a table and the same with some rows more, and must not."""
    return "; ".join(_differences(base, seen, rows))


def _differences(base: Seen, seen: Seen, rows: int) -> Iterator[str]:
    yield from (f"{q}: {end}" for q, end in seen.ended.items() if end != base.ended[q])
    yield from (f"warned: {text}" for text in seen.warned if text not in base.warned)
    yield from (f"shows {text}" for text in TELLTALES if text in seen.said)
    yield from ["other noise"] * (seen.draws != base.draws)
    both = {q: (one, seen.answers[q]) for q, one in base.answers.items() if q in seen.answers}
    yield from (f"{q}: not the same" for q, (one, other) in both.items() if q not in PARTS and one != other)
    moved = {q: [gone_and_come(*part) for part in PARTS[q](*both[q])] for q in PARTS if q in both}
    yield from (f"{q}: {gone} rows gone" for q, parts in moved.items() for gone, _ in parts if gone)
    least = {"sums of units": 0}  # a row more of a unit that has one is not kept
    yield from (
        f"{q}: {come} rows come"
        for q, parts in moved.items()
        for _, come in parts
        if not least.get(q, rows) <= come <= rows
    )


def gone_and_come(one: np.ndarray, other: np.ndarray) -> tuple[int, int]:
    """How many rows of one histogram are not in another, and the other way round."""
    return int(np.maximum(one - other, 0).sum()), int(np.maximum(other - one, 0).sum())


def _of_columns(one: np.ndarray, other: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    return zip(np.split(one, ENDS), np.split(other, ENDS), strict=True)


def _of_keys(one: Counter[str], other: Counter[str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    keys = sorted({*one, *other})
    yield np.array([one[key] for key in keys]), np.array([other[key] for key in keys])


PARTS: dict[str, Callable[..., Iterator[tuple[np.ndarray, np.ndarray]]]] = {
    "sums": _of_columns, "sums of units": _of_columns, "keys": _of_keys,
}  # fmt: skip
"""How the answer to each question is one or more histograms of rows."""


@pytest.fixture(autouse=True)
def quick_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan the same noise once: a search through OpenDP takes longer than all the rest."""
    for planned in ("laplace_scale", "laplace_threshold_cost"):
        monkeypatch.setattr(noise, planned, lru_cache(maxsize=None)(getattr(noise, planned)))


TURNS = {
    name: {"sums": QUESTIONS["sums"]} | dict([[*QUESTIONS.items()][1 + i % 2]]) for i, name in enumerate(CONTAINERS)
}
"""Sums of every container, and of units or keys in turns: all are asked of each in the slow suite."""


IN_TURNS = {*list(CONTAINERS)[::7], *(name for name in CONTAINERS if name.split()[0] == "csv")}
"""Kinds of columns that lie side by side are read by the same code: those between are slow."""


@pytest.mark.sampled
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in IN_TURNS)) for name in CONTAINERS]
)
def test_hostile_cells_change_their_own_rows_and_nothing_else(name: str, capfd: Any, caplog: Any) -> None:
    with caplog.at_level(logging.DEBUG), one_database():
        assert faults(CONTAINERS[name], TURNS[name]) == {}
    printed = "".join(capfd.readouterr()) + caplog.text
    assert not [text for text in TELLTALES if text in printed]


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTAINERS)
def test_each_hostile_cell_alone_changes_one_row_and_nothing_else(name: str) -> None:
    assert faults(CONTAINERS[name], QUESTIONS, one_by_one=True) == {}
