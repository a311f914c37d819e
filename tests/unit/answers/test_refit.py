"""Fits of many drawn tables at once: those of the release's own fit, with noise of its own law."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import synthdp as sd
from synthdp.answers.refitted_points import MomentTargets, refitted
from synthdp.domain.domain import Domain, axis_of
from synthdp.fit.consistency import gls_effects, make_consistent, make_merged_consistent
from synthdp.fit.max_entropy import MaxEntropy
from synthdp.fit.moment_matching import NoisyProducts
from synthdp.queries.contingency import NoisyTable, contingency, table_size
from synthdp.queries.products import ClippedProducts
from synthdp.randomness import generator

SHAPE = (3, 4, 2)
CLIQUES = ((0,), (1,), (2,), (0, 1), (1, 2))
POINTS = np.array(list(itertools.product(*map(range, SHAPE))))
TOTAL = 2400.0
WEIGHT = TOTAL / len(POINTS)


class Silent:
    """Draws no noise."""

    def standard_normal(self, shape: tuple[int, ...] | int, dtype: type = float) -> np.ndarray:
        return np.zeros(shape, dtype)


def released(stddev: float = 10.0) -> list[NoisyTable]:
    """Noisy tables of a uniform model that show it as it is."""
    sizes = [table_size(SHAPE, clique) for clique in CLIQUES]
    return [
        NoisyTable(clique=clique, counts=np.full(size, TOTAL / size), stddev=stddev)
        for clique, size in zip(CLIQUES, sizes, strict=True)
    ]


def drawn(count: int) -> np.ndarray:
    rows = np.random.default_rng(0).gamma(2.0, size=(len(POINTS), count))
    return TOTAL * rows / rows.sum(axis=0)


def refit(tables: list[NoisyTable], rows: np.ndarray, rng: object, total_stddev: float = 0.0) -> np.ndarray:
    return refitted(tables, SHAPE, POINTS, rows, weight=WEIGHT, total_stddev=total_stddev, rng=rng)


def test_a_model_that_is_drawn_as_it_is_and_measured_without_noise_stays() -> None:
    rows = np.full((len(POINTS), 3), WEIGHT)
    assert refit(released(), rows, Silent()) == pytest.approx(rows)


def test_without_noise_a_fit_is_that_of_maximum_entropy_to_the_drawn_tables() -> None:
    rows = drawn(4)
    found = refit(released(), rows, Silent())
    for r in range(4):
        exact = [
            NoisyTable(clique=t.clique, counts=contingency(POINTS, SHAPE, t.clique, rows[:, r]), stddev=t.stddev)
            for t in released()
        ]
        wanted = MaxEntropy().fit(make_consistent(exact, SHAPE, total=TOTAL), SHAPE, total=TOTAL).model
        assert found[:, r] == pytest.approx(TOTAL * wanted.marginal((0, 1, 2)), rel=0.03)  # a refit takes few sweeps


@pytest.mark.slow
def test_its_noise_has_the_law_of_consistent_noisy_tables() -> None:
    """With little noise the fit follows the consistent tables: their covariance is the fit's."""
    count, stddev = 4000, 3.0
    fitted = refit(released(stddev), np.full((len(POINTS), count), WEIGHT), generator(0), total_stddev=5.0)
    rng = np.random.default_rng(1)
    wanted = []
    for _ in range(count):
        noisy = [
            NoisyTable(clique=t.clique, counts=t.counts + stddev * rng.standard_normal(t.counts.size), stddev=stddev)
            for t in released()
        ]
        tables = make_consistent(noisy, SHAPE, total=TOTAL + 5.0 * rng.standard_normal())
        wanted.append(next(table.counts for table in tables if table.clique == (0, 1)))
    pairs = POINTS[:, 0] * SHAPE[1] + POINTS[:, 1]
    sums = np.array([fitted[pairs == pair].sum(axis=0) for pair in range(12)])
    assert np.cov(sums) == pytest.approx(np.cov(np.transpose(wanted)), abs=0.9)
    assert fitted.sum(axis=0).std() == pytest.approx(5.0, rel=0.1)


