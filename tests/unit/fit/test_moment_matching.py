"""Moment matching meets exact means, ignores what is only noise, and never leaves a weight without bound."""

import numpy as np
import pytest

from synthdp.domain.axis import Axis
from synthdp.domain.domain import Domain
from synthdp.fit.max_entropy import MaxEntropy
from synthdp.fit.moment_matching import LONGEST, MomentMatching, NoisyProducts
from synthdp.fit.raking import Particles
from synthdp.queries.contingency import NoisyTable
from synthdp.queries.products import ClippedProducts, PairProducts
from synthdp.schema.columns import Categorical

LEVELS = Categorical(["a", "b", "c"])
DOMAIN = Domain(tuple(Axis(f"c{j}", LEVELS, np.arange(3), np.arange(3)) for j in range(3)))
SCORES = tuple(np.array([-64, 0, 64]) for _ in range(3))
QUERIES = ClippedProducts(DOMAIN, SCORES, 64, 10**6)
ROWS = np.random.default_rng(0).integers(0, 3, (20_000, 3)).astype(np.uint8)
FLAT = np.ones(len(ROWS))
CLIQUES = [(0,), (1,), (2,)]


def noisy(means, stddev):
    return NoisyProducts(queries=QUERIES, columns=(0, 1, 2), means=np.asarray(means), stddev=stddev)


def tilted(matching, steps=12):
    """The weights after some steps."""
    weights, coefficients = FLAT, matching.start
    for _ in range(steps):
        factor, coefficients = matching.step(weights, coefficients)
        weights = weights * factor
    return weights


def test_exact_means_are_met():
    matching = MomentMatching.of([noisy([0.2, -0.15, 0.05], 1e-5)], ROWS, FLAT)
    weights = tilted(matching)
    np.testing.assert_allclose(matching.means(weights), [0.2, -0.15, 0.05], atol=1e-3)
    exact = QUERIES.features(ROWS) / QUERIES.denominator
    np.testing.assert_allclose(matching.means(weights), weights @ exact / weights.sum(), atol=1e-4)


def test_means_within_their_noise_move_nothing():
    assert MomentMatching.of([noisy([0.02, -0.01, 0.03], 0.05)], ROWS, FLAT) is None


def alone(mean, stddev):
    """A question about the product of the first two columns."""
    queries = PairProducts(DOMAIN, SCORES, ((0, 1),), 64, 64**2)
    return NoisyProducts(queries=queries, columns=(0, 1, 2), means=np.array([mean]), stddev=stddev)


def test_few_products_are_heard_as_all_are():
    """Where nothing is clipped, both are the same numbers."""
    means = [0.2, -0.15, 0.05]
    few = PairProducts(DOMAIN, SCORES, ((0, 1), (0, 2), (1, 2)), 64, 10**6)
    one, other = (
        MomentMatching.of([NoisyProducts(queries=q, columns=(0, 1, 2), means=np.array(means), stddev=0.01)], ROWS, FLAT)
        for q in (QUERIES, few)
    )
    np.testing.assert_allclose(one.means(FLAT), other.means(FLAT), atol=1e-5)
    np.testing.assert_allclose(tilted(one), tilted(other), rtol=1e-3)


def test_a_second_question_that_has_less_noise_decides():
    first = noisy([0.1, 0.0, 0.0], 0.05)
    both = MomentMatching.of([first, alone(0.3, 1e-4)], ROWS, FLAT)
    assert both.means(tilted(both, steps=20))[-1] == pytest.approx(0.3, abs=5e-3)
    assert both.means(tilted(both, steps=20))[0] == pytest.approx(0.3, abs=0.01)


def test_a_question_whose_means_are_within_their_noise_is_left_out():
    both = MomentMatching.of([noisy([0.02, -0.01, 0.03], 0.05), alone(0.3, 1e-4)], ROWS, FLAT)
    assert both.target.tolist() == [0.3]


def test_a_column_of_one_level_leaves_the_other_products_as_they_are():
    one_level = ROWS.copy()
    one_level[:, 2] = 1  # of score 0: both of its products are 0 in every row
    matching = MomentMatching.of([noisy([0.2, -0.15, 0.05], 1e-2)], one_level, FLAT)
    assert matching.means(tilted(matching)) == pytest.approx([0.2, 0.0, 0.0], abs=1e-2)


def test_noisy_means_are_approached_part_of_the_way():
    matching = MomentMatching.of([noisy([0.2, 0.2, 0.2], 0.12)], ROWS, FLAT)
    assert (np.abs(matching.means(tilted(matching)) - 0.1) < 0.06).all()


def test_no_step_is_longer_than_allowed():
    matching = MomentMatching.of([noisy([0.9, 0.9, -0.9], 1e-3)], ROWS, FLAT)
    assert np.abs(np.log(tilted(matching, steps=1))).max() <= LONGEST * (1 + 1e-9)


def test_a_step_changes_nothing_but_what_it_returns():
    matching = MomentMatching.of([noisy([0.2, -0.15, 0.05], 1e-5)], ROWS, FLAT)
    first, again = matching.step(FLAT, matching.start), matching.step(FLAT, matching.start)
    np.testing.assert_array_equal(first.factor, again.factor)
    np.testing.assert_array_equal(first.coefficients, again.coefficients)


@pytest.mark.parametrize("means", [[0.2, -0.15, 0.05], [-0.3, 0.1, 0.0]])
def test_particles_keep_their_tables_and_meet_the_products(means):
    tables = [NoisyTable(clique=c, counts=np.array([3000.0, 5000.0, 2000.0]), stddev=1.0) for c in CLIQUES]
    model = MaxEntropy().fit(tables, (3, 3, 3), total=10_000.0).model
    fitted = Particles(size=50_000, sweeps=12).fit(
        model, tables, total=10_000.0, rng=np.random.default_rng(1), products=[noisy(means, 1e-4)]
    )
    for clique in CLIQUES:
        np.testing.assert_allclose(fitted.marginal(clique), [0.3, 0.5, 0.2], atol=1e-3)
    np.testing.assert_allclose(fitted.weights @ QUERIES.features(fitted.codes) / QUERIES.denominator, means, atol=5e-3)
