"""Asking the curator for tables of persons, each with its own noise."""

from __future__ import annotations

import math
from collections.abc import Sequence

from synthdp.arrays import FloatArray
from synthdp.curator import Curator
from synthdp.domain.histories import Layout
from synthdp.measurements import Measurements
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.queries.person_tables import PersonTable, PersonTables
from synthdp.queries.persons import whole_of_table

UNIT, FINER = 2**20, 8
"""Noise is added to whole numbers, so one person counts many of them, and rounding is negligible.  In the table with
the least noise it is about UNIT, and at least FINER times the sum of a person's row weights.  A numerical tolerance.
"""

Counted = list[tuple[FloatArray, float]]
"""Noisy tables, in persons, and the standard deviation of the noise in the cells of each."""


def measure(
    account: Curator,
    layout: Layout,
    tables: Sequence[PersonTable],
    shares: Sequence[float],
    budget: BudgetAllocation,
    *,
    step: str,
) -> tuple[Measurements, Counted, BudgetAllocation]:
    """Measure noisy tables of persons, each with its own share of the budget, in one question.

    Costs the sum of ``shares`` of the whole budget, or what is left if that is less, for the curator's neighbours.

    Parameters
    ----------
    account
        The curator that answers.
    layout
        The record of a person that the tables are about.
    tables, shares
        The tables to count, and the share of the whole budget of each.
    budget
        The rest of the budget.
    step
        Name of the step on the receipt.

    Returns
    -------
    The noisy answers, each table in persons with the stddev of a cell's noise, and what is left of the budget.
    """
    part, left = budget.take(min(sum(shares), budget.share))
    queries = person_tables(layout, tables, shares)
    found = account.measure(queries, spend=part.loss, step=step)
    stddevs = found.stddev * queries.denominator / queries.ones
    return found, [(noisy, float(s)) for noisy, s in zip(queries.split(found.answers), stddevs, strict=True)], left


def person_tables(layout: Layout, tables: Sequence[PersonTable], shares: Sequence[float]) -> PersonTables:
    """Return the query of several tables, scaled so that equal noise on it has variances in proportion to 1 / share."""
    largest = max(shares)
    unit = max(UNIT, FINER * max(whole_of_table(layout, table.table) for table in tables))
    multipliers = [
        max(1, round(unit * math.sqrt(share / largest) / whole_of_table(layout, table.table)))
        for table, share in zip(tables, shares, strict=True)
    ]
    return PersonTables(layout, tuple(tables), tuple(multipliers))
