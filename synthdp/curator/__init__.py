"""The only code that touches private rows.  This file is the door: others may name what it names, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from synthdp.curator.curator import Curator
from synthdp.curator.ledger import DEFAULT_DATASET, Ledger
from synthdp.privacy.loss import ApproxDP
from synthdp.privacy.neighbors import Adjacency, Neighbors
from synthdp.schema.schema import Schema

if TYPE_CHECKING:  # what only some questions and series need is loaded by them
    from synthdp.curator.discovery import Discovered as Discovered
    from synthdp.curator.panel_room import PanelRoom as PanelRoom
    from synthdp.curator.series_room import SeriesRoom as SeriesRoom
    from synthdp.curator.sparse_vector import SparseVector as SparseVector

__all__ = ["Curator", "Ledger", "open_panel", "open_series"]


def open_series(
    folder: Path,
    *,
    schema: Schema,
    loss: ApproxDP,
    adjacency: Adjacency,
    periods: int,
    most_periods: int = 1,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    key: bytes | None = None,
) -> SeriesRoom:
    """Return the trusted side of a series of releases; see `SeriesRoom` and `SeriesTerms`, whose parameters these are.

    Costs nothing yet: its first period costs ``loss``, for these neighbours.
    """
    from synthdp.curator.series_room import SeriesRoom
    from synthdp.curator.series_terms import SeriesTerms

    terms = SeriesTerms(loss=loss, adjacency=adjacency, periods=periods, most_periods=most_periods)
    return SeriesRoom(
        folder,
        schema=schema,
        terms=terms,
        ledger=ledger,
        dataset=DEFAULT_DATASET if dataset is None else dataset,
        key=key,
    )


def open_panel(
    folder: Path,
    *,
    schema: Schema,
    loss: ApproxDP,
    unit: str,
    periods: int,
    window: int,
    bins: int,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    key: bytes | None = None,
) -> PanelRoom:
    """Return the trusted side of a panel; see `PanelRoom` and `SeriesTerms`, whose parameters these are.

    Costs nothing yet: its first period costs ``loss``, for panels that differ in all rows of one person.
    """
    from synthdp.curator.panel_room import PanelRoom
    from synthdp.curator.series_terms import SeriesTerms

    adjacency = Adjacency(Neighbors.ADD_REMOVE, unit, 1)
    terms = SeriesTerms(
        loss=loss, adjacency=adjacency, periods=periods, most_periods=periods, window=window, bins=bins
    )  # fmt: skip
    return PanelRoom(
        folder, schema=schema, terms=terms, ledger=ledger, dataset=DEFAULT_DATASET if dataset is None else dataset, key=key
    )  # fmt: skip
