"""Commands about finished tables: ``synthdp answer``, ``report``, ``nonprivate-evaluate`` and ``risk``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

import synthdp
from synthdp.cli.reading import csv_options, progress_bar, read_as, table_at
from synthdp.errors import ParameterError, tell_of_budget

AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
"""The option --json."""

FOLDER = click.argument("folder", type=click.Path(path_type=Path))
"""The argument that names the folder of a saved release."""


KINDS = ("marginal", "count", "share", "sum", "mean", "variance", "quantile", "correlation", "regression")
"""Kinds of questions of ``synthdp answer``; each is an option and a function of the package."""

TAKEN_BY = {
    "q": ("quantile",), "bins": ("marginal",), "weight": ("count", "share", "sum", "mean"),
    "where": KINDS[2:], "by": KINDS[1:],
}  # fmt: skip
"""Kinds of questions that each option of ``synthdp answer`` works with.  A convention."""


@click.command()
@FOLDER
@click.option("--marginal", is_flag=True, help="Counts by the values of COLUMNS, which follow the options.")
@click.option("--count", metavar="CONDITION", help="How many rows meet a condition.")
@click.option("--share", metavar="CONDITION", help="Which part of the rows meets a condition.")
@click.option("--sum", metavar="COLUMN", help="The sum of a column.")
@click.option("--mean", metavar="COLUMN", help="The mean of a column.")
@click.option("--variance", metavar="COLUMN", help="The variance of a column.")
@click.option("--quantile", metavar="COLUMN", help="Quantiles of a column; see --q.")
@click.option("--correlation", nargs=2, metavar="COLUMN COLUMN", help="The correlation of two columns.")
@click.option("--regression", metavar="FORMULA", help="Coefficients of least squares: 'y ~ a + b'.")
@click.option(
    "--where", metavar="CONDITION", help="Of the rows that meet a condition; not with --marginal and --count."
)
@click.option("--by", multiple=True, metavar="COLUMN", help="One answer for each group of a column; repeatable.")
@click.option(
    "--weight", metavar="COLUMN", help="The survey weight of each row, for --count, --share, --sum and --mean."
)
@click.option("--q", type=float, multiple=True, help="Shares for --quantile; default .25, .5 and .75.")
@click.option("--bins", type=int, help="Equal cells of columns of numbers, for --marginal.")
@click.option("--of", metavar="TABLE", help="Of several tables: the one whose rows count, each once.")
@click.argument("columns", nargs=-1)
@AS_JSON
def answer(folder: Path, columns: tuple[str, ...], of: str | None, as_json: bool, **told: Any) -> None:
    """Answer a question from a saved release, with standard error and 95 % interval; this costs no privacy.

    \b
    Examples:
      synthdp answer table.release --marginal age income
      synthdp answer table.release --count "age >= 40 and income == '>50K'"
      synthdp answer table.release --mean hours-per-week \\
          --where "sex == 'Female'" --by income
      synthdp answer table.release --quantile age --q 0.1 --q 0.9 --json
      synthdp answer table.release --sum hours-per-week --weight fnlwgt
      synthdp answer table.release --correlation age hours-per-week
      synthdp answer table.release --regression "hours-per-week ~ age + sex"
      synthdp answer db.release --count "sex == 'f' and visits.year == 2019" \\
          --of persons
      synthdp answer db.release --share "visits.rows >= 2" --by sex
    """
    asked = [kind for kind in KINDS if told[kind] not in (None, False)]
    if len(asked) != 1:
        raise ParameterError(
            f"give exactly one question: --marginal COLUMNS, --{', --'.join(KINDS[1:-1])} or --{KINDS[-1]}"
        )
    (kind,) = asked
    if columns and kind != "marginal":
        raise ParameterError(f"names of columns may follow --marginal only: leave {columns[0]!r} out")
    for name, kinds in TAKEN_BY.items():
        if told[name] not in (None, ()) and kind not in kinds:
            raise ParameterError(
                f"--{name} works with --{', --'.join(kinds)} only, not with --{kind}: leave --{name} out"
            )
    question = _question(kind, told, columns)
    from synthdp.sampling.database_model import DatabaseModel

    release = synthdp.load(folder)
    several = isinstance(release.output, DatabaseModel)
    if of is not None and not several:
        raise ParameterError("--of is for a release of several tables only: leave --of out")
    if told["bins"] is not None and not several:
        known: Any = getattr(release.output, "schema", None) or release.model.schema
        names = known.outputs
        question = synthdp.marginal(
            *columns, bins={name: told["bins"] for name in columns if _is_number(names.get(name))}
        )
    answers = release.answer(question, of=of) if several else release.answer(question)
    if as_json:
        click.echo(answers.to_json(orient="records", date_format="iso", force_ascii=False))
    else:
        click.echo(answers.to_string(index=False, na_rep="missing", float_format=lambda value: f"{value:.4f}"))


def _question(kind: str, told: dict[str, Any], columns: tuple[str, ...]) -> Any:
    """Return the question that the options describe; a wrong text raises here, before the release is read."""
    ask, value = getattr(synthdp, kind), told[kind]
    options = {name: told[name] for name in ("where", "by", "weight") if kind in TAKEN_BY[name]}
    match kind:
        case "marginal":
            return ask(*columns, bins=told["bins"])
        case "correlation":
            return ask(*value, **options)
        case "quantile":
            return ask(value, told["q"] or (0.25, 0.5, 0.75), **options)
    return ask(value, **options)


@click.command()
@FOLDER
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The page, HTML.")
@click.option("--title", help="Of the page.")
@click.option("--publisher", help="Who publishes the table.")
@click.option("--use", help="What the table is meant for, one sentence.")
@click.option("--dictionary", type=click.Path(path_type=Path), help="A CSV file with column, unit and meaning.")
@click.option("--target", help="A column whose relations are shown first.")
@AS_JSON
def report(
    folder: Path,
    out: Path,
    title: str | None,
    publisher: str | None,
    use: str | None,
    dictionary: Path | None,
    target: str | None,
    as_json: bool,
) -> None:
    """Write a publishable page about a saved release: rows, distributions, associations, accuracy, its privacy card.

    Made from the release alone; needs no network; prints to PDF from any browser.

    \b
    Example:
      synthdp report table.release --out report.html
    """
    from synthdp.publishing import whole_file
    from synthdp.report import write_report
    from synthdp.report.dictionary import read_descriptions
    from synthdp.report.guidelines import PUBLISHER, About

    units, meanings = ({}, {}) if dictionary is None else read_descriptions(dictionary)
    about = About(publisher=publisher or PUBLISHER, use=use or PUBLISHER, units=units, meanings=meanings)
    release = synthdp.load(folder)
    with whole_file(out) as scratch, progress_bar() as on_progress:
        write_report(release, scratch, title=title, target=target, about=about, on_progress=on_progress)
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
    told: synthdp.CsvFormat,
    as_json: bool,
) -> None:
    """Compare a synthetic table with the REAL one.  Not private: the result must not be published.

    How a CSV file is read goes for the real table; the synthetic one is read as its first line suggests.  Columns that a
    release left out are not compared.

    \b
    Example:
      synthdp nonprivate-evaluate table.csv synthetic.csv --schema schema.json \\
          --target income
    """
    from synthdp.publishing import check_places, whole_file

    check_places((out,), inputs=(real, synthetic, schema_path))
    schema = synthdp.Schema.read(schema_path)
    if target is not None and target not in schema:
        raise ParameterError(f"--target: there is no column {target!r}; the schema has: {', '.join(schema)}")
    tables = table_at(real, told, schema.csv), table_at(synthetic, synthdp.CsvFormat())
    there = [name for name in schema if name in tables[1].names]
    if 0 < len(there) < len(schema) and target in (None, *there):
        for name in (name for name in schema if name not in there):
            click.echo(f"synthdp: column {name!r} is not in the synthetic table: it is not compared", err=True)
        schema = schema.part(there)
    with progress_bar() as on_progress:
        found = synthdp.nonprivate_evaluate(*tables, read_as(schema, told), target=target, on_progress=on_progress)
    if out is not None:
        with whole_file(out, private=True) as scratch:
            found.write(scratch)
    click.echo(json.dumps(found.to_document(), ensure_ascii=False) if as_json else str(found))


def _is_number(column: object) -> bool:
    """Return whether a column holds whole or real numbers, moments, times of day or durations, which --bins can bin."""
    return isinstance(column, (synthdp.Integer, synthdp.Continuous, synthdp.Datetime, synthdp.Time, synthdp.Duration))


PATH = click.Path(path_type=Path)
"""The click type of path arguments."""


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
    told: synthdp.CsvFormat,
    as_json: bool,
) -> None:
    """Attack a SYNTHETIC table made of REAL rows, and compare with people who were not in it.  Not private.

    Exit 1 if a threshold is broken.  The result must not be published, except for what --publishable writes.

    \b
    Example:
      synthdp risk in.csv synthetic.csv --holdout out.csv \\
          --keys age,sex,education --target income --json
    """
    from synthdp.publishing import check_places, whole_file

    check_places((out, summary), inputs=(real, synthetic, holdout, schema_path))
    schema = None if schema_path is None else synthdp.Schema.read(schema_path)
    csv = None if schema is None else schema.csv
    tables = table_at(real, told, csv), table_at(synthetic, synthdp.CsvFormat()), table_at(holdout, told, csv)
    if schema is not None:
        schema = read_as(schema, told).part([name for name in schema if name in tables[1].names])
    with progress_bar() as on_progress:
        found = synthdp.nonprivate_risk(
            *tables, keys=[key.strip() for key in keys.split(",") if key.strip()], target=targets, schema=schema,
            thresholds=_thresholds(texts), random_state=seed, on_progress=on_progress,
        )  # fmt: skip
    if out is not None:
        with whole_file(out, private=True) as scratch:
            found.write(scratch)
    if summary is not None:
        with whole_file(summary) as scratch:
            scratch.write_text(json.dumps(found.publishable(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    click.echo(json.dumps(found.to_document(), ensure_ascii=False) if as_json else str(found))
    if not found.passed:
        click.get_current_context().exit(1)


def _thresholds(texts: tuple[str, ...]) -> dict[str, float]:
    """Return the thresholds by measure from texts such as "membership=0.02"; raise ParameterError for other texts."""
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


def release_summary(
    table: Path,
    schema: synthdp.Schema,
    *,
    told: synthdp.CsvFormat,
    mechanism: str,
    options: Mapping[str, Any],
    epsilon: float,
    delta: float,
    save: Path | None,
    receipt: Path | None,
    unsupported: Mapping[str, bool],
    as_json: bool,
    **people: Any,
) -> None:
    """Release a mechanism's answers and save them, for later questions with ``synthdp answer``.

    Costs (epsilon, delta), for the neighbours in ``people``.

    Parameters
    ----------
    table, told
        The private rows, and how their file is read.
    schema
        Declared schema.
    mechanism, options
        Name of the mechanism, and its settings by name.
    epsilon, delta
        Privacy cost.
    save
        Folder of the release; required, because the release is the only result.
    receipt
        File of the receipt, or None; JSON or HTML by its ending, else text.
    unsupported
        Options of the command that need a synthetic table, and whether each was given.
    as_json
        Print JSON.
    people
        Settings of the `Curator`: neighbours, units, ledger.

    Raises
    ------
    ParameterError
        If ``save`` is None, or an option needs a synthetic table; then no budget is spent.

    """
    from synthdp.mechanisms.named import UNSET, mechanism_named
    from synthdp.privacy.loss import loss_of
    from synthdp.publishing import check_places, receipt_text, whole_file
    from synthdp.release_files import check_place

    wrong = [option for option, given in unsupported.items() if given]
    if wrong:
        raise ParameterError(
            f"{mechanism} releases answers and no synthetic table, so {wrong[0]} does not apply: leave this option out"
        )
    if save is None:
        raise ParameterError(
            f"{mechanism} releases answers and no synthetic table: give --save, the folder in which the "
            "release is kept for later questions"
        )
    check_places((save, receipt), inputs=(table, people["ledger"]))
    check_place(save)
    made = mechanism_named(mechanism, options=options, **UNSET)
    source = table_at(table, told, schema.csv)
    with synthdp.Curator(source, schema=read_as(schema, told), budget=loss_of(epsilon, delta), **people) as curator:
        release = made.release(curator)
    try:
        release.save(save)
        if receipt is not None:
            with whole_file(receipt) as scratch:
                scratch.write_text(receipt_text(release, receipt.suffix), encoding="utf-8")
    except Exception as error:
        tell_of_budget(error, f"{release.receipt.total} is spent, {release.receipt.record}")
        raise
    if as_json:
        click.echo(json.dumps({"release": str(save), "receipt": release.receipt.to_document()}))
    else:
        click.echo(f"{release.receipt}\n\nanswers, to be asked by synthdp answer: {save}")
