"""`synthdp.plan`: the plan of a release of one table or of several, by what the schema is of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from synthdp.errors import ParameterError
from synthdp.planning import dry_run
from synthdp.planning.database_plan import DatabasePlan, plan_database
from synthdp.planning.plan import Plan, Plans
from synthdp.privacy.loss import loss_of
from synthdp.schema.database import database_schema_given, is_database
from synthdp.schema.schema import DraftedSchema, schema_given


def plan(
    schema: Any,
    *,
    rows: int | Mapping[str, int],
    epsilon: float | Sequence[float] = 1.0,
    delta: float = 1e-9,
    neighbors: str = "add_remove",
    domain_budget: float = 0.3,
    **of_one_table: Any,
) -> Plan | Plans | DatabasePlan | list[DatabasePlan]:
    """Return the expected cost and accuracy of a release, before any budget is spent; no private row is read.

    Parameters
    ----------
    schema
        A `Schema`, a draft or a `DatabaseSchema`, as an object, a JSON document or a path; the plan lists its
        assumptions on columns that are open, or drafted and not reviewed.
    rows
        Your estimate of the number of rows.  Of several tables: the number of persons, or the rows by table.
    epsilon
        One epsilon, or several for the trade-off.
    delta, neighbors, domain_budget
        As for `SyntheticRelease`.
    of_one_table
        For one table only: ``mechanism`` (an object; default: the automatic choice), ``max_rows_per_unit``, ``weight``
        and ``weight_bounds`` as for `SyntheticRelease`; ``random_state``, the seed of the simulated table;
        ``on_progress``, a function that is called before each dry run.

    Returns
    -------
    A plan, or for several epsilons a list of plans.

    Raises
    ------
    ParameterError, SchemaError
        If a setting is out of range.

    Examples
    --------
    >>> import synthdp as sd
    >>> expected = sd.plan(sd.Schema({"age": sd.Integer(0, 100), "member": sd.Boolean()}), rows=5000, epsilon=1.0)
    >>> expected.rows, sorted(expected.errors)
    (5000, [1, 2])
    """
    settings: dict[str, Any] = {"neighbors": neighbors, "domain_budget": domain_budget}
    known = database_schema_given(schema) if is_database(schema) else None
    if known is not None and known.relations:
        given = [name for name, value in of_one_table.items() if value is not None]
        if given:
            raise ParameterError(f"{given[0]} works with one table only: leave it out for several tables")
        many = rows if isinstance(rows, Mapping) else {known.root: rows}
        asked = epsilon if isinstance(epsilon, Sequence) else [epsilon]
        plans = [plan_database(known, loss_of(one, delta), rows=many, **settings) for one in asked]
        return plans if isinstance(epsilon, Sequence) else plans[0]
    if known is not None:
        schema = known.tables[known.root]
        rows = rows.get(known.root, 0) if isinstance(rows, Mapping) else rows
    elif not isinstance(schema, DraftedSchema):
        schema = schema_given(schema)
    return dry_run.plan(schema, rows=rows, epsilon=epsilon, delta=delta, **settings, **of_one_table)  # type: ignore[arg-type]
