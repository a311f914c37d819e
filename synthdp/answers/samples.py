"""Several synthetic tables that vary with the uncertainty about the private table, and the rule that combines them.

Tables drawn from one fitted model agree too closely, because they ignore the error of the model.  Here each table is
drawn from a model of its own.  All is post-processing of a release.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from synthdp.answers.bootstrap import Bootstrap
from synthdp.answers.direct import GLSEstimates
from synthdp.arrays import FloatArray
from synthdp.checks import check_number, check_whole
from synthdp.domain.refinement import Refinement
from synthdp.errors import ParameterError
from synthdp.measurements import Measurements
from synthdp.randomness import Generator, RandomState, generator
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.tables.results import dataframe

FEWEST = 2
"""Fewest synthetic tables that can be combined.  Derived: a variance needs two."""

LEAST_FITTED = 0.1
"""Smallest divisor of the ratio drawn / fitted, as a fraction of the mean fitted weight of a point.  A safety limit: no
point gets more than ten times the mean weight for one drawn row.  On six columns of Adult a few points have all the
weight with 1e-6: an effective 1 to 300 of 12 000.  With .1 a quarter of the points has it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replicate:
    """Holds two models from one bootstrap replicate: a plausible private table, and a plausible release.

    Parameters
    ----------
    likely
        A plausible private table; it differs from the released model as the replicate's table differs from its fit.
    fitted
        A plausible release; it differs from the released model as the released model differs from the truth.
    """

    likely: SyntheticModel
    fitted: SyntheticModel


def replicates_of(
    model: SyntheticModel, measurements: Sequence[Measurements], m: int, *, random_state: RandomState = None
) -> Iterator[Replicate]:
    """Yield ``m`` bootstrap replicates of a release, so that tables drawn from them vary with the uncertainty.

    Each replicate is a table drawn from the model, and the fit of a release to that table.  The private table is taken
    to relate to the released model as the drawn table relates to its fit.  So the model's points are reweighted by the
    ratio drawn / fitted.  The drawn tables contain no extra relations of the error bars, because the ratio already
    includes such errors.

    Raises
    ------
    ParameterError
        If ``m`` is below 2, or the release stores no noisy tables.
    """
    check_whole("m", m, least=FEWEST)
    direct, rng = GLSEstimates(model, tuple(measurements)), generator(random_state)
    if direct.leaves(0) is None:
        raise ParameterError(
            "this release keeps no noisy marginals, so the error of an estimate cannot be found: draw rows "
            "with sample()"
        )
    bootstrap = Bootstrap(direct, int(rng.integers(2**31)), size=m)
    found = bootstrap.replicates
    for r in range(1, m + 1):
        fitted, drawn_rows = found.fitted[:, r], found.drawn[:, r - 1]
        weights = drawn_rows / np.maximum(fitted, LEAST_FITTED * float(fitted.mean()))
        drawn = tuple(_drawn(direct, j, rng) for j in range(len(model.domain)))
        counts = [bootstrap.leaf_counts(j)[:, r] for j in range(len(model.domain))]
        refitted = tuple(replace(one, weights=own) for one, own in zip(model.refinements, counts, strict=True))
        yield Replicate(
            likely=replace(model.with_rows(found.codes, weights), refinements=drawn),
            fitted=replace(model.with_rows(found.codes, fitted), refinements=refitted),
        )


def _drawn(direct: GLSEstimates, column: int, rng: Generator) -> Refinement:
    """Return a column's refinement with random fine-bin counts: the noisy counts plus normal noise of their errors.

    Samples then differ by as much as the counts are uncertain.  A model's count replaces a smaller noisy count, and no
    sum is below 0.  A column that was not measured keeps its own counts.
    """
    refinement, leaves = direct.model.refinements[column], direct.leaves(column)
    if leaves is None:
        return refinement
    noise = np.sqrt(np.maximum(leaves.variance, 0.0)) * rng.standard_normal(len(refinement.weights))
    counts = np.maximum(np.maximum(refinement.weights, leaves.counts) + noise, 0.0)
    return replace(refinement, weights=counts)


