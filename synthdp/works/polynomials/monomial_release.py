"""The mechanism of Thaler, Ullman, Vadhan (2012) as published, with the scale corrected: for comparison and teaching.

It releases noisy counts of conjunctions of at most t bits, and answers a query through Chebyshev's polynomial.
`parity_release` is the practical form.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from synthdp.answers.answers import Answers as Answered
from synthdp.answers.noisy_sums import NoisySums, answered
from synthdp.answers.questions import Marginal
from synthdp.arrays import Answers, AnyArray, Codes, Features, FloatArray, Totals
from synthdp.checks import check_whole, whole
from synthdp.codec import file_form
from synthdp.curator import Curator
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError
from synthdp.measurements import Measurements, NoiseLaw
from synthdp.mechanisms.estimate import Estimate
from synthdp.mechanisms.mechanism import HasPrivacyCost
from synthdp.mechanisms.workload import asked_of_names
from synthdp.privacy.loss import Remaining, Spend
from synthdp.queries.linear import LinearFamily
from synthdp.queries.norms import Norms, RecordBounds
from synthdp.queries.products import ProductSums
from synthdp.randomness import RandomState
from synthdp.release import Release
from synthdp.schema.schema import Schema
from synthdp.works.polynomials.binarized import Binarized, binarize, marginal_estimate, marginal_labels, symmetric_query
from synthdp.works.polynomials.literal_queries import SymmetricQuery
from synthdp.works.polynomials.parities import all_ones_counts, column_sums
from synthdp.works.polynomials.polynomials import (
    chebyshev_conjunction,
    krawtchouk,
    level_sizes,
    newton_coefficients,
    optimal_coefficients,
    ranks,
    subsets_of,
)


@file_form("Monomials")
@dataclass(frozen=True, slots=True, eq=False)
class Monomials(LinearFamily):
    """For every set S of at most t bits, the number of rows where all bits of S are 0.

    A row with z zeros adds 1 to N = sum_i C(z, i) counts, at most to all M counts. Replacing a row x by y changes N(x)
    + N(y) - 2 N(x and y) counts. That is largest for all zeros against none (N is superadditive): M - 1, since the
    count of the empty set stays.

    Parameters
    ----------
    bits
        The d bits.
    order
        t, the largest size of S.
    """

    bits: Binarized
    order: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", whole("order", self.order))
        check_whole("order", self.order, most=self.bits.d)

    @property
    def domain(self) -> Domain:
        """Return the columns that are read, and their cells."""
        return self.bits.domain

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the number of sets of each size, (t + 1,)."""
        return level_sizes(self.bits.d, self.order)

    @property
    def k(self) -> int:
        """Return the number of counts, M = sum_i C(d, i)."""
        return sum(self.sizes)

    @property
    def bounds(self) -> RecordBounds:
        """Return the sensitivity: exact if every combination of bits can occur, else an upper bound."""
        m = self.k
        return RecordBounds(Norms(m, m, 1), Norms(m - 1, m - 1, 1))

    def features(self, codes: Codes) -> Features:
        """Return for each row and set S of at most t bits whether all bits of S are 0, (n, k) of 1 and 0."""
        zero = ~self.bits.matrix(codes)
        levels = [zero[:, subsets_of(self.bits.d, level)].all(axis=2) for level in range(self.order + 1)]
        return np.concatenate(levels, axis=1).astype(np.int64)

    def sums(self, codes: Codes) -> Totals:
        """Return for each set S of at most t bits the number of rows where all bits of S are 0, (k,), by popcounts."""
        return np.concatenate(all_ones_counts([~column for column in self.bits.columns(codes)], order=self.order))

    def split(self, values: AnyArray) -> list[AnyArray]:
        """Return a vector of all counts cut into one array per size of S, in which `ranks` find a set's count."""
        return np.split(values, np.cumsum(self.sizes)[:-1])

    def sums_of(
        self, names: Sequence[str], answers: Answers, stddev: float, *, rows: tuple[float, float]
    ) -> ProductSums | None:
        """Return the noisy sums of products of some columns' zero bits, from which their table is computed.

        Return ``None`` if too few were measured; see `TellsTables`. ``rows`` is the number of rows and
        its stddev: if its noise is less, it replaces the measured number of rows.
        """
        levels, variances = self.split(answers), [stddev**2] * (self.order + 1)
        if rows[1] < stddev:
            levels[0], variances[0] = np.array([rows[0]]), rows[1] ** 2
        return column_sums(self.bits, names, levels, variances, of_bit=lambda one: np.where(one, 0.0, 1.0))


