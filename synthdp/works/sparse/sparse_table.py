"""Weights on record keys of a universe too large to list: a hash table of touched keys, and a count of untouched slots.

The weights are public data: only noisy answers change them. Neither time nor memory depends on the universe's size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from synthdp.answers.answers import Answers as Answered
from synthdp.arrays import FloatArray, IntArray
from synthdp.checks import check_whole
from synthdp.codec import ADDED, file_form
from synthdp.errors import MechanismFailure, ParameterError
from synthdp.measurements import Measurements
from synthdp.queries.supports import SparseQuery, Support
from synthdp.schema.schema import Schema
from synthdp.works.sparse.sparse_questions import answered

CONFIDENCE = 0.95
"""Confidence of every error bound that is not a standard error. The usual level; more would widen every bound. A
convention."""


class Origin(StrEnum):
    """Sources of an answer to a sparse query; every `SparseAnswer` names one, so unchecked answers are visible."""

    MEASURED = "measured with noise"
    WEIGHTS = "public weights, checked against the table"
    UNCHECKED = "public weights, not checked: all updates are used up"
    RELEASED = "computed from a release"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseAnswer:
    """The answer to a sparse query: an estimated number of rows, with its error and its source.

    Parameters
    ----------
    count
        Estimated number of rows (or sum of the query's values over rows).
    total
        Number of all rows, public or estimated.
    stddev
        Standard error in rows where the answer's error is noise, else ``None``.
    error
        Bound on the error in rows that holds with probability 0.95, or ``None`` where there is none.
    origin
        The source of the answer.
    """

    count: float
    total: float
    stddev: float | None
    error: float | None
    origin: Origin

    @property
    def fraction(self) -> float:
        """Return the answer over the number of rows, the paper's Q(D)."""
        return self.count / self.total


STEPS = 200
"""Halvings of the bisection for an exponential tilt. A safety limit: doubles need fewer."""


@file_form("SparseTable")
@dataclass(slots=True, eq=False)
class SparseTable:
    """A distribution on ``slots`` unnamed records; a record gets a key and a weight of its own when an update needs it.

    The distribution starts uniform. A new key takes one untouched slot (Blum, Roth 2011, section 3), so ``slots``
    records stand for a universe of any size.

    Parameters
    ----------
    slots
        s, how many different keys updates may touch.
    place
        The position of each touched key's weight in ``weights``.
    weights
        Unnormalised weights of touched keys; longer than needed.
    untouched_weight
        Unnormalised weight of each untouched slot.
    """

    slots: int
    place: dict[str, int] = field(default_factory=dict)
    weights: FloatArray = field(default_factory=lambda: np.zeros(1024))
    untouched_weight: float = 1.0
    _total: float = field(init=False)

    def __post_init__(self) -> None:
        check_whole("slots", self.slots)
        known = len(self.place)
        if known > min(self.slots, len(self.weights)) or not all(0 <= i < known for i in self.place.values()):
            raise ParameterError("each key in place must have a slot number of its own and a weight, within slots")
        self._total = self._sum()

    def __repr__(self) -> str:
        return f"SparseTable({len(self.place)} of {self.slots} slots touched)"

    @property
    def untouched(self) -> int:
        """Return the number of slots without a key."""
        return self.slots - len(self.place)

    @property
    def touched_weights(self) -> FloatArray:
        """Return the touched keys' normalised weights, (touched,), in the order of ``place``.

        Together with `untouched_mass` they sum to 1.
        """
        return self.weights[: len(self.place)] / self._total

    @property
    def untouched_mass(self) -> float:
        """Return the normalised weight of all untouched slots, 0 to 1: the mass of records never asked about."""
        return self.untouched * self.untouched_weight / self._total

    def copy(self) -> SparseTable:
        """Return an independent copy: later changes of its weights leave this table as it is."""
        return SparseTable(self.slots, dict(self.place), self.weights.copy(), self.untouched_weight)

    def expectation(self, support: Support) -> float:
        """Return the query's mean under the normalised weights; an untouched key has an untouched slot's weight."""
        return self.mean(self.places(support), support.weights)

    def mean(self, place: IntArray, values: FloatArray) -> float:
        """Return the mean of a query from the positions of its keys; -1 stands for an untouched key."""
        weights = np.where(place >= 0, self.weights[place], self.untouched_weight)
        return float(weights @ values) / self._total

    def places(self, support: Support) -> IntArray:
        """Return the positions of the query's keys in ``weights``, (m,); -1 for keys that have no slot yet."""
        place = self.place
        return np.fromiter((place.get(key, -1) for key in support.keys), np.int64, len(support.keys))

    def touch(self, support: Support) -> IntArray:
        """Give every key of the query a slot, and return the keys' positions in ``weights``, (m,).

        Raises
        ------
        MechanismFailure
            If slots run out: the paper's FAILURE.
        """
        places = self.places(support)
        needed = int((places < 0).sum())
        if needed > self.untouched:
            raise MechanismFailure(
                f"the query needs {needed} new slots, but only {self.untouched} of {self.slots} are left: give more "
                "slots, or ask queries with fewer keys"
            )
        if len(self.place) + needed > len(self.weights):
            grown = np.zeros(max(2 * len(self.weights), len(self.place) + needed))
            grown[: len(self.place)] = self.weights[: len(self.place)]
            self.weights = grown
        for i in np.flatnonzero(places < 0).tolist():
            places[i] = self.place.setdefault(support.keys[i], len(self.place))
            self.weights[places[i]] = self.untouched_weight
        return places

    def tilt(self, place: IntArray, values: FloatArray, *, by: float) -> None:
        """Multiply the weights at ``place`` by exp(by * value), and renormalise: one step of multiplicative weights.

        Exponents are clipped to +-700, since e^710 exceeds the range of floats.
        """
        self.weights[place] *= np.exp(np.clip(by * values, -700.0, 700.0))
        self._rescale()

    def project(self, place: IntArray, values: FloatArray, *, target: float) -> None:
        """Move the weights to the nearest distribution, in relative entropy, whose mean of a query is ``target``.

        Nothing changes if the query has no positive value, or no weight at its keys. A target outside the query's range
        is moved just inside it.

        This is an I-projection. Take a query with values 0 and 1, present mean p and target a.  The factor on its keys
        is a(1 - p) / (p(1 - a)).
        """
        inside = self.weights[place]
        rest = max(self._total - float(inside.sum()), 0.0)
        top = float(values.max(initial=0.0))
        if top <= 0 or float(inside @ values) <= 0:
            return
        if rest <= 1e-12 * self._total:  # a query on all the weight has a fixed mean: no tilt would reach the target
            rest = 1e-12 * self._total
        target = min(max(target, 1e-12), top * (1 - 1e-9))  # at an end of the range the tilt would be infinite
        if np.all(values == top):  # the tilt has a closed form if all keys have one value
            mass = float(inside.sum())
            tilt = math.log(target / top / (1 - target / top) * rest / mass) / top
        else:
            tilt = _tilt_for(inside, values, rest=rest, target=target)
        self.tilt(place, values, by=tilt)

    def _sum(self) -> float:
        """Return the sum of all unnormalised weights, untouched slots included: the divisor of every mean."""
        return float(self.weights[: len(self.place)].sum()) + self.untouched * self.untouched_weight

    def _rescale(self) -> None:
        """Recompute the sum of weights; rescale all weights if the sum is about to leave the range of floats."""
        total = self._sum()
        if not 1e-100 * self.slots < total < 1e100 * self.slots:
            factor = self.slots / total
            self.weights *= factor
            self.untouched_weight *= factor
            total = self._sum()
        self._total = total


def _tilt_for(weights: FloatArray, values: FloatArray, *, rest: float, target: float) -> float:
    """Return the tilt t at which a query's mean is ``target``, found by bisection, to project the weights on an answer.

    Weights w of keys with values v become w e^(tv); ``rest`` is the weight of all other keys. It solves sum w v e^(tv)
    = target (rest + sum w e^(tv)); the mean rises in t. The tilt is at most 700 in size.
    """

    def mean(tilt: float) -> float:
        # numerator and denominator are divided by the largest power, so that neither exceeds the range of floats
        shift = max(0.0, tilt * float(values.max()))
        tilted = weights * np.exp(tilt * values - shift)
        return float(tilted @ values) / (rest * math.exp(-shift) + float(tilted.sum()))

    low, high = -700.0, 700.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if mean(middle) < target else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightTarget:
    """A noisy answer to one query that the weights were moved to; `replay` restores it after later answers.

    Parameters
    ----------
    place
        (m,) positions of the query's keys in the weights.
    values
        (m,) the query's values at these keys.
    target
        The query's noisy mean over rows.
    """

    place: IntArray
    values: FloatArray
    target: float


@file_form("SparseModel")
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparseModel:
    """Public weights on record keys, and the number of rows; the release of sparse multiplicative weights.

    Parameters
    ----------
    columns
        Columns whose values make up the key.
    table
        The weights on keys.
    total
        Number of rows, public or estimated.
    error
        Bound in rows on the error of answers to the queries that were checked, or ``None``.
    schema, total_stddev
        The columns, and the standard deviation of the number of rows; ``None`` in files of older versions.
    """

    columns: tuple[str, ...]
    table: SparseTable
    total: float
    error: float | None = None
    schema: Schema | None = field(default=None, metadata=ADDED)
    total_stddev: float | None = field(default=None, metadata=ADDED)

    def __repr__(self) -> str:
        return f"SparseModel({self.table!r}, about {self.total:.0f} rows)"

    @property
    def weights(self) -> Mapping[str, float]:
        """Return the normalised weight of every touched key: every record that an update has changed."""
        return dict(zip(self.table.place, self.table.touched_weights.tolist(), strict=True))

    def answered(self, question: Any, measurements: Sequence[Measurements] = ()) -> Answered:  # noqa: ARG002
        """Answer a sparse query, a list of sparse queries, a count or a marginal; see `Release.answer`."""
        return answered(
            question, self.answer, schema=self.schema, columns=self.columns, total=(self.total, self.total_stddev)
        )

    def answer(self, query: SparseQuery) -> SparseAnswer:
        """Answer a sparse query by the public weights, in rows, without an error bound.

        Raises
        ------
        ParameterError
            If the query is about other columns.
        """
        check_query(query, self.columns)
        mean = self.table.expectation(query.support())
        return SparseAnswer(count=mean * self.total, total=self.total, stddev=None, error=None, origin=Origin.RELEASED)


def check_query(query: SparseQuery, columns: tuple[str, ...]) -> None:
    """Raise ParameterError for anything but a sparse query, or for a query about other columns than these."""
    if not isinstance(query, SparseQuery):
        raise ParameterError(
            f"this release answers only queries made by sparse_conjunction and overlap, not {type(query).__name__}"
        )
    if query.columns != columns:
        raise ParameterError(
            f"the query must have the columns {', '.join(columns)}, in this order, not {', '.join(query.columns)}"
        )


def replay(table: SparseTable, measured: list[WeightTarget], *, sweeps: int, rows: float) -> None:
    """Project the weights on all noisy answers in turn, the latest first, so that earlier answers nearly hold again.

    A projection on one answer moves the weights away from the others, so several passes bring all answers closer.

    Parameters
    ----------
    table
        The weights, changed in place.
    measured
        All answers so far.
    sweeps
        Number of passes over all answers.
    rows
        Number of rows. Target means are clipped to at least half a row and at most all but half a row: at 0 or 1 the
        weight of some keys would become 0, and no later answer could raise it.
    """
    least = 0.5 / max(rows, 1.0)
    for _ in range(sweeps):
        for one in reversed(measured):
            table.project(one.place, one.values, target=min(max(one.target, least), 1 - least))


def touched(table: SparseTable, support: Support, *, target: float) -> WeightTarget:
    """Give the query's keys slots, and return its noisy mean ``target`` with the keys' positions, for `replay`.

    Raises
    ------
    MechanismFailure
        If slots run out.
    """
    return WeightTarget(place=table.touch(support), values=np.asarray(support.weights), target=target)
