"""The Chebyshev tensor: its features, and its sensitivities against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from synthdp.domain.domain import Domain, axis_of
from synthdp.errors import ParameterError
from synthdp.queries.protocol import LinearQueries
from synthdp.queries.trigonometric import TensorBasis, tensor_terms
from synthdp.schema.columns import Categorical, Continuous, Integer
from synthdp.works.smooth.chebyshev import AverageMoment, ChebyshevTensor, TensorWithMisfits

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


@pytest.mark.parametrize(("d", "t"), [(1, 2), (1, 3), (1, 6), (2, 2), (2, 3), (3, 2)])
def test_with_counts_of_misfits_no_swap_exceeds_the_declared_bounds(d, t):
    domain = Domain(tuple(axis_of(f"x{j}", Integer(0, 2, nullable=True), bins=3) for j in range(d)))
    asked = TensorWithMisfits(ChebyshevTensor(domain, t))
    assert len(asked.cells) == d
    l1, l2_squared, linf = largest_change(asked.features(all_codes(domain)))
    assert l1 <= asked.bounds.swap.l1
    assert l2_squared <= asked.bounds.swap.l2_squared
    assert linf <= asked.bounds.swap.linf


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
    with pytest.raises(ParameterError, match=r"\bt\b.*\b1\b"):
        ChebyshevTensor(grid(1, 4), 1)
    with pytest.raises(ParameterError, match="1048576"):
        ChebyshevTensor(grid(20, 2), 2)
    nominal = Domain((axis_of("c", Categorical(["a", "b"])),))
    with pytest.raises(ParameterError, match="'c'"):
        ChebyshevTensor(nominal, 2)
    with pytest.raises(ParameterError, match="domain"):
        AverageMoment(nominal)
    assert ChebyshevTensor(Domain((axis_of("i", Integer(0, 3)),)), 2).k == 1
