"""Sparse queries over universes of any size."""

from synthdp.registered import Work

WORK = Work(
    package=__name__,
    saved={
        "CountSketch": "sketches",
        "FrequentRecords": "stability_histogram",
        "PolynomialHash": "hashing",
        "ProjectedRecords": "projection",
        "SignProjection": "sketches",
        "SparseModel": "model",
        "SparseTable": "sparse_table",
    },
)
