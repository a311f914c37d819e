"""Ways in: the wheel, the source archive and the container's steps, each from a clean folder and without a clone."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("build", reason="what is published is built with the packages of the extra dev")
pytest.importorskip("hatchling", reason="what is published is built with the packages of the extra dev")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv*", ".*cache*", "__pycache__", ".hypothesis", "site", "dist", "build", "*.release"
)
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
OFFLINE = """
import runpy, sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"):
        raise OSError(f"no network: {event} {arguments}")

sys.addaudithook(refuse)
sys.argv = ["synthdp", *sys.argv[1:]]
runpy.run_module("synthdp", run_name="__main__")
"""


def build(what: list[str], folder: Path, dist: Path) -> Path:
    """Build from a folder and return the newest file, in which nothing was fetched."""
    command = [sys.executable, "-m", "build", "--no-isolation", *what, "-o", str(dist), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return max(dist.iterdir(), key=lambda path: path.stat().st_mtime_ns)


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if "dist-info/" not in name}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository as a fresh clone has it."""
    return shutil.copytree(ROOT, tmp_path_factory.mktemp("clone") / "synthdp", ignore=LEFT_OUT)


@pytest.fixture(scope="module")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(["--wheel"], tree, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def archive(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(["--sdist"], tree, tmp_path_factory.mktemp("sdist"))


def test_the_wheel_holds_every_file_of_the_package_and_no_other(tree: Path, wheel: Path) -> None:
    files = [path for path in (tree / "synthdp").rglob("*") if path.is_file()]
    assert contents(wheel) == {path.relative_to(tree).as_posix(): path.read_bytes() for path in files}


def test_the_source_archive_holds_the_tests_and_makes_the_same_wheel(
    tree: Path, wheel: Path, archive: Path, tmp_path: Path
) -> None:
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "unpacked", filter="data")
    (source,) = (tmp_path / "unpacked").iterdir()
    assert contents(build(["--wheel"], source, tmp_path / "dist")) == contents(wheel)
    for folder in ("tests", "examples", "benchmarks", "docs", ".ci"):
        there = {path.relative_to(tree) for path in (tree / folder).rglob("*") if path.is_file()}
        assert there <= {path.relative_to(source) for path in source.rglob("*")}, folder


def run_alone(wheel: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line from a wheel only: in an empty folder, without a home and without network."""
    packages, here = folder / "packages", folder / "here"
    here.mkdir()
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(packages)]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True)
    environment = {**os.environ, "PYTHONPATH": str(packages), "HOME": str(folder / "nobody")}
    command = [sys.executable, "-c", OFFLINE, *arguments]
    return subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, check=False)


def test_the_demo_runs_from_the_wheel_without_a_clone_and_without_network(wheel: Path, tmp_path: Path) -> None:
    done = run_alone(wheel, tmp_path, "demo")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "here").iterdir()} == {
        "adult.release",
        "receipt.txt",
        "report.html",
        "synthetic.csv",
    }
    assert "Privacy receipt" in done.stdout


def test_the_container_is_built_from_the_files_that_it_copies(wheel: Path, tree: Path, tmp_path: Path) -> None:
    source = tmp_path / "src"
    source.mkdir()
    for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE):
        *names, target = line.split()
        for path in (tree / name for name in names):
            copy = shutil.copytree if path.is_dir() else shutil.copy
            copy(path, source / target if path.is_dir() else source / path.name)
    assert contents(build(["--wheel"], source, tmp_path / "dist")) == contents(wheel)


def test_the_container_runs_as_nobody_special_and_gets_the_files_it_needs() -> None:
    assert re.findall(r"^USER (\S+)$", DOCKERFILE, re.MULTILINE) == ["synthdp"]
    allowed = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    assert {name for line in copied for name in line.split()} == set(allowed)
