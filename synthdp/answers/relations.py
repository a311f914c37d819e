"""Significant relations of two columns of a release, from noisy answers alone.

A relation that noise or chance explains is not listed, even if the synthetic rows show it.  The module reads no real
row.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from synthdp.answers.answer import answer_engine
from synthdp.answers.direct import GLSEstimates
from synthdp.arrays import FloatArray, GridIndices, IntArray
from synthdp.fit.out_of_domain import merged_in_domain
from synthdp.measurements import Measurements
from synthdp.sampling.synthetic_model import SyntheticModel

FALSE_LISTS = 1e-3
"""Probability that a release of independent columns lists a relation: one release in a thousand.  A larger value lists
weaker relations, and more that are chance.  A tolerance."""

LEAST_ASSOCIATION = 0.05
"""Cramér's V below which a relation is not listed: a picture would show nothing.  A tolerance."""

Z = 1.96
"""Standard errors on each side of a 95 % interval: a quantile of the normal law.  A convention."""

LEAST_EXPECTED = 5.0
"""Smallest expected count of a cell that is used as a divisor, in rows, as in the usual rule for tests of
independence.  A smaller value would let rare cells decide.  A convention."""

NARROW = 0.2
"""Half of an association's interval, relative to the association, up to which it is good enough for inference.  More
would call intervals narrow to which noise adds much.  A tolerance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRelation:
    """A significant relation of two columns, or one that follows from significant relations.

    Parameters
    ----------
    columns
        Names of the two columns.
    association
        Cramér's V in synthetic rows, from 0 to 1.
    low, high
        A 95 % interval for the association in the real table.  It assumes that the model's deviation from independence
        has the right shape and a noisy size.  ``nan`` if the relation was not measured.  If only a part of it was
        measured, the rest may add to it: ``high`` is 1.
    measured
        Whether noisy answers are about these two columns; else other relations imply the relation.
    partly
        Whether only a part of the relation was measured: its linear part, or a marginal over merged bins.
    """

    columns: tuple[str, str]
    association: float
    low: float = math.nan
    high: float = math.nan
    measured: bool = True
    partly: bool = False

    def in_words(self) -> str:
        """Return the association with its interval, or that other relations imply it."""
        if not self.measured:
            return f"about {self.association:.2f}, implied by other relations"
        if self.partly:
            return f"{self.association:.2f} (at least {self.low:.2f})"
        return f"{self.association:.2f} ({self.low:.2f} to {self.high:.2f})"

    @property
    def for_inference(self) -> str:
        """Whether coefficients and tests of the two columns estimate the real values well, in a few words.

        Noise moves a coefficient by about the same fraction as it moves the association.  Up to `NARROW`, the intervals
        of `Release.analyse` are mostly the sampling error of the rows.
        """
        if not self.measured:
            return "no: this relation was not measured"
        if self.partly:
            return "only for its linear part"
        narrow = self.high - self.low <= 2 * NARROW * self.association
        return (
            "yes, with the intervals of release.analyse"
            if narrow and self.low > 0
            else "yes, but its intervals are wide"
        )


@dataclass(frozen=True, eq=False)
class Evidence:
    """Statistics of a release's noisy answers about the relation of two columns.

    "Deviation" is the difference of a marginal from the marginal of independent columns.

    Parameters
    ----------
    size
        Sum of the squared measured deviation.
    mean, variance
        Mean and variance of ``size`` for independent columns, from noise and from chance among the rows.
    largest
        Largest variance of the deviation in any direction.
    weighted, error
        Weighted sum of the squared deviation in the real table, corrected for noise, and its standard error.
    shown
        Weighted sum of the squared deviation in the release's model.
    of_cells
        Whether the deviation is of a marginal; else it is of a mean product, which is a single number.
    whole
        Whether the deviation is of all cells of the model.
    high
        Lower limit for the upper end of `range`, with the weights of Cramér's V for cells of `LEAST_EXPECTED` rows or
        more.  In small cells the columns may be related more closely than noise allows anybody to see.
    """

    size: float
    mean: float
    variance: float
    largest: float
    weighted: float
    error: float
    shown: float
    of_cells: bool = True
    high: float = 0.0
    whole: bool = False

    def stands_out(self, tests: int) -> bool:
        """Return whether neither noise nor chance explains the deviation, corrected for a number of simultaneous tests.

        Let a be the sum of the squared weights of a sum of squares of normal numbers, and b the largest weight.  With a
        chance of at most exp(-x) the sum exceeds its mean by 2 sqrt(a x) + 2 b x (Laurent, Massart 2000, lemma 1).
        """
        x = math.log(tests / FALSE_LISTS)
        return self.size > self.mean + 2 * math.sqrt(self.variance / 2 * x) + 2 * self.largest * x

    def range(self) -> tuple[float, float]:
        """Return a 95 % interval for the deviation in the real table, as a ratio to the model's deviation."""
        low, high = (max(self.weighted + side * Z * self.error, 0.0) for side in (-1, 1))
        shown = max(self.shown, 1e-300)
        return math.sqrt(low / shown), max(math.sqrt(high / shown), self.high)


