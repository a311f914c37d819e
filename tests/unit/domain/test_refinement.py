"""Cells of a long axis fall into few classes, equal intervals; special and missing values keep their own."""

import numpy as np
from hypothesis import given, strategies as st

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


@given(st.data())
def test_where_each_group_has_one_cell_that_may_have_rows_it_is_named_and_else_none(data):
    axis = axis_of("c", Categorical([f"l{i}" for i in range(data.draw(st.integers(1, 6)))], nullable=True))
    groups = np.unique(
        data.draw(st.lists(st.integers(0, 4), min_size=axis.size, max_size=axis.size)), return_inverse=True
    )
    weights = np.array(data.draw(st.lists(st.sampled_from([0.0, 1.0, 2.5]), min_size=axis.size, max_size=axis.size)))
    refinement = Refinement(axis, groups[1], weights)
    shares = refinement.table(None)
    only = refinement.only_cells
    assert (only is None) == ((shares > 0).sum(axis=1) > 1).any()
    if only is not None:
        for group in np.flatnonzero((shares > 0).any(axis=1)):
            assert shares[group].argmax() == only[group]
