"""The total of one query over cells, on the scale of a watch (the sparse vector technique), which compares it with a guess.

On the curator's side only.
"""

from __future__ import annotations

from synthdp.curator.private_table import PrivateTable, check_question
from synthdp.errors import ParameterError
from synthdp.queries.protocol import Statistic
from synthdp.queries.supports import DENOMINATOR


def cell_total(table: PrivateTable, query: Statistic) -> int:
    """Return a query's exact total in 1024ths of a row.

    It may only be compared with noise, or noised.

    Raises
    ------
    ParameterError
        If it is not a single query that one unit's rows move by at most one each, in whole 1024ths, or its domain is not
        of the curator's schema.
    """
    check_question(table, query)
    if query.k != 1:
        raise ParameterError("a watch is asked one query at a time")
    if DENOMINATOR % query.denominator:
        raise ParameterError(f"the denominator of a watched query ({query.denominator}) must divide {DENOMINATOR}")
    if table.adjacency.sensitivity(query).linf > query.denominator * table.adjacency.rows:
        raise ParameterError("one row must move a watched query by at most 1: scale its values to the range 0..1")
    return int(table.exact(query)[0]) * (DENOMINATOR // query.denominator)
