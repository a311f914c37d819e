"""Marginals through the Fourier domain (Barak, Chaudhuri, Dwork, Kale, McSherry, Talwar 2007).

Noise is added once to each parity that the workload needs; a linear program then finds a non-negative table whose
parities are close to the noisy ones, so that all released marginals are consistent.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammainccinv

from synthdp.answers.answers import Answers as Answered
from synthdp.arrays import Answers, BoolArray, Clique, Codes, Features, FloatArray, IntArray, Totals, Weights
from synthdp.codec import file_form
from synthdp.curator import Curator
from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain, check_size, releasable_domain, universe
from synthdp.errors import ParameterError
from synthdp.fit.explicit.problem import FitProblem
from synthdp.fit.explicit.registry import ready, solved, solver_named
from synthdp.fit.explicit.solver import FitResult
from synthdp.fit.out_of_domain import OutOfDomain
from synthdp.measurements import Measurements, NoiseLaw
from synthdp.mechanisms.cell_model import CellModel, check_listed
from synthdp.mechanisms.mechanism import HasPrivacyCost, left_out
from synthdp.mechanisms.preflight import salvaged
from synthdp.mechanisms.workload import WorkloadSpec, marginals_on, tables_of
from synthdp.privacy.budget import COUNT_SHARE
from synthdp.privacy.loss import ApproxDP, Remaining, Spend
from synthdp.queries.contingency import NoisyTable
from synthdp.queries.linear import LinearFamily, sum_features
from synthdp.queries.marginals import Marginals
from synthdp.queries.norms import Norms, RecordBounds, whole_numbers
from synthdp.queries.products import ProductSums
from synthdp.queries.protocol import LinearQueries
from synthdp.randomness import RandomState
from synthdp.release import Release
from synthdp.sampling.synthetic_model import DrawnFromModel, SyntheticModel
from synthdp.schema.schema import Schema
from synthdp.works.polynomials.parities import walsh_hadamard

MAX_TABLE_BITS = 20
"""Most bits at which one transform of a histogram computes all parities and the exact swap bound. A safety limit of
memory: 2^20 cells."""


@file_form("CellParities")
@dataclass(frozen=True, slots=True, eq=False)
class CellParities(LinearFamily):
    """Sums over rows of (-1)^(number of 1s of the row's bits within a mask).

    A cell's number is written in bits. A row that is out of domain in a column has no bits there: it counts 0 in every
    parity that uses bits of the column.

    Parameters
    ----------
    domain
        The axes. Axis j takes the next ceil(log2(number of releasable cells)) bits, and axis 0 the highest.
    masks
        (k,) different sets of bits as whole numbers; mask 0 counts the rows.
    """

    domain: Domain
    masks: IntArray

    def __post_init__(self) -> None:
        masks = whole_numbers("masks", self.masks)
        if self.bits > 62:
            raise ParameterError(
                f"the cells need {self.bits} bits, more than 62: use fewer columns, or columns with fewer cells"
            )
        if not masks.size or masks.min() < 0 or masks.max() >> self.bits or len(np.unique(masks)) < len(masks):
            raise ParameterError(
                f"masks must hold at least one whole number from 0 to 2**{self.bits} - 1, each number once"
            )
        object.__setattr__(self, "masks", masks)

    @property
    def bits(self) -> int:
        """Return the number of bits of all axes together."""
        return sum(widths(self.domain))

    @property
    def k(self) -> int:
        """Return the number of parities."""
        return len(self.masks)

    @property
    def bounds(self) -> RecordBounds:
        """Return the sensitivity: exact up to `MAX_TABLE_BITS` bits, else an upper bound for a replaced record.

        Every parity of one record is +1, -1 or 0. Replacing a record changes by 2 the parities that are odd on the set
        f of bits that differ. The number of masks that are odd on f is (k - sum over masks of (-1)^|mask & f|) / 2. A
        transform of the masks' indicator gives this number for every f, and its maximum the exact bound.

        An out-of-domain record changes no more.  Each parity that uses a column where the record is out of domain changes
        by 1.  For a record in domain it changes by 2 on half of all f of that column, and by 0 on the others.
        """
        k, odd = self.k, self.k
        if self.bits <= MAX_TABLE_BITS:
            chosen = np.zeros(1 << self.bits, np.int64)
            chosen[self.masks] = 1
            odd = int((k - walsh_hadamard(chosen).min()) // 2)
        return RecordBounds(Norms(k, k, 1), Norms(2 * odd, 4 * odd, 2 if odd else 0))

    def features(self, codes: Codes) -> Features:
        """Return the parities of each row, (n, k): +1 or -1, and 0 where a mask has a column that is out of domain."""
        odd = np.bitwise_count(self.words(codes)[:, None] & self.masks) & 1
        fits = (self._missing(codes)[:, None] & self.masks) == 0
        return np.asarray((1 - 2 * odd.astype(np.int64)) * fits, np.int64)

    def sums(self, codes: Codes) -> Totals:
        """Return the exact sums of the parities over rows, (k,)."""
        if self.bits > MAX_TABLE_BITS:
            return sum_features(self, codes)
        fits = self._missing(codes) == 0
        counts = np.bincount(self.words(codes)[fits], minlength=1 << self.bits)
        found = np.asarray(walsh_hadamard(counts)[self.masks], np.int64)
        return found if fits.all() else found + sum_features(self, codes[~fits])

    def words(self, codes: Codes) -> IntArray:
        """Return the bits of each row as one whole number, (n,), from which parities are computed.

        Bits of an out-of-domain column are 0.
        """
        words = np.zeros(len(codes), np.int64)
        for j, (axis, width) in enumerate(zip(self.domain.axes, widths(self.domain), strict=True)):
            words <<= width
            words |= np.maximum(np.cumsum(axis.releasable) - 1, 0)[codes[:, j]] * axis.releasable[codes[:, j]]
        return words

    def sums_of(
        self, names: Sequence[str], answers: Answers, stddev: float, *, rows: tuple[float, float]
    ) -> ProductSums | None:
        """Return the noisy sums of products of some columns' characters, from which their table is computed.

        ``rows`` is the number of rows and its standard deviation, for parity 0 where it is not measured. Return
        ``None`` if another parity of these columns is not measured; see `TellsTables`.
        """
        if not set(names) <= set(self.domain.names):
            return None
        columns = self.domain.index(*names)
        wanted = masks_below(self.domain, columns)
        order = np.argsort(self.masks, kind="stable")
        place = np.minimum(np.searchsorted(self.masks, wanted, sorter=order), self.k - 1)
        there = self.masks[order[place]] == wanted
        if not there[wanted != 0].all():
            return None
        values = np.where(there, answers[order[place]], rows[0])
        variance = np.where(there, stddev**2, rows[1] ** 2)
        axes = tuple(self.domain.axes[j] for j in columns)
        shape = [1 << widths(self.domain)[j] for j in columns]
        return ProductSums(
            axes=axes,
            features=tuple(_signs(axis) for axis in axes),
            values=values.reshape(shape),
            variance=variance.reshape(shape),
        )

    def _missing(self, codes: Codes) -> IntArray:
        """Return the bits that each row lacks because it is out of domain there, as one whole number, (n,).

        A parity that contains one of them is 0 for the row.
        """
        words = np.zeros(len(codes), np.int64)
        for j, (axis, width) in enumerate(zip(self.domain.axes, widths(self.domain), strict=True)):
            words <<= width
            words |= np.where(axis.releasable[codes[:, j]], 0, (1 << width) - 1)
        return words


def _signs(axis: Axis) -> FloatArray:
    """Return the characters of one axis by mask and cell, (2^bits, cells): +1 or -1, and 0 in out-of-domain cells.

    Characters turn noisy parities into the table of some columns; see `CellParities.sums_of`.
    """
    codes = np.maximum(np.cumsum(axis.releasable) - 1, 0)
    masks = np.arange(1 << int(axis.releasable.sum() - 1).bit_length())
    odd = np.bitwise_count(masks[:, None] & codes) & 1
    return np.asarray((1.0 - 2.0 * odd) * axis.releasable)


def widths(domain: Domain) -> tuple[int, ...]:
    """Return the number of bits of each axis, in which its releasable cells are numbered; 0 for one cell."""
    return tuple((int(axis.releasable.sum()) - 1).bit_length() for axis in domain.axes)


def masks_below(domain: Domain, clique: Clique) -> IntArray:
    """Return all sets of bits of some columns, (2^bits,); mask i contains the bits of i, in the columns' own order.

    These are the parities that determine the columns' table.
    """
    width = widths(domain)
    ends = np.cumsum(width[::-1])[::-1]  # axis j occupies the bits from ends[j] - width[j] up to ends[j]
    places: list[int] = []  # from the highest bit to the lowest
    for j in clique:
        places.extend(range(int(ends[j]) - 1, int(ends[j]) - width[j] - 1, -1))
    masks = np.zeros(1 << len(places), np.int64)
    index = np.arange(len(masks))
    for i, place in enumerate(reversed(places)):
        masks |= (index >> i & 1) << place
    return masks


def closure(domain: Domain, cliques: Iterable[Clique]) -> IntArray:
    """Return the masks of all parities that determine some cliques' tables, (parities,), sorted, each once; first mask 0.

    `FourierMarginals` measures exactly these parities. It leaves out mask 0, which counts the rows, where their number
    is public.
    """
    return np.unique(np.concatenate([masks_below(domain, clique) for clique in cliques]))


def table_of(domain: Domain, clique: Clique, parities: FloatArray) -> FloatArray:
    """Return the counts of a table, (cells,) in C order, from its parities in the order of `masks_below`.

    All cells of the domain must be releasable. The transform inverts itself up to the factor 2^bits.
    """
    counts = walsh_hadamard(np.asarray(parities, np.float64)) / len(parities)
    width = widths(domain)
    kept = np.zeros(1, np.int64)
    for j in clique:
        kept = ((kept[:, None] << width[j]) + np.arange(int(domain.axes[j].releasable.sum()))).ravel()
    return np.asarray(counts[kept], np.float64)


LEAST_MARGIN = 1e-6
"""Least weight of a column's value in the weights that the fit starts from, because a weight of 0 could not grow. A
numerical tolerance."""


MAX_ENTRIES = 2**26
"""Most entries (parities times cells) of the linear program's matrix. A safety limit of memory: 512 MiB of 64-bit
numbers."""


@file_form("FourierTable")
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FourierTable(DrawnFromModel):
    """A consistent table as weights on cells, and the noisy parities that it was fitted to.

    Parameters
    ----------
    table
        The table: weights on cells.
    parities
        The noisy parities.
    answers
        (k,) the noisy parities, scaled up to all rows for rows that are out of domain.
    fit
        The outcome of the fit.
    """

    table: CellModel
    parities: Measurements
    answers: Answers
    fit: FitResult

    @property
    def model(self) -> SyntheticModel:
        """Return the model that draws rows of the table."""
        return self.table.model

    def answered(self, question: Any, measurements: Sequence[Measurements] = ()) -> Answered:
        """Answer a question in the form of every release; see `Release.answer`.

        Noisy parities answer it where they determine the answer, and the fitted table elsewhere.
        """
        return self.table.answered(question, measurements)

    def answer(self, queries: LinearQueries | WorkloadSpec) -> Answers:
        """Return the (k,) sums of queries, or of marginals by name, over the fitted table; see `CellModel.answer`."""
        return self.table.answer(queries)

    def unbiased(self, workload: Marginals | WorkloadSpec) -> Answers:
        """Return the unbiased counts of tables, (cells,), straight from the noisy parities.

        The counts of different tables are inconsistent, and may be negative.

        Raises
        ------
        ParameterError
            If a table needs a parity that was not released.
        """
        known, workload = self._by_mask(), marginals_on(workload, self.model.schema, self.table.domain)
        tables = []
        for clique in workload.cliques:
            masks = masks_below(self.table.domain, clique).tolist()
            if not all(mask in known for mask in masks):
                raise ParameterError(
                    "the columns of each marginal of workload must all be in one marginal that was released"
                )
            tables.append(table_of(self.table.domain, clique, np.array([known[mask] for mask in masks])))
        return np.concatenate(tables)

    def stddev(self, workload: Marginals | WorkloadSpec) -> FloatArray:
        """Return the noise stddev of each count of `unbiased`, (cells,), in rows.

        It is the root of the sum of the squared noise of the table's P parities, divided by P. A parity that is scaled
        up for out-of-domain rows has its noise scaled up; the public number of rows has none. The noise of the factors
        themselves, which come from counts of in-domain rows, is left out.
        """
        workload = marginals_on(workload, self.model.schema, self.table.domain)
        noisy, scaled = self.parities.answers, self.answers
        there = noisy != 0  # a parity of 0 does not tell its factor: the largest one of the others is taken
        factors = np.full(len(noisy), max((scaled[there] / noisy[there]).max(initial=1.0), 1.0))
        factors[there] = scaled[there] / noisy[there]
        noise = dict(zip(self._measured_masks().tolist(), (self.parities.stddev * factors).tolist(), strict=True))
        spreads = []
        for clique, size in zip(workload.cliques, workload.sizes, strict=True):
            masks = masks_below(self.table.domain, clique).tolist()
            spreads.append(np.full(size, math.hypot(*(noise.get(mask, 0.0) for mask in masks)) / len(masks)))
        return np.concatenate(spreads)

    def _measured_masks(self) -> IntArray:
        """Return the masks of the measured parities, (k,), by which the parities of a table are found."""
        return self.parities.asked(CellParities).masks

    def _by_mask(self) -> dict[int, float]:
        """Return `answers` (parities scaled up to all rows) by their masks; mask 0 has the number of rows."""
        values = dict(zip(self._measured_masks().tolist(), self.answers.tolist(), strict=True))
        return {0: self.table.total} | values


@dataclass(frozen=True, slots=True)
class FourierMarginals(HasPrivacyCost):
    """Release all tables of a workload through their noisy parities, as one consistent table.

    Costs ``spend``, for the curator's neighbours. Where columns can be out of domain, `COUNT_SHARE` of it counts the
    in-domain rows, since no parity determines their number.

    Parameters
    ----------
    workload
        The tables: sets of column names, marginals, or `Marginals` over a domain; its cells must be few enough to list.
        Default: all pairs of columns.
    law
        Law of the noise on the parities; default: the least for the loss.  The paper's is `NoiseLaw.LAPLACE`.
    solver
        Name of the solver that finds the table: ``"lp"``, ``"mw"``, ``"auto"``, or ``"sifting"`` for the paper's bare
        program.
    spend
        Privacy loss that a release may cost.

    Raises
    ------
    ParameterError
        If the workload is not a set of tables.
    """

    workload: WorkloadSpec | None = None
    law: NoiseLaw | None = None
    solver: str = "auto"
    spend: Spend = Remaining()

    def __post_init__(self) -> None:
        if isinstance(self.workload, Marginals):
            _check_size(self.workload)
        elif isinstance(self.workload, (str, LinearQueries)):
            raise ParameterError(
                "workload must be Marginals, or marginals by name, because other queries would need too many parities"
            )
        solver_named(self.solver)

    def output_schema(self, schema: Schema) -> Schema:
        """Return the schema of the workload's columns, which are the columns of the released table.

        Raises
        ------
        ParameterError
            If the parities times the cells are too many for the linear program.
        """
        return self._listed(schema)[1]

    def _listed(self, schema: Schema) -> tuple[Marginals, Schema]:
        """Return the tables to release, and the schema of the output; raise ParameterError if they are too large."""
        workload = tables_of(self.workload, schema)
        output = check_listed(workload, schema)
        _check_size(workload)
        return workload, output

    @salvaged()
    def release(self, curator: Curator, *, random_state: RandomState = None) -> Release[FourierTable]:  # noqa: ARG002
        """Measure the parities, fit a table to them, and return both.

        Costs ``spend``, for the curator's neighbours.
        """
        workload, output_schema = self._listed(curator.schema)
        loss = curator.cost(self.spend)
        domain = releasable_domain(workload.domain)
        masks = closure(domain, workload.cliques)
        public = curator.adjacency.rows_are_public
        queries = CellParities(workload.domain, masks[1:] if public else masks)  # parity 0 is the number of rows
        curator.check(queries, spend=loss)
        ready(self.solver)
        account = curator.open_account(loss, currency=ApproxDP)
        fitting = self._rows_that_fit(account, workload)
        measured = account.measure(queries, law=self.law, step="parities")
        total = float(max(1, curator.rows)) if public else max(1.0, float(measured.answers[0]))
        scale = np.ones(queries.k)
        for found in fitting:
            scale *= _scales(queries, found.tables, [_fits(axis).releasable for axis in workload.domain.axes], total)
        cells = universe(domain)
        fit = self._fit(CellParities(domain, masks[1:]), measured, scale, total)
        model = CellModel.of(curator.schema, domain, cells, fit.weights, total=total)
        output = FourierTable(table=model, parities=measured, answers=measured.answers * scale, fit=fit)
        return Release(
            mechanism=type(self).__name__,
            output=output,
            loss=loss,
            receipt=curator.receipt(
                notes=(
                    *left_out(curator.schema, output_schema),
                    *model.model.notes,
                    f"fit over {len(cells)} cells {fit}",
                )
            ),
            measurements=(*fitting, measured),
        )

    def _rows_that_fit(self, account: Curator, workload: Marginals) -> tuple[Measurements, ...]:
        """Return noisy counts of in-domain rows for the columns of each table; empty if no column can be out of domain.

        Costs `COUNT_SHARE` of the account's budget, for the curator's neighbours, or nothing.
        """
        if all(axis.releasable.all() for axis in workload.domain.axes):
            return ()
        axes = [_fits(axis) for axis in workload.domain.axes]
        asked = [
            clique
            for clique in dict.fromkeys(tuple(sorted(clique)) for clique in workload.cliques)
            if any(axes[j].size > 1 for j in clique)
        ]
        tables = Marginals(Domain(tuple(axes)), tuple(asked))
        share = account.budget.fraction(COUNT_SHARE)
        return (account.measure(tables, spend=share, step="values that fit the schema"),)

    def _fit(self, queries: CellParities, measured: Measurements, scale: FloatArray, total: float) -> FitResult:
        """Return weights of all cells fitted to the noisy parities, by the chosen solver of the L1 program.

        ``scale``, (k,), is the factor from each parity to its value if all rows were in domain, see `_scales`;
        ``total`` is the number of rows.
        """
        cells, scale = universe(queries.domain), scale[-queries.k :]
        averages = measured.answers[-queries.k :] / total * scale
        problem = FitProblem.of_noisy(
            queries.features(cells).T.astype(np.float64),
            averages,
            measured.stddev / total * scale,
            prior=_independent(queries, averages, cells),
        )
        return solved(problem, self.solver)


def _independent(queries: CellParities, averages: Answers, cells: Codes) -> Weights:
    """Return the weights of cells, (cells,) with sum 1, if columns were independent; the fit starts from them.

    Weights are products of the noisy margins of single columns.
    """
    known = {0: 1.0} | dict(zip(queries.masks.tolist(), averages.tolist(), strict=True))
    weights = np.ones(len(cells))
    for j in range(len(queries.domain)):
        masks = masks_below(queries.domain, (j,)).tolist()
        if all(mask in known for mask in masks):
            shares = table_of(queries.domain, (j,), np.array([known[mask] for mask in masks]))
            weights *= np.maximum(shares, LEAST_MARGIN)[cells[:, j]]
    return np.asarray(weights / weights.sum())


def _fits(axis: Axis) -> Axis:
    """Return the axis with one cell for all in-domain values and, if a value can be out of domain, a second cell.

    A table of these axes counts how many rows are in domain, by which parities are scaled.
    """
    hidden = axis.grid.hidden
    starts = np.array([0] if hidden is None else [0, hidden])
    return Axis(axis.name, axis.column, starts, np.arange(len(starts)))


def _scales(
    queries: CellParities, found: Sequence[NoisyTable], releasable: Sequence[BoolArray], total: float
) -> FloatArray:
    """Return the factor from each parity to its value if all rows were in domain, (k,).

    Out-of-domain rows are assumed to be distributed like the others.  Tables of the release then count all rows.  The
    factor is 1 for parities of columns without out-of-domain rows.
    """
    outside = OutOfDomain.estimated(found, releasable, total=total)
    rows: dict[Clique, float] = {}
    for table in found:
        for size in range(1, len(table.clique) + 1):
            for part in itertools.combinations(table.clique, size):
                rows.setdefault(part, outside.rows_in_domain(table, part))
    ends = np.cumsum(widths(queries.domain)[::-1])[::-1]
    scale = np.ones(queries.k)
    for i, mask in enumerate(queries.masks.tolist()):
        bits = zip(ends.tolist(), widths(queries.domain), strict=True)
        touched = tuple(j for j, (end, width) in enumerate(bits) if mask >> (end - width) & ((1 << width) - 1))
        struck = tuple(j for j in touched if outside.rows[j] > 0)
        scale[i] = total / rows[struck] if struck else 1.0
    return scale


def _check_size(workload: Marginals) -> None:
    """Raise ParameterError unless there is a parity to measure, and the linear program's matrix is not too large."""
    cells, parities = check_size(workload.domain), len(closure(workload.domain, workload.cliques))
    if parities < 2:
        raise ParameterError("workload must have at least one marginal with two or more cells")
    if cells * parities > MAX_ENTRIES:
        raise ParameterError(
            f"{parities} parities of {cells} cells exceed the limit of {MAX_ENTRIES} entries: use fewer columns, "
            "smaller marginals, or ParityRelease"
        )


def fourier_bound(workload: Marginals, *, epsilon: float, beta: float, public_rows: bool = True) -> FloatArray:
    """Return a bound on the error of each count of the paper's mechanism with probability 1 - beta; (k,), in rows.

    The bound is for Laplace noise on the R parities and the table whose largest parity error is least. The noise stays
    below t = (s / epsilon) ln(R / beta), with s its L1 sensitivity. So does the distance of the best table's parities
    from the noisy ones, hence its parities are within 2t of the truth. A count is an average of parities with signs, so
    it is within 2t too.

    (Barak et al., Theorem 7, sum the error over the 2^|a| cells of a table and add |B| for rounding to whole counts.)

    Parameters
    ----------
    workload
        The tables.
    epsilon
        A pure epsilon.
    beta
        Probability that some count is off by more.
    public_rows
        Neighbours replace a record, rather than add or remove one.
    """
    queries, scale = _paper_noise(workload, epsilon=epsilon, beta=beta, public_rows=public_rows)
    return np.full(workload.k, 2 * scale * math.log(queries.k / beta))


def l1_program_bound(workload: Marginals, *, epsilon: float, beta: float, public_rows: bool = True) -> FloatArray:
    """Return a bound on the error of each count of `FourierMarginals` with probability 1 - beta; (k,), in rows.

    The bound is for Laplace noise and ``solver="sifting"``, the paper's bare program. That program minimises the *sum*
    of parity errors, which is at most the S = sum |z| of the true table. So a count of a table with 2^b parities is off
    by at most 2^-b (S + S), and S is gamma distributed. Where the number of rows is itself parity 0, with noise z_0,
    the true table is off by |z_0| more in each parity.

    Parameters
    ----------
    workload
        The tables.
    epsilon
        A pure epsilon.
    beta
        Probability that some count is off by more.
    public_rows
        Neighbours replace a record, rather than add or remove one.
    """
    queries, scale = _paper_noise(workload, epsilon=epsilon, beta=beta, public_rows=public_rows)
    if public_rows:
        total = 2 * scale * float(gammainccinv(queries.k, beta))
    else:
        first = scale * math.log(2 / beta)
        total = 2 * scale * float(gammainccinv(queries.k, beta / 2)) + (queries.k - 1) * first
    sizes = [len(masks_below(workload.domain, clique)) for clique in workload.cliques]
    return np.repeat(total / np.array(sizes, np.float64), workload.sizes)


def _paper_noise(workload: Marginals, *, epsilon: float, beta: float, public_rows: bool) -> tuple[CellParities, float]:
    """Return the parities of some tables, and the scale of the paper's Laplace noise on each, in rows, for bounds."""
    if not (epsilon > 0 and 0 < beta < 1):
        raise ParameterError("epsilon must be above 0, and beta must lie between 0 and 1")
    masks = closure(workload.domain, workload.cliques)
    queries = CellParities(workload.domain, masks[1:] if public_rows else masks)
    norms = queries.bounds.swap if public_rows else queries.bounds.one
    return queries, norms.l1 / epsilon
