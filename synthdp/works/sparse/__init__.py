"""Sparse queries over universes of any size."""

from synthdp.registered import Work

WORK = Work(
    package=__name__,
    outputs=("model:SparseModel", "projection:ProjectedRecords", "stability_histogram:FrequentRecords"),
    parts=(
        "hashing:PolynomialHash",
        "sketches:CountSketch",
        "sketches:SignProjection",
        "sparse_table:SparseTable",
    ),
)
