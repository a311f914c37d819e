"""Smooth queries: summary and synthetic table."""

from synthdp.registered import NamedPlace, Work

WORK = Work(
    package=__name__,
    mechanisms={"smooth_synthesis": NamedPlace("synthesis:SmoothSynthesis", ("solver",))},
    outputs=("answers:TrigonometricSummary",),
    parts=("chebyshev:ChebyshevTensor",),
    statistics={"chebyshev": "chebyshev:TensorWithMisfits"},
)
