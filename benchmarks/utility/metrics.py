"""How good a synthetic table is: the same measures for every method, on real rows (not private; for benchmarks only).

The measures are `synthdp.nonprivate.measures`'s.
"""

from __future__ import annotations

import pandas as pd

from synthdp import Schema
from synthdp.nonprivate.measures import (
    SHARP,
    SMOOTH,
    binned,
    boosting_auc,
    correlation_error,
    kernel_error,
    kolmogorov,
    marginal_error,
    numeric,
    points,
)

__all__ = [
    "binned",
    "boosting_auc",
    "correlation_error",
    "evaluate",
    "kernel_error",
    "kolmogorov",
    "marginal_error",
    "numeric",
    "points",
]


def evaluate(
    train: pd.DataFrame, test: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema, target: str | None
) -> dict[str, float]:
    """All measures of one synthetic table."""
    scores = {
        "two_way": marginal_error(train, synthetic, schema, order=2),
        "three_way": marginal_error(train, synthetic, schema, order=3),
    }
    if len(numeric(schema)) > 1:
        scores |= {
            "ks": kolmogorov(train, synthetic, schema),
            "smooth": kernel_error(train, synthetic, schema, widths=SMOOTH),
            "sharp": kernel_error(train, synthetic, schema, widths=SHARP),
            "correlation": correlation_error(train, synthetic, schema),
        }
    if target is not None:
        scores["auc"] = boosting_auc(synthetic, test, schema, target)
    return scores
