"""`synthdp schema review`: a draft, column by column in the terminal; each answer is on disk before the next question."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from synthdp.errors import SynthDPError

if TYPE_CHECKING:
    from synthdp.nonprivate.draft import ColumnReview, Draft
    from synthdp.schema.column import Column

KEYS = {"a": "accept", "c": "change", "k": "known", "d": "drop", "s": "skip", "q": "quit"}
ASKED = "  ".join(f"[{word[0]}]{word[1:]}" for word in KEYS.values())
OPEN = "*"
MOST_SHOWN = 12


@click.command()
@click.argument("path", metavar="SCHEMA", type=click.Path(path_type=Path))
@click.option("--accept-all", is_flag=True, help="Accept every column as it was drafted, without a question.")
@click.option("--by", metavar="NAME", help="Who accepts, for the receipt.")
def review(path: Path, accept_all: bool, by: str | None) -> None:
    """Go through a drafted schema, column by column: accept, change, drop or skip.

    A column may also be taken as one that everybody knows, such as a month; see `synthdp schema known`.  Bounds and levels
    of accepted columns stay "drafted from the table", and the receipt says so.  Every answer is written at once, so that
    an interrupted review goes on where it stopped.

    \b
    Examples:
      synthdp schema review schema.json
      synthdp schema review schema.json --accept-all --by "J. Smith"
    """
    from synthdp.nonprivate.draft import Draft

    draft = Draft.read(path)
    if accept_all:
        count = len(draft.unreviewed)
        _write(draft.accept_all(by=by), path)
        click.echo(f"{count} columns accepted as drafted: {path}")
        return
    for name, why in draft.left_out.items():
        click.echo(f"left out: {name}, {why}")
    todo, total = draft.unreviewed, len(draft)
    for number, name in enumerate(todo, start=1):
        one = draft.review(name)
        click.echo(f"\n{number} of {len(todo)}  {name}: {_described(one.column)}")
        click.echo(f"    seen: {one.seen or 'nothing is known'}")
        if fitting := _fitting(name, one.column):
            click.echo(f"    known by its name: {', '.join(fitting)}")
        key = _answered(one, by)
        if key == "quit":
            break
        _write(draft, path)
    left = len(draft.unreviewed)
    done = "all columns are reviewed" if not left else f"{left} of {total} columns are not reviewed yet: run it again"
    click.echo(f"\n{done}: {path}")


class _EndOfInputError(Exception):
    """Nobody answers any more: as good as quit, and nothing half-answered counts."""


def _answered(one: ColumnReview, by: str | None) -> str:
    """Ask what to do with a column until it is done."""
    while True:
        try:
            key = KEYS.get(_asked(f"    {ASKED}: ").strip().lower()[:1], "")
            match key:
                case "accept":
                    one.accept(by=by)
                case "change":
                    _change(one)
                case "known":
                    _adopt(one)
                case "drop":
                    one.drop()
                case "":
                    continue
        except _EndOfInputError:
            return "quit"
        except SynthDPError as error:
            click.echo(f"    {error}")
            continue
        return key


def _change(one: ColumnReview) -> None:
    """Ask for new bounds or levels and where they are known from; an empty answer leaves what is."""
    column, settings = one.column, {}
    if column.measured:
        for end in ("lower", "upper"):
            text = _asked(f"    {end} [{getattr(column, end)}]: ")
            if text.strip():
                settings[end] = _number(text.strip(), column)
    elif hasattr(column, "levels"):
        text = _asked(
            f"    levels, with | between them, or {OPEN} to have them discovered [{_listed(column.levels)}]: "
        )
        if text.strip():
            settings["levels"] = None if text.strip() == OPEN else _levels(text, column.levels or ())
    source = _asked("    known from (a codebook, a law, ...) [nothing but the table]: ")
    if source.strip():
        settings["source"] = source.strip()
    one.set(**settings)


def _adopt(one: ColumnReview) -> None:
    """Ask which column that everybody knows it is."""
    from synthdp.schema.schema import Schema

    fitting = _fitting(one.name, one.column)
    known = _asked(f"    known column [{fitting[0] if fitting else 'none'}]: ").strip()
    one.set(Schema.known(known or (fitting[0] if fitting else "none"), nullable=one.column.nullable))


def _fitting(name: str, column: Column) -> list[str]:
    """Return the names of the known columns that a column's name suggests, if they can hold what was drafted."""
    from synthdp.schema.known_columns import suggested
    from synthdp.schema.schema import Schema

    return [known for known in suggested(name) if _can_hold(Schema.known(known), column)]


def _can_hold(known: Column, drafted: Column) -> bool:
    if known.labelled != drafted.labelled:
        return False
    return not known.labelled or set(getattr(drafted, "levels", None) or ()) <= set(
        getattr(known, "levels", (False, True))
    )


def _number(text: str, column: Column) -> Any:
    if column.temporal and column.quantity == "moment":
        return text
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text  # the schema's own check says what is wrong


def _levels(text: str, known: Any) -> list[Any]:
    """Return levels; the text of a level that is a number stands for the number."""
    numbers = {str(level): level for level in known if not isinstance(level, str)}
    return [numbers.get(level.strip(), level.strip()) for level in text.split("|")]


def _described(column: Column) -> str:
    kind = type(column).__name__.lower()
    holes = ", may be missing" if column.nullable else ""
    if column.measured:
        ends = f"{getattr(column, 'lower', None)} to {getattr(column, 'upper', None)}"
        return f"{kind}, {ends if column.is_complete else 'bounds to be discovered'}{holes}"
    if hasattr(column, "levels"):
        return f"{kind}, {_listed(column.levels)}{holes}"
    return f"{kind}{holes}"


def _listed(levels: Any) -> str:
    if levels is None:
        return "levels to be discovered"
    more = f" | and {len(levels) - MOST_SHOWN} more" if len(levels) > MOST_SHOWN else ""
    return " | ".join(map(str, levels[:MOST_SHOWN])) + more


def _asked(question: str) -> str:
    """Return a line of the standard input; `_EndOfInputError` if there is none."""
    click.echo(question, nl=False)
    line = sys.stdin.readline()
    if not line:
        raise _EndOfInputError
    return line


def _write(draft: Draft, path: Path) -> None:
    from synthdp.publishing import whole_file

    with whole_file(path, private=True) as scratch:
        draft.write(scratch)
