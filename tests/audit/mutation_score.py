"""The mutation score of the trusted code: how many of a random sample of cosmic-ray's mutants its tests notice.

    pip install cosmic-ray coverage
    python tests/audit/mutation_score.py --work /tmp/score --sample 400 --write docs/audit/mutation-score.md

Each mutant is one edit by one of cosmic-ray's operators, drawn at random with a fixed seed from all that change more than
annotations.  It is put into a copy of the package, and the tests that run its line are run there, quickest first, in a
fork of a process that has the libraries loaded.  A mutant is killed if a test fails or takes too long.  What was found is
kept in the work folder: a command that was stopped, or ran for ``--seconds``, goes on where it was.  After a change of the
package take another work folder.
"""

from __future__ import annotations

import argparse
import ast
import datetime as dt
import json
import math
import os
import random
import resource
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TRUSTED = ("synthdp/curator", "synthdp/privacy")
TESTS = (
    "tests/unit/curator",
    "tests/unit/privacy",
    "tests/privacy/test_room.py",
    "tests/privacy/test_attacks.py",
    "tests/privacy/test_noise_is_unseeded.py",
    "tests/privacy/test_one_row_moves_one_row.py",
    "tests/privacy/test_net_law.py",
    "tests/privacy/test_traces.py",
    "tests/privacy/test_processes.py",
    "tests/privacy/test_sessions.py",
    "tests/privacy/test_which_losses_add_up.py",
    "tests/privacy/test_attacks_on_discovery.py",
    "tests/privacy/test_database_traces.py",
    "tests/audit/test_database_audit.py",
    "tests/contracts/test_database_sources.py",
    "tests/contracts/test_receipts.py",
    "tests/e2e/test_undiscovered.py",
    "tests/contracts/test_mechanisms.py",
    "tests/e2e/test_privacy_unit.py",
    "tests/statistical/test_noise_laws.py",
    "tests/statistical/test_linf_knorm_law.py",
    "tests/architecture/test_trusted_code.py",
    "tests/privacy/test_tape_of_series.py",
    "tests/privacy/test_series_crashes.py",
    "tests/privacy/test_mechanism_traces.py",
    "tests/privacy/test_tape.py",
    "tests/e2e/test_series.py",
    "tests/e2e/test_panel_series.py",
    "tests/e2e/test_series_corrections.py",
    "tests/databases/test_open_columns.py",
    "tests/statistical/test_sparse_vector_law.py",
)
"""What tests the trusted code."""

OPTIONS = (
    "-q",
    "-m",
    "not slow and not style",  # all that runs before a change lands
    "--hypothesis-profile=thorough",
    "--assert=plain",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "-p",
    "no:benchmark",
)
STRUCTURE = (
    "tests/architecture/test_trusted_code.py::test_what_is_no_state_cannot_be_changed_and_nothing_can_be_added",
    "tests/architecture/test_trusted_code.py::test_every_argument_can_be_named",
    "tests/architecture/test_trusted_code.py::test_long_records_are_made_by_name",
    "tests/architecture/test_trusted_code.py::test_nobody_inherits_from_a_curator",
)
"""Tests of what classes and functions are: they run no line of them, and so are tried on every mutant that lives."""

CONTROLS = 5
"""How many of the sample are first tried without their edit: no test may notice that."""

SLOWER = 20
"""How many times longer than its processor works a run may take, by the clock, on a busy machine."""

SAID = "last_run.txt"
"""What the tests of the last run printed."""

STAGES = ((40, 20.0), (10_000, 60.0))
"""Most tests, and most seconds that they take unmutated, of each round; a mutant that lives through one has the next."""


@dataclass(frozen=True)
class Mutant:
    """One edit: the operator, its place among all that the operator could edit, and the line."""

    file: str
    operator: str
    occurrence: int
    line: int

    @property
    def key(self) -> str:
        return f"{self.file}:{self.line} {self.operator} {self.occurrence}"

    def source(self, original: str) -> str:
        from cosmic_ray.mutating import mutate_code
        from cosmic_ray.plugins import get_operator

        return str(mutate_code(original, get_operator(self.operator)(), self.occurrence))


