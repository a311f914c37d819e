"""The command ``synthdp plan``: cost and expected accuracy of a release before any budget is spent."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command()
@click.argument("schema_path", metavar="SCHEMA", type=click.Path(path_type=Path))
@click.option("--rows", type=int, help="About how many rows the table has; your assumption.")
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
@click.option("--max-rows-per-unit", type=int, default=1, show_default=True, help="With --sql.")
@click.option("--weight", metavar="COLUMN", help="The survey weight of each row; see --weight-bounds.")
@click.option("--weight-bounds", type=float, nargs=2, metavar="LOW HIGH", help="Public bounds of the weight, above 0.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
def plan(
    schema_path: Path,
    rows: int | None,
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
    """
    if sql is not None:
        click.echo(_statements(schema_path, sql, privacy_unit, max_rows_per_unit))
        return
    if privacy_unit is not None:
        raise click.UsageError("--privacy-unit works with --sql only: leave it out.")
    if rows is None:
        raise click.UsageError("Missing option '--rows'.")
    # Not by the estimator: scikit-learn takes longer to load than half of the dry run.
    from synthdp.mechanisms.named import UNSET, table_mechanism_named
    from synthdp.nonprivate.draft import Draft
    from synthdp.planning.dry_run import plan as dry_run
    from synthdp.planning.plan import Plan, curve

    planned = dry_run(
        Draft.read(schema_path), rows=rows, epsilon=list(epsilon) or [1.0], delta=delta, neighbors=neighbors,
        mechanism=table_mechanism_named(mechanism, **{**UNSET, "target": target}), weight=weight,
        weight_bounds=weight_bounds,
    )  # fmt: skip
    plans = [planned] if isinstance(planned, Plan) else planned
    if as_json:
        click.echo(json.dumps([one.to_document() for one in plans], ensure_ascii=False))
    else:
        click.echo(str(plans[0]) if len(plans) == 1 else curve(plans))


def _statements(schema_path: Path, dialect: str, unit: str | None, rows_per_unit: int) -> str:
    """Return the SQL that a database would run for a release, as text; no database is contacted."""
    from synthdp.errors import ParameterError
    from synthdp.schema.schema import Schema
    from synthdp.tables.refusals import instead_of

    with instead_of(ImportError, say=ParameterError("--sql needs pyarrow: pip install 'synthdp[sql]'")):
        from synthdp.tables.sql.planned import planned_sql
    return planned_sql(Schema.read(schema_path), dialect, unit=unit, rows_per_unit=rows_per_unit)
