"""Relations put into the bootstrap: as strong as the screening leaves room for, and none where cells were measured."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import synthdp as sd
from synthdp.answers.direct import GLSEstimates
from synthdp.answers.misspecification import Misspecification, _quadratic
from synthdp.answers.unmeasured_relations import leaf_mass
from synthdp.fit.listed_entropy import ListedEntropy
from synthdp.mechanisms.adaptive.adaptive_marginals import AdaptiveMarginals
from synthdp.mechanisms.adaptive.selection import Planner
from synthdp.randomness import generator

SCHEMA = sd.Schema({
    "a": sd.Categorical(list("uvwx")), "b": sd.Categorical(list("pqrs")), "c": sd.Integer(0, 63),
})  # fmt: skip

CHOSEN = ListedEntropy(max_cells=1)
"""Never all interactions at once, which tells of every pair."""


def released(table: pd.DataFrame, **settings: object) -> sd.SyntheticRelease:
    mechanism = AdaptiveMarginals(listed=CHOSEN, **settings)
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


def direct(release: sd.SyntheticRelease) -> GLSEstimates:
    return GLSEstimates(release.release_.output, release.release_.measurements)


def test_a_relation_that_was_seen_but_not_measured_is_put_in(blind: sd.SyntheticRelease, table: pd.DataFrame) -> None:
    misfit = Misspecification.of(direct(blind))
    joint = pd.crosstab(table["a"], table["b"], normalize=True).to_numpy()
    distance = np.abs(joint - np.outer(joint.sum(axis=1), joint.sum(axis=0))).sum()
    assert misfit.strengths[0, 1] == pytest.approx(distance, rel=0.2)
    assert misfit.strengths[0, 2] < distance / 3


@pytest.mark.landing
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
    misfit = Misspecification.of(known)
    assert known.has((0, 1))
    between = np.zeros((3, 3))
    between[0, 1] = between[1, 0] = 0.2
    leaves = np.array(list(itertools.product(*(range(r.fine.size) for r in known.model.refinements[:2]), [0])))
    (change,) = replace(misfit, strengths=between, triples=0.0, excess={}).changes(leaves, generator(0))
    mass = np.prod([leaf_mass(known.model, j)[leaves[:, j]] for j in range(2)], axis=0)
    cells = [known.model.refinements[j].coarse_cell[leaves[:, j]] for j in range(2)]
    of_cell = np.zeros(known.model.domain.shape[:2])
    np.add.at(of_cell, tuple(cells), mass * change)
    assert np.abs(of_cell).max() < 1e-6


def test_random_relations_are_as_strong_as_was_asked(blind: sd.SyntheticRelease) -> None:
    known = direct(blind)
    between = np.zeros((3, 3))
    between[0, 2] = between[2, 0] = 0.2
    leaves = np.array(list(itertools.product(range(known.model.refinements[0].fine.size), [0],
                                             range(known.model.refinements[2].fine.size))))  # fmt: skip
    mass = np.prod([leaf_mass(known.model, j)[leaves[:, j]] for j in (0, 2)], axis=0)
    misfit = replace(Misspecification.of(known), strengths=between, triples=0.0)
    strengths = [mass @ np.abs(change) for change in misfit.changes(leaves, generator(0), 50)]
    assert np.mean(strengths) == pytest.approx(0.2, rel=0.03)
    assert np.std(strengths) < 0.04


@pytest.mark.parametrize("pairs", [1, 12, 300])
def test_relations_of_pairs_add_up_to_the_products_of_their_functions(pairs: int) -> None:
    """Of few pairs and of many, which are computed in different ways."""
    rng = np.random.default_rng(pairs)
    values, heights = rng.normal(size=(30, 500)), np.zeros((30, 30))
    chosen = rng.permutation(np.argwhere(np.triu(np.ones((30, 30)), 1)))[:pairs]
    heights[tuple(chosen.T)] = rng.normal(size=len(chosen))
    wanted = sum(heights[a, b] * values[a] * values[b] for a, b in chosen)
    assert _quadratic(values.astype(np.float32), heights) == pytest.approx(wanted, abs=1e-3)


def test_rows_gain_as_often_as_they_lose(blind: sd.SyntheticRelease) -> None:
    known = direct(blind)
    leaves = np.column_stack([
        generator(j).choice(len(mass), 20_000, p=mass / mass.sum())
        for j, mass in enumerate(leaf_mass(known.model, j) for j in range(3))
    ])  # fmt: skip
    found = np.array(list(Misspecification.of(known).changes(leaves, generator(0), 20)))
    assert found.mean() == pytest.approx(0, abs=0.02)
    assert found.std() > 0.1
    assert all((weights >= 0).all() for weights in Misspecification.of(known).weights(leaves, generator(0), 8))


@pytest.fixture(scope="module")
def two_causes() -> tuple[pd.DataFrame, sd.SyntheticRelease]:
    """Two independent columns and about their sum: maximum entropy makes them dependent, given each with the sum."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(4, size=(2, 6000))
    table = pd.DataFrame({"a": a, "b": b, "y": np.where(rng.random(6000) < 0.7, a + b, rng.integers(7, size=6000))})
    schema = sd.Schema({"a": sd.Integer(0, 3), "b": sd.Integer(0, 3), "y": sd.Integer(0, 6)})
    mechanism = AdaptiveMarginals(listed=CHOSEN)
    settings = {"schema": schema, "epsilon": 1.0, "mechanism": mechanism, "random_state": 0}
    releases = (sd.SyntheticRelease(**settings).fit(table) for _ in range(50))
    # one release of six measures the pair of the causes, too: then it is not about them
    return table, next(release for release in releases if (0, 1) in Misspecification.of(direct(release)).excess)


def test_dependence_that_the_screening_denies_is_taken_out_of_the_drawn_tables(two_causes) -> None:
    misfit = Misspecification.of(direct(two_causes[1]))
    model = direct(two_causes[1]).model
    table = model.distribution.marginal((0, 1)).reshape(model.domain.shape[:2])
    alone = np.outer(table.sum(axis=1), table.sum(axis=0))
    found = table * (1 + misfit.excess[0, 1])
    assert np.abs(found - alone).sum() < 0.5 * np.abs(table - alone).sum()
    assert (0, 2) not in misfit.excess


@pytest.mark.parametrize("where", ["a == 0 and b == 0", "a == 3 and b <= 1", "a >= 2 and b >= 2"])
def test_intervals_hold_what_two_causes_of_one_effect_have_together(two_causes, where: str) -> None:
    table, release = two_causes
    answer = release.answer(sd.count(where)).iloc[0]
    half = (answer["upper"] - answer["lower"]) / 2
    # one release in twenty lies outside its interval by right; none lies twice as far
    assert abs(answer["estimate"] - len(table.query(where))) <= 2 * half < 0.5 * len(table)
