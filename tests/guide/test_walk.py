"""A new reader's walk: what the contributing guide says is done in a copy of the repository, and works."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from markdown_pages import blocks_of, commands_of

import synthdp
from synthdp.cli.main import main

pytestmark = pytest.mark.style
ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "contributing"
WALKED = ["first-change", "add-a-column-type", "add-a-rule"]
LEFT_OUT = shutil.ignore_patterns(
    ".*cache*", ".venv*", "venv", ".git", "site", "dist", "build", "__pycache__", ".hypothesis"
)
INSERT = re.compile(r"insert: (\S+) (after|before) (.+)")


@dataclass
class Contributor:
    """Someone who does what a page says, in a clone with its environment active."""

    clone: Path
    run: list[str] = field(default_factory=list)

    def command(self, line: str) -> str:
        # `python` and `poe` are those of an active environment; the copy comes first on the path of imports
        paths = [str(self.clone), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        for role in ("AUTHOR", "COMMITTER"):
            environment |= {f"GIT_{role}_NAME": "A. Reader", f"GIT_{role}_EMAIL": "reader@example.org"}
        done = subprocess.run(
            line,
            shell=True,
            cwd=self.clone,
            env=environment,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0, f"$ {line}\n{done.stdout}{done.stderr}"
        self.run.append(line)
        return done.stdout

    def write(self, note: str, text: str) -> None:
        name = note.removeprefix("file: ")
        assert not (self.clone / name).exists(), f"{name} exists already: the guide would overwrite it"
        (self.clone / name).write_text(text, encoding="utf-8")

    def insert(self, note: str, text: str) -> None:
        name, where, mark = INSERT.fullmatch(note).groups()
        lines = (self.clone / name).read_text(encoding="utf-8").splitlines(keepends=True)
        places = [i for i, line in enumerate(lines) if mark in line]
        assert places, f"{mark!r} must be on a line of {name}, as the guide says"
        place = places[0] + (where == "after")
        (self.clone / name).write_text("".join([*lines[:place], text, *lines[place:]]), encoding="utf-8")


@pytest.fixture
def contributor(tmp_path: Path) -> Contributor:
    clone = tmp_path / "synthdp"
    shutil.copytree(ROOT, clone, ignore=LEFT_OUT)
    someone = Contributor(clone)
    someone.command("git init -q && git add -A && git commit -q -m start")
    return someone


@pytest.mark.slow
@pytest.mark.parametrize("page", WALKED)
def test_a_reader_who_follows_the_guide_arrives(page: str, contributor: Contributor) -> None:
    script = []
    for block in blocks_of(GUIDE / f"{page}.md"):
        if block.note.startswith("file: "):
            contributor.write(block.note, block.text)
        elif block.note.startswith("insert: "):
            contributor.insert(block.note, block.text)
        elif block.language == "console":
            for line, _ in commands_of(block.text):
                contributor.command(line)
        elif block.language == "python":
            script.append(block.text)
        elif block.language == "text" and block.follows and script:
            (contributor.clone.parent / "script.py").write_text("".join(script), encoding="utf-8")
            assert contributor.command(f"{sys.executable} ../script.py").split() == block.text.split()
    assert any("pytest" in line for line in contributor.run)
    assert "poe -q fix" in contributor.run


def test_a_reader_is_told_which_file_a_block_belongs_to() -> None:
    """The comment above a block is not seen on the site: the sentence above it names the file, too."""
    silent = []
    for page in sorted((ROOT / "docs").rglob("*.md")):
        lines = page.read_text(encoding="utf-8").splitlines()
        notes = [(i, re.match(r"<!-- (?:file|insert): (\S+)", line)) for i, line in enumerate(lines)]
        silent += [
            (page.name, m[1])
            for i, m in notes
            if m is not None and f"`{m[1]}`" not in " ".join(lines[max(0, i - 3) : i])
        ]
    assert silent == []


@pytest.mark.parametrize("page", sorted(GUIDE.glob("*.md")), ids=lambda page: page.stem)
def test_only_pages_that_are_walked_have_code_to_run(page: Path) -> None:
    has_code = any(block.language in ("python", "console") for block in blocks_of(page))
    assert has_code == (page.stem in WALKED)


def test_every_task_of_the_guide_is_a_task() -> None:
    tasks = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["poe"]["tasks"]
    named = set(re.findall(r"`poe (?:-q )?(\w+)", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))
    assert named == set(tasks)


FOR_PEOPLE = [*sorted(GUIDE.glob("*.md")), *sorted((ROOT / ".github").rglob("*.*")), ROOT / "CONTRIBUTING.md"]


@pytest.mark.parametrize("page", FOR_PEOPLE, ids=lambda page: page.stem)
def test_every_command_that_people_are_told_to_run_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    tasks = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["poe"]["tasks"]
    assert set(re.findall(r"(?:`|^\$ )poe (?:-q )?(\w+)", text, re.MULTILINE)) <= set(tasks)
    assert set(re.findall(r"(?:`|^\$ )synthdp ([\w-]+)", text, re.MULTILINE)) <= set(main.commands)


@pytest.mark.parametrize("example", ["beta_prior.py", "least_squares.py"])
def test_a_worked_example_is_short(example: str) -> None:
    assert len((ROOT / "tests" / "guide" / example).read_text(encoding="utf-8").splitlines()) < 100


@pytest.mark.parametrize("example", ["beta_prior.py", "least_squares.py"])
def test_a_worked_example_keeps_the_rules_of_the_package_that_it_may_move_to(example: str) -> None:
    text = (ROOT / "tests" / "guide" / example).read_text(encoding="utf-8")
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--stdin-filename", f"synthdp/fit/{example}", "-"]
    done = subprocess.run(command, cwd=ROOT, input=text, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout


def test_the_package_and_its_project_file_have_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == synthdp.__version__


def test_the_picture_has_every_layer_in_its_order() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    picture = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("```text")[2].split("```")[0]
    shown = [word for line in picture.splitlines() for word in re.findall(r"[a-z]+", line[:40])]
    layers = [set(re.findall(r"synthdp\.(\w+)", layer)) for layer in contracts[0]["layers"]]
    place = {name: number for number, layer in enumerate(layers) for name in layer}
    folders = {path.parent.name for path in (ROOT / "synthdp").glob("*/__init__.py")} - {"data"}
    assert folders <= set(shown) <= set(place)
    assert [place[name] for name in shown] == sorted(place[name] for name in shown)


def test_what_newcomers_look_for_is_where_the_guide_says() -> None:
    text = (GUIDE / "where-is-what.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|]+ \| `(synthdp/[\w/]+\.py)` \| (`[^|]+`) \|$", text, re.MULTILINE)
    begin = [(path, name) for path, names in rows for name in re.findall(r"`([\w.]+)`", names)]
    assert len(rows) >= 15
    assert [(path, name) for path, name in begin if name not in _defined(ROOT / path)] == []


def _defined(path: Path) -> set[str]:
    """Return the names that a module defines at its top, and those in its classes."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inner = [(node.name, child) for node in tree.body if isinstance(node, ast.ClassDef) for child in node.body]
    targets = [t for node in tree.body if isinstance(node, (ast.Assign, ast.AnnAssign)) for t in _targets(node)]
    named = {getattr(node, "name", None) for node in tree.body} | {getattr(target, "id", None) for target in targets}
    return {str(name) for name in named} | {f"{owner}.{getattr(child, 'name', None)}" for owner, child in inner}


def _targets(node: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]
