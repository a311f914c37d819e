"""Public files of a series of releases: settings and their checks, plans of queries, each period's published release.

Nothing in these files is private; exact sums are in a folder beside them that is named private.
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
from synthdp.checks import check_number, whole
from synthdp.curator import Ledger
from synthdp.domain.grid import grid_of, points_of_today
from synthdp.errors import FormatError, ParameterError, SchemaError
from synthdp.estimators.findings import EPSILONS
from synthdp.files import replacing, replacing_folder, sync_folder, writing
from synthdp.mechanisms.series_asked import AskedPlan, Repeated
from synthdp.mechanisms.survey_weights import refuse_weights
from synthdp.privacy.neighbors import neighbors_named
from synthdp.release import Release, load, save
from synthdp.schema.schema import Schema, schema_given

KINDS = ("series", "panel")
"""Kinds of folders.  The settings are in a JSON file of this name, together with the format and its version.  A
convention."""

PRIVATE, VERSION = "private", 1
"""Name of a folder's private part, and version of the folder's format; folders of other versions are refused."""
ROWS, ROWS_OF_YESTERDAY = "points.npz", "rows.npz"
"""Names of the files with published rows: as grid points of this version, and as grid points of the earlier version.
The earlier version had grid points of one width only."""

_PLAN, _PERIOD = "plan-", "period-"
"""Prefixes of the folder names of plans and periods."""


class SeriesFolder:
    """Reads and writes the public files in the folder of a series or panel.

    Parameters
    ----------
    path
        The folder.
    kind
        The kind of folder, one of `KINDS`.
    """

    __slots__ = ("kind", "path")

    def __init__(self, path: str | PathLike[str], kind: str = "series") -> None:
        self.path, self.kind = Path(path), kind

    @property
    def _settings(self) -> Path:
        """Return the path of the settings file."""
        return self.path / f"{self.kind}.json"

    @property
    def private(self) -> Path:
        """Return the path of the folder with private files."""
        return self.path / PRIVATE

    def settings(self) -> dict[str, Any] | None:
        """Return the settings that the series or panel was started with; ``None`` if the folder is new or empty.

        Raises
        ------
        FormatError
            If the folder holds other files, or settings of another version.
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
        """Create the folder and write the settings of a new series or panel.

        Raises
        ------
        DataError
            If the folder cannot be written.
        """
        text = json.dumps({"format": self._format, "version": VERSION, **settings}, indent=1)
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            with replacing(self._settings) as file:
                file.write_text(text, encoding="utf-8")
            sync_folder(self.path)

    @property
    def done(self) -> int:
        """Return the number of published periods."""
        count = 0
        while self.period(count).is_dir():
            count += 1
        return count

    def period(self, number: int) -> Path:
        """Return the path of a period's folder; periods count from 0."""
        return self.path / f"{_PERIOD}{number:04}"

    @property
    def _format(self) -> str:
        """Return the name of the format in the settings file."""
        return f"synthdp {self.kind}"

    def starts(self) -> list[int]:
        """Return the sorted periods, from 0, in which a plan of queries begins; a plan holds until the next plan."""
        found = (re.fullmatch(rf"{_PLAN}(\d+)", path.name) for path in self.path.glob(f"{_PLAN}*"))
        return sorted(int(one[1]) for one in found if one)

    def plan(self, start: int) -> AskedPlan:
        """Return the stored plan that begins with period ``start``: the queries measured until the next plan."""
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
        """Write a plan; its folder appears complete or not at all."""
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
        """Write the answers, releases and rows of a period; the folder appears complete or not at all."""
        with self._whole(f"{_PERIOD}{period:04}") as folder:
            save(release, folder / "release")
            save(cumulative, folder / "cumulative")
            write_arrays(folder / "answers.npz", {f"a{i}": one for i, one in enumerate(answers)})
            write_arrays(folder / ROWS, dict(rows))

    def release(self, period: int) -> Release[Any]:
        """Return the stored release about the rows of one period."""
        return load(self.period(period) / "release")

    def cumulative(self, period: int) -> Release[Any]:
        """Return the stored release about all rows up to a period."""
        return load(self.period(period) / "cumulative")

    def answers(self, period: int) -> list[IntArray]:
        """Return the stored noisy answers of a period, an integer array for each statistic of its plan."""
        found = read_arrays(self.period(period) / "answers.npz")
        return [found[f"a{i}"] for i in range(sum(name[1:].isdigit() for name in found))]

    def rows(self, period: int) -> dict[str, GridIndices]:
        """Return the published rows of a period, (rows,) grid points by column.

        Files of the earlier version are converted.
        """
        folder = self.period(period)
        if (folder / ROWS).exists():
            return read_arrays(folder / ROWS)
        schema = Schema.from_json(json.dumps((self.settings() or {}).get("schema")), source="the series")
        rows = read_arrays(folder / ROWS_OF_YESTERDAY)
        return {
            name: narrow(points_of_today(schema[name], one), grid_of(schema[name]).size) for name, one in rows.items()
        }  # fmt: skip

    def _whole(self, name: str) -> Any:
        """Return a context manager for a new folder ``name``, which appears complete or not at all if interrupted."""
        return replacing_folder(self.path / name)


