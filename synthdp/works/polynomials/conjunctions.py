"""Queries about a few literals of a row: conjunctions, disjunctions, r-of-k, and any symmetric function.

A literal is a column and the value that it should have. `binarized` finds the bits of literals; a mechanism answers the
queries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from synthdp.checks import check_whole
from synthdp.errors import ParameterError
from synthdp.schema.columns import Level

Literals: TypeAlias = Mapping[str, Level | None]
"""Literals as a mapping from a column's name to the value that makes its literal true."""

MAX_LITERALS = 1000
"""Most literals of one query. A safety limit of time: a linear program over the numbers of true literals answers it."""


@dataclass(frozen=True, slots=True)
class SymmetricQuery:
    """The average over rows of a function of the number of true literals.

    Parameters
    ----------
    literals
        (column, value) pairs of k different columns; a literal is true where the column has the value.
    values
        (k + 1,) finite values of the function when 0, 1, ..., k literals are true.
    """

    literals: tuple[tuple[str, Level | None], ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "literals", tuple((str(name), value) for name, value in self.literals))
        object.__setattr__(self, "values", tuple(float(value) for value in self.values))
        names = [name for name, _ in self.literals]
        if not 1 <= self.k <= MAX_LITERALS or len(set(names)) < self.k:
            raise ParameterError(f"literals ({self.k}) must name 1 to {MAX_LITERALS} different columns")
        if len(self.values) != self.k + 1 or not all(math.isfinite(value) for value in self.values):
            raise ParameterError(
                f"values must be {self.k + 1} finite numbers, one for each number of true literals from 0 to {self.k}"
            )

    @property
    def k(self) -> int:
        """Return the number of literals."""
        return len(self.literals)


def conjunction(literals: Literals) -> SymmetricQuery:
    """Return the query for the fraction of rows where every literal is true.

    >>> conjunction({"smoker": 1, "male": 0}).values
    (0.0, 0.0, 1.0)
    """
    return r_of_k(literals, r=len(literals))


def disjunction(literals: Literals) -> SymmetricQuery:
    """Return the query for the fraction of rows where at least one literal is true.

    Examples
    --------
    >>> import synthdp as sd
    >>> sd.disjunction({"smoker": 1, "diabetic": 1}).values  # by how many of the two are true
    (0.0, 1.0, 1.0)
    """
    return r_of_k(literals, r=1)


def r_of_k(literals: Literals, *, r: int) -> SymmetricQuery:
    """Return the query for the fraction of rows where at least ``r`` literals are true.

    Raises
    ------
    ParameterError
        If ``r`` is not a whole number from 0 to the number of literals.

    Examples
    --------
    >>> import synthdp as sd
    >>> sd.r_of_k({"a": 1, "b": 1, "c": 0}, r=2).values
    (0.0, 0.0, 1.0, 1.0)
    """
    _check_count(r, literals)
    return symmetric(literals, lambda true: float(true >= r))


def exactly_r(literals: Literals, *, r: int) -> SymmetricQuery:
    """Return the query for the fraction of rows where exactly ``r`` literals are true.

    Raises
    ------
    ParameterError
        If ``r`` is not a whole number from 0 to the number of literals.

    Examples
    --------
    >>> import synthdp as sd
    >>> sd.exactly_r({"a": 1, "b": 1, "c": 0}, r=2).values
    (0.0, 0.0, 1.0, 0.0)
    """
    _check_count(r, literals)
    return symmetric(literals, lambda true: float(true == r))


def symmetric(literals: Literals, function: Callable[[int], float] | Sequence[float]) -> SymmetricQuery:
    """Return the query for the average of a function of the number of true literals.

    The function is a callable, or a list of its k + 1 values.
    """
    values = [function(true) for true in range(len(literals) + 1)] if callable(function) else list(function)
    return SymmetricQuery(tuple(literals.items()), tuple(values))


def _check_count(r: int, literals: Literals) -> None:
    """Raise ParameterError unless r is a whole number from 0 to the number of literals."""
    check_whole("r", r, least=0, most=len(literals))