def combine(
    estimates: Any,
    variances: Any,
    *,
    level: float = 0.95,
    population: bool = False,
    n: float | None = None,
    rows: int | None = None,
) -> Any:
    """Return estimates from several synthetic tables of one release, combined by the rule for fully synthetic data.

    Let q be the mean of m estimates, b their variance, and u the mean of their own variances.  As an estimate for the
    private rows, q has the error variance ``(1 + 1/m) b - u`` (Raghunathan, Reiter and Rubin 2003).  Student's t has
    the degrees of freedom ``(m - 1) (1 - u / ((1 + 1/m) b)) ** 2`` (Reiter 2002).  If chance makes the variance
    negative, ``(1 + 1/m) b`` is used, which is too large.

    With ``population=True``, q is an estimate for a population; the n private rows are a simple random sample of it.
    For tables of k rows, the variance is ``(1 + 1/m) b - u + u k / n``.  The term ``u k / n`` is the sampling variance
    of n rows.  With k = n, as `Release.samples` draws, the variance is ``(1 + 1/m) b``, and the variances u have no
    effect.

    Parameters
    ----------
    estimates
        (m,) or (m, q) estimates, from each of the tables that ``release.samples(m)`` returned.
    variances
        The same shape: squared standard errors of each table's analysis, as if its rows were a random sample.
    level
        Coverage of the intervals, 0 < level < 1.
    population
        Whether intervals hold for the population, or for the private rows alone.
    n
        Number of private rows, or its noisy estimate; with ``population`` only.
    rows
        Rows of each synthetic table, k; default: n.

    Returns
    -------
    A pandas DataFrame with one row for each estimate: estimate, standard_error, lower, upper.

    Raises
    ------
    ParameterError
        If there are fewer than 2 tables or the shapes differ.  If a number is not finite or a variance is negative.  If
        ``population`` is True without ``n``, or False with ``n``.

    Examples
    --------
    >>> import synthdp as sd
    >>> sd.combine([1.0, 1.2, 0.8, 1.1], [0.01, 0.01, 0.01, 0.01]).round(2).to_dict("records")[0]["standard_error"]
    0.16
    >>> found = sd.combine([1.0, 1.2, 0.8, 1.1], [0.01, 0.01, 0.01, 0.01], population=True, n=2000)
    >>> found.round(2).to_dict("records")[0]["standard_error"]
    0.19
    """
    values, within = (_numbers(name, given) for name, given in (("estimates", estimates), ("variances", variances)))
    if values.shape != within.shape:
        raise ParameterError(
            f"variances hold {within.size} numbers and estimates {values.size}: give one variance for each estimate"
        )
    if (within < 0).any():
        raise ParameterError("variances must not be negative")
    if not 0 < level < 1:
        raise ParameterError(f"level ({level}) must be above 0 and below 1")
    found = intervals(values, within, level=level, missing=_missing(population, n, rows))
    return dataframe({
        "estimate": found.estimate, "standard_error": found.stddev, "lower": found.estimate - found.reach,
        "upper": found.estimate + found.reach,
    })  # fmt: skip


def _missing(population: bool, n: float | None, rows: int | None) -> float:
    """Return the factor c in the combined variance ``(1 + 1/m) b - c u`` of `combine`.

    The variance b between tables includes u, the sampling variance of a synthetic table's rows.  For private rows alone
    all of it is taken off, c = 1.  For a population the sampling variance of the n private rows, ``u rows / n``, stays:
    c = 1 - rows / n, or 0 without ``rows``, as those are n by default.
    """
    if not population:
        if n is not None or rows is not None:
            raise ParameterError("n and rows apply with population=True only: leave n and rows out")
        return 1.0
    if n is None:
        raise ParameterError("population=True needs n, the number of private rows or its noisy estimate")
    check_number("n", n, least=1)
    if rows is None:
        return 0.0
    check_whole("rows", rows, least=1)
    return 1.0 - rows / n


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Combined:
    """Holds estimates combined over tables, (q,) each.

    ``reach`` is half the width of the interval; ``freedom`` are the degrees of freedom.
    """

    estimate: FloatArray
    stddev: FloatArray
    reach: FloatArray
    freedom: FloatArray


