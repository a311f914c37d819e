"""Counts going down add up at every level, keep what is exact, and are nearer to the truth than the noisy counts."""

import numpy as np
import pytest

from synthdp.fit.top_down import NoisyPlaces, PlaceCounts, descended, divided, shrunken

STATES = np.repeat([0, 1, 2], [4, 6, 5])
K = 6


def truth(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(K, 4.0), len(STATES))
    sizes = rng.integers(50, 900, len(STATES))
    return np.array([rng.multinomial(size, row) for size, row in zip(sizes, shares, strict=True)])


def up(table: np.ndarray, parents: np.ndarray) -> np.ndarray:
    found = np.zeros((parents.max() + 1, *table.shape[1:]), table.dtype)
    np.add.at(found, parents, table)
    return found


def level(table: np.ndarray, parents: np.ndarray, stddev: float, rng: np.random.Generator) -> NoisyPlaces:
    noisy = table + rng.normal(0, stddev, table.shape)
    kept = np.ones(len(table), np.bool_)
    return NoisyPlaces(
        parents=parents, rows=noisy.sum(1), kept=kept, tables={7: (noisy, stddev)}, possible={7: table >= 0}
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("stddev", [0.01, 20.0, 400.0])
def test_every_level_adds_up_exactly(seed: int, stddev: float) -> None:
    table, rng = truth(seed), np.random.default_rng(seed)
    states = up(table, STATES)
    whole = PlaceCounts(rows=np.array([table.sum()]), tables={7: table.sum(0)[None]})
    upper, finest = descended(
        whole, [level(states, np.zeros(3, np.int64), stddev, rng), level(table, STATES, stddev, rng)]
    )
    np.testing.assert_array_equal(upper.tables[7].sum(0), table.sum(0))
    np.testing.assert_array_equal(up(finest.tables[7], STATES), upper.tables[7])
    np.testing.assert_array_equal(finest.tables[7].sum(1), finest.rows)
    np.testing.assert_array_equal(up(finest.rows[:, None], STATES)[:, 0], upper.rows)
    assert (finest.tables[7] >= 0).all()


def test_exact_counts_come_back() -> None:
    table, rng = truth(9), np.random.default_rng(9)
    whole = PlaceCounts(rows=np.array([table.sum()]), tables={7: table.sum(0)[None]})
    (found,) = descended(whole, [level(table, np.zeros(len(table), np.int64), 1e-3, rng)])
    np.testing.assert_array_equal(found.tables[7], table)


def test_a_place_that_may_hold_no_row_holds_none() -> None:
    table, rng = truth(3), np.random.default_rng(3)
    noisy = level(table, np.zeros(len(table), np.int64), 30.0, rng)
    kept = np.arange(len(table)) > 0
    closed = NoisyPlaces(
        parents=noisy.parents, rows=noisy.rows, kept=kept, tables=noisy.tables,
        possible={7: np.broadcast_to(kept[:, None], table.shape)},
    )  # fmt: skip
    (found,) = descended(
        PlaceCounts(rows=np.array([5000]), tables={7: np.full((1, K), 5000 // K) + (np.arange(K) < 2)}), [closed]
    )
    assert found.rows[0] == 0
    assert found.tables[7][0].sum() == 0


def test_shrunken_counts_are_nearer_than_noisy_ones() -> None:
    table, rng = truth(5), np.random.default_rng(5)
    expected = table.sum(1, keepdims=True) * (table.sum(0) / table.sum())
    ratio = []
    for _ in range(40):
        noisy = table + rng.normal(0, 60, table.shape)
        found, variance = shrunken(noisy, expected, 60.0)
        assert (variance > 0).all()
        assert (variance <= 60.0**2 + 1e-6).all()
        ratio.append(((found - table) ** 2).sum() / ((noisy - table) ** 2).sum())
    assert np.mean(ratio) < 0.8


def test_divided_places_have_the_sums_of_both_columns() -> None:
    rng = np.random.default_rng(1)
    joint = rng.integers(0, 9, (8, 3, 5))
    places = PlaceCounts(rows=joint.sum((1, 2)), tables={0: joint.sum(2), 1: joint.sum(1)})
    found = divided(places, 0, {1: joint.sum(0) / joint.sum()})[1]
    np.testing.assert_array_equal(found.sum(2), joint.sum(2))
    np.testing.assert_array_equal(found.sum(1), joint.sum(1))
