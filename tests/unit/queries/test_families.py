"""What is particular to marginals, distances, cosines and stacks, beyond the contract of all families."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from query_cases import cells_of, mixed, ordered

from synthdp.domain.domain import domain_of
from synthdp.errors import ParameterError, SensitivityError
from synthdp.queries.distances import MarginalDistances
from synthdp.queries.linear import Stack
from synthdp.queries.marginals import Marginals, all_cliques, marginals, one_ways
from synthdp.queries.norms import Norms, RecordBounds
from synthdp.queries.protocol import check_overflow
from synthdp.queries.trigonometric import (
    Cosine,
    Indicator,
    TensorBasis,
    chebyshev,
    mixed_terms,
    tensor_terms,
)
from synthdp.schema.columns import Boolean, Integer
from synthdp.schema.schema import Schema


def test_a_marginal_counts_rows_cell_by_cell():
    domain = mixed()
    codes = cells_of(domain)[[0, 0, 5, 17, 63]]
    both = Marginals(domain, ((2, 0), (1,)))
    pairs, single = both.split(both.sums(codes))
    counted = np.zeros((domain.shape[2], domain.shape[0]), int)
    np.add.at(counted, (codes[:, 2], codes[:, 0]), 1)
    assert (pairs.reshape(counted.shape) == counted).all()
    assert (single == np.bincount(codes[:, 1], minlength=domain.shape[1])).all()
    assert [len(part) for part in (pairs, single)] == list(both.sizes)


def test_marginals_are_named_by_columns():
    domain = mixed()
    assert marginals(domain, [["x", "n"]]).cliques == ((2, 0),)
    assert one_ways(domain).cliques == ((0,), (1,), (2,))
    assert all_cliques(domain, 2) == ((0, 1), (0, 2), (1, 2))


@pytest.mark.parametrize("cliques", [(), ((),), ((0, 0),), ((3,),), ((-1,),)])
def test_cliques_must_be_different_columns_of_the_domain(cliques):
    with pytest.raises(ParameterError, match="clique"):
        Marginals(mixed(), cliques)


def test_a_distance_is_that_of_the_tables():
    domain = mixed()
    tables = one_ways(domain)
    expected = np.arange(tables.k)
    codes = cells_of(domain)[[3, 4, 5]]
    distances = MarginalDistances(tables, expected, 1)
    parts = [np.abs(part).sum() for part in tables.split(tables.sums(codes) - expected)]
    assert distances.finish(distances.sums(codes)).tolist() == parts


def test_distances_need_an_expectation_per_cell():
    with pytest.raises(ParameterError, match="expected"):
        MarginalDistances(one_ways(mixed()), np.zeros(3, int), 1)
    with pytest.raises(ParameterError, match="denominator"):
        MarginalDistances(one_ways(mixed()), np.zeros(one_ways(mixed()).k, int), 0)


@given(st.floats(-1, 1), st.integers(0, 12))
def test_chebyshev_polynomials_obey_their_recurrence(x, m):
    x = np.array([x])
    left = chebyshev(x, m + 2)
    assert left == pytest.approx(2 * x * chebyshev(x, m + 1) - chebyshev(x, m), abs=1e-12)
    assert abs(left[0]) <= 1


def test_chebyshev_is_zero_where_there_is_no_point():
    assert chebyshev(np.array([np.nan, 1.0, -1.0]), 3).tolist() == [0, 1, -1]


def test_a_term_is_the_product_of_its_factors():
    domain = mixed()
    basis = TensorBasis(domain, ((Cosine(0, 1), Indicator(1, 0)),), denominator=1000)
    cells = cells_of(domain)
    points = domain.axes[0].points[cells[:, 0]]
    product = np.where(np.isnan(points), 0, points) * (cells[:, 1] == 0)
    assert (basis.features(cells)[:, 0] == np.rint(1000 * product)).all()


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("t", [1, 2, 4])
def test_numbers_of_terms(d, t):
    columns = range(d)
    assert len(tensor_terms(columns, t)) == t**d - 1
    assert len(set(tensor_terms(columns, t))) == t**d - 1


def test_mixed_terms_separate_all_cells():
    """Cosines and indicators together tell any two cells of the domain apart."""
    domain = mixed()
    basis = TensorBasis(domain, mixed_terms(domain, order=1, degree=2), denominator=2**20)
    assert len(np.unique(basis.features(cells_of(domain)), axis=0)) == domain.cells


FACTORS = f"the factors of each of terms must be on different columns, at positions from 0 to {len(mixed()) - 1}"


@pytest.mark.parametrize(
    ("terms", "message"),
    [((), "terms must hold at least one term"),
     (((Cosine(0, 1), Cosine(0, 2)),), FACTORS),
     (((Cosine(7, 1),),), FACTORS),
     (((Cosine(1, 1),),), "column 'c' has no order, which a Cosine needs: name an ordered column"),
     (((Cosine(0, -1),),), "degree (-1) of a Cosine must be at least 0"),
     (((Indicator(0, 99),),), "cell (99) of an Indicator on column 'n' must be from 0 to " + str(mixed().axes[0].size - 1))],
)  # fmt: skip
def test_impossible_terms_are_refused(terms, message):
    with pytest.raises(ParameterError) as refused:
        TensorBasis(mixed(), terms)
    assert str(refused.value) == message


def test_a_stack_is_its_parts_in_one_unit():
    domain = mixed()
    counts, cosines = one_ways(domain), TensorBasis(domain, ((Cosine(0, 1),),), denominator=6)
    stack = Stack((counts, cosines))
    cells = cells_of(domain)
    assert stack.denominator == 6
    assert (stack.sums(cells) == np.concatenate([counts.sums(cells) * 6, cosines.sums(cells)])).all()
    assert stack.bounds.one == Norms(3 * 6 + 6, 3 * 36 + 36, 6)


def test_a_stack_needs_one_domain_and_units_that_divide():
    domain = mixed()
    with pytest.raises(ParameterError, match="parts"):
        Stack((one_ways(domain), one_ways(mixed())))
    with pytest.raises(ParameterError, match="parts"):
        Stack(())
    cosines = [TensorBasis(domain, ((Cosine(0, 1),),), denominator=denominator) for denominator in (2, 3)]
    with pytest.raises(ParameterError, match="denominator"):
        Stack(tuple(cosines))


def test_norms_add_and_multiply_exactly():
    one = Norms(3, 5, 2)
    assert one.times(3) == Norms(9, 45, 6)
    assert one.plus(Norms(1, 1, 1)) == Norms(4, 6, 2)
    assert RecordBounds.of(one).swap == one.times(2)
    assert RecordBounds.of(one, Norms(1, 1, 1)).plus(RecordBounds.of(one)).swap == Norms(7, 21, 4)


def test_sums_that_may_overflow_are_refused():
    with pytest.raises(SensitivityError, match="1073741824"):
        TensorBasis(ordered(), ((Cosine(0, 1),),), denominator=2**30)
    check_overflow(TensorBasis(ordered(), ((Cosine(0, 1),),), denominator=2**27))


def test_the_domain_of_a_boolean_and_an_integer():
    domain = domain_of(Schema({"b": Boolean(), "n": Integer(0, 99)}), bins=4)
    assert domain.shape == (3, 5)
