"""Counts of record keys from a universe too large to list: the stability histogram."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from synthdp.errors import ParameterError
from synthdp.measurements import Noise, NoiseLaw
from synthdp.privacy import noise
from synthdp.privacy.loss import ApproxDP, PrivacyLoss
from synthdp.privacy.neighbors import Adjacency
from synthdp.privacy.receipt import Item


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

    def noised(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Return the keys whose noisy count reaches the threshold, with that count.

        Costs the loss that this was planned for.
        """
        return noise.laplace_threshold(counts, scale=self.scale, threshold=self.threshold)

    def item(self, step: str, loss: PrivacyLoss, *, answers: int) -> Item:
        """Return the line of a receipt."""
        return Item(
            step=step,
            mechanism="thresholded discrete Laplace",
            answers=answers,
            sensitivity=float(self.sensitivity),
            stddev=self.stddev,
            loss=loss,
        )


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
