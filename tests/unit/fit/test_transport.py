"""Tables of given sums: the nearest by brute force, and whole numbers that have the sums."""

import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st

from synthdp.fit.top_down import controlled_rounding, nearest_tables


@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(2, 5), st.integers(2, 5))
def test_whole_numbers_have_the_sums_and_are_next_to_the_table(seed: int, parents: int, children: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    whole = rng.integers(0, 6, (parents, children, k))
    noisy = whole + rng.normal(0, 2, whole.shape)
    rows, cells, possible = whole.sum(2), whole.sum(1), np.ones(whole.shape, np.bool_)
    near = nearest_tables(noisy, np.ones(whole.shape), rows * 1.0, cells * 1.0, possible)
    found = controlled_rounding(near, rows, cells)
    assert found is not None
    np.testing.assert_array_equal(found.sum(2), rows)
    np.testing.assert_array_equal(found.sum(1), cells)
    assert (found >= 0).all()
    assert np.abs(found - near).max() < 1 + 1e-4


def test_the_nearest_table_is_as_near_as_any_of_a_fine_grid() -> None:
    target, variance = np.array([[[3.2, -1.0], [0.4, 2.9]]]), np.array([[[1.0, 2.0], [0.5, 1.5]]])
    rows, cells = np.array([[2.0, 3.0]]), np.array([[3.0, 2.0]])
    found = nearest_tables(target, variance, rows, cells, np.ones(target.shape, np.bool_))

    def loss(x: np.ndarray) -> float:
        return float(((x - target[0]) ** 2 / variance[0]).sum())

    first = np.linspace(0, 2, 20_001)  # one free number: the rest follows from the sums
    best = min(loss(np.array([[a, 2 - a], [3 - a, a]])) for a in first)
    assert loss(found[0]) == pytest.approx(best, rel=1e-5)
    np.testing.assert_allclose(found.sum(2), rows, atol=1e-5)


def test_rounding_is_as_near_as_any_whole_table() -> None:
    table = np.array([[[0.6, 1.3, 1.1], [1.4, 0.7, 0.9]]])
    rows, cells = np.array([[3, 3]]), np.array([[2, 2, 2]])
    found = controlled_rounding(table, rows, cells)
    every = (np.array(x).reshape(2, 3) for x in itertools.product(range(4), repeat=6))
    fitting = [x for x in every if (x.sum(1) == rows[0]).all() and (x.sum(0) == cells[0]).all()]
    least = min(np.abs(x - table[0]).sum() for x in fitting)
    assert np.abs(found[0] - table[0]).sum() == pytest.approx(least)


def test_no_row_lies_where_none_may() -> None:
    possible = np.array([[[True, False], [True, True]]])
    target = np.array([[[2.0, 5.0], [1.0, 1.0]]])
    found = nearest_tables(target, np.ones(target.shape), np.array([[3.0, 2.0]]), np.array([[3.0, 2.0]]), possible)
    np.testing.assert_allclose(found[0], [[3, 0], [0, 2]], atol=1e-5)


def test_sums_that_no_whole_table_has_are_found_out() -> None:
    assert controlled_rounding(np.array([[[0.0, 1.0], [1.0, 0.0]]]), np.array([[9, 1]]), np.array([[5, 5]])) is None
