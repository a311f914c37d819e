"""Sparse MWEM, for sparse queries that are all given beforehand; each round measures the worst-answered query.

The rounds are multiplicative weights with the exponential mechanism (Hardt, Ligett, McSherry 2012), on the weights of
Blum and Roth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthdp.checks import check_share, check_whole
from synthdp.curator import Curator
from synthdp.errors import MechanismFailure, ParameterError
from synthdp.mechanisms.mechanism import HasPrivacyCost
from synthdp.mechanisms.row_count import row_total
from synthdp.mechanisms.workload import WorkloadSpec, sparse_queries_of
from synthdp.privacy.loss import ZCDP, ApproxDP, Remaining, Spend
from synthdp.queries.supports import SparseQuery
from synthdp.randomness import RandomState
from synthdp.release import Release
from synthdp.works.sparse.key_counts import Deviations, KeyTotal, SparseCounts
from synthdp.works.sparse.sparse_table import SparseModel, SparseTable, WeightTarget, replay, touched


@dataclass(frozen=True, slots=True)
class SparseMWEM(HasPrivacyCost):
    """Release weights on record keys that answer a list of sparse queries, fitted round by round.

    Costs ``spend``, for the curator's neighbours.

    Parameters
    ----------
    queries
        The queries that the weights should answer. They are sparse queries, or the cells of marginals given by the
        names of their columns; default: all pairs of columns.
    rounds
        Number of rounds; each measures one query.
    slots
        s, how many different records there may be; default: a tenth more than the records of the queries, so that
        records outside all queries have weight too.
    sweeps
        Number of passes over all noisy answers after each round.
    select_share
        Share of each round for finding the worst answer; the rest measures it.
    total_share
        Share of the loss for the number of rows, where it is private.
    spend
        Privacy loss that a release may cost.

    Raises
    ------
    ParameterError
        If a setting is out of range, or the queries are about different columns.
    """

    queries: Sequence[SparseQuery] | WorkloadSpec | None = None
    rounds: int = 40
    slots: int | None = None
    sweeps: int = 10
    select_share: float = 0.7
    total_share: float = 0.05
    spend: Spend = Remaining()

    def __post_init__(self) -> None:
        for name in ("rounds", "sweeps", "slots"):
            value = getattr(self, name)
            if value is not None:
                check_whole(name, value)
        check_share("select_share", self.select_share)
        check_share("total_share", self.total_share)
        if isinstance(self.queries, Sequence) and not self.queries:
            raise ParameterError("queries must hold at least one sparse query")

    def release(self, curator: Curator, *, random_state: RandomState = None) -> Release[SparseModel]:  # noqa: ARG002
        """Measure one query per round, and return the weights with the number of rows.

        Costs ``spend``, for the curator's neighbours.

        Raises
        ------
        MechanismFailure
            If there are fewer slots than records of the queries.
        """
        queries = sparse_queries_of(self.queries, curator.schema)
        counts = SparseCounts.of(queries)
        slots = self.slots or math.ceil(1.1 * max(1, len(counts.keys)))
        if slots < len(counts.keys):
            raise MechanismFailure(
                f"the queries have {len(counts.keys)} different keys, more than slots ({slots}): give more slots"
            )
        loss = curator.cost(self.spend)
        curator.check(counts)
        whole = curator.open_account(loss, currency=ApproxDP)
        counted, rest = row_total(whole, KeyTotal(counts.columns), share=self.total_share)
        total = counted.rows
        account = whole.open_account(rest, currency=ZCDP)
        table, measured = SparseTable(slots), list[WeightTarget]()
        select, measure = (
            account.budget.fraction(share).split(self.rounds) for share in (self.select_share, 1 - self.select_share)
        )
        for position in range(self.rounds):
            guesses = np.rint(_guesses(counts, table) * total).astype(np.int64)
            worst = account.select(Deviations(counts, guesses), spend=select, step=f"selection {position + 1}")
            asked = account.measure(SparseCounts.of([queries[worst]]), spend=measure, step=f"answer {position + 1}")
            support = queries[worst].support()
            measured.append(touched(table, support, target=float(asked.answers[0]) / total))
            replay(table, measured, sweeps=self.sweeps, rows=total)
        model = SparseModel(
            columns=counts.columns, table=table, total=total, schema=curator.schema.part(counts.columns),
            total_stddev=counted.stddev,
        )  # fmt: skip
        return Release(mechanism=type(self).__name__, output=model, loss=loss, receipt=curator.receipt())


def _guesses(counts: SparseCounts, table: SparseTable) -> np.ndarray:
    """Return the weights' mean of every query, (k,), in 1024ths; a record without a slot has an untouched slot's weight.

    The distances of the private answers from these means show which query the weights answer worst.
    """
    untouched = table.untouched_mass / max(1, table.untouched)
    known = dict(zip(table.place, table.touched_weights.tolist(), strict=True))
    weights = np.fromiter((known.get(key, untouched) for key in counts.keys), np.float64, len(counts.keys))
    return np.asarray((counts.values @ weights), np.float64)
