"""The differential tape: a run is recorded, and its noisy answers are replayed to the same run on a neighbouring table.

Wherever a private number meets noise (a vector, a choice, a histogram of keys, a watch) the second run must ask what the
first asked, in the same order, with the same law and scale; its exact numbers may differ from the first run's by no more
than the sensitivity that was stated, reckoned in whole numbers; and whatever leaves must be equal to the last byte.  What
differs beyond is a path from private rows to the output that the noise does not cover.
"""

from __future__ import annotations

import contextlib
import io
import logging
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from no_noise import EXACT
from strictness import warnings_kept

from synthdp.measurements import NoiseLaw
from synthdp.privacy import calibration, noise
from synthdp.privacy.above_threshold import AboveThresholdPlan
from synthdp.privacy.calibration import Calibration, Selection
from synthdp.privacy.key_histogram import HistogramPlan

Run = Callable[[Path], Mapping[str, Any]]
"""What is done with one table, in a folder of its own; returns what leaves, by name."""


class OffTape(BaseException):
    """The second run asked what the first did not; no handler of the package may catch it."""


@dataclass(frozen=True)
class Question:
    """One place at which noise was asked for: all of it but the exact numbers is public."""

    public: tuple[Any, ...]
    exact: Mapping[Any, int]
    sensitivity: float
    law: NoiseLaw
    answer: Any


@dataclass
class Tape:
    """What was asked and answered, in order; with ``earlier``, answers come from there."""

    earlier: list[Question] | None = None
    asked: list[Question] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    composed: list[Calibration] = field(default_factory=list)
    """Laplace noise that was paid for coordinate by coordinate: its sensitivity is of the largest one."""

    def answer(
        self,
        public: tuple[Any, ...],
        exact: Mapping[Any, int],
        sensitivity: float,
        law: NoiseLaw,
        fresh: Callable[[], Any],
    ) -> Any:
        """Return a fresh answer, or the earlier one."""
        if self.earlier is None:
            drawn = fresh()
            self.asked.append(Question(public, exact, sensitivity, law, drawn))
            return drawn
        place = len(self.asked)
        before = self.earlier[place] if place < len(self.earlier) else None
        if before is None or before.public != public:
            self._fault(f"question {place} is {public}, not {before and before.public}")
        self.asked.append(Question(public, exact, sensitivity, law, before.answer))
        moved = [exact.get(one, 0) - before.exact.get(one, 0) for one in {**exact, **before.exact}]
        if not within(moved, law, sensitivity):
            self.faults.append(f"question {place} moved by {_size(moved, law):g}, not by {sensitivity:g}: {public}")
        self.ratios.append(_size(moved, law) / sensitivity)
        return before.answer

    def _fault(self, said: str) -> None:
        self.faults.append(said)
        raise OffTape(said)


def within(moved: list[int], law: NoiseLaw, sensitivity: float) -> bool:
    """Say whether a change has a norm of at most the sensitivity, in exact arithmetic."""
    most = Fraction(sensitivity)
    match law:
        case NoiseLaw.LAPLACE:
            return sum(map(abs, moved)) <= most
        case NoiseLaw.GAUSSIAN:
            return sum(one * one for one in moved) <= most * most
    return max(map(abs, moved), default=0) <= most


def _size(moved: list[int], law: NoiseLaw) -> float:
    match law:
        case NoiseLaw.LAPLACE:
            return float(sum(map(abs, moved)))
        case NoiseLaw.GAUSSIAN:
            return float(sum(one * one for one in moved)) ** 0.5
    return float(max(map(abs, moved), default=0))


def _numbered(values: Any) -> dict[int, int]:
    return dict(enumerate(np.asarray(values).tolist()))


