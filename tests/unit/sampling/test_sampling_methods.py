"""Systematic and multinomial sampling: the same law, with less scatter or with independent rows."""

import numpy as np
import pytest

from synthdp.distribution.components import Product
from synthdp.distribution.explicit import Explicit
from synthdp.distribution.junction_tree import junction_tree
from synthdp.distribution.markov_random_field import Graphical

P = np.array([0.1, 0.2, 0.3, 0.4])
DISTRIBUTIONS = {
    "product": Product(shape=(4,), margins=(P,)),
    "explicit": Explicit(shape=(4,), codes=np.arange(4)[:, None], weights=P),
    "graphical": Graphical.calibrated(junction_tree((4,), [(0,)]), {(0,): np.log(P)}),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_independent_rows_scatter_as_a_multinomial_and_systematic_ones_do_not(name: str) -> None:
    rng, rows, repeats = np.random.default_rng(0), 400, 600
    scatter = {}
    for independent in (False, True):
        drawn = [DISTRIBUTIONS[name].sample(rows, rng, independent=independent)[:, 0] for _ in range(repeats)]
        counts = np.array([np.bincount(row, minlength=4) for row in drawn])
        assert np.abs(counts.mean(axis=0) - rows * P).max() < 6 * np.sqrt(rows / 4 / repeats)
        scatter[independent] = counts.var(axis=0)
    assert scatter[False].max() < 1
    ratio = scatter[True] / (rows * P * (1 - P))
    assert ((ratio > 0.65) & (ratio < 1.45)).all()
