"""How far public counts are trusted: laws of the empirical Bayes weights."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from synthdp.fit.public_shrinkage import bias, combined, dispersion, share_kept, shrunk_to, smoothed_ratio

COUNTS = st.lists(st.integers(0, 10_000), min_size=2, max_size=20)


@given(COUNTS, st.floats(0.1, 100), st.floats(0.5, 500), st.integers(0, 99))
def test_combined_counts_lie_between_the_noisy_and_the_public_ones(
    public: list[int], ratio: float, stddev: float, seed: int
) -> None:
    expected = np.array(public, np.float64)
    counts = expected + np.random.default_rng(seed).normal(0, stddev, len(public))
    found, error = combined(counts, expected, stddev, ratio=ratio)
    low, high = np.minimum(counts, expected), np.maximum(counts, expected)
    assert (found >= low - 1e-9 * (1 + high)).all()
    assert (found <= high + 1e-9 * (1 + np.abs(high))).all()
    assert 0 < error <= stddev


def test_a_public_table_of_the_same_source_is_not_found_to_differ() -> None:
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(30))
    biases = []
    for _ in range(200):
        private, public = rng.multinomial(20_000, shares), rng.multinomial(2_000, shares) * 10.0
        biases.append(bias(private + rng.normal(0, 30, 30), public, 30.0, ratio=11.0))
    assert np.mean(np.array(biases) > 0) < 0.05


def test_a_public_table_of_another_source_gives_way_to_precise_answers() -> None:
    private, public = np.array([0.0, 0.0, 5_000.0, 5_000.0]), np.array([5_000.0, 5_000.0, 0.0, 0.0])
    found, error = combined(private, public, 5.0, ratio=10.0)
    assert np.abs(found - private).max() < 1
    assert error == pytest.approx(5.0, rel=1e-3)


def test_noise_without_bound_leaves_the_public_counts() -> None:
    public = np.array([10.0, 200.0, 790.0])
    found, _ = combined(public + np.array([3e5, -2e5, 1e5]), public, 1e6, ratio=10.0)
    assert np.abs(found - public).max() < 0.01


@given(COUNTS, st.floats(0.5, 100), st.floats(0.1, 50))
def test_the_dispersion_is_at_least_that_of_the_sample(public: list[int], stddev: float, ratio: float) -> None:
    expected = np.array(public, np.float64)
    assert dispersion(expected[::-1], expected, stddev, ratio=ratio) >= ratio


@given(COUNTS, COUNTS)
def test_shrinking_keeps_a_part_between_none_and_all(counts: list[int], expected: list[int]) -> None:
    size = min(len(counts), len(expected))
    y, m = np.array(counts[:size], np.float64), np.array(expected[:size], np.float64)
    part = share_kept(y, m)
    assert 0 <= part <= 1
    np.testing.assert_allclose(shrunk_to(y, m), m + part * (y - m))


def test_chance_alone_is_shrunk_away_and_a_relation_is_kept() -> None:
    rng = np.random.default_rng(1)
    expected = np.full(100, 10.0)
    assert share_kept(rng.poisson(expected).astype(float), expected) < 0.35
    assert share_kept(np.diag(np.full(10, 100.0)).ravel(), expected) > 0.9


def tables_of(ratio: float, *, stddev: float, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray, float, int]]:
    """Thirty noisy tables of 6 x 8 cells whose private counts are off by the ratio, and have the expected margins."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(30):
        expected = 20_000 * np.outer(rng.dirichlet(np.ones(6) * 9), rng.dirichlet(np.ones(8) * 9))
        off = np.sqrt(ratio * expected) * rng.standard_normal((6, 8)) + rng.normal(0, stddev, (6, 8))
        off = off - off.mean(0) - off.mean(1)[:, None] + off.mean()
        found.append(((expected + off).ravel(), expected.ravel(), stddev, 5 * 7))
    return found


@pytest.mark.parametrize("ratio", [1.0, 4.0, 9.0])
def test_all_tables_together_tell_how_far_smoothed_public_rows_are_off(ratio: float) -> None:
    assert smoothed_ratio(tables_of(ratio, stddev=20.0), ratio=10.0) == pytest.approx(ratio, rel=0.15)


def test_it_is_never_above_what_rows_that_are_not_smoothed_have_and_never_none() -> None:
    assert 9 < smoothed_ratio(tables_of(50.0, stddev=20.0), ratio=10.0) <= 10
    assert 3 < smoothed_ratio(tables_of(4.0, stddev=5000.0), ratio=10.0) < 7  # noise tells nothing: anywhere in between
    assert 0 < smoothed_ratio(tables_of(0.0, stddev=20.0), ratio=10.0) < 0.5
    assert smoothed_ratio([], ratio=10.0) == 10
