"""A small language for conditions on one row, such as ``age >= 40 and income == '>50K'``.

Text is parsed, never executed.

Text becomes a tree of comparisons of one column with values.  A comparison becomes a set of grid points.  No row is
read.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from synthdp.arrays import AnyArray, BoolArray, FloatArray
from synthdp.domain.encoder import Numbers, decode
from synthdp.domain.grid import grid_of, labels_of
from synthdp.domain.values import Allowed
from synthdp.errors import ParameterError
from synthdp.schema.column import Column
from synthdp.schema.schema import Schema

MOST_CHARACTERS = 10_000
"""Most characters of an expression; longer ones are refused.  A safety limit of time."""
MOST_DEPTH = 50
"""Deepest nesting of parentheses and ``not`` in an expression.  A safety limit: each level is a recursive call."""
MOST_COMPARISONS = 200
"""Most comparisons in an expression.  A safety limit: each needs a mask over its column's grid points."""

Literal: TypeAlias = str | int | float | bool | None
"""Type of a value in an expression; None stands for null."""
Node: TypeAlias = "Comparison | Not | Both | Either"
"""Type of a condition: a comparison, or a combination of conditions."""

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
  | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
  | `(?P<quoted>[^`]+)`
  | (?P<word>[^\W\d](?:[\w.]|-(?=\w))*)
  | (?P<sign>==|!=|<=|>=|<|>|=|\(|\)|\[|\]|,)
    )""",
    re.VERBOSE,
)
"""Pattern of one token of an expression: a number, a text, a name in backticks, a plain name, or a sign."""

HINTS = {"&": "use 'and'", "|": "use 'or'", "!": "use 'not'", "~": "use 'not'"} | dict.fromkeys(
    "'\"`", "it needs another one"
)
"""Hints in error messages, for signs of pandas and C that the language lacks, and for unclosed quotes."""

_KEYWORDS = frozenset({"and", "or", "not", "in", "is", "null", "none", "true", "false"})
"""The reserved words of the language, in upper or lower case."""

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
"""By comparison sign, the function that computes it."""

