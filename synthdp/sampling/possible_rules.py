"""A check, before any budget is spent, that the rules of a database schema allow rows at all.

The check reads only public facts.
"""

from __future__ import annotations

import numpy as np

from synthdp.distribution.history_model import IMPOSSIBLE, Conditional, Histories
from synthdp.domain.histories import Layout
from synthdp.domain.history_rules import barriers_of, open_cells
from synthdp.domain.rules import check_values
from synthdp.errors import SchemaError, in_table
from synthdp.randomness import generator
from synthdp.sampling.database_model import DatabaseModel, format_of_database

TRIED = 400
"""Number of persons that are drawn to check the rules, with all bins equally likely.  The rules are refused if rows of a
table are drawn and no row satisfies them.  A safety limit of time: rules that one person in a hundred obeys are refused
with probability .99^TRIED = 2 %."""


def check_rules(layout: Layout) -> None:
    """Raise SchemaError if no row of some table can satisfy the rules of the schema.

    Contradictions between two columns are found exactly, from the possible pairs of bins.  Contradictions of three or
    more rules are found by a trial: `TRIED` persons are drawn, and each table that has rows must have a valid one.

    Raises
    ------
    SchemaError
        If no row satisfies the rules; the message names the table.  Or if a rule names a value that no row can have.
    """
    schema = layout.schema
    if not schema.conditions and not schema.among:
        return
    for condition in schema.conditions:
        with in_table(condition.below[0]):
            check_values(condition.both)
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
    """Return a database model in which all bins that may be released are equally likely.

    Its rows are trial rows for `check_rules` and use no private data.  Row counts above a table's limit have
    probability 0.
    """
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
