"""The commands ``synthdp series start``, ``add`` and ``status``: releases over time under one promise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

import synthdp
from synthdp.cli.reading import WholeHelp, csv_options, read_as, table_at
from synthdp.errors import DataError, ParameterError

SERIES, PANEL = "series.json", "panel.json"
"""Names of the settings files that mark a folder as a series or as a panel."""

OF_SERIES = {"neighbors": "add_remove", "max_rows_per_unit": 1, "max_periods_per_unit": None}
"""Options that a panel does not have, with their defaults; `start` refuses other values for a panel.  A convention."""


@click.group(cls=WholeHelp)
def series() -> None:
    """Release a table every period (month, week, ...), all under one promise that is paid for once."""


@series.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--schema", "schema_path", type=click.Path(path_type=Path), required=True, help="The schema, JSON.")
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="The privacy loss of the whole series.")
@click.option("--delta", type=float, default=1e-9, show_default=True, help="Slack, above 0.")
@click.option("--periods", type=int, default=12, show_default=True, help="How many periods there will be.")
@click.option("--period", default="period", show_default=True, help="What one is called, as month.")
@click.option("--neighbors", default="add_remove", show_default=True, help="add_remove or replace_one.")
@click.option("--privacy-unit", help="Column that names whom to protect; default: every row.")
@click.option("--max-rows-per-unit", type=int, default=1, show_default=True, help="In each period.")
@click.option("--max-periods-per-unit", type=int, help="Default: all periods.")
@click.option(
    "--keep-tables", is_flag=True, help="Choose tables on the first period alone: earlier rows are not read again."
)
@click.option("--ledger", type=click.Path(path_type=Path), help="A ledger to record the spend in, once.")
@click.option("--dataset", help="The table's name in the ledger.")
@click.option(
    "--panel", is_flag=True, help="The same persons every period: synthetic ones live on.  Needs --privacy-unit."
)
@click.option("--window", type=int, help="Of a panel: over how many periods relations hold.  Default: 3.")
@click.option("--bins", type=int, help="Of a panel: most states of a column of numbers.  Default: 4.")
def start(
    folder: Path,
    schema_path: Path,
    periods: int,
    keep_tables: bool,
    ledger: Path | None,
    dataset: str | None,
    panel: bool,
    window: int | None,
    bins: int | None,
    **options: Any,
) -> None:
    """Start a series or a panel in a new FOLDER: agree on the promise and pay for all of it; reads no row.

    \b
    Example:
      synthdp series start beds.series --schema beds.json --periods 12 \\
          --period month --ledger l.sqlite --dataset beds
    """
    if any((folder / name).exists() for name in (SERIES, PANEL)):
        raise DataError(f"'{folder}' holds a series already: add a period to that series, or give another folder")
    known: dict[str, Any] = {
        "schema": synthdp.Schema.read(schema_path),
        "periods": periods,
        "path": folder,
        "ledger": ledger,
    }
    made: synthdp.ReleaseSeries | synthdp.PanelSeries
    of_panel: dict[str, Any] = {
        name: value for name, value in (("window", window), ("bins", bins)) if value is not None
    }
    if panel:
        for name, usual in OF_SERIES.items():
            if options.pop(name) != usual or keep_tables:
                raise ParameterError(
                    f"--{name.replace('_', '-')} and --keep-tables do not apply to a panel: leave them out"
                )
        made = synthdp.PanelSeries(dataset=dataset, **known, **of_panel, **options)
    elif of_panel:
        raise ParameterError("--window and --bins apply to a panel only: give --panel too")
    else:
        made = synthdp.ReleaseSeries(dataset=dataset, choose_again=not keep_tables, **known, **options)
    made.start()
    click.echo(f"started '{folder}': {made.periods} periods, ε = {made.epsilon:g}, δ = {made.delta:g} for all of them")


@series.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("table", type=click.Path(path_type=Path))
@click.option(
    "--history", type=click.Path(path_type=Path), multiple=True, help="A table of earlier rows; repeatable, in order."
)
@click.option(
    "--corrections", type=click.Path(path_type=Path), help="Rows of earlier periods, as they were added, to take back."
)
@click.option(
    "--history-corrections",
    type=(int, click.Path(path_type=Path)),
    multiple=True,
    metavar="PERIOD FILE",
    help="What was taken back in an earlier period, counted from 1; repeatable.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="The synthetic rows of the period, which stay; csv or parquet."
)
@click.option(
    "--cumulative", type=click.Path(path_type=Path), help="A new synthetic table of all rows so far; csv or parquet."
)
@click.option("--report", "page", type=click.Path(path_type=Path), help="A publishable page about the series, HTML.")
@click.option("--seed", type=int, help="Seed of the sampling; it never reaches noise.")
@csv_options
def add(
    folder: Path, table: Path, history: tuple[Path, ...], corrections: Path | None,
    history_corrections: tuple[tuple[int, Path], ...], out: Path | None, cumulative: Path | None, page: Path | None,
    seed: int | None, told: synthdp.CsvFormat,
) -> None:  # fmt: skip
    """Add the rows of the next period, a private TABLE (CSV, or Parquet, Arrow, DuckDB or Excel by ending).

    In the third period give all earlier tables as --history once more: more rows choose better tables to measure.

    \b
    Example:
      synthdp series add beds.series march.csv --history january.csv \\
          --history february.csv --out march-synthetic.csv
    """
    if (folder / PANEL).is_file():
        if history or corrections or history_corrections or cumulative or page:
            raise ParameterError("a panel takes a table and --out only: leave the other options out")
        _add_to_panel(folder, table, out, seed, told)
        return
    made = _opened(folder, seed)
    back = [path for _, path in history_corrections]
    _check_places([out, cumulative, page], [table, *history, *back, *([] if corrections is None else [corrections])])
    schema = made.schema
    known = read_as(schema, told)
    earlier: list[Any] = [table_at(one, told, known.csv) for one in history]
    for number, path in history_corrections:
        if not 1 <= number <= len(earlier):
            raise DataError(
                f"--history-corrections names table {number} of --history, which has {len(earlier)}: give "
                f"a number from 1 to {len(earlier)}"
            )
        earlier[number - 1] = (earlier[number - 1], table_at(path, told, known.csv))
    release = made.add(
        table_at(table, told, known.csv), history=earlier or None,
        corrections=None if corrections is None else table_at(corrections, told, known.csv),
    )  # fmt: skip
    if out is not None:
        made.write_rows(made.added - 1, out)
    if cumulative is not None:
        made.cumulative_.sample_to(cumulative, random_state=seed)
    if page is not None:
        made.report(page)
    click.echo(f"added {made.period} {made.added} of {made.periods}: about {release.model.rows} synthetic rows")


def _add_to_panel(folder: Path, table: Path, out: Path | None, seed: int | None, told: synthdp.CsvFormat) -> None:
    """Add a period to a panel, and write all its synthetic rows so far.

    No rows come out before the first window of periods is full.
    """
    _check_places([out, None, None], [table])
    made = synthdp.PanelSeries(path=folder, random_state=seed)
    known = read_as(made.schema, told)
    rows = made.add(table_at(table, told, known.csv))
    if out is not None and rows is not None:
        made.write_rows(out)
    said = f"added {made.period} {made.added} of {made.periods}"
    if rows is None:
        click.echo(f"{said}: rows come out from {made.period} {made.window} on")
    else:
        click.echo(
            f"{said}: {rows['person'].nunique()} synthetic persons so far, {made.padding} of every sequence to pad"
        )


@series.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
def status(folder: Path, as_json: bool) -> None:
    """Say which periods were added, how many rows they have, and what was spent; reads no private file.

    \b
    Example:
      synthdp series status beds.series
    """
    if (folder / PANEL).is_file():
        panel = synthdp.PanelSeries(path=folder)
        if as_json:
            told = {"periods": panel.periods, "added": panel.added, "epsilon": panel.epsilon, "delta": panel.delta}
            click.echo(json.dumps({**told, "window": panel.window, "receipt": panel.receipt_.to_document()}))
        else:
            click.echo(f"{panel.added} of {panel.periods} periods of a panel\n{panel.receipt_}")
        return
    made = _opened(folder, None)
    counts = [] if not made.added else made.answer(synthdp.count(), by="period").to_dict("records")
    if as_json:
        document = {
            "periods": made.periods, "added": made.added, "epsilon": made.epsilon, "delta": made.delta, "rows": counts,
            "receipt": made.receipt_.to_document() if made.added else None,
        }  # fmt: skip
        click.echo(json.dumps(document))
        return
    click.echo(f"{made.added} of {made.periods} periods, ε = {made.epsilon:g}, δ = {made.delta:g} for all of them")
    for row in counts:
        click.echo(f"  {row['period']}: about {row['estimate']:.0f} rows, {row['lower']:.0f} to {row['upper']:.0f}")
    if made.added:
        click.echo(str(made.receipt_))


def _opened(folder: Path, seed: int | None) -> synthdp.ReleaseSeries:
    """Return the series in a folder; raise DataError if there is none."""
    if not (folder / SERIES).is_file():
        raise DataError(f"'{folder}' is not a series: start one with synthdp series start")
    return synthdp.ReleaseSeries(path=folder, random_state=seed)


def _check_places(places: list[Path | None], inputs: list[Path]) -> None:
    """Raise unless the first two output paths, of tables, end as tables do, and no output is an input or written twice.

    The check comes before any table is read.
    """
    from synthdp.publishing import check_ending, check_places

    for place in places[:2]:
        if place is not None:
            check_ending(place)
    check_places(places, inputs=inputs)
