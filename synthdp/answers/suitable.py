"""Which columns a question can be about, and between which ends its answer lies: the same for one table and for several."""

from __future__ import annotations

import math

from synthdp.answers.grouping import numbers_of
from synthdp.answers.questions import Mean, Sum
from synthdp.domain.grid import has_labels
from synthdp.errors import ParameterError
from synthdp.schema.column import Column


def check_numbers(name: str, column: Column, what: str) -> None:
    """Raise ParameterError unless a column has a statistic: numbers have all; times have a mean, and lengths of time a sum.

    Parameters
    ----------
    name, column
        The column.
    what
        The statistic: sum, mean, variance or correlation.

    Raises
    ------
    ParameterError
        Saying what the column holds.
    """
    taken = {"mean", "sum"} if column.quantity == "length" else {"mean"}
    if column.quantity == "label" or (column.temporal and what not in taken):
        raise ParameterError(f"column {name!r} holds {column.holds}, which have no {what}: name a column of numbers")


def check_order(name: str, column: Column) -> None:
    """Raise ParameterError unless the values of a column have an order, and so quantiles.

    Raises
    ------
    ParameterError
        Naming the column.
    """
    if has_labels(column) and not column.ordered:
        raise ParameterError(
            f"column {name!r} has levels without order, which have no quantiles: name an ordered column"
        )


def check_weight(name: str, column: Column, *, of: str | None) -> None:
    """Raise ParameterError unless a column can weight rows, of which a statistic of column ``of`` is asked.

    Raises
    ------
    ParameterError
        If it holds no numbers, may be negative, or is the column that is asked about.
    """
    if column.quantity not in ("number", "truth"):
        raise ParameterError(f"column {name!r} holds {column.holds}, which cannot be weights: name a column of numbers")
    if name == of:
        raise ParameterError(f"column {name!r} cannot be its own weight: name another column as weight")
    if numbers_of(column)[0].min() < 0:
        raise ParameterError(
            f"the schema allows negative values of column {name!r}, which a weight must not have: name another "
            "column as weight"
        )


def ends_of(question: Sum | Mean, column: Column) -> tuple[float, float]:
    """Return the least and the largest sum or mean that the values of a column may have."""
    values, there = numbers_of(column)
    least, most = float(values[there > 0].min()), float(values[there > 0].max())
    if isinstance(question, Mean):
        return least, most
    return (0.0 if least >= 0 else -math.inf), (0.0 if most <= 0 else math.inf)