def _holds_others(path: Path) -> bool:
    """Return whether a path holds other files than temporary files of an interrupted start of a series.

    An interrupted start can be repeated; a folder of other files is refused.
    """
    left_over = tuple(f".{kind}.json." for kind in KINDS)  # of a file that was to be moved to its place
    return path.exists() and (path.is_file() or any(not one.name.startswith(left_over) for one in path.iterdir()))


def read_document(path: Path) -> dict[str, Any]:
    """Return the contents of a JSON file of a series; raise FormatError if it cannot be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise FormatError(f"'{path}' cannot be read: restore the series' folder from a copy") from None
    return dict(found)


def read_arrays(path: Path) -> dict[str, Any]:
    """Return the arrays of an npz file by name; raise FormatError if it cannot be read."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except NO_ARRAYS:
        raise FormatError(f"'{path}' cannot be read: restore the series' folder from a copy") from None


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays to an npz file by name."""
    path.write_bytes(packed(arrays))


LEAST_KEY = 16
"""Smallest length of an encryption key, in bytes.  Safety limit: 128 bits cannot be found by brute force."""


def new_settings(schema: Any, *, ledger: Ledger | None, dataset: str | None, **given: Any) -> dict[str, Any]:
    """Return the settings of a new series as a JSON document, after checks.

    Parameters
    ----------
    schema
        The schema in any form that a user may give.
    ledger, dataset
        Ledger that records the series, and the name of its data there.
    given
        Other settings of `ReleaseSeries` that hold for the whole series, by name.

    Raises
    ------
    ParameterError
        If a setting is out of range.
    SchemaError
        If the schema has open bounds or levels, or a survey weight.
    """
    if schema is None:
        raise ParameterError("schema must be given to start a series")
    declared = schema_given(schema)
    if declared.undeclared:
        raise SchemaError(
            f"column {declared.undeclared[0]!r} must have declared bounds or levels, because a series discovers none"
        )
    refuse_weights(declared, by="a series")
    check_loss(given["epsilon"], given["delta"])
    neighbors_named(given["neighbors"])
    periods, most = whole("periods", given["periods"], least=1), given["max_periods_per_unit"]
    if most is None:
        most = 1 if given["privacy_unit"] is None else periods
    workload = given["workload"]
    return {
        "schema": json.loads(declared.to_json()),
        "epsilon": float(given["epsilon"]),
        "delta": float(given["delta"]),
        "periods": periods,
        "period": str(given["period"]),
        "neighbors": str(given["neighbors"]),
        "privacy_unit": given["privacy_unit"],
        "max_rows_per_unit": whole("max_rows_per_unit", given["max_rows_per_unit"], least=1),
        "max_periods_per_unit": whole("max_periods_per_unit", most, least=1, most=periods),
        "choose_again": bool(given["choose_again"]),
        "target": given["target"],
        "bins": whole("bins", given["bins"], least=2),
        "workload": None if workload is None else [sorted(one) for one in workload],
        "ledger": None if ledger is None else ledger.path.name,
        "dataset": None if ledger is None else dataset or "default",
    }


def ledger_of(ledger: str | PathLike[str] | Ledger | None, *, dataset: str | None, key: bytes | None) -> Ledger | None:
    """Return the ledger that records a series or panel; ``None`` if no ledger is given.

    Raises
    ------
    ParameterError
        If a dataset is named without a ledger, or the key of the private files is too short.
    """
    if dataset is not None and ledger is None:
        raise ParameterError(f"dataset ({dataset!r}) is a name in a ledger: give the ledger too, or leave both out")
    if key is not None and (not isinstance(key, bytes) or len(key) < LEAST_KEY):
        raise ParameterError(f"key must be bytes, of length {LEAST_KEY} or more")
    return Ledger(ledger) if ledger is not None and not isinstance(ledger, Ledger) else ledger


def check_loss(epsilon: float, delta: float) -> None:
    """Raise ParameterError unless epsilon is within `EPSILONS` and delta above 0 and below 1, for a series or panel.

    Series and panels have Gaussian noise, which needs a delta.
    """
    check_number("epsilon", epsilon, least=EPSILONS[0], most=EPSILONS[1])
    check_number("delta", delta, above=0, below=1)


def check_same(known: Mapping[str, Any], schema: Any, **given: Any) -> None:
    """Raise ParameterError if settings differ from the settings of the series or panel in the folder.

    Nothing is checked without a schema, because the folder's settings are used then.

    Raises
    ------
    ParameterError
        If a setting differs; the message names the first one.
    """
    if schema is None:
        return
    if json.loads(schema_given(schema).to_json()) != known["schema"]:
        raise ParameterError(
            "schema differs from the schema of the series or panel in the folder: pass that schema, or another path"
        )
    for name, value in given.items():
        if value != known[name]:
            raise ParameterError(
                f"{name} is {value!r}, but the series or panel in the folder has {known[name]!r}: pass "
                f"{known[name]!r}, or another path"
            )
