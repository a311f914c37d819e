"""Progress of a long run: a callback with public numbers only, and how much time is left."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a run: the stage that begins, and the number of finished stages.

    Parameters
    ----------
    stage
        Name of the stage that begins now.
    done, total
        Stages finished, and stages in all.
    """

    stage: str
    done: int
    total: int


ProgressCallback: TypeAlias = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """Do nothing: the default progress callback."""


SHARES = (
    {"reading": 0.03, "discovery": 0.05, "one-ways": 0.1, "pairs": 0.12, "second stage": 0.2, "fit": 0.5},
    {"drawing rows": 0.3, "columns": 0.3, "accuracy": 0.1, "pairs of columns": 0.3},
)
"""Fractions of the run time of each stage, for a release and for the files written after it.  Derived: measured for four
sizes of the Adult table (3 000 to 195 000 rows, 5 and 15 columns), and rounded; a wrong fraction only makes the forecast
of time wrong."""

LEAST_SHARE = 0.05
"""Fraction of the work that must be done before the time left is shown: less is no base for a forecast.  A convention.
"""

WAITING = 0.95
"""Largest fraction of a running stage that counts as done, so that a slow stage never seems finished.  A convention."""


class TimeLeft:
    """Forecasts the time left of a run, from the time that its stages took so far.

    Parameters
    ----------
    clock
        Returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._shares: dict[str, float] | None = None
        self._begun = self._stage_begun = clock()
        self._before, self._share = 0.0, 0.0

    def enter(self, progress: Progress) -> None:
        """Record that a stage begins now, so that `share` and `seconds` can forecast its end."""
        now = self._clock()
        shares = next((one for one in SHARES if progress.stage in one), None)
        if shares is None or shares is not self._shares:  # another run begins, or it knows its own numbers
            if shares is not None or progress.done == 0:
                self._begun = now
            self._shares = shares
        self._stage_begun = now
        if shares is None:
            self._before, self._share = progress.done / max(progress.total, 1), 1 / max(progress.total, 1)
        else:
            names = list(shares)
            self._before = sum(shares[name] for name in names[: names.index(progress.stage)])
            self._share = shares[progress.stage]

    @property
    def share(self) -> float:
        """The forecast fraction of the run that is done, from 0 to 1."""
        if self._before < LEAST_SHARE:
            return self._before
        expected = self._share * (self._stage_begun - self._begun) / self._before
        inside = (self._clock() - self._stage_begun) / expected if expected > 0 else 1.0
        return self._before + self._share * min(inside, WAITING)

    @property
    def seconds(self) -> float | None:
        """The forecast number of seconds left, ``None`` while too little is done."""
        done = self.share
        return None if done < LEAST_SHARE else (self._clock() - self._begun) * (1 - done) / done

    def __str__(self) -> str:
        """Return the time left in words; empty while it is not known."""
        seconds = self.seconds
        if seconds is None:
            return ""
        return f"about {seconds:.0f} s left" if seconds < 90 else f"about {seconds / 60:.0f} min left"
