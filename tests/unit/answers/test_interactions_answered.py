"""Answers from interactions that were measured alone: unbiased, with the error bars that their noise has."""

import itertools

import numpy as np
import pandas as pd
import pytest

import synthdp as sd
from synthdp import AdaptiveMarginals, ApproxDP, Boolean, Curator, Schema, marginal
from synthdp.answers.direct import GLSEstimates
from synthdp.queries.interactions import Interactions
from synthdp.release import load, save

SCHEMA = Schema({f"b{j}": Boolean() for j in range(5)})
ROWS, RELEASES = 3000, 40


def table() -> pd.DataFrame:
    rng = np.random.default_rng(9)
    first = rng.random(ROWS) < 0.4
    return pd.DataFrame({name: np.where(rng.random(ROWS) < 0.6, first, rng.random(ROWS) < 0.3) for name in SCHEMA})


TABLE = table()


def released():
    return AdaptiveMarginals().release(Curator(TABLE, schema=SCHEMA, budget=ApproxDP(1.0, 1e-9)), random_state=0)


@pytest.fixture(scope="module")
def release():
    return released()


@pytest.fixture(scope="module")
def releases(release):
    return [release, *(released() for _ in range(RELEASES - 1))]


def exact(clique):
    codes = TABLE.to_numpy(np.int64)[:, clique]
    counts = np.bincount(codes @ (1 << np.arange(len(clique))[::-1]), minlength=2 ** len(clique))
    return counts.astype(float)


@pytest.mark.slow
@pytest.mark.parametrize("clique", [(0,), (1, 3), (0, 2, 4)])
def test_error_bars_of_tables_are_those_of_repeated_releases(releases, clique):
    """The mean of 40 x cells squared z-scores, dependent within a release: within .55 and 1.6, p below 1e-4."""
    squares = []
    for release in releases:
        if release.model.domain.shape != (2,) * 5:
            continue  # noise passed for rows that do not fit a column, as it may in one release of fifty
        direct = GLSEstimates(release.model, release.measurements)
        assert direct.has(clique)
        found = direct.linear(clique, np.eye(2 ** len(clique)))
        squares.append(np.mean(((found.estimate - exact(clique)) / found.stddev) ** 2))
    assert len(squares) > RELEASES - 8
    assert 0.55 < np.mean(squares) < 1.6


@pytest.mark.slow
def test_larger_tables_are_answered_by_the_model(releases):
    direct = GLSEstimates(releases[0].model, releases[0].measurements)
    assert not direct.has((0, 1, 2, 3))
    answers = releases[0].answer(marginal("b0", "b1", "b2", "b3"))
    assert (answers["standard_error"] > 0).all()


def test_several_tables_can_be_drawn_that_differ_as_the_noise_allows(release):
    for table in release.samples(2, random_state=0):
        assert set(table) == set(SCHEMA)


def test_a_saved_release_keeps_its_interactions(release, tmp_path):
    save(release, tmp_path / "a.release")
    again = load(tmp_path / "a.release")
    (before,) = [m for m in release.measurements if isinstance(m.queries, Interactions)]
    (after,) = [m for m in again.measurements if isinstance(m.queries, Interactions)]
    assert after.queries.cliques == before.queries.cliques
    assert after.queries.weights == before.queries.weights
    assert (after.answers == before.answers).all()
    for clique in itertools.combinations(range(5), 2):
        tables = [GLSEstimates(r.model, r.measurements).linear(clique, np.eye(4)).estimate for r in (release, again)]
        assert tables[0] == pytest.approx(tables[1])


SKEWED = sd.Schema({"a": sd.Integer(0, 39), "b": sd.Integer(0, 20), "k": sd.Categorical(list("uvwx"))})
ASKED = ("a >= 5 and b < 4", "a < 3 and b >= 2", "a >= 9 and b >= 9", "a == 0 and b == 0")
"""Of the two columns whose relation is measured: of the third, which tells nothing of them, no table is."""


def skewed_table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    a = np.minimum(rng.geometric(0.15, 6000) - 1, 39)
    b = np.minimum(a // 3 + rng.integers(0, 5, 6000), 20)
    return pd.DataFrame({"a": a, "b": b, "k": rng.choice(list("uvwx"), 6000, p=[0.7, 0.2, 0.07, 0.03])})


def skewed_release() -> sd.Release:
    return sd.SyntheticRelease(schema=SKEWED, epsilon=5.0, mechanism=AdaptiveMarginals()).fit(skewed_table()).release_


def test_the_table_of_an_interaction_alone_has_the_margins_of_the_histograms():
    release = skewed_release()
    known = GLSEstimates(release.output, release.measurements)
    assert not known.tables
    sizes = [len(kept) for kept in known.kept[:2]]
    rows = np.kron(np.eye(sizes[0]), np.ones(sizes[1]))  # of each cell of the first column
    cell, leaves = release.output.refinements[0].coarse_cell, known.leaves(0)
    counts = np.bincount(cell, weights=leaves.counts)
    found = known.linear((0, 1), rows)
    assert found.estimate == pytest.approx(counts + (known.total[0] - counts.sum()) / len(counts))
    inside = np.eye(sizes[0])[:, cell]
    assert found.stddev**2 == pytest.approx(
        leaves.variances(inside - inside.mean(axis=0)) + (known.total[1] / sizes[0]) ** 2
    )


@pytest.mark.slow
def test_answers_by_interactions_alone_and_histograms_are_as_far_off_as_they_say():
    """Of 120 squared errors a mean is off by 13 % of its expectation: it leaves these bounds once in a million times."""
    table, errors, variances = skewed_table(), [], []
    for _ in range(120):
        release = skewed_release()
        found = [release.answer(sd.count(asked)).iloc[0] for asked in ASKED]
        assert {one["basis"] for one in found} == {"measured"}
        errors.append([one["estimate"] - len(table.query(asked)) for one, asked in zip(found, ASKED, strict=True)])
        variances.append([one["standard_error"] ** 2 for one in found])
    ratio = np.mean(np.square(errors), axis=0) / np.mean(variances, axis=0)
    assert ((ratio > 0.45) & (ratio < 1.8)).all()
