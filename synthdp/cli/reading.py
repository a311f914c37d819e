"""Shared parts of commands: help in whole sentences, options for the format of a file, and a progress bar."""

from __future__ import annotations

import csv
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import synthdp
from synthdp.errors import ParameterError
from synthdp.progress import Progress, ProgressCallback, TimeLeft, silent

if TYPE_CHECKING:
    from synthdp.schema.schema import Schema
    from synthdp.tables.source import Source


class WholeHelp(click.Group):
    """A click group whose help does not shorten the first sentences of its commands.

    Attributes
    ----------
    headings
        Headings with names of commands, in order; commands without a heading come last.
    """

    headings: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by heading, each with its whole first sentence."""
        named = {name for _, names in self.headings for name in names}
        others = tuple(name for name in self.list_commands(ctx) if name not in named)
        for heading, names in (*self.headings, ("Commands", others)):
            rows = [(name, _first_sentence(self.commands[name])) for name in names if name in self.commands]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


def _first_sentence(command: click.Command) -> str:
    """Return the first sentence of a command's help, without its full stop, for the list of all commands."""
    paragraph = inspect.cleandoc(command.help or "").partition("\n\n")[0]
    return " ".join(paragraph.split()).partition(". ")[0].rstrip(".")


def refuse_for_several(options: Mapping[str, bool]) -> None:
    """Raise ParameterError if an option is used that a command has for one table only, and the schema is of several.

    ``options`` says of each by its name whether it is used.
    """
    for name, used in options.items():
        if used:
            raise ParameterError(f"{name} works with one table only: leave it out for a database schema")


@contextmanager
def progress_bar() -> Iterator[ProgressCallback]:
    """Yield a progress callback that draws a bar and the remaining time on a terminal; in a pipe it draws nothing."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress as Bar,
        ProgressColumn,
        SpinnerColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.text import Text

    console = Console(stderr=True)
    if not console.is_terminal:
        yield silent
        return
    left = TimeLeft()

    class Left(ProgressColumn):
        """The time left, forecast anew whenever the line is drawn."""

        def render(self, task: Task) -> Text:
            task.completed = left.share
            return Text(str(left))

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), Left())
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reading", total=1.0)

        def show(progress: Progress) -> None:
            left.enter(progress)
            bar.update(task, description=progress.stage)

        yield show


@dataclass(frozen=True, slots=True)
class TableOptions(synthdp.CsvFormat):
    """The format of a table's file as the command's options state it; None where an option is missing."""

    sheet: str | None = None


_NAMED = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " ", "pipe": "|"}
"""Names of delimiters that --delimiter accepts."""


def csv_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command with the options --delimiter, --encoding, --missing and --sheet.

    The command receives them as one argument ``told``, a `TableOptions`.
    """

    def gathered(
        *arguments: Any, delimiter: str | None, encoding: str | None, missing: tuple[str, ...], sheet: str | None,
        **options: Any,
    ) -> Any:  # fmt: skip
        character = None if delimiter is None else _NAMED.get(delimiter.lower(), delimiter)
        return command(*arguments, told=TableOptions(character, encoding, missing, sheet), **options)

    wrapped: Callable[..., Any] = update_wrapper(gathered, command)
    for option in (
        click.option("--sheet", help="Of Excel files, the name of the sheet. Default: the first one."),
        click.option(
            "--missing", "missing", multiple=True, metavar="TEXT",
            help="A text that stands for a missing value in CSV and Excel files, as NA; repeatable. Default: the schema's.",
        ),
        click.option("--encoding", help="Of CSV files, as latin-1. Default: the schema's, or as the first line suggests."),
        click.option("--delimiter", help="Of CSV files, one character or tab. Default: as for --encoding."),
    ):  # fmt: skip
        wrapped = option(wrapped)
    return wrapped


def over(told: synthdp.CsvFormat, schema: synthdp.CsvFormat | None) -> synthdp.CsvFormat:
    """Return the CSV format of the options, completed by the format in a schema."""
    known = schema or synthdp.CsvFormat()
    return synthdp.CsvFormat(
        told.delimiter or known.delimiter, told.encoding or known.encoding, told.missing or known.missing
    )


def table_at(path: Path, told: synthdp.CsvFormat, schema: synthdp.CsvFormat | None = None) -> Source:
    """Return the rows of a file as a source; print an unusual delimiter or encoding that its first line suggests.

    Raises
    ------
    ParameterError
        If an option is for CSV or Excel files, and the file is neither.
    """
    from synthdp.tables.sources.csv import CsvSource
    from synthdp.tables.sources.file_source import is_csv, is_excel, source_at

    if (told.delimiter or told.encoding) and not is_csv(path):
        raise ParameterError(
            f"--delimiter and --encoding are for CSV files, and '{path}' is not a CSV file: leave these options out"
        )
    if told.missing and not (is_csv(path) or is_excel(path)):
        raise ParameterError(f"--missing is for CSV and Excel files, and '{path}' is neither: leave --missing out")
    known = over(told, schema)
    source = source_at(path, csv=known, sheet=told.sheet if isinstance(told, TableOptions) else None)
    if isinstance(source, CsvSource):
        found = [
            f"delimiter {source.csv.delimiter!r}" if known.delimiter is None and source.csv.delimiter != "," else "",
            f"encoding {source.csv.encoding}" if known.encoding is None and source.csv.encoding is not None else "",
        ]
        said = " and ".join(filter(None, found))
        if said:
            click.echo(f"synthdp: '{path}' is read with {said}, as its first line suggests; see --help", err=True)
    return source


def totals_at(paths: Iterable[Path], schema: Schema) -> dict[tuple[str, ...], dict[tuple[Any, ...], float]]:
    """Return public totals from CSV files: column names to {values: rows}.

    The last column of a file has the numbers of rows, and the other columns are columns of the table.  A text that is no
    level stays as it is, and an empty cell is None, a missing value.

    Raises
    ------
    ParameterError
        If a file has another form.
    """
    found: dict[tuple[str, ...], dict[tuple[Any, ...], float]] = {}
    for path in paths:
        try:
            with path.open(newline="", encoding="utf-8-sig") as file:
                header, *lines = [line for line in csv.reader(file) if line]
            names = tuple(header[:-1])
            levels = {name: {str(level): level for level in _levels(schema, name)} for name in names}
            rows = {
                tuple(levels[name].get(text, text or None) for name, text in zip(names, line[:-1], strict=True)): float(
                    line[-1]
                )
                for line in lines
            }
        except (OSError, ValueError, UnicodeDecodeError):
            raise ParameterError(
                f"'{path}' must be a CSV file with columns of the table and, as the last column, numbers of rows"
            ) from None
        found[names] = rows
    return found


def _levels(schema: Schema, name: str) -> Iterable[Any]:
    """Return the levels of a column, for which the texts of a CSV file stand; () for a column without declared levels.

    A name that the schema does not have gives () too.
    """
    from synthdp.domain.grid import labels_of

    return labels_of(schema[name]) if name in schema and schema[name].labelled and schema[name].is_complete else ()


def read_as(schema: Schema, told: synthdp.CsvFormat) -> Schema:
    """Return a schema with the missing texts of the options, or the schema itself without such options."""
    return schema.reading(over(told, schema.csv)) if told.missing else schema
