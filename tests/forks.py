"""Processes that die or race, forked from the test's own: to start Python and load the libraries takes a second each."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial


@dataclass(frozen=True)
class Forked:
    """A child that was forked, and the end of the pipe into which it says something."""

    process: int
    pipe: int

    def ended(self) -> tuple[int, str]:
        """Wait for its end: its exit status, or the signal that killed it below zero, and all else that it said."""
        with os.fdopen(self.pipe, encoding="utf-8") as pipe:
            said = pipe.read()
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1]), said


def forked(work: Callable[[], int]) -> Forked:
    """Do some work in a child, which returns its exit status; what it writes to either stream goes into the pipe."""
    reads, writes = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks in a process with threads
        child = os.fork()
    if child:
        os.close(writes)
        return Forked(child, reads)
    status = 1
    try:
        os.dup2(writes, 2)
        sys.stdout = sys.stderr = os.fdopen(writes, "w", buffering=1, encoding="utf-8")
        status = work()
    except BaseException:  # noqa: BLE001 - nothing of the child may go on as a second test run
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def raced(works: Sequence[Callable[[], str]]) -> list[str]:
    """Do all works at once, each in a child, as soon as the last one is there; return what each returned."""
    gate, opens = os.pipe()

    def held_back(work: Callable[[], str]) -> int:
        os.close(opens)
        os.read(gate, 1)  # until nobody is left who could open the gate
        sys.stdout.write(work())
        return 0

    children = [forked(partial(held_back, work)) for work in works]
    os.close(opens)
    os.close(gate)
    ends = [child.ended() for child in children]
    assert [status for status, _ in ends] == [0] * len(works), ends
    return [said for _, said in ends]
