"""What a user may ask of a release: a marginal, counts, shares, sums, means, variances, quantiles, regressions.

Plain data; `synthdp.answers` knows how to answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from synthdp.answers.expressions import Node, parse
from synthdp.arrays import FloatArray
from synthdp.checks import check_whole
from synthdp.errors import ParameterError

MOST_TERMS = 30
"""Most terms of a regression formula.  A safety limit."""

_PIECE = re.compile(r"\s*(?:`(?P<quoted>[^`]+)`|(?P<word>[^\W\d](?:[\w.]|-(?=\w))*)|(?P<sign>[~+]))")
"""One piece of a regression formula: a name in backticks, a plain name, or a sign."""

NO_MORE = (
    "a formula may contain only column names, ~ and +, because interactions are not available and an intercept is always "
    "included: write it as in y ~ a + b"
)
"""What an error says that a formula may contain."""


class Formula(NamedTuple):
    """A parsed regression formula: the response column and the explaining columns."""

    response: str
    terms: tuple[str, ...]


def parse_formula(text: str) -> Formula:
    """Return the columns of ``response ~ term + term``; a name with other characters than letters stands in backticks.

    Raises
    ------
    ParameterError
        With one sentence that says where the text cannot be read.

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
    """Return the error for a place in a formula, whose characters are counted from 1."""
    at += len(text[at:]) - len(text[at:].lstrip())
    return ParameterError(f"formula, character {at + 1}: {what}")


MOST_COLUMNS = 6
"""Most columns of a marginal, and of groups.  A safety limit."""

Bins: TypeAlias = int | tuple[float, ...]

By: TypeAlias = str | Sequence[str]
"""Names of the columns by which rows are grouped."""


@dataclass(frozen=True, slots=True)
class Marginal:
    """How many rows have each combination of values of some columns; made by `marginal`."""

    columns: tuple[str, ...]
    bins: tuple[tuple[str, Bins], ...] = ()


@dataclass(frozen=True, slots=True)
class Count:
    """How many rows meet a condition; made by `count`."""

    where: Node | None
    by: tuple[str, ...] = ()
    weight: str | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """Which part of the rows that meet a condition meet another; made by `share`."""

    condition: Node
    where: Node | None
    by: tuple[str, ...] = ()
    weight: str | None = None


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of a column over the rows that meet a condition; made by `sum`."""

    column: str
    where: Node | None
    by: tuple[str, ...] = ()
    weight: str | None = None


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of a column over the rows that meet a condition; made by `mean`."""

    column: str
    where: Node | None
    by: tuple[str, ...] = ()
    weight: str | None = None


@dataclass(frozen=True, slots=True)
class Variance:
    """The variance of a column over the rows that meet a condition; made by `variance`."""

    column: str
    where: Node | None
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Correlation:
    """Pearson's correlation of two columns over the rows that meet a condition; made by `correlation`."""

    columns: tuple[str, str]
    where: Node | None
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Regression:
    """The least-squares coefficients of a column on others over the rows that meet a condition; made by `regression`."""

    formula: Formula
    where: Node | None
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Quantile:
    """The value below which a share of the rows that meet a condition lie; made by `quantile`."""

    column: str
    q: tuple[float, ...]
    where: Node | None
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Smooth:
    """The average over rows of a function of numeric columns scaled to [-1, 1]; made by `smooth`."""

    function: Callable[[FloatArray], FloatArray]
    columns: tuple[str, ...] | None


Moments: TypeAlias = Sum | Mean | Variance

Question: TypeAlias = Marginal | Count | Share | Moments | Correlation | Regression | Quantile | Smooth


