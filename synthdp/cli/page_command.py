"""The command ``synthdp page``: a local page for people who do not program."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from synthdp.errors import ParameterError


@click.command()
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
        serve(folder, browser=not no_browser, say=_say)


def _say(link: str) -> None:
    """Print the link of the page, and the keys that renew the link and end the page."""
    click.echo(f"The page is open at {link}")
    click.echo("The link works once; Enter makes a new one. Leave this window open; Ctrl-C ends the page.")
