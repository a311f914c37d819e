"""Errors of a model of persons by the parametric bootstrap, as in `synthdp.answers.bootstrap`.

Persons are drawn from the model with all their rows, measured with new noise, and fitted again.  All replicates share
one pool of persons.  A replicate's database is one column of weights of these persons; the fit to its noisy tables is
another.

Random relations are added to the databases, of the strength that the release's tables and scores allow.  The fit
recovers measured relations up to noise; other relations remain as error.  The module is post-processing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from synthdp.answers.bootstrap import root_mean_square
from synthdp.answers.misspecification import MAX_TREND_FACTOR, UNMEASURED
from synthdp.answers.refitted_points import root_of
from synthdp.answers.related.known import Measured, MeasuredDatabase
from synthdp.answers.related.terms import Drawn, within_cells
from synthdp.answers.unmeasured_relations import RANK
from synthdp.arrays import FloatArray, IntArray, Sparse
from synthdp.queries.person_tables import Grouping, PersonTable
from synthdp.queries.persons import Persons
from synthdp.randomness import Generator

REPLICATES = 24
"""Number of bootstrap replicates, as for one table; a standard error then has a relative error of about 14 %, 1 /
sqrt(2 * 24).  More lower this error by their square root only, in proportional time and memory.  A safety limit of time."""

POOL, POOL_ROWS = 6_000, 60_000
"""Most persons, and approximately most rows, in the pool that all replicates share.  A safety limit of time."""

FEWEST = 1_000
"""Fewest persons in the pool, even if they have more rows than POOL_ROWS. With fewer persons the sampling error of the
pool would dominate the errors that it estimates. A safety limit."""

SWEEPS = 6
"""Passes over all tables when a replicate is fitted.  A safety limit of time."""

GENTLE = 0.3
"""Largest relative stddev of persons' weights by random relations.  Stronger relations are scaled down, and their effect
on an answer is scaled up again, as if it were proportional.  A numerical tolerance."""

MOST_TRIPLES = 40
"""Largest number of random relations of three attributes in each replicate.  A safety limit of time."""

_TINY = 1e-30
"""Smallest weight of a person, so that no logarithm or division fails.  A numerical tolerance."""


@dataclass(frozen=True, slots=True, eq=False)
class DatabaseReplicates:
    """Holds bootstrap replicates of a database and their fits, as weights of one pool of persons.

    Parameters
    ----------
    drawn
        The pool of m persons.
    base
        (m,) weight of each person in the model, raked to the release's noisy tables.
    pairs
        Two triples: (m, size) weights of databases, (m, size) weights of their fits, and a factor on the difference of
        their answers.  The databases of the first triple vary by sampling and noise, of the second by random relations;
        see `_changes`.
    """

    drawn: Drawn
    base: FloatArray
    pairs: tuple[tuple[FloatArray, FloatArray, float], ...]

    @classmethod
    def of(cls, drawn: Drawn, known: MeasuredDatabase, rng: Generator, *, size: int = REPLICATES) -> DatabaseReplicates:
        """Return twice ``size`` databases, as weights of the pool, each with weights fitted to its tables.

        Half of them vary by sampling and by noise in the tables; half have random relations, and tables without noise.
        Differences between both weights of a database give standard errors.
        """
        persons, total = drawn.persons, known.total
        even = np.full(len(drawn), total / len(drawn))
        base = refitted(persons, known.measured, even, np.array([total]))[:, 0]
        chance = rng.poisson(np.repeat(base[:, None], size, axis=1)).astype(np.float64)
        chance *= total / np.maximum(chance.sum(axis=0), 1.0)
        totals = np.maximum(total + known.total_stddev * rng.standard_normal(size), 1.0)
        found = refitted(persons, known.measured, base, totals, rows=chance, rng=rng)
        change = _changes(drawn, known, base, rng, size)
        gentle = min(1.0, GENTLE / max(float(change.std(axis=0).max()), 1e-12))
        related = base[:, None] * np.maximum(1 + gentle * change, 0.0)
        related *= total / related.sum(axis=0)
        without = refitted(persons, known.measured, base, np.full(size, total), rows=related)
        return cls(drawn, base, ((chance, found, 1.0), (related, without, 1 / gentle)))

    def errors(self, answer: Callable[[FloatArray], FloatArray], size: int) -> FloatArray:
        """Return the standard errors, (size,), of an answer that is a function of the persons' weights."""
        parts = []
        for rows, fitted, times in self.pairs:
            some = [times * (answer(b) - answer(a)) for a, b in zip(rows.T, fitted.T, strict=True)]
            parts.append(root_mean_square(some, size))
        return np.asarray(np.hypot(*parts))


def pool_size(rows_per_person: float) -> int:
    """Return the number of persons in the pool; it is smaller if persons have many rows, to limit time."""
    return int(np.clip(POOL_ROWS / max(rows_per_person, 1.0), FEWEST, POOL))


