"""Exact bounds: they hold for the vectors they are computed from, however large, and refuse what no vector has."""

from __future__ import annotations

import math
from contextlib import suppress
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, strategies as st
from query_cases import bits, mixed, of_sizes, ordered

from synthdp.errors import ParameterError, SensitivityError
from synthdp.queries.distances import MarginalDistances
from synthdp.queries.linear import CellQueries, Subset
from synthdp.queries.marginals import Marginals, one_ways
from synthdp.queries.norms import (
    LARGEST_CHANGE,
    Norms,
    RecordBounds,
    column_norms,
    expectations,
    root_up,
    whole,
    whole_numbers,
)
from synthdp.queries.products import ClippedProducts, PairProducts
from synthdp.queries.protocol import check_overflow, real_answers
from synthdp.queries.trigonometric import Cosine, TensorBasis
from synthdp.works.net.mwem import QueryDistances
from synthdp.works.net.net import NetScores, multisets
from synthdp.works.net.private_boosting import BoostingScores
from synthdp.works.polynomials.parities import Parities
from synthdp.works.smooth.chebyshev import AverageMoment, ChebyshevTensor

SIZES = st.integers(-(2**60), 2**60)
vectors = st.lists(SIZES, min_size=1, max_size=12)


def norms_of(vector):
    size = [abs(int(x)) for x in vector]
    return Norms(sum(size), sum(x * x for x in size), max(size))


def within(vector, bound):
    own = norms_of(vector)
    return (own.l1 <= bound.l1, own.l2_squared <= bound.l2_squared, own.linf <= bound.linf) == (True, True, True)


# Bounds of vectors


@given(vectors, vectors, st.integers(0, 1000))
def test_bounds_of_multiples_of_two_vectors_and_of_either_hold_for_them(one, two, rows):
    a, b = norms_of(one), norms_of(two)
    assert a.times(rows) == norms_of([rows * x for x in one])
    assert a.plus(b) == norms_of([*one, *two])
    assert within(one, a.either(b))
    assert within(two, a.either(b))


@given(st.lists(st.tuples(SIZES, SIZES, SIZES), min_size=1, max_size=6), st.integers(0, 9))
def test_the_least_bounds_that_follow_hold_for_every_vector_they_are_computed_from(rows, slack):
    """Each norm may be that of another vector, and looser."""
    found = [norms_of(column) for column in zip(*rows, strict=True)]
    l1, l2_squared, linf = (max(getattr(one, name) for one in found) for name in ("l1", "l2_squared", "linf"))
    bound = Norms.within(len(rows), linf + slack, l1=l1 + 5 * slack, l2_squared=l2_squared + (linf + slack) ** 2)
    for column in zip(*rows, strict=True):
        assert within(column, bound)
    assert bound.l1**2 <= len(rows) * bound.l2_squared


@pytest.mark.parametrize(
    "norms",
    [
        (10**11, 537, 10**8),  # a thousand changes of 1e8, their squares summed in 64 bits
        (1, 1, 2), (3, 3, 2), (2, 9, 2), (2, 0, 1), (0, 0, 1), (0, 1, 0), (-1, 1, 1), (1, -1, 1), (1, 1, -1),
    ],
)  # fmt: skip
def test_norms_that_no_vector_has_are_refused(norms):
    with pytest.raises((SensitivityError, ParameterError)):
        Norms(*norms)


@given(st.integers(0, 2**70), st.integers(0, 2**130), st.integers(0, 2**65))
@example(1, 0, 1)
def test_norms_are_taken_exactly_where_the_laws_of_norms_allow_them(l1, l2_squared, linf):
    possible = linf <= l1 and linf**2 <= l2_squared <= l1 * linf
    found = []
    with suppress(SensitivityError):
        found.append(Norms(l1, l2_squared, linf))
    assert bool(found) is possible


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.int16, np.int32, np.int64, np.uint64])
def test_numbers_of_any_type_become_python_integers_whose_products_are_exact(kind):
    norms = Norms(kind(100), kind(100), kind(1))
    assert [type(number) for number in (norms.l1, norms.l2_squared, norms.linf)] == [int, int, int]
    assert norms.times(10**9).l2_squared == 10**20
    assert whole("denominator", kind(100)) ** 20 == 10**40


@pytest.mark.parametrize("number", [1.0, np.float64(1), True, np.True_, "1", None, np.ones(2, int), 1j, math.nan])
def test_what_is_no_whole_number_is_no_bound(number):
    with pytest.raises(ParameterError, match="l1"):
        Norms(number, 1, 1)