MAX_MONOMIALS = 5_000_000
"""Most counts of one release. A safety limit of memory: 40 MB of 64-bit counts."""


@file_form("MonomialSummary")
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MonomialSummary:
    """Noisy counts of rows in which all bits of S are 0, for every S of at most ``order`` bits.

    Parameters
    ----------
    measured
        Noisy answers to `Monomials`.
    public_rows
        The number of rows where it is public, else ``None``.
    """

    measured: Measurements
    public_rows: int | None = None

    def __repr__(self) -> str:
        return f"MonomialSummary({len(self.measured.values)} counts of at most {self.order} of {self.bits.d} bits)"

    @property
    def monomials(self) -> Monomials:
        """Return the measured statistic."""
        return self.measured.asked(Monomials)

    @property
    def bits(self) -> Binarized:
        """Return the bits of the columns, with their literals."""
        return self.monomials.bits

    @property
    def order(self) -> int:
        """Return the largest number of bits in a monomial."""
        return self.monomials.order

    @property
    def rows(self) -> float:
        """Return the number of rows, public or estimated; at least 1."""
        return max(1.0, float(self.measured.answers[0]) if self.public_rows is None else float(self.public_rows))

    def answered(self, question: Any, measurements: Sequence[Measurements] = ()) -> Answered:  # noqa: ARG002
        """Answer a question in the form of every release; see `Release.answer` and `ParitySummary.answered`."""
        question = asked_of_names(question)
        if isinstance(question, SymmetricQuery):
            return self.answer(question).answers()
        if isinstance(question, Marginal) and len(question.columns) > self.order:
            return self.answer(question).answers(marginal_labels(question, self.bits))
        schema = Schema({axis.name: axis.column for axis in self.bits.domain.axes})
        spread = 0.0 if self.public_rows is not None else self.measured.stddev
        return answered(NoisySums(schema, (self.measured,), (self.rows, spread)), question)

    def answer(self, query: SymmetricQuery | Marginal) -> Estimate:
        """Return the answer to a query as a fraction of the rows, with its noise and bias; see `ParitySummary.answer`.

        For a marginal it is the number of rows in each cell.

        A false literal is z or 1 - z, where z is 1 if its bit is 0. Products of literals are expanded into monomials in
        z. So literals "bit = 0" raise the noise, which the paper's monotone conjunctions avoid.
        """
        if isinstance(query, Marginal):
            return marginal_estimate(query, self.bits, rows=self.rows, answer=self.answer)
        query = symmetric_query(query)
        bits, signs = self.bits.find(query)
        order = min(self.order, query.k)
        values = approximation(query.values, order)
        a = newton_coefficients(values)
        a[order + 1 :] = 0.0  # differences beyond the degree are rounding
        negative = np.flatnonzero(signs < 0)
        levels = self.monomials.split(self.measured.answers)
        total, squares = 0.0, 0.0
        for level in range(order + 1):
            sets = np.array(list(itertools.combinations(range(query.k), level)), np.int64)
            sets = sets.reshape(math.comb(query.k, level), level)
            inside = np.isin(sets, negative).sum(axis=1)
            coefficient = _expanded(a, level, len(negative))[inside]
            counts = levels[level][ranks(np.sort(bits[sets], axis=1), self.bits.d)]
            if level == 0:
                counts = np.array([self.rows])
            else:
                squares += float((coefficient**2).sum())
            total += float(coefficient @ counts)
        value = total / self.rows
        rows_stddev = 0.0 if self.public_rows is not None else self.measured.stddev
        variance = squares * self.measured.stddev**2 + ((value - _expanded(a, 0, len(negative))[0]) * rows_stddev) ** 2
        error = float(np.abs(values - np.array(query.values)).max())
        return Estimate(
            estimate=value,
            stderr=math.sqrt(variance) / self.rows,
            truncation=error,
            truncation_bound=error,
            offset=float(_expanded(a, 0, len(negative))[0]),
            rows_error=rows_stddev / self.rows,
            range=(min(query.values), max(query.values)),
        )


