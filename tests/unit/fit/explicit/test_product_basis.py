"""Product bases and pricing, against brute force over every grid point."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from synthdp.errors import ParameterError
from synthdp.fit.explicit.pricing import CoordinateAscent, Enumeration, ProductBasis, uniform_codes
from synthdp.randomness import generator


def random_basis(seed: int, *, shape: tuple[int, ...], k: int, order: int) -> ProductBasis:
    rng = np.random.default_rng(seed)
    terms = []
    for _ in range(k):
        columns = rng.choice(len(shape), size=rng.integers(0, min(order, len(shape)) + 1), replace=False)
        terms.append({int(j): rng.normal(size=shape[j]) for j in columns})
    return ProductBasis(axes=tuple(np.linspace(-1, 1, size) for size in shape), terms=tuple(terms))


def every_point(shape: tuple[int, ...]) -> np.ndarray:
    return np.stack(np.unravel_index(np.arange(math.prod(shape)), shape), axis=1)


@st.composite
def bases(draw, *, order: int = 3) -> ProductBasis:
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    return random_basis(draw(st.integers(0, 2**32)), shape=shape, k=draw(st.integers(1, 8)), order=order)


def dual_vector(basis: ProductBasis) -> np.ndarray:
    return np.random.default_rng(basis.k).uniform(-1, 1, basis.k)


def price(pricer, basis, y, *, threshold=-math.inf, count=32, seed=0):
    incumbents = uniform_codes(basis.shape, 5, rng=generator(seed))
    return pricer.price(basis, y, incumbents=incumbents, threshold=threshold, count=count, rng=generator(seed))


@given(basis=bases())
def test_a_feature_is_the_product_of_its_columns_tables(basis):
    codes = every_point(basis.shape)
    expected = [
        [math.prod(table[code[j]] for j, table in term.items()) for code in codes.tolist()] for term in basis.terms
    ]
    np.testing.assert_allclose(basis.features(codes), expected, atol=1e-12)


@given(basis=bases(), count=st.integers(1, 40))
def test_enumeration_finds_the_maximum_and_proves_it(basis, count):
    y = dual_vector(basis)
    scores = y @ basis.features(every_point(basis.shape))
    priced = price(Enumeration(), basis, y, count=count)
    assert priced.bound == pytest.approx(scores.max(), abs=1e-12)
    np.testing.assert_allclose(priced.scores, y @ basis.features(priced.codes), atol=1e-12)
    assert (np.diff(priced.scores) <= 0).all()
    assert priced.codes.shape[0] <= count
    assert np.unique(priced.codes, axis=0).shape == priced.codes.shape


def test_enumeration_in_chunks_is_the_same(monkeypatch):
    basis = random_basis(4, shape=(7, 6, 5), k=10, order=3)
    whole = price(Enumeration(), basis, dual_vector(basis))
    monkeypatch.setattr("synthdp.fit.explicit.pricing._CHUNK", 10)
    chunked = price(Enumeration(), basis, dual_vector(basis))
    np.testing.assert_array_equal(whole.codes, chunked.codes)


def test_enumeration_refuses_a_grid_beyond_its_limit():
    basis = random_basis(0, shape=(10, 10), k=2, order=1)
    with pytest.raises(ParameterError, match="max_points"):
        price(Enumeration(max_points=99), basis, np.ones(2))


@given(basis=bases())
def test_coordinate_ascent_ends_in_points_that_no_single_column_improves(basis):
    y = dual_vector(basis)
    priced = price(CoordinateAscent(restarts=8), basis, y)
    assert priced.bound == math.inf
    np.testing.assert_allclose(priced.scores, y @ basis.features(priced.codes), atol=1e-12)
    for j, size in enumerate(basis.shape):
        moved = np.repeat(priced.codes, size, axis=0)
        moved[:, j] = np.tile(np.arange(size), priced.codes.shape[0])
        line = (y @ basis.features(moved)).reshape(-1, size)
        np.testing.assert_allclose(line.max(axis=1), priced.scores, atol=1e-9)


def test_coordinate_ascent_finds_the_maximum_of_separable_scores():
    basis = random_basis(6, shape=(9,) * 12, k=30, order=1)
    y = dual_vector(basis)
    best = sum(
        max(sum(w * term[j][a] for w, term in zip(y, basis.terms, strict=True) if j in term) for a in range(9))
        for j in range(12)
    )
    constant = sum(w for w, term in zip(y, basis.terms, strict=True) if not term)
    assert price(CoordinateAscent(restarts=1), basis, y).scores[0] == pytest.approx(best + constant)


@pytest.mark.parametrize(
    ("axes", "terms", "message"),
    [
        ((), ({},), "axes.*terms"),
        ((np.arange(2),), (), "axes.*terms"),
        ((np.empty(0),), ({},), "axis 0"),
        ((np.arange(2),), ({1: np.ones(2)},), "term 0.*column 1"),
        ((np.arange(2),), ({0: np.ones(3)},), "term 0.*column 0.*shape"),
        ((np.arange(2),), ({0: np.array([1.0, np.nan])},), "term 0.*column 0.*finite"),
    ],
)
def test_a_malformed_basis_is_refused(axes, terms, message):
    with pytest.raises(ParameterError, match=message):
        ProductBasis(axes=axes, terms=terms)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CoordinateAscent(restarts=0), "restarts"),
        (lambda: CoordinateAscent(max_sweeps=0), "max_sweeps"),
    ],
)
def test_a_setting_outside_its_range_is_refused(make, message):
    with pytest.raises(ParameterError, match=message):
        make()
