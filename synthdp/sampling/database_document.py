"""Writing a distribution of persons, and statistics of persons, as a JSON document with arrays, and reading it back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from synthdp.arrays import AnyArray
from synthdp.codec import DocumentSource, Store, file_form
from synthdp.distribution.history_model import Conditional, Factor, Histories
from synthdp.domain.axis import Axis
from synthdp.domain.histories import Layout
from synthdp.domain.history_rules import axis_at
from synthdp.domain.refinement import Refinement
from synthdp.errors import FormatError
from synthdp.queries.person_tables import Grouping, Kind, PersonDistances, PersonTable, PersonTables
from synthdp.sampling.database_model import DatabaseModel, outer_schema
from synthdp.schema.column import Column
from synthdp.schema.database import DatabaseSchema
from synthdp.tables.format import TableFormat


def write(model: DatabaseModel, store: Store) -> dict[str, Any]:
    """Return the JSON document of a database model and put its arrays into the store.

    Tables and layouts that it refers to are written by `write_parts`.
    """
    conditionals = [
        {
            "table": one.table,
            "attribute": one.attribute,
            "base": store.put(one.base),
            "factors": [{"of": store.number("tables", f.table), "theta": store.put(f.theta)} for f in one.factors],
            **({"independent": one.independent} if one.independent else {}),
        }
        for one in model.histories.conditionals.values()
    ]
    store.number("layouts", model.layout)  # the first of all
    refinements = [
        {
            "table": table,
            "column": column,
            "starts": store.put(one.fine.starts),
            **one.fine.points_in_file,
            "leaves": store.put(one.fine.cells),
            "cells": store.put(one.coarse_cell),
            "weights": store.put(one.weights),
            "rounding": None if one.rounding is None else store.put(one.rounding),
        }
        for (table, column), one in model.refinements.items()
    ]
    return {
        "schema": json.loads(model.schema.to_json()),
        **({"refinements": refinements} if refinements else {}),
        "total": model.total,
        "formats": {name: one.to_document() for name, one in model.formats.items()},
        "conditionals": conditionals,
    }


def write_parts(store: Store) -> dict[str, Any]:
    """Return the JSON documents of the tables, groupings and layouts that the rest of the document refers to by number.

    Call this last, when all parts are registered in the store.
    """
    tables = [_table_document(table, store) for table in store.parts.get("tables", [])]
    groupings = [
        {
            "name": one.name,
            "groups": store.put(one.groups),
            "ranks": None if one.ranks is None else store.put(one.ranks),
        }
        for one in store.parts.get("groupings", [])
    ]
    layouts = [
        {
            "axes": [
                {
                    "table": table,
                    "column": column,
                    "starts": store.put(axis.starts),
                    "cells": store.put(axis.cells),
                    **axis.points_in_file,
                }
                for (table, column), axis in one.cells.items()
            ],
            **({"differences": True} if one.differences else {}),
        }
        for one in store.parts.get("layouts", [])
    ]
    if any(one.nested for one in store.parts.get("layouts", [])):  # of an earlier version, written as it was
        return {"tables": tables, "groupings": groupings}
    return {"tables": tables, "groupings": groupings, "layouts": layouts}


def read_parts(
    document: Mapping[str, Any], model: Mapping[str, Any], arrays: Mapping[str, AnyArray]
) -> dict[str, Sequence[Any]]:
    """Return the lists "layouts" and "tables" of a document, to which the rest of the document refers by number.

    The model's document supplies the schema.
    """
    schema = DatabaseSchema.from_json(json.dumps(model["schema"]), source="the release's schema")
    nested = "layouts" not in document  # in releases of earlier versions
    layouts = [_layout(each, schema, arrays, nested=nested) for each in document.get("layouts", [{"axes": []}])]
    groupings = [
        Grouping(
            str(one["name"]), arrays[one["groups"]],
            None if one["ranks"] is None else np.asarray(arrays[one["ranks"]], np.int64),
        )
        for one in document["groupings"]
    ]  # fmt: skip
    tables = [_read_table(one, groupings) for one in document["tables"]]
    return {"layouts": layouts, "tables": tables}


def _layout(
    document: Mapping[str, Any], schema: DatabaseSchema, arrays: Mapping[str, AnyArray], *, nested: bool
) -> Layout:
    """Return the layout that a JSON document describes, with the bins that it states in place of the plain ones.

    ``nested`` is for releases of earlier versions; see `Layout`.
    """
    plain = Layout(schema, {}, nested, bool(document.get("differences", False)))
    days = {(place[0], one.name): one.column for place, one in plain.differences.items()}
    cells = {(one["table"], one["column"]): _axis(one, schema, days, arrays) for one in document["axes"]}
    return plain.with_cells(cells) if cells else plain


def _axis(
    document: Mapping[str, Any],
    schema: DatabaseSchema,
    days: Mapping[tuple[str, str], Column],
    arrays: Mapping[str, AnyArray],
) -> Axis:
    """Return the axis that a JSON document describes.

    A difference of two days has no column in the schema, so ``days`` holds its column.
    """
    place = document["table"], document["column"]
    column = days[place] if place in days else schema.tables[place[0]][place[1]]
    runs = arrays[document["starts"]], arrays[document["cells"]]
    return Axis.of_file(document["column"], column, *runs, document.get("points"))


def read(document: Mapping[str, Any], source: DocumentSource) -> DatabaseModel:
    """Return the database model that a JSON document describes.

    Raises
    ------
    FormatError
        If parts do not match each other, such as model and schema, because the file is damaged.
    """
    layout, conditionals = source.parts["layouts"][0], {}
    for one in document["conditionals"]:
        table, attribute = int(one["table"]), str(one["attribute"])
        base = np.array(source.arrays[one["base"]], np.float64)
        factors = tuple(_factor(factor, table, attribute, source) for factor in one["factors"])
        rows = (1, layout.tables[table].groups)
        if base.ndim != 2 or base.shape[0] not in rows or base.shape[1] != layout.axis(table, attribute).size:
            raise FormatError(
                "the file is damaged, so load another copy: the release's model does not match its schema"
            )
        conditionals[table, attribute] = Conditional(
            table, attribute, base, factors, float(one.get("independent", 0.0))
        )
    wanted = [(i, name) for i, table in enumerate(layout.tables) for name in table.axes]
    if [*conditionals] != wanted:
        raise FormatError("the file is damaged, so load another copy: the release's model does not match its schema")
    formats = {name: TableFormat.from_document(document["formats"][name]) for name in layout.schema.tables}
    for name, form in formats.items():
        if {column for column, _ in form.dtypes} != set(outer_schema(layout.schema, name).outputs):
            raise FormatError(
                "the file is damaged, so load another copy: the release's format does not match its schema"
            )
    refinements = {
        (int(one["table"]), str(one["column"])): _refinement(one, layout, source.arrays)
        for one in document.get("refinements", [])
    }
    return DatabaseModel(
        layout=layout, histories=Histories(layout, conditionals), total=float(document["total"]), formats=formats,
        refinements=refinements,
    )  # fmt: skip


def _refinement(document: Mapping[str, Any], layout: Layout, arrays: Mapping[str, AnyArray]) -> Refinement:
    """Return the refinement that a JSON document describes; raise FormatError if its bins do not match the layout's."""
    place = layout.schema.names[int(document["table"])], str(document["column"])
    coarse, rounding = axis_at(layout, place), document["rounding"]
    runs = arrays[document["starts"]], arrays[document["leaves"]]
    fine = Axis.of_file(coarse.name, coarse.column, *runs, document.get("points"))
    found = Refinement(
        fine, arrays[document["cells"]], arrays[document["weights"]], None if rounding is None else arrays[rounding]
    )
    if coarse.groups_of(fine) is None or found.groups != coarse.size:
        raise FormatError(
            "the file is damaged, so load another copy: the release's values within bins do not match its bins"
        )
    return found


