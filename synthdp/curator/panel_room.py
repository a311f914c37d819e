"""The curator of a panel: the same persons in every period, counted by their states in the last few periods.

The first period fixes the persons.  From the period in which the window of k periods is full, noisy counts of all
sequences of k states are released (Bun, Gaboardi, Neunhoeffer, Zhang 2023, arXiv:2306.07884, algorithm 1).  A person
has one such sequence in each period, so one person changes each of the T - k + 1 releases by 1.  Each costs mu^2 / (T -
k + 1) of the whole mu^2.

Noisy counts are written to disk before they leave (docs/proofs/series.md).
"""

from __future__ import annotations

import hmac
import math
from pathlib import Path
from typing import final

import numpy as np

from synthdp.arrays import AnyArray, IntArray
from synthdp.curator.contribution import Bounding
from synthdp.curator.ledger import Ledger
from synthdp.curator.private_table import blocks_of_indices, check_columns, check_unit
from synthdp.curator.series_account import SeriesAccount, SeriesTerms
from synthdp.curator.series_state import PrivateState
from synthdp.domain.panel_states import PanelStates
from synthdp.errors import DataError, InternalError, PrivacyError
from synthdp.privacy import noise
from synthdp.privacy.calibration import Calibration, calibrate
from synthdp.privacy.loss import GaussianDP
from synthdp.queries.norms import Norms
from synthdp.schema.schema import Schema
from synthdp.tables.resolve import source_of

MEMBERS, STATES, TOLD = "members", "states-", "told-"
"""Names of private records on disk: the persons; and, followed by a period, the states and the noisy counts."""


