"""Noisy parities as a summary: three ways to answer a symmetric query, and a fit of a synthetic table.

Everything here is post-processing of noisy answers, so it costs nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from synthdp.answers.answers import Answers as Answered
from synthdp.answers.noisy_sums import NoisySums, answered
from synthdp.answers.questions import Marginal
from synthdp.arrays import AnyArray, BoolArray, Clique, Codes, FloatArray, IntArray, frozen
from synthdp.checks import check_share
from synthdp.codec import file_form
from synthdp.errors import InternalError, ParameterError
from synthdp.fit.consistency import make_consistent
from synthdp.fit.explicit.moment_fits import MomentRange, average_range, max_entropy, max_entropy_sensitivity
from synthdp.fit.explicit.problem import FitProblem
from synthdp.fit.explicit.registry import solved
from synthdp.fit.max_entropy import MaxEntropy
from synthdp.measurements import Measurements
from synthdp.mechanisms.cell_model import CellModel
from synthdp.mechanisms.estimate import Estimate, bracketed
from synthdp.mechanisms.workload import asked_of_names
from synthdp.queries.contingency import NoisyTable
from synthdp.randomness import Generator, RandomState, generator
from synthdp.sampling.synthetic_model import DrawnFromModel, SyntheticModel
from synthdp.schema.schema import Schema
from synthdp.works.polynomials.binarized import Binarized, marginal_estimate, marginal_labels, symmetric_query
from synthdp.works.polynomials.literal_queries import SubmodularQuery, SymmetricQuery, submodular_average
from synthdp.works.polynomials.parities import Parities
from synthdp.works.polynomials.polynomials import NOISE_WEIGHT, krawtchouk, optimal_coefficients, ranks, subsets_of

MAX_ENTRIES = 30_000_000
"""Most entries (parities times candidates) of the fit; parities of low degree come first, then a random part of the
next degree. A safety limit of memory: 240 MB of 64-bit numbers."""

_LEAST_STDDEV = 1e-3
"""Least noise stddev of a table, in rows, so that precisions stay finite. A numerical tolerance."""


def fit_parities(
    schema: Schema,
    parities: Parities,
    levels: tuple[FloatArray, ...],
    stddevs: FloatArray,
    *,
    rows: float,
    candidates: int = 10_000,
    random_state: RandomState = None,
) -> CellModel:
    """Return weights on candidate rows that match noisy parities, as a model that draws rows.

    The candidates are drawn from a maximum-entropy model of one- and two-column tables. The L1 program weighs them.

    Parameters
    ----------
    schema
        The schema of the table.
    parities
        The measured parities.
    levels
        The noisy sums of parities of each degree.
    stddevs
        (order + 1,) standard deviations of their noise, in rows.
    rows
        Number of rows, public or estimated.
    candidates
        Number of rows that are drawn as support points.
    random_state
        Seed of the candidates.
    """
    bits, rng = parities.bits, generator(random_state)
    view = _Tables(bits, levels, stddevs, rows)
    tables = view.forest() if parities.order >= 2 else [view.one_way(j) for j in range(len(bits.domain))]
    allowed: dict[Clique, BoolArray] = {(j,): axis.releasable for j, axis in enumerate(bits.domain.axes)}
    consistent = make_consistent(tables, bits.domain.shape, total=rows)
    model = MaxEntropy().fit(consistent, bits.domain.shape, total=rows, allowed=allowed).model
    codes = model.sample(candidates, rng)
    problem = _problem(bits, codes, levels, stddevs, rows, rng)
    weights = solved(problem, "lp").weights
    return CellModel.of(schema, bits.domain, codes, weights, total=rows)


class _ColumnMap(NamedTuple):
    """The indicators of a column's cells as linear combinations of 1 and the signs of its bits."""

    bits: IntArray
    table: FloatArray
    """(cells, 1 + bits) coefficients."""


