"""Rules between columns as structural zeros: combinations of bins that have probability exactly 0."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from synthdp.arrays import BoolArray, Clique, FloatArray, IntArray
from synthdp.distribution.junction_tree import junction_tree
from synthdp.distribution.markov_random_field import Graphical
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.domain.rules import ColumnOrder, Listed, check_values, rule_domain, rules_of
from synthdp.domain.values import is_range, mask_of_values
from synthdp.errors import ParameterError, SchemaError
from synthdp.schema.constraints import Constraint
from synthdp.schema.derived import Derived
from synthdp.schema.schema import Schema

MAX_CELLS = 1_000_000
"""Largest number of bin combinations for which a rule becomes structural zeros.  Rows that break a larger rule are drawn
again when sampling; a larger rule that lists combinations is refused.  A safety limit of memory."""

CHECKED_BINS = 8
"""Number of equal parts into which a compared column is cut when the rules are checked for contradictions.  More would
find more contradictions, and take more time.  A safety limit of time."""


def check_rules(schema: Schema) -> None:
    """Raise SchemaError if no row can satisfy all rules of a schema.

    Raises
    ------
    SchemaError
        If some column or combination of columns is left without any value.  If a rule lists combinations of columns
        with too many values, or names a value that no row can have.
    """
    check_values(schema)
    for rule in rules_of(schema):
        if isinstance(rule, Listed) and math.prod(int(kinds.max()) + 1 for kinds in rule.kinds.values()) > MAX_CELLS:
            raise SchemaError(
                f"the rule on columns {', '.join(rule.names)} has more than {MAX_CELLS} combinations of values: "
                "name fewer columns, or declare a column that follows from the others as Derived"
            )
    if rules_between(schema):
        obeying(schema)


def rules_between(schema: Schema) -> tuple[Constraint, ...]:
    """Return the rules that restrict combinations of columns.

    These are all constraints except derived columns, which are computed and not drawn.
    """
    return tuple(constraint for constraint in schema.constraints if not isinstance(constraint, Derived))


@lru_cache(maxsize=4)
def obeying(schema: Schema) -> tuple[Domain, Graphical]:
    """Return a domain over the columns that rules name, and the uniform distribution of its allowed grid points.

    The sampler draws from this distribution if the model has no mass on allowed rows.  Building it also checks the
    rules.

    Raises
    ------
    SchemaError
        If no row can obey all rules.
    """
    rules = rules_between(schema)
    named = {name for constraint in rules for name in constraint.names}
    schema = Schema({name: schema[name] for name in schema if name in named}, constraints=rules)
    domain = rule_domain(schema, rules_of(schema), bins=CHECKED_BINS)
    sizes = {(j,): _logs(axis.releasable, axis.width) for j, axis in enumerate(domain.axes)}
    zeros = {c: _logs(mask) for c, mask in structural_zeros(schema, domain).items()}
    single = {c: sizes[c] + zeros.pop(c, 0.0) for c in sizes}
    try:
        return domain, Graphical.calibrated(junction_tree(domain.shape, [*zeros, *single]), single | zeros)
    except ParameterError:
        raise SchemaError(
            "the rules of the schema contradict each other, so that no row can obey them all: change or remove a rule"
        ) from None


def _logs(possible: BoolArray, mass: FloatArray | IntArray | float = 1.0) -> FloatArray:
    """Return log-potentials of cells, (cells,): log of ``mass``, and -inf where ``possible`` is False.

    With the number of grid points as mass, a model is uniform over grid points; without ``mass`` potentials are 0.  A
    mass below 1 counts as 1, so that every possible cell stays possible.
    """
    return np.where(possible, np.log(np.maximum(mass, 1)), -np.inf)


def pinned_leaves(schema: Schema, axes: Sequence[Axis]) -> list[frozenset[int]]:
    """Return for each column the fine bins that rules name, as a set of bin codes.

    Coarsening must leave each of these bins alone, because structural zeros work on whole bins.  For comparisons of
    columns these are the bins of missing and special values, which such a rule does not bind.

    Parameters
    ----------
    schema
        The schema with its rules.
    axes
        The fine bins of each column.
    """
    pinned: list[set[int]] = [set() for _ in axes]
    for constraint in schema.constraints:
        for name, values in constraint.named(schema):
            j = schema.names.index(name)
            single = [value for value in values if not is_range(schema[name], value)]
            if single:
                pinned[j] |= _bins(axes[j], mask_of_values(schema[name], single, name=name))
    for rule in rules_of(schema):
        if isinstance(
            rule, ColumnOrder
        ):  # it says nothing of missing and special values, so they are kept apart from numbers
            for j in (schema.names.index(name) for name in rule.names):
                free = np.arange(axes[j].grid.size) >= axes[j].grid.regular
                pinned[j] |= _bins(axes[j], free)
    return [frozenset(leaves) for leaves in pinned]


def structural_zeros(schema: Schema, domain: Domain) -> dict[Clique, BoolArray]:
    """Return a mask of the allowed bin combinations for the columns of each rule.

    A combination is allowed if at least one of its grid points satisfies the rule.  Bins that may not be released are
    masked too, as cliques of one column.  Rules over more than `MAX_CELLS` combinations, and rules that allow all, are
    left out.

    Parameters
    ----------
    schema
        The schema with its rules.
    domain
        The bins of its columns.

    Returns
    -------
    By clique, a mask of its cells, flat in C order; True where allowed.
    """
    zeros: dict[Clique, BoolArray] = {}
    for rule in rules_of(schema):
        columns = domain.index(*rule.names)
        if math.prod(domain.shape[j] for j in columns) > MAX_CELLS:
            continue
        possible = rule.possible([domain.axes[j] for j in columns])
        if not possible.all():
            clique = tuple(sorted(columns))
            flat = possible.transpose([columns.index(j) for j in clique]).ravel()
            zeros[clique] = zeros[clique] & flat if clique in zeros else flat
    hidden = {(j,): axis.releasable for j, axis in enumerate(domain.axes) if not axis.releasable.all()}
    return zeros | hidden


def _bins(axis: Axis, chosen: BoolArray) -> set[int]:
    """Return the codes of the bins that hold the releasable grid points of a mask: coarsening must leave them alone."""
    releasable = np.flatnonzero(chosen[: axis.grid.releasable])
    return {int(cell) for cell in axis.cells_of(releasable.astype(np.uint32))}
