"""The folder of a release: `release.json` for people and machines, `arrays.npz` for numbers.  Never pickle.

Files are checked on reading: version, checksum, sizes.  What they hold is made by `to_document` and read by
`from_document`.  Under `release`, which saves and loads.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from synthdp.arrays import NO_ARRAYS, AnyArray, packed
from synthdp.codec import DocumentSource, Store, read_schema
from synthdp.errors import DataError, FormatError, ParameterError, SynthDPError
from synthdp.files import replacing_folder, writing
from synthdp.measurements import Measurements, Noise, NoiseLaw
from synthdp.privacy.loss import PrivacyLoss, from_document as loss_from_document, to_document as loss_to_document
from synthdp.privacy.receipt import Receipt
from synthdp.queries.protocol import KeyStatistic, Statistic
from synthdp.sampling.model_document import read as read_model, read_domains, write as write_model, write_domains
from synthdp.sampling.synthetic_model import SyntheticModel

VERSION, FORMS_VERSION = 1, 2
"""File versions of a release of synthetic tables (VERSION), and of a release with any other output (FORMS_VERSION),
which is stored by registered classes.  A version rises by one when the form of its files changes.  A convention."""
VERSIONS = (VERSION, FORMS_VERSION)
"""File versions that this code reads."""


class Saveable(Protocol):
    """The attributes of a release that are saved."""

    @property
    def mechanism(self) -> str:
        """The name of the mechanism."""
        ...

    @property
    def output(self) -> Any:
        """Return the output of the release: a model, a summary or answers."""
        ...

    @property
    def loss(self) -> PrivacyLoss:
        """Return the privacy loss of the release."""
        ...

    @property
    def receipt(self) -> Receipt:
        """The receipt: every spend and what the guarantee assumes."""
        ...

    @property
    def measurements(self) -> tuple[Measurements, ...]:
        """The noisy measurements that the output was made from."""
        ...


def to_document(release: Saveable, arrays: dict[str, AnyArray]) -> dict[str, Any]:
    """Return a release as a JSON document; its arrays are put into ``arrays``.

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
    """Return the fields of a `Release` by name, for its constructor, from its JSON document and its arrays.

    The fields are mechanism, output, loss, receipt and measurements.
    """
    source = DocumentSource(arrays)
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
    """Return the fields of a `Release` by name: mechanism, output, loss, receipt and measurements.

    FormatError is raised if a measurement has a wrong number of answers.
    """
    for one in measurements:
        if not len(one.values) == one.queries.k == one.noise.k:
            raise FormatError(
                "the file is damaged, so load another copy: a release in it has fewer or more answers than queries"
            )
    return {
        "mechanism": str(document["mechanism"]),
        "output": output,
        "loss": loss_from_document(document["loss"]),
        "receipt": Receipt.from_document(document["receipt"]),
        "measurements": tuple(measurements),
    }


def _noisy(measured: Measurements, store: Store) -> dict[str, Any]:
    """Return one measurement as a JSON document; its values go into the store."""
    return {
        "queries": store.write(measured.queries),
        "values": store.put(measured.values),
        "resolution": measured.resolution,
        "noise": {"law": measured.noise.law.value, "scale": measured.noise.scale, "k": measured.noise.k},
    }


def _read_noisy(document: Mapping[str, Any], source: DocumentSource) -> Measurements:
    """Return the measurement that a JSON document describes."""
    noise = document["noise"]
    return Measurements(
        queries=source.read(document["queries"], Statistic | KeyStatistic),
        values=source.arrays[document["values"]],
        resolution=int(document["resolution"]),
        noise=Noise(law=NoiseLaw(noise["law"]), scale=float(noise["scale"]), k=int(noise["k"])),
    )


DOCUMENT, ARRAYS, SERIES = "release.json", "arrays.npz", "series.json"
"""File names of a release's document and arrays, and of the file that marks a series of releases."""

MOST_DOCUMENT_BYTES = 64 * 2**20
"""Largest release.json that is read, in bytes.  A safety limit of memory."""

MOST_ARRAY_BYTES = 4 * 2**30
"""Largest total size of a release's unpacked arrays, in bytes.  A safety limit of memory, since a small file may unpack
to a huge one."""


