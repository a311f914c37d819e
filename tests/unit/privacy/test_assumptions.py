"""What a receipt says that its promise rests on: whose bounds are known from where, and who is protected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from synthdp import Categorical, Continuous, Identifier, Integer, LessEqual, Schema
from synthdp.privacy.neighbors import Adjacency, Neighbors
from synthdp.privacy.receipt import assumptions
from synthdp.schema.columns import DISCOVERED, DRAFTED, Column

COLUMNS: dict[str, Column] = {"a": Integer(0, 9), "b": Continuous(0, 1), "c": Categorical(["x", "y"])}


def told(columns: dict[str, Column], *, found: dict[str, Column] | None = None, adjacency: Adjacency | None = None):
    known = Schema(columns)
    complete = known if found is None else Schema({**columns, **found})
    return [*assumptions(known, complete, adjacency or Adjacency())]


def known_from(**sources: str | None) -> dict[str, Column]:
    return {name: replace(column, source=sources[name]) for name, column in COLUMNS.items()}


def bounds(lines: list[str]) -> list[str]:
    """The columns that the lines about bounds name, line by line."""
    start = "bounds and levels of "
    return [line.removeprefix(start).partition(" w")[0] for line in lines if line.startswith(start)]


@pytest.mark.parametrize(
    ("sources", "named"),
    [
        ({"a": None, "b": None, "c": None}, ["all columns"]),
        ({"a": "law", "b": "law", "c": "law"}, ["all columns"]),
        ({"a": "law", "b": "census", "c": "law"}, ["a, c", "b"]),
        ({"a": None, "b": "census", "c": None}, ["a, c", "b"]),
        ({"a": "law", "b": "census", "c": None}, ["a", "b", "c"]),
    ],
)
def test_a_source_is_said_of_its_own_columns_and_of_all_columns_only_where_it_is_of_all(sources, named):
    lines = told(known_from(**sources))
    assert bounds(lines) == named
    said = [source for source in sources.values() if source is not None]
    assert all(any(f"(source: {source})" in line for line in lines) for source in said)


def test_numbers_of_rows_are_no_column_whose_bounds_are_known():
    assert bounds(told({"id": Identifier(), **COLUMNS})) == bounds(told(COLUMNS)) == ["all columns"]


@pytest.mark.parametrize(("source", "said"), [(DISCOVERED, "by an earlier release"), (DRAFTED, "accepted")])
def test_bounds_that_were_read_off_rows_are_never_called_declared(source, said):
    (line,) = [line for line in told(known_from(a=source, b=source, c=source)) if line.startswith("bounds")]
    assert said in line
    assert "declared" not in line


def test_open_columns_are_found_under_noise_or_not_known_and_each_is_said_of_its_own():
    lines = told({**COLUMNS, "d": Integer(), "e": Categorical()}, found={"d": Integer(0, 7)})
    assert bounds(lines) == ["a, b, c", "d", "e are not known, and nothing rests on them"]
    assert "discovered under noise" in lines[-2]


@pytest.mark.parametrize("neighbors", [Neighbors.ADD_REMOVE, Neighbors.REPLACE_ONE])
@pytest.mark.parametrize(("unit", "whom"), [((), "rows"), (("who", 1), "units")])
def test_a_number_is_called_public_exactly_where_neighbours_share_it(neighbors, unit, whom):
    lines = told(COLUMNS, adjacency=Adjacency(neighbors, *unit))
    assert (f"the number of {whom} is public" in lines) is (neighbors is Neighbors.REPLACE_ONE)
    assert sum("is public" in line for line in lines) == (neighbors is Neighbors.REPLACE_ONE)


@pytest.mark.parametrize("rules", [0, 1, 2])
def test_rules_are_counted_and_each_is_said(rules):
    schema = Schema(
        {"a": Integer(0, 9), "b": Integer(0, 9)}, constraints=[LessEqual("a", "b"), LessEqual("b", "a")][:rules]
    )
    lines = [line for line in assumptions(schema, schema, Adjacency()) if "rule" in line]
    assert len(lines) == (rules > 0)
    assert all(rule.in_words() in line for rule in schema.constraints for line in lines)
    assert all(line.startswith(("a rule", "2 rules")[rules - 1]) for line in lines)
