"""The sparse vector technique: watch a stream of guesses, and raise at most c alarms, each with a noisy count.

Holds the room and its own hidden noise, so it stays on the curator's side; only `Alarm`s and silence leave.  Statement
and proof: ``docs/proofs/sparse-vector.md``.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from scipy.special import ndtri

from synthdp.curator.cell_total import cell_total
from synthdp.curator.private_table import Room
from synthdp.errors import DataError, FormatError, ParameterError, PrivacyError
from synthdp.measurements import Noise, NoiseLaw
from synthdp.privacy import accounting, noise
from synthdp.privacy.bisection import last_holding
from synthdp.privacy.calibration import Calibration, calibrate, gaussian_account
from synthdp.privacy.loss import ZCDP, ApproxDP, GaussianDP, PrivacyLoss, PureDP
from synthdp.queries.protocol import Norms, Statistic
from synthdp.queries.sparse.supports import UNIT, Support

Part: TypeAlias = PureDP | ZCDP | GaussianDP
"""The currencies in which a part of a watch is paid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchPlan:
    """The noise of a watch, fixed before any row is read.

    Costs nothing: a plan.

    Parameters
    ----------
    max_alarms
        c.
    level_scale, query_scale
        Scales of the one-sided noise on the threshold and on each query, in 1024ths of a row.
    redrawn
        Whether the threshold's noise is drawn anew after every alarm.
    answer
        The noise on the count that comes with an alarm.
    """

    max_alarms: int
    level_scale: float
    query_scale: float
    redrawn: bool
    answer: Calibration

    @property
    def answer_stddev(self) -> float:
        """Standard deviation of a count that comes with an alarm, in rows.

        Costs nothing: arithmetic.
        """
        return self.answer.noise.stddev / (self.answer.resolution * UNIT)

    def threshold_for(self, queries: int) -> float:
        """Return the threshold, in rows, at which few of the alarms are false.

        b ln(4k/c): of k queries with a perfect guess, c/4 raise an alarm on average.

        Costs nothing: arithmetic.
        """
        return self.query_scale * max(1.0, math.log(4 * queries / self.max_alarms)) / UNIT

    def silence_bound(self, threshold: float, *, beta: float) -> float:
        """Return how far any guess was off, in rows, that raised no alarm, with probability 1 - beta over the watch.

        Query noise is never negative, so silence means |q - guess| < threshold + the level's noise, which exceeds
        b ln(1/beta) with probability beta.

        Costs nothing: arithmetic.
        """
        runs = self.max_alarms if self.redrawn else 1
        return threshold + (self.level_scale * math.log(runs / beta) + 1) / UNIT


@dataclass(frozen=True, slots=True)
class Alarm:
    """What an alarm says.

    Costs nothing by itself: a noisy answer, paid for when the watch was opened.

    Parameters
    ----------
    count
        The noisy total of the query, in rows.
    stddev
        Of its noise.
    law
        Of its noise.
    """

    count: float
    stddev: float
    law: NoiseLaw

    def bound(self, *, beta: float) -> float:
        """Return how far the count is off at most, in rows, with probability 1 - beta.

        Costs nothing: arithmetic.
        """
        if self.law is NoiseLaw.LAPLACE:
            return self.stddev / math.sqrt(2) * math.log(1 / beta)
        return self.stddev * float(-ndtri(beta / 2))


