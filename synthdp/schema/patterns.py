"""Formats of unique keys: a small part of regular expressions, each a finite set of texts of one length."""

from __future__ import annotations

import math
import re
from functools import lru_cache

from synthdp.errors import SchemaError

DIGITS = "0123456789"
LONGEST_PATTERN = 200
LONGEST_KEY = 200

_PART = re.compile(r"(?P<one>\\d|\\[^A-Za-z0-9]|\[[^\[\]]+\]|[^\\\[\](){}.*+?|^$])(?:\{(?P<times>\d{1,3})\})?")
_LANGUAGE = r"plain characters, \d, [A-Z], [0-9a-f], {n} after one of them, and \ before a sign, such as 'C-\d{6}'"


@lru_cache(maxsize=64)
def alphabets_of(pattern: str) -> tuple[str, ...]:
    r"""Return for each character of a key the characters that it may be.

    Parameters
    ----------
    pattern
        Plain characters, ``\d`` for a digit, ``[A-Z]`` or ``[0-9a-f]`` for one of some, ``{n}`` to repeat what stands
        before it, and a backslash before a sign that stands for itself.

    Raises
    ------
    SchemaError
        If the pattern is not a text of that language, or its keys are too long.

    Examples
    --------
    >>> alphabets_of(r"C-\d[AB]")
    ('C', '-', '0123456789', 'AB')
    """
    if not isinstance(pattern, str) or not pattern.isprintable() or not 1 <= len(pattern) <= LONGEST_PATTERN:
        raise SchemaError(f"a pattern must be a text of 1 to {LONGEST_PATTERN} characters, made of {_LANGUAGE}")
    found: list[str] = []
    at = 0
    while at < len(pattern):
        part = _PART.match(pattern, at)
        if part is None:
            raise SchemaError(f"pattern {pattern!r} cannot be read at character {at + 1}: it may hold {_LANGUAGE}")
        found += [_characters(pattern, part["one"])] * int(part["times"] or 1)
        at = part.end()
    if not 1 <= len(found) <= LONGEST_KEY:
        raise SchemaError(f"the keys of pattern {pattern!r} must have 1 to {LONGEST_KEY} characters, not {len(found)}")
    return tuple(found)


def size_of(pattern: str) -> int:
    """Return how many different keys a pattern has."""
    return math.prod(len(characters) for characters in alphabets_of(pattern))


def _characters(pattern: str, part: str) -> str:
    if part == r"\d":
        return DIGITS
    if not part.startswith("["):
        return part[-1]
    inside, characters = part[1:-1], ""
    if inside.startswith("^"):
        raise SchemaError(f"pattern {pattern!r} says what a character is not: list what it may be")
    at = 0
    while at < len(inside):
        if inside[at] == "\\":
            characters += DIGITS if inside[at : at + 2] == r"\d" else inside[at + 1 : at + 2]
            at += 2
        elif inside[at + 1 : at + 2] == "-" and at + 2 < len(inside):
            first, last = ord(inside[at]), ord(inside[at + 2])
            if first > last:
                raise SchemaError(f"pattern {pattern!r} has a range that ends before it begins: {inside[at : at + 3]}")
            characters += "".join(map(chr, range(first, last + 1)))
            at += 3
        else:
            characters += inside[at]
            at += 1
    if not characters.isprintable():
        raise SchemaError(f"pattern {pattern!r} must name printable characters only")
    return "".join(dict.fromkeys(characters))
