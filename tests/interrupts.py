"""Interrupts at every step: a program is run again and again, each time struck one step later."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

CALLS = ("open", "fsync", "mkdir", "rename", "close", "unlink", "stat")
"""Calls of the system that writing and continuing a folder are made of."""


class Striker:
    """Counts steps, and raises an error at one of them."""

    def __init__(self, at: int, error: BaseException) -> None:
        self.at, self.error, self.steps = at, error, 0

    def step(self) -> None:
        self.steps += 1
        if self.steps == self.at:
            raise self.error

    @contextmanager
    def lines(self, *files: str) -> Iterator[None]:
        """Every line of some files is a step, the fault coming before it."""

        def traced(frame: FrameType, event: str, _: Any) -> Any:
            if not frame.f_code.co_filename.endswith(files):
                return None
            if event == "line":
                self.step()
            return traced

        before = sys.gettrace()
        sys.settrace(traced)
        try:
            yield
        finally:
            sys.settrace(before)

    @contextmanager
    def calls(self, *, after: bool) -> Iterator[None]:
        """Every call of the system is a step, the fault coming before or after it."""
        with pytest.MonkeyPatch.context() as patch:
            for name in CALLS:
                patch.setattr(os, name, self._struck(getattr(os, name), after=after))
            yield

    def _struck(self, call: Callable[..., Any], *, after: bool) -> Callable[..., Any]:
        def before_it(*arguments: Any, **options: Any) -> Any:
            self.step()
            return call(*arguments, **options)

        def after_it(*arguments: Any, **options: Any) -> Any:
            found = call(*arguments, **options)
            self.step()
            return found

        return after_it if after else before_it
