"""Expected accuracy and cost of a release of several tables, from the schema and assumed numbers of rows alone.

`plan` is `synthdp.plan`: the plan of a release of one table or of several, by what the schema is of.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from synthdp.arrays import MEAN_ABS
from synthdp.checks import whole
from synthdp.curator import forecast_tables
from synthdp.domain.histories import Layout
from synthdp.errors import ParameterError
from synthdp.mechanisms.adaptive.shares import SCREEN
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.mechanisms.preflight import account_budget, discovery_part
from synthdp.mechanisms.related.asked_tables import person_tables
from synthdp.mechanisms.related.related_tables import (
    RelatedTables,
    check_tables,
    one_way_tables,
    share_of_stays,
    times_of_one_ways,
)
from synthdp.planning import dry_run
from synthdp.planning.dry_run import assumed_column, assumptions_of
from synthdp.planning.plan import Plan, Plans
from synthdp.privacy.calibration import account_inside, calibrate
from synthdp.privacy.loss import GaussianDP, PrivacyLoss, loss_of
from synthdp.privacy.neighbors import Adjacency, neighbors_named
from synthdp.queries.person_tables import Kind
from synthdp.schema.database import DatabaseSchema, database_schema_given, is_database
from synthdp.schema.schema import DraftedSchema, schema_given

ASSUMED_PERSONS = 10_000
"""Number of persons that a plan assumes if the user gives none.  More would predict smaller errors, which few tables
would reach.  A convention."""


WIDE = 0.01
"""Uncertainty of a column's mean, as a fraction of its range, above which a plan warns of a heavy tail.  Less would
warn of usual columns.  A tolerance."""

NOISY = 0.1
"""Total variation distance of a column above which a plan warns of the column.  Less would warn of many small tables.
A tolerance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabasePlan:
    """Holds the expected accuracy and cost of a release of several tables.

    Parameters
    ----------
    rows
        Assumed number of rows of each table.
    loss, neighbors
        The privacy guarantee, as texts.
    persons_stddev
        Stddev of the estimated number of persons.
    by_column
        By table and column, the expected total variation distance of the one-way marginal from noise alone, at most 1.
    discovered
        By table with open columns, about how many persons must have a category or range for it to be found.
    stages
        Share of the budget that each stage gets.
    memory_mb, seconds
        Estimated memory in megabytes and time in seconds of one core.
    advice
        Warnings and suggestions, as sentences.
    """

    rows: Mapping[str, int]
    loss: str
    neighbors: str
    persons_stddev: float
    by_column: Mapping[str, Mapping[str, float]]
    stages: Mapping[str, float]
    memory_mb: float
    seconds: float
    advice: tuple[str, ...]
    discovered: Mapping[str, float] = field(default_factory=dict)

    def to_document(self) -> dict[str, Any]:
        """Return the plan's fields by name, as a dictionary for JSON."""
        return asdict(self) | {"advice": list(self.advice)}

    def __str__(self) -> str:
        rows = ", ".join(f"{many} rows of {name!r}" for name, many in self.rows.items())
        lines = [f"Plan for {rows}", f"  promise     {self.loss}; {self.neighbors}"]
        lines.append(f"  persons     counted with a standard error of {self.persons_stddev:.3g}")
        for name, columns in self.by_column.items():
            noisiest = sorted(columns.items(), key=lambda pair: -pair[1])
            said = ", ".join(f"{column} {error:.3f}" for column, error in noisiest)
            lines.append(f"  {name:<10}  noise of one column (total variation): {said}")
        for name, rows_held in self.discovered.items():
            lines.append(f"  {name:<10}  a level, or a range, is found if about {rows_held:,.0f} people have it")
        lines.append("  budget      " + ", ".join(f"{stage} {share:.0%}" for stage, share in self.stages.items()))
        lines.append(f"  takes       about {self.seconds:.0f} s of one core and {self.memory_mb:.0f} MB")
        return "\n".join([*lines, *(f"  note        {line}" for line in self.advice)])