def intervals(values: FloatArray, within: FloatArray, *, level: float, missing: float) -> Combined:
    """Return combined estimates, from (m, q) estimates and variances, with error variance ``(1 + 1/m) b - missing u``.

    Here b is the variance of the m estimates, u the mean of their own variances, and ``missing`` the factor of u in
    `combine`: 1, or 1 - k / n for a population.

    The degrees of freedom are ``(m - 1) (1 - missing u / ((1 + 1/m) b)) ** 2``, with u taken as exact.  If chance makes
    the variance negative, ``(1 + 1/m) b`` is used with the normal distribution.
    """
    m = len(values)
    between, mean = (1 + 1 / m) * values.var(axis=0, ddof=1), missing * within.mean(axis=0)
    known = between > mean
    variance = np.where(known, between - mean, between)
    part = np.divide(mean, between, out=np.zeros(len(between)), where=known)
    freedom = np.where(known, np.maximum((m - 1) * (1 - part) ** 2, 1.0), np.inf)
    quantile = np.where(known, stdtrit(np.where(known, freedom, 1.0), 0.5 + level / 2), ndtri(0.5 + level / 2))
    stddev = np.sqrt(variance)
    return Combined(estimate=values.mean(axis=0), stddev=stddev, reach=quantile * stddev, freedom=freedom)


def _numbers(name: str, given: Any) -> FloatArray:
    """Return finite numbers as (m, q), one row per table; raise ParameterError for anything else."""
    try:
        found = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise ParameterError(f"{name} must be numbers, one per table") from None
    if found.ndim not in (1, 2) or len(found) < FEWEST or not np.isfinite(found).all():
        raise ParameterError(
            f"{name} must hold finite numbers for {FEWEST} or more tables: one number, or one row of numbers, per table"
        )
    return found.reshape(len(found), -1)


MEDIAN = math.pi / 2
"""Variance of the median of normal numbers, as a multiple of the variance of their mean.  It is the error of a bias
that is a median over tables.  Derived: π / 2."""

