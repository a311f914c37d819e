"""Columns that are not modelled but computed from others in every released row: public knowledge, exact by construction."""

from __future__ import annotations

import ast
import decimal
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from synthdp.arrays import LARGEST_WHOLE, AnyArray
from synthdp.errors import SchemaError
from synthdp.schema.column import Column, Interval, Levels, Steps, is_finite_number
from synthdp.schema.constraints import Constraint, can_hold, declared_as, register, shown
from synthdp.schema.plain_values import plain

MOST_CHARACTERS = 1000
"""Most characters of an expression.  A safety limit, because it is parsed."""

MOST_PARTS = 200
"""Most nodes of an expression's syntax tree.  A safety limit, because it is evaluated recursively."""

MOST_VALUES = 100_000
"""Most values of a column that a lookup may use, since all must be listed.  A safety limit."""

LARGEST_CONSTANT = 1e300
"""Largest number in an expression, so that products of a few numbers stay finite.  A safety limit."""

_QUOTED = re.compile(r"`([^`]+)`")
"""A regular expression of a column name in backticks, for names that are not plain words."""

_EXAMPLE = (
    "use only numbers, column names (in backticks if they have spaces or signs), + - * / and ( ), as in "
    "'price * count + 2'"
)
"""The end of an error message, which says what an expression may contain."""


@register
@dataclass(frozen=True, slots=True)
class Derived(Constraint):
    """A rule: a column is computed from others in every row (an expression or a lookup), and so not modelled.

    The curator does not read it in the private table, which need not have it; nothing is spent on it.

    Parameters
    ----------
    column
        Name of a column that the schema declares; bounds or levels left open there follow from the sources'.
    expression
        Arithmetic of numeric columns: names (in backticks if they are not plain words), numbers, ``+ - * /`` and
        parentheses.  A whole number is computed from whole numbers, without ``/``.  A real number is computed in
        floats, operation by operation, and rounded to the ``decimals`` or ``step`` that the column declares.  It is
        missing where one of its sources is missing.
    of
        Name of the column that is looked up in ``values``, instead of an expression.
    values
        For every value that ``of`` may have, the value of this column, which it must be able to hold: between its bounds,
        on its ``step`` and with no more than its ``decimals``.  A missing value, unless ``None`` is listed, gives a missing
        one.

    Examples
    --------
    >>> from synthdp import Categorical, Derived, Integer, Schema
    >>> columns = {"state": Categorical(["CA", "NY"]), "name": Categorical(), "a": Integer(0, 9), "total": Integer()}
    >>> rules = [Derived("name", of="state", values={"CA": "California", "NY": "New York"}), Derived("total", "2 * a")]
    >>> schema = Schema(columns, constraints=rules)
    >>> list(schema), schema.outputs["total"]  # what is modelled, and what comes out beside it
    (['state', 'a'], Integer(lower=0, upper=18, nullable=False, special=()))
    """

    kind: ClassVar[str] = "derived"

    column: str
    expression: str | None = None
    of: str | None = None
    values: Mapping[Any, Any] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not isinstance(self.of, (str, type(None))):
            raise SchemaError("a Derived rule names columns by texts: correct column and of")
        if isinstance(self.values, Mapping):
            object.__setattr__(self, "values", {_plain(key): _plain(value) for key, value in self.values.items()})
        elif self.values is not None:
            object.__setattr__(self, "values", _pairs(self.column, self.values))

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the columns that the derived column is computed from.

        Raises
        ------
        SchemaError
            If the expression cannot be read.
        """
        if self.expression is None:
            return (str(self.of),)
        tree, names = _parsed(self.column, self.expression)
        found = [names.get(node.id, node.id) for node in ast.walk(tree) if isinstance(node, ast.Name)]
        return tuple(dict.fromkeys(found))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns that the derived column is computed from."""
        return self.sources

    def means(self) -> Sequence[Constraint]:
        """Return no rules: a value that is computed from its row cannot break one."""
        return ()

    def in_words(self) -> str:
        """Return the rule as a phrase for the receipt."""
        made = f"looked up by {self.of}" if self.expression is None else self.expression
        return f"{self.column} is {made}"


