"""Rules between the rows of one parent row: which may be declared, and which are refused.  They depend on schemas alone.

They name one column of a child table as ``table.column``.  Rules between columns of one row are in
`synthdp.schema.constraints`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import Field, dataclass
from typing import Any, ClassVar

from synthdp.checks import whole
from synthdp.errors import SchemaError
from synthdp.schema.column import Column, Levels, Steps
from synthdp.schema.constraints import Forbidden, can_hold, shown
from synthdp.schema.relation import Relation

MOST_ORDERED = 24
"""Most levels of an ordered column that a rule may count: beyond it several levels share a bin, and cannot be counted
apart. Derived: the `BINS` of `synthdp.domain.histories`."""


class SiblingRule(ABC):
    """A rule between the synthetic rows of one parent row, such as one head of each household."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    kind: ClassVar[str]
    """The rule's name in a schema file."""

    column: str
    """The column, as ``table.column``."""

    @abstractmethod
    def check(self, column: Column, relation: Relation) -> None:
        """Raise SchemaError unless the rule fits its column and the relation of its table to the parent.

        Raises
        ------
        SchemaError
            In one sentence, if the rule cannot be kept.
        """

    @abstractmethod
    def in_words(self) -> str:
        """Return the rule as a phrase for the receipt."""


@dataclass(frozen=True, slots=True)
class UniquePerParent(SiblingRule):
    """A rule: no two rows of one parent row have the same value of a column; missing and special values are exempt.

    For the column that orders the rows, declare ``unique=True`` in `Relation` instead.

    Parameters
    ----------
    column
        A column of a child table, as ``table.column``.  It must have at least as many values as a parent row may have rows.

    Examples
    --------
    >>> from synthdp import UniquePerParent
    >>> UniquePerParent("diagnoses.code").in_words()
    'no two rows of one parent row have the same diagnoses.code, but for missing and special values'
    """

    kind: ClassVar[str] = "unique_per_parent"

    column: str

    def check(self, column: Column, relation: Relation) -> None:
        """Raise SchemaError if the column has fewer values than a parent row may have rows."""
        values = _values(column)
        if values is not None and values < relation.at_most:
            raise SchemaError(
                f"a UniquePerParent rule on {self.column!r} allows at most {values} rows of one parent, but at_most "
                f"is {relation.at_most}: lower at_most of {relation.where}, or remove the rule"
            )

    def in_words(self) -> str:
        """Return the rule as a phrase for the receipt."""
        return f"no two rows of one parent row have the same {self.column}, but for missing and special values"


