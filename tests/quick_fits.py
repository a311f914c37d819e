"""Fits that end early, for tests that are not about how good a fit is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from synthdp.mechanisms.related import related_tables


@contextmanager
def few_sweeps() -> Iterator[None]:
    """Fit databases in two sweeps of a hundred persons."""
    fit = related_tables.fit_histories

    def quick(*given: Any, **options: Any) -> Any:
        return fit(*given, **options | {"sweeps": 2, "persons": 100})

    with patch.object(related_tables, "fit_histories", quick):
        yield
