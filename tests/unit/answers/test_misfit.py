"""Relations put into the bootstrap: as strong as the screening leaves room for, and none where cells were measured."""

import itertools

import numpy as np
import pandas as pd
import pytest

import synthdp as sd
from synthdp.answers.direct import Direct
from synthdp.answers.misfit import Misfit, leaf_mass
from synthdp.mechanisms.adaptive.adaptive_marginals import AdaptiveMarginals
from synthdp.mechanisms.adaptive.selection import Planner
from synthdp.randomness import generator

SCHEMA = sd.Schema({
    "a": sd.Categorical(list("uvwx")), "b": sd.Categorical(list("pqrs")), "c": sd.Integer(0, 63),
})  # fmt: skip


def released(table: pd.DataFrame, **settings: object) -> sd.SyntheticRelease:
    mechanism = AdaptiveMarginals(**settings)
    return sd.SyntheticRelease(schema=SCHEMA, epsilon=5.0, mechanism=mechanism, random_state=0).fit(table)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    a = rng.integers(4, size=6000)
    b = np.where(rng.random(6000) < 0.5, a, rng.integers(4, size=6000))
    return pd.DataFrame(
        {"a": np.array(list("uvwx"))[a], "b": np.array(list("pqrs"))[b], "c": rng.integers(64, size=6000)}
    )


@pytest.fixture(scope="module")
def blind(table: pd.DataFrame) -> sd.SyntheticRelease:
    """A release that screened the pairs and may measure none of them."""
    return released(table, planner=Planner(max_batch=0))


def direct(release: sd.SyntheticRelease) -> Direct:
    return Direct(release.release_.output, release.release_.measurements)


def test_a_relation_that_was_seen_but_not_measured_is_put_in(blind: sd.SyntheticRelease, table: pd.DataFrame) -> None:
    misfit = Misfit.of(direct(blind))
    joint = pd.crosstab(table["a"], table["b"], normalize=True).to_numpy()
    distance = np.abs(joint - np.outer(joint.sum(axis=1), joint.sum(axis=0))).sum()
    assert misfit.strengths[0, 1] == pytest.approx(distance, rel=0.2)
    assert misfit.strengths[0, 2] < distance / 3


def test_its_error_bars_hold_what_those_of_noise_alone_would_miss(
    blind: sd.SyntheticRelease, table: pd.DataFrame
) -> None:
    answers = blind.answer(sd.marginal("a", "b"))
    truth = [
        int(((table["a"] == a) & (table["b"] == b)).sum()) for a, b in zip(answers["a"], answers["b"], strict=True)
    ]
    inside = [low <= n <= high for low, n, high in zip(answers["lower"], truth, answers["upper"], strict=True)]
    assert np.mean(inside) > 0.8
    assert answers["standard_error"].min() > 40


def test_what_was_measured_is_left_alone(table: pd.DataFrame) -> None:
    known = direct(released(table))
    misfit = Misfit.of(known)
    assert known.has((0, 1))
    masses = [leaf_mass(known.model, j) for j in range(2)]
    relation = generator(0).standard_normal((len(masses[0]), len(masses[1])))
    within = relation - misfit._between_cells(relation, 0, 1, masses)
    cells = [known.model.refinements[j].coarse_cell for j in range(2)]
    for i, j in itertools.product(range(known.model.domain.shape[0]), range(known.model.domain.shape[1])):
        weights = np.outer(masses[0] * (cells[0] == i), masses[1] * (cells[1] == j))
        assert abs((weights * within).sum()) < 1e-9


def test_rows_gain_as_often_as_they_lose(blind: sd.SyntheticRelease) -> None:
    known = direct(blind)
    leaves = np.column_stack([
        generator(j).choice(len(mass), 20_000, p=mass / mass.sum())
        for j, mass in enumerate(leaf_mass(known.model, j) for j in range(3))
    ])  # fmt: skip
    found = np.array([Misfit.of(known).weights(leaves, generator(seed)) for seed in range(8)])
    assert (found >= 0).all()
    assert found.mean() == pytest.approx(1, abs=0.05)
    assert found.std() > 0.1
