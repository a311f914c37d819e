"""One analysis of several synthetic tables, with intervals that know of the noise: what `Release.analyse` returns.

Post-processing of a release.  An analysis is any function of a table; what it returns is read as estimates, with their
variances where it has some.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtr

from synthdp.answers.samples import intervals
from synthdp.arrays import FloatArray
from synthdp.errors import ParameterError
from synthdp.tables.results import dataframe

MEDIAN = math.pi / 2
"""Derived: the variance of a median of normal numbers, as a multiple of that of their mean."""

READ = (
    "a number, a dict or pandas Series of numbers, a pair (estimates, variances), a result of statsmodels, or a fitted "
    "linear model of scikit-learn"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimates:
    """What an analysis found in one table.

    Parameters
    ----------
    names
        Of the q estimates.
    values
        (q,) the estimates.
    variances
        (q,) their squared standard errors in a random sample of the table's size; ``None`` where the analysis has none.
    """

    names: tuple[str, ...]
    values: FloatArray
    variances: FloatArray | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Analysis:
    """Estimates from several synthetic tables of one release, combined.

    Parameters
    ----------
    names
        Of the q estimates.
    estimate, standard_error, reach, freedom
        (q,) each: the estimate, its standard error, half of its interval, and the degrees of freedom of Student's t.
    level
        Of the intervals.
    tables, rows, n
        How many tables of how many rows from a release of about how many private rows.
    population
        Whether the intervals hold for the population or for the private rows alone.
    """

    names: tuple[str, ...]
    estimate: FloatArray
    standard_error: FloatArray
    reach: FloatArray
    freedom: FloatArray
    level: float
    tables: int
    rows: int
    n: float
    population: bool

    @property
    def table(self) -> Any:
        """A pandas DataFrame, one row for each estimate: estimate, standard_error, t, p_value, lower, upper.

        The p-value is that of the hypothesis that the true value is 0.
        """
        t = np.divide(
            self.estimate, self.standard_error, out=np.full(len(self.names), np.nan), where=self.standard_error > 0
        )
        found = dataframe({
            "estimate": self.estimate, "standard_error": self.standard_error, "t": t,
            "p_value": 2 * stdtr(np.where(np.isfinite(self.freedom), self.freedom, 1e9), -np.abs(t)),
            "lower": self.estimate - self.reach, "upper": self.estimate + self.reach,
        })  # fmt: skip
        found.index = list(self.names)
        return found

    @property
    def covers(self) -> str:
        """What the intervals cover, in one sentence."""
        whom = (
            "the population, if the private rows are a simple random sample of it" if self.population else
            "the private rows, and not a population that they are a sample of"
        )  # fmt: skip
        return (
            f"{100 * self.level:g} % intervals for {whom}; from {self.tables} synthetic tables of {self.rows:,} rows of a "
            f"release of about {round(self.n):,} private rows"
        )

    def __str__(self) -> str:
        return f"{self.table.to_string(float_format=lambda value: f'{value:.4g}')}\n{self.covers}"

    def _repr_html_(self) -> str:
        """Return the table with what it covers, for a notebook."""
        return f"{self.table.to_html(float_format=lambda value: f'{value:.4g}')}<p>{self.covers}</p>"


def analysed(
    function: Callable[[Any], Any],
    *,
    likely: Sequence[Any],
    fitted: Sequence[Any],
    released: Any,
    rows: int,
    n: float,
    population: bool,
    level: float,
) -> Analysis:
    """Return what a function finds in several synthetic tables of one release, combined.

    The spread of the estimates in tables that are likely as the private one is the error.  What a fit makes of its table is
    what the release has made of the private rows: the median of the estimates in fitted tables lies as far from the
    released one as that from the truth, and the estimate is moved back by as much (the basic bootstrap).

    Parameters
    ----------
    function
        Of one table; see `Release.analyse` for what it may return.
    likely, fitted
        (m,) tables each of the models that `replicates_of` gave.
    released
        A table of the released model.
    rows
        Of each table.
    n
        Number of private rows, or its noisy estimate.
    population
        Whether intervals hold for the population or for the private rows alone.
    level
        Of the intervals.

    Raises
    ------
    ParameterError
        If what the function returns cannot be read, differs in length between tables, is not finite, or has no variances
        where the intervals need them.
    """
    if not callable(function):
        raise ParameterError("function must be a function of one table")
    if not 0 < level < 1:
        raise ParameterError(f"level ({level}) must be above 0 and below 1")
    found, others = ([estimates_of(function(table)) for table in some] for some in (likely, [released, *fitted]))
    if len({one.names for one in (*found, *others)}) > 1:
        raise ParameterError("function must return the same estimates for every table: fix the levels of categories")
    values, (shown, *refitted) = np.stack([one.values for one in found]), [one.values for one in others]
    if not np.isfinite([*values, shown, *refitted]).all():
        raise ParameterError("function must return finite numbers for every table")
    missing = 1.0 - rows / n if population else 1.0
    if round(n) == rows and population:
        missing = 0.0
    within = [one.variances for one in found]
    if missing != 0.0 and any(one is None for one in within):
        raise ParameterError(
            "function must return variances too, as a pair (estimates, variances): without them there are intervals for a "
            "population only, from tables of as many rows as the private one (population=True, rows=None)"
        )
    known = np.stack([np.zeros_like(v) if one is None else one for one, v in zip(within, values, strict=True)])
    if not np.isfinite(known).all() or (known < 0).any():
        raise ParameterError("variances must be finite and not negative")
    combined = intervals(values, known, level=level, missing=missing)
    m = len(likely)
    more = math.sqrt((1 + MEDIAN / m) / (1 + 1 / m))
    return Analysis(
        names=found[0].names, estimate=2 * shown - np.median(refitted, axis=0), standard_error=combined.stddev * more,
        reach=combined.reach * more, freedom=combined.freedom, level=level, tables=m, rows=rows, n=n, population=population,
    )  # fmt: skip


def estimates_of(result: Any) -> Estimates:
    """Return what an analysis returned as estimates; nothing is imported for it.

    Raises
    ------
    ParameterError
        If it is none of the kinds that are read.
    """
    if hasattr(result, "params") and hasattr(result, "bse"):
        named = _named(result.params, "parameter", getattr(getattr(result, "model", None), "exog_names", None))
        return Estimates(names=named.names, values=named.values, variances=np.square(_numbers(result.bse)))
    if hasattr(result, "coef_"):
        coefficients = _named(result.coef_, "coefficient", getattr(result, "feature_names_in_", None))
        start = _named(getattr(result, "intercept_", ()), "intercept", None)
        names = ("intercept",) if len(start.names) == 1 else start.names
        return Estimates(
            names=(*names, *coefficients.names),
            values=np.concatenate([start.values, coefficients.values]),
            variances=None,
        )
    if isinstance(result, tuple):
        if len(result) != 2:
            raise ParameterError(f"function must return {READ}, not {len(result)} things")
        named, variances = _named(result[0], "estimate", None), _numbers(result[1])
        if variances.shape != named.values.shape:
            raise ParameterError("function must return as many variances as estimates")
        return Estimates(names=named.names, values=named.values, variances=variances)
    return _named(result, "estimate", None)


def _named(given: Any, kind: str, names: Any) -> Estimates:
    """Return numbers with names: their own, the given ones if there are as many, else counted ones."""
    if isinstance(given, Mapping):
        own, values = [str(name) for name in given], _numbers(list(given.values()))
    else:
        own = [str(name) for name in given.index] if hasattr(given, "index") and hasattr(given, "to_numpy") else []
        values = _numbers(given)
    if not own and names is not None and len(names) == len(values):
        own = [str(name) for name in names]
    if len(own) != len(values):
        own = [kind] if len(values) == 1 else [f"{kind} {number}" for number in range(1, len(values) + 1)]
    return Estimates(names=tuple(own), values=values, variances=None)


def _numbers(given: Any) -> FloatArray:
    try:
        return np.asarray(given, np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise ParameterError(f"function must return {READ}, not {type(given).__name__}") from None
