"""Which tables are neighbours: the relation that every guarantee is stated for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from synthdp.checks import whole
from synthdp.errors import ParameterError
from synthdp.queries.norms import Norms
from synthdp.queries.protocol import Bounded


class Neighbors(StrEnum):
    """The kinds of neighbouring relation: one unit is added or removed, or one is replaced."""

    ADD_REMOVE = "add_remove"
    REPLACE_ONE = "replace_one"


@dataclass(frozen=True, slots=True)
class Adjacency:
    """The neighbouring relation of a guarantee: tables that differ in all rows of one unit, added, removed or replaced.

    Parameters
    ----------
    neighbors
        ``add_remove``: the unit's rows are in one table and not in the other, so the number of rows is private.
        ``replace_one``: they are exchanged for others, so the number of rows is public.
    unit
        Name of the column whose values are the units, or of several, as `DatabaseSchema.unit` writes them; ``None`` if
        every row is one.
    rows
        Most rows of a unit that are used.
    tables
        Where a unit is a person with rows in several tables: the child tables, and the most rows of a person that are used
        of each.  All of them are one record, so that ``rows`` is 1.
    """

    neighbors: Neighbors = Neighbors.ADD_REMOVE
    unit: str | None = None
    rows: int = 1
    tables: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.neighbors, Neighbors):
            object.__setattr__(self, "neighbors", neighbors_named(self.neighbors))
        object.__setattr__(self, "rows", whole("max_rows_per_unit", self.rows, least=1))
        if self.unit is None and self.rows != 1:
            raise ParameterError(
                "max_rows_per_unit needs privacy_unit: give the name of the column that identifies a person as "
                "privacy_unit"
            )
        object.__setattr__(self, "tables", tuple((str(name), int(rows)) for name, rows in self.tables))
        if self.tables and (self.unit is None or self.rows != 1):
            raise ParameterError("with tables, unit must be the key column of a person, and rows must be 1")
        if self.unit is not None and self.neighbors is Neighbors.REPLACE_ONE and self.rows != 1:
            raise ParameterError("neighbors must be 'add_remove' if max_rows_per_unit is above 1")

    def __str__(self) -> str:
        if self.tables:
            used = ", ".join(f"{name}: at most {rows} used" for name, rows in self.tables)
            return f"{self.relation} in all tables ({used})"
        return self.relation if self.unit is None else f"{self.relation} (at most {self.rows} used)"

    @property
    def relation(self) -> str:
        """The neighbouring relation in words, for receipts and messages, without the limit on rows."""
        who = "one row" if self.unit is None else f"all rows of one value of {self.quoted_unit}"
        return f"add or remove {who}" if self.neighbors is Neighbors.ADD_REMOVE else f"replace {who}"

    @property
    def quoted_unit(self) -> str:
        """The unit's column in quotation marks, for sentences; several columns have theirs already."""
        return str(self.unit) if "' and '" in str(self.unit) else repr(self.unit)

    def adds_up_with(self, other: Adjacency) -> bool:
        """Return whether losses for two relations may be added, because both bound changes between the same pairs of tables.

        The limit on rows of a unit may differ: both losses are for all rows of a unit.
        """
        return (self.neighbors, self.unit) == (other.neighbors, other.unit)

    @property
    def rows_are_public(self) -> bool:
        """Whether all neighbours have the same number of rows, so that it may be released without noise."""
        return self.neighbors is Neighbors.REPLACE_ONE

    def of_one_row(self) -> Adjacency:
        """Return the relation for a query of one row of each unit, in a table where a unit may have no row.

        The result is add-or-remove of one row; of two rows where units are replaced.  A replaced unit may remove a row, add
        a row, or do both.  So the number of these rows is private even if the number of units is public.
        """
        return Adjacency(Neighbors.ADD_REMOVE, self.unit, 2 if self.rows_are_public else 1)

    @property
    def histogram(self) -> Norms:
        """The sensitivity norms (L1, squared L2, maximum) of a histogram that counts every row in at most one bin."""
        one = Norms(1, 1, 1) if self.neighbors is Neighbors.ADD_REMOVE else Norms(2, 2, 1)
        return one.times(self.rows)

    def sensitivity(self, queries: Bounded) -> Norms:
        """Return the L1, squared L2 and maximum norm of a statistic's change between neighbours, in integers of at least 1.

        Noise needs a positive scale even for a statistic that cannot change.
        """
        bounds = queries.bounds
        one = bounds.one if self.neighbors is Neighbors.ADD_REMOVE else bounds.swap
        return one.times(self.rows).either(Norms(1, 1, 1))


def neighbors_named(name: str) -> Neighbors:
    """Return the neighbouring relation with this name, as users write it.

    Raises
    ------
    ParameterError
        If there is none.
    """
    try:
        return Neighbors(name)
    except ValueError:
        raise ParameterError(f"neighbors ({name!r}) must be 'add_remove' or 'replace_one'") from None
