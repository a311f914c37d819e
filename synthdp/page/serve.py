"""Start of the page's server: on 127.0.0.1 only, at a free port, until Ctrl-C or an hour without a request."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sqlite3
import sys
import time
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from synthdp.errors import DataError
from synthdp.files import write_private
from synthdp.page import outcome, prepare
from synthdp.page.guard import Guard, forward
from synthdp.page.jobs import Jobs
from synthdp.page.project import Project
from synthdp.page.site import Screen, Site, answered


async def _first(site: Site, _: Request) -> Response:
    """Redirect to the first question without an answer; after a crash this is the question that was open."""
    project = site.project
    if project.current is None or project.state["columns"] is None:
        return site.go("table")
    if project.people is None:
        return site.go("people")
    if project.open_columns:
        return site.go(f"columns/{project.open_columns[0]}")
    return site.go("release" if project.state["key"] else "promise")


async def _progress(site: Site, request: Request) -> Response:
    """Return a running job's progress as HTML for the script; status 204 once the job has ended."""
    job = site.jobs[request.path_params["job"]]
    if job is None or not job.running:
        return Response(status_code=204)
    return site.show("progress", job=job)


async def _nothing(_: Request, __: Exception) -> Response:
    """Return the response to an unknown address or method, status 404."""
    return PlainTextResponse("There is nothing at this address.", 404)


GET: dict[str, Screen] = {
    "": _first, "table": prepare.table, "people": prepare.people,
    "columns": prepare.columns, "columns/{column}": prepare.column, "rules": prepare.rules,
    "promise": outcome.promise, "release": outcome.release, "publish": outcome.publish,
    "publish/{release}/file/{file}": outcome.file, "publish/{release}/report": outcome.framed,
    "publish/{release}/zip": outcome.packed, "questions": outcome.questions, "ledger": outcome.ledger,
    "progress/{job}": _progress,
}  # fmt: skip
"""The screens by address."""

POST: dict[str, tuple[Screen, str]] = {
    "table": (prepare.choose, "table"), "people": (prepare.protect, "people"), "document": (prepare.dictionary, "columns"),
    "missing": (prepare.missing, "columns"), "sheet": (prepare.sheet, "columns"), "recall": (prepare.recall, "columns"),
    "columns/{column}": (prepare.answer, "columns/{column}"), "columns/{column}/look": (prepare.look, "columns/{column}"),
    "columns/{column}/hide": (prepare.hide, "columns/{column}"), "rules": (prepare.add_rule, "rules"),
    "rules/{rule}/drop": (prepare.drop_rule, "rules"),
    "rules/propose": (prepare.propose_rules, "rules"), "rules/forget": (prepare.forget_proposals, "rules"),
    "rules/{rule}/take": (prepare.take_proposal, "rules"), "promise": (outcome.make_plan, "promise"),
    "promise/choose": (outcome.choose_promise, "promise"), "release": (outcome.start_release, "release"),
    "release/stop": (outcome.stop_release, "release"), "publish/{release}/finish": (outcome.finish, "publish"),
    "publish/{release}/about": (outcome.describe, "publish"),
    "publish/{release}/compare": (outcome.compare, "publish"), "publish/forget": (outcome.forget_comparison, "publish"),
    "questions": (outcome.ask, "questions"), "ledger": (outcome.set_cap, "ledger"),
}  # fmt: skip
"""The handler of each form by address, and the screen that shows the reason of a refusal."""


def application(site: Site) -> Starlette:
    """Return the page as a Starlette application; `Guard` wraps it."""
    routes: list[BaseRoute] = [Mount("/static", StaticFiles(packages=[("synthdp.page", "static")]))]
    routes += [Route(f"/{path}", answered(site, screen, "table")) for path, screen in GET.items()]
    routes += [Route(f"/{path}", answered(site, do, back), methods=["POST"]) for path, (do, back) in POST.items()]
    return Starlette(routes=[Mount(site.base, routes=routes)], exception_handlers={404: _nothing, 405: _nothing})


