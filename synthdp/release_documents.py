"""A release as a JSON document and arrays by name, and back.

Only what a release is made of is written, by name: noisy answers, the fitted model, the schema, the receipt.  A synthetic
model has the form of version 1, all other outputs that of version 2, by `file_forms`.  Knows no files: `storage` does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from synthdp.arrays import AnyArray
from synthdp.distribution.components import Components
from synthdp.distribution.explicit import Explicit
from synthdp.distribution.junction_tree import JunctionTree
from synthdp.distribution.markov_random_field import Graphical
from synthdp.distribution.product import Product
from synthdp.distribution.protocol import Distribution
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.domain.refinement import Refinement
from synthdp.errors import FormatError, InternalError, ParameterError
from synthdp.measurements import Measurements, Noise, NoiseLaw
from synthdp.privacy.loss import from_document as loss_from_document, to_document as loss_to_document
from synthdp.privacy.receipt import Receipt
from synthdp.queries.distances import MarginalDistances
from synthdp.queries.interactions import Interactions
from synthdp.queries.marginals import Marginals
from synthdp.queries.pair_distances import PairDistances
from synthdp.queries.products import ClippedProducts, PairProducts
from synthdp.queries.protocol import KeyStatistic, Statistic
from synthdp.queries.total import Total
from synthdp.queries.trigonometric import Cosine, Factor, Indicator, TensorBasis
from synthdp.registered import found_at, place_of, statistics
from synthdp.release import Release
from synthdp.sampling.synthetic_model import SyntheticModel
from synthdp.schema.schema import Schema
from synthdp.tables.format import TableFormat

if TYPE_CHECKING:
    from synthdp.sampling.database_model import DatabaseModel

VERSION, FORMS_VERSION = 1, 2
"""Of the document of a release whose output is a `SyntheticModel`, and of any other."""
VERSIONS = (VERSION, FORMS_VERSION)


@dataclass(slots=True)
class Store:
    """Where a document puts its arrays, by name, and its domains, each once."""

    arrays: dict[str, AnyArray] = field(default_factory=dict)
    domains: list[Domain] = field(default_factory=list)

    def put(self, array: AnyArray) -> str:
        """Keep an array and return its name."""
        name = f"a{len(self.arrays)}"
        self.arrays[name] = array
        return name

    def domain(self, domain: Domain) -> int:
        """Return the number of a domain among those that are kept."""
        for i, known in enumerate(self.domains):
            if known is domain:
                return i
        self.domains.append(domain)
        return len(self.domains) - 1


def to_document(release: Release[Any], store: Store) -> dict[str, Any]:
    """Return all of a release but its arrays, which go to the store."""
    if isinstance(release.output, SyntheticModel):
        return _of_model(release, store)
    from synthdp.file_forms import outputs
    from synthdp.sampling.database_model import DatabaseModel

    if isinstance(release.output, DatabaseModel):
        return _of_database(release, release.output, store)
    if place_of(type(release.output)) not in outputs().values():
        raise ParameterError(f"a release by {release.mechanism} has no file form")
    return _of_forms(release, store)


def from_document(document: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> Release[Any]:
    """Return the release of a document, whose version is one of `VERSIONS`, and of its arrays."""
    return (_to_model if document["synthdp_release"] == VERSION else _to_forms)(document, arrays)


def _of_model(release: Release[SyntheticModel], store: Store) -> dict[str, Any]:
    document: dict[str, Any] = {
        "synthdp_release": VERSION,
        "mechanism": release.mechanism,
        "loss": loss_to_document(release.loss),
        "receipt": release.receipt.to_document(),
        **_model(release.output, store),
        "measurements": [_measurements(m, store) for m in release.measurements if has_file_form(m.queries)],
    }
    document["domains"] = [[_axis(axis, store) for axis in domain.axes] for domain in store.domains]
    return document


def _model(model: SyntheticModel, store: Store) -> dict[str, Any]:
    return {
        "schema": json.loads(model.schema.to_json()),
        "format": model.format.to_document(),
        "total": model.total,
        "domain": store.domain(model.domain),
        "refinements": [_refinement(r, store) for r in model.refinements],
        "distribution": _distribution(model.distribution, store),
    }


def _of_forms(release: Release[Any], store: Store) -> dict[str, Any]:
    """Return the document of a release whose output is no synthetic model; measurements without a form are left out."""
    from synthdp.file_forms import Arrays, Form, has_form, written

    arrays = Arrays(store.arrays)
    special = {
        Domain: Form(store.domain, _unread),
        Schema: Form(lambda schema: json.loads(schema.to_json()), _unread),
        SyntheticModel: Form(lambda model: _model(model, store), _unread),
    }
    document = {
        "synthdp_release": FORMS_VERSION,
        "mechanism": release.mechanism,
        "loss": loss_to_document(release.loss),
        "receipt": release.receipt.to_document(),
        "output": written(release.output, arrays, special),
        "measurements": [written(one, arrays, special) for one in release.measurements if has_form(one)],
    }
    document["domains"] = [
        {
            "columns": json.loads(Schema({axis.name: axis.column for axis in domain.axes}).to_json()),
            "axes": [_axis(axis, store) for axis in domain.axes],
        }
        for domain in store.domains
    ]
    return document


def _to_forms(document: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> Release[Any]:
    from synthdp.file_forms import Form, output_kind, read as read_form

    domains = []
    for one in document["domains"]:
        columns = Schema.from_json(json.dumps(one["columns"]), source="the release's columns")
        domains.append(Domain(tuple(_read_axis(axis, columns, arrays) for axis in one["axes"])))
    special = {
        Domain: Form(_unread, domains.__getitem__),
        Schema: Form(_unread, _read_schema),
        SyntheticModel: Form(_unread, lambda one: _read_model(one, domains, arrays)),
    }
    output = read_form(document["output"], output_kind(document["output"]), arrays, special)
    measured = tuple(read_form(one, Measurements, arrays, special) for one in document["measurements"])
    return Release(
        mechanism=str(document["mechanism"]),
        output=output,
        loss=loss_from_document(document["loss"]),
        receipt=Receipt.from_document(document["receipt"]),
        measurements=measured,
    )


def _unread(_: Any) -> Any:
    raise InternalError("a form of a file was used in the wrong direction")


def _read_schema(document: Any) -> Schema:
    return Schema.from_json(json.dumps(document), source="the release's schema")


def _of_database(release: Release[Any], model: DatabaseModel, store: Store) -> dict[str, Any]:
    from synthdp.sampling.database_document import DatabaseWriter

    writer = DatabaseWriter(store.put)
    measured = [(m, m.queries) for m in release.measurements]
    document = {
        "synthdp_release": VERSION,
        "mechanism": release.mechanism,
        "loss": loss_to_document(release.loss),
        "receipt": release.receipt.to_document(),
        "database": writer.model(model),
        "measurements": [_noisy(m, writer.queries(q), store) for m, q in measured],  # type: ignore[arg-type]
    }
    return document | {"parts": writer.parts()}


def _to_database(document: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> Release[DatabaseModel]:
    from synthdp.sampling.database_document import DatabaseReader

    reader = DatabaseReader({**document["database"], **document["parts"]}, arrays)
    return Release(
        mechanism=str(document["mechanism"]),
        output=reader.model(),
        loss=loss_from_document(document["loss"]),
        receipt=Receipt.from_document(document["receipt"]),
        measurements=tuple(_read_noisy(m, reader.queries(m["queries"]), arrays) for m in document["measurements"]),
    )


def _to_model(document: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> Release[Any]:
    if "database" in document:
        return _to_database(document, arrays)
    schema = _read_schema(document["schema"])
    domains = [Domain(tuple(_read_axis(axis, schema, arrays) for axis in axes)) for axes in document["domains"]]
    return Release(
        mechanism=str(document["mechanism"]),
        output=_read_model(document, domains, arrays),
        loss=loss_from_document(document["loss"]),
        receipt=Receipt.from_document(document["receipt"]),
        measurements=tuple(_read_measurements(m, domains, arrays) for m in document["measurements"]),
    )


def _read_model(document: Mapping[str, Any], domains: list[Domain], arrays: Mapping[str, AnyArray]) -> SyntheticModel:
    schema = _read_schema(document["schema"])
    model = SyntheticModel(
        schema=schema,
        domain=domains[document["domain"]],
        distribution=_read_distribution(document["distribution"], arrays),
        refinements=tuple(
            Refinement(
                _read_axis(r["fine"], schema, arrays),
                arrays[r["coarse_cell"]],
                arrays[r["weights"]],
                rounding=arrays[r["rounding"]] if "rounding" in r else None,
            )
            for r in document["refinements"]
        ),
        total=float(document["total"]),
        format=TableFormat.from_document(document["format"]),
    )
    if model.distribution.shape != model.domain.shape or len(model.refinements) != len(model.domain):
        raise FormatError("the release's model does not fit its domain")
    if not {name for name, _ in model.format.dtypes} <= set(schema.outputs):
        raise FormatError("the release's format does not fit its schema")
    return model


def _refinement(refinement: Refinement, store: Store) -> dict[str, Any]:
    document = {
        "fine": _axis(refinement.fine, store),
        "coarse_cell": store.put(refinement.coarse_cell),
        "weights": store.put(refinement.weights),
    }
    return document if refinement.rounding is None else document | {"rounding": store.put(refinement.rounding)}


def _axis(axis: Axis, store: Store) -> dict[str, str]:
    return {"name": axis.name, "starts": store.put(axis.starts), "cells": store.put(axis.cells)}


def _read_axis(document: Mapping[str, str], schema: Schema, arrays: Mapping[str, AnyArray]) -> Axis:
    name = document["name"]
    return Axis(name, schema[name], arrays[document["starts"]], arrays[document["cells"]])


def _distribution(distribution: Distribution, store: Store) -> dict[str, Any]:
    match distribution:
        case Graphical():
            potentials = [[list(c), store.put(theta)] for c, theta in distribution.potentials.items()]
            tree = distribution.tree
            return {
                "kind": "graphical",
                "shape": list(tree.shape),
                "nodes": [list(node) for node in tree.nodes],
                "parents": list(tree.parents),
                "potentials": potentials,
            }
        case Explicit():
            codes, weights = store.put(distribution.codes), store.put(distribution.weights)
            return {"kind": "explicit", "shape": list(distribution.shape), "codes": codes, "weights": weights}
        case Product():
            margins = [store.put(margin) for margin in distribution.margins]
            return {"kind": "product", "shape": list(distribution.shape), "margins": margins}
        case Components():
            return {
                "kind": "components",
                "shape": list(distribution.shape),
                "columns": [list(columns) for columns in distribution.columns],
                "parts": [_distribution(part, store) for part in distribution.parts],
            }
    raise ParameterError(f"a {type(distribution).__name__} distribution has no file form")


def _read_distribution(document: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> Distribution:
    shape = tuple(int(k) for k in document["shape"])
    match document["kind"]:
        case "graphical":
            nodes = tuple(tuple(int(a) for a in node) for node in document["nodes"])
            tree = JunctionTree(shape, nodes, tuple(int(p) for p in document["parents"]))
            potentials = {tuple(int(a) for a in clique): arrays[name] for clique, name in document["potentials"]}
            return Graphical.calibrated(tree, potentials)
        case "explicit":
            return Explicit(shape=shape, codes=arrays[document["codes"]], weights=arrays[document["weights"]])
        case "product":
            return Product(shape=shape, margins=tuple(arrays[name] for name in document["margins"]))
        case "components":
            columns = tuple(tuple(int(j) for j in part) for part in document["columns"])
            if any(part["kind"] == "components" for part in document["parts"]):
                raise FormatError("a part of the release's distribution is made of parts again")
            parts = tuple(_read_distribution(part, arrays) for part in document["parts"])
            return Components(shape=shape, columns=columns, parts=parts)
    raise FormatError("the release's distribution has an unknown kind")


def has_file_form(queries: Statistic | KeyStatistic) -> bool:
    """Say whether a release of a synthetic model keeps the answers to a statistic in its file."""
    return (
        isinstance(
            queries,
            (
                ClippedProducts,
                Interactions,
                Marginals,
                MarginalDistances,
                PairDistances,
                PairProducts,
                TensorBasis,
                Total,
            ),
        )
        or _name_in_works(queries) is not None
    )


def _name_in_works(queries: Statistic | KeyStatistic) -> str | None:
    """Return the name under which a work registers a statistic; ``None`` where none does."""
    places = {place: name for name, place in statistics().items()}
    return places.get(place_of(type(queries)))


def _measurements(measured: Measurements, store: Store) -> dict[str, Any]:
    return _noisy(measured, _queries(measured.queries, store), store)


def _noisy(measured: Measurements, queries: dict[str, Any], store: Store) -> dict[str, Any]:
    return {
        "queries": queries,
        "values": store.put(measured.values),
        "resolution": measured.resolution,
        "noise": {"law": measured.noise.law.value, "scale": measured.noise.scale, "k": measured.noise.k},
    }


def _read_measurements(
    document: Mapping[str, Any], domains: list[Domain], arrays: Mapping[str, AnyArray]
) -> Measurements:
    return _read_noisy(document, _read_queries(document["queries"], domains, arrays), arrays)


def _read_noisy(document: Mapping[str, Any], queries: Statistic, arrays: Mapping[str, AnyArray]) -> Measurements:
    noise = document["noise"]
    return Measurements(
        queries=queries,
        values=arrays[document["values"]],
        resolution=int(document["resolution"]),
        noise=Noise(law=NoiseLaw(noise["law"]), scale=float(noise["scale"]), k=int(noise["k"])),
    )


def _queries(queries: Statistic | KeyStatistic, store: Store) -> dict[str, Any]:
    match queries:
        case Marginals():
            return {
                "kind": "marginals",
                "domain": store.domain(queries.domain),
                "cliques": [list(clique) for clique in queries.cliques],
            }
        case Interactions():
            cliques = [list(clique) for clique in queries.cliques]
            weights = list(queries.weights)
            return {
                "kind": "interactions", "domain": store.domain(queries.domain), "cliques": cliques, "weights": weights
            }  # fmt: skip
        case MarginalDistances():
            expected = {"expected": store.put(queries.expected), "unit": queries.denominator}
            return {**_queries(queries.queries, store), **expected, "kind": "distances"}
        case PairDistances():
            margins = [store.put(margin) for margin in queries.margins]
            domain = store.domain(queries.domain)
            return {"kind": "pair distances", "domain": domain, "margins": margins, "unit": queries.denominator}
        case ClippedProducts():
            scores = [store.put(score) for score in queries.scores]
            numbers = {"scores": scores, "resolution": queries.resolution, "norm": queries.norm}
            return {"kind": "products", "domain": store.domain(queries.domain), **numbers}
        case PairProducts():
            scores = [store.put(score) for score in queries.scores]
            numbers = {"scores": scores, "resolution": queries.resolution, "most": queries.most}
            chosen = [list(pair) for pair in queries.chosen]
            return {"kind": "pair products", "domain": store.domain(queries.domain), "chosen": chosen, **numbers}
        case Total():
            return {"kind": "total", "domain": store.domain(queries.domain)}
        case TensorBasis():
            factors = {Cosine: "cosine", Indicator: "indicator"}
            terms = [
                [[factors[type(f)], f.column, f.degree if isinstance(f, Cosine) else f.cell] for f in term]
                for term in queries.terms
            ]
            return {
                "kind": "tensor",
                "domain": store.domain(queries.domain),
                "terms": terms,
                "unit": queries.denominator,
            }
    name = _name_in_works(queries)
    if name is None:
        raise ParameterError(f"{type(queries).__name__} queries have no file form")
    saved: Any = queries
    return {"kind": name, "domain": store.domain(saved.domain), **saved.settings()}


def _read_queries(document: Mapping[str, Any], domains: list[Domain], arrays: Mapping[str, AnyArray]) -> Statistic:
    domain = domains[document["domain"]]
    if document["kind"] in ("marginals", "distances"):
        marginals = Marginals(domain, tuple(tuple(clique) for clique in document["cliques"]))
        if document["kind"] == "marginals":
            return marginals
        return MarginalDistances(marginals, arrays[document["expected"]], int(document["unit"]))
    if document["kind"] == "pair distances":
        return PairDistances(domain, tuple(arrays[name] for name in document["margins"]), int(document["unit"]))
    if document["kind"] == "interactions":
        return Interactions(domain, tuple(tuple(c) for c in document["cliques"]), tuple(document["weights"]))
    if document["kind"] in ("products", "pair products"):
        scores, resolution = tuple(arrays[name] for name in document["scores"]), int(document["resolution"])
        if document["kind"] == "products":
            return ClippedProducts(domain, scores, resolution, int(document["norm"]))
        chosen = tuple((int(a), int(b)) for a, b in document["chosen"])
        return PairProducts(domain, scores, chosen, resolution, int(document["most"]))
    if document["kind"] == "total":
        return Total(domain)
    if document["kind"] in statistics():
        read: Statistic = found_at(statistics()[document["kind"]]).of_settings(domain, document)
        return read
    factors: dict[str, type[Factor]] = {"cosine": Cosine, "indicator": Indicator}
    terms = tuple(tuple(factors[kind](column, number) for kind, column, number in term) for term in document["terms"])
    return TensorBasis(domain, terms, int(document["unit"]))
