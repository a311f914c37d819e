"""The README says what is true: its quickstart runs and prints a receipt of the shape shown; its files exist."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from synthdp.cli.main import main
from synthdp.data import adult

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(marker: str, language: str) -> str:
    found = re.search(rf"<!-- {marker} -->\s*```{language}\n(.*?)```", README, re.DOTALL)
    assert found is not None
    return found.group(1)


def shape(receipt: str) -> tuple[list[str], set[str], set[bool]]:
    """The receipt's fixed lines, the kinds of its steps, and whether each step's line reads as it should."""
    lines = receipt.strip().splitlines()
    start = lines.index("  spent on") + 1
    steps = [line for line in lines[start:] if line.startswith("    ") and line[4] != " "]
    step = re.compile(r"    \S.*  μ = \S+ +\d+ answers?, discrete Gaussian noise, stddev \S+( to \S+)?")
    # noisy answers say how many of a kind there are, of which columns tables or interactions are asked, and if roundness is
    varies = "of several columns", "of strong ones", "how round"
    kinds = {re.sub(r"  .*| \d+", "", line.strip()) for line in steps if not any(word in line for word in varies)}
    return [line for line in lines if line not in steps], kinds, {step.fullmatch(line) is not None for line in steps}


@pytest.mark.style
def test_the_quickstart_prints_rows_and_a_receipt_like_those_shown(capsys: pytest.CaptureFixture[str]) -> None:
    code = block("quickstart", "python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 6
    names: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), names)
    rows, shown = capsys.readouterr().out.splitlines(), block("output varies", "text").splitlines()
    assert rows[0].split() == shown[0].split()
    assert len(rows) == len(shown) == 6
    assert shape(str(names["release"].receipt_)) == shape(block("receipt", "text"))


def test_the_readme_links_to_files_that_exist() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_first_screen_holds_the_two_commands() -> None:
    first = README[: README.index("## Quickstart")]
    assert first.count("```sh") == 2
    assert "synthdp demo" in first
    assert "pytest" in block("test command", "sh")


def test_the_four_commands_lead_from_a_table_to_a_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    adult()[["age", "sex", "income"]].head(2000).to_csv("table.csv", index=False)
    commands = block("four commands", "sh").replace("\\\n", " ").splitlines()
    assert len(commands) == 4
    for command in commands:
        done = CliRunner().invoke(
            main, shlex.split(command, comments=True)[1:], input="a\n" * 3
        )  # a person looks at it
        assert done.exit_code == 0, done.output
    assert {"synthetic.csv", "report.html", "receipt.json"} == {
        path.name for path in (tmp_path / "published").iterdir()
    }
