"""Counts of record keys from a universe too large to list: the stability histogram."""

from __future__ import annotations

from dataclasses import dataclass

from synthdp.errors import ParameterError
from synthdp.measurements import Noise, NoiseLaw
from synthdp.privacy import noise
from synthdp.privacy.loss import ApproxDP, PrivacyLoss
from synthdp.privacy.neighbors import Adjacency


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramPlan:
    """The noise of a stability histogram, fixed before any row is read.

    Parameters
    ----------
    scale
        Of the discrete Laplace noise on every count.
    threshold
        Least noisy count that is released.
    sensitivity
        l1 sensitivity of the counts.
    """

    scale: float
    threshold: int
    sensitivity: int

    @property
    def stddev(self) -> float:
        """Standard deviation of a count, before the threshold."""
        return Noise(law=NoiseLaw.LAPLACE, scale=self.scale, k=1).stddev


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyCounts:
    """Noisy counts of the keys that occur often.

    Parameters
    ----------
    columns
        Columns whose values make up the key.
    counts
        By key, sorted.
    plan
        The noise on them.
    """

    columns: tuple[str, ...]
    counts: dict[str, int]
    plan: HistogramPlan


def plan_histogram(loss: PrivacyLoss, *, adjacency: Adjacency) -> HistogramPlan:
    """Return the least noise, and then the least threshold, of a stability histogram of a given loss.

    One row is one key's count, a replaced row two keys' counts; with r rows of a unit, r times as many.

    What is noised by it costs at most ``loss``.

    Raises
    ------
    ParameterError
        If the loss has no delta: keys that nobody listed cannot be released by a pure guarantee.
    """
    if not (isinstance(loss, ApproxDP) and loss.delta > 0):
        raise ParameterError(f"a stability histogram needs an (epsilon, delta) with delta above 0, not {loss}")
    moved = adjacency.histogram
    scale, threshold = noise.laplace_threshold_for(
        moved.l1, moved.l1, moved.linf, epsilon=loss.epsilon, delta=loss.delta
    )
    return HistogramPlan(scale=scale, threshold=threshold, sensitivity=moved.l1)
