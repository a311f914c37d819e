"""Sparse multiplicative weights (Blum, Roth 2011, section 3): sparse queries, answered one by one as they come.

A public table of weights guesses every answer. The curator's sparse vector reports, at most c times, that a guess is
off.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from synthdp.arrays import NO_ARRAYS, packed
from synthdp.checks import check_one_of, check_share, whole
from synthdp.curator import Curator
from synthdp.errors import FormatError, ParameterError, SynthDPError
from synthdp.mechanisms.iterative import interact
from synthdp.mechanisms.mechanism import HasPrivacyCost
from synthdp.mechanisms.row_count import row_total
from synthdp.privacy.above_threshold import AboveThresholdAnswer
from synthdp.privacy.loss import ApproxDP, PrivacyLoss, Remaining, Spend, from_document, to_document
from synthdp.privacy.receipt import Receipt
from synthdp.queries.supports import SparseQuery, Support
from synthdp.release import Release
from synthdp.schema.schema import Schema
from synthdp.works.sparse.bounds import SparseConstruction, Update, smallest_slots
from synthdp.works.sparse.key_counts import KeyTotal
from synthdp.works.sparse.sparse_table import (
    CONFIDENCE,
    Origin,
    SparseAnswer,
    SparseModel,
    SparseTable,
    WeightTarget,
    check_query,
)

if TYPE_CHECKING:
    from synthdp.curator import SparseVector


def table_document(table: SparseTable) -> dict[str, Any]:
    """Return ``slots``, ``untouched_weight`` and the touched ``keys`` of a table as JSON, for a saved session.

    The touched keys' weights are left out, since `learned_arrays` writes them.
    """
    return {"slots": table.slots, "untouched_weight": table.untouched_weight, "keys": list(table.place)}


def learned_arrays(table: SparseTable, measured: Sequence[WeightTarget]) -> bytes:
    """Return the touched keys' weights and the noisy answers as the bytes of an npz file, for a saved session."""
    arrays = {
        "weights": table.weights[: len(table.place)],
        "sizes": np.array([len(one.place) for one in measured], np.int64),
        "targets": np.array([one.target for one in measured], np.float64),
        "place": np.concatenate([np.zeros(0, np.int64), *(one.place for one in measured)]),
        "values": np.concatenate([np.zeros(0), *(one.values for one in measured)]),
    }
    return packed(arrays, compressed=False)


def learned(document: Mapping[str, Any], arrays: bytes) -> tuple[SparseTable, list[WeightTarget]]:
    """Return the table and the noisy answers that `table_document` and `learned_arrays` wrote.

    Raises
    ------
    FormatError
        If the bytes are no such file.
    """
    try:
        with np.load(io.BytesIO(arrays), allow_pickle=False) as file:
            weights, sizes, targets, place, values = (
                file[name] for name in ("weights", "sizes", "targets", "place", "values")
            )
    except NO_ARRAYS:
        raise FormatError(
            "the saved session is damaged, because its arrays cannot be read: open a new session"
        ) from None
    table = SparseTable(
        int(document["slots"]),
        {str(key): i for i, key in enumerate(document["keys"])},
        np.append(weights, 0.0),  # one more than there are keys: there may be none
        float(document["untouched_weight"]),
    )
    ends = np.cumsum(sizes).tolist()
    parts = [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]
    found = zip(parts, targets.tolist(), strict=True)
    return table, [WeightTarget(place=place[part], values=values[part], target=target) for part, target in found]


