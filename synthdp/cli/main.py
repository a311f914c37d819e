"""The command line `synthdp`.  Exit code 0; 2 with one line on standard error after an error; 1 if a test fails."""

from __future__ import annotations

import json
import os
import sys
import textwrap
import time
import warnings
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import synthdp
from synthdp.cli.budget_commands import ledger as ledger_command, plan
from synthdp.cli.installation import audit, doctor
from synthdp.cli.publish import publish as publish_command
from synthdp.cli.reading import WholeHelp, csv_options, progress_bar, read_as, table_at, totals_at
from synthdp.cli.result_commands import answer, nonprivate_evaluate, report, risk
from synthdp.cli.schema_commands import schema
from synthdp.cli.series_commands import series
from synthdp.errors import ParameterError, SynthDPError, budget_told, tell_of_budget

if TYPE_CHECKING:
    from synthdp.schema.column import Column

EPSILON = click.option("--epsilon", type=float, default=1.0, show_default=True, help="The privacy loss.")
"""The option --epsilon of `demo` and `release`.  The default is a convention."""

DELTA = click.option("--delta", type=float, default=1e-9, show_default=True, help="Slack; 0 for pure epsilon.")
"""The option --delta of `release`.  The default is a convention."""

SEED = click.option("--seed", type=int, default=None, help="Seed of the sampling; it never reaches noise.")
"""The option --seed of this module's commands."""

MOST_NAMES = 10
"""Columns that a warning names, at most.  More would bury the advice behind them.  A convention."""

AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
"""The option --json of this module's commands."""


class OneLine(WholeHelp):
    """A group whose errors are one line on standard error, with exit code 2."""

    headings = (
        ("Start here", ("demo", "page")),
        ("From a table to a release", ("schema", "plan", "release", "publish", "series")),
        ("With a release, at no cost", ("sample", "answer", "report")),
        ("Budget and checks", ("ledger", "doctor", "audit")),
        ("With real rows (not private)", ("nonprivate-evaluate", "risk")),
    )

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; print an error as one line and exit with code 2.

        The line also names the budget that was spent.  An interrupt gives exit code 130.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = _show_warning  # type: ignore[assignment]
            try:
                return super().invoke(ctx)
            except SynthDPError as error:
                click.echo(f"synthdp: {error}{_told(error)}", err=True)
                ctx.exit(2)
            except click.UsageError as error:
                if isinstance(error, click.exceptions.NoArgsIsHelpError):
                    raise
                command = error.ctx.command_path if error.ctx is not None else "synthdp"
                click.echo(f"synthdp: {' '.join(error.format_message().split())} See: {command} --help", err=True)
                ctx.exit(2)
            except KeyboardInterrupt as error:
                click.echo(f"synthdp: interrupted; what the ledger recorded counts as spent{_told(error)}", err=True)
                ctx.exit(130)
            except (
                BrokenPipeError
            ):  # the reader of the output has gone, as `head` does; Python's last flush must not fail
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                ctx.exit(0)
            except OSError as error:
                click.echo(f"synthdp: '{error.filename}' cannot be used: {error.strerror}{_told(error)}", err=True)
                ctx.exit(2)
            except Exception as error:
                # a fault keeps its traceback, unless budget was spent: the line that names the budget must be seen then
                if budget_told(error) is None or isinstance(error, click.exceptions.Exit | click.ClickException):
                    raise
                click.echo(f"synthdp: failed by a {type(error).__name__}{_told(error)}", err=True)
                ctx.exit(2)


def _told(error: BaseException) -> str:
    """Return the note of an error about the spent budget, in parentheses, or ""; the message shows it."""
    told = budget_told(error)
    return "" if told is None else f" ({told})"


