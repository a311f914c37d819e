"""Rules between tables where the cells of the model are put together from several finer ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import synthdp as sd
from synthdp.answers.related.terms import Drawn, within_cells
from synthdp.distribution.history_model import IMPOSSIBLE, Conditional, Histories
from synthdp.domain.axis import Axis
from synthdp.domain.histories import Layout
from synthdp.domain.refinement import Refinement
from synthdp.mechanisms.related.choosing import attributes
from synthdp.sampling.database_model import DatabaseModel, format_of_database

POINTS, PARTS = 48, 12
"""Values of a column, and finer cells of equal length."""


def divided(axis: Axis, cells: int, weights: Any) -> Refinement:
    """Return ``cells`` equal cells of a column, put together from `PARTS` finer ones with these weights."""
    starts = np.append(np.arange(0, POINTS, POINTS // PARTS), np.arange(POINTS, axis.grid.size))
    coarse = np.append(np.arange(PARTS) * cells // PARTS, cells + np.arange(axis.grid.size - POINTS))
    fine = Axis(axis.name, axis.column, starts, np.arange(len(starts)))
    known = fine.width.astype(np.float64)
    known[:PARTS] = weights
    return Refinement(fine, coarse, known)


def model(*rules: Any, rows: int = 1, weights: Any = 1.0, only: int | None = None) -> DatabaseModel:
    """Persons with ``rows`` rows each, all cells equally likely and independent.

    ``persons.since`` has four cells, ``rows.at`` three, of which rows may have ``only`` one.  ``persons.zero`` is 0.
    """
    whole = sd.Integer(0, POINTS - 1)
    schema = sd.DatabaseSchema(
        tables={"persons": sd.Schema({"zero": sd.Integer(0, 9), "since": whole}), "rows": sd.Schema({"at": whole})},
        relations=[sd.Relation("persons", "rows", key="id", at_most=16)],
        rules=list(rules),
    )
    standard = Layout(schema)
    refinements = {
        (0, "since"): divided(standard.axis(0, "since"), 4, 1.0),
        (1, "at"): divided(standard.axis(1, "at"), 3, weights),
    }
    layout = standard.with_cells({(schema.names[i], name): one.coarse() for (i, name), one in refinements.items()})
    laws = {}
    for one in attributes(layout):
        axis = layout.axis(one.table, one.name)
        possible = axis.releasable.copy()
        if one.counts >= 0:
            possible &= layout.rows_of_count(one.counts) == rows
        if one.name == "zero" or (one.name == "at" and only is not None):
            possible &= np.arange(axis.size) == (0 if one.name == "zero" else only)
        laws[one.table, one.name] = Conditional(one.table, one.name, np.where(possible, 0.0, IMPOSSIBLE)[None])
    return DatabaseModel(
        layout=layout, histories=Histories(layout, laws), total=100.0, formats=format_of_database(schema),
        refinements=refinements,
    )  # fmt: skip


@pytest.mark.parametrize("weights", [np.ones(PARTS), np.tile([5.0, 1.0, 0.0, 2.0], 3)], ids=["alike", "some"])
def test_a_rule_that_forbids_nothing_changes_nothing(weights: Any) -> None:
    """Every value is at least 0: a cell's rows fill its finer cells by their weights."""
    persons = 24_000
    made = model(sd.LessEqual("persons.zero", "rows.at"), weights=weights).sample(persons, random_state=0)
    found = np.bincount(made["rows"]["at"] // (POINTS // PARTS), minlength=PARTS)
    wanted = persons * weights / weights.sum()
    assert (np.abs(found - wanted) <= 5 * np.sqrt(wanted)).all()


@pytest.mark.parametrize("order", [("persons.since", "rows.at"), ("rows.at", "persons.since")])
def test_a_row_above_leaves_the_rows_below_a_value_in_their_cell(order: tuple[str, str]) -> None:
    """The cells were drawn so that both may obey: no row is left out, and none has a value of another cell."""
    found = model(sd.LessEqual(*order)).kept_rows(4000, np.random.default_rng(0))
    assert found == dict.fromkeys(("persons", "rows"), (4000, 4000, 0))


def test_values_that_differ_lie_in_the_cell_that_was_drawn() -> None:
    """Sixteen rows of a parent have one cell of sixteen values: each value once."""
    found = model(sd.UniquePerParent("rows.at"), rows=16, only=1).kept_rows(200, np.random.default_rng(0))
    assert found["rows"] == (3200, 3200, 0)


def test_positions_inside_a_cell_are_those_in_the_whole_cell() -> None:
    """Of sixteen values of a cell each has a place of its own, from -15/16 to 15/16, whatever the finer ones are."""
    made = model(rows=4)
    drawn = Drawn(made, made.draw(200, np.random.default_rng(0))[0], np.random.default_rng(1))
    places = within_cells(made, drawn)
    for (table, name), size in {(0, "since"): 12, (1, "at"): 16}.items():
        inside = drawn.indices(table, name) % size
        assert places[table, name] == pytest.approx((2 * inside + 1) / size - 1)