@dataclass(frozen=True, slots=True)
class SparseWeights(HasPrivacyCost):
    """Answer a stream of sparse queries from public weights that learn from wrong guesses, for one fixed cost.

    Costs ``spend`` when a session is opened, for the curator's neighbours, however many queries are asked.

    Parameters
    ----------
    sparsity
        m, the most keys on which a query may be non-zero.
    max_updates
        c, how many guesses may be found wrong; after that answers come from the public weights alone, unchecked.
    columns
        Columns whose values make up a record; default: all of the curator's schema.
    accuracy
        alpha, the largest error of a guess that gets no noisy answer, as a fraction of the rows; default: the least at
        which few updates are due to noise alone.
    queries
        About how many queries will be asked; sets the default of ``accuracy``.
    slots
        s, how many different records updates may touch; default: the paper's number, which outlasts the updates.
    update
        ``"projection"``: the nearest weights with all noisy answers (I-projection); ``"paper"``: one step of
        multiplicative weights by exp(+-alpha/2).
    sweeps
        For the projection: the number of passes over all noisy answers after each above-threshold answer.
    alarm_share
        Share of the loss for finding wrong guesses; the rest is for noisy answers.
    total_share
        Share of the loss for the number of rows, where it is private.
    spend
        Privacy loss that a session may cost.

    Raises
    ------
    ParameterError
        If a setting is out of range.

    Examples
    --------
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> schema = sd.Schema({"city": sd.Categorical(["Oslo", "Rome"]), "member": sd.Boolean()})
    >>> table = pd.DataFrame({"city": ["Oslo"] * 1500 + ["Rome"] * 500, "member": [True, False] * 1000})
    >>> curator = sd.Curator(table, schema=schema, budget=sd.ApproxDP(1.0, 1e-6))
    >>> query = sd.sparse_conjunction(schema, {"city": "Oslo"})
    >>> session = sd.SparseWeights(sparsity=2, max_updates=3).open(curator)
    >>> print(curator.remaining)  # the whole cost is paid when a session opens
    None
    >>> answer = session.ask(query)
    >>> answer.origin.value in {"measured with noise", "public weights, checked against the table"}
    True
    """

    sparsity: int = 256
    max_updates: int = 60
    columns: tuple[str, ...] | None = None
    accuracy: float | None = None
    queries: int = 10_000
    slots: int | None = None
    update: Update = "projection"
    sweeps: int = 10
    alarm_share: float = 0.8
    total_share: float = 0.05
    spend: Spend = Remaining()

    def __post_init__(self) -> None:
        for name in ("sparsity", "max_updates", "queries", "sweeps", "slots"):
            value = getattr(self, name)
            if value is not None:  # of Python's own type, which a saved session writes down
                object.__setattr__(self, name, whole(name, value, least=1))
        if self.accuracy is not None:
            check_share("accuracy", self.accuracy)
        check_one_of("update", self.update, ("projection", "paper"))
        for name in ("alarm_share", "total_share"):
            check_share(name, getattr(self, name))

    def open(self, curator: Curator) -> SparseSession:
        """Open a session and return it.

        Costs ``spend`` at once, for the curator's neighbours, whatever is asked afterwards.
        """
        columns = self.columns or curator.schema.names
        loss = curator.cost(self.spend)
        curator.check(KeyTotal(columns))
        account = curator.open_account(loss, currency=ApproxDP)
        counted, rest = row_total(account, KeyTotal(columns), share=self.total_share)
        total = counted.rows
        watch = account.watch(
            columns,
            max_alarms=self.max_updates,
            spend=rest,
            alarm_share=self.alarm_share,
            threshold=None if self.accuracy is None else self.accuracy * total,
            queries=self.queries,
            step="sparse vector",
        )
        alpha = min(1.0, max(watch.threshold_rows / total, 1e-6))  # bounds are for alpha above 0 and at most 1
        slots = self.slots or smallest_slots(self.sparsity, alpha=alpha)
        return SparseSession(
            settings=self,
            columns=columns,
            total=total,
            alpha=alpha,
            watch=watch,
            construction=self.construction(SparseTable(slots), total, alpha, []),
            loss=loss,
            receipt=curator.receipt(),
            schema=curator.schema.part(columns),
            total_stddev=counted.stddev,
        )

    def construction(
        self, table: SparseTable, total: float, alpha: float, measured: list[WeightTarget]
    ) -> SparseConstruction:
        """Return a hypothesis with these settings, from weights and noisy answers, for a new or resumed session."""
        return SparseConstruction(
            table=table, total=total, alpha=alpha, update_rule=self.update, sweeps=self.sweeps, measured=measured
        )


