"""The net mechanism and the classical mechanisms beside it, which list every cell of a small domain."""

from synthdp.registered import NamedPlace, Work

WORK = Work(
    package=__name__,
    mechanisms={"mwem": NamedPlace("mwem:MWEM", ("workload",))},
    outputs=("private_boosting:BoostedTables",),
)
