"""What a session of sparse multiplicative weights has learned <-> JSON and npz.

Its public weights and noisy answers; the curator writes them into the private folder, beside its hidden noise.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from synthdp.arrays import NO_ARRAYS
from synthdp.errors import FormatError
from synthdp.works.sparse.model import WeightTarget
from synthdp.works.sparse.sparse_table import SparseTable


def table_document(table: SparseTable) -> dict[str, Any]:
    """Return all of a table but its weights, as JSON."""
    return {"slots": table.slots, "untouched_weight": table.untouched_weight, "keys": list(table.place)}


def learned_arrays(table: SparseTable, measured: Sequence[WeightTarget]) -> bytes:
    """Return the weights and the noisy answers as the bytes of an npz file."""
    file = io.BytesIO()
    np.savez(
        file,
        weights=table.weights[: len(table.place)],
        sizes=np.array([len(one.place) for one in measured], np.int64),
        targets=np.array([one.target for one in measured], np.float64),
        place=np.concatenate([np.zeros(0, np.int64), *(one.place for one in measured)]),
        values=np.concatenate([np.zeros(0), *(one.values for one in measured)]),
    )
    return file.getvalue()


def learned(document: Mapping[str, Any], arrays: bytes) -> tuple[SparseTable, list[WeightTarget]]:
    """Read what `table_document` and `learned_arrays` returned.

    Raises
    ------
    FormatError
        If the bytes are not those of such a file.
    """
    try:
        with np.load(io.BytesIO(arrays), allow_pickle=False) as file:
            weights, sizes, targets, place, values = (
                file[name] for name in ("weights", "sizes", "targets", "place", "values")
            )
    except NO_ARRAYS:
        raise FormatError("the arrays of a saved session are damaged") from None
    table = SparseTable(
        int(document["slots"]),
        {str(key): i for i, key in enumerate(document["keys"])},
        np.append(weights, 0.0),  # one more than there are keys: there may be none
        float(document["untouched_weight"]),
    )
    ends = np.cumsum(sizes).tolist()
    parts = [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]
    found = zip(parts, targets.tolist(), strict=True)
    return table, [WeightTarget(place=place[part], values=values[part], target=target) for part, target in found]
