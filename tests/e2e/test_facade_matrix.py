"""The façade matrix (R34): any mechanism, solver, kind of table and promise gives a table, or a refusal that costs nothing.

Whatever is no refusal of the library's own ends the test: no raw Python error comes out.
"""

import itertools
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from facade_worlds import MECHANISMS, PROMISES, SOLVERS, WORLDS, attempt

from synthdp.privacy import noise

NAMES = [name for name in MECHANISMS if name[0].islower()]


@pytest.fixture(autouse=True)
def _expected_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "epsilon .* is above 5", UserWarning)
        warnings.filterwarnings("ignore", ".* leaves out: ", UserWarning)
        warnings.filterwarnings("ignore", "the noise in each average", UserWarning)
        yield


def covering() -> list[tuple[str, str, str, str]]:
    """Every mechanism on every table, and every other pair of choices somewhere among them."""
    cells = []
    for (i, mechanism), (j, world) in itertools.product(enumerate(MECHANISMS), enumerate(WORLDS)):
        solver = SOLVERS[(i + j) % len(SOLVERS)] if mechanism in NAMES and (i + j) % 3 == 0 else "auto"
        cells.append((mechanism, solver, world, [*PROMISES][(2 * i + j) % len(PROMISES)]))
    return cells


def check(mechanism: str, solver: str, world: str, promise: str, folder: Path) -> None:
    settings = {**PROMISES[promise], **MECHANISMS[mechanism](WORLDS[world]), "solver": solver}
    outcome = attempt(WORLDS[world], settings, folder / "l.sqlite")
    assert (outcome.table_came_out, outcome.spends) in {(True, 1), (False, 0)}, outcome.refusal


@pytest.mark.parametrize(("mechanism", "solver", "world", "promise"), covering())
def test_a_table_comes_out_or_nothing_is_spent(
    mechanism: str, solver: str, world: str, promise: str, tmp_path: Path
) -> None:
    check(mechanism, solver, world, promise, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("promise", PROMISES)
@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(
    ("mechanism", "solver"),
    [(name, solver) for name in MECHANISMS for solver in (SOLVERS if name in NAMES else ["auto"])],
)
def test_a_table_comes_out_or_nothing_is_spent_whatever_is_combined(
    mechanism: str, solver: str, world: str, promise: str, tmp_path: Path
) -> None:
    check(mechanism, solver, world, promise, tmp_path)


WILD = {
    "nothing": lambda size: np.zeros(size, np.int64),
    "far too little": lambda size: np.full(size, -(10**13)),
    "far too much": lambda size: np.full(size, 10**13),
    "now this, now that": lambda size: 10**13 * (-1) ** np.arange(size),
}
"""Answers that noise may give, if it is large: what comes after them must make a table of them all the same."""


@pytest.mark.parametrize("answers", WILD)
@pytest.mark.parametrize("world", ["numbers", "mixed", "rules", "dates and durations", "one level", "nothing declared"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_whatever_the_noise_says_a_table_comes_out(
    mechanism: str, world: str, answers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for law in ("discrete_laplace", "discrete_gaussian", "linf_knorm"):
        monkeypatch.setattr(noise, law, lambda values, *, scale: WILD[answers](len(values)))
    promise = [*PROMISES][(len(mechanism) + len(answers)) % 2]
    check(mechanism, "auto", world, promise, tmp_path)