class _Tables:
    """Noisy contingency tables of one and two columns, as linear functions of the noisy parities."""

    def __init__(self, bits: Binarized, levels: tuple[FloatArray, ...], stddevs: FloatArray, rows: float) -> None:
        self.d, self.levels, self.stddevs, self.rows = bits.d, levels, stddevs, rows
        self.columns = [_column_map(bits, j) for j in range(len(bits.domain))]

    def one_way(self, j: int) -> NoisyTable:
        """Return the noisy counts of one column's cells, (cells,), from the parities of its bits."""
        column = self.columns[j]
        sums = np.append(self.rows, self.levels[1][column.bits])
        spread = np.append(0.0, np.full(len(column.bits), self.stddevs[1]))
        return _noisy((j,), column.table @ sums, (column.table**2) @ spread**2)

    def pair(self, a: int, b: int) -> NoisyTable:
        """Return the noisy counts of two columns' cells, a < b, (cells,), from parities of one and of two bits.

        The number of rows is taken as exact, since fits make all tables add up to it.
        """
        first, second = self.columns[a], self.columns[b]
        sums = np.empty((len(first.bits) + 1, len(second.bits) + 1))
        variance = np.empty_like(sums)
        sums[0, 0], variance[0, 0] = self.rows, 0.0
        sums[1:, 0], sums[0, 1:] = self.levels[1][first.bits], self.levels[1][second.bits]
        variance[1:, 0] = variance[0, 1:] = self.stddevs[1] ** 2
        both = np.array(list(itertools.product(first.bits, second.bits)), np.int64)
        sums[1:, 1:] = self.levels[2][ranks(np.sort(both, axis=1), self.d)].reshape(len(first.bits), -1)
        variance[1:, 1:] = self.stddevs[2] ** 2
        counts = first.table @ sums @ second.table.T
        return _noisy((a, b), counts.ravel(), (first.table**2 @ variance @ (second.table**2).T).ravel())

    def forest(self) -> list[NoisyTable]:
        """Return all one-column tables, and the pair tables of a maximum spanning forest (Chow, Liu 1968).

        Pairs are ordered by their dependence beyond noise, and pairs without any are left out.
        """
        singles = [self.one_way(j) for j in range(len(self.columns))]
        margins = [np.maximum(table.counts, 0.0) / max(np.maximum(table.counts, 0.0).sum(), 1.0) for table in singles]
        pairs = [self.pair(a, b) for a, b in itertools.combinations(range(len(self.columns)), 2)]
        scores = [_dependence(table, margins, self.rows) for table in pairs]
        tree = list(range(len(singles)))
        chosen: list[NoisyTable] = []
        for i in np.argsort(-np.array(scores), kind="stable"):
            a, b = (_root(tree, j) for j in pairs[i].clique)
            if scores[i] <= 0:
                break
            if a != b:
                tree[a] = b
                chosen.append(pairs[i])
        return [*singles, *chosen]


def _dependence(table: NoisyTable, margins: list[FloatArray], rows: float) -> float:
    """Return the L1 distance of a pair table from independence, in rows, minus the distance that noise explains.

    Pairs with the most of it become edges of the forest.
    """
    a, b = table.clique
    apart = np.abs(table.counts - rows * np.outer(margins[a], margins[b]).ravel()).sum()
    return float(apart - np.sqrt(2 / np.pi) * table.stddev * len(table.counts))


def _root(tree: list[int], j: int) -> int:
    """Return the root of element j in a union-find forest, by which pairs that would close a cycle are found."""
    while tree[j] != j:
        j = tree[j]
    return j


def _column_map(bits: Binarized, j: int) -> _ColumnMap:
    """Return the map from sums of a column's bits to counts of its cells, by which noisy tables are made of parities.

    Cells out of domain get 0.
    """
    own = bits.of_column(j)
    releasable = bits.domain.axes[j].releasable
    signs = np.array([1.0 - 2.0 * bits.bits[i].cells for i in own])
    features = np.vstack([np.ones(len(releasable)), signs])
    table = np.zeros((len(releasable), len(features)))
    table[releasable] = np.linalg.pinv(features[:, releasable])
    return _ColumnMap(own, table)


def _noisy(clique: Clique, counts: FloatArray, variance: FloatArray) -> NoisyTable:
    """Return counts as a noisy table with one stddev, as fits take it: the root of the counts' mean variance.

    The stddev is at least `_LEAST_STDDEV`.
    """
    return NoisyTable(clique=clique, counts=counts, stddev=max(float(np.sqrt(variance.mean())), _LEAST_STDDEV))


