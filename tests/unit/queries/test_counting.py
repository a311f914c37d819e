"""Fast counting against counting one row at a time."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from synthdp.queries import marginals
from synthdp.queries.marginals import count_tables, pack, weighted_tables


def one_by_one(codes, shape, cliques):
    tables = []
    for clique in cliques:
        table = np.zeros([shape[j] for j in clique], np.int64)
        for row in codes.tolist():
            table[tuple(row[j] for j in clique)] += 1
        tables.append(table.ravel())
    return np.concatenate(tables)


@st.composite
def counting_tasks(draw):
    shape = draw(st.lists(st.integers(1, 7), min_size=1, max_size=7))
    rows = draw(st.integers(0, 60))
    seed = draw(st.integers(0, 2**32 - 1))
    dtype = draw(st.sampled_from([np.uint8, np.uint16, np.uint32, np.int64]))
    order = draw(st.sampled_from("CF"))
    rng = np.random.default_rng(seed)
    codes = np.array(rng.integers(0, shape, (rows, len(shape))), dtype, order=order)
    ways = range(1, min(4, len(shape)) + 1)
    every = [p for way in ways for c in itertools.combinations(range(len(shape)), way) for p in (c, c[::-1])]
    cliques = draw(st.lists(st.sampled_from(every), min_size=1, max_size=30))
    return codes, shape, cliques


@given(counting_tasks(), st.sampled_from([1, 4, 30, 65_536]), st.sampled_from([1, 7, 1 << 20]), st.sampled_from([0, 2]))
def test_counts_equal_counting_one_row_at_a_time_whatever_is_packed(task, most_cells, slab, few_tables):
    codes, shape, cliques = task
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marginals, "FEW_TABLES", few_tables)
        patch.setattr(marginals, "MOST_CELLS", most_cells)
        patch.setattr(marginals, "SLAB", slab)
        np.testing.assert_array_equal(count_tables(codes, shape, cliques), one_by_one(codes, shape, cliques))


@given(counting_tasks(), st.sampled_from([1, 4, 30, 65_536]), st.sampled_from([0, 2]))
def test_sums_of_weights_equal_adding_one_row_at_a_time_whatever_is_packed(task, most_cells, few_tables):
    codes, shape, cliques = task
    weights = np.random.default_rng(len(codes)).exponential(size=len(codes))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marginals, "FEW_TABLES", few_tables)
        patch.setattr(marginals, "MOST_CELLS", most_cells)
        found = weighted_tables(codes, shape, cliques, weights)
    for clique, table in zip(cliques, found, strict=True):
        expected = np.zeros([shape[j] for j in clique])
        for row, weight in zip(codes.tolist(), weights, strict=True):
            expected[tuple(row[j] for j in clique)] += weight
        np.testing.assert_allclose(table, expected.ravel(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rows", [50, 1000, 70_000])
def test_all_pairs_of_many_columns_equal_direct_counts(rows):
    rng = np.random.default_rng(rows)
    shape = (2, 2, 3, 12, 16, 17, 42, 2, 300, 9, 1, 5)
    codes = np.asfortranarray(rng.integers(0, shape, (rows, len(shape))).astype(np.uint16))
    cliques = list(itertools.combinations(range(len(shape)), 2))
    direct = [
        np.bincount(codes[:, a].astype(int) * shape[b] + codes[:, b], minlength=shape[a] * shape[b]) for a, b in cliques
    ]
    np.testing.assert_array_equal(count_tables(codes, shape, cliques), np.concatenate(direct))


def test_totals_are_64_bit_whole_numbers_also_without_rows():
    counts = count_tables(np.zeros((0, 2), np.uint8), (3, 4), [(0,), (0, 1)])
    assert counts.dtype == np.int64
    assert counts.tolist() == [0] * 15


@given(st.lists(st.integers(1, 50), min_size=1, max_size=20), st.integers(1, 256))
def test_packs_hold_every_column_once_and_stay_small_unless_a_column_is_large(shape, cells):
    packs = pack(range(len(shape)), shape, cells)
    assert sorted(j for columns in packs for j in columns) == list(range(len(shape)))
    assert all(math.prod(shape[j] for j in columns) <= cells for columns in packs if len(columns) > 1)


def test_a_table_larger_than_two_bytes_is_counted_directly():
    shape = (300, 300, 2)
    codes = np.array([[299, 299, 1], [0, 0, 0], [299, 299, 0]], np.uint16)
    counts = count_tables(codes, shape, [(0, 1, 2), (1, 0)])
    assert counts[-1] == 2
    assert counts[: 300 * 300 * 2].nonzero()[0].tolist() == [0, 179_998, 179_999]


@pytest.mark.parametrize(
    "shape",
    [(1, 256), (256, 1), (1, 1, 256), (1, 65_536), (65_536, 1), (16, 16), (1, 255), (1, 257), (256, 256), (2, 128, 1)],
)
@pytest.mark.parametrize("cliques", ["one", "all"])
def test_tables_at_the_end_of_a_type_are_counted(shape, cliques):
    """A table of 256 cells is numbered by one byte, but its column of 256 cells is no number of one byte."""
    columns = range(len(shape))
    chosen = {"one": [tuple(columns)], "all": list(itertools.permutations(columns, 2))}[cliques]
    codes = np.array([[0] * len(shape), [size - 1 for size in shape], [size // 2 for size in shape]])
    np.testing.assert_array_equal(count_tables(codes, shape, chosen), one_by_one(codes, shape, chosen))