@dataclass(frozen=True, slots=True)
class RowsPerParent(SiblingRule):
    """A rule on how many rows of one parent row have given values: at most one head of a household, or exactly one.

    Parameters
    ----------
    column
        A column with levels of a child table, as ``table.column``.
    values
        A level or a list of levels; ``None`` stands for missing.
    at_least
        1 if every parent row that has rows must have a row with one of ``values``, else 0.
    at_most
        Most rows of a parent row that may have one of ``values``; ``None`` for any number.

    Examples
    --------
    >>> from synthdp import RowsPerParent
    >>> RowsPerParent("members.role", "head", at_least=1, at_most=1).in_words()
    'of the rows of one parent row, exactly 1 has members.role head'
    """

    kind: ClassVar[str] = "rows_per_parent"

    column: str
    values: Any
    at_least: int = 0
    at_most: int | None = None

    def __post_init__(self) -> None:
        given = list(self.values) if isinstance(self.values, tuple) else self.values
        object.__setattr__(self, "values", list(Forbidden({"values": given}).values["values"]))
        object.__setattr__(self, "at_least", whole("at_least", self.at_least, least=0, most=1))
        if self.at_most is not None:
            object.__setattr__(self, "at_most", whole("at_most", self.at_most, least=self.at_least))
        if self.at_least == 0 and self.at_most is None:
            raise SchemaError("a RowsPerParent rule needs at_least=1 or at_most")

    def check(self, column: Column, relation: Relation) -> None:
        """Raise SchemaError unless the column can hold the values, and has others for the remaining rows."""
        if not column.labelled:
            raise SchemaError(
                f"column {self.column!r} of a RowsPerParent rule must have levels, and must not hold numbers or times"
            )
        levels = _levels(column)
        if column.ordered and len(levels) > MOST_ORDERED:
            raise SchemaError(
                f"column {self.column!r} of a RowsPerParent rule has {len(levels)} ordered levels, more than "
                f"{MOST_ORDERED}: declare the column as Categorical"
            )
        if not self.values:
            raise SchemaError(
                f"a RowsPerParent rule lists no value of column {self.column!r}: list at least one in values"
            )
        for value in self.values:
            if isinstance(value, tuple) or not can_hold(column, value):
                raise SchemaError(
                    f"a rule names the value {shown(value)}, which column {self.column!r} cannot hold: remove the value "
                    "from the rule, or declare it in the column"
                )
        others = len({*levels, *([None] if column.nullable else [])} - set(self.values))
        if not others and self.at_most is not None and self.at_most < relation.at_most:
            raise SchemaError(
                f"a RowsPerParent rule names all values of column {self.column!r}, so it limits the rows of every "
                f"parent: set at_most of {relation.where} instead"
            )

    def in_words(self) -> str:
        """Return the rule as a phrase for the receipt."""
        least = f"at least {self.at_least}" if self.at_least else ""
        most = "" if self.at_most is None else f"at most {self.at_most}"
        many = (
            f"exactly {self.at_least}" if self.at_least == self.at_most else " and ".join(filter(None, (least, most)))
        )
        said = " or ".join("missing" if value is None else str(value) for value in self.values)
        one = (self.at_least if self.at_most is None else self.at_most) == 1
        return f"of the rows of one parent row, {many} {'has' if one else 'have'} {self.column} {said}"


@dataclass(frozen=True, slots=True)
class NeverFalls(SiblingRule):
    """A rule: a column never falls from one row of a parent row to a later one, in the order of the relation.

    Missing and special values are exempt.

    Parameters
    ----------
    column
        A number, a time or ordered levels of a child table that has an order, as ``table.column``.

    Examples
    --------
    >>> from synthdp import NeverFalls
    >>> NeverFalls("years.grade").in_words()
    'years.grade never falls from one row of a parent row to the next'
    """

    kind: ClassVar[str] = "never_falls"

    column: str

    def check(self, column: Column, relation: Relation) -> None:
        """Raise SchemaError unless the relation orders its rows and the column has ordered values."""
        if relation.order is None:
            raise SchemaError(
                f"a NeverFalls rule names {self.column!r}, but {relation.where} has no order: set order of this "
                "relation, or remove the rule"
            )
        if not column.ordered:
            raise SchemaError(
                f"a NeverFalls rule names {self.column!r}, whose values have no order: name an ordered column, or "
                "remove the rule"
            )

    def in_words(self) -> str:
        """Return the rule as a phrase for the receipt."""
        return f"{self.column} never falls from one row of a parent row to the next"


SIBLING_KINDS: Mapping[str, type[SiblingRule]] = {one.kind: one for one in (UniquePerParent, RowsPerParent, NeverFalls)}
"""All kinds of rules between sibling rows, by their names in schema files."""


def _levels(column: Column) -> tuple[Any, ...]:
    """Return a column's levels, whose rows a rule can count; () for numbers."""
    support = column.support()
    return support.levels if isinstance(support, Levels) else ()


def _values(column: Column) -> int | None:
    """Return the number of different regular values of a column, which rows that must differ cannot exceed.

    Special values are not counted.  ``None`` for an interval of real numbers or an identifier.
    """
    match column.support():
        case Levels(levels):
            return len(levels)
        case Steps(first, last):
            return last - first + 1
    return None
