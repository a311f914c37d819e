"""Support points and their fit: what the variants of smooth synthesis share.  Post-processing of public numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from synthdp.arrays import Answers, Codes, FloatArray
from synthdp.distribution.explicit import Explicit
from synthdp.distribution.protocol import Distribution
from synthdp.domain.domain import Domain
from synthdp.fit.explicit.problem import FitProblem
from synthdp.fit.explicit.registry import solved
from synthdp.fit.explicit.solver import FitResult
from synthdp.measurements import Measurements


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Synthesised:
    """What a variant made.

    Parameters
    ----------
    domain, distribution
        A distribution over the cells of a domain.
    measurements
        The noisy answers that it was made of.
    stddev
        Noise in the averages that decide.
    notes
        Lines for the receipt.
    """

    domain: Domain
    distribution: Distribution
    measurements: tuple[Measurements, ...]
    stddev: float
    notes: tuple[str, ...] = ()


def fit_support(
    domain: Domain, codes: Codes, features: FloatArray, b: Answers, *, stddev: float | FloatArray, solver: str
) -> tuple[Explicit, str]:
    """Return weights on support points whose averages meet the noisy ones, and a line that says how well.

    Parameters
    ----------
    domain, codes
        (m, d) support points.
    features
        (m, k) their features.
    b, stddev
        (k,) noisy averages and their noise.
    solver
        Its name.
    """
    problem = FitProblem(A=np.ascontiguousarray(features.T), b=b, stddev=np.array(stddev))
    fit = solved(problem, solver)
    return Explicit(shape=domain.shape, codes=codes, weights=fit.weights), fit_note(fit, support=len(codes))


def fit_note(fit: FitResult, *, support: int) -> str:
    """Return a line for the receipt."""
    return (
        f"fit by {fit.solver} on {support} support points: L1 objective {fit.objective:.4g}, "
        f"gap {fit.gap:.2g}. {fit.status.value}"
    )


def pointed_cells(domain: Domain) -> tuple[int, ...]:
    """Return the number of cells with a point of each axis; they come first."""
    return tuple(int((~np.isnan(axis.points)).sum()) for axis in domain.axes)
