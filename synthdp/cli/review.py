"""`synthdp schema review`: a draft, column by column in the terminal; each answer is on disk before the next question."""

from __future__ import annotations

import re
import sys
import textwrap
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from synthdp.errors import SynthDPError

if TYPE_CHECKING:
    from synthdp.nonprivate.draft import ColumnReview, Draft
    from synthdp.schema.column import Column

KEYS = {
    "a": "accept",
    "i": "instead",
    "c": "change",
    "o": "other",
    "k": "known",
    "d": "drop",
    "s": "skip",
    "q": "quit",
    "?": "help",
}
"""The key of each answer."""

ASKED = "  ".join([*(f"[{word[0]}]{word[1:]}" for key, word in KEYS.items() if key not in "?i"), "[?]"])
"""The line of all answers except another draft's, which few columns have.  A convention."""

RULES_ASKED = "[d]eclare  [n]o  [s]kip  [q]uit"
HELP = {
    "accept": "take the column as it stands; the receipt says that it was drafted from the table",
    "instead": "take the other draft, where there is one: codes instead of numbers, or numbers instead of codes",
    "change": "new bounds or levels, and where they are known from",
    "other": "any other setting: special numbers, decimals, step, format, nullable, ...",
    "known": "a column that everybody knows, such as a month",
    "drop": "leave the column out of the release",
    "skip": "leave it for later",
    "quit": "end here; run the command again to go on",
}
"""What each answer does."""

OPEN = "*"
"""What stands for an open bound."""

MIDNIGHT = "T00:00:00.000000"
"""What a day need not say of its time.  A text."""

MOST_SHOWN = 12
"""Levels that are shown at once.  A convention."""

_ASKED_BY_CHANGE = ("lower", "upper", "levels", "source")
"""Settings that the answer "change" asks for."""


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
        proposed = f", {len(draft.proposed)} proposed rules neither declared nor dismissed" if draft.proposed else ""
        click.echo(f"{count} columns accepted as drafted{proposed}: {path}")
        return
    for name, why in draft.left_out.items():
        click.echo(f"left out: {name}, {why}")
    todo, total = draft.unreviewed, len(draft)
    said: set[str] = set()
    for number, name in enumerate(todo, start=1):
        one = draft.review(name)
        click.echo("")
        click.echo(
            textwrap.fill(f"{number} of {len(todo)}  {name}: {_described(one.column)}", 100, subsequent_indent="    ")
        )
        if found := _settings(one.column):
            click.echo(f"    settings: {', '.join(f'{name} {_shown(value)}' for name, value in found.items())}")
        _say(f"seen: {one.seen or 'nothing is known'}")
        new = [sentence for sentence in _sentences(one.comment) if sentence not in said]
        said.update(new)
        _say(" ".join(new))
        if (other := one.instead) is not None:
            _say(f"or instead: {_described(other)}")
        if fitting := _fitting(name, one.column):
            click.echo(f"    known by its name: {', '.join(fitting)}")
        key = _answered(one, by)
        if key == "quit":
            break
        _write(draft, path)
    else:
        _review_rules(draft, path)
    open_ = len(draft.unreviewed)
    done = "all columns are reviewed" if not open_ else f"{open_} of {total} columns are not reviewed yet: run it again"
    click.echo(f"\n{done}: {path}")


def _review_rules(draft: Draft, path: Path) -> None:
    """Ask of every proposed rule whether it holds without the table."""
    for rule in draft.proposed:
        click.echo(f"\nrule  {rule.in_words()}?")
        _say(draft.why(rule) + " Declare it only if it holds for other tables, too: every synthetic row will keep it.")
        while True:
            try:
                key = _asked(f"    {RULES_ASKED}: ").strip().lower()[:1]
            except _EndOfInputError:
                return
            try:
                if key == "d":
                    draft.declare(rule)
                elif key == "n":
                    draft.dismiss(rule)
                elif key == "q":
                    return
                elif key != "s":
                    continue
            except SynthDPError as error:
                click.echo(f"    {error}")
                continue
            break
        _write(draft, path)


class _EndOfInputError(Exception):
    """Nobody answers any more: as good as quit, and nothing half-answered counts."""


