"""`plan`: runs the mechanism with the real budget on simulated rows, where its error is known exactly.

No private row is read, so a plan costs no budget and can be repeated.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betainc, betaincinv, ndtr

from synthdp.arrays import Clique, Codes, FloatArray, GridIndices
from synthdp.checks import check_whole
from synthdp.curator import Curator
from synthdp.domain.domain import Domain, domain_of
from synthdp.domain.encoder import decode, encode
from synthdp.domain.grid import grid_of
from synthdp.measurements import Measurements
from synthdp.mechanisms.adaptive.adaptive_marginals import AdaptiveMarginals
from synthdp.mechanisms.adaptive.optimum import optimum_of
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.mechanisms.automatic import Automatic
from synthdp.mechanisms.column_histograms import OneWayTree
from synthdp.mechanisms.preflight import account_of, discovery_part, refusal_costs, takes
from synthdp.mechanisms.survey_weights import check_weights, measure_weights, weights_of, with_weight
from synthdp.mechanisms.workload import Workload, workload_of
from synthdp.planning.plan import POOR, USEFUL, Plan, Plans
from synthdp.planning.power import power_of
from synthdp.privacy.budget import COUNT_SHARE
from synthdp.privacy.calibration import THRESHOLDS_SHARE, gaussian_account
from synthdp.privacy.loss import LARGE_EPSILON, ZCDP, ApproxDP, GaussianDP, PrivacyLoss, PureDP, loss_of
from synthdp.privacy.neighbors import Adjacency, Neighbors, neighbors_named
from synthdp.progress import Progress, ProgressCallback, silent
from synthdp.queries.contingency import table_size
from synthdp.queries.marginals import count_tables
from synthdp.queries.protocol import LinearQueries
from synthdp.randomness import Generator, generator
from synthdp.release import Release
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.column import Interval
from synthdp.schema.columns import Column
from synthdp.schema.schema import DraftedSchema, Schema
from synthdp.tables.dataframe import FrameSource
from synthdp.tables.format import TableFormat

LOADINGS = (0.95, 0.9, 0.7, 0.1)
"""Correlations of the simulated columns, in turn, with their common factor, which explains .90, .81, .49 and .01 of
their variance.  Strong and weak relations both occur, so that a plan suits many tables.  A convention."""

FACTORS = 2
"""Number of common factors of the simulated table: columns of different factors are independent, as in real tables many
are.  A convention."""

ZIPF = 2.4
"""Exponent of the simulated Zipf frequencies of categories.  More makes the later categories rarer; less makes all
alike, which few tables are.  A convention."""

SHAPE = (1.2, 3.3)
"""Parameters of the beta distribution of simulated numbers between their bounds: skewed, most in the lower third.  A
convention: with (1, 3) predicted errors of six tables come as near to the measured errors."""

AT_LOWEST = 0.95
"""Fraction of rows at the lowest value, in every third simulated numeric column, as in amounts that few people have.
Tuned: predicted three-way errors of six tables at epsilon .1, 1 and 10 are off by a factor of 1.5 (root mean square).
Without such columns the factor is 1.9 (benchmarks/utility/plans.py)."""

MISSING = 0.06
"""Fraction of missing values in simulated columns that may have some.  More would leave fewer values to relate to
others.  A convention."""


def simulated_table(schema: Schema, rows: int, rng: Generator) -> dict[str, GridIndices]:
    """Return simulated rows for a dry run, (rows,) grid points for each column.

    The rows depend on the schema and the seed alone, never on private rows.
    """
    factors = rng.standard_normal((rows, FACTORS))
    indices: dict[str, GridIndices] = {}
    numbers = 0
    for j, (name, column) in enumerate(schema.items()):
        loading = LOADINGS[j % len(LOADINGS)]
        own = rng.standard_normal(rows)
        latent = loading * factors[:, (j // 2) % FACTORS] + math.sqrt(1 - loading**2) * own
        numbers += grid_of(column).ordered
        mass = AT_LOWEST if grid_of(column).ordered and numbers % 3 == 0 else 0.0
        indices[name] = _column(column, ndtr(latent), mass, rng)
    return indices


def _column(column: Column, uniform: FloatArray, mass: float, rng: Generator) -> GridIndices:
    """Return (rows,) grid points of one simulated column, from uniform numbers, (rows,).

    Numbers follow a beta distribution with extra mass at the lowest value, categories a Zipf distribution.  Nullable
    columns get some missing values.
    """
    grid = grid_of(column)
    if grid.ordered:
        above = np.maximum(uniform - mass, 0.0) / (1 - mass)
        if grid.regular < len(uniform):  # the law at every border takes less time than its inverse at every row
            chosen = np.searchsorted(betainc(*SHAPE, np.arange(1, grid.regular) / grid.regular), above, side="right")
        else:
            chosen = (betaincinv(*SHAPE, above) * grid.regular).astype(np.int64)
    else:
        weights = 1 / np.arange(1, grid.regular + 1) ** ZIPF
        steps = np.cumsum(weights / weights.sum())
        chosen = np.searchsorted(steps, uniform)
    chosen = np.minimum(chosen, grid.regular - 1)
    if grid.null is not None:
        chosen = np.where(rng.random(len(uniform)) < MISSING, grid.null, chosen)
    return np.asarray(chosen.astype(np.uint32))


MOST_ROWS = 40_000
"""Most simulated rows of a dry run.  A larger table is simulated with this many rows and more budget, so that the
signal-to-noise ratio is right.  A safety limit."""

TABLES, MOST_CELLS = 150, 300_000
"""Most marginals of each number of columns whose error is averaged, and most cells of one marginal.  A safety limit of
time."""

CELLS_AT_ONCE = 1 << 21
"""Cells of marginals that are compared in one block.  A safety limit of memory."""

SECONDS_A_VALUE = 1.7e-7
"""Seconds to read, count and draw one value, for rows in excess of the simulated rows, measured by
benchmarks/speed/flagship_scale.py."""

BYTES_AT_REST, BYTES_A_VALUE = 290e6, 18
"""Peak memory of the process in bytes: a fixed part, and a part per value of the table, as measured by
benchmarks/speed/flagship_scale.py and for Adult."""

ASSUMED_LEVELS, ASSUMED_RANGE = 30, 86_400 * 1_000
"""Assumed number of categories of an open column, and assumed width of its range in integers or seconds.  More would
predict larger errors.  A convention."""

PRICES = (0.7, 0.5, 0.35, 0.25, 0.15, 0.1)
"""Fractions of epsilon at which a fully declared schema is tried, to state what open columns cost.  More would state it
more exactly, and each takes a dry run.  A convention."""

MOST_NAMES = 10
"""Most columns that one line of assumptions names.  More would make the line long.  A convention."""

UNIT = "synthdp's unit of privacy"
"""Name of the column of privacy units in a simulated table."""


class Distances(NamedTuple):
    """Holds two measures of the distance of marginals from a table.

    The first is the mean total variation distance of the marginals.  The second is sqrt(k) times the expected
    distance of a random sample of k rows.
    """

    error: float
    sample: float


def plan(
    schema: Schema | DraftedSchema,
    *,
    rows: int,
    epsilon: float | Sequence[float] = 1.0,
    delta: float = 1e-9,
    neighbors: str = "add_remove",
    mechanism: Any = None,
    max_rows_per_unit: int = 1,
    domain_budget: float = 0.3,
    weight: str | None = None,
    weight_bounds: tuple[float, float] | None = None,
    random_state: int = 0,
    on_progress: ProgressCallback = silent,
) -> Plan | Plans:
    """Return the expected cost and accuracy of a release of one table; see `synthdp.planning.database_plan.plan`.

    Raises
    ------
    ParameterError, SchemaError
        If a setting is out of range.
    """
    check_whole("rows", rows)
    unreviewed: tuple[str, ...] = ()
    if isinstance(schema, DraftedSchema):
        unreviewed, schema = schema.unreviewed, schema.schema
    schema = with_weight(schema, weight, weight_bounds)
    check_weights(mechanism or Automatic(), schema)
    assumed = assumptions_of(schema, unreviewed)
    whole = schema.replace({name: assumed_column(column) for name, column in schema.items()})
    left_open = {name: schema[name] for name in schema.undeclared}
    losses = [loss_of(one, delta) for one in (epsilon if isinstance(epsilon, Sequence) else [epsilon])]
    outside = pairs_outside(getattr(mechanism, "workload", None), whole.names)
    run = partial(
        _run, whole, simulated_table(whole, min(rows, MOST_ROWS), generator(random_state)), rows=rows,
        neighbors=neighbors, mechanism=mechanism or Automatic(), max_rows_per_unit=max_rows_per_unit,
        random_state=random_state, assumed=assumed, domain_budget=domain_budget, outside=outside,
    )  # fmt: skip
    plans = Plans()
    for loss in losses:
        on_progress(Progress(stage="dry run", done=len(plans), total=len(losses)))
        one = run(loss=loss, left_open=left_open)
        if one.other_pairs is not None:
            alike = run(loss=loss, left_open=left_open, mechanism=replace(mechanism, workload=None), outside=outside)
            one = replace(one, advice=(cost_of_workload(one, alike, outside, whole.names), *one.advice))
        if left_open:
            opened = whole.replace(left_open)
            refused = refusal_costs(loss, mechanism or Automatic(), opened, domain_budget)
            prices = [getattr(cost, "epsilon", math.nan) for cost in refused]
            if neighbors_named(neighbors) is Neighbors.REPLACE_ONE:
                prices[0] = 0.0  # the number of rows is public there, so that nobody private was asked
            one = _priced(one, left_open, run, delta, refused=prices)
        plans.append(one)
    return plans if isinstance(epsilon, Sequence) else plans[0]


def _priced(
    found: Plan, left_open: Mapping[str, Column], run: Callable[..., Plan], delta: float, *, refused: Sequence[float]
) -> Plan:
    """Return a plan completed by the cost of open columns: for a release, and for its refusal.

    The cost of a release is the smallest of a few tried epsilons at which a fully declared schema is as accurate.  If
    no tried epsilon is enough, the cost is the plan's own epsilon.  ``refused`` holds the epsilon spent by a refusal
    after the number of rows, and by a refusal after the whole discovery.
    """
    order, alike = min(2, found.columns), found.epsilon
    for part in PRICES:
        declared = run(loss=loss_of(part * found.epsilon, delta), left_open={})
        if declared.errors[order] > found.errors[order]:
            break
        alike = part * found.epsilon
    which = "this column" if len(left_open) == 1 else f"these {len(left_open)} columns"
    price = "less than" if alike == found.epsilon else "about as much as"
    lower = alike if alike < found.epsilon else PRICES[0] * found.epsilon
    line = (
        f"to leave {which} open costs {price} lowering ε from {found.epsilon:.3g} to {lower:.3g}; declare what is public "
        f"of them: {_some(list(left_open))}"
    )
    early, late = refused
    refusal = (
        f'with undiscovered="refuse", a refusal costs ε = {early:.3g} if noise hides too much of so few rows, or '
        f"ε = {late:.3g} if it hides a column; the rest is given back"
    )
    return replace(found, like_epsilon=alike, refused_for=(early, late), advice=(line, refusal, *found.advice))


def _run(
    schema: Schema,
    indices: dict[str, GridIndices],
    *,
    rows: int,
    loss: PrivacyLoss,
    left_open: Mapping[str, Column],
    domain_budget: float,
    neighbors: str,
    mechanism: Any,
    max_rows_per_unit: int,
    random_state: int,
    assumed: tuple[str, ...],
    outside: Sequence[Clique] = (),
) -> Plan:
    """Return the plan of one loss: the mechanism's errors in a run on a simulated table, which needs no private row."""
    simulated = len(next(iter(indices.values())))
    table = TableFormat.default(schema).build(schema, {name: decode(c, indices[name]) for name, c in schema.items()})
    unit = UNIT if max_rows_per_unit > 1 else None
    if unit is not None:
        table[unit] = np.arange(simulated) // max_rows_per_unit
    clock = _Clock()
    if hasattr(mechanism, "on_progress"):
        mechanism = replace(mechanism, on_progress=clock)
    scaled, opened = _scaled(loss, rows / simulated, thresholds=bool(left_open)), schema.replace(left_open)
    with Curator(
        table, schema=opened, budget=scaled, neighbors=neighbors, privacy_unit=unit, max_rows_per_unit=max_rows_per_unit
    ) as curator:
        weighed = weights_of(opened)
        account = account_of(curator, mechanism, opened) if left_open or weighed else curator.open_account()
        if left_open:
            part = discovery_part(account.budget, domain_budget)
            found = account.discover(spend=part, takes=lambda rest: takes(mechanism, rest))
            hidden, coarse = found.hidden, found.is_coarse and not found.hidden
            assumed = (*assumed, *[f"noise hides what is to be discovered of: {_some(hidden)}"] * bool(hidden))
            assumed = (*assumed, *["noise hides what many of the rows hold: the release will warn of that"] * coarse)
        measure_weights(account)
        release: Release[Any] = mechanism.release(account, random_state=random_state)
    clock.enter("drawing rows")
    drawn = release.model.sample_indices(simulated, generator(random_state))
    output = release.model.schema
    if left_open:
        output, drawn = schema.part(output), _coded_anew(drawn, output, schema)
    stages = clock.stages()
    stages["reading"] += SECONDS_A_VALUE * (rows - simulated) * len(schema)
    return _compared(
        domain_of(output), indices, drawn, outside=() if left_open else outside, assumed=assumed,
        rows=rows, columns=len(schema), neighbors=neighbors,
        epsilon=getattr(loss, "epsilon", math.nan), delta=getattr(loss, "delta", 0.0),
        mechanism=release.mechanism, why=_why(release.mechanism, automatic=isinstance(mechanism, Automatic)),
        best_unbiased=None if left_open else _best_unbiased(schema, loss, curator.adjacency, rows=rows),
        noise=noise_of_counts(release.measurements, growth=max(1.0, rows / simulated)),
        power=power_of(release.output, release.measurements) if isinstance(release.output, SyntheticModel) else {},
        seconds=sum(stages.values()), stages=stages, memory_mb=(BYTES_AT_REST + BYTES_A_VALUE * rows * len(schema)) / 1e6,
    )  # fmt: skip


