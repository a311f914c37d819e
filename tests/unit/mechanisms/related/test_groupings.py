"""Groups of a number's cells by rank within the period."""

from __future__ import annotations

import numpy as np
import pytest

import synthdp as sd
from synthdp.domain.domain import axis_of
from synthdp.mechanisms.related.asked_tables import grouping_of

AXIS = axis_of("score", sd.Integer(0, 999, nullable=True), bins=24)
CELLS = np.arange(AXIS.regular)
BEYOND = np.zeros((4, AXIS.size - len(CELLS)))


def by_period(middles: list[int], widths: list[float]) -> np.ndarray:
    """A number that grows from one period to the next."""
    each = [np.exp(-(((CELLS - middle) / width) ** 2) / 2) for middle, width in zip(middles, widths, strict=True)]
    return np.column_stack([1000 * np.array(each), BEYOND])


@pytest.mark.parametrize("first", [0.8, 1.2, 2.0], ids=["most in one cell", "a third in one cell", "in many cells"])
def test_groups_of_equal_rank_are_the_same_groups_in_all_periods(first: float) -> None:
    grouping = grouping_of(AXIS, by_period([6, 9, 12, 15], [first, 2, 2, 2]), 5.0, groups=8, name="steps")
    inside = grouping.groups[:, : len(CELLS)]
    assert grouping.ranked.sum() == 8
    assert (np.diff(inside, axis=1) >= 0).all()
    assert (inside[:, 0] == 0).all()
    assert (inside[:, -1] == 7).all()
    assert inside[1, 10] == inside[2, 13] == inside[3, 16]


def test_a_value_that_many_have_in_all_periods_is_a_group_of_its_own_in_all_of_them() -> None:
    counts = by_period([9, 9, 9, 9], [4, 4, 4, 4])
    counts[:, 9] = 9000
    groups = grouping_of(AXIS, counts, 5.0, groups=8, name="steps").groups
    assert np.count_nonzero(groups == groups[0, 9]) == len(groups)