@dataclass(eq=False)
class Relations:
    """The significant relations of a release, found from its noisy answers.

    Parameters
    ----------
    model
        The release's synthetic model.
    measurements
        All noisy answers of the release.
    """

    model: SyntheticModel
    measurements: tuple[Measurements, ...]
    direct: GLSEstimates = field(init=False)
    evidence: dict[tuple[int, int], list[Evidence]] = field(init=False)

    def __post_init__(self) -> None:
        self.direct = answer_engine(self.model, self.measurements).direct
        self.evidence = {}
        self._of_effects()
        self._of_merged()
        self._of_products()

    def listed(self, names: Sequence[str], matrix: FloatArray) -> list[ShownRelation]:
        """Return the significant relations, the strongest first, with the relations that follow from them.

        A relation follows if it was not measured, but significant relations connect its columns.

        Parameters
        ----------
        names
            Names of k columns.
        matrix
            (k, k) associations of the columns in synthetic rows.
        """
        tests = max(1, sum(map(len, self.evidence.values())))
        places = dict(zip(names, self.model.domain.index(*names), strict=True))
        found: dict[frozenset[str], ShownRelation] = {}
        for (i, a), (j, b) in itertools.combinations(enumerate(names), 2):
            pair = (min(places[a], places[b]), max(places[a], places[b]))
            clear = [one for one in self.evidence.get(pair, []) if one.stands_out(tests)]
            value = float(matrix[i, j])
            if clear and value >= LEAST_ASSOCIATION:
                best = max(clear, key=lambda one: (one.of_cells, one.weighted / one.error))
                low, high = best.range()
                ends = min(value, value * low), min(1.0, max(value, value * high)) if best.whole else 1.0
                found[frozenset((a, b))] = ShownRelation(
                    columns=(a, b), association=value, low=ends[0], high=ends[1], partly=not best.whole
                )
        group = _connected(len(names), [(names.index(min(p)), names.index(max(p))) for p in found])
        for (i, a), (j, b) in itertools.combinations(enumerate(names), 2):
            pair = (min(places[a], places[b]), max(places[a], places[b]))
            if group[i] == group[j] and pair not in self.evidence and matrix[i, j] >= LEAST_ASSOCIATION:
                found[frozenset((a, b))] = ShownRelation(
                    columns=(a, b), association=float(matrix[i, j]), measured=False
                )
        return sorted(found.values(), key=lambda one: -one.association)

    @property
    def _total(self) -> float:
        """Estimated number of rows, at least 1, by which fractions of rows become counts."""
        return max(self.direct.total[0], 1.0)

    def _add(self, pair: tuple[int, int], evidence: Evidence) -> None:
        """Add evidence about a pair of columns, to be tested for a relation; a pair may have several."""
        self.evidence.setdefault(pair, []).append(evidence)

    def _shares(self, column: int) -> FloatArray:
        """Return the model's fractions of a column's releasable bins, (bins,), with sum 1: what independence gives."""
        shares = np.asarray(self.model.distribution.marginal((column,)))[self.direct.kept[column]]
        return np.asarray(shares / max(float(shares.sum()), 1e-300))

    def _joint(self, i: int, j: int) -> FloatArray:
        """Return the model's fractions of two columns' releasable cells, (bins of i, bins of j), with sum 1.

        The fractions say how strong a relation synthetic rows show.
        """
        shape = tuple(self.model.domain.shape[k] for k in (i, j))
        table = np.asarray(self.model.distribution.marginal((i, j))).reshape(shape)
        table = table[np.ix_(self.direct.kept[i], self.direct.kept[j])]
        return np.asarray(table / max(float(table.sum()), 1e-300))

    def _of_effects(self) -> None:
        """Add the evidence of measured two-column interactions over the model's bins; see `Evidence`."""
        effects = self.direct.effects
        for clique, values in effects.effects.items():
            if len(clique) == 2:
                i, j = clique
                shares = self._shares(i), self._shares(j)
                main = [1 / effects.precisions[(k,)] if (k,) in effects.precisions else math.inf for k in clique]
                shown = self._joint(i, j)
                found = deviation(values, 1 / effects.precisions[clique], shares, main, shown, self._total)
                self._add((i, j), replace(found, whole=True))

    def _of_merged(self) -> None:
        """Add the evidence of measured two-column marginals over merged bins; see `Evidence`."""
        direct = self.direct
        merged = [table for table in direct.merged if len(table.clique) == 2]
        for table in merged_in_domain(merged, direct.out_of_domain):
            i, j = table.clique
            shares = [
                np.asarray(np.bincount(groups, self._shares(k)), np.float64)
                for k, groups in zip(table.clique, table.groups or (), strict=True)
            ]
            counts = table.counts.reshape([len(one) for one in shares])
            shown = self._joint(i, j)
            for axis, groups in enumerate(table.groups or ()):
                starts = np.zeros((shown.shape[axis], len(shares[axis])))
                starts[np.arange(len(groups)), groups] = 1.0
                shown = np.tensordot(starts.T, shown, axes=(1, axis)) if axis == 0 else shown @ starts
            main = [math.inf, math.inf]  # counts of merged bins come from this marginal alone
            self._add(
                (i, j), deviation(centred(counts), table.stddev**2, (shares[0], shares[1]), main, shown, self._total)
            )

    def _of_products(self) -> None:
        """Add the evidence of measured mean products of two columns' scores, which show a linear part of a relation.

        The deviation is one number: the measured mean product less the product of the model's means, which independent
        columns would have.  Its variance is the noise, and chance: the product of the scores' variances over the rows.
        """
        total = max(self.direct.total[0], 1.0)
        for measured in self.direct.products:
            scores = [np.asarray(one) / measured.queries.resolution for one in measured.queries.scores]
            shares = [np.asarray(self.model.distribution.marginal((column,))) for column in measured.columns]
            means = [float(one @ share) for one, share in zip(scores, shares, strict=True)]
            spread = [
                max(float(one**2 @ share) - mean**2, 0.0)
                for one, share, mean in zip(scores, shares, means, strict=True)
            ]
            left, right = (np.asarray(side, np.int64) for side in measured.queries.pairs)
            for a, b, value in zip(_plain(left), _plain(right), measured.means.tolist(), strict=True):
                i, j = measured.columns[a], measured.columns[b]
                noise = measured.stddev**2
                variance = noise + spread[a] * spread[b] / total
                size = (float(value) - means[a] * means[b]) ** 2
                low, high = sorted(((i, a), (j, b)))
                shape = tuple(self.model.domain.shape[k] for k in (low[0], high[0]))
                joint = np.asarray(self.model.distribution.marginal((low[0], high[0]))).reshape(shape)
                # products of rows were clipped before they were summed
                each = measured.queries.clipped_alone(np.outer(scores[low[1]], scores[high[1]]))
                shown = float((each * joint).sum()) - means[a] * means[b]
                evidence = Evidence(
                    size=size, mean=variance, variance=2 * variance**2, largest=variance, shown=shown**2,
                    weighted=size - noise, error=math.sqrt(2 * noise**2 + 4 * noise * size),
                    of_cells=False,
                )  # fmt: skip
                self._add((low[0], high[0]), evidence)


