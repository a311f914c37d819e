"""Weights on record keys of a universe too large to list: a hash table of touched keys, and a number of untouched ones.

Public data: it changes by noisy answers only, and neither its time nor its memory depends on the universe.
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
"""Of every error bound that is not a standard error.  A convention."""


class Origin(StrEnum):
    """Where an answer comes from."""

    MEASURED = "measured with noise"
    WEIGHTS = "public weights, checked against the table"
    UNCHECKED = "public weights, not checked: all updates are used up"
    RELEASED = "computed from a release"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseAnswer:
    """How many rows a sparse query counts.

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
        Where it comes from.
    """

    count: float
    total: float
    stddev: float | None
    error: float | None
    origin: Origin

    @property
    def fraction(self) -> float:
        """The answer over the number of rows: the paper's Q(D)."""
        return self.count / self.total


STEPS = 200
"""Halvings that end the search for an exponential tilt; doubles need fewer.  A safety limit."""


@file_form("SparseTable")
@dataclass(slots=True, eq=False)
class SparseTable:
    """A distribution on ``slots`` unnamed records; a record gets a key when it is first asked about.

    It starts uniform.  A new key takes one of the untouched slots (Blum, Roth 2011, section 3), so that ``slots``
    records stand for a universe of any size.

    Parameters
    ----------
    slots
        s, how many different keys may be touched.
    place
        Where the weight of each touched key stands.
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
        """Number of slots without a key."""
        return self.slots - len(self.place)

    @property
    def touched_weights(self) -> FloatArray:
        """Normalised weights of the touched keys, in the order of ``place``."""
        return self.weights[: len(self.place)] / self._total

    @property
    def untouched_mass(self) -> float:
        """Normalised weight of all untouched slots together."""
        return self.untouched * self.untouched_weight / self._total

    def copy(self) -> SparseTable:
        """Return a copy whose weights change without changing this table's."""
        return SparseTable(self.slots, dict(self.place), self.weights.copy(), self.untouched_weight)

    def expectation(self, support: Support) -> float:
        """Return the query's mean; keys that are not touched have the weight of an untouched slot."""
        return self.mean(self.places(support), support.weights)

    def mean(self, place: IntArray, values: FloatArray) -> float:
        """Return the mean of a query whose keys are at ``place``, -1 for keys that are not touched."""
        weights = np.where(place >= 0, self.weights[place], self.untouched_weight)
        return float(weights @ values) / self._total

    def places(self, support: Support) -> IntArray:
        """Return where the weights of the query's keys are: (m,), -1 for keys that would take a new slot."""
        place = self.place
        return np.fromiter((place.get(key, -1) for key in support.keys), np.int64, len(support.keys))

    def touch(self, support: Support) -> IntArray:
        """Give every key of the query a slot and return where they are: (m,).

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
        """Multiply weights by exp(by * value): a step of multiplicative weights, mass conserved by normalising."""
        self.weights[place] *= np.exp(np.clip(by * values, -700.0, 700.0))
        self._rescale()

    def project(self, place: IntArray, values: FloatArray, *, target: float) -> None:
        """Move to the nearest distribution, in relative entropy, whose mean of a query is ``target`` (I-projection).

        For a query with values 0 and 1 and the present mean p the factor on its keys is a(1 - p) / (p(1 - a)).
        """
        inside = self.weights[place]
        rest = max(self._total - float(inside.sum()), 0.0)
        top = float(values.max(initial=0.0))
        if top <= 0 or float(inside @ values) <= 0:
            return
        if rest <= 1e-12 * self._total:
            rest = 1e-12 * self._total
        target = min(max(target, 1e-12), top * (1 - 1e-9))
        if np.all(values == top):
            mass = float(inside.sum())
            tilt = math.log(target / top / (1 - target / top) * rest / mass) / top
        else:
            tilt = _tilt_for(inside, values, rest=rest, target=target)
        self.tilt(place, values, by=tilt)

    def _sum(self) -> float:
        """Return the sum of all weights, untouched keys' too."""
        return float(self.weights[: len(self.place)].sum()) + self.untouched * self.untouched_weight

    def _rescale(self) -> None:
        """Recompute the sum, and bring it back to the number of slots before it leaves the range of floats."""
        total = self._sum()
        if not 1e-100 * self.slots < total < 1e100 * self.slots:
            factor = self.slots / total
            self.weights *= factor
            self.untouched_weight *= factor
            total = self._sum()
        self._total = total


def _tilt_for(weights: FloatArray, values: FloatArray, *, rest: float, target: float) -> float:
    """Return t with sum w v e^(tv) = target (rest + sum w e^(tv)), which rises in t, by bisection."""

    def mean(tilt: float) -> float:
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
    """A noisy answer that the weights were moved to.

    Parameters
    ----------
    place
        (m,) positions of the query's keys in the weights.
    values
        (m,) the query's values there.
    target
        The noisy mean.
    """

    place: IntArray
    values: FloatArray
    target: float


@file_form("SparseModel")
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparseModel:
    """Public weights on record keys.

    Parameters
    ----------
    columns
        Columns whose values make up the key.
    table
        The weights.
    total
        Number of rows, public or estimated.
    error
        Bound in rows on the error of answers to the queries that were checked, or ``None``.
    schema, total_stddev
        The columns, and the standard deviation of the number of rows; ``None`` in files from before they were kept.
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
        """Normalised weight of every key that was asked about."""
        return dict(zip(self.table.place, self.table.touched_weights.tolist(), strict=True))

    def answered(self, question: Any, measurements: Sequence[Measurements] = ()) -> Answered:  # noqa: ARG002
        """Answer a sparse query, several, a count or a marginal, as every release does; see `Release.answer`."""
        return answered(
            question, self.answer, schema=self.schema, columns=self.columns, total=(self.total, self.total_stddev)
        )

    def answer(self, query: SparseQuery) -> SparseAnswer:
        """Answer a sparse query.

        Raises
        ------
        ParameterError
            If it is about other columns.
        """
        check_query(query, self.columns)
        mean = self.table.expectation(query.support())
        return SparseAnswer(count=mean * self.total, total=self.total, stddev=None, error=None, origin=Origin.RELEASED)


def check_query(query: SparseQuery, columns: tuple[str, ...]) -> None:
    """Refuse what is no sparse query, or one about other columns than these."""
    if not isinstance(query, SparseQuery):
        raise ParameterError(
            f"this release answers only queries made by sparse_conjunction and overlap, not {type(query).__name__}"
        )
    if query.columns != columns:
        raise ParameterError(
            f"the query must have the columns {', '.join(columns)}, in this order, not {', '.join(query.columns)}"
        )


def replay(table: SparseTable, measured: list[WeightTarget], *, sweeps: int, rows: float) -> None:
    """Project the weights on all noisy answers in turn, the latest first, so that earlier ones still hold.

    Parameters
    ----------
    table
        The weights, changed in place.
    measured
        All answers so far.
    sweeps
        How many times round.
    rows
        Number of rows: no mean is taken for less than half a row, or more than all but half a row.
    """
    least = 0.5 / max(rows, 1.0)
    for _ in range(sweeps):
        for one in reversed(measured):
            table.project(one.place, one.values, target=min(max(one.target, least), 1 - least))


def touched(table: SparseTable, support: Support, *, target: float) -> WeightTarget:
    """Return a noisy answer with its query's keys placed in the table.

    Raises
    ------
    MechanismFailure
        If slots run out.
    """
    return WeightTarget(place=table.touch(support), values=np.asarray(support.weights), target=target)