def meaning(source: str) -> str:
    """The program without its annotations and texts that are no values."""

    class Bare(ast.NodeTransformer):
        def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
            node.returns = None
            return self.generic_visit(node)

        def visit_arg(self, node: ast.arg) -> ast.AST:
            node.annotation = None
            return node

        def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
            node.annotation = ast.Constant(None)
            return self.generic_visit(node)

        def visit_Assign(self, node: ast.Assign) -> ast.AST:
            return self.generic_visit(node)

    return ast.dump(Bare().visit(ast.parse(source)))


def all_mutants(root: Path) -> Iterator[Mutant]:
    """Every edit of every operator without settings, where operators may act."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    for path in sorted(path for folder in TRUSTED for path in (root / folder).glob("*.py")):
        nodes = list(ast_nodes(get_ast(path.read_text(encoding="utf-8"))))
        for name in sorted(operator_names()):
            kind = get_operator(name)
            if kind.arguments():
                continue
            places = [start for node in nodes for start, _ in kind().mutation_positions(node)]
            for occurrence, start in enumerate(places):
                yield Mutant(path.relative_to(root).as_posix(), name, occurrence, start[0])


def sampled(root: Path, size: int, seed: int) -> tuple[list[Mutant], int, int]:
    """So many mutants in random order that mean something else; how many there are; how many were left out."""
    everything = list(all_mutants(root))
    random.Random(seed).shuffle(everything)
    originals = {path: (root / path).read_text(encoding="utf-8") for path in {mutant.file for mutant in everything}}
    kept: list[Mutant] = []
    left_out = 0
    for mutant in everything:
        if len(kept) == size:
            break
        if changes_something(originals[mutant.file], mutant.source(originals[mutant.file])):
            kept.append(mutant)
        else:
            left_out += 1
    return kept, len(everything), left_out


def changes_something(original: str, mutated: str) -> bool:
    """Whether the edit is a program, and another one but for annotations and names of types."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as "is" with a number
            return meaning(original) != meaning(mutated)
    except SyntaxError:
        return False


class Recorder:
    """A pytest plugin: which test is running, and how long each took."""

    def __init__(self, coverage: Any) -> None:
        self.coverage = coverage
        self.seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_setup(self, item: Any) -> None:
        self.coverage.switch_context(item.nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] += report.duration


def record(root: Path, found: Path) -> None:
    """Run the tests once and write which of them run each line, and how long they take."""
    import coverage
    import pytest

    os.chdir(root)
    collector = coverage.Coverage(data_file=None, source=[str(root / folder) for folder in TRUSTED], config_file=False)
    collector.start()
    plugin = Recorder(collector)
    status = pytest.main([*OPTIONS, *TESTS], [plugin])
    collector.stop()
    if status:
        raise SystemExit("the tests do not pass on the package as it is")
    data = collector.get_data()
    lines = {
        str(Path(path).relative_to(root)): {
            line: [test for test in tests if test] for line, tests in data.contexts_by_lineno(path).items()
        }
        for path in data.measured_files()
    }
    found.write_text(json.dumps({"lines": lines, "seconds": plugin.seconds}))


def tests_for(mutant: Mutant, source: str, recorded: dict[str, Any]) -> list[str]:
    """The tests that run the mutant's line, or else its statement, its function, or its module; quickest first."""
    lines = {int(line): tests for line, tests in recorded["lines"].get(mutant.file, {}).items()}
    spans = [
        (node.end_lineno - node.lineno, node.lineno, node.end_lineno)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.stmt) and node.lineno <= mutant.line <= (node.end_lineno or 0)
    ]
    for first, last in [(mutant.line, mutant.line), *((a, b) for _, a, b in sorted(spans)), (1, 10**6)]:
        tests = {test for line, some in lines.items() if first <= line <= last for test in some}
        if tests:
            return sorted(tests, key=lambda test: recorded["seconds"].get(test, 0.0))
    return []


