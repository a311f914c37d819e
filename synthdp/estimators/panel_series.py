"""`PanelSeries`: synthetic persons who continue period by period, under one privacy guarantee.

`curator.panel_room` adds all noise.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from synthdp.answers.expressions import allowed_by
from synthdp.arrays import BoolArray, FloatArray, IntArray
from synthdp.checks import whole
from synthdp.curator import Ledger, open_panel
from synthdp.errors import DataError, ParameterError
from synthdp.estimators.series_folder import SeriesFolder, check_loss, check_same, ledger_of, read_arrays, write_arrays
from synthdp.files import replacing_folder
from synthdp.mechanisms.series_panel import first_persons, model_of_states, next_states, padding
from synthdp.privacy.loss import ApproxDP, GaussianDP
from synthdp.privacy.neighbors import Adjacency, Neighbors
from synthdp.privacy.noise import noise_versions
from synthdp.privacy.receipt import Item, Receipt, assumptions
from synthdp.randomness import RandomState, generator
from synthdp.schema.schema import Schema, schema_given
from synthdp.tables.results import dataframe
from synthdp.tables.sources.write import library_for, write_blocks

if TYPE_CHECKING:
    from synthdp.curator import PanelRoom

NORMAL = 1.959964
"""z-value of a two-sided 95 % interval.  Derived: the 97.5 % point of the normal distribution."""


class PanelSeries:
    """Release the histories of the same persons, period by period, under one privacy guarantee.

    The same synthetic persons continue through all periods.  Each period extends every person by one state, and
    published states never change.  Over every ``window`` of consecutive periods, counts of sequences of states match
    the real counts up to noise (Bun, Gaboardi, Neunhoeffer and Zhang 2023, arXiv:2306.07884).  A state is a combination
    of levels of all columns, or "no row".  All sequences of states are counted, so there must be few states.  The first
    period fixes the persons.

    Costs ``epsilon`` and ``delta`` for the whole panel and all rows of a person, booked in the ledger before the first
    row is read.

    Parameters
    ----------
    schema
        Complete schema of a person's row in one period, without rules.  Default: the schema of the panel at ``path``.
    epsilon, delta
        The privacy loss of the whole panel; delta above 0.
    periods
        Total number of periods.
    window
        Number of consecutive periods over which counts are accurate, at least 1.  The first rows are published in
        period number ``window``.
    period
        Name of a period, such as "month".
    path
        The folder of the panel.  An existing panel is continued with the settings that it was started with.
    privacy_unit
        The column that names persons.
    bins
        Most bins of a numeric column.
    ledger, dataset, key, random_state
        As in `ReleaseSeries`.

    Attributes
    ----------
    padding
        Number of persons added to the count of every sequence of states, so that noise makes no count negative.  These
        persons are among the synthetic persons; `answer` leaves them out.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> import synthdp as sd
    >>> schema = sd.Schema({"employed": sd.Boolean()})
    >>> month = pd.DataFrame({"who": range(1000), "employed": [True, False] * 500})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     panel = sd.PanelSeries(schema=schema, periods=4, window=2, privacy_unit="who", path=f"{folder}/work.panel")
    ...     _ = [panel.add(month) for _ in range(3)]
    ...     rows = panel.rows_()
    ...     still = panel.answer("employed", "employed")
    >>> list(rows.columns), len(still)
    (['person', 'period', 'employed'], 2)
    """

    def __init__(
        self,
        *,
        schema: Schema | Mapping[str, Any] | str | PathLike[str] | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-9,
        periods: int = 12,
        window: int = 3,
        period: str = "period",
        path: str | PathLike[str] | None = None,
        privacy_unit: str | None = None,
        bins: int = 4,
        ledger: str | PathLike[str] | Ledger | None = None,
        dataset: str | None = None,
        key: bytes | None = None,
        random_state: RandomState = None,
    ) -> None:
        if path is None:
            raise ParameterError("path must name a folder for the panel: its state is kept there between periods")
        self._ledger = ledger_of(ledger, dataset=dataset, key=key)
        self._folder = SeriesFolder(path, "panel")
        self._dataset, self._key, self.random_state = dataset, key, random_state
        known = self._folder.settings()
        self._new = known is None
        if known is None:
            if schema is None or privacy_unit is None:
                raise ParameterError("schema and privacy_unit must be given to start a panel")
            check_loss(epsilon, delta)
            known = {
                "schema": json.loads(schema_given(schema).to_json()), "epsilon": float(epsilon), "delta": float(delta),
                "periods": whole("periods", periods, least=1), "window": whole("window", window, least=1),
                "period": str(period), "privacy_unit": str(privacy_unit), "bins": whole("bins", bins, least=1),
                "ledger": None if self._ledger is None else self._ledger.path.name,
                "dataset": None if self._ledger is None else dataset or "default",
            }  # fmt: skip
        else:
            check_same(known, schema, epsilon=epsilon, delta=delta, periods=periods, window=window)
        self._settings = known
        self.schema = Schema.from_json(json.dumps(known["schema"]), source="the panel")
        self.epsilon, self.delta, self.periods = float(known["epsilon"]), float(known["delta"]), int(known["periods"])
        self.window, self.period = int(known["window"]), str(known["period"])
        room = self._room()
        self._terms, self._plan, self._states = room.terms, room.plan, room.states
        self.padding = padding(
            self._stddev, patterns=self._states.patterns, releases=self.periods - self.window + 1
        )  # fmt: skip
        if self.added == self.periods:
            room.forget()

    def __repr__(self) -> str:
        return f"PanelSeries({self.added} of {self.periods} periods, {self._terms.loss})"

    @property
    def added(self) -> int:
        """Return the number of periods added so far."""
        return self._folder.done

    @property
    def _stddev(self) -> float:
        """Return the noise stddev of the count of one sequence of states, in persons, for the receipt."""
        return self._plan.noise.stddev / self._plan.resolution

    def start(self) -> PanelSeries:
        """Create the folder and book the whole panel in the ledger; `add` calls this method if needed.

        Costs ``epsilon`` and ``delta``, for all rows of a person, once.
        """
        if self._new:
            self._folder.begin(self._settings)
            self._new = False
        if not self.added or self._folder.private.is_dir():
            self._room().start()
        return self

    def add(self, table: Any) -> Any:
        """Add the rows of all persons in the next period, and return all synthetic rows so far.

        Costs nothing beyond what the panel cost when it was started.

        Parameters
        ----------
        table
            One row per person: a dataframe or any source.  A person without a row is absent.  Persons without a row in
            the first period are left out.

        Returns
        -------
        The table of `rows_`; ``None`` before period number ``window``.

        Raises
        ------
        DataError
            If all periods were added, or the period was begun with other rows.
        """
        period = self.added
        if period >= self.periods:
            raise DataError(f"all {self.periods} periods of this panel were added: start a new panel for more")
        self.start()
        room = self._room()
        noisy = room.add(period, table)
        rng = generator(self.random_state)
        content: dict[str, Any] = {}
        if noisy is not None:
            counts = noisy / self._plan.resolution + self.padding
            if period + 1 == self.window:
                content["states"] = first_persons(self._states, counts, rng)
            else:
                lately = (
                    self._published(period)[:, -(self.window - 1) :] if self.window > 1 else self._published(period)
                )
                content["states"] = next_states(self._states, lately, counts, rng)[:, None]
            content |= {"noisy": noisy, "seed": np.array(rng.integers(2**31))}
        with replacing_folder(self._folder.period(period)) as folder:
            write_arrays(folder / "period.npz", content)
        if period + 1 == self.periods:
            room.forget()
        return None if noisy is None else self.rows_()

    def rows_(self) -> Any:
        """Return all synthetic rows so far, one for each person and period in which the person is present.

        Published rows never change.

        Returns
        -------
        A pandas DataFrame: ``person`` and ``period``, both counted from 1, and the columns of the
        schema.  Every sequence of states has `padding` persons more than its noisy count, so that no count is negative.
        """
        states = self._published(self._checked() + 1)
        frames, model = [], model_of_states(self.schema, self._states)
        for t in range(states.shape[1]):
            seed = int(read_arrays(self._folder.period(max(t, self.window - 1)) / "period.npz")["seed"])
            person = np.flatnonzero(states[:, t] != self._states.absent)
            rng = generator(seed + t)
            rows = model.table_of(self._states.rows_of(states[person, t], rng), rng)
            rows.insert(0, "person", person + 1)
            rows.insert(1, self.period if self.period not in self.schema else "period", t + 1)
            frames.append(rows)
        import pandas as pd

        return pd.concat(frames, ignore_index=True)

    def write_rows(self, path: str | PathLike[str]) -> None:
        """Write the rows of `rows_` to a file; its ending gives the format, CSV or Parquet."""
        rows = self.rows_()
        if library_for(path) != "pandas":
            import pyarrow as pa

            rows = pa.Table.from_pandas(rows, preserve_index=False)
        write_blocks(path, iter([rows]))

    def windows_(self, period: int) -> Any:
        """Return the estimated number of persons with each sequence of states, over the window that ends with a period.

        Periods count from 0.  The persons of `padding` are not counted.

        Returns
        -------
        A pandas DataFrame with a row for each sequence: ``sequence``, estimate, standard_error, lower,
        upper.  A sequence is a tuple of states; a state is a tuple of bin codes of the columns, or ``None`` for absent.
        """
        noisy = self._noisy(period)
        codes = np.stack(np.unravel_index(self._states.cells, self._states.domain.shape), axis=1).tolist()
        names = [*map(tuple, codes), None]
        found = {"sequence": [tuple(names[state] for state in one) for one in self._states.sequences().tolist()]}
        errors = np.full(len(noisy), self._stddev)
        return dataframe(found | _intervals(noisy, errors))

    def answer(self, *conditions: str | None) -> Any:
        """Return how many persons met conditions in consecutive periods, for each last period from number ``window`` on.

        Costs nothing.

        Parameters
        ----------
        conditions
            One condition for each of at most ``window`` consecutive periods, as `count` takes them.  ``None`` allows
            every state, absence too.

        Returns
        -------
        A pandas DataFrame: period, estimate, standard_error, lower, upper, without the padding.

        Raises
        ------
        ParameterError
            If there are more conditions than the window has periods, or a condition cuts a state in two.
        DataError
            Before ``window`` periods are added.
        """
        if not 1 <= len(conditions) <= self.window:
            raise ParameterError(
                f"conditions must be a list of 1 to {self.window} conditions, one per consecutive period"
            )
        met = self._met(conditions)
        last = self._checked()
        periods = range(self.window - 1, last + 1)
        sums = np.array([self._noisy(t)[met].sum() for t in periods])
        errors = np.full(len(sums), self._stddev * math.sqrt(int(met.sum())))
        return dataframe({"period": [f"{self.period} {t + 1}" for t in periods]} | _intervals(sums, errors))

    @property
    def receipt_(self) -> Receipt:
        """Return the receipt of the whole panel: its privacy guarantee, noise and assumptions."""
        tellings = max(0, self.added - self.window + 1)
        item = Item(
            step=f"a panel of {self.periods} periods, {self.added} of them so far, by sequences of {self.window}",
            mechanism="discrete Gaussian", answers=tellings * self._states.patterns, sensitivity=1.0, stddev=self._stddev,
            loss=GaussianDP(self._terms.mu), noise=(self._stddev, self._stddev), unit="people",
        )  # fmt: skip
        adjacency, unit = self._terms.adjacency, self._settings["privacy_unit"]
        said = (
            f"a person has one id in column {unit!r}, in one spelling; a row without an id is left out",
            f"{self.periods} periods in all, no more", "the persons are those of the first period",
        )  # fmt: skip
        entry = self._room().entry if self._folder.private.is_dir() else None
        return Receipt(
            total=self._terms.loss, adjacency=adjacency, items=(item,),
            assumptions=(*assumptions(self.schema, self.schema, Adjacency(Neighbors.ADD_REMOVE)), *said),
            notes=(f"{self.padding} persons are added to each of {self._states.patterns} sequences of states",),
            versions=noise_versions(), ledger=self._settings["ledger"], dataset=self._settings["dataset"],
            entries=() if entry is None else (entry,),
        )  # fmt: skip

    def _met(self, conditions: tuple[str | None, ...]) -> BoolArray:
        """Return which sequences of a window's states end with states that meet the conditions, (sequences,) booleans.

        A condition of ``None`` allows any state; so do the periods before the first condition.
        """
        met: BoolArray = np.ones(1, np.bool_)
        anything = np.ones(self._states.count, np.bool_)
        for text in (None,) * (self.window - len(conditions)) + conditions:
            one = anything
            if text is not None:
                masks = {name: found.mask for name, found in allowed_by([text], self.schema).items()}
                one = self._states.where(masks)
            met = np.logical_and.outer(met, one).ravel()
        return met

    def _room(self) -> PanelRoom:
        """Return the curator side of this panel, which reads rows and adds noise."""
        known = self._settings
        return open_panel(
            self._folder.private, schema=self.schema, loss=ApproxDP(self.epsilon, self.delta), periods=self.periods,
            unit=known["privacy_unit"], window=self.window, bins=int(known["bins"]), ledger=self._ledger,
            dataset=self._dataset, key=self._key,
        )  # fmt: skip

    def _checked(self) -> int:
        """Return the last period added, counted from 0; raise DataError before the window is full."""
        if self.added < self.window:
            raise DataError(
                f"a panel answers only after {self.window} periods (its window), and {self.added} were added: add "
                "the next period"
            )
        return self.added - 1

    def _published(self, periods: int) -> IntArray:
        """Return the published states of all synthetic persons in the first periods, (n, periods).

        Published states never change, so each new period only adds a column.
        """
        parts = [read_arrays(self._folder.period(t) / "period.npz")["states"] for t in range(self.window - 1, periods)]
        return np.concatenate(parts, axis=1)

    def _noisy(self, period: int) -> FloatArray:
        """Return noisy counts of persons by sequence of states in the window that ends with a period, (sequences,).

        The persons added so that no count is negative (`padding`) are not included, so a count may be negative.
        """
        last = self._checked()
        t = whole("period", period, least=self.window - 1, most=last)
        return np.asarray(
            read_arrays(self._folder.period(t) / "period.npz")["noisy"] / self._plan.resolution, np.float64
        )


def _intervals(estimates: FloatArray, errors: FloatArray) -> dict[str, Any]:
    """Return the columns of a table of answers: estimates, standard errors and 95 % intervals, cut at 0 like counts."""
    return {
        "estimate": estimates, "standard_error": errors, "lower": np.maximum(estimates - NORMAL * errors, 0.0),
        "upper": np.maximum(estimates + NORMAL * errors, 0.0),
    }  # fmt: skip
