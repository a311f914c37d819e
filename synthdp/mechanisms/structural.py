"""Rules between columns as structural zeros: combinations of coarse cells that get probability 0, exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from synthdp.arrays import BoolArray
from synthdp.distribution.clique_tables import Clique
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.domain.values import cell_bounds, units_of_values
from synthdp.schema.constraints import Forbidden, Implies, LessEqual
from synthdp.schema.schema import Schema


def pinned_leaves(schema: Schema, axes: Sequence[Axis]) -> list[frozenset[int]]:
    """Return for each column the leaves that rules name: they must stay cells of their own.

    Costs nothing: reads the schema.
    """
    pinned: list[set[int]] = [set() for _ in axes]
    for rule in schema.constraints:
        for name, values in _listed(rule):
            j = schema.names.index(name)
            units = np.flatnonzero(units_of_values(schema[name], values))
            pinned[j] |= {int(cell) for cell in axes[j].cells_of(units.astype(np.uint32))}
        if isinstance(rule, LessEqual):  # missing and special values are free of it, so they keep apart from numbers
            for j in (schema.names.index(rule.left), schema.names.index(rule.right)):
                free = np.arange(axes[j].grid.regular, axes[j].grid.visible)
                pinned[j] |= {int(cell) for cell in axes[j].cells_of(free.astype(np.uint32))}
    return [frozenset(leaves) for leaves in pinned]


def structural_zeros(schema: Schema, domain: Domain) -> dict[Clique, BoolArray]:
    """Return for the columns of each rule which combinations of cells may occur.

    Costs nothing: reads the schema.

    Parameters
    ----------
    schema
        With its rules.
    domain
        Axes in which every value that a rule lists has a cell of its own.
    """
    zeros: dict[Clique, BoolArray] = {}
    for rule in schema.constraints:
        for clique, allowed in _masks(rule, schema, domain):
            zeros[clique] = zeros[clique] & allowed if clique in zeros else allowed
    return zeros


def _listed(rule: LessEqual | Forbidden | Implies) -> list[tuple[str, list[object]]]:
    match rule:
        case Forbidden(values):
            return list(values.items())
        case Implies(when, then):
            return [*when.items(), *then.items()]
        case _:
            return []


def _masks(rule: LessEqual | Forbidden | Implies, schema: Schema, domain: Domain) -> list[tuple[Clique, BoolArray]]:
    match rule:
        case LessEqual(left, right):
            a, b = domain.index(left, right)
            low, _ = cell_bounds(domain.axes[a])
            _, high = cell_bounds(domain.axes[b])
            possible = ~(low[:, None] > high[None, :])  # NaN (missing, special) compares as free
            return [_sorted((a, b), possible)]
        case Forbidden(values):
            return [_forbid(values, schema, domain)]
        case Implies(when, then):
            return [_forbid({**when, name: values}, schema, domain, inverted=name) for name, values in then.items()]


def _forbid(
    values: Mapping[str, Sequence[object]], schema: Schema, domain: Domain, *, inverted: str | None = None
) -> tuple[Clique, BoolArray]:
    columns = domain.index(*values)
    sides = []
    for name, j in zip(values, columns, strict=True):
        axis = domain.axes[j]
        units = np.flatnonzero(units_of_values(schema[name], values[name]))
        side = np.isin(np.arange(axis.size), axis.cells_of(units.astype(np.uint32)))
        sides.append(~side if name == inverted else side)
    forbidden = np.ones([len(side) for side in sides], np.bool_)
    for axis_number, side in enumerate(sides):
        forbidden &= side.reshape([-1 if i == axis_number else 1 for i in range(len(sides))])
    return _sorted(columns, ~forbidden)


def _sorted(columns: Sequence[int], allowed: BoolArray) -> tuple[Clique, BoolArray]:
    order = sorted(range(len(columns)), key=lambda i: columns[i])
    return tuple(columns[i] for i in order), np.ascontiguousarray(allowed.transpose(order)).ravel()
