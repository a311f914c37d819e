"""The façade matrix (R34): any mechanism, solver, kind of table and promise gives a table, or a refusal that costs nothing.

Whatever is no refusal of the library's own ends the test: no raw Python error comes out.
"""

import itertools
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from facade_worlds import MECHANISMS, PROMISES, SOLVERS, WORLDS, attempt

import synthdp as sd
from synthdp.cli.main import main
from synthdp.mechanisms.named import parsed_options
from synthdp.privacy import noise

NAMES = [name for name in MECHANISMS if name[0].islower()]
PLAIN = [name for name in NAMES if "," not in name]


@pytest.fixture(autouse=True)
def _expected_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "epsilon .* is above 5", UserWarning)
        warnings.filterwarnings("ignore", ".* leaves out these columns", UserWarning)
        warnings.filterwarnings("ignore", "the noise in each average", UserWarning)
        yield


def covering() -> list[Any]:
    """Every named mechanism on a fifth of the tables, the default on all, and every other pair of choices among them.

    A variant, or a mechanism that is given as an object, meets a ninth; all others are met by the test below.
    """
    cells: list[Any] = []
    for (i, mechanism), (j, world) in itertools.product(enumerate(MECHANISMS), enumerate(WORLDS)):
        solver = SOLVERS[(i + j) % len(SOLVERS)] if mechanism in NAMES and (i + j) % 5 == 0 else "auto"
        chosen = (mechanism, solver, world, [*PROMISES][(2 * i + j) % len(PROMISES)])
        if mechanism == "auto" or (i + j) % (5 if mechanism in PLAIN else 9) == 0:
            cells.append(chosen)
    return cells


def check(mechanism: str, solver: str, world: str, promise: str, folder: Path) -> None:
    settings = {**PROMISES[promise], **MECHANISMS[mechanism](WORLDS[world]), "solver": solver}
    outcome = attempt(WORLDS[world], settings, folder / "l.sqlite")
    assert (outcome.table_came_out, outcome.spends) in {(True, 1), (False, 0)}, (solver, promise, outcome.refusal)


