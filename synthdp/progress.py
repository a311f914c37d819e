"""Progress of a long run: a callback with public numbers only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run is.

    Parameters
    ----------
    stage
        What begins now.
    done, total
        Stages finished, and stages in all.
    """

    stage: str
    done: int
    total: int


ProgressCallback: TypeAlias = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """Show nothing."""
