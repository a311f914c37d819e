"""Commands about what was released: ``synthdp answer``, ``report`` and ``nonprivate-evaluate``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

import synthdp
from synthdp.cli.files import whole_file
from synthdp.cli.reading import csv_options, read_as, table_at
from synthdp.errors import ParameterError
from synthdp.schema.csv_format import CsvFormat

AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
FOLDER = click.argument("folder", type=click.Path(path_type=Path))


@click.command()
@FOLDER
@click.option("--marginal", "by", is_flag=True, help="Counts by the values of COLUMNS, which follow the options.")
@click.option("--count", "condition", help="How many rows meet a condition.")
@click.option("--mean", "mean_of", metavar="COLUMN", help="The mean of a column.")
@click.option("--quantile", "quantile_of", metavar="COLUMN", help="Quantiles of a column; see --q.")
@click.option("--q", "shares", type=float, multiple=True, help="Shares for --quantile; default .25, .5 and .75.")
@click.option("--where", help="A condition for --mean and --quantile.")
@click.option("--bins", type=int, help="Equal cells of columns of numbers, for --marginal.")
@click.argument("columns", nargs=-1)
@AS_JSON
def answer(
    folder: Path,
    by: bool,
    condition: str | None,
    mean_of: str | None,
    quantile_of: str | None,
    shares: tuple[float, ...],
    where: str | None,
    bins: int | None,
    columns: tuple[str, ...],
    as_json: bool,
) -> None:
    """Answer a question from a saved release, with standard error and 95 % interval; this costs no privacy.

    \b
    Examples:
      synthdp answer table.release --marginal age income
      synthdp answer table.release --count "age >= 40 and income == '>50K'"
      synthdp answer table.release --mean hours-per-week --where "sex == 'Female'"
      synthdp answer table.release --quantile age --q 0.1 --q 0.9 --json
    """
    if by + sum(given is not None for given in (condition, mean_of, quantile_of)) != 1:
        raise ParameterError("ask one question: --marginal COLUMNS, --count, --mean or --quantile")
    if columns and not by:
        raise ParameterError(f"{columns[0]!r} is no option; columns are named after --marginal")
    question: Any
    if by:
        names = synthdp.load(folder).output.schema.outputs
        limits = None if bins is None else {name: bins for name in columns if _is_number(names.get(name))}
        question = synthdp.marginal(*columns, bins=limits)
    elif condition is not None:
        question = synthdp.count(condition)
    elif mean_of is not None:
        question = synthdp.mean(mean_of, where=where)
    else:
        question = synthdp.quantile(str(quantile_of), shares or (0.25, 0.5, 0.75), where=where)
    answers = synthdp.load(folder).answer(question)
    if as_json:
        click.echo(answers.to_json(orient="records", date_format="iso", force_ascii=False))
    else:
        click.echo(answers.to_string(index=False, na_rep="missing", float_format=lambda value: f"{value:.4f}"))


@click.command()
@FOLDER
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The page, HTML.")
@click.option("--title", help="Of the page.")
@AS_JSON
def report(folder: Path, out: Path, title: str | None, as_json: bool) -> None:
    """Write a publishable page about a saved release: its privacy card, distributions, associations, accuracy.

    Made from the release alone; needs no network; prints to PDF from any browser.

    \b
    Example:
      synthdp report table.release --out report.html
    """
    from synthdp.estimators.synthetic_release import write_report

    release = synthdp.load(folder)
    with whole_file(out) as scratch:
        write_report(release, scratch, title=title)
    click.echo(json.dumps({"report": str(out)}) if as_json else f"report: {out}")


@click.command("nonprivate-evaluate")
@click.argument("real", type=click.Path(path_type=Path))
@click.argument("synthetic", type=click.Path(path_type=Path))
@click.option("--schema", "schema_path", type=click.Path(path_type=Path), required=True, help="The schema, JSON.")
@click.option("--target", help="A column to predict, for machine-learning efficacy.")
@click.option("--out", type=click.Path(path_type=Path), help="A page with a red banner, HTML.")
@csv_options
@AS_JSON
def nonprivate_evaluate(
    real: Path,
    synthetic: Path,
    schema_path: Path,
    target: str | None,
    out: Path | None,
    told: CsvFormat,
    as_json: bool,
) -> None:
    """Compare a synthetic table with the REAL one.  Not private: the result must not be published.

    How a CSV file is read goes for the real table; the synthetic one is read as its first line suggests.

    \b
    Example:
      synthdp nonprivate-evaluate table.csv synthetic.csv --schema schema.json --target income
    """
    schema = synthdp.Schema.read(schema_path)
    if target is not None and target not in schema:
        raise ParameterError(f"there is no column {target!r}; the schema has: {', '.join(schema)}")
    tables = table_at(real, told, schema.csv), table_at(synthetic, CsvFormat())
    found = synthdp.nonprivate_evaluate(*tables, read_as(schema, told), target=target)
    if out is not None:
        with whole_file(out) as scratch:
            found.write(scratch)
    click.echo(json.dumps(found.to_document(), ensure_ascii=False) if as_json else str(found))


def _is_number(column: object) -> bool:
    return isinstance(column, (synthdp.Integer, synthdp.Continuous, synthdp.Datetime, synthdp.Duration))
