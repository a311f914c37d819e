"""Parities and monomials of few bits: counted exactly, with exact sensitivities."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from synthdp import Boolean, Categorical, Integer, Schema
from synthdp.domain.domain import universe
from synthdp.errors import ParameterError
from synthdp.queries.norms import Norms
from synthdp.queries.protocol import LinearQueries
from synthdp.works.polynomials import parities
from synthdp.works.polynomials.binarized import Binarized, binarize
from synthdp.works.polynomials.monomial_release import Monomials
from synthdp.works.polynomials.parities import Parities
from synthdp.works.polynomials.polynomials import fourier_coefficients, krawtchouk, odd_overlaps, ranks, subsets_of


def binary(d: int) -> Binarized:
    return binarize(Schema({f"b{j}": Boolean() for j in range(d)}))


def cells(bits: Binarized) -> np.ndarray:
    """Every combination of the bits that a row can have."""
    rows = universe(bits.domain)
    return rows[np.unique(bits.matrix(rows), axis=0, return_index=True)[1]]


def largest_changes(statistic: LinearQueries, rows: np.ndarray) -> tuple[Norms, Norms]:
    features = statistic.features(rows)
    pairs = np.abs(features[:, None, :] - features[None, :, :]).reshape(-1, statistic.k)
    return norms(np.abs(features)), norms(pairs)


def norms(vectors: np.ndarray) -> Norms:
    return Norms(int(vectors.sum(axis=1).max()), int((vectors**2).sum(axis=1).max()), int(vectors.max()))


@pytest.mark.parametrize("d", range(1, 8))
@pytest.mark.parametrize("order", [1, 2, 3, 5, 7])
def test_the_bounds_of_parities_are_the_largest_changes(d, order):
    bits = binary(d)
    scales = (0, 7, 3, 2, 1, 5, 4, 1)[: min(order, d) + 1]
    for chosen in (scales, (2, *scales[1:]), (1,) * len(scales)):
        parities = Parities(bits, chosen)
        assert (parities.bounds.one, parities.bounds.swap) == largest_changes(parities, cells(bits))


def test_the_bounds_of_parities_are_exact_where_a_swap_cannot_flip_every_bit():
    bits = binarize(Schema({"c": Categorical(["x", "y", "z"]), "b": Boolean(nullable=True), "i": Integer(0, 1)}))
    assert bits.d == 7
    for scales in ((1, 1, 1), (0, 5, 2, 1), (0, 1, 9)):
        parities = Parities(bits, scales)
        assert (parities.bounds.one, parities.bounds.swap) == largest_changes(parities, cells(bits))


@pytest.mark.parametrize("d", range(1, 8))
@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_bounds_of_monomials_are_the_largest_changes(d, order):
    monomials = Monomials(binary(d), min(order, d))
    one, swap = largest_changes(monomials, cells(monomials.bits))
    assert (monomials.bounds.one, monomials.bounds.swap) == (one, swap)


@pytest.mark.parametrize(("n", "d", "order"), [(1, 3, 3), (64, 5, 2), (65, 9, 4), (1000, 12, 3), (700, 22, 2)])
def test_sums_by_popcounts_are_the_sums_of_the_features(n, d, order):
    codes = np.random.default_rng(n).integers(0, 3, (n, d)).astype(np.uint8)
    for statistic in (Parities(binary(d), (3, *range(1, order + 1))), Monomials(binary(d), order)):
        np.testing.assert_array_equal(statistic.sums(codes), statistic.features(codes).sum(axis=0))
        assert statistic.sums(codes).dtype == np.int64
        assert len(statistic.sums(codes)) == statistic.k


@pytest.mark.parametrize("order", [7, 14])
def test_a_table_of_cells_and_popcounts_count_the_same(order, monkeypatch):
    columns = list(np.random.default_rng(0).random((14, 5000)) < 0.3)
    assert parities._cells_are_cheaper(parities.pack(columns), order)
    by_cells = parities.odd_counts(columns, order=order)
    monkeypatch.setattr(parities, "CELL_BITS", 0)
    for a, b in zip(by_cells, parities.odd_counts(columns, order=order), strict=True):
        np.testing.assert_array_equal(a, b)


def test_counts_do_not_depend_on_how_the_words_are_cut(monkeypatch):
    columns = [np.ones(64 * 40 + 3, np.bool_), *(np.random.default_rng(1).random((4, 64 * 40 + 3)) < 0.9)]
    monkeypatch.setattr(parities, "CELL_BITS", 0)
    whole = parities.odd_counts(columns, order=3)
    monkeypatch.setattr(parities, "CHUNK_WORDS", 7)
    for a, b in zip(whole, parities.odd_counts(columns, order=3), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_full_chunk_of_ones_is_counted_without_overflow():
    rows = 64 * parities.CHUNK_WORDS
    columns = [np.ones(rows, np.bool_)] * 2
    assert [count.tolist() for count in parities.all_ones_counts(columns, order=2)] == [[rows], [rows] * 2, [rows]]


@given(st.integers(1, 9).flatmap(lambda d: st.tuples(st.just(d), st.integers(0, d))))
def test_ranks_number_the_subsets_in_order(pair):
    d, size = pair
    np.testing.assert_array_equal(ranks(subsets_of(d, size), d), np.arange(math.comb(d, size)))


@pytest.mark.parametrize("k", range(1, 9))
def test_krawtchouk_sums_the_parities_of_a_level(k):
    bits = (np.arange(2**k)[:, None] >> np.arange(k)) & 1
    signs = 1 - 2 * bits
    for i in range(k + 1):
        total = signs[:, subsets_of(k, i)].prod(axis=2).sum(axis=1)
        np.testing.assert_array_equal(total, krawtchouk(k, k)[bits.sum(axis=1), i])


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=10))
def test_fourier_coefficients_give_the_function_back(values):
    k = len(values) - 1
    np.testing.assert_allclose(krawtchouk(k, k) @ fourier_coefficients(values), values, atol=1e-12)


def test_odd_overlaps_count_the_subsets_that_meet_the_flipped_bits_in_an_odd_number():
    d = 6
    for f, row in zip(range(1, d + 1), odd_overlaps(d, 4, range(1, d + 1)), strict=True):
        counted = [sum(len({*s} & {*range(f)}) % 2 for s in itertools.combinations(range(d), i)) for i in range(5)]
        assert row == counted


def test_a_parity_statistic_refuses_bad_settings():
    with pytest.raises(ParameterError, match="order"):
        Parities(binary(2), (1, 1, 1, 1))
    with pytest.raises(ParameterError, match="scales"):
        Parities(binary(2), (1, 0, 0))
    with pytest.raises(ParameterError, match="scales"):
        Parities(binary(2), (1, -1, 2))
    with pytest.raises(ParameterError, match="order"):
        Monomials(binary(2), 0)
