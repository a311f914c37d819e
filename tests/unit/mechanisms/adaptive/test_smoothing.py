"""Estimated histograms are nearer to the truth than counts projected on the simplex, and are the counts without noise."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from synthdp.fit.smoothing import MOST_ODDS, NEAR, NoisyHistogram, _roots, estimated, separate_and_heaped_bins, smoothed
from synthdp.queries.contingency import project_to_simplex

CELLS = np.arange(32)
HUMP = 300 * np.exp(-0.5 * ((CELLS - 12) / 6) ** 2)
SPIKE = np.where(CELLS == 0, 9000.0, 40.0)
FEW_LEVELS = np.concatenate([[5000.0, 1500.0, 400.0, 90.0], np.zeros(36)])
MANY_LEVELS = np.linspace(800, 1200, 12)
SHARES_OF_NOISE = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


def few_values(rng):
    """Values a few bins apart, and nothing between."""
    step = rng.integers(3, 9)
    shares = np.zeros(32)
    shares[rng.integers(0, step) :: step] = 1
    return np.where(shares > 0, rng.gamma(1.5, size=32), 0), 32


def of_one_size(rng):
    """Values a few bins apart that are about as frequent as each other: the years of a survey."""
    return np.where(CELLS % rng.integers(2, 5) == 0, rng.uniform(0.8, 1.2, 32), 0), 32


def smooth(rng):
    x = (CELLS + 0.5) / 32
    return x ** rng.uniform(0, 4) * (1 - x) ** rng.uniform(0, 4), 32


def skewed(rng):
    """An amount that most do not have, and some have much of."""
    return rng.uniform(0.1, 0.7) ** CELLS + 0.002 * rng.random(32), 32


def heaped(rng):
    """A smooth law, and round numbers above it."""
    return smooth(rng)[0] * np.where(CELLS % 5 == 0, rng.uniform(2, 12), 1), 32


def nominal(rng):
    return rng.dirichlet(np.full(rng.integers(4, 40), rng.uniform(0.1, 1.5))), 0


def missing_values(rng):
    """A smooth law of 16 values, and missing ones, which are no neighbour of the last."""
    x = (np.arange(16) + 0.5) / 16
    return np.append(x * (1 - x) ** rng.uniform(0, 3), rng.uniform(0, 4)), 16


FAMILIES = (few_values, of_one_size, smooth, skewed, heaped, nominal, missing_values)


def ratios(family, *, tables, draws, seed):
    """Return the mean distance of the estimates, as a multiple of that of projected counts, for each noise."""
    rng = np.random.default_rng(seed)
    rows, found = 5000.0, []
    for share in SHARES_OF_NOISE:
        errors = np.zeros(2)
        for _ in range(tables):
            shape, neighbours = family(rng)
            truth = shape * rows / shape.sum()
            for _ in range(draws):
                noisy = truth + rng.normal(0, share * rows, len(truth))
                guess = estimated(noisy, share * rows, total=rows, neighbours=neighbours)
                errors += [np.abs(one - truth).sum() for one in (guess, project_to_simplex(noisy, rows))]
        found.append(errors[0] / errors[1])
    return np.array(found)


@pytest.mark.landing
@pytest.mark.sampled
@pytest.mark.parametrize("family", FAMILIES)
def test_an_estimate_is_no_farther_from_the_table_than_projected_counts(family):
    assert ratios(family, tables=5, draws=2, seed=1).mean() < 1.0


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_at_no_noise_and_in_no_family_the_estimate_is_clearly_farther_than_projected_counts(family):
    """The worst is 1.05: few values, each of which holds one to three stddevs of the noise."""
    assert ratios(family, tables=40, draws=3, seed=2).max() < 1.08


def absolute_errors(estimate, truth, stddev):
    errors = []
    for seed in range(30):
        noisy = truth + np.random.default_rng(seed).normal(0, stddev, len(truth))
        errors.append([np.abs(noisy - truth).sum(), np.abs(estimate(noisy, stddev) - truth).sum()])
    return np.mean(errors, axis=0)


def of_neighbours(counts, stddev):
    return smoothed(counts, stddev).rows


def separate_bins(counts, stddev, total):
    return separate_and_heaped_bins([NoisyHistogram(counts, stddev, total)])[0][0].rows


def of_levels(truth):
    return lambda counts, stddev: separate_bins(counts, stddev, truth.sum())


@pytest.mark.parametrize(
    ("estimate", "truth", "factor"),
    [(of_neighbours, HUMP, 0.65), (of_neighbours, SPIKE, 0.6), (of_levels(FEW_LEVELS), FEW_LEVELS, 0.2)],
)
def test_the_estimate_is_much_nearer_to_the_truth(estimate, truth, factor):
    plain, better = absolute_errors(estimate, truth, 60.0)
    assert better < factor * plain


def test_filled_bins_of_one_size_are_told_from_empty_ones():
    """Under exponential laws alone the estimate is 1.2 times as far as projected counts."""
    truth = np.zeros(44)
    truth[np.random.default_rng(7).permutation(44)[:22]] = 450.0
    errors = np.zeros(2)
    for seed in range(20):
        noisy = truth + np.random.default_rng(seed).normal(0, 100, 44)
        guess = estimated(noisy, 100.0, total=truth.sum(), neighbours=44)
        errors += [np.abs(one - truth).sum() for one in (guess, project_to_simplex(noisy, truth.sum()))]
    assert errors[0] < 0.8 * errors[1]


@pytest.mark.parametrize(
    ("estimate", "truth"),
    [(of_levels(MANY_LEVELS), MANY_LEVELS), (of_neighbours, np.tile([900.0, 100.0], 16))],
)
def test_no_harm_where_there_is_nothing_to_gain(estimate, truth):
    plain, better = absolute_errors(estimate, truth, 60.0)
    assert better < 1.05 * plain


@pytest.mark.parametrize("neighbours", [0, 4, 12])
@pytest.mark.parametrize("stddev", [1e-12, 1e-3])
def test_counts_with_hardly_any_noise_stay_as_they_are(neighbours, stddev):
    truth = 10 * MANY_LEVELS
    np.testing.assert_allclose(
        estimated(truth, stddev, total=truth.sum(), neighbours=neighbours), truth, atol=max(0.02, stddev)
    )


@pytest.mark.sampled("landing")
@pytest.mark.parametrize("cells", [1, 2, 3, 4, 5, 31, 33, 300])
@pytest.mark.parametrize("total", [1.0, 1e6])
def test_any_counts_have_estimates_with_the_right_sum(cells, total):
    for counts in (np.zeros(cells), np.full(cells, -500.0), np.arange(cells) * 1e6, -np.arange(cells) * 1e3):
        for neighbours in {0, min(cells, 33) // 2, min(cells, 33)}:
            found = estimated(counts, 20.0, total=total, neighbours=neighbours)
            assert found.shape == (cells,)
            assert (found >= 0).all()
            assert found.sum() == pytest.approx(total)


def test_many_levels_are_estimated_as_few_are():
    """More than 256 bins share posteriors; that changes little."""
    rng = np.random.default_rng(4)
    truth = np.concatenate([rng.exponential(200, 250), np.zeros(3000)])
    noisy = truth + rng.normal(0, 30, len(truth))
    found = separate_bins(noisy, 30.0, truth.sum())
    assert np.abs(found - truth).sum() < 0.6 * np.abs(project_to_simplex(noisy, truth.sum()) - truth).sum()
    assert len(np.unique(np.round(found[:250], 6))) > 150


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 40) | st.integers(257, 600), min_size=1, max_size=7),
    stddev=st.sampled_from([1e-3, 1.0, 40.0, 1e4]),
    seed=st.integers(0, 2**32 - 1),
)
def test_histograms_are_estimated_together_as_each_is_alone(sizes, stddev, seed):
    rng = np.random.default_rng(seed)
    truth = [rng.exponential(rng.choice([3.0, 300.0]), size) * (rng.random(size) < 0.6) for size in sizes]
    noisy = [NoisyHistogram(one + rng.normal(0, stddev, len(one)), stddev, max(float(one.sum()), 1.0)) for one in truth]
    for one, together in zip(noisy, separate_and_heaped_bins(noisy), strict=True):
        for alone, found in zip(separate_and_heaped_bins([one])[0], together, strict=True):
            np.testing.assert_allclose(found.rows, alone.rows, rtol=1e-7, atol=1e-7 * one.total)
            np.testing.assert_allclose(found.evidence, alone.evidence, rtol=1e-9, atol=1e-9)


def test_finer_points_of_the_posteriors_move_no_estimate_by_a_tenth_of_the_noise(monkeypatch):
    rng = np.random.default_rng(3)
    truths = [rng.exponential(200, 40), np.exp(-np.arange(60) / 5) * 1e4, np.repeat([0.0, 300.0], 25)]
    histograms = [
        NoisyHistogram(truth + rng.normal(0, stddev, len(truth)), stddev, float(truth.sum()))
        for truth in truths
        for stddev in (3.0, 30.0, 150.0)
    ]
    found = separate_and_heaped_bins(histograms)
    monkeypatch.setattr("synthdp.fit.smoothing.PLACES", 225)
    for histogram, ours, finer in zip(histograms, found, separate_and_heaped_bins(histograms), strict=True):
        for one, other in zip(ours, finer, strict=True):
            assert np.abs(one.rows - other.rows).max() < 0.1 * histogram.stddev


@given(
    roots=st.lists(st.floats(-30, 30), min_size=1, max_size=6),
    powers=st.lists(st.sampled_from([1, 3, 9]), min_size=6, max_size=6),
    flat=st.booleans(),
)
def test_roots_of_all_functions_are_found_at_once_or_the_nearer_end(roots, powers, flat):
    """Falling powers and steps, the oracle being the roots that they were made with."""
    at, power = np.array(roots), np.array(powers[: len(roots)])

    def function(x):
        return np.sign(at - x) * (1.0 if flat else np.abs(at - x) ** power)

    found = _roots(function, np.full(len(roots), MOST_ODDS))
    wanted = np.clip(at, -MOST_ODDS, MOST_ODDS)
    near = NEAR if flat else 1e-9  # the ninth power of what is nearer is no number
    np.testing.assert_allclose(found, wanted, atol=2 * near)