def marginal(*columns: str | Sequence[str], bins: Mapping[str, Any] | int | None = None) -> Marginal:
    """Ask for the table of counts of one or more columns.

    Parameters
    ----------
    columns
        Different names, at most six; one list of names will do.
    bins
        For columns of numbers: a number of equal cells, or a mapping from names to a number or to increasing ends of
        cells ``[a, b)``, the last of them closed.  Default: the cells of the release, few and well filled.

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
    """Ask how many rows meet a condition, such as ``"age >= 40 and income == '>50K'"``; without one, how many there are.

    Parameters
    ----------
    where
        A condition in the language of `synthdp.answers.expressions.parse`.
    by
        A column, or a list of columns, by whose values (or cells, as in `marginal`) the rows are grouped: one answer each.
    weight
        A column of the schema that says for how many units of a population each row stands, as surveys have it: the
        answer is then a total of that population.  A column of numbers whose bounds are not negative; rows without a
        weight count nothing.

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
    """Ask for the mean of a column, missing values left out, perhaps over the rows that meet a condition only.

    ``by`` and ``weight`` as for `count`.

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
    """Ask for quantiles of an ordered column, missing values left out, perhaps under a condition.

    Parameters
    ----------
    column
        A column of numbers, moments or ordered levels.
    q
        One or more shares, each above 0 and below 1.
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
    shares = tuple(np.atleast_1d(np.asarray(q, np.float64)).tolist())
    if not shares or not all(0 < share < 1 for share in shares):
        raise ParameterError(f"q ({q}) must be above 0 and below 1")
    return Quantile(_name(column), shares, _parsed(where), _names(by))


def sum(column: str, *, where: str | None = None, by: By = (), weight: str | None = None) -> Sum:  # noqa: A001 - the word users know
    """Ask for the sum of a column, missing values left out, perhaps under a condition or by groups; see `count`.

    With ``weight`` the total of a population: every value counts as often as its row's weight says.

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
    """Ask for the variance of a column of numbers, the mean squared deviation; parameters as for `sum`.

    The number of rows is the denominator, as in ``numpy.var``.  Measured, it has the error of a mean of squared deviations:
    to first order the mean's own error does not matter.
    """
    return Variance(_name(column), _parsed(where), _names(by))


def share(condition: str, *, where: str | None = None, by: By = (), weight: str | None = None) -> Share:
    """Ask which part of the rows, or of those ``where`` something holds, meet a condition.

    ``by`` and ``weight`` as for `count`.

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
    """Ask for Pearson's correlation of two columns of numbers over the rows in which neither is missing.

    Answered by the model, whose pairs of columns know of each other what their cells show: within cells they are
    independent, so that strong correlations come out somewhat weaker.  ``where`` and ``by`` as for `count`.
    """
    if first == second:
        raise ParameterError("a correlation needs two different columns")
    return Correlation((_name(first), _name(second)), _parsed(where), _names(by))


def regression(formula: str, *, where: str | None = None, by: By = ()) -> Regression:
    """Ask for the coefficients of a linear regression by least squares, with an intercept.

    Answered by the model, from rows drawn from it; rows in which a column of the formula is missing are left out.  The
    error is the coefficient's as an estimate of the private rows' own: noise, shrinkage, chance, and
    relations that were not measured.  It is not the error about a population that these rows are a sample from.

    Parameters
    ----------
    formula
        ``response ~ term + term``: names of columns, in backticks where they hold more than letters, digits, ``_``,
        ``.`` and inner ``-``.  A column with levels has a coefficient for each level but the first, the column of truth
        values one; columns of times are refused.
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
    """Ask for the average over rows of a function of points.

    Parameters
    ----------
    function
        From (m, d) points of [-1, 1]^d to (m,) values; a column's declared bounds are -1 and 1, missing values 0.
    columns
        The d columns; default: all of numbers, in order.
    """
    if not callable(function):
        raise ParameterError(
            "function must be a function of one array, which has a row for each point and a column for each column of "
            "the question"
        )
    return Smooth(function, None if columns is None else tuple(columns))


def _parsed(where: str | None) -> Node | None:
    """Parse a condition; None where there is none."""
    return None if where is None else parse(where)


def _names(by: By) -> tuple[str, ...]:
    """Return the names of grouping columns as a tuple; raise ParameterError for too many, or one twice."""
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
    if len(ends) < 2 or any(a >= b for a, b in pairwise(ends)):
        raise ParameterError("bins of a column must list two or more increasing bin edges, such as [0, 18, 65]")
    return ends