def plan_database(
    schema: DatabaseSchema, loss: PrivacyLoss, *, neighbors: str, rows: Mapping[str, int], domain_budget: float
) -> DatabasePlan:
    """Return the expected accuracy and cost of a release of several tables; no private row is read.

    Parameters
    ----------
    schema
        Schema of the tables; columns may be open.
    loss
        The whole privacy loss.
    neighbors
        Name of the neighbour relation.
    rows
        Assumed number of rows by table; tables without an entry get a guess.
    domain_budget
        Share of the budget for the discovery of open columns.

    Raises
    ------
    ParameterError
        If a number of rows is below 1, or a name is not a table's.
    SchemaError
        If a column that orders rows is open, or categories are open and delta is 0, or a column is a survey weight.
    """
    check_tables(schema)
    schema.check_open()
    opened = {name: one for name, one in schema.tables.items() if one.undeclared}
    assumed = {
        name: one.replace({column: assumed_column(one[column]) for column in one.undeclared})
        for name, one in opened.items()
    }
    layout = Layout(schema.with_columns(assumed))
    unknown = [name for name in rows if name not in layout.schema.tables]
    if unknown:
        raise ParameterError(
            f"rows names {unknown[0]!r}, which is not a table; the tables are: {', '.join(layout.schema.tables)}"
        )
    guessed: dict[str, int] = {}
    for table in layout.tables:
        above = guessed[layout.tables[table.parent].name] if table.parent >= 0 else 0
        guess = ASSUMED_PERSONS if table.parent < 0 else max(1, above * table.at_most // 2)
        guessed[table.name] = whole("rows", rows.get(table.name, guess), least=1)
    persons = guessed[layout.schema.root]
    bounds = tuple((name, layout.schema.slots(name)) for name in layout.schema.names[1:])
    adjacency = Adjacency(neighbors_named(neighbors), layout.schema.unit, 1, bounds)
    account, spent = account_budget(loss, RelatedTables(), *schema.tables.values()), domain_budget if opened else 0.0
    looked_at = {name: min(persons, many) for name, many in guessed.items()}  # one row of each person
    found = forecast_tables(opened, adjacency, discovery_part(account, domain_budget), rows=looked_at) if opened else {}
    rest = account_inside(account.fraction(1 - spent), None)
    rest = GaussianDP(rest.mu) if isinstance(rest, GaussianDP) else rest  # thresholds have all of delta
    budget = BudgetAllocation(rest, adjacency)  # type: ignore[arg-type]
    tables, shares = one_way_tables(layout)
    times = times_of_one_ways(layout, shares, budget, total=persons)
    shares = [share * times for share in shares]
    queries = person_tables(layout, tables, shares)
    part, _ = budget.take(sum(shares))
    made = calibrate(adjacency.sensitivity(queries), part.loss, k=queries.k)
    stddevs = made.noise.stddev / made.resolution / queries.ones
    by_column: dict[str, dict[str, float]] = {name: {} for name in layout.schema.names}
    wide: list[str] = []
    for one, stddev in zip(tables, stddevs, strict=True):
        if one.kind is Kind.ONE and not one.attribute.startswith("#"):
            name = layout.schema.names[one.table]
            # half of the L1 error over the cells; each person counts once, so rows beyond one a person add nothing
            error = 0.5 * math.prod(one.sizes(layout)) * MEAN_ABS * float(stddev) / min(persons, guessed[name])
            by_column[name].setdefault(one.attribute, min(1.0, error))
            points = layout.axis(one.table, one.attribute).points
            off = 0.5 * float(np.sqrt(np.nansum(points**2))) * float(stddev) / min(persons, guessed[name])
            if off > WIDE and np.isfinite(points).any():
                wide.append(f"{name}.{one.attribute} ({off:.0%})")
    cells = sum(layout.axis(i, name).size for i, table in enumerate(layout.tables) for name in table.axes)
    drawn = min(persons, RelatedTables().particles) / persons * sum(guessed.values())  # rows drawn to fit the model
    record = sum(layout.schema.slots(table.name) * (len(table.axes) + 1) for table in layout.tables)
    noisy = [f"{name}.{column}" for name, some in by_column.items() for column, error in some.items() if error > NOISY]
    advice = [f"noise alone moves {', '.join(noisy)} by more than {NOISY:.0%}: declare fewer levels or spend more"]
    if not noisy:
        advice = []
    if wide:
        advice.append(
            f"means are uncertain by a part of the range of {', '.join(wide)}: where most values are far below the upper "
            "bound, noise in the tail hides the mean; declare narrower bounds"
        )
    advice += [
        f"noise hides what many of the rows of {name!r} hold, and the release will warn of that: declare bounds and levels"
        for name, one in found.items() if one.is_coarse
    ]  # fmt: skip
    advice += [f"table {name!r}: assumed are {line}" for name, one in opened.items() for line in assumptions_of(one)]
    # the number of persons is a sum of two counts: of persons with one row in the root table, and with several
    persons_stddev = float(stddevs[0]) * math.sqrt(2)
    left = 1 - sum(shares)
    stays = share_of_stays(left)
    scores = min(SCREEN, (left - stays) / 2)
    stages = {"one-way tables": sum(shares), "what stays": stays, "screening": scores}
    stages["tables of two"] = left - stays - scores
    discovery = {"discovery": spent} if opened else {}
    stages = discovery | {name: (1 - spent) * share for name, share in stages.items()}
    return DatabasePlan(
        rows={name: guessed[name] for name in layout.schema.tables}, loss=str(loss), neighbors=str(adjacency),
        persons_stddev=persons_stddev, by_column=by_column,
        stages=stages, discovered={name: one.least for name, one in found.items()},
        memory_mb=150 + 2 * persons * record / 2**20 + 40 * sum(guessed.values()) / 2**20 + 6 * drawn * cells / len(
            layout.tables
        ) / 2**20,
        seconds=2 + 3e-6 * drawn * cells + 2e-5 * sum(guessed.values()), advice=tuple(advice),
    )  # fmt: skip


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
