"""The common part of all screens: the state of a run, the rendering of screens, and redirects after forms."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

import synthdp
from synthdp.errors import DataError, SynthDPError
from synthdp.page.jobs import Jobs
from synthdp.page.project import Project
from synthdp.page.work import UNEXPECTED

T = TypeVar("T")
"""The type of an element of the list that `numbered` looks in."""

SCREENS = ("table", "people", "columns", "rules", "promise", "release", "publish", "questions", "ledger")
"""Names of the screens in their order."""

OTHER_TABLE = "That page was about another table, which is not the chosen one any more. Nothing was changed."
"""Text for a form about a table that is no longer the current table."""

Screen = Callable[["Site", Request], Awaitable[Response]]
"""A function that answers a request for a screen or a form."""


@dataclass(slots=True, eq=False)
class Site:
    """The state of one run of the page.

    Parameters
    ----------
    project
        Stored answers of the folder.
    base, form
        Path prefix of the page, and the secret token of its forms.
    jobs
        Child processes that run or have ended.
    said
        Messages of the last redirect, which the next screen shows once.
    last
        Time of the last request on the monotonic clock, in seconds; the server ends after an hour without one.
    """

    project: Project
    base: str
    form: str
    jobs: Jobs
    said: dict[str, Any] = field(default_factory=dict)
    last: float = field(default_factory=time.monotonic)

    def show(self, screen: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """Return the HTML of a screen; messages from the last redirect are shown on it once."""
        said, self.said = self.said, {}
        text = environment().get_template(f"{screen}.html").render(
            base=self.base, form=self.form, number=self.project.number, screen=screen, screens=SCREENS, said=said,
            table=self.project.current, **values,
        )  # fmt: skip
        return HTMLResponse(text, status)

    def go(self, path: str, **said: Any) -> RedirectResponse:
        """Return a redirect to a screen, with messages that the next screen shows once."""
        self.said = said
        return RedirectResponse(f"{self.base}/{path}", 303)

    @property
    def ledger(self) -> synthdp.Ledger:
        """The ledger of the folder, opened anew."""
        return synthdp.Ledger(self.project.ledger)

    def left(self) -> str:
        """Return a phrase about the remaining budget under the cap of the current table's people."""
        book, name = self.ledger, self.project.people
        cap = None if name is None else book.cap(name)
        if name is None or cap is None:
            return "no cap is set yet: you set it before the first release"
        return f"{book.left(name) or 'nothing'} is left of the cap of {cap}"


def fields(request: Request) -> dict[str, str]:
    """Return the fields of a form by name; the last value counts if a name is repeated."""
    return dict(request.scope["synthdp.form"])


def many(request: Request, name: str) -> list[str]:
    """Return all values of a form field that can occur several times."""
    return [value for key, value in request.scope["synthdp.form"] if key == name]


def numbered(things: Sequence[T], number: str, what: str) -> T:
    """Return the element of a list that an address or a form names by its position.

    Addresses therefore contain no names of columns or files.

    Raises
    ------
    DataError
        If the list has no such position.
    """
    places = {str(place): thing for place, thing in enumerate(things)}
    if number not in places:
        raise DataError(f"This page shows a {what} that is not there any more: reload it and choose again.")
    return places[number]


def answered(site: Site, screen: Screen, back: str) -> Callable[[Request], Awaitable[Response]]:
    """Return the handler of a request, which calls ``screen``.

    A form with an error leads to the screen ``back`` with the error's text and what was typed; any other request shows
    the error on the screen "trouble".  A form about another table than the current one is not handled.  An unexpected
    error shows a fixed text, because its own text could quote private data.
    """

    async def respond(request: Request) -> Response:
        site.last = time.monotonic()
        where = back.format(**request.path_params)
        try:
            if request.method == "POST" and fields(request).get("number") != site.project.number:
                return site.go("table", error=OTHER_TABLE)
            return await screen(site, request)
        except SynthDPError as error:
            if request.method == "POST":
                return site.go(where, error=str(error), typed=fields(request), ticked=many(request, "tick"))
            return site.show("trouble", status=409, error=str(error))
        except Exception:  # noqa: BLE001 - a traceback could quote what no page may show
            return site.show("trouble", status=500, error=UNEXPECTED)

    return respond


@cache
def environment() -> Environment:
    """Return the jinja2 environment of the page's templates, which escapes every value; it is made once."""
    return Environment(
        loader=PackageLoader("synthdp.page", "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