def completed(rule: Derived, declared: Mapping[str, Column], known: Mapping[str, Column]) -> Column:
    """Return a derived column with open bounds or levels filled in, after checking its rule.

    Parameters
    ----------
    rule
        The rule that computes it.
    declared
        All columns of the schema.
    known
        The columns that it may be computed from: modelled ones, and columns that earlier rules derive.

    Raises
    ------
    SchemaError
        If the column is not declared, or the rule cannot compute it.
    """
    name = rule.column
    if not isinstance(name, str) or name not in declared:
        raise SchemaError(
            f"a rule derives column {name!r}, which must be declared; the schema has: {', '.join(declared)}"
        )
    if name in known:
        raise SchemaError(f"column {name!r} is derived twice: keep one of the two")
    if (rule.expression is None) == (rule.of is None) or (rule.of is None) != (rule.values is None):
        raise SchemaError(f"derived column {name!r} needs an expression, or else both of= and values=")
    for source in rule.sources:
        if source not in known:
            why = "which the schema does not have: declare this column or correct the name"
            if source in declared:
                why = f"whose own rule comes later: list the rule of {source!r} first"
            if source == name:
                why = "which is this column itself: name other columns"
            raise SchemaError(f"column {name!r} is derived from {source!r}, {why}")
        if not known[source].is_complete:
            raise SchemaError(
                f"column {name!r} is derived from {source!r}, which has no declared bounds or levels: declare them"
            )
        if known[source].names_rows:
            raise SchemaError(
                f"column {name!r} is derived from {source!r}, an identifier, which has no values to compute with: "
                "name another column"
            )
    if rule.expression is not None:
        return _computed(rule, declared[name], known)
    return _looked_up(rule, declared[name], known[str(rule.of)])


def lookup(rule: Derived, value: object) -> Any:
    """Return the value that a rule's lookup lists for ``value``; as key and as result, ``None`` is a missing value."""
    return (rule.values or {}).get(value)


def compute(rule: Derived, values: Mapping[str, AnyArray], column: Column) -> AnyArray:
    """Return an expression's value in every row, (n,): exact 64-bit integers for whole numbers, else floats.

    Parameters
    ----------
    rule
        A rule that has an expression.
    values
        The numbers of the columns that it is computed from.
    column
        The derived column, complete.  With ``decimals`` or a ``step`` a real number is rounded to them, in its bounds.
    """
    kind = np.dtype(np.int64 if column.whole else np.float64)
    rows = len(next(iter(values.values())))
    tree, names = _parsed(rule.column, str(rule.expression))

    def leaf(node: Any) -> AnyArray:
        if isinstance(node, ast.Name):
            return values[names.get(node.id, node.id)].astype(kind)
        return np.full(rows, node.value, kind)

    with np.errstate(all="ignore"):  # missing ones may hold any number; `_computed` saw to the others
        found = np.asarray(_folded(tree.body, leaf, _OPERATIONS))
        match column.support():
            case Steps(first, last, size, offset, int(denominator)) as steps:
                return np.asarray(steps.value(np.clip(np.rint((found * denominator - offset) / size), first, last)))
    return found


def values_of(column: Column) -> list[Any]:
    """Return all values that a column with few values may have, with ``None`` for a missing one.

    A lookup must define a result for each of them.

    Raises
    ------
    SchemaError
        If they are too many to list.
    """
    match column.support():
        case Levels(levels):
            found: list[Any] = list(levels)
        case Steps(first, last) as steps if column.whole and last - first < MOST_VALUES:
            found = [*map(steps.value, range(first, last + 1)), *steps.special]
        case _:
            raise SchemaError(
                "of= of a derived column must name a column with levels, or one of whole numbers with at most "
                f"{MOST_VALUES} values"
            )
    return [*found, None] if column.nullable else found


def _looked_up(rule: Derived, column: Column, source: Column) -> Column:
    """Return a derived column that is filled by a lookup, with open levels or bounds set to cover the lookup's values.

    Raise SchemaError if the lookup is incomplete or does not fit the column.
    """
    name, table = rule.column, rule.values or {}
    if not column.labelled and column.quantity != "number":
        raise SchemaError(
            f"derived column {name!r} must have levels or numbers, because values= looks it up from another column"
        )
    if not all(value is None or isinstance(value, (str, bool)) or is_finite_number(value) for value in table.values()):
        raise SchemaError(f"the values of derived column {name!r} must be texts, finite numbers or booleans")
    possible = values_of(source)
    missing = [value for value in possible if value is not None and value not in table]
    if missing:
        raise SchemaError(
            f"values= of derived column {name!r} has no entry for {missing[0]!r} of column {rule.of!r}: add one"
        )
    unknown = [key for key in table if key is not None and key not in possible]
    if unknown:
        raise SchemaError(
            f"values= of derived column {name!r} has an entry for {unknown[0]!r}, which column {rule.of!r} cannot "
            "hold: remove it"
        )
    wanted = list(dict.fromkeys(lookup(rule, value) for value in possible))
    column = _covering(column, [value for value in wanted if value is not None])
    for value in wanted:
        if not can_hold(column, value):  # a lookup is a public list: a slip in it is shown, not rounded silently
            raise SchemaError(
                f"values= of derived column {name!r} contains {shown(value)}, which column {name!r} cannot "
                f"hold{declared_as(column)}: change values=, or declare this value in the column"
            )
    return column


