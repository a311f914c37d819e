"""A person with all rows of all tables as one record of finitely many values: the domain of a database.

Every row that a person may have has a place with a number, its slot.  The count of child rows of the parent row shows
which slots are filled.  The record has a column for every attribute of every slot.  Public facts only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from synthdp.arrays import FloatArray, IntArray, frozen
from synthdp.domain.axis import Axis
from synthdp.domain.differences import Difference, differences_of
from synthdp.domain.domain import Domain, axis_of, finest_axis
from synthdp.domain.grid import grid_of
from synthdp.errors import SchemaError
from synthdp.schema.column import Steps
from synthdp.schema.columns import Column, Integer
from synthdp.schema.database import DatabaseSchema
from synthdp.schema.schema import Schema

BINS = 24
"""Most cells of an ordered column in the model of persons.  More tell values apart more finely, but hold fewer persons
each against the same noise.  Tuned: half and twice of it change the error of pairs of a row's columns of two panels by
-2.9 and +2.7 % (docs/benchmarks/constants.md).
"""

MOST_PATTERN = 8
"""With at most this many periods, the set of a person's periods is modelled as one value, of 2^8 = 256.  A safety
limit: each further period doubles it.
"""

MOST_PERIODS = 64
"""Most values of an ordering column where a parent row has at most one row for each value.  Each has a cell of its own,
so that more would leave few rows in each.  A safety limit.
"""

MOST_GROUPS = 5
"""Most groups of periods by which attributes of rows are counted; each further group would divide the counts more
thinly. Tuned: half and twice of it change the error of pairs of a row's columns of two more panels by +4.4 and -3.5 %
(docs/benchmarks/constants.md)."""

NO_PARENT_ROW, REPEATED_ROW = 1, 2
"""Bits of `STATE` for unusual persons: no row in the root table; several rows there, and one is used.  A convention.
"""

STATE = "#state"
"""Name of the attribute that holds the bits of a person's record status, such as `NO_PARENT_ROW`."""


class Order(StrEnum):
    """How the rows of a parent row are numbered.

    A row of the root (``ROOT``) has no parent.  Without an ``order`` in its relation, rows are numbered arbitrarily
    (``NONE``).  With one, rows follow their periods: one after the other (``SEQUENCE``), or as the set of all periods of
    a parent row, drawn at once (``PATTERN``).
    """

    ROOT = "root"
    NONE = "no order"
    SEQUENCE = "sequence"
    PATTERN = "pattern"


