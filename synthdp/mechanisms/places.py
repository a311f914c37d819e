"""Places within places: a column's levels are measured with every other column, at each step of its hierarchy.

These tables are measured in addition to the plan's other tables.  Afterwards `fit.top_down` makes the noisy counts
whole numbers that add up at every step.  The model and its rows are made to agree with these numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from synthdp.arrays import BoolArray, Clique, FloatArray, IntArray
from synthdp.curator import Curator
from synthdp.distribution.distribution import Distribution
from synthdp.distribution.junction_tree import TreePlanner
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError
from synthdp.fit.out_of_domain import OutOfDomain
from synthdp.fit.proportional_step import best_ridge
from synthdp.fit.raking import raked_exactly
from synthdp.fit.top_down import NoisyPlaces, PlaceCounts, descended, divided
from synthdp.mechanisms.adaptive.knowledge import Knowledge, PlaceLevel
from synthdp.mechanisms.adaptive.measuring import measure_each
from synthdp.mechanisms.adaptive.screening import MAX_PAIR_CELLS
from synthdp.mechanisms.workload import Workload
from synthdp.queries.contingency import NoisyTable, table_size
from synthdp.randomness import Generator
from synthdp.sampling.exact_tables import ExactTable, exact_counts
from synthdp.schema.schema import Schema


def check_places(name: str, schema: Schema) -> None:
    """Raise an error if a column cannot be the setting ``places``, by whose levels every other column is counted.

    Raises
    ------
    ParameterError
        If there is no such column, its levels are not declared, or there is no other column.
    """
    if not isinstance(name, str) or name not in schema:
        raise ParameterError(f"places: there is no column {name!r}; the schema has: {', '.join(schema)}")
    if not schema[name].labelled or not schema[name].is_complete:
        raise ParameterError(f"places: the levels of column {name!r} must be declared: Categorical(levels, groups=...)")
    if len(schema) < 2:
        raise ParameterError(
            "places needs at least one other column in the schema, together with which each place is counted"
        )


def steps_of(axis: Axis) -> list[IntArray]:
    """Return the group of each of a column's cells, (cells,), at every step: coarsest first, single cells last.

    Places are counted at each of these steps.  A declared step of one group, or of as many groups as cells, is left
    out, since its counts would add nothing.

    Parameters
    ----------
    axis
        Axis of a column with levels, in which each level has its own cell.
    """
    start, found, regular = axis.first_points, [], axis.grid.regular
    for step in axis.column.starts_of_groups():
        group = np.where(start < regular, np.searchsorted(np.array(step), start, side="right"), regular + start)
        whole = np.asarray(np.unique(group, return_inverse=True)[1], np.int64)
        if 1 < whole.max() + 1 < axis.size:
            found.append(whole)
    return [*found, np.arange(axis.size)]


def measure_places(
    known: Knowledge, account: Curator, workload: Workload, *, place: int, tree_cells: float
) -> Knowledge:
    """Measure the tables of places by every other column, at each step of the places' hierarchy.

    Returns the plan's state with these tables.  Costs half of the remaining budget, for the curator's neighbours; the
    other half is left for other relations.  If no pair with the column of places has weight and few enough cells, it
    costs nothing.  The steps divide this cost so that the noise, summed over the places of all steps, is least.

    Parameters
    ----------
    known
        The noisy answers and estimates so far, and the remaining budget.
    account
        The curator that answers.
    workload
        The workload; columns of weight 0 are not measured.
    place
        Position of the column of places.
    tree_cells
        Most cells of the junction tree.
    """
    share, shape = known.left.share / 2, known.domain.shape
    pairs: list[Clique] = [(min(j, place), max(j, place)) for j in range(len(shape)) if j != place]
    pairs = [pair for pair in pairs if workload.weight(pair) > 0 and table_size(shape, pair) <= MAX_PAIR_CELLS]
    steps = steps_of(known.domain.axes[place])
    if not pairs:
        return known
    margins = known.margins
    of_steps = known.left.shares_of_least_noise(share, [int(groups.max()) + 1 for groups in steps])
    for number, (groups, of_step) in enumerate(zip(steps, of_steps, strict=True)):
        finest = number == len(steps) - 1
        axes = known.domain.axes
        domain = known.domain if finest else Domain((*axes[:place], axes[place].merged(groups), *axes[place + 1 :]))
        weights = [workload.weight(pair) * table_size(domain.shape, pair) for pair in pairs]
        shares = known.left.shares_of_least_noise(of_step, weights)
        known, found = measure_each(
            known, account, domain, dict(zip(pairs, shares, strict=True)), step=f"places, step {number + 1}"
        )
        tables = tuple(table for answers in found for table in answers.tables)
        known = replace(known, places=(*known.places, PlaceLevel(groups=groups, tables=tables)))
    planner, tree = TreePlanner(shape), list[Clique]()
    for table in known.places[-1].tables:
        expected = np.outer(*(margins[j] for j in table.clique)).ravel() / max(float(margins[0].sum()), 1.0)
        known = known.with_table(table, ridge=best_ridge(table.counts, expected, table.stddev))
        if planner.cells([*known.zeros, *known.tree, *tree, table.clique]) <= tree_cells:
            tree.append(table.clique)
    return known.with_tree(tree)


def with_exact_places(
    known: Knowledge,
    model: Distribution,
    workload: Workload,
    exact: Sequence[ExactTable],
    *,
    place: int,
    rng: Generator,
) -> tuple[Distribution, tuple[ExactTable, ...]]:
    """Return the model made to agree with whole-number tables of places, and all tables for synthetic rows to reproduce.

    Parameters
    ----------
    known
        The noisy answers and estimates so far.
    model
        The model fitted to all answers.
    workload
        The workload, which decides by what column the tables of places are divided further, if by any.
    place
        Position of the column of places.
    exact
        Public totals, which the model and the rows reproduce too, unless a table of places has the same columns.
    rng
        Random generator of the rows that the model is fitted with.
    """
    pairs, ours = exact_places(known, model, workload, place=place)
    others = [one for one in exact if one.clique not in {table.clique for table in pairs}]
    tables = [(one.clique, one.counts.astype(np.float64)) for one in (*others, *pairs)]
    found = raked_exactly(model, tables, zeros=known.zeros, rng=rng, rows=known.total)
    return found, (*others, *ours)


def exact_places(
    known: Knowledge, model: Distribution, workload: Workload, *, place: int
) -> tuple[tuple[ExactTable, ...], tuple[ExactTable, ...]]:
    """Return whole-number tables of the finest places that agree with whole-number counts at every coarser step.

    The coarser places and the whole table get whole numbers first; each step then divides the step above.  So synthetic
    rows have consistent counts of places at all steps.  Both tuples are empty if no places were measured.

    Parameters
    ----------
    known
        The noisy answers and estimates so far.
    model
        The model fitted to all answers, which gives the one-ways of the whole table.
    workload
        The workload; see `divided_by`.
    place
        Position of the column of places.

    Returns
    -------
    For a model: the table of places alone, and the tables of places by each other column.  For synthetic rows: the same
    tables, each divided further by the column that `divided_by` names, if any.
    """
    if not known.places:
        return (), ()
    rows = max(1, round(known.total))
    others = [_other(table.clique, place) for table in known.places[-1].tables]
    whole = PlaceCounts(
        rows=np.array([rows]), tables={j: exact_counts(model.marginal((j,)), rows)[None, :] for j in others}
    )
    levels, above = [], np.zeros(known.domain.shape[place], np.int64)
    for one in known.places:
        levels.append(_noisy_places(known, one, above, place))
        above = one.groups
    finest = descended(whole, levels)[-1]
    alone = ExactTable(clique=(place,), counts=finest.rows)
    pairs = {j: _exact((place, j), table) for j, table in finest.tables.items()}
    by, three = divided_by(known, workload, place), dict[int, ExactTable]()
    if by in pairs and by is not None:
        relations = {j: _relation(model, by, j) for j in pairs if j != by}
        three = {j: _exact((place, by, j), table) for j, table in divided(finest, by, relations).items()}
    return (alone, *pairs.values()), (alone, *(three.get(j, table) for j, table in pairs.items()))


def divided_by(known: Knowledge, workload: Workload, place: int) -> int | None:
    """Return the column by which places are divided further: the column in most workload triples with places.

    ``None`` if the workload names no such triple, or the tables would have too many cells.
    """
    if workload.weights is None:
        return None
    wished = [set(clique) for clique, _ in workload.weights if place in clique and len(clique) == 3]
    found = [(sum(j in clique for clique in wished), j) for j in range(len(known.domain)) if j != place]
    most, column = max(found, key=lambda pair: (pair[0], -pair[1]))
    size = known.domain.shape[place] * known.domain.shape[column]
    return column if most > 0 and size * max(known.domain.shape) <= MAX_PAIR_CELLS else None


def _exact(columns: Clique, table: IntArray) -> ExactTable:
    """Return a table as an `ExactTable`, with its columns sorted and its counts flattened accordingly."""
    order = np.argsort(columns, kind="stable")
    return ExactTable(clique=tuple(sorted(columns)), counts=table.transpose(order).ravel())


def _relation(model: Distribution, by: int, other: int) -> FloatArray:
    """Return the model's joint probabilities of two columns, (values of ``by``, values of ``other``), with sum 1.

    Within places the two columns are related as in the whole table, since their relation was not measured per place.
    """
    table = model.marginal((min(by, other), max(by, other))).reshape([model.shape[j] for j in sorted((by, other))])
    return table if by < other else table.T


def _noisy_places(known: Knowledge, level: PlaceLevel, above: IntArray, place: int) -> NoisyPlaces:
    """Return the noisy rows of each place of one step, and its noisy tables with other columns, in-domain rows only.

    A place's rows are the mean, weighted by precision, of its one-way counts and of the sums of its tables.  ``above``
    is the place of the step above for each cell of the places' column.  ``place`` is the column's position.
    """
    count = int(level.groups.max()) + 1
    parents = np.zeros(count, np.int64)
    parents[level.groups] = above
    kept = known.kept
    kept[place] = np.bincount(level.groups, weights=kept[place], minlength=count) > 0
    ours = OutOfDomain(releasable=tuple(kept), rows=known.misfits, total=known.total)
    tables, possible = {}, {}
    one_way = known.one_way_tables[place]
    first = np.where(known.kept[place], one_way.counts, 0.0)
    sums = [np.bincount(level.groups, first)]
    variances = [one_way.stddev**2 * np.bincount(level.groups).mean()]
    for table in level.tables:
        j = _other(table.clique, place)
        counts = ours.remove(table)
        tables[j] = _with_finer(known, level.groups, _by_place(counts, place, count), counts.stddev, place, j)
        possible[j] = _possible(known, level.groups, kept, place, j)
        sums.append(np.asarray(tables[j][0].sum(axis=1), np.float64))
        variances.append(tables[j][1] ** 2 * int(kept[j].sum()))
    precisions = 1 / np.array(variances)
    rows = np.where(kept[place], np.average(sums, axis=0, weights=precisions), 0.0)
    return NoisyPlaces(parents=parents, rows=rows, kept=kept[place], tables=tables, possible=possible)


def _by_place(table: NoisyTable, place: int, count: int) -> FloatArray:
    """Return the noisy counts of places by another column, in rows, as a matrix with a row for each place, (count, k)."""
    return table.counts.reshape(count, -1) if table.clique[0] == place else table.counts.reshape(-1, count).T


def _with_finer(
    known: Knowledge, groups: IntArray, counts: FloatArray, stddev: float, place: int, other: int
) -> tuple[FloatArray, float]:
    """Return a step's noisy table averaged, by precision, with sums of finer tables over its places; and its stddev.

    The table is (places, k), of the column ``place`` of places by the column ``other``, and both results are in rows.
    ``groups`` holds the step's place of each finest place.  Public totals of places are an example of finer tables.
    """
    pooled, precision = counts * stddev**-2, stddev**-2
    finest = len(counts) == known.domain.shape[place]
    own = [one for one in known.places[-1].tables if finest]
    for table in known.tables:
        if table.clique == (min(place, other), max(place, other)) and not any(
            table.counts is one.counts for one in own
        ):
            clean = known.out_of_domain.remove(table)
            sums = np.zeros(counts.shape)
            np.add.at(sums, groups, _by_place(clean, place, len(groups)))
            weight = 1 / (clean.stddev**2 * len(groups) / len(counts))
            pooled, precision = pooled + sums * weight, precision + weight
    return np.asarray(pooled / precision), float(precision**-0.5)


def _possible(known: Knowledge, groups: IntArray, kept: Sequence[BoolArray], place: int, other: int) -> BoolArray:
    """Return which cells of a step's table of places by another column no rule forbids, (places, k).

    ``groups`` holds the step's place of each bin of the column ``place``.  ``other`` is the position of the other
    column.  ``kept`` is used for its number of places only.
    """
    fine = np.logical_and.outer(known.kept[place], known.kept[other])
    for clique, mask in known.zeros.items():
        if set(clique) <= {place, other}:
            shape = [known.domain.shape[j] for j in clique]
            allowed = mask.reshape(shape)
            if clique == (place, other):
                fine &= allowed
            elif clique == (other, place):
                fine &= allowed.T
            else:
                fine &= allowed[:, None] if clique == (place,) else allowed[None, :]
    found = np.zeros((len(kept[place]), fine.shape[1]))
    np.add.at(found, groups, fine)
    return np.asarray(found > 0)


def _other(clique: Clique, place: int) -> int:
    """Return the position of a pair's other column, by which the column ``place`` was counted."""
    return clique[1] if clique[0] == place else clique[0]