def approximation(values: tuple[float, ...], degree: int) -> FloatArray:
    """Return the values of a polynomial of a degree near a symmetric query, by the number of true literals, (k + 1,).

    Counts of sets of at most ``degree`` bits answer such a polynomial. It is Chebyshev's for a conjunction or a
    disjunction, and the polynomial with the least largest error for other queries.
    """
    k = len(values) - 1
    if degree >= k:
        return np.array(values)
    if values == (0.0,) * k + (1.0,):
        return chebyshev_conjunction(k, degree)
    if values == (0.0,) + (1.0,) * k:
        return np.asarray(1.0 - chebyshev_conjunction(k, degree)[::-1], np.float64)
    b = optimal_coefficients(values, degree, (0.0,) * (degree + 1)).values
    return np.asarray(krawtchouk(k, degree) @ b, np.float64)


def _expanded(a: FloatArray, level: int, negative: int) -> FloatArray:
    """Return the coefficients of a query's monomials of ``level`` bits in z, by the number u of bits from negative literals.

    The result is (min(level, negative) + 1,): (-1)^u times the sum over j of C(negative - u, j) a_{level + j}.  The query
    is a sum over sets S of literals of a_|S| [all literals of S are false], see `newton_coefficients`.  The measured z is
    1 if a bit is 0.  A false literal is z; a false negative literal is 1 - z.  Multiplied out, the 1s of j further
    negative literals leave a monomial of ``level`` bits.
    """
    most = min(level, negative)
    return np.array(
        [
            (-1) ** u
            * sum(math.comb(negative - u, j) * a[level + j] for j in range(min(negative - u, len(a) - 1 - level) + 1))
            for u in range(most + 1)
        ]
    )


@dataclass(frozen=True, slots=True)
class MonomialRelease(HasPrivacyCost):
    """Release noisy counts of all conjunctions of at most ``order`` zero bits, as published.

    The algorithm is by Thaler, Ullman, Vadhan 2012, theorem 1.2. The paper's scale 2 T / (epsilon n) per
    coefficient leaves out the number of coefficients and is not private. Here the noise follows the exact sensitivity
    of the whole vector.

    Costs ``spend``, for the curator's neighbours.

    Parameters
    ----------
    order
        t: the degree of the polynomials.
    law
        A law of noise to insist on: the paper's is `NoiseLaw.LAPLACE`; default: the least for the loss.
    columns, thresholds
        The columns that are used, and cuts of ordered columns: see `synthdp.works.polynomials.binarized.binarize`.
    spend
        Privacy loss that a release may cost.
    """

    order: int
    law: NoiseLaw | None = None
    columns: Sequence[str] | None = None
    thresholds: Mapping[str, Sequence[float]] | None = None
    spend: Spend = Remaining()

    def __post_init__(self) -> None:
        check_whole("order", self.order)

    def release(self, curator: Curator, *, random_state: RandomState = None) -> Release[MonomialSummary]:  # noqa: ARG002
        """Measure the counts and return them as a summary.

        Costs ``spend``, for the curator's neighbours.

        Raises
        ------
        ParameterError
            If there are fewer bits than ``order``, or too many counts.
        """
        loss = curator.cost(self.spend)
        bits = binarize(curator.schema, columns=self.columns, thresholds=self.thresholds)
        count = sum(level_sizes(bits.d, self.order))
        if count > MAX_MONOMIALS:
            raise ParameterError(
                f"order ({self.order}) needs {count} counts, and at most {MAX_MONOMIALS} are allowed: give a "
                "smaller order, or fewer columns"
            )
        measured = curator.measure(Monomials(bits, self.order), spend=loss, step="monomials", law=self.law)
        known = curator.rows if curator.adjacency.rows_are_public else None
        return Release(
            mechanism="MonomialRelease",
            output=MonomialSummary(measured=measured, public_rows=known),
            loss=loss,
            receipt=curator.receipt(notes=bits.notes),
            measurements=(measured,),
        )
