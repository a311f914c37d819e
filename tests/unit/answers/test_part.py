"""Questions about wide tables are answered by few columns: those that are asked and those measured with them."""

import itertools

import numpy as np
import pandas as pd
import pytest

import synthdp as sd
from synthdp.answers.answer import AnswerEngine
from synthdp.answers.bootstrap import BootstrapCache
from synthdp.answers.column_subset import ColumnSubset, nearest_columns, of_columns
from synthdp.answers.direct import GLSEstimates
from synthdp.answers.refitted_points import refitted
from synthdp.distribution.components import Components
from synthdp.distribution.distribution import Distribution
from synthdp.distribution.explicit import Explicit
from synthdp.mechanisms.adaptive.adaptive_marginals import AdaptiveMarginals
from synthdp.queries.contingency import contingency
from synthdp.randomness import generator

SCHEMA = sd.Schema({f"x{j}": sd.Categorical(list("uvw")) for j in range(6)})


def explicit(columns: int, seed: int) -> Explicit:
    rng = np.random.default_rng(seed)
    shape = (2, 3, 2, 4)[:columns]
    codes = np.column_stack([rng.integers(k, size=40) for k in shape])
    return Explicit(shape=shape, codes=codes, weights=rng.random(40))


def groups() -> Components:
    return Components(
        shape=(2, 2, 3, 3, 2), columns=((0, 2), (1, 3, 4)), parts=(explicit_of(2, 3), explicit_of(2, 3, 2))
    )


def explicit_of(*shape: int) -> Explicit:
    rng = np.random.default_rng(len(shape))
    codes = np.column_stack([rng.integers(k, size=30) for k in shape])
    return Explicit(shape=shape, codes=codes, weights=rng.random(30))


@pytest.mark.parametrize("whole", [explicit(4, 0), groups()])
@pytest.mark.parametrize("columns", [(0,), (1, 3), (0, 2, 3)])
def test_few_columns_have_the_law_that_they_have_among_all(whole: Distribution, columns: tuple[int, ...]) -> None:
    few = of_columns(whole, columns)
    assert few.shape == tuple(whole.shape[j] for j in columns)
    for size in range(1, len(columns) + 1):
        for clique in itertools.combinations(range(len(columns)), size):
            assert few.marginal(clique) == pytest.approx(whole.marginal(tuple(columns[j] for j in clique)))
    drawn = few.sample(2000, generator(0), given={0: np.array([True] + [False] * (few.shape[0] - 1))})
    alone = tuple(range(len(columns)))
    law = few.marginal(alone).reshape(few.shape)
    law[1:] = 0  # what is known of the first column
    assert contingency(drawn, few.shape, alone) / 2000 == pytest.approx(law.ravel() / law.sum(), abs=0.005)


@pytest.fixture(scope="module")
def release() -> sd.SyntheticRelease:
    """Of two groups of three columns that have nothing to do with each other."""
    rng = np.random.default_rng(0)
    base = np.repeat(rng.integers(3, size=(8000, 2)), 3, axis=1)
    codes = np.where(rng.random(base.shape) < 0.6, base, rng.integers(3, size=base.shape))
    table = pd.DataFrame({name: np.array(list("uvw"))[codes[:, j]] for j, name in enumerate(SCHEMA)})
    return sd.SyntheticRelease(schema=SCHEMA, epsilon=3.0, mechanism=AdaptiveMarginals(), random_state=0).fit(table)


def direct(release: sd.SyntheticRelease) -> GLSEstimates:
    return GLSEstimates(release.release_.output, release.release_.measurements)


def test_the_nearest_columns_are_those_measured_with_the_ones_asked(release: sd.SyntheticRelease) -> None:
    whole = direct(release)
    assert nearest_columns(whole, [1], 3) == (0, 1, 2)
    assert nearest_columns(whole, [4, 1], 2) == (1, 4)
    assert set(nearest_columns(whole, [0, 5], 6)) == set(range(6))


def test_a_part_knows_of_its_columns_what_the_release_knows(release: sd.SyntheticRelease) -> None:
    whole = direct(release)
    part = ColumnSubset.of(whole, [5, 0, 2])
    assert [part.place(j) for j in (0, 2, 5)] == [0, 1, 2]
    assert part.has((0, 1)) == whole.has((0, 2))
    assert part.has((1, 2)) == whole.has((2, 5))
    assert part.leaves(2).counts == pytest.approx(whole.leaves(5).counts)
    assert part.linear((0, 1), np.eye(9)).estimate == pytest.approx(whole.linear((0, 2), np.eye(9)).estimate, abs=40)
    assert (part.screened is None) == (whole.screened is None)


def shares(release: sd.SyntheticRelease, first: str, second: str) -> tuple[np.ndarray, np.ndarray]:
    """Return shares of all combinations of two columns by the model, and their standard errors."""
    asker = AnswerEngine(release.release_.output, release.release_.measurements)
    conditions = (f"{first} == '{a}' and {second} == '{b}'" for a, b in itertools.product("uvw", "uvw"))
    found = [asker.ask(sd.share(condition)) for condition in conditions]
    return np.array([one.estimate[0] for one in found]), np.array([one.stddev[0] for one in found])


@pytest.mark.landing
@pytest.mark.sampled
@pytest.mark.parametrize("pair", [("x0", "x1"), ("x2", "x4")])
def test_few_columns_give_the_error_bars_of_all(
    release: sd.SyntheticRelease, monkeypatch: pytest.MonkeyPatch, pair: tuple[str, str]
) -> None:
    """In the mean of nine cells, each of which 24 replicates find."""
    estimate, stddev = shares(release, *pair)
    monkeypatch.setattr("synthdp.answers.bootstrap.MOST_TOGETHER", 5)
    monkeypatch.setattr("synthdp.answers.bootstrap.NEAREST", 4)
    by_few, error = shares(release, *pair)
    assert by_few == pytest.approx(estimate)
    assert 0.4 < np.sqrt((error**2).mean() / (stddev**2).mean()) < 2.5


def test_columns_that_were_asked_about_are_not_drawn_again(
    release: sd.SyntheticRelease, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []
    monkeypatch.setattr("synthdp.answers.bootstrap.MOST_TOGETHER", 5)
    monkeypatch.setattr("synthdp.answers.bootstrap.NEAREST", 3)
    monkeypatch.setattr(
        "synthdp.answers.bootstrap.refitted",
        lambda *parts, **options: drawn.append(1) or refitted(*parts, **options),
    )
    asker = AnswerEngine(release.release_.output, release.release_.measurements)
    for condition in ("x0 == 'u' and x3 == 'u' and x4 == 'v'", "x0 == 'v' and x4 == 'v'"):
        asker.ask(sd.share(condition))
    assert len(drawn) == 1
    asker.ask(sd.share("x1 == 'u' and x3 == 'u' and x5 == 'v'"))
    assert len(drawn) == 2
    asker.ask(sd.share("x0 == 'w' and x3 == 'u'"))
    assert len(drawn) == 2


def test_only_the_last_pools_are_kept(release: sd.SyntheticRelease, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("synthdp.answers.bootstrap.MOST_TOGETHER", 5)
    monkeypatch.setattr("synthdp.answers.bootstrap.NEAREST", 1)
    pools = BootstrapCache(direct(release), 0)
    first = pools.of([0])
    assert pools.of([0]) is first
    for j in range(1, 6):
        pools.of([j])
    assert pools.of([0]) is not first
