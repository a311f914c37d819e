"""`plan`: the mechanism itself runs, with the real budget, on simulated rows; its error there is known exactly.

No private row is read, so a plan costs nothing and may be made as often as wanted.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from synthdp.arrays import Codes, GridIndices
from synthdp.checks import check_whole
from synthdp.curator.curator import Curator
from synthdp.distribution.contingency import contingency, table_size
from synthdp.domain.discretize import domain_of
from synthdp.domain.domain import Domain
from synthdp.domain.encoder import decode
from synthdp.mechanisms.automatic import Automatic
from synthdp.planning.plan import Plan
from synthdp.planning.simulated_table import simulated_table
from synthdp.privacy.calibration import gaussian_account
from synthdp.privacy.loss import ApproxDP, GaussianDP, PrivacyLoss, PureDP, loss_of
from synthdp.progress import Progress
from synthdp.randomness import generator
from synthdp.release import Release
from synthdp.schema.column import Column
from synthdp.schema.schema import Schema
from synthdp.tables.format import TableFormat

MOST_ROWS = 40_000
"""Rows of a dry run; a larger table is run on so many with more budget, so that signal over noise is right."""

TABLES, MOST_CELLS = 150, 300_000
"""Marginals of each order whose error is averaged, and the most cells of one."""

SECONDS_A_VALUE = 1.7e-7
"""Time for a value beyond the dry run's, to read, count and draw it: as benchmarks/speed/flagship_scale.py measures it."""

BYTES_AT_REST, BYTES_A_VALUE = 290e6, 18
"""Peak memory of the process, the table included, as measured by the same and for Adult."""

USEFUL = 0.97
"""Pairs were learned if their tables' error is below this part of that of independent columns."""

ASSUMED_LEVELS, ASSUMED_RANGE = 30, 86_400 * 1_000
"""Levels, and the width of the range in whole numbers or seconds, of a column whose own are to be discovered."""

MOST_NAMES = 10
"""Columns that one line of assumptions names."""

UNIT = "synthdp's unit of privacy"
"""Name of the simulated column of privacy units."""


class Distances(NamedTuple):
    """Mean distance of marginals, and sqrt(k) times that of a random sample of k rows."""

    error: float
    sample: float


