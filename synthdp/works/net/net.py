"""The net mechanism (Blum, Ligett, Roth 2008; Roth, lecture 5): choose among all small tables by the exponential law.

A teaching mechanism: it shows that a pure guarantee can pay for exponentially many queries, on domains of a few cells.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from synthdp.arrays import LARGEST_WHOLE, Codes, IntArray, Totals, frozen
from synthdp.checks import check_number, check_one_of, check_share, check_whole, whole
from synthdp.curator import Curator
from synthdp.domain.domain import universe, universe_size
from synthdp.errors import ParameterError
from synthdp.mechanisms.cell_model import CellModel, check_listed
from synthdp.mechanisms.mechanism import HasPrivacyCost, left_out
from synthdp.mechanisms.preflight import salvaged
from synthdp.mechanisms.workload import WorkloadSpec, queries_of
from synthdp.privacy.calibration import SelectionLaw, plan_selection
from synthdp.privacy.loss import ApproxDP, Remaining, Spend
from synthdp.queries.distances import Score
from synthdp.queries.linear import FittingRows
from synthdp.queries.norms import Norms, RecordBounds, largest
from synthdp.queries.protocol import CHUNK_CELLS, LinearQueries, check_overflow
from synthdp.randomness import RandomState
from synthdp.release import Release
from synthdp.schema.schema import Schema
from synthdp.works.net.listed_cells import fitting_total

_EXACT = 2**53
"""Whole numbers below this limit are exact as 64-bit floats, so float products can stand for integer ones. Derived:
2^53."""


def multiset_count(cells: int, size: int) -> int:
    """Return the number of multisets of ``size`` among ``cells``: C(cells + size - 1, size)."""
    return math.comb(cells + size - 1, size)


def multisets(cells: int, size: int) -> IntArray:
    """Return every multiset of ``size`` elements of ``cells``, as counts: (C(cells + size - 1, size), cells).

    They are the tables that the net mechanism chooses from. Rows are in lexicographic order. The shorter of two
    enumerations is used: combinations with repetition for few elements, else the stars-and-bars choice of cells - 1
    bars among size + cells - 1 places.
    """
    if size < cells:
        chosen = itertools.combinations_with_replacement(range(cells), size)
        # combinations come by elements, so the reversed order is lexicographic in counts
        elements = np.fromiter(itertools.chain.from_iterable(chosen), np.int64).reshape(-1, size)[::-1]
        counts = np.zeros((len(elements), cells), np.int64)
        np.add.at(counts, (np.arange(len(elements))[:, None], elements), 1)
        return counts
    if cells == 1:  # there is no bar to choose
        return np.full((1, 1), size, np.int64)
    places = size + cells - 1
    flat = itertools.chain.from_iterable(itertools.combinations(range(places), cells - 1))
    bars = np.fromiter(flat, np.int64).reshape(-1, cells - 1)
    counts = np.empty((len(bars), cells), np.int64)
    counts[:, 0] = bars[:, 0]
    counts[:, 1:-1] = np.diff(bars, axis=1) - 1
    counts[:, -1] = places - 1 - bars[:, -1]
    return counts


@dataclass(frozen=True, slots=True, eq=False)
class NetScores(Score):
    """Scores -max_q |m q(D) - N q(y)| of all multisets y of m cells, for a public number N of rows.

    A score divided by m N is minus the largest error of y's averages. One record moves q(D) by at most the query's
    largest change, so it moves every score by at most m times that change. Scores are a function of the sums q(D), so
    no matrix of rows by candidates is needed.

    Parameters
    ----------
    queries
        The queries on which candidates are compared with the private table.
    cells
        (c, d) codes of the cells that candidates are made of.
    candidates
        (k, c) counts, each row with the same sum m.
    rows
        N: the number of rows, or a public estimate of it; clipped where scores would not fit in 64 bits.
    """

    queries: LinearQueries
    cells: Codes
    candidates: IntArray
    rows: int

    def __post_init__(self) -> None:
        candidates = np.asarray(self.candidates, np.int64)
        counts = candidates.ndim == 2 and candidates.shape[1] == len(self.cells) and candidates.min(initial=0) >= 0
        if not counts or len(np.unique(candidates.sum(1))) != 1:
            raise ParameterError(
                "candidates must be an array of tables, one per row, each with one count per cell and all with the "
                "same sum"
            )
        object.__setattr__(self, "candidates", frozen(candidates.view()))
        rows = min(whole("rows", self.rows, least=1), (LARGEST_WHOLE - 1) // max(1, self.bounds.one.linf))
        object.__setattr__(self, "rows", rows)
        check_overflow(self)

    @property
    def size(self) -> int:
        """Return m, the number of rows of every candidate."""
        return int(self.candidates[0].sum())

    @property
    def k(self) -> int:
        """Return the number of candidates."""
        return len(self.candidates)

    @property
    def denominator(self) -> int:
        """Return how many units of a score make an error of one row: the queries' denominator times m."""
        return self.queries.denominator * self.size

    @property
    def bounds(self) -> RecordBounds:
        """Return the sensitivity of the scores: m times the largest change of any query, for every score."""
        bounds = self.queries.bounds
        one, swap = (Norms.within(self.k, norms.linf * self.size) for norms in (bounds.one, bounds.swap))
        return RecordBounds(one, swap)

    def finish(self, sums: Totals) -> Totals:
        """Return minus the largest error of every candidate table, (k,), from the queries' sums over all rows.

        Errors are in rows, as whole multiples of 1 / `denominator`. Memory is bounded, since candidates are scored in
        blocks.
        """
        target = self.size * self.queries.finish(sums)
        values = self.rows * self.queries.features(self.cells)
        if largest(values) * self.size < _EXACT:  # float products of such whole numbers are exact, and fast
            values = values.astype(np.float64)
        worst = np.empty(self.k, np.int64)
        step = max(1, CHUNK_CELLS // (8 * self.queries.k))  # an eighth: several arrays of this size exist at once
        for start in range(0, self.k, step):
            answers = self.candidates[start : start + step].astype(values.dtype) @ values
            errors = answers.astype(np.int64)
            errors -= target
            worst[start : start + step] = np.abs(errors, out=errors).max(axis=1)
        return -worst


MAX_CANDIDATES = 1_000_000
"""Most multisets that are listed as candidates. A safety limit of memory and time."""

DEFAULT_SIZE = 8
"""Rows of the released table, where neither ``size`` nor ``alpha`` is given. More come nearer to the truth, and there are
many more tables to choose from, which costs accuracy and time.  A safety limit: of two columns twice as many rows have more
candidates than `MAX_CANDIDATES`, and half as many a 9 % larger error (docs/benchmarks/constants.md)."""

MAX_COUNTS = 2**27
"""Most numbers in the array of all candidates, one per candidate and cell. A safety limit: 1 GiB of 64-bit numbers."""


@dataclass(frozen=True, slots=True)
class NetMechanism(HasPrivacyCost):
    """Release a table of few rows chosen with probability that falls exponentially with its largest error.

    Every multiset y of ``size`` cells has the score -max over queries of the error of its averages. Permute-and-flip
    (McKenna, Sheldon 2020) chooses a multiset in exact arithmetic; its expected error is never above the exponential
    mechanism's. The lecture's own law is ``selection="exponential"``.

    Costs ``spend``, a pure epsilon (or its zCDP), for the curator's neighbours. Under ``add_remove`` the number of rows
    is private, and ``total_share`` of the spend buys an estimate. Where values may be out of domain, `COUNT_SHARE` of
    the rest counts the rows with such values; these rows lie in no cell and are left out.

    Parameters
    ----------
    queries
        The queries that the released table should answer well, over a domain of few cells, or marginals by the names of
        their columns; ``None`` for all pairs.
    size
        m, the number of rows of the released table; default: what ``alpha`` needs, else 8.
    alpha
        Instead of ``size``: the largest error that some candidate is to have on all queries, which must have values in
        [0, 1].  m is then the lecture's ln(2k) / (2 alpha^2), see `required_size`.
    selection
        ``"permute_and_flip"`` or ``"exponential"``; default: the one with the least noise for the spend.
    total_share
        Share of the spend for the number of rows, where it is private.
    spend
        Privacy loss that a release may cost.

    Raises
    ------
    ParameterError
        If there are more than `MAX_CANDIDATES` multisets, or both ``size`` and ``alpha`` are given.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> table = pd.DataFrame(np.random.default_rng(1).random((1000, 2)) < 0.3, columns=["a", "b"])
    >>> curator = sd.Curator(table, schema=sd.Schema({"a": sd.Boolean(), "b": sd.Boolean()}), budget=sd.PureDP(1.0))
    >>> sd.required_size(4, alpha=0.3), sd.alpha_net_size(4, 4, alpha=0.3)  # rows, and how many such tables of four cells
    (12, 455)
    >>> sd.NetMechanism([("a", "b")], alpha=0.3).release(curator).answer(["a"]).shape
    (2, 6)
    """

    queries: LinearQueries | WorkloadSpec | None = None
    size: int | None = None
    total_share: float = 0.1
    spend: Spend = Remaining()
    alpha: float | None = None
    selection: SelectionLaw | Literal["permute_and_flip", "exponential"] | None = None

    def __post_init__(self) -> None:
        if self.size is not None:
            check_whole("size", self.size)
            if self.alpha is not None:
                raise ParameterError("size and alpha are both given: keep one of the two")
        if self.alpha is not None:
            check_number("alpha", self.alpha, above=0, most=1)
        if self.selection is not None:
            check_one_of("selection", self.selection, [law.value for law in SelectionLaw])
        check_share("total_share", self.total_share)
        if isinstance(self.queries, LinearQueries):
            check_candidates(universe_size(self.queries.domain), self.size_for(self.queries))

    def size_for(self, queries: LinearQueries) -> int:
        """Return m, the number of rows of the released table: ``size``, or what ``alpha`` needs, or `DEFAULT_SIZE`.

        Raises
        ------
        ParameterError
            If ``alpha`` is given, and the queries' values are not proved to lie in [0, 1].
        """
        if self.alpha is None:
            return DEFAULT_SIZE if self.size is None else self.size
        if queries.bounds.one.linf > queries.denominator or queries.bounds.swap.linf > queries.denominator:
            raise ParameterError("alpha needs queries with values in [0, 1], which these are not: give size instead")
        return required_size(queries.k, alpha=self.alpha)

    def output_schema(self, schema: Schema) -> Schema:
        """Return the schema of the queries' columns, which are the columns of the released table.

        Raises
        ------
        ParameterError
            If the queries' columns are not the schema's, or there are too many candidates.
        """
        return self._listed(schema)[1]

    def _listed(self, schema: Schema) -> tuple[LinearQueries, Schema]:
        """Return the queries, and the schema of the released table.

        Raise ParameterError if there are too many cells or candidates.
        """
        queries = queries_of(self.queries, schema)
        check_candidates(universe_size(queries.domain), self.size_for(queries))
        return queries, check_listed(queries, schema)

    @salvaged()
    def release(self, curator: Curator, *, random_state: RandomState = None) -> Release[CellModel]:  # noqa: ARG002
        """Choose a table and return it as weights on cells, with the number of rows.

        Costs ``spend``, for the curator's neighbours.
        """
        queries, output_schema = self._listed(curator.schema)
        size, law = self.size_for(queries), None if self.selection is None else SelectionLaw(self.selection)
        plan_selection(1, curator.cost(self.spend), law=law)  # refuses a loss that no such selection has
        loss = curator.cost(self.spend)
        domain = queries.domain
        curator.check(queries, spend=loss)
        account = curator.open_account(loss, currency=ApproxDP)
        total = fitting_total(account, domain, share=self.total_share)
        cells = universe(domain)
        candidates = multisets(len(cells), size)
        scores = NetScores(FittingRows(queries), cells, candidates, total.fitting)
        chosen = account.select(scores, spend=total.rest, step="table of the net", law=law)
        counts = candidates[chosen]
        model = CellModel.of(
            curator.schema, domain, cells[counts > 0], counts[counts > 0] / size, total=float(total.rows)
        )
        return Release(
            mechanism=type(self).__name__,
            output=model,
            loss=loss,
            receipt=curator.receipt(notes=(*left_out(curator.schema, output_schema), *total.notes, *model.model.notes)),
            measurements=total.measurements,
        )


def check_candidates(cells: int, size: int) -> int:
    """Return the number of multisets of ``size`` among ``cells``; raise an error if they are too many to list.

    Raises
    ------
    ParameterError
        With the number, the limit and what to use instead.
    """
    count = multiset_count(cells, size)
    if count > MAX_CANDIDATES or count * cells > MAX_COUNTS:
        raise ParameterError(
            f"there are {count} candidate tables (multisets of {size} rows among {cells} cells), and at most "
            f"{MAX_CANDIDATES} can be listed: use a smaller size, fewer columns or the mechanism MWEM"
        )
    return count


def required_size(k: int, *, alpha: float) -> int:
    """Return an m for which every table has a multiset of m rows with nearly equal averages on k queries.

    The averages differ by at most ``alpha``, and the queries have values in [0, 1]. The value of m is ln(2k) / (2
    alpha^2), rounded up. Of m rows drawn at random, one query's average is off by more than alpha with probability at
    most 2 exp(-2 m alpha^2) (Hoeffding). By the union bound some draw is within alpha on all queries.
    """
    _check(k=k)
    check_number("alpha", alpha, above=0, most=1)
    return math.ceil(math.log(2 * k) / (2 * alpha**2))


def alpha_net_size(cells: int, k: int, *, alpha: float) -> int:
    """Return the number of candidates of an alpha-net: multisets of `required_size` rows among ``cells``.

    The lecture counts the |X|^m sequences; order does not matter, so C(|X| + m - 1, m) suffice.
    """
    _check(cells=cells)
    return multiset_count(cells, required_size(k, alpha=alpha))


def net_bound(k: int, *, cells: int, size: int, rows: int, epsilon: float, beta: float) -> float:
    """Return a bound on the error of all k queries' averages, which holds with probability 1 - beta.

    The bound is sqrt(ln(2k) / (2m)) + (2 / (n epsilon)) ln(C(|X| + m - 1, m) / beta), for values in [0, 1] and replaced
    rows. The first term is the distance to the net. The second is the utility theorem of the exponential mechanism,
    which also holds for permute-and-flip.
    """
    _check(k=k, cells=cells, size=size, rows=rows)
    if not (epsilon > 0 and 0 < beta < 1):
        raise ParameterError("epsilon must be above 0 and beta between 0 and 1")
    count = multiset_count(cells, size)
    return math.sqrt(math.log(2 * k) / (2 * size)) + 2 / (rows * epsilon) * (math.log(count) - math.log(beta))


def _check(**numbers: int) -> None:
    """Raise ParameterError unless all settings are whole numbers of at least 1."""
    for name, value in numbers.items():
        check_whole(name, value)
