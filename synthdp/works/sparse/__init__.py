"""Sparse queries over universes of any size."""

from synthdp.registered import Work

WORK = Work(
    package=__name__,
    saved={
        "CountSketch": "sketches",
        "FrequentRecords": "stability_histogram",
        "PolynomialHash": "sketches",
        "ProjectedRecords": "projection",
        "SignProjection": "sketches",
        "SparseModel": "sparse_table",
        "SparseTable": "sparse_table",
    },
)
