"""A package of somebody else: a mechanism, a source and a column type that synthdp finds by name."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

import pandas as pd
from guide.beta_prior import BetaShares

from synthdp.schema.columns import Ordinal, register
from synthdp.tables.dataframe import FrameSource


@dataclass(frozen=True, slots=True)
class FairCoins(BetaShares):
    """Shares of yes under a strong prior: `mechanism="fair_coins"`."""

    yes: float = 50.0
    no: float = 50.0


def jsonl_source(path: str | PathLike[str]) -> FrameSource:
    """Return the rows of a file of JSON lines: `synthdp release table.jsonl`."""
    return FrameSource(pd.read_json(path, lines=True))


@register
@dataclass(frozen=True, slots=True)
class Compass(Ordinal):
    """A direction of the wind: `{"type": "compass"}` in a schema file."""

    levels: tuple[str, ...] | None = ("north", "east", "south", "west")
