"""A session of sparse multiplicative weights <-> a private folder of JSON and npz, to be continued exactly once.

The folder holds the hidden noise of the sparse vector: it must stay where the table is.  Whoever continues it renames the
JSON file first, so that no two sessions go on from one state, which would spend the same budget twice.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from synthdp.arrays import NO_ARRAYS
from synthdp.curator.curator import Curator
from synthdp.distribution.sparse_table import SparseTable
from synthdp.errors import FormatError, PrivacyError, SynthDPError
from synthdp.mechanisms.sparse.model import Measured
from synthdp.mechanisms.sparse.weights import SparseSession, SparseWeights
from synthdp.privacy.loss import from_document, to_document
from synthdp.privacy.receipt import Receipt

FORMAT = "synthdp private session"
VERSION = 1
SESSION, CONTINUED, ARRAYS = "session.json", "session.continued.json", "session.npz"
WARNING = "PRIVATE: holds hidden noise and a fingerprint of the table; publish the closed session's release instead"


def write_session(session: SparseSession, path: str | PathLike[str]) -> None:
    """Write a session to a new folder that only its owner can read.

    Costs nothing as long as the folder stays on the curator's side: **it is private**.

    Raises
    ------
    FormatError
        If the folder holds a session already, or cannot be written.
    """
    folder = Path(path)
    settings = asdict(session.settings)
    del settings["spend"]
    table = session.table
    document = {
        "format": FORMAT,
        "version": VERSION,
        "warning": WARNING,
        "settings": settings,
        "columns": list(session.columns),
        "total": session.total,
        "alpha": session.alpha,
        "loss": to_document(session.loss),
        "receipt": session.receipt.to_document(),
        "watch": session.watch.to_document(),
        "slots": table.slots,
        "untouched_weight": table.untouched_weight,
        "keys": list(table.place),
    }
    sizes = [len(one.place) for one in session.measured]
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if (folder / SESSION).exists():
            raise FormatError(f"'{folder}' holds a session already: choose another folder")
        with _private(folder / ARRAYS) as file:
            np.savez(
                file,
                weights=table.weights[: len(table.place)],
                sizes=np.array(sizes, np.int64),
                targets=np.array([one.target for one in session.measured], np.float64),
                place=np.concatenate([np.zeros(0, np.int64), *(one.place for one in session.measured)]),
                values=np.concatenate([np.zeros(0), *(one.values for one in session.measured)]),
            )
        with _private(folder / f"{SESSION}.part") as file:
            file.write(json.dumps(document).encode())
        (folder / f"{SESSION}.part").rename(folder / SESSION)
    except OSError as error:
        raise FormatError(f"the session cannot be written to '{folder}' ({error.strerror})") from None


def resume_session(path: str | PathLike[str], curator: Curator) -> SparseSession:
    """Continue a saved session on the table that it was opened on; it answers as if it had never been saved.

    Costs nothing more: the session was paid for when it was opened.  A folder can be continued once; save again after.

    Parameters
    ----------
    path
        The folder.
    curator
        Of the same table, with the same neighbours; its budget is not touched.

    Raises
    ------
    DataError
        If the table is another one.
    FormatError
        If the folder is not a saved session.
    PrivacyError
        If it was continued already, or the curator's neighbours are others.
    """
    folder = Path(path)
    if not (folder / SESSION).exists() and (folder / CONTINUED).exists():
        raise PrivacyError(f"the session in '{folder}' was continued already: its budget would be spent twice")
    try:
        document = json.loads((folder / SESSION).read_text("utf-8"))
        if document["format"] != FORMAT or document["version"] != VERSION:
            raise FormatError(f"'{folder}' is not a session of version {VERSION}")
        with np.load(io.BytesIO((folder / ARRAYS).read_bytes()), allow_pickle=False) as arrays:
            session = _session(document, {name: arrays[name] for name in arrays.files}, curator)
    except SynthDPError:
        raise
    except (*NO_ARRAYS, TypeError):
        raise FormatError(f"'{folder}' is not a saved session") from None
    try:
        (folder / SESSION).rename(folder / CONTINUED)
    except FileNotFoundError:
        raise PrivacyError(
            f"the session in '{folder}' was continued already: its budget would be spent twice"
        ) from None
    return session


def _session(document: Mapping[str, Any], arrays: Mapping[str, np.ndarray], curator: Curator) -> SparseSession:
    receipt = Receipt.from_document(document["receipt"])
    if receipt.adjacency != curator.adjacency:
        raise PrivacyError(f"the session was opened for other neighbours: {receipt.adjacency}")
    settings = dict(document["settings"])
    settings["columns"] = None if settings["columns"] is None else tuple(settings["columns"])
    loss = from_document(document["loss"])
    keys = [str(key) for key in document["keys"]]
    table = SparseTable(
        int(document["slots"]),
        {key: i for i, key in enumerate(keys)},
        np.asarray(arrays["weights"], np.float64),
        float(document["untouched_weight"]),
    )
    ends = np.cumsum(arrays["sizes"]).tolist()
    parts = [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]
    measured = [
        Measured(place=arrays["place"][part], values=arrays["values"][part], target=target)
        for part, target in zip(parts, arrays["targets"].tolist(), strict=True)
    ]
    return SparseSession(
        settings=SparseWeights(**settings, spend=loss),
        columns=tuple(document["columns"]),
        total=float(document["total"]),
        alpha=float(document["alpha"]),
        watch=curator.resume_watch(document["watch"]),
        table=table,
        loss=loss,
        receipt=receipt,
        measured=measured,
    )


def _private(path: Path) -> Any:
    """Open a file that only its owner can read."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")
