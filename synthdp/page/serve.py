"""Start the page: on 127.0.0.1 only, at a port that the system chooses, until Ctrl-C or an hour without a request."""

from __future__ import annotations

import asyncio
import socket
import time
import webbrowser
from collections.abc import Callable
from pathlib import Path

import uvicorn

from synthdp.page.app import application
from synthdp.page.guard import Guard
from synthdp.page.jobs import Jobs
from synthdp.page.project import Project
from synthdp.page.site import Site

IDLE_SECONDS = 3600.0


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
        If there is no such folder, or its answers cannot be read.
    """
    project = Project.opened(folder)
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        guard = Guard(_nobody, door.getsockname()[1])
        site = Site(project, guard.base, guard.form, Jobs(project.folder))
        guard.app = application(site)
        # no log at all: a line of it could name a column, and a traceback quote a row
        config = uvicorn.Config(
            guard, log_config=None, log_level="critical", access_log=False, lifespan="off", server_header=False,
            ws="none", timeout_graceful_shutdown=2,
        )  # fmt: skip
        server = uvicorn.Server(config)
        asyncio.run(_until_idle(server, door, site, lambda: _announce(guard, browser=browser, say=say), idle_seconds))


async def _nobody(*_: object) -> None:
    """Answer nobody: the page is not ready."""


def _announce(guard: Guard, *, browser: bool, say: Callable[[str], None]) -> None:
    say(guard.link)
    if browser:
        webbrowser.open(guard.link)


async def _until_idle(
    server: uvicorn.Server, door: socket.socket, site: Site, ready: Callable[[], None], idle_seconds: float
) -> None:
    running = asyncio.create_task(server.serve([door]))
    try:
        while not server.started and not running.done():
            await asyncio.sleep(0.01)
        ready()
        while not running.done():
            await asyncio.wait([running], timeout=min(1.0, idle_seconds))
            if not site.jobs.busy and time.monotonic() - site.last > idle_seconds:
                server.should_exit = True
        await running
    finally:
        await site.jobs.stop_all()
