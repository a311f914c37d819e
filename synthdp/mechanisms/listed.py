"""What the mechanisms that list their cells check before anything is spent.  Reads the schema, knows no curator."""

from __future__ import annotations

from synthdp.domain.universe import MAX_CELLS, check_size
from synthdp.mechanisms.protocol import part_of
from synthdp.mechanisms.workload import check_domain
from synthdp.queries.protocol import LinearQueries
from synthdp.schema.schema import Schema


def check_listed(queries: LinearQueries, schema: Schema, *, limit: int = MAX_CELLS) -> Schema:
    """Return the columns that queries are about, or refuse queries whose cells cannot be listed.

    Raises
    ------
    ParameterError
        If the columns are not the schema's, or their cells are more than ``limit``.
    """
    check_domain(queries, schema)
    check_size(queries.domain, limit=limit)
    return part_of(schema, queries.domain.names)
