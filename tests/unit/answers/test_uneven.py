"""Within a leaf and between leaves: unevenness by Polya's law, groups and quantiles by brute force over units."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

import synthdp as sd
from synthdp.answers.answers import NORMAL
from synthdp.answers.grouping import QuestionBinning, leaf_means, leaf_shares, runs_of
from synthdp.answers.leaves import (
    Histogram,
    cut_point_mass_errors,
    effective_counts,
    gls_fine_bins,
    intraclass_correlation,
)
from synthdp.answers.one_column import SortedSupport, count_in_bins, quantile_intervals, share_in_bins
from synthdp.domain.axis import Axis
from synthdp.domain.refinement import Refinement

UNITS = 400
COLUMN = sd.Integer(0, UNITS - 1)
AXIS = Axis("x", COLUMN, np.arange(0, UNITS, 10), np.arange(UNITS // 10))


def counted(counts: np.ndarray, noise: float) -> object:
    return gls_fine_bins([Histogram(np.arange(len(counts)), counts, noise)])


def test_rows_that_lie_evenly_have_no_unevenness() -> None:
    rng = np.random.default_rng(0)
    counts = np.bincount(rng.integers(UNITS // 10, size=20_000), minlength=UNITS // 10)
    assert intraclass_correlation(counted(counts + rng.normal(0, 30, len(counts)), 30.0), AXIS) < 0.01


def test_rows_of_polyas_law_have_the_unevenness_of_the_law() -> None:
    rng, law = np.random.default_rng(1), 0.1
    shape = (1 / law - 1) / 2
    found = []
    for _ in range(50):
        parts = rng.beta(shape, shape, UNITS // 20)
        counts = np.ravel(np.column_stack([1000 * parts, 1000 * (1 - parts)]))
        pairs = Axis("x", COLUMN, np.arange(0, UNITS, 10), np.arange(UNITS // 10))
        found.append(intraclass_correlation(counted(counts + rng.normal(0, 10, len(counts)), 10.0), pairs))
    assert 0.5 * law < np.mean(found) < 1.5 * law


def test_noise_alone_is_no_unevenness() -> None:
    rng = np.random.default_rng(2)
    found = [intraclass_correlation(counted(100 + rng.normal(0, 50, UNITS // 10), 50.0), AXIS) for _ in range(50)]
    assert np.mean(found) < 0.05


def test_one_heap_in_each_leaf_that_has_rows_is_all_the_unevenness_there_is() -> None:
    rng = np.random.default_rng(4)
    counts = np.zeros(UNITS // 10)
    counts[::2] = 500.0
    found = [intraclass_correlation(counted(counts + rng.normal(0, 60, len(counts)), 60.0), AXIS) for _ in range(50)]
    assert np.mean(found) > 0.9


@pytest.mark.sampled
@pytest.mark.parametrize("low", range(1, 10))
@pytest.mark.parametrize("high", range(1, 10))
def test_a_heap_beside_a_cut_is_within_the_error_wherever_it_lies(low: int, high: int) -> None:
    """All places of the heaps of two leaves that are cut: the error of one is not more than that of all."""
    rows, inside = np.array([100.0, 50.0, 300.0]), np.array([low / 10, 1.0, high / 10])
    error = cut_point_mass_errors(sparse.csr_array(inside[None, :]), counted(rows, 1e-6), 1.0)[0]
    of_first, of_last = (
        np.abs(np.array([0.0, 1.0]) - part) * n for part, n in zip(inside[[0, 2]], rows[[0, 2]], strict=True)
    )
    assert error == pytest.approx(np.hypot(of_first.max(), of_last.max()), rel=1e-6)


@pytest.mark.parametrize("part", [0.0, 1.0])
def test_leaves_that_are_not_cut_have_no_error_of_heaps(part: float) -> None:
    leaf = counted(np.array([1000.0]), 1.0)
    assert cut_point_mass_errors(sparse.csr_array(np.array([[part]])), leaf, 1.0).tolist() == [0.0]


def test_heaped_shares_put_each_cut_leaf_on_one_side_and_leave_the_others() -> None:
    """Of two leaves, one is cut three to seven: its rows are all in one group, then all in the other."""
    refinement = Refinement(AXIS, np.arange(AXIS.size) // 2, np.arange(1.0, AXIS.size + 1))
    grouping = QuestionBinning(
        column=0, groups=(np.arange(UNITS) >= 13).astype(np.int64), labels=(0, 1), refinement=refinement
    )
    heaped = grouping.heaped()
    assert heaped is not None
    larger, smaller = heaped
    assert grouping.cell_share[0] == pytest.approx([1 / 3 + 2 / 3 * 0.3, 2 / 3 * 0.7])
    assert larger[0] == pytest.approx([1 / 3, 2 / 3])
    assert smaller[0] == pytest.approx([1.0, 0.0])
    assert larger[1:] == pytest.approx(grouping.cell_share[1:])
    assert smaller[1:] == pytest.approx(grouping.cell_share[1:])


def test_groups_that_cut_no_leaf_have_no_heaped_shares() -> None:
    grouping = QuestionBinning(
        column=0, groups=np.arange(UNITS) // 10, labels=tuple(range(40)), refinement=Refinement.trivial(AXIS)
    )
    assert grouping.heaped() is None


class _Counted:
    """A column with a heap in every other leaf, known exactly."""

    def leaves(self, column: int) -> object:
        counts = np.zeros(AXIS.size)
        counts[::2] = 1000.0
        return counted(counts, 1e-3)

    def uneven(self, column: int) -> float:
        return intraclass_correlation(self.leaves(column), AXIS)


@pytest.mark.parametrize("place", range(10))
def test_a_condition_that_cuts_through_heaps_is_held_wherever_they_lie(place: int) -> None:
    """Every cut of a leaf: x >= cut, where the rows of the leaf lie all at one place."""
    for cut in range(100, 110):
        shares = leaf_shares(AXIS, (np.arange(UNITS) >= cut).astype(np.int64), 2).T[[1]]
        estimate, stddev = count_in_bins(_Counted(), 0, shares)
        truth = 1000 * (UNITS // 20 - 6 + (100 + place >= cut)) + 0.0
        assert abs(estimate[0] - truth) <= NORMAL * stddev[0] + 1
        assert NORMAL * stddev[0] <= 1001


class _Together:
    """Levels that are counted together, ten in a bin: noisy counts of the bins."""

    def __init__(self, rows: np.ndarray, noise: float, rng: np.random.Generator) -> None:
        column = sd.Categorical([f"c{i:03d}" for i in range(10 * len(rows))])
        axis = Axis("c", column, np.arange(0, 10 * len(rows), 10), np.arange(len(rows)))
        self.model = SimpleNamespace(refinements=[Refinement.trivial(axis)])
        self.noisy = counted(rows + rng.normal(0, noise, len(rows)), noise)
        self.axis = axis

    def leaves(self, column: int) -> object:
        return self.noisy

    def uneven(self, column: int) -> float:
        return intraclass_correlation(self.noisy, self.axis)


@pytest.mark.landing
@pytest.mark.sampled("landing")
@pytest.mark.parametrize("here", [0.0, 5.0, 20.0, 60.0])
def test_a_level_that_has_all_rows_of_its_bin_is_held_as_often_as_the_noise_allows(here: float) -> None:
    """The rows of a bin may all have one level: its interval ends where that of the bin ends, and not at its noisy count."""
    rng, rows = np.random.default_rng(7), np.array([here, 1000.0, 1000.0])
    held: dict[str, list[bool]] = {"count": [], "share": []}
    level = np.arange(30) == 4
    for _ in range(400):
        known = _Together(rows, 15.0, rng)
        shares = leaf_shares(known.axis, level.astype(np.int64), 2).T[[1]]
        estimate, stddev = count_in_bins(known, 0, shares)
        held["count"].append(abs(estimate[0] - here) <= NORMAL * stddev[0])
        estimate, stddev = share_in_bins(known, 0, np.ones(30, np.bool_), level)
        held["share"].append(abs(estimate[0] - here / rows.sum()) <= NORMAL * stddev[0])
    assert min(np.mean(one) for one in held.values()) > 0.93


@pytest.mark.landing
def test_the_share_of_whole_bins_has_the_error_of_a_ratio() -> None:
    rng, rows = np.random.default_rng(8), np.array([300.0, 500.0, 200.0])
    bins = np.arange(30) < 10
    errors, stddevs = [], []
    for _ in range(2000):
        known = _Together(rows, 15.0, rng)
        estimate, stddev = share_in_bins(known, 0, np.ones(30, np.bool_), bins)
        errors.append(estimate[0] - 0.3)
        stddevs.append(stddev[0])
    assert np.std(errors) == pytest.approx(np.mean(stddevs), rel=0.07)
    nothing = share_in_bins(known, 0, np.zeros(30, np.bool_), bins)
    assert np.isnan(nothing).all()


def test_levels_have_no_neighbours() -> None:
    axis = Axis("c", sd.Categorical(["a", "b", "c", "d"]), np.arange(4), np.arange(4))
    assert intraclass_correlation(counted(np.array([1000.0, 0.0, 500.0, 0.0]), 1.0), axis) == 0.0


@pytest.mark.parametrize(("uneven", "variance"), [(0.0, 25.0), (1.0, 2500.0), (0.5, 1262.5)])
def test_the_variance_of_rows_in_half_a_leaf_is_polyas(uneven: float, variance: float) -> None:
    assert 0.25 * effective_counts(np.array([100.0]), uneven)[0] == pytest.approx(variance)


def test_without_rows_there_is_no_spread() -> None:
    assert effective_counts(np.array([-3.0, 0.0]), 0.7).tolist() == [0.0, 0.0]


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
    grouping = QuestionBinning(
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
    ladder = SortedSupport.of(groups, values)
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
    ladder = SortedSupport.of(groups, np.arange(UNITS))
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


def test_where_rows_lie_within_a_leaf_moves_a_quantile_within_that_leaf() -> None:
    """Of a leaf of one value nothing, of one of many as far as its ends, however unevenly rows may lie."""
    axis = Axis("x", COLUMN, np.array([0, 1, 200]), np.arange(3))
    leaves, inside = counted(np.array([600.0, 300.0, 100.0]), 1e-3), np.ones(UNITS, np.bool_)
    spread = effective_counts(leaves.counts, 1.0)
    found, lower, upper = quantile_intervals(leaves, axis, np.array([0.5, 0.75, 0.95]), inside, spread=spread)
    assert found == pytest.approx([0.0, 100.0, 300.0], abs=1)
    assert lower.tolist() == [0.0, 1.0, 200.0]
    assert upper.tolist() == [0.0, 199.0, 399.0]


@pytest.mark.parametrize("rows", [40, 300, 2000])
def test_intervals_of_quantiles_hold_however_large_the_noise_is(rows: int) -> None:
    """Where noise is larger than the rows below, the noisy distribution function is a random walk that leads astray."""
    rng, noise, runs = np.random.default_rng(rows), 10.0, 200
    bins = Axis("x", sd.Integer(0, 99), np.arange(100), np.arange(100))
    values = np.clip(rng.normal(60, 12, rows).round(), 0, 99).astype(int)
    shares, inside = np.array([0.02, 0.1, 0.5, 0.9, 0.98]), np.ones(100, np.bool_)
    wanted = np.quantile(values, shares, method="inverted_cdf")
    counts = np.bincount(values, minlength=100)
    held = np.zeros(len(shares))
    for _ in range(runs):
        leaves = counted(counts + rng.normal(0, noise, 100), noise)
        found, lower, upper = quantile_intervals(leaves, bins, shares, inside, spread=np.zeros(100))
        assert (lower <= found).all()
        assert (found <= upper).all()
        held += (lower <= wanted) & (wanted <= upper)
    assert (held / runs > 0.95 - 3 * np.sqrt(0.95 * 0.05 / runs)).all(), held / runs


def test_intervals_of_quantiles_become_short_as_noise_becomes_small() -> None:
    counts, values = np.full(100, 50.0), sd.Integer(0, 99)
    leaves = counted(counts, 1e-3)
    bins = Axis("x", values, np.arange(100), np.arange(100))
    shares = np.array([0.105, 0.5025, 0.895])
    _, lower, upper = quantile_intervals(leaves, bins, shares, np.ones(100, np.bool_), spread=np.zeros(100))
    assert lower.tolist() == upper.tolist() == [10.0, 50.0, 89.0]
