import numpy as np
import pytest
from hypothesis import given, strategies as st

from synthdp.distribution.distribution import draw_within_groups, systematic_counts


@st.composite
def grouped(draw):
    g, k = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    weights = rng.random((g, k)) ** 4 * (rng.random((g, k)) < 0.7)
    weights[np.arange(g), rng.integers(0, k, g)] += 0.01
    return weights, draw(st.lists(st.integers(0, 10**7), min_size=g, max_size=g)), rng


@given(grouped())
def test_counts_sum_to_the_totals_and_differ_from_expectation_by_less_than_one(case):
    weights, totals, rng = case
    counts = systematic_counts(weights, np.array(totals), rng)
    expected = np.array(totals)[:, None] * weights / weights.sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(counts.sum(axis=1), totals)
    assert np.abs(counts - expected).max() < 1 + 1e-6
    assert np.abs(np.cumsum(counts, axis=1) - np.cumsum(expected, axis=1)).max() < 1 + 1e-6
    assert (counts[weights == 0] == 0).all()


@given(grouped())
def test_rows_get_cells_of_their_own_group_with_systematic_counts(case):
    weights, _, rng = case
    group = rng.integers(0, len(weights), 300).astype(np.uint16)
    cells = draw_within_groups(weights, group, rng)
    counts = np.zeros(weights.shape)
    np.add.at(counts, (group, cells), 1)
    expected = counts.sum(axis=1, keepdims=True) * weights / weights.sum(axis=1, keepdims=True)
    assert np.abs(counts - expected).max() < 1 + 1e-6


@pytest.mark.parametrize("groups", [1, 3])
def test_the_assignment_within_a_group_is_uniformly_random(groups):
    rng = np.random.default_rng(0)
    group = np.arange(12) % groups
    firsts = np.array([draw_within_groups(np.ones((groups, 2)), group, rng) for _ in range(4000)]).mean(axis=0)
    assert np.abs(firsts - 0.5).max() < 6.2 * 0.5 / np.sqrt(4000)


def test_the_counts_are_unbiased():
    rng = np.random.default_rng(1)
    weights = np.array([[0.1, 0.25, 0.65]])
    counts = np.array([systematic_counts(weights, np.array([3]), rng)[0] for _ in range(4000)])
    error = np.abs(counts.mean(axis=0) - 3 * weights[0])
    assert error.max() < 6.2 * 0.5 / np.sqrt(4000)


def test_no_rows_draw_no_cells():
    drawn = draw_within_groups(np.ones((2, 3)), np.empty(0, np.uint8), np.random.default_rng(0))
    assert drawn.shape == (0,)


def test_cells_come_in_the_smallest_type():
    rng = np.random.default_rng(0)
    assert draw_within_groups(np.ones((1, 256)), np.zeros(9, np.uint8), rng).dtype == np.uint8
    assert draw_within_groups(np.ones((1, 257)), np.zeros(9, np.uint8), rng).dtype == np.uint16
