"""A session of sparse multiplicative weights <-> a private folder of JSON and npz, to be continued exactly once.

The folder is written and taken by the curator, for it holds the hidden noise of the sparse vector; here is what belongs to
the mechanism: its settings, its public weights, its noisy answers.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import asdict
from os import PathLike
from typing import Any

import numpy as np

from synthdp.arrays import NO_ARRAYS
from synthdp.curator.curator import Curator, SparseVector
from synthdp.distribution.sparse_table import SparseTable
from synthdp.errors import FormatError, SynthDPError
from synthdp.mechanisms.sparse.model import Measured
from synthdp.mechanisms.sparse.weights import SparseSession, SparseWeights
from synthdp.privacy.loss import from_document, to_document
from synthdp.privacy.receipt import Receipt


def write_session(session: SparseSession, path: str | PathLike[str]) -> None:
    """End a session and write it to a new folder that only its owner can read.

    **The folder is private**: keep it on the curator's side.

    Raises
    ------
    FormatError
        If the folder holds a session already, or cannot be written; the session goes on then.
    PrivacyError
        If the session was closed or saved, or in a forked process.
    """
    with session.watch.turn():
        session.watch.save(path, _document(session), _arrays(session))


def _document(session: SparseSession) -> dict[str, Any]:
    settings = asdict(session.settings)
    del settings["spend"]
    table = session.table
    return {
        "settings": settings,
        "columns": list(session.columns),
        "total": session.total,
        "alpha": session.alpha,
        "loss": to_document(session.loss),
        "receipt": session.receipt.to_document(),
        "slots": table.slots,
        "untouched_weight": table.untouched_weight,
        "keys": list(table.place),
    }


def _arrays(session: SparseSession) -> bytes:
    table, file = session.table, io.BytesIO()
    np.savez(
        file,
        weights=table.weights[: len(table.place)],
        sizes=np.array([len(one.place) for one in session.measured], np.int64),
        targets=np.array([one.target for one in session.measured], np.float64),
        place=np.concatenate([np.zeros(0, np.int64), *(one.place for one in session.measured)]),
        values=np.concatenate([np.zeros(0), *(one.values for one in session.measured)]),
    )
    return file.getvalue()


def resume_session(path: str | PathLike[str], curator: Curator) -> SparseSession:
    """Continue a saved session on the table that it was opened on; it answers as if it had never been saved.

    The session was paid for when it was opened. A folder can be continued once; save again after.

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
    with curator.resume_watch(path) as saved:
        try:
            with np.load(io.BytesIO(saved.arrays), allow_pickle=False) as arrays:
                return _session(saved.watch, saved.document, {name: arrays[name] for name in arrays.files})
        except SynthDPError:
            raise
        except (*NO_ARRAYS, TypeError):
            raise FormatError(f"'{path}' is not a saved session") from None


def _session(watch: SparseVector, document: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> SparseSession:
    settings = dict(document["settings"])
    settings["columns"] = None if settings["columns"] is None else tuple(settings["columns"])
    loss = from_document(document["loss"])
    keys = [str(key) for key in document["keys"]]
    table = SparseTable(
        int(document["slots"]),
        {key: i for i, key in enumerate(keys)},
        np.append(arrays["weights"], 0.0),  # one more than there are keys: there may be none
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
        watch=watch,
        table=table,
        loss=loss,
        receipt=Receipt.from_document(document["receipt"]),
        measured=measured,
    )