def write(release: Saveable, path: str | PathLike[str]) -> None:
    """Write a release to a folder, whole or not at all.

    Parameters
    ----------
    release
        The release to write.
    path
        A new folder, or one that holds a release already.

    Raises
    ------
    ParameterError
        If something in the release has no file form, or it is too large for a file.
    DataError
        If the folder cannot be written, or holds something else.
    """
    arrays: dict[str, AnyArray] = {}
    document = to_document(release, arrays)
    content = packed(arrays)
    document["arrays_sha256"] = hashlib.sha256(content).hexdigest()
    sealed = document["synthdp_release"] == FORMS_VERSION or "database" in document
    if sealed:
        document["content_sha256"] = _content(document)
    text = (json.dumps(document, indent=1, ensure_ascii=sealed, allow_nan=False) + "\n").encode()
    if len(text) > MOST_DOCUMENT_BYTES:
        raise ParameterError(
            f"the release takes {len(text)} bytes as a file, more than the limit of {MOST_DOCUMENT_BYTES}: release "
            "fewer columns"
        )
    _write_folder(Path(path), {DOCUMENT: text, ARRAYS: content})


def read(path: str | PathLike[str]) -> dict[str, Any]:
    """Return the fields of a `Release` by name, for its constructor, read and checked from its folder.

    The fields are mechanism, output, loss, receipt and measurements.

    Raises
    ------
    FormatError
        If the folder is not a release, has another version, or was changed.
    """
    folder = Path(path)
    try:
        text, content = _read(folder / DOCUMENT, MOST_DOCUMENT_BYTES), _read(folder / ARRAYS, MOST_ARRAY_BYTES)
    except OSError as error:
        if (folder / SERIES).is_file():
            raise FormatError(f"'{folder}' is a series of releases: open it with ReleaseSeries(path=...)") from None
        raise FormatError(
            f"'{folder}' is not a readable release ({error.strerror or error}): give the path that save() wrote"
        ) from None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise FormatError(f"'{folder / DOCUMENT}' is not valid JSON: load another copy") from None
    if not isinstance(document, dict) or "synthdp_release" not in document:
        raise FormatError(f"'{folder / DOCUMENT}' is not a synthdp release: give the path that save() wrote")
    version = document["synthdp_release"]
    if version not in VERSIONS or type(version) is not int:
        raise FormatError(
            f"'{folder}' has release version {version!r}, but this synthdp reads {VERSION} and {FORMS_VERSION} "
            "only: install the synthdp that wrote it, or a newer one"
        )
    if document.get("arrays_sha256") != hashlib.sha256(content).hexdigest():
        raise FormatError(
            f"'{folder / ARRAYS}' does not belong to its {DOCUMENT} (their checksums differ): load another copy of "
            "the folder"
        )
    if version == FORMS_VERSION and document.pop("content_sha256", None) != _content(document):
        raise FormatError(
            f"'{folder / DOCUMENT}' was changed after it was written (its checksum differs): load another copy of "
            "the folder"
        )
    try:
        return from_document(document, _unpack(content))
    except FormatError:
        raise
    except (
        *(SynthDPError, KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, RecursionError),
    ) as error:
        raise FormatError(
            f"'{folder}' is damaged, so load another copy: its content contradicts itself ({type(error).__name__})"
        ) from None


def check_place(folder: Path) -> None:
    """Raise DataError if a path holds something that is no release; callers ask before a budget is spent."""
    if folder.exists() and not (folder / DOCUMENT).is_file():
        raise DataError(f"'{folder}' exists and is not a release: give another path")


def fingerprint(release: Saveable) -> str:
    """Return a 16-digit hash of all parts of a release, by which a published file names the release it came from."""
    arrays: dict[str, AnyArray] = {}
    document = to_document(release, arrays)
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(name.encode() + np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()[:16]


def _content(document: Mapping[str, Any]) -> str:
    """Return a SHA-256 of a document that does not depend on the order of its keys, to detect changes."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _read(path: Path, most: int) -> bytes:
    """Return a file's bytes; raise FormatError if there are more than ``most``."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        _check_size(size, str(path), most)
        return file.read(size)  # a read of the most that may come would ask for that much memory


def _check_size(size: int, name: str, most: int = MOST_ARRAY_BYTES) -> None:
    """Raise FormatError if a size in bytes exceeds ``most``."""
    if size > most:
        raise FormatError(
            f"'{name}' has more than {most:,} bytes, the limit of a release: it may be damaged, so load another copy"
        )


def _unpack(content: bytes) -> dict[str, AnyArray]:
    """Return the arrays in the bytes of an npz file, by name; raise FormatError if they are too large or damaged."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            unpacked = sum(info.file_size for info in archive.infolist())
        _check_size(unpacked, ARRAYS)
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except FormatError:
        raise
    except NO_ARRAYS:
        raise FormatError(f"the file is damaged, so load another copy: {ARRAYS} is not a file of arrays") from None


def _write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a new folder and move it to its place in one step, so that a release is whole or not there."""
    check_place(folder)
    with writing(folder), replacing_folder(folder) as fresh:
        for name, content in files.items():
            (fresh / name).write_bytes(content)
