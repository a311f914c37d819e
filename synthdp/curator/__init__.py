"""The only code that touches private rows.  This file is the door: others may name what it names, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synthdp.curator.ledger import DEFAULT_DATASET, Ledger
from synthdp.privacy.loss import ApproxDP, PrivacyLoss
from synthdp.privacy.neighbors import Adjacency, Neighbors
from synthdp.schema.schema import Schema

if TYPE_CHECKING:  # what reads rows is loaded where it is first used: the server of the page never does
    from synthdp.curator.curator import Curator
    from synthdp.curator.discovery import Discovered as Discovered
    from synthdp.curator.panel_room import PanelRoom as PanelRoom
    from synthdp.curator.series_room import SeriesRoom as SeriesRoom
    from synthdp.curator.sparse_vector import SparseVector as SparseVector

__all__ = ["Curator", "Ledger", "forecast_tables", "open_panel", "open_series"]


def __getattr__(name: str) -> Any:
    """Return `Curator`, imported at its first use: importing this package alone loads no code that reads private rows.

    Any other name raises AttributeError.
    """
    if name != "Curator":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from synthdp.curator.curator import Curator

    globals()[name] = Curator
    return Curator


def forecast_tables(
    tables: Mapping[str, Schema], adjacency: Adjacency, loss: PrivacyLoss, *, rows: Mapping[str, float]
) -> dict[str, Discovered]:
    """Forecast `Curator.discover_tables`: return, by table, a `Discovered` without findings.

    Its field ``least`` holds the number of rows below which noise will hide a value, as a mean over the table's
    undeclared columns.  A caller can see before spending whether the budget is large enough.

    Costs nothing: it uses public numbers only.

    Parameters
    ----------
    tables
        Schemas of the tables with open columns, by name.
    adjacency
        The neighbours of the database.
    loss
        The account's budget, such as Gaussian DP.
    rows
        The assumed number of rows of each table.

    Raises
    ------
    SchemaError
        If levels are open and the loss has no delta.
    """
    from synthdp.curator.discovery_forecast import of_tables

    return of_tables(tables, adjacency, loss, rows=rows)


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
    """Return a `SeriesRoom`: the side of a series of releases that reads the private rows of each period.

    `SeriesRoom` and `SeriesTerms` describe the parameters.

    Costs nothing yet: its first period costs ``loss``, for the neighbours of ``adjacency``.
    """
    from synthdp.curator.series_account import SeriesTerms
    from synthdp.curator.series_room import SeriesRoom

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
    """Return a `PanelRoom`, which reads the private rows of each period of a panel: the same persons in all periods.

    `PanelRoom` and `SeriesTerms` describe the parameters.

    Costs nothing yet: its first period costs ``loss``, for panels that differ in all rows of one person.
    """
    from synthdp.curator.panel_room import PanelRoom
    from synthdp.curator.series_account import SeriesTerms

    adjacency = Adjacency(Neighbors.ADD_REMOVE, unit, 1)
    terms = SeriesTerms(
        loss=loss, adjacency=adjacency, periods=periods, most_periods=periods, window=window, bins=bins
    )  # fmt: skip
    return PanelRoom(
        folder, schema=schema, terms=terms, ledger=ledger, dataset=DEFAULT_DATASET if dataset is None else dataset, key=key
    )  # fmt: skip