def released_merged(stddev: float) -> NoisyTable:
    """The first and the last column, their codes merged to two groups and to one for each."""
    groups = (np.array([0, 1, 0]), np.arange(2))
    counts = TOTAL * np.array([1 / 3, 1 / 3, 1 / 6, 1 / 6])
    return NoisyTable(clique=(0, 2), counts=counts, stddev=stddev, groups=groups)


def merged_rows(weights: np.ndarray) -> np.ndarray:
    """Rows in the four cells of that table, (4, r)."""
    cells = 2 * (POINTS[:, 0] == 1) + POINTS[:, 2]
    return np.array([weights[cells == cell].sum(axis=0) for cell in range(4)])


def test_what_merged_tables_say_the_fits_to_drawn_tables_find_again() -> None:
    rows = drawn(50)
    ones = [table for table in released() if len(table.clique) == 1]
    found = [
        refitted(ones, SHAPE, POINTS, rows, weight=WEIGHT, total_stddev=0.0, rng=Silent(), merged=merged)
        for merged in ([], [released_merged(10.0)])
    ]
    off = [np.abs(merged_rows(weights) - merged_rows(rows)).max() for weights in found]
    assert off[1] < 0.25 * off[0]


@pytest.mark.slow
def test_the_noise_of_merged_tables_has_its_law() -> None:
    """Their margins have the noise of the one-ways, and their interactions their own."""
    count, stddev = 4000, 3.0
    ones = [table for table in released(stddev) if len(table.clique) == 1]
    merged = released_merged(2 * stddev)
    fitted = refitted(
        ones, SHAPE, POINTS, np.full((len(POINTS), count), WEIGHT), weight=WEIGHT, total_stddev=5.0, rng=generator(0),
        merged=[merged],
    )  # fmt: skip
    rng = np.random.default_rng(1)
    wanted = []
    for _ in range(count):
        noisy = [replace(t, counts=t.counts + t.stddev * rng.standard_normal(t.counts.size)) for t in (*ones, merged)]
        pooled = gls_effects(noisy[:-1], SHAPE, total=TOTAL + 5.0 * rng.standard_normal())
        wanted.append(make_merged_consistent(noisy[-1:], pooled)[0].counts)
    assert np.cov(merged_rows(fitted)) == pytest.approx(np.cov(np.transpose(wanted)), abs=1.2)


def released_alone(stddev: float) -> NoisyTable:
    """All three columns, some of their codes merged, of which only the interaction is known: that of a uniform model."""
    groups = (np.array([0, 1, 0]), np.array([0, 0, 1, 1]), np.arange(2))
    return NoisyTable(clique=(0, 1, 2), counts=np.zeros(8), stddev=stddev, groups=groups, alone=True)


def interaction_alone(weights: np.ndarray) -> np.ndarray:
    """The interaction of the cells of that table, (8, r)."""
    cells = 4 * (POINTS[:, 0] == 1) + 2 * (POINTS[:, 1] >= 2) + POINTS[:, 2]
    found = np.array([weights[cells == cell].sum(axis=0) for cell in range(8)]).reshape(2, 2, 2, -1)
    for axis in range(3):
        found = found - found.mean(axis=axis, keepdims=True)
    return found.reshape(8, -1)


def test_interactions_that_are_known_alone_the_fits_to_drawn_tables_find_again() -> None:
    rows = drawn(50)
    found = [
        refitted(released(), SHAPE, POINTS, rows, weight=WEIGHT, total_stddev=0.0, rng=Silent(), merged=merged)
        for merged in ([], [released_alone(1.0)])
    ]
    off = [np.abs(interaction_alone(weights) - interaction_alone(rows)).max() for weights in found]
    assert off[1] < 0.1 * off[0]


