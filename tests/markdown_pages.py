"""The code of a Markdown page, run as its reader would: `tests/docs` runs every page.

* ```` ```python ```` blocks of a page share one namespace; ```` ```console ```` blocks run their `$ ` lines in a folder
  of the page; ```` ```sh ```` blocks (installing, cloning) are for people and are not run.
* Output shown below code, in a ```` ```text ```` block or under a `$ ` line, is compared.  A comment above the block says
  how: nothing, line by line; `<!-- numbers vary -->`, up to its numbers; `<!-- output varies -->`, something was printed.
* `<!-- file: name -->` above a block writes the block to that file; `<!-- slow page -->` marks the page as slow, and
  `<!-- needs: module -->` skips it where a module is not installed.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from synthdp.cli.main import main

RUN = {"python", "console"}
SHOWN = {"sh", "text", "json", "toml", "diff", "{toctree}", "{include}", "{literalinclude}", "{eval-rst}"}
_BLOCK = re.compile(
    r"(?:^<!-- (?P<note>[^\n]+?) -->\n+)?^```(?P<language>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_NUMBER = re.compile(r"[+-]?\d[\d ,]*(?:\.\d+)?(?:e[+-]?\d+)?|\.\d+")


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, its line, the comment above it, and whether another block ends there."""

    language: str
    text: str
    line: int
    note: str
    follows: bool


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page in order."""
    text, end, blocks = page.read_text(encoding="utf-8"), 0, []
    for m in _BLOCK.finditer(text):
        line = text.count("\n", 0, m.start("language")) + 1
        follows = bool(blocks) and not text[end : m.start()].strip()
        blocks.append(Block(m["language"].strip().split(" ")[0], m["text"], line, m["note"] or "", follows))
        end = m.end()
    return blocks


def needs(page: Path) -> list[str]:
    """Modules without which a page cannot run."""
    return re.findall(r"<!-- needs: (\S+) -->", page.read_text(encoding="utf-8"))


def is_slow(page: Path) -> bool:
    """Whether a page says that it takes long."""
    return "<!-- slow page -->" in page.read_text(encoding="utf-8")


@dataclass
class Reader:
    """Someone who types what a page says, in a folder of their own (the working directory)."""

    page: Path
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})

    def run(self) -> int:
        """Run the page and return how many blocks were run; an output that differs is an AssertionError."""
        blocks = blocks_of(self.page)
        ran = 0
        for block, after in [*pairwise(blocks), (blocks[-1], None)] if blocks else []:
            where = f"{self.page.name}:{block.line}"
            assert block.language in RUN | SHOWN, f"{where}: {block.language!r} is neither run nor known to be shown"
            if block.note.startswith("file: "):
                Path(block.note.removeprefix("file: ")).write_text(block.text, encoding="utf-8")
            if block.language == "python":
                out = self._python(block, where)
                if after is not None and after.language == "text" and after.follows:
                    check_output(out, after.text, after.note, where)
            if block.language == "console":
                for command, shown in commands_of(block.text):
                    check_output(self._command(command, where), shown, block.note, f"{where}: {command}")
            ran += block.language in RUN
        return ran

    def _python(self, block: Block, where: str) -> str:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile("\n" * block.line + block.text, str(self.page), "exec", dont_inherit=True), self.names)
        return out.getvalue()

    def _command(self, command: str, where: str) -> str:
        program, *arguments = shlex.split(command)
        if program == "synthdp":
            done = CliRunner().invoke(main, arguments, catch_exceptions=False)
            assert done.exit_code == 0, f"{where}: {command}\n{done.output}"
            return done.stdout
        return subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout


def commands_of(text: str) -> Iterator[tuple[str, str]]:
    """The `$ ` lines of a console block, continued lines joined, each with the output below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = re.sub(r"\\\n\s*", "", part).partition("\n")
        yield command, shown


def check_output(out: str, shown: str, note: str, where: str) -> None:
    """Compare what was printed with what the page shows, as strictly as its comment says."""
    if not shown.strip():
        return
    if note in ("output varies", "receipt"):  # a receipt's shape is compared by tests/e2e/test_readme.py
        assert out.strip(), f"{where}: nothing was printed"
        return
    tidy = numberless if note == "numbers vary" else lines_of
    assert tidy(out) == tidy(shown), f"{where} printed\n{out}"


def lines_of(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def numberless(text: str) -> list[str]:
    """Lines with every number as `#` and runs of blanks as one."""
    return [" ".join(_NUMBER.sub(" # ", line).split()) for line in text.strip().splitlines()]
