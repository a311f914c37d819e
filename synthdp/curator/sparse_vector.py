"""The sparse vector technique: watch a stream of guesses, and answer at most c times, with a noisy count.

Compares rows with guesses, under noise that stays hidden, so it is on the curator's side: nothing public of a
`SparseVector` leads to either.  Its arithmetic is in `synthdp.privacy.above_threshold`; statement and proof are in
``docs/proofs/sparse-vector.md``.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from synthdp.curator.guarded_table import GuardedTable
from synthdp.curator.private_table import PrivateTable, check_key_columns, check_question
from synthdp.curator.saved_watch import SavedDraft, SavedSession
from synthdp.errors import DataError, FormatError, ParameterError, PrivacyError
from synthdp.measurements import Noise, NoiseLaw
from synthdp.privacy import noise
from synthdp.privacy.above_threshold import AboveThresholdAnswer, AboveThresholdPlan
from synthdp.privacy.calibration import Calibration
from synthdp.privacy.receipt import Receipt
from synthdp.queries.protocol import Statistic
from synthdp.queries.supports import DENOMINATOR, Support


def cell_total(table: PrivateTable, query: Statistic) -> int:
    """Return a query's exact total in 1024ths of a row, the unit of thresholds and guesses.

    The total may only be compared with noise, or noised.

    Raises
    ------
    ParameterError
        If the statistic has several queries, values that are no multiples of 1/1024, or another domain than the curator's
        schema.  Also if one row may change the total by more than 1.
    """
    check_question(table, query)
    if query.k != 1:
        raise ParameterError("ask a sparse-vector session one query at a time")
    if DENOMINATOR % query.denominator:
        raise ParameterError(
            "the weights of a query of a sparse-vector session must be whole multiples of "
            f"1/{DENOMINATOR}, not of 1/{query.denominator}: round them"
        )
    if table.adjacency.sensitivity(query).linf > query.denominator * table.adjacency.rows:
        raise ParameterError(
            "one row must change the answer of a query of a sparse-vector session by at most 1: scale "
            "its weights to the range 0 to 1"
        )
    return int(table.exact(query)[0]) * (DENOMINATOR // query.denominator)


class _State(NamedTuple):
    """The state of a sparse vector session, replaced as a whole after each query, so that an interrupt cannot split it."""

    alarms: int
    level: int | None
    """The present noise on the threshold: private."""
    ended: str
    """Why nothing is answered any more, as a participle; empty while something is."""


@final
class SparseVector:
    """A sparse vector session over one table, made by `Curator.watch`.

    It compares guesses of counts with the rows and answers only the wrong guesses, at most ``max_alarms`` of them.

    Costs what was charged when it was opened, for the curator's neighbours, however many queries are asked.  Several
    threads may ask it, as they may the curator.

    Parameters
    ----------
    vault
        The rows.
    columns
        Columns whose values make up a record's key.
    plan
        The noise.
    threshold
        The threshold, in 1024ths of a row.
    state
        State of a saved session that continues.
    """

    __slots__ = ("_columns", "_plan", "_state", "_threshold", "_vault")

    def __init__(
        self,
        vault: GuardedTable,
        columns: tuple[str, ...],
        plan: AboveThresholdPlan,
        threshold: int,
        *,
        state: _State | None = None,
    ) -> None:
        self._vault, self._state = vault, state or _State(0, None, "")
        self._columns, self._plan, self._threshold = columns, plan, threshold

    def __repr__(self) -> str:
        return f"SparseVector({self.alarms} of {self.plan.max_alarms} alarms)"

    def __reduce__(self) -> str:
        raise PrivacyError(
            "a sparse-vector session holds private rows and cannot be pickled or copied: write it with its method save()"
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns whose values make up a record's key, by which queries of keys count rows."""
        return self._columns

    @property
    def plan(self) -> AboveThresholdPlan:
        """The noise scales of the session, which its cost was computed for."""
        return self._plan

    @property
    def threshold(self) -> int:
        """The distance between guess and truth, in 1024ths of a row and before noise, above which a guess gets an answer."""
        return self._threshold

    @property
    def alarms(self) -> int:
        """The number of guesses found wrong so far; each used up one of ``max_alarms`` answers."""
        return self._state.alarms

    @property
    def exhausted(self) -> bool:
        """Whether all ``max_alarms`` answers were given, after which no row is read any more."""
        return self.alarms >= self.plan.max_alarms

    @property
    def threshold_rows(self) -> float:
        """The distance between guess and truth, in rows and before noise, above which a guess gets an answer."""
        return self.threshold / DENOMINATOR

    def silence_bound(self, *, beta: float) -> float:
        """Return a bound, in rows, on the errors of all guesses that got no answer; it holds with probability 1 - beta."""
        return self.plan.silence_bound(self.threshold_rows, beta=beta)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the curator's lock for one question and the use of its answer, so that no other thread asks in between.

        Raises
        ------
        PrivacyError
            If the watch was closed or saved, or in a forked process.
        """
        with self._turn():
            yield

    def ask(self, query: Support | Statistic, *, guess: float) -> AboveThresholdAnswer | None:
        """Return the query's noisy total if the guess seems wrong by more than the threshold, else ``None``.

        Paid for when the watch was opened.

        Parameters
        ----------
        query
            The support of a query of record keys, or one query over cells with values in [0, 1].
        guess
            The query's total in rows, by public knowledge.

        Raises
        ------
        ParameterError
            If the query is not a single one with values in [0, 1], of the curator's schema.  Also if the guess is not a
            number.
        PrivacyError
            If all answers were given, or the watch was closed or saved.  Also if it was asked in a forked process, or
            again while it was being asked (by a signal's handler, or by the query itself).
        """
        if not math.isfinite(guess * DENOMINATOR):
            raise ParameterError(f"guess ({guess}) must be a finite number of rows")
        with self._turn() as table:
            if self.exhausted:
                raise PrivacyError(
                    "this session has given its max_alarms answers above the threshold: open a new session with a larger "
                    "max_alarms"
                )
            before = self._state
            total = self._total(table, query)
            level = self.plan.draw_level() if before.level is None else before.level
            deviation = abs(total - round(guess * DENOMINATOR))
            silent = self.plan.is_silent(deviation, threshold=self.threshold, level=level)
            after = _State(before.alarms, level, "")
            if not silent:
                after = _State(before.alarms + 1, None if self.plan.redrawn else level, "")
            self._exchange(before, after)
            if silent:
                return None
            plan = self.plan.answer
            within = max(-noise.LARGEST_VALUE, min(total, noise.LARGEST_VALUE))
            noisy = int(plan.noised(np.array([within], np.int64))[0])
            return AboveThresholdAnswer(
                noisy / (plan.resolution * DENOMINATOR), self.plan.answer_stddev, plan.noise.law
            )

    def close(self) -> None:
        """End the session: later queries raise PrivacyError.

        What was paid for and not used is not given back.
        """
        with self._vault.turn():
            state = self._state
            self._exchange(state, state._replace(ended=state.ended or "closed: ask its release"))

    def save(self, path: str | PathLike[str], document: Mapping[str, Any], arrays: bytes) -> None:
        """End this session and write it to a private folder, from which `Curator.resume_watch` continues it once.

        The session ends before the folder can be continued. The session goes on only if writing failed and nobody can
        ever continue the folder.

        **The folder is private**: it holds the noise on the threshold and a fingerprint of the rows.

        Parameters
        ----------
        path
            A new folder.
        document, arrays
            Data of the owner that come back with the watch, as JSON and as bytes.

        Raises
        ------
        FormatError
            If a session was saved there before, or the folder cannot be written; the watch goes on then.
        """
        with self._turn() as table:
            state, draft = self._state, SavedDraft(Path(path))
            ended = state._replace(ended="saved: resume it from its folder")
            private = self._document(table, state)
            try:
                self._exchange(state, ended)
                draft.publish({**document, "watch": private}, arrays)
            except BaseException:
                if self._state is ended and draft.discard():
                    self._state = state
                raise

    @contextmanager
    def continued(self, saved: SavedSession) -> Iterator[None]:
        """Answer nothing while the ``with`` body checks a restored session; then claim its folder and begin to answer.

        Paid for when the watch was opened.

        Raises
        ------
        PrivacyError
            If another process took the folder first; nothing is answered then.
        """
        state = self._state
        self._exchange(state, state._replace(ended="not continued yet: wait until resume_session() returns"))
        yield
        saved.claim()
        self._state = state

    @contextmanager
    def _turn(self) -> Iterator[PrivateTable]:
        """Yield the table while the curator's lock is held; raise PrivacyError if the session has ended."""
        with self._vault.turn() as table:
            if self._state.ended:
                raise PrivacyError(f"the session was {self._state.ended}")
            yield table

    def _exchange(self, before: _State, after: _State) -> None:
        """Replace the session's state ``before`` by ``after``, if no other query changed it meanwhile.

        PrivacyError is raised if one did, such as a query of a signal handler: no state is used twice.
        """
        if self._state is not before:
            raise PrivacyError("ask() was called before the previous ask() returned: ask one query at a time")
        self._state = after  # nothing comes in between: neither line calls anything

    def _document(self, table: PrivateTable, state: _State) -> dict[str, Any]:
        """Return the session's state, noise and row fingerprint as JSON, for a continuation: private."""
        answer = self.plan.answer
        return {
            "columns": list(self.columns),
            "max_alarms": self.plan.max_alarms,
            "level_scale": self.plan.level_scale,
            "query_scale": self.plan.query_scale,
            "redrawn": self.plan.redrawn,
            "law": answer.noise.law.value,
            "scale": answer.noise.scale,
            "resolution": answer.resolution,
            "sensitivity": answer.sensitivity,
            "threshold": self.threshold,
            "alarms": state.alarms,
            "level": state.level,
            "rows": rows_fingerprint(table, self.columns),
        }

    def _total(self, table: PrivateTable, query: Support | Statistic) -> int:
        """Return a query's exact total in 1024ths of a row, to be compared with a guess under noise."""
        if isinstance(query, Support):
            return query.total(table.key_counts(self.columns))
        return cell_total(table, query)


class Continued(NamedTuple):
    """A restored sparse vector session, with the JSON document and the bytes that were saved with it.

    Paid for when the watch was opened.
    """

    watch: SparseVector
    document: dict[str, Any]
    arrays: bytes


@contextmanager
def continued(path: str | PathLike[str], *, vault: GuardedTable) -> Iterator[Continued]:
    """Restore a saved session over the same rows, for a ``with`` body that checks it; it answers after the body.

    Paid for when the watch was opened.

    Raises
    ------
    DataError
        If the rows differ from the rows of the saved watch: their cost was never paid.
    FormatError
        If the folder is not a saved session.
    PrivacyError
        If it was continued already, or was opened for other neighbours.
    """
    with vault.turn() as table:
        saved = SavedSession.read(Path(path))
        document = dict(saved.document)
        watch = _restored(document.pop("watch", None), document.get("receipt"), vault=vault, table=table)
        with watch.continued(saved):
            yield Continued(watch, document, saved.arrays)


def _restored(watch: Any, receipt: Any, *, vault: GuardedTable, table: PrivateTable) -> SparseVector:
    """Return the session of a saved document on this table; raise an error if the document, neighbours or rows differ."""
    try:
        columns = tuple(str(name) for name in watch["columns"])
        law = Noise(law=NoiseLaw(watch["law"]), scale=float(watch["scale"]), k=1)
        plan = AboveThresholdPlan(
            max_alarms=int(watch["max_alarms"]),
            level_scale=float(watch["level_scale"]),
            query_scale=float(watch["query_scale"]),
            redrawn=bool(watch["redrawn"]),
            answer=Calibration(law, int(watch["resolution"]), float(watch["sensitivity"])),
        )
        state = _State(int(watch["alarms"]), None if watch["level"] is None else int(watch["level"]), "")
        threshold, rows = int(watch["threshold"]), str(watch["rows"])
        adjacency = Receipt.from_document(receipt).adjacency
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        adjacency = None
    if adjacency is None:  # said here, where no caught error remembers the noise
        raise FormatError("the saved session is damaged: restore its folder from a copy, or open a new session")
    if adjacency != table.adjacency:
        raise PrivacyError(
            f"the session was opened for neighbours that {adjacency}, but this table has neighbours that "
            f"{table.adjacency}: use the neighbors, privacy_unit and max_rows_per_unit of the session"
        )
    check_key_columns(table, columns)
    if rows != rows_fingerprint(table, columns):
        raise DataError(
            "the table differs from the table of the saved session: continue the session on its own, unchanged table"
        )
    return SparseVector(vault, columns, plan, threshold, state=state)


def rows_fingerprint(table: PrivateTable, columns: tuple[str, ...]) -> str:
    """Return a hash of record keys and counts, 32 hexadecimal digits, to check that a session goes on with equal rows.

    The hash is private, and stays on the curator's side.
    """
    digest = hashlib.blake2b(digest_size=16)
    for key, count in sorted(table.key_counts(columns).items()):
        digest.update(f"{len(key)}:{key}:{count};".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
