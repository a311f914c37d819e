"""The sparse vector technique without rows: the noise of a session, its cost, and the meaning of an answer.

Statement and proof: ``docs/proofs/sparse-vector.md``.  The code that compares rows with guesses is
`curator.sparse_vector`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

from synthdp.checks import check_share, check_whole
from synthdp.errors import ParameterError
from synthdp.measurements import NoiseLaw
from synthdp.privacy import accounting, noise
from synthdp.privacy.accounting import last_holding
from synthdp.privacy.calibration import Calibration, calibrate, gaussian_account
from synthdp.privacy.loss import ZCDP, ApproxDP, GaussianDP, PrivacyLoss, PureDP
from synthdp.privacy.receipt import Item
from synthdp.queries.norms import Norms
from synthdp.queries.supports import DENOMINATOR

Part: TypeAlias = PureDP | ZCDP | GaussianDP
"""Kinds of privacy loss that the threshold's noise or the answers' noise of a sparse vector session may be paid in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AboveThresholdPlan:
    """The noise scales of a sparse vector session, fixed before any row is read.

    Parameters
    ----------
    max_alarms
        c, the most answers above the threshold.
    level_scale, query_scale
        Scales of the one-sided noise on the threshold and on each query, in 1024ths of a row.
    redrawn
        Whether the threshold's noise is drawn anew after every answer above it.
    answer
        The noise on the count that comes with such an answer.
    """

    max_alarms: int
    level_scale: float
    query_scale: float
    redrawn: bool
    answer: Calibration

    @property
    def answer_stddev(self) -> float:
        """The noise standard deviation, in rows, of the noisy count that is returned for a wrong guess."""
        return self.answer.noise.stddev / (self.answer.resolution * DENOMINATOR)

    def threshold_for(self, queries: int) -> float:
        """Return a threshold, in rows, that few correct guesses exceed by noise alone.

        The threshold is b ln(4k/c), and at least b, for the query noise's scale b in rows, k queries and c =
        ``max_alarms``.  Of k perfect guesses c/4 are found above it on average.
        """
        return self.query_scale * max(1.0, math.log(4 * queries / self.max_alarms)) / DENOMINATOR

    def level(self, threshold: float | None, *, queries: int) -> int:
        """Return the threshold, without noise, in 1024ths of a row: ``threshold`` in rows, or `threshold_for` ``queries``.

        Comparisons use 1024ths because exact noise needs integers.

        Raises
        ------
        ParameterError
            If ``threshold`` is no number of rows, or ``queries`` no whole number of at least 1.
        """
        if threshold is not None and not abs(threshold) <= noise.LARGEST_VALUE / DENOMINATOR:
            raise ParameterError(f"threshold ({threshold}) must be a number of rows")
        check_whole("queries", queries)
        return round((self.threshold_for(queries) if threshold is None else threshold) * DENOMINATOR)

    def draw_level(self) -> int:
        """Draw the threshold's noise, an integer of at least 0, in 1024ths of a row.

        The noise must stay hidden, or answers would reveal counts.
        """
        return noise.geometric(scale=self.level_scale)

    def is_silent(self, deviation: int, *, threshold: int, level: int) -> bool:
        """Return whether a guess passes the noisy comparison with the threshold, and so gets no answer.

        Costs what was paid for the session.

        Parameters
        ----------
        deviation
            The exact error of the guess.
        threshold
            The largest error of a guess that raises no alarm.
        level
            The hidden noise on the threshold, by `draw_level`; all three in 1024ths of a row.
        """
        return deviation + noise.geometric(scale=self.query_scale) < threshold + level

    def item(self, step: str, loss: PrivacyLoss) -> Item:
        """Return the receipt's line on this session: its noise in rows, the most answers it gives, and its loss."""
        return Item(
            step=step,
            mechanism=f"sparse vector with geometric noise; {self.answer.noise.law}",
            answers=self.max_alarms,
            sensitivity=self.answer.sensitivity / DENOMINATOR,
            stddev=self.answer_stddev,
            loss=loss,
            noise=(self.answer_stddev, self.answer_stddev),
            unit="rows",
        )

    def silence_bound(self, threshold: float, *, beta: float) -> float:
        """Return a bound, in rows, on the errors of all guesses that got no answer; it holds with probability 1 - beta.

        Query noise is never negative, so silence means |q - guess| < threshold + the level's noise.  In c draws this
        noise, of scale b, exceeds b ln(c/beta) with probability beta at most.  Here c is ``max_alarms`` where it is
        drawn anew, else 1.
        """
        runs = self.max_alarms if self.redrawn else 1
        return threshold + (self.level_scale * math.log(runs / beta) + 1) / DENOMINATOR