def deviation(
    values: FloatArray,
    noise: float,
    shares: tuple[FloatArray, FloatArray],
    main: Sequence[float],
    joint: FloatArray,
    total: float,
) -> Evidence:
    """Return the evidence about two columns from a centred marginal, (a, b) ``values``, in rows.

    ``noise`` is the variance of a value.  ``joint`` are the model's fractions of the cells, and ``shares`` of each
    column alone.  ``main`` are the noise variances of the columns' own counts, infinite where a column's counts are
    known from the marginal alone.  For independent columns the marginal is total * p q'. The rest is noise, projected on
    the centred marginals, and chance among the rows.  Chance has covariance total * (diag p - p p') x (diag q - q q').
    """
    p, q = shares
    of_p, of_q = (min(one, noise * len(other)) for one, other in zip(main, (q, p), strict=True))
    noise = noise + of_p * float(q.max()) ** 2 + of_q * float(p.max()) ** 2
    deviation = values.reshape(len(p), len(q)) - total * np.outer(p - p.mean(), q - q.mean())
    free = max(1, (len(p) - 1) * (len(q) - 1))
    traces = [1 - float(one @ one) for one in shares]
    squares = [float(one @ one) - 2 * float((one**3).sum()) + float(one @ one) ** 2 for one in shares]
    chance, both = total * math.prod(traces), total**2 * math.prod(squares)
    shown = total * (joint - np.outer(joint.sum(axis=1), joint.sum(axis=0)))
    # the weights of Cramér's V; a cell of fewer rows than the noise stddev is weighted as if it had that many
    weights = 1 / np.maximum(total * np.outer(p, q), math.sqrt(noise))
    squares_alone = deviation**2 - noise * free / deviation.size
    error = 2 * noise**2 * weights**2 + 4 * noise * weights**2 * np.maximum(squares_alone, 0.0)
    plain = 1 / np.maximum(total * np.outer(p, q), LEAST_EXPECTED)
    plain_error = 2 * noise**2 * plain**2 + 4 * noise * plain**2 * np.maximum(squares_alone, 0.0)
    largest_plain = float((plain * squares_alone).sum()) + Z * math.sqrt(float(plain_error.sum()))
    return Evidence(
        size=float((deviation**2).sum()), weighted=float((weights * squares_alone).sum()),
        error=math.sqrt(float(error.sum())), shown=float((weights * shown**2).sum()), mean=free * noise + chance,
        variance=2 * (free * noise**2 + 2 * noise * chance + both),
        largest=noise + total * float(p.max()) * float(q.max()),
        high=math.sqrt(max(largest_plain, 0.0) / max(float((plain * shown**2).sum()), 1e-300)),
    )  # fmt: skip