def _problem(
    bits: Binarized, codes: Codes, levels: tuple[FloatArray, ...], stddevs: FloatArray, rows: float, rng: Generator
) -> FitProblem:
    """Return the fit problem of all parities of low degree, as many as memory allows, and of some of the next degree.

    The parities of the next degree are drawn at random: chosen by size, they would be those with the largest noise.
    ``codes`` are the rows to weigh; ``levels`` holds the noisy sums and ``stddevs`` the noise of each degree.
    """
    signs = 1 - 2 * bits.matrix(codes).astype(np.int8)
    left = max(MAX_ENTRIES // len(codes), bits.d)
    features: list[AnyArray] = []
    averages: list[FloatArray] = []
    spreads: list[FloatArray] = []
    for level in range(1, len(levels)):
        chosen = _some(len(levels[level]), left, rng)
        subsets = subsets_of(bits.d, level)[chosen]
        product = signs[:, subsets[:, 0]]
        for j in range(1, level):
            product = product * signs[:, subsets[:, j]]
        features.append(product.T.astype(np.float64))
        averages.append(levels[level][chosen] / rows)
        spreads.append(np.full(len(chosen), stddevs[level] / rows))
        left -= len(chosen)
        if left <= 0:
            break
    return FitProblem.of_noisy(np.vstack(features), np.concatenate(averages), np.concatenate(spreads), drawn=len(codes))


def _some(size: int, count: int, rng: Generator) -> IntArray:
    """Return at most ``count`` of the numbers below ``size``, in increasing order: all of them, or a random choice.

    So the fit's parities of one degree are chosen without regard to their noise.
    """
    return np.arange(size) if size <= count else np.sort(rng.choice(size, count, replace=False))


MAX_TABLE_LITERALS = 10
"""Most literals of a query whose 2^k truth assignments are listed. A safety limit."""


class ParityMoments(NamedTuple):
    """The noisy parities of a query's literals, from the empty set on, as sums over rows."""

    sets: tuple[tuple[int, ...], ...]
    """The literals' positions in each of the p sets."""
    values: FloatArray
    """(p,) the noisy sums of (-1)^(number of true literals in the set)."""
    stddev: FloatArray
    """(p,) standard deviations of their noise; 0 for a public number of rows."""


@file_form("ParitySummary")
@dataclass(frozen=True, kw_only=True, eq=False)
class ParitySummary(DrawnFromModel):
    """Noisy sums of all parities of at most ``order`` bits, which answer symmetric queries; a table can fit them.

    Parameters
    ----------
    schema
        The schema of the private table.
    measured
        Noisy answers to `Parities`.
    public_rows
        The number of rows where it is public, else ``None``.
    """

    schema: Schema
    measured: Measurements
    public_rows: int | None = None
    parities: Parities = field(init=False)
    levels: tuple[FloatArray, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        parities = self.measured.asked(Parities)
        if (parities.scales[0] == 0) is not (self.public_rows is not None):
            raise InternalError("a parity summary needs the number of rows once")
        parts = parities.split(self.measured.answers)
        levels = [part / max(scale, 1) for part, scale in zip(parts, parities.scales, strict=True)]
        if self.public_rows is not None:
            levels[0] = np.array([float(self.public_rows)])
        object.__setattr__(self, "parities", parities)
        object.__setattr__(self, "levels", tuple(frozen(np.asarray(level, np.float64)) for level in levels))

    def __repr__(self) -> str:
        return f"ParitySummary({self.parities.k} parities of at most {self.order} of {self.bits.d} bits)"

    @property
    def bits(self) -> Binarized:
        """Return the bits of the columns, with their literals."""
        return self.parities.bits

    @property
    def order(self) -> int:
        """Return the largest number of bits in a parity."""
        return self.parities.order

    @property
    def rows(self) -> float:
        """Return the number of rows, public or estimated; at least 1."""
        return max(1.0, float(self.levels[0][0]))

    @property
    def stddevs(self) -> FloatArray:
        """Return the noise stddev of each degree's sums, (order + 1,), in rows.

        The stddev is infinite where a degree was left out, and 0 for a public number of rows.
        """
        scales = np.array(self.parities.scales, np.float64)
        spread = np.divide(self.measured.stddev, scales, out=np.full(len(scales), np.inf), where=scales > 0)
        if self.public_rows is not None:
            spread[0] = 0.0
        return np.asarray(spread, np.float64)

    def answer(
        self,
        query: SymmetricQuery | SubmodularQuery | Marginal,
        *,
        evaluator: str = "polynomial",
        confidence: float = 0.95,
    ) -> Estimate | MomentRange:
        """Return the answer to a query as a fraction of the rows, or the number of rows in each cell of a marginal.

        Parameters
        ----------
        query
            A conjunction, disjunction, r-of-k or other symmetric query on the released columns; or a submodular query,
            such as `synthdp.coverage` makes. Or a marginal of columns of labels or truth values, whose cells are
            conjunctions.
        evaluator
            ``"polynomial"`` for `by_polynomial`, ``"max_entropy"`` for `by_max_entropy`, ``"interval"`` for `bracket`.
        confidence
            Probability that the interval contains the true answer.

        Raises
        ------
        ParameterError
            If the query is of another kind, or about columns that were not released.
        """
        if isinstance(query, Marginal):
            return self._marginal(query, evaluator)
        if isinstance(query, SubmodularQuery):
            if evaluator != "polynomial":
                raise ParameterError(f"evaluator ({evaluator!r}) must be 'polynomial' for a submodular query")
            return submodular_average(self, query)
        query = symmetric_query(query)
        match evaluator:
            case "polynomial":
                return self.by_polynomial(query)
            case "max_entropy":
                return self.by_max_entropy(query)
            case "interval":
                return self.bracket(query, confidence=confidence)
        raise ParameterError(f"evaluator ({evaluator!r}) must be 'polynomial', 'max_entropy' or 'interval'")

    def answered(
        self,
        question: Any,
        measurements: Sequence[Measurements] = (),  # noqa: ARG002
        **options: Any,
    ) -> Answered:
        """Answer a question in the form of every release; see `Release.answer`, and `answer` for the options.

        Counts, shares, sums, means and marginals of at most ``order`` columns are unbiased. Cells of wider marginals
        are conjunctions with a bias. Symmetric and submodular queries are fractions of the rows.
        """
        question = asked_of_names(question)
        if isinstance(question, SymmetricQuery | SubmodularQuery):
            found = self.answer(question, **options)
            return found.answers() if isinstance(found, Estimate) else bracketed(found)
        if isinstance(question, Marginal) and len(question.columns) > self.order:
            found = self._marginal(question, str(options.get("evaluator", "polynomial")))
            return found.answers(marginal_labels(question, self.bits))
        return answered(NoisySums(self.schema, (self.measured,), (self.rows, float(self.stddevs[0]))), question)

    def _marginal(self, query: Marginal, evaluator: str) -> Estimate:
        """Return the number of rows in each of a marginal's cells, (cells,), by polynomials or by maximum entropy."""
        ways = {"polynomial": self.by_polynomial, "max_entropy": self.by_max_entropy}
        if evaluator not in ways:
            raise ParameterError(f"evaluator ({evaluator!r}) must be 'polynomial' or 'max_entropy' for a marginal")
        return marginal_estimate(query, self.bits, rows=self.rows, answer=ways[evaluator])

    def by_polynomial(self, query: SymmetricQuery) -> Estimate:
        """Return the answer, an average over the rows, by the polynomial with the least bias plus noise.

        The answer has a standard error and a bound on its bias.  It is unbiased for at most ``order`` literals, unless
        a lower degree has less error.
        """
        order = min(self.order, query.k)
        sizes = np.array([math.comb(query.k, i) for i in range(order + 1)], np.float64)
        spread = self.stddevs[: order + 1] * np.sqrt(sizes) / self.rows
        spread[0] = 0.0  # the sum of level 0 over the number of rows is 1
        b = optimal_coefficients(query.values, order, tuple((NOISE_WEIGHT * spread).tolist()))
        moments = self.moments(query, order=order)
        size = np.array([len(subset) for subset in moments.sets])
        sums = np.bincount(size, weights=moments.values, minlength=order + 1) / self.rows
        sums[0] = 1.0
        value = float(b.values @ sums)
        variance = float(((b.values * spread) ** 2).sum())
        variance += ((value - float(b.values[0])) * float(self.stddevs[0]) / self.rows) ** 2
        return Estimate(
            estimate=value,
            stderr=math.sqrt(variance),
            truncation=b.error,
            truncation_bound=b.error,
            offset=float(b.values[0]),
            rows_error=float(self.stddevs[0]) / self.rows,
            range=(min(query.values), max(query.values)),
        )

    def by_max_entropy(self, query: SymmetricQuery) -> Estimate:
        """Return the answer, an average over the rows, from the literals' maximum-entropy distribution.

        The distribution is on 2^k assignments. It uses every parity of the literals, not only the sums of each degree.
        It is often far better than a polynomial where the query is wider than ``order``. ``truncation`` is the distance
        to the farthest answer of any distribution with equal sums of parities per degree.

        Raises
        ------
        ParameterError
            If the query has more than 10 literals.
        """
        order = min(self.order, query.k)
        table, moments = _truth_table(query.k, order), self.moments(query, order=order)
        spread = moments.stddev[1:] / self.rows
        weights = max_entropy(table.parities[1:], moments.values[1:] / self.rows, stddev=spread)
        f = np.array(query.values)[table.true]
        moved = max_entropy_sensitivity(f, table.parities[1:], weights, stddev=spread)
        value, K = float(f @ weights), krawtchouk(query.k, order)
        sums = np.bincount(table.true, weights=weights, minlength=query.k + 1) @ K
        bracket = average_range(np.array(query.values), K.T, lower=sums, upper=sums)
        return Estimate(
            estimate=value,
            stderr=float(np.linalg.norm(moved * spread)),
            truncation=max(bracket.upper - value, value - bracket.lower, 0.0),
            range=(min(query.values), max(query.values)),
        )

    def bracket(self, query: SymmetricQuery, *, confidence: float = 0.95) -> MomentRange:
        """Return an interval that contains the true average over the rows with at least probability ``confidence``.

        Its ends are the least and the largest answer over all measures on the literals' truth assignments. The parities
        of these measures must all be within the noise's simultaneous bound of the noisy parities. The interval holds
        for any data.

        Raises
        ------
        ParameterError
            If the query has more than 10 literals, or ``confidence`` is not between 0 and 1.
        """
        check_share("confidence", confidence)
        order = min(self.order, query.k)
        table, moments = _truth_table(query.k, order), self.moments(query, order=order)
        known = moments.stddev > 0
        bound = self.measured.noise.tail(1 - confidence, count=int(known.sum())) / self.measured.resolution
        scales = np.array(self.parities.scales, np.float64)[[len(subset) for subset in moments.sets]]
        half = np.divide(bound, scales, out=np.zeros(len(scales)), where=known)
        f = np.array(query.values)[table.true]
        return average_range(f, table.parities, lower=moments.values - half, upper=moments.values + half)

    def moments(self, query: SymmetricQuery, *, order: int) -> ParityMoments:
        """Return the sets of up to ``order`` of a query's literals, their parities' noisy sums, and the noise stddevs.

        A true literal counts as -1. Answers to the query are computed from these sums alone.
        """
        bits, signs = self.bits.find(query)
        sets: list[tuple[int, ...]] = []
        values: list[FloatArray] = []
        for level in range(order + 1):
            chosen = subsets_of(query.k, level)
            sets.extend(map(tuple, chosen.tolist()))
            if self.parities.scales[level] == 0 and level > 0:
                raise InternalError("a level that a query needs was left out")
            place = ranks(np.sort(bits[chosen], axis=1), self.bits.d)
            values.append(self.levels[level][place] * signs[chosen].prod(axis=1))
        size = [len(subset) for subset in sets]
        return ParityMoments(tuple(sets), np.concatenate(values), self.stddevs[size])

    def fit(self, *, candidates: int = 10_000, random_state: RandomState = None) -> CellModel:
        """Return a synthetic table fitted to the noisy parities; see `fit_parities`."""
        return fit_parities(
            self.schema,
            self.parities,
            self.levels,
            self.stddevs,
            rows=self.rows,
            candidates=candidates,
            random_state=random_state,
        )

    @property
    def model(self) -> SyntheticModel:
        """Return the model that draws rows of a fit with seed 0, so that it is always the same."""
        return self._fitted.model

    @cached_property
    def _fitted(self) -> CellModel:
        """Return the table of weights on candidate rows with seed 0, fitted once, from which rows are drawn."""
        return self.fit(random_state=0)


class _TruthTable(NamedTuple):
    """The 2^k truth assignments of k literals: their numbers of true literals, (2^k,), and their parities, (p, 2^k)."""

    true: IntArray
    parities: FloatArray


@lru_cache(maxsize=32)
def _truth_table(k: int, order: int) -> _TruthTable:
    """Return the number of true literals of each truth assignment of k, and its parities up to ``order``.

    The two arrays have the shapes (2^k,) and (p, 2^k). An answer is an average over a distribution on these
    assignments.

    Raise ParameterError if there are more than `MAX_TABLE_LITERALS` literals.
    """
    if k > MAX_TABLE_LITERALS:
        raise ParameterError(
            f"a query ({k} literals) must have at most {MAX_TABLE_LITERALS}: ask with evaluator='polynomial' instead"
        )
    assignments = (np.arange(2**k)[:, None] >> np.arange(k)) & 1
    signs = 1.0 - 2.0 * assignments
    rows = [signs[:, list(subset)].prod(axis=1) for i in range(order + 1) for subset in subsets_of(k, i).tolist()]
    return _TruthTable(frozen(assignments.sum(axis=1)), frozen(np.array(rows)))
