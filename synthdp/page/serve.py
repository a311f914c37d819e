"""Start the page: on 127.0.0.1 only, at a port that the system chooses, until Ctrl-C or an hour without a request."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sqlite3
import time
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn

from synthdp.errors import DataError
from synthdp.files import write_private
from synthdp.page.app import application
from synthdp.page.guard import Guard, forward
from synthdp.page.jobs import Jobs
from synthdp.page.project import Project
from synthdp.page.site import Site

IDLE_SECONDS = 3600.0
LOCK, OPENER = ".synthdp-page.lock", ".synthdp-page.html"


def serve(folder: Path, *, browser: bool, say: Callable[[str], None], idle_seconds: float = IDLE_SECONDS) -> None:
    """Serve the page of a folder until it is no longer needed.

    Parameters
    ----------
    folder
        Where the tables are.
    browser
        Whether to open the link.
    say
        Called with the link, once the page answers.
    idle_seconds
        How long to wait for a request while no job runs.

    Raises
    ------
    DataError, FormatError
        If there is no such folder, its page is open already, or its answers cannot be read.
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

        async def until_idle() -> None:
            running = asyncio.create_task(server.serve([door]))
            try:
                while not server.started and not running.done():
                    await asyncio.sleep(0.01)
                say(guard.link)
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
                opener.unlink(missing_ok=True)
                await site.jobs.stop()

        asyncio.run(until_idle())


def _open(opener: Path, link: str) -> None:
    """Open a link that nobody else may know: every user of the machine can read what a browser is started with.

    So it is started with a file that only its owner may read, and that leads to the link.  Where none can be written, the
    link is in the terminal.
    """
    with contextlib.suppress(OSError):
        write_private(opener, forward(link))
        webbrowser.open(opener.as_uri())


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Keep a folder to one server, which else would write over another's answers; however it ends, the system lets go."""
    try:
        with contextlib.closing(sqlite3.connect(folder / LOCK, timeout=0, isolation_level=None)) as lock:
            lock.execute("BEGIN EXCLUSIVE")
            yield
    except sqlite3.Error as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
            raise DataError(f"the page of '{folder}' is open already: use that one, or end it first") from None
        raise DataError(f"'{folder}' is no folder that can be written to") from None