def _write_queries(queries: PersonTables, store: Store) -> dict[str, Any]:
    """Return the JSON document of person tables, the statistics that count persons."""
    tables = [store.number("tables", table) for table in queries.tables]
    layout = store.number("layouts", queries.layout)
    document = {"tables": tables, "multipliers": list(queries.multipliers)}
    return {"layout": layout, **document} if layout else document


def _write_distances(distances: PersonDistances, store: Store) -> dict[str, Any]:
    """Return the JSON document of the distances between person tables and their expected counts."""
    return _write_queries(distances.queries, store) | {"expected": store.put(distances.expected)}


def _read_queries(document: Mapping[str, Any], source: DocumentSource) -> PersonTables:
    """Return the person tables that a JSON document describes.

    Raise FormatError if a table does not match its layout.
    """
    layout = source.parts["layouts"][int(document.get("layout", 0))]
    tables = tuple(source.parts["tables"][int(i)] for i in document["tables"])
    for table in tables:
        _check_fits(table, layout)
    return PersonTables(layout, tables, tuple(int(one) for one in document["multipliers"]))


def _read_distances(document: Mapping[str, Any], source: DocumentSource) -> PersonDistances:
    """Return the distances of person tables that a JSON document describes."""
    return PersonDistances(_read_queries(document, source), source.arrays[document["expected"]])


