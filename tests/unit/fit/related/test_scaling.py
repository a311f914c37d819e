"""The base of an attribute: what each group of periods has in a bin, and what all of them together have in a cell."""

import numpy as np
import pytest

from synthdp.fit.related.scaling import _move_of_base

BINS = np.array([0, 0, 0, 1, 1, 2])
HOLDS = np.equal.outer(BINS, np.arange(3)).astype(float)


def fitted(wanted: np.ndarray, bins: np.ndarray | None, *, start: np.ndarray) -> np.ndarray:
    """Return the counts of a model whose bases are moved until nothing changes."""
    base = np.zeros_like(wanted)
    for _ in range(3000):
        now = start * np.exp(base)
        base += _move_of_base(wanted, now, bins, step=0.5)
    now = start * np.exp(base)
    return now * (wanted.sum(axis=1) / now.sum(axis=1))[:, None]


@pytest.fixture
def tables() -> tuple[np.ndarray, np.ndarray]:
    """What three periods have by bin, divided as in all of them; and a model whose periods differ within the bins."""
    rng = np.random.default_rng(3)
    by_bin, share = rng.uniform(1e5, 9e5, (3, 3)), rng.uniform(0.5, 2.0, 6)
    share /= (share @ HOLDS)[BINS]
    return by_bin[:, BINS] * share, rng.uniform(1e5, 9e5, (3, 6))


def test_bins_are_met_in_each_period_and_cells_in_all_of_them(tables):
    wanted, start = tables
    found = fitted(wanted, BINS, start=start)
    np.testing.assert_allclose(found @ HOLDS, wanted @ HOLDS, rtol=1e-4)
    np.testing.assert_allclose(found.sum(axis=0), wanted.sum(axis=0), rtol=1e-4)


def test_how_periods_differ_within_a_bin_is_left_to_other_tables(tables):
    """Shares of all periods say nothing of it: odds of two cells of a bin in two periods stay what they were."""
    wanted, start = tables

    def odds(table: np.ndarray) -> np.ndarray:
        return np.log(table[1:, 1] * table[:1, 0] / (table[1:, 0] * table[:1, 1]))

    np.testing.assert_allclose(odds(fitted(wanted, BINS, start=start)), odds(start), atol=1e-6)
    assert np.abs(odds(fitted(wanted, None, start=start)) - odds(start)).max() > 0.1


def test_where_every_cell_is_a_bin_every_cell_is_met_in_each_period(tables):
    wanted, start = tables
    for bins in (None, np.arange(6)):
        np.testing.assert_allclose(fitted(wanted, bins, start=start), wanted, rtol=1e-4)
