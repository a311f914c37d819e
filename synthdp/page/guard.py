"""Who may ask the page, and what a browser may do with its answers.

Whoever comes under another host name, from another origin, without the cookie of this run, or with a form that this run did
not write, is refused before any screen is made.  Every answer, a refusal too, carries the same strict headers.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; "
    "frame-src 'self'; frame-ancestors 'none'; base-uri 'none'"
)
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'; sandbox"
"""Of a report in a frame: it has styles of its own, and no script."""

HEADERS = {
    b"content-security-policy": POLICY.encode(),
    b"cache-control": b"no-store",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"same-origin",  # with none, a browser's form would carry "Origin: null"
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=()",
    b"x-robots-tag": b"noindex",
}
MOST_FORM_BYTES, MOST_FIELDS = 2**20, 2000

GONE = "This page was opened by another link. Look at the terminal where synthdp runs, or start `synthdp page` again."
STRANGE = "This request does not come from the page itself. Nothing was done."
TOO_LARGE = "The form is too large. Nothing was done."
BROKEN = "Something happened that synthdp did not expect. What it was is not shown, for it could quote private rows."


@dataclass(slots=True, eq=False)
class Guard:
    """An application behind its door.

    Parameters
    ----------
    app
        What is guarded.  Of a form it finds the fields in ``scope["synthdp.form"]``, a list of pairs.
    port
        Of this server, on 127.0.0.1.
    """

    app: App
    port: int
    base: str = field(default_factory=lambda: f"/{secrets.token_hex(4)}")
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    form: str = field(default_factory=lambda: secrets.token_hex(16))
    _link: str | None = field(default_factory=lambda: secrets.token_urlsafe(24))

    @property
    def origin(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def link(self) -> str:
        """The address that opens the page, once."""
        return f"{self.origin}/start/{self._link}"

    @property
    def cookie(self) -> str:
        """The name of the cookie: several servers share the host, whatever their ports."""
        return f"synthdp-{self.port}"

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # a web socket is closed unanswered
        begun = False

        async def sealed(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                given = [(name.lower(), value) for name, value in message["headers"]]
                own = {name for name, _ in given}
                message["headers"] = [*given, *((name, value) for name, value in HEADERS.items() if name not in own)]
            await send(message)

        try:
            refusal = self._refused(scope)
            if refusal is not None:
                await _say(sealed, *refusal)
            elif scope["path"].startswith("/start/"):
                await self._open(scope, sealed)
            elif scope["method"] == "POST":
                await self._post(scope, receive, sealed)
            else:
                await self.app(scope, receive, sealed)
        except Exception:  # noqa: BLE001 - a traceback in a log could quote rows
            if not begun:
                await _say(sealed, 500, BROKEN)

    def _refused(self, scope: MutableMapping[str, Any]) -> tuple[int, str] | None:
        """Return why a request is refused, by its headers."""
        headers = scope["headers"]
        hosts, origins = _all(headers, b"host"), _all(headers, b"origin")
        if hosts != [f"127.0.0.1:{self.port}"]:
            return 400, STRANGE
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return 405, STRANGE
        if any(origin != self.origin for origin in origins) or (scope["method"] == "POST" and not origins):
            return 403, STRANGE
        if not set(_all(headers, b"sec-fetch-site")) <= {"same-origin", "none"}:
            return 403, STRANGE
        if scope["path"].startswith("/start/"):
            return None
        crumbs = [crumb.strip() for text in _all(headers, b"cookie") for crumb in text.split(";")]
        own = f"{self.cookie}={self.token}"
        if not any(hmac.compare_digest(crumb.encode(), own.encode()) for crumb in crumbs):
            return 403, GONE
        return None

    async def _open(self, scope: MutableMapping[str, Any], send: Send) -> None:
        """Swap the link of the start for a cookie, once."""
        offered = scope["path"].removeprefix("/start/").encode()
        if scope["method"] != "GET" or self._link is None or not hmac.compare_digest(offered, self._link.encode()):
            await _say(send, 403, GONE)
            return
        self._link = None
        crumb = f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path={self.base}"
        there = [(b"location", f"{self.base}/".encode()), (b"set-cookie", crumb.encode())]
        await _say(send, 303, "", there)

    async def _post(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Read a form, and pass it on if this run wrote it."""
        kinds = [kind.partition(";")[0] for kind in _all(scope["headers"], b"content-type")]
        if kinds != ["application/x-www-form-urlencoded"]:
            await _say(send, 403, STRANGE)
            return
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return
            body, more = body + message.get("body", b""), message.get("more_body", False)
            if len(body) > MOST_FORM_BYTES:
                await _say(send, 413, TOO_LARGE)
                return
        try:
            fields = parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
        except ValueError:
            await _say(send, 400, STRANGE)
            return
        offered = [value for name, value in fields if name == "form"]
        if len(offered) != 1 or not hmac.compare_digest(offered[0].encode(), self.form.encode()):
            await _say(send, 403, STRANGE)
            return
        scope["synthdp.form"] = fields
        await self.app(scope, receive, send)


def _all(headers: list[tuple[bytes, bytes]], name: bytes) -> list[str]:
    return [value.decode("latin-1") for known, value in headers if known.lower() == name]


async def _say(send: Send, status: int, text: str, more: list[tuple[bytes, bytes]] | None = None) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), *(more or [])]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
