"""Formulas of regressions, such as ``income ~ age + sex``: parsed, never run as code.  Reads no row."""

from __future__ import annotations

import re
from typing import NamedTuple

from synthdp.errors import ParameterError

MOST_TERMS = 30

_PIECE = re.compile(r"\s*(?:`(?P<quoted>[^`]+)`|(?P<word>[^\W\d](?:[\w.]|-(?=\w))*)|(?P<sign>[~+]))")

NO_MORE = "only names, ~ and + can stand in a formula: an intercept is always there, interactions are not offered"


class Formula(NamedTuple):
    """What is explained, and by which columns."""

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
    if len(pieces) < 3 or len(pieces) % 2 == 0:
        raise _wrong(text, end, "expected the name of a column after the last sign, found the end")
    if len(set(names)) < len(names):
        raise ParameterError("the columns of a formula must be different")
    if len(names) > 1 + MOST_TERMS:
        raise ParameterError(f"a formula must have at most {MOST_TERMS} terms, not {len(names) - 1}")
    return Formula(names[0], tuple(names[1:]))


def _wrong(text: str, at: int, what: str) -> ParameterError:
    at += len(text[at:]) - len(text[at:].lstrip())
    return ParameterError(f"formula, character {at + 1}: {what}")