def _covering(column: Column, values: Sequence[Any]) -> Column:
    """Return a column whose open bounds or levels are set to cover ``values``; a complete column is unchanged.

    Values are public, since the schema states the lookup.  Bounds stay open for values that are no numbers, and become
    0 and 1 for none.
    """
    if column.is_complete:
        return column
    if column.labelled:
        return replace(column, levels=tuple(values))
    if not all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        return column
    return _between(column, min(values, default=0), max(values, default=1))


def _computed(rule: Derived, column: Column, known: Mapping[str, Column]) -> Column:
    """Return a derived column that is filled by an expression, with open bounds set to the range of its results.

    Raise SchemaError if the sources are no numbers or a result may be out of bounds.
    """
    name, sources = rule.column, rule.sources
    if column.quantity != "number":
        raise SchemaError(f"derived column {name!r} is computed by an expression: declare it as a column of numbers")
    for source in sources:
        if known[source].quantity != "number" or (column.whole and not known[source].whole):
            words = "whole numbers" if column.whole else "numbers"
            raise SchemaError(f"derived column {name!r} is computed from {source!r}, which must be declared as {words}")
    if not sources:
        raise SchemaError(f"the expression of derived column {name!r} must name at least one column")
    if not column.nullable and any(known[source].nullable for source in sources):
        raise SchemaError(
            f"a column in the expression of derived column {name!r} is nullable: declare {name!r} with nullable=True"
        )
    tree, names = _parsed(name, str(rule.expression))
    whole = column.whole
    if whole and getattr(column, "step", None) is not None:
        raise SchemaError(
            f"derived column {name!r} is computed exactly in whole numbers, so it cannot be rounded to a step: "
            "remove its step"
        )

    def leaf(node: Any) -> _Range:
        numbers: list[Any] = (
            [node.value] if isinstance(node, ast.Constant) else _ends(known[names.get(node.id, node.id)])
        )
        if whole and not all(float(number).is_integer() for number in numbers):
            raise SchemaError(
                f"derived column {name!r} holds whole numbers: write whole numbers only in its expression, or "
                "declare it as Continuous"
            )
        exact = [int(number) if whole else float(number) for number in numbers]
        return _Range(name, min(exact), max(exact), whole)

    found = _folded(tree.body, leaf, _OPERATIONS)
    if not column.is_complete:
        return _between(column, found.low, found.high)
    lower, upper = _ends(column)[:2]
    if not lower <= found.low or not found.high <= upper:
        raise SchemaError(
            f"derived column {name!r} can take values from {found.low} to {found.high}, beyond its declared bounds: "
            "widen the bounds to these limits, or remove them"
        )
    return column


def _ends(column: Column) -> list[Any]:
    """Return the bounds and the special values of a numeric column, as a list; [] for other columns.

    All its values lie between the smallest and the largest.
    """
    match column.support():
        case Interval(lower, upper, special):
            return [lower, upper, *special]
        case Steps(first, last) as steps:
            return [steps.value(first), steps.value(last), *steps.special]
        case _:
            return []


def _between(column: Column, low: float, high: float) -> Column:
    """Return a numeric column with bounds; equal bounds are moved apart, because a column needs lower < upper."""
    return column.with_bounds(low, high if low < high else low + 1)


