"""Whether the rules of a database leave room for rows: asked before anything is spent, of public facts alone."""

from __future__ import annotations

import numpy as np

from synthdp.distribution.history_model import IMPOSSIBLE, Conditional, Histories
from synthdp.domain.grid_rules_across import barriers_of, open_cells
from synthdp.domain.histories import Layout
from synthdp.errors import SchemaError
from synthdp.randomness import generator
from synthdp.sampling.database_model import DatabaseModel, format_of_database

TRIED = 400
"""Persons whose cells are all equally likely, of whose rows some must obey.  Tuned; not measured."""


def check_rules(layout: Layout) -> None:
    """Refuse rules that no rows can obey.

    Two by two cells tell; of rules that contradict each other three by three, that none of some hundred persons whose values
    are equally likely has a row that obeys.

    Raises
    ------
    SchemaError
        Naming the table.
    """
    schema = layout.schema
    if not schema.conditions and not schema.among:
        return
    for (table, column), cells in open_cells(layout).items():
        if not cells.any():
            raise SchemaError(
                f"no value of column {column!r} of table {schema.names[table]!r} obeys all rules: change or remove "
                "a rule"
            )
    for barrier in barriers_of(layout):
        if not barrier.possible.any():
            name = schema.names[barrier.table]
            raise SchemaError(
                f"no row of table {name!r} obeys the rule on {barrier.attribute!r} and {barrier.other!r}: change or "
                "remove this rule"
            )
    for name, (drawn, kept, _) in evenly(layout).kept_rows(TRIED, generator(0)).items():
        if drawn and not kept:
            raise SchemaError(f"no row of table {name!r} was found that obeys all rules: change or remove a rule")


def evenly(layout: Layout) -> DatabaseModel:
    """Return a model in which all cells are equally likely, where rules allow them."""
    counted = {one.count: i for i, one in enumerate(layout.tables) if one.parent >= 0}
    conditionals = {}
    for i, table in enumerate(layout.tables):
        for name, axis in table.axes.items():
            possible = axis.releasable
            if name in counted:
                rows = layout.rows_of_count(counted[name])
                possible = possible & (rows <= layout.tables[counted[name]].at_most)
            base = np.where(possible, 0.0, IMPOSSIBLE)[None]
            conditionals[i, name] = Conditional(i, name, base)
    histories = Histories(layout, conditionals)
    return DatabaseModel(layout=layout, histories=histories, total=TRIED, formats=format_of_database(layout.schema))
