"""What every `Distribution` promises, over all implementations."""

import itertools

import numpy as np
import pytest
from joint_tables import all_rows, joint_table, margin

from synthdp.distribution.components import Components, Product
from synthdp.distribution.distribution import Distribution
from synthdp.distribution.explicit import Explicit
from synthdp.distribution.junction_tree import junction_tree
from synthdp.distribution.markov_random_field import Graphical
from synthdp.errors import ParameterError
from synthdp.queries.contingency import contingency

SHAPE = (2, 3, 1, 4, 2)
EVERYTHING = tuple(range(len(SHAPE)))


def graphical():
    rng = np.random.default_rng(0)
    cliques = [(0, 1), (1, 3), (0, 3), (4,), (3,)]
    potentials = {c: rng.normal(size=np.prod([SHAPE[a] for a in c])) for c in cliques}
    potentials[(1, 3)][[0, 5]] = -np.inf
    return Graphical.calibrated(junction_tree(SHAPE, cliques), potentials), joint_table(SHAPE, potentials)[0]


def explicit():
    rng = np.random.default_rng(1)
    weights = rng.random(48) * (rng.random(48) < 0.6)
    distribution = Explicit(shape=SHAPE, codes=all_rows(SHAPE).astype(np.int16), weights=weights)
    return distribution, weights / weights.sum()


def product():
    rng = np.random.default_rng(2)
    margins = [rng.random(k) for k in SHAPE]
    margins[3][1] = 0.0
    joint = np.ones(1)
    for m in margins:
        joint = np.multiply.outer(joint, m / m.sum()).ravel()
    return Product(shape=SHAPE, margins=margins), joint


def components():
    """Columns 0 and 3 listed, 1 and 4 in a tree, 2 alone."""
    rng = np.random.default_rng(3)
    weights = rng.random(8) * (rng.random(8) < 0.7)
    listed = Explicit(shape=(2, 4), codes=all_rows((2, 4)).astype(np.int16), weights=weights)
    potentials = {(0, 1): rng.normal(size=6)}
    tree = Graphical.calibrated(junction_tree((3, 2), [(0, 1)]), potentials)
    alone = Product(shape=(1,), margins=[np.ones(1)])
    joint = np.einsum(
        "ad,be,c->abcde", (weights / weights.sum()).reshape(2, 4), tree.marginal((0, 1)).reshape(3, 2), [1]
    )
    parts = Components(shape=SHAPE, columns=((0, 3), (1, 4), (2,)), parts=(listed, tree, alone))
    return parts, joint.ravel()


@pytest.fixture(params=[graphical, explicit, product, components])
def case(request):
    return request.param()


def test_it_is_a_distribution(case):
    assert isinstance(case[0], Distribution)
    assert case[0].shape == SHAPE


def test_marginals_are_those_of_its_joint_table(case):
    distribution, joint = case
    for size in range(6):
        for clique in itertools.combinations(EVERYTHING, size):
            marginal = distribution.marginal(clique)
            assert marginal.dtype == np.float64
            np.testing.assert_allclose(marginal, margin(SHAPE, joint, clique), atol=1e-12)


@pytest.mark.parametrize("rows", [0, 1, 7, 5000])
def test_samples_are_small_column_major_codes_within_the_shape(case, rows):
    sampled = case[0].sample(rows, np.random.default_rng(0))
    assert sampled.shape == (rows, 5)
    assert sampled.dtype == np.uint8
    assert sampled.flags.f_contiguous
    assert (sampled < np.array(SHAPE)).all()


def test_one_way_counts_are_close_to_their_expectation(case):
    """Systematic at each step: far inside the spread of independent draws."""
    distribution, joint = case
    sampled = distribution.sample(10_000, np.random.default_rng(0))
    for j in EVERYTHING:
        error = contingency(sampled, SHAPE, (j,)) - 10_000 * margin(SHAPE, joint, (j,))
        assert np.abs(error).max() < 48


def test_what_has_probability_zero_is_never_sampled(case):
    distribution, joint = case
    counts = contingency(distribution.sample(20_000, np.random.default_rng(0)), SHAPE, EVERYTHING)
    assert counts[joint == 0].sum() == 0
    assert (joint == 0).any()