@dataclass(frozen=True, slots=True)
class _Range:
    """The range of values that a part of an expression may have, for interval arithmetic that refuses overflow."""

    name: str
    low: Any
    high: Any
    whole: bool

    def __post_init__(self) -> None:
        if self.whole and max(abs(self.low), abs(self.high)) > LARGEST_WHOLE:
            raise SchemaError(
                f"the expression of derived column {self.name!r} may exceed ±2**62: declare narrower bounds for the "
                "columns in it"
            )
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            raise SchemaError(
                f"the expression of derived column {self.name!r} may become infinite: declare narrower bounds for "
                "the columns in it"
            )

    def _with(self, *ends: Any) -> _Range:
        """Return the least range that contains ``ends``, the results at the ends of two ranges; SchemaError if too wide."""
        return _Range(self.name, min(ends), max(ends), self.whole)

    def __add__(self, other: _Range) -> _Range:
        return self._with(self.low + other.low, self.high + other.high)

    def __sub__(self, other: _Range) -> _Range:
        return self._with(self.low - other.high, self.high - other.low)

    def __neg__(self) -> _Range:
        return self._with(-self.low, -self.high)

    def __mul__(self, other: _Range) -> _Range:
        return self._with(*(a * b for a in (self.low, self.high) for b in (other.low, other.high)))

    def __truediv__(self, other: _Range) -> _Range:
        if self.whole:
            raise SchemaError(
                f"the expression of derived column {self.name!r} has a division: declare {self.name!r} as Continuous"
            )
        if other.low <= 0 <= other.high:
            raise SchemaError(
                f"derived column {self.name!r} divides by an expression that may be 0: give the columns in the "
                "divisor bounds that exclude 0"
            )
        return self._with(*(a / b for a in (self.low, self.high) for b in (other.low, other.high)))


_OPERATIONS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.USub: lambda a: -a,
    ast.UAdd: lambda a: a,
}
"""The function of each operator in an expression, for numbers, ranges and arrays alike."""


def _folded(node: ast.AST, leaf: Callable[[Any], Any], operations: Mapping[type[ast.AST], Callable[..., Any]]) -> Any:
    """Return the value of an expression's syntax tree, given a function for its leaves (numbers and column names)."""
    match node:
        case ast.BinOp(left, op, right):
            return operations[type(op)](_folded(left, leaf, operations), _folded(right, leaf, operations))
        case ast.UnaryOp(op, operand):
            return operations[type(op)](_folded(operand, leaf, operations))
        case _:
            return leaf(node)


def _parsed(column: str, expression: str) -> tuple[ast.Expression, dict[str, str]]:
    """Return an expression's syntax tree, and for each stand-in word in it the column name in backticks it replaces.

    Raise SchemaError for anything but arithmetic, because expressions come from files.
    """
    unread = SchemaError(f"the expression of derived column {column!r} cannot be read: {_EXAMPLE}")
    if not isinstance(expression, str) or len(expression) > MOST_CHARACTERS:
        raise unread
    names: dict[str, str] = {}
    unlike = "_"
    while unlike in expression:
        unlike += "_"

    def stand_in(found: re.Match[str]) -> str:
        word = f"{unlike}{len(names)}"
        names[word] = found[1]
        return word

    try:
        tree = ast.parse(_QUOTED.sub(stand_in, expression).strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise unread from None
    parts = list(ast.walk(tree))
    allowed = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Name, ast.Load, ast.Constant, *_OPERATIONS)
    constants: list[Any] = [part.value for part in parts if isinstance(part, ast.Constant)]
    if (
        len(parts) > MOST_PARTS
        or not all(isinstance(part, allowed) for part in parts)
        or not all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in constants)
        or not all(abs(one) <= LARGEST_CONSTANT for one in constants)
    ):
        raise unread
    return tree, names


def _pairs(column: str, values: object) -> dict[Any, Any]:
    """Return a lookup as a dict from a list of pairs, the form that JSON has."""
    pairs: list[Any] = list(values) if isinstance(values, Iterable) else [None]
    if not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs):
        raise SchemaError(
            f"values= of derived column {column!r} must be a dict that maps each value of the source column to a "
            f"value of {column!r}"
        )
    try:
        table = {_plain(key): _plain(value) for key, value in pairs}
    except TypeError:
        raise SchemaError(
            f"the source values in values= of derived column {column!r} must be texts, numbers or booleans"
        ) from None
    if len(table) < len(pairs):
        raise SchemaError(f"values= of derived column {column!r} lists a source value twice: keep one of the two")
    return table


def _plain(value: object) -> object:
    """Return a NumPy scalar or a decimal as a Python value, and anything else unchanged.

    Moments and lengths of time are unchanged too. A lookup cannot have them as values, so a later check refuses them.
    """
    if isinstance(value, (np.datetime64, np.timedelta64)):  # NumPy would make plain integers of nanoseconds
        return value
    return plain(value) if isinstance(value, (np.generic, decimal.Decimal)) and value == value else value
