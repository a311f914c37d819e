"""Sparse queries, which are non-zero on few records, over universes of any size."""

from synthdp.registered import NamedPlace, Work

WORK = Work(
    package=__name__,
    mechanisms={
        "stability_histogram": NamedPlace("stability_histogram:StabilityHistogram", ()),
        "sparse_projection": NamedPlace("projection:SparseProjection", ()),
        "sparse_mwem": NamedPlace("sparse_mwem:SparseMWEM", ()),
    },
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
"""The mechanisms and saved classes of this work, as `synthdp.registered` reads them."""
