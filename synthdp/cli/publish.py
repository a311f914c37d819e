"""The command ``synthdp publish``: one folder with all files to publish, from a private table or a saved release."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import click

import synthdp
from synthdp.cli.reading import csv_options, progress_bar, read_as, table_at
from synthdp.errors import ParameterError

PATH = click.Path(path_type=Path)
"""The click type of path arguments."""


@click.command()
@click.argument("table", type=PATH)
@click.option("--out", "folder", type=PATH, required=True, help="The folder to write, whole or not at all.")
@click.option("--schema", "schema_path", type=PATH, help="The schema, JSON; for a private TABLE.")
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="The privacy loss.")
@click.option("--delta", type=float, default=1e-9, show_default=True, help="Slack; 0 for pure epsilon.")
@click.option("--neighbors", default="add_remove", show_default=True, help="add_remove or replace_one.")
@click.option("--privacy-unit", help="Column that names whom to protect; default: every row.")
@click.option("--max-rows-per-unit", type=int, default=1, show_default=True)
@click.option("--target", help="A column whose relations matter most.")
@click.option("--mechanism", default="auto", show_default=True, help="As for `synthdp release`.")
@click.option("--weight", metavar="COLUMN", help="The survey weight of each row; see --weight-bounds.")
@click.option("--weight-bounds", type=float, nargs=2, metavar="LOW HIGH", help="Public bounds of the weight, above 0.")
@click.option("--ledger", type=PATH, help="A ledger to record the spend in.")
@click.option("--dataset", help="The table's name in the ledger.")
@click.option("--rows", type=int, help="Rows of the synthetic table; default: the noisy estimate of the real number.")
@click.option("--format", "form", type=click.Choice(["csv", "parquet"]), default="csv", show_default=True)
@click.option("--title", default="Synthetic table", show_default=True, help="Of the table.")
@click.option("--publisher", help="Who publishes it.")
@click.option("--region", help="Which region it describes.")
@click.option("--sector", help="One of the registry's: Government, Healthcare, Education, Finance, Energy, Technology.")
@click.option("--use", help="What it is meant for, one sentence.")
@click.option("--contact", help="Whom a reader asks about the table, for example an address.")
@click.option("--dictionary", type=PATH, help="A CSV file with column, unit and meaning, for the report.")
@click.option("--date", help="Of publication, YYYY-MM-DD; default: today.")
@click.option("--sign", "key", type=PATH, help="A private key of ssh-keygen or minisign to sign the checksums with.")
@click.option("--seed", type=int, default=None, help="Seed of the sampling; it never reaches noise.")
@csv_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
def publish(
    table: Path,
    folder: Path,
    schema_path: Path | None,
    epsilon: float,
    delta: float,
    neighbors: str,
    privacy_unit: str | None,
    max_rows_per_unit: int,
    weight: str | None,
    weight_bounds: tuple[float, float] | None,
    target: str | None,
    mechanism: str,
    ledger: Path | None,
    dataset: str | None,
    rows: int | None,
    form: str,
    title: str,
    publisher: str | None,
    region: str | None,
    sector: str | None,
    use: str | None,
    contact: str | None,
    dictionary: Path | None,
    date: str | None,
    key: Path | None,
    seed: int | None,
    told: synthdp.CsvFormat,
    as_json: bool,
) -> None:
    """Write one folder to publish: table, report, dictionary, receipt, card, label, registry entry, README, checksums.

    TABLE is a private table with its schema, which is released at the given loss; or a saved release, which costs nothing.

    \b
    Examples:
      synthdp publish table.csv --schema schema.json --epsilon 1 --out folder
      synthdp publish table.release --out folder --title "Survey of 2026" \\
          --publisher "Office of Statistics"
    """
    from synthdp.dossier import is_release, publish_folder, write_folder
    from synthdp.estimators.synthetic_release import SyntheticRelease
    from synthdp.publishing import check_places
    from synthdp.report.dictionary import read_descriptions
    from synthdp.report.guidelines import PUBLISHER, About

    check_places((folder,), inputs=(table, schema_path, ledger, key, dictionary))
    today = dt.datetime.now(dt.UTC).date().isoformat()
    units, meanings = ({}, {}) if dictionary is None else read_descriptions(dictionary)
    about = About(
        title=title, publisher=publisher or PUBLISHER, region=region or PUBLISHER, sector=sector, use=use or PUBLISHER,
        contact=contact or PUBLISHER, date=date or today, units=units, meanings=meanings,
    )  # fmt: skip
    ending = f".{form}"
    if is_release(table):
        if schema_path is not None or ledger is not None:
            raise ParameterError("a saved release needs neither --schema nor --ledger: leave both out")
        release = synthdp.load(table)
        with progress_bar() as on_progress:
            count = write_folder(
                release, folder, about=about, ending=ending, rows=rows, key=key, target=target, random_state=seed,
                on_progress=on_progress,
            )  # fmt: skip
        _tell(folder, count, as_json=as_json)
        return
    if schema_path is None:
        raise ParameterError(f"'{table}' is not a saved release, and a table needs a schema: give --schema")
    if dataset is not None and ledger is None:
        raise ParameterError("--dataset names the table in a ledger: give --ledger too, or leave --dataset out")
    declared = synthdp.Schema.read(schema_path)
    source = table_at(table, told, declared.csv)
    with progress_bar() as on_progress:
        settings = SyntheticRelease(
            schema=read_as(declared, told), epsilon=epsilon, delta=delta, neighbors=neighbors, n_rows=rows, target=target,
            mechanism=mechanism, privacy_unit=privacy_unit, max_rows_per_unit=max_rows_per_unit, weight=weight,
            weight_bounds=weight_bounds, ledger=ledger, dataset=dataset, domain_budget=0.3, undiscovered="leave_out",
            random_state=seed, on_progress=on_progress,
        )  # fmt: skip
        count = publish_folder(
            source, settings, folder, about=about, ending=ending, rows=rows, key=key, on_progress=on_progress
        )
    _tell(folder, count, as_json=as_json)


def _tell(folder: Path, count: int, *, as_json: bool) -> None:
    """Print the number of written rows and the folder, as text or JSON."""
    click.echo(
        json.dumps({"rows": count, "out": str(folder)}) if as_json else f"{count} synthetic rows, to publish: {folder}"
    )
