"""The command `synthdp schema review`: a draft's review in the terminal, column by column.

Each answer is written to disk before the next question.
"""

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
"""The answer of each key."""

ASKED = "  ".join([*(f"[{word[0]}]{word[1:]}" for key, word in KEYS.items() if key not in "?i"), "[?]"])
"""The prompt with all answers but "instead", which few columns offer.  A convention."""

RULES_ASKED = "[d]eclare  [n]o  [s]kip  [q]uit"
"""The prompt for a proposed rule."""
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
"""The help text of each answer."""

OPEN = "*"
"""Typed text for levels that a release discovers."""

MIDNIGHT = "T00:00:00.000000"
"""Suffix that a bound at midnight is shown without."""

MOST_SHOWN = 12
"""Levels that a line shows, at most.  More would take several lines of a terminal.  A convention."""

_ASKED_BY_CHANGE = ("lower", "upper", "levels", "source")
"""Settings that the answer "change" asks for; "other" asks for the rest."""


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
    """Ask for every proposed rule whether to declare or dismiss it, and write the draft after each answer."""
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
    """The end of the standard input: the review ends as with "quit", and an unfinished answer changes nothing."""


def _answered(one: ColumnReview, by: str | None) -> str:
    """Ask for an answer about a column until it succeeds, apply it to the draft, and return it, a word of `KEYS`.

    At the end of the input the answer is "quit".
    """
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
    """Ask for new bounds or levels and their source, set them and accept the column; an empty line keeps the old."""
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
    """Ask for other settings until an empty line, then set them and accept the column.

    Without any setting nothing changes, and the column is not accepted.
    """
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
    """Return a typed setting as its type: list, dict, bool or number; "none" and "" give None or an empty list.

    A text that cannot be read stays a text, which the schema then refuses.
    """
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
    """Return a column's settings that differ from their default, which a line of the review lists.

    Bounds, levels, source and nullable have a place of their own, and are left out.
    """
    hidden = {*_ASKED_BY_CHANGE, "nullable"}
    return {
        field.name: value
        for field in fields(column)
        if field.name not in hidden and (value := getattr(column, field.name)) != field.default
    }


def _shown(value: Any) -> str:
    """Return the value of a setting as text; several values, or pairs of a text and its number, stand between "|"."""
    if not isinstance(value, tuple):
        return str(value)
    return " | ".join(f"{one[0]}: {one[1]}" if isinstance(one, tuple) and len(one) == 2 else str(one) for one in value)


def _sentences(comment: str) -> list[str]:
    """Return the sentences of a comment; the review shows each sentence only once."""
    return re.split(r"(?<=[.:]) (?=[A-Z0-9])", comment) if comment else []


def _say(text: str) -> None:
    """Print a text, indented and wrapped at 100 characters; "" prints nothing."""
    if text:
        click.echo(textwrap.fill(text, 100, initial_indent="    ", subsequent_indent="    "))


def _adopt(one: ColumnReview) -> None:
    """Ask for the name of a known column, such as month, set the column to it and accept it."""
    from synthdp.schema.schema import Schema

    fitting = _fitting(one.name, one.column)
    known = _asked(f"    known column [{fitting[0] if fitting else 'none'}]: ").strip()
    one.set(Schema.known(known or (fitting[0] if fitting else "none"), nullable=one.column.nullable))


def _fitting(name: str, column: Column) -> list[str]:
    """Return the names of known columns to offer: the column's name suggests them, and they hold all drafted levels."""
    from synthdp.schema.known_columns import suggested
    from synthdp.schema.schema import Schema

    return [known for known in suggested(name) if _can_hold(Schema.known(known), column)]


def _can_hold(known: Column, drafted: Column) -> bool:
    """Return whether a known column has the kind of the drafted column and can hold all its levels.

    Booleans have the levels False and True.  Bounds are not compared.
    """
    if known.labelled != drafted.labelled:
        return False
    return not known.labelled or set(getattr(drafted, "levels", None) or ()) <= set(
        getattr(known, "levels", (False, True))
    )


def _number(text: str, column: Column) -> Any:
    """Return a typed bound as a number; as text for moments, or if it is no number, which the schema then refuses."""
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
    """Return the typed levels, between "|"; a text that equals a drafted number or boolean becomes that level."""
    numbers = {str(level): level for level in known if not isinstance(level, str)}
    return [numbers.get(level.strip(), level.strip()) for level in text.split("|")]


def _described(column: Column) -> str:
    """Return a column's type, bounds or levels, and whether values may be missing, in one line."""
    kind = type(column).__name__.lower()
    holes = ", may be missing" if column.nullable else ""
    if column.measured:
        ends = " to ".join(str(getattr(column, end, None)).removesuffix(MIDNIGHT) for end in ("lower", "upper"))
        return f"{kind}, {ends if column.is_complete else 'bounds to be discovered'}{holes}"
    if hasattr(column, "levels"):
        return f"{kind}, {_listed(column.levels)}{holes}"
    return f"{kind}{holes}"


def _listed(levels: Any) -> str:
    """Return the first `MOST_SHOWN` levels as text, with the number of the others."""
    if levels is None:
        return "levels to be discovered"
    more = f" | and {len(levels) - MOST_SHOWN} more" if len(levels) > MOST_SHOWN else ""
    return " | ".join(map(str, levels[:MOST_SHOWN])) + more


def _asked(question: str) -> str:
    """Print a question and return the next line of the standard input; raise `_EndOfInputError` at its end."""
    click.echo(question, nl=False)
    line = sys.stdin.readline()
    if not line:
        raise _EndOfInputError
    return line


def _write(draft: Draft, path: Path) -> None:
    """Write a draft to a file that only its owner can read; the file is never half written."""
    from synthdp.publishing import whole_file

    with whole_file(path, private=True) as scratch:
        draft.write(scratch)
