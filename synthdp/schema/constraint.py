"""What every kind of rule between columns answers about itself, and the list of the kinds that there are.

The kinds are classes in `synthdp.schema.constraints` and `synthdp.schema.derived`.  A new kind is one class with `register`
above it that says, in `Constraint.means`, which of the simpler kinds it stands for; `synthdp.domain.rules` checks rows
against those, and all else follows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import Field
from typing import Any, ClassVar, TypeVar

from synthdp.errors import InternalError
from synthdp.schema.column import Column


class Constraint(ABC):
    """One rule that every released row obeys: a frozen dataclass whose fields are what a schema file says of it."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    kind: ClassVar[str]
    """What the rule is called in a schema file."""

    since: ClassVar[int] = 3
    """The first version of schema files that has it."""

    def means(self) -> Sequence[Constraint]:
        """Return rules of simpler kinds that together say the same.

        `LessEqual`, `Forbidden`, `Implies`, `Combinations` and `CalendarDate`, which `domain.rules` knows, mean nothing
        simpler.
        """
        raise InternalError(f"no rows are checked against rules of type {type(self).__name__}")

    @property
    def names(self) -> tuple[str, ...]:
        """Return the modelled columns that the rule is about."""
        return tuple(dict.fromkeys(name for rule in self.means() for name in rule.names))

    def check(self, columns: Mapping[str, Column]) -> None:
        """Raise SchemaError unless the rule's columns are modelled and can hold the values that it names.

        Raises
        ------
        SchemaError
            If it names an unknown column, one whose bounds or levels are open (what is discovered might contradict the
            rule), a value that a column cannot hold, or columns that cannot be compared.
        """
        for rule in self.means():
            rule.check(columns)

    def named(self, columns: Mapping[str, Column]) -> Sequence[tuple[str, Sequence[Any]]]:
        """Return the values that it names, by column: a model keeps cells of their own for them."""
        return [pair for rule in self.means() for pair in rule.named(columns)]

    @abstractmethod
    def in_words(self) -> str:
        """Return what it says, for a receipt or a report."""


RULE_KINDS: dict[str, type[Constraint]] = {}
"""Every kind of rule by its name in schema files."""

C = TypeVar("C", bound=type[Constraint])


def register(kind: C) -> C:
    """Let schema files hold rules of a class; a decorator, above that of the dataclass."""
    RULE_KINDS[kind.kind] = kind
    return kind
