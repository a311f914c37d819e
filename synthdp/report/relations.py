"""Which relations of two columns a release shows, and how accurate each column is: from noisy answers alone.

A relation that noise or chance explains is none: it is not listed, whatever the synthetic rows show.  Knows no row.
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
from synthdp.pictures.column_views import drawn_indices
from synthdp.queries.products import PairProducts
from synthdp.release import Release
from synthdp.report.verdicts import ColumnVerdict, column_verdicts
from synthdp.sampling.synthetic_model import SyntheticModel

FALSE_LISTS = 1e-3
"""Chance that a release of independent columns lists a relation: a tolerance, a tenth of one release in a hundred."""

LEAST_ASSOCIATION = 0.05
"""Cramér's V below which a relation is not listed: there is nothing to see in a picture.  A tolerance."""

Z = 1.96
"""Standard errors on each side of a 95 % interval: a quantile of the normal law.  A convention."""

LEAST_EXPECTED = 5.0
"""Rows expected in a cell, below which it counts as if it had this many, as in the usual rule for tests of independence.
A convention."""

NARROW = 0.2
"""Tolerance: half of the interval of an association, as a part of it, up to which it is called good enough for inference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRelation:
    """Two columns that go together.

    Parameters
    ----------
    columns
        Their names.
    association
        Cramér's V in synthetic rows, from 0 to 1.
    low, high
        A 95 % interval for the association in the real table: the model's deviation from independent columns is taken to
        have the right shape, and noise decides its size.  ``nan`` where the relation was not measured by itself.  Where
        only a part of it was measured, a mean product or a table over merged cells, the rest may add to it: ``high`` is 1.
    measured
        Whether noisy answers are about these two columns; else it follows from relations that were measured.
    partly
        Whether a part of the relation alone was measured: its straight part, or that over merged cells.
    """

    columns: tuple[str, str]
    association: float
    low: float = math.nan
    high: float = math.nan
    measured: bool = True
    partly: bool = False

    def in_words(self) -> str:
        """Return the association with its interval, or that it follows from others."""
        if not self.measured:
            return f"about {self.association:.2f}, implied by other relations"
        if self.partly:
            return f"{self.association:.2f} (at least {self.low:.2f})"
        return f"{self.association:.2f} ({self.low:.2f} to {self.high:.2f})"

    @property
    def for_inference(self) -> str:
        """Whether coefficients and tests of the two columns say much about the real ones, in a few words.

        Noise moves a coefficient by about as much of it as it moves the association: up to `NARROW` the intervals of
        `Release.analyse` are mostly the sampling error of the rows.
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
    """What the noisy answers of a release say of the relation of two columns.

    Parameters
    ----------
    size
        Squared size of the deviation from independent columns, as it was measured.
    mean, variance
        Of that size, if the columns were independent: by noise, and by chance among the rows.
    largest
        The largest variance of the deviation in any direction.
    weighted, error
        The weighted squared deviation in the real table, without what noise adds to it, and its standard error.
    shown
        The same of the release's model.
    of_cells
        Whether it is of a table; a mean product is of one direction, and of clipped rows.
    whole
        Whether it is of all cells of the model.
    high
        Upper end of the deviation in the real table over the model's, with the weights of Cramér's V for cells of
        `LEAST_EXPECTED` rows and more: few rows may go together more closely than noise lets anybody see.
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
        """Say whether neither noise nor chance explains it, among a number of tests.

        A weighted sum of squares of normal numbers is above its mean plus 2 sqrt(a x) + 2 b x with a chance of at most
        exp(-x), where a is the sum of the squared weights and b the largest one (Laurent, Massart 2000, lemma 1).
        """
        x = math.log(tests / FALSE_LISTS)
        return self.size > self.mean + 2 * math.sqrt(self.variance / 2 * x) + 2 * self.largest * x

    def range(self) -> tuple[float, float]:
        """Return the deviation in the real table over the model's: the ends of an interval."""
        low, high = (max(self.weighted + side * Z * self.error, 0.0) for side in (-1, 1))
        shown = max(self.shown, 1e-300)
        return math.sqrt(low / shown), max(math.sqrt(high / shown), self.high)