def noise_of_counts(measured: Iterable[Measurements], *, growth: float = 1.0) -> dict[int, float]:
    """Return the noise stddev of one- and two-column marginals in a release, in rows, by number of columns.

    For one column the smallest stddev is returned, after counts of the same bins are averaged by precision.  For two
    columns the median is returned.  A number without tables is left out.

    Parameters
    ----------
    measured
        The noisy answers.
    growth
        Factor from the simulated to the real number of rows; noise grows by it at the same signal-to-noise ratio.
    """
    alone, pairs = defaultdict[tuple[str, bytes], float](float), list[float]()
    for answers in measured:
        for table in answers.tables:
            if len(table.clique) == 1 and answers.domain is not None:
                axis = answers.domain.axes[table.clique[0]]
                alone[axis.name, axis.starts.tobytes() + axis.cells.tobytes()] += table.stddev**-2
            elif len(table.clique) == 2:
                pairs.append(table.stddev)
    least = {1: growth * max(alone.values()) ** -0.5} if alone else {}
    return least | ({2: growth * float(np.median(pairs))} if pairs else {})


def _best_unbiased(schema: Schema, loss: PrivacyLoss, adjacency: Adjacency, *, rows: int) -> float | None:
    """Return the least mean total variation distance of unbiased answers to all three-column marginals, 0 to 1.

    For a table of fewer columns, the marginal is of all columns.  The closed form needs Gaussian noise and a domain
    whose cells can be enumerated; otherwise the result is None.  Compared with a plan's error, the
    result shows how much the model gains over plain noisy counts.
    """
    budget = gaussian_account(loss) if isinstance(loss, ApproxDP) and loss.delta > 0 else loss
    if not isinstance(budget, (GaussianDP, ZCDP)):
        return None
    axes = (OneWayTree().first_axis(name, column) for name, column in schema.items())
    found = optimum_of(
        [int(axis.releasable.sum()) for axis in axes], Workload(), BudgetAllocation(budget, adjacency),
        total=rows, most_cells=AdaptiveMarginals().listed.max_cells,
    )  # fmt: skip
    return None if found is None else found.error


