"""The server itself: where it listens, what it loads, when it ends."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from synthdp.cli.main import main
from synthdp.errors import DataError
from synthdp.page.serve import serve

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
    serve(tmp_path, browser=False, say=links.append, idle_seconds=0.2)
    assert links[0].startswith("http://127.0.0.1:")
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(links[0], timeout=5)
    assert capfd.readouterr() == ("", "")


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(DataError, match="no folder"):
        serve(tmp_path / "nothing", browser=False, say=print)
    told = CliRunner().invoke(main, ["page", str(tmp_path / "nothing"), "--no-browser"])
    assert (told.exit_code, len(told.stderr.splitlines())) == (2, 1)


def test_a_folder_has_one_server_at_a_time(tmp_path):
    links: list[str] = []

    def second(link: str) -> None:
        links.append(link)
        with pytest.raises(DataError, match="open already"):
            serve(tmp_path, browser=False, say=links.append)

    serve(tmp_path, browser=False, say=second, idle_seconds=0.2)
    serve(tmp_path, browser=False, say=links.append, idle_seconds=0.2)
    assert len(set(links)) == 2


@pytest.mark.slow
def test_the_server_loads_nothing_that_could_read_a_row():
    code = f"import sys, synthdp.page.serve, synthdp; synthdp.Ledger; print([m for m in {ROWS!r} if m in sys.modules])"
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[3], check=True
    )
    assert told.stdout == "[]\n"