@pytest.mark.sampled
@pytest.mark.parametrize(("mechanism", "solver", "world", "promise"), covering())
def test_a_table_comes_out_or_nothing_is_spent(
    mechanism: str, solver: str, world: str, promise: str, tmp_path: Path
) -> None:
    check(mechanism, solver, world, promise, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_table_comes_out_or_nothing_is_spent_whatever_is_combined(mechanism: str, tmp_path: Path) -> None:
    """With every table, solver and promise: as cases of their own they would be most of all that is collected."""
    solvers = SOLVERS if mechanism in NAMES else ["auto"]
    for world, solver, promise in itertools.product(WORLDS, solvers, PROMISES):
        folder = tmp_path / f"{world} {solver} {promise}"
        folder.mkdir()
        check(mechanism, solver, world, promise, folder)


WILD = {
    "nothing": lambda size: np.zeros(size, np.int64),
    "far too little": lambda size: np.full(size, -(10**7)),
    "far too much": lambda size: np.full(size, 10**7),
    "now this, now that": lambda size: 10**7 * (-1) ** np.arange(size),
}
"""Answers that noise may give, if it is large: what comes after them must make a table of them all the same."""


def wildly() -> list[Any]:
    """Every mechanism on half of the small tables, with answers in turns; the rest, and twins of another, are ``slow``."""
    small = ["numbers", "labels", "rules", "one level"]
    twins = ["Automatic", "AdaptiveMarginals", "SmoothSynthesis", "L1Fit", "FourierMarginals"]  # of what a name makes
    turns = itertools.product(enumerate(MECHANISMS), enumerate(small), enumerate(WILD))
    return [
        pytest.param(
            mechanism, world, answers, marks=[pytest.mark.slow] * ((i + j) % (2 * len(WILD)) != k or mechanism in twins)
        )
        for (i, mechanism), (j, world), (k, answers) in turns
    ]


@pytest.mark.sampled
@pytest.mark.parametrize(("mechanism", "world", "answers"), wildly())
def test_whatever_the_noise_says_a_table_comes_out(
    mechanism: str, world: str, answers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for law in ("discrete_laplace", "discrete_gaussian", "linf_knorm"):
        monkeypatch.setattr(noise, law, lambda values, *, scale: WILD[answers](len(values)))
    promise = [*PROMISES][(len(mechanism) + len(answers)) % 2]
    check(mechanism, "auto", world, promise, tmp_path)


WRITTEN = [
    "numbers",
    "mixed",
    "dates and durations",
    "an identifier",
    "rules",
    "rules that contradict each other",
    "one row",
]


def by_commands() -> list[Any]:
    """Every named mechanism on some of the tables that can be written as CSV, solvers in turn; the rest is ``slow``."""
    pairs = itertools.product(enumerate(NAMES), enumerate(WRITTEN))
    return [
        pytest.param(name, SOLVERS[(i + j) % 4], world, marks=[pytest.mark.slow] * ((i + j) % 5 != 1))
        for (i, name), (j, world) in pairs
    ]


@pytest.mark.sampled("landing")
@pytest.mark.parametrize(("mechanism", "solver", "world"), by_commands())
def test_the_command_line_writes_a_table_or_one_line_and_spends_nothing(
    mechanism: str, solver: str, world: str, tmp_path: Path
) -> None:
    chosen = MECHANISMS[mechanism](WORLDS[world])
    WORLDS[world].table.to_csv(tmp_path / "t.csv", index=False)
    WORLDS[world].schema.write(tmp_path / "s.json")
    options = [f"--option={name}={value}" for name, value in (chosen["mechanism_options"] or {}).items()]
    files = [f"--{name}={tmp_path / file}" for name, file in FILES.items()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warnings, "showwarning", warnings.showwarning)
        arguments = ["release", str(tmp_path / "t.csv"), "--mechanism", chosen["mechanism"], "--solver", solver]
        result = CliRunner(catch_exceptions=False).invoke(
            main, [*arguments, "--rows=9", "--dataset=d", f"--schema={tmp_path / 's.json'}", *options, *files]
        )
    said = [line for line in result.stderr.splitlines() if "warning" not in line]
    spends = len(sd.Ledger(tmp_path / "l.sqlite").entries("d")) if (tmp_path / "l.sqlite").exists() else 0
    there = (tmp_path / "o.csv").exists() and (tmp_path / "r.html").exists() and (tmp_path / "r.release").is_dir()
    assert (result.exit_code, len(said), spends, there) in {(0, 0, 1, True), (2, 1, 0, False)}, result.output


FILES = {"out": "o.csv", "ledger": "l.sqlite", "report": "r.html", "save": "r.release"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--mechanism=smooth_synthesis", "--option=variant=best"], "must be one of"),
        (["--mechanism=smooth_synthesis", "--option=variant"], "NAME=VALUE"),
        (["--mechanism=smooth_synthesis", "--option=grid=9", "--option=grid=8"], "each name once"),
        (["--mechanism=smooth_synthesis", "--option=grid=many"], "must be a whole number"),
        (["--mechanism=l1_fit", "--option=nonsense=1"], "it has: workload"),
        (["--mechanism=mwem", "--option=average=maybe"], "true or false"),
        (["--mechanism=adaptive_marginals", "--option=planner=none"], "must be a Planner"),
        (["--option=bins=2"], "takes no options"),
        (["--mechanism=magic", "--option=x=2"], "must be one of auto"),
        (["--mechanism=l1_fit", "--solver=maxent"], "use one of auto, lp, mw"),
    ],
)
def test_an_option_that_does_not_apply_is_one_line(options: list[str], words: str, tmp_path: Path) -> None:
    WORLDS["mixed"].table.to_csv(tmp_path / "t.csv", index=False)
    WORLDS["mixed"].schema.write(tmp_path / "s.json")
    paths = [str(tmp_path / "t.csv"), f"--schema={tmp_path / 's.json'}", f"--out={tmp_path / 'o.csv'}"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warnings, "showwarning", warnings.showwarning)
        result = CliRunner(catch_exceptions=False).invoke(main, ["release", *paths, *options])
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert words in result.stderr
    assert not (tmp_path / "o.csv").exists()


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("columns=x,k", ("x", "k")), ("columns=none", None), ("candidates=50", 50), ("total_share=0.1", 0.1),
        ("total_share=1", 1.0), ("variant=exact", "exact"),
    ],
)  # fmt: skip
def test_text_becomes_what_the_setting_holds(option: str, expected: object) -> None:
    assert parsed_options("smooth_synthesis", "auto", [option]) == {option.partition("=")[0]: expected}
    assert parsed_options("mwem", "auto", ["average=true"]) == {"average": True}
