"""Broken builds: each takes one promise away by a small edit, and a named test must notice.

    python tests/audit/mutations.py [--write docs/audit/mutations.md]

The package and its tests are copied to a scratch folder, one edit of `broken_builds` is made there, and the named tests
are run on the copy: they must pass before the edit and at least one must fail after it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from broken_builds import MUTATIONS
from broken_builds.mutation import ROOT, Mutation


def caught(mutation: Mutation) -> bool:
    """Whether a named test fails on the broken build, which can be tried."""
    with _copy() as root:
        mutation.apply(root)
        return _status(root, mutation.tests, slow=bool(mutation.needs)) in (1, 2)  # 2: not even collected


def sound() -> bool:
    """Whether all named tests pass on the build as it is."""
    with _copy() as root:
        named = {test for mutation in MUTATIONS if mutation.can_be_tried for test in mutation.tests}
        return _status(root, sorted(named)) == 0


class _copy:  # noqa: N801 - a context manager
    def __enter__(self) -> Path:
        self.folder = tempfile.TemporaryDirectory(prefix="synthdp-mutation-")
        root = Path(self.folder.name)
        for name in ("synthdp", "tests", "docs/audit", "docs/explanation"):  # pages that tests read
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / name, root / name)
        return root

    def __exit__(self, *_: object) -> None:
        self.folder.cleanup()


def _status(root: Path, tests: tuple[str, ...] | list[str], *, slow: bool = False) -> int:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--hypothesis-profile",
        "thorough",  # what few random examples may miss must be noticed every time
        "-m",
        "" if slow else "not slow or sampled",  # all cases of what is sampled
        *tests,
    ]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(root)}
    ran = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=900)
    return ran.returncode


def table(outcomes: list[bool]) -> str:
    """The table of the documentation."""
    lines = [
        "# Broken builds, and who notices",
        "",
        "Made by `python tests/audit/mutations.py --write docs/audit/mutations.md`.  Each row is one edit to a copy of the",
        "package that takes a promise away (a dash: one of use, not of privacy); the tests named pass on the",
        "package and at least one fails on the copy.",
        f"Caught: {sum(outcomes)} of {len(outcomes)}.",
        "",
        "| broken build | requirement | file | test | caught |",
        "|---|---|---|---|---|",
    ]
    for mutation, found in zip(MUTATIONS, outcomes, strict=True):
        tests = ", ".join(f"`{test.removeprefix('tests/')}`" for test in mutation.tests)
        lines.append(
            f"| {mutation.name} | {mutation.requirement} | `{mutation.file}` | {tests} | {'yes' if found else '**NO**'} |"
        )
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--only", help="part of the names of the builds to try; nothing is written then")
    arguments = parser.parse_args()
    if arguments.only is not None:
        found = {mutation.name: caught(mutation) for mutation in MUTATIONS if arguments.only in mutation.name}
        sys.stdout.write(f"{found}\n")
        return 0 if all(found.values()) else 1
    if not sound():
        sys.stdout.write("the named tests do not pass on the package as it is\n")
        return 1
    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(lambda build: build.can_be_tried and caught(build), MUTATIONS))
    text = table(outcomes)
    sys.stdout.write(text)
    if arguments.write is not None:
        arguments.write.parent.mkdir(parents=True, exist_ok=True)
        arguments.write.write_text(text, encoding="utf-8")
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
