"""Columns of labels and names: categories, with an order or without one, truth values, identifiers and their patterns."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar, Self

import numpy as np

from synthdp.errors import SchemaError
from synthdp.schema.column import Fresh, Known, Level, Levels, Quantity, register, values_as_tuple
from synthdp.schema.formats import TruthFormat, checked, truth_format

DIGITS = "0123456789"
r"""The ASCII digits, for which ``\d`` stands in a pattern."""

LONGEST_PATTERN = 200
"""Most characters of an identifier's pattern. A safety limit: the patterns of real identifiers are far shorter."""

LONGEST_KEY = 200
"""Most characters of an identifier that a pattern makes, as ``{n}`` repeats characters.  A safety limit."""

_PART = re.compile(r"(?P<one>\\d|\\[^A-Za-z0-9]|\[[^\[\]]+\]|[^\\\[\](){}.*+?|^$])(?:\{(?P<times>\d{1,3})\})?")
"""A regular expression of one part of a pattern: a character or character set, and its number of repeats."""

_LANGUAGE = (
    r"plain characters, \d, sets such as [A-Z], {n} to repeat one of these n times, and \ before a special character, "
    r"as in 'C-\d{6}'"
)
"""The end of an error message, which lists what a pattern may consist of."""


@lru_cache(maxsize=64)
def alphabets_of(pattern: str) -> tuple[str, ...]:
    r"""Return, for each character position of an identifier, the characters that its pattern allows there.

    Parameters
    ----------
    pattern
        Plain characters; ``\d`` for a digit; ``[A-Z]`` or ``[0-9a-f]`` for one of some; ``{n}`` to repeat what stands
        before it; and a backslash before a sign that stands for itself.

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
        raise SchemaError(f"pattern must be a text of 1 to {LONGEST_PATTERN} characters, made of {_LANGUAGE}")
    found: list[str] = []
    at = 0
    while at < len(pattern):
        part = _PART.match(pattern, at)
        if part is None:
            raise SchemaError(f"pattern {pattern!r} cannot be read at character {at + 1}: it may hold {_LANGUAGE}")
        found += [_characters(pattern, part["one"])] * int(part["times"] or 1)
        at = part.end()
    if not 1 <= len(found) <= LONGEST_KEY:
        raise SchemaError(f"pattern {pattern!r} must make labels of 1 to {LONGEST_KEY} characters, not of {len(found)}")
    return tuple(found)


def size_of(pattern: str) -> int:
    """Return the number of different identifiers that a pattern allows, which must suffice for all rows."""
    return math.prod(len(characters) for characters in alphabets_of(pattern))


def _characters(pattern: str, part: str) -> str:
    """Return the characters that one part of a pattern allows, as a text; raise SchemaError for unsupported syntax."""
    if part == r"\d":
        return DIGITS
    if not part.startswith("["):
        return part[-1]
    inside, characters = part[1:-1], ""
    if inside.startswith("^"):
        raise SchemaError(f"pattern {pattern!r} has a negated set [^...]: list the allowed characters instead")
    at = 0
    while at < len(inside):
        if inside[at] == "\\":
            characters += DIGITS if inside[at : at + 2] == r"\d" else inside[at + 1 : at + 2]
            at += 2
        elif inside[at + 1 : at + 2] == "-" and at + 2 < len(inside):
            first, last = ord(inside[at]), ord(inside[at + 2])
            if first > last:
                raise SchemaError(
                    f"pattern {pattern!r} has the range {inside[at : at + 3]}, which ends before it begins: swap "
                    "its ends"
                )
            characters += "".join(map(chr, range(first, last + 1)))
            at += 3
        else:
            characters += inside[at]
            at += 1
    if not characters.isprintable():
        raise SchemaError(f"pattern {pattern!r} must contain printable characters only")
    return "".join(dict.fromkeys(characters))


@register
@dataclass(frozen=True, slots=True, repr=False)
class Categorical(Known):
    """A column of categories without order.

    Parameters
    ----------
    levels
        The public list of values; ``None`` if it must be discovered.
    nullable
        Whether a missing value is a value of its own.
    other
        A label for every value outside ``levels``, itself part of the output.  Without one, such values are counted
        in a cell that is never released.
    groups
        A public hierarchy of very many levels: for each of its steps, the coarsest first, a list with the group of each
        level.  Of tracts, the lists of their states and of their counties.  Levels are counted from the top, and only
        groups with clearly more rows than noise are divided.  Groups of one name in different coarser groups are
        different.  The levels are kept in the order of their groups.

    Examples
    --------
    >>> from synthdp import Categorical
    >>> Categorical(["Oslo", "Bergen"], other="elsewhere").levels
    ('Oslo', 'Bergen')
    >>> Categorical(["J45", "I10", "J10"], groups=[["J", "I", "J"]]).levels
    ('J45', 'J10', 'I10')
    """

    quantity: ClassVar[Quantity] = "label"
    ordered: ClassVar[bool] = False
    holds: ClassVar[str] = "levels"
    levels: Sequence[Level] | None = None
    nullable: bool = False
    other: str | None = None
    groups: Sequence[Sequence[Level]] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        if self.levels is not None:
            object.__setattr__(self, "levels", values_as_tuple("levels", self.levels))
        groups = tuple(values_as_tuple("each of groups", step) for step in values_as_tuple("groups", self.groups))
        levels = self.levels or ()
        if groups and not _wrong_groups(groups, levels):
            order = _in_order_of_groups(groups)
            object.__setattr__(self, "levels", tuple(levels[i] for i in order))
            groups = tuple(tuple(step[i] for i in order) for step in groups)
        object.__setattr__(self, "groups", groups)

    @property
    def is_complete(self) -> bool:
        """Whether the levels are declared; if not, they must be discovered under noise."""
        return self.levels is not None

    def support(self) -> Levels:
        """Return the categories as the column's possible values, the label for others last unless it is among them."""
        levels = tuple(self.levels or ())
        return Levels(levels if self.other is None or self.other in levels else (*levels, self.other), self.other)

    def starts_of_groups(self) -> tuple[tuple[int, ...], ...]:
        """Return the indices of the groups' first levels, a tuple for each step of the hierarchy, the coarsest first.

        The binning merges levels by these groups, whose levels are adjacent.  The label for others is its own group.
        """
        found: list[tuple[int, ...]] = []
        starts: set[int] = set()
        for step in self.groups:
            starts |= {i for i in range(len(step)) if i == 0 or step[i] != step[i - 1]}
            apart = (len(step),) if len(self.support().levels) > len(step) else ()  # the label for others
            found.append((*sorted(starts), *apart))
        return tuple(found)

    def check(self, where: str) -> None:
        """Raise SchemaError unless the levels, the label for others and the groups are consistent."""
        if self.levels is not None:
            _check_levels(self.levels, where)
        if self.other is not None and not isinstance(self.other, str):
            raise SchemaError(f"{where}: other must be a text label")
        if self.other in {str(level) for level in self.levels or () if not isinstance(level, str)}:
            raise SchemaError(
                f"{where}: other ({self.other!r}) must differ from every level, also from levels that are numbers "
                "or booleans"
            )
        wrong = _wrong_groups(self.groups, self.levels or ())
        if wrong:
            raise SchemaError(f"{where}: {wrong}")

    def example(self) -> Self:
        """Return the column with one arbitrary level if none is declared, to find the output type that suits it.

        The level 0 suits types of texts, numbers and booleans, but not of moments, whose levels could not be discovered
        either.
        """
        return self if self.is_complete else replace(self, levels=(0,))

    def may_hold(self, value: object) -> bool:
        """Return whether a value is a level or the label for others."""
        return value in (self.levels or ()) or value == self.other

    def in_words(self) -> str:
        """Return a phrase for the column's type, for receipts and lists of columns."""
        return "category"


