"""Answers from interactions that were measured alone: unbiased, with the error bars that their noise has."""

import itertools

import numpy as np
import pandas as pd
import pytest

from synthdp import AdaptiveMarginals, ApproxDP, Boolean, Curator, Schema, marginal
from synthdp.answers.direct import Direct
from synthdp.queries.interactions import Interactions
from synthdp.storage import load, save

SCHEMA = Schema({f"b{j}": Boolean() for j in range(5)})
ROWS, RELEASES = 3000, 40
RNG = np.random.default_rng(9)
FIRST = RNG.random(ROWS) < 0.4
TABLE = pd.DataFrame({name: np.where(RNG.random(ROWS) < 0.6, FIRST, RNG.random(ROWS) < 0.3) for name in SCHEMA})


def released():
    return AdaptiveMarginals().release(Curator(TABLE, schema=SCHEMA, budget=ApproxDP(1.0, 1e-9)), random_state=0)


@pytest.fixture(scope="module")
def releases():
    return [released() for _ in range(RELEASES)]


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
        direct = Direct(release.model, release.measurements)
        assert direct.has(clique)
        found = direct.linear(clique, np.eye(2 ** len(clique)))
        squares.append(np.mean(((found.estimate - exact(clique)) / found.stddev) ** 2))
    assert 0.55 < np.mean(squares) < 1.6


@pytest.mark.slow
def test_larger_tables_are_answered_by_the_model(releases):
    direct = Direct(releases[0].model, releases[0].measurements)
    assert not direct.has((0, 1, 2, 3))
    answers = releases[0].answer(marginal("b0", "b1", "b2", "b3"))
    assert (answers["standard_error"] > 0).all()


def test_several_tables_can_be_drawn_that_differ_as_the_noise_allows(releases):
    for table in releases[0].samples(2, random_state=0):
        assert set(table) == set(SCHEMA)


def test_a_saved_release_keeps_its_interactions(releases, tmp_path):
    save(releases[0], tmp_path / "a.release")
    again = load(tmp_path / "a.release")
    (before,) = [m for m in releases[0].measurements if isinstance(m.queries, Interactions)]
    (after,) = [m for m in again.measurements if isinstance(m.queries, Interactions)]
    assert after.queries.cliques == before.queries.cliques
    assert after.queries.weights == before.queries.weights
    assert (after.answers == before.answers).all()
    for clique in itertools.combinations(range(5), 2):
        tables = [Direct(r.model, r.measurements).linear(clique, np.eye(4)).estimate for r in (releases[0], again)]
        assert tables[0] == pytest.approx(tables[1])
