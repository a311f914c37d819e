"""The last fit that is left when others fail: each column on its own, by whatever was measured of it.

Post-processing of noisy answers.  Where a table counts a column, its noisy counts are projected to rows; where only other
linear queries look at it, a density near the uniform one is fitted to them; where nothing does, it is uniform.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from synthdp.arrays import FloatArray
from synthdp.distribution.components import Product
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain, axis_of
from synthdp.measurements import Measurements, row_counts
from synthdp.queries.contingency import project_to_simplex
from synthdp.queries.marginals import Marginals
from synthdp.queries.protocol import LinearQueries
from synthdp.randomness import generator
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.column import Column
from synthdp.schema.schema import Schema

POINTS = 2048
"""Number of random points of the domain on which a column's density is fitted.  A safety limit of time and memory."""

MOST_QUERIES = 2048
"""Only the first this many queries are used to fit a density.  A safety limit of memory."""


def model_of_single_columns(
    schema: Schema, measured: Sequence[Measurements], *, rows: float = 0.0
) -> tuple[SyntheticModel, tuple[str, ...]]:
    """Return a model of independent columns from the noisy answers about each alone, and notes for the receipt.

    The model can be released if the intended model cannot be fitted.

    Parameters
    ----------
    schema
        The columns, all declared.
    measured
        Noisy answers, about these columns or others.
    rows
        The number of rows, if it is known; else 0.
    """
    total = rows or next((count for count, _ in row_counts(measured)), 0.0)
    known = {name: table for name, kind in schema.items() if (table := _table_of(name, kind, measured)) is not None}
    if total <= 0 and known:
        total = float(np.mean([counts.sum() for _, counts in known.values()]))
    total = max(1.0, total)
    axes, margins, unknown = [], [], []
    for name, kind in schema.items():
        axis, counts = known.get(name) or _density_of(name, kind, measured, total) or (axis_of(name, kind), None)
        if counts is None:
            unknown.append(name)
            counts = axis.width * (total / max(1, axis.width.sum()))
        margin = project_to_simplex(np.where(axis.releasable, counts, -np.inf), total)
        axes.append(axis)
        margins.append(margin)
    domain = Domain(tuple(axes))
    law = Product(shape=domain.shape, margins=margins)
    notes = ["columns are independent of each other: no relation between them is in the table"]
    if unknown:
        notes.append(f"nothing was measured of: {', '.join(unknown)}; their values are uniform and mean nothing")
    return SyntheticModel.of(schema, domain, law, total=total), tuple(notes)


def _table_of(name: str, kind: Column, measured: Sequence[Measurements]) -> tuple[Axis, FloatArray] | None:
    """Return a column's axis and noisy counts, (cells,), from the measured table with the fewest other columns.

    The result is ``None`` if no measured table holds the column.
    """
    found: list[tuple[int, Axis, FloatArray]] = []
    for one in measured:
        if one.domain is None or not _asks(one.domain, name, kind):
            continue
        (j,), shape = one.domain.index(name), one.domain.shape
        for table in one.tables:
            if j in table.clique and shape[j] > 1 and not table.alone:
                others = tuple(axis for axis, i in enumerate(table.clique) if i != j)
                counts = table.counts.reshape(table.shape(shape)).sum(axis=others)
                found.append((len(table.clique), one.domain.axes[j], np.asarray(counts)))
    return min(found, key=lambda one: one[0])[1:] if found else None


def _density_of(
    name: str, kind: Column, measured: Sequence[Measurements], total: float
) -> tuple[Axis, FloatArray] | None:
    """Return a column's axis and its estimated rows in each cell, (cells,), from linear queries that are no tables.

    Return ``None`` if no query distinguishes its cells.

    Let A be the features of N points, drawn uniformly, and b the answers, with noise of standard deviation s.  The
    weights 1 + A'(AA'/N + s²)^-1 (b - mean of A) minimise their squared distance from 1 plus the squared residuals over
    s².  The sampling error of the points is part of s.
    """
    for one in measured:
        queries = one.queries
        if isinstance(queries, Marginals) or not isinstance(queries, LinearQueries):
            continue
        if not _asks(queries.domain, name, kind) or queries.k < 2:
            continue
        (j,) = queries.domain.index(name)
        axes, rng = queries.domain.axes, generator(0)
        codes = np.column_stack([rng.choice(axis.size, POINTS, p=axis.width / axis.width.sum()) for axis in axes])
        A = np.asarray(queries.features(codes), np.float64)[:, :MOST_QUERIES].T / queries.denominator
        off = one.answers[-queries.k :][:MOST_QUERIES] / total - A.mean(axis=1)
        noise = (one.stddev / total) ** 2 + 1 / POINTS
        weights = 1 + A.T @ np.linalg.solve(A @ A.T / POINTS + noise * np.eye(len(A)), off)
        counts = np.bincount(codes[:, j], np.maximum(weights, 0), axes[j].size)
        if axes[j].size > 1 and counts.sum() > 0:
            return axes[j], counts * (total / counts.sum())
    return None


def _asks(domain: Domain, name: str, kind: Column) -> bool:
    """Return whether a domain contains a column exactly as the schema declares it, so that its cells mean the same."""
    return name in domain.names and domain.axes[domain.index(name)[0]].column == kind