@final
class PanelRoom:
    """Holds the recent states of the persons of a panel, and releases noisy counts of state sequences, period by period.

    All answers together cost at most the loss of the terms, for neighbouring panels: they differ in all rows of one
    person.

    Parameters
    ----------
    folder
        Folder of its private files.
    schema
        Schema by which rows are encoded.
    terms
        The agreed terms, with a window; they cannot change after the first period.
    ledger, dataset
        Ledger that records the whole panel as one spend, and the name of the data set in it.
    key
        A secret that the private files are encrypted with.
    """

    __slots__ = ("_account", "_schema", "_state", "plan", "states", "terms")

    def __init__(
        self,
        folder: Path,
        *,
        schema: Schema,
        terms: SeriesTerms,
        ledger: Ledger | None = None,
        dataset: str = "default",
        key: bytes | None = None,
    ) -> None:
        noise.check_opendp()
        if terms.window is None:
            raise InternalError("the terms of a panel have a window")
        self.terms, self._schema = terms, schema
        self.states = PanelStates(schema, terms.window, terms.bins)
        self.plan: Calibration = calibrate(
            Norms(1, 1, 1), GaussianDP(terms.mu / math.sqrt(terms.periods - terms.window + 1)), k=self.states.patterns
        )
        self._state = PrivateState(folder, key=key)
        self._account = SeriesAccount(self._state, schema, terms, ledger=ledger, dataset=dataset)

    def __repr__(self) -> str:
        return f"PanelRoom({self.terms.periods} periods, {self.terms.loss})"

    def __reduce__(self) -> str:
        raise PrivacyError(
            "an open panel holds private rows and cannot be pickled or copied: open its folder with PanelSeries(path=...)"
        )

    @property
    def entry(self) -> int | None:
        """The number of the ledger entry that records the cost of all periods, ``None`` without a ledger."""
        return self._account.entry

    def start(self) -> None:
        """Make the private files and record the whole panel's loss in the ledger, unless that was done.

        Costs the loss of the terms, for their neighbours, booked before any row is read.
        """
        with self._state.locked():
            self._account.open()
            self._account.charge()

    def add(self, period: int, table: object) -> IntArray | None:
        """Read one period's rows; return noisy counts of persons by their sequence of states in the window's periods.

        Costs the loss of the terms in the first period, booked in the ledger before any row is read, and nothing later.

        Parameters
        ----------
        period
            Number of the period from 0, below the terms' number of periods; all earlier ones must have been added.
        table
            The rows of the period.  Of a person's rows the one with the lowest state counts; a person without rows is
            absent.

        Returns
        -------
        (patterns,) whole numbers, one for each possible sequence of states: noisy counts, times the factor
        ``self.plan.resolution``.  ``None`` before as many periods were added as the window has.

        Raises
        ------
        DataError
            If the period was begun with other rows, or another process adds one.
        """
        if not 0 <= period < self.terms.periods:
            raise DataError(f"all {self.terms.periods} periods of this panel were added: start a new panel for more")
        window = self.states.window
        with self._state.locked():
            secret = self._account.open()
            self._account.charge()
            keys, states = self._read(table, secret)
            mark = np.frombuffer(hmac.digest(secret, keys.tobytes() + states.tobytes(), "sha256"), np.uint8)
            own, told = f"{STATES}{period:04}", f"{TOLD}{period:04}"
            if any(name > own for name in self._state.names(STATES)):
                raise DataError(
                    f"period {period} can no longer be added, because a later period was added already: add the next period"
                )
            if self._state.has(told) and not np.array_equal(self._state.read(told)["mark"], mark):
                raise DataError(
                    "an interrupted attempt to add this period had other rows: add the rows of that attempt again"
                )
            if period == 0 and not self._state.has(told):
                self._state.write(MEMBERS, {"keys": keys})
            if not self._state.has(told):
                self._state.write(own, {"states": self._of_members(keys, states)})
            if period + 1 < window:
                return None
            if not self._state.has(told):
                names = [f"{STATES}{t:04}" for t in range(period - window + 1, period + 1)]
                sequence = np.stack([self._state.read(name)["states"] for name in names], axis=1)
                exact = np.bincount(self.states.pattern_of(sequence), minlength=self.states.patterns).astype(np.int64)
                self._state.write(told, {"noisy": self.plan.noised(exact), "mark": mark})
            for name in self._state.names(STATES):
                if name < f"{STATES}{max(0, period - window + 2):04}":
                    self._state.drop(name)
            return np.asarray(self._state.read(told)["noisy"], np.int64)

    def forget(self) -> None:
        """Delete all private files after the last period, because nothing needs them any more."""
        self._state.forget()

    def _read(self, table: object, secret: bytes) -> tuple[AnyArray, IntArray]:
        """Return the persons of a table as sorted keyed hashes, (n, 2), and each person's state in this period, (n,).

        Hashes identify persons in later periods without their names on disk.  Of several rows of a person the lowest
        state counts; rows without a person are left out.
        """
        source, unit = source_of(table, self._schema), self.terms.adjacency.unit
        check_columns(source, self._schema)
        check_unit(source, self._schema, unit)
        digests, states = [np.zeros((0, 2), np.uint64)], [np.zeros(0, np.int64)]
        for indices, owners in blocks_of_indices(source, self._schema, unit, Bounding(1)):
            if owners is None:
                raise InternalError("the rows of a panel have owners")
            states.append(self.states.of_rows(dict(zip(self._schema.names, indices, strict=True))))
            digests.append(owners)
        owner, state = np.concatenate(digests), np.concatenate(states)
        known = owner.any(axis=1)  # a row without a person has no history
        owner, state = owner[known], state[known]
        order = np.lexsort([state, owner[:, 1], owner[:, 0]])
        owner, state = owner[order], state[order]
        first = np.append(True, (owner[1:] != owner[:-1]).any(axis=1))[: len(owner)]
        owner, state = owner[first], state[first]
        keyed = b"".join(hmac.digest(secret, one.tobytes(), "sha256")[:16] for one in owner)
        keys = np.frombuffer(keyed, np.uint64).reshape(-1, 2)
        order = np.lexsort([keys[:, 1], keys[:, 0]])
        return keys[order], state[order]

    def _of_members(self, keys: AnyArray, states: IntArray) -> IntArray:
        """Return this period's state of each person of the first period, (persons,); the panel follows no others.

        A person without rows in this period gets the state "absent".
        """
        members = self._state.read(MEMBERS)["keys"]
        place = {one.tobytes(): i for i, one in enumerate(keys)}
        at = np.array([place.get(one.tobytes(), -1) for one in members], np.int64)
        return np.where(at >= 0, np.append(states, self.states.absent)[at], self.states.absent)
