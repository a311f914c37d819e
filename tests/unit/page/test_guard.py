"""Who may ask the page: under which name, from where, with what; and what every answer says to the browser."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlencode

import pytest
from page_client import ORIGIN, PORT, Visitor, asked

from synthdp.page.guard import HEADERS, MOST_FORM_BYTES, Guard


@pytest.fixture
def visitor(tmp_path: Path) -> Visitor:
    return Visitor(tmp_path)


def form(visitor: Visitor, **more: str) -> bytes:
    return urlencode({"form": visitor.guard.form, "number": visitor.project.number, **more}).encode()


def test_the_link_opens_the_page_once_and_leaves_a_cookie_that_scripts_and_other_sites_do_not_get(visitor):
    crumb = {part.strip().lower() for part in visitor.seen[0].header("set-cookie").split(";")}
    assert visitor.seen[0].status == 200
    assert f'content="0; url={visitor.guard.base}/"' in visitor.seen[0].text
    assert {"httponly", "samesite=strict", f"path={visitor.guard.base}"} <= crumb
    assert visitor.get("table").status == 200


def test_a_used_link_and_a_guessed_one_are_refused():
    guard = Guard(PORT)
    host = [("host", f"127.0.0.1:{PORT}")]
    path = guard.link.removeprefix(ORIGIN)
    told = [asyncio.run(asked(guard, method, where, host)).status for method, where in (
        ("GET", "/start/guess"), ("GET", "/start/"), ("HEAD", path), ("GET", path), ("GET", path), ("GET", "/start/None"),
    )]  # fmt: skip
    assert told == [403, 403, 403, 200, 403, 403]


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", f"localhost:{PORT}", f"127.0.0.1:{PORT + 1}", ""]
)
def test_a_foreign_host_name_is_refused_although_the_cookie_is_right(visitor, host):
    assert visitor.ask("GET", f"{visitor.guard.base}/table", host=host).status == 400


def test_a_used_link_under_a_foreign_host_name_is_not_spent():
    guard = Guard(PORT)
    path = guard.link.removeprefix(ORIGIN)
    assert asyncio.run(asked(guard, "GET", path, [("host", "evil.example")])).status == 400
    assert asyncio.run(asked(guard, "GET", path, [("host", f"127.0.0.1:{PORT}")])).status == 200


def test_the_file_that_holds_the_link_may_ask_for_it_and_for_nothing_else(visitor):
    """It is another site to the browser."""
    guard, site = Guard(PORT), ("sec-fetch-site", "cross-site")
    host = ("host", f"127.0.0.1:{PORT}")
    assert asyncio.run(asked(guard, "GET", guard.link.removeprefix(ORIGIN), [host, site])).status == 200
    assert visitor.ask("GET", f"{visitor.guard.base}/table", sec_fetch_site="cross-site").status == 403


@pytest.mark.parametrize("cookie", ["", "x=1", f"synthdp-{PORT}=", f"synthdp-{PORT}=0123", "a=é"])
def test_without_the_cookie_of_this_run_nothing_is_shown(visitor, cookie):
    answer = visitor.ask("GET", f"{visitor.guard.base}/ledger", cookie=cookie)
    assert (answer.status, b"Ledger" in answer.body) == (403, False)


FORGED = {
    "another origin": {"origin": "http://evil.example"},
    "another port": {"origin": f"http://127.0.0.1:{PORT + 1}"},
    "no origin": {"origin": ""},
    "an opaque origin": {"origin": "null"},
    "another site, by its own word": {"sec_fetch_site": "cross-site"},
    "another port, by its own word": {"sec_fetch_site": "same-site"},
    "another kind of form": {"content_type": "multipart/form-data; boundary=x"},
    "text, which needs no permission": {"content_type": "text/plain"},
    "JSON": {"content_type": "application/json"},
}


@pytest.mark.parametrize("headers", FORGED.values(), ids=FORGED)
def test_a_forged_post_is_refused_and_does_nothing(visitor, headers):
    (visitor.folder / "a.csv").write_text("x\n1\n")
    answer = visitor.ask("POST", f"{visitor.guard.base}/table", form(visitor, file="0"), **headers)
    assert (answer.status, visitor.project.current) == (403, None)


@pytest.mark.parametrize("token", [[], ["0" * 32], [""], ["ü"], ["right", "right"]])
def test_a_form_that_this_run_did_not_write_is_refused(visitor, token):
    (visitor.folder / "a.csv").write_text("x\n1\n")
    fields = [("form", {"right": visitor.guard.form}.get(one, one)) for one in token]
    body = urlencode([*fields, ("number", visitor.project.number), ("file", "0")]).encode()
    assert visitor.ask("POST", f"{visitor.guard.base}/table", body).status == 403
    assert visitor.project.current is None


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"x" * (MOST_FORM_BYTES + 1), 413), (b"form=\xff%ff", 400), (b"a=1&" * 5000, 400), (b"", 403)],
    ids=["too large", "no text", "too many fields", "empty"],
)
def test_a_form_that_cannot_be_read_is_refused(visitor, body, status):
    assert visitor.ask("POST", f"{visitor.guard.base}/table", body).status == status


def test_half_a_form_does_nothing(visitor):
    (visitor.folder / "a.csv").write_text("x\n1\n")
    headers = [("host", f"127.0.0.1:{PORT}"), ("cookie", visitor.cookie), ("origin", ORIGIN)]
    headers.append(("content-type", "application/x-www-form-urlencoded"))
    body = form(visitor, file="0")
    asyncio.run(asked(visitor.guard, "POST", f"{visitor.guard.base}/table", headers, body, hung_up=True))
    assert visitor.project.current is None


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "CONNECT"])
def test_other_methods_are_refused(visitor, method):
    assert visitor.ask(method, f"{visitor.guard.base}/table").status == 405


def test_every_answer_carries_the_strict_headers_a_refusal_and_a_missing_page_too(visitor):
    visitor.get("table")
    visitor.get("static/page.css")
    visitor.get("no such page")
    visitor.ask("GET", f"{visitor.guard.base}/table", cookie="")
    visitor.ask("GET", f"{visitor.guard.base}/table", host="evil.example")
    visitor.ask("POST", f"{visitor.guard.base}/table", b"")
    assert {answer.status for answer in visitor.seen} == {200, 404, 403, 400}
    for answer in visitor.seen:
        assert {name: answer.header(name) for name in HEADERS} == HEADERS


def test_the_policy_lets_nothing_come_from_elsewhere_and_nobody_frame_the_page(visitor):
    policy = dict(part.split(" ", 1) for part in visitor.get("table").header("content-security-policy").split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert {policy[kind] for kind in ("script-src", "style-src", "connect-src", "form-action")} == {"'self'"}
    assert "no-store" in visitor.get("table").header("cache-control")


def test_what_goes_wrong_inside_is_one_general_sentence_and_no_traceback(visitor, capfd):
    async def broken(*_: object) -> None:
        raise ValueError("CANARY")

    visitor.guard.app = broken
    answer = visitor.ask("GET", f"{visitor.guard.base}/table")
    assert (answer.status, b"CANARY" in answer.body) == (500, False)
    assert capfd.readouterr() == ("", "")
