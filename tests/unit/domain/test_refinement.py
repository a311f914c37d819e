"""Cells of a long axis fall into few classes, equal intervals; special and missing values keep their own."""

import numpy as np

from synthdp.domain.domain import axis_of
from synthdp.domain.grid import grid_of
from synthdp.domain.refinement import Refinement
from synthdp.schema.columns import Categorical, Integer


def test_classes_are_equal_intervals_of_numbers_and_levels_as_they_are():
    column = Integer(0, 127, nullable=True)
    axis = axis_of("x", column, bins=128)
    refinement = Refinement(axis, np.minimum(np.arange(axis.size) // 50, 2), np.ones(axis.size))
    assert refinement.groups == 3
    regular = grid_of(column).regular
    classes = refinement.classes(32)
    assert (classes[:regular] == np.arange(regular) // 4).all()
    assert len(np.unique(classes[regular:])) == axis.size - regular
    assert classes[regular:].min() > classes[regular - 1]
    levels = Refinement.trivial(axis_of("y", Categorical([f"l{i}" for i in range(50)]), bins=32))
    assert (levels.classes(32) == np.arange(levels.fine.size)).all()


def test_a_group_in_which_new_weights_leave_nothing_keeps_its_shares_and_is_not_spread_over_its_width() -> None:
    axis = axis_of("n", Integer(0, 999_999), bins=4)
    group = np.minimum(np.arange(axis.size) // 2, 2)
    known = Refinement(axis, group, np.array([3.0, 5.0, 7.0, 0.0, 1.0])[: axis.size])
    again = known.reweighted(np.array([1.0, 0.0, 0.0, 0.0, 1.0])[: axis.size])
    np.testing.assert_array_equal(again.weights[:4], [1.0, 0.0, 7.0, 0.0])
    np.testing.assert_array_equal(again.coarse_cell, group)