@click.group(cls=OneLine, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(synthdp.__version__, prog_name="synthdp")
def main() -> None:
    """Turn a private table into a synthetic one that can be shared."""


main.add_command(schema)
main.add_command(audit)
main.add_command(plan)
main.add_command(answer)
main.add_command(report)
main.add_command(nonprivate_evaluate)
main.add_command(risk)
main.add_command(publish_command)
main.add_command(ledger_command)
main.add_command(series)
main.add_command(doctor)


@main.command()
@click.option("--out", "folder", type=click.Path(path_type=Path), default=Path(), help="Where to write the files.")
@EPSILON
@SEED
def demo(folder: Path, epsilon: float, seed: int | None) -> None:
    """Run the whole job on a bundled real table (Adult census, 32 561 rows) in under a minute.

    Writes synthetic.csv, receipt.txt, report.html and the release itself, and prints a comparison with the real rows.

    \b
    Example:
      synthdp demo --out demo
    """
    from synthdp.data import adult, adult_schema
    from synthdp.estimators.synthetic_release import SyntheticRelease
    from synthdp.publishing import whole_file
    from synthdp.tables.sources.csv import write_csv

    real, schema = adult(), adult_schema()
    paths = [folder / "synthetic.csv", folder / "receipt.txt", folder / "report.html"]
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        files = [stack.enter_context(whole_file(path)) for path in paths]
        started = time.perf_counter()
        with progress_bar() as on_progress:
            release = SyntheticRelease(schema=schema, epsilon=epsilon, random_state=seed, on_progress=on_progress)
            synthetic = release.fit_transform(real)
        seconds = time.perf_counter() - started
        write_csv(synthetic, files[0])
        files[1].write_text(f"{release.receipt_}\n", encoding="utf-8")
        with progress_bar() as on_progress:
            release.report(files[2], title="Adult census, synthetic", on_progress=on_progress)
        release.save(folder / "adult.release")
    click.echo(f"a report to open: {paths[2].resolve().as_uri()}\n")
    click.echo(str(release.receipt_))
    click.echo(
        f"\n{len(synthetic)} synthetic rows in {seconds:.1f} s: {paths[0]}, {paths[1]}, {folder / 'adult.release'}"
    )
    click.echo(f"\n{_comparison(real, synthetic)}")


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--no-browser", is_flag=True, help="Print the link, and open no browser.")
def page(folder: Path, no_browser: bool) -> None:
    """Open a page on this machine that leads from a table in FOLDER to a folder to publish.

    It answers this machine alone, under a link that works once.  Answers are kept in FOLDER; Ctrl-C ends it, and so does an
    hour without use.

    \b
    Example:
      synthdp page hospital/
    """
    try:
        from synthdp.page.serve import serve
    except ImportError:
        raise ParameterError("the page needs starlette and uvicorn: pip install 'synthdp[page]'") from None
    with suppress(KeyboardInterrupt):  # which is how it is ended
        serve(folder, browser=not no_browser, say=_show_link)


def _show_link(link: str) -> None:
    """Print the link of the page, and the keys that renew the link and end the page."""
    click.echo(f"The page is open at {link}")
    click.echo("The link works once; Enter makes a new one. Leave this window open; Ctrl-C ends the page.")


@main.command()
@click.argument("table", type=click.Path(path_type=Path))
@click.option("--schema", "schema_path", type=click.Path(path_type=Path), required=True, help="The schema, JSON.")
@EPSILON
@DELTA
@click.option("--neighbors", default="add_remove", show_default=True, help="add_remove or replace_one.")
@click.option("--out", type=click.Path(path_type=Path), help="The synthetic table; csv or parquet by ending.")
@click.option("--save", "folder", type=click.Path(path_type=Path), help="A folder for the release itself.")
@click.option("--receipt", type=click.Path(path_type=Path), help="The receipt; text, JSON or HTML by ending.")
@click.option("--report", "page", type=click.Path(path_type=Path), help="A publishable page about the release, HTML.")
@click.option("--rows", type=int, help="Rows of the synthetic table; default: the noisy estimate of the real number.")
@click.option("--target", help="A column whose relations matter most.")
@click.option(
    "--mechanism",
    default="auto",
    show_default=True,
    help="A name from the page 'Choose a mechanism'; one that yields answers alone needs --save and no --out.",
)
@click.option(
    "--solver", default="auto", show_default=True, help="auto, lp, mw or maxent, where the mechanism takes it."
)
@click.option(
    "--option", "options", multiple=True, metavar="NAME=VALUE", help="A setting of the mechanism itself; repeatable."
)
@click.option(
    "--domain-budget", type=float, default=0.3, show_default=True, help="Share for what the schema leaves open."
)
@click.option(
    "--undiscovered",
    type=click.Choice(["leave_out", "refuse"]),
    default="leave_out",
    show_default=True,
    help="Where noise hides what an open column holds.",
)
@click.option("--privacy-unit", help="Column that names whom to protect; default: every row.")
@click.option("--max-rows-per-unit", type=int, default=1, show_default=True)
@click.option("--weight", metavar="COLUMN", help="The survey weight of each row; see --weight-bounds.")
@click.option("--weight-bounds", type=float, nargs=2, metavar="LOW HIGH", help="Public bounds of the weight, above 0.")
@click.option("--places", metavar="COLUMN", help="Column of places, whose counts add up at every step of its groups.")
@click.option("--public", type=click.Path(path_type=Path), help="A table that is public, as the prior; see the docs.")
@click.option(
    "--public-weight", type=float, default=1.0, show_default=True, help="Most it counts, in parts of its rows."
)
@click.option(
    "--public-totals", "totals", type=click.Path(path_type=Path), multiple=True, metavar="FILE",
    help="CSV of exact public totals: columns of the table and a last one of rows; repeatable.",
)  # fmt: skip
@click.option("--ledger", type=click.Path(path_type=Path), help="A ledger to record the spend in.")
@click.option("--dataset", help="The table's name in the ledger.")
@click.option("--escape-formulas", is_flag=True, help="Defuse cells that a spreadsheet would run.")
@csv_options
@SEED
@AS_JSON
def release(
    table: Path,
    schema_path: Path,
    epsilon: float,
    delta: float,
    neighbors: str,
    out: Path | None,
    folder: Path | None,
    receipt: Path | None,
    page: Path | None,
    rows: int | None,
    target: str | None,
    mechanism: str,
    solver: str,
    options: tuple[str, ...],
    domain_budget: float,
    undiscovered: str,
    privacy_unit: str | None,
    max_rows_per_unit: int,
    weight: str | None,
    weight_bounds: tuple[float, float] | None,
    places: str | None,
    public: Path | None,
    public_weight: float,
    totals: tuple[Path, ...],
    ledger: Path | None,
    dataset: str | None,
    escape_formulas: bool,
    told: synthdp.CsvFormat,
    seed: int | None,
    as_json: bool,
) -> None:
    """Release a synthetic table from a private TABLE (CSV, or Parquet, Arrow, DuckDB or Excel by ending).

    A CSV file is read as the schema says (`csv`) and the options; what neither says is detected from its first line.

    \b
    Examples:
      synthdp release table.csv --schema schema.json --epsilon 1 \\
          --out synthetic.csv --save table.release
      synthdp release survey.csv --schema schema.json --weight perwt \\
          --weight-bounds 1 2000 --out synthetic.csv
      synthdp release table.csv --schema schema.json --public last_year.csv \\
          --out synthetic.csv
      synthdp release table.csv --schema schema.json --out numbers.csv \\
          --mechanism smooth_synthesis --option variant=exact
      synthdp release table.csv --schema schema.json --save parities.release \\
          --mechanism parity_release --option order=3
      synthdp release db/ --schema db.json --out synthetic/ \\
          --save db.release  # several tables, into a folder
    """
    from synthdp.cli.database_commands import release_database
    from synthdp.cli.result_commands import release_summary
    from synthdp.estimators.synthetic_release import SyntheticRelease
    from synthdp.mechanisms.named import parsed_options, yields_tables
    from synthdp.publishing import Places, publish, written_in
    from synthdp.schema.database import is_database

    if dataset is not None and ledger is None:
        raise ParameterError("--dataset names the table in a ledger: give --ledger too, or leave --dataset out")
    if out is None and (is_database(schema_path) or yields_tables(mechanism, solver)):
        what = "folder for the synthetic tables" if is_database(schema_path) else "file for the synthetic table"
        raise click.UsageError(f"Missing option '--out': the {what}.")
    if out is not None and is_database(schema_path):
        unsupported = {
            "--mechanism": mechanism != "auto",
            "--solver": solver != "auto", "--option": bool(options), "--privacy-unit": privacy_unit is not None,
            "--escape-formulas": escape_formulas, "--weight": weight is not None,
            "--weight-bounds": weight_bounds is not None, "--public": public is not None,
            "--public-totals": bool(totals), "--places": places is not None, "--undiscovered": undiscovered != "leave_out",
        }  # fmt: skip
        release_database(
            table, schema_path, out=out, save=folder, receipt=receipt, report=page, rows=rows, seed=seed, told=told,
            as_json=as_json, unsupported=unsupported, epsilon=epsilon, delta=delta, neighbors=neighbors, ledger=ledger,
            dataset=dataset, domain_budget=domain_budget, target=target,
        )  # fmt: skip
        return
    declared = synthdp.Schema.read(schema_path)
    chosen = parsed_options(mechanism, solver, options)
    people: dict[str, Any] = {
        "neighbors": neighbors, "privacy_unit": privacy_unit, "max_rows_per_unit": max_rows_per_unit, "ledger": ledger,
        "dataset": dataset,
    }  # fmt: skip
    if out is None or not yields_tables(mechanism, solver):
        needs_table = {
            "--out": out is not None, "--report": page is not None, "--rows": rows is not None,
            "--target": target is not None, "--solver": solver != "auto", "--escape-formulas": escape_formulas,
            "--weight": weight is not None, "--public": public is not None,
            "--public-totals": bool(totals), "--places": places is not None,
        }  # fmt: skip
        release_summary(
            table, declared, told=told, mechanism=mechanism, options=chosen, epsilon=epsilon, delta=delta, save=folder,
            receipt=receipt, unsupported=needs_table, as_json=as_json, **people,
        )  # fmt: skip
        return
    paths = Places(table=out, release=folder, receipt=receipt, report=page)
    paths.check(inputs=(table, schema_path, ledger, public, *totals))
    if public is not None and public.resolve() == table.resolve():
        raise ParameterError(
            "--public names the private table itself: its rows would be released as they are; leave --public out"
        )
    source = table_at(table, told, declared.csv)
    made = SyntheticRelease(
        schema=read_as(declared, told), epsilon=epsilon, delta=delta, n_rows=rows, target=target, mechanism=mechanism,
        solver=solver, mechanism_options=chosen, domain_budget=domain_budget, undiscovered=undiscovered,
        weight=weight, weight_bounds=weight_bounds, public_weight=public_weight, random_state=seed, **people,
        public=None if public is None else table_at(public, told, declared.csv),
        public_totals=totals_at(totals, declared) or None, places=places,
    )  # fmt: skip
    count: int | None = None
    try:
        with progress_bar() as on_progress:
            made.set_params(on_progress=on_progress)
            count = publish(source, made, paths, rows=rows, escape_formulas=escape_formulas, on_progress=on_progress)
        _show_release(declared, made.release_, count, out, as_json=as_json)
    except Exception as error:
        if count is not None:
            tell_of_budget(error, written_in(made.receipt_, out))
        raise


def _show_release(
    declared: synthdp.Schema, release: synthdp.Release[Any], rows: int, out: Path, *, as_json: bool
) -> None:
    """Print the receipt and a verdict on each column, as text or JSON, and warn of columns without a source."""
    from synthdp.publishing import without_source
    from synthdp.report.verdicts import in_lines, verdicts_of

    receipt, verdicts = release.receipt, verdicts_of(release)
    if unsourced := without_source(declared):
        names = ", ".join(unsourced[:MOST_NAMES]) + f" and {len(unsourced) - MOST_NAMES} more" * (
            len(unsourced) > MOST_NAMES
        )
        click.echo(
            f'synthdp: warning: the schema does not say where it knows these columns from ("source"): {names}', err=True
        )
    if as_json:
        columns = {one.name: {"verdict": one.word, "why": one.in_words()} for one in verdicts}
        click.echo(json.dumps({"rows": rows, "out": str(out), "columns": columns, "receipt": receipt.to_document()}))
    else:
        click.echo(str(receipt))
        click.echo("\nColumns by themselves, by the noise in them:")
        for line in in_lines(verdicts):
            click.echo(textwrap.fill(line, 118, initial_indent="  ", subsequent_indent="    "))
        click.echo(f"\n{rows} synthetic rows: {out}")


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--rows", type=int, help="How many; default: the noisy estimate of the real number.")
@click.option(
    "--given",
    multiple=True,
    metavar="CONDITION",
    help="What all rows must meet, as for `answer --where`; also COLUMN=VALUE; repeatable.",
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="csv or parquet by ending.")
@click.option("--escape-formulas", is_flag=True, help="Defuse cells that a spreadsheet would run.")
@SEED
@AS_JSON
def sample(
    folder: Path,
    rows: int | None,
    given: Sequence[str],
    out: Path,
    escape_formulas: bool,
    seed: int | None,
    as_json: bool,
) -> None:
    """Draw more rows from a saved release; this costs no privacy.

    \b
    Example:
      synthdp sample table.release --rows 1000 \\
          --given "age > 30 and income == '>50K'" --out more.csv
    """
    from synthdp.answers.expressions import allowed_by
    from synthdp.cli.database_commands import sample_database
    from synthdp.publishing import check_ending, whole_file
    from synthdp.release import load
    from synthdp.sampling.database_model import DatabaseModel

    loaded = load(folder)
    if isinstance(loaded.output, DatabaseModel):
        columns = loaded.output.schema.with_columns_below()
        wanted = allowed_by([_condition(text, columns) for text in given], columns)
        sample_database(loaded.output, out=out, rows=rows, seed=seed, given=wanted or None, as_json=as_json)
        return
    check_ending(out)
    conditions = allowed_by([_condition(text, loaded.model.schema) for text in given], loaded.model.schema)
    with whole_file(out) as scratch:
        count = loaded.model.rows if rows is None else rows
        loaded.model.sample_to(
            scratch, rows=count, random_state=seed, given=conditions or None, escape_formulas=escape_formulas
        )
    told = json.dumps({"rows": count, "out": str(out)})
    click.echo(told if as_json else f"{count} synthetic rows: {out}")


def _show_warning(message: Warning | str, category: type[Warning], *_: Any) -> None:
    """Print a UserWarning, as this package's are, in one line on standard error.

    Other warnings are for programmers, and are not shown.
    """
    if issubclass(category, UserWarning):
        click.echo(f"synthdp: warning: {message}", err=True)


def _condition(text: str, schema: synthdp.Schema) -> str:
    """Return a condition for `answer`; a short COLUMN=VALUE becomes a comparison with the value that a file's cell has.

    The short form saves quotation marks in a shell.  A cell that is no value of the column is quoted, so that the error
    message can quote it.  Any other text stays as it is.
    """
    from synthdp.answers.expressions import parse
    from synthdp.errors import ParameterError

    name, _, value = text.partition("=")
    name = name if name in schema.outputs else name.strip()
    column, cell = schema.outputs.get(name), value.strip()
    if column is None or not cell or cell[0] in "='\"":
        return text
    literal = _literal(column, cell)
    if literal is None:
        try:
            parse(text)
        except ParameterError:
            literal = _quoted(cell)
    return text if literal is None else f"`{name}` == {literal}"


def _literal(column: Column, cell: str) -> str | None:
    """Return the value of a cell in the syntax of conditions, such as "'yes'" or "12.5".

    ``None`` is for a cell that already has this syntax, or that is no value of the column.  A label of an identifier
    and a cell that is no time are quoted, so that the error message can quote them.
    """
    import numpy as np

    from synthdp.domain.encoder import Labels
    from synthdp.domain.grid import labels_of
    from synthdp.tables.parse import declared

    if column.names_rows:
        return _quoted(cell)
    raw = declared(Labels([cell], np.array([0])), column)
    if isinstance(raw, Labels):
        found = next((one for one in (cell, *raw.levels) if column.labelled and one in labels_of(column)), None)
        return None if found is None else _quoted(found) if isinstance(found, str) else str(found).lower()
    if raw.missing is not None and raw.missing[0]:
        return _quoted(cell) if column.quantity in ("moment", "clock") else None
    number = raw.values[0].item()
    if number != number:  # no number in this column's format
        return None
    match column.quantity:
        case "moment":
            return _quoted(str(np.datetime64(number, "us")))
        case "clock":
            return _quoted(str(column.shown(number)))
        case "length":
            return repr(number / column.number_of(1))
        case _:
            return None if column.cells is None else repr(number)


def _quoted(text: str) -> str:
    """Return a text as conditions write it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _comparison(real: Any, synthetic: Any) -> str:
    """Return lines that compare means and percentages of the demo's real and synthetic rows."""
    lines = [
        "NON-PRIVATE comparison with the real rows (not for publication)",
        f"{'':<20}{'real':>12}{'synthetic':>12}",
    ]
    lines += [
        f"mean {name:<15}{real[name].mean():>12.2f}{synthetic[name].mean():>12.2f}"
        for name in ("age", "hours-per-week", "capital-gain", "education-num")
    ]
    for column, level in (("income", ">50K"), ("sex", "Female"), ("marital-status", "Married-civ-spouse")):
        shares = [(table[column] == level).mean() for table in (real, synthetic)]
        lines.append(f"{level:<20}{shares[0]:>12.1%}{shares[1]:>12.1%}")
    shares = [(t.loc[t["sex"] == "Female", "income"] == ">50K").mean() for t in (real, synthetic)]
    lines.append(f"{'>50K of Female':<20}{shares[0]:>12.1%}{shares[1]:>12.1%}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
