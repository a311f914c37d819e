"""The net mechanism and other classical mechanisms that list every cell of a small domain."""

from synthdp.registered import NamedPlace, Work

WORK = Work(
    package=__name__,
    mechanisms={
        "mwem": NamedPlace("mwem:MWEM", ("workload",)),
        "net_mechanism": NamedPlace("net:NetMechanism", ()),
        "private_boosting": NamedPlace("private_boosting:PrivateBoosting", ()),
        "private_multiplicative_weights": NamedPlace("online_mechanisms:PrivateMultiplicativeWeights", ("workload",)),
        "median_mechanism": NamedPlace("online_mechanisms:MedianMechanism", ("workload",)),
    },
    saved={
        "BoostedTables": "private_boosting",
    },
)
"""The mechanisms and saved classes of this work, as `synthdp.registered` reads them."""