@dataclass(frozen=True, slots=True, eq=False)
class TableLayout:
    """How the rows of one table are stored in a person's record.

    Parameters
    ----------
    name
        The table.
    parent
        Position of the parent table; -1 for the root.
    at_most
        Most rows of one parent row.
    slots
        Most rows of one person.
    order
        The numbering of the rows of a parent row.
    period
        Name of the column that orders them, if any.
    unique
        Whether no two rows of a parent row have the same period.
    axes
        The attributes of a row, in drawing order: the period of a sequence, the counts of children, the columns.  If
        the days between a column and another one are drawn, they come before the column.
    periods
        The axis of the period; ``None`` without a period.
    standard_periods
        This axis with its standard bins, from which groups of periods are made, also if bins are divided later.
    """

    name: str
    parent: int
    at_most: int
    slots: int
    order: Order
    period: str | None
    unique: bool
    axes: Mapping[str, Axis]
    periods: Axis | None
    standard_periods: Axis | None

    @property
    def count(self) -> str:
        """The name of the parent's attribute that holds the number of rows, or the set of periods with a row."""
        return f"#{self.name}"

    @property
    def left_out(self) -> str:
        """The name of the person's attribute that holds whether rows of this table were left out."""
        return f"#left out of {self.name}"

    @property
    def groups(self) -> int:
        """Number of groups of periods by which attributes are counted, at most `MOST_GROUPS`; 1 without periods."""
        return 1 if self.periods is None else min(self.periods.grid.regular, MOST_GROUPS)

    @property
    def group_of_period(self) -> IntArray:
        """(periods,) the group of each period, by which attributes are counted; out-of-domain periods are in the last.

        All periods are in one group if their bins cross borders of the standard bins. The result is (1,) zero for a
        table without periods.
        """
        if self.periods is None or self.standard_periods is None:
            return np.zeros(1, np.int64)
        standard = self.standard_periods
        groups = np.minimum(np.arange(standard.size) * self.groups // max(1, standard.regular), self.groups - 1)
        inside = standard.groups_of(self.periods)
        return np.zeros(self.periods.size, np.int64) if inside is None else np.asarray(groups[inside])

    @property
    def regular_periods(self) -> int:
        """Number of bins of periods, without missing and out-of-domain ones; 1 without periods."""
        return 1 if self.periods is None else self.periods.regular


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """How a person with all rows of all tables is stored as one record: a fixed number of columns.

    Parameters
    ----------
    schema
        The tables.
    cells
        By table and column, bins other than the standard ones.
    nested
        Whether rows of a table below another one share the weight of their parent row, as in releases of earlier
        versions; else all rows of a person share 1.
    with_differences
        Whether differences of two days are attributes, as they were not in releases of earlier versions.

    Attributes
    ----------
    tables
        Layouts, parents before children.
    differences
        By table and second day, the differences of two days that are attributes of the table.
    wide
        The schema of the record, by which a curator of persons is asked.
    domain
        The domain of the record, with its bins.
    place
        Per table and attribute the (slots,) columns of the record.
    """

    schema: DatabaseSchema
    cells: Mapping[tuple[str, str], Axis] = field(default_factory=dict)
    nested: bool = False
    with_differences: bool = True
    tables: tuple[TableLayout, ...] = field(init=False)
    wide: Schema = field(init=False)
    domain: Domain = field(init=False)
    place: tuple[Mapping[str, IntArray], ...] = field(init=False)
    differences: Mapping[tuple[str, str], Difference] = field(init=False)

    def __post_init__(self) -> None:
        if self.schema.undeclared:
            name, column = self.schema.undeclared[0]
            raise SchemaError(
                f"column {column!r} of table {name!r} has no declared bounds or levels: declare them, because they "
                "can be discovered only in a release"
            )
        differences = differences_of(self.schema) if self.with_differences else {}
        tables = tuple(_table(self.schema, name, self.cells, differences) for name in self.schema.names)
        columns: dict[str, Column] = {}
        axes: list[Axis] = []
        place: list[dict[str, IntArray]] = []
        for table in tables:
            place.append({})
            for name, axis in (*table.axes.items(), *_flags(self.schema, table).items()):
                numbers = np.arange(len(axes), len(axes) + table.slots)
                place[-1][name] = frozen(numbers)
                for slot in range(table.slots):
                    full = f"{table.name}[{slot}].{name}"
                    columns[full] = axis.column
                    axes.append(axis.named(full))
        object.__setattr__(self, "tables", tables)
        object.__setattr__(self, "wide", Schema(columns))
        object.__setattr__(self, "domain", Domain(tuple(axes)))
        object.__setattr__(self, "place", tuple(place))
        object.__setattr__(self, "differences", differences)

    def with_cells(self, cells: Mapping[tuple[str, str], Axis]) -> Layout:
        """Return the layout with other bins, by table and column, such as finer ones for frequent values."""
        return replace(self, cells={**self.cells, **cells})

    def position(self, name: str) -> int:
        """Return the position of a table in the schema, from 0."""
        return self.schema.names.index(name)

    def children(self, table: int) -> tuple[int, ...]:
        """Return the positions of a table's child tables."""
        return tuple(i for i, one in enumerate(self.tables) if one.parent == table)

    def days(self, table: int) -> tuple[str, ...]:
        """Return the attributes of a table that are differences of two days."""
        name = self.schema.names[table]
        return tuple(one.name for place, one in self.differences.items() if place[0] == name)

    def axis(self, table: int, attribute: str) -> Axis:
        """Return the axis of an attribute of the table at a position."""
        return self.domain.axes[int(self.place[table][attribute][0])]

    def ancestors(self, table: int) -> tuple[int, ...]:
        """Return the positions of a table's parent, grandparent, and so on, up to the root, in this order."""
        found: list[int] = []
        while (table := self.tables[table].parent) >= 0:
            found.append(table)
        return tuple(found)

    def rows_of_count(self, table: int) -> IntArray:
        """Return the number of rows that each bin of a table's count stands for, (bins,).

        The number is 0 for the last bin, which would hold numbers out of range and is never filled.
        """
        layout = self.tables[table]
        if layout.order is Order.PATTERN:
            codes = np.arange(2**layout.regular_periods)
            bits = (codes[:, None] >> np.arange(layout.regular_periods)) & 1
            return np.append(bits.sum(axis=1), 0)
        return np.append(np.arange(layout.at_most + 1), 0)

    def periods_of_pattern(self, table: int) -> IntArray:
        """Return the period of each row of each pattern (set of periods), (patterns, rows), in order; -1 beyond its rows."""
        periods = self.tables[table].regular_periods
        found = np.full((2**periods + 1, periods), -1)
        for code in range(2**periods):
            inside = [t for t in range(periods) if code >> t & 1]
            found[code, : len(inside)] = inside
        return found


def _table(
    schema: DatabaseSchema,
    name: str,
    cells: Mapping[tuple[str, str], Axis],
    differences: Mapping[tuple[str, str], Difference],
) -> TableLayout:
    """Return the layout of one table's rows in a person's record: their order, periods, attributes and counts."""
    relation = schema.relation_to(name)
    columns = {column: kind for column, kind in schema.tables[name].items() if not kind.names_rows}
    axes: dict[str, Axis] = {}
    order = Order.ROOT if relation is None else Order.NONE
    periods, standard, period = None, None, None
    if relation is not None and relation.order is not None:
        period = relation.order
        order, standard = _periods(period, columns.pop(period), unique=relation.unique, where=relation.where)
        periods = cells.get((name, period), standard)
        if order is Order.SEQUENCE:
            axes[period] = periods
    for child in schema.children(name):
        column = columns_of_count(schema, child.child)
        axes[f"#{child.child}"] = finest_axis(f"#{child.child}", column)
    for each, kind in columns.items():
        between = differences.get((name, each))  # the days between are drawn before the second day
        if between is not None:
            axes[between.name] = cells.get((name, between.name)) or axis_of_column(between.name, between.column)
        axes[each] = cells.get((name, each)) or axis_of_column(each, kind)
    return TableLayout(
        name=name, parent=-1 if relation is None else schema.names.index(relation.parent),
        at_most=1 if relation is None else relation.at_most, slots=schema.slots(name), order=order, period=period,
        unique=relation is not None and relation.unique, axes=axes, periods=periods,
        standard_periods=standard,
    )  # fmt: skip


def axis_of_column(name: str, column: Column) -> Axis:
    """Return the bins of a column in the model of persons: equally wide, or growing with the number for counts from 0.

    Most people have few visits and some have many, so equal bins would hold nearly all people in the first bin.
    """
    support = column.support() if column.is_complete else None
    grid = grid_of(column)
    if not isinstance(support, Steps) or support.first != 0 or grid.regular <= BINS or column.temporal:
        return axis_of(name, column, bins=BINS)
    starts = np.concatenate([growing_starts(grid.regular, BINS), np.arange(grid.regular, grid.size)])
    return Axis(name, column, starts, np.arange(len(starts)))


def growing_starts(points: int, cells: int) -> IntArray:
    """Return the first point of each of ``cells`` bins whose lengths grow by a constant factor, (cells,).

    The bins hold ``points`` points together.
    """
    low, high = 1.0, float(points)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _ends(middle, cells)[-1] < points else (low, middle)
    ends = np.rint(_ends(high, cells) * points / _ends(high, cells)[-1]).astype(np.int64)
    ends = np.maximum.accumulate(np.maximum(ends, np.arange(1, cells + 1)))
    return np.concatenate([[0], ends[:-1]])


def _ends(growth: float, cells: int) -> FloatArray:
    """Return the ends of bins of lengths 1, growth, growth^2, ..., (cells,), to find the growth that fits."""
    return np.cumsum(growth ** np.arange(cells, dtype=np.float64))


def _periods(name: str, column: Column, *, unique: bool, where: str) -> tuple[Order, Axis]:
    """Return how the rows of one parent row are numbered by a column, and the axis of that column.

    If ``unique``, there is at most one row for each value, and each value has a bin.  Few such values are modelled as a
    set (`Order.PATTERN`).  Otherwise rows are a sequence, and the axis has about `BINS` bins at most.

    Raise SchemaError if the column's bounds or levels are not declared, because the periods must be public.  Also raise
    it if ``unique`` and there are more than `MOST_PERIODS` values.
    """
    if not column.is_complete:
        raise SchemaError(
            f"{where} has order={name!r}: declare the levels or bounds of column {name!r}, because the periods "
            "must be public"
        )
    regular = grid_of(column).regular
    if unique and regular > MOST_PERIODS:
        raise SchemaError(
            f"{where} has unique=True and order={name!r}, a column with {regular} values, more than "
            f"{MOST_PERIODS}: declare fewer values, or leave unique out"
        )
    if unique:
        axis = finest_axis(name, column)
        return (Order.PATTERN if regular <= MOST_PATTERN else Order.SEQUENCE), axis
    return Order.SEQUENCE, axis_of(name, column, bins=BINS)


def columns_of_count(schema: DatabaseSchema, child: str) -> Column:
    """Return the column that holds the number of a child table's rows, or the set of periods with a row.

    A set is a whole number with a bit for each period.  A set is used if periods are unique and at most `MOST_PATTERN`.
    """
    relation = schema.relation_to(child)
    if relation is None:
        raise SchemaError(f"table {child!r} is the child of no relation: add a Relation to the table above it")
    column = schema.tables[child].get(relation.order) if relation.order is not None else None
    if relation.unique and column is not None and column.is_complete and grid_of(column).regular <= MOST_PATTERN:
        return Integer(0, 2 ** grid_of(column).regular - 1)
    return Integer(0, relation.at_most)


def _flags(schema: DatabaseSchema, table: TableLayout) -> dict[str, Axis]:
    """Return the axes of a person's status attributes, stored with the root table; none for other tables."""
    if table.order is not Order.ROOT:
        return {}
    flags = {STATE: Integer(0, 3)} | {f"#left out of {name}": Integer(0, 1) for name in schema.names[1:]}
    return {name: finest_axis(name, column) for name, column in flags.items()}