@dataclass(frozen=True, slots=True, repr=False)
class Untyped(Categorical):
    """A column of Python objects that nobody declared: discovery finds first its type, then its bounds or levels.

    No schema file holds it: once discovered, it is a column of another type.
    """


@register
@dataclass(frozen=True, slots=True)
class Ordinal(Known):
    """A column of ordered categories.

    Parameters
    ----------
    levels
        The public list of values, lowest first.
    nullable
        Whether a missing value is a value of its own.
    """

    quantity: ClassVar[Quantity] = "label"
    holds: ClassVar[str] = "levels"
    levels: Sequence[Level]
    nullable: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", values_as_tuple("levels", self.levels))

    @property
    def is_complete(self) -> bool:
        """True, because an ordinal column cannot be declared without its levels."""
        return True

    def support(self) -> Levels:
        """Return the levels as the column's possible values, in order."""
        return Levels(tuple(self.levels))

    def check(self, where: str) -> None:
        """Raise SchemaError unless there are distinct levels of plain types."""
        _check_levels(self.levels, where)

    def example(self) -> Self:
        """Return the column itself, because it is always complete."""
        return self

    def may_hold(self, value: object) -> bool:
        """Return whether a value is one of the levels."""
        return value in self.levels

    def in_words(self) -> str:
        """Return a phrase for the column's type, for receipts and lists of columns."""
        return "ordered category"


