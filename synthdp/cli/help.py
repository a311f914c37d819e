"""A group of commands whose help shows the whole first sentence of each command, under headings."""

from __future__ import annotations

import inspect

import click


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
