"""The law of one sampled row, by chi-square at p = 1e-9: accepts the model, rejects one that is 30 % off."""

import numpy as np
import pytest
from joint_tables import joint_table
from scipy import stats

from synthdp.distribution.junction_tree import junction_tree
from synthdp.distribution.markov_random_field import Graphical
from synthdp.queries.contingency import contingency

SHAPE = (2, 3, 2)
CLIQUES = [(0, 1), (1, 2)]
LEVEL = 1e-9


@pytest.fixture(scope="module")
def first_rows():
    """Row 0 of independent samples of 4 rows, so that the draws are independent."""
    rng = np.random.default_rng(0)
    potentials = {c: 0.6 * rng.normal(size=6) for c in CLIQUES}
    model = Graphical.calibrated(junction_tree(SHAPE, CLIQUES), potentials)
    rows = np.array([model.sample(4, rng)[0] for _ in range(6000)])
    return contingency(rows, SHAPE, (0, 1, 2)), joint_table(SHAPE, potentials)[0]


def p_value(counts, probabilities):
    return stats.chisquare(counts, counts.sum() * probabilities).pvalue


@pytest.mark.landing
def test_the_first_row_has_the_law_of_the_model(first_rows):
    counts, joint = first_rows
    assert p_value(counts, joint) > LEVEL


@pytest.mark.landing
def test_a_law_whose_cells_are_thirty_per_cent_off_is_rejected(first_rows):
    counts, joint = first_rows
    tilted = joint * np.where(np.arange(12) % 2 == 0, 1.3, 1 / 1.3)
    assert p_value(counts, tilted / tilted.sum()) < LEVEL
