"""A release as a JSON document and arrays by name, and back; `codec` writes and reads what it holds.

Version 1 is the form of a model of one table or of several, version 2 that of any other output.  Knows no files:
`release_files` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from synthdp.arrays import AnyArray
from synthdp.codec import Source, Store, read_schema
from synthdp.errors import FormatError
from synthdp.measurements import Measurements, Noise, NoiseLaw
from synthdp.privacy.loss import PrivacyLoss, from_document as loss_from_document, to_document as loss_to_document
from synthdp.privacy.receipt import Receipt
from synthdp.queries.protocol import KeyStatistic, Statistic
from synthdp.sampling.model_document import read as read_model, read_domains, write as write_model, write_domains
from synthdp.sampling.synthetic_model import SyntheticModel

VERSION, FORMS_VERSION = 1, 2
"""Of the document of a release whose output is a model of one table or of several, and of any other."""
VERSIONS = (VERSION, FORMS_VERSION)


class Saveable(Protocol):
    """What of a release is saved."""

    @property
    def mechanism(self) -> str:
        """Name of the mechanism."""
        ...

    @property
    def output(self) -> Any:
        """What it made."""
        ...

    @property
    def loss(self) -> PrivacyLoss:
        """What it cost."""
        ...

    @property
    def receipt(self) -> Receipt:
        """The account."""
        ...

    @property
    def measurements(self) -> tuple[Measurements, ...]:
        """The noisy answers."""
        ...


def to_document(release: Saveable, arrays: dict[str, AnyArray]) -> dict[str, Any]:
    """Return all of a release but its arrays, which are put into ``arrays``.

    Raises
    ------
    ParameterError
        If something in it has no file form.
    """
    head = {
        "mechanism": release.mechanism,
        "loss": loss_to_document(release.loss),
        "receipt": release.receipt.to_document(),
    }
    if isinstance(release.output, SyntheticModel):
        store = Store(brief=True, arrays=arrays)
        document = {"synthdp_release": VERSION, **head, **write_model(release.output, store)}
        document["measurements"] = [_noisy(one, store) for one in release.measurements]
        domains = write_domains(store.parts["domains"], release.output.schema, store)
        return {**document, "domains": domains}
    from synthdp.sampling.database_model import DatabaseModel

    if isinstance(release.output, DatabaseModel):
        from synthdp.sampling.database_document import write_parts

        store = Store(brief=True, arrays=arrays)
        document = {"synthdp_release": VERSION, **head, "database": store.write(release.output)}
        document["measurements"] = [_noisy(one, store) for one in release.measurements]
        return {**document, "parts": write_parts(store)}
    store = Store(arrays=arrays)
    document = {"synthdp_release": FORMS_VERSION, **head, "output": store.write(release.output)}
    document["measurements"] = [store.write(one) for one in release.measurements]
    return {**document, "domains": write_domains(store.parts.get("domains", []), None, store)}


def from_document(document: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> dict[str, Any]:
    """Return the fields of the release of a document, whose version is one of `VERSIONS`, and of its arrays."""
    source = Source(arrays)
    if document["synthdp_release"] == FORMS_VERSION:
        source.parts["domains"] = read_domains(document["domains"], None, arrays)
        output = source.read(document["output"], object)
        measurements = [source.read(one, Measurements) for one in document["measurements"]]
        return _fields(document, output, measurements)
    if "database" in document:
        from synthdp.sampling.database_document import read_parts
        from synthdp.sampling.database_model import DatabaseModel

        source.parts |= read_parts(document["parts"], document["database"], arrays)
        output = source.read(document["database"], DatabaseModel)
    else:
        schema = read_schema(document["schema"])
        source.parts["domains"] = read_domains(document["domains"], schema, arrays)
        output = read_model(document, source)
    return _fields(document, output, [_read_noisy(one, source) for one in document["measurements"]])


def _fields(document: Mapping[str, Any], output: Any, measurements: list[Measurements]) -> dict[str, Any]:
    for one in measurements:
        if not len(one.values) == one.queries.k == one.noise.k:
            raise FormatError("the answers of a release do not fit what was asked")
    return {
        "mechanism": str(document["mechanism"]),
        "output": output,
        "loss": loss_from_document(document["loss"]),
        "receipt": Receipt.from_document(document["receipt"]),
        "measurements": tuple(measurements),
    }


def _noisy(measured: Measurements, store: Store) -> dict[str, Any]:
    return {
        "queries": store.write(measured.queries),
        "values": store.put(measured.values),
        "resolution": measured.resolution,
        "noise": {"law": measured.noise.law.value, "scale": measured.noise.scale, "k": measured.noise.k},
    }


def _read_noisy(document: Mapping[str, Any], source: Source) -> Measurements:
    noise = document["noise"]
    return Measurements(
        queries=source.read(document["queries"], Statistic | KeyStatistic),
        values=source.arrays[document["values"]],
        resolution=int(document["resolution"]),
        noise=Noise(law=NoiseLaw(noise["law"]), scale=float(noise["scale"]), k=int(noise["k"])),
    )
