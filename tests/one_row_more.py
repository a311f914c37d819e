"""Tables that differ by one row, hostile ones: what a source reads of the two differs by one row, too."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from synthdp import Categorical, Continuous, Integer, Schema
from synthdp.curator.private_table import PrivateTable
from synthdp.domain.domain import domain_of
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.marginals import Marginals

Row = tuple[Any, ...]
Rows = list[Row]

ALL, EACH, FEWER, FEWEST = 2, 23, 37, 109
"""Of so many pairs one is tried: in the slow suite and in the quick one, of sources that take long to make fewer."""

NAMES = ("who", "n", "t", "x")
SCHEMA = Schema(
    {
        "n": Integer(0, 3, nullable=True),
        "t": Categorical(["a", "b", "é"], nullable=True),
        "x": Continuous(0, 1, nullable=True),
    }
)
CELLS = Marginals(domain_of(SCHEMA, bins=3), ((0, 1, 2),))

BLANK: Row = (None, None, None, None)
PLAIN: Rows = [("p", 0, "a", 0.5), ("q", 1, "b", 0.25), ("p", 0, "a", 0.5), ("r", 2, "a", 1.0)]
BASES: dict[str, Rows] = {
    "no blank row": PLAIN,
    "blank rows at the end": [*PLAIN, BLANK, BLANK, BLANK],
    "blank rows in between": [PLAIN[0], BLANK, PLAIN[1], BLANK, BLANK, PLAIN[2]],
    "blank rows first": [BLANK, BLANK, *PLAIN],
    "blank rows alone": [BLANK, BLANK, BLANK],
    "one row": PLAIN[:1],
}

HOSTILE: dict[str, Row] = {
    "blank": BLANK,
    "a duplicate": PLAIN[0],
    "like no other": ("s", 3, "b", 0.75),
    "the only one with an accent": ("s", 1, "é", 0.5),
    "the only one with digits": ("s", 1, "a", 0.123456789012345),
    "the only one with a large value": ("s", 2**31 - 1, "a", 1e300),
    "the only one without a value": ("s", None, "a", 0.5),
    "a value beside blanks": (None, 3, None, None),
    "an unknown level": ("s", 1, "zz", 0.5),
    "a text that may mean missing": ("s", 1, "NA", 0.5),
    "an empty text": ("s", 1, "", 0.5),
    "a text of spaces": (" ", 1, "  ", 0.5),
    "quotes": ("s", 1, 'a"b', 0.5),
    "a separator": ("s", 1, "a,b;c\td", 0.5),
    "a line end": ("s", 1, "a\nb\r\nc", 0.5),
    "a formula": ("s", 1, "=1+1", 0.5),
    "a far letter": ("s", 1, "\u4e2d\U0001f600", 0.5),
}
"""Rows that any typed column takes."""

UNTYPED: dict[str, Row] = {
    "the only text among numbers": ("s", "many", "a", "much"),
    "the only real number among whole ones": ("s", 0.5, "a", 0.5),
    "the only whole number among real ones": ("s", 1, "a", 1),
    "the only truth": ("s", True, "a", False),
    "the only day": ("s", dt.date(2020, 1, 1), "a", dt.datetime(2020, 1, 1, 12)),  # noqa: DTZ001
    "numbers as texts": ("s", "01", "a", "0,5"),
    "a number where texts are": (7, 1, 7, 0.5),
    "a huge number": ("s", 10**30, "a", 0.5),
}
"""Rows that only a column without a type takes."""


def pairs(*, typed: bool) -> Iterator[tuple[str, Rows, Rows]]:
    """Tables and the same with one row more, each with a name for messages."""
    rows = HOSTILE if typed else HOSTILE | UNTYPED
    for base, table in BASES.items():
        for name, row in rows.items():
            for place in sorted({0, len(table) // 2, len(table)}):
                yield f"{base}: {name} at {place}", table, [*table[:place], row, *table[place:]]
    crowd = [*rows.values()]
    for place, name in enumerate(rows):
        yield f"all: without {name}", crowd[:place] + crowd[place + 1 :], crowd


def some_pairs(*, typed: bool, each: int = EACH) -> list[tuple[str, Rows, Rows]]:
    """One of so many of the pairs; no step is a multiple of the three places."""
    return [*pairs(typed=typed)][::each]


def told(source: Any) -> dict[str, Any]:
    """What a source says beside its rows, which is public: whatever it has of names, types and formats."""
    said = {name: getattr(source, name) for name in ("names", "unnamed", "csv", "arrow_types") if hasattr(source, name)}
    shown = repr(source).replace(str(getattr(source, "path", "")), "")
    return {"repr": shown} | {name: dict(one) if name == "arrow_types" else one for name, one in said.items()}


def counted(source: Any, *, keys: bool = True) -> list[Counter[Any]]:
    """What is read of a table: how many rows are in which cell, of all and of every unit's, and each record's key."""
    found = []
    for unit in (None, "who"):
        table = PrivateTable(source, SCHEMA, Adjacency(unit=unit, rows=1 if unit is None else 99))
        cells = table.exact(CELLS)
        found.append(Counter({int(cell): int(cells[cell]) for cell in np.flatnonzero(cells)}))
        table.close()
    if keys:
        found.append(Counter(PrivateTable(source, SCHEMA, Adjacency()).key_counts(NAMES)))
    return found


def assert_one_row(made: Callable[[Rows], Any], cases: Sequence[tuple[str, Rows, Rows]], *, keys: bool = True) -> None:
    """Assert that of two tables which differ by one row at most one row read differs, and nothing else."""
    known: dict[str, Any] = {}

    def read(rows: Rows) -> Any:
        if repr(rows) not in known:
            source = made(rows)
            known[repr(rows)] = told(source), counted(source, keys=keys)
        return known[repr(rows)]

    for name, fewer, more in cases:
        (said, before), (said_too, after) = read(fewer), read(more)
        assert said == said_too, name
        for one, other in zip(before, after, strict=True):
            assert not one - other, name
            assert (other - one).total() <= 1, name
