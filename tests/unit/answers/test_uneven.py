"""Within a leaf and between leaves: unevenness by Polya's law, groups and quantiles by brute force over units."""

import numpy as np
import pytest

import synthdp as sd
from synthdp.answers.grouping import Grouping, leaf_means, leaf_shares, runs_of
from synthdp.answers.leaves import Histogram, least_squares
from synthdp.answers.quantiles import Ladder
from synthdp.answers.uneven import clumped, unevenness
from synthdp.domain.axis import Axis
from synthdp.domain.refinement import Refinement

UNITS = 400
COLUMN = sd.Integer(0, UNITS - 1)
AXIS = Axis("x", COLUMN, np.arange(0, UNITS, 10), np.arange(UNITS // 10))


def counted(counts: np.ndarray, noise: float) -> object:
    return least_squares([Histogram(np.arange(len(counts)), counts, noise)])


def test_rows_that_lie_evenly_have_no_unevenness() -> None:
    rng = np.random.default_rng(0)
    counts = np.bincount(rng.integers(UNITS // 10, size=20_000), minlength=UNITS // 10)
    assert unevenness(counted(counts + rng.normal(0, 30, len(counts)), 30.0), AXIS) < 0.01


def test_rows_of_polyas_law_have_the_unevenness_of_the_law() -> None:
    rng, law = np.random.default_rng(1), 0.1
    shape = (1 / law - 1) / 2
    found = []
    for _ in range(50):
        parts = rng.beta(shape, shape, UNITS // 20)
        counts = np.ravel(np.column_stack([1000 * parts, 1000 * (1 - parts)]))
        pairs = Axis("x", COLUMN, np.arange(0, UNITS, 10), np.arange(UNITS // 10))
        found.append(unevenness(counted(counts + rng.normal(0, 10, len(counts)), 10.0), pairs))
    assert 0.5 * law < np.mean(found) < 1.5 * law


def test_noise_alone_is_no_unevenness() -> None:
    rng = np.random.default_rng(2)
    found = [unevenness(counted(100 + rng.normal(0, 50, UNITS // 10), 50.0), AXIS) for _ in range(50)]
    assert np.mean(found) < 0.05


def test_levels_have_no_neighbours() -> None:
    axis = Axis("c", sd.Categorical(["a", "b", "c", "d"]), np.arange(4), np.arange(4))
    assert unevenness(counted(np.array([1000.0, 0.0, 500.0, 0.0]), 1.0), axis) == 0.0


@pytest.mark.parametrize(("uneven", "variance"), [(0.0, 25.0), (1.0, 2500.0), (0.5, 1262.5)])
def test_the_variance_of_rows_in_half_a_leaf_is_polyas(uneven: float, variance: float) -> None:
    assert 0.25 * clumped(np.array([100.0]), uneven)[0] == pytest.approx(variance)


def test_without_rows_there_is_no_spread() -> None:
    assert clumped(np.array([-3.0, 0.0]), 0.7).tolist() == [0.0, 0.0]


def test_shares_of_leaves_in_groups_are_those_of_their_units() -> None:
    rng = np.random.default_rng(3)
    groups, weights = np.repeat(rng.integers(-1, 4, 80), 5), rng.normal(size=UNITS)
    leaf = AXIS.cells_of(np.arange(UNITS, dtype=np.uint32))
    counted_units, summed = np.zeros((AXIS.size, 4)), np.zeros((AXIS.size, 4))
    for unit in np.flatnonzero(groups >= 0):
        counted_units[leaf[unit], groups[unit]] += 1 / 10
        summed[leaf[unit], groups[unit]] += weights[unit] / 10
    assert leaf_shares(AXIS, groups, 4).toarray() == pytest.approx(counted_units)
    assert leaf_shares(AXIS, groups, 4, weights).toarray() == pytest.approx(summed)


def test_values_are_summed_by_powers_as_over_units() -> None:
    values = np.arange(UNITS) - 3.5
    grouping = Grouping(
        column=0, groups=(np.arange(UNITS) > 99).astype(np.int64), labels=(0, 1),
        refinement=Refinement.trivial(AXIS), values=values,
    )  # fmt: skip
    of_leaf = values.reshape(-1, 10)
    wanted = np.stack([(of_leaf**power).mean(axis=1) for power in range(3)])
    of_group = grouping.leaf_powers.toarray().reshape(-1, 3, 2)
    summed = of_group.sum(axis=2).T
    assert summed == pytest.approx(wanted)


def test_runs_begin_where_a_part_changes() -> None:
    assert runs_of(np.array([1, 1, 2, 2, 2]), np.array([0, 0, 0, 0, 1])).tolist() == [0, 2, 4]
    assert runs_of(np.array([5])).tolist() == [0]


@pytest.mark.parametrize("seed", range(8))
def test_a_ladder_takes_groups_by_their_least_value_and_the_values_of_each_in_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups, values = rng.integers(-1, 4, UNITS), rng.permutation(UNITS)
    ladder = Ladder.of(groups, values)
    wanted = sorted((sorted(values[groups == group].tolist()), group) for group in np.unique(groups[groups >= 0]))
    assert ladder.groups.tolist() == [group for _, group in wanted]
    assert ladder.values.tolist() == [value for inside, _ in wanted for value in inside]
    assert np.diff(ladder.place).tolist() == [len(inside) for inside, _ in wanted]


@pytest.mark.parametrize("releasable", [UNITS, UNITS - 3])
def test_means_over_leaves_are_those_of_their_grid_points(releasable: int) -> None:
    """Leaves of several runs, and some that hold grid points that no released row may have."""
    axis = Axis("a", sd.Integer(0, UNITS - 1), np.array([0, 3, 4, 9, UNITS - 2]), np.array([0, 2, 0, 1, 2]))
    values = np.random.default_rng(0).normal(size=releasable)
    leaf = axis.cells_of(np.arange(releasable, dtype=np.uint32))
    wanted = [values[leaf == cell].sum() / axis.width[cell] for cell in range(axis.size)]
    assert leaf_means(axis, values) == pytest.approx(np.array(wanted))


@pytest.mark.parametrize("seed", range(5))
def test_a_ladder_gives_the_quantiles_of_rows_that_are_spread_over_units(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = np.sort(rng.integers(0, 6, UNITS))
    groups[rng.random(UNITS) < 0.2] = -1
    ladder = Ladder.of(groups, np.arange(UNITS))
    mass = rng.random(len(ladder.groups))
    cumulative = np.append(0.0, np.cumsum(mass) / mass.sum())
    of_unit = np.zeros(UNITS)
    for group, part in zip(ladder.groups, mass / mass.sum(), strict=True):
        of_unit[groups == group] = part / (groups == group).sum()
    shares = np.linspace(0.01, 0.99, 33)
    wanted = [int(np.flatnonzero(np.cumsum(of_unit) > share)[0]) for share in shares]
    assert ladder.at(cumulative, shares) == pytest.approx(wanted, abs=1)
    assert ladder.at(cumulative, np.array([-1.0, 2.0])).tolist() == [
        np.flatnonzero(groups >= 0)[0],
        np.flatnonzero(groups >= 0)[-1],
    ]