def matrix_of(table: PersonTable, persons: Persons) -> Sparse:
    """Return the sparse matrix, (cells, persons), of the amount that each person adds to each cell of a table.

    A person's entries sum to at most 1.
    """
    rows, cells, weights = table.entries(persons)
    owner = rows if table.table == 0 else persons.ancestor(table.table, 0)[rows]
    shape = (math.prod(table.sizes(persons.layout)), len(persons))
    return sparse.csr_array((weights / persons.whole(table.table), (cells, owner)), shape=shape)


def _changes(drawn: Drawn, known: MeasuredDatabase, base: FloatArray, rng: Generator, size: int) -> FloatArray:
    """Return relative changes of persons' weights, (persons, replicates), by random relations.

    The relations stand for relations that were not measured, and for the part of measured relations that a refit does
    not recover.  ``size`` is the number of replicates.
    """
    change = np.zeros((len(base), size))
    for measured in known.measured:
        change += _relation(measured.table, drawn.persons, base, rng, size, strength=measured.strength, mean=False)
    for scored in known.scored:
        if scored.distance > 0:
            change += _relation(scored.table, drawn.persons, base, rng, size, strength=scored.distance, mean=True)
    distances = [one.distance for one in known.scored]
    change += _triples(drawn.persons, rng, size, UNMEASURED * float(np.mean(distances or [0.0])) / base.sum())
    return np.asarray(change + _within(drawn, rng, size))


def _relation(
    table: PersonTable, persons: Persons, base: FloatArray, rng: Generator, size: int, *, strength: float, mean: bool
) -> FloatArray:
    """Return relative changes of persons' weights, (persons, replicates), that change a table with a given strength.

    ``base``, (persons,), are the persons' weights before, and ``size`` is the number of replicates.  With ``mean``, the
    strength is the sum of absolute differences in persons, else the root mean square.  Two ordered attributes get a
    common linear trend, which makes up about half of their relation.  The rest is random values.
    """
    matrix = matrix_of(table, persons)
    shape = table.sizes(persons.layout)
    now = np.maximum((matrix @ base).reshape(shape), 0.0)
    ordered = [one if one is not None and one.ranked.any() else None for one in (table.other_grouping, table.grouping)]
    values = []
    for axis, count in enumerate(shape):
        margin = now.sum(axis=1 - axis)
        function = rng.standard_normal((count, RANK, size))
        if ordered[0] is not None and ordered[1] is not None:
            function[:, 0] = _trend(ordered[axis], count)[:, None] * rng.choice((-1.0, 1.0), size) * RANK**0.25
        if count > 1:
            function -= np.tensordot(margin / max(float(margin.sum()), 1e-12), function, axes=(0, 0))
        values.append(function)
    heights = np.einsum("arz,brz->abz", *values).reshape(-1, size)
    change = matrix.T @ heights
    moved = matrix @ (change * base[:, None])
    reached = np.abs(moved).sum(axis=0) if mean else np.sqrt((moved**2).mean(axis=0))
    return np.asarray(change * (strength / np.maximum(reached, 1e-9)) * (reached > 1e-9))


def _trend(grouping: Grouping | None, count: int) -> FloatArray:
    """Return a linear trend over groups of a number, (count,), with variance 1; 0 for groups without numbers.

    Relations of two numbers are mostly monotone.
    """
    found = np.zeros(count)
    if grouping is not None:
        ranked = np.flatnonzero(grouping.ranked)
        found[ranked] = (np.arange(len(ranked)) - (len(ranked) - 1) / 2) / max(
            1.0, math.sqrt((len(ranked) ** 2 - 1) / 12)
        )
    return found


def _triples(persons: Persons, rng: Generator, size: int, strength: float) -> FloatArray:
    """Return relative changes of persons' weights, (persons, replicates), by random relations of three attributes.

    The relations stand for unmeasured ones.  The sum of at most `MOST_TRIPLES` random triples is scaled up to all
    triples.  ``size`` is the number of replicates.  ``strength`` is the stddev of the relative change that one triple
    makes in a row; at 0 nothing changes.
    """
    change = np.zeros((len(persons), size))
    if strength <= 0:
        return change
    layout = persons.layout
    for i in range(len(layout.tables)):
        cells = list(_cells_above(persons, i))
        every = list(itertools.combinations(range(len(cells)), 3))
        own = [one for one in every if any(cells[j][0] == i for j in one)]
        if not own or not len(persons.tables[i]):
            continue
        owner = persons.ancestor(i, 0) if i else np.arange(len(persons))
        share = persons.shares(i) / persons.whole(i)
        into: Sparse = sparse.csr_array((share, (owner, np.arange(len(owner)))), shape=(len(persons), len(owner)))
        for z in range(size):
            some = rng.permutation(len(own))[:MOST_TRIPLES]
            functions = [_function(one, rng) for _, one in cells]
            at = np.zeros(len(owner))
            for number in some:
                a, b, c = own[number]
                at += functions[a] * functions[b] * functions[c]
            change[:, z] += (into @ at) * strength * math.sqrt(len(own) / len(some))
    return change