def plan(
    schema: Schema,
    *,
    rows: int,
    epsilon: float | Sequence[float] = 1.0,
    delta: float = 1e-9,
    neighbors: str = "add_remove",
    mechanism: Any = None,
    max_rows_per_unit: int = 1,
    domain_budget: float = 0.1,
    random_state: int = 0,
) -> Plan | list[Plan]:
    """Say what a release would cost and how good it would be, before anything is spent.

    Parameters
    ----------
    schema
        The table's; the plan states what it assumed about columns that are left open, or drafted and not reviewed.
    rows
        About how many rows the table has; an assumption of yours, not read from the table.
    epsilon
        One loss, or several for the trade-off curve.
    delta, neighbors, max_rows_per_unit
        As for `SyntheticRelease`.
    mechanism
        A mechanism object; default: the automatic choice.
    domain_budget
        Share for discovering what the schema leaves open.
    random_state
        Seed of the simulated table.

    Returns
    -------
    A `Plan`, or a list of them for a list of epsilons.

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
    check_whole("rows", rows)
    open_columns, assumed = schema.undeclared, _assumptions(schema)
    schema = schema.assuming({name: _assumed(column) for name, column in schema.items()})
    losses = [loss_of(one, delta) for one in (epsilon if isinstance(epsilon, Sequence) else [epsilon])]
    indices = simulated_table(schema, min(rows, MOST_ROWS), generator(random_state))
    plans = [
        _run(
            schema, indices, rows=rows, loss=loss, left=1 - domain_budget if open_columns else 1.0, neighbors=neighbors,
            mechanism=mechanism or Automatic(), max_rows_per_unit=max_rows_per_unit, random_state=random_state,
            assumed=assumed,
        )
        for loss in losses
    ]  # fmt: skip
    return plans if isinstance(epsilon, Sequence) else plans[0]


def _run(
    schema: Schema,
    indices: dict[str, GridIndices],
    *,
    rows: int,
    loss: PrivacyLoss,
    left: float,
    neighbors: str,
    mechanism: Any,
    max_rows_per_unit: int,
    random_state: int,
    assumed: tuple[str, ...],
) -> Plan:
    """Run the mechanism on a simulated table, and compare what comes out with what went in."""
    simulated = len(next(iter(indices.values())))
    table = TableFormat.default(schema).build(schema, {name: decode(c, indices[name]) for name, c in schema.items()})
    unit = UNIT if max_rows_per_unit > 1 else None
    if unit is not None:
        table[unit] = np.arange(simulated) // max_rows_per_unit
    clock = _Clock()
    if hasattr(mechanism, "on_progress"):
        mechanism = replace(mechanism, on_progress=clock)
    scaled = _scaled(loss.fraction(left) if left < 1 else loss, rows / simulated)
    with Curator(
        table, schema=schema, budget=scaled, neighbors=neighbors, privacy_unit=unit, max_rows_per_unit=max_rows_per_unit
    ) as curator:
        release: Release[Any] = mechanism.release(curator.open_account(), random_state=random_state)
    clock.enter("drawing rows")
    drawn = release.model.sample_indices(simulated, generator(random_state))
    stages = clock.stages()
    stages["reading"] += SECONDS_A_VALUE * (rows - simulated) * len(schema)
    return _compared(
        domain_of(release.model.schema), indices, drawn, assumed=assumed,
        rows=rows, columns=len(schema), neighbors=neighbors,
        epsilon=getattr(loss, "epsilon", math.nan), delta=getattr(loss, "delta", 0.0),
        mechanism=release.mechanism, why=_why(release.mechanism, automatic=isinstance(mechanism, Automatic)),
        seconds=sum(stages.values()), stages=stages, memory_mb=(BYTES_AT_REST + BYTES_A_VALUE * rows * len(schema)) / 1e6,
    )  # fmt: skip


def _compared(domain: Domain, indices: dict[str, GridIndices], drawn: dict[str, GridIndices], **known: Any) -> Plan:
    """Complete a plan by the errors of drawn rows."""
    real, synthetic = domain.codes(indices), domain.codes(drawn)
    rng = generator(0)
    shuffled = np.column_stack([rng.permutation(synthetic[:, j]) for j in range(len(domain))])
    orders = range(1, min(3, len(domain)) + 1)
    errors = {order: _distances(real, synthetic, domain.shape, order) for order in orders}
    independent = {order: _distances(real, shuffled, domain.shape, order).error for order in orders}
    pairs = errors[min(2, len(domain))]
    return Plan(
        **known,
        errors={order: found.error for order, found in errors.items()},
        independent=independent,
        by_column={name: _distance(real, synthetic, domain.shape, (j,)).error for j, name in enumerate(domain.names)},
        like_rows=round((pairs.sample / max(pairs.error, 1e-9)) ** 2),
        advice=_advice(known["epsilon"], known["rows"], errors, independent),
    )


def _assumed(column: Column) -> Column:
    """Return a column with some bounds or levels where they are open."""
    if column.is_complete:
        return column
    if column.labelled:
        return replace(column, levels=tuple(range(ASSUMED_LEVELS)))
    low, high = (0, ASSUMED_RANGE)
    each = 10**6 if column.temporal else 1
    return column.with_bounds(low * each, high * each)


def _assumptions(schema: Schema) -> tuple[str, ...]:
    """Return what a plan takes for granted of a schema, in sentences."""
    levels = [name for name in schema.undeclared if schema[name].labelled]
    bounds = [name for name in schema.undeclared if not schema[name].labelled]
    lines = []
    if schema.unreviewed:
        lines.append(f"bounds and levels as drafted of what is not reviewed yet: {_some(schema.unreviewed)}")
    if levels:
        lines.append(f"{ASSUMED_LEVELS} levels of what is to be discovered: {_some(levels)}")
    if bounds:
        lines.append(f"well-found bounds of what is to be discovered: {_some(bounds)}")
    return tuple(lines)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMES]) + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")


class _Clock:
    """Notes when each stage begins."""

    def __init__(self) -> None:
        self.begun = [("reading", time.process_time())]

    def __call__(self, progress: Progress) -> None:
        self.enter(progress.stage)

    def enter(self, stage: str) -> None:
        self.begun.append((stage, time.process_time()))

    def stages(self) -> dict[str, float]:
        """Return the seconds of each stage, now that the last one ends."""
        self.enter("")
        return {stage: after - before for (stage, before), (_, after) in itertools.pairwise(self.begun)}


def _scaled(loss: PrivacyLoss, growth: float) -> PrivacyLoss:
    """Return the loss at which fewer rows have the signal over noise of more."""
    if growth <= 1:
        return loss
    match loss:
        case PureDP(epsilon):
            return PureDP(epsilon * growth)
        case ApproxDP():
            account = gaussian_account(loss)
            return GaussianDP(account.mu * growth) if isinstance(account, GaussianDP) else loss
        case _:
            return loss


def _distances(real: Codes, synthetic: Codes, shape: tuple[int, ...], order: int) -> Distances:
    cliques = [c for c in itertools.combinations(range(len(shape)), order) if table_size(shape, c) <= MOST_CELLS]
    chosen = generator(0).permutation(len(cliques))[:TABLES]
    found = np.array([_distance(real, synthetic, shape, cliques[i]) for i in chosen])
    return Distances(*found.mean(axis=0).tolist())


def _distance(real: Codes, synthetic: Codes, shape: tuple[int, ...], clique: tuple[int, ...]) -> Distances:
    p, q = (contingency(codes, shape, clique) / len(codes) for codes in (real, synthetic))
    return Distances(float(np.abs(p - q).sum()) / 2, float(np.sqrt(p * (1 - p) / (2 * math.pi)).sum()))


def _why(mechanism: str, *, automatic: bool) -> str:
    if not automatic:
        return "as you asked"
    if mechanism == "adaptive marginals":
        return "a table of several kinds of columns, or rich in rows for its budget"
    return "a table of numbers that is small for its budget: averages of smooth functions say more than histograms"


def _advice(epsilon: float, rows: int, errors: dict[int, Distances], independent: dict[int, float]) -> tuple[str, ...]:
    lines = []
    if 2 in errors and errors[2].error > USEFUL * independent[2]:
        lines.append(
            f"at ε = {epsilon:g} and {rows:,} rows nothing beyond one-way marginals can be learned: relations between "
            "columns will look weaker than they are"
        )
    if errors[1].error > 0.1:
        lines.append(
            f"at ε = {epsilon:g} even single columns will be off by more than 10 %: use more rows, coarser columns or more "
            "budget"
        )
    if epsilon > 5:
        lines.append("ε above 5 is a weak promise; see the attacker's odds in the receipt")
    lines.append(
        "errors are those of a dry run on a simulated table of this schema, some of whose columns hang together closely and "
        "some not at all; yours may be easier or harder"
    )
    return tuple(lines)