@dataclass(frozen=True, slots=True)
class AboveThresholdAnswer:
    """The noisy count that a sparse vector session returns for a guess that was too far off.

    Parameters
    ----------
    count
        The noisy total of the query, in rows.
    stddev
        Standard deviation of the count's noise, in rows.
    law
        The law of that noise.
    """

    count: float
    stddev: float
    law: NoiseLaw

    def bound(self, *, beta: float) -> float:
        """Return a bound, in rows, on the noise of the count; it holds with probability 1 - beta."""
        return self.stddev * self.law.distribution.quantile(beta, 1)


def plan_watch(loss: PrivacyLoss, *, max_alarms: int, alarm_share: float, rows: int = 1) -> AboveThresholdPlan:
    """Return the least noise of a sparse vector session whose whole loss is given.

    A pure loss draws the threshold's noise once, and pays once for all c alarms.  zCDP and Gaussian DP draw the noise
    anew after each alarm, and compose.  An (epsilon, delta) takes the less noisy of both; if the noise is drawn once,
    comparisons are pure and only the counts take the delta.

    A session with the result costs at most ``loss``, for neighbours that move a query's total by at most ``rows``.

    Parameters
    ----------
    loss
        Loss of the whole watch.
    max_alarms
        c, the most answers above the threshold.
    alarm_share
        Share of the loss for finding wrong guesses; the rest is for the noisy counts that answer them.
    rows
        Most rows of a unit.
    """
    check_whole("max_alarms", max_alarms)
    max_alarms = int(max_alarms)  # a saved watch writes it down
    check_share("alarm_share", alarm_share)
    match loss:
        case ApproxDP(epsilon, delta) if delta > 0:
            rest = gaussian_account(ApproxDP(epsilon * (1 - alarm_share), delta))
            once = _plan(PureDP(epsilon * alarm_share), rest, max_alarms, rows)
            whole = gaussian_account(loss)
            anew = _plan(whole.fraction(alarm_share), whole.fraction(1 - alarm_share), max_alarms, rows)
            return min(once, anew, key=lambda plan: plan.query_scale)
        case ApproxDP(epsilon, _):
            return plan_watch(PureDP(epsilon), max_alarms=max_alarms, alarm_share=alarm_share, rows=rows)
    return _plan(loss.fraction(alarm_share), loss.fraction(1 - alarm_share), max_alarms, rows)


def _plan(alarms: Part, counts: Part, max_alarms: int, rows: int) -> AboveThresholdPlan:
    """Return the noise scales of a sparse vector session, from the loss for comparisons and the loss for noisy counts.

    ``alarms`` pays for all comparisons, ``counts`` for all ``max_alarms`` noisy counts; ``rows`` is the most rows of a
    unit.
    """
    redrawn = not isinstance(alarms, PureDP)
    together = 1 if redrawn else max_alarms
    epsilon = _pure_part(alarms.split(max_alarms)) if redrawn else _pure_part(alarms)
    ratio = (2 * together) ** (2 / 3)  # the least variance of the two noises together (Lyu, Su, Li 2017, section 4.2)
    level = epsilon / (1 + ratio)
    norms = Norms(DENOMINATOR, DENOMINATOR * DENOMINATOR, DENOMINATOR).times(rows)
    return AboveThresholdPlan(
        max_alarms=max_alarms,
        level_scale=noise.laplace_scale(norms.l1, epsilon=level),
        query_scale=noise.laplace_scale(2 * together * norms.l1, epsilon=epsilon - level),
        redrawn=redrawn,
        answer=calibrate(norms, counts.split(max_alarms), k=1),
    )


def _pure_part(loss: Part) -> float:
    """Return the largest epsilon for which epsilon-DP implies the given loss: comparisons need a pure epsilon."""
    match loss:
        case PureDP(epsilon):
            return epsilon
        case ZCDP(rho):
            return last_holding(lambda epsilon: epsilon**2 / 2 <= rho, inside=0.0, outside=2 * math.sqrt(2 * rho))
    mu = loss.mu
    return last_holding(lambda epsilon: accounting.gdp_from_pure(epsilon) <= mu, inside=mu / 2, outside=mu)