def centred(table: FloatArray) -> FloatArray:
    """Return a marginal of two columns without the means of its rows and columns: the interaction alone."""
    return np.asarray(table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean())


def _plain(places: IntArray) -> list[int]:
    """Return an array as a list of ints, to be used as indices and dict keys."""
    return [int(place) for place in places]


def _connected(size: int, pairs: Sequence[tuple[int, int]]) -> list[int]:
    """Return each column's connected component, named by its smallest column; ``pairs`` are the edges.

    Columns of one component may be related through others, though their pair was not measured.  There are ``size``
    columns, numbered from 0.
    """
    group = list(range(size))
    for a, b in pairs:
        low, high = sorted((group[a], group[b]))
        group = [low if one == high else one for one in group]
    return group


def associations(model: SyntheticModel, indices: Mapping[str, GridIndices]) -> tuple[list[str], FloatArray]:
    """Return the columns without identifiers, and their pairwise associations in synthetic rows, (k, k).

    The association is Cramér's V with Bergsma's correction.
    """
    kept = [axis for axis in model.domain.axes if not model.schema[axis.name].names_rows]
    codes = [axis.cells_of(indices[axis.name]).astype(np.int64) for axis in kept]
    matrix = np.eye(len(kept))
    for a, b in itertools.combinations(range(len(kept)), 2):
        shape = (kept[a].size, kept[b].size)
        table = np.bincount(codes[a] * shape[1] + codes[b], minlength=shape[0] * shape[1]).reshape(shape)
        matrix[a, b] = matrix[b, a] = cramers_v(table)
    return [axis.name for axis in kept], matrix


def cramers_v(table: IntArray) -> float:
    """Return Cramér's V of two columns from their counts, 0 to 1, corrected for chance (Bergsma 2013)."""
    of_rows, of_columns = table.sum(axis=1), table.sum(axis=0)
    rows, columns = np.count_nonzero(of_rows), np.count_nonzero(of_columns)
    n = float(of_rows.sum())
    if min(rows, columns) < 2:
        return 0.0
    expected = np.outer(of_rows, of_columns) / n
    difference = np.divide((table - expected) ** 2, expected, out=np.zeros(table.shape), where=expected > 0)
    phi = max(0.0, float(difference.sum()) / n - (rows - 1) * (columns - 1) / (n - 1))
    smaller = min(rows - (rows - 1) ** 2 / (n - 1), columns - (columns - 1) ** 2 / (n - 1)) - 1
    return min(1.0, math.sqrt(phi / smaller)) if smaller > 0 else 0.0  # as many groups as rows say nothing
