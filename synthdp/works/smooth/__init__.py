"""Smooth queries: summary and synthetic table."""

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
"""What this work registers."""
