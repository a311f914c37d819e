"""Writing a synthetic model as a JSON document with arrays, and reading it back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from synthdp.arrays import AnyArray
from synthdp.codec import DocumentSource, Store, file_form, read_schema
from synthdp.distribution.distribution import Distribution
from synthdp.domain.domain import Domain
from synthdp.domain.refinement import Refinement
from synthdp.errors import FormatError
from synthdp.queries.contingency import table_size
from synthdp.sampling.exact_tables import ExactTable
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.schema import Schema
from synthdp.tables.format import TableFormat


def write(model: SyntheticModel, store: Store) -> dict[str, Any]:
    """Return the JSON document of a model and put its arrays into the store.

    The document names classes by the short names of files of version 1 in files of all versions, so that a model has one
    form.  The reader takes short and long names.
    """
    brief = replace(store, brief=True)  # of the same arrays and parts
    exact = [{"clique": list(one.clique), "counts": store.put(one.counts)} for one in model.exact]
    document = {
        "schema": brief.write(model.schema),
        "format": model.format.to_document(),
        "total": model.total,
        "domain": brief.write(model.domain),
        "refinements": [_refinement(one, brief) for one in model.refinements],
        "distribution": brief.write(model.distribution),
    }
    return document | {"exact": exact} if exact else document


def read(document: Mapping[str, Any], source: DocumentSource) -> SyntheticModel:
    """Return the synthetic model that a JSON document describes.

    Raises
    ------
    FormatError
        If parts do not match each other, such as exact tables and bins, because the file is damaged.
    """
    schema = read_schema(document["schema"])
    model = SyntheticModel(
        schema=schema,
        domain=source.read(document["domain"], Domain),
        distribution=source.read(document["distribution"], Distribution),
        refinements=tuple(_read_refinement(one, schema, source) for one in document["refinements"]),
        total=float(document["total"]),
        format=TableFormat.from_document(document["format"]),
        exact=tuple(
            ExactTable(clique=tuple(map(int, one["clique"])), counts=source.arrays[one["counts"]])
            for one in document.get("exact", ())
        ),
    )
    sizes = [(len(one.counts), [j for j in one.clique if j >= len(model.domain)], one.clique) for one in model.exact]
    if any(outside or size != table_size(model.domain.shape, clique) for size, outside, clique in sizes):
        raise FormatError("the file is damaged, so load another copy: the release's exact tables do not match its bins")
    if model.distribution.shape != model.domain.shape or len(model.refinements) != len(model.domain):
        raise FormatError("the file is damaged, so load another copy: the release's model does not match its bins")
    if not {name for name, _ in model.format.dtypes} <= set(schema.outputs):
        raise FormatError("the file is damaged, so load another copy: the release's format does not match its schema")
    return model


def write_domains(domains: list[Domain], schema: Schema | None, store: Store) -> list[Any]:
    """Return the JSON documents of all domains that another document refers to by number.

    Call this last: only then has every part of the document registered its domains.

    Parameters
    ----------
    domains
        The domains, in the order of their numbers.
    schema
        Columns of the document's model, or None.  A domain over these columns is written without their declarations.
    store
        Receives the arrays of the domains.
    """
    return [_domain(domain, schema, replace(store, brief=True)) for domain in domains]


def read_domains(document: Any, schema: Schema | None, arrays: Mapping[str, AnyArray]) -> list[Domain]:
    """Return the domains that `write_domains` wrote, in the order of their numbers.

    Raise FormatError if a domain has neither columns of its own nor the columns of a schema.
    """
    source, domains = DocumentSource(arrays), []
    for one in document:
        columns, axes = (read_schema(one["columns"]), one["axes"]) if isinstance(one, dict) else (schema, one)
        if columns is None:
            raise FormatError(
                "the file is damaged, so load another copy: the columns of a release are not declared in it"
            )
        domains.append(Domain(tuple(source.axis(axis, columns) for axis in axes)))
    return domains


def _domain(domain: Domain, schema: Schema | None, store: Store) -> Any:
    """Return the JSON document of a domain: its axes, and its columns if they are not the schema's."""
    if schema is not None and all(schema.get(axis.name) == axis.column for axis in domain.axes):
        return [store.axis(axis) for axis in domain.axes]
    columns = store.write(Schema({axis.name: axis.column for axis in domain.axes}))
    return {"columns": columns, "axes": [store.axis(axis) for axis in domain.axes]}


def _refinement(refinement: Refinement, store: Store) -> dict[str, Any]:
    """Return the JSON document of a refinement, the division of one column's coarse bins into fine bins."""
    document = {
        "fine": store.axis(refinement.fine),
        "coarse_cell": store.put(refinement.coarse_cell),
        "weights": store.put(refinement.weights),
    }
    return document if refinement.rounding is None else document | {"rounding": store.put(refinement.rounding)}


def _read_refinement(document: Mapping[str, Any], schema: Schema, source: DocumentSource) -> Refinement:
    """Return the refinement that a JSON document describes."""
    rounding = source.arrays[document["rounding"]] if "rounding" in document else None
    coarse_cell, weights = (source.arrays[document[name]] for name in ("coarse_cell", "weights"))
    return Refinement(source.axis(document["fine"], schema), coarse_cell, weights, rounding=rounding)


file_form("SyntheticModel", bare=True, write=write, read=read)(SyntheticModel)