IDLE_SECONDS = 3600.0
"""Seconds without a request after which the server ends, so that no forgotten page stays open.  A safety limit."""

LOCK, OPENER = ".synthdp-page.lock", ".synthdp-page.html"
"""Names of the file that a running page locks, and of the file that opens the page in the browser."""


def serve(folder: Path, *, browser: bool, say: Callable[[str], None], idle_seconds: float = IDLE_SECONDS) -> None:
    """Serve the page of a folder until Ctrl-C, or until no request comes for ``idle_seconds``.

    Parameters
    ----------
    folder
        Folder with the tables.
    browser
        Whether to open the link in a browser.
    say
        Function that is called with the link once the page answers, and with each new link.
    idle_seconds
        Seconds without a request, while no job runs, after which the server ends.

    Raises
    ------
    DataError, FormatError
        If the folder cannot be written to, its page is open already, or its answers cannot be read.

    """
    with _held(folder), socket.socket() as door:
        project = Project.opened(folder)
        door.bind(("127.0.0.1", 0))
        guard = Guard(door.getsockname()[1])
        opener = project.folder / OPENER
        site = Site(project, guard.base, guard.form, Jobs(project.folder))
        guard.app = application(site)

        # no log at all: a line of it could name a column, and a traceback quote a row
        config = uvicorn.Config(
            guard, log_config=None, log_level="critical", access_log=False, lifespan="off", server_header=False,
            ws="none", timeout_graceful_shutdown=2,
        )  # fmt: skip
        server = uvicorn.Server(config)

        def renewed() -> None:
            guard.renew()
            say(guard.link)

        async def until_idle() -> None:
            running = asyncio.create_task(server.serve([door]))
            try:
                while not server.started and not running.done():
                    await asyncio.sleep(0.01)
                say(guard.link)
                _on_enter(renewed)
                if browser:
                    _open(opener, guard.link)
                while not running.done():
                    await asyncio.wait([running], timeout=min(1.0, idle_seconds))
                    if guard.is_opened:
                        opener.unlink(missing_ok=True)
                    if not site.jobs.busy and time.monotonic() - site.last > idle_seconds:
                        server.should_exit = True
                await running
            finally:
                _on_enter(None)
                opener.unlink(missing_ok=True)
                await site.jobs.stop()

        asyncio.run(until_idle())


def _on_enter(do: Callable[[], object] | None) -> None:
    """Call a function at each Enter in the terminal, or stop this with None; without a terminal do nothing.

    The page prints a new link at Enter.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        return
    loop = asyncio.get_running_loop()

    def read() -> None:
        if not os.read(sys.stdin.fileno(), 1024):  # the terminal has gone
            loop.remove_reader(sys.stdin)
        elif do is not None:
            do()

    with contextlib.suppress(NotImplementedError):  # the loop of Windows follows no files
        loop.remove_reader(sys.stdin)
        if do is not None:
            loop.add_reader(sys.stdin, read)


def _open(opener: Path, link: str) -> None:
    """Open the link in the browser without showing it to other users, who can read the arguments of every process.

    The browser is started with a file that only its owner can read and that forwards to the link.  If the file cannot
    be written, the link is still in the terminal.
    """
    with contextlib.suppress(OSError):
        write_private(opener, forward(link))
        webbrowser.open(opener.as_uri())


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold a lock on a folder, so that two servers never overwrite each other's answers.

    Raise DataError if another process holds it.  The operating system releases the lock if the process ends.
    """
    try:
        with contextlib.closing(sqlite3.connect(folder / LOCK, timeout=0, isolation_level=None)) as lock:
            lock.execute("BEGIN EXCLUSIVE")
            yield
    except sqlite3.Error as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
            raise DataError(f"a page for '{folder}' is running already: use that page, or end it first") from None
        raise DataError(f"'{folder}' is not a folder that can be written to: give another folder") from None
