import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st
from joint_tables import all_rows, graphs
from scipy.optimize import minimize

from synthdp.errors import ParameterError
from synthdp.queries.contingency import (
    NoisyTable,
    cell_index,
    check_shape,
    check_tables,
    contingency,
    project_to_simplex,
    table_size,
)

INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64]


@given(graphs(), st.sampled_from(INTEGERS), st.sampled_from(["C", "F"]))
def test_the_cell_index_is_the_c_order_ravel_for_every_integer_type(graph, dtype, order):
    shape, cliques = graph
    rows = np.asarray(all_rows(shape), dtype=dtype, order=order)
    for clique in cliques:
        expected = np.ravel_multi_index(rows[:, clique].T.astype(int), [shape[a] for a in clique])
        np.testing.assert_array_equal(cell_index(rows, shape, clique), expected)


@pytest.mark.parametrize("k", [255, 256, 257, 65535, 65536, 65537])
def test_the_last_cell_does_not_overflow_at_the_edge_of_a_type(k):
    codes = np.array([[0, k - 1, 0]])
    assert cell_index(codes, (1, k, 1), (0, 1, 2))[0] == k - 1
    assert cell_index(np.array([[1, k - 1]]), (2, k), (0, 1))[0] == 2 * k - 1


def test_a_table_too_large_to_number_is_refused():
    with pytest.raises(ParameterError, match=r"clique.*2\*\*62"):
        cell_index(np.zeros((1, 2), int), (2**40, 2**40), (0, 1))


def test_the_empty_clique_has_one_cell_that_holds_all_rows():
    codes = np.zeros((7, 2), np.uint8)
    assert table_size((3, 4), ()) == 1
    np.testing.assert_array_equal(contingency(codes, (3, 4), ()), [7.0])


def test_contingency_sums_the_weights_of_the_rows_in_each_cell():
    codes = np.array([[0, 1], [1, 0], [0, 1]], np.uint8)
    np.testing.assert_array_equal(contingency(codes, (2, 2), (0, 1)), [0, 2, 1, 0])
    weights = np.array([0.5, 2.0, 0.25])
    np.testing.assert_array_equal(contingency(codes, (2, 2), (1,), weights), [2.0, 0.75])


def test_no_rows_give_a_table_of_zeros():
    table = contingency(np.empty((0, 2), np.uint8), (2, 3), (0, 1))
    np.testing.assert_array_equal(table, np.zeros(6))
    assert table.dtype == np.float64


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=6), st.floats(0.1, 60))
def test_the_projection_satisfies_its_optimality_conditions(values, total):
    values = np.array(values)
    projected = project_to_simplex(values, total)
    assert projected.sum() == pytest.approx(total)
    assert (projected >= 0).all()
    threshold = (values - projected)[projected > 0].max()
    np.testing.assert_allclose((values - projected)[projected > 0], threshold, atol=1e-9)
    assert (values[projected == 0] <= threshold + 1e-9).all()


def test_the_projection_is_the_nearest_point_that_a_general_solver_finds():
    values = np.array([3.0, -1.0, 0.5, 2.5])
    found = minimize(
        lambda x: ((x - values) ** 2).sum(),
        np.full(4, 0.5),
        bounds=[(0, None)] * 4,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 2},
        method="SLSQP",
    )
    np.testing.assert_allclose(project_to_simplex(values, 2.0), found.x, atol=1e-5)


@pytest.mark.parametrize("total", [0.0, -3.0])
def test_a_total_of_at_most_zero_projects_to_zeros(total):
    np.testing.assert_array_equal(project_to_simplex(np.array([1.0, 2.0]), total), [0.0, 0.0])


def test_a_noisy_table_keeps_its_own_read_only_copy():
    counts = np.array([1.0, 2.0])
    table = NoisyTable(clique=(0,), counts=counts, stddev=1)
    counts[0] = 9
    assert table.counts[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        table.counts[0] = 0.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clique": (1, 0)}, "clique"),
        ({"clique": (-1,)}, "clique"),
        (
            {"counts": np.array([1.0, np.nan])},
            "counts",
        ),
        ({"counts": np.zeros((2, 2))}, "counts"),
        ({"stddev": 0.0}, "stddev"),
        ({"stddev": np.inf}, "stddev"),
    ],
)
def test_a_noisy_table_that_makes_no_sense_is_refused(settings, message):
    with pytest.raises(ParameterError, match=message):
        NoisyTable(**({"clique": (0,), "counts": np.zeros(2), "stddev": 1.0} | settings))


@pytest.mark.parametrize(
    ("clique", "message"),
    [((0, 2), r"\(0, 2\)"), ((0, 1), r"\(0, 1\).*6")],
)
def test_a_table_that_does_not_fit_the_shape_is_refused(clique, message):
    with pytest.raises(ParameterError, match=message):
        check_tables([NoisyTable(clique=clique, counts=np.zeros(2), stddev=1.0)], (2, 3))


def test_a_column_needs_a_code():
    with pytest.raises(ParameterError, match="shape"):
        check_shape((2, 0))


def test_every_row_of_a_small_table_is_counted_once():
    shape = (2, 3, 2)
    for clique in itertools.combinations(range(3), 2):
        table = contingency(all_rows(shape), shape, clique)
        np.testing.assert_array_equal(table, np.full(table_size(shape, clique), 12 / table_size(shape, clique)))
