"""The public files of a series of releases: its settings, its plans of questions, and what each period published.

Nothing private is here: the exact sums lie in a folder beside these, whose name says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from synthdp.arrays import NO_ARRAYS, GridIndices, IntArray, narrow, packed
from synthdp.domain.grid import grid_of, points_of_today
from synthdp.errors import DataError, FormatError
from synthdp.files import replacing, replacing_folder, sync_folder
from synthdp.mechanisms.series.asked import AskedPlan
from synthdp.mechanisms.series.decoded import Repeated
from synthdp.release import Release, load, save
from synthdp.schema.schema import Schema

KINDS = ("series", "panel")
"""What a folder may hold: its settings are in a file of that name, as JSON, with the format and its version."""

PRIVATE, VERSION = "private", 1
"""Name of a folder's private part, and the version of its format."""
ROWS, ROWS_OF_YESTERDAY = "points.npz", "rows.npz"
"""Published rows as grid points of today, and of the version whose columns had grid points of one width only."""

_PLAN, _PERIOD = "plan-", "period-"
"""Beginnings of the names of plans and periods."""


class SeriesFolder:
    """The folder of a series, or of a panel.

    Parameters
    ----------
    path
        The folder.
    kind
        Which of `KINDS`.
    """

    __slots__ = ("kind", "path")

    def __init__(self, path: str | PathLike[str], kind: str = "series") -> None:
        self.path, self.kind = Path(path), kind

    @property
    def _settings(self) -> Path:
        """The file of the settings."""
        return self.path / f"{self.kind}.json"

    @property
    def private(self) -> Path:
        """The folder of the private files."""
        return self.path / PRIVATE

    def settings(self) -> dict[str, Any] | None:
        """Return the settings that it was started with; ``None`` if there is nothing.

        Raises
        ------
        FormatError
            If the folder holds something else.
        """
        try:
            text = self._settings.read_text(encoding="utf-8")
        except OSError:
            if _holds_others(self.path):
                raise FormatError(f"'{self.path}' exists and is not a {self.kind}: give another path") from None
            return None
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or (found.get("format"), found.get("version")) != (self._format, VERSION):
            raise FormatError(
                f"'{self._settings}' is not a settings file of a {self.kind} that this synthdp reads "
                f"(version {VERSION}): restore the folder from a copy, or use the synthdp that wrote it"
            )
        return found

    def begin(self, settings: Mapping[str, Any]) -> None:
        """Write the settings of a new series or panel.

        Raises
        ------
        DataError
            If the folder cannot be written.
        """
        text = json.dumps({"format": self._format, "version": VERSION, **settings}, indent=1)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with replacing(self._settings) as file:
                file.write_text(text, encoding="utf-8")
            sync_folder(self.path)
        except OSError as error:
            raise DataError(f"'{self.path}' cannot be written: {error.strerror}") from None

    @property
    def done(self) -> int:
        """How many periods were published."""
        count = 0
        while self.period(count).is_dir():
            count += 1
        return count

    def period(self, number: int) -> Path:
        """Return the folder of a period, counted from 0."""
        return self.path / f"{_PERIOD}{number:04}"

    @property
    def _format(self) -> str:
        """What the settings say that they are of."""
        return f"synthdp {self.kind}"

    def starts(self) -> list[int]:
        """Return the first periods of all plans, in order."""
        found = (re.fullmatch(rf"{_PLAN}(\d+)", path.name) for path in self.path.glob(f"{_PLAN}*"))
        return sorted(int(one[1]) for one in found if one)

    def plan(self, start: int) -> AskedPlan:
        """Read a plan."""
        folder = self.path / f"{_PLAN}{start:04}"
        release = load(folder / "release")
        told = read_document(folder / "plan.json")
        places = tuple(int(i) for i in told["places"])
        statistics = tuple(
            Repeated(queries=release.measurements[i].queries, multiplier=int(multiplier), sigma=float(sigma))  # type: ignore[arg-type]
            for i, (multiplier, sigma) in zip(places, told["lattices"], strict=True)
        )
        return AskedPlan(
            start=start, last=int(told["last"]), factor=np.array(told["factor"], np.int64), release=release,
            statistics=statistics, places=places, note=str(told["note"]),
        )  # fmt: skip

    def write_plan(self, plan: AskedPlan) -> None:
        """Write a plan, whole or not at all."""
        with self._whole(f"{_PLAN}{plan.start:04}") as folder:
            save(plan.release, folder / "release")
            told = {
                "last": plan.last, "factor": plan.factor.tolist(), "places": list(plan.places), "note": plan.note,
                "lattices": [[one.multiplier, one.sigma] for one in plan.statistics],
            }  # fmt: skip
            (folder / "plan.json").write_text(json.dumps(told), encoding="utf-8")

    def write_period(
        self,
        period: int,
        *,
        answers: Sequence[IntArray],
        release: Release[Any],
        cumulative: Release[Any],
        rows: Mapping[str, GridIndices],
    ) -> None:
        """Publish a period, whole or not at all."""
        with self._whole(f"{_PERIOD}{period:04}") as folder:
            save(release, folder / "release")
            save(cumulative, folder / "cumulative")
            write_arrays(folder / "answers.npz", {f"a{i}": one for i, one in enumerate(answers)})
            write_arrays(folder / ROWS, dict(rows))

    def release(self, period: int) -> Release[Any]:
        """Read what was released about the rows of one period."""
        return load(self.period(period) / "release")

    def cumulative(self, period: int) -> Release[Any]:
        """Read what was released about all rows up to a period."""
        return load(self.period(period) / "cumulative")

    def answers(self, period: int) -> list[IntArray]:
        """Read the noisy answers of a period."""
        found = read_arrays(self.period(period) / "answers.npz")
        return [found[f"a{i}"] for i in range(sum(name[1:].isdigit() for name in found))]

    def rows(self, period: int) -> dict[str, GridIndices]:
        """Read the published rows of a period, as grid indices by column."""
        folder = self.period(period)
        if (folder / ROWS).exists():
            return read_arrays(folder / ROWS)
        schema = Schema.from_json(json.dumps((self.settings() or {}).get("schema")), source="the series")
        rows = read_arrays(folder / ROWS_OF_YESTERDAY)
        return {
            name: narrow(points_of_today(schema[name], one), grid_of(schema[name]).size) for name, one in rows.items()
        }  # fmt: skip

    def _whole(self, name: str) -> Any:
        """Open a folder to write that appears whole or not at all."""
        return replacing_folder(self.path / name)


def _holds_others(path: Path) -> bool:
    """Say whether a path is taken by something else than a series that was killed before it had begun."""
    left_over = tuple(f".{kind}.json." for kind in KINDS)  # of a file that was to be moved to its place
    return path.exists() and (path.is_file() or any(not one.name.startswith(left_over) for one in path.iterdir()))


def read_document(path: Path) -> dict[str, Any]:
    """Read a JSON file of a series."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise FormatError(f"'{path}' cannot be read: restore the series' folder from a copy") from None
    return dict(found)


def read_arrays(path: Path) -> dict[str, Any]:
    """Read arrays by name."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except NO_ARRAYS:
        raise FormatError(f"'{path}' cannot be read: restore the series' folder from a copy") from None


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays by name."""
    path.write_bytes(packed(arrays))