@dataclass(eq=False)
class Relations:
    """The relations of a release, judged by its noisy answers.

    Parameters
    ----------
    model
        What comes out.
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
        """Return the relations that neither noise nor chance explains, the strongest first.

        Parameters
        ----------
        names
            Of k columns.
        matrix
            (k, k) their associations in synthetic rows.
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

    def columns(self) -> list[ColumnVerdict]:
        """Return a verdict on every column, in order."""
        return column_verdicts(self.direct)

    @property
    def _total(self) -> float:
        """Return the number of rows, at least 1."""
        return max(self.direct.total[0], 1.0)

    def _add(self, pair: tuple[int, int], evidence: Evidence) -> None:
        """Add evidence about a pair of columns."""
        self.evidence.setdefault(pair, []).append(evidence)

    def _shares(self, column: int) -> FloatArray:
        """Return the shares of a column's cells that a released row may have."""
        shares = np.asarray(self.model.distribution.marginal((column,)))[self.direct.kept[column]]
        return np.asarray(shares / max(float(shares.sum()), 1e-300))

    def _joint(self, i: int, j: int) -> FloatArray:
        """Return the shares of the cells of two columns in the model, i < j, of cells that a released row may have."""
        shape = tuple(self.model.domain.shape[k] for k in (i, j))
        table = np.asarray(self.model.distribution.marginal((i, j))).reshape(shape)
        table = table[np.ix_(self.direct.kept[i], self.direct.kept[j])]
        return np.asarray(table / max(float(table.sum()), 1e-300))

    def _of_effects(self) -> None:
        """Take the interactions of two columns over the model's cells."""
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
        """Take the tables of two columns over merged cells."""
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
            main = [math.inf, math.inf]
            self._add(
                (i, j), deviation(centred(counts), table.stddev**2, (shares[0], shares[1]), main, shown, self._total)
            )

    def _of_products(self) -> None:
        """Take the mean products of the scores of two columns."""
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
                each = np.outer(scores[low[1]], scores[high[1]])
                if isinstance(measured.queries, PairProducts):
                    most = measured.queries.most / measured.queries.denominator
                    each = np.clip(each, -most, most)
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
    """Return what a centred table of two columns says: (a, b) values with noise of this variance.

    In the model, ``joint`` are the shares of its cells; ``main`` are the variances of the two columns' own counts.
    Of independent columns the table is total * p q'.  What is beyond is noise, projected on the centred tables,
    and what chance adds among these rows, of covariance total * (diag p - p p') x (diag q - q q').
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
    # as in Cramér's V, but for cells of which noise is all that there is
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


def judged(release: Release[SyntheticModel]) -> tuple[list[ColumnVerdict], list[ShownRelation]]:
    """Return a verdict on every column of a release, and the relations that neither noise nor chance explains."""
    found = Relations(release.output, release.measurements)
    return found.columns(), found.listed(*associations(release.output, drawn_indices(release.output)))


def centred(table: FloatArray) -> FloatArray:
    """Return a table without the means of its rows and columns."""
    return np.asarray(table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean())


def _plain(places: IntArray) -> list[int]:
    """Return an array as a list of ints."""
    return [int(place) for place in places]


def _connected(size: int, pairs: Sequence[tuple[int, int]]) -> list[int]:
    """Return for each of some columns the least one that it is connected with."""
    group = list(range(size))
    for a, b in pairs:
        low, high = sorted((group[a], group[b]))
        group = [low if one == high else one for one in group]
    return group


def associations(model: SyntheticModel, indices: Mapping[str, GridIndices]) -> tuple[list[str], FloatArray]:
    """Return the columns and how closely each two go together in synthetic rows: Cramér's V with Bergsma's correction."""
    kept = [axis for axis in model.domain.axes if not model.schema[axis.name].names_rows]
    codes = [axis.cells_of(indices[axis.name]).astype(np.int64) for axis in kept]
    matrix = np.eye(len(kept))
    for a, b in itertools.combinations(range(len(kept)), 2):
        shape = (kept[a].size, kept[b].size)
        table = np.bincount(codes[a] * shape[1] + codes[b], minlength=shape[0] * shape[1]).reshape(shape)
        matrix[a, b] = matrix[b, a] = cramers_v(table)
    return [axis.name for axis in kept], matrix


def cramers_v(table: IntArray) -> float:
    """Return the association of two columns from their table of counts, from 0 to 1; corrected for chance (Bergsma 2013)."""
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
