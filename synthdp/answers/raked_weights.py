"""Survey weights of a synthetic table, raked to public totals of a population.

Post-processing of a published table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from synthdp.arrays import FloatArray, IntArray
from synthdp.errors import ParameterError

MOST_SWEEPS, MET, ALIKE = 1000, 1e-9, 1e-6
"""Limits of raking.  MOST_SWEEPS is the most passes over all totals, a safety limit of time.  Raking ends when no total
is missed by more than the fraction MET of the largest total of its set.  Raking fails if one is missed by more than the
fraction ALIKE of that largest total after the last pass.  It also fails if the sums of two sets differ by more than the
fraction ALIKE.  Both are numerical tolerances."""

LEAST = 1e-300
"""Smallest divisor, in place of 0.  A numerical tolerance."""


def rake_weights(table: Any, weight: str, totals: Mapping[Any, Any]) -> FloatArray:
    """Return the weights of a synthetic table, raked so that groups add up to public totals of the population.

    Each weight is multiplied by one factor per total.  Of all weights that match the totals, these are the nearest in
    relative entropy (iterative proportional fitting; Deville and Särndal 1992).  Raking costs nothing.  Answers of a
    release do not use the raked weights, only the noisy weights.

    Parameters
    ----------
    table
        A synthetic table: any object with a column's values in ``table[name]``, such as a dataframe.
    weight
        Name of its weight column; weights are above 0.
    totals
        Public numbers of population units, by column name or tuple of names.  Each is a Series or a mapping, by values
        of the column or tuples of values.

    Returns
    -------
    (n,) weights, in the order of the rows.

    Raises
    ------
    ParameterError
        If a total is missing, negative or has no row, totals contradict each other, or no weights match all totals.

    Examples
    --------
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> table = pd.DataFrame({"region": ["n", "n", "s"], "perwt": [10.0, 30.0, 50.0]})
    >>> sd.rake_weights(table, "perwt", {"region": {"n": 60, "s": 45}}).tolist()
    [15.0, 45.0, 45.0]
    """
    weights = np.array(np.asarray(table[weight]), np.float64)
    if not len(weights) or not np.isfinite(weights).all() or (weights <= 0).any():
        raise ParameterError(f"column {weight!r} must hold finite weights above 0, in at least one row")
    if not isinstance(totals, Mapping) or not totals:
        raise ParameterError(
            'totals must be a dict from columns to their totals, such as {"region": {"north": 60, "south": 45}}'
        )
    groups = [_group(table, (key,) if isinstance(key, str) else tuple(key), given) for key, given in totals.items()]
    sums = [float(wanted.sum()) for _, wanted in groups]
    if max(sums) - min(sums) > ALIKE * max(sums):
        raise ParameterError("all totals must have the same sum, because they describe one population")
    missed = math.inf
    for _ in range(MOST_SWEEPS):
        missed = 0.0
        for place, wanted in groups:
            found = np.bincount(place, weights, minlength=len(wanted))
            missed = max(missed, float(np.abs(found - wanted).max()) / max(float(wanted.max()), LEAST))
            weights = weights * np.divide(wanted, found, out=np.zeros(len(wanted)), where=found > 0)[place]
        if missed <= MET:
            return weights
    if missed > ALIKE:
        raise ParameterError(
            "no weights of these rows meet all totals, because some combinations of groups have no row: draw "
            "more rows, or merge groups"
        )
    return weights


def _group(table: Any, names: tuple[str, ...], given: Any) -> tuple[IntArray, FloatArray]:
    """Return each row's group, (n,), and each group's total, (groups,).

    A group is a combination of values of the columns ``names`` for which ``given`` has a public total.  Raise
    ParameterError for a row without a total, or a positive total without rows.
    """
    if not hasattr(given, "items"):
        raise ParameterError(f"totals of {_listed(names)} must be a dict or Series from values to numbers")
    known = [(value if isinstance(value, tuple) else (value,), count) for value, count in given.items()]
    wanted = np.array([float(count) for _, count in known])
    if not np.isfinite(wanted).all() or (wanted < 0).any() or not wanted.sum() > 0:
        raise ParameterError(f"totals of {_listed(names)} must be finite, at least 0 and not all 0")
    place_of = {value: i for i, (value, _) in enumerate(known)}
    columns = [np.asarray(table[name]).tolist() for name in names]
    try:
        place = np.array([place_of[row] for row in zip(*columns, strict=True)], np.int64)
    except KeyError as missing:
        raise ParameterError(
            f"totals of {_listed(names)} have no number for {_listed(missing.args[0])}, which rows of the table have: add it"
        ) from None
    empty = np.flatnonzero((np.bincount(place, minlength=len(known)) == 0) & (wanted > 0))
    if len(place_of) < len(known):
        raise ParameterError(f"totals of {_listed(names)} list a value twice: give one number for each value")
    if len(empty):
        raise ParameterError(
            f"totals of {_listed(names)} include {_listed(known[int(empty[0])][0])}, which no row of the table has: draw "
            "more rows, or merge this group with another"
        )
    return place, wanted


def _listed(values: Any) -> str:
    """Return names, or the values of a group, as an English list for a message."""
    return ", ".join(map(repr, values)) if isinstance(values, tuple) else repr(values)