_FLIPPED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""By comparison sign, the sign with the same meaning after the two sides are exchanged, for ``30 <= age``."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A node of a condition: a comparison of one column with one or more values.

    Parameters
    ----------
    column
        The name of the column.
    sign
        One of ``==  !=  <  <=  >  >=  in  is null``.
    values
        The values on the other side: any number for ``in``, none for ``is null``, else one.
    position
        Position of the comparison in the text, from 1.
    """

    column: str
    sign: str
    values: tuple[Literal, ...]
    position: int


@dataclass(frozen=True, slots=True)
class Not:
    """A node of a condition that is true where ``part`` is false."""

    part: Node


@dataclass(frozen=True, slots=True)
class Both:
    """A node of a condition that is true where both parts are true (``and``)."""

    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Either:
    """A node of a condition that is true where at least one part is true (``or``)."""

    left: Node
    right: Node


def parse(text: str) -> Node:
    """Return a condition on rows, such as ``age >= 40 and income == '>50K'``, as a tree of comparisons.

    The language has ``== != < <= > >=`` (also chained: ``30 <= age < 40``), ``in (…)``, ``not in``, ``is null``, ``is
    not null``, ``and``, ``or``, ``not`` and parentheses.  A column with characters other than letters, digits, ``_``,
    ``.`` and inner ``-`` must be in backticks; texts and dates must be in quotes.  A name alone is a Boolean column.

    Raises
    ------
    ParameterError
        If the text is no condition; the message names the position.

    Examples
    --------
    >>> sorted(columns_of(parse("age >= 40 and (income == '>50K' or not member)")))
    ['age', 'income', 'member']
    """
    if not isinstance(text, str) or not text.strip():
        raise ParameterError("an expression must be a text such as \"age >= 40 and income == '>50K'\"")
    if len(text) > MOST_CHARACTERS:
        raise ParameterError(f"an expression must have at most {MOST_CHARACTERS} characters, not {len(text)}")
    return _Parser(text).whole()


def comparisons_of(node: Node) -> Iterator[Comparison]:
    """Yield the comparisons in a condition, from left to right."""
    match node:
        case Comparison():
            yield node
        case Not(part):
            yield from comparisons_of(part)
        case Both(left, right) | Either(left, right):
            yield from comparisons_of(left)
            yield from comparisons_of(right)


def columns_of(node: Node) -> set[str]:
    """Return the names of the columns that a condition compares."""
    return {comparison.column for comparison in comparisons_of(node)}


def truth(node: Node, found: Mapping[Comparison, BoolArray]) -> BoolArray:
    """Return where a condition holds, from masks of its comparisons; the masks may have any shapes that broadcast."""
    match node:
        case Comparison():
            return np.asarray(found[node], np.bool_)
        case Not(part):
            return np.asarray(~truth(part, found))
        case Both(left, right):
            return np.asarray(truth(left, found) & truth(right, found))
        case Either(left, right):
            return np.asarray(truth(left, found) | truth(right, found))


def points_where(comparison: Comparison, schema: Schema) -> BoolArray:
    """Return a mask of a column's releasable grid points that satisfy a comparison, (releasable,).

    A missing value satisfies only ``is null``, so ``!=`` excludes it.

    Raises
    ------
    ParameterError
        If the schema has no such column, or the column does not support the comparison.
    """
    name = comparison.column
    if name not in schema.outputs:
        raise _wrong(comparison, f"there is no column {name!r}; the schema has: {', '.join(schema.outputs)}")
    column = schema.outputs[name]
    if column.names_rows:
        raise _wrong(
            comparison, f"column {name!r} is an identifier, whose labels carry no information: name another column"
        )
    grid = grid_of(column)
    if comparison.sign == "is null":
        return np.asarray(np.arange(grid.releasable) == (-1 if grid.null is None else grid.null))
    values, missing = grid_values(column)
    wanted = [_literal(comparison, column, value) for value in comparison.values]
    if comparison.sign == "in":
        return np.asarray(np.isin(values, wanted) & ~missing, np.bool_)
    holds = np.asarray(_COMPARE[comparison.sign](values, wanted[0]), np.bool_)
    return np.asarray(holds & ~missing, np.bool_)


def compared(comparison: Comparison, values: FloatArray, there: BoolArray) -> BoolArray:
    """Return where a comparison holds for computed numbers, (n,), such as means over a person's rows.

    Parameters
    ----------
    comparison
        A comparison with numbers.
    values, there
        (n,) numbers, and whether each row has one.

    Raises
    ------
    ParameterError
        If the comparison is with anything else than numbers.
    """
    if comparison.sign == "is null":
        return np.asarray(~there)
    if not all(isinstance(value, (int, float)) for value in comparison.values):
        raise _wrong(comparison, f"{comparison.column!r} is a number: compare it with numbers only")
    if comparison.sign == "in":
        return np.asarray(np.isin(values, np.array(comparison.values, np.float64)) & there)
    return np.asarray(_COMPARE[comparison.sign](values, comparison.values[0]) & there)


@lru_cache(maxsize=64)
def grid_values(column: Column) -> tuple[AnyArray, BoolArray]:
    """Return each releasable grid point's value, and whether it is missing, (releasable,) each; cached.

    Values are numbers (microseconds for times and durations), or positions in the list of levels.
    """
    raw = decode(column, np.arange(grid_of(column).releasable, dtype=np.uint32))
    values, missing = raw.values if isinstance(raw, Numbers) else raw.codes, raw.gone
    values.setflags(write=False)
    missing.setflags(write=False)
    return values, missing


def _literal(comparison: Comparison, column: Column, value: Literal) -> int | float:
    """Return a literal in the form of `grid_values`; raise ParameterError if the column cannot hold it."""
    name, sign = comparison.column, comparison.sign
    if value is None:
        raise _wrong(comparison, f"to ask for missing values, write `{name} is null`")
    if column.labelled:
        if sign not in ("==", "!=", "in") and not column.ordered:
            raise _wrong(comparison, f"the levels of column {name!r} have no order: use ==, != or in")
        levels, named = labels_of(column), column.level_named(value)
        for i, level in enumerate(levels):
            if level == named and isinstance(level, bool) == isinstance(named, bool):
                return i
        shown = "true and false" if column.quantity == "truth" else ", ".join(map(repr, levels[:12]))
        more = f" and {len(levels) - 12} more" if len(levels) > 12 else ""
        raise _wrong(comparison, f"column {name!r} has no level {value!r}; it has: {shown}{more}")
    try:
        return column.number_named(value)
    except (TypeError, ValueError, OverflowError):
        refusal = _wrong(comparison, f"column {name!r} holds {column.holds}, not {value!r}")
    raise refusal


def _wrong(comparison: Comparison, what: str) -> ParameterError:
    """Return the error for a comparison, with its position in the text, counted from 1."""
    return ParameterError(f"expression, character {comparison.position}: {what}")


SPACES = "a name with spaces goes in backticks: `two words`"
"""Hint in an error message for two adjacent names."""


class _Token(NamedTuple):
    """Holds one token of an expression: its kind, its value and its position in the text, from 1."""

    kind: str
    value: Any
    position: int

    @property
    def shown(self) -> str:
        """Return the token as error messages quote it."""
        return "the end of the text" if self.kind == "end" else repr(self.value)


class _Parser:
    """A recursive-descent parser of conditions; `or` binds least, then `and`, then `not`."""

    def __init__(self, text: str) -> None:
        self.tokens = _tokens(text)
        self.at = 0
        self.depth = 0
        self.comparisons = 0

    def whole(self) -> Node:
        """Return the tree of the whole expression; raise ParameterError if tokens are left over."""
        node = self.either()
        if self.next.kind != "end":
            hint = f" ({SPACES})" if self.next.kind == "column" else ""
            raise self.expected(f"'and', 'or' or the end of the text{hint}")
        return node

    @property
    def next(self) -> _Token:
        """Return the next token without consuming it."""
        return self.tokens[self.at]

    def take(self, kind: str, *values: str) -> _Token | None:
        """Consume and return the next token if it has this kind and one of these values; otherwise return None."""
        token = self.next
        if token.kind != kind or (values and token.value not in values):
            return None
        self.at += 1
        return token

    def expected(self, what: str) -> ParameterError:
        """Return the error for an unexpected next token; ``what`` describes the expected one."""
        return ParameterError(f"expression, character {self.next.position}: expected {what}, found {self.next.shown}")

    def either(self) -> Node:
        """Parse and return conditions joined by ``or``."""
        node = self.both()
        while self.take("keyword", "or"):
            node = Either(node, self.both())
        return node

    def both(self) -> Node:
        """Parse and return conditions joined by ``and``."""
        node = self.negated()
        while self.take("keyword", "and"):
            node = Both(node, self.negated())
        return node

    def negated(self) -> Node:
        """Parse and return one condition, perhaps negated or in parentheses.

        Raise ParameterError if it is nested too deep.
        """
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise ParameterError(
                f"expression, character {self.next.position}: parentheses and `not` must be nested at most {MOST_DEPTH} deep"
            )
        node: Node
        if self.take("keyword", "not"):
            node = Not(self.negated())
        elif self.take("sign", "("):
            node = self.either()
            if not self.take("sign", ")"):
                raise self.expected("')'")
        else:
            node = self.comparison()
        self.depth -= 1
        return node

    def comparison(self) -> Node:
        """Parse and return one comparison; raise ParameterError if there are too many."""
        self.comparisons += 1
        if self.comparisons > MOST_COMPARISONS:
            raise ParameterError(f"an expression must have at most {MOST_COMPARISONS} comparisons")
        name = self.take("column")
        if name is None:
            return self.flipped()
        if self.take("keyword", "is"):
            inverted = self.take("keyword", "not") is not None
            if not self.take("keyword", "null", "none"):
                raise self.expected("'null' (compare with a value by == or !=)")
            return _maybe_not(Comparison(name.value, "is null", (), name.position), inverted=inverted)
        inverted = self.take("keyword", "not") is not None
        if self.take("keyword", "in"):
            return _maybe_not(Comparison(name.value, "in", self.listed(), name.position), inverted=inverted)
        if inverted:
            raise self.expected("'in' (compare with a single value by !=)")
        if sign := self.compare_sign():
            return Comparison(name.value, sign, (self.literal(),), name.position)
        return Comparison(name.value, "==", (True,), name.position)

    def flipped(self) -> Node:
        """Parse and return ``value sign column``, perhaps followed by ``sign value``, as in ``30 <= age < 40``."""
        position = self.next.position
        first = self.literal(what="a column or a value")
        sign = self.compare_sign()
        if sign is None:
            raise self.expected("a comparison")
        name = self.take("column")
        if name is None:
            raise self.expected(f"a column ({SPACES})")
        node: Node = Comparison(name.value, _FLIPPED[sign], (first,), position)
        if second := self.compare_sign():
            node = Both(node, Comparison(name.value, second, (self.literal(),), name.position))
        return node

    def compare_sign(self) -> str | None:
        """Consume and return a comparison sign, with "==" for "="; return None if the next token is no such sign."""
        token = self.take("sign", *_COMPARE, "=")
        return None if token is None else {"=": "=="}.get(token.value, token.value)

    def listed(self) -> tuple[Literal, ...]:
        """Parse and return a list of values in parentheses or brackets."""
        opening = self.take("sign", "(", "[")
        if opening is None:
            raise self.expected("a list in parentheses")
        closing = {"(": ")", "[": "]"}[opening.value]
        values = [self.literal()]
        while self.take("sign", ","):
            if self.next.value == closing:
                break
            values.append(self.literal())
        if not self.take("sign", closing):
            raise self.expected(f"',' or {closing!r}")
        return tuple(values)

    def literal(self, what: str = "a value (text stands in quotes)") -> Literal:
        """Parse and return one value: a number, a text, true, false or null.

        ``what`` describes it in the error message.
        """
        if token := self.take("number") or self.take("text"):
            return token.value  # type: ignore[no-any-return]
        if token := self.take("keyword", "true", "false"):
            return bool(token.value == "true")
        if self.take("keyword", "null", "none"):
            return None
        raise self.expected(what)


def _maybe_not(node: Node, *, inverted: bool) -> Node:
    """Return a condition, or its negation if ``inverted``, for ``not in`` and ``is not null``."""
    return Not(node) if inverted else node


def _tokens(text: str) -> list[_Token]:
    """Return the tokens of an expression and one for its end.

    Raise ParameterError at a character that cannot be read.
    """
    tokens, at, end = [], 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            hint = HINTS.get(text[at], "leave it out, or put the text that contains it in quotes")
            raise ParameterError(f"expression, character {at + 1}: {text[at]!r} cannot be read: {hint}")
        kind = str(found.lastgroup)
        tokens.append(_token(kind, found[kind], found.start(kind) + 1))
        at = found.end()
    return [*tokens, _Token("end", "", len(text) + 1)]


def _token(kind: str, value: str, position: int) -> _Token:
    """Return one token; integers of up to 18 digits become int, other numbers float, and keywords lower case."""
    if kind == "number":
        whole = re.fullmatch(r"[+-]?\d{1,18}", value)
        return _Token(kind, int(value) if whole else float(value), position)
    if kind == "text":
        return _Token(kind, re.sub(r"\\(.)", r"\1", value[1:-1]), position)
    if kind == "word" and value.lower() in _KEYWORDS:
        return _Token("keyword", value.lower(), position)
    return _Token("sign" if kind == "sign" else "column", value, position)


def allowed_by(conditions: Iterable[str], schema: Schema) -> dict[str, Allowed]:
    """Return by column the grid points that conditions allow, in the form that ``sample(given=...)`` takes.

    Parameters
    ----------
    conditions
        Texts in the language of `synthdp.answers.expressions.parse`; a row must meet all of them.  Each part joined by
        ``and`` may name one column only, so that rows are drawn from the conditional distribution without rejection.
    schema
        The schema of the rows.

    Raises
    ------
    ParameterError
        If a text is no condition, a part names several columns, or no grid point meets the conditions.
    """
    allowed: dict[str, Allowed] = {}
    for part in (part for text in conditions for part in _parts(parse(text))):
        names = sorted(columns_of(part))
        if len(names) != 1:
            raise ParameterError(
                f"a condition on rows to draw must join different columns ({', '.join(map(repr, names))}) only by 'and': "
                "rewrite it, or draw rows without a condition and filter them"
            )
        (name,) = names
        found = {comparison: points_where(comparison, schema) for comparison in comparisons_of(part)}
        mask = np.zeros(grid_of(schema.outputs[name]).size, np.bool_)
        visible = truth(part, found)
        mask[: len(visible)] = visible
        allowed[name] = Allowed(mask & allowed[name].mask if name in allowed else mask)
    empty = [name for name, one in allowed.items() if not one.mask.any()]
    if empty:
        raise ParameterError(f"no value of column {empty[0]!r} meets the condition: change the condition")
    return allowed


def _parts(node: Node) -> Iterator[Node]:
    """Yield the parts of a condition that are joined by ``and`` at the top level; each restricts rows on its own."""
    if isinstance(node, Both):
        yield from _parts(node.left)
        yield from _parts(node.right)
    else:
        yield node
