"""Faults at call boundaries: run a job in a thread of its own and raise when a function of synthdp is called.

A boundary is one call of a function of the package, after the ledger has charged the job: the name of the function, and
the how many-th call of it this is.  One fault is raised in a run, of a kind that no code expects, at the beginning of the
call.  What is left is then looked at by the caller.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import numpy as np
from strictness import warnings_kept

from synthdp.curator.ledger import Ledger
from synthdp.errors import SalvageWarning

KINDS = (MemoryError, ValueError, np.linalg.LinAlgError, ImportError, ZeroDivisionError, KeyError)
MARK = "injected fault"
_CHARGE = Ledger.reserve.__code__

Boundary = tuple[str, int]


@dataclass
class Run:
    """What came of a job: its result or its error, what it warned of, and the boundaries that it passed."""

    passed: list[Boundary] = field(default_factory=list)
    fired: bool = False
    result: Any = None
    error: BaseException | None = None
    salvaged: list[str] = field(default_factory=list)


def name_of(frame: FrameType) -> str | None:
    """Return the name of a function of the package; none for finalisers, whose errors Python itself swallows."""
    module, name = frame.f_globals.get("__name__", ""), frame.f_code.co_qualname
    return f"{module}:{name}" if module.startswith("synthdp.") and not name.endswith("__del__") else None


def run(job: Callable[[], Any], boundary: Boundary | None = None, kind: type[Exception] = MemoryError) -> Run:
    """Run a job, with a fault at a boundary, and return what came of it."""
    found, seen = Run(), Counter[str]()
    charged = [False]

    def until_charged(_: FrameType, event: str, __: object) -> object:
        charged[0] = charged[0] or event == "return"
        return until_charged

    def trace(frame: FrameType, _: str, __: object) -> object:  # called at calls only: no frame is traced line by line
        if frame.f_code is _CHARGE:
            return until_charged
        if not charged[0] or (name := name_of(frame)) is None:
            return None
        seen[name] += 1
        if boundary is None:
            found.passed.append((name, seen[name]))
        elif (name, seen[name]) == boundary:
            found.fired = True
            sys.settrace(None)
            raise kind(MARK)
        return None

    def work() -> None:
        sys.settrace(trace)
        try:
            found.result = job()
        except BaseException as error:  # noqa: BLE001 - it is what is looked for
            found.error = error
        finally:
            sys.settrace(None)

    def swallowed(what: Any) -> None:  # by Python itself, as of a generator that is closed: no fault of the run
        found.fired = found.fired and MARK not in str(what.exc_value)

    with warnings_kept() as said:
        thread, before = threading.Thread(target=work), sys.unraisablehook
        sys.unraisablehook = swallowed
        try:
            thread.start()
            thread.join()
        finally:
            sys.unraisablehook = before
    found.salvaged = [str(one.message) for one in said if issubclass(one.category, SalvageWarning)]
    return found


def stratified(passed: Iterable[Boundary], points: int) -> list[Boundary]:
    """Return so many boundaries, evenly spaced, functions that are called seldom before calls of those called often."""
    boundaries = list(passed)
    most = Counter(name for name, _ in boundaries)
    ranks = sorted(boundaries, key=lambda one: _rank(one[1], most[one[0]]))
    every = [one for one in ranks if _rank(one[1], most[one[0]]) == 0]
    if points <= len(every):
        places = np.linspace(0, len(every) - 1, points).astype(int)
        return [every[place] for place in places]
    return ranks[:points]


def _rank(number: int, most: int) -> int:
    """Return how late a call of a function is taken: the first first, then the last, then those between."""
    return 0 if number == 1 else 1 if number == most else 1 + number


def kinds() -> Iterable[type[Exception]]:
    """Return the kinds of faults, one after the other, for ever."""
    return itertools.cycle(KINDS)
