"""Survey weights of a synthetic table: raked to public totals of a population, or drawn towards their mean.

Post-processing of what a release published.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from synthdp.answers.questions import Mean, Share
from synthdp.arrays import FloatArray, IntArray
from synthdp.errors import ParameterError

MOST_SWEEPS, MET, ALIKE = 1000, 1e-9, 1e-6
"""Rounds over all totals at most, a safety limit of time; by which part of a total the last round may miss one; and by which
part sums of several totals may differ.  Numerical tolerances."""

LEAST = 1e-300
"""Stands for 0 where a positive divisor is needed.  A numerical tolerance."""


def rake_weights(table: Any, weight: str, totals: Mapping[Any, Any]) -> FloatArray:
    """Return the weights of a synthetic table, raked so that groups add up to public totals of the population.

    Each weight is multiplied by one factor for every total: of all weights that meet the totals these are the nearest in
    relative entropy (iterative proportional fitting; Deville and Särndal 1992).  It costs nothing.  Answers of a release do
    not know of it: their totals are the noisy ones.

    Parameters
    ----------
    table
        A synthetic table: what gives the values of a column by ``table[name]``, such as a dataframe.
    weight
        Its column of weights, above 0.
    totals
        A mapping from columns, a name or a tuple of names, to how many units of the population there are: a Series or a
        mapping, by values of the column or tuples of values.  They must be public.

    Returns
    -------
    (n,) weights, for the rows in order.

    Raises
    ------
    ParameterError
        If a total is missing, negative or of no row, totals contradict each other, or no weights of these rows meet them.

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
        raise ParameterError('totals must map columns to totals, as in {("region",): series}')
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
            "more rows, or join groups"
        )
    return weights


def weight_shrinkage(release: Any, weight: str, questions: Sequence[Any]) -> float:
    """Return how much of the differences between survey weights is worth its noise, 0 to 1, for some questions.

    Weights w in a synthetic table may be replaced by ``part * w + (1 - part) * w.mean()``, with the same sum.  A weighted
    share or mean then is ``part`` times the weighted one plus the rest times the unweighted one: this has a bias b, that one
    more noise.  With their variances v and u the squared error is least at ``(b^2 + u) / (b^2 + u + v)``, where b^2 is told
    from the squared difference of both answers less v and u.  Questions are pooled, each in parts of its v; errors of both
    answers are taken to be independent, which leaves more of the weights.  It costs nothing.

    Parameters
    ----------
    release
        Of a table with that weight.
    weight
        The column.
    questions
        One or more `share` or `mean` without a weight, those that the table is made for.

    Raises
    ------
    ParameterError
        If a question is none of these, or is weighted already.

    Examples
    --------
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> table = pd.DataFrame({"old": [True, False, False] * 500, "perwt": [90.0, 10.0, 10.0] * 500})
    >>> known = sd.Schema({"old": sd.Boolean()})
    >>> release = sd.SyntheticRelease(schema=known, weight="perwt", weight_bounds=(1, 100)).fit(table).release_
    >>> sd.weight_shrinkage(release, "perwt", [sd.share("old")]) > 0.9
    True
    """
    if not questions:
        raise ParameterError("questions must be one or more shares or means")
    real = noise = 0.0
    for question in questions:
        if not isinstance(question, Share | Mean) or question.weight is not None:
            raise ParameterError("questions must be shares or means, and none may have a weight of its own")
        plain, weighted = release.answer(question), release.answer(replace(question, weight=weight))
        u, v = (np.maximum(np.asarray(one["standard_error"], np.float64) ** 2, LEAST) for one in (plain, weighted))
        apart = np.asarray(plain["estimate"], np.float64) - np.asarray(weighted["estimate"], np.float64)
        real += float(((np.maximum(apart**2 - u - v, 0.0) + u) / v).sum())
        noise += len(v)
    return real / (real + noise)


def _group(table: Any, names: tuple[str, ...], given: Any) -> tuple[IntArray, FloatArray]:
    """Return the group of every row and the total of each; raise ParameterError unless each row and total has its other."""
    if not hasattr(given, "items"):
        raise ParameterError(f"totals of {names} must map values to numbers, as a Series does")
    known = [(value if isinstance(value, tuple) else (value,), count) for value, count in given.items()]
    wanted = np.array([float(count) for _, count in known])
    if not np.isfinite(wanted).all() or (wanted < 0).any() or not wanted.sum() > 0:
        raise ParameterError(f"totals of {names} must be finite, at least 0 and not all 0")
    place_of = {value: i for i, (value, _) in enumerate(known)}
    columns = [np.asarray(table[name]).tolist() for name in names]
    try:
        place = np.array([place_of[row] for row in zip(*columns, strict=True)], np.int64)
    except KeyError as missing:
        raise ParameterError(f"totals of {names} have no number for {missing.args[0]}") from None
    empty = np.flatnonzero((np.bincount(place, minlength=len(known)) == 0) & (wanted > 0))
    if len(place_of) < len(known):
        raise ParameterError(f"totals of {names} list a value twice")
    if len(empty):
        raise ParameterError(f"no row has {known[int(empty[0])][0]} in {names}: draw more rows, or join groups")
    return place, wanted