def killed(copy: Path, mutant: Mutant, original: str, source: str, recorded: dict[str, Any]) -> str:
    """Return how a mutant's source ended: "killed", "killed: too long", or "survived"."""
    (copy / mutant.file).write_text(source, encoding="utf-8")
    try:
        waiting, done = tests_for(mutant, original, recorded), 0
        for most, most_seconds in STAGES:
            chosen, seconds = [], 0.0
            for test in waiting[done : done + most]:
                seconds += recorded["seconds"].get(test, 0.0)
                if seconds > most_seconds and chosen:
                    break
                chosen.append(test)
            done += len(chosen)
            if chosen and (outcome := _run(copy, chosen, limit=15 + 3 * seconds)):
                return outcome
        structure = [test for test in recorded["seconds"] if test.startswith(STRUCTURE)]
        return _run(copy, structure, limit=60) or "survived"
    finally:
        (copy / mutant.file).write_text(original, encoding="utf-8")


def _run(copy: Path, tests: list[str], *, limit: float) -> str:
    """Run tests in a fork, for so many seconds of a processor: a busy machine kills no mutant."""
    if not tests:
        raise ValueError("no test to run: pytest would run them all")
    child = os.fork()
    if child == 0:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit), resource.RLIM_INFINITY))
        with open(copy / SAID, "w") as said:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
        status = 1
        try:
            status = int(_pytest(copy, tests))
        finally:
            os._exit(status)
    ends = time.monotonic() + limit * SLOWER  # for what waits without end
    while time.monotonic() < ends:
        finished, status = os.waitpid(child, os.WNOHANG)
        if finished:
            ended = os.waitstatus_to_exitcode(status)
            return "" if ended == 0 else "killed: too long" if ended == -signal.SIGXCPU else "killed"
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "killed: too long"


def _pytest(copy: Path, tests: list[str]) -> int:
    import pytest

    os.chdir(copy)
    sys.path.insert(0, str(copy))
    return int(pytest.main(["-x", *OPTIONS, *tests]))


def _load_libraries() -> None:
    """Everything that a fork would have to import again, but nothing of the package."""
    import click  # noqa: F401
    import dp_accounting.pld.privacy_loss_distribution  # noqa: F401
    import hypothesis  # noqa: F401
    import narwhals  # noqa: F401
    import numpy as np  # noqa: F401
    import opendp.measurements  # noqa: F401
    import pandas as pd  # noqa: F401
    import pytest  # noqa: F401
    import scipy.optimize
    import scipy.special
    import scipy.stats  # noqa: F401
    import sklearn.base  # noqa: F401


def interval(hits: int, runs: int, confidence: float = 0.95) -> tuple[float, float]:
    """Clopper and Pearson's interval of a share."""
    from scipy.stats import binomtest

    found = binomtest(hits, runs).proportion_ci(confidence, method="exact")
    return float(found.low), float(found.high)


