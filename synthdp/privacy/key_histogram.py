"""Counts of record keys from a universe too large to list: the stability histogram."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from synthdp.codec import file_form
from synthdp.errors import ParameterError
from synthdp.measurements import Noise, NoiseLaw
from synthdp.privacy import noise
from synthdp.privacy.calibration import calibrate
from synthdp.privacy.loss import ApproxDP, GaussianDP, PrivacyLoss
from synthdp.privacy.neighbors import Adjacency
from synthdp.privacy.receipt import Item


@file_form("HistogramPlan")
@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramPlan:
    """The noise and threshold of a stability histogram, fixed before any row is read.

    Parameters
    ----------
    scale
        Scale of the noise on every count, multiplied by ``resolution``.
    threshold
        Least noisy count that is released, multiplied by ``resolution``.
    sensitivity
        Sensitivity of the counts, in the norm of the law: l1 for Laplace, l2 for Gaussian noise.
    law
        Discrete Laplace or discrete Gaussian.
    resolution
        By which whole number counts are multiplied before the noise.
    """

    scale: float
    threshold: int
    sensitivity: float
    law: NoiseLaw = NoiseLaw.LAPLACE
    resolution: int = 1

    @property
    def stddev(self) -> float:
        """The noise standard deviation of one count, in rows, before the threshold."""
        return Noise(law=self.law, scale=self.scale, k=1).stddev / self.resolution

    def noised(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Return the keys whose noisy count reaches the threshold, with that count to the nearest row.

        Costs the loss that this was planned for.
        """
        if self.law is NoiseLaw.LAPLACE:
            return noise.laplace_threshold(counts, scale=self.scale, threshold=self.threshold)
        finer = {
            key: min(count, noise.LARGEST_VALUE // self.resolution) * self.resolution for key, count in counts.items()
        }
        found = noise.gaussian_threshold(finer, scale=self.scale, threshold=self.threshold)
        return {key: round(count / self.resolution) for key, count in found.items()}

    def item(self, step: str, loss: PrivacyLoss, *, answers: int) -> Item:
        """Return the receipt's line on this histogram: its noise, threshold mechanism and loss.

        ``answers`` is the number of counts that the line states.
        """
        return Item(
            step=step,
            mechanism=f"thresholded {self.law}",
            answers=answers,
            sensitivity=float(self.sensitivity),
            stddev=self.stddev,
            loss=loss,
            noise=(self.stddev, self.stddev),
            unit="rows",
        )


@file_form("KeyCounts")
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyCounts:
    """Noisy counts of the record keys that occur often enough to be released.

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

    A stability histogram releases the noisy counts above a threshold, so that keys need not be listed beforehand.  One
    row changes one key's count, a replaced row two; with r rows of a unit, r times as many.  An (epsilon, delta) takes
    Laplace noise, a Gaussian-DP loss with a delta Gaussian noise.

    A histogram released with the result costs at most ``loss``.

    Raises
    ------
    ParameterError
        If the loss has no delta: keys that nobody listed cannot be released by a pure guarantee.
    """
    if isinstance(loss, GaussianDP) and loss.delta > 0:
        return _gaussian(loss, adjacency)
    if not (isinstance(loss, ApproxDP) and loss.delta > 0):
        raise ParameterError(
            f"a stability histogram cannot be charged to {loss}: give an ApproxDP budget with delta above 0"
        )
    moved = adjacency.histogram
    scale, threshold = noise.laplace_threshold_for(
        moved.l1, moved.l1, moved.linf, epsilon=loss.epsilon, delta=loss.delta
    )
    return HistogramPlan(scale=scale, threshold=threshold, sensitivity=float(moved.l1))


def _gaussian(loss: GaussianDP, adjacency: Adjacency) -> HistogramPlan:
    """Return the Gaussian noise of a stability histogram for mu, and its least threshold for delta.

    Each of two units that are exchanged may have keys that nobody else has, and gets half of the delta.
    """
    plan = calibrate(adjacency.histogram, GaussianDP(loss.mu), k=2)
    each = loss.delta / 2 if adjacency.rows_are_public else loss.delta
    threshold = noise.gaussian_threshold_for(
        adjacency.rows, scale=plan.noise.scale, delta=each, resolution=plan.resolution
    )
    return HistogramPlan(
        scale=plan.noise.scale, threshold=threshold, sensitivity=plan.sensitivity, law=NoiseLaw.GAUSSIAN,
        resolution=plan.resolution,
    )  # fmt: skip