@dataclass(slots=True, kw_only=True, repr=False)
class SparseSession:
    """An open stream of sparse queries, with its public weights; `SparseWeights.open` makes it.

    Its whole cost was charged when it was opened. Several threads may ask it, in the process that opened it; their
    queries are answered one after the other.

    Parameters
    ----------
    settings
        The mechanism's settings.
    columns
        Columns whose values make up a record.
    total
        Number of rows, public or estimated.
    alpha
        Largest error of a guess that gets no noisy answer, as a fraction of the rows.
    watch
        The curator's sparse vector, which finds wrong guesses.
    construction
        The public weights and the noisy answers so far.
    loss, receipt
        The cost, and the curator's receipt at the opening.
    schema
        The schema of a record's columns.
    total_stddev
        Standard deviation of the number of rows; ``None`` in a resumed session.
    """

    settings: SparseWeights
    columns: tuple[str, ...]
    total: float
    alpha: float
    watch: SparseVector
    construction: SparseConstruction
    loss: PrivacyLoss
    receipt: Receipt
    schema: Schema
    total_stddev: float | None = None

    def __repr__(self) -> str:
        return f"SparseSession({self.updates} of {self.settings.max_updates} updates, {self.table!r})"

    @property
    def table(self) -> SparseTable:
        """Return the public weights."""
        return self.construction.table

    @property
    def measured(self) -> list[WeightTarget]:
        """Return the noisy answers so far, in order."""
        return self.construction.measured

    @property
    def updates(self) -> int:
        """Return how many guesses were found wrong so far."""
        return self.watch.alarms

    @property
    def error(self) -> float | None:
        """Return a bound in rows on all checked guesses, at confidence 0.95; ``None`` when updates are used up."""
        return None if self.watch.exhausted else self.watch.silence_bound(beta=1 - CONFIDENCE)

    def ask(self, query: SparseQuery) -> SparseAnswer:
        """Answer one query: by the public weights if their guess is close, else with noise, and update the weights.

        Costs nothing more: opening the session paid for all queries.

        Raises
        ------
        MechanismFailure
            If slots run out: the paper's FAILURE.  The private table is not read then.
        ParameterError
            If the query is about other columns, or has a larger support than ``sparsity``.
        PrivacyError
            If the session was closed or saved, or in a forked process.
        """
        check_query(query, self.columns)
        if query.sparsity > self.settings.sparsity:
            raise ParameterError(
                f"the query has {query.sparsity} keys, more than sparsity ({self.settings.sparsity}): open a "
                "session with a larger sparsity"
            )
        with self.watch.turn():
            return self._ask(query.support())

    def _ask(self, support: Support) -> SparseAnswer:
        """Return the answer to one query: the guess with its error bound, or a noisy answer to a wrong guess."""
        error = self.error  # before this query may use up the last update
        step = interact(self.construction, self.watch, support, asked=support)
        if step.found is not None:
            return _measured_answer(step.found, self.total)
        origin = Origin.WEIGHTS if step.checked else Origin.UNCHECKED
        return SparseAnswer(count=step.guess, total=self.total, stddev=None, error=error, origin=origin)

    def close(self) -> Release[SparseModel]:
        """End the session and return the public weights.

        Budget that was paid and not used is not given back.
        """
        self.watch.close()  # waits for the answers to other threads
        error = self.error
        model = SparseModel(
            columns=self.columns, table=self.table.copy(), total=self.total, error=error, schema=self.schema,
            total_stddev=self.total_stddev,
        )  # fmt: skip
        return Release(mechanism=type(self.settings).__name__, output=model, loss=self.loss, receipt=self.receipt)

    def save(self, path: str | PathLike[str]) -> None:
        """End the session and write it to a new folder, from which `resume_session` can continue it once.

        If writing fails or is interrupted, nothing is left behind and the session goes on.

        **The folder is private**: it holds the hidden noise of the sparse vector and a fingerprint of the table.
        Publish `close`'s release instead.

        Raises
        ------
        FormatError
            If the folder holds a session already, or cannot be written; the session goes on then.
        PrivacyError
            If the session was closed or saved, or in a forked process.
        """
        settings = asdict(self.settings)
        del settings["spend"]
        with self.watch.turn():
            document = {
                "settings": settings,
                "columns": list(self.columns),
                "total": self.total,
                "alpha": self.alpha,
                "loss": to_document(self.loss),
                "receipt": self.receipt.to_document(),
                **table_document(self.table),
            }
            self.watch.save(path, document, learned_arrays(self.table, self.measured))


def _measured_answer(found: AboveThresholdAnswer, total: float) -> SparseAnswer:
    """Return the sparse vector's noisy count as a `SparseAnswer`, with its stddev and error bound."""
    return SparseAnswer(
        count=found.count,
        total=total,
        stddev=found.stddev,
        error=found.bound(beta=1 - CONFIDENCE),
        origin=Origin.MEASURED,
    )


def resume_session(path: str | PathLike[str], curator: Curator) -> SparseSession:
    """Return a saved session, open again on the table of its opening; it answers as if it had never been saved.

    Costs nothing: the session was paid for when it was opened. A folder can be continued once; save again afterwards.

    Parameters
    ----------
    path
        The folder that `SparseSession.save` wrote.
    curator
        A curator of the same table, with the same neighbours; its budget is not touched.

    Raises
    ------
    DataError
        If the table is another one.
    FormatError
        If the folder is not a saved session.
    PrivacyError
        If the folder was continued already, or the curator's neighbours are others.
    """
    with curator.resume_watch(path) as saved:
        document = saved.document
        try:
            table, measured = learned(document, saved.arrays)
            settings, loss = dict(document["settings"]), from_document(document["loss"])
            settings["columns"] = None if settings["columns"] is None else tuple(settings["columns"])
            mechanism, total, alpha = (
                SparseWeights(**settings, spend=loss), float(document["total"]), float(document["alpha"])
            )  # fmt: skip
            return SparseSession(
                settings=mechanism,
                columns=tuple(document["columns"]),
                total=total,
                alpha=alpha,
                watch=saved.watch,
                construction=mechanism.construction(table, total, alpha, measured),
                loss=loss,
                receipt=Receipt.from_document(document["receipt"]),
                schema=curator.schema.part(document["columns"]),
            )
        except SynthDPError:
            raise
        except (*NO_ARRAYS, TypeError):
            raise FormatError(f"'{path}' is not a saved session: give the folder of a saved session") from None
