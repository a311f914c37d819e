"""Who is counted: what one row, or one person, moves."""

from __future__ import annotations

import pytest

from synthdp.privacy.neighbors import Adjacency, Neighbors
from synthdp.queries.norms import Norms


@pytest.mark.parametrize(
    ("adjacency", "moved"),
    [
        (Adjacency(), Norms(1, 1, 1)),
        (Adjacency(Neighbors.REPLACE_ONE), Norms(2, 2, 1)),
        (Adjacency(Neighbors.ADD_REMOVE, "who", 3), Norms(3, 9, 3)),
        (Adjacency(Neighbors.REPLACE_ONE, "who", 1), Norms(2, 2, 1)),
    ],
)
def test_a_histogram_moves_by_one_count_of_each_row_that_comes_or_goes(adjacency, moved):
    assert adjacency.histogram == moved