def page(outcomes: dict[str, str], size: int, seed: int, total: int, left_out: int, notes: str) -> str:
    """The page of the documentation."""
    dead = sum(outcome != "survived" for outcome in outcomes.values())
    slow = sum(outcome == "killed: too long" for outcome in outcomes.values())
    low, high = interval(dead, len(outcomes))
    by_file: dict[str, list[str]] = defaultdict(list)
    for key, outcome in outcomes.items():
        by_file[key.partition(":")[0]].append(outcome)
    lines = [
        "# Mutation score of the trusted code",
        "",
        f"Made by `python tests/audit/mutation_score.py --sample {size} --seed {seed}`,",
        f"cosmic-ray {version('cosmic-ray')}, {dt.datetime.now(dt.UTC):%Y-%m-%d}.",
        "",
        f"Of {total} edits by cosmic-ray's operators (those without settings), {size} were drawn at random that are",
        f"programs and change more than annotations ({left_out} that were drawn are not or do not).  The first",
        f"{len(outcomes)} of them, in random order, were tried.",
        f"**{dead} of {len(outcomes)} were noticed by a test: {dead / len(outcomes):.1%}**, with 95 % confidence between",
        f"{low:.1%} and {high:.1%} of all ({slow} of them by taking too long).  Survivors count as such also where they",
        "change nothing that can be seen.",
        "",
        "| file | mutants | noticed |",
        "|---|---|---|",
        *(
            f"| `{name}` | {len(some)} | {sum(outcome != 'survived' for outcome in some)} |"
            for name, some in sorted(by_file.items())
        ),
        "",
        "Not noticed:",
        "",
        *(f"- `{key}`" for key, outcome in sorted(outcomes.items()) if outcome == "survived"),
    ]
    return "\n".join(lines).rstrip() + "\n" + notes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--sample", type=int, default=400)
    parser.add_argument("--seed", type=int, default=20261121)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--again", action="store_true", help="try the survivors again, after tests were added")
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    ends = time.monotonic() + arguments.seconds
    os.environ["PYTHONDONTWRITEBYTECODE"], sys.dont_write_bytecode = "1", True
    work = arguments.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    copy, state = work / "copy", work / "outcomes.json"
    shutil.rmtree(copy, ignore_errors=True)
    for name in ("synthdp", "tests"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, copy / name)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(copy), os.environ.get("PYTHONPATH", "")])
    _load_libraries()
    recorded_at = work / "recorded.json"
    if arguments.again or not recorded_at.exists():
        child = os.fork()  # the package is imported there, not here
        if child == 0:
            status = 1
            try:
                sys.path.insert(0, str(copy))
                record(copy, recorded_at)
                status = 0
            except BaseException:  # noqa: BLE001 - said, and the fork ends
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(status)
        if os.waitpid(child, 0)[1]:
            return 1
    recorded = json.loads(recorded_at.read_text())
    drawn_at = work / f"sample-{arguments.sample}-{arguments.seed}.json"
    if not drawn_at.exists():
        drawn, *counts = sampled(copy, arguments.sample, arguments.seed)
        drawn_at.write_text(json.dumps([[asdict(mutant) for mutant in drawn], *counts]))
    drawn, total, left_out = json.loads(drawn_at.read_text())
    mutants = [Mutant(**mutant) for mutant in drawn]
    for mutant in mutants[:CONTROLS]:
        original = (copy / mutant.file).read_text(encoding="utf-8")
        if (outcome := killed(copy, mutant, original, original, recorded)) != "survived":
            sys.stderr.write((copy / SAID).read_text())
            raise SystemExit(f"without its edit {mutant.key} was {outcome}: the tests fail here by themselves")
    outcomes: dict[str, str] = json.loads(state.read_text()) if state.exists() else {}
    if arguments.again:
        outcomes = {key: outcome for key, outcome in outcomes.items() if outcome != "survived"}
    for mutant in mutants:
        if time.monotonic() > ends:
            break
        if mutant.key not in outcomes:
            original = (copy / mutant.file).read_text(encoding="utf-8")
            outcomes[mutant.key] = killed(copy, mutant, original, mutant.source(original), recorded)
            state.write_text(json.dumps(outcomes, indent=1))
    ours = {mutant.key: outcomes[mutant.key] for mutant in mutants if mutant.key in outcomes}
    notes = ""
    if arguments.write is not None:
        if arguments.write.exists():
            _, mark, rest = arguments.write.read_text(encoding="utf-8").partition("\n## ")
            notes = mark + rest
        arguments.write.write_text(
            page(ours, arguments.sample, arguments.seed, total, left_out, notes), encoding="utf-8"
        )
    sys.stdout.write(page(ours, arguments.sample, arguments.seed, total, left_out, ""))
    return 0 if len(ours) == len(mutants) else 75


if __name__ == "__main__":
    sys.exit(main())