@pytest.mark.slow
def test_the_law_given_evidence_is_the_exact_conditional_one(case):
    """The mean of many small samples: 3000 · 4 rows, each with the conditional law."""
    distribution, joint = case
    evidence = {1: np.array([True, False, True]), 3: np.array([True, True, False, True])}
    rows = all_rows(SHAPE)
    kept = np.all([mask[rows[:, j]] for j, mask in evidence.items()], axis=0)
    conditional = np.where(kept, joint, 0) / joint[kept].sum()
    rng = np.random.default_rng(5)
    draws = [distribution.sample(4, rng, given=evidence) for _ in range(3000)]
    counts = contingency(np.concatenate(draws), SHAPE, EVERYTHING)
    deviation = np.sqrt(12_000 * conditional * (1 - conditional))
    assert (np.abs(counts - 12_000 * conditional) <= 6.2 * deviation).all()
    assert counts[~kept].sum() == 0


@pytest.mark.slow
def test_likelihoods_weight_the_law_exactly_up_to_their_factor(case):
    """Evidence that a code makes more or less likely, on a scale that alone would overflow a product."""
    distribution, joint = case
    evidence = {1: np.array([0.2, 0.0, 0.7]) * 1e200, 3: np.array([3.0, 1.0, 0.5, 2.0]) * 1e200}
    rows = all_rows(SHAPE)
    weighted = joint * np.prod([w[rows[:, j]] / 1e200 for j, w in evidence.items()], axis=0)
    conditional = weighted / weighted.sum()
    rng = np.random.default_rng(8)
    draws = [distribution.sample(4, rng, given=evidence) for _ in range(3000)]
    counts = contingency(np.concatenate(draws), SHAPE, EVERYTHING)
    deviation = np.sqrt(12_000 * conditional * (1 - conditional))
    assert (np.abs(counts - 12_000 * conditional) <= 6.2 * deviation).all()


@pytest.mark.landing
@pytest.mark.sampled
def test_every_row_of_a_small_sample_has_the_law_of_the_distribution(case):
    distribution, joint = case
    rng = np.random.default_rng(6)
    draws = np.array([distribution.sample(3, rng) for _ in range(4000)])
    deviation = np.sqrt(4000 * joint * (1 - joint))
    for position in range(3):
        counts = contingency(draws[:, position], SHAPE, EVERYTHING)
        assert (np.abs(counts - 4000 * joint) <= 6.2 * deviation).all()


def test_the_order_of_rows_carries_nothing(case):
    """Neighbouring rows agree in a column as often as any two rows do, and no half of the sample is special."""
    sampled = case[0].sample(40_000, np.random.default_rng(7))
    for j in (0, 1, 3, 4):
        column = sampled[:, j]
        counts = np.bincount(column)
        agree = (counts / 40_000 * (counts - 1) / 39_999).sum()
        spread = np.sqrt(agree * (1 - agree) / 39_999) * 1.5
        assert abs((column[1:] == column[:-1]).mean() - agree) < 6.2 * spread
        halves = np.bincount(column[:20_000], minlength=len(counts)) - counts / 2
        assert (np.abs(halves) <= 6.2 * np.sqrt(counts / 4) + 1e-9).all()


def test_evidence_of_probability_zero_is_refused_by_naming_columns_only(case):
    evidence = {3: np.zeros(4, bool)}
    with pytest.raises(ParameterError, match="given"):
        case[0].sample(5, np.random.default_rng(0), given=evidence)


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ({5: np.ones(2, bool)}, "given.*column 5"),
        ({0: np.ones(3, bool)}, "given.*column 0.*array"),
        ({0: np.ones(2, int)}, "given.*column 0.*array"),
        ({0: np.array([1.0, -0.5])}, "given.*column 0.*finite"),
        ({0: np.array([1.0, np.inf])}, "given.*column 0.*finite"),
    ],
)
def test_evidence_that_does_not_fit_is_refused(case, evidence, message):
    with pytest.raises(ParameterError, match=message):
        case[0].sample(5, np.random.default_rng(0), given=evidence)


def test_a_negative_number_of_rows_is_refused(case):
    with pytest.raises(ParameterError, match="rows"):
        case[0].sample(-1, np.random.default_rng(0))


@pytest.mark.parametrize("clique", [(1, 0), (0, 0), (4, 5), (-1, 2)])
def test_a_clique_that_does_not_fit_is_refused(case, clique):
    with pytest.raises(ParameterError, match="clique"):
        case[0].marginal(clique)


def test_the_same_generator_state_gives_the_same_rows(case):
    first, second = (case[0].sample(100, np.random.default_rng(8)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
