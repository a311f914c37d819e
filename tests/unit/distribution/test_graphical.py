import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st
from joint_tables import all_rows, joint_logits, joint_table, margin, models, subsets

from synthdp.distribution.junction_tree import junction_tree
from synthdp.distribution.markov_random_field import Graphical
from synthdp.errors import ParameterError
from synthdp.queries.contingency import cell_index, contingency


def fitted(shape, potentials):
    return Graphical.calibrated(junction_tree(shape, list(potentials)), potentials)


@given(models())
def test_the_log_partition_is_that_of_the_whole_joint_table(model):
    shape, potentials = model
    assert fitted(shape, potentials).log_partition == pytest.approx(joint_table(shape, potentials)[1], abs=1e-9)


@given(models(zeros=True))
def test_every_marginal_is_that_of_the_whole_joint_table(model):
    shape, potentials = model
    joint, _ = joint_table(shape, potentials)
    graphical = fitted(shape, potentials)
    for clique in subsets(len(shape), len(shape)):
        np.testing.assert_allclose(graphical.marginal(clique), margin(shape, joint, clique), atol=1e-12)


@given(models(zeros=True))
def test_forbidden_combinations_have_probability_zero_exactly_and_are_never_sampled(model):
    shape, potentials = model
    graphical = fitted(shape, potentials)
    everything = tuple(range(len(shape)))
    impossible = joint_logits(shape, potentials) == -np.inf
    assert (graphical.marginal(everything)[impossible] == 0).all()
    sampled = graphical.sample(200, np.random.default_rng(0))
    assert contingency(sampled, shape, everything)[impossible].sum() == 0


@given(models(zeros=True), st.data())
def test_conditioning_is_exact_and_the_partition_gives_the_probability_of_the_evidence(model, data):
    shape, potentials = model
    joint, _ = joint_table(shape, potentials)
    columns = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1))
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    evidence = {j: rng.random(shape[j]) < 0.6 for j in columns}
    kept = np.all([mask[all_rows(shape)[:, j]] for j, mask in evidence.items()], axis=0)
    probability = joint[kept].sum()
    assume(probability > 1e-6)
    graphical = fitted(shape, potentials)
    conditional = graphical.condition(evidence)
    expected = np.where(kept, joint, 0) / probability
    for clique in subsets(len(shape), len(shape)):
        np.testing.assert_allclose(conditional.marginal(clique), margin(shape, expected, clique), atol=1e-9)
    assert conditional.log_partition - graphical.log_partition == pytest.approx(math.log(probability), abs=1e-8)
    sampled = graphical.sample(50, rng, given=evidence)
    assert all(mask[sampled[:, j]].all() for j, mask in evidence.items())


@given(models(zeros=True), st.integers(0, 999))
def test_conditioning_on_likelihoods_multiplies_the_joint_table_by_them(model, seed):
    shape, potentials = model
    joint, _ = joint_table(shape, potentials)
    rng = np.random.default_rng(seed)
    evidence = {j: rng.random(k) * (rng.random(k) < 0.8) for j, k in enumerate(shape)}
    weighted = joint * np.prod([w[all_rows(shape)[:, j]] for j, w in evidence.items()], axis=0)
    assume(weighted.sum() > 1e-9)
    conditional = fitted(shape, potentials).condition(evidence)
    for clique in subsets(len(shape), len(shape)):
        expected = margin(shape, weighted / weighted.sum(), clique)
        np.testing.assert_allclose(conditional.marginal(clique), expected, atol=1e-9)


@given(models())
def test_within_each_separator_cell_counts_are_within_one_of_their_expectation(model):
    shape, potentials = model
    graphical = fitted(shape, potentials)
    sampled = graphical.sample(997, np.random.default_rng(0))
    for node, separator in zip(graphical.tree.nodes, graphical.tree.separators, strict=True):
        counts = contingency(sampled, shape, node)
        axes = [node.index(a) for a in separator]
        rows = all_rows(tuple(shape[a] for a in node))[:, axes]
        group = cell_index(rows, [shape[a] for a in separator], tuple(range(len(separator))))
        probabilities = graphical.marginal(node)
        in_group = np.bincount(group, weights=counts)[group]
        mass = np.bincount(group, weights=probabilities)[group]
        expected = in_group * np.divide(probabilities, mass, out=np.zeros_like(mass), where=mass > 1e-200)
        assert np.abs(counts - expected)[mass > 1e-200].max() < 1 + 1e-6


