"""The Chebyshev tensor: its features, and its sensitivities against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from synthdp.domain.discretize import axis_of
from synthdp.domain.domain import Domain
from synthdp.errors import ParameterError
from synthdp.queries.protocol import LinearQueries
from synthdp.queries.smooth.chebyshev import (
    AverageMoment,
    ChebyshevTensor,
    least_kernel,
    moments_swap,
    tensor_swap,
    tensor_swap_l2_squared,
)
from synthdp.queries.smooth.trigonometric import Cosine, Indicator, TensorBasis, tensor_terms
from synthdp.schema.columns import Categorical, Continuous, Integer

DENOMINATOR = 2**24


def grid(d: int, cells: int, *, nullable: bool = False) -> Domain:
    return Domain(tuple(axis_of(f"x{j}", Continuous(-1, 1, nullable=nullable), bins=cells) for j in range(d)))


def all_codes(domain: Domain) -> np.ndarray:
    return np.indices(domain.shape).reshape(len(domain), -1).T


def largest_change(features: np.ndarray) -> tuple[int, int, int]:
    """L1, squared L2 and maximum norm of the largest difference of two rows."""
    gaps = np.abs(features[:, None, :] - features[None, :, :])
    return int(gaps.sum(axis=2).max()), int((gaps.astype(object) ** 2).sum(axis=2).max()), int(gaps.max())


def test_the_tensor_is_the_product_of_cosines_in_c_order():
    domain = grid(3, 5, nullable=True)
    codes = all_codes(domain)
    reference = TensorBasis(domain, tensor_terms(range(3), 4))
    tensor = ChebyshevTensor(domain, 4)
    assert isinstance(tensor, LinearQueries)
    assert tensor.k == reference.k == 63
    np.testing.assert_allclose(tensor.real_features(codes), reference.real_features(codes), atol=1e-12)


def test_sums_add_up_the_rounded_features():
    domain = grid(2, 7)
    codes = all_codes(domain)
    tensor = ChebyshevTensor(domain, 3)
    np.testing.assert_array_equal(tensor.sums(codes), tensor.features(codes).sum(axis=0))
    np.testing.assert_array_equal(tensor.finish(tensor.sums(codes)), tensor.sums(codes))


@settings(max_examples=25)
@given(d=st.integers(1, 3), t=st.integers(2, 5), cells=st.integers(1, 4), nullable=st.booleans())
def test_no_record_and_no_swap_exceeds_the_declared_bounds(d, t, cells, nullable):
    domain = grid(d, cells, nullable=nullable)
    tensor = ChebyshevTensor(domain, t)
    features = tensor.features(all_codes(domain))
    one, swap = tensor.bounds.one, tensor.bounds.swap
    assert np.abs(features).sum(axis=1).max() <= one.l1
    assert (features.astype(object) ** 2).sum(axis=1).max() <= one.l2_squared
    assert np.abs(features).max() <= one.linf
    l1, l2_squared, linf = largest_change(features)
    assert l1 <= swap.l1
    assert l2_squared <= swap.l2_squared
    assert linf <= swap.linf


def real_change(t: int) -> tuple[float, float]:
    """L1 and squared L2 norm of the largest change in one dimension, on a fine grid that holds both ends."""
    table = np.cos(np.linspace(0, np.pi, 361)[:, None] * np.arange(1, t))
    gaps = table[:, None, :] - table[None, :, :]
    return np.abs(gaps).sum(axis=2).max(), (gaps**2).sum(axis=2).max()


@pytest.mark.parametrize("t", [2, 3, 8, 32])
def test_in_one_dimension_the_swap_bounds_hold_on_a_fine_grid(t):
    l1, l2_squared = real_change(t)
    bound = tensor_swap(t, 1, denominator=DENOMINATOR)
    assert l1 * DENOMINATOR <= bound.l1
    assert 0.75 * bound.l2_squared <= l2_squared * DENOMINATOR**2 <= bound.l2_squared


@pytest.mark.parametrize(("t", "times"), [(3, 1.041), (32, 1.19)])
def test_the_printed_l1_sensitivity_is_too_small_from_three_degrees_on(t, times):
    assert times * t < real_change(t)[0] < 1.21 * t


@pytest.mark.parametrize("d", [1, 2, 3])
def test_with_two_degrees_the_l2_bound_is_exact(d):
    corners = np.array(list(itertools.product([-1.0, 1.0], repeat=d)))
    products = np.array([[np.prod(x[list(s)]) for s in subsets(d)] for x in corners])
    gaps = ((products[:, None] - products[None]) ** 2).sum(axis=2)
    assert tensor_swap_l2_squared(2, d) == pytest.approx(gaps.max(), rel=1e-3)


def subsets(d: int) -> list[tuple[int, ...]]:
    return [s for size in range(1, d + 1) for s in itertools.combinations(range(d), size)]


@pytest.mark.parametrize("t", [4, 16, 64])
def test_the_l2_bound_beats_the_naive_one(t):
    assert tensor_swap_l2_squared(t, 2) < 0.68 * 4 * (t**2 - 1)


@pytest.mark.parametrize("t", [2, 3, 5, 17, 50])
def test_the_least_kernel_is_a_close_upper_bound(t):
    x = np.cos(np.linspace(0, np.pi, 1501))
    table = np.cos(np.arccos(x)[:, None] * np.arange(t))
    least = max(0.0, -(table @ table[::5].T).min())
    assert least <= least_kernel(t) <= least + 1e-3 * t


def pair_features(points: int) -> np.ndarray:
    x = np.linspace(-1, 1, points)
    return np.column_stack([x, 2 * x**2 - 1])


def test_the_constants_of_two_moments_are_exact():
    gaps = np.abs(pair_features(801)[:, None] - pair_features(801)[None])
    l1, l2_squared = gaps.sum(axis=2).max(), (gaps**2).sum(axis=2).max()
    bound = moments_swap(2, 1, denominator=DENOMINATOR)
    assert l1 == pytest.approx(3.125, abs=1e-4)
    assert l2_squared == pytest.approx(5.1446, abs=1e-4)
    assert l1 <= bound.l1 / DENOMINATOR <= l1 + 1e-4
    assert l2_squared <= bound.l2_squared / DENOMINATOR**2 <= l2_squared + 1e-4


def test_the_constants_of_two_moments_add_up_over_columns():
    one, five = moments_swap(2, 1, denominator=DENOMINATOR), moments_swap(2, 5, denominator=DENOMINATOR)
    assert five.l1 / one.l1 == pytest.approx(5)
    assert five.l2_squared / one.l2_squared == pytest.approx(5)
    assert five.linf == one.linf == 2 * DENOMINATOR


@pytest.mark.parametrize("p", [1, 2, 3, 6])
def test_the_bounds_of_moments_hold_with_missing_and_special_cells(p):
    axis = axis_of("x", Continuous(-1, 1, nullable=True, special=(9.0,)), bins=61)
    domain = Domain((axis,))
    pointless = [(Indicator(0, 61),), (Indicator(0, 62),)]
    terms = [(Cosine(0, m),) for m in range(1, p + 1)] + pointless
    features = TensorBasis(domain, tuple(terms), denominator=DENOMINATOR).features(all_codes(domain))
    l1, l2_squared, linf = largest_change(features)
    bound = moments_swap(p, 1, denominator=DENOMINATOR)
    assert l1 <= bound.l1
    assert l2_squared <= bound.l2_squared
    assert linf <= bound.linf


def test_the_average_moment_is_the_mean_over_columns_and_stays_within_its_bounds():
    domain = grid(3, 4, nullable=True)
    codes = all_codes(domain)
    points = np.column_stack([axis.points[codes[:, j]] for j, axis in enumerate(domain.axes)])
    expected = np.where(np.isnan(points), 0.0, 2 * points**2 - 1).mean(axis=1)
    moment = AverageMoment(domain)
    features = moment.features(codes)
    np.testing.assert_allclose(features[:, 0] / moment.denominator, expected, atol=1e-7)
    assert np.abs(features).max() <= moment.bounds.one.linf
    assert largest_change(features)[0] <= moment.bounds.swap.l1
    np.testing.assert_array_equal(moment.finish(moment.sums(codes)), features.sum(axis=0))


def test_settings_out_of_range_are_refused():
    with pytest.raises(ParameterError, match=r"t \(1\) must be a whole number of at least 2"):
        ChebyshevTensor(grid(1, 4), 1)
    with pytest.raises(ParameterError, match="1048576 terms; at most 1000000"):
        ChebyshevTensor(grid(20, 2), 2)
    nominal = Domain((axis_of("c", Categorical(["a", "b"])),))
    with pytest.raises(ParameterError, match="'c' has no order"):
        ChebyshevTensor(nominal, 2)
    with pytest.raises(ParameterError, match="ordered columns"):
        AverageMoment(nominal)
    assert ChebyshevTensor(Domain((axis_of("i", Integer(0, 3)),)), 2).k == 1