def _cells_above(persons: Persons, i: int) -> Iterator[tuple[int, IntArray]]:
    """Yield for each attribute of a table and of the tables above it the table's position, and the bin of each row, (rows,).

    A row can have relations between these attributes; the row's period is one of them.
    """
    for level in (i, *persons.layout.ancestors(i)):
        place = np.arange(len(persons.tables[i])) if level == i else persons.ancestor(i, level)
        rows, table = persons.tables[level], persons.layout.tables[level]
        for name in table.axes:
            yield level, rows[name][place]
        if table.period is not None and table.period not in table.axes:
            yield level, rows.period[place]


def _function(cells: IntArray, rng: Generator) -> FloatArray:
    """Return a random function of bins at each row, (rows,), with mean 0 and variance 1; 0 if all rows share a bin.

    Products of three such functions are random relations of three attributes.
    """
    values = rng.standard_normal(int(cells.max(initial=0)) + 1)[cells]
    values = values - values.mean()
    return np.asarray(values / max(float(values.std()), 1e-9))


def _within(drawn: Drawn, rng: Generator, size: int) -> FloatArray:
    """Return relative changes of persons' weights, (m, size), by uneven densities inside the bins of numbers.

    Persons are drawn evenly inside bins, which real numbers do not fill evenly.
    """
    persons = drawn.persons
    change = np.zeros((len(persons), size))
    for (i, name), place in within_cells(drawn.model, drawn).items():
        rows = persons.tables[i]
        if not len(rows):
            continue
        count = np.bincount(rows[name]).astype(np.float64)
        beside = np.append(count[1:], 0) - np.append(0, count[:-1])
        slope = np.clip(beside / np.maximum(4 * count, 1.0), -1.0, 1.0)[:, None]
        slopes = slope * rng.uniform(0, MAX_TREND_FACTOR, size)
        owner = persons.ancestor(i, 0) if i else np.arange(len(persons))
        into: Sparse = sparse.csr_array((place, (owner, rows[name])), shape=(len(persons), len(count)))
        change += into @ slopes
    return change


@dataclass(slots=True, eq=False)
class _Raked:
    """Holds one table in the fits of all replicates; its targets are in multiples of the ridge."""

    matrix: Sparse
    back: Sparse
    target: FloatArray
    ridge: FloatArray
    potential: FloatArray


def refitted(
    persons: Persons,
    measured: tuple[Measured, ...],
    base: FloatArray,
    totals: FloatArray,
    *,
    rows: FloatArray | None = None,
    rng: Generator | None = None,
) -> FloatArray:
    """Return persons' weights, (m, r), raked to the noisy tables of the release, or of drawn databases.

    Parameters
    ----------
    persons
        The persons of the pool.
    measured
        The measured tables.
    base
        (m,) initial weights.
    totals
        (r,) sums of the final weights.
    rows
        (m, r) weight of each person in r drawn databases; default: the release's own noisy tables are used.
    rng
        Source of the noise of the databases' tables; default: no noise.
    """
    raked = []
    for one in measured:
        matrix = matrix_of(one.table, persons)
        expected = np.maximum(matrix @ base, 1e-9)[:, None]
        wanted = one.counts[:, None] if rows is None else matrix @ rows
        if rng is not None:
            wanted = wanted + one.stddev * rng.standard_normal(wanted.shape)
        if rows is None or rng is not None:
            wanted = one.settled(wanted, persons.layout)
        # A difference d is taken over in the part expected / (expected + ridge) of it.
        ridge = expected * max((1 - one.kept) / max(one.kept, 1e-9), 1e-3)
        target = wanted / ridge
        raked.append(_Raked(matrix, matrix.T.tocsr(), target, ridge, np.zeros(target.shape)))
    weights = np.repeat(base[:, None], len(totals), axis=1) * (totals / base.sum())
    for _ in range(SWEEPS):
        for table in reversed(raked):
            weights *= np.exp(table.back @ _move(table, table.matrix @ weights))
            np.maximum(weights, _TINY, out=weights)
        weights *= totals / weights.sum(axis=0)
    return np.asarray(weights)


def _move(table: _Raked, expected: FloatArray) -> FloatArray:
    """Change a table's potentials, (cells, r), by one step, in place; return the changes: logs of factors of the weights.

    After the step, the expected count over the ridge plus the potential is the target, as a penalised fit requires.  The
    equation has one unknown for each cell, found by Newton steps.  A change is at most 5 in size, so that no weight
    overflows.
    """
    offset = np.log(np.maximum(expected, _TINY) / table.ridge)
    z = table.target - table.potential + offset
    change = np.clip(root_of(z) - offset, -5.0, 5.0)
    table.potential += change
    return np.asarray(change)
