"""A law of persons as a JSON document and arrays, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from synthdp.arrays import AnyArray
from synthdp.distribution.histories import Conditional, Factor, Histories
from synthdp.domain.histories import Layout
from synthdp.errors import FormatError
from synthdp.queries.related.person_tables import Grouping, Kind, PersonDistances, PersonTable, PersonTables
from synthdp.sampling.database_model import DatabaseModel, outer_schema
from synthdp.schema.database import DatabaseSchema
from synthdp.tables.format import TableFormat

Put = Callable[[AnyArray], str]


@dataclass(slots=True, eq=False)
class DatabaseWriter:
    """Writes a model, and statistics of the same persons, into one document.

    Parameters
    ----------
    put
        Keeps an array and returns its name.
    """

    put: Put
    groupings: list[Grouping] = field(default_factory=list)
    tables: list[PersonTable] = field(default_factory=list)

    def model(self, model: DatabaseModel) -> dict[str, Any]:
        """Return the document of a model."""
        conditionals = [
            {
                "table": one.table,
                "attribute": one.attribute,
                "base": self.put(one.base),
                "factors": [{"of": self._table(f.table), "theta": self.put(f.theta)} for f in one.factors],
            }
            for one in model.histories.conditionals.values()
        ]
        return {
            "schema": json.loads(model.schema.to_json()),
            "total": model.total,
            "formats": {name: one.to_document() for name, one in model.formats.items()},
            "conditionals": conditionals,
        }

    def queries(self, queries: PersonTables | PersonDistances) -> dict[str, Any]:
        """Return the document of a statistic."""
        if isinstance(queries, PersonDistances):
            return self.queries(queries.queries) | {"kind": "person distances", "expected": self.put(queries.expected)}
        return {
            "kind": "person tables",
            "tables": [self._table(table) for table in queries.tables],
            "multipliers": list(queries.multipliers),
        }

    def parts(self) -> dict[str, Any]:
        """Return what the other documents refer to; to be asked last."""
        tables = [self._table_document(table) for table in self.tables]
        groupings = [
            {
                "name": one.name,
                "groups": self.put(one.groups),
                "ranks": None if one.ranks is None else self.put(one.ranks),
            }
            for one in self.groupings
        ]
        return {"tables": tables, "groupings": groupings}

    def _table(self, table: PersonTable) -> int:
        return _place(self.tables, table)

    def _table_document(self, table: PersonTable) -> dict[str, Any]:
        other = table.other_grouping
        return {
            "kind": table.kind.name,
            "table": table.table,
            "attribute": table.attribute,
            "grouping": _place(self.groupings, table.grouping),
            "above": table.above,
            "other": table.other,
            "other_grouping": None if other is None else _place(self.groupings, other),
        }


def _place(known: list[Any], one: object) -> int:
    for i, other in enumerate(known):
        if other is one:
            return i
    known.append(one)
    return len(known) - 1


@dataclass(frozen=True, slots=True, eq=False)
class DatabaseReader:
    """Reads what `DatabaseWriter` wrote.

    Parameters
    ----------
    document
        Of the model, with its parts.
    arrays
        By name.
    """

    document: Mapping[str, Any]
    arrays: Mapping[str, AnyArray]
    layout: Layout = field(init=False)
    tables: Sequence[PersonTable] = field(init=False)

    def __post_init__(self) -> None:
        text = json.dumps(self.document["schema"])
        layout = Layout(DatabaseSchema.from_json(text, source="the release's schema"))
        groupings = [
            Grouping(
                str(one["name"]), self.arrays[one["groups"]],
                None if one["ranks"] is None else np.asarray(self.arrays[one["ranks"]], np.int64),
            )
            for one in self.document["groupings"]
        ]  # fmt: skip
        object.__setattr__(self, "layout", layout)
        tables = tuple(_read_table(one, layout, groupings) for one in self.document["tables"])
        object.__setattr__(self, "tables", tables)

    def model(self) -> DatabaseModel:
        """Return the model.

        Raises
        ------
        FormatError
            If its parts do not fit each other.
        """
        conditionals = {}
        for one in self.document["conditionals"]:
            table, attribute = int(one["table"]), str(one["attribute"])
            base = np.array(self.arrays[one["base"]], np.float64)
            factors = [self._factor(factor, table, attribute) for factor in one["factors"]]
            rows = (1, self.layout.tables[table].groups)
            if base.ndim != 2 or base.shape[0] not in rows or base.shape[1] != self.layout.axis(table, attribute).size:
                raise FormatError("the release's model does not fit its schema")
            conditionals[table, attribute] = Conditional(table, attribute, base, factors)
        wanted = [(i, name) for i, table in enumerate(self.layout.tables) for name in table.axes]
        if [*conditionals] != wanted:
            raise FormatError("the release's model does not fit its schema")
        formats = {
            name: TableFormat.from_document(self.document["formats"][name]) for name in self.layout.schema.tables
        }
        for name, form in formats.items():
            if {column for column, _ in form.dtypes} != set(outer_schema(self.layout.schema, name).outputs):
                raise FormatError("the release's format does not fit its schema")
        return DatabaseModel(
            layout=self.layout, histories=Histories(self.layout, conditionals), total=float(self.document["total"]),
            formats=formats,
        )  # fmt: skip

    def queries(self, document: Mapping[str, Any]) -> PersonTables | PersonDistances:
        """Return a statistic."""
        tables = tuple(self.tables[int(i)] for i in document["tables"])
        found = PersonTables(self.layout, tables, tuple(int(one) for one in document["multipliers"]))
        if document["kind"] == "person tables":
            return found
        return PersonDistances(found, self.arrays[document["expected"]])

    def _factor(self, document: Mapping[str, Any], table: int, attribute: str) -> Factor:
        factor = Factor(self.tables[int(document["of"])], np.array(self.arrays[document["theta"]], np.float64))
        about = factor.table.table, factor.table.attribute
        if about != (table, attribute) or factor.theta.shape != factor.table.sizes(self.layout):
            raise FormatError("the release's model does not fit its tables")
        return factor


def _read_table(document: Mapping[str, Any], layout: Layout, groupings: Sequence[Grouping]) -> PersonTable:
    other = document["other_grouping"]
    table = PersonTable(
        Kind[document["kind"]], int(document["table"]), str(document["attribute"]),
        groupings[int(document["grouping"])], int(document["above"]), str(document["other"]),
        None if other is None else groupings[int(other)],
    )  # fmt: skip
    axes = [(table.table, table.attribute, table.grouping)]
    if table.other_grouping is not None:
        above = table.above if table.kind is Kind.PARENT else table.table
        axes.append((above, table.other, table.other_grouping))
    for where, attribute, grouping in axes:
        if grouping.groups.shape[1] != layout.axis(where, attribute).size or grouping.groups.min() < 0:
            raise FormatError("the release's tables do not fit its schema")
    return table
