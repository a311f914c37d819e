"""Questions that a user can ask of a release: counts, shares, sums, means, quantiles, regressions and others.

Questions are plain data; other modules of `synthdp.answers` compute the answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from synthdp.answers.expressions import Node, parse
from synthdp.arrays import FloatArray
from synthdp.checks import check_whole
from synthdp.errors import ParameterError

MOST_TERMS = 30
"""Most terms of a regression formula. A safety limit of time: a fit needs all products of two terms."""

_PIECE = re.compile(r"\s*(?:`(?P<quoted>[^`]+)`|(?P<word>[^\W\d](?:[\w.]|-(?=\w))*)|(?P<sign>[~+]))")
"""Pattern of one token of a regression formula: a name in backticks, a plain name, or a sign."""

NO_MORE = (
    "a formula may contain only column names, ~ and +, because interactions are not available and an intercept is always "
    "included: write it as in y ~ a + b"
)
"""Error text on the allowed contents of a formula."""


class Formula(NamedTuple):
    """Holds a parsed regression formula: the response column and the predictor columns."""

    response: str
    terms: tuple[str, ...]


def parse_formula(text: str) -> Formula:
    """Return the columns of a formula ``response ~ term + term``.

    A name with characters other than letters, digits, ``_``, ``.`` and inner ``-`` must be in backticks.

    Raises
    ------
    ParameterError
        If the text is no formula; the message names the position.

    Examples
    --------
    >>> parse_formula("income ~ age + `years at school`").terms
    ('age', 'years at school')
    """
    if not isinstance(text, str) or not text.strip():
        raise ParameterError('a formula must be a text such as "income ~ age + sex"')
    pieces, at, end = [], 0, len(text.rstrip())
    while at < end:
        found = _PIECE.match(text, at)
        if found is None:
            raise _wrong(text, at, NO_MORE)
        pieces.append((found.start(str(found.lastgroup)), found["sign"], found["quoted"] or found["word"]))
        at = found.end()
    names = []
    for number, (position, sign, name) in enumerate(pieces):
        wanted = [None, "~"][number] if number < 2 else [None, "+"][number % 2]
        if sign != wanted:
            expected = {None: "the name of a column", "~": "'~'", "+": "'+'"}[wanted]
            raise _wrong(text, position, f"expected {expected}, found {sign or name!r}")
        names += [name] if name else []
    if len(pieces) == 1:
        raise _wrong(text, end, "expected '~', found the end of the text")
    if len(pieces) % 2 == 0:
        raise _wrong(text, end, "expected the name of a column after the last sign, found the end of the text")
    if len(set(names)) < len(names):
        raise ParameterError("a formula must name each column only once")
    if len(names) > 1 + MOST_TERMS:
        raise ParameterError(f"a formula must have at most {MOST_TERMS} terms, not {len(names) - 1}")
    return Formula(names[0], tuple(names[1:]))


def _wrong(text: str, at: int, what: str) -> ParameterError:
    """Return the error for a position in a formula; characters count from 1."""
    at += len(text[at:]) - len(text[at:].lstrip())
    return ParameterError(f"formula, character {at + 1}: {what}")


MOST_COLUMNS = 6
"""Most columns of a marginal, and most grouping columns. A safety limit: the cells of a table grow with every column,
and counts of seven columns would be mostly noise."""

Bins: TypeAlias = int | tuple[float, ...]
"""Type of the bins of a numeric column: a number of equal bins, or increasing ends."""

By: TypeAlias = str | Sequence[str]
"""Names of the columns by which rows are grouped."""


@dataclass(frozen=True, slots=True)
class Marginal:
    """A question for the number of rows with each combination of values of some columns; made by `marginal`."""

    columns: tuple[str, ...]
    bins: tuple[tuple[str, Bins], ...] = ()


@dataclass(frozen=True, slots=True)
class Count:
    """A question for the number of rows that meet a condition; made by `count`."""

    where: Node | None
    by: tuple[str, ...] = ()
    weight: str | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """A question for the fraction of rows that meet a condition, among the rows that meet another; made by `share`."""

    condition: Node
    where: Node | None
    by: tuple[str, ...] = ()
    weight: str | None = None


@dataclass(frozen=True, slots=True)
class Sum:
    """A question for the sum of a column over the rows that meet a condition; made by `sum`."""

    column: str
    where: Node | None
    by: tuple[str, ...] = ()
    weight: str | None = None


@dataclass(frozen=True, slots=True)
class Mean:
    """A question for the mean of a column over the rows that meet a condition; made by `mean`."""

    column: str
    where: Node | None
    by: tuple[str, ...] = ()
    weight: str | None = None


@dataclass(frozen=True, slots=True)
class Variance:
    """A question for the variance of a column over the rows that meet a condition; made by `variance`."""

    column: str
    where: Node | None
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Correlation:
    """A question for Pearson's correlation of two columns over the rows that meet a condition.

    The function `correlation` makes it.
    """

    columns: tuple[str, str]
    where: Node | None
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Regression:
    """A question for the least-squares coefficients of a regression over the rows that meet a condition.

    The function `regression` makes it.
    """

    formula: Formula
    where: Node | None
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Quantile:
    """A question for quantiles of a column over the rows that meet a condition; made by `quantile`."""

    column: str
    q: tuple[float, ...]
    where: Node | None
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Smooth:
    """A question for the mean over rows of a function of numeric columns scaled to [-1, 1]; made by `smooth`."""

    function: Callable[[FloatArray], FloatArray]
    columns: tuple[str, ...] | None


Moments: TypeAlias = Sum | Mean | Variance
"""Type of the questions whose answers are computed from sums of powers of one column."""

Question: TypeAlias = Marginal | Count | Share | Moments | Correlation | Regression | Quantile | Smooth
"""Type of all questions."""


def marginal(*columns: str | Sequence[str], bins: Mapping[str, Any] | int | None = None) -> Marginal:
    """Return a question for the table of counts of one or more columns.

    Parameters
    ----------
    columns
        Different names, at most six, as arguments or in one list.
    bins
        Bins of numeric columns: a number of equal bins, or a mapping from names to a number or to increasing ends.
        Bins are ``[a, b)``, and the last bin is closed.  Default: the coarse bins of the release.

    Examples
    --------
    >>> marginal("age", "income", bins={"age": [17, 30, 50, 91]}).columns
    ('age', 'income')
    """
    listed = columns[0] if len(columns) == 1 and isinstance(columns[0], (list, tuple)) else columns
    names = tuple(name for name in listed if isinstance(name, str))
    if len(names) < len(listed):
        raise ParameterError("the columns of a marginal must be given by their names, as text")
    if not 1 <= len(names) <= MOST_COLUMNS:
        raise ParameterError(f"a marginal needs 1 to {MOST_COLUMNS} different columns, not {len(names)}")
    if len(set(names)) < len(names):
        raise ParameterError("a marginal needs different columns: name each column only once")
    wished = dict.fromkeys(names, bins) if isinstance(bins, int) else dict(bins or {})
    for name in wished:
        if name not in names:
            raise ParameterError(f"bins names column {name!r}, which the marginal does not have: leave it out of bins")
    return Marginal(names, tuple((name, _bins(value)) for name, value in wished.items()))


def count(where: str | None = None, *, by: By = (), weight: str | None = None) -> Count:
    """Return a question for the number of rows that meet a condition, such as ``"age >= 40 and income == '>50K'"``.

    Without a condition, all rows are counted.

    Parameters
    ----------
    where
        A condition in the language of `synthdp.answers.expressions.parse`.
    by
        A column, or a list of columns, by whose values (or bins, as in `marginal`) rows are grouped; one answer per
        group.
    weight
        A survey weight column: the number of population units that a row represents.  The answer is then a total of
        the population.  The column's bounds must not be negative; rows without a weight count as 0.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> table = pd.DataFrame({"age": np.arange(3000) % 80, "member": np.arange(3000) % 3 == 0})
    >>> schema = sd.Schema({"age": sd.Integer(0, 100), "member": sd.Boolean()})
    >>> release = sd.SyntheticRelease(schema=schema).fit(table)
    >>> answer = release.answer(sd.count("age >= 40 and member == true"))
    >>> bool(abs(answer["estimate"][0] - 500) < 200)
    True
    """
    return Count(_parsed(where), _names(by), _weight(weight))


def mean(column: str, *, where: str | None = None, by: By = (), weight: str | None = None) -> Mean:
    """Return a question for the mean of a column, over all rows or the rows that meet a condition.

    Missing values are left out.  ``by`` and ``weight`` are as for `count`.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> table = pd.DataFrame({"age": np.arange(3000) % 80, "member": np.arange(3000) % 3 == 0})
    >>> schema = sd.Schema({"age": sd.Integer(0, 100), "member": sd.Boolean()})
    >>> release = sd.SyntheticRelease(schema=schema).fit(table)
    >>> answer = release.answer(sd.mean("age", where="member == true"))
    >>> bool(abs(answer["estimate"][0] - 39.5) < 5)
    True
    """
    return Mean(_name(column), _parsed(where), _names(by), _weight(weight))


def quantile(column: str, q: float | Sequence[float] = 0.5, *, where: str | None = None, by: By = ()) -> Quantile:
    """Return a question for quantiles of an ordered column, over all rows or the rows that meet a condition.

    Missing values are left out.

    Parameters
    ----------
    column
        A column of numbers, times or ordered categories.
    q
        One or more probabilities, each above 0 and below 1.
    where
        A condition.
    by
        A column, or a list of columns, to group by; see `count`.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> table = pd.DataFrame({"age": np.arange(3000) % 80, "member": np.arange(3000) % 3 == 0})
    >>> schema = sd.Schema({"age": sd.Integer(0, 100), "member": sd.Boolean()})
    >>> release = sd.SyntheticRelease(schema=schema).fit(table)
    >>> release.answer(sd.quantile("age", [0.25, 0.75])).shape[0]
    2
    """
    shares: tuple[float, ...] = ()
    with suppress(TypeError, ValueError):  # a text, or what else is no number
        shares = tuple(np.atleast_1d(np.asarray(q, np.float64)).ravel().tolist())
    if not shares or not all(0 < share < 1 for share in shares):
        raise ParameterError(f"q ({q!r}) must be above 0 and below 1")
    return Quantile(_name(column), shares, _parsed(where), _names(by))


def sum(column: str, *, where: str | None = None, by: By = (), weight: str | None = None) -> Sum:  # noqa: A001 - the word users know
    """Return a question for the sum of a column, over all rows or the rows that meet a condition; see `count`.

    Missing values are left out.  With ``weight``, each value is multiplied by its row's weight, for a total of the
    population.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> table = pd.DataFrame({"age": np.arange(3000) % 80, "member": np.arange(3000) % 3 == 0})
    >>> schema = sd.Schema({"age": sd.Integer(0, 100), "member": sd.Boolean()})
    >>> release = sd.SyntheticRelease(schema=schema).fit(table)
    >>> answer = release.answer(sd.sum("age", by="member"))
    >>> answer[["member", "basis"]].shape
    (2, 2)
    """
    return Sum(_name(column), _parsed(where), _names(by), _weight(weight))


def variance(column: str, *, where: str | None = None, by: By = ()) -> Variance:
    """Return a question for the variance of a numeric column, the mean squared deviation; parameters as for `sum`.

    The denominator is the number of rows, as in ``numpy.var``.  A measured variance has the standard error of a mean of
    squared deviations; the error of the mean itself is of second order.
    """
    return Variance(_name(column), _parsed(where), _names(by))


def share(condition: str, *, where: str | None = None, by: By = (), weight: str | None = None) -> Share:
    """Return a question for the fraction of rows that meet a condition, among all rows or the rows that meet ``where``.

    ``by`` and ``weight`` are as for `count`.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> table = pd.DataFrame({"age": np.arange(3000) % 80, "member": np.arange(3000) % 3 == 0})
    >>> schema = sd.Schema({"age": sd.Integer(0, 100), "member": sd.Boolean()})
    >>> release = sd.SyntheticRelease(schema=schema).fit(table)
    >>> answer = release.answer(sd.share("age >= 40", where="member == true"))
    >>> bool(abs(answer["estimate"][0] - 0.5) < 0.2)
    True
    """
    return Share(parse(condition), _parsed(where), _names(by), _weight(weight))


def correlation(first: str, second: str, *, where: str | None = None, by: By = ()) -> Correlation:
    """Return a question for Pearson's correlation of two numeric columns, over the rows in which neither is missing.

    The model answers.  Its columns are dependent between bins and independent within bins, so strong correlations come
    out somewhat too weak.  If the table of both columns was measured, its noisy counts correct a correlation of all rows.
    ``where`` and ``by`` are as for `count`.
    """
    if first == second:
        raise ParameterError("a correlation needs two different columns")
    return Correlation((_name(first), _name(second)), _parsed(where), _names(by))


def regression(formula: str, *, where: str | None = None, by: By = ()) -> Regression:
    """Return a question for the coefficients of a linear least-squares regression with an intercept.

    The model answers, from rows drawn from it; rows with a missing value in the formula's columns are left out.  The
    error is the error of the private rows' own coefficients.  It includes noise, shrinkage, chance and unmeasured relations,
    but no sampling error of the private rows.

    Parameters
    ----------
    formula
        ``response ~ term + term``: names of columns, in backticks if they contain more than letters, digits, ``_``,
        ``.`` and inner ``-``.  A categorical column has a coefficient for each level except the first, a Boolean column
        has one coefficient; columns of times are refused.
    where, by
        As for `count`.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> table = pd.DataFrame({"age": np.arange(3000) % 80, "member": np.arange(3000) % 3 == 0})
    >>> schema = sd.Schema({"age": sd.Integer(0, 100), "member": sd.Boolean()})
    >>> release = sd.SyntheticRelease(schema=schema).fit(table)
    >>> release.answer(sd.regression("age ~ member"))["term"].tolist()
    ['intercept', 'member']
    """
    return Regression(parse_formula(formula), _parsed(where), _names(by))


def smooth(function: Callable[[FloatArray], FloatArray], *, columns: Sequence[str] | None = None) -> Smooth:
    """Return a question for the mean of a function over all rows, whose numeric columns are points of [-1, 1]^d.

    Parameters
    ----------
    function
        Function from (m, d) points to (m,) values; a column's declared bounds become -1 and 1, missing values 0.
    columns
        The d columns; default: all numeric columns, in order.
    """
    if not callable(function):
        raise ParameterError(
            "function must be a function of one array, which has a row for each point and a column for each column of "
            "the question"
        )
    return Smooth(function, None if columns is None else tuple(columns))


def _parsed(where: str | None) -> Node | None:
    """Return a condition as a tree of comparisons, or None without one; a wrong text is so refused at once."""
    return None if where is None else parse(where)


def _names(by: By) -> tuple[str, ...]:
    """Return the names of grouping columns as a tuple; raise ParameterError for too many names or a repeated name."""
    if not isinstance(by, Iterable):
        raise ParameterError("by must be the name of a column, or a list of names")
    names = (by,) if isinstance(by, str) else tuple(by)
    if len(set(names)) < len(names) or len(names) > MOST_COLUMNS:
        raise ParameterError(f"by must name at most {MOST_COLUMNS} columns, each only once")
    return tuple(_name(name) for name in names)


def _name(column: object) -> str:
    """Return a column's name unchanged; raise ParameterError unless it is a text."""
    if not isinstance(column, str):
        raise ParameterError(f"a column must be given by its name, as text, not as {type(column).__name__}")
    return column


def _weight(column: object) -> str | None:
    """Return the name of the weight column, or None if there is none; raise ParameterError for anything else."""
    return None if column is None else _name(column)


def _bins(value: Any) -> Bins:
    """Return a number of bins, or increasing ends as floats; raise ParameterError for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        check_whole("bins", value)
        return value
    try:
        ends = tuple(float(end) for end in value)
    except (TypeError, ValueError):
        raise ParameterError("bins of a column must be a number of bins, or an increasing list of bin edges") from None
    if len(ends) < 2 or not all(a < b for a, b in pairwise(ends)):
        raise ParameterError("bins of a column must list two or more increasing bin edges, such as [0, 18, 65]")
    return ends