@dataclass(slots=True, repr=False)
class SparseVector:
    """A watch over one table; made by `Curator.watch`.

    Costs nothing more than was charged when it was opened, for the curator's neighbours, however many queries come.

    Parameters
    ----------
    room
        The rows.
    columns
        Columns whose values make up a record's key.
    plan
        The noise.
    threshold
        In 1024ths of a row.
    alarms
        How many were raised.
    level
        The present noise on the threshold: private.
    """

    room: Room
    columns: tuple[str, ...]
    plan: WatchPlan
    threshold: int
    alarms: int = 0
    level: int | None = field(default=None)

    def __repr__(self) -> str:
        return f"SparseVector({self.alarms} of {self.plan.max_alarms} alarms)"

    def __reduce__(self) -> str:
        raise PrivacyError("a watch holds private rows and cannot be pickled or copied")

    @property
    def exhausted(self) -> bool:
        """Whether all alarms were raised, so that no row is read any more.

        Costs nothing: public.
        """
        return self.alarms >= self.plan.max_alarms

    @property
    def threshold_rows(self) -> float:
        """How far off a guess may be, in rows, before noise.

        Costs nothing: public.
        """
        return self.threshold / UNIT

    def silence_bound(self, *, beta: float) -> float:
        """Return how far any guess was off, in rows, that raised no alarm, with probability 1 - beta over the watch.

        Costs nothing: arithmetic.
        """
        return self.plan.silence_bound(self.threshold_rows, beta=beta)

    def ask(self, query: Support | Statistic, *, guess: float) -> Alarm | None:
        """Return a noisy total if the guess seems further off than the threshold, else ``None``.

        Costs nothing more: paid for when the watch was opened.

        Parameters
        ----------
        query
            The support of a query of record keys, or one query over cells with values in [0, 1].
        guess
            Its total in rows, by public knowledge.

        Raises
        ------
        PrivacyError
            If all alarms were raised.
        """
        if self.exhausted:
            raise PrivacyError("all alarms of this watch were raised: open another, with a larger max_alarms")
        total = self._total(query)
        if self.level is None:
            self.level = noise.geometric(scale=self.plan.level_scale)
        deviation = abs(total - round(guess * UNIT))
        if deviation + noise.geometric(scale=self.plan.query_scale) < self.threshold + self.level:
            return None
        self.alarms += 1
        if self.plan.redrawn:
            self.level = None
        plan = self.plan.answer
        most = noise.LARGEST_VALUE // plan.resolution
        exact = np.array([max(-most, min(total, most)) * plan.resolution], np.int64)
        draw = noise.discrete_laplace if plan.noise.law is NoiseLaw.LAPLACE else noise.discrete_gaussian
        noisy = int(draw(exact, scale=plan.noise.scale)[0])
        return Alarm(noisy / (plan.resolution * UNIT), self.plan.answer_stddev, plan.noise.law)

    def _total(self, query: Support | Statistic) -> int:
        if isinstance(query, Support):
            return query.total(self.room.key_counts(self.columns))
        return cell_total(self.room, query)

    def to_document(self) -> dict[str, Any]:
        """Return everything that a continuation needs, as JSON.

        Costs nothing as long as it stays on the curator's side: **it is private**.  It holds the noise on the
        threshold and a fingerprint of the rows.
        """
        answer = self.plan.answer
        return {
            "columns": list(self.columns),
            "max_alarms": self.plan.max_alarms,
            "level_scale": self.plan.level_scale,
            "query_scale": self.plan.query_scale,
            "redrawn": self.plan.redrawn,
            "law": answer.noise.law.value,
            "scale": answer.noise.scale,
            "resolution": answer.resolution,
            "sensitivity": answer.sensitivity,
            "threshold": self.threshold,
            "alarms": self.alarms,
            "level": self.level,
            "rows": rows_fingerprint(self.room, self.columns),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any], *, room: Room) -> SparseVector:
        """Continue a saved watch over the same rows.

        Costs nothing more: paid for when the watch was opened.

        Raises
        ------
        DataError
            If the rows are not those of the saved watch: their cost was never paid.
        FormatError
            If the document is of another shape.
        """
        try:
            columns = tuple(str(name) for name in document["columns"])
            law = Noise(law=NoiseLaw(document["law"]), scale=float(document["scale"]), k=1)
            plan = WatchPlan(
                max_alarms=int(document["max_alarms"]),
                level_scale=float(document["level_scale"]),
                query_scale=float(document["query_scale"]),
                redrawn=bool(document["redrawn"]),
                answer=Calibration(law, int(document["resolution"]), float(document["sensitivity"])),
            )
            level = None if document["level"] is None else int(document["level"])
            watch = cls(room, columns, plan, int(document["threshold"]), int(document["alarms"]), level)
            rows = str(document["rows"])
        except (KeyError, TypeError, ValueError):
            raise FormatError("a saved watch must have a plan, a threshold and a state") from None
        if rows != rows_fingerprint(room, columns):
            raise DataError("a saved session can only be continued on the table that it was opened on")
        return watch


def plan_watch(loss: PrivacyLoss, *, max_alarms: int, alarm_share: float, rows: int = 1) -> WatchPlan:
    """Return the least noise for a watch of a given loss.

    Pure losses draw the threshold's noise once and pay for all alarms together; zCDP and Gaussian DP draw it anew after
    each alarm and compose.  An (epsilon, delta) takes whichever is less noisy: in the first case the alarms are pure
    and only the counts take the delta.

    Costs nothing: arithmetic; what is noised by it costs at most ``loss``, for neighbours that move a query's total by
    at most ``rows``.

    Parameters
    ----------
    loss
        Of the whole watch.
    max_alarms
        c.
    alarm_share
        Share of the loss for alarms; the rest is for the counts that come with them.
    rows
        Most rows of a unit.
    """
    if isinstance(max_alarms, bool) or not isinstance(max_alarms, int) or max_alarms < 1:
        raise ParameterError(f"max_alarms ({max_alarms!r}) must be a whole number of at least 1")
    if not 0 < alarm_share < 1:
        raise ParameterError(f"alarm_share ({alarm_share}) must be above 0 and below 1")
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


def rows_fingerprint(room: Room, columns: tuple[str, ...]) -> str:
    """Return a hash of the record keys and how often they occur: private, for comparison on the curator's side only.

    Costs nothing as long as it stays there.
    """
    digest = hashlib.blake2b(digest_size=16)
    for key, count in sorted(room.key_counts(columns).items()):
        digest.update(f"{len(key)}:{key}:{count};".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _plan(alarms: Part, counts: Part, max_alarms: int, rows: int) -> WatchPlan:
    redrawn = not isinstance(alarms, PureDP)
    together = 1 if redrawn else max_alarms
    epsilon = _pure_part(alarms.split(max_alarms)) if redrawn else _pure_part(alarms)
    ratio = (2 * together) ** (2 / 3)  # the least variance of the two noises together (Lyu, Su, Li 2017, section 4.2)
    level = epsilon / (1 + ratio)
    norms = Norms(UNIT, UNIT * UNIT, UNIT).times(rows)
    law = NoiseLaw.LAPLACE if isinstance(counts, PureDP) else NoiseLaw.GAUSSIAN
    return WatchPlan(
        max_alarms=max_alarms,
        level_scale=noise.laplace_scale(norms.l1, epsilon=level),
        query_scale=noise.laplace_scale(2 * together * norms.l1, epsilon=epsilon - level),
        redrawn=redrawn,
        answer=calibrate(norms, counts.split(max_alarms), k=1, law=law),
    )


def _pure_part(loss: Part) -> float:
    """Return the largest epsilon whose pure guarantee implies the loss."""
    match loss:
        case PureDP(epsilon):
            return epsilon
        case ZCDP(rho):
            return last_holding(lambda epsilon: epsilon**2 / 2 <= rho, inside=0.0, outside=2 * math.sqrt(2 * rho))
    mu = loss.mu
    return last_holding(lambda epsilon: accounting.gdp_from_pure(epsilon) <= mu, inside=mu / 2, outside=mu)