@contextlib.contextmanager
def running(tape: Tape) -> Iterator[Tape]:
    """Put a tape into each place where a private number meets noise."""
    noised, chosen, found, silent = (
        Calibration.noised,
        Selection.chosen,
        HistogramPlan.noised,
        AboveThresholdPlan.is_silent,
    )
    composing, replays = calibration._composed_laplace, tape.earlier is not None

    def vector(self: Calibration, exact: Any) -> Any:
        law = NoiseLaw.LINF if self in tape.composed else self.noise.law
        public = (
            "vector",
            self.noise.law,
            self.noise.scale,
            len(exact),
            self.noise.k,
            self.resolution,
            self.sensitivity,
        )
        return tape.answer(public, _numbered(exact), self.sensitivity, law, lambda: noised(self, exact)).copy()

    def choice(self: Selection, scores: Any) -> int:
        public = ("choice", self.mechanism, self.scale, len(scores), self.sensitivity)
        return tape.answer(public, _numbered(scores), self.sensitivity, NoiseLaw.LINF, lambda: chosen(self, scores))

    def histogram(self: HistogramPlan, counts: Mapping[str, int]) -> dict[str, int]:
        public = ("histogram", self.law, self.scale, self.threshold, self.resolution, self.sensitivity)
        exact = {key: int(count) for key, count in counts.items()}
        return dict(tape.answer(public, exact, self.sensitivity, self.law, lambda: found(self, counts)))

    def watch(self: AboveThresholdPlan, deviation: int, *, threshold: int, level: int) -> bool:
        public = ("watch", self.level_scale, self.query_scale, threshold, self.answer.sensitivity)
        return tape.answer(
            public, {0: int(deviation)}, self.answer.sensitivity, NoiseLaw.LINF,
            lambda: silent(self, deviation, threshold=threshold, level=level),
        )  # fmt: skip

    def composed(norms: Any, loss: Any, *, k: int) -> Calibration:
        plan = composing(norms, loss, k=k)
        if plan.sensitivity == norms.linf:
            tape.composed.append(plan)
        return plan

    def off(*_: Any, **__: Any) -> Any:
        tape._fault("noise was drawn elsewhere than in the places that the tape knows")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Calibration, "noised", vector)
        patch.setattr(Selection, "chosen", choice)
        patch.setattr(HistogramPlan, "noised", histogram)
        patch.setattr(AboveThresholdPlan, "is_silent", watch)
        patch.setattr(calibration, "_composed_laplace", composed)
        if replays:
            patch.setattr(AboveThresholdPlan, "draw_level", lambda _: 0)  # hidden: nothing that leaves may depend on it
            for name in EXACT:
                patch.setattr(noise, name, off)
        yield tape


@dataclass(frozen=True)
class Comparison:
    """What two runs had in common."""

    faults: tuple[str, ...]
    questions: int
    ratios: tuple[float, ...]
    outcome: str
    """What the first run raised, by its type; empty if nothing."""

    @property
    def largest(self) -> float:
        """The largest change of an exact answer, as a share of its stated sensitivity."""
        return max(self.ratios, default=0.0)


def compared(first: Run, second: Run, folder: Path) -> Comparison:
    """Record the first run, replay its answers to the second, and say what differs."""
    with running(Tape()) as recording:
        expected = observed(first, folder)
    with running(Tape(earlier=recording.asked)) as tape:
        found = observed(second, folder)
    faults = list(tape.faults)
    if not faults and len(tape.asked) < len(recording.asked):
        faults.append(f"{len(tape.asked)} questions, not {len(recording.asked)}")
    different = [name for name in {**expected, **found} if expected.get(name) != found.get(name)]
    faults += [f"{name} differs: {_difference(expected.get(name), found.get(name))}" for name in different]
    outcome = expected["raised"][0] if expected["raised"] else ""
    return Comparison(tuple(faults), len(recording.asked), tuple(tape.ratios), outcome)


def observed(run: Run, folder: Path) -> dict[str, Any]:
    """Return everything that leaves a run: its results, files, warnings, log, what it prints, and what it raises."""
    place = folder / "run"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    said, log = io.StringIO(), _Kept()
    raised: tuple[str, ...] = ()
    results: Mapping[str, Any] = {}
    with (
        log,
        warnings_kept() as told,
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
    ):
        try:
            results = run(place)
        except Exception as error:  # noqa: BLE001 - whatever it is, a user sees it
            raised = _chain(error)
        except OffTape:
            pass  # the tape has it
    return {
        **{f"result {name}": value for name, value in results.items()},
        **{f"file {name}": content for name, content in files_of(place).items()},
        "warnings": [(one.category.__name__, str(one.message)) for one in told],
        "log": log.lines,
        "printed": said.getvalue(),
        "raised": raised,
    }


def files_of(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return the mode and the content of every file, by its path."""
    found = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): (path.stat().st_mode, path.read_bytes()) for path in found}


class _Kept(logging.Handler):
    """What the package logs, at any level, while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.logger = logging.getLogger("synthdp")

    def __enter__(self) -> None:
        self.before = self.logger.level
        self.logger.setLevel(logging.DEBUG)
        self.logger.addHandler(self)

    def __exit__(self, *_: object) -> None:
        self.logger.removeHandler(self)
        self.logger.setLevel(self.before)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname} {record.getMessage()}")


def _chain(error: BaseException | None) -> tuple[str, ...]:
    """Return the types and texts of an error and of those that it remembers."""
    if error is None:
        return ()
    return (type(error).__name__, str(error), *_chain(error.__cause__ or error.__context__))


def _difference(first: Any, second: Any) -> str:
    """Return the first place at which two texts differ, for whoever has to mend it."""
    one, other = repr(first), repr(second)
    at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return f"...{one[max(0, at - 60) : at + 60]}... and ...{other[max(0, at - 60) : at + 60]}..."