def test_potentials_far_apart_do_not_underflow():
    shape = (2, 2, 2)
    potentials = {(0, 1): np.array([0.0, -2000, -2000, -1]), (1, 2): np.array([0.0, -3000, 900, -3000.0])}
    graphical = fitted(shape, potentials)
    logits = joint_logits(shape, potentials)
    peak = logits.max()
    weights = np.exp(logits - peak)
    assert graphical.log_partition == pytest.approx(peak + math.log(weights.sum()))
    np.testing.assert_allclose(graphical.marginal((0, 1, 2)), weights / weights.sum(), atol=1e-12)
    sampled = graphical.sample(20, np.random.default_rng(0), given={0: np.array([True, False])})
    assert (sampled[:, 0] == 0).all()


def test_a_message_that_underflows_at_one_scale_a_node_is_still_exact():
    """Each code of column 1 has another scale in the leaf (1, 2), and the root (0, 1) brings them level again."""
    shape = (4, 2, 2)
    potentials = {(0, 1): np.tile([0.0, 1500.0], 4), (1, 2): np.array([0.0, 1.0, -1500.0, -1502.0])}
    graphical = fitted(shape, potentials)
    assert graphical.tree.nodes == ((0, 1), (1, 2))
    logits = joint_logits(shape, potentials)
    expected = np.exp(logits) / np.exp(logits).sum()
    np.testing.assert_allclose(graphical.marginal((0, 1, 2)), expected, atol=1e-12)


def test_far_columns_of_a_long_chain_are_joined_exactly():
    rng = np.random.default_rng(0)
    d = 60
    steps = [rng.random((3, 3)) + 0.1 for _ in range(d - 1)]
    potentials = {(j, j + 1): np.log(step).ravel() for j, step in enumerate(steps)}
    graphical = fitted((3,) * d, potentials)
    weights = np.eye(3)
    for step in steps:
        weights = weights @ step
        weights /= weights.sum()
    np.testing.assert_allclose(graphical.marginal((0, d - 1)), weights.ravel() / weights.sum(), atol=1e-12)


def test_a_star_answers_all_pairs_of_its_leaves():
    rng = np.random.default_rng(1)
    shape = (2, 3, 3, 2, 2)
    potentials = {(0, j): rng.normal(size=2 * shape[j]) for j in range(1, 5)}
    graphical = fitted(shape, potentials)
    joint, _ = joint_table(shape, potentials)
    for clique in itertools.combinations(range(5), 3):
        np.testing.assert_allclose(graphical.marginal(clique), margin(shape, joint, clique), atol=1e-13)


def test_a_marginal_that_needs_too_many_cells_is_refused_with_the_way_out():
    graphical = fitted((50, 50, 50), {(0, 1): np.zeros(2500), (1, 2): np.zeros(2500)})
    with pytest.raises(ParameterError, match="max_cells"):
        graphical.marginal((0, 1, 2), max_cells=1000)


def test_the_way_to_a_small_marginal_may_be_too_large():
    graphical = fitted((50, 50, 50, 50), {(0, 1, 2): np.zeros(50**3), (1, 2, 3): np.zeros(50**3)})
    assert graphical.tree.home((0, 3)) is None
    with pytest.raises(ParameterError, match="clique"):
        graphical.marginal((0, 3), max_cells=1_000_000)


def test_evidence_of_probability_zero_is_refused():
    graphical = fitted((2, 2), {(0, 1): np.array([0.0, -np.inf, -np.inf, 0.0])})
    evidence = {0: np.array([True, False]), 1: np.array([False, True])}
    with pytest.raises(ParameterError, match="given"):
        graphical.condition(evidence)


@pytest.mark.parametrize(
    ("potentials", "message"),
    [
        ({(0, 1): np.full(4, -np.inf)}, "potentials"),
        ({(0, 1): np.zeros(3)}, r"clique \(0, 1\).*3.*4"),
        ({(0,): np.array([0.0, np.inf])}, r"clique \(0,\).*finite"),
        ({(0,): np.array([0.0, np.nan])}, r"clique \(0,\).*finite"),
        ({(0, 2): np.zeros(4)}, r"clique \(0, 2\)"),
    ],
)
def test_potentials_that_make_no_sense_are_refused(potentials, message):
    with pytest.raises(ParameterError, match=message):
        Graphical.calibrated(junction_tree((2, 2, 2), [(0, 1)]), potentials)


def test_a_model_keeps_read_only_copies():
    theta = np.zeros(2)
    graphical = fitted((2,), {(0,): theta})
    theta[0] = 5
    assert graphical.potentials[(0,)][0] == 0
    with pytest.raises(ValueError, match="read-only"):
        graphical.beliefs[0][0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        graphical.potentials[(0,)][0] = 1.0


def test_the_same_seed_gives_the_same_rows():
    graphical = fitted((3, 4), {(0, 1): np.arange(12.0) / 5})
    first, second = (graphical.sample(100, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
