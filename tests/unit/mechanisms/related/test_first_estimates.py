"""First estimates of one-way tables of persons: what noise may and may not make of a number of rows."""

from __future__ import annotations

import numpy as np

from synthdp.mechanisms.related.attribute_columns import first_estimate

TRUTH = np.array([[31_500.0, 7200, 1600, 350, 75, 15, 5, 0, 0, 0]])
"""Persons by their number of rows: most have none, hardly anybody many; the last cell is never released."""

STDDEV = 70.0


def estimates(numbers: int, *, times: int = 40) -> np.ndarray:
    """Estimates from noisy counts, (times, cells), shares of persons."""
    rng = np.random.default_rng(3)
    possible = np.arange(TRUTH.size) < TRUTH.size - 1
    found = [
        first_estimate(
            TRUTH + rng.normal(0, STDDEV, TRUTH.shape), STDDEV,
            counts=True, numbers=numbers, by_root=False, total=1.0, releasable=possible,
        )[0]
        for _ in range(times)
    ]  # fmt: skip
    return np.array([one / one.sum() for one in found])


def test_noise_alone_gives_hardly_anybody_many_rows() -> None:
    """Few persons with many rows have many of all rows, and most pairs of rows: these are what must be right."""
    pairs = np.arange(TRUTH.size) * (np.arange(TRUTH.size) - 1)
    true = float(TRUTH[0] @ pairs / TRUTH.sum())
    smooth, cut = (np.sqrt(np.mean((estimates(n) @ pairs - true) ** 2)) / true for n in (TRUTH.size - 1, 0))
    assert smooth < 0.25
    assert cut > 1.4 * smooth


def test_what_noise_cannot_hide_stays() -> None:
    found = estimates(TRUTH.size - 1)[:, :4]
    assert np.abs(found - TRUTH[0, :4] / TRUTH.sum()).max() < 5 * STDDEV / TRUTH.sum()
    assert not estimates(TRUTH.size - 1)[:, -1].any()
