"""What the tests of the benchmarks share: their modules, imported as their scripts import each other."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

UTILITY = Path(__file__).parents[2] / "benchmarks" / "utility"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Import a module of the benchmarks, as its scripts do; nothing of it is left behind."""
    monkeypatch.syspath_prepend(str(UTILITY))
    known = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - known:
        if str(UTILITY) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
