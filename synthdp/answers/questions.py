"""What a user may ask of a release: a marginal, a count, a mean, a quantile, an average of a smooth function.

Plain data; `synthdp.answers` knows how to answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from synthdp.answers.expressions import Node, parse
from synthdp.arrays import FloatArray
from synthdp.checks import check_whole
from synthdp.errors import ParameterError

MOST_COLUMNS = 6

Bins: TypeAlias = int | tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Marginal:
    """How many rows have each combination of values of some columns; made by `marginal`."""

    columns: tuple[str, ...]
    bins: tuple[tuple[str, Bins], ...] = ()


@dataclass(frozen=True, slots=True)
class Count:
    """How many rows meet a condition; made by `count`."""

    where: Node | None


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of a column over the rows that meet a condition; made by `mean`."""

    column: str
    where: Node | None


@dataclass(frozen=True, slots=True)
class Quantile:
    """The value below which a share of the rows that meet a condition lie; made by `quantile`."""

    column: str
    q: tuple[float, ...]
    where: Node | None


@dataclass(frozen=True, slots=True, eq=False)
class Smooth:
    """The average over rows of a function of numeric columns scaled to [-1, 1]; made by `smooth`."""

    function: Callable[[FloatArray], FloatArray]
    columns: tuple[str, ...] | None


Question: TypeAlias = Marginal | Count | Mean | Quantile | Smooth


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
        raise ParameterError("the columns of a marginal must be given by name")
    if not 1 <= len(names) <= MOST_COLUMNS or len(set(names)) < len(names):
        raise ParameterError(f"a marginal needs 1 to {MOST_COLUMNS} different columns, not {len(names)}")
    wished = dict.fromkeys(names, bins) if isinstance(bins, int) else dict(bins or {})
    for name in wished:
        if name not in names:
            raise ParameterError(f"bins names column {name!r}, which is not asked for")
    return Marginal(names, tuple((name, _bins(value)) for name, value in wished.items()))


def count(where: str | None = None) -> Count:
    """Ask how many rows meet a condition, such as ``"age >= 40 and income == '>50K'"``; without one, how many there are.

    Parameters
    ----------
    where
        A condition in the language of `synthdp.answers.expressions.parse`.

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
    return Count(None if where is None else parse(where))


def mean(column: str, *, where: str | None = None) -> Mean:
    """Ask for the mean of a column, missing values left out, perhaps over the rows that meet a condition only.

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
    return Mean(_name(column), None if where is None else parse(where))


def quantile(column: str, q: float | Sequence[float] = 0.5, *, where: str | None = None) -> Quantile:
    """Ask for quantiles of an ordered column, missing values left out, perhaps under a condition.

    Parameters
    ----------
    column
        A column of numbers, moments or ordered levels.
    q
        One or more shares, each above 0 and below 1.
    where
        A condition.

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
    return Quantile(_name(column), shares, None if where is None else parse(where))


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
        raise ParameterError("a smooth question needs a function of (m, d) points")
    return Smooth(function, None if columns is None else tuple(columns))


def _name(column: object) -> str:
    if not isinstance(column, str):
        raise ParameterError("a column must be given by name")
    return column


def _bins(value: Any) -> Bins:
    if isinstance(value, int) and not isinstance(value, bool):
        check_whole("bins", value)
        return value
    try:
        ends = tuple(float(end) for end in value)
    except (TypeError, ValueError):
        raise ParameterError("bins must be a number of cells or the increasing ends of cells") from None
    if len(ends) < 2 or any(a >= b for a, b in pairwise(ends)):
        raise ParameterError("bins must hold two or more increasing ends")
    return ends
