"""Days to single second days: the law of the days is that of rows that end elsewhere, times one and the odds of a heap."""

import numpy as np

from synthdp.domain.history_rules import Barrier, DaysToHeaps


def test_rows_that_end_elsewhere_keep_the_law_of_their_days() -> None:
    rng = np.random.default_rng(0)
    possible = rng.random((2, 4, 5)) < 0.7
    possible[:, :, 0] = True
    possible[1, 3] = [False, False, False, False, True]  # nothing but the single day
    single = np.array([False, False, False, False, True])
    heaps = DaysToHeaps(Barrier(1, "end", 1, "start", possible.reshape(8, 5), "days"), single, possible)
    likely, related = rng.dirichlet(np.ones(5), 6), np.exp(rng.standard_normal((3, 4, 5)))
    first, group = rng.integers(0, 2, 6), rng.integers(0, 3, 6)
    law = rng.dirichlet(np.ones(4), 6)
    found = heaps.logarithms(likely.T, first, group, related).T
    for row in range(6):
        inside = possible[first[row]] * related[group[row]] * likely[row]
        both = (law[row] * np.exp(found[row]))[:, None] * inside / inside.sum(axis=1, keepdims=True)
        some = ~single & (inside[:, ~single].sum(axis=1) > 0)[:, None]
        np.testing.assert_allclose((both * some).sum(axis=1), law[row] * some.any(axis=1))
        if first[row] == 1:
            assert found[row, 3] == 0
