"""``synthdp risk``: attacks on a synthetic table, with a control group.  Exit 1 where a threshold is broken."""

from __future__ import annotations

import json
from pathlib import Path

import click

import synthdp
from synthdp.cli.progress import progress_bar
from synthdp.cli.reading import csv_options, read_as, table_at
from synthdp.errors import ParameterError
from synthdp.schema.csv_format import CsvFormat

PATH = click.Path(path_type=Path)


@click.command()
@click.argument("real", type=PATH)
@click.argument("synthetic", type=PATH)
@click.option("--holdout", type=PATH, required=True, help="Real rows that the synthetic table was not made of.")
@click.option("--keys", required=True, metavar="A,B", help="Columns that an attacker knows of a person.")
@click.option(
    "--target", "targets", multiple=True, metavar="COLUMN", help="What the attacker tries to learn; repeatable."
)
@click.option("--schema", "schema_path", type=PATH, help="The schema, JSON; default: values as they are written.")
@click.option(
    "--threshold", "texts", multiple=True, metavar="MEASURE=SHARE",
    help="The most that people in the table may be worse off, as membership=0.02; set it before you look; repeatable.",
)  # fmt: skip
@click.option("--out", type=PATH, help="A page with a red banner, HTML.")
@click.option("--publishable", "summary", type=PATH, help="Pass or fail of each threshold, without a figure, JSON.")
@click.option("--seed", type=int, default=0, show_default=True, help="Which people are attacked.")
@csv_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
def risk(
    real: Path,
    synthetic: Path,
    holdout: Path,
    keys: str,
    targets: tuple[str, ...],
    schema_path: Path | None,
    texts: tuple[str, ...],
    out: Path | None,
    summary: Path | None,
    seed: int,
    told: CsvFormat,
    as_json: bool,
) -> None:
    """Attack a SYNTHETIC table made of REAL rows, and compare with people who were not in it.  Not private.

    Exit 1 if a threshold is broken.  The result must not be published, but for what --publishable writes.

    \b
    Example:
      synthdp risk in.csv synthetic.csv --holdout out.csv --keys age,sex,education --target income --json
    """
    from synthdp.publishing import check_places, whole_file

    check_places((out, summary), inputs=(real, synthetic, holdout, schema_path))
    schema = None if schema_path is None else synthdp.Schema.read(schema_path)
    csv = None if schema is None else schema.csv
    tables = table_at(real, told, csv), table_at(synthetic, CsvFormat()), table_at(holdout, told, csv)
    if schema is not None:
        schema = read_as(schema, told).part([name for name in schema if name in tables[1].names])
    with progress_bar() as on_progress:
        found = synthdp.nonprivate_risk(
            *tables, keys=[key.strip() for key in keys.split(",") if key.strip()], target=targets, schema=schema,
            thresholds=_thresholds(texts), random_state=seed, on_progress=on_progress,
        )  # fmt: skip
    if out is not None:
        with whole_file(out) as scratch:
            found.write(scratch)
    if summary is not None:
        with whole_file(summary) as scratch:
            scratch.write_text(json.dumps(found.publishable(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    click.echo(json.dumps(found.to_document(), ensure_ascii=False) if as_json else str(found))
    if not found.passed:
        click.get_current_context().exit(1)


def _thresholds(texts: tuple[str, ...]) -> dict[str, float]:
    thresholds: dict[str, float] = {}
    for text in texts:
        name, found, value = text.partition("=")
        try:
            thresholds[name.strip()] = float(value)
        except ValueError:
            found = ""
        if not found:
            raise ParameterError(f"--threshold ({text!r}) must read MEASURE=SHARE, as membership=0.02")
    return thresholds
