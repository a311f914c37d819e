"""R27, R9: whatever a cell holds, the outcome is that of the table without its row, and nothing shows what it held.

Each container of `hostile_cells` is asked everything that reads rows, with and without one row more whose cells are
hostile.  Both must be answered, or refused in the same words; ask for the same noise; warn of the same.  The exact sums
may differ by that one row.  The value may be found in nothing printed, logged, raised or chained.
"""

from __future__ import annotations

import logging
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hostile_cells import COLUMNS, CONTAINERS, SCHEMA, TELLTALES, Container
from no_noise import Trace, recorded, replayed

from synthdp import ApproxDP, Categorical, Continuous, Curator, Datetime, Duration, Integer, PureDP, Schema
from synthdp.domain.discretize import domain_of
from synthdp.privacy import noise
from synthdp.queries.marginals import one_ways
from synthdp.tables.format import TableFormat
from synthdp.tables.sources.resolve import source_of

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


def asked(table: Any, earlier: Trace | None) -> tuple[Seen, Trace]:
    """Ask everything that reads rows; bounds and levels are discovered with the noise of an earlier time, if any."""
    seen = Seen()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name, column in COLUMNS.items():
            _end(seen, f"type of {name}", lambda name=name, column=column: _format(table, name, column))
        with pytest.MonkeyPatch.context() as patch:
            trace = recorded(patch, exact=True)
            patch.setattr(noise, "laplace_threshold", lambda counts, **_: dict(counts))
            for question, ask in QUESTIONS.items():
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


def _format(table: Any, name: str, column: Any) -> str:
    return repr(TableFormat.of(source_of(table), Schema({name: column})).to_document())


QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "sums": lambda table: _curator(table).measure(QUERIES, spend=PureDP(1.0)).answers,
    "sums of units": lambda table: _curator(table, privacy_unit="identifier").measure(QUERIES, spend=PureDP(1.0)).answers,
    "keys": lambda table: Counter(_curator(table).histogram(("categorical", "datetime"), spend=LOSS).counts),
}


def faults(container: Container) -> dict[str, str]:
    """What each value that a container holds changes and must not."""
    base, earlier = asked(container.holding(), None)
    found = {}
    for name, value in container.held().items():
        seen, _ = asked(container.holding(value), earlier)
        found[name] = "; ".join(_differences(base, seen))
    return {name: fault for name, fault in found.items() if fault}


def _differences(base: Seen, seen: Seen) -> Iterator[str]:
    yield from (f"{q}: {end}" for q, end in seen.ended.items() if end != base.ended[q])
    yield from (f"warned: {text}" for text in seen.warned if text not in base.warned)
    yield from (f"shows {text}" for text in TELLTALES if text in seen.said)
    yield from ["other noise"] * (seen.draws != base.draws)
    both = {question: (base.answers[question], seen.answers[question]) for question in base.answers if question in seen.answers}
    yield from (f"{q}: other types" for q, (one, other) in both.items() if q.startswith("type") and one != other)
    yield from (f"{q}: {other}" for q, (one, other) in both.items() if q == "discover" and one != other)
    yield from (f"{q}: {_moved(one, other)} rows moved" for q, (one, other) in both.items() if q in QUESTIONS and _moved(one, other) != ROWS[q])


ROWS = {"sums": [1] * len(COLUMNS), "sums of units": [1] * len(COLUMNS), "keys": [1]}
"""How many rows one row may move, in each column's table."""


def _moved(one: Any, other: Any) -> list[int]:
    if isinstance(one, Counter):
        return [((one - other) + (other - one)).total()]
    return [int(np.abs(part).sum()) for part in np.split(one - other, ENDS)]


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_hostile_cell_changes_one_row_and_nothing_else(name: str, capfd: Any, caplog: Any) -> None:
    with caplog.at_level(logging.DEBUG):
        assert faults(CONTAINERS[name]) == {}
    printed = "".join(capfd.readouterr()) + caplog.text
    assert not [text for text in TELLTALES if text in printed]
