"""The cells of a marginal as conjunctions of literals, for the summaries that answer those.  Post-processing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from synthdp.answers.questions import Marginal
from synthdp.errors import ParameterError
from synthdp.mechanisms.estimate import Estimate
from synthdp.schema.column import Level
from synthdp.works.polynomials.binarized import Binarized, LiteralBit
from synthdp.works.polynomials.conjunctions import SymmetricQuery

MOST_CELLS = 100_000
"""Most cells of one marginal."""


def symmetric_query(query: object) -> SymmetricQuery:
    """Return a query that a polynomial answers, or refuse what is none.

    Raises
    ------
    ParameterError
        Saying what may be asked.
    """
    if not isinstance(query, SymmetricQuery):
        raise ParameterError(
            f"this release answers conjunction, disjunction, r_of_k, exactly_r and symmetric, not {type(query).__name__}"
        )
    return query


def marginal_estimate(
    asked: Marginal, bits: Binarized, *, rows: float, answer: Callable[[SymmetricQuery], Estimate]
) -> Estimate:
    """Return the counts of a marginal's cells, (cells,) in C order, each with its standard error and bias in rows.

    A cell is a conjunction of one literal for each column.

    Parameters
    ----------
    asked
        Columns of labels or truth values.
    bits
        What was released.
    rows
        Number of rows, public or estimated.
    answer
        What answers a conjunction as a fraction.

    Raises
    ------
    ParameterError
        If a column was not released, or by thresholds only.
    """
    if asked.bins:
        raise ParameterError("a marginal of this release must have no bins: its cells are those that were released")
    levels = [_levels(bits, name) for name in asked.columns]
    if math.prod(map(len, levels)) > MOST_CELLS:
        raise ParameterError(f"a marginal of this release must have at most {MOST_CELLS} cells: name fewer columns")
    values = (0.0,) * len(levels) + (1.0,)
    cells = [
        answer(SymmetricQuery(tuple(zip(asked.columns, cell, strict=True)), values))
        for cell in itertools.product(*levels)
    ]
    return Estimate(
        estimate=rows * np.array([float(cell.estimate) for cell in cells]),
        stderr=rows * np.array([float(cell.stderr) for cell in cells]),
        truncation=rows * np.array([float(cell.truncation) for cell in cells]),
        truncation_bound=rows * max(float(cell.truncation) for cell in cells),
        range=(0.0, math.inf),
    )


def marginal_labels(asked: Marginal, bits: Binarized) -> dict[str, list[Level | None]]:
    """Return what the cells of `marginal_estimate` are about, in their order."""
    cells = itertools.product(*(_levels(bits, name) for name in asked.columns))
    return {name: list(values) for name, values in zip(asked.columns, zip(*cells, strict=True), strict=True)}


def _levels(bits: Binarized, name: str) -> list[Level | None]:
    """Return the values of a column that have a literal, one for each of its cells."""
    found: dict[LiteralBit, Level | None] = {}
    for (column, level), literal in bits.literals.items():
        if column == name and column in bits.domain.names:
            found[literal] = level
    if not found:
        raise ParameterError(
            f"column {name!r} has no released levels: a marginal may name {_named(bits)}, and a conjunction thresholds"
        )
    return list(found.values())


def _named(bits: Binarized) -> str:
    known = {column for column, _ in bits.literals}
    return ", ".join(name for name in bits.domain.names if name in known) or "no column"