@register
@dataclass(frozen=True, slots=True, repr=False)
class Boolean(Known):
    """A column of truth values.

    Parameters
    ----------
    nullable
        Whether a missing value is a value of its own.
    format
        The two words of a column of texts, the one for true first: ``"ja/nein"``.  Values are read so, in capital letters or
        not, and written so.
    """

    quantity: ClassVar[Quantity] = "truth"
    ordered: ClassVar[bool] = False
    holds: ClassVar[str] = "truth values"
    nullable: bool = False
    format: str | None = field(default=None, kw_only=True)

    @property
    def is_complete(self) -> bool:
        """True, because a column of truth values has nothing to declare."""
        return True

    @property
    def cells(self) -> TruthFormat | None:
        """The format of cells written as two words, such as ja/nein; ``None`` for true and false."""
        return None if self.format is None else truth_format(self.format)

    def support(self) -> Levels:
        """Return false and true as the column's possible values."""
        return Levels((False, True))

    def check(self, where: str) -> None:
        """Raise SchemaError unless ``format`` holds two different words."""
        checked(lambda: self.cells, where)

    def example(self) -> Self:
        """Return the column itself, because it is always complete."""
        return self

    def may_hold(self, value: object) -> bool:
        """Return whether a value is a boolean."""
        return isinstance(value, bool)

    def in_words(self) -> str:
        """Return a phrase for the column's type, for receipts and lists of columns."""
        return "true or false"


@register
@dataclass(frozen=True, slots=True)
class Identifier(Known):
    r"""A value that names a row or a person: never read for the output, released as fresh, meaningless labels.

    Parameters
    ----------
    prefix
        Text before the running number of a synthetic label; with ``None`` the labels are whole numbers.
    pattern
        The format of the labels instead, as a small part of regular expressions: plain characters; ``\d`` for a digit;
        ``[A-Z]`` or ``[0-9a-f]``; ``{n}`` to repeat what stands before it; and a backslash before a sign that stands
        for itself.  Labels differ in all rows of a table, in a fixed order that looks random.

    Examples
    --------
    >>> from synthdp import Identifier
    >>> Identifier(pattern=r"[A-Z]{2}-\d{6}").pattern
    '[A-Z]{2}-\\d{6}'
    """

    quantity: ClassVar[Quantity] = "name"
    ordered: ClassVar[bool] = False
    holds: ClassVar[str] = "meaningless labels"
    prefix: str | None = None
    nullable: bool = False
    pattern: str | None = None

    def __post_init__(self) -> None:
        if self.nullable:
            raise SchemaError("an Identifier is never missing in the output: remove nullable=True")

    @property
    def is_complete(self) -> bool:
        """True, because an identifier has no bounds or levels to declare."""
        return True

    def support(self) -> Fresh:
        """Return how the new labels of released rows look, by prefix or pattern; real ones are never read."""
        return Fresh(self.prefix, self.pattern)

    def check(self, where: str) -> None:
        """Raise SchemaError if both a prefix and a pattern are given, or if the pattern is invalid."""
        if self.pattern is not None and self.prefix is not None:
            raise SchemaError(f"{where}: prefix and pattern must not both be given")
        if self.pattern is not None:
            alphabets_of(self.pattern)

    def example(self) -> Self:
        """Return the column itself, because it is always complete."""
        return self

    def in_words(self) -> str:
        """Return a phrase for the column's type, for receipts and lists of columns."""
        return "identifier"


def _wrong_groups(groups: Sequence[Sequence[Level]], levels: Sequence[Level]) -> str | None:
    """Return the end of an error message if a hierarchy does not fit the levels, else ``None`` (also without one)."""
    if any(len(step) != len(levels) for step in groups):
        return "each list of groups must have one group for every level"
    if not all(isinstance(group, (str, int, float, bool)) for step in groups for group in step):
        return "groups must be texts, numbers or booleans"
    if any(isinstance(group, float) and not math.isfinite(group) for step in groups for group in step):
        return "groups must be finite"
    return None


def _in_order_of_groups(groups: Sequence[Sequence[Level]]) -> list[int]:
    """Return the order of levels (their indices) in which levels of one group are adjacent, at every step of the hierarchy.

    Groups are then runs of bins, in the order in which they are first mentioned.
    """
    of_level = [0] * len(groups[0])
    steps = []
    for step in groups:
        numbers: dict[tuple[int, Level], int] = {}
        of_level = [numbers.setdefault(place, len(numbers)) for place in zip(of_level, step, strict=True)]
        steps.append(of_level)
    order = list(range(len(of_level)))
    for step_numbers in reversed(steps):
        order.sort(key=step_numbers.__getitem__)
    return order


def _check_levels(levels: Sequence[Level], where: str) -> None:
    """Raise SchemaError unless there are levels, all of them different and texts, numbers or booleans."""
    if not levels:
        raise SchemaError(f"{where}: levels must not be empty")
    if not all(isinstance(level, (str, int, float, bool, np.integer, np.floating, np.bool_)) for level in levels):
        raise SchemaError(f"{where}: levels must be texts, numbers or booleans, not missing values or lists")
    if any(isinstance(level, float) and not math.isfinite(level) for level in levels):
        raise SchemaError(
            f"{where}: levels must not hold NaN or infinity: declare missing values by nullable=True instead"
        )
    if len({str(level) for level in levels}) < len(levels) or len(set(levels)) < len(levels):
        raise SchemaError(f"{where}: levels must differ from each other, also when written as text")
