"""Smooth queries: a noisy summary that answers them, and a synthetic table."""

from synthdp.registered import NamedPlace, Work

WORK = Work(
    package=__name__,
    mechanisms={
        "smooth_synthesis": NamedPlace("synthesis:SmoothSynthesis", ("solver",)),
        "smooth_summary": NamedPlace("summary:SmoothSummary", ()),
    },
    saved={
        "AverageMoment": "chebyshev",
        "ChebyshevTensor": "chebyshev",
        "TrigonometricSummary": "smooth_answers",
        "chebyshev": "chebyshev",
    },
)
"""The mechanisms and saved classes of this work, as `synthdp.registered` reads them."""
