"""What all screens share: the answers, the jobs, how a page is made, and how a form is answered: by a redirect, always."""

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

SCREENS = ("table", "people", "columns", "rules", "promise", "release", "publish", "questions", "ledger")
"""The screens in their order."""

OTHER_TABLE = "That page was about another table, which is not the chosen one any more. Nothing was changed."
"""What the page says where another table was chosen meanwhile."""

Screen = Callable[["Site", Request], Awaitable[Response]]


@dataclass(slots=True, eq=False)
class Site:
    """The state of one run of the page.

    Parameters
    ----------
    project
        What was answered.
    base, form
        The path under which the page is, and the token of its forms.
    jobs
        What runs, or ran.
    """

    project: Project
    base: str
    form: str
    jobs: Jobs
    said: dict[str, Any] = field(default_factory=dict)
    last: float = field(default_factory=time.monotonic)

    def show(self, screen: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """Return a screen; what was to be said once is said on it."""
        said, self.said = self.said, {}
        text = environment().get_template(f"{screen}.html").render(
            base=self.base, form=self.form, number=self.project.number, screen=screen, screens=SCREENS, said=said,
            table=self.project.current, **values,
        )  # fmt: skip
        return HTMLResponse(text, status)

    def go(self, path: str, **said: Any) -> RedirectResponse:
        """Return a redirect to a screen, with something to say once on it."""
        self.said = said
        return RedirectResponse(f"{self.base}/{path}", 303)

    @property
    def ledger(self) -> synthdp.Ledger:
        """The ledger of the folder."""
        return synthdp.Ledger(self.project.ledger)

    def left(self) -> str:
        """Return what is left of the cap of the current table, in words."""
        book, name = self.ledger, self.project.people
        cap = None if name is None else book.cap(name)
        if name is None or cap is None:
            return "no cap is set yet: you set it before the first release"
        return f"{book.left(name) or 'nothing'} is left of the cap of {cap}"


def fields(request: Request) -> dict[str, str]:
    """Return the fields of a form."""
    return dict(request.scope["synthdp.form"])


def many(request: Request, name: str) -> list[str]:
    """Return all values of a field that may be there several times."""
    return [value for key, value in request.scope["synthdp.form"] if key == name]


def numbered(things: Sequence[T], number: str, what: str) -> T:
    """Return the thing that an address or a form names by its number.

    Raises
    ------
    DataError
        If there is none.
    """
    places = {str(place): thing for place, thing in enumerate(things)}
    if number not in places:
        raise DataError(f"This page shows a {what} that is not there any more: reload it and choose again.")
    return places[number]


def answered(site: Site, screen: Screen, back: str) -> Callable[[Request], Awaitable[Response]]:
    """Return what answers a request: a screen, or the screen ``back`` with one sentence on why not."""

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
    """Return the templates, which escape whatever they are given."""
    return Environment(
        loader=PackageLoader("synthdp.page", "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
