"""The commands `synthdp schema`: a schema drafted from a table, or read from a public document."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

import synthdp
from synthdp.cli.reading import WholeHelp, csv_options, table_at
from synthdp.cli.review import review
from synthdp.errors import FormatError, ParameterError
from synthdp.files import write_private, writing

PATH = click.Path(path_type=Path)
"""The click type of path arguments."""

LOUD = (
    "synthdp: WARNING: this draft was READ OFF THE TABLE, without noise. It is as private as the table: do not publish it. "
    "Its bounds and levels are refused until a person has checked each column, with `synthdp schema review`."
)
"""Warning that is printed with every draft of a table."""


@click.group(cls=WholeHelp)
def schema() -> None:
    """Make a schema: what is publicly known about a table."""


schema.add_command(review)


@schema.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
def known(names: Sequence[str]) -> None:
    """List columns that everybody knows, such as months and ISO codes; with a NAME, print its entry of a schema file.

    In a schema file, {"name": "born", "known": "month"} is the same.  That is public knowledge and costs no budget.

    \b
    Examples:
      synthdp schema known
      synthdp schema known month country
    """
    from synthdp.schema.schema import Schema
    from synthdp.schema.schema_json import column_document

    if names:
        entries = [column_document(name, Schema.known(name)) for name in names]
        click.echo(json.dumps(entries, indent=2, ensure_ascii=False))
        return
    width = max(map(len, Schema.known()))
    for name in Schema.known():
        column = Schema.known(name)
        levels = getattr(column, "levels", ())
        what = column.in_words() if not levels else f"{len(levels)} levels, {levels[0]} to {levels[-1]}"
        click.echo(f"{name:{width}}  {what}; {(column.source or '').partition(': ')[2]}")


@schema.command()
@click.argument("table", type=PATH, required=False)
@click.option("--from-json-schema", "json_schema", type=PATH, help="Read this public JSON Schema instead of a table.")
@click.option(
    "--from-data-dictionary",
    "dictionary",
    type=PATH,
    help="Read this public CSV of name, type, min, max, levels (a|b|c), nullable, description instead of a table.",
)
@click.option("--without", multiple=True, metavar="COLUMN", help="A column to leave out; repeatable.")
@click.option("--out", type=PATH, help="Where to write the schema; default: standard output.")
@csv_options
def draft(
    table: Path | None,
    json_schema: Path | None,
    dictionary: Path | None,
    without: Sequence[str],
    out: Path | None,
    told: synthdp.CsvFormat,
) -> None:
    """Draft a schema to edit.

    From a TABLE (CSV, or Parquet, Arrow, DuckDB or Excel by ending), it READS THE ROWS: what it writes is private, and
    `release` refuses it until a person has replaced bounds and levels by public knowledge and marked each column as
    reviewed.  From a public document, it reads no row, and the schema can be used at once.

    \b
    Examples:
      synthdp schema draft table.csv --out schema.json
      synthdp schema draft --from-data-dictionary codebook.csv --out schema.json
    """
    given = [path for path in (table, json_schema, dictionary) if path is not None]
    if len(given) != 1:
        raise ParameterError("give exactly one of: a table, --from-json-schema, --from-data-dictionary")
    if out is not None and out.exists():
        raise ParameterError(f"'{out}' exists already and may hold reviewed columns: give another --out")
    if out is not None and not out.parent.is_dir():
        raise FormatError(
            f"'{out}' cannot be written, because there is no folder '{out.parent}': make the folder first"
        )
    if table is not None:
        document = _of_table(table, without, told)
        click.echo(LOUD, err=True)
    else:
        document = _of_publication(json_schema, dictionary, told)
        document["columns"] = _without(document["columns"], without)
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    if out is None:
        click.echo(text, nl=False)
        return
    with writing(out, refusal=FormatError):
        if table is not None:
            write_private(out, text)
        else:
            out.write_text(text, encoding="utf-8")
    count = len(document["columns"])
    click.echo(f"{count} column{'s' * (count != 1)}: {out}", err=True)
    if table is not None:
        click.echo(f"next: synthdp schema review '{out}'", err=True)


def _of_table(path: Path, without: Sequence[str], told: synthdp.CsvFormat) -> dict[str, Any]:
    """Return the draft document of a table; print the columns that were left out and the texts for missing values."""
    from synthdp.nonprivate.draft_schema import draft_schema

    document = draft_schema(table_at(path, told), without=without, missing=told.missing or None)
    for one in document.get("left_out", []):
        click.echo(f"synthdp: left out: {one['name']}, {one['why']}", err=True)
    if "csv" in document:
        texts = ", ".join(document["csv"]["missing"])
        click.echo(f"synthdp: in '{path}', missing values are empty fields and {texts}; see --missing", err=True)
    return document


def _of_publication(json_schema: Path | None, dictionary: Path | None, told: synthdp.CsvFormat) -> dict[str, Any]:
    """Return the schema document of a public description, a JSON Schema or a data dictionary, after a check.

    A document that no release could use is refused here, before it is written.
    """
    from synthdp.schema.public_documents import from_data_dictionary, from_json_schema
    from synthdp.schema.schema import Schema
    from synthdp.schema.schema_json import from_document
    from synthdp.tables.sources.file_source import document_lines, document_text

    if json_schema is not None:
        source = f"JSON Schema '{json_schema}'"
        document = from_json_schema(document_text(json_schema, source), source=source)
    elif dictionary is not None:
        source = f"data dictionary '{dictionary}'"
        document = from_data_dictionary(document_lines(dictionary, source, told), source=source)
    else:
        raise ParameterError("a file is needed")
    columns, constraints, _ = from_document(document, source=source)
    Schema(columns, constraints=constraints)
    return document


def _without(columns: list[dict[str, Any]], without: Sequence[str]) -> list[dict[str, Any]]:
    """Return the columns without the named columns; raise ParameterError for an unknown name."""
    names = [column["name"] for column in columns]
    for name in without:
        if name not in names:
            raise ParameterError(f"--without names column {name!r}, which the document does not have: leave it out")
    return [column for column in columns if column["name"] not in without]