@pytest.mark.parametrize("swap", [Norms(3, 3, 1), Norms(2, 4, 2).plus(Norms(1, 1, 1)), Norms(3, 9, 3)])
def test_a_replaced_record_moves_at_most_twice_as_much_as_an_added_one(swap):
    with pytest.raises(SensitivityError, match="swap"):
        RecordBounds(Norms(1, 1, 1), swap)


@given(st.integers(0, 2**200) | st.integers(0, 2**60).map(lambda root: root * root))
def test_the_euclidean_norm_is_rounded_up_and_by_no_more_than_one_step(square):
    root = root_up(square)
    assert Fraction(root) ** 2 >= square
    assert Fraction(math.nextafter(root, 0.0)) ** 2 < square or root == 0 or Fraction(math.sqrt(square)) ** 2 >= square


# Columns of a matrix


@given(st.data(), st.integers(1, 40), st.integers(1, 5), st.sampled_from([1, 9, 10**8, LARGEST_CHANGE - 1]))
def test_the_norms_of_columns_are_those_of_python_integers(data, k, m, size):
    numbers = st.sampled_from([0, 1, -1, size, -size, size // 3])
    matrix = np.array(data.draw(st.lists(numbers, min_size=k * m, max_size=k * m))).reshape(k, m)
    tall = np.tile(matrix, (500, 1))
    found = [norms_of(column) for column in matrix.T.tolist()]
    expected = (max(getattr(one, name) for one in found) for name in ("l1", "l2_squared", "linf"))
    l1, l2_squared, linf = expected
    assert column_norms(matrix) == Norms(l1, l2_squared, linf)
    assert column_norms(tall) == Norms(500 * l1, 500 * l2_squared, linf)


@pytest.mark.parametrize("number", [2**31, -(2**31), -(2**63), 2**63 - 1])
def test_columns_whose_squares_do_not_fit_are_refused(number):
    with pytest.raises(SensitivityError, match="denominator"):
        column_norms(np.array([[0, 1], [number, 1]]))


@pytest.mark.parametrize(
    "number",
    [
        np.int64(2**28),
        np.int32(-(2**28)),
        np.int64(-(2**63)),
        np.int64(2**63 - 1),
        np.uint64(2**63),
        np.uint64(2**64 - 9),
    ],
)
def test_a_table_of_numbers_that_do_not_fit_is_refused_whatever_its_type(number):
    with pytest.raises(SensitivityError, match="denominator"):
        CellQueries(ordered(), np.full((2, 20), number))


@pytest.mark.parametrize("cells", ["few", "many"])
@pytest.mark.parametrize("k", [1, 3, 229, 231, 1000])
@pytest.mark.parametrize("denominator", [1, 1000, 10**8, 2**28 - 1])
def test_many_large_queries_have_the_norms_of_python_integers(monkeypatch, k, denominator, cells):
    monkeypatch.setattr("synthdp.queries.linear.EXACT_PAIRS", {"few": 1024, "many": 1}[cells])
    domain = of_sizes(3)
    values = np.zeros((k, 3), np.int64)
    values[:, 0], values[:, 1] = denominator, -denominator
    queries = CellQueries(domain, values, denominator=denominator)
    assert queries.bounds.one == Norms(k * denominator, k * denominator**2, denominator)
    assert queries.bounds.swap == Norms(2 * k * denominator, 4 * k * denominator**2, 2 * denominator)
    half = Subset(queries, np.arange(0, k, 2))
    assert half.bounds.one == Norms.within(half.k, denominator)
    twice = Subset(queries, np.repeat(np.arange(k), 2))
    assert twice.bounds.swap == Norms.within(2 * k, 2 * denominator)


# Settings of narrow types


CELLS = np.arange(4).reshape(1, 4)
SMALL = CellQueries(of_sizes(4), CELLS)
SETTINGS = {
    "a basis": (lambda n: TensorBasis(ordered(), ((Cosine(0, 1),),) * 9, denominator=n), np.int32(2**20)),
    "a tensor": (lambda n: ChebyshevTensor(ordered(), 3, denominator=n), np.int32(2**20)),
    "degrees of a tensor": (lambda n: ChebyshevTensor(ordered(), n), np.int8(12)),
    "an average moment": (lambda n: AverageMoment(ordered(), 2, n), np.int32(2**20)),
    "values of cells": (lambda n: CellQueries(of_sizes(4), CELLS, denominator=n), np.uint8(200)),
    "distances": (lambda n: MarginalDistances(one_ways(mixed()), np.zeros(12, int), n), np.int32(2**20)),
    "distances of queries": (lambda n: QueryDistances(SMALL, np.zeros(1, int), n), np.int32(2**20)),
    "boosting": (lambda n: BoostingScores(SMALL, np.zeros((3, 1), int), 5, 3, n), np.int16(2**14)),
    "a net": (lambda n: NetScores(SMALL, np.arange(4)[:, None], multisets(4, 2), n), np.int8(100)),
    "products": (lambda n: ClippedProducts(mixed(), (np.arange(4),) * 3, n, n), np.int16(256)),
    "some products": (lambda n: PairProducts(mixed(), (np.arange(4),) * 3, ((0, 2),), n, n), np.int16(256)),
    "parities": (lambda n: Parities(_bits(), (n, n)), np.int32(2**20)),
}


def _bits():
    from synthdp.schema.columns import Boolean
    from synthdp.schema.schema import Schema
    from synthdp.works.polynomials.binarized import binarize

    return binarize(Schema({f"b{j}": Boolean() for j in range(3)}))


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_of_a_narrow_type_means_the_same_as_a_python_integer(name):
    make, narrow = SETTINGS[name]
    ours, theirs = make(int(narrow)), make(narrow)
    assert (ours.bounds, ours.denominator, ours.k) == (theirs.bounds, theirs.denominator, theirs.k)
    assert type(theirs.denominator) is int
    codes = np.zeros((2, len(ours.domain)), np.int64)
    np.testing.assert_array_equal(ours.finish(ours.sums(codes)), theirs.finish(theirs.sums(codes)))


@pytest.mark.parametrize("denominator", [0, -1, 1.5, True, 2**62])
@pytest.mark.parametrize("name", ["a basis", "a tensor", "an average moment", "values of cells", "distances"])
def test_a_unit_is_a_whole_number_that_can_be_divided_by(name, denominator):
    with pytest.raises(ParameterError, match="denominator"):
        SETTINGS[name][0](denominator)


def test_answers_are_divided_by_units_beyond_64_bits():
    queries = CellQueries(of_sizes(4), CELLS, denominator=2**61)
    distances = QueryDistances(queries, np.zeros(1, int), 2**20)
    assert real_answers(distances, np.array([2**40])).tolist() == [2.0**-41]


# Numbers from outside


def test_expectations_beyond_any_sum_are_clipped_and_others_kept():
    given_ = np.array([5, -(2**63), 2**63 - 1, -7])
    assert expectations("expected", given_).tolist() == [5, -(2**60), 2**60, -7]
    assert not expectations("expected", given_).flags.writeable


@pytest.mark.parametrize("values", [np.array([0.5]), np.array([2**63], np.uint64), np.array(["1"]), np.array([1j])])
def test_numbers_that_are_not_whole_or_do_not_fit_are_refused(values):
    with pytest.raises(ParameterError, match="scores"):
        whole_numbers("scores", values)


def test_scores_at_the_end_of_64_bits_are_too_large_for_products():
    """The absolute value of the least 64-bit number is negative in 64 bits."""
    scores = (np.array([-(2**63), 1, 0, 0]), np.arange(4), np.arange(4))
    with pytest.raises(SensitivityError, match="scores"):
        ClippedProducts(mixed(), scores, 1, 9)


def test_a_replaced_row_does_not_move_a_table_of_one_cell():
    tables = Marginals(of_sizes(1, 3), ((0,), (0, 1), (0,)))
    assert tables.bounds.one == Norms(3, 3, 1)
    assert tables.bounds.swap == Norms(2, 2, 1)
    assert Marginals(of_sizes(1), ((0,),)).bounds.swap == Norms(0, 0, 0)


def test_tables_are_numbered_exactly_or_refused():
    many = of_sizes(*[5] * 26)
    assert Marginals(many, (tuple(range(26)),)).k == 5**26
    with pytest.raises(ParameterError, match="marginals"):
        Marginals(of_sizes(*[5] * 28), (tuple(range(28)),))
    with pytest.raises(SensitivityError, match="queries"):
        check_overflow(Marginals(many, (tuple(range(26)),)))
    assert Marginals(bits(), ((0, 1, 2),)).k == 8