def _answered(one: ColumnReview, by: str | None) -> str:
    """Ask what to do with a column until it is done."""
    asked = ASKED if one.instead is None else f"[i]nstead  {ASKED}"
    while True:
        try:
            key = KEYS.get(_asked(f"    {asked}: ").strip().lower()[:1], "")
            match key:
                case "accept":
                    one.accept(by=by)
                case "instead":
                    one.take_instead(by=by)
                case "change":
                    _change(one)
                case "other":
                    _set_others(one)
                case "known":
                    _adopt(one)
                case "drop":
                    one.drop()
                case "help":
                    _say(one.comment)
                    for word, what in HELP.items():
                        click.echo(f"    {word}: {what}")
                    continue
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


def _set_others(one: ColumnReview) -> None:
    """Ask for a setting that is neither a bound nor a list of levels, until the answer is empty, and accept the column."""
    column = one.column
    names = [field.name for field in fields(column) if field.init and field.name not in _ASKED_BY_CHANGE]
    if not names:
        click.echo("    it has no other setting")
        return
    found: dict[str, Any] = {}
    while text := _asked(f"    setting=value, of {', '.join(names)} [no more]: ").strip():
        name, _, value = (part.strip() for part in text.partition("="))
        found[name] = _value(name, value, column)
    if found:
        one.set(**found)


def _value(name: str, text: str, column: Column) -> Any:
    """Return a setting as it was typed: a list where the setting is one, "none" for none."""
    if text.lower() in ("", "none"):
        return () if name in ("special", "words", "groups") else None
    match name:
        case "nullable":
            return {"yes": True, "true": True, "no": False, "false": False}.get(text.lower(), text)
        case "special":
            return [_number(part.strip(), column) for part in text.split("|")]
        case "words":
            pairs = (part.rpartition(":") for part in text.split("|"))
            return {word.strip(): _number(number.strip(), column) for word, _, number in pairs}
        case "decimals" | "step":
            return _number(text, column)
    return text


def _settings(column: Column) -> dict[str, Any]:
    """Return what is declared of a column beside its bounds, levels and whether a value may be missing."""
    hidden = {*_ASKED_BY_CHANGE, "nullable"}
    return {
        field.name: value
        for field in fields(column)
        if field.name not in hidden and (value := getattr(column, field.name)) != field.default
    }


def _shown(value: Any) -> str:
    """Return a setting as text."""
    if not isinstance(value, tuple):
        return str(value)
    return " | ".join(f"{one[0]}: {one[1]}" if isinstance(one, tuple) and len(one) == 2 else str(one) for one in value)


def _sentences(comment: str) -> list[str]:
    """Return the sentences of a comment."""
    return re.split(r"(?<=[.:]) (?=[A-Z0-9])", comment) if comment else []


def _say(text: str) -> None:
    """Print a text, indented and wrapped."""
    if text:
        click.echo(textwrap.fill(text, 100, initial_indent="    ", subsequent_indent="    "))


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
    """Say whether a known column can hold all levels of the drafted one."""
    if known.labelled != drafted.labelled:
        return False
    return not known.labelled or set(getattr(drafted, "levels", None) or ()) <= set(
        getattr(known, "levels", (False, True))
    )


def _number(text: str, column: Column) -> Any:
    """Return a typed bound as a number, or as text where the column is of moments."""
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
    """Return a column in one line."""
    kind = type(column).__name__.lower()
    holes = ", may be missing" if column.nullable else ""
    if column.measured:
        ends = " to ".join(str(getattr(column, end, None)).removesuffix(MIDNIGHT) for end in ("lower", "upper"))
        return f"{kind}, {ends if column.is_complete else 'bounds to be discovered'}{holes}"
    if hasattr(column, "levels"):
        return f"{kind}, {_listed(column.levels)}{holes}"
    return f"{kind}{holes}"


def _listed(levels: Any) -> str:
    """Return levels as text, the first `MOST_SHOWN` of them."""
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
    """Write a draft to a file, whole or not at all."""
    from synthdp.publishing import whole_file

    with whole_file(path, private=True) as scratch:
        draft.write(scratch)