READ = (
    "a number, a dict or pandas Series of numbers, a pair (estimates, variances), a result of statsmodels, or a fitted "
    "linear model of scikit-learn"
)
"""Allowed results of an analysis function, as error messages list them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimates:
    """Holds the names, values and variances of the estimates of an analysis of one table.

    Parameters
    ----------
    names
        Names of the q estimates.
    values
        (q,) the estimates.
    variances
        (q,) squared standard errors, as in a random sample of the table's size; ``None`` if the analysis has none.
    """

    names: tuple[str, ...]
    values: FloatArray
    variances: FloatArray | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Analysis:
    """Holds the combined estimates of an analysis of several synthetic tables of one release.

    Parameters
    ----------
    names
        Names of the q estimates.
    estimate, standard_error, reach, freedom
        (q,) each: the estimate, its standard error, half width of its interval, and degrees of freedom of Student's t.
    level
        Coverage of the intervals.
    tables, rows, n
        Number of tables, rows of each table, and approximate number of private rows.
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
        """Return a DataFrame with one row per estimate: estimate, standard_error, t, p_value, lower, upper.

        The p-value is for the hypothesis that the true value is 0.
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
        """Return one sentence on the intervals: level, population or private rows, and number of tables."""
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
        """Return the table and what it covers as HTML, for notebooks."""
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
    """Run an analysis on several synthetic tables of one release, and return the combined results with standard errors.

    The spread over tables that are plausible private tables is the error.  The bias of the release is estimated by the
    basic bootstrap: the median over fitted tables minus the released estimate.  The estimate is corrected by this bias.
    The size of the correction is added to the error, because the bootstrap world is as simple as the model.

    Parameters
    ----------
    function
        The analysis of one table; see `Release.analyse` for its allowed results.
    likely, fitted
        (m,) tables, one from each model that `replicates_of` yielded.
    released
        A table of the released model.
    rows
        Number of rows of each table.
    n
        Number of private rows, or its noisy estimate.
    population
        Whether intervals hold for the population or for the private rows alone.
    level
        Coverage of the intervals.

    Raises
    ------
    ParameterError
        If the function's result cannot be read, differs in names between tables, or is not finite.  Also if it has no
        variances although the intervals need them.
    """
    if not callable(function):
        raise ParameterError("function must be a function that takes one table")
    if not 0 < level < 1:
        raise ParameterError(f"level ({level}) must be above 0 and below 1")
    found, others = ([estimates_of(function(table)) for table in some] for some in (likely, [released, *fitted]))
    if len({one.names for one in (*found, *others)}) > 1:
        raise ParameterError(
            "function must return estimates with the same names for every table, even where a category has no row"
        )
    values, (shown, *refitted) = np.stack([one.values for one in found]), [one.values for one in others]
    if not np.isfinite([*values, shown, *refitted]).all():
        raise ParameterError("function must return finite numbers for every table")
    missing = 1.0 - rows / n if population else 1.0
    if round(n) == rows and population:
        missing = 0.0
    within = [one.variances for one in found]
    if missing != 0.0 and any(one is None for one in within):
        raise ParameterError(
            "function must return variances too, as a pair (estimates, variances): return this pair, or leave rows out and "
            "set population=True"
        )
    known = np.stack([np.zeros_like(v) if one is None else one for one, v in zip(within, values, strict=True)])
    if not np.isfinite(known).all() or (known < 0).any():
        raise ParameterError("function must return variances that are finite and not negative")
    combined, m = intervals(values, known, level=level, missing=missing), len(likely)
    correction = shown - np.median(refitted, axis=0)
    sampled = combined.stddev**2 * (1 + MEDIAN / m) / (1 + 1 / m)
    stddev = np.sqrt(sampled + correction**2)
    wider = np.divide(stddev, combined.stddev, out=np.ones(len(stddev)), where=combined.stddev > 0)
    return Analysis(
        names=found[0].names, estimate=shown + correction, standard_error=stddev, reach=combined.reach * wider,
        freedom=combined.freedom, level=level, tables=m, rows=rows, n=n, population=population,
    )  # fmt: skip


def estimates_of(result: Any) -> Estimates:
    """Return the estimates in the result of an analysis; the library of the result is not imported.

    Raises
    ------
    ParameterError
        If the result is of no supported kind.
    """
    if hasattr(result, "params") and hasattr(result, "bse"):
        named = _named(result.params, "parameter", getattr(getattr(result, "model", None), "exog_names", None))
        return Estimates(names=named.names, values=named.values, variances=np.square(_as_floats(result.bse)))
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
            raise ParameterError(f"function must return {READ}, not a tuple of {len(result)}")
        named, variances = _named(result[0], "estimate", None), _as_floats(result[1])
        if variances.shape != named.values.shape:
            raise ParameterError("function must return one variance per estimate")
        return Estimates(names=named.names, values=named.values, variances=variances)
    return _named(result, "estimate", None)


def _named(given: Any, kind: str, names: Any) -> Estimates:
    """Return numbers with names: their own names, else the given names if the number fits, else numbered names."""
    if isinstance(given, Mapping):
        own, values = [str(name) for name in given], _as_floats(list(given.values()))
    else:
        own = [str(name) for name in given.index] if hasattr(given, "index") and hasattr(given, "to_numpy") else []
        values = _as_floats(given)
    if not own and names is not None and len(names) == len(values):
        own = [str(name) for name in names]
    if len(own) != len(values):
        own = [kind] if len(values) == 1 else [f"{kind} {number}" for number in range(1, len(values) + 1)]
    return Estimates(names=tuple(own), values=values, variances=None)


def _as_floats(given: Any) -> FloatArray:
    """Return numbers as a flat array; raise ParameterError for anything else."""
    try:
        return np.asarray(given, np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise ParameterError(f"function must return {READ}, not {type(given).__name__}") from None
