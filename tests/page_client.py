"""A client of the stewards' page without a network: it asks the application itself, behind its guard."""

from __future__ import annotations

import asyncio
import contextlib
import re
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from synthdp.page import work
from synthdp.page.guard import Guard
from synthdp.page.jobs import Job, Jobs
from synthdp.page.project import Project
from synthdp.page.serve import application
from synthdp.page.site import Site

PORT = 12345
ORIGIN = f"http://127.0.0.1:{PORT}"


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def text(self) -> str:
        return unescape(self.body.decode(errors="replace"))

    def header(self, name: str) -> str:
        return next((value for known, value in self.headers if known == name), "")


class JobsHere(Jobs):
    """Jobs that are done at once, in this process, by the very function that a child runs."""

    def start(self, name: str, request: dict[str, Any], *, at_end: Any = lambda _: None, about: Any = None) -> Job:
        job = self._jobs[name] = Job(name, self.folder, at_end, about)
        with contextlib.chdir(self.folder):
            job._hear(work.run({"job": name, **request}, lambda progress: job._hear({"progress": vars_of(progress)})))
        job.state = "failed" if job.error or job.result is None else "done"
        job.conclude()
        return job


def vars_of(progress: Any) -> dict[str, Any]:
    return {"stage": progress.stage, "done": progress.done, "total": progress.total}


async def asked(
    app: Any, method: str, path: str, headers: list[tuple[str, str]], body: bytes = b"", *, hung_up: bool = False
) -> Answer:
    """Ask an application one thing, as a server does; who hangs up does so after what is given of the body."""
    sent: list[Any] = []
    messages = [{"type": "http.request", "body": body, "more_body": hung_up}, *[{"type": "http.disconnect"}] * hung_up]

    async def receive() -> Any:
        return messages.pop(0) if messages else await asyncio.Event().wait()  # nobody hangs up

    async def send(message: Any) -> None:
        sent.append(message)

    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "scheme": "http",
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", PORT),
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers],
    }
    await app(scope, receive, send)
    start = next(message for message in sent if message["type"] == "http.response.start")
    found = [(name.decode(), value.decode()) for name, value in start["headers"]]
    whole = b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body")
    return Answer(start["status"], found, whole)


@dataclass
class Visitor:
    """A browser without a screen: it keeps the cookie, sends forms as they were written, and follows redirects."""

    folder: Path

    def __post_init__(self) -> None:
        self.project = Project.opened(self.folder)
        self.guard = Guard(PORT)
        self.site = Site(self.project, self.guard.base, self.guard.form, JobsHere(self.project.folder))
        self.guard.app = application(self.site)
        self.seen: list[Answer] = []
        self.cookie = ""
        opened = self.ask("GET", self.guard.link.removeprefix(ORIGIN))
        self.cookie = opened.header("set-cookie").partition(";")[0]

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        """Ask with the headers of an honest browser, but for those that are given."""
        usual = {"host": f"127.0.0.1:{PORT}", "cookie": self.cookie} | (
            {"origin": ORIGIN, "content-type": "application/x-www-form-urlencoded"} if method == "POST" else {}
        )
        merged = {**usual, **{name.replace("_", "-"): value for name, value in headers.items()}}
        answer = asyncio.run(asked(self.guard, method, path, [(k, v) for k, v in merged.items() if v], body))
        self.seen.append(answer)
        return answer

    def get(self, path: str) -> Answer:
        """Look at a screen; a redirect is followed."""
        answer = self.ask("GET", f"{self.guard.base}/{path}")
        return self.followed(answer)

    def followed(self, answer: Answer) -> Answer:
        where = answer.header("location")
        return self.followed(self.ask("GET", where)) if where else answer

    def post(self, path: str, fields: list[tuple[str, str]] | None = None, **named: str) -> Answer:
        """Send a form, with its token and the number of the table, and follow the redirect."""
        given = [("form", self.guard.form), ("number", self.project.number), *named.items(), *(fields or [])]
        return self.followed(self.ask("POST", f"{self.guard.base}/{path}", urlencode(given).encode()))

    def said(self, answer: Answer) -> str:
        """Return what a screen says went wrong."""
        return " ".join(re.findall(r'role="alert">(.*?)</p>', answer.text, re.DOTALL))
