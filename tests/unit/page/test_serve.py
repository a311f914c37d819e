"""The server itself: where it listens, what it loads, when it ends."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import webbrowser
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from click.testing import CliRunner

from synthdp.cli.main import main
from synthdp.errors import DataError
from synthdp.page.serve import OPENER, serve

PACKAGE = Path(__file__).parents[3] / "synthdp"
ROWS = (
    "pandas",
    "pyarrow",
    "narwhals",
    "synthdp.tables",
    "synthdp.nonprivate",
    "synthdp.curator.private_table",
    "synthdp.estimators",
)


def test_the_server_ends_by_itself_when_nobody_has_asked_for_long(tmp_path, capfd):
    links: list[str] = []
    serve(tmp_path, browser=False, say=links.append, idle_seconds=0.1)
    assert links[0].startswith("http://127.0.0.1:")
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(links[0], timeout=5)
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_enter_in_the_terminal_makes_a_new_link_and_the_old_one_ends(tmp_path, monkeypatch):
    """The page goes on meanwhile, and so does what it runs."""
    keyboard, terminal = os.openpty()
    links: list[str] = []
    told: list[int] = []

    def ask(link: str) -> None:
        try:
            with urllib.request.urlopen(link, timeout=20) as answer:
                told.append(answer.status)
        except urllib.error.HTTPError as error:
            told.append(error.code)

    def visit() -> None:
        ask(links[0])
        os.write(keyboard, b"\n")
        while len(links) < 2:
            time.sleep(0.01)
        for link in (links[0], links[1], links[1]):
            ask(link)

    def say(link: str) -> None:
        links.append(link)
        if len(links) == 1:
            threading.Thread(target=visit, daemon=True).start()

    with open(terminal, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        serve(tmp_path, browser=False, say=say, idle_seconds=0.8)
    os.close(keyboard)
    assert told == [200, 403, 200, 403]


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(DataError, match="nothing"):
        serve(tmp_path / "nothing", browser=False, say=print)
    told = CliRunner().invoke(main, ["page", str(tmp_path / "nothing"), "--no-browser"])
    assert (told.exit_code, len(told.stderr.splitlines())) == (2, 1)


def test_a_folder_has_one_server_at_a_time(tmp_path):
    links: list[str] = []

    def second(link: str) -> None:
        links.append(link)
        with pytest.raises(DataError, match="running"):
            serve(tmp_path, browser=False, say=links.append)

    serve(tmp_path, browser=False, say=second, idle_seconds=0.1)
    serve(tmp_path, browser=False, say=links.append, idle_seconds=0.1)
    assert len(set(links)) == 2


def test_the_server_loads_nothing_that_could_read_a_row():
    code = f"import sys, synthdp.page.serve, synthdp; synthdp.Ledger; print([m for m in {ROWS!r} if m in sys.modules])"
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[3], check=True
    )
    assert told.stdout == "[]\n"


def opened_by(monkeypatch, tmp_path, visit):
    """Serve a folder with a browser that does what it is told, and return how it was started."""
    started: list[str] = []

    def browser(address: str) -> bool:
        started.append(address)
        file = Path(url2pathname(urlsplit(address).path))
        assert file.stat().st_mode & 0o777 == 0o600
        threading.Thread(target=visit, args=(file.read_text(encoding="utf-8"),)).start()
        return True

    monkeypatch.setattr(webbrowser, "open", browser)
    links: list[str] = []
    serve(tmp_path, browser=True, say=links.append, idle_seconds=0.3)
    assert links[0].startswith("http://127.0.0.1:")
    return links[0], started


def test_no_argument_of_the_browser_holds_the_link(tmp_path, monkeypatch):
    """Every user of the machine can read the arguments of every program, but not a file of another user."""

    def visit(text: str) -> None:
        found = re.search(r'url=(http://127\.0\.0\.1:\d+/start/[^"]+)"', text)
        assert urllib.request.urlopen(found[1], timeout=20).status == 200

    old = os.umask(0)
    link, started = opened_by(monkeypatch, tmp_path, visit)
    os.umask(old)
    assert len(started) == 1
    assert link.rpartition("/")[2] not in started[0]
    assert urlsplit(started[0]).scheme == "file"
    assert not (tmp_path / OPENER).exists()


def test_a_link_that_nobody_used_is_gone_with_the_server(tmp_path, monkeypatch):
    opened_by(monkeypatch, tmp_path, lambda text: None)
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".html"] == []


def test_where_no_file_can_be_written_the_browser_is_not_started(tmp_path, monkeypatch):
    monkeypatch.setattr("synthdp.page.serve.write_private", lambda *_: (_ for _ in ()).throw(OSError))
    monkeypatch.setattr(webbrowser, "open", pytest.fail)
    links: list[str] = []
    serve(tmp_path, browser=True, say=links.append, idle_seconds=0.1)
    assert len(links) == 1


def test_nothing_of_the_package_starts_a_browser_or_a_program_with_a_link():
    """One place opens a browser, and what it gives it is a file."""
    found = {
        path.relative_to(PACKAGE).as_posix(): re.findall(r"webbrowser\.\w+\(.*", path.read_text(encoding="utf-8"))
        for path in PACKAGE.rglob("*.py")
    }
    assert {name: calls for name, calls in found.items() if calls} == {
        "page/serve.py": ["webbrowser.open(opener.as_uri())"]
    }
