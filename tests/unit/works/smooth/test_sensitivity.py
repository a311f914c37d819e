"""How far Chebyshev sums move when a record is replaced: the proven constants against brute force."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from synthdp.domain.domain import Domain, axis_of
from synthdp.queries.trigonometric import Cosine, Indicator, TensorBasis
from synthdp.schema.columns import Continuous
from synthdp.works.smooth.chebyshev import (
    ChebyshevTensor,
    chebyshev_table,
    degree_scales,
    largest_square,
    least_kernel,
    moments_swap,
    swap_by_degree,
    tensor_swap,
    tensor_swap_l1,
    tensor_swap_l2_squared,
)

DENOMINATOR = 2**24


def searched(t: int) -> tuple[float, float]:
    """Largest L1 and squared L2 change of one column, by branch and bound: no pair of points exceeds either by 1e-6.

    The change under the best signs is a trigonometric polynomial of degree t - 1 in each of two angles (twice that for
    the square), so that next to a maximum M it is at least M cos((t - 1) r), or M cos^2(2 (t - 1) r), in a box of
    half-width r (Riesz): a box whose middle is lower holds no maximum.
    """
    l1 = branch_and_bound(lambda gap: np.abs(gap).sum(axis=1), lambda r: math.cos((t - 1) * r), t)
    return l1, branch_and_bound(lambda gap: (gap**2).sum(axis=1), lambda r: math.cos(2 * (t - 1) * r) ** 2, t)


def branch_and_bound(norm, near, t: int) -> float:
    count = 8 * t
    radius = math.pi / count / 2
    middles = (np.arange(count) + 0.5) * 2 * radius
    a, b = (side.ravel() for side in np.meshgrid(middles, middles))
    best = 0.0
    while near(radius) < 1 - 1e-6:
        values = norm(np.cos(a[:, None] * np.arange(1, t)) - np.cos(b[:, None] * np.arange(1, t)))
        best = max(best, float(values.max()))
        kept = values >= best * near(radius)
        a, b, radius = a[kept], b[kept], radius / 2
        a = np.concatenate([a - radius, a - radius, a + radius, a + radius])
        b = np.concatenate([b - radius, b + radius, b - radius, b + radius])
    return best


@pytest.mark.parametrize("t", [2, 3, 4, 5, 8, 13, 20])
def test_in_one_column_the_largest_change_is_the_one_that_a_search_of_all_pairs_finds(t):
    l1, l2_squared = searched(t)
    assert tensor_swap_l1(t, 1) == pytest.approx(l1, rel=5e-6)
    assert tensor_swap_l2_squared(t, 1) == pytest.approx(l2_squared, rel=5e-6)


def changes(t: int, d: int, angles: int) -> tuple[float, float]:
    """Largest L1 and squared L2 change of the tensor between any two points of a grid with both ends."""
    table = chebyshev_table(np.cos(np.linspace(0, np.pi, angles)), t)
    features = np.ones((1, 1))
    for _ in range(d):
        features = np.einsum("np,mq->nmpq", features, table).reshape(len(features) * angles, -1)
    l1 = max(np.abs(features - row).sum(axis=1).max() for row in features)
    squares = (features**2).sum(axis=1)
    return float(l1), float((squares[:, None] + squares[None] - 2 * features @ features.T).max())


@pytest.mark.parametrize(("t", "d", "angles"), [(2, 2, 9), (3, 2, 25), (4, 2, 25), (5, 2, 21), (2, 3, 5), (3, 3, 9)])
def test_no_pair_of_points_of_a_grid_exceeds_the_bounds_of_several_columns(t, d, angles):
    l1, l2_squared = changes(t, d, angles)
    assert 0.98 * tensor_swap_l1(t, d) <= l1 <= tensor_swap_l1(t, d)
    assert (1 - t**-d) * tensor_swap_l2_squared(t, d) * (1 - 1e-4) <= l2_squared <= tensor_swap_l2_squared(t, d)


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("t", [2, 4, 10, 64, 2000])
def test_for_an_even_number_of_degrees_two_opposite_corners_attain_the_l2_bound(t, d):
    assert 2 * t**d <= tensor_swap_l2_squared(t, d) <= 2 * t**d * (1 + 4e-4)


@pytest.mark.parametrize(("t", "times"), [(3, 1.0416), (32, 1.198)])
def test_the_printed_l1_sensitivity_is_too_small_from_three_degrees_on(t, times):
    opposite = chebyshev_table(np.cos(np.linspace(0, np.pi, 4000)), t)
    assert times * t < np.abs(opposite - 1).sum(axis=1).max() <= tensor_swap_l1(t, 1)


@pytest.mark.parametrize("t", [2, 3, 5, 17, 50])
def test_the_least_kernel_is_a_close_upper_bound(t):
    x = np.cos(np.linspace(0, np.pi, 1501))
    table = chebyshev_table(x, t)
    least = max(0.0, -(table @ table[::5].T).min())
    assert least <= least_kernel(t) <= least + 1e-3 * t


@pytest.mark.parametrize("t", [32, 33, 5000])
def test_for_many_degrees_the_constants_approach_their_limits(t):
    assert least_kernel(t) / t == pytest.approx(0.2172336, abs=1 / t + 2e-4)
    assert largest_square(t) / t == pytest.approx(2, abs=3 / t + 4e-4)


def test_the_constants_of_two_moments_are_those_of_the_closed_form():
    bound = moments_swap(2, 1, denominator=DENOMINATOR)
    assert bound.l1 / DENOMINATOR == pytest.approx(25 / 8, rel=2e-6)
    assert bound.l2_squared / DENOMINATOR**2 == pytest.approx((71 + 8 * math.sqrt(2)) / 16, rel=2e-6)
    assert bound.l1 >= 25 / 8 * DENOMINATOR
    assert bound.l2_squared >= (71 + 8 * math.sqrt(2)) / 16 * DENOMINATOR**2


def test_the_constants_of_moments_add_up_over_columns():
    one, five = moments_swap(2, 1, denominator=DENOMINATOR), moments_swap(2, 5, denominator=DENOMINATOR)
    assert five.l1 / one.l1 == pytest.approx(5)
    assert five.l2_squared / one.l2_squared == pytest.approx(5)
    assert five.linf == one.linf == 2 * DENOMINATOR


@pytest.mark.parametrize("p", [1, 2, 3, 6, 7])
def test_the_bounds_of_moments_hold_with_missing_and_special_cells(p):
    axis = axis_of("x", Continuous(-1, 1, nullable=True, special=(9.0,)), bins=61)
    pointless = [(Indicator(0, 61),), (Indicator(0, 62),)]
    terms = [(Cosine(0, m),) for m in range(1, p + 1)] + pointless
    features = TensorBasis(Domain((axis,)), tuple(terms), denominator=DENOMINATOR).features(
        np.arange(axis.size)[:, None]
    )
    gaps = np.abs(features[:, None, :] - features[None, :, :])
    bound = moments_swap(p, 1, denominator=DENOMINATOR)
    assert gaps.sum(axis=2).max() <= bound.l1
    assert (gaps.astype(object) ** 2).sum(axis=2).max() <= bound.l2_squared
    assert gaps.max() <= bound.linf


def test_rounding_to_few_steps_is_covered():
    x = np.cos(np.linspace(0, np.pi, 61))
    rounded = np.rint(chebyshev_table(x, 5)[:, 1:] * 3).astype(int)
    gaps = [np.abs(a - b) for a, b in itertools.combinations(rounded, 2)]
    bound = tensor_swap(5, 1, denominator=3)
    assert max(gap.sum() for gap in gaps) <= bound.l1
    assert max((gap**2).sum() for gap in gaps) <= bound.l2_squared


@pytest.mark.parametrize("growth", [0.5, 1.0, 2.0, 9.0])
@pytest.mark.parametrize(("t", "d"), [(2, 1), (5, 1), (8, 1), (3, 2), (4, 2)])
def test_no_replaced_row_moves_terms_scaled_by_degree_beyond_their_bounds(t, d, growth):
    """All pairs of points of a grid that has the corners; the widest axis has 2^-10 as its least scale."""
    axes = tuple(axis_of(f"x{j}", Continuous(-1, 1), bins=41 if d == 1 else 13) for j in range(d))
    points = tuple(np.cos(np.linspace(0, np.pi, axis.size)) for axis in axes)
    tensor = ChebyshevTensor(Domain(axes), t, 2**14, points=points, growth=growth)
    features = tensor.features(np.array(list(itertools.product(*(range(axis.size) for axis in axes)))))
    one, swap = tensor.bounds.one, tensor.bounds.swap
    sizes, squares = np.abs(features), features.astype(np.int64) ** 2
    assert (sizes.sum(axis=1).max(), squares.sum(axis=1).max(), sizes.max()) == (one.l1, one.l2_squared, one.linf)
    gaps = np.abs(features[:, None, :] - features[None, :, :])
    assert gaps.max() <= swap.linf
    assert 0.7 * swap.l1 <= gaps.sum(axis=2).max() <= swap.l1
    assert 0.7 * swap.l2_squared <= (gaps**2).sum(axis=2).max() <= swap.l2_squared


def test_scales_of_degrees_fall_to_a_least_one_and_bounds_of_many_degrees_are_those_of_a_few_more():
    assert degree_scales(4, 1.0, denominator=2**12).tolist() == [4096, 4096, 2048, 1365]
    assert degree_scales(100, 3.0, denominator=2**12)[-1] == 2**10
    scales = degree_scales(150, 1.0, denominator=2**24) / 2**24
    exact = sum(
        (scales[s - 1] ** 2 - (scales[s] ** 2 if s < 150 else 0)) * tensor_swap_l2_squared(s, 1) for s in range(2, 151)
    )
    assert exact <= swap_by_degree(scales, 1) <= 1.01 * exact
