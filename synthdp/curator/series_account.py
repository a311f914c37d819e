"""What a series of releases agreed to before any row was read, and what it paid: once, whatever processes add periods."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

import numpy as np

from synthdp.checks import check_number, whole
from synthdp.curator.ledger import Ledger
from synthdp.curator.series_state import PrivateState
from synthdp.errors import ParameterError, PrivacyError
from synthdp.privacy.calibration import gaussian_account
from synthdp.privacy.loss import ApproxDP, to_document
from synthdp.privacy.neighbors import Adjacency
from synthdp.schema.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesTerms:
    """The terms of a series of releases, fixed at its first period: whole loss, neighbours, numbers of periods.

    Parameters
    ----------
    loss
        The cost of the whole series.
    adjacency
        The neighbouring relation of one period, with the protected unit and its most rows.
    periods
        Number of periods.
    most_periods
        Most periods in which a unit's rows are used.
    window, bins
        Of a panel: how many periods in a row are counted together, and into how many cells a column of numbers falls.
    """

    loss: ApproxDP
    adjacency: Adjacency
    periods: int
    most_periods: int = 1
    window: int | None = None
    bins: int = 4

    def __post_init__(self) -> None:
        whole("periods", self.periods, least=1)
        whole("max_periods_per_unit", self.most_periods, least=1, most=self.periods)
        check_number("delta", self.loss.delta, above=0)
        if self.most_periods > 1 and self.adjacency.unit is None:
            raise ParameterError(
                "max_periods_per_unit above 1 needs a privacy_unit: give privacy_unit, the name of a column"
            )
        if self.most_periods > 1 and self.adjacency.rows_are_public:
            raise ParameterError("with max_periods_per_unit above 1, neighbors must be 'add_remove'")

        if self.window is not None:
            whole("window", self.window, least=1, most=self.periods)
            if self.adjacency.unit is None or self.adjacency.rows_are_public or self.adjacency.rows != 1:
                raise ParameterError(
                    "a panel needs a privacy_unit with one row in each period, and neighbors='add_remove'"
                )
            whole("max_periods_per_unit", self.most_periods, least=self.periods)

    @property
    def mu(self) -> float:
        """The whole loss as the mu of Gaussian DP, in which the costs of adaptive periods add up as squares."""
        return gaussian_account(self.loss).mu


TERMS, CHARGED = "terms", "charged"
"""Names of two private records: the agreed terms, and the number of the ledger's entry."""


class SeriesAccount:
    """The agreed terms of a series of releases and its one ledger entry, kept in private files between processes.

    Parameters
    ----------
    state
        The private files.
    schema, terms
        The agreed schema and terms.
    ledger, dataset
        Ledger, and name of the data set in it, that record the whole series once.
    """

    __slots__ = ("_dataset", "_ledger", "_mine", "_schema", "_state", "_terms")

    def __init__(
        self, state: PrivateState, schema: Schema, terms: SeriesTerms, *, ledger: Ledger | None, dataset: str
    ) -> None:
        self._state, self._schema, self._terms = state, schema, terms
        self._ledger, self._dataset, self._mine = ledger, dataset, os.getpid()

    def open(self) -> bytes:
        """Return the secret key for hashing units, 32 bytes; write the terms at the first call, and refuse others later.

        Raises
        ------
        PrivacyError
            If the terms differ from the terms at the start of the series, or another process asks.
        """
        if os.getpid() != self._mine:
            raise PrivacyError("a series can be used only in the process that opened it: open it again in this process")
        terms = self._terms
        said = {
            "loss": to_document(terms.loss), "neighbors": terms.adjacency.neighbors.value, "unit": terms.adjacency.unit,
            "rows": terms.adjacency.rows, "periods": terms.periods, "most_periods": terms.most_periods,
            "schema": json.loads(self._schema.to_json()),
        }  # fmt: skip
        if terms.window is not None:
            said |= {"window": terms.window, "bins": terms.bins}
        text = json.dumps(said, sort_keys=True)
        if not self._state.has(TERMS):
            secret, number = np.frombuffer(os.urandom(32), np.uint8), os.urandom(8).hex()
            self._state.write(TERMS, {"secret": secret, "terms": np.array(text), "name": np.array(number)})
        record = self._state.read(TERMS)
        if str(record["terms"]) != text:
            first, now = json.loads(str(record["terms"])), json.loads(text)
            changed = ", ".join(name for name in {**first, **now} if first.get(name) != now.get(name))
            raise PrivacyError(
                f"this series was started with other values of {changed}: pass the same values again, "
                "or start a new series"
            )
        return record["secret"].tobytes()

    def charge(self) -> None:
        """Record the loss of the whole series in the ledger, once, even if several processes ask.

        Costs the loss of the terms, for their neighbours.
        """
        if self._state.has(CHARGED):
            return
        entry = -1
        if self._ledger is not None:
            name = f"series {self._state.read(TERMS)['name']}"
            book = self._ledger if self._ledger.key is not None else Ledger(self._ledger.path, key=name)
            booked = book.entries(self._dataset, key=book.key) if book.path.exists() else []
            what = f"releases over {self._terms.periods} periods"
            entry = (
                booked[0].number
                if booked
                else book.reserve(self._dataset, self._terms.loss, what=what, adjacency=self._terms.adjacency)
            )
            book.commit(entry)
        self._state.write(CHARGED, {"entry": np.array(entry)})

    @property
    def entry(self) -> int | None:
        """The number of the series' entry in the ledger, ``None`` without one."""
        number = int(self._state.read(CHARGED)["entry"]) if self._state.has(CHARGED) else -1
        return None if number < 0 else number