def _table_document(table: PersonTable, store: Store) -> dict[str, Any]:
    """Return the JSON document of one person table; groupings, which many tables share, are numbers in the store."""
    other = table.other_grouping
    return {
        "kind": table.kind.name,
        "table": table.table,
        "attribute": table.attribute,
        "grouping": store.number("groupings", table.grouping),
        "above": table.above,
        "other": table.other,
        "other_grouping": None if other is None else store.number("groupings", other),
        **({"parts": [_table_document(one, store) for one in table.parts]} if table.parts else {}),
    }


def _factor(document: Mapping[str, Any], table: int, attribute: str, source: DocumentSource) -> Factor:
    """Return the model factor that a JSON document describes; raise FormatError if it belongs to another attribute."""
    theta = np.array(source.arrays[document["theta"]], np.float64)
    factor = Factor(source.parts["tables"][int(document["of"])], theta)
    _check_fits(factor.table, source.parts["layouts"][0])
    about = factor.table.table, factor.table.attribute
    if about != (table, attribute) or factor.theta.shape != factor.table.sizes(source.parts["layouts"][0]):
        raise FormatError("the file is damaged, so load another copy: the release's model does not match its tables")
    return factor


def _read_table(document: Mapping[str, Any], groupings: Sequence[Grouping]) -> PersonTable:
    """Return the person table that a JSON document describes."""
    other = document["other_grouping"]
    return PersonTable(
        Kind[document["kind"]], int(document["table"]), str(document["attribute"]),
        groupings[int(document["grouping"])], int(document["above"]), str(document["other"]),
        None if other is None else groupings[int(other)],
        tuple(_read_table(one, groupings) for one in document.get("parts", [])),
    )  # fmt: skip


def _check_fits(table: PersonTable, layout: Layout) -> None:
    """Raise FormatError if the groups of a person table do not match the bins of the layout, as in a damaged file."""
    for part in table.parts:
        if part.kind not in (Kind.ROW, Kind.PARENT, Kind.STEP) or part.parts or part.table != table.table:
            raise FormatError("the file is damaged, so load another copy: the release's tables do not match its schema")
        _check_fits(part, layout)
    axes = [(table.table, table.attribute, table.grouping)]
    if table.other_grouping is not None:
        above = table.above if table.kind is Kind.PARENT else table.table
        axes.append((above, table.other, table.other_grouping))
    for where, attribute, grouping in axes:
        if grouping.groups.shape[1] != layout.axis(where, attribute).size or grouping.groups.min() < 0:
            raise FormatError("the file is damaged, so load another copy: the release's tables do not match its schema")


file_form("DatabaseModel", bare=True, write=write, read=read)(DatabaseModel)
file_form("person tables", write=_write_queries, read=_read_queries)(PersonTables)
file_form("person distances", write=_write_distances, read=_read_distances)(PersonDistances)
