"""The README says what is true: its quickstart runs and prints a receipt of the shape shown; its files exist."""

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(marker: str, language: str) -> str:
    found = re.search(rf"<!-- {marker} -->\s*```{language}\n(.*?)```", README, re.DOTALL)
    assert found is not None
    return found.group(1)


@pytest.mark.style
def test_the_quickstart_prints_rows_like_those_shown(capsys: pytest.CaptureFixture[str]) -> None:
    code = block("quickstart", "python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 6
    names: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), names)
    rows, shown = capsys.readouterr().out.splitlines(), block("output varies", "text").splitlines()
    assert rows[0].split() == shown[0].split()
    assert len(rows) == len(shown) == 6
    assert "Privacy receipt" in str(names["release"].receipt_)


def test_the_readme_links_to_files_that_exist() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_first_screen_holds_the_two_commands() -> None:
    first = README[: README.index("## Quickstart")]
    assert first.count("```sh") == 2
    assert "synthdp demo" in first
    assert "pytest" in block("test command", "sh")


def test_the_readme_says_what_it_is_in_two_commands_and_ten_lines() -> None:
    """What, picture, two commands, ten lines of code, the table against the field, limits; nothing else."""
    heads = re.findall(r"^## (.*)$", README, re.MULTILINE)
    assert heads == ["Quickstart", "Against the field", "Limits"]
    code = "\n".join(re.findall(r"```python\n(.*?)```", README, re.DOTALL))
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    assert README.index("![") < README.index("```sh")
