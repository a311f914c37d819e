"""A hand that walks the stewards' page in a real Chromium, and counts what it does."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
try:
    from playwright.sync_api import sync_playwright
except ImportError:  # an older Python, or a system without wheels of it
    sync_playwright = None
needs_browser = pytest.mark.skipif(
    CHROMIUM is None or sync_playwright is None, reason="needs chromium and playwright, which drives it"
)
ROOT = Path(__file__).parents[1]
FLAGS = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
"""No name is resolved: whatever is asked of another machine fails, and is seen to be asked."""


@contextlib.contextmanager
def served(folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start the page of a folder as a user does; give its link and its process, all of whose output is kept."""
    command = [sys.executable, "-m", "synthdp", "page", str(folder), "--no-browser"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (folder.parent / f"{folder.name}.log").open("w+") as log:
        child = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, text=True, env=environment, cwd=folder)
        try:
            yield _link(folder.parent / f"{folder.name}.log", child), child
        finally:
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(signal.SIGINT)
            try:
                child.wait(30)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def _link(log: Path, child: subprocess.Popen[str]) -> str:
    end = time.monotonic() + 120
    while time.monotonic() < end and child.poll() is None:
        found = re.search(r"http://\S+", log.read_text())
        if found:
            return found[0]
        time.sleep(0.02)
    raise AssertionError(log.read_text())


_RUNNING: list[Any] = []


@contextlib.contextmanager
def browser(**settings: Any) -> Iterator[Any]:
    """Give a fresh profile of a Chromium that can resolve no name; one that runs already is shared."""
    with contextlib.ExitStack() as stack:
        if not _RUNNING:
            playwright = stack.enter_context(sync_playwright())
            _RUNNING.append(playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS))
            stack.callback(lambda: _RUNNING.pop().close())
        yield stack.enter_context(contextlib.closing(_RUNNING[0].new_context(**settings)))


@dataclass
class Hand:
    """Clicks, types and chooses; everything it does is counted, and every request of the page is kept."""

    page: Any
    done: int = 0
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(180_000)  # a safety limit: a busy machine plans for minutes
        self.page.on("request", lambda request: self.asked.append(request.url))

    def open(self, link: str) -> None:
        self.page.goto(link)
        self.page.wait_for_url(lambda url: "/start/" not in url and url.startswith("http"))
        self.base = re.match(r"http://[^/]+/[^/]+", self.page.url)[0]

    def see(self, path: str) -> None:
        """Look at a screen without counting: tests do, users need not."""
        self.page.goto(f"{self.base}/{path}")

    def press(self, name: str, **more: Any) -> None:
        self.done += 1
        self.page.get_by_role("button", name=name, **more).first.click()

    def follow(self, name: str) -> None:
        self.done += 1
        self.page.get_by_role("link", name=name).first.click()

    def take(self, name: str) -> None:
        self.done += 1
        self.page.get_by_label(name).first.check()

    def type(self, name: str, text: str) -> None:
        self.done += 1
        self.page.get_by_label(name).first.fill(text)

    def choose(self, name: str, label: str) -> None:
        self.done += 1
        self.page.get_by_label(name).first.select_option(label=label)

    def promise(self) -> None:
        """Take ε = 1, which is shown at once where it is recommended."""
        button = self.page.get_by_role("button", name="Take ε = 1", exact=True)
        if not any(one.is_visible() for one in button.all()):
            self.done += 1
            self.page.get_by_text("Every ε that was planned").click()
        self.press("Take ε = 1", exact=True)

    def release(self) -> None:
        """Press the button that spends, with a cap where there is none yet."""
        self.wait("Spend ε = 1 and release")  # else the screen before may be asked whether there is a field for a cap
        if self.page.get_by_label("The most ε that may ever be spent").count():
            self.type("The most ε that may ever be spent", "3")
        with self.page.expect_navigation():
            self.press("Spend ε = 1 and release")

    def wait(self, text: str) -> None:
        self.page.get_by_text(text).first.wait_for()

    @property
    def text(self) -> str:
        return self.page.locator("body").inner_text()

    def answer(self, column: Any, *, complete: bool = False) -> None:
        """Answer the card that is open, as a person does who has the codebook."""
        if column.get("levels"):
            self.take("A list of its values is published")
            self.type("The values, one a line", "\n".join(map(str, column["levels"])))
        else:
            self.take("Limits are known")
            self.type("Lowest possible", str(column["lower"]))
            self.type("Highest possible", str(column["upper"]))
        self.type("How do you know it without this table?", column.get("source") or "the census codebook")
        if not column.get("nullable") and complete:
            self.take("No value can be missing")
        self.press("Save and go on")
