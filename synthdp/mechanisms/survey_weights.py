"""The mean weight of each class of a survey weight, measured before a table is made and stored in the column's declaration.

A release with weights is an ordinary release of a table in which the weight is a column of classes.  In addition, two
noisy histograms of the weight measure the mean of each class.  No amplification by the design of the survey is claimed
(arXiv 2408.07006): rows are protected as if everybody knew who was in the survey.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from synthdp.answers.moments import EVENLY
from synthdp.arrays import FloatArray
from synthdp.curator import Curator
from synthdp.domain.domain import Domain, axis_of
from synthdp.errors import ParameterError, SalvageWarning, SchemaError
from synthdp.measurements import Measurements
from synthdp.mechanisms.allocation import BudgetAllocation
from synthdp.mechanisms.mechanism import TableMechanism
from synthdp.privacy.budget import COUNT_SHARE
from synthdp.queries.marginals import one_ways
from synthdp.queries.protocol import Statistic
from synthdp.schema.schema import Schema
from synthdp.schema.weights import Weight


def weights_of(schema: Schema) -> dict[str, Weight]:
    """Return the survey-weight columns of a schema whose class means were not measured yet, and have to be."""
    return {name: column for name, column in schema.items() if isinstance(column, Weight) and not column.means}


def check_weights(mechanism: TableMechanism, schema: Schema) -> None:
    """Raise an error if a schema has survey weights that the mechanism cannot keep, or a rule names one.

    A release scales the mean weight of each class (bin) of a weight column to the population.  So the mechanism must
    leave these classes as they are, and no rule may move a row's weight.

    Raises
    ------
    ParameterError
        If the mechanism does not keep the classes.
    SchemaError
        If a rule names a weight.
    """
    names = weights_of(schema)
    if names and not getattr(mechanism, "keeps_classes", False):
        raise ParameterError(
            f"mechanism {type(mechanism).__name__} does not support survey weights ({', '.join(names)}): use "
            "'auto' or 'adaptive_marginals', or declare the column as Continuous"
        )
    for rule in schema.constraints:
        for name in set(rule.names) & set(names):
            raise SchemaError(f"a rule names the survey weight {name!r} ({rule.in_words()}): leave this rule out")


def refuse_weights(schema: Schema, *, by: str, table: str | None = None) -> None:
    """Raise SchemaError if a schema has a survey weight, for a release that does not scale weights to the population.

    Parameters
    ----------
    schema
        Schema of a table.
    by
        Kind of the release, for the message: several tables, or a series.
    table
        The table's name, if there are several.

    Raises
    ------
    SchemaError
        Naming the column.
    """
    for name in [name for name, column in schema.items() if isinstance(column, Weight)]:
        where = f"column {name!r}" if table is None else f"column {name!r} of table {table!r}"
        raise SchemaError(
            f"{where} is a survey weight, which a release of {by} does not scale to the population: declare it as "
            "Continuous with the same bounds"
        )


def measure_weights(account: Curator) -> tuple[Measurements, ...]:
    """Measure the mean weight of each class of the survey weights, and add it to the account's schema.

    Returns the noisy answers.  Costs `COUNT_SHARE` of the account's budget, for the curator's neighbours, where there are
    weights; else nothing.
    """
    columns = weights_of(account.schema)
    if not columns:
        return ()
    from synthdp.queries.class_offsets import ClassOffsets, axis_of_offsets

    queries: list[Statistic] = []
    steps = []
    for name, column in columns.items():
        queries += [
            one_ways(Domain((axis_of(name, column),))), ClassOffsets(Domain((axis_of_offsets(name, column),)))
        ]  # fmt: skip
        steps += [f"rows in each class of weight {name!r}", f"mean of each class of weight {name!r}"]
    part, _ = BudgetAllocation.of(account).take(COUNT_SHARE / len(queries))
    answers = account.measure_each(queries, spends=[part.loss] * len(queries), steps=steps)
    try:
        known = {
            name: column.measured_as(*class_means(column, *answers[2 * i : 2 * i + 2]))
            for i, (name, column) in enumerate(columns.items())
        }
        account.know(known)
    except Exception as error:  # noqa: BLE001 - it is paid for: the middles of the classes will do
        failed = f"the mean survey weight of each range of weights could not be computed ({type(error).__name__})"
        note = (
            f"SALVAGED: {failed}: rows have the middle of their range as weight, so weighted totals are less accurate"
        )
        warnings.warn(note, SalvageWarning, stacklevel=2)
    return tuple(answers)


def class_means(
    column: Weight, counted: Measurements, offsets: Measurements
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the mean weight of each class and its standard error, from noisy row counts and noisy sums of offsets.

    The posterior mean of an offset that may lie anywhere in its class beforehand, of variance 1/3 in halves of its
    width: with N rows and a sum S of noise s it is ``N S / (N^2 + 3 s^2)``, of variance ``1 / (3 + N^2 / s^2)``.  The
    error of N adds to it.

    Parameters
    ----------
    column
        The weight.
    counted
        Rows in each cell of its axis: classes first.
    offsets
        `ClassOffsets` of it.
    """
    from synthdp.queries.class_offsets import class_middles

    middle, half = class_middles(column)
    rows = np.maximum(counted.answers[: len(middle)], 0.0)
    sums, noise = np.asarray(offsets.answers, np.float64), max(offsets.stddev, 1e-9)
    offset = np.clip(rows * sums / (rows**2 + noise**2 / EVENLY), -1.0, 1.0)
    of_count = (offset * counted.stddev) ** 2 / np.maximum(rows, 1.0) ** 2
    variance = np.minimum(1 / (1 / EVENLY + (rows / noise) ** 2) + of_count, EVENLY)
    return _numbers(middle + half * offset), _numbers(half * np.sqrt(variance))


def _numbers(values: FloatArray) -> tuple[float, ...]:
    """Return an array as a tuple of floats, as a column declaration holds class means."""
    return tuple(float(value) for value in values)


def weight_notes(schema: Schema) -> tuple[str, ...]:
    """Return the receipt's sentences on survey weights, one for each weight column."""
    return tuple(
        f"weight {name!r}: synthetic rows have the mean of their class, times a factor that makes them add up to the "
        "estimated population; intervals hold for these rows and weights, not for the design of the survey"
        for name, column in schema.items()
        if isinstance(column, Weight)
    )


def with_weight(schema: Schema, name: str | None, bounds: Any) -> Schema:
    """Return a schema in which one column is declared as a survey weight with public bounds.

    Parameters
    ----------
    schema
        Schema of the table.
    name
        Name of the column, declared or not; ``None`` for none.
    bounds
        Its lower and upper bound, 0 < lower < upper; ``None`` if the schema declares it as a `Weight`.

    Raises
    ------
    ParameterError
        If there are no bounds, or no column to bound.
    SchemaError
        If the bounds contradict each other, or the column is computed from others.
    """
    if name is None:
        if bounds is not None:
            raise ParameterError(
                "weight_bounds needs weight, the name of the weight column: give weight too, or leave weight_bounds out"
            )
        return schema
    if not isinstance(name, str):
        raise ParameterError("weight must be the name of a column")
    declared = schema.get(name)
    if bounds is None:
        if isinstance(declared, Weight):
            return schema
        raise ParameterError(f"weight_bounds must give the public bounds of weight {name!r}, such as (1, 2000)")
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise ParameterError("weight_bounds must be a pair of numbers, such as (1, 2000)")
    if name in schema.derived:
        raise SchemaError(f"the survey weight {name!r} must not be computed from other columns")
    source = None if declared is None else declared.source
    return schema.replace({name: Weight(*bounds, source=source)})
