"""The fit of histories: generalised iterative scaling of all conditionals at once, on synthetic persons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from synthdp.arrays import FloatArray
from synthdp.distribution.history_model import Conditional, Expectations, Factor, Histories
from synthdp.queries.person_tables import Kind
from synthdp.queries.persons import Rows
from synthdp.randomness import Generator

MOST_STEP = 1.0
"""Largest change of a factor's logarithm in one sweep.  A numerical tolerance, so that chance in few drawn persons
moves none far.
"""

LAST = 0.25
"""Fraction of the sweeps, at the end, that draw the full number of persons, and whose mean is the result; earlier ones,
far from the result, draw at most `FEW` to save time.
"""

FEW = 5_000
"""Most persons drawn in each early sweep.  A tolerance: chance then moves a share of .1 by only .004."""

LARGEST, LARGEST_STAY = 8.0, 14.0
"""Largest absolute logarithms of factors: LARGEST_STAY for tables of equal values in two rows, which may be nearly
certain, LARGEST for others.  Numerical tolerances: odds change by factors of up to 3 000, and of up to 1 200 000.
"""

LEAST_MARGIN = 0.01
"""Least share of a group of values when a correlation of rows is computed; a smaller share is raised to it.  Noise in rare
groups would otherwise look like a correlation.  A tolerance: correlations only shorten steps.
"""

Key = tuple[int, str]
"""Position of a table, and an attribute."""


RATE = 2.0
"""Step of a conditional with all its tables together, in units of the step that one of them would take; of rows in order it
is divided by 1 + their correlation.  Derived: 2 is the largest with which a margin of independent rows does not swing
further in each sweep."""


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """A table that the model's expected counts are fitted to.

    Parameters
    ----------
    counts
        Target counts, in persons.
    stddev
        Standard deviation of the noise in a cell, in persons: no smaller difference is worth a step.
    """

    counts: FloatArray
    stddev: float


def fit_histories(
    model: Histories,
    ones: Mapping[Key, FloatArray],
    targets: Mapping[Key, Sequence[Target]],
    *,
    persons: int,
    total: float,
    sweeps: int,
    rng: Generator,
    last: float = LAST,
) -> Histories:
    """Fit a model of persons to tables by iterative scaling on simulated persons, and return it.

    Each sweep draws persons forwards.  The sweep moves every conditional by the logarithm of the ratio of what a table
    should be to what is expected, given the persons drawn.  Model and tables weigh rows alike, so that the weights bias
    nothing.  The result is the mean of the last sweeps' models.

    Parameters
    ----------
    model
        The conditionals to begin with.
    ones
        By table and attribute the one-way table, in persons.
    targets
        By table and attribute, for each factor its table.
    persons
        Number drawn in each of the last sweeps; in sweeps before, which are far from the end, at most `FEW`.
    total
        Number of persons of the tables.
    sweeps
        Number of sweeps.
    rng
        Source of the persons.
    last
        Part of the sweeps in which all persons are drawn.
    """
    late = []
    for sweep in range(sweeps):
        drawn = persons if sweep >= sweeps * (1 - last) else min(persons, FEW)
        scale = drawn / total
        expected = Expectations.of(model)
        rows = model.draw(drawn, rng, expected=expected).tables
        moved = {}
        for key, one in model.conditionals.items():
            tables = sum(1 + len(model.conditionals[k].factors) for k in model.together(key))
            step = min(1.0, RATE / (1 + _persistence(one, targets.get(key, ()))) / tables)
            # A change of unordered rows moves all k rows of a parent row, and each of them moves the others: the margin
            # moves 1 + (k - 1) times their likeness as far as that of independent rows (the variance of a sum).
            alike = _likeness(one, targets.get(key, ()), Kind.SIBLING)
            of_base = step
            # a row has their factor once for each earlier row
            steps = {Kind.SIBLING: step / _rows_per_parent(rows[key[0]])}
            if alike > 0:  # the base alone moves margins
                times = 1 + (_rows_per_parent(rows[key[0]]) - 1) * alike
                of_base, step = 1 / times, step / times
            factors = zip(one.factors, targets.get(key, ()), expected.factors[key], strict=True)
            moved[key] = replace(
                one,
                base=one.base + _move_of_base(ones[key] * scale, expected.ones[key], step=of_base),
                factors=tuple(
                    _moved(f, _move(f, each, now, rows[key[0]], scale=scale, step=steps.get(f.table.kind, step),
                                    margins=alike == 0))
                    for f, each, now in factors
                ),
            )  # fmt: skip
        model = Histories(model.layout, moved)
        if sweep >= int(sweeps * (1 - LAST)):
            late.append(model)
    return _mean(late)


def _mean(models: Sequence[Histories]) -> Histories:
    """Return the model whose logarithms are the means of some models' (Polyak, Juditsky 1992).

    A sweep may step as far past a margin as it was off before, and draws persons by chance; both are less in the mean.
    """
    found = {}
    for key, one in models[-1].conditionals.items():
        every = [model.conditionals[key] for model in models]
        factors = (
            replace(factor, theta=np.mean([each.factors[i].theta for each in every], axis=0))
            for i, factor in enumerate(one.factors)
        )
        found[key] = replace(one, base=np.mean([each.base for each in every], axis=0), factors=tuple(factors))
    return Histories(models[-1].layout, found)


def _rows_per_parent(rows: Rows) -> float:
    """Return the mean number of rows of a parent row, over parent rows that have any; 1 without rows.

    A step on rows of one parent row that resemble each other is divided by about this number.
    """
    return max(len(rows), 1) / max(int((rows.rank == 0).sum()), 1)


def _persistence(one: Conditional, targets: Sequence[Target]) -> float:
    """Return how strongly an attribute follows its value in the row before, 0 to 1; steps are divided by 1 + this.

    All tables of an attribute and its base move its margin.  With correlation r a move of 1 of the logarithms moves the
    margin by 1 in the first row, and by 1 - r^2 and r times what the row before moves in each later one (an
    autoregression): by 1 + r - r^t in the t-th, so by less than 1 + r however many rows there are.  Without this the fit
    would step past the margin by more than it was off, and swing.

    A table of equal values does not determine r, so 1, the bound of r, is taken.
    """
    if any(f.table.kind is Kind.STAY for f in one.factors):
        return 1.0
    return _likeness(one, targets, Kind.STEP)


def _likeness(one: Conditional, targets: Sequence[Target], kind: Kind) -> float:
    """Return the largest correlation of a function of an attribute in two rows, by the attribute's table of a kind.

    The correlation is from 0 to 1.  It is 0 without such a table, and if rows tend to have different values, as the
    roles in a household may.  Steps of a fit are divided by a multiple of it.
    """
    for f, target in zip(one.factors, targets, strict=False):
        if f.table.kind is kind and f.table.other == one.attribute:
            share = np.maximum(target.counts, 0.0)
            share = share / max(float(share.sum()), 1e-300)
            first, second = (np.maximum(share.sum(axis=axis), LEAST_MARGIN) for axis in (1, 0))
            beyond = (share - np.outer(share.sum(axis=1), share.sum(axis=0))) / np.sqrt(np.outer(first, second))
            return float(np.clip(np.linalg.eigvalsh((beyond + beyond.T) / 2)[-1], 0.0, 1.0))
    return 0.0


def _move_of_base(wanted: FloatArray, now: FloatArray, *, step: float) -> FloatArray:
    """Return the change of an attribute's base logarithms that moves counts ``now`` towards ``wanted``.

    All are (1 or groups of periods, cells).  The change is ``step`` times the logarithm of ``wanted`` / ``now``, with 1
    person added to both.  Only shares matter: ``now`` is first scaled to the totals of ``wanted``, period by period.
    """
    now = now * (wanted.sum(axis=1) / np.maximum(now.sum(axis=1), 1e-9))[:, None]
    return np.asarray(step * np.clip(np.log((wanted + 1) / (now + 1)), -MOST_STEP, MOST_STEP))


def _step_of_equal(kind: Kind, now: FloatArray, rows: Rows) -> float:
    """Return the step of a table of equal values in two rows, whose counts ``now`` are expected: at most 1.

    If the logarithm of a factor grows by 1, the logarithm of a count grows by the share of rows with other values, which
    is at most 1 (the derivative of the logarithm of a probability by its log-odds).  So a step of 1 never goes too far for a
    row and the row before.  An unordered row is compared with all other rows of its parent row, so that all their factors
    move a count together.  The step is then divided by the number of these rows times the share with other values.
    """
    if kind is Kind.STAY:
        return 1.0
    several = max(int((rows.rank == 1).sum()), 1)
    differ = max(1 - float(now.sum()) / several, 0.0)
    return 1 / max(_rows_per_parent(rows) * differ, 1.0)


def _move(
    factor: Factor, target: Target, now: FloatArray, rows: Rows, *, scale: float, step: float, margins: bool = True
) -> FloatArray:
    """Return the change of a factor's logarithms, (cells,), that moves its expected table ``now`` towards its target.

    The change is ``step`` times the logarithm of target / ``now``.  To both a fifth of the noise is added, and at least
    a person, so that differences within the noise move little. ``scale`` is persons drawn per person of the tables.

    The law of an attribute cannot change how many rows have each value of the attributes that it is given.  So for each
    of these the target is first scaled to the rows that are expected; else a target with more of them would raise all
    logarithms, without any effect, up to their bounds.  Tables of equal values in two of the drawn ``rows`` are not
    scaled, since their sum is fitted; see `_step_of_equal` for their step.

    Without ``margins`` only the relation beyond the margins is moved, as for factors of siblings always.
    """
    wanted, soft = target.counts * scale, max(1.0, 0.2 * target.stddev * scale)
    if factor.table.kind in (Kind.STAY, Kind.ALIKE):
        step = _step_of_equal(factor.table.kind, now, rows)
    else:
        wanted = wanted * (now.sum(axis=1) / np.maximum(wanted.sum(axis=1), 1e-9))[:, None]
    change = np.clip(np.log((wanted + soft) / (now + soft)), -MOST_STEP, MOST_STEP)
    if factor.table.kind is Kind.SIBLING or not (margins or factor.table.kind in (Kind.STAY, Kind.ALIKE)):
        change = _beyond_margins(change, now)
    return np.asarray(step * change)


def _beyond_margins(change: FloatArray, now: FloatArray) -> FloatArray:
    """Return a change of logarithms, (a, b), without what each row and each column of the table ``now`` has in the mean.

    A row has a factor of siblings once for each earlier row, so that a change of margins would be made many times over.
    """
    weight = now / max(float(now.sum()), 1e-300)
    first, second = weight.sum(axis=1), weight.sum(axis=0)
    change = change - (change @ second)[:, None]
    return np.asarray(change - first @ change)


def _moved(factor: Factor, by: FloatArray) -> Factor:
    """Return a factor with ``by`` added to its logarithms, kept within the bounds of its kind."""
    most = LARGEST_STAY if factor.table.kind in (Kind.STAY, Kind.ALIKE) else LARGEST
    return replace(factor, theta=np.clip(factor.theta + by, -most, most))