def _coded_anew(drawn: dict[str, GridIndices], found: Schema, schema: Schema) -> dict[str, GridIndices]:
    """Return rows drawn under a discovered schema as grid points, (rows,) by column, of the schema of the simulation.

    The drawn rows can then be compared with the simulated rows.
    """
    rows = TableFormat.default(found).build(found, {name: decode(c, drawn[name]) for name, c in found.items()})
    (block,) = FrameSource(rows).blocks({name: schema[name] for name in found})
    return {name: encode(schema[name], block[name]) for name in found}


def _compared(
    domain: Domain,
    indices: dict[str, GridIndices],
    drawn: dict[str, GridIndices],
    *,
    outside: Sequence[Clique] = (),
    **known: Any,
) -> Plan:
    """Return a plan completed by the errors of the drawn rows, measured against the simulated rows.

    ``known`` holds the other fields of the plan.
    """
    real, synthetic = domain.codes(indices), domain.codes(drawn)
    rng = generator(0)
    shuffled = np.stack([rng.permutation(synthetic[:, j]) for j in range(len(domain))]).T
    errors, independent = {}, {}
    for order in range(1, min(3, len(domain)) + 1):
        cliques = _averaged(domain.shape, order)
        found = _distances(real, (synthetic, shuffled), domain.shape, cliques)
        errors[order], independent[order] = Distances(*found[0].mean(axis=0).tolist()), float(found[1][:, 0].mean())
    pairs = errors[min(2, len(domain))]
    left_out = [one for one in outside if table_size(domain.shape, one) <= MOST_CELLS]
    others = _distances(real, (synthetic,), domain.shape, left_out)[0][:, 0]
    each = _distances(real, (synthetic,), domain.shape, [(j,) for j in range(len(domain))])[0][:, 0]
    return Plan(
        **known,
        other_pairs=float(np.mean(others)) if left_out else None,
        errors={order: found.error for order, found in errors.items()},
        independent=independent,
        by_column=dict(zip(domain.names, each.tolist(), strict=True)),
        like_rows=round((pairs.sample / max(pairs.error, 1e-9)) ** 2),
        advice=(*_wide_ranges(domain), *_advice(known["epsilon"], known["rows"], errors, independent)),
    )