@pytest.mark.slow
def test_the_noise_of_interactions_that_are_known_alone_has_its_law() -> None:
    count, stddev = 4000, 3.0
    fitted = refitted(
        released(stddev), SHAPE, POINTS, np.full((len(POINTS), count), WEIGHT), weight=WEIGHT, total_stddev=5.0,
        rng=generator(0), merged=[released_alone(2 * stddev)],
    )  # fmt: skip
    assert interaction_alone(fitted).std(axis=1) == pytest.approx(np.full(8, 2 * stddev * np.sqrt(1 / 8)), rel=0.1)


def products(stddev: float, gap: float) -> NoisyProducts:
    """Noisy products of the first and the last column, of which a release left so large a gap."""
    domain = Domain(tuple(axis_of(name, sd.Integer(0, SHAPE[j] - 1)) for name, j in (("a", 0), ("c", 2))))
    queries = ClippedProducts(domain, (np.array([-64, 0, 64, 0]), np.array([-64, 64, 0])), 64, 64**2)  # and misfits
    return NoisyProducts(queries=queries, columns=(0, 2), means=np.array([gap]), stddev=stddev)


def mean_product(weights: np.ndarray) -> np.ndarray:
    return (POINTS[:, 0] - 1) * (2 * POINTS[:, 2] - 1) @ weights / weights.sum(axis=0)


def test_products_that_the_release_was_fitted_to_the_fits_to_drawn_tables_find_again() -> None:
    rows = drawn(50)
    wanted = mean_product(rows)
    blind = refit(released(), rows, Silent())
    noisy = products(0.1, 0.0)
    found = refitted(
        released(), SHAPE, POINTS, rows, weight=WEIGHT, total_stddev=0.0, rng=Silent(),
        products=MomentTargets.of([noisy], POINTS, rows, Silent()),
    )  # fmt: skip
    assert np.abs(mean_product(blind)).max() < 0.3 * np.abs(wanted).max()
    assert mean_product(found) == pytest.approx(wanted, abs=0.15 * np.abs(wanted).max())


def test_products_that_noise_explains_the_fits_leave_alone() -> None:
    """A release whose gap is that of noise was not tilted."""
    assert MomentTargets.of([products(0.1, 0.1)], POINTS, drawn(2), Silent()) is None
    assert MomentTargets.of([products(0.1, 0.0999)], POINTS, drawn(2), Silent()).ridge.min() > 100


def test_of_two_questions_the_one_that_noise_explains_is_left_out() -> None:
    both = MomentTargets.of([products(0.1, 0.2), products(0.1, 0.03)], POINTS, drawn(2), Silent())
    alone = MomentTargets.of([products(0.1, 0.03)], POINTS, drawn(2), Silent())
    assert both.products.shape[1] == 1
    np.testing.assert_array_equal(both.ridge, alone.ridge)


@pytest.mark.landing
def test_fits_to_products_have_their_noise() -> None:
    rows = np.full((len(POINTS), 4000), WEIGHT)
    matched = MomentTargets.of([products(0.03, 0.0)], POINTS, rows, generator(0))
    found = refitted(released(), SHAPE, POINTS, rows, weight=WEIGHT, total_stddev=0.0, rng=Silent(), products=matched)
    assert mean_product(found).std() == pytest.approx(0.03, rel=0.15)


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("stddev", [1e1, 1e2, 1e3, 1e5, 1e7])
@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[pytest.mark.slow] * (seed > 3)) for seed in range(20)])
def test_under_noise_of_any_size_the_weights_of_one_row_are_rows(stddev: float, seed: int) -> None:
    """Noise may leave no rows in any cell that has a point, and more in one than there are."""
    rng = np.random.default_rng(seed)
    tables = [
        NoisyTable(clique=clique, counts=stddev * rng.standard_normal(table_size(SHAPE, clique)), stddev=stddev)
        for clique in CLIQUES
    ]
    points = POINTS[rng.integers(len(POINTS), size=1 + seed % 3)]
    rows = np.full((len(points), 200), 1 / len(points))
    found = refitted(tables, SHAPE, points, rows, weight=1 / len(points), total_stddev=stddev, rng=generator(seed))
    assert np.all(np.isfinite(found))
    assert np.all(found >= 0)
    assert np.all(found.sum(axis=0) > 0.9)
