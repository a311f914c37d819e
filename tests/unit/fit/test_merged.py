"""Tables of merged codes without misfits, and in agreement with the tables of all codes."""

import numpy as np
import pytest

from synthdp.fit.out_of_domain import OutOfDomain, consistent_merged, merged_in_domain
from synthdp.queries.contingency import NoisyTable

KEPT = [np.array([True, True, False, True]), np.array([True, True, True])]
GROUPS = (np.array([0, 1, 2, 0]), np.array([1, 0, 1]))
MISFITS, TOTAL = np.array([60.0, 0.0]), 600.0
STRUCK = MISFITS[0] / TOTAL
OUTSIDE = OutOfDomain(releasable=tuple(KEPT), rows=MISFITS, total=TOTAL)
FITTING = np.array([[90.0, 30, 60], [20, 100, 40], [0, 0, 0], [110, 80, 70]])
"""The rows were there no misfits; a tenth of them, whatever their other column, is struck."""


def noisy(clique, counts, groups=None):
    return NoisyTable(clique=clique, counts=np.ravel(counts), stddev=1.0, groups=groups)


def struck():
    """The rows with misfits in the first column."""
    found = FITTING * (1 - STRUCK)
    found[2] = FITTING.sum(axis=0) * STRUCK
    return found


def merge(counts):
    found = np.zeros((3, 2))
    np.add.at(found, np.ix_(*GROUPS), counts)
    return found


def test_misfits_that_strike_at_random_leave_the_table_as_it_would_be_without_them():
    (found,) = merged_in_domain([noisy((0, 1), merge(struck()), GROUPS)], OUTSIDE)
    assert found.counts.reshape(2, 2) == pytest.approx(merge(FITTING)[:2])
    assert [groups.tolist() for groups in found.groups] == [[0, 1, 0], [1, 0, 1]]


def test_the_table_of_all_groups_has_no_rows_in_those_of_misfits_and_the_margins_of_the_one_ways():
    ones = [noisy((0,), struck().sum(axis=1)), noisy((1,), struck().sum(axis=0))]
    off = merge(struck()) + np.array([[5.0, -3], [2, 8], [0, 0]])
    (found,) = consistent_merged(ones, [noisy((0, 1), off, GROUPS)], OUTSIDE)
    table = found.counts.reshape(3, 2)
    assert (table[2] == 0).all()
    assert table.sum(axis=1) == pytest.approx(merge(FITTING).sum(axis=1))
    assert table.sum(axis=0) == pytest.approx(merge(FITTING).sum(axis=0))
    assert found.groups is GROUPS