def assumed_column(column: Column) -> Column:
    """Return a column with assumed bounds or categories if its own are open; a complete column is returned as it is."""
    if column.is_complete:
        return column
    if column.labelled:
        return replace(column, levels=tuple(range(ASSUMED_LEVELS)))
    low, high = (0, ASSUMED_RANGE)
    each = 10**6 if column.temporal else 1
    return column.with_bounds(low * each, high * each)


def assumptions_of(schema: Schema, unreviewed: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the assumptions of a plan on open or unreviewed columns and survey weights, one sentence each."""
    levels = [name for name in schema.undeclared if schema[name].labelled]
    bounds = [name for name in schema.undeclared if not schema[name].labelled]
    lines = []
    if unreviewed:
        lines.append(f"bounds and levels as drafted of what is not reviewed yet: {_some(unreviewed)}")
    if levels:
        lines.append(f"{ASSUMED_LEVELS} levels of what is to be discovered: {_some(levels)}")
    if bounds:
        lines.append(f"well-found bounds of what is to be discovered: {_some(bounds)}")
    lines += [
        f"{COUNT_SHARE:.0%} of the budget for what rows of each class of weight {name!r} stand for on average"
        for name in weights_of(schema)
    ]
    return tuple(lines)


def _some(names: Sequence[str]) -> str:
    """Return the first `MOST_NAMES` names as a text, and the number of further names."""
    return ", ".join(names[:MOST_NAMES]) + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")


class _Clock:
    """Records the CPU time at which each stage of a dry run begins."""

    def __init__(self) -> None:
        self.begun = [("reading", time.process_time())]

    def __call__(self, progress: Progress) -> None:
        self.enter(progress.stage)

    def enter(self, stage: str) -> None:
        """Record that a stage begins now, in CPU seconds, for the plan's run times by stage."""
        self.begun.append((stage, time.process_time()))

    def stages(self) -> dict[str, float]:
        """Return the CPU seconds of each stage; the last stage ends now."""
        self.enter("")
        return {stage: after - before for (stage, before), (_, after) in itertools.pairwise(self.begun)}


def _scaled(loss: PrivacyLoss, growth: float, *, thresholds: bool) -> PrivacyLoss:
    """Return the loss at which fewer simulated rows have the signal-to-noise ratio of the real number of rows.

    ``growth`` is the real number of rows divided by the simulated one.  Noise relative to rows is then the same, up to
    rounding.  The loss is unchanged at a growth of 1 or less, and for other definitions of privacy.
    """
    if growth <= 1:
        return loss
    match loss:
        case PureDP(epsilon):
            return PureDP(epsilon * growth)
        case ApproxDP():
            account = gaussian_account(loss, thresholds=THRESHOLDS_SHARE if thresholds else 0.0)
            return GaussianDP(account.mu * growth, account.delta)
        case _:
            return loss


def _averaged(shape: tuple[int, ...], order: int) -> list[Clique]:
    """Return at most `TABLES` random marginals of ``order`` columns, each of at most `MOST_CELLS` cells.

    A plan states the mean of their errors.  The choice is seeded, so that plans can be compared.
    """
    cliques = [c for c in itertools.combinations(range(len(shape)), order) if table_size(shape, c) <= MOST_CELLS]
    return [cliques[i] for i in generator(0).permutation(len(cliques))[:TABLES]]


def _distances(
    real: Codes, others: Sequence[Codes], shape: tuple[int, ...], cliques: Sequence[Clique]
) -> list[FloatArray]:
    """Return an array (cliques, 2) for each table of ``others``: total variation distances from the real marginals.

    The first column is the distance.  The second is sqrt(k) times the expected distance of a random sample of k rows,
    for comparison.
    """
    found: list[list[tuple[float, float]]] = [[] for _ in others]
    sizes = [table_size(shape, clique) for clique in cliques]
    of = np.cumsum(sizes) // CELLS_AT_ONCE
    for number in np.unique(of).tolist():
        some = np.flatnonzero(of == number).tolist()
        few, ends = [cliques[i] for i in some], np.cumsum([sizes[i] for i in some])[:-1]
        p, *drawn = (np.split(count_tables(one, shape, few) / len(one), ends) for one in (real, *others))
        sampled = [float(np.sqrt(one * (1 - one) / (2 * math.pi)).sum()) for one in p]
        for each, q in zip(found, drawn, strict=True):
            each += [(float(np.abs(a - b).sum()) / 2, part) for a, b, part in zip(p, q, sampled, strict=True)]
    return [np.array(each, np.float64).reshape(-1, 2) for each in found]


def _why(mechanism: str, *, automatic: bool) -> str:
    """Return the reason for a mechanism, as a clause for the plan."""
    if not automatic:
        return "as you asked"
    if mechanism == "adaptive marginals":
        return "suited to columns of several kinds, and to tables with many rows"
    return "a table of numbers that is small for its budget: averages of smooth functions say more than histograms"


MOST_NAMED = 5
"""Most columns that one sentence names.  More would bury the advice behind them.  A convention."""

WIDE = 10_000.0
"""Width of a range of real numbers above which a plan advises to declare decimals.  Wider ranges are usually mostly
empty, and bins then do not separate hundredths.  Less would give this advice for ranges that bins resolve.  A
tolerance."""


def _wide_ranges(domain: Domain) -> tuple[str, ...]:
    """Return advice on columns of real numbers whose range is wider than `WIDE`, at most one sentence."""
    wide = [
        axis.name
        for axis in domain.axes
        if isinstance(found := axis.column.support(), Interval) and found.upper - found.lower > WIDE
    ]
    if not wide:
        return ()
    named = ", ".join(map(repr, wide[:MOST_NAMED]))
    said = (
        f"99 % of a range like that of column {named} is usually empty: declare decimals= or step=, and numbers "
        "near 0 are told apart however wide it is; without, it has a million places of one width"
    )
    return (said,)


def _advice(epsilon: float, rows: int, errors: dict[int, Distances], independent: dict[int, float]) -> tuple[str, ...]:
    """Return the warnings of a plan, as sentences, and a note on the dry run.

    Warnings concern unlearned relations, inaccurate columns and a large epsilon.
    """
    lines = []
    if 2 in errors and errors[2].error > USEFUL * independent[2]:
        lines.append(
            f"at ε = {epsilon:g} and {rows:,} rows nothing beyond one-way marginals can be learned: relations between "
            "columns will look weaker than they are"
        )
    if errors[1].error > POOR:
        lines.append(
            f"at ε = {epsilon:g} even single columns will be off by more than 10 %: use more rows, coarser columns or more "
            "budget"
        )
    if epsilon > LARGE_EPSILON:
        lines.append(f"ε above {LARGE_EPSILON:g} is a weak promise; see the attacker's odds in the receipt")
    lines.append(
        "errors come from a dry run on simulated rows of this schema, with some strongly associated and some independent "
        "columns; your table may be easier or harder"
    )
    return tuple(lines)


MOST_PAIRS = 6
"""Most pairs of columns that one sentence names.  More would make the sentence long.  A convention."""


def pairs_outside(workload: Any, names: Sequence[str]) -> tuple[Clique, ...]:
    """Return pairs of column positions outside a workload, whose errors a plan states; empty without a preference."""
    if workload is None or isinstance(workload, LinearQueries):
        return ()
    wished = workload_of(workload, names)
    return tuple(pair for pair in itertools.combinations(range(len(names)), 2) if not wished.wishes(pair))


def cost_of_workload(found: Plan, alike: Plan, outside: Sequence[Clique], names: Sequence[str]) -> str:
    """Return a sentence on how far the pairs of columns outside a workload are off, with the workload and without it.

    Both errors are rows of 100 (mean total variation distance), by which the user sees what the workload costs these
    pairs.  The first `MOST_PAIRS` pairs are named.

    Parameters
    ----------
    found, alike
        Plans with the workload and without it.
    outside
        Pairs of column positions outside the workload.
    names
        Names of all columns.
    """
    told, without = (100 * (one.other_pairs or 0.0) for one in (found, alike))
    some = ", ".join(" × ".join(names[j] for j in pair) for pair in outside[:MOST_PAIRS])
    more = f" and {len(outside) - MOST_PAIRS} more" if len(outside) > MOST_PAIRS else ""
    return (
        f"the workload leaves out {len(outside)} pairs of columns, which are expected to be off by {told:.2g} of 100 "
        f"rows; without the workload by {without:.2g}: {some}{more}"
    )
