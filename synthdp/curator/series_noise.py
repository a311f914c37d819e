"""The noise of a series: on a lattice that all periods of a plan share, and on the disk before anyone is told.

On the curator's side only.
"""

from __future__ import annotations

import hmac
import math

import numpy as np

from synthdp.arrays import IntArray
from synthdp.curator.guarded_table import Answering
from synthdp.curator.series_state import PrivateState
from synthdp.errors import ParameterError, PrivacyError
from synthdp.measurements import Noise, NoiseLaw
from synthdp.privacy import noise
from synthdp.privacy.accounting import discrete_gaussian_sigma
from synthdp.privacy.calibration import FINEST, LEAST_SIGMA, Calibration, calibrate
from synthdp.privacy.loss import GaussianDP, PrivacyLoss
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.norms import Norms, root_up
from synthdp.queries.protocol import KeyStatistic, LinearQueries, Statistic, about_keys


class Journal(Answering):
    """Write every noisy answer of a series to disk before it is returned, and return it again after a crash.

    Fresh noise for a question asked again would cost the budget twice.

    Parameters
    ----------
    state
        The private files.
    secret
        Key of the hash by which a question that is asked again is recognised.
    prefix
        Beginning of the names of the answers' files; the question's number follows.
    factor
        (periods of the plan, periods of the plan) whole weights of periods in each answer; see `SeriesRoom.open_plan`.
    weight
        Number of times that each row counts.
    """

    __slots__ = ("_count", "_factor", "_prefix", "_secret", "_state", "_weight")

    def __init__(self, state: PrivateState, secret: bytes, prefix: str, *, factor: IntArray, weight: int) -> None:
        self._state, self._secret, self._prefix = state, secret, prefix
        self._factor, self._weight, self._count = factor, weight, 0

    def plan(
        self, queries: Statistic | KeyStatistic, loss: PrivacyLoss, *, adjacency: Adjacency, law: NoiseLaw | None
    ) -> Calibration:
        """Return the noise of a statistic for a budget in Gaussian DP.

        Sums over rows are asked again in later periods.  Their noise lies on one integer lattice of all periods, so
        sums are multiplied by a multiple of the factor's first entry.  A statistic that is asked once gets less noise
        for the same cost.  ParameterError is raised for another budget or law, and for record keys.
        """
        if not isinstance(loss, GaussianDP) or about_keys(queries) or law not in (None, NoiseLaw.GAUSSIAN):
            raise ParameterError(
                "a series takes only queries about declared columns, with Gaussian noise and a loss that is given as "
                "GaussianDP"
            )
        norms = adjacency.sensitivity(queries).times(self._weight)
        if isinstance(queries, LinearQueries):
            return lattice(norms, loss.mu, queries.k, int(self._factor[0, 0]))
        # asked once: it costs no unit more than a question of the same loss that is asked in every period
        column = math.sqrt(int((self._factor[:, 0] ** 2).sum())) / int(self._factor[0, 0])
        return calibrate(norms, GaussianDP(loss.mu * column), k=queries.k)

    def allow_others(self) -> None:
        """Raise PrivacyError: a series can only measure statistics, because only their noise can be shared by periods."""
        raise PrivacyError(
            "a series can measure sums over rows only: ask this question with a Curator outside the series"
        )

    def noised(self, plan: Calibration, exact: IntArray) -> IntArray:
        """Return exact integer sums, (k,), multiplied by the plan's resolution, with noise, after writing them to disk.

        If the question was answered before a crash, the noisy answer on disk is returned.

        Costs the loss of the plan, once.
        """
        name = f"{self._prefix}{self._count:06}"
        self._count += 1
        tag = np.frombuffer(hmac.digest(self._secret, repr(plan).encode() + exact.tobytes(), "sha256"), np.uint8)
        if self._state.has(name):
            told = self._state.read(name)
            if not np.array_equal(told["tag"], tag):
                raise PrivacyError(
                    "an interrupted attempt to add this period asked other questions: add the period with the same "
                    "version of synthdp and the same settings"
                )
            return np.asarray(told["noisy"], np.int64)
        linear = isinstance(plan, RepeatedNoise)
        inside = clipped(exact, self._factor, plan.resolution // int(self._factor[0, 0])) if linear else exact
        noisy = plan.noised(inside)
        self._state.write(name, {
            "tag": tag, "exact": exact if linear else np.zeros(0, np.int64), "noisy": noisy, "linear": np.array(linear),
            "resolution": np.array(plan.resolution), "sigma": np.array(plan.noise.scale),
            "moves": np.array(plan.resolution * plan.sensitivity),
        })  # fmt: skip
        return noisy


class RepeatedNoise(Calibration):
    """The noise of sums that are asked again in every period of a series; a separate type from sums asked once."""

    __slots__ = ()


def lattice(norms: Norms, mu: float, k: int, first: int) -> RepeatedNoise:
    """Return Gaussian noise of ``k`` sums for a budget ``mu``; sums are multiplied by its ``resolution`` before noise.

    That is a multiple of ``first``, the first entry of the series' factor.  So the weighted sums of later periods are
    whole numbers too, and noise of one integer lattice can be added to all.  ``norms`` bound what a unit can change of
    the sums.
    """
    l2 = root_up(norms.l2_squared)
    wanted = min(max(LEAST_SIGMA * mu / l2, 1.0), float(FINEST))
    resolution = first * max(1, math.ceil(wanted / first))
    sigma = max(float(LEAST_SIGMA), discrete_gaussian_sigma(resolution * l2, mu=mu))
    if sigma > noise.LARGEST_SCALE:
        raise ParameterError(
            f"a loss of mu = {mu:.3g} needs more noise than can be drawn (a scale above 2**53): spend more budget, or lower "
            "max_rows_per_unit or the resolution of the query"
        )
    return RepeatedNoise(Noise(law=NoiseLaw.GAUSSIAN, scale=sigma, k=k), resolution, l2)


def clipped(sums: IntArray, factor: IntArray, multiplier: int) -> IntArray:
    """Return sums, (k,), clipped so that noise can be added to them, weighted by ``factor``, times ``multiplier``.

    The bound depends on ``factor`` and ``multiplier`` only, so that all periods are clipped alike.
    """
    most = noise.LARGEST_VALUE // (multiplier * int(np.abs(factor).sum(axis=1).max()))
    return np.clip(sums, -most, most)
