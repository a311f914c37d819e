"""Access control of the page, and the headers that limit a browser's use of its responses.

A request with a foreign host name or origin is refused before any screen is made.  So is a request without this run's
cookie or form token.  Every response, also a refusal, carries strict headers.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; "
    "frame-src 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""The page's content security policy: no resource of other sites, and no inline script or style."""

REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'; sandbox"
"""The content security policy of a framed report: inline styles are allowed, scripts are not."""

HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # with none, a browser's form would carry "Origin: null"
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "x-robots-tag": "noindex",
}
"""Headers of every response, unless the application sets them."""

MOST_FORM_BYTES, MOST_FIELDS = 2**20, 2000
"""Bytes and fields of a form that the page reads, at most.  Safety limits of memory."""

GONE = "This page was opened by another link. Look at the terminal where synthdp runs, or start `synthdp page` again."
"""Text for a request without this run's cookie, or under an old link."""

STRANGE = "This request does not come from the page itself. Nothing was done."
"""Text for a request that does not come from the page itself."""

TOO_LARGE = "The form is too large. Nothing was done."
"""Text for a form beyond `MOST_FORM_BYTES`."""

BROKEN = "Something happened that synthdp did not expect. What it was is not shown, for it could quote private rows."
"""Text for an unexpected error, whose own text could quote private rows."""


def forward(address: str) -> str:
    """Return the HTML of a page that forwards the browser to an address."""
    return (
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={address}">'
        f'<title>synthdp</title><p><a href="{address}">Open the page</a></p></html>\n'
    )


@dataclass(slots=True, eq=False)
class Guard:
    """An ASGI application that lets only this run's own requests reach the wrapped application.

    Parameters
    ----------
    port
        Port of this server on 127.0.0.1.
    app
        Wrapped application.  It finds the fields of a form in ``scope["synthdp.form"]``, a list of pairs.
    base
        Path prefix of the page, random in each run, so that addresses of an earlier run lead nowhere.
    token, form
        Secret values of this run: of its cookie, and of the hidden field of its forms.
    """

    port: int
    app: ASGIApp = field(default_factory=lambda: PlainTextResponse(BROKEN, 500))
    base: str = field(default_factory=lambda: f"/{secrets.token_hex(4)}")
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    form: str = field(default_factory=lambda: secrets.token_hex(16))
    _link: str | None = field(default_factory=lambda: secrets.token_urlsafe(24))

    @property
    def origin(self) -> str:
        """The page's origin, http://127.0.0.1:PORT."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def link(self) -> str:
        """The address that opens the page in a browser; it works once."""
        return f"{self.origin}/start/{self._link}"

    def renew(self) -> None:
        """Replace the link by a new link that works once; an unused old link stops working."""
        self._link = secrets.token_urlsafe(24)

    @property
    def is_opened(self) -> bool:
        """Whether the current link was used."""
        return self._link is None

    @property
    def cookie(self) -> str:
        """Name of the cookie; it includes the port, because servers on one host share cookies."""
        return f"synthdp-{self.port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request: refuse it, open the page, or pass it to the wrapped application."""
        if scope["type"] != "http":
            return  # a web socket is closed unanswered
        begun = False

        async def sealed(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun, headers = True, MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            answer = self._refused(scope)
            if answer is None and scope["path"].startswith("/start/"):
                answer = self._open(scope)
            elif answer is None and scope["method"] == "POST":
                answer = await self._post(scope, receive)
            await (answer or self.app)(scope, receive, sealed)
        except Exception:  # noqa: BLE001 - a traceback in a log could quote rows
            if not begun:
                await PlainTextResponse(BROKEN, 500)(scope, receive, sealed)

    def _refused(self, scope: Scope) -> Response | None:
        """Return the refusal of a request by its method, host, origin and cookie, or None if it may pass.

        Other sites, which the browser may visit too, must not ask for rows or spend budget.
        """
        headers = Headers(scope=scope)
        origins = headers.getlist("origin")
        if headers.getlist("host") != [f"127.0.0.1:{self.port}"]:
            return PlainTextResponse(STRANGE, 400)
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return PlainTextResponse(STRANGE, 405)
        if any(origin != self.origin for origin in origins) or (scope["method"] == "POST" and not origins):
            return PlainTextResponse(STRANGE, 403)
        opens = scope["path"].startswith("/start/")  # which the file that holds the link asks for, a site of its own
        if not opens and not set(headers.getlist("sec-fetch-site")) <= {"same-origin", "none"}:
            return PlainTextResponse(STRANGE, 403)
        crumbs = [crumb.strip() for text in headers.getlist("cookie") for crumb in text.split(";")]
        own = f"{self.cookie}={self.token}"
        known = any(hmac.compare_digest(crumb.encode(), own.encode()) for crumb in crumbs)
        return None if known or opens else PlainTextResponse(GONE, 403)

    def _open(self, scope: Scope) -> Response:
        """Answer the start link with the cookie, once.

        The response is a page that forwards the browser.  A redirect would lose the strict cookie, because the visit
        starts from another site: the file with the link.
        """
        offered = scope["path"].removeprefix("/start/").encode()
        if scope["method"] != "GET" or self._link is None or not hmac.compare_digest(offered, self._link.encode()):
            return PlainTextResponse(GONE, 403)
        self._link = None
        answer = HTMLResponse(forward(f"{self.base}/"))
        answer.set_cookie(self.cookie, self.token, path=self.base, httponly=True, samesite="strict")
        return answer

    async def _post(self, scope: Scope, receive: Receive) -> Response | None:
        """Read a form into ``scope["synthdp.form"]``; return a refusal if it lacks this run's token, else None."""
        kinds = [kind.partition(";")[0] for kind in Headers(scope=scope).getlist("content-type")]
        if kinds != ["application/x-www-form-urlencoded"]:
            return PlainTextResponse(STRANGE, 403)
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
            if len(body) > MOST_FORM_BYTES or message["type"] != "http.request":  # who hangs up sent half a form
                return PlainTextResponse(TOO_LARGE, 413)
        try:
            fields = parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
        except ValueError:
            return PlainTextResponse(STRANGE, 400)
        offered = [value for name, value in fields if name == "form"]
        if len(offered) != 1 or not hmac.compare_digest(offered[0].encode(), self.form.encode()):
            return PlainTextResponse(STRANGE, 403)
        scope["synthdp.form"] = fields
        return None
