"""Commands about the budget: ``synthdp plan``, what it buys before it is spent, and ``synthdp ledger``, what was spent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import synthdp
from synthdp.cli.reading import refuse_for_several
from synthdp.errors import DataError, LedgerError, ParameterError

if TYPE_CHECKING:
    from synthdp import Ledger
    from synthdp.privacy.loss import PrivacyLoss


@click.command()
@click.argument("schema_path", metavar="SCHEMA", type=click.Path(path_type=Path))
@click.option(
    "--rows",
    multiple=True,
    metavar="[TABLE=]N",
    help="About how many rows the table has; your assumption. Of several tables: the number of persons, or TABLE=N, "
    "repeated.",
)
@click.option("--epsilon", type=float, multiple=True, help="The privacy loss; repeat it for the trade-off. Default: 1.")
@click.option("--delta", type=float, default=1e-9, show_default=True, help="Slack; 0 for pure epsilon.")
@click.option("--neighbors", default="add_remove", show_default=True, help="add_remove or replace_one.")
@click.option("--target", help="A column whose relations matter most.")
@click.option("--mechanism", default="auto", show_default=True)
@click.option(
    "--sql",
    metavar="DIALECT",
    help="Print the SQL that a database would run: postgres, duckdb, mysql, snowflake, bigquery, tsql, ...; nothing else.",
)
@click.option("--privacy-unit", help="With --sql: the column that names whom to protect, taken to hold texts.")
@click.option(
    "--max-rows-per-unit", type=int, default=1, show_default=True, help="Rows of one protected unit, at most."
)
@click.option("--weight", metavar="COLUMN", help="The survey weight of each row; see --weight-bounds.")
@click.option("--weight-bounds", type=float, nargs=2, metavar="LOW HIGH", help="Public bounds of the weight, above 0.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
def plan(
    schema_path: Path,
    rows: tuple[str, ...],
    epsilon: tuple[float, ...],
    delta: float,
    neighbors: str,
    target: str | None,
    mechanism: str,
    sql: str | None,
    privacy_unit: str | None,
    max_rows_per_unit: int,
    weight: str | None,
    weight_bounds: tuple[float, float] | None,
    as_json: bool,
) -> None:
    """Say what a release will cost and how good it will be.  Reads the schema only, no row, and spends nothing.

    A draft will do: the plan says what it assumed of columns that are not reviewed or left open.

    \b
    Examples:
      synthdp plan schema.json --rows 30000 --epsilon 1
      synthdp plan schema.json --rows 30000 --epsilon 0.1 --epsilon 1 \\
          --epsilon 3 --json
      synthdp plan schema.json --sql postgres --privacy-unit patient \\
          --max-rows-per-unit 3
      synthdp plan db.json --rows persons=800 --rows visits=1600  # several tables
    """
    if sql is not None:
        from synthdp.schema.database import is_database

        refuse_for_several({"--sql": is_database(schema_path)})
        click.echo(_statements(schema_path, sql, privacy_unit, max_rows_per_unit))
        return
    if privacy_unit is not None:
        raise click.UsageError("--privacy-unit works with --sql only: leave it out.")
    if not rows:
        raise click.UsageError("Missing option '--rows'.")
    # Not by the estimator: scikit-learn takes longer to load than half of the dry run.
    from synthdp.mechanisms.named import UNSET, table_mechanism_named
    from synthdp.nonprivate.draft import Draft
    from synthdp.planning.database_plan import plan as planned
    from synthdp.planning.plan import Plans, curve
    from synthdp.schema.database import DatabaseSchema, is_database

    settings: dict[str, Any] = {"epsilon": list(epsilon) or [1.0], "delta": delta, "neighbors": neighbors}
    if is_database(schema_path):
        refuse_for_several(
            {
                "--target": target is not None, "--mechanism": mechanism != "auto", "--weight": weight is not None,
                "--weight-bounds": weight_bounds is not None, "--max-rows-per-unit": max_rows_per_unit != 1,
            }
        )  # fmt: skip
        plans = planned(DatabaseSchema.read(schema_path), rows=_rows(rows, several=True), **settings)
    else:
        named = table_mechanism_named(mechanism, **{**UNSET, "target": target})
        settings |= {"mechanism": named, "weight": weight, "weight_bounds": weight_bounds}
        settings["max_rows_per_unit"] = max_rows_per_unit
        plans = planned(Draft.read(schema_path), rows=_rows(rows, several=False), **settings)
    found: list[Any] = list(plans) if isinstance(plans, list) else [plans]
    if as_json:
        click.echo(json.dumps([one.to_document() for one in found], ensure_ascii=False))
    elif isinstance(plans, Plans) and len(plans) > 1:
        click.echo(curve(plans))
    else:
        click.echo("\n\n".join(map(str, found)))


def _rows(texts: Sequence[str], *, several: bool) -> int | dict[str, int]:
    """Return the assumed number of rows, or of each table that is named; raise UsageError if a text says neither."""
    found: dict[str, int] = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        if not number.isdecimal() or (name and not several):
            raise click.UsageError(
                f"--rows '{text}' must be a whole number{', or TABLE=N such as visits=1600' if several else ''}."
            )
        found[name] = int(number)
    if len(found) < len(texts) or ("" in found and len(found) > 1):
        raise click.UsageError("--rows is given twice: give it once, or once for each table.")
    return found.get("", found)


def _statements(schema_path: Path, dialect: str, unit: str | None, rows_per_unit: int) -> str:
    """Return the SQL that a database would run for a release, as text; no database is contacted."""
    from synthdp.errors import ParameterError
    from synthdp.schema.schema import Schema
    from synthdp.tables.refusals import instead_of

    with instead_of(ImportError, say=ParameterError("--sql needs pyarrow: pip install 'synthdp[sql]'")):
        from synthdp.tables.sql.planned import planned_sql
    return planned_sql(Schema.read(schema_path), dialect, unit=unit, rows_per_unit=rows_per_unit)


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--dataset", help="Only this data set.")
@click.option("--cap", type=float, help="Set the most epsilon that may ever be spent on --dataset.")
@click.option("--cap-delta", type=float, help="The delta that goes with --cap; default: 0.")
@click.option("--neighbors", help="Whom --dataset is counted for: add_remove or replace_one.")
@click.option("--privacy-unit", help="The column that names whom it is counted for; default: every row.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
def ledger(
    path: Path,
    dataset: str | None,
    cap: float | None,
    cap_delta: float | None,
    neighbors: str | None,
    privacy_unit: str | None,
    as_json: bool,
) -> None:
    """Show what was spent, by data set; set a cap, or declare for which neighbours a data set is counted.

    \b
    Examples:
      synthdp ledger hospital.sqlite
      synthdp ledger hospital.sqlite --dataset patients --cap 3 --cap-delta 1e-6
      synthdp ledger hospital.sqlite --dataset visits --cap 3 \\
          --privacy-unit patient
      synthdp ledger old.sqlite --dataset patients --neighbors add_remove
    """
    given = {"--cap": cap, "--cap-delta": cap_delta, "--neighbors": neighbors, "--privacy-unit": privacy_unit}
    told = [option for option, value in given.items() if value is not None]
    if told and dataset is None:
        raise ParameterError(f"{told[0]} needs --dataset, the name of the data it is for")
    if cap_delta is not None and cap is None:
        raise ParameterError("--cap-delta needs --cap, the epsilon that it goes with")
    if cap is None and not path.is_file():
        raise DataError(
            f"there is no ledger '{path}': give the path of an existing ledger, or start one with --dataset and --cap"
        )
    book = synthdp.Ledger(path)
    if cap is not None and dataset is not None:
        limit = synthdp.ApproxDP(cap, cap_delta or 0.0)
        book.set_cap(dataset, limit, neighbors=neighbors, privacy_unit=privacy_unit)
    elif told and dataset is not None:
        _check_there(book, dataset)
        book.declare(dataset, neighbors=neighbors or "add_remove", privacy_unit=privacy_unit)
    if dataset is not None:
        _check_there(book, dataset)
    names = book.datasets() if dataset is None else [dataset]
    if as_json:
        click.echo(json.dumps({name: _document(book, name) for name in names}, indent=1))
        return
    for name in names:
        click.echo("\n".join(_lines(book, name)))


def _check_there(book: Ledger, dataset: str) -> None:
    """Raise DataError, which names similar data sets, unless the ledger has this one."""
    names = book.datasets()
    if dataset not in names:
        close = get_close_matches(dataset, names) or names[:3]
        meant = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
        raise DataError(f"ledger '{book.path}' has no data set {dataset!r}{meant}")


def _lines(book: Ledger, name: str) -> list[str]:
    """Return the lines about one data set: spends, neighbours, cap and remaining budget."""
    entries, cap, counted = book.entries(name), book.cap(name), book.adjacency(name)
    declare = f"synthdp ledger '{book.path}' --dataset '{name}' --neighbors add_remove (or replace_one)"
    lines = [
        f"{name}: {len(entries)} spend{'s' * (len(entries) != 1)}",
        f"  neighbours  {f'not recorded by an older version: {declare}' if counted is None else counted.relation}",
        f"  cap         {'none: spends are recorded, not limited' if cap is None else cap}",
    ]
    if cap is not None:
        lines.append(f"  left        {_left(book, name) or 'nothing'}")
    return lines + [f"  {e.number:>4}  {e.moment}  {e.state:<9}  {e.loss}  {e.what}" for e in entries]


def _left(book: Ledger, name: str) -> PrivacyLoss | str | None:
    """Return the remaining budget of a data set, or the reason why it cannot be computed; None if nothing is left."""
    try:
        return book.left(name)
    except LedgerError as error:
        return str(error)


def _document(book: Ledger, name: str) -> dict[str, Any]:
    """Return a data set's state as a JSON document."""
    from synthdp.privacy.loss import to_document

    cap, counted, left = book.cap(name), book.adjacency(name), _left(book, name)
    return {
        "neighbors": None if counted is None else counted.neighbors.value,
        "privacy_unit": None if counted is None else counted.unit,
        "cap": None if cap is None else to_document(cap),
        "left": left if left is None or isinstance(left, str) else to_document(left),
        "spends": [
            {
                "number": e.number,
                "what": e.what,
                "state": e.state,
                "moment": e.moment,
                "loss": to_document(e.loss),
                "max_rows_per_unit": None if e.adjacency is None else e.adjacency.rows,
            }
            for e in book.entries(name)
        ],
    }
